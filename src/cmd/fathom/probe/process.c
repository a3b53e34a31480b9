/* SPDX-License-Identifier: BSD-2-Clause */
/* process - reads processes from /proc. */
#include "cmd/fathom/probe/process.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"

/* Replace unprintable characters: the text is from outside, and a terminal must not interpret it. */
static void make_printable(char *text)
{
	for (; *text; text++) {
		if (!isprint((unsigned char)*text))
			*text = '?';
	}
}

static void read_proc_line(int32_t pid, const char *file, char *to, size_t bytes)
{
	char path[64];
	FILE *from;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
	from = fopen(path, "re");
	to[0] = '\0';
	if (!from)
		return;
	if (fgets(to, (int)bytes, from))
		to[strcspn(to, "\n")] = '\0';
	fclose(from);
}

/* Open its trace file, if it has one and is alive. A file of an earlier process with the same id is ignored. */
static void find_trace(struct process *process)
{
	char path[PATH_MAX];
	struct fathom_fault why;

	if (reader_find_newest(NULL, NULL, process->pid, path, sizeof(path), &why) != 0 ||
	    reader_open(path, &process->reader, &why) != 0)
		return;
	if (reader_info(process->reader)->liveness != READER_ALIVE || reader_info(process->reader)->spdk) {
		reader_close(process->reader);
		process->reader = NULL;
		return;
	}
	(void)text_copy(process->trace_name, sizeof(process->trace_name), reader_info(process->reader)->name);
}

/* Explain why /proc/PID/exe cannot be read, and what would help. */
static int explain_hidden(int32_t pid, int error, struct fathom_fault *why)
{
	char path[64];
	struct stat status;

	if (error == ENOENT)
		return fault(why, -error, "process %d does not exist, or is a kernel thread", pid);
	snprintf(path, sizeof(path), "/proc/%d", pid);
	if (stat(path, &status) != 0)
		return fault(why, -error, "process %d: its program cannot be read: %s", pid, strerror(error));
	if (status.st_uid != geteuid())
		return fault(why, -error,
			     "process %d: its program cannot be read: it belongs to user %u, and you are user %u; run this "
			     "command as that user, or with CAP_SYS_PTRACE, as root has it",
			     pid, status.st_uid, geteuid());
	return fault(why, -error,
		     "process %d: its program cannot be read, although it is yours: it has privileges or is not dumpable; "
		     "run this command with CAP_SYS_PTRACE, as root has it",
		     pid);
}

int process_open(int32_t pid, struct process *process, struct fathom_fault *why)
{
	char path[64];
	ssize_t bytes;
	int rc;

	*process = (struct process){ .pid = pid };
	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	bytes = readlink(path, process->program, sizeof(process->program) - 1);
	if (bytes < 0)
		return explain_hidden(pid, errno, why);
	rc = notes_read(path, &process->notes, why);
	if (rc)
		return rc;
	read_proc_line(pid, "comm", process->command, sizeof(process->command));
	make_printable(process->command);
	make_printable(process->program);
	find_trace(process);
	return 0;
}

void process_close(struct process *process)
{
	reader_close(process->reader);
	notes_free(&process->notes);
}

size_t process_program_bytes(const struct process *process)
{
	static const char deleted[] = " (deleted)";
	size_t bytes = strlen(process->program);

	if (bytes > strlen(deleted) && strcmp(process->program + bytes - strlen(deleted), deleted) == 0)
		bytes -= strlen(deleted);
	return bytes;
}

enum process_file process_file_of(const struct process *process, char *path_ret, size_t bytes)
{
	struct stat here, there;
	char running[64];

	snprintf(running, sizeof(running), "/proc/%d/exe", process->pid);
	snprintf(path_ret, bytes, "/proc/%d/root%.*s", process->pid, (int)process_program_bytes(process), process->program);
	if (stat(running, &here) != 0)
		return PROCESS_FILE_HIDDEN;
	if (stat(path_ret, &there) != 0)
		return PROCESS_FILE_GONE;
	return here.st_dev == there.st_dev && here.st_ino == there.st_ino ? PROCESS_FILE_RUNS : PROCESS_FILE_OTHER;
}

const char *process_name(const struct process *process)
{
	return process->trace_name[0] ? process->trace_name : process->command;
}

static bool process_is_engine(const struct process *process)
{
	for (uint32_t i = 0; i < process->notes.probe_count; i++) {
		const char *provider = process->notes.probes[i].provider;

		if (strcmp(provider, "fathom") == 0 || strcmp(provider, "spdk") == 0)
			return true;
	}
	return false;
}

static bool process_has_name(const struct process *process, const char *name)
{
	const char *slash = strrchr(process->program, '/');

	return strcmp(process->trace_name, name) == 0 || strcmp(process->command, name) == 0 ||
	       strcmp(process->program, name) == 0 || (slash && strcmp(slash + 1, name) == 0);
}

/* Is it an instance of this command? The command contains probes of its libraries, which must not be listed. */
static bool is_this_program(int32_t pid)
{
	struct stat ours, its;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	return stat("/proc/self/exe", &ours) == 0 && stat(path, &its) == 0 && ours.st_dev == its.st_dev &&
	       ours.st_ino == its.st_ino;
}

/* Call `each` for all processes with `name`; NULL: all engines, or all with probes. Returns their number. */
static int call_for_matching(const struct probe_request *request, const char *name, void (*each)(void *, struct process *),
			     void *ctx)
{
	DIR *directory = opendir("/proc");
	struct dirent *entry;
	int count = 0;

	while (directory && (entry = readdir(directory))) {
		struct process process;
		struct fathom_fault why;
		uint64_t pid;

		if (text_parse_u64(entry->d_name, 10, INT32_MAX, &pid) != 0 || is_this_program((int32_t)pid))
			continue;
		if (process_open((int32_t)pid, &process, &why) == 0 && process.notes.probe_count &&
		    (name ? process_has_name(&process, name) : request->all || process_is_engine(&process))) {
			each(ctx, &process);
			count++;
		}
		process_close(&process);
	}
	if (directory)
		closedir(directory);
	return count;
}

static int call_for_pid(int32_t pid, void (*each)(void *, struct process *), void *ctx)
{
	struct process process;
	struct fathom_fault why;
	int rc = process_open(pid, &process, &why);

	if (rc) {
		fprintf(stderr, "fathom probe: %s\n", why.text);
		process_close(&process);
		return EXIT_NO_PROCESS;
	}
	if (process.notes.probe_count)
		each(ctx, &process);
	else
		fprintf(stderr, "fathom probe: %s (process %d) has no probes\n", process.program, pid);
	rc = process.notes.probe_count ? EXIT_SUCCESS : EXIT_NO_PROCESS;
	process_close(&process);
	return rc;
}

int process_each(const struct probe_request *request, void (*each)(void *ctx, struct process *process), void *ctx)
{
	int status = EXIT_SUCCESS;

	if (request->target_count == 0 && call_for_matching(request, NULL, each, ctx) == 0) {
		fprintf(stderr, "fathom probe: %s\n",
			request->all ? "no process with probes is running"
				     : "no engine is running; --all selects all processes with probes");
		return EXIT_NO_PROCESS;
	}
	for (int i = 0; i < request->target_count; i++) {
		const char *target = request->targets[i];
		uint64_t pid;

		if (text_parse_u64(target, 10, INT32_MAX, &pid) == 0) {
			if (call_for_pid((int32_t)pid, each, ctx) != EXIT_SUCCESS)
				status = EXIT_NO_PROCESS;
		} else if (call_for_matching(request, target, each, ctx) == 0) {
			fprintf(stderr,
				"fathom probe: no process with probes has the name \"%s\"; `fathom probe list --all` lists "
				"all\n",
				target);
			status = EXIT_NO_PROCESS;
		}
	}
	return status;
}
