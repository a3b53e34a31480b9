/* SPDX-License-Identifier: BSD-2-Clause */
/* net - see net.h. Defines all functions of data/wire/sock, so that the linker does not use the real ones. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/list.h"
#include "base/text.h"
#include "net.h"
#include "base/reactor/reactor.h"
#include "sim.h"
#include "data/wire/sock/sock.h"

enum { FD_FIRST = 1 << 20, WIRES_MAX = 4096, ROOM_FIRST = 4096 };

struct pipe_way {
	uint8_t *bytes;
	size_t head, visible, tail, room; /* offsets of bytes read, readable, written; room of the buffer */
	bool fin, fin_visible;
};

struct sim_sock {
	struct sock sock;
	struct wire *wire;
	struct poller *poller;
	bool want_write;
};

struct wire {
	unsigned int index, host;
	char address[SOCK_ADDRESS_BYTES_MAX], service[SOCK_SERVICE_BYTES_MAX];
	struct pipe_way up, down; /* host to target, target to host */
	struct sim_sock *sock;	  /* NULL: not accepted yet, or closed */
	bool host_gone, target_gone, reset, crawls;
	size_t window;	  /* window of the target's sends */
	size_t piece_max; /* maximum bytes carried at a time */
	uint64_t stalled_until;
};

struct sock_listener {
	char address[SOCK_ADDRESS_BYTES_MAX], service[SOCK_SERVICE_BYTES_MAX];
	sock_accept_fn accept;
	void *ctx;
	TAILQ_ENTRY(sock_listener) link;
};

static struct {
	struct wire *wires[WIRES_MAX];
	unsigned int made, first, target_sockets; /* no wire before `first` is open */
	TAILQ_HEAD(, sock_listener) listeners;
	bool ready;
} net;

int __real_close(int fd);
int __wrap_close(int fd);

/* ---- one direction ---- */

static void put(struct pipe_way *way, const void *bytes, size_t count)
{
	if (way->tail + count > way->room && way->head > 0) {
		memmove(way->bytes, way->bytes + way->head, way->tail - way->head);
		way->visible -= way->head;
		way->tail -= way->head;
		way->head = 0;
	}
	if (way->tail + count > way->room) {
		way->room = round_up_power_of_two(max_u64(way->tail + count, ROOM_FIRST));
		way->bytes = realloc(way->bytes, way->room);
		must(way->bytes);
	}
	memcpy(way->bytes + way->tail, bytes, count);
	way->tail += count;
}

static void carry(struct wire *wire, struct pipe_way *way)
{
	size_t left = way->tail - way->visible;
	bool crawls = wire->crawls && !sim.woken && way == &wire->down;

	if (left > 0) {
		size_t most = sim.calm && !crawls ? left : min_u64(left, wire->piece_max);

		way->visible += sim_chance(1, 2) ? most : 1 + sim_below(most);
	} else if (way->fin) {
		way->fin_visible = true;
	}
}

void net_step(void)
{
	while (net.first < net.made && !net.wires[net.first])
		net.first++;
	for (unsigned int i = net.first; i < net.made; i++) {
		struct wire *wire = net.wires[i];

		if (!wire || (wire->stalled_until > sim.now && !sim.calm))
			continue;
		if (sim_chance(3, 4))
			carry(wire, &wire->up);
		if (wire->crawls && !sim.woken ? sim_chance(1, 200) : sim_chance(3, 4))
			carry(wire, &wire->down);
	}
}

unsigned int net_target_sockets(void)
{
	return net.target_sockets;
}

static void free_if_unused(struct wire *wire)
{
	if (!wire->host_gone || !wire->target_gone)
		return;
	net.wires[wire->index] = NULL;
	free(wire->up.bytes);
	free(wire->down.bytes);
	free(wire);
}

/* ---- the target's end ---- */

static ssize_t sim_receive(struct sock *sock, const struct iovec *iov, int iov_count)
{
	struct wire *wire = container_of(sock, struct sim_sock, sock)->wire;
	struct pipe_way *way = &wire->up;
	size_t ready = way->visible - way->head, taken = 0;

	if (wire->reset)
		return -ECONNRESET;
	if (ready == 0)
		return way->fin_visible ? 0 : -EAGAIN;
	if (sim.chops && !sim.calm && sim_chance(1, 4))
		ready = 1 + sim_below(ready);
	for (int i = 0; i < iov_count && taken < ready; i++) {
		size_t piece = min_u64(iov[i].iov_len, ready - taken);

		memcpy(iov[i].iov_base, way->bytes + way->head, piece);
		way->head += piece;
		taken += piece;
	}
	return (ssize_t)taken;
}

static size_t window_of(const struct wire *wire)
{
	return sim.calm && !(wire->crawls && !sim.woken) ? SIZE_MAX : wire->window;
}

static ssize_t sim_send(struct sock *sock, const struct iovec *iov, int iov_count)
{
	struct wire *wire = container_of(sock, struct sim_sock, sock)->wire;
	struct pipe_way *way = &wire->down;
	size_t used = way->tail - way->head, room = used < window_of(wire) ? window_of(wire) - used : 0, taken = 0;

	if (wire->reset)
		return -EPIPE;
	must(!way->fin);
	if (sim.chops && !sim.calm && sim_chance(1, 8))
		room = sim_below(room + 1);
	if (room == 0)
		return -EAGAIN;
	for (int i = 0; i < iov_count && taken < room; i++) {
		size_t piece = min_u64(iov[i].iov_len, room - taken);

		if (!wire->host_gone)
			put(way, iov[i].iov_base, piece);
		taken += piece;
	}
	return (ssize_t)taken;
}

static uint64_t sim_unsent(struct sock *sock)
{
	const struct wire *wire = container_of(sock, struct sim_sock, sock)->wire;

	return wire->reset ? 0 : wire->down.tail - wire->down.visible;
}

/* Packets are neither lost nor delayed by a closed window: only bytes that wait are counted. */
static bool sim_info(struct sock *sock, struct sock_info *info_ret)
{
	*info_ret = (struct sock_info){ .unsent_bytes = (uint32_t)sim_unsent(sock) };
	return true;
}

static int poll(void *ctx)
{
	struct sim_sock *sock = ctx;
	struct wire *wire = sock->wire;
	size_t used = wire->down.tail - wire->down.head;
	bool readable = wire->reset || wire->up.visible > wire->up.head || wire->up.fin_visible;
	bool writable = sock->want_write && (wire->reset || used < window_of(wire));

	if (readable || writable)
		sock->sock.ready(sock->sock.ctx, readable, writable);
	return readable || writable;
}

static int sim_start(struct sock *sock)
{
	struct sim_sock *self = container_of(sock, struct sim_sock, sock);

	self->poller = poller_register("sim_sock", poll, self, 0);
	return self->poller ? 0 : -ENOMEM;
}

static void sim_want_write(struct sock *sock, bool want)
{
	container_of(sock, struct sim_sock, sock)->want_write = want;
}

static void sim_shutdown(struct sock *sock)
{
	container_of(sock, struct sim_sock, sock)->wire->down.fin = true;
}

/* The target has closed. As in TCP, unread bytes make this a reset. */
static void target_closes(struct wire *wire)
{
	wire->target_gone = true;
	wire->sock = NULL;
	wire->down.fin = true;
	if (wire->up.tail > wire->up.head && !wire->host_gone) {
		wire->reset = true;
		if (sim_chance(1, 2))
			wire->down.tail = wire->down.visible;
	}
	free_if_unused(wire);
}

static void sim_close(struct sock *sock)
{
	struct sim_sock *self = container_of(sock, struct sim_sock, sock);
	struct wire *wire = self->wire;

	must(net.target_sockets > 0);
	net.target_sockets--;
	poller_unregister(&self->poller);
	free(self);
	target_closes(wire);
}

static const struct sock_ops sim_ops = {
	.receive = sim_receive,
	.send = sim_send,
	.unsent = sim_unsent,
	.info = sim_info,
	.start = sim_start,
	.want_write = sim_want_write,
	.shutdown = sim_shutdown,
	.close = sim_close,
};

/* ---- functions of data/wire/sock ---- */

int sock_start(struct sock *sock, sock_ready_fn ready, void *ctx)
{
	sock->ready = ready;
	sock->ctx = ctx;
	return sock->ops->start(sock);
}

int sock_from_fd(int fd, struct sock **sock_ret)
{
	struct wire *wire = net.wires[fd - FD_FIRST];
	struct sim_sock *sock;

	must(wire);
	if (wire->reset)
		return -ENOTCONN;
	sock = calloc(1, sizeof(*sock));
	must(sock);
	sock->sock.ops = &sim_ops;
	sock->sock.polling_pays = sim_chance(1, 3);
	sock->wire = wire;
	snprintf(sock->sock.peer_address, sizeof(sock->sock.peer_address), "10.0.1.%u", wire->host);
	snprintf(sock->sock.peer_service, sizeof(sock->sock.peer_service), "%u", 10000 + wire->index);
	text_copy(sock->sock.local_address, sizeof(sock->sock.local_address), wire->address);
	text_copy(sock->sock.local_service, sizeof(sock->sock.local_service), wire->service);
	wire->sock = sock;
	net.target_sockets++;
	*sock_ret = &sock->sock;
	return 0;
}

int sock_listen(const char *address, const char *service, sock_accept_fn accept, void *ctx,
		struct sock_listener **listener_ret, struct fathom_fault *why)
{
	struct sock_listener *listener = calloc(1, sizeof(*listener));

	must(listener);
	if (!net.ready)
		TAILQ_INIT(&net.listeners);
	net.ready = true;
	text_copy(listener->address, sizeof(listener->address), address);
	text_copy(listener->service, sizeof(listener->service), service);
	listener->accept = accept;
	listener->ctx = ctx;
	TAILQ_INSERT_TAIL(&net.listeners, listener, link);
	*listener_ret = listener;
	return 0;
}

const char *sock_listener_service(const struct sock_listener *listener)
{
	return listener->service;
}

void sock_listener_close(struct sock_listener *listener)
{
	if (!listener)
		return;
	TAILQ_REMOVE(&net.listeners, listener, link);
	free(listener);
}

/* The transport closes descriptors of connections that it does not serve; simulated ones are not real descriptors. */
int __wrap_close(int fd)
{
	struct wire *wire;

	if (fd < FD_FIRST)
		return __real_close(fd);
	wire = net.wires[fd - FD_FIRST];
	must(wire);
	wire->reset = true;
	target_closes(wire);
	return 0;
}

/* ---- the host's end ---- */

static void arrive(void *ctx)
{
	struct wire *wire = ctx;
	struct sock_listener *listener;

	TAILQ_FOREACH (listener, &net.listeners, link) {
		if (strcmp(listener->address, wire->address) == 0 && strcmp(listener->service, wire->service) == 0) {
			char peer[SOCK_ADDRESS_BYTES_MAX];

			snprintf(peer, sizeof(peer), "10.0.1.%u", wire->host);
			listener->accept(listener->ctx, FD_FIRST + (int)wire->index, peer);
			return;
		}
	}
	wire->reset = true;
	target_closes(wire);
}

struct wire *wire_connect(unsigned int host, const char *address, const char *service)
{
	static const size_t pieces[] = { 7, 100, 1460, 8192, 65536, 1 << 20 };
	struct wire *wire = calloc(1, sizeof(*wire));

	must(wire);
	sim_check(net.made < WIRES_MAX, "more connections than the simulator has room for");
	wire->index = net.made;
	wire->host = host;
	text_copy(wire->address, sizeof(wire->address), address);
	text_copy(wire->service, sizeof(wire->service), service);
	wire->piece_max = sim.chops ? pieces[sim_below(ARRAY_COUNT(pieces))] : 1 << 20;
	wire->window = sim.chops ? sim_between(300, 100000) : 1 << 20;
	net.wires[net.made++] = wire;
	thread_send_msg(thread_control(), arrive, wire);
	return wire;
}

void wire_write(struct wire *wire, const void *bytes, size_t count)
{
	must(!wire->host_gone);
	must(!wire->up.fin);
	if (!wire->target_gone && !wire->reset)
		put(&wire->up, bytes, count);
}

size_t wire_peek(struct wire *wire, const uint8_t **at_ret)
{
	*at_ret = wire->down.bytes + wire->down.head;
	return wire->down.visible - wire->down.head;
}

void wire_consume(struct wire *wire, size_t count)
{
	wire->down.head += count;
	must(wire->down.head <= wire->down.visible);
}

bool wire_ended(const struct wire *wire)
{
	const struct pipe_way *way = &wire->down;

	return way->head == way->visible && (way->fin_visible || (wire->reset && way->visible == way->tail));
}

bool wire_target_gone(const struct wire *wire)
{
	return wire->target_gone;
}

bool wire_was_reset(const struct wire *wire)
{
	return wire->reset;
}

size_t wire_undelivered(const struct wire *wire)
{
	return wire->target_gone ? 0 : wire->up.tail - wire->up.head;
}

void wire_stall(struct wire *wire, uint64_t ns)
{
	wire->stalled_until = sim.now + ns;
}

void wire_crawl(struct wire *wire)
{
	wire->crawls = true;
	wire->piece_max = 64;
	wire->window = 4096;
}

void wire_fin(struct wire *wire)
{
	wire->up.fin = true;
}

void wire_reset(struct wire *wire)
{
	wire->reset = true;
	wire->down.tail = wire->down.visible = wire->down.head;
}

void wire_free(struct wire *wire)
{
	if (!wire)
		return;
	if (!wire->up.fin)
		wire_reset(wire);
	wire->host_gone = true;
	/* Bytes that the target still sends are accepted and dropped. */
	wire->window = SIZE_MAX;
	wire->crawls = false;
	free_if_unused(wire);
}
