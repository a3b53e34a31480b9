/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Copies the database COPY_PAGES pages at a time, with pauses for other work on the control thread; a worker thread waits
 * for the disk. The copy contains all commits before its last pages were copied. Several copies may be under way.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "control/fault/fault.h"
#include "control/server/database/internal.h"
#include "control/server/core/probes.gen.h"

enum { COPY_PAGES = 64, COPY_PAUSE_MS = 2 };

static void end_copy(struct database_copy *copy)
{
	struct server_database *database = copy->database;
	uint64_t now = reactor_now();

	must(copy->step);
	must(!copy->is_finishing);
	must(copy->error <= 0);
	must(!copy->error || copy->why.error);
	probe_server_copied(now, database->server, copy->revision, copy->error, now - copy->began);
	deadline_clear(&database->server->deadlines, &copy->next);
	LIST_REMOVE(copy, link);
	db_copy_end(copy->step);
	copy->ended(copy); /* frees it */
}

/* On a worker thread, or in copy_at_once(). */
static void finish_copy(struct worker_job *job)
{
	struct database_copy *copy = container_of(job, struct database_copy, job);

	must(copy->step);
	copy->error = db_copy_finish(copy->step, &copy->why);
	if (!copy->error && copy->written)
		copy->written(copy);
}

static void on_copy_finished(struct worker_job *job)
{
	struct database_copy *copy = container_of(job, struct database_copy, job);

	must(copy->is_finishing);
	copy->is_finishing = false;
	server_job_end(copy->database->server);
	end_copy(copy);
}

static void copy_next_pages(struct deadline *deadline)
{
	struct database_copy *copy = container_of(deadline, struct database_copy, next);
	struct server_database *database = copy->database;
	bool is_done = false;

	must(!copy->is_finishing);
	must(!copy->error);
	must(copy->step);
	copy->error = db_copy_step(copy->step, COPY_PAGES, &is_done, &copy->why);
	if (!copy->error && !is_done) {
		deadline_set(&database->server->deadlines, &copy->next, COPY_PAUSE_MS * NS_PER_MS, copy_next_pages);
		return;
	}
	if (!copy->error) {
		copy->revision = db_revision(database->db);
		copy->job.work = finish_copy;
		copy->job.done = on_copy_finished;
		copy->error = worker_start(&copy->job);
		if (!copy->error) {
			copy->is_finishing = true;
			server_job_begin(database->server);
			return;
		}
		copy->error = fault_db_failed(&copy->why, copy->path, "be finished", strerror(-copy->error));
	}
	end_copy(copy);
}

/* On an error `copy` is not in the list of copies. */
static int start_copy(struct server_database *database, struct database_copy *copy, const char *path)
{
	must(copy->ended);
	must(!copy->step);
	must(!copy->is_finishing);
	must(path[0] == '/');
	copy->database = database;
	copy->path = path;
	copy->began = reactor_now();
	copy->error = db_copy_begin(database->db, path, &copy->step, &copy->why);
	if (copy->error)
		probe_server_copied(copy->began, database->server, 0, copy->error, 0);
	else
		LIST_INSERT_HEAD(&database->copies, copy, link);
	return copy->error;
}

int copy_begin(struct server_database *database, struct database_copy *copy, const char *path)
{
	int error = start_copy(database, copy, path);

	if (!error)
		deadline_set(&database->server->deadlines, &copy->next, 0, copy_next_pages);
	return error;
}

int copy_at_once(struct server_database *database, struct database_copy *copy, const char *path)
{
	int error = start_copy(database, copy, path);
	bool is_done;

	if (error)
		return error;
	copy->error = db_copy_step(copy->step, DB_COPY_ALL, &is_done, &copy->why);
	must(copy->error || is_done);
	copy->revision = db_revision(database->db);
	if (!copy->error)
		finish_copy(&copy->job);
	end_copy(copy);
	return 0;
}

void copy_cancel_all(struct server_database *database)
{
	struct database_copy *copy;

	while ((copy = LIST_FIRST(&database->copies))) {
		must(!copy->is_finishing);
		copy->error = fault(&copy->why, -ECANCELED, "the server is leaving; copy the database when it has ended");
		end_copy(copy);
	}
	must(LIST_EMPTY(&database->copies));
}
