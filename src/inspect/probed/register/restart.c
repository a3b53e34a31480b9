/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * restart - what a daemon before this one left in the tree: the dead are removed, the living are watched again, and what is
 * of another record version is parsed again, one after the other, so that registrants have their turn.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/reactor/reactor.h"
#include "inspect/probed/register/probes.gen.h"

struct restart {
	struct registry *registry;
	struct stash_registration *found; /* at first all; then those to be parsed again */
	size_t count, room, next, empty_from;
	uint32_t kept, reparsed, removed;
	uint64_t begun;
	bool cancelled;
};

/* The one that messages are about, which may be gone when they come. */
static struct registry *restarting;

static int note_found(void *ctx, const struct stash_registration *registration)
{
	struct restart *restart = ctx;

	if (restart->count == restart->room) {
		size_t room = restart->room ? restart->room * 2 : 64;
		void *more = reallocarray(restart->found, room, sizeof(*restart->found));

		if (!more)
			return -ENOMEM;
		restart->found = more;
		restart->room = room;
	}
	restart->found[restart->count++] = *registration;
	return 0;
}

static bool same_program(const struct stash_process *a, const struct stash_process *b)
{
	return a->exec_device == b->exec_device && a->exec_inode == b->exec_inode;
}

/* The process of `known`, watched, if it is the one it was. NULL: what it had is gone. */
static struct probed_process *take_up(struct restart *restart, const struct stash_registration *known, bool holds)
{
	struct registry *registry = restart->registry;
	struct probed_process *process;
	struct identity identity;
	struct fathom_fault why;

	if (identity_read(known->process.pid, &identity, &why) != 0) {
		if (why.error == -ESRCH)
			registry_remove_process(registry, known->process.pid);
		else
			log_warning("%s; what it registered stays as it is", why.text);
		return NULL;
	}
	if (identity.process.start_time != known->process.start_time) {
		registry_remove_process(registry, known->process.pid);
		return NULL;
	}
	if (holds && !same_program(&identity.process, &known->process)) {
		registry_clear_process(registry, known->process.pid); /* it is found again among the empty */
		return NULL;
	}
	if (process_get(registry, known->process.pid, known->process.uid, PROBED_WAY_KEPT, &process, &why) != 0) {
		if (why.error == -ESRCH)
			registry_remove_process(registry, known->process.pid);
		else
			log_error("%s", why.text);
		return NULL;
	}
	process->stored = true;
	if (holds)
		process_hold(process, &known->mapping, UINT64_MAX, PROBED_WAY_KEPT);
	process_put(registry, process);
	return process;
}

static void finish(struct restart *restart)
{
	struct registry *registry = restart->registry;

	must(registry->restart == restart);
	registry->restart = NULL;
	restarting = NULL;
	probe_probed_restart(clock_ticks(), restart->kept, restart->reparsed, restart->removed,
			     clock_ticks() - restart->begun);
	if (restart->count || restart->kept || restart->removed)
		log_notice("%u registrations kept, %u of them parsed again, %u removed", restart->kept, restart->reparsed,
			   restart->removed);
	free(restart->found);
	free(restart);
	if (registry->options.ready)
		registry->options.ready(registry->options.ready_ctx);
}

static void parse_next(void *unused);

static void parsed_again(void *ctx, int error, uint64_t generation, const struct fathom_fault *why)
{
	struct restart *restart = ctx;
	const struct stash_registration *known = &restart->found[restart->next];

	if (restart->cancelled)
		return;
	if (error == 0) {
		restart->reparsed++;
	} else {
		log_error("what process %d registered cannot be parsed again, and is removed: %s", known->process.pid,
			  why->text);
		registry_remove_mapping(restart->registry, known->process.pid, &known->mapping);
		restart->kept--;
		restart->removed++;
	}
	restart->next++;
	thread_send_msg(thread_self(), parse_next, NULL); /* not from within: another may come first */
}

static void parse_next(void *unused)
{
	struct registry *registry = restarting;
	struct restart *restart = registry ? registry->restart : NULL;

	if (!restart || restart->cancelled)
		return;
	while (restart->next < restart->count) {
		const struct stash_registration *known = &restart->found[restart->next];
		struct probed_process *process = process_find(registry, known->process.pid);

		if (process) {
			registry_reparse(registry, process, known, parsed_again, restart);
			return;
		}
		restart->next++; /* it has ended */
	}
	finish(restart);
}

/* Keep what lives; `found` then has what is to be parsed again. */
static void sort_out(struct restart *restart)
{
	size_t stale = 0;

	for (size_t i = 0; i < restart->count; i++) {
		if (!take_up(restart, &restart->found[i], true)) {
			restart->removed++;
			continue;
		}
		restart->kept++;
		if (restart->found[i].stale)
			restart->found[stale++] = restart->found[i];
	}
	restart->count = stale;
}

static int note_empty(void *ctx, const struct stash_process *process)
{
	struct restart *restart = ctx;
	const struct stash_registration nothing = { .process = *process };

	return process_find(restart->registry, process->pid) ? 0 : note_found(ctx, &nothing);
}

/* Those that have taken everything back, of whom the tree keeps the generations while they live. */
static int take_up_empty(struct restart *restart)
{
	int error;

	restart->empty_from = restart->count;
	error = stash_walk_processes(restart->registry->stash, note_empty, restart);
	for (size_t i = restart->empty_from; i < restart->count; i++)
		(void)take_up(restart, &restart->found[i], false); /* those that are not taken up are gone from the tree */
	restart->count = restart->empty_from;
	return error;
}

/* A file that was unmapped meanwhile. */
static void look_at_all(struct registry *registry)
{
	struct probed_process *process, *next;

	TAILQ_FOREACH_SAFE (process, &registry->order, in_order, next)
		process_look(registry, process);
}

int restart_begin(struct registry *registry, struct fathom_fault *why)
{
	struct restart *restart = calloc(1, sizeof(*restart));
	int error;

	if (!restart)
		return fault(why, -ENOMEM, "out of memory");
	restart->registry = registry;
	restart->begun = clock_ticks();
	error = stash_walk(registry->stash, note_found, restart);
	if (error) {
		free(restart->found);
		free(restart);
		return fault(why, error, "the tree of a daemon before this one cannot be read: %s", strerror(-error));
	}
	registry->restart = restart;
	restarting = registry;
	sort_out(restart);
	if (take_up_empty(restart) != 0)
		log_warning("not all processes in the tree could be examined: out of memory");
	look_at_all(registry);
	thread_send_msg(thread_self(), parse_next, NULL);
	return 0;
}

void restart_cancel(struct registry *registry)
{
	if (registry->restart)
		registry->restart->cancelled = true;
	restarting = NULL;
}

void restart_free(struct registry *registry)
{
	if (!registry->restart)
		return;
	must(registry->restart->cancelled);
	free(registry->restart->found);
	free(registry->restart);
	registry->restart = NULL;
}
