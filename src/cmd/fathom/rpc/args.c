/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * args - converts words to a request by the table of a command, with the rules of Python's argparse. Options and positional
 * arguments may be mixed; "-s4420", "-s 4420", "--trsvcid=4420" and "--trsv 4420" are equal; "-ak" is "-a -k"; behind
 * "--" all arguments are positional.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/text.h"
#include "cmd/fathom/rpc/client.h"

#define U64_MARK "\x01u64:" /* no typed or received text begins with it */

struct reader {
	const struct rpc_command *command;
	json_t *params;
	int argc, at;
	char **argv;
	bool options_over;
	size_t positions_read;
	struct fathom_fault *why;
};

static bool is_positional(const struct rpc_arg *arg)
{
	return !arg->flag && !arg->long_flag;
}

static bool takes_value(const struct rpc_arg *arg)
{
	return arg->type != RPC_ARG_TRUE && arg->type != RPC_ARG_FALSE && arg->type != RPC_ARG_YES_NO;
}

static const char *name_of_arg(const struct rpc_arg *arg)
{
	return arg->long_flag ? arg->long_flag : arg->key;
}

json_t *rpc_json_u64(uint64_t number)
{
	return json_sprintf(U64_MARK "%" PRIu64, number);
}

/* ---- values ---- */

static bool is_choice(const char *choices, const char *text)
{
	size_t bytes = strlen(text);

	for (const char *at = choices; bytes > 0 && (at = strstr(at, text)); at += bytes) {
		if ((at == choices || at[-1] == ' ') && (at[bytes] == '\0' || at[bytes] == ' '))
			return true;
	}
	return false;
}

/* `text` split at each `separator`. NULL: it is not valid UTF-8. */
static json_t *split_list(const char *text, char separator)
{
	const char separators[] = { separator, '\0' };
	json_t *list = json_array();

	must(list);
	for (;;) {
		size_t bytes = strcspn(text, separators);

		if (json_array_append_new(list, json_stringn(text, bytes)) != 0) {
			json_decref(list);
			return NULL;
		}
		if (text[bytes] == '\0')
			return list;
		text += bytes + 1;
	}
}

static void remove_name_all(json_t *names)
{
	json_t *name;
	size_t i;

	json_array_foreach (names, i, name) {
		if (strcmp(json_string_value(name), "all") == 0) {
			json_array_remove(names, i);
			return;
		}
	}
}

/* "a,b" as an array; "all" becomes all other choices. NULL: a name is not one of the choices, or not valid UTF-8. */
static json_t *make_json_list(const struct rpc_arg *arg, const char *text)
{
	json_t *names = split_list(text, ','), *name;
	bool all = false;
	size_t i;

	if (!arg->choices || !names)
		return names;
	json_array_foreach (names, i, name) {
		if (!is_choice(arg->choices, json_string_value(name))) {
			json_decref(names);
			return NULL;
		}
		all = all || strcmp(json_string_value(name), "all") == 0;
	}
	if (!all)
		return names;
	json_decref(names);
	names = split_list(arg->choices, ' ');
	remove_name_all(names);
	return names;
}

/* NULL: `text` is invalid for this type. */
static json_t *make_json_value(const struct rpc_arg *arg, const char *text)
{
	const char *digits = text + (text[0] == '-' || text[0] == '+');
	uint64_t number;
	double real;
	char *end;

	switch (arg->type) {
	case RPC_ARG_STRING:
		return json_string(text);
	case RPC_ARG_LIST:
		return make_json_list(arg, text);
	case RPC_ARG_INT:
		if (text_parse_u64(digits, 10, INT64_MAX, &number) < 0)
			return NULL;
		return json_integer(text[0] == '-' ? -(json_int_t)number : (json_int_t)number);
	case RPC_ARG_BYTES:
		if (text_parse_bytes(text, &number) < 0 || number > INT64_MAX)
			return NULL;
		return json_integer((json_int_t)number);
	case RPC_ARG_HEX:
		if (text_parse_u64(text, 16, UINT64_MAX, &number) < 0)
			return NULL;
		return number > INT64_MAX ? rpc_json_u64(number) : json_integer((json_int_t)number);
	case RPC_ARG_FLOAT:
		errno = 0;
		real = strtod(text, &end);
		return *text == '\0' || *end != '\0' || errno ? NULL : json_real(real);
	default:
		must(false);
		return NULL;
	}
}

/* Takes `value`. */
static void add_param(struct reader *reader, const struct rpc_arg *arg, json_t *value)
{
	json_t *into = reader->params;

	must(value);
	if (arg->group) {
		into = json_object_get(reader->params, arg->group);
		if (!into) {
			into = json_object();
			json_object_set_new(reader->params, arg->group, into);
		}
	}
	must(json_object_set_new(into, arg->key, value) == 0);
}

static int add_param_text(struct reader *reader, const struct rpc_arg *arg, const char *text)
{
	static const char *const kinds[] = {
		[RPC_ARG_STRING] = "text",
		[RPC_ARG_INT] = "a decimal number",
		[RPC_ARG_HEX] = "a hexadecimal number",
		[RPC_ARG_FLOAT] = "a number",
		[RPC_ARG_LIST] = "a list",
		[RPC_ARG_BYTES] = "a number of bytes (4096, 64k, 10G)",
	};
	json_t *value;

	if (arg->choices && arg->type != RPC_ARG_LIST && !is_choice(arg->choices, text))
		return fault(reader->why, -EINVAL, "argument %s: \"%s\" is not one of %s", name_of_arg(arg), text,
			     arg->choices);
	value = make_json_value(arg, text);
	if (!value && arg->choices)
		return fault(reader->why, -EINVAL, "argument %s: \"%s\" contains a name that is not one of %s",
			     name_of_arg(arg), text, arg->choices);
	if (!value)
		return fault(reader->why, -EINVAL, "argument %s: \"%s\" is not %s", name_of_arg(arg), text,
			     kinds[arg->type]);
	add_param(reader, arg, value);
	return 0;
}

/* ---- options ---- */

/* `*no_ret`: the --no- form was used. -EINVAL: no option, or several, with this prefix. */
static int find_long_option(struct reader *reader, const char *word, size_t bytes, const struct rpc_arg **arg_ret,
			    bool *no_ret)
{
	const struct rpc_arg *found = NULL;
	bool found_no = false;

	for (const struct rpc_arg *arg = reader->command->args; arg && arg->key; arg++) {
		for (int no = 0; arg->long_flag && no <= (arg->type == RPC_ARG_YES_NO); no++) {
			char name[128];

			snprintf(name, sizeof(name), no ? "--no-%s" : "--%s", arg->long_flag + 2);
			if (strncmp(name, word, bytes) != 0)
				continue;
			if (strlen(name) == bytes) {
				*arg_ret = arg;
				*no_ret = no;
				return 0;
			}
			if (found)
				return fault(reader->why, -EINVAL, "option %s is ambiguous: %s or %s", word,
					     found->long_flag, arg->long_flag);
			found = arg;
			found_no = no;
		}
	}
	if (!found)
		return fault(reader->why, -EINVAL, "unknown option %.*s", (int)bytes, word);
	*arg_ret = found;
	*no_ret = found_no;
	return 0;
}

static const struct rpc_arg *find_short_option(const struct rpc_command *command, const char *word)
{
	const struct rpc_arg *found = NULL;

	for (const struct rpc_arg *arg = command->args; arg && arg->key; arg++) {
		/* the longest match: "-t1" is an option of its own */
		if (arg->flag && strncmp(word, arg->flag, strlen(arg->flag)) == 0 &&
		    (!found || strlen(arg->flag) > strlen(found->flag)))
			found = arg;
	}
	return found;
}

/* Read option `arg` with its attached value, or else with the next word if it takes a value. */
static int read_option(struct reader *reader, const struct rpc_arg *arg, const char *attached, bool no)
{
	if (!takes_value(arg)) {
		if (attached)
			return fault(reader->why, -EINVAL, "option %s takes no value", name_of_arg(arg));
		add_param(reader, arg, json_boolean(arg->type == RPC_ARG_TRUE || (arg->type == RPC_ARG_YES_NO && !no)));
		return 0;
	}
	if (!attached) {
		if (reader->at == reader->argc)
			return fault(reader->why, -EINVAL, "option %s needs a value", name_of_arg(arg));
		attached = reader->argv[reader->at++];
	}
	return add_param_text(reader, arg, attached);
}

static int read_long_option(struct reader *reader, const char *word)
{
	size_t bytes = strcspn(word, "=");
	const struct rpc_arg *arg = NULL;
	bool no = false;
	int error = find_long_option(reader, word, bytes, &arg, &no);

	return error ? error : read_option(reader, arg, word[bytes] == '=' ? word + bytes + 1 : NULL, no);
}

static int read_short_option(struct reader *reader, const char *word)
{
	char rest[256];

	for (;;) {
		const struct rpc_arg *arg = find_short_option(reader->command, word);
		const char *behind;
		int error;

		if (!arg)
			return fault(reader->why, -EINVAL, "unknown option %.64s", word);
		behind = word + strlen(arg->flag);
		if (takes_value(arg))
			return read_option(reader, arg, *behind == '=' ? behind + 1 : *behind ? behind : NULL, false);
		error = read_option(reader, arg, NULL, false);
		if (error || *behind == '\0')
			return error;
		/* "-ak": repeat with "-k" */
		if (snprintf(rest, sizeof(rest), "-%s", behind) >= (int)sizeof(rest))
			return fault(reader->why, -EINVAL, "unknown option %.64s", word);
		return read_short_option(reader, rest);
	}
}

static int read_positional(struct reader *reader, const char *word)
{
	size_t position = 0;

	for (const struct rpc_arg *arg = reader->command->args; arg && arg->key; arg++) {
		if (is_positional(arg) && position++ == reader->positions_read) {
			reader->positions_read++;
			return add_param_text(reader, arg, word);
		}
	}
	return fault(reader->why, -EINVAL, "unexpected argument \"%s\"", word);
}

/* "-5" is a number, unless there is such an option. */
static bool is_option(const struct reader *reader, const char *word)
{
	uint64_t number;

	if (reader->options_over || word[0] != '-' || word[1] == '\0')
		return false;
	return find_short_option(reader->command, word) || text_parse_u64(word + 1, 10, UINT64_MAX, &number) < 0;
}

static int read_argument(struct reader *reader)
{
	const char *word = reader->argv[reader->at++];

	if (!reader->options_over && strcmp(word, "--") == 0) {
		reader->options_over = true;
		return 0;
	}
	if (!is_option(reader, word))
		return read_positional(reader, word);
	return word[1] == '-' ? read_long_option(reader, word) : read_short_option(reader, word);
}

/* Handle arguments that were not given: an error, or their defaults. */
static int add_defaults(struct reader *reader)
{
	for (const struct rpc_arg *arg = reader->command->args; arg && arg->key; arg++) {
		json_t *into = arg->group ? json_object_get(reader->params, arg->group) : reader->params;

		if (json_object_get(into, arg->key))
			continue;
		if (arg->required)
			return fault(reader->why, -EINVAL, "argument %s is missing", name_of_arg(arg));
		if (arg->type == RPC_ARG_TRUE || arg->type == RPC_ARG_FALSE)
			add_param(reader, arg, json_boolean(arg->type == RPC_ARG_FALSE));
		else if (arg->send_false)
			add_param(reader, arg, json_false());
	}
	return 0;
}

/* ---- the whole ---- */

static bool wants_help(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
			return true;
	}
	return false;
}

/* METHOD --params JSON, for methods outside the table, or with other arguments. */
static int read_raw_params(int argc, char **argv, struct rpc_call *call, struct fathom_fault *why)
{
	const char *text = argv[1] + strlen("--params");
	json_error_t error;

	text = *text == '=' ? text + 1 : argc == 3 ? argv[2] : NULL;
	if (!text || (argc == 3) == (argv[1][strlen("--params")] == '='))
		return fault(why, -EINVAL, "--params takes one argument, a JSON object");
	call->params = json_loads(text, JSON_REJECT_DUPLICATES, &error);
	if (!call->params)
		return fault(why, -EINVAL, "--params: column %d: %s", error.column, error.text);
	if (!json_is_object(call->params)) {
		json_decref(call->params);
		return fault(why, -EINVAL, "--params is not a JSON object");
	}
	return 0;
}

static int read_by_table(int argc, char **argv, struct rpc_call *call, struct fathom_fault *why)
{
	struct reader reader = {
		.command = call->command,
		.params = json_object(),
		.argc = argc,
		.at = 1,
		.argv = argv,
		.why = why,
	};
	const char *wrong;
	int error = 0;

	must(reader.params);
	while (reader.at < argc && error == 0)
		error = read_argument(&reader);
	if (error == 0)
		error = add_defaults(&reader);
	wrong = error == 0 && call->command->adjust ? call->command->adjust(reader.params) : NULL;
	if (wrong)
		error = fault(why, -EINVAL, "%s", wrong);
	if (error)
		json_decref(reader.params);
	else
		call->params = reader.params;
	return error;
}

enum rpc_args_result rpc_args_read(int argc, char **argv, struct rpc_call *call_ret, struct fathom_fault *why)
{
	struct rpc_call call = { .command = rpc_command_find(argv[0]) };
	int error;

	must(argc > 0);
	if (call.command && wants_help(argc, argv)) {
		call_ret->command = call.command;
		return RPC_ARGS_HELP;
	}
	if (argc > 1 && strncmp(argv[1], "--params", strlen("--params")) == 0) {
		call.command = NULL;
		error = read_raw_params(argc, argv, &call, why);
	} else if (call.command) {
		error = read_by_table(argc, argv, &call, why);
	} else {
		error = fault(why, -EINVAL,
			      "unknown command; `fathom rpc --help` lists them, `%.64s --params '{...}'` calls any method",
			      argv[0]);
	}
	if (error)
		return RPC_ARGS_BAD;
	call.method = strdup(argv[0]);
	must(call.method);
	*call_ret = call;
	return RPC_ARGS_OK;
}

void rpc_call_deinit(struct rpc_call *call)
{
	free(call->method);
	json_decref(call->params);
}

/* ---- help ---- */

static void print_command_option(FILE *to, const struct rpc_arg *arg)
{
	char left[96];

	snprintf(left, sizeof(left), "%s%s%s%s%s%s", arg->flag ? arg->flag : "", arg->flag && arg->long_flag ? ", " : "",
		 arg->long_flag ? arg->long_flag : "", arg->type == RPC_ARG_YES_NO ? " | --no-" : "",
		 arg->type == RPC_ARG_YES_NO ? arg->long_flag + 2 : "", takes_value(arg) ? " VALUE" : "");
	fprintf(to, "  %-36s %s%s\n", left, arg->help, arg->required ? " (required)" : "");
}

void rpc_command_usage(const struct rpc_command *command, FILE *to)
{
	const struct rpc_arg *arg;

	fprintf(to, "usage: fathom rpc %s [OPTION...]", command->name);
	for (arg = command->args; arg && arg->key; arg++) {
		if (is_positional(arg))
			fprintf(to, arg->required ? " %s" : " [%s]", arg->key);
	}
	fprintf(to, "\n\n%s\n\n", command->help);
	for (arg = command->args; arg && arg->key; arg++) {
		if (is_positional(arg))
			fprintf(to, "  %-36s %s\n", arg->key, arg->help);
	}
	for (arg = command->args; arg && arg->key; arg++) {
		if (!is_positional(arg) && arg->help)
			print_command_option(to, arg);
	}
}

/* ---- words of a line ---- */

/* Copy the next word of *line into `word` (as long as the line). False: no more. */
static bool read_next_word(const char **line, char *word, bool *closed)
{
	const char *at = *line + strspn(*line, " \t\r\n");
	char quote = '\0';

	*closed = true;
	if (*at == '\0')
		return false;
	for (; *at && (quote || !strchr(" \t\r\n", *at)); at++) {
		if (quote ? *at == quote : *at == '"' || *at == '\'') {
			quote = quote ? '\0' : *at;
		} else if (*at == '\\' && quote != '\'' && (!quote || at[1] == '"' || at[1] == '\\')) {
			if (at[1] == '\0') {
				*closed = false;
				break;
			}
			*word++ = *++at;
		} else {
			*word++ = *at;
		}
	}
	*word = '\0';
	*closed = *closed && !quote;
	*line = at;
	return true;
}

int rpc_words_split(const char *line, char ***words_ret, int *count_ret, struct fathom_fault *why)
{
	size_t room = strlen(line) / 2 + 2, count = 0;
	char **words = calloc(room, sizeof(*words)), *word = malloc(strlen(line) + 1);
	bool closed;

	must(words);
	must(word);
	while (read_next_word(&line, word, &closed) && closed) {
		must(count + 1 < room);
		words[count] = strdup(word);
		must(words[count]);
		count++;
	}
	free(word);
	if (!closed) {
		rpc_words_free(words);
		return fault(why, -EINVAL, "a quotation is not closed");
	}
	*words_ret = words;
	*count_ret = (int)count;
	return 0;
}

void rpc_words_free(char **words)
{
	if (!words)
		return;
	for (size_t i = 0; words[i]; i++)
		free(words[i]);
	free(words);
}
