/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom storage - storage of hosts: scanning, formatting, usage. */
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "cmd/fathom/command.h"
#include "cmd/fathom/control/control.h"
#include "cmd/fathom/show/show.h"

static bool has(const struct control_run *run, enum control_option option)
{
	return option_is_given(&run->values, option);
}

static int run_scan(struct control_run *run)
{
	bool verbose = has(run, OPTION_VERBOSE) || has(run, OPTION_NVME_HEALTH);
	struct fathom_control_answers *answers;
	struct fathom_fault why;

	if (has(run, OPTION_ALL))
		return control_host_devices(run, show_block_devices);
	if (fathom_control_storage_scan(run->control, false, verbose, &answers, &why))
		return control_fail(run, &why);
	if (!control_is_json(run) && verbose)
		show_storage_verbose(answers, has(run, OPTION_NVME_HEALTH), stdout);
	else if (!control_is_json(run))
		show_storage(answers, stdout);
	return control_answered(run, answers, control_is_json(run) ? json_storage(answers) : NULL, NULL);
}

static int run_format(struct control_run *run)
{
	struct fathom_control_answers *answers;
	const char *failed = NULL;
	struct fathom_fault why;

	if (fathom_control_storage_format(run->control, run->values.text[OPTION_INSTANCES], has(run, OPTION_FORCE),
					  has(run, OPTION_REPLACE), has(run, OPTION_NEW_STORAGE), &answers, &why))
		return control_fail(run, &why);
	if (format_has_errors(answers))
		failed = "not all storage could be formatted";
	if (!control_is_json(run)) {
		show_format(answers, has(run, OPTION_VERBOSE), stdout);
		(void)fflush(stdout); /* print the table first; main() reports write errors */
		show_format_advice(answers, stderr);
	}
	if (!format_wait(run, answers) && !failed)
		failed = "not all engines have joined: `fathom server query -v` shows how they are";
	return control_answered(run, answers, control_is_json(run) ? json_format(answers) : NULL, failed);
}

static int run_usage(struct control_run *run)
{
	struct fathom_control_answers *answers;
	struct fathom_fault why;

	if (fathom_control_storage_scan(run->control, true, true, &answers, &why))
		return control_fail(run, &why);
	if (!control_is_json(run))
		show_usage(answers, has(run, OPTION_SHOW_USABLE), stdout);
	return control_answered(run, answers, control_is_json(run) ? json_storage(answers) : NULL, NULL);
}

enum { FAILED_BYTES = 128 };

static int run_devices(struct control_run *run)
{
	struct device_choice choice = {
		.rank = FATHOM_CONTROL_NO_RANK,
		.uuid = run->values.text[OPTION_UUID],
		.evicted = has(run, OPTION_SHOW_EVICTED),
	};
	struct fathom_control_answers *answers;
	struct fathom_fault why;
	char failed[FAILED_BYTES] = "";
	uint64_t rank;

	if (run->values.text[OPTION_RANK]) {
		if (text_parse_u64(run->values.text[OPTION_RANK], 10, UINT32_MAX - 1, &rank) < 0)
			return control_bad(run, "--rank is not a number: %s", run->values.text[OPTION_RANK]);
		choice.rank = (uint32_t)rank;
	}
	if (fathom_control_devices(run->control, choice.rank, choice.uuid, &answers, &why))
		return control_fail(run, &why);
	if (!control_is_json(run))
		show_devices(answers, &choice, stdout);
	if ((run->values.text[OPTION_RANK] || choice.uuid) && !has_devices(answers, &choice))
		snprintf(failed, sizeof(failed), "no device has the %s %s", choice.uuid ? "UUID" : "rank",
			 choice.uuid ? choice.uuid : run->values.text[OPTION_RANK]);
	return control_answered(run, answers, control_is_json(run) ? json_devices(answers, &choice) : NULL,
				failed[0] ? failed : NULL);
}

static const struct control_command commands[] = {
	{ .words = "scan",
	  .arguments = "",
	  .help = "show the storage that hosts have",
	  .options = BIT(OPTION_VERBOSE) | BIT(OPTION_NVME_HEALTH) | BIT(OPTION_ALL),
	  .run = run_scan },
	{ .words = "format",
	  .arguments = "",
	  .help = "format what waits for it, and wait until its engines have joined",
	  .more = "With --force also what is formatted, and all that is on it is lost; not while its ranks are running. "
		  "With "
		  "--instances others of the host may run; with --replace it has the rank again that it had. Storage that "
		  "is missing (its folder does not exist, or is not mounted) is refused without --new-storage.",
	  .options = BIT(OPTION_VERBOSE) | BIT(OPTION_FORCE) | BIT(OPTION_INSTANCES) | BIT(OPTION_REPLACE) |
		     BIT(OPTION_NEW_STORAGE),
	  .run = run_format },
	{ .words = "query usage",
	  .arguments = "",
	  .help = "show how much of it is used",
	  .options = BIT(OPTION_SHOW_USABLE),
	  .run = run_usage },
	{ .words = "query list-devices",
	  .arguments = "",
	  .help = "show the devices that engines use",
	  .options = BIT(OPTION_RANK) | BIT(OPTION_UUID) | BIT(OPTION_SHOW_EVICTED),
	  .run = run_devices },
};

int cmd_storage(int argc, char **argv)
{
	return control_main("storage", "What hosts have of storage: show, format, how much of it is used.", commands,
			    ARRAY_COUNT(commands), argc, argv);
}
