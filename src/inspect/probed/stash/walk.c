/* SPDX-License-Identifier: BSD-2-Clause */
/* walk - reads the tree for the daemon: registrations, processes, their objects, counts. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "inspect/probed/stash/internal.h"

/* The first mapping greater than `after`; `after` NULL: the first of all. */
static const struct stash_mapped *next_mapped(const struct stash_owner *owner, const struct stash_mapping *after)
{
	for (uint32_t i = 0; i < owner->mapped_count; i++) {
		if (!after || stash_compare_mappings(&owner->mapped[i].mapping, after) > 0)
			return &owner->mapped[i];
	}
	return NULL;
}

/* After each visit the next mapping is looked up again: the visit may have removed any registration. */
static int walk_owner(struct stash *stash, pid_t pid, stash_visit_fn visit, void *ctx)
{
	struct stash_mapping after;
	int rc = 0;

	for (bool first = true; rc == 0; first = false) {
		const struct stash_owner *owner = stash_find_owner(stash, pid);
		const struct stash_mapped *mapped = owner ? next_mapped(owner, first ? NULL : &after) : NULL;
		struct stash_registration registration;

		if (!mapped)
			break;
		must(first || stash_compare_mappings(&mapped->mapping, &after) > 0); /* so the walk ends */
		after = mapped->mapping;
		registration = (struct stash_registration){
			.process = owner->process,
			.mapping = mapped->mapping,
			.count = mapped->count,
			.stale = mapped->stale,
			.probes = mapped->probes,
			.bytes = mapped->bytes,
		};
		rc = visit(ctx, &registration);
	}
	return rc;
}

int stash_walk(struct stash *stash, stash_visit_fn visit, void *ctx)
{
	pid_t pid = 0;
	int rc = stash_sweep_if_dirty(stash, NULL);

	while (rc == 0) {
		uint32_t at = stash_owner_at_least(stash, pid);

		if (at == stash->owner_count)
			break;
		must(stash->owners[at]->process.pid >= pid);
		pid = stash->owners[at]->process.pid;
		rc = walk_owner(stash, pid, visit, ctx);
		pid++;
	}
	return rc;
}

int stash_walk_processes(struct stash *stash, stash_visit_process_fn visit, void *ctx)
{
	pid_t pid = 0;
	int rc = stash_sweep_if_dirty(stash, NULL);

	while (rc == 0) {
		uint32_t at = stash_owner_at_least(stash, pid);
		struct stash_process process;

		if (at == stash->owner_count)
			break;
		process = stash->owners[at]->process;
		must(process.pid >= pid);
		rc = visit(ctx, &process);
		pid = process.pid + 1;
	}
	return rc;
}

int stash_read(struct stash *stash, const struct stash_registration *registration, struct dof_input *input_ret,
	       void **memory_ret, struct fathom_fault *why)
{
	char path[STASH_PATH_BYTES], name[STASH_MAPPING_NAME_BYTES];
	int folder, rc = stash_sweep_if_dirty(stash, why);

	if (rc)
		return rc;
	must(registration->process.pid > 0);
	stash_mapping_name(&registration->mapping, name);
	snprintf(path, sizeof(path), "%d/%s", (int)registration->process.pid, name);
	rc = stash_open_folder(stash->pids, path, &folder);
	if (rc == 0) {
		rc = stash_get_input(folder, input_ret, memory_ret);
		close(folder);
	}
	return rc ? fault(why, rc, "cannot read the object of %s: %s", path, strerror(-rc)) : 0;
}

void stash_get_stats(const struct stash *stash, struct stash_stats *stats)
{
	*stats = stash->stats;
	stats->processes = stash->owner_count;
	stats->registrations = 0;
	for (uint32_t i = 0; i < stash->owner_count; i++)
		stats->registrations += stash->owners[i]->mapped_count;
	must(stats->registrations <= stash->total.objects); /* each has one addition or more */
	stats->objects = stash->total.objects;
	stats->bytes = stash->total.bytes;
	stats->probes = stash->total.probes;
}
