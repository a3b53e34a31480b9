/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * log_limit - limits the rate of one kind of log line, and counts the lines it suppresses.
 *
 * A token bucket: `burst` lines at once, then one per `interval_ns`. The next line that is admitted carries the number of
 * lines suppressed before it; log_limit_flush() reports that number if no further line comes. The time is an input: the
 * limiter does no I/O and reads no clock. Use one limiter per kind of line, and one per object if one object must not
 * suppress another's line.
 *
 *	static struct log_limit limit = LOG_LIMIT(5, NS_PER_SEC);
 *	char more[LOG_LIMIT_TEXT_BYTES];
 *	uint64_t suppressed;
 *
 *	if (log_limit_admit(&limit, clock_now_ns, &suppressed))
 *		log_warning("%s: bad request%s", peer, log_limit_text(more, suppressed));
 *
 * Thread: one at a time; the owner of the structure serializes calls.
 */
#ifndef BASE_LOG_LIMIT_H
#define BASE_LOG_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/must.h"

enum { LOG_LIMIT_TEXT_BYTES = 64 };

struct log_limit {
	uint32_t burst;	      /* lines at once, at least 1 */
	uint64_t interval_ns; /* time until one more line is admitted, at least 1 */
	/* private */
	bool started; /* false: no line yet, so the bucket is full */
	uint32_t tokens;
	uint64_t refilled_ns; /* time of the last refill */
	uint64_t suppressed;  /* lines since the last one admitted */
};

/* Initial value. */
#define LOG_LIMIT(burst_lines, interval)                                                                                   \
	{                                                                                                                  \
		.burst = (burst_lines), .interval_ns = (interval)                                                          \
	}

/*
 * May a line be printed at `now_ns`? True: print it; *suppressed_ret (untouched if false) is the number of lines
 * suppressed since the last one admitted. False: the line is counted. A clock that runs backwards adds no token.
 */
bool log_limit_admit(struct log_limit *limit, uint64_t now_ns, uint64_t *suppressed_ret);

/*
 * For a poller: true if lines were suppressed and a line may be printed at `now_ns`; *suppressed_ret is their number, and
 * the count is reset to 0.
 */
bool log_limit_flush(struct log_limit *limit, uint64_t now_ns, uint64_t *suppressed_ret);

/* "" for 0, else " (and 36899 more that were not logged)". Returns `to`. */
const char *log_limit_text(char to[static LOG_LIMIT_TEXT_BYTES], uint64_t suppressed);

#endif
