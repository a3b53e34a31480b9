/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Power cuts at every call of every change of a storage tree, and of every sequence of up to three changes. The tree opens
 * with the state before the change or after it, never with another one; after the change has returned, only with the one
 * after it. Nothing else is left in the storage. The same holds if the power is cut again while the tree opens.
 *
 * Planted bugs must be found: a sync that is missing, one that comes after the next rename, and a rename that comes after
 * the sync behind it. POOL_CRASH_SEEDS=N: instead of all that, N random sequences of 24 changes.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <cmocka.h>

#include "base/bits.h"
#include "changes.h"
#include "trial.h"

enum { MET_MAX = 4096, LONG_CHANGES = 24 };

/* ---- changes as they are tried ---- */

struct op_change {
	enum op op;
	struct begun begun;
};

static int begin_op(void *ctx, struct contents *now, struct memory_fs *memory)
{
	struct op_change *self = ctx;

	return begin_change(self->op, now, memory, &self->begun);
}

static int make_op(void *ctx, struct contents *now, struct memory_fs *memory)
{
	struct op_change *self = ctx;

	return make_change(self->op, now, memory, &self->begun);
}

/* `self` has the state of the change. */
static struct trial_change change_of(struct op_change *self, enum op op)
{
	self->op = op;
	return (struct trial_change){
		.name = op_names[op], .begin = op == REVERT ? begin_op : NULL, .make = make_op, .ctx = self
	};
}

/* Returns NULL if all is right, else a text to free. */
static char *try_op(struct memory_fs **memory, enum op op, struct trial *trial)
{
	struct op_change op_change;
	struct trial_change change = change_of(&op_change, op);

	return try_change(memory, &change, trial);
}

/* ---- tests ---- */

/* A pool with the volumes a (with data and the snapshot s) and b. */
static struct memory_fs *populated(void)
{
	static const enum op ops[] = { CREATE_POOL, CREATE_THIN, CREATE_THICK, WRITE, SNAPSHOT_S, WRITE };
	struct memory_fs *memory = memory_fs_create();

	for (size_t i = 0; i < ARRAY_COUNT(ops); i++) {
		struct contents *now = open_tree(memory);

		must(now->tree);
		must(change(ops[i], now, memory) == 0);
		close_tree(now);
		memory_fs_settle(memory);
		if (!changes_with_sums || ops[i] != CREATE_THICK)
			continue;
		now = open_tree(memory);
		write_sums(now, memory);
		close_tree(now);
		memory_fs_settle(memory);
	}
	return memory;
}

/* A state in which the change `op` is possible. */
static struct memory_fs *prepared(enum op op)
{
	struct memory_fs *memory = op == CREATE_POOL ? memory_fs_create() : populated();
	struct contents *now = open_tree(memory);

	if (op == CREATE_THIN || op == DELETE_TRASH)
		must(change(REMOVE, now, memory) == 0);
	if (op == CREATE_THICK)
		must(volume_remove(now->tree, "p", "b", NULL) == 0);
	if (op == SNAPSHOT_S)
		must(change(REMOVE_SNAPSHOT, now, memory) == 0);
	if (op == ALLOCATE)
		must(change(MAKE_THICK, now, memory) == 0);
	if (op == UNSHARE)
		must(change(MARK_SHARING, now, memory) == 0);
	if (op == UNPUBLISH)
		must(change(PUBLISH, now, memory) == 0);
	if (op == COPY_SNAPSHOT || op == ACCEPT_COPY || op == DISCARD_COPY)
		must(change(PREPARE_COPY, now, memory) == 0);
	if (op == TAKE_BACK)
		must(change(GIVE_AWAY, now, memory) == 0);
	close_tree(now);
	memory_fs_settle(memory);
	return memory;
}

/* Some of the changes. */
struct ops {
	uint32_t count;
	enum op ops[OP_COUNT];
};

static struct ops common_ops(void)
{
	struct ops ops = { .count = COMMON_OPS };

	for (uint32_t i = 0; i < ops.count; i++)
		ops.ops[i] = (enum op)i;
	return ops;
}

/* Those of moves, and what may come between them. */
static const struct ops move_ops = {
	.count = 9,
	.ops = { PREPARE_COPY, COPY_SNAPSHOT, ACCEPT_COPY, DISCARD_COPY, GIVE_AWAY, TAKE_BACK, REVERT, REMOVE,
		 DELETE_TRASH },
};

/* States that were met: of two sequences that lead to the same state only one is continued. */
static struct {
	char *text;
	int depth; /* of the sequences that began there */
} met[MET_MAX];
static uint32_t met_count;

static bool is_met(struct memory_fs *memory, int depth)
{
	struct contents *contents = open_tree(memory);
	char text[TEXT_BYTES + 32];

	must(contents->tree);
	snprintf(text, sizeof(text), "%zu\n%s", memory_fs_nodes(memory), contents->text);
	close_tree(contents);
	for (uint32_t i = 0; i < met_count; i++)
		if (strcmp(met[i].text, text) == 0) {
			bool is_known = met[i].depth >= depth;

			met[i].depth = MAX(met[i].depth, depth);
			return is_known;
		}
	must(met_count < MET_MAX);
	met[met_count].depth = depth;
	met[met_count].text = strdup(text);
	must(met[met_count++].text);
	return false;
}

/* Sequences of changes, each of which is one of `ops`. */
static void try_sequences(struct memory_fs *from, const struct ops *ops, int depth, uint32_t *changes)
{
	for (uint32_t i = 0; i < ops->count; i++) {
		struct memory_fs *memory = memory_fs_copy(from);
		struct trial trial = { .plant = PLANT_NOTHING };
		char *problem = try_op(&memory, ops->ops[i], &trial);

		if (problem)
			fail_msg("%s", problem);
		(*changes)++;
		if (depth > 1 && !is_met(memory, depth - 1))
			try_sequences(memory, ops, depth - 1, changes);
		memory_fs_destroy(memory);
	}
}

static void free_met(void)
{
	while (met_count > 0)
		free(met[--met_count].text);
}

static void test_three_changes_survive_power_cuts(void **state)
{
	struct memory_fs *empty = memory_fs_create(), *full = populated();
	struct ops ops = common_ops();
	uint32_t changes = 0;

	try_sequences(empty, &ops, 3, &changes);
	try_sequences(full, &ops, 3, &changes);
	print_message("# %u changes, %u states, %u power cuts\n", changes, met_count, trial_cuts());
	assert_true(changes > 100);
	memory_fs_destroy(empty);
	memory_fs_destroy(full);
	free_met();
}

static void test_three_changes_of_a_move_survive_power_cuts(void **state)
{
	struct memory_fs *full = populated();
	uint32_t changes = 0, before = trial_cuts();

	try_sequences(full, &move_ops, 3, &changes);
	print_message("# %u changes, %u states, %u power cuts\n", changes, met_count, trial_cuts() - before);
	assert_true(changes > 100);
	memory_fs_destroy(full);
	free_met();
}

static void test_a_power_cut_during_the_recovery_changes_nothing(void **state)
{
	for (enum op op = 0; op < OP_COUNT; op++) {
		struct memory_fs *memory = prepared(op);
		struct trial trial = { .cuts_recovery = true };
		char *problem = try_op(&memory, op, &trial);

		if (problem)
			fail_msg("%s", problem);
		memory_fs_destroy(memory);
	}
}

/*
 * Bugs that do no harm. A single snapshot does not need the order that a group needs; of a group, the folder that the first
 * member came to may be synced after the next member came to its folder. The last step of the upkeep syncs the data file.
 * Without that a power cut may undo what it did to the blocks, but the file reads the same.
 */
static const struct {
	enum plant plant;
	enum op op;
	uint32_t first, last;
} harmless[] = {
	{ PLANT_MISSING_SYNC, SNAPSHOT, 3, 5 },	   { PLANT_LATE_SYNC, SNAPSHOT, 3, 5 },
	{ PLANT_LATE_SYNC, SNAPSHOT_GROUP, 9, 9 }, { PLANT_LATE_RENAME, SNAPSHOT, 0, 0 },
	{ PLANT_MISSING_SYNC, ALLOCATE, 0, 0 },	   { PLANT_MISSING_SYNC, UNSHARE, 0, 0 },
	{ PLANT_LATE_SYNC, ALLOCATE, 0, 0 },	   { PLANT_LATE_SYNC, UNSHARE, 0, 0 },
};

static bool is_harmless(void *ctx, enum plant plant, uint32_t index)
{
	enum op op = ((struct op_change *)ctx)->op;
	bool is_snapshot = op == SNAPSHOT || op == SNAPSHOT_S || op == COPY_SNAPSHOT;
	bool syncs_sums = changes_with_sums && (is_snapshot || op == SNAPSHOT_GROUP || op == ALLOCATE || op == UNSHARE);

	if (is_snapshot)
		op = SNAPSHOT;
	if (syncs_sums && plant != PLANT_LATE_RENAME && index > 0)
		index--; /* the second sync is that of the checksums, and like the first one */
	for (size_t i = 0; i < ARRAY_COUNT(harmless); i++)
		if (harmless[i].plant == plant && harmless[i].op == op && index >= harmless[i].first &&
		    index <= harmless[i].last)
			return true;
	return false;
}

/* Try each change with each bug of this kind: each that does harm is found. Returns their number. */
static uint32_t try_all_bugs(enum plant plant)
{
	uint32_t found = 0;

	for (enum op op = 0; op < OP_COUNT; op++) {
		struct memory_fs *from = prepared(op);
		struct op_change op_change;
		struct trial_change change = change_of(&op_change, op);
		char *missed = try_bugs(from, &change, &(struct trial){ .plant = plant }, is_harmless, &found);

		if (missed)
			fail_msg("%s", missed);
		memory_fs_destroy(from);
	}
	return found;
}

/* Without any one of its syncs each change loses data or keeps its promise too late. */
static void test_each_missing_sync_is_found(void **state)
{
	assert_true(try_all_bugs(PLANT_MISSING_SYNC) > 40);
}

static void test_each_rename_before_a_sync_is_found(void **state)
{
	assert_true(try_all_bugs(PLANT_LATE_SYNC) > 20);
}

static void test_each_rename_after_its_sync_is_found(void **state)
{
	assert_true(try_all_bugs(PLANT_LATE_RENAME) > 15);
}

/* The folders may come to the disk after the rename of the first pool: it is not promised before its syncs. */
static bool is_late_root(void *ctx, enum plant plant, uint32_t index)
{
	return plant == PLANT_LATE_SYNC && index == 0;
}

/* The first open of a storage makes its folders: the first pool is in them. */
static void test_the_first_open_is_durable(void **state)
{
	static const enum plant plants[] = { PLANT_MISSING_SYNC, PLANT_LATE_SYNC, PLANT_LATE_RENAME };
	struct memory_fs *empty = memory_fs_create(), *memory = memory_fs_copy(empty);
	struct op_change op_change;
	struct trial_change change = change_of(&op_change, CREATE_POOL);
	char *problem = try_change(&memory, &change, &(struct trial){ .is_first = true });
	uint32_t found = 0;

	for (size_t i = 0; !problem && i < ARRAY_COUNT(plants); i++)
		problem = try_bugs(empty, &change, &(struct trial){ .plant = plants[i], .is_first = true }, is_late_root,
				   &found);
	if (problem)
		fail_msg("%s", problem);
	assert_true(found > 5);
	memory_fs_destroy(memory);
	memory_fs_destroy(empty);
}

/* The contents after the tree is opened again. */
static char *text_after(struct memory_fs *memory)
{
	struct contents *contents = open_tree(memory);
	char *text = strdup(contents->text);

	must(text && contents->tree);
	close_tree(contents);
	return text;
}

/* The contents if the tree were opened again now. */
static char *text_of_copy(const struct memory_fs *memory)
{
	struct memory_fs *copy = memory_fs_copy(memory);
	char *text = text_after(copy);

	memory_fs_destroy(copy);
	return text;
}

/*
 * Call number `index` of the change fails. Without an error the change is complete; with one it is not there, unless the
 * tree has failed. Returns whether there was such a call.
 */
static bool try_failure(struct memory_fs *memory, enum op op, uint32_t index, const char *complete)
{
	struct contents *now = open_tree(memory);
	bool has_failed, is_tree_failed;
	char *before, *after;
	struct begun begun;
	int error;

	must(begin_change(op, now, memory, &begun) == 0);
	before = text_of_copy(memory);
	memory_fs_fail_call(memory, index, -EIO);
	error = make_change(op, now, memory, &begun);
	has_failed = memory_fs_has_failed(memory);
	memory_fs_fail_call(memory, UINT32_MAX, 0);
	is_tree_failed = pool_tree_is_failed(now->tree);
	assert_true(!is_tree_failed || pool_create(now->tree, &(struct pool_record){ .name = "q" }, NULL) == -EROFS);
	close_tree(now);
	assert_int_equal(memory_fs_open_count(memory), 0);
	after = text_after(memory);
	if (error == 0 || is_tree_failed)
		assert_string_equal(after, complete); /* without a power cut the rename stays */
	else if (op != WRITE)
		assert_string_equal(after, before);
	free(after);
	free(before);
	return has_failed;
}

static void test_each_failing_call_leaves_the_old_state_or_fails_the_tree(void **state)
{
	uint32_t failures = 0;

	for (enum op op = 0; op < OP_COUNT; op++) {
		struct memory_fs *memory = prepared(op);
		struct contents *now = open_tree(memory);
		char *complete;

		must(change(op, now, memory) == 0);
		close_tree(now);
		complete = text_after(memory);
		memory_fs_destroy(memory);
		for (uint32_t index = 0;; index++) {
			bool has_failed;

			memory = prepared(op);
			has_failed = try_failure(memory, op, index, complete);
			memory_fs_destroy(memory);
			if (!has_failed)
				break;
			failures++;
		}
		free(complete);
	}
	assert_true(failures > 100);
}

/* There are more files and syncs, so more states: sequences of two changes are enough. */
static void test_changes_of_volumes_with_checksums(void **state)
{
	struct ops ops = common_ops();
	struct memory_fs *full;
	uint32_t changes = 0;

	changes_with_sums = true;
	full = populated();
	try_sequences(full, &ops, 2, &changes);
	try_sequences(full, &move_ops, 2, &changes);
	memory_fs_destroy(full);
	free_met();
	test_each_failing_call_leaves_the_old_state_or_fails_the_tree(state);
	test_each_missing_sync_is_found(state);
	test_each_rename_before_a_sync_is_found(state);
	test_each_rename_after_its_sync_is_found(state);
	changes_with_sums = false;
}

/* A quarter of the changes go on from a state that a power cut left. */
static void test_random_sequences_survive_power_cuts(void **state)
{
	for (uint64_t seed = 1; seed <= strtoull(getenv("POOL_CRASH_SEEDS"), NULL, 10); seed++) {
		struct memory_fs *memory = populated();
		struct random random;

		random_init(&random, seed);
		for (uint32_t i = 0; i < LONG_CHANGES; i++) {
			struct trial trial = { .random = &random, .cuts_recovery = random_below(&random, 8) == 0 };
			char *problem = try_op(&memory, (enum op)random_below(&random, OP_COUNT), &trial);

			if (problem)
				fail_msg("seed %llu, change %u: %s", (unsigned long long)seed, i, problem);
		}
		memory_fs_destroy(memory);
	}
	print_message("# %u power cuts\n", trial_cuts());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_failing_call_leaves_the_old_state_or_fails_the_tree),
		cmocka_unit_test(test_three_changes_survive_power_cuts),
		cmocka_unit_test(test_three_changes_of_a_move_survive_power_cuts),
		cmocka_unit_test(test_the_first_open_is_durable),
		cmocka_unit_test(test_a_power_cut_during_the_recovery_changes_nothing),
		cmocka_unit_test(test_each_missing_sync_is_found),
		cmocka_unit_test(test_each_rename_before_a_sync_is_found),
		cmocka_unit_test(test_each_rename_after_its_sync_is_found),
		cmocka_unit_test(test_changes_of_volumes_with_checksums),
	};
	const struct CMUnitTest long_tests[] = { cmocka_unit_test(test_random_sequences_survive_power_cuts) };

	return getenv("POOL_CRASH_SEEDS") ? cmocka_run_group_tests(long_tests, NULL, NULL)
					  : cmocka_run_group_tests(tests, NULL, NULL);
}
