/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/fathom/probe/bpftrace.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/file.h"

/*
 * Descriptors of the child: the script, whose path begins bpftrace's messages, and the declarations of the structures
 * that it names.
 */
enum { PROGRAM_FD = 3, TYPES_FD = 4, FREE_FD = 16, ARGS_MAX = 64, STATUS_NO_EXEC = 127, MESSAGES_BYTES_MAX = 1 << 20 };
#define PROGRAM_PATH "/proc/self/fd/3"
#define TYPES_PATH "/proc/self/fd/4"

/* ---- prerequisites ---- */

static bool is_in_path(const char *program)
{
	const char *path = getenv("PATH");
	char *copy = strdup(path ? path : "/usr/bin:/bin"), *rest = copy, *directory, file[4096];
	bool found = false;

	must(copy);
	while (!found && (directory = strsep(&rest, ":"))) {
		snprintf(file, sizeof(file), "%s/%s", directory, program);
		found = access(file, X_OK) == 0;
	}
	free(copy);
	return found;
}

int bpftrace_check(struct fathom_fault *why)
{
	if (!is_in_path("bpftrace"))
		return fault(why, -ENOENT,
			     "bpftrace is not installed: apt-get install bpftrace, or the package of your system");
	if (geteuid() != 0)
		return fault(why, -EPERM,
			     "bpftrace must be run by root: use sudo; --print shows the program without running it");
	if (access("/sys/bus/event_source/devices/uprobe/type", F_OK) != 0 &&
	    access("/sys/kernel/tracing/uprobe_events", F_OK) != 0 &&
	    access("/sys/kernel/debug/tracing/uprobe_events", F_OK) != 0)
		return fault(why, -ENOTSUP,
			     "this kernel has no uprobes (CONFIG_UPROBE_EVENTS), or /sys is not visible; `fathom trace` "
			     "needs neither");
	return 0;
}

/* ---- the child ---- */

/* Make a descriptor from which the child reads `text`; it differs from the descriptors reserved in the child. */
static int make_text_fd(const char *text, struct fathom_fault *why)
{
	int low = memfd_create("script", MFD_CLOEXEC);
	int fd = low < 0 ? -1 : fcntl(low, F_DUPFD_CLOEXEC, FREE_FD);
	int rc = fd < 0 ? -errno : file_write(fd, text, strlen(text));

	if (low >= 0)
		close(low);
	if (rc == 0 && lseek(fd, 0, SEEK_SET) == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return fault(why, rc ? rc : -EIO, "cannot store the program in memory: %s", strerror(-rc));
}

struct child_fds {
	int program, types, out, err;
};

static void become_bpftrace(const struct bpftrace_start *start, const struct child_fds *fds, pid_t parent)
{
	char pid[16], *words[ARGS_MAX + 16];
	int count = 0, null = open("/dev/null", O_RDONLY);
	sigset_t none;

	/* its own group: the terminal's Ctrl-C reaches only us, and we pass it on once */
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGINT);
	if (getppid() != parent)
		_exit(0);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(fds->out, STDOUT_FILENO) < 0 ||
	    dup2(fds->err, STDERR_FILENO) < 0 || dup2(fds->program, PROGRAM_FD) < 0 || dup2(fds->types, TYPES_FD) < 0)
		_exit(STATUS_NO_EXEC);
	setenv("BPFTRACE_PERF_RB_PAGES", "512", 0);
	snprintf(pid, sizeof(pid), "%d", start->pid);
	words[count++] = "bpftrace";
	words[count++] = "-B";
	words[count++] = "none";
	words[count++] = "-p";
	words[count++] = pid;
	if (start->json) {
		words[count++] = "-f";
		words[count++] = "json";
	}
	if (*start->types) {
		words[count++] = "--include";
		words[count++] = TYPES_PATH;
	}
	words[count++] = PROGRAM_PATH;
	for (int i = 0; start->args && start->args[i] && i < ARGS_MAX; i++)
		words[count++] = start->args[i];
	words[count] = NULL;
	execvp("bpftrace", words);
	_exit(STATUS_NO_EXEC);
}

static void close_child_fds(const struct child_fds *fds)
{
	close(fds->program);
	close(fds->types);
	close(fds->out);
	close(fds->err);
}

static int open_child_fds(const struct bpftrace_start *start, struct child_fds *fds, int *out_ret, int *err_ret,
			  struct fathom_fault *why)
{
	int out[2] = { -1, -1 }, err[2] = { -1, -1 }, rc = 0;

	fds->program = make_text_fd(start->program, why);
	fds->types = fds->program < 0 ? fds->program : make_text_fd(start->types, why);
	if (fds->types < 0)
		rc = fds->types;
	else if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0)
		rc = fault(why, -errno, "cannot start bpftrace: %s", strerror(errno));
	fds->out = out[1];
	fds->err = err[1];
	*out_ret = out[0];
	*err_ret = err[0];
	return rc;
}

int bpftrace_start(const struct bpftrace_start *start, struct bpftrace *child_ret, struct fathom_fault *why)
{
	struct child_fds fds;
	int out, err, rc = open_child_fds(start, &fds, &out, &err, why);
	pid_t parent = getpid(), pid = rc ? -1 : fork();

	if (pid == 0)
		become_bpftrace(start, &fds, parent);
	if (rc == 0 && pid < 0)
		rc = fault(why, -errno, "cannot start bpftrace: %s", strerror(errno));
	close_child_fds(&fds);
	if (rc) {
		close(out);
		close(err);
		return rc;
	}
	*child_ret = (struct bpftrace){ .pid = pid, .out_fd = out, .err_fd = err };
	return 0;
}

void bpftrace_read_messages(struct bpftrace *child)
{
	char piece[4096];
	ssize_t bytes = read(child->err_fd, piece, sizeof(piece));

	if (bytes <= 0) {
		close(child->err_fd);
		child->err_fd = -1;
		return;
	}
	if (child->messages_bytes + (size_t)bytes > MESSAGES_BYTES_MAX)
		return;
	child->messages = realloc(child->messages, child->messages_bytes + (size_t)bytes + 1);
	must(child->messages);
	memcpy(child->messages + child->messages_bytes, piece, (size_t)bytes);
	child->messages_bytes += (size_t)bytes;
	child->messages[child->messages_bytes] = '\0';
}

bool bpftrace_waits_for_events(const struct bpftrace *child)
{
	char path[64], text[32] = "";
	bool waits = false;
	FILE *from;

	snprintf(path, sizeof(path), "/proc/%d/syscall", child->pid);
	from = fopen(path, "re");
	if (!from)
		return false;
	if (fgets(text, sizeof(text), from) && isdigit((unsigned char)*text)) {
		long number = strtol(text, NULL, 10);

		waits = number == SYS_epoll_wait || number == SYS_epoll_pwait;
	}
	fclose(from);
	return waits;
}

/* bpftrace prints no message when it has attached. But it waits in epoll only after it has attached to all probes. */
bool bpftrace_has_attached(struct bpftrace *child)
{
	child->attached = child->attached || bpftrace_waits_for_events(child);
	return child->attached;
}

/* ---- explaining errors ---- */

#define TRACEPOINTS "/sys/kernel/tracing/events"

static const struct {
	const char *message, *explanation;
} causes[] = {
	{ "only supports running as the root", "bpftrace must be run by root: use sudo" },
	{ "stack limit of 512 bytes", "strings of this script do not fit into the 512 bytes that the kernel has for a "
				      "probe: print fewer of them at once, or set BPFTRACE_STRLEN=32" },
	{ "No probes to attach", "none of the script's probes exists" },
	{ "BTF", "the script needs the kernel's BTF, which this kernel does not have" },
	{ "Operation not permitted", "the kernel rejects it: capabilities are missing (CAP_SYS_ADMIN, or CAP_BPF with "
				     "CAP_PERFMON), as in a container" },
	{ "Permission denied", "the kernel rejects it: capabilities are missing, or lockdown or SELinux forbids it" },
	{ "Error attaching probe", "the kernel did not attach a probe; `fathom probe list` lists those of the engine" },
	{ "No such process", "the process has ended" },
	{ "couldn't get argument",
	  "bpftrace does not find the arguments of a probe. The program's file may have been removed or replaced since "
	  "its start: `fathom probe check` shows whether; if so, restart the engine" },
};

/* Explain "/proc/self/fd/3:4:16-29: ERROR: text": the error and its line in the script. */
static int explain_script_error(const char *messages, const char *script, struct fathom_fault *why)
{
	const char *at = strstr(messages, PROGRAM_PATH ":");
	const char *text = at ? strstr(at, "ERROR: ") : NULL;
	int line = at ? (int)strtol(at + strlen(PROGRAM_PATH ":"), NULL, 10) : 0;

	if (!text || memchr(at, '\n', (size_t)(text - at)))
		return 0;
	text += strlen("ERROR: ");
	if (strncmp(text, "tracepoint not found", strlen("tracepoint not found")) == 0 && access(TRACEPOINTS, F_OK) != 0)
		return fault(why, -ENOENT,
			     "%s, line %d: the kernel's tracepoints are not mounted: as root, mount -t tracefs tracefs "
			     "/sys/kernel/tracing",
			     script, line);
	return fault(why, -EINVAL, "%s, line %d: %.*s", script, line, (int)min_u64(strcspn(text, "\n"), 300), text);
}

static int explain_bpftrace_error(const char *messages, const char *script, struct fathom_fault *why)
{
	const char *error;
	int rc = explain_script_error(messages, script, why);

	if (rc)
		return rc;
	for (size_t i = 0; i < ARRAY_COUNT(causes); i++) {
		if (strstr(messages, causes[i].message))
			return fault(why, -EIO, "%s: %s (--verbose prints bpftrace's messages)", script,
				     causes[i].explanation);
	}
	/* use the last error: earlier ones may be warnings, as of RLIMIT_MEMLOCK */
	for (error = NULL; (messages = strstr(messages, "ERROR: ")); messages += strlen("ERROR: "))
		error = messages;
	if (!error)
		return fault(why, -EIO, "%s: bpftrace ended with an error (--verbose prints its messages)", script);
	error += strlen("ERROR: ");
	return fault(why, -EIO, "%s: bpftrace reports: %.*s", script, (int)min_u64(strcspn(error, "\n"), 300), error);
}

int bpftrace_wait(struct bpftrace *child, const char *script, struct fathom_fault *why)
{
	int status;

	while (waitpid(child->pid, &status, 0) < 0) {
		if (errno != EINTR)
			return fault(why, -errno, "cannot wait for bpftrace: %s", strerror(errno));
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	if (WIFEXITED(status) && WEXITSTATUS(status) == STATUS_NO_EXEC && !child->messages)
		return fault(why, -ENOEXEC, "bpftrace cannot be started: check its installation");
	if (WIFSIGNALED(status))
		return fault(why, -EIO, "%s: bpftrace was ended by signal %d", script, WTERMSIG(status));
	return explain_bpftrace_error(child->messages ? child->messages : "", script, why);
}
