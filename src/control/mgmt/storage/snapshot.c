/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Snapshots: create, destroy, restore, compare. The engine's storage is the truth for them; the catalog has no records. So
 * there is no intent to store: the request is sent again until the engine answers, or until the call must be answered.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/reactor/reactor.h"
#include "base/text.h"
#include "control/fault/fault.h"
#include "control/mgmt/storage/storage.h"

enum { MEMBERS_MAX = 64, PAUSE_MS = 250, PAUSE_DOUBLINGS_MAX = 5 };

/* One volume's snapshot in a request. */
struct snapshot_member {
	struct catalog_full_name name;
	char pool[CATALOG_NAME_BYTES];					   /* its name on engines */
	char volume[MEMBER_UUID_TEXT_BYTES], uuid[MEMBER_UUID_TEXT_BYTES]; /* of the volume; of the new snapshot */
};

/* A request under way. */
struct mgmt_snapshot {
	TAILQ_ENTRY(mgmt_snapshot) link;
	struct mgmt *mgmt;
	struct grpc_call *call;
	Store__Action action;
	struct catalog_place place;
	bool is_forced;
	char from[CATALOG_NAME_BYTES]; /* SNAPSHOT_CHANGES: the older snapshot */
	uint64_t offset;
	uint32_t ranges_max;
	uint32_t failures;
	uint64_t until;	   /* tick: then the call is answered */
	uint64_t asked_ns; /* when the engine was called; CLOCK_REALTIME */
	struct deadline deadline;
	size_t count;
	struct snapshot_member members[];
};

static void free_snapshot(struct mgmt_snapshot *snapshot)
{
	struct mgmt *mgmt = snapshot->mgmt;

	deadline_clear(&mgmt->deadlines, &snapshot->deadline);
	TAILQ_REMOVE(&mgmt->snapshots, snapshot, link);
	must(mgmt->snapshot_count > 0);
	mgmt->snapshot_count--;
	free(snapshot);
}

static void fail_snapshot(struct mgmt_snapshot *snapshot, int error, struct fathom_fault *why)
{
	struct grpc_call *call = snapshot->call;

	free_snapshot(snapshot);
	mgmt_fail(call, error, why);
}

/* ---- the answer ---- */

static const Store__Volume *find_volume(const Store__StorageResp *response, const char *uuid)
{
	for (size_t i = 0; i < response->n_pools; i++) {
		for (size_t j = 0; j < response->pools[i]->n_volumes; j++) {
			if (strcmp(response->pools[i]->volumes[j]->uuid, uuid) == 0)
				return response->pools[i]->volumes[j];
		}
	}
	return NULL;
}

void storage_adopt_size(struct mgmt *mgmt, struct catalog_volume *volume, const Store__Volume *known)
{
	struct catalog_volume_record next = volume->record;
	struct fathom_fault why = { 0 };
	int error;

	if (next.change.kind != CATALOG_NO_CHANGE || known->size_bytes == next.size_bytes || known->size_bytes == 0 ||
	    known->size_bytes > CATALOG_BYTES_MAX)
		return;
	next.size_bytes = known->size_bytes;
	error = catalog_store_volume(mgmt->catalog, volume, &next, &why);
	if (error)
		log_warning("the size of volume \"%s/%s\" cannot be stored, and is read again later: %s",
			    volume->pool->record.name, next.name, why.error ? why.text : strerror(-error));
}

static void reply_snapshot(struct mgmt_snapshot *snapshot, const Store__StorageResp *answer)
{
	Fathom__SnapshotResp response = FATHOM__SNAPSHOT_RESP__INIT;
	struct storage_shown *shown = calloc(snapshot->count, sizeof(*shown));
	Fathom__Volume **places = calloc(snapshot->count, sizeof(*places));
	struct grpc_call *call = snapshot->call;
	int error = shown && places ? 0 : -ENOMEM;
	struct fathom_fault why = { 0 };
	size_t count = 0;

	for (size_t i = 0; !error && i < snapshot->count; i++) {
		struct catalog_volume *volume = catalog_find_uuid(snapshot->mgmt->catalog, snapshot->members[i].volume);
		const struct storage_known known = {
			.volume = find_volume(answer, snapshot->members[i].volume),
			.asked_ns = snapshot->asked_ns,
			.address = answer->address,
		};

		if (!volume)
			continue; /* destroyed meanwhile */
		if (snapshot->action == STORE__ACTION__SNAPSHOT_RESTORE && known.volume)
			storage_adopt_size(snapshot->mgmt, volume, known.volume);
		error = storage_show(snapshot->mgmt, volume, &known, &shown[count]);
		places[count] = &shown[count].message;
		count++;
	}
	response.volumes = places;
	response.n_volumes = count;
	if (error)
		mgmt_fail(call, error, &why);
	else
		grpc_reply(call, &response.base);
	for (size_t i = 0; i < count; i++)
		storage_unshow(&shown[i]);
	free(shown);
	free(places);
	free_snapshot(snapshot);
}

/* The list of changes. Its parts are the engine's. */
static void reply_changes(struct mgmt_snapshot *snapshot, const Store__Changes *changes)
{
	static const Store__Changes none = STORE__CHANGES__INIT;
	Fathom__SnapshotChangesResp response = FATHOM__SNAPSHOT_CHANGES_RESP__INIT;
	size_t count;
	Fathom__SnapshotChangesResp__Range *ranges, **places;
	struct fathom_fault why = { 0 };

	if (!changes) /* an engine that does not keep to the protocol: its list is empty, and has a size of 0 */
		changes = &none;
	count = min_u64(changes->n_offsets, min_u64(changes->n_bytes, changes->n_zeroes));
	ranges = calloc(count + 1, sizeof(*ranges));
	places = calloc(count + 1, sizeof(*places));
	for (size_t i = 0; ranges && places && i < count; i++) {
		fathom__snapshot_changes_resp__range__init(&ranges[i]);
		ranges[i].offset = changes->offsets[i];
		ranges[i].bytes = changes->bytes[i];
		ranges[i].zero = changes->zeroes[i];
		places[i] = &ranges[i];
	}
	response.ranges = places;
	response.n_ranges = count;
	response.next_offset = changes->next_offset;
	response.uuid = changes->uuid;
	response.from_uuid = changes->from_uuid;
	response.size_bytes = changes->size_bytes;
	response.from_bytes = changes->from_bytes;
	response.block_bytes = changes->block_bytes;
	response.volume_uuid = snapshot->members[0].volume;
	if (ranges && places)
		grpc_reply(snapshot->call, &response.base);
	else
		mgmt_fail(snapshot->call, -ENOMEM, &why);
	free(ranges);
	free(places);
	free_snapshot(snapshot);
}

/* ---- calling ---- */

static const char *verb_of(Store__Action action)
{
	if (action == STORE__ACTION__SNAPSHOT_CREATE)
		return "create";
	if (action == STORE__ACTION__SNAPSHOT_CHANGES)
		return "read the changes of";
	return action == STORE__ACTION__SNAPSHOT_DESTROY ? "destroy" : "restore";
}

static void write_sentence(const struct mgmt_snapshot *snapshot, char *sentence)
{
	const struct catalog_full_name *name = &snapshot->members[0].name;

	snprintf(sentence, STORAGE_SENTENCE_BYTES, "%s %s \"%s/%s%s%s\"%s", verb_of(snapshot->action),
		 name->snapshot[0] ? "snapshot" : "volume", name->pool, name->volume, name->snapshot[0] ? "@" : "",
		 name->snapshot, snapshot->count > 1 ? " and others" : "");
}

static void call_engine(struct mgmt_snapshot *snapshot);

/* Whether all volumes of the request are where the engine was called; else it says that there is no such snapshot. */
static bool is_in_place(const struct mgmt_snapshot *snapshot)
{
	for (size_t i = 0; i < snapshot->count; i++) {
		const struct catalog_volume *volume = catalog_find_uuid(snapshot->mgmt->catalog,
									snapshot->members[i].volume);

		if (!volume || volume->record.change.kind == CATALOG_MOVE ||
		    memcmp(&volume->record.place, &snapshot->place, sizeof(snapshot->place)) != 0)
			return false;
	}
	return true;
}

static void fail_unanswered(struct mgmt_snapshot *snapshot, const char *reason)
{
	char sentence[STORAGE_SENTENCE_BYTES], words[FAULT_TEXT_BYTES_MAX / 2];
	struct fathom_fault why = { 0 };

	write_sentence(snapshot, sentence);
	text_copy_words(words, sizeof(words), reason);
	fail_snapshot(snapshot, fault_storage_unanswered(&why, snapshot->place.rank, sentence, words), &why);
}

static void call_again(struct deadline *deadline)
{
	struct mgmt_snapshot *snapshot = container_of(deadline, struct mgmt_snapshot, deadline);

	if (is_in_place(snapshot))
		call_engine(snapshot);
	else
		fail_unanswered(snapshot, "the volume was moved or destroyed meanwhile");
}

/*
 * The engine gave no answer: call again, unless the call must be answered before. A restore is not repeated: if the first
 * has succeeded, hosts may have written since, and a second would discard that.
 */
static void retry(struct mgmt_snapshot *snapshot, const struct fathom_fault *reason)
{
	uint64_t pause_ns = (PAUSE_MS << min_u64(snapshot->failures++, PAUSE_DOUBLINGS_MAX)) * NS_PER_MS;

	if (snapshot->action == STORE__ACTION__SNAPSHOT_RESTORE)
		snapshot->until = 0;
	if (snapshot->failures == 1)
		snapshot->until = min_u64(snapshot->until,
					  reactor_now() + clock_ticks_from_ns(snapshot->mgmt->storage_patience_ns));
	if (reactor_now() + clock_ticks_from_ns(pause_ns) < snapshot->until) {
		deadline_set(&snapshot->mgmt->deadlines, &snapshot->deadline, pause_ns, call_again);
		return;
	}
	fail_unanswered(snapshot, reason->text);
}

static void snapshot_done(void *ctx, const struct storage_result *result)
{
	struct mgmt_snapshot *snapshot = ctx;
	struct fathom_fault why = result->why;

	switch (result->kind) {
	case STORAGE_DONE:
		if (snapshot->action == STORE__ACTION__SNAPSHOT_CHANGES)
			reply_changes(snapshot, result->response->changes);
		else
			reply_snapshot(snapshot, result->response);
		break;
	case STORAGE_REFUSED:
		if (snapshot->action != STORE__ACTION__SNAPSHOT_CHANGES)
			mgmt_raise_operation(snapshot->mgmt, RAS_STORAGE_CHANGE_FAILED, "storage change", NULL, "%.400s",
					     why.text);
		fail_snapshot(snapshot, why.error, &why);
		break;
	case STORAGE_NO_ANSWER:
		retry(snapshot, &why);
		break;
	}
}

/* Until the call must be answered: an engine that hangs is then named as the reason. */
static uint64_t time_left_ns(const struct mgmt_snapshot *snapshot)
{
	uint64_t now = reactor_now();

	return snapshot->until > now ? max_u64(clock_ns_from_ticks(snapshot->until - now), 1) : 1;
}

static int send_request(struct mgmt_snapshot *snapshot)
{
	const struct snapshot_member *first = &snapshot->members[0];
	Store__StorageReq request = STORE__STORAGE_REQ__INIT;
	Store__SnapshotMember members[MEMBERS_MAX], *places[MEMBERS_MAX];
	char sentence[STORAGE_SENTENCE_BYTES];
	struct storage_callback callback = {
		.what = sentence, .timeout_ns = time_left_ns(snapshot), .done = snapshot_done, .ctx = snapshot
	};

	request.action = snapshot->action;
	request.force = snapshot->is_forced;
	for (size_t i = 0; i < snapshot->count && snapshot->action == STORE__ACTION__SNAPSHOT_CREATE; i++) {
		store__snapshot_member__init(&members[i]);
		members[i].pool = (char *)snapshot->members[i].pool;
		members[i].volume = (char *)snapshot->members[i].name.volume;
		members[i].snapshot = (char *)snapshot->members[i].name.snapshot;
		members[i].uuid = (char *)snapshot->members[i].uuid;
		members[i].volume_uuid = (char *)snapshot->members[i].volume;
		places[request.n_members++] = &members[i];
	}
	request.members = places;
	if (request.n_members == 0) {
		request.pool = (char *)first->pool;
		request.volume = (char *)first->name.volume;
		request.volume_uuid = (char *)first->volume;
		request.snapshot = (char *)first->name.snapshot;
		request.from_snapshot = snapshot->from;
		request.offset = snapshot->offset;
		request.ranges_max = snapshot->ranges_max;
	}
	write_sentence(snapshot, sentence);
	snapshot->asked_ns = clock_realtime_ns();
	return storage_call_within(snapshot->mgmt, &snapshot->place, &request, &callback);
}

static void call_engine(struct mgmt_snapshot *snapshot)
{
	char sentence[STORAGE_SENTENCE_BYTES];
	struct fathom_fault why = { 0 };
	int error;

	if (!storage_member(snapshot->mgmt, &snapshot->place)) {
		write_sentence(snapshot, sentence);
		fail_snapshot(snapshot, fault_rank_data_lost(&why, sentence, snapshot->place.rank), &why);
		return;
	}
	error = send_request(snapshot);
	if (!error)
		return;
	fill_fault(&why, error, "%s", strerror(-error));
	retry(snapshot, &why);
}

/* ---- requests ---- */

/* The UUID of the new snapshot at `place` of a request with the key `key`. */
static void make_uuid(const uint8_t key[MEMBER_UUID_BYTES], size_t place, char *uuid)
{
	uint8_t bytes[MEMBER_UUID_BYTES];

	static_assert(MEMBERS_MAX <= 256, "the place is in the last byte");
	memcpy(bytes, key, sizeof(bytes));
	bytes[sizeof(bytes) - 1] ^= (uint8_t)place;
	member_uuid_format(bytes, uuid);
}

/* Find the volume of a snapshot, which must be on the same rank as the others. */
static int add_member(struct mgmt_snapshot *snapshot, const char *text, const uint8_t key[MEMBER_UUID_BYTES],
		      struct fathom_fault *why)
{
	struct snapshot_member *member = &snapshot->members[snapshot->count];
	char name[CATALOG_FULL_BYTES], what[STORAGE_WHAT_BYTES];
	struct catalog_volume *volume;
	/* the changes up to now are those of a volume */
	bool has_snapshot = snapshot->action != STORE__ACTION__SNAPSHOT_CHANGES || strchr(text, '@');
	int error = catalog_split_name(text, has_snapshot, &member->name, why);

	if (error)
		return error;
	snprintf(name, sizeof(name), "%s/%s", member->name.pool, member->name.volume);
	error = storage_find_volume(snapshot->mgmt, name, &volume, why);
	if (error)
		return error;
	storage_what(volume->pool, volume, what);
	if (volume->state != MGMT_VOLUME_READY || volume->record.change.kind == CATALOG_MOVE)
		return storage_refuse_changing(volume->pool, volume, why);
	if (!storage_member(snapshot->mgmt, &volume->record.place))
		return fault_rank_data_lost(why, what, volume->record.place.rank);
	if (snapshot->count > 0 && volume->record.place.rank != snapshot->place.rank)
		return fault_snapshots_apart(why, what, volume->record.place.rank, snapshot->place.rank);
	/* the name of the pool may be its UUID */
	memcpy(member->name.pool, volume->pool->record.name, sizeof(member->name.pool));
	memcpy(member->pool, volume->pool->record.key, sizeof(member->pool));
	memcpy(member->volume, volume->record.uuid, sizeof(member->volume));
	make_uuid(key, snapshot->count, member->uuid);
	snapshot->place = volume->record.place;
	snapshot->count++;
	return 0;
}

/* The snapshots of a request, and what becomes of them. */
struct snapshot_request {
	const char *sys;
	char **names;
	size_t count;
	Store__Action action;
	bool is_forced;
	const char *uuid; /* the caller's key; NULL, "": none */
	const char *from; /* SNAPSHOT_CHANGES; else NULL */
	uint64_t offset;
	uint32_t ranges_max;
};

static int check_request(struct mgmt *mgmt, const struct snapshot_request *request, uint8_t key[MEMBER_UUID_BYTES],
			 struct fathom_fault *why)
{
	char random[MEMBER_UUID_TEXT_BYTES];

	if (member_uuid_parse(request->uuid && *request->uuid ? request->uuid : catalog_new_uuid(random), key) < 0)
		return fault_storage_name_bad(why, "UUID of a snapshot", "", "it is not a UUID");
	if (request->count == 0 || request->count > MEMBERS_MAX)
		return fault_storage_name_bad(why, "snapshot", "", "a request has 1 to 64 names");
	if (request->from && strlen(request->from) >= CATALOG_NAME_BYTES)
		return fault_storage_name_bad(why, "snapshot", request->from, "it is too long");
	if (mgmt->snapshot_count >= STORAGE_TASKS_MAX)
		return mgmt_refuse_full(mgmt, "changes of snapshots", mgmt->snapshot_count, why);
	return 0;
}

static void begin_snapshot(struct grpc_call *call, const struct snapshot_request *request)
{
	struct mgmt *mgmt = mgmt_enter(call, request->sys, true);
	struct mgmt_snapshot *snapshot = NULL;
	uint8_t key[MEMBER_UUID_BYTES];
	struct fathom_fault why = { 0 };
	int error;

	if (!mgmt)
		return;
	error = check_request(mgmt, request, key, &why);
	if (!error) {
		snapshot = calloc(1, sizeof(*snapshot) + request->count * sizeof(snapshot->members[0]));
		error = snapshot ? 0 : -ENOMEM;
	}
	if (error) {
		mgmt_fail(call, error, &why);
		return;
	}
	snapshot->mgmt = mgmt;
	snapshot->call = call;
	snapshot->action = request->action;
	snapshot->is_forced = request->is_forced;
	snapshot->offset = request->offset;
	snapshot->ranges_max = request->ranges_max;
	must(text_copy(snapshot->from, sizeof(snapshot->from), request->from ? request->from : "") == 0);
	snapshot->until = reactor_now() +
			  clock_ticks_from_ns(min_u64(grpc_call_time_left_ns(call), 600 * NS_PER_SEC) / 10 * 9);
	TAILQ_INSERT_TAIL(&mgmt->snapshots, snapshot, link);
	mgmt->snapshot_count++;
	for (size_t i = 0; !error && i < request->count; i++)
		error = add_member(snapshot, request->names[i], key, &why);
	if (error)
		fail_snapshot(snapshot, error, &why);
	else
		call_engine(snapshot);
}

void storage_snapshots_close(struct mgmt *mgmt)
{
	struct mgmt_snapshot *snapshot;

	while ((snapshot = TAILQ_FIRST(&mgmt->snapshots))) {
		grpc_fail(snapshot->call, GRPC_UNAVAILABLE, NULL, "the management service ends; repeat the request");
		free_snapshot(snapshot);
	}
	must(mgmt->snapshot_count == 0);
}

void mgmt_snapshot_create(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Fathom__SnapshotCreateReq *asked = (const Fathom__SnapshotCreateReq *)request;

	begin_snapshot(call, &(struct snapshot_request){ .sys = asked->sys,
							 .names = asked->names,
							 .count = asked->n_names,
							 .uuid = asked->uuid,
							 .action = STORE__ACTION__SNAPSHOT_CREATE });
}

void mgmt_snapshot_destroy(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Fathom__SnapshotDestroyReq *asked = (const Fathom__SnapshotDestroyReq *)request;

	begin_snapshot(call, &(struct snapshot_request){ .sys = asked->sys,
							 .names = (char **)&asked->name,
							 .count = 1,
							 .action = STORE__ACTION__SNAPSHOT_DESTROY });
}

void mgmt_snapshot_restore(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Fathom__SnapshotRestoreReq *asked = (const Fathom__SnapshotRestoreReq *)request;

	begin_snapshot(call, &(struct snapshot_request){ .sys = asked->sys,
							 .names = (char **)&asked->name,
							 .count = 1,
							 .action = STORE__ACTION__SNAPSHOT_RESTORE,
							 .is_forced = asked->force });
}

void mgmt_snapshot_changes(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Fathom__SnapshotChangesReq *asked = (const Fathom__SnapshotChangesReq *)request;

	begin_snapshot(call, &(struct snapshot_request){ .sys = asked->sys,
							 .names = (char **)&asked->name,
							 .count = 1,
							 .action = STORE__ACTION__SNAPSHOT_CHANGES,
							 .from = asked->from,
							 .offset = asked->offset,
							 .ranges_max = asked->ranges_max });
}
