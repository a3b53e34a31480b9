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
#include "cmd/fathom/command.h"
#include "cmd/fathom/control/control.h"
#include "cmd/fathom/show/show.h"
#include "control/client/config.h"
#include "control/fault/fault.h"
#include "control/hostlist/rankset.h"

int run_reference(struct control_run *run)
{
	printf("# The configuration of the operator's commands\n"
	       "\n"
	       "`fathom system`, `storage`, `pool`, `volume`, `host`, `network`, `server`, `config` and `support`, and "
	       "programs that use libfathom-control, read one YAML\n"
	       "file: that of `-o`, else `~/" CLIENT_CONFIG_HOME "`, else `" CLIENT_CONFIG_SYSTEM
	       "`. Without such a file, the\n"
	       "defaults apply. An unknown key, a key that occurs twice and a value of another type are errors; the "
	       "message "
	       "has file, line and\n"
	       "key. The names are those of DAOS's `daos_control.yml`. `packaging/fathom_control.yml` is a sample.\n"
	       "\n"
	       "This page is printed by `fathom config reference`.\n"
	       "\n");
	config_print_reference(&client_config_schema, stdout);
	return EXIT_SUCCESS;
}

/* ---- generate ---- */

/* Port sets use the syntax of rank sets. */
static bool parse_port_list(const char *text, struct rank_set *ports)
{
	return !text || (rank_set_parse(text, ports, NULL) == 0 && ports->count > 0 && ports->ranks[0] > 0 &&
			 ports->ranks[ports->count - 1] <= UINT16_MAX);
}

static int read_wish(struct control_run *run, struct rank_set *ports, struct fathom_control_wish *wish_ret)
{
	const struct control_values *values = &run->values;

	if (!parse_port_list(values->fabric_ports, ports))
		return control_bad(run, "--fabric-ports: \"%s\" is not a list of ports, such as 4420-4421,4500",
				   values->fabric_ports);
	*wish_ret = (struct fathom_control_wish){
		.replica = values->ms_replicas ? values->ms_replicas : values->access_points,
		.interface = values->interface,
		.folder = values->folder,
		.file_bytes = values->size,
		.engines = (uint32_t)values->num_engines,
		.port = (uint16_t)values->port,
		.net_class = values->net_class,
		.metadata = values->control_metadata_path,
		.fabric_ports = ports->count ? ports->ranks : NULL,
		.fabric_port_count = ports->count,
	};
	return 0;
}

/*
 * Write to standard output (unless --json uses it), or to a new file, which is removed if it cannot be written
 * completely.
 */
static int write_config(struct control_run *run, const char *text)
{
	const char *path = run->values.output;
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

static int request_proposal(struct control_run *run, const struct fathom_control_wish *wish)
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
		failed = "the hosts need different configurations; generate one for each group with -l";
		for (size_t i = 0; i < answers->count && !control_is_json(run); i++)
			fprintf(stderr, "Group: %s\n", answers->answers[i].hosts);
	}
	return control_answered(run, answers, control_is_json(run) ? json_of_proposal_answers(answers) : NULL, failed);
}

int run_generate(struct control_run *run)
{
	struct fathom_control_wish wish;
	struct rank_set ports = { 0 };
	int status = read_wish(run, &ports, &wish);

	if (status == 0)
		status = request_proposal(run, &wish);
	rank_set_deinit(&ports);
	return status;
}
