/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store - the storage of an engine (docs/formats/storage.md) as `fathom ddb` sees it: read without an engine, and without
 * changing anything. Damage is a finding, not an error, so that everything that can be read is shown.
 *
 *     store_open() -> store_read() -> objects (pools, volumes, snapshots in the order of their paths) and findings
 *
 * A finding has a repair if this program can make one. Notes are findings that the next start of an engine completes by
 * itself: what a crash has left. All others are damage.
 *
 *	store.c		open, objects, findings
 *	walk.c		reads the tree
 *	check.c		what no single file shows: equal UUIDs, promised space, groups in commit
 *	change.c	changes: move to the trash, repair, replace a record
 *	data.c		dump and load the data of a volume
 *	sums.c		compares data with their checksums
 *
 * Changes need the lock of the storage, which an engine holds as long as it runs. A reader does not hold it: an engine may
 * start beside it. Then findings may be changes under way. Thread: one. Out of memory fails a must().
 */
#ifndef CMD_FATHOM_DDB_STORE_H
#define CMD_FATHOM_DDB_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"
#include "base/must.h"
#include "data/store/pool/record.h"

enum { STORE_DIGEST_TEXT_BYTES = 65, STORE_NONE = -1 };

enum store_kind { STORE_POOL, STORE_VOLUME, STORE_SNAPSHOT };

struct store_object {
	enum store_kind kind;
	char *path;    /* below the root: "pools/p1/volumes/db" */
	char *name;    /* for people: "p1/db" */
	int parent;    /* index of the pool or the volume, or STORE_NONE */
	bool is_read;  /* the record is valid */
	bool has_data; /* the data file exists; its sizes are valid */
	uint64_t data_bytes, allocated_bytes;
	union {
		struct pool_record pool;
		struct volume_record volume;
		struct snapshot_record snapshot;
	} record; /* valid if is_read */
};

/* name of the problem, whether it is a note, and what the repair does (NULL: nothing) */
#define STORE_PROBLEMS(X)                                                                                                  \
	X(RECORD_MISSING, "record-missing", false, NULL)                                                                   \
	X(RECORD_DAMAGED, "record-damaged", false, NULL)                                                                   \
	X(RECORD_CHECKSUM, "record-checksum", false, "write the record again, with the checksum of its values")            \
	X(RECORD_NEWER, "record-newer", false, NULL)                                                                       \
	X(DATA_MISSING, "data-missing", false, NULL)                                                                       \
	X(DATA_SHORT, "data-short", false, "extend the data file; what is missing reads as zeroes")                        \
	X(DATA_LONG, "data-long", true, "cut the data file to the size of the record")                                     \
	X(SUMS_MISSING, "checksums-missing", false, "create the file; the start of an engine computes its checksums")      \
	X(OLD_GENERATION, "old-generation", true, "move it to the trash")                                                  \
	X(FOLDER_MISSING, "folder-missing", false, "create the folder")                                                    \
	X(STRAY, "stray", false, "move it to the trash")                                                                   \
	X(FOREIGN_SNAPSHOT, "foreign-snapshot", false, NULL)                                                               \
	X(UUID_TWICE, "uuid-twice", false, NULL)                                                                           \
	X(POOL_FULL, "pool-over-limit", false, NULL)                                                                       \
	X(SPACE_PROMISED, "space-promised", false, NULL)                                                                   \
	X(PENDING, "pending", true, "move it to the trash")                                                                \
	X(COMMIT, "commit", true, NULL)                                                                                    \
	X(COMMIT_LEFT, "commit-left", false, "move it to the trash")                                                       \
	X(TRASH, "trash", true, NULL)                                                                                      \
	X(UNREADABLE, "unreadable", false, NULL)

#define STORE_PROBLEM_ROW(name, text, is_note, repair) STORE_##name,
enum store_problem { STORE_PROBLEMS(STORE_PROBLEM_ROW) STORE_PROBLEM_COUNT };
#undef STORE_PROBLEM_ROW

struct store_finding {
	enum store_problem problem;
	char *path;	     /* below the root */
	char *text;	     /* what is wrong, with values */
	uint64_t size_bytes; /* of DATA_SHORT and DATA_LONG: the size of the record */
};

struct store_space {
	uint64_t total_bytes, free_bytes, kept_bytes, promised_bytes, allocated_bytes;
};

struct store {
	char *root_path;
	int root;	  /* folder */
	bool is_writable; /* this program holds the lock */
	bool is_in_use;	  /* an engine held the lock when the storage was opened */
	struct store_object *objects;
	size_t object_count;
	struct store_finding *findings;
	size_t finding_count;
	struct store_space space;
};

const char *store_problem_name(enum store_problem problem);
bool store_problem_is_note(enum store_problem problem);
const char *store_problem_repair(enum store_problem problem); /* NULL: none */

/*
 * Open the storage at the folder `root`, and read it. With `write`, take its lock. Errors (explained): -EBUSY (an engine
 * has it), -ENOENT, -ENOTDIR, -EACCES, -EINVAL (no storage: it has no folder "pools") ...
 */
MUST_CHECK int store_open(const char *root, bool write, struct store **store_ret, struct fathom_fault *why);
void store_close(struct store *store); /* Accepts NULL. */

/* Forget objects and findings, and read the storage again. */
void store_read(struct store *store);
/* Findings that are damage, or notes. */
size_t store_count(const struct store *store, bool notes);

/*
 * The object at `name`: "p1", "p1/db", "p1/db/s1"; a component "[N]" is the Nth of its folder, from 0. Returns the index.
 * Errors (explained): -ENOENT.
 */
MUST_CHECK int store_find(const struct store *store, const char *name, struct fathom_fault *why);

/* The size that the record states; the record must be valid. */
uint64_t store_size_of(const struct store_object *object);

/* The text of the record's file, the caller's to free. Errors (explained). */
MUST_CHECK int store_read_record(const struct store *store, const struct store_object *object, char **text_ret,
				 struct fathom_fault *why);

/* ---- changes; the store must be writable. Each is durable. Then read the store again. Errors (explained). ---- */

/* Move what is at `path` (below the root) to the trash. The engine's start deletes it. */
MUST_CHECK int store_trash(struct store *store, const char *path, struct fathom_fault *why);
/* Make the repair of a finding that has one. */
MUST_CHECK int store_repair(struct store *store, const struct store_finding *finding, struct fathom_fault *why);
/* Replace the record by `text`: values in the form of the file; its checksum may be wrong, and becomes right. */
MUST_CHECK int store_write_record(struct store *store, const struct store_object *object, const char *text, size_t bytes,
				  struct fathom_fault *why);

/* ---- data ---- */

struct store_copy {
	uint64_t size_bytes, written_bytes;   /* of the data; of them written, the rest are holes */
	char sha256[STORE_DIGEST_TEXT_BYTES]; /* of all bytes, holes as zeroes: as sha256sum prints it */
};

/*
 * Copy the data of a volume or a snapshot to the new sparse file `to`. A data file that is shorter than the record says
 * reads as zeroes behind its end. Errors (explained): -EEXIST, -ENOENT, -EIO, -ENOSPC ...
 */
MUST_CHECK int store_dump(const struct store *store, const struct store_object *object, const char *to,
			  struct store_copy *copy_ret, struct fathom_fault *why);
/*
 * Replace the data of a volume by the file `from`, which has the volume's size, as its next generation: after a crash the
 * volume has its old data or the new. `sha256`: the digest that the file must have, or NULL. Errors (explained): -EBADMSG
 * (another digest), -EINVAL (size, or the record is damaged), -EIO, -ENOSPC ...
 */
MUST_CHECK int store_load(struct store *store, const struct store_object *object, const char *from, const char *sha256,
			  struct store_copy *copy_ret, struct fathom_fault *why);

/* ---- checksums ---- */

/* Whether the record, which is valid, says that there is a file of checksums. */
bool store_has_sums(const struct store_object *object);

struct store_sums {
	uint64_t blocks, mismatches; /* that were compared, of 4096 bytes; of these, that do not match */
	uint64_t suspect_blocks;     /* not compared: a crash interrupted writes of their regions */
};
/* Adjacent blocks do not match. */
typedef void (*store_mismatch_fn)(void *ctx, uint64_t first_block, uint64_t block_count);
/*
 * Compare the data of an object that has checksums. `mismatch` is called in the order of the blocks. Errors (explained):
 * -ENOENT, -EIO ...
 */
MUST_CHECK int store_verify_data(const struct store *store, const struct store_object *object, store_mismatch_fn mismatch,
				 void *ctx, struct store_sums *sums_ret, struct fathom_fault *why);

#endif
