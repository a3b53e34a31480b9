/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * drain - how long a poll group waits for block devices.
 *
 * A namespace that goes, a queue pair that closes and a subsystem that pauses wait for commands that a block device has.
 * Each such wait is a drain with a deadline. One poller of the group looks at all of them, and exists only while there are
 * any. A drain that expires gives up what it waits for (request/parking.c), so no device can hold up more than its own
 * commands.
 */
#include <stdlib.h>

#include "data/target/probes.gen.h"

enum { POLL_MS = 10 };

static int poll(void *ctx)
{
	struct nvmf_poll_group *group = ctx;
	uint64_t now = reactor_now();
	struct nvmf_drain *drain;
	int count = 0;

	must_be_on(group->thread);
	/* From the first again each time: one that expires may end others. */
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
		group->drain_poller = poller_register("nvmf_drain", poll, group, POLL_MS * NS_PER_MS);
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
