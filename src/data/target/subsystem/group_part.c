/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * group_part - a poll group's part of a subsystem: namespaces, commands in flight, waiting commands.
 *
 * Visits carry out the subsystem's state changes on all groups. `outstanding` counts commands that use namespaces, and
 * admin commands that report them. A pause ends when it is 0. Deactivation also waits until the group has no queue pair of
 * the subsystem. Both have a deadline: then a pause fails, and a deactivation gives up the commands at devices.
 */
#include <errno.h>
#include <stdlib.h>

#include "data/target/probes.gen.h"
#include "data/target/request/internal.h"
#include "data/target/subsystem/subsystem.h"

enum { LEAVE_MS_MIN = 100 };

static void change_begin(const struct nvmf_subsystem *subsystem, enum nvmf_subsystem_state requested,
			 const struct nvmf_poll_group *group)
{
	probe_nvmf_pg_change_state(reactor_now(), subsystem->nqn_istr, requested, thread_id(group->thread));
}

static void change_done(const struct nvmf_subsystem *subsystem, enum nvmf_subsystem_state requested,
			const struct nvmf_poll_group *group, struct channel_iter *iter, int status)
{
	probe_nvmf_pg_change_state_done(reactor_now(), subsystem->nqn_istr, requested, thread_id(group->thread));
	channel_iter_next(iter, status);
}

/* ---- visits ---- */

static struct nvmf_group_subsystem *part_create(struct nvmf_poll_group *group, struct nvmf_subsystem *subsystem)
{
	uint32_t ns_count = subsystem->options.max_namespaces;
	struct nvmf_group_subsystem *part = calloc(1, sizeof(*part) + ns_count * sizeof(struct nvmf_group_ns *));

	if (!part)
		return NULL;
	part->subsystem = subsystem;
	part->group = group;
	part->ns_count = ns_count;
	TAILQ_INIT(&part->waiting);
	TAILQ_INIT(&part->quiescing);
	return part;
}

/*
 * Take all namespaces; they do not change while the subsystem starts. On an error some are taken: the start then fails and
 * deactivates the part.
 */
static int take_namespaces(struct nvmf_group_subsystem *part)
{
	int rc = 0;

	must(part->ns_count == part->subsystem->options.max_namespaces);
	for (uint32_t nsid = 1; nsid <= part->ns_count && rc == 0; nsid++) {
		const struct nvmf_ns *ns = nvmf_subsystem_ns(part->subsystem, nsid);

		if (ns)
			rc = nvmf_group_ns_take(part, ns);
	}
	return rc;
}

void nvmf_group_activate(struct channel_iter *iter, struct channel *channel, void *ctx)
{
	struct nvmf_poll_group *group = nvmf_group_of(channel);
	struct nvmf_subsystem *subsystem = ctx;
	struct nvmf_group_subsystem *part;
	int rc;

	change_begin(subsystem, NVMF_SUBSYSTEM_ACTIVE, group);
	must(!group->subsystems[subsystem->id]);
	part = part_create(group, subsystem);
	if (!part) {
		change_done(subsystem, NVMF_SUBSYSTEM_ACTIVE, group, iter, -ENOMEM);
		return;
	}
	group->subsystems[subsystem->id] = part;
	probe_nvmf_poll_group_add_subsystem(reactor_now(), group, thread_id(group->thread), subsystem->nqn_istr);
	rc = take_namespaces(part);
	part->active = rc == 0;
	change_done(subsystem, NVMF_SUBSYSTEM_ACTIVE, group, iter, rc);
}

static void pause_expired(struct nvmf_drain *drain)
{
	struct nvmf_group_subsystem *part = container_of(drain, struct nvmf_group_subsystem, drain);
	struct channel_iter *iter = part->pausing;

	must(iter);
	must(part->outstanding > 0);
	part->pausing = NULL;
	change_done(part->subsystem, NVMF_SUBSYSTEM_PAUSED, part->group, iter, -ETIMEDOUT);
}

void nvmf_group_pause(struct channel_iter *iter, struct channel *channel, void *ctx)
{
	struct nvmf_poll_group *group = nvmf_group_of(channel);
	struct nvmf_subsystem *subsystem = ctx;
	struct nvmf_group_subsystem *part = group->subsystems[subsystem->id];

	must(part);
	must(part->active);
	change_begin(subsystem, NVMF_SUBSYSTEM_PAUSED, group);
	must(!part->pausing);
	must(!part->leaving);
	part->active = false;
	part->pausing = iter;
	if (part->outstanding > 0)
		nvmf_drain_arm(group, &part->drain,
			       part->deadline_cap != 0 ? part->deadline_cap : nvmf_drain_deadline(nvmf_tgt.drain_ms),
			       pause_expired);
	nvmf_group_subsystem_check(part);
}

/*
 * Run the waiting commands in the order of arrival. One that fails may end others, so a saved `next` could dangle: always
 * take the first.
 */
static void run_waiting(struct nvmf_group_subsystem *part)
{
	struct nvmf_req *req;
	uint64_t now = reactor_now();

	must(part->active);
	while (part->active && (req = TAILQ_FIRST(&part->waiting)) != NULL) {
		must(req->qpair->subsystem == part);
		TAILQ_REMOVE(&part->waiting, req, wait_link);
		nvmf_req_go_on(req, now);
	}
}

void nvmf_group_resume(struct channel_iter *iter, struct channel *channel, void *ctx)
{
	struct nvmf_poll_group *group = nvmf_group_of(channel);
	struct nvmf_subsystem *subsystem = ctx;
	struct nvmf_group_subsystem *part = group->subsystems[subsystem->id];

	must(part);
	must(!part->pausing);
	maybe(part->active); /* the pause may have failed on another group before this one was visited */
	change_begin(subsystem, NVMF_SUBSYSTEM_ACTIVE, group);
	part->active = true;
	change_done(subsystem, NVMF_SUBSYSTEM_ACTIVE, group, iter, 0);
	run_waiting(part);
}

/* Limit all drain deadlines of the part to part->deadline_cap. */
static void hurry_drains(struct nvmf_group_subsystem *part)
{
	struct nvmf_qpair *qpair;
	struct nvmf_group_ns *here;

	must(part->deadline_cap != 0);
	nvmf_drain_hurry(&part->drain, part->deadline_cap);
	TAILQ_FOREACH (here, &part->quiescing, link)
		nvmf_drain_hurry(&here->drain, part->deadline_cap);
	TAILQ_FOREACH (qpair, &part->group->qpairs, group_link) {
		if (qpair->subsystem == part)
			nvmf_qpair_hurry(qpair, part->deadline_cap);
	}
}

struct hurrying {
	struct nvmf_poll_group *group;
	uint32_t id; /* of the subsystem; on arrival it may be freed and its id reused, but a new one is not active yet */
	uint64_t deadline_tick;
};

static void hurry_on_group(void *ctx)
{
	struct hurrying *hurrying = ctx;
	struct nvmf_group_subsystem *part = hurrying->group->subsystems[hurrying->id];

	if (part) {
		part->deadline_cap = hurrying->deadline_tick;
		hurry_drains(part);
	}
	free(hurrying);
}

void nvmf_group_hurry_all(const struct nvmf_subsystem *subsystem, uint64_t deadline_tick)
{
	must_be_on(thread_control());
	for (unsigned int i = 0; i < nvmf_tgt.group_count; i++) {
		struct hurrying *hurrying = nvmf_alloc(sizeof(*hurrying));

		hurrying->group = nvmf_tgt.groups[i];
		hurrying->id = subsystem->id;
		hurrying->deadline_tick = deadline_tick;
		thread_send_msg(hurrying->group->thread, hurry_on_group, hurrying);
	}
}

void nvmf_group_deactivate(struct channel_iter *iter, struct channel *channel, void *ctx)
{
	struct nvmf_poll_group *group = nvmf_group_of(channel);
	struct nvmf_subsystem *subsystem = ctx;
	struct nvmf_group_subsystem *part = group->subsystems[subsystem->id];
	struct nvmf_qpair *qpair, *next;

	change_begin(subsystem, NVMF_SUBSYSTEM_INACTIVE, group);
	if (!part) {
		change_done(subsystem, NVMF_SUBSYSTEM_INACTIVE, group, iter, 0);
		return;
	}
	must(!part->pausing);
	must(!part->leaving);
	part->active = false;
	part->leaving = iter;
	/*
	 * Groups are visited in turn, and earlier ones may have used up the time. Give devices of this group LEAVE_MS_MIN.
	 */
	part->deadline_cap = max_u64(subsystem->deadline_tick, nvmf_drain_deadline(LEAVE_MS_MIN));
	hurry_drains(part);
	TAILQ_FOREACH_SAFE (qpair, &group->qpairs, group_link, next) {
		if (qpair->subsystem == part)
			nvmf_qpair_disconnect(qpair, "the subsystem stops");
	}
	nvmf_group_subsystem_check(part);
}

static bool has_qpairs(const struct nvmf_group_subsystem *part)
{
	const struct nvmf_qpair *qpair;

	TAILQ_FOREACH (qpair, &part->group->qpairs, group_link) {
		if (qpair->subsystem == part)
			return true;
	}
	return false;
}

static void part_destroy(struct nvmf_group_subsystem *part)
{
	struct nvmf_subsystem *subsystem = part->subsystem;
	struct nvmf_poll_group *group = part->group;

	must(!part->active);
	must(part->outstanding == 0);
	must(TAILQ_EMPTY(&part->waiting));
	must(group->subsystems[subsystem->id] == part);
	for (uint32_t i = 0; i < part->ns_count; i++) {
		if (part->ns[i])
			nvmf_group_ns_quiesce(part->ns[i], part->deadline_cap, NULL, NULL);
	}
	must(TAILQ_EMPTY(&part->quiescing));
	nvmf_counters_add(&subsystem->counters, &part->counters);
	group->subsystems[subsystem->id] = NULL;
	probe_nvmf_poll_group_remove_subsystem(reactor_now(), group, thread_id(group->thread), subsystem->nqn_istr);
	free(part);
}

void nvmf_group_subsystem_check(struct nvmf_group_subsystem *part)
{
	struct nvmf_subsystem *subsystem = part->subsystem;
	struct nvmf_poll_group *group = part->group;
	struct channel_iter *iter;

	must_be_on(group->thread);
	maybe(part->active); /* a queue pair may close at any time */
	must(!part->active || (!part->pausing && !part->leaving));
	if (part->outstanding > 0)
		return;
	if (part->pausing) {
		iter = part->pausing;
		part->pausing = NULL;
		nvmf_drain_disarm(group, &part->drain);
		change_done(subsystem, NVMF_SUBSYSTEM_PAUSED, group, iter, 0);
	}
	if (part->leaving && !has_qpairs(part)) {
		iter = part->leaving;
		part_destroy(part);
		change_done(subsystem, NVMF_SUBSYSTEM_INACTIVE, group, iter, 0);
	}
}
