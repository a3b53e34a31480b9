/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * complete - completion for shells: finds the words that can replace the one under the cursor.
 *
 * The words before it are read by the tables, as options_parse() would: a command selects a table, an option with a value
 * takes the next word. Then the last word is the beginning of a value, an option, a command or an operand. Only words that
 * begin with it are printed.
 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/options/options.h"

enum { PATH_BYTES = 128 };

/* The state of the command line after the words before the cursor. */
struct place {
	const struct option_table *table;
	const struct option_row *pending;     /* the option whose value comes next; NULL: none */
	const struct option_command *command; /* the last that was found; NULL: none */
	char path[PATH_BYTES];		      /* the words of a command of several words, with a blank after each */
	unsigned int operand_count;	      /* of `table`, and not commands of it */
	bool is_after_options;		      /* "--" was there */
};

static bool has_beginning(const char *text, const char *begin)
{
	return strncmp(text, begin, strlen(begin)) == 0;
}

/* ---- printing ---- */

/* `front` is the text before `word`, such as "--config="; the shell replaces both. */
static void print_offer(FILE *to, const char *front, const char *word, size_t bytes, const char *help)
{
	fprintf(to, "%s%.*s\t%s\n", front, (int)bytes, word, help);
}

/* Names of trace files, NAME_trace.pidPID..., or their processes. */
static void offer_trace_files(FILE *to, const char *front, const char *begin, bool pids)
{
	static const char middle[] = "_trace.pid";
	DIR *directory = opendir("/dev/shm");
	struct dirent *entry;

	while (directory && (entry = readdir(directory))) {
		const char *found = strstr(entry->d_name, middle), *pid;

		if (!found)
			continue;
		pid = found + sizeof(middle) - 1;
		if (pids && has_beginning(pid, begin))
			print_offer(to, front, pid, strspn(pid, "0123456789"), "");
		else if (!pids && has_beginning(entry->d_name, begin))
			print_offer(to, front, entry->d_name, (size_t)(found - entry->d_name), "");
	}
	if (directory)
		closedir(directory);
}

static void offer_values(FILE *to, const char *values, const char *front, const char *begin)
{
	if (!values)
		return;
	if (strcmp(values, OPTION_FILES) == 0 || strcmp(values, OPTION_FOLDERS) == 0) {
		fprintf(to, "%s\n", values);
		return;
	}
	if (values[0] == '@') {
		offer_trace_files(to, front, begin, strcmp(values, OPTION_TRACE_PIDS) == 0);
		return;
	}
	while (*values) {
		size_t bytes = strcspn(values, " ");

		if (strncmp(values, begin, strlen(begin)) == 0 && bytes >= strlen(begin))
			print_offer(to, front, values, bytes, "");
		values += bytes + (values[bytes] == ' ');
	}
}

/* Print a word with the first sentence of its help. */
static void print_option_offer(FILE *to, const char *word, const char *help)
{
	fprintf(to, "%s\t%.*s\n", word, (int)strcspn(help, "\n;."), help);
}

static void offer_options(FILE *to, const struct option_table *table, const char *begin)
{
	for (size_t i = 0; i < table->row_count; i++) {
		const struct option_row *row = &table->rows[i];
		char word[PATH_BYTES];

		if (row->type == OPTION_HEADING || !row->help)
			continue;
		snprintf(word, sizeof(word), "--%s", row->name ? row->name : "");
		if (row->name && has_beginning(word, begin))
			print_option_offer(to, word, row->help);
		snprintf(word, sizeof(word), "-%c", row->letter);
		if (row->letter && has_beginning(word, begin) && (!row->name || strcmp(begin, word) == 0))
			print_option_offer(to, word, row->help);
	}
}

/* Is `word` the next word of a command before row `index`, so that it was offered already? */
static bool is_offered(const struct place *place, size_t index, const char *word, size_t bytes)
{
	size_t path = strlen(place->path);

	for (size_t i = 0; i < index; i++) {
		const char *name = place->table->commands[i].name;

		if (place->table->commands[i].help && has_beginning(name, place->path) &&
		    strncmp(name + path, word, bytes) == 0 && (name[path + bytes] == ' ' || !name[path + bytes]))
			return true;
	}
	return false;
}

static bool offer_commands(FILE *to, const struct place *place, const char *begin)
{
	size_t path = strlen(place->path);
	bool is_any = false;

	for (size_t i = 0; i < place->table->command_count; i++) {
		const struct option_command *command = &place->table->commands[i];
		const char *word = command->name + path;
		size_t bytes;

		if (!command->help || !has_beginning(command->name, place->path))
			continue;
		is_any = true;
		bytes = strcspn(word, " ");
		if (has_beginning(word, begin) && bytes >= strlen(begin) && !is_offered(place, i, word, bytes))
			print_offer(to, "", word, bytes, word[bytes] ? "" : command->help);
	}
	return is_any;
}

/* ---- finding the place ---- */

/* The row that "--NAME" or "--NAME=..." means; a unique beginning of a name is enough, as for getopt_long(). */
static const struct option_row *find_row_of_name(const struct option_table *table, const char *word)
{
	size_t bytes = strcspn(word + 2, "=");
	const struct option_row *found = NULL;

	for (size_t i = 0; i < table->row_count; i++) {
		const struct option_row *row = &table->rows[i];

		if (row->type == OPTION_HEADING || !row->name || strncmp(row->name, word + 2, bytes) != 0)
			continue;
		if (row->name[bytes] == '\0')
			return row;
		if (found)
			return NULL;
		found = row;
	}
	return found;
}

/* The row whose value the next word is, if `word` ends with a letter that takes one. */
static const struct option_row *find_pending_letter(const struct option_table *table, const char *word)
{
	for (const char *letter = word + 1; *letter; letter++) {
		for (size_t i = 0; i < table->row_count; i++) {
			const struct option_row *row = &table->rows[i];

			if (row->type == OPTION_HEADING || row->letter != *letter || !option_takes_argument(row))
				continue;
			return letter[1] ? NULL : row; /* the rest of the word is the value */
		}
	}
	return NULL;
}

/* After an option before any command: continue with the table of such command lines, if the program has one. */
static void enter_options(struct place *place)
{
	if (place->table->otherwise && !place->command)
		place->table = place->table->otherwise;
}

/* Continue with the command that `word` names, if it names one or begins one of several words. */
static void enter_command(struct place *place, const char *word)
{
	char name[PATH_BYTES];
	size_t bytes;

	if (snprintf(name, sizeof(name), "%s%s", place->path, word) >= (int)sizeof(name))
		return;
	bytes = strlen(name);
	for (size_t i = 0; i < place->table->command_count; i++) {
		const struct option_command *command = &place->table->commands[i];

		if (!has_beginning(command->name, name) || (command->name[bytes] && command->name[bytes] != ' '))
			continue;
		if (!command->name[bytes])
			place->command = command;
		if (!command->name[bytes] && command->table) {
			place->table = command->table;
			place->path[0] = '\0';
			return;
		}
		snprintf(place->path, sizeof(place->path), "%.*s ", (int)(sizeof(place->path) - 2), name);
		return;
	}
}

static void follow_operand(struct place *place, const char *word)
{
	const struct option_table *table = place->table;

	enter_command(place, word);
	place->operand_count = place->table == table ? place->operand_count + 1 : 0;
}

static const char *values_of_operand(const struct place *place)
{
	if (place->command && place->command->operands)
		return place->command->operands;
	return place->operand_count > 0 && place->table->operands_after ? place->table->operands_after
									: place->table->operands;
}

static void follow_word(struct place *place, const char *word)
{
	if (place->pending) {
		place->pending = NULL;
	} else if (place->is_after_options || word[0] != '-' || !word[1]) {
		follow_operand(place, word);
	} else if (strcmp(word, "--") == 0) {
		place->is_after_options = true;
	} else if (word[1] == '-') {
		const struct option_row *row;

		enter_options(place);
		row = find_row_of_name(place->table, word);
		place->pending = row && option_takes_argument(row) && !strchr(word, '=') ? row : NULL;
	} else {
		enter_options(place);
		place->pending = find_pending_letter(place->table, word);
	}
}

/* ---- the answer ---- */

static void offer_words(FILE *to, struct place *place, const char *word)
{
	const char *equals = strchr(word, '=');

	if (!place->is_after_options && word[0] == '-')
		enter_options(place);
	if (place->pending) {
		offer_values(to, place->pending->values, "", word);
	} else if (!place->is_after_options && has_beginning(word, "--") && equals) {
		const struct option_row *row = find_row_of_name(place->table, word);
		char front[PATH_BYTES];

		snprintf(front, sizeof(front), "%.*s", (int)(equals + 1 - word), word);
		if (row && option_takes_argument(row))
			offer_values(to, row->values, front, equals + 1);
	} else if (!place->is_after_options && word[0] == '-') {
		offer_options(to, place->table, word);
	} else if (!offer_commands(to, place, word)) {
		offer_values(to, values_of_operand(place), "", word);
	}
}

bool options_offer(const struct option_table *program, int argc, char **argv)
{
	struct place place = { .table = program };

	if (argc < 2 || strcmp(argv[1], "--complete") != 0)
		return false;
	for (int i = 2; i < argc - 1; i++)
		follow_word(&place, argv[i]);
	offer_words(stdout, &place, argc > 2 ? argv[argc - 1] : "");
	return true;
}
