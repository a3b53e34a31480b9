/* SPDX-License-Identifier: BSD-2-Clause */
#include "trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXTS_MAX = 32 };

static uint32_t cuts;

uint32_t trial_cuts(void)
{
	return cuts;
}

/* ---- what power cuts leave ---- */

/* The different contents that the tree had after a power cut during one change. */
struct outcome {
	char *texts[TEXTS_MAX];
	uint32_t text_count;
	bool is_broken; /* it did not open, or something was left that belongs to no object */
	char broken_text[TEXT_BYTES + 128];
	bool cuts_recovery, is_recovering; /* the power is cut again during each call of the open that follows */
	bool may_be_damaged;
	struct random *random;	  /* NULL: `chosen` is not wanted */
	struct memory_fs *chosen; /* one of the states, at random */
	uint32_t seen;
};

struct point {
	struct memory_fs *memory;
	struct outcome *outcome;
};

static void cut_power(void *ctx);

static struct outcome *create_outcome(const struct trial *trial)
{
	struct outcome *self = calloc(1, sizeof(*self));

	must(self);
	self->cuts_recovery = trial->cuts_recovery;
	self->may_be_damaged = trial->may_be_damaged;
	return self;
}

static void add_outcome(struct outcome *self, const char *text)
{
	for (uint32_t i = 0; i < self->text_count; i++)
		if (strcmp(self->texts[i], text) == 0)
			return;
	must(self->text_count < TEXTS_MAX);
	self->texts[self->text_count] = strdup(text);
	must(self->texts[self->text_count++]);
}

/* What a damaged object has is not counted. */
static bool is_whole(const struct outcome *self, const struct contents *contents, struct memory_fs *crashed)
{
	if (!contents->tree)
		return false;
	if (contents->damaged_count > 0)
		return self->may_be_damaged;
	return memory_fs_nodes(crashed) == contents->node_count;
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
	if (!is_whole(self, contents, crashed)) {
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

	memory_fs_each_new_crash(self->memory, open_crashed, self->outcome);
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

/* ---- changes ---- */

static void begin_cuts(struct point *point, const struct trial *trial)
{
	struct memory_fs *memory = point->memory;

	memory_fs_skip_sync(memory, trial->plant == PLANT_MISSING_SYNC ? trial->index : UINT32_MAX);
	if (trial->plant == PLANT_LATE_SYNC || trial->plant == PLANT_LATE_RENAME)
		memory_fs_make_late(memory, trial->plant == PLANT_LATE_SYNC, trial->index);
	memory_fs_at_each_call(memory, cut_power, point);
}

static void end_cuts(struct memory_fs *memory, struct trial *trial)
{
	if (trial->plant == PLANT_LATE_SYNC || trial->plant == PLANT_LATE_RENAME)
		memory_fs_make_late(memory, true, UINT32_MAX);
	memory_fs_at_each_call(memory, NULL, NULL);
	trial->sync_count = memory_fs_syncs(memory);
	trial->was_late = memory_fs_was_late(memory);
	memory_fs_skip_sync(memory, UINT32_MAX);
}

/* What the tree would have if it were opened again now. */
static char *text_now(const struct memory_fs *memory)
{
	struct memory_fs *copy = memory_fs_copy(memory);
	struct contents *contents = open_tree(copy);
	char *text = strdup(contents->text);

	must(text);
	close_tree(contents);
	memory_fs_destroy(copy);
	return text;
}

/* Open the tree and make the change, with a power cut before each call. Returns the open tree, or NULL; the text before. */
static struct contents *change_with_cuts(struct memory_fs *memory, const struct trial_change *change, struct trial *trial,
					 struct outcome *during, char **before_ret)
{
	struct point point = { .memory = memory, .outcome = during };
	bool begins_now = trial->is_first || change->is_offline;
	struct contents *now = NULL;

	if (begins_now) {
		*before_ret = text_now(memory);
		memory_fs_settle(memory);
		begin_cuts(&point, trial);
	}
	if (!change->is_offline) {
		now = open_tree(memory);
		must(now->tree);
	}
	trial->error = 0;
	if (!begins_now) {
		memory_fs_settle(memory); /* open may have made the folders */
		if (change->begin)
			trial->error = change->begin(change->ctx, now, memory);
		*before_ret = change->begin ? text_now(memory) : strdup(now->text);
		must(*before_ret);
		begin_cuts(&point, trial);
	}
	if (trial->error == 0)
		trial->error = change->make(change->ctx, now, memory);
	end_cuts(memory, trial);
	return now;
}

char *try_change(struct memory_fs **memory, const struct trial_change *change, struct trial *trial)
{
	struct outcome *during = create_outcome(trial), *after_it = create_outcome(trial);
	struct contents *now, *after;
	char *before = NULL, *problem = NULL;

	during->random = trial->random;
	now = change_with_cuts(*memory, change, trial, during, &before);
	memory_fs_each_crash(*memory, open_crashed, after_it);
	if (now)
		close_tree(now);
	memory_fs_settle(*memory);
	after = open_tree(*memory);
	must(trial->error == 0 || trial->plant != PLANT_NOTHING || strcmp(after->text, before) == 0);
	if (!has_only(during, before, after->text) || !has_only(after_it, NULL, after->text)) {
		struct outcome *wrong = has_only(during, before, after->text) ? after_it : during;

		must(asprintf(&problem, "%s %s: before:\n%safter:\n%sbroken:\n%slast:\n%s",
			      wrong == during ? "during" : "after", change->name, before, after->text, wrong->broken_text,
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

/* ---- bugs ---- */

char *try_bugs(const struct memory_fs *from, const struct trial_change *change, const struct trial *how,
	       bool (*is_harmless)(void *ctx, enum plant plant, uint32_t index), uint32_t *found)
{
	struct trial trial = *how;
	char *missed = NULL;

	trial.sync_count = 1;
	trial.was_late = true;
	while (!missed && (trial.plant == PLANT_MISSING_SYNC ? trial.index < trial.sync_count : trial.was_late)) {
		struct memory_fs *memory = memory_fs_copy(from);
		char *problem = try_change(&memory, change, &trial);
		bool is_planted = trial.plant == PLANT_MISSING_SYNC ? trial.sync_count > 0 : trial.was_late;

		if (!problem && is_planted && !is_harmless(change->ctx, trial.plant, trial.index))
			must(asprintf(&missed, "%s: bug %d at %u is not found", change->name, trial.plant, trial.index) >
			     0);
		*found += problem != NULL;
		free(problem);
		memory_fs_destroy(memory);
		trial.index++;
	}
	return missed;
}
