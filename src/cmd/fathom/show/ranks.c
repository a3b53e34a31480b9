/* SPDX-License-Identifier: BSD-2-Clause */
/* Results of operations on ranks: `fathom system start`, `stop`, `exclude`, `clear-exclude`, `erase`. */
#include "base/bits.h"
#include "cmd/fathom/show/show.h"
#include "cmd/fathom/show/parts.h"

/* Engines that never joined have no rank: identify them by their hosts. */
static void show_unranked(const struct fathom_control_ranks *ranks, FILE *out)
{
	static const char *const titles[] = { "Hosts", "Operation", "Result" };
	struct folded *folded = folded_create(FOLDED_HOSTS, titles, ARRAY_COUNT(titles));

	fprintf(out, "Engines without a rank:\n");
	for (size_t i = 0; i < ranks->count; i++) {
		const struct fathom_control_rank *from = &ranks->ranks[i];

		if (from->rank == FATHOM_CONTROL_NO_RANK && from->address[0])
			folded_add(folded, from->address,
				   (const char *[]){ from->action, from->errored ? from->message : "OK" });
	}
	folded_finish(folded, true, 2, out);
	fputc('\n', out);
}

void show_ranks(const struct fathom_control_ranks *ranks, FILE *out)
{
	static const char *const titles[] = { "Rank", "Operation", "Result" };
	struct folded *folded = folded_create(FOLDED_RANKS, titles, ARRAY_COUNT(titles));
	size_t unranked = 0;

	for (size_t i = 0; i < ranks->count; i++) {
		const struct fathom_control_rank *from = &ranks->ranks[i];
		char rank[SIZE_TEXT_BYTES];

		if (from->rank == FATHOM_CONTROL_NO_RANK) {
			unranked++;
			continue;
		}
		folded_add(folded, number_text(from->rank, rank),
			   (const char *[]){ from->action, from->errored ? from->message : "OK" });
	}
	if (ranks->count == 0)
		fprintf(out, "No results returned\n");
	else
		folded_add_absent(folded, ranks->absent_ranks, (const char *[]){ "----", "Unknown Rank" });
	folded_finish(folded, true, 0, out);
	if (ranks->count > unranked)
		fputc('\n', out);
	if (unranked > 0)
		show_unranked(ranks, out);
}
