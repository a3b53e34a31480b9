/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unranked - engines without a rank: formatted, but never joined. They are not members, so they are known only from their
 * servers' reports, and are addressed through their servers. `system start` starts them, `system erase` erases them.
 *
 * Kept only in memory: a server reports when it starts, when an engine changes, and with each heartbeat.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "control/mgmt/internal.h"
#include "control/mgmt/probes.gen.h"
#include "control/status/status.h"
#include "base/reactor/reactor.h"

static struct mgmt_unranked *find_unranked(struct mgmt *mgmt, const char *address)
{
	for (size_t i = 0; i < mgmt->unranked_count; i++) {
		if (strcmp(mgmt->unranked[i].address, address) == 0)
			return &mgmt->unranked[i];
	}
	return NULL;
}

static struct mgmt_unranked *add_unranked(struct mgmt *mgmt, const char *address)
{
	struct mgmt_unranked *all;

	if (mgmt->unranked_count == MGMT_UNRANKED_MAX)
		return NULL;
	must(mgmt->unranked_count < MGMT_UNRANKED_MAX);
	all = realloc(mgmt->unranked, (mgmt->unranked_count + 1) * sizeof(*all));
	if (!all)
		return NULL; /* the next report tries again */
	mgmt->unranked = all;
	all += mgmt->unranked_count++;
	*all = (struct mgmt_unranked){ 0 };
	must(strlen(address) < sizeof(all->address));
	snprintf(all->address, sizeof(all->address), "%s", address);
	return all;
}

static void count_engines(const Fathom__ReportEnginesReq *request, struct mgmt_unranked *counts_ret)
{
	for (size_t i = 0; i < request->n_engines; i++) {
		const Fathom__ReportEnginesReq__Engine *engine = request->engines[i];
		enum member_state state;

		if (engine->rank != RANK_NONE || member_state_parse(engine->state, &state) < 0)
			continue;
		counts_ret->idle += state == MEMBER_ERRORED || state == MEMBER_STOPPED;
		counts_ret->formatted += *engine->uuid && state != MEMBER_AWAIT_FORMAT;
	}
}

void mgmt_note_unranked(struct mgmt *mgmt, const char *address, const Fathom__ReportEnginesReq *request)
{
	struct mgmt_unranked counts = { 0 }, *unranked = find_unranked(mgmt, address);

	count_engines(request, &counts);
	if (!unranked && counts.idle + counts.formatted > 0)
		unranked = add_unranked(mgmt, address);
	if (!unranked && counts.idle + counts.formatted > 0) {
		mgmt->stats.engines_refused++;
		probe_mgmt_engines_refused(reactor_tick(), counts.idle + counts.formatted);
	}
	if (!unranked)
		return;
	must(unranked >= mgmt->unranked && unranked < mgmt->unranked + mgmt->unranked_count);
	must(strcmp(unranked->address, address) == 0);
	unranked->idle = counts.idle;
	unranked->formatted = counts.formatted;
	unranked->heard = reactor_now();
	if (counts.idle + counts.formatted == 0)
		*unranked = mgmt->unranked[--mgmt->unranked_count];
}

void mgmt_unranked_close(struct mgmt *mgmt)
{
	free(mgmt->unranked);
	mgmt->unranked = NULL;
	mgmt->unranked_count = 0;
}

struct mgmt *mgmt_enter_for_engines(struct grpc_call *call, const char *sys)
{
	struct mgmt *mgmt = mgmt_enter(call, sys, false);

	if (!mgmt || system_member_count(mgmt->system) > 0 || mgmt->unranked_count > 0)
		return mgmt;
	grpc_fail(call, GRPC_UNKNOWN, NULL, "%s", STATUS_UNINITIALIZED);
	return NULL;
}

/* ---- selection ---- */

static bool is_same_host(const char *address, const char *host)
{
	struct host_address ours, asked;

	host_address(address, 0, &ours);
	host_address(host, 0, &asked);
	return strcmp(ours.host, asked.host) == 0 && (asked.port == 0 || asked.port == ours.port);
}

static bool is_asked_for(const char *address, const struct host_set *hosts)
{
	for (size_t i = 0; hosts && i < host_set_count(hosts); i++) {
		if (is_same_host(address, host_set_at(hosts, i)))
			return true;
	}
	return !hosts;
}

static bool is_selected(const struct mgmt_selection *selection, const char *host)
{
	for (size_t i = 0; i < selection->unranked_count; i++) {
		if (is_same_host(selection->unranked[i].address, host))
			return true;
	}
	return false;
}

/* Remove hosts with selected engines from the absent hosts. */
static int reduce_absent(struct mgmt_selection *selection, struct fathom_fault *why)
{
	struct host_set *absent = NULL, *left = NULL;
	char *text = NULL, *folded = NULL;
	size_t bytes = 0;
	int error = host_set_parse(selection->absent_hosts, &absent, why);
	FILE *out = error ? NULL : open_memstream(&text, &bytes);

	if (!error && !out)
		error = -ENOMEM;
	for (size_t i = 0; !error && i < host_set_count(absent); i++) {
		if (!is_selected(selection, host_set_at(absent, i)))
			fprintf(out, "%s,", host_set_at(absent, i));
	}
	if (out && fclose(out) != 0)
		error = -ENOMEM;
	if (!error)
		error = host_set_parse(text, &left, why);
	if (!error)
		error = host_set_fold(left, &folded);
	if (!error) {
		free(selection->absent_hosts);
		selection->absent_hosts = folded;
	}
	free(text);
	host_set_destroy(absent);
	host_set_destroy(left);
	return error;
}

int mgmt_select_unranked(const struct mgmt *mgmt, uint32_t (*engine_count)(const struct mgmt_unranked *unranked),
			 const char *hosts, struct mgmt_selection *selection, struct fathom_fault *why)
{
	struct host_set *asked = NULL;
	uint64_t limit = clock_ticks_from_ns(MGMT_BEATS_MISSED * mgmt_beat_ns(mgmt));
	int error = *hosts ? host_set_parse(hosts, &asked, why) : 0;

	must(!selection->unranked);
	if (!error) {
		selection->unranked = calloc(mgmt->unranked_count + 1, sizeof(*selection->unranked));
		error = selection->unranked ? 0 : -ENOMEM;
	}
	for (size_t i = 0; !error && i < mgmt->unranked_count; i++) {
		const struct mgmt_unranked *unranked = &mgmt->unranked[i];
		uint32_t count = engine_count(unranked);

		/* do not wait for a server that has stopped reporting: it may be gone for good */
		if (count == 0 || reactor_now() - unranked->heard > limit || !is_asked_for(unranked->address, asked))
			continue;
		must(selection->unranked_count < mgmt->unranked_count);
		selection->unranked[selection->unranked_count] = *unranked;
		selection->unranked[selection->unranked_count++].count = count;
	}
	host_set_destroy(asked);
	return !error && selection->absent_hosts ? reduce_absent(selection, why) : error;
}

size_t mgmt_unranked_engines(const struct mgmt_selection *selection)
{
	size_t count = 0;

	for (size_t i = 0; i < selection->unranked_count; i++)
		count += selection->unranked[i].count;
	return count;
}

void mgmt_fill_unranked(const struct mgmt_selection *selection, struct mgmt_operation_rank *rows)
{
	const struct mgmt_operation_rank *first = rows;

	for (size_t i = 0; i < selection->unranked_count; i++) {
		for (uint32_t k = 0; k < selection->unranked[i].count; k++, rows++) {
			rows->rank = RANK_NONE;
			rows->is_unranked = true;
			memcpy(rows->address, selection->unranked[i].address, sizeof(rows->address));
		}
	}
	must((size_t)(rows - first) == mgmt_unranked_engines(selection));
}
