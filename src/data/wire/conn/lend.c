/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lend - data buffers of a poll group: granted to requests, waited for, returned.
 *
 * A request waits in the queue of its share. If the share is full, buffers it returns go to its own requests. If memory is
 * scarce, all waiting shares are served round robin, one request each. In order of arrival, a connection with a deep queue
 * would get most of the memory.
 */
#include "base/reactor/reactor.h"
#include "data/target/request/probes.gen.h"
#include "data/wire/conn/conn.h"
#include "data/wire/conn/internal.h"
#include "data/wire/conn/probes.gen.h"

static struct share *find_share(struct tcp_req *treq)
{
	struct tcp_conn *conn = treq->conn;
	const struct bdev *bdev = nvmf_req_bdev(&treq->req);

	return share_find(&conn->group->pool, &conn->shares, nvmf_qpair_host_nqn(&conn->qpair), bdev,
			  bdev ? bdev_name_istr(bdev) : conn->group->no_device);
}

static void charge_share(struct tcp_group *group, struct tcp_req *treq)
{
	must(!treq->lent);
	share_take(&group->pool, treq->share, treq->lent_bytes);
}

void tcp_req_choose_buffer(struct tcp_req *treq)
{
	must(treq->share);
	must(!treq->lent);
	treq->lent = memory_take(&treq->conn->group->memory, treq->lent_bytes);
}

static void queue_request(struct tcp_group *group, struct tcp_req *treq, enum share_answer answer, uint64_t now)
{
	struct share *share = treq->share;

	nvmf_req_state_move(now, &treq->req, NVMF_REQ_WAIT_BUFFER);
	probe_tcp_wait_buffer(now | TICK_SHARED, &treq->req, treq->lent_bytes, (uint32_t)share->lent_bytes);
	treq->waiting = true;
	if (answer == SHARE_SCARCE)
		group->scarce = true;
	STAILQ_INSERT_TAIL(&share->waiting, treq, link);
	if (share->waiting_count++ > 0)
		return;
	TAILQ_INSERT_TAIL(&group->waiting, share, waiting_link);
	probe_tcp_share_waits(now | TICK_SHARED, treq->conn, share->lent_bytes, share_limit(&group->pool, share),
			      answer == SHARE_SCARCE, share->device->name);
}

/* Account for a request that was removed from the queue of its share. */
static void dequeue_request(struct tcp_group *group, struct tcp_req *treq)
{
	struct share *share = treq->share;

	must(treq->waiting);
	must(share->waiting_count > 0);
	treq->waiting = false;
	if (--share->waiting_count == 0)
		TAILQ_REMOVE(&group->waiting, share, waiting_link);
}

bool tcp_req_borrow(struct tcp_req *treq, uint64_t now)
{
	struct tcp_group *group = treq->conn->group;
	enum share_answer answer;

	must(!treq->waiting);
	treq->share = find_share(treq);
	treq->lent_bytes = memory_size_for(treq->req.data_bytes);
	answer = share_ask(&group->pool, treq->share, treq->lent_bytes);
	/* requests already waiting have precedence */
	if (likely(answer == SHARE_GRANTED && treq->share->waiting_count == 0)) {
		charge_share(group, treq);
		return true;
	}
	queue_request(group, treq, answer, now);
	return false;
}

void tcp_req_stop_waiting(struct tcp_req *treq)
{
	STAILQ_REMOVE(&treq->share->waiting, treq, tcp_req, link);
	dequeue_request(treq->conn->group, treq);
	treq->share = NULL;
}

/* Grant a buffer to the oldest waiting request of `share`, if the limits allow it. */
static bool serve_share(struct tcp_group *group, struct share *share, uint64_t now)
{
	struct tcp_req *treq = STAILQ_FIRST(&share->waiting);
	enum share_answer answer = treq ? share_ask(&group->pool, share, treq->lent_bytes) : SHARE_FULL;

	if (answer == SHARE_SCARCE)
		group->scarce = true;
	if (answer != SHARE_GRANTED)
		return false;
	STAILQ_REMOVE_HEAD(&share->waiting, link);
	dequeue_request(group, treq);
	charge_share(group, treq);
	tcp_req_got_buffer(treq, now);
	return true;
}

/* Serve waiting shares round robin, one request each, until no share can be granted a buffer. */
static void serve_all_shares(struct tcp_group *group, uint64_t now)
{
	bool served = true;

	while (served) {
		struct share *share = NULL, *last = TAILQ_LAST(&group->waiting, share_list);

		/* a share leaves the queue only when one is served, so `last` stays valid until then */
		for (served = false; last && !served && share != last;) {
			share = TAILQ_FIRST(&group->waiting);
			TAILQ_REMOVE(&group->waiting, share, waiting_link);
			TAILQ_INSERT_TAIL(&group->waiting, share, waiting_link);
			served = serve_share(group, share, now);
		}
	}
}

/*
 * Serve waiting requests after `share` returned a buffer (NULL: limits have grown). A served request may complete at once
 * and return its own buffer. So a nested call only sets a flag: recursion could go as deep as there are waiting commands.
 */
static void serve_waiting(struct tcp_group *group, struct share *share, uint64_t now)
{
	if (TAILQ_EMPTY(&group->waiting))
		return;
	if (group->serving) {
		group->serve_all = true;
		return;
	}
	group->serving = true;
	group->serve_all = !share || group->scarce;
	while (!group->serve_all && serve_share(group, share, now))
		continue;
	while (group->serve_all) {
		group->serve_all = false;
		group->scarce = false; /* set again if a request still waits because of the reserve */
		serve_all_shares(group, now);
	}
	group->serving = false;
}

void tcp_req_give_back(struct tcp_req *treq, uint64_t now)
{
	struct tcp_group *group = treq->conn->group;
	struct share *share = treq->share;
	uint8_t *lent = treq->lent;

	if (!share)
		return;
	must(!treq->waiting);
	treq->lent = NULL;
	treq->share = NULL;
	if (lent)
		memory_give(&group->memory, lent, treq->lent_bytes);
	share_give(&group->pool, share, treq->lent_bytes);
	serve_waiting(group, share, now);
}

void tcp_conn_drop_shares(struct tcp_conn *conn, uint64_t now)
{
	struct share *share;

	if (TAILQ_EMPTY(&conn->shares))
		return;
	while ((share = TAILQ_FIRST(&conn->shares)))
		share_drop(&conn->group->pool, &conn->shares, share);
	serve_waiting(conn->group, NULL, now);
}

void tcp_group_tidy_shares(struct tcp_group *group, uint64_t now)
{
	struct tcp_conn *conn;
	bool dropped = false;

	TAILQ_FOREACH (conn, &group->conns, link) {
		struct share *share, *next;

		TAILQ_FOREACH_SAFE (share, &conn->shares, conn_link, next) {
			if (share_grow_old(share)) {
				share_drop(&group->pool, &conn->shares, share);
				dropped = true;
			}
		}
	}
	if (dropped)
		serve_waiting(group, NULL, now);
}

void tcp_group_buffers(const struct tcp_group *group, struct nvmf_buffer_stats *stats_ret, nvmf_buffer_user_fn fn,
		       void *ctx)
{
	const struct share_device *device;
	const struct share_host *host;
	const struct share *share;

	*stats_ret = (struct nvmf_buffer_stats){ .fair_bytes = group->pool.fair_bytes,
						 .most_bytes = group->pool.most_bytes,
						 .lent_bytes = group->pool.lent_bytes,
						 .host_count = group->pool.host_count };
	TAILQ_FOREACH (share, &group->waiting, waiting_link)
		stats_ret->waiting_count += share->waiting_count;
	TAILQ_FOREACH (host, &group->pool.hosts, link) {
		struct nvmf_buffer_user user = { .host_nqn = host->nqn, .lent_bytes = host->lent_bytes };

		TAILQ_FOREACH (share, &group->waiting, waiting_link)
			user.waiting_count += share->host == host ? share->waiting_count : 0;
		fn(ctx, &user);
	}
	TAILQ_FOREACH (device, &group->pool.devices, link) {
		struct nvmf_buffer_user user = { .lent_bytes = device->lent_bytes };

		if (!device->key)
			continue; /* admin commands have no device */
		user.bdev_name = device->name->text;
		TAILQ_FOREACH (share, &group->waiting, waiting_link)
			user.waiting_count += share->device == device ? share->waiting_count : 0;
		fn(ctx, &user);
	}
}
