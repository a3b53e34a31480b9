/* SPDX-License-Identifier: BSD-2-Clause */
/* follow - `fathom trace follow`: prints events of a running engine as they occur. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "cmd/fathom/trace/trace.h"

enum {
	LOOKS_PER_SEC = 50,
	HELD_BACK_MS = 10, /* a thread publishes its events within a turn; after this time all have */
	LOOKS_PER_ALIVE = 10,
};

static volatile sig_atomic_t interrupted;

static void stop_following(int number)
{
	interrupted = 1;
}

static void catch_follow_signals(void)
{
	struct sigaction action = { .sa_handler = stop_following };

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

/* Returns 0, or the errno if the reader of our output has gone. */
static int print_events_until(const struct trace_request *request, struct reader_events *events,
			      struct reader_printer *printer, uint64_t until)
{
	struct reader_event event;

	reader_events_more(events, until);
	while (!interrupted && reader_event_next(events, &event)) {
		if (trace_is_wanted(request, &event))
			reader_print_event(printer, &event);
	}
	return reader_printer_flush(printer);
}

int trace_follow(struct trace_request *request, struct reader *reader, struct reader_printer *printer)
{
	const struct timespec pause = { .tv_nsec = NS_PER_SEC / LOOKS_PER_SEC };
	uint64_t held_back = reader_info(reader)->tick_rate / 1000 * HELD_BACK_MS;
	struct reader_events *events;
	struct reader_counts counts;
	int rc = trace_choose_filters(request, reader), error = 0;
	bool alive = true;

	if (rc)
		return rc;
	if (!reader_is_alive(reader))
		return trace_complain("nothing more comes: the program has ended; `fathom trace` shows what it did", NULL);
	if (reader_events_follow(reader, &events) != 0)
		return trace_complain("out of memory", NULL);
	catch_follow_signals();
	reader_print_header(printer, NULL);
	for (int look = 1; alive && !interrupted && error == 0; look++) {
		error = print_events_until(request, events, printer, clock_ticks() - held_back);
		nanosleep(&pause, NULL);
		if (look % LOOKS_PER_ALIVE == 0)
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

		snprintf(line, sizeof(line), "%llu records came faster than they could be printed, and were overwritten",
			 (unsigned long long)counts.overwritten);
		reader_print_remark(printer, line);
	}
	if (!alive)
		reader_print_remark(printer, "the program has ended");
	reader_print_end(printer, &counts);
	reader_events_free(events);
	return EXIT_SUCCESS;
}
