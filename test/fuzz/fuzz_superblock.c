/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzz: a decoded superblock encodes to the same bytes. If the first byte is odd, the last line gets the correct checksum,
 * so that the fuzzer reaches the checks after it.
 */
#include <inttypes.h>
#include <isa-l/crc.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "control/superblock/superblock.h"

enum { LAST_BYTES = sizeof("checksum: 0x00000000\n") - 1 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char text[SUPERBLOCK_TEXT_BYTES_MAX + 64], again[SUPERBLOCK_TEXT_BYTES_MAX], last[LAST_BYTES + 1];
	struct superblock superblock;
	const char *reason;
	uint32_t version;
	size_t bytes, again_bytes;

	if (size < 1 || size - 1 > sizeof(text))
		return 0;
	bytes = size - 1;
	memcpy(text, data + 1, bytes);
	if ((data[0] & 1) && bytes > LAST_BYTES) {
		uint32_t sum = crc32_iscsi((unsigned char *)text, (int)(bytes - LAST_BYTES), 0xffffffff) ^ 0xffffffff;

		snprintf(last, sizeof(last), "checksum: 0x%08" PRIx32 "\n", sum);
		memcpy(text + bytes - LAST_BYTES, last, LAST_BYTES);
	}
	if (superblock_decode(text, bytes, &superblock, &version, &reason) < 0) {
		must(strlen(reason) > 0);
		return 0;
	}
	must(superblock_encode(&superblock, again, &again_bytes) == 0);
	must(again_bytes == bytes);
	must(memcmp(again, text, bytes) == 0);
	must(superblock.rank <= RANK_MAX);
	return 0;
}

#if !defined(__clang__) || defined(FUZZ_REPLAY)

#include "base/bits.h"
#include "replay.h"

static const char *const seeds[] = {
	"1version: 1\nuuid: 950fc86b-a987-4a2b-bde9-cd728548bb25\nsystem: daos_server\nrank: 3\nuri: "
	"ofi+tcp://127.0.0.1:20000\n"
	"validrank: true\nhostfaultdomain: /rack0/node0\nincarnation: 1795201297274729984\nchecksum: 0x00000000\n",
	"1version: 1\nuuid: 950fc86b-a987-4a2b-bde9-cd728548bb25\nsystem: f\nrank: 0\nuri: \nvalidrank: false\n"
	"hostfaultdomain: /rack=0/node=n\nincarnation: 0\nchecksum: 0x00000000\n",
	"0version: 2\n",
};

static int write_seeds(const char *folder)
{
	return write_texts(folder, seeds, ARRAY_COUNT(seeds));
}

int main(int argc, char **argv)
{
	static uint8_t data[4096];

	for (size_t i = 0; argc == 1 && i < ARRAY_COUNT(seeds); i++)
		LLVMFuzzerTestOneInput((const uint8_t *)seeds[i], strlen(seeds[i]));
	return replay(argc, argv, write_seeds, data, sizeof(data));
}

#endif
