/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * replay - shared by the files of `fathom replay`.
 *
 *      options.c   the command lines of the replay, of extract and of show
 *      replay.c    the command: a file, a target, the replay, the exit status
 *      extract.c   `extract` and `show`
 *      incident.c  files: incidents, and traces that become one
 *      target.c    where each queue and device of the recording goes
 *      worker.c    a thread that starts operations at their times
 *      command.c   one operation as an NVMe command
 *      report.c    the comparison as text and as JSON
 *
 * A trace is first written as an incident to a file without a name, so that a replay always reads an incident, block by
 * block. Each worker reads it by itself and starts the operations of its own queues, so workers share nothing but the
 * request to stop and their progress, under one mutex.
 */
#ifndef CMD_FATHOM_REPLAY_REPLAY_H
#define CMD_FATHOM_REPLAY_REPLAY_H

#include <pthread.h>

#include "base/must.h"
#include "cmd/fathom/command.h"
#include "fathom/initiator.h"
#include "inspect/replay/collect.h"
#include "inspect/replay/compare.h"
#include "inspect/replay/incident.h"
#include "inspect/replay/schedule.h"

enum {
	REPLAY_MAPS_MAX = 64,
	REPLAY_CONNECTIONS_MAX = 256, /* queues that are replayed at the same time */
	REPLAY_WORKERS_MAX = 16,
	REPLAY_ERROR_LINES_MAX = 10,
	REPLAY_TRANSFER_BYTES_MAX = 4 << 20, /* of an operation, if the controller has no limit */
	EXIT_FAILED = 1,		     /* an operation failed or was not done */
	EXIT_SLOWER = 3,
};

/* ---- options ---- */

/* --map OLD=NEW */
struct replay_map {
	char device[REPLAY_NAME_BYTES]; /* number or name */
	uint32_t nsid;
};

/* Which operations of a file. Texts are borrowed from argv. */
struct replay_choice {
	const char *owner, *from, *to;
	const char *device;
};

/* The files of one recording, or one incident. Borrowed from argv. */
struct replay_files {
	char *const *paths;
	uint32_t count; /* 1 to REPLAY_FILES_MAX */
};

struct replay_options {
	struct replay_choice choice;
	struct replay_files files;
	const char *output;
	const char *against;
	struct fathom_connect_options connect;
	char address[256], service[32]; /* of --against */
	uint32_t nsid;			/* 0: as mapped or recorded */
	struct replay_map maps[REPLAY_MAPS_MAX];
	uint32_t map_count;
	double speed;	/* 0: max */
	uint32_t depth; /* 0: as recorded */
	bool keep_gaps, write, wrap;
	bool threshold_given;
	double threshold; /* 0.1: 10 % */
	bool json, quiet, names, force;
};

extern const struct option_table replay_extract_table, replay_show_table;

/* OPTIONS_RUN, or the exit status. */
MUST_CHECK int replay_parse_options(const struct option_table *table, int argc, char **argv,
				    struct replay_options *options_ret);
int replay_extract(int argc, char **argv);
int replay_show(int argc, char **argv);
/* Print "fathom replay: TEXT". Returns EXIT_USAGE. */
int replay_complain(const char *text);

/* ---- incident.c ---- */

struct incident_file {
	int fd; /* owned; -1: closed */
	struct incident_header header;
	struct replay_summary summary;
	bool is_trace; /* it was made from a trace for this run */
};

/*
 * Open an incident, or make one of a trace. `choice` selects operations of a trace; those of an incident are
 * selected by incident_stream_next(). `names`: keep the names of hosts and devices of a trace. Pair: incident_close().
 * Errors (explained): of files; -EBADMSG; -ENODATA.
 */
MUST_CHECK int incident_open(const struct replay_files *files, const struct replay_choice *choice, bool names,
			     struct incident_file *file_ret, struct fathom_fault *why);
void incident_close(struct incident_file *file);
/* Write the trace of the options as an incident. Errors (explained): of files; as incident_open(). */
MUST_CHECK int incident_write(const struct replay_options *options, struct replay_summary *summary_ret,
			      struct fathom_fault *why);

/* Reads the operations of a file, which is lent. Each reader has its own; zero it, then set `file` and `selection`. */
struct incident_stream {
	const struct incident_file *file;
	const struct incident_selection *selection;
	uint64_t offset, number; /* of the next block; of the next operation */
	struct incident_decoder decoder;
	bool has_block;
	uint8_t block[INCIDENT_BLOCK_BYTES_MAX];
};

/* What --owner, --from, --to and --device mean in this file. */
struct incident_selection {
	uint64_t from_ns, to_ns;
	bool queues[REPLAY_QUEUES_MAX], devices[REPLAY_DEVICES_MAX];
};

/* Errors (explained): -EINVAL, -ENOENT: nothing is selected. */
MUST_CHECK int incident_select(const struct incident_file *file, const struct replay_choice *choice,
			       struct incident_selection *selection_ret, struct fathom_fault *why);
/*
 * 1: the next selected operation, with the number that it has in the file; its start counts from `from_ns`. 0: the end.
 * Errors (explained): of files; -EBADMSG.
 */
MUST_CHECK int incident_stream_next(struct incident_stream *stream, struct replay_operation *operation_ret,
				    uint64_t *number_ret, struct fathom_fault *why);

/* ---- target.c ---- */

/* Where a device of the recording goes. */
struct replay_place {
	bool used;
	uint32_t source_block_bytes; /* of the recording */
	struct fathom_namespace_info ns;
};

/* Where a queue goes. Several queues share a queue pair if the target has fewer. */
struct replay_route {
	bool used;
	uint32_t qpair; /* index */
	uint32_t depth;
	uint32_t worker;
};

struct replay_target {
	struct fathom_controller **controllers; /* one for each host */
	uint32_t controller_count;
	struct fathom_qpair *qpairs[REPLAY_CONNECTIONS_MAX];
	uint32_t qpair_count;
	uint32_t queues; /* of the recording that are used */
	struct replay_route routes[REPLAY_QUEUES_MAX];
	struct replay_place places[REPLAY_DEVICES_MAX];
	uint64_t transfer_bytes_max;
	uint64_t round_trip_ns; /* of a command without data and without a device; the median */
};

/* Connect, find the namespaces, and create the queue pairs. Pair: replay_target_close(). Errors (explained). */
MUST_CHECK int replay_target_open(struct replay_target *target, const struct replay_options *options,
				  const struct incident_file *file, const struct incident_selection *selection,
				  struct fathom_fault *why);
void replay_target_close(struct replay_target *target);

/* ---- worker.c ---- */

/* Operations that were not sent, and why. */
struct replay_omitted {
	uint64_t destructive; /* without --write */
	uint64_t too_large;
	uint64_t not_reached; /* the replay ended before */
};

struct replay_progress {
	uint64_t done, position_ns; /* operations that ended; how far in the recording */
	bool finished;
};

struct replay;

struct replay_worker {
	struct replay *replay;
	uint32_t index;
	pthread_t thread;
	struct replay_progress progress; /* replay->mutex */
	/* valid after the thread was joined */
	struct comparison *comparison;
	struct histogram lateness;  /* ns; when an operation was sent after its time */
	uint64_t lateness_for_room; /* operations that were late because their queue was full */
	uint64_t started, ended, failed, given_up;
	uint64_t widened, wrapped, as_reads;
	struct replay_omitted omitted;
	uint64_t seconds_ns;
	int error;
	char error_text[FATHOM_FAULT_BYTES];
};

enum replay_stop { REPLAY_GO_ON, REPLAY_STOP, REPLAY_LOST };

struct replay {
	struct replay_options options;
	struct incident_file file;
	struct incident_selection selection;
	struct replay_target target;
	uint32_t worker_count;
	struct replay_worker *workers;
	uint64_t origin_ns; /* clock_monotonic_ns() at the beginning */
	pthread_mutex_t mutex;
	pthread_cond_t finished;
	enum replay_stop stop; /* mutex */
	uint64_t error_lines;  /* mutex */
};

void *replay_worker_main(void *arg);
/* Print an error line; after the first few, errors are only counted. Thread: any, without the mutex held. */
void replay_note_error(struct replay *replay, const char *format, ...) PRINTF_LIKE(2, 3);

/* ---- command.c ---- */

/* An operation in flight. */
struct replay_flight {
	struct scheduled item;
	uint64_t start_ns;
	uint64_t lba; /* at the target */
	uint32_t blocks;
	uint8_t *data; /* of a write; owned */
	struct fathom_dsm_range range;
	struct iovec iov;
	void *ctx; /* for the callback of the worker */
	struct replay_flight *next_free;
};

/*
 * Find where an operation goes at the target; `*widened` if it is not on whole blocks there, `*wrapped` if it is beyond the
 * end. False: it is too large.
 */
MUST_CHECK bool replay_place_operation(const struct replay_target *target, const struct replay_operation *operation,
				       struct replay_flight *flight, bool *widened, bool *wrapped);
/*
 * Send it. `scratch` gets the data of reads. Errors: of the initiator; -ENOMEM.
 */
MUST_CHECK int replay_send(struct replay_flight *flight, struct fathom_qpair *qpair, const struct replay_place *place,
			   void *scratch, fathom_done_fn done);

enum { REPLAY_PATTERN_BYTES = 64 };
/* Fill blocks with lines that name the operation and the block. */
void replay_fill_pattern(uint8_t *data, uint64_t number, uint64_t lba, uint32_t blocks, uint32_t block_bytes);

/* ---- report.c ---- */

/* Print the results. Returns the exit status. `interrupted`: a signal ended the replay. */
int replay_report(struct replay *replay, bool interrupted);

#endif
