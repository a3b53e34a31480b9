/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * upload - large objects, in slices: written to a file without a name before they are registered, compared with what is
 * there, and given back after they are removed.
 *
 *   begin -> write ... -> map -> compare ... -> stash_add_uploaded(): the file gets its names, or those of an equal one
 *                                            -> end: what is mapped, and a file that got no name, is given back
 *
 * A file without a name (O_TMPFILE) is gone with its daemon. Removing the last name of a large file hands its memory back
 * in one go, so such a file is kept open and made shorter, slice by slice (stash_give_back()). If too many are on their way
 * out, the next is given back at once.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/file.h"
#include "inspect/probed/stash/internal.h"

enum { LEAVING_MAX = 64, PIECE_BYTES = 64 << 10 };
/* Giving back takes a fraction of what writing takes. */
enum { GIVE_BACK_BYTES = 4 * STASH_SLICE_BYTES };

/* What is to be given back: of an upload, or of a file in dof/ that lost its last name. */
struct stash_leaving {
	TAILQ_ENTRY(stash_leaving) link;
	int fd;
	uint64_t bytes; /* of the file, to be cut off; 0: others have it */
	void *map;
	uint64_t map_bytes;
};

struct stash_upload {
	struct stash *stash;
	int fd;
	uint64_t bytes;
	void *map;
	bool has_name;
	/* the comparison */
	int other;
	uint64_t other_inode, compared;
	bool same;
};

/* ---- giving back ---- */

static void end_leaving(struct stash *stash, struct stash_leaving *leaving)
{
	TAILQ_REMOVE(&stash->leaving, leaving, link);
	stash->leaving_count--;
	if (leaving->map_bytes > 0)
		munmap(leaving->map, leaving->map_bytes);
	if (leaving->fd >= 0)
		close(leaving->fd);
	free(leaving);
}

static void leave(struct stash *stash, struct stash_leaving what)
{
	struct stash_leaving *leaving = stash->leaving_count < LEAVING_MAX ? malloc(sizeof(*leaving)) : NULL;

	if (leaving) {
		*leaving = what;
		TAILQ_INSERT_TAIL(&stash->leaving, leaving, link);
		stash->leaving_count++;
		return;
	}
	if (what.map_bytes > 0)
		munmap(what.map, what.map_bytes);
	close(what.fd);
}

void stash_leave_file(struct stash *stash, int fd, uint64_t bytes)
{
	leave(stash, (struct stash_leaving){ .fd = fd, .bytes = bytes });
}

void stash_leave_all(struct stash *stash)
{
	while (!TAILQ_EMPTY(&stash->leaving))
		end_leaving(stash, TAILQ_FIRST(&stash->leaving));
}

bool stash_give_back(struct stash *stash)
{
	struct stash_leaving *leaving = TAILQ_FIRST(&stash->leaving);
	uint64_t left;

	if (!leaving)
		return false;
	if (leaving->map_bytes > 0) {
		left = leaving->map_bytes > GIVE_BACK_BYTES ? leaving->map_bytes - GIVE_BACK_BYTES : 0;
		left = round_up(left, GIVE_BACK_BYTES);
		left = left < leaving->map_bytes ? left : 0;
		munmap((char *)leaving->map + left, leaving->map_bytes - left);
		leaving->map_bytes = left;
	} else if (leaving->bytes > 0) {
		leaving->bytes -= min_u64(leaving->bytes, GIVE_BACK_BYTES);
		if (ftruncate(leaving->fd, (off_t)leaving->bytes) != 0)
			leaving->bytes = 0; /* closing it does the rest */
	}
	if (leaving->map_bytes == 0 && leaving->bytes == 0)
		end_leaving(stash, leaving);
	return !TAILQ_EMPTY(&stash->leaving);
}

bool stash_has_to_give_back(const struct stash *stash)
{
	return !TAILQ_EMPTY(&stash->leaving);
}

/* ---- an upload ---- */

int stash_upload_begin(struct stash *stash, uint64_t bytes, struct stash_upload **upload_ret)
{
	struct stash_upload *upload = calloc(1, sizeof(*upload));
	int rc;

	must(bytes > 0);
	if (!upload)
		return -ENOMEM;
	*upload = (struct stash_upload){ .stash = stash, .bytes = bytes, .other = -1 };
	upload->fd = openat(stash->work, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0644);
	if (upload->fd < 0) {
		rc = errno == EISDIR || errno == EINVAL ? -EOPNOTSUPP : -errno; /* as filesystems without it say */
		free(upload);
		return rc;
	}
	*upload_ret = upload;
	return 0;
}

int stash_upload_write(struct stash_upload *upload, uint64_t at, const void *data, size_t bytes)
{
	must(!upload->map && at + bytes <= upload->bytes);
	return file_write_at(upload->fd, data, bytes, at);
}

int stash_upload_map(struct stash_upload *upload, const void **data_ret)
{
	struct stat status;

	must(!upload->map);
	if (fstat(upload->fd, &status) != 0)
		return -errno;
	if ((uint64_t)status.st_size != upload->bytes)
		return -EIO; /* beyond its end there would be a signal */
	upload->map = mmap(NULL, upload->bytes, PROT_READ, MAP_SHARED, upload->fd, 0);
	if (upload->map == MAP_FAILED) {
		upload->map = NULL;
		return -errno;
	}
	*data_ret = upload->map;
	return 0;
}

/* What it may be equal to: what this process has of the mapping, or what the first process that came had. */
static void open_other(struct stash_upload *upload, pid_t pid, const struct stash_mapping *mapping, uint32_t block)
{
	char name[STASH_FILE_NAME_BYTES], path[STASH_PATH_BYTES];
	struct stash *stash = upload->stash;
	struct stat status;

	stash_mapping_name(mapping, name);
	snprintf(path, sizeof(path), "%d/%.*s/%s", (int)pid, STASH_MAPPING_NAME_BYTES, name, stash_raw_name(block));
	upload->other = openat(stash->pids, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (upload->other < 0) {
		stash_object_name(mapping, pid, block, false, name);
		upload->other = openat(stash->dof, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	}
	upload->same = upload->other >= 0 && fstat(upload->other, &status) == 0 && S_ISREG(status.st_mode) &&
		       (uint64_t)status.st_size == upload->bytes;
	upload->other_inode = upload->same ? status.st_ino : 0;
}

bool stash_upload_compare(struct stash_upload *upload, pid_t pid, const struct stash_mapping *mapping, uint32_t block)
{
	uint64_t end = min_u64(upload->compared + STASH_SLICE_BYTES, upload->bytes);
	uint8_t piece[PIECE_BYTES];

	must(upload->map);
	if (upload->other < 0)
		open_other(upload, pid, mapping, block);
	while (upload->same && upload->compared < end) {
		uint64_t want = min_u64(sizeof(piece), end - upload->compared);
		ssize_t got = pread(upload->other, piece, want, (off_t)upload->compared);

		upload->same = got > 0 && memcmp(piece, (char *)upload->map + upload->compared, (size_t)got) == 0;
		upload->compared += got > 0 ? (uint64_t)got : 0;
	}
	return upload->same && upload->compared < upload->bytes;
}

int stash_upload_is(const struct stash_upload *upload, int at, const char *name, bool *same_ret)
{
	struct stat status;

	if (fstatat(at, name, &status, AT_SYMLINK_NOFOLLOW) != 0)
		return -errno;
	*same_ret = upload->same && upload->compared == upload->bytes && status.st_ino == upload->other_inode;
	return 0;
}

int stash_upload_link(struct stash_upload *upload, int folder, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", upload->fd);
	if (linkat(AT_FDCWD, path, folder, name, AT_SYMLINK_FOLLOW) != 0)
		return -errno;
	upload->has_name = true;
	return 0;
}

void stash_upload_end(struct stash_upload *upload)
{
	struct stat status;
	bool is_ours;

	if (!upload)
		return;
	/* a registration that failed may have taken its names away again */
	is_ours = !upload->has_name || (fstat(upload->fd, &status) == 0 && status.st_nlink == 0);
	if (upload->other >= 0)
		close(upload->other);
	leave(upload->stash, (struct stash_leaving){ .fd = upload->fd,
						     .bytes = is_ours ? upload->bytes : 0,
						     .map = upload->map,
						     .map_bytes = upload->map ? upload->bytes : 0 });
	free(upload);
}
