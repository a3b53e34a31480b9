/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_rpc - any bytes as a stream of requests, cut anywhere.
 *
 *      byte 0        seed of the cuts
 *      the rest      the stream
 *
 * Invariants: pieces give the same values as the whole, and stop at the same byte for the same reason, also if parsed bytes
 * are dropped like in a connection. A value begins with a bracket and ends with its partner. Within the limits, the
 * splitter finds each value that jansson finds. Built by clang -fsanitize=fuzzer it fuzzes. Built by gcc, or with
 * -DFUZZ_REPLAY, it runs the given files, and with `--seeds DIR` it writes the seeds.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/random.h"
#include "rpc/jsonrpc/split.h"

enum { STREAM_BYTES_MAX = 3 << 20, VALUES_MAX = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct reading {
	size_t count;
	struct found {
		size_t begin, end;
	} found[VALUES_MAX];
	enum json_split last;
	size_t stopped_at; /* offset of the error */
};

static struct reading whole, pieces;

static void note(struct reading *reading, size_t begin, size_t end)
{
	must(reading->count < VALUES_MAX);
	must(begin < end);
	must(end - begin <= JSON_BYTES_MAX);
	reading->found[reading->count++] = (struct found){ begin, end };
}

static void read_whole(struct reading *reading, const char *stream, size_t bytes)
{
	struct json_splitter splitter = { 0 };

	reading->count = 0;
	do {
		reading->last = json_split(&splitter, stream, bytes);
		must(splitter.at <= bytes);
		if (reading->last == JSON_SPLIT_VALUE)
			note(reading, splitter.begin, splitter.at);
	} while (reading->last == JSON_SPLIT_VALUE);
	reading->stopped_at = splitter.at;
}

/* Like a connection: bytes arrive in portions, and parsed bytes are dropped. */
static void read_pieces(struct reading *reading, const char *stream, size_t bytes, uint64_t seed)
{
	struct json_splitter splitter = { 0 };
	size_t come = 0, gone = 0;
	struct random random;

	random_init(&random, seed);
	reading->count = 0;
	reading->last = JSON_SPLIT_MORE;
	while (reading->last == JSON_SPLIT_VALUE || (reading->last == JSON_SPLIT_MORE && come < bytes)) {
		if (reading->last == JSON_SPLIT_MORE)
			come += 1 + random_below(&random, min_u64(bytes - come, 1 + random_below(&random, 64)));
		reading->last = json_split(&splitter, stream + gone, come - gone);
		if (reading->last == JSON_SPLIT_VALUE) {
			note(reading, gone + splitter.begin, gone + splitter.at);
			splitter.begin = splitter.at;
		}
		if (reading->last <= JSON_SPLIT_VALUE && random_below(&random, 2) && splitter.begin > 0) {
			size_t used = splitter.begin;

			json_splitter_dropped(&splitter, used);
			gone += used;
		}
	}
	reading->stopped_at = gone + splitter.at;
}

/* Assert that jansson reads the same value at `begin` as the splitter. */
static void check_against_parser(const char *stream, size_t bytes)
{
	size_t begin = 0;

	for (size_t i = 0; i <= whole.count; i++) {
		json_error_t error;
		json_t *value;

		begin += strspn(stream + begin, " \t\r\n");
		if (begin >= bytes || (stream[begin] != '{' && stream[begin] != '['))
			return;
		value = json_loadb(stream + begin, bytes - begin, JSON_DISABLE_EOF_CHECK, &error);
		if (value && i < whole.count) {
			must(whole.found[i].begin == begin);
			must(whole.found[i].end == begin + (size_t)error.position);
		}
		/* refused because of a limit that jansson does not have, or a NUL, which jansson accepts between numbers */
		if (value && i == whole.count)
			must(whole.last > JSON_SPLIT_MALFORMED ||
			     (whole.last == JSON_SPLIT_MALFORMED && stream[whole.stopped_at] == '\0'));
		json_decref(value);
		if (i < whole.count)
			begin = whole.found[i].end;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *stream;
	size_t bytes;

	if (size < 1 || size - 1 > STREAM_BYTES_MAX || size - 1 > VALUES_MAX * 2)
		return 0;
	bytes = size - 1;
	stream = malloc(bytes + 1);
	must(stream);
	memcpy(stream, data + 1, bytes);
	stream[bytes] = '\0';
	read_whole(&whole, stream, bytes);
	read_pieces(&pieces, stream, bytes, data[0]);
	must(whole.count == pieces.count);
	must(whole.last == pieces.last);
	must(whole.stopped_at == pieces.stopped_at);
	for (size_t i = 0; i < whole.count; i++) {
		must(whole.found[i].begin == pieces.found[i].begin);
		must(whole.found[i].end == pieces.found[i].end);
		must(strchr("{[", stream[whole.found[i].begin]));
		must(strchr("}]", stream[whole.found[i].end - 1]));
	}
	check_against_parser(stream, bytes);
	free(stream);
	return 0;
}

#if !defined(__clang__) || defined(FUZZ_REPLAY)

#include "replay.h"

static const char *const seeds[] = {
	"1{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"spdk_get_version\"}",
	"2[{\"method\":\"a\",\"id\":\"x\"},{\"method\":\"b\",\"params\":{\"n\":[1,2.5e3,true,null,\"\\\"}]\\\\\"]}}] {} []",
	"3{\"a\":{\"b\":[[[[[]]]]]}}\n\n{\"trtype\":\"tcp\",\"traddr\":\"127.0.0.1\",\"trsvcid\":\"4420\"}",
	"4{\"a\":1]",
	"5 \t\r\n{\"unfinished\": \"\\u00e9",
	"6}",
	"7[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
};

static int write_seeds(const char *folder)
{
	return write_texts(folder, seeds, ARRAY_COUNT(seeds));
}

int main(int argc, char **argv)
{
	static uint8_t data[STREAM_BYTES_MAX];

	for (size_t i = 0; argc == 1 && i < ARRAY_COUNT(seeds); i++)
		LLVMFuzzerTestOneInput((const uint8_t *)seeds[i], strlen(seeds[i]));
	return replay(argc, argv, write_seeds, data, sizeof(data));
}

#endif
