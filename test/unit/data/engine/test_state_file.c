/* SPDX-License-Identifier: BSD-2-Clause */
/* The file of --state: written before the answer, shared by changes that wait, never replaced if it cannot be used. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
/* after those */
#include <cmocka.h>

#include "base/bits.h"
#include "base/clock.h"
#include "data/engine/methods.gen.h"
#include "data/engine/state_file.h"
#include "base/reactor/reactor.h"

#include "../../control_thread.h"

enum { WAIT_SECONDS = 60, SAVES_MAX = 8 };

static char folder[64], path[96], moved[96];
static volatile unsigned int answered, failed;
static struct fathom_fault last;
static volatile bool closed, replayed;
static uint32_t writes, failures, kept;
static char state_name[16];

/* ---- on the control thread ---- */

static void saved(void *ctx, const struct fathom_fault *why)
{
	failed += why != NULL;
	if (why)
		last = *why;
	answered++;
}

static void note_replayed(void *ctx, const struct fathom_fault *why)
{
	must(!why); /* failed calls are collected */
	replayed = true;
}

static int open_file(void *config_ret)
{
	struct fathom_fault why;

	return state_file_open(path, config_ret, &why);
}

static int replay(void *config)
{
	config_replay(config, false, note_replayed, NULL);
	return 0;
}

static int loaded(void *config)
{
	state_file_loaded(config ? config_failed(config) : NULL);
	config_free(config);
	return 0;
}

static int save_some(void *count)
{
	for (int i = 0; i < *(int *)count; i++)
		state_file_save(saved, NULL);
	return 0;
}

static void note_changed(void *ctx, int code, const char *message, const json_t *result)
{
	must(code == 0);
}

static int change(void *crdt1)
{
	json_t *params = json_pack("{s:i}", "crdt1", *(int *)crdt1);

	rpc_call("nvmf_set_crdt", params, note_changed, NULL);
	json_decref(params);
	return 0;
}

static void note_closed(void)
{
	closed = true;
}

static int stop_and_close(void *unused)
{
	state_file_stop();
	state_file_close(note_closed);
	return 0;
}

static int save_stop_and_close(void *count)
{
	(void)save_some(count); /* returns 0 */
	return stop_and_close(NULL);
}

static int read_stats(void *unused)
{
	json_t *result = json_object(), *stats;

	state_file_stats(result);
	stats = json_object_get(result, "state_file");
	must(stats);
	writes = (uint32_t)json_integer_value(json_object_get(stats, "writes"));
	failures = (uint32_t)json_integer_value(json_object_get(stats, "failures"));
	kept = (uint32_t)json_integer_value(json_object_get(stats, "kept_calls"));
	snprintf(state_name, sizeof(state_name), "%s", json_string_value(json_object_get(stats, "state")));
	json_decref(result);
	return 0;
}

/* ---- helpers of the test's thread ---- */

#define wait_until(condition)                                                                                              \
	do {                                                                                                               \
		uint64_t until_ns = clock_monotonic_ns() + WAIT_SECONDS * NS_PER_SEC;                                      \
		while (!(condition)) {                                                                                     \
			assert_true(clock_monotonic_ns() < until_ns);                                                      \
			usleep(500);                                                                                       \
		}                                                                                                          \
	} while (0)

static void assert_state(const char *name)
{
	on_control(read_stats, NULL);
	assert_string_equal(state_name, name);
}

static void set_crdt(int value)
{
	on_control(change, &value);
}

static void save(int count)
{
	answered = failed = 0;
	on_control(save_some, &count);
}

static void save_and_wait(int count)
{
	save(count);
	wait_until(answered == (unsigned int)count);
}

static void write_text(const char *name, const char *text)
{
	FILE *to = fopen(name, "w");

	assert_non_null(to);
	fputs(text, to);
	assert_int_equal(fclose(to), 0);
}

/* The caller frees it. */
static char *read_text(const char *name)
{
	char *text = calloc(1, 1 << 16);
	FILE *from = fopen(name, "r");

	assert_non_null(from);
	assert_true(fread(text, 1, (1 << 16) - 1, from) > 0);
	fclose(from);
	return text;
}

static void assert_file_has(const char *words, unsigned int count)
{
	char *text = read_text(path);
	unsigned int found = 0;

	for (const char *at = text; (at = strstr(at, words)); at++)
		found++;
	if (found != count)
		fail_msg("%u times \"%s\" in %s", found, words, text);
	free(text);
}

/* Open, replay, load: as the engine's start. */
static void start(void)
{
	struct config *config = NULL;

	assert_int_equal(on_control(open_file, &config), 0);
	replayed = !config;
	if (config)
		on_control(replay, config);
	wait_until(replayed);
	on_control(loaded, config);
}

static void stop(void)
{
	closed = false;
	on_control(stop_and_close, NULL);
	wait_until(closed);
}

static int setup(void **state)
{
	struct reactor_options options = { .spin_ns = 0 };
	static bool is_registered;

	snprintf(folder, sizeof(folder), "/tmp/fathom-state-XXXXXX");
	must(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/state.json", folder);
	snprintf(moved, sizeof(moved), "%s.moved", folder);
	control_start(&options);
	rpc_set_state(RPC_RUNTIME);
	if (!is_registered)
		rpc_register(engine_methods, engine_method_count);
	is_registered = true;
	set_crdt(0);
	return 0;
}

static int teardown(void **state)
{
	char new_path[112];

	control_stop();
	snprintf(new_path, sizeof(new_path), "%s.new", path);
	(void)unlink(path);	/* it may not exist */
	(void)unlink(new_path); /* likewise */
	return rmdir(folder);
}

/* ---- tests ---- */

static void a_change_is_in_the_file_when_it_is_answered(void **state)
{
	start();
	assert_int_equal(access(path, F_OK), -1);
	assert_state("SAVED");
	set_crdt(7);
	save_and_wait(1);
	assert_int_equal(failed, 0);
	assert_file_has("\"crdt1\": 7", 1);
	save_and_wait(1); /* nothing has changed: no write */
	on_control(read_stats, NULL);
	assert_int_equal(writes, 1);
	stop();
	set_crdt(0);
	start(); /* its calls are made */
	save_and_wait(1);
	on_control(read_stats, NULL);
	assert_int_equal(writes, 0);
	set_crdt(8);
	save_and_wait(1);
	assert_file_has("\"crdt1\": 8", 1);
	stop();
}

static void changes_that_wait_share_a_write(void **state)
{
	start();
	set_crdt(1);
	save_and_wait(SAVES_MAX);
	on_control(read_stats, NULL);
	assert_int_equal(writes, 1);
	assert_int_equal(failed, 0);
	stop();
}

static void a_failed_write_is_answered_and_the_next_one_saves_all(void **state)
{
	start();
	set_crdt(1);
	assert_int_equal(rename(folder, moved), 0);
	save_and_wait(2);
	assert_int_equal(failed, 2);
	assert_int_equal(last.error, -ENOENT);
	assert_non_null(strstr(last.text, "the change is made, but not saved"));
	assert_state("UNSAVED");
	assert_int_equal(failures, 1);
	assert_int_equal(rename(moved, folder), 0);
	save_and_wait(1);
	assert_int_equal(failed, 0);
	assert_state("SAVED");
	assert_file_has("\"crdt1\": 1", 1);
	stop();
}

static void a_file_that_cannot_be_used_is_never_written(void **state)
{
	static const char *const texts[] = { "{", "[]",
					     ("{\"subsystems\": [{\"subsystem\": \"bdev\", \"config\": "
					      "[{\"method\": \"no_such\"}]}]}") };
	for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
		char *text;

		write_text(path, texts[i]);
		start();
		assert_state("HELD");
		assert_true(state_file_exists());
		set_crdt(3);
		save_and_wait(1);
		text = read_text(path);
		assert_string_equal(text, texts[i]);
		free(text);
		stop();
	}
}

static void calls_that_fail_at_the_start_are_kept(void **state)
{
	static const char lost[] = "{\"method\": \"nvmf_subsystem_allow_any_host\", \"params\": "
				   "{\"nqn\": \"nqn.2016-06.io.fathom:lost\", \"allow_any_host\": true}}";
	char text[600];

	snprintf(text, sizeof(text),
		 "{\"subsystems\": [{\"subsystem\": \"nvmf\", \"config\": [%s, {\"method\": \"nvmf_set_crdt\", \"params\": "
		 "{\"crdt1\": 9}}]}]}",
		 lost);
	write_text(path, text);
	start();
	assert_state("SAVED");
	assert_int_equal(kept, 1);
	set_crdt(10);
	save_and_wait(1);
	assert_file_has("fathom:lost", 1);
	assert_file_has("\"crdt1\": 10", 1);
	stop();
	start(); /* it fails again, and stays once */
	assert_state("SAVED");
	assert_int_equal(kept, 1);
	set_crdt(11);
	save_and_wait(1);
	assert_file_has("fathom:lost", 1);
	stop();
}

static void a_stop_waits_for_the_write_and_begins_no_other(void **state)
{
	start();
	set_crdt(1);
	save(1);
	stop();
	wait_until(answered == 1); /* either outcome: the write may not have begun */
	if (failed == 0)
		assert_file_has("\"crdt1\": 1", 1);
	else
		assert_int_equal(last.error, -ECANCELED);
}

/* A write to a FIFO waits for a reader. */
static void a_change_that_waits_for_a_slow_write_is_answered_at_the_stop(void **state)
{
	char new_path[112];
	int reader, one = 1;

	snprintf(new_path, sizeof(new_path), "%s.new", path);
	assert_int_equal(mkfifo(new_path, 0600), 0);
	start();
	set_crdt(1);
	save(1);
	do
		on_control(read_stats, NULL);
	while (strcmp(state_name, "WRITING") != 0);
	on_control(save_some, &one);
	closed = false;
	on_control(stop_and_close, NULL);
	assert_false(closed);
	assert_int_equal(answered, 0);
	reader = open(new_path, O_RDONLY | O_NONBLOCK);
	assert_true(reader >= 0);
	wait_until(closed);
	close(reader);
	assert_int_equal(answered, 2);
	assert_int_equal(last.error, -ECANCELED);
	start(); /* nothing of the stop is left */
	assert_state("SAVED");
	stop();
}

static void a_write_that_has_not_begun_is_answered_at_the_stop(void **state)
{
	int two = 2;

	start();
	set_crdt(1);
	answered = failed = 0;
	closed = false;
	on_control(save_stop_and_close, &two);
	wait_until(closed);
	assert_int_equal(answered, 2);
	assert_int_equal(failed, 2);
	assert_int_equal(last.error, -ECANCELED);
}

static void a_rest_of_an_interrupted_write_is_replaced(void **state)
{
	char new_path[112];

	snprintf(new_path, sizeof(new_path), "%s.new", path);
	write_text(new_path, "a very long rest of an earlier write, which must not be in the file");
	start();
	set_crdt(2);
	save_and_wait(1);
	assert_file_has("a very long rest", 0);
	assert_int_equal(access(new_path, F_OK), -1);
	stop();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_change_is_in_the_file_when_it_is_answered, setup, teardown),
		cmocka_unit_test_setup_teardown(changes_that_wait_share_a_write, setup, teardown),
		cmocka_unit_test_setup_teardown(a_failed_write_is_answered_and_the_next_one_saves_all, setup, teardown),
		cmocka_unit_test_setup_teardown(a_file_that_cannot_be_used_is_never_written, setup, teardown),
		cmocka_unit_test_setup_teardown(calls_that_fail_at_the_start_are_kept, setup, teardown),
		cmocka_unit_test_setup_teardown(a_stop_waits_for_the_write_and_begins_no_other, setup, teardown),
		cmocka_unit_test_setup_teardown(a_change_that_waits_for_a_slow_write_is_answered_at_the_stop, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_write_that_has_not_begun_is_answered_at_the_stop, setup, teardown),
		cmocka_unit_test_setup_teardown(a_rest_of_an_interrupted_write_is_replaced, setup, teardown),
	};

	return cmocka_run_group_tests_name("engine state_file", tests, NULL, NULL);
}
