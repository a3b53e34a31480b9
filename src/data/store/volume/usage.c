/* SPDX-License-Identifier: BSD-2-Clause */
#include "data/store/volume/usage.h"

#include "base/bits.h"
#include "data/store/volume/probes.gen.h"

enum { PERCENT_MAX = 100 };
#define FORECAST_NS_MAX (10 * 365 * 24 * USAGE_WINDOW_NS)

static const struct {
	enum space_level state;
	uint32_t percent;
} rows[] = {
	{ SPACE_OVER_95, 95 },
	{ SPACE_OVER_90, 90 },
	{ SPACE_OVER_80, 80 },
};

void usage_init(struct usage *usage)
{
	*usage = (struct usage){ .full_in_ns = USAGE_NO_FORECAST };
	trace_object_init(&usage->trace, TRACE_OBJECT_USAGE);
}

uint32_t usage_percent(const struct usage *usage)
{
	if (usage->used_bytes >= usage->limit_bytes)
		return usage->used_bytes > 0 ? PERCENT_MAX : 0;
	return (uint32_t)((unsigned __int128)usage->used_bytes * PERCENT_MAX / usage->limit_bytes);
}

static enum space_level level_of(uint32_t percent)
{
	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		if (percent >= rows[i].percent)
			return rows[i].state;
	}
	return SPACE_BELOW_80;
}

static bool note_level(struct usage *usage)
{
	uint32_t percent = usage_percent(usage);
	enum space_level up = level_of(percent), down = level_of(percent + USAGE_FALL_PERCENT), to = usage->state;

	static_assert(SPACE_BELOW_80 < SPACE_OVER_80 && SPACE_OVER_80 < SPACE_OVER_90 && SPACE_OVER_90 < SPACE_OVER_95,
		      "in order");
	if (up > to)
		to = up;
	else if (down < to)
		to = down;
	if (to == usage->state)
		return false;
	space_level_move(clock_ticks(), usage, to);
	return true;
}

/* ---- the forecast ---- */

static void add_sample(struct usage *usage, uint64_t now_ns)
{
	uint32_t last = (usage->first + usage->count + USAGE_SAMPLES_MAX - 1) % USAGE_SAMPLES_MAX;

	must(usage->count == 0 || now_ns >= usage->samples[last].ns);
	if (usage->count > 0 && now_ns - usage->samples[last].ns < USAGE_SAMPLE_NS)
		return;
	if (usage->count == USAGE_SAMPLES_MAX) {
		usage->first = (usage->first + 1) % USAGE_SAMPLES_MAX;
		usage->count--;
	}
	last = (usage->first + usage->count) % USAGE_SAMPLES_MAX;
	usage->samples[last].ns = now_ns;
	usage->samples[last].used_bytes = usage->used_bytes;
	usage->count++;
}

static void drop_old_samples(struct usage *usage, uint64_t now_ns)
{
	while (usage->count > 0 && now_ns - usage->samples[usage->first].ns > USAGE_WINDOW_NS) {
		usage->first = (usage->first + 1) % USAGE_SAMPLES_MAX;
		usage->count--;
	}
}

static uint64_t forecast(const struct usage *usage, uint64_t now_ns)
{
	uint64_t elapsed_ns, growth, left = usage->limit_bytes - min_u64(usage->used_bytes, usage->limit_bytes);
	unsigned __int128 full_in_ns;

	if (usage->count == 0)
		return USAGE_NO_FORECAST;
	elapsed_ns = now_ns - usage->samples[usage->first].ns;
	if (elapsed_ns < USAGE_SAMPLE_NS || usage->used_bytes <= usage->samples[usage->first].used_bytes)
		return USAGE_NO_FORECAST;
	growth = usage->used_bytes - usage->samples[usage->first].used_bytes;
	full_in_ns = (unsigned __int128)left * elapsed_ns / growth;
	return full_in_ns > FORECAST_NS_MAX ? USAGE_NO_FORECAST : (uint64_t)full_in_ns;
}

bool usage_note(struct usage *usage, uint64_t now_ns, uint64_t used_bytes, uint64_t limit_bytes)
{
	usage->used_bytes = used_bytes;
	usage->limit_bytes = limit_bytes;
	drop_old_samples(usage, now_ns);
	usage->full_in_ns = forecast(usage, now_ns);
	add_sample(usage, now_ns);
	return note_level(usage);
}
