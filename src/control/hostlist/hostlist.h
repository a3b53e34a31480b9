/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hostlist - sets of hosts: parse what operators write, print the hosts of an answer in folded form.
 *
 *     list  := token { (","|" "|TAB) token }               separators in brackets do not split
 *     token := name [":" port] | IPv4 [":" port] | "[" IPv6 "]" [":" port] | IPv6
 *     a name or an IPv4 address may contain ranges:     rack[0-1]node[001-128,133].ib:10001
 *     range := number [ "-" number ]                       as many digits as the first number has
 *
 * This is DAOS's grammar, extended by IPv6 and by several brackets in a token. A set is sorted, with numbers in names
 * compared by value, and holds each host once. So equal sets fold into equal text, and parsing a folded set gives the same
 * set.
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
	HOST_RANGE_MAX = 16384, /* last number minus first number of one range */
};

/* One thread at a time while the set changes; otherwise any number of readers. */
struct host_set;

/* An empty set. NULL: out of memory. */
struct host_set *host_set_create(void);
void host_set_destroy(struct host_set *set); /* NULL is fine */

/*
 * Parse `text` into a new set; an empty text gives an empty set. Errors: -EINVAL (`why`: host_list_bad, with the column;
 * also for far too many hosts), -ERANGE (more than HOSTS_MAX different hosts; `why` is not filled), -ENOMEM.
 */
MUST_CHECK int host_set_parse(const char *text, struct host_set **set_ret, struct fathom_fault *why);

/* Add the hosts of `text`. Errors: those of host_set_parse(); `set` is unchanged then. */
MUST_CHECK int host_set_add(struct host_set *set, const char *text, struct fathom_fault *why);

size_t host_set_count(const struct host_set *set);

/* Host `index` in sorted order, borrowed until the set changes. `index` must be below the count. */
const char *host_set_at(const struct host_set *set, size_t index);

/* `host` must be spelled as host_set_at() returns it: an IPv6 address in its short form, in brackets. */
bool host_set_has(const struct host_set *set, const char *host);

enum host_set_operation { HOST_SET_UNION, HOST_SET_INTERSECTION, HOST_SET_DIFFERENCE };

/* Combine `a` and `b` into a new set; DIFFERENCE: the hosts of `a` that are not in `b`. Errors: -ENOMEM, -ERANGE. */
MUST_CHECK int host_set_combine(const struct host_set *a, const struct host_set *b, enum host_set_operation operation,
				struct host_set **set_ret);

/* Whether every host of `a` is in `b`. */
bool host_set_is_within(const struct host_set *a, const struct host_set *b);

/* Fold into text of the grammar above; the caller frees it. Errors: -ENOMEM. */
MUST_CHECK int host_set_fold(const struct host_set *set, char **text_ret);

/* A host, split into its parts. */
struct host_address {
	char host[HOST_BYTES_MAX]; /* without brackets */
	uint16_t port;
	bool is_ipv6;
};

/* Split `host`, spelled as host_set_at() returns it. `port` is the default port. */
void host_address(const char *host, uint16_t port, struct host_address *address_ret);

/* The last level of a fault domain names a host: "n0" in "/rack0/n0" and in "/rack=0/node=n0". Borrowed from `domain`. */
const char *host_of_domain(const char *domain);

#endif
