/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reparse - writes the probes of a stale registration: they were of another record version, or damaged. The folder parsed/
 * is made again. The file `version` in it commits: a sweep removes a parsed/ without one.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "inspect/probed/stash/internal.h"

int stash_put_version(struct stash *stash, int parsed)
{
	const uint64_t version = stash->record_version;

	must(version >= STASH_RECORD_VERSION_MIN && version <= STASH_RECORD_VERSION_MAX);
	must(parsed >= 0);
	/* a link saves a page of memory for each registration */
	if (linkat(stash->folder, "version", parsed, "version", 0) == 0)
		return 0;
	return stash_write_file(parsed, "version", &version, sizeof(version));
}

static int install_parsed(struct stash *stash, struct stash_stage *stage, pid_t pid, const char *mapping_name, int parsed)
{
	char path[STASH_PATH_BYTES];
	int rc;

	must(stage->pid == pid && stage->parsed == parsed);
	snprintf(path, sizeof(path), "%d/%s/parsed", (int)pid, mapping_name);
	if (renameat(stash->work, "parsed", stash->pids, path) != 0)
		return -errno;
	rc = stash_stage_install(stage);
	return rc ? rc : stash_put_version(stash, parsed);
}

static int write_parsed(struct stash *stash, pid_t pid, const char *mapping_name, const struct dof_set *set,
			struct fathom_fault *why)
{
	struct stash_stage stage = { .made = -1, .current = -1 };
	bool installing = false;
	int parsed, rc;

	rc = stash_make_folder(stash->work, "parsed", &parsed);
	if (rc)
		return stash_recover(stash, fault(why, rc, "cannot make stash/work/parsed: %s", strerror(-rc)));
	rc = stash_stage_begin(stash, pid, parsed, set, &stage, why);
	if (rc == 0) {
		installing = true;
		rc = install_parsed(stash, &stage, pid, mapping_name, parsed);
		if (rc)
			rc = fault(why, rc, "cannot move probes of process %d into place: %s", (int)pid, strerror(-rc));
	}
	stash_stage_end(&stage);
	close(parsed);
	if (rc && installing)
		return stash_recover(stash, rc);
	if (stash_remove_tree(stash->work, "parsed") != 0 || stash_remove_tree(stash->work, "probes") != 0)
		return stash_recover(stash, rc);
	return rc;
}

int stash_reparsed(struct stash *stash, const struct stash_registration *registration, const struct dof_set *set,
		   struct fathom_fault *why)
{
	const struct stash_counts more = { .probes = stash_set_probes(set) };
	pid_t pid = registration->process.pid;
	char name[STASH_MAPPING_NAME_BYTES];
	struct stash_mapped *mapped;
	struct stash_owner *owner;
	int rc = stash_sweep_if_dirty(stash, why);

	if (rc)
		return rc;
	owner = stash_find_owner(stash, pid);
	mapped = owner ? stash_find_mapped(owner, &registration->mapping) : NULL;
	stash_mapping_name(&registration->mapping, name);
	if (!mapped)
		return fault(why, -ENOENT, "process %d has no registration of mapping %s", (int)pid, name);
	if (!mapped->stale)
		return 0;
	must(mapped->probes == 0);
	rc = stash_check_set(set, why);
	if (rc == 0)
		rc = stash_admit(stash, &owner->process, owner, &more, why);
	if (rc == 0)
		rc = write_parsed(stash, pid, name, set, why);
	if (rc)
		return rc;
	owner = stash_find_owner(stash, pid); /* a sweep may have made the index again, with the new probes counted */
	mapped = owner ? stash_find_mapped(owner, &registration->mapping) : NULL;
	if (mapped && mapped->stale) {
		must(mapped->probes == 0);
		mapped->stale = false;
		mapped->probes = (uint32_t)more.probes;
		stash_count(stash, owner, 1, 0, 0, more.probes);
	}
	return 0;
}
