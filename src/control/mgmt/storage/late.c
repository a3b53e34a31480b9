/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Properties of pools that a rank does not have, because it was down or excluded when they were set. The record of the pool
 * has the values, and says for each share which of them are late. Their engine is called when its rank is back, with one
 * property at a time: one that it refuses does not keep back the others. Those it has not taken are tried again later.
 *
 *     late, the rank is not joined -> it joins -> its engine is called -> it confirms: the record drops the property
 *                                                                      -> it refuses, or gives no answer: the next property
 *                                                                 all were tried: again later
 *
 * The answer to a join has the values, too: its server gives them to the engine before hosts can use the volumes there. The
 * service calls the engine nevertheless, because only that call is confirmed.
 *
 * While the pool gets other values (storage/pool_set.c), no call from here begins. That task waits for those under way, so
 * an engine never has two such calls at a time.
 *
 * A size is forced: volumes that have more than it by now only prevent new ones. The end of overcommit is never forced.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/text.h"
#include "control/fault/fault.h"
#include "control/mgmt/storage/storage.h"

enum {
	LATE_PROPERTIES = 4,
	RETRY_MS = 250,
	RETRY_DOUBLINGS_MAX = 8 /* 64 s */,
	REQUESTS_MAX = 256 /* in the answer to a join */
};

/* The calls of the engine of one share. It may outlive the pool during a call. */
struct storage_late {
	TAILQ_ENTRY(storage_late) link;
	struct mgmt *mgmt;
	char pool_uuid[MEMBER_UUID_TEXT_BYTES];
	uint32_t rank;
	uint32_t calling; /* the property in the call under way, CATALOG_KEPT_SIZE ...; 0: none */
	uint32_t tried;	  /* those that were not taken since the latest pause */
	uint32_t failures;
	uint64_t retry_ns;			       /* CLOCK_MONOTONIC */
	struct catalog_pool_change given;	       /* in the call: the values only */
	char why[LATE_PROPERTIES][CATALOG_TEXT_BYTES]; /* of the latest call with each; "": it has not failed */
};

static const char *const property_names[LATE_PROPERTIES] = { "size", "overcommit", "scrub", "scrub_freq" }; /* by bit */

static void late_due(struct deadline *deadline);

static void run_later(struct mgmt *mgmt, uint64_t after_ns)
{
	deadline_set(&mgmt->deadlines, &mgmt->late_deadline, after_ns, late_due);
}

/* The request that gives an engine one property of the record. Texts are borrowed from the record. */
static void fill_request(const struct catalog_pool_record *record, uint32_t property, Store__StorageReq *request)
{
	must(is_power_of_two(property));
	request->action = STORE__ACTION__POOL_SET;
	request->pool_properties = property;
	request->pool = (char *)record->key;
	request->pool_uuid = (char *)record->uuid;
	request->size_bytes = record->rank_bytes;
	request->overcommit = record->overcommit;
	request->scrub_off = record->scrub_off;
	request->scrub_seconds = record->scrub_seconds;
	request->force = true;
}

/* ---- the state of a share ---- */

/* Its pool and the index of its share there; NULL: nothing is late any more. */
static struct catalog_pool *find_share(const struct storage_late *late, uint32_t *index_ret)
{
	struct catalog_pool *pool = catalog_find_pool(late->mgmt->catalog, late->pool_uuid);
	int index = pool ? catalog_share_index(pool, late->rank) : -1;

	if (index < 0 || !catalog_use(&pool->record, (uint32_t)index).late)
		return NULL;
	*index_ret = (uint32_t)index;
	return pool;
}

static void drop(struct storage_late *late)
{
	struct catalog_pool *pool = catalog_find_pool(late->mgmt->catalog, late->pool_uuid);
	int index = pool ? catalog_share_index(pool, late->rank) : -1;

	must(!late->calling);
	if (index >= 0 && pool->shares[index].late == late)
		pool->shares[index].late = NULL;
	TAILQ_REMOVE(&late->mgmt->lates, late, link);
	free(late);
}

/* NULL: out of memory. */
static struct storage_late *late_of(struct mgmt *mgmt, struct catalog_pool *pool, uint32_t index)
{
	struct storage_late *late = pool->shares[index].late;

	if (late)
		return late;
	late = calloc(1, sizeof(*late));
	if (!late)
		return NULL;
	late->mgmt = mgmt;
	late->rank = pool->record.places[index].rank;
	memcpy(late->pool_uuid, pool->record.uuid, sizeof(late->pool_uuid));
	TAILQ_INSERT_TAIL(&mgmt->lates, late, link);
	pool->shares[index].late = late;
	return late;
}

/* All late properties were tried. */
static void pause_calls(struct storage_late *late)
{
	uint64_t doublings = min_u64(late->failures++, RETRY_DOUBLINGS_MAX);

	late->tried = 0;
	late->retry_ns = clock_monotonic_ns() + ((uint64_t)RETRY_MS << doublings) * NS_PER_MS;
}

/* The properties were not taken, or that could not be stored. */
static void note_failure(struct storage_late *late, uint32_t properties, const struct fathom_fault *why)
{
	must(why->error < 0);
	late->tried |= properties;
	for (size_t i = 0; i < LATE_PROPERTIES; i++) {
		if (properties & (1u << i))
			text_copy_words(late->why[i], sizeof(late->why[i]),
					why->text[0] ? why->text : strerror(-why->error));
	}
}

/* Store that these properties of the share are not late. Errors: -ENOMEM, those of catalog_store_pool(). */
static int store_done(struct mgmt *mgmt, struct catalog_pool *pool, uint32_t index, uint32_t properties,
		      struct fathom_fault *why)
{
	struct catalog_pool_record next = pool->record;
	int error;

	next.uses = catalog_copy_uses(&pool->record);
	if (!next.uses)
		return -ENOMEM;
	next.uses[index].late &= ~properties;
	if (!next.uses[index].late)
		next.uses[index].late_ns = 0;
	error = catalog_store_pool(mgmt->catalog, pool, &next, why);
	if (error)
		free(next.uses);
	return error;
}

/* ---- calls ---- */

/* The engine has taken `property`. Errors: those of store_done(). */
static int settle(struct storage_late *late, struct catalog_pool *pool, uint32_t index, uint32_t property,
		  struct fathom_fault *why)
{
	struct mgmt *mgmt = late->mgmt;
	uint32_t rank = late->rank;
	int error;

	if (storage_set_differences(&pool->record, &late->given) & property)
		return 0; /* the pool got another value during the call: it is called again */
	error = store_done(mgmt, pool, index, property, why);
	if (error)
		return error;
	late->why[__builtin_ctz(property)][0] = '\0';
	if (catalog_use(&pool->record, index).late)
		return 0;
	drop(late);
	mgmt_raise_operation(mgmt, RAS_POOL_CHANGED, "pool set-prop", NULL, "rank %u has the properties of pool \"%s\" now",
			     rank, pool->record.name);
	return 0;
}

static void answered(void *ctx, const struct storage_result *result)
{
	struct storage_late *late = ctx;
	uint32_t property = late->calling, index;
	struct fathom_fault why = result->why;
	struct catalog_pool *pool;
	int error;

	must(property);
	late->calling = 0;
	pool = find_share(late, &index);
	if (!pool) {
		drop(late);
		return;
	}
	run_later(late->mgmt, 0);
	if (result->kind != STORAGE_DONE) {
		note_failure(late, property, &why);
		return;
	}
	error = settle(late, pool, index, property, &why);
	if (error) {
		why.error = error;
		note_failure(late, property, &why);
	}
}

/* The lowest of the properties that have not been tried; 0: all have. */
static uint32_t next_property(uint32_t late, uint32_t tried)
{
	uint32_t left = late & ~tried;

	return left & -left;
}

static void call_engine(struct storage_late *late, struct catalog_pool *pool, uint32_t index, uint32_t property)
{
	Store__StorageReq request = STORE__STORAGE_REQ__INIT;
	struct fathom_fault why = { 0 };
	char what[STORAGE_SENTENCE_BYTES], name[STORAGE_WHAT_BYTES], property_name[STORAGE_LATE_BYTES];

	fill_request(&pool->record, property, &request);
	snprintf(what, sizeof(what), "set %s of %s", storage_late_names(property, property_name),
		 storage_what(pool, NULL, name));
	late->given = storage_set_values(&pool->record);
	why.error = storage_call(late->mgmt, &pool->record.places[index], &request, what, answered, late);
	if (why.error)
		note_failure(late, property, &why);
	else
		late->calling = property;
}

/* The rank has another member: its share is lost, and nothing of it is late. Returns as examine_share(). */
static uint64_t give_up(struct storage_late *late, struct catalog_pool *pool, uint32_t index)
{
	uint32_t properties = catalog_use(&pool->record, index).late;
	struct fathom_fault why = { 0 };

	why.error = store_done(late->mgmt, pool, index, properties, &why);
	if (!why.error) {
		drop(late);
		return UINT64_MAX;
	}
	note_failure(late, properties, &why);
	pause_calls(late);
	return late->retry_ns;
}

/* Call the engine of the share at `index`, if it can be now. Returns when to try again; UINT64_MAX: after an event. */
static uint64_t examine_share(struct mgmt *mgmt, struct catalog_pool *pool, uint32_t index, uint64_t now_ns)
{
	const struct member *member = storage_member(mgmt, &pool->record.places[index]);
	uint32_t properties = catalog_use(&pool->record, index).late, property;
	struct storage_late *late = late_of(mgmt, pool, index);

	if (!late)
		return now_ns + RETRY_MS * NS_PER_MS;
	if (late->calling || (member && member->state != MEMBER_JOINED))
		return UINT64_MAX;
	if (late->retry_ns > now_ns)
		return late->retry_ns;
	if (!member)
		return give_up(late, pool, index);
	while (!late->calling && (property = next_property(properties, late->tried)))
		call_engine(late, pool, index, property);
	if (late->calling)
		return UINT64_MAX;
	pause_calls(late);
	return late->retry_ns;
}

static uint64_t run(struct mgmt *mgmt, uint64_t now_ns)
{
	uint64_t next_ns = UINT64_MAX;
	struct catalog_pool *pool;

	TAILQ_FOREACH (pool, &mgmt->catalog->pools, link) {
		if (pool->state != MGMT_POOL_READY || pool->record.change.is_set)
			continue;
		for (uint32_t i = 0; i < pool->record.place_count; i++) {
			if (catalog_use(&pool->record, i).late)
				next_ns = min_u64(next_ns, examine_share(mgmt, pool, i, now_ns));
		}
	}
	return next_ns;
}

static void late_due(struct deadline *deadline)
{
	struct mgmt *mgmt = container_of(deadline, struct mgmt, late_deadline);
	uint64_t now_ns = clock_monotonic_ns(), next_ns;
	struct storage_late *late, *next;
	uint32_t index;

	TAILQ_FOREACH_SAFE (late, &mgmt->lates, link, next) {
		if (!late->calling && !find_share(late, &index))
			drop(late);
	}
	next_ns = run(mgmt, now_ns);
	if (next_ns != UINT64_MAX)
		run_later(mgmt, next_ns - min_u64(next_ns, now_ns));
}

void storage_late_retry(struct mgmt *mgmt)
{
	struct storage_late *late;

	TAILQ_FOREACH (late, &mgmt->lates, link) {
		late->retry_ns = 0;
		late->tried = 0;
	}
	run_later(mgmt, 0);
}

bool storage_late_is_calling(const struct catalog_pool *pool, uint32_t index)
{
	return pool->shares[index].late && pool->shares[index].late->calling;
}

void storage_late_close(struct mgmt *mgmt)
{
	struct storage_late *late;

	while ((late = TAILQ_FIRST(&mgmt->lates))) {
		TAILQ_REMOVE(&mgmt->lates, late, link);
		free(late);
	}
}

/* ---- joins ---- */

/* What the rank's engine can be given now. */
static uint32_t lacking(const struct mgmt *mgmt, const struct catalog_pool *pool, uint32_t rank)
{
	int index = catalog_share_index(pool, rank);

	if (index < 0 || pool->state != MGMT_POOL_READY || pool->record.change.is_set ||
	    !storage_member(mgmt, &pool->record.places[index]))
		return 0;
	return catalog_use(&pool->record, (uint32_t)index).late;
}

size_t storage_late_requests(const struct mgmt *mgmt, uint32_t rank, Store__StorageReq ***requests_ret)
{
	const struct catalog_pool *pool;
	Store__StorageReq **places, *requests;
	size_t count = 0, filled = 0;
	uint32_t property;

	TAILQ_FOREACH (pool, &mgmt->catalog->pools, link)
		count += (size_t)__builtin_popcount(lacking(mgmt, pool, rank));
	count = min_u64(count, REQUESTS_MAX);
	places = count > 0 ? calloc(count, sizeof(*places) + sizeof(**places)) : NULL;
	if (!places)
		return 0;
	requests = (Store__StorageReq *)(places + count);
	TAILQ_FOREACH (pool, &mgmt->catalog->pools, link) {
		uint32_t late = lacking(mgmt, pool, rank);

		for (; filled < count && (property = next_property(late, 0)); late &= ~property) {
			store__storage_req__init(&requests[filled]);
			requests[filled].rank = rank;
			fill_request(&pool->record, property, &requests[filled]);
			places[filled] = &requests[filled];
			filled++;
		}
	}
	must(filled == count);
	*requests_ret = places;
	return count;
}

/* ---- for people ---- */

const char *storage_late_names(uint32_t late, char *text)
{
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < LATE_PROPERTIES; i++) {
		if (late & (1u << i))
			used += (size_t)snprintf(text + used, STORAGE_LATE_BYTES - used, "%s%s", used ? ", " : "",
						 property_names[i]);
	}
	return text;
}

const char *storage_late_ranks(const struct catalog_pool_record *record, uint32_t mask, char *text, uint32_t *index_ret)
{
	struct rank_set ranks = { 0 };
	int error = 0;

	text[0] = '\0';
	for (uint32_t i = 0; !error && i < record->place_count; i++) {
		if (!(catalog_use(record, i).late & mask))
			continue;
		if (ranks.count == 0)
			*index_ret = i;
		error = rank_set_add(&ranks, record->places[i].rank);
	}
	if (ranks.count > 0)
		mgmt_ranks_text(&ranks, text);
	rank_set_deinit(&ranks);
	return text;
}

/* Why the properties at the bits of `mask` are late, if it is one reason for all; else NULL. "": it is not known. */
static const char *common_reason(const struct storage_late *late, uint32_t mask)
{
	const char *found = NULL;

	for (size_t i = 0; i < LATE_PROPERTIES; i++) {
		if (!(mask & (1u << i)))
			continue;
		if (found && strcmp(found, late->why[i]) != 0)
			return NULL;
		found = late->why[i];
	}
	return found ? found : "";
}

void storage_late_explain(const struct mgmt *mgmt, const struct catalog_pool *pool, uint32_t index, uint32_t mask,
			  char *text)
{
	const struct member *member = storage_member(mgmt, &pool->record.places[index]);
	const struct storage_late *late = pool->shares[index].late;
	uint32_t rank = pool->record.places[index].rank, properties = catalog_use(&pool->record, index).late & mask;
	char silent[64], all[LATE_PROPERTIES * (CATALOG_TEXT_BYTES + 16)];
	const char *common = late ? common_reason(late, properties) : "";
	size_t used = 0;

	snprintf(silent, sizeof(silent), "rank %u has not answered yet", rank);
	if (member && member->state != MEMBER_JOINED) {
		snprintf(text, STORAGE_INFO_BYTES, "rank %u is %s", rank, member_state_wire(member->state));
		return;
	}
	if (common) {
		snprintf(text, STORAGE_INFO_BYTES, "%s", common[0] ? common : silent);
		return;
	}
	for (size_t i = 0; i < LATE_PROPERTIES; i++) {
		if (properties & (1u << i))
			used += (size_t)snprintf(all + used, sizeof(all) - used, "%s%s: %s", used ? "; " : "",
						 property_names[i], late->why[i][0] ? late->why[i] : silent);
	}
	must(used < sizeof(all));
	storage_copy_text(text, STORAGE_INFO_BYTES, all);
}

uint64_t storage_late_pending(const struct catalog_volume *volume, char *pending)
{
	int index = catalog_share_index(volume->pool, volume->record.place.rank);
	char names[STORAGE_LATE_BYTES];
	struct catalog_use use;

	if (index < 0 || volume->state != MGMT_VOLUME_READY)
		return 0;
	use = catalog_use(&volume->pool->record, (uint32_t)index);
	if (use.late)
		snprintf(pending, STORAGE_CHANGE_BYTES, "set %s of the pool on rank %u",
			 storage_late_names(use.late, names), volume->record.place.rank);
	return use.late_ns;
}
