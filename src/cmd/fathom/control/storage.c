/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom storage - storage of hosts: scanning, formatting, usage. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cmd/fathom/command.h"
#include "cmd/fathom/control/control.h"
#include "cmd/fathom/show/show.h"

int run_scan(struct control_run *run)
{
	bool verbose = run->values.verbose || run->values.nvme_health;
	struct fathom_control_answers *answers;
	struct fathom_fault why;

	if (run->values.all)
		return control_host_devices(run, show_block_devices);
	if (fathom_control_storage_scan(run->control, false, verbose, &answers, &why))
		return control_fail(run, &why);
	if (!control_is_json(run) && run->values.nvme_health)
		show_storage_health(answers, stdout);
	else if (!control_is_json(run) && verbose)
		show_storage_verbose(answers, stdout);
	else if (!control_is_json(run))
		show_storage(answers, stdout);
	return control_answered(run, answers, control_is_json(run) ? json_of_storage_answers(answers) : NULL, NULL);
}

int run_format(struct control_run *run)
{
	struct fathom_control_answers *answers;
	const char *failed = NULL;
	struct fathom_fault why;

	if (fathom_control_storage_format(run->control, run->values.instances, run->values.force, run->values.replace,
					  run->values.new_storage, &answers, &why))
		return control_fail(run, &why);
	if (format_has_errors(answers))
		failed = "not all storage could be formatted";
	if (!control_is_json(run)) {
		show_format(answers, run->values.verbose, stdout);
		(void)fflush(stdout); /* print the table first; main() reports write errors */
		show_format_advice(answers, stderr);
	}
	if (!format_wait(run, answers) && !failed)
		failed = "not all engines have joined: `fathom server query -v` shows their states";
	return control_answered(run, answers, control_is_json(run) ? json_format(answers) : NULL, failed);
}

enum { FAILED_BYTES = 128 };

int run_devices(struct control_run *run)
{
	struct device_choice choice = {
		.rank = (uint32_t)run->values.rank,
		.uuid = run->values.uuid,
		.evicted = run->values.show_evicted,
		.health = run->values.health,
	};
	struct fathom_control_answers *answers;
	struct fathom_fault why;
	char failed[FAILED_BYTES] = "";

	if (fathom_control_devices(run->control, choice.rank, choice.uuid, &answers, &why))
		return control_fail(run, &why);
	if (!control_is_json(run))
		show_devices(answers, &choice, stdout);
	if (choice.uuid && !has_devices(answers, &choice))
		snprintf(failed, sizeof(failed), "no device has the UUID %s", choice.uuid);
	else if (choice.rank != FATHOM_CONTROL_NO_RANK && !has_devices(answers, &choice))
		snprintf(failed, sizeof(failed), "no device has the rank %" PRIu32, choice.rank);
	return control_answered(run, answers, control_is_json(run) ? json_devices(answers, &choice) : NULL,
				failed[0] ? failed : NULL);
}

int run_device_health(struct control_run *run)
{
	const char *only = run->argc > 0 ? run->argv[0] : NULL;
	struct fathom_control_answers *answers;
	char failed[FAILED_BYTES] = "";
	struct fathom_fault why;
	size_t bad;

	if (fathom_control_host_health(run->control, &answers, &why))
		return control_fail(run, &why);
	if (!control_is_json(run))
		show_device_health(answers, only, stdout);
	bad = count_devices_health(answers, only, true);
	if (only && count_devices_health(answers, only, false) == 0)
		snprintf(failed, sizeof(failed), "no host has the device %s", only);
	else if (bad > 0)
		snprintf(failed, sizeof(failed), "%zu device%s not in good health", bad, bad == 1 ? " is" : "s are");
	return control_answered(run, answers, control_is_json(run) ? json_device_health(answers, only) : NULL,
				failed[0] ? failed : NULL);
}
