/* SPDX-License-Identifier: BSD-2-Clause */
/* Limits of processes, users and in total, each named in its error; a full disk; a directory that cannot be written. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bits.h"
#include "invariants.h"
#include "rig.h"

static int add(struct rig *rig, pid_t pid, uid_t uid, uint64_t inode, const struct rig_set *set, struct fathom_fault *why)
{
	const struct stash_mapping mapping = { .device = 2049, .inode = inode };
	struct stash_process process = rig_process(pid);
	uint64_t generation;

	process.uid = uid;
	return stash_add(rig->stash, &RIG_ADDITION(&process, &mapping, set), &generation, why);
}

struct limit {
	const char *name;
	struct stash_limits limits;
	/* the second registration, which exceeds the limit */
	pid_t pid;
	uid_t uid;
	uint64_t inode;
	/* a registration within the limit, of another process and user */
	pid_t good_pid;
	uid_t good_uid;
};

/* The first registration: process 1, user 10, mapping 55, with 4 probes and an object of about 40 bytes. */
static const struct limit rows[] = {
	{ "objects_per_process", { .objects_per_process = 1 }, 1, 10, 56, 2, 10 },
	{ "objects_per_process", { .objects_per_process = 1 }, 1, 10, 55, 2, 10 }, /* a repeated registration also counts */
	{ "objects_per_user", { .objects_per_user = 1 }, 2, 10, 56, 3, 11 },
	{ "objects_total", { .objects_total = 1 }, 2, 11, 56, 0, 0 },
	{ "bytes_per_process", { .bytes_per_process = 40 }, 1, 10, 56, 2, 10 },
	{ "bytes_per_user", { .bytes_per_user = 40 }, 2, 10, 56, 3, 11 },
	{ "bytes_total", { .bytes_total = 40 }, 2, 11, 56, 0, 0 },
	{ "probes_per_process", { .probes_per_process = 7 }, 1, 10, 56, 2, 10 },
	{ "probes_per_user", { .probes_per_user = 7 }, 2, 10, 56, 3, 11 },
	{ "probes_total", { .probes_total = 7 }, 2, 11, 56, 0, 0 },
};

static void try_limit(struct rig *rig, const struct limit *row, const struct rig_set *set, const struct rig_set *other)
{
	struct stash_stats before, after;
	struct fathom_fault why = { 0 };

	rig->options.limits = row->limits;
	rig_reopen(rig);
	assert_int_equal(add(rig, 1, 10, 55, set, &why), 0);
	stash_get_stats(rig->stash, &before);
	assert_int_equal(add(rig, row->pid, row->uid, row->inode, row->inode == 55 ? set : other, &why), -EDQUOT);
	if (!strstr(why.text, row->name))
		fail_msg("%s: %s", row->name, why.text);
	stash_get_stats(rig->stash, &after);
	assert_int_equal(after.objects, before.objects);
	assert_int_equal(after.bytes, before.bytes);
	assert_int_equal(after.probes, before.probes);
	assert_int_equal(after.refused, before.refused + 1);
	assert_int_equal(invariants_broken(rig->directory, 3), 0);
	if (row->good_pid)
		assert_int_equal(add(rig, row->good_pid, row->good_uid, 56, other, &why), 0);
	/* after a restart the counts come from the tree; a removal makes room */
	rig_reopen(rig);
	assert_int_equal(add(rig, row->pid, row->uid, row->inode, row->inode == 55 ? set : other, &why), -EDQUOT);
	assert_int_equal(stash_remove_process(rig->stash, 1, &why), 0);
	assert_int_equal(add(rig, row->pid, row->uid, row->inode, row->inode == 55 ? set : other, &why), 0);
	assert_int_equal(invariants_broken(rig->directory, 3), 0);
	for (pid_t pid = 1; pid < 4; pid++)
		assert_int_equal(stash_remove_process(rig->stash, pid, &why), 0);
}

static void each_limit_is_named_in_the_refusal(void **state)
{
	struct rig_set *set = rig_set("one", 1, 4, 2, 0x1000), *other = rig_set("two", 1, 4, 2, 0x1000);

	for (size_t i = 0; i < ARRAY_COUNT(rows); i++)
		try_limit(*state, &rows[i], set, other);
	rig_free(set);
	rig_free(other);
}

static void a_process_that_changes_its_user_counts_for_the_new_user(void **state)
{
	struct rig_set *set = rig_set("one", 1, 4, 2, 0x1000), *other = rig_set("two", 1, 4, 2, 0x1000);
	struct rig *rig = *state;
	struct fathom_fault why = { 0 };

	rig->options.limits = (struct stash_limits){ .probes_per_user = 8 };
	rig_reopen(rig);
	assert_int_equal(add(rig, 1, 10, 55, set, &why), 0);
	assert_int_equal(add(rig, 2, 11, 55, set, &why), 0);
	assert_int_equal(add(rig, 3, 11, 55, set, &why), 0);
	assert_int_equal(add(rig, 1, 11, 56, other, &why), -EDQUOT);
	assert_int_equal(add(rig, 4, 10, 55, set, &why), 0);
	assert_int_equal(add(rig, 5, 10, 55, set, &why), 0);
	assert_int_equal(invariants_broken(rig->directory, 3), 0);
	rig_free(set);
	rig_free(other);
}

/* ---- disks ---- */

static bool mount_small(struct rig *rig, const char *options)
{
	struct fathom_fault why = { 0 };

	stash_close(rig->stash);
	rig->stash = NULL;
	if (mount("stash-test", rig->directory, "tmpfs", 0, options) != 0) {
		print_message("# skipped: cannot mount a tmpfs for the test: %s\n", strerror(errno));
		assert_int_equal(stash_open(&rig->options, &rig->stash, &why), 0);
		return false;
	}
	assert_int_equal(stash_open(&rig->options, &rig->stash, &why), 0);
	return true;
}

static void unmount_small(struct rig *rig)
{
	stash_close(rig->stash);
	rig->stash = NULL;
	assert_int_equal(umount2(rig->directory, 0), 0);
}

static void fill(struct rig *rig, const struct rig_set *set, const struct rig_set *more)
{
	struct stash_stats stats;
	struct fathom_fault why = { 0 };
	pid_t full = 0;
	int rc = 0;

	for (pid_t pid = 1; pid < 1000 && rc == 0; pid++) {
		rc = add(rig, pid, 10, 55, pid % 2 ? set : more, &why);
		if (rc == 0 && pid % 3 == 0)
			rc = add(rig, pid, 10, 56, set, &why);
		full = pid;
	}
	assert_int_equal(rc, -ENOSPC);
	assert_non_null(strstr(why.text, strerror(ENOSPC)));
	assert_int_equal(invariants_broken(rig->directory, 3), 0);
	/* a removal makes room */
	for (pid_t pid = 1; pid < full; pid += 2)
		assert_int_equal(stash_remove_process(rig->stash, pid, &why), 0);
	assert_int_equal(invariants_broken(rig->directory, 3), 0);
	assert_int_equal(add(rig, 2000, 10, 55, set, &why), 0);
	rig_reopen(rig);
	assert_string_equal(rig->logged, "");
	stash_get_stats(rig->stash, &stats);
	assert_int_equal(stats.swept, 0);
	for (pid_t pid = 1; pid <= 2000; pid++)
		assert_int_equal(stash_remove_process(rig->stash, pid, &why), 0);
	assert_int_equal(rig_count_files(rig, "probes") + rig_count_files(rig, "stash/dof"), 0);
}

static void a_registration_on_a_full_disk_is_refused_and_leaves_nothing(void **state)
{
	struct rig_set *set = rig_set("one", 1, 4, 2, 0x1000), *more = rig_set("more", 3, 10, 10, 0x1000);
	struct rig *rig = *state;

	/* first without space, then without inodes */
	if (mount_small(rig, "size=1m,mode=755")) {
		fill(rig, set, more);
		unmount_small(rig);
		assert_true(mount_small(rig, "nr_inodes=512,mode=755"));
		fill(rig, set, more);
		unmount_small(rig);
	}
	rig_free(set);
	rig_free(more);
}

static void a_directory_that_cannot_be_written_is_an_error(void **state)
{
	struct rig_set *set = rig_set("one", 1, 4, 2, 0x1000);
	struct rig *rig = *state;
	struct fathom_fault why = { 0 };
	struct stash *stash;

	if (mount_small(rig, "size=1m,mode=755")) {
		assert_int_equal(add(rig, 1, 10, 55, set, &why), 0);
		/* while the stash is open */
		assert_int_equal(mount(NULL, rig->directory, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL), 0);
		assert_int_equal(add(rig, 2, 10, 55, set, &why), -EROFS);
		assert_int_equal(stash_remove(rig->stash, 1, 0, &why), -EROFS);
		/* and when it is opened */
		stash_close(rig->stash);
		rig->stash = NULL;
		assert_int_equal(stash_open(&rig->options, &stash, &why), -EROFS);
		assert_non_null(strstr(why.text, rig->directory));
		assert_int_equal(mount(NULL, rig->directory, NULL, MS_REMOUNT | MS_BIND, NULL), 0);
		rig_reopen(rig);
		assert_int_equal(stash_remove(rig->stash, 1, 0, &why), 0);
		assert_int_equal(invariants_broken(rig->directory, 3), 0);
		unmount_small(rig);
	}
	rig->options.directory = "/dev/null/stash";
	assert_int_equal(stash_open(&rig->options, &stash, &why), -ENOTDIR);
	assert_non_null(strstr(why.text, "/dev/null/stash"));
	rig_free(set);
}

/* ---- two daemons ---- */

static void a_second_daemon_is_refused_with_the_pid_of_the_first(void **state)
{
	struct rig *rig = *state;
	struct stash *second;
	struct fathom_fault why = { 0 };
	char pid_text[24];
	int status;
	pid_t pid;

	assert_int_equal(stash_open(&rig->options, &second, &why), -EBUSY);
	snprintf(pid_text, sizeof(pid_text), "process %d", (int)getpid());
	assert_non_null(strstr(why.text, pid_text));
	/* a daemon that died no longer holds the lock */
	stash_close(rig->stash);
	rig->stash = NULL;
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (stash_open(&rig->options, &second, &why) != 0)
			_exit(1);
		abort();
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	rig_reopen(rig);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		TEST(each_limit_is_named_in_the_refusal),
		TEST(a_process_that_changes_its_user_counts_for_the_new_user),
		TEST(a_registration_on_a_full_disk_is_refused_and_leaves_nothing),
		TEST(a_directory_that_cannot_be_written_is_an_error),
		TEST(a_second_daemon_is_refused_with_the_pid_of_the_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
