/* SPDX-License-Identifier: BSD-2-Clause */
/* aside - moves damaged entries to stash/aside, with a log line and a count. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/fault.h"
#include "base/text.h"
#include "inspect/probed/stash/internal.h"

enum { ASIDE_MAX = 1 << 20 };

void stash_log(struct stash *stash, const char *format, ...)
{
	char text[FAULT_TEXT_BYTES_MAX], shown[FAULT_TEXT_BYTES_MAX];
	va_list args;
	size_t bytes;

	if (!stash->log)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	/* names in a damaged tree are untrusted */
	bytes = text_utf8_copy(shown, sizeof(shown) - 1, text, strlen(text));
	must(bytes < sizeof(shown));
	shown[bytes] = '\0';
	stash->log(stash->log_ctx, shown);
}

bool stash_is_damage(int error)
{
	static const int errors[] = { EINVAL, ENOENT, EFBIG, ENOTDIR, EISDIR, ELOOP, ENOTSUP, ENXIO, ENODEV, EEXIST };

	must(error <= 0);
	for (size_t i = 0; i < ARRAY_COUNT(errors); i++) {
		if (error == -errors[i])
			return true;
	}
	return false;
}

/*
 * Replace hard links below `name` by copies: the number of links tells whether a file of the tree is in use. A file that
 * cannot be copied is removed; its content is still at its other link.
 */
static void replace_links_by_copies(int at, const char *name)
{
	struct stash_list list = { 0 };
	struct stat status;
	size_t bytes;
	void *data;
	int folder;

	if (fstatat(at, name, &status, AT_SYMLINK_NOFOLLOW) != 0)
		return;
	if (S_ISREG(status.st_mode) && status.st_nlink > 1) {
		bool copied = stash_read_file(at, name, DOF_BYTES_MAX, &data, &bytes) == 0;

		(void)unlinkat(at, name, 0);
		if (copied) {
			(void)!stash_write_file(at, name, data, bytes);
			free(data);
		}
	}
	if (!S_ISDIR(status.st_mode) || stash_open_folder(at, name, &folder) != 0)
		return;
	if (stash_list_folder(folder, &list) == 0) {
		for (uint32_t i = 0; i < list.count; i++)
			replace_links_by_copies(folder, stash_list_at(&list, i));
	}
	stash_list_free(&list);
	close(folder);
}

int stash_set_aside(struct stash *stash, int at, const char *name, const char *where, const char *why_text)
{
	char path[STASH_FILE_NAME_BYTES + 16];
	bool is_long = strlen(name) + 16 > STASH_FILE_NAME_BYTES;

	must(!strchr(name, '/')); /* an entry of the folder `at` */
	must(name[0] && strcmp(name, ".") != 0 && strcmp(name, "..") != 0);
	if (mkdirat(stash->folder, "aside", 0755) != 0 && errno != EEXIST)
		return -errno;
	for (uint32_t number = 0; number < ASIDE_MAX; number++) {
		struct stat status;

		snprintf(path, sizeof(path), "aside/%u%s%s", number, is_long ? "" : "-", is_long ? "" : name);
		if (fstatat(stash->folder, path, &status, AT_SYMLINK_NOFOLLOW) == 0)
			continue;
		if (errno != ENOENT)
			return -errno;
		if (renameat(at, name, stash->folder, path) != 0)
			return errno == ENOENT ? 0 : -errno;
		replace_links_by_copies(stash->folder, path);
		stash->stats.set_aside++;
		stash_log(stash, "%s/%s: %s; set aside as stash/%s", where, name, why_text, path);
		return 0;
	}
	return -EMFILE;
}
