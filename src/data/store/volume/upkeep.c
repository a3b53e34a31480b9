/* SPDX-License-Identifier: BSD-2-Clause */
#include "data/store/volume/upkeep.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uuid/uuid.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/reactor/reactor.h"
#include "data/store/volume/internal.h"
#include "data/store/volume/snapshots.h"
#include "data/store/volume/probes.gen.h"

/* ---- what is to do ---- */

/* Whether the snapshot that the volume was made of still exists: then a search would find its blocks. */
static bool has_origin(const struct volume *volume)
{
	const struct volume_record *record = &volume->record;
	const struct volume *origin;
	const struct snapshot *snapshot;

	origin = record->has_origin ? volumes_find_uuid(volume->volumes, record->origin_volume) : NULL;
	if (!origin)
		return false;
	TAILQ_FOREACH (snapshot, &origin->snapshots, link) {
		if (uuid_compare(snapshot->record.uuid, record->origin_snapshot) == 0)
			return true;
	}
	return false;
}

static bool is_allocatable(const struct volume *volume)
{
	return volume->state == VOLUME_ONLINE && volume->record.move == VOLUME_MOVE_NONE && volume->record.allocating;
}

static bool is_unsharable(const struct volume *volume)
{
	return volume->state == VOLUME_ONLINE && volume->record.move == VOLUME_MOVE_NONE && volume->record.shares &&
	       volume->snapshot_count == 0 && !volume->record.read_only && !has_origin(volume);
}

static void wake(struct deadline *deadline)
{
	struct upkeep *upkeep = container_of(deadline, struct upkeep, due);

	queue_wake(upkeep->volumes);
}

static void move_to(struct upkeep *upkeep, enum upkeep_state to)
{
	upkeep_state_move(clock_ticks(), upkeep, to);
}

/* ---- the end of a step ---- */

static uint64_t step_ns(const struct change *change)
{
	return clock_monotonic_ns() - change->begin_ns;
}

/* The volume of a step, which is not in the queue any more. NULL: it is gone, or has another name. */
static struct volume *end_step(struct change *change)
{
	struct upkeep *upkeep = change->volumes->upkeep;
	struct volume *volume = change_find_volume(change, NULL);

	move_to(upkeep, UPKEEP_IDLE);
	probe_volume_upkeep_step(clock_ticks(), upkeep, trace_intern(volume ? volume->device : change->record.name),
				 volume ? volume->upkeep.next : 0, change->error);
	return volume;
}

static void rest(struct volume *volume, uint64_t took_ns)
{
	volume->upkeep.wait_ms = 0;
	volume->upkeep.why.error = 0;
	volume->upkeep.due_ns = clock_monotonic_ns() +
				max_u64(took_ns * UPKEEP_REST_FACTOR, UPKEEP_REST_MIN_MS * NS_PER_MS);
}

static void wait_longer(struct volume *volume)
{
	struct volume_upkeep *self = &volume->upkeep;

	self->wait_ms = min_u64(max_u64(2 * self->wait_ms, UPKEEP_WAIT_MIN_MS), UPKEEP_WAIT_MAX_MS);
	self->due_ns = clock_monotonic_ns() + self->wait_ms * NS_PER_MS;
}

/* The step has failed: it is tried again. */
static void undo_step(struct change *change)
{
	struct volume *volume = end_step(change);

	if (!volume)
		return;
	if (volume->upkeep.why.error != change->error)
		log_warning("volume %s: %s; it is tried again", volume->device, change->why.text);
	volume->upkeep.why = change->why;
	wait_longer(volume);
}

/* ---- the kinds ---- */

/* The record becomes that of the change. */
static int begin_step(struct change *change, const struct volume *volume, enum upkeep_state state, struct fathom_fault *why)
{
	volume_record_deinit(&change->record);
	if (volume_record_copy(&change->record, &volume->record))
		return fault(why, -ENOMEM, "out of memory");
	move_to(change->volumes->upkeep, state);
	return 0;
}

static int check_allocate(struct change *change, struct fathom_fault *why)
{
	struct volume *volume = change_find_volume(change, why);

	if (!volume)
		return -ENOENT;
	if (!is_allocatable(volume))
		return fault(why, -ECANCELED, "volume %s has nothing to allocate", volume->device);
	change->step.offset = volume->upkeep.next;
	change->step_bytes = volume->upkeep.step_bytes;
	return begin_step(change, volume, UPKEEP_ALLOCATING, why);
}

static int work_allocate(struct change *change, struct fathom_fault *why)
{
	struct pool_tree *tree = change->volumes->tree;

	if (change->step.offset >= change->record.size_bytes)
		return volume_end_allocation(tree, change->pool, &change->record, why);
	return volume_allocate(tree, change->pool, &change->record, change->step.offset, change->step_bytes, why);
}

static void apply_allocate(struct change *change)
{
	struct volume *volume = change_find_volume(change, NULL);
	struct volume_upkeep *self = &volume->upkeep;
	uint64_t took_ns = step_ns(change);
	bool is_end = change->step.offset >= change->record.size_bytes;

	must(volume); /* only a change can remove it */
	if (is_end)
		volume->record.allocating = false;
	else
		self->next = min_u64(change->step.offset + change->step_bytes, volume->record.size_bytes);
	if (took_ns < UPKEEP_FAST_MS * NS_PER_MS)
		self->step_bytes = min_u64(2 * self->step_bytes, UPKEEP_STEP_BYTES_MAX);
	else if (took_ns > UPKEEP_SLOW_MS * NS_PER_MS)
		self->step_bytes = max_u64(self->step_bytes / 2, UPKEEP_STEP_BYTES_MIN);
	(void)end_step(change); /* the volume is there */
	rest(volume, took_ns);
	if (is_end) {
		log_notice("volume %s is thick: all of its blocks are allocated", volume->device);
		upkeep_note(volume);
	}
}

static const struct change_kind allocate_kind = {
	.change = VOLUME_CHANGE_ALLOCATE,
	.check = check_allocate,
	.work = work_allocate,
	.apply = apply_allocate,
	.undo = undo_step,
};

static int check_unshare(struct change *change, struct fathom_fault *why)
{
	struct volume *volume = change_find_volume(change, why);

	if (!volume)
		return -ENOENT;
	if (!is_unsharable(volume))
		return fault(why, -ECANCELED, "volume %s has nothing to unshare", volume->device);
	change->step = volume->upkeep.search;
	return begin_step(change, volume, change->step.is_complete ? UPKEEP_UNSHARING : UPKEEP_SEARCHING, why);
}

static int work_unshare(struct change *change, struct fathom_fault *why)
{
	struct pool_tree *tree = change->volumes->tree;

	if (change->step.is_complete) {
		change->is_unshared = true;
		return volume_unshare(tree, change->pool, &change->record, change->step.data_offset, why);
	}
	return volume_find_shared(tree, change->pool, &change->record, &change->step, why);
}

static void apply_unshare(struct change *change)
{
	struct volume *volume = change_find_volume(change, NULL);
	uint64_t took_ns = step_ns(change);

	must(volume); /* only a change can remove it */
	volume->upkeep.search = change->step;
	volume->upkeep.next = change->step.offset;
	(void)end_step(change); /* the volume is there */
	rest(volume, took_ns);
	if (change->is_unshared) {
		volume->record.shares = volume->may_share = false;
		model_set_limit(volume, false);
		log_notice("volume %s shares no blocks any more", volume->device);
		upkeep_note(volume);
	} else if (change->step.is_shared) {
		volume->upkeep.search = (struct shared_search){ 0 };
		volume->upkeep.wait_ms = volume->upkeep.last_wait_ms;
		wait_longer(volume);
		volume->upkeep.last_wait_ms = volume->upkeep.wait_ms;
	}
}

static void undo_unshare(struct change *change)
{
	struct volume *volume = change_find_volume(change, NULL);

	if (volume)
		volume->upkeep.search = (struct shared_search){ 0 };
	undo_step(change);
}

static const struct change_kind unshare_kind = {
	.change = VOLUME_CHANGE_UNSHARE,
	.check = check_unshare,
	.work = work_unshare,
	.apply = apply_unshare,
	.undo = undo_unshare,
};

/* ---- the turns ---- */

static void ignore_end(void *ctx, const struct fathom_fault *why)
{
	maybe(why); /* undo() has kept the reason */
}

bool upkeep_is_step(const struct change *change)
{
	return change->kind == &allocate_kind || change->kind == &unshare_kind;
}

static struct change *create_step(struct volume *volume)
{
	struct volume_key key = { .pool = volume->pool->record.name, .volume = volume->record.name };

	uuid_copy(key.pool_uuid, volume->pool->record.uuid);
	uuid_copy(key.uuid, volume->record.uuid);
	return change_of_volume(volume->volumes, is_allocatable(volume) ? &allocate_kind : &unshare_kind, &key, ignore_end,
				NULL);
}

struct change *upkeep_next_step(struct upkeep *upkeep)
{
	uint64_t now_ns = clock_monotonic_ns(), earliest = UINT64_MAX;
	struct volume *volume;
	struct copy_info copy;

	deadline_clear(&upkeep->timer, &upkeep->due);
	TAILQ_FOREACH (volume, &upkeep->volumes_in_turn, upkeep.link) {
		if (!is_allocatable(volume) && !is_unsharable(volume))
			continue;
		/* its step would wait in the queue, and nothing else that the engine does by itself could begin */
		if (volumes_get_copy(volume->volumes, volume, &copy))
			volume->upkeep.due_ns = max_u64(volume->upkeep.due_ns, now_ns + UPKEEP_WAIT_MIN_MS * NS_PER_MS);
		if (volume->upkeep.due_ns <= now_ns) {
			/* a step that cannot begin is not tried again at once */
			volume->upkeep.due_ns = now_ns + UPKEEP_WAIT_MIN_MS * NS_PER_MS;
			TAILQ_REMOVE(&upkeep->volumes_in_turn, volume, upkeep.link);
			TAILQ_INSERT_TAIL(&upkeep->volumes_in_turn, volume, upkeep.link);
			return create_step(volume);
		}
		earliest = min_u64(earliest, volume->upkeep.due_ns);
	}
	if (earliest != UINT64_MAX)
		deadline_set(&upkeep->timer, &upkeep->due, earliest - now_ns, wake);
	return NULL;
}

void upkeep_note(struct volume *volume)
{
	struct upkeep *upkeep = volume->volumes->upkeep;
	struct volume_upkeep *self = &volume->upkeep;
	bool is_wanted = volume->record.allocating || volume->record.shares;

	self->next = 0;
	self->search = (struct shared_search){ 0 };
	self->wait_ms = self->last_wait_ms = 0;
	self->due_ns = 0;
	self->step_bytes = UPKEEP_STEP_BYTES_MIN;
	if (is_wanted != self->is_listed) {
		if (is_wanted)
			TAILQ_INSERT_TAIL(&upkeep->volumes_in_turn, volume, upkeep.link);
		else
			TAILQ_REMOVE(&upkeep->volumes_in_turn, volume, upkeep.link);
		self->is_listed = is_wanted;
	}
	if (is_wanted)
		queue_wake(volume->volumes);
}

void upkeep_note_removal(struct upkeep *upkeep)
{
	struct volume *volume;

	TAILQ_FOREACH (volume, &upkeep->volumes_in_turn, upkeep.link) {
		if (is_unsharable(volume) && !is_allocatable(volume))
			volume->upkeep.due_ns = volume->upkeep.last_wait_ms = 0;
	}
}

void upkeep_remove_volume(struct volume *volume)
{
	if (volume->upkeep.is_listed)
		TAILQ_REMOVE(&volume->volumes->upkeep->volumes_in_turn, volume, upkeep.link);
	volume->upkeep.is_listed = false;
}

struct upkeep *upkeep_create(struct volumes *volumes)
{
	struct upkeep *upkeep = calloc(1, sizeof(*upkeep));

	must(upkeep);
	must(deadlines_init(&upkeep->timer, "volume_upkeep") == 0);
	upkeep->volumes = volumes;
	TAILQ_INIT(&upkeep->volumes_in_turn);
	trace_object_init(&upkeep->trace, TRACE_OBJECT_UPKEEP);
	return upkeep;
}

void upkeep_destroy(struct upkeep *upkeep)
{
	if (!upkeep)
		return;
	deadlines_deinit(&upkeep->timer);
	free(upkeep);
}
