/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * group - shared by the connections of one poll group: the poller and the receive buffer. Data buffers are in lend.c.
 *
 * After input, a connection is *active* for ACTIVE_NS: the poller calls receive() in every turn. A receive that finds
 * nothing costs less than an epoll event. With more than ACTIVE_MAX active connections polling costs more than it saves,
 * so all use epoll.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/reactor/reactor.h"
#include "data/wire/conn/conn.h"
#include "data/wire/conn/internal.h"

enum {
	ACTIVE_MAX = 8,
	ACTIVE_NS = 200000,
	JANITOR_NS = 1000000000,
};

static uint64_t active_ticks;
static uint64_t fair_limit; /* 0: none */

void tcp_transport_limit_buffers(uint64_t fair_bytes)
{
	must(fair_bytes >= NVMF_IO_BYTES_DEFAULT);
	fair_limit = fair_bytes;
}

void tcp_group_activate(struct tcp_group *group, struct tcp_conn *conn, uint64_t now)
{
	conn->active_until = now + active_ticks;
	if (conn->active || !conn->sock->polling_pays)
		return;
	conn->active = true;
	group->active_count++;
	TAILQ_INSERT_TAIL(&group->active, conn, active_link);
}

static int poll_connections(void *ctx)
{
	struct tcp_group *group = ctx;
	struct tcp_conn *conn, *next;
	uint64_t tick = reactor_tick();
	bool ask = group->active_count <= ACTIVE_MAX;
	int busy = 0;

	TAILQ_FOREACH_SAFE (conn, &group->active, active_link, next) {
		/* closing one connection never closes its neighbour, so `next` stays */
		if (ask && tcp_conn_receive(conn)) {
			busy++;
		} else if (tick > conn->active_until) {
			conn->active = false;
			group->active_count--;
			TAILQ_REMOVE(&group->active, conn, active_link);
		}
		if (conn->in_flush)
			tcp_conn_flush(conn);
	}
	while ((conn = TAILQ_FIRST(&group->flush))) {
		tcp_conn_flush(conn);
		busy++;
	}
	return busy;
}

static int check_connections(void *ctx)
{
	struct tcp_group *group = ctx;
	struct tcp_conn *conn, *next;
	uint64_t now = reactor_tick();
	bool scarce = group->scarce;

	TAILQ_FOREACH_SAFE (conn, &group->conns, link, next) {
		tcp_conn_check_deadline(conn, now);
		tcp_conn_trim(conn);
		tcp_kernel_info_sample(conn, now);
		/* a slow host is tolerated, unless other requests wait for the buffers it holds */
		if (scarce && conn->state == TCP_CONN_READY && tcp_conn_hoards(conn, now))
			tcp_conn_fail(conn, "the host neither sends nor reads data, and others wait for the buffers");
	}
	tcp_group_tidy_shares(group, now);
	memory_trim(&group->memory);
	tcp_group_trim_requests(group);
	return 0;
}

void tcp_group_hurry(struct tcp_group *group, const char *address, uint64_t now)
{
	struct tcp_conn *conn, *next;

	TAILQ_FOREACH_SAFE (conn, &group->conns, link, next) {
		if (!address[0] || strcmp(address, conn->qpair.peer_address) == 0)
			tcp_conn_hurry(conn, now);
	}
}

void tcp_group_add(struct tcp_group *group, struct tcp_conn *conn)
{
	if (TAILQ_EMPTY(&group->conns))
		group->janitor = poller_register("nvmf_tcp_deadlines", check_connections, group, JANITOR_NS);
	TAILQ_INSERT_TAIL(&group->conns, conn, link);
}

static void free_group(struct tcp_group *group)
{
	must(TAILQ_EMPTY(&group->conns));
	must(TAILQ_EMPTY(&group->sampled));
	must(TAILQ_EMPTY(&group->waiting));
	share_pool_deinit(&group->pool);
	memory_deinit(&group->memory);
	tcp_group_free_requests(group);
	poller_unregister(&group->poller);
	poller_unregister(&group->sampler);
	free(group->receive);
	free(group);
}

static void free_group_if_empty(struct tcp_group *group)
{
	void (*destroyed)(void *ctx) = group->destroyed;
	void *ctx = group->destroyed_ctx;

	if (!destroyed || !TAILQ_EMPTY(&group->conns))
		return;
	free_group(group);
	destroyed(ctx);
}

void tcp_group_remove(struct tcp_group *group, struct tcp_conn *conn)
{
	TAILQ_REMOVE(&group->conns, conn, link);
	if (TAILQ_EMPTY(&group->conns)) {
		poller_unregister(&group->janitor);
		memory_clear(&group->memory);
		tcp_group_free_requests(group);
	}
	free_group_if_empty(group);
}

void tcp_group_destroy_when_empty(struct tcp_group *group, void (*done)(void *ctx), void *ctx)
{
	struct tcp_conn *conn, *next;

	must(!group->destroyed);
	group->destroyed = done;
	group->destroyed_ctx = ctx;
	TAILQ_FOREACH_SAFE (conn, &group->conns, link, next)
		tcp_conn_fail(conn, "the target stops");
	free_group_if_empty(group);
}

void *tcp_group_create(struct nvmf_poll_group *poll_group, const struct nvmf_transport_options *options)
{
	struct tcp_group *group = calloc(1, sizeof(*group));
	uint32_t io_bytes_max = options->max_io_size;
	uint64_t fair_bytes = fair_limit ? fair_limit : max_u64(TCP_FAIR_BYTES, (uint64_t)TCP_FAIR_REQS_MIN * io_bytes_max);

	if (!group)
		return NULL;
	TAILQ_INIT(&group->waiting);
	share_pool_init(&group->pool, fair_bytes, fair_bytes * SHARE_GROWTH);
	if (memory_init(&group->memory, io_bytes_max, fair_bytes * SHARE_GROWTH) != 0) {
		free(group);
		return NULL;
	}
	active_ticks = clock_ticks_from_ns(ACTIVE_NS);
	group->poll_group = poll_group;
	group->index = nvmf_poll_group_index(poll_group);
	group->in_capsule_bytes = options->in_capsule_data_size;
	group->slot_bytes = (uint32_t)round_up(max_u64(options->in_capsule_data_size, TCP_SLOT_BYTES_MIN), 4096);
	group->tags_max = (uint32_t)max_u64(options->max_queue_depth, options->max_aq_depth) + 1 + TCP_PARKED_MAX;
	group->c2h_success = options->c2h_success;
	group->zeroes = bdev_zeroes();
	group->no_device = trace_intern("none");
	TAILQ_INIT(&group->chunks);
	TAILQ_INIT(&group->chunks_free);
	TAILQ_INIT(&group->conns);
	TAILQ_INIT(&group->flush);
	TAILQ_INIT(&group->active);
	TAILQ_INIT(&group->sampled);
	group->receive = aligned_alloc(4096, round_up(TCP_CARRY_BYTES + TCP_RECEIVE_BYTES, 4096));
	group->poller = poller_register("nvmf_TCP", poll_connections, group, 0);
	group->sampler = poller_register("nvmf_tcp_sampler", tcp_send_samples_check, group, TCP_SEND_SAMPLE_CHECK_NS);
	if (!group->receive || !group->poller || !group->sampler) {
		free_group(group);
		return NULL;
	}
	poller_pause(group->sampler);
	return group;
}
