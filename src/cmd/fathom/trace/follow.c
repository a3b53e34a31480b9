/* SPDX-License-Identifier: BSD-2-Clause */
/* follow - `fathom trace follow`: prints events of a running engine as they occur. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "cmd/fathom/interrupt.h"
#include "cmd/fathom/trace/trace.h"

enum {
	READS_PER_SEC = 50,
	/*
	 * A thread publishes its events at the end of a turn. Younger events are read later: others with an earlier tick
	 * may not be published yet.
	 */
	MIN_AGE_MS = 10,
	READS_PER_ALIVE_CHECK = 10,
};

static void catch_follow_signals(void)
{
	interrupt_catch();
}

/* Returns 0, or negative errno if standard output cannot be written, as after the end of a pipe's reader. */
static int print_events_until(const struct trace_request *request, struct reader_events *events,
			      struct reader_printer *printer, uint64_t until)
{
	struct reader_event event;

	reader_events_more(events, until);
	while (!interrupt_arrived() && reader_event_next(events, &event)) {
		if (trace_is_wanted(request, &event))
			reader_print_event(printer, &event);
	}
	return reader_printer_flush(printer);
}

int trace_follow(struct trace_request *request, struct reader *reader, struct reader_printer *printer)
{
	uint64_t min_age_ticks = reader_info(reader)->tick_rate / 1000 * MIN_AGE_MS;
	struct reader_events *events;
	struct reader_counts counts;
	int rc = trace_choose_filters(request, reader), error = 0;
	bool alive = true;

	if (rc)
		return rc;
	if (!reader_is_alive(reader))
		return trace_complain("the program has ended; `fathom trace` shows its events", NULL);
	if (reader_events_follow(reader, &events) != 0)
		return trace_complain("out of memory", NULL);
	catch_follow_signals();
	reader_print_header(printer, NULL);
	for (int reads = 1; alive && !interrupt_arrived() && error == 0; reads++) {
		error = print_events_until(request, events, printer, clock_ticks() - min_age_ticks);
		interrupt_sleep(clock_monotonic_ns() + NS_PER_SEC / READS_PER_SEC);
		if (reads % READS_PER_ALIVE_CHECK == 0)
			alive = reader_is_alive(reader);
	}
	reader_events_counts(events, &counts);
	/* read the rest, which may exceed one batch */
	for (uint64_t before = UINT64_MAX; !alive && error == 0 && before != counts.events;) {
		before = counts.events;
		error = print_events_until(request, events, printer, UINT64_MAX);
		reader_events_counts(events, &counts);
	}
	if (counts.overwritten && !request->json) {
		char line[128];

		snprintf(line, sizeof(line), "%llu records are lost: they were overwritten before they were read",
			 (unsigned long long)counts.overwritten);
		reader_print_remark(printer, line);
	}
	if (!alive)
		reader_print_remark(printer, "the program has ended");
	reader_print_end(printer, &counts);
	reader_events_free(events);
	return EXIT_SUCCESS;
}
