/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * drain - deadlines for a poll group's waits on block devices.
 *
 * Removing a namespace, closing a queue pair and pausing a subsystem wait for commands at a block device. Each such wait
 * is a drain with a deadline. One poller per group checks all drains; it exists only while drains are armed. When a drain
 * expires, its commands are given up (request/parking.c) or the pause fails. So a hung device blocks only its own
 * commands.
 */
#include <stdlib.h>

#include "data/target/probes.gen.h"

enum { POLL_MS = 10 };

static int poll_drains(void *ctx)
{
	struct nvmf_poll_group *group = ctx;
	uint64_t now = reactor_now();
	struct nvmf_drain *drain;
	int count = 0;

	must_be_on(group->thread);
	/* Restart from the first each time: expired() may disarm others, so a saved `next` could dangle. */
	do {
		TAILQ_FOREACH (drain, &group->drains, link) {
			if (now >= drain->deadline_tick)
				break;
		}
		if (drain) {
			nvmf_drain_disarm(group, drain);
			drain->expired(drain);
			count++;
		}
	} while (drain);
	return count;
}

void nvmf_drain_arm(struct nvmf_poll_group *group, struct nvmf_drain *drain, uint64_t deadline_tick,
		    void (*expired)(struct nvmf_drain *drain))
{
	must_be_on(group->thread);
	must(deadline_tick > 0);
	must(drain->deadline_tick == 0);
	drain->deadline_tick = deadline_tick;
	drain->expired = expired;
	if (TAILQ_EMPTY(&group->drains)) {
		must(!group->drain_poller);
		group->drain_poller = poller_register("nvmf_drain", poll_drains, group, POLL_MS * NS_PER_MS);
		must(group->drain_poller);
	}
	TAILQ_INSERT_TAIL(&group->drains, drain, link);
}

void nvmf_drain_disarm(struct nvmf_poll_group *group, struct nvmf_drain *drain)
{
	must_be_on(group->thread);
	if (drain->deadline_tick == 0)
		return;
	drain->deadline_tick = 0;
	TAILQ_REMOVE(&group->drains, drain, link);
	if (TAILQ_EMPTY(&group->drains))
		poller_unregister(&group->drain_poller);
}

void nvmf_drain_hurry(struct nvmf_drain *drain, uint64_t deadline_tick)
{
	must(deadline_tick > 0);
	if (drain->deadline_tick > deadline_tick)
		drain->deadline_tick = deadline_tick;
}

uint64_t nvmf_drain_deadline(uint32_t ms)
{
	return reactor_now() + clock_ticks_from_ns((uint64_t)ms * NS_PER_MS);
}
