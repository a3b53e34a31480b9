/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * system_store - store the system in the database. Changes of control/system are written in transactions.
 *
 *     system/versions            JSON: schema, version, map_version, next_rank; each transaction compares and sets it
 *     system/member/RANK         JSON; RANK in 8 hexadecimal digits, so that keys sort by rank
 *     system/attribute/NAME      the value, unencoded
 *     system/property/NAME       the value, unencoded
 *
 * Thread: the database's.
 */
#ifndef CONTROL_DB_SYSTEM_STORE_H
#define CONTROL_DB_SYSTEM_STORE_H

#include "control/db/db.h"
#include "control/system/system.h"

struct system_store {
	struct db *db;		    /* borrowed */
	uint64_t versions_revision; /* version of the key "system/versions" at the last load or store */
};

/*
 * Load the system. An empty database gives a system without members. `tick` is for the trace. Errors: -EBADMSG
 * (db_value_bad, db_damaged), -ENOMEM, those of db_scan().
 */
MUST_CHECK int system_store_load(struct db *db, uint64_t tick, struct system_store *store_ret, struct system **system_ret,
				 struct fathom_fault *why);

/*
 * Store `change`, which was decided on the current system; then call system_apply(). Errors: those of db_commit(); -ENOMEM;
 * -ESTALE: another process has written in between, load again.
 */
MUST_CHECK int system_store_change(struct system_store *store, const struct system_change *change,
				   struct fathom_fault *why);

enum { SYSTEM_STORE_MEMBERS_MAX = DB_CHANGES_MAX - 1 };

/*
 * Store `count` changes of members in one transaction, each decided after the previous one was applied. All are already
 * applied, so after a failure load the system again. Errors: those of system_store_change().
 */
MUST_CHECK int system_store_members(struct system_store *store, const struct system_change *changes, size_t count,
				    struct fathom_fault *why);

/*
 * Prepare a restored copy: raise its map version by SYSTEM_STORE_MAP_LEAP. Engines may have received later maps since the
 * copy was made and ignore older ones; the leap exceeds these versions. A db_restored_fn for db_restore_sqlite().
 */
enum { SYSTEM_STORE_MAP_LEAP = 1 << 16 };
MUST_CHECK int system_store_restored(struct db *db, struct fathom_fault *why);

/*
 * Encode and decode one member as JSON. The caller frees `*text_ret`. Errors: -ENOMEM; -EBADMSG (decode): `member_ret` is
 * then undefined.
 */
MUST_CHECK int member_encode(const struct member *member, char **text_ret);
MUST_CHECK int member_decode(const char *text, size_t bytes, struct member *member_ret);

#endif
