/* SPDX-License-Identifier: BSD-2-Clause */
/* The open of a file for a move hangs, as on a disk that does not respond: all other calls are answered. */
#include "../../hanging_open.h"
#include "storage_calls_rig.h"
#include "data/engine/move_image.h"

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

static int end_hanging(void **state)
{
	hang_open(NULL); /* also after an assertion */
	return end(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_snapshot_whose_open_hangs_stops_no_other_call, setup, end_hanging),
		cmocka_unit_test_setup_teardown(the_end_of_a_snapshot_waits_for_its_open_and_stops_no_other_call, setup,
						end_hanging),
		cmocka_unit_test_setup_teardown(a_volume_whose_scan_hangs_stops_no_other_call, setup, end_hanging),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("engine hanging", tests, NULL, NULL);
}
