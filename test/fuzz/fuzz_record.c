/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzz: the record of a pool, a volume or a snapshot. What is decoded encodes to bytes that decode to the same. The first
 * byte has the kind, and whether the text gets the checksum of its values first, as `fathom ddb` does it.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/fathom/ddb/internal.h"

static int encode(const struct store_object *object, char **text_ret, size_t *bytes_ret)
{
	if (object->kind == STORE_POOL)
		return pool_record_encode(&object->record.pool, text_ret, bytes_ret);
	if (object->kind == STORE_VOLUME)
		return volume_record_encode(&object->record.volume, text_ret, bytes_ret);
	return snapshot_record_encode(&object->record.snapshot, text_ret, bytes_ret);
}

static void deinit(struct store_object *object)
{
	if (object->kind == STORE_VOLUME)
		volume_record_deinit(&object->record.volume);
}

static void check(enum store_kind kind, const char *text, size_t bytes)
{
	char name[] = "pools/p1", *one, *other;
	struct store_object object = { .kind = kind, .path = name }, again = object;
	size_t one_bytes, other_bytes;
	struct fathom_fault why;

	if (store_decode(&object, text, bytes, &why) != 0) {
		must(why.text[0]);
		return;
	}
	must(encode(&object, &one, &one_bytes) == 0);
	must(store_decode(&again, one, one_bytes, &why) == 0);
	must(encode(&again, &other, &other_bytes) == 0);
	must(one_bytes == other_bytes && memcmp(one, other, one_bytes) == 0);
	free(one);
	free(other);
	deinit(&object);
	deinit(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum store_kind kind;
	size_t bytes;
	char *text;

	if (size < 1 || size > POOL_RECORD_BYTES_MAX)
		return 0;
	kind = data[0] % 3;
	if (data[0] & 0x40) {
		if (store_resum(kind, (const char *)data + 1, size - 1, &text, &bytes, NULL) == 0) {
			check(kind, text, bytes);
			free(text);
		}
	} else {
		check(kind, (const char *)data + 1, size - 1);
	}
	return 0;
}

#if !defined(__clang__) || defined(FUZZ_REPLAY)

#include "base/bits.h"
#include "replay.h"

#define UUID "\"uuid\": \"950fc86b-a987-4a2b-bde9-cd728548bb25\", "

/* 'B', '@' and 'A' have the bit 0x40, and are 0, 1 and 2 modulo 3 */
static const char *const seeds[] = {
	"B{\"checksum\": \"0x00000000\", \"pool\": {" UUID "\"version\": 1, \"size_bytes\": 0, \"overcommit\": true, "
	"\"created_ns\": 1}}",
	"@{\"checksum\": \"0x00000000\", \"volume\": {" UUID "\"version\": 1, \"size_bytes\": 8192, \"block_bytes\": 4096, "
	"\"generation\": 1, \"thick\": false, \"read_only\": false, \"checksums\": false, \"created_ns\": 1, \"origin\": "
	"null, "
	"\"hosts\": [{\"nqn\": \"nqn.2014-08.org:x\"}]}}",
	"A{\"checksum\": \"0x00000000\", \"snapshot\": {" UUID
	"\"version\": 1, \"size_bytes\": 8192, \"block_bytes\": 4096, "
	"\"volume\": \"950fc86b-a987-4a2b-bde9-cd728548bb26\", \"group\": \"950fc86b-a987-4a2b-bde9-cd728548bb27\", "
	"\"checksums\": false, \"created_ns\": 1}}",
	"0{\"checksum\": \"0x00000000\", \"pool\": {}}",
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
