/* SPDX-License-Identifier: BSD-2-Clause */
/* rpc - `fathom rpc`: calls methods of an engine through its control socket, as SPDK's rpc.py does; see client.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "cmd/fathom/command.h"
#include "cmd/fathom/rpc/client.h"
#include "cmd/fathom/rpc/rpc_options.gen.inc"

#define TIMEOUT_SEC_DEFAULT 60.0

enum { RETRIES_MAX = 1000000 };

struct settings {
	struct rpc_client_options client;
	bool server;
};

static int read_rpc_port(void *values, const char *text, struct fathom_fault *why)
{
	struct settings *settings = values;
	uint64_t port;

	if (text_parse_u64(text, 10, UINT16_MAX, &port) < 0 || port == 0)
		return fault(why, -EINVAL, "is not a port from 1 to 65535");
	settings->client.port = text;
	return 0;
}

static int read_timeout(void *values, const char *text, struct fathom_fault *why)
{
	struct settings *settings = values;
	char *end;
	double timeout = strtod(text, &end);

	if (*text == '\0' || *end != '\0' || !(timeout > 0 && timeout < 1e9))
		return fault(why, -EINVAL, "is not a number of seconds above 0");
	settings->client.timeout_sec = timeout;
	return 0;
}

static int read_verbose(void *values, const char *text, struct fathom_fault *why)
{
	struct settings *settings = values;

	if (strcmp(text, "DEBUG") != 0 && strcmp(text, "INFO") != 0 && strcmp(text, "ERROR") != 0)
		return fault(why, -EINVAL, "is not DEBUG, INFO or ERROR");
	settings->client.verbose = strcmp(text, "ERROR") != 0;
	return 0;
}

static const struct option_row option_rows[] = {
	{ .letter = 's',
	  .type = OPTION_TEXT,
	  .argument = "ADDRESS",
	  .offset = offsetof(struct settings, client.address),
	  .help = "control socket, or an IP address; default " RPC_SOCKET_DEFAULT,
	  .values = OPTION_FILES },
	{ .letter = 'p',
	  .type = OPTION_CALL,
	  .argument = "PORT",
	  .read = read_rpc_port,
	  .help = "port of an IP address; default " RPC_PORT_DEFAULT },
	{ .letter = 't',
	  .type = OPTION_CALL,
	  .argument = "SECONDS",
	  .read = read_timeout,
	  .help = "time limit for each response; default 60" },
	{ .letter = 'r',
	  .type = OPTION_NUMBER32,
	  .argument = "COUNT",
	  OPTION_RANGE(0, RETRIES_MAX),
	  .offset = offsetof(struct settings, client.retries),
	  .help = "retries of a failed connection, one every 0.2 s; default 0" },
	{ .letter = 'v',
	  .type = OPTION_FLAG,
	  .offset = offsetof(struct settings, client.verbose),
	  .help = "show requests and responses" },
	{ .name = "verbose",
	  .type = OPTION_CALL,
	  .argument = "LEVEL",
	  .read = read_verbose,
	  .values = "DEBUG INFO ERROR",
	  .help = "the same for INFO and DEBUG; no effect for ERROR" },
	{ .name = "dry-run",
	  .type = OPTION_FLAG,
	  .offset = offsetof(struct settings, client.dry_run),
	  .help = "show the request and do not send it" },
	{ .name = "server",
	  .type = OPTION_FLAG,
	  .offset = offsetof(struct settings, server),
	  .help = "read command lines until the end of the input; print **STATUS=0 or **STATUS=1 after each" },
	{ "help", 'h', OPTION_PRINT_HELP, .help = "print this text; after COMMAND: its arguments" },
};

const struct option_table rpc_table = {
	.name = "fathom rpc",
	.usage = "fathom rpc [OPTION...] COMMAND [ARGUMENT...]\n"
		 "fathom rpc [OPTION...] METHOD --params '{...}'\n"
		 "fathom rpc [OPTION...] < FILE",
	.about = "Calls methods of an engine, as SPDK's rpc.py does. FILE has a command on each line; # begins a comment. "
		 "docs/json-rpc.md describes the methods.",
	OPTION_ROWS(option_rows),
	OPTION_COMMANDS(rpc_option_commands),
	.in_front = true,
};

static int print_rpc_error(const char *what, const char *value)
{
	fprintf(stderr, "fathom rpc: %s%s%s\n", what, value ? ": " : "", value ? value : "");
	return EXIT_USAGE;
}

/* ---- one command ---- */

static void print_rpc_result(enum rpc_output output, const json_t *result)
{
	char *text = rpc_json_text(result, 2), *begin = text;
	size_t bytes = strlen(text);

	if (output == RPC_OUTPUT_RAW) {
		for (; bytes > 0 && *begin == '"'; bytes--)
			begin++;
		while (bytes > 0 && begin[bytes - 1] == '"')
			bytes--;
	}
	printf("%.*s\n", (int)bytes, begin);
	free(text);
}

/* 0, or an error; then `text_ret` is the text to print, borrowed from `client` or `why`. */
static int make_rpc_call(struct rpc_client *client, const struct rpc_call *call, const char **text_ret,
			 struct fathom_fault *why)
{
	/* a method outside the table prints its result */
	enum rpc_output output = call->command ? call->command->output : RPC_OUTPUT_JSON;
	json_t *result = NULL;
	int error;

	if (call->command && call->command->run)
		error = call->command->run(client, call->params, why);
	else
		error = rpc_client_call(client, call->method, call->params, &result, why);
	if (error == 0 && result && output != RPC_OUTPUT_NONE && !rpc_client_is_dry(client))
		print_rpc_result(output, result);
	json_decref(result);
	fflush(stdout);
	*text_ret = error == -EREMOTEIO ? rpc_client_error(client) : why->text;
	return error;
}

/* Parse a command's arguments. -1: continue with `call_ret`. Otherwise an exit status; messages were printed. */
static int parse_rpc_command(int argc, char **argv, struct rpc_call *call_ret)
{
	struct fathom_fault why;

	switch (rpc_args_read(argc, argv, call_ret, &why)) {
	case RPC_ARGS_HELP:
		rpc_command_usage(call_ret->command, stdout);
		return EXIT_SUCCESS;
	case RPC_ARGS_BAD:
		fprintf(stderr, "fathom rpc: %s: %s\n", argv[0], why.text);
		if (rpc_command_find(argv[0]))
			fprintf(stderr, "`fathom rpc %s --help` shows its arguments\n", argv[0]);
		return EXIT_USAGE;
	default:
		return -1;
	}
}

static int run_rpc_command(const struct settings *settings, int argc, char **argv)
{
	struct rpc_client *client = NULL;
	struct rpc_call call;
	struct fathom_fault why;
	const char *text;
	int status = parse_rpc_command(argc, argv, &call);

	if (status >= 0)
		return status;
	text = why.text;
	if (rpc_client_open(&settings->client, &client, &why) || make_rpc_call(client, &call, &text, &why)) {
		printf("%s\n", text);
		status = EXIT_FAILURE;
	} else {
		status = EXIT_SUCCESS;
	}
	rpc_client_close(client);
	rpc_call_deinit(&call);
	return status;
}

/* ---- many commands ---- */

/* Append a line to `done` (taken), the lines so far, which are printed with an error. Pair: free(). */
static char *append_line(char *done, const char *line)
{
	char *longer;

	must(asprintf(&longer, "%s%s%s", done ? done : "", done ? "\n" : "", line) >= 0);
	free(done);
	return longer;
}

/* Run one line of a script over `client`. 0, or the exit status that ends the script. */
static int run_script_line(struct rpc_client *client, const char *line, const char *lines)
{
	struct rpc_call call;
	struct fathom_fault why;
	const char *text;
	char **words = NULL;
	int count, status = 0;

	if (line[strspn(line, " \t")] == '#')
		return 0;
	if (rpc_words_split(line, &words, &count, &why))
		return print_rpc_error(why.text, line);
	must(count > 0);
	if (words[0][0] == '-') {
		status = print_rpc_error("options are allowed on the command line, not in a script", words[0]);
	} else {
		status = parse_rpc_command(count, words, &call);
		if (status < 0) {
			status = make_rpc_call(client, &call, &text, &why) ? EXIT_FAILURE : 0;
			if (status)
				printf("Exception:\n%s <<<\n%s\n", lines, text);
			rpc_call_deinit(&call);
		}
	}
	rpc_words_free(words);
	return status;
}

static int run_rpc_script(const struct settings *settings)
{
	struct rpc_client *client;
	struct fathom_fault why;
	char *line = NULL, *lines = NULL;
	size_t room = 0;
	int status = 0, number = 0;

	if (rpc_client_open(&settings->client, &client, &why)) {
		printf("%s\n", why.text);
		return EXIT_FAILURE;
	}
	while (status == 0 && getline(&line, &room, stdin) >= 0) {
		size_t bytes = strlen(line);

		number++;
		while (bytes > 0 && strchr(" \t\r\n", line[bytes - 1]))
			line[--bytes] = '\0';
		if (bytes == 0)
			continue;
		lines = append_line(lines, line);
		status = run_script_line(client, line, lines);
		if (status == EXIT_USAGE)
			fprintf(stderr, "fathom rpc: error in line %d: %s\n", number, line);
	}
	free(line);
	free(lines);
	rpc_client_close(client);
	return status;
}

/* Run each line like a separate `fathom rpc`; `program` is our argv[0]. */
static int run_command_server(const struct settings *settings, char *program)
{
	char *line = NULL;
	size_t room = 0;

	while (getline(&line, &room, stdin) >= 0) {
		char **words = NULL, **argv;
		struct settings own = *settings;
		struct fathom_fault why;
		int count, at, status;

		if (rpc_words_split(line, &words, &count, &why)) {
			fprintf(stderr, "fathom rpc: %s\n", why.text);
			status = EXIT_USAGE;
		} else if (count == 0) {
			status = EXIT_SUCCESS;
		} else {
			/* options_parse() expects the program's name first */
			argv = calloc((size_t)count + 2, sizeof(*argv));
			must(argv);
			memcpy(argv + 1, words, (size_t)count * sizeof(*argv));
			argv[0] = program;
			status = options_parse(&rpc_table, count + 1, argv, &own, &at);
			if (status == OPTIONS_RUN)
				status = at <= count ? run_rpc_command(&own, count + 1 - at, argv + at) : EXIT_SUCCESS;
			free(argv);
		}
		rpc_words_free(words);
		printf("**STATUS=%d\n", status > 0);
		fflush(stdout);
	}
	free(line);
	return EXIT_SUCCESS;
}

int cmd_rpc(int argc, char **argv)
{
	struct settings settings = {
		.client = { .address = RPC_SOCKET_DEFAULT, .port = RPC_PORT_DEFAULT, .timeout_sec = TIMEOUT_SEC_DEFAULT },
	};
	int at, status = options_parse(&rpc_table, argc, argv, &settings, &at);

	if (status != OPTIONS_RUN)
		return status;
	if (settings.server)
		return run_command_server(&settings, argv[0]);
	if (at < argc)
		return run_rpc_command(&settings, argc - at, argv + at);
	if (isatty(STDIN_FILENO)) {
		options_help(&rpc_table, stdout);
		return EXIT_FAILURE;
	}
	return run_rpc_script(&settings);
}
