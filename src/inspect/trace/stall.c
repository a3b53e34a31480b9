/* SPDX-License-Identifier: BSD-2-Clause */
/* stall - finds the longest wait of a life, and whether another life had the same one. */
#include "inspect/trace/stall.h"

#include "base/bits.h"
#include "inspect/trace/internal.h"

struct reader_stall reader_stall_of(const struct reader_object *object, const struct reader_stays *stays,
				    uint64_t spent_ticks, const struct reader_stall_io *io, uint32_t thread)
{
	struct reader_stall stall = { .type = object->id, .thread = thread };
	uint64_t longest = 0, from, to;

	for (uint32_t i = 0; i < stays->count; i++) {
		uint8_t state = stays->states[i];

		if (stays->ticks[i] <= longest ||
		    (state < object->machine->state_count && object->machine->states[state].resting))
			continue;
		longest = stays->ticks[i];
		stall.state = state;
		stall.from = stays->begins[i];
		stall.to = stays->begins[i] + stays->ticks[i];
	}
	if (longest == 0 || longest < spent_ticks / 2)
		return (struct reader_stall){ .type = object->id, .thread = thread };
	from = max_u64(io->from, stall.from);
	to = min_u64(io->to, stall.to);
	if (io->owner && to > from && to - from >= longest / 2) {
		stall.device = io->owner;
		stall.from = from;
		stall.to = to;
	}
	return stall;
}

struct reader_stall reader_stall_of_exemplar(const struct reader_exemplar *exemplar)
{
	const struct reader_story *story = exemplar->stories;
	struct reader_stall_io io = { 0 };

	if (exemplar->story_count > 1)
		io = (struct reader_stall_io){ .from = story[1].begin_tick,
					       .to = exemplar->end_ticks[1],
					       .owner = story[1].owner };
	return reader_stall_of(story->object, &exemplar->stays[0], exemplar->spent_ticks, &io, exemplar->thread);
}

bool reader_stall_is_one(const struct reader_stall *longest, const struct reader_stall *other)
{
	uint64_t apart = max_u64(longest->to, other->to) - min_u64(longest->to, other->to);

	if (longest->to == 0 || other->to == 0 || longest->type != other->type || longest->device != other->device)
		return false;
	if (!longest->device && (longest->state != other->state || longest->thread != other->thread))
		return false;
	return longest->from < other->to && other->from < longest->to &&
	       apart <= (longest->to - longest->from) / STALL_END_PART;
}
