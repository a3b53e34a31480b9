/* SPDX-License-Identifier: BSD-2-Clause */
/* trace - the trace in the core: names of threads, the program's build-id, the cause of the end. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "inspect/core/internal.h"
#include "inspect/trace/trace_file.h"

static void name_threads(struct core *core)
{
	struct reader_thread row;

	for (uint32_t i = 0; i < reader_info(core->trace)->thread_count; i++) {
		if (!reader_thread(core->trace, i, &row) || row.state != TRACE_THREAD_LIVE)
			continue;
		for (uint32_t j = 0; j < core->thread_count; j++) {
			if (core->threads[j].tid == row.tid)
				(void)text_copy(core->threads[j].name, sizeof(core->threads[j].name), row.name);
		}
	}
}

/* The trace has the program's build-id, too. */
static void check_build_id(struct core *core)
{
	const char *text = reader_info(core->trace)->build_id;
	struct core_module *program = core->program;
	uint32_t count = 0;

	if (!program || program->build_id_bytes)
		return;
	for (; count < CORE_BUILD_ID_BYTES && text[2 * count] && text[2 * count + 1]; count++) {
		unsigned int byte;

		if (sscanf(&text[2 * count], "%2x", &byte) != 1)
			return;
		program->build_id[count] = (uint8_t)byte;
	}
	program->build_id_bytes = count;
}

void core_open_trace(struct core *core)
{
	struct fathom_fault why = { 0 };
	char unpacked[64];

	snprintf(unpacked, sizeof(unpacked), "/proc/self/fd/%d", core->unpacked_fd);
	if (reader_open(core->unpacked_fd >= 0 ? unpacked : core->info.path, &core->trace, &why) != 0) {
		core->info.trace_why = core_keep_text(core, why.text, sizeof(why.text));
		return;
	}
	core->info.trace = core->trace;
	if (reader_info(core->trace)->problem)
		core_add_remark(core, "trace: %s", reader_info(core->trace)->problem);
	name_threads(core);
	check_build_id(core);
}

struct reader *core_trace(struct core *core)
{
	return core->trace;
}
