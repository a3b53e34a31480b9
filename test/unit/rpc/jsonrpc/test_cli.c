/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `fathom rpc`: each command line of requests.txt sends the same request as rpc.py or is refused like there. Each command
 * is in that table. Splitting of lines into words; JSON in Python's format.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* after those */
#include <cmocka.h>

#include "base/bits.h"
#include "cmd/fathom/rpc/client.h"

enum { COMMANDS_MAX = 256 };

static const char *table_path;
static bool seen[COMMANDS_MAX];

static void note_command(const struct rpc_command *command)
{
	for (size_t i = 0; rpc_command_at(i); i++) {
		if (rpc_command_at(i) == command)
			seen[i] = true;
	}
}

/* `wanted`: a request, or "!" for a refusal. */
static void check_line(const char *line, const char *wanted)
{
	struct rpc_call call;
	struct fathom_fault why;
	char **words, *text;
	json_t *request;
	int count;

	assert_int_equal(rpc_words_split(line, &words, &count, &why), 0);
	if (rpc_args_read(count, words, &call, &why) != RPC_ARGS_OK) {
		if (wanted[0] != '!')
			fail_msg("%s: refused: %s", line, why.text);
		rpc_words_free(words);
		return;
	}
	note_command(call.command);
	/* these commands first make another request */
	if (call.command->run) {
		rpc_call_deinit(&call);
		rpc_words_free(words);
		return;
	}
	request = json_pack("{s:s, s:O}", "method", call.method, "params", call.params);
	text = rpc_json_text(request, -1);
	json_decref(request);
	/* numbers are converted alike, and the order of keys is ignored */
	request = json_loads(wanted, JSON_DECODE_INT_AS_REAL, NULL);
	if (!request)
		fail_msg("%s: not refused: %s", line, text);
	else {
		json_t *ours = json_loads(text, JSON_DECODE_INT_AS_REAL, NULL);

		assert_non_null(ours);
		if (!json_equal(ours, request))
			fail_msg("%s:\n%s\nis not\n%s", line, text, wanted);
		json_decref(ours);
	}
	json_decref(request);
	free(text);
	rpc_call_deinit(&call);
	rpc_words_free(words);
}

static void each_command_line_sends_the_request_of_rpc_py(void **state)
{
	char command[1024], answer[4096];
	FILE *file = fopen(table_path, "r");
	int count = 0;

	assert_non_null(file);
	while (fgets(command, sizeof(command), file)) {
		if (strncmp(command, "> ", 2) != 0)
			continue;
		assert_non_null(fgets(answer, sizeof(answer), file));
		check_line(command + 2, answer);
		count++;
	}
	fclose(file);
	assert_true(count >= 149);
}

static void each_command_is_in_the_table(void **state)
{
	/* several requests, or a method without a command in rpc.py */
	static const char *const composed[] = { "load_config", "load_subsystem_config", "save_config", "nvmf_get_targets",
						NULL };
	const struct rpc_command *command;

	for (size_t i = 0; (command = rpc_command_at(i)); i++) {
		bool excused = false;

		for (size_t n = 0; composed[n]; n++)
			excused = excused || strcmp(composed[n], command->name) == 0;
		if (!seen[i] && !excused)
			fail_msg("%s is missing in requests.txt", command->name);
	}
}

static void commands_are_sorted_and_have_help(void **state)
{
	const struct rpc_command *command;

	for (size_t i = 0; (command = rpc_command_at(i)); i++) {
		char *text = NULL;
		size_t bytes;
		FILE *to = open_memstream(&text, &bytes);

		if (i > 0)
			assert_true(strcmp(rpc_command_at(i - 1)->name, command->name) < 0);
		rpc_command_usage(command, to);
		fclose(to);
		assert_non_null(strstr(text, command->name));
		for (const struct rpc_arg *arg = command->args; arg && arg->key; arg++)
			/* a parameter without help is one that engines refuse: it is not shown */
			assert_true(!arg->help || strstr(text, arg->long_flag ? arg->long_flag : arg->key));
		free(text);
	}
}

static void a_line_is_split_into_words_as_by_a_shell(void **state)
{
	static const struct {
		const char *line;
		const char *words[6];
	} rows[] = {
		{ "a b\tc\n", { "a", "b", "c" } },
		{ "  a  ", { "a" } },
		{ "", { NULL } },
		{ "\"a b\" 'c \"d' e\\ f", { "a b", "c \"d", "e f" } },
		{ "a\"b\"c '' \"\"", { "abc", "", "" } },
		{ "\"a\\\"b\\\\c\\d\" 'e\\f'", { "a\"b\\c\\d", "e\\f" } },
	};

	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		struct fathom_fault why;
		char **words;
		int count, wanted = 0;

		assert_int_equal(rpc_words_split(rows[i].line, &words, &count, &why), 0);
		for (; rows[i].words[wanted]; wanted++)
			assert_string_equal(words[wanted], rows[i].words[wanted]);
		assert_int_equal(count, wanted);
		rpc_words_free(words);
	}
}

static void an_unclosed_quotation_is_refused(void **state)
{
	static const char *const lines[] = { "a 'b", "\"", "a \\" };

	for (size_t i = 0; i < ARRAY_COUNT(lines); i++) {
		struct fathom_fault why;
		char **words;
		int count;

		assert_int_equal(rpc_words_split(lines[i], &words, &count, &why), -EINVAL);
	}
}

static void an_error_names_the_wrong_argument(void **state)
{
	static const char *const rows[][2] = {
		{ "bdev_null_create n 10", "argument block_size is missing" },
		{ "bdev_null_create n x 512", "argument total_size: \"x\" is not a decimal number" },
		{ "bdev_null_create n 10 512 9", "unexpected argument \"9\"" },
		{ "bdev_null_create n 10 0", "block_size is not above 0" },
		{ "log_set_level LOUD", "argument level: \"LOUD\" is not one of ERROR WARNING NOTICE INFO DEBUG" },
		{ "nvmf_create_transport", "argument --trtype is missing" },
		{ "nvmf_create_transport -t", "option --trtype needs a value" },
		{ "nvmf_create_transport -t tcp -Q", "unknown option -Q" },
		{ "nvmf_create_transport -t tcp --zcopy=1", "option --zcopy takes no value" },
		{ "nvmf_create_transport -t tcp --max-",
		  "option --max- is ambiguous: --max-queue-depth or --max-io-qpairs-per-ctrlr" },
		{ "bdev_get_bdevs --params {", "--params: column 1: string or '}' expected near end of file" },
		{ "bdev_get_bdevs --params []", "--params is not a JSON object" },
	};

	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		struct rpc_call call;
		struct fathom_fault why;
		char **words;
		int count;

		assert_int_equal(rpc_words_split(rows[i][0], &words, &count, &why), 0);
		assert_int_equal(rpc_args_read(count, words, &call, &why), RPC_ARGS_BAD);
		assert_string_equal(why.text, rows[i][1]);
		rpc_words_free(words);
	}
}

static void any_method_can_be_called_with_params(void **state)
{
	char method[] = "some_method", option[] = "--params", both[] = "--params={\"a\":1}", json[] = "{\"a\":1}";
	char *apart[] = { method, option, json, NULL }, *together[] = { method, both, NULL };
	struct rpc_call call;
	struct fathom_fault why;

	assert_int_equal(rpc_args_read(3, apart, &call, &why), RPC_ARGS_OK);
	assert_string_equal(call.method, method);
	assert_int_equal(json_integer_value(json_object_get(call.params, "a")), 1);
	rpc_call_deinit(&call);
	assert_int_equal(rpc_args_read(2, together, &call, &why), RPC_ARGS_OK);
	assert_int_equal(json_integer_value(json_object_get(call.params, "a")), 1);
	rpc_call_deinit(&call);
}

static void json_is_written_in_pythons_format(void **state)
{
	static const char *const rows[][2] = {
		{ "{\"a\":[1,true,null,\"x\"],\"b\":{}}",
		  "{\n  \"a\": [\n    1,\n    true,\n    null,\n    \"x\"\n  ],\n  \"b\": {}\n}" },
		{ "[]", "[]" },
		{ "\"\\u00e9 \\\\u00E9 \\u001f\"", "\"\\u00e9 \\\\u00E9 \\u001f\"" },
	};

	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		json_t *value = json_loads(rows[i][0], JSON_DECODE_ANY, NULL);
		char *text = rpc_json_text(value, 2);

		assert_string_equal(text, rows[i][1]);
		free(text);
		json_decref(value);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_command_line_sends_the_request_of_rpc_py),
		cmocka_unit_test(each_command_is_in_the_table),
		cmocka_unit_test(commands_are_sorted_and_have_help),
		cmocka_unit_test(a_line_is_split_into_words_as_by_a_shell),
		cmocka_unit_test(an_unclosed_quotation_is_refused),
		cmocka_unit_test(an_error_names_the_wrong_argument),
		cmocka_unit_test(any_method_can_be_called_with_params),
		cmocka_unit_test(json_is_written_in_pythons_format),
	};

	assert_true(argc > 1);
	table_path = argv[1];
	return cmocka_run_group_tests_name("rpc cli", tests, NULL, NULL);
}
