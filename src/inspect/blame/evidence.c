/* SPDX-License-Identifier: BSD-2-Clause */
#include "inspect/blame/evidence.h"

#include <stdlib.h>
#include <string.h>

#include "base/bits.h"

enum {
	JOIN_PER_SEC = 5000
}; /* holds less than 1 / JOIN_PER_SEC of a second apart are one: the reactor did little between */

struct evidence_point evidence_point_find(const struct reader *reader, const char *name, const char *const *args,
					  uint32_t arg_count)
{
	struct evidence_point found = { .point = reader_point_by_name(reader, name) };

	must(arg_count <= ARRAY_COUNT(found.args));
	for (uint32_t i = 0; found.point && i < arg_count; i++) {
		for (uint32_t arg = 0; arg < found.point->arg_count; arg++) {
			if (strcmp(found.point->args[arg].name, args[i]) == 0)
				found.args[i] = &found.point->args[arg];
		}
	}
	return found;
}

uint64_t evidence_value(const struct evidence_point *point, uint32_t index, const uint32_t *slots)
{
	return point->args[index] ? reader_arg_value(point->args[index], slots) : 0;
}

void evidence_init(struct evidence *evidence, const struct reader *reader)
{
	static const char *const slow_args[] = { "ran", "name" }, *const path_args[] = { "rtt_min" };

	*evidence = (struct evidence){ .reader = reader };
	evidence->join_ticks = reader_info(reader)->tick_rate / JOIN_PER_SEC;
	evidence->poller_slow = evidence_point_find(reader, "poller_slow", slow_args, ARRAY_COUNT(slow_args));
	evidence->thread_slow = evidence_point_find(reader, "thread_slow", slow_args, ARRAY_COUNT(slow_args));
	evidence->tcp_path = evidence_point_find(reader, "tcp_path", path_args, ARRAY_COUNT(path_args));
}

void evidence_deinit(struct evidence *evidence)
{
	free(evidence->holds);
	free(evidence->rtts);
}

/* Room for one more row of `row_bytes`; NULL: there are EVIDENCE_ROWS_MAX. */
static void *grow(void *rows, uint32_t count, uint32_t *room, size_t row_bytes)
{
	if (count < *room)
		return rows;
	if (*room == EVIDENCE_ROWS_MAX)
		return NULL;
	*room = *room ? 2 * *room : 256;
	rows = realloc(rows, *room * row_bytes);
	must(rows);
	return rows;
}

static void add_hold(struct evidence *evidence, const struct evidence_point *point, const struct reader_event *event)
{
	uint64_t ran = evidence_value(point, 0, event->slots);
	void *room = grow(evidence->holds, evidence->hold_count, &evidence->hold_room, sizeof(evidence->holds[0]));

	if (!room || ran > event->tick)
		return;
	evidence->holds = room;
	evidence->holds[evidence->hold_count++] = (struct blame_hold){ .from = event->tick - ran,
								       .to = event->tick,
								       .thread = event->thread,
								       .name = (uint32_t)evidence_value(point, 1,
													event->slots) };
}

static void add_rtt(struct evidence *evidence, const struct reader_event *event)
{
	uint32_t rtt_us = (uint32_t)evidence_value(&evidence->tcp_path, 0, event->slots);
	void *room = grow(evidence->rtts, evidence->rtt_count, &evidence->rtt_room, sizeof(evidence->rtts[0]));

	if (!room || rtt_us == 0)
		return;
	evidence->rtts = room;
	evidence->rtts[evidence->rtt_count++] =
		(struct evidence_rtt){ .tick = event->tick, .owner = event->owner, .rtt_us = rtt_us };
}

void evidence_event(struct evidence *evidence, const struct reader_event *event)
{
	if (event->ring != TRACE_RING_RARE || !event->point || event->thread >= READER_THREADS_MAX)
		return;
	if (evidence->rare_from[event->thread] == 0)
		evidence->rare_from[event->thread] = event->tick;
	if (event->point == evidence->poller_slow.point)
		add_hold(evidence, &evidence->poller_slow, event);
	else if (event->point == evidence->thread_slow.point)
		add_hold(evidence, &evidence->thread_slow, event);
	else if (event->point == evidence->tcp_path.point)
		add_rtt(evidence, event);
}

static int compare_holds(const void *left, const void *right)
{
	const struct blame_hold *a = left, *b = right;

	if (a->thread != b->thread)
		return a->thread < b->thread ? -1 : 1;
	return a->from < b->from ? -1 : a->from > b->from;
}

void evidence_finish(struct evidence *evidence)
{
	struct blame_hold *last = NULL;
	uint32_t count = 0;

	if (evidence->hold_count)
		qsort(evidence->holds, evidence->hold_count, sizeof(evidence->holds[0]), compare_holds);
	for (uint32_t i = 0; i < evidence->hold_count; i++) {
		const struct blame_hold hold = evidence->holds[i];

		if (!last || last->thread != hold.thread || hold.from > last->to + evidence->join_ticks) {
			evidence->holds[count] = hold;
			last = &evidence->holds[count++];
			continue;
		}
		/* the name of the longer one, if it is most of both */
		if (hold.to - hold.from > 2 * (last->to - last->from))
			last->name = hold.name;
		else if (last->name != hold.name && last->to - last->from < 2 * (hold.to - hold.from))
			last->name = 0;
		last->to = max_u64(last->to, hold.to);
	}
	evidence->hold_count = count;
}

uint32_t evidence_holds(const struct evidence *evidence, uint32_t thread, uint64_t from, uint64_t to,
			const struct blame_hold **holds_ret)
{
	uint32_t low = 0, high = evidence->hold_count, count = 0;

	/* the holds of a thread do not overlap, so their ends are ordered, too */
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const struct blame_hold *hold = &evidence->holds[middle];

		if (hold->thread < thread || (hold->thread == thread && hold->to <= from))
			low = middle + 1;
		else
			high = middle;
	}
	while (low + count < evidence->hold_count && evidence->holds[low + count].thread == thread &&
	       evidence->holds[low + count].from < to)
		count++;
	*holds_ret = count ? &evidence->holds[low] : NULL;
	return count;
}

uint32_t evidence_rtt_us(const struct evidence *evidence, uint16_t owner, uint64_t tick)
{
	uint32_t rtt_us = 0;

	/* by time: the latest before `tick`, else the first after it */
	for (uint32_t i = 0; i < evidence->rtt_count; i++) {
		const struct evidence_rtt *row = &evidence->rtts[i];

		if (row->owner == owner && (row->tick <= tick || rtt_us == 0))
			rtt_us = row->rtt_us;
	}
	return rtt_us;
}

uint64_t evidence_holds_from(const struct evidence *evidence, uint32_t thread)
{
	struct reader_thread row;

	if (!evidence->poller_slow.point)
		return UINT64_MAX;
	if (thread >= READER_THREADS_MAX || !reader_thread(evidence->reader, thread, &row) ||
	    row.recorded[TRACE_RING_RARE] <= row.entry_count[TRACE_RING_RARE])
		return 0;
	return evidence->rare_from[thread];
}
