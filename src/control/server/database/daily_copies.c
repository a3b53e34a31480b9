/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Copies beside the database, for restoring it after a loss: database_copy_after the start, each day, and when the server
 * ends, if the database has changed.
 *
 *	system.db.copy-UUID-2026-11-22		one a day, the last COPIES of them; UUID is the system's
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
#include "control/server/core/core.h"
#include "control/server/core/probes.gen.h"

enum { COPY_HOURS = 24, COPIES = 7, DATE_BYTES = 16 };

#define UUID_KEY "identity/uuid"

struct server_copy {
	struct copying copying;
	char path[SERVER_PATH_BYTES]; /* of the copy */
	size_t same_bytes;	      /* length of the prefix that all copies of the system have */
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
	put.bytes = strlen(text);
	return db_commit(db, &put, 1, NULL, why);
}

static int name_copy(struct server *server, struct server_copy *copy, struct fathom_fault *why)
{
	char path[SERVER_PATH_BYTES], uuid[MEMBER_UUID_TEXT_BYTES], date[DATE_BYTES];
	time_t now = time(NULL);
	struct tm tm;
	int error, bytes;

	must(server_database_path(server->config, path, sizeof(path)) == 0);
	must(gmtime_r(&now, &tm));
	must(strftime(date, sizeof(date), "%Y-%m-%d", &tm) > 0);
	error = system_uuid(server->db, uuid, why);
	if (error)
		return error;
	bytes = snprintf(copy->path, sizeof(copy->path), "%s.copy-%s-", path, uuid);
	copy->same_bytes = (size_t)bytes;
	if ((size_t)snprintf(copy->path + bytes, sizeof(copy->path) - (size_t)bytes, "%s", date) >=
	    sizeof(copy->path) - (size_t)bytes)
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
static void remove_old_copies(struct copying *copying)
{
	const struct server_copy *copy = container_of(copying, struct server_copy, copying);
	char folder[SERVER_PATH_BYTES];
	const char *name = strrchr(copy->path, '/') + 1;
	size_t same = copy->same_bytes - (size_t)(name - copy->path), length = strlen(name);
	struct dirent **entries;
	int kept = 0, count;

	snprintf(folder, sizeof(folder), "%.*s", (int)(name - copy->path), copy->path);
	count = scandir(folder, &entries, NULL, compare_newest_first);
	if (count < 0)
		log_warning("%s cannot be listed: %s; older copies stay until the next is made", folder, strerror(errno));
	for (int i = 0; i < count; i++) {
		const char *other = entries[i]->d_name;
		bool is_ours = strncmp(other, name, same) == 0;

		if (is_ours && strlen(other) == length && kept < COPIES)
			kept++;
		else if (is_ours)
			remove_copy(folder, other);
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
}

/* ---- one copy ---- */

static void log_failed(const struct fathom_fault *why)
{
	log_error("no copy of the database was made: %s; %s", why->text, why->resolution);
}

static void on_copy_ended(struct copying *copying)
{
	struct server *server = copying->server;

	if (!copying->error)
		server->copied_revision = copying->revision;
	else if (copying->error != -ECANCELED) /* the server is leaving: server_copy_at_end() copies again */
		log_failed(&copying->why);
	free(server->copy);
	server->copy = NULL;
}

/* A database without members is not worth a copy. */
static bool has_changed(const struct server *server)
{
	return server->of_call.mgmt && db_revision(server->db) != server->copied_revision &&
	       system_member_count(mgmt_system(server->of_call.mgmt)) > 0;
}

/* `make`: copying_begin() or copying_at_once(). */
static int make_copy(struct server *server, int (*make)(struct server *, struct copying *, const char *))
{
	struct server_copy *copy = calloc(1, sizeof(*copy));
	int error;

	must(copy);
	copy->copying.written = remove_old_copies;
	copy->copying.ended = on_copy_ended;
	server->copy = copy;
	error = name_copy(server, copy, &copy->copying.why);
	if (!error)
		error = make(server, &copy->copying, copy->path);
	if (error) {
		log_failed(&copy->copying.why);
		free(copy);
		server->copy = NULL;
	}
	return error;
}

static void on_copy_due(struct deadline *deadline)
{
	struct server *server = container_of(deadline, struct server, copy_due);

	if (server->copy || !has_changed(server) || make_copy(server, copying_begin) != 0)
		server_begin_copies(server); /* check again soon, not a day later */
	else
		deadline_set(&server->deadlines, &server->copy_due, COPY_HOURS * 3600 * NS_PER_SEC, on_copy_due);
}

void server_begin_copies(struct server *server)
{
	uint64_t ns;

	must(text_parse_duration(server->config->database_copy_after, &ns) == 0);
	deadline_set(&server->deadlines, &server->copy_due, ns, on_copy_due);
}

void server_copy_at_end(struct server *server)
{
	if (has_changed(server))
		(void)make_copy(server, copying_at_once); /* an error is logged */
}
