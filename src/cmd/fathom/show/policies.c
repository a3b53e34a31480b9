/* SPDX-License-Identifier: BSD-2-Clause */
/* Restart policies: `fathom server restart-policy`. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/bits.h"
#include "cmd/fathom/show/show.h"
#include "cmd/fathom/show/parts.h"

enum { DELAY_BYTES = 64 };

static const char *delay_text(uint64_t ms, char *text)
{
	if (ms % 1000 == 0)
		snprintf(text, DELAY_BYTES, "%" PRIu64 " s", ms / 1000);
	else
		snprintf(text, DELAY_BYTES, "%" PRIu64 " ms", ms);
	return text;
}

static void print_host_policies(const struct fathom_control_policies *policies, FILE *out)
{
	static const char *const titles[] = { "Cause", "Restart", "First Delay", "Longest Delay", "In a Row" };
	struct table *table = titled(titles, ARRAY_COUNT(titles));

	for (size_t i = 0; i < policies->count; i++) {
		const struct fathom_control_policy *policy = &policies->policies[i];
		char first[DELAY_BYTES], longest[DELAY_BYTES], limit[SIZE_TEXT_BYTES];

		add_row(table, (const char *[]){ policy->cause, policy->restart ? "yes" : "no",
						 policy->restart ? delay_text(policy->delay_min_ms, first) : "-",
						 policy->restart ? delay_text(policy->delay_max_ms, longest) : "-",
						 !policy->restart     ? "-"
						 : policy->limit == 0 ? "no limit"
								      : number_text(policy->limit, limit) });
	}
	finish_table(table, 2, out);
}

void show_policies(const struct fathom_control_answers *answers, FILE *out)
{
	for (size_t i = 0; i < answers->count; i++) {
		print_hosts(&answers->answers[i], out);
		print_host_policies(answers->answers[i].policies, out);
	}
}
