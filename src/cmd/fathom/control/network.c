/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom network - the network interfaces of hosts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/fathom/command.h"
#include "cmd/fathom/control/control.h"
#include "cmd/fathom/show/show.h"

static int run_scan(struct control_run *run)
{
	const char *provider = run->values.text[OPTION_PROVIDER];
	struct fathom_control_answers *answers;
	struct fathom_fault why;

	if (option_is_given(&run->values, OPTION_ALL))
		return control_host_devices(run, show_interfaces);
	if (provider && strcmp(provider, "all") == 0)
		provider = NULL;
	if (fathom_control_network_scan(run->control, provider, &answers, &why))
		return control_fail(run, &why);
	if (!control_is_json(run)) {
		show_network(answers, provider, stdout);
		(void)fflush(stdout); /* print the table first; main() reports write errors */
		show_network_left_out(answers, stderr);
	}
	return control_answered(run, answers, control_is_json(run) ? json_network(answers) : NULL, NULL);
}

static const struct control_command commands[] = {
	{ .words = "scan",
	  .arguments = "",
	  .help = "show the network interfaces that hosts have",
	  .options = BIT(OPTION_PROVIDER) | BIT(OPTION_ALL),
	  .run = run_scan },
};

int cmd_network(int argc, char **argv)
{
	return control_main("network", "What hosts have of networks.", commands, ARRAY_COUNT(commands), argc, argv);
}
