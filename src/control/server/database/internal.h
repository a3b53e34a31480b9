/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * database, internal.
 *
 *	database.c	opening, closing
 *	copy.c		one copy, in steps or at once
 *	daily_copies.c	copies beside the database
 *	backup.c	copies on request
 */
#ifndef CONTROL_SERVER_DATABASE_INTERNAL_H
#define CONTROL_SERVER_DATABASE_INTERNAL_H

#include "base/list.h"
#include "control/db/db.h"
#include "base/reactor/worker.h"
#include "control/server/database/database.h"

struct server_database {
	struct server *server;
	struct db *db;
	LIST_HEAD(, database_copy) copies; /* under way */
	struct deadline daily_due;
	struct daily_copy *daily; /* NULL: none is under way */
	uint64_t copied_revision; /* of the last daily copy */
};

/* A copy of the database under way. The caller's storage, zeroed except the functions; lent until `ended`. */
struct database_copy {
	void (*written)(struct database_copy *copy); /* complete; on a worker thread or in copy_at_once(); may be NULL */
	void (*ended)(struct database_copy *copy);   /* on the control thread */
	int error;				     /* with `why`; -ECANCELED: the server is leaving */
	struct fathom_fault why;
	uint64_t revision; /* of the copy, if there is no error */
	struct server_database *database;
	/* copy.c's */
	LIST_ENTRY(database_copy) link;
	struct worker_job job;
	struct deadline next;
	struct db_copy *step;
	const char *path;
	uint64_t began;
	bool is_finishing; /* a worker thread waits for the disk */
};

/* `copy` and `path` are lent until `ended`, later. On an error, also in `copy`, `ended` is not called. */
MUST_CHECK int copy_begin(struct server_database *database, struct database_copy *copy, const char *path);
/* The same, blocking: `ended` is called before it returns. */
MUST_CHECK int copy_at_once(struct server_database *database, struct database_copy *copy, const char *path);
/* End all copies with -ECANCELED. Their worker threads must have ended. */
void copy_cancel_all(struct server_database *database);

/* Check after database_copy_after, and then each day, whether the database has changed, and copy it. Errors are logged. */
void daily_copies_begin(struct server_database *database);
/* Make the last daily copy now, blocking, if the database has changed. */
void daily_copy_at_end(struct server_database *database);

#endif
