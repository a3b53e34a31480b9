/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * send_sample - how long bytes stay in the kernel's send buffer, by samples.
 *
 * For the engine a request ends when the socket has accepted its response. If the host does not read, or the network is
 * slow, the response then waits in the kernel, and no stage of the request shows it. So the position of the last byte
 * accepted is sampled, and the sample ends when the kernel has sent that byte. A connection has one sample at a time, at
 * most one per SAMPLE_INTERVAL_NS, or per SAMPLE_BLOCKED_NS while the socket is full. The sample's duration is the delay
 * that the kernel's buffer adds; the trace records it like the stages of a request.
 *
 * The kernel does not report when it has sent. While samples are open a timer checks, less often the longer a sample lasts:
 * a sample may be an eighth too long. Bytes sent but not acknowledged do not count, because hosts delay acknowledgements.
 */
#include "base/clock.h"
#include "base/reactor/reactor.h"
#include "data/wire/conn/internal.h"
#include "data/wire/conn/probes.gen.h"

enum {
	SAMPLE_INTERVAL_NS = 10000000,
	SAMPLE_BLOCKED_NS = 1000000, /* more often while the socket is full: then the delay matters */
	SAMPLE_ERROR_PART = 8,	     /* the next check is due after 1/8 of the sample's age */
};

void tcp_send_sample_init(struct tcp_conn *conn)
{
	trace_object_init(&conn->sample.story.trace, TRACE_OBJECT_TCP_SEND_SAMPLE);
	conn->sample.story.trace.owner = conn->qpair.trace.owner;
}

/* The stream position up to which the kernel has sent. */
static uint64_t sent_position(const struct tcp_conn *conn)
{
	uint64_t unsent = conn->sock->ops->unsent(conn->sock);

	return conn->send_position - min_u64(unsent, conn->send_position);
}

void tcp_send_sample_end(struct tcp_conn *conn, uint64_t now)
{
	struct tcp_group *group = conn->group;

	if (conn->sample.story.state == TCP_SEND_SAMPLE_FREE)
		return;
	tcp_send_sample_state_move(now, &conn->sample, TCP_SEND_SAMPLE_FREE);
	TAILQ_REMOVE(&group->sampled, conn, sample.link);
	if (TAILQ_EMPTY(&group->sampled))
		poller_pause(group->sampler);
}

int tcp_send_samples_check(void *ctx)
{
	struct tcp_group *group = ctx;
	struct tcp_conn *conn, *next;
	uint64_t now = reactor_now();
	int busy = 0;

	TAILQ_FOREACH_SAFE (conn, &group->sampled, sample.link, next) {
		struct tcp_send_sample *sample = &conn->sample;

		if (now < sample->check)
			continue;
		busy++;
		if (sent_position(conn) >= sample->position)
			tcp_send_sample_end(conn, now);
		else
			sample->check = now + (now - sample->story.ticks[TCP_SEND_SAMPLE_QUEUED]) / SAMPLE_ERROR_PART;
	}
	return busy;
}

void tcp_send_sample_begin(struct tcp_conn *conn, uint64_t now)
{
	struct tcp_send_sample *sample = &conn->sample;
	struct tcp_group *group = conn->group;
	uint64_t unsent;

	sample->due = now + clock_ticks_from_ns(SAMPLE_INTERVAL_NS);
	sample->due_blocked = now + clock_ticks_from_ns(SAMPLE_BLOCKED_NS);
	if (sample->story.state != TCP_SEND_SAMPLE_FREE || !conn->sock)
		return;
	unsent = conn->send_position - sent_position(conn);
	sample->story.args[0] = (uint32_t)min_u64(unsent, UINT32_MAX);
	tcp_send_sample_state_move(now | TICK_SHARED, sample, TCP_SEND_SAMPLE_QUEUED);
	if (unsent == 0) {
		tcp_send_sample_state_move(now | TICK_SHARED, sample, TCP_SEND_SAMPLE_FREE);
		return;
	}
	sample->position = conn->send_position;
	sample->check = 0;
	if (TAILQ_EMPTY(&group->sampled))
		poller_resume(group->sampler);
	TAILQ_INSERT_TAIL(&group->sampled, conn, sample.link);
}
