/* SPDX-License-Identifier: BSD-2-Clause */
/* show - `fathom trace show`, `stages`, `stuck` and `threads`: prints events, stages, stuck requests and threads. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "cmd/fathom/trace/trace.h"

enum { EXIT_STUCK = 1 };

int trace_show(struct trace_request *request, struct reader *reader, struct reader_printer *printer)
{
	struct reader_events *events;
	struct reader_counts counts;
	struct reader_event event;
	int rc = trace_choose_filters(request, reader);

	if (rc)
		return rc;
	if (reader_events(reader, &events) != 0)
		return trace_complain("out of memory", NULL);
	reader_events_counts(events, &counts);
	reader_print_header(printer, &counts);
	while (reader_event_next(events, &event)) {
		if (trace_is_wanted(request, &event))
			reader_print_event(printer, &event);
	}
	reader_events_counts(events, &counts);
	reader_print_end(printer, &counts);
	reader_events_free(events);
	return EXIT_SUCCESS;
}

/* Select the types of requests whose stages are changed by chosen events. */
static void select_stages(const struct trace_request *request, const struct reader *reader, struct reader_stages *stages)
{
	reader_stages_want(stages, NULL);
	for (uint32_t i = 0; i < reader_info(reader)->point_count; i++) {
		const struct reader_point *point = reader_point_at(reader, i);

		if (request->point_wanted[point->id] && point->machine && point->object)
			reader_stages_want(stages, point->object);
	}
}

int trace_stages_of_rings(struct trace_request *request, struct reader *reader, struct reader_printer *printer)
{
	struct reader_stages *stages;
	struct reader_events *events;
	struct reader_event event;

	if (reader_events(reader, &events) != 0)
		return trace_complain("out of memory", NULL);
	if (reader_stages_create(reader, &stages) != 0) {
		reader_events_free(events);
		return trace_complain("out of memory", NULL);
	}
	if (request->point_wanted)
		select_stages(request, reader, stages);
	while (reader_event_next(events, &event)) {
		if (trace_is_of_wanted_life(request, &event))
			reader_stages_event(stages, &event);
	}
	reader_print_stages(printer, stages);
	reader_stages_free(stages);
	reader_events_free(events);
	return EXIT_SUCCESS;
}

int trace_choose(struct trace_request *request, struct reader *reader, struct reader_counts *counts_ret)
{
	struct reader_events *events;
	int rc = trace_choose_filters(request, reader);

	if (rc)
		return rc;
	if (reader_events(reader, &events) != 0)
		return trace_complain("out of memory", NULL);
	reader_events_counts(events, counts_ret);
	reader_events_free(events);
	return EXIT_SUCCESS;
}

int trace_stages(struct trace_request *request, struct reader *reader, struct reader_printer *printer)
{
	struct reader_counts counts;
	int rc = trace_choose(request, reader, &counts);

	if (rc)
		return rc;
	reader_print_header(printer, &counts);
	return trace_stages_of_rings(request, reader, printer);
}

uint64_t trace_older_than_ns(const struct trace_request *request, const struct reader *reader)
{
	if (request->older_than_ns != TRACE_OLDER_THAN_DEFAULT)
		return request->older_than_ns;
	return reader_info(reader)->died ? 0 : NS_PER_SEC;
}

bool trace_is_stuck(const struct trace_request *request, const struct reader *reader, const struct reader_story *story,
		    uint64_t now)
{
	const struct reader_machine *machine = story->object->machine;

	if (!request->all && machine && story->state < machine->state_count && machine->states[story->state].resting)
		return false;
	return reader_ns_from_ticks(reader, now > story->begin_tick ? now - story->begin_tick : 0) >=
	       trace_older_than_ns(request, reader);
}

void trace_under_way_remark(const struct reader *reader, char *line, size_t bytes)
{
	const struct trace_request request = { .older_than_ns = TRACE_OLDER_THAN_DEFAULT };
	struct reader_walk walk = { 0 };
	struct reader_story story;
	uint64_t now = reader_now(reader);
	int count = 0;

	line[0] = '\0';
	while (reader_story_next(reader, &walk, &story))
		count += !story.parent && trace_is_stuck(&request, reader, &story, now);
	if (count)
		snprintf(line, bytes, "%d under way %s: `fathom trace stuck` shows %s", count,
			 reader_info(reader)->died ? "when it died" : "for more than a second", count == 1 ? "it" : "them");
}

/*
 * Print pollers and messages that run longer than --older-than. Its default here is a second, also for a dead process: a
 * busy reactor always runs one of them.
 */
static int stuck_threads(const struct trace_request *request, const struct reader *reader, struct reader_printer *printer,
			 uint64_t now)
{
	uint64_t older_than_ns = request->older_than_ns == TRACE_OLDER_THAN_DEFAULT ? NS_PER_SEC : request->older_than_ns;
	int count = 0;

	for (uint32_t i = 0; i < reader_info(reader)->thread_count; i++) {
		struct reader_thread thread;

		if (!reader_thread(reader, i, &thread) || !thread.running[0] || now < thread.running_since ||
		    reader_ns_from_ticks(reader, now - thread.running_since) < older_than_ns)
			continue;
		reader_print_thread(printer, &thread, now);
		count++;
	}
	return count;
}

/* Report a live process whose heartbeat is late, or which is stopped. Returns 1 if it is stuck, else 0. */
static int stuck_process(const struct reader *reader, struct reader_printer *printer, uint64_t now)
{
	uint64_t silent_ns = reader_silent_ns(reader), record = reader_latest_record(reader), ns;
	const struct reader_info *info = reader_info(reader);
	bool is_stuck = info->stopped || silent_ns;
	char line[160];

	if (is_stuck) {
		snprintf(line, sizeof(line), "process %d %s: no sign of life for %.3f s", info->pid,
			 info->stopped ? "is stopped by a signal or a debugger" : "hangs, or gets no CPU time",
			 (double)silent_ns / NS_PER_SEC);
		reader_print_remark(printer, line);
	}
	ns = record && now > record ? reader_ns_from_ticks(reader, now - record) : 0;
	if (info->liveness == READER_ALIVE && ns >= NS_PER_SEC) {
		snprintf(line, sizeof(line), "its latest record is %.3f s old", (double)ns / NS_PER_SEC);
		reader_print_remark(printer, line);
	}
	return is_stuck;
}

/* Report the number of requests that the file has no room for: they may be stuck, too. */
static void remark_requests_elsewhere(const struct reader *reader, struct reader_printer *printer)
{
	char line[200];

	for (uint32_t i = 0; i <= reader_info(reader)->point_count; i++) {
		const struct reader_object *object = NULL;
		bool seen = false;
		uint64_t count;

		if (i < reader_info(reader)->point_count) {
			object = reader_point_at(reader, i)->object;
			for (uint32_t j = 0; j < i && !seen; j++)
				seen = reader_point_at(reader, j)->object == object;
			seen |= !object;
		}
		count = seen ? 0 : reader_stories_outside_file(reader, object);
		if (count == 0)
			continue;
		snprintf(line, sizeof(line),
			 "%llu %s%s are not in this file, which had no room for them; it is not known which are under way",
			 (unsigned long long)count, object ? object->name : "other requests", object ? " requests" : "");
		reader_print_remark(printer, line);
	}
}

int trace_stuck(struct trace_request *request, struct reader *reader, struct reader_printer *printer)
{
	struct reader_events *events = NULL;
	struct reader_counts counts;
	struct reader_story story;
	struct reader_walk walk = { 0 };
	uint64_t now = reader_now(reader), under_way = 0;
	char line[128];
	int count = 0;

	if (reader_events(reader, &events) != 0)
		return trace_complain("out of memory", NULL);
	reader_events_counts(events, &counts);
	reader_print_header(printer, &counts);
	while (reader_story_next(reader, &walk, &story)) {
		const struct reader_object *related = NULL;
		struct reader_event event;
		uint32_t related_id = 0;

		under_way++;
		if (!trace_is_stuck(request, reader, &story, now))
			continue;
		related = story.parent;
		related_id = story.parent_id;
		/* read all events once, when the first request without a parent needs them: they may name the parent */
		while (!related && reader_event_next(events, &event))
			;
		if (!related && !reader_related(events, story.object, story.id, &related, &related_id))
			related = NULL;
		reader_print_story(printer, &story, now, related, related_id);
		count++;
	}
	count += stuck_threads(request, reader, printer, now);
	count += stuck_process(reader, printer, now);
	snprintf(line, sizeof(line), "%d stuck, %llu under way", count, (unsigned long long)under_way);
	reader_print_remark(printer, line);
	remark_requests_elsewhere(reader, printer);
	reader_events_free(events);
	return count ? EXIT_STUCK : EXIT_SUCCESS;
}

int trace_threads(struct trace_request *request, struct reader *reader, struct reader_printer *printer)
{
	uint64_t now = reader_now(reader);

	reader_print_header(printer, NULL);
	for (uint32_t i = 0; i < reader_info(reader)->thread_count; i++) {
		struct reader_thread thread;

		if (reader_thread(reader, i, &thread))
			reader_print_thread(printer, &thread, now);
	}
	return EXIT_SUCCESS;
}
