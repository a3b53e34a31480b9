/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events in the spool of a dead engine. They are added to the host's spool with the engine's sequence numbers, so an event
 * that the engine had sent already is recognised. The engine's file is removed after the events are on disk in the host's
 * spool. Until then it stays, and is read again before the next start: no event is lost, and none comes twice.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "control/fault/fault.h"
#include "control/server/events/internal.h"

enum { NAME_BYTES = 64, FILES_MAX = 64 /* further files are read the next time */ };

#define SUFFIX ".events"

struct engine_spools {
	struct server *server;
	struct instance *instance;
	uint32_t index;
	struct fathom_fault *why;
	uint64_t events, foreign; /* of the current file: new events; events of another instance than its name, skipped */
	size_t count;
	char names[FILES_MAX][NAME_BYTES];
};

static int add_spool_name(void *ctx, const char *name)
{
	struct engine_spools *spools = ctx;
	char prefix[NAME_BYTES];
	size_t bytes = strlen(name);

	must(spools->count <= FILES_MAX);
	snprintf(prefix, sizeof(prefix), "fathom_engine%u-", spools->index); /* as in SPOOL_OF_ENGINE */
	if (spools->count < FILES_MAX && strncmp(name, prefix, strlen(prefix)) == 0 && bytes > strlen(SUFFIX) &&
	    strcmp(name + bytes - strlen(SUFFIX), SUFFIX) == 0 &&
	    text_copy(spools->names[spools->count], NAME_BYTES, name) == 0)
		spools->count++;
	return 0;
}

/* Incarnations in the names are zero-padded, so strcmp() orders the files by incarnation. */
static int compare_names(const void *a, const void *b)
{
	return strcmp(a, b);
}

static int keep_spooled_event(void *ctx, const struct spool_origin *origin, const Shared__RASEvent *event)
{
	struct engine_spools *spools = ctx;
	int error;

	must(origin->instance < SPOOL_SOURCES_MAX); /* spool_read_left() passes no other */
	if (origin->instance != spools->index) {
		spools->foreign++;
		return 0;
	}
	error = events_keep(spools->server->events, spools->instance, origin, event, spools->why);
	if (error == -ENOBUFS) { /* the spool's buffer is full: write it to the disk, and retry */
		error = events_flush(spools->server->events, spools->why);
		if (!error)
			error = events_keep(spools->server->events, spools->instance, origin, event, spools->why);
	}
	if (!error)
		spools->events++;
	return error == -EALREADY || error == -EINVAL ? 0 : error; /* an invalid event stays invalid: skip it */
}

/* All readable events are on disk in the host's spool: remove the file; rename a damaged one, for inspection. */
static void remove_spool(struct engine_spools *spools, const char *path, const struct spool_loss *loss)
{
	struct provider *os = spools->server->os;
	char about[32], kept[SERVER_PATH_BYTES + 16];
	struct fathom_fault why;

	if (loss->damaged_bytes == 0) {
		(void)!os->calls->remove(os, path); /* the events of a file that stays are recognised the next time */
		return;
	}
	must((size_t)snprintf(kept, sizeof(kept), "%s.damaged", path) < sizeof(kept));
	(void)!os->calls->rename(os, path, kept);
	fill_fault_events_left_damaged(&why, spools->index, loss->damaged_bytes, kept); /* logged below */
	snprintf(about, sizeof(about), "engine %u", spools->index);
	server_log_fault(LOG_LEVEL_ERROR, about, &why);
}

static void collect_file(struct engine_spools *spools, const char *name)
{
	struct server *server = spools->server;
	char path[SERVER_PATH_BYTES];
	struct spool_loss loss;
	struct fathom_fault why = { 0 };
	int error;

	must((size_t)snprintf(path, sizeof(path), "%s/%s", server->config->socket_dir, name) < sizeof(path));
	spools->why = &why;
	spools->events = spools->foreign = 0;
	error = spool_recover(path, keep_spooled_event, spools, &loss, &why);
	/* before the file is removed, all its events must be on disk, also those that the engine sent in this turn */
	if (!error)
		error = events_flush(server->events, &why);
	events_flush_soon(server->events); /* retries a failed flush, and sends the events to the management service */
	if (error) {
		if (!why.error)
			error = fault(&why, error, "%s: %s", path, strerror(-error));
		maybe(error != why.error);
		server_log_fault(LOG_LEVEL_ERROR,
				 "the spool of a dead engine is kept, and is read again before the next start", &why);
		return;
	}
	must(spool_pending(server->events->spool) == 0); /* its events are on disk: the file may be removed */
	server->stats.events_left += spools->events;
	server->stats.events_foreign += spools->foreign;
	if (spools->events > 0)
		log_notice("engine %u: added %llu unsent events from its spool", spools->index,
			   (unsigned long long)spools->events);
	if (spools->foreign > 0)
		log_warning("engine %u: skipped %llu events of another instance in its spool %s; they were written under a "
			    "wrong name, and are lost",
			    spools->index, (unsigned long long)spools->foreign, path);
	remove_spool(spools, path, &loss);
}

void events_collect_engine_spool(struct server *server, struct instance *instance)
{
	struct engine_spools *spools;
	struct instance_info info;

	if (server->state == SERVER_LEAVING)
		return;
	spools = calloc(1, sizeof(*spools));
	must(spools);
	instance_get_info(instance, &info);
	must(info.index < SERVER_ENGINES_MAX);
	*spools = (struct engine_spools){ .server = server, .instance = instance, .index = info.index };
	/* a folder that cannot be listed has no spools */
	(void)!server->os->calls->list(server->os, server->config->socket_dir, add_spool_name, spools);
	qsort(spools->names, spools->count, sizeof(spools->names[0]), compare_names);
	for (size_t i = 0; i < spools->count; i++)
		collect_file(spools, spools->names[i]);
	free(spools);
}
