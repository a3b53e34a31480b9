/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * spool - a host's events, kept on disk until the management service has taken them.
 *
 *     spool_add(), spool_add() ...     events that arrive in one turn of the loop
 *     spool_flush()                    one write and one sync for all of them; after that, answer their senders
 *     spool_batch() -> TakeEvents -> spool_taken()
 *
 * One file. It grows until most of it has been taken; then the rest is written to a new file, which replaces it by rename.
 * docs/formats/events.md describes the format. Events are numbered from 1. A new spool gets a random UUID. UUID and number
 * together identify an event. Each event of an engine is added once: an engine repeats unanswered events, and the spool
 * recognises (instance, incarnation, sequence), also after a restart.
 *
 * Crash: events are durable when spool_flush() has returned 0. An incomplete write at the end is cut off when the file is
 * opened. Damage before the end is distinguished from it, and the file is rejected.
 *
 * Each engine has its own spool, in the same format, next to its socket. It holds the events that no server has taken. When
 * the engine is dead, the host's server reads the rest with spool_recover().
 *
 * One thread. Calls block until the disk has finished.
 */
#ifndef CONTROL_EVENTS_SPOOL_H
#define CONTROL_EVENTS_SPOOL_H

#include <inttypes.h>

#include "base/fault.h"
#include "rpc/proto/fathom.pb-c.h"

enum {
	SPOOL_BYTES_MAX = 64 << 20, /* default limit of the file: about 250,000 events */
	SPOOL_PENDING_MAX = 4096,   /* events added and not flushed */
	SPOOL_BATCH_MAX = 1024,
	SPOOL_INSTANCES_MAX = 64,
	SPOOL_SOURCES_MAX = 2 * SPOOL_INSTANCES_MAX,
};

/* The name of an engine's spool: instance and incarnation, zero-padded. */
#define SPOOL_OF_ENGINE "fathom_engine%" PRIu32 "-%016" PRIx64 ".events"

struct spool;

/* The identity of an event. For events that the server raises about an engine, add SPOOL_INSTANCES_MAX to the instance. */
struct spool_origin {
	uint32_t instance; /* below SPOOL_SOURCES_MAX */
	uint64_t incarnation;
	uint64_t sequence; /* from 1, ascending */
};

/*
 * Open the spool at `path`, or create an empty one, mode 0600; `bytes_max` 0: SPOOL_BYTES_MAX. `cut_bytes_ret` (may be
 * NULL): bytes of an incomplete write that were cut off at the end. Errors, with `why`: -EBADMSG (spool_damaged), -EBUSY
 * (spool_in_use), -EIO and other system errors (spool_failed); -ENOMEM.
 */
MUST_CHECK int spool_open(const char *path, uint64_t bytes_max, struct spool **spool_ret, uint64_t *cut_bytes_ret,
			  struct fathom_fault *why);
/* Close the spool. Events that were not flushed are lost. Accepts NULL. */
void spool_close(struct spool *spool);

/*
 * Add an event; `origin` NULL: an event of the server itself, which is not checked for duplicates. It is on disk after the
 * next spool_flush() that returns 0. Borrows. Errors: -EALREADY (added before, perhaps not yet flushed; no fault), -EINVAL
 * (event_bad), -ENOSPC (spool_full), -ENOBUFS (SPOOL_PENDING_MAX events wait for a flush; no fault), -ENOMEM.
 */
MUST_CHECK int spool_add(struct spool *spool, const struct spool_origin *origin, const Shared__RASEvent *event,
			 struct fathom_fault *why);

/*
 * Write and sync the added events. Errors: -ENOSPC, -EIO ... (spool_failed), -ENOMEM: the events stay pending, and the next
 * flush tries again. The caller must not acknowledge them to their senders.
 */
MUST_CHECK int spool_flush(struct spool *spool, struct fathom_fault *why);

/* Events that are on disk and not taken, oldest first. Free it with spool_batch_deinit(). */
struct spool_batch {
	Fathom__NumberedEvent *events[SPOOL_BATCH_MAX];
	size_t count;
};

/*
 * Read at most `max` events and `bytes_max` payload bytes, but at least one event if there is any. Errors: -EIO, -EBADMSG
 * (with `why`), -ENOMEM.
 */
MUST_CHECK int spool_batch(struct spool *spool, size_t max, size_t bytes_max, struct spool_batch *batch_ret,
			   struct fathom_fault *why);
void spool_batch_deinit(struct spool_batch *batch);

/*
 * The management service has taken all events up to `number`, which must be at most spool_last(). This is not synced: after
 * a crash the events are sent again, and the management service recognises them. Errors: of the file (spool_failed); the
 * events count as taken in memory nevertheless.
 */
MUST_CHECK int spool_taken(struct spool *spool, uint64_t number, struct fathom_fault *why);

const char *spool_source(const struct spool *spool); /* UUID, for TakeEvents */
uint64_t spool_last(const struct spool *spool);	     /* number of the newest event on disk; 0: none yet */
uint64_t spool_pending(const struct spool *spool);   /* events added and not flushed; their numbers follow the last */
uint64_t spool_untaken(const struct spool *spool);   /* events on disk and not taken */
uint64_t spool_bytes(const struct spool *spool);

/* ---- the spool of a dead engine ---- */

/* Bytes of a spool that could not be read. */
struct spool_loss {
	uint64_t cut_bytes;	/* at its end: an incomplete write, never acknowledged */
	uint64_t damaged_bytes; /* elsewhere, or in an intact record without a valid event */
};

/* A result other than 0 ends the reading and becomes its result. */
typedef int (*spool_event_fn)(void *ctx, const struct spool_origin *origin, const Shared__RASEvent *event);

/*
 * Call `each` for every readable event of the file at `path` that was not taken, in order, even if other parts of the file
 * are damaged. The file is not changed. Errors: the result of `each`; with `why`: -EBUSY (spool_in_use: its owner lives),
 * -EIO and other system errors (spool_failed); -ENOMEM. `loss_ret` is set when 0 is returned.
 */
MUST_CHECK int spool_recover(const char *path, spool_event_fn each, void *ctx, struct spool_loss *loss_ret,
			     struct fathom_fault *why);

#endif
