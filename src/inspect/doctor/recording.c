/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * recording - the past of the engine in a recording of its trace: one that the user named, or the file to which a
 * `fathom trace record` that runs now is writing. That is a process which has the engine's trace file open, and another
 * trace file, too.
 */
#include <dirent.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "inspect/doctor/internal.h"
#include "inspect/trace/trace_file.h"

enum { FOLDER_BYTES = 64, NAME_BYTES = 64 };

static bool is_recording(const char *path)
{
	struct fathom_fault why;
	struct reader *reader;
	bool is;

	if (reader_open(path, &reader, &why) != 0)
		return false;
	is = reader_is_recording(reader);
	reader_close(reader);
	return is;
}

/* Does the process have both `file` and a recording open? */
static bool look_into(const char *folder, const struct stat *file, char path_ret[PATH_MAX])
{
	char link[FOLDER_BYTES + NAME_BYTES], path[PATH_MAX];
	bool reads = false, records = false;
	DIR *directory = opendir(folder);
	struct dirent *entry;
	struct stat st;

	while (directory && (entry = readdir(directory))) {
		ssize_t bytes;

		snprintf(link, sizeof(link), "%s/%.60s", folder, entry->d_name);
		bytes = readlink(link, path, sizeof(path) - 1);
		if (bytes <= 0 || path[0] != '/' || stat(link, &st) != 0 || !S_ISREG(st.st_mode))
			continue;
		path[bytes] = '\0';
		if (st.st_ino == file->st_ino && st.st_dev == file->st_dev) {
			reads = true;
		} else if (!records && is_recording(path)) {
			records = true;
			memcpy(path_ret, path, sizeof(path));
		}
	}
	if (directory)
		closedir(directory);
	return reads && records;
}

/* False: no process records the trace file. */
static bool find_recorder(const struct doctor_recording *about, char path_ret[PATH_MAX])
{
	DIR *directory = opendir("/proc");
	char folder[FOLDER_BYTES];
	struct dirent *entry;
	bool found = false;
	struct stat file;
	uint64_t pid;

	if (stat(about->trace, &file) != 0)
		file.st_ino = 0;
	while (directory && file.st_ino && !found && (entry = readdir(directory))) {
		if (text_parse_u64(entry->d_name, 10, INT32_MAX, &pid) != 0 || (int64_t)pid == *about->pid ||
		    (pid_t)pid == getpid() || (pid_t)pid == getppid())
			continue;
		snprintf(folder, sizeof(folder), "/proc/%d/fd", (int)pid);
		found = look_into(folder, &file, path_ret);
	}
	if (directory)
		closedir(directory);
	return found;
}

void doctor_look_recording(struct doctor_out *out, const void *ctx)
{
	const struct doctor_recording *about = ctx;
	char path[PATH_MAX];
	struct fathom_fault why;
	json_t *past;

	if (about->path) {
		if (text_copy(path, sizeof(path), about->path) != 0)
			return;
	} else if (!about->trace[0] || !find_recorder(about, path)) {
		return;
	}
	doctor_put(out, "path", doc_text(path));
	doctor_step(out, "reading the recording %s", path);
	past = traced_past_of(path, clock_realtime_ns(), &why);
	if (past)
		doctor_put(out, "past", past);
	else if (about->path)
		doctor_put(out, "refused", doc_text(why.text));
}
