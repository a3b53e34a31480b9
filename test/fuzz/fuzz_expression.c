/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_expression - any bytes as a condition.
 *
 * Invariants: it is refused with a reason and a position within the text, or it can be evaluated; then its negation can be
 * evaluated and is the opposite. Built by clang -fsanitize=fuzzer it fuzzes. Built by gcc, or with -DFUZZ_REPLAY, it runs
 * the given files, and with `--seeds DIR` it writes the seeds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "inspect/trace/expression.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Each third name is missing, the others are numbers, texts, times. */
static bool lookup(void *ctx, uint32_t name, struct expression_value *value_ret)
{
	size_t place;
	const char *text = expression_name(ctx, name, &place);

	must(strlen(text) < EXPRESSION_NAME_BYTES_MAX);
	value_ret->has_number = name % 3 != 1;
	value_ret->number = (long double)text[0];
	value_ret->unit_ns = name % 2 ? 1000 : 0;
	value_ret->text = name % 3 ? text : NULL;
	value_ret->text_bytes = name % 3 ? strlen(text) : 0;
	return name % 3 != 2;
}

/* -1: refused */
static int result_of(const char *text)
{
	struct expression *expression;
	struct fathom_fault why = { 0 };
	size_t place;
	int result;

	if (expression_parse(text, &expression, &why, &place) != 0) {
		must(why.text[0]);
		must(place <= strlen(text));
		return -1;
	}
	result = expression_evaluate(expression, lookup, expression);
	must(result == (int)expression_evaluate(expression, lookup, expression));
	expression_free(expression);
	return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char text[2 * EXPRESSION_BYTES_MAX], other[5 * EXPRESSION_BYTES_MAX];
	char group[EXPRESSION_NAME_BYTES_MAX], name[EXPRESSION_NAME_BYTES_MAX];
	int result, opposite;

	if (size >= sizeof(text))
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	must(expression_event(text, group, name) <= strlen(text));
	result = result_of(text);
	snprintf(other, sizeof(other), "not (%s)", text);
	opposite = result_of(other);
	must(result < 0 || opposite < 0 || opposite == !result);
	snprintf(other, sizeof(other), "(%s) or not (%s)", text, text);
	must(result < 0 || result_of(other) != 0);
	return 0;
}

#if !defined(__clang__) || defined(FUZZ_REPLAY)

#include "replay.h"

static const char *const seeds[] = {
	"latency_us > 5ms and (type == READ or device =~ \"disk\") and not core == 3",
	"bdev.bdev_io_done latency_us >= 0x10 || !a && b != -2.5k",
	"a='x' or b=\"\" or c<1TiB or d<=2min or e",
	"((((a))))",
	"a == ",
	"not",
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
