/* SPDX-License-Identifier: BSD-2-Clause */
/* The report of `fathom doctor --json` as the answer of HostDoctor. A row without a text that it should have gets "". */
#include "control/server/doctor/internal.h"
#include "rpc/proto/fathom.pb-c.h"

enum { FINDINGS_SENT_MAX = 512, LINES_SENT_MAX = 64 };

static char *text_of(const json_t *row, const char *key, struct arena *arena)
{
	const char *text = json_string_value(json_object_get(row, key));

	return arena_text(arena, text ? text : "");
}

static char **lines_of(const json_t *row, const char *key, size_t *count_ret, struct arena *arena)
{
	const json_t *list = json_object_get(row, key), *line;
	char **lines = arena_take(arena, (LINES_SENT_MAX + 1) * sizeof(*lines));
	size_t i;

	*count_ret = 0;
	json_array_foreach ((json_t *)list, i, line) {
		if (json_is_string(line) && *count_ret < LINES_SENT_MAX)
			lines[(*count_ret)++] = arena_text(arena, json_string_value(line));
	}
	return lines;
}

static Fathom__HostDoctorResp__Finding *finding_of(const json_t *row, struct arena *arena)
{
	Fathom__HostDoctorResp__Finding *finding = arena_message(arena, fathom__host_doctor_resp__finding,
								 Fathom__HostDoctorResp__Finding);

	finding->program = text_of(row, "program", arena);
	finding->code = (uint32_t)json_integer_value(json_object_get(row, "code"));
	finding->name = text_of(row, "name", arena);
	finding->severity = text_of(row, "severity", arena);
	finding->certainty = text_of(row, "certainty", arena);
	finding->says = text_of(row, "says", arena);
	finding->remedy = text_of(row, "do", arena);
	finding->evidence = lines_of(row, "evidence", &finding->n_evidence, arena);
	finding->see = lines_of(row, "see", &finding->n_see, arena);
	finding->because_of = text_of(row, "because_of", arena);
	return finding;
}

const ProtobufCMessage *doctor_answer(const json_t *report, struct arena *arena)
{
	Fathom__HostDoctorResp *answer = arena_message(arena, fathom__host_doctor_resp, Fathom__HostDoctorResp);
	const json_t *findings = json_object_get(report, "findings"), *row;
	size_t i;

	answer->health = text_of(report, "health", arena);
	answer->taken_ns = (uint64_t)json_integer_value(json_object_get(report, "taken_ns"));
	answer->findings = arena_take(arena, (FINDINGS_SENT_MAX + 1) * sizeof(*answer->findings));
	json_array_foreach ((json_t *)findings, i, row) {
		if (answer->n_findings < FINDINGS_SENT_MAX)
			answer->findings[answer->n_findings++] = finding_of(row, arena);
	}
	return &answer->base;
}
