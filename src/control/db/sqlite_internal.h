/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files of the SQLite backend. */
#ifndef CONTROL_DB_SQLITE_INTERNAL_H
#define CONTROL_DB_SQLITE_INTERNAL_H

#include <sqlite3.h>

#include "control/db/backend.h"

enum sqlite_statement {
	STATEMENT_GET,
	STATEMENT_SCAN,
	STATEMENT_SCAN_ALL,
	STATEMENT_PUT,
	STATEMENT_DELETE,
	STATEMENT_GET_REVISION,
	STATEMENT_SET_REVISION,
	STATEMENTS
};

struct sqlite_db {
	struct db db;
	char *path;
	sqlite3 *handle;
	sqlite3_stmt *statements[STATEMENTS];
};

/* Convert the handle's latest error into a fault. `operation` follows "could not" in its text. Returns the error. */
MUST_CHECK int sqlite_fault(const struct sqlite_db *sqlite, const char *operation, struct fathom_fault *why);

/* Implement the functions of db.h with the same names. */
MUST_CHECK int sqlite_copy_begin(struct db *db, const char *path, struct db_copy **copy_ret, struct fathom_fault *why);
MUST_CHECK int sqlite_copy_step(struct db_copy *copy, int pages, bool *is_done_ret, struct fathom_fault *why);
MUST_CHECK int sqlite_copy_finish(struct db_copy *copy, struct fathom_fault *why);
void sqlite_copy_end(struct db_copy *copy);

#endif
