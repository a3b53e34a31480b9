/* SPDX-License-Identifier: BSD-2-Clause */
/* Log masks that were set: `fathom server set-logmasks`. */
#include "base/bits.h"
#include "cmd/fathom/show/show.h"
#include "cmd/fathom/show/parts.h"

void show_masks(const struct fathom_control_answers *answers, FILE *out)
{
	static const char *const titles[] = { "Hosts", "Result" };
	struct folded *folded = folded_create(FOLDED_HOSTS, titles, ARRAY_COUNT(titles));

	for (size_t i = 0; i < answers->count; i++) {
		const struct fathom_control_masks *masks = answers->answers[i].masks;

		for (size_t k = 0; k < masks->error_count; k++)
			folded_add(folded, answers->answers[i].hosts, (const char *[]){ masks->errors[k] });
		if (masks->error_count == 0)
			folded_add(folded, answers->answers[i].hosts, (const char *[]){ "OK" });
	}
	folded_finish(folded, false, 0, out);
}
