/* SPDX-License-Identifier: BSD-2-Clause */
#include "control/network/port_holder.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/text.h"

/* The kernel's numbers in /proc/net/tcp. */
enum { STATE_TIME_WAIT = 0x06, STATE_LISTEN = 0x0A };
enum { LINE_BYTES = 512, CHUNK_BYTES = 16384, NAME_BYTES = 64 };

static_assert(NAME_BYTES + 32 + sizeof(" has a connection from there to another's port 65535") <= PORT_HOLDER_TEXT_BYTES,
	      "the longest text fits");

struct tcp_socket {
	unsigned int state;
	uint64_t inode; /* 0: no process has the socket open */
	unsigned int peer_port;
};

struct search {
	struct provider *os;
	const uint8_t *address; /* 4 or 16 bytes, all zeroes: any */
	size_t address_bytes;
	unsigned int port;
	struct tcp_socket found; /* state 0: none */
};

/* Order of preference if several sockets conflict: listener, connection, closed connection. */
static unsigned int rank_state(unsigned int state)
{
	return state == STATE_LISTEN ? 3 : state == STATE_TIME_WAIT ? 1 : state == 0 ? 0 : 2;
}

/* "0100007F": 32-bit words in the machine's byte order. False: not an address. */
static bool read_address(const char *hex, uint8_t *to, size_t bytes)
{
	must(bytes % 4 == 0);
	for (size_t at = 0; at < bytes; at += 4) {
		unsigned int word;

		if (sscanf(hex + 2 * at, "%8x", &word) != 1)
			return false;
		memcpy(to + at, &word, 4);
	}
	return true;
}

static bool is_any(const uint8_t *address, size_t bytes)
{
	static const uint8_t none[16];

	must(bytes <= sizeof(none));
	return memcmp(address, none, bytes) == 0;
}

/* True: a socket at `theirs` prevents listening at the searched address. IPv6's any address takes IPv4's ports, too. */
static bool conflicts(const struct search *search, const uint8_t *theirs, size_t bytes)
{
	if (is_any(theirs, bytes))
		return bytes >= search->address_bytes || is_any(search->address, search->address_bytes);
	if (is_any(search->address, search->address_bytes))
		return search->address_bytes >= bytes;
	return bytes == search->address_bytes && memcmp(theirs, search->address, bytes) == 0;
}

/* "  0: 0100007F:1151 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12345 1 ..." */
static void read_line(struct search *search, const char *line, size_t address_bytes)
{
	char local[40], peer[40];
	unsigned int port, peer_port, state;
	unsigned long inode;
	uint8_t theirs[16];

	must(address_bytes <= sizeof(theirs));
	if (sscanf(line, " %*u: %39[0-9A-F]:%x %39[0-9A-F]:%x %x %*s %*s %*s %*u %*u %lu", local, &port, peer, &peer_port,
		   &state, &inode) != 6 ||
	    port != search->port || strlen(local) != 2 * address_bytes || !read_address(local, theirs, address_bytes) ||
	    !conflicts(search, theirs, address_bytes) || rank_state(state) <= rank_state(search->found.state))
		return;
	search->found = (struct tcp_socket){ .state = state, .inode = inode, .peer_port = peer_port };
}

static void read_table(struct search *search, const char *path, size_t address_bytes)
{
	char chunk[CHUNK_BYTES + 1], line[LINE_BYTES];
	size_t used = 0;
	uint64_t at = 0;
	ssize_t got;
	int fd = search->os->calls->open(search->os, path, O_RDONLY, 0, false);

	if (fd < 0)
		return;
	while ((got = search->os->calls->read_at(search->os, fd, chunk, CHUNK_BYTES, at)) > 0) {
		must(got <= CHUNK_BYTES);
		for (ssize_t i = 0; i < got; i++) {
			if (chunk[i] != '\n' && used < sizeof(line) - 1) {
				line[used++] = chunk[i];
				continue;
			}
			must(used < sizeof(line));
			line[used] = '\0';
			read_line(search, line, address_bytes);
			used = 0;
		}
		at += (uint64_t)got;
	}
	search->os->calls->close_fd(search->os, fd);
}

/* ---- the socket's process ---- */

struct owner_search {
	struct provider *os;
	char wanted[NAME_BYTES]; /* "socket:[12345]" */
	uint64_t pid;		 /* of the current process; after the search, of the owner */
};

static int visit_descriptor(void *ctx, const char *name)
{
	struct owner_search *search = ctx;
	char path[PROVIDER_NAME_BYTES_MAX + NAME_BYTES], link[NAME_BYTES];
	ssize_t bytes;

	snprintf(path, sizeof(path), "/proc/%" PRIu64 "/fd/%s", search->pid, name);
	bytes = search->os->calls->read_link(search->os, path, link, sizeof(link) - 1);
	if (bytes < 0)
		return 0;
	must((size_t)bytes < sizeof(link));
	link[bytes] = '\0';
	return strcmp(link, search->wanted) == 0;
}

static int visit_process(void *ctx, const char *name)
{
	struct owner_search *search = ctx;
	char path[NAME_BYTES];

	if (text_parse_u64(name, 10, INT32_MAX, &search->pid) != 0)
		return 0;
	snprintf(path, sizeof(path), "/proc/%" PRIu64 "/fd", search->pid);
	return search->os->calls->list(search->os, path, visit_descriptor, search) == 1;
}

/* "process 812 (nginx)". */
static void describe_owner(struct provider *os, uint64_t inode, char text[static NAME_BYTES + 32])
{
	struct owner_search search = { .os = os };
	char path[NAME_BYTES], name[NAME_BYTES];

	snprintf(search.wanted, sizeof(search.wanted), "socket:[%" PRIu64 "]", inode);
	if (inode == 0 || os->calls->list(os, "/proc", visit_process, &search) != 1) {
		snprintf(text, NAME_BYTES + 32, "a process that this user may not see");
		return;
	}
	snprintf(path, sizeof(path), "/proc/%" PRIu64 "/comm", search.pid);
	if (provider_read_text(os, path, name, sizeof(name)) != 0)
		snprintf(name, sizeof(name), "ended");
	for (char *c = name; *c; c++) {
		if (*c < ' ' || *c > '~')
			*c = '?';
	}
	snprintf(text, NAME_BYTES + 32, "process %" PRIu64 " (%s)", search.pid, name);
}

void port_holder_describe(struct provider *os, const struct sockaddr_storage *address,
			  char text[static PORT_HOLDER_TEXT_BYTES])
{
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)address;
	const struct sockaddr_in *four = (const struct sockaddr_in *)address;
	bool is_six = address->ss_family == AF_INET6;
	struct search search = {
		.os = os,
		.address = is_six ? six->sin6_addr.s6_addr : (const uint8_t *)&four->sin_addr,
		.address_bytes = is_six ? 16 : 4,
		.port = ntohs(is_six ? six->sin6_port : four->sin_port),
	};
	char owner[NAME_BYTES + 32];

	must(is_six || address->ss_family == AF_INET);
	read_table(&search, "/proc/net/tcp", 4);
	read_table(&search, "/proc/net/tcp6", 16);
	if (search.found.state == 0) {
		snprintf(text, PORT_HOLDER_TEXT_BYTES, "the port is taken, by what is not known");
		return;
	}
	if (search.found.state == STATE_TIME_WAIT) {
		snprintf(text, PORT_HOLDER_TEXT_BYTES,
			 "a connection that was closed keeps the port for up to a minute (TIME_WAIT)");
		return;
	}
	describe_owner(os, search.found.inode, owner);
	if (search.found.state == STATE_LISTEN)
		snprintf(text, PORT_HOLDER_TEXT_BYTES, "%s listens there", owner);
	else
		snprintf(text, PORT_HOLDER_TEXT_BYTES, "%s has a connection from there to another's port %u", owner,
			 search.found.peer_port);
}
