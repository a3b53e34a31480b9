/* SPDX-License-Identifier: BSD-2-Clause */
/* barrier, internal: the state of a copy. The probes read it. */
#ifndef DATA_STORE_VOLUME_BARRIER_INTERNAL_H
#define DATA_STORE_VOLUME_BARRIER_INTERNAL_H

#include "base/reactor/worker.h"
#include "data/store/bdev/hold.h"
#include "data/store/volume/barrier.h"

enum {
	BATCH_STEPS_MAX = 32,
	REOPENINGS_MAX = 32,			     /* of a member in a batch */
	RUNS_MAX = BATCH_STEPS_MAX + REOPENINGS_MAX, /* all steps of a batch may be of one member */
};

struct member {
	struct barrier *barrier;
	char device[BDEV_NAME_BYTES_MAX];
	int from, to;
	uint64_t sums_bytes; /* to be cloned; of the worker thread once it runs */
	int sums_from, sums_to;
	uint8_t *suspect; /* the regions of the checksums that are suspect at T0; NULL: those that are marked */
	uint64_t suspect_bytes;
	uint64_t bytes, region_bytes, region_count;
	struct bdev_hold *hold; /* NULL: none, or ended */
	bool is_held;
	uint8_t *copied;     /* a bit for each region */
	uint64_t next;	     /* all regions before it are copied */
	uint64_t step_bytes; /* of the next step that no write waits for */
	struct bdev_regions runs[RUNS_MAX];
	uint32_t run_count; /* that are to be opened, or being opened */
};

struct step {
	struct member *member;
	struct bdev_regions run;
	bool is_requested; /* a write waits for it */
	uint64_t took_ns;
};

/* A write waits for these regions. */
struct request {
	struct member *member;
	struct bdev_regions run;
	STAILQ_ENTRY(request) link;
};

STAILQ_HEAD(request_list, request);

/* The object of the probes. */
struct barrier {
	struct trace_object trace;
	enum barrier_state state;
	const struct pool_fs *fs;
	const struct barrier_calls *calls;
	void *ctx;
	uint64_t since_ns, instant_ns; /* since 1970 */
	uint64_t waits_since_ns;       /* clock_monotonic_ns(): since when it waits for what it waits for now */
	uint64_t bytes, bytes_copied, steps_done, step_ns_max;
	uint32_t holds, opening; /* members with a hold; whose regions are being opened */
	bool has_holds;		 /* had any at the start */
	bool is_starting;	 /* a message that begins is on its way */
	bool is_done;		 /* done() was called */
	bool is_inexact;
	int start_error;
	struct fathom_fault start_why;
	struct poller *poller;
	struct request_list requests;
	/* of the worker thread while is_working */
	struct worker_job job;
	bool is_working;
	struct step steps[BATCH_STEPS_MAX];
	uint32_t step_count, steps_run;
	int error; /* of steps[steps_run] */
	uint32_t member_count;
	struct member members[];
};

#endif
