/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kernel_info - what the kernel knows about a connection, which distinguishes a slow host from a slow network.
 *
 * The kernel counts the time with a closed window of the host, the time with unacknowledged bytes, and lost packets. A
 * request that waited for longer than INFO_WAITED_NS, for its data or for room in the socket, gets the difference over
 * its wait: the record tcp_waited, which is kept with the request if it is slow. The wait begins with a mark in the
 * request: the counters at that time.
 *
 * On a long way the window of a host that reads is full, too, until the acknowledgement arrives, one round trip later. So
 * of the time that the kernel counts between two readings, one round trip is the network's. While acknowledgements arrive,
 * requests end and the counters are read.
 *
 * Reading the counters is a system call of a microsecond. Counters that are younger than INFO_AGE_NS are used again, so a
 * connection costs at most a thousand calls per second, and one per second if no request waits. The kernel's times are no
 * more exact. While tcp_waited is not recorded, there is no mark, so waits cost no call.
 */
#include "base/clock.h"
#include "base/observe/trace/points.gen.h"
#include "base/reactor/reactor.h"
#include "data/wire/conn/internal.h"
#include "data/wire/conn/probes.gen.h"

enum {
	INFO_WAITED_NS = 1000000, /* not less than INFO_AGE_NS: so the end of a wait has later counters than its begin */
	INFO_AGE_NS = 1000000,
	INFO_RECORD_NS = 100000000, /* between two records of a connection whose requests wait */
	INFO_QUIET_RECORDS = 60,    /* seconds without a record if nothing changes */
	INFO_RESEND_US = 200000,    /* a lost packet may be sent again only then */
	INFO_CLOSED_US = 10000,	    /* a change of the closed time that is worth a record */
};

/* Read the counters, unless those read before are younger than INFO_AGE_NS. False: the connection is gone. */
static bool refresh(struct tcp_conn *conn, uint64_t now)
{
	struct tcp_kernel_info *kernel = &conn->kernel;
	uint64_t closed_us = kernel->info.window_closed_us;

	now &= ~TICK_SHARED;
	if (kernel->tick != 0 && now < kernel->tick + clock_ticks_from_ns(INFO_AGE_NS))
		return true;
	if (!conn->sock || !conn->sock->ops->info(conn->sock, &kernel->info))
		return false;
	kernel->tick = now;
	kernel->way_us += min_u64(kernel->info.window_closed_us - closed_us, kernel->info.rtt_min_us);
	return true;
}

static struct tcp_mark current_mark(const struct tcp_kernel_info *kernel)
{
	return (struct tcp_mark){
		.tick = kernel->tick,
		.busy_us = (uint32_t)kernel->info.busy_us,
		.closed_us = (uint32_t)(kernel->info.window_closed_us - kernel->way_us),
		.recovery_us = (uint32_t)kernel->info.recovery_us,
		.lost = kernel->info.retransmits + kernel->info.reordered,
	};
}

static void record(struct tcp_conn *conn, uint64_t now)
{
	struct tcp_kernel_info *kernel = &conn->kernel;
	const struct sock_info *info = &kernel->info;

	kernel->recorded = current_mark(kernel);
	kernel->quiet_seconds = 0;
	probe_tcp_info(now, conn, info->busy_us, info->window_closed_us, info->buffer_full_us, kernel->recorded.lost);
	probe_tcp_path(now | TICK_SHARED, conn, info->rtt_us, info->rtt_min_us, info->unacked, info->unsent_bytes);
}

void tcp_kernel_info_begin(struct tcp_req *treq, uint64_t now)
{
	if (treq->mark.tick == 0 && trace_wanted(TRACE_POINT_TCP_WAITED) && refresh(treq->conn, now))
		treq->mark = current_mark(&treq->conn->kernel);
}

void tcp_kernel_info_waited(struct tcp_req *treq, uint64_t now)
{
	struct tcp_conn *conn = treq->conn;
	const struct trace_story *story = &treq->req.story;
	uint64_t since = story->ticks[story->state] & ~TICK_SHARED, end = now & ~TICK_SHARED, stay_us;
	uint32_t closed_us = 0, unacked_us = 0, lost = 0;
	struct tcp_mark mark = treq->mark, last;

	treq->mark.tick = 0;
	if (end < since + clock_ticks_from_ns(INFO_WAITED_NS) || !refresh(conn, now))
		return;
	stay_us = clock_ns_from_ticks(end - since) / NS_PER_US;
	last = current_mark(&conn->kernel);
	if (last.tick > mark.tick) {
		uint64_t busy_us = min_u64(last.busy_us - mark.busy_us, stay_us);
		uint32_t recovery_us = last.recovery_us - mark.recovery_us, unclear_us = 0;

		closed_us = (uint32_t)min_u64(last.closed_us - mark.closed_us, busy_us);
		lost = last.lost - mark.lost;
		/* lost packets fill the window, too, until they are sent again; without the time of that it is unclear */
		if (!conn->kernel.info.recovery_known)
			unclear_us = (uint32_t)min_u64(closed_us, (uint64_t)lost * INFO_RESEND_US);
		closed_us -= (uint32_t)max_u64(unclear_us, min_u64(recovery_us, closed_us));
		unacked_us = (uint32_t)busy_us - closed_us - unclear_us;
	}
	probe_tcp_waited(now | TICK_SHARED, &treq->req, closed_us, unacked_us, lost);
	if (end >= conn->kernel.recorded.tick + clock_ticks_from_ns(INFO_RECORD_NS))
		record(conn, now | TICK_SHARED);
}

void tcp_kernel_info_sample(struct tcp_conn *conn, uint64_t now)
{
	struct tcp_kernel_info *kernel = &conn->kernel;
	struct tcp_mark last;

	if (!conn->sock || (conn->send_position == kernel->send_position && conn->tags_used == conn->parked_count))
		return;
	kernel->send_position = conn->send_position;
	if (!refresh(conn, now))
		return;
	last = current_mark(kernel);
	if (kernel->recorded.tick == 0 || last.lost != kernel->recorded.lost ||
	    last.closed_us - kernel->recorded.closed_us >= INFO_CLOSED_US || ++kernel->quiet_seconds >= INFO_QUIET_RECORDS)
		record(conn, now | TICK_SHARED);
}
