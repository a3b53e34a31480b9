/* SPDX-License-Identifier: BSD-2-Clause */
/* `fathom-server config`: check, reference, generate. They need no running server. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/text.h"
#include "cmd/server/command.h"
#include "control/hostlist/rankset.h"
#include "control/server/server.h"
#include "control/status/certificate.h"

static int print_usage_error(const char *usage)
{
	fputs(usage, stderr);
	return EXIT_USAGE;
}

static const char config_usage[] =
	"usage: fathom-server config check [FILE]\n"
	"       fathom-server config reference\n"
	"       fathom-server config generate [OPTION...]\n"
	"\n"
	"check says what is wrong with a configuration (default " SERVER_CONFIG_DEFAULT
	"). reference prints all keys as a page.\n"
	"generate writes a configuration for this host on standard output:\n"
	"\n"
	"  -r, --mgmt-svc-replicas HOST   the management host (default this one)\n"
	"  -a, --access-points HOST       the same by its older name\n"
	"  -i, --interface NAME           by which others reach this one (default: the first that has an address)\n"
	"  -c, --net-class CLASS          only by one of this class: ethernet, infiniband\n"
	"  -f, --fabric-ports PORTS       of the engines, lowest first, as 4420-4421,4500 (default: from 4420 on)\n"
	"  -m, --control-metadata-path DIR  superblocks and database there, not with the engines' storage\n"
	"  -e, --num-engines N            so many engines (default: one for each block device that is free)\n"
	"  -F, --folder DIR               storage of class file in folders there, instead of block devices\n"
	"  -s, --size BYTES               of each of these (default 16GiB)\n"
	"  -p, --port N                   where the server listens (default 10001)\n"
	"      --with-loop                take loop devices, too\n"
	"      --insecure                 without certificates\n"
	"\n"
	"What block devices hold only root can see.\n";

enum { OPTION_WITH_LOOP = 256, OPTION_INSECURE };

static const struct option generate_options[] = {
	{ "mgmt-svc-replicas", required_argument, NULL, 'r' },
	{ "access-points", required_argument, NULL, 'a' },
	{ "interface", required_argument, NULL, 'i' },
	{ "net-class", required_argument, NULL, 'c' },
	{ "fabric-ports", required_argument, NULL, 'f' },
	{ "control-metadata-path", required_argument, NULL, 'm' },
	{ "num-engines", required_argument, NULL, 'e' },
	{ "folder", required_argument, NULL, 'F' },
	{ "size", required_argument, NULL, 's' },
	{ "port", required_argument, NULL, 'p' },
	{ "with-loop", no_argument, NULL, OPTION_WITH_LOOP },
	{ "insecure", no_argument, NULL, OPTION_INSECURE },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

static int reject_value(const char *option)
{
	fprintf(stderr, "fathom-server: %s: --%s cannot be that\n", optarg, option);
	return EXIT_USAGE;
}

/* A set of ports has the syntax of a set of ranks. */
static bool read_ports(const char *text, struct rank_set *ports)
{
	rank_set_deinit(ports);
	return rank_set_parse(text, ports, NULL) == 0 && ports->count > 0 && ports->ranks[0] > 0 &&
	       ports->ranks[ports->count - 1] <= UINT16_MAX;
}

/* 0: continue; else exit with the result minus 1. */
static int read_generate_option(int option, struct generate_options *choice, struct rank_set *ports)
{
	switch (option) {
	case 'r':
	case 'a':
		choice->replica = optarg;
		return 0;
	case 'c':
		choice->net_class = optarg;
		return strcmp(optarg, "ethernet") == 0 || strcmp(optarg, "infiniband") == 0 ? 0
											    : 1 + reject_value("net-class");
	case 'f':
		return read_ports(optarg, ports) ? 0 : 1 + reject_value("fabric-ports");
	case 'm':
		choice->metadata = optarg;
		return optarg[0] == '/' ? 0 : 1 + reject_value("control-metadata-path");
	case 'i':
		choice->interface = optarg;
		return 0;
	case 'e':
		if (text_parse_u64(optarg, 10, SERVER_ENGINES_MAX, &choice->engines) != 0 || choice->engines == 0)
			return 1 + reject_value("num-engines");
		return 0;
	case 'F':
		choice->folder = optarg;
		return optarg[0] == '/' ? 0 : 1 + reject_value("folder");
	case 's':
		return text_parse_bytes(optarg, &choice->folder_bytes) == 0 ? 0 : 1 + reject_value("size");
	case 'p':
		if (text_parse_u64(optarg, 10, 65535, &choice->port) != 0 || choice->port == 0)
			return 1 + reject_value("port");
		return 0;
	case OPTION_WITH_LOOP:
		choice->with_loop = true;
		return 0;
	case OPTION_INSECURE:
		choice->is_insecure = true;
		return 0;
	case 'h':
		fputs(config_usage, stdout);
		return 1 + EXIT_SUCCESS;
	default:
		return 1 + print_usage_error(config_usage);
	}
}

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

static int generate_config(int argc, char **argv)
{
	struct generate_options choice = { .port = SERVER_PORT_DEFAULT, .folder_bytes = 16ull << 30 };
	struct rank_set ports = { 0 };
	int option, status = 0;

	while (status == 0 && (option = getopt_long(argc, argv, "r:a:i:c:f:m:e:F:s:p:h", generate_options, NULL)) != -1)
		status = read_generate_option(option, &choice, &ports);
	if (status == 0) {
		choice.fabric_ports = ports.count ? ports.ranks : NULL;
		choice.fabric_port_count = ports.count;
		status = 1 + (optind == argc ? print_generated(&choice) : print_usage_error(config_usage));
	}
	rank_set_deinit(&ports);
	return status - 1;
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
static int check_certificates(const struct server_config *config, struct fathom_fault *why)
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
			printf("not there yet, and the server does not start without it: %s\n", paths[i]);
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

static int check_config(const char *path)
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
		error = check_certificates(&config, &why);
		if (error)
			server_places_free(&places);
	}
	if (!error) {
		printf("%s is right: system %s at %s, management service %s, %zu engine%s\n", path, config.name,
		       places.control, places.is_replica ? "here" : places.replica, config.engines.count,
		       config.engines.count == 1 ? "" : "s");
		server_places_free(&places);
	}
	server_config_free(&config);
	return error ? command_fail(&why) : EXIT_SUCCESS;
}

int command_config(int argc, char **argv)
{
	if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
		fputs(config_usage, stdout);
		return EXIT_SUCCESS;
	}
	if (argc >= 2 && argc <= 3 && strcmp(argv[1], "check") == 0)
		return check_config(argc == 3 ? argv[2] : SERVER_CONFIG_DEFAULT);
	if (argc == 2 && strcmp(argv[1], "reference") == 0) {
		server_config_print_reference(stdout);
		return EXIT_SUCCESS;
	}
	if (argc >= 2 && strcmp(argv[1], "generate") == 0)
		return generate_config(argc - 1, argv + 1);
	return print_usage_error(config_usage);
}
