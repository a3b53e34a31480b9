/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * process - those that have something registered: found by pid, watched by a pidfd, whose end takes away what they had.
 *
 * A pid is not a process. Before anything is believed of one, its start time is compared with what is known, and the
 * program that it runs. A process of which something was stored is known until it ends, also when it has taken everything
 * back: the tree keeps its generations, so that none is given twice. Others are forgotten when nothing is on its way.
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

static struct process_bucket *bucket_of(struct registry *registry, pid_t pid)
{
	return &registry->buckets[(uint32_t)pid % PROCESS_BUCKETS];
}

struct probed_process *process_find(struct registry *registry, pid_t pid)
{
	struct probed_process *process;

	LIST_FOREACH (process, bucket_of(registry, pid), in_bucket) {
		if (process->identity.process.pid == pid && !process->dead)
			return process;
	}
	return NULL;
}

/* ---- what it holds ---- */

static bool same_mapping(const struct stash_mapping *a, const struct stash_mapping *b)
{
	return a->inode == b->inode && a->device == b->device;
}

static void held_free(struct probed_process *process)
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

/* ---- coming and going ---- */

static void forget(struct registry *registry, struct probed_process *process)
{
	must(process->pending == 0);
	must(registry->process_count > 0);
	fd_watch_remove(&process->watch);
	close(process->pidfd);
	held_free(process);
	LIST_REMOVE(process, in_bucket);
	TAILQ_REMOVE(&registry->order, process, in_order);
	free(process);
	if (--registry->process_count == 0 && registry->look_poller)
		poller_pause(registry->look_poller);
}

static void forget_if_nobody(struct registry *registry, struct probed_process *process)
{
	if (process->pending == 0 && (process->dead || !process->stored))
		forget(registry, process);
}

static void has_died(struct registry *registry, struct probed_process *process)
{
	must(!process->dead);
	process->dead = true;
	registry->stats.processes_dead++;
	fd_watch_remove(&process->watch); /* it stays readable */
	registry_remove_process(registry, process->identity.process.pid);
	probe_probed_process_dead(clock_ticks(), process, process->identity.process.pid);
	held_free(process);
	forget_if_nobody(registry, process);
}

static struct registry *the_registry;

static void pidfd_ready(void *ctx, uint32_t events)
{
	has_died(the_registry, ctx);
}

bool process_check_dead(struct registry *registry, struct probed_process *process)
{
	struct pollfd ended = { .fd = process->pidfd, .events = POLLIN };

	if (process->dead || poll(&ended, 1, 0) != 1)
		return process->dead;
	has_died(registry, process);
	return true;
}

static void runs_another_program(struct registry *registry, struct probed_process *process, const struct identity *now)
{
	registry->stats.execs++;
	probe_probed_process_exec(clock_ticks(), process, process->identity.process.pid);
	registry_clear_process(registry, process->identity.process.pid);
	held_free(process);
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
		return fault(why, -errno, "one process more than the daemon may have descriptors for: raise LimitNOFILE");
	if (errno == ESRCH || errno == EINVAL)
		return fault(why, -ESRCH, "process %d is gone", pid);
	return fault(why, -errno, "pidfd of process %d: %s", pid, strerror(errno));
}

static int make(struct registry *registry, const struct identity *identity, int pidfd, enum probed_way way,
		struct probed_process **process_ret, struct fathom_fault *why)
{
	struct probed_process *process = calloc(1, sizeof(*process));

	if (!process)
		return fault(why, -ENOMEM, "out of memory");
	the_registry = registry;
	process->identity = *identity;
	process->pidfd = pidfd;
	LIST_INIT(&process->held);
	trace_object_init(&process->trace, TRACE_OBJECT_PROBED_PROCESS);
	process->watch = fd_watch_add(pidfd, EPOLLIN, pidfd_ready, process);
	if (!process->watch) {
		free(process);
		return fault(why, -ENOMEM, "a process cannot be watched: %s", strerror(errno));
	}
	LIST_INSERT_HEAD(bucket_of(registry, identity->process.pid), process, in_bucket);
	TAILQ_INSERT_TAIL(&registry->order, process, in_order);
	if (registry->process_count++ == 0 && registry->look_poller)
		poller_resume(registry->look_poller);
	probe_probed_process_known(clock_ticks(), process, identity->process.pid, identity->process.uid,
				   identity->process.start_time, way);
	*process_ret = process;
	return 0;
}

static int know(struct registry *registry, const struct identity *identity, enum probed_way way,
		struct probed_process **process_ret, struct fathom_fault *why)
{
	struct probed_process *process = process_find(registry, identity->process.pid);
	uint64_t start_time;
	int pidfd, error;

	if (process && process->identity.process.start_time == identity->process.start_time) {
		if (!is_same_program(&process->identity, identity))
			runs_another_program(registry, process, identity);
		*process_ret = process;
		return 0;
	}
	if (process)
		has_died(registry, process); /* its pid is another's already */
	pidfd = open_pidfd(identity->process.pid, why);
	if (pidfd < 0)
		return pidfd;
	/* what was read in /proc before is of the one that the pidfd is of, or it has ended meanwhile */
	error = identity_start_time(identity->process.pid, &start_time);
	if (error || start_time != identity->process.start_time)
		error = fault(why, -ESRCH, "process %d is gone", identity->process.pid);
	else
		error = make(registry, identity, pidfd, way, process_ret, why);
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
	identity.process.uid = uid; /* as it is charged: what /proc says may be root's, of one that is not to be dumped */
	error = know(registry, &identity, way, &process, why);
	if (error)
		return error;
	process->pending++;
	*process_ret = process;
	return 0;
}

void process_put(struct registry *registry, struct probed_process *process)
{
	must(process->pending > 0);
	process->pending--;
	forget_if_nobody(registry, process);
}

void process_let_go(struct probed_process *process, uint64_t generation)
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
		forget(registry, process);
}

/* ---- looking ---- */

enum { MAPPINGS_LOOKED_AT_MAX = 256 };

struct look {
	struct stash_mapping *there; /* of what is held, as far as it has been seen */
	size_t count;
};

static int see_mapped(void *ctx, const struct identity_file *file)
{
	struct look *look = ctx;

	for (size_t i = 0; i < look->count; i++) {
		if (same_mapping(&look->there[i], &file->mapping)) {
			look->there[i] = look->there[--look->count];
			break;
		}
	}
	return look->count == 0; /* all have been seen */
}

/* The mappings that it holds, each once. */
static size_t mappings_of(const struct probed_process *process, struct stash_mapping *mappings)
{
	const struct held *held;
	size_t count = 0, i;

	LIST_FOREACH (held, &process->held, link) {
		for (i = 0; i < count && !same_mapping(&mappings[i], &held->mapping); i++)
			;
		if (i == count && count < MAPPINGS_LOOKED_AT_MAX)
			mappings[count++] = held->mapping;
	}
	return count;
}

static void mapping_gone(struct registry *registry, struct probed_process *process, const struct stash_mapping *mapping)
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

void process_look(struct registry *registry, struct probed_process *process)
{
	struct stash_mapping mappings[MAPPINGS_LOOKED_AT_MAX];
	struct look look = { .there = mappings };
	struct identity now;
	struct fathom_fault why;

	if (process_check_dead(registry, process))
		return;
	if (identity_read(process->identity.process.pid, &now, &why) != 0 ||
	    now.process.start_time != process->identity.process.start_time)
		return; /* it is ending, which will be seen, or is no longer for our eyes */
	if (!is_same_program(&process->identity, &now)) {
		runs_another_program(registry, process, &now);
	} else {
		look.count = mappings_of(process, mappings);
		if (look.count > 0 && identity_files(process->identity.process.pid, see_mapped, &look, &why) < 0)
			return;
		for (size_t i = 0; i < look.count; i++)
			mapping_gone(registry, process, &look.there[i]);
	}
}
