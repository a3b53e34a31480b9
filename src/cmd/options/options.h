/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * options - a command line, declared once.
 *
 * A program, or one command of it, has a table of its options, commands and operands. options_parse() reads a command line
 * by the table, `--help` prints it, and options_offer() answers a shell that completes a word. No other place lists an
 * option.
 *
 * For a value that is not valid, options_parse() returns EXIT_USAGE after these lines on standard error:
 *
 *     fathom perf: --depth: "0" is not a number from 1 to 4096
 *     `fathom perf --help` shows the options
 *
 *   daemon.h     the options that every daemon has
 *   parse.c      reads a command line, and reports what is wrong with it
 *   help.c       prints a table
 *   complete.c   finds the words that can come next
 *
 * Thread: one; getopt_long() has global state.
 */
#ifndef CMD_OPTIONS_OPTIONS_H
#define CMD_OPTIONS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/bits.h"
#include "base/fault.h"

enum { EXIT_USAGE = 2, OPTIONS_RUN = -1 };

enum option_type {
	OPTION_HEADING,	 /* a line in the help; not an option */
	OPTION_FLAG,	 /* bool: becomes true */
	OPTION_TEXT,	 /* const char *: borrowed from argv */
	OPTION_NUMBER,	 /* uint64_t: from `min` to `max` */
	OPTION_NUMBER32, /* uint32_t: the same */
	OPTION_SECONDS,	 /* double: from 0 to `max` */
	OPTION_SIZE,	 /* uint64_t: bytes, as 64M; from `min` to `max` (0: no limit) */
	OPTION_DURATION, /* uint64_t: nanoseconds, as 500ms; from `min` to `max` (0: no limit) */
	OPTION_CALL,	 /* `read` reads the value, or sets what a flag means */
	OPTION_PRINT_HELP,
	OPTION_PRINT_VERSION, /* of the table */
};

/* What completion offers for a value, beside words with blanks between them. */
#define OPTION_FILES "@files"
#define OPTION_FOLDERS "@folders"
#define OPTION_TRACE_NAMES "@trace-names" /* the NAMEs of trace files in /dev/shm */
#define OPTION_TRACE_PIDS "@trace-pids"	  /* the processes of these files */

struct option_row {
	const char *name; /* NULL: only a letter */
	char letter;	  /* 0: only a name */
	enum option_type type;
	const char *argument; /* the value's name in the help; NULL: the option takes none */
	const char *help;     /* NULL: neither shown nor offered */
	size_t offset;	      /* of the value in the structure of options_parse() */
	uint64_t min, max;
	const char *values; /* OPTION_FILES ..., or words; NULL: nothing is offered */
	/*
	 * For OPTION_CALL: store the value at `to`, which is `offset` into the structure. `text` is NULL for a flag.
	 * Errors (explained by a predicate, as "is not a UUID"): -EINVAL.
	 */
	int (*read)(void *to, const char *text, struct fathom_fault *why);
};

#define OPTION_RANGE(least, most) .min = (least), .max = (most)

static inline bool option_takes_argument(const struct option_row *row)
{
	return row->argument != NULL;
}

#define OPTION_HELP_ROW                                                                                                    \
	{                                                                                                                  \
		"help", 'h', OPTION_PRINT_HELP, .help = "print this text"                                                  \
	}

struct option_table;

/* A command: the first operand, or the first ones ("query usage"). */
struct option_command {
	const char *name;
	const char *arguments;		  /* as the help shows them; NULL: none */
	const char *help;		  /* NULL: neither shown nor offered */
	const char *operands;		  /* what completion offers for its operands, as option_row.values; NULL: nothing */
	const struct option_table *table; /* its own options; NULL: those of the table that this row is in */
	int (*run)(int argc, char **argv); /* for the program; NULL: it runs the command in another way */
	const void *own;		   /* data of the program */
};

struct option_table {
	const char *name;  /* "fathom perf" */
	const char *usage; /* command lines, a line each */
	const char *about; /* paragraphs, which the help wraps; a line that begins with a blank stays as it is */
	const struct option_row *rows;
	size_t row_count;
	const struct option_command *commands;
	size_t command_count;
	const struct option_table *otherwise; /* of a command line that begins with an option; NULL: this table */
	const char *operands;		      /* as option_row.values */
	const char *operands_after;	      /* of all operands but the first; NULL: as `operands` */
	const char *more;		      /* paragraphs after the options; NULL: none */
	const char *version;		      /* for OPTION_PRINT_VERSION */
	bool in_front;			      /* options end at the first operand */
};

#define OPTION_ROWS(array) .rows = (array), .row_count = ARRAY_COUNT(array)
#define OPTION_COMMANDS(array) .commands = (array), .command_count = ARRAY_COUNT(array)

/*
 * Read the options of `argv` into `values`, whose members are at the rows' offsets. argv[0] is not read. Operands move
 * behind the options; argv[*operands_ret] is the first. Texts are borrowed from argv.
 * Returns OPTIONS_RUN; or the exit status, after help, a version or an error was printed.
 */
MUST_CHECK int options_parse(const struct option_table *table, int argc, char **argv, void *values, int *operands_ret);

/* Print "NAME: TEXT" and a line that names --help. Returns EXIT_USAGE. */
int options_reject(const struct option_table *table, const char *format, ...) PRINTF_LIKE(2, 3);

/* The text of the last error of options_parse() or options_reject(), without the program's name; "": none, or not known. */
const char *options_error(void);

/* The command of one word; NULL: there is none. */
const struct option_command *options_find_command(const struct option_table *table, const char *name);

/* Print the help. */
void options_help(const struct option_table *table, FILE *to);
/* Print only the options, with headings. */
void options_help_rows(const struct option_table *table, FILE *to);

/*
 * For a program's main(): run the command that argv[1] names, or the one with the table `otherwise` if argv[1] is an option
 * or missing; `--help` and `--version`, too. The program must have commands, one of them "version". Returns the exit
 * status: that of the command, or EXIT_USAGE if there is no such command or standard output could not be written.
 */
int options_run_program(const struct option_table *program, int argc, char **argv);

/*
 * For a program's main(): if argv[1] is "--complete", print the words that can replace the last word of argv, and return
 * true. The scripts of `fathom completion` call it. A line is a word, a tab and its help; a first line "@files" or
 * "@folders" means the names of files or folders.
 */
bool options_offer(const struct option_table *program, int argc, char **argv);

#endif
