/* SPDX-License-Identifier: BSD-2-Clause */
/* core_command - shared by the files of `fathom core`: what to show, as text or as JSON. */
#ifndef CMD_FATHOM_CORE_CORE_COMMAND_H
#define CMD_FATHOM_CORE_CORE_COMMAND_H

#include <stdio.h>

#include "base/bits.h"
#include "inspect/core/core.h"
#include "inspect/trace/trace_file.h"

enum { CORE_RECORDS_DEFAULT = 32, CORE_ROWS_SHOWN = 20 };

enum core_part {
	CORE_PART_PROGRAM,
	CORE_PART_CRASH,
	CORE_PART_THREADS,
	CORE_PART_MODULES,
	CORE_PART_MAPPINGS,
	CORE_PART_TRACE,
	CORE_PARTS,
};

struct core_request {
	const char *program;
	bool json;
	uint64_t record_count;
	bool parts[CORE_PARTS];
	bool lists[CORE_LISTS_MAX];
	bool is_all; /* no part was named. As text: all but modules and mappings, with long lists cut */
};

/* ---- show.c, json.c: print the chosen parts on standard output ---- */

void core_show(struct core *core, const struct core_request *request);
void core_print_json(struct core *core, const struct core_request *request);

/* ---- json_list.c: print `"name":[...]`, and its first part ---- */

void core_print_json_list(const struct core_list *list);
/* "name": with the dashes of the list's name as underscores. */
void core_print_json_key(const char *name);

/* ---- core.c ---- */

/* Call `each` for the last `count` events of the trace, in order. */
void core_each_record(struct reader *reader, uint64_t count, void (*each)(void *ctx, const struct reader_event *event),
		      void *ctx);

#endif
