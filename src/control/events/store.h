/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store - the events of all hosts, as the management service has taken and numbered them, in the database.
 *
 *     event/NUMBER               the protobuf of a shared.RASEvent; NUMBER in 16 hexadecimal digits
 *     events/range               first and last number, in decimal, with a blank between
 *     events/source/UUID         the last number of that source (a host's spool) that was taken, in decimal
 *
 * What a source hands over, what is remembered of it, and what goes to make room is one transaction: nothing is lost or
 * twice, wherever either side dies. One thread, the database's.
 */
#ifndef CONTROL_EVENTS_STORE_H
#define CONTROL_EVENTS_STORE_H

#include "control/db/db.h"
#include "rpc/proto/fathom.pb-c.h"

enum {
	EVENT_STORE_MAX = 100000, /* events that are kept, where nothing else is said */
	EVENT_STORE_TAKE_MAX = 1024,
	EVENT_STORE_SOURCES_MAX = 65536, /* that are remembered; then the one that was not heard for longest goes */
	EVENT_STORE_EVENT_BYTES_MAX = 8192,
};

struct event_store;

/* `db` is lent; `events_max` 0: EVENT_STORE_MAX. Errors: of db_scan(), -EBADMSG (db_value_bad), -ENOMEM. */
MUST_CHECK int event_store_open(struct db *db, uint64_t events_max, struct event_store **store_ret, struct fault *why);
void event_store_close(struct event_store *store); /* NULL is fine */

/* What may be taken. Errors: -EINVAL (event_bad). */
MUST_CHECK int event_store_check(const Fathom__NumberedEvent *event, struct fault *why);

/*
 * Take `events` of `source` (a UUID), whose numbers grow; those that were taken before are left out. `source` NULL: events
 * of the management service itself, whose numbers do not matter. `is_bad`, of `count`: which of them are none
 * (event_store_check()); they are not kept, and count as taken, so that they do not come again. NULL: one that is bad is an
 * error. `taken_ret`: the source's last number that is taken now. Borrows. Errors: -EINVAL (event_bad; nothing was taken),
 * those of db_commit(), -ENOMEM.
 */
MUST_CHECK int event_store_take(struct event_store *store, const char *source, Fathom__NumberedEvent *const *events,
				size_t count, bool *is_bad, uint64_t *taken_ret, struct fault *why);

/* The last number taken of `source`; 0: none. */
uint64_t event_store_taken(const struct event_store *store, const char *source);

uint64_t event_store_first(const struct event_store *store); /* 0: there is none */
uint64_t event_store_last(const struct event_store *store);  /* 0: there was none */

/*
 * The events behind number `after`, at most `max` (0: any) and about `bytes_max`. The array and what is in it are the
 * caller's: event_store_free(). Errors: of db_get(), -ENOMEM.
 */
MUST_CHECK int event_store_read(struct event_store *store, uint64_t after, uint32_t max, size_t bytes_max,
				Fathom__NumberedEvent ***events_ret, size_t *count_ret, struct fault *why);
void event_store_free(Fathom__NumberedEvent **events, size_t count);

#endif
