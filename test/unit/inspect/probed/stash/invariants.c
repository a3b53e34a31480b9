/* SPDX-License-Identifier: BSD-2-Clause */
#include "invariants.h"

#include <ctype.h>
#include <dirent.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "inspect/probed/stash/record.h"

enum { PATH_BYTES = 1024 };

struct entry {
	char *path; /* relative to the directory */
	struct stat status;
};

static struct {
	size_t prefix; /* length of the directory and a slash in paths */
	struct entry *entries;
	uint32_t count, room;
	uint32_t broken;
	const char *directory;
} tree;

static void PRINTF_LIKE(1, 2) broken(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fprintf(stderr, "# %s: ", tree.directory);
	vfprintf(stderr, format, args);
	fprintf(stderr, "\n");
	va_end(args);
	tree.broken++;
}

static int collect(const char *path, const struct stat *status, int type, struct FTW *walk)
{
	if (walk->level == 0)
		return 0;
	if (tree.count == tree.room) {
		tree.room = tree.room ? tree.room * 2 : 256;
		tree.entries = realloc(tree.entries, tree.room * sizeof(tree.entries[0]));
		must(tree.entries);
	}
	tree.entries[tree.count] = (struct entry){ strdup(path + tree.prefix), *status };
	must(tree.entries[tree.count].path);
	tree.count++;
	return 0;
}

static bool is_below(const char *path, const char *folder)
{
	return strncmp(path, folder, strlen(folder)) == 0 && path[strlen(folder)] == '/';
}

static const struct entry *find(const char *path)
{
	for (uint32_t i = 0; i < tree.count; i++) {
		if (strcmp(tree.entries[i].path, path) == 0)
			return &tree.entries[i];
	}
	return NULL;
}

static uint32_t parts(const char *path)
{
	uint32_t count = 1;

	for (; *path; path++)
		count += *path == '/';
	return count;
}

static const char *part(const char *path, uint32_t index)
{
	while (index-- > 0)
		path = strchr(path, '/') + 1;
	return path;
}

/* ---- probes/$pid/$prv$pid/$mod/$fun/$prb ---- */

/* The number of files below stash/dof-pid with its inode, in folders of that kind. */
static uint32_t links(const struct entry *entry, const char *kind)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < tree.count; i++) {
		const struct entry *other = &tree.entries[i];

		count += other->status.st_ino == entry->status.st_ino && is_below(other->path, "stash/dof-pid") &&
			 strstr(other->path, kind) != NULL;
	}
	return count;
}

static bool read_record(const char *path, struct record *record)
{
	char full[PATH_BYTES];
	static char data[1 << 20];
	struct fathom_fault why;
	FILE *file;
	size_t bytes;

	snprintf(full, sizeof(full), "%s/%s", tree.directory, path);
	file = fopen(full, "r");
	if (!file)
		return false;
	bytes = fread(data, 1, sizeof(data), file);
	fclose(file);
	if (record_decode(data, bytes, record, &why) == 0)
		return true;
	broken("%s: %s", path, why.text);
	return false;
}

static void check_probe(const struct entry *entry, uint32_t version)
{
	const struct dof_probe *probe;
	char path[PATH_BYTES], process[PATH_BYTES];
	struct record record;
	int pid = (int)strtol(part(entry->path, 1), NULL, 10);

	if (!S_ISREG(entry->status.st_mode) || parts(entry->path) != 6) {
		broken("%s: is no file where one belongs", entry->path);
		return;
	}
	if (!read_record(entry->path, &record)) {
		broken("%s: is no whole record", entry->path);
		return;
	}
	probe = record.set.providers->probes;
	snprintf(path, sizeof(path), "probes/%d/%s%d/%s/%s/%s", pid, record.set.providers->name, pid, probe->module,
		 probe->function, probe->name);
	if (strcmp(path, entry->path) != 0)
		broken("%s: is the record of %s", entry->path, path);
	if (version && record.version != version)
		broken("%s: is of version %u", entry->path, record.version);
	record_free(&record);
	if (links(entry, "/parsed/") == 0 || entry->status.st_nlink != links(entry, "/parsed/") + 1)
		broken("%s: has %lu links, %u of them parsed files", entry->path, (unsigned long)entry->status.st_nlink,
		       links(entry, "/parsed/"));
	snprintf(process, sizeof(process), "stash/dof-pid/%d/process", pid);
	if (!find(process))
		broken("%s: its process is not known", entry->path);
}

/* ---- stash/dof-pid/$pid/... ---- */

static void check_parsed(const struct entry *entry)
{
	const char *name = part(entry->path, 5);
	bool found = false;

	if (strcmp(name, "version") == 0)
		return;
	for (uint32_t i = 0; i < tree.count && !found; i++)
		found = is_below(tree.entries[i].path, "probes") && tree.entries[i].status.st_ino == entry->status.st_ino;
	if (!found)
		broken("%s: is not in probes/", entry->path);
}

static void check_generation(const struct entry *entry)
{
	char full[PATH_BYTES], target[64], path[PATH_BYTES];
	const struct entry *next;
	ssize_t bytes;

	snprintf(full, sizeof(full), "%s/%s", tree.directory, entry->path);
	bytes = readlink(full, target, sizeof(target) - 1);
	target[bytes > 0 ? bytes : 0] = '\0';
	snprintf(path, sizeof(path), "%.*s/%s", (int)(strrchr(entry->path, '/') - entry->path), entry->path, target);
	if (!find(path) || !S_ISDIR(find(path)->status.st_mode))
		broken("%s: leads to %s, which is not there", entry->path, target);
	snprintf(path, sizeof(path), "%.*s/next-gen", (int)(strrchr(entry->path, '/') - entry->path), entry->path);
	next = find(path);
	if (!next || strtoll(part(entry->path, 3), NULL, 10) >= next->status.st_size)
		broken("%s: is not below next-gen", entry->path);
}

static bool has_generation(const char *mapping_path)
{
	size_t folder = (size_t)(strrchr(mapping_path, '/') - mapping_path);

	for (uint32_t i = 0; i < tree.count; i++) {
		const struct entry *entry = &tree.entries[i];
		char full[PATH_BYTES], target[PATH_BYTES];
		ssize_t bytes;

		if (!S_ISLNK(entry->status.st_mode) || strncmp(entry->path, mapping_path, folder + 1) != 0)
			continue;
		snprintf(full, sizeof(full), "%s/%s", tree.directory, entry->path);
		bytes = readlink(full, target, sizeof(target) - 1);
		target[bytes > 0 ? bytes : 0] = '\0';
		if (strcmp(target, mapping_path + folder + 1) == 0)
			return true;
	}
	return false;
}

static void check_mapping(const struct entry *entry)
{
	static const char *const needed[] = { "raw", "dh" };

	if (!has_generation(entry->path))
		broken("%s: has no generation", entry->path);
	for (size_t i = 0; i < 2; i++) {
		char path[PATH_BYTES];

		snprintf(path, sizeof(path), "%s/%s", entry->path, needed[i]);
		if (!find(path))
			broken("%s: is missing", path);
	}
}

static void check_process(const struct entry *entry)
{
	static const char *const needed[] = { "process", "exec-mapping", "next-gen" };

	for (size_t i = 0; i < 3; i++) {
		char path[PATH_BYTES];

		snprintf(path, sizeof(path), "%s/%s", entry->path, needed[i]);
		if (!find(path))
			broken("%s: is missing", path);
	}
}

static void check_of_process(const struct entry *entry)
{
	uint32_t count = parts(entry->path);
	const char *name = part(entry->path, count - 1);

	if (count == 3)
		check_process(entry);
	else if (count == 4 && S_ISLNK(entry->status.st_mode))
		check_generation(entry);
	else if (count == 4 && S_ISDIR(entry->status.st_mode))
		check_mapping(entry);
	else if (count == 6)
		check_parsed(entry);
	else if (count == 4 && strcmp(name, "process") != 0 && strcmp(name, "exec-mapping") != 0 &&
		 strcmp(name, "next-gen") != 0)
		broken("%s: does not belong there", entry->path);
}

/* ---- the rest ---- */

static void check_object(const struct entry *entry)
{
	if (links(entry, "/raw") == 0 || entry->status.st_nlink != links(entry, "/raw") + 1)
		broken("%s: has %lu links, %u of them of registrations", entry->path, (unsigned long)entry->status.st_nlink,
		       links(entry, "/raw"));
}

static void check_not_empty(const struct entry *entry)
{
	for (uint32_t i = 0; i < tree.count; i++) {
		if (is_below(tree.entries[i].path, entry->path))
			return;
	}
	broken("%s: is empty", entry->path);
}

static void check_link(const struct entry *entry)
{
	char full[PATH_BYTES];

	snprintf(full, sizeof(full), "%s/%s", tree.directory, entry->path);
	if (parts(entry->path) != 2 || access(full, F_OK) != 0)
		broken("%s: a link that leads nowhere", entry->path);
}

static void check_entry(const struct entry *entry, uint32_t version)
{
	if (is_below(entry->path, "stash/work"))
		broken("%s: is left over", entry->path);
	else if (is_below(entry->path, "stash/dof"))
		check_object(entry);
	else if (is_below(entry->path, "stash/dof-pid"))
		check_of_process(entry);
	else if (is_below(entry->path, "probes") && S_ISLNK(entry->status.st_mode))
		check_link(entry);
	else if (is_below(entry->path, "probes") && S_ISDIR(entry->status.st_mode))
		check_not_empty(entry);
	else if (is_below(entry->path, "probes"))
		check_probe(entry, version);
}

uint32_t invariants_broken(const char *directory, uint32_t version)
{
	memset(&tree, 0, sizeof(tree));
	tree.directory = directory;
	tree.prefix = strlen(directory) + 1;
	if (nftw(directory, collect, 32, FTW_PHYS) != 0)
		broken("cannot be walked");
	for (uint32_t i = 0; i < tree.count; i++)
		check_entry(&tree.entries[i], version);
	for (uint32_t i = 0; i < tree.count; i++)
		free(tree.entries[i].path);
	free(tree.entries);
	return tree.broken;
}
