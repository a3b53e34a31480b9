/* SPDX-License-Identifier: BSD-2-Clause */
/* Regression tests for kinds of bug that were found in an existing daemon with such a tree. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bits.h"
#include "invariants.h"
#include "inspect/probed/stash/record.h"
#include "rig.h"

static void assert_invariants(struct rig *rig, uint32_t version)
{
	assert_int_equal(invariants_broken(rig->directory, version), 0);
}

static void remove_generation(struct rig *rig, pid_t pid, uint64_t generation)
{
	struct fathom_fault why = { 0 };

	assert_int_equal(stash_remove(rig->stash, pid, generation, &why), 0);
}

static struct stat status_of(const struct rig *rig, const char *path)
{
	char full[RIG_PATH_BYTES];
	struct stat status = { 0 };

	snprintf(full, sizeof(full), "%s/%s", rig->directory, path);
	assert_int_equal(lstat(full, &status), 0);
	return status;
}

static uint32_t open_files(void)
{
	DIR *folder = opendir("/proc/self/fd");
	uint32_t count = 0;

	assert_non_null(folder);
	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

/* Kind 2: the second registration destroyed the first, and neither could be removed. */
static void a_mapping_registered_several_times_is_counted(void **state)
{
	struct rig *rig = *state;
	struct rig_set *set = rig_set("twice", 1, 4, 2, 0x1000);
	struct stash_stats stats;

	assert_int_equal(rig_add(rig, 7, 55, set), 0);
	assert_int_equal(rig_add(rig, 7, 55, set), 1);
	assert_int_equal(rig_add(rig, 7, 55, set), 2);
	assert_invariants(rig, 3);
	stash_get_stats(rig->stash, &stats);
	assert_int_equal(stats.registrations, 1);
	assert_int_equal(stats.objects, 3);
	assert_int_equal(stats.probes, 4);
	remove_generation(rig, 7, 1);
	remove_generation(rig, 7, 1); /* already removed: no effect on the others */
	rig_reopen(rig);
	assert_int_equal(rig_count_files(rig, "probes"), 4);
	remove_generation(rig, 7, 0);
	assert_int_equal(rig_count_files(rig, "probes"), 4);
	assert_invariants(rig, 3);
	remove_generation(rig, 7, 2);
	assert_int_equal(rig_count_files(rig, "probes"), 0);
	assert_int_equal(rig_count_files(rig, "stash/dof"), 0);
	assert_invariants(rig, 3);
	rig_free(set);
}

/* Kind 2 with a different object: dlmopen() maps a library again, at another address. */
static void the_same_mapping_with_another_object_is_refused(void **state)
{
	struct rig *rig = *state;
	struct rig_set *set = rig_set("twice", 1, 4, 2, 0x1000), *other = rig_set("twice", 1, 4, 2, 0x2000);

	assert_int_equal(rig_add(rig, 7, 55, set), 0);
	assert_int_equal(rig_add(rig, 7, 55, other), -ESTALE);
	other->input.blocks[0] = set->input.blocks[0];
	assert_int_equal(rig_add(rig, 7, 55, other), -ESTALE); /* the same bytes at another address */
	assert_invariants(rig, 3);
	assert_int_equal(rig_count_files(rig, "probes"), 4);
	remove_generation(rig, 7, 0);
	assert_int_equal(rig_count_files(rig, "probes"), 0);
	assert_int_equal(rig_count_files(rig, "stash/dof"), 0);
	other->input.blocks[0].data = strdup("");
	rig_free(set);
	rig_free(other);
}

/* Kind 3: the object was rewritten in place, which truncated the links of other processes. */
static void an_existing_object_is_not_rewritten(void **state)
{
	struct rig *rig = *state;
	struct rig_set *set = rig_set("prov", 1, 2, 1, 0x1000), *other = rig_set("prov", 1, 2, 1, 0x2000);
	struct stat before, after;

	assert_int_equal(rig_add(rig, 1, 55, set), 0);
	before = status_of(rig, "stash/dof/2049-55");
	assert_int_equal(rig_add(rig, 2, 55, set), 0);
	assert_int_equal(rig_add(rig, 3, 55, other), 0); /* another object of the same size */
	after = status_of(rig, "stash/dof/2049-55");
	assert_int_equal(after.st_ino, before.st_ino);
	assert_int_equal(after.st_mtim.tv_nsec, before.st_mtim.tv_nsec);
	assert_int_equal(status_of(rig, "stash/dof-pid/2/2049-55/raw").st_ino, before.st_ino);
	assert_int_not_equal(status_of(rig, "stash/dof-pid/3/2049-55/raw").st_ino, before.st_ino);
	rig_free(set);
	rig_free(other);
}

static int count_stale(void *ctx, const struct stash_registration *registration)
{
	uint32_t *count = ctx;

	*count += registration->stale;
	return 0;
}

static uint32_t stale(struct rig *rig)
{
	uint32_t count = 0;

	assert_int_equal(stash_walk(rig->stash, count_stale, &count), 0);
	return count;
}

/* Kind 4: each start parsed everything again. */
static void a_restart_parses_again_only_when_the_version_changed(void **state)
{
	struct rig *rig = *state;
	struct rig_set *set = rig_set("prov", 2, 5, 2, 0x1000);
	const char *path = "probes/7/prova7/program/function_00000/probe-00000";
	const struct stash_registration registration = { .process = rig_process(7), .mapping = { 2049, 55 } };
	struct fathom_fault why = { 0 };
	ino_t inode;

	assert_int_equal(rig_add(rig, 7, 55, set), 0);
	inode = status_of(rig, path).st_ino;
	rig_reopen(rig);
	assert_int_equal(stale(rig), 0);
	assert_int_equal(status_of(rig, path).st_ino, inode);
	rig->options.record_version = 2;
	rig_reopen(rig);
	assert_int_equal(stale(rig), 1);
	assert_string_equal(rig->logged, "");
	/* no record of version 3 is left, which a reader of version 2 rejects */
	assert_int_equal(rig_count_files(rig, "probes"), 0);
	assert_invariants(rig, 2);
	assert_int_equal(stash_reparsed(rig->stash, &registration, &set->set, &why), 0);
	assert_int_equal(stale(rig), 0);
	assert_int_equal(rig_count_files(rig, "probes"), 10);
	assert_invariants(rig, 2);
	rig_reopen(rig);
	assert_int_equal(stale(rig), 0);
	rig_free(set);
}

/* Kind 5: the program was recorded only for its first process, so an exec of the others was not detected. */
static void the_program_of_each_process_is_recorded_and_exec_is_detected(void **state)
{
	struct rig *rig = *state;
	struct rig_set *set = rig_set("prov", 1, 2, 1, 0x1000), *other = rig_set("other", 1, 2, 1, 0x1000);
	const struct stash_mapping mapping = { .device = 2049, .inode = 90 };
	struct stash_process process = rig_process(8);
	struct fathom_fault why = { 0 };
	uint64_t generation;

	assert_int_equal(rig_add(rig, 7, 55, set), 0);
	assert_int_equal(rig_add(rig, 8, 55, set), 0);
	assert_int_equal(status_of(rig, "stash/dof-pid/8/exec-mapping").st_size, 7);
	rig_reopen(rig);
	process.exec_inode++;
	assert_int_equal(stash_add(rig->stash, &RIG_ADDITION(&process, &mapping, other), &generation, &why), 0);
	assert_int_equal(generation, 1); /* the same process: generation 0 is not used again */
	assert_invariants(rig, 3);
	assert_false(rig_exists(rig, "probes/8/prova8"));
	assert_true(rig_exists(rig, "probes/8/othera8"));
	assert_true(rig_exists(rig, "probes/7/prova7"));
	rig_free(set);
	rig_free(other);
}

/* Kinds 6 and 7: leaks of memory and descriptors. */
static void a_hundred_thousand_registrations_leak_no_memory_and_descriptors(void **state)
{
	enum { ROUNDS = 50000, PIDS = 50 }; /* two registrations each */
	struct rig *rig = *state;
	struct rig_set *set = rig_set("flat", 1, 1, 1, 0x1000), *more = rig_set("more", 1, 2, 2, 0x1000);
	struct fathom_fault why = { 0 };
	size_t bytes = 0;
	uint32_t files = 0;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		pid_t pid = 1000 + (pid_t)(i % PIDS);
		int64_t generation = rig_add(rig, pid, 55, set);

		assert_true(generation >= 0);
		assert_true(rig_add(rig, pid, 55, set) == generation + 1);
		remove_generation(rig, pid, (uint64_t)generation);
		if (i % 100 == 0) {
			assert_true(rig_add(rig, pid, 56, more) >= 0);
			assert_true(rig_add(rig, pid, 57, more) >= 0);
			assert_int_equal(rig_add(rig, pid, 56, set), -ESTALE);
		}
		if (i % 10 == 0)
			assert_int_equal(stash_remove_process(rig->stash, pid, &why), 0);
		else
			remove_generation(rig, pid, (uint64_t)generation + 1);
		if (i == PIDS * 10) {
			files = open_files();
			bytes = mallinfo2().uordblks;
		}
	}
	assert_int_equal(open_files(), files);
	assert_in_range(mallinfo2().uordblks, 0, bytes + 4096);
	assert_invariants(rig, 3);
	rig_free(set);
	rig_free(more);
}

/* Kind 9: one unreadable file made a reader skip the whole process. */
static void unreadable_files_are_moved_out_of_probes(void **state)
{
	struct rig *rig = *state;
	struct rig_set *set = rig_set("prov", 1, 4, 2, 0x1000);
	char full[RIG_PATH_BYTES];
	FILE *file;

	assert_int_equal(rig_add(rig, 7, 55, set), 0);
	snprintf(full, sizeof(full), "%s/probes/7/prova7/program/function_00000/probe-00001", rig->directory);
	file = fopen(full, "r+");
	assert_non_null(file);
	assert_int_equal(fwrite("no record", 1, 9, file), 9);
	fclose(file);
	snprintf(full, sizeof(full), "%s/probes/7/prova7/program/function_00000/strange", rig->directory);
	file = fopen(full, "w");
	assert_non_null(file);
	fclose(file);
	rig_reopen(rig);
	assert_invariants(rig, 3);
	assert_int_equal(stale(rig), 1);
	assert_int_equal(rig_count_files(rig, "stash/aside"), 2);
	assert_non_null(strstr(rig->logged, "probe"));
	rig_free(set);
}

/* A name with a colon could not be split again, so its files were never removed. */
static void invalid_names_are_refused_before_any_write(void **state)
{
	static const char *const names[] = { "a:b", "", ".", "..", "a/b", "a*", "a\n" };
	struct rig *rig = *state;
	struct rig_set *set = rig_set("prov", 1, 2, 1, 0x1000);
	struct dof_probe *probe = (struct dof_probe *)(uintptr_t)&set->set.providers->probes[1];
	struct dof_provider *provider = (struct dof_provider *)(uintptr_t)set->set.providers;
	const char **fields[] = { &probe->name, &probe->function, &probe->module, &provider->name };

	for (size_t i = 0; i < ARRAY_COUNT(fields); i++) {
		const char *was = *fields[i];

		for (size_t j = 0; j < ARRAY_COUNT(names); j++) {
			*fields[i] = names[j];
			assert_int_equal(rig_add(rig, 7, 55, set), -EINVAL);
		}
		*fields[i] = was;
	}
	assert_int_equal(rig_count_files(rig, "stash/dof") + rig_count_files(rig, "probes"), 0);
	assert_invariants(rig, 3);
	rig_free(set);
}

/* Valid names can together be too long for one file name. */
static void names_too_long_for_one_file_name_are_kept_and_removed(void **state)
{
	struct rig *rig = *state;
	struct rig_set *set = rig_set("prov", 1, 3, 3, 0x1000);
	struct dof_probe *probes = (struct dof_probe *)(uintptr_t)set->set.providers->probes;
	struct dof_provider *provider = (struct dof_provider *)(uintptr_t)set->set.providers;
	char module[DOF_MODULE_BYTES] = "", name[DOF_PROVIDER_BYTES] = "", functions[3][DOF_FUNCTION_BYTES] = { "" };

	memset(module, 'm', sizeof(module) - 1);
	memset(name, 'p', sizeof(name) - 1);
	provider->name = name;
	for (int i = 0; i < 3; i++) {
		memset(functions[i], 'a' + i, sizeof(functions[i]) - 1);
		probes[i].module = module;
		probes[i].function = functions[i];
	}
	assert_int_equal(rig_add(rig, 123456, 55, set), 0);
	assert_invariants(rig, 3);
	assert_int_equal(rig_count_files(rig, "probes"), 3);
	assert_true(rig_exists(rig, "stash/dof-pid/123456/2049-55/parsed/:2"));
	rig_reopen(rig);
	assert_string_equal(rig->logged, "");
	assert_int_equal(stale(rig), 0);
	assert_invariants(rig, 3);
	remove_generation(rig, 123456, 0);
	assert_invariants(rig, 3);
	assert_int_equal(rig_count_files(rig, "probes"), 0);
	rig_free(set);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_mapping_registered_several_times_is_counted),
		TEST(the_same_mapping_with_another_object_is_refused),
		TEST(an_existing_object_is_not_rewritten),
		TEST(a_restart_parses_again_only_when_the_version_changed),
		TEST(the_program_of_each_process_is_recorded_and_exec_is_detected),
		TEST(a_hundred_thousand_registrations_leak_no_memory_and_descriptors),
		TEST(unreadable_files_are_moved_out_of_probes),
		TEST(invalid_names_are_refused_before_any_write),
		TEST(names_too_long_for_one_file_name_are_kept_and_removed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
