/* SPDX-License-Identifier: BSD-2-Clause */
/* report - judges the evidence of an engine, or of a server and then of each of its engines; prints all of it. */
#include <stdlib.h>
#include <string.h>

#include "cmd/fathom/doctor/doctor.h"

enum { TITLE_BYTES = 160 };

/* A process: its findings and its name. */
struct part {
	struct findings *list;
	char title[TITLE_BYTES];
};

struct doctor_report {
	struct part *parts;
	size_t count;
	bool is_server;
};

/* "tgt (pid 6171)" */
static void make_title(const json_t *evidence, char title[TITLE_BYTES])
{
	const json_t *trace = json_object_get(evidence, "trace"), *process = json_object_get(evidence, "process");
	const char *name = json_string_value(json_object_get(trace, "program"));
	json_int_t pid = json_integer_value(json_object_get(trace, "pid"));
	const json_t *core = json_object_get(evidence, "core");

	if (!name && core) {
		name = json_string_value(json_object_get(core, "name"));
		pid = json_integer_value(json_object_get(core, "pid"));
	}
	if (!name)
		name = json_string_value(json_object_get(process, "name"));
	if (pid == 0)
		pid = json_integer_value(json_object_get(process, "pid"));
	if (pid == 0 && json_object_get(evidence, "server"))
		snprintf(title, TITLE_BYTES, "fathom-server (does not run)");
	else
		snprintf(title, TITLE_BYTES, "%s (pid %" JSON_INTEGER_FORMAT ")", name ? name : "the engine", pid);
}

static void add_part(struct doctor_report *report, const json_t *evidence)
{
	struct part *part = &report->parts[report->count++];

	part->list = doctor_judge(evidence);
	make_title(evidence, part->title);
}

struct doctor_report *doctor_report_create(const json_t *evidence)
{
	const json_t *engines = json_object_get(evidence, "engines"), *engine;
	struct doctor_report *report = calloc(1, sizeof(*report));
	size_t i;

	must(report);
	report->parts = calloc(json_array_size(engines) + 1, sizeof(*report->parts));
	must(report->parts);
	report->is_server = json_object_get(evidence, "server") != NULL;
	add_part(report, evidence);
	json_array_foreach ((json_t *)engines, i, engine)
		add_part(report, engine);
	return report;
}

void doctor_report_destroy(struct doctor_report *report)
{
	for (size_t i = 0; i < report->count; i++)
		findings_destroy(report->parts[i].list);
	free(report->parts);
	free(report);
}

static const struct part *worst_of(const struct doctor_report *report)
{
	const struct part *worst = &report->parts[0];

	for (size_t i = 1; i < report->count; i++) {
		if (findings_worst(report->parts[i].list) > findings_worst(worst->list))
			worst = &report->parts[i];
	}
	return worst;
}

enum finding_severity doctor_report_worst(const struct doctor_report *report)
{
	return findings_worst(worst_of(report)->list);
}

void doctor_report_print(const struct doctor_report *report, FILE *to)
{
	for (size_t i = 0; i < report->count; i++) {
		if (i > 0)
			fputc('\n', to);
		doctor_print(report->parts[i].list, report->parts[i].title, to);
	}
}

/* Append the rows of a part, each with its program. */
static void add_rows(json_t *rows, const struct part *part)
{
	json_t *report = doctor_json(part->list), *row;
	size_t i;

	json_array_foreach (json_object_get(report, "findings"), i, row) {
		must(json_object_set_new(row, "program", json_string(part->title)) == 0);
		must(json_array_append(rows, row) == 0);
	}
	json_decref(report);
}

json_t *doctor_report_json(const struct doctor_report *report)
{
	json_t *all = json_object(), *rows = json_array(), *engines = json_array();
	uint32_t left_out = 0;

	must(all && rows && engines);
	for (size_t i = 0; i < report->count; i++) {
		const struct part *part = &report->parts[i];

		add_rows(rows, part);
		left_out += part->list->left_out;
		if (i > 0)
			must(json_array_append_new(engines, json_pack("{s:s, s:s}", "engine", part->title, "health",
								      doctor_health(part->list))) == 0);
	}
	must(json_object_set_new(all, "health", json_string(doctor_health(worst_of(report)->list))) == 0);
	must(json_object_set_new(all, "findings", rows) == 0);
	must(json_object_set_new(all, report->is_server ? "server" : "engine", json_string(report->parts[0].title)) == 0);
	if (report->is_server)
		must(json_object_set(all, "engines", engines) == 0);
	if (left_out > 0)
		must(json_object_set_new(all, "left_out", json_integer(left_out)) == 0);
	json_decref(engines);
	return all;
}
