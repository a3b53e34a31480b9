/* SPDX-License-Identifier: BSD-2-Clause */
/* mask - which points are recorded: one bit per point, set by names or by hexadecimal masks (as rpc.py sends them). */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "base/observe/trace/internal.h"

static const struct trace_schema *schema = &(const struct trace_schema){ 0 };

uint64_t trace_masks[TRACE_POINTS_MAX / 64];
uint64_t trace_filter_masks[TRACE_POINTS_MAX / 64];

const struct trace_schema *trace_schema(void)
{
	return schema;
}

void trace_schema_set(const struct trace_schema *of_program)
{
	must(of_program->point_count < TRACE_POINTS_MAX);
	must(of_program->group_count <= 64);
	schema = of_program;
}

void trace_masks_published(void)
{
	for (size_t i = 0; trace_file.masks && i < ARRAY_COUNT(trace_masks); i++)
		trace_file.masks->words[i] = trace_masks[i] | trace_filter_masks[i];
}

unsigned int trace_group_count(void)
{
	return schema->group_count;
}

const char *trace_group_name(unsigned int group)
{
	must(group < schema->group_count);
	return schema->groups[group].name;
}

const char *trace_group_text(unsigned int group)
{
	must(group < schema->group_count);
	return schema->groups[group].text;
}

bool trace_group_point(unsigned int group, unsigned int index, struct trace_point_info *info_ret)
{
	for (unsigned int i = 0; i < schema->point_count; i++) {
		const struct trace_schema_point *row = &schema->points[i];

		if (row->group != group || row->index_in_group != index)
			continue;
		*info_ret = (struct trace_point_info){
			.name = row->name,
			.group = schema->groups[group].name,
			.point = (uint16_t)(i + 1),
			.group_index = (uint16_t)group,
			.index_in_group = (uint16_t)index,
			.enabled = trace_wanted((uint16_t)(i + 1)),
		};
		return true;
	}
	return false;
}

uint64_t trace_group_enabled_points(unsigned int group)
{
	struct trace_point_info info;
	uint64_t points = 0;

	for (unsigned int i = 0; trace_group_point(group, i, &info); i++)
		points |= info.enabled ? BIT(i) : 0;
	return points;
}

static int find_group(const char *name, unsigned int *group_ret)
{
	for (unsigned int i = 0; i < schema->group_count; i++) {
		if (strcasecmp(schema->groups[i].name, name) == 0) {
			*group_ret = i;
			return 0;
		}
	}
	return -ENOENT;
}

/* Set or clear, in `words`, the points of `group` that `points` names. */
static void apply_points(uint64_t *words, unsigned int group, uint64_t points, bool enable)
{
	struct trace_point_info info;

	for (unsigned int i = 0; trace_group_point(group, i, &info); i++) {
		if (!(points & BIT(i)))
			continue;
		if (enable)
			words[info.point / 64] |= BIT(info.point % 64);
		else
			words[info.point / 64] &= ~BIT(info.point % 64);
	}
}

/*
 * Each word is one atomic store, so that a probe never sees a torn word. While a filter is set, the points of the I/O ring
 * move from trace_masks to trace_filter_masks, so that programs without a filter do not pay for one. Lock held.
 */
static void commit_masks(const uint64_t *words)
{
	uint64_t io[ARRAY_COUNT(trace_masks)] = { 0 };

	for (unsigned int i = 0; trace_filter_is_on() && i < schema->point_count; i++) {
		if (schema->points[i].io)
			io[(i + 1) / 64] |= BIT((i + 1) % 64);
	}
	for (size_t i = 0; i < ARRAY_COUNT(trace_masks); i++) {
		__atomic_store_n(&trace_filter_masks[i], words[i] & io[i], __ATOMIC_RELAXED);
		__atomic_store_n(&trace_masks[i], words[i] & ~io[i], __ATOMIC_RELAXED);
	}
	trace_masks_published();
}

static void read_masks(uint64_t *words)
{
	for (size_t i = 0; i < ARRAY_COUNT(trace_masks); i++)
		words[i] = trace_masks[i] | trace_filter_masks[i];
}

void trace_filter_changed(void)
{
	uint64_t words[ARRAY_COUNT(trace_masks)];

	read_masks(words);
	commit_masks(words);
}

/* True if `mask` names only bits of `there`, or includes all of them: 0xffff means all. */
static bool mask_is_good(uint64_t mask, uint64_t there)
{
	return (mask & ~there) == 0 || (mask & there) == there;
}

/* Parse "NAME+NAME" or a hexadecimal mask of `group`'s points. */
static int parse_points(char *text, unsigned int group, uint64_t *points_ret, struct fathom_fault *why)
{
	uint64_t points = 0, there = 0;
	struct trace_point_info any;
	char *save;

	for (unsigned int i = 0; i < 64 && trace_group_point(group, i, &any); i++)
		there |= BIT(i);
	if (text_parse_u64(text, 16, UINT64_MAX, &points) == 0) {
		if (!mask_is_good(points, there))
			return fault(why, -EINVAL, "group %s has points 0x%lx, and 0x%lx has others (`-e help` lists them)",
				     trace_group_name(group), (unsigned long)there, (unsigned long)points);
		*points_ret = points;
		return 0;
	}
	for (char *name = strtok_r(text, "+", &save); name; name = strtok_r(NULL, "+", &save)) {
		struct trace_point_info info;
		unsigned int i;

		for (i = 0; trace_group_point(group, i, &info) && strcasecmp(info.name, name) != 0; i++)
			;
		if (!trace_group_point(group, i, &info))
			return fault(why, -EINVAL, "group %s has no point \"%s\" (`-e help` lists them)",
				     trace_group_name(group), name);
		points |= BIT(i);
	}
	*points_ret = points;
	return points ? 0 : fault(why, -EINVAL, "no points named after \"%s:\"", trace_group_name(group));
}

static int parse_term(char *term, uint64_t *words, struct fathom_fault *why)
{
	char *points_text = strchr(term, ':');
	uint64_t mask, points = UINT64_MAX;
	unsigned int group;

	if (points_text)
		*points_text++ = '\0';
	if (strcasecmp(term, "none") == 0 && !points_text)
		return 0;
	if (strcasecmp(term, "all") == 0 && !points_text) {
		for (group = 0; group < schema->group_count; group++)
			apply_points(words, group, UINT64_MAX, true);
		return 0;
	}
	if (find_group(term, &group) == 0) {
		int rc = points_text ? parse_points(points_text, group, &points, why) : 0;

		if (rc == 0)
			apply_points(words, group, points, true);
		return rc;
	}
	if (points_text || text_parse_u64(term, 16, UINT64_MAX, &mask) != 0)
		return fault(why, -EINVAL, "no trace group \"%s\" (`-e help` lists them)", term);
	if (!mask_is_good(mask, BIT(schema->group_count) - 1))
		return fault(why, -EINVAL, "there are trace groups 0x%lx, and 0x%lx has others (`-e help` lists them)",
			     (unsigned long)(BIT(schema->group_count) - 1), (unsigned long)mask);
	for (group = 0; group < schema->group_count; group++) {
		if (mask & BIT(group))
			apply_points(words, group, UINT64_MAX, true);
	}
	return 0;
}

int trace_mask_set(const char *spec, struct fathom_fault *why_door)
{
	struct fathom_fault *why = why_door;
	uint64_t words[ARRAY_COUNT(trace_masks)] = { 0 };
	char *copy = strdup(spec), *save;
	int rc = 0;

	must(copy);
	if (!*spec)
		rc = fault(why, -EINVAL, "no trace group named (`-e help` lists them)");
	for (char *term = strtok_r(copy, ",", &save); term && rc == 0; term = strtok_r(NULL, ",", &save))
		rc = parse_term(term, words, why);
	free(copy);
	if (rc)
		return rc;
	pthread_mutex_lock(&trace_lock);
	commit_masks(words);
	pthread_mutex_unlock(&trace_lock);
	return 0;
}

int trace_group_enable(const char *name, uint64_t points, bool enable)
{
	uint64_t words[ARRAY_COUNT(trace_masks)];
	unsigned int group = 0, last = schema->group_count;
	int rc = 0;

	if (strcasecmp(name, "all") != 0) {
		rc = find_group(name, &group);
		last = group + 1;
	}
	if (rc)
		return rc;
	pthread_mutex_lock(&trace_lock);
	read_masks(words);
	for (; group < last; group++)
		apply_points(words, group, points, enable);
	commit_masks(words);
	pthread_mutex_unlock(&trace_lock);
	return 0;
}
