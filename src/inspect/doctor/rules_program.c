/* SPDX-License-Identifier: BSD-2-Clause */
/* rules_program - is the running code the code on disk, and would a crash leave what one needs? */
#include <string.h>

#include "inspect/doctor/findings.gen.h"
#include "inspect/doctor/internal.h"

static void judge_program(const json_t *program, int64_t pid, struct findings *list)
{
	const char *running = doc_text_at(program, "running.build_id"), *on_disk = doc_text_at(program, "on_disk.build_id");
	const char *path = doc_text_at(program, "path");
	struct finding *it;

	if (doc_is(program, "deleted") || (on_disk[0] && strcmp(running, on_disk) != 0)) {
		it = find_program_replaced(list, FINDING_CERTAIN, path);
		finding_shows(it, "build-id of the running program: %s", running[0] ? running : "none");
		finding_shows(it, "build-id of the file: %s", on_disk[0] ? on_disk : "there is no such file");
		finding_see(it, "ls -l /proc/%" PRId64 "/exe", pid);
	}
	if (json_is_false(doc_at(program, "running.symbols")) && !doc_is(program, "running.debug_file")) {
		it = find_program_stripped(list, FINDING_CERTAIN, path);
		finding_shows(it, "build-id %s", running);
		finding_see(it, "file /proc/%" PRId64 "/exe", pid);
	}
}

static void judge_libraries(const json_t *evidence, struct findings *list)
{
	const char *program = doc_text_at(evidence, "process.program.path");
	const json_t *library;
	struct finding *it;
	size_t i;

	json_array_foreach ((json_t *)doc_at(evidence, "process.libraries"), i, library) {
		if (strcmp(doc_text_at(library, "path"), program) == 0)
			continue;
		it = find_library_replaced(list, FINDING_CERTAIN, doc_text_at(library, "path"));
		finding_shows(it, doc_is(library, "deleted") ? "the mapped file was deleted"
							     : "another file is at this path now");
		finding_see(it, "grep deleted /proc/%" PRId64 "/maps", doc_engine_pid(evidence));
	}
}

static void judge_core(const json_t *evidence, struct findings *list)
{
	const char *pattern = doc_text_at(evidence, "process.core_pattern"), *core = doc_text_at(evidence, "process.core");
	struct finding *it;

	if (core[0])
		finding_see(find_core_found(list, FINDING_LIKELY, core), "fathom core %s", core);
	/* a program that receives cores gets them whatever the limit is */
	if (json_is_integer(doc_at(evidence, "process.limits.core")) &&
	    doc_number(evidence, "process.limits.core", 1) == 0 && pattern[0] != '|') {
		it = find_core_lost(list, FINDING_CERTAIN, "the limit of the size of a core is 0");
		finding_shows(it, "kernel.core_pattern is \"%s\"", pattern);
		finding_see(it, "grep core /proc/%" PRId64 "/limits", doc_engine_pid(evidence));
	} else if (doc_is_running(evidence) && doc_at(evidence, "process.core_pattern") && !pattern[0]) {
		(void)find_core_lost(list, FINDING_CERTAIN, "kernel.core_pattern is empty");
	}
}

static void judge_trace(const json_t *evidence, struct findings *list)
{
	int64_t off = doc_number(evidence, "trace.points_off", 0),
		refused = doc_number(evidence, "trace.refused_threads", 0);
	char text[96];

	if (doc_is(evidence, "trace.spdk"))
		return;
	snprintf(text, sizeof(text), "%" PRId64 " of %" PRId64 " points are off", off,
		 doc_number(evidence, "trace.points", 0));
	if (off > 0)
		finding_see(find_trace_incomplete(list, FINDING_CERTAIN, text), "fathom rpc trace_get_tpoint_group_mask");
	snprintf(text, sizeof(text), "%" PRId64 " threads have no rings", refused);
	if (refused > 0)
		(void)find_trace_incomplete(list, FINDING_CERTAIN, text);
}

void rules_program(const json_t *evidence, struct findings *list)
{
	if (doc_at(evidence, "process.program"))
		judge_program(doc_at(evidence, "process.program"), doc_engine_pid(evidence), list);
	judge_libraries(evidence, list);
	judge_core(evidence, list);
	if (doc_is_running(evidence))
		judge_trace(evidence, list);
}
