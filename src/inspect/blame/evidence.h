/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * evidence - what the rings say beside the requests: what held each reactor, and the round-trip times of connections.
 *
 *   evidence_init() -> evidence_event() for each event -> evidence_finish() -> evidence_holds(), evidence_rtt_us()
 */
#ifndef INSPECT_BLAME_EVIDENCE_H
#define INSPECT_BLAME_EVIDENCE_H

#include "base/must.h"
#include "inspect/blame/life.h"
#include "inspect/trace/trace_file.h"

enum { EVIDENCE_ROWS_MAX = 1 << 20 };

struct evidence_rtt {
	uint64_t tick;
	uint16_t owner;
	uint32_t rtt_us;
};

/* An argument of a point, found by name. */
struct evidence_point {
	const struct reader_point *point; /* NULL: the file does not have it */
	const struct reader_arg *args[4];
};

struct evidence {
	const struct reader *reader;
	uint64_t join_ticks; /* holds with a shorter gap are one */
	struct evidence_point poller_slow, thread_slow, tcp_path;
	struct blame_hold *holds; /* after evidence_finish(): by thread, then by time */
	struct evidence_rtt *rtts;
	uint32_t hold_count, hold_room, rtt_count, rtt_room;
	uint64_t rare_from[READER_THREADS_MAX]; /* the oldest event of its rare ring; 0: none yet */
};

void evidence_init(struct evidence *evidence, const struct reader *reader);
void evidence_deinit(struct evidence *evidence);
/* Pass all events, in their order. */
void evidence_event(struct evidence *evidence, const struct reader_event *event);
void evidence_finish(struct evidence *evidence);
/* The holds of a thread that overlap [from, to]: the first and their number. */
uint32_t evidence_holds(const struct evidence *evidence, uint32_t thread, uint64_t from, uint64_t to,
			const struct blame_hold **holds_ret);
/* The shortest round trip of a connection as of `tick`; 0: not known. */
uint32_t evidence_rtt_us(const struct evidence *evidence, uint16_t owner, uint64_t tick);
/* The tick from which on all slow runs of `thread` are known: 0: all since its start. UINT64_MAX: none is recorded. */
uint64_t evidence_holds_from(const struct evidence *evidence, uint32_t thread);

/* Find a point and up to four of its arguments. */
struct evidence_point evidence_point_find(const struct reader *reader, const char *point, const char *const *args,
					  uint32_t arg_count);
/* The value of argument `index`; 0: the file does not have it. */
uint64_t evidence_value(const struct evidence_point *point, uint32_t index, const uint32_t *slots);

#endif
