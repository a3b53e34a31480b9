/* SPDX-License-Identifier: BSD-2-Clause */
/* print - the report: text and JSON. */
#include <string.h>

#include "inspect/doctor/internal.h"

const char *doctor_health(const struct findings *list)
{
	static const char *const health[] = {
		[FINDING_NOTE] = "healthy", [FINDING_DEGRADED] = "degraded", [FINDING_BROKEN] = "broken"
	};

	return health[findings_worst(list)];
}

static void print_list(const json_t *texts, const char *indent, const char *title, FILE *to)
{
	const json_t *text;
	size_t i;

	json_array_foreach ((json_t *)texts, i, text)
		fprintf(to, "%s  %-9s %s\n", indent, i == 0 ? title : "", json_string_value(text));
}

static void print_finding(const struct findings *list, uint32_t index, FILE *to)
{
	const struct finding *it = &list->rows[index];
	const char *indent = it->cause >= 0 ? "    " : "", *severity = finding_severity_name(finding_severity(it));
	char ago[SHORT_TEXT_BYTES];

	fprintf(to, "\n%s%-8s  %d %s (%s)\n", indent, it->ended_ms >= 0 ? "past" : severity, finding_code(it),
		finding_name(it), finding_certainty_name(it->sure));
	if (it->ended_ms >= 0)
		fprintf(to, "%s  ended     its last sign was %s ago; it was %s\n", indent,
			doc_duration((uint64_t)it->ended_ms, ago), severity);
	fprintf(to, "%s  what      %s\n", indent, it->says);
	print_list(it->shows, indent, "evidence", to);
	fprintf(to, "%s  do        %s\n", indent, it->does);
	print_list(it->see, indent, "see", to);
	if (it->cause >= 0)
		fprintf(to, "%s  because   of %s, above\n", indent, finding_name(&list->rows[it->cause]));
}

void doctor_print(const struct findings *list, const char *title, FILE *to)
{
	if (list->count == 0) {
		fprintf(to, "%s: healthy\n", title);
		return;
	}
	fprintf(to, "%s: %s, %u finding%s\n", title, doctor_health(list), list->count, list->count == 1 ? "" : "s");
	for (uint32_t i = 0; i < list->count; i++)
		print_finding(list, i, to);
	if (list->left_out)
		fprintf(to, "\n%u more findings were left out\n", list->left_out);
}

static json_t *finding_json(const struct findings *list, const struct finding *it)
{
	json_t *row = doc_object();

	doc_put(row, "code", json_integer(finding_code(it)));
	doc_put(row, "name", doc_text(finding_name(it)));
	doc_put(row, "severity", doc_text(finding_severity_name(finding_severity(it))));
	doc_put(row, "certainty", doc_text(finding_certainty_name(it->sure)));
	doc_put(row, "says", doc_text(it->says));
	doc_put(row, "do", doc_text(it->does));
	doc_put(row, "evidence", json_incref(it->shows));
	doc_put(row, "see", json_incref(it->see));
	doc_put(row, "ended_ms_ago", it->ended_ms >= 0 ? json_integer(it->ended_ms) : json_null());
	doc_put(row, "because_of", it->cause >= 0 ? doc_text(finding_name(&list->rows[it->cause])) : json_null());
	return row;
}

json_t *doctor_json(const struct findings *list)
{
	json_t *report = doc_object(), *rows = doc_list();

	doc_put(report, "health", doc_text(doctor_health(list)));
	for (uint32_t i = 0; i < list->count; i++)
		doc_add(rows, finding_json(list, &list->rows[i]));
	doc_put(report, "findings", rows);
	if (list->left_out)
		doc_put(report, "left_out", json_integer(list->left_out));
	return report;
}
