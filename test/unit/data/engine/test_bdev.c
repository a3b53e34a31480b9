/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The methods of block devices, called in the process: their results, and that a saved configuration recreates the same
 * devices.
 */
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
#include "base/text.h"
#include "data/engine/internal.h"
#include "data/engine/methods.gen.h"
#include "base/reactor/reactor.h"
#include "data/store/bdev/bdev.h"

/* ---- the control thread, without a pthread ---- */

enum { NOW = 100000, LATENCY_SHORT = 100, LATENCY_LONG = 700 };

static void run(thread_fn fn, void *ctx)
{
	thread_send_msg(thread_control(), fn, ctx);
	while (reactor_step(reactor_control(), NOW))
		;
}

struct call {
	const char *method;
	json_t *params, *result;
	int code;
	char message[RPC_MESSAGE_BYTES_MAX];
	unsigned int done_count;
};

static void called(void *ctx, int code, const char *message, const json_t *result)
{
	struct call *call = ctx;

	call->done_count++;
	call->code = code;
	if (code)
		strncpy(call->message, message, sizeof(call->message) - 1);
	else
		call->result = json_incref((json_t *)result);
}

static void do_call(void *ctx)
{
	struct call *call = ctx;

	rpc_call(call->method, call->params, called, call);
}

/* Takes `params`; NULL: none. */
static struct call call_any(const char *method, json_t *params)
{
	struct call call = { .method = method, .params = params };

	run(do_call, &call);
	assert_int_equal(call.done_count, 1);
	json_decref(params);
	return call;
}

/* A call that must succeed. The caller frees its result. */
static json_t *call(const char *method, json_t *params)
{
	struct call made = call_any(method, params);

	if (made.code)
		fail_msg("%s: %s", method, made.message);
	return made.result;
}

static int setup(void **state)
{
	struct reactor_options options = { .simulated = true, .simulated_tick = 1000 };

	cpuset_add(&options.cpus, 0);
	assert_int_equal(reactors_start(&options), 0);
	rpc_register(engine_methods, engine_method_count);
	rpc_set_state(RPC_RUNTIME);
	return 0;
}

static int teardown(void **state)
{
	reactors_stop();
	return 0;
}

static void create_bdev(const char *kind, const char *name)
{
	char method[64];

	snprintf(method, sizeof(method), "bdev_%s_create", kind);
	json_decref(call(method, json_pack("{s:s, s:i, s:i}", "name", name, "num_blocks", 100, "block_size", 512)));
}

static void delete_bdev(const char *kind, const char *name)
{
	char method[64];

	snprintf(method, sizeof(method), "bdev_%s_delete", kind);
	json_decref(call(method, json_pack("{s:s}", "name", name)));
}

/* ---- statistics ---- */

static struct {
	struct bdev_desc *desc;
	struct bdev_channel *ch;
	struct bdev_io io;
	struct iovec iov;
	uint8_t buffer[512];
} load;

static void ended(struct bdev_io *io, enum io_status status)
{
	must(status == (io->block_index == 0 ? IO_SUCCESS : IO_INVALID));
}

static void load_begin(void *unused)
{
	must(bdev_open("m", NULL, NULL, &load.desc) == 0);
	load.ch = bdev_channel_get(load.desc);
	must(load.ch);
	load.iov = (struct iovec){ load.buffer, sizeof(load.buffer) };
	bdev_io_init(&load.io);
}

/* Two reads, two writes, and a read beyond the end. */
static void load_step(void *unused)
{
	const uint64_t begun[] = { reactor_now() - LATENCY_SHORT, reactor_now() - LATENCY_LONG };

	for (size_t i = 0; i < ARRAY_COUNT(begun); i++) {
		bdev_read(&load.io, load.ch, &load.iov, 1, 0, 1, begun[i], ended);
		bdev_write(&load.io, load.ch, &load.iov, 1, 0, 1, begun[i], ended);
	}
	bdev_read(&load.io, load.ch, &load.iov, 1, 100, 1, reactor_now(), ended);
}

static void load_end(void *unused)
{
	bdev_channel_put(load.ch);
	bdev_close(load.desc);
}

static void number_is(const json_t *object, const char *key, json_int_t expected)
{
	const json_t *value = json_object_get(object, key);

	if (!json_is_integer(value) || json_integer_value(value) != expected)
		fail_msg("%s is %lld, expected %lld", key, (long long)json_integer_value(value), (long long)expected);
}

/* Assert that all counters count `all` steps and the errors `errors` steps, and that the extremes are set or reset. */
static void iostat_is(const json_t *stats, int all, bool extremes, int errors)
{
	number_is(stats, "num_read_ops", all * 3);
	number_is(stats, "bytes_read", (json_int_t)all * 2 * 512);
	number_is(stats, "num_write_ops", all * 2);
	number_is(stats, "read_latency_ticks", (json_int_t)all * (LATENCY_SHORT + LATENCY_LONG));
	number_is(stats, "min_read_latency_ticks", extremes ? LATENCY_SHORT : 0);
	number_is(stats, "max_read_latency_ticks", extremes ? LATENCY_LONG : 0);
	number_is(stats, "min_write_latency_ticks", extremes ? LATENCY_SHORT : 0);
	number_is(stats, "max_write_latency_ticks", extremes ? LATENCY_LONG : 0);
	if (errors)
		number_is(json_object_get(stats, "io_error"), "INVALID", errors);
	else
		assert_int_equal(json_object_size(json_object_get(stats, "io_error")), 0);
}

/* Get statistics with `params` and check them; `list` is the name of the array with the device or channel. */
static void check_iostat(json_t *params, const char *list, int all, bool extremes, int errors)
{
	json_t *result = call("bdev_get_iostat", params), *stats = json_object_get(result, list);

	assert_int_equal(json_array_size(stats), 1);
	iostat_is(json_array_get(stats, 0), all, extremes, errors);
	json_decref(result);
}

static const struct {
	const char *name;
	int all_after, errors_after;
	bool extremes_after;
} modes[] = {
	{ "all", 0, 0, false },
	{ "maxmin", 1, 1, false },
	{ "error", 1, 0, true },
	{ "none", 1, 1, true },
};

/* Check the statistics after `reset`, for each mode, and that counting continues. */
static void check_modes(void (*reset)(const char *mode))
{
	for (size_t i = 0; i < ARRAY_COUNT(modes); i++) {
		create_bdev("malloc", "m");
		run(load_begin, NULL);
		run(load_step, NULL);
		reset(modes[i].name);
		check_iostat(NULL, "bdevs", modes[i].all_after, modes[i].extremes_after, modes[i].errors_after);
		run(load_step, NULL);
		check_iostat(NULL, "bdevs", modes[i].all_after + 1, true, modes[i].errors_after + 1);
		run(load_end, NULL);
		delete_bdev("malloc", "m");
	}
}

static void by_reset(const char *mode)
{
	json_decref(call("bdev_reset_iostat", json_pack("{s:s}", "mode", mode)));
}

static void by_reset_of_one(const char *mode)
{
	create_bdev("null", "other");
	json_decref(call("bdev_reset_iostat", json_pack("{s:s, s:s}", "name", "other", "mode", "all")));
	delete_bdev("null", "other");
	check_iostat(NULL, "bdevs", 1, true, 1);
	json_decref(call("bdev_reset_iostat", json_pack("{s:s, s:s}", "name", "m", "mode", mode)));
}

static void by_get(const char *mode)
{
	check_iostat(json_pack("{s:s}", "reset_mode", mode), "bdevs", 1, true, 1);
}

static void by_get_of_names(const char *mode)
{
	check_iostat(json_pack("{s:[s], s:s}", "names", "m", "reset_mode", mode), "bdevs", 1, true, 1);
}

static void by_get_of_channels(const char *mode)
{
	check_iostat(json_pack("{s:[s], s:b, s:s}", "names", "m", "per_channel", 1, "reset_mode", mode), "channels", 1,
		     true, 1);
}

static void a_reset_clears_only_the_statistics_of_its_mode(void **state)
{
	check_modes(by_reset);
	check_modes(by_reset_of_one);
	check_modes(by_get);
	check_modes(by_get_of_names);
	check_modes(by_get_of_channels);
}

static void without_a_mode_reset_clears_all_and_get_clears_nothing(void **state)
{
	create_bdev("malloc", "m");
	run(load_begin, NULL);
	run(load_step, NULL);
	check_iostat(NULL, "bdevs", 1, true, 1);
	check_iostat(NULL, "bdevs", 1, true, 1);
	json_decref(call("bdev_reset_iostat", NULL));
	check_iostat(NULL, "bdevs", 0, false, 0);
	run(load_end, NULL);
	delete_bdev("malloc", "m");
}

/* ---- saving and loading ---- */

static char config_path[64], disk_path[64], other_disk_path[64];

static void do_save(void *ctx)
{
	bdev_config(ctx);
}

static json_t *save(void)
{
	json_t *calls = json_array();

	assert_non_null(calls);
	run(do_save, calls);
	return calls;
}

static void loaded(void *ctx, const struct fathom_fault *why)
{
	bool *done = ctx;

	if (why)
		fail_msg("%s", why->text);
	*done = true;
}

static struct config *config;

static void do_load(void *done)
{
	config_replay(config, false, loaded, done);
}

/* Load through a file, as fathom-engine -c does. */
static void load_calls(json_t *calls)
{
	json_t *root = json_pack("{s:[{s:s, s:O}]}", "subsystems", "subsystem", "bdev", "config", calls);
	bool done = false;
	struct fathom_fault why;

	assert_non_null(root);
	assert_int_equal(json_dump_file(root, config_path, 0), 0);
	json_decref(root);
	if (config_load(config_path, &config, &why) < 0)
		fail_msg("%s", why.text);
	run(do_load, &done);
	assert_true(done);
	config_free(config);
}

static void delete_everything(void)
{
	const char *const kinds[] = { "error", "null", "malloc", "uring", "aio" };
	json_t *list, *bdev;
	size_t at;

	/* the newest first, since it may be built on an older one */
	while (list = call("bdev_get_bdevs", NULL), (at = json_array_size(list)) > 0) {
		bdev = json_array_get(list, at - 1);
		for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
			char method[64];

			snprintf(method, sizeof(method), "bdev_%s_delete", kinds[i]);
			if (call_any(method, json_pack("{s:O}", "name", json_object_get(bdev, "name"))).code == 0)
				break;
		}
		json_decref(list);
	}
	json_decref(list);
}

static int make_paths(void **state)
{
	int fd;

	assert_int_equal(text_copy(config_path, sizeof(config_path), "/tmp/fathom-engine-config-XXXXXX"), 0);
	assert_int_equal(text_copy(disk_path, sizeof(disk_path), "/tmp/fathom-engine-disk-XXXXXX"), 0);
	fd = mkstemp(config_path);
	assert_true(fd >= 0);
	close(fd);
	fd = mkstemp(disk_path);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 1 << 20), 0);
	close(fd);
	assert_int_equal(text_copy(other_disk_path, sizeof(other_disk_path), "/tmp/fathom-engine-disk-XXXXXX"), 0);
	fd = mkstemp(other_disk_path);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 1 << 20), 0);
	return close(fd);
}

static int remove_paths(void **state)
{
	return unlink(config_path) | unlink(disk_path) | unlink(other_disk_path);
}

#define UUID "3bd9a1bf-2de4-4c36-b2a8-ed4bc1d5a9a1"

/* Create each kind of device, with all parameters and with the fewest. */
static void create_all_kinds(void)
{
	create_bdev("null", "n");
	create_bdev("malloc", "m");
	json_decref(call("bdev_null_create", json_pack("{s:s, s:i, s:i, s:i, s:s}", "name", "n2", "num_blocks", 7,
						       "block_size", 512, "physical_block_size", 4096, "uuid", UUID)));
	json_decref(call("bdev_malloc_create",
			 json_pack("{s:s, s:i, s:i, s:i, s:i}", "name", "m2", "num_blocks", 100, "block_size", 512,
				   "physical_block_size", 4096, "optimal_io_boundary", 8)));
	json_decref(call("bdev_uring_create", json_pack("{s:s, s:s}", "name", "u", "filename", disk_path)));
	json_decref(call("bdev_aio_create", json_pack("{s:s, s:s, s:i, s:b}", "name", "a", "filename", other_disk_path,
						      "block_size", 4096, "readonly", 1)));
	json_decref(call("bdev_error_create", json_pack("{s:s}", "base_name", "m")));
	json_decref(call("bdev_error_create", json_pack("{s:s, s:s, s:s, s:b}", "base_name", "EE_m", "name", "top", "uuid",
							"8e5c1a0e-55a4-4a3b-9d0d-2a4c0d3f0b11", "keep_versions", 1)));
	/* a seed above the range of JSON's integers */
	json_decref(call("bdev_error_create", json_pack("{s:s, s:s}", "base_name", "m2", "seed", "18446744073709551615")));
}

static void a_saved_configuration_recreates_the_same_devices(void **state)
{
	json_t *saved, *devices, *again, *devices_again;

	create_all_kinds();
	saved = save();
	devices = call("bdev_get_bdevs", NULL);
	assert_int_equal(json_array_size(devices), 9);
	delete_everything();
	load_calls(saved);
	again = save();
	devices_again = call("bdev_get_bdevs", NULL);
	assert_true(json_equal(again, saved));
	assert_true(json_equal(devices_again, devices));
	json_decref(again);
	json_decref(devices_again);
	json_decref(saved);
	json_decref(devices);
	delete_everything();
}

/* The saved call has only parameters of SPDK's bdev_error_create, unless others were set. */
static void a_plain_error_device_is_saved_with_spdks_parameters(void **state)
{
	json_t *calls, *params;

	create_bdev("null", "n");
	json_decref(call("bdev_error_create", json_pack("{s:s, s:s}", "base_name", "n", "uuid", UUID)));
	calls = save();
	params = json_object_get(json_array_get(calls, 1), "params");
	assert_int_equal(json_object_size(params), 2);
	assert_string_equal(json_string_value(json_object_get(params, "base_name")), "n");
	assert_string_equal(json_string_value(json_object_get(params, "uuid")), UUID);
	json_decref(calls);
	delete_everything();
}

enum { READS = 64 };

static struct {
	uint64_t failed; /* a bit per read */
	unsigned int next;
} chance;

static void chance_ended(struct bdev_io *io, enum io_status status)
{
	chance.failed |= status == IO_SUCCESS ? 0 : BIT(chance.next);
	chance.next++;
}

static void read_by_chance(void *unused)
{
	struct iovec iov = { load.buffer, sizeof(load.buffer) };

	must(bdev_open("e", NULL, NULL, &load.desc) == 0);
	load.ch = bdev_channel_get(load.desc);
	must(load.ch);
	bdev_io_init(&load.io);
	for (int i = 0; i < READS; i++)
		bdev_read(&load.io, load.ch, &iov, 1, 0, 1, reactor_now(), chance_ended);
	bdev_channel_put(load.ch);
	bdev_close(load.desc);
}

static uint64_t failures(bool inject)
{
	if (inject)
		json_decref(
			call("bdev_error_inject_error", json_pack("{s:s, s:s, s:s, s:i, s:i}", "name", "e", "io_type",
								  "read", "error_type", "failure", "num", 0, "one_in", 2)));
	memset(&chance, 0, sizeof(chance));
	run(read_by_chance, NULL);
	assert_int_equal(chance.next, READS);
	return chance.failed;
}

static void a_loaded_error_device_has_its_seed_and_versions_but_no_errors(void **state)
{
	uint64_t before;
	json_t *saved;

	create_bdev("malloc", "m");
	json_decref(call("bdev_error_create",
			 json_pack("{s:s, s:s, s:i, s:b}", "base_name", "m", "name", "e", "seed", 5, "keep_versions", 1)));
	before = failures(true);
	assert_true(before != 0 && before != UINT64_MAX);
	saved = save();
	delete_everything();
	load_calls(saved);
	json_decref(saved);
	assert_int_equal(failures(false), 0);
	assert_int_equal(failures(true), before);
	json_decref(call("bdev_error_inject_error",
			 json_pack("{s:s, s:s, s:s}", "name", "e", "io_type", "read", "error_type", "stale")));
	delete_everything();
}

static void a_base_with_a_name_too_long_for_an_error_device_is_refused(void **state)
{
	char name[BDEV_NAME_BYTES_MAX];
	struct call refused;

	memset(name, 'n', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	create_bdev("null", name);
	refused = call_any("bdev_error_create", json_pack("{s:s}", "base_name", name));
	assert_int_equal(refused.code, -EINVAL);
	assert_non_null(strstr(refused.message, "too long"));
	json_decref(call("bdev_error_create", json_pack("{s:s, s:s}", "base_name", name, "name", "e")));
	delete_everything();
}

#define PATHS(name) cmocka_unit_test_setup_teardown(name, make_paths, remove_paths)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_reset_clears_only_the_statistics_of_its_mode),
		cmocka_unit_test(without_a_mode_reset_clears_all_and_get_clears_nothing),
		PATHS(a_saved_configuration_recreates_the_same_devices),
		cmocka_unit_test(a_plain_error_device_is_saved_with_spdks_parameters),
		PATHS(a_loaded_error_device_has_its_seed_and_versions_but_no_errors),
		cmocka_unit_test(a_base_with_a_name_too_long_for_an_error_device_is_refused),
	};

	return cmocka_run_group_tests_name("engine bdev", tests, setup, teardown);
}
