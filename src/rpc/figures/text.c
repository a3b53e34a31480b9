/* SPDX-License-Identifier: BSD-2-Clause */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/text.h"
#include "rpc/figures/table.h"

enum {
	LABEL_BYTES_MAX = 256, /* of a value, before its escapes; longer ones are truncated */
	SERIES_BYTES_MAX = 4096,
	NUMBER_BYTES = 40,
};
static_assert(SERIES_BYTES_MAX > (FIGURE_LABELS_MAX + 2) * (2 * LABEL_BYTES_MAX + 64) + 128, "a line with all labels fits");

struct lines {
	uint8_t *text;
	size_t bytes, room;
};

struct figures {
	enum figures_format format;
	char rank[FIGURES_RANK_BYTES];
	bool is_cut;
	size_t bytes; /* of all families */
	struct lines families[FIGURE_COUNT];
};

struct figures *figures_create(enum figures_format format, const char *rank)
{
	struct figures *figures = calloc(1, sizeof(*figures));

	must(figures);
	figures->format = format;
	if (rank)
		snprintf(figures->rank, sizeof(figures->rank), "%s", rank);
	return figures;
}

void figures_destroy(struct figures *figures)
{
	for (int i = 0; figures && i < FIGURE_COUNT; i++)
		free(figures->families[i].text);
	free(figures);
}

enum figures_format figures_get_format(const struct figures *figures)
{
	return figures->format;
}

/* ---- one line ---- */

struct line {
	char text[SERIES_BYTES_MAX];
	size_t bytes;
};

/* A scrape has thousands of lines, so they are put together without printf(). */
static void append_bytes(struct line *line, const char *text, size_t bytes)
{
	must(line->bytes + bytes < sizeof(line->text)); /* see the assertion above */
	memcpy(line->text + line->bytes, text, bytes);
	line->bytes += bytes;
}

static void append(struct line *line, const char *text)
{
	append_bytes(line, text, strlen(text));
}

static void append_number(struct line *line, uint64_t number)
{
	char digits[NUMBER_BYTES];
	size_t at = sizeof(digits);

	do
		digits[--at] = (char)('0' + number % 10);
	while (number /= 10);
	append_bytes(line, digits + at, sizeof(digits) - at);
}

/* Append a label after the first one, or `{` and the first one. */
static void append_label(struct line *line, const char *name, const char *value)
{
	char clean[LABEL_BYTES_MAX];
	size_t bytes = text_utf8_copy(clean, sizeof(clean), value, strlen(value)), from = 0;

	append(line, line->bytes == 0 ? "{" : ",");
	append(line, name);
	append(line, "=\"");
	for (size_t i = 0; i < bytes; i++) {
		if (clean[i] != '\n' && clean[i] != '"' && clean[i] != '\\')
			continue;
		append_bytes(line, clean + from, i - from);
		append(line, clean[i] == '\n' ? "\\n" : clean[i] == '"' ? "\\\"" : "\\\\");
		from = i + 1;
	}
	append_bytes(line, clean + from, bytes - from);
	append(line, "\"");
}

/* {LABELS, without the closing brace; empty if there is none. */
static void make_labels(struct line *line, const struct figures *figures, const struct figure_row *row,
			const char *const *labels)
{
	line->bytes = 0;
	for (int i = 0; i < row->label_count; i++)
		append_label(line, row->labels[i], labels[i]);
	if (figures->rank[0])
		append_label(line, "rank", figures->rank);
}

/* Begin a line: NAME{LABELS; `le`: the edge of a bucket, or NULL. */
static void begin_line(struct line *line, const struct figure_row *row, const char *suffix, const struct line *labels,
		       const char *le)
{
	line->bytes = 0;
	append(line, row->name);
	append(line, suffix);
	append_bytes(line, labels->text, labels->bytes);
	if (le) {
		append(line, labels->bytes == 0 ? "{le=\"" : ",le=\"");
		append(line, le);
		append(line, "\"");
	}
	append(line, le || labels->bytes > 0 ? "} " : " ");
}

/* Whole numbers without an exponent, up to where a double is exact. */
static const char *number_text(double value, char text[static NUMBER_BYTES])
{
	if (isnan(value))
		return "NaN";
	if (isinf(value))
		return value > 0 ? "+Inf" : "-Inf";
	if (value == floor(value) && fabs(value) < 9007199254740992.0)
		snprintf(text, NUMBER_BYTES, "%.0f", value);
	else
		snprintf(text, NUMBER_BYTES, "%.15g", value);
	return text;
}

static void end_line(struct figures *figures, enum figure figure, struct line *line)
{
	struct lines *lines = &figures->families[figure];

	append(line, "\n");
	if (figures->is_cut || figures->bytes + line->bytes > FIGURES_TEXT_BYTES_MAX) {
		figures->is_cut = true;
		return;
	}
	must(buffer_reserve(&lines->text, &lines->room, lines->bytes + line->bytes, FIGURES_TEXT_BYTES_MAX) == 0);
	memcpy(lines->text + lines->bytes, line->text, line->bytes);
	lines->bytes += line->bytes;
	figures->bytes += line->bytes;
}

static const char *suffix_of(enum figure_type type)
{
	switch (type) {
	case FIGURE_TYPE_COUNTER:
		return "_total";
	case FIGURE_TYPE_INFO:
		return "_info";
	case FIGURE_TYPE_GAUGE:
	case FIGURE_TYPE_HISTOGRAM:
		break;
	}
	return "";
}

void figure_add(struct figures *figures, enum figure figure, const char *const *labels, double value)
{
	const struct figure_row *row = &figure_rows[figure];
	char text[NUMBER_BYTES];
	struct line line, of_labels;

	must(row->type != FIGURE_TYPE_HISTOGRAM);
	make_labels(&of_labels, figures, row, labels);
	begin_line(&line, row, suffix_of(row->type), &of_labels, NULL);
	append(&line, number_text(value, text));
	end_line(figures, figure, &line);
}

/* ---- histograms ---- */

/* latency_edges_ns in seconds: the same in both formats, so that a change of the format makes no new series. */
static const char *const edges[LATENCY_BUCKETS] = { "1e-06",  "2.5e-06", "5e-06",  "1e-05", "2.5e-05", "5e-05",
						    "0.0001", "0.00025", "0.0005", "0.001", "0.0025",  "0.005",
						    "0.01",   "0.025",	 "0.05",   "0.1",   "0.25",    "0.5",
						    "1.0",    "2.5",	 "5.0",	   "10.0",  "+Inf" };

static void append_exemplar(struct line *line, const struct figure_exemplar *exemplar)
{
	struct line labels = { .bytes = 0 };
	char text[2 * NUMBER_BYTES];

	append_label(&labels, "request", exemplar->request);
	append(line, " # ");
	append_bytes(line, labels.text, labels.bytes);
	snprintf(text, sizeof(text), "} %.9g %llu.%03llu", exemplar->seconds, exemplar->realtime_ns / NS_PER_SEC,
		 exemplar->realtime_ns % NS_PER_SEC / NS_PER_MS);
	append(line, text);
}

void figure_add_histogram(struct figures *figures, enum figure figure, const char *const *labels,
			  const struct figure_histogram *histogram)
{
	const struct figure_row *row = &figure_rows[figure];
	const struct figure_exemplar *exemplar = figures->format == FIGURES_OPENMETRICS ? histogram->exemplar : NULL;
	char text[NUMBER_BYTES];
	struct line line, of_labels;
	uint64_t count = 0;

	must(row->type == FIGURE_TYPE_HISTOGRAM);
	make_labels(&of_labels, figures, row, labels);
	for (unsigned int bucket = 0; bucket < LATENCY_BUCKETS; bucket++) {
		count += histogram->buckets[bucket];
		begin_line(&line, row, "_bucket", &of_labels, edges[bucket]);
		append_number(&line, count);
		if (exemplar && exemplar->bucket == bucket)
			append_exemplar(&line, exemplar);
		end_line(figures, figure, &line);
	}
	begin_line(&line, row, "_sum", &of_labels, NULL);
	append(&line, number_text(histogram->sum_seconds, text));
	end_line(figures, figure, &line);
	begin_line(&line, row, "_count", &of_labels, NULL);
	append_number(&line, count);
	end_line(figures, figure, &line);
}

/* ---- the whole text ---- */

static const char *type_text(const struct figures *figures, enum figure_type type)
{
	switch (type) {
	case FIGURE_TYPE_COUNTER:
		return "counter";
	case FIGURE_TYPE_GAUGE:
		return "gauge";
	case FIGURE_TYPE_HISTOGRAM:
		return "histogram";
	case FIGURE_TYPE_INFO:
		break;
	}
	return figures->format == FIGURES_OPENMETRICS ? "info" : "gauge";
}

/* Backslashes and quotes do not occur in the table's sentences, but quotes need an escape in OpenMetrics only. */
static void print_help(FILE *out, const struct figures *figures, const char *help)
{
	for (; *help; help++) {
		if (*help == '\\' || (*help == '"' && figures->format == FIGURES_OPENMETRICS))
			fputc('\\', out);
		fputc(*help, out);
	}
	fputc('\n', out);
}

static void print_family(FILE *out, const struct figures *figures, enum figure figure)
{
	const struct figure_row *row = &figure_rows[figure];
	const struct lines *lines = &figures->families[figure];
	bool open = figures->format == FIGURES_OPENMETRICS;
	const char *suffix = open ? "" : suffix_of(row->type);

	if (lines->bytes == 0)
		return;
	fprintf(out, "# TYPE %s%s %s\n", row->name, suffix, type_text(figures, row->type));
	if (open && row->unit[0])
		fprintf(out, "# UNIT %s %s\n", row->name, row->unit);
	fprintf(out, "# HELP %s%s ", row->name, suffix);
	print_help(out, figures, row->help);
	fwrite(lines->text, 1, lines->bytes, out);
}

char *figures_text(const struct figures *figures, size_t *bytes_ret)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, bytes_ret);

	must(out);
	for (enum figure figure = 0; figure < FIGURE_COUNT; figure++)
		print_family(out, figures, figure);
	if (figures->format == FIGURES_OPENMETRICS)
		fputs("# EOF\n", out);
	must(fclose(out) == 0);
	return text;
}

bool figures_is_cut(const struct figures *figures)
{
	return figures->is_cut;
}

/* ---- figures of another program ---- */

const char *figures_name(enum figure figure)
{
	must(figure < FIGURE_COUNT);
	return figure_rows[figure].name;
}

const char *figures_lines(const struct figures *figures, enum figure figure, size_t *bytes_ret)
{
	*bytes_ret = figures->families[figure].bytes;
	return *bytes_ret ? (const char *)figures->families[figure].text : NULL;
}

/* Lines of this family only: what another program sent must not begin another family. */
static bool are_lines_of(const char *name, const char *lines, size_t bytes)
{
	size_t name_bytes = strlen(name);

	if (bytes == 0 || lines[bytes - 1] != '\n' || memchr(lines, '\0', bytes))
		return false;
	for (size_t at = 0; at < bytes;) {
		const char *end = memchr(lines + at, '\n', bytes - at);

		if (bytes - at < name_bytes || memcmp(lines + at, name, name_bytes) != 0)
			return false;
		at = (size_t)(end - lines) + 1;
	}
	return true;
}

bool figures_merge(struct figures *figures, const char *name, const char *lines, size_t bytes)
{
	for (enum figure figure = 0; figure < FIGURE_COUNT; figure++) {
		struct lines *to = &figures->families[figure];

		if (strcmp(figure_rows[figure].name, name) != 0)
			continue;
		if (!are_lines_of(name, lines, bytes))
			return false;
		if (figures->is_cut || figures->bytes + bytes > FIGURES_TEXT_BYTES_MAX) {
			figures->is_cut = true;
			return true;
		}
		must(buffer_reserve(&to->text, &to->room, to->bytes + bytes, FIGURES_TEXT_BYTES_MAX) == 0);
		memcpy(to->text + to->bytes, lines, bytes);
		to->bytes += bytes;
		figures->bytes += bytes;
		return true;
	}
	return false;
}

/* ---- formats ---- */

enum figures_format figures_accepted(const char *accept)
{
	/* a client that knows OpenMetrics prefers it; the weights (q=) of Prometheus say so, too */
	return accept && strstr(accept, "application/openmetrics-text") ? FIGURES_OPENMETRICS : FIGURES_PROMETHEUS;
}

const char *figures_content_type(enum figures_format format)
{
	return format == FIGURES_OPENMETRICS ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
					     : "text/plain; version=0.0.4; charset=utf-8";
}
