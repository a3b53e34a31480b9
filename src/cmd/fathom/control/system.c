/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom system - query and events; how commands that change ranks end. The build makes the other commands. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "cmd/fathom/command.h"
#include "cmd/fathom/control/control.h"
#include "cmd/fathom/show/show.h"
#include "control/fault/fault.h"
#include "control/hostlist/rankset.h"
#include "control/system/member.h"

enum { FOLLOW_WAIT_MS = 20000, FOLLOW_PAUSE_US = 200000 };

/* NULL, or `why`: some of the requested ranks or hosts are absent. */
static const struct fathom_fault *find_absent(const struct control_run *run, const char *ranks, const char *hosts,
					      struct fathom_fault *why)
{
	const char *kind = ranks[0] ? (ranks[strcspn(ranks, ",-")] ? "ranks" : "rank")
				    : (hosts[strcspn(hosts, ",[")] ? "hosts" : "host");
	char *text;

	if (!ranks[0] && !hosts[0])
		return NULL;
	must(asprintf(&text, "%s %s", kind, ranks[0] ? ranks : hosts) >= 0);
	fill_fault_members_absent(why, control_name(run), text);
	free(text);
	return why;
}

/* ---- query ---- */

#define NOT_OK_STATES (0xffff & ~(uint32_t)FATHOM_CONTROL_JOINED)

/* Convert "joined,errored" to bits. False: invalid; the error was printed. */
static bool read_states(const char *text, uint32_t *bits_ret)
{
	char *copy = strdup(text), *rest = copy;
	const char *name;
	uint32_t bits = 0;
	bool fine = true;

	must(copy);
	while (fine && (name = strsep(&rest, ","))) {
		enum member_state state;

		fine = member_state_parse(name, &state) == 0 && member_state_bit(state);
		if (fine)
			bits |= member_state_bit(state);
	}
	free(copy);
	*bits_ret = bits;
	return fine && bits;
}

/* --check: NULL, or `why`: the first rank that does not serve all that it should. */
static const struct fathom_fault *find_unhealthy(const struct control_run *run,
						 const struct fathom_control_members *members, struct fathom_fault *why)
{
	for (size_t i = 0; run->values.check && i < members->count; i++) {
		const struct fathom_control_member *member = &members->members[i];

		if (strcmp(member->state, "joined") == 0 && !member->storage_reason[0])
			continue;
		fill_fault(why, -EIO, "rank %u is %s%s%s", member->rank, member->state, member->info[0] ? ": " : "",
			   member->info);
		return why;
	}
	return NULL;
}

int run_query(struct control_run *run)
{
	const struct fathom_fault *failed;
	struct fathom_control_choice choice = { .ranks = run->values.ranks, .hosts = run->values.rank_hosts };
	struct fathom_control_members *members;
	const char *states = run->values.with_states;
	struct fathom_fault why;
	uint32_t bits = 0;
	int status;

	if (states && !read_states(states, &bits))
		return control_bad(run, "--with-states: \"%s\" is not a list of states, such as joined,errored", states);
	if (run->values.not_ok)
		bits = NOT_OK_STATES;
	if (fathom_control_query(run->control, &choice, bits, &members, &why))
		return control_fail(run, &why);
	if (!control_is_json(run))
		show_members(members, run->values.verbose, stdout);
	failed = find_absent(run, members->absent_ranks, members->absent_hosts, &why);
	if (!failed)
		failed = find_unhealthy(run, members, &why);
	status = control_finish(run, control_is_json(run) ? json_of_members(members) : NULL, failed);
	fathom_control_free(members);
	return status;
}

/* ---- results of start, stop, exclude and erase ---- */

/* NULL, or `why`: the operation failed for some ranks. */
static const struct fathom_fault *find_failed(const struct control_run *run, const struct fathom_control_ranks *ranks,
					      struct fathom_fault *why)
{
	struct rank_set failed = { 0 };
	size_t unranked = 0;
	char *folded, *text;

	for (size_t i = 0; i < ranks->count; i++) {
		if (ranks->ranks[i].errored && ranks->ranks[i].rank != FATHOM_CONTROL_NO_RANK)
			must(rank_set_add(&failed, ranks->ranks[i].rank) == 0);
		unranked += ranks->ranks[i].errored && ranks->ranks[i].rank == FATHOM_CONTROL_NO_RANK;
	}
	if (failed.count + unranked == 0)
		return NULL;
	must(rank_set_fold(&failed, false, &folded) == 0);
	if (unranked == 0)
		must(asprintf(&text, "rank%s %s", failed.count == 1 ? "" : "s", folded) >= 0);
	else
		must(asprintf(&text, "%s%s%s%zu engine%s without a rank",
			      failed.count == 0	  ? ""
			      : failed.count == 1 ? "rank "
						  : "ranks ",
			      folded, failed.count == 0 ? "" : " and ", unranked, unranked == 1 ? "" : "s") >= 0);
	fill_fault_ranks_failed(why, control_name(run), text);
	rank_set_deinit(&failed);
	free(folded);
	free(text);
	return why;
}

int end_ranks(struct control_run *run, struct fathom_control_ranks *ranks)
{
	const struct fathom_fault *failed;
	struct fathom_fault why;
	int status;

	failed = find_absent(run, ranks->absent_ranks, ranks->absent_hosts, &why);
	if (!failed)
		failed = find_failed(run, ranks, &why);
	if (!control_is_json(run))
		show_ranks(ranks, stdout);
	status = control_finish(run, control_is_json(run) ? json_of_ranks(ranks) : NULL, failed);
	fathom_control_free(ranks);
	return status;
}

/* ---- events ---- */

static void print_events(struct control_run *run, const struct fathom_control_events *events)
{
	if (!control_is_json(run))
		show_events(events, stdout);
	for (size_t i = 0; i < events->count && control_is_json(run); i++) {
		/* one per line: the stream has no end at which an envelope could be closed */
		json_t *event = json_of_event(&events->events[i]);

		must(json_dumpf(event, stdout, JSON_COMPACT) == 0 || ferror(stdout));
		putchar('\n');
		json_decref(event);
	}
	fflush(stdout);
}

/* A restarting server soon accepts connections again, and it keeps its events. */
static bool may_server_return(int error)
{
	return error == -ECONNREFUSED || error == -ECONNRESET || error == -ETIMEDOUT || error == -EHOSTUNREACH ||
	       error == -EAGAIN;
}

static void pause_following(void)
{
	if (!control_was_interrupted())
		usleep(FOLLOW_PAUSE_US);
}

/* Print events behind `after` until interrupted, or until the time of --timeout is over. */
static int follow_events(struct control_run *run, uint64_t after)
{
	uint64_t now = clock_monotonic_ns(), end_ns = UINT64_MAX;
	struct fathom_control_events *events;
	struct fathom_fault why;
	bool was_reached = false;

	if (run->values.timeout > 0)
		end_ns = now + run->values.timeout * NS_PER_SEC;
	for (; !control_was_interrupted() && !ferror(stdout) && now < end_ns; now = clock_monotonic_ns()) {
		uint32_t wait_ms = (uint32_t)min_u64(FOLLOW_WAIT_MS, (end_ns - now) / NS_PER_MS);

		if (fathom_control_events(run->control, after, 0, wait_ms, &events, &why)) {
			if (control_was_interrupted())
				break;
			if (!was_reached || !may_server_return(why.error))
				return control_fail(run, &why);
			pause_following();
			continue;
		}
		was_reached = true;
		print_events(run, events);
		if (events->last < after) {
			fprintf(stderr,
				"fathom: event numbers continue after %" PRIu64
				": the database was replaced by an older copy\n",
				events->last);
			after = events->last;
		} else if (events->count > 0) {
			after = events->events[events->count - 1].number;
		} else {
			pause_following(); /* a server that does not allow waiting answers at once */
		}
		fathom_control_free(events);
	}
	return EXIT_SUCCESS;
}

/* Find the number from which on `count` events remain, but not before `after`. */
static int find_first_event(struct control_run *run, uint64_t count, uint64_t *after)
{
	struct fathom_control_events *events;
	struct fathom_fault why;

	/* request one event, to learn the last number */
	if (fathom_control_events(run->control, 0, 1, 0, &events, &why))
		return control_fail(run, &why);
	if (events->last > count && events->last - count > *after)
		*after = events->last - count;
	fathom_control_free(events);
	return EXIT_SUCCESS;
}

/* Print all events behind `after`, in as many calls as necessary. */
static int print_kept_events(struct control_run *run, uint64_t after)
{
	struct fathom_control_events *events;
	json_t *response = NULL;
	struct fathom_fault why;
	bool more = true;

	while (more) {
		if (fathom_control_events(run->control, after, 0, 0, &events, &why)) {
			json_decref(response);
			return control_fail(run, &why);
		}
		if (control_is_json(run) && response)
			json_add_events(response, events);
		else if (control_is_json(run))
			response = json_of_events(events);
		else
			print_events(run, events);
		more = events->count > 0 && events->events[events->count - 1].number < events->last;
		if (more)
			after = events->events[events->count - 1].number;
		fathom_control_free(events);
	}
	return control_finish(run, response, NULL);
}

int run_events(struct control_run *run)
{
	uint64_t after = run->values.after, count = run->values.count;

	if (count != UINT64_MAX && find_first_event(run, count, &after))
		return EXIT_FAILURE;
	return run->values.follow ? follow_events(run, after) : print_kept_events(run, after);
}
