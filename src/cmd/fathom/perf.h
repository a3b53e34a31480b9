/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * perf - what the files of `fathom perf` share.
 *
 *      perf.c          options, connecting, waiting with a progress bar, exit status
 *      perf_worker.c   one thread a queue pair: keeps `depth` I/Os in flight, verifies
 *      perf_cpus.c     which CPUs to stay away from
 *      perf_report.c   the table and the JSON object
 *
 * Each worker has a part of the range of its own, so that what it knows about blocks is its own too. Workers publish
 * their counts, and learn that they shall stop, under one mutex every few milliseconds.
 */
#ifndef CMD_FATHOM_PERF_H
#define CMD_FATHOM_PERF_H

#include <pthread.h>

#include "base/histogram.h"
#include "base/must.h"
#include "fathom/initiator.h"
#include "data/initiator/verify.h"

enum {
	PERF_QUEUES_MAX = 64,
	PERF_ERROR_LINES_MAX = 10,
	PERF_READ = 0,
	PERF_WRITE = 1,
	PERF_KINDS = 2,
};

/* What a signal asks for: the first one to end the load, the second one not to read back either. LOST: no controller. */
enum perf_stop { PERF_GO_ON, PERF_STOP_LOAD, PERF_STOP_ALL, PERF_LOST };

struct perf_options {
	struct fathom_connect_options connect;
	uint32_t nsid;
	uint32_t read_percent;
	bool random;
	const char *rw; /* as it was said */
	uint64_t io_bytes;
	uint32_t depth;
	uint32_t queues;
	double time_s;
	double hold_s; /* stay connected afterwards */
	double warmup_s;
	uint64_t count; /* 0: by time */
	uint64_t seed;
	uint64_t range_offset;
	uint64_t range_bytes; /* 0: to the end */
	bool verify;
	const char *verify_state;
	bool json;
	bool quiet;
	bool interval;
};

/* What a worker counts; latencies in ticks. */
struct perf_counts {
	uint64_t errors[PERF_KINDS];
	struct histogram latency[PERF_KINDS];
};

/* What it tells while it runs. */
struct perf_progress {
	uint64_t done[PERF_KINDS];
	uint64_t checked; /* blocks read back */
	uint64_t check_total;
	bool finished;
};

struct perf;

struct perf_worker {
	struct perf *perf;
	pthread_t thread;
	struct fathom_qpair *qpair;
	uint64_t first_block; /* of its part */
	uint64_t blocks;
	uint64_t seed;
	uint64_t budget;	       /* I/Os; UINT64_MAX: by time */
	struct perf_progress progress; /* perf->mutex */
	/* Valid when it has been joined. */
	struct perf_counts *counts;
	double seconds;
	uint64_t left_out; /* blocks that were written and not read back in the end */
	bool lost;
};

struct perf {
	struct perf_options options;
	struct fathom_controller *controller;
	struct fathom_namespace_info ns;
	struct verify ledger; /* with options.verify */
	bool ledger_loaded;
	uint32_t lbas_per_io;
	uint64_t blocks; /* in the range, of io_bytes */
	uint32_t depth;	 /* what the controller allows */
	uint32_t cpus;	 /* where no reactor spins */
	struct perf_worker *workers;
	pthread_mutex_t mutex;
	pthread_cond_t finished;
	enum perf_stop stop;  /* mutex */
	uint64_t findings;    /* mutex; blocks that are not as they should be */
	uint64_t error_lines; /* mutex */
};

/*
 * Keep the calling thread, and those that it makes, off CPUs on which reactors spin, if there are others that it may use.
 * Returns how many are left, 0: none, and it stays where it is. Not `quiet`: says on stderr what the results suffer from.
 */
uint32_t perf_avoid_reactors(uint32_t queues, bool quiet);

/* A thread's main; `arg` is its struct perf_worker. */
void *perf_worker_main(void *arg);

/* An error line, or only a count of it after the first few. Any thread; not with the mutex held. */
void perf_complain(struct perf *perf, const char *format, ...) PRINTF_LIKE(2, 3);

/* Print the results. True: no I/O failed, nothing was read that was wrong, and all was read back that is to be verified. */
MUST_CHECK bool perf_report(struct perf *perf);

#endif
