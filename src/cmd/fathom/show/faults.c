/* SPDX-License-Identifier: BSD-2-Clause */
/* Points of fault injection: `fathom server faults`. */
#include <stdio.h>

#include "cmd/fathom/show/parts.h"
#include "cmd/fathom/show/show.h"

void show_faults(const struct fathom_control_answers *answers, FILE *out)
{
	for (size_t i = 0; i < answers->count; i++) {
		const struct fathom_control_injection_points *points = answers->answers[i].injection_points;

		print_hosts(&answers->answers[i], out);
		table_of_injection_point(points->points, points->count, 0, 2, out);
	}
}
