/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * accounts - what each host did in each subsystem, for figures. A queue pair counts for itself; when it leaves its group,
 * the group's account of the host keeps the sums, so that they never decrease. The ends of controllers and rejected
 * Connects are counted on the control thread.
 *
 * Names are interned, and interned names of hosts are bounded, so equal pointers are equal names.
 */
#include <stdlib.h>
#include <string.h>

#include "base/observe/trace/points.gen.h"
#include "data/target/controller/controller.h"

struct nvmf_account {
	const struct trace_istr *nqn, *host;
	uint64_t command_count, data_bytes[NVMF_TRANSFERS_MAX]; /* of queue pairs that left */
	uint64_t now_count, now_bytes[NVMF_TRANSFERS_MAX];	/* with those that are here; used during a visit */
	uint32_t admin_qpairs, io_qpairs;			/* that are here; likewise */
	TAILQ_ENTRY(nvmf_account) link;
};

/* ---- on a group's thread ---- */

void nvmf_account_open(struct nvmf_qpair *qpair, const struct trace_istr *nqn, const struct trace_istr *host)
{
	struct nvmf_poll_group *group = qpair->group;
	struct nvmf_account *account;

	must_be_on(group->thread);
	must(!qpair->account);
	TAILQ_FOREACH (account, &group->accounts, link) {
		if (account->nqn == nqn && account->host == host)
			break;
	}
	if (!account && group->account_count < NVMF_ACCOUNTS_MAX) {
		account = nvmf_alloc(sizeof(*account));
		account->nqn = nqn;
		account->host = host;
		TAILQ_INSERT_TAIL(&group->accounts, account, link);
		group->account_count++;
	}
	qpair->account = account;
}

void nvmf_account_close(struct nvmf_qpair *qpair)
{
	struct nvmf_account *account = qpair->account;

	must_be_on(qpair->group->thread);
	if (!account)
		return;
	account->command_count += qpair->command_count;
	for (int i = 0; i < NVMF_TRANSFERS_MAX; i++)
		account->data_bytes[i] += qpair->data_bytes[i];
	qpair->account = NULL;
}

void nvmf_accounts_free(struct nvmf_poll_group *group)
{
	struct nvmf_account *account;

	while ((account = TAILQ_FIRST(&group->accounts))) {
		TAILQ_REMOVE(&group->accounts, account, link);
		free(account);
	}
}

/* ---- collected from the groups ---- */

struct collection {
	struct nvmf_accounts *accounts;
	nvmf_accounts_fn done;
	void *ctx;
};

static void no_user(void *ctx, const struct nvmf_buffer_user *user)
{
}

static void add_group(struct nvmf_accounts *accounts, const struct nvmf_poll_group *group)
{
	struct nvmf_group_account *to;

	accounts->groups = realloc(accounts->groups, (accounts->group_count + 1) * sizeof(*accounts->groups));
	must(accounts->groups);
	to = &accounts->groups[accounts->group_count++];
	*to = (struct nvmf_group_account){
		.cpu = reactor_cpu(thread_reactor(group->thread)),
		.current_admin_qpairs = group->current_admin_qpairs,
		.current_io_qpairs = group->current_io_qpairs,
		.current_unassociated_qpairs = group->current_qpairs - group->current_admin_qpairs -
					       group->current_io_qpairs,
	};
	for (unsigned int i = 0; i < nvmf_tgt.transport_count; i++) {
		const struct nvmf_transport_ops *ops = nvmf_tgt.transports[i].ops;
		struct nvmf_buffer_stats stats;

		if (!ops || !ops->group_buffers || !group->transport_states[i])
			continue;
		ops->group_buffers(group->transport_states[i], &stats, no_user, NULL);
		to->buffers_lent_bytes += stats.lent_bytes;
		to->buffers_most_bytes += stats.most_bytes;
		to->buffers_waiting += stats.waiting_count;
	}
}

static void add_hosts(struct nvmf_accounts *accounts, struct nvmf_poll_group *group)
{
	const struct nvmf_qpair *qpair;
	struct nvmf_account *account;

	accounts->hosts = realloc(accounts->hosts,
				  (accounts->host_count + group->account_count + 1) * sizeof(*accounts->hosts));
	must(accounts->hosts);
	TAILQ_FOREACH (account, &group->accounts, link) {
		account->now_count = account->command_count;
		memcpy(account->now_bytes, account->data_bytes, sizeof(account->now_bytes));
		account->admin_qpairs = account->io_qpairs = 0;
	}
	TAILQ_FOREACH (qpair, &group->qpairs, group_link) {
		if (!qpair->account)
			continue;
		qpair->account->now_count += qpair->command_count;
		qpair->account->admin_qpairs += qpair->qid == 0;
		qpair->account->io_qpairs += qpair->qid != 0;
		for (int i = 0; i < NVMF_TRANSFERS_MAX; i++)
			qpair->account->now_bytes[i] += qpair->data_bytes[i];
	}
	TAILQ_FOREACH (account, &group->accounts, link)
		accounts->hosts[accounts->host_count++] = (struct nvmf_host_account){
			.nqn = account->nqn->text,
			.host_nqn = account->host->text,
			.command_count = account->now_count,
			.bytes_read = account->now_bytes[NVMF_TRANSFER_C2H],
			.bytes_written = account->now_bytes[NVMF_TRANSFER_H2C],
			.admin_qpairs = account->admin_qpairs,
			.io_qpairs = account->io_qpairs,
		};
}

static void visit_group(struct channel_iter *iter, struct channel *channel, void *ctx)
{
	struct nvmf_poll_group *group = nvmf_group_of(channel);
	struct collection *collection = ctx;

	add_group(collection->accounts, group);
	add_hosts(collection->accounts, group);
	channel_iter_next(iter, 0);
}

static void all_visited(int status, void *ctx)
{
	struct collection *collection = ctx;

	must(status == 0);
	collection->done(collection->ctx, collection->accounts);
	free(collection);
}

void nvmf_target_get_accounts(nvmf_accounts_fn done, void *ctx)
{
	struct collection *collection = nvmf_alloc(sizeof(*collection));

	must_be_on(thread_control());
	collection->accounts = nvmf_alloc(sizeof(*collection->accounts));
	collection->done = done;
	collection->ctx = ctx;
	for_each_channel(&nvmf_tgt, visit_group, all_visited, collection);
}

void nvmf_accounts_destroy(struct nvmf_accounts *accounts)
{
	if (!accounts)
		return;
	free(accounts->hosts);
	free(accounts->groups);
	free(accounts);
}

/* ---- on the control thread ---- */

struct end {
	const struct trace_istr *nqn, *host;
	uint64_t counts[NVMF_ENDS_MAX];
};

static struct {
	struct end ends[NVMF_ACCOUNTS_MAX];
	size_t end_count;
	struct {
		uint16_t status;
		uint64_t count;
	} refused[NVMF_REFUSED_STATUS_MAX];
	size_t refused_count;
} control;

static enum nvmf_end classify(const struct trace_istr *reason)
{
	if (!reason)
		return NVMF_END_OTHER;
	if (strcmp(reason->text, "keep-alive timeout") == 0)
		return NVMF_END_KEEP_ALIVE;
	return strcmp(reason->text, "the host closed the connection") == 0 ? NVMF_END_CLOSED : NVMF_END_OTHER;
}

void nvmf_account_left(const struct trace_istr *nqn, const struct trace_istr *host, const struct trace_istr *reason)
{
	size_t i;

	must_be_on(thread_control());
	for (i = 0; i < control.end_count; i++) {
		if (control.ends[i].nqn == nqn && control.ends[i].host == host)
			break;
	}
	if (i == NVMF_ACCOUNTS_MAX)
		return;
	if (i == control.end_count)
		control.ends[control.end_count++] = (struct end){ nqn, host, { 0 } };
	control.ends[i].counts[classify(reason)]++;
}

void nvmf_account_refused(uint16_t status)
{
	size_t i;

	must_be_on(thread_control());
	for (i = 0; i < control.refused_count; i++) {
		if (control.refused[i].status == status)
			break;
	}
	if (i == NVMF_REFUSED_STATUS_MAX)
		return;
	if (i == control.refused_count)
		control.refused[control.refused_count++].status = status;
	control.refused[i].count++;
}

void nvmf_target_each_end(void (*fn)(void *ctx, const char *nqn, const char *host_nqn,
				     const uint64_t counts[static NVMF_ENDS_MAX]),
			  void *ctx)
{
	for (size_t i = 0; i < control.end_count; i++)
		fn(ctx, control.ends[i].nqn->text, control.ends[i].host->text, control.ends[i].counts);
}

void nvmf_target_each_refusal(void (*fn)(void *ctx, uint16_t status, uint64_t count), void *ctx)
{
	for (size_t i = 0; i < control.refused_count; i++)
		fn(ctx, control.refused[i].status, control.refused[i].count);
}
