/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzz: the file of `fathom replay extract`. The first byte says what the rest is:
 *
 *     0   a header
 *     1   a description; its length and sum are made right
 *     2   the operations of a block; its header and sums are made right
 *     3   a block as it is
 *
 * What is decoded is valid, and encodes to bytes that decode to the same.
 */
#include <isa-l/crc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "inspect/replay/incident.h"

static struct replay_queue queues[2];
static struct replay_device devices[3];
static const struct replay_summary tables = { .queue_count = 2, .device_count = 3, .queues = queues, .devices = devices };

static uint32_t sum(const void *bytes, size_t count)
{
	return ~crc32_iscsi((unsigned char *)bytes, (int)count, UINT32_MAX);
}

static void check_header(const uint8_t *bytes, size_t count)
{
	struct incident_header header;
	uint8_t again[INCIDENT_HEADER_BYTES];
	struct fathom_fault why = { 0 };

	if (incident_decode_header(bytes, count, &header, &why) != 0) {
		must(why.text[0]);
		return;
	}
	incident_encode_header(&header, again);
	must(memcmp(again + 16, bytes + 16, 24) == 0);
}

static void check_description(const uint8_t *text, size_t bytes)
{
	struct incident_header header = { .description_bytes = (uint32_t)bytes, .description_crc = sum(text, bytes) };
	struct replay_summary summary, other;
	struct fathom_fault why = { 0 };
	char *again;
	size_t again_bytes;

	if (incident_parse_description(&header, (const char *)text, bytes, &summary, &why) != 0) {
		must(why.text[0]);
		return;
	}
	must(incident_describe(&summary, &again, &again_bytes, &header.description_crc) == 0);
	header.description_bytes = (uint32_t)again_bytes;
	must(incident_parse_description(&header, again, again_bytes, &other, &why) == 0);
	must(other.queue_count == summary.queue_count && other.device_count == summary.device_count);
	must(memcmp(other.queues, summary.queues, summary.queue_count * sizeof(*summary.queues)) == 0);
	free(again);
	replay_summary_deinit(&summary);
	replay_summary_deinit(&other);
}

static bool same(const struct replay_operation *a, const struct replay_operation *b)
{
	return a->start_ns == b->start_ns && a->latency_ns == b->latency_ns && a->block == b->block &&
	       a->blocks == b->blocks && a->queue == b->queue && a->device == b->device && a->kind == b->kind &&
	       a->failed == b->failed && a->durable == b->durable && a->device_known == b->device_known &&
	       a->device_ns == b->device_ns;
}

/* Decode a block, and encode and decode each of its operations again. */
static void check_block(const uint8_t *bytes, size_t count)
{
	static struct incident_encoder encoder;
	static struct incident_decoder decoder, second;
	struct replay_operation operation, again;
	struct fathom_fault why = { 0 };
	uint64_t before_ns = 0;
	int rc = incident_decoder_begin(&decoder, bytes, count, 0, &tables, &why);

	while (rc == 0 && (rc = incident_decoder_next(&decoder, &operation, &why)) == 1) {
		must(replay_operation_is_valid(&operation, tables.queue_count, tables.device_count));
		must(operation.start_ns >= before_ns);
		before_ns = operation.start_ns;
		incident_encoder_init(&encoder);
		must(incident_encoder_add(&encoder, &operation));
		must(incident_decoder_begin(&second, encoder.bytes, incident_encoder_finish(&encoder), 0, &tables, &why) ==
		     0);
		must(incident_decoder_next(&second, &again, &why) == 1);
		must(same(&operation, &again));
		must(incident_decoder_next(&second, &again, &why) == 0);
		rc = 0;
	}
	must(rc == 0 || why.text[0]);
}

/* A block around `payload`, whose first byte is the number of operations. */
static void check_payload(const uint8_t *payload, size_t bytes)
{
	static uint8_t block[INCIDENT_BLOCK_BYTES_MAX];
	uint32_t numbers[4];

	if (bytes < 2 || bytes - 1 > INCIDENT_PAYLOAD_BYTES_MAX)
		return;
	memset(block, 0, INCIDENT_BLOCK_HEADER_BYTES);
	memcpy(block + INCIDENT_BLOCK_HEADER_BYTES, payload + 1, bytes - 1);
	numbers[0] = (uint32_t)bytes - 1;
	numbers[1] = payload[0];
	numbers[2] = sum(payload + 1, bytes - 1);
	memcpy(block, numbers, 8);
	memcpy(block + 24, &numbers[2], 4);
	numbers[3] = sum(block, 28);
	memcpy(block + 28, &numbers[3], 4);
	check_block(block, INCIDENT_BLOCK_HEADER_BYTES + bytes - 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1 || size > INCIDENT_BLOCK_BYTES_MAX)
		return 0;
	switch (data[0] % 4) {
	case 0:
		check_header(data + 1, size - 1);
		break;
	case 1:
		check_description(data + 1, size - 1);
		break;
	case 2:
		check_payload(data + 1, size - 1);
		break;
	default:
		check_block(data + 1, size - 1);
	}
	return 0;
}

#if !defined(__clang__) || defined(FUZZ_REPLAY)

#include "replay.h"

/* '1' is 1, '2' is 2 and '0' is 0 modulo 4 */
static const char *const seeds[] = {
	"1{\"incident\":1,\"operations\":0,\"kinds\":{\"read\":0},\"queues\":[{\"host\":1,\"qid\":1,\"depth\":4,"
	"\"operations\":"
	"0}],\"devices\":[{\"name\":\"v\",\"nsid\":1,\"block_bytes\":512,\"blocks_used\":8,\"operations\":0}]}",
	"2\1\x20\1\x80\2\x08\xc0\x84\x3d\x81\x10",
	"2\2\x20\1\x80\2\x08\xc0\x84\x3d\x05\xd9\xe8\7\1\2\xc0\x84\x3d\x80\x08",
	"0FATHOMRP",
};

static int write_seeds(const char *folder)
{
	return write_texts(folder, seeds, ARRAY_COUNT(seeds));
}

int main(int argc, char **argv)
{
	static uint8_t data[65536];

	for (size_t i = 0; argc == 1 && i < ARRAY_COUNT(seeds); i++)
		LLVMFuzzerTestOneInput((const uint8_t *)seeds[i], strlen(seeds[i]));
	return replay(argc, argv, write_seeds, data, sizeof(data));
}

#endif
