/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * restart - adopts the tree of an earlier daemon: removes the registrations of dead processes, watches live ones, and
 * parses stale registrations again, one at a time, so that new registrations are served in between.
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
	struct stash_registration *found; /* all registrations; after adoption the stale ones */
	size_t count, room, next, empty_from;
	uint32_t kept, reparsed, removed;
	uint64_t begun;
	bool cancelled;
};

/* The registry that a message in flight is about; NULL: it was destroyed. */
static struct registry *restarting;

static int collect_found(void *ctx, const struct stash_registration *registration)
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
	must(restart->count < restart->room);
	restart->found[restart->count++] = *registration;
	return 0;
}

static bool same_program(const struct stash_process *a, const struct stash_process *b)
{
	return a->exec_device == b->exec_device && a->exec_inode == b->exec_inode;
}

/* Watch the process of `known`. NULL: it has ended, or execed, and its registrations are removed. */
static struct probed_process *adopt_process(struct restart *restart, const struct stash_registration *known, bool holds)
{
	struct registry *registry = restart->registry;
	struct probed_process *process;
	struct identity identity;
	struct fathom_fault why;

	if (identity_read(known->process.pid, &identity, &why) != 0) {
		if (why.error == -ESRCH)
			registry_remove_process(registry, known->process.pid);
		else
			log_warning("%s; its registrations stay", why.text);
		return NULL;
	}
	if (identity.process.start_time != known->process.start_time) {
		registry_remove_process(registry, known->process.pid);
		return NULL;
	}
	if (holds && !same_program(&identity.process, &known->process)) {
		registry_clear_process(registry, known->process.pid); /* adopt_empty_processes() adopts it */
		return NULL;
	}
	if (process_get(registry, known->process.pid, known->process.uid, PROBED_WAY_KEPT, &process, &why) != 0) {
		if (why.error == -ESRCH)
			registry_remove_process(registry, known->process.pid);
		else
			log_error("%s", why.text);
		return NULL;
	}
	must(!process->dead);
	process->stored = true;
	if (holds)
		process_hold(process, &known->mapping, UINT64_MAX, PROBED_WAY_KEPT);
	process_put(registry, process);
	return process;
}

static void finish_restart(struct restart *restart)
{
	struct registry *registry = restart->registry;

	must(registry->restart == restart);
	must(restart->next == restart->count && !restart->cancelled);
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

static void handle_reparsed(void *ctx, int error, uint64_t generation, const struct fathom_fault *why)
{
	struct restart *restart = ctx;
	const struct stash_registration *known = &restart->found[restart->next];

	must(restart->next < restart->count);
	if (restart->cancelled)
		return;
	if (error == 0) {
		restart->reparsed++;
	} else {
		log_error("probes of process %d cannot be parsed again, and are removed: %s", known->process.pid,
			  why->text);
		registry_remove_mapping(restart->registry, known->process.pid, &known->mapping);
		must(restart->kept > 0);
		restart->kept--;
		restart->removed++;
	}
	restart->next++;
	thread_send_msg(thread_self(), parse_next, NULL); /* by a message, so that new registrations come first */
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
			registry_reparse(registry, process, known, handle_reparsed, restart);
			return;
		}
		restart->next++; /* it has ended */
	}
	finish_restart(restart);
}

/* Adopt the processes of all registrations. `found` then has the stale ones. */
static void adopt_processes(struct restart *restart)
{
	size_t stale = 0;

	for (size_t i = 0; i < restart->count; i++) {
		if (!adopt_process(restart, &restart->found[i], true)) {
			restart->removed++;
			continue;
		}
		restart->kept++;
		if (restart->found[i].stale)
			restart->found[stale++] = restart->found[i];
	}
	must(stale <= restart->kept);
	restart->count = stale;
}

static int collect_empty_process(void *ctx, const struct stash_process *process)
{
	struct restart *restart = ctx;
	const struct stash_registration nothing = { .process = *process };

	return process_find(restart->registry, process->pid) ? 0 : collect_found(ctx, &nothing);
}

/* Adopt live processes without registrations: their generations must not be reused. */
static int adopt_empty_processes(struct restart *restart)
{
	int error;

	restart->empty_from = restart->count;
	error = stash_walk_processes(restart->registry->stash, collect_empty_process, restart);
	for (size_t i = restart->empty_from; i < restart->count; i++)
		(void)adopt_process(restart, &restart->found[i], false); /* else it is removed from the tree */
	restart->count = restart->empty_from;
	return error;
}

/* Detect files that were unmapped while no daemon ran. */
static void recheck_all(struct registry *registry)
{
	struct probed_process *process, *next;

	TAILQ_FOREACH_SAFE (process, &registry->order, in_order, next)
		process_recheck(registry, process);
}

int restart_begin(struct registry *registry, struct fathom_fault *why)
{
	struct restart *restart = calloc(1, sizeof(*restart));
	int error;

	if (!restart)
		return fault(why, -ENOMEM, "out of memory");
	restart->registry = registry;
	restart->begun = clock_ticks();
	error = stash_walk(registry->stash, collect_found, restart);
	if (error) {
		free(restart->found);
		free(restart);
		return fault(why, error, "cannot read the tree of the earlier daemon: %s", strerror(-error));
	}
	must(!registry->restart && !restarting);
	registry->restart = restart;
	restarting = registry;
	adopt_processes(restart);
	if (adopt_empty_processes(restart) != 0)
		log_warning("out of memory: not all processes of the tree were adopted");
	recheck_all(registry);
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
	must(registry->restart->registry == registry);
	must(registry->restart->cancelled);
	free(registry->restart->found);
	free(registry->restart);
	registry->restart = NULL;
}
