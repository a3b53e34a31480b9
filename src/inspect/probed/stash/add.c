/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * add - a registration, all or nothing.
 *
 *   of a new process                     of one that is known
 *   work/process/...   made              work/mapping/...   made
 *   work/probes/...    made              work/probes/...    made, as far as it is missing
 *                                        $gen               linked, to a folder that is not there yet
 *   probes/$pid        renamed there     probes/$pid/...    renamed there
 *   dof-pid/$pid       renamed there     dof-pid/$pid/$dev-$ino   renamed there
 *
 * The last rename commits it. Until then files in probes/ have their other link in work/, so that a sweep, which
 * empties that first, finds them to be nobody's.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inspect/probed/stash/internal.h"

struct addition {
	struct stash *stash;
	const struct stash_process *process;
	const struct stash_mapping *mapping;
	const struct dof_input *input;
	struct stash_upload *const *uploads; /* NULL: none */
	const struct dof_set *set;
	struct fathom_fault *why;
	struct stash_owner *owner;
	bool is_new; /* the owner is */
	char name[STASH_MAPPING_NAME_BYTES];
	uint64_t generation;
	int top, folder, parsed; /* work/process, the mapping's folder, its parsed/ */
	struct stash_stage stage;
};

static int failed(const struct addition *addition, int error, const char *what)
{
	return fault(addition->why, error, "cannot register probes of process %d: %s: %s", (int)addition->process->pid,
		     what, strerror(-error));
}

static uint64_t input_bytes(const struct dof_input *input)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < stash_block_count(input); i++)
		bytes += input->blocks[i].bytes;
	return bytes;
}

/* ---- generations ---- */

static int resize(int at, const char *path, uint64_t size, int flags)
{
	int fd = openat(at, path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC | flags, 0644);
	int rc;

	if (fd < 0)
		return -errno;
	rc = ftruncate(fd, (off_t)size) == 0 ? 0 : -errno;
	close(fd);
	return rc;
}

/* The process's next generation, which is given to nobody else after this, and its link to `mapping_name`. */
static int take_generation(struct stash *stash, struct stash_owner *owner, const char *mapping_name,
			   uint64_t *generation_ret)
{
	uint64_t generation = owner->next_generation;
	char path[STASH_PATH_BYTES];
	int rc;

	if (generation >= STASH_GENERATION_MAX)
		return -EOVERFLOW;
	snprintf(path, sizeof(path), "%d/next-gen", (int)owner->process.pid);
	rc = resize(stash->pids, path, generation + 1, 0);
	if (rc)
		return rc;
	owner->next_generation++;
	snprintf(path, sizeof(path), "%d/%" PRIu64, (int)owner->process.pid, generation);
	if (symlinkat(mapping_name, stash->pids, path) != 0)
		return -errno;
	*generation_ret = generation;
	return 0;
}

/* ---- the same again ---- */

static int check_same(struct addition *addition)
{
	char path[STASH_PATH_BYTES];
	bool same = false;
	int folder, rc;

	snprintf(path, sizeof(path), "%d/%s", (int)addition->process->pid, addition->name);
	rc = stash_open_folder(addition->stash->pids, path, &folder);
	if (rc)
		return failed(addition, rc, "the same mapping, registered before, cannot be opened");
	rc = stash_same_input(folder, addition->input, addition->uploads, &same);
	close(folder);
	if (rc)
		return failed(addition, rc, "the same mapping, registered before, cannot be read");
	if (same)
		return 0;
	addition->stash->stats.refused++;
	return fault(
		addition->why, -ESTALE,
		"process %d has registered mapping %s before, with other bytes or at another address; remove that first",
		(int)addition->process->pid, addition->name);
}

static int add_again(struct addition *addition)
{
	const struct stash_counts more = { .objects = 1 };
	struct stash *stash = addition->stash;
	struct stash_owner *owner = addition->owner;
	struct stash_mapped *mapped = stash_find_mapped(owner, addition->mapping);
	int rc = stash_admit(stash, addition->process, owner, &more, addition->why);

	if (rc == 0)
		rc = check_same(addition);
	if (rc == 0 && mapped->stale) {
		const struct stash_registration registration = { .process = owner->process, .mapping = *addition->mapping };

		rc = stash_reparsed(stash, &registration, addition->set, addition->why);
	}
	if (rc)
		return rc;
	rc = take_generation(stash, owner, addition->name, &addition->generation);
	if (rc)
		return failed(addition, rc, "generation");
	mapped->count++;
	stash_count(stash, owner, 1, 1, 0, 0);
	return 0;
}

/* ---- something new ---- */

static int make_input(struct addition *addition)
{
	struct stash *stash = addition->stash;
	int rc = addition->is_new ? stash_make_folder(stash->work, "process", &addition->top) : 0;

	if (rc == 0)
		rc = stash_make_folder(addition->is_new ? addition->top : stash->work,
				       addition->is_new ? addition->name : "mapping", &addition->folder);
	if (rc == 0)
		rc = stash_put_input(stash, addition->process->pid, addition->mapping, addition->input, addition->uploads,
				     addition->folder);
	if (rc == 0)
		rc = stash_make_folder(addition->folder, "parsed", &addition->parsed);
	if (rc == 0)
		rc = stash_put_version(stash, addition->parsed);
	return rc ? failed(addition, rc, "what it handed over cannot be written down") : 0;
}

static int make_process(struct addition *addition)
{
	int rc = stash_put_process(addition->top, addition->process);

	if (rc == 0)
		rc = resize(addition->top, "next-gen", 1, O_CREAT | O_EXCL);
	if (rc == 0 && symlinkat(addition->name, addition->top, "0") != 0)
		rc = -errno;
	return rc ? failed(addition, rc, "what is known of it cannot be written down") : 0;
}

static int make(struct addition *addition)
{
	int rc = make_input(addition);

	if (rc == 0)
		rc = stash_stage_begin(addition->stash, addition->process->pid, addition->parsed, addition->set,
				       &addition->stage, addition->why);
	if (rc == 0 && addition->is_new)
		rc = make_process(addition);
	return rc;
}

static int install(struct addition *addition)
{
	struct stash *stash = addition->stash;
	char path[STASH_PATH_BYTES];
	int rc = stash_stage_install(&addition->stage);

	if (rc)
		return rc;
	snprintf(path, sizeof(path), "%d%s%s", (int)addition->process->pid, addition->is_new ? "" : "/",
		 addition->is_new ? "" : addition->name);
	return renameat(stash->work, addition->is_new ? "process" : "mapping", stash->pids, path) == 0 ? 0 : -errno;
}

static void close_all(struct addition *addition)
{
	const int fds[] = { addition->top, addition->folder, addition->parsed };

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
	stash_stage_end(&addition->stage);
}

static int empty_work(struct addition *addition)
{
	int rc = stash_remove_tree(addition->stash->work, addition->is_new ? "process" : "mapping");

	if (rc == 0)
		rc = stash_remove_tree(addition->stash->work, "probes");
	if (rc == 0)
		rc = stash_drop_raw(addition->stash, addition->process->pid, addition->mapping, DOF_BLOCKS_MAX);
	return rc;
}

/* In memory, before the tree has it: so that nothing can fail afterwards. */
static struct stash_mapped *reserve(struct addition *addition)
{
	struct stash_mapped *mapped;

	if (addition->is_new)
		addition->owner = stash_index_owner(addition->stash, addition->process);
	mapped = addition->owner ? stash_index_mapped(addition->owner, addition->mapping) : NULL;
	if (!mapped && addition->owner && addition->is_new)
		stash_forget_owner(addition->stash, addition->owner);
	return mapped;
}

static void unreserve(struct addition *addition, struct stash_mapped *mapped)
{
	if (addition->is_new)
		stash_forget_owner(addition->stash, addition->owner);
	else
		stash_forget_mapped(addition->stash, addition->owner, mapped);
}

static int add_new(struct addition *addition)
{
	const struct stash_counts more = { 1, input_bytes(addition->input), stash_set_probes(addition->set) };
	struct stash *stash = addition->stash;
	struct stash_mapped *mapped;
	bool installing = false;
	int rc = stash_admit(stash, addition->process, addition->owner, &more, addition->why);

	if (rc)
		return rc;
	mapped = reserve(addition);
	if (!mapped)
		return failed(addition, -ENOMEM, "out of memory");
	rc = make(addition);
	if (rc == 0 && !addition->is_new) {
		rc = take_generation(stash, addition->owner, addition->name, &addition->generation);
		if (rc)
			rc = failed(addition, rc, "generation");
	}
	if (rc == 0) {
		installing = true;
		rc = install(addition);
		if (rc)
			rc = failed(addition, rc, "its files cannot be put in place");
	}
	close_all(addition);
	if (rc) {
		unreserve(addition, mapped);
		if (installing || empty_work(addition) != 0)
			return stash_recover(stash, rc);
		return rc;
	}
	if (addition->is_new)
		addition->owner->next_generation = 1;
	mapped->count = 1;
	mapped->block_count = stash_block_count(addition->input);
	mapped->bytes = more.bytes;
	mapped->probes = (uint32_t)more.probes;
	stash_count(stash, addition->owner, 1, 1, more.bytes, more.probes);
	if (addition->stage.was_there && stash_remove_tree(stash->work, "probes") != 0)
		(void)stash_recover(stash, 0);
	return 0;
}

/* ---- whose it is ---- */

static int put_identity(struct stash *stash, int folder, const struct stash_process *process)
{
	static const char *const names[] = { "exec-mapping", "process" };
	int rc = stash_put_process(folder, process);

	for (size_t i = 0; i < 2 && rc == 0; i++) {
		char path[STASH_PATH_BYTES];

		snprintf(path, sizeof(path), "%d/%s", (int)process->pid, names[i]);
		rc = renameat(folder, names[i], stash->pids, path) == 0 ? 0 : -errno;
	}
	return rc;
}

/* The process was another program, or another user's: it keeps its generations, and nothing else. */
static int rewrite_process(struct stash *stash, struct stash_owner *owner, const struct stash_process *process)
{
	int folder, rc = stash_make_folder(stash->work, "identity", &folder);

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

static int check_owner(struct addition *addition)
{
	struct stash *stash = addition->stash;
	const struct stash_process *process = addition->process;
	struct stash_owner *owner = stash_find_owner(stash, process->pid);
	bool execed;
	int rc = 0;

	if (owner && owner->process.start_time != process->start_time) {
		rc = stash_remove_process(stash, process->pid, addition->why);
		addition->is_new = true;
		return rc;
	}
	execed = owner &&
		 (owner->process.exec_device != process->exec_device || owner->process.exec_inode != process->exec_inode);
	if (execed) {
		rc = stash_clear_process(stash, process->pid, addition->why);
		if (rc)
			return rc;
		owner = stash_find_owner(stash, process->pid); /* there may have been a sweep */
		must(owner);
	}
	if (owner && (execed || owner->process.uid != process->uid)) {
		rc = rewrite_process(stash, owner, process);
		if (rc)
			return failed(addition, rc, "who it is now cannot be written down");
	}
	addition->owner = owner;
	addition->is_new = owner == NULL;
	return 0;
}

int stash_add(struct stash *stash, const struct stash_process *process, const struct stash_mapping *mapping,
	      const struct dof_input *input, const struct dof_set *set, uint64_t *generation_ret, struct fathom_fault *why)
{
	return stash_add_uploaded(stash, process, mapping, input, NULL, set, generation_ret, why);
}

int stash_add_uploaded(struct stash *stash, const struct stash_process *process, const struct stash_mapping *mapping,
		       const struct dof_input *input, struct stash_upload *const *uploads, const struct dof_set *set,
		       uint64_t *generation_ret, struct fathom_fault *why)
{
	struct addition addition = { .stash = stash,
				     .process = process,
				     .mapping = mapping,
				     .input = input,
				     .uploads = uploads,
				     .set = set,
				     .why = why,
				     .top = -1,
				     .folder = -1,
				     .parsed = -1,
				     .stage = { .made = -1, .there = -1 } };
	int rc = stash_begin(stash, why);

	must(process->pid > 0);
	if (rc == 0)
		rc = stash_check_set(set, why);
	if (rc == 0)
		rc = check_owner(&addition);
	if (rc)
		return rc;
	stash_mapping_name(mapping, addition.name);
	if (addition.owner && stash_find_mapped(addition.owner, mapping))
		rc = add_again(&addition);
	else
		rc = add_new(&addition);
	if (rc)
		return rc;
	stash->stats.added++;
	*generation_ret = addition.generation;
	return 0;
}
