/* SPDX-License-Identifier: BSD-2-Clause */
/* Copies of the database, made while it is in use, and put back: a file beside is renamed when it is whole. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "control/db/sqlite.h"
#include "control/db/sqlite_internal.h"
#include "control/fault/fault.h"

enum { PATH_BYTES_MAX = 4096, COPY_BYTES = 65536, ASIDE_MAX = 1000 };

static int make_path(char *to, const char *path, const char *ending, struct fault *why)
{
	if ((size_t)snprintf(to, PATH_BYTES_MAX, "%s%s", path, ending) < PATH_BYTES_MAX)
		return 0;
	return fault_db_failed(why, path, "be named", strerror(ENAMETOOLONG));
}

/* What was written to `path` stays, and so does its name. */
static int sync_file_and_folder(const char *path, struct fault *why)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int error = fd < 0 || fsync(fd) < 0 ? -errno : 0;

	if (fd >= 0)
		close(fd);
	if (!error)
		error = file_sync_folder(path);
	return error ? fault_db_failed(why, path, "be synced", strerror(-error)) : 0;
}

/* All pages into the empty file at `to`. */
static int copy_pages(const struct sqlite_db *sqlite, const char *to, struct fault *why)
{
	struct sqlite_db copy = { .path = (char *)(uintptr_t)to };
	sqlite3_backup *backup = NULL;
	int error = 0;

	if (sqlite3_open_v2(to, &copy.handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
		error = copy.handle ? sqlite_fault(&copy, "be opened", why) : -ENOMEM;
	if (!error) {
		backup = sqlite3_backup_init(copy.handle, "main", sqlite->handle, "main");
		if (!backup || sqlite3_backup_step(backup, -1) != SQLITE_DONE)
			error = sqlite_fault(&copy, "be copied", why);
		if (backup && sqlite3_backup_finish(backup) != SQLITE_OK && !error)
			error = sqlite_fault(&copy, "be copied", why);
	}
	/* a file by itself: no log beside it */
	if (!error && sqlite3_exec(copy.handle, "PRAGMA journal_mode = DELETE", NULL, NULL, NULL) != SQLITE_OK)
		error = sqlite_fault(&copy, "be copied", why);
	sqlite3_close(copy.handle);
	return error;
}

/* Complete on the disk before it has its name. */
static int put_in_place(const char *beside, const char *path, struct fault *why)
{
	int error = sync_file_and_folder(beside, why);

	if (!error && rename(beside, path) < 0)
		error = fault_db_failed(why, path, "be renamed", strerror(errno));
	return error;
}

static bool is_one_file(const char *a, const char *b)
{
	struct stat stat_of_a, stat_of_b;

	return stat(a, &stat_of_a) == 0 && stat(b, &stat_of_b) == 0 && stat_of_a.st_dev == stat_of_b.st_dev &&
	       stat_of_a.st_ino == stat_of_b.st_ino;
}

int sqlite_backup(struct db *db, const char *path, struct fault *why)
{
	struct sqlite_db *sqlite = (struct sqlite_db *)db; /* its first member */
	char beside[PATH_BYTES_MAX];
	int fd, error = make_path(beside, path, ".copy-XXXXXX", why);

	if (error)
		return error;
	if (is_one_file(sqlite->path, path))
		return fault(why, -EINVAL, "%s is the database itself", path);
	fd = mkostemp(beside, O_CLOEXEC);
	if (fd < 0)
		return fault_db_failed(why, path, "be made", strerror(errno));
	close(fd);
	error = copy_pages(sqlite, beside, why);
	if (!error)
		error = put_in_place(beside, path, why);
	if (error) {
		unlink(beside);
		return error;
	}
	return sync_file_and_folder(path, why);
}

/* Put `path` and its log aside, together under one name. */
static int put_aside(const char *path, struct fault *why)
{
	char ending[32], aside[PATH_BYTES_MAX], log[PATH_BYTES_MAX], aside_log[PATH_BYTES_MAX];
	int error = make_path(log, path, "-wal", why), number = 0;

	do {
		snprintf(ending, sizeof(ending), ".before-%d", ++number);
		if (!error)
			error = make_path(aside, path, ending, why);
	} while (!error && number < ASIDE_MAX && access(aside, F_OK) == 0);
	if (!error)
		error = make_path(aside_log, aside, "-wal", why);
	/* the log first: without it the file is an older state, and the log without its file is nothing */
	if (!error && rename(log, aside_log) < 0 && errno != ENOENT)
		error = fault_db_failed(why, log, "be put aside", strerror(errno));
	/* by a second name: a server that starts after a crash here must not find the place empty */
	if (!error && link(path, aside) < 0)
		error = fault_db_failed(why, path, "be put aside", strerror(errno));
	return error;
}

/* Nobody has `path` open; if there is something, it may be put aside. */
static int clear_place(const char *path, bool is_forced, struct fault *why)
{
	struct fault reason = { 0 };
	struct db *db;
	int error;

	if (access(path, F_OK) < 0)
		return errno == ENOENT ? 0 : fault_db_failed(why, path, "be opened", strerror(errno));
	if (!is_forced)
		return fault_db_restore_over(why, path);
	error = db_open_sqlite(path, &db, &reason);
	if (error == 0)
		db_close(db);
	else if (error == -EBUSY)
		return fault_db_in_use(why, path);
	return put_aside(path, why);
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

/* Root may do it for the server's user: whose the folder is, his are the files in it. */
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

static int copy_file(const char *from_path, const char *to_path, struct fault *why)
{
	int from = open(from_path, O_RDONLY | O_CLOEXEC), to, error;

	if (from < 0)
		return fault_db_failed(why, from_path, "be opened", strerror(errno));
	to = open(to_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	error = to < 0 ? -errno : copy_bytes(from, to);
	if (!error)
		error = give_to_owner(to, to_path);
	close(from);
	if (to >= 0)
		close(to);
	if (error == -ENOSPC)
		return fault_db_full(why, to_path);
	return error ? fault_db_failed(why, to_path, "be written", strerror(-error)) : 0;
}

int db_restore_sqlite(const char *path, const char *copy, bool is_forced, struct fault *why)
{
	char beside[PATH_BYTES_MAX], log[PATH_BYTES_MAX];
	struct db *db;
	int error = make_path(beside, path, ".copy-restore", why);

	if (!error)
		error = make_path(log, beside, "-wal", why);
	if (!error)
		error = copy_file(copy, beside, why);
	if (error)
		return error;
	/* every check that an open does, on the bytes that will be it */
	error = db_open_sqlite(beside, &db, why);
	if (!error) {
		db_close(db);
		error = clear_place(path, is_forced, why);
	}
	if (!error)
		error = put_in_place(beside, path, why);
	if (error) {
		unlink(beside);
		unlink(log);
		return error;
	}
	return sync_file_and_folder(path, why);
}
