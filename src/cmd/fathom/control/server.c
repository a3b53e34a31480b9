/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom server - the servers of hosts: their engines, version, log masks, restart policies. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "cmd/fathom/command.h"
#include "cmd/fathom/control/control.h"
#include "cmd/fathom/show/show.h"
#include "control/fault/fault.h"

enum { POLICIES_MAX = 16 };

/* Without a system, each server reports its own version. */
static int show_all_versions(struct control_run *run)
{
	struct fathom_control_answers *answers;
	struct fathom_fault why;

	if (fathom_control_versions(run->control, &answers, &why))
		return control_fail(run, &why);
	if (!control_is_json(run))
		show_versions(answers, stdout);
	return control_answered(run, answers, control_is_json(run) ? json_versions(answers) : NULL, NULL);
}

int run_version(struct control_run *run)
{
	struct fathom_control_version *version;
	struct fathom_fault why;
	int status;

	if (fathom_control_version(run->control, &version, &why))
		return why.code == FAULT_NOT_FORMATTED_SYSTEM ? show_all_versions(run) : control_fail(run, &why);
	if (!control_is_json(run))
		show_version(version, stdout);
	status = control_finish(run, control_is_json(run) ? json_version(version) : NULL, NULL);
	fathom_control_free(version);
	return status;
}

int run_masks(struct control_run *run)
{
	struct fathom_control_answers *answers;
	const char *failed = NULL;
	struct fathom_fault why;

	if (fathom_control_log_masks(run->control, run->values.masks, run->values.streams, run->values.subsystems, &answers,
				     &why))
		return control_fail(run, &why);
	for (size_t i = 0; i < answers->count; i++) {
		if (answers->answers[i].masks->error_count > 0)
			failed = "not all engines could set them";
	}
	if (!control_is_json(run))
		show_masks(answers, stdout);
	return control_answered(run, answers, control_is_json(run) ? json_of_masks_answers(answers) : NULL, failed);
}

/* ---- restart policies ---- */

/* Parse "250ms" in `text`, which is cut at `end`. */
static bool read_delay(char *text, uint64_t *ms_ret)
{
	uint64_t ns;

	if (text_parse_duration(text, &ns) < 0)
		return false;
	*ms_ret = ns / NS_PER_MS;
	return true;
}

/* "crashed=yes", "crashed=no", "crashed=1s..5m", "crashed=1s..5m*10"; defaults: 1s, 5m, no limit. */
static bool read_policy(char *word, struct fathom_control_policy *policy_ret)
{
	struct fathom_control_policy policy = { .restart = true, .delay_min_ms = 1000, .delay_max_ms = 300000 };
	char *value = strchr(word, '='), *dots, *star;
	uint64_t limit;

	if (!value || value == word)
		return false;
	*value++ = '\0';
	policy.cause = word;
	if (strcmp(value, "no") == 0 || strcmp(value, "yes") == 0) {
		policy.restart = value[0] == 'y';
		*policy_ret = policy;
		return true;
	}
	star = strchr(value, '*');
	if (star) {
		*star++ = '\0';
		if (text_parse_u64(star, 10, UINT32_MAX, &limit) < 0)
			return false;
		policy.limit = (uint32_t)limit;
	}
	dots = strstr(value, "..");
	if (!dots)
		return false;
	*dots = '\0';
	if (!read_delay(value, &policy.delay_min_ms) || !read_delay(dots + 2, &policy.delay_max_ms) ||
	    policy.delay_min_ms > policy.delay_max_ms)
		return false;
	*policy_ret = policy;
	return true;
}

int run_policy(struct control_run *run)
{
	struct fathom_control_policy policies[POLICIES_MAX];
	struct fathom_control_answers *answers;
	struct fathom_fault why;

	for (int i = 0; i < run->argc; i++) {
		char *word = strdup(run->argv[i]);
		bool fine;

		must(word);
		fine = read_policy(run->argv[i], &policies[i]);
		if (!fine) {
			int status = control_bad(run, "\"%s\" is not CAUSE=yes, CAUSE=no or CAUSE=1s..5m*10", word);

			free(word);
			return status;
		}
		free(word);
	}
	if (fathom_control_restart_policy(run->control, policies, (size_t)run->argc, &answers, &why))
		return control_fail(run, &why);
	if (!control_is_json(run))
		show_policies(answers, stdout);
	return control_answered(run, answers, control_is_json(run) ? json_of_policies_answers(answers) : NULL, NULL);
}
