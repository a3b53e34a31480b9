/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store - the events of all hosts, numbered by the management service and kept in its database.
 *
 *     event/NUMBER               the protobuf of a shared.RASEvent; NUMBER in 16 hexadecimal digits
 *     events/range               first and last number, in decimal, with a blank between
 *     events/source/UUID         the last number of that source (a host's spool) that was taken, in decimal
 *
 * One transaction stores a batch of a source, the source's last number, and the deletions that make room. So no event is
 * lost or stored twice, wherever either side crashes. Thread: the database's.
 */
#ifndef CONTROL_EVENTS_STORE_H
#define CONTROL_EVENTS_STORE_H

#include "control/db/db.h"
#include "rpc/proto/fathom.pb-c.h"

enum {
	EVENT_STORE_MAX = 100000, /* default number of events kept */
	EVENT_STORE_TAKE_MAX = 1024,
	EVENT_STORE_SOURCES_MAX = 65536, /* remembered; a further source replaces the least recently used one */
	EVENT_STORE_EVENT_BYTES_MAX = 8192,
};

struct event_store;

/* `db` is lent; `events_max` 0: EVENT_STORE_MAX. Errors: of db_scan(), -EBADMSG (db_value_bad), -ENOMEM. */
MUST_CHECK int event_store_open(struct db *db, uint64_t events_max, struct event_store **store_ret,
				struct fathom_fault *why);
void event_store_close(struct event_store *store); /* NULL is fine */

/* Check whether `event` is valid. Errors: -EINVAL (event_bad). */
MUST_CHECK int event_store_check(const Fathom__NumberedEvent *event, struct fathom_fault *why);

/* Events of one source. */
struct event_batch {
	const char *source; /* a UUID; NULL: the management service itself, whose event numbers are ignored */
	Fathom__NumberedEvent *const *events; /* their numbers ascend */
	size_t count;			      /* at most EVENT_STORE_TAKE_MAX */
	/*
	 * Result, of `count`: the invalid events (event_store_check()). They are not stored, but count as taken, so that
	 * the source does not repeat them. NULL: an invalid event is an error.
	 */
	bool *is_bad;
};

/*
 * Take the events of `batch` (borrowed); those that were taken before are skipped. `taken_ret`: the source's last number
 * taken. Errors: -EINVAL (event_bad; nothing was taken), those of db_commit(), -ENOMEM.
 */
MUST_CHECK int event_store_take(struct event_store *store, const struct event_batch *batch, uint64_t *taken_ret,
				struct fathom_fault *why);

/* The last number taken from `source`; 0: none. */
uint64_t event_store_taken(const struct event_store *store, const char *source);

uint64_t event_store_first(const struct event_store *store); /* the oldest number kept; 0: no events */
uint64_t event_store_last(const struct event_store *store);  /* the latest number; 0: none yet */

/* The events to read. */
struct event_range {
	uint64_t after;	  /* read from the next number on */
	uint32_t max;	  /* events at most; 0: EVENT_STORE_TAKE_MAX */
	size_t bytes_max; /* packed; the last event read may exceed it */
};

/*
 * Read the events of `range`. The caller frees array and events with event_store_free(). Errors: those of db_get(),
 * -ENOMEM.
 */
MUST_CHECK int event_store_read(struct event_store *store, const struct event_range *range,
				Fathom__NumberedEvent ***events_ret, size_t *count_ret, struct fathom_fault *why);
void event_store_free(Fathom__NumberedEvent **events, size_t count);

#endif
