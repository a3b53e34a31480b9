/* SPDX-License-Identifier: BSD-2-Clause */
/* Create and destroy pools. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/text.h"
#include "control/fault/fault.h"
#include "control/mgmt/storage/storage.h"

enum { LABEL_PROPERTY = 1, TIERS = 2 };

static const char *label_of(const Mgmt__PoolCreateReq *asked)
{
	for (size_t i = 0; i < asked->n_properties; i++) {
		if (asked->properties[i]->number == LABEL_PROPERTY &&
		    asked->properties[i]->value_case == MGMT__POOL_PROPERTY__VALUE_STRVAL)
			return asked->properties[i]->strval;
	}
	return "";
}

/* The size on each of `count` ranks; 0: no limit. */
static uint64_t rank_bytes_of(const Mgmt__PoolCreateReq *asked, uint32_t count)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < asked->n_tier_bytes; i++)
		bytes += min_u64(asked->tier_bytes[i], CATALOG_BYTES_MAX - bytes);
	if (asked->n_tier_bytes == 0)
		bytes = min_u64(asked->total_bytes / count, CATALOG_BYTES_MAX);
	return bytes;
}

void storage_reply_pool(const struct catalog_pool *pool, struct grpc_call *call)
{
	const struct catalog_pool_record *record = &pool->record;
	Mgmt__PoolCreateResp response = MGMT__POOL_CREATE_RESP__INIT;
	uint32_t *ranks = calloc(record->place_count, sizeof(*ranks));
	uint64_t tiers[TIERS] = { 0, record->rank_bytes }; /* DAOS's: memory, and devices */
	struct fathom_fault why = { 0 };

	if (!ranks) {
		mgmt_fail(call, -ENOMEM, &why);
		return;
	}
	for (uint32_t i = 0; i < record->place_count; i++)
		ranks[i] = record->places[i].rank;
	response.svc_ldr = ranks[0];
	response.svc_reps = ranks;
	response.n_svc_reps = 1;
	response.tgt_ranks = ranks;
	response.n_tgt_ranks = record->place_count;
	response.tier_bytes = tiers;
	response.n_tier_bytes = TIERS;
	response.uuid = (char *)record->uuid;
	grpc_reply(call, &response.base);
	free(ranks);
}

/* ---- a repeated request ---- */

static const char *size_or_none(uint64_t bytes, char text[static 32])
{
	if (!bytes)
		return "no limit";
	snprintf(text, 32, "%" PRIu64, bytes);
	return text;
}

/* With the figures of the request: of all ranks, or as DAOS's of each. */
static int compare_size(const struct catalog_pool *pool, const Mgmt__PoolCreateReq *asked, uint64_t wanted,
			struct fathom_fault *why)
{
	bool is_of_each = asked->n_tier_bytes > 0;
	uint32_t times = is_of_each ? 1 : pool->record.place_count;
	char found[32], given[32];

	if (wanted == pool->record.rank_bytes)
		return 0;
	return fault_pool_differs(why, pool->record.name, is_of_each ? "size per rank in bytes" : "size in bytes",
				  size_or_none(pool->record.rank_bytes * times, found),
				  size_or_none(wanted * times, given));
}

static int compare_ranks(const struct catalog_pool *pool, const Mgmt__PoolCreateReq *asked, struct fathom_fault *why)
{
	uint32_t wanted = asked->n_ranks > 0 ? (uint32_t)asked->n_ranks : asked->num_ranks;
	char found[32], given[32];

	snprintf(found, sizeof(found), "%u", pool->record.place_count);
	snprintf(given, sizeof(given), "%u", wanted);
	if (wanted > 0 && wanted != pool->record.place_count)
		return fault_pool_differs(why, pool->record.name, "number of ranks", found, given);
	for (size_t i = 0; i < asked->n_ranks; i++) {
		snprintf(given, sizeof(given), "%u", asked->ranks[i]);
		if (!catalog_pool_place(pool, asked->ranks[i]))
			return fault_pool_differs(why, pool->record.name, "rank", "others", given);
	}
	return 0;
}

static bool has_entries(const struct acl *acl, const struct acl *other)
{
	char text[ACL_ENTRY_BYTES], other_text[ACL_ENTRY_BYTES];
	uint32_t found = 0;

	for (uint32_t i = 0; i < acl->count; i++) {
		acl_format_entry(&acl->entries[i], text);
		for (uint32_t k = 0; k < other->count; k++)
			found += strcmp(acl_format_entry(&other->entries[k], other_text), text) == 0;
	}
	return found == acl->count && found == other->count;
}

/* Without a key the owner counts, too: two operators may choose one label. */
static int compare_access(const struct catalog_pool *pool, const Mgmt__PoolCreateReq *asked,
			  const struct catalog_pool_record *wanted, struct fathom_fault *why)
{
	const struct catalog_pool_record *record = &pool->record;
	struct acl *acl;
	int error;

	if (strcmp(record->owner, wanted->owner) != 0)
		return fault_pool_differs(why, record->name, "owner", storage_or_none(record->owner),
					  storage_or_none(wanted->owner));
	if (strcmp(record->group, wanted->group) != 0)
		return fault_pool_differs(why, record->name, "group", storage_or_none(record->group),
					  storage_or_none(wanted->group));
	if (asked->n_acl == 0)
		return 0;
	error = acl_create((const char *const *)asked->acl, asked->n_acl, &acl, why);
	if (error)
		return error;
	if (!has_entries(acl, record->acl))
		error = fault_pool_differs(why, record->name, "access control list", "other entries", "these");
	free(acl);
	return error;
}

/* Only the properties that the request names: others may have been set since. */
static int compare_properties(const struct catalog_pool *pool, const Mgmt__PoolCreateReq *asked,
			      const struct catalog_pool_record *wanted, struct fathom_fault *why)
{
	struct storage_difference difference;

	for (size_t i = 0; i < asked->n_properties; i++) {
		if (storage_property_differs(asked->properties[i], &pool->record, wanted, &difference))
			return fault_pool_differs(why, pool->record.name, difference.name,
						  storage_or_none(difference.found), storage_or_none(difference.given));
	}
	return 0;
}

/* What the request would make of the existing pool. */
static int fill_wanted(struct mgmt *mgmt, const struct catalog_pool *pool, const Mgmt__PoolCreateReq *asked,
		       struct catalog_pool_record *wanted, struct fathom_fault *why)
{
	*wanted = pool->record;
	wanted->rank_bytes = rank_bytes_of(asked, pool->record.place_count);
	wanted->overcommit = asked->overcommit;
	storage_copy_text(wanted->owner, sizeof(wanted->owner), asked->user);
	storage_copy_text(wanted->group, sizeof(wanted->group), asked->user_group);
	return storage_new_properties(mgmt, asked, wanted, why);
}

/* The pool that the request may have created before: it has the label or the UUID. */
static int check_existing(struct mgmt *mgmt, const struct catalog_pool *pool, const Mgmt__PoolCreateReq *asked,
			  struct fathom_fault *why)
{
	const char *label = label_of(asked);
	struct catalog_pool_record wanted;
	int error;

	if (strcmp(pool->record.name, label) != 0)
		return fault_pool_differs(why, pool->record.name, "label", pool->record.name, label);
	if (*asked->uuid && strcasecmp(pool->record.uuid, asked->uuid) != 0)
		return fault_pool_label_taken(why, label);
	error = fill_wanted(mgmt, pool, asked, &wanted, why);
	if (!error)
		error = compare_size(pool, asked, wanted.rank_bytes, why);
	if (!error)
		error = compare_ranks(pool, asked, why);
	if (!error && pool->record.overcommit != wanted.overcommit)
		error = fault_pool_differs(why, label, "overcommit", pool->record.overcommit ? "true" : "false",
					   wanted.overcommit ? "true" : "false");
	if (!error)
		error = compare_properties(pool, asked, &wanted, why);
	if (!error && !*asked->uuid)
		error = compare_access(pool, asked, &wanted, why);
	if (!error && pool->state == MGMT_POOL_DESTROYING)
		error = storage_refuse_changing(pool, NULL, why);
	return error;
}

static void answer_existing(struct mgmt *mgmt, struct grpc_call *call, struct catalog_pool *pool,
			    const Mgmt__PoolCreateReq *asked)
{
	struct fathom_fault why = { 0 };
	int error = check_existing(mgmt, pool, asked, &why);

	if (error)
		mgmt_fail(call, error, &why);
	else if (pool->state == MGMT_POOL_READY)
		storage_reply_pool(pool, call);
	else if (pool->task)
		storage_wait(pool->task, call);
	else
		storage_start(mgmt, pool, NULL, call);
}

static struct catalog_pool *find_existing(struct mgmt *mgmt, const Mgmt__PoolCreateReq *asked)
{
	struct catalog_pool *pool = *asked->uuid ? catalog_find_pool(mgmt->catalog, asked->uuid) : NULL;

	return pool ? pool : catalog_find_pool(mgmt->catalog, label_of(asked));
}

/* ---- its ranks ---- */

static int compare_places(const void *a, const void *b)
{
	const struct catalog_place *x = a, *y = b;

	return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static void set_place(struct catalog_place *place, const struct member *member)
{
	place->rank = member->rank;
	memcpy(place->member, member->uuid, sizeof(place->member));
}

/* The ranks that the request names. */
static int take_named(struct mgmt *mgmt, const Mgmt__PoolCreateReq *asked, struct catalog_place *places,
		      uint32_t *count_ret, struct fathom_fault *why)
{
	uint32_t count = 0;

	for (size_t i = 0; i < asked->n_ranks; i++) {
		const struct member *member = system_member_by_rank(mgmt->system, asked->ranks[i]);
		bool is_repeated = false;

		if (!member)
			return fault_no_such_rank(why, asked->ranks[i]);
		if (member->state != MEMBER_JOINED)
			return fault_rank_not_joined(why, member->rank, member_state_wire(member->state));
		for (uint32_t j = 0; j < count; j++)
			is_repeated |= places[j].rank == member->rank;
		if (!is_repeated)
			set_place(&places[count++], member);
	}
	*count_ret = count;
	return 0;
}

static uint32_t take_joined(const struct mgmt *mgmt, struct catalog_place *places)
{
	uint32_t count = 0;

	for (size_t i = 0; i < system_member_count(mgmt->system) && count < CATALOG_PLACES_MAX; i++) {
		const struct member *member = system_member_at(mgmt->system, i);

		if (member->state == MEMBER_JOINED)
			set_place(&places[count++], member);
	}
	return count;
}

/* Choose the pool's ranks. `places_ret` is the caller's to free. */
static int choose_ranks(struct mgmt *mgmt, const Mgmt__PoolCreateReq *asked, struct catalog_place **places_ret,
			uint32_t *count_ret, struct fathom_fault *why)
{
	size_t room = min_u64(max_u64(system_member_count(mgmt->system), asked->n_ranks), CATALOG_PLACES_MAX);
	struct catalog_place *places = calloc(room, sizeof(*places));
	uint32_t count = 0;
	int error = 0;

	if (!places)
		return -ENOMEM;
	if (asked->n_ranks > room)
		error = fault_ranks_too_few(why, (uint32_t)room, (uint32_t)asked->n_ranks);
	else if (asked->n_ranks > 0)
		error = take_named(mgmt, asked, places, &count, why);
	else
		count = take_joined(mgmt, places);
	if (!error)
		qsort(places, count, sizeof(*places), compare_places);
	if (!error && asked->n_ranks == 0)
		error = storage_place_pool(mgmt, label_of(asked), asked->num_ranks, places, &count, why);
	else if (!error && count < max_u64(asked->num_ranks, 1))
		error = fault_ranks_too_few(why, count, (uint32_t)max_u64(asked->num_ranks, 1));
	if (error) {
		free(places);
		return error;
	}
	*places_ret = places;
	*count_ret = count;
	return 0;
}

/* ---- create ---- */

/* The owner of a new pool and its list, which is the default one if the request has none. */
static int fill_access(const Mgmt__PoolCreateReq *asked, struct catalog_pool_record *record, struct fathom_fault *why)
{
	int error = *asked->user ? acl_check_principal(asked->user, why) : 0;

	if (!error && *asked->user_group)
		error = acl_check_principal(asked->user_group, why);
	if (error)
		return error;
	storage_copy_text(record->owner, sizeof(record->owner), asked->user);
	storage_copy_text(record->group, sizeof(record->group), asked->user_group);
	if (asked->n_acl > 0)
		return acl_create((const char *const *)asked->acl, asked->n_acl, &record->acl, why);
	record->acl = acl_default();
	return record->acl ? 0 : -ENOMEM;
}

static void fill_record(const Mgmt__PoolCreateReq *asked, struct catalog_pool_record *record)
{
	uint8_t uuid[MEMBER_UUID_BYTES];

	record->state = MGMT_POOL_CREATING;
	must(text_copy(record->name, sizeof(record->name), label_of(asked)) == 0); /* it was checked */
	if (!*asked->uuid)
		catalog_new_uuid(record->uuid);
	else if (member_uuid_parse(asked->uuid, uuid) == 0)
		member_uuid_format(uuid, record->uuid);
	record->created_ns = record->since_ns = clock_realtime_ns();
	record->rank_bytes = rank_bytes_of(asked, record->place_count);
	record->overcommit = asked->overcommit;
}

static void create_pool(struct mgmt *mgmt, struct grpc_call *call, const ProtobufCMessage *request)
{
	const Mgmt__PoolCreateReq *asked = (const Mgmt__PoolCreateReq *)request;
	struct catalog_pool *pool = find_existing(mgmt, asked);
	struct catalog_pool_record record = { 0 };
	struct fathom_fault why = { 0 };
	int error;

	if (pool) {
		answer_existing(mgmt, call, pool, asked);
		return;
	}
	error = choose_ranks(mgmt, asked, &record.places, &record.place_count, &why);
	if (!error)
		error = storage_check_room(mgmt, record.places, record.place_count, &why);
	if (!error)
		error = fill_access(asked, &record, &why);
	if (!error) {
		fill_record(asked, &record);
		error = storage_new_properties(mgmt, asked, &record, &why);
	}
	if (!error)
		error = catalog_add_pool(mgmt->catalog, &record, &pool, &why);
	if (error) {
		free(record.places);
		free(record.acl);
		mgmt_fail(call, error, &why);
		return;
	}
	storage_start(mgmt, pool, NULL, call);
}

void mgmt_pool_create(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Mgmt__PoolCreateReq *asked = (const Mgmt__PoolCreateReq *)request;
	struct mgmt *mgmt = mgmt_enter(call, asked->sys, true);
	struct fathom_fault why = { 0 };
	struct catalog_place *places;
	uint8_t uuid[MEMBER_UUID_BYTES];
	uint32_t count;
	int error;

	if (!mgmt)
		return;
	error = catalog_check_name("pool", label_of(asked), &why);
	if (!error && *asked->uuid && member_uuid_parse(asked->uuid, uuid) < 0)
		error = fault_storage_name_bad(&why, "UUID of a pool", "", "it is not a UUID");
	if (error) {
		mgmt_fail(call, error, &why);
		return;
	}
	if (find_existing(mgmt, asked) || asked->n_ranks > 0) {
		create_pool(mgmt, call, request);
		return;
	}
	places = calloc(system_member_count(mgmt->system), sizeof(*places));
	if (!places) {
		mgmt_fail(call, -ENOMEM, &why);
		return;
	}
	count = take_joined(mgmt, places);
	storage_read_then(mgmt, call, request, places, count, create_pool);
	free(places);
}

/* ---- destroy ---- */

/* Of an engine's answer about its hosts, which is used to decide. */
#define FIGURES_AGE_NS (10 * NS_PER_SEC)

/* The engines were asked just before. One that did not answer may have hosts that are connected. */
static int check_connected(struct mgmt *mgmt, const struct catalog_pool *pool, struct fathom_fault *why)
{
	const struct catalog_volume *volume;
	struct storage_known known;

	TAILQ_FOREACH (volume, &pool->volumes, link) {
		storage_look_up(mgmt, volume, &known);
		if (volume->record.host_count > 0 && !known.is_absent &&
		    (!known.volume || known.reason || known.asked_ns + FIGURES_AGE_NS < clock_realtime_ns()))
			return fault_storage_unanswered(why, volume->record.place.rank, "tell which hosts are connected",
							known.reason ? known.reason : "it has not answered");
		for (size_t i = 0; known.volume && i < known.volume->n_hosts; i++) {
			const Store__Host *host = known.volume->hosts[i];

			if (host->connections > 0)
				return fault_pool_connected(why, pool->record.name, volume->record.name, host->nqn);
		}
	}
	return 0;
}

static int check_lost(const struct mgmt *mgmt, const struct catalog_pool *pool, struct fathom_fault *why)
{
	char what[STORAGE_WHAT_BYTES];

	for (uint32_t i = 0; i < pool->record.place_count; i++) {
		if (!storage_member(mgmt, &pool->record.places[i]))
			return fault_rank_data_lost(why, storage_what(pool, NULL, what), pool->record.places[i].rank);
	}
	return 0;
}

/* Errors: the pool must not be destroyed now. */
static int check_destroy(struct mgmt *mgmt, const struct catalog_pool *pool, const Mgmt__PoolDestroyReq *asked,
			 struct fathom_fault *why)
{
	int error = 0;

	if (pool->volume_count > 0 && !asked->recursive)
		return fault_pool_has_volumes(why, pool->record.name, pool->volume_count,
					      TAILQ_FIRST(&pool->volumes)->record.name);
	if (!asked->force)
		error = check_lost(mgmt, pool, why);
	if (!error && !pool->task)
		error = storage_check_room(mgmt, pool->record.places, pool->record.place_count, why);
	return error;
}

static int begin_destruction(struct mgmt *mgmt, struct catalog_pool *pool, const Mgmt__PoolDestroyReq *asked,
			     struct fathom_fault *why)
{
	struct catalog_pool_record next = pool->record;
	struct fathom_fault gone = { 0 };
	struct catalog_volume *volume;
	int error;

	next.state = MGMT_POOL_DESTROYING;
	next.is_forced = asked->force || asked->recursive;
	error = catalog_store_pool(mgmt->catalog, pool, &next, why);
	if (error)
		return error;
	fill_fault(&gone, -ECANCELED, "pool \"%s\" is being destroyed", pool->record.name);
	if (pool->task)
		storage_abandon(pool->task, &gone);
	TAILQ_FOREACH (volume, &pool->volumes, link) {
		if (volume->task)
			storage_abandon(volume->task, &gone);
	}
	return 0;
}

/* Whether the pool's destruction has begun, and the request adds nothing to it. */
static bool is_under_way(const struct catalog_pool *pool, const Mgmt__PoolDestroyReq *asked)
{
	return pool->state == MGMT_POOL_DESTROYING && (pool->record.is_forced || !asked->force);
}

static void destroy_pool(struct mgmt *mgmt, struct grpc_call *call, const ProtobufCMessage *request)
{
	const Mgmt__PoolDestroyReq *asked = (const Mgmt__PoolDestroyReq *)request;
	struct fathom_fault why = { 0 };
	struct catalog_pool *pool;
	int error = storage_find_pool(mgmt, asked->id, &pool, &why);

	if (!error && is_under_way(pool, asked) && pool->task) {
		storage_wait(pool->task, call);
		return;
	}
	if (!error && pool->state != MGMT_POOL_DESTROYING)
		error = check_destroy(mgmt, pool, asked, &why);
	if (!error && !asked->force)
		error = check_connected(mgmt, pool, &why);
	if (!error && !is_under_way(pool, asked))
		error = begin_destruction(mgmt, pool, asked, &why);
	if (error)
		mgmt_fail(call, error, &why);
	else
		storage_start(mgmt, pool, NULL, call);
}

void mgmt_pool_destroy(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Mgmt__PoolDestroyReq *asked = (const Mgmt__PoolDestroyReq *)request;
	struct mgmt *mgmt = mgmt_enter(call, asked->sys, true);
	struct fathom_fault why = { 0 };
	struct catalog_pool *pool;
	int error;

	if (!mgmt)
		return;
	error = storage_find_pool(mgmt, asked->id, &pool, &why);
	if (!error && pool->state != MGMT_POOL_DESTROYING)
		error = check_destroy(mgmt, pool, asked, &why);
	if (error)
		mgmt_fail(call, error, &why);
	else if (pool->volume_count == 0 || asked->force || pool->state != MGMT_POOL_READY)
		destroy_pool(mgmt, call, request);
	else
		storage_read_then(mgmt, call, request, pool->record.places, pool->record.place_count, destroy_pool);
}
