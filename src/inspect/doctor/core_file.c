/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * core_file - finds the core of a process that is gone, where kernel.core_pattern puts cores.
 *
 * A relative pattern names a file in the folder in which the process ran. That is not known any more; the doctor's own
 * folder is tried. A name is no proof: it may have no process id ("core"), or one of another process that begins with the
 * same digits. A file is accepted only if its notes have this process.
 */
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "inspect/core/core.h"
#include "inspect/doctor/internal.h"

enum { CANDIDATES_MAX = 256 };

/*
 * The names that the pattern can give to a core of this process, for glob(). Each "%x" can be anything, except "%p". False:
 * they do not fit.
 */
static bool names_of_pattern(const char *pattern, int32_t pid, char *to, size_t bytes)
{
	size_t used = (size_t)snprintf(to, bytes, "%s", pattern[0] == '/' ? "" : "./");

	for (; *pattern && used < bytes; pattern++) {
		if (*pattern != '%')
			used += (size_t)snprintf(to + used, bytes - used, "%c", *pattern);
		else if (*++pattern == 'p')
			used += (size_t)snprintf(to + used, bytes - used, "%d", pid);
		else if (*pattern)
			used += (size_t)snprintf(to + used, bytes - used, "%c", *pattern == '%' ? '%' : '*');
		else
			break; /* the kernel drops a '%' at the end */
	}
	return used < bytes;
}

/* Find a file of these names whose notes have this process. */
static bool find_by_names(const char *names, int32_t pid, char *path, size_t bytes)
{
	bool found = false;
	glob_t list;

	if (glob(names, GLOB_NOSORT, NULL, &list) != 0)
		return false;
	for (size_t i = 0; i < list.gl_pathc && i < CANDIDATES_MAX && !found; i++) {
		found = strlen(list.gl_pathv[i]) < bytes && core_pid(list.gl_pathv[i]) == pid;
		if (found)
			snprintf(path, bytes, "%s", list.gl_pathv[i]);
	}
	globfree(&list);
	return found;
}

/* systemd compresses cores, perhaps in a format that is not read here: the place of the process id in the name counts. */
static bool find_by_systemd(int32_t pid, char *path, size_t bytes)
{
	char names[PATH_MAX];
	bool found;
	glob_t list;

	snprintf(names, sizeof(names), "/var/lib/systemd/coredump/core.*.%d.*", pid);
	if (glob(names, GLOB_NOSORT, NULL, &list) != 0)
		return false;
	found = strlen(list.gl_pathv[0]) < bytes;
	if (found)
		snprintf(path, bytes, "%s", list.gl_pathv[0]);
	globfree(&list);
	return found;
}

bool doc_find_core(const char *pattern, int32_t pid, char *path, size_t bytes)
{
	static const char *const usual[] = { "core", "core.%p", "core*.%p" };
	char names[PATH_MAX], numbered[PATH_MAX];

	if (strstr(pattern, "systemd-coredump") && find_by_systemd(pid, path, bytes))
		return true;
	if (pattern[0] && pattern[0] != '|' && names_of_pattern(pattern, pid, names, sizeof(names))) {
		if (find_by_names(names, pid, path, bytes))
			return true;
		/* kernel.core_uses_pid */
		if (snprintf(numbered, sizeof(numbered), "%s.%d", names, pid) < (int)sizeof(numbered) &&
		    find_by_names(numbered, pid, path, bytes))
			return true;
	}
	for (size_t i = 0; i < ARRAY_COUNT(usual); i++) {
		if (names_of_pattern(usual[i], pid, names, sizeof(names)) && find_by_names(names, pid, path, bytes))
			return true;
	}
	return false;
}
