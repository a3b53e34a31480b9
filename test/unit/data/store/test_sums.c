/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Volumes with checksums: random I/O against the model, damage, and power cuts. For a power cut the writes and syncs of
 * both files are recorded; each prefix of them is a moment of the cut, at which unsynced pages are on disk or not, by seed.
 */
#include "model.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "data/store/pool/sums.h"

enum { PAGE = 4096, BLOCKS = 48, EVENTS_MAX = 4096, OPS = 60, FILES = 2 };

static char paths[FILES][80]; /* data, sums */

/* ---- recording ---- */

struct event {
	enum { EVENT_WRITE, EVENT_SYNC, EVENT_FLUSHED } kind;
	int file;
	uint64_t offset, bytes;
	uint8_t *content;	  /* of WRITE; NULL: zeroes */
	uint64_t flushed[BLOCKS]; /* of FLUSHED: the least write of each block that must be there */
};

static struct {
	bool is_on;
	ino_t inodes[FILES];
	uint32_t count;
	struct event *events[EVENTS_MAX];
} record;

ssize_t __real_pwritev64(int fd, const struct iovec *iov, int count, off64_t offset);
ssize_t __wrap_pwritev64(int fd, const struct iovec *iov, int count, off64_t offset);
ssize_t __real_pwritev64v2(int fd, const struct iovec *iov, int count, off64_t offset, int flags);
ssize_t __wrap_pwritev64v2(int fd, const struct iovec *iov, int count, off64_t offset, int flags);
int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);
int __real_fallocate64(int fd, int mode, off64_t offset, off64_t bytes);
int __wrap_fallocate64(int fd, int mode, off64_t offset, off64_t bytes);

static struct event *add_event(int kind, int file)
{
	struct event *event = calloc(1, sizeof(*event));

	must(event && record.count < EVENTS_MAX);
	event->kind = (typeof(event->kind))kind;
	event->file = file;
	record.events[record.count++] = event;
	return event;
}

/* -1: another file. */
static int file_of(int fd)
{
	struct stat stat;

	must(fstat(fd, &stat) == 0);
	for (int i = 0; record.is_on && i < FILES; i++) {
		if (stat.st_ino == record.inodes[i])
			return i;
	}
	return -1;
}

static void note_write(int fd, const struct iovec *iov, off64_t offset, ssize_t written)
{
	int file = file_of(fd);
	struct event *event;
	uint64_t done = 0;

	if (file < 0 || written <= 0)
		return;
	event = add_event(EVENT_WRITE, file);
	event->offset = (uint64_t)offset;
	event->bytes = (uint64_t)written;
	event->content = malloc((size_t)written);
	must(event->content);
	for (int i = 0; done < (uint64_t)written; i++) {
		uint64_t part = min_u64(iov[i].iov_len, (uint64_t)written - done);

		memcpy(event->content + done, iov[i].iov_base, part);
		done += part;
	}
}

ssize_t __wrap_pwritev64(int fd, const struct iovec *iov, int count, off64_t offset)
{
	ssize_t written = __real_pwritev64(fd, iov, count, offset);

	note_write(fd, iov, offset, written);
	return written;
}

ssize_t __wrap_pwritev64v2(int fd, const struct iovec *iov, int count, off64_t offset, int flags)
{
	ssize_t written = __real_pwritev64v2(fd, iov, count, offset, flags);

	note_write(fd, iov, offset, written);
	return written;
}

int __wrap_fdatasync(int fd)
{
	int file = file_of(fd);

	if (file >= 0)
		add_event(EVENT_SYNC, file);
	return file >= 0 ? 0 : __real_fdatasync(fd);
}

int __wrap_fallocate64(int fd, int mode, off64_t offset, off64_t bytes)
{
	int result = __real_fallocate64(fd, mode, offset, bytes), file = file_of(fd);
	struct event *event;

	if (result == 0 && file >= 0) {
		event = add_event(EVENT_WRITE, file);
		event->offset = (uint64_t)offset;
		event->bytes = (uint64_t)bytes;
	}
	return result;
}

static void forget_events(void)
{
	record.is_on = false;
	while (record.count > 0) {
		struct event *event = record.events[--record.count];

		free(event->content);
		free(event);
	}
}

/* ---- a volume ---- */

struct user {
	struct fathom_thread *thread;
	struct bdev_desc *desc;
	struct bdev_channel *channel;
};

static void make_files(const char *folder, uint64_t blocks)
{
	for (int i = 0; i < FILES; i++) {
		int fd;

		snprintf(paths[i], sizeof(paths[i]), "%s/fathom-sums-XXXXXX", folder);
		fd = mkstemp(paths[i]);
		must(fd >= 0);
		must(ftruncate(fd, (off_t)(i == 0 ? blocks * PAGE : sums_file_bytes(blocks * PAGE))) == 0);
		must(close(fd) == 0);
	}
}

static void remove_files(void)
{
	for (int i = 0; i < FILES; i++)
		must(unlink(paths[i]) == 0);
}

static void create_volume(const char *name)
{
	struct fathom_fault why = { 0 };

	if (rig_file(&(struct file_options){ .name = name,
					     .filename = paths[0],
					     .sums_filename = paths[1],
					     .kind = FILE_KIND_VOLUME,
					     .block_bytes = PAGE },
		     &why) < 0)
		fail_msg("%s", why.text);
}

static struct user open_volume(const char *name)
{
	struct user user = { .thread = rig_thread(0) };

	create_volume(name);
	user.desc = rig_open(name);
	user.channel = rig_channel_get(user.thread, user.desc);
	assert_non_null(user.channel);
	return user;
}

static void close_volume(struct user *user, const char *name)
{
	rig_channel_put(user->thread, user->channel);
	rig_close(user->desc);
	rig_delete(name);
}

static enum io_status run(const struct user *user, enum io_type type, void *buffer, uint64_t block, uint64_t count)
{
	return rig_io(user->thread, user->channel, type, buffer, block, count);
}

/* ---- on the control thread ---- */

struct call {
	struct bdev *bdev;
	const struct bdev_io *io;
	struct file_sums_info info;
	uint64_t region, failures, blocks[FILE_MISMATCHES_MAX];
	uint32_t count;
	bool result;
};

static void do_info(void *ctx)
{
	struct call *call = ctx;

	must(file_has_sums(call->bdev));
	file_get_sums(call->bdev, &call->info);
}

static struct file_sums_info info_of(const struct user *user)
{
	struct call call = { .bdev = bdev_desc_bdev(user->desc) };

	rig_on(thread_control(), do_info, &call);
	return call.info;
}

static void do_take(void *ctx)
{
	struct call *call = ctx;

	call->count = file_take_mismatches(call->bdev, call->blocks);
}

static void do_begin_clean(void *ctx)
{
	struct call *call = ctx;

	call->result = file_sums_begin_clean(call->bdev, call->io, false);
}

static void do_end_clean(void *ctx)
{
	struct call *call = ctx;

	file_sums_end_clean(call->bdev);
}

/* Returns whether there was something to clean. */
static bool clean(const struct user *user)
{
	struct rig_io io;
	struct call call = { .bdev = bdev_desc_bdev(user->desc), .io = &io.io };

	rig_io_init(&io, user->thread, user->channel);
	rig_on(thread_control(), do_begin_clean, &call);
	if (call.result) {
		rig_io_begin(&io, IO_TYPE_FLUSH, NULL, 0, 0);
		assert_int_equal(rig_io_end(&io), IO_SUCCESS);
	}
	rig_on(thread_control(), do_end_clean, &call);
	return call.result;
}

static void do_next(void *ctx)
{
	struct call *call = ctx;

	call->region = file_sums_next_suspect(call->bdev, 0);
	if (call->region != UINT64_MAX)
		call->failures = file_sums_begin_check(call->bdev, call->region);
}

static void do_end_check(void *ctx)
{
	struct call *call = ctx;

	file_sums_end_check(call->bdev, call->failures, call->result);
}

/* Check all suspect regions, as the scrub does. */
static void check(const struct user *user)
{
	static uint8_t buffer[SUMS_REGION_BLOCKS * PAGE] __attribute__((aligned(4096)));
	struct call call = { .bdev = bdev_desc_bdev(user->desc) };

	for (;;) {
		uint64_t first, count;

		rig_on(thread_control(), do_next, &call);
		if (call.region == UINT64_MAX)
			break;
		first = call.region * SUMS_REGION_BLOCKS;
		count = min_u64(SUMS_REGION_BLOCKS, call.bdev->block_count - first);
		call.result = run(user, IO_TYPE_READ, buffer, first, count) == IO_SUCCESS;
		assert_true(call.result);
		rig_on(thread_control(), do_end_check, &call);
	}
	assert_int_equal(info_of(user).suspect, 0);
}

/* ---- the model ---- */

static int setup(void **state)
{
	make_files("/dev/shm", BLOCKS); /* in memory: there are many of them */
	rig_start(true);
	return 0;
}

static int teardown(void **state)
{
	rig_stop();
	forget_events();
	remove_files();
	return 0;
}

static int setup_real(void **state)
{
	make_files("/tmp", SUMS_REGION_BLOCKS + 100);
	rig_start(false);
	return 0;
}

static int setup_helpers(void **state)
{
	make_files("/tmp", SUMS_REGION_BLOCKS + 100);
	must(setenv("FATHOM_NO_URING", "1", 1) == 0);
	rig_start(false);
	must(unsetenv("FATHOM_NO_URING") == 0);
	return 0;
}

static void assert_suspect(const struct user *user, uint8_t regions)
{
	uint64_t bytes;
	uint8_t *bits = file_sums_copy_suspect(bdev_desc_bdev(user->desc), &bytes);

	assert_int_equal(bits[0], regions);
	free(bits);
}

static void a_volume_with_checksums_agrees_with_the_model(void **state)
{
	const struct model_options options = {
		.seed = 7, .ops = 1500, .depth = 32, .blocks_max = 40, .iov_count_max = 8, .cut_bytes = 512
	};
	struct user user;

	create_volume("v");
	model_run("v", &options);
	rig_delete("v");
	/* the engine was killed, so to speak: nothing was flushed or cleaned, and nothing differs */
	user = open_volume("v");
	assert_suspect(&user, 3);
	check(&user);
	assert_suspect(&user, 0); /* no more than marked */
	assert_int_equal(info_of(&user).adopted, 0);
	assert_int_equal(info_of(&user).mismatches, 0);
	while (clean(&user))
		;
	assert_true(clean(&user) || info_of(&user).marked == 0);
	close_volume(&user, "v");
	user = open_volume("v");
	assert_int_equal(info_of(&user).suspect, 0);
	close_volume(&user, "v");
}

/* ---- damage ---- */

static uint8_t block[8 * PAGE] __attribute__((aligned(4096)));

static void flip_byte(int file, uint64_t offset)
{
	int fd = open(paths[file], O_RDWR);
	uint8_t byte;

	must(fd >= 0);
	must(pread(fd, &byte, 1, (off_t)offset) == 1);
	byte ^= 0x10;
	must(pwrite(fd, &byte, 1, (off_t)offset) == 1);
	must(fsync(fd) == 0 && close(fd) == 0);
}

static void a_flipped_bit_fails_the_read_and_names_the_block(void **state)
{
	struct user user = open_volume("v");
	struct call call = { .bdev = bdev_desc_bdev(user.desc) };

	memset(block, 0x5a, sizeof(block));
	assert_int_equal(run(&user, IO_TYPE_WRITE, block, 8, 8), IO_SUCCESS);
	assert_int_equal(run(&user, IO_TYPE_FLUSH, NULL, 0, 0), IO_SUCCESS);
	flip_byte(0, 11 * PAGE + 77); /* was written */
	flip_byte(0, 30 * PAGE);      /* never written: it must read as zeroes */
	assert_int_equal(run(&user, IO_TYPE_READ, block, 8, 3), IO_SUCCESS);
	assert_int_equal(run(&user, IO_TYPE_READ, block, 8, 8), IO_MEDIA_ERROR);
	assert_int_equal(run(&user, IO_TYPE_READ, block, 11, 1), IO_MEDIA_ERROR);
	assert_int_equal(run(&user, IO_TYPE_READ, block, 30, 1), IO_MEDIA_ERROR);
	rig_on(thread_control(), do_take, &call);
	assert_int_equal(call.count, 2); /* each block once */
	assert_int_equal(call.blocks[0], 11);
	assert_int_equal(call.blocks[1], 30);
	rig_on(thread_control(), do_take, &call);
	assert_int_equal(call.count, 0);
	assert_int_equal(info_of(&user).mismatches, 3);
	/* a write makes it good */
	memset(block, 0x77, PAGE);
	assert_int_equal(run(&user, IO_TYPE_WRITE, block, 11, 1), IO_SUCCESS);
	assert_int_equal(run(&user, IO_TYPE_WRITE_ZEROES, NULL, 30, 1), IO_SUCCESS);
	assert_int_equal(run(&user, IO_TYPE_READ, block, 8, 8), IO_SUCCESS);
	assert_int_equal(run(&user, IO_TYPE_READ, block, 30, 1), IO_SUCCESS);
	assert_int_equal(block[0], 0);
	close_volume(&user, "v");
}

static void a_damaged_checksum_or_a_stale_block_fails_the_read_too(void **state)
{
	struct user user = open_volume("v");
	uint8_t stale[PAGE];
	int fd = open(paths[0], O_RDWR);

	memset(block, 1, PAGE);
	assert_int_equal(run(&user, IO_TYPE_WRITE, block, 5, 1), IO_SUCCESS);
	must(fd >= 0 && pread(fd, stale, PAGE, 5 * PAGE) == PAGE);
	memset(block, 2, PAGE);
	assert_int_equal(run(&user, IO_TYPE_WRITE, block, 5, 1), IO_SUCCESS);
	assert_int_equal(run(&user, IO_TYPE_READ, block, 5, 1), IO_SUCCESS);
	must(pwrite(fd, stale, PAGE, 5 * PAGE) == PAGE && fsync(fd) == 0 && close(fd) == 0);
	assert_int_equal(run(&user, IO_TYPE_READ, block, 5, 1), IO_MEDIA_ERROR);
	assert_int_equal(run(&user, IO_TYPE_UNMAP, NULL, 5, 1), IO_SUCCESS);
	assert_int_equal(run(&user, IO_TYPE_READ, block, 5, 1), IO_SUCCESS);
	flip_byte(1, sums_offset(6));
	assert_int_equal(run(&user, IO_TYPE_READ, block, 6, 1), IO_MEDIA_ERROR);
	close_volume(&user, "v");
}

static void a_clean_keeps_damage_visible_after_a_start(void **state)
{
	struct user user = open_volume("v");

	memset(block, 3, PAGE);
	assert_int_equal(run(&user, IO_TYPE_WRITE, block, 5, 1), IO_SUCCESS);
	assert_int_equal(info_of(&user).marked, 1);
	assert_false(clean(&user)); /* it was written since the last one */
	assert_true(clean(&user));
	assert_int_equal(info_of(&user).marked, 0);
	close_volume(&user, "v");
	flip_byte(0, 5 * PAGE + 5);
	user = open_volume("v");
	assert_int_equal(info_of(&user).suspect, 0);
	assert_int_equal(run(&user, IO_TYPE_READ, block, 5, 1), IO_MEDIA_ERROR);
	close_volume(&user, "v");
}

static void a_wrong_sidecar_is_refused(void **state)
{
	struct file_options options = {
		.name = "v", .filename = paths[0], .sums_filename = paths[1], .kind = FILE_KIND_VOLUME, .block_bytes = 512
	};
	struct fathom_fault why = { 0 };

	assert_int_equal(rig_file(&options, &why), -EINVAL);
	assert_non_null(strstr(why.text, "checksums need blocks of 4096 bytes"));
	options.block_bytes = PAGE;
	must(truncate(paths[1], 4096) == 0);
	assert_int_equal(rig_file(&options, &why), -EINVAL);
	assert_non_null(strstr(why.text, "have 4096 bytes, and must have"));
	options.sums_filename = "/nonexistent/sums";
	assert_int_equal(rig_file(&options, &why), -ENOENT);
	assert_null(rig_find("v"));
}

/* ---- power cuts ---- */

static struct {
	uint64_t last;		  /* number of the last write */
	uint64_t written[BLOCKS]; /* of each block */
	uint64_t synced[BLOCKS];
} now;

static void fill(uint8_t *to, uint64_t number)
{
	for (int i = 0; i < PAGE; i += 8)
		memcpy(to + i, &number, 8);
}

static void random_op(const struct user *user, struct random *random)
{
	uint64_t kind = random_below(random, 10), first = random_below(random, BLOCKS - 3),
		 count = 1 + random_below(random, 3);
	struct event *event;

	if (kind < 6) {
		now.last++;
		for (uint64_t i = 0; i < count; i++)
			fill(block + i * PAGE, now.last);
		assert_int_equal(run(user, IO_TYPE_WRITE, block, first, count), IO_SUCCESS);
		for (uint64_t i = 0; i < count; i++)
			now.written[first + i] = now.last;
	} else if (kind == 6) {
		/* zero: as if all blocks had never been written */
		assert_int_equal(run(user, IO_TYPE_UNMAP, NULL, first, count), IO_SUCCESS);
		memset(&now.written[first], 0, count * sizeof(now.written[0]));
		memset(&now.synced[first], 0, count * sizeof(now.synced[0]));
	} else if (kind == 7) {
		(void)clean(user); /* true or not */
		(void)clean(user); /* true if something is marked */
	} else {
		assert_int_equal(run(user, IO_TYPE_FLUSH, NULL, 0, 0), IO_SUCCESS);
		memcpy(now.synced, now.written, sizeof(now.synced));
	}
	event = add_event(EVENT_FLUSHED, 0);
	memcpy(event->flushed, now.synced, sizeof(now.synced));
}

/* What happens to pages that were not synced. */
enum mode { LOSE, KEEP, RANDOM, KEEP_HEAD };

/* The pages of a file after a cut before event `cut`: written to the file. */
static void write_file(int file, uint32_t cut, struct random *random, enum mode mode)
{
	int fd = open(paths[file], O_RDWR | O_TRUNC);
	uint32_t synced = 0;

	must(fd >= 0);
	must(ftruncate(fd, (off_t)(file == 0 ? BLOCKS * PAGE : sums_file_bytes(BLOCKS * PAGE))) == 0);
	for (uint32_t i = 0; i < cut; i++) {
		if (record.events[i]->kind == EVENT_SYNC && record.events[i]->file == file)
			synced = i;
	}
	/* of each page, the writes up to one of them: page by page, because each is written back by itself */
	for (uint64_t page = 0; page < (sums_file_bytes(BLOCKS * PAGE) + PAGE - 1) / PAGE; page++) {
		bool is_head = file == 1 && page < SUMS_HEAD_BYTES / PAGE;
		uint32_t last = mode == LOSE || (mode == KEEP_HEAD && !is_head) ? synced
				: mode == RANDOM ? synced + (uint32_t)random_below(random, cut - synced + 1)
						 : cut;

		for (uint32_t i = 0; i < last; i++) {
			const struct event *event = record.events[i];
			uint64_t from = max_u64(event->offset, page * PAGE);
			uint64_t to = min_u64(event->offset + event->bytes, (page + 1) * PAGE);
			static const uint8_t zeroes[PAGE];

			if (event->kind == EVENT_WRITE && event->file == file && from < to)
				must(pwrite(fd, event->content ? event->content + (from - event->offset) : zeroes,
					    to - from, (off_t)from) == (ssize_t)(to - from));
		}
	}
	must(close(fd) == 0);
}

/* Nothing that was written is called damaged, and what was flushed is there. */
static void check_after(uint32_t cut)
{
	struct user user = open_volume("after");
	const struct event *flushed = NULL;

	for (uint32_t i = 0; i < cut; i++) {
		if (record.events[i]->kind == EVENT_FLUSHED)
			flushed = record.events[i];
	}
	/* before the check, during it, and after it */
	for (int round = 0; round < 2; round++) {
		for (uint64_t i = 0; i < BLOCKS; i++) {
			uint64_t number;

			assert_int_equal(run(&user, IO_TYPE_READ, block, i, 1), IO_SUCCESS);
			memcpy(&number, block, sizeof(number));
			assert_memory_equal(block, block + 8, PAGE - 8);
			assert_true(!flushed || number == 0 || number >= flushed->flushed[i]);
			assert_true(!flushed || flushed->flushed[i] == 0 || number > 0 || cut < record.count);
		}
		check(&user);
	}
	assert_int_equal(info_of(&user).mismatches, 0);
	close_volume(&user, "after");
}

static void a_power_cut_makes_no_false_mismatch(void **state)
{
	static const enum mode modes[][FILES] = {
		{ LOSE, LOSE }, { KEEP, KEEP }, { KEEP, LOSE }, { LOSE, KEEP }, { KEEP, KEEP_HEAD }, { RANDOM, RANDOM },
	};
	struct user user = open_volume("v");
	struct random random;
	struct stat stat_of;
	uint32_t cuts = 0;

	random_init(&random, 1);
	memset(&now, 0, sizeof(now));
	for (int i = 0; i < FILES; i++) {
		must(stat(paths[i], &stat_of) == 0);
		record.inodes[i] = stat_of.st_ino;
	}
	record.is_on = true;
	for (int i = 0; i < OPS; i++)
		random_op(&user, &random);
	record.is_on = false;
	close_volume(&user, "v");
	assert_true(record.count > 2 * OPS);
	for (uint32_t cut = 0; cut <= record.count; cut++) {
		if (cut > 0 && record.events[cut - 1]->kind == EVENT_FLUSHED)
			continue; /* as the one before */
		for (size_t i = 0; i < ARRAY_COUNT(modes); i++) {
			write_file(0, cut, &random, modes[i][0]);
			write_file(1, cut, &random, modes[i][1]);
			check_after(cut);
			cuts++;
		}
	}
	assert_true(cuts > 400);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_flipped_bit_fails_the_read_and_names_the_block, setup, teardown),
		cmocka_unit_test_setup_teardown(a_damaged_checksum_or_a_stale_block_fails_the_read_too, setup, teardown),
		cmocka_unit_test_setup_teardown(a_clean_keeps_damage_visible_after_a_start, setup, teardown),
		cmocka_unit_test_setup_teardown(a_wrong_sidecar_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(a_power_cut_makes_no_false_mismatch, setup, teardown),
		{ "a_volume_with_checksums_agrees_with_the_model (io_uring)", a_volume_with_checksums_agrees_with_the_model,
		  setup_real, teardown, NULL },
		{ "a_volume_with_checksums_agrees_with_the_model (helpers)", a_volume_with_checksums_agrees_with_the_model,
		  setup_helpers, teardown, NULL },
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
