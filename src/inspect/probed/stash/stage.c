/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stage - the files of a registration's probes, made in stash/work and renamed into place.
 *
 * stash/work/probes gets the folders and files that probes/$pid lacks. A missing folder is renamed with its content, so the
 * first registration of a process takes one rename. A probe that another mapping has already must be identical; its file is
 * linked.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/file.h"
#include "inspect/probed/stash/internal.h"
#include "inspect/probed/stash/record.h"

uint64_t stash_set_probes(const struct dof_set *set)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < set->provider_count; i++)
		count += set->providers[i].probe_count;
	return count;
}

/* The position of a walk over the probes, and which of its folders probes/$pid has already. */
struct position {
	struct stash_stage *stage;
	struct stash_probe_name names;
	bool exists[3]; /* the folder of the provider, the module, the function */
	struct fathom_fault *why;
};

static int stage_failed(struct fathom_fault *why, int error, const char *what, const char *name)
{
	return fault(why, error, "cannot %s %s: %s", what, name, strerror(-error));
}

/* Make the folder of the first `depth` parts of the names, which is new in this walk. */
static int make_probe_folder(struct position *position, int depth)
{
	struct stash_stage *stage = position->stage;
	bool parent_exists = stage->current >= 0 && (depth == 1 || position->exists[depth - 2]);
	char path[STASH_PATH_BYTES];
	struct stat status;
	int rc = 0;

	must(depth >= 1 && depth <= 3);
	must(stage->made >= 0);
	must(position->names.provider == position->names.text);
	stash_probe_path(&position->names, depth, path);
	position->exists[depth - 1] = false;
	if (mkdirat(stage->made, path, 0755) != 0)
		return stage_failed(position->why, -errno, "make the folder", path);
	if (parent_exists && fstatat(stage->current, path, &status, AT_SYMLINK_NOFOLLOW) == 0) {
		if (!S_ISDIR(status.st_mode))
			return stage_failed(position->why, -ENOTDIR, "use", path);
		position->exists[depth - 1] = true;
		return 0;
	}
	if (parent_exists && errno != ENOENT)
		return stage_failed(position->why, -errno, "look for", path);
	if (parent_exists)
		rc = stash_list_add(&stage->installs, path);
	if (rc == 0 && depth == 1 && stage->stash->provider_links)
		rc = stash_list_add(&stage->providers, path);
	return rc ? stage_failed(position->why, rc, "list", path) : 0;
}

static int encode_probe(struct stash *stash, const struct dof_provider *provider, const struct dof_probe *probe,
			size_t *bytes_ret)
{
	size_t bytes = record_bytes(provider, probe, stash->record_version);
	int rc;

	must(bytes <= RECORD_BYTES_MAX);
	rc = buffer_reserve(&stash->record, &stash->record_room, bytes, SIZE_MAX);
	if (rc)
		return rc;
	must(bytes <= stash->record_room);
	record_encode(provider, probe, stash->record_version, stash->record);
	*bytes_ret = bytes;
	return 0;
}

/* Link to the probe if another mapping of the process has it. -EEXIST: that one differs. */
static int share_probe(struct position *position, const char *path, const char *parsed_name, size_t bytes, bool *shared_ret)
{
	struct stash_stage *stage = position->stage;
	size_t other_bytes;
	void *other;
	bool same;
	int rc;

	must(stage->current >= 0);
	rc = stash_read_file(stage->current, path, RECORD_BYTES_MAX, &other, &other_bytes);

	*shared_ret = false;
	if (rc == -ENOENT)
		return 0;
	if (rc)
		return stage_failed(position->why, rc, "read", path);
	same = record_same(other, other_bytes, stage->stash->record, bytes);
	free(other);
	if (!same) {
		stage->stash->stats.refused++;
		return fault(position->why, -EEXIST,
			     "another mapping of process %d has registered the probe %s, and it differs", (int)stage->pid,
			     path);
	}
	if (linkat(stage->current, path, stage->parsed, parsed_name, 0) != 0)
		return stage_failed(position->why, -errno, "link to", path);
	*shared_ret = true;
	return 0;
}

static int make_probe_file(struct position *position, const char *path, const char *parsed_name, size_t bytes)
{
	struct stash_stage *stage = position->stage;
	int rc = stash_write_file(stage->parsed, parsed_name, stage->stash->record, bytes);

	if (rc == 0 && linkat(stage->parsed, parsed_name, stage->made, path, 0) != 0)
		rc = -errno;
	if (rc == 0 && stage->current >= 0 && position->exists[2])
		rc = stash_list_add(&stage->installs, path);
	return rc ? stage_failed(position->why, rc, "write the probe", path) : 0;
}

static int stage_probe(struct position *position, const struct dof_provider *provider, const struct dof_probe *probe,
		       int depth_same)
{
	struct stash_stage *stage = position->stage;
	char parsed_name[STASH_FILE_NAME_BYTES], path[STASH_PATH_BYTES];
	bool shared = false;
	size_t bytes = 0;
	int rc = 0;

	must(depth_same >= 0 && depth_same <= 3);
	position->names.module = probe->module;
	position->names.function = probe->function;
	position->names.name = probe->name;
	for (int depth = depth_same + 1; depth < 4 && rc == 0; depth++)
		rc = make_probe_folder(position, depth);
	if (rc)
		return rc;
	stash_probe_path(&position->names, 4, path);
	stash_parsed_name(provider->name, stage->pid, probe, stage->long_names, parsed_name);
	stage->long_names += stash_is_long_name(parsed_name);
	rc = encode_probe(stage->stash, provider, probe, &bytes);
	if (rc)
		return stage_failed(position->why, rc, "encode", path);
	if (stage->current >= 0 && position->exists[2])
		rc = share_probe(position, path, parsed_name, bytes, &shared);
	if (rc == 0 && !shared)
		rc = make_probe_file(position, path, parsed_name, bytes);
	stage->probe_count += rc == 0;
	return rc;
}

/* The number of name parts that two probes of one provider share: 1 to 3. */
static int same_depth(const struct dof_probe *a, const struct dof_probe *b)
{
	if (strcmp(a->module, b->module) != 0)
		return 1;
	return strcmp(a->function, b->function) == 0 ? 3 : 2;
}

/* Probes of one function are adjacent, so its folder is made once. */
static int stage_provider(struct position *position, const struct dof_provider *provider)
{
	const struct dof_probe *probes = provider->probes;
	int rc = 0;

	must(position->stage->pid > 0);
	snprintf(position->names.text, sizeof(position->names.text), "%s%d", provider->name, (int)position->stage->pid);
	position->names.provider = position->names.text;
	for (uint32_t i = 0; i < provider->probe_count && rc == 0; i++)
		rc = stage_probe(position, provider, &probes[i], i > 0 ? same_depth(&probes[i - 1], &probes[i]) : 0);
	return rc;
}

/* The parser has checked the names in a jail. They are checked again, because this process writes with privileges. */
static int check_set_names(const struct dof_set *set, struct fathom_fault *why)
{
	for (uint32_t i = 0; i < set->provider_count; i++) {
		const struct dof_provider *provider = &set->providers[i];

		if (!dof_name_ok(provider->name, DOF_PROVIDER_BYTES))
			return fault(why, -EINVAL, "a provider has an invalid name");
		for (uint32_t j = 0; j < provider->probe_count; j++) {
			const struct dof_probe *probe = &provider->probes[j];

			if (!dof_name_ok(probe->module, DOF_MODULE_BYTES) ||
			    !dof_name_ok(probe->function, DOF_FUNCTION_BYTES) || !dof_name_ok(probe->name, DOF_NAME_BYTES))
				return fault(why, -EINVAL, "a probe of %s has an invalid name", provider->name);
		}
	}
	return 0;
}

int stash_check_set(const struct dof_set *set, struct fathom_fault *why)
{
	uint64_t count = stash_set_probes(set);

	return count > UINT32_MAX ? fault(why, -E2BIG, "%" PRIu64 " probes are too many", count)
				  : check_set_names(set, why);
}

int stash_stage_begin(struct stash *stash, pid_t pid, int parsed, const struct dof_set *set, struct stash_stage *stage,
		      struct fathom_fault *why)
{
	struct position position = { .stage = stage, .why = why };
	char name[STASH_MAPPING_NAME_BYTES];
	int rc;

	*stage = (struct stash_stage){ .stash = stash, .pid = pid, .parsed = parsed, .made = -1, .current = -1 };
	if (stash_set_probes(set) == 0)
		return 0;
	rc = stash_make_folder(stash->work, "probes", &stage->made);
	if (rc)
		return stage_failed(why, rc, "make", "stash/work/probes");
	snprintf(name, sizeof(name), "%d", (int)pid);
	rc = stash_open_folder(stash->probes, name, &stage->current);
	if (rc && rc != -ENOENT)
		return stage_failed(why, rc, "open probes of process", name);
	stage->has_rest = rc == 0;
	rc = 0;
	for (uint32_t i = 0; i < set->provider_count && rc == 0; i++)
		rc = stage_provider(&position, &set->providers[i]);
	return rc;
}

/* probes/$prv$pid -> $pid/$prv$pid */
static int make_provider_links(struct stash_stage *stage)
{
	char target[STASH_PATH_BYTES];

	for (uint32_t i = 0; i < stage->providers.count; i++) {
		const char *provider = stash_list_at(&stage->providers, i);

		snprintf(target, sizeof(target), "%d/%s", (int)stage->pid, provider);
		if (symlinkat(target, stage->stash->probes, provider) != 0 && errno != EEXIST)
			return -errno;
	}
	return 0;
}

int stash_stage_install(struct stash_stage *stage)
{
	char name[STASH_MAPPING_NAME_BYTES];

	if (stage->made < 0)
		return 0;
	must(stage->current >= 0 || stage->installs.count == 0); /* a new probes/$pid is renamed as a whole */
	must(stage->probe_count > 0);
	snprintf(name, sizeof(name), "%d", (int)stage->pid);
	if (stage->current < 0 && renameat(stage->stash->work, "probes", stage->stash->probes, name) != 0)
		return -errno;
	for (uint32_t i = 0; i < stage->installs.count; i++) {
		const char *path = stash_list_at(&stage->installs, i);

		if (renameat(stage->made, path, stage->current, path) != 0)
			return -errno;
	}
	return make_provider_links(stage);
}

void stash_stage_end(struct stash_stage *stage)
{
	if (stage->made >= 0)
		close(stage->made);
	if (stage->current >= 0)
		close(stage->current);
	stash_list_free(&stage->installs);
	stash_list_free(&stage->providers);
	stage->made = stage->current = -1;
}
