/* SPDX-License-Identifier: BSD-2-Clause */
/* states - names of the members' states, in output and in messages, and the moves that a report may make. */
#include <errno.h>
#include <strings.h>

#include "base/bits.h"
#include "control/system/member.h"

static const struct {
	const char *title;
	const char *wire;
	uint32_t refuses; /* bits of the states that a report must not set from here; the same state and UNKNOWN never */
} rows[] = {
#define S(state) (1u << (MEMBER_##state - 1))
	[MEMBER_UNKNOWN] = { "Unknown", "unknown", MEMBER_ALL_BITS },
	[MEMBER_AWAIT_FORMAT] = { "AwaitFormat", "awaitformat", S(EXCLUDED) },
	[MEMBER_STARTING] = { "Starting", "starting", S(EXCLUDED) },
	[MEMBER_READY] = { "Ready", "ready", S(EXCLUDED) },
	[MEMBER_JOINED] = { "Joined", "joined", S(READY) },
	[MEMBER_STOPPING] = { "Stopping", "stopping", 0 },
	[MEMBER_STOPPED] = { "Stopped", "stopped", 0 },
	[MEMBER_EXCLUDED] = { "Excluded", "excluded",
			      S(ERRORED) | S(STOPPING) | S(STOPPED) | S(STARTING) | S(READY) | S(UNRESPONSIVE) },
	[MEMBER_ERRORED] = { "Errored", "errored", S(READY) | S(JOINED) | S(STOPPING) },
	[MEMBER_UNRESPONSIVE] = { "Unresponsive", "unresponsive", S(READY) | S(JOINED) | S(STOPPING) },
	[MEMBER_ADMIN_EXCLUDED] = { "AdminExcluded", "adminexcluded", MEMBER_ALL_BITS },
	[MEMBER_CHECKER_STARTED] = { "CheckerStarted", "checkerstarted", S(READY) | S(JOINED) },
#undef S
};
static_assert(ARRAY_COUNT(rows) == MEMBER_STATES, "");
static_assert(MEMBER_STATES - 1 <= 16, "each state has its bit in MEMBER_ALL_BITS");

int member_state_of_bit(uint32_t bit, enum member_state *state_ret)
{
	for (enum member_state state = MEMBER_UNKNOWN; state < MEMBER_STATES; state++) {
		if (member_state_bit(state) == bit) {
			*state_ret = state;
			return 0;
		}
	}
	return -EINVAL;
}

const char *member_state_title(enum member_state state)
{
	must(state < MEMBER_STATES);
	return rows[state].title;
}

const char *member_state_wire(enum member_state state)
{
	must(state < MEMBER_STATES);
	return rows[state].wire;
}

int member_state_parse(const char *text, enum member_state *state_ret)
{
	for (enum member_state state = MEMBER_UNKNOWN; state < MEMBER_STATES; state++) {
		if (strcasecmp(text, rows[state].wire) == 0) {
			*state_ret = state;
			return 0;
		}
	}
	return -EINVAL;
}

bool member_may_report(enum member_state from, enum member_state to)
{
	must(from < MEMBER_STATES);
	must(to < MEMBER_STATES);
	return to != MEMBER_UNKNOWN && from != to && !(rows[from].refuses & member_state_bit(to));
}
