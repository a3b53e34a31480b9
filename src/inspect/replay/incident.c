/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * incident - encodes and decodes the header and the blocks.
 *
 * Numbers of an operation are variable: seven bits in a byte, low bits first, bit 7 set in all bytes but the last. An
 * operation that continues where its queue's previous one ended, as sequential I/O does, has the place 0.
 */
#include "inspect/replay/incident.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <isa-l/crc.h>
#include <string.h>

static const char magic[8] = { 'F', 'A', 'T', 'H', 'O', 'M', 'R', 'P' };

enum {
	KIND_MASK = 7,
	FLAG_FAILED = 1 << 3,
	FLAG_DURABLE = 1 << 4,
	FLAG_LATENCY = 1 << 5, /* the latency follows */
	FLAG_QUEUE = 1 << 6,   /* another queue than that of the operation before */
	FLAG_DEVICE = 1 << 7,
};
static_assert((int)REPLAY_KINDS <= KIND_MASK + 1, "three bits");

static uint32_t sum(const void *bytes, size_t count)
{
	return ~crc32_iscsi((unsigned char *)bytes, (int)count, UINT32_MAX);
}

static void put_u32(uint8_t *at, uint32_t number)
{
	uint32_t wire = htole32(number);

	memcpy(at, &wire, sizeof(wire));
}

static void put_u64(uint8_t *at, uint64_t number)
{
	uint64_t wire = htole64(number);

	memcpy(at, &wire, sizeof(wire));
}

static uint32_t get_u32(const uint8_t *at)
{
	uint32_t wire;

	memcpy(&wire, at, sizeof(wire));
	return le32toh(wire);
}

static uint64_t get_u64(const uint8_t *at)
{
	uint64_t wire;

	memcpy(&wire, at, sizeof(wire));
	return le64toh(wire);
}

/* ---- header ---- */

bool incident_recognise(const uint8_t *bytes, size_t count)
{
	return count >= sizeof(magic) && memcmp(bytes, magic, sizeof(magic)) == 0;
}

void incident_encode_header(const struct incident_header *header, uint8_t out[INCIDENT_HEADER_BYTES])
{
	memset(out, 0, INCIDENT_HEADER_BYTES);
	memcpy(out, magic, sizeof(magic));
	put_u32(out + 8, INCIDENT_VERSION);
	put_u32(out + 12, INCIDENT_HEADER_BYTES);
	put_u64(out + 16, header->operations);
	put_u64(out + 24, header->blocks_bytes);
	put_u32(out + 32, header->description_bytes);
	put_u32(out + 36, header->description_crc);
	put_u32(out + 60, sum(out, 60));
}

int incident_decode_header(const uint8_t *bytes, size_t count, struct incident_header *header_ret, struct fathom_fault *why)
{
	if (!incident_recognise(bytes, count))
		return fault(why, -EBADMSG, "not an incident of `fathom replay extract`");
	if (count < INCIDENT_HEADER_BYTES)
		return fault(why, -EBADMSG, "the file ends within its header");
	if (get_u32(bytes + 8) == 0 || get_u32(bytes + 8) > INCIDENT_VERSION)
		return fault(why, -EPROTONOSUPPORT,
			     "version %" PRIu32 " of the format, and this program knows versions up to %d",
			     get_u32(bytes + 8), INCIDENT_VERSION);
	if (get_u32(bytes + 12) != INCIDENT_HEADER_BYTES || get_u32(bytes + 60) != sum(bytes, 60))
		return fault(why, -EBADMSG, "the header is damaged");
	*header_ret = (struct incident_header){
		.version = get_u32(bytes + 8),
		.operations = get_u64(bytes + 16),
		.blocks_bytes = get_u64(bytes + 24),
		.description_bytes = get_u32(bytes + 32),
		.description_crc = get_u32(bytes + 36),
	};
	if (header_ret->description_bytes > INCIDENT_DESCRIPTION_BYTES_MAX || header_ret->blocks_bytes > INT64_MAX / 2)
		return fault(why, -EBADMSG, "the header has sizes that are not possible");
	return 0;
}

/* ---- writing blocks ---- */

static size_t put_number(uint8_t *at, uint64_t number)
{
	size_t count = 0;

	for (; number >= 0x80; number >>= 7)
		at[count++] = (uint8_t)(number | 0x80);
	at[count++] = (uint8_t)number;
	return count;
}

static uint64_t zigzag(uint64_t from, uint64_t to)
{
	return to >= from ? (to - from) << 1 : ((from - to) << 1) - 1;
}

void incident_encoder_next(struct incident_encoder *encoder)
{
	encoder->first_number = encoder->number;
	encoder->used = INCIDENT_BLOCK_HEADER_BYTES;
	encoder->operations = 0;
	encoder->base_ns = encoder->last_ns;
	encoder->queue = encoder->device = 0;
	memset(encoder->ends, 0, sizeof(encoder->ends));
}

void incident_encoder_init(struct incident_encoder *encoder)
{
	encoder->number = 0;
	encoder->last_ns = 0;
	incident_encoder_next(encoder);
}

bool incident_encoder_add(struct incident_encoder *encoder, const struct replay_operation *operation)
{
	uint8_t *at = encoder->bytes + encoder->used, flags = operation->kind;
	size_t count = 1;

	must(replay_operation_is_valid(operation, REPLAY_QUEUES_MAX, REPLAY_DEVICES_MAX));
	must(operation->start_ns >= encoder->last_ns);
	if (encoder->used + INCIDENT_OPERATION_BYTES_MAX > sizeof(encoder->bytes))
		return false;
	flags |= (operation->failed ? FLAG_FAILED : 0) | (operation->durable ? FLAG_DURABLE : 0);
	count += put_number(at + count, operation->start_ns - encoder->last_ns);
	if (operation->queue != encoder->queue) {
		flags |= FLAG_QUEUE;
		count += put_number(at + count, operation->queue);
	}
	if (operation->device != encoder->device) {
		flags |= FLAG_DEVICE;
		count += put_number(at + count, operation->device);
	}
	if (operation->kind != REPLAY_FLUSH) {
		count += put_number(at + count, zigzag(encoder->ends[operation->queue], operation->block));
		count += put_number(at + count, operation->blocks);
		encoder->ends[operation->queue] = operation->block + operation->blocks;
	}
	if (operation->latency_ns != REPLAY_NO_LATENCY) {
		flags |= FLAG_LATENCY;
		count += put_number(at + count, operation->latency_ns);
		count += put_number(at + count, operation->device_known ? operation->device_ns + 1 : 0);
	}
	must(count <= INCIDENT_OPERATION_BYTES_MAX);
	at[0] = flags;
	encoder->used += count;
	encoder->operations++;
	encoder->number++;
	encoder->last_ns = operation->start_ns;
	encoder->queue = operation->queue;
	encoder->device = operation->device;
	return true;
}

size_t incident_encoder_finish(struct incident_encoder *encoder)
{
	uint8_t *out = encoder->bytes;
	size_t payload = encoder->used - INCIDENT_BLOCK_HEADER_BYTES;

	if (encoder->operations == 0)
		return 0;
	put_u32(out, (uint32_t)payload);
	put_u32(out + 4, encoder->operations);
	put_u64(out + 8, encoder->first_number);
	put_u64(out + 16, encoder->base_ns);
	put_u32(out + 24, sum(out + INCIDENT_BLOCK_HEADER_BYTES, payload));
	put_u32(out + 28, sum(out, 28));
	return encoder->used;
}

/* ---- reading blocks ---- */

int incident_block_bytes(const uint8_t *bytes, size_t count, size_t *bytes_ret, struct fathom_fault *why)
{
	uint32_t payload;

	if (count < INCIDENT_BLOCK_HEADER_BYTES)
		return fault(why, -EBADMSG, "the file ends within a block");
	payload = get_u32(bytes);
	if (get_u32(bytes + 28) != sum(bytes, 28) || payload == 0 || payload > INCIDENT_PAYLOAD_BYTES_MAX)
		return fault(why, -EBADMSG, "the header of a block is damaged");
	*bytes_ret = INCIDENT_BLOCK_HEADER_BYTES + payload;
	return 0;
}

int incident_decoder_begin(struct incident_decoder *decoder, const uint8_t *bytes, size_t count, uint64_t number,
			   const struct replay_summary *summary, struct fathom_fault *why)
{
	size_t bytes_of_block = 0;
	int rc = incident_block_bytes(bytes, count, &bytes_of_block, why);

	if (rc)
		return rc;
	if (bytes_of_block != count ||
	    get_u32(bytes + 24) != sum(bytes + INCIDENT_BLOCK_HEADER_BYTES, count - INCIDENT_BLOCK_HEADER_BYTES))
		return fault(why, -EBADMSG, "the block at operation %" PRIu64 " is damaged", number);
	if (get_u64(bytes + 8) != number || get_u64(bytes + 16) > REPLAY_TIME_NS_MAX || get_u32(bytes + 4) == 0)
		return fault(why, -EBADMSG, "the block at operation %" PRIu64 " does not belong there", number);
	*decoder = (struct incident_decoder){
		.at = bytes + INCIDENT_BLOCK_HEADER_BYTES,
		.end = bytes + count,
		.last_ns = get_u64(bytes + 16),
		.left = get_u32(bytes + 4),
		.queue_count = summary->queue_count,
		.device_count = summary->device_count,
		.lacks_device_times = summary->lacks_device_times,
	};
	return 0;
}

/* A number of at most `max`. False: it is larger, or the block ends. */
static bool get_number(struct incident_decoder *decoder, uint64_t max, uint64_t *number_ret)
{
	uint64_t number = 0;

	for (unsigned int shift = 0; shift < 64 && decoder->at < decoder->end; shift += 7) {
		uint8_t byte = *decoder->at++;

		if (shift == 63 && byte > 1)
			return false;
		number |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80)) {
			*number_ret = number;
			return number <= max;
		}
	}
	return false;
}

static bool get_place(struct incident_decoder *decoder, struct replay_operation *operation)
{
	uint64_t *end = &decoder->ends[operation->queue];
	uint64_t distance, blocks;

	if (!get_number(decoder, UINT64_MAX, &distance) || !get_number(decoder, REPLAY_BLOCKS_MAX, &blocks))
		return false;
	/* wraps only in a damaged file, whose block is then out of range */
	operation->block = distance & 1 ? *end - (distance >> 1) - 1 : *end + (distance >> 1);
	operation->blocks = (uint32_t)blocks;
	*end = operation->block + operation->blocks;
	return true;
}

/* The latency, and the time at the device plus 1; 0: not known. */
static bool get_times(struct incident_decoder *decoder, struct replay_operation *operation)
{
	uint64_t number;

	if (!get_number(decoder, REPLAY_TIME_NS_MAX, &operation->latency_ns))
		return false;
	if (decoder->lacks_device_times)
		return true;
	if (!get_number(decoder, REPLAY_TIME_NS_MAX + 1, &number))
		return false;
	operation->device_known = number > 0;
	operation->device_ns = number > 0 ? number - 1 : 0;
	return true;
}

static bool get_operation(struct incident_decoder *decoder, struct replay_operation *operation)
{
	uint64_t number, flags;

	if (decoder->at == decoder->end)
		return false;
	flags = *decoder->at++;
	operation->kind = flags & KIND_MASK;
	operation->failed = flags & FLAG_FAILED;
	operation->durable = flags & FLAG_DURABLE;
	operation->latency_ns = REPLAY_NO_LATENCY;
	if (!get_number(decoder, REPLAY_TIME_NS_MAX, &number))
		return false;
	decoder->last_ns += number; /* both are at most 2^62 */
	operation->start_ns = decoder->last_ns;
	if (decoder->last_ns > REPLAY_TIME_NS_MAX)
		return false;
	if (flags & FLAG_QUEUE) {
		if (!get_number(decoder, REPLAY_QUEUES_MAX - 1, &number))
			return false;
		decoder->queue = (uint16_t)number;
	}
	if (flags & FLAG_DEVICE) {
		if (!get_number(decoder, REPLAY_DEVICES_MAX - 1, &number))
			return false;
		decoder->device = (uint16_t)number;
	}
	operation->queue = decoder->queue;
	operation->device = decoder->device;
	if (operation->kind != REPLAY_FLUSH && !get_place(decoder, operation))
		return false;
	return !(flags & FLAG_LATENCY) || get_times(decoder, operation);
}

int incident_decoder_next(struct incident_decoder *decoder, struct replay_operation *operation_ret,
			  struct fathom_fault *why)
{
	struct replay_operation operation = { 0 };

	if (decoder->left == 0) {
		if (decoder->at == decoder->end)
			return 0;
		return fault(why, -EBADMSG, "a block has more bytes than operations");
	}
	if (!get_operation(decoder, &operation) ||
	    !replay_operation_is_valid(&operation, decoder->queue_count, decoder->device_count))
		return fault(why, -EBADMSG, "an operation is not valid");
	decoder->left--;
	*operation_ret = operation;
	return 1;
}
