/* SPDX-License-Identifier: BSD-2-Clause */
/* The content of a device, determined by its signature and its first bytes. The helper's tests use real XFS. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after those four */
#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "control/storage/storage.h"
#include "fake.h"

static const struct provider_signature nothing = { .several = false };
static const struct provider_signature xfs = { .type = "xfs", .usage = "filesystem", .label = "fathom0" };
static uint8_t head[STORAGE_HEAD_BYTES];

static enum storage_format judge(const struct provider_signature *signature, size_t bytes, const char *damage)
{
	struct storage_contents contents;

	storage_judge_contents(signature, head, bytes, &contents);
	assert_string_equal(contents.damage, damage);
	return contents.format;
}

/* Write a superblock of version 4, which has no checksum: sectors of 512 bytes, blocks of 4096. */
static void write_super(void)
{
	memset(head, 0, sizeof(head));
	memcpy(head, "XFSB\0\0\x10\0", 8);
	memcpy(head + 100, "\xb4\xa4\x02\0", 4);
	for (int i = 1; i < 4; i++)
		memcpy(head + 512 * i, i == 1 ? "XAGF" : i == 2 ? "XAGI" : "XAFL", 4);
}

static void zeroes_are_no_format_and_other_bytes_are_unknown(void **state)
{
	memset(head, 0, sizeof(head));
	assert_int_equal(judge(&nothing, sizeof(head), ""), STORAGE_FORMAT_NONE);
	assert_int_equal(judge(&nothing, 0, ""), STORAGE_FORMAT_NONE);
	head[sizeof(head) - 1] = 1;
	assert_int_equal(judge(&nothing, sizeof(head), ""), STORAGE_FORMAT_UNKNOWN);
	assert_int_equal(judge(&nothing, sizeof(head) - 1, ""), STORAGE_FORMAT_NONE);
}

static void other_signatures_are_another_format(void **state)
{
	static const struct provider_signature ext4 = { .type = "ext4", .usage = "filesystem" },
					       gpt = { .partition_table = "gpt" }, several = { .several = true };

	memset(head, 0, sizeof(head));
	assert_int_equal(judge(&ext4, sizeof(head), ""), STORAGE_FORMAT_OTHER);
	assert_int_equal(judge(&gpt, sizeof(head), ""), STORAGE_FORMAT_OTHER);
	assert_int_equal(judge(&several, sizeof(head), ""), STORAGE_FORMAT_OTHER);
	write_super(); /* the signature decides, also with an XFS superblock below */
	assert_int_equal(judge(&ext4, sizeof(head), ""), STORAGE_FORMAT_OTHER);
	assert_int_equal(judge(&several, sizeof(head), ""), STORAGE_FORMAT_OTHER);
}

static void an_intact_superblock_is_xfs(void **state)
{
	write_super();
	assert_int_equal(judge(&xfs, sizeof(head), ""), STORAGE_FORMAT_XFS);
}

static void a_damaged_superblock_is_reported_with_its_error(void **state)
{
	write_super();
	head[126] = 1;
	assert_int_equal(judge(&xfs, sizeof(head), "formatting was not finished"), STORAGE_FORMAT_DAMAGED);
	write_super();
	head[7] = 3;
	assert_int_equal(judge(&xfs, sizeof(head), "the superblock has an invalid block size"), STORAGE_FORMAT_DAMAGED);
	write_super();
	head[103] = 1;
	assert_int_equal(judge(&xfs, sizeof(head), "the superblock has an invalid sector size"), STORAGE_FORMAT_DAMAGED);
	write_super();
	head[101] = 0xa5; /* version 5 needs a checksum, which is missing */
	assert_int_equal(judge(&xfs, sizeof(head), "the superblock's checksum is wrong"), STORAGE_FORMAT_DAMAGED);
	write_super();
	memset(head, 0x5a, 512);
	assert_int_equal(judge(&nothing, sizeof(head), "the superblock is overwritten; the sectors behind it are XFS"),
			 STORAGE_FORMAT_DAMAGED);
	memset(head + 512, 0, 512); /* two of the three headers after it are enough */
	assert_int_equal(judge(&nothing, sizeof(head), "the superblock is overwritten; the sectors behind it are XFS"),
			 STORAGE_FORMAT_DAMAGED);
	memset(head + 1024, 0, 512);
	assert_int_equal(judge(&nothing, sizeof(head), ""), STORAGE_FORMAT_UNKNOWN);
}

/* Random bytes, cut at random: a valid result, and STORAGE_FORMAT_NONE only for zeroes. */
static void random_bytes_get_a_valid_format(void **state)
{
	srandom(1);
	for (int round = 0; round < 2000; round++) {
		size_t bytes = (size_t)random() % 4097;
		enum storage_format format;
		struct storage_contents contents;

		write_super();
		for (int i = 0; i < round % 8; i++)
			head[(size_t)random() % 512] = (uint8_t)random();
		storage_judge_contents(round % 2 ? &xfs : &nothing, head, bytes, &contents);
		format = contents.format;
		assert_true(format < STORAGE_FORMATS);
		if (!is_all_zero(head, bytes))
			assert_int_not_equal(format, STORAGE_FORMAT_NONE);
		assert_int_equal(format == STORAGE_FORMAT_DAMAGED && contents.damage[0] == '\0' && round % 2 == 0, false);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(zeroes_are_no_format_and_other_bytes_are_unknown),
		cmocka_unit_test(other_signatures_are_another_format),
		cmocka_unit_test(an_intact_superblock_is_xfs),
		cmocka_unit_test(a_damaged_superblock_is_reported_with_its_error),
		cmocka_unit_test(random_bytes_get_a_valid_format),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
