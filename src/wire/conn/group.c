/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * group - what the connections of one poll group share: the poller, the receive buffer, the large data buffers.
 *
 * A connection on which bytes have come is asked again in every turn for a while: a receive that finds nothing costs less
 * than being told by epoll. With more than ACTIVE_MAX of them asking round would cost more than it brings, and epoll tells.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "reactor/reactor.h"
#include "wire/conn/conn.h"
#include "wire/conn/internal.h"

enum {
	ACTIVE_MAX = 8,
	ACTIVE_NS = 200000,
	JANITOR_NS = 1000000000,
};

static uint64_t active_ticks;
static uint32_t large_limit = TCP_LARGE_COUNT_DEFAULT;

void tcp_transport_limit_large(uint32_t count)
{
	must(count > 0 && count <= TCP_LARGE_COUNT_DEFAULT);
	large_limit = count;
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

static int poll(void *ctx)
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

static int clean(void *ctx)
{
	struct tcp_group *group = ctx;
	struct tcp_conn *conn, *next;
	uint64_t now = reactor_tick();

	TAILQ_FOREACH_SAFE (conn, &group->conns, link, next) {
		tcp_conn_check_deadline(conn, now);
		/* a host that is slow harms itself alone, but not one that makes others wait */
		if (!STAILQ_EMPTY(&group->waiting) && conn->state == TCP_CONN_READY && tcp_conn_hoards(conn, now))
			tcp_conn_fail(conn, "the host neither sends nor reads data, and others wait for the buffers");
	}
	return 0;
}

void tcp_group_add(struct tcp_group *group, struct tcp_conn *conn)
{
	if (TAILQ_EMPTY(&group->conns))
		group->janitor = poller_register("nvmf_tcp_deadlines", clean, group, JANITOR_NS);
	TAILQ_INSERT_TAIL(&group->conns, conn, link);
}

uint8_t *tcp_group_take_large(struct tcp_group *group)
{
	return group->large_free_count ? group->large_free[--group->large_free_count] : NULL;
}

void tcp_group_give_large(struct tcp_group *group, uint8_t *large, uint64_t now)
{
	struct tcp_req *treq;

	must(group->large_free_count < group->large_count);
	group->large_free[group->large_free_count++] = large;
	/*
	 * a request may end at once and give its buffer back: a loop, or as deep in the stack as hosts have commands
	 * waiting
	 */
	if (group->handing_on)
		return;
	group->handing_on = true;
	while (group->large_free_count > 0 && (treq = STAILQ_FIRST(&group->waiting))) {
		STAILQ_REMOVE_HEAD(&group->waiting, link);
		treq->waiting = false;
		treq->large = tcp_group_take_large(group);
		tcp_req_got_buffer(treq, now);
	}
	group->handing_on = false;
}

static void destroy(struct tcp_group *group)
{
	must(TAILQ_EMPTY(&group->conns));
	must(group->large_free_count == group->large_count);
	poller_unregister(&group->poller);
	free(group->receive);
	if (group->larges && group->larges != MAP_FAILED)
		munmap(group->larges, (size_t)TCP_LARGE_COUNT_DEFAULT * TCP_LARGE_BYTES);
	free(group);
}

static void destroy_if_due(struct tcp_group *group)
{
	void (*destroyed)(void *ctx) = group->destroyed;
	void *ctx = group->destroyed_ctx;

	if (!destroyed || !TAILQ_EMPTY(&group->conns))
		return;
	destroy(group);
	destroyed(ctx);
}

void tcp_group_remove(struct tcp_group *group, struct tcp_conn *conn)
{
	TAILQ_REMOVE(&group->conns, conn, link);
	if (TAILQ_EMPTY(&group->conns))
		poller_unregister(&group->janitor);
	destroy_if_due(group);
}

void tcp_group_destroy_when_empty(struct tcp_group *group, void (*done)(void *ctx), void *ctx)
{
	struct tcp_conn *conn, *next;

	must(!group->destroyed);
	group->destroyed = done;
	group->destroyed_ctx = ctx;
	TAILQ_FOREACH_SAFE (conn, &group->conns, link, next)
		tcp_conn_fail(conn, "the target stops");
	destroy_if_due(group);
}

void *tcp_group_create(struct nvmf_poll_group *poll_group, uint32_t index, uint32_t in_capsule_bytes, bool c2h_success)
{
	struct tcp_group *group = calloc(1, sizeof(*group));
	size_t large_bytes = (size_t)TCP_LARGE_COUNT_DEFAULT * TCP_LARGE_BYTES;

	if (!group)
		return NULL;
	active_ticks = clock_ticks_from_ns(ACTIVE_NS);
	group->poll_group = poll_group;
	group->index = index;
	group->in_capsule_bytes = in_capsule_bytes;
	group->c2h_success = c2h_success;
	group->zeroes = bdev_zeroes();
	TAILQ_INIT(&group->conns);
	TAILQ_INIT(&group->flush);
	TAILQ_INIT(&group->active);
	STAILQ_INIT(&group->waiting);
	group->receive = aligned_alloc(4096, round_up(TCP_CARRY_BYTES + TCP_RECEIVE_BYTES, 4096));
	group->larges = mmap(NULL, large_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	group->poller = poller_register("nvmf_TCP", poll, group, 0);
	if (!group->receive || group->larges == MAP_FAILED || !group->poller) {
		destroy(group);
		return NULL;
	}
	group->large_count = large_limit;
	for (uint32_t i = group->large_count; i > 0; i--)
		group->large_free[group->large_free_count++] = group->larges + (size_t)(i - 1) * TCP_LARGE_BYTES;
	return group;
}
