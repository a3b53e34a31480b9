/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * client - `fathom rpc`, by file:
 *
 *   rpc.c           its own options; one command, a script on standard input, a server of commands
 *   commands.c      conversions of arguments. The commands are in rpc_commands.gen.c, made from src/rpc/methods/methods.def
 *   args.c          a command line by that table -> {"method": ..., "params": ...}. Pure.
 *   connect.c       a connection: requests and responses, with a time limit
 *   config.c        save_config and load_config, which make many requests
 *
 * Command lines, requests and output are those of SPDK's rpc.py: scripts need to change one word.
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
	RPC_ARG_INT,   /* decimal */
	RPC_ARG_BYTES, /* decimal, or with a unit: 64k, 10G */
	RPC_ARG_HEX,   /* 64 bits, with or without 0x */
	RPC_ARG_FLOAT,
	RPC_ARG_LIST,	/* a,b,c */
	RPC_ARG_TRUE,	/* takes no value: false, true when given */
	RPC_ARG_FALSE,	/* the reverse */
	RPC_ARG_YES_NO, /* --name or --no-name; absent when neither is given */
};

struct rpc_arg {
	const char *flag;      /* "-t"; NULL: none */
	const char *long_flag; /* "--trtype"; NULL with flag NULL: by position */
	const char *key;       /* in the request */
	enum rpc_arg_type type;
	bool required;
	bool send_false;     /* YES_NO: if not given, send false rather than nothing */
	const char *group;   /* the object of the request that contains it; NULL: params itself */
	const char *choices; /* "a b c"; NULL: any. In a LIST, "all", if it is one of them, means all others. */
	const char *help;    /* NULL: accepted, so that the engine can reject it with a reason, but not shown */
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
	/* Convert `params` to what is sent. Returns an error message or NULL. NULL: no conversion. */
	const char *(*adjust)(json_t *params);
	/* For commands with several requests: makes all of them. NULL: one request. */
	MUST_CHECK int (*run)(struct rpc_client *client, const json_t *params, struct fathom_fault *why);
};

extern const struct rpc_command rpc_commands[]; /* in alphabetical order; the build makes it */
extern const size_t rpc_command_count;

/* For `adjust`: total_size, in MiB, becomes num_blocks. convert_null_size() checks the metadata options, too. */
const char *convert_size(json_t *params);
const char *convert_null_size(json_t *params);
/* For `adjust`: "discovery" becomes the NQN of the discovery subsystem. */
const char *expand_discovery_nqn(json_t *params);

const struct rpc_command *rpc_command_find(const char *name);
const struct rpc_command *rpc_command_at(size_t index); /* in alphabetical order; NULL: no more */

enum rpc_args_result { RPC_ARGS_OK, RPC_ARGS_HELP, RPC_ARGS_BAD };

struct rpc_call {
	const struct rpc_command *command; /* NULL: METHOD --params '{...}' */
	char *method;
	json_t *params;
};

/*
 * Parse `argv` (argv[0] is the command) into `call_ret`. BAD: `why` has the error. HELP: --help was given; only
 * call_ret->command is set. Pair for OK: rpc_call_deinit().
 */
enum rpc_args_result rpc_args_read(int argc, char **argv, struct rpc_call *call_ret, struct fathom_fault *why);
void rpc_call_deinit(struct rpc_call *call);

void rpc_command_usage(const struct rpc_command *command, FILE *to);

/* Split a line into words like a shell: quotes and backslashes only. -EINVAL (explained): a quote is not closed. */
MUST_CHECK int rpc_words_split(const char *line, char ***words_ret, int *count_ret, struct fathom_fault *why);
void rpc_words_free(char **words);

/* ---- the connection ---- */

#define RPC_SOCKET_DEFAULT "/var/tmp/fathom.sock"
#define RPC_PORT_DEFAULT "5260"

struct rpc_client_options {
	const char *address; /* path or IP address */
	const char *port;    /* of an IP address */
	double timeout_sec;
	uint32_t retries;
	bool verbose;
	bool dry_run;
};

/* Errors (explained): those of connect(), -EINVAL (address). A dry run does not connect. */
MUST_CHECK int rpc_client_open(const struct rpc_client_options *options, struct rpc_client **client_ret,
			       struct fathom_fault *why);
void rpc_client_close(struct rpc_client *client);

/*
 * Make one call. `params` is borrowed. -EREMOTEIO: the server returned an error; rpc_client_error() has its text. Other
 * errors are explained in `why`. A dry run prints the request, and the result is null.
 */
MUST_CHECK int rpc_client_call(struct rpc_client *client, const char *method, const json_t *params, json_t **result_ret,
			       struct fathom_fault *why);
/*
 * "METHOD: MESSAGE (code -19)", with -v followed by request and response; after a call that returned -EREMOTEIO.
 * Borrowed.
 */
const char *rpc_client_error(const struct rpc_client *client);
/* Only the server's "message"; "" if there is none. */
const char *rpc_client_error_message(const struct rpc_client *client);
bool rpc_client_is_dry(const struct rpc_client *client);

/* `value` as JSON text in Python's format; `indent` < 0: in one line. Pair: free(). */
char *rpc_json_text(const json_t *value, int indent);

/* A 64-bit number, which exceeds jansson's integers: a string that rpc_json_text() writes as a number. */
json_t *rpc_json_u64(uint64_t number);

/* ---- config.c ---- */

MUST_CHECK int rpc_save_config(struct rpc_client *client, const json_t *params, struct fathom_fault *why);
MUST_CHECK int rpc_load_config(struct rpc_client *client, const json_t *params, struct fathom_fault *why);
MUST_CHECK int rpc_save_subsystem_config(struct rpc_client *client, const json_t *params, struct fathom_fault *why);
MUST_CHECK int rpc_load_subsystem_config(struct rpc_client *client, const json_t *params, struct fathom_fault *why);

#endif
