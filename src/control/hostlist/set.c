/* SPDX-License-Identifier: BSD-2-Clause */
/* set - a set of hosts, sorted and without duplicates: union, intersection, difference. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/text.h"
#include "control/hostlist/internal.h"

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

int host_compare(const char *a, const char *b)
{
	const char *whole_a = a, *whole_b = b;

	while (*a && *b) {
		if (is_digit(*a) && is_digit(*b)) {
			size_t digits_a, digits_b;
			int order;

			a += strspn(a, "0");
			b += strspn(b, "0");
			digits_a = strspn(a, "0123456789");
			digits_b = strspn(b, "0123456789");
			if (digits_a != digits_b)
				return digits_a < digits_b ? -1 : 1;
			order = strncmp(a, b, digits_a);
			if (order)
				return order;
			a += digits_a;
			b += digits_b;
			continue;
		}
		if (*a != *b)
			return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
		a++;
		b++;
	}
	if (*a || *b)
		return *a ? 1 : -1;
	return strcmp(whole_a, whole_b); /* "01" and "1" have equal values but are different hosts */
}

struct host_set *host_set_create(void)
{
	return calloc(1, sizeof(struct host_set));
}

void host_set_destroy(struct host_set *set)
{
	if (!set)
		return;
	for (size_t i = 0; i < set->count; i++)
		free(set->hosts[i]);
	free(set->hosts);
	free(set);
}

int host_set_append(struct host_set *set, char *host)
{
	must(set->count <= set->room);
	if (set->count == set->room) {
		size_t room = max_u64(set->room * 2, 16);
		/* twice the limit, because host_set_sort() removes duplicates later */
		char **hosts = set->count >= 2 * (size_t)HOSTS_MAX ? NULL : realloc(set->hosts, room * sizeof(*hosts));

		if (!hosts) {
			free(host);
			return set->count >= 2 * (size_t)HOSTS_MAX ? -ERANGE : -ENOMEM;
		}
		set->hosts = hosts;
		set->room = room;
	}
	set->hosts[set->count++] = host;
	return 0;
}

static int compare_hosts(const void *a, const void *b)
{
	return host_compare(*(char *const *)a, *(char *const *)b);
}

void host_set_sort(struct host_set *set)
{
	size_t kept = 0;

	if (set->count == 0)
		return;
	qsort(set->hosts, set->count, sizeof(*set->hosts), compare_hosts);
	for (size_t i = 1; i < set->count; i++) {
		if (strcmp(set->hosts[i], set->hosts[kept]) == 0)
			free(set->hosts[i]);
		else
			set->hosts[++kept] = set->hosts[i];
	}
	must(kept < set->count);
	set->count = kept + 1;
}

int host_set_parse(const char *text, struct host_set **set_ret, struct fathom_fault *why)
{
	struct host_set *set = host_set_create();
	int error;

	if (!set)
		return -ENOMEM;
	error = host_set_read(set, text, why);
	if (error < 0) {
		host_set_destroy(set);
		return error;
	}
	host_set_sort(set);
	if (set->count > HOSTS_MAX) {
		host_set_destroy(set);
		return -ERANGE;
	}
	*set_ret = set;
	return 0;
}

/*
 * Merge two sorted sets into `hosts` and return the number of hosts. `hosts` takes the texts; a text of `b` that is also in
 * `a` is freed. If `hosts` is NULL, only count.
 */
static size_t merge_sets(struct host_set *a, struct host_set *b, char **hosts)
{
	size_t count = 0;

	for (size_t i = 0, j = 0; i < a->count || j < b->count; count++) {
		int order = i == a->count ? 1 : j == b->count ? -1 : host_compare(a->hosts[i], b->hosts[j]);

		if (hosts)
			hosts[count] = order <= 0 ? a->hosts[i] : b->hosts[j];
		if (hosts && order == 0)
			free(b->hosts[j]);
		i += order <= 0;
		j += order >= 0;
	}
	return count;
}

int host_set_add(struct host_set *set, const char *text, struct fathom_fault *why)
{
	struct host_set *added;
	int error = host_set_parse(text, &added, why);
	char **hosts = NULL;
	size_t count;

	if (error < 0)
		return error;
	count = merge_sets(set, added, NULL);
	if (count > HOSTS_MAX)
		error = -ERANGE;
	else if (!(hosts = malloc((count + 1) * sizeof(*hosts))))
		error = -ENOMEM;
	if (!error) {
		must(merge_sets(set, added, hosts) == count);
		free(set->hosts);
		*set = (struct host_set){ .hosts = hosts, .count = count, .room = count + 1 };
		added->count = 0; /* `set` owns the texts now */
	}
	host_set_destroy(added);
	return error;
}

size_t host_set_count(const struct host_set *set)
{
	return set->count;
}

const char *host_set_at(const struct host_set *set, size_t index)
{
	must(index < set->count);
	return set->hosts[index];
}

bool host_set_has(const struct host_set *set, const char *host)
{
	return set->count && bsearch(&host, set->hosts, set->count, sizeof(*set->hosts), compare_hosts);
}

bool host_set_is_within(const struct host_set *a, const struct host_set *b)
{
	for (size_t i = 0; i < a->count; i++) {
		if (!host_set_has(b, a->hosts[i]))
			return false;
	}
	return true;
}

static int append_copy(struct host_set *set, const char *host)
{
	char *copy = strdup(host);

	return copy ? host_set_append(set, copy) : -ENOMEM;
}

/* Append the hosts of `from` that are in `other` (`is_wanted`) or that are not in it (not `is_wanted`). */
static int append_matching(struct host_set *set, const struct host_set *from, const struct host_set *other, bool is_wanted)
{
	int error = 0;

	for (size_t i = 0; error == 0 && i < from->count; i++) {
		if (host_set_has(other, from->hosts[i]) == is_wanted)
			error = append_copy(set, from->hosts[i]);
	}
	return error;
}

int host_set_combine(const struct host_set *a, const struct host_set *b, enum host_set_operation operation,
		     struct host_set **set_ret)
{
	struct host_set *set = host_set_create();
	int error = set ? 0 : -ENOMEM;

	must(operation <= HOST_SET_DIFFERENCE);
	if (!error)
		error = append_matching(set, a, b, operation == HOST_SET_INTERSECTION);
	if (!error && operation == HOST_SET_UNION) {
		static const struct host_set nothing;

		error = append_matching(set, b, &nothing, false);
	}
	if (!error) {
		host_set_sort(set);
		must(operation == HOST_SET_UNION || set->count <= a->count);
		must(operation != HOST_SET_UNION || set->count >= max_u64(a->count, b->count));
		error = set->count > HOSTS_MAX ? -ERANGE : 0;
	}
	if (error) {
		host_set_destroy(set);
		return error;
	}
	*set_ret = set;
	return 0;
}

void host_address(const char *host, uint16_t port, struct host_address *address_ret)
{
	const char *end = host + strlen(host), *colon;
	uint64_t number = port;

	address_ret->is_ipv6 = *host == '[';
	must(!address_ret->is_ipv6 || strchr(host, ']')); /* as host_set_at() spells it */
	colon = strchr(address_ret->is_ipv6 ? strchr(host, ']') : host, ':');
	if (colon) {
		must(text_parse_u64(colon + 1, 10, UINT16_MAX, &number) == 0);
		end = colon;
	}
	address_ret->port = (uint16_t)number;
	if (address_ret->is_ipv6) {
		host++;
		end--;
	}
	must(end > host);
	must((size_t)(end - host) < sizeof(address_ret->host));
	memcpy(address_ret->host, host, (size_t)(end - host));
	address_ret->host[end - host] = '\0';
}

const char *host_of_domain(const char *domain)
{
	const char *level = strrchr(domain, '/'), *label;

	level = level ? level + 1 : domain;
	label = strchr(level, '=');
	return label ? label + 1 : level;
}
