/* SPDX-License-Identifier: BSD-2-Clause */
#include "control/db/sqlite.h"

#include <errno.h>
#include <fcntl.h>
#include <isa-l/crc.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/inject/inject.h"
#include "control/db/backend.h"
#include "control/db/sqlite_internal.h"
#include "control/fault/fault.h"

enum { APPLICATION_ID = 0x4654686d, SCHEMA_VERSION = 1 };

/* migrations[n] converts schema n to schema n + 1. */
static const char *const migrations[] = {
	"CREATE TABLE kv(key TEXT PRIMARY KEY NOT NULL, version INTEGER NOT NULL, sum INTEGER NOT NULL, value BLOB NOT "
	"NULL) "
	"WITHOUT ROWID;"
	"CREATE TABLE meta(name TEXT PRIMARY KEY NOT NULL, value INTEGER NOT NULL) WITHOUT ROWID;"
	"INSERT INTO meta VALUES('revision', 0);",
};
static_assert(ARRAY_COUNT(migrations) == SCHEMA_VERSION, "");

static const char *const statements[] = {
	[STATEMENT_GET] = "SELECT key, version, sum, value FROM kv WHERE key = ?1",
	[STATEMENT_SCAN] = "SELECT key, version, sum, value FROM kv WHERE key >= ?1 AND key < ?2 ORDER BY key",
	[STATEMENT_SCAN_ALL] = "SELECT key, version, sum, value FROM kv ORDER BY key",
	[STATEMENT_PUT] = "INSERT OR REPLACE INTO kv VALUES(?1, ?2, ?3, ?4)",
	[STATEMENT_DELETE] = "DELETE FROM kv WHERE key = ?1",
	[STATEMENT_GET_REVISION] = "SELECT value FROM meta WHERE name = 'revision'",
	[STATEMENT_SET_REVISION] = "UPDATE meta SET value = ?1 WHERE name = 'revision'",
};
static_assert(ARRAY_COUNT(statements) == STATEMENTS, "");
static_assert(DB_VALUE_BYTES_MAX <= INT_MAX, "SQLite takes the length of a value as an int");
static_assert(offsetof(struct sqlite_db, db) == 0, "a backend's structure begins with the database");

static struct sqlite_db *sqlite_of(struct db *db)
{
	return container_of(db, struct sqlite_db, db);
}

int sqlite_fault(const struct sqlite_db *sqlite, const char *operation, struct fathom_fault *why)
{
	int code = sqlite3_errcode(sqlite->handle) & 0xff;
	const char *text = sqlite3_errmsg(sqlite->handle);

	switch (code) {
	case SQLITE_NOMEM:
		return fault_db_no_memory(why, sqlite->path);
	case SQLITE_CORRUPT:
		return fault_db_damaged(why, sqlite->path, text);
	case SQLITE_NOTADB:
		return fault_db_damaged(why, sqlite->path, "its head is not that of a database");
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return fault_db_in_use(why, sqlite->path);
	case SQLITE_FULL:
		return fault_db_full(why, sqlite->path);
	default:
		return fault_db_failed(why, sqlite->path, operation, text);
	}
}

/* Checksum of key, version and value, so that a value stored under a wrong key is detected, too. */
static uint32_t row_checksum(const char *key, uint64_t version, const void *value, size_t bytes)
{
	uint32_t sum = 0xffffffff;

	must(bytes <= INT_MAX);
	sum = crc32_iscsi((unsigned char *)(uintptr_t)key, (int)strlen(key) + 1, sum);
	sum = crc32_iscsi((unsigned char *)&version, sizeof(version), sum);
	return bytes ? crc32_iscsi((unsigned char *)(uintptr_t)value, (int)bytes, sum) : sum;
}

static int exec_sql(struct sqlite_db *sqlite, const char *sql, const char *operation, struct fathom_fault *why)
{
	return sqlite3_exec(sqlite->handle, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : sqlite_fault(sqlite, operation, why);
}

/* Run `sql`, which returns one integer. */
static int query_integer(struct sqlite_db *sqlite, const char *sql, int64_t *number_ret, struct fathom_fault *why)
{
	sqlite3_stmt *statement = NULL;
	int error = 0;

	if (sqlite3_prepare_v2(sqlite->handle, sql, -1, &statement, NULL) != SQLITE_OK ||
	    sqlite3_step(statement) != SQLITE_ROW)
		error = sqlite_fault(sqlite, "be read", why);
	else
		*number_ret = sqlite3_column_int64(statement, 0);
	sqlite3_finalize(statement);
	return error;
}

static void close_sqlite(struct db *db)
{
	struct sqlite_db *sqlite = sqlite_of(db);

	for (size_t i = 0; i < STATEMENTS; i++)
		sqlite3_finalize(sqlite->statements[i]);
	must(sqlite3_close(sqlite->handle) == SQLITE_OK);
	free(sqlite->path);
	free(sqlite);
}

/* Verify the checksum of the current row of `statement` and pass it to `row`. */
static int verify_row(struct sqlite_db *sqlite, sqlite3_stmt *statement, db_row_fn row, void *ctx, struct fathom_fault *why)
{
	const char *key = (const char *)sqlite3_column_text(statement, 0);
	uint64_t version = (uint64_t)sqlite3_column_int64(statement, 1);
	const void *value = sqlite3_column_blob(statement, 3);
	size_t bytes = (size_t)sqlite3_column_bytes(statement, 3);

	must(sqlite3_column_count(statement) == 4);
	if (!key)
		return fault_db_no_memory(why, sqlite->path);
	if (row_checksum(key, version, value, bytes) != (uint64_t)sqlite3_column_int64(statement, 2)) {
		char reason[DB_KEY_BYTES_MAX + 64];

		snprintf(reason, sizeof(reason), "the checksum of \"%s\" is wrong", key);
		return fault_db_damaged(why, sqlite->path, reason);
	}
	return row(ctx, key, value ? value : "", bytes, version);
}

/*
 * Compute the exclusive upper bound, in byte order, of all keys that begin with `prefix`, into `end` of DB_KEY_BYTES_MAX.
 * Keys are UTF-8, so the last byte of a prefix is below 0xff. false: no upper bound (an empty prefix).
 */
static bool prefix_end(const char *prefix, char *end)
{
	size_t bytes = strlen(prefix);

	must(bytes < DB_KEY_BYTES_MAX);
	memcpy(end, prefix, bytes + 1);
	if (bytes == 0 || (unsigned char)end[bytes - 1] == 0xff)
		return false;
	end[bytes - 1] = (char)((unsigned char)end[bytes - 1] + 1);
	must(strcmp(prefix, end) < 0);
	return true;
}

static int scan_rows(struct db *db, const char *prefix, bool is_one, db_row_fn row, void *ctx, struct fathom_fault *why)
{
	struct sqlite_db *sqlite = sqlite_of(db);
	char end[DB_KEY_BYTES_MAX];
	bool has_end = !is_one && prefix_end(prefix, end);
	sqlite3_stmt *statement = sqlite->statements[is_one    ? STATEMENT_GET
						     : has_end ? STATEMENT_SCAN
							       : STATEMENT_SCAN_ALL];
	int result, error = 0;

	must(is_one || has_end || *prefix == '\0');
	must(!sqlite3_stmt_busy(statement)); /* `row` does not scan again */
	if ((is_one || has_end) && sqlite3_bind_text(statement, 1, prefix, -1, SQLITE_STATIC) != SQLITE_OK)
		error = sqlite_fault(sqlite, "be read", why);
	if (has_end && sqlite3_bind_text(statement, 2, end, -1, SQLITE_STATIC) != SQLITE_OK)
		error = sqlite_fault(sqlite, "be read", why);
	while (!error) {
		result = sqlite3_step(statement);
		if (result != SQLITE_ROW) {
			error = result == SQLITE_DONE ? 0 : sqlite_fault(sqlite, "be read", why);
			break;
		}
		error = verify_row(sqlite, statement, row, ctx, why);
	}
	sqlite3_reset(statement);
	return error;
}

/* An injected error as the fault that SQLite would cause. */
static int injected_fault(const struct sqlite_db *sqlite, int error, const char *operation, struct fathom_fault *why)
{
	if (error == 0)
		return 0;
	return error == -ENOSPC ? fault_db_full(why, sqlite->path)
				: fault_db_failed(why, sqlite->path, operation, strerror(-error));
}

static int scan_for_caller(struct db *db, const char *prefix, bool is_one, db_row_fn row, void *ctx,
			   struct fathom_fault *why)
{
	int error = injected_fault(sqlite_of(db), inject(INJECT_DB_READ), "be read", why);

	return error ? error : scan_rows(db, prefix, is_one, row, ctx, why);
}

static int read_version(void *ctx, const char *key, const void *value, size_t bytes, uint64_t version)
{
	*(uint64_t *)ctx = version;
	return 0;
}

static int step_once(struct sqlite_db *sqlite, enum sqlite_statement which, struct fathom_fault *why)
{
	int result, error;

	must(which == STATEMENT_PUT || which == STATEMENT_DELETE || which == STATEMENT_SET_REVISION);
	must(!sqlite3_stmt_busy(sqlite->statements[which]));
	result = sqlite3_step(sqlite->statements[which]);
	error = result == SQLITE_DONE ? 0 : sqlite_fault(sqlite, "be written", why);
	sqlite3_reset(sqlite->statements[which]);
	sqlite3_clear_bindings(sqlite->statements[which]);
	return error;
}

static int apply_change(struct sqlite_db *sqlite, const struct db_change *change, uint64_t revision,
			struct fathom_fault *why)
{
	sqlite3_stmt *put = sqlite->statements[STATEMENT_PUT];
	uint64_t version = DB_VERSION_NONE;
	int error = scan_rows(&sqlite->db, change->key, true, read_version, &version, why);

	must(error || version <= revision); /* of an older transaction, or of an earlier change of this one */
	if (error)
		return error;
	if (change->expected != DB_VERSION_ANY && change->expected != version)
		return fault_db_conflict(why, change->key, change->expected, version);
	if (change->what == DB_CHECK)
		return 0;
	if (change->what == DB_DELETE) {
		sqlite3_bind_text(sqlite->statements[STATEMENT_DELETE], 1, change->key, -1, SQLITE_STATIC);
		return step_once(sqlite, STATEMENT_DELETE, why);
	}
	sqlite3_bind_text(put, 1, change->key, -1, SQLITE_STATIC);
	sqlite3_bind_int64(put, 2, (int64_t)revision);
	sqlite3_bind_int64(put, 3, row_checksum(change->key, revision, change->value, change->bytes));
	sqlite3_bind_blob(put, 4, change->value, (int)change->bytes, SQLITE_STATIC);
	return step_once(sqlite, STATEMENT_PUT, why);
}

static int commit_changes(struct db *db, const struct db_change *changes, size_t count, struct fathom_fault *why)
{
	struct sqlite_db *sqlite = sqlite_of(db);
	uint64_t revision = db->revision + 1;
	int error = exec_sql(sqlite, "BEGIN IMMEDIATE", "begin a transaction", why);

	if (error)
		return error;
	for (size_t i = 0; !error && i < count; i++)
		error = apply_change(sqlite, &changes[i], revision, why);
	if (!error) {
		sqlite3_bind_int64(sqlite->statements[STATEMENT_SET_REVISION], 1, (int64_t)revision);
		error = step_once(sqlite, STATEMENT_SET_REVISION, why);
	}
	if (!error)
		error = injected_fault(sqlite, inject(INJECT_DB_WRITE), "be written", why);
	if (!error)
		error = exec_sql(sqlite, "COMMIT", "commit", why);
	must(error || sqlite3_get_autocommit(sqlite->handle)); /* the transaction has ended */
	if (!error)
		db->revision = revision;
	else if (!sqlite3_get_autocommit(sqlite->handle))
		sqlite3_exec(sqlite->handle, "ROLLBACK", NULL, NULL, NULL); /* report only the first error */
	return error;
}

static const struct db_backend backend = { close_sqlite,     scan_for_caller,	 commit_changes, sqlite_copy_begin,
					   sqlite_copy_step, sqlite_copy_finish, sqlite_copy_end };

/* Check that the file is ours or empty, and that this program knows its schema version. */
static int check_head(struct sqlite_db *sqlite, int64_t *schema_ret, struct fathom_fault *why)
{
	int64_t application = 0, tables = 0;
	int error = query_integer(sqlite, "PRAGMA application_id", &application, why);

	if (!error)
		error = query_integer(sqlite, "SELECT count(*) FROM sqlite_schema", &tables, why);
	if (!error)
		error = query_integer(sqlite, "PRAGMA user_version", schema_ret, why);
	if (error)
		return error;
	if (application != APPLICATION_ID && (application != 0 || tables != 0 || *schema_ret != 0))
		return fault_db_foreign(why, sqlite->path);
	if (*schema_ret < 0)
		return fault_db_damaged(why, sqlite->path, "its schema version is negative");
	if (*schema_ret > SCHEMA_VERSION)
		return fault_db_newer(why, sqlite->path, (uint32_t)*schema_ret, SCHEMA_VERSION);
	return 0;
}

static int check_integrity(struct sqlite_db *sqlite, struct fathom_fault *why)
{
	sqlite3_stmt *statement = NULL;
	const char *said = NULL;
	int error = 0;

	if (sqlite3_prepare_v2(sqlite->handle, "PRAGMA integrity_check(1)", -1, &statement, NULL) == SQLITE_OK &&
	    sqlite3_step(statement) == SQLITE_ROW)
		said = (const char *)sqlite3_column_text(statement, 0);
	if (!said)
		error = sqlite_fault(sqlite, "be checked", why);
	else if (strcmp(said, "ok") != 0)
		error = fault_db_damaged(why, sqlite->path, said);
	sqlite3_finalize(statement);
	return error;
}

static int migrate_schema(struct sqlite_db *sqlite, int64_t schema, struct fathom_fault *why)
{
	int error = 0;

	must(schema >= 0 && schema <= SCHEMA_VERSION); /* check_head() has rejected others */
	for (; !error && schema < SCHEMA_VERSION; schema++) {
		char *sql;

		if (asprintf(&sql, "BEGIN IMMEDIATE; %s PRAGMA application_id = %d; PRAGMA user_version = %d; COMMIT",
			     migrations[schema], APPLICATION_ID, (int)schema + 1) < 0)
			return fault_db_no_memory(why, sqlite->path);
		error = exec_sql(sqlite, sql, "be made", why);
		free(sql);
	}
	return error;
}

static int check_row_version(void *ctx, const char *key, const void *value, size_t bytes, uint64_t version)
{
	/* a row newer than the revision counter: the counter is damaged */
	return version > *(const uint64_t *)ctx ? -EBADMSG : 0;
}

static int prepare_statements(struct sqlite_db *sqlite, struct fathom_fault *why)
{
	int64_t revision;
	int error = 0;

	for (size_t i = 0; !error && i < STATEMENTS; i++) {
		if (sqlite3_prepare_v3(sqlite->handle, statements[i], -1, SQLITE_PREPARE_PERSISTENT, &sqlite->statements[i],
				       NULL) != SQLITE_OK)
			error = sqlite_fault(sqlite, "be read", why);
	}
	if (!error)
		error = query_integer(sqlite, statements[STATEMENT_GET_REVISION], &revision, why);
	if (error)
		return error;
	sqlite->db.revision = (uint64_t)revision;
	error = scan_rows(&sqlite->db, "", false, check_row_version, &sqlite->db.revision, why);
	if (error == -EBADMSG && (!why || why->code != FAULT_DB_DAMAGED))
		error = fault_db_damaged(why, sqlite->path, "a record is newer than the latest revision");
	return error;
}

static int set_up_database(struct sqlite_db *sqlite, struct fathom_fault *why)
{
	int64_t schema = 0;
	int error;

	sqlite3_extended_result_codes(sqlite->handle, 1);
	/* the first access locks the file until close: other processes are excluded, and no shared memory is needed */
	error = exec_sql(sqlite, "PRAGMA locking_mode = EXCLUSIVE", "be locked", why);
	if (!error)
		error = check_head(sqlite, &schema, why);
	if (!error)
		error = exec_sql(sqlite, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; BEGIN IMMEDIATE; COMMIT",
				 "be locked", why);
	if (!error)
		error = check_integrity(sqlite, why);
	if (!error)
		error = migrate_schema(sqlite, schema, why);
	return error ? error : prepare_statements(sqlite, why);
}

int db_open_sqlite(const char *path, struct db **db_ret, struct fathom_fault *why)
{
	struct sqlite_db *sqlite = calloc(1, sizeof(*sqlite));
	int fd, error = 0;

	if (!sqlite)
		return fault_db_no_memory(why, path);
	sqlite->db.backend = &backend;
	sqlite->path = strdup(path);
	if (!sqlite->path) {
		free(sqlite);
		return fault_db_no_memory(why, path);
	}
	/* create the file here with mode 0600: SQLite would make it world-readable */
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		error = fault_db_failed(why, path, "be opened", strerror(errno));
	else
		close(fd);
	if (!error &&
	    sqlite3_open_v2(path, &sqlite->handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
		error = sqlite->handle ? sqlite_fault(sqlite, "be opened", why) : fault_db_no_memory(why, path);
	if (!error)
		error = set_up_database(sqlite, why);
	if (error) {
		close_sqlite(&sqlite->db);
		return error;
	}
	*db_ret = &sqlite->db;
	return 0;
}
