/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Send the group map to the servers of all members. Each call sends the newest map, so intermediate versions are skipped if
 * changes are faster than answers. After a failed call the map is sent again after a pause that doubles up to a limit.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/inject/inject.h"
#include "base/text.h"
#include "control/fault/fault.h"
#include "control/mgmt/internal.h"
#include "control/mgmt/probes.gen.h"
#include "control/status/status.h"
#include "base/reactor/reactor.h"

#define PATH "/fathom.ControlSvc/GroupUpdate"

enum { SETTLE_MS = 1, TIMEOUT_S = 10, PAUSE_MS = 100, PAUSE_DOUBLINGS_MAX = 7 };

struct mgmt_map {
	Mgmt__GroupUpdateReq request;
	Mgmt__GroupUpdateReq__Engine *engines, **places;
	char (*uris)[MEMBER_URI_BYTES];
};

static void free_map(struct mgmt_map *map)
{
	if (!map)
		return;
	free(map->engines);
	free(map->places);
	free(map->uris);
	free(map);
}

static void add_engine(struct mgmt_map *map, const struct member *member)
{
	size_t at = map->request.n_engines++;

	mgmt__group_update_req__engine__init(&map->engines[at]);
	memcpy(map->uris[at], member->fabrics[0].uri, sizeof(map->uris[at]));
	map->engines[at].rank = member->rank;
	map->engines[at].uri = map->uris[at];
	map->engines[at].incarnation = member->incarnation;
	map->places[at] = &map->engines[at];
}

/* NULL: out of memory. */
static struct mgmt_map *make_map(const struct system *system)
{
	size_t count = system_member_count(system);
	struct mgmt_map *map = calloc(1, sizeof(*map));

	if (!map)
		return NULL;
	mgmt__group_update_req__init(&map->request);
	map->engines = calloc(count + 1, sizeof(*map->engines));
	map->places = calloc(count + 1, sizeof(*map->places));
	map->uris = calloc(count + 1, sizeof(*map->uris));
	if (!map->engines || !map->places || !map->uris) {
		free_map(map);
		return NULL;
	}
	map->request.map_version = system_map_version(system);
	map->request.engines = map->places;
	for (size_t i = 0; i < count; i++) {
		if (system_is_in_map(system_member_at(system, i)))
			add_engine(map, system_member_at(system, i));
	}
	must(map->request.n_engines <= count);
	return map;
}

/* ---- targets ---- */

static void start_map_calls(struct mgmt *mgmt);
static void schedule_map_update(struct mgmt *mgmt);

static int compare_texts(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static struct mgmt_target *create_target(struct mgmt *mgmt, const char *address)
{
	struct mgmt_target *target = calloc(1, sizeof(*target));

	if (!target)
		return NULL;
	trace_object_init(&target->trace, TRACE_OBJECT_MGMT_TARGET);
	target->mgmt = mgmt;
	target->heard = reactor_now();
	target->name = trace_intern_foreign(address);
	must(text_copy(target->address, sizeof(target->address), address) == 0);
	return target;
}

static void free_target(struct mgmt_target *target)
{
	deadline_clear(&target->mgmt->deadlines, &target->deadline);
	free(target);
}

/* Drop a target whose address no member has any more. During a call, the end of the call frees it. */
static void drop_target(struct mgmt_target *target)
{
	must(!target->is_gone);
	if (target->state == MGMT_TARGET_SENDING) {
		target->is_gone = true;
		TAILQ_INSERT_TAIL(&target->mgmt->gone_targets, target, link);
	} else {
		free_target(target);
	}
}

/* The addresses of all members, sorted and unique. Servers of excluded members are included: they need the map, too. */
static size_t find_addresses(const struct system *system, const char **addresses)
{
	size_t count = system_member_count(system), unique = 0;

	for (size_t i = 0; i < count; i++)
		addresses[i] = system_member_at(system, i)->address;
	qsort(addresses, count, sizeof(*addresses), compare_texts);
	for (size_t i = 0; i < count; i++) {
		if (unique == 0 || strcmp(addresses[i], addresses[unique - 1]) != 0)
			addresses[unique++] = addresses[i];
	}
	must(unique <= count);
	must((unique == 0) == (count == 0));
	return unique;
}

/* Build the new targets. Both lists are sorted; existing targets are kept with their state. */
static int merge_targets(struct mgmt *mgmt, const char *const *addresses, size_t count, struct mgmt_target **targets)
{
	size_t old = 0;

	for (size_t i = 0; i < count; i++) {
		must(i == 0 || strcmp(addresses[i - 1], addresses[i]) < 0);
		while (old < mgmt->target_count && strcmp(mgmt->targets[old]->address, addresses[i]) < 0)
			old++;
		if (old < mgmt->target_count && strcmp(mgmt->targets[old]->address, addresses[i]) == 0)
			targets[i] = mgmt->targets[old];
		else
			targets[i] = create_target(mgmt, addresses[i]);
		if (!targets[i])
			return -ENOMEM;
	}
	return 0;
}

/* `targets` must be sorted by address. NULL: none has the address. */
static struct mgmt_target *find_target(struct mgmt_target *const *targets, size_t count, const char *address)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = (low + high) / 2;
		must(low == 0 || strcmp(targets[low - 1]->address, address) < 0);
		int order = strcmp(targets[middle]->address, address);

		if (order == 0)
			return targets[middle];
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

static void drop_others(struct mgmt_target **of, size_t of_count, struct mgmt_target *const *than, size_t than_count)
{
	for (size_t i = 0; i < of_count; i++) {
		if (of[i] && !find_target(than, than_count, of[i]->address))
			drop_target(of[i]);
	}
}

static int update_targets(struct mgmt *mgmt)
{
	size_t members = system_member_count(mgmt->system), count;
	const char **addresses = calloc(members + 1, sizeof(*addresses));
	struct mgmt_target **targets = calloc(members + 1, sizeof(*targets));
	int error = addresses && targets ? 0 : -ENOMEM;

	if (!error) {
		count = find_addresses(mgmt->system, addresses);
		error = merge_targets(mgmt, addresses, count, targets);
		if (error) {
			drop_others(targets, count, mgmt->targets, mgmt->target_count);
		} else {
			drop_others(mgmt->targets, mgmt->target_count, targets, count);
			free(mgmt->targets);
			mgmt->targets = targets;
			mgmt->target_count = count;
			mgmt->target_next = 0;
			targets = NULL;
		}
	}
	free(addresses);
	free(targets);
	return error;
}

/* ---- sending ---- */

static void resume_target(struct deadline *deadline)
{
	struct mgmt_target *target = container_of(deadline, struct mgmt_target, deadline);

	must(!target->is_gone); /* it is freed instead of paused */
	mgmt_target_state_move(reactor_now(), target, MGMT_TARGET_CURRENT);
	start_map_calls(target->mgmt);
}

static void pause_target(struct mgmt_target *target)
{
	uint64_t doublings;

	must(!target->is_gone);
	must(!target->deadline.set);
	doublings = min_u64(target->failures++, PAUSE_DOUBLINGS_MAX);
	target->mgmt->stats.map_failures++;
	mgmt_target_state_move(reactor_now(), target, MGMT_TARGET_WAITING);
	deadline_set(&target->mgmt->deadlines, &target->deadline, (PAUSE_MS << doublings) * NS_PER_MS, resume_target);
}

static void map_call_done(void *ctx, const struct grpc_result *result)
{
	const Mgmt__GroupUpdateResp *response = (const Mgmt__GroupUpdateResp *)result->response;
	struct mgmt_target *target = ctx;
	struct mgmt *mgmt = target->mgmt;
	struct fathom_fault why = { 0 };
	int error = 0;

	must(target->state == MGMT_TARGET_SENDING);
	must(mgmt->map_calls > 0);
	must(mgmt->doubtful_calls >= target->is_doubtful);
	must(mgmt->doubtful_calls <= mgmt->map_calls);
	if (result->code != GRPC_OK) {
		fault_from_result(result, target->address, &why);
		error = why.error;
	} else if (response->status != 0) {
		error = -EREMOTEIO;
	}
	mgmt->map_calls--;
	mgmt->doubtful_calls -= target->is_doubtful;
	probe_mgmt_map_sent(reactor_now(), target, target->name, target->sent, error);
	if (target->is_gone) {
		mgmt_target_state_move(reactor_now(), target, MGMT_TARGET_CURRENT);
		TAILQ_REMOVE(&mgmt->gone_targets, target, link);
		free_target(target);
	} else if (error) {
		pause_target(target);
	} else {
		mgmt_target_state_move(reactor_now(), target, MGMT_TARGET_CURRENT);
		target->acknowledged = target->sent;
		target->failures = 0;
	}
	start_map_calls(mgmt);
}

static bool is_doubtful(const struct mgmt_target *target)
{
	return target->failures > 0 || target->is_silent;
}

static void send_map(struct mgmt_target *target)
{
	struct mgmt *mgmt = target->mgmt;
	int error;

	must(mgmt->map && mgmt->map->request.map_version == mgmt->map_version);
	must(mgmt->map_calls < MGMT_PARALLEL_MAX);
	must(!target->is_gone);
	target->sent = mgmt->map_version;
	mgmt_target_state_move(reactor_now(), target, MGMT_TARGET_SENDING);
	error = inject(INJECT_GROUP_SEND);
	if (!error)
		error = mgmt_call(mgmt,
				  &(struct grpc_request){
					  .address = target->address,
					  .path = PATH,
					  .message = &mgmt->map->request.base,
					  .response = &mgmt__group_update_resp__descriptor,
					  .timeout_ns = TIMEOUT_S * NS_PER_SEC,
					  .done = map_call_done,
					  .ctx = target,
				  },
				  NULL);
	if (error) {
		probe_mgmt_map_sent(reactor_now(), target, target->name, target->sent, error);
		pause_target(target);
		return;
	}
	target->is_doubtful = is_doubtful(target);
	mgmt->doubtful_calls += target->is_doubtful;
	must(mgmt->doubtful_calls <= MGMT_DOUBTFUL_MAX);
	mgmt->map_calls++;
	mgmt->stats.map_calls++;
}

/* Start calls up to the limits. Calls to doubtful servers have a lower limit, because each may last until its time-out. */
static void start_map_calls(struct mgmt *mgmt)
{
	for (size_t i = 0; i < mgmt->target_count && mgmt->map_calls < MGMT_PARALLEL_MAX; i++) {
		struct mgmt_target *target = mgmt->targets[mgmt->target_next++ % mgmt->target_count];

		if (target->state == MGMT_TARGET_CURRENT && target->acknowledged != mgmt->map_version &&
		    (!is_doubtful(target) || mgmt->doubtful_calls < MGMT_DOUBTFUL_MAX))
			send_map(target);
	}
}

static void begin_map_update(struct deadline *deadline)
{
	struct mgmt *mgmt = container_of(deadline, struct mgmt, map_deadline);
	struct mgmt_map *map;

	if (mgmt->map_version != system_map_version(mgmt->system)) {
		map = make_map(mgmt->system);
		if (!map || update_targets(mgmt) < 0) {
			free_map(map);
			deadline_set(&mgmt->deadlines, deadline, PAUSE_MS * NS_PER_MS, begin_map_update);
			return;
		}
		must(map->request.map_version == system_map_version(mgmt->system));
		free_map(mgmt->map);
		mgmt->map = map;
		mgmt->map_version = map->request.map_version;
		mgmt->stats.map_updates++;
		probe_mgmt_map(reactor_now(), mgmt->map_version, (uint32_t)map->request.n_engines,
			       (uint32_t)mgmt->target_count);
	}
	start_map_calls(mgmt);
}

static void schedule_map_update(struct mgmt *mgmt)
{
	if (!mgmt->map_deadline.set)
		deadline_set(&mgmt->deadlines, &mgmt->map_deadline, SETTLE_MS * NS_PER_MS, begin_map_update);
}

void mgmt_map_changed(struct mgmt *mgmt)
{
	if (mgmt->map_version != system_map_version(mgmt->system))
		schedule_map_update(mgmt);
}

struct mgmt_target *mgmt_find_target(const struct mgmt *mgmt, const char *address)
{
	must(thread_self() == mgmt->home);
	return find_target(mgmt->targets, mgmt->target_count, address);
}

void mgmt_target_back(struct mgmt_target *target)
{
	if (target->state == MGMT_TARGET_WAITING) {
		target->failures = 0;
		deadline_clear(&target->mgmt->deadlines, &target->deadline);
		mgmt_target_state_move(reactor_now(), target, MGMT_TARGET_CURRENT);
	}
	schedule_map_update(target->mgmt);
}

void mgmt_map_forgotten(struct mgmt *mgmt, const char *address)
{
	struct mgmt_target *target = mgmt_find_target(mgmt, address);

	if (!target)
		return;
	target->acknowledged = target->sent = 0; /* a call under way may reach the previous process of that server */
	mgmt_target_back(target);
}

void mgmt_map_close(struct mgmt *mgmt)
{
	struct mgmt_target *target;

	/* also targets with a call under way: mgmt_call() does not call back after mgmt_close() */
	while ((target = TAILQ_FIRST(&mgmt->gone_targets))) {
		TAILQ_REMOVE(&mgmt->gone_targets, target, link);
		free_target(target);
	}
	for (size_t i = 0; i < mgmt->target_count; i++)
		free_target(mgmt->targets[i]);
	free(mgmt->targets);
	free_map(mgmt->map);
}
