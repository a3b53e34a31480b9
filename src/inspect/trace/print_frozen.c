/* SPDX-License-Identifier: BSD-2-Clause */
/* print_frozen - prints why a file was frozen: one line at the top of the header. */
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <string.h>

#include "inspect/trace/print.h"

static const char *const why_names[] = {
	[TRACE_FROZEN_TRIGGER] = "trigger", [TRACE_FROZEN_SIGNAL] = "signal", [TRACE_FROZEN_MUST] = "must",
	[TRACE_FROZEN_ASKED] = "asked",	    [TRACE_FROZEN_ENDED] = "ended",
};

/* "SIGSEGV" */
static void signal_name(const struct reader_frozen *frozen, char *name, size_t bytes)
{
	const char *abbreviation = sigabbrev_np((int)frozen->signal);

	if (abbreviation)
		snprintf(name, bytes, "SIG%s", abbreviation);
	else
		snprintf(name, bytes, "signal %u", frozen->signal);
}

/* si_addr is valid only for these signals, and only if the kernel raised them. */
static bool has_address(const struct reader_frozen *frozen)
{
	return frozen->code > 0 && (frozen->signal == SIGSEGV || frozen->signal == SIGBUS || frozen->signal == SIGFPE ||
				    frozen->signal == SIGILL);
}

static void add_moment(struct reader_printer *printer, const struct reader_frozen *frozen)
{
	ADD_LITERAL(printer, ", at ");
	add_time(printer, frozen->tick, 0);
	ADD_LITERAL(printer, " us, ");
	add_wall_of_tick(printer, frozen->tick);
}

static void add_signal(struct reader_printer *printer, const struct reader_frozen *frozen)
{
	char name[32];

	signal_name(frozen, name, sizeof(name));
	add_format(printer, "process %d died of %s", printer->reader->info.pid, name);
	if (has_address(frozen))
		add_format(printer, " at address 0x%" PRIx64, frozen->address);
	else if (frozen->code <= 0)
		ADD_LITERAL(printer, ", sent by a process");
	add_format(printer, ", in thread %d, at instruction 0x%" PRIx64, frozen->tid, frozen->instruction);
	if (frozen->place[0])
		add_format(printer, " (%s+0x%" PRIx64 ")", frozen->place, frozen->offset);
}

static void add_reason(struct reader_printer *printer, const struct reader_frozen *frozen)
{
	switch (frozen->why) {
	case TRACE_FROZEN_TRIGGER:
		add_format(printer, "frozen by an event that matched: %s", frozen->text);
		break;
	case TRACE_FROZEN_SIGNAL:
		add_signal(printer, frozen);
		break;
	case TRACE_FROZEN_MUST:
		add_format(printer, "process %d aborted in thread %d: must(%s) failed at %s", printer->reader->info.pid,
			   frozen->tid, frozen->text, frozen->place);
		break;
	case TRACE_FROZEN_ASKED:
		add_format(printer, "frozen on request%s%s", frozen->text[0] ? ": " : "", frozen->text);
		break;
	case TRACE_FROZEN_ENDED:
		ADD_LITERAL(printer, "frozen after the process had ended");
		break;
	}
	add_moment(printer, frozen);
	if (frozen->from_tick) {
		ADD_LITERAL(printer, "; contains only records from ");
		add_duration(printer, ns_between(printer, frozen->from_tick, frozen->tick));
		ADD_LITERAL(printer, " before to ");
		add_duration(printer, ns_between(printer, frozen->tick, frozen->to_tick));
		ADD_LITERAL(printer, " after it");
	}
}

void print_frozen_text(struct reader_printer *printer)
{
	const struct reader_frozen *frozen = printer->reader->info.frozen;
	char report[PATH_MAX];

	if (!frozen)
		return;
	ADD_LITERAL(printer, "# ");
	add_reason(printer, frozen);
	end_line(printer);
	if (reader_crash_report(printer->reader, report, sizeof(report))) {
		add_format(printer, "# the report of the crash: %s", report);
		end_line(printer);
	}
}

static void add_frozen_text(struct reader_printer *printer, const char *key, const char *text)
{
	add_format(printer, ",\"%s\":\"", key);
	add_foreign(printer, text, strlen(text));
	add_char(printer, '"');
}

void add_frozen_json(struct reader_printer *printer)
{
	const struct reader_frozen *frozen = printer->reader->info.frozen;
	char name[32], report[PATH_MAX];

	if (!frozen)
		return;
	add_format(printer, ",\"frozen\":{\"why\":\"%s\",\"tick\":%" PRIu64 ",\"time\":\"", why_names[frozen->why],
		   frozen->tick);
	add_wall_of_tick(printer, frozen->tick);
	add_char(printer, '"');
	if (frozen->text[0])
		add_frozen_text(printer, "text", frozen->text);
	if (frozen->from_tick)
		add_format(printer, ",\"from_tick\":%" PRIu64 ",\"to_tick\":%" PRIu64, frozen->from_tick, frozen->to_tick);
	if (frozen->tid)
		add_format(printer, ",\"tid\":%d", frozen->tid);
	if (frozen->why == TRACE_FROZEN_SIGNAL) {
		signal_name(frozen, name, sizeof(name));
		add_format(printer,
			   ",\"signal\":\"%s\",\"code\":%d,\"address\":\"0x%" PRIx64 "\",\"instruction\":\"0x%" PRIx64
			   "\",\"offset\":\"0x%" PRIx64 "\"",
			   name, frozen->code, frozen->address, frozen->instruction, frozen->offset);
	}
	if (frozen->place[0])
		add_frozen_text(printer, "place", frozen->place);
	if (reader_crash_report(printer->reader, report, sizeof(report)))
		add_frozen_text(printer, "report", report);
	add_char(printer, '}');
}
