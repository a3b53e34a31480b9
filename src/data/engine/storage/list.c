/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * storage_list - the action LIST: reads the space of the storage first, then answers. A LIST that arrives during a reading
 * waits for the next one, so its sizes are never older than the call. It answers after LIST_WAIT_MS even if the storage
 * hangs, with the sizes of the last reading; then at most one reading waits for the storage.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "data/engine/storage/calls.h"

enum { LIST_WAIT_MS = 2000 };

struct listing {
	struct storage_call *call;
	struct deadline deadline;
	bool is_next; /* for the next reading, not for the one in progress */
	TAILQ_ENTRY(listing) link;
};

static struct {
	TAILQ_HEAD(, listing) waiting;
	bool is_reading;
} lists = { .waiting = TAILQ_HEAD_INITIALIZER(lists.waiting) };

static void end_listing(struct listing *listing)
{
	struct storage_call *call = listing->call;

	deadline_clear(&engine_control.deadlines, &listing->deadline);
	TAILQ_REMOVE(&lists.waiting, listing, link);
	free(listing);
	storage_call_end(call, NULL);
}

static void list_late(struct deadline *deadline)
{
	end_listing(container_of(deadline, struct listing, deadline));
}

static void note_read(void *ctx, const struct fathom_fault *why);

static void start_reading(struct volumes *volumes)
{
	lists.is_reading = true;
	volumes_read_space(volumes, note_read, volumes);
}

/* Also after an error: the sizes are then those of the last reading. */
static void note_read(void *ctx, const struct fathom_fault *why)
{
	struct listing *listing, *next;

	must(lists.is_reading);
	/* a reply may bring the next call, which must not start a second reading: it waits for the one below */
	TAILQ_FOREACH_SAFE (listing, &lists.waiting, link, next) {
		if (!listing->is_next || !engine_storage())
			end_listing(listing);
		else
			listing->is_next = false;
	}
	lists.is_reading = false;
	if (!TAILQ_EMPTY(&lists.waiting))
		start_reading(ctx);
}

void storage_list(struct storage_call *call)
{
	struct listing *listing = calloc(1, sizeof(*listing));

	must(listing);
	listing->call = call;
	listing->is_next = lists.is_reading;
	TAILQ_INSERT_TAIL(&lists.waiting, listing, link);
	deadline_set(&engine_control.deadlines, &listing->deadline, LIST_WAIT_MS * NS_PER_MS, list_late);
	if (!lists.is_reading)
		start_reading(call->volumes);
}
