/* SPDX-License-Identifier: BSD-2-Clause */
/* A confined child may only read orders, write answers and end. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jail_rig.h"

#include "base/bits.h"
#include "children.h"
#include "inspect/probed/jail/child.h"
#include "inspect/probed/jail/protocol.h"

enum { ORDERS_END = 20, ANSWERS_END = 21 };

static const struct {
	const char *name;
	long number, arguments[4];
} calls[] = {
	{ "open", SYS_openat, { AT_FDCWD, (long)"/etc/passwd", O_RDONLY } },
	{ "read of another descriptor", SYS_read, { JAIL_FD_ANSWERS } },
	{ "write to another descriptor", SYS_write, { JAIL_FD_ORDERS } },
	{ "write to stderr", SYS_write, { 2, (long)"x", 1 } },
	{ "mmap", SYS_mmap, { 0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS } },
	{ "mprotect", SYS_mprotect, { 0, 4096, PROT_EXEC } },
	{ "brk", SYS_brk, { 0 } },
	{ "socket", SYS_socket, { AF_UNIX, SOCK_STREAM } },
	{ "fork", SYS_fork, { 0 } },
	{ "execve", SYS_execve, { (long)"/bin/true" } },
	{ "kill", SYS_kill, { 1, SIGTERM } },
	{ "ptrace", SYS_ptrace, { 0 } },
	{ "prlimit", SYS_prlimit64, { 0 } },
	{ "process_vm_writev", SYS_process_vm_writev, { 1 } },
	{ "dup", SYS_dup, { JAIL_FD_ORDERS } },
	{ "close", SYS_close, { JAIL_FD_ORDERS } },
	{ "memfd_create", SYS_memfd_create, { (long)"x" } },
	{ "io_uring_setup", SYS_io_uring_setup, { 1 } },
};

/* Run `act` in a confined process with pipes as its descriptors. Return the status of wait(2). */
static int run_confined(void (*act)(long), long argument)
{
	pid_t parent = getpid(), pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		struct fathom_fault why = { 0 };
		int orders[2], answers[2];

		if (pipe(orders) != 0 || pipe(answers) != 0 || dup2(orders[0], ORDERS_END) < 0 ||
		    dup2(answers[1], ANSWERS_END) < 0 || dup2(ORDERS_END, JAIL_FD_ORDERS) < 0 ||
		    dup2(ANSWERS_END, JAIL_FD_ANSWERS) < 0)
			_exit(1);
		if (jail_confine(parent, &why) != 0) {
			fprintf(stderr, "%s\n", why.text);
			_exit(2);
		}
		act(argument);
		syscall(SYS_exit_group, 0); /* not _exit(): sanitizers make other system calls in it */
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void do_nothing(long unused)
{
}

static void make_call(long index)
{
	const long *arguments = calls[index].arguments;

	syscall(calls[index].number, arguments[0], arguments[1], arguments[2], arguments[3], -1, 0);
}

static void any_other_system_call_kills_the_child(void **state)
{
	int status = run_confined(do_nothing, 0);

	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	for (size_t i = 0; i < ARRAY_COUNT(calls); i++) {
		status = run_confined(make_call, (long)i);
		if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSYS)
			fail_msg("%s: wait status 0x%x, expected SIGSYS", calls[i].name, status);
	}
}

/* The value of `key` in /proc/PID/status. */
static const char *status_of(pid_t pid, const char *key)
{
	static char line[256];
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "re");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		size_t bytes = strlen(key);

		if (strncmp(line, key, bytes) == 0 && line[bytes] == ':') {
			fclose(file);
			line[strcspn(line, "\n")] = '\0';
			return line + bytes + 1 + strspn(line + bytes + 1, " \t");
		}
	}
	fclose(file);
	return "";
}

static void a_child_has_only_its_pipes_and_no_privileges(void **state)
{
	pid_t pids[CHILDREN_MAX];
	struct fathom_fault why = { 0 };
	char path[64], name[32];

	if (!jail_rig_start(NULL, 1, JAIL_RIG_LONG_MS, &why))
		fail_msg("%s", why.text);
	assert_int_equal(children_of_this(pids), 1);
	assert_string_equal(status_of(pids[0], "Seccomp"), "2");
	assert_string_equal(status_of(pids[0], "NoNewPrivs"), "1");
	assert_string_equal(status_of(pids[0], "CapPrm"), "0000000000000000");
	assert_string_equal(status_of(pids[0], "CapEff"), "0000000000000000");
	assert_string_equal(status_of(pids[0], "Threads"), "1");
	if (geteuid() == 0) {
		assert_string_equal(status_of(pids[0], "Uid"), "65534\t65534\t65534\t65534");
		assert_string_equal(status_of(pids[0], "Gid"), "65534\t65534\t65534\t65534");
		assert_string_equal(status_of(pids[0], "Groups"), "");
		for (int fd = 0; fd < 64; fd++) {
			bool is_there, is_pipe = fd == JAIL_FD_ORDERS || fd == JAIL_FD_ANSWERS;
			ssize_t bytes;

			snprintf(path, sizeof(path), "/proc/%d/fd/%d", pids[0], fd);
			bytes = readlink(path, name, sizeof(name) - 1);
			is_there = bytes > 0;
			assert_int_equal(is_there, is_pipe);
			assert_true(!is_there || strncmp(name, "pipe:", 5) == 0);
		}
	}
	jail_rig_stop();
}

static void a_child_does_not_outlive_its_parent(void **state)
{
	pid_t pids[CHILDREN_MAX], parent;
	int said[2];

	assert_int_equal(pipe(said), 0);
	parent = fork();
	assert_true(parent >= 0);
	if (parent == 0) {
		if (!jail_rig_start(NULL, 1, JAIL_RIG_LONG_MS, NULL) || children_of_this(pids) != 1 ||
		    write(said[1], pids, sizeof(pids[0])) != sizeof(pids[0]))
			_exit(1);
		pause();
	}
	assert_int_equal(read(said[0], pids, sizeof(pids[0])), sizeof(pids[0]));
	assert_int_equal(kill(pids[0], 0), 0);
	assert_int_equal(kill(parent, SIGKILL), 0);
	assert_int_equal(waitpid(parent, NULL, 0), parent);
	/* init may reap it late */
	for (int i = 0; i < 1000 && kill(pids[0], 0) == 0 && status_of(pids[0], "State")[0] != 'Z'; i++)
		usleep(10000);
	assert_true(kill(pids[0], 0) != 0 || status_of(pids[0], "State")[0] == 'Z');
	close(said[0]);
	close(said[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_other_system_call_kills_the_child),
		cmocka_unit_test(a_child_has_only_its_pipes_and_no_privileges),
		cmocka_unit_test(a_child_does_not_outlive_its_parent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
