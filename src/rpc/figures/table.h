/* SPDX-License-Identifier: BSD-2-Clause */
/* table - the rows of figures.def. Private to rpc/figures. */
#ifndef RPC_FIGURES_TABLE_H
#define RPC_FIGURES_TABLE_H

#include "rpc/figures/figures.h"

enum figure_type { FIGURE_TYPE_COUNTER, FIGURE_TYPE_GAUGE, FIGURE_TYPE_HISTOGRAM, FIGURE_TYPE_INFO };

enum { FIGURE_LABELS_MAX = 4 };

struct figure_row {
	const char *name; /* of the family, with the prefix and without the suffix of its type */
	enum figure_type type;
	const char *unit; /* "": none */
	const char *help;
	int label_count;
	const char *labels[FIGURE_LABELS_MAX];
};

extern const struct figure_row figure_rows[FIGURE_COUNT];

#endif
