/* SPDX-License-Identifier: BSD-2-Clause */
#include "rpc/figures/checks.h"

#include <string.h>

#include "base/bits.h"
#include "rpc/figures/figures.h"

static const struct {
	enum figure_check check;
	const char *name, *severity;
} rows[] = {
#define CHECK_ROW(identifier, number, name, severity) { FIGURE_CHECK_##identifier, name, severity },
	FIGURE_CHECKS(CHECK_ROW)
#undef CHECK_ROW
};

void figures_add_checks(struct figures *figures, const struct figure_checks *checks, bool is_server, uint64_t muted)
{
	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		enum figure_check check = rows[i].check;

		if ((check >= FIGURE_CHECKS_OF_SERVERS) == is_server)
			figure_health_check(figures, rows[i].name, rows[i].severity, muted >> check & 1 ? "yes" : "no",
					    (double)checks->counts[check]);
	}
}

bool figure_check_find(const char *name, enum figure_check *check_ret)
{
	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		if (strcmp(name, rows[i].name) != 0)
			continue;
		*check_ret = rows[i].check;
		return true;
	}
	return false;
}
