/* SPDX-License-Identifier: BSD-2-Clause */
/* moment - converts a moment that a user typed into a tick. */
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/text.h"
#include "inspect/trace/filter.h"
#include "inspect/trace/internal.h"

/*
 * Parse "12:30:00.25", optionally with "2026-11-21T" or "2026-11-21 " in front. Default: the day on which the program
 * started.
 */
static bool parse_wall(const char *text, uint64_t start_ns, uint64_t *ns_ret)
{
	time_t start = (time_t)(start_ns / NS_PER_SEC);
	struct tm tm = { 0 };
	uint64_t fraction_ns = 0, digit = NS_PER_SEC / 10;
	bool dated = true;
	const char *end;
	time_t second;

	localtime_r(&start, &tm);
	end = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
	if (!end)
		end = strptime(text, "%Y-%m-%d %H:%M:%S", &tm);
	if (!end) {
		dated = false;
		localtime_r(&start, &tm);
		end = strptime(text, "%H:%M:%S", &tm);
	}
	if (!end)
		return false;
	if (*end == '.') {
		for (end++; isdigit((unsigned char)*end); end++, digit /= 10)
			fraction_ns += (uint64_t)(*end - '0') * digit;
	}
	if (*end)
		return false;
	tm.tm_isdst = -1;
	second = mktime(&tm);
	if (!dated && second < start) {
		/* earlier than the start: the next day is meant */
		tm.tm_mday++;
		tm.tm_isdst = -1;
		second = mktime(&tm);
	}
	if (second < 0)
		return false;
	*ns_ret = (uint64_t)second * NS_PER_SEC + fraction_ns;
	return true;
}

/* The first tick at which the wall clock shows `ns` or later. */
static uint64_t tick_of_wall(const struct reader *reader, uint64_t ns)
{
	uint64_t low = 0, high = UINT64_MAX / 2;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2, there;

		if (reader_wall_ns(reader, middle, &there) != 0 || ((int64_t)there >= 0 && there >= ns))
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* The tick of a time relative to the start or the end of several files. */
static uint64_t tick_of_span(const struct reader *reader, const struct reader_filter_spec *spec, bool before_end,
			     uint64_t span_ns)
{
	return tick_of_wall(reader, before_end ? spec->end_ns - min_u64(spec->end_ns, span_ns) : spec->start_ns + span_ns);
}

int moment_parse(const struct reader *reader, const struct reader_filter_spec *spec, const char *text, uint64_t *tick_ret,
		 struct fathom_fault *why)
{
	uint64_t start_ns, ns, now = reader_now(reader), ticks, span_ns;

	if (text_parse_duration(text[0] == '-' || text[0] == '+' ? text + 1 : text, &span_ns) == 0) {
		ticks = tick_scale_ticks(&reader->scale, span_ns);
		if (spec->start_ns)
			*tick_ret = tick_of_span(reader, spec, text[0] == '-', span_ns);
		else if (text[0] == '-')
			*tick_ret = now - min_u64(now, ticks);
		else
			*tick_ret = reader->info.start_tick + ticks;
		return 0;
	}
	if (reader_wall_ns(reader, reader->info.start_tick, &start_ns) != 0)
		return fault(why, -ENODATA,
			     "this file has no time of day: use a time after the start (5s) or before the end (-5s)");
	if (!parse_wall(text, spec->start_ns ? spec->start_ns : start_ns, &ns))
		return fault(why, -EINVAL,
			     "\"%.60s\" is not a time; use 5s (after the start), -5s (before the end), 12:30:00, "
			     "2026-11-21T12:30:00",
			     text);
	*tick_ret = tick_of_wall(reader, ns);
	return 0;
}
