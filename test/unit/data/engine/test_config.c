/* SPDX-License-Identifier: BSD-2-Clause */
/* A configuration file: errors are reported with their position before any call is made; calls are made in order. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* after those */
#include <cmocka.h>

#include "base/bits.h"
#include "data/engine/internal.h"
#include "base/reactor/reactor.h"

static char path[] = "/tmp/fathom-config-XXXXXX";
static char calls[256]; /* the names passed to "note", in order */
static struct rpc_request *held;

struct note_params {
	const char *name;
};
static const struct rpc_param note_fields[] = {
	{ .name = "name", .type = RPC_STRING, .offset = RPC_FIELD(note_params, name, const char *), .required = true },
	{ .name = NULL },
};

static void note(struct rpc_request *request, const json_t *params)
{
	struct note_params p = { 0 };

	if (!rpc_params(request, params, note_fields, &p))
		return;
	strncat(calls, p.name, sizeof(calls) - strlen(calls) - 1);
	rpc_reply(request, NULL);
}

static void later(struct rpc_request *request, const json_t *params)
{
	strncat(calls, "(later)", sizeof(calls) - strlen(calls) - 1);
	held = request;
}

static const struct rpc_method methods[] = {
	{ "note", RPC_ALWAYS, note },
	{ "note_startup", RPC_STARTUP, note },
	{ "later", RPC_ALWAYS, later },
	{ "wait_for_the_engine", RPC_ALWAYS | RPC_CLIENTS_ONLY, later },
};

/* ---- the control thread, without a pthread ---- */

struct step {
	struct config *config;
	bool startup;
	unsigned int done_count;
	struct fathom_fault why;
};

static void run(thread_fn fn, void *ctx)
{
	thread_send_msg(thread_control(), fn, ctx);
	while (reactor_step(reactor_control(), 2000))
		;
}

static void replayed(void *ctx, const struct fathom_fault *why)
{
	struct step *step = ctx;

	step->done_count++;
	if (why)
		step->why = *why;
}

static void replay(void *ctx)
{
	struct step *step = ctx;

	config_replay(step->config, step->startup, replayed, step);
}

static void reply_held(void *ctx)
{
	struct rpc_request *request = held;

	held = NULL;
	rpc_reply(request, NULL);
}

static void write_file(const char *text)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
	calls[0] = '\0';
}

static int setup(void **state)
{
	struct reactor_options options = { .simulated = true, .simulated_tick = 1000 };
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	close(fd);
	cpuset_add(&options.cpus, 0);
	assert_int_equal(reactors_start(&options), 0);
	rpc_register(methods, ARRAY_COUNT(methods));
	return 0;
}

static int teardown(void **state)
{
	reactors_stop();
	return unlink(path);
}

#define CALLS(...) "{\"subsystems\": [{\"subsystem\": \"bdev\", \"config\": [" __VA_ARGS__ "]}]}"
#define NOTE(NAME) "{\"method\": \"note\", \"params\": {\"name\": \"" NAME "\"}}"

/* ---- reading ---- */

static void an_error_in_a_file_is_reported_with_its_position(void **state)
{
	static const char *const rows[][2] = {
		{ "{\n \"subsystems\": [,]}", "line 2, column 17: " },
		{ "[]", "has no list \"subsystems\" at its top" },
		{ "{}", "has no list \"subsystems\" at its top" },
		{ "{\"subsystems\": [{\"subsystem\": \"bdev\", \"config\": []}, {}]}",
		  "subsystems[1] is not {\"subsystem\": NAME, \"config\": [CALL, ...]}" },
		{ CALLS(NOTE("a") ", 5"), "subsystem \"bdev\", call 2: is not an object with a \"method\"" },
		{ CALLS("{\"method\": \"nto\"}"), "subsystem \"bdev\", call 1: there is no method \"nto\"" },
		{ CALLS("{\"method\": \"note\", \"param\": {}}"),
		  "subsystem \"bdev\", call 1 (note): no \"param\" here, only \"params\"" },
		{ CALLS("{\"method\": \"note\", \"params\": []}"),
		  "subsystem \"bdev\", call 1 (note): \"params\" is not an object" },
		{ CALLS(NOTE("a") ", {\"method\": \"wait_for_the_engine\"}"),
		  "subsystem \"bdev\", call 2: wait_for_the_engine is not allowed in a configuration" },
		{ CALLS("[" NOTE("a") ", {\"method\": \"nto\"}]"),
		  "subsystem \"bdev\", call 1: there is no method \"nto\"" },
	};

	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		struct config *config = NULL;
		struct fathom_fault why;

		write_file(rows[i][0]);
		assert_int_equal(config_load(path, &config, &why), -EINVAL);
		assert_null(config);
		assert_memory_equal(why.text, path, strlen(path));
		if (!strstr(why.text, rows[i][1]))
			fail_msg("\"%s\" does not say \"%s\"", why.text, rows[i][1]);
	}
}

static void a_missing_file_or_a_directory_is_an_error(void **state)
{
	struct config *config;
	struct fathom_fault why;

	assert_int_equal(config_load("/nonexistent/config.json", &config, &why), -ENOENT);
	assert_non_null(strstr(why.text, "/nonexistent/config.json"));
	assert_int_equal(config_load("/tmp", &config, &why), -EISDIR);
	assert_string_equal(why.text, "/tmp: Is a directory");
}

/* ---- replaying ---- */

static void load(struct step *step)
{
	struct fathom_fault why;

	assert_int_equal(config_load(path, &step->config, &why), 0);
}

static void calls_are_made_in_order(void **state)
{
	struct step step = { 0 };

	rpc_set_state(RPC_RUNTIME);
	write_file("{\"subsystems\": [{\"subsystem\": \"a\", \"config\": [" NOTE("1") ", [" NOTE("2") ", " NOTE(
		"3") "]]},"
		     "{\"subsystem\": \"b\", \"config\": null}, {\"subsystem\": \"c\", \"config\": [" NOTE("4") "]}]}");
	load(&step);
	run(replay, &step);
	assert_int_equal(step.done_count, 1);
	assert_int_equal(step.why.error, 0);
	assert_string_equal(calls, "1234");
	config_free(step.config);
}

static void startup_calls_are_made_first_and_alone(void **state)
{
	struct step step = { .startup = true };

	rpc_set_state(RPC_STARTUP);
	write_file(CALLS(NOTE("1") ", {\"method\": \"note_startup\", \"params\": {\"name\": \"s\"}}, " NOTE("2")));
	load(&step);
	run(replay, &step);
	assert_string_equal(calls, "s");
	rpc_set_state(RPC_RUNTIME);
	step.startup = false;
	run(replay, &step);
	assert_int_equal(step.done_count, 2);
	assert_string_equal(calls, "s12");
	config_free(step.config);
}

static void a_call_that_ends_later_is_waited_for(void **state)
{
	struct step step = { 0 };

	rpc_set_state(RPC_RUNTIME);
	write_file(CALLS(NOTE("1") ", {\"method\": \"later\"}, " NOTE("2")));
	load(&step);
	run(replay, &step);
	assert_int_equal(step.done_count, 0);
	assert_string_equal(calls, "1(later)");
	run(reply_held, NULL);
	assert_int_equal(step.done_count, 1);
	assert_string_equal(calls, "1(later)2");
	config_free(step.config);
}

static void do_cancel(void *config)
{
	assert_true(config_cancel(config));
	config_free(config);
}

static void a_cancelled_replay_is_freed_with_its_call_in_progress(void **state)
{
	struct step step = { 0 };

	rpc_set_state(RPC_RUNTIME);
	write_file(CALLS(NOTE("1") ", {\"method\": \"later\"}, " NOTE("2")));
	load(&step);
	run(replay, &step);
	run(do_cancel, step.config);
	run(reply_held, NULL); /* frees the replay; sanitizers detect a leak */
	assert_int_equal(step.done_count, 0);
	assert_string_equal(calls, "1(later)");
}

static void the_first_failed_call_ends_the_replay_and_is_named(void **state)
{
	char wanted[256];
	struct step step = { 0 };

	rpc_set_state(RPC_RUNTIME);
	write_file(CALLS(NOTE("1") ", {\"method\": \"note\", \"params\": {\"nmae\": 1}}, " NOTE("2")));
	load(&step);
	run(replay, &step);
	assert_int_equal(step.done_count, 1);
	assert_string_equal(calls, "1");
	snprintf(wanted, sizeof(wanted),
		 "%s: subsystem \"bdev\", call 2 (note): Invalid parameters: no parameter \"nmae\" here; there are name",
		 path);
	assert_string_equal(step.why.text, wanted);
	config_free(step.config);
}

static void many_calls_do_not_recurse(void **state)
{
	enum { MANY = 20000 };
	struct step step = { 0 };
	FILE *file = fopen(path, "w");

	rpc_set_state(RPC_RUNTIME);
	fputs("{\"subsystems\": [{\"subsystem\": \"bdev\", \"config\": [", file);
	for (int i = 0; i < MANY; i++)
		fprintf(file, "%s" NOTE("x"), i > 0 ? "," : "");
	fputs("]}]}", file);
	fclose(file);
	load(&step);
	run(replay, &step);
	assert_int_equal(step.done_count, 1);
	assert_int_equal(step.why.error, 0);
	config_free(step.config);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_error_in_a_file_is_reported_with_its_position),
		cmocka_unit_test(a_missing_file_or_a_directory_is_an_error),
		cmocka_unit_test(calls_are_made_in_order),
		cmocka_unit_test(startup_calls_are_made_first_and_alone),
		cmocka_unit_test(a_call_that_ends_later_is_waited_for),
		cmocka_unit_test(a_cancelled_replay_is_freed_with_its_call_in_progress),
		cmocka_unit_test(the_first_failed_call_ends_the_replay_and_is_named),
		cmocka_unit_test(many_calls_do_not_recurse),
	};

	return cmocka_run_group_tests_name("engine config", tests, setup, teardown);
}
