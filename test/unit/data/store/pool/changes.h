/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * changes - every kind of change of a storage tree, on the pool p, its volumes a to d and their snapshots s, t and g, and
 * on the volume m, which is a copy that comes from another engine, with its snapshot i.
 */
#ifndef TEST_UNIT_DATA_STORE_POOL_CHANGES_H
#define TEST_UNIT_DATA_STORE_POOL_CHANGES_H

#include "contents.h"

enum op {
	CREATE_POOL,
	UPDATE_POOL,
	REMOVE_POOL,
	CREATE_THIN,
	CREATE_THICK,
	PUBLISH,
	PUBLISH_MORE,
	UNPUBLISH,
	RENAME,
	GROW,
	SHRINK,
	REMOVE,
	WRITE,
	SNAPSHOT,
	SNAPSHOT_S,
	SNAPSHOT_GROUP,
	REMOVE_SNAPSHOT,
	CLONE,
	RESTORE,
	MAKE_THICK,
	ALLOCATE,
	MARK_SHARING,
	UNSHARE,
	DELETE_TRASH,
	COMMON_OPS,
	REVERT = COMMON_OPS, /* undo a restore that was committed */
	PREPARE_COPY,
	COPY_SNAPSHOT,
	ACCEPT_COPY,
	DISCARD_COPY,
	GIVE_AWAY,
	TAKE_BACK,
	ABANDON, /* begin a snapshot, a clone and a restore, and give them up */
	TRY_REFLINKS,
	OP_COUNT,
};

extern const char *const op_names[OP_COUNT];

/* New volumes but b have checksums. */
extern bool changes_with_sums;

/* Write two checksums of volume a; the second one is behind its end, as after it became smaller. */
void write_sums(struct contents *now, struct memory_fs *memory);

/* What a change goes on with. */
struct begun {
	struct volume_record record;
	struct volume_build build;
};

/* What comes before the change. Returns an error if the change is not possible in this state. */
int begin_change(enum op op, struct contents *now, struct memory_fs *memory, struct begun *begun_ret);
/* Make the change on the open tree. Returns what it returned; an error if it is not possible in this state. */
int make_change(enum op op, struct contents *now, struct memory_fs *memory, struct begun *begun);
/* Both. */
int change(enum op op, struct contents *now, struct memory_fs *memory);

#endif
