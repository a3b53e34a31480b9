/* SPDX-License-Identifier: BSD-2-Clause */
/* Superblocks: the frozen text, damage of each bit, each call failing, and a killed writer. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bits.h"
#include "base/random.h"
#include "control/fault/fault.h"
#include "control/superblock/superblock.h"
#include "failing.h"

enum { KILLS = 300 };

static char folder[] = "/tmp/fathom-superblock-XXXXXX";
static char path[64];

static const struct superblock sample = {
	.uuid = { 0x95, 0x0f, 0xc8, 0x6b, 0xa9, 0x87, 0x4a, 0x2b, 0xbd, 0xe9, 0xcd, 0x72, 0x85, 0x48, 0xbb, 0x25 },
	.system = "daos_server",
	.rank = 3,
	.has_rank = true,
	.uri = "ofi+tcp://127.0.0.1:20000",
	.domain = "/rack0/node0",
	.incarnation = 1795201297274729984ull,
};

static const char golden[] = "version: 1\n"
			     "uuid: 950fc86b-a987-4a2b-bde9-cd728548bb25\n"
			     "system: daos_server\n"
			     "rank: 3\n"
			     "uri: ofi+tcp://127.0.0.1:20000\n"
			     "validrank: true\n"
			     "hostfaultdomain: /rack0/node0\n"
			     "incarnation: 1795201297274729984\n"
			     "checksum: 0xc5af0a67\n";

static int make_folder(void **state)
{
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/superblock", folder);
	return 0;
}

static int empty_folder(void **state)
{
	char new_path[80];

	unlink(path);
	snprintf(new_path, sizeof(new_path), "%s.new", path);
	unlink(new_path);
	return 0;
}

static int remove_folder(void **state)
{
	return rmdir(folder);
}

static void put_text(const char *text, size_t bytes)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, bytes), bytes);
	close(fd);
}

static void assert_read_fails(int code, const char *words)
{
	struct superblock superblock = { .rank = 4711 };
	struct fathom_fault why = { 0 };

	assert_true(superblock_read(path, "daos_server", &superblock, &why) < 0);
	if (why.code != code || !strstr(why.text, words))
		fail_msg("%d %s", why.code, why.text);
	assert_true(strlen(why.resolution) > 0);
	assert_int_equal(superblock.rank, 4711);
}

static void the_text_is_frozen(void **state)
{
	char text[SUPERBLOCK_TEXT_BYTES_MAX + 1];
	struct superblock back;
	const char *reason;
	uint32_t version;
	size_t bytes;

	assert_int_equal(superblock_encode(&sample, text, &bytes), 0);
	text[bytes] = '\0';
	assert_string_equal(text, golden);
	assert_int_equal(superblock_decode(golden, strlen(golden), &back, &version, &reason), 0);
	assert_memory_equal(&back, &sample, sizeof(back));
}

static void a_read_superblock_equals_the_written_one(void **state)
{
	struct superblock changed = sample, back;
	struct fathom_fault why = { 0 };
	struct stat stat_of;

	assert_int_equal(superblock_read(path, NULL, &back, &why), -ENOENT);
	assert_int_equal(why.error, 0);
	assert_int_equal(superblock_write(path, &sample, &why), 0);
	assert_int_equal(superblock_read(path, "daos_server", &back, &why), 0);
	assert_memory_equal(&back, &sample, sizeof(back));
	changed.has_rank = false;
	changed.rank = 0;
	changed.uri[0] = '\0';
	memset(changed.uri, 0, sizeof(changed.uri));
	assert_int_equal(superblock_write(path, &changed, &why), 0);
	assert_int_equal(superblock_read(path, NULL, &back, &why), 0);
	assert_memory_equal(&back, &changed, sizeof(back));
	assert_int_equal(stat(path, &stat_of), 0);
	assert_int_equal(stat_of.st_mode & 0777, 0600);
}

static void an_invalid_superblock_is_not_written(void **state)
{
	struct superblock bad[5];
	struct fathom_fault why = { 0 };

	for (size_t i = 0; i < ARRAY_COUNT(bad); i++)
		bad[i] = sample;
	bad[0].system[0] = '\0';
	bad[1].uri[3] = '\n';
	bad[2].rank = RANK_MAX + 1;
	bad[3].domain[0] = 'x';
	bad[4].has_rank = false;
	for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
		assert_int_equal(superblock_write(path, &bad[i], &why), -EIO);
		assert_int_equal(why.code, FAULT_SUPERBLOCK_UNWRITTEN);
		assert_int_equal(access(path, F_OK), -1);
	}
}

/* The line exists only in superblocks of replacements: older superblocks have none. */
static void the_superblock_of_a_replacement_has_an_additional_line(void **state)
{
	struct superblock replacement = sample, back;
	char text[SUPERBLOCK_TEXT_BYTES_MAX];
	const char *reason;
	uint32_t version;
	size_t bytes;
	char *line;

	replacement.is_replacement = true;
	assert_int_equal(superblock_encode(&replacement, text, &bytes), 0);
	assert_int_equal(bytes, sizeof(golden) - 1 + strlen("replacement: true\n"));
	line = strstr(text, "\nreplacement: true\nchecksum: ");
	assert_non_null(line);
	assert_int_equal(superblock_decode(text, bytes, &back, &version, &reason), 0);
	assert_true(back.is_replacement);
	assert_memory_equal(&back, &replacement, sizeof(back));
	for (size_t bit = 0; bit < bytes * 8; bit++) {
		text[bit / 8] = (char)(text[bit / 8] ^ BIT(bit % 8));
		if (superblock_decode(text, bytes, &back, &version, &reason) >= 0)
			fail_msg("bit %zu is flipped and not detected", bit);
		text[bit / 8] = (char)(text[bit / 8] ^ BIT(bit % 8));
	}
	assert_int_equal(superblock_decode(golden, sizeof(golden) - 1, &back, &version, &reason), 0);
	assert_false(back.is_replacement);
}

static void each_flipped_bit_and_each_truncation_is_detected(void **state)
{
	char text[sizeof(golden)];
	struct superblock back;
	const char *reason;
	uint32_t version;

	for (size_t bit = 0; bit < (sizeof(golden) - 1) * 8; bit++) {
		memcpy(text, golden, sizeof(golden));
		text[bit / 8] = (char)(text[bit / 8] ^ BIT(bit % 8));
		if (superblock_decode(text, sizeof(golden) - 1, &back, &version, &reason) >= 0)
			fail_msg("bit %zu is flipped and not detected", bit);
	}
	for (size_t bytes = 0; bytes < sizeof(golden) - 1; bytes++)
		assert_int_equal(superblock_decode(golden, bytes, &back, &version, &reason), -EBADMSG);
	memcpy(text, golden, sizeof(golden));
	assert_int_equal(superblock_decode(text, sizeof(golden), &back, &version, &reason), -EBADMSG);
}

static void a_damaged_newer_or_foreign_superblock_is_reported(void **state)
{
	struct superblock other = sample;
	char text[5000];

	put_text("", 0);
	assert_read_fails(FAULT_SUPERBLOCK_DAMAGED, "does not begin with a version");
	put_text(golden, 50);
	assert_read_fails(FAULT_SUPERBLOCK_DAMAGED, "cut off");
	memcpy(text, golden, sizeof(golden));
	text[70] ^= 1;
	put_text(text, sizeof(golden) - 1);
	assert_read_fails(FAULT_SUPERBLOCK_DAMAGED, "checksum");
	memset(text, 'v', sizeof(text));
	put_text(text, sizeof(text));
	assert_read_fails(FAULT_SUPERBLOCK_DAMAGED, "does not begin");
	put_text("version: 2\nnew: things\n", 23);
	assert_read_fails(FAULT_SUPERBLOCK_NEWER, "version 2");
	memset(other.system, 0, sizeof(other.system));
	memcpy(other.system, "another", 7);
	assert_int_equal(superblock_write(path, &other, NULL), 0);
	assert_read_fails(FAULT_SUPERBLOCK_FOREIGN, "another");
	unlink(path);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_read_fails(FAULT_SUPERBLOCK_UNREADABLE, "directory");
	assert_int_equal(rmdir(path), 0);
}

/* After any failed call the file is the old one or the new one; the new one if no error was returned. */
static void after_a_failed_write_the_old_or_the_new_superblock_is_intact(void **state)
{
	struct superblock old = sample, next = sample, back;
	uint32_t n, refused = 0;
	bool failed = true;

	for (n = 1; failed; n++) {
		struct fathom_fault why = { 0 };
		int written, error;

		next.incarnation = old.incarnation + 1;
		failing_begin(n);
		written = superblock_write(path, &next, &why);
		failed = failing_end();
		if (written < 0)
			assert_true(failed && why.code == FAULT_SUPERBLOCK_UNWRITTEN);
		refused += written < 0;
		error = superblock_read(path, NULL, &back, NULL);
		/* in the first round there is no old one */
		if (error == 0)
			assert_true((written < 0 && memcmp(&back, &old, sizeof(back)) == 0) ||
				    memcmp(&back, &next, sizeof(back)) == 0);
		else
			assert_true(error == -ENOENT && written < 0);
		if (error == 0)
			old = back;
	}
	assert_true(refused > 10);
}

static void a_failed_read_leaves_the_result_unchanged(void **state)
{
	struct superblock back;
	bool failed = true;

	assert_int_equal(superblock_write(path, &sample, NULL), 0);
	for (uint32_t n = 1; failed; n++) {
		struct fathom_fault why = { 0 };
		int error;

		memset(&back, 0xee, sizeof(back));
		failing_begin(n);
		error = superblock_read(path, NULL, &back, &why);
		failed = failing_end();
		if (error == 0) {
			assert_memory_equal(&back, &sample, sizeof(back));
			continue;
		}
		assert_true(failed && why.code == FAULT_SUPERBLOCK_UNREADABLE);
		assert_int_equal(back.rank, 0xeeeeeeee);
	}
}

static void a_killed_writer_leaves_an_intact_superblock(void **state)
{
	struct random random;
	struct superblock back;
	uint64_t last = 0;

	random_init(&random, 2);
	assert_int_equal(superblock_write(path, &sample, NULL), 0);
	for (int round = 0; round < KILLS; round++) {
		struct timespec while_ = { 0, (long)random_below(&random, 2000) * 1000 };
		struct fathom_fault why = { 0 };
		int status;
		pid_t child = fork();

		assert_true(child >= 0);
		if (child == 0) {
			struct superblock mine = sample;

			for (mine.incarnation = last;; mine.incarnation++)
				must(superblock_write(path, &mine, NULL) == 0);
		}
		nanosleep(&while_, NULL);
		assert_int_equal(kill(child, SIGKILL), 0);
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		if (superblock_read(path, "daos_server", &back, &why) < 0)
			fail_msg("kill %d: %s", round, why.text);
		assert_true(back.incarnation >= last);
		last = back.incarnation == sample.incarnation ? 0 : back.incarnation;
	}
}

int main(void)
{
#define CASE(name) cmocka_unit_test_teardown(name, empty_folder)
	const struct CMUnitTest tests[] = {
		CASE(the_text_is_frozen),
		CASE(a_read_superblock_equals_the_written_one),
		CASE(an_invalid_superblock_is_not_written),
		CASE(the_superblock_of_a_replacement_has_an_additional_line),
		CASE(each_flipped_bit_and_each_truncation_is_detected),
		CASE(a_damaged_newer_or_foreign_superblock_is_reported),
		CASE(after_a_failed_write_the_old_or_the_new_superblock_is_intact),
		CASE(a_failed_read_leaves_the_result_unchanged),
		CASE(a_killed_writer_leaves_an_intact_superblock),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
