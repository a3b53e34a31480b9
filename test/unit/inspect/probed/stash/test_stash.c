/* SPDX-License-Identifier: BSD-2-Clause */
/* The tree of the stash: registrations have the documented layout, removals leave nothing. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bits.h"
#include "invariants.h"
#include "inspect/probed/stash/record.h"
#include "rig.h"

static void assert_invariants(struct rig *rig)
{
	assert_int_equal(invariants_broken(rig->directory, 0), 0);
}

static nlink_t links(const struct rig *rig, const char *path)
{
	char full[RIG_PATH_BYTES];
	struct stat status;

	snprintf(full, sizeof(full), "%s/%s", rig->directory, path);
	return lstat(full, &status) == 0 ? status.st_nlink : 0;
}

static size_t read_whole(const struct rig *rig, const char *path, char *data, size_t bytes_max)
{
	char full[RIG_PATH_BYTES];
	size_t bytes;
	FILE *file;

	snprintf(full, sizeof(full), "%s/%s", rig->directory, path);
	file = fopen(full, "r");
	assert_non_null(file);
	bytes = fread(data, 1, bytes_max, file);
	fclose(file);
	return bytes;
}

static void remove_all(struct rig *rig, pid_t pid, uint64_t generation)
{
	struct fathom_fault why = { 0 };

	assert_int_equal(stash_remove(rig->stash, pid, generation, &why), 0);
}

static void a_registration_has_the_documented_layout(void **state)
{
	struct rig *rig = *state;
	struct rig_set *set = rig_set("prov", 1, 3, 2, 0x1000);
	char data[4096], target[64] = "";
	char full[RIG_PATH_BYTES];
	struct stat status;

	assert_int_equal(rig_add(rig, 123, 55, set), 0);
	assert_invariants(rig);
	assert_int_equal(links(rig, "stash/dof/2049-55"), 2);
	assert_int_equal(links(rig, "stash/dof-pid/123/2049-55/raw"), 2);
	assert_int_equal(read_whole(rig, "stash/dof/2049-55", data, sizeof(data)), set->input.blocks[0].bytes);
	assert_memory_equal(data, set->input.blocks[0].data, set->input.blocks[0].bytes);
	assert_int_equal(read_whole(rig, "stash/dof-pid/123/2049-55/dh", data, sizeof(data)), 80);
	assert_memory_equal(data, &set->input.helper, 80);
	assert_int_equal(read_whole(rig, "stash/dof-pid/123/exec-mapping", data, sizeof(data)), 7);
	assert_memory_equal(data, "2049-77", 7);
	snprintf(full, sizeof(full), "%s/stash/dof-pid/123/0", rig->directory);
	assert_int_equal(readlink(full, target, sizeof(target)), 7);
	assert_string_equal(target, "2049-55");
	snprintf(full, sizeof(full), "%s/stash/dof-pid/123/next-gen", rig->directory);
	assert_int_equal(stat(full, &status), 0);
	assert_int_equal(status.st_size, 1);
	assert_int_equal(status.st_blocks, 0);
	assert_int_equal(read_whole(rig, "stash/dof-pid/123/2049-55/parsed/version", data, sizeof(data)), 8);
	assert_int_equal(data[0], 3);
	assert_int_equal(links(rig, "stash/dof-pid/123/2049-55/parsed/prova123:program:function_00000:probe-00000"), 2);
	assert_int_equal(links(rig, "probes/123/prova123/program/function_00000/probe-00000"), 2);
	assert_int_equal(links(rig, "probes/123/prova123/program/function_00001/probe-00002"), 2);
	rig_free(set);
}

static void each_file_in_probes_equals_its_registered_probe(void **state)
{
	struct rig *rig = *state;
	struct rig_set *set = rig_set("prov", 2, 5, 2, 0x1000);

	for (uint32_t version = 1; version <= 3; version++) {
		char data[4096];
		struct record record;
		struct fathom_fault why;
		size_t bytes;

		remove_all(rig, 9, version - 2);
		stash_close(rig->stash);
		rig->options.record_version = version;
		assert_int_equal(stash_open(&rig->options, &rig->stash, &why), 0);
		assert_int_equal(rig_add(rig, 9, 55, set), version - 1);
		assert_int_equal(invariants_broken(rig->directory, version), 0);
		bytes = read_whole(rig, "probes/9/provb9/program/function_00001/probe-00003", data, sizeof(data));
		assert_int_equal(record_decode(data, bytes, &record, &why), 0);
		assert_int_equal(record.version, version);
		assert_int_equal(record.provider_probes, 5);
		if (version == 3)
			assert_true(dof_probe_equal(record.set.providers->probes, &set->set.providers[1].probes[3]));
		record_free(&record);
	}
	rig_free(set);
}

static void a_removal_leaves_only_the_counter(void **state)
{
	struct rig *rig = *state;
	struct rig_set *set = rig_set("prov", 2, 10, 3, 0x1000);
	struct stash_stats stats;

	assert_int_equal(rig_add(rig, 123, 55, set), 0);
	assert_int_equal(rig_count_files(rig, "probes"), 20);
	remove_all(rig, 123, 0);
	assert_invariants(rig);
	assert_int_equal(rig_count_files(rig, "probes"), 0);
	assert_false(rig_exists(rig, "probes/123"));
	assert_int_equal(rig_count_files(rig, "stash/dof"), 0);
	assert_int_equal(rig_count_files(rig, "stash/dof-pid"), 3);
	/* repeated, and for an unknown process: no effect */
	remove_all(rig, 123, 0);
	remove_all(rig, 124, 0);
	stash_get_stats(rig->stash, &stats);
	assert_int_equal(stats.objects + stats.probes + stats.bytes + stats.registrations, 0);
	assert_int_equal(stats.processes, 1);
	rig_free(set);
}

static void removing_a_process_leaves_nothing(void **state)
{
	struct rig *rig = *state;
	struct rig_set *one = rig_set("one", 1, 10, 3, 0x1000), *two = rig_set("two", 2, 3, 3, 0x9000);
	struct fathom_fault why;

	assert_int_equal(rig_add(rig, 123, 55, one), 0);
	assert_int_equal(rig_add(rig, 123, 56, two), 1);
	assert_int_equal(rig_add(rig, 124, 55, one), 0);
	assert_invariants(rig);
	assert_int_equal(stash_remove_process(rig->stash, 123, &why), 0);
	assert_invariants(rig);
	assert_false(rig_exists(rig, "probes/123"));
	assert_false(rig_exists(rig, "stash/dof-pid/123"));
	assert_int_equal(links(rig, "stash/dof/2049-55"), 2);
	assert_false(rig_exists(rig, "stash/dof/2049-56"));
	rig_free(one);
	rig_free(two);
}

static void identical_objects_of_several_processes_are_stored_once(void **state)
{
	struct rig *rig = *state;
	struct rig_set *set = rig_set("prov", 1, 2, 1, 0x1000), *other = rig_set("prov", 1, 2, 1, 0x2000);

	assert_int_equal(rig_add(rig, 1, 55, set), 0);
	assert_int_equal(rig_add(rig, 2, 55, set), 0);
	/* at another address the bytes differ, but not their number */
	assert_int_equal(other->input.blocks[0].bytes, set->input.blocks[0].bytes);
	assert_int_equal(rig_add(rig, 3, 55, other), 0);
	assert_invariants(rig);
	assert_int_equal(links(rig, "stash/dof/2049-55"), 3);
	assert_int_equal(links(rig, "stash/dof/2049-55.3"), 2);
	remove_all(rig, 1, 0);
	remove_all(rig, 3, 0);
	assert_invariants(rig);
	assert_int_equal(rig_count_files(rig, "stash/dof"), 1);
	remove_all(rig, 2, 0);
	assert_int_equal(rig_count_files(rig, "stash/dof"), 0);
	rig_free(set);
	rig_free(other);
}

static void mappings_of_one_process_share_its_folders(void **state)
{
	struct rig *rig = *state;
	struct rig_set *one = rig_set("same", 1, 4, 4, 0x1000), *two = rig_set("same", 2, 8, 8, 0x1000);

	/* two has all probes of one, more functions in the same module, and another provider */
	assert_int_equal(rig_add(rig, 7, 55, one), 0);
	assert_int_equal(rig_add(rig, 7, 56, two), 1);
	assert_invariants(rig);
	assert_int_equal(links(rig, "probes/7/samea7/program/function_00001/probe-00001"), 3);
	assert_int_equal(rig_count_files(rig, "probes"), 16);
	remove_all(rig, 7, 0);
	assert_invariants(rig);
	assert_int_equal(rig_count_files(rig, "probes"), 16);
	assert_int_equal(rig_add(rig, 7, 55, one), 2);
	remove_all(rig, 7, 1);
	assert_invariants(rig);
	assert_int_equal(rig_count_files(rig, "probes"), 4);
	rig_free(one);
	rig_free(two);
}

static void a_probe_that_differs_from_another_mappings_is_refused(void **state)
{
	struct rig *rig = *state;
	struct rig_set *one = rig_set("same", 1, 4, 4, 0x1000), *two = rig_set("same", 1, 4, 4, 0x2000);

	assert_int_equal(rig_add(rig, 7, 55, one), 0);
	assert_int_equal(rig_add(rig, 7, 56, two), -EEXIST);
	assert_invariants(rig);
	assert_int_equal(rig_count_files(rig, "probes"), 4);
	assert_int_equal(rig_count_files(rig, "stash/dof"), 1);
	/* in another process it is accepted */
	assert_int_equal(rig_add(rig, 8, 56, two), 0);
	assert_invariants(rig);
	rig_free(one);
	rig_free(two);
}

static int count_registrations(void *ctx, const struct stash_registration *registration)
{
	uint32_t *count = ctx;

	assert_false(registration->stale);
	(*count)++;
	return 0;
}

static void registrations_survive_the_daemon(void **state)
{
	struct rig *rig = *state;
	struct rig_set *one = rig_set("one", 1, 10, 3, 0x1000), *two = rig_set("one", 2, 12, 12, 0x2000);
	struct stash_stats before, after;
	uint32_t count = 0;

	assert_int_equal(rig_add(rig, 123, 55, one), 0);
	assert_int_equal(rig_add(rig, 200, 55, one), 0);
	assert_int_equal(rig_add(rig, 200, 55, one), 1);
	assert_int_equal(rig_add(rig, 300, 57, two), 0);
	remove_all(rig, 300, 0);
	stash_get_stats(rig->stash, &before);
	rig_reopen(rig);
	stash_get_stats(rig->stash, &after);
	assert_string_equal(rig->logged, "");
	assert_int_equal(after.objects, before.objects);
	assert_int_equal(after.probes, before.probes);
	assert_int_equal(after.bytes, before.bytes);
	assert_int_equal(after.processes, before.processes);
	assert_int_equal(after.registrations, 2);
	assert_int_equal(after.swept + after.repaired + after.set_aside, 0);
	assert_invariants(rig);
	assert_int_equal(stash_walk(rig->stash, count_registrations, &count), 0);
	assert_int_equal(count, 2);
	assert_int_equal(rig_add(rig, 300, 57, two), 1);
	assert_int_equal(rig_add(rig, 200, 57, two), -EEXIST);
	rig_free(one);
	rig_free(two);
}

/* ---- identity of processes ---- */

static int64_t add_as(struct rig *rig, const struct stash_process *process, uint64_t inode, const struct rig_set *set)
{
	const struct stash_mapping mapping = { .device = 2049, .inode = inode };
	struct fathom_fault why = { 0 };
	uint64_t generation;
	int rc = stash_add(rig->stash, &RIG_ADDITION(process, &mapping, set), &generation, &why);

	return rc ? rc : (int64_t)generation;
}

static void generations_do_not_repeat_while_the_process_lives(void **state)
{
	struct rig *rig = *state;
	struct rig_set *one = rig_set("one", 1, 2, 1, 0x1000), *two = rig_set("two", 1, 2, 1, 0x1000);
	struct stash_process process = rig_process(7);

	assert_int_equal(rig_add(rig, 7, 55, one), 0);
	remove_all(rig, 7, 0);
	assert_int_equal(rig_add(rig, 7, 55, one), 1);
	remove_all(rig, 7, 0); /* removes process 7, which was an earlier one */
	assert_int_equal(rig_count_files(rig, "probes"), 2);
	remove_all(rig, 7, 1);
	rig_reopen(rig);
	assert_int_equal(rig_add(rig, 7, 56, two), 2);
	process.exec_inode++; /* exec: still the same process */
	assert_int_equal(add_as(rig, &process, 57, one), 3);
	assert_false(rig_exists(rig, "probes/7/twoa7"));
	process.start_time++; /* another process */
	assert_int_equal(add_as(rig, &process, 57, one), 0);
	assert_invariants(rig);
	rig_free(one);
	rig_free(two);
}

static void a_reused_pid_has_no_earlier_registrations(void **state)
{
	struct rig *rig = *state;
	struct rig_set *one = rig_set("one", 2, 6, 3, 0x1000), *two = rig_set("two", 1, 2, 1, 0x1000);
	struct stash_process process = rig_process(7);

	assert_int_equal(rig_add(rig, 7, 55, one), 0);
	assert_int_equal(rig_add(rig, 7, 56, two), 1);
	rig_reopen(rig);
	process.start_time++;
	assert_int_equal(add_as(rig, &process, 57, two), 0);
	assert_int_equal(rig_count_files(rig, "probes"), 2);
	assert_int_equal(rig_count_files(rig, "stash/dof"), 1);
	assert_invariants(rig);
	rig_free(one);
	rig_free(two);
}

/* ---- walks ---- */

static int remove_shown(void *ctx, const struct stash_registration *registration)
{
	struct rig *rig = ctx;
	struct fathom_fault why = { 0 };

	if (registration->process.pid == 2)
		return stash_remove_process(rig->stash, 2, &why);
	return stash_remove_mapping(rig->stash, registration->process.pid, &registration->mapping, &why);
}

static int note_pid(void *ctx, const struct stash_process *process)
{
	char *pids = ctx;
	size_t used = strlen(pids);

	snprintf(pids + used, 32 - used, "%d ", (int)process->pid);
	return 0;
}

static void a_walk_may_remove_the_registration_it_visits(void **state)
{
	struct rig *rig = *state;
	struct rig_set *one = rig_set("one", 1, 2, 1, 0x1000), *two = rig_set("two", 1, 2, 1, 0x1000);
	char pids[32] = "";

	for (pid_t pid = 3; pid > 0; pid--) {
		assert_int_equal(rig_add(rig, pid, 56, one), 0);
		assert_int_equal(rig_add(rig, pid, 55, two), 1);
	}
	assert_int_equal(stash_walk(rig->stash, remove_shown, rig), 0);
	assert_int_equal(rig_count_files(rig, "probes"), 0);
	assert_invariants(rig);
	/* the live processes are still listed, without registrations */
	assert_int_equal(stash_walk_processes(rig->stash, note_pid, pids), 0);
	assert_string_equal(pids, "1 3 ");
	rig_reopen(rig);
	pids[0] = '\0';
	assert_int_equal(stash_walk_processes(rig->stash, note_pid, pids), 0);
	assert_string_equal(pids, "1 3 ");
	rig_free(one);
	rig_free(two);
}

static void a_registered_object_can_be_read_again(void **state)
{
	struct rig *rig = *state;
	struct rig_set *set = rig_set("prov", 1, 2, 1, 0x1000);
	const struct stash_registration registration = { .process = rig_process(7), .mapping = { 2049, 55 } };
	static const enum dof_kind kinds[] = { DOF_KIND_DOF, DOF_KIND_USDT, DOF_KIND_SDT };
	struct fathom_fault why = { 0 };

	for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
		struct dof_input input;
		void *memory;

		set->input.kind = kinds[i];
		set->input.bits_32 = kinds[i] == DOF_KIND_SDT;
		set->input.note_base = kinds[i] == DOF_KIND_SDT ? 99 : 0;
		set->input.blocks[0].base = kinds[i] == DOF_KIND_DOF ? 0 : 5;
		set->input.blocks[1] = (struct dof_block){ 0 };
		if (kinds[i] == DOF_KIND_USDT)
			set->input.blocks[1] = (struct dof_block){ .base = 7, .data = "rodata", .bytes = 6 };
		assert_int_equal(rig_add(rig, 7, 55, set), i);
		assert_int_equal(rig_add(rig, 8, 55, set), i); /* shares the object */
		rig_reopen(rig);
		assert_string_equal(rig->logged, "");
		assert_int_equal(stash_read(rig->stash, &registration, &input, &memory, &why), 0);
		assert_int_equal(input.kind, kinds[i]);
		assert_int_equal(input.bits_32, set->input.bits_32);
		assert_int_equal(input.note_base, set->input.note_base);
		assert_memory_equal(&input.helper, &set->input.helper, sizeof(input.helper));
		for (int j = 0; j < 2; j++) {
			assert_int_equal(input.blocks[j].base, set->input.blocks[j].base);
			assert_int_equal(input.blocks[j].bytes, set->input.blocks[j].bytes);
			if (input.blocks[j].bytes > 0)
				assert_memory_equal(input.blocks[j].data, set->input.blocks[j].data, input.blocks[j].bytes);
		}
		free(memory);
		remove_all(rig, 7, i);
		remove_all(rig, 8, i);
		assert_int_equal(rig_count_files(rig, "stash/dof"), 0);
		assert_invariants(rig);
	}
	rig_free(set);
}

static void links_to_providers_are_made_if_requested(void **state)
{
	struct rig *rig = *state;
	struct rig_set *one = rig_set("one", 2, 2, 1, 0x1000), *more = rig_set("one", 3, 2, 1, 0x1000);

	assert_int_equal(rig_add(rig, 7, 55, one), 0);
	assert_false(rig_exists(rig, "probes/onea7"));
	rig->options.provider_links = true;
	rig_reopen(rig);
	assert_true(rig_exists(rig, "probes/onea7/program"));
	assert_true(rig_exists(rig, "probes/oneb7/program"));
	assert_int_equal(rig_add(rig, 7, 56, more), 1);
	assert_true(rig_exists(rig, "probes/onec7/program"));
	assert_invariants(rig);
	remove_all(rig, 7, 1);
	assert_false(rig_exists(rig, "probes/onec7"));
	assert_true(rig_exists(rig, "probes/oneb7/program"));
	assert_invariants(rig);
	rig->options.provider_links = false;
	rig_reopen(rig);
	assert_false(rig_exists(rig, "probes/oneb7"));
	assert_string_equal(rig->logged, "");
	rig_free(one);
	rig_free(more);
}

/* ---- watching ---- */

static int watch(const struct rig *rig, int inotify, const char *path)
{
	char full[RIG_PATH_BYTES];
	int id;

	snprintf(full, sizeof(full), "%s/%s", rig->directory, path);
	id = inotify_add_watch(inotify, full, IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE);
	assert_true(id >= 0);
	return id;
}

/* Read all pending events. Return whether one of them matches. */
static bool saw(int inotify, int id, uint32_t mask, const char *name)
{
	char data[8192] __attribute__((aligned(8)));
	bool found = false;
	ssize_t bytes;

	while ((bytes = read(inotify, data, sizeof(data))) > 0) {
		for (ssize_t at = 0; at < bytes;) {
			const struct inotify_event *event = (const void *)(data + at);

			found |= event->wd == id && (event->mask & mask) && strcmp(event->name, name) == 0;
			at += (ssize_t)(sizeof(*event) + event->len);
		}
	}
	return found;
}

static void inotify_reports_probes_added_and_removed(void **state)
{
	struct rig *rig = *state;
	struct rig_set *one = rig_set("one", 1, 2, 1, 0x1000), *more = rig_set("one", 2, 3, 1, 0x1000);
	int inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC), top, process, function;

	assert_true(inotify >= 0);
	top = watch(rig, inotify, "probes");
	assert_int_equal(rig_add(rig, 7, 55, one), 0);
	assert_true(saw(inotify, top, IN_MOVED_TO, "7"));
	process = watch(rig, inotify, "probes/7");
	function = watch(rig, inotify, "probes/7/onea7/program/function_00000");
	assert_int_equal(rig_add(rig, 7, 56, more), 1);
	assert_true(saw(inotify, process, IN_MOVED_TO, "oneb7"));
	assert_true(rig_exists(rig, "probes/7/onea7/program/function_00000/probe-00002"));
	remove_all(rig, 7, 1);
	assert_true(saw(inotify, function, IN_DELETE, "probe-00002"));
	assert_false(rig_exists(rig, "probes/7/oneb7"));
	remove_all(rig, 7, 0);
	assert_true(saw(inotify, top, IN_MOVED_FROM, "7"));
	close(inotify);
	rig_free(one);
	rig_free(more);
}

/* Register a large object for file 55 of `pid` as the registry does. Return the number of slices that were compared. */
static uint32_t add_large(struct rig *rig, pid_t pid, const struct rig_set *set, const char *data, size_t bytes)
{
	const struct stash_process process = rig_process(pid);
	const struct stash_mapping mapping = { .device = 2049, .inode = 55 };
	struct dof_input input = set->input;
	struct stash_upload *uploads[DOF_BLOCKS_MAX] = { NULL };
	struct stash_addition addition;
	struct fathom_fault why = { 0 };
	uint32_t slices = 0;
	uint64_t generation;

	assert_int_equal(stash_upload_begin(rig->stash, bytes, &uploads[0]), 0);
	assert_int_equal(stash_upload_write(uploads[0], 0, data, bytes), 0);
	assert_int_equal(stash_upload_map(uploads[0], &input.blocks[0].data), 0);
	input.blocks[0].bytes = bytes;
	do
		slices++;
	while (stash_upload_compare(uploads[0], pid, &mapping, 0));
	addition = (struct stash_addition){ &process, &mapping, &input, &set->set, uploads };
	assert_int_equal(stash_add(rig->stash, &addition, &generation, &why), 0);
	stash_upload_end(uploads[0]);
	return slices;
}

static void a_large_object_is_stored_once_and_freed_in_slices(void **state)
{
	enum { BYTES = 3 * STASH_SLICE_BYTES };
	struct rig *rig = *state;
	struct rig_set *set = rig_set("prov", 1, 1, 1, 0x1000);
	struct stash_stats stats;
	uint32_t slices = 0;
	char *data = calloc(1, BYTES);

	assert_non_null(data);
	assert_int_equal(add_large(rig, 7, set, data, BYTES), 1);
	assert_int_equal(add_large(rig, 8, set, data, BYTES), 3);
	assert_int_equal(links(rig, "stash/dof/2049-55"), 3);
	assert_int_equal(add_large(rig, 7, set, data, BYTES), 3); /* registered again */
	data[BYTES - 1] = 1;
	assert_int_equal(add_large(rig, 9, set, data, BYTES), 3); /* the last slice differs */
	assert_int_equal(links(rig, "stash/dof/2049-55.9"), 2);
	assert_invariants(rig);
	stash_get_stats(rig->stash, &stats);
	assert_int_equal(stats.bytes, 2 * BYTES);
	while (stash_free_slice(rig->stash))
		;
	remove_all(rig, 9, 0);
	assert_true(stash_has_slices_to_free(rig->stash));
	while (stash_free_slice(rig->stash))
		slices++;
	assert_false(rig_exists(rig, "stash/dof/2049-55.9"));
	remove_all(rig, 8, 0);
	assert_false(stash_has_slices_to_free(rig->stash)); /* the other process still has it */
	assert_int_equal(links(rig, "stash/dof/2049-55"), 2);
	assert_invariants(rig);
	free(data);
	rig_free(set);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_registration_has_the_documented_layout),
		TEST(each_file_in_probes_equals_its_registered_probe),
		TEST(a_removal_leaves_only_the_counter),
		TEST(removing_a_process_leaves_nothing),
		TEST(identical_objects_of_several_processes_are_stored_once),
		TEST(a_large_object_is_stored_once_and_freed_in_slices),
		TEST(mappings_of_one_process_share_its_folders),
		TEST(a_probe_that_differs_from_another_mappings_is_refused),
		TEST(registrations_survive_the_daemon),
		TEST(generations_do_not_repeat_while_the_process_lives),
		TEST(a_reused_pid_has_no_earlier_registrations),
		TEST(a_walk_may_remove_the_registration_it_visits),
		TEST(a_registered_object_can_be_read_again),
		TEST(links_to_providers_are_made_if_requested),
		TEST(inotify_reports_probes_added_and_removed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
