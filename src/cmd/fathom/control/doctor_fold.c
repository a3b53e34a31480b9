/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/fathom/control/doctor_fold.h"

#include <stdlib.h>
#include <string.h>

#include "cmd/fathom/show/show.h"
#include "control/hostlist/hostlist.h"

struct folded {
	json_t *row; /* as json_of_finding() makes it */
	char *key;
	struct host_set *hosts;
	enum finding_severity severity;
	bool is_placed; /* in the list that is being made */
};

struct diagnoses {
	struct folded *rows;
	size_t count, room;
};

struct diagnoses *diagnoses_create(void)
{
	struct diagnoses *folded = calloc(1, sizeof(*folded));

	must(folded);
	return folded;
}

void diagnoses_destroy(struct diagnoses *folded)
{
	for (size_t i = 0; folded && i < folded->count; i++) {
		json_decref(folded->rows[i].row);
		free(folded->rows[i].key);
		host_set_destroy(folded->rows[i].hosts);
	}
	if (folded)
		free(folded->rows);
	free(folded);
}

/* ---- folding ---- */

/* Remove each " (pid 71)". */
static void remove_pids(char *text)
{
	static const char pid[] = " (pid ";
	char *at = text, *end;

	while ((at = strstr(at, pid)) && (end = strchr(at, ')')))
		memmove(at, end + 1, strlen(end + 1) + 1);
}

static const char *text_of(const json_t *row, const char *key)
{
	const char *text = json_string_value(json_object_get(row, key));

	return text ? text : "";
}

static char *make_key(const json_t *row)
{
	char *key;

	must(asprintf(&key, "%s|%s|%s", text_of(row, "name"), text_of(row, "says"), text_of(row, "because_of")) >= 0);
	remove_pids(key);
	return key;
}

static enum finding_severity severity_of(const json_t *row)
{
	for (int severity = FINDING_BROKEN; severity > FINDING_NOTE; severity--) {
		if (strcmp(text_of(row, "severity"), finding_severity_name((enum finding_severity)severity)) == 0)
			return (enum finding_severity)severity;
	}
	return FINDING_NOTE;
}

static struct folded *find_or_add(struct diagnoses *folded, json_t *row)
{
	char *key = make_key(row);
	struct folded *added;

	for (size_t i = 0; i < folded->count; i++) {
		if (strcmp(folded->rows[i].key, key) == 0) {
			free(key);
			json_decref(row);
			return &folded->rows[i];
		}
	}
	if (folded->count == folded->room) {
		folded->room = 2 * folded->room + 16;
		folded->rows = reallocarray(folded->rows, folded->room, sizeof(*folded->rows));
		must(folded->rows);
	}
	added = &folded->rows[folded->count++];
	*added = (struct folded){ .row = row, .key = key, .hosts = host_set_create(), .severity = severity_of(row) };
	must(added->hosts);
	return added;
}

static void add_row(struct diagnoses *folded, json_t *row, const char *hosts)
{
	struct folded *it = find_or_add(folded, row);

	if (hosts[0])
		must(host_set_add(it->hosts, hosts, NULL) == 0);
}

void diagnoses_add(struct diagnoses *folded, const struct fathom_control_finding *finding, const char *hosts)
{
	add_row(folded, json_of_finding(finding), hosts);
}

void diagnoses_add_own(struct diagnoses *folded, const struct findings *list, const char *hosts)
{
	for (uint32_t i = 0; i < list->count; i++) {
		const struct finding *it = &list->rows[i];
		json_t *row = json_pack("{s:s, s:i, s:s, s:s, s:s, s:s, s:s, s:O, s:O, s:s}", "program",
					"fathom system doctor", "code", finding_code(it), "name", finding_name(it),
					"severity", finding_severity_name(finding_severity(it)), "certainty",
					finding_certainty_name(it->sure), "says", it->says, "do", it->does, "evidence",
					it->shows, "see", it->see, "because_of",
					it->cause >= 0 ? finding_name(&list->rows[it->cause]) : "");

		must(row);
		add_row(folded, row, hosts);
	}
}

size_t diagnoses_count(const struct diagnoses *folded)
{
	return folded->count;
}

enum finding_severity diagnoses_worst(const struct diagnoses *folded)
{
	enum finding_severity worst = FINDING_NOTE;

	for (size_t i = 0; i < folded->count; i++)
		worst = folded->rows[i].severity > worst ? folded->rows[i].severity : worst;
	return worst;
}

/* ---- the order ---- */

/* Does `other` follow from `cause`, on at least one host? */
static bool follows(const struct folded *other, const struct folded *cause)
{
	struct host_set *both = NULL;
	bool is_same = false;

	if (strcmp(text_of(other->row, "because_of"), text_of(cause->row, "name")) != 0)
		return false;
	if (host_set_combine(other->hosts, cause->hosts, HOST_SET_INTERSECTION, &both) == 0)
		is_same = host_set_count(both) > 0;
	host_set_destroy(both);
	return is_same;
}

static bool has_cause(const struct diagnoses *folded, const struct folded *it)
{
	for (size_t i = 0; i < folded->count; i++) {
		if (text_of(it->row, "because_of")[0] && follows(it, &folded->rows[i]))
			return true;
	}
	return false;
}

/* The worst severity of a finding and of all that follow from it. */
static enum finding_severity weight_of(const struct diagnoses *folded, const struct folded *it)
{
	enum finding_severity worst = it->severity;

	for (size_t i = 0; i < folded->count; i++) {
		if (folded->rows[i].severity > worst && follows(&folded->rows[i], it))
			worst = folded->rows[i].severity;
	}
	return worst;
}

/* Call `each` for all findings in their order. */
static void walk(const struct diagnoses *folded, void (*each)(void *ctx, const struct folded *it, bool is_below), void *ctx)
{
	for (size_t i = 0; i < folded->count; i++)
		folded->rows[i].is_placed = false;
	for (int severity = FINDING_BROKEN; severity >= FINDING_NOTE; severity--) {
		for (size_t i = 0; i < folded->count; i++) {
			struct folded *it = &folded->rows[i];

			if (it->is_placed || has_cause(folded, it) || (int)weight_of(folded, it) != severity)
				continue;
			it->is_placed = true;
			each(ctx, it, false);
			for (size_t j = 0; j < folded->count; j++) {
				if (folded->rows[j].is_placed || !follows(&folded->rows[j], it))
					continue;
				folded->rows[j].is_placed = true;
				each(ctx, &folded->rows[j], true);
			}
		}
	}
}

/* ---- output ---- */

static char *hosts_of(const struct folded *it)
{
	char *text;

	must(host_set_fold(it->hosts, &text) == 0);
	return text;
}

static void print_list(const json_t *texts, const char *indent, const char *title, FILE *to)
{
	const json_t *text;
	size_t i;

	json_array_foreach ((json_t *)texts, i, text)
		fprintf(to, "%s  %-9s %s\n", indent, i == 0 ? title : "", json_string_value(text));
}

static void print_one(void *ctx, const struct folded *it, bool is_below)
{
	const char *indent = is_below ? "    " : "";
	char *hosts = hosts_of(it);
	FILE *to = ctx;

	fprintf(to, "\n%s%-8s  %" JSON_INTEGER_FORMAT " %s (%s)\n", indent, text_of(it->row, "severity"),
		json_integer_value(json_object_get(it->row, "code")), text_of(it->row, "name"),
		text_of(it->row, "certainty"));
	if (hosts[0])
		fprintf(to, "%s  on        %s\n", indent, hosts);
	fprintf(to, "%s  what      %s\n", indent, text_of(it->row, "says"));
	print_list(json_object_get(it->row, "evidence"), indent, "evidence", to);
	fprintf(to, "%s  do        %s\n", indent, text_of(it->row, "do"));
	print_list(json_object_get(it->row, "see"), indent, "see", to);
	if (is_below)
		fprintf(to, "%s  because   of %s, above\n", indent, text_of(it->row, "because_of"));
	free(hosts);
}

void diagnoses_print(const struct diagnoses *folded, FILE *to)
{
	walk(folded, print_one, to);
}

static void add_json(void *ctx, const struct folded *it, bool is_below)
{
	json_t *row = json_deep_copy(it->row), *list = ctx;
	char *hosts = hosts_of(it);

	(void)is_below;
	must(row);
	must(json_object_set_new(row, "hosts", json_string(hosts)) == 0);
	must(json_object_set_new(row, "host_count", json_integer((json_int_t)host_set_count(it->hosts))) == 0);
	must(json_array_append_new(list, row) == 0);
	free(hosts);
}

json_t *diagnoses_json(const struct diagnoses *folded)
{
	json_t *list = json_array();

	must(list);
	walk(folded, add_json, list);
	return list;
}
