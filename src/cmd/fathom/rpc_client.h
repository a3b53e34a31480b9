/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rpc_client - `fathom rpc` in parts, by file:
 *
 *   rpc.c           its own options; one command, a script on standard input, a server of commands
 *   rpc_commands.c  the commands: what arguments each takes, and what becomes of them in the request. Two tables.
 *   rpc_args.c      a command line by those tables -> {"method": ..., "params": ...}. Pure.
 *   rpc_connect.c   a connection: requests and responses, with a time limit
 *   rpc_config.c    save_config and load_config, which are many requests
 *
 * Command lines are those that SPDK's rpc.py takes, the requests are those that it sends, and what is printed is what it
 * prints: scripts need to change one word.
 */
#ifndef CMD_FATHOM_RPC_CLIENT_H
#define CMD_FATHOM_RPC_CLIENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/fault.h"

/* ---- commands ---- */

enum rpc_arg_type {
	RPC_ARG_STRING,
	RPC_ARG_INT, /* decimal */
	RPC_ARG_HEX, /* 64 bits, with or without 0x */
	RPC_ARG_FLOAT,
	RPC_ARG_LIST,	/* a,b,c */
	RPC_ARG_TRUE,	/* takes no value: false, true when given */
	RPC_ARG_FALSE,	/* the other way round */
	RPC_ARG_YES_NO, /* --name or --no-name; absent when neither is given */
};

struct rpc_arg {
	const char *flag;      /* "-t"; NULL: none */
	const char *long_flag; /* "--trtype"; NULL with flag NULL: by position */
	const char *key;       /* in the request */
	enum rpc_arg_type type;
	bool required;
	bool send_false;     /* YES_NO: not given is false and not absent */
	const char *group;   /* the object in the request that it goes into; NULL: params itself */
	const char *choices; /* "a b c"; NULL: any */
	const char *help;
};

enum rpc_output {
	RPC_OUTPUT_NONE, /* success is silent */
	RPC_OUTPUT_JSON, /* as JSON */
	RPC_OUTPUT_RAW,	 /* as JSON, a string without its quotes */
};

struct rpc_client;

struct rpc_command {
	const char *name;
	const char *help;
	const struct rpc_arg *args; /* ends with a row without key; NULL: none */
	enum rpc_output output;
	/* Make `params` what is sent. A message: it cannot be. NULL: nothing to do. */
	const char *(*adjust)(json_t *params);
	/* Commands that are more than one request: do it all. NULL: one request. */
	MUST_CHECK int (*run)(struct rpc_client *client, const json_t *params, struct fault *why);
};

const struct rpc_command *rpc_command_find(const char *name);
const struct rpc_command *rpc_command_at(size_t index); /* in alphabetical order; NULL: no more */

enum rpc_args_result { RPC_ARGS_OK, RPC_ARGS_HELP, RPC_ARGS_BAD };

struct rpc_call {
	const struct rpc_command *command; /* NULL: METHOD --params '{...}' */
	char *method;
	json_t *params;
};

/*
 * Read `argv` (argv[0] is the command) into `call_ret`. BAD: `why` says what is wrong. HELP: --help was among them; only
 * call_ret->command is set then. Pair of OK: rpc_call_deinit().
 */
enum rpc_args_result rpc_args_read(int argc, char **argv, struct rpc_call *call_ret, struct fault *why);
void rpc_call_deinit(struct rpc_call *call);

void rpc_command_usage(const struct rpc_command *command, FILE *to);

/* Words of a line as a shell splits them: quotes and backslashes, nothing else. -EINVAL (explained): one is not closed. */
MUST_CHECK int rpc_words_split(const char *line, char ***words_ret, int *count_ret, struct fault *why);
void rpc_words_free(char **words);

/* ---- the connection ---- */

#define RPC_SOCKET_DEFAULT "/var/tmp/fathom.sock"
#define RPC_PORT_DEFAULT "5260"

struct rpc_client_options {
	const char *address; /* path or IP address */
	const char *port;    /* of an IP address */
	double timeout_sec;
	int retries;
	bool verbose;
	bool dry_run;
};

/* Errors (explained): whatever connect() says, -EINVAL (address). A dry run connects to nobody. */
MUST_CHECK int rpc_client_open(const struct rpc_client_options *options, struct rpc_client **client_ret, struct fault *why);
void rpc_client_close(struct rpc_client *client);

/*
 * One call. `params` is borrowed. -EREMOTEIO: the server answered with an error, and rpc_client_error() has its text;
 * others are explained in `why`. In a dry run the request is printed and the result is null.
 */
MUST_CHECK int rpc_client_call(struct rpc_client *client, const char *method, const json_t *params, json_t **result_ret,
			       struct fault *why);
/* "METHOD: MESSAGE (code -19)", with -v request and response after it, when the last call gave -EREMOTEIO. Borrowed. */
const char *rpc_client_error(const struct rpc_client *client);
/* Of that the server's "message" alone; "" if there is none. */
const char *rpc_client_error_message(const struct rpc_client *client);
bool rpc_client_is_dry(const struct rpc_client *client);

/* `value` as JSON text as Python writes it; `indent` < 0: in one line. Pair: free(). */
char *rpc_json_text(const json_t *value, int indent);

/* A number of 64 bits, which jansson's integers do not hold: a string that rpc_json_text() writes as a number. */
json_t *rpc_json_u64(uint64_t number);

/* ---- rpc_config.c ---- */

MUST_CHECK int rpc_save_config(struct rpc_client *client, const json_t *params, struct fault *why);
MUST_CHECK int rpc_load_config(struct rpc_client *client, const json_t *params, struct fault *why);
MUST_CHECK int rpc_save_subsystem_config(struct rpc_client *client, const json_t *params, struct fault *why);
MUST_CHECK int rpc_load_subsystem_config(struct rpc_client *client, const json_t *params, struct fault *why);

#endif
