/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * group_part - a poll group's part of a subsystem: what its I/O needs, what is under way, what waits.
 *
 * Each visit runs on the group's thread while the control thread waits, so the subsystem may be read. `outstanding` counts
 * the commands that use namespaces or read the view; a pause ends when it is 0. Deactivation ends when, besides, no queue
 * pair of the subsystem is left on the group.
 */
#include <errno.h>
#include <stdlib.h>

#include "target/probes.gen.h"
#include "target/request/internal.h"
#include "target/subsystem/subsystem.h"

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

/* ---- namespaces ---- */

static void ns_drop(struct nvmf_group_ns *here)
{
	if (here->channel)
		bdev_channel_put(here->channel);
	*here = (struct nvmf_group_ns){ 0 };
}

static int ns_take(struct nvmf_group_ns *here, const struct nvmf_ns *ns)
{
	must(!here->channel);
	must(is_power_of_two(ns->bdev->block_bytes));
	must(ns->bdev->block_bytes >= BDEV_BLOCK_BYTES_MIN);
	must(ns->generation != 0);
	here->channel = bdev_channel_get(ns->desc);
	if (!here->channel)
		return -ENOMEM;
	here->generation = ns->generation;
	here->block_count = ns->bdev->block_count;
	here->block_shift = (uint8_t)__builtin_ctz(ns->bdev->block_bytes);
	here->read_only = ns->bdev->read_only;
	here->write_cache = ns->bdev->write_cache;
	here->inline_done = ns->bdev->completes_inline;
	here->reads_zeroes = ns->bdev->reads_zeroes;
	return 0;
}

/* Bring the group's namespaces up to date. On an error some are and some are not; the next call mends that. */
static int follow(struct nvmf_group_subsystem *part)
{
	int rc;

	must_be_on(part->group->thread);
	must(!part->active);
	must(part->outstanding == 0);
	must(part->ns_count == part->subsystem->options.max_namespaces);
	for (uint32_t nsid = 1; nsid <= part->ns_count; nsid++) {
		struct nvmf_group_ns *here = &part->ns[nsid - 1];
		const struct nvmf_ns *ns = nvmf_subsystem_ns(part->subsystem, nsid);

		if (here->channel && (!ns || here->generation != ns->generation))
			ns_drop(here);
		if (ns && !here->channel) {
			rc = ns_take(here, ns);
			if (rc)
				return rc;
		}
	}
	return 0;
}

/* ---- visits ---- */

static struct nvmf_group_subsystem *part_create(struct nvmf_poll_group *group, struct nvmf_subsystem *subsystem)
{
	uint32_t ns_count = subsystem->options.max_namespaces;
	struct nvmf_group_subsystem *part = calloc(1, sizeof(*part) + ns_count * sizeof(part->ns[0]));

	if (!part)
		return NULL;
	part->subsystem = subsystem;
	part->group = group;
	part->ns_count = ns_count;
	TAILQ_INIT(&part->waiting);
	return part;
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
	rc = follow(part);
	part->active = rc == 0;
	change_done(subsystem, NVMF_SUBSYSTEM_ACTIVE, group, iter, rc);
}

void nvmf_group_pause(struct channel_iter *iter, struct channel *channel, void *ctx)
{
	struct nvmf_poll_group *group = nvmf_group_of(channel);
	struct nvmf_subsystem *subsystem = ctx;
	struct nvmf_group_subsystem *part = group->subsystems[subsystem->id];

	must(part);
	maybe(part->active); /* not if another group could not resume before this one was asked to */
	change_begin(subsystem, NVMF_SUBSYSTEM_PAUSED, group);
	must(!part->pausing);
	must(!part->leaving);
	part->active = false;
	part->pausing = iter;
	nvmf_group_subsystem_check(part);
}

/* Commands that waited run, in the order they came. Some may be refused and free others: always the first. */
static void release(struct nvmf_group_subsystem *part)
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
	int rc = 0;

	must(part);
	change_begin(subsystem, NVMF_SUBSYSTEM_ACTIVE, group);
	if (!part->active) {
		rc = follow(part);
		part->active = rc == 0;
	}
	change_done(subsystem, NVMF_SUBSYSTEM_ACTIVE, group, iter, rc);
	if (part->active)
		release(part);
}

void nvmf_group_follow(struct channel_iter *iter, struct channel *channel, void *ctx)
{
	struct nvmf_poll_group *group = nvmf_group_of(channel);
	struct nvmf_subsystem *subsystem = ctx;
	struct nvmf_group_subsystem *part = group->subsystems[subsystem->id];

	must(part);
	must(!part->active);
	channel_iter_next(iter, follow(part));
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
	for (uint32_t i = 0; i < part->ns_count; i++)
		ns_drop(&part->ns[i]);
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
	maybe(part->active); /* a queue pair may go at any time */
	must(!part->active || (!part->pausing && !part->leaving));
	if (part->outstanding > 0)
		return;
	if (part->pausing) {
		iter = part->pausing;
		part->pausing = NULL;
		change_done(subsystem, NVMF_SUBSYSTEM_PAUSED, group, iter, 0);
	}
	if (part->leaving && !has_qpairs(part)) {
		iter = part->leaving;
		part_destroy(part);
		change_done(subsystem, NVMF_SUBSYSTEM_INACTIVE, group, iter, 0);
	}
}
