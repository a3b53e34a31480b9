/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * add - adds a registration, all or nothing.
 *
 *   new process                        known process
 *   work/process/...   made            work/mapping/...         made
 *   work/probes/...    made            work/probes/...          made, as far as probes/$pid lacks it
 *                                      $gen                     linked to the mapping's folder, which does not exist yet
 *   probes/$pid        renamed there   probes/$pid/...          renamed there
 *   dof-pid/$pid       renamed there   dof-pid/$pid/$dev-$ino   renamed there
 *
 * The last rename commits. Before it, a file in probes/ has its other link in work/. A sweep empties work/ first, so it
 * then finds that no registration has the file, and removes it.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "inspect/probed/stash/internal.h"

/* The state of one stash_add(). */
struct adding {
	struct stash *stash;
	const struct stash_addition *addition;
	struct fathom_fault *why;
	struct stash_owner *owner;
	bool is_new_owner;
	char mapping_name[STASH_MAPPING_NAME_BYTES];
	uint64_t generation;
	int top, folder, parsed; /* work/process, the mapping's folder, its parsed/ */
	struct stash_stage stage;
};

static int add_failed(const struct adding *adding, int error, const char *what)
{
	must(error < 0);
	return fault(adding->why, error, "cannot register probes of process %d: %s: %s",
		     (int)adding->addition->process->pid, what, strerror(-error));
}

static uint64_t input_bytes(const struct dof_input *input)
{
	uint64_t bytes = 0;

	must(stash_block_count(input) > 0 && stash_block_count(input) <= DOF_BLOCKS_MAX);
	for (uint32_t i = 0; i < stash_block_count(input); i++)
		bytes += input->blocks[i].bytes;
	return bytes;
}

/* ---- generations ---- */

/* Allocate the process's next generation and link it to `mapping_name`. After an error the number may be used up. */
static int allocate_generation(struct stash *stash, struct stash_owner *owner, const char *mapping_name,
			       uint64_t *generation_ret)
{
	uint64_t generation = owner->next_generation;
	char path[STASH_PATH_BYTES];
	int rc;

	if (generation >= STASH_GENERATION_MAX)
		return -EOVERFLOW;
	snprintf(path, sizeof(path), "%d/next-gen", (int)owner->process.pid);
	rc = stash_put_size(stash->pids, path, generation + 1, 0);
	if (rc)
		return rc;
	owner->next_generation++;
	must(owner->next_generation <= STASH_GENERATION_MAX);
	snprintf(path, sizeof(path), "%d/%" PRIu64, (int)owner->process.pid, generation);
	if (symlinkat(mapping_name, stash->pids, path) != 0)
		return -errno;
	*generation_ret = generation;
	return 0;
}

/* ---- a registered mapping ---- */

static int check_same_input(struct adding *adding)
{
	const struct stash_addition *addition = adding->addition;
	char path[STASH_PATH_BYTES];
	bool same = false;
	int folder, rc;

	snprintf(path, sizeof(path), "%d/%s", (int)addition->process->pid, adding->mapping_name);
	rc = stash_open_folder(adding->stash->pids, path, &folder);
	if (rc)
		return add_failed(adding, rc, "cannot open the earlier registration of the mapping");
	rc = stash_same_input(folder, addition->input, addition->uploads, &same);
	close(folder);
	if (rc)
		return add_failed(adding, rc, "cannot read the earlier registration of the mapping");
	if (same)
		return 0;
	adding->stash->stats.refused++;
	return fault(adding->why, -ESTALE,
		     "process %d has registered mapping %s with other bytes or at another address; remove that first",
		     (int)addition->process->pid, adding->mapping_name);
}

static int add_generation(struct adding *adding)
{
	const struct stash_addition *addition = adding->addition;
	const struct stash_counts more = { .objects = 1 };
	struct stash *stash = adding->stash;
	struct stash_owner *owner = adding->owner;
	struct stash_mapped *mapped = stash_find_mapped(owner, addition->mapping);
	int rc = stash_admit(stash, addition->process, owner, &more, adding->why);

	must(mapped);
	must(!adding->is_new_owner);
	if (rc == 0)
		rc = check_same_input(adding);
	if (rc == 0 && mapped->stale) {
		const struct stash_registration registration = { .process = owner->process, .mapping = *addition->mapping };

		rc = stash_reparsed(stash, &registration, addition->set, adding->why);
		owner = stash_find_owner(stash, addition->process->pid); /* a sweep may have made the index again */
		mapped = owner ? stash_find_mapped(owner, addition->mapping) : NULL;
		if (rc == 0 && !mapped)
			rc = add_failed(adding, -EIO, "the tree could not be swept");
	}
	if (rc)
		return rc;
	rc = allocate_generation(stash, owner, adding->mapping_name, &adding->generation);
	if (rc)
		return add_failed(adding, rc, "cannot allocate a generation");
	must(mapped->count > 0);
	must(!mapped->stale); /* it was stale only until stash_reparsed() */
	mapped->count++;
	stash_count(stash, owner, 1, 1, 0, 0);
	must(mapped->count <= owner->counts.objects);
	return 0;
}

/* ---- a new mapping ---- */

static int make_input(struct adding *adding)
{
	struct stash *stash = adding->stash;
	int rc = adding->is_new_owner ? stash_make_folder(stash->work, "process", &adding->top) : 0;

	must(adding->folder < 0 && adding->parsed < 0);
	if (rc == 0)
		rc = stash_make_folder(adding->is_new_owner ? adding->top : stash->work,
				       adding->is_new_owner ? adding->mapping_name : "mapping", &adding->folder);
	if (rc == 0)
		rc = stash_put_input(stash, adding->addition, adding->folder);
	if (rc == 0)
		rc = stash_make_folder(adding->folder, "parsed", &adding->parsed);
	if (rc == 0)
		rc = stash_put_version(stash, adding->parsed);
	return rc ? add_failed(adding, rc, "cannot write its object") : 0;
}

static int make_process(struct adding *adding)
{
	int rc = stash_put_process(adding->top, adding->addition->process);

	must(adding->is_new_owner && adding->generation == 0);
	if (rc == 0)
		rc = stash_put_size(adding->top, "next-gen", 1, O_CREAT | O_EXCL);
	if (rc == 0 && symlinkat(adding->mapping_name, adding->top, "0") != 0)
		rc = -errno;
	return rc ? add_failed(adding, rc, "cannot write the files of the process") : 0;
}

static int make_files(struct adding *adding)
{
	const struct stash_addition *addition = adding->addition;
	int rc = make_input(adding);

	must(rc || (adding->folder >= 0 && adding->parsed >= 0));
	if (rc == 0)
		rc = stash_stage_begin(adding->stash, addition->process->pid, adding->parsed, addition->set, &adding->stage,
				       adding->why);
	if (rc == 0 && adding->is_new_owner)
		rc = make_process(adding);
	return rc;
}

static int install_files(struct adding *adding)
{
	struct stash *stash = adding->stash;
	char path[STASH_PATH_BYTES];
	int rc = stash_stage_install(&adding->stage);

	must((adding->top >= 0) == adding->is_new_owner);
	if (rc)
		return rc;
	snprintf(path, sizeof(path), "%d%s%s", (int)adding->addition->process->pid, adding->is_new_owner ? "" : "/",
		 adding->is_new_owner ? "" : adding->mapping_name);
	return renameat(stash->work, adding->is_new_owner ? "process" : "mapping", stash->pids, path) == 0 ? 0 : -errno;
}

static void close_folders(struct adding *adding)
{
	const int fds[] = { adding->top, adding->folder, adding->parsed };

	for (size_t i = 0; i < ARRAY_COUNT(fds); i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
	stash_stage_end(&adding->stage);
}

static int remove_made_files(struct adding *adding)
{
	const struct stash_addition *addition = adding->addition;
	int rc = stash_remove_tree(adding->stash->work, adding->is_new_owner ? "process" : "mapping");

	if (rc == 0)
		rc = stash_remove_tree(adding->stash->work, "probes");
	if (rc == 0)
		rc = stash_drop_raw(adding->stash, addition->process->pid, addition->mapping, DOF_BLOCKS_MAX);
	return rc;
}

/* Before the tree has the mapping, so that nothing can fail after the commit. */
static struct stash_mapped *add_to_index(struct adding *adding)
{
	struct stash_mapped *mapped;

	must(adding->is_new_owner == !adding->owner);
	if (adding->is_new_owner)
		adding->owner = stash_index_owner(adding->stash, adding->addition->process);
	mapped = adding->owner ? stash_index_mapped(adding->owner, adding->addition->mapping) : NULL;
	if (!mapped && adding->owner && adding->is_new_owner)
		stash_forget_owner(adding->stash, adding->owner);
	return mapped;
}

static void remove_from_index(struct adding *adding, struct stash_mapped *mapped)
{
	if (adding->is_new_owner)
		stash_forget_owner(adding->stash, adding->owner);
	else
		stash_forget_mapped(adding->stash, adding->owner, mapped);
}

static int add_mapping(struct adding *adding)
{
	const struct stash_addition *addition = adding->addition;
	const struct stash_counts more = { 1, input_bytes(addition->input), stash_set_probes(addition->set) };
	struct stash *stash = adding->stash;
	struct stash_mapped *mapped;
	bool installing = false;
	int rc = stash_admit(stash, addition->process, adding->owner, &more, adding->why);

	if (rc)
		return rc;
	mapped = add_to_index(adding);
	if (!mapped)
		return add_failed(adding, -ENOMEM, "index");
	rc = make_files(adding);
	if (rc == 0 && !adding->is_new_owner) {
		rc = allocate_generation(stash, adding->owner, adding->mapping_name, &adding->generation);
		if (rc)
			rc = add_failed(adding, rc, "cannot allocate a generation");
	}
	if (rc == 0) {
		installing = true;
		rc = install_files(adding);
		if (rc)
			rc = add_failed(adding, rc, "cannot move its files into place");
	}
	close_folders(adding);
	if (rc) {
		remove_from_index(adding, mapped);
		if (installing || remove_made_files(adding) != 0)
			return stash_recover(stash, rc);
		return rc;
	}
	must(mapped->count == 0);
	if (adding->is_new_owner)
		adding->owner->next_generation = 1;
	must(adding->generation < adding->owner->next_generation);
	must(more.probes == adding->stage.probe_count);
	mapped->count = 1;
	mapped->block_count = stash_block_count(addition->input);
	mapped->bytes = more.bytes;
	mapped->probes = (uint32_t)more.probes;
	stash_count(stash, adding->owner, 1, 1, more.bytes, more.probes);
	if (adding->stage.has_rest && stash_remove_tree(stash->work, "probes") != 0)
		(void)stash_recover(stash, 0);
	return 0;
}

/* ---- the process ---- */

static int put_identity(struct stash *stash, int folder, const struct stash_process *process)
{
	static const char *const names[] = { "exec-mapping", "process" };
	int rc = stash_put_process(folder, process);

	must(process->pid > 0);
	for (size_t i = 0; i < ARRAY_COUNT(names) && rc == 0; i++) {
		char path[STASH_PATH_BYTES];

		snprintf(path, sizeof(path), "%d/%s", (int)process->pid, names[i]);
		rc = renameat(folder, names[i], stash->pids, path) == 0 ? 0 : -errno;
	}
	return rc;
}

/* The process has another program or user. It keeps its generations only. */
static int rewrite_process(struct stash *stash, struct stash_owner *owner, const struct stash_process *process)
{
	int folder, rc = stash_make_folder(stash->work, "identity", &folder);

	must(owner->process.pid == process->pid);
	if (rc)
		return stash_recover(stash, rc);
	rc = put_identity(stash, folder, process);
	close(folder);
	if (rc == 0)
		rc = stash_index_identity(stash, owner, process);
	if (rc == 0)
		rc = stash_remove_tree(stash->work, "identity");
	return rc ? stash_recover(stash, rc) : 0;
}

/* Find the owner. If the pid was reused or the process has execed, remove the old registrations first. */
static int find_owner(struct adding *adding)
{
	struct stash *stash = adding->stash;
	const struct stash_process *process = adding->addition->process;
	struct stash_owner *owner = stash_find_owner(stash, process->pid);
	bool execed;
	int rc = 0;

	if (owner && owner->process.start_time != process->start_time) {
		rc = stash_remove_process(stash, process->pid, adding->why);
		adding->is_new_owner = true;
		return rc;
	}
	execed = owner &&
		 (owner->process.exec_device != process->exec_device || owner->process.exec_inode != process->exec_inode);
	if (execed) {
		rc = stash_clear_process(stash, process->pid, adding->why);
		if (rc)
			return rc;
		owner = stash_find_owner(stash, process->pid); /* a sweep may have made the index again */
		must(!owner || owner->mapped_count == 0);
	}
	if (owner && (execed || owner->process.uid != process->uid)) {
		rc = rewrite_process(stash, owner, process);
		if (rc)
			return add_failed(adding, rc, "cannot rewrite the files of the process");
	}
	adding->owner = owner;
	adding->is_new_owner = owner == NULL;
	return 0;
}

int stash_add(struct stash *stash, const struct stash_addition *addition, uint64_t *generation_ret,
	      struct fathom_fault *why)
{
	struct adding adding = { .stash = stash,
				 .addition = addition,
				 .why = why,
				 .top = -1,
				 .folder = -1,
				 .parsed = -1,
				 .stage = { .made = -1, .current = -1 } };
	int rc = stash_sweep_if_dirty(stash, why);

	must(addition->process->pid > 0);
	if (rc == 0)
		rc = stash_check_set(addition->set, why);
	if (rc == 0)
		rc = find_owner(&adding);
	if (rc)
		return rc;
	stash_mapping_name(addition->mapping, adding.mapping_name);
	if (adding.owner && stash_find_mapped(adding.owner, addition->mapping))
		rc = add_generation(&adding);
	else
		rc = add_mapping(&adding);
	if (rc)
		return rc;
	stash->stats.added++;
	must(adding.generation < STASH_GENERATION_MAX);
	*generation_ret = adding.generation;
	return 0;
}
