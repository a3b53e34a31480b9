/* SPDX-License-Identifier: BSD-2-Clause */
/* Carry out stored intents: call the ranks of a pool or a volume until all have answered, and let calls wait for that. */
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
#include "control/mgmt/probes.gen.h"
#include "control/mgmt/storage/storage.h"

enum { PAUSE_MS = 250, PAUSE_DOUBLINGS_MAX = 7, RESUME_MS = 1000, WAIT_S_MAX = 600 };

/* ---- waiting calls ---- */

static void free_waiter(struct storage_waiter *waiter)
{
	struct mgmt *mgmt = waiter->task->mgmt;

	TAILQ_REMOVE(&waiter->task->waiters, waiter, link);
	deadline_clear(&mgmt->deadlines, &waiter->deadline);
	must(mgmt->storage_waiter_count > 0);
	mgmt->storage_waiter_count--;
	free(waiter);
}

void storage_explain_wait(const struct mgmt_task *task, struct fathom_fault *why)
{
	char what[STORAGE_WHAT_BYTES], change[STORAGE_CHANGE_BYTES], reason[FAULT_TEXT_BYTES_MAX / 2];
	uint32_t rank = task->waits_for;

	storage_what(task->pool, task->volume, what);
	storage_pending(task->pool, task->volume, change);
	text_copy_words(reason, sizeof(reason), task->why.error ? task->why.text : "it has not answered yet");
	for (uint32_t i = 0; !task->why.error && i < task->part_count; i++) {
		if (task->parts[i].is_calling)
			rank = task->parts[i].place.rank;
	}
	fill_fault_storage_waits(why, what, change, rank, reason);
}

static void waiter_expired(struct deadline *deadline)
{
	struct storage_waiter *waiter = container_of(deadline, struct storage_waiter, deadline);
	struct mgmt_task *task = waiter->task;
	struct grpc_call *call = waiter->call;
	struct fathom_fault why = { 0 };

	storage_explain_wait(task, &why);
	task->mgmt->stats.storage_late++;
	probe_mgmt_task_late(reactor_now(), task, trace_intern(task->name), task->waits_for);
	free_waiter(waiter);
	mgmt_fail(call, why.error, &why);
}

/* The answer must arrive before the call's deadline. A call does not wait long for an engine that cannot be reached. */
static void bound_waiter(struct storage_waiter *waiter)
{
	const struct mgmt_task *task = waiter->task;
	uint64_t wait_ns = min_u64(grpc_call_time_left_ns(waiter->call), WAIT_S_MAX * NS_PER_SEC) / 10 * 9;

	if (task->failures > 0)
		wait_ns = min_u64(wait_ns, task->mgmt->storage_patience_ns);
	deadline_set(&task->mgmt->deadlines, &waiter->deadline, wait_ns, waiter_expired);
}

static void add_waiter(struct mgmt_task *task, struct grpc_call *call, bool is_late)
{
	struct mgmt *mgmt = task->mgmt;
	struct storage_waiter *waiter = NULL;
	struct fathom_fault why = { 0 };
	int error = 0;

	if (mgmt->storage_waiter_count >= STORAGE_WAITERS_MAX)
		error = mgmt_refuse_full(mgmt, "calls that wait for changes", mgmt->storage_waiter_count, &why);
	else if (!(waiter = calloc(1, sizeof(*waiter))))
		error = -ENOMEM;
	if (error) {
		mgmt_fail(call, error, &why);
		return;
	}
	waiter->task = task;
	waiter->call = call;
	waiter->is_late = is_late;
	TAILQ_INSERT_TAIL(&task->waiters, waiter, link);
	mgmt->storage_waiter_count++;
	bound_waiter(waiter);
}

void storage_wait(struct mgmt_task *task, struct grpc_call *call)
{
	add_waiter(task, call, task->refusal.error != 0);
}

void storage_wait_any(struct mgmt_task *task, struct grpc_call *call)
{
	add_waiter(task, call, true);
}

void storage_refuse_waiters(struct mgmt_task *task, const struct fathom_fault *why)
{
	struct storage_waiter *waiter;

	must(why->error < 0);
	while ((waiter = TAILQ_FIRST(&task->waiters))) {
		struct grpc_call *call = waiter->call;
		struct fathom_fault copy = *why;

		free_waiter(waiter);
		mgmt_fail(call, copy.error, &copy);
	}
	task->who[0] = '\0';
}

/* A late waiter of a creation that was undone has requested the destruction, which has succeeded. */
static void answer_waiters(struct mgmt_task *task, const struct fathom_fault *why)
{
	struct storage_waiter *waiter;

	while ((waiter = TAILQ_FIRST(&task->waiters))) {
		struct grpc_call *call = waiter->call;
		bool is_refused = why && why->error && !waiter->is_late;

		free_waiter(waiter);
		if (is_refused) {
			struct fathom_fault copy = *why;

			mgmt_fail(call, copy.error, &copy);
		} else {
			storage_reply(task, call);
		}
	}
}

/* ---- life ---- */

static void forget_answer(struct mgmt_task *task)
{
	if (task->answer)
		store__volume__free_unpacked(task->answer, NULL);
	task->answer = NULL;
}

static void free_task(struct mgmt_task *task)
{
	must(task->calls == 0);
	must(TAILQ_EMPTY(&task->waiters));
	must(!task->deadline.set);
	forget_answer(task);
	storage_move_free(task);
	free(task);
}

static void intents_due(struct deadline *deadline);

/* The task no longer stands for the pool or volume. */
static void detach_task(struct mgmt_task *task)
{
	deadline_clear(&task->mgmt->deadlines, &task->deadline);
	if (task->volume)
		task->volume->task = NULL;
	else if (task->pool)
		task->pool->task = NULL;
	must(task->mgmt->task_count > 0);
	TAILQ_REMOVE(&task->mgmt->tasks, task, link);
	task->mgmt->task_count--;
	if (task->mgmt->has_intents_left)
		deadline_set(&task->mgmt->deadlines, &task->mgmt->intents_deadline, 0, intents_due);
	if (task->state != MGMT_TASK_IDLE)
		mgmt_task_state_move(reactor_now(), task, MGMT_TASK_IDLE);
}

void storage_end(struct mgmt_task *task, const struct fathom_fault *why)
{
	int error = why ? why->error : 0;

	must(task->calls == 0);
	detach_task(task);
	if (error)
		task->mgmt->stats.storage_undone++;
	else
		task->mgmt->stats.storage_done++;
	probe_mgmt_task_done(reactor_now(), task, trace_intern(task->name), error);
	storage_evict_ended(task, why);
	storage_drain_soon(task->mgmt, 0);
	answer_waiters(task, why);
	free_task(task);
}

void storage_abandon(struct mgmt_task *task, const struct fathom_fault *why)
{
	must(why->error < 0);
	if (task->pool->state == MGMT_POOL_DESTROYING) /* else another task takes over */
		storage_evict_ended(task, why);
	detach_task(task);
	storage_refuse_waiters(task, why);
	task->pool = NULL;
	task->volume = NULL;
	task->is_abandoned = true;
	if (task->calls == 0)
		free_task(task);
	else
		TAILQ_INSERT_TAIL(&task->mgmt->abandoned_tasks, task, link);
}

static size_t count_on_rank(const struct mgmt *mgmt, uint32_t rank)
{
	const struct mgmt_task *task;
	size_t count = 0;

	TAILQ_FOREACH (task, &mgmt->tasks, link) {
		for (uint32_t i = 0; i < task->part_count; i++)
			count += task->parts[i].place.rank == rank;
	}
	return count;
}

int storage_check_room(struct mgmt *mgmt, const struct catalog_place *places, size_t count, struct fathom_fault *why)
{
	if (mgmt->task_count >= STORAGE_TASKS_MAX)
		return mgmt_refuse_full(mgmt, "changes of pools and volumes", mgmt->task_count, why);
	for (size_t i = 0; i < count; i++) {
		size_t on_rank = count_on_rank(mgmt, places[i].rank);
		char what[64];

		if (on_rank < STORAGE_RANK_TASKS_MAX)
			continue;
		snprintf(what, sizeof(what), "changes on rank %u", places[i].rank);
		return mgmt_refuse_full(mgmt, what, on_rank, why);
	}
	return 0;
}

bool storage_has_room(const struct mgmt *mgmt, const struct catalog_place *place)
{
	return mgmt->task_count < STORAGE_TASKS_MAX && count_on_rank(mgmt, place->rank) < STORAGE_RANK_TASKS_MAX;
}

static struct mgmt_task *create_task(struct mgmt *mgmt, struct catalog_pool *pool, struct catalog_volume *volume)
{
	bool is_extension = !volume && pool->state == MGMT_POOL_READY && !pool->record.change.is_set;
	uint32_t count = volume ? 1 : is_extension ? catalog_changing_shares(pool) : pool->record.place_count, at = 0;
	struct mgmt_task *task = calloc(1, sizeof(*task) + count * sizeof(task->parts[0]));

	if (!task)
		return NULL;
	trace_object_init(&task->trace, TRACE_OBJECT_MGMT_TASK);
	trace_object_init(&task->move.trace, TRACE_OBJECT_TASK_MOVE);
	task->mgmt = mgmt;
	task->pool = pool;
	task->volume = volume;
	TAILQ_INIT(&task->waiters);
	snprintf(task->name, sizeof(task->name), "%s%s%s", pool->record.name, volume ? "/" : "",
		 volume ? volume->record.name : "");
	memcpy(task->uuid, volume ? volume->record.uuid : pool->record.uuid, sizeof(task->uuid));
	task->part_count = count;
	for (uint32_t i = 0; i < count; i++)
		task->parts[i].task = task;
	for (uint32_t i = 0; !volume && i < pool->record.place_count; i++) {
		if (!is_extension || catalog_share_changes(pool, i))
			task->parts[at++].place = pool->record.places[i];
	}
	if (volume)
		task->parts[at++].place = volume->record.place;
	must(at == count);
	if (volume)
		volume->task = task;
	else
		pool->task = task;
	storage_move_set_up(task);
	TAILQ_INSERT_TAIL(&mgmt->tasks, task, link);
	mgmt->task_count++;
	return task;
}

static void resume_later(struct mgmt *mgmt, uint64_t after_ns);

void storage_start(struct mgmt *mgmt, struct catalog_pool *pool, struct catalog_volume *volume, struct grpc_call *call)
{
	struct mgmt_task *task = create_task(mgmt, pool, volume);
	struct fathom_fault why = { 0 };

	if (!task) {
		resume_later(mgmt, RESUME_MS * NS_PER_MS);
		if (call)
			mgmt_fail(call, -ENOMEM, &why);
		return;
	}
	if (call) {
		mgmt->stats.storage_changes++;
		grpc_call_who(call, task->who);
		storage_wait(task, call);
	}
	storage_run(task);
}

/* ---- calls ---- */

/* Keep what the engine says about the volume, and where hosts connect. Errors: -ENOMEM: ask again. */
static int keep_answer(struct mgmt_task *task, const Store__StorageResp *response)
{
	(void)text_copy(task->address, sizeof(task->address), response->address);
	for (size_t i = 0; i < response->n_pools && task->volume; i++) {
		for (size_t j = 0; j < response->pools[i]->n_volumes; j++) {
			const Store__Volume *volume = response->pools[i]->volumes[j];
			size_t bytes = store__volume__get_packed_size(volume);
			uint8_t *packed;

			if (strcmp(volume->uuid, task->uuid) != 0 || !(packed = malloc(bytes + 1)))
				continue;
			must(store__volume__pack(volume, packed) == bytes);
			forget_answer(task);
			task->answer = store__volume__unpack(NULL, bytes, packed);
			free(packed);
		}
	}
	return storage_moves(task) ? storage_move_keep(task, response) : 0;
}

static void part_done(void *ctx, const struct storage_result *result)
{
	struct storage_part *part = ctx;
	struct mgmt_task *task = part->task;

	must(part->is_calling);
	must(task->calls > 0);
	part->is_calling = false;
	task->calls--;
	if (task->is_abandoned) {
		if (task->calls == 0) {
			TAILQ_REMOVE(&task->mgmt->abandoned_tasks, task, link);
			free_task(task);
		}
		return;
	}
	must(task->state == MGMT_TASK_CALLING);
	part->is_done = result->kind == STORAGE_DONE;
	part->is_refused = result->kind == STORAGE_REFUSED;
	part->error = result->error;
	part->why = result->why;
	if (part->is_done && keep_answer(task, result->response) < 0) {
		part->is_done = false;
		fill_fault(&part->why, -ENOMEM, "out of memory for the answer");
	}
	if (task->calls == 0)
		storage_finish(task);
}

static void call_part(struct mgmt_task *task, struct storage_part *part)
{
	const struct member *member = storage_member(task->mgmt, &part->place);
	Store__StorageReq request = STORE__STORAGE_REQ__INIT;
	char sentence[STORAGE_SENTENCE_BYTES];
	int error;

	if (storage_sets(task) && storage_set_skips(task, part)) {
		part->is_done = part->is_late = true;
		return;
	}
	if (storage_sets(task) && storage_set_waits(task, part, &part->why))
		return;
	if (!member && storage_moves(task)) {
		storage_move_settle_lost(task, part);
		return;
	}
	if (!member) {
		storage_settle_lost(task, part);
		return;
	}
	part->incarnation = member->state == MEMBER_JOINED ? member->incarnation : 0;
	storage_fill_request(task, &request);
	error = storage_call(task->mgmt, &part->place, &request, storage_sentence(task->pool, task->volume, sentence),
			     part_done, part);
	if (error) {
		fill_fault(&part->why, error, "%s", strerror(-error));
		return;
	}
	part->is_calling = true;
	part->was_called |= storage_sets(task) && !task->pool->record.change.undo[0];
	task->calls++;
}

void storage_run(struct mgmt_task *task)
{
	must(task->calls == 0);
	deadline_clear(&task->mgmt->deadlines, &task->deadline);
	if (task->state != MGMT_TASK_CALLING)
		mgmt_task_state_move(reactor_now(), task, MGMT_TASK_CALLING);
	task->asked_ns = clock_realtime_ns();
	for (uint32_t i = 0; i < task->part_count; i++) {
		if (!task->parts[i].is_done && !task->parts[i].is_refused)
			call_part(task, &task->parts[i]);
	}
	if (task->calls == 0)
		storage_finish(task);
}

void storage_restart(struct mgmt_task *task)
{
	for (uint32_t i = 0; i < task->part_count; i++) {
		must(!task->parts[i].is_calling);
		task->parts[i].is_done = task->parts[i].is_refused = task->parts[i].is_late = false;
		task->parts[i].why.error = 0;
	}
	forget_answer(task);
	task->failures = 0;
	task->why.error = 0;
	storage_run(task);
}

static void pause_ended(struct deadline *deadline)
{
	storage_run(container_of(deadline, struct mgmt_task, deadline));
}

void storage_pause(struct mgmt_task *task)
{
	uint64_t doublings = min_u64(task->failures++, PAUSE_DOUBLINGS_MAX);
	struct storage_waiter *waiter;

	must(task->calls == 0);
	must(task->why.error < 0);
	mgmt_task_state_move(reactor_now(), task, MGMT_TASK_WAITING);
	deadline_set(&task->mgmt->deadlines, &task->deadline, (PAUSE_MS << doublings) * NS_PER_MS, pause_ended);
	if (task->failures > 1)
		return;
	storage_evict_delayed(task);
	TAILQ_FOREACH (waiter, &task->waiters, link)
		bound_waiter(waiter);
}

/* ---- going on ---- */

/* Whether a rank that the task waits for has joined again since it was called, or need not be called any more. */
static bool is_rank_other(const struct mgmt_task *task)
{
	for (uint32_t i = 0; i < task->part_count; i++) {
		const struct storage_part *part = &task->parts[i];
		const struct member *member = storage_member(task->mgmt, &part->place);

		if (part->is_done || part->is_refused)
			continue;
		if (storage_move_is_stuck(task, part))
			continue;
		if (!member || (member->state == MEMBER_JOINED && member->incarnation != part->incarnation))
			return true;
		if (storage_sets(task) && storage_set_skips(task, part))
			return true;
	}
	return false;
}

/*
 * An eviction has intents for all volumes of a pool. They get no more tasks than requests do, the others when these end.
 * `full` has the ranks that are known to have no room.
 */
static bool may_start(struct mgmt *mgmt, const struct catalog_volume *volume, struct rank_set *full)
{
	const struct catalog_place *place = &volume->record.place;
	int error = 0;

	if (volume->state != MGMT_VOLUME_READY || volume->record.change.kind != CATALOG_UNPUBLISH)
		return true;
	if (!rank_set_has(full, place->rank)) {
		if (storage_has_room(mgmt, place))
			return true;
		error = rank_set_add(full, place->rank);
	}
	must(error <= 0); /* not 0: it is counted again */
	mgmt->has_intents_left = true;
	return false;
}

/* The next pool or volume with an intent and without a task. */
static bool find_intent(struct mgmt *mgmt, struct rank_set *full, struct catalog_pool **pool_ret,
			struct catalog_volume **volume_ret)
{
	struct catalog_volume *volume;
	struct catalog_pool *pool;

	TAILQ_FOREACH (pool, &mgmt->catalog->pools, link) {
		*pool_ret = pool;
		*volume_ret = NULL;
		if ((pool->state != MGMT_POOL_READY || pool->record.change.is_set || catalog_changing_shares(pool) > 0) &&
		    !pool->task)
			return true;
		if (pool->state == MGMT_POOL_DESTROYING)
			continue; /* its volumes are destroyed with it */
		TAILQ_FOREACH (volume, &pool->volumes, link) {
			*volume_ret = volume;
			if ((volume->state != MGMT_VOLUME_READY || volume->record.change.kind != CATALOG_NO_CHANGE) &&
			    !volume->task && may_start(mgmt, volume, full))
				return true;
		}
	}
	return false;
}

/* Start the tasks of all intents. A task may end at once and remove its object, so each search begins again. */
static void start_intents(struct mgmt *mgmt)
{
	struct catalog_volume *volume;
	struct catalog_pool *pool;
	struct rank_set full = { 0 };

	mgmt->has_intents_left = false;
	while (find_intent(mgmt, &full, &pool, &volume)) {
		struct mgmt_task *task = create_task(mgmt, pool, volume);

		if (!task) {
			resume_later(mgmt, RESUME_MS * NS_PER_MS);
			break;
		}
		storage_run(task);
	}
	rank_set_deinit(&full);
}

static void intents_due(struct deadline *deadline)
{
	start_intents(container_of(deadline, struct mgmt, intents_deadline));
}

static struct mgmt_task *find_resumable(const struct mgmt *mgmt)
{
	struct mgmt_task *task;

	TAILQ_FOREACH (task, &mgmt->tasks, link) {
		if (task->state == MGMT_TASK_WAITING && is_rank_other(task))
			return task;
	}
	return NULL;
}

static void resume(struct deadline *deadline)
{
	struct mgmt *mgmt = container_of(deadline, struct mgmt, storage_deadline);
	struct mgmt_task *task;

	while ((task = find_resumable(mgmt))) {
		task->failures = 0;
		storage_run(task);
	}
	start_intents(mgmt);
	storage_old_copies_retry(mgmt);
	storage_late_retry(mgmt);
	storage_drain_retry(mgmt);
}

static void resume_later(struct mgmt *mgmt, uint64_t after_ns)
{
	deadline_set(&mgmt->deadlines, &mgmt->storage_deadline, after_ns, resume);
}

void storage_members_changed(struct mgmt *mgmt)
{
	resume_later(mgmt, 0);
}

int storage_open(struct mgmt *mgmt, struct fathom_fault *why)
{
	int error = catalog_open(mgmt->db, &mgmt->catalog, why);

	if (!error) {
		start_intents(mgmt);
		storage_old_copies_retry(mgmt);
		storage_late_retry(mgmt);
		storage_drain_soon(mgmt, 0);
	}
	return error;
}

int storage_forget_all(struct mgmt *mgmt, struct fathom_fault *why)
{
	struct fathom_fault erased = { 0 };
	struct catalog_pool *pool;
	struct mgmt_task *task;
	int error = 0;

	must(system_member_count(mgmt->system) == 0);
	fill_fault(&erased, -ECANCELED, "the system was erased");
	storage_evictions_fail(mgmt, &erased);
	while ((task = TAILQ_FIRST(&mgmt->tasks)))
		storage_abandon(task, &erased);
	while (!error && (pool = TAILQ_FIRST(&mgmt->catalog->pools)))
		error = catalog_remove_pool(mgmt->catalog, pool, why);
	storage_old_copies_retry(mgmt);
	storage_late_retry(mgmt);
	return error;
}

/* Without answers of the engines: mgmt_close() abandons the calls. */
static void close_tasks(struct mgmt_task_list *tasks)
{
	struct mgmt_task *task;

	while ((task = TAILQ_FIRST(tasks))) {
		struct storage_waiter *waiter;

		TAILQ_REMOVE(tasks, task, link);
		deadline_clear(&task->mgmt->deadlines, &task->deadline);
		while ((waiter = TAILQ_FIRST(&task->waiters))) {
			struct grpc_call *call = waiter->call;

			free_waiter(waiter);
			grpc_fail(call, GRPC_UNAVAILABLE, NULL, "the management service ends; what was begun goes on");
		}
		task->calls = 0;
		free_task(task);
	}
}

void storage_close(struct mgmt *mgmt)
{
	close_tasks(&mgmt->tasks);
	close_tasks(&mgmt->abandoned_tasks);
	mgmt->task_count = 0;
	storage_evictions_close(mgmt);
	must(mgmt->storage_waiter_count == 0);
	storage_snapshots_close(mgmt);
	storage_late_close(mgmt);
	storage_engines_close(mgmt);
	must(mgmt->reading_count == 0);
	catalog_close(mgmt->catalog);
}
