/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tcp_loop - the floor under the engine: the least that answers an NVMe/TCP host.
 *
 *      tcp-loop PORT [--cpu N]         PORT 0: any; the first line of output says which
 *
 * One thread, a null namespace of 1 GiB, no digests, hard-wired answers to Connect, Property Get, Identify and Set
 * Features, and no checks: never run it where anybody else can reach it (it listens on 127.0.0.1). It is written the
 * fastest way known to us, so that `make bench` can tell how far the engine is from what the sockets allow: one recv()
 * into 256 KiB, parsed in place; one sendmsg() a turn with all C2HData first and all responses behind; busy polling.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/must.h"
#include "base/text.h"
#include "data/nvme/command.h"
#include "data/nvme/fabrics.h"
#include "data/nvme/feature.h"
#include "data/nvme/identify.h"
#include "data/nvme/opcode.h"
#include "data/nvme/register.h"
#include "data/nvme/tcp.h"

enum {
	WINDOW_BYTES = 256 * 1024,
	ZEROES_BYTES = 1024 * 1024, /* the largest read */
	ZEROES_SHIFT = 20,
	IN_CAPSULE_BYTES = 8192,
	TURN_READS_MAX = 480, /* two pieces each, and IOV_MAX is 1024 */
	TURN_ANSWERS_MAX = 2048,
	CONNS_MAX = 64,
	SLOW_TURNS = 4096, /* the listener and the admin queues are looked at once in so many */
	BLOCK_SHIFT = 9,
	BLOCKS = 1 << 21,
};

struct conn {
	int fd;
	bool ready; /* IC exchange done */
	bool admin;
	uint16_t cntlid;
	uint32_t cc;
	uint32_t skip; /* bytes of data still to come that are discarded */
	bool skip_then_answer;
	bool unparsed; /* there may be whole PDUs in the window */
	uint16_t skip_cid;
	uint32_t begin; /* of the window */
	uint32_t end;
	int reads; /* of this turn */
	size_t answers_bytes;
	int iov_count;
	int iov_sent;
	struct iovec iov[2 * TURN_READS_MAX + 2];
	struct nvme_tcp_data headers[TURN_READS_MAX];
	uint8_t answers[TURN_ANSWERS_MAX * sizeof(struct nvme_tcp_r2t)];
	uint8_t window[WINDOW_BYTES];
};

static uint8_t *zeroes; /* what every read gets; never written */
static struct conn *conns[CONNS_MAX];

static void die(const char *what)
{
	fprintf(stderr, "tcp-loop: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* ---- Answers ---- */

static void answer(struct conn *conn, uint16_t cid, uint64_t result)
{
	struct nvme_tcp_capsule_resp resp = {
		.common = { .type = NVME_TCP_CAPSULE_RESP, .hlen = sizeof(resp), .plen = sizeof(resp) },
		.completion = { .cid = cid, .result = result },
	};

	memcpy(conn->answers + conn->answers_bytes, &resp, sizeof(resp));
	conn->answers_bytes += sizeof(resp);
}

/* Ask for all of a write's data at once. */
static void ask(struct conn *conn, uint16_t cid, uint32_t bytes)
{
	struct nvme_tcp_r2t r2t = {
		.common = { .type = NVME_TCP_R2T, .hlen = sizeof(r2t), .plen = sizeof(r2t) },
		.cccid = cid,
		.ttag = cid,
		.r2tl = bytes,
	};

	memcpy(conn->answers + conn->answers_bytes, &r2t, sizeof(r2t));
	conn->answers_bytes += sizeof(r2t);
}

static void give(struct conn *conn, uint16_t cid, const void *from, uint32_t bytes)
{
	struct nvme_tcp_data *data = &conn->headers[conn->reads++];

	*data = (struct nvme_tcp_data){
		.common = { .type = NVME_TCP_C2H_DATA,
			    .flags = NVME_TCP_FLAG_LAST,
			    .hlen = sizeof(*data),
			    .pdo = sizeof(*data),
			    .plen = (uint32_t)sizeof(*data) + bytes },
		.cccid = cid,
		.datal = bytes,
	};
	conn->iov[conn->iov_count++] = (struct iovec){ data, sizeof(*data) };
	conn->iov[conn->iov_count++] = (struct iovec){ (void *)(uintptr_t)from, bytes };
}

static void identify(struct conn *conn, const struct nvme_command *command)
{
	static struct nvme_identify_controller controller = {
		.sn = "0",
		.mn = "tcp-loop",
		.fr = "1",
		.mdts = ZEROES_SHIFT - 12,
		.ver = NVME_VERSION_2_0,
		.cntrltype = NVME_CNTRLTYPE_IO,
		.sqes = 0x66,
		.cqes = 0x44,
		.nn = 1,
		.maxcmd = 1024,
		.sgls = NVME_SGLS_SUPPORTED | NVME_SGLS_OFFSET | NVME_SGLS_TRANSPORT,
		.kas = 10,
		.ioccsz = (NVME_COMMAND_BYTES + IN_CAPSULE_BYTES) / 16,
		.iorcsz = 1,
	};
	static struct nvme_identify_ns ns = {
		.nsze = BLOCKS, .ncap = BLOCKS, .nuse = BLOCKS, .lbaf = { { .lbads = BLOCK_SHIFT } }
	};
	static struct nvme_ns_list list = { { 1 } };

	switch (command->cdw10 & NVME_IDENTIFY_CDW10_CNS_MASK) {
	case NVME_CNS_CONTROLLER:
		give(conn, command->cid, &controller, sizeof(controller));
		break;
	case NVME_CNS_NS:
		give(conn, command->cid, &ns, sizeof(ns));
		break;
	case NVME_CNS_ACTIVE_NS_LIST:
		give(conn, command->cid, command->nsid == 0 ? (void *)&list : zeroes, sizeof(list));
		break;
	default:
		give(conn, command->cid, zeroes, NVME_IDENTIFY_BYTES);
		break;
	}
	answer(conn, command->cid, 0);
}

static uint64_t property(const struct conn *conn, uint32_t offset)
{
	bool down = NVME_CC_GET(conn->cc, SHN) != NVME_CC_SHN_NONE;

	switch (offset) {
	case NVME_PROPERTY_CAP:
		return NVME_CAP_MQES(1023) | NVME_CAP_CQR | NVME_CAP_TO(2) | NVME_CAP_CSS_NVM;
	case NVME_PROPERTY_VS:
		return NVME_VERSION_2_0;
	case NVME_PROPERTY_CC:
		return conn->cc;
	case NVME_PROPERTY_CSTS:
		return (conn->cc & NVME_CC_EN ? NVME_CSTS_RDY : 0) |
		       (down ? (uint64_t)NVME_CSTS_SHST_COMPLETE << NVME_CSTS_SHST_SHIFT : 0);
	}
	return 0;
}

static void fabrics(struct conn *conn, const struct nvme_command *command)
{
	struct nvme_property_command set;
	struct nvme_connect connect;

	memcpy(&set, command, sizeof(set));
	memcpy(&connect, command, sizeof(connect));
	if (set.fctype == NVME_FABRICS_CONNECT) {
		conn->admin = connect.qid == 0;
		answer(conn, command->cid, 1);
	} else if (set.fctype == NVME_FABRICS_PROPERTY_GET) {
		answer(conn, command->cid, property(conn, set.ofst));
	} else {
		if (set.fctype == NVME_FABRICS_PROPERTY_SET && set.ofst == NVME_PROPERTY_CC)
			conn->cc = (uint32_t)set.value;
		answer(conn, command->cid, 0);
	}
}

static void admin(struct conn *conn, const struct nvme_command *command)
{
	if (command->opc == NVME_ADMIN_IDENTIFY)
		identify(conn, command);
	else if (command->opc == NVME_ADMIN_SET_FEATURES)
		answer(conn, command->cid, command->cdw11); /* all the queues that were asked for */
	else if (command->opc != NVME_ADMIN_ASYNC_EVENT_REQUEST)
		answer(conn, command->cid, 0);
}

/* ---- Bytes in ---- */

static void capsule(struct conn *conn, const struct nvme_tcp_capsule_cmd *pdu)
{
	const struct nvme_command *command = &pdu->command;
	uint32_t in_capsule = pdu->common.plen > sizeof(*pdu) ? pdu->common.plen - pdu->common.pdo : 0;
	uint32_t bytes = command->sgl.length;

	conn->skip = in_capsule;
	conn->skip_then_answer = false;
	if (unlikely(command->opc == NVME_OPCODE_FABRICS)) {
		fabrics(conn, command);
	} else if (unlikely(conn->admin)) {
		admin(conn, command);
	} else if (command->opc == NVME_NVM_READ && bytes <= ZEROES_BYTES) {
		give(conn, command->cid, zeroes, bytes);
		answer(conn, command->cid, 0);
	} else if (in_capsule > 0) {
		conn->skip_then_answer = true;
		conn->skip_cid = command->cid;
	} else if (nvme_opcode_transfer(command->opc) == NVME_TRANSFER_HOST_TO_CONTROLLER && bytes > 0) {
		ask(conn, command->cid, bytes);
	} else {
		answer(conn, command->cid, 0);
	}
}

static void h2c_data(struct conn *conn, const struct nvme_tcp_data *data)
{
	conn->skip = data->datal;
	conn->skip_then_answer = data->common.flags & NVME_TCP_FLAG_LAST;
	conn->skip_cid = data->cccid;
}

static void icreq(struct conn *conn)
{
	struct nvme_tcp_icresp resp = {
		.common = { .type = NVME_TCP_ICRESP, .hlen = sizeof(resp), .plen = sizeof(resp) },
		.maxh2cdata = 128 * 1024,
	};

	memcpy(conn->answers + conn->answers_bytes, &resp, sizeof(resp));
	conn->answers_bytes += sizeof(resp);
	conn->ready = true;
}

/* Take what is in the window, as long as there is room for the answers. */
static bool parse(struct conn *conn)
{
	conn->unparsed = false;
	while (conn->reads < TURN_READS_MAX &&
	       conn->answers_bytes + sizeof(struct nvme_tcp_icresp) <= sizeof(conn->answers)) {
		const struct nvme_tcp_common *common = (const void *)(conn->window + conn->begin);
		uint32_t have = conn->end - conn->begin, header;

		if (conn->skip > 0) {
			uint32_t bytes = (uint32_t)min_u64(have, conn->skip);

			conn->begin += bytes;
			conn->skip -= bytes;
			if (conn->skip > 0)
				return true;
			if (conn->skip_then_answer)
				answer(conn, conn->skip_cid, 0);
			continue;
		}
		if (have < sizeof(*common))
			return true;
		header = common->plen > common->hlen ? common->pdo : common->hlen;
		if (have < header)
			return true;
		conn->begin += header;
		if (likely(common->type == NVME_TCP_CAPSULE_CMD))
			capsule(conn, (const void *)common);
		else if (common->type == NVME_TCP_H2C_DATA)
			h2c_data(conn, (const void *)common);
		else if (common->type == NVME_TCP_ICREQ)
			icreq(conn);
		else
			return false;
	}
	conn->unparsed = true;
	return true;
}

/* ---- Bytes out ---- */

static bool flush_conn(struct conn *conn)
{
	struct msghdr message = { .msg_iov = &conn->iov[conn->iov_sent] };
	ssize_t bytes;

	message.msg_iovlen = (size_t)(conn->iov_count - conn->iov_sent);
	bytes = sendmsg(conn->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (bytes < 0)
		return errno == EAGAIN || errno == EINTR;
	while (bytes > 0) {
		struct iovec *first = &conn->iov[conn->iov_sent];

		if ((size_t)bytes < first->iov_len) {
			first->iov_base = (uint8_t *)first->iov_base + bytes;
			first->iov_len -= (size_t)bytes;
			return true;
		}
		bytes -= (ssize_t)first->iov_len;
		conn->iov_sent++;
	}
	if (conn->iov_sent == conn->iov_count) {
		conn->iov_count = 0;
		conn->iov_sent = 0;
		conn->reads = 0;
		conn->answers_bytes = 0;
	}
	return true;
}

/* One turn. Returns false when the host has gone. */
static bool turn(struct conn *conn)
{
	if (conn->iov_count > 0 && !flush_conn(conn))
		return false;
	if (conn->iov_count > 0)
		return true; /* an earlier turn's bytes do not fit into the socket */
	if (conn->end < WINDOW_BYTES) {
		ssize_t bytes = recv(conn->fd, conn->window + conn->end, WINDOW_BYTES - conn->end, MSG_DONTWAIT);

		if (bytes == 0 || (bytes < 0 && errno != EAGAIN && errno != EINTR))
			return false;
		if (bytes < 0 && !conn->unparsed)
			return true;
		conn->end += bytes > 0 ? (uint32_t)bytes : 0;
	}
	do {
		if (!parse(conn))
			return false;
		if (conn->answers_bytes > 0)
			conn->iov[conn->iov_count++] = (struct iovec){ conn->answers, conn->answers_bytes };
		if (conn->iov_count > 0 && !flush_conn(conn))
			return false;
	} while (conn->iov_count == 0 && conn->unparsed);
	memmove(conn->window, conn->window + conn->begin, conn->end - conn->begin);
	conn->end -= conn->begin;
	conn->begin = 0;
	return true;
}

/* ---- Connections ---- */

static int listen_on(uint16_t port)
{
	struct sockaddr_in addr = { .sin_family = AF_INET,
				    .sin_port = htons(port),
				    .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t addr_bytes = sizeof(addr);
	int one = 1;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		die("socket");
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0)
		die("bind");
	if (listen(fd, 16) < 0 || getsockname(fd, (struct sockaddr *)&addr, &addr_bytes) < 0)
		die("listen");
	printf("tcp-loop: 127.0.0.1:%u\n", ntohs(addr.sin_port));
	fflush(stdout);
	return fd;
}

static void accept_one(int listener)
{
	int one = 1, bytes = 2 * 1024 * 1024;
	int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0)
		return;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", strlen("reno"));
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	for (int i = 0; i < CONNS_MAX; i++) {
		if (conns[i])
			continue;
		conns[i] = calloc(1, sizeof(*conns[i]));
		if (!conns[i])
			die("calloc");
		conns[i]->fd = fd;
		conns[i]->admin = true; /* looked at seldom until it has said that it is for I/O */
		return;
	}
	close(fd);
}

static void pin(unsigned int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set) < 0)
		die("sched_setaffinity");
}

/* For ever. While no I/O queue is there it is slow turns only, with a nap in between. */
static void run(int listener)
{
	for (uint64_t turns = 0;; turns++) {
		bool slow = turns % SLOW_TURNS == 0, any = false;

		if (slow)
			accept_one(listener);
		for (int i = 0; i < CONNS_MAX; i++) {
			struct conn *conn = conns[i];

			if (!conn)
				continue;
			any |= !conn->admin;
			if ((conn->admin && !slow) || turn(conn))
				continue;
			close(conn->fd);
			free(conn);
			conns[i] = NULL;
		}
		if (!any) {
			usleep(200);
			turns = SLOW_TURNS - 1;
		}
	}
}

int main(int argc, char **argv)
{
	uint64_t port, cpu;

	if ((argc != 2 && argc != 4) || text_parse_u64(argv[1], 10, UINT16_MAX, &port) != 0 ||
	    (argc == 4 && (strcmp(argv[2], "--cpu") != 0 || text_parse_u64(argv[3], 10, CPU_SETSIZE - 1, &cpu) != 0))) {
		fprintf(stderr, "usage: tcp-loop PORT [--cpu N]\n");
		return 2;
	}
	if (argc == 4)
		pin((unsigned int)cpu);
	zeroes = mmap(NULL, ZEROES_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (zeroes == MAP_FAILED)
		die("mmap");
	(void)signal(SIGPIPE, SIG_IGN);
	run(listen_on((uint16_t)port));
	return 0;
}
