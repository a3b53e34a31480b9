/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * process - processes with registrations, found by pid. A pidfd reports the end of a process; then its registrations are
 * removed.
 *
 * A pid may be reused: before each use, the start time and the program are compared. A process with a stored registration
 * has an entry until it ends, also after it has removed everything: its generations in the tree must not be reused. Other
 * entries are freed when no registration is in progress.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/reactor/reactor.h"
#include "inspect/probed/register/probes.gen.h"

static struct process_bucket *process_bucket_of(struct registry *registry, pid_t pid)
{
	return &registry->buckets[(uint32_t)pid % PROCESS_BUCKETS];
}

struct probed_process *process_find(struct registry *registry, pid_t pid)
{
	struct probed_process *process;

	LIST_FOREACH (process, process_bucket_of(registry, pid), in_bucket) {
		if (process->identity.process.pid == pid && !process->dead)
			return process;
	}
	return NULL;
}

/* ---- registrations that a process holds ---- */

static bool same_mapping(const struct stash_mapping *a, const struct stash_mapping *b)
{
	return a->inode == b->inode && a->device == b->device;
}

static void free_held(struct probed_process *process)
{
	struct held *held;

	while ((held = LIST_FIRST(&process->held))) {
		LIST_REMOVE(held, link);
		free(held);
	}
}

void process_hold(struct probed_process *process, const struct stash_mapping *mapping, uint64_t generation,
		  enum probed_way way)
{
	struct held *held = malloc(sizeof(*held));

	must(!process->dead);
	must(process->pending > 0); /* a registration in progress holds it */
	process->stored = true;
	if (!held)
		return;
	*held = (struct held){ .mapping = *mapping, .generation = generation, .way = way };
	LIST_INSERT_HEAD(&process->held, held, link);
}

enum probed_way process_way(const struct probed_process *process, const struct stash_mapping *mapping)
{
	const struct held *held;

	LIST_FOREACH (held, &process->held, link) {
		if (same_mapping(&held->mapping, mapping))
			return held->way;
	}
	return PROBED_WAY_KEPT;
}

/* ---- start and end ---- */

static void free_process(struct registry *registry, struct probed_process *process)
{
	must(process->pending == 0);
	must(process->pidfd >= 0);
	must(registry->process_count > 0);
	fd_watch_remove(&process->watch);
	close(process->pidfd);
	free_held(process);
	LIST_REMOVE(process, in_bucket);
	TAILQ_REMOVE(&registry->order, process, in_order);
	free(process);
	registry->process_count--;
	must((registry->process_count == 0) == TAILQ_EMPTY(&registry->order));
	if (registry->process_count == 0 && registry->check_poller)
		poller_pause(registry->check_poller);
}

static void free_unused_process(struct registry *registry, struct probed_process *process)
{
	if (process->pending == 0 && (process->dead || !process->stored))
		free_process(registry, process);
}

static void remove_dead_process(struct registry *registry, struct probed_process *process)
{
	must(!process->dead);
	process->dead = true;
	registry->stats.processes_dead++;
	fd_watch_remove(&process->watch); /* the pidfd stays readable */
	registry_remove_process(registry, process->identity.process.pid);
	probe_probed_process_dead(clock_ticks(), process, process->identity.process.pid);
	free_held(process);
	free_unused_process(registry, process);
}

static struct registry *the_registry;

static void pidfd_ready(void *ctx, uint32_t events)
{
	must(the_registry);
	remove_dead_process(the_registry, ctx);
}

bool process_check_dead(struct registry *registry, struct probed_process *process)
{
	struct pollfd ended = { .fd = process->pidfd, .events = POLLIN };

	if (process->dead || poll(&ended, 1, 0) != 1)
		return process->dead;
	remove_dead_process(registry, process);
	return true;
}

static void handle_exec(struct registry *registry, struct probed_process *process, const struct identity *now)
{
	must(!process->dead);
	must(process->identity.process.pid == now->process.pid);
	must(process->identity.process.start_time == now->process.start_time);
	registry->stats.execs++;
	probe_probed_process_exec(clock_ticks(), process, process->identity.process.pid);
	registry_clear_process(registry, process->identity.process.pid);
	free_held(process);
	process->identity.process.exec_device = now->process.exec_device;
	process->identity.process.exec_inode = now->process.exec_inode;
	process->identity.image = now->image;
}

static bool is_same_program(const struct identity *a, const struct identity *b)
{
	if (a->process.exec_device != b->process.exec_device || a->process.exec_inode != b->process.exec_inode)
		return false;
	return a->image == b->image || a->image == 0 || b->image == 0;
}

static int open_pidfd(pid_t pid, struct fathom_fault *why)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	if (fd >= 0)
		return fd;
	if (errno == EMFILE || errno == ENFILE)
		return fault(why, -errno, "out of descriptors for processes: raise LimitNOFILE");
	if (errno == ESRCH || errno == EINVAL)
		return fault(why, -ESRCH, "process %d has ended", pid);
	return fault(why, -errno, "pidfd of process %d: %s", pid, strerror(errno));
}

static int create_process(struct registry *registry, const struct identity *identity, int pidfd, enum probed_way way,
			  struct probed_process **process_ret, struct fathom_fault *why)
{
	struct probed_process *process = calloc(1, sizeof(*process));

	if (!process)
		return fault(why, -ENOMEM, "out of memory");
	must(!process_find(registry, identity->process.pid));
	must(pidfd >= 0);
	must(!the_registry || the_registry == registry || registry->process_count == 0);
	the_registry = registry;
	process->identity = *identity;
	process->pidfd = pidfd;
	LIST_INIT(&process->held);
	trace_object_init(&process->trace, TRACE_OBJECT_PROBED_PROCESS);
	process->watch = fd_watch_add(pidfd, EPOLLIN, pidfd_ready, process);
	if (!process->watch) {
		free(process);
		return fault(why, -ENOMEM, "cannot watch a process: %s", strerror(errno));
	}
	LIST_INSERT_HEAD(process_bucket_of(registry, identity->process.pid), process, in_bucket);
	TAILQ_INSERT_TAIL(&registry->order, process, in_order);
	if (registry->process_count++ == 0 && registry->check_poller)
		poller_resume(registry->check_poller);
	probe_probed_process_known(clock_ticks(), process, identity->process.pid, identity->process.uid,
				   identity->process.start_time, way);
	*process_ret = process;
	return 0;
}

static int find_or_create_process(struct registry *registry, const struct identity *identity, enum probed_way way,
				  struct probed_process **process_ret, struct fathom_fault *why)
{
	struct probed_process *process = process_find(registry, identity->process.pid);
	uint64_t start_time;
	int pidfd, error;

	if (process && process->identity.process.start_time == identity->process.start_time) {
		if (!is_same_program(&process->identity, identity))
			handle_exec(registry, process, identity);
		*process_ret = process;
		return 0;
	}
	if (process)
		remove_dead_process(registry, process); /* its pid was reused */
	pidfd = open_pidfd(identity->process.pid, why);
	if (pidfd < 0)
		return pidfd;
	/* if the start time is unchanged, /proc and the pidfd describe the same process */
	error = identity_start_time(identity->process.pid, &start_time);
	if (error || start_time != identity->process.start_time)
		error = fault(why, -ESRCH, "process %d has ended", identity->process.pid);
	else
		error = create_process(registry, identity, pidfd, way, process_ret, why);
	if (error)
		close(pidfd);
	return error;
}

int process_get(struct registry *registry, pid_t pid, uid_t uid, enum probed_way way, struct probed_process **process_ret,
		struct fathom_fault *why)
{
	struct probed_process *process = NULL;
	struct identity identity;
	int error = identity_read(pid, &identity, why);

	if (error)
		return error;
	identity.process.uid = uid; /* the user to charge: in /proc a process that is not dumpable belongs to root */
	error = find_or_create_process(registry, &identity, way, &process, why);
	if (error)
		return error;
	must(!process->dead);
	must(process->identity.process.pid == pid);
	process->pending++;
	*process_ret = process;
	return 0;
}

void process_put(struct registry *registry, struct probed_process *process)
{
	must(process->pending > 0);
	process->pending--;
	free_unused_process(registry, process);
}

void process_release(struct probed_process *process, uint64_t generation)
{
	struct held *held;

	LIST_FOREACH (held, &process->held, link) {
		if (held->generation == generation) {
			LIST_REMOVE(held, link);
			free(held);
			if (LIST_EMPTY(&process->held))
				probe_probed_process_empty(clock_ticks(), process, process->identity.process.pid);
			return;
		}
	}
}

void processes_free(struct registry *registry)
{
	struct probed_process *process;

	while ((process = TAILQ_FIRST(&registry->order)))
		free_process(registry, process);
}

/* ---- checks ---- */

enum { MAPPINGS_CHECKED_MAX = 256 };

struct mapping_search {
	struct stash_mapping *missing; /* held mappings that were not found yet */
	size_t count;
};

static int match_mapped_file(void *ctx, const struct identity_file *file)
{
	struct mapping_search *search = ctx;

	for (size_t i = 0; i < search->count; i++) {
		if (same_mapping(&search->missing[i], &file->mapping)) {
			must(search->count > 0);
			search->missing[i] = search->missing[--search->count];
			break;
		}
	}
	return search->count == 0; /* all are mapped */
}

/* The mappings of its registrations, each once. */
static size_t list_held_mappings(const struct probed_process *process, struct stash_mapping *mappings)
{
	const struct held *held;
	size_t count = 0, i;

	LIST_FOREACH (held, &process->held, link) {
		for (i = 0; i < count && !same_mapping(&mappings[i], &held->mapping); i++)
			;
		if (i == count && count < MAPPINGS_CHECKED_MAX)
			mappings[count++] = held->mapping;
	}
	must(count <= MAPPINGS_CHECKED_MAX);
	return count;
}

static void remove_unmapped(struct registry *registry, struct probed_process *process, const struct stash_mapping *mapping)
{
	struct held *held, *next;

	registry->stats.mappings_gone++;
	probe_probed_mapping_gone(clock_ticks(), process->identity.process.pid, mapping->device, mapping->inode);
	registry_remove_mapping(registry, process->identity.process.pid, mapping);
	for (held = LIST_FIRST(&process->held); held; held = next) {
		next = LIST_NEXT(held, link);
		if (same_mapping(&held->mapping, mapping)) {
			LIST_REMOVE(held, link);
			free(held);
		}
	}
}

void process_recheck(struct registry *registry, struct probed_process *process)
{
	struct stash_mapping mappings[MAPPINGS_CHECKED_MAX];
	struct mapping_search search = { .missing = mappings };
	struct identity now;
	struct fathom_fault why;

	if (process_check_dead(registry, process))
		return;
	if (identity_read(process->identity.process.pid, &now, &why) != 0 ||
	    now.process.start_time != process->identity.process.start_time)
		return; /* it is ending, which the pidfd reports, or may no longer be inspected */
	if (!is_same_program(&process->identity, &now)) {
		handle_exec(registry, process, &now);
	} else {
		search.count = list_held_mappings(process, mappings);
		if (search.count > 0 && identity_files(process->identity.process.pid, match_mapped_file, &search, &why) < 0)
			return;
		for (size_t i = 0; i < search.count; i++)
			remove_unmapped(registry, process, &search.missing[i]);
	}
}
