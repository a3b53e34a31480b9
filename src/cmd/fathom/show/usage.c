/* SPDX-License-Identifier: BSD-2-Clause */
/* Usage of storage: `fathom storage query usage`. */
#include <inttypes.h>

#include "base/bits.h"
#include "cmd/fathom/show/show.h"
#include "cmd/fathom/show/parts.h"

struct amount {
	uint64_t total, free;
};

static const char *used_text(const struct amount *amount, char *text)
{
	if (amount->total == 0)
		return "N/A";
	snprintf(text, SIZE_TEXT_BYTES, "%" PRIu64 " %%",
		 (uint64_t)((double)(amount->total - min_u64(amount->free, amount->total)) / (double)amount->total * 100));
	return text;
}

static struct amount scm_of(const struct fathom_control_storage *storage, bool usable)
{
	struct amount amount = { 0 };

	for (size_t i = 0; i < storage->scm_count; i++) {
		const struct fathom_control_mount *mount = storage->scms[i].mount;

		amount.total += mount ? mount->total_bytes : 0;
		amount.free += mount ? (usable ? mount->usable_bytes : mount->available_bytes) : 0;
	}
	return amount;
}

static struct amount nvme_of(const struct fathom_control_storage *storage, bool usable)
{
	struct amount amount = { 0 };

	for (size_t i = 0; i < storage->nvme_count; i++) {
		for (size_t k = 0; k < storage->nvmes[i].smd_count; k++) {
			const struct fathom_control_smd *smd = &storage->nvmes[i].smds[k];

			amount.total += smd->total_bytes;
			amount.free += usable ? smd->usable_bytes : smd->available_bytes;
		}
	}
	return amount;
}

void show_usage(const struct fathom_control_answers *answers, bool usable, FILE *out)
{
	static const char *const free_titles[] = { "Hosts",	 "SCM-Total", "SCM-Free", "SCM-Used",
						   "NVMe-Total", "NVMe-Free", "NVMe-Used" };
	static const char *const usable_titles[] = { "Hosts",	   "SCM-Total",	  "SCM-Usable", "SCM-Used",
						     "NVMe-Total", "NVMe-Usable", "NVMe-Used" };
	struct folded *folded = folded_create(FOLDED_HOSTS, usable ? usable_titles : free_titles, ARRAY_COUNT(free_titles));

	for (size_t i = 0; i < answers->count; i++) {
		struct amount scm = scm_of(answers->answers[i].storage, usable);
		struct amount nvme = nvme_of(answers->answers[i].storage, usable);
		char texts[6][SIZE_TEXT_BYTES];

		folded_add(folded, answers->answers[i].hosts,
			   (const char *[]){ size_text(scm.total, texts[0]), size_text(scm.free, texts[1]),
					     used_text(&scm, texts[2]), size_text(nvme.total, texts[3]),
					     size_text(nvme.free, texts[4]), used_text(&nvme, texts[5]) });
	}
	folded_finish(folded, false, 0, out);
}
