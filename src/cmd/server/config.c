/* SPDX-License-Identifier: BSD-2-Clause */
/* config - `fathom-server config`: check, reference, generate. They need no running server. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/text.h"
#include "cmd/options/daemon.h"
#include "cmd/server/command.h"
#include "control/hostlist/rankset.h"
#include "control/server/config/generate.h"
#include "control/server/server.h"
#include "control/status/certificate.h"

struct generate_command_line {
	struct generate_options choice;
	struct rank_set ports;
};

/* A set of ports has the syntax of a set of ranks. */
static bool parse_fabric_ports(const char *text, struct rank_set *ports)
{
	rank_set_deinit(ports);
	return rank_set_parse(text, ports, NULL) == 0 && ports->count > 0 && ports->ranks[0] > 0 &&
	       ports->ranks[ports->count - 1] <= UINT16_MAX;
}

static int read_net_class(void *to, const char *text, struct fathom_fault *why)
{
	*(const char **)to = text;
	if (strcmp(text, "ethernet") == 0 || strcmp(text, "infiniband") == 0)
		return 0;
	return fault(why, -EINVAL, "is not ethernet or infiniband");
}

static int read_fabric_ports(void *to, const char *text, struct fathom_fault *why)
{
	return parse_fabric_ports(text, to) ? 0 : fault(why, -EINVAL, "is not a list of ports, such as 4420-4421,4500");
}

static int read_absolute_path(void *to, const char *text, struct fathom_fault *why)
{
	*(const char **)to = text;
	return text[0] == '/' ? 0 : fault(why, -EINVAL, "is not an absolute path");
}

#define AT(member) .offset = offsetof(struct generate_command_line, choice.member)

static const struct option_row generate_rows[] = {
	{ "mgmt-svc-replicas", 'r', OPTION_TEXT, "HOST", "management host (default: this one)", AT(replica) },
	{ "access-points", 'a', OPTION_TEXT, "HOST", "older name of --mgmt-svc-replicas", AT(replica) },
	{ "interface", 'i', OPTION_TEXT, "NAME",
	  "network interface for other hosts (default: the first one that has an address)", AT(interface) },
	{ "net-class", 'c', OPTION_CALL, "CLASS", "only interfaces of this class: ethernet, infiniband", AT(net_class),
	  .read = read_net_class, .values = "ethernet infiniband" },
	{ "fabric-ports", 'f', OPTION_CALL, "PORTS",
	  "ports of the engines, lowest first, as 4420-4421,4500 (default: 4420 and the next ones)",
	  .offset = offsetof(struct generate_command_line, ports), .read = read_fabric_ports },
	{ "control-metadata-path", 'm', OPTION_CALL, "DIR",
	  "folder for superblocks and database (default: with the engines' storage)", AT(metadata),
	  .read = read_absolute_path, .values = OPTION_FOLDERS },
	{ "num-engines", 'e', OPTION_NUMBER, "N", "number of engines (default: one for each free block device)",
	  AT(engines), OPTION_RANGE(1, SERVER_ENGINES_MAX) },
	{ "folder", 'F', OPTION_CALL, "DIR", "storage of class file in folders of DIR, instead of block devices",
	  AT(folder), .read = read_absolute_path, .values = OPTION_FOLDERS },
	{ "size", 's', OPTION_SIZE, "BYTES", "size of each file of --folder (default 16GiB)", AT(folder_bytes) },
	{ "port", 'p', OPTION_NUMBER, "N", "port of the server (default 10001)", AT(port), OPTION_RANGE(1, UINT16_MAX) },
	{ "with-loop", 0, OPTION_FLAG, NULL, "also use loop devices", AT(with_loop) },
	{ "insecure", 0, OPTION_FLAG, NULL, "without certificates", AT(is_insecure) },
	OPTION_HELP_ROW,
};

static const struct option_table generate_table = {
	.name = "fathom-server config generate",
	.usage = "fathom-server config generate [OPTION...]",
	.about = "Write a configuration for this host to standard output. Only root can read the content of block devices.",
	OPTION_ROWS(generate_rows),
};

static const struct option_command config_commands[] = {
	{ "check", "[FILE]", "report what is wrong with a configuration (default " SERVER_CONFIG_DEFAULT ")",
	  .operands = OPTION_FILES },
	{ "reference", NULL, "print all keys as a page", .operands = NULL },
	{ "generate", "[OPTION...]", "write a configuration for this host to standard output", .table = &generate_table },
};

static const struct option_row config_rows[] = { OPTION_HELP_ROW };

const struct option_table config_table = {
	.name = "fathom-server config",
	.usage = "fathom-server config check [FILE]\n"
		 "fathom-server config reference\n"
		 "fathom-server config generate [OPTION...]",
	.about = "Check and write configurations of the server.",
	OPTION_COMMANDS(config_commands),
	OPTION_ROWS(config_rows),
	.more = "`fathom-server config generate --help` shows its options.",
	.in_front = true,
};

/* The generated text must be valid for the server: it is read back before it is printed. */
static int print_generated(const struct generate_options *choice)
{
	struct server_config config;
	struct fathom_fault why = { 0 };
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);
	int error;

	if (!out)
		return EXIT_FAILURE;
	error = server_config_generate(choice, provider_system(), out, &why);
	if (fclose(out) != 0 && !error)
		error = fault(&why, -ENOMEM, "out of memory");
	if (!error)
		error = server_config_read_text("what was generated", text, bytes, &config, &why);
	if (error) {
		free(text);
		return command_fail(&why);
	}
	server_config_free(&config);
	fputs(text, stdout);
	free(text);
	return EXIT_SUCCESS;
}

static int generate_config_file(int argc, char **argv)
{
	struct generate_command_line line = { .choice = { .port = SERVER_PORT_DEFAULT, .folder_bytes = 16ull << 30 } };
	int at, status = options_parse(&generate_table, argc, argv, &line, &at);

	if (status == OPTIONS_RUN && at < argc)
		status = options_reject(&generate_table, "unexpected argument: %s", argv[at]);
	if (status == OPTIONS_RUN) {
		line.choice.fabric_ports = line.ports.count ? line.ports.ranks : NULL;
		line.choice.fabric_port_count = line.ports.count;
		status = print_generated(&line.choice);
	}
	rank_set_deinit(&line.ports);
	return status;
}

/* Print the remaining days of certificates that expire soon. */
static void print_expiring_certificates(const struct grpc_tls *tls)
{
	int64_t now_s = (int64_t)(clock_realtime_ns() / NS_PER_SEC);
	char date[CERTIFICATE_DATE_BYTES];
	struct grpc_life lives[2];

	grpc_tls_lives(tls, lives);
	for (size_t i = 0; i < ARRAY_COUNT(lives); i++) {
		int stage = certificate_stage(now_s, lives[i].ends_s);

		if (stage != CERTIFICATE_NOT_NEAR)
			printf("expires in %d day%s or less, on %s: %s\n", stage, stage == 1 ? "" : "s",
			       certificate_date(lives[i].ends_s, date), lives[i].path);
	}
}

/*
 * Certificates may be created later, or be readable only by the server's user: neither is an error of the configuration.
 * An invalid certificate is, if all of them are readable.
 */
static int check_certificate_files(const struct server_config *config, struct fathom_fault *why)
{
	const char *const paths[] = { config->transport.ca_cert, config->transport.cert, config->transport.key };
	bool are_readable = true;
	struct grpc_tls *tls;
	int error;

	if (config->transport.allow_insecure)
		return 0;
	for (size_t i = 0; i < ARRAY_COUNT(paths); i++) {
		if (access(paths[i], R_OK) == 0)
			continue;
		are_readable = false;
		if (errno == ENOENT)
			printf("missing, and the server does not start without it: %s\n", paths[i]);
		else
			printf("not checked, because this user may not read it: %s: %s\n", paths[i], strerror(errno));
	}
	if (!are_readable)
		return 0;
	error = server_certificates_open(&config->transport, &tls, why);
	if (error)
		return error;
	print_expiring_certificates(tls);
	grpc_tls_destroy(tls);
	return 0;
}

static int check_config_file(const char *path)
{
	struct server_config config;
	struct server_places places;
	char programs[PATH_MAX];
	struct fathom_fault why = { 0 };
	int error = server_config_read(path, &config, &why);

	if (error)
		return command_fail(&why);
	command_programs(programs);
	error = server_config_check(&config, path, programs, &why);
	if (!error)
		error = server_places_find(&config, path, provider_system(), &places, &why);
	if (!error) {
		error = check_certificate_files(&config, &why);
		if (error)
			server_places_free(&places);
	}
	if (!error) {
		printf("%s is valid: system %s at %s, management service %s, %zu engine%s\n", path, config.name,
		       places.control, places.is_replica ? "here" : places.replica, config.engines.count,
		       config.engines.count == 1 ? "" : "s");
		server_places_free(&places);
	}
	server_config_free(&config);
	return error ? command_fail(&why) : EXIT_SUCCESS;
}

int command_config(int argc, char **argv)
{
	int at, status = options_parse(&config_table, argc, argv, NULL, &at), count = argc - at;

	if (status != OPTIONS_RUN)
		return status;
	argv += at;
	if (count >= 1 && count <= 2 && strcmp(argv[0], "check") == 0)
		return check_config_file(count == 2 ? argv[1] : SERVER_CONFIG_DEFAULT);
	if (count == 1 && strcmp(argv[0], "reference") == 0) {
		server_config_print_reference(stdout);
		return EXIT_SUCCESS;
	}
	if (count >= 1 && strcmp(argv[0], "generate") == 0)
		return generate_config_file(count, argv);
	options_help(&config_table, stderr);
	return EXIT_USAGE;
}
