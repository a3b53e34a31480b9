/* SPDX-License-Identifier: BSD-2-Clause */
/* transport - implements nvmf_transport_ops for "TCP": listeners on the control thread, one group per poll group thread. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "base/log_limit.h"
#include "base/text.h"
#include "data/nvme/names.h"
#include "base/reactor/reactor.h"
#include "data/target/target.h"
#include "data/wire/conn/admission.h"
#include "data/wire/conn/conn.h"
#include "data/wire/conn/probes.gen.h"

enum { REFUSALS_LOGGED_AT_ONCE = 5 };

struct tcp_listener {
	struct nvmf_address address;
	struct sock_listener *listener;
	TAILQ_ENTRY(tcp_listener) link;
};

struct tcp_transport {
	struct nvmf_transport_options options;
	TAILQ_HEAD(, tcp_listener) listeners;
};

static const struct nvmf_transport_ops ops;

/* Control thread only. The process has at most one TCP transport. */
static struct {
	struct tcp_admission admission;
	struct log_limit limits[TCP_REFUSAL_MEMORY + 1], breach_limit;
	uint64_t refused[TCP_REFUSAL_MEMORY + 1];
} gate;

/* Message from the listener to a poll group: a new connection. */
struct arrival {
	struct nvmf_poll_group *group;
	struct tcp_peer *peer;
	int fd;
};

/* Message to a poll group: call tcp_group_hurry(). */
struct hurry {
	struct nvmf_poll_group *group;
	char address[SOCK_ADDRESS_BYTES_MAX];
};

struct tcp_group *tcp_group_of(struct nvmf_poll_group *poll_group)
{
	return nvmf_poll_group_transport_state(poll_group, &ops);
}

static void unchoose_group(void *ctx)
{
	nvmf_target_unchoose_group(ctx);
}

void tcp_transport_peer_left(void *peer)
{
	must_be_on(thread_control());
	tcp_admission_leave(&gate.admission, peer);
}

static void accept_on_group(void *ctx)
{
	struct arrival *arrival = ctx;
	struct sock *sock;

	if (tcp_group_of(arrival->group) && sock_from_fd(arrival->fd, &sock) == 0) {
		tcp_conn_accept(arrival->group, sock, arrival->peer);
	} else {
		/* the peer has disconnected, out of memory, or the group is being destroyed */
		close(arrival->fd);
		thread_send_msg(thread_control(), unchoose_group, arrival->group);
		thread_send_msg(thread_control(), tcp_transport_peer_left, arrival->peer);
	}
	free(arrival);
}

/* ---- refusals ---- */

static void hurry_group(void *ctx)
{
	struct hurry *hurry = ctx;
	struct tcp_group *group = tcp_group_of(hurry->group);

	if (group)
		tcp_group_hurry(group, hurry->address, reactor_now());
	free(hurry);
}

static void hurry_groups(const char *address)
{
	for (unsigned int i = 0; i < nvmf_poll_group_count(); i++) {
		struct hurry *message = calloc(1, sizeof(*message));

		if (!message)
			return; /* silent connections still end after CONNECT_TIMEOUT_MS */
		message->group = nvmf_poll_group_at(i);
		(void)text_copy(message->address, sizeof(message->address), address); /* the source has the same size */
		thread_send_msg(nvmf_poll_group_thread(message->group), hurry_group, message);
	}
}

/* The text for the log. NULL: log nothing, because the target is not ready or stops, which needs no action. */
static const char *refusal_text(enum tcp_refusal reason, char *text, size_t bytes)
{
	uint32_t limit = descriptor_limit();

	switch (reason) {
	case TCP_REFUSAL_DESCRIPTORS:
		snprintf(text, bytes, "%u of %u descriptors are in use, and the others are kept for control (ulimit -n)",
			 limit - descriptor_reserve(limit), limit);
		return text;
	case TCP_REFUSAL_CONNECTIONS:
		snprintf(text, bytes, "there are %u connections, the limit (max_connections of nvmf_create_transport)",
			 gate.admission.connections_max);
		return text;
	case TCP_REFUSAL_ADDRESS:
		snprintf(text, bytes,
			 "the address has %u connections, its limit (max_connections_per_address of nvmf_create_transport)",
			 gate.admission.connections_per_address_max);
		return text;
	case TCP_REFUSAL_MEMORY:
		return "out of memory";
	case TCP_REFUSAL_ADMITTED:
		break;
	}
	return NULL;
}

uint64_t tcp_transport_refused(enum tcp_refusal reason)
{
	must_be_on(thread_control());
	return gate.refused[reason];
}

static void report_refusal(const char *address, enum tcp_refusal reason)
{
	uint64_t now = reactor_now(), now_ns = clock_ns_from_ticks(now);
	const char *shown = address[0] ? address : "(unknown address)", *why;
	char text[128];

	gate.refused[reason]++;
	probe_tcp_refuse(now, trace_intern_foreign(shown), reason);
	why = refusal_text(reason, text, sizeof(text));
	if (why)
		log_line_limited(&gate.limits[reason], now_ns, LOG_LEVEL_WARNING,
				 "NVMe/TCP: refused a connection from %s: %s", shown, why);
	if ((reason == TCP_REFUSAL_DESCRIPTORS || reason == TCP_REFUSAL_CONNECTIONS) &&
	    tcp_admission_hurries(&gate.admission, address, false, now_ns))
		hurry_groups("");
	else if (reason == TCP_REFUSAL_ADDRESS && tcp_admission_hurries(&gate.admission, address, true, now_ns))
		hurry_groups(address);
}

/* ---- protocol errors of hosts ---- */

/* Message to the control thread. */
struct breach {
	char address[SOCK_ADDRESS_BYTES_MAX];
	uint16_t qid, queue_entries;
	bool overrun;
	enum nvme_tcp_fes fes;
};

static void log_breach(void *ctx)
{
	struct breach *breach = ctx;
	uint64_t now_ns = clock_ns_from_ticks(reactor_now());

	if (breach->overrun)
		log_line_limited(
			&gate.breach_limit, now_ns, LOG_LEVEL_WARNING,
			"NVMe/TCP: %s: queue %u is full: the host sent more commands than its %u entries hold; its "
			"connection ends",
			breach->address, breach->qid, breach->queue_entries);
	else
		log_line_limited(&gate.breach_limit, now_ns, LOG_LEVEL_WARNING,
				 "NVMe/TCP: %s: queue %u: the host broke the protocol (%s); its connection ends",
				 breach->address, breach->qid, nvme_tcp_fes_name((uint16_t)breach->fes));
	free(breach);
}

void tcp_transport_log_breach(const struct tcp_conn *conn, enum nvme_tcp_fes fes)
{
	struct breach *breach = calloc(1, sizeof(*breach));

	if (!breach)
		return;									     /* the trace has the event */
	(void)text_copy(breach->address, sizeof(breach->address), conn->qpair.peer_address); /* the same size */
	breach->qid = conn->qpair.qid;
	breach->queue_entries = conn->qpair.queue_entries;
	breach->overrun = conn->overrun;
	breach->fes = fes;
	thread_send_msg(thread_control(), log_breach, breach);
}

/* ---- accepted connections ---- */

static enum tcp_refusal reason_of(int error)
{
	return error == -EUSERS ? TCP_REFUSAL_CONNECTIONS : error == -EDQUOT ? TCP_REFUSAL_ADDRESS : TCP_REFUSAL_MEMORY;
}

static void handle_accept(void *ctx, int fd, const char *peer_address)
{
	struct nvmf_poll_group *group;
	struct arrival *arrival;
	struct tcp_peer *peer;
	int error;

	if (fd < 0) {
		report_refusal(peer_address, TCP_REFUSAL_DESCRIPTORS);
		return;
	}
	group = nvmf_target_choose_group();
	if (!group) {
		close(fd);
		report_refusal(peer_address, TCP_REFUSAL_ADMITTED);
		return;
	}
	error = tcp_admission_enter(&gate.admission, peer_address, &peer);
	arrival = error ? NULL : malloc(sizeof(*arrival));
	if (!arrival) {
		close(fd);
		nvmf_target_unchoose_group(group);
		if (!error)
			tcp_admission_leave(&gate.admission, peer);
		report_refusal(peer_address, reason_of(error));
		return;
	}
	*arrival = (struct arrival){ .group = group, .peer = peer, .fd = fd };
	thread_send_msg(nvmf_poll_group_thread(group), accept_on_group, arrival);
}

/* ---- transport operations ---- */

static int create_transport(struct nvmf_transport_options *options, void **transport_ret, struct fathom_fault *why)
{
	struct tcp_transport *transport;

	must(options->in_capsule_data_size <= NVMF_IN_CAPSULE_BYTES_MAX);
	transport = calloc(1, sizeof(*transport));
	if (!transport)
		return fault(why, -ENOMEM, "out of memory");
	tcp_admission_init(&gate.admission, options->max_connections, options->max_connections_per_address,
			   descriptor_admitted_max());
	for (size_t i = 0; i < ARRAY_COUNT(gate.limits); i++)
		gate.limits[i] = (struct log_limit)LOG_LIMIT(REFUSALS_LOGGED_AT_ONCE, NS_PER_SEC);
	gate.breach_limit = (struct log_limit)LOG_LIMIT(REFUSALS_LOGGED_AT_ONCE, NS_PER_SEC);
	transport->options = *options;
	TAILQ_INIT(&transport->listeners);
	*transport_ret = transport;
	return 0;
}

static void destroy_transport(void *ctx)
{
	struct tcp_transport *transport = ctx;

	must(TAILQ_EMPTY(&transport->listeners));
	must(gate.admission.connection_count == 0);
	free(transport);
}

static int group_create(void *ctx, struct nvmf_poll_group *poll_group, void **group_ret)
{
	struct tcp_transport *transport = ctx;
	void *group = tcp_group_create(poll_group, &transport->options);

	if (!group)
		return -ENOMEM;
	*group_ret = group;
	return 0;
}

static void group_destroy(void *transport, void *group, void (*done)(void *ctx), void *ctx)
{
	tcp_group_destroy_when_empty(group, done, ctx);
}

static void group_buffers(void *group, struct nvmf_buffer_stats *stats_ret, nvmf_buffer_user_fn fn, void *ctx)
{
	tcp_group_buffers(group, stats_ret, fn, ctx);
}

static void listen_at(void *ctx, const struct nvmf_address *address, nvmf_done_fn done, void *done_ctx)
{
	struct tcp_transport *transport = ctx;
	struct tcp_listener *listener = calloc(1, sizeof(*listener));
	struct fathom_fault why = { 0 };
	int rc;

	must(listener);
	listener->address = *address;
	rc = sock_listen(address->traddr, address->trsvcid, handle_accept, transport, &listener->listener, &why);
	if (rc == 0)
		TAILQ_INSERT_TAIL(&transport->listeners, listener, link);
	else
		free(listener);
	done(done_ctx, rc, &why);
}

static void stop_listen(void *ctx, const struct nvmf_address *address, nvmf_done_fn done, void *done_ctx)
{
	struct tcp_transport *transport = ctx;
	struct tcp_listener *listener;
	struct fathom_fault why = { 0 };
	int rc = 0;

	TAILQ_FOREACH (listener, &transport->listeners, link) {
		if (strcmp(listener->address.traddr, address->traddr) == 0 &&
		    strcmp(listener->address.trsvcid, address->trsvcid) == 0)
			break;
	}
	if (listener) {
		TAILQ_REMOVE(&transport->listeners, listener, link);
		sock_listener_close(listener->listener);
		free(listener);
	} else {
		rc = fault(&why, -ENOENT, "not listening on %s port %s", address->traddr, address->trsvcid);
	}
	done(done_ctx, rc, &why);
}

static const struct nvmf_transport_ops ops = {
	.name = "TCP",
	.trtype = NVME_TRTYPE_TCP,
	.create = create_transport,
	.destroy = destroy_transport,
	.group_create = group_create,
	.group_destroy = group_destroy,
	.group_buffers = group_buffers,
	.listen = listen_at,
	.stop_listen = stop_listen,
};

void tcp_transport_register(void)
{
	nvmf_transport_register(&ops);
}
