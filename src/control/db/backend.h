/* SPDX-License-Identifier: BSD-2-Clause */
/* backend - the operations of a database. db.c implements limits, watches and leases on top of them. */
#ifndef CONTROL_DB_BACKEND_H
#define CONTROL_DB_BACKEND_H

#include "control/db/db.h"

struct db_backend {
	void (*close)(struct db *db);
	int (*scan)(struct db *db, const char *prefix, bool is_one, db_row_fn row, void *ctx, struct fathom_fault *why);
	int (*commit)(struct db *db, const struct db_change *changes, size_t count,
		      struct fathom_fault *why); /* sets `revision` */
	int (*copy_begin)(struct db *db, const char *path, struct db_copy **copy_ret, struct fathom_fault *why);
	int (*copy_step)(struct db_copy *copy, int pages, bool *is_done_ret, struct fathom_fault *why);
	int (*copy_finish)(struct db_copy *copy, struct fathom_fault *why);
	void (*copy_end)(struct db_copy *copy);
};

/* The first member in the structure of a backend's copy. */
struct db_copy {
	const struct db_backend *backend;
};

/* The first member in the structure of a backend. */
struct db {
	const struct db_backend *backend;
	uint64_t revision;
	struct db_health health;
	struct {
		char prefix[DB_KEY_BYTES_MAX];
		db_watch_fn changed;
		void *ctx;
	} watches[DB_WATCHES_MAX];
	size_t watch_count;
};

#endif
