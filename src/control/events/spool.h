/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * spool - a host's events, on disk until the management service has taken them.
 *
 *     spool_add(), spool_add() ...     what came in one turn
 *     spool_flush()                    one write and one sync for all of it; now their senders may be answered
 *     spool_batch() -> TakeEvents -> spool_taken()
 *
 * One file, which only grows until what was taken is most of it; then what is left goes into a new one that takes its place
 * by rename. docs/formats/events.md has its form. Events have numbers from 1; the numbers go with the UUID of the file,
 * which is made by chance when the file is. Each event of an engine is taken once: an engine repeats what was not answered,
 * and its (instance, incarnation, sequence) is known again, also after a restart.
 *
 * Crash: what spool_flush() has returned 0 for is there. What was being written is cut off when the file is opened; a
 * damage before that is told from it, and refused.
 *
 * An engine has a spool of its own, of the same form, beside its socket: events that no server has taken. It ends with the
 * engine; what is left in it then, the host's server takes out by spool_read_left().
 *
 * One thread. Calls block for as long as the disk takes.
 */
#ifndef CONTROL_EVENTS_SPOOL_H
#define CONTROL_EVENTS_SPOOL_H

#include <inttypes.h>

#include "base/fault.h"
#include "rpc/proto/fathom.pb-c.h"

enum {
	SPOOL_BYTES_MAX = 64 << 20, /* of the file, where nothing else is said: some 250,000 events */
	SPOOL_PENDING_MAX = 4096,   /* events added and not flushed */
	SPOOL_BATCH_MAX = 1024,
	SPOOL_INSTANCES_MAX = 64,
	SPOOL_SOURCES_MAX = 2 * SPOOL_INSTANCES_MAX,
};

/* The name of an engine's: its instance and its incarnation. */
#define SPOOL_OF_ENGINE "fathom_engine%" PRIu32 "-%016" PRIx64 ".events"

struct spool;

/* Which of an engine's events one is; of those that its server raises about it the instance is SPOOL_INSTANCES_MAX more. */
struct spool_origin {
	uint32_t instance; /* below SPOOL_SOURCES_MAX */
	uint64_t incarnation;
	uint64_t sequence; /* from 1, in order */
};

/*
 * Open the spool at `path`, or make an empty one, mode 0600; `bytes_max` 0: SPOOL_BYTES_MAX. `cut_bytes_ret` (may be NULL):
 * what was left at its end by a crash, and was cut. Errors, with `why`: -EBADMSG (spool_damaged), -EBUSY (spool_in_use),
 * -EIO and others of the system (spool_failed); -ENOMEM.
 */
MUST_CHECK int spool_open(const char *path, uint64_t bytes_max, struct spool **spool_ret, uint64_t *cut_bytes_ret,
			  struct fault *why);
/* What was not flushed is forgotten. Accepts NULL. */
void spool_close(struct spool *spool);

/*
 * Add an event; `origin` NULL: the server's own, which is never twice. It is on disk after the next spool_flush() that
 * returns 0. Borrows. Errors: -EALREADY (it was added before, no fault; after a flush it is on disk, too), -EINVAL
 * (event_bad), -ENOSPC (spool_full), -ENOBUFS (as many wait for a flush as may, no fault), -ENOMEM.
 */
MUST_CHECK int spool_add(struct spool *spool, const struct spool_origin *origin, const Shared__RASEvent *event,
			 struct fault *why);

/*
 * Write what was added. Errors: -ENOSPC, -EIO ... (spool_failed): it is kept, and tried again by the next flush; nobody is
 * to be told that it was taken.
 */
MUST_CHECK int spool_flush(struct spool *spool, struct fault *why);

/* Events on disk that nobody has taken yet, oldest first. Free it with spool_batch_deinit(). */
struct spool_batch {
	Fathom__NumberedEvent *events[SPOOL_BATCH_MAX];
	size_t count;
};

/* At most `max` and about `bytes_max`, one at least if there is one. Errors: -EIO, -EBADMSG (with `why`), -ENOMEM. */
MUST_CHECK int spool_batch(struct spool *spool, size_t max, size_t bytes_max, struct spool_batch *batch_ret,
			   struct fault *why);
void spool_batch_deinit(struct spool_batch *batch);

/*
 * The management service has all up to `number`, which is at most spool_last(). Not synced: what is forgotten by a crash is
 * sent again, and known there. Errors: of the file (spool_failed); the number holds in memory then.
 */
MUST_CHECK int spool_taken(struct spool *spool, uint64_t number, struct fault *why);

const char *spool_source(const struct spool *spool); /* UUID, for TakeEvents */
uint64_t spool_last(const struct spool *spool);	     /* the newest that is on disk; 0: there was none */
uint64_t spool_pending(const struct spool *spool);   /* added and not flushed; their numbers follow the last */
uint64_t spool_left(const struct spool *spool);	     /* on disk and not taken */
uint64_t spool_bytes(const struct spool *spool);

/* ---- of an engine that is dead ---- */

/* What could not be read of a spool. */
struct spool_loss {
	uint64_t cut_bytes;	/* at its end: a crash cut them short, and nobody was told of them */
	uint64_t damaged_bytes; /* anywhere else, or in a record that is whole and no event */
};

/* Not 0: no further ones. */
typedef int (*spool_event_fn)(void *ctx, const struct spool_origin *origin, const Shared__RASEvent *event);

/*
 * Every event of the file at `path` that was not taken and can be read, in order, whatever became of the rest of it. The
 * file stays as it is. Errors: what `each` returned; with `why`: -EBUSY (spool_in_use: its owner lives), -EIO and others of
 * the system (spool_failed); -ENOMEM. `loss_ret` is set when 0 is returned.
 */
MUST_CHECK int spool_read_left(const char *path, spool_event_fn each, void *ctx, struct spool_loss *loss_ret,
			       struct fault *why);

#endif
