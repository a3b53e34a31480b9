/* SPDX-License-Identifier: BSD-2-Clause */
/* An engine on a block device, with the real helper, a loop device and XFS. Needs root: otherwise all are skipped. */
#include "instance_rig.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "control/superblock/superblock.h"
#include "loop.h"

enum { DEVICE_BYTES = 400 << 20, ROUNDS = 6 };

static struct rig_asked asked;
static struct loop device;
static char mounts[72], config[80], helper_program[256];
static struct helper_client_stats stats;
static const struct instance_restart quick = { .restart = true,
					       .delay_min_ns = 20 * NS_PER_MS,
					       .delay_max_ns = NS_PER_SEC };

static bool can_run(void)
{
	const char *reason = "the kernel has no XFS, or mkfs.xfs is missing", *bin = getenv("FATHOM_BIN");
	char line[64];
	bool xfs = false;
	FILE *file = fopen("/proc/filesystems", "r");

	while (file && fgets(line, sizeof(line), file))
		xfs |= strstr(line, "\txfs\n") != NULL;
	if (file)
		fclose(file);
	snprintf(helper_program, sizeof(helper_program), "%s/fathom-helper", bin ? bin : "build/bin");
	if (xfs && access("/usr/sbin/mkfs.xfs", X_OK) == 0 && loop_attach(&device, DEVICE_BYTES, &reason))
		return true;
	print_message("# SKIP %s\n", reason);
	return false;
}

static void create_helper(void *unused)
{
	struct helper_client_options options = { .program = helper_program, .config = config, .grace_ns = 300 * NS_PER_MS };
	struct fathom_fault why;

	rig.options.helper = helper_client_create(&options, &why);
	must(rig.options.helper);
}

static void destroy_helper(void *unused)
{
	helper_client_destroy(rig.options.helper);
}

static void get_helper_stats(void *unused)
{
	helper_client_get_stats(rig.options.helper, &stats);
}

static void begin(void)
{
	FILE *file;

	rig_begin();
	must(chmod(rig.folder, 0755) == 0);
	snprintf(mounts, sizeof(mounts), "%s/mnt", rig.folder);
	must(mkdir(mounts, 0755) == 0);
	snprintf(rig.storage, sizeof(rig.storage), "%s/engine0", mounts);
	snprintf(config, sizeof(config), "%s/helper.conf", rig.folder);
	file = fopen(config, "w");
	must(file);
	fprintf(file, "mounts %s\ndevice loop*\n", mounts);
	must(fclose(file) == 0);
	rig.options.storage = INSTANCE_STORAGE_DEVICE;
	rig.options.device = device.path;
	rig.options.file_bytes = 0;
	rig_run(create_helper, NULL);
}

static void end(void)
{
	if (rig.instance)
		rig_destroy();
	rig_run(destroy_helper, NULL);
	(void)umount(rig.storage); /* still mounted if it was busy or its device is broken */
	rig_end();
	loop_release(&device);
}

static bool is_mounted(void)
{
	char line[512];
	bool mounted = false;
	FILE *file = fopen("/proc/self/mounts", "r");

	must(file);
	while (fgets(line, sizeof(line), file))
		mounted |= strstr(line, rig.storage) != NULL;
	fclose(file);
	return mounted;
}

static void a_device_is_formatted_mounted_adopted_and_unmounted(void **state)
{
	struct superblock first, second;
	char path[128];
	pid_t pid;
	int fd;

	if (!can_run())
		skip();
	begin();
	rig_create();
	rig_start_it(&asked);
	rig_fails(&asked, 152);
	assert_int_equal(rig.format_required, 1);
	rig_format_it(&asked, false, false);
	rig_done(&asked);
	rig_until(INSTANCE_JOINED);
	assert_true(is_mounted());
	first = rig_superblock();
	pid = rig_look()->pid;
	rig_destroy();
	rig_create();
	rig_start_it(&asked);
	rig_done(&asked);
	assert_int_equal(rig_look()->pid, pid);
	assert_true(is_mounted());
	rig_stop();
	assert_false(is_mounted());
	rig_start_it(&asked);
	rig_done(&asked);
	second = rig_superblock();
	assert_memory_equal(first.uuid, second.uuid, sizeof(first.uuid));

	snprintf(path, sizeof(path), "%s/superblock", rig.storage);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	rig_stop(); /* the open file keeps the mount busy */
	assert_true(rig_look()->why.error != 0);
	assert_int_equal(rig.info.why.code, 159);
	assert_true(is_mounted());
	close(fd);
	rig_start_it(&asked);
	rig_done(&asked);
	assert_int_equal(rig_look()->why.error, 0);
	rig_stop();
	assert_false(is_mounted());

	rig_format_it(&asked, false, false);
	rig_fails(&asked, 153);
	assert_int_equal(rig_look()->state, INSTANCE_STOPPED);
	rig_format_it(&asked, true, true);
	rig_done(&asked);
	rig_until(INSTANCE_JOINED);
	assert_true(rig.joined_as_replacement);
	second = rig_superblock();
	assert_memory_not_equal(first.uuid, second.uuid, sizeof(first.uuid));
	rig_stop();
	assert_int_equal(rig.died, 0);
	end();
}

static void an_erased_engine_awaits_format(void **state)
{
	struct superblock first, second;

	if (!can_run())
		skip();
	begin();
	rig_bring_up();
	second = rig_superblock();
	rig_stop();
	rig_erase_it(&asked);
	rig_done(&asked);
	assert_int_equal(rig_look()->state, INSTANCE_AWAIT_FORMAT);
	rig_destroy();
	rig_create();
	rig_start_it(&asked);
	rig_fails(&asked, 152);		     /* the state survives the server */
	rig_format_it(&asked, false, false); /* erased storage needs no force */
	rig_done(&asked);
	rig_until(INSTANCE_JOINED);
	first = rig_superblock();
	assert_memory_not_equal(first.uuid, second.uuid, sizeof(first.uuid));
	rig_stop();
	rig_erase_it(&asked);
	rig_done(&asked);
	rig_stop();
	assert_false(is_mounted());
	rig_format_it(&asked, false, false); /* not mounted since: it may be another device, which needs force */
	rig_fails(&asked, 153);
	rig_start_it(&asked);
	rig_fails(&asked, 152);
	rig_format_it(&asked, false, false);
	rig_done(&asked);
	rig_until(INSTANCE_JOINED);
	rig_stop();
	end();
}

static bool mkfs_runs(void)
{
	char path[64], words[512];
	bool runs = false;
	DIR *processes = opendir("/proc");
	struct dirent *entry;

	must(processes);
	while (!runs && (entry = readdir(processes))) {
		ssize_t bytes;
		int fd;

		snprintf(path, sizeof(path), "/proc/%.16s/cmdline", entry->d_name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		bytes = fd < 0 ? 0 : read(fd, words, sizeof(words));
		if (fd >= 0)
			close(fd);
		runs = bytes > 0 && memmem(words, (size_t)bytes, "mkfs.xfs", 8) &&
		       memmem(words, (size_t)bytes, device.path, strlen(device.path));
	}
	closedir(processes);
	return runs;
}

/*
 * The superblock is outside of the storage, and the server dies while the device is reformatted. The helper completes the
 * formatting. This leaves an old superblock, and a device without engine.uuid: no engine may start on it.
 */
static void no_engine_starts_after_the_server_died_during_formatting(void **state)
{
	struct superblock before, after;
	char apart[RIG_PATH_BYTES], path[RIG_PATH_BYTES + 16];
	struct fathom_fault why;

	if (!can_run())
		skip();
	begin();
	snprintf(apart, sizeof(apart), "%s/apart", rig.folder);
	snprintf(path, sizeof(path), "%s/superblock", apart);
	rig.options.superblock_dir = apart;
	rig_bring_up();
	do { /* until the server can die during the formatting */
		rig_until(INSTANCE_JOINED);
		must(superblock_read(path, NULL, &before, &why) == 0);
		rig_stop();
		rig_format_it(&asked, true, false);
		while (rig_look()->state != INSTANCE_JOINED && !mkfs_runs())
			;
	} while (rig.info.state == INSTANCE_JOINED);
	rig_destroy();
	while (mkfs_runs())
		usleep(1000);
	rig_create();
	for (unsigned int tries = 0;; tries++) { /* the helper keeps the device open for a moment */
		rig_start_it(&asked);
		rig_answered(&asked);
		assert_true(asked.failed);
		if (asked.why.code == 152)
			break;
		if (tries == 1000)
			fail_msg("%s", asked.why.text);
		usleep(5000);
	}
	rig_format_it(&asked, false, false); /* without force: there is no data to keep */
	rig_done(&asked);
	rig_until(INSTANCE_JOINED);
	must(superblock_read(path, NULL, &after, &why) == 0);
	assert_memory_not_equal(before.uuid, after.uuid, sizeof(before.uuid));
	rig_stop();
	end();
}

static void data_is_not_overwritten_without_force(void **state)
{
	static const char data[4096] = "the only copy of somebody's thesis";
	char back[64] = "";

	if (!can_run())
		skip();
	begin();
	assert_int_equal(pwrite(device.fd, data, sizeof(data), 0), sizeof(data));
	assert_int_equal(fsync(device.fd), 0);
	rig_create();
	rig_start_it(&asked);
	rig_fails(&asked, 152);
	rig_format_it(&asked, false, false);
	rig_fails(&asked, 154);
	assert_int_equal(rig_look()->state, INSTANCE_AWAIT_FORMAT);
	assert_int_equal(pread(device.fd, back, sizeof(back) - 1, 0), sizeof(back) - 1);
	assert_string_equal(back, data);
	rig_format_it(&asked, true, false);
	rig_done(&asked);
	rig_until(INSTANCE_JOINED);
	rig_stop();
	end();
}

static void the_engine_joins_again_after_deaths_of_helper_and_engine(void **state)
{
	if (!can_run())
		skip();
	begin();
	rig.options.restart[INSTANCE_FAILED] = quick;
	rig.options.restart[INSTANCE_KILLED] = quick;
	rig_bring_up();
	for (uint64_t round = 1; round <= ROUNDS; round++) {
		rig_kill(SIGKILL);
		rig_until_died(round);
		rig_until(INSTANCE_JOINED);
		rig_stop();
		rig_start_it(&asked);
		usleep((useconds_t)(round * 3000)); /* the helper is killed in another operation each round */
		rig_run(get_helper_stats, NULL);
		if (stats.pid > 0)
			(void)kill(stats.pid, SIGKILL);
		rig_until(INSTANCE_JOINED);
		rig_answered(&asked); /* a turn after JOINED, or when the first try failed */
		assert_int_equal(asked.answers, 1);
		assert_true(is_mounted());
	}
	rig_stop();
	assert_false(is_mounted());
	end();
}

static void a_device_that_vanishes_is_reported(void **state)
{
	if (!can_run())
		skip();
	begin();
	rig_bring_up();
	rig_stop();
	assert_int_equal(ftruncate(device.file_fd, 0), 0); /* from now on each read fails */
	rig_start_it(&asked);
	rig_answered(&asked);
	assert_int_equal(rig_look()->state, INSTANCE_ERRORED);
	assert_int_equal(rig.info.pid, 0);
	assert_true(asked.failed && asked.why.resolution[0] != '\0');
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_device_is_formatted_mounted_adopted_and_unmounted),
		cmocka_unit_test(an_erased_engine_awaits_format),
		cmocka_unit_test(no_engine_starts_after_the_server_died_during_formatting),
		cmocka_unit_test(data_is_not_overwritten_without_force),
		cmocka_unit_test(the_engine_joins_again_after_deaths_of_helper_and_engine),
		cmocka_unit_test(a_device_that_vanishes_is_reported),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
