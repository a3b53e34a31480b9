/* SPDX-License-Identifier: BSD-2-Clause */
/* command - one operation of a recording as a command to the target. */
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/fathom/replay/replay.h"

enum {
	COMMAND_BLOCKS_MAX = 65536,
	OPCODE_WRITE = 0x01,
	FORCE_UNIT_ACCESS = 1 << 30, /* of dword 12 */
};

/* so that each line has its length */
#define NUMBERS_MAX ((uint64_t)10000000000000)
#define BLOCK_NUMBERS_MAX ((uint64_t)100000000000000000)

bool replay_place_operation(const struct replay_target *target, const struct replay_operation *operation,
			    struct replay_flight *flight, bool *widened, bool *wrapped)
{
	const struct replay_place *place = &target->places[operation->device];
	uint64_t block_bytes = place->ns.block_bytes, from, to;

	must(place->used);
	*widened = *wrapped = false;
	flight->lba = flight->blocks = 0;
	if (operation->kind == REPLAY_FLUSH)
		return true;
	/* a block is at most 2^52, and sizes differ by at most 2^7 */
	from = operation->block;
	to = operation->block + operation->blocks;
	if (place->source_block_bytes < block_bytes) {
		uint64_t ratio = block_bytes / place->source_block_bytes;

		*widened = from % ratio != 0 || to % ratio != 0;
		from = from / ratio;
		to = (to + ratio - 1) / ratio;
	} else {
		uint64_t ratio = place->source_block_bytes / block_bytes;

		from *= ratio;
		to *= ratio;
	}
	if (to - from > place->ns.blocks || (operation->kind != REPLAY_UNMAP && to - from > COMMAND_BLOCKS_MAX) ||
	    to - from > UINT32_MAX ||
	    (replay_kind_has_data(operation->kind) && (to - from) * block_bytes > target->transfer_bytes_max))
		return false;
	flight->blocks = (uint32_t)(to - from);
	if (to > place->ns.blocks) {
		*wrapped = true;
		from %= place->ns.blocks - flight->blocks + 1;
	}
	flight->lba = from;
	return true;
}

void replay_fill_pattern(uint8_t *data, uint64_t number, uint64_t lba, uint32_t blocks, uint32_t block_bytes)
{
	char line[REPLAY_PATTERN_BYTES + 1];

	for (uint32_t block = 0; block < blocks; block++) {
		snprintf(line, sizeof(line), "fathom replay  operation %013" PRIu64 "  block %017" PRIu64 "\n",
			 number % NUMBERS_MAX, (lba + block) % BLOCK_NUMBERS_MAX);
		must(strlen(line) == REPLAY_PATTERN_BYTES);
		for (uint32_t at = 0; at < block_bytes; at += REPLAY_PATTERN_BYTES)
			memcpy(data + (uint64_t)block * block_bytes + at, line, REPLAY_PATTERN_BYTES);
	}
}

/* A write that is on stable storage before it is answered. */
static int send_durable_write(struct replay_flight *flight, struct fathom_qpair *qpair, uint32_t nsid, fathom_done_fn done)
{
	uint8_t command[FATHOM_COMMAND_BYTES] = { [0] = OPCODE_WRITE };
	uint32_t wire_nsid = htole32(nsid), wire_blocks = htole32((flight->blocks - 1) | FORCE_UNIT_ACCESS);
	uint64_t wire_lba = htole64(flight->lba);

	memcpy(command + 4, &wire_nsid, sizeof(wire_nsid));
	memcpy(command + 40, &wire_lba, sizeof(wire_lba));
	memcpy(command + 48, &wire_blocks, sizeof(wire_blocks));
	return fathom_submit(qpair, command, &flight->iov, 1, done, flight);
}

static int send_write(struct replay_flight *flight, struct fathom_qpair *qpair, const struct replay_place *place,
		      fathom_done_fn done)
{
	flight->data = malloc(flight->iov.iov_len);
	if (!flight->data)
		return -ENOMEM;
	replay_fill_pattern(flight->data, flight->item.number, flight->lba, flight->blocks, place->ns.block_bytes);
	flight->iov.iov_base = flight->data;
	if (flight->item.operation.durable)
		return send_durable_write(flight, qpair, place->ns.nsid, done);
	return fathom_write(qpair, place->ns.nsid, flight->lba, flight->blocks, &flight->iov, 1, done, flight);
}

int replay_send(struct replay_flight *flight, struct fathom_qpair *qpair, const struct replay_place *place, void *scratch,
		fathom_done_fn done)
{
	flight->data = NULL;
	flight->iov = (struct iovec){ .iov_base = scratch, .iov_len = (size_t)flight->blocks * place->ns.block_bytes };
	switch ((enum replay_kind)flight->item.operation.kind) {
	case REPLAY_READ:
	case REPLAY_COMPARE: /* its data are not in the recording: it is replayed as a read */
		return fathom_read(qpair, place->ns.nsid, flight->lba, flight->blocks, &flight->iov, 1, done, flight);
	case REPLAY_WRITE:
		return send_write(flight, qpair, place, done);
	case REPLAY_FLUSH:
		return fathom_flush(qpair, place->ns.nsid, done, flight);
	case REPLAY_UNMAP:
		flight->range = (struct fathom_dsm_range){ .blocks = htole32(flight->blocks), .lba = htole64(flight->lba) };
		flight->iov = (struct iovec){ .iov_base = &flight->range, .iov_len = sizeof(flight->range) };
		return fathom_deallocate(qpair, place->ns.nsid, &flight->iov, done, flight);
	case REPLAY_ZEROES:
		return fathom_write_zeroes(qpair, place->ns.nsid, flight->lba, flight->blocks, false, done, flight);
	case REPLAY_KINDS:
		break;
	}
	must(!"an operation of no kind");
	return -EINVAL;
}
