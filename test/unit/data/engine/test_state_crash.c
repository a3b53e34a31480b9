/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Power cuts while the file of --state is written. The linker sends the file calls of the engine here, which are recorded
 * for three changes and then made again in a memory_fs, with a power cut at each: the file is the text before a change or
 * after it, and after the answer only that after it. A missing sync, and each call in the wrong order, is found.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* after those */
#include <cmocka.h>

#include "base/bits.h"
#include "data/engine/methods.gen.h"
#include "data/engine/state_file.h"

#include "../../control_thread.h"
#include "../store/pool/memory_fs.h"

enum { CALLS_MAX = 64, CHANGES = 3, TEXT_BYTES_MAX = 32 << 10, FD_NONE = -1 };

/* ---- recorded calls ---- */

struct call {
	enum { CALL_CREATE, CALL_WRITE, CALL_SYNC_FILE, CALL_RENAME, CALL_SYNC_FOLDER, CALL_ANSWER } kind;
	char *data; /* of a write */
	size_t bytes;
};

static struct call calls[CALLS_MAX];
static size_t call_count;
static int file_fd = FD_NONE, folder_fd = FD_NONE; /* those that the engine has open */
static char folder[64], path[96];

/* The worker thread writes and the control thread answers, one after the other. */
static void record(int kind, const void *data, size_t bytes)
{
	struct call *call = &calls[call_count++];

	must(call_count < CALLS_MAX);
	*call = (struct call){ .kind = kind, .bytes = bytes };
	if (!data)
		return;
	call->data = malloc(bytes);
	must(call->data);
	memcpy(call->data, data, bytes);
}

int __real_open64(const char *name, int flags, ...);
int __wrap_open64(const char *name, int flags, ...);
ssize_t __real_write(int fd, const void *data, size_t bytes);
ssize_t __wrap_write(int fd, const void *data, size_t bytes);
int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __real_close(int fd);
int __wrap_close(int fd);
int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);

int __wrap_open64(const char *name, int flags, ...)
{
	int fd = __real_open64(name, flags, 0600);

	if (fd < 0 || strncmp(name, folder, strlen(folder)) != 0)
		return fd;
	if (flags & O_DIRECTORY) {
		folder_fd = fd;
	} else if (flags & O_CREAT) {
		must(flags & O_TRUNC);
		file_fd = fd;
		record(CALL_CREATE, NULL, 0);
	}
	return fd;
}

ssize_t __wrap_write(int fd, const void *data, size_t bytes)
{
	if (fd == file_fd)
		record(CALL_WRITE, data, bytes);
	return __real_write(fd, data, bytes);
}

int __wrap_fsync(int fd)
{
	must(fd >= 0 && (fd == file_fd || fd == folder_fd));
	record(fd == file_fd ? CALL_SYNC_FILE : CALL_SYNC_FOLDER, NULL, 0);
	return __real_fsync(fd);
}

int __wrap_close(int fd)
{
	file_fd = fd == file_fd ? FD_NONE : file_fd;
	folder_fd = fd == folder_fd ? FD_NONE : folder_fd;
	return __real_close(fd);
}

int __wrap_rename(const char *from, const char *to)
{
	must(strcmp(to, path) == 0);
	record(CALL_RENAME, NULL, 0);
	return __real_rename(from, to);
}

/* ---- the engine's part ---- */

static volatile unsigned int answered;

static int open_state(void *unused)
{
	struct config *config = NULL;
	struct fathom_fault why;

	must(state_file_open(path, &config, &why) == 0);
	must(!config);
	state_file_loaded(NULL);
	return 0;
}

static void note_changed(void *ctx, int code, const char *message, const json_t *result)
{
	must(code == 0);
}

static void note_saved(void *ctx, const struct fathom_fault *why)
{
	must(!why);
	record(CALL_ANSWER, NULL, 0);
	sem_post(ctx);
}

static int change(void *saved)
{
	json_t *params = json_pack("{s:i}", "crdt1", (int)++answered);

	rpc_call("nvmf_set_crdt", params, note_changed, NULL);
	json_decref(params);
	state_file_save(note_saved, saved);
	return 0;
}

static void note_closed(void)
{
}

static int close_state(void *unused)
{
	state_file_stop();
	state_file_close(note_closed);
	return 0;
}

static int record_changes(void **state)
{
	struct reactor_options options = { .spin_ns = 0 };
	sem_t saved;

	snprintf(folder, sizeof(folder), "/tmp/fathom-state-crash-XXXXXX");
	must(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/state.json", folder);
	sem_init(&saved, 0, 0);
	control_start(&options);
	rpc_set_state(RPC_RUNTIME);
	rpc_register(engine_methods, engine_method_count);
	on_control(open_state, NULL);
	for (int i = 0; i < CHANGES; i++) {
		on_control(change, &saved);
		while (sem_wait(&saved))
			;
	}
	on_control(close_state, NULL);
	control_stop();
	sem_destroy(&saved);
	must(unlink(path) == 0);
	return rmdir(folder);
}

static int free_changes(void **state)
{
	while (call_count > 0)
		free(calls[--call_count].data);
	return 0;
}

/* ---- made again, with power cuts ---- */

struct run {
	struct memory_fs *memory;
	const char *before, *after; /* the file may have these; NULL: there is none */
	size_t before_bytes, after_bytes;
	bool is_wrong;
	unsigned int cuts;
};

static bool has_text(struct memory_fs *crashed, const char *text, size_t bytes)
{
	const struct pool_fs *fs = memory_fs_calls(crashed);
	int root = fs->open_folder(fs->ctx, AT_FDCWD, "/"), fd = fs->open_file(fs->ctx, root, "state.json", O_RDONLY);
	char *found = malloc(TEXT_BYTES_MAX);
	bool is_equal;

	must(found);
	if (fd < 0)
		is_equal = !text;
	else
		is_equal = text && fs->read(fs->ctx, fd, found, TEXT_BYTES_MAX) == (int)bytes &&
			   memcmp(found, text, bytes) == 0;
	free(found);
	if (fd >= 0)
		fs->close(fs->ctx, fd);
	fs->close(fs->ctx, root);
	return is_equal;
}

static void check_crashed(void *ctx, struct memory_fs *crashed)
{
	struct run *run = ctx;

	run->cuts++;
	if (!has_text(crashed, run->before, run->before_bytes) && !has_text(crashed, run->after, run->after_bytes))
		run->is_wrong = true;
}

static void cut_power(void *ctx)
{
	struct run *run = ctx;

	memory_fs_each_crash(run->memory, check_crashed, run);
}

/* Open the new file, empty. */
static int create_new(const struct pool_fs *fs, int root)
{
	int fd = fs->open_file(fs->ctx, root, "state.json.new", O_RDWR | O_CREAT | O_EXCL);

	if (fd >= 0)
		return fd;
	fd = fs->open_file(fs->ctx, root, "state.json.new", O_RDWR);
	must(fd >= 0);
	must(fs->set_size(fs->ctx, fd, 0) == 0);
	return fd;
}

/* The text of the next change is what may appear; after an answer it is the only one. */
static void expect_next(struct run *run, size_t from)
{
	run->before = run->after;
	run->before_bytes = run->after_bytes;
	for (size_t i = from; i < call_count; i++) {
		if (calls[i].kind == CALL_WRITE) {
			run->after = calls[i].data;
			run->after_bytes = calls[i].bytes;
			return;
		}
	}
}

static void make_call(struct run *run, const struct call *call, int root, int *fd)
{
	const struct pool_fs *fs = memory_fs_calls(run->memory);

	switch (call->kind) {
	case CALL_CREATE:
		if (*fd >= 0)
			fs->close(fs->ctx, *fd);
		*fd = create_new(fs, root);
		break;
	case CALL_WRITE:
		must(fs->write(fs->ctx, *fd, call->data, call->bytes) == 0);
		break;
	case CALL_SYNC_FILE:
		must(fs->sync(fs->ctx, *fd) == 0);
		break;
	case CALL_RENAME:
		must(fs->rename(fs->ctx, root, "state.json.new", root, "state.json", true) == 0);
		break;
	case CALL_SYNC_FOLDER:
		must(fs->sync(fs->ctx, root) == 0);
		break;
	case CALL_ANSWER:
		break;
	}
}

/* `order`: the calls by their indexes; UINT32_MAX: this one is missing. Returns whether a promise is broken. */
static bool is_broken(const uint32_t *order, unsigned int *cuts_ret)
{
	struct run run = { .memory = memory_fs_create() };
	const struct pool_fs *fs = memory_fs_calls(run.memory);
	int fd = FD_NONE, root = fs->open_folder(fs->ctx, AT_FDCWD, "/");

	expect_next(&run, 0);
	memory_fs_at_each_call(run.memory, cut_power, &run);
	for (size_t i = 0; i < call_count; i++) {
		if (order[i] == UINT32_MAX)
			continue;
		make_call(&run, &calls[order[i]], root, &fd);
		if (calls[order[i]].kind != CALL_ANSWER)
			continue;
		run.before = run.after;
		run.before_bytes = run.after_bytes;
		cut_power(&run);
		expect_next(&run, order[i]);
	}
	memory_fs_at_each_call(run.memory, NULL, NULL);
	if (fd >= 0)
		fs->close(fs->ctx, fd);
	fs->close(fs->ctx, root);
	memory_fs_destroy(run.memory);
	*cuts_ret = run.cuts;
	return run.is_wrong;
}

static void as_recorded(uint32_t *order)
{
	for (uint32_t i = 0; i < call_count; i++)
		order[i] = i;
}

/* ---- tests ---- */

static void a_power_cut_leaves_the_old_or_the_new_file(void **state)
{
	static const int kinds[] = { CALL_CREATE, CALL_WRITE, CALL_SYNC_FILE, CALL_RENAME, CALL_SYNC_FOLDER, CALL_ANSWER };
	uint32_t order[CALLS_MAX];
	unsigned int cuts;

	assert_int_equal(call_count, CHANGES * ARRAY_COUNT(kinds));
	for (size_t i = 0; i < call_count; i++)
		assert_int_equal(calls[i].kind, kinds[i % ARRAY_COUNT(kinds)]);
	as_recorded(order);
	assert_false(is_broken(order, &cuts));
	assert_true(cuts > call_count);
}

static void each_missing_sync_is_found(void **state)
{
	uint32_t order[CALLS_MAX];
	unsigned int cuts;

	for (uint32_t i = 0; i < call_count; i++) {
		if (calls[i].kind != CALL_SYNC_FILE && calls[i].kind != CALL_SYNC_FOLDER)
			continue;
		as_recorded(order);
		order[i] = UINT32_MAX;
		assert_true(is_broken(order, &cuts));
	}
}

/* From the write to the answer each call needs the one before it. */
static void each_wrong_order_is_found(void **state)
{
	uint32_t order[CALLS_MAX];
	unsigned int cuts;

	for (uint32_t i = 0; i + 1 < call_count; i++) {
		if (calls[i].kind == CALL_CREATE || calls[i].kind == CALL_ANSWER)
			continue;
		as_recorded(order);
		order[i] = i + 1;
		order[i + 1] = i;
		assert_true(is_broken(order, &cuts));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_power_cut_leaves_the_old_or_the_new_file),
		cmocka_unit_test(each_missing_sync_is_found),
		cmocka_unit_test(each_wrong_order_is_found),
	};

	return cmocka_run_group_tests_name("engine state_crash", tests, record_changes, free_changes);
}
