/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * perf - shared by the files of `fathom perf`.
 *
 *      options.c  the command line
 *      perf.c     connecting, waiting with a progress bar, exit status
 *      worker.c   one thread per queue pair: keeps `depth` I/Os in flight, verifies
 *      cpus.c     avoids CPUs of reactors
 *      report.c   the table and the JSON object
 *
 * Each worker has its own part of the range, so it shares no state about blocks. Workers publish their counts, and read
 * the stop request, under one mutex every few milliseconds.
 */
#ifndef CMD_FATHOM_PERF_PERF_H
#define CMD_FATHOM_PERF_PERF_H

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

/*
 * The first signal ends the load, the second also the verification. LOST: the connection to the controller was lost.
 */
enum perf_stop { PERF_GO_ON, PERF_STOP_LOAD, PERF_STOP_ALL, PERF_LOST };

struct perf_options {
	struct fathom_connect_options connect;
	uint32_t nsid;
	uint32_t read_percent;
	bool random;
	const char *rw; /* as given */
	uint64_t io_bytes;
	uint32_t depth;
	uint32_t queues;
	double time_s;
	double hold_s; /* stay connected afterwards */
	double warmup_s;
	uint64_t count; /* 0: by time */
	uint64_t rate;	/* I/Os a second of all queues together at most; 0: no limit */
	uint64_t seed;
	uint64_t range_offset;
	uint64_t range_bytes; /* 0: to the end */
	bool verify;
	const char *verify_state;
	bool json;
	bool quiet;
	bool interval;
};

/* The counts of a worker; latencies in ticks. */
struct perf_counts {
	uint64_t errors[PERF_KINDS];
	struct histogram latency[PERF_KINDS];
};

/* Published by a worker while it runs. */
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
	uint64_t first_block; /* of its part of the range */
	uint64_t blocks;
	uint64_t seed;
	uint64_t budget;	       /* I/Os; UINT64_MAX: by time */
	struct perf_progress progress; /* perf->mutex */
	/* Valid after the thread was joined. */
	struct perf_counts *counts;
	double seconds;
	uint64_t left_out; /* blocks that were written and not read back at the end */
	bool lost;
};

struct perf {
	struct perf_options options;
	struct fathom_controller *controller;
	struct fathom_namespace_info ns;
	struct verify ledger; /* with options.verify */
	bool ledger_loaded;
	uint32_t lbas_per_io;
	uint64_t blocks; /* number of blocks of io_bytes in the range */
	uint32_t depth;	 /* as allowed by the controller */
	uint32_t cpus;	 /* usable CPUs without a spinning reactor */
	struct perf_worker *workers;
	pthread_mutex_t mutex;
	pthread_cond_t finished;
	enum perf_stop stop;  /* mutex */
	uint64_t findings;    /* mutex; blocks with wrong contents */
	uint64_t error_lines; /* mutex */
};

/*
 * Restrict the calling thread, and threads that it creates, to CPUs on which no reactor spins. Returns the number of
 * such CPUs; 0: none, and the affinity is unchanged. Unless `quiet`, prints on stderr what distorts the results.
 */
uint32_t perf_avoid_reactors(uint32_t queues, bool quiet);

/* The main function of a worker thread; `arg` is its struct perf_worker. */
void *perf_worker_main(void *arg);

/* Print an error line; after the first few, errors are only counted. Thread: any, without the mutex held. */
void perf_complain(struct perf *perf, const char *format, ...) PRINTF_LIKE(2, 3);

/* Print the results. True: no I/O failed, all data read was right, and everything to be verified was read back. */
MUST_CHECK bool perf_report(struct perf *perf);

#endif
