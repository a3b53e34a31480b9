/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/fathom/ddb/ddb.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "cmd/fathom/command.h"

#define AT(member) .offset = offsetof(struct ddb_options, member)

static const struct option_row rows[] = {
	{ "write", 'w', OPTION_FLAG, NULL, "allow changes. No engine may use the storage", AT(write) },
	{ "write_mode", 0, OPTION_FLAG, AT(write) },
	{ "file", 'f', OPTION_TEXT, "FILE", "run the commands of this file, a line each; -: of standard input", AT(file),
	  .values = OPTION_FILES },
	{ "command_file", 0, OPTION_TEXT, "FILE", AT(file) },
	{ "yes", 'y', OPTION_FLAG, NULL, "make changes without asking", AT(yes) },
	{ "json", 'j', OPTION_FLAG, NULL, "print a JSON object for each command", AT(json) },
	OPTION_HELP_ROW,
};

const struct option_table ddb_table = {
	.name = "fathom ddb",
	.usage = "fathom ddb [OPTION...] [PATH [COMMAND]]",
	.about = "Look into the storage of an engine (the folder of --storage) or into a superblock (a file), without an "
		 "engine: list, show and verify what is there, copy the data of volumes out and in, and repair damage.\n"
		 "Without a command, it reads commands from the terminal; `fathom ddb help` lists them. A command with "
		 "blanks can be one word: fathom ddb DIR 'ls p1'.",
	OPTION_ROWS(rows),
	.operands = OPTION_FILES,
	.operands_after = "close dump help list load ls open quit repair rm show superblock_dump value_dump value_load "
			  "verify verify_data version",
	.more = "Exit status: 0: no damage; 1: damage, or a change was not made; 2: the command line is not valid, or "
		"something cannot be read.",
};

/* ---- messages ---- */

int ddb_reject(const char *format, ...)
{
	va_list args;

	fputs("fathom ddb: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	return EXIT_USAGE;
}

int ddb_fail(const struct ddb *ddb, const struct fathom_fault *why)
{
	if (ddb->options.json)
		(void)ddb_print_json(json_pack("{s:o}", "error", ddb_json_text(why->text)));
	return ddb_reject("%s", why->text);
}

json_t *ddb_json_text(const char *text)
{
	size_t bytes = strlen(text);
	char *clean = malloc(bytes + 1);
	json_t *string;

	must(clean);
	string = json_stringn(clean, text_utf8_copy(clean, bytes, text, bytes));
	free(clean);
	return string;
}

int ddb_print_json(json_t *object)
{
	must(object);
	json_dumpf(object, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(object);
	return EXIT_SUCCESS;
}

bool ddb_confirm(const struct ddb *ddb, const char *question)
{
	char answer[16];

	if (ddb->options.yes)
		return true;
	fflush(stdout);
	if (!isatty(STDIN_FILENO)) {
		ddb_reject("nothing was changed: confirm with --yes");
		return false;
	}
	fprintf(stderr, "%s Type yes: ", question);
	if (fgets(answer, sizeof(answer), stdin) && strcmp(answer, "yes\n") == 0)
		return true;
	fprintf(stderr, "Nothing was changed.\n");
	return false;
}

/* ---- open, close ---- */

static int open_superblock(struct ddb *ddb, const char *path)
{
	struct fathom_fault why;
	int error = superblock_read(path, NULL, &ddb->superblock, &why);

	if (error) {
		(void)ddb_fail(ddb, &why);
		return error == -EBADMSG ? DDB_FOUND : EXIT_USAGE;
	}
	ddb->superblock_path = strdup(path);
	must(ddb->superblock_path);
	return EXIT_SUCCESS;
}

int ddb_open(struct ddb *ddb, const char *path)
{
	struct fathom_fault why;
	struct stat stat_of;

	ddb_close(ddb);
	if (stat(path, &stat_of) != 0)
		return ddb_reject("cannot open %s: %s", path, strerror(errno));
	if (S_ISREG(stat_of.st_mode))
		return open_superblock(ddb, path);
	if (S_ISBLK(stat_of.st_mode))
		return ddb_reject("%s is a block device: mount its file system, and give the mount point", path);
	if (store_open(path, ddb->options.write, &ddb->store, &why) != 0)
		return ddb_fail(ddb, &why);
	if (ddb->store->is_in_use)
		fprintf(stderr, "fathom ddb: an engine uses %s: findings may be changes that it is making\n", path);
	return EXIT_SUCCESS;
}

void ddb_close(struct ddb *ddb)
{
	store_close(ddb->store);
	ddb->store = NULL;
	free(ddb->superblock_path);
	ddb->superblock_path = NULL;
}

/* ---- lines ---- */

int ddb_run_words(struct ddb *ddb, int count, char **words)
{
	const struct ddb_command *command = ddb_find_command(words[0]);

	must(count > 0 && !words[count]);
	if (!command)
		return ddb_reject("there is no command \"%s\"; `help` lists them", words[0]);
	if (count - 1 < command->words_min || count - 1 > command->words_max)
		return ddb_reject("usage: %s%s%s", command->name, command->arguments ? " " : "",
				  command->arguments ? command->arguments : "");
	if (command->needs_store && !ddb->store)
		return ddb_reject("no storage is open: open PATH");
	return command->run(ddb, words + 1);
}

/* Cut the line at blanks outside quotes. Returns the number of words, or -1: too many, or an open quote. */
static int cut_words(char *line, char *words[DDB_WORDS_MAX + 1])
{
	int count = 0;
	char *to = line;

	for (char *from = line; *from;) {
		char quote = 0;

		from += strspn(from, " \t\r\n");
		if (*from == '\0' || (count == 0 && *from == '#'))
			break;
		if (count == DDB_WORDS_MAX)
			return -1;
		words[count++] = to;
		for (; *from && (quote || !strchr(" \t\r\n", *from)); from++) {
			if (quote ? *from == quote : *from == '\'' || *from == '"')
				quote = quote ? 0 : *from;
			else
				*to++ = *from;
		}
		if (quote)
			return -1;
		from += *from != '\0';
		*to++ = '\0';
	}
	words[count] = NULL;
	return count;
}

int ddb_run_line(struct ddb *ddb, const char *line)
{
	char copy[DDB_LINE_BYTES_MAX], *words[DDB_WORDS_MAX + 1];
	int count = text_copy(copy, sizeof(copy), line) < 0 ? -1 : cut_words(copy, words);

	if (count < 0)
		return ddb_reject("a line has at most %d words and %d bytes, and closes its quotes", DDB_WORDS_MAX,
				  DDB_LINE_BYTES_MAX - 1);
	return count == 0 ? EXIT_SUCCESS : ddb_run_words(ddb, count, words);
}

static int run_command_line(struct ddb *ddb, int count, char **words)
{
	const struct ddb_command *command = count > 0 ? ddb_find_command(words[0]) : NULL;
	int status;

	if (command && access(words[0], F_OK) != 0) /* `fathom ddb help`: no path is given */
		return command->needs_store ? ddb_reject("give the path of a storage before the command %s", words[0])
					    : ddb_run_words(ddb, count, words);
	status = count > 0 ? ddb_open(ddb, words[0]) : EXIT_SUCCESS;
	if (status)
		return status;
	if (count > 1 && ddb->options.file)
		return ddb_reject("a command and --file exclude each other");
	if (count == 2)
		return ddb_run_line(ddb, words[1]);
	if (count > 2)
		return ddb_run_words(ddb, count - 1, words + 1);
	if (ddb->options.file)
		return ddb_run_file(ddb, ddb->options.file);
	if (!isatty(STDIN_FILENO))
		return ddb_run_file(ddb, "-");
	return ddb_run_shell(ddb);
}

int cmd_ddb(int argc, char **argv)
{
	struct ddb ddb = { 0 };
	int operands, status = options_parse(&ddb_table, argc, argv, &ddb.options, &operands);

	if (status != OPTIONS_RUN)
		return status;
	status = run_command_line(&ddb, argc - operands, argv + operands);
	ddb_close(&ddb);
	return status;
}
