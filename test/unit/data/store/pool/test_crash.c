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
#include "base/random.h"
#include "changes.h"

enum { TEXTS_MAX = 32, MET_MAX = 4096, LONG_CHANGES = 24 };

/* ---- power cuts ---- */

static uint32_t cuts; /* states that were opened */

/* The different contents that the tree had after a power cut during one change. */
struct outcome {
	char *texts[TEXTS_MAX];
	uint32_t text_count;
	bool is_broken; /* it did not open, or something was left that belongs to no object */
	char broken_text[TEXT_BYTES + 128];
	bool cuts_recovery, is_recovering; /* the power is cut again during each call of the open that follows */
	struct random *random;		   /* NULL: `chosen` is not wanted */
	struct memory_fs *chosen;	   /* one of the states, at random */
	uint32_t seen;
};

struct point {
	struct memory_fs *memory;
	struct outcome *outcome;
};

static void cut_power(void *ctx);

static void add_outcome(struct outcome *self, const char *text)
{
	for (uint32_t i = 0; i < self->text_count; i++)
		if (strcmp(self->texts[i], text) == 0)
			return;
	must(self->text_count < TEXTS_MAX);
	self->texts[self->text_count] = strdup(text);
	must(self->texts[self->text_count++]);
}

/* Open what a power cut left. After the trash is emptied, no file may be there that belongs to no object. */
static void open_crashed(void *ctx, struct memory_fs *crashed)
{
	struct outcome *self = ctx;
	struct point point = { .memory = crashed, .outcome = self };
	bool cuts_again = self->cuts_recovery && !self->is_recovering;
	struct contents *contents;

	cuts++;
	if (self->random && random_below(self->random, ++self->seen) == 0) {
		if (self->chosen)
			memory_fs_destroy(self->chosen);
		self->chosen = memory_fs_copy(crashed);
	}
	if (cuts_again) {
		self->is_recovering = true;
		memory_fs_at_each_call(crashed, cut_power, &point);
	}
	contents = open_tree(crashed);
	add_outcome(self, contents->text);
	while (contents->tree && pool_tree_delete_trash(contents->tree, NULL) == 1)
		;
	if (!contents->tree || contents->damaged_count > 0 || memory_fs_nodes(crashed) != contents->node_count) {
		self->is_broken = true;
		snprintf(self->broken_text, sizeof(self->broken_text), "%s(%zu files and folders, %zu belong to objects)\n",
			 contents->text, memory_fs_nodes(crashed), contents->node_count);
	}
	close_tree(contents);
	must(memory_fs_open_count(crashed) == 0);
	if (cuts_again) {
		memory_fs_at_each_call(crashed, NULL, NULL);
		self->is_recovering = false;
	}
}

static void cut_power(void *ctx)
{
	struct point *self = ctx;

	memory_fs_each_crash(self->memory, open_crashed, self->outcome);
}

static struct memory_fs *take_chosen(struct outcome *self)
{
	struct memory_fs *chosen = self->chosen;

	self->chosen = NULL;
	return chosen;
}

static void free_outcome(struct outcome *self)
{
	if (self->chosen)
		memory_fs_destroy(self->chosen);
	for (uint32_t i = 0; i < self->text_count; i++)
		free(self->texts[i]);
	free(self);
}

/* Whether the outcome has only these two texts; NULL: not allowed. */
static bool has_only(const struct outcome *self, const char *before, const char *after)
{
	for (uint32_t i = 0; i < self->text_count; i++)
		if ((!before || strcmp(self->texts[i], before) != 0) && strcmp(self->texts[i], after) != 0)
			return false;
	return !self->is_broken;
}

/* How a change is tried. */
struct trial {
	enum { PLANT_NOTHING, PLANT_MISSING_SYNC, PLANT_LATE_SYNC, PLANT_LATE_RENAME } plant;
	uint32_t index; /* of the sync or the rename */
	bool cuts_recovery;
	struct random *random; /* set: the memory afterwards may be one of the states that a power cut leaves */
	uint32_t sync_count;   /* set by try_change() */
	bool was_late;	       /* likewise: the planted wrong order was there */
};

static void plant(struct memory_fs *memory, const struct trial *trial)
{
	memory_fs_skip_sync(memory, trial->plant == PLANT_MISSING_SYNC ? trial->index : UINT32_MAX);
	if (trial->plant == PLANT_LATE_SYNC || trial->plant == PLANT_LATE_RENAME)
		memory_fs_make_late(memory, trial->plant == PLANT_LATE_SYNC, trial->index);
}

/* Make the change with a power cut before each call. Returns what it returned. */
static int change_with_cuts(struct memory_fs *memory, enum op op, struct contents *now, struct trial *trial,
			    struct outcome *during)
{
	struct point point = { .memory = memory, .outcome = during };
	int error;

	plant(memory, trial);
	memory_fs_at_each_call(memory, cut_power, &point);
	error = change(op, now, memory);
	if (trial->plant == PLANT_LATE_SYNC || trial->plant == PLANT_LATE_RENAME)
		memory_fs_make_late(memory, true, UINT32_MAX);
	memory_fs_at_each_call(memory, NULL, NULL);
	trial->sync_count = memory_fs_syncs(memory);
	trial->was_late = memory_fs_was_late(memory);
	memory_fs_skip_sync(memory, UINT32_MAX);
	return error;
}

/*
 * Make the change `op` to `*memory`, with a power cut before each call and after the last one. Returns NULL if all is
 * right, else a text to free.
 */
static char *try_change(struct memory_fs **memory, enum op op, struct trial *trial)
{
	struct outcome *during = calloc(1, sizeof(*during)), *after_it = calloc(1, sizeof(*after_it));
	struct contents *now = open_tree(*memory), *after;
	char *before, *problem = NULL;
	int error;

	must(during && after_it && now->tree);
	during->cuts_recovery = after_it->cuts_recovery = trial->cuts_recovery;
	during->random = trial->random;
	before = strdup(now->text);
	memory_fs_settle(*memory); /* open may have made the folders */
	error = change_with_cuts(*memory, op, now, trial, during);
	memory_fs_each_crash(*memory, open_crashed, after_it);
	close_tree(now);
	memory_fs_settle(*memory);
	after = open_tree(*memory);
	must(error == 0 || trial->plant != PLANT_NOTHING || strcmp(after->text, before) == 0);
	if (!has_only(during, before, after->text) || !has_only(after_it, NULL, after->text)) {
		struct outcome *wrong = has_only(during, before, after->text) ? after_it : during;

		must(asprintf(&problem, "%s %s: before:\n%safter:\n%sbroken:\n%slast:\n%s",
			      wrong == during ? "during" : "after", op_names[op], before, after->text, wrong->broken_text,
			      wrong->text_count ? wrong->texts[wrong->text_count - 1] : "") > 0);
	}
	close_tree(after);
	if (during->chosen && random_below(trial->random, 4) == 0) {
		memory_fs_destroy(*memory);
		*memory = take_chosen(during);
	}
	free(before);
	free_outcome(during);
	free_outcome(after_it);
	return problem;
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
	close_tree(now);
	memory_fs_settle(memory);
	return memory;
}

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

static void try_sequences(struct memory_fs *from, int depth, uint32_t *changes)
{
	for (enum op op = 0; op < OP_COUNT; op++) {
		struct memory_fs *memory = memory_fs_copy(from);
		struct trial trial = { .plant = PLANT_NOTHING };
		char *problem = try_change(&memory, op, &trial);

		if (problem)
			fail_msg("%s", problem);
		(*changes)++;
		if (depth > 1 && !is_met(memory, depth - 1))
			try_sequences(memory, depth - 1, changes);
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
	uint32_t changes = 0;

	try_sequences(empty, 3, &changes);
	try_sequences(full, 3, &changes);
	print_message("# %u changes, %u states, %u power cuts\n", changes, met_count, cuts);
	assert_true(changes > 100);
	memory_fs_destroy(empty);
	memory_fs_destroy(full);
	free_met();
}

static void test_a_power_cut_during_the_recovery_changes_nothing(void **state)
{
	for (enum op op = 0; op < OP_COUNT; op++) {
		struct memory_fs *memory = prepared(op);
		struct trial trial = { .cuts_recovery = true };
		char *problem = try_change(&memory, op, &trial);

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
	int plant;
	enum op op;
	uint32_t first, last;
} harmless[] = {
	{ PLANT_MISSING_SYNC, SNAPSHOT, 3, 5 },	   { PLANT_MISSING_SYNC, SNAPSHOT_S, 3, 5 },
	{ PLANT_LATE_SYNC, SNAPSHOT, 3, 5 },	   { PLANT_LATE_SYNC, SNAPSHOT_S, 3, 5 },
	{ PLANT_LATE_SYNC, SNAPSHOT_GROUP, 9, 9 }, { PLANT_LATE_RENAME, SNAPSHOT, 0, 0 },
	{ PLANT_LATE_RENAME, SNAPSHOT_S, 0, 0 },   { PLANT_MISSING_SYNC, ALLOCATE, 0, 0 },
	{ PLANT_MISSING_SYNC, UNSHARE, 0, 0 },	   { PLANT_LATE_SYNC, ALLOCATE, 0, 0 },
	{ PLANT_LATE_SYNC, UNSHARE, 0, 0 },
};

static bool is_harmless(int plant, enum op op, uint32_t index)
{
	bool syncs_sums = changes_with_sums &&
			  (op == SNAPSHOT || op == SNAPSHOT_S || op == SNAPSHOT_GROUP || op == ALLOCATE || op == UNSHARE);

	if (syncs_sums && plant != PLANT_LATE_RENAME && index > 0)
		index--; /* the second sync is that of the checksums, and like the first one */
	for (size_t i = 0; i < ARRAY_COUNT(harmless); i++)
		if (harmless[i].plant == plant && harmless[i].op == op && index >= harmless[i].first &&
		    index <= harmless[i].last)
			return true;
	return false;
}

/* Try each change with each bug of this kind: each that does harm is found. Returns their number. */
static uint32_t try_bugs(int kind)
{
	uint32_t found = 0;

	for (enum op op = 0; op < OP_COUNT; op++) {
		struct trial trial = { .plant = kind, .sync_count = 1, .was_late = true };

		for (; kind == PLANT_MISSING_SYNC ? trial.index < trial.sync_count : trial.was_late; trial.index++) {
			struct memory_fs *memory = prepared(op);
			char *problem = try_change(&memory, op, &trial);
			bool is_planted = kind == PLANT_MISSING_SYNC ? trial.sync_count > 0 : trial.was_late;

			if (!problem && is_planted && !is_harmless(kind, op, trial.index))
				fail_msg("%s: bug %d at %u is not found", op_names[op], kind, trial.index);
			found += problem != NULL;
			free(problem);
			memory_fs_destroy(memory);
		}
	}
	return found;
}

/* Without any one of its syncs each change loses data or keeps its promise too late. */
static void test_each_missing_sync_is_found(void **state)
{
	assert_true(try_bugs(PLANT_MISSING_SYNC) > 40);
}

static void test_each_rename_before_a_sync_is_found(void **state)
{
	assert_true(try_bugs(PLANT_LATE_SYNC) > 20);
}

static void test_each_rename_after_its_sync_is_found(void **state)
{
	assert_true(try_bugs(PLANT_LATE_RENAME) > 15);
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

/*
 * Call number `index` of the change fails. Without an error the change is complete; with one it is not there, unless the
 * tree has failed. Returns whether there was such a call.
 */
static bool try_failure(struct memory_fs *memory, enum op op, uint32_t index, const char *complete)
{
	char *before = text_after(memory), *after;
	struct contents *now = open_tree(memory);
	bool has_failed, is_tree_failed;
	int error;

	memory_fs_fail_call(memory, index, -EIO);
	error = change(op, now, memory);
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
	struct memory_fs *full;
	uint32_t changes = 0;

	changes_with_sums = true;
	full = populated();
	try_sequences(full, 2, &changes);
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
			char *problem = try_change(&memory, (enum op)random_below(&random, OP_COUNT), &trial);

			if (problem)
				fail_msg("seed %llu, change %u: %s", (unsigned long long)seed, i, problem);
		}
		memory_fs_destroy(memory);
	}
	print_message("# %u power cuts\n", cuts);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_failing_call_leaves_the_old_state_or_fails_the_tree),
		cmocka_unit_test(test_three_changes_survive_power_cuts),
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
