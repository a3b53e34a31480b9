/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events that a dead engine had in its spool. They are added to the host's as if it had sent them, so one that it had sent
 * is known again, and its file goes when they are on disk there. Until then it stays, and is looked at before the next
 * start: whatever comes between, none is lost and none comes twice.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "control/fault/fault.h"
#include "control/server/internal.h"

enum { NAME_BYTES = 64, FILES_MAX = 64 /* more come with the next look */ };

#define SUFFIX ".events"

struct left {
	struct server *server;
	struct instance *instance;
	uint32_t index;
	struct fault *why;
	uint64_t events; /* of the file that is read: new ones */
	size_t count;
	char names[FILES_MAX][NAME_BYTES];
};

static int note_name(void *ctx, const char *name)
{
	struct left *left = ctx;
	char prefix[NAME_BYTES];
	size_t bytes = strlen(name);

	snprintf(prefix, sizeof(prefix), "fathom_engine%u-", left->index); /* as SPOOL_OF_ENGINE has it */
	if (left->count < FILES_MAX && strncmp(name, prefix, strlen(prefix)) == 0 && bytes > strlen(SUFFIX) &&
	    strcmp(name + bytes - strlen(SUFFIX), SUFFIX) == 0 &&
	    text_copy(left->names[left->count], NAME_BYTES, name) == 0)
		left->count++;
	return 0;
}

/* By the incarnation, which stands in them with all its digits. */
static int compare_names(const void *a, const void *b)
{
	return strcmp(a, b);
}

static int take(void *ctx, const struct spool_origin *origin, const Shared__RASEvent *event)
{
	struct left *left = ctx;
	int error;

	if (origin->instance != left->index)
		return 0; /* nobody's: it is not in the file that its name says */
	error = server_keep_event(left->server, left->instance, origin, event, left->why);
	if (error == -ENOBUFS) { /* as many wait for the disk as may */
		error = spool_flush(left->server->spool, left->why);
		if (!error)
			error = server_keep_event(left->server, left->instance, origin, event, left->why);
	}
	if (!error)
		left->events++;
	return error == -EALREADY || error == -EINVAL ? 0 : error; /* an event that is none would be none tomorrow */
}

/* What can be read is on disk elsewhere: the file goes, or is kept for who wants to know what was in it. */
static void remove_file(struct left *left, const char *path, const struct spool_loss *loss)
{
	struct provider *os = left->server->os;
	char about[32], kept[SERVER_PATH_BYTES + 16];
	struct fault why;

	if (loss->damaged_bytes == 0) {
		(void)!os->calls->remove(os, path); /* one that stays is known again */
		return;
	}
	snprintf(kept, sizeof(kept), "%s.damaged", path);
	(void)!os->calls->rename(os, path, kept);
	(void)!fault_events_left_damaged(&why, left->index, loss->damaged_bytes, kept); /* it is told */
	snprintf(about, sizeof(about), "engine %u", left->index);
	server_log_fault(LOG_LEVEL_ERROR, about, &why);
}

static void take_file(struct left *left, const char *name)
{
	struct server *server = left->server;
	char path[SERVER_PATH_BYTES];
	struct spool_loss loss;
	struct fault why = { 0 };
	int error;

	snprintf(path, sizeof(path), "%s/%s", server->config->socket_dir, name);
	left->why = &why;
	left->events = 0;
	error = spool_read_left(path, take, left, &loss, &why);
	/* also those that it had sent, and that came in this turn: none may be in the file alone, nor in memory alone */
	if (!error)
		error = spool_flush(server->spool, &why);
	server_flush_events(server); /* what failed is tried again; and the management service is told */
	if (error) {
		if (!why.error)
			error = fault(&why, error, "%s: %s", path, strerror(-error));
		maybe(error != why.error);
		server_log_fault(LOG_LEVEL_ERROR, "events of a dead engine stay where they are for now", &why);
		return;
	}
	if (left->events > 0)
		log_notice("engine %u had left %llu events that no server had taken", left->index,
			   (unsigned long long)left->events);
	remove_file(left, path, &loss);
}

void server_take_left(struct server *server, struct instance *instance)
{
	struct left *left;
	struct instance_info info;

	if (server->state == SERVER_LEAVING)
		return;
	left = calloc(1, sizeof(*left));
	must(left);
	instance_get_info(instance, &info);
	*left = (struct left){ .server = server, .instance = instance, .index = info.index };
	/* a folder that cannot be listed has no engine's socket either */
	(void)!server->os->calls->list(server->os, server->config->socket_dir, note_name, left);
	qsort(left->names, left->count, sizeof(left->names[0]), compare_names);
	for (size_t i = 0; i < left->count; i++)
		take_file(left, left->names[i]);
	free(left);
}
