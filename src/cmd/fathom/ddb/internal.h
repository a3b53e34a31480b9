/* SPDX-License-Identifier: BSD-2-Clause */
/* store, internal: what its files share. */
#ifndef CMD_FATHOM_DDB_INTERNAL_H
#define CMD_FATHOM_DDB_INTERNAL_H

#include <stdio.h>

#include "cmd/fathom/ddb/store.h"

enum { STORE_PATH_BYTES_MAX = 1024, STORE_UUID_NAME_BYTES = 37, STORE_DATA_NAME_BYTES = 16 };

/* ---- store.c ---- */

/* Add an object; its index. Copies `path`. */
int store_add_object(struct store *store, enum store_kind kind, int parent, const char *path, const char *name);
/* Add a finding. Copies all texts. */
void store_add_finding(struct store *store, enum store_problem problem, const char *path, uint64_t size_bytes,
		       const char *format, ...) PRINTF_LIKE(5, 6);

/* Names of a folder, sorted. */
struct store_names {
	char **names;
	size_t count;
};

/* Returns 0 or -errno. `folder` stays the caller's. */
MUST_CHECK int store_list(int folder, struct store_names *names_ret);
void store_free_names(struct store_names *names);

/* Open the folder `name` in the folder `at`; no symbolic links. Returns the descriptor or -errno. */
MUST_CHECK int store_open_folder(int at, const char *name);
/* Open the folder that contains `path` (below the root). `last_ret` is its last component, within `path`. */
MUST_CHECK int store_open_parent(const struct store *store, const char *path, const char **last_ret);
/* Open the file or folder at `path` (below the root) with `flags` of open(2). Returns the descriptor or -errno. */
MUST_CHECK int store_open_path(const struct store *store, const char *path, int flags);
/* Read a file of at most POOL_RECORD_BYTES_MAX. `text_ret` is the caller's, and ends with a NUL. Returns 0 or -errno. */
MUST_CHECK int store_read_text(int folder, const char *name, char **text_ret, size_t *bytes_ret);

/* "pool.json" ..., and "data.3" or "data". */
const char *store_record_name(enum store_kind kind);
void store_data_name(const struct store_object *object, char name_ret[STORE_DATA_NAME_BYTES]);

/* ---- walk.c ---- */

/* Decode into `object`. Errors (explained) as *_record_decode(). */
MUST_CHECK int store_decode(struct store_object *object, const char *text, size_t bytes, struct fathom_fault *why);
/*
 * The same text with the checksum of its values; the caller's to free. Errors (explained): -EBADMSG (no JSON of such a
 * record).
 */
MUST_CHECK int store_resum(enum store_kind kind, const char *text, size_t bytes, char **text_ret, size_t *bytes_ret,
			   struct fathom_fault *why);
void store_walk(struct store *store);

/* ---- check.c ---- */

void store_check(struct store *store);

/* ---- change.c ---- */

/* A name for pending and the trash. */
void store_new_name(char name_ret[STORE_UUID_NAME_BYTES]);
/* -EROFS, explained, if the store is not writable. */
MUST_CHECK int store_must_be_writable(const struct store *store, struct fathom_fault *why);
/* Write `text` to the file `name` in `folder`, durable and atomic. */
MUST_CHECK int store_replace_file(struct store *store, int folder, const char *name, const char *text, size_t bytes,
				  struct fathom_fault *why);

/* Create the file of checksums at `path`, of a volume of `size_bytes`; an engine computes the checksums. */
MUST_CHECK int store_make_sums(struct store *store, const char *path, uint64_t size_bytes, struct fathom_fault *why);
/* The name of the file of checksums, which the object has. */
void store_sums_name(const struct store_object *object, char name_ret[STORE_DATA_NAME_BYTES]);

#endif
