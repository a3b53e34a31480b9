/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * group_ns - a poll group's hold on a namespace.
 *
 *   ACTIVE      in the table of the group's part: commands find it
 *   QUIESCING   out of the table: new commands end with Invalid Namespace; those at its device are drained
 *   LENT        the drain expired and gave them up (request/parking.c); the channel stays until the device returns them
 *   GONE        the channel is put, and a message sent to the control thread
 *
 * A LENT hold has no part: the subsystem may be destroyed, and created again, before the device answers.
 */
#include <errno.h>
#include <stdlib.h>

#include "data/target/probes.gen.h"
#include "data/target/request/internal.h"
#include "data/target/subsystem/subsystem.h"

static void move_state(struct nvmf_group_ns *here, enum nvmf_group_ns_state to)
{
	nvmf_group_ns_state_move(reactor_now(), here, to);
}

/* Copy the data that I/O needs; but for its length and `read_only` the device's properties are constant. */
static void copy_device(struct nvmf_group_ns *here, const struct nvmf_ns *ns)
{
	const struct bdev *bdev = ns->bdev;

	must(is_power_of_two(bdev->block_bytes));
	must(bdev->block_bytes >= BDEV_BLOCK_BYTES_MIN);
	here->ns = ns;
	here->block_count = bdev_block_count(bdev);
	here->block_shift = (uint8_t)__builtin_ctz(bdev->block_bytes);
	here->read_only = bdev_is_read_only(bdev);
	here->write_cache = bdev->write_cache;
	here->durable_writes = bdev->durable_writes;
	here->inline_done = bdev->completes_inline;
	here->reads_zeroes = bdev->reads_zeroes;
}

int nvmf_group_ns_take(struct nvmf_group_subsystem *part, const struct nvmf_ns *ns)
{
	struct nvmf_group_ns *here;
	int error;

	must_be_on(part->group->thread);
	must(ns->nsid >= 1);
	must(ns->nsid <= part->ns_count);
	must(!part->ns[ns->nsid - 1]);
	here = calloc(1, sizeof(*here));
	if (!here)
		return -ENOMEM;
	trace_object_init(&here->trace, TRACE_OBJECT_NVMF_GROUP_NS);
	here->group = part->group;
	here->channel = bdev_channel_get(ns->desc);
	if (!here->channel) {
		error = errno ? -errno : -ENOMEM;
		move_state(here, NVMF_GROUP_NS_GONE);
		free(here);
		return error;
	}
	copy_device(here, ns);
	here->part = part;
	move_state(here, NVMF_GROUP_NS_ACTIVE);
	part->ns[ns->nsid - 1] = here;
	thread_send_msg(thread_control(), nvmf_ns_held, (void *)(uintptr_t)ns);
	return 0;
}

static void release_hold(struct nvmf_group_ns *here)
{
	must(here->outstanding == 0);
	must(here->parked == 0);
	must(!here->left);
	move_state(here, NVMF_GROUP_NS_GONE);
	bdev_channel_put(here->channel);
	thread_send_msg(thread_control(), nvmf_ns_released, (void *)(uintptr_t)here->ns);
	free(here);
}

void nvmf_group_ns_check(struct nvmf_group_ns *here)
{
	void (*left)(void *ctx) = here->left;
	void *ctx = here->left_ctx;

	must_be_on(here->group->thread);
	if (here->outstanding > 0 || here->state == NVMF_GROUP_NS_ACTIVE)
		return;
	if (here->state == NVMF_GROUP_NS_QUIESCING) {
		nvmf_drain_disarm(here->group, &here->drain);
		TAILQ_REMOVE(&here->part->quiescing, here, link);
		here->part = NULL;
		here->left = NULL;
		if (here->parked > 0)
			move_state(here, NVMF_GROUP_NS_LENT);
		else
			release_hold(here);
		if (left)
			left(ctx);
		return;
	}
	must(here->state == NVMF_GROUP_NS_LENT);
	if (here->parked == 0)
		release_hold(here);
}

/* The drain of a removal expired: answer the commands at the device with Internal Error. */
static void give_up_commands(struct nvmf_drain *drain)
{
	struct nvmf_group_ns *here = container_of(drain, struct nvmf_group_ns, drain);
	struct nvmf_poll_group *group = here->group;
	uint64_t now = reactor_now();
	struct nvmf_qpair *qpair;

	must(here->state == NVMF_GROUP_NS_QUIESCING);
	must(here->outstanding > 0);
	here->outstanding++; /* a reference: nvmf_qpair_give_up() must not free `here` */
	TAILQ_FOREACH (qpair, &group->qpairs, group_link)
		nvmf_qpair_give_up(qpair, here, NVME_SC_INTERNAL_ERROR, now);
	here->outstanding--;
	must(here->outstanding == 0);
	nvmf_group_ns_check(here);
}

void nvmf_group_ns_quiesce(struct nvmf_group_ns *here, uint64_t deadline_tick, void (*left)(void *ctx), void *ctx)
{
	struct nvmf_group_subsystem *part = here->part;
	uint32_t nsid = here->ns->nsid;

	must_be_on(here->group->thread);
	must(part->ns[nsid - 1] == here);
	part->ns[nsid - 1] = NULL;
	move_state(here, NVMF_GROUP_NS_QUIESCING);
	probe_nvmf_group_ns_quiesce(reactor_now(), here, nsid, here->outstanding, thread_id(here->group->thread));
	here->left = left;
	here->left_ctx = ctx;
	TAILQ_INSERT_TAIL(&part->quiescing, here, link);
	if (here->outstanding > 0) {
		if (part->deadline_cap != 0)
			deadline_tick = min_u64(deadline_tick, part->deadline_cap);
		nvmf_drain_arm(here->group, &here->drain, deadline_tick, give_up_commands);
	}
	nvmf_group_ns_check(here);
}
