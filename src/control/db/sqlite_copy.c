/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Copy the database while it is in use, and restore a copy. Both write a temporary file next to the destination and rename
 * it when it is complete and synced.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/file.h"
#include "control/db/sqlite.h"
#include "control/db/sqlite_internal.h"
#include "control/fault/fault.h"

enum { PATH_BYTES_MAX = 4096, COPY_BYTES = 65536, ASIDE_MAX = 1000 };

static int make_path(char *to, const char *path, const char *ending, struct fathom_fault *why)
{
	if ((size_t)snprintf(to, PATH_BYTES_MAX, "%s%s", path, ending) < PATH_BYTES_MAX)
		return 0;
	return fault_db_failed(why, path, "be named", strerror(ENAMETOOLONG));
}

/* Make contents and name of `path` durable. */
static int sync_file_and_folder(const char *path, struct fathom_fault *why)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int error = fd < 0 || fsync(fd) < 0 ? -errno : 0;

	if (fd >= 0)
		close(fd);
	if (!error)
		error = file_sync_folder(path);
	return error ? fault_db_failed(why, path, "be synced", strerror(-error)) : 0;
}

/* Sync `beside`, then rename it to `path`: after a crash `path` is never incomplete. */
static int install_file(const char *beside, const char *path, struct fathom_fault *why)
{
	int error;

	must(strcmp(beside, path) != 0);
	error = sync_file_and_folder(beside, why);
	if (!error && rename(beside, path) < 0)
		error = fault_db_failed(why, path, "be renamed", strerror(errno));
	return error;
}

/* Reject a copy onto the database itself. `other` may be absent. */
static int reject_same_file(const char *path, const char *other, struct fathom_fault *why)
{
	struct stat stat_of_path, stat_of_other;

	if (stat(path, &stat_of_path) < 0)
		return fault_db_failed(why, path, "be looked at", strerror(errno));
	if (stat(other, &stat_of_other) < 0)
		return errno == ENOENT ? 0 : fault_db_failed(why, other, "be looked at", strerror(errno));
	if (stat_of_path.st_dev != stat_of_other.st_dev || stat_of_path.st_ino != stat_of_other.st_ino)
		return 0;
	return fault(why, -EINVAL, "%s is the database itself; name another file", other);
}

/* An unfinished copy, in the temporary file `beside`; finishing renames it to `path`. */
struct sqlite_copy {
	struct db_copy copy;
	struct sqlite_db to; /* its handle is open until all pages are copied */
	sqlite3_backup *backup;
	char path[PATH_BYTES_MAX], beside[PATH_BYTES_MAX];
	bool is_there; /* `beside` exists */
};
static_assert(offsetof(struct sqlite_copy, copy) == 0, "copy_of() converts the pointer");

static struct sqlite_copy *copy_of(struct db_copy *copy)
{
	return (struct sqlite_copy *)copy; /* its first member */
}

static int make_beside(struct sqlite_copy *copy, struct fathom_fault *why)
{
	int fd = mkostemp(copy->beside, O_CLOEXEC);

	if (fd < 0)
		return fault_db_failed(why, copy->path, "be made", strerror(errno));
	close(fd);
	copy->is_there = true;
	return 0;
}

static int open_beside(struct sqlite_copy *copy, struct sqlite_db *from, struct fathom_fault *why)
{
	must(copy->is_there);
	must(!copy->to.handle);
	must(!copy->backup);
	copy->to.path = copy->beside;
	if (sqlite3_open_v2(copy->beside, &copy->to.handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
		return copy->to.handle ? sqlite_fault(&copy->to, "be opened", why) : fault_db_no_memory(why, copy->path);
	/* sqlite_copy_finish() syncs the complete file */
	if (sqlite3_exec(copy->to.handle, "PRAGMA synchronous = OFF", NULL, NULL, NULL) != SQLITE_OK)
		return sqlite_fault(&copy->to, "be opened", why);
	copy->backup = sqlite3_backup_init(copy->to.handle, "main", from->handle, "main");
	return copy->backup ? 0 : sqlite_fault(&copy->to, "be copied", why);
}

int sqlite_copy_begin(struct db *db, const char *path, struct db_copy **copy_ret, struct fathom_fault *why)
{
	struct sqlite_db *sqlite = (struct sqlite_db *)db; /* its first member */
	struct sqlite_copy *copy;
	int error = reject_same_file(sqlite->path, path, why);

	if (error)
		return error;
	copy = calloc(1, sizeof(*copy));
	if (!copy)
		return fault_db_no_memory(why, path);
	copy->copy.backend = db->backend;
	error = make_path(copy->path, path, "", why);
	if (!error)
		error = make_path(copy->beside, path, ".copy-XXXXXX", why);
	if (!error)
		error = make_beside(copy, why);
	if (!error)
		error = open_beside(copy, sqlite, why);
	if (error)
		sqlite_copy_end(&copy->copy);
	else
		*copy_ret = &copy->copy;
	return error;
}

/* All pages are copied: leave a single file without a log. */
static int close_beside(struct sqlite_copy *copy, struct fathom_fault *why)
{
	int error = 0, result = sqlite3_backup_finish(copy->backup);

	copy->backup = NULL;
	if (result != SQLITE_OK ||
	    sqlite3_exec(copy->to.handle, "PRAGMA journal_mode = DELETE", NULL, NULL, NULL) != SQLITE_OK)
		error = sqlite_fault(&copy->to, "be copied", why);
	sqlite3_close(copy->to.handle);
	copy->to.handle = NULL;
	return error;
}

int sqlite_copy_step(struct db_copy *db_copy, int pages, bool *is_done_ret, struct fathom_fault *why)
{
	struct sqlite_copy *copy = copy_of(db_copy);
	int result;

	must(copy->backup);
	must(copy->to.handle);
	result = sqlite3_backup_step(copy->backup, pages);
	if (result == SQLITE_DONE) {
		*is_done_ret = true;
		return close_beside(copy, why);
	}
	if (result == SQLITE_OK) {
		*is_done_ret = false;
		return 0;
	}
	sqlite3_backup_finish(copy->backup); /* stores the error in the handle */
	copy->backup = NULL;
	return sqlite_fault(&copy->to, "be copied", why);
}

int sqlite_copy_finish(struct db_copy *db_copy, struct fathom_fault *why)
{
	struct sqlite_copy *copy = copy_of(db_copy);
	int error;

	must(!copy->to.handle);
	must(!copy->backup);
	must(copy->is_there);
	error = install_file(copy->beside, copy->path, why);
	if (error)
		return error;
	copy->is_there = false;
	return sync_file_and_folder(copy->path, why);
}

void sqlite_copy_end(struct db_copy *db_copy)
{
	struct sqlite_copy *copy = copy_of(db_copy);

	must(!copy->backup || copy->to.handle);
	if (copy->backup)
		sqlite3_backup_finish(copy->backup);
	sqlite3_close(copy->to.handle);
	if (copy->is_there)
		unlink(copy->beside);
	free(copy);
}

/* SQLite replays or rolls back these logs into any file with their base name, so they must move together with it. */
static const char *const logs[] = { "-wal", "-journal", "-shm" };

static int make_log_path(char *to, const char *path, size_t log, struct fathom_fault *why)
{
	must(log < ARRAY_COUNT(logs));
	return make_path(to, path, logs[log], why);
}

/* Remove the logs of an earlier file with the name `path`. */
static int remove_logs(const char *path, struct fathom_fault *why)
{
	char log[PATH_BYTES_MAX];
	int error = 0;

	for (size_t i = 0; !error && i < ARRAY_COUNT(logs); i++) {
		error = make_log_path(log, path, i, why);
		if (!error && unlink(log) < 0 && errno != ENOENT)
			error = fault_db_failed(why, log, "be removed", strerror(errno));
	}
	return error;
}

/* Choose a name that no file uses, not even a log without its file. */
static int choose_aside_path(const char *path, char *aside, struct fathom_fault *why)
{
	char ending[32], log[PATH_BYTES_MAX];
	bool is_taken = true;
	int error = 0;

	for (int number = 1; !error && is_taken && number <= ASIDE_MAX; number++) {
		snprintf(ending, sizeof(ending), ".before-%d", number);
		error = make_path(aside, path, ending, why);
		is_taken = !error && access(aside, F_OK) == 0;
		for (size_t i = 0; !error && !is_taken && i < ARRAY_COUNT(logs); i++) {
			error = make_log_path(log, aside, i, why);
			is_taken = !error && access(log, F_OK) == 0;
		}
	}
	if (!error && is_taken)
		error = fault_db_failed(why, path, "be put aside", strerror(EEXIST));
	return error;
}

/* Give `path` the second name `aside`, if it exists. */
static int link_aside(const char *path, const char *aside, struct fathom_fault *why)
{
	if (link(path, aside) == 0 || errno == ENOENT)
		return 0;
	return fault_db_failed(why, path, "be put aside", strerror(errno));
}

/* Undo put_aside(): restore the original names and remove the second ones. */
static void undo_put_aside(const char *path, const char *aside)
{
	char log[PATH_BYTES_MAX], aside_log[PATH_BYTES_MAX];

	must(strcmp(path, aside) != 0);
	for (size_t i = 0; i < ARRAY_COUNT(logs); i++) {
		must(make_log_path(log, path, i, NULL) == 0 && make_log_path(aside_log, aside, i, NULL) == 0);
		if (link(aside_log, log) == 0 || errno == EEXIST) /* EEXIST: its original name was not yet removed */
			unlink(aside_log);
	}
	unlink(aside);
}

/*
 * Move `path` and its logs aside under one common name, by hard links. After a crash at any point, a starting server finds
 * at `path` either the file with its logs, or the file without some logs, which is an older state. It never finds no file,
 * or a log of another file.
 */
static int put_aside(const char *path, char *aside, struct fathom_fault *why)
{
	char log[PATH_BYTES_MAX], aside_log[PATH_BYTES_MAX];
	int error = choose_aside_path(path, aside, why);

	if (error)
		return error;
	for (size_t i = 0; !error && i < ARRAY_COUNT(logs); i++) {
		error = make_log_path(log, path, i, why);
		if (!error)
			error = make_log_path(aside_log, aside, i, why);
		if (!error)
			error = link_aside(log, aside_log, why);
	}
	if (!error)
		error = link_aside(path, aside, why);
	if (!error) {
		error = file_sync_folder(path);
		error = error ? fault_db_failed(why, path, "be put aside", strerror(-error)) : remove_logs(path, why);
	}
	if (error)
		undo_put_aside(path, aside);
	return error;
}

/* Move an existing database aside if `is_forced` and no process has it open. A log without a file is moved always. */
static int vacate_path(const char *path, bool is_forced, char *aside, struct fathom_fault *why)
{
	struct fathom_fault reason = { 0 };
	struct db *db;
	int error;

	if (access(path, F_OK) < 0)
		return errno == ENOENT ? put_aside(path, aside, why)
				       : fault_db_failed(why, path, "be opened", strerror(errno));
	if (!is_forced)
		return fault_db_restore_over(why, path);
	error = db_open_sqlite(path, &db, &reason);
	if (error == 0)
		db_close(db);
	else if (error == -EBUSY)
		return fault_db_in_use(why, path);
	return put_aside(path, aside, why);
}

static int copy_bytes(int from, int to)
{
	char *piece = malloc(COPY_BYTES);
	ssize_t got = 1;
	int error = piece ? 0 : -ENOMEM;

	while (!error && got > 0) {
		got = read(from, piece, COPY_BYTES);
		if (got < 0)
			error = -errno;
		else
			error = file_write(to, piece, (size_t)got);
	}
	free(piece);
	return error;
}

/* If root runs the restore, give the file to the owner of its folder, the server's user. */
static int give_to_owner(int fd, const char *path)
{
	char folder[PATH_BYTES_MAX];
	struct stat stat_of;
	const char *slash = strrchr(path, '/');

	if (geteuid() != 0)
		return 0;
	snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - path) + 1 : 2, slash ? path : "./");
	return stat(folder, &stat_of) == 0 && fchown(fd, stat_of.st_uid, stat_of.st_gid) == 0 ? 0 : -errno;
}

static int copy_file(const char *from_path, const char *to_path, struct fathom_fault *why)
{
	int from = open(from_path, O_RDONLY | O_CLOEXEC), to, error;

	if (from < 0)
		return fault_db_failed(why, from_path, "be opened", strerror(errno));
	to = open(to_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	error = to < 0 ? -errno : copy_bytes(from, to);
	if (!error)
		error = give_to_owner(to, to_path);
	close(from);
	if (to >= 0 && close(to) < 0 && !error)
		error = -errno;
	if (error == -ENOSPC)
		return fault_db_full(why, to_path);
	if (error == -ENOMEM)
		return fault_db_no_memory(why, to_path);
	return error ? fault_db_failed(why, to_path, "be written", strerror(-error)) : 0;
}

/* Make the file `beside` from `copy`, open it, which checks it, and let `restored` change it. No log must be left. */
static int make_restored(const char *beside, const char *copy, db_restored_fn restored, struct fathom_fault *why)
{
	char log[PATH_BYTES_MAX];
	struct db *db;
	int error = make_log_path(log, beside, 0, why);

	if (!error)
		error = remove_logs(beside, why); /* left by an interrupted restore */
	if (!error)
		error = copy_file(copy, beside, why);
	if (!error)
		error = db_open_sqlite(beside, &db, why);
	if (error)
		return error;
	if (restored)
		error = restored(db, why);
	db_close(db);
	/* closing the last handle removes the log only if its contents could be written to the file */
	if (!error && (access(log, F_OK) == 0 || errno != ENOENT))
		error = fault_db_failed(why, beside, "be written", "its log is still there");
	return error;
}

int db_restore_sqlite(const char *path, const char *copy, bool is_forced, db_restored_fn restored, struct fathom_fault *why)
{
	char beside[PATH_BYTES_MAX], aside[PATH_BYTES_MAX];
	int error = make_path(beside, path, ".copy-restore", why);

	if (error)
		return error;
	error = make_restored(beside, copy, restored, why);
	if (!error)
		error = vacate_path(path, is_forced, aside, why);
	if (!error) {
		error = install_file(beside, path, why);
		if (error)
			undo_put_aside(path, aside);
	}
	if (!error)
		return sync_file_and_folder(path, why);
	unlink(beside);
	(void)!remove_logs(beside, NULL); /* report only the first error; the next restore removes them again */
	return error;
}
