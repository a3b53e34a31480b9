/* SPDX-License-Identifier: BSD-2-Clause */
/* shell - lines of commands: from a person by libedit, with history and completion, or from a file. */
#include <editline/readline.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/fathom/ddb/ddb.h"
#include "cmd/options/options.h"

enum { HISTORY_LINES_MAX = 1000 };

#define HISTORY_FILE ".fathom_ddb_history"

static const struct ddb *completing; /* libedit's functions take no context */

/* ---- completion ---- */

/* The next name that begins with `text`; the caller frees it. `state` 0: begin. NULL: no more. */
static char *complete_command(const char *text, int state)
{
	static size_t at;
	size_t count;
	const struct ddb_command *commands = ddb_commands(&count);

	if (state == 0)
		at = 0;
	while (at < count) {
		const char *name = commands[at++].name;

		if (strncmp(name, text, strlen(text)) == 0)
			return strdup(name);
	}
	return NULL;
}

static char *complete_object(const char *text, int state)
{
	const struct store *store = completing->store;
	static size_t at;

	if (state == 0)
		at = 0;
	while (store && at < store->object_count) {
		const char *name = store->objects[at++].name;

		if (strncmp(name, text, strlen(text)) == 0)
			return strdup(name);
	}
	return NULL;
}

static char **complete_word(const char *text, int start, int end)
{
	char **words = rl_completion_matches(text, start == 0 ? complete_command : complete_object);

	rl_attempted_completion_over = words != NULL; /* else names of files are offered */
	return words;
}

/* ---- a person ---- */

static const char *history_path(char *path, size_t bytes)
{
	const char *home = getenv("HOME");

	if (!home || snprintf(path, bytes, "%s/" HISTORY_FILE, home) >= (int)bytes)
		return NULL;
	return path;
}

int ddb_run_shell(struct ddb *ddb)
{
	char path[4096], name[] = "fathom", *line;
	const char *history = history_path(path, sizeof(path));
	int status = EXIT_SUCCESS;

	ddb->is_interactive = true;
	completing = ddb;
	rl_readline_name = name;
	rl_initialize();
	using_history();
	stifle_history(HISTORY_LINES_MAX);
	if (history)
		read_history(history);
	rl_attempted_completion_function = complete_word;
	while (!ddb->is_ending && (line = readline("ddb> "))) {
		if (*line)
			add_history(line);
		status = ddb_run_line(ddb, line);
		fflush(stdout);
		free(line);
	}
	if (!ddb->is_ending)
		putchar('\n');
	if (history)
		write_history(history);
	return status;
}

/* ---- a file ---- */

int ddb_run_file(struct ddb *ddb, const char *path)
{
	FILE *from = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
	int status = EXIT_SUCCESS;
	char *line = NULL;
	size_t room = 0;

	if (!from)
		return ddb_reject("cannot open %s: %s", path, strerror(errno));
	/* damage does not stop the rest; an error does */
	while (!ddb->is_ending && status != EXIT_USAGE && getline(&line, &room, from) >= 0) {
		int one = ddb_run_line(ddb, line);

		status = one > status ? one : status;
	}
	free(line);
	if (from != stdin)
		fclose(from);
	return status;
}
