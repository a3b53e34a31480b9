/* SPDX-License-Identifier: BSD-2-Clause */
/* The members of the system: `fathom system query`. */
#include "base/bits.h"
#include "cmd/fathom/show/show.h"
#include "cmd/fathom/show/parts.h"
#include "control/system/member.h"

const char *state_title(const char *state)
{
	enum member_state known;

	return member_state_parse(state, &known) == 0 ? member_state_title(known) : state;
}

/* "Joined", or "Joined, 2 volumes ERRORED, 1 volume READ_ONLY" */
static const char *write_state(const struct fathom_control_member *member, char *text, size_t bytes)
{
	const struct {
		uint32_t count;
		const char *what, *state;
	} rows[] = { { member->errored_volumes, "volume", "ERRORED" },
		     { member->read_only_volumes, "volume", "READ_ONLY" },
		     { member->errored_pools, "pool", "ERRORED" } };
	size_t used = (size_t)snprintf(text, bytes, "%.32s", state_title(member->state));

	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		must(used < bytes);
		if (rows[i].count > 0)
			used += (size_t)snprintf(text + used, bytes - used, ", %u %s%s %s", rows[i].count, rows[i].what,
						 rows[i].count == 1 ? "" : "s", rows[i].state);
	}
	return text;
}

static void show_states(const struct fathom_control_members *members, FILE *out)
{
	static const char *const titles[] = { "Rank", "State" };
	struct folded *folded = folded_create(FOLDED_RANKS, titles, ARRAY_COUNT(titles));

	for (size_t i = 0; i < members->count; i++) {
		char rank[SIZE_TEXT_BYTES], state[160];

		folded_add(folded, number_text(members->members[i].rank, rank),
			   (const char *[]){ write_state(&members->members[i], state, sizeof(state)) });
	}
	folded_add_absent(folded, members->absent_ranks, (const char *[]){ "Unknown Rank" });
	folded_finish(folded, true, 0, out);
}

void show_members(const struct fathom_control_members *members, bool verbose, FILE *out)
{
	if (members->count == 0)
		fprintf(out, "Query matches no ranks in system\n");
	else if (verbose)
		table_of_member(members->members, members->count, 0, 0, out);
	else
		show_states(members, out);
	if (members->count > 0)
		fputc('\n', out);
}
