/* SPDX-License-Identifier: BSD-2-Clause */
/* core_command - shared by the files of `fathom core`: what to show, as text or as JSON. */
#ifndef CMD_FATHOM_CORE_CORE_COMMAND_H
#define CMD_FATHOM_CORE_CORE_COMMAND_H

#include <stdio.h>

#include "base/bits.h"
#include "inspect/core/core.h"
#include "inspect/trace/trace_file.h"

enum { CORE_RECORDS_DEFAULT = 32, CORE_ROWS_SHOWN = 20 };

enum core_part { CORE_PART_PROGRAM, CORE_PART_CRASH, CORE_PART_THREADS, CORE_PART_MAPPINGS, CORE_PART_TRACE, CORE_PARTS };

struct core_request {
	const char *program;
	bool json;
	uint64_t record_count;
	bool parts[CORE_PARTS];
	bool lists[CORE_LISTS_MAX];
	bool is_all; /* no part was named: show all but mappings, with long lists cut */
};

/* ---- show.c, json.c: print the chosen parts on standard output ---- */

void core_show(struct core *core, const struct core_request *request);
void core_print_json(struct core *core, const struct core_request *request);

/* ---- core.c ---- */

/* Call `each` for the last `count` events of the trace, in order. */
void core_each_record(struct reader *reader, uint64_t count, void (*each)(void *ctx, const struct reader_event *event),
		      void *ctx);

#endif
