/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Copies beside the database, for an operator who has lost it: some time after the start, each day, and when the server
 * leaves, if anything has changed.
 *
 *	system.db.copy-UUID-2026-11-22		one a day, the last COPIES of them; UUID is the system's
 *	system.db.copy-UUID-2026-11-22.copy-...	one that is being made; garbage after a crash, which the next one removes
 *
 * The UUID is in the database, from the first copy on, so that no system's copies take the place of another's. A copy is
 * made some pages at a time, between which all else goes on; a thread of its own waits for the disk.
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
#include "control/server/internal.h"
#include "control/server/probes.gen.h"

enum { COPY_HOURS = 24, COPY_PAGES = 64, COPY_PAUSE_MS = 2, COPIES = 7, DATE_BYTES = 16 };

#define UUID_KEY "identity/uuid"

struct server_copy {
	struct worker_job job;
	struct server *server;
	struct db_copy *copy;
	struct deadline next;
	uint64_t revision, began;
	char path[SERVER_PATH_BYTES]; /* of the copy */
	size_t same_bytes;	      /* of it that all of the system's copies have */
	int error;
	struct fault why;
	bool is_finishing;
};

/* ---- names ---- */

static int take_uuid(void *ctx, const char *key, const void *value, size_t bytes, uint64_t version)
{
	uuid_t uuid;

	if (bytes != MEMBER_UUID_TEXT_BYTES - 1)
		return -EBADMSG;
	memcpy(ctx, value, bytes);
	((char *)ctx)[bytes] = '\0';
	return uuid_parse(ctx, uuid) == 0 ? 0 : -EBADMSG;
}

/* Of the system, into `text` of MEMBER_UUID_TEXT_BYTES; it is made when it is first asked for. */
static int system_uuid(struct db *db, char *text, struct fault *why)
{
	struct db_change put = { .key = UUID_KEY, .expected = DB_VERSION_NONE, .what = DB_PUT, .value = text };
	int error = db_get(db, UUID_KEY, take_uuid, text, why);
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

static int name_copy(struct server *server, struct server_copy *copy, struct fault *why)
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

/* ---- those that are too many ---- */

static int newest_first(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*b)->d_name, (*a)->d_name);
}

static void remove_one(const char *folder, const char *name)
{
	char path[2 * SERVER_PATH_BYTES];

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", folder, name) < sizeof(path) && unlink(path) != 0)
		log_warning("%s cannot be removed: %s", path, strerror(errno));
}

/* Of this system: the oldest copies, and what others were cut short at. On the thread of its own. */
static void remove_others(const struct server_copy *copy)
{
	char folder[SERVER_PATH_BYTES];
	const char *name = strrchr(copy->path, '/') + 1;
	size_t same = copy->same_bytes - (size_t)(name - copy->path), length = strlen(name);
	struct dirent **entries;
	int kept = 0, count;

	snprintf(folder, sizeof(folder), "%.*s", (int)(name - copy->path), copy->path);
	count = scandir(folder, &entries, NULL, newest_first);
	for (int i = 0; i < count; i++) {
		const char *other = entries[i]->d_name;
		bool is_ours = strncmp(other, name, same) == 0;

		if (is_ours && strlen(other) == length && kept < COPIES)
			kept++;
		else if (is_ours)
			remove_one(folder, other);
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
}

/* ---- one copy ---- */

static void end_copy(struct server_copy *copy)
{
	struct server *server = copy->server;

	if (copy->error)
		log_error("no copy of the database was made: %s; %s", copy->why.text, copy->why.resolution);
	else
		server->copied_revision = copy->revision;
	probe_server_copied(reactor_now(), server, copy->revision, copy->error, reactor_now() - copy->began);
	deadline_clear(&server->deadlines, &copy->next);
	db_copy_end(copy->copy);
	server->copy = NULL;
	free(copy);
}

static void finish(struct worker_job *job)
{
	struct server_copy *copy = container_of(job, struct server_copy, job);

	copy->error = db_copy_finish(copy->copy, &copy->why);
	if (!copy->error)
		remove_others(copy);
}

static void finished(struct worker_job *job)
{
	struct server_copy *copy = container_of(job, struct server_copy, job);

	copy->server->jobs--;
	end_copy(copy);
}

static void copy_more(struct deadline *deadline)
{
	struct server_copy *copy = container_of(deadline, struct server_copy, next);
	bool is_done = false;

	copy->error = db_copy_step(copy->copy, COPY_PAGES, &is_done, &copy->why);
	if (!copy->error && !is_done) {
		deadline_set(&copy->server->deadlines, &copy->next, COPY_PAUSE_MS * NS_PER_MS, copy_more);
		return;
	}
	if (!copy->error) {
		copy->revision = db_revision(copy->server->db);
		copy->job.work = finish;
		copy->job.done = finished;
		copy->error = worker_start(&copy->job);
		if (!copy->error) {
			copy->is_finishing = true;
			copy->server->jobs++;
			return;
		}
		copy->error = fault_db_failed(&copy->why, copy->path, "be finished", strerror(-copy->error));
	}
	end_copy(copy);
}

/* A database without members has nothing that somebody would want back. */
static bool has_changed(const struct server *server)
{
	return server->of_call.mgmt && db_revision(server->db) != server->copied_revision &&
	       system_member_count(mgmt_system(server->of_call.mgmt)) > 0;
}

static struct server_copy *begin_copy(struct server *server)
{
	struct server_copy *copy = calloc(1, sizeof(*copy));

	must(copy);
	copy->server = server;
	copy->began = reactor_now();
	copy->error = name_copy(server, copy, &copy->why);
	if (!copy->error)
		copy->error = db_copy_begin(server->db, copy->path, &copy->copy, &copy->why);
	server->copy = copy;
	if (!copy->error)
		return copy;
	end_copy(copy);
	return NULL;
}

static void copy_is_due(struct deadline *deadline)
{
	struct server *server = container_of(deadline, struct server, copy_due);
	struct server_copy *copy = server->copy || !has_changed(server) ? NULL : begin_copy(server);

	if (!copy) { /* what changes next is copied soon */
		server_begin_copies(server);
		return;
	}
	deadline_set(&server->deadlines, &server->copy_due, COPY_HOURS * 3600 * NS_PER_SEC, copy_is_due);
	copy_more(&copy->next);
}

void server_begin_copies(struct server *server)
{
	uint64_t ns;

	must(text_parse_duration(server->config->database_copy_after, &ns) == 0);
	deadline_set(&server->deadlines, &server->copy_due, ns, copy_is_due);
}

void server_copy_at_end(struct server *server)
{
	struct server_copy *copy = server->copy;
	bool is_done;

	if (copy) { /* what it has so far would be copied again */
		must(!copy->is_finishing);
		db_copy_end(copy->copy);
		deadline_clear(&server->deadlines, &copy->next);
		server->copy = NULL;
		free(copy);
	}
	copy = has_changed(server) ? begin_copy(server) : NULL;
	if (!copy)
		return;
	copy->error = db_copy_step(copy->copy, DB_COPY_ALL, &is_done, &copy->why);
	copy->revision = db_revision(server->db);
	if (!copy->error)
		finish(&copy->job);
	end_copy(copy);
}
