/* SPDX-License-Identifier: BSD-2-Clause */
/* packets - receive and send a message, one packet for each chunk, until the socket is empty or full. */
#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/bits.h"
#include "base/inject/inject.h"
#include "rpc/drpc/internal.h"

enum drpc_packets drpc_packets_receive(int fd, struct drpc_message *in, uint64_t bytes_max, enum drpc_chunk *chunk_ret)
{
	/* room for one byte over the limit, so that a longer packet is noticed */
	static _Thread_local uint8_t packet[DRPC_PACKET_BYTES_MAX + 1];

	errno = -inject(INJECT_DRPC_RECEIVE);
	if (errno)
		return DRPC_PACKETS_FAILED;
	for (int i = 0; i < DRPC_PACKETS_PER_STEP; i++) {
		ssize_t received = recv(fd, packet, sizeof(packet), MSG_DONTWAIT);

		if (received < 0 && errno == EINTR)
			continue;
		if (received < 0)
			return errno == EAGAIN ? DRPC_PACKETS_AGAIN : DRPC_PACKETS_FAILED;
		if (received == 0) /* or an empty packet, which is invalid */
			return DRPC_PACKETS_CLOSED;
		*chunk_ret = drpc_message_take(in, packet, (size_t)received, bytes_max);
		if (*chunk_ret == DRPC_CHUNK_MESSAGE)
			return DRPC_PACKETS_DONE;
		if (*chunk_ret != DRPC_CHUNK_MORE)
			return DRPC_PACKETS_REFUSED;
	}
	return DRPC_PACKETS_AGAIN;
}

enum drpc_packets drpc_packets_send(int fd, const uint8_t *data, uint64_t bytes, uint64_t *offset)
{
	errno = -inject(INJECT_DRPC_SEND);
	if (errno)
		return DRPC_PACKETS_FAILED;
	for (;;) {
		struct drpc_chunk_header header = drpc_chunk_at(bytes, *offset);
		struct iovec iov[] = { { &header, sizeof(header) }, { (uint8_t *)data + *offset, header.chunk_bytes } };
		struct msghdr packet = { .msg_iov = iov, .msg_iovlen = ARRAY_COUNT(iov) };
		ssize_t sent = sendmsg(fd, &packet, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0)
			return errno == EAGAIN ? DRPC_PACKETS_AGAIN : DRPC_PACKETS_FAILED;
		must((size_t)sent == sizeof(header) + header.chunk_bytes);
		*offset += header.chunk_bytes;
		must(*offset <= bytes);
		if (*offset == bytes)
			return DRPC_PACKETS_DONE;
	}
}

void drpc_socket_prepare(int fd)
{
	int bytes = 4 * DRPC_PACKET_BYTES_MAX;

	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
}

struct drpc_peer drpc_socket_peer(int fd)
{
	struct ucred peer = { .pid = -1, .uid = (uid_t)-1, .gid = (gid_t)-1 };
	socklen_t bytes = sizeof(peer);

	/* does not fail for a UNIX socket */
	(void)getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes);
	return (struct drpc_peer){ .pid = peer.pid, .uid = peer.uid, .gid = peer.gid };
}
