/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hostlist - sets of hosts, as people write them and as answers of many hosts are shown.
 *
 *     list  := token { (","|" "|TAB) token }               separators in brackets do not split
 *     token := name [":" port] | IPv4 [":" port] | "[" IPv6 "]" [":" port] | IPv6
 *     a name or an IPv4 address may have ranges in it:  rack[0-1]node[001-128,133].ib:10001
 *     range := number [ "-" number ]                       as many digits as the first number has
 *
 * That is DAOS's grammar, with IPv6 and more than one bracket in a token. A set is sorted, numbers in names by their
 * value, and has each host once; so equal sets fold into equal text, and unfold(fold(x)) is x.
 */
#ifndef CONTROL_HOSTLIST_HOSTLIST_H
#define CONTROL_HOSTLIST_HOSTLIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"

enum {
	HOST_BYTES_MAX = 272, /* a name of 253, brackets, a port, NUL */
	HOSTS_MAX = 65536,
	HOST_RANGE_MAX = 16384, /* numbers between the ends of one range */
};

/* One thread at a time; a set that nobody changes may be read by any. */
struct host_set;

/* An empty set. NULL: no memory. */
struct host_set *host_set_create(void);
void host_set_destroy(struct host_set *set); /* NULL is fine */

/*
 * A new set of what `text` lists; of nothing, an empty one. Errors: -EINVAL (`why`: host_list_bad, with the column),
 * -ERANGE (the same: too many hosts), -ENOMEM.
 */
MUST_CHECK int host_set_parse(const char *text, struct host_set **set_ret, struct fault *why);

/* Add what `text` lists. Errors: as of host_set_parse(); then `set` is as before. */
MUST_CHECK int host_set_add(struct host_set *set, const char *text, struct fault *why);

size_t host_set_count(const struct host_set *set);

/* Host `index` in order, borrowed until the set changes. `index` is below the count. */
const char *host_set_at(const struct host_set *set, size_t index);

/* `host` is spelled as host_set_at() has it: an IPv6 address in brackets, in its short form. */
bool host_set_has(const struct host_set *set, const char *host);

enum host_set_operation { HOST_SET_UNION, HOST_SET_INTERSECTION, HOST_SET_DIFFERENCE };

/* A new set of `a` and `b`; DIFFERENCE: what is in `a` alone. Errors: -ENOMEM, -ERANGE. */
MUST_CHECK int host_set_combine(const struct host_set *a, const struct host_set *b, enum host_set_operation operation,
				struct host_set **set_ret);

/* All of `a` is in `b`. */
bool host_set_is_within(const struct host_set *a, const struct host_set *b);

/* Folded, in the grammar above; the caller frees it. Errors: -ENOMEM. */
MUST_CHECK int host_set_fold(const struct host_set *set, char **text_ret);

/* One host in parts. */
struct host_address {
	char host[HOST_BYTES_MAX]; /* without brackets */
	uint16_t port;
	bool is_ipv6;
};

/* `host` as host_set_at() has it; `port` where it says none. */
void host_address(const char *host, uint16_t port, struct host_address *address_ret);

/* The last level of a fault domain, which names a host: "n0" of "/rack0/n0" and of "/rack=0/node=n0". Borrowed from it. */
const char *host_of_domain(const char *domain);

#endif
