/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * files - the file systems and block devices below the files that the process has open: how full, how mounted, with which
 * errors. A call can hang with the file system, so each is a step of its own.
 */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/text.h"
#include "inspect/doctor/internal.h"

enum { FILE_SYSTEMS_MAX = 64, LINE_BYTES = 2 * PATH_MAX };

/* A mounted file system, by /proc/PID/mountinfo. */
struct mount_row {
	char place[PATH_MAX], type[64], source[PATH_MAX];
	unsigned int major_number, minor_number;
	bool read_only;
	const char *why; /* it is read-only although it was not mounted so; NULL: no */
};

/* Is `option` one of the list, which has commas between its words? */
static bool has_option(const char *options, const char *option)
{
	size_t bytes = strlen(option);

	for (const char *at = options; at; at = strchr(at, ',')) {
		at += *at == ',';
		if (strncmp(at, option, bytes) == 0 && (at[bytes] == ',' || !at[bytes]))
			return true;
	}
	return false;
}

static bool parse_mount(const char *line, struct mount_row *row)
{
	char options[512], own[512] = ""; /* own: of the file system, not of this mount */
	const char *rest = strstr(line, " - ");

	if (!rest ||
	    sscanf(line, "%*s %*s %u:%u %*s %4095s %511s", &row->major_number, &row->minor_number, row->place, options) !=
		    4 ||
	    sscanf(rest + 3, "%63s %4095s %511s", row->type, row->source, own) < 2)
		return false;
	row->why = has_option(own, "emergency_ro") ? "an error of the file system made it so"
		   : has_option(own, "shutdown")   ? "the file system has shut down after an error"
						   : NULL;
	row->read_only = has_option(options, "ro") || has_option(own, "ro") || row->why;
	return true;
}

/* Find the mount of `path`: the last row with the longest place that is a part of it. */
static bool find_mount_of(int32_t pid, const char *path, struct mount_row *row_ret)
{
	char file[64], line[LINE_BYTES];
	struct mount_row row;
	size_t longest = 0;
	FILE *rows;

	if (pid)
		snprintf(file, sizeof(file), "/proc/%d/mountinfo", pid);
	else
		snprintf(file, sizeof(file), "/proc/self/mountinfo");
	rows = fopen(file, "re");
	while (rows && fgets(line, sizeof(line), rows)) {
		size_t bytes;

		if (!parse_mount(line, &row))
			continue;
		bytes = strcmp(row.place, "/") == 0 ? 0 : strlen(row.place);
		if (strncmp(path, row.place, bytes) != 0 || (path[bytes] && path[bytes] != '/') || bytes + 1 < longest)
			continue;
		longest = bytes + 1;
		*row_ret = row;
	}
	if (rows)
		fclose(rows);
	return longest > 0;
}

/* The errors that sysfs counts for a block device, and whether it can be written to. */
static json_t *look_at_device(unsigned int major_number, unsigned int minor_number)
{
	static const struct {
		const char *key, *file;
	} counters[] = {
		{ "errors", "device/ioerr_cnt" }, /* SCSI, hexadecimal */
		{ "read_only", "ro" },
	};
	char folder[64], path[128], link[PATH_MAX], text[64];
	json_t *device = doc_object();
	ssize_t bytes;

	snprintf(folder, sizeof(folder), "/sys/dev/block/%u:%u", major_number, minor_number);
	bytes = readlink(folder, link, sizeof(link) - 1);
	if (bytes <= 0) {
		json_decref(device);
		return NULL; /* such as tmpfs */
	}
	link[bytes] = '\0';
	doc_put(device, "name", doc_text(strrchr(link, '/') ? strrchr(link, '/') + 1 : link));
	for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, counters[i].file);
		if (doc_read(path, text, sizeof(text)) == 0 && text[0])
			doc_put(device, counters[i].key, json_integer(strtoll(text, NULL, 0)));
	}
	return device;
}

/* How the process reaches the file, which may be in another root than ours. pid 0: we do. */
static void reach(int32_t pid, const char *name, const char *path, char *to, size_t bytes)
{
	if (pid == 0)
		snprintf(to, bytes, "%s", path);
	else if (name)
		snprintf(to, bytes, "/proc/%d/fd/%s", pid, name);
	else
		snprintf(to, bytes, "/proc/%d/root%s", pid, path);
}

/* Look at the file system of a file, once for each file system. `name`: of the descriptor; NULL: it is not open. */
static void look_at_file_system(struct doctor_out *out, int32_t pid, const char *name, const char *path, json_t *systems)
{
	char reached[PATH_MAX + 64];
	struct mount_row row;
	struct statvfs about;
	json_t *system;

	if (!find_mount_of(pid, path, &row) || json_object_get(systems, row.place) ||
	    json_object_size(systems) >= FILE_SYSTEMS_MAX)
		return;
	system = doc_object();
	doc_put(system, "file", doc_text(path));
	doc_put(system, "type", doc_text(row.type));
	doc_put(system, "source", doc_text(row.source));
	doc_put(system, "read_only", json_boolean(row.read_only));
	if (row.why)
		doc_put(system, "why", doc_text(row.why));
	doc_put(systems, row.place, system);
	doc_put(system, "device", look_at_device(row.major_number, row.minor_number));
	reach(pid, name, path, reached, sizeof(reached));
	doctor_put(out, "hangs", json_pack("{s:s, s:s}", "path", row.place, "what", "statvfs"));
	doctor_step(out, "statvfs of %s", row.place);
	if (statvfs(reached, &about) == 0) {
		doc_put(system, "size", json_integer((json_int_t)(about.f_blocks * about.f_frsize)));
		doc_put(system, "free", json_integer((json_int_t)(about.f_bavail * about.f_frsize)));
		doc_put(system, "inodes", json_integer((json_int_t)about.f_files));
		doc_put(system, "inodes_free", json_integer((json_int_t)about.f_favail));
		if (about.f_flag & ST_RDONLY)
			doc_put(system, "read_only", json_true());
	}
	doctor_put(out, "hangs", json_null());
	doctor_put(out, "systems", json_deep_copy(systems));
}

/* A file of a volume or a device: regular, or a folder of storage. Not what the doctor itself reads: the trace file. */
static bool is_of_interest(const char *path)
{
	return path[0] == '/' && strncmp(path, "/proc/", 6) != 0 && strncmp(path, "/dev/shm/", 9) != 0 &&
	       strncmp(path, "/sys/", 5) != 0 && strncmp(path, "/memfd:", 7) != 0 && strncmp(path, "/anon_", 6) != 0;
}

/* Is the descriptor open for writing, or is it a folder? */
static bool may_write(int32_t pid, const char *name)
{
	char path[PATH_MAX], text[1024], line[64];
	long flags;

	snprintf(path, sizeof(path), "/proc/%d/fdinfo/%s", pid, name);
	if (doc_read(path, text, sizeof(text)) != 0)
		return false;
	flags = strtol(doc_line(text, "flags:", line, sizeof(line)), NULL, 8);
	return (flags & O_ACCMODE) != O_RDONLY || (flags & O_DIRECTORY);
}

/* An open block device: its own errors. */
static void look_at_block_device(const char *path, json_t *devices)
{
	struct stat st;
	json_t *device;

	if (strncmp(path, "/dev/", 5) != 0 || stat(path, &st) != 0 || !S_ISBLK(st.st_mode))
		return;
	device = look_at_device(major(st.st_rdev), minor(st.st_rdev));
	doc_put(devices, path, device);
}

void doctor_look_files(struct doctor_out *out, const void *ctx)
{
	int32_t pid = *(const int32_t *)ctx;
	json_t *systems = doc_object(), *devices = doc_object();
	char folder[64], path[PATH_MAX];
	struct dirent *entry;
	DIR *directory;

	snprintf(folder, sizeof(folder), "/proc/%d/fd", pid);
	directory = pid > 0 ? opendir(folder) : NULL;
	while (directory && (entry = readdir(directory))) {
		ssize_t bytes = readlinkat(dirfd(directory), entry->d_name, path, sizeof(path) - 1);

		path[bytes > 0 ? bytes : 0] = '\0';
		if (!is_of_interest(path) || !may_write(pid, entry->d_name))
			continue;
		if (strncmp(path, "/dev/", 5) == 0)
			look_at_block_device(path, devices);
		else
			look_at_file_system(out, pid, entry->d_name, path, systems);
	}
	if (directory)
		closedir(directory);
	doctor_put(out, "systems", systems);
	doctor_put(out, "devices", devices);
}

void doctor_look_folders(struct doctor_out *out, const void *ctx)
{
	const struct doctor_paths *paths = ctx;
	json_t *systems = doc_object();

	for (size_t i = 0; i < paths->count; i++)
		look_at_file_system(out, 0, NULL, paths->paths[i], systems);
	doctor_put(out, "systems", systems);
}
