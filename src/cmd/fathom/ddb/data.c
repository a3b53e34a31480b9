/* SPDX-License-Identifier: BSD-2-Clause */
/* data - copies the data of a volume to a sparse file, and back. The digest is SHA-256 of all bytes. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/file.h"
#include "cmd/fathom/ddb/internal.h"

enum { PIECE_BYTES = 1 << 20, HOLE_BYTES = 4096, DIGEST_BYTES = 32 };

static_assert(PIECE_BYTES % HOLE_BYTES == 0, "a piece consists of whole blocks");

static const uint8_t zeroes[HOLE_BYTES];

struct copying {
	int from, to;
	uint64_t size_bytes; /* to copy; `from` may have less, which reads as zeroes */
	EVP_MD_CTX *digest;
	uint8_t *piece;
	uint64_t written_bytes;
};

static void add_to_digest(struct copying *self, const void *data, size_t bytes)
{
	must(EVP_DigestUpdate(self->digest, data, bytes) == 1);
}

static void add_zeroes(struct copying *self, uint64_t bytes)
{
	memset(self->piece, 0, PIECE_BYTES);
	for (uint64_t left = bytes; left > 0; left -= min_u64(left, PIECE_BYTES))
		add_to_digest(self, self->piece, min_u64(left, PIECE_BYTES));
}

/* Write the blocks of the piece that are not zero. */
static int write_piece(struct copying *self, uint64_t offset, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += HOLE_BYTES) {
		size_t part = min_u64(bytes - at, HOLE_BYTES);
		int error;

		if (memcmp(self->piece + at, zeroes, part) == 0)
			continue;
		error = file_write_at(self->to, self->piece + at, part, offset + at);
		if (error)
			return error;
		self->written_bytes += part;
	}
	return 0;
}

static int copy_extent(struct copying *self, uint64_t offset, uint64_t end)
{
	while (offset < end) {
		ssize_t bytes = pread(self->from, self->piece, min_u64(PIECE_BYTES, end - offset), (off_t)offset);
		int error;

		if (bytes < 0 && errno == EINTR)
			continue;
		if (bytes <= 0)
			return bytes < 0 ? -errno : -EIO; /* it became shorter */
		add_to_digest(self, self->piece, (size_t)bytes);
		error = write_piece(self, offset, (size_t)bytes);
		if (error)
			return error;
		offset += (uint64_t)bytes;
	}
	return 0;
}

/* Copy data, and skip holes. */
static int copy_extents(struct copying *self, uint64_t from_bytes)
{
	uint64_t at = 0, end = min_u64(self->size_bytes, from_bytes);

	while (at < end) {
		off_t data = lseek(self->from, (off_t)at, SEEK_DATA), hole;
		int error;

		if (data < 0 && errno != ENXIO)
			return -errno;
		if (data < 0 || (uint64_t)data >= end)
			break;
		add_zeroes(self, (uint64_t)data - at);
		hole = lseek(self->from, data, SEEK_HOLE);
		if (hole < 0)
			return -errno;
		at = min_u64((uint64_t)hole, end);
		error = copy_extent(self, (uint64_t)data, at);
		if (error)
			return error;
	}
	add_zeroes(self, self->size_bytes - at);
	return 0;
}

static int copy_data(int from, int to, uint64_t size_bytes, struct store_copy *copy_ret)
{
	struct copying self = { .from = from, .to = to, .size_bytes = size_bytes, .digest = EVP_MD_CTX_new() };
	uint8_t digest[DIGEST_BYTES];
	struct stat stat;
	int error = 0;

	self.piece = malloc(PIECE_BYTES);
	must(self.digest && self.piece && EVP_DigestInit_ex(self.digest, EVP_sha256(), NULL) == 1);
	if (fstat(from, &stat) != 0 || ftruncate(to, (off_t)size_bytes) != 0)
		error = -errno;
	if (error == 0)
		error = copy_extents(&self, (uint64_t)stat.st_size);
	if (error == 0 && fsync(to) != 0)
		error = -errno;
	must(EVP_DigestFinal_ex(self.digest, digest, NULL) == 1);
	EVP_MD_CTX_free(self.digest);
	free(self.piece);
	*copy_ret = (struct store_copy){ .size_bytes = size_bytes, .written_bytes = self.written_bytes };
	for (size_t i = 0; i < DIGEST_BYTES; i++)
		snprintf(copy_ret->sha256 + 2 * i, 3, "%02x", digest[i]);
	return error;
}

/* ---- dump ---- */

int store_dump(const struct store *store, const struct store_object *object, const char *to, struct store_copy *copy_ret,
	       struct fathom_fault *why)
{
	char name[STORE_DATA_NAME_BYTES], path[STORE_PATH_BYTES_MAX];
	int error, in, out;

	if (object->kind == STORE_POOL)
		return fault(why, -EINVAL, "%s is a pool: name a volume or a snapshot", object->name);
	if (!object->is_read)
		return fault(
			why, -EINVAL,
			"the record of %s is damaged, so the size and the generation are not known; copy the data file "
			"in %s/%s, or repair the record with value_load",
			object->name, store->root_path, object->path);
	store_data_name(object, name);
	snprintf(path, sizeof(path), "%s/%s", object->path, name);
	in = store_open_path(store, path, O_RDONLY);
	if (in < 0)
		return fault(why, in, "cannot open %s: %s", path, strerror(-in));
	out = open(to, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (out < 0) {
		error = -errno;
		close(in);
		return fault(why, error, "cannot create %s: %s", to, strerror(-error));
	}
	error = copy_data(in, out, store_size_of(object), copy_ret);
	close(in);
	close(out);
	if (error == 0)
		return 0;
	unlink(to);
	return fault(why, error, "cannot copy %s to %s: %s", path, to, strerror(-error));
}

/* ---- load ---- */

/* Check the file that will be loaded, and open it. */
static int open_source(const struct store_object *object, const char *from, int *fd_ret, struct fathom_fault *why)
{
	struct stat stat;
	int fd;

	if (object->kind != STORE_VOLUME)
		return fault(why, -EINVAL, "%s is not a volume", object->name);
	if (!object->is_read)
		return fault(why, -EINVAL, "the record of %s is damaged: repair it first", object->name);
	if (object->record.volume.generation == INT32_MAX)
		return fault(why, -EINVAL, "the record of %s has the highest generation", object->name);
	fd = open(from, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return fault(why, -errno, "cannot open %s: %s", from, strerror(errno));
	if (fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode) && (uint64_t)stat.st_size == store_size_of(object)) {
		*fd_ret = fd;
		return 0;
	}
	close(fd);
	return fault(why, -EINVAL, "%s must be a file of %" PRIu64 " bytes, the size of the volume", from,
		     store_size_of(object));
}

/* Build the data file in pending. `name_ret`: its name there. */
static int build_data(struct store *store, int from, const struct store_object *object,
		      char name_ret[STORE_UUID_NAME_BYTES], struct store_copy *copy_ret)
{
	char path[STORE_PATH_BYTES_MAX];
	int error, fd;

	store_new_name(name_ret);
	if (mkdirat(store->root, "pending", 0700) != 0 && errno != EEXIST)
		return -errno;
	snprintf(path, sizeof(path), "pending/%s", name_ret);
	fd = openat(store->root, path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	error = object->record.volume.thick && posix_fallocate(fd, 0, (off_t)store_size_of(object)) != 0 ? -ENOSPC : 0;
	if (error == 0)
		error = copy_data(from, fd, store_size_of(object), copy_ret);
	close(fd);
	if (error)
		unlinkat(store->root, path, 0);
	return error;
}

/* Give the volume the data file `name` of pending: first the file gets its place, then the record its generation. */
static int take_data(struct store *store, const struct store_object *object, const char *name, struct fathom_fault *why)
{
	struct store_object next = *object;
	char data[STORE_DATA_NAME_BYTES], sums[STORE_PATH_BYTES_MAX], *text;
	size_t bytes;
	int error = 0, folder = store_open_path(store, object->path, O_RDONLY | O_DIRECTORY),
	    pending = store_open_folder(store->root, "pending");

	next.record.volume.generation++;
	store_data_name(&next, data);
	if (folder < 0 || pending < 0)
		error = folder < 0 ? folder : pending;
	else if (renameat(pending, name, folder, data) != 0 || fsync(folder) != 0 || fsync(pending) != 0)
		error = -errno;
	if (error)
		error = fault(why, error, "cannot give %s its new data: %s", object->name, strerror(-error));
	if (error == 0 && store_has_sums(&next)) {
		store_sums_name(&next, data);
		snprintf(sums, sizeof(sums), "%s/%s", object->path, data);
		error = store_make_sums(store, sums, store_size_of(object), why);
	}
	if (error == 0) {
		must(volume_record_encode(&next.record.volume, &text, &bytes) == 0);
		error = store_replace_file(store, folder, "volume.json", text, bytes, why);
		free(text);
	}
	if (folder >= 0)
		close(folder);
	if (pending >= 0)
		close(pending);
	return error;
}

int store_load(struct store *store, const struct store_object *object, const char *from, const char *sha256,
	       struct store_copy *copy_ret, struct fathom_fault *why)
{
	char name[STORE_UUID_NAME_BYTES], path[STORE_PATH_BYTES_MAX];
	int fd = -1, error = store_must_be_writable(store, why);

	if (error == 0)
		error = open_source(object, from, &fd, why);
	if (error)
		return error;
	error = build_data(store, fd, object, name, copy_ret);
	close(fd);
	if (error)
		return fault(why, error, "cannot copy %s into the storage: %s", from, strerror(-error));
	if (sha256 && strcasecmp(sha256, copy_ret->sha256) != 0) {
		snprintf(path, sizeof(path), "pending/%s", name);
		unlinkat(store->root, path, 0);
		return fault(why, -EBADMSG, "%s has the digest %s, not %s; the volume is unchanged", from, copy_ret->sha256,
			     sha256);
	}
	error = take_data(store, object, name, why);
	if (error)
		return error;
	/* the former generation; if it stays, the start of an engine deletes it */
	store_data_name(object, name);
	snprintf(path, sizeof(path), "%s/%s", object->path, name);
	if (object->has_data) {
		error = store_trash(store, path, NULL);
		maybe(error != 0);
	}
	if (store_has_sums(object)) {
		store_sums_name(object, name);
		snprintf(path, sizeof(path), "%s/%s", object->path, name);
		error = store_trash(store, path, NULL);
		maybe(error != 0);
	}
	return 0;
}
