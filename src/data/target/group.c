/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * group - poll groups: a light thread on each data reactor. Each has a channel to the target, so for_each_channel() visits
 * them.
 *
 * New connections are spread by load. The control thread counts the connections of each group, and how many became I/O
 * queues. So the I/O queues of a host are spread over the groups, also if there are few.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "data/target/probes.gen.h"

/* ---- life ---- */

static void group_free(struct nvmf_poll_group *group)
{
	nvmf_accounts_free(group);
	free(group->subsystems);
	free(group);
}

static struct nvmf_poll_group *group_create(unsigned int index)
{
	struct nvmf_poll_group *group;
	size_t bytes = round_up(sizeof(*group), CACHE_LINE_BYTES);

	group = aligned_alloc(CACHE_LINE_BYTES, bytes);
	if (!group)
		return NULL;
	*group = (struct nvmf_poll_group){ .index = index };
	group->subsystems = calloc(NVMF_SUBSYSTEMS_MAX, sizeof(*group->subsystems));
	if (!group->subsystems) {
		free(group);
		return NULL;
	}
	trace_object_init(&group->trace, TRACE_OBJECT_NVMF_POLL_GROUP);
	TAILQ_INIT(&group->qpairs);
	TAILQ_INIT(&group->parked_qpairs);
	TAILQ_INIT(&group->drains);
	TAILQ_INIT(&group->accounts);
	snprintf(group->name, sizeof(group->name), "nvmf_tgt_poll_group_%03u", index);
	group->thread = thread_create(group->name, reactor_at(index));
	if (!group->thread) {
		group_free(group);
		return NULL;
	}
	probe_nvmf_create_poll_group(reactor_now(), group, thread_id(group->thread));
	return group;
}

static int channel_create(void *device, void *channel_ctx)
{
	struct nvmf_poll_group **group_ret = channel_ctx;

	for (unsigned int i = 0; i < nvmf_tgt.group_count; i++) {
		if (nvmf_tgt.groups[i]->thread == thread_self())
			*group_ret = nvmf_tgt.groups[i];
	}
	must(*group_ret);
	return 0;
}

/* Frees the group. Until the channel is destroyed, for_each_channel() may still visit it. */
static void channel_destroy(void *device, void *channel_ctx)
{
	group_free(*(struct nvmf_poll_group **)channel_ctx);
}

/* State of nvmf_groups_create(); one instance, since there is one target. Control thread only. */
static struct {
	void (*done)(int status);
	unsigned int waited_for;
	int status;
} creation;

static void all_created(void *unused)
{
	creation.done(creation.status);
}

static void group_joined(void *ctx)
{
	const struct nvmf_poll_group *group = ctx;

	must_be_on(thread_control());
	must(creation.waited_for > 0);
	if (!group->channel)
		creation.status = -ENOMEM;
	if (--creation.waited_for == 0)
		all_created(NULL);
}

static void group_join(void *ctx)
{
	struct nvmf_poll_group *group = ctx;

	must_be_on(group->thread);
	group->channel = channel_get(&nvmf_tgt);
	thread_send_msg(thread_control(), group_joined, group);
}

void nvmf_groups_create(void (*done)(int status))
{
	unsigned int count = reactors_count();

	must_be_on(thread_control());
	must(count > 0);
	must(nvmf_tgt.group_count == 0);
	must(!nvmf_tgt.groups);
	device_register(&nvmf_tgt, channel_create, channel_destroy, sizeof(struct nvmf_poll_group *), "nvmf_tgt");
	nvmf_tgt.groups = nvmf_alloc(count * sizeof(struct nvmf_poll_group *));
	creation.done = done;
	creation.status = 0;
	for (unsigned int i = 0; i < count && creation.status == 0; i++) {
		nvmf_tgt.groups[i] = group_create(i);
		if (nvmf_tgt.groups[i])
			nvmf_tgt.group_count = i + 1;
		else
			creation.status = -ENOMEM;
	}
	creation.waited_for = nvmf_tgt.group_count;
	for (unsigned int i = 0; i < nvmf_tgt.group_count; i++)
		thread_send_msg(nvmf_tgt.groups[i]->thread, group_join, nvmf_tgt.groups[i]);
	if (nvmf_tgt.group_count == 0)
		thread_send_msg(thread_control(), all_created, NULL);
}

static void group_exit(void *ctx)
{
	struct nvmf_poll_group *group = ctx;

	must_be_on(group->thread);
	must(TAILQ_EMPTY(&group->qpairs));
	must(group->current_qpairs == 0);
	must(!group->emptied);
	must(!group->returned);
	must(TAILQ_EMPTY(&group->parked_qpairs));
	must(TAILQ_EMPTY(&group->drains));
	must(!group->drain_poller);
	for (uint32_t i = 0; i < NVMF_SUBSYSTEMS_MAX; i++)
		must(!group->subsystems[i]);
	for (uint32_t i = 0; i < NVMF_TRANSPORTS_MAX; i++)
		must(!group->transport_states[i]);
	probe_nvmf_destroy_poll_group(reactor_now(), group, thread_id(group->thread));
	thread_exit(group->thread);
	if (group->channel)
		channel_put(group->channel);
	else
		group_free(group);
}

void nvmf_groups_destroy(void (*done)(void *unused))
{
	struct nvmf_poll_group **groups = nvmf_tgt.groups;
	unsigned int count = nvmf_tgt.group_count;

	nvmf_tgt.groups = NULL;
	nvmf_tgt.group_count = 0;
	for (unsigned int i = 0; i < count; i++)
		thread_send_msg(groups[i]->thread, group_exit, groups[i]);
	device_unregister(&nvmf_tgt, done);
	free(groups);
}

void nvmf_group_close_qpairs(struct channel_iter *iter, struct channel *channel, void *ctx)
{
	struct nvmf_poll_group *group = nvmf_group_of(channel);
	struct nvmf_qpair *qpair, *next;

	probe_nvmf_destroy_poll_group_qpairs(reactor_now(), group, thread_id(group->thread));
	must(!group->emptied);
	if (TAILQ_EMPTY(&group->qpairs)) {
		channel_iter_next(iter, 0);
		return;
	}
	group->emptied = iter;
	TAILQ_FOREACH_SAFE (qpair, &group->qpairs, group_link, next)
		nvmf_qpair_disconnect(qpair, "the target stops");
}

void nvmf_group_qpair_gone(struct nvmf_poll_group *group)
{
	struct channel_iter *iter = group->emptied;

	must_be_on(group->thread);
	must((group->current_qpairs == 0) == TAILQ_EMPTY(&group->qpairs));
	if (iter && TAILQ_EMPTY(&group->qpairs)) {
		group->emptied = NULL;
		channel_iter_next(iter, 0);
	}
}

void nvmf_group_wait_for_devices(struct channel_iter *iter, struct channel *channel, void *ctx)
{
	struct nvmf_poll_group *group = nvmf_group_of(channel);

	must(TAILQ_EMPTY(&group->qpairs));
	must(!group->returned);
	group->returned = iter;
	nvmf_group_check_returned(group);
}

void nvmf_group_check_returned(struct nvmf_poll_group *group)
{
	struct channel_iter *iter = group->returned;

	must_be_on(group->thread);
	if (iter && TAILQ_EMPTY(&group->parked_qpairs)) {
		group->returned = NULL;
		channel_iter_next(iter, 0);
	}
}

/* ---- destroy the transport states of a group, one after another ---- */

struct group_end {
	struct channel_iter *iter;
	struct nvmf_poll_group *group;
	unsigned int transport;
};

static void end_next_transport(void *ctx)
{
	struct group_end *end = ctx;
	void *state;

	while (end->transport < nvmf_tgt.transport_count) {
		struct nvmf_transport *transport = &nvmf_tgt.transports[end->transport];

		state = end->group->transport_states[end->transport];
		end->group->transport_states[end->transport] = NULL;
		end->transport++;
		if (state && transport->ops->group_destroy) {
			transport->ops->group_destroy(transport->state, state, end_next_transport, end);
			return;
		}
	}
	channel_iter_next(end->iter, 0);
	free(end);
}

void nvmf_group_end_transports(struct channel_iter *iter, struct channel *channel, void *ctx)
{
	struct nvmf_poll_group *group = nvmf_group_of(channel);
	struct group_end *end = nvmf_alloc(sizeof(*end));

	must_be_on(group->thread);
	must(TAILQ_EMPTY(&group->qpairs));
	end->iter = iter;
	end->group = group;
	end_next_transport(end);
}

/* ---- loads; control thread ---- */

struct load {
	struct nvmf_poll_group *group;
	int io, all;
};

static void load_on_control(void *ctx)
{
	struct load *load = ctx;

	must_be_on(thread_control());
	must(load->io >= 0 || load->group->load_io > 0);
	load->group->load_io += (uint32_t)load->io;
	/* A connection that was added without nvmf_target_choose_group() was never counted. */
	if (load->all >= 0 || load->group->load_all > 0)
		load->group->load_all += (uint32_t)load->all;
	free(load);
}

void nvmf_group_load(struct nvmf_poll_group *group, int io, int all)
{
	struct load *load = nvmf_alloc(sizeof(*load));

	must_be_on(group->thread);
	load->group = group;
	load->io = io;
	load->all = all;
	thread_send_msg(thread_control(), load_on_control, load);
}

struct nvmf_poll_group *nvmf_target_choose_group(void)
{
	struct nvmf_poll_group *best = NULL;

	must_be_on(thread_control());
	if (nvmf_tgt.state != NVMF_TGT_RUNNING || nvmf_tgt.refuses)
		return NULL;
	for (unsigned int i = 0; i < nvmf_tgt.group_count; i++) {
		struct nvmf_poll_group *group = nvmf_tgt.groups[i];

		if (!best || group->load_io < best->load_io ||
		    (group->load_io == best->load_io && group->load_all < best->load_all))
			best = group;
	}
	if (best)
		best->load_all++;
	return best;
}

void nvmf_target_admit(bool admit)
{
	must_be_on(thread_control());
	nvmf_tgt.refuses = !admit;
}

void nvmf_target_unchoose_group(struct nvmf_poll_group *group)
{
	must_be_on(thread_control());
	must(group->load_all > 0);
	group->load_all--;
}

/* ---- for transports ---- */

unsigned int nvmf_poll_group_count(void)
{
	return nvmf_tgt.group_count;
}

struct nvmf_poll_group *nvmf_poll_group_at(unsigned int index)
{
	must(index < nvmf_tgt.group_count);
	return nvmf_tgt.groups[index];
}

struct fathom_thread *nvmf_poll_group_thread(const struct nvmf_poll_group *group)
{
	return group->thread;
}

unsigned int nvmf_poll_group_index(const struct nvmf_poll_group *group)
{
	return group->index;
}

void *nvmf_poll_group_transport_state(struct nvmf_poll_group *group, const struct nvmf_transport_ops *ops)
{
	must_be_on(group->thread);
	for (unsigned int i = 0; i < NVMF_TRANSPORTS_MAX; i++) {
		if (nvmf_tgt.transports[i].ops == ops)
			return group->transport_states[i];
	}
	return NULL;
}
