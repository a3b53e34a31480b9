/* SPDX-License-Identifier: BSD-2-Clause */
/* Which ranks a request is about; and what became of each, for its answer. */
#include <errno.h>
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
	return error;
}

static int select_ranks(const struct mgmt *mgmt, const char *text, struct mgmt_selection *selection, struct fault *why)
{
	struct rank_set asked = { 0 }, absent = { 0 };
	int error = rank_set_parse(text, &asked, why);

	for (size_t i = 0; !error && i < asked.count; i++) {
		bool is_there = system_member_by_rank(mgmt->system, asked.ranks[i]);

		error = rank_set_add(is_there ? &selection->ranks : &absent, asked.ranks[i]);
	}
	if (!error)
		error = rank_set_fold(&absent, false, &selection->absent_ranks);
	rank_set_deinit(&asked);
	rank_set_deinit(&absent);
	return error;
}

/* A host that was named without its port is found whichever that is. */
static bool is_at(const struct member *member, const struct host_address *host)
{
	struct host_address address;

	host_address(member->address, 0, &address);
	return strcmp(address.host, host->host) == 0 && (host->port == 0 || host->port == address.port);
}

static int select_host(const struct mgmt *mgmt, const char *text, struct mgmt_selection *selection, struct host_set *absent,
		       struct fault *why)
{
	struct host_address host;
	bool is_there = false;
	int error = 0;

	host_address(text, 0, &host);
	for (size_t i = 0; !error && i < system_member_count(mgmt->system); i++) {
		const struct member *member = system_member_at(mgmt->system, i);

		if (!is_at(member, &host))
			continue;
		is_there = true;
		error = rank_set_add(&selection->ranks, member->rank);
	}
	return error || is_there ? error : host_set_add(absent, text, why);
}

static int select_hosts(const struct mgmt *mgmt, const char *text, struct mgmt_selection *selection, struct fault *why)
{
	struct host_set *asked = NULL, *absent = host_set_create();
	int error = absent ? host_set_parse(text, &asked, why) : -ENOMEM;

	for (size_t i = 0; !error && i < host_set_count(asked); i++)
		error = select_host(mgmt, host_set_at(asked, i), selection, absent, why);
	if (!error)
		error = host_set_fold(absent, &selection->absent_hosts);
	host_set_destroy(asked);
	host_set_destroy(absent);
	return error;
}

int mgmt_select(const struct mgmt *mgmt, const char *ranks, const char *hosts, struct mgmt_selection *selection_ret,
		struct fault *why)
{
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

void mgmt_results_add(struct mgmt_results *results, uint32_t rank, const char *action, bool errored, const char *message,
		      const char *state, const char *address)
{
	Shared__RankResult *result = &results->results[results->count];

	must(results->count < results->room);
	shared__rank_result__init(result);
	result->rank = rank;
	result->action = (char *)action;
	result->errored = errored;
	result->msg = (char *)message;
	result->state = (char *)state;
	result->addr = (char *)address;
	results->places[results->count++] = result;
}

void mgmt_results_deinit(struct mgmt_results *results)
{
	free(results->results);
	free(results->places);
	*results = (struct mgmt_results){ 0 };
}
