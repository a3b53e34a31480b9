/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * snapshot - controllers, queue pairs, statistics and pending commands, collected from the poll groups one after another.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "data/nvme/names.h"
#include "data/target/controller/controller.h"

struct snapshot {
	char nqn[NVME_NQN_FIELD_BYTES];
	uint32_t id; /* of the subsystem */
	nvmf_controllers_fn controllers_done;
	nvmf_qpairs_fn qpairs_done;
	nvmf_stats_fn stats_done;
	nvmf_pending_fn pending_done;
	void *ctx;
	struct nvmf_controller_info *controllers;
	struct nvmf_qpair_info *qpairs;
	struct nvmf_group_stats *stats;
	struct nvmf_pending_info *pending;
	size_t count, room;
};

/* Append a zeroed element of `bytes` to `*array`. */
static void *append_element(struct snapshot *snapshot, void **array, size_t bytes)
{
	if (snapshot->count == snapshot->room) {
		snapshot->room = snapshot->room ? snapshot->room * 2 : 16;
		*array = realloc(*array, snapshot->room * bytes);
		must(*array);
	}
	must(snapshot->count < snapshot->room);
	return memset((uint8_t *)*array + snapshot->count++ * bytes, 0, bytes);
}

static struct snapshot *create_snapshot(const struct nvmf_subsystem *subsystem, void *ctx)
{
	struct snapshot *snapshot = nvmf_alloc(sizeof(*snapshot));

	must_be_on(thread_control());
	snapshot->ctx = ctx;
	if (subsystem) {
		snapshot->id = subsystem->id;
		memcpy(snapshot->nqn, subsystem->options.nqn, sizeof(snapshot->nqn));
	}
	return snapshot;
}

/* ---- controllers ---- */

static void controllers_on_group(struct channel_iter *iter, struct channel *channel, void *ctx)
{
	struct nvmf_poll_group *group = nvmf_group_of(channel);
	struct snapshot *snapshot = ctx;
	const struct nvmf_qpair *qpair;

	TAILQ_FOREACH (qpair, &group->qpairs, group_link) {
		const struct nvmf_ctrlr *ctrlr = qpair->ctrlr;
		struct nvmf_controller_info *info;

		if (!ctrlr || qpair->qid != 0 || qpair->state != NVMF_QPAIR_ENABLED || ctrlr->subsystem->id != snapshot->id)
			continue;
		must(ctrlr->group == group);
		info = append_element(snapshot, (void **)&snapshot->controllers, sizeof(*info));
		info->cntlid = ctrlr->cntlid;
		info->discovery = ctrlr->discovery;
		memcpy(info->host_nqn, ctrlr->host_nqn, sizeof(info->host_nqn));
		memcpy(info->host_id, ctrlr->host_id, sizeof(info->host_id));
		info->io_qpair_count = ctrlr->io_count;
	}
	channel_iter_next(iter, 0);
}

static int by_cntlid(const void *a, const void *b)
{
	return (int)((const struct nvmf_controller_info *)a)->cntlid -
	       (int)((const struct nvmf_controller_info *)b)->cntlid;
}

static void controllers_done(int status, void *ctx)
{
	struct snapshot *snapshot = ctx;
	struct fathom_fault why = { 0 };

	must(status == 0);
	if (snapshot->count > 0)
		qsort(snapshot->controllers, snapshot->count, sizeof(*snapshot->controllers), by_cntlid);
	snapshot->controllers_done(snapshot->ctx, 0, &why, snapshot->controllers, snapshot->count);
	free(snapshot->controllers);
	free(snapshot);
}

void nvmf_subsystem_get_controllers(const char *nqn, nvmf_controllers_fn done, void *ctx)
{
	const struct nvmf_subsystem *subsystem = nvmf_subsystem_find(nqn);
	struct snapshot *snapshot;
	struct fathom_fault why;

	if (!subsystem) {
		int rc = fault(&why, -ENOENT, "Subsystem with NQN '%s' not found", nqn);

		done(ctx, rc, &why, NULL, 0);
		return;
	}
	snapshot = create_snapshot(subsystem, ctx);
	snapshot->controllers_done = done;
	for_each_channel(&nvmf_tgt, controllers_on_group, controllers_done, snapshot);
}

/* ---- queue pairs ---- */

static const char *state_name(const struct nvmf_qpair *qpair)
{
	switch (qpair->state) {
	case NVMF_QPAIR_NONE:
		return "uninitialized";
	case NVMF_QPAIR_CONNECTING:
		return "connecting";
	case NVMF_QPAIR_ENABLED:
		return "enabled";
	case NVMF_QPAIR_CLOSING:
	case NVMF_QPAIR_PARKED:
		return "deactivating";
	}
	return "unknown";
}

static void fill_qpair(struct nvmf_qpair_info *info, const struct nvmf_qpair *qpair, const struct nvmf_poll_group *group)
{
	must(qpair->ctrlr);
	info->cntlid = qpair->ctrlr->cntlid;
	info->qid = qpair->qid;
	info->state = state_name(qpair);
	info->thread_id = thread_id(group->thread);
	(void)text_copy(info->thread_name, sizeof(info->thread_name), group->name); /* as long */
	memcpy(info->host_nqn, qpair->ctrlr->host_nqn, sizeof(info->host_nqn));
	(void)text_copy(info->trtype, sizeof(info->trtype), "TCP"); /* fits, as what follows */
	(void)text_copy(info->adrfam, sizeof(info->adrfam), strchr(qpair->local_address, ':') ? "IPv6" : "IPv4");
	(void)text_copy(info->local_address, sizeof(info->local_address), qpair->local_address);
	(void)text_copy(info->local_service, sizeof(info->local_service), qpair->local_service);
	(void)text_copy(info->peer_address, sizeof(info->peer_address), qpair->peer_address);
	(void)text_copy(info->peer_service, sizeof(info->peer_service), qpair->peer_service);
	info->queue_entries = qpair->queue_entries;
	info->request_count = qpair->req_count;
	info->command_count = qpair->command_count;
	info->bytes_read = qpair->data_bytes[NVMF_TRANSFER_C2H];
	info->bytes_written = qpair->data_bytes[NVMF_TRANSFER_H2C];
	if (qpair->qid == 0)
		return; /* its opcodes have other meanings */
	info->read_count = qpair->times[NVMF_TIMED_READ].ops;
	info->read_ticks = qpair->times[NVMF_TIMED_READ].ticks;
	info->write_count = qpair->times[NVMF_TIMED_WRITE].ops;
	info->write_ticks = qpair->times[NVMF_TIMED_WRITE].ticks;
}

static void qpairs_on_group(struct channel_iter *iter, struct channel *channel, void *ctx)
{
	struct nvmf_poll_group *group = nvmf_group_of(channel);
	struct snapshot *snapshot = ctx;
	const struct nvmf_qpair *qpair;

	TAILQ_FOREACH (qpair, &group->qpairs, group_link) {
		/* Use qpair->subsystem, not qpair->ctrlr->subsystem: the controller may already be leaving. */
		if (qpair->state == NVMF_QPAIR_ENABLED && qpair->subsystem->subsystem->id == snapshot->id)
			fill_qpair(append_element(snapshot, (void **)&snapshot->qpairs, sizeof(*snapshot->qpairs)), qpair,
				   group);
	}
	channel_iter_next(iter, 0);
}

static int by_queue(const void *a, const void *b)
{
	const struct nvmf_qpair_info *x = a, *y = b;

	return x->cntlid != y->cntlid ? (int)x->cntlid - (int)y->cntlid : (int)x->qid - (int)y->qid;
}

static void qpairs_done(int status, void *ctx)
{
	struct snapshot *snapshot = ctx;
	struct fathom_fault why = { 0 };

	must(status == 0);
	if (snapshot->count > 0)
		qsort(snapshot->qpairs, snapshot->count, sizeof(*snapshot->qpairs), by_queue);
	snapshot->qpairs_done(snapshot->ctx, 0, &why, snapshot->qpairs, snapshot->count);
	free(snapshot->qpairs);
	free(snapshot);
}

void nvmf_subsystem_get_qpairs(const char *nqn, nvmf_qpairs_fn done, void *ctx)
{
	const struct nvmf_subsystem *subsystem = nvmf_subsystem_find(nqn);
	struct snapshot *snapshot;
	struct fathom_fault why;

	if (!subsystem) {
		int rc = fault(&why, -ENOENT, "Subsystem with NQN '%s' not found", nqn);

		done(ctx, rc, &why, NULL, 0);
		return;
	}
	snapshot = create_snapshot(subsystem, ctx);
	snapshot->qpairs_done = done;
	for_each_channel(&nvmf_tgt, qpairs_on_group, qpairs_done, snapshot);
}

/* ---- poll groups ---- */

static void add_user(void *ctx, const struct nvmf_buffer_user *user)
{
	struct nvmf_group_buffers *buffers = ctx;
	struct nvmf_buffer_user *copy;

	buffers->users = realloc(buffers->users, (buffers->user_count + 1) * sizeof(*buffers->users));
	must(buffers->users);
	copy = &buffers->users[buffers->user_count++];
	*copy = *user;
	copy->host_nqn = user->host_nqn ? strdup(user->host_nqn) : NULL;
	copy->bdev_name = user->bdev_name ? strdup(user->bdev_name) : NULL;
	must(copy->host_nqn || copy->bdev_name);
}

static void free_users(struct nvmf_group_buffers *buffers)
{
	for (size_t i = 0; i < buffers->user_count; i++) {
		free((char *)(uintptr_t)buffers->users[i].host_nqn);
		free((char *)(uintptr_t)buffers->users[i].bdev_name);
	}
	free(buffers->users);
}

static void add_io_qpairs(struct nvmf_group_stats *stats, const struct nvmf_poll_group *group)
{
	uint64_t now = reactor_now();
	const struct nvmf_qpair *qpair;

	stats->bytes_read = group->ended_bytes[NVMF_TRANSFER_C2H];
	stats->bytes_written = group->ended_bytes[NVMF_TRANSFER_H2C];
	TAILQ_FOREACH (qpair, &group->qpairs, group_link) {
		const struct nvmf_req *oldest = TAILQ_FIRST(&qpair->reqs); /* the list has the order of arrival */

		if (!qpair->ctrlr || qpair->qid == 0)
			continue;
		stats->bytes_read += qpair->data_bytes[NVMF_TRANSFER_C2H];
		stats->bytes_written += qpair->data_bytes[NVMF_TRANSFER_H2C];
		stats->io_request_count += qpair->req_count;
		if (oldest && now > oldest->received_tick)
			stats->oldest_ticks = max_u64(stats->oldest_ticks, now - oldest->received_tick);
	}
}

static void stats_on_group(struct channel_iter *iter, struct channel *channel, void *ctx)
{
	struct nvmf_poll_group *group = nvmf_group_of(channel);
	struct snapshot *snapshot = ctx;
	struct nvmf_group_stats *stats = append_element(snapshot, (void **)&snapshot->stats, sizeof(*stats));

	must(group->current_qpairs >= group->current_admin_qpairs + group->current_io_qpairs);
	(void)text_copy(stats->name, sizeof(stats->name), group->name); /* as long */
	stats->thread_id = thread_id(group->thread);
	stats->admin_qpairs = group->admin_qpairs;
	stats->io_qpairs = group->io_qpairs;
	stats->current_admin_qpairs = group->current_admin_qpairs;
	stats->current_io_qpairs = group->current_io_qpairs;
	stats->current_unassociated_qpairs = group->current_qpairs - group->current_admin_qpairs - group->current_io_qpairs;
	stats->completed_nvme_io = group->completed_io;
	add_io_qpairs(stats, group);
	for (uint32_t i = 0; i < NVMF_SUBSYSTEMS_MAX; i++) {
		if (group->subsystems[i])
			stats->pending_bdev_io += group->subsystems[i]->outstanding;
	}
	for (unsigned int i = 0; i < nvmf_tgt.transport_count; i++) {
		const struct nvmf_transport_ops *ops = nvmf_tgt.transports[i].ops;
		struct nvmf_group_buffers *buffers = &stats->buffers[i];

		if (!ops || !ops->group_buffers || !group->transport_states[i])
			continue;
		buffers->transport = &nvmf_tgt.transports[i];
		ops->group_buffers(group->transport_states[i], &buffers->stats, add_user, buffers);
	}
	channel_iter_next(iter, 0);
}

static void stats_done(int status, void *ctx)
{
	struct snapshot *snapshot = ctx;

	must(status == 0);
	snapshot->stats_done(snapshot->ctx, snapshot->stats, snapshot->count);
	for (size_t i = 0; i < snapshot->count; i++) {
		for (size_t j = 0; j < NVMF_TRANSPORTS_MAX; j++)
			free_users(&snapshot->stats[i].buffers[j]);
	}
	free(snapshot->stats);
	free(snapshot);
}

void nvmf_target_get_stats(nvmf_stats_fn done, void *ctx)
{
	struct snapshot *snapshot = create_snapshot(NULL, ctx);

	snapshot->stats_done = done;
	for_each_channel(&nvmf_tgt, stats_on_group, stats_done, snapshot);
}

/* ---- pending commands ---- */

/* Add `count` commands of `qpair` held by the target or by devices; `oldest` is the first, NULL if count is 0. */
static void add_pending(struct snapshot *snapshot, const struct nvmf_qpair *qpair, const struct nvmf_req *oldest,
			uint32_t count)
{
	struct nvmf_pending_info *info;

	must((count > 0) == (oldest != NULL));
	if (!oldest)
		return;
	info = append_element(snapshot, (void **)&snapshot->pending, sizeof(*info));
	if (qpair->subsystem)
		memcpy(info->nqn, qpair->subsystem->subsystem->options.nqn, sizeof(info->nqn));
	else if (oldest->ns) /* the subsystem may have been freed: use the name in the namespace */
		snprintf(info->nqn, sizeof(info->nqn), "%s", oldest->ns->ns->nqn_istr->text);
	info->qid = qpair->qid;
	/* the fields have the same size */
	(void)text_copy(info->peer_address, sizeof(info->peer_address), qpair->peer_address);
	(void)text_copy(info->peer_service, sizeof(info->peer_service), qpair->peer_service);
	info->request_count = count;
	info->oldest_opcode = qpair->qid == 0 ? nvme_admin_opcode_name(oldest->cmd.opc)
					      : nvme_nvm_opcode_name(oldest->cmd.opc);
	info->oldest_ticks = reactor_now() - oldest->received_tick;
	if (oldest->ns)
		(void)text_copy(info->bdev_name, sizeof(info->bdev_name), bdev_name(oldest->ns->ns->bdev)); /* as long */
}

static void pending_on_group(struct channel_iter *iter, struct channel *channel, void *ctx)
{
	struct nvmf_poll_group *group = nvmf_group_of(channel);
	const struct nvmf_qpair *qpair;

	TAILQ_FOREACH (qpair, &group->qpairs, group_link) {
		add_pending(ctx, qpair, TAILQ_FIRST(&qpair->reqs), qpair->req_count);
		add_pending(ctx, qpair, TAILQ_FIRST(&qpair->parked), qpair->parked_count);
	}
	TAILQ_FOREACH (qpair, &group->parked_qpairs, group_link)
		add_pending(ctx, qpair, TAILQ_FIRST(&qpair->parked), qpair->parked_count);
	channel_iter_next(iter, 0);
}

static void pending_done(int status, void *ctx)
{
	struct snapshot *snapshot = ctx;

	must(status == 0);
	snapshot->pending_done(snapshot->ctx, snapshot->pending, snapshot->count);
	free(snapshot->pending);
	free(snapshot);
}

void nvmf_target_get_pending(nvmf_pending_fn done, void *ctx)
{
	struct snapshot *snapshot = create_snapshot(NULL, ctx);

	snapshot->pending_done = done;
	for_each_channel(&nvmf_tgt, pending_on_group, pending_done, snapshot);
}
