/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A round of a copy from another engine is on the disk when it ends: the management service may accept the copy then. The
 * linker sends the calls of the copy to a source in this test, and its file calls are recorded. They are made again in a
 * memory_fs: each state that a power cut leaves after the round has all data, and their sums, and no others. Each missing
 * sync, and each write after the syncs, is found.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/param.h>
#include <unistd.h>
/* after those */
#include <cmocka.h>

#include "base/bits.h"
#include "data/engine/move/copy.h"
#include "data/store/pool/sums.h"
#include "fathom/initiator.h"

#include "../store/pool/recording.h"

enum { PIECE = 8 << 10, PIECES = 4, PIECE_OF_ZEROES = 2, SIZE = PIECES * PIECE, DATA = 0, SUMS = 1 };

static char root[] = "/dev/shm/fathom-move-crash-XXXXXX"; /* tmpfs: a sync takes no time */
static uint8_t source[SIZE];

/* ---- the source ---- */

static struct {
	fathom_done_fn done;
	void *ctx;
} reads[MOVE_COPY_DEPTH];
static uint32_t read_count;

int __wrap_fathom_connect_begin(const struct fathom_connect_options *options, struct fathom_fault *why,
				struct fathom_connecting **connecting_ret);
int __wrap_fathom_connect_finish(struct fathom_connecting *connecting, struct fathom_fault *why,
				 struct fathom_controller **controller_ret);
int __wrap_fathom_qpair_create(struct fathom_controller *controller, uint32_t depth, struct fathom_fault *why,
			       struct fathom_qpair **qpair_ret);
const struct fathom_controller_info *__wrap_fathom_controller_info(const struct fathom_controller *controller);
int __wrap_fathom_namespace_info(struct fathom_controller *controller, uint32_t nsid, struct fathom_fault *why,
				 struct fathom_namespace_info *info_ret);
int __wrap_fathom_read(struct fathom_qpair *qpair, uint32_t nsid, uint64_t lba, uint32_t blocks, const struct iovec *iov,
		       int iov_count, fathom_done_fn done, void *ctx);
int __wrap_fathom_qpair_poll(struct fathom_qpair *qpair);
int __wrap_fathom_controller_poll(struct fathom_controller *controller);
uint32_t __wrap_fathom_qpair_in_flight(const struct fathom_qpair *qpair);
int __wrap_fathom_qpair_fd(const struct fathom_qpair *qpair);
bool __wrap_fathom_qpair_wants_to_send(const struct fathom_qpair *qpair);
void __wrap_fathom_qpair_destroy(struct fathom_qpair *qpair);
void __wrap_fathom_disconnect(struct fathom_controller *controller);

int __wrap_fathom_connect_begin(const struct fathom_connect_options *options, struct fathom_fault *why,
				struct fathom_connecting **connecting_ret)
{
	*connecting_ret = NULL;
	return 0;
}

int __wrap_fathom_connect_finish(struct fathom_connecting *connecting, struct fathom_fault *why,
				 struct fathom_controller **controller_ret)
{
	*controller_ret = NULL;
	return 0;
}

int __wrap_fathom_qpair_create(struct fathom_controller *controller, uint32_t depth, struct fathom_fault *why,
			       struct fathom_qpair **qpair_ret)
{
	*qpair_ret = NULL;
	return 0;
}

const struct fathom_controller_info *__wrap_fathom_controller_info(const struct fathom_controller *controller)
{
	static const struct fathom_controller_info info = { .transfer_bytes_max = PIECE };

	return &info;
}

int __wrap_fathom_namespace_info(struct fathom_controller *controller, uint32_t nsid, struct fathom_fault *why,
				 struct fathom_namespace_info *info_ret)
{
	*info_ret = (struct fathom_namespace_info){ .block_bytes = SUMS_BLOCK_BYTES, .blocks = SIZE / SUMS_BLOCK_BYTES };
	return 0;
}

int __wrap_fathom_read(struct fathom_qpair *qpair, uint32_t nsid, uint64_t lba, uint32_t blocks, const struct iovec *iov,
		       int iov_count, fathom_done_fn done, void *ctx)
{
	must(iov_count == 1 && iov->iov_len == blocks * SUMS_BLOCK_BYTES);
	must(read_count < MOVE_COPY_DEPTH);
	memcpy(iov->iov_base, source + lba * SUMS_BLOCK_BYTES, iov->iov_len);
	reads[read_count].done = done;
	reads[read_count++].ctx = ctx;
	return 0;
}

int __wrap_fathom_qpair_poll(struct fathom_qpair *qpair)
{
	const struct fathom_completion completion = { .error = 0 };

	if (read_count == 0)
		return 0;
	read_count--;
	reads[read_count].done(reads[read_count].ctx, &completion);
	return 1;
}

int __wrap_fathom_controller_poll(struct fathom_controller *controller)
{
	return 0;
}

uint32_t __wrap_fathom_qpair_in_flight(const struct fathom_qpair *qpair)
{
	return read_count;
}

int __wrap_fathom_qpair_fd(const struct fathom_qpair *qpair)
{
	return -1;
}

bool __wrap_fathom_qpair_wants_to_send(const struct fathom_qpair *qpair)
{
	return false;
}

void __wrap_fathom_qpair_destroy(struct fathom_qpair *qpair)
{
}

void __wrap_fathom_disconnect(struct fathom_controller *controller)
{
}

/* ---- recorded calls ---- */

static struct recording recording;
static int fds[2], handles[2];

static int handle_of(int fd)
{
	must(fd == fds[DATA] || fd == fds[SUMS]);
	return handles[fd == fds[SUMS]];
}

ssize_t __real_pwrite64(int fd, const void *data, size_t bytes, off64_t offset);
ssize_t __wrap_pwrite64(int fd, const void *data, size_t bytes, off64_t offset);
int __real_fallocate64(int fd, int mode, off64_t offset, off64_t bytes);
int __wrap_fallocate64(int fd, int mode, off64_t offset, off64_t bytes);
int __real_ftruncate64(int fd, off64_t bytes);
int __wrap_ftruncate64(int fd, off64_t bytes);
int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);

ssize_t __wrap_pwrite64(int fd, const void *data, size_t bytes, off64_t offset)
{
	must(__real_pwrite64(fd, data, bytes, offset) == (ssize_t)bytes);
	recording_note_write(&recording, handle_of(fd), (uint64_t)offset, data, bytes);
	return (ssize_t)bytes;
}

/* Only to make zeroes, within the file. */
int __wrap_fallocate64(int fd, int mode, off64_t offset, off64_t bytes)
{
	uint8_t *zeroes = calloc(1, (size_t)bytes);

	must(zeroes && __real_fallocate64(fd, mode, offset, bytes) == 0);
	recording_note_write(&recording, handle_of(fd), (uint64_t)offset, zeroes, (size_t)bytes);
	free(zeroes);
	return 0;
}

int __wrap_ftruncate64(int fd, off64_t bytes)
{
	must(__real_ftruncate64(fd, bytes) == 0);
	recording_note(&recording, RECORDED_SET_SIZE, handle_of(fd), "", (uint64_t)bytes);
	return 0;
}

int __wrap_fdatasync(int fd)
{
	recording_note(&recording, RECORDED_SYNC, handle_of(fd), "", 0);
	return __real_fdatasync(fd);
}

/* ---- a round ---- */

static struct memory_fs *before; /* what an earlier round has left */

/* A file with zeroes but from `begin` to `end`. */
static void make_file(int file, uint64_t bytes, uint64_t begin, uint64_t end)
{
	static const char *const names[] = { [DATA] = "data", [SUMS] = "sums" };
	char path[sizeof(root) + 8];
	uint8_t *data = calloc(1, bytes);

	must(data);
	memset(data + begin, 0x11, end - begin);
	snprintf(path, sizeof(path), "%s/%s", root, names[file]);
	fds[file] = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	must(fds[file] >= 0 && write(fds[file], data, bytes) == (ssize_t)bytes);
	handles[file] = recording_note_open(&recording, 0, names[file], O_RDWR);
	free(data);
}

static void note_progress(void *ctx, uint64_t bytes)
{
}

static int copy_once(void **state)
{
	const uint8_t regions = 1;
	struct fathom_fault why;
	struct move_copy copy = { .address = "127.0.0.1:1",
				  .subnqn = "s",
				  .hostnqn = "h",
				  .snapshot = "",
				  .size_bytes = SIZE,
				  .file_bytes = SIZE,
				  .block_bytes = SUMS_BLOCK_BYTES,
				  .regions = &regions,
				  .regions_bytes = 1,
				  .region_bytes = MAX(SIZE, 1 << 20),
				  .cancel_fd = eventfd(0, EFD_CLOEXEC),
				  .progress = note_progress };

	for (int i = 0; i < PIECES; i++)
		memset(source + i * PIECE, i == PIECE_OF_ZEROES ? 0 : 0x40 + i, PIECE);
	must(mkdtemp(root));
	recording_begin(&recording);
	make_file(DATA, SIZE, 0, SIZE);
	make_file(SUMS, sums_file_bytes(SIZE), sums_offset(0), sums_file_bytes(SIZE)); /* of a larger snapshot */
	before = memory_fs_create();
	memory_fs_load(before, root);
	copy.file = fds[DATA];
	copy.sums_file = fds[SUMS];
	must(copy.cancel_fd >= 0);
	must(move_copy_run(&copy, &why) == 0);
	must(close(copy.cancel_fd) == 0 && close(fds[DATA]) == 0 && close(fds[SUMS]) == 0);
	return 0;
}

static int forget(void **state)
{
	char command[sizeof(root) + 16];

	recording_end(&recording);
	memory_fs_destroy(before);
	snprintf(command, sizeof(command), "rm -rf %s", root);
	return system(command);
}

/* ---- made again, with a power cut after it ---- */

struct seen {
	uint32_t cuts;
	bool is_wrong;
};

static int open_in(struct memory_fs *memory, const char *name)
{
	const struct pool_fs *fs = memory_fs_calls(memory);
	int folder = fs->open_folder(fs->ctx, AT_FDCWD, "/"), fd = fs->open_file(fs->ctx, folder, name, O_RDONLY);

	fs->close(fs->ctx, folder);
	must(fd >= 0);
	return fd;
}

static void check_crashed(void *ctx, struct memory_fs *crashed)
{
	const struct pool_fs *fs = memory_fs_calls(crashed);
	int data = open_in(crashed, "data"), sums = open_in(crashed, "sums");
	struct seen *seen = ctx;
	uint8_t found[SIZE];

	seen->cuts++;
	memory_fs_read(crashed, data, 0, found, SIZE);
	seen->is_wrong = seen->is_wrong || memcmp(found, source, SIZE) != 0;
	for (uint64_t i = 0; i < SIZE / SUMS_BLOCK_BYTES; i++) {
		uint32_t kept, sum = sums_update(SUMS_INIT, source + i * SUMS_BLOCK_BYTES, SUMS_BLOCK_BYTES);

		memory_fs_read(crashed, sums, sums_offset(i), &kept, sizeof(kept));
		seen->is_wrong = seen->is_wrong || !sums_fit(sums_final(sum), kept);
	}
	for (uint64_t at = sums_end(SIZE); at < sums_file_bytes(SIZE); at += sizeof(uint32_t)) {
		uint32_t behind;

		memory_fs_read(crashed, sums, at, &behind, sizeof(behind));
		seen->is_wrong = seen->is_wrong || behind != 0;
	}
	fs->close(fs->ctx, data);
	fs->close(fs->ctx, sums);
}

/* Whether a power cut after these calls may lose something. `missing`: the sync that is not made; UINT32_MAX: none. */
static bool is_broken(const struct recording *calls, uint32_t missing)
{
	struct memory_fs *memory = memory_fs_copy(before);
	struct seen seen = { 0 };

	memory_fs_skip_sync(memory, missing);
	must(recording_play(calls, memory) == 0);
	memory_fs_each_crash(memory, check_crashed, &seen);
	must(seen.cuts > 0);
	memory_fs_destroy(memory);
	return seen.is_wrong;
}

/* ---- tests ---- */

static void after_a_round_all_is_on_the_disk(void **state)
{
	assert_false(is_broken(&recording, UINT32_MAX));
}

static void each_missing_sync_is_found(void **state)
{
	uint32_t syncs = 0;

	for (uint32_t i = 0; i < recording.count; i++)
		syncs += recording.calls[i].kind == RECORDED_SYNC;
	assert_int_equal(syncs, 2);
	assert_true(is_broken(&recording, 0));
	assert_true(is_broken(&recording, 1));
}

/* Each write after the syncs. */
static void each_late_write_is_found(void **state)
{
	uint32_t writes = 0;

	for (uint32_t i = 0; i < recording.count; i++) {
		struct recording late = recording;

		if (recording.calls[i].kind != RECORDED_WRITE)
			continue;
		for (uint32_t at = i; at + 1 < recording.count; at++)
			late.calls[at] = recording.calls[at + 1];
		late.calls[recording.count - 1] = recording.calls[i];
		assert_true(is_broken(&late, UINT32_MAX));
		writes++;
	}
	assert_int_equal(writes, 2 * PIECES + 1); /* data and sums of each piece, and the zeroes behind the sums */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(after_a_round_all_is_on_the_disk),
		cmocka_unit_test(each_missing_sync_is_found),
		cmocka_unit_test(each_late_write_is_found),
	};

	return cmocka_run_group_tests_name("engine move_crash", tests, copy_once, forget);
}
