/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * submit_ios - submits I/Os to a backend, to be run under valgrind:
 *
 *   valgrind --suppressions=test/valgrind.supp build/test/unit/data/store/store-submit-ios DEVICE [COUNT [SEED]]
 *
 * DEVICE: null, malloc, faulty (on malloc), tricky (a backend that uses all that its contract allows), a path (a file of
 * zeroes), or `freed`: malloc, and at the end a write from freed memory, which valgrind must report. COUNT is 10000 by
 * default. All types of I/O in random order, many at a time, each byte compared (model.h; reads of null must return
 * zeroes). Reactors are simulated: one pthread, and the same I/O for the same SEED.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "model.h"
#include "data/store/filter/filter.h"
#include "tricky.h"

enum { COUNT_DEFAULT = 10000, COUNT_MAX = 10 * 1000 * 1000, BLOCKS = 4096, BLOCK_BYTES = 512, NULL_BLOCKS = 16 };

static struct {
	const char *device;
	uint32_t count;
	uint64_t seed;
} asked = { NULL, COUNT_DEFAULT, 1 };

static void make_faulty(void *name)
{
	struct fathom_fault why;

	must(filter_create(&(struct filter_options){ .name = name, .base_name = "base", .seed = asked.seed }, &why) == 0);
}

/* Create the device "d". */
static void make(void)
{
	struct fathom_fault why = { 0 };

	if (strcmp(asked.device, "null") == 0) {
		rig_null("d", BLOCKS, BLOCK_BYTES);
	} else if (strcmp(asked.device, "malloc") == 0 || strcmp(asked.device, "freed") == 0) {
		rig_malloc("d", BLOCKS, BLOCK_BYTES);
	} else if (strcmp(asked.device, "faulty") == 0) {
		rig_malloc("base", BLOCKS, BLOCK_BYTES);
		rig_on(thread_control(), make_faulty, "d");
	} else if (strcmp(asked.device, "tricky") == 0) {
		(void)tricky_create(&(struct tricky_options){ .name = "d", /* freed with the bdev */
							      .seed = asked.seed,
							      .block_count = BLOCKS,
							      .block_bytes = BLOCK_BYTES,
							      .io_blocks_max = 17,
							      .boundary_blocks = 32,
							      .types = TRICKY_ALL,
							      .refuse_percent = 10,
							      .inline_percent = 50 });
	} else if (rig_file(&(struct file_options){ .name = "d", .filename = asked.device }, &why) < 0) {
		fail_msg("%s", why.text);
	}
}

static void null_reads_zeroes(struct bdev_channel *ch)
{
	static const enum io_type types[] = { IO_TYPE_READ, IO_TYPE_WRITE, IO_TYPE_FLUSH, IO_TYPE_WRITE_ZEROES };
	uint8_t *buffer = malloc(NULL_BLOCKS * BLOCK_BYTES);

	assert_non_null(buffer);
	for (uint32_t i = 0; i < asked.count; i++) {
		enum io_type type = types[i % ARRAY_COUNT(types)];
		bool data = type == IO_TYPE_READ || type == IO_TYPE_WRITE;

		memset(buffer, 0x5a, NULL_BLOCKS * BLOCK_BYTES);
		assert_int_equal(rig_io(rig_thread(0), ch, type, data ? buffer : NULL, i % (BLOCKS - NULL_BLOCKS),
					NULL_BLOCKS),
				 IO_SUCCESS);
		if (type == IO_TYPE_READ)
			assert_true(is_all_zero(buffer, NULL_BLOCKS * BLOCK_BYTES));
	}
	free(buffer);
}

static void write_from_freed_memory(struct bdev_channel *ch)
{
	void *volatile buffer = malloc(BLOCK_BYTES);

	memset(buffer, 1, BLOCK_BYTES);
	free(buffer);
	assert_int_equal(rig_io(rig_thread(0), ch, IO_TYPE_WRITE, buffer, 0, 1), IO_SUCCESS);
}

static void with_channel(void (*fn)(struct bdev_channel *ch))
{
	struct bdev_desc *desc = rig_open("d");
	struct bdev_channel *ch = rig_channel_get(rig_thread(0), desc);

	fn(ch);
	rig_channel_put(rig_thread(0), ch);
	rig_close(desc);
}

static void all_io_ends_with_the_expected_data(void **state)
{
	make();
	if (strcmp(asked.device, "null") == 0)
		with_channel(null_reads_zeroes);
	else
		model_run("d", &(struct model_options){ .seed = asked.seed,
							.ops = asked.count,
							.depth = 32,
							.blocks_max = 64,
							.iov_count_max = 8,
							.cut_bytes = 1 });
	if (strcmp(asked.device, "freed") == 0)
		with_channel(write_from_freed_memory);
	rig_delete("d");
	if (strcmp(asked.device, "faulty") == 0)
		rig_delete("base");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test_setup_teardown(all_io_ends_with_the_expected_data, rig_setup,
									    rig_teardown) };
	uint64_t count = COUNT_DEFAULT;

	if (argc < 2 || argc > 4 || (argc > 2 && text_parse_u64(argv[2], 10, COUNT_MAX, &count) != 0) ||
	    (argc > 3 && text_parse_u64(argv[3], 10, UINT64_MAX, &asked.seed) != 0)) {
		fprintf(stderr, "usage: store-submit-ios null|malloc|faulty|tricky|freed|FILE [COUNT [SEED]]\n");
		return 2;
	}
	asked.device = argv[1];
	asked.count = (uint32_t)count;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
