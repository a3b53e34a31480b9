/* SPDX-License-Identifier: BSD-2-Clause */
/* report - `verify` prints the findings; `repair` shows what it would do, asks, does it, and prints what is left. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "cmd/fathom/ddb/ddb.h"
#include "cmd/options/options.h"

enum { PATH_TEXT_BYTES = 1200 };

static size_t count_kind(const struct store *store, enum store_kind kind)
{
	size_t count = 0;

	for (size_t i = 0; i < store->object_count; i++)
		count += store->objects[i].kind == kind;
	return count;
}

static json_t *json_of_finding(const struct store_finding *finding)
{
	const char *repair = store_problem_repair(finding->problem);

	return json_pack("{s:s, s:b, s:o, s:s, s:s?}", "problem", store_problem_name(finding->problem), "note",
			 store_problem_is_note(finding->problem), "path", ddb_json_text(finding->path), "text",
			 finding->text, "repair", repair);
}

static json_t *json_of_findings(const struct store *store)
{
	json_t *array = json_array();

	for (size_t i = 0; i < store->finding_count; i++)
		json_array_append_new(array, json_of_finding(&store->findings[i]));
	return array;
}

static json_t *json_of_report(const struct store *store)
{
	const struct store_space *space = &store->space;

	return json_pack("{s:o, s:b, s:b, s:I, s:I, s:I, s:{s:I, s:I, s:I, s:I, s:I}, s:o}", "storage",
			 ddb_json_text(store->root_path), "healthy", store_count(store, false) == 0, "in_use",
			 store->is_in_use, "pools", (json_int_t)count_kind(store, STORE_POOL), "volumes",
			 (json_int_t)count_kind(store, STORE_VOLUME), "snapshots",
			 (json_int_t)count_kind(store, STORE_SNAPSHOT), "space", "total_bytes",
			 (json_int_t)space->total_bytes, "free_bytes", (json_int_t)space->free_bytes, "kept_bytes",
			 (json_int_t)space->kept_bytes, "promised_bytes", (json_int_t)space->promised_bytes,
			 "allocated_bytes", (json_int_t)space->allocated_bytes, "findings", json_of_findings(store));
}

static void print_finding(const struct store_finding *finding)
{
	const char *repair = store_problem_repair(finding->problem);
	char path[PATH_TEXT_BYTES];

	text_copy_words(path, sizeof(path), finding->path);
	printf("%s %s: %s\n    %s\n", store_problem_is_note(finding->problem) ? "note  " : "DAMAGE",
	       store_problem_name(finding->problem), path, finding->text);
	if (repair)
		printf("    repair: %s\n", repair);
}

static void print_report(const struct store *store)
{
	const struct store_space *space = &store->space;

	for (size_t i = 0; i < store->finding_count; i++)
		print_finding(&store->findings[i]);
	printf("pools: %zu, volumes: %zu, snapshots: %zu\n", count_kind(store, STORE_POOL), count_kind(store, STORE_VOLUME),
	       count_kind(store, STORE_SNAPSHOT));
	printf("bytes allocated: %" PRIu64 ", promised beyond them: %" PRIu64 ", free: %" PRIu64 " of %" PRIu64 "\n",
	       space->allocated_bytes, space->promised_bytes, space->free_bytes, space->total_bytes);
	printf("damage: %zu, notes: %zu (the next start of an engine completes what is noted)\n", store_count(store, false),
	       store_count(store, true));
}

static int report(const struct ddb *ddb)
{
	const struct store *store = ddb->store;

	if (ddb->options.json)
		(void)ddb_print_json(json_of_report(store));
	else
		print_report(store);
	for (size_t i = 0; i < store->finding_count; i++) {
		if (store->findings[i].problem == STORE_UNREADABLE)
			return EXIT_USAGE;
	}
	return store_count(store, false) ? DDB_FOUND : EXIT_SUCCESS;
}

int ddb_verify(struct ddb *ddb, char **words)
{
	store_read(ddb->store);
	return report(ddb);
}

/* ---- data ---- */

enum { RANGES_SHOWN = 64 };

/* One object that is verified. */
struct verified {
	const struct ddb *ddb;
	const struct store_object *object;
	json_t *ranges;
	size_t range_count;
};

static void show_mismatch(void *ctx, uint64_t first_block, uint64_t block_count)
{
	struct verified *self = ctx;

	if (self->range_count++ >= RANGES_SHOWN)
		return;
	if (self->ddb->options.json)
		must(json_array_append_new(self->ranges, json_pack("{s:I, s:I}", "block", (json_int_t)first_block, "blocks",
								   (json_int_t)block_count)) == 0);
	else
		printf("DAMAGE data-mismatch: %s: block %" PRIu64 ", blocks: %" PRIu64 "\n", self->object->name,
		       first_block, block_count);
}

/* Returns an exit status. `list`: of JSON. */
static int verify_object(const struct ddb *ddb, const struct store_object *object, json_t *list)
{
	struct verified self = { .ddb = ddb, .object = object, .ranges = json_array() };
	struct store_sums sums;
	struct fathom_fault why;

	must(self.ranges);
	if (store_verify_data(ddb->store, object, show_mismatch, &self, &sums, &why) != 0) {
		json_decref(self.ranges);
		return ddb_fail(ddb, &why);
	}
	if (!ddb->options.json) {
		if (self.range_count > RANGES_SHOWN)
			printf("    and %zu ranges more\n", self.range_count - RANGES_SHOWN);
		printf("%s: blocks compared: %" PRIu64 ", not matching: %" PRIu64 ", not compared: %" PRIu64 "\n",
		       object->name, sums.blocks, sums.mismatches, sums.suspect_blocks);
	}
	must(json_array_append_new(list, json_pack("{s:o, s:I, s:I, s:I, s:o}", "name", ddb_json_text(object->name),
						   "blocks", (json_int_t)sums.blocks, "mismatches",
						   (json_int_t)sums.mismatches, "suspect_blocks",
						   (json_int_t)sums.suspect_blocks, "ranges", self.ranges)) == 0);
	return sums.mismatches > 0 ? DDB_FOUND : EXIT_SUCCESS;
}

/* `outer` is the object or holds it; NULL: everything does. */
static bool is_within(const struct store_object *object, const struct store_object *outer)
{
	size_t bytes = outer ? strlen(outer->name) : 0;

	return !outer || (strncmp(object->name, outer->name, bytes) == 0 &&
			  (object->name[bytes] == '\0' || object->name[bytes] == '/'));
}

int ddb_verify_data(struct ddb *ddb, char **words)
{
	const struct store *store = ddb->store;
	const struct store_object *outer = NULL;
	int status = EXIT_SUCCESS;
	struct fathom_fault why;
	json_t *list;

	store_read(ddb->store);
	if (words[0]) {
		int index = store_find(store, words[0], &why);

		if (index < 0)
			return ddb_fail(ddb, &why);
		outer = &store->objects[index];
	}
	list = json_array();
	must(list);
	for (size_t i = 0; i < store->object_count; i++) {
		if (store_has_sums(&store->objects[i]) && is_within(&store->objects[i], outer)) {
			int result = verify_object(ddb, &store->objects[i], list);

			status = result > status ? result : status;
		}
	}
	if (!ddb->options.json && json_array_size(list) == 0 && status == EXIT_SUCCESS)
		printf("nothing has checksums\n");
	if (ddb->options.json)
		(void)ddb_print_json(json_pack("{s:o, s:O}", "storage", ddb_json_text(store->root_path), "objects", list));
	json_decref(list);
	return status;
}

/* ---- repair ---- */

/* Print what would be done. Returns the number of repairs. */
static size_t print_plan(const struct ddb *ddb)
{
	const struct store *store = ddb->store;
	size_t count = 0;

	for (size_t i = 0; i < store->finding_count; i++) {
		if (!store_problem_repair(store->findings[i].problem))
			continue;
		count++;
		if (!ddb->options.json)
			print_finding(&store->findings[i]);
	}
	return count;
}

/* Make all repairs. Returns the number of those that failed. */
static size_t make_repairs(struct ddb *ddb)
{
	struct store *store = ddb->store;
	struct fathom_fault why;
	size_t failed = 0;

	for (size_t i = 0; i < store->finding_count; i++) {
		if (!store_problem_repair(store->findings[i].problem) ||
		    store_repair(store, &store->findings[i], &why) == 0)
			continue;
		failed++;
		(void)ddb_fail(ddb, &why);
	}
	return failed;
}

int ddb_repair(struct ddb *ddb, char **words)
{
	size_t count;

	store_read(ddb->store);
	count = print_plan(ddb);
	if (count == 0)
		return report(ddb);
	if (!ddb->store->is_writable) {
		if (ddb->options.json)
			(void)report(ddb);
		fflush(stdout);
		fprintf(stderr, "fathom ddb: nothing was changed: these %zu repairs need --write\n", count);
		return DDB_FOUND;
	}
	if (!ddb_confirm(ddb, "Make these repairs?"))
		return DDB_FOUND;
	if (make_repairs(ddb) > 0)
		return EXIT_USAGE;
	store_read(ddb->store);
	return report(ddb);
}
