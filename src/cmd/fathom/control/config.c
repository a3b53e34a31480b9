/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom config - configuration files: generates one for servers from their hosts; prints the documented one of these
 * commands.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "cmd/fathom/command.h"
#include "cmd/fathom/control/control.h"
#include "cmd/fathom/show/show.h"
#include "control/client/config.h"
#include "control/fault/fault.h"
#include "control/hostlist/rankset.h"

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

static bool read_number(const struct control_run *run, enum control_option option, uint64_t *number_ret)
{
	const char *text = run->values.text[option];

	*number_ret = 0;
	return !text || (text_parse_u64(text, 10, UINT16_MAX, number_ret) == 0 && *number_ret > 0);
}

/* Port sets use the syntax of rank sets. */
static bool read_ports(const char *text, struct rank_set *ports)
{
	return !text || (rank_set_parse(text, ports, NULL) == 0 && ports->count > 0 && ports->ranks[0] > 0 &&
			 ports->ranks[ports->count - 1] <= UINT16_MAX);
}

static int check_wish(struct control_run *run)
{
	const struct control_values *values = &run->values;
	const char *net_class = values->text[OPTION_NET_CLASS];
	const enum control_option paths[] = { OPTION_FOLDER, OPTION_METADATA_PATH };

	if (values->text[OPTION_MS_REPLICAS] && values->text[OPTION_ACCESS_POINTS])
		return control_bad(run, "--ms-replicas and --access-points are two names of one thing");
	if (net_class && strcmp(net_class, "ethernet") != 0 && strcmp(net_class, "infiniband") != 0)
		return control_bad(run, "--net-class is neither ethernet nor infiniband: %s", net_class);
	for (size_t i = 0; i < ARRAY_COUNT(paths); i++) {
		if (values->text[paths[i]] && values->text[paths[i]][0] != '/')
			return control_bad(run, "--%s is not an absolute path: %s", control_option_rows[paths[i]].name,
					   values->text[paths[i]]);
	}
	return 0;
}

static int read_wish(struct control_run *run, struct rank_set *ports, struct fathom_control_wish *wish_ret)
{
	const struct control_values *values = &run->values;
	struct fathom_control_wish wish = {
		.replica = values->text[OPTION_MS_REPLICAS] ? values->text[OPTION_MS_REPLICAS]
							    : values->text[OPTION_ACCESS_POINTS],
		.interface = values->text[OPTION_INTERFACE],
		.folder = values->text[OPTION_FOLDER],
		.net_class = values->text[OPTION_NET_CLASS],
		.metadata = values->text[OPTION_METADATA_PATH],
	};
	uint64_t engines, port;
	int status = check_wish(run);

	if (status)
		return status;
	if (!read_number(run, OPTION_NUM_ENGINES, &engines))
		return control_bad(run, "--num-engines is not a count: %s", values->text[OPTION_NUM_ENGINES]);
	if (!read_number(run, OPTION_SERVER_PORT, &port))
		return control_bad(run, "--port is not a port: %s", values->text[OPTION_SERVER_PORT]);
	if (!read_ports(values->text[OPTION_FABRIC_PORTS], ports))
		return control_bad(run, "--fabric-ports are no ports, as 4420-4421,4500: %s",
				   values->text[OPTION_FABRIC_PORTS]);
	if (values->text[OPTION_FILE_SIZE] &&
	    (text_parse_bytes(values->text[OPTION_FILE_SIZE], &wish.file_bytes) < 0 || wish.file_bytes == 0))
		return control_bad(run, "--size is no size, as 16GiB: %s", values->text[OPTION_FILE_SIZE]);
	wish.engines = (uint32_t)engines;
	wish.port = (uint16_t)port;
	wish.fabric_ports = ports->count ? ports->ranks : NULL;
	wish.fabric_port_count = ports->count;
	*wish_ret = wish;
	return 0;
}

/*
 * Write to standard output (unless --json uses it), or to a new file, which is removed if it cannot be written
 * completely.
 */
static int write_config(struct control_run *run, const char *text)
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
		(void)unlink(path); /* a partial file must not remain */
	fill_fault_output_unwritten(&why, path, strerror(-error));
	return control_fail(run, &why);
}

static int propose(struct control_run *run, const struct fathom_control_wish *wish)
{
	struct fathom_control_answers *answers;
	const char *failed = NULL;
	struct fathom_fault why;
	int status;

	if (fathom_control_propose(run->control, wish, &answers, &why))
		return control_fail(run, &why);
	if (answers->error_count == 0 && answers->count == 1) {
		status = write_config(run, answers->answers[0].proposal->text);
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

static int run_generate(struct control_run *run)
{
	struct fathom_control_wish wish;
	struct rank_set ports = { 0 };
	int status = read_wish(run, &ports, &wish);

	if (status == 0)
		status = propose(run, &wish);
	rank_set_deinit(&ports);
	return status;
}

static const struct control_command commands[] = {
	{ .words = "generate",
	  .arguments = "",
	  .help = "write a configuration of fathom-server from what hosts have",
	  .more = "Servers must run on them already, with whatever configuration. All hosts that are asked must be alike.",
	  .options = BIT(OPTION_MS_REPLICAS) | BIT(OPTION_ACCESS_POINTS) | BIT(OPTION_NUM_ENGINES) | BIT(OPTION_INTERFACE) |
		     BIT(OPTION_NET_CLASS) | BIT(OPTION_FABRIC_PORTS) | BIT(OPTION_METADATA_PATH) | BIT(OPTION_FOLDER) |
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
