/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom pool - shares of the free space, and a list that queries each pool. The build makes the other commands. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/text.h"
#include "cmd/fathom/command.h"
#include "cmd/fathom/control/acl_file.h"
#include "cmd/fathom/control/control.h"
#include "cmd/fathom/show/show.h"
#include "control/hostlist/rankset.h"

/* ---- create ---- */

enum { PERCENT_MAX = 100 };

/* The free space of the engines that a new pool may use: of how many, and of the one with the least. */
struct free_space {
	uint64_t bytes_min;
	uint64_t rank_count;
};

/* Add the storage of an engine; `chosen`: only these ranks, NULL: all. */
static void add_free_space(struct free_space *space, const struct fathom_control_mount *mount,
			   const struct rank_set *chosen)
{
	if (!mount || mount->rank == FATHOM_CONTROL_NO_RANK || (chosen && !rank_set_has(chosen, mount->rank)))
		return;
	space->bytes_min = space->rank_count ? min_u64(space->bytes_min, mount->available_bytes) : mount->available_bytes;
	space->rank_count++;
}

static int find_free_space(const struct control_run *run, const struct rank_set *chosen, struct free_space *space_ret,
			   struct fathom_fault *why)
{
	struct fathom_control_answers *answers;
	struct free_space space = { 0 };
	int error = fathom_control_storage_scan(run->control, true, true, &answers, why);

	if (error)
		return error;
	for (size_t i = 0; i < answers->count; i++) {
		const struct fathom_control_storage *storage = answers->answers[i].storage;

		for (size_t k = 0; k < storage->scm_count; k++)
			add_free_space(&space, storage->scms[k].mount, chosen);
	}
	if (answers->error_count > 0 && why)
		*why = answers->errors[0].why;
	error = answers->error_count > 0 ? answers->errors[0].why.error : 0;
	fathom_control_free(answers);
	if (!error && space.rank_count == 0)
		error = fault(why, -ENOENT, "no engine among those chosen reports its space: give --size in bytes");
	if (!error)
		*space_ret = space;
	return error;
}

/* As dmg: each engine gives the same share, as much as the one with the least free space can give. */
static int share_of_free_space(const struct control_run *run, uint64_t percent, uint64_t *bytes_ret,
			       struct fathom_fault *why)
{
	struct rank_set chosen = { 0 };
	struct free_space space;
	int error = run->values.ranks ? rank_set_parse(run->values.ranks, &chosen, why) : 0;

	if (!error)
		error = find_free_space(run, run->values.ranks ? &chosen : NULL, &space, why);
	rank_set_deinit(&chosen);
	if (error)
		return error;
	if (run->values.nranks)
		space.rank_count = min_u64(space.rank_count, run->values.nranks);
	*bytes_ret = space.bytes_min / PERCENT_MAX * percent * space.rank_count;
	return *bytes_ret ? 0 : fault(why, -ENOSPC, "an engine has no free space");
}

/* --size: "50%", which becomes `*percent_ret`, or bytes; 0: not given. Returns 0, or the exit status. */
static int read_pool_size(const struct control_run *run, uint64_t *bytes_ret, uint64_t *percent_ret)
{
	const char *text = run->values.pool_size;
	size_t length = text ? strlen(text) : 0;
	char number[8];

	*bytes_ret = *percent_ret = 0;
	if (!text)
		return 0;
	if (length > 1 && length < sizeof(number) && text[length - 1] == '%') {
		memcpy(number, text, length - 1);
		number[length - 1] = '\0';
		if (text_parse_u64(number, 10, PERCENT_MAX, percent_ret) == 0 && *percent_ret > 0)
			return 0;
	} else if (text_parse_bytes(text, bytes_ret) == 0 && *bytes_ret > 0) {
		return 0;
	}
	return control_bad(run, "--size: \"%s\" is neither a size, such as 100G, nor a share, such as 50%%", text);
}

int run_pool_create(struct control_run *run)
{
	struct fathom_control_new_pool pool = {
		.label = run->argv[0],
		.uuid = run->values.uuid,
		.ranks = run->values.ranks,
		.rank_count = (uint32_t)run->values.nranks,
		.overcommit = run->values.overcommit,
		.user = run->values.user,
		.group = run->values.group,
	};
	struct acl_file acl = { 0 };
	struct fathom_control_created_pool *created;
	struct fathom_fault why;
	uint64_t percent;
	int status = read_pool_size(run, &pool.size_bytes, &percent);

	if (!status && run->values.ranks && run->values.nranks)
		status = control_bad(run, "--ranks and --nranks exclude each other");
	if (status)
		return status;
	if ((run->values.acl_file && read_acl_file(run->values.acl_file, &acl, &why)) ||
	    (percent && share_of_free_space(run, percent, &pool.size_bytes, &why))) {
		acl_file_free(&acl);
		return control_fail(run, &why);
	}
	pool.acl = (const char *const *)acl.entries;
	pool.acl_count = acl.count;
	status = fathom_control_pool_create(run->control, &pool, &created, &why);
	acl_file_free(&acl);
	if (status)
		return control_fail(run, &why);
	if (!control_is_json(run))
		show_created_pool(created, stdout);
	status = control_finish(run, control_is_json(run) ? json_of_created_pool(created) : NULL, NULL);
	fathom_control_free(created);
	return status;
}

/* ---- list ---- */

/* A pool that was not queried. */
static struct fathom_control_pool describe_listed(const struct fathom_control_listed_pool *listed)
{
	return (struct fathom_control_pool){
		.uuid = listed->uuid,
		.label = listed->label,
		.state = listed->state,
		.replicas = listed->replicas,
		.replica_count = listed->replica_count,
		.enabled_ranks = "",
		.disabled_ranks = "",
		.dead_ranks = "",
		.self_heal_policy = "",
		.pending = "",
		.reason = "",
	};
}

/* The figures that the list brought. NULL: none; a server of DAOS brings none, and each pool is queried, as dmg does. */
static const struct fathom_control_pool *find_queried(const struct fathom_control_pools *listed, const char *uuid)
{
	for (size_t i = 0; i < listed->queried_count; i++) {
		if (strcmp(listed->queried[i].uuid, uuid) == 0)
			return &listed->queried[i];
	}
	return NULL;
}

/*
 * Find the figures of each pool that is ready. A pool that cannot be queried keeps the values of the list; the first reason
 * becomes `*failed_ret`.
 */
static void query_pools(const struct control_run *run, const struct fathom_control_pools *listed,
			struct fathom_control_pool **queried, struct fathom_control_pool *pools,
			struct fathom_fault *failed_ret)
{
	struct fathom_fault why;

	for (size_t i = 0; i < listed->count; i++) {
		const struct fathom_control_pool *found = find_queried(listed, listed->pools[i].uuid);

		pools[i] = found ? *found : describe_listed(&listed->pools[i]);
		if (found || run->values.no_query || strcmp(listed->pools[i].state, "Ready") != 0)
			continue;
		if (fathom_control_pool_query(run->control, listed->pools[i].uuid, 0, &queried[i], &why) == 0)
			pools[i] = *queried[i];
		else if (why.error != -ENOENT && !failed_ret->error) /* it was destroyed meanwhile */
			*failed_ret = why;
	}
}

int run_pool_list(struct control_run *run)
{
	struct pool_list_layout layout = { .verbose = run->values.verbose, .has_space = !run->values.no_query };
	struct fathom_control_pools *listed;
	struct fathom_control_pool **queried, *pools;
	struct fathom_fault why, failed = { 0 };
	int status;

	if (fathom_control_pool_list(run->control, !run->values.no_query, &listed, &why))
		return control_fail(run, &why);
	queried = calloc(listed->count + 1, sizeof(*queried));
	pools = calloc(listed->count + 1, sizeof(*pools));
	must(queried);
	must(pools);
	query_pools(run, listed, queried, pools, &failed);
	if (!control_is_json(run))
		show_pools(pools, listed->count, &layout, stdout);
	status = control_finish(run, control_is_json(run) ? json_pools(pools, listed->count) : NULL,
				failed.error ? &failed : NULL);
	for (size_t i = 0; i < listed->count; i++)
		fathom_control_free(queried[i]);
	fathom_control_free(listed);
	free(queried);
	free(pools);
	return status;
}

/* ---- query ---- */

int run_pool_query(struct control_run *run)
{
	uint64_t mask = ~(uint64_t)(FATHOM_CONTROL_POOL_ENABLED_RANKS | FATHOM_CONTROL_POOL_DEAD_RANKS);
	struct fathom_control_pool *pool;
	struct fathom_fault why;
	int status;

	if (run->values.show_enabled)
		mask |= FATHOM_CONTROL_POOL_ENABLED_RANKS;
	if (run->values.health_only)
		mask = (mask & ~(uint64_t)FATHOM_CONTROL_POOL_SPACE) | FATHOM_CONTROL_POOL_DEAD_RANKS;
	if (fathom_control_pool_query(run->control, run->argv[0], mask, &pool, &why))
		return control_fail(run, &why);
	if (!control_is_json(run))
		show_pool(pool, stdout);
	status = control_finish(run, control_is_json(run) ? json_pool(pool) : NULL, NULL);
	fathom_control_free(pool);
	return status;
}
