/* SPDX-License-Identifier: BSD-2-Clause */
/* Select the ranks of a request, and build the per-rank results of an answer. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "control/fault/fault.h"
#include "control/mgmt/internal.h"

static int select_all(const struct mgmt *mgmt, struct mgmt_selection *selection)
{
	int error = 0;

	selection->is_all = true;
	for (size_t i = 0; !error && i < system_member_count(mgmt->system); i++)
		error = rank_set_add(&selection->ranks, system_member_at(mgmt->system, i)->rank);
	must(error || selection->ranks.count == system_member_count(mgmt->system));
	return error;
}

static int select_ranks(const struct mgmt *mgmt, const char *text, struct mgmt_selection *selection,
			struct fathom_fault *why)
{
	struct rank_set asked = { 0 }, absent = { 0 };
	int error = rank_set_parse(text, &asked, why);

	for (size_t i = 0; !error && i < asked.count; i++) {
		bool is_there = system_member_by_rank(mgmt->system, asked.ranks[i]);

		error = rank_set_add(is_there ? &selection->ranks : &absent, asked.ranks[i]);
	}
	must(error || selection->ranks.count + absent.count == asked.count);
	if (!error)
		error = rank_set_fold(&absent, false, &selection->absent_ranks);
	rank_set_deinit(&asked);
	rank_set_deinit(&absent);
	return error;
}

/* A host in a request; port 0 matches any port. */
struct asked_host {
	struct host_address address;
	const char *text;
	bool is_there;
};

static int compare_hosts(const void *a, const void *b)
{
	const struct asked_host *x = a, *y = b;

	return strcmp(x->address.host, y->address.host);
}

/* The index of the first entry with the name `host`, or the index where it would be inserted. */
static size_t host_index(const struct asked_host *hosts, size_t count, const char *host)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (strcmp(hosts[middle].address.host, host) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	must(low == 0 || strcmp(hosts[low - 1].address.host, host) < 0);
	must(low == count || strcmp(hosts[low].address.host, host) >= 0);
	return low;
}

/* Select `member`, which is on `host`, if `hosts` (sorted) contains that host. */
static int select_if_asked(const struct member *member, const char *host, uint16_t port, struct asked_host *hosts,
			   size_t count, struct mgmt_selection *selection)
{
	int error = 0;

	for (size_t i = host_index(hosts, count, host); !error && i < count && strcmp(hosts[i].address.host, host) == 0;
	     i++) {
		if (hosts[i].address.port != 0 && hosts[i].address.port != port)
			continue;
		hosts[i].is_there = true;
		error = rank_set_add(&selection->ranks, member->rank);
	}
	return error;
}

/* Select `member` by its address, or by the last level of its fault domain. The client resolves other names. */
static int select_member(const struct member *member, struct asked_host *hosts, size_t count,
			 struct mgmt_selection *selection)
{
	struct host_address address;
	int error;

	host_address(member->address, 0, &address);
	error = select_if_asked(member, address.host, address.port, hosts, count, selection);
	return error ? error
		     : select_if_asked(member, host_of_domain(member->domain), address.port, hosts, count, selection);
}

/* Fold the hosts without members. Build one text first, because each host_set_add() merges the whole set. */
static int fold_absent(const struct asked_host *hosts, size_t count, char **absent_ret, struct fathom_fault *why)
{
	struct host_set *absent = NULL;
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);
	int error;

	if (!out)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		if (!hosts[i].is_there)
			fprintf(out, "%s,", hosts[i].text);
	}
	error = fclose(out) == 0 ? host_set_parse(text, &absent, why) : -ENOMEM;
	free(text);
	if (!error)
		error = host_set_fold(absent, absent_ret);
	host_set_destroy(absent);
	return error;
}

static int select_members(const struct mgmt *mgmt, struct asked_host *hosts, size_t count, struct mgmt_selection *selection,
			  struct fathom_fault *why)
{
	int error = 0;

	qsort(hosts, count, sizeof(*hosts), compare_hosts);
	for (size_t i = 0; !error && i < system_member_count(mgmt->system); i++)
		error = select_member(system_member_at(mgmt->system, i), hosts, count, selection);
	return error ? error : fold_absent(hosts, count, &selection->absent_hosts, why);
}

static int select_hosts(const struct mgmt *mgmt, const char *text, struct mgmt_selection *selection,
			struct fathom_fault *why)
{
	struct asked_host *hosts = NULL;
	struct host_set *asked = NULL;
	int error = host_set_parse(text, &asked, why);
	size_t count = error ? 0 : host_set_count(asked);

	if (!error) {
		hosts = calloc(count + 1, sizeof(*hosts));
		error = hosts ? 0 : -ENOMEM;
	}
	for (size_t i = 0; !error && i < count; i++) {
		hosts[i].text = host_set_at(asked, i);
		host_address(hosts[i].text, 0, &hosts[i].address);
	}
	if (!error)
		error = select_members(mgmt, hosts, count, selection, why);
	free(hosts);
	host_set_destroy(asked);
	return error;
}

int mgmt_select(const struct mgmt *mgmt, const char *ranks, const char *hosts, struct mgmt_selection *selection_ret,
		struct fathom_fault *why)
{
	must(ranks && hosts);
	must(!mgmt->is_stale);
	memset(selection_ret, 0, sizeof(*selection_ret));
	if (*ranks && *hosts)
		return fault_ranks_and_hosts(why);
	if (*ranks)
		return select_ranks(mgmt, ranks, selection_ret, why);
	if (*hosts)
		return select_hosts(mgmt, hosts, selection_ret, why);
	return select_all(mgmt, selection_ret);
}

void mgmt_selection_deinit(struct mgmt_selection *selection)
{
	rank_set_deinit(&selection->ranks);
	free(selection->unranked);
	selection->unranked = NULL;
	free(selection->absent_ranks);
	free(selection->absent_hosts);
	selection->absent_ranks = selection->absent_hosts = NULL;
}

/* ---- results ---- */

int mgmt_results_init(struct mgmt_results *results, size_t room)
{
	*results = (struct mgmt_results){ .room = room };
	results->results = calloc(room + 1, sizeof(*results->results));
	results->places = calloc(room + 1, sizeof(*results->places));
	if (results->results && results->places)
		return 0;
	mgmt_results_deinit(results);
	return -ENOMEM;
}

void mgmt_results_add(struct mgmt_results *results, const struct mgmt_result *result)
{
	Shared__RankResult *row = &results->results[results->count];

	must(results->count < results->room);
	must(result->action);
	shared__rank_result__init(row);
	row->rank = result->rank;
	row->action = (char *)result->action;
	row->errored = result->errored;
	row->msg = (char *)result->message;
	row->state = (char *)result->state;
	row->addr = (char *)result->address;
	results->places[results->count++] = row;
}

void mgmt_results_deinit(struct mgmt_results *results)
{
	must(results->count <= results->room);
	free(results->results);
	free(results->places);
	*results = (struct mgmt_results){ 0 };
}

const char *mgmt_ranks_text(const struct rank_set *ranks, char *text)
{
	char *folded = NULL;

	must(ranks->count > 0);
	/* if the list is too long or memory runs out, print only their number */
	if (rank_set_fold(ranks, false, &folded) == 0 && strlen(folded) + sizeof("ranks ") <= MGMT_RANKS_BYTES)
		snprintf(text, MGMT_RANKS_BYTES, "rank%s %s", ranks->count == 1 ? "" : "s", folded);
	else
		snprintf(text, MGMT_RANKS_BYTES, "%zu ranks", ranks->count);
	free(folded);
	return text;
}
