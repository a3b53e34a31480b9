/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * blame - of the slow requests in a trace file: how much of their time was the disk, the host, the network, a queue of
 * ours, or our CPU.
 *
 * A request is slow if it took longer than a limit. The file has it whole if it has the time of each of its stages and of
 * its I/O: those are the requests kept as slow or failed, and those still in the rings.
 *
 *   life.c      one request: its stages to causes; pure
 *   collect.c   the file: its slow requests, what held its reactors, what the kernel counted for connections
 *   verdict.c   sums, the main cause and how sure it is; pure
 *
 * Thread: one at a time per reader.
 */
#ifndef INSPECT_BLAME_BLAME_H
#define INSPECT_BLAME_BLAME_H

#include "base/fault.h"
#include "inspect/blame/life.h"
#include "inspect/trace/lives.h"

enum {
	BLAME_DEFAULT_COUNT_MIN = 10, /* without a limit at least this number of requests, if the file has them */
	BLAME_DEVICES_MAX = 16,
	BLAME_NAME_BYTES = 256,
};

struct blame_query {
	const char *volume;	   /* the block device's name, or a namespace id; NULL: all */
	const char *host;	   /* a part of the host's name or address; NULL: all */
	const char *since, *until; /* as in struct reader_filter_spec; NULL: no limit */
	uint64_t slow_ns;	   /* 0: the slowest 1 percent of all requests in the file */
};

/* A slow request. */
struct blame_request {
	const struct reader_exemplar *exemplar; /* valid until blame_destroy() */
	struct blame_split split;
	enum blame_cause cause;				       /* the largest part */
	bool whole;					       /* the file has all its stages and those of its I/O */
	bool is_latest;					       /* the file has no later life of its id */
	char host[BLAME_NAME_BYTES], device[BLAME_NAME_BYTES]; /* "": not known */
	const char *operation;				       /* "read", "write" or "command" */
};

struct blame;

/* Read the file. Pair: blame_destroy(). Errors (explained): those of reader_filter_create(); -ENOMEM. */
MUST_CHECK int blame_create(struct reader *reader, const struct blame_query *query, struct blame **blame_ret,
			    struct fathom_fault *why);
/* Accepts NULL. */
void blame_destroy(struct blame *blame);

/* The slow requests, the slowest first. */
uint32_t blame_request_count(const struct blame *blame);
const struct blame_request *blame_request_at(const struct blame *blame, uint32_t index);

/* What the file can show. */
struct blame_coverage {
	uint64_t slow_ticks;	 /* the limit that was used */
	bool slow_by_count;	 /* none reached the limit of 1 percent: the slowest of the file instead */
	bool is_full;		 /* there are more slow requests than are kept in memory; these are the slowest */
	uint64_t found;		 /* requests of the query in the file, slow or not */
	uint64_t kept_from;	 /* tick of the oldest request kept whole; 0: none is kept */
	uint64_t rings_from;	 /* tick of the oldest event of all I/O rings; 0: no events */
	uint64_t holds_from;	 /* tick from which on all reactors' slow runs are known; 0: none is recorded */
	uint64_t torn;		 /* kept requests that are damaged */
	uint64_t counted;	 /* requests that were this slow since the program's start, by its counts; 0: not known */
	uint64_t send_queue_max; /* ticks: longest sample of the kernel's send buffer since the start; 0: none */
	uint32_t device_count;	 /* devices with requests in the file, for messages */
	char devices[BLAME_DEVICES_MAX][BLAME_NAME_BYTES];
};
const struct blame_coverage *blame_coverage(const struct blame *blame);

/* ---- verdict.c ---- */

enum blame_confidence { BLAME_LOW, BLAME_MEDIUM, BLAME_HIGH };

struct blame_row {
	uint32_t count;		/* requests of which this cause took at least a tenth */
	uint64_t ticks;		/* of all requests */
	uint64_t p50, p99, max; /* of the cause's time in these requests; ticks */
	uint32_t example;	/* index of the request with the most time of this cause; UINT32_MAX: none */
	uint32_t main_count;	/* requests of which this is the largest part */
};

struct blame_verdict {
	uint64_t whole; /* ticks of all slow requests */
	struct blame_row rows[BLAME_CAUSES];
	enum blame_cause cause; /* the largest row */
	uint32_t whole_count;	/* requests that the file has whole */
	enum blame_confidence confidence;
	char reason[192]; /* of the confidence; "" without requests */
};

void blame_verdict(const struct blame_request *const *requests, uint32_t count, const struct blame_coverage *coverage,
		   struct blame_verdict *verdict_ret);

const char *blame_cause_key(enum blame_cause cause);		     /* "disk" */
const char *blame_confidence_word(enum blame_confidence confidence); /* "high" */

#endif
