/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Copies beside the database, for restoring it after a loss: database_copy_after the start, each day, and when the server
 * ends, if the database has changed.
 *
 *	system.db.copy-UUID-2026-11-22		one a day, the last COPIES_KEPT of them; UUID is the system's
 *	system.db.copy-UUID-2026-11-22.copy-...	a copy under way; garbage after a crash, which the next copy removes
 *
 * The UUID is in the database from the first copy on. It prevents one system's copies from replacing another's.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <uuid/uuid.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "control/fault/fault.h"
#include "control/server/database/internal.h"

enum { COPY_HOURS = 24, COPIES_KEPT = 7, DATE_BYTES = 16 };

#define UUID_KEY "identity/uuid"

struct daily_copy {
	struct database_copy copy;
	char path[SERVER_PATH_BYTES]; /* of the copy */
	size_t prefix_bytes;	      /* length of the prefix that all copies of the system have */
};

/* ---- names ---- */

static int read_uuid(void *ctx, const char *key, const void *value, size_t bytes, uint64_t version)
{
	uuid_t uuid;

	if (bytes != MEMBER_UUID_TEXT_BYTES - 1)
		return -EBADMSG;
	memcpy(ctx, value, bytes);
	((char *)ctx)[bytes] = '\0';
	return uuid_parse(ctx, uuid) == 0 ? 0 : -EBADMSG;
}

/* The system's UUID, into `text` of MEMBER_UUID_TEXT_BYTES; the first call creates it in the database. */
static int system_uuid(struct db *db, char *text, struct fathom_fault *why)
{
	struct db_change put = { .key = UUID_KEY, .expected = DB_VERSION_NONE, .what = DB_PUT, .value = text };
	int error = db_get(db, UUID_KEY, read_uuid, text, why);
	uuid_t uuid;

	if (error == -EBADMSG && (!why || why->error == 0))
		return fault_db_value_bad(why, UUID_KEY, "it is no UUID");
	if (error != -ENOENT)
		return error;
	uuid_generate(uuid);
	uuid_unparse_lower(uuid, text);
	must(strlen(text) == MEMBER_UUID_TEXT_BYTES - 1);
	put.bytes = strlen(text);
	return db_commit(db, &put, 1, NULL, why);
}

static int set_copy_path(struct server_database *database, struct daily_copy *daily, struct fathom_fault *why)
{
	char path[SERVER_PATH_BYTES], uuid[MEMBER_UUID_TEXT_BYTES], date[DATE_BYTES];
	time_t now = time(NULL);
	struct tm tm;
	int error, bytes;

	must(server_database_path(database->server->config, path, sizeof(path)) == 0);
	must(gmtime_r(&now, &tm));
	must(strftime(date, sizeof(date), "%Y-%m-%d", &tm) > 0);
	error = system_uuid(database->db, uuid, why);
	if (error)
		return error;
	bytes = snprintf(daily->path, sizeof(daily->path), "%s.copy-%s-", path, uuid);
	must(bytes > 0 && (size_t)bytes < sizeof(daily->path));
	daily->prefix_bytes = (size_t)bytes;
	if ((size_t)snprintf(daily->path + bytes, sizeof(daily->path) - (size_t)bytes, "%s", date) >=
	    sizeof(daily->path) - (size_t)bytes)
		return fault(why, -ENAMETOOLONG, "the path of the database is too long for its copies");
	return 0;
}

/* ---- removing old copies ---- */

static int compare_newest_first(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*b)->d_name, (*a)->d_name);
}

static void remove_copy(const char *folder, const char *name)
{
	char path[2 * SERVER_PATH_BYTES];

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", folder, name) < sizeof(path) && unlink(path) != 0)
		log_warning("%s cannot be removed: %s", path, strerror(errno));
}

/* Remove this system's oldest copies, and files of interrupted copies. May run on a worker thread. */
static void remove_old_copies(struct database_copy *copy)
{
	const struct daily_copy *daily = container_of(copy, struct daily_copy, copy);
	char folder[SERVER_PATH_BYTES];
	const char *name = strrchr(daily->path, '/') + 1;
	size_t same = daily->prefix_bytes - (size_t)(name - daily->path), length = strlen(name);
	struct dirent **entries;
	int kept = 0, count;

	must(name > daily->path);
	must(same < length); /* the date follows */
	snprintf(folder, sizeof(folder), "%.*s", (int)(name - daily->path), daily->path);
	count = scandir(folder, &entries, NULL, compare_newest_first);
	if (count < 0)
		log_warning("%s cannot be listed: %s; old copies are removed with the next copy", folder, strerror(errno));
	for (int i = 0; i < count; i++) {
		const char *other = entries[i]->d_name;
		bool is_ours = strncmp(other, name, same) == 0;

		if (is_ours && strlen(other) == length && kept < COPIES_KEPT)
			kept++;
		else if (is_ours)
			remove_copy(folder, other);
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
}

/* ---- one copy ---- */

static void log_copy_failure(const struct fathom_fault *why)
{
	log_error("no copy of the database was made: %s; %s", why->text, why->resolution);
}

static void on_daily_copy_ended(struct database_copy *copy)
{
	struct server_database *database = copy->database;

	must(database->daily && &database->daily->copy == copy);
	must(copy->error || copy->revision >= database->copied_revision);
	if (!copy->error)
		database->copied_revision = copy->revision;
	else if (copy->error != -ECANCELED) /* the server is leaving: daily_copy_at_end() copies again */
		log_copy_failure(&copy->why);
	free(database->daily);
	database->daily = NULL;
}

/* A database without members is not worth a copy. */
static bool has_changed(const struct server_database *database)
{
	const struct mgmt *mgmt = database->server->of_call.mgmt;

	must(database->copied_revision <= db_revision(database->db));
	return mgmt && db_revision(database->db) != database->copied_revision && system_member_count(mgmt_system(mgmt)) > 0;
}

static int make_daily_copy(struct server_database *database, bool at_once)
{
	struct daily_copy *daily = calloc(1, sizeof(*daily));
	int error;

	must(daily);
	must(!database->daily);
	daily->copy.written = remove_old_copies;
	daily->copy.ended = on_daily_copy_ended;
	database->daily = daily;
	error = set_copy_path(database, daily, &daily->copy.why);
	if (!error)
		error = at_once ? copy_at_once(database, &daily->copy, daily->path)
				: copy_begin(database, &daily->copy, daily->path);
	if (error) {
		log_copy_failure(&daily->copy.why);
		free(daily);
		database->daily = NULL;
	}
	return error;
}

static void on_daily_copy_due(struct deadline *deadline)
{
	struct server_database *database = container_of(deadline, struct server_database, daily_due);

	if (database->daily || !has_changed(database) || make_daily_copy(database, false) != 0)
		daily_copies_begin(database); /* check again soon, not a day later */
	else
		deadline_set(&database->server->deadlines, &database->daily_due, COPY_HOURS * 3600 * NS_PER_SEC,
			     on_daily_copy_due);
}

void daily_copies_begin(struct server_database *database)
{
	uint64_t ns;

	must(!database->daily_due.set);
	must(text_parse_duration(database->server->config->database_copy_after, &ns) == 0);
	deadline_set(&database->server->deadlines, &database->daily_due, ns, on_daily_copy_due);
}

void daily_copy_at_end(struct server_database *database)
{
	must(!database->daily); /* copy_cancel_all() has ended it */
	if (has_changed(database))
		(void)make_daily_copy(database, true); /* an error is logged */
}
