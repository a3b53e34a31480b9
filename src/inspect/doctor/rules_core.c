/* SPDX-License-Identifier: BSD-2-Clause */
/* rules_core - the findings of a core file: why the process ended, and what was under way then. */
#include <string.h>

#include "inspect/doctor/findings.gen.h"
#include "inspect/doctor/internal.h"

enum { SHOWN_MAX = 8 };

/* The innermost function of the crashed thread that is of the program itself, not of the way to abort(). */
static const char *crash_place(const json_t *core)
{
	static const char *const ways[] = { "abort()", "raise()",   "__pthread_kill", "pthread_kill",
					    "__GI_",   "must_fail", "kill()" };
	const json_t *stack = doc_at(json_array_get(doc_at(core, "threads"), 0), "stack"), *frame;
	const char *first = "";
	size_t i;

	json_array_foreach ((json_t *)stack, i, frame) {
		const char *text = json_string_value(frame);
		bool is_way = strchr(text, '+') && !strstr(text, "() at ");

		for (size_t j = 0; j < sizeof(ways) / sizeof(ways[0]); j++)
			is_way |= strncmp(text, ways[j], strlen(ways[j])) == 0;
		if (!first[0])
			first = text;
		if (!is_way)
			return text;
	}
	return first[0] ? first : "an unknown function";
}

static void show_core(const json_t *core, struct finding *it)
{
	const json_t *row, *thread = json_array_get(doc_at(core, "threads"), 0);
	char text[SHORT_TEXT_BYTES];
	size_t i;

	if (doc_text_at(core, "crash.text")[0])
		finding_shows(it, "%s", doc_text_at(core, "crash.text"));
	if (doc_text_at(core, "crash.values")[0])
		finding_shows(it, "values: %s", doc_text_at(core, "crash.values"));
	json_array_foreach ((json_t *)doc_at(thread, "stack"), i, row) {
		if (i < SHOWN_MAX)
			finding_shows(it, "stack of %s (tid %" PRId64 "): %s",
				      doc_text_at(thread, "name")[0] ? doc_text_at(thread, "name") : "the thread",
				      doc_number(thread, "tid", 0), json_string_value(row));
	}
	json_array_foreach ((json_t *)doc_at(core, "reactors"), i, row) {
		if (i < SHOWN_MAX && doc_text_at(row, "running")[0])
			finding_shows(it, "reactor %s ran %s%s%s", doc_text_at(row, "reactor"), doc_text_at(row, "running"),
				      doc_text_at(row, "of")[0] ? " of " : "", doc_text_at(row, "of"));
	}
	json_array_foreach ((json_t *)doc_at(core, "requests"), i, row) {
		if (i < SHOWN_MAX)
			finding_shows(it, "%" PRId64 " requests were in %s%s%s, the oldest (%s) for %s",
				      doc_number(row, "count", 0), doc_text_at(row, "stage"),
				      doc_text_at(row, "device")[0] ? " at " : "", doc_text_at(row, "device"),
				      doc_text_at(row, "oldest"),
				      doc_duration((uint64_t)doc_number(row, "age_ms", 0), text));
	}
	finding_see(it, "fathom core %s", doc_text_at(core, "path"));
	finding_see(it, "fathom core %s threads", doc_text_at(core, "path"));
	finding_see(it, "fathom core %s io", doc_text_at(core, "path"));
}

static void judge_incomplete(const json_t *core, struct findings *list)
{
	const json_t *remark;
	struct finding *it;
	size_t i;

	if (!doc_is(core, "truncated") && !doc_text_at(core, "program_problem")[0] &&
	    json_array_size(doc_at(core, "remarks")) == 0)
		return;
	it = find_core_incomplete(list, FINDING_CERTAIN, doc_text_at(core, "path"),
				  doc_is(core, "truncated")		    ? "it is shorter than its header says"
				  : doc_text_at(core, "program_problem")[0] ? doc_text_at(core, "program_problem")
									    : "parts of it are missing");
	json_array_foreach ((json_t *)doc_at(core, "remarks"), i, remark)
		finding_shows(it, "%s", json_string_value(remark));
	finding_see(it, "fathom core %s program", doc_text_at(core, "path"));
}

struct finding *rules_core_end(const json_t *evidence, struct findings *list)
{
	const json_t *core = doc_at(evidence, "core");
	const char *kind = doc_text_at(core, "crash.kind"), *name = doc_text_at(core, "name");
	int64_t pid = doc_number(core, "pid", 0);
	struct finding *it = NULL;

	if (strcmp(kind, "must") == 0)
		it = find_must_failed(list, FINDING_CERTAIN, name, pid, doc_text_at(core, "crash.condition"));
	else if (strcmp(kind, "signal") == 0)
		it = find_process_crashed(list, FINDING_CERTAIN, name, pid, doc_text_at(core, "crash.signal_name"),
					  crash_place(core));
	else if (strcmp(kind, "none") == 0)
		it = find_core_of_running(list, FINDING_CERTAIN, name, pid);
	if (it && strcmp(kind, "must") == 0 && !doc_text_at(core, "crash.text")[0])
		finding_shows(it, "at %s", doc_text_at(core, "crash.place"));
	if (it)
		show_core(core, it);
	return it;
}

void rules_core(const json_t *evidence, struct findings *list)
{
	if (doc_text_at(evidence, "core.path")[0])
		judge_incomplete(doc_at(evidence, "core"), list);
}
