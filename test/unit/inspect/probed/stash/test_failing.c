/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Each call of an operation fails once, fails from then on, or the process is killed before it. The operation must be done
 * completely or not at all, and the tree's invariants must hold.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bits.h"
#include "failing.h"
#include "invariants.h"
#include "inspect/probed/stash/record.h"
#include "rig.h"

enum { CALLS_MAX = 4000, PID = 4711, LARGE_BYTES = STASH_SLICE_BYTES + 1000, LOCK_TRIES = 50 };

/* ---- listings of the tree, for comparison ---- */

struct dump {
	char text[32768];
	size_t used;
};

static struct {
	char *paths[512];
	uint32_t count;
	size_t prefix;
} walked;

static int walk(const char *path, const struct stat *status, int type, struct FTW *ftw)
{
	const char *below = path + walked.prefix;

	if (ftw->level == 0 || strstr(below, "/next-gen") || strcmp(below, "stash/lock") == 0 ||
	    strcmp(below, "stash/version") == 0)
		return 0;
	assert_true(walked.count < ARRAY_COUNT(walked.paths));
	walked.paths[walked.count++] = strdup(below);
	return 0;
}

static int compare_paths(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* All names without the counters: a skipped generation is allowed. */
static void dump(const struct rig *rig, struct dump *dump)
{
	walked.count = 0;
	walked.prefix = strlen(rig->directory) + 1;
	assert_int_equal(nftw(rig->directory, walk, 32, FTW_PHYS), 0);
	qsort(walked.paths, walked.count, sizeof(walked.paths[0]), compare_paths);
	dump->used = 0;
	for (uint32_t i = 0; i < walked.count; i++) {
		int bytes = snprintf(dump->text + dump->used, sizeof(dump->text) - dump->used, "%s\n", walked.paths[i]);

		assert_true(dump->used + (size_t)bytes < sizeof(dump->text));
		dump->used += (size_t)bytes;
		free(walked.paths[i]);
	}
}

static bool same(const struct dump *a, const struct dump *b)
{
	return a->used == b->used && memcmp(a->text, b->text, a->used) == 0;
}

static uint32_t open_files(void)
{
	DIR *folder = opendir("/proc/self/fd");
	uint32_t count = 0;

	assert_non_null(folder);
	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

/* ---- operations, each with its own initial state ---- */

static struct rig_set *one, *two, *notes;

struct operation {
	const char *name;
	void (*prepare)(struct rig *rig);
	int (*run)(struct rig *rig, struct fathom_fault *why);
	/*
	 * an intermediate state allowed after an error: the registrations of an earlier process with that pid are removed
	 */
	int (*gone)(struct rig *rig, struct fathom_fault *why);
	bool is_removal; /* after an error it may still be completed later */
	bool is_open;	 /* the operation opens the stash */
};

static int add(struct rig *rig, const struct stash_process *process, uint64_t inode, const struct rig_set *set,
	       struct fathom_fault *why)
{
	const struct stash_mapping mapping = { .device = 2049, .inode = inode };
	uint64_t generation;

	return stash_add(rig->stash, &RIG_ADDITION(process, &mapping, set), &generation, why);
}

static void prepare_nothing(struct rig *rig)
{
}

static void prepare_one(struct rig *rig)
{
	assert_int_equal(rig_add(rig, PID, 55, one), 0);
}

static void prepare_two(struct rig *rig)
{
	prepare_one(rig);
	assert_int_equal(rig_add(rig, PID, 56, two), 1);
	assert_int_equal(rig_add(rig, PID + 1, 56, two), 0);
}

static void prepare_same(struct rig *rig)
{
	prepare_one(rig);
	assert_int_equal(rig_add(rig, PID, 55, one), 1);
}

static int run_add(struct rig *rig, struct fathom_fault *why)
{
	const struct stash_process process = rig_process(PID);

	return add(rig, &process, 55, one, why);
}

static int run_add_more(struct rig *rig, struct fathom_fault *why)
{
	const struct stash_process process = rig_process(PID);

	return add(rig, &process, 56, two, why);
}

static int run_add_reused(struct rig *rig, struct fathom_fault *why)
{
	struct stash_process process = rig_process(PID);

	process.start_time++;
	return add(rig, &process, 57, two, why);
}

static int run_add_execed(struct rig *rig, struct fathom_fault *why)
{
	struct stash_process process = rig_process(PID);

	process.exec_inode++;
	return add(rig, &process, 57, two, why);
}

static int run_remove(struct rig *rig, struct fathom_fault *why)
{
	return stash_remove(rig->stash, PID, 0, why);
}

static int run_remove_mapping(struct rig *rig, struct fathom_fault *why)
{
	const struct stash_mapping mapping = { .device = 2049, .inode = 55 };

	return stash_remove_mapping(rig->stash, PID, &mapping, why);
}

static int remove_both(struct rig *rig, struct fathom_fault *why)
{
	return stash_clear_process(rig->stash, PID, why);
}

static int run_remove_process(struct rig *rig, struct fathom_fault *why)
{
	return stash_remove_process(rig->stash, PID, why);
}

/* A registration with records of version 2, to be rewritten as version 3. */
static void prepare_stale(struct rig *rig)
{
	rig->options.record_version = 2;
	rig_reopen(rig);
	prepare_two(rig);
	rig->options.record_version = 3;
	rig_reopen(rig);
}

static int run_reparsed(struct rig *rig, struct fathom_fault *why)
{
	const struct stash_registration registration = { .process = rig_process(PID), .mapping = { 2049, 55 } };
	struct dof_input input;
	void *memory;
	int rc = stash_read(rig->stash, &registration, &input, &memory, why);

	if (rc)
		return rc;
	free(memory);
	return stash_reparsed(rig->stash, &registration, &one->set, why);
}

static void prepare_to_open(struct rig *rig)
{
	prepare_two(rig);
	stash_close(rig->stash);
	rig->stash = NULL;
}

static int run_open(struct rig *rig, struct fathom_fault *why)
{
	return stash_open(&rig->options, &rig->stash, why);
}

static void prepare_links(struct rig *rig)
{
	rig->options.provider_links = true;
	rig_reopen(rig);
	prepare_two(rig);
}

static void prepare_notes(struct rig *rig)
{
	assert_int_equal(rig_add(rig, PID, 60, notes), 0);
	assert_int_equal(rig_add(rig, PID + 1, 60, notes), 0);
}

static int run_add_notes(struct rig *rig, struct fathom_fault *why)
{
	const struct stash_process process = rig_process(PID + 2);

	return add(rig, &process, 60, notes, why);
}

/* Write a large object in slices, and read it back in slices, as the registry does. */
static int upload(struct rig *rig, const char *data, struct stash_upload *upload, struct dof_input *input,
		  struct fathom_fault *why)
{
	const struct stash_process process = rig_process(PID);
	const struct stash_mapping mapping = { .device = 2049, .inode = 61 };
	struct stash_upload *const uploads[DOF_BLOCKS_MAX] = { upload };
	struct stash_addition addition = { .input = input, .set = &one->set };
	uint64_t generation;
	int rc = 0;

	for (size_t at = 0; at < LARGE_BYTES && rc == 0; at += STASH_SLICE_BYTES)
		rc = stash_upload_write(upload, at, data + at,
					LARGE_BYTES - at < STASH_SLICE_BYTES ? LARGE_BYTES - at : STASH_SLICE_BYTES);
	if (rc == 0)
		rc = stash_upload_map(upload, &input->blocks[0].data);
	if (rc)
		return fault(why, rc, "cannot be uploaded");
	input->blocks[0].bytes = LARGE_BYTES;
	while (stash_upload_compare(upload, PID, &mapping, 0))
		;
	addition.process = &process;
	addition.mapping = &mapping;
	addition.uploads = uploads;
	return stash_add(rig->stash, &addition, &generation, why);
}

static int run_upload(struct rig *rig, struct fathom_fault *why)
{
	static char data[LARGE_BYTES];
	struct dof_input input = one->input;
	struct stash_upload *begun;
	int rc = stash_upload_begin(rig->stash, LARGE_BYTES, &begun);

	if (rc)
		return fault(why, rc, "cannot be uploaded");
	memset(data, 'x', LARGE_BYTES);
	rc = upload(rig, data, begun, &input, why);
	stash_upload_end(begun);
	while (stash_free_slice(rig->stash))
		;
	return rc;
}

static void prepare_upload(struct rig *rig)
{
	struct fathom_fault why = { 0 };

	if (run_upload(rig, &why) != 0)
		fail_msg("%s", why.text);
}

static int run_remove_large(struct rig *rig, struct fathom_fault *why)
{
	int rc = stash_remove(rig->stash, PID, 0, why);

	while (stash_free_slice(rig->stash))
		;
	return rc;
}

static void prepare_link(struct rig *rig)
{
	rig->options.provider_links = true;
	rig_reopen(rig);
	prepare_one(rig);
}

static const struct operation operations[] = {
	{ .name = "the first registration of a process", .prepare = prepare_nothing, .run = run_add },
	{ .name = "another mapping of a process", .prepare = prepare_one, .run = run_add_more },
	{ .name = "the same again", .prepare = prepare_one, .run = run_add },
	{ .name = "a pid that is used again", .prepare = prepare_two, .run = run_add_reused, .gone = run_remove_process },
	{ .name = "exec", .prepare = prepare_two, .run = run_add_execed, .gone = remove_both },
	{ .name = "removing the only mapping", .prepare = prepare_one, .run = run_remove, .is_removal = true },
	{ .name = "removing one of two", .prepare = prepare_same, .run = run_remove, .is_removal = true },
	{ .name = "removing a mapping that shares probes", .prepare = prepare_two, .run = run_remove, .is_removal = true },
	{ .name = "removing a mapping", .prepare = prepare_two, .run = run_remove_mapping, .is_removal = true },
	{ .name = "removing a process", .prepare = prepare_two, .run = run_remove_process, .is_removal = true },
	{ .name = "a registration parsed again", .prepare = prepare_stale, .run = run_reparsed },
	{ .name = "opening", .prepare = prepare_to_open, .run = run_open, .is_open = true },
	{ .name = "removing a process with links",
	  .prepare = prepare_links,
	  .run = run_remove_process,
	  .is_removal = true },
	{ .name = "a process with links, used again",
	  .prepare = prepare_links,
	  .run = run_add_reused,
	  .gone = run_remove_process },
	{ .name = "an object of two blocks", .prepare = prepare_nothing, .run = run_add_notes },
	{ .name = "an object of two blocks that is there", .prepare = prepare_notes, .run = run_add_notes },
	{ .name = "removing an object of two blocks", .prepare = prepare_notes, .run = run_remove, .is_removal = true },
	{ .name = "a large object", .prepare = prepare_nothing, .run = run_upload },
	{ .name = "the same large object again", .prepare = prepare_upload, .run = run_upload },
	{ .name = "removing a large object", .prepare = prepare_upload, .run = run_remove_large, .is_removal = true },
	{ .name = "another mapping, with links", .prepare = prepare_link, .run = run_add_more },
};

/* ---- states that each may leave ---- */

struct expected {
	struct dump before, after, gone;
	bool has_gone;
};

static void expect(const struct operation *operation, struct expected *expected)
{
	struct fathom_fault why = { 0 };
	struct rig *rig;
	void *state;

	for (int round = 0; round < 2; round++) {
		assert_int_equal(rig_setup(&state), 0);
		rig = state;
		operation->prepare(rig);
		dump(rig, &expected->before);
		if (round == 1 && operation->gone) {
			assert_int_equal(operation->gone(rig, &why), 0);
			dump(rig, &expected->gone);
			expected->has_gone = true;
		} else {
			assert_int_equal(operation->run(rig, &why), 0);
			dump(rig, &expected->after);
		}
		assert_int_equal(invariants_broken(rig->directory, 0), 0);
		rig_teardown(&state);
	}
}

static void fail_with_dump(const struct operation *operation, uint32_t n, const char *how, const struct dump *there)
{
	fail_msg("%s: call %u %s leaves\n%.*s", operation->name, n, how, (int)there->used, there->text);
}

/* Two mappings are removed one after the other, so only one may be removed. Only the invariants are checked then. */
static bool may_be_half_done(const struct operation *operation)
{
	return operation->gone == remove_both;
}

static void check(const struct operation *operation, const struct expected *expected, struct rig *rig, uint32_t n, int rc,
		  const char *how)
{
	struct dump there;

	if (invariants_broken(rig->directory, 0) != 0)
		fail_msg("%s: call %u %s: an invariant is violated", operation->name, n, how);
	dump(rig, &there);
	if (same(&there, &expected->after) && (rc <= 0 || operation->is_removal))
		return;
	if (rc != 0 && (same(&there, &expected->before) || (expected->has_gone && same(&there, &expected->gone)) ||
			may_be_half_done(operation)))
		return;
	fail_with_dump(operation, n, how, &there);
}

/* ---- the loops ---- */

static int errors[] = { ENOSPC, EIO, ENOMEM, EMFILE };

/* Return false if the operation makes fewer than `n` calls. */
static bool fail_one(const struct operation *operation, const struct expected *expected, uint32_t n, int error)
{
	struct fathom_fault why = { 0 };
	uint32_t files;
	struct rig *rig;
	void *state;
	bool failed;
	int rc;

	assert_int_equal(rig_setup(&state), 0);
	rig = state;
	operation->prepare(rig);
	files = open_files();
	failing_begin(FAILING_ONCE, n, error);
	rc = operation->run(rig, &why);
	failed = failing_end();
	if (!operation->is_open || rc)
		assert_int_equal(open_files(), files);
	assert_true(rc <= 0 && (rc == 0 || (why.error == rc && why.text[0])));
	if (operation->is_open && rc)
		assert_int_equal(run_open(rig, &why), 0);
	check(operation, expected, rig, n, failed ? rc : 0, "fails");
	/* now it must succeed; each operation may be repeated */
	if (rc)
		assert_int_equal(operation->is_open ? 0 : operation->run(rig, &why), 0);
	assert_int_equal(invariants_broken(rig->directory, 0), 0);
	rig_teardown(&state);
	return failed;
}

static int count_one(void *ctx, const struct stash_registration *registration)
{
	return 0;
}

static bool fail_long(const struct operation *operation, const struct expected *expected, uint32_t n, int error)
{
	struct fathom_fault why = { 0 };
	struct rig *rig;
	void *state;
	bool failed;
	int rc;

	assert_int_equal(rig_setup(&state), 0);
	rig = state;
	operation->prepare(rig);
	failing_begin(FAILING_LONG, n, error);
	rc = operation->run(rig, &why);
	failed = failing_end();
	if (operation->is_open && rc)
		assert_int_equal(run_open(rig, &why), 0);
	/* the next operation, here a walk, completes or undoes it */
	assert_int_equal(stash_walk(rig->stash, count_one, NULL), 0);
	check(operation, expected, rig, n, failed ? rc : 0, "and all after it fail");
	assert_string_equal(rig->logged, "");
	rig_teardown(&state);
	return failed;
}

/* At any time, also before a repair, each file in probes/ must be a complete record. */
static int check_complete(const char *path, const struct stat *status, int type, struct FTW *ftw)
{
	static uint8_t data[65536];
	struct record record;
	ssize_t bytes;
	int fd;

	if (!S_ISREG(status->st_mode))
		return 0;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	bytes = read(fd, data, sizeof(data));
	close(fd);
	assert_int_equal(record_decode(data, (size_t)bytes, &record, NULL), 0);
	record_free(&record);
	return 0;
}

static bool kill_one(const struct operation *operation, const struct expected *expected, uint32_t n)
{
	struct fathom_fault why = { 0 };
	char probes[RIG_PATH_BYTES];
	struct rig *rig;
	void *state;
	bool killed;
	int status;
	pid_t pid;

	assert_int_equal(rig_setup(&state), 0);
	rig = state;
	operation->prepare(rig);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		failing_begin(FAILING_KILL, n, EIO);
		_exit(operation->run(rig, &why) == 0 ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
	assert_true(killed || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
	snprintf(probes, sizeof(probes), "%s/probes", rig->directory);
	assert_int_equal(nftw(probes, check_complete, 32, FTW_PHYS), 0);
	rig_reopen(rig);
	/* the state after kill -9 is not reported as damage */
	assert_string_equal(rig->logged, "");
	check(operation, expected, rig, n, killed ? -EINTR : 0, "is killed before");
	rig_teardown(&state);
	return killed;
}

static void each_call_fails(bool (*try)(const struct operation *, const struct expected *, uint32_t, int))
{
	for (size_t i = 0; i < ARRAY_COUNT(operations); i++) {
		static struct expected expected;
		uint32_t n = 1;

		expected.has_gone = false;
		expect(&operations[i], &expected);
		while (n < CALLS_MAX && try(&operations[i], &expected, n, errors[(n + i) % ARRAY_COUNT(errors)]))
			n++;
		assert_true(n > 2 && n < CALLS_MAX);
		print_message("# %s: %u calls\n", operations[i].name, n - 1);
	}
}

static bool try_kill(const struct operation *operation, const struct expected *expected, uint32_t n, int error)
{
	return kill_one(operation, expected, n);
}

static void a_failed_call_leaves_the_operation_done_or_undone(void **state)
{
	each_call_fails(fail_one);
}

static void an_operation_that_could_not_be_undone_is_undone_by_the_next(void **state)
{
	each_call_fails(fail_long);
}

static void a_kill_leaves_the_operation_done_or_undone(void **state)
{
	each_call_fails(try_kill);
}

/* A daemon that starts right after another was killed. */
static void opening_waits_a_second_for_the_lock(void **state)
{
	struct fathom_fault why = { 0 };
	struct rig *rig;
	void *rig_state;

	assert_int_equal(rig_setup(&rig_state), 0);
	rig = rig_state;
	prepare_to_open(rig);
	(void)failing_set_busy_locks(LOCK_TRIES);
	assert_int_equal(run_open(rig, &why), -EBUSY);
	assert_int_equal(failing_set_busy_locks(LOCK_TRIES - 1), 0);
	assert_non_null(strstr(why.text, "uses the state directory"));
	assert_int_equal(run_open(rig, &why), 0);
	assert_int_equal(failing_set_busy_locks(0), 0);
	rig_teardown(&rig_state);
}

static int make_sets(void **state)
{
	one = rig_set("same", 1, 3, 2, 0x1000);
	two = rig_set("same", 2, 4, 4, 0x1000);
	notes = rig_set("notes", 1, 2, 1, 0x1000);
	notes->input.kind = DOF_KIND_USDT;
	notes->input.blocks[1] = (struct dof_block){ .base = 64, .data = "rodata", .bytes = 6 };
	/* shared: a probe, a module and a provider; two has another provider */
	return 0;
}

static int free_sets(void **state)
{
	rig_free(one);
	rig_free(two);
	rig_free(notes);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_failed_call_leaves_the_operation_done_or_undone),
		cmocka_unit_test(an_operation_that_could_not_be_undone_is_undone_by_the_next),
		cmocka_unit_test(a_kill_leaves_the_operation_done_or_undone),
		cmocka_unit_test(opening_waits_a_second_for_the_lock),
	};

	return cmocka_run_group_tests(tests, make_sets, free_sets);
}
