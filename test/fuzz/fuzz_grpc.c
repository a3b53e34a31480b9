/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_grpc - any bytes as a gRPC message cut anywhere, and as texts of its headers.
 *
 *      byte 0    seed of the cuts
 *      the rest  the stream
 *
 * Invariants: pieces give the same message as the whole, within the limit, and use at most twice the memory of the received
 * bytes; base64 and %XX are equal after encoding and decoding; a time-out that is encoded again is not shorter; details of
 * a status are decoded or refused, as text and as bytes, and an encoded ErrorInfo is decoded. Built by clang
 * -fsanitize=fuzzer it fuzzes; otherwise it replays.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/random.h"
#include "rpc/grpc/details.h"
#include "rpc/grpc/frame.h"
#include "rpc/grpc/text.h"

enum { INPUT_BYTES_MAX = 1 << 16, LIMIT = 1 << 14 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_message(const uint8_t *data, size_t size, uint64_t seed)
{
	struct grpc_message whole = { .bytes = 0 }, pieces = { .bytes = 0 };
	enum grpc_frame wanted = grpc_message_take(&whole, data, size, LIMIT), result = GRPC_FRAME_MORE;
	struct random random;
	size_t at = 0;

	random_init(&random, seed);
	/* a second message may be detected only with the next piece */
	while (at < size && result <= GRPC_FRAME_WHOLE) {
		size_t count = 1 + random_below(&random, min_u64(size - at, 9));

		result = grpc_message_take(&pieces, data + at, count, LIMIT);
		must(pieces.room <= max_u64(4096, 2 * (uint64_t)pieces.bytes));
		at += count;
	}
	must(result == wanted);
	must(grpc_message_is_empty(&whole) == (size == 0));
	if (wanted == GRPC_FRAME_WHOLE) {
		must(whole.bytes == size - GRPC_PREFIX_BYTES && whole.bytes == pieces.bytes);
		must(whole.bytes == 0 || memcmp(whole.data, data + GRPC_PREFIX_BYTES, whole.bytes) == 0);
		must(whole.bytes == 0 || memcmp(whole.data, pieces.data, whole.bytes) == 0);
	}
	grpc_message_clear(&whole);
	grpc_message_clear(&pieces);
}

static void check_texts(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), *there = malloc(3 * size + 1), *back = malloc(3 * size + 1),
	     *coded = malloc(GRPC_BASE64_BYTES(size));
	char timeout[GRPC_TIMEOUT_BYTES_MAX];
	uint8_t *decoded = malloc(size + 3);
	size_t bytes;
	uint64_t ns, again;

	must(text && there && back && coded && decoded);
	memcpy(text, data, size);
	text[size] = '\0';
	grpc_percent_encode(there, 3 * size + 1, text);
	grpc_percent_decode(back, 3 * size + 1, there);
	must(strcmp(back, text) == 0);
	grpc_percent_decode(back, 3 * size + 1, text);
	must(strlen(back) <= strlen(text));
	grpc_base64_encode(coded, data, size);
	must(grpc_base64_decode(decoded, coded, &bytes) == 0);
	must(bytes == size && memcmp(decoded, data, size) == 0);
	if (grpc_base64_decode(decoded, text, &bytes) == 0)
		must(bytes <= size);
	if (grpc_timeout_parse(text, &ns) == 0) {
		grpc_timeout_format(timeout, ns);
		must(grpc_timeout_parse(timeout, &again) == 0);
		must(again >= ns);
	}
	free(text);
	free(there);
	free(back);
	free(coded);
	free(decoded);
}

static void check_details(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), *coded = malloc(GRPC_BASE64_BYTES(size));
	Google__Rpc__ErrorInfo *info;

	must(text && coded);
	memcpy(text, data, size);
	text[size] = '\0';
	info = details_decode(text);
	if (info)
		google__rpc__error_info__free_unpacked(info, NULL);
	grpc_base64_encode(coded, data, size);
	info = details_decode(coded);
	if (info) {
		char *again = details_encode(13, "x", info);
		Google__Rpc__ErrorInfo *back = again ? details_decode(again) : NULL;

		must(back && strcmp(back->reason, info->reason) == 0 && back->n_metadata == info->n_metadata);
		google__rpc__error_info__free_unpacked(back, NULL);
		google__rpc__error_info__free_unpacked(info, NULL);
		free(again);
	}
	free(text);
	free(coded);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1 || size > INPUT_BYTES_MAX)
		return 0;
	check_message(data + 1, size - 1, data[0]);
	check_texts(data + 1, size - 1);
	check_details(data + 1, size - 1);
	return 0;
}

#if !defined(__clang__) || defined(FUZZ_REPLAY)

#include "replay.h"

static int write_seeds(const char *directory)
{
	static const struct {
		size_t bytes;
		const char *seed;
	} seeds[] = {
		{ 12, "1\0\0\0\0\6abcdef" }, { 6, "2\0\0\0\0\0" }, { 8, "3299998m" }, { 7, "4%0A%zz" }, { 6, "5Zm9vYg" }
	};

	for (size_t i = 0; i < ARRAY_COUNT(seeds); i++) {
		char path[512];
		FILE *file;

		snprintf(path, sizeof(path), "%s/seed-%zu", directory, i);
		file = fopen(path, "w");
		if (!file || fwrite(seeds[i].seed, 1, seeds[i].bytes, file) != seeds[i].bytes || fclose(file)) {
			perror(path);
			return 1;
		}
	}
	return 0;
}

int main(int argc, char **argv)
{
	static uint8_t data[INPUT_BYTES_MAX];

	return replay(argc, argv, write_seeds, data, sizeof(data));
}

#endif
