/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * figures - a set of metric values, and its text for a monitoring system: OpenMetrics 1.0, or Prometheus' older format.
 *
 *   figures_create() -> figure_NAME(figures, LABELS..., value) for each series, in any order -> figures_text() -> destroy
 *
 * figures.def has the families; the functions figure_NAME() are made from it, with a parameter for each label. Values are
 * grouped by family when the text is made. Labels may be any bytes: invalid UTF-8 is replaced.
 *
 * A server serves the figures of its engines: an engine passes its families as lines, in the format and with the rank that
 * the server asked for (figures_lines()), and the server adds them to its own (figures_merge()).
 *
 * Pure: no I/O. One thread at a time.
 */
#ifndef RPC_FIGURES_FIGURES_H
#define RPC_FIGURES_FIGURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/must.h"
#include "base/observe/trace/latency.h"
#include "rpc/figures/figures.gen.h"

enum figures_format { FIGURES_PROMETHEUS, FIGURES_OPENMETRICS };

enum {
	FIGURES_RANK_BYTES = 12,
	FIGURE_REQUEST_BYTES = 32,	  /* an exemplar's labels have at most 128 characters */
	FIGURES_TEXT_BYTES_MAX = 32 << 20 /* what a scrape can have; lines beyond are left out */
};

struct figures;

/* An occurrence of a bucket's range. */
struct figure_exemplar {
	unsigned int bucket; /* LATENCY_BUCKETS: there is none */
	double seconds;	     /* the value, in the range of that bucket */
	uint64_t realtime_ns;
	char request[FIGURE_REQUEST_BYTES]; /* "r435.17", as `fathom trace io` takes it */
};

/* Borrowed for a call. */
struct figure_histogram {
	const uint64_t *buckets; /* LATENCY_BUCKETS, each with its own count */
	double sum_seconds;
	const struct figure_exemplar *exemplar; /* NULL: none */
};

/* `rank`: a label for each series ("" or NULL: none). */
struct figures *figures_create(enum figures_format format, const char *rank);
/* Accepts NULL. */
void figures_destroy(struct figures *figures);
enum figures_format figures_get_format(const struct figures *figures);

/* The whole text, with `*bytes_ret`, NUL-terminated; the caller frees it. */
char *figures_text(const struct figures *figures, size_t *bytes_ret);

/* Whether lines were left out because of FIGURES_TEXT_BYTES_MAX. */
bool figures_is_cut(const struct figures *figures);

/* The name of a family, and its lines: NULL if it has none. Borrowed. */
const char *figures_name(enum figure figure);
const char *figures_lines(const struct figures *figures, enum figure figure, size_t *bytes_ret);
/* Add lines of the family `name`, which figures_lines() made in the same format. False: no such family, or not lines. */
bool figures_merge(struct figures *figures, const char *name, const char *lines, size_t bytes);

/* The format that a client wants, by its Accept header; NULL: it sent none. */
enum figures_format figures_accepted(const char *accept);
const char *figures_content_type(enum figures_format format);

#endif
