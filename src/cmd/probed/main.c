/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom-probed - the probe registry. Here: its command line; the rest is in src/inspect/probed. */
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/log.h"
#include "base/text.h"
#include "fathom/trace/trace.h"
#include "base/observe/trace/daemon.h"
#include "base/observe/trace/points.gen.h"
#include "inspect/probed/register/daemon.h"
#include "inspect/probed/register/server.h"

enum { EXIT_USAGE = 2 };
enum {
	OPTION_STATE_DIR = 256,
	OPTION_CUSE,
	OPTION_NO_CUSE,
	OPTION_DEVICE,
	OPTION_RECORD_VERSION,
	OPTION_PROVIDER_LINKS,
	OPTION_CHILDREN,
	OPTION_PARSE_TIMEOUT,
	OPTION_LOOK,
	OPTION_SILENT,
	OPTION_LOG_TO,
	OPTION_NAME,
	OPTION_VERSION,
	OPTION_LIMIT, /* and as many more as there are limits */
};

/* What the options are read into. */
static char socket_path[PATH_MAX], state_directory[PATH_MAX];
static struct probed_options options = {
	.socket_path = PROBED_SOCKET_DEFAULT,
	.name = PROBED_NAME_DEFAULT,
	.trace_spec = "all",
	.version = FATHOM_VERSION,
	.device_name = PROBED_DEVICE_DEFAULT,
	.registry.stash.directory = STASH_DIRECTORY_DEFAULT,
};

/* A limit: its option is --limit-NAME. */
static const struct limit {
	const char *option;
	uint32_t *count; /* one of the two */
	uint64_t *bytes;
	const char *text;
} limits[] = {
	{ "limit-objects-process", &options.registry.stash.limits.objects_per_process, NULL,
	  "registrations of one process" },
	{ "limit-objects-user", &options.registry.stash.limits.objects_per_user, NULL, "of one user's processes" },
	{ "limit-objects", &options.registry.stash.limits.objects_total, NULL, "of all" },
	{ "limit-bytes-process", NULL, &options.registry.stash.limits.bytes_per_process, "of their objects, such as 64M" },
	{ "limit-bytes-user", NULL, &options.registry.stash.limits.bytes_per_user, "" },
	{ "limit-bytes", NULL, &options.registry.stash.limits.bytes_total, "" },
	{ "limit-probes-process", &options.registry.stash.limits.probes_per_process, NULL, "probes" },
	{ "limit-probes-user", &options.registry.stash.limits.probes_per_user, NULL, "" },
	{ "limit-probes", &options.registry.stash.limits.probes_total, NULL, "" },
	{ "limit-object-bytes", NULL, &options.registry.object_bytes_max, "of one object (default 64M)" },
	{ "limit-connections", &options.connections_max, NULL, "to the socket (default 512)" },
	{ "limit-connections-user", &options.connections_a_user, NULL, "of one user (default 128; root: all)" },
};

static const struct option long_options[] = {
	{ "socket", required_argument, NULL, 's' },
	{ "state-dir", required_argument, NULL, OPTION_STATE_DIR },
	{ "cuse", no_argument, NULL, OPTION_CUSE },
	{ "no-cuse", no_argument, NULL, OPTION_NO_CUSE },
	{ "device", required_argument, NULL, OPTION_DEVICE },
	{ "record-version", required_argument, NULL, OPTION_RECORD_VERSION },
	{ "provider-links", no_argument, NULL, OPTION_PROVIDER_LINKS },
	{ "children", required_argument, NULL, OPTION_CHILDREN },
	{ "parse-timeout", required_argument, NULL, OPTION_PARSE_TIMEOUT },
	{ "look", required_argument, NULL, OPTION_LOOK },
	{ "silent", required_argument, NULL, OPTION_SILENT },
	{ "tpoint-group", required_argument, NULL, 'e' },
	{ "name", required_argument, NULL, OPTION_NAME },
	{ "log-level", required_argument, NULL, 'L' },
	{ "log-to", required_argument, NULL, OPTION_LOG_TO },
	{ "version", no_argument, NULL, OPTION_VERSION },
	{ "help", no_argument, NULL, 'h' },
};

static void usage(void)
{
	printf("usage: fathom-probed [OPTION...]\n"
	       "\n"
	       "Keeps a registry of the DTrace-style probes of running processes, which `fathom probe registry` shows.\n"
	       "\n"
	       "  -s, --socket PATH            where processes register (default %s)\n"
	       "      --state-dir DIR          where the registry lies (default %s)\n"
	       "      --cuse, --no-cuse        with or without the device for programs that `dtrace -G` made\n"
	       "                               (default: if there is /dev/cuse)\n"
	       "      --device NAME            of the device, below /dev (default %s)\n"
	       "      --record-version N       of the files that DTrace reads, %d to %d (default %d)\n"
	       "      --provider-links         make probes/PROVIDERpid, too\n"
	       "      --children N             so many parsers at once, at most (default 4)\n"
	       "      --parse-timeout TIME     for one object (default 5s)\n"
	       "      --look TIME              how often processes are looked at for files that they unmapped (default "
	       "%ds)\n"
	       "      --silent TIME            how long a connection may say nothing (default %ds)\n"
	       "  -e, --tpoint-group GROUPS    what to trace: names, name:POINT+POINT, all (default), none; `-e help` "
	       "lists them\n"
	       "      --name NAME              of the trace file, /dev/shm/NAME_trace.pid... (default %s)\n"
	       "  -L, --log-level LEVEL        ERROR, WARNING, NOTICE (default), INFO or DEBUG\n"
	       "      --log-to WHERE           stderr (default), json (a line each, on stderr) or syslog\n"
	       "      --version                print the version\n"
	       "  -h, --help                   print this\n"
	       "\n"
	       "limits, each with a number; fathom-probed(8) has their defaults:\n",
	       PROBED_SOCKET_DEFAULT, STASH_DIRECTORY_DEFAULT, PROBED_DEVICE_DEFAULT, STASH_RECORD_VERSION_MIN,
	       STASH_RECORD_VERSION_MAX, STASH_RECORD_VERSION_DEFAULT, REGISTRY_LOOK_SEC, SERVER_SILENT_SEC,
	       PROBED_NAME_DEFAULT);
	for (size_t i = 0; i < ARRAY_COUNT(limits); i++)
		printf("      --%-24s %s\n", limits[i].option, limits[i].text);
}

static int bad_argument(const char *option, const char *wanted)
{
	fprintf(stderr, "fathom-probed: --%s %s: %s\n", option, optarg, wanted);
	return EXIT_USAGE;
}

/* The device's library goes to the root directory. */
static int read_path(const char *option, char *path, const char **path_ret)
{
	char here[PATH_MAX];
	int length;

	if (optarg[0] == '\0')
		return bad_argument(option, "a path has at least one character");
	if (optarg[0] == '/' || !getcwd(here, sizeof(here)))
		length = snprintf(path, PATH_MAX, "%s", optarg);
	else
		length = snprintf(path, PATH_MAX, "%s/%s", here, optarg);
	if (length >= PATH_MAX)
		return bad_argument(option, "the path is too long");
	*path_ret = path;
	return 0;
}

static int read_number(const char *option, uint64_t min, uint64_t max, uint32_t *number_ret)
{
	uint64_t number;
	char wanted[80];

	if (text_parse_u64(optarg, 10, max, &number) == 0 && number >= min) {
		*number_ret = (uint32_t)number;
		return 0;
	}
	snprintf(wanted, sizeof(wanted), "not a number from %llu to %llu", (unsigned long long)min,
		 (unsigned long long)max);
	return bad_argument(option, wanted);
}

static int read_time(const char *option, uint64_t *ns_ret)
{
	uint64_t ns;

	if (text_parse_duration(optarg, &ns) != 0 || ns == 0)
		return bad_argument(option, "not a time, such as 10s or 500ms");
	*ns_ret = ns;
	return 0;
}

static int read_limit(const struct limit *limit)
{
	if (limit->count)
		return read_number(limit->option, 1, UINT32_MAX, limit->count);
	if (text_parse_bytes(optarg, limit->bytes) != 0 || *limit->bytes == 0)
		return bad_argument(limit->option, "not a size, such as 64M");
	return 0;
}

static int read_name(void)
{
	if (strlen(optarg) == 0 || strlen(optarg) >= TRACE_NAME_BYTES_MAX || strchr(optarg, '/') || optarg[0] == '.')
		return bad_argument("name", "a file's name of 1 to 63 characters, without a slash");
	options.name = optarg;
	return 0;
}

static int read_device(void)
{
	if (optarg[0] == '\0' || optarg[0] == '/' || strstr(optarg, "..") || strpbrk(optarg, " ,=\n"))
		return bad_argument("device", "a name below /dev, such as dtrace/helper");
	options.device_name = optarg;
	return 0;
}

static int read_groups(void)
{
	struct fathom_fault why;

	options.trace_spec = optarg;
	if (strcmp(optarg, "help") == 0 || trace_mask_set(optarg, &why) == 0)
		return 0;
	return bad_argument("tpoint-group", why.text);
}

static int read_log_level(void)
{
	enum log_level level;

	if (log_level_parse(optarg, &level) != 0)
		return bad_argument("log-level", "not ERROR, WARNING, NOTICE, INFO or DEBUG");
	log_set_level(level);
	return 0;
}

static int read_log_output(void)
{
	enum log_output output;

	if (log_output_parse(optarg, &output) != 0)
		return bad_argument("log-to", "not " LOG_OUTPUT_NAMES);
	log_set_output(output, "fathom-probed");
	return 0;
}

static int read_option(int option)
{
	if (option >= OPTION_LIMIT)
		return read_limit(&limits[option - OPTION_LIMIT]);
	switch (option) {
	case 's':
		return read_path("socket", socket_path, &options.socket_path);
	case OPTION_STATE_DIR:
		return read_path("state-dir", state_directory, &options.registry.stash.directory);
	case OPTION_CUSE:
		options.cuse = PROBED_CUSE_ON;
		return 0;
	case OPTION_NO_CUSE:
		options.cuse = PROBED_CUSE_OFF;
		return 0;
	case OPTION_DEVICE:
		return read_device();
	case OPTION_RECORD_VERSION:
		return read_number("record-version", STASH_RECORD_VERSION_MIN, STASH_RECORD_VERSION_MAX,
				   &options.registry.stash.record_version);
	case OPTION_PROVIDER_LINKS:
		options.registry.stash.provider_links = true;
		return 0;
	case OPTION_CHILDREN:
		return read_number("children", 1, 64, &options.registry.jail.children_max);
	case OPTION_PARSE_TIMEOUT:
		return read_time("parse-timeout", &options.registry.jail.timeout_ns);
	case OPTION_LOOK:
		return read_time("look", &options.registry.look_ns);
	case OPTION_SILENT:
		return read_time("silent", &options.silent_ns);
	case OPTION_NAME:
		return read_name();
	case 'e':
		return read_groups();
	case 'L':
		return read_log_level();
	case OPTION_LOG_TO:
		return read_log_output();
	default:
		fprintf(stderr, "`fathom-probed --help` lists the options\n");
		return EXIT_USAGE;
	}
}

/* The table above, the limits behind it. */
static void all_options(struct option *all)
{
	memcpy(all, long_options, sizeof(long_options));
	all += ARRAY_COUNT(long_options);
	for (size_t i = 0; i < ARRAY_COUNT(limits); i++)
		all[i] = (struct option){ limits[i].option, required_argument, NULL, OPTION_LIMIT + (int)i };
	all[ARRAY_COUNT(limits)] = (struct option){ 0 };
}

int main(int argc, char **argv)
{
	struct option all[ARRAY_COUNT(long_options) + ARRAY_COUNT(limits) + 1];
	int option, status;

	all_options(all);
	trace_schema_set(&fathom_probed_schema);
	while ((option = getopt_long(argc, argv, "s:e:L:h", all, NULL)) != -1) {
		if (option == 'h') {
			usage();
			return EXIT_SUCCESS;
		}
		if (option == OPTION_VERSION) {
			printf("fathom-probed %s\n", FATHOM_VERSION);
			return EXIT_SUCCESS;
		}
		status = read_option(option);
		if (status)
			return status;
	}
	if (optind < argc) {
		fprintf(stderr, "fathom-probed: %s: there are only options; `fathom-probed --help` lists them\n",
			argv[optind]);
		return EXIT_USAGE;
	}
	if (strcmp(options.trace_spec, "help") == 0) {
		trace_daemon_list_groups();
		return EXIT_SUCCESS;
	}
	return probed_run(&options);
}
