/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The archive of a collection: tar (POSIX ustar), compressed with zstd, in memory. A file with a private key is replaced
 * by a note, and a file that cannot be read by the reason.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <zstd.h>

#include "control/server/collection/internal.h"

enum {
	FILE_BYTES_MAX = 4 << 20, /* of a longer file only its end is collected */
	TAR_BLOCK_BYTES = 512,
	ZSTD_LEVEL = 3,
};

#define KEY_WORDS "PRIVATE KEY-----"

struct tar_head {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], kind, link[100], magic[6], version[2],
		user[32], group[32], major[8], minor[8], prefix[155], pad[12];
};
static_assert(sizeof(struct tar_head) == TAR_BLOCK_BYTES, "POSIX ustar");

static void put_bytes(struct collection *collection, const void *bytes, size_t count)
{
	must(collection->tar);
	/* fclose() need not report this error */
	if (fwrite(bytes, 1, count, collection->tar) != count && !collection->error)
		collection->error = -ENOMEM;
}

void archive_add_bytes(struct collection *collection, const char *name, const void *bytes, size_t count)
{
	struct tar_head head = { .kind = '0', .magic = "ustar", .version = { '0', '0' } };
	static const char zeroes[TAR_BLOCK_BYTES];
	const uint8_t *raw = (const uint8_t *)&head;
	unsigned int sum = 0;

	must(collection->id[0] && name[0]);
	must(count < 1ull << 33); /* 11 octal digits */
	snprintf(head.name, sizeof(head.name), "%.31s/%.66s", collection->id, name);
	snprintf(head.mode, sizeof(head.mode), "%07o", 0640u);
	snprintf(head.uid, sizeof(head.uid), "%07o", 0u);
	snprintf(head.gid, sizeof(head.gid), "%07o", 0u);
	snprintf(head.size, sizeof(head.size), "%011zo", count);
	snprintf(head.mtime, sizeof(head.mtime), "%011" PRIo64, (uint64_t)time(NULL));
	memset(head.sum, ' ', sizeof(head.sum));
	for (size_t i = 0; i < sizeof(head); i++)
		sum += raw[i];
	snprintf(head.sum, sizeof(head.sum), "%06o", sum);
	must(head.sum[6] == '\0');
	put_bytes(collection, &head, sizeof(head));
	put_bytes(collection, bytes, count);
	put_bytes(collection, zeroes, (TAR_BLOCK_BYTES - count % TAR_BLOCK_BYTES) % TAR_BLOCK_BYTES);
}

/* The last FILE_BYTES_MAX of the lines inside the window. Errors: negative errno. */
static int read_lines(struct collection *collection, FILE *file, char **bytes_ret, size_t *count_ret)
{
	struct log_window window = collection->window;
	char *line = NULL, *bytes = malloc(2 * FILE_BYTES_MAX);
	size_t used = 0, room = 0;
	ssize_t length;
	int error = 0;

	while (bytes && (length = getline(&line, &room, file)) > 0) {
		size_t count = (size_t)length < FILE_BYTES_MAX ? (size_t)length : FILE_BYTES_MAX;

		if (!log_window_takes(&window, line, (size_t)length))
			continue;
		if (used + count > 2 * FILE_BYTES_MAX) {
			memmove(bytes, bytes + used - FILE_BYTES_MAX, FILE_BYTES_MAX);
			used = FILE_BYTES_MAX;
		}
		must(used + count <= 2 * FILE_BYTES_MAX);
		memcpy(bytes + used, line, count);
		used += count;
	}
	if (!bytes || !feof(file)) /* getline() that is out of memory sets no error of the file */
		error = bytes && ferror(file) ? -EIO : -ENOMEM;
	free(line);
	if (error) {
		free(bytes);
		return error;
	}
	if (used > FILE_BYTES_MAX)
		memmove(bytes, bytes + used - FILE_BYTES_MAX, FILE_BYTES_MAX);
	*bytes_ret = bytes;
	*count_ret = used < FILE_BYTES_MAX ? used : FILE_BYTES_MAX;
	return 0;
}

/* The end of the file. Errors: negative errno. */
static int read_end(int fd, off_t size, char **bytes_ret, size_t *count_ret)
{
	off_t from = size > FILE_BYTES_MAX ? size - FILE_BYTES_MAX : 0;
	char *bytes = malloc(FILE_BYTES_MAX);
	size_t used = 0;
	ssize_t got = bytes ? 1 : -1;
	int error;

	while (got > 0 && used < FILE_BYTES_MAX) {
		got = pread(fd, bytes + used, FILE_BYTES_MAX - used, from + (off_t)used);
		used += got > 0 ? (size_t)got : 0;
	}
	if (got < 0) {
		error = bytes ? -errno : -ENOMEM;
		free(bytes);
		return error;
	}
	must(used <= FILE_BYTES_MAX);
	*bytes_ret = bytes;
	*count_ret = used;
	return 0;
}

int archive_read_file(struct collection *collection, const char *path, bool is_log, char **bytes_ret, size_t *count_ret)
{
	/* O_NONBLOCK: opening a pipe or a device must not block */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), error;
	struct stat stat;
	FILE *file;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &stat) != 0 || !S_ISREG(stat.st_mode)) {
		close(fd);
		return -EINVAL;
	}
	if (!is_log || collection->window.is_all) {
		error = read_end(fd, stat.st_size, bytes_ret, count_ret);
		close(fd);
		return error;
	}
	file = fdopen(fd, "r");
	if (!file) {
		close(fd);
		return -ENOMEM;
	}
	error = read_lines(collection, file, bytes_ret, count_ret);
	(void)fclose(file); /* it was read */
	return error;
}

void archive_add_reason(struct collection *collection, const char *name, const char *path, int error)
{
	char why[512];

	must(error < 0);
	snprintf(why, sizeof(why), "%.400s: %s\n", path, error == -EINVAL ? "not a regular file" : strerror(-error));
	archive_add_bytes(collection, name, why, strlen(why));
	if (collection->stop_on_error && !collection->error) {
		collection->error = error;
		snprintf(collection->reason, sizeof(collection->reason), "%.*s", (int)strcspn(why, "\n"), why);
	}
}

void archive_add_file(struct collection *collection, const char *name, const char *path, bool is_log)
{
	char why[512], *bytes = NULL;
	size_t count = 0;
	int error = archive_read_file(collection, path, is_log, &bytes, &count);

	must(count <= FILE_BYTES_MAX);
	if (error == 0 && memmem(bytes, count, KEY_WORDS, strlen(KEY_WORDS))) {
		snprintf(why, sizeof(why), "%.400s has a private key, which is not collected\n", path);
		archive_add_bytes(collection, name, why, strlen(why));
	} else if (error == 0) {
		archive_add_bytes(collection, name, bytes, count);
	} else {
		archive_add_reason(collection, name, path, error);
	}
	free(bytes);
}

int archive_open(struct collection *collection)
{
	must(!collection->tar);
	must(!collection->plain && !collection->packed);
	collection->tar = open_memstream(&collection->plain, &collection->plain_bytes);
	if (!collection->tar)
		collection->error = -ENOMEM;
	return collection->error;
}

static void compress_archive(struct collection *collection)
{
	size_t bound = ZSTD_compressBound(collection->plain_bytes), bytes;

	must(collection->plain);
	must(collection->plain_bytes % TAR_BLOCK_BYTES == 0);
	collection->packed = malloc(bound);
	if (!collection->packed) {
		collection->error = -ENOMEM;
		return;
	}
	bytes = ZSTD_compress(collection->packed, bound, collection->plain, collection->plain_bytes, ZSTD_LEVEL);
	if (ZSTD_isError(bytes))
		collection->error = -EIO;
	else
		collection->packed_bytes = bytes;
	free(collection->plain);
	collection->plain = NULL;
}

void archive_finish(struct collection *collection)
{
	static const char end[2 * TAR_BLOCK_BYTES];

	must(!collection->is_ready);
	put_bytes(collection, end, sizeof(end));
	if (fclose(collection->tar) != 0 && !collection->error)
		collection->error = -ENOMEM;
	collection->tar = NULL;
	if (!collection->error)
		compress_archive(collection);
}
