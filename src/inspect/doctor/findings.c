/* SPDX-License-Identifier: BSD-2-Clause */
/* findings - the list of findings, and its order. */
#include "inspect/doctor/findings.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "inspect/doctor/findings.gen.h"

static const struct finding_kind {
	int code;
	enum finding_severity severity;
	const char *name;
	uint64_t explains[2]; /* bits: rows */
} kinds[] = {
#include "inspect/doctor/findings_table.gen.inc"
};
static_assert(ARRAY_COUNT(kinds) == FINDING_ROWS, "each has its row");
static_assert(FINDING_ROWS <= 128, "two words of bits");

struct findings *findings_create(void)
{
	struct findings *list = calloc(1, sizeof(*list));

	must(list);
	return list;
}

void findings_destroy(struct findings *list)
{
	for (uint32_t i = 0; list && i < list->count; i++) {
		free(list->rows[i].says);
		free(list->rows[i].does);
		json_decref(list->rows[i].shows);
		json_decref(list->rows[i].see);
	}
	free(list);
}

struct finding *finding_add(struct findings *list, uint32_t row, enum finding_certainty sure)
{
	struct finding *finding;

	must(row < FINDING_ROWS);
	if (list->count == FINDINGS_MAX) {
		list->left_out++;
		return NULL;
	}
	finding = &list->rows[list->count++];
	*finding = (struct finding){
		.row = row, .sure = sure, .shows = json_array(), .see = json_array(), .cause = -1, .ended_ms = -1
	};
	must(finding->shows);
	must(finding->see);
	return finding;
}

char *finding_text(const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	must(vasprintf(&text, format, args) >= 0);
	va_end(args);
	return text;
}

struct finding *finding_set(struct finding *finding, char *says, char *does)
{
	if (!finding) {
		free(says);
		free(does);
		return NULL;
	}
	finding->says = says;
	finding->does = does;
	return finding;
}

static PRINTF_LIKE(2, 0) void add_text(json_t *list, const char *format, va_list args)
{
	char *text;

	must(vasprintf(&text, format, args) >= 0);
	/* a text that is not UTF-8 is left out */
	(void)json_array_append_new(list, json_string(text));
	free(text);
}

void finding_shows(struct finding *finding, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (finding)
		add_text(finding->shows, format, args);
	va_end(args);
}

void finding_see(struct finding *finding, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (finding)
		add_text(finding->see, format, args);
	va_end(args);
}

void finding_end(struct finding *finding, int64_t ago_ms)
{
	must(ago_ms >= 0);
	if (finding)
		finding->ended_ms = ago_ms;
}

int finding_code(const struct finding *finding)
{
	return kinds[finding->row].code;
}

const char *finding_name(const struct finding *finding)
{
	return kinds[finding->row].name;
}

enum finding_severity finding_severity(const struct finding *finding)
{
	return kinds[finding->row].severity;
}

enum finding_severity finding_weight(const struct finding *finding)
{
	return finding->ended_ms >= 0 ? FINDING_NOTE : finding_severity(finding);
}

const char *finding_severity_name(enum finding_severity severity)
{
	static const char *const names[] = {
		[FINDING_NOTE] = "note", [FINDING_DEGRADED] = "degraded", [FINDING_BROKEN] = "broken"
	};

	return names[severity];
}

const char *finding_certainty_name(enum finding_certainty sure)
{
	static const char *const names[] = {
		[FINDING_POSSIBLE] = "possible", [FINDING_LIKELY] = "likely", [FINDING_CERTAIN] = "certain"
	};

	return names[sure];
}

bool findings_have(const struct findings *list, uint32_t row)
{
	for (uint32_t i = 0; i < list->count; i++) {
		if (list->rows[i].row == row)
			return true;
	}
	return false;
}

enum finding_severity findings_worst(const struct findings *list)
{
	enum finding_severity worst = FINDING_NOTE;

	for (uint32_t i = 0; i < list->count; i++) {
		if (finding_weight(&list->rows[i]) > worst)
			worst = finding_weight(&list->rows[i]);
	}
	return worst;
}

/* ---- order ---- */

static bool explains(const struct finding *cause, const struct finding *other)
{
	return (cause->ended_ms < 0 || other->ended_ms >= 0) &&
	       (kinds[cause->row].explains[other->row / 64] >> other->row % 64 & 1);
}

/* Of those with one weight: what is past, the worse first, then notes. */
static int rank_of(const struct finding *finding)
{
	return finding->ended_ms >= 0 ? (int)finding_severity(finding) : 0;
}

/* The worse first, then the upper row, then as they were found. */
static bool stands_before(const struct finding *a, const struct finding *b)
{
	if (finding_weight(a) != finding_weight(b))
		return finding_weight(a) > finding_weight(b);
	if (rank_of(a) != rank_of(b))
		return rank_of(a) > rank_of(b);
	return a->row < b->row;
}

static void sort(struct findings *list)
{
	for (uint32_t i = 1; i < list->count; i++) {
		struct finding moved = list->rows[i];
		uint32_t at = i;

		for (; at > 0 && stands_before(&moved, &list->rows[at - 1]); at--)
			list->rows[at] = list->rows[at - 1];
		list->rows[at] = moved;
	}
}

/*
 * The finding from which row `index` follows: of those that explain it, the one that nothing in the list explains. A cause
 * can stand below its effect, if it is less severe.
 */
static int32_t cause_of(const struct findings *list, uint32_t index)
{
	int32_t cause = -1;

	for (uint32_t i = 0; i < list->count; i++) {
		if (i != index && explains(&list->rows[i], &list->rows[index]) &&
		    (cause < 0 || explains(&list->rows[i], &list->rows[cause])))
			cause = (int32_t)i;
	}
	return cause;
}

/* The worst severity of a finding and of all that follow from it. */
static enum finding_severity weight(const struct findings *list, const int32_t *causes, uint32_t index)
{
	enum finding_severity worst = finding_weight(&list->rows[index]);

	for (uint32_t i = 0; i < list->count; i++) {
		if (causes[i] == (int32_t)index && finding_weight(&list->rows[i]) > worst)
			worst = finding_weight(&list->rows[i]);
	}
	return worst;
}

void findings_order(struct findings *list)
{
	struct findings *sorted = findings_create();
	int32_t causes[FINDINGS_MAX];

	sort(list);
	for (uint32_t i = 0; i < list->count; i++)
		causes[i] = cause_of(list, i);
	for (int severity = FINDING_BROKEN; severity >= FINDING_NOTE; severity--) {
		for (uint32_t i = 0; i < list->count; i++) {
			int32_t place = (int32_t)sorted->count;

			if (causes[i] >= 0 || (int)weight(list, causes, i) != severity)
				continue;
			sorted->rows[sorted->count] = list->rows[i];
			sorted->rows[sorted->count++].cause = -1;
			for (uint32_t j = 0; j < list->count; j++) {
				if (causes[j] != (int32_t)i)
					continue;
				sorted->rows[sorted->count] = list->rows[j];
				sorted->rows[sorted->count++].cause = place;
			}
		}
	}
	must(sorted->count == list->count);
	sorted->left_out = list->left_out;
	*list = *sorted;
	sorted->count = 0;
	findings_destroy(sorted);
}
