/* SPDX-License-Identifier: BSD-2-Clause */
/* Everything works also if the kernel refuses io_uring and epoll_pwait2(), as under Docker's seccomp profiles. */
#include <errno.h>
#include <fcntl.h>
#include <seccomp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "rig.h"

static void refuse(int syscall)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);

	assert_non_null(filter);
	assert_int_equal(seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), syscall, 0), 0);
	assert_int_equal(seccomp_load(filter), 0);
	seccomp_release(filter);
}

static _Atomic(uint64_t) done;

static void on_done(struct uring_op *op, int32_t result)
{
	done += result == 0 ? 1 : 1000;
}

static void submit(void *op)
{
	uring_submit(op);
}

static void file_io_uses_helpers_without_io_uring(void **state)
{
	char path[] = "/tmp/fathom-refused-XXXXXX";
	struct uring_op op = { .done = on_done, .kind = URING_FDATASYNC, .fd = mkstemp(path) };
	struct fathom_thread *thread;

	assert_true(op.fd >= 0);
	unlink(path);
	unsetenv("FATHOM_NO_URING");
	refuse(SCMP_SYS(io_uring_setup));
	rig_start(1);
	assert_false(uring_available());
	thread = thread_create("file", NULL);
	thread_send_msg(thread, submit, &op);
	rig_wait_u64(&done, 1);
	assert_int_equal(done, 1);
	rig_exit(thread);
	rig_stop();
	close(op.fd);
}

static _Atomic(uint64_t) ticks;
static struct poller *timer;

static int tick(void *ctx)
{
	ticks++;
	return 0;
}

static void start_timer(void *unused)
{
	timer = poller_register("timer", tick, NULL, NS_PER_MS / 2);
}

static void stop_timer(void *unused)
{
	poller_unregister(&timer);
}

static void nothing(void *unused)
{
}

static void sleeping_falls_back_to_epoll_wait(void **state)
{
	struct fathom_thread *thread;

	refuse(SCMP_SYS(epoll_pwait2));
	rig_start(1);
	thread = thread_create("timed", NULL);
	usleep(5000);
	rig_run_on(thread, nothing, NULL);
	rig_run_on(thread, start_timer, NULL);
	rig_wait_u64(&ticks, 20);
	rig_run_on(thread, stop_timer, NULL);
	rig_exit(thread);
	rig_stop();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(file_io_uses_helpers_without_io_uring),
		cmocka_unit_test(sleeping_falls_back_to_epoll_wait),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
