/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * io - `fathom trace io ID`: all events of one request, from the socket to the disk and back.
 *
 * The id of an I/O stands for its request, and the id of a part for the I/O that was split. Of that request the latest
 * life is printed, or all: lives in the rings with all their events, and lives kept as exemplars with their kept records.
 * `r435.17` is the life 17 of request r435: ids are used again and again, and metrics name the life that they mean.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cmd/fathom/trace/trace.h"
#include "inspect/trace/slowest.h"

enum { LEVELS_MAX = 4 }; /* from a part to its I/O, to its request */

/* The object that the command line names, or the request that it belongs to. */
struct subject {
	const struct reader_object *object;
	uint32_t id;
	uint64_t tick; /* of the I/O's latest event, if found by its id: the request serves other I/Os afterwards. 0: any */
	bool has_life; /* only the life `life`: one that was kept, or is in progress */
	uint32_t life;
};

/* A life to print. */
struct printed_life {
	const struct reader_exemplar *exemplar; /* NULL: in progress; `story` has it */
	struct reader_story story;
	uint64_t begin, end;
	uint16_t owner;
	uint64_t events; /* number of its events in the rings */
};

static bool is_subject(const void *ctx, const struct reader_exemplar *exemplar)
{
	const struct subject *subject = ctx;

	if (exemplar->stories[0].object != subject->object || exemplar->stories[0].id != subject->id)
		return false;
	if (subject->has_life && (!(exemplar->slow || exemplar->failed) || exemplar->stories[0].life != subject->life))
		return false;
	return subject->tick == 0 ||
	       (exemplar->stories[0].begin_tick <= subject->tick && subject->tick <= exemplar->end_ticks[0]);
}

/* The parent of `subject`, from the latest event that names one. False: none does. */
static bool find_parent_in_rings(struct reader *reader, struct subject subject, struct subject *parent)
{
	struct reader_events *events;
	struct reader_event event;
	bool found = false;

	if (reader_events(reader, &events) != 0)
		return false;
	while (reader_event_next(events, &event)) {
		const struct reader_point *point = event.point;

		if (!point || point->object != subject.object || event.object_id != subject.id)
			continue;
		for (uint32_t i = 0; i < point->arg_count; i++) {
			struct subject named = { .tick = event.tick };

			if (reader_arg_object(reader, &point->args[i], event.slots, &named.object, &named.id) &&
			    named.object->machine && named.object->story_arg_count > 0) {
				*parent = named;
				found = true;
			}
		}
	}
	reader_events_free(events);
	return found;
}

static bool find_parent_in_exemplars(const struct reader *reader, struct subject subject, struct subject *parent)
{
	struct reader_exemplar_walk walk = { 0 };
	struct reader_exemplar exemplar;
	uint64_t latest = 0;

	while (reader_exemplar_next(reader, &walk, &exemplar)) {
		const struct reader_story *io = &exemplar.stories[1];

		if (exemplar.story_count < 2 || io->object != subject.object || io->id != subject.id ||
		    exemplar.end_ticks[0] < latest)
			continue;
		latest = exemplar.end_ticks[0];
		*parent = (struct subject){ .object = exemplar.stories[0].object,
					    .id = exemplar.stories[0].id,
					    .tick = exemplar.end_ticks[0] };
	}
	return latest != 0;
}

static void find_request_of_part(struct reader *reader, struct subject *subject)
{
	for (int level = 0; level < LEVELS_MAX; level++) {
		struct subject parent;

		if (!find_parent_in_rings(reader, *subject, &parent) &&
		    !find_parent_in_exemplars(reader, *subject, &parent))
			return;
		*subject = parent;
	}
}

/* ---- the lives ---- */

static int compare_begins(const void *left, const void *right)
{
	const struct printed_life *a = left, *b = right;

	return a->begin < b->begin ? -1 : a->begin > b->begin;
}

/* Select the ended lives, the latest or all, and the one in progress; sorted by time. */
static uint32_t choose_lives(struct reader *reader, const struct reader_slowest *lives, struct subject subject, bool all,
			     struct printed_life *rows)
{
	uint32_t count = 0, ended = reader_slowest_count(lives);
	struct reader_walk walk = { 0 };
	struct reader_story story;

	while (reader_story_next(reader, &walk, &story)) {
		if (story.object == subject.object && story.id == subject.id && count == 0 &&
		    (!subject.has_life || story.life == subject.life) &&
		    (subject.tick == 0 || story.begin_tick <= subject.tick))
			rows[count++] = (struct printed_life){
				.story = story, .begin = story.begin_tick, .end = UINT64_MAX, .owner = story.owner
			};
	}
	for (uint32_t i = 0; i < ended && (all || count == 0); i++) {
		const struct reader_exemplar *exemplar = reader_slowest_at(lives, i);

		rows[count++] = (struct printed_life){ .exemplar = exemplar,
						       .begin = exemplar->stories[0].begin_tick,
						       .end = exemplar->end_ticks[0],
						       .owner = exemplar->stories[0].owner };
	}
	qsort(rows, count, sizeof(rows[0]), compare_begins);
	return count;
}

/* Does the event belong to the request or its children, or to its connection at that time? */
static bool event_is_of_life(struct reader_filter *family, const struct printed_life *life,
			     const struct reader_event *event)
{
	const struct reader_object *object = event->point ? event->point->object : NULL;

	if (event->tick < life->begin)
		return false;
	if (reader_filter_event(family, event))
		return true;
	return life->owner && event->owner == life->owner && object && object->story_arg_count == 0;
}

/* The life at `tick`, or the next. */
static struct printed_life *find_life_at(struct printed_life *rows, uint32_t count, uint64_t tick)
{
	for (uint32_t i = 0; i < count; i++) {
		if (tick <= rows[i].end)
			return &rows[i];
	}
	return NULL;
}

static void print_life(struct reader *reader, struct reader_printer *printer, const struct printed_life *life,
		       uint32_t number)
{
	if (life->exemplar)
		reader_print_exemplars(printer, number, &life->exemplar, 1, life->events == 0);
	else
		reader_print_story(printer, &life->story, reader_now(reader), life->story.parent, life->story.parent_id);
}

/* Read all events once: count those of each life or, with a printer, print them below it. */
static int count_or_print_events(struct reader *reader, struct reader_printer *printer, struct printed_life *rows,
				 uint32_t count, const char *name)
{
	const struct reader_filter_spec spec = { .object = name };
	struct reader_filter *family;
	struct reader_events *events;
	struct reader_event event;
	struct fathom_fault why = { 0 };
	uint32_t printed = 0;

	if (reader_filter_create(reader, &spec, &family, &why) != 0)
		return trace_complain(why.text, NULL);
	if (reader_events(reader, &events) != 0) {
		reader_filter_destroy(family);
		return trace_complain("out of memory", NULL);
	}
	while (reader_event_next(events, &event)) {
		struct printed_life *life = find_life_at(rows, count, event.tick);
		bool about = life && event_is_of_life(family, life, &event);

		/* the filter must see all events, also those not shown */
		if (!life || event.tick < life->begin)
			(void)reader_filter_event(family, &event);
		if (!about)
			continue;
		if (!printer) {
			life->events++;
			continue;
		}
		for (; printed <= (uint32_t)(life - rows); printed++)
			print_life(reader, printer, &rows[printed], printed + 1);
		reader_print_event(printer, &event);
	}
	for (; printer && printed < count; printed++)
		print_life(reader, printer, &rows[printed], printed + 1);
	reader_events_free(events);
	reader_filter_destroy(family);
	return EXIT_SUCCESS;
}

static int print_request_lives(struct trace_request *request, struct reader *reader, struct reader_printer *printer,
			       struct reader_slowest *lives, struct subject subject)
{
	struct printed_life *rows = calloc(reader_slowest_count(lives) + 1, sizeof(*rows));
	uint32_t count;
	char name[64];
	int status;

	if (!rows)
		return trace_complain("out of memory", NULL);
	snprintf(name, sizeof(name), "%s%u", subject.object->prefix, subject.id);
	count = choose_lives(reader, lives, subject, request->all, rows);
	if (count == 0) {
		free(rows);
		if (subject.has_life) {
			snprintf(name, sizeof(name), "%s%u.%u", subject.object->prefix, subject.id, subject.life);
			return trace_complain("the file has not kept the life", name);
		}
		return trace_complain("the file has no whole life of", name);
	}
	status = count_or_print_events(reader, NULL, rows, count, name);
	if (status == EXIT_SUCCESS)
		status = count_or_print_events(reader, printer, rows, count, name);
	free(rows);
	return status;
}

/* "r435" or, with the number of a life, "r435.17". */
static int parse_subject(const struct reader *reader, const char *text, struct subject *subject_ret,
			 struct fathom_fault *why)
{
	const char *dot = strchr(text, '.');
	char name[64];
	uint64_t life;

	*subject_ret = (struct subject){ .has_life = dot != NULL };
	if (!dot)
		return reader_object_parse(reader, text, &subject_ret->object, &subject_ret->id, why);
	if ((size_t)(dot - text) >= sizeof(name) || text_parse_u64(dot + 1, 10, UINT32_MAX, &life) != 0)
		return fault(why, -EINVAL, "\"%.64s\" is not the id of an object (r12) with the number of a life (r12.3)",
			     text);
	snprintf(name, sizeof(name), "%.*s", (int)(dot - text), text);
	subject_ret->life = (uint32_t)life;
	return reader_object_parse(reader, name, &subject_ret->object, &subject_ret->id, why);
}

int trace_io(struct trace_request *request, struct reader *reader, struct reader_printer *printer)
{
	struct subject subject;
	struct reader_slowest_want want = { .count_max = request->all ? SLOWEST_MAX : 1,
					    .order = READER_NEWEST_FIRST,
					    .accepts = is_subject,
					    .ctx = &subject };
	struct reader_slowest *lives;
	struct reader_events *events;
	struct reader_counts counts;
	struct reader_event event;
	struct fathom_fault why = { 0 };
	int status;

	if (request->arg_count == 0)
		return trace_complain("io needs the id of an object, such as r12, which other commands print", NULL);
	if (parse_subject(reader, request->args[0], &subject, &why) != 0)
		return trace_complain(why.text, NULL);
	if (!subject.has_life)
		find_request_of_part(reader, &subject);
	if (request->all)
		subject.tick = 0;
	if (reader_events(reader, &events) != 0 || reader_slowest_create(reader, &want, &lives) != 0)
		return trace_complain("out of memory", NULL);
	reader_events_counts(events, &counts);
	reader_print_header(printer, &counts);
	while (reader_event_next(events, &event))
		reader_slowest_event(lives, &event);
	reader_events_free(events);
	reader_slowest_finish(lives);
	/* a second pass adds arguments to the lives of the rings: they are in the events */
	if (reader_events(reader, &events) == 0) {
		while (reader_event_next(events, &event))
			reader_slowest_add_record(lives, &event);
		reader_events_free(events);
	}
	status = print_request_lives(request, reader, printer, lives, subject);
	reader_slowest_destroy(lives);
	return status;
}
