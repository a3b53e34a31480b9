/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From ready to serving: the management service assigns a rank, the superblock keeps it, the engine gets it and is set up.
 *
 *	NOTIFY_READY -> superblock -> join -> superblock -> SET_RANK -> STORAGE (LIST) -> SET_UP -> JOINED
 *
 * Before SET_UP the engine gets the requests about its storage that the answer to the join has: early_requests.c.
 *
 * An engine whose storage is not OPEN is not set up: it is killed, ERRORED with that reason, and restarted by its policy.
 *
 * An engine that serves already (it was adopted, or a start was requested again) joins again with the same incarnation, and
 * gets neither SET_RANK nor SET_UP. If its join is rejected, it is REFUSED: it keeps serving, and the join is retried.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/text.h"
#include "control/fault/fault.h"
#include "control/instance/internal.h"
#include "control/instance/probes.gen.h"

static void ask_to_join(struct instance *instance);

Srv__NotifyReadyReq *instance_copy_ready(const Srv__NotifyReadyReq *ready)
{
	size_t bytes = srv__notify_ready_req__get_packed_size(ready);
	uint8_t *packed = malloc(bytes + 1);
	Srv__NotifyReadyReq *copy;

	must(packed);
	must(srv__notify_ready_req__pack(ready, packed) == bytes);
	copy = srv__notify_ready_req__unpack(NULL, bytes, packed);
	must(copy);
	free(packed);
	return copy;
}

static bool is_joining(const struct instance *instance)
{
	return instance->state == INSTANCE_READY || instance->state == INSTANCE_REFUSED;
}

/* Stop it for this reason; one that serves disconnects its hosts first. */
static void stop_unjoined(struct instance *instance, const struct fathom_fault *why)
{
	instance->stop_why = *why;
	instance_begin_stopping(instance, false);
}

/* It cannot get its rank: one that serves keeps serving, and its join is retried; any other is stopped. */
static void reject_rank(struct instance *instance, const struct fathom_fault *why)
{
	if (!instance->process.serving)
		stop_unjoined(instance, why);
}

/* ---- updating the superblock ---- */

static bool write_changed_superblock(struct instance *instance, const struct superblock *changed)
{
	struct superblock before = instance->superblock;
	struct fathom_fault why;

	must(instance->process.pid != 0);
	must(memcmp(before.uuid, changed->uuid, sizeof(before.uuid)) == 0); /* a running engine keeps its identity */
	if (memcmp(&before, changed, sizeof(before)) == 0)
		return true;
	instance->superblock = *changed;
	if (instance_write_superblock(instance, &why) == 0) {
		(void)!instance_record_formatted(instance); /* its rank; the next start tries again */
		return true;
	}
	instance->superblock = before;
	instance->why = why;
	reject_rank(instance, &why);
	return instance->process.serving && is_joining(instance);
}

static void set_text(char *to, size_t bytes, const char *from)
{
	memset(to, 0, bytes);		  /* equal superblocks must have equal bytes: memcmp() compares them */
	(void)text_copy(to, bytes, from); /* too long a text is cut; the management service has rejected it before */
}

/* ---- setting up the engine ---- */

static void enter_joined(struct instance *instance)
{
	must(is_joining(instance));
	must(instance->process.pid != 0);
	instance->process.serving = true;
	instance->said_not_started = 0;
	(void)!instance_write_pid_file(instance); /* adds its rank; without it the former file is sufficient */
	instance->why.error = 0;
	instance_move(instance, INSTANCE_JOINED);
	instance_begin_steady(instance);
	instance_watch(instance);
	instance_answer_all(instance, INSTANCE_DO_START, NULL);
	instance_send_group(instance);
}

static void give_up_unreachable(struct deadline *deadline)
{
	struct instance *instance = container_of(deadline, struct instance, again);

	instance_give_up(instance, &instance->why, INSTANCE_NEVER_READY);
}

/*
 * Setting it up failed: kill it. If the connection broke, the process has most likely ended: wait a moment for its exit
 * status, which is the better reason.
 */
static void fail_set_up(struct instance *instance, const struct drpc_result *result, const struct fathom_fault *why)
{
	bool gone = result->error == -ECONNRESET || result->error == -EPIPE || result->error == -ECONNREFUSED;

	instance->why = *why;
	if (gone)
		deadline_set(&instance->deadlines, &instance->again, INSTANCE_AGAIN_MS * NS_PER_MS, give_up_unreachable);
	else
		instance_give_up(instance, why, INSTANCE_NEVER_READY);
}

static void on_set_up_answered(struct instance *instance, const struct drpc_result *result)
{
	struct fathom_fault why;

	if (instance_engine_said(instance, "the setting up", result, &why) != 0)
		fail_set_up(instance, result, &why);
	else
		enter_joined(instance);
}

static void set_up(struct instance *instance)
{
	instance_ask_engine(instance,
			    &(struct drpc_request){
				    .module = DRPC_MODULE_MGMT,
				    .method = DRPC_MGMT_SET_UP,
				    .message = NULL,
				    .response = &mgmt__daos_resp__descriptor,
				    .timeout_ns = instance->options.ready_timeout_ns,
			    },
			    on_set_up_answered);
}

/* Without an answer its state is unknown: an older engine has no such call, and SET_UP fails if the engine hangs. */
static void on_storage_listed(struct instance *instance, const struct drpc_result *result)
{
	const Store__StorageResp *response = (const Store__StorageResp *)result->response;
	bool is_known = !result->error && result->status == DRPC_SUCCESS && response && response->error == 0;
	struct fathom_fault why;

	if (is_known && response->state[0] && strcmp(response->state, "OPEN") != 0) {
		fill_fault_storage_failed(&why, instance->options.index, instance->options.mount,
					  response->state); /* reported */
		instance_give_up(instance, &why, INSTANCE_NEVER_READY);
	} else if (is_known) {
		instance_send_early(instance, set_up);
	} else {
		set_up(instance);
	}
}

static void ask_storage(struct instance *instance)
{
	Store__StorageReq request = STORE__STORAGE_REQ__INIT;

	request.rank = instance->superblock.rank;
	request.action = STORE__ACTION__LIST;
	instance_ask_engine(instance,
			    &(struct drpc_request){
				    .module = DRPC_MODULE_FATHOM,
				    .method = DRPC_FATHOM_STORAGE,
				    .message = &request.base,
				    .response = &store__storage_resp__descriptor,
				    .timeout_ns = INSTANCE_RANK_SECONDS * NS_PER_SEC,
			    },
			    on_storage_listed);
}

static void on_rank_set(struct instance *instance, const struct drpc_result *result)
{
	struct fathom_fault why;

	if (instance_engine_said(instance, "the setting of its rank", result, &why) != 0)
		fail_set_up(instance, result, &why);
	else
		ask_storage(instance);
}

static void set_rank(struct instance *instance)
{
	Mgmt__SetRankReq request = MGMT__SET_RANK_REQ__INIT;

	must(instance->state == INSTANCE_READY);
	must(!instance->process.serving);
	must(instance->superblock.has_rank); /* the rank is on disk before the engine gets it */
	request.rank = instance->superblock.rank;
	request.map_version = instance->map_version;
	instance_ask_engine(instance,
			    &(struct drpc_request){
				    .module = DRPC_MODULE_MGMT,
				    .method = DRPC_MGMT_SET_RANK,
				    .message = &request.base,
				    .response = &mgmt__daos_resp__descriptor,
				    .timeout_ns = INSTANCE_RANK_SECONDS * NS_PER_SEC,
			    },
			    on_rank_set);
}

/* ---- joining ---- */

static void join_again(struct deadline *deadline)
{
	ask_to_join(container_of(deadline, struct instance, again));
}

static void wait_to_join(struct instance *instance)
{
	deadline_set(&instance->deadlines, &instance->again, instance->join_pause_ms * NS_PER_MS, join_again);
	instance->join_pause_ms = min_u64(2 * instance->join_pause_ms, INSTANCE_JOIN_AGAIN_MAX_MS);
}

static void accept_join(struct instance *instance, const struct instance_joined *answer)
{
	struct superblock changed = instance->superblock;
	struct fathom_fault why;

	if (instance->process.serving && changed.has_rank && changed.rank != answer->rank) {
		fill_fault_rank_differs(&why, instance->options.index, answer->rank, changed.rank); /* reported */
		stop_unjoined(instance, &why);
		return;
	}
	changed.rank = answer->rank;
	changed.has_rank = true;
	changed.is_replacement = false;
	if (answer->domain && answer->domain[0] != '\0')
		set_text(changed.domain, sizeof(changed.domain), answer->domain);
	instance->map_version = answer->map_version;
	if (!write_changed_superblock(instance, &changed))
		return;
	instance_keep_early(instance, answer->storage, instance->process.serving ? 0 : answer->storage_count);
	if (instance->process.serving)
		enter_joined(instance);
	else
		set_rank(instance);
}

/* It serves, and its join was rejected. `fate`: what the server does; the management service does not know it. */
static void raise_join_failed(struct instance *instance, const char *fate, const struct fathom_fault *why)
{
	uint32_t rank = instance->superblock.has_rank ? instance->superblock.rank : RAS_RANK_NONE;
	struct ras_event event;

	ras_event_init(&event, RAS_ENGINE_JOIN_FAILED, "fathom-engine %u %s: %s", instance->options.index, fate, why->text);
	ras_event_set_engine(&event, rank, instance->ready->incarnation, instance->options.index,
			     (uint64_t)instance->process.pid, why->text);
	instance->hooks.event(instance->hooks.ctx, instance, &event.message);
}

static void keep_serving_rejected(struct instance *instance, const struct fathom_fault *why)
{
	if (instance->state != INSTANCE_REFUSED) {
		instance_move(instance, INSTANCE_REFUSED);
		instance_watch(instance);
		raise_join_failed(instance, "serves on, but is refused", why);
	}
	instance->join_pause_ms = INSTANCE_JOIN_AGAIN_MAX_MS;
	wait_to_join(instance);
}

static void join_answered(void *ctx, const struct instance_joined *answer)
{
	struct instance_step *step = ctx;
	bool current;
	struct instance *instance = instance_step_end(step, &current);

	if (!current)
		return;
	must(is_joining(instance));
	probe_instance_join_answered(reactor_now(), instance, answer->why.error, answer->rank, answer->again);
	if (instance->process.given_up.error)
		return; /* it was killed meanwhile */
	if (answer->why.error == 0) {
		accept_join(instance, answer);
		return;
	}
	instance->why = answer->why;
	if (answer->again) {
		/* a waiting start ends before the joins do */
		if (answer->is_lasting)
			instance_answer_all(instance, INSTANCE_DO_START, &answer->why);
		wait_to_join(instance);
		return;
	}
	instance_answer_all(instance, INSTANCE_DO_START, &answer->why);
	if (instance->process.serving && answer->why.code == FAULT_RANK_EXCLUDED) {
		raise_join_failed(instance, "is refused and ends", &answer->why); /* it has not got the new group map yet */
		stop_unjoined(instance, &answer->why);
	} else if (instance->process.serving) {
		keep_serving_rejected(instance, &answer->why);
	} else {
		reject_rank(instance, &answer->why);
	}
}

static void ask_to_join(struct instance *instance)
{
	struct instance_join join = {
		.rank = instance->superblock.has_rank ? instance->superblock.rank : RANK_NONE,
		.index = instance->options.index,
		.ready = instance->ready,
		.domain = instance->options.domain,
		.is_replacement = instance->superblock.is_replacement,
		.serves = instance->process.serving,
	};

	must(is_joining(instance));
	must(instance->ready);
	memcpy(join.uuid, instance->superblock.uuid, sizeof(join.uuid));
	instance->hooks.join(instance->hooks.ctx, instance, &join, join_answered, instance_step_begin(instance));
}

void instance_join(struct instance *instance)
{
	instance->join_pause_ms = INSTANCE_JOIN_AGAIN_MIN_MS;
	if (instance->process.serving)
		instance_watch(instance);
	ask_to_join(instance);
}

/* ---- ready ---- */

void instance_became_ready(struct instance *instance, Srv__NotifyReadyReq *ready)
{
	struct superblock changed = instance->superblock;

	must(!instance->ready);
	must(instance->process.pid != 0);
	instance->ready = ready;
	changed.incarnation = ready->incarnation;
	set_text(changed.uri, sizeof(changed.uri), ready->uri);
	instance_move(instance, INSTANCE_READY);
	(void)!instance_write_pid_file(instance); /* without it, a death event of the next server has no incarnation */
	if (write_changed_superblock(instance, &changed))
		instance_join(instance);
}

void instance_notify_ready(struct instance *instance, const Srv__NotifyReadyReq *ready, pid_t pid)
{
	instance_check(instance);
	if (instance->process.pid == pid && pid != 0) {
		if (instance->state == INSTANCE_STARTING && !instance->process.given_up.error)
			instance_became_ready(instance, instance_copy_ready(ready));
		return; /* in another state it is a repeat: the engine did not receive the answer */
	}
	if (instance->process.pid != 0) {
		probe_instance_stranger(reactor_now(), instance, pid);
		return;
	}
	if (instance->heard)
		srv__notify_ready_req__free_unpacked(instance->heard, NULL);
	instance->heard = instance_copy_ready(ready);
	instance->heard_pid = pid;
	instance_find_engine_soon(instance);
}

void instance_note_event(struct instance *instance, const Shared__RASEvent *event)
{
	must_be_on(instance->thread);
	if (event->id == RAS_ENGINE_SELF_TERMINATED && instance->process.pid != 0 &&
	    (!instance->ready || instance->ready->incarnation == event->incarnation))
		instance->process.self_terminated = true;
	if (event->id == RAS_VOLUME_ERRORED || event->id == RAS_VOLUME_READ_ONLY || event->id == RAS_STORAGE_FAILED)
		instance_ping_at_once(instance);
}
