/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom config - configuration files: one for servers, from what their hosts have; that of these commands, documented. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "cmd/fathom/command.h"
#include "cmd/fathom/control.h"
#include "cmd/fathom/show.h"
#include "control/client/config.h"
#include "control/fault/fault.h"

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

/* ---- generate ---- */

static int read_wish(struct control_run *run, struct fathom_control_wish *wish_ret)
{
	const struct control_values *values = &run->values;
	struct fathom_control_wish wish = {
		.replica = values->text[OPTION_MS_REPLICAS],
		.interface = values->text[OPTION_INTERFACE],
		.folder = values->text[OPTION_FOLDER],
	};
	uint64_t number;

	if (values->text[OPTION_NUM_ENGINES]) {
		if (text_parse_u64(values->text[OPTION_NUM_ENGINES], 10, UINT16_MAX, &number) < 0 || number == 0)
			return control_bad(run, "--num-engines is not a count: %s", values->text[OPTION_NUM_ENGINES]);
		wish.engines = (uint32_t)number;
	}
	if (values->text[OPTION_SERVER_PORT]) {
		if (text_parse_u64(values->text[OPTION_SERVER_PORT], 10, UINT16_MAX, &number) < 0 || number == 0)
			return control_bad(run, "--port is not a port: %s", values->text[OPTION_SERVER_PORT]);
		wish.port = (uint16_t)number;
	}
	if (values->text[OPTION_FILE_SIZE] &&
	    (text_parse_bytes(values->text[OPTION_FILE_SIZE], &wish.file_bytes) < 0 || wish.file_bytes == 0))
		return control_bad(run, "--size is no size, as 16GiB: %s", values->text[OPTION_FILE_SIZE]);
	if (wish.folder && wish.folder[0] != '/')
		return control_bad(run, "--folder is not an absolute path: %s", wish.folder);
	*wish_ret = wish;
	return 0;
}

/* On standard output (which --json has for itself), or into a new file, whole or not at all. */
static int deliver(struct control_run *run, const char *text)
{
	const char *path = run->values.text[OPTION_OUTPUT];
	struct fathom_fault why;
	int fd, error;

	if (!path) {
		if (!control_is_json(run))
			fputs(text, stdout);
		return EXIT_SUCCESS;
	}
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	error = fd < 0 ? -errno : file_write(fd, text, strlen(text));
	if (fd >= 0 && close(fd) && error == 0)
		error = -errno;
	if (error == 0)
		return EXIT_SUCCESS;
	if (fd >= 0)
		(void)unlink(path); /* a half would be found in place of none */
	must(fault_output_unwritten(as_fault(&why), path, strerror(-error)) < 0);
	return control_fail(run, &why);
}

static int run_generate(struct control_run *run)
{
	struct fathom_control_answers *answers;
	struct fathom_control_wish wish;
	const char *failed = NULL;
	struct fathom_fault why;
	int status = read_wish(run, &wish);

	if (status)
		return status;
	if (fathom_control_propose(run->control, &wish, &answers, &why))
		return control_fail(run, &why);
	if (answers->error_count == 0 && answers->count == 1) {
		status = deliver(run, answers->answers[0].proposal->text);
		if (status) {
			fathom_control_free(answers);
			return status;
		}
	} else if (answers->count > 1) {
		failed = "hosts differ; ask for them apart with -l";
		for (size_t i = 0; i < answers->count && !control_is_json(run); i++)
			fprintf(stderr, "Alike: %s\n", answers->answers[i].hosts);
	}
	return control_answered(run, answers, control_is_json(run) ? json_proposals(answers) : NULL, failed);
}

static const struct control_command commands[] = {
	{ .words = "generate",
	  .arguments = "",
	  .help = "write a configuration of fathom-server from what hosts have",
	  .more = "Servers must run on them already, with whatever configuration. All hosts that are asked must be alike.",
	  .options = BIT(OPTION_MS_REPLICAS) | BIT(OPTION_NUM_ENGINES) | BIT(OPTION_INTERFACE) | BIT(OPTION_FOLDER) |
		     BIT(OPTION_FILE_SIZE) | BIT(OPTION_SERVER_PORT) | BIT(OPTION_OUTPUT),
	  .run = run_generate },
	{ .words = "reference",
	  .arguments = "",
	  .help = "print every key of fathom_control.yml as a page",
	  .alone = true,
	  .run = run_reference },
};

int cmd_config(int argc, char **argv)
{
	return control_main("config", "Configuration files: of servers, and of these commands.", commands,
			    ARRAY_COUNT(commands), argc, argv);
}
