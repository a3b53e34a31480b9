/* SPDX-License-Identifier: BSD-2-Clause */
/* List volumes, and find pools and volumes by the names of requests. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "control/fault/fault.h"
#include "control/mgmt/storage/storage.h"

/* ---- reading before an answer ---- */

struct waiting_call {
	struct mgmt *mgmt;
	struct grpc_call *call;
	const ProtobufCMessage *request;
	storage_then_fn then;
};

static void read_done(void *ctx)
{
	struct waiting_call waiting = *(struct waiting_call *)ctx;

	free(ctx);
	waiting.then(waiting.mgmt, waiting.call, waiting.request);
}

static void read_closed(void *ctx)
{
	struct waiting_call *waiting = ctx;

	grpc_fail(waiting->call, GRPC_UNAVAILABLE, NULL, "the management service ends; nothing was begun");
	free(waiting);
}

void storage_read_then(struct mgmt *mgmt, struct grpc_call *call, const ProtobufCMessage *request,
		       const struct catalog_place *places, size_t count, storage_then_fn then)
{
	/* half of the call's time is left for what follows, so that its answer arrives although an engine hangs */
	struct storage_reader reader = { .done = read_done,
					 .release = read_closed,
					 .wait_ns = grpc_call_time_left_ns(call) / 2 };
	struct waiting_call *waiting = NULL;
	struct fathom_fault why = { 0 };
	int error = 0;

	if (mgmt->reading_count >= STORAGE_WAITERS_MAX)
		error = mgmt_refuse_full(mgmt, "calls that wait for figures of engines", mgmt->reading_count, &why);
	else if (!(waiting = malloc(sizeof(*waiting))))
		error = -ENOMEM;
	if (!error) {
		*waiting = (struct waiting_call){ mgmt, call, request, then };
		reader.ctx = waiting;
		error = storage_read(mgmt, places, count, &reader);
	}
	if (error) {
		free(waiting);
		mgmt_fail(call, error, &why);
	}
}

/* ---- names ---- */

int storage_find_pool(struct mgmt *mgmt, const char *id, struct catalog_pool **pool_ret, struct fathom_fault *why)
{
	struct catalog_pool *pool = catalog_find_pool(mgmt->catalog, id);
	char shown[CATALOG_FULL_BYTES];

	if (!pool) {
		storage_copy_text(shown, sizeof(shown), id);
		return fault_no_such_pool(why, shown);
	}
	*pool_ret = pool;
	return 0;
}

int storage_find_volume(struct mgmt *mgmt, const char *name, struct catalog_volume **volume_ret, struct fathom_fault *why)
{
	struct catalog_volume *volume = catalog_find_uuid(mgmt->catalog, name);
	struct catalog_full_name full;
	struct catalog_pool *pool;
	uint8_t uuid[MEMBER_UUID_BYTES];
	int error;

	if (!volume && member_uuid_parse(name, uuid) == 0)
		return fault_no_such_volume(why, name);
	if (!volume) {
		error = catalog_split_name(name, false, &full, why);
		if (!error)
			error = storage_find_pool(mgmt, full.pool, &pool, why);
		if (error)
			return error;
		volume = catalog_find_volume(mgmt->catalog, pool, full.volume);
	}
	if (!volume)
		return fault_no_such_volume(why, name);
	*volume_ret = volume;
	return 0;
}

int storage_check_free_name(struct mgmt *mgmt, const struct catalog_pool *pool, const char *name, struct fathom_fault *why)
{
	const struct catalog_volume *volume = catalog_find_volume(mgmt->catalog, pool, name);
	char what[STORAGE_WHAT_BYTES];

	if (volume)
		return fault_volume_differs(why, storage_what(pool, volume, what), "UUID", volume->record.uuid,
					    "another one");
	/* the record counts: a task may be missing, for example when memory was exhausted */
	TAILQ_FOREACH (volume, &pool->volumes, link) {
		if (volume->record.change.kind == CATALOG_RENAME && strcmp(volume->record.change.text, name) == 0)
			return storage_refuse_changing(pool, volume, why);
	}
	return 0;
}

/* ---- listing ---- */

void storage_look_up(struct mgmt *mgmt, const struct catalog_volume *volume, struct storage_known *known_ret)
{
	const struct catalog_volume_record *record = &volume->record;
	const struct mgmt_engine *engine = storage_find_engine(mgmt, &record->place);
	const Store__Pool *errored;

	*known_ret = (struct storage_known){ .address = "" };
	if (!engine)
		return;
	if (engine->why.error)
		known_ret->reason = engine->why.text;
	if (!engine->list)
		return;
	known_ret->address = engine->list->address;
	known_ret->volume = storage_listed_volume(engine, record->uuid);
	if (!known_ret->volume)
		known_ret->volume = storage_listed_errored_volume(engine, volume);
	known_ret->asked_ns = known_ret->volume ? engine->asked_ns : 0;
	known_ret->is_absent = !engine->why.error && storage_lacks_volume(engine, volume);
	errored = known_ret->is_absent ? storage_listed_errored_pool(engine, volume->pool) : NULL;
	known_ret->missing_ns = known_ret->is_absent ? engine->missing.since_ns : 0;
	if (errored)
		known_ret->pool_reason = errored->reason;
}

void storage_reply_volume(struct mgmt *mgmt, struct grpc_call *call, const struct catalog_volume *volume)
{
	Fathom__VolumeResp response = FATHOM__VOLUME_RESP__INIT;
	struct fathom_fault why = { 0 };
	/* The latest LIST may be older than the latest change, so it is not used. */
	const struct storage_known known = { .address = "" };
	struct storage_shown shown;

	if (storage_show(mgmt, volume, &known, &shown) < 0) {
		mgmt_fail(call, -ENOMEM, &why);
	} else {
		response.volume = &shown.message;
		grpc_reply(call, &response.base);
	}
	storage_unshow(&shown);
}

void storage_reply_unpublished(struct mgmt *mgmt, struct grpc_call *call, const struct catalog_volume *volume)
{
	Fathom__VolumeResp response = FATHOM__VOLUME_RESP__INIT;
	Fathom__Volume brief = FATHOM__VOLUME__INIT;
	const struct storage_known known = { .address = "" };
	struct fathom_fault why = { 0 };
	struct storage_shown shown;

	if (storage_show(mgmt, volume, &known, &shown) < 0) {
		mgmt_fail(call, -ENOMEM, &why);
	} else {
		brief.name = shown.message.name;
		brief.uuid = shown.message.uuid;
		brief.state = shown.message.state;
		response.volume = &brief;
		grpc_reply(call, &response.base);
	}
	storage_unshow(&shown);
}

static bool is_selected(const struct catalog_volume *volume, const Fathom__VolumeListReq *asked)
{
	const struct catalog_volume_record *record = &volume->record;

	return !*asked->host || catalog_has_host(record, asked->host) ||
	       (record->change.kind == CATALOG_PUBLISH && strcmp(record->change.text, asked->host) == 0);
}

/* What a request selects: one volume, or those of one pool, or of all pools. */
struct selection {
	struct catalog_volume *volume;
	struct catalog_pool *pool;
};

static int find_selection(struct mgmt *mgmt, const Fathom__VolumeListReq *asked, struct selection *selection,
			  struct fathom_fault *why)
{
	int error = 0;

	*selection = (struct selection){ 0 };
	if (*asked->name)
		error = storage_find_volume(mgmt, asked->name, &selection->volume, why);
	else if (*asked->pool)
		error = storage_find_pool(mgmt, asked->pool, &selection->pool, why);
	return error;
}

/* Call `each` for the selected volumes. */
static void walk_selection(struct mgmt *mgmt, const Fathom__VolumeListReq *asked, const struct selection *selection,
			   void (*each)(void *ctx, struct catalog_volume *volume), void *ctx)
{
	struct catalog_volume *volume;
	struct catalog_pool *pool;

	if (selection->volume) {
		each(ctx, selection->volume);
		return;
	}
	TAILQ_FOREACH (pool, &mgmt->catalog->pools, link) {
		if (selection->pool && pool != selection->pool)
			continue;
		TAILQ_FOREACH (volume, &pool->volumes, link) {
			if (is_selected(volume, asked))
				each(ctx, volume);
		}
	}
}

struct listing {
	struct mgmt *mgmt;
	struct storage_shown *shown;
	Fathom__Volume **places;
	size_t count, room;
	int error;
};

static void count_volume(void *ctx, struct catalog_volume *volume)
{
	((struct listing *)ctx)->room++;
}

static void list_volume(void *ctx, struct catalog_volume *volume)
{
	struct listing *listing = ctx;
	struct storage_known known;

	must(listing->count < listing->room);
	storage_look_up(listing->mgmt, volume, &known);
	if (storage_show(listing->mgmt, volume, &known, &listing->shown[listing->count]) < 0)
		listing->error = -ENOMEM;
	listing->places[listing->count] = &listing->shown[listing->count].message;
	listing->count++;
}

static int compare_names(const void *a, const void *b)
{
	const Fathom__Volume *const *x = a, *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

static void reply_list(struct mgmt *mgmt, struct grpc_call *call, const ProtobufCMessage *request)
{
	const Fathom__VolumeListReq *asked = (const Fathom__VolumeListReq *)request;
	Fathom__VolumeListResp response = FATHOM__VOLUME_LIST_RESP__INIT;
	struct listing listing = { .mgmt = mgmt };
	struct fathom_fault why = { 0 };
	struct selection selection;
	int error = find_selection(mgmt, asked, &selection, &why);

	if (!error) {
		walk_selection(mgmt, asked, &selection, count_volume, &listing);
		listing.shown = calloc(listing.room + 1, sizeof(*listing.shown));
		listing.places = calloc(listing.room + 1, sizeof(*listing.places));
		error = listing.shown && listing.places ? 0 : -ENOMEM;
	}
	if (!error) {
		walk_selection(mgmt, asked, &selection, list_volume, &listing);
		error = listing.error;
	}
	if (error) {
		mgmt_fail(call, error, &why);
	} else {
		qsort(listing.places, listing.count, sizeof(*listing.places), compare_names);
		response.volumes = listing.places;
		response.n_volumes = listing.count;
		grpc_reply(call, &response.base);
	}
	for (size_t i = 0; i < listing.count; i++)
		storage_unshow(&listing.shown[i]);
	free(listing.shown);
	free(listing.places);
}

/* The engines of the selected volumes, each once. */
struct places {
	struct catalog_place *places;
	size_t count, room;
	int error;
};

static int compare_places(const void *a, const void *b)
{
	const struct catalog_place *x = a, *y = b;

	return x->rank != y->rank ? (x->rank < y->rank ? -1 : 1) : memcmp(x->member, y->member, sizeof(x->member));
}

static void drop_repeated(struct places *all)
{
	size_t kept = 0;

	if (all->count == 0)
		return;
	qsort(all->places, all->count, sizeof(*all->places), compare_places);
	for (size_t i = 1; i < all->count; i++) {
		if (compare_places(&all->places[kept], &all->places[i]) != 0)
			all->places[++kept] = all->places[i];
	}
	all->count = kept + 1;
}

static void add_place(void *ctx, struct catalog_volume *volume)
{
	struct places *all = ctx;

	if (all->error)
		return;
	if (all->count == all->room) {
		size_t room;
		struct catalog_place *places;

		drop_repeated(all); /* so that the room grows with the engines, not with the volumes */
		room = max_u64(2 * all->count, 64);
		places = realloc(all->places, room * sizeof(*places));
		if (!places) {
			all->error = -ENOMEM;
			return;
		}
		all->places = places;
		all->room = room;
	}
	all->places[all->count++] = volume->record.place;
}

void mgmt_volume_list(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Fathom__VolumeListReq *asked = (const Fathom__VolumeListReq *)request;
	struct mgmt *mgmt = mgmt_enter(call, asked->sys, true);
	struct fathom_fault why = { 0 };
	struct selection selection;
	struct places all = { 0 };
	int error;

	if (!mgmt)
		return;
	error = find_selection(mgmt, asked, &selection, &why);
	if (!error) {
		walk_selection(mgmt, asked, &selection, add_place, &all);
		error = all.error;
	}
	if (error) {
		mgmt_fail(call, error, &why);
	} else {
		drop_repeated(&all);
		storage_read_then(mgmt, call, request, all.places, all.count, reply_list);
	}
	free(all.places);
}
