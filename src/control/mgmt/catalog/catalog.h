/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * catalog - the pools and volumes of the system by name: what exists, on which ranks, and which change of it is under way.
 *
 *     pool/KEY                JSON (docs/formats/catalog.md)
 *     volume/KEY/NAME         JSON; KEY is that of the pool
 *     old-copy/UUID/RANK      JSON: what a moved volume has left on a rank
 *
 * The engines own the data; the catalog owns names, places and intents. A change is stored here before an engine is called,
 * and its result is stored when the engine has answered. So after a restart the catalog says which calls may have been made
 * and not answered: they are repeated. catalog_store_*(), add and remove are the only writers. They change the database
 * first and memory only if that has succeeded.
 *
 * Snapshots are not here: the engine of their volume knows them.
 *
 * Thread: the database's.
 */
#ifndef CONTROL_MGMT_CATALOG_H
#define CONTROL_MGMT_CATALOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "control/db/db.h"
#include "control/mgmt/acl.h"
#include "control/mgmt/placement.h"
#include "control/mgmt/states.gen.h"
#include "control/system/member.h"
#include "fathom/trace/trace.h"

enum {
	CATALOG_SCHEMA = 1,
	CATALOG_NAME_BYTES = 64, /* of a pool, a volume or a snapshot, with the NUL: those of an engine's storage */
	CATALOG_FULL_BYTES = 2 * CATALOG_NAME_BYTES, /* "POOL/VOLUME" and "VOLUME@SNAPSHOT", with the NUL */
	CATALOG_NQN_BYTES = 224,		     /* with the NUL */
	CATALOG_OWNER_BYTES = 256,
	CATALOG_MACHINE_BYTES = 256,	 /* the name of a client host, with the NUL */
	CATALOG_DESCRIPTION_BYTES = 256, /* with the NUL */
	CATALOG_TEXT_BYTES = 256,
	CATALOG_HOSTS_MAX = 64,
	CATALOG_POOLS_MAX = 4096,
	CATALOG_VOLUMES_MAX = 65536,
	CATALOG_PLACES_MAX = 4096,
	CATALOG_OLD_COPIES_MAX = 65536,
	CATALOG_BUCKETS = 4096,
};
#define CATALOG_BYTES_MAX (1ull << 62) /* of a size: it is a signed integer in JSON */

/* A rank, and the member that had it: after a replacement another member has the rank, without the data. */
struct catalog_place {
	uint32_t rank;
	uint8_t member[MEMBER_UUID_BYTES];
};

/* Values of properties that its engines keep, too, and have not confirmed: as those of the record. */
struct catalog_pool_change {
	bool is_set;
	uint64_t rank_bytes;
	bool overcommit, scrub_off;
	uint32_t scrub_seconds;
	uint64_t since_ns;
	char undo[CATALOG_TEXT_BYTES]; /* an engine has refused them, and all get the former ones back: why; "": no */
};

/* Properties that engines keep, too; as bits, which are in records. */
enum { CATALOG_KEPT_SIZE = 1, CATALOG_KEPT_OVERCOMMIT = 2, CATALOG_KEPT_SCRUB = 4, CATALOG_KEPT_SCRUB_SECONDS = 8 };

/* How a pool uses its share on a rank. */
struct catalog_use {
	enum mgmt_share_state state; /* not ABSENT */
	uint64_t since_ns;	     /* CLOCK_REALTIME */
	bool has_former;	     /* EXTENDING, REMOVING: the rank's share was lost with this member */
	uint8_t former[MEMBER_UUID_BYTES];
	uint32_t late;	  /* CATALOG_KEPT_SIZE ...: properties of the record that its engine may not have yet */
	uint64_t late_ns; /* since when; 0: `late` is 0 */
};

struct catalog_pool_record {
	enum mgmt_pool_state state;
	char name[CATALOG_NAME_BYTES];	 /* the label */
	char key[CATALOG_NAME_BYTES];	 /* its name in the database and on engines: the first label, or the UUID */
	char former[CATALOG_NAME_BYTES]; /* the label before the latest change of it; "" */
	char uuid[MEMBER_UUID_TEXT_BYTES];
	char owner[CATALOG_OWNER_BYTES], group[CATALOG_OWNER_BYTES];
	uint64_t created_ns, since_ns; /* CLOCK_REALTIME; `since_ns`: of the state */
	uint64_t rank_bytes;	       /* the most that its volumes may take on each rank; 0: no limit */
	bool overcommit;
	bool scrub_off;		/* its volumes are not scrubbed */
	uint32_t scrub_seconds; /* from the end of a scrub to the next; 0: the engine's default */
	struct catalog_pool_change change;
	bool thick, checksums;	       /* new volumes get them, unless their requests say otherwise */
	bool is_forced;		       /* DESTROYING: with what it holds */
	char undo[CATALOG_TEXT_BYTES]; /* DESTROYING: why it could not be created; "": destroyed on request */
	uint32_t place_count;
	struct catalog_place *places; /* sorted by rank; the catalog's after catalog_add_pool() */
	struct catalog_use *uses;     /* of `places`, in their order; NULL: all are UP since created_ns; likewise */
	struct acl *acl;	      /* who may attach its volumes; likewise */
};

enum catalog_change_kind {
	CATALOG_NO_CHANGE,
	CATALOG_RESIZE,
	CATALOG_RENAME,
	CATALOG_PUBLISH,
	CATALOG_UNPUBLISH,
	CATALOG_MOVE,
	CATALOG_SET_PROP,
};

/* A change of a volume that its engine has not confirmed. */
struct catalog_change {
	enum catalog_change_kind kind;
	uint64_t size_bytes;	      /* RESIZE */
	char text[CATALOG_NQN_BYTES]; /* RENAME: the new name; PUBLISH, UNPUBLISH: the host; "": all hosts; MOVE: why it is
					 undone; SET_PROP: "thick=on" */
	char machine[CATALOG_MACHINE_BYTES]; /* PUBLISH: as of a host */
	enum mgmt_move_state phase;	     /* MOVE: not IDLE */
	struct catalog_place place;	     /* MOVE: to which the volume moves; SETTLING: which it has left */
	uint64_t serial; /* MOVE: of the session that stored the phase; 0: none has. It grows from session to session */
	bool is_drain;	 /* MOVE: it ends with the drain of the rank that the volume leaves */
	uint64_t since_ns;
	bool is_forced;
};

/* Why a new volume was placed on its rank, with the figures of that moment. It stays when the volume is moved. */
struct catalog_placement {
	enum placement_reason reason; /* UNKNOWN: nothing else is set */
	uint32_t rank;		      /* if the volume has another one now, it was moved */
	uint32_t possible;	      /* ranks that could have it */
	uint32_t volumes, published;  /* of the rank */
	uint64_t free_bytes;	      /* that the volume could get there */
	uint64_t operations, bytes;   /* of the last minute; of the rank */
};

/* A host to which a volume is published. */
struct catalog_host {
	char nqn[CATALOG_NQN_BYTES];
	char machine[CATALOG_MACHINE_BYTES]; /* whose agent has published it, and may unpublish it; "": an administrator */
};

struct catalog_volume_record {
	enum mgmt_volume_state state;
	char name[CATALOG_NAME_BYTES];
	char former
		[CATALOG_NAME_BYTES]; /* its name before the latest rename, so that a repeated rename is recognized; "" */
	char uuid[MEMBER_UUID_TEXT_BYTES];
	uint64_t created_ns, since_ns;
	uint64_t size_bytes;
	uint32_t block_bytes;
	bool thick, checksums;
	bool read_only; /* a clone */
	char description[CATALOG_DESCRIPTION_BYTES];
	bool is_forced; /* DESTROYING: disconnect its hosts, destroy its snapshots */
	struct catalog_place place;
	struct catalog_placement placement;
	char origin[CATALOG_FULL_BYTES]; /* a clone: "VOLUME@SNAPSHOT" */
	char undo[CATALOG_TEXT_BYTES];	 /* as of a pool */
	struct catalog_change change;	 /* DESTROYING: it was under way when the destruction was requested */
	uint32_t host_count;
	struct catalog_host *hosts; /* to which it is published; owned by the record */
};

struct mgmt;
struct mgmt_task;

/* The share of a pool on a rank. */
struct catalog_share {
	struct trace_object trace;
	enum mgmt_share_state state; /* as of the record; moved by the function that records the move */
	uint32_t rank;
	bool is_missing;	   /* the latest LIST of its engine lacked the pool */
	struct storage_late *late; /* the management service's; NULL: its engine was not called for what is late */
};

struct catalog_pool {
	struct trace_object trace;
	enum mgmt_pool_state state; /* as of the record; moved by the function that records the move */
	struct catalog_pool_record record;
	uint64_t version;	      /* of its key */
	struct catalog_share *shares; /* of the record's places, in their order */
	TAILQ_HEAD(catalog_volume_list, catalog_volume) volumes;
	uint32_t volume_count;
	struct mgmt_task *task; /* the management service's; NULL: nothing is under way */
	TAILQ_ENTRY(catalog_pool) link;
};

/* Why a volume is still on a rank that is being drained. */
struct catalog_stay {
	uint64_t retry_ns; /* of the next attempt; CLOCK_MONOTONIC */
	uint32_t failures;
	char why[CATALOG_TEXT_BYTES];
};

/* What a volume that was moved away has left on a rank, which must still erase it. The rank does not serve it. */
struct catalog_old_copy {
	TAILQ_ENTRY(catalog_old_copy) link;
	char pool[CATALOG_NAME_BYTES], volume[CATALOG_NAME_BYTES]; /* their names at that time */
	char pool_uuid[MEMBER_UUID_TEXT_BYTES], uuid[MEMBER_UUID_TEXT_BYTES];
	struct catalog_place place;
	uint64_t since_ns; /* not below the serial of the move: engines order requests by it */
	uint64_t version;
	struct mgmt *mgmt; /* of the call; these four: storage/old_copy.c */
	bool is_calling;
	uint32_t failures;
	uint64_t retry_ns; /* CLOCK_MONOTONIC */
};

struct catalog_volume {
	struct trace_object trace;
	enum mgmt_volume_state state;
	struct catalog_volume_record record;
	uint64_t stored_ns; /* when the service stored the record; CLOCK_REALTIME; 0: before its start */
	uint64_t version;
	struct catalog_pool *pool;
	struct mgmt_task *task;
	struct catalog_stay *stay;	  /* NULL: no move off a drained rank has failed */
	bool is_missing;		  /* the latest LIST of its engine lacked it */
	uint64_t move_serial;		  /* of its latest move since the start of the service, or higher; 0: none */
	TAILQ_ENTRY(catalog_volume) link; /* of its pool */
	TAILQ_ENTRY(catalog_volume) name_link, uuid_link;
};

struct catalog {
	struct db *db;					   /* borrowed */
	TAILQ_HEAD(catalog_pool_list, catalog_pool) pools; /* sorted by name */
	uint32_t pool_count, volume_count;
	TAILQ_HEAD(catalog_old_copy_list, catalog_old_copy) old_copies;
	uint32_t old_copy_count;
	TAILQ_HEAD(catalog_bucket, catalog_volume) names[CATALOG_BUCKETS], uuids[CATALOG_BUCKETS];
};

/* Load all records. Errors: -EBADMSG (db_value_bad), -ENOMEM, those of db_scan(). */
MUST_CHECK int catalog_open(struct db *db, struct catalog **catalog_ret, struct fathom_fault *why);
/* Accepts NULL. */
void catalog_close(struct catalog *catalog);

/* By label, or by UUID. NULL: none. */
struct catalog_pool *catalog_find_pool(const struct catalog *catalog, const char *id);
struct catalog_volume *catalog_find_volume(const struct catalog *catalog, const struct catalog_pool *pool,
					   const char *name);
/* NULL: none. */
struct catalog_volume *catalog_find_uuid(const struct catalog *catalog, const char *uuid);
/* NULL: the pool has no share on the rank. */
const struct catalog_place *catalog_pool_place(const struct catalog_pool *pool, uint32_t rank);

/* ---- catalog/share.c: the shares of a pool on its ranks ---- */

/* The use of the record's place `index`. */
struct catalog_use catalog_use(const struct catalog_pool_record *record, uint32_t index);
/* The index of the place with the rank; -1: the pool has no share there. */
int catalog_share_index(const struct catalog_pool *pool, uint32_t rank);
/* Whether volumes may be placed on the rank. */
bool catalog_share_is_up(const struct catalog_pool *pool, uint32_t rank);
/* EXTENDING or REMOVING: the share at `index` is being created or undone. */
bool catalog_share_changes(const struct catalog_pool *pool, uint32_t index);
/* The shares that change, which are all in the same state; 0: none. */
uint32_t catalog_changing_shares(const struct catalog_pool *pool);
/* The state of these; UP: there are none. */
enum mgmt_share_state catalog_changing_state(const struct catalog_pool *pool);
/* "up", "draining" ...: in records and answers. */
const char *catalog_share_word(enum mgmt_share_state state);
/* -1: no such state. */
int catalog_share_state(const char *word);

/* New arrays of places and uses. */
struct catalog_layout {
	struct catalog_place *places;
	struct catalog_use *uses;
	uint32_t count;
};
/*
 * The layout of the pool, with room for `room` more places. catalog_layout_free() frees it, unless catalog_set_layout() has
 * stored it. Errors: -ENOMEM.
 */
MUST_CHECK int catalog_layout(const struct catalog_pool *pool, uint32_t room, struct catalog_layout *layout_ret);
void catalog_layout_free(struct catalog_layout *layout);
/* Add a place, in its order. Its rank has none. */
void catalog_layout_add(struct catalog_layout *layout, const struct catalog_place *place, enum mgmt_share_state state);
/* The place's rank has one, whose member is gone: the new member is to get a share in place of the lost one. */
void catalog_layout_replace(struct catalog_layout *layout, const struct catalog_place *place);
/*
 * Change the state of the place at `index`. ABSENT removes it; but if its share replaces a lost one, that is the pool's
 * again, EXCLUDED.
 */
void catalog_layout_move(struct catalog_layout *layout, uint32_t index, enum mgmt_share_state state);
/* A copy of the record's uses. NULL: out of memory. */
struct catalog_use *catalog_copy_uses(const struct catalog_pool_record *record);
/* Store the layout; takes it if it succeeds. Errors: those of catalog_store_pool(). */
MUST_CHECK int catalog_set_layout(struct catalog *catalog, struct catalog_pool *pool, struct catalog_layout *layout,
				  struct fathom_fault *why);
/* For catalog/catalog.c: shares for `record`, with the trace ids of those that the pool has. NULL: out of memory. */
struct catalog_share *catalog_make_shares(const struct catalog_pool *pool, const struct catalog_pool_record *record);
/* Replace the pool's shares, and move them to the states of its record. */
void catalog_take_shares(struct catalog_pool *pool, struct catalog_share *shares, uint32_t old_count);

/* ---- catalog/old_copy.c: what moved volumes have left ---- */

/* NULL: the rank has no old copy of the volume. */
struct catalog_old_copy *catalog_find_old_copy(const struct catalog *catalog, const char *uuid, uint32_t rank);
/* How many the pool has on the rank. */
uint32_t catalog_count_old_copies(const struct catalog *catalog, const char *pool_uuid, uint32_t rank);
/*
 * Replace the record of a volume, as catalog_store_volume(), and note in the same transaction that `place` has an old copy
 * of it. Errors also: -ENOSPC (catalog_full).
 */
MUST_CHECK int catalog_leave_copy(struct catalog *catalog, struct catalog_volume *volume,
				  const struct catalog_volume_record *next, const struct catalog_place *place,
				  struct fathom_fault *why);
MUST_CHECK int catalog_remove_old_copy(struct catalog *catalog, struct catalog_old_copy *copy, struct fathom_fault *why);
/* For catalog/catalog.c. */
MUST_CHECK int catalog_load_old_copies(struct catalog *catalog, struct fathom_fault *why);
void catalog_drop_old_copies(struct catalog *catalog);

/* The host to which the volume is published. NULL: it is not. */
const struct catalog_host *catalog_find_host(const struct catalog_volume_record *record, const char *host);
bool catalog_has_host(const struct catalog_volume_record *record, const char *host);

/*
 * Add `record`. Takes its `places`, `uses` and `acl`, or its `hosts`, if it succeeds. A pool gets its key. Errors of all
 * functions below:
 * those of db_commit(), -ENOMEM;
 * add: -ENOSPC (catalog_full).
 */
MUST_CHECK int catalog_add_pool(struct catalog *catalog, const struct catalog_pool_record *record,
				struct catalog_pool **pool_ret, struct fathom_fault *why);
MUST_CHECK int catalog_add_volume(struct catalog *catalog, struct catalog_pool *pool,
				  const struct catalog_volume_record *record, struct catalog_volume **volume_ret,
				  struct fathom_fault *why);
/*
 * Replace the record. The state changes to `next->state`, and `since_ns` with it. A volume may get another name, which no
 * other volume of its pool has; a pool another label, which no other pool has. Its key stays. If `hosts`, `acl`, `places`
 * or `uses` are others, they are taken, and the old ones are freed. `also` (NULL: nothing) is one more change of the
 * transaction.
 */
MUST_CHECK int catalog_store_pool(struct catalog *catalog, struct catalog_pool *pool,
				  const struct catalog_pool_record *next, struct fathom_fault *why);
MUST_CHECK int catalog_store_volume(struct catalog *catalog, struct catalog_volume *volume,
				    const struct catalog_volume_record *next, struct fathom_fault *why);
MUST_CHECK int catalog_store_volume_and(struct catalog *catalog, struct catalog_volume *volume,
					const struct catalog_volume_record *next, const struct db_change *also,
					uint64_t *version_ret, struct fathom_fault *why);
/* Remove the pool and its volumes; they must have no task. After an error some of its volumes may be removed. */
MUST_CHECK int catalog_remove_pool(struct catalog *catalog, struct catalog_pool *pool, struct fathom_fault *why);
MUST_CHECK int catalog_remove_volume(struct catalog *catalog, struct catalog_volume *volume, struct fathom_fault *why);

/* ---- catalog/json.c: records as text ---- */

/* The caller frees `*text_ret`. Errors: -ENOMEM. */
MUST_CHECK int catalog_encode_pool(const struct catalog_pool_record *record, char **text_ret);
MUST_CHECK int catalog_encode_volume(const struct catalog_volume_record *record, char **text_ret);
/*
 * Decode all but the name, and of a pool all but the key; its name is "" unless the label was changed. The caller frees
 * `places`, `uses` and `acl`, or `hosts`. Errors: -EBADMSG, -ENOMEM: nothing is to be freed, the rest of the record is
 * undefined.
 */
MUST_CHECK int catalog_decode_pool(const char *text, size_t bytes, struct catalog_pool_record *record_ret);
MUST_CHECK int catalog_decode_volume(const char *text, size_t bytes, struct catalog_volume_record *record_ret);

/* ---- catalog/name.c: names ---- */

/*
 * Check a name: a letter or a digit, then letters, digits, ".", "_" and "-", at most 63 characters, and no UUID. `kind` is
 * "pool", "volume" or "snapshot". Errors: -EINVAL (storage_name_bad).
 */
MUST_CHECK int catalog_check_name(const char *kind, const char *name, struct fathom_fault *why);
/* "nqn." and more, at most 223 characters without blanks. Errors: -EINVAL (nqn_bad). */
MUST_CHECK int catalog_check_nqn(const char *nqn, struct fathom_fault *why);

/* A volume's full name in parts. */
struct catalog_full_name {
	char pool[CATALOG_NAME_BYTES], volume[CATALOG_NAME_BYTES], snapshot[CATALOG_NAME_BYTES];
};
/* Split and check "POOL/VOLUME", or with `has_snapshot` "POOL/VOLUME@SNAPSHOT". Errors: -EINVAL (storage_name_bad). */
MUST_CHECK int catalog_split_name(const char *text, bool has_snapshot, struct catalog_full_name *name_ret,
				  struct fathom_fault *why);

/* A new random UUID. Returns `uuid`, of MEMBER_UUID_TEXT_BYTES. */
const char *catalog_new_uuid(char *uuid);

#endif
