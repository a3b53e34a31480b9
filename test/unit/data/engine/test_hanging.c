/* SPDX-License-Identifier: BSD-2-Clause */
/* The open or the close of a file hangs, as on a disk that does not respond: all other calls are answered. */
#include "../../hanging_close.h"
#include "../../hanging_open.h"
#include "storage_calls_rig.h"
#include "data/engine/methods.gen.h"
#include "data/engine/move/image.h"

static volatile int image_error; /* 1: not ended */
static volatile bool image_is_gone;
static struct move_image image;

static void note_image_done(void *ctx, const struct fathom_fault *error)
{
	image_error = error ? error->error : 0;
}

static void note_image_gone(void *ctx)
{
	image_is_gone = true;
}

/* Of a snapshot that is empty: its open fails when it does not hang any more. */
static int serve_image(void *ctx)
{
	struct snapshot snapshot = { .record = { .name = "s", .size_bytes = MIB, .block_bytes = 4096 } };

	snapshot.record.uuid[0] = 1;
	image_error = 1;
	image_is_gone = false;
	move_image_init(&image, NULL);
	move_image_serve(&image, volumes_find(engine_storage(), "p", "a"), &snapshot, "nqn.2026-11.org.fathom:a",
			 note_image_done);
	return 0;
}

static int end_image(void *ctx)
{
	move_image_end(&image, note_image_gone);
	return 0;
}

static void begin_hung_image(void)
{
	char command[384];

	serve();
	assert_int_equal(create_pool(""), 0);
	assert_int_equal(create_volume("", MIB), 0);
	snprintf(command, sizeof(command), "cd %s/pools/p/volumes/a && mkdir snapshots/s && >snapshots/s/data",
		 storage_folder);
	must(system(command) == 0);
	hang_open("/snapshots/s/data");
	on_control(serve_image, NULL);
	wait_for_hung_open();
}

/* Queries and changes go on, also of the same volume. */
static void a_snapshot_whose_open_hangs_stops_no_other_call(void **state)
{
	begin_hung_image();
	assert_int_equal(volume_count(), 1);
	assert_int_equal(change(STORE__ACTION__VOLUME_RESIZE, "", "", 2 * MIB), 0);
	assert_int_equal(image_error, 1);
	hang_open(NULL);
	rig_wait(image_error != 1);
	assert_int_equal(image_error, -EINVAL);
}

static void the_end_of_a_snapshot_waits_for_its_open_and_stops_no_other_call(void **state)
{
	begin_hung_image();
	on_control(end_image, NULL);
	assert_int_equal(volume_count(), 1);
	assert_false(image_is_gone);
	hang_open(NULL);
	rig_wait(image_is_gone);
	assert_int_equal(image_error, 1); /* it is not called after an end */
}

static void a_volume_whose_scan_hangs_stops_no_other_call(void **state)
{
	Store__StorageReq offer = request_of(STORE__ACTION__MOVE_OFFER);
	struct storage_answer answer;

	serve();
	assert_int_equal(create_pool(""), 0);
	assert_int_equal(create_volume(UUID_B, MIB), 0);
	offer.volume_uuid = UUID_B;
	offer.move_session = UUID_A;
	offer.move_serial = 1;
	hang_open("/volumes/a/data.1");
	start_call(&answer, offer);
	wait_for_hung_open();
	assert_int_equal(volume_count(), 1);
	assert_false(answer.done);
	hang_open(NULL);
	end_call(&answer);
	assert_int_not_equal(answer.response->error, 0); /* in this test nothing serves the volume to the other engine */
	store__storage_resp__free_unpacked(answer.response, NULL);
}

/* ---- block devices of files, by JSON-RPC ---- */

enum { NOT_ANSWERED = 1 };

struct rpc_made {
	const char *method;
	json_t *params; /* owned */
	volatile int code;
	char message[RPC_MESSAGE_BYTES_MAX];
};

static void note_reply(void *ctx, int code, const char *message, const json_t *result)
{
	struct rpc_made *made = ctx;

	snprintf(made->message, sizeof(made->message), "%s", code ? message : "");
	made->code = code;
}

static int do_rpc(void *ctx)
{
	struct rpc_made *made = ctx;

	rpc_call(made->method, made->params, note_reply, made);
	return 0;
}

/* Takes `params`. */
static void start_rpc(struct rpc_made *made, const char *method, json_t *params)
{
	*made = (struct rpc_made){ .method = method, .params = params, .code = NOT_ANSWERED };
	on_control(do_rpc, made);
}

static int end_rpc(struct rpc_made *made)
{
	rig_wait(made->code != NOT_ANSWERED);
	json_decref(made->params);
	return made->code;
}

static int call_rpc(const char *method, json_t *params)
{
	struct rpc_made made;

	start_rpc(&made, method, params);
	return end_rpc(&made);
}

static char disk[128];

static void make_disk(void)
{
	FILE *file;

	snprintf(disk, sizeof(disk), "%s/hanging-disk", rig_folder);
	file = fopen(disk, "w");
	must(file);
	must(ftruncate(fileno(file), MIB) == 0);
	must(fclose(file) == 0);
	rpc_set_state(RPC_RUNTIME);
}

static json_t *file_params(const char *name)
{
	return json_pack("{s:s, s:s, s:i}", "name", name, "filename", disk, "block_size", 4096);
}

static json_t *name_params(const char *name)
{
	return json_pack("{s:s}", "name", name);
}

static json_t *null_params(const char *name)
{
	return json_pack("{s:s, s:i, s:i}", "name", name, "num_blocks", 1, "block_size", 512);
}

static int control_count_going(void *ctx)
{
	return (int)bdev_going_count();
}

static void a_block_device_whose_open_hangs_stops_no_other_call(void **state)
{
	static const char *const methods[] = { "bdev_uring_create", "bdev_aio_create" };
	struct rpc_made creating;

	make_disk();
	for (size_t i = 0; i < ARRAY_COUNT(methods); i++) {
		hang_open("/hanging-disk");
		start_rpc(&creating, methods[i], file_params("d"));
		wait_for_hung_open();
		assert_int_equal(call_rpc("bdev_null_create", null_params("n")), 0);
		assert_int_equal(call_rpc("bdev_null_delete", name_params("n")), 0);
		assert_true(call_rpc("bdev_get_bdevs", name_params("d")) < 0);
		assert_true(call_rpc(methods[i], file_params("d")) < 0); /* the name is taken */
		assert_int_equal(creating.code, NOT_ANSWERED);
		assert_int_equal(on_control(control_count_going, NULL), 1);
		hang_open(NULL);
		assert_int_equal(end_rpc(&creating), 0);
		assert_int_equal(on_control(control_count_going, NULL), 0);
		assert_int_equal(call_rpc("bdev_get_bdevs", name_params("d")), 0);
		assert_true(call_rpc("bdev_uring_create", file_params("e")) < 0); /* the file is in use */
		assert_int_equal(call_rpc(i == 0 ? "bdev_uring_delete" : "bdev_aio_delete", name_params("d")), 0);
	}
}

static void a_block_device_whose_close_hangs_stops_no_other_call(void **state)
{
	struct rpc_made deleting;

	make_disk();
	assert_int_equal(call_rpc("bdev_aio_create", file_params("d")), 0);
	hang_close(disk);
	start_rpc(&deleting, "bdev_aio_delete", name_params("d"));
	wait_for_hung_closes(1);
	assert_int_equal(call_rpc("bdev_null_create", null_params("d")), 0); /* the name is free */
	assert_int_equal(call_rpc("bdev_null_delete", name_params("d")), 0);
	assert_int_equal(deleting.code, NOT_ANSWERED);
	assert_int_equal(on_control(control_count_going, NULL), 1);
	hang_close(NULL);
	assert_int_equal(end_rpc(&deleting), 0);
	assert_int_equal(call_rpc("bdev_aio_create", file_params("e")), 0);
	assert_int_equal(call_rpc("bdev_aio_delete", name_params("e")), 0);
}

static int end_hanging(void **state)
{
	hang_open(NULL); /* also after an assertion */
	hang_close(NULL);
	return end(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_snapshot_whose_open_hangs_stops_no_other_call, setup, end_hanging),
		cmocka_unit_test_setup_teardown(the_end_of_a_snapshot_waits_for_its_open_and_stops_no_other_call, setup,
						end_hanging),
		cmocka_unit_test_setup_teardown(a_volume_whose_scan_hangs_stops_no_other_call, setup, end_hanging),
		cmocka_unit_test_setup_teardown(a_block_device_whose_open_hangs_stops_no_other_call, setup, end_hanging),
		cmocka_unit_test_setup_teardown(a_block_device_whose_close_hangs_stops_no_other_call, setup, end_hanging),
	};

	rpc_register(engine_methods, engine_method_count);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("engine hanging", tests, NULL, NULL);
}
