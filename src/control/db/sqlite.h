/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sqlite - the database of one management host: a file and its write-ahead log ("PATH-wal").
 *
 *   PATH                 tables `kv` (key, version, sum, value) and `meta`; application id and schema version in the header
 *   PATH-wal             commits since the last checkpoint; belongs to PATH
 *   PATH.copy-...        an unfinished copy; garbage after a crash
 *   PATH.before-N        moved aside by a restore: the old file, if it was forced, and its log; or a log without a file
 *
 * Writer: the one process that has it open. SQLite's lock excludes others; the kernel releases it when the process dies.
 * Each commit is synced (synchronous=FULL). Opening runs SQLite's integrity check and verifies the checksum of every row,
 * because SQLite has no checksums. Not here: the meaning of the values.
 */
#ifndef CONTROL_DB_SQLITE_H
#define CONTROL_DB_SQLITE_H

#include "control/db/db.h"

/*
 * Open the database at `path`, or create an empty one, mode 0600. Errors, all with `why`: -EBADMSG (db_damaged), -EBUSY
 * (db_in_use), -EINVAL (db_foreign: another program's), -EPROTO (db_newer), -ENOSPC, -EIO; -ENOMEM.
 */
MUST_CHECK int db_open_sqlite(const char *path, struct db **db_ret, struct fathom_fault *why);

/*
 * Replace `path`, which no process may have open, by the copy at `copy`, made by db_backup(). The copy is checked first. An
 * existing database is moved aside if `is_forced`, else it is an error. A log without a file is always moved aside, because
 * SQLite would replay it into the copy. `restored` (may be NULL) changes the copy before it gets the name `path`.
 * Errors: those of db_open_sqlite() for either file, -EEXIST (db_restore_over), those of `restored`.
 */
typedef int (*db_restored_fn)(struct db *db, struct fathom_fault *why);
MUST_CHECK int db_restore_sqlite(const char *path, const char *copy, bool is_forced, db_restored_fn restored,
				 struct fathom_fault *why);

#endif
