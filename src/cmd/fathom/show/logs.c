/* SPDX-License-Identifier: BSD-2-Clause */
/* Archives of logs that were written: `fathom support collect-log`. */
#include <stdlib.h>

#include "base/bits.h"
#include "cmd/fathom/show/show.h"
#include "cmd/fathom/show/parts.h"

void show_logs(const struct fathom_control_answers *answers, FILE *out)
{
	static const char *const titles[] = { "Hosts", "Size", "Archive" };
	struct folded *folded = folded_create(FOLDED_HOSTS, titles, ARRAY_COUNT(titles));

	for (size_t i = 0; i < answers->count; i++) {
		char size[SIZE_TEXT_BYTES];

		folded_add(folded, answers->answers[i].hosts,
			   (const char *[]){ size_text(answers->answers[i].log->bytes, size),
					     answers->answers[i].log->path });
	}
	folded_finish(folded, false, 0, out);
}

void show_log_warnings(const struct fathom_control_answers *answers, FILE *out)
{
	for (size_t i = 0; i < answers->count; i++) {
		char *hosts = hosts_text(answers->answers[i].hosts);

		if (answers->answers[i].log->warning[0])
			fprintf(out, "WARNING: fathom: %s: %s\n", hosts, answers->answers[i].log->warning);
		free(hosts);
	}
}
