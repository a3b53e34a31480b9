/* SPDX-License-Identifier: BSD-2-Clause */
/* The file format: what is encoded is decoded, the bytes of each version stay, and every damage is found. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "inspect/replay/incident.h"

static struct incident_encoder encoder;
static struct incident_decoder decoder;

static struct replay_summary make_summary(uint32_t queues, uint32_t devices)
{
	struct replay_summary summary = { .queue_count = queues, .device_count = devices };

	summary.queues = calloc(queues, sizeof(*summary.queues));
	summary.devices = calloc(devices, sizeof(*summary.devices));
	assert_true(summary.queues && summary.devices);
	for (uint32_t i = 0; i < queues; i++)
		summary.queues[i] = (struct replay_queue){ .host_number = i + 1, .qid = 1, .depth = 8 };
	for (uint32_t i = 0; i < devices; i++)
		summary.devices[i] = (struct replay_device){ .nsid = i + 1, .block_bytes = 512 };
	return summary;
}

static void assert_equal_operations(const struct replay_operation *a, const struct replay_operation *b)
{
	assert_int_equal(a->start_ns, b->start_ns);
	assert_int_equal(a->latency_ns, b->latency_ns);
	assert_int_equal(a->block, b->block);
	assert_int_equal(a->blocks, b->blocks);
	assert_int_equal(a->queue, b->queue);
	assert_int_equal(a->device, b->device);
	assert_int_equal(a->kind, b->kind);
	assert_int_equal(a->failed, b->failed);
	assert_int_equal(a->durable, b->durable);
	assert_int_equal(a->device_known, b->device_known);
	assert_int_equal(a->device_ns, b->device_ns);
}

/* ---- blocks ---- */

static struct replay_operation random_operation(struct random *random, uint64_t *start_ns)
{
	struct replay_operation operation = {
		.start_ns = *start_ns += random_below(random, 3) ? random_below(random, 100000) : 0,
		.latency_ns = random_below(random, 10) ? random_below(random, 1u << 30) : REPLAY_NO_LATENCY,
		.block = random_below(random, REPLAY_BLOCK_MAX + 1),
		.blocks = 1 + (uint32_t)random_below(random, random_below(random, 2) ? 64 : REPLAY_BLOCKS_MAX),
		.queue = (uint16_t)random_below(random, REPLAY_QUEUES_MAX),
		.device = (uint16_t)random_below(random, REPLAY_DEVICES_MAX),
		.kind = (uint8_t)random_below(random, REPLAY_KINDS),
		.failed = random_below(random, 2),
		.durable = random_below(random, 2),
	};

	if (operation.kind == REPLAY_FLUSH)
		operation.block = operation.blocks = 0;
	operation.device_known = operation.latency_ns != REPLAY_NO_LATENCY && random_below(random, 3);
	if (operation.device_known)
		operation.device_ns = random_below(random, operation.latency_ns + 1);
	return operation;
}

static void operations_come_back_from_their_blocks(void **state)
{
	enum { COUNT = 20000 };
	struct replay_summary summary = make_summary(REPLAY_QUEUES_MAX, REPLAY_DEVICES_MAX);
	struct replay_operation *operations = calloc(COUNT, sizeof(*operations)), again;
	uint64_t start_ns = 0, decoded = 0, blocks = 0;
	struct random random;

	random_init(&random, 1);
	for (uint32_t i = 0; i < COUNT; i++)
		operations[i] = random_operation(&random, &start_ns);
	incident_encoder_init(&encoder);
	for (uint32_t i = 0; i <= COUNT; i++) {
		size_t bytes = 0;

		if (i < COUNT && incident_encoder_add(&encoder, &operations[i]))
			continue;
		bytes = incident_encoder_finish(&encoder);
		assert_int_equal(incident_decoder_begin(&decoder, encoder.bytes, bytes, decoded, &summary, NULL), 0);
		while (incident_decoder_next(&decoder, &again, NULL) == 1)
			assert_equal_operations(&again, &operations[decoded++]);
		assert_int_equal(decoded, i);
		blocks++;
		incident_encoder_next(&encoder);
		if (i < COUNT)
			assert_true(incident_encoder_add(&encoder, &operations[i]));
	}
	assert_true(blocks > 2);
	free(operations);
	replay_summary_deinit(&summary);
}

static void an_empty_block_is_not_written(void **state)
{
	incident_encoder_init(&encoder);
	assert_int_equal(incident_encoder_finish(&encoder), 0);
}

static size_t one_block(void)
{
	uint64_t start_ns = 0;
	struct random random;

	random_init(&random, 2);
	incident_encoder_init(&encoder);
	for (int i = 0; i < 5; i++) {
		struct replay_operation operation = random_operation(&random, &start_ns);

		operation.queue %= 2;
		operation.device = 0;
		assert_true(incident_encoder_add(&encoder, &operation));
	}
	return incident_encoder_finish(&encoder);
}

/* Decode the block; the number of operations, or an error. */
static int decode_all(const uint8_t *bytes, size_t count, const struct replay_summary *summary, struct fathom_fault *why)
{
	struct replay_operation operation;
	int rc = incident_decoder_begin(&decoder, bytes, count, 0, summary, why), found = 0;

	if (rc)
		return rc;
	while ((rc = incident_decoder_next(&decoder, &operation, why)) == 1)
		found++;
	return rc ? rc : found;
}

static void each_changed_bit_of_a_block_is_found(void **state)
{
	struct replay_summary summary = make_summary(2, 1);
	size_t bytes = one_block();
	struct fathom_fault why;

	assert_int_equal(decode_all(encoder.bytes, bytes, &summary, &why), 5);
	for (size_t bit = 0; bit < 8 * bytes; bit++) {
		encoder.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		why.text[0] = '\0';
		assert_int_equal(decode_all(encoder.bytes, bytes, &summary, &why), -EBADMSG);
		assert_true(why.text[0] != '\0');
		encoder.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	for (size_t shorter = 0; shorter < bytes; shorter++)
		assert_int_equal(decode_all(encoder.bytes, shorter, &summary, &why), -EBADMSG);
	replay_summary_deinit(&summary);
}

static void a_queue_that_the_description_lacks_is_refused(void **state)
{
	struct replay_summary summary = make_summary(1, 1);
	size_t bytes = one_block();

	assert_int_equal(decode_all(encoder.bytes, bytes, &summary, NULL), -EBADMSG);
	replay_summary_deinit(&summary);
}

/* ---- the file as a whole ---- */

static void version_2_has_these_bytes(void **state)
{
	static const uint8_t numbers[] = { 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 };
	static const struct replay_operation operations[] = {
		{ .latency_ns = 1000000, .block = 128, .blocks = 8 },
		{ .start_ns = 1000,
		  .latency_ns = REPLAY_NO_LATENCY,
		  .block = 500000,
		  .blocks = 1024,
		  .queue = 1,
		  .kind = REPLAY_WRITE,
		  .failed = true,
		  .durable = true },
		{ .start_ns = 1000, .latency_ns = 300, .block = 8, .blocks = 1, .device_ns = 200, .device_known = true },
	};
	static const uint8_t payload[] = {
		0x20,
		0x00,
		0x80,
		0x02,
		0x08,
		0xc0,
		0x84,
		0x3d,
		0x00, /* flags; 0 ns; place; 8 blocks; 1000000 ns; not known */
		0x59,
		0xe8,
		0x07,
		0x01,
		0xc0,
		0x84,
		0x3d,
		0x80,
		0x08, /* flags; 1000 ns; queue; place; 1024 blocks */
		/* flags; 0 ns; queue; place: 128 back; 1 block; 300 ns; 200 ns plus 1 */
		0x60,
		0x00,
		0x00,
		0xff,
		0x01,
		0x01,
		0xac,
		0x02,
		0xc9,
		0x01,
	};

	incident_encoder_init(&encoder);
	for (size_t i = 0; i < ARRAY_COUNT(operations); i++)
		assert_true(incident_encoder_add(&encoder, &operations[i]));
	assert_int_equal(incident_encoder_finish(&encoder), INCIDENT_BLOCK_HEADER_BYTES + sizeof(payload));
	assert_memory_equal(encoder.bytes + INCIDENT_BLOCK_HEADER_BYTES, payload, sizeof(payload));
	assert_int_equal(encoder.bytes[0], sizeof(payload));
	assert_memory_equal(encoder.bytes + 4, numbers, sizeof(numbers));
}

/* A block of version 1, which has no times at the device. */
static void version_1_is_read(void **state)
{
	static const uint8_t block[] = {
		0x11, 0,    0,	  0,	2,    0,    0,	  0,	0,    0,    0,	  0,	0,    0,    0,	  0,	0,
		0,    0,    0,	  0,	0,    0,    0,	  0x3a, 0xce, 1,    0xcf, 0x94, 0x0e, 0xb0, 0x7d, 0x20, 0x00,
		0x80, 0x02, 0x08, 0xc0, 0x84, 0x3d, 0x59, 0xe8, 0x07, 0x01, 0xc0, 0x84, 0x3d, 0x80, 0x08,
	};
	struct replay_summary summary = make_summary(2, 1);
	struct replay_operation operation;

	summary.lacks_device_times = true;
	assert_int_equal(incident_decoder_begin(&decoder, block, sizeof(block), 0, &summary, NULL), 0);
	assert_int_equal(incident_decoder_next(&decoder, &operation, NULL), 1);
	assert_int_equal(operation.latency_ns, 1000000);
	assert_int_equal(operation.block, 128);
	assert_false(operation.device_known);
	assert_int_equal(incident_decoder_next(&decoder, &operation, NULL), 1);
	assert_int_equal(operation.latency_ns, REPLAY_NO_LATENCY);
	assert_int_equal(operation.block, 500000);
	assert_int_equal(operation.queue, 1);
	assert_true(operation.durable);
	assert_int_equal(incident_decoder_next(&decoder, &operation, NULL), 0);
	replay_summary_deinit(&summary);
}

static void a_header_comes_back_and_damage_is_found(void **state)
{
	const struct incident_header header = {
		.operations = 77, .blocks_bytes = 1234, .description_bytes = 99, .description_crc = 0x12345678
	};
	uint8_t bytes[INCIDENT_HEADER_BYTES];
	struct incident_header again;
	struct fathom_fault why;

	incident_encode_header(&header, bytes);
	assert_memory_equal(bytes, "FATHOMRP\2\0\0\0\x40\0\0\0", 16);
	assert_true(incident_recognise(bytes, sizeof(bytes)));
	assert_int_equal(incident_decode_header(bytes, sizeof(bytes), &again, &why), 0);
	assert_int_equal(again.operations, 77);
	assert_int_equal(again.blocks_bytes, 1234);
	assert_int_equal(again.description_bytes, 99);
	assert_int_equal(again.description_crc, 0x12345678);
	for (size_t bit = 0; bit < 8 * sizeof(bytes); bit++) {
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_int_not_equal(incident_decode_header(bytes, sizeof(bytes), &again, &why), 0);
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	assert_int_equal(again.version, 2);
	bytes[8] = 3;
	assert_int_equal(incident_decode_header(bytes, sizeof(bytes), &again, &why), -EPROTONOSUPPORT);
	assert_non_null(strstr(why.text, "version 3"));
	assert_int_equal(incident_decode_header(bytes, 20, &again, &why), -EBADMSG);
}

static void a_description_comes_back(void **state)
{
	struct replay_summary summary = make_summary(3, 2), again;
	struct incident_header header = { .version = 2, .operations = 30 };
	struct fathom_fault why;
	size_t bytes;
	char *text;

	summary.operations = 30;
	summary.kinds[REPLAY_READ] = 20;
	summary.kinds[REPLAY_ZEROES] = 10;
	summary.span_ns = 123456789;
	summary.left_out.partial = 4;
	summary.records_missing = 5;
	snprintf(summary.queues[1].host, REPLAY_NAME_BYTES, "host \"x\"");
	snprintf(summary.devices[0].name, REPLAY_NAME_BYTES, "volume7");
	assert_int_equal(incident_describe(&summary, &text, &bytes, &header.description_crc), 0);
	header.description_bytes = (uint32_t)bytes;
	assert_int_equal(incident_parse_description(&header, text, bytes, &again, &why), 0);
	assert_int_equal(again.queue_count, 3);
	assert_int_equal(again.device_count, 2);
	assert_string_equal(again.queues[1].host, "host \"x\"");
	assert_string_equal(again.queues[0].host, "");
	assert_int_equal(again.queues[2].host_number, 3);
	assert_int_equal(again.queues[2].depth, 8);
	assert_string_equal(again.devices[0].name, "volume7");
	assert_int_equal(again.devices[1].nsid, 2);
	assert_int_equal(again.kinds[REPLAY_ZEROES], 10);
	assert_int_equal(again.span_ns, 123456789);
	assert_int_equal(again.left_out.partial, 4);
	assert_int_equal(again.records_missing, 5);
	assert_false(again.lacks_device_times);
	replay_summary_deinit(&again);
	header.version = 1;
	assert_int_equal(incident_parse_description(&header, text, bytes, &again, &why), 0);
	assert_true(again.lacks_device_times);
	replay_summary_deinit(&again);
	assert_int_equal(incident_parse_description(&header, text, bytes - 1, &again, &why), -EBADMSG);
	header.operations = 31; /* the kinds have 30 */
	assert_int_equal(incident_parse_description(&header, text, bytes, &again, &why), -EBADMSG);
	free(text);
	replay_summary_deinit(&summary);
}

static void a_file_without_names_has_none(void **state)
{
	struct replay_summary summary = make_summary(1, 1);
	uint32_t crc;
	size_t bytes;
	char *text;

	assert_int_equal(incident_describe(&summary, &text, &bytes, &crc), 0);
	assert_null(strstr(text, "name"));
	assert_null(strstr(text, "source"));
	free(text);
	replay_summary_deinit(&summary);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(operations_come_back_from_their_blocks),
		cmocka_unit_test(an_empty_block_is_not_written),
		cmocka_unit_test(each_changed_bit_of_a_block_is_found),
		cmocka_unit_test(a_queue_that_the_description_lacks_is_refused),
		cmocka_unit_test(version_2_has_these_bytes),
		cmocka_unit_test(version_1_is_read),
		cmocka_unit_test(a_header_comes_back_and_damage_is_found),
		cmocka_unit_test(a_description_comes_back),
		cmocka_unit_test(a_file_without_names_has_none),
	};

	return cmocka_run_group_tests_name("replay incident", tests, NULL, NULL);
}
