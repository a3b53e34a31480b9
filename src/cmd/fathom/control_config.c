/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom config - configuration files: of the operator's commands, documented. */
#include <stdio.h>
#include <stdlib.h>

#include "cmd/fathom/command.h"
#include "cmd/fathom/control.h"
#include "control/client/config.h"

static int run_reference(struct control_run *run)
{
	printf("# The configuration of the operator's commands\n"
	       "\n"
	       "`fathom system`, `storage`, `network`, `server`, `config` and `support`, and programs that use "
	       "libfathom-control, read one YAML\n"
	       "file: what `-o` names, else `~/" CLIENT_CONFIG_HOME "`, else `" CLIENT_CONFIG_SYSTEM
	       "`; where there is none, the\n"
	       "defaults hold. It is read strictly: a key that is not in this table, one that stands there twice and a "
	       "value of another type are\n"
	       "errors that name file, line and key. The names are those of DAOS's `daos_control.yml`. "
	       "`packaging/fathom_control.yml` is a sample.\n"
	       "\n"
	       "This page is printed by `fathom config reference`.\n"
	       "\n");
	config_print_reference(&client_config_schema, stdout);
	return EXIT_SUCCESS;
}

static const struct control_command commands[] = {
	{ .words = "reference",
	  .arguments = "",
	  .help = "print every key of fathom_control.yml as a page",
	  .alone = true,
	  .run = run_reference },
};

int cmd_config(int argc, char **argv)
{
	return control_main("config", "Configuration files.", commands, ARRAY_COUNT(commands), argc, argv);
}
