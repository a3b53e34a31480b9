/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * html - one page that shows what happened and needs no other file.
 *
 * A page has a bounded size, a trace does not. The page keeps the newest events and lives; and the slowest lives without
 * a parent (commands, not their I/Os), however old, each with its children and all their events. For all whole lives it
 * has histograms of each stage's time, and a heat map of total times, whose columns become wider as time passes.
 */
#include "inspect/export/html.h"

#include <errno.h>
#include <stdlib.h>

uint32_t html_bucket(uint64_t ns)
{
	uint32_t shift = 0, bucket;

	if (ns >> (HTML_BUCKET_BITS + 1))
		shift = 63u - HTML_BUCKET_BITS - (uint32_t)__builtin_clzll(ns);
	bucket = (shift << HTML_BUCKET_BITS) + (uint32_t)(ns >> shift);
	return bucket < HTML_BUCKETS ? bucket : HTML_BUCKETS - 1;
}

struct html_kind *html_kind(struct html *html, const struct reader_object *object)
{
	for (uint32_t i = 0; i < html->kind_count; i++) {
		if (html->kinds[i]->object == object)
			return html->kinds[i];
	}
	if (html->kind_count == HTML_KINDS_MAX)
		return NULL;
	html->kinds[html->kind_count] = calloc(1, sizeof(struct html_kind));
	must(html->kinds[html->kind_count]);
	html->kinds[html->kind_count]->object = object;
	return html->kinds[html->kind_count++];
}

/* ---- tracks of lives ---- */

/* NULL: too many tracks. */
static struct html_track *get_track(struct html *html, struct life *life)
{
	struct html_track *track = life->caller_data;

	if (track)
		return track;
	if (html->free_tracks) {
		track = html->free_tracks;
		html->free_tracks = track->next_free;
	} else if (html->track_count < HTML_TRACKS_MAX) {
		track = calloc(1, sizeof(*track));
		must(track);
		html->tracks[html->track_count++] = track;
	} else {
		return NULL;
	}
	life->caller_data = track;
	track->event_count = track->child_count = 0;
	track->present.stage_count = 0;
	return track;
}

static void enter_stage(struct html *html, struct life *life)
{
	struct html_track *track = get_track(html, life);
	struct html_life *present;

	if (!track || track->present.stage_count == HTML_LIFE_STAGES_MAX)
		return;
	present = &track->present;
	present->states[present->stage_count] = (uint8_t)life->state;
	present->entered[present->stage_count++] = life->entered;
}

static void add_event(struct html_track *track, const struct html_event *event)
{
	if (track->event_count < HTML_LIFE_EVENTS_MAX)
		track->events[track->event_count++] = *event;
}

/* Copy a finished child and its events to its parent's track, if the parent is alive. */
static void copy_to_parent_track(struct html *html, const struct html_track *track)
{
	const struct life *life = &track->present.life;
	struct life *parent = life->parent_serial ? lives_find(html->lives, life->parent, life->parent_id) : NULL;
	struct html_track *of_parent = parent && parent->serial == life->parent_serial ? parent->caller_data : NULL;

	if (!of_parent)
		return;
	if (of_parent->child_count < HTML_CHILDREN_MAX)
		of_parent->children[of_parent->child_count++] = track->present;
	for (uint32_t i = 0; i < track->event_count; i++)
		add_event(of_parent, &track->events[i]);
}

/* ---- the slowest ---- */

static bool is_faster(const struct html *html, uint32_t a, uint32_t b)
{
	return html->slowest[a]->present.busy_ticks < html->slowest[b]->present.busy_ticks;
}

static void swap_slowest_lives(struct html *html, uint32_t a, uint32_t b)
{
	struct html_track *track = html->slowest[a];

	html->slowest[a] = html->slowest[b];
	html->slowest[b] = track;
}

static void keep_slow_life(struct html *html, const struct html_track *track)
{
	uint32_t at = html->slowest_count;

	if (at == HTML_SLOWEST_MAX) {
		if (track->present.busy_ticks <= html->slowest[0]->present.busy_ticks)
			return;
		*html->slowest[0] = *track;
		for (at = 0;;) {
			uint32_t child = 2 * at + 1;

			if (child + 1 < html->slowest_count && is_faster(html, child + 1, child))
				child++;
			if (child >= html->slowest_count || !is_faster(html, child, at))
				return;
			swap_slowest_lives(html, at, child);
			at = child;
		}
	}
	html->slowest[at] = malloc(sizeof(*track));
	must(html->slowest[at]);
	*html->slowest[at] = *track;
	html->slowest_count++;
	for (; at > 0 && is_faster(html, at, (at - 1) / 2); at = (at - 1) / 2)
		swap_slowest_lives(html, at, (at - 1) / 2);
}

/* ---- sums ---- */

/* The heat map's column of `tick`. Merges columns in pairs until there is one. */
static uint32_t find_heat_column(struct html *html, uint64_t tick)
{
	uint64_t since = tick - min_u64(tick, html->heat_from);

	while (since / html->heat_ticks >= HTML_HEAT_COLUMNS) {
		html->heat_ticks *= 2;
		for (uint32_t k = 0; k < html->kind_count; k++) {
			uint32_t(*heat)[HTML_BUCKETS] = html->kinds[k]->heat;

			for (uint32_t column = 0; column < HTML_HEAT_COLUMNS; column++) {
				for (uint32_t row = 0; row < HTML_BUCKETS; row++) {
					uint32_t count = heat[column][row];

					heat[column][row] = 0;
					heat[column / 2][row] += count;
				}
			}
		}
	}
	return (uint32_t)(since / html->heat_ticks);
}

static void add_to_sums(struct export *export, struct html_life *ended)
{
	const struct reader_machine *machine = ended->life.object->machine;
	struct html *html = export->state;
	struct html_kind *kind = html_kind(html, ended->life.object);
	uint64_t times[LIVES_STATES_MAX] = { 0 };
	uint64_t visited = 0;

	for (uint32_t i = 0; i < ended->stage_count; i++) {
		uint64_t until = i + 1 < ended->stage_count ? ended->entered[i + 1] : ended->ended;

		times[ended->states[i]] += until - ended->entered[i];
		visited |= BIT(ended->states[i]);
		if (!machine->states[ended->states[i]].resting)
			ended->busy_ticks += until - ended->entered[i];
	}
	if (!kind || ended->is_open)
		return;
	if (!ended->life.whole) {
		kind->partial++;
		return;
	}
	kind->count++;
	if (html->heat_from == 0)
		html->heat_from = ended->ended;
	for (uint32_t state = 1; state < LIVES_STATES_MAX; state++) {
		if (visited & BIT(state))
			kind->buckets[state][html_bucket(reader_ns_from_ticks(export->reader, times[state]))]++;
	}
	kind->buckets[0][html_bucket(reader_ns_from_ticks(export->reader, ended->busy_ticks))]++;
	kind->heat[find_heat_column(html, ended->ended)]
		  [html_bucket(reader_ns_from_ticks(export->reader, ended->busy_ticks))]++;
}

/* ---- events ---- */

static void end_life(struct export *export, const struct life *life, uint64_t tick, bool is_open)
{
	struct html *html = export->state;
	struct html_track *track = life->caller_data;

	if (!track) {
		html->not_kept++;
		return;
	}
	/* the operation and its size may be known only after the beginning */
	track->present.life = *life;
	track->present.ended = max_u64(tick, life->entered);
	track->present.is_open = is_open;
	track->present.busy_ticks = 0;
	add_to_sums(export, &track->present);
	html->done[html->life_count++ % HTML_LIVES_MAX] = track->present;
	copy_to_parent_track(html, track);
	if (life->parent_serial == 0 && (life->whole || is_open))
		keep_slow_life(html, track);
	track->next_free = html->free_tracks;
	html->free_tracks = track;
}

static void keep_event(struct html *html, const struct html_event *noted, struct life *life)
{
	html->events[html->event_count++ % HTML_EVENTS_MAX] = *noted;
	if (life && get_track(html, life))
		add_event(life->caller_data, noted);
}

static void html_event(struct export *export, const struct reader_event *event, bool wanted)
{
	struct html *html = export->state;
	struct lives_step step;
	struct html_event noted = { .ordinal = html->event_count,
				    .tick = event->tick,
				    .point = event->point,
				    .point_id = event->point_id,
				    .object_id = event->object_id,
				    .owner = event->owner,
				    .thread = (uint8_t)event->thread,
				    .shared = event->shared,
				    .has_object = event->has_life };

	if (!wanted)
		return;
	must(event->thread < TRACE_THREADS_MAX);
	html->threads[event->thread] = true;
	memcpy(noted.slots, event->slots, sizeof(noted.slots));
	lives_event(html->lives, event, &step);
	html->last_tick = max_u64(html->last_tick, step.tick);
	if (step.ended) {
		/* the event that ends a life belongs to it, unless it also begins the next life */
		noted.life = step.cut ? step.life->serial : step.before.serial;
		if (!step.cut && step.before.caller_data)
			add_event(step.before.caller_data, &noted);
		end_life(export, &step.before, step.tick, false);
		keep_event(html, &noted, step.life);
	} else {
		noted.life = step.life ? step.life->serial : 0;
		keep_event(html, &noted, step.life);
	}
	/* types in order of first appearance: commands before their I/Os */
	if (step.began)
		(void)html_kind(html, step.life->object);
	if (step.entered_stage)
		enter_stage(html, step.life);
}

/* ---- create, finish, destroy ---- */

static int html_create(struct export *export)
{
	struct html *html = calloc(1, sizeof(*html));

	export->state = html;
	if (!html || lives_create(&html->lives) != 0)
		return -ENOMEM;
	/* pages that are not used are never touched */
	html->events = calloc(HTML_EVENTS_MAX, sizeof(*html->events));
	html->done = calloc(HTML_LIVES_MAX, sizeof(*html->done));
	html->heat_ticks = 1024;
	return html->events && html->done ? 0 : -ENOMEM;
}

static void end_open(struct export *export, struct life *life)
{
	const struct html *html = export->state;

	end_life(export, life, html->last_tick, true);
	life->caller_data = NULL;
}

static void end_open_child(struct life *life, void *ctx)
{
	if (life->parent_serial)
		end_open(ctx, life);
}

static void end_open_parent(struct life *life, void *ctx)
{
	if (!life->parent_serial)
		end_open(ctx, life);
}

static int html_finish(struct export *export, const struct reader_counts *counts)
{
	const struct html *html = export->state;

	lives_each(html->lives, end_open_child, export);
	lives_each(html->lives, end_open_parent, export);
	html_write(export, counts);
	return out_flush(export->out);
}

static void html_destroy(struct export *export)
{
	struct html *html = export->state;

	if (!html)
		return;
	for (uint32_t i = 0; i < html->track_count; i++)
		free(html->tracks[i]);
	for (uint32_t i = 0; i < html->slowest_count; i++)
		free(html->slowest[i]);
	for (uint32_t i = 0; i < html->kind_count; i++)
		free(html->kinds[i]);
	lives_destroy(html->lives);
	free(html->events);
	free(html->done);
	free(html);
}

const struct export_kind export_html = {
	.name = "html",
	.create = html_create,
	.event = html_event,
	.finish = html_finish,
	.destroy = html_destroy,
};
