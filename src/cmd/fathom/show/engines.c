/* SPDX-License-Identifier: BSD-2-Clause */
/* The engines of hosts, as their servers see them: `fathom server query`. */
#include <inttypes.h>

#include "base/bits.h"
#include "cmd/fathom/show/show.h"
#include "cmd/fathom/show/parts.h"

static void show_full(const struct fathom_control_engine *engine, FILE *out)
{
	char title[64], rank[SIZE_TEXT_BYTES], pid[SIZE_TEXT_BYTES], starts[SIZE_TEXT_BYTES], incarnation[SIZE_TEXT_BYTES];
	char restart[64] = "none is due";
	const char *const pairs[][2] = {
		{ "State", engine->state },
		{ "Reason", engine->info },
		{ "Rank", rank_text(engine->rank, rank) },
		{ "UUID", engine->uuid },
		{ "Incarnation", number_text(engine->incarnation, incarnation) },
		{ "PID", pid_text(engine->process, pid) },
		{ "Adopted", engine->adopted ? "yes" : "no" },
		{ "URI", engine->uri },
		{ "Storage", engine->storage },
		{ "Starts", number_text(engine->starts, starts) },
		{ "Last end", engine->last_end },
		{ "Restart", restart },
		{ "RPC socket", engine->rpc_socket },
		{ "Version", engine->version },
	};

	snprintf(title, sizeof(title), "Instance %" PRIu32, engine->index);
	if (engine->restart_in_ms)
		snprintf(restart, sizeof(restart), "in %" PRIu64 " ms", engine->restart_in_ms);
	entity_print(title, &pairs[0][0], ARRAY_COUNT(pairs), 2, out);
	fputc('\n', out);
}

void show_engines(const struct fathom_control_answers *answers, bool verbose, FILE *out)
{
	for (size_t i = 0; i < answers->count; i++) {
		const struct fathom_control_engines *engines = answers->answers[i].engines;

		print_hosts(&answers->answers[i], out);
		if (engines->count == 0)
			fprintf(out, "  No engines are configured\n");
		else if (!verbose)
			table_of_engine(engines->engines, engines->count, 0, 2, out);
		for (size_t k = 0; verbose && k < engines->count; k++)
			show_full(&engines->engines[k], out);
	}
}
