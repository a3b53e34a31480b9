/* SPDX-License-Identifier: BSD-2-Clause */
/* The options of the operator's commands: one table for parsing and for --help. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "cmd/fathom/control/control.h"

enum { LETTERS_BYTES = 3 * CONTROL_OPTIONS + 2, OPTION_WIDTH = 32 };

const struct control_option_row control_option_rows[CONTROL_OPTIONS] = {
	[OPTION_CONFIG] = { "config-path", 'o', "FILE",
			    "configuration; else ~/.fathom_control.yml, /etc/fathom/fathom_control.yml" },
	[OPTION_HOSTS] = { "host-list", 'l', "HOSTS",
			   "ask these hosts, as node[1-4,7]:10001, not those of the configuration" },
	[OPTION_INSECURE] = { "insecure", 'i', NULL, "talk without certificates" },
	[OPTION_JSON] = { "json", 'j', NULL, "print JSON" },
	[OPTION_TIMEOUT] = { "timeout", 0, "SECONDS", "for all of it (default 300)" },
	[OPTION_DEBUG] = { "debug", 'd', NULL, "log what is asked of whom, and how it ends" },
	[OPTION_LOG_FILE] = { "log-file", 0, "FILE", "append that log to a file, not to standard error" },
	[OPTION_JSON_LOGGING] = { "json-logging", 'J', NULL, "log lines are JSON objects" },
	[OPTION_HELP] = { "help", 'h', NULL, "print this" },
	[OPTION_VERBOSE] = { "verbose", 'v', NULL, "say more" },
	[OPTION_RANKS] = { "ranks", 'r', "RANKS", "only these, as 0-3,7" },
	[OPTION_RANK_HOSTS] = { "rank-hosts", 0, "HOSTS", "only the ranks of these hosts" },
	[OPTION_NOT_OK] = { "not-ok", 0, NULL, "only ranks that have not joined" },
	[OPTION_WITH_STATES] = { "with-states", 0, "STATES", "only ranks in one of these states, as joined,errored" },
	[OPTION_DOWN_REPLICAS] = { "down-replicas", 'N', NULL, "print only replicas that do not answer" },
	[OPTION_FORCE] = { "force", 'f', NULL, "do it although something is lost" },
	[OPTION_FULL] = { "full", 0, NULL, "let engines finish what they have begun (the default)" },
	[OPTION_INSTANCES] = { "instances", 0, "INSTANCES", "only these engines of each host, as 0,2-3" },
	[OPTION_NEW_STORAGE] = { "new-storage", 0, NULL,
				 "also where the folder does not exist, or is not the storage that was there" },
	[OPTION_REPLACE] = { "replace", 0, NULL, "take over the ranks that were here before" },
	[OPTION_IGNORE_ADMIN_EXCLUDED] = { "ignore-admin-excluded", 0, NULL,
					   "leave out ranks that were excluded by an operator" },
	[OPTION_FOLLOW] = { "follow", 0, NULL, "go on printing what happens, until interrupted" },
	[OPTION_AFTER] = { "after", 0, "NUMBER", "only events behind this one" },
	[OPTION_COUNT] = { "count", 'n', "NUMBER", "only the last of them (default: all that are kept)" },
	[OPTION_ALL] = { "all", 'a', NULL, "all that hosts have, of whatever kind and use, as a table" },
	[OPTION_PROVIDER] = { "provider", 'p', "NAME", "only interfaces for this provider; `all`: every one" },
	[OPTION_RANK] = { "rank", 'r', "RANK", "only devices of this rank" },
	[OPTION_UUID] = { "uuid", 'u', "UUID", "only this device" },
	[OPTION_SHOW_EVICTED] = { "show-evicted", 'e', NULL, "only devices that were taken out of use" },
	[OPTION_SHOW_USABLE] = { "show-usable", 'u', NULL, "what data can use, without metadata's part" },
	[OPTION_NVME_HEALTH] = { "nvme-health", 'n', NULL, "with state and serial number of each device" },
	[OPTION_MASKS] = { "masks", 'm', "MASKS", "a level for all lines, as DEBUG; else that of the configuration" },
	[OPTION_STREAMS] = { "streams", 'd', "STREAMS", "debug streams; else those of the configuration" },
	[OPTION_SUBSYSTEMS] = { "subsystems", 's', "NAMES", "subsystems that log; else those of the configuration" },
	[OPTION_TARGET_FOLDER] = { "target-folder", 't', "FOLDER", "where archives go (default fathom-logs)" },
	[OPTION_MS_REPLICAS] = { "ms-replicas", 'r', "HOST",
				 "host of the management service (default: the first that is asked)" },
	[OPTION_ACCESS_POINTS] = { "access-points", 'a', "HOST", "the same by its older name" },
	[OPTION_NUM_ENGINES] = { "num-engines", 'e', "COUNT", "engines of each host (default: one for each device)" },
	[OPTION_INTERFACE] = { "interface", 0, "NAME",
			       "by which others reach it (default: the first that has an address)" },
	[OPTION_NET_CLASS] = { "net-class", 'c', "CLASS", "only by one of this class: ethernet, infiniband" },
	[OPTION_FABRIC_PORTS] = { "fabric-ports", 'f', "PORTS",
				  "of its engines, lowest first, as 4420-4421,4500 (default: from 4420 on)" },
	[OPTION_METADATA_PATH] = { "control-metadata-path", 'm', "FOLDER",
				   "superblocks and database there, not with the engines' storage" },
	[OPTION_FOLDER] = { "folder", 'F', "FOLDER", "engines on files there, not on block devices" },
	[OPTION_FILE_SIZE] = { "size", 0, "BYTES", "of each of these files (default 16GiB)" },
	[OPTION_SERVER_PORT] = { "port", 'p', "PORT", "where the servers are to listen (default 10001)" },
	[OPTION_OUTPUT] = { "output", 'O', "FILE", "write it there, where no file is yet" },
	[OPTION_START_DATE] = { "start-date", 'D', "DATE", "only lines of logs from this day on, as 2026-11-22" },
	[OPTION_END_DATE] = { "end-date", 'F', "DATE", "and up to this day" },
	[OPTION_LOG_START_TIME] = { "log-start-time", 'S', "TIME", "from this time of the first day, as 19:00:00" },
	[OPTION_LOG_END_TIME] = { "log-end-time", 'E', "TIME", "and up to this time of the last day" },
	[OPTION_LOG_TYPE] = { "log-type", 'e', "TYPES", "logs alone: control, server (engines), admin (helpers)" },
	[OPTION_EXTRA_LOGS_DIR] = { "extra-logs-dir", 'c', "FOLDER", "the files in this folder of each host, too" },
	[OPTION_STOP_ON_ERROR] = { "stop-on-error", 's', NULL, "begin no other host when one has failed" },
	[OPTION_ARCHIVE] = { "archive", 'z', NULL, "as archives, which it always does" },
};

/* 0: no letter, or another option of `allowed` behind it has the same one: `server set-logmasks -d`. */
static char letter_of(uint64_t allowed, int option)
{
	char letter = control_option_rows[option].letter;

	for (int i = option + 1; i < CONTROL_OPTIONS && letter; i++) {
		if ((allowed & BIT(i)) && control_option_rows[i].letter == letter)
			return 0;
	}
	return letter;
}

/* Convert `allowed` for getopt_long(). */
static void fill_getopt_tables(uint64_t allowed, bool in_front, struct option *options, char *letters)
{
	size_t count = 0;

	if (in_front)
		*letters++ = '+';
	for (int i = 0; i < CONTROL_OPTIONS; i++) {
		const struct control_option_row *row = &control_option_rows[i];

		if (!(allowed & BIT(i)))
			continue;
		options[count++] = (struct option){ row->name, row->argument ? required_argument : no_argument, NULL,
						    256 + i };
		if (!letter_of(allowed, i))
			continue;
		*letters++ = row->letter;
		if (row->argument)
			*letters++ = ':';
	}
	options[count] = (struct option){ 0 };
	*letters = '\0';
}

static int option_of(uint64_t allowed, int found)
{
	for (int i = 0; i < CONTROL_OPTIONS; i++) {
		if ((allowed & BIT(i)) && (found == 256 + i || (found < 256 && letter_of(allowed, i) == found)))
			return i;
	}
	return -1;
}

bool control_options_read(uint64_t allowed, bool in_front, int argc, char **argv, struct control_values *values,
			  int *at_ret)
{
	struct option options[CONTROL_OPTIONS + 1];
	char letters[LETTERS_BYTES];
	int found;

	fill_getopt_tables(allowed, in_front, options, letters);
	optind = 0; /* restart getopt */
	while ((found = getopt_long(argc, argv, letters, options, NULL)) != -1) {
		int option = option_of(allowed, found);

		if (option < 0) {
			fprintf(stderr, "`%s --help` lists the options\n", argv[0]);
			return false;
		}
		values->given |= BIT(option);
		values->text[option] = optarg;
	}
	*at_ret = optind;
	return true;
}

void control_options_print(uint64_t options)
{
	for (int i = 0; i < CONTROL_OPTIONS; i++) {
		const struct control_option_row *row = &control_option_rows[i];
		char letter[8] = "    ", name[64];

		if (!(options & BIT(i)))
			continue;
		if (letter_of(options, i))
			snprintf(letter, sizeof(letter), "-%c, ", row->letter);
		snprintf(name, sizeof(name), "%s--%s%s%s", letter, row->name, row->argument ? " " : "",
			 row->argument ? row->argument : "");
		printf("  %-*s %s\n", OPTION_WIDTH, name, row->help);
	}
}
