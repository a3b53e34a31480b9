/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * system_store - the system in the database: every decision of control/system is one transaction.
 *
 *     system/versions            JSON: schema, version, map_version, next_rank; each transaction compares and sets it
 *     system/member/RANK         JSON; RANK in 8 hexadecimal digits, so that they are in order
 *     system/attribute/NAME      the value, as it is
 *     system/property/NAME       likewise
 *
 * One thread, the database's.
 */
#ifndef CONTROL_DB_SYSTEM_STORE_H
#define CONTROL_DB_SYSTEM_STORE_H

#include "control/db/db.h"
#include "control/system/system.h"

struct system_store {
	struct db *db;		    /* borrowed */
	uint64_t versions_revision; /* that of "system/versions" as this process knows it */
};

/*
 * Read everything. An empty database has a system without members. `tick` is for the trace. Errors: -EBADMSG (db_value_bad,
 * db_damaged), -ENOMEM, those of db_scan().
 */
MUST_CHECK int system_store_load(struct db *db, uint64_t tick, struct system_store *store_ret, struct system **system_ret,
				 struct fault *why);

/*
 * Store `change`, which was decided on the system as it was loaded and applied since. Then system_apply() it. Errors:
 * those of db_commit(); -ESTALE: another process has written in between, load again.
 */
MUST_CHECK int system_store_change(struct system_store *store, const struct system_change *change, struct fault *why);

enum { SYSTEM_STORE_MEMBERS_MAX = DB_CHANGES_MAX - 1 };

/*
 * Store `count` changes of members in one transaction, each decided after the one before it was applied. They were applied
 * already: when this fails, load again. Errors: those of system_store_change().
 */
MUST_CHECK int system_store_members(struct system_store *store, const struct system_change *changes, size_t count,
				    struct fault *why);

/*
 * For a copy that is put back: its map versions begin where those that engines have had since it was made do not reach, so
 * that they take the next map. As db_restore_sqlite() has it.
 */
enum { SYSTEM_STORE_MAP_LEAP = 1 << 16 };
MUST_CHECK int system_store_restored(struct db *db, struct fault *why);

/*
 * One member to and from JSON. The text is the caller's to free. Errors: -ENOMEM; -EBADMSG, and then `member_ret` has
 * anything.
 */
MUST_CHECK int member_encode(const struct member *member, char **text_ret);
MUST_CHECK int member_decode(const char *text, size_t bytes, struct member *member_ret);

#endif
