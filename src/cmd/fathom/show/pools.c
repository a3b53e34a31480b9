/* SPDX-License-Identifier: BSD-2-Clause */
/* Pools: `fathom pool create`, `list`, `query`, in the layout of dmg; what dmg does not have stands behind it. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "cmd/fathom/show/parts.h"
#include "cmd/fathom/show/show.h"
#include "control/hostlist/rankset.h"

enum { CELLS_MAX = 16 };

static const char *const tier_names[] = { "SCM", "NVMe" };

/* ---- create ---- */

/* "0", "[0-3]", as dmg; the caller frees it. */
static char *bracketed(const uint32_t *ranks, size_t count)
{
	struct rank_set set = { 0 };
	char *text;

	for (size_t i = 0; i < count; i++) {
		if (ranks[i] <= RANK_MAX) /* from a server, so it may be invalid */
			must(rank_set_add(&set, ranks[i]) == 0);
	}
	must(rank_set_fold(&set, true, &text) == 0);
	rank_set_deinit(&set);
	return text;
}

/* "Pool created with 6.00%,94.00% storage tier ratio" */
static void write_title(const struct fathom_control_created_pool *pool, char *text, size_t bytes)
{
	size_t used = (size_t)snprintf(text, bytes, "Pool created");
	double sum = 0;

	for (size_t i = 0; i < pool->tier_count; i++)
		sum += (double)pool->tier_bytes[i];
	for (size_t i = 0; i < pool->tier_count && sum > 0 && used + CELLS_MAX < bytes; i++)
		used += (size_t)snprintf(text + used, bytes - used, "%s%.2f%%", i > 0 ? "," : " with ",
					 100 * (double)pool->tier_bytes[i] / sum);
	if (sum > 0)
		snprintf(text + used, bytes - used, " storage tier ratio");
}

void show_created_pool(const struct fathom_control_created_pool *pool, FILE *out)
{
	char *replicas = bracketed(pool->replicas, pool->replica_count), *ranks = bracketed(pool->ranks, pool->rank_count);
	char texts[CELLS_MAX][64], title[128], size[SIZE_TEXT_BYTES], part[SIZE_TEXT_BYTES];
	size_t tiers = min_u64(pool->tier_count, ARRAY_COUNT(tier_names)), count = 5;
	const char *pairs[2 * CELLS_MAX] = { "UUID",	       pool->uuid,
					     "Service Leader", number_text(pool->leader, texts[0]),
					     "Service Ranks",  replicas,
					     "Storage Ranks",  ranks,
					     "Total Size",     texts[1] };
	uint64_t total = 0;

	for (size_t i = 0; i < tiers; i++) {
		uint64_t bytes = pool->tier_bytes[i] * pool->rank_count;

		total += bytes;
		snprintf(texts[2 * i + 2], sizeof(texts[0]), "Storage tier %zu (%s)", i, tier_names[i]);
		snprintf(texts[2 * i + 3], sizeof(texts[0]), "%s (%s / rank)", size_text(bytes, size),
			 size_text(pool->tier_bytes[i], part));
		pairs[2 * count] = texts[2 * i + 2];
		pairs[2 * count + 1] = texts[2 * i + 3];
		count++;
	}
	snprintf(texts[1], sizeof(texts[1]), "%s", total > 0 ? size_text(total, size) : "no limit");
	write_title(pool, title, sizeof(title));
	entity_print(title, pairs, total > 0 ? count : 5, 0, out);
	fputc('\n', out);
	free(replicas);
	free(ranks);
}

/* ---- list ---- */

static const char *pool_name(const struct fathom_control_pool *pool)
{
	return pool->label[0] ? pool->label : pool->uuid;
}

const char *pool_state(const struct fathom_control_pool *pool)
{
	return strcmp(pool->state, "Ready") == 0 && pool->disabled_targets > 0 ? "TargetsExcluded" : pool->state;
}

uint32_t tier_imbalance(const struct fathom_control_pool *pool, const struct fathom_control_pool_tier *tier)
{
	uint64_t spread = tier->free_bytes_max > tier->free_bytes_min ? tier->free_bytes_max - tier->free_bytes_min : 0;

	if (tier->total_bytes == 0 || pool->active_targets == 0)
		return 0;
	return (uint32_t)((double)spread / ((double)tier->total_bytes / pool->active_targets) * 100);
}

static uint64_t used_bytes(const struct fathom_control_pool_tier *tier)
{
	return tier->total_bytes - min_u64(tier->free_bytes, tier->total_bytes);
}

/* As dmg: the size of the last tier that has space, the use of the fullest tier, the worst imbalance. */
static void show_short(const struct fathom_control_pool *pools, size_t count, bool has_space, FILE *out)
{
	static const char *const titles[] = { "Pool", "Size", "State", "Used", "Imbalance", "Disabled" };
	static const char *const short_titles[] = { "Pool", "State" };
	struct table *table = has_space ? titled(titles, ARRAY_COUNT(titles))
					: titled(short_titles, ARRAY_COUNT(short_titles));

	for (size_t i = 0; i < count; i++) {
		char size[SIZE_TEXT_BYTES], used_text[16], imbalance_text[16], disabled[32];
		uint64_t bytes = 0, used = 0, imbalance = 0;

		for (size_t k = 0; k < pools[i].tier_count; k++) {
			const struct fathom_control_pool_tier *tier = &pools[i].tiers[k];

			if (tier->total_bytes == 0)
				continue;
			bytes = tier->total_bytes;
			used = max_u64(used, (uint64_t)((double)used_bytes(tier) / (double)tier->total_bytes * 100));
			imbalance = max_u64(imbalance, tier_imbalance(&pools[i], tier));
		}
		snprintf(used_text, sizeof(used_text), "%" PRIu64 "%%", used);
		snprintf(imbalance_text, sizeof(imbalance_text), "%" PRIu64 "%%", imbalance);
		snprintf(disabled, sizeof(disabled), "%" PRIu32 "/%" PRIu32, pools[i].disabled_targets,
			 pools[i].target_count);
		if (has_space)
			add_row(table, (const char *[]){ pool_name(&pools[i]), size_text(bytes, size),
							 pool_state(&pools[i]), used_text, imbalance_text, disabled });
		else
			add_row(table, (const char *[]){ pool_name(&pools[i]), pool_state(&pools[i]) });
	}
	finish_table(table, 0, out);
}

/* The three cells of a tier; of a pool that was not queried, zeros. */
static size_t add_tier_cells(const struct fathom_control_pool *pool, const char *media, char (*texts)[SIZE_TEXT_BYTES],
			     const char **cells)
{
	static const struct fathom_control_pool_tier none;
	const struct fathom_control_pool_tier *tier = &none;

	for (size_t i = 0; i < pool->tier_count; i++) {
		if (strcmp(pool->tiers[i].media, media) == 0)
			tier = &pool->tiers[i];
	}
	cells[0] = size_text(tier->total_bytes, texts[0]);
	cells[1] = size_text(used_bytes(tier), texts[1]);
	snprintf(texts[2], SIZE_TEXT_BYTES, "%" PRIu32 "%%", tier_imbalance(pool, tier));
	cells[2] = texts[2];
	return 3;
}

static void show_verbose(const struct fathom_control_pool *pools, size_t count, FILE *out)
{
	static const char *const titles[] = { "Label",	  "UUID",	    "State",	    "SvcReps",	 "SCM Size",
					      "SCM Used", "SCM Imbalance",  "NVME Size",    "NVME Used", "NVME Imbalance",
					      "Disabled", "UpgradeNeeded?", "Rebuild State" };
	struct table *table = titled(titles, ARRAY_COUNT(titles));

	for (size_t i = 0; i < count; i++) {
		const struct fathom_control_pool *pool = &pools[i];
		char tiers[6][SIZE_TEXT_BYTES], disabled[32], upgrade[32] = "None", rebuild[SIZE_TEXT_BYTES] = "idle";
		char *replicas = bracketed(pool->replicas, pool->replica_count);
		const char *cells[ARRAY_COUNT(titles)] = { pool->label[0] ? pool->label : "-", pool->uuid, pool_state(pool),
							   replicas };
		size_t at = 4;

		at += add_tier_cells(pool, "SCM", &tiers[0], &cells[at]);
		at += add_tier_cells(pool, "NVME", &tiers[3], &cells[at]);
		snprintf(disabled, sizeof(disabled), "%" PRIu32 "/%" PRIu32, pool->disabled_targets, pool->target_count);
		if (pool->layout_version != pool->layout_version_newest)
			snprintf(upgrade, sizeof(upgrade), "%" PRIu32 "->%" PRIu32, pool->layout_version,
				 pool->layout_version_newest);
		if (pool->rebuild)
			lower_text(pool->rebuild->state, rebuild, sizeof(rebuild));
		cells[at++] = disabled;
		cells[at++] = upgrade;
		cells[at++] = rebuild;
		must(at == ARRAY_COUNT(titles));
		add_row(table, cells);
		free(replicas);
	}
	finish_table(table, 0, out);
}

void show_pools(const struct fathom_control_pool *pools, size_t count, const struct pool_list_layout *layout, FILE *out)
{
	if (count == 0)
		fprintf(out, "No pools in system\n");
	else if (layout->verbose && layout->has_space)
		show_verbose(pools, count, out);
	else
		show_short(pools, count, layout->has_space, out);
	if (count > 0)
		fputc('\n', out);
}

/* ---- query ---- */

static void show_health(const struct fathom_control_pool *pool, FILE *out)
{
	char state[SIZE_TEXT_BYTES];

	fprintf(out, "Pool health info:\n");
	if (pool->enabled_ranks[0])
		fprintf(out, "- Enabled ranks: %s\n", pool->enabled_ranks);
	if (pool->disabled_ranks[0])
		fprintf(out, "- Disabled ranks: %s\n", pool->disabled_ranks);
	if (pool->dead_ranks[0])
		fprintf(out, "- Dead ranks: %s\n", pool->dead_ranks);
	if (!pool->rebuild)
		fprintf(out, "- No rebuild status available.\n");
	else if (pool->rebuild->status)
		fprintf(out, "- Rebuild failed, status=%" PRId32 "\n", pool->rebuild->status);
	else
		fprintf(out, "- Rebuild %s, %" PRIu64 " objs, %" PRIu64 " recs\n",
			lower_text(pool->rebuild->state, state, sizeof(state)), pool->rebuild->objects,
			pool->rebuild->records);
	if (pool->rebuild)
		fprintf(out, "- Data redundancy: %s\n", pool->rebuild->degraded ? "degraded" : "normal");
}

static void show_space(const struct fathom_control_pool *pool, FILE *out)
{
	char texts[5][SIZE_TEXT_BYTES];

	fprintf(out, "Pool space info:\n- Target count:%" PRIu32 "\n", pool->active_targets);
	for (size_t i = 0; i < pool->tier_count; i++) {
		const struct fathom_control_pool_tier *tier = &pool->tiers[i];

		fprintf(out, "- Storage tier %zu (%s):\n  Total size: %s\n", i, tier->media,
			size_text(tier->total_bytes, texts[0]));
		fprintf(out, "  Free: %s, min:%s, max:%s, mean:%s\n", size_text(tier->free_bytes, texts[1]),
			size_text(tier->free_bytes_min, texts[2]), size_text(tier->free_bytes_max, texts[3]),
			size_text(tier->free_bytes_mean, texts[4]));
	}
}

/* "full in 3 days" */
static const char *forecast_text(const struct fathom_control_pool_rank *rank, char text[SIZE_TEXT_BYTES])
{
	uint64_t minutes = rank->full_in_ns / (60 * NS_PER_SEC);

	if (rank->used_bytes >= rank->limit_bytes)
		return "it is full";
	if (rank->full_in_ns == 0)
		return "no forecast, because it does not grow";
	if (minutes < 120)
		snprintf(text, SIZE_TEXT_BYTES, "full in %" PRIu64 " minutes", minutes);
	else if (minutes < UINT64_C(48) * 60)
		snprintf(text, SIZE_TEXT_BYTES, "full in %" PRIu64 " hours", minutes / 60);
	else
		snprintf(text, SIZE_TEXT_BYTES, "full in %" PRIu64 " days", minutes / 60 / 24);
	return text;
}

static void show_use(const struct fathom_control_pool_rank *rank, bool overcommit, FILE *out)
{
	char texts[3][SIZE_TEXT_BYTES];

	if (rank->limit_bytes == 0)
		return; /* the engine did not say */
	fprintf(out, "Use of rank %" PRIu32 ": %.0f %% (%s of %s %s), %s\n", rank->rank,
		100.0 * (double)min_u64(rank->used_bytes, rank->limit_bytes) / (double)rank->limit_bytes,
		size_text(rank->used_bytes, texts[0]), size_text(rank->limit_bytes, texts[1]),
		overcommit ? "allocated" : "promised", forecast_text(rank, texts[2]));
}

/* "Share of rank 1: draining since TIME: 3 volumes left"; nothing of a share that is used and complete. */
static void show_share(const struct fathom_control_pool_rank *rank, FILE *out)
{
	char text[SIZE_TEXT_BYTES];

	if (!rank->share[0] || (strcmp(rank->share, "up") == 0 && !rank->share_info[0]))
		return;
	fprintf(out, "Share of rank %" PRIu32 ": %s%s%s%s%s\n", rank->rank, rank->share,
		rank->share_since_ns ? " since " : "", rank->share_since_ns ? time_text(rank->share_since_ns, text) : "",
		rank->share_info[0] ? ": " : "", rank->share_info);
}

/* "Properties pending on rank 1 since TIME: scrub: rank 1 is stopped" */
static void show_late(const struct fathom_control_pool_rank *rank, FILE *out)
{
	char text[SIZE_TEXT_BYTES];

	if (rank->late[0])
		fprintf(out, "Properties pending on rank %" PRIu32 " since %s: %s: %s\n", rank->rank,
			time_text(rank->late_ns, text), rank->late, rank->late_reason);
}

/* What dmg's answers have no fields for. */
static void show_ours(const struct fathom_control_pool *pool, FILE *out)
{
	char texts[2][SIZE_TEXT_BYTES];

	fprintf(out, "Volumes: %" PRIu32 "\n", pool->volume_count);
	fprintf(out, "Limit of all volumes: %s%s\n", pool->size_bytes ? size_text(pool->size_bytes, texts[0]) : "none",
		pool->overcommit ? ", thin volumes may promise more than there is" : "");
	fprintf(out, "%s since: %s\n", pool->state, time_text(pool->since_ns, texts[1]));
	if (pool->pending[0])
		fprintf(out, "Pending: %s%s%s\n", pool->pending, pool->reason[0] ? ": " : "", pool->reason);
	for (size_t i = 0; i < pool->rank_count; i++)
		show_share(&pool->ranks[i], out);
	for (size_t i = 0; i < pool->rank_count; i++)
		show_late(&pool->ranks[i], out);
	for (size_t i = 0; i < pool->rank_count; i++)
		show_use(&pool->ranks[i], pool->overcommit, out);
	if (pool->rank_count > 0)
		table_of_pool_rank(pool->ranks, pool->rank_count, 0, 0, out);
}

void show_pool(const struct fathom_control_pool *pool, FILE *out)
{
	fprintf(out,
		"Pool %s, ntarget=%" PRIu32 ", disabled=%" PRIu32 ", leader=%" PRIu32 ", version=%" PRIu32 ", state=%s\n",
		pool->uuid, pool->target_count, pool->disabled_targets, pool->leader, pool->version, pool_state(pool));
	show_health(pool, out);
	if (pool->tier_count > 0)
		show_space(pool, out);
	if (pool->rank_count > 0 || pool->pending[0])
		show_ours(pool, out);
}

void show_pool_evicted(const struct fathom_control_pool_evicted *evicted, FILE *out)
{
	fprintf(out, "Pool-evict command succeeded: %d publication%s of volumes withdrawn\n", evicted->count,
		evicted->count == 1 ? "" : "s");
}
