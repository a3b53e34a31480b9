/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * collection, internal.
 *
 *	collection.c	the method: begins a collection, returns its pieces
 *	contents.c	what belongs in it
 *	archive.c	the tar file and its compression; reads files	log_window.c	selects lines by time
 *	engine_answers.c  answers of running engines			journal.c	the server's log without a log file
 */
#ifndef CONTROL_SERVER_COLLECTION_INTERNAL_H
#define CONTROL_SERVER_COLLECTION_INTERNAL_H

#include <stdio.h>

#include "control/server/collection/collection.h"
#include "control/server/collection/log_window.h"
#include "base/reactor/worker.h"

enum {
	COLLECTION_NAME_BYTES = 128,
	COLLECTION_ID_BYTES = 32,
	COLLECTION_FOLDER_BYTES = 4096,
	COLLECTION_WARNING_BYTES = 1024,
};

struct collection {
	struct worker_job job;
	struct server *server;
	struct grpc_call *call; /* waits for the first piece */
	char id[COLLECTION_ID_BYTES], name[COLLECTION_NAME_BYTES];
	struct log_window window;
	uint64_t from_s, until_s;		   /* limits of `window` */
	bool logs_alone, control_log, engine_logs; /* all false: everything */
	bool stop_on_error;
	char extra_folder[COLLECTION_FOLDER_BYTES]; /* "": none */
	char *states, *statistics, *events; /* engines.txt, statistics.txt, events.txt: of the control thread; NULL: none */
	char *sockets[SERVER_ENGINES_MAX];  /* RPC sockets of running engines; else NULL */
	FILE *tar;
	char *plain;
	size_t plain_bytes;
	uint8_t *packed;
	size_t packed_bytes;
	int error;
	char reason[512];			/* "": use strerror() of `error` */
	char warning[COLLECTION_WARNING_BYTES]; /* a missing part; "": none */
	bool is_ready;
};

/* ---- contents.c ---- */

/* Make the archive; errors are in the collection. On a worker thread. */
void collection_make(struct worker_job *job);

/* ---- archive.c: all on the worker thread; -ENOMEM and others are kept in `error` ---- */

MUST_CHECK int archive_open(struct collection *collection);
void archive_add_bytes(struct collection *collection, const char *name, const void *bytes, size_t count);
/* Add the contents of the file, or the reason why it cannot be read. `is_log`: only the lines inside the window. */
void archive_add_file(struct collection *collection, const char *name, const char *path, bool is_log);
/* Add the reason why `path` could not be read, instead of its contents; with stop_on_error the collection fails. */
void archive_add_reason(struct collection *collection, const char *name, const char *path, int error);
/* The end of the file, at most 4 MiB; `is_log`: of the lines inside the window. The caller frees it. -errno. */
MUST_CHECK int archive_read_file(struct collection *collection, const char *path, bool is_log, char **bytes_ret,
				 size_t *count_ret);
/* Close the tar file, and compress it unless there was an error. */
void archive_finish(struct collection *collection);

/* ---- engine_answers.c ---- */

enum engine_question { ENGINE_CONFIG, ENGINE_IOSTAT, ENGINE_TRACE };

/*
 * Ask the engine at `socket` with the program `fathom` of the folder `programs`; `path` is a temporary file, which is
 * removed. Blocks for ten seconds at most. The caller frees `bytes_ret`. Errors: those of program_write() and of the file;
 * -EFBIG, -ENOMEM.
 */
MUST_CHECK int engine_answer_read(const struct server *server, const char *socket, enum engine_question question,
				  const char *path, char **bytes_ret, size_t *count_ret);
/* The text of engines.txt; the caller frees it. On the control thread. */
char *engine_states_text(const struct server *server);

#endif
