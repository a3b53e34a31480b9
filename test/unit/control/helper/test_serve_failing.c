/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The first, second, third ... external call of the helper's loop fails, until a run meets no failure; then those of its
 * children. In each run a helper on a fake operating system gets a request for each operation, one whose child dies and one
 * whose child hangs, and is stopped. Invariants: each request is answered, or the helper ends with a reason; a reported
 * success is true; each child that acts is confined; no process and no descriptor is left; the next helper works.
 *
 * The linker redirects the calls to this file (meson.build). test_operations.c fails the calls of the operations.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after those four */
#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bits.h"
#include "control/helper/serve.h"
#include "fake.h"

#include "../../failing_calls.h"

enum { DEVICE_BYTES = 8 << 20, ANSWER_MS = 20000, HANG_MS = 40, RUNS_MAX = 5000, GONE_MS = 10000 };

/* ---- calls that fail ---- */

/* Shared by all processes of a run. */
static struct {
	bool armed, in_worker, met;
	uint32_t count, fail_at;
	enum helper_operation asked; /* the last request */
	uint32_t loose;		     /* children that acted without being confined */
	char why[FAULT_TEXT_BYTES_MAX];
} * run;

static bool is_helper, is_worker; /* the role of this process */

static bool fails(void)
{
	if (!is_helper || !run->armed || is_worker != run->in_worker || failing_spared)
		return false;
	if (++run->count != run->fail_at)
		return false;
	run->met = true;
	return true;
}

FAILING_CALL(malloc)
FAILING_CALL(calloc)
FAILING_CALL(realloc)
FAILING_CALL(getsockopt)
FAILING_CALL(setsockopt)
FAILING_CALL(recvmsg)
/* not as in the table: EPIPE means that the server has closed the connection */
WRAP(ssize_t, send, (int fd, const void *data, size_t bytes, int flags), (fd, data, bytes, flags), ENOBUFS, -1)
FAILING_CALL(poll)
FAILING_CALL(pipe2)
FAILING_CALL(setpgid)
FAILING_CALL(kill)
FAILING_CALL(waitpid)
FAILING_CALL(read)
FAILING_CALL(write)
FAILING_CALL(clearenv)
FAILING_CALL(chdir)
FAILING_CALL(setrlimit64)
FAILING_CALL(prctl)
FAILING_CALL(syscall)
WRAP(scmp_filter_ctx, seccomp_init, (uint32_t otherwise), (otherwise), ENOMEM, NULL)
WRAP(int, seccomp_rule_add, (scmp_filter_ctx ctx, uint32_t action, int number, unsigned int count),
     (ctx, action, number, count), 0, -ENOMEM)
WRAP(int, seccomp_load, (scmp_filter_ctx ctx), (ctx), 0, -EFAULT)

FAILING_FORK(is_worker |= is_helper)

/* Ends the program when out of memory, by contract. */
SPARED_CALL(fathom_trace_intern)

/* ---- a fake operating system that checks the confinement of its callers ---- */

static struct fake fake;
static struct provider_calls calls;
static const struct provider_calls *faked;
#define CAP_BIT(name) BIT(CAP_##name)

static uint64_t wanted_capabilities(void)
{
	switch (run->asked) {
	case HELPER_FORMAT:
		return CAP_BIT(SYS_ADMIN) | CAP_BIT(DAC_OVERRIDE);
	case HELPER_PREPARE:
		return CAP_BIT(CHOWN) | CAP_BIT(FOWNER) | CAP_BIT(DAC_OVERRIDE);
	case HELPER_MOUNT:
	case HELPER_UNMOUNT:
		return CAP_BIT(SYS_ADMIN) | CAP_BIT(CHOWN) | CAP_BIT(FOWNER) | CAP_BIT(DAC_OVERRIDE);
	default:
		return CAP_BIT(DAC_OVERRIDE);
	}
}

static bool is_denied(long number)
{
	return __real_syscall(number, 0, 0, 0, 0, 0, 0) == -1 && errno == EPERM;
}

static bool is_confined(void)
{
	const uint64_t all = CAP_BIT(SYS_ADMIN) | CAP_BIT(CHOWN) | CAP_BIT(FOWNER) | CAP_BIT(DAC_OVERRIDE);
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];
	bool mounts = run->asked == HELPER_MOUNT || run->asked == HELPER_UNMOUNT;

	if (__real_syscall(SYS_capget, (long)&header, (long)data, 0, 0, 0, 0) != 0 ||
	    ((uint64_t)data[1].permitted << 32 | data[0].permitted) != wanted_capabilities() ||
	    ((uint64_t)data[1].effective << 32 | data[0].effective) != wanted_capabilities())
		return false;
	for (unsigned long cap = 0; cap <= CAP_LAST_CAP; cap++) {
		if (__real_prctl(PR_CAPBSET_READ, cap, 0, 0, 0) > ((all & BIT(cap)) != 0))
			return false;
	}
	return __real_prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 && is_denied(SYS_socket) &&
	       is_denied(SYS_execve) == (run->asked != HELPER_FORMAT) && is_denied(SYS_umount2) == !mounts &&
	       is_denied(SYS_mkdirat) == (!mounts && run->asked != HELPER_PREPARE);
}

static int observing_open(struct provider *self, const char *path, int flags, mode_t mode, bool plain)
{
	int fd;

	if (is_worker && !is_confined())
		run->loose++;
	failing_spared++;
	fd = faked->open(self, path, flags, mode, plain);
	failing_spared--;
	return fd;
}

static int observing_stat(struct provider *self, int fd, struct stat *stat_ret)
{
	int error;

	failing_spared++;
	error = faked->stat(self, fd, stat_ret);
	failing_spared--;
	return error;
}

/* Read the signature from the device, since the fake's memory is in another process. */
static int observing_signature(struct provider *self, int fd, struct provider_signature *signature_ret)
{
	char magic[4] = "", path[256], link[64];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	must(readlink(link, path, sizeof(path) - 1) > 0);
	if (is_worker && strstr(path, "/dev/nvme1n1"))
		_exit(7); /* it dies */
	while (is_worker && strstr(path, "/dev/nvme2n1"))
		pause(); /* it hangs */
	memset(signature_ret, 0, sizeof(*signature_ret));
	if (pread(fd, magic, sizeof(magic), 0) == sizeof(magic) && memcmp(magic, "XFSB", 4) == 0) {
		memcpy(signature_ret->type, "xfs", 4);
		memcpy(signature_ret->usage, "filesystem", 11);
		memcpy(signature_ret->label, "fathom0", 8);
	}
	return 0;
}

static int observing_mount(struct provider *self, const char *device, int target_fd, const char *type, unsigned long flags)
{
	int error;

	failing_spared++;
	error = faked->mount(self, device, target_fd, type, flags);
	failing_spared--;
	return error;
}

static int observing_unmount(struct provider *self, int parent_fd, const char *name)
{
	int error;

	failing_spared++;
	error = faked->unmount(self, parent_fd, name);
	failing_spared--;
	return error;
}

static int open_device(int flags)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/dev/nvme0n1", fake.folder);
	fd = open(path, flags | O_CLOEXEC);
	must(fd >= 0);
	return fd;
}

/* Write a superblock of version 4, which has no checksum. */
static void mkfs(struct fake *unused)
{
	int fd = open_device(O_WRONLY);

	must(pwrite(fd, "XFSB\0\0\x10\0", 8, 0) == 8);
	must(pwrite(fd, "\xb4\xa4\x02\0", 4, 100) == 4);
	close(fd);
}

static bool has_filesystem(void)
{
	int fd = open_device(O_RDONLY);
	char magic[4];
	bool has = pread(fd, magic, 4, 0) == 4 && memcmp(magic, "XFSB", 4) == 0;

	close(fd);
	return has;
}

static bool is_mounted(void)
{
	char path[128];
	struct stat stat_of;

	snprintf(path, sizeof(path), "%s/proc/self/mountinfo", fake.folder);
	must(stat(path, &stat_of) == 0);
	return stat_of.st_size > 0;
}

static void begin_fake(void)
{
	fake_begin(&fake);
	fake_device(&fake, "nvme0n1", "pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1", 259, 0, DEVICE_BYTES / 512);
	fake_device(&fake, "nvme1n1", "pci0000:00/0000:02:00.0/nvme/nvme1/nvme1n1", 259, 1, DEVICE_BYTES / 512);
	fake_device(&fake, "nvme2n1", "pci0000:00/0000:03:00.0/nvme/nvme2/nvme2n1", 259, 2, DEVICE_BYTES / 512);
	fake_folder(&fake, "/mnt/engine0");
	fake.on_run = mkfs;
	faked = fake.provider.calls;
	calls = *faked;
	calls.open = observing_open;
	calls.stat = observing_stat;
	calls.signature = observing_signature;
	calls.mount = observing_mount;
	calls.unmount = observing_unmount;
	fake.provider.calls = &calls;
}

/* ---- one helper ---- */

static const struct helper_policy policy = {
	.mounts = { "/mnt" }, .mount_count = 1, .devices = { "nvme*" }, .device_count = 1, .operations = UINT32_MAX
};

static uint32_t descriptors_of(pid_t pid)
{
	uint32_t count = 0;
	char path[32];
	DIR *folder;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	folder = opendir(path);
	must(folder);
	while (readdir(folder))
		count++;
	must(closedir(folder) == 0);
	return count;
}

static void be_helper(int fd)
{
	const struct helper_serve_options options = {
		.fd = fd, .provider = &fake.provider, .policy = &policy, .version = "1"
	};
	struct fathom_fault why = { 0 };
	int error;

	is_helper = true;
	error = helper_serve(&options, &why);
	run->armed = false;
	must(error == why.error);
	snprintf(run->why, sizeof(run->why), "%s", why.text);
	_exit(error ? EXIT_FAILURE : EXIT_SUCCESS);
}

static pid_t start(int *fd_ret)
{
	int pair[2], on = 1;
	pid_t pid;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		close(pair[0]);
		be_helper(pair[1]);
	}
	close(pair[1]);
	*fd_ret = pair[0];
	return pid;
}

/* Wait until the helper and its children have ended; return its status. */
static int wait_for_end(pid_t pid)
{
	int status = 0, one;

	for (int ms = 0; ms < GONE_MS; ms++) {
		pid_t ended = waitpid(-1, &one, WNOHANG);

		if (ended < 0) {
			assert_int_equal(errno, ECHILD);
			return status;
		}
		if (ended == pid)
			status = one;
		if (ended == 0)
			usleep(1000);
	}
	fail_msg("call %u: a process of the helper is left", run->fail_at);
	return -1;
}

enum { NO_DESCRIPTORS = 2 }; /* "." and ".." alone: the process has ended */

/* Assert that the helper closes the descriptors of its children. The end of a killed child takes a moment. */
static void assert_no_descriptors_left(pid_t pid)
{
	static uint32_t usual; /* the count of the first helper */
	uint32_t count = descriptors_of(pid);

	for (int ms = 0; ms < GONE_MS && usual != 0 && count != usual && count != NO_DESCRIPTORS; ms++) {
		usleep(1000);
		count = descriptors_of(pid);
	}
	if (count == NO_DESCRIPTORS && run->met)
		return; /* a call that failed after the last reply has ended the helper */
	if (usual == 0)
		usual = count;
	if (count != usual)
		fail_msg("call %u: %u descriptors, expected %u", run->fail_at, count, usual);
}

/* ---- requests ---- */

struct step {
	struct helper_request request;
	int error;
};

#define DEVICE .device = "/dev/nvme0n1"
#define TARGET .target = "/mnt/engine0"

static const struct step steps[] = {
	{ { .operation = HELPER_PING }, 0 },
	{ { .operation = HELPER_CHECK_FORMAT, DEVICE }, 0 },
	{ { .operation = HELPER_FORMAT, DEVICE, .label = "fathom0" }, 0 },
	{ { .operation = HELPER_MOUNT, DEVICE, TARGET, .label = "fathom0" }, 0 },
	{ { .operation = HELPER_READ_LABEL, .device = "/dev/nvme1n1" }, -ECHILD },
	{ { .operation = HELPER_READ_LABEL, .device = "/dev/nvme2n1", .timeout_ms = HANG_MS }, -ETIMEDOUT },
	{ { .operation = HELPER_UNMOUNT, TARGET }, 0 },
	{ { .operation = HELPER_PREPARE, DEVICE, .flags = HELPER_FLAG_WIPE | HELPER_FLAG_OWN | HELPER_FLAG_FORCE }, 0 },
};

static bool is_done(enum helper_operation operation)
{
	switch (operation) {
	case HELPER_FORMAT:
		return has_filesystem();
	case HELPER_MOUNT:
		return is_mounted();
	case HELPER_UNMOUNT:
		return !is_mounted();
	case HELPER_PREPARE:
		return !has_filesystem();
	default:
		return true;
	}
}

/* False: the helper has ended. */
static bool ask(int fd, uint64_t id, const struct helper_request *what, struct helper_reply *reply)
{
	struct helper_request request = *what;
	uint8_t frame[HELPER_FRAME_BYTES_MAX];
	struct pollfd polled = { .fd = fd, .events = POLLIN };
	struct fathom_fault why;
	ssize_t got;
	size_t bytes;

	request.id = id;
	run->asked = request.operation;
	bytes = helper_encode_request(&request, frame);
	if (send(fd, frame, bytes, MSG_NOSIGNAL) != (ssize_t)bytes) {
		assert_int_equal(errno, EPIPE);
		return false;
	}
	if (poll(&polled, 1, ANSWER_MS) != 1)
		fail_msg("call %u: no answer to %s", run->fail_at, helper_operation_name(request.operation));
	got = recv(fd, frame, sizeof(frame), 0);
	if (got <= 0)
		return false;
	assert_int_equal(helper_decode_reply(frame, (size_t)got, reply, &why), 0);
	assert_int_equal(reply->id, id);
	assert_int_equal(reply->operation, request.operation);
	assert_int_equal(reply->text[0] != '\0', reply->error != 0);
	return true;
}

/*
 * A reported success must be true. A failed request must have a reason; the caller checks its effect with the next helper.
 */
static bool take_steps(int fd)
{
	struct helper_reply reply;

	for (size_t i = 0; i < ARRAY_COUNT(steps); i++) {
		const struct step *step = &steps[i];

		if (!ask(fd, i + 1, &step->request, &reply))
			return false;
		if (reply.error != step->error && !run->met)
			fail_msg("%s: %s", helper_operation_name(step->request.operation), reply.text);
		if (reply.error == 0 && !is_done(step->request.operation))
			fail_msg("call %u: %s is reported as done but is not done", run->fail_at,
				 helper_operation_name(step->request.operation));
	}
	return true;
}

/* From any state that was left, the device can be unmounted, formatted and mounted. */
static void tidy(int fd)
{
	static const struct helper_request unmounting = { .operation = HELPER_UNMOUNT, TARGET }, wiping = {
		.operation = HELPER_PREPARE, DEVICE, .flags = HELPER_FLAG_WIPE | HELPER_FLAG_FORCE
	};
	struct helper_reply reply;

	assert_true(ask(fd, 101, &unmounting, &reply));
	assert_int_equal(reply.error, 0);
	assert_true(ask(fd, 102, &wiping, &reply));
	assert_int_equal(reply.error, 0);
	assert_false(is_mounted() || has_filesystem());
}

/* Return true if a call has failed. */
static bool run_with_failure(bool in_worker, uint32_t fail_at)
{
	int fd, status;
	pid_t pid;
	bool met, goes_on;

	memset(run, 0, sizeof(*run));
	run->in_worker = in_worker;
	run->fail_at = fail_at;
	run->armed = true;
	pid = start(&fd);
	goes_on = take_steps(fd);
	if (goes_on)
		assert_no_descriptors_left(pid);
	close(fd);
	status = wait_for_end(pid);
	if (!WIFEXITED(status) || (WEXITSTATUS(status) != EXIT_SUCCESS && WEXITSTATUS(status) != EXIT_FAILURE))
		fail_msg("call %u: the helper ended with wait status %#x", fail_at, (unsigned int)status);
	if (!goes_on && run->why[0] == '\0')
		fail_msg("call %u: the helper ended without a reason", fail_at);
	assert_int_equal(run->why[0] != '\0', WEXITSTATUS(status) != EXIT_SUCCESS);
	if (run->loose > 0)
		fail_msg("call %u: a child acted without being confined", fail_at);
	met = run->met;
	if (!met)
		assert_true(goes_on);
	run->armed = false;
	pid = start(&fd);
	tidy(fd);
	close(fd);
	assert_int_equal(wait_for_end(pid), 0);
	return met;
}

static void each_call_fails_once(bool in_worker)
{
	uint32_t n;

	if (geteuid() != 0) {
		print_message("# SKIP the helper works only for root\n");
		skip();
	}
	begin_fake();
	assert_false(run_with_failure(in_worker, 0));
	for (n = 1; run_with_failure(in_worker, n); n++)
		assert_true(n < RUNS_MAX);
	printf("# %u calls failed, one at a time\n", n - 1);
	assert_true(n > 50);
	fake_end(&fake);
}

static void a_failed_call_of_the_loop_is_answered_or_ends_it_with_a_reason(void **state)
{
	each_call_fails_once(false);
}

static void a_failed_call_of_a_child_is_reported_and_it_stays_confined(void **state)
{
	each_call_fails_once(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_failed_call_of_the_loop_is_answered_or_ends_it_with_a_reason),
		cmocka_unit_test(a_failed_call_of_a_child_is_reported_and_it_stays_confined),
	};

	run = mmap(NULL, sizeof(*run), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must(run != MAP_FAILED);
	must(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0); /* children of a dead helper become ours */
	return cmocka_run_group_tests_name("helper serve failing", tests, NULL, NULL);
}
