/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Choice of ranks and hosts for a request. The service finds members by address and by the last level of their fault
 * domains, but resolves no names. The client resolves them here, so that `--rank-hosts` accepts the same names as -l.
 */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "control/client/internal.h"
#include "control/fault/fault.h"
#include "control/hostlist/rankset.h"

void chosen_free(struct chosen *chosen)
{
	free(chosen->ranks);
	free(chosen->hosts);
}

static bool is_number(const struct host_address *host)
{
	struct in_addr number;

	return host->is_ipv6 || inet_pton(AF_INET, host->host, &number) == 1;
}

/* Whether `member` is at `host`; port 0 of `host` matches any port. */
static bool is_at(const struct host_address *host, const struct fathom_control_member *member)
{
	struct host_set *set = NULL; /* parse the server's text as strictly as user input */
	struct host_address at;
	bool is_same = false;

	if (host_set_parse(member->address, &set, NULL) == 0 && host_set_count(set) == 1) {
		host_address(host_set_at(set, 0), 0, &at);
		is_same = strcmp(at.host, host->host) == 0 && (host->port == 0 || host->port == at.port);
	}
	host_set_destroy(set);
	return is_same;
}

/* Whether the service finds members under that name. */
static bool is_known(const struct host_address *host, const struct fathom_control_members *members)
{
	for (size_t i = 0; i < members->count; i++) {
		if (is_at(host, &members->members[i]) ||
		    strcmp(host_of_domain(members->members[i].fault_domain), host->host) == 0)
			return true;
	}
	return false;
}

/* Add the addresses of members at one of the addresses of `host`. Returns the number of members. */
static size_t add_members(struct host_set *set, const struct host_address *host, const struct address *address,
			  const struct fathom_control_members *members)
{
	size_t count = 0;

	for (size_t a = 0; a < address->count; a++) {
		struct host_address one;

		host_address(address->text[a], 0, &one);
		one.port = host->port;
		for (size_t i = 0; i < members->count; i++) {
			if (!is_at(&one, &members->members[i]))
				continue;
			must(host_set_add(set, members->members[i].address, NULL) == 0);
			count++;
		}
	}
	return count;
}

/* Copy `set` to `set_ret`; replace names that the service does not know by addresses of members. */
static int replace_unknown_names(struct fathom_control *control, const struct host_set *set,
				 const struct fathom_control_members *members, struct host_set *set_ret,
				 struct fathom_fault *why)
{
	struct host_set *unknown = host_set_create();
	struct address *addresses;
	struct host_address host;
	int error;

	must(unknown);
	for (size_t i = 0; i < host_set_count(set); i++) {
		host_address(host_set_at(set, i), 0, &host);
		must(host_set_add(is_number(&host) || is_known(&host, members) ? set_ret : unknown, host_set_at(set, i),
				  NULL) == 0);
	}
	addresses = calloc(host_set_count(unknown) + 1, sizeof(*addresses));
	must(addresses);
	error = resolve(control, unknown, addresses, clock_monotonic_ns() + control->timeout_ns, why);
	for (size_t i = 0; !error && i < host_set_count(unknown); i++) {
		host_address(host_set_at(unknown, i), 0, &host);
		/* keep an unmatched name: the service reports it as absent */
		if (add_members(set_ret, &host, &addresses[i], members) == 0)
			must(host_set_add(set_ret, host_set_at(unknown, i), NULL) == 0);
	}
	free(addresses);
	host_set_destroy(unknown);
	return error;
}

static bool has_names(const struct host_set *set)
{
	struct host_address host;

	for (size_t i = 0; i < host_set_count(set); i++) {
		host_address(host_set_at(set, i), 0, &host);
		if (!is_number(&host))
			return true;
	}
	return false;
}

static int choose_hosts(struct fathom_control *control, const char *text, char **hosts_ret, struct fathom_fault *why)
{
	struct host_set *asked = NULL, *set = NULL;
	struct fathom_control_members *members = NULL;
	int error = host_set_parse(text, &asked, why);

	if (!error && has_names(asked)) {
		set = host_set_create();
		must(set);
		error = fathom_control_query(control, NULL, 0, &members, why);
		if (!error)
			error = replace_unknown_names(control, asked, members, set, why);
	}
	if (!error)
		must(host_set_fold(set ? set : asked, hosts_ret) == 0);
	fathom_control_free(members);
	host_set_destroy(set);
	host_set_destroy(asked);
	return error;
}

int choose(struct fathom_control *control, const struct fathom_control_choice *choice, struct chosen *chosen_ret,
	   struct fathom_fault *why)
{
	struct chosen chosen = { 0 };
	struct rank_set ranks = { 0 };
	int error = 0;

	if (choice && choice->ranks) {
		error = rank_set_parse(choice->ranks, &ranks, why);
		if (error == 0 && ranks.count == 0) /* an empty list in the request would mean all ranks */
			error = fault_no_ranks_named(why);
		if (error == 0)
			must(rank_set_fold(&ranks, false, &chosen.ranks) == 0);
		rank_set_deinit(&ranks);
	}
	if (error == 0 && choice && choice->hosts && choice->hosts[0] == '\0')
		error = fault_no_ranks_named(why);
	if (error == 0 && choice && choice->hosts)
		error = choose_hosts(control, choice->hosts, &chosen.hosts, why);
	if (error)
		chosen_free(&chosen);
	else
		*chosen_ret = chosen;
	return error;
}
