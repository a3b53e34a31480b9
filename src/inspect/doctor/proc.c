/* SPDX-License-Identifier: BSD-2-Clause */
/* proc - reads small files of /proc and /sys. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inspect/doctor/internal.h"

int doc_read(const char *path, char *to, size_t bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), error = 0;
	size_t used = 0;
	ssize_t got = 1;

	to[0] = '\0';
	if (fd < 0)
		return -errno;
	while (used < bytes - 1 && got > 0) {
		got = read(fd, to + used, bytes - 1 - used);
		error = got < 0 ? -errno : 0;
		used += got > 0 ? (size_t)got : 0;
	}
	close(fd);
	while (used > 0 && (to[used - 1] == '\n' || to[used - 1] == ' '))
		used--;
	to[used] = '\0';
	return used > 0 ? 0 : error;
}

bool doc_read_number(const char *path, int64_t *number_ret)
{
	char text[64], *end;
	long long number;

	if (doc_read(path, text, sizeof(text)) != 0 || !text[0])
		return false;
	errno = 0;
	number = strtoll(text, &end, 10);
	if (errno || end == text || (*end && *end != ' ' && *end != '\n'))
		return false;
	*number_ret = number;
	return true;
}

const char *doc_line(const char *text, const char *key, char *to, size_t bytes)
{
	size_t key_bytes = strlen(key), length;

	to[0] = '\0';
	for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
		if (strncmp(line, key, key_bytes) != 0)
			continue;
		line += key_bytes;
		line += strspn(line, " \t:");
		length = strcspn(line, "\n");
		length = length < bytes ? length : bytes - 1;
		memcpy(to, line, length);
		to[length] = '\0';
		break;
	}
	return to;
}
