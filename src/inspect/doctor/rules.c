/* SPDX-License-Identifier: BSD-2-Clause */
/* rules - applies all rules to the evidence. A rule is pure: it reads the document and adds findings. */
#include <string.h>

#include "base/bits.h"
#include "inspect/doctor/findings.gen.h"
#include "inspect/doctor/internal.h"

/* ENDED_MS: a fault without a sign for so long has ended, unless INTERVALS_MIN signs or more came at longer intervals. */
enum { COMMAND_BYTES = 512, ENDED_MS = 30000, INTERVALS_MIN = 3 };

void doc_sign(struct doc_signs *signs, int64_t ago_ms)
{
	signs->newest_ms = signs->count == 0 || ago_ms < signs->newest_ms ? ago_ms : signs->newest_ms;
	signs->oldest_ms = signs->count == 0 || ago_ms > signs->oldest_ms ? ago_ms : signs->oldest_ms;
	signs->count++;
}

void doc_end_by_signs(struct finding *finding, const struct doc_signs *signs)
{
	int64_t quiet_ms = ENDED_MS, interval_ms;

	must(signs->count > 0);
	if (signs->count > INTERVALS_MIN) {
		interval_ms = (signs->oldest_ms - signs->newest_ms) / (int64_t)(signs->count - 1);
		quiet_ms = 2 * interval_ms > quiet_ms ? 2 * interval_ms : quiet_ms;
	}
	if (signs->newest_ms > quiet_ms)
		finding_end(finding, signs->newest_ms);
}

const char *doc_engine_name(const json_t *evidence)
{
	const char *name = doc_text_at(evidence, "trace.program");

	if (!name[0])
		name = doc_text_at(evidence, "process.name");
	return name[0] ? name : "the engine";
}

int64_t doc_engine_pid(const json_t *evidence)
{
	return doc_number(evidence, "process.pid", doc_number(evidence, "trace.pid", 0));
}

bool doc_is_running(const json_t *evidence)
{
	const char *state = doc_text_at(evidence, "trace.state");

	return state[0] ? strcmp(state, "alive") == 0 : doc_at(evidence, "process") && !doc_is(evidence, "process.gone");
}

const char *doc_trace_option(const json_t *evidence, char *to, size_t bytes)
{
	const char *path = doc_text_at(evidence, "trace.path");

	to[0] = '\0';
	if (path[0])
		snprintf(to, bytes, " -f %s", path);
	return to;
}

/* Name the engine in a command that shows more. */
static json_t *with_engine(const json_t *evidence, const char *command)
{
	static const char rpc[] = "fathom rpc ", top[] = "fathom top ";
	const char *socket = doc_text_at(evidence, "answers.socket");
	char text[COMMAND_BYTES];

	if (socket[0] && strncmp(command, rpc, strlen(rpc)) == 0)
		snprintf(text, sizeof(text), "%s-s %s %s", rpc, socket, command + strlen(rpc));
	else if (strncmp(command, top, strlen(top)) == 0)
		snprintf(text, sizeof(text), "%s %" PRId64, command, doc_engine_pid(evidence));
	else
		return NULL;
	return doc_text(text);
}

static void complete_commands(const json_t *evidence, struct findings *list)
{
	for (uint32_t i = 0; i < list->count; i++) {
		for (size_t j = 0; j < json_array_size(list->rows[i].see); j++) {
			json_t *command = with_engine(evidence, json_string_value(json_array_get(list->rows[i].see, j)));

			if (command)
				must(json_array_set_new(list->rows[i].see, j, command) == 0);
		}
	}
}

/* What could not be seen. */
static void rules_sources(const json_t *evidence, struct findings *list)
{
	static const char *const problems[] = { "crashed", "refused", "unfinished" };
	const json_t *source;
	const char *name;

	json_object_foreach ((json_t *)evidence, name, source) {
		for (size_t i = 0; i < ARRAY_COUNT(problems); i++) {
			const char *why = doc_text_at(source, problems[i]);

			/* files.c names the file system; rules_files() makes a finding of it */
			if (strcmp(name, "answers") == 0 && strcmp(problems[i], "unfinished") == 0)
				continue; /* rules_threads() makes a finding of it */
			if (why[0] && !json_is_object(doc_at(source, "hangs")))
				find_evidence_missing(list, FINDING_CERTAIN, name, why);
		}
	}
}

struct findings *doctor_judge(const json_t *evidence)
{
	static void (*const rules[])(const json_t *evidence, struct findings *list) = {
		rules_process, rules_core,    rules_locks,  rules_threads, rules_messages, rules_machine,  rules_files,
		rules_devices, rules_storage, rules_hosts,  rules_paths,   rules_spdk,	   rules_requests, rules_past,
		rules_control, rules_program, rules_server, rules_system,  rules_sources,
	};
	struct findings *list = findings_create();

	for (size_t i = 0; i < ARRAY_COUNT(rules); i++)
		rules[i](evidence, list);
	complete_commands(evidence, list);
	findings_order(list);
	return list;
}
