/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * db - what the control plane must not forget: keys with values, changed by compare-and-set transactions.
 *
 * The interface is what SQLite, in one file for one management host (sqlite.h), and a service of several hosts can both do:
 * read, transaction, watch, lease. Every transaction that is done has a revision, one more than the one before; a key's
 * version is the revision that wrote it. What db_commit() has acknowledged is there after any crash.
 *
 * One thread. All calls may block for as long as the disk takes.
 */
#ifndef CONTROL_DB_DB_H
#define CONTROL_DB_DB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"

enum {
	DB_KEY_BYTES_MAX = 512, /* with the NUL */
	DB_VALUE_BYTES_MAX = 16 << 20,
	DB_CHANGES_MAX = 4096, /* of a transaction */
	DB_WATCHES_MAX = 16,
	DB_OWNER_BYTES = 128,
};

struct db;

/* Closes it whatever it is. NULL is fine. Watches end. */
void db_close(struct db *db);

/* The revision of the latest transaction; 0: there was none. */
uint64_t db_revision(const struct db *db);

/* ---- read ---- */

/* Called for each key; all borrowed for the call. Not 0 ends the scan with it. */
typedef int (*db_row_fn)(void *ctx, const char *key, const void *value, size_t bytes, uint64_t version);

/*
 * Each key that begins with `prefix`, by bytes, as of one revision. Returns 0, what `row` returned, or an error with `why`.
 */
MUST_CHECK int db_scan(struct db *db, const char *prefix, db_row_fn row, void *ctx, struct fault *why);

/* The value of one key: `row` is called once. Errors: -ENOENT (no such key; no fault), others with `why`. */
MUST_CHECK int db_get(struct db *db, const char *key, db_row_fn row, void *ctx, struct fault *why);

/* ---- transaction ---- */

#define DB_VERSION_ANY UINT64_MAX
#define DB_VERSION_NONE 0 /* the key is not there */

struct db_change {
	const char *key;
	uint64_t expected; /* version that the key must have, DB_VERSION_NONE or DB_VERSION_ANY */
	enum { DB_PUT, DB_DELETE, DB_CHECK } what;
	const void *value; /* of DB_PUT */
	size_t bytes;
};

/*
 * All changes, if each key is as expected, or none. When it returns 0 they are on the disk. Borrows. Errors: -ESTALE
 * (db_conflict: read again and decide again), -ENOSPC (db_full), -EIO (db_failed), -EBADMSG (db_damaged).
 */
MUST_CHECK int db_commit(struct db *db, const struct db_change *changes, size_t count, uint64_t *revision_ret,
			 struct fault *why);

/* ---- watch ---- */

/* `value` NULL: the key is gone. Called after the transaction, on the thread that made it; it makes none itself. */
typedef void (*db_watch_fn)(void *ctx, const char *key, const void *value, size_t bytes, uint64_t revision);

/* Every change from now on of keys that begin with `prefix`. Errors: -ENOSPC (DB_WATCHES_MAX are there). */
MUST_CHECK int db_watch(struct db *db, const char *prefix, db_watch_fn changed, void *ctx);
void db_unwatch(struct db *db, db_watch_fn changed, void *ctx);

/* ---- lease ---- */

/*
 * `owner` has the lease `name` until `now_ns` + `duration_ns` (CLOCK_REALTIME); who has it already prolongs it. Errors:
 * -EBUSY (db_lease_held), those of db_commit().
 */
MUST_CHECK int db_lease_take(struct db *db, const char *name, const char *owner, uint64_t now_ns, uint64_t duration_ns,
			     struct fault *why);

/* Another's lease stays. */
MUST_CHECK int db_lease_release(struct db *db, const char *name, const char *owner, struct fault *why);

/* ---- copies ---- */

/* All of it, as of now, into a file, which appears whole or not at all. Errors: with `why`. */
MUST_CHECK int db_backup(struct db *db, const char *path, struct fault *why);

/*
 * The same in steps, between which the database is used: what is committed meanwhile is in it.
 *
 *     db_copy_begin() -> db_copy_step() until it is done -> db_copy_finish() -> db_copy_end()
 *
 * db_copy_finish() waits for the disk and touches nothing but the copy: any thread may do it, one at a time. The others are
 * the database's thread's. db_copy_end() drops a copy that is not finished; before db_close(). Accepts NULL.
 */
struct db_copy;
enum { DB_COPY_ALL = -1 };
MUST_CHECK int db_copy_begin(struct db *db, const char *path, struct db_copy **copy_ret, struct fault *why);
/* `pages` more of some KiB each. `is_done_ret`: that was all. Errors: with `why`; then db_copy_end(). */
MUST_CHECK int db_copy_step(struct db_copy *copy, int pages, bool *is_done_ret, struct fault *why);
MUST_CHECK int db_copy_finish(struct db_copy *copy, struct fault *why);
void db_copy_end(struct db_copy *copy);

#endif
