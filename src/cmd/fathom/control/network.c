/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom network - the network interfaces of hosts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/fathom/command.h"
#include "cmd/fathom/control/control.h"
#include "cmd/fathom/show/show.h"

int run_network_scan(struct control_run *run)
{
	const char *provider = run->values.provider;
	struct fathom_control_answers *answers;
	struct fathom_fault why;

	if (run->values.all)
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
	return control_answered(run, answers, control_is_json(run) ? json_of_network_answers(answers) : NULL, NULL);
}
