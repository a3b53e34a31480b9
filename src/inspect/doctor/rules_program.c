/* SPDX-License-Identifier: BSD-2-Clause */
/* rules_program - is the running code the code on disk, and would a crash leave what one needs? */
#include <string.h>

#include "inspect/doctor/findings.gen.h"
#include "inspect/doctor/internal.h"

enum { PRIVATE_MEMORY = 1 }; /* bit of coredump_filter */

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

/* Why the folder would take no core of the process; NULL: it would. */
static const char *folder_problem(const json_t *evidence, char *to, size_t bytes)
{
	const json_t *folder = doc_at(evidence, "process.core_folder");
	int64_t uid = doc_number(evidence, "process.uid", 0), mode = doc_number(folder, "mode", 07777);
	const char *path = doc_text_at(folder, "path");

	if (doc_is(folder, "missing"))
		snprintf(to, bytes, "its folder %s does not exist", path);
	else if (doc_is(folder, "read_only"))
		snprintf(to, bytes, "the file system of its folder %s is read-only", path);
	else if (uid != 0 && doc_number(folder, "uid", uid) != uid && !(mode & 022))
		snprintf(to, bytes, "user %" PRId64 " may not write to its folder %s", uid, path);
	else if (json_object_get(folder, "free") &&
		 doc_number(folder, "free", 0) / 1024 < doc_number(evidence, "process.resident_kib", 0))
		snprintf(to, bytes, "its folder %s has less room than the process has memory", path);
	else
		return NULL;
	return to;
}

/* Why a crash would leave no core, or one without use; NULL: it would leave one. */
static const char *core_problem(const json_t *evidence, char *to, size_t bytes)
{
	const char *pattern = doc_text_at(evidence, "process.core_pattern");
	int64_t limit = doc_number(evidence, "process.limits.core", INT64_MAX);

	/* a program that receives cores gets them whatever the limit is */
	if (pattern[0] == '|')
		return NULL;
	if (limit == 0)
		return "the limit of the size of a core is 0";
	if (doc_at(evidence, "process.core_pattern") && !pattern[0])
		return "kernel.core_pattern is empty";
	if (limit / 1024 < doc_number(evidence, "process.resident_kib", 0)) {
		snprintf(to, bytes, "it would be cut at the limit of %" PRId64 " bytes", limit);
		return to;
	}
	return folder_problem(evidence, to, bytes);
}

static void judge_core(const json_t *evidence, struct findings *list)
{
	const char *core = doc_text_at(evidence, "process.core"), *why;
	int64_t filter = doc_number(evidence, "process.coredump_filter", -1);
	struct finding *it;
	char text[512];

	if (core[0])
		finding_see(find_core_found(list, FINDING_LIKELY, core), "fathom core %s", core);
	if (!doc_is_running(evidence))
		return;
	why = core_problem(evidence, text, sizeof(text));
	if (!why && filter >= 0 && !(filter & PRIVATE_MEMORY))
		why = "coredump_filter leaves out its private memory";
	if (!why)
		return;
	it = find_core_lost(list, FINDING_CERTAIN, why);
	finding_shows(it, "kernel.core_pattern is \"%s\"", doc_text_at(evidence, "process.core_pattern"));
	finding_see(it, "grep core /proc/%" PRId64 "/limits", doc_engine_pid(evidence));
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
