/* SPDX-License-Identifier: BSD-2-Clause */
/* transport - "TCP" as the target asks for it: listeners on the control thread, a group on each poll group's. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "reactor/reactor.h"
#include "target/target.h"
#include "wire/conn/conn.h"
#include "wire/conn/internal.h"

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

/* On its way from the listener to its poll group. */
struct arrival {
	struct nvmf_poll_group *group;
	int fd;
};

struct tcp_group *tcp_group_of(struct nvmf_poll_group *poll_group)
{
	return nvmf_poll_group_transport_state(poll_group, &ops);
}

static void unchoose(void *ctx)
{
	nvmf_target_unchoose_group(ctx);
}

static void arrive(void *ctx)
{
	struct arrival *arrival = ctx;
	struct sock *sock;

	if (tcp_group_of(arrival->group) && sock_from_fd(arrival->fd, &sock) == 0) {
		tcp_conn_accept(arrival->group, sock);
	} else {
		/* it has gone already, or we are going */
		close(arrival->fd);
		thread_send_msg(thread_control(), unchoose, arrival->group);
	}
	free(arrival);
}

static void accepted(void *ctx, int fd)
{
	struct nvmf_poll_group *group = nvmf_target_choose_group();
	struct arrival *arrival = group ? malloc(sizeof(*arrival)) : NULL;

	if (!arrival) {
		close(fd);
		if (group)
			nvmf_target_unchoose_group(group);
		return;
	}
	*arrival = (struct arrival){ .group = group, .fd = fd };
	thread_send_msg(nvmf_poll_group_thread(group), arrive, arrival);
}

static int create(struct nvmf_transport_options *options, void **transport_ret, struct fault *why)
{
	struct tcp_transport *transport;

	if (options->in_capsule_data_size > TCP_SLOT_BYTES)
		return fault(why, -EINVAL, "in_capsule_data_size %u is more than %d", options->in_capsule_data_size,
			     TCP_SLOT_BYTES);
	transport = calloc(1, sizeof(*transport));
	if (!transport)
		return fault(why, -ENOMEM, "out of memory");
	transport->options = *options;
	TAILQ_INIT(&transport->listeners);
	*transport_ret = transport;
	return 0;
}

static void destroy(void *ctx)
{
	struct tcp_transport *transport = ctx;

	must(TAILQ_EMPTY(&transport->listeners));
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
	struct fault why = { 0 };
	int rc;

	must(listener);
	listener->address = *address;
	rc = sock_listen(address->traddr, address->trsvcid, accepted, transport, &listener->listener, &why);
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
	struct fault why = { 0 };
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
	.create = create,
	.destroy = destroy,
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
