/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * machines - derives states for SPDK's objects. The file has events but no states. The points of a request are the
 * stages of its life: from one point to the next it is in the stage named after the first. The file does not mark the
 * point that ends a life either; it is found by observation: after it an object always begins a new life. Where no
 * object has done so yet, the point's name decides.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inspect/spdk/internal.h"

/* Does the point occur, and belong to `type`? */
static bool is_of(const struct source *source, const struct point *point, uint8_t type)
{
	return point->named && (point->event_count || source->live) && point->tpoint.object_type == type;
}

static bool ends_with(const char *name, const char *end)
{
	size_t name_bytes = strlen(name), end_bytes = strlen(end);

	return name_bytes > end_bytes && strcmp(name + name_bytes - end_bytes, end) == 0;
}

static bool is_end_name(const char *name)
{
	return ends_with(name, "_DONE") || ends_with(name, "_COMPLETE") || ends_with(name, "_COMPLETED");
}

static bool find_ends(struct source *source, uint8_t type)
{
	bool begins = false, ends = false;

	for (uint32_t i = 0; i < source->point_count; i++) {
		struct point *point = &source->points[i];

		if (!is_of(source, point, type))
			continue;
		point->ends = !point->tpoint.new_object && point->other_after == 0 &&
			      (point->begun_after > 0 || is_end_name(point->tpoint.name));
		begins |= point->tpoint.new_object != 0;
		ends |= point->ends;
	}
	return begins && ends;
}

/* Number states in the order of the points. If there are too many, the most frequent points are chosen. */
static void assign_states(struct source *source, uint8_t type)
{
	uint32_t given = 0;

	for (uint32_t round = 0; round < STATES_MAX; round++) {
		struct point *best = NULL;

		for (uint32_t i = 0; i < source->point_count; i++) {
			struct point *point = &source->points[i];

			if (is_of(source, point, type) && !point->ends && !point->state &&
			    (!best || point->event_count > best->event_count))
				best = point;
		}
		if (best)
			best->state = UINT32_MAX;
	}
	for (uint32_t i = 0; i < source->point_count; i++) {
		if (is_of(source, &source->points[i], type) && source->points[i].state)
			source->points[i].state = ++given;
	}
}

void machines_find(struct source *source)
{
	for (uint32_t type = 1; type < TYPES_MAX; type++) {
		source->machines[type] = find_ends(source, (uint8_t)type);
		if (source->machines[type])
			assign_states(source, (uint8_t)type);
	}
}

/* Length of the common prefix, up to a '_', of the names of all points of a type. */
static size_t common_bytes(const struct source *source, uint8_t type)
{
	const char *first = NULL;
	size_t common = 0;

	for (uint32_t i = 0; i < source->point_count; i++) {
		const char *name = source->points[i].tpoint.name;
		size_t same = 0;

		if (!is_of(source, &source->points[i], type))
			continue;
		if (!first) {
			first = name;
			common = strlen(name);
		}
		while (same < common && name[same] == first[same])
			same++;
		common = same;
		while (common > 0 && first[common - 1] != '_')
			common--;
	}
	return common;
}

void machine_state_name(const struct source *source, const struct point *point, char *name, size_t room)
{
	const char *rest = point->tpoint.name + common_bytes(source, point->tpoint.object_type);

	snprintf(name, room, "%s", *rest ? rest : point->tpoint.name);
}

const struct point *machine_begin(const struct source *source, uint8_t type)
{
	const struct point *begin = NULL;

	for (uint32_t i = 0; i < source->point_count; i++) {
		if (!is_of(source, &source->points[i], type) || !source->points[i].tpoint.new_object)
			continue;
		if (begin)
			return NULL;
		begin = &source->points[i];
	}
	return begin;
}
