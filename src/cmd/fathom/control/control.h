/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * control - shared by the commands for operators: options, the session with the servers, and how they end. Each command
 * is a row in the table of its file: control_main() parses the command line, opens the session and runs it.
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

#include "base/bits.h"
#include "base/fault.h"
#include "fathom/control.h"

/* All options; options.c has their names. */
enum control_option {
	OPTION_CONFIG,
	OPTION_HOSTS,
	OPTION_INSECURE,
	OPTION_JSON,
	OPTION_TIMEOUT,
	OPTION_DEBUG,
	OPTION_LOG_FILE,
	OPTION_JSON_LOGGING,
	OPTION_HELP,
	OPTION_VERBOSE,
	OPTION_RANKS,
	OPTION_RANK_HOSTS,
	OPTION_NOT_OK,
	OPTION_WITH_STATES,
	OPTION_DOWN_REPLICAS,
	OPTION_FORCE,
	OPTION_FULL,
	OPTION_INSTANCES,
	OPTION_REPLACE,
	OPTION_NEW_STORAGE,
	OPTION_IGNORE_ADMIN_EXCLUDED,
	OPTION_FOLLOW,
	OPTION_AFTER,
	OPTION_COUNT,
	OPTION_PROVIDER,
	OPTION_ALL,
	OPTION_RANK,
	OPTION_UUID,
	OPTION_SHOW_EVICTED,
	OPTION_SHOW_USABLE,
	OPTION_NVME_HEALTH,
	OPTION_MASKS,
	OPTION_STREAMS,
	OPTION_SUBSYSTEMS,
	OPTION_TARGET_FOLDER,
	OPTION_MS_REPLICAS,
	OPTION_ACCESS_POINTS,
	OPTION_NUM_ENGINES,
	OPTION_INTERFACE,
	OPTION_NET_CLASS,
	OPTION_FABRIC_PORTS,
	OPTION_METADATA_PATH,
	OPTION_FOLDER,
	OPTION_FILE_SIZE,
	OPTION_SERVER_PORT,
	OPTION_OUTPUT,
	OPTION_START_DATE,
	OPTION_END_DATE,
	OPTION_LOG_START_TIME,
	OPTION_LOG_END_TIME,
	OPTION_LOG_TYPE,
	OPTION_EXTRA_LOGS_DIR,
	OPTION_STOP_ON_ERROR,
	OPTION_ARCHIVE,
	CONTROL_OPTIONS
};

/* The options of every command. */
#define OPTIONS_COMMON                                                                                                     \
	(BIT(OPTION_CONFIG) | BIT(OPTION_HOSTS) | BIT(OPTION_INSECURE) | BIT(OPTION_JSON) | BIT(OPTION_TIMEOUT) |          \
	 BIT(OPTION_DEBUG) | BIT(OPTION_LOG_FILE) | BIT(OPTION_JSON_LOGGING) | BIT(OPTION_HELP))

static_assert(CONTROL_OPTIONS <= 64, "those that were given are bits of a word");

/* The options that were given. */
struct control_values {
	uint64_t given;			   /* bits: enum control_option */
	const char *text[CONTROL_OPTIONS]; /* NULL: not given, or without an argument */
};

static inline bool option_is_given(const struct control_values *values, enum control_option option)
{
	return (values->given & BIT(option)) != 0;
}

/* A running command. */
struct control_run {
	const char *name; /* "fathom system query" */
	struct control_values values;
	int argc; /* arguments that are not options */
	char **argv;
	struct fathom_control *control; /* NULL: the command needs no session */
};

struct control_command {
	const char *words;     /* "query", "query usage" */
	const char *arguments; /* arguments after the options: "[NAME ...]"; "": none */
	const char *help;      /* one line */
	const char *more;      /* --help prints it after the options; NULL: nothing */
	uint64_t options;      /* in addition to OPTIONS_COMMON */
	int args_min, args_max;
	bool alone; /* runs without a session */
	int (*run)(struct control_run *run);
};

/* Run a command of `group`, such as "system"; `help` describes the group in one line. Returns the exit status. */
int control_main(const char *group, const char *help, const struct control_command *commands, size_t count, int argc,
		 char **argv);

/* ---- how a command ends; each returns the exit status ---- */

/* The command failed. */
int control_fail(const struct control_run *run, const struct fathom_fault *why);
/* The command line is invalid: returns EXIT_USAGE. */
int control_bad(const struct control_run *run, const char *format, ...) PRINTF_LIKE(2, 3);
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
	return option_is_given(&run->values, OPTION_JSON);
}

/* ---- the tables of options ---- */

struct control_option_row {
	const char *name;
	char letter;	      /* 0: none. A command's own option takes precedence over a common one */
	const char *argument; /* NULL: no argument */
	const char *help;
};
extern const struct control_option_row control_option_rows[CONTROL_OPTIONS];

/*
 * Parse the options in `allowed` from `argv` into `values`; earlier values are kept. *at_ret: the first word that is no
 * option. `in_front`: stop there; otherwise words may be between options. False: the error was printed.
 */
bool control_options_read(uint64_t allowed, bool in_front, int argc, char **argv, struct control_values *values,
			  int *at_ret);
void control_options_print(uint64_t options);

/* ---- the session ---- */

/* Open the session. Errors: those of fathom_control_open(). From now on signals cancel the current call. */
MUST_CHECK int control_open(const struct control_values *values, struct fathom_control **control_ret,
			    struct fathom_fault *why);
void control_close(struct fathom_control *control);
/* Did a signal ask the command to end? */
bool control_was_interrupted(void);
/* Is the value of --timeout valid? `*milliseconds_ret` is 0 if it was not given. */
bool control_timeout(const struct control_values *values, uint32_t *milliseconds_ret);

#endif
