/* SPDX-License-Identifier: BSD-2-Clause */
/* tree - files and folders: whole writes, listing, removal of folders with their content. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/file.h"
#include "inspect/probed/stash/internal.h"

/* Our tree has six levels; registrations cannot make it deeper. */
enum { DEPTH_MAX = 16, ENTRIES_BYTES = 16384 };

/* ---- lists ---- */

static int grow_array(void **memory, size_t *room, size_t needed, size_t element_bytes)
{
	size_t more = round_up_power_of_two(max_u64(needed, 64));
	void *grown;

	if (needed <= *room)
		return 0;
	grown = realloc(*memory, more * element_bytes);
	if (!grown)
		return -ENOMEM;
	*memory = grown;
	*room = more;
	return 0;
}

int stash_list_add(struct stash_list *list, const char *name)
{
	size_t bytes = strlen(name) + 1, offset_room = list->offset_room;
	void *text = list->text, *offsets = list->offsets;
	int rc;

	if (list->used + bytes > UINT32_MAX)
		return -E2BIG;
	rc = grow_array(&text, &list->room, list->used + bytes, 1);
	list->text = text;
	if (rc == 0)
		rc = grow_array(&offsets, &offset_room, list->count + 1ul, sizeof(list->offsets[0]));
	list->offsets = offsets;
	list->offset_room = (uint32_t)offset_room;
	if (rc)
		return rc;
	must(list->count < list->offset_room);
	must(list->used + bytes <= list->room);
	list->offsets[list->count++] = (uint32_t)list->used;
	memcpy(list->text + list->used, name, bytes);
	list->used += bytes;
	return 0;
}

void stash_list_free(struct stash_list *list)
{
	free(list->text);
	free(list->offsets);
	*list = (struct stash_list){ 0 };
}

static int compare_listed_names(const void *a, const void *b, void *text)
{
	return strcmp((const char *)text + *(const uint32_t *)a, (const char *)text + *(const uint32_t *)b);
}

/* List the next entries of `folder`. 0: the end. */
static ssize_t list_next_entries(int folder, struct stash_list *list)
{
	char entries[ENTRIES_BYTES] __attribute__((aligned(16)));
	ssize_t bytes = getdents64(folder, entries, sizeof(entries));

	if (bytes < 0)
		return -errno;
	for (ssize_t at = 0; at < bytes;) {
		const struct dirent64 *entry = (const void *)(entries + at);
		int rc = 0;

		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			rc = stash_list_add(list, entry->d_name);
		if (rc)
			return rc;
		at += entry->d_reclen;
	}
	return bytes;
}

int stash_list_folder(int folder, struct stash_list *list)
{
	ssize_t rc;

	must(list->count == 0);
	if (lseek(folder, 0, SEEK_SET) != 0)
		return -errno;
	do {
		rc = list_next_entries(folder, list);
	} while (rc > 0);
	if (rc == 0 && list->count > 1)
		qsort_r(list->offsets, list->count, sizeof(list->offsets[0]), compare_listed_names, list->text);
	return (int)rc;
}

/* ---- folders and files ---- */

int stash_open_folder(int at, const char *name, int *fd_ret)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	*fd_ret = fd;
	return 0;
}

int stash_make_folder(int at, const char *name, int *fd_ret)
{
	if (mkdirat(at, name, 0755) != 0 && errno != EEXIST)
		return -errno;
	return stash_open_folder(at, name, fd_ret);
}

int stash_write_file(int at, const char *name, const void *data, size_t bytes)
{
	int fd = openat(at, name, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0644);
	int rc;

	if (fd < 0)
		return -errno;
	rc = file_write(fd, data, bytes);
	if (close(fd) != 0 && rc == 0)
		rc = -errno;
	return rc;
}

int stash_put_size(int at, const char *path, uint64_t size, int flags)
{
	int fd = openat(at, path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC | flags, 0644);
	int rc;

	if (fd < 0)
		return -errno;
	rc = ftruncate(fd, (off_t)size) == 0 ? 0 : -errno;
	close(fd);
	return rc;
}

static int read_bytes(int fd, size_t bytes, void *data)
{
	for (size_t done = 0; done < bytes;) {
		ssize_t got = read(fd, (char *)data + done, bytes - done);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? -errno : -EIO;
		done += (size_t)got;
	}
	return 0;
}

static int read_open_file(int fd, size_t bytes_max, void **data_ret, size_t *bytes_ret)
{
	struct stat status;
	char *data;
	int rc;

	if (fstat(fd, &status) != 0)
		return -errno;
	if (!S_ISREG(status.st_mode))
		return -EINVAL;
	if ((uint64_t)status.st_size > bytes_max)
		return -EFBIG;
	data = malloc((size_t)status.st_size + 1);
	if (!data)
		return -ENOMEM;
	rc = read_bytes(fd, (size_t)status.st_size, data);
	if (rc) {
		free(data);
		return rc;
	}
	data[status.st_size] = '\0';
	*data_ret = data;
	*bytes_ret = (size_t)status.st_size;
	return 0;
}

int stash_read_file(int at, const char *name, size_t bytes_max, void **data_ret, size_t *bytes_ret)
{
	/* O_NONBLOCK: open() must not wait for a writer if a damaged tree has a pipe here */
	int fd = openat(at, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	int rc;

	if (fd < 0)
		return errno == ELOOP ? -EINVAL : -errno;
	rc = read_open_file(fd, bytes_max, data_ret, bytes_ret);
	close(fd);
	return rc;
}

int stash_read_link(int at, const char *name, char *target)
{
	ssize_t bytes = readlinkat(at, name, target, STASH_MAPPING_NAME_BYTES);

	if (bytes < 0)
		return -errno;
	if (bytes >= STASH_MAPPING_NAME_BYTES)
		return -EINVAL;
	target[bytes] = '\0';
	return 0;
}

int stash_unlink(int at, const char *name, int flags)
{
	return unlinkat(at, name, flags) == 0 || errno == ENOENT ? 0 : -errno;
}

int stash_unlink_links(int folder, const char *target)
{
	struct stash_list list = { 0 };
	int rc = stash_list_folder(folder, &list);

	for (uint32_t i = 0; i < list.count && rc == 0; i++) {
		char there[STASH_MAPPING_NAME_BYTES];

		rc = stash_read_link(folder, stash_list_at(&list, i), there);
		if (rc == 0 && strcmp(there, target) == 0)
			rc = stash_unlink(folder, stash_list_at(&list, i), 0);
		else if (rc == -EINVAL)
			rc = 0; /* not a link */
	}
	stash_list_free(&list);
	return rc;
}

static int remove_content(int folder, int depth);

static int remove_entry(int at, const char *name, int depth)
{
	int fd = -1, rc;

	if (unlinkat(at, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM) /* for folders: Linux, POSIX */
		return -errno;
	if (depth == DEPTH_MAX)
		return -ELOOP;
	rc = stash_open_folder(at, name, &fd);
	if (rc)
		return rc;
	rc = remove_content(fd, depth + 1);
	close(fd);
	return rc ? rc : stash_unlink(at, name, AT_REMOVEDIR);
}

static int remove_content(int folder, int depth)
{
	struct stash_list list = { 0 };
	int rc = stash_list_folder(folder, &list);

	for (uint32_t i = 0; i < list.count && rc == 0; i++)
		rc = remove_entry(folder, stash_list_at(&list, i), depth);
	stash_list_free(&list);
	return rc;
}

int stash_remove_folder(int at, const char *name)
{
	if (unlinkat(at, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return 0;
	return stash_remove_tree(at, name);
}

int stash_remove_tree(int at, const char *name)
{
	return remove_entry(at, name, 0);
}
