/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Copies the database COPY_PAGES pages at a time, with pauses for other work on the control thread; a worker thread waits
 * for the disk. The copy contains all commits before its last pages were copied. Several copies may be under way.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "control/fault/fault.h"
#include "control/server/core/core.h"
#include "control/server/core/probes.gen.h"

enum { COPY_PAGES = 64, COPY_PAUSE_MS = 2 };

static void end_copying(struct copying *copying)
{
	struct server *server = copying->server;

	probe_server_copied(reactor_now(), server, copying->revision, copying->error, reactor_now() - copying->began);
	deadline_clear(&server->deadlines, &copying->next);
	LIST_REMOVE(copying, link);
	db_copy_end(copying->copy);
	copying->ended(copying);
}

static void finish_copy(struct worker_job *job)
{
	struct copying *copying = container_of(job, struct copying, job);

	copying->error = db_copy_finish(copying->copy, &copying->why);
	if (!copying->error && copying->written)
		copying->written(copying);
}

static void on_copy_finished(struct worker_job *job)
{
	struct copying *copying = container_of(job, struct copying, job);

	copying->server->jobs--;
	end_copying(copying);
}

static void copy_more(struct deadline *deadline)
{
	struct copying *copying = container_of(deadline, struct copying, next);
	bool is_done = false;

	copying->error = db_copy_step(copying->copy, COPY_PAGES, &is_done, &copying->why);
	if (!copying->error && !is_done) {
		deadline_set(&copying->server->deadlines, &copying->next, COPY_PAUSE_MS * NS_PER_MS, copy_more);
		return;
	}
	if (!copying->error) {
		copying->revision = db_revision(copying->server->db);
		copying->job.work = finish_copy;
		copying->job.done = on_copy_finished;
		copying->error = worker_start(&copying->job);
		if (!copying->error) {
			copying->is_finishing = true;
			copying->server->jobs++;
			return;
		}
		copying->error = fault_db_failed(&copying->why, copying->path, "be finished", strerror(-copying->error));
	}
	end_copying(copying);
}

/* On an error `copying` is not in the list of copies. */
static int begin_copying(struct server *server, struct copying *copying, const char *path)
{
	copying->server = server;
	copying->path = path;
	copying->began = reactor_now();
	copying->error = db_copy_begin(server->db, path, &copying->copy, &copying->why);
	if (copying->error)
		probe_server_copied(copying->began, server, 0, copying->error, 0);
	else
		LIST_INSERT_HEAD(&server->copyings, copying, link);
	return copying->error;
}

int copying_begin(struct server *server, struct copying *copying, const char *path)
{
	int error = begin_copying(server, copying, path);

	if (!error)
		deadline_set(&server->deadlines, &copying->next, 0, copy_more);
	return error;
}

int copying_at_once(struct server *server, struct copying *copying, const char *path)
{
	int error = begin_copying(server, copying, path);
	bool is_done;

	if (error)
		return error;
	copying->error = db_copy_step(copying->copy, DB_COPY_ALL, &is_done, &copying->why);
	copying->revision = db_revision(server->db);
	if (!copying->error)
		finish_copy(&copying->job);
	end_copying(copying);
	return 0;
}

void copying_cancel_all(struct server *server)
{
	struct copying *copying;

	while ((copying = LIST_FIRST(&server->copyings))) {
		must(!copying->is_finishing);
		copying->error = fault(&copying->why, -ECANCELED, "the server leaves; copy the database when it has");
		end_copying(copying);
	}
}
