/* SPDX-License-Identifier: BSD-2-Clause */
/* Functions on a provider's calls: whole files, numbers, links, lock holders. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/bits.h"
#include "base/text.h"
#include "control/provider/provider.h"

enum { FILE_STEP_BYTES = 4096, LOCKS_BYTES_MAX = 4 << 20 };

static void cut_white_space(char *text, size_t bytes)
{
	while (bytes > 0 && strchr(" \t\r\n", text[bytes - 1]) && text[bytes - 1] != '\0')
		bytes--;
	text[bytes] = '\0';
}

int provider_read_text(struct provider *provider, const char *path, char *to, size_t bytes)
{
	int fd = provider->calls->open(provider, path, O_RDONLY, 0, false);
	ssize_t got;

	must(bytes > 0);
	if (fd < 0)
		return fd;
	got = provider->calls->read_at(provider, fd, to, bytes, 0);
	provider->calls->close_fd(provider, fd);
	if (got < 0)
		return (int)got;
	must((size_t)got <= bytes);
	if ((size_t)got == bytes)
		return -EFBIG;
	cut_white_space(to, (size_t)got);
	return 0;
}

int provider_read_number(struct provider *provider, const char *path, int64_t *number_ret)
{
	bool below;
	uint64_t number;
	char text[32];
	int error = provider_read_text(provider, path, text, sizeof(text));

	if (error)
		return error == -EFBIG ? -EINVAL : error;
	below = text[0] == '-';
	error = text_parse_u64(text + below, 10, INT64_MAX, &number);
	if (error)
		return error;
	*number_ret = below ? -(int64_t)number : (int64_t)number;
	return 0;
}

/* Files of /proc have no size in stat(2): read to the end. */
static int read_all(struct provider *provider, int fd, size_t bytes_max, char **text_ret)
{
	size_t used = 0, room = 0;
	char *text = NULL;

	for (;;) {
		ssize_t got;

		if (room - used < 2) {
			char *grown = room > bytes_max ? NULL : realloc(text, room + FILE_STEP_BYTES);

			if (!grown) {
				free(text);
				return room > bytes_max ? -EFBIG : -ENOMEM;
			}
			text = grown;
			room += FILE_STEP_BYTES;
		}
		got = provider->calls->read_at(provider, fd, text + used, room - used - 1, used);
		if (got < 0) {
			free(text);
			return (int)got;
		}
		must((size_t)got < room - used);
		used += (size_t)got;
		if (got == 0)
			break;
	}
	must(used < room);
	text[used] = '\0';
	*text_ret = text;
	return 0;
}

int provider_read_file(struct provider *provider, const char *path, size_t bytes_max, char **text_ret)
{
	int fd = provider->calls->open(provider, path, O_RDONLY, 0, false);
	int error;

	if (fd < 0)
		return fd;
	error = read_all(provider, fd, bytes_max, text_ret);
	provider->calls->close_fd(provider, fd);
	return error;
}

/* "1: FLOCK  ADVISORY  WRITE 4711 08:01:131074 0 EOF", proc_locks(5): a line for each lock of the machine. */
void provider_lock_holder(struct provider *provider, int fd, char *to)
{
	char wanted[64], *text = NULL, *next;
	struct stat stat;

	must(fd >= 0);
	must(text_copy(to, PROVIDER_HOLDER_BYTES, "(unknown)") == 0);
	if (provider->calls->stat(provider, fd, &stat) != 0 ||
	    provider_read_file(provider, "/proc/locks", LOCKS_BYTES_MAX, &text) != 0)
		return;
	snprintf(wanted, sizeof(wanted), "%02x:%02x:%" PRIu64, major(stat.st_dev), minor(stat.st_dev),
		 (uint64_t)stat.st_ino);
	next = text;
	for (char *line; (line = strsep(&next, "\n"));) {
		char kind[16], place[64];
		long pid;

		if (sscanf(line, "%*s %15s %*s %*s %ld %63s", kind, &pid, place) == 3 && strcmp(kind, "FLOCK") == 0 &&
		    strcmp(place, wanted) == 0 && pid > 0)
			snprintf(to, PROVIDER_HOLDER_BYTES, "%ld", pid);
	}
	free(text);
}

/* Remove the last part of the absolute path; "/a" becomes "". */
static void to_parent(char *path)
{
	char *slash = strrchr(path, '/');

	*(slash ? slash : path) = '\0';
}

static int append_part(char *path, size_t bytes, const char *part, size_t part_bytes)
{
	size_t used = strlen(path);

	must(used < bytes);
	if (used + 1 + part_bytes + 1 > bytes)
		return -ENAMETOOLONG;
	path[used] = '/';
	memcpy(path + used + 1, part, part_bytes);
	path[used + 1 + part_bytes] = '\0';
	return 0;
}

int provider_follow(struct provider *provider, const char *path, char *to, size_t bytes)
{
	char link[PROVIDER_PATH_BYTES_MAX], joined[PROVIDER_PATH_BYTES_MAX] = "";
	ssize_t got = provider->calls->read_link(provider, path, link, sizeof(link));
	int error;

	if (got < 0)
		return (int)got;
	must((size_t)got < sizeof(link));
	link[got] = '\0';
	if (link[0] != '/') {
		error = text_copy(joined, sizeof(joined), path);
		if (error)
			return error;
		to_parent(joined);
	}
	for (const char *at = link; *at != '\0';) {
		size_t part = strcspn(at, "/");

		if (part == 2 && memcmp(at, "..", 2) == 0)
			to_parent(joined);
		else if (part > 0 && !(part == 1 && at[0] == '.'))
			error = append_part(joined, sizeof(joined), at, part);
		else
			error = 0;
		if (error)
			return error;
		at += part + (at[part] == '/');
	}
	return text_copy(to, bytes, joined);
}
