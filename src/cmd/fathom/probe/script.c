/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/fathom/probe/script.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/must.h"

enum { SCRIPT_BYTES_MAX = 1 << 20 };

/* ---- files ---- */

static int read_script_text(FILE *from, const char *name, char **text_ret, struct fathom_fault *why)
{
	char *text = malloc(SCRIPT_BYTES_MAX + 1);
	size_t bytes;

	must(text);
	bytes = fread(text, 1, SCRIPT_BYTES_MAX + 1, from);
	text[min_u64(bytes, SCRIPT_BYTES_MAX)] = '\0';
	if (ferror(from) || bytes > SCRIPT_BYTES_MAX || strlen(text) != bytes) {
		int rc = ferror(from) ? fault(why, -EIO, "cannot read \"%s\": %s", name, strerror(errno))
				      : fault(why, -EINVAL,
					      "\"%s\" is not a script: it exceeds 1 MiB or contains a NUL byte", name);

		free(text);
		return rc;
	}
	*text_ret = text;
	return 0;
}

/* The directory of the supplied scripts, relative to the program; false: none. */
static bool find_script_directory(char *path_ret, size_t bytes)
{
	char exe[PATH_MAX / 2];
	ssize_t exe_bytes = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	struct stat there;

	if (exe_bytes <= 0)
		return false;
	exe[exe_bytes] = '\0';
	*strrchr(exe, '/') = '\0';
	snprintf(path_ret, bytes, "%s/../share/fathom/probes", exe);
	return stat(path_ret, &there) == 0 && S_ISDIR(there.st_mode);
}

static int compare_script_names(const void *left, const void *right)
{
	return strcmp(*(char *const *)left, *(char *const *)right);
}

/* "a, b, c": the names of the supplied scripts. */
static void list_scripts(const char *directory, char *list, size_t bytes)
{
	DIR *open = opendir(directory);
	struct dirent *entry;
	char *names[64];
	size_t count = 0, at = 0;

	list[0] = '\0';
	while (open && count < ARRAY_COUNT(names) && (entry = readdir(open))) {
		size_t length = strlen(entry->d_name);

		if (length > 3 && strcmp(entry->d_name + length - 3, ".bt") == 0) {
			names[count] = strndup(entry->d_name, length - 3);
			must(names[count++]);
		}
	}
	if (open)
		closedir(open);
	qsort(names, count, sizeof(*names), compare_script_names);
	for (size_t i = 0; i < count; i++) {
		if (at < bytes)
			at += (size_t)snprintf(list + at, bytes - at, "%s%s", i ? ", " : "", names[i]);
		free(names[i]);
	}
}

static int open_script(const char *name, FILE **file_ret, struct fathom_fault *why)
{
	char directory[PATH_MAX / 2 + 64], path[PATH_MAX], list[256];

	errno = 0;
	*file_ret = strcmp(name, "-") == 0 ? fdopen(dup(STDIN_FILENO), "r") : fopen(name, "re");
	if (*file_ret)
		return 0;
	if (errno != ENOENT)
		return fault(why, -errno, "cannot read \"%s\": %s", name, strerror(errno));
	if (!find_script_directory(directory, sizeof(directory)))
		return fault(why, -ENOENT, "there is no file \"%s\", and this program has no supplied scripts beside it",
			     name);
	for (int i = 0; i < 2 && !strchr(name, '/') && !*file_ret; i++) {
		snprintf(path, sizeof(path), "%s/%.250s%s", directory, name, i ? ".bt" : "");
		*file_ret = fopen(path, "re");
	}
	if (*file_ret)
		return 0;
	list_scripts(directory, list, sizeof(list));
	return fault(why, -ENOENT, "there is neither a file nor a supplied script \"%s\"; supplied scripts: %s", name,
		     list);
}

int probe_script_read(const char *name, char **text_ret, struct fathom_fault *why)
{
	struct stat there;
	FILE *from;
	int rc = open_script(name, &from, why);

	if (rc)
		return rc;
	if (fstat(fileno(from), &there) == 0 && S_ISDIR(there.st_mode))
		rc = fault(why, -EISDIR, "\"%s\" is a directory", name);
	else
		rc = read_script_text(from, name, text_ret, why);
	fclose(from);
	return rc;
}

/* ---- tables ---- */

#define WORDS(NAME, ...)                                                                                                   \
	static const struct reader_label NAME##_labels[] = { __VA_ARGS__ };                                                \
	static const struct reader_enum NAME = { #NAME, NAME##_labels, ARRAY_COUNT(NAME##_labels) }

/* The trace files of SPDK's targets lack the names of these states. The names are those that SPDK's scripts print. */
WORDS(spdk_target, { 0, "NONE" }, { 1, "CREATE_TARGET" }, { 2, "CREATE_POLL_GROUPS" }, { 3, "START_SUBSYSTEMS" },
      { 4, "RUNNING" }, { 5, "FINI_STOP_SUBSYSTEMS" }, { 6, "FINI_STOP_LISTEN" }, { 7, "FINI_DESTROY_SUBSYSTEMS" },
      { 8, "FINI_DESTROY_POLL_GROUPS" }, { 9, "FINI_DESTROY_TARGET" }, { 10, "STOPPED" }, { 11, "ERROR" });
WORDS(spdk_subsystem, { 0, "INACTIVE" }, { 1, "ACTIVATING" }, { 2, "ACTIVE" }, { 3, "PAUSING" }, { 4, "PAUSED" },
      { 5, "RESUMING" }, { 6, "DEACTIVATING" });

static void add_table(struct probe_tables *tables, const char *name, const struct reader_enum *words)
{
	if (tables->count < PROBE_TABLES_MAX)
		tables->rows[tables->count++] = (struct script_table){ name, words };
}

void probe_tables_of(const struct process *process, struct probe_tables *tables_ret)
{
	const struct reader_enum *target = NULL, *subsystem = NULL, *words;

	*tables_ret = (struct probe_tables){ 0 };
	for (uint32_t i = 0; process->reader && (words = reader_enum_at(process->reader, i)); i++) {
		add_table(tables_ret, words->name, words);
		if (strcmp(words->name, "nvmf_tgt_state") == 0)
			target = words;
		else if (strcmp(words->name, "nvmf_subsystem_state") == 0)
			subsystem = words;
	}
	add_table(tables_ret, "target", target ? target : &spdk_target);
	add_table(tables_ret, "subsystem", subsystem ? subsystem : &spdk_subsystem);
}

bool probe_is_cleared_table(const json_t *row)
{
	const json_t *data = json_object_get(row, "data");
	const char *key;
	json_t *value;

	if (!json_is_object(data) || strcmp(json_string_value(json_object_get(row, "type")), "map") != 0)
		return false;
	json_object_foreach ((json_t *)data, key, value) {
		if (!json_is_object(value) || json_object_size(value) != 0)
			return false;
	}
	return true;
}

/* ---- the program ---- */

void probe_path_of(const struct process *process, char *path_ret, size_t bytes)
{
	struct stat running, named;
	bool plain = true;

	for (const char *at = process->program; *at; at++)
		plain &= isalnum((unsigned char)*at) || strchr("/._+-", *at);
	snprintf(path_ret, bytes, "/proc/%d/exe", process->pid);
	/*
	 * use the plain name only if a script can contain it, and if it refers to the running file: the file may have been
	 * replaced or removed, or the process may have another mount namespace
	 */
	if (plain && stat(path_ret, &running) == 0 && stat(process->program, &named) == 0 &&
	    running.st_dev == named.st_dev && running.st_ino == named.st_ino)
		snprintf(path_ret, bytes, "%s", process->program);
}
