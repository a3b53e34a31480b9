/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom network - the network interfaces of hosts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/fathom/command.h"
#include "cmd/fathom/control.h"
#include "cmd/fathom/show.h"

static int run_scan(struct control_run *run)
{
	const char *provider = run->values.text[OPTION_PROVIDER];
	struct fathom_control_answers *answers;
	struct fathom_fault why;
	char text[128];
	const char *error;

	if (provider && strcmp(provider, "all") == 0)
		provider = NULL;
	if (fathom_control_network_scan(run->control, provider, &answers, &why))
		return control_fail(run, &why);
	error = control_host_errors(answers, text, sizeof(text));
	if (option_is_given(&run->values, OPTION_JSON))
		(void)control_json(json_network(answers), error);
	else
		show_network(answers, provider, stdout);
	fathom_control_free(answers);
	return error ? EXIT_FAILURE : EXIT_SUCCESS;
}

static const struct control_command commands[] = {
	{ .words = "scan",
	  .arguments = "",
	  .help = "show the network interfaces that hosts have",
	  .options = BIT(OPTION_PROVIDER),
	  .run = run_scan },
};

int cmd_network(int argc, char **argv)
{
	return control_main("network", "What hosts have of networks.", commands, ARRAY_COUNT(commands), argc, argv);
}
