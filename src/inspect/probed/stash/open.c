/* SPDX-License-Identifier: BSD-2-Clause */
/* open - makes or opens a tree, locks and sweeps it; closes it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "inspect/probed/stash/internal.h"

enum { LOCK_TRIES_MAX = 50, LOCK_PAUSE_MS = 20 };

static int open_root(struct stash *stash)
{
	if (mkdir(stash->directory, 0755) != 0 && errno != EEXIST)
		return -errno;
	stash->root = open(stash->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return stash->root < 0 ? -errno : 0;
}

static int open_folders(struct stash *stash)
{
	const struct {
		const int *at;
		const char *name;
		int *fd;
	} rows[] = {
		{ &stash->root, "stash", &stash->folder },   { &stash->folder, "dof", &stash->dof },
		{ &stash->folder, "dof-pid", &stash->pids }, { &stash->folder, "work", &stash->work },
		{ &stash->root, "probes", &stash->probes },
	};
	int rc = open_root(stash);

	must(rc == 0 ? stash->root >= 0 : stash->root < 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && rc == 0; i++)
		rc = stash_make_folder(*rows[i].at, rows[i].name, rows[i].fd);
	return rc;
}

/* Write our pid to the lock file, for error messages of other daemons. */
static int write_lock_pid(int folder)
{
	char text[24];
	int bytes = snprintf(text, sizeof(text), "%d\n", (int)getpid()), rc;
	int fd = openat(folder, "lock", O_WRONLY | O_TRUNC | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	must(bytes > 0 && bytes < (int)sizeof(text));
	rc = file_write(fd, text, (size_t)bytes);
	close(fd);
	return rc;
}

/*
 * Lock the file. The kernel releases the lock of a process that SIGKILL ended a moment after its parent has learnt of the
 * end. The next daemon may start in this moment, so it tries for a second. -EWOULDBLOCK: another process still holds it.
 */
static int lock_file(int fd)
{
	const struct timespec pause = { .tv_nsec = (long)LOCK_PAUSE_MS * (long)NS_PER_MS };

	for (uint32_t tries = 1; flock(fd, LOCK_EX | LOCK_NB) != 0; tries++) {
		if (errno != EWOULDBLOCK || tries == LOCK_TRIES_MAX)
			return -errno;
		nanosleep(&pause, NULL);
	}
	return 0;
}

/* -EBUSY: another process holds it; `*holder_ret` is the pid in the file. */
static int take_lock(struct stash *stash, long *holder_ret)
{
	char text[24] = "";
	int rc;

	must(stash->lock < 0);
	must(stash->folder >= 0);
	/* read-only: a file open for writing would prevent a remount of the filesystem as read-only */
	stash->lock = openat(stash->folder, "lock", O_RDONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (stash->lock < 0)
		return -errno;
	rc = lock_file(stash->lock);
	if (rc == -EWOULDBLOCK) {
		if (pread(stash->lock, text, sizeof(text) - 1, 0) > 0)
			*holder_ret = strtol(text, NULL, 10);
		return -EBUSY;
	}
	return rc ? rc : write_lock_pid(stash->folder);
}

/* Make DIR/stash/version, to which parsed/ of every registration has a link. */
static int make_version(struct stash *stash)
{
	const uint64_t version = stash->record_version;
	uint64_t there = 0;
	size_t bytes;
	void *data;
	int rc = stash_read_file(stash->folder, "version", sizeof(there), &data, &bytes);

	if (rc == 0) {
		memcpy(&there, data, bytes);
		free(data);
		if (there == version)
			return 0;
	}
	rc = stash_remove_tree(stash->work, "version");
	if (rc == 0)
		rc = stash_write_file(stash->work, "version", &version, sizeof(version));
	if (rc == 0 && renameat(stash->work, "version", stash->folder, "version") != 0)
		rc = -errno;
	return rc;
}

static int open_tree(struct stash *stash, struct fathom_fault *why)
{
	long holder = 0;
	int rc = open_folders(stash);

	if (rc)
		return fault(why, rc, "cannot use %s as the state directory: %s", stash->directory, strerror(-rc));
	rc = take_lock(stash, &holder);
	if (rc == -EBUSY)
		return fault(why, rc, "process %ld uses the state directory %s; end it, or choose another directory",
			     holder, stash->directory);
	if (rc)
		return fault(why, rc, "cannot lock %s/stash/lock: %s", stash->directory, strerror(-rc));
	rc = make_version(stash);
	if (rc)
		return fault(why, rc, "cannot write to %s: %s", stash->directory, strerror(-rc));
	return stash_sweep(stash, why);
}

/* The defaults fit into half a gigabyte of memory on a tmpfs. */
static void set_limits(struct stash *stash, const struct stash_limits *limits)
{
#define LIMIT(name, value) stash->limits.name = limits->name ? limits->name : (value)
	LIMIT(objects_per_process, 512);
	LIMIT(objects_per_user, 16384);
	LIMIT(objects_total, 32768);
	LIMIT(bytes_per_process, 64ull << 20);
	LIMIT(bytes_per_user, 128ull << 20);
	LIMIT(bytes_total, 256ull << 20);
	LIMIT(probes_per_process, 16384);
	LIMIT(probes_per_user, 65536);
	LIMIT(probes_total, 131072);
#undef LIMIT
}

int stash_open(const struct stash_options *options, struct stash **stash_ret, struct fathom_fault *why)
{
	struct stash *stash = calloc(1, sizeof(*stash));
	int rc;

	if (!stash)
		return fault(why, -ENOMEM, "out of memory for the stash");
	stash->root = stash->folder = stash->dof = stash->pids = stash->probes = stash->work = stash->lock = -1;
	TAILQ_INIT(&stash->garbage);
	stash->record_version = options->record_version ? options->record_version : STASH_RECORD_VERSION_DEFAULT;
	must(stash->record_version >= STASH_RECORD_VERSION_MIN && stash->record_version <= STASH_RECORD_VERSION_MAX);
	stash->provider_links = options->provider_links;
	stash->log = options->log;
	stash->log_ctx = options->log_ctx;
	set_limits(stash, &options->limits);
	stash->directory = strdup(options->directory ? options->directory : STASH_DIRECTORY_DEFAULT);
	rc = stash->directory ? open_tree(stash, why) : fault(why, -ENOMEM, "out of memory for the stash");
	if (rc) {
		stash_close(stash);
		return rc;
	}
	*stash_ret = stash;
	return 0;
}

void stash_close(struct stash *stash)
{
	int fds[7];

	if (!stash)
		return;
	memcpy(fds, (int[]){ stash->root, stash->folder, stash->dof, stash->pids, stash->probes, stash->work, stash->lock },
	       sizeof(fds));
	stash_forget_all(stash);
	stash_free_garbage(stash);
	must(stash->garbage_count == 0);
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
	free(stash->record);
	free(stash->directory);
	free(stash);
}
