/* SPDX-License-Identifier: BSD-2-Clause */
/* What became of ranks: `fathom system start`, `stop`, `exclude`, `clear-exclude`, `erase`. */
#include "base/bits.h"
#include "cmd/fathom/show.h"
#include "cmd/fathom/show_parts.h"

bool ranks_have_errors(const struct fathom_control_ranks *ranks)
{
	for (size_t i = 0; i < ranks->count; i++) {
		if (ranks->ranks[i].errored)
			return true;
	}
	return false;
}

void show_ranks(const struct fathom_control_ranks *ranks, FILE *out)
{
	static const char *const titles[] = { "Rank", "Operation", "Result" };
	struct folded *folded = folded_create(FOLDED_RANKS, titles, ARRAY_COUNT(titles));

	for (size_t i = 0; i < ranks->count; i++) {
		const struct fathom_control_rank *from = &ranks->ranks[i];
		char rank[SIZE_TEXT_BYTES];

		folded_add(folded, number_text(from->rank, rank),
			   (const char *[]){ from->action, from->errored ? from->message : "OK" });
	}
	if (ranks->count == 0)
		fprintf(out, "No results returned\n");
	folded_finish(folded, true, 0, out);
	if (ranks->absent_hosts[0])
		fprintf(out, "Unknown hosts: %s\n", ranks->absent_hosts);
	if (ranks->absent_ranks[0])
		fprintf(out, "Unknown ranks: %s\n", ranks->absent_ranks);
	fputc('\n', out);
}

json_t *json_ranks(const struct fathom_control_ranks *ranks)
{
	json_t *response = json_object(), *list = json_array();

	for (size_t i = 0; i < ranks->count; i++) {
		const struct fathom_control_rank *from = &ranks->ranks[i];
		json_t *rank = json_object();

		put_text(rank, "addr", from->address);
		put_number(rank, "rank", from->rank);
		put_text(rank, "action", from->action);
		put_bool(rank, "errored", from->errored);
		put_text(rank, "msg", from->message);
		put_text(rank, "state", from->state);
		append(list, rank);
	}
	put(response, "results", or_null(list));
	if (ranks->absent_ranks[0])
		put_text(response, "absent_ranks", ranks->absent_ranks);
	if (ranks->absent_hosts[0])
		put_text(response, "absent_hosts", ranks->absent_hosts);
	return response;
}
