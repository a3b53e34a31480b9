/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom system - the members of a system: query, start, stop, exclude, clear; attributes; events. */
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

enum { PAIRS_MAX = 64, FOLLOW_WAIT_MS = 20000, FOLLOW_PAUSE_US = 200000 };

static struct fathom_control_choice choice_of(const struct control_run *run)
{
	return (struct fathom_control_choice){
		.ranks = run->values.ranks,
		.hosts = run->values.rank_hosts,
	};
}

/* "system query" */
static const char *name_of(const struct control_run *run)
{
	return run->table->name + strlen("fathom ");
}

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
	fill_fault_members_absent(why, name_of(run), text);
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

int run_query(struct control_run *run)
{
	struct fathom_control_choice choice = choice_of(run);
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
	status = control_finish(run, control_is_json(run) ? json_of_members(members) : NULL,
				find_absent(run, members->absent_ranks, members->absent_hosts, &why));
	fathom_control_free(members);
	return status;
}

int run_leader(struct control_run *run)
{
	struct fathom_control_leader *leader;
	struct fathom_fault why;
	int status;

	if (fathom_control_leader(run->control, &leader, &why))
		return control_fail(run, &why);
	if (!control_is_json(run))
		show_leader(leader, run->values.down_replicas, stdout);
	status = control_finish(run, control_is_json(run) ? json_of_leader(leader) : NULL, NULL);
	fathom_control_free(leader);
	return status;
}

/* ---- start, stop, exclude, erase ---- */

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
	fill_fault_ranks_failed(why, name_of(run), text);
	rank_set_deinit(&failed);
	free(folded);
	free(text);
	return why;
}

static int finish_ranks(struct control_run *run, struct fathom_control_ranks *ranks)
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

int run_start(struct control_run *run)
{
	struct fathom_control_choice choice = choice_of(run);
	struct fathom_control_ranks *ranks;
	struct fathom_fault why;

	if (fathom_control_start(run->control, &choice, run->values.ignore_admin_excluded, &ranks, &why))
		return control_fail(run, &why);
	return finish_ranks(run, ranks);
}

int run_stop(struct control_run *run)
{
	struct fathom_control_choice choice = choice_of(run);
	struct fathom_control_ranks *ranks;
	struct fathom_fault why;

	if (fathom_control_stop(run->control, &choice, run->values.force, run->values.ignore_admin_excluded, &ranks, &why))
		return control_fail(run, &why);
	return finish_ranks(run, ranks);
}

static int exclude_ranks(struct control_run *run, bool clear)
{
	struct fathom_control_choice choice = choice_of(run);
	struct fathom_control_ranks *ranks;
	struct fathom_fault why;

	if (fathom_control_exclude(run->control, &choice, clear, &ranks, &why))
		return control_fail(run, &why);
	return finish_ranks(run, ranks);
}

int run_exclude(struct control_run *run)
{
	return exclude_ranks(run, false);
}

int run_clear(struct control_run *run)
{
	return exclude_ranks(run, true);
}

int run_erase(struct control_run *run)
{
	struct fathom_control_ranks *ranks;
	struct fathom_fault why;

	if (fathom_control_erase(run->control, &ranks, &why))
		return control_fail(run, &why);
	return finish_ranks(run, ranks);
}

/* ---- attributes and properties ---- */

/* Each argument may have several names, or names with ':' and a value, separated by commas. Fills at most PAIRS_MAX. */
static int read_pairs(struct control_run *run, bool with_values, struct fathom_control_pair *pairs, size_t *count_ret)
{
	size_t count = 0;

	for (int i = 0; i < run->argc; i++) {
		char *rest = run->argv[i], *word;

		while ((word = strsep(&rest, ","))) {
			char *colon = with_values ? strchr(word, ':') : NULL;

			if (count == PAIRS_MAX)
				return control_bad(run, "more than %d names", PAIRS_MAX);
			if (!word[0] || (with_values && (!colon || colon == word || !colon[1])))
				return control_bad(run, with_values ? "\"%s\" is not NAME:VALUE" : "\"%s\" is not a name",
						   word);
			if (colon)
				*colon = '\0';
			pairs[count++] = (struct fathom_control_pair){ word, colon ? colon + 1 : "" };
		}
	}
	*count_ret = count;
	return 0;
}

struct pair_calls {
	int (*get)(struct fathom_control *, const struct fathom_control_pair *, size_t, struct fathom_control_pairs **,
		   struct fathom_fault *);
	int (*set)(struct fathom_control *, const struct fathom_control_pair *, size_t, struct fathom_fault *);
	void (*show)(const struct fathom_control_pairs *, FILE *);
	json_t *(*json)(const struct fathom_control_pairs *);
};

static int get_pairs(struct control_run *run, const struct pair_calls *calls)
{
	struct fathom_control_pair pairs[PAIRS_MAX];
	struct fathom_control_pairs *result;
	struct fathom_fault why;
	size_t count;
	int status = read_pairs(run, false, pairs, &count);

	if (status)
		return status;
	if (calls->get(run->control, pairs, count, &result, &why))
		return control_fail(run, &why);
	if (!control_is_json(run))
		calls->show(result, stdout);
	status = control_finish(run, control_is_json(run) ? calls->json(result) : NULL, NULL);
	fathom_control_free(result);
	return status;
}

static int set_pairs(struct control_run *run, const struct pair_calls *calls, bool with_values)
{
	struct fathom_control_pair pairs[PAIRS_MAX];
	struct fathom_fault why;
	size_t count;
	int status = read_pairs(run, with_values, pairs, &count);

	if (status)
		return status;
	if (calls->set(run->control, pairs, count, &why))
		return control_fail(run, &why);
	if (!control_is_json(run))
		printf("%s succeeded\n", name_of(run));
	return control_finish(run, NULL, NULL);
}

static const struct pair_calls attributes = {
	fathom_control_get_attributes,
	fathom_control_set_attributes,
	show_attributes,
	json_attributes,
};
static const struct pair_calls properties = {
	fathom_control_get_properties,
	fathom_control_set_properties,
	show_properties,
	json_properties,
};

int run_get_attr(struct control_run *run)
{
	return get_pairs(run, &attributes);
}

int run_set_attr(struct control_run *run)
{
	return set_pairs(run, &attributes, true);
}

int run_del_attr(struct control_run *run)
{
	return set_pairs(run, &attributes, false);
}

int run_get_prop(struct control_run *run)
{
	return get_pairs(run, &properties);
}

int run_set_prop(struct control_run *run)
{
	return set_pairs(run, &properties, true);
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
static bool may_come_back(int error)
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
			if (!was_reached || !may_come_back(why.error))
				return control_fail(run, &why);
			pause_following();
			continue;
		}
		was_reached = true;
		print_events(run, events);
		if (events->last < after) {
			fprintf(stderr,
				"fathom: the numbers of events begin again behind %" PRIu64 ": the database was replaced\n",
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
static int print_kept(struct control_run *run, uint64_t after)
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
			response = json_events(events);
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
	return run->values.follow ? follow_events(run, after) : print_kept(run, after);
}
