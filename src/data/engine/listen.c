/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The address to which hosts connect: the discovery subsystem listens at --listen, after replay of the configuration. A
 * transport or listener that the configuration created is used unchanged.
 *
 * The target identifies a listener by address and port, so it needs the port before it listens. For port 0 we choose a port
 * that is free now, and try another if that one is in use by the time of listen().
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "data/engine/control.h"
#include "data/engine/rpc/nvmf.h"

enum { PORT_ATTEMPTS_MAX = 16 };

static struct {
	engine_done_fn done;
	void *ctx;
	struct nvmf_address address;
	unsigned int attempts;
	bool made; /* by us, not by the configuration */
} listening;

static void call_done(const struct fathom_fault *why)
{
	listening.done(listening.ctx, why);
}

/* Find a port that is free on `traddr`. Errors: -errno. */
static int free_port(const char *traddr, char *service, size_t service_bytes)
{
	struct sockaddr_in6 six = { .sin6_family = AF_INET6 };
	struct sockaddr_in four = { .sin_family = AF_INET };
	bool ipv6 = strchr(traddr, ':') != NULL;
	struct sockaddr *address = ipv6 ? (struct sockaddr *)&six : (struct sockaddr *)&four;
	socklen_t bytes = ipv6 ? sizeof(six) : sizeof(four);
	int fd, error = 0;

	must(inet_pton(address->sa_family, traddr, ipv6 ? (void *)&six.sin6_addr : (void *)&four.sin_addr) == 1);
	fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (bind(fd, address, bytes) != 0 || getsockname(fd, address, &bytes) != 0)
		error = -errno;
	close(fd);
	if (error == 0)
		snprintf(service, service_bytes, "%u", ntohs(ipv6 ? six.sin6_port : four.sin_port));
	return error;
}

static void add_listener(void);

static void listener_added(void *ctx, int rc, const struct fathom_fault *why)
{
	const struct engine_server_options *server = &engine_options()->server;
	bool ipv6 = strchr(listening.address.traddr, ':') != NULL;

	listening.made = rc == 0;
	if (rc == -EADDRINUSE && server->port == 0 && listening.attempts < PORT_ATTEMPTS_MAX) {
		add_listener();
		return;
	}
	if (rc && rc != -EEXIST) {
		call_done(why);
		return;
	}
	(void)text_copy(engine_control.traddr, sizeof(engine_control.traddr),
			listening.address.traddr); /* numeric, so it fits */
	(void)text_copy(engine_control.trsvcid, sizeof(engine_control.trsvcid), listening.address.trsvcid);
	snprintf(engine_control.uri, sizeof(engine_control.uri), ipv6 ? "%s://[%s]:%s" : "%s://%s:%s", server->provider,
		 engine_control.traddr, engine_control.trsvcid);
	call_done(NULL);
}

static void add_listener(void)
{
	const struct engine_server_options *server = &engine_options()->server;
	struct fathom_fault why;
	int error;

	listening.attempts++;
	if (server->port) {
		snprintf(listening.address.trsvcid, sizeof(listening.address.trsvcid), "%u", server->port);
	} else {
		error = free_port(server->address, listening.address.trsvcid, sizeof(listening.address.trsvcid));
		if (error) {
			fill_fault(&why, error, "--listen %s:0: %s", server->address, strerror(-error));
			call_done(&why);
			return;
		}
	}
	nvmf_subsystem_add_listener(NVME_DISCOVERY_NQN, &listening.address, NULL, listener_added, NULL);
}

static void transport_created(void *ctx, int rc, const struct fathom_fault *why)
{
	if (rc)
		call_done(why);
	else
		add_listener();
}

void engine_control_listen(engine_done_fn done, void *ctx)
{
	const struct engine_server_options *server = &engine_options()->server;
	struct nvmf_transport_options options;

	listening.done = done;
	listening.ctx = ctx;
	if (!server->address) {
		call_done(NULL);
		return;
	}
	(void)text_copy(listening.address.trtype, sizeof(listening.address.trtype), "TCP"); /* fits */
	(void)text_copy(listening.address.traddr, sizeof(listening.address.traddr), server->address);
	if (nvmf_transport_find("TCP")) {
		add_listener();
		return;
	}
	nvmf_transport_options_init(&options);
	nvmf_transport_create("TCP", &options, transport_created, NULL);
}

bool engine_control_made_listener(const char *nqn, const struct nvmf_address *address)
{
	return listening.made && strcmp(nqn, NVME_DISCOVERY_NQN) == 0 &&
	       strcmp(address->traddr, listening.address.traddr) == 0 &&
	       strcmp(address->trsvcid, listening.address.trsvcid) == 0;
}
