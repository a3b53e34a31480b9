/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Describe a caller: the common name of its certificate, and its user or address. If the caller is on this host, the kernel
 * knows the user of its socket (sock_diag). Otherwise only the address is known.
 */
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/text.h"
#include "rpc/grpc/grpc.h"
#include "rpc/grpc/internal.h"
#include "rpc/grpc/tls.h"

struct question {
	struct nlmsghdr header;
	struct inet_diag_req_v2 request;
};

static void put_address(const struct sockaddr_storage *address, __be16 *port, __be32 *bytes)
{
	if (address->ss_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)address;

		*port = in->sin_port;
		memcpy(bytes, &in->sin_addr, sizeof(in->sin_addr));
	} else {
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;

		*port = in6->sin6_port;
		memcpy(bytes, &in6->sin6_addr, sizeof(in6->sin6_addr));
	}
}

/* Ask the kernel for the other end of our connection: the socket whose local address is the address of our peer. */
static int query_socket(int fd, struct question *question)
{
	struct sockaddr_storage ours, theirs;
	socklen_t ours_bytes = sizeof(ours), theirs_bytes = sizeof(theirs);

	if (getsockname(fd, (struct sockaddr *)&ours, &ours_bytes) < 0 ||
	    getpeername(fd, (struct sockaddr *)&theirs, &theirs_bytes) < 0)
		return -errno;
	memset(question, 0, sizeof(*question));
	question->header.nlmsg_len = sizeof(*question);
	question->header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
	question->header.nlmsg_flags = NLM_F_REQUEST;
	question->request.sdiag_family = (uint8_t)ours.ss_family;
	question->request.sdiag_protocol = IPPROTO_TCP;
	question->request.idiag_states = UINT32_MAX;
	question->request.id.idiag_cookie[0] = question->request.id.idiag_cookie[1] = (uint32_t)INET_DIAG_NOCOOKIE;
	put_address(&theirs, &question->request.id.idiag_sport, question->request.id.idiag_src);
	put_address(&ours, &question->request.id.idiag_dport, question->request.id.idiag_dst);
	return 0;
}

/* Errors: -ENOENT: the socket is not on this host, or is closed. The kernel answers within send(). */
static int peer_uid(int fd, uid_t *uid_ret)
{
	struct {
		struct nlmsghdr header;
		struct inet_diag_msg socket;
		char attributes[1024];
	} answer;
	struct question question;
	int netlink, error = query_socket(fd, &question);
	ssize_t got = 0;

	if (error)
		return error;
	netlink = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);
	if (netlink < 0)
		return -errno;
	if (send(netlink, &question, sizeof(question), 0) < 0 || (got = recv(netlink, &answer, sizeof(answer), 0)) < 0)
		error = -errno;
	close(netlink);
	if (error)
		return error;
	if (got < (ssize_t)(sizeof(answer.header) + sizeof(answer.socket)) ||
	    answer.header.nlmsg_type != SOCK_DIAG_BY_FAMILY)
		return -ENOENT;
	*uid_ret = answer.socket.idiag_uid;
	return 0;
}

const char *grpc_call_who(const struct grpc_call *call, char *who)
{
	const char *name = call->on && call->on->tls ? tls_peer_name(call->on->tls) : "";
	const char *port = strrchr(call->peer, ':');
	int address_bytes = port ? (int)(port - call->peer) : (int)strlen(call->peer);
	uid_t uid;

	if (call->on && peer_uid(call->on->fd, &uid) == 0)
		snprintf(who, GRPC_WHO_BYTES, "%s%suid %u", name, name[0] ? ", " : "", (unsigned int)uid);
	else if (name[0])
		snprintf(who, GRPC_WHO_BYTES, "%s at %.*s", name, address_bytes, call->peer);
	else
		snprintf(who, GRPC_WHO_BYTES, "%.*s, without a certificate", address_bytes, call->peer);
	return who;
}
