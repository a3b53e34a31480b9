/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Verify finds each planted error, and none in correct data: blocks in memory, random writes and reads from a seed, and one
 * planted error at a time.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bits.h"
#include "base/random.h"
#include "data/initiator/verify.h"

enum { BLOCKS = 64, BLOCK_BYTES = 4096, SECTORS = BLOCK_BYTES / VERIFY_SECTOR_BYTES, RUN = 77, STEPS = 2000, SEEDS = 40 };

/* A store that keeps all writes, except planted errors. */
static uint8_t store[BLOCKS][BLOCK_BYTES];
static uint8_t buffer[BLOCK_BYTES];

struct plant {
	struct verify ledger;
	struct random random;
};

static void plant_init(struct plant *plant, uint64_t seed)
{
	random_init(&plant->random, seed);
	for (size_t i = 0; i < sizeof(store) / 8; i++)
		((uint64_t *)(void *)store)[i] = seed % 2 ? random_next(&plant->random) : 0;
	assert_int_equal(verify_init(&plant->ledger, RUN + seed, seed, 0, BLOCKS, BLOCK_BYTES), 0);
}

/* A write that is stored at block `at` and acknowledged. */
static void write_to(struct plant *plant, uint64_t block, uint64_t at)
{
	uint32_t generation = verify_write_begin(&plant->ledger, block, buffer);

	memcpy(store[at], buffer, BLOCK_BYTES);
	verify_write_end(&plant->ledger, block, generation);
}

/* A write that is acknowledged but not stored. */
static void drop_write(struct plant *plant, uint64_t block)
{
	verify_write_end(&plant->ledger, block, verify_write_begin(&plant->ledger, block, buffer));
}

static bool read_is_good(struct plant *plant, uint64_t block, struct verify_finding *finding)
{
	return verify_read(&plant->ledger, block, store[block], finding);
}

/* Random writes and reads. Failed writes may be stored whole, in part or not at all. All reads must be good. */
static void run_random_io(struct plant *plant, int steps)
{
	struct verify_finding finding;

	for (int i = 0; i < steps; i++) {
		uint64_t block = random_below(&plant->random, BLOCKS);
		uint64_t kind = random_below(&plant->random, 10);

		if (kind < 5) {
			write_to(plant, block, block);
		} else if (kind < 6) {
			uint64_t sectors = random_below(&plant->random, SECTORS + 1);

			(void)verify_write_begin(&plant->ledger, block, buffer);
			memcpy(store[block], buffer, sectors * VERIFY_SECTOR_BYTES);
		} else {
			assert_true(read_is_good(plant, block, &finding));
		}
	}
	for (uint64_t block = 0; block < BLOCKS; block++)
		assert_true(read_is_good(plant, block, &finding));
}

static void assert_description_has(const struct verify_finding *finding, const char *text)
{
	char said[VERIFY_TEXT_BYTES];

	assert_non_null(strstr(verify_describe(finding, said), text));
}

static void correct_data_has_no_findings(void **state)
{
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		struct plant plant;

		plant_init(&plant, seed);
		run_random_io(&plant, STEPS);
		verify_deinit(&plant.ledger);
	}
}

/* Run random I/O. Return an acknowledged block, for the planted error. */
static uint64_t init_with_random_io(struct plant *plant, uint64_t seed)
{
	uint64_t block;

	plant_init(plant, seed);
	run_random_io(plant, STEPS);
	block = random_below(&plant->random, BLOCKS);
	write_to(plant, block, block);
	write_to(plant, block, block);
	return block;
}

static void a_dropped_write_is_stale(void **state)
{
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		struct verify_finding finding;
		struct plant plant;
		uint64_t block = init_with_random_io(&plant, seed);
		char text[64];

		drop_write(&plant, block);
		assert_false(read_is_good(&plant, block, &finding));
		assert_int_equal(finding.kind, VERIFY_STALE);
		assert_int_equal(finding.block, block);
		assert_int_equal(finding.bad_sectors, SECTORS);
		snprintf(text, sizeof(text), "block %u: expected generation %u, found %u (stale)", (unsigned int)block,
			 finding.low, finding.low - 1);
		assert_description_has(&finding, text);
		verify_deinit(&plant.ledger);
	}
}

static void a_dropped_sector_is_stale(void **state)
{
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		struct verify_finding finding;
		struct plant plant;
		uint64_t block = init_with_random_io(&plant, seed), sector = random_below(&plant.random, SECTORS);

		drop_write(&plant, block);
		for (uint64_t i = 0; i < SECTORS; i++) {
			if (i != sector)
				memcpy(store[block] + i * VERIFY_SECTOR_BYTES, buffer + i * VERIFY_SECTOR_BYTES,
				       VERIFY_SECTOR_BYTES);
		}
		assert_false(read_is_good(&plant, block, &finding));
		assert_int_equal(finding.kind, VERIFY_STALE);
		assert_int_equal(finding.sector, sector);
		assert_int_equal(finding.bad_sectors, 1);
		verify_deinit(&plant.ledger);
	}
}

static void a_dropped_first_write_is_detected(void **state)
{
	for (uint64_t seed = 0; seed < 2; seed++) {
		struct verify_finding finding;
		struct plant plant;

		plant_init(&plant, seed);
		drop_write(&plant, 5);
		assert_false(read_is_good(&plant, 5, &finding));
		assert_int_equal(finding.kind, seed % 2 ? VERIFY_FOREIGN : VERIFY_ZEROES);
		assert_description_has(&finding, "block 5: expected generation 1, found ");
		verify_deinit(&plant.ledger);
	}
}

static void swapped_blocks_are_misplaced(void **state)
{
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		struct verify_finding finding;
		struct plant plant;
		uint64_t block = init_with_random_io(&plant, seed),
			 other = (block + 1 + random_below(&plant.random, BLOCKS - 1)) % BLOCKS;
		char text[64];

		write_to(&plant, other, other);
		memcpy(buffer, store[block], BLOCK_BYTES);
		memcpy(store[block], store[other], BLOCK_BYTES);
		memcpy(store[other], buffer, BLOCK_BYTES);
		assert_false(read_is_good(&plant, block, &finding));
		assert_int_equal(finding.kind, VERIFY_MISPLACED);
		assert_int_equal(finding.found_block, other);
		snprintf(text, sizeof(text), "found block %u generation %u (misplaced)", (unsigned int)other,
			 finding.found_generation);
		assert_description_has(&finding, text);
		assert_false(read_is_good(&plant, other, &finding));
		assert_int_equal(finding.kind, VERIFY_MISPLACED);
		assert_int_equal(finding.found_block, block);
		verify_deinit(&plant.ledger);
	}
}

static void a_misplaced_write_is_detected_also_at_an_unwritten_block(void **state)
{
	struct verify_finding finding;
	struct plant plant;

	plant_init(&plant, 1);
	write_to(&plant, 3, 9);
	assert_false(read_is_good(&plant, 3, &finding));
	assert_int_equal(finding.kind, VERIFY_FOREIGN);
	assert_false(read_is_good(&plant, 9, &finding));
	assert_int_equal(finding.kind, VERIFY_MISPLACED);
	assert_description_has(&finding, "block 9: expected nothing of this run, found block 3 generation 1 (misplaced)");
	verify_deinit(&plant.ledger);
}

static void swapped_sectors_are_misplaced(void **state)
{
	struct verify_finding finding;
	struct plant plant;
	uint64_t block = init_with_random_io(&plant, 3);

	memcpy(buffer, store[block] + 512, 512);
	memcpy(store[block] + 512, store[block] + 1024, 512);
	memcpy(store[block] + 1024, buffer, 512);
	assert_false(read_is_good(&plant, block, &finding));
	assert_int_equal(finding.kind, VERIFY_MISPLACED);
	assert_int_equal(finding.sector, 1);
	assert_int_equal(finding.found_sector, 2);
	assert_int_equal(finding.bad_sectors, 2);
	verify_deinit(&plant.ledger);
}

static void any_flipped_bit_is_detected(void **state)
{
	struct verify_finding finding;
	struct plant plant;
	uint64_t block = init_with_random_io(&plant, 4);

	for (uint32_t bit = 0; bit < BLOCK_BYTES * 8; bit++) {
		store[block][bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_false(read_is_good(&plant, block, &finding));
		assert_int_equal(finding.sector, bit / 8 / VERIFY_SECTOR_BYTES);
		assert_true(finding.kind == VERIFY_CORRUPT || finding.kind == VERIFY_FOREIGN);
		store[block][bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	assert_true(read_is_good(&plant, block, &finding));
	verify_deinit(&plant.ledger);
}

static void data_of_another_run_is_foreign(void **state)
{
	struct verify_finding finding;
	struct plant plant;
	struct verify other;
	uint64_t block = init_with_random_io(&plant, 5);

	assert_int_equal(verify_init(&other, 1, 4711, 0, BLOCKS, BLOCK_BYTES), 0);
	(void)verify_write_begin(&other, block, store[block]);
	assert_false(read_is_good(&plant, block, &finding));
	assert_int_equal(finding.kind, VERIFY_FOREIGN);
	assert_description_has(&finding, "data of another run, seed 4711");
	memset(store[block], 0, BLOCK_BYTES);
	assert_false(read_is_good(&plant, block, &finding));
	assert_int_equal(finding.kind, VERIFY_ZEROES);
	verify_deinit(&other);
	verify_deinit(&plant.ledger);
}

static void a_read_settles_the_outcome_of_an_unacknowledged_write(void **state)
{
	struct verify_finding finding;
	struct plant plant;
	uint64_t block = init_with_random_io(&plant, 6);

	/* A write without an acknowledgement: a read did not find it, so a later read must not find it ... */
	(void)verify_write_begin(&plant.ledger, block, buffer);
	assert_true(read_is_good(&plant, block, &finding));
	memcpy(store[block], buffer, BLOCK_BYTES);
	assert_false(read_is_good(&plant, block, &finding));
	assert_int_equal(finding.kind, VERIFY_LATE);
	/* ... and after a read has found it, it must not vanish. */
	write_to(&plant, block, block);
	(void)verify_write_begin(&plant.ledger, block, buffer);
	{
		uint8_t before[BLOCK_BYTES];

		memcpy(before, store[block], BLOCK_BYTES);
		memcpy(store[block], buffer, BLOCK_BYTES);
		assert_true(read_is_good(&plant, block, &finding));
		memcpy(store[block], before, BLOCK_BYTES);
		assert_false(read_is_good(&plant, block, &finding));
		assert_int_equal(finding.kind, VERIFY_STALE);
	}
	verify_deinit(&plant.ledger);
}

/* ---- The file ---- */

static void a_ledger_can_be_loaded_after_its_run(void **state)
{
	char path[] = "/tmp/fathom-verify-XXXXXX";
	struct verify_finding finding;
	struct plant plant;
	struct verify loaded;
	uint64_t block = init_with_random_io(&plant, 7);
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	close(fd);
	(void)verify_write_begin(&plant.ledger, block, buffer); /* in progress when the target died */
	assert_int_equal(verify_save(&plant.ledger, path, NULL), 0);
	for (int kept = 0; kept < 2; kept++) {
		if (kept)
			memcpy(store[block], buffer, BLOCK_BYTES);
		assert_int_equal(verify_load(&loaded, path, NULL), 0);
		assert_int_equal(loaded.run, plant.ledger.run);
		assert_memory_equal(loaded.entries, plant.ledger.entries, BLOCKS * sizeof(*loaded.entries));
		for (uint64_t i = 0; i < BLOCKS; i++)
			assert_true(verify_read(&loaded, i, store[i], &finding));
		verify_deinit(&loaded);
	}
	unlink(path);
	verify_deinit(&plant.ledger);
}

static void a_damaged_ledger_is_refused(void **state)
{
	char path[] = "/tmp/fathom-verify-XXXXXX";
	struct plant plant;
	struct verify loaded;
	struct fathom_fault why;
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	(void)init_with_random_io(&plant, 8);
	assert_int_equal(verify_load(&loaded, "/nowhere/at/all", &why), -ENOENT);
	assert_int_equal(verify_load(&loaded, path, &why), -EINVAL);
	for (off_t at = 0; at < 200; at += 9) {
		uint8_t byte;

		assert_int_equal(verify_save(&plant.ledger, path, &why), 0);
		close(fd);
		fd = open(path, O_RDWR);
		assert_int_equal(pread(fd, &byte, 1, at), 1);
		byte ^= 0x10;
		assert_int_equal(pwrite(fd, &byte, 1, at), 1);
		assert_int_equal(verify_load(&loaded, path, &why), -EINVAL);
		assert_int_equal(ftruncate(fd, at), 0);
		assert_int_equal(verify_load(&loaded, path, &why), -EINVAL);
	}
	close(fd);
	unlink(path);
	verify_deinit(&plant.ledger);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(correct_data_has_no_findings),
		cmocka_unit_test(a_dropped_write_is_stale),
		cmocka_unit_test(a_dropped_sector_is_stale),
		cmocka_unit_test(a_dropped_first_write_is_detected),
		cmocka_unit_test(swapped_blocks_are_misplaced),
		cmocka_unit_test(a_misplaced_write_is_detected_also_at_an_unwritten_block),
		cmocka_unit_test(swapped_sectors_are_misplaced),
		cmocka_unit_test(any_flipped_bit_is_detected),
		cmocka_unit_test(data_of_another_run_is_foreign),
		cmocka_unit_test(a_read_settles_the_outcome_of_an_unacknowledged_write),
		cmocka_unit_test(a_ledger_can_be_loaded_after_its_run),
		cmocka_unit_test(a_damaged_ledger_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
