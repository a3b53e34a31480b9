/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Devices whose operations never end, beside a working one: with io_uring (reads of a pipe without a writer's data) and
 * with helpers (fdatasync() of a descriptor, which this program's fdatasync() never completes).
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "rig.h"

enum { HUNG_DEVICES = 20, HUNG_OPS = 600 /* of each device; in total more than a ring holds */, SOUND_OPS = 1000 };

struct device {
	struct uring_device device;
	struct uring_lane lane;
	struct uring_op ops[HUNG_OPS];
	struct iovec iov;
	char byte;
};

static struct device *hung, sound;
static struct fathom_thread *thread;
static int pipe_fds[2], sound_fd;
static bool is_blocking;
static _Atomic(uint64_t) hung_done, sound_done, sound_failed;

/* ---- an fdatasync() that never returns ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool is_released;
static _Atomic(uint64_t) blocked;

int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);

int __wrap_fdatasync(int fd)
{
	if (fd != pipe_fds[0])
		return __real_fdatasync(fd);
	must(pthread_mutex_lock(&mutex) == 0);
	blocked++;
	while (!is_released)
		must(pthread_cond_wait(&changed, &mutex) == 0);
	must(pthread_mutex_unlock(&mutex) == 0);
	return 0;
}

static void release(void)
{
	must(pthread_mutex_lock(&mutex) == 0);
	is_released = true;
	must(pthread_cond_broadcast(&changed) == 0);
	must(pthread_mutex_unlock(&mutex) == 0);
	close(pipe_fds[1]); /* each read gets the end of file */
}

/* ---- operations ---- */

static void hung_ended(struct uring_op *op, int32_t result)
{
	hung_done++;
}

static void sound_ended(struct uring_op *op, int32_t result)
{
	sound_failed += result != 0;
	if (++sound_done < SOUND_OPS)
		uring_submit(op);
}

static void submit_hung(void *ctx)
{
	for (int d = 0; d < HUNG_DEVICES; d++) {
		uring_device_init(&hung[d].device, is_blocking);
		uring_lane_init(&hung[d].lane, &hung[d].device);
		hung[d].iov = (struct iovec){ &hung[d].byte, 1 };
		for (int i = 0; i < HUNG_OPS; i++) {
			hung[d].ops[i] = (struct uring_op){
				.done = hung_ended,
				.kind = is_blocking || !uring_available() ? URING_FDATASYNC : URING_READV,
				.fd = pipe_fds[0],
				.iov = &hung[d].iov,
				.iov_count = 1,
				.lane = &hung[d].lane,
			};
			uring_submit(&hung[d].ops[i]);
		}
	}
}

static void submit_sound(void *ctx)
{
	uring_device_init(&sound.device, is_blocking);
	uring_lane_init(&sound.lane, &sound.device);
	for (int i = 0; i < 4; i++) {
		sound.ops[i] = (struct uring_op){
			.done = sound_ended,
			.kind = URING_FDATASYNC,
			.fd = sound_fd,
			.lane = &sound.lane,
		};
		uring_submit(&sound.ops[i]);
	}
}

static void leave(void *ctx)
{
	for (int d = 0; d < HUNG_DEVICES; d++) {
		uring_lane_deinit(&hung[d].lane);
		uring_device_deinit(&hung[d].device);
	}
	uring_lane_deinit(&sound.lane);
	uring_device_deinit(&sound.device);
}

static void begin(void)
{
	char path[] = "/tmp/fathom-hung-XXXXXX";

	hung = calloc(HUNG_DEVICES, sizeof(*hung));
	assert_non_null(hung);
	is_released = false;
	hung_done = sound_done = sound_failed = blocked = 0;
	assert_int_equal(pipe(pipe_fds), 0);
	sound_fd = mkstemp(path);
	assert_true(sound_fd >= 0);
	unlink(path);
}

static void end(void)
{
	close(pipe_fds[0]);
	close(sound_fd);
	free(hung);
}

/* Twenty devices hang with 600 operations each; the working one continues. Then the hung ones answer. */
static void hung_beside_sound(void)
{
	begin();
	rig_start(1);
	thread = thread_create("file", rig_reactor(0));
	thread_send_msg(thread, submit_hung, NULL);
	if (is_blocking || !uring_available())
		rig_wait_u64(&blocked, 1);
	thread_send_msg(thread, submit_sound, NULL);
	rig_wait_u64(&sound_done, SOUND_OPS);
	assert_int_equal(hung_done, 0);
	release();
	rig_wait_u64(&hung_done, HUNG_DEVICES * HUNG_OPS);
	rig_wait_u64(&sound_done, SOUND_OPS + 3); /* the last operations in progress */
	rig_run_on(thread, leave, NULL);
	rig_exit(thread);
	rig_stop();
	assert_int_equal(sound_failed, 0);
	end();
}

static void hung_devices_leave_the_ring_to_the_others(void **state)
{
	rig_start(1);
	if (!uring_available()) {
		rig_stop();
		skip();
	}
	rig_stop();
	is_blocking = false;
	hung_beside_sound();
}

static void hung_devices_leave_helpers_to_the_others(void **state)
{
	setenv("FATHOM_NO_URING", "1", 1);
	is_blocking = false;
	hung_beside_sound();
	unsetenv("FATHOM_NO_URING");
}

static void blocking_devices_use_helpers_also_with_a_ring(void **state)
{
	is_blocking = true;
	hung_beside_sound();
}

/* ---- a move ---- */

static void nothing(void *ctx)
{
}

static void move(void *reactor)
{
	thread_move(thread_self(), reactor);
}

static void a_hung_device_delays_a_move_only_briefly(void **state)
{
	unsigned int cpu;

	setenv("FATHOM_NO_URING", "1", 1);
	is_blocking = false;
	begin();
	rig_start(2);
	if (rig_reactor(0) == rig_reactor(1)) {
		rig_stop();
		end();
		unsetenv("FATHOM_NO_URING");
		skip();
	}
	thread = thread_create("file", rig_reactor(0));
	cpu = reactor_cpu(rig_reactor(0));
	thread_send_msg(thread, submit_hung, NULL);
	rig_wait_u64(&blocked, 1);
	thread_send_msg(thread, move, rig_reactor(1));
	thread_send_msg(thread, submit_sound, NULL);
	while (sound_done == 0) /* a sleeping thread checks nothing; an engine always gets a next message */
		rig_run_on(thread, nothing, NULL);
	assert_int_equal(reactor_cpu(thread_reactor(thread)), cpu);
	release();
	rig_wait_u64(&hung_done, HUNG_DEVICES * HUNG_OPS);
	rig_wait_u64(&sound_done, SOUND_OPS + 3);
	rig_run_on(thread, leave, NULL);
	rig_exit(thread);
	rig_stop();
	end();
	unsetenv("FATHOM_NO_URING");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hung_devices_leave_the_ring_to_the_others),
		cmocka_unit_test(hung_devices_leave_helpers_to_the_others),
		cmocka_unit_test(blocking_devices_use_helpers_also_with_a_ring),
		cmocka_unit_test(a_hung_device_delays_a_move_only_briefly),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
