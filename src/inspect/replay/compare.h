/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * compare - the latencies of a recording beside those of its replay.
 *
 * Only operations that ended without an error in both count, so both sides have the same operations. Each thread of a
 * replay fills a comparison of its own; comparison_merge() adds them up.
 *
 * The recording's latencies are those of the engine, from the command's capsule to the end of its response; the replay's
 * are those of the host. So a ratio is computed without the round trip, which is measured before the replay.
 *
 * Of a recording that took longer, the comparison says whether the difference is in its block device. A recording has the
 * time of each operation at the device; the replay has only the whole. But the time outside the device can explain at most
 * itself: what the difference exceeds it by is the device's for sure, whatever the target is. And the reverse.
 */
#ifndef INSPECT_REPLAY_COMPARE_H
#define INSPECT_REPLAY_COMPARE_H

#include "base/histogram.h"
#include "base/must.h"
#include "inspect/replay/operation.h"

enum {
	COMPARISON_WORST_MAX = 10,
	COMPARISON_STALL_NS = 1000000, /* operations that end within this time of each other were delayed by one stall */
};

/* Latencies in ns. */
struct comparison_pair {
	struct histogram recorded, replayed;
	/* sums of the operations whose time at the device is in the recording */
	uint64_t known_count, known_device_ns, known_recorded_ns, known_replayed_ns;
};

enum comparison_where {
	COMPARISON_NOT_KNOWN, /* the recording does not have the time at the device */
	COMPARISON_EQUAL,
	COMPARISON_SLOWER,    /* the replay took longer: the recording does not say where */
	COMPARISON_DEVICE,    /* more than half of the difference is the device of the recording */
	COMPARISON_ELSEWHERE, /* more than half of it is not */
	COMPARISON_UNCLEAR,
};

/* Where the recording lost the time that the replay did not need. Averages in ns. */
struct comparison_difference {
	enum comparison_where where;
	double least; /* of COMPARISON_DEVICE and _ELSEWHERE: the part of the difference that is there for sure */
	uint64_t recorded_ns, device_ns, replayed_ns; /* replayed: without the round trip */
};

/* An operation that took much longer than in the recording. */
struct comparison_worst {
	struct replay_operation operation;
	uint64_t number; /* of the operation in the recording */
	uint64_t replayed_ns;
	uint64_t end_ns; /* when it ended in the replay */
	uint64_t others; /* operations that took less longer, and that the same stall delayed */
};

struct comparison {
	struct comparison_pair kinds[REPLAY_KINDS];
	uint32_t queue_count;
	struct comparison_pair **queues; /* owned; NULL until an operation of the queue counts */
	uint64_t failed_in_recording, failed_in_replay, failed_in_both;
	uint64_t unknown; /* replayed, and the recording has no latency */
	uint32_t worst_count;
	struct comparison_worst worst[COMPARISON_WORST_MAX]; /* the largest difference first, after comparison_sort() */
};

/* NULL: out of memory. Pair: comparison_destroy(). */
struct comparison *comparison_create(uint32_t queue_count);
/* Accepts NULL. */
void comparison_destroy(struct comparison *comparison);

/* What became of an operation of the recording. */
struct comparison_result {
	const struct replay_operation *operation; /* borrowed */
	uint64_t number;			  /* of the operation in the recording */
	uint64_t replayed_ns, end_ns;		  /* how long it took; when it ended in the replay */
	bool failed;
};
/* Errors: -ENOMEM. */
MUST_CHECK int comparison_add(struct comparison *comparison, const struct comparison_result *result);
/* Both have the same number of queues. Errors: -ENOMEM. */
MUST_CHECK int comparison_merge(struct comparison *to, const struct comparison *from);
void comparison_sort(struct comparison *comparison);

/*
 * How many times as long the replay took at a percentile (of 10,000), without the round trip. 0: one side has no latency.
 */
double comparison_ratio(const struct comparison_pair *pair, uint32_t per_10000, uint64_t round_trip_ns);

struct comparison_difference comparison_find_difference(const struct comparison_pair *pair, uint64_t round_trip_ns);
/* "device", "elsewhere", "unclear"; NULL: it does not say. */
const char *comparison_where_key(enum comparison_where where);

enum { COMPARISON_SENTENCE_BYTES = 256 };
/*
 * "reads took 1.9 times as long as in the recording: p99 812 us, was 430 us" into `text`, which is returned. Without the
 * round trip.
 */
const char *comparison_sentence(const struct comparison *comparison, unsigned int kind, uint64_t round_trip_ns,
				char text[COMPARISON_SENTENCE_BYTES]);
/* "at least 98 % of the difference is the device of the recording: ..." into `text`.
 * Returns `text`; NULL: the recording does not say. */
const char *comparison_difference_sentence(const struct comparison *comparison, unsigned int kind, uint64_t round_trip_ns,
					   char text[COMPARISON_SENTENCE_BYTES]);

#endif
