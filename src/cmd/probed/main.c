/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom-probed - the probe registry. Here: its command line; the rest is in src/inspect/probed. */
#include <limits.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/log.h"
#include "base/text.h"
#include "cmd/options/daemon.h"
#include "fathom/trace/trace.h"
#include "base/observe/trace/daemon.h"
#include "base/observe/trace/points.gen.h"
#include "inspect/probed/register/daemon.h"
#include "inspect/probed/register/server.h"

/* What the rows of the table fill. Paths are stored as absolute ones. */
struct probed_command_line {
	struct probed_options probed;
	struct daemon_options daemon;
	char socket_path[PATH_MAX], state_directory[PATH_MAX];
};

/* Make `text` absolute in `path`: the library of the device changes to the root directory. */
static int make_absolute(const char *text, char path[PATH_MAX], struct fathom_fault *why)
{
	char here[PATH_MAX];
	int length;

	if (text[0] == '\0')
		return fault(why, -EINVAL, "is not a path: it has no characters");
	if (text[0] == '/' || !getcwd(here, sizeof(here)))
		length = snprintf(path, PATH_MAX, "%s", text);
	else
		length = snprintf(path, PATH_MAX, "%s/%s", here, text);
	return length < PATH_MAX ? 0 : fault(why, -EINVAL, "is too long for a path");
}

static int read_socket(void *to, const char *text, struct fathom_fault *why)
{
	struct probed_command_line *line = to;

	line->probed.socket_path = line->socket_path;
	return make_absolute(text, line->socket_path, why);
}

static int read_state_directory(void *to, const char *text, struct fathom_fault *why)
{
	struct probed_command_line *line = to;

	line->probed.registry.stash.directory = line->state_directory;
	return make_absolute(text, line->state_directory, why);
}

static int read_cuse(void *to, const char *text, struct fathom_fault *why)
{
	*(enum probed_cuse *)to = PROBED_CUSE_ON;
	return 0;
}

static int read_no_cuse(void *to, const char *text, struct fathom_fault *why)
{
	*(enum probed_cuse *)to = PROBED_CUSE_OFF;
	return 0;
}

static int read_device(void *to, const char *text, struct fathom_fault *why)
{
	*(const char **)to = text;
	if (text[0] == '\0' || text[0] == '/' || strstr(text, "..") || strpbrk(text, " ,=\n"))
		return fault(why, -EINVAL, "is not a name below /dev, such as dtrace/helper");
	return 0;
}

static_assert((int)STASH_RECORD_VERSION_MIN == 1 && (int)STASH_RECORD_VERSION_MAX == 3 &&
		      (int)STASH_RECORD_VERSION_DEFAULT == 3,
	      "as the help says");
static_assert((int)REGISTRY_CHECK_SEC == 30 && (int)SERVER_SILENT_SEC == 10, "as the help says");

#define AT(member) .offset = offsetof(struct probed_command_line, probed.member)
#define LIMIT_AT(member) AT(registry.stash.limits.member)
#define LIMIT_ROW(name_, member, help_)                                                                                    \
	{                                                                                                                  \
		name_, 0, OPTION_NUMBER32, "N", help_, member, OPTION_RANGE(1, UINT32_MAX)                                 \
	}
#define LIMIT_BYTES_ROW(name_, member, help_)                                                                              \
	{                                                                                                                  \
		name_, 0, OPTION_SIZE, "BYTES", help_, member, .min = 1                                                    \
	}

static const struct option_row rows[] = {
	{ "socket", 's', OPTION_CALL, "PATH", "socket at which processes register (default " PROBED_SOCKET_DEFAULT ")",
	  .read = read_socket, .values = OPTION_FILES },
	{ "state-dir", 0, OPTION_CALL, "DIR", "folder of the registry (default " STASH_DIRECTORY_DEFAULT ")",
	  .read = read_state_directory, .values = OPTION_FOLDERS },
	{ "cuse", 0, OPTION_CALL, NULL,
	  "provide the device for programs that `dtrace -G` made (default: only if /dev/cuse exists)", AT(cuse),
	  .read = read_cuse },
	{ "no-cuse", 0, OPTION_CALL, NULL, "do not provide it", AT(cuse), .read = read_no_cuse },
	{ "device", 0, OPTION_CALL, "NAME", "name of the device, below /dev (default " PROBED_DEVICE_DEFAULT ")",
	  AT(device_name), .read = read_device },
	{ "record-version", 0, OPTION_NUMBER32, "N", "version of the files that DTrace reads, 1 to 3 (default 3)",
	  AT(registry.stash.record_version), OPTION_RANGE(STASH_RECORD_VERSION_MIN, STASH_RECORD_VERSION_MAX) },
	{ "provider-links", 0, OPTION_FLAG, NULL, "also create probes/PROVIDERpid", AT(registry.stash.provider_links) },
	{ "children", 0, OPTION_NUMBER32, "N", "maximum of parsers at a time (default 4)", AT(registry.jail.children_max),
	  OPTION_RANGE(1, 64) },
	{ "parse-timeout", 0, OPTION_DURATION, "TIME", "time limit for parsing one object (default 5s)",
	  AT(registry.jail.timeout_ns), .min = 1 },
	{ "look", 0, OPTION_DURATION, "TIME", "how often processes are checked for files that they unmapped (default 30s)",
	  AT(registry.check_ns), .min = 1 },
	{ "silent", 0, OPTION_DURATION, "TIME", "time after which a silent connection is closed (default 10s)",
	  AT(silent_ns), .min = 1 },
	DAEMON_OPTION_ROWS(struct probed_command_line, daemon, PROBED_NAME_DEFAULT),
	{ "version", 0, OPTION_PRINT_VERSION, .help = "print the version" },
	OPTION_HELP_ROW,
	{ .type = OPTION_HEADING, .help = "Limits of registrations and connections; fathom-probed(8) has the defaults:" },
	LIMIT_ROW("limit-objects-process", LIMIT_AT(objects_per_process), "registrations of one process"),
	LIMIT_ROW("limit-objects-user", LIMIT_AT(objects_per_user), "registrations of one user's processes"),
	LIMIT_ROW("limit-objects", LIMIT_AT(objects_total), "all registrations"),
	LIMIT_BYTES_ROW("limit-bytes-process", LIMIT_AT(bytes_per_process), "size of one process's objects, such as 64M"),
	LIMIT_BYTES_ROW("limit-bytes-user", LIMIT_AT(bytes_per_user), "size of the objects of one user's processes"),
	LIMIT_BYTES_ROW("limit-bytes", LIMIT_AT(bytes_total), "size of all objects"),
	LIMIT_ROW("limit-probes-process", LIMIT_AT(probes_per_process), "probes of one process"),
	LIMIT_ROW("limit-probes-user", LIMIT_AT(probes_per_user), "probes of one user's processes"),
	LIMIT_ROW("limit-probes", LIMIT_AT(probes_total), "all probes"),
	LIMIT_BYTES_ROW("limit-object-bytes", AT(registry.object_bytes_max), "size of one object (default 64M)"),
	LIMIT_ROW("limit-connections", AT(connections_max), "connections to the socket (default 512)"),
	LIMIT_ROW("limit-connections-user", AT(connections_a_user), "connections of one user (default 128; root: all)"),
};

static const struct option_table probed_table = {
	.name = "fathom-probed",
	.usage = "fathom-probed [OPTION...]",
	.about = "Keep a registry of the DTrace-style probes of running processes; `fathom probe registry` shows it.",
	OPTION_ROWS(rows),
	.version = FATHOM_VERSION,
};

int main(int argc, char **argv)
{
	static struct probed_command_line line = {
		.probed = { .socket_path = PROBED_SOCKET_DEFAULT,
			    .version = FATHOM_VERSION,
			    .device_name = PROBED_DEVICE_DEFAULT,
			    .registry.stash.directory = STASH_DIRECTORY_DEFAULT },
		.daemon = { .trace_spec = "all", .name = PROBED_NAME_DEFAULT },
	};
	int at, status;

	if (options_offer(&probed_table, argc, argv))
		return EXIT_SUCCESS;
	trace_schema_set(&fathom_probed_schema);
	status = options_parse(&probed_table, argc, argv, &line, &at);
	if (status != OPTIONS_RUN)
		return status;
	if (at < argc)
		return options_reject(&probed_table, "unexpected argument: %s", argv[at]);
	if (daemon_print_trace_groups(&line.daemon))
		return EXIT_SUCCESS;
	daemon_set_log(&line.daemon, "fathom-probed");
	line.probed.trace_spec = line.daemon.trace_spec;
	line.probed.name = line.daemon.name;
	return probed_run(&line.probed);
}
