/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * client - requests in, replies out. A request is untrusted. Its sender is known by the kernel's credentials of each
 * message: a child process that writes to its parent's connection registers for itself.
 */
#include "inspect/probed/register/client.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/reactor/reactor.h"
#include "inspect/probed/register/probes.gen.h"

enum { STATUS_BYTES = 2048, FDS_TAKEN_MAX = 8 };
enum { HELPER_MODULE_BYTES = DOF_MODULE_BYTES, DOF_HEADER_BYTES = 64 };
static_assert((int)PROBED_MESSAGE_BYTES_MAX <= (int)REGISTRY_SLICE_BYTES, "an object in a message is not large");
static_assert(sizeof(((struct probed_request *)0)->helper) == sizeof(struct dof_helper), "helper is a struct dof_helper");

static void client_ready(void *ctx, uint32_t events);

/* ---- create and destroy ---- */

struct client *client_create(struct server *server, int fd, pid_t pid, uid_t uid)
{
	struct client *client = calloc(1, sizeof(*client));

	if (!client) {
		close(fd);
		return NULL;
	}
	client->server = server;
	client->fd = fd;
	client->pid = pid;
	client->uid = client->owner = uid;
	client->last_active_ns = clock_monotonic_ns();
	trace_object_init(&client->trace, TRACE_OBJECT_PROBED_CLIENT);
	client->watch = fd_watch_add(fd, EPOLLIN, client_ready, client);
	if (!client->watch) {
		close(fd);
		free(client);
		return NULL;
	}
	TAILQ_INSERT_TAIL(&server->clients, client, link);
	server->client_count++;
	must(server->client_count <= server->options.connections_max);
	probe_probed_client_connected(clock_ticks(), client, pid, uid);
	return client;
}

static void note_client_activity(struct client *client)
{
	must(!client->gone);
	client->last_active_ns = clock_monotonic_ns();
	TAILQ_REMOVE(&client->server->clients, client, link);
	TAILQ_INSERT_TAIL(&client->server->clients, client, link);
}

void client_leave(struct client *client, enum probed_leave_reason reason)
{
	struct server *server = client->server;

	must(!client->gone);
	must(client->fd >= 0);
	must(!client->queued || !client->listing); /* a queued one has no listing yet */
	probe_probed_client_left(clock_ticks(), client, reason, client->requests);
	fd_watch_remove(&client->watch);
	close(client->fd);
	client->fd = -1;
	if (client->listing) {
		listing_free(client->listing);
		client->listing = NULL;
		listing_ended(server);
	}
	must(server->client_count > 0);
	TAILQ_REMOVE(&server->clients, client, link);
	server->client_count--;
	must((server->client_count == 0) == TAILQ_EMPTY(&server->clients));
	server_has_room(server);
	client->gone = true;
	if (!client->busy) /* else answer_add() frees it */
		free(client);
}

void client_watch(struct client *client)
{
	if (client->busy || client->queued || (client->listing && listing_waits(client->listing)))
		fd_watch_modify(client->watch, 0);
	else
		fd_watch_modify(client->watch, client->listing ? EPOLLOUT : EPOLLIN);
}

/* ---- replies ---- */

bool client_reply(struct client *client, int error, bool more, uint64_t value, const char *text, size_t bytes)
{
	struct probed_reply reply = {
		.version = PROBED_PROTOCOL_VERSION,
		.operation = client->request.operation,
		.cookie = client->request.cookie,
		.error = error,
		.more = more,
		.value = value,
	};
	struct iovec iov[2] = { { &reply, sizeof(reply) }, { (void *)text, bytes } };
	const struct msghdr message = { .msg_iov = iov, .msg_iovlen = 2 };

	must(!client->gone && client->fd >= 0);
	must(error <= 0);
	must(bytes <= PROBED_REPLY_TEXT_BYTES_MAX);
	if (sendmsg(client->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
		return true;
	return errno != EAGAIN && errno != ENOBUFS && errno != EINTR; /* the watch reports a closed connection */
}

void client_answer(struct client *client, int error, uint64_t value, const char *text)
{
	/* a client has one request in progress: its socket is full only if it did not take earlier answers */
	if (!client_reply(client, error, false, value, text, strlen(text)))
		client_leave(client, PROBED_LEAVE_READER_TOO_SLOW);
}

static void send_status(struct client *client)
{
	struct registry_stats registry;
	struct stash_stats stash;
	struct jail_stats jail;
	char text[STATUS_BYTES];

	registry_get_stats(client->server->registry, &registry, &stash, &jail);
	snprintf(text, sizeof(text),
		 "{\"version\":\"%s\",\"directory\":\"%s\",\"clients\":%u,\"processes\":%u,\"under_way\":%u,"
		 "\"received\":%" PRIu64 ",\"stored\":%" PRIu64 ",\"refused\":%" PRIu64 ",\"removed\":%" PRIu64
		 ",\"processes_dead\":%" PRIu64 ",\"execs\":%" PRIu64 ",\"mappings_gone\":%" PRIu64 ",\"large\":%" PRIu64
		 ",\"slices\":%" PRIu64 ",\"tree\":{\"processes\":%" PRIu64 ",\"registrations\":%" PRIu64
		 ",\"objects\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"probes\":%" PRIu64 ",\"swept\":%" PRIu64
		 ",\"repaired\":%" PRIu64 ",\"set_aside\":%" PRIu64 "},\"jail\":{\"slices\":%" PRIu64 ",\"parsed\":%" PRIu64
		 ",\"refused\":%" PRIu64 ",\"timed_out\":%" PRIu64 ",\"died\":%" PRIu64 ",\"nonsense\":%" PRIu64
		 ",\"children_started\":%" PRIu64 ",\"children\":%u,\"busy\":%u,\"waiting\":%u}}\n",
		 client->server->options.version, client->server->options.directory, client->server->client_count,
		 registry.processes, registry.under_way, registry.received, registry.stored, registry.refused,
		 registry.removed, registry.processes_dead, registry.execs, registry.mappings_gone, registry.large,
		 registry.slices, stash.processes, stash.registrations, stash.objects, stash.bytes, stash.probes,
		 stash.swept, stash.repaired, stash.set_aside, jail.slices, jail.parsed, jail.refused, jail.timed_out,
		 jail.died, jail.nonsense, jail.children_started, jail.children, jail.busy, jail.waiting);
	client_answer(client, 0, (uint64_t)getpid(), text);
}

/* ---- ADD ---- */

static void answer_add(void *ctx, int error, uint64_t generation, const struct fathom_fault *why)
{
	struct client *client = ctx;

	must(client->busy);
	must(!client->queued && !client->listing);
	client->busy = false;
	if (client->gone) {
		free(client);
		return;
	}
	note_client_activity(client);
	client_watch(client);
	client_answer(client, error, generation, error ? why->text : "");
}

/* Only a memfd: a read of another file could block. */
static int check_object_file(int fd, size_t bytes, struct fathom_fault *why)
{
	struct stat stat_of;

	if (fstat(fd, &stat_of) < 0 || !S_ISREG(stat_of.st_mode) || fcntl(fd, F_GET_SEALS) < 0)
		return fault(why, -EINVAL, "the descriptor is not a memfd");
	if (stat_of.st_size < 0 || (uint64_t)stat_of.st_size < bytes)
		return fault(why, -EINVAL, "the memfd has %lld bytes instead of %zu", (long long)stat_of.st_size, bytes);
	return 0;
}

static int read_object_file(int fd, void *data, size_t bytes, struct fathom_fault *why)
{
	size_t done = 0;

	must(fd >= 0);
	while (done < bytes) {
		ssize_t got = pread(fd, (char *)data + done, bytes - done, (off_t)done);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return fault(why, -EINVAL, "the memfd has only %zu bytes instead of %zu", done, bytes);
		done += (size_t)got;
	}
	return 0;
}

/* The loaded part of an object, by its header. The rest is not parsed, stored or charged. */
static size_t loaded_bytes(const void *data, size_t bytes, size_t object_bytes)
{
	struct dof_outline outline;

	if (!dof_outline(data, bytes, &outline) || outline.load_bytes < DOF_HEADER_BYTES ||
	    outline.load_bytes > object_bytes)
		return object_bytes; /* the parser reports the error */
	return (size_t)outline.load_bytes;
}

static int read_request_object(const struct probed_request *request, const void *inline_data, size_t inline_bytes, int fd,
			       struct registry_object *object, struct fathom_fault *why)
{
	char header[DOF_HEADER_BYTES];
	size_t bytes = (size_t)request->bytes, header_bytes = bytes < sizeof(header) ? bytes : sizeof(header);
	int error = 0;

	if (fd < 0 && inline_bytes != request->bytes)
		return fault(why, -EINVAL, "%zu bytes follow the request instead of %llu", inline_bytes,
			     (unsigned long long)request->bytes);
	if (fd >= 0 && inline_bytes > 0)
		return fault(why, -EINVAL, "the object is both in the message and in a memfd");
	if (request->bytes == 0)
		return 0;
	if (request->bytes > DOF_BYTES_MAX)
		return fault(why, -E2BIG, "the object has %llu bytes; the limit is %d", (unsigned long long)request->bytes,
			     DOF_BYTES_MAX);
	if (fd >= 0)
		error = check_object_file(fd, bytes, why);
	if (fd >= 0 && error == 0)
		error = read_object_file(fd, header, header_bytes, why);
	if (error)
		return error;
	must(header_bytes <= DOF_HEADER_BYTES);
	object->bytes = loaded_bytes(fd < 0 ? inline_data : header, header_bytes, bytes);
	must(object->bytes <= bytes); /* of a message or a memfd that has so many */
	if (object->bytes > REGISTRY_SLICE_BYTES) {
		object->file = fd;
		return 0;
	}
	object->data = malloc(object->bytes);
	if (!object->data)
		return fault(why, -ENOMEM, "out of memory for %zu bytes", object->bytes);
	if (fd >= 0)
		return read_object_file(fd, object->data, object->bytes, why);
	memcpy(object->data, inline_data, object->bytes);
	return 0;
}

static void handle_add(struct client *client, const void *inline_data, size_t inline_bytes, int fd)
{
	const struct probed_request *request = &client->request;
	struct registry_object object = {
		.way = PROBED_WAY_SOCKET, .pid = client->pid, .uid = client->uid, .file = -1, .connection = client->fd
	};
	struct fathom_fault why;
	int error;

	memcpy(&object.helper, request->helper, sizeof(object.helper));
	object.address = request->address ? request->address : object.helper.dof ? object.helper.dof : object.helper.base;
	error = read_request_object(request, inline_data, inline_bytes, fd, &object, &why);
	if (error) {
		free(object.data);
		registry_refuse_object(client->server->registry, &object, error, why.text);
		client_answer(client, error, 0, why.text);
		return;
	}
	must(!client->busy && !client->gone);
	client->busy = true;
	client_watch(client);
	registry_add(client->server->registry, &object, answer_add, client);
}

/* ---- requests ---- */

static void execute_request(struct client *client, const void *rest, size_t rest_bytes, int fd)
{
	struct fathom_fault why = { 0 };
	int error;

	must(!client->busy && !client->queued && !client->listing);
	must(client->pid > 0);
	client->requests++;
	switch (client->request.operation) {
	case PROBED_HELLO:
		send_status(client);
		return;
	case PROBED_ADD:
		handle_add(client, rest, rest_bytes, fd);
		return;
	case PROBED_REMOVE:
		error = registry_remove(client->server->registry, client->pid, client->request.value, &why);
		client_answer(client, error, 0, error ? why.text : "");
		return;
	case PROBED_LIST:
	case PROBED_NOTES:
		listing_begin(client);
		return;
	default:
		client_answer(client, -ENOTSUP, 0, "unknown operation");
	}
}

struct received {
	ssize_t bytes;
	bool cut, known; /* known: `sender` is valid */
	struct ucred sender;
	int fds[FDS_TAKEN_MAX];
	unsigned int fd_count;
};

static void parse_control_data(struct msghdr *message, struct received *received)
{
	for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part)) {
		size_t bytes = part->cmsg_len - CMSG_LEN(0);

		if (part->cmsg_level != SOL_SOCKET)
			continue;
		if (part->cmsg_type == SCM_CREDENTIALS && bytes >= sizeof(received->sender)) {
			memcpy(&received->sender, CMSG_DATA(part), sizeof(received->sender));
			received->known = true;
		} else if (part->cmsg_type == SCM_RIGHTS) {
			received->fd_count = (unsigned int)(bytes / sizeof(int));
			must(received->fd_count <= FDS_TAKEN_MAX);
			memcpy(received->fds, CMSG_DATA(part), received->fd_count * sizeof(int));
		}
	}
}

/* One buffer for all clients: a message is processed before the next is received. */
static char message_buffer[PROBED_MESSAGE_BYTES_MAX];

static void receive_message(struct client *client, struct received *received)
{
	struct iovec iov = { message_buffer, sizeof(message_buffer) };
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(FDS_TAKEN_MAX * sizeof(int))];
	} control;
	struct msghdr message = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control.room)
	};

	*received = (struct received){ 0 };
	received->bytes = recvmsg(client->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (received->bytes < 0) {
		received->bytes = -errno;
		return;
	}
	received->cut = message.msg_flags & (MSG_TRUNC | MSG_CTRUNC);
	parse_control_data(&message, received);
}

/* The error of a malformed message; NULL: none. */
static const char *find_message_error(const struct received *received)
{
	const struct probed_request *request = (const struct probed_request *)message_buffer;

	if (received->cut)
		return "the message is too long, or has too many descriptors";
	if ((size_t)received->bytes < sizeof(*request))
		return "the message is shorter than a request";
	if (request->version != PROBED_PROTOCOL_VERSION)
		return "this daemon supports only version 1 of the protocol";
	if (!received->known || received->sender.pid <= 0)
		return "the sender is unknown: it is in a process namespace that is hidden from this daemon";
	if (received->fd_count > 1 || (received->fd_count == 1 && request->operation != PROBED_ADD))
		return "the message has unexpected descriptors";
	if (request->operation != PROBED_ADD && (size_t)received->bytes != sizeof(*request))
		return "the message is longer than its request";
	return NULL;
}

/* A malformed message may have been a registration: count, trace and log it. */
static void refuse_message(struct client *client, const struct received *received, const char *why)
{
	const struct registry_object object = {
		.way = PROBED_WAY_SOCKET,
		.pid = received->known ? received->sender.pid : client->pid,
		.uid = received->known ? received->sender.uid : client->uid,
	};

	registry_refuse_object(client->server->registry, &object, -EPROTO, why);
}

static void process_message(struct client *client, const struct received *received)
{
	const char *wrong = find_message_error(received);

	must(received->bytes > 0 && (size_t)received->bytes <= sizeof(message_buffer));
	memset(&client->request, 0, sizeof(client->request));
	memcpy(&client->request, message_buffer,
	       (size_t)received->bytes < sizeof(client->request) ? (size_t)received->bytes : sizeof(client->request));
	note_client_activity(client);
	if (wrong) {
		refuse_message(client, received, wrong);
		if (client_reply(client, -EPROTO, false, 0, wrong, strlen(wrong)))
			client_leave(client, PROBED_LEAVE_MALFORMED);
		else
			client_leave(client, PROBED_LEAVE_READER_TOO_SLOW);
		return;
	}
	client->pid = received->sender.pid;
	client->uid = received->sender.uid;
	execute_request(client, message_buffer + sizeof(client->request), (size_t)received->bytes - sizeof(client->request),
			received->fd_count ? received->fds[0] : -1);
}

static void client_ready(void *ctx, uint32_t events)
{
	struct client *client = ctx;
	struct received received;

	if (client->busy || client->queued || client->listing) {
		if (events & (EPOLLHUP | EPOLLERR))
			client_leave(client, PROBED_LEAVE_CLIENT_LEFT);
		else if (client->listing && !listing_waits(client->listing))
			listing_continue(client);
		return;
	}
	receive_message(client, &received);
	if (received.bytes == -EAGAIN || received.bytes == -EINTR)
		return;
	if (received.bytes <= 0)
		client_leave(client, PROBED_LEAVE_CLIENT_LEFT);
	else
		process_message(client, &received);
	for (unsigned int i = 0; i < received.fd_count; i++)
		close(received.fds[i]);
}
