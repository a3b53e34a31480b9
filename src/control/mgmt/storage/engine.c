/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls to engines about their storage, through the servers of their ranks, and the latest LIST of each engine.
 *
 * At most one LIST of an engine is under way. A reader that arrives meanwhile waits for the next one, because the answer
 * under way may be older than what the reader has changed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/reactor/reactor.h"
#include "base/text.h"
#include "control/fault/fault.h"
#include "control/mgmt/probes.gen.h"
#include "control/mgmt/storage/storage.h"
#include "control/status/status.h"

#define STORAGE_PATH "/fathom.ControlSvc/Storage"

/* ---- calls ---- */

struct storage_call {
	struct mgmt *mgmt;
	uint32_t rank;
	Store__Action action;
	char address[HOST_BYTES_MAX];
	char what[STORAGE_SENTENCE_BYTES];
	storage_done_fn done;
	void *ctx;
};

const struct member *storage_member(const struct mgmt *mgmt, const struct catalog_place *place)
{
	const struct member *member = system_member_by_rank(mgmt->system, place->rank);

	return member && memcmp(member->uuid, place->member, sizeof(place->member)) == 0 ? member : NULL;
}

/* Errors after which the same request may succeed later without a change of the request. */
static bool is_transient(int error)
{
	static const int errors[] = { EAGAIN,	  EINTR,     ENOMEM,	  ETIMEDOUT,	ESHUTDOWN,
				      ENOTCONN,	  ESRCH,     ENXIO,	  ENODEV,	ECANCELED,
				      ECONNRESET, EHOSTDOWN, EINPROGRESS, ECONNREFUSED, EHOSTUNREACH };

	for (size_t i = 0; i < ARRAY_COUNT(errors); i++) {
		if (error == -errors[i])
			return true;
	}
	return false;
}

static void explain_refusal(const struct storage_call *call, int error, const char *text, struct fathom_fault *why)
{
	char reason[FAULT_TEXT_BYTES_MAX / 2];

	must(error < 0);
	text_copy_words(reason, sizeof(reason), *text ? text : strerror(-error));
	if (error == -EBADMSG && call->action == STORE__ACTION__MOVE_STATUS) {
		fill_fault_move_data_damaged(why, call->rank, call->what, reason);
		return;
	}
	switch (-error) {
	case ENOSPC:
		fill_fault_storage_full(why, call->rank, call->what, reason);
		break;
	case EBUSY:
	case ENOTEMPTY:
		fill_fault_storage_in_use(why, call->rank, call->what, reason);
		break;
	case EEXIST:
		fill_fault_storage_exists(why, call->rank, call->what, reason);
		break;
	case EOPNOTSUPP:
		fill_fault_storage_unsupported(why, call->rank, call->what, reason);
		break;
	default:
		fill_fault_storage_refused(why, call->rank, call->what, reason);
	}
}

static void explain_answer(const struct storage_call *call, const Store__StorageResp *response,
			   struct storage_result *result_ret)
{
	if (response->error == 0) {
		result_ret->kind = STORAGE_DONE;
		result_ret->response = response;
		return;
	}
	result_ret->error = response->error < 0 ? response->error : -EPROTO;
	explain_refusal(call, result_ret->error, response->text, &result_ret->why);
	result_ret->kind = is_transient(result_ret->error) ? STORAGE_NO_ANSWER : STORAGE_REFUSED;
}

static void storage_call_done(void *ctx, const struct grpc_result *result)
{
	struct storage_call *call = ctx;
	struct storage_result done = { .kind = STORAGE_NO_ANSWER };

	if (result->code == GRPC_OK) {
		explain_answer(call, (const Store__StorageResp *)result->response, &done);
	} else {
		fault_from_result(result, call->address, &done.why);
		if (done.why.code == FAULT_TIMED_OUT) /* most likely the engine: its server would have been found silent */
			snprintf(done.why.text, sizeof(done.why.text),
				 "its engine, or its server at %s, did not answer in time", call->address);
		if (result->code == GRPC_UNIMPLEMENTED) {
			done.kind = STORAGE_REFUSED;
			done.error = -EOPNOTSUPP;
		}
	}
	must(done.kind == STORAGE_DONE || done.why.error < 0);
	if (done.kind != STORAGE_DONE)
		call->mgmt->stats.storage_failures++;
	probe_mgmt_storage_called(reactor_now(), call->rank, (uint32_t)call->action, done.why.error);
	call->done(call->ctx, &done);
}

int storage_call(struct mgmt *mgmt, const struct catalog_place *place, Store__StorageReq *request, const char *what,
		 storage_done_fn done, void *ctx)
{
	return storage_call_within(mgmt, place, request,
				   &(struct storage_callback){
					   .what = what, .timeout_ns = UINT64_MAX, .done = done, .ctx = ctx });
}

int storage_call_within(struct mgmt *mgmt, const struct catalog_place *place, Store__StorageReq *request,
			const struct storage_callback *callback)
{
	const struct member *member = storage_member(mgmt, place);
	struct storage_call *call = calloc(1, sizeof(*call));
	int error;

	must(member);
	must(callback->done);
	must(callback->timeout_ns > 0);
	if (!call)
		return -ENOMEM;
	*call = (struct storage_call){
		.mgmt = mgmt, .rank = place->rank, .action = request->action, .done = callback->done, .ctx = callback->ctx
	};
	memcpy(call->address, member->address, sizeof(call->address));
	(void)text_copy(call->what, sizeof(call->what), callback->what);
	request->rank = place->rank;
	error = mgmt_call(mgmt,
			  &(struct grpc_request){
				  .address = call->address,
				  .path = STORAGE_PATH,
				  .message = &request->base,
				  .response = &store__storage_resp__descriptor,
				  .timeout_ns = min_u64(callback->timeout_ns, mgmt->storage_timeout_ns),
				  .done = storage_call_done,
				  .ctx = call,
			  },
			  free);
	if (error)
		free(call);
	else
		mgmt->stats.storage_calls++;
	return error;
}

/* ---- what an engine has said ---- */

static void forget_list(struct mgmt_engine *engine)
{
	if (engine->list)
		store__storage_resp__free_unpacked(engine->list, NULL);
	free(engine->volumes);
	engine->list = NULL;
	engine->volumes = NULL;
	engine->volume_count = 0;
	engine->asked_ns = 0;
}

struct mgmt_engine *storage_find_engine(struct mgmt *mgmt, const struct catalog_place *place)
{
	struct mgmt_engine *engine;

	TAILQ_FOREACH (engine, &mgmt->engines, link) {
		if (engine->place.rank != place->rank)
			continue;
		if (memcmp(engine->place.member, place->member, sizeof(place->member)) != 0) {
			forget_list(engine);
			engine->place = *place;
		}
		return engine;
	}
	return NULL;
}

struct mgmt_engine *storage_engine(struct mgmt *mgmt, const struct catalog_place *place)
{
	struct mgmt_engine *engine = storage_find_engine(mgmt, place);

	if (engine)
		return engine;
	engine = calloc(1, sizeof(*engine));
	if (!engine)
		return NULL;
	engine->place = *place;
	TAILQ_INIT(&engine->wishes);
	TAILQ_INSERT_TAIL(&mgmt->engines, engine, link);
	return engine;
}

static int compare_volumes(const void *a, const void *b)
{
	const Store__Volume *const *x = a, *const *y = b;

	return strcmp((*x)->uuid, (*y)->uuid);
}

const Store__Volume *storage_listed_volume(const struct mgmt_engine *engine, const char *uuid)
{
	size_t low = 0, high = engine->volume_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(engine->volumes[middle]->uuid, uuid);

		if (order == 0)
			return engine->volumes[middle];
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

const Store__Pool *storage_listed_pool(const struct mgmt_engine *engine, const char *uuid)
{
	for (size_t i = 0; engine->list && i < engine->list->n_pools; i++) {
		if (strcmp(engine->list->pools[i]->uuid, uuid) == 0)
			return engine->list->pools[i];
	}
	return NULL;
}

/* Keep a copy of the answer. Errors: -ENOMEM: the older answer stays. */
static int keep_list(struct mgmt_engine *engine, const Store__StorageResp *response, uint64_t asked_ns)
{
	size_t bytes = store__storage_resp__get_packed_size(response), count = 0, at = 0;
	uint8_t *packed = malloc(bytes + 1);
	Store__StorageResp *list = NULL;
	const Store__Volume **volumes;

	if (packed) {
		must(store__storage_resp__pack(response, packed) == bytes);
		list = store__storage_resp__unpack(NULL, bytes, packed);
	}
	free(packed);
	for (size_t i = 0; list && i < list->n_pools; i++)
		count += list->pools[i]->n_volumes;
	volumes = list ? calloc(count + 1, sizeof(*volumes)) : NULL;
	if (!volumes) {
		if (list)
			store__storage_resp__free_unpacked(list, NULL);
		return -ENOMEM;
	}
	for (size_t i = 0; i < list->n_pools; i++) {
		for (size_t j = 0; j < list->pools[i]->n_volumes; j++)
			volumes[at++] = list->pools[i]->volumes[j];
	}
	must(at == count);
	qsort(volumes, count, sizeof(*volumes), compare_volumes);
	forget_list(engine);
	engine->list = list;
	engine->volumes = volumes;
	engine->volume_count = count;
	engine->asked_ns = asked_ns;
	return 0;
}

/* A volume has another size if it was restored, and the service ended before it knew. */
static void adopt_sizes(struct mgmt *mgmt, const struct mgmt_engine *engine)
{
	for (size_t i = 0; i < engine->volume_count; i++) {
		struct catalog_volume *volume = catalog_find_uuid(mgmt->catalog, engine->volumes[i]->uuid);

		if (volume && volume->state == MGMT_VOLUME_READY && !volume->task && volume->stored_ns < engine->asked_ns &&
		    memcmp(&volume->record.place, &engine->place, sizeof(engine->place)) == 0)
			storage_adopt_size(mgmt, volume, engine->volumes[i]);
	}
}

/* ---- readers ---- */

/* What a reader waits for: the answer to LIST `wanted` of the engine, or a later one. */
struct storage_wish {
	TAILQ_ENTRY(storage_wish) link;
	struct storage_reading *reading;
	struct mgmt_engine *engine; /* NULL: fulfilled */
	uint64_t wanted;
};

struct storage_reading {
	TAILQ_ENTRY(storage_reading) link;
	struct mgmt *mgmt;
	struct deadline deadline;
	struct storage_reader reader;
	size_t waiting, count;
	struct storage_wish wishes[];
};

static void close_wish(struct storage_wish *wish)
{
	must(wish->engine);
	must(wish->reading->waiting > 0);
	TAILQ_REMOVE(&wish->engine->wishes, wish, link);
	wish->engine = NULL;
	wish->reading->waiting--;
}

/* Drop a reading. Its ctx is the caller's. */
static void drop_reading(struct storage_reading *reading)
{
	for (size_t i = 0; i < reading->count; i++) {
		if (reading->wishes[i].engine)
			close_wish(&reading->wishes[i]);
	}
	must(reading->waiting == 0);
	deadline_clear(&reading->mgmt->deadlines, &reading->deadline);
	TAILQ_REMOVE(&reading->mgmt->readings, reading, link);
	must(reading->mgmt->reading_count > 0);
	reading->mgmt->reading_count--;
	free(reading);
}

static void reading_expired(struct deadline *deadline)
{
	struct storage_reading *reading = container_of(deadline, struct storage_reading, deadline);
	struct storage_reader reader = reading->reader;

	drop_reading(reading);
	reader.done(reader.ctx);
}

/* The ctx of a LIST. */
struct storage_listing {
	struct mgmt *mgmt;
	struct catalog_place place;
	struct mgmt_engine *engine;
	uint64_t asked_ns, incarnation;
};

static void begin_list(struct mgmt *mgmt, struct mgmt_engine *engine);

/* Close the wishes for the latest LIST, which has ended. A reading without wishes ends soon, but not here. */
static void fulfil_wishes(struct mgmt *mgmt, struct mgmt_engine *engine)
{
	struct storage_wish *wish, *next;

	must(!engine->is_asking);
	TAILQ_FOREACH_SAFE (wish, &engine->wishes, link, next) {
		struct storage_reading *reading = wish->reading;

		if (wish->wanted > engine->asked)
			continue;
		close_wish(wish);
		if (reading->waiting == 0)
			deadline_set(&mgmt->deadlines, &reading->deadline, 0, reading_expired);
	}
}

static void list_done(void *ctx, const struct storage_result *result)
{
	struct storage_listing *listing = ctx;
	struct mgmt_engine *engine = listing->engine;
	struct mgmt *mgmt = listing->mgmt;
	bool is_same = memcmp(&engine->place, &listing->place, sizeof(listing->place)) == 0;
	uint64_t asked_ns = listing->asked_ns, incarnation = listing->incarnation;
	int error;

	must(engine->is_asking);
	free(listing);
	engine->listing = NULL;
	engine->is_asking = false;
	engine->why = result->why;
	if (result->kind == STORAGE_DONE && is_same) {
		error = keep_list(engine, result->response, asked_ns);
		if (error) {
			fill_fault(&engine->why, error, "%s", strerror(-error));
		} else {
			adopt_sizes(mgmt, engine);
			storage_compare(mgmt, engine, incarnation);
		}
	}
	fulfil_wishes(mgmt, engine);
	if (!TAILQ_EMPTY(&engine->wishes))
		begin_list(mgmt, engine);
}

static void begin_list(struct mgmt *mgmt, struct mgmt_engine *engine)
{
	const struct member *member = storage_member(mgmt, &engine->place);
	Store__StorageReq request = STORE__STORAGE_REQ__INIT;
	struct storage_listing *listing = calloc(1, sizeof(*listing));
	int error = listing ? 0 : -ENOMEM;

	must(!engine->is_asking);
	engine->asked++;
	request.action = STORE__ACTION__LIST;
	if (listing) {
		*listing = (struct storage_listing){ .mgmt = mgmt,
						     .place = engine->place,
						     .engine = engine,
						     .asked_ns = clock_realtime_ns(),
						     .incarnation = member ? member->incarnation : 0 };
		error = member ? storage_call(mgmt, &engine->place, &request, "list its pools", list_done, listing)
			       : -ENODATA;
	}
	if (error) {
		free(listing);
		fill_fault(&engine->why, error, "%s", strerror(-error));
		fulfil_wishes(mgmt, engine);
		return;
	}
	engine->is_asking = true;
	engine->listing = listing;
	mgmt->stats.storage_lists++;
}

/* Whether the figures of the engine can be asked for now; else `why` of the engine says why not. */
static bool can_ask(struct mgmt *mgmt, struct mgmt_engine *engine)
{
	const struct member *member = storage_member(mgmt, &engine->place);

	if (!member) {
		fill_fault_rank_data_lost(&engine->why, "its storage", engine->place.rank);
		return false;
	}
	if (member->state != MEMBER_JOINED) {
		fill_fault_rank_not_joined(&engine->why, member->rank, member_state_wire(member->state));
		return false;
	}
	return true;
}

void storage_ask(struct mgmt *mgmt, const struct catalog_place *place)
{
	struct mgmt_engine *engine = storage_engine(mgmt, place);

	if (engine && can_ask(mgmt, engine) && !engine->is_asking)
		begin_list(mgmt, engine);
}

int storage_read(struct mgmt *mgmt, const struct catalog_place *places, size_t count, const struct storage_reader *reader)
{
	uint64_t wait_ns = min_u64(reader->wait_ns, mgmt->storage_read_ns);
	struct storage_reading *reading;

	reading = calloc(1, sizeof(*reading) + count * sizeof(reading->wishes[0]));
	if (!reading)
		return -ENOMEM;
	reading->mgmt = mgmt;
	reading->reader = *reader;
	reading->count = count;
	for (size_t i = 0; i < count; i++) {
		struct mgmt_engine *engine = storage_engine(mgmt, &places[i]);
		struct storage_wish *wish = &reading->wishes[i];

		if (!engine || !can_ask(mgmt, engine))
			continue;
		*wish = (struct storage_wish){ .reading = reading, .engine = engine, .wanted = engine->asked + 1 };
		TAILQ_INSERT_TAIL(&engine->wishes, wish, link);
		reading->waiting++;
	}
	TAILQ_INSERT_TAIL(&mgmt->readings, reading, link);
	mgmt->reading_count++;
	/* also if nothing is to be asked: `done` is called later */
	deadline_set(&mgmt->deadlines, &reading->deadline, reading->waiting > 0 ? wait_ns : 0, reading_expired);
	for (size_t i = 0; i < count; i++) {
		struct mgmt_engine *engine = reading->wishes[i].engine;

		if (engine && !engine->is_asking)
			begin_list(mgmt, engine);
	}
	return 0;
}

void storage_engines_close(struct mgmt *mgmt)
{
	struct storage_reading *reading;
	struct mgmt_engine *engine;

	while ((reading = TAILQ_FIRST(&mgmt->readings))) {
		struct storage_reader reader = reading->reader;

		drop_reading(reading);
		reader.release(reader.ctx);
	}
	while ((engine = TAILQ_FIRST(&mgmt->engines))) {
		must(TAILQ_EMPTY(&engine->wishes));
		TAILQ_REMOVE(&mgmt->engines, engine, link);
		forget_list(engine);
		free(engine->listing);
		free(engine);
	}
}
