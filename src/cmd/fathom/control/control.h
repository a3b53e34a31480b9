/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * control - shared by the commands for operators: options, the session with the servers, and how they end. Each command
 * is a row of the table of operations (src/control/operation), from which the build makes its options and checks:
 * control_main() parses the command line, opens the session and runs it.
 *
 *     fathom system query --ranks 0-3        cmd_system() -> control_main(rows of "system") -> its row "query" -> run()
 *
 * Exit statuses: 0 success, 1 failure (of everything, or for some hosts or ranks), 2 invalid command line.
 */
#ifndef CMD_FATHOM_CONTROL_CONTROL_H
#define CMD_FATHOM_CONTROL_CONTROL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/fault.h"
#include "cmd/fathom/control/commands.gen.h"
#include "cmd/options/options.h"
#include "fathom/control.h"

enum { CONTROL_PAIRS_MAX = 64 };

/* A running command. */
struct control_run {
	const struct option_table *table; /* of the command; its name is "fathom system query" */
	struct control_values values;
	int argc; /* arguments that are not options */
	char **argv;
	struct fathom_control *control; /* NULL: the command needs no session */
};

struct control_command {
	const char *words; /* "query", "query usage" */
	const struct option_table *table;
	const char *arguments; /* after the options: "[NAME ...]"; NULL: none */
	int args_min, args_max;
	bool alone;				     /* runs without a session */
	int (*check)(const struct control_run *run); /* checks its options together: 0, or the exit status; NULL: nothing */
	int (*run)(struct control_run *run);
};

struct control_group {
	const struct option_table *table; /* the options of all commands */
	const struct control_command *commands;
	size_t count;
};

/* Run a command of the group. Returns the exit status. */
int control_main(const struct control_group *group, int argc, char **argv);

/* Its name without "fathom": "system query". */
const char *control_name(const struct control_run *run);
/*
 * Read the arguments of the command as names, or as NAME:VALUE, each several separated by commas. Fills at most
 * CONTROL_PAIRS_MAX `pairs`; their texts are the arguments', which are cut. Returns 0, or the exit status after an error
 * message.
 */
int control_read_pairs(const struct control_run *run, bool with_values, struct fathom_control_pair *pairs,
		       size_t *count_ret);

/*
 * Read argument `index` of the command as a size, such as "100G". Returns 0, or the exit status after an error message.
 */
int control_read_size(const struct control_run *run, int index, uint64_t *bytes_ret);

/* ---- how a command ends; each returns the exit status ---- */

/* The command failed. */
int control_fail(const struct control_run *run, const struct fathom_fault *why);
/* The command line is invalid: print why. EXIT_USAGE. */
#define control_bad(run, ...) options_reject((run)->table, __VA_ARGS__)
/*
 * The command is complete; `why` is a partial failure (NULL: none). With --json, prints `response` (taken) in the
 * envelope; otherwise `response` is NULL, and the results have been printed.
 */
int control_finish(const struct control_run *run, json_t *response, const struct fathom_fault *why);
/*
 * The same for answers of hosts (taken); prints the errors of hosts. `failed`: what failed although its host answered;
 * NULL: nothing.
 */
int control_answered(const struct control_run *run, struct fathom_control_answers *answers, json_t *response,
		     const char *failed);
/* Print everything that hosts have, also what the answers of DAOS's servers have no fields for, by `show` or as JSON. */
int control_host_devices(const struct control_run *run, void (*show)(const struct fathom_control_answers *, FILE *));

/*
 * Wait until the engines with `formatted` storage have joined, have failed, or the time limit (--timeout, else 90 s) is
 * over. False: some have not joined; they were printed on stderr. Borrows both.
 */
bool format_wait(const struct control_run *run, const struct fathom_control_answers *formatted);

static inline bool control_is_json(const struct control_run *run)
{
	return run->values.json;
}

/* ---- the session ---- */

/* Open the session. Errors: those of fathom_control_open(). From now on signals cancel the current call. */
MUST_CHECK int control_open(const struct control_values *values, struct fathom_control **control_ret,
			    struct fathom_fault *why);
void control_close(struct fathom_control *control);
/* Did a signal interrupt the command? */
bool control_was_interrupted(void);

#endif
