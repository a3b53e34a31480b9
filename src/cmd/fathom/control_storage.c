/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom storage - what hosts have of storage, formatting it, how much is used. */
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "cmd/fathom/command.h"
#include "cmd/fathom/control.h"
#include "cmd/fathom/show.h"

enum { ERROR_BYTES = 128 };

static bool has(const struct control_run *run, enum control_option option)
{
	return option_is_given(&run->values, option);
}

static int run_scan(struct control_run *run)
{
	bool verbose = has(run, OPTION_VERBOSE) || has(run, OPTION_NVME_HEALTH);
	struct fathom_control_answers *answers;
	struct fathom_fault why;
	char text[ERROR_BYTES];
	const char *error;

	if (fathom_control_storage_scan(run->control, false, verbose, &answers, &why))
		return control_fail(run, &why);
	error = control_host_errors(answers, text, sizeof(text));
	if (has(run, OPTION_JSON))
		(void)control_json(json_storage(answers), error);
	else if (verbose)
		show_storage_verbose(answers, has(run, OPTION_NVME_HEALTH), stdout);
	else
		show_storage(answers, stdout);
	fathom_control_free(answers);
	return error ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int run_format(struct control_run *run)
{
	struct fathom_control_answers *answers;
	struct fathom_fault why;
	char text[ERROR_BYTES];
	const char *error;

	if (has(run, OPTION_FORCE) && has(run, OPTION_REPLACE))
		return control_bad(run, "--force and --replace exclude each other");
	if (fathom_control_storage_format(run->control, has(run, OPTION_FORCE), has(run, OPTION_REPLACE), &answers, &why))
		return control_fail(run, &why);
	error = control_host_errors(answers, text, sizeof(text));
	if (!error && format_has_errors(answers))
		error = "not all storage could be formatted";
	if (has(run, OPTION_JSON))
		(void)control_json(json_format(answers), error);
	else
		show_format(answers, has(run, OPTION_VERBOSE), stdout);
	fathom_control_free(answers);
	return error ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int run_usage(struct control_run *run)
{
	struct fathom_control_answers *answers;
	struct fathom_fault why;
	char text[ERROR_BYTES];
	const char *error;

	if (fathom_control_storage_scan(run->control, true, true, &answers, &why))
		return control_fail(run, &why);
	error = control_host_errors(answers, text, sizeof(text));
	if (has(run, OPTION_JSON))
		(void)control_json(json_storage(answers), error);
	else
		show_usage(answers, has(run, OPTION_SHOW_USABLE), stdout);
	fathom_control_free(answers);
	return error ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int run_devices(struct control_run *run)
{
	struct device_choice choice = {
		.rank = FATHOM_CONTROL_NO_RANK,
		.uuid = run->values.text[OPTION_UUID],
		.evicted = has(run, OPTION_SHOW_EVICTED),
	};
	struct fathom_control_answers *answers;
	struct fathom_fault why;
	char text[ERROR_BYTES];
	const char *error;
	uint64_t rank;

	if (run->values.text[OPTION_RANK]) {
		if (text_parse_u64(run->values.text[OPTION_RANK], 10, UINT32_MAX - 1, &rank) < 0)
			return control_bad(run, "--rank is not a number: %s", run->values.text[OPTION_RANK]);
		choice.rank = (uint32_t)rank;
	}
	if (fathom_control_storage_scan(run->control, true, true, &answers, &why))
		return control_fail(run, &why);
	error = control_host_errors(answers, text, sizeof(text));
	if (has(run, OPTION_JSON))
		(void)control_json(json_devices(answers, &choice), error);
	else
		show_devices(answers, &choice, stdout);
	fathom_control_free(answers);
	return error ? EXIT_FAILURE : EXIT_SUCCESS;
}

static const struct control_command commands[] = {
	{ .words = "scan",
	  .arguments = "",
	  .help = "show the storage that hosts have",
	  .options = BIT(OPTION_VERBOSE) | BIT(OPTION_NVME_HEALTH),
	  .run = run_scan },
	{ .words = "format",
	  .arguments = "",
	  .help = "format what waits for it, so that its engines start",
	  .more = "With --force also what is formatted, and all that is on it is lost; not while its ranks are running.",
	  .options = BIT(OPTION_VERBOSE) | BIT(OPTION_FORCE) | BIT(OPTION_REPLACE),
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
