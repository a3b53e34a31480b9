/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The test damages the tree. Opening it removes damaged probes, which are then parsed again from raw, and sets aside other
 * damaged entries with a log line and a count. The stash opens, loses nothing that raw has, and serves nothing damaged.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bits.h"
#include "base/random.h"
#include "invariants.h"
#include "rig.h"

static struct rig_set *one, *two;

static void prepare(struct rig *rig)
{
	assert_int_equal(rig_add(rig, 7, 55, one), 0);
	assert_int_equal(rig_add(rig, 7, 56, two), 1);
	assert_int_equal(rig_add(rig, 8, 55, one), 0);
	assert_int_equal(rig_add(rig, 8, 55, one), 1);
	assert_int_equal(rig_add(rig, 9, 56, two), 0);
}

static int in(const struct rig *rig, const char *command)
{
	char line[RIG_PATH_BYTES];

	snprintf(line, sizeof(line), "cd %s && %s", rig->directory, command);
	return system(line);
}

static int reparse(void *ctx, const struct stash_registration *registration)
{
	struct rig *rig = ctx;
	const struct rig_set *set = registration->mapping.inode == 55 ? one : two;
	struct dof_input input;
	struct fathom_fault why = { 0 };
	void *memory;

	if (!registration->stale)
		return 0;
	assert_int_equal(stash_read(rig->stash, registration, &input, &memory, &why), 0);
	free(memory);
	assert_int_equal(stash_reparsed(rig->stash, registration, &set->set, &why), 0);
	return 0;
}

struct row {
	const char *damage;
	const char *logged;	/* NULL: any or no log line */
	uint64_t registrations; /* left of four */
	uint32_t files;		/* in probes/ after parsing again, of 3 + 8 of process 7, 3 of 8, 8 of 9, three shared */
	bool is_whole;		/* all files are in probes/ without parsing */
};

enum { ALL = 8 + 3 + 8 };

static const struct row rows[] = {
	{ "rm -r probes/7", "probes of process 7: damaged", 4, ALL, false },
	{ "rm -r probes", "parsed again", 4, ALL, false },
	{ "rm probes/8/samea8/program/function_00000/probe-00000", "parsed again", 4, ALL, false },
	{ "f=probes/8/samea8/program/function_00000/probe-00000 && cat $f > x && rm $f && mv x $f", "parsed again", 4, ALL,
	  false },
	{ "f=probes/8/samea8/program/function_00000/probe-00000 && rm $f && echo x > $f", "set aside", 4, ALL, false },
	{ "f=probes/8/samea8/program/function_00000 && rm -r $f && echo x > $f", "not a folder", 4, ALL, false },
	{ "ln probes/8/samea8/program/function_00000/probe-00000 probes/8/samea8/program/function_00000/more", NULL, 4, ALL,
	  true },
	{ "echo x >> probes/8/samea8/program/function_00000/probe-00000", "parsed again", 4, ALL, false },
	{ "truncate -s 0 probes/8/samea8/program/function_00000/probe-00000", "parsed again", 4, ALL, false },
	{ "rm -r stash/dof-pid/8/2049-55/parsed", NULL, 4, ALL, false },
	{ "rm stash/dof-pid/8/2049-55/parsed/version", NULL, 4, ALL, false },
	{ "cd stash/dof-pid/8/2049-55/parsed && mv samea8*02 x", "parsed again", 4, ALL, false },
	{ "touch stash/dof-pid/8/2049-55/parsed/x", "parsed again", 4, ALL, false },
	{ "touch stash/dof-pid/8/2049-55/x", "not a file of a mapping", 4, ALL, true },
	{ "rm -r stash/dof", NULL, 4, ALL, true },
	{ "rm stash/dof/2049-55 && echo x > stash/dof/2049-55", NULL, 4, ALL, true },
	{ "rm stash/dof-pid/8/2049-55/raw", "set aside", 3, ALL - 3, true },
	{ "echo x > stash/dof-pid/8/2049-55/dh", "set aside", 3, ALL - 3, true },
	{ "rm stash/dof-pid/8/2049-55/dh && mkfifo stash/dof-pid/8/2049-55/dh", "set aside", 3, ALL - 3, true },
	{ "echo nonsense > stash/dof-pid/8/2049-55/blocks", "set aside", 3, ALL - 3, true },
	{ "rm stash/dof-pid/8/process", "does not identify its process", 3, ALL - 3, true },
	{ "echo 12 > stash/dof-pid/8/process", "does not identify its process", 3, ALL - 3, true },
	{ "echo x > stash/dof-pid/8/exec-mapping", "does not identify its process", 3, ALL - 3, true },
	{ "rm stash/dof-pid/8/next-gen", "next-gen", 4, ALL, true },
	{ "truncate -s 1 stash/dof-pid/8/next-gen", "next-gen", 4, ALL, true },
	{ "truncate -s 1T stash/dof-pid/8/next-gen", "next-gen", 4, ALL, true },
	{ "rm stash/dof-pid/8/0", NULL, 4, ALL, true },
	{ "rm stash/dof-pid/8/[01]", NULL, 3, ALL - 3, true },
	{ "ln -s ../../.. stash/dof-pid/8/2", "not a generation, a mapping or a file of the stash", 4, ALL, true },
	{ "ln -s 2049-99 stash/dof-pid/8/2", NULL, 4, ALL, true },
	{ "mkdir stash/dof-pid/8/3", "not a generation, a mapping or a file of the stash", 4, ALL, true },
	{ "touch stash/dof-pid/8/x", "not a generation, a mapping or a file of the stash", 4, ALL, true },
	{ "mkdir -p stash/dof-pid/8/x/y/z", "not a generation, a mapping or a file of the stash", 4, ALL, true },
	{ "mkdir stash/dof-pid/8/1-1", NULL, 4, ALL, true },
	{ "cp -r stash/dof-pid/8/2049-55 stash/dof-pid/8/2049-058", "not a generation, a mapping or a file of the stash", 4,
	  ALL, true },
	{ "touch stash/dof-pid/10 stash/dof-pid/x stash/dof-pid/0", "does not identify", 4, ALL, true },
	{ "mkdir stash/dof-pid/10", "does not identify", 4, ALL, true },
	{ "cp -r stash/dof-pid/8 stash/dof-pid/11", NULL, 5, ALL + 3, false },
	{ "mkdir -p probes/10/a/b/c probes/x && touch probes/y", "not the folder of a process", 4, ALL, true },
	{ "ln -s 7/samea7 probes/samea7", NULL, 4, ALL, true },
	{ "mkdir stash/dof/x && mkfifo stash/dof/y", "not a regular file", 4, ALL, true },
	{ "mkdir -p stash/work/a/b/c && ln -s / stash/work/root", NULL, 4, ALL, true },
	{ "echo xxxxxxxxx > stash/version", NULL, 4, ALL, false },
	{ "rm stash/version", NULL, 4, ALL, true },
	{ "mkdir stash/x stash/x/y", "not a file or folder of the stash", 4, ALL, true },
};

/* Each entry that was set aside is counted, and has its log line. */
static void check_aside(const struct rig *rig, const char *damage)
{
	char path[RIG_PATH_BYTES];
	uint64_t entries = 0, lines = 0;
	struct stash_stats stats;
	const struct dirent *entry;
	DIR *folder;

	snprintf(path, sizeof(path), "%s/stash/aside", rig->directory);
	folder = opendir(path);
	while (folder && (entry = readdir(folder)))
		entries += entry->d_name[0] != '.';
	if (folder)
		closedir(folder);
	for (const char *at = rig->logged; (at = strstr(at, "set aside as stash/aside/")); at++)
		lines++;
	stash_get_stats(rig->stash, &stats);
	if (stats.set_aside != entries || lines != entries)
		fail_msg("%s: %lu entries set aside, %lu counted, %lu logged", damage, (unsigned long)entries,
			 (unsigned long)stats.set_aside, (unsigned long)lines);
}

static void try_row(const struct row *row)
{
	struct stash_stats stats;
	struct fathom_fault why = { 0 };
	struct rig *rig;
	void *state;

	assert_int_equal(rig_setup(&state), 0);
	rig = state;
	prepare(rig);
	assert_int_equal(in(rig, row->damage), 0);
	rig_reopen(rig);
	if (row->logged && !strstr(rig->logged, row->logged))
		fail_msg("%s: it logs \"%s\"", row->damage, rig->logged);
	check_aside(rig, row->damage);
	if (invariants_broken(rig->directory, 3) != 0)
		fail_msg("%s", row->damage);
	if (row->is_whole != (rig_count_files(rig, "probes") == row->files))
		fail_msg("%s: %u files", row->damage, rig_count_files(rig, "probes"));
	assert_int_equal(stash_walk(rig->stash, reparse, rig), 0);
	stash_get_stats(rig->stash, &stats);
	if (rig_count_files(rig, "probes") != row->files || stats.registrations != row->registrations ||
	    invariants_broken(rig->directory, 3) != 0)
		fail_msg("%s: %u files, %lu registrations", row->damage, rig_count_files(rig, "probes"),
			 (unsigned long)stats.registrations);
	/* the tree is repaired: another start logs nothing */
	rig->logged[0] = '\0';
	rig_reopen(rig);
	assert_string_equal(rig->logged, "");
	for (pid_t pid = 1; pid < 20; pid++)
		assert_int_equal(stash_remove_process(rig->stash, pid, &why), 0);
	assert_int_equal(rig_count_files(rig, "probes") + rig_count_files(rig, "stash/dof"), 0);
	rig_teardown(&state);
}

static void damage_is_parsed_again_or_set_aside(void **state)
{
	for (size_t i = 0; i < ARRAY_COUNT(rows); i++)
		try_row(&rows[i]);
}

static void generations_continue_far_above_a_lost_counter(void **state)
{
	struct rig *rig = *state;
	struct fathom_fault why = { 0 };
	int64_t generation;

	prepare(rig);
	assert_int_equal(stash_remove(rig->stash, 8, 1, &why), 0);
	assert_int_equal(in(rig, "rm stash/dof-pid/8/next-gen"), 0);
	rig_reopen(rig);
	generation = rig_add(rig, 8, 56, two);
	assert_true(generation > 1000);
}

/* ---- random damage ---- */

static struct {
	char *paths[512];
	uint32_t count;
} walked;

static int walk(const char *path, const struct stat *status, int type, struct FTW *ftw)
{
	if (ftw->level > 0 && walked.count < ARRAY_COUNT(walked.paths))
		walked.paths[walked.count++] = strdup(path);
	return 0;
}

static void damage(struct rig *rig, struct random *random)
{
	const char *path, *other;
	char line[3 * RIG_PATH_BYTES];

	walked.count = 0;
	assert_int_equal(nftw(rig->directory, walk, 32, FTW_PHYS), 0);
	path = walked.paths[random_below(random, walked.count)];
	other = walked.paths[random_below(random, walked.count)];
	switch (random_below(random, 8)) {
	case 0:
		(void)remove(path);
		break;
	case 1:
		rig_remove_directory(path);
		break;
	case 2:
		(void)truncate(path, (off_t)random_below(random, 200));
		break;
	case 3:
		(void)rename(path, other);
		break;
	case 4: /* not beside stash/ and probes/, where other files belong to others */
		if (!strchr(other + strlen(rig->directory) + 1, '/'))
			break;
		(void)link(path, "/dev/shm/x");
		snprintf(line, sizeof(line), "%s-1", other);
		(void)rename("/dev/shm/x", line);
		break;
	case 5:
		rig_remove_directory(path);
		(void)symlink(other, path);
		break;
	case 6:
		rig_remove_directory(path);
		(void)mkdir(path, 0755);
		break;
	default:
		rig_remove_directory(path);
		(void)mkfifo(path, 0644);
		break;
	}
	for (uint32_t i = 0; i < walked.count; i++)
		free(walked.paths[i]);
}

static void random_damage_is_repaired_or_refused(void **state)
{
	for (uint64_t seed = 1; seed <= 200; seed++) {
		struct fathom_fault why = { 0 };
		struct random random;
		struct rig *rig;
		void *rig_state;

		assert_int_equal(rig_setup(&rig_state), 0);
		rig = rig_state;
		random_init(&random, seed);
		prepare(rig);
		for (uint64_t i = 0; i < 1 + seed % 4; i++)
			damage(rig, &random);
		stash_close(rig->stash);
		rig->stash = NULL;
		/* a tree with a file in place of a folder is refused */
		if (stash_open(&rig->options, &rig->stash, &why) != 0) {
			assert_true(why.text[0] && (why.error == -ENOTDIR || why.error == -ELOOP || why.error == -EISDIR ||
						    why.error == -ENXIO));
			rig_teardown(&rig_state);
			continue;
		}
		if (invariants_broken(rig->directory, 3) != 0)
			fail_msg("seed %lu", (unsigned long)seed);
		assert_true(rig_add(rig, 77, 60, one) == 0);
		for (pid_t pid = 1; pid < 100; pid++)
			assert_int_equal(stash_remove_process(rig->stash, pid, &why), 0);
		assert_int_equal(rig_count_files(rig, "probes") + rig_count_files(rig, "stash/dof"), 0);
		rig_teardown(&rig_state);
	}
}

static int make_sets(void **state)
{
	one = rig_set("same", 1, 3, 2, 0x1000);
	two = rig_set("same", 2, 4, 2, 0x1000);
	return 0;
}

static int free_sets(void **state)
{
	rig_free(one);
	rig_free(two);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(damage_is_parsed_again_or_set_aside),
		cmocka_unit_test_setup_teardown(generations_continue_far_above_a_lost_counter, rig_setup, rig_teardown),
		cmocka_unit_test(random_damage_is_repaired_or_refused),
	};

	return cmocka_run_group_tests(tests, make_sets, free_sets);
}
