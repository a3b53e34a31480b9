/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ddb - `fathom ddb`: looks into an engine's storage, or a superblock, without an engine.
 *
 *	ddb.c		options; opens what the command line names; a line of commands
 *	commands.c	the commands
 *	report.c	verify and repair
 *	shell.c		lines from a person, with history and completion; from a file
 *
 * A command prints text, or with --json one JSON object on a line. Its result is an exit status: 0, 1 (there is damage, or
 * something was left undone) or EXIT_USAGE. Thread: one.
 */
#ifndef CMD_FATHOM_DDB_DDB_H
#define CMD_FATHOM_DDB_DDB_H

#include <jansson.h>
#include <stdbool.h>

#include "base/fault.h"
#include "cmd/fathom/ddb/store.h"
#include "control/superblock/superblock.h"

enum { DDB_WORDS_MAX = 8, DDB_LINE_BYTES_MAX = 4096, DDB_FOUND = 1 };

struct ddb_options {
	bool json, write, yes;
	const char *file; /* of commands; NULL: none */
};

struct ddb {
	struct ddb_options options;
	struct store *store;   /* NULL: no storage is open */
	char *superblock_path; /* NULL: no superblock is open */
	struct superblock superblock;
	bool is_interactive, is_ending;
};

struct ddb_command {
	const char *name;
	const char *other_name; /* NULL: none */
	const char *arguments;	/* for the help; NULL: none */
	const char *help;
	int words_min, words_max; /* after the name */
	bool needs_store;
	int (*run)(struct ddb *ddb, char **words); /* `words` ends with NULL */
};

/* ---- commands.c ---- */

const struct ddb_command *ddb_commands(size_t *count_ret);
/* NULL: there is none. */
const struct ddb_command *ddb_find_command(const char *name);

/* ---- report.c ---- */

int ddb_verify(struct ddb *ddb, char **words);
int ddb_repair(struct ddb *ddb, char **words);
int ddb_verify_data(struct ddb *ddb, char **words);

/* ---- ddb.c ---- */

/* Print the error on standard error. Returns EXIT_USAGE. */
int ddb_fail(const struct ddb *ddb, const struct fathom_fault *why);
int ddb_reject(const char *format, ...) PRINTF_LIKE(1, 2);
/* A string; bytes that are not valid UTF-8 become "?". */
json_t *ddb_json_text(const char *text);
/* Print a JSON object on a line, and release it. Returns 0. */
int ddb_print_json(json_t *object);
/* Does the person, or --yes, agree to what was printed? */
bool ddb_confirm(const struct ddb *ddb, const char *question);
/* Open a storage or a superblock; close what is open. Returns an exit status. */
int ddb_open(struct ddb *ddb, const char *path);
void ddb_close(struct ddb *ddb);
/* Run the command of these words, or of a line. "" and "#..." do nothing. Returns an exit status. */
int ddb_run_words(struct ddb *ddb, int count, char **words);
int ddb_run_line(struct ddb *ddb, const char *line);

/* ---- shell.c ---- */

/* Run commands of a person or of a file until its end or `quit`. Returns an exit status. */
int ddb_run_shell(struct ddb *ddb);
int ddb_run_file(struct ddb *ddb, const char *path);

#endif
