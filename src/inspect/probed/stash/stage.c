/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stage - the files of a registration's probes: made where nobody looks, put in place by renames.
 *
 * stash/work/probes gets the tree that probes/$pid is to have, as far as that does not have it. What is missing is renamed
 * to its place with all that is below it: for a process's first registration that is one rename, of the whole. A probe
 * that is there already, of another mapping, must be the same, and is linked to.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
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

/* Where the walk over probes stands, and whether that folder is in probes/$pid already. */
struct place {
	struct stash_stage *stage;
	struct stash_probe_name names;
	bool there[3]; /* of the provider, the module, the function */
	struct fathom_fault *why;
};

static int failed(struct fathom_fault *why, int error, const char *what, const char *name)
{
	return fault(why, error, "cannot %s %s: %s", what, name, strerror(-error));
}

/* The folder of the first `depth` parts of the names, which is new in this walk. */
static int enter(struct place *place, int depth)
{
	struct stash_stage *stage = place->stage;
	bool parent_there = stage->there >= 0 && (depth == 1 || place->there[depth - 2]);
	char path[STASH_PATH_BYTES];
	struct stat status;
	int rc = 0;

	stash_probe_path(&place->names, depth, path);
	place->there[depth - 1] = false;
	if (mkdirat(stage->made, path, 0755) != 0)
		return failed(place->why, -errno, "make the folder", path);
	if (parent_there && fstatat(stage->there, path, &status, AT_SYMLINK_NOFOLLOW) == 0) {
		if (!S_ISDIR(status.st_mode))
			return failed(place->why, -ENOTDIR, "use", path);
		place->there[depth - 1] = true;
		return 0;
	}
	if (parent_there && errno != ENOENT)
		return failed(place->why, -errno, "look for", path);
	if (parent_there)
		rc = stash_list_add(&stage->installs, path);
	if (rc == 0 && depth == 1 && stage->stash->provider_links)
		rc = stash_list_add(&stage->providers, path);
	return rc ? failed(place->why, rc, "keep in mind", path) : 0;
}

static int encode(struct stash *stash, const struct dof_provider *provider, const struct dof_probe *probe,
		  size_t *bytes_ret)
{
	size_t bytes = record_bytes(provider, probe, stash->record_version);

	if (bytes > stash->record_room) {
		size_t room = round_up_power_of_two(bytes);
		uint8_t *grown = realloc(stash->record, room);

		if (!grown)
			return -ENOMEM;
		stash->record = grown;
		stash->record_room = room;
	}
	record_encode(provider, probe, stash->record_version, stash->record);
	*bytes_ret = bytes;
	return 0;
}

/* The probe is in probes/$pid: it must be the same, and then it is this mapping's, too. 0: it is not there. */
static int share(struct place *place, const char *path, const char *parsed_name, size_t bytes, bool *shared_ret)
{
	struct stash_stage *stage = place->stage;
	size_t there_bytes;
	void *there;
	bool same;
	int rc = stash_read_file(stage->there, path, RECORD_BYTES_MAX, &there, &there_bytes);

	*shared_ret = false;
	if (rc == -ENOENT)
		return 0;
	if (rc)
		return failed(place->why, rc, "read", path);
	same = record_same(there, there_bytes, stage->stash->record, bytes);
	free(there);
	if (!same) {
		stage->stash->stats.refused++;
		return fault(place->why, -EEXIST,
			     "process %d has the probe %s already, from another mapping, and it differs", (int)stage->pid,
			     path);
	}
	if (linkat(stage->there, path, stage->parsed, parsed_name, 0) != 0)
		return failed(place->why, -errno, "link to", path);
	*shared_ret = true;
	return 0;
}

static int make_file(struct place *place, const char *path, const char *parsed_name, size_t bytes)
{
	struct stash_stage *stage = place->stage;
	int rc = stash_write_file(stage->parsed, parsed_name, stage->stash->record, bytes);

	if (rc == 0 && linkat(stage->parsed, parsed_name, stage->made, path, 0) != 0)
		rc = -errno;
	if (rc == 0 && stage->there >= 0 && place->there[2])
		rc = stash_list_add(&stage->installs, path);
	return rc ? failed(place->why, rc, "write the probe", path) : 0;
}

static int stage_probe(struct place *place, const struct dof_provider *provider, const struct dof_probe *probe,
		       int depth_same)
{
	struct stash_stage *stage = place->stage;
	char parsed_name[STASH_FILE_NAME_BYTES], path[STASH_PATH_BYTES];
	bool shared = false;
	size_t bytes = 0;
	int rc = 0;

	place->names.module = probe->module;
	place->names.function = probe->function;
	place->names.name = probe->name;
	for (int depth = depth_same + 1; depth < 4 && rc == 0; depth++)
		rc = enter(place, depth);
	if (rc)
		return rc;
	stash_probe_path(&place->names, 4, path);
	stash_parsed_name(provider->name, stage->pid, probe, stage->long_names, parsed_name);
	stage->long_names += stash_is_long_name(parsed_name);
	rc = encode(stage->stash, provider, probe, &bytes);
	if (rc)
		return failed(place->why, rc, "write down", path);
	if (stage->there >= 0 && place->there[2])
		rc = share(place, path, parsed_name, bytes, &shared);
	if (rc == 0 && !shared)
		rc = make_file(place, path, parsed_name, bytes);
	stage->probe_count += rc == 0;
	return rc;
}

/* How many parts of the names two probes of one provider share: 1 to 3. */
static int same_depth(const struct dof_probe *a, const struct dof_probe *b)
{
	if (strcmp(a->module, b->module) != 0)
		return 1;
	return strcmp(a->function, b->function) == 0 ? 3 : 2;
}

/* Probes of one function lie behind each other, so that its folder is made once. */
static int stage_provider(struct place *place, const struct dof_provider *provider)
{
	const struct dof_probe *probes = provider->probes;
	int rc = 0;

	snprintf(place->names.text, sizeof(place->names.text), "%s%d", provider->name, (int)place->stage->pid);
	place->names.provider = place->names.text;
	for (uint32_t i = 0; i < provider->probe_count && rc == 0; i++)
		rc = stage_probe(place, provider, &probes[i], i > 0 ? same_depth(&probes[i - 1], &probes[i]) : 0);
	return rc;
}

/* The parser refused all others; but what is written here is written with privileges. */
static int check_names(const struct dof_set *set, struct fathom_fault *why)
{
	for (uint32_t i = 0; i < set->provider_count; i++) {
		const struct dof_provider *provider = &set->providers[i];

		if (!dof_name_ok(provider->name, DOF_PROVIDER_BYTES))
			return fault(why, -EINVAL, "a provider has a name that none can have");
		for (uint32_t j = 0; j < provider->probe_count; j++) {
			const struct dof_probe *probe = &provider->probes[j];

			if (!dof_name_ok(probe->module, DOF_MODULE_BYTES) ||
			    !dof_name_ok(probe->function, DOF_FUNCTION_BYTES) || !dof_name_ok(probe->name, DOF_NAME_BYTES))
				return fault(why, -EINVAL, "a probe of %s has a name that none can have", provider->name);
		}
	}
	return 0;
}

int stash_check_set(const struct dof_set *set, struct fathom_fault *why)
{
	uint64_t count = stash_set_probes(set);

	return count > UINT32_MAX ? fault(why, -E2BIG, "%" PRIu64 " probes are too many", count) : check_names(set, why);
}

int stash_stage_begin(struct stash *stash, pid_t pid, int parsed, const struct dof_set *set, struct stash_stage *stage,
		      struct fathom_fault *why)
{
	struct place place = { .stage = stage, .why = why };
	char name[STASH_MAPPING_NAME_BYTES];
	int rc;

	*stage = (struct stash_stage){ .stash = stash, .pid = pid, .parsed = parsed, .made = -1, .there = -1 };
	if (stash_set_probes(set) == 0)
		return 0;
	rc = stash_make_folder(stash->work, "probes", &stage->made);
	if (rc)
		return failed(why, rc, "make", "stash/work/probes");
	snprintf(name, sizeof(name), "%d", (int)pid);
	rc = stash_open_folder(stash->probes, name, &stage->there);
	if (rc && rc != -ENOENT)
		return failed(why, rc, "open probes of process", name);
	stage->was_there = rc == 0;
	rc = 0;
	for (uint32_t i = 0; i < set->provider_count && rc == 0; i++)
		rc = stage_provider(&place, &set->providers[i]);
	return rc;
}

/* probes/$prv$pid -> $pid/$prv$pid */
static int link_providers(struct stash_stage *stage)
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
	snprintf(name, sizeof(name), "%d", (int)stage->pid);
	if (stage->there < 0 && renameat(stage->stash->work, "probes", stage->stash->probes, name) != 0)
		return -errno;
	for (uint32_t i = 0; i < stage->installs.count; i++) {
		const char *path = stash_list_at(&stage->installs, i);

		if (renameat(stage->made, path, stage->there, path) != 0)
			return -errno;
	}
	return link_providers(stage);
}

void stash_stage_end(struct stash_stage *stage)
{
	if (stage->made >= 0)
		close(stage->made);
	if (stage->there >= 0)
		close(stage->there);
	stash_list_free(&stage->installs);
	stash_list_free(&stage->providers);
	stage->made = stage->there = -1;
}
