/* SPDX-License-Identifier: BSD-2-Clause */
/* life - splits a life by causes; see life.h for the rules. */
#include "inspect/blame/life.h"

#include <string.h>

#include "base/bits.h"
#include "base/must.h"

enum {
	HOLD_END_PART =
		10, /* a stage ends because of a hold if it ends within 1 / HOLD_END_PART of the hold behind it ... */
	HOLD_END_US = 1000,	     /* ... or within this time: other requests had to be served first */
	WAITED_US = 1000,	     /* the engine records a wait from this length on */
	UNBLOCKED_US = 200,	     /* a shorter SENDING is one system call */
	KERNEL_STEP_US = 10000,	     /* resolution of the kernel's times */
	DELAYED_ACK_MIN_US = 45000,  /* by default hosts acknowledge within this time ... */
	DELAYED_ACK_MAX_US = 200000, /* ... and never later than this */
};

static uint64_t ticks_of(const struct blame_life *life, uint64_t us)
{
	return (uint64_t)((unsigned __int128)us * life->ticks_per_sec / 1000000);
}

/* Take up to `wanted` ticks of `*left` for `cause`. Returns the number taken. */
static uint64_t take(struct blame_split *split, enum blame_cause cause, uint64_t *left, uint64_t wanted)
{
	uint64_t taken = min_u64(*left, wanted);

	split->ticks[cause] += taken;
	*left -= taken;
	return taken;
}

/* ---- holds ---- */

static bool ends_by_hold(const struct blame_life *life, const struct blame_piece *piece, const struct blame_hold *hold)
{
	uint64_t slack = max_u64((hold->to - hold->from) / HOLD_END_PART, ticks_of(life, HOLD_END_US));

	return hold->from < piece->to && piece->from < hold->to && (piece->to <= hold->to || piece->to - hold->to <= slack);
}

/* Ticks of the piece in which the reactor could not end it. */
static uint64_t held_ticks(const struct blame_life *life, const struct blame_piece *piece, struct blame_split *split)
{
	uint64_t held = 0;

	for (uint32_t i = 0; i < life->hold_count; i++) {
		const struct blame_hold *hold = &life->holds[i];

		if (!ends_by_hold(life, piece, hold))
			continue;
		held += min_u64(hold->to, piece->to) - max_u64(hold->from, piece->from);
		if (!split->hold || hold->to - hold->from > split->hold->to - split->hold->from)
			split->hold = hold;
	}
	return held;
}

/* ---- waits ---- */

/* The wait that was recorded at the end of the piece; NULL: none. */
static const struct blame_wait *wait_of(const struct blame_life *life, const struct blame_piece *piece)
{
	const struct blame_wait *found = NULL;

	for (uint32_t i = 0; i < life->wait_count; i++) {
		if (life->waits[i].tick > piece->from && life->waits[i].tick <= piece->to)
			found = &life->waits[i];
	}
	return found;
}

/*
 * The host has our R2T when it acknowledges it, and it may delay that. So the unacknowledged time is the network's only
 * beyond what a host may delay; between the limits it is not known.
 */
static void split_data_in(const struct blame_life *life, const struct blame_piece *piece, uint64_t left,
			  struct blame_split *split)
{
	const struct blame_wait *wait = wait_of(life, piece);
	uint64_t flow, unacked, rtt;

	if (!wait) {
		take(split, BLAME_UNKNOWN, &left, left);
		return;
	}
	take(split, BLAME_HOST, &left, ticks_of(life, wait->closed_us));
	if (wait->lost > 0) {
		take(split, BLAME_NETWORK, &left, left);
		return;
	}
	/* data arrive without losses, but slowly: the host sends in pieces, or the network is narrow */
	flow = life->data_tick > piece->from && life->data_tick < piece->to ? piece->to - life->data_tick : 0;
	take(split, BLAME_UNKNOWN, &left, min_u64(flow, left));
	rtt = take(split, BLAME_NETWORK, &left, ticks_of(life, life->rtt_us));
	unacked = ticks_of(life, wait->unacked_us);
	unacked -= min_u64(rtt, unacked);
	if (wait->unacked_us > DELAYED_ACK_MAX_US)
		take(split, BLAME_NETWORK, &left, unacked);
	else if (wait->unacked_us > DELAYED_ACK_MIN_US || unacked > left / 2)
		take(split, BLAME_UNKNOWN, &left, unacked);
	take(split, BLAME_HOST, &left, left);
}

/*
 * With a closed window the host does not read. With an open one the bytes were under way: lost, or on a slow network.
 * With neither there was nothing to wait for, and our side did not send.
 */
static void split_sending(const struct blame_life *life, const struct blame_piece *piece, uint64_t left,
			  struct blame_split *split)
{
	const struct blame_wait *wait = wait_of(life, piece);
	uint64_t closed, open;

	if (!wait) {
		bool never_full = left <= ticks_of(life, UNBLOCKED_US) ||
				  (life->waits_recorded && piece->to - piece->from >= ticks_of(life, WAITED_US));

		take(split, never_full ? BLAME_CPU : BLAME_UNKNOWN, &left, left);
		return;
	}
	closed = take(split, BLAME_HOST, &left, ticks_of(life, wait->closed_us));
	open = take(split, BLAME_NETWORK, &left, ticks_of(life, wait->unacked_us));
	if (left > ticks_of(life, KERNEL_STEP_US))
		take(split, wait->lost > 0 ? BLAME_UNKNOWN : BLAME_CPU, &left, left);
	else if (closed == 0 && open == 0)
		take(split, BLAME_UNKNOWN, &left, left);
	else /* less than the kernel's times resolve */
		take(split, closed > open ? BLAME_HOST : BLAME_NETWORK, &left, left);
}

static void split_capsule(const struct blame_life *life, const struct blame_piece *piece, uint64_t left,
			  struct blame_split *split)
{
	const struct blame_wait *wait = wait_of(life, piece);

	take(split, !wait ? BLAME_CPU : wait->lost > 0 ? BLAME_NETWORK : BLAME_UNKNOWN, &left, left);
}

/* ---- a life ---- */

static void split_by_stage(const struct blame_life *life, const struct blame_piece *piece, uint64_t left,
			   struct blame_split *split)
{
	switch (piece->stage) {
	case BLAME_CAPSULE:
		split_capsule(life, piece, left, split);
		break;
	case BLAME_DATA_IN:
		split_data_in(life, piece, left, split);
		break;
	case BLAME_SENDING:
		split_sending(life, piece, left, split);
		break;
	case BLAME_WAITING:
		take(split, BLAME_QUEUE, &left, left);
		break;
	case BLAME_WORK:
		take(split, BLAME_CPU, &left, left);
		break;
	case BLAME_AT_DEVICE:
		take(split, BLAME_DISK, &left, left);
		break;
	case BLAME_RESTING:
		must(!"a resting piece is skipped");
		break;
	case BLAME_UNCLEAR:
		take(split, BLAME_UNKNOWN, &left, left);
		break;
	}
}

/* Add a piece to the split of a life. `most`: the ticks of the piece that gave most of each cause so far. */
static void split_piece(const struct blame_life *life, const struct blame_piece *piece, struct blame_split *split,
			uint64_t most[BLAME_CAUSES])
{
	uint64_t left = piece->to - piece->from, before[BLAME_CAUSES];

	memcpy(before, split->ticks, sizeof(before));
	split->whole += left;
	take(split, BLAME_CPU, &left, held_ticks(life, piece, split));
	split_by_stage(life, piece, left, split);
	for (int cause = 0; cause < BLAME_CAUSES; cause++) {
		uint64_t given = split->ticks[cause] - before[cause];

		if (given > most[cause]) {
			most[cause] = given;
			split->where[cause] = piece->name;
		}
	}
}

void blame_life_split(const struct blame_life *life, struct blame_split *split_ret)
{
	uint64_t sum = 0, most[BLAME_CAUSES] = { 0 };

	*split_ret = (struct blame_split){ 0 };
	for (uint32_t i = 0; i < life->piece_count; i++) {
		must(life->pieces[i].from <= life->pieces[i].to);
		if (life->pieces[i].stage != BLAME_RESTING)
			split_piece(life, &life->pieces[i], split_ret, most);
	}
	for (int cause = 0; cause < BLAME_CAUSES; cause++)
		sum += split_ret->ticks[cause];
	must(sum == split_ret->whole);
}

/* ---- states ---- */

enum blame_stage blame_stage_of(const char *state, bool of_io)
{
	static const struct {
		const char *state;
		bool of_io;
		enum blame_stage stage;
	} rows[] = {
		{ "RECEIVED", false, BLAME_CAPSULE },
		{ "WAIT_BUFFER", false, BLAME_WAITING },
		{ "TRANSFER_IN", false, BLAME_DATA_IN },
		{ "EXECUTING", false, BLAME_WORK },
		{ "WAIT_SUBSYSTEM", false, BLAME_WAITING },
		{ "WAIT_EVENT", false, BLAME_RESTING },
		{ "COMPLETED", false, BLAME_WORK },
		{ "SENDING", false, BLAME_SENDING },
		{ "PARKED", false, BLAME_AT_DEVICE },
		{ "SUBMITTED", true, BLAME_WORK },
		{ "QUEUED", true, BLAME_WAITING },
		{ "HELD", true, BLAME_WAITING },
		{ "DISPATCHED", true, BLAME_AT_DEVICE },
		{ "SPLIT", true, BLAME_AT_DEVICE },
		/* of SPDK's target */
		{ "NEW", false, BLAME_CAPSULE },
		{ "NEED_BUFFER", false, BLAME_WAITING },
		{ "WAIT_ZCPY_START", false, BLAME_AT_DEVICE },
		{ "WAIT_ZCPY_CMPL", false, BLAME_AT_DEVICE },
		{ "ZCPY_START_CPL", false, BLAME_WORK },
		{ "AWAIT_R2T_ACK", false, BLAME_DATA_IN },
		{ "TX_H_TO_C", false, BLAME_DATA_IN },
		{ "RDY_TO_EXECUTE", false, BLAME_WORK },
		{ "EXECUTED", false, BLAME_WORK },
		{ "RDY_TO_COMPL", false, BLAME_WORK },
		{ "TRANSFER_C2H", false, BLAME_SENDING },
		{ "START", true, BLAME_AT_DEVICE },
	};

	state += strncmp(state, "REQ_", 4) == 0 ? 4 : 0;
	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		if (rows[i].of_io == of_io && strcmp(rows[i].state, state) == 0)
			return rows[i].stage;
	}
	return BLAME_UNCLEAR;
}
