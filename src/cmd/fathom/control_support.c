/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom support - logs of hosts, for whoever looks for a fault. */
#include <stdio.h>
#include <stdlib.h>

#include "cmd/fathom/command.h"
#include "cmd/fathom/control.h"
#include "cmd/fathom/show.h"

static int run_collect(struct control_run *run)
{
	const char *folder = run->values.text[OPTION_TARGET_FOLDER];
	struct fathom_control_answers *answers;
	struct fathom_fault why;

	if (fathom_control_collect_log(run->control, folder ? folder : "fathom-logs", &answers, &why))
		return control_fail(run, &why);
	if (!control_is_json(run))
		show_logs(answers, stdout);
	return control_answered(run, answers, control_is_json(run) ? json_logs(answers) : NULL, NULL);
}

static const struct control_command commands[] = {
	{ .words = "collect-log",
	  .arguments = "",
	  .help = "fetch logs, configuration and states of hosts as archives",
	  .options = BIT(OPTION_TARGET_FOLDER),
	  .run = run_collect },
};

int cmd_support(int argc, char **argv)
{
	return control_main("support", "Logs of hosts, for whoever looks for a fault.", commands, ARRAY_COUNT(commands),
			    argc, argv);
}
