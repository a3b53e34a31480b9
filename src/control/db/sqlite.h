/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sqlite - the database of one management host: a file and its write-ahead log ("PATH-wal").
 *
 *   PATH                 tables `kv` (key, version, sum, value) and `meta`; application id and schema version in its head
 *   PATH-wal             what was committed since the last checkpoint; goes with PATH
 *   PATH.copy-...        a copy that is being made; garbage after a crash
 *   PATH.before-N        what a restore put aside: the file, if it was forced, and its log; or a log that had no file
 *
 * Writer: the one process that has it open; SQLite's lock keeps others out, and the kernel lets go of it when the process
 * dies. Each commit is synced (synchronous=FULL). At open SQLite's integrity check runs, and every row's checksum is
 * compared, because SQLite has none of its own. Not here: what the values mean.
 */
#ifndef CONTROL_DB_SQLITE_H
#define CONTROL_DB_SQLITE_H

#include "control/db/db.h"

/*
 * Open the database at `path`, or make an empty one, mode 0600. Errors, all with `why`: -EBADMSG (db_damaged), -EBUSY
 * (db_in_use), -EINVAL (db_foreign: another program's), -EPROTO (db_newer), -ENOSPC, -EIO; -ENOMEM.
 */
MUST_CHECK int db_open_sqlite(const char *path, struct db **db_ret, struct fault *why);

/*
 * Put the copy at `copy`, made by db_backup() and checked before, in the place of `path`, which nobody has open. What was
 * there is kept beside it if `is_forced`, else it is an error; a log without a file, which would be played back into the
 * copy, is kept beside in any case. `restored` (may be NULL) changes it before it is there.
 * Errors: of db_open_sqlite() for either, -EEXIST (db_restore_over), those of `restored`.
 */
typedef int (*db_restored_fn)(struct db *db, struct fault *why);
MUST_CHECK int db_restore_sqlite(const char *path, const char *copy, bool is_forced, db_restored_fn restored,
				 struct fault *why);

#endif
