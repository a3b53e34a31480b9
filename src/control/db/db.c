/* SPDX-License-Identifier: BSD-2-Clause */
#include "control/db/db.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "control/db/backend.h"
#include "control/fault/fault.h"

enum { LEASE_BYTES = DB_OWNER_BYTES + 24 };

void db_close(struct db *db)
{
	if (db)
		db->backend->close(db);
}

uint64_t db_revision(const struct db *db)
{
	return db->revision;
}

int db_scan(struct db *db, const char *prefix, db_row_fn row, void *ctx, struct fathom_fault *why)
{
	must(strlen(prefix) < DB_KEY_BYTES_MAX);
	must(row);
	return db->backend->scan(db, prefix, false, row, ctx, why);
}

struct counted {
	db_row_fn row;
	void *ctx;
	size_t rows;
};

static int count_row(void *ctx, const char *key, const void *value, size_t bytes, uint64_t version)
{
	struct counted *counted = ctx;

	counted->rows++;
	return counted->row(counted->ctx, key, value, bytes, version);
}

int db_get(struct db *db, const char *key, db_row_fn row, void *ctx, struct fathom_fault *why)
{
	struct counted counted = { row, ctx, 0 };
	int error;

	must(strlen(key) < DB_KEY_BYTES_MAX);
	must(*key);
	must(row);
	error = db->backend->scan(db, key, true, count_row, &counted, why);
	must(counted.rows <= 1); /* a key is unique */
	return error == 0 && counted.rows == 0 ? -ENOENT : error;
}

static void notify_watches(struct db *db, const struct db_change *change)
{
	for (size_t i = 0; i < db->watch_count; i++) {
		if (change->what != DB_CHECK &&
		    strncmp(change->key, db->watches[i].prefix, strlen(db->watches[i].prefix)) == 0)
			db->watches[i].changed(db->watches[i].ctx, change->key,
					       change->what == DB_PUT ? change->value : NULL,
					       change->what == DB_PUT ? change->bytes : 0, db->revision);
	}
}

const struct db_health *db_health(const struct db *db)
{
	return &db->health;
}

static void note_commit(struct db *db, int error, const struct fathom_fault *why)
{
	if (error == 0) {
		db->health = (struct db_health){ 0 };
	} else if (error != -ESTALE) {
		db->health.failed_ns = clock_realtime_ns();
		if (db->health.failing_ns == 0)
			db->health.failing_ns = db->health.failed_ns;
		db->health.failures++;
		if (why)
			db->health.why = *why;
	}
}

int db_commit(struct db *db, const struct db_change *changes, size_t count, uint64_t *revision_ret,
	      struct fathom_fault *why)
{
	uint64_t before = db->revision;
	int error;

	must(count > 0);
	must(count <= DB_CHANGES_MAX);
	for (size_t i = 0; i < count; i++) {
		must(strlen(changes[i].key) < DB_KEY_BYTES_MAX && changes[i].key[0]);
		must(changes[i].bytes <= DB_VALUE_BYTES_MAX);
		must(changes[i].what != DB_PUT || changes[i].value);
		must(changes[i].what <= DB_CHECK);
	}
	error = db->backend->commit(db, changes, count, why);
	must(db->revision == before + (error == 0));
	note_commit(db, error, why);
	if (error < 0)
		return error;
	for (size_t i = 0; i < count; i++)
		notify_watches(db, &changes[i]);
	must(db->revision == before + 1); /* no watch has committed */
	if (revision_ret)
		*revision_ret = db->revision;
	return 0;
}

int db_watch(struct db *db, const char *prefix, db_watch_fn changed, void *ctx)
{
	must(changed);
	must(db->watch_count <= DB_WATCHES_MAX);
	if (db->watch_count == DB_WATCHES_MAX)
		return -ENOSPC;
	must(text_copy(db->watches[db->watch_count].prefix, DB_KEY_BYTES_MAX, prefix) == 0);
	db->watches[db->watch_count].changed = changed;
	db->watches[db->watch_count].ctx = ctx;
	db->watch_count++;
	return 0;
}

void db_unwatch(struct db *db, db_watch_fn changed, void *ctx)
{
	for (size_t i = 0; i < db->watch_count; i++) {
		if (db->watches[i].changed == changed && db->watches[i].ctx == ctx)
			db->watches[i--] = db->watches[--db->watch_count];
	}
}

/* A lease is stored as its end in nanoseconds, a blank, and its owner. */
struct lease {
	uint64_t version;
	uint64_t until_ns;
	char owner[DB_OWNER_BYTES];
};

static int read_lease(void *ctx, const char *key, const void *value, size_t bytes, uint64_t version)
{
	struct lease *lease = ctx;
	char text[LEASE_BYTES], *blank;

	if (bytes >= sizeof(text))
		return -EBADMSG;
	memcpy(text, value, bytes);
	text[bytes] = '\0';
	blank = strchr(text, ' ');
	if (!blank)
		return -EBADMSG;
	*blank = '\0';
	if (text_parse_u64(text, 10, UINT64_MAX, &lease->until_ns) < 0 ||
	    text_copy(lease->owner, sizeof(lease->owner), blank + 1) < 0)
		return -EBADMSG;
	lease->version = version;
	return 0;
}

static int get_lease(struct db *db, const char *key, struct lease *lease, struct fathom_fault *why)
{
	int error;

	memset(lease, 0, sizeof(*lease));
	error = db_get(db, key, read_lease, lease, why);
	if (error == -ENOENT)
		return 0;
	if (error == -EBADMSG)
		return fault_db_value_bad(why, key, "it is no lease");
	return error;
}

int db_lease_take(struct db *db, const char *name, const char *owner, uint64_t now_ns, uint64_t duration_ns,
		  struct fathom_fault *why)
{
	char key[DB_KEY_BYTES_MAX], value[LEASE_BYTES];
	struct db_change change = { .key = key, .what = DB_PUT, .value = value };
	struct lease lease;
	int error;

	must(duration_ns <= UINT64_MAX - now_ns);
	must(strlen(owner) > 0);
	must(strlen(owner) < DB_OWNER_BYTES);
	must((size_t)snprintf(key, sizeof(key), "lease/%s", name) < sizeof(key));
	error = get_lease(db, key, &lease, why);
	if (error < 0)
		return error;
	if (lease.version && strcmp(lease.owner, owner) != 0 && lease.until_ns > now_ns)
		return fault_db_lease_held(why, name, lease.owner);
	change.expected = lease.version;
	change.bytes = (size_t)snprintf(value, sizeof(value), "%" PRIu64 " %s", now_ns + duration_ns, owner);
	must(change.bytes < sizeof(value));
	return db_commit(db, &change, 1, NULL, why);
}

int db_lease_release(struct db *db, const char *name, const char *owner, struct fathom_fault *why)
{
	char key[DB_KEY_BYTES_MAX];
	struct db_change change = { .key = key, .what = DB_DELETE };
	struct lease lease;
	int error;

	must(*owner);
	must((size_t)snprintf(key, sizeof(key), "lease/%s", name) < sizeof(key));
	error = get_lease(db, key, &lease, why);
	if (error < 0 || !lease.version || strcmp(lease.owner, owner) != 0)
		return error;
	change.expected = lease.version;
	return db_commit(db, &change, 1, NULL, why);
}

int db_copy_begin(struct db *db, const char *path, struct db_copy **copy_ret, struct fathom_fault *why)
{
	int error = db->backend->copy_begin(db, path, copy_ret, why);

	must(error || (*copy_ret)->backend == db->backend);
	return error;
}

int db_copy_step(struct db_copy *copy, int pages, bool *is_done_ret, struct fathom_fault *why)
{
	must(pages > 0 || pages == DB_COPY_ALL);
	return copy->backend->copy_step(copy, pages, is_done_ret, why);
}

int db_copy_finish(struct db_copy *copy, struct fathom_fault *why)
{
	return copy->backend->copy_finish(copy, why);
}

void db_copy_end(struct db_copy *copy)
{
	if (copy)
		copy->backend->copy_end(copy);
}

int db_backup(struct db *db, const char *path, struct fathom_fault *why)
{
	struct db_copy *copy;
	bool is_done;
	int error = db_copy_begin(db, path, &copy, why);

	if (error)
		return error;
	error = db_copy_step(copy, DB_COPY_ALL, &is_done, why);
	must(error || is_done);
	if (!error)
		error = db_copy_finish(copy, why);
	db_copy_end(copy);
	return error;
}
