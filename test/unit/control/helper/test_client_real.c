/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The server's side with the real helper, real loop devices and real XFS. The helper is killed or stopped at any time of
 * each operation; afterwards the device must be in one of the allowed states.
 */
#include "rig.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"
#include "control/helper/client.h"
#include "loop.h"

enum { DEVICE_BYTES = 400 << 20, ROUNDS = 8, TRIES = 100 };

static char folder[64], mounts[80], target[96], config[96], program[256];
static struct helper_client *client;
static struct fathom_thread *home;
static _Atomic(uint64_t) answers;
static uint64_t asked;
static struct helper_request request;
static struct helper_reply reply;
static struct helper_client_stats stats;
static struct loop device;

static void done(void *ctx, const struct helper_reply *got, const struct fathom_fault *why)
{
	must(why->error == got->error);
	reply = *got;
	answers++;
}

static void create(void *unused)
{
	struct helper_client_options options = { .program = program, .config = config, .grace_ns = 300 * NS_PER_MS };
	struct fathom_fault why;

	client = helper_client_create(&options, &why);
	must(client);
}

static void destroy(void *unused)
{
	helper_client_destroy(client);
}

static void submit(void *unused)
{
	helper_client_submit(client, &request, done, NULL);
}

static void read_stats(void *unused)
{
	helper_client_get_stats(client, &stats);
}

static void begin_request(struct helper_request what)
{
	request = what;
	if (what.operation != HELPER_UNMOUNT)
		memcpy(request.device, device.path, sizeof(device.path));
	if (what.operation == HELPER_MOUNT || what.operation == HELPER_UNMOUNT)
		snprintf(request.target, sizeof(request.target), "%s", target);
	asked++;
	rig_run_on(home, submit, NULL);
}

static int ask(struct helper_request what)
{
	begin_request(what);
	rig_wait_u64(&answers, asked);
	return reply.error;
}

/* A killed process may keep the device open for a moment, and the client must first detect a stopped helper: retry. */
static void ask_until_done(struct helper_request what)
{
	int error = -EBUSY;

	for (int i = 0; i < TRIES && error; i++) {
		error = ask(what);
		if (error)
			usleep(50000);
	}
	if (error)
		fail_msg("%s: %s", helper_operation_name(what.operation), reply.text);
}

static bool prepare_folders(void)
{
	const char *bin = getenv("FATHOM_BIN");
	FILE *file;

	snprintf(program, sizeof(program), "%s/fathom-helper", bin ? bin : "build/bin");
	snprintf(folder, sizeof(folder), "/tmp/fathom-real-XXXXXX");
	must(mkdtemp(folder));
	must(chmod(folder, 0755) == 0);
	snprintf(mounts, sizeof(mounts), "%s/mnt", folder);
	must(mkdir(mounts, 0755) == 0);
	snprintf(target, sizeof(target), "%s/engine0", mounts);
	snprintf(config, sizeof(config), "%s/helper.conf", folder);
	file = fopen(config, "w");
	must(file);
	fprintf(file, "mounts %s\ndevice loop*\n", mounts);
	fclose(file);
	return access(program, X_OK) == 0;
}

static void remove_folders(void)
{
	(void)umount(target); /* left by a failed test */
	(void)rmdir(target);
	must(rmdir(mounts) == 0);
	must(unlink(config) == 0);
	must(rmdir(folder) == 0);
}

static bool can_run(void)
{
	const char *reason = "the kernel has no XFS, or mkfs.xfs is missing";
	char line[64];
	bool xfs = false;
	FILE *file = fopen("/proc/filesystems", "r");

	while (file && fgets(line, sizeof(line), file))
		xfs |= strstr(line, "\txfs\n") != NULL;
	if (file)
		fclose(file);
	if (xfs && access("/usr/sbin/mkfs.xfs", X_OK) == 0 && loop_attach(&device, DEVICE_BYTES, &reason))
		return true;
	print_message("# SKIP %s\n", reason);
	return false;
}

static const struct helper_request check = { .operation = HELPER_CHECK_FORMAT, .timeout_ms = 20000 };
static const struct helper_request format = {
	.operation = HELPER_FORMAT, .timeout_ms = 60000, .label = "fathom0", .flags = HELPER_FLAG_FORCE
};
static const struct helper_request mounting = { .operation = HELPER_MOUNT, .timeout_ms = 20000, .label = "fathom0" };
static const struct helper_request unmounting = { .operation = HELPER_UNMOUNT, .timeout_ms = 20000 };

static void mount_write_and_unmount(void)
{
	char path[128], back[6] = "";
	int fd;

	ask_until_done(mounting);
	snprintf(path, sizeof(path), "%s/data", target);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "bytes", 5), 5);
	assert_int_equal(fsync(fd), 0);
	assert_int_equal(pread(fd, back, 5, 0), 5);
	assert_string_equal(back, "bytes");
	close(fd);
	ask_until_done(unmounting);
}

static void one_round(struct random *random, uint64_t longest_us)
{
	static const struct helper_request *const operations[] = { &check, &format, &mounting, &unmounting };
	struct helper_request what = *operations[random_below(random, 4)];

	what.timeout_ms = 1500; /* short, so that a stopped helper is detected soon */
	begin_request(what);
	usleep((useconds_t)random_below(random, longest_us));
	rig_run_on(home, read_stats, NULL);
	if (stats.pid > 0)
		(void)kill(stats.pid, random_below(random, 3) == 0 ? SIGSTOP : SIGKILL);
	rig_wait_u64(&answers, asked);
	ask_until_done(check);
	if (reply.format == STORAGE_FORMAT_XFS) {
		ask_until_done(unmounting); /* succeeds also if nothing is mounted */
		mount_write_and_unmount();
	} else {
		int error = ask(mounting); /* an incomplete filesystem must not be mounted */

		assert_true(error == -EMEDIUMTYPE || error == -EUCLEAN);
		ask_until_done(format);
	}
}

static void a_helper_killed_at_any_time_leaves_no_partly_mounted_filesystem(void **state)
{
	struct random random;
	uint64_t began, longest_us;

	if (!can_run())
		skip();
	assert_true(prepare_folders());
	random_init(&random, 7);
	rig_start(1);
	home = thread_create("asker", rig_reactor(0));
	rig_run_on(home, create, NULL);
	began = clock_monotonic_ns();
	assert_int_equal(ask(format), 0);
	longest_us = (clock_monotonic_ns() - began) / NS_PER_US * 5 / 4;
	mount_write_and_unmount();
	for (int round = 0; round < ROUNDS; round++)
		one_round(&random, longest_us);
	ask_until_done(format);
	mount_write_and_unmount();
	rig_run_on(home, read_stats, NULL);
	assert_true(stats.started > ROUNDS / 2);
	rig_run_on(home, destroy, NULL);
	rig_exit(home);
	rig_stop();
	loop_release(&device);
	remove_folders();
}

static void a_device_that_vanishes_is_a_fault(void **state)
{
	if (!can_run())
		skip();
	assert_true(prepare_folders());
	asked = 0;
	answers = 0;
	rig_start(1);
	home = thread_create("asker", rig_reactor(0));
	rig_run_on(home, create, NULL);
	assert_int_equal(ask(format), 0);
	assert_int_equal(ask(mounting), 0);
	assert_int_equal(ftruncate(device.file_fd, 0), 0); /* from now on reads and writes fail */
	ask_until_done(unmounting);
	assert_true(ask(format) < 0);
	loop_release(&device);
	assert_int_equal(ask(check), -ENODEV);
	rig_run_on(home, destroy, NULL);
	rig_exit(home);
	rig_stop();
	remove_folders();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_helper_killed_at_any_time_leaves_no_partly_mounted_filesystem),
		cmocka_unit_test(a_device_that_vanishes_is_a_fault),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
