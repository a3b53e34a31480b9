/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * db - the persistent state of the control plane: keys with values, changed by compare-and-set transactions.
 *
 * The interface is limited to operations that both SQLite (one file on one management host, sqlite.h) and a service of
 * several hosts can implement: read, transaction, watch, lease. Each committed transaction has a revision, one more than
 * the previous one. The version of a key is the revision of the transaction that wrote it. After db_commit() has returned
 * 0, the changes survive any crash.
 *
 * One thread. All calls may block until the disk has finished.
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

/* Close the database of any backend. All watches end. NULL is fine. */
void db_close(struct db *db);

/* The revision of the latest transaction; 0: none yet. */
uint64_t db_revision(const struct db *db);

/* ---- read ---- */

/* Called for each key; pointers are borrowed for the call. A result other than 0 ends the scan and becomes its result. */
typedef int (*db_row_fn)(void *ctx, const char *key, const void *value, size_t bytes, uint64_t version);

/*
 * Call `row` for each key that begins with `prefix`, in byte order, all at one revision. Returns 0, the result of `row`, or
 * an error with `why`.
 */
MUST_CHECK int db_scan(struct db *db, const char *prefix, db_row_fn row, void *ctx, struct fathom_fault *why);

/* Read one key: `row` is called once. Errors: -ENOENT (no such key; no fault), the result of `row`, others with `why`. */
MUST_CHECK int db_get(struct db *db, const char *key, db_row_fn row, void *ctx, struct fathom_fault *why);

/* ---- transaction ---- */

#define DB_VERSION_ANY UINT64_MAX
#define DB_VERSION_NONE 0 /* the key must not exist */

struct db_change {
	const char *key;
	uint64_t expected; /* required version of the key, DB_VERSION_NONE or DB_VERSION_ANY */
	enum { DB_PUT, DB_DELETE, DB_CHECK } what;
	const void *value; /* of DB_PUT */
	size_t bytes;
};

/*
 * Make all changes if each key has the expected version, else none. When it returns 0 they are on disk. Borrows `changes`.
 * `revision_ret` may be NULL. Errors: -ESTALE (db_conflict: read and decide again), -ENOSPC (db_full), -EIO (db_failed),
 * -EBADMSG (db_damaged).
 */
MUST_CHECK int db_commit(struct db *db, const struct db_change *changes, size_t count, uint64_t *revision_ret,
			 struct fathom_fault *why);

/* ---- watch ---- */

/* `value` NULL: the key was deleted. Called after the commit, on the committing thread. It must not commit. */
typedef void (*db_watch_fn)(void *ctx, const char *key, const void *value, size_t bytes, uint64_t revision);

/* Report every later change of keys that begin with `prefix`. Errors: -ENOSPC (DB_WATCHES_MAX watches exist). */
MUST_CHECK int db_watch(struct db *db, const char *prefix, db_watch_fn changed, void *ctx);
void db_unwatch(struct db *db, db_watch_fn changed, void *ctx);

/* ---- lease ---- */

/*
 * Give `owner` the lease `name` until `now_ns` + `duration_ns` (CLOCK_REALTIME). The current owner extends its lease.
 * Errors: -EBUSY (db_lease_held), those of db_commit().
 */
MUST_CHECK int db_lease_take(struct db *db, const char *name, const char *owner, uint64_t now_ns, uint64_t duration_ns,
			     struct fathom_fault *why);

/* Release the lease if `owner` has it, else do nothing. Errors: those of db_commit(). */
MUST_CHECK int db_lease_release(struct db *db, const char *name, const char *owner, struct fathom_fault *why);

/* ---- health ---- */

/* Whether commits reach the disk. Conflicts (db_conflict) are no failures. */
struct db_health {
	uint64_t failing_ns;	 /* CLOCK_REALTIME of the first failure since a commit succeeded; 0: the last one did */
	uint64_t failed_ns;	 /* CLOCK_REALTIME of the latest one: nothing was tried since, except conflicts */
	uint64_t failures;	 /* since failing_ns */
	struct fathom_fault why; /* of the latest one */
};
/* Borrowed until the next call. */
const struct db_health *db_health(const struct db *db);

/* ---- copies ---- */

/* Copy the whole database into the file `path`, which appears complete or not at all. Errors: with `why`. */
MUST_CHECK int db_backup(struct db *db, const char *path, struct fathom_fault *why);

/*
 * The same in steps. The database may be used between them; the copy includes what is committed meanwhile.
 *
 *     db_copy_begin() -> db_copy_step() until it is done -> db_copy_finish() -> db_copy_end()
 *
 * db_copy_finish() waits for the disk and uses only the copy: call it from any thread, but not concurrently with others of
 * the same copy. Call the others from the database's thread. db_copy_end() drops an unfinished copy. Call it before
 * db_close(). It accepts NULL.
 */
struct db_copy;
enum { DB_COPY_ALL = -1 };
MUST_CHECK int db_copy_begin(struct db *db, const char *path, struct db_copy **copy_ret, struct fathom_fault *why);
/* Copy `pages` more pages (a few KiB each). `is_done_ret`: the copy is complete. Errors: with `why`; call db_copy_end(). */
MUST_CHECK int db_copy_step(struct db_copy *copy, int pages, bool *is_done_ret, struct fathom_fault *why);
MUST_CHECK int db_copy_finish(struct db_copy *copy, struct fathom_fault *why);
void db_copy_end(struct db_copy *copy);

#endif
