/* SPDX-License-Identifier: BSD-2-Clause */
/* rules - applies all rules to the evidence. A rule is pure: it reads the document and adds findings. */
#include <string.h>

#include "base/bits.h"
#include "inspect/doctor/findings.gen.h"
#include "inspect/doctor/internal.h"

const char *engine_name(const json_t *evidence)
{
	const char *name = text_at(evidence, "trace.program");

	if (!name[0])
		name = text_at(evidence, "process.name");
	return name[0] ? name : "the engine";
}

int64_t engine_pid(const json_t *evidence)
{
	return number_at(evidence, "process.pid", number_at(evidence, "trace.pid", 0));
}

bool is_running(const json_t *evidence)
{
	const char *state = text_at(evidence, "trace.state");

	return state[0] ? strcmp(state, "alive") == 0 : doc_at(evidence, "process") && !is_at(evidence, "process.gone");
}

const char *trace_option(const json_t *evidence, char *to, size_t bytes)
{
	const char *path = text_at(evidence, "trace.path");

	to[0] = '\0';
	if (path[0])
		snprintf(to, bytes, " -f %s", path);
	return to;
}

/* What could not be seen. */
static void rules_sources(const json_t *evidence, struct findings *list)
{
	static const char *const problems[] = { "crashed", "refused", "unfinished" };
	const json_t *source;
	const char *name;

	json_object_foreach ((json_t *)evidence, name, source) {
		for (size_t i = 0; i < ARRAY_COUNT(problems); i++) {
			const char *why = text_at(source, problems[i]);

			/* files.c names the file system; rules_files() makes a finding of it */
			if (why[0] && !(strcmp(name, "files") == 0 && json_is_object(doc_at(source, "hangs"))))
				find_evidence_missing(list, FINDING_CERTAIN, name, why);
		}
	}
}

struct findings *doctor_judge(const json_t *evidence)
{
	static void (*const rules[])(const json_t *evidence, struct findings *list) = {
		rules_process, rules_threads,  rules_machine, rules_files,   rules_devices, rules_storage,
		rules_hosts,   rules_requests, rules_control, rules_program, rules_sources,
	};
	struct findings *list = findings_create();

	for (size_t i = 0; i < ARRAY_COUNT(rules); i++)
		rules[i](evidence, list);
	findings_order(list);
	return list;
}
