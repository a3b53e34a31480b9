/* SPDX-License-Identifier: BSD-2-Clause */
/* process - what the kernel knows of the process: its state, limits, descriptors, cgroups, program and threads. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "inspect/doctor/internal.h"

enum { PATH_BYTES = 128, LINE_BYTES = 256 };

static int64_t number_of_line(const char *text, const char *key)
{
	char line[LINE_BYTES];

	return strtoll(doc_line(text, key, line, sizeof(line)), NULL, 10);
}

/* "State", "TracerPid" ... of /proc/PID/status. False: there is no such process. */
static bool put_status(struct doctor_out *out, int32_t pid)
{
	char path[PATH_BYTES], text[PROC_BYTES_MAX], line[LINE_BYTES], name[LINE_BYTES];
	int64_t tracer;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	if (doc_read(path, text, sizeof(text)) != 0)
		return false;
	doctor_put(out, "name", doc_text(doc_line(text, "Name:", line, sizeof(line))));
	doc_line(text, "State:", line, sizeof(line));
	doctor_put(out, "state", doc_text_of(line, line[0] ? 1 : 0));
	doctor_put(out, "uid", json_integer(number_of_line(text, "Uid:")));
	doctor_put(out, "resident_kib", json_integer(number_of_line(text, "VmRSS:")));
	doctor_put(out, "swapped_kib", json_integer(number_of_line(text, "VmSwap:")));
	tracer = number_of_line(text, "TracerPid:");
	if (tracer > 0) {
		doctor_put(out, "tracer", json_integer(tracer));
		snprintf(path, sizeof(path), "/proc/%" PRId64 "/comm", tracer);
		if (doc_read(path, name, sizeof(name)) == 0)
			doctor_put(out, "tracer_name", doc_text(name));
	}
	return true;
}

/* A limit is a number, or null: unlimited. */
static json_t *soft_limit(const char *text, const char *name)
{
	char line[LINE_BYTES];

	doc_line(text, name, line, sizeof(line));
	if (strncmp(line, "unlimited", strlen("unlimited")) == 0)
		return json_null();
	return line[0] ? json_integer(strtoll(line, NULL, 10)) : NULL;
}

static void put_limits(struct doctor_out *out, int32_t pid)
{
	char path[PATH_BYTES], text[PROC_BYTES_MAX];
	json_t *limits = doc_object();
	int64_t filter;
	int rc;

	snprintf(path, sizeof(path), "/proc/%d/limits", pid);
	rc = doc_read(path, text, sizeof(text));
	if (rc == 0) {
		doc_put(limits, "core", soft_limit(text, "Max core file size"));
		doc_put(limits, "files", soft_limit(text, "Max open files"));
		doc_put(limits, "locked_memory", soft_limit(text, "Max locked memory"));
	}
	doctor_put(out, "limits", limits);
	snprintf(path, sizeof(path), "/proc/%d/coredump_filter", pid);
	if (doc_read(path, text, sizeof(text)) == 0 && text[0]) {
		filter = strtoll(text, NULL, 16);
		doctor_put(out, "coredump_filter", json_integer(filter));
	}
	if (doc_read("/proc/sys/kernel/core_pattern", text, LINE_BYTES) == 0)
		doctor_put(out, "core_pattern", doc_text(text));
}

/* Count the open descriptors. */
static void put_descriptors(struct doctor_out *out, int32_t pid)
{
	char path[PATH_BYTES];
	int64_t count = 0;
	DIR *directory;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	directory = opendir(path);
	if (!directory) {
		doctor_put(out, "refused", doc_text(strerror(errno)));
		return;
	}
	for (struct dirent *entry; (entry = readdir(directory));)
		count += entry->d_name[0] != '.';
	closedir(directory);
	doctor_put(out, "descriptors", json_integer(count));
}

/*
 * Where the kernel would write a core: the folder of core_pattern, or that in which the process runs. Its file system may
 * hang: call this last.
 */
static void put_core_folder(struct doctor_out *out, int32_t pid)
{
	char pattern[LINE_BYTES], folder[PATH_MAX], reached[PATH_MAX + PATH_BYTES];
	json_t *about = doc_object();
	struct statvfs space;
	struct stat st;

	if (doc_read("/proc/sys/kernel/core_pattern", pattern, sizeof(pattern)) == 0 && pattern[0] && pattern[0] != '|') {
		if (pattern[0] == '/') {
			snprintf(folder, sizeof(folder), "%.*s", (int)(strrchr(pattern, '/') - pattern), pattern);
			snprintf(reached, sizeof(reached), "/proc/%d/root%s/", pid, folder);
		} else {
			ssize_t bytes;

			snprintf(reached, sizeof(reached), "/proc/%d/cwd", pid);
			bytes = readlink(reached, folder, sizeof(folder) - 1);
			folder[bytes > 0 ? bytes : 0] = '\0';
		}
		doctor_step(out, "looking at the folder of cores");
		if (stat(reached, &st) != 0) {
			doc_put(about, "missing", json_boolean(errno == ENOENT));
		} else if (statvfs(reached, &space) == 0) {
			doc_put(about, "uid", json_integer(st.st_uid));
			doc_put(about, "mode", json_integer(st.st_mode & 07777));
			doc_put(about, "free", json_integer((json_int_t)(space.f_bavail * space.f_frsize)));
			doc_put(about, "read_only", json_boolean(space.f_flag & ST_RDONLY));
		}
		doc_put(about, "path", doc_text(folder[0] ? folder : reached));
	}
	doctor_put(out, "core_folder", about);
}

/* The core of a process that is gone. */
static void put_core(struct doctor_out *out, int32_t pid)
{
	char pattern[LINE_BYTES], path[PATH_MAX];

	doctor_step(out, "searching for the core of process %d", pid);
	if (doc_read("/proc/sys/kernel/core_pattern", pattern, sizeof(pattern)) == 0 &&
	    doc_find_core(pattern, pid, path, sizeof(path)))
		doctor_put(out, "core", doc_text(path));
}

void doctor_look_process(struct doctor_out *out, const void *ctx)
{
	int32_t pid = *(const int32_t *)ctx;
	json_t *threads, *cgroups;
	uint64_t since_ms;

	doctor_put(out, "pid", json_integer(pid));
	if (pid <= 0 || !put_status(out, pid)) {
		doctor_put(out, "gone", json_true());
		if (pid > 0)
			put_core(out, pid);
		return;
	}
	doctor_step(out, "reading the threads of process %d", pid);
	threads = doc_threads(pid);
	cgroups = doc_cgroups(pid);
	since_ms = doctor_elapsed_ms(out);
	put_limits(out, pid);
	put_descriptors(out, pid);
	doctor_step(out, "reading the program of process %d", pid);
	doctor_put(out, "program", doc_program(pid));
	doctor_put(out, "libraries", doc_libraries(pid));
	doctor_put(out, "threads", json_deep_copy(threads));
	doctor_wait_look(out, since_ms);
	doc_threads_again(pid, threads);
	(void)put_status(out, pid); /* it may have been stopped meanwhile, or have ended */
	doctor_put(out, "threads", threads);
	doctor_put(out, "interval_ms", json_integer((json_int_t)(doctor_elapsed_ms(out) - since_ms)));
	doctor_put(out, "cgroups_before", cgroups);
	doctor_put(out, "cgroups", doc_cgroups(pid));
	put_core_folder(out, pid);
}
