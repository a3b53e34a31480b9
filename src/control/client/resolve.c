/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Resolve host names by getaddrinfo_a(3). It looks up several names in parallel, and a cancelled call can abandon it. If a
 * host has addresses of both families, IPv4 is tried first.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/bits.h"
#include "base/clock.h"
#include "control/client/internal.h"
#include "control/fault/fault.h"

enum { LOOKUPS_MAX = 64, PROGRESS_QUERY_NS = 1000000 };

static bool add_number(struct address *address, int family, const char *number, uint16_t port)
{
	int length = snprintf(address->text[address->count], GRPC_ADDRESS_BYTES_MAX,
			      family == AF_INET6 ? "[%s]:%u" : "%s:%u", number, port);

	if (length >= GRPC_ADDRESS_BYTES_MAX)
		return false;
	address->count++;
	return true;
}

/* If the host is a numeric address, add it without a lookup. */
static bool add_if_number(struct address *address, const struct host_address *host)
{
	struct in6_addr number;

	if (host->is_ipv6)
		return add_number(address, AF_INET6, host->host, host->port);
	return inet_pton(AF_INET, host->host, &number) == 1 && add_number(address, AF_INET, host->host, host->port);
}

static void take_first(struct address *address, const struct addrinfo *list, int family, uint16_t port)
{
	char text[INET6_ADDRSTRLEN];

	for (; list; list = list->ai_next) {
		const void *from = family == AF_INET6 ? (void *)&((struct sockaddr_in6 *)list->ai_addr)->sin6_addr
						      : (void *)&((struct sockaddr_in *)list->ai_addr)->sin_addr;

		if (list->ai_family == family && inet_ntop(family, from, text, sizeof(text)) &&
		    add_number(address, family, text, port))
			return;
	}
}

struct lookup {
	struct gaicb request;
	struct addrinfo hints;
	struct host_address host;
	struct address *address;
};

static void take_lookup(const struct fathom_control *control, struct lookup *lookup)
{
	int error = gai_error(&lookup->request);

	if (error == 0) {
		take_first(lookup->address, lookup->request.ar_result, AF_INET, lookup->host.port);
		take_first(lookup->address, lookup->request.ar_result, AF_INET6, lookup->host.port);
		freeaddrinfo(lookup->request.ar_result);
	}
	for (size_t i = 0; i < lookup->address->count; i++)
		control_log(control, "%s is %s", lookup->host.host, lookup->address->text[i]);
	if (lookup->address->count == 0)
		must(fault_host_unknown(&lookup->address->why, lookup->host.host,
					error ? gai_strerror(error) : "it has no address") < 0);
}

/*
 * Whether all lookups are done; if not, sleep for a moment first. gai_suspend(3) must not be used: when it returns, a
 * request that has just finished may still list it as a waiter. The resolver's thread then writes to its former stack.
 */
static bool are_lookups_done(struct lookup *lookups, size_t count)
{
	const struct timespec time = { .tv_nsec = PROGRESS_QUERY_NS };

	for (size_t i = 0; i < count; i++) {
		if (gai_error(&lookups[i].request) == EAI_INPROGRESS) {
			(void)nanosleep(&time, NULL); /* an early return is harmless: the caller checks again */
			return false;
		}
	}
	return true;
}

/*
 * Look up names. Errors: -ECANCELED, -ETIMEDOUT and -EAGAIN. Then `lost_ret` is set: the resolver still uses `lookups`, so
 * the memory must not be freed.
 */
static int look_up_names(struct fathom_control *control, struct lookup *lookups, size_t count, uint64_t deadline_ns,
			 bool *lost_ret, struct fathom_fault *why)
{
	struct task task = { .control = control, .deadline_ns = deadline_ns };
	struct gaicb *requests[LOOKUPS_MAX];
	int error;

	for (size_t i = 0; i < count; i++) {
		lookups[i].hints = (struct addrinfo){ .ai_socktype = SOCK_STREAM };
		lookups[i].request = (struct gaicb){ .ar_name = lookups[i].host.host, .ar_request = &lookups[i].hints };
		requests[i] = &lookups[i].request;
	}
	if (count == 0)
		return 0;
	error = getaddrinfo_a(GAI_NOWAIT, requests, (int)count, NULL);
	if (error) {
		*lost_ret = true; /* some lookups may have started; it is unknown which */
		return fault_names_unasked(why, gai_strerror(error));
	}
	while (!are_lookups_done(lookups, count)) {
		if (task_left_ns(&task) > 0)
			continue;
		for (size_t i = 0; i < count; i++)
			(void)gai_cancel(&lookups[i].request); /* cancels only lookups that have not started */
		*lost_ret = true;
		return task_is_over(&task, "looking up the names of hosts", why);
	}
	for (size_t i = 0; i < count; i++)
		take_lookup(control, &lookups[i]);
	return 0;
}

int resolve(struct fathom_control *control, const struct host_set *hosts, struct address *addresses, uint64_t deadline_ns,
	    struct fathom_fault *why)
{
	size_t total = host_set_count(hosts), count = 0;
	struct lookup *lookups = calloc(LOOKUPS_MAX, sizeof(*lookups));
	bool lost = false;
	int error = 0;

	must(lookups);
	for (size_t i = 0; i < total && error == 0; i++) {
		struct lookup *lookup = &lookups[count];

		addresses[i] = (struct address){ .host = host_set_at(hosts, i) };
		host_address(addresses[i].host, (uint16_t)control->config.port, &lookup->host);
		lookup->address = &addresses[i];
		count += !add_if_number(&addresses[i], &lookup->host);
		if (count == LOOKUPS_MAX) {
			error = look_up_names(control, lookups, count, deadline_ns, &lost, why);
			count = 0;
		}
	}
	if (error == 0)
		error = look_up_names(control, lookups, count, deadline_ns, &lost, why);
	if (!lost)
		free(lookups); /* if lost, leak it: a dead name server would block the caller too long */
	if (error)
		control->cancelled = 0;
	return error;
}
