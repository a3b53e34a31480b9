/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The history of volumes: for each a ring of slots. A slot has the I/Os that ended in it, their time, and how long it was
 * watched. An interval between two samples is divided among the slots that it touches, by time.
 *
 * Slots are numbered by the clock of the samples (slot N begins at N * slot_ns), so those of all volumes are the same. The
 * clock is the monotonic one of the program that takes the samples.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "inspect/top/internal.h"

struct slot {
	uint64_t number;
	float watched_sec; /* 0: not watched */
	float ops, us;	   /* of all ops together */
};

struct volume_history {
	char *key;
	bool seen; /* in the sample that is being added */
	struct slot slots[TOP_HISTORY_SLOTS];
};

struct top_history {
	uint64_t slot_ns, now_ns;	 /* of the last sample; 0: none */
	struct volume_history **volumes; /* by key */
	uint32_t count, room;
};

struct top_history *top_history_create(uint64_t slot_ns)
{
	struct top_history *history = calloc(1, sizeof(*history));

	must(history);
	must(slot_ns > 0);
	history->slot_ns = slot_ns;
	return history;
}

static void free_volume(struct volume_history *volume)
{
	free(volume->key);
	free(volume);
}

void top_history_destroy(struct top_history *history)
{
	if (!history)
		return;
	for (uint32_t i = 0; i < history->count; i++)
		free_volume(history->volumes[i]);
	free(history->volumes);
	free(history);
}

uint64_t top_history_slot_ns(const struct top_history *history)
{
	return history->slot_ns;
}

/* ---- the volumes ---- */

/* The index of the first volume whose key is not less than `key`. */
static uint32_t lower_bound(const struct top_history *history, const char *key)
{
	uint32_t low = 0, high = history->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (strcmp(history->volumes[middle]->key, key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct volume_history *find_volume(const struct top_history *history, const char *key)
{
	uint32_t at = lower_bound(history, key);

	return at < history->count && strcmp(history->volumes[at]->key, key) == 0 ? history->volumes[at] : NULL;
}

/* NULL: there are too many. */
static struct volume_history *add_volume(struct top_history *history, const char *key)
{
	uint32_t at = lower_bound(history, key);
	struct volume_history *volume;

	if (history->count == TOP_HISTORY_VOLUMES_MAX)
		return NULL;
	if (history->count == history->room) {
		history->room = history->room ? history->room * 2 : 16;
		history->volumes = reallocarray(history->volumes, history->room, sizeof(*history->volumes));
		must(history->volumes);
	}
	volume = calloc(1, sizeof(*volume));
	must(volume);
	volume->key = strdup(key);
	must(volume->key);
	memmove(&history->volumes[at + 1], &history->volumes[at], (history->count - at) * sizeof(*history->volumes));
	history->volumes[at] = volume;
	history->count++;
	return volume;
}

static void forget_unseen_volumes(struct top_history *history)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < history->count; i++) {
		if (history->volumes[i]->seen)
			history->volumes[kept++] = history->volumes[i];
		else
			free_volume(history->volumes[i]);
	}
	history->count = kept;
}

/* ---- adding ---- */

static struct slot *slot_at(struct volume_history *volume, uint64_t number)
{
	struct slot *slot = &volume->slots[number % TOP_HISTORY_SLOTS];

	if (slot->number != number)
		*slot = (struct slot){ .number = number };
	return slot;
}

/* Divide `ops`, which took `us` together, among the slots from `from_ns` to `to_ns`. */
static void add_to_slots(const struct top_history *history, struct volume_history *volume, uint64_t from_ns, uint64_t to_ns,
			 double ops, double us)
{
	uint64_t last = to_ns / history->slot_ns, first = from_ns / history->slot_ns;

	must(to_ns > from_ns);
	if (last - first >= TOP_HISTORY_SLOTS)
		first = last - TOP_HISTORY_SLOTS + 1;
	for (uint64_t number = first; number <= last; number++) {
		uint64_t begin = max_u64(from_ns, number * history->slot_ns);
		uint64_t end = min_u64(to_ns, (number + 1) * history->slot_ns);
		double share = (double)(end - begin) / (double)(to_ns - from_ns);
		struct slot *slot;

		if (end <= begin)
			continue;
		slot = slot_at(volume, number);
		slot->watched_sec += (float)((double)(end - begin) / NS_PER_SEC);
		slot->ops += (float)(ops * share);
		slot->us += (float)(us * share);
	}
}

static double increase(const struct pair *pair, const char *field)
{
	struct top_value value = pair_count(pair, field);

	return value.kind == TOP_NUMBER ? value.number : 0;
}

static void add_pair(struct top_history *history, const struct pair *pair, uint64_t from_ns, uint64_t to_ns)
{
	static const char *const ops_fields[] = { "num_read_ops", "num_write_ops", "num_unmap_ops", "num_copy_ops" };
	static const char *const ticks_fields[] = { "read_latency_ticks", "write_latency_ticks", "unmap_latency_ticks",
						    "copy_latency_ticks" };
	struct volume_history *volume = find_volume(history, pair->item->key);
	struct top_value us = value_number(0);
	double ops = 0;

	if (!volume)
		volume = add_volume(history, pair->item->key);
	if (!volume)
		return;
	volume->seen = true;
	if (!pair->known)
		return;
	for (size_t i = 0; i < ARRAY_COUNT(ops_fields); i++) {
		ops += increase(pair, ops_fields[i]);
		us.number += increase(pair, ticks_fields[i]);
	}
	us = pair_us(pair, us);
	add_to_slots(history, volume, from_ns, to_ns, ops, us.kind == TOP_NUMBER ? us.number : 0);
}

void top_history_add(struct top_history *history, const struct top_sample *before, const struct top_sample *now)
{
	const struct items *items = &now->items[TOP_VOLUMES];
	uint64_t to_ns = now->times_ns[CALL_IOSTAT], from_ns = before ? before->times_ns[CALL_IOSTAT] : 0;

	must(now->complete);
	must(now->tabs & BIT(TOP_VOLUMES));
	must(!before || (before->tabs & BIT(TOP_VOLUMES)));
	if (now->refusals[CALL_IOSTAT])
		return;
	history->now_ns = to_ns;
	for (uint32_t i = 0; i < history->count; i++)
		history->volumes[i]->seen = false;
	for (uint32_t i = 0; i < items->count; i++) {
		struct pair pair = pair_make(before, now, TOP_VOLUMES, &items->items[i], false);

		pair.known = pair.known && from_ns > 0 && to_ns > from_ns;
		add_pair(history, &pair, from_ns, to_ns);
	}
	forget_unseen_volumes(history);
}

/* ---- reading ---- */

bool top_history_get(const struct top_history *history, const char *key, struct top_slots *slots_ret)
{
	const struct volume_history *volume = find_volume(history, key);
	uint64_t last = history->now_ns / history->slot_ns;

	for (uint32_t i = 0; i < TOP_HISTORY_SLOTS; i++)
		slots_ret->iops[i] = slots_ret->latency_us[i] = -1;
	if (!volume)
		return false;
	for (uint32_t i = 0; i < TOP_HISTORY_SLOTS; i++) {
		const struct slot *slot = &volume->slots[i];
		uint64_t age = last - slot->number;

		if (slot->watched_sec <= 0 || slot->number > last || age >= TOP_HISTORY_SLOTS)
			continue;
		slots_ret->iops[TOP_HISTORY_SLOTS - 1 - age] = slot->ops / slot->watched_sec;
		if (slot->ops > 0)
			slots_ret->latency_us[TOP_HISTORY_SLOTS - 1 - age] = slot->us / slot->ops;
	}
	return true;
}

static float highest_of(const float values[TOP_HISTORY_SLOTS])
{
	float highest = -1;

	for (uint32_t i = 0; i < TOP_HISTORY_SLOTS; i++)
		highest = values[i] > highest ? values[i] : highest;
	return highest;
}

const char *top_history_bars(const struct top_history *history, const char *key, uint32_t cells, bool utf8,
			     char text_ret[TOP_BAR_BYTES_MAX])
{
	struct top_slots slots;

	must(cells <= TOP_HISTORY_SLOTS);
	(void)top_history_get(history, key, &slots); /* without a history all is unknown */
	return top_bars_text(&slots.iops[TOP_HISTORY_SLOTS - cells], cells, highest_of(slots.iops), utf8, text_ret);
}

static double one_decimal(float value)
{
	return (double)(uint64_t)(value * 10.0 + 0.5) / 10;
}

static json_t *slots_json(const float values[TOP_HISTORY_SLOTS])
{
	json_t *list = json_array();

	must(list);
	for (uint32_t i = 0; i < TOP_HISTORY_SLOTS; i++)
		json_array_append_new(list, values[i] < 0 ? json_null() : json_real(one_decimal(values[i])));
	return list;
}

json_t *top_history_json(const struct top_history *history, const char *key)
{
	json_t *object = json_object();
	struct top_slots slots;

	must(object);
	(void)top_history_get(history, key, &slots);
	json_object_set_new(object, "slot_seconds", json_real((double)history->slot_ns / NS_PER_SEC));
	json_object_set_new(object, "iops", slots_json(slots.iops));
	json_object_set_new(object, "latency_us", slots_json(slots.latency_us));
	return object;
}

/* ---- details ---- */

static void print_bars(const char *title, const float values[TOP_HISTORY_SLOTS], bool utf8, top_line_fn line, void *ctx)
{
	char bars[TOP_BAR_BYTES_MAX], text[TOP_BAR_BYTES_MAX + 64];
	double lowest = -1;

	for (uint32_t i = 0; i < TOP_HISTORY_SLOTS; i++) {
		if (values[i] >= 0 && (lowest < 0 || values[i] < lowest))
			lowest = values[i];
	}
	snprintf(text, sizeof(text), "  %-7s  %s", title,
		 top_bars_text(values, TOP_HISTORY_SLOTS, highest_of(values), utf8, bars));
	line(ctx, text);
	if (lowest < 0)
		snprintf(text, sizeof(text), "  %-7s  nothing yet", "");
	else
		snprintf(text, sizeof(text), "  %-7s  from %.1f to %.1f", "", lowest, (double)highest_of(values));
	line(ctx, text);
}

void top_history_details(const struct top_history *history, const char *key, bool utf8, top_line_fn line, void *ctx)
{
	struct top_slots slots;
	char text[128];

	if (!top_history_get(history, key, &slots))
		return;
	snprintf(text, sizeof(text), "the last %g s, %g s in each bar, the present on the right:",
		 (double)history->slot_ns * TOP_HISTORY_SLOTS / NS_PER_SEC, (double)history->slot_ns / NS_PER_SEC);
	line(ctx, text);
	print_bars("IOPS", slots.iops, utf8, line, ctx);
	print_bars("AVG us", slots.latency_us, utf8, line, ctx);
}
