/* SPDX-License-Identifier: BSD-2-Clause */
/* registry_ask - requests the registered probes from fathom-probed, over its socket: a line of JSON for each. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/text.h"
#include "cmd/fathom/probe/registry.h"
#include "inspect/probed/client/protocol.h"

enum { TIMEOUT_SEC = 20 };

static const char *choose_daemon_socket(const char *path)
{
	const char *named = getenv(PROBED_SOCKET_ENV);

	if (path)
		return path;
	return named && *named ? named : PROBED_SOCKET_DEFAULT;
}

static int connect_to_probed(const char *path, int *fd_ret, struct fathom_fault *why)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const struct timeval timeout = { .tv_sec = TIMEOUT_SEC };
	int fd, error;

	if (text_copy(address.sun_path, sizeof(address.sun_path), path) < 0)
		return fault(why, -ENAMETOOLONG, "%s: the path of a socket has at most %zu bytes", path,
			     sizeof(address.sun_path) - 1);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return fault(why, -errno, "socket: %s", strerror(errno));
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) == 0 &&
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) == 0 &&
	    connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0) {
		*fd_ret = fd;
		return 0;
	}
	error = fault(
		why, -errno,
		"%s: %s; is fathom-probed running? --socket selects another socket; --state-dir reads the tree without a "
		"daemon",
		path, strerror(errno));
	close(fd);
	return error;
}

/* Received text, up to the end of its last line. */
struct lines {
	char *text;
	size_t used, room;
	registry_line_fn fn;
	void *ctx;
};

static int parse_received_lines(struct lines *lines, struct fathom_fault *why)
{
	char *line = lines->text, *end;

	while ((end = memchr(line, '\n', lines->used - (size_t)(line - lines->text)))) {
		json_t *row = json_loadb(line, (size_t)(end - line), 0, NULL);

		if (!row)
			return fault(why, -EPROTO, "fathom-probed sent a line that is not JSON");
		lines->fn(lines->ctx, row);
		json_decref(row);
		line = end + 1;
	}
	lines->used -= (size_t)(line - lines->text);
	memmove(lines->text, line, lines->used);
	return 0;
}

static int append_received_text(struct lines *lines, const char *text, size_t bytes, struct fathom_fault *why)
{
	if (bytes == 0)
		return 0;
	if (lines->used + bytes > lines->room) {
		lines->room = (lines->used + bytes) * 2;
		lines->text = realloc(lines->text, lines->room);
		must(lines->text);
	}
	memcpy(lines->text + lines->used, text, bytes);
	lines->used += bytes;
	return parse_received_lines(lines, why);
}

static int receive_replies(int fd, struct lines *lines, struct fathom_fault *why)
{
	static char room[PROBED_MESSAGE_BYTES_MAX];
	struct probed_reply reply;
	int error = 0;

	do {
		ssize_t got = recv(fd, room, sizeof(room), 0);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return fault(why, -errno, "fathom-probed does not answer: %s", strerror(errno));
		if ((size_t)got < sizeof(reply))
			return fault(why, -EPROTO, "fathom-probed closed the connection");
		memcpy(&reply, room, sizeof(reply));
		if (reply.error)
			return fault(why, reply.error < 0 ? reply.error : -EPROTO, "fathom-probed: %.*s",
				     (int)((size_t)got - sizeof(reply)), room + sizeof(reply));
		error = append_received_text(lines, room + sizeof(reply), (size_t)got - sizeof(reply), why);
	} while (error == 0 && reply.more);
	return error;
}

int registry_ask(const char *path, uint64_t pid, bool notes, registry_line_fn fn, void *ctx, struct fathom_fault *why)
{
	const struct probed_request request = { .version = PROBED_PROTOCOL_VERSION,
						.operation = notes ? PROBED_NOTES : PROBED_LIST,
						.value = pid };
	struct lines lines = { .fn = fn, .ctx = ctx };
	int fd = -1, error = connect_to_probed(choose_daemon_socket(path), &fd, why);

	if (error)
		return error;
	if (send(fd, &request, sizeof(request), MSG_NOSIGNAL) != (ssize_t)sizeof(request))
		error = fault(why, -errno, "fathom-probed: %s", strerror(errno));
	else
		error = receive_replies(fd, &lines, why);
	free(lines.text);
	close(fd);
	return error;
}
