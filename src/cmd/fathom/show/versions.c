/* SPDX-License-Identifier: BSD-2-Clause */
/* The version of each server: `fathom server version` without a system. */
#include "base/bits.h"
#include "cmd/fathom/show/show.h"
#include "cmd/fathom/show/parts.h"

void show_versions(const struct fathom_control_answers *answers, FILE *out)
{
	static const char *const titles[] = { "Hosts", "Version" };
	struct folded *folded;

	if (answers->count == 1 && answers->error_count == 0) {
		fprintf(out, PROGRAM " version %s\n", answers->answers[0].version);
		return;
	}
	folded = folded_create(FOLDED_HOSTS, titles, ARRAY_COUNT(titles));
	for (size_t i = 0; i < answers->count; i++)
		folded_add(folded, answers->answers[i].hosts, (const char *[]){ answers->answers[i].version });
	folded_finish(folded, true, 0, out);
}

static json_t *make_version_json(const struct fathom_control_answer *answer)
{
	return json_text(answer->version);
}

json_t *json_versions(const struct fathom_control_answers *answers)
{
	json_t *response = json_answers(answers, "HostVersions", "hosts", "version", make_version_json);

	/* as for a system, which has one version */
	put_text(response, "name", PROGRAM);
	if (answers->count == 1)
		put_text(response, "version", answers->answers[0].version);
	return response;
}
