/* SPDX-License-Identifier: BSD-2-Clause */
/* The writer: life and size of the file, masks, strings, pools, unregistered threads. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/must.h"
#include "demo/demo.h"
#include "demo/probes.gen.h"
#include "fathom/trace/trace.h"

enum { SKIPPED = 77 };

static char directory[64];

static struct trace_options options(uint32_t io_entries)
{
	return (struct trace_options){ .schema = &fathom_schema,
				       .name = "unit",
				       .version = "1",
				       .thread_count = 1,
				       .size_option = "--num-trace-entries",
				       .io_entries = io_entries,
				       .directory = directory };
}

static void begin(uint32_t io_entries)
{
	struct trace_options how = options(io_entries);
	struct fathom_fault why = { 0 };

	must(trace_open(&how, &why) == 0);
	must(trace_mask_set("all", &why) == 0);
	must(trace_thread_attach("main", 0, true) == 0);
}

/* Run `fn` in a child with its own trace. Return its exit status. */
static int in_child(void (*fn)(void))
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		fn();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int make_directory(void **state)
{
	snprintf(directory, sizeof(directory), "/dev/shm/fathom-unit-XXXXXX");
	return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", directory);
	return system(command);
}

/* ---- the file's life ---- */

static void end_silent(void)
{
	char path[256];
	struct stat st;

	begin(1024);
	snprintf(path, sizeof(path), "%s", trace_path());
	must(stat(path, &st) == 0);
	must((st.st_mode & 0777) == 0600);
	trace_close();
	must(stat(path, &st) != 0);
}

static void end_with_events(void)
{
	char path[256];
	struct stat st;

	begin(1024);
	probe_nothing(clock_ticks());
	snprintf(path, sizeof(path), "%s", trace_path());
	trace_close();
	must(stat(path, &st) == 0);
	unlink(path);
}

static void a_file_is_removed_only_if_nothing_was_recorded(void **state)
{
	assert_int_equal(in_child(end_silent), 0);
	assert_int_equal(in_child(end_with_events), 0);
}

static void without_a_file(void)
{
	struct demo_thing thing = { 0 };
	struct fathom_fault why;

	must(trace_thread_attach("x", 0, true) == -ENOENT);
	must(trace_mask_set("all", &why) == 0);
	trace_object_init(&thing.trace, TRACE_OBJECT_THING);
	thing_state_move(2, &thing, THING_UP);
	must(thing.state == THING_UP);
	probe_texts(2, trace_intern("a"), trace_intern("b"));
	must(trace_intern("a") == trace_intern("a"));
	must(trace_owner_create(TRACE_OWNER_SESSION, 0, "x") == 0);
	trace_running(trace_intern("x"), NULL, 2);
	trace_clock_note();
	trace_clear();
	trace_close();
}

static void without_a_trace_file_all_calls_are_safe(void **state)
{
	assert_int_equal(in_child(without_a_file), 0);
}

static void leave_one(void)
{
	begin(1024);
	probe_nothing(clock_ticks());
}

static int files_in_directory(void)
{
	char command[160];
	FILE *list;
	int count;

	snprintf(command, sizeof(command), "ls %s/unit_trace.pid* | wc -l", directory);
	list = popen(command, "r");
	must(list && fscanf(list, "%d", &count) == 1);
	pclose(list);
	return count;
}

static void files_of_ended_processes_are_pruned(void **state)
{
	for (int i = 0; i < 12; i++)
		assert_int_equal(in_child(leave_one), 0);
	/* four of dead processes and the last process's own */
	assert_int_equal(files_in_directory(), 5);
}

static void bad_options(void)
{
	struct trace_options how = options(1000);
	struct fathom_fault why = { 0 };

	must(trace_open(&how, &why) == -EINVAL);
	must(strstr(why.text, "power of two"));
	how = options(1024);
	how.directory = "/nonexistent";
	must(trace_open(&how, &why) == -ENOENT);
	must(strstr(why.text, "/nonexistent"));
	must(strstr(why.text, "--num-trace-entries 0"));
	how = options(1024);
	how.thread_count = TRACE_THREADS_MAX;
	must(trace_open(&how, &why) == -EINVAL);
	how = options(1024);
	how.schema = NULL;
	must(trace_open(&how, &why) == -EINVAL);
	must(strstr(why.text, "schema"));
}

static void invalid_options_are_refused_with_a_reason(void **state)
{
	assert_int_equal(in_child(bad_options), 0);
}

/* ---- a small /dev/shm ---- */

static void mount_small(const char *size)
{
	if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("none", directory, "tmpfs", 0, size) != 0)
		_exit(SKIPPED);
}

static void shrink(void)
{
	const struct trace_ring *ring;
	size_t bytes;
	int fd = open("/dev/null", O_WRONLY), said[2];
	char text[512] = "";

	must(fd >= 0 && pipe(said) == 0);
	mount_small("size=24m");
	must(dup2(said[1], 2) == 2);
	begin(1 << 18);
	must(read(said[0], text, sizeof(text) - 1) > 0);
	must(strstr(text, "too small"));
	must(trace_memory(&bytes) && bytes <= 24 << 20);
	ring = trace_self.lane[TRACE_RING_IO].ring;
	must(ring->entry_count < 1 << 18 && ring->entry_count >= TRACE_IO_ENTRIES_MIN);
	/* each byte is allocated: no SIGBUS */
	for (uint64_t i = 0; i < 3 * ring->entry_count; i++)
		probe_count_io(2, i, 0);
	for (uint64_t i = 0; i < 3 * TRACE_RARE_ENTRIES_DEFAULT; i++)
		probe_count_rare(2, i, 0);
}

/*
 * Start a trace in a tmpfs with `spare` bytes in addition to a dead process's file and a minimal new one. `text` gets the
 * message.
 */
static void begin_in_small_tmpfs(size_t spare, char *text, size_t text_bytes)
{
	char size[32];
	int said[2];
	size_t bytes;

	begin(TRACE_IO_ENTRIES_MIN);
	must(trace_memory(&bytes));
	trace_close();
	snprintf(size, sizeof(size), "size=%zu", 2 * bytes + spare);
	mount_small(size);
	must(in_child(leave_one) == 0);
	must(pipe(said) == 0 && dup2(said[1], 2) == 2 && fcntl(said[0], F_SETFL, O_NONBLOCK) == 0);
	begin(1 << 20);
	memset(text, 0, text_bytes);
	(void)!read(said[0], text, text_bytes - 1);
}

static void a_quarter_fits(void)
{
	char text[512];

	/* 32 MiB of records are requested, 8 fit */
	begin_in_small_tmpfs(12 << 20, text, sizeof(text));
	must(trace_self.lane[TRACE_RING_IO].ring->entry_count == 1 << 18);
	must(files_in_directory() == 2);
	must(!strstr(text, "removed"));
	must(strstr(text, "too small"));
}

static void less_than_a_quarter_fits(void)
{
	char text[512];

	begin_in_small_tmpfs(4 << 20, text, sizeof(text));
	must(trace_self.lane[TRACE_RING_IO].ring->entry_count >= 1 << 18);
	must(files_in_directory() == 1);
	must(strstr(text, "removed /dev/shm/fathom-unit-") && strstr(text, "/unit_trace.pid"));
}

static void files_of_ended_processes_are_removed_only_if_less_than_a_quarter_fits(void **state)
{
	int status = in_child(a_quarter_fits);

	if (status == SKIPPED) {
		print_message("# skipped: mounting a small tmpfs needs root\n");
		skip();
	}
	assert_int_equal(status, 0);
	assert_int_equal(in_child(less_than_a_quarter_fits), 0);
}

static void too_small(void)
{
	struct trace_options how = options(1 << 18);
	struct fathom_fault why = { 0 };

	mount_small("size=1m");
	must(trace_open(&how, &why) == -ENOSPC);
	must(strstr(why.text, "no room"));
	must(access(trace_path(), F_OK) != 0);
}

static void a_small_file_system_shrinks_the_rings(void **state)
{
	int status = in_child(shrink);

	if (status == SKIPPED) {
		print_message("# skipped: mounting a small tmpfs needs root\n");
		skip();
	}
	assert_int_equal(status, 0);
	assert_int_equal(in_child(too_small), 0);
}

/* ---- masks ---- */

static bool is_on(const char *name)
{
	for (unsigned int group = 0; group < trace_group_count(); group++) {
		struct trace_point_info info;

		for (unsigned int i = 0; trace_group_point(group, i, &info); i++) {
			if (strcmp(info.name, name) == 0)
				return info.enabled;
		}
	}
	fail_msg("no point %s", name);
	return false;
}

static void masks_select_groups_and_points(void **state)
{
	static const struct {
		const char *spec;
		bool good, nothing, ints, job_run;
	} rows[] = {
		{ "all", true, true, true, true },
		{ "none", true, false, false, false },
		{ "more", true, true, true, false },
		{ "MORE", true, true, true, false },
		{ "more,demo", true, true, true, true },
		{ "more:ints", true, false, true, false },
		{ "more:INTS+nothing", true, true, true, false },
		{ "more:4", true, false, true, false },
		{ "more:0x4,demo:job_run", true, false, true, true },
		{ "0x2", true, false, false, true },
		{ "0xFFFF", true, true, true, true },
		{ "2", true, false, false, true },
		{ "demo,none", true, false, false, true },
		{ "", false, 0, 0, 0 },
		{ "nope", false, 0, 0, 0 },
		{ "more:nope", false, 0, 0, 0 },
		{ "more:", false, 0, 0, 0 },
		{ "all:3", false, 0, 0, 0 },
		{ "0xzz", false, 0, 0, 0 },
		{ "0xf00", false, 0, 0, 0 },
		{ "0x102", false, 0, 0, 0 },
		{ "more:0xf000", false, 0, 0, 0 },
		{ "more:0xfffff", true, true, true, false },
	};
	struct fathom_fault why;

	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		uint64_t before[ARRAY_COUNT(trace_masks)];
		int rc;

		memcpy(before, trace_masks, sizeof(before));
		memset(&why, 0, sizeof(why));
		rc = trace_mask_set(rows[i].spec, &why);
		if ((rc == 0) != rows[i].good)
			fail_msg("\"%s\": error %d %s", rows[i].spec, rc, why.text);
		if (rc) {
			assert_int_equal(rc, -EINVAL);
			assert_true(why.text[0]);
			assert_memory_equal(before, trace_masks, sizeof(before));
			continue;
		}
		if (is_on("nothing") != rows[i].nothing || is_on("ints") != rows[i].ints ||
		    is_on("job_run") != rows[i].job_run)
			fail_msg("\"%s\": nothing %d ints %d job_run %d", rows[i].spec, is_on("nothing"), is_on("ints"),
				 is_on("job_run"));
	}
	assert_int_equal(trace_mask_set("none", &why), 0);
	assert_int_equal(trace_group_enable("more", 1, true), 0);
	assert_true(is_on("count_io"));
	assert_false(is_on("count_rare"));
	assert_int_equal(trace_group_enable("nope", 1, true), -ENOENT);
}

/* ---- threads, strings, pools ---- */

static void *foreign(void *ctx)
{
	struct demo_thing thing = { 0 };

	for (int i = 0; i < 10; i++)
		probe_nothing(2);
	probe_long_one(2, &thing, 1, 2, 3, 4, 5, 6, 7, 8);
	return NULL;
}

static void unregistered(void)
{
	pthread_t thread;
	size_t bytes;

	begin(1024);
	must(pthread_create(&thread, NULL, foreign, NULL) == 0);
	pthread_join(thread, NULL);
	must(((const struct trace_header *)trace_memory(&bytes))->unregistered_records == 11);
}

static void events_of_unregistered_threads_are_counted(void **state)
{
	assert_int_equal(in_child(unregistered), 0);
}

static void full_strings(void)
{
	const struct trace_istr *first = trace_intern("before there is a file"), *last = NULL;
	char text[128];

	begin(1024);
	for (int i = 0; i < 8000; i++) {
		snprintf(text, sizeof(text), "a string that is not there yet, of some length, number %d", i);
		last = trace_intern(text);
		must(strcmp(last->text, text) == 0);
		must(trace_intern(text) == last);
	}
	must(last->id == trace_intern("(strings full)")->id);
	must(first == trace_intern("before there is a file"));
	must(first->id != last->id);
	/* after the file was closed their ids are the same, and a new string still does not fit */
	trace_close();
	must(first == trace_intern("before there is a file"));
	must(trace_intern("one more string that is too long to fit into what is left of it all")->id == last->id);
}

static void strings_that_do_not_fit_share_one_id(void **state)
{
	assert_int_equal(in_child(full_strings), 0);
}

static bool is_in_file(const void *pool)
{
	size_t bytes;
	const char *memory = trace_memory(&bytes);

	return (const char *)pool >= memory && (const char *)pool < memory + bytes;
}

/* The number of requests without room in the file, by its table. */
static uint64_t not_in_file(void)
{
	size_t bytes;
	const uint8_t *memory = trace_memory(&bytes);
	const struct trace_header *header = (const struct trace_header *)memory;
	uint64_t count = 0;

	for (uint32_t i = 0; i < header->section_count; i++) {
		const struct trace_pool *rows = (const struct trace_pool *)(memory + header->sections[i].offset);

		for (int row = 0; header->sections[i].kind == TRACE_SECTION_POOLS && row < TRACE_POOLS_MAX; row++)
			count += rows[row].offset == 0 ? rows[row].count : 0;
	}
	return count;
}

static void pools(void)
{
	struct trace_options how = options(1024);
	struct fathom_fault why = { 0 };
	struct trace_pool_spec spec = { .type = TRACE_OBJECT_JOB,
					.story_offset = offsetof(struct demo_job, story),
					.stride = sizeof(struct demo_job),
					.count = 64 };
	struct demo_job *first, *second, *third;

	how.pool_bytes = 2 * round_up(64 * sizeof(struct demo_job), 4096);
	must(trace_open(&how, &why) == 0);
	first = trace_pool_create(&spec);
	second = trace_pool_create(&spec);
	third = trace_pool_create(&spec);
	must(is_in_file(first) && is_in_file(second) && !is_in_file(third));
	must(first[0].story.trace.id == 0 && first[63].story.trace.id == 63);
	must(second[0].story.trace.id == 64 && third[0].story.trace.id == 128);
	first[5].data[0] = 1;
	trace_pool_destroy(first);
	first = trace_pool_create(&spec);
	must(is_in_file(first) && first[0].story.trace.id == 0 && first[5].data[0] == 0);
	must(not_in_file() == 64);
	trace_pool_destroy(second);
	trace_pool_destroy(third);
	must(not_in_file() == 0);
	trace_pool_destroy(first);
	trace_pool_destroy(NULL);
	trace_close();
}

static void pools_are_in_the_file_while_there_is_room(void **state)
{
	assert_int_equal(in_child(pools), 0);
}

static void pool_outlives_file(void)
{
	struct trace_pool_spec spec = {
		.type = TRACE_OBJECT_ORDER, .story_offset = 0, .stride = sizeof(struct demo_order), .count = 64
	};
	struct demo_order *before = trace_pool_create(&spec), *inside;

	begin(1024);
	inside = trace_pool_create(&spec);
	must(!is_in_file(before) && is_in_file(inside));
	must(inside[0].story.trace.id == 64);
	trace_pool_destroy(before);
	trace_close();
	/* removed with the file; a second destroy has no effect */
	trace_pool_destroy(inside);
}

static void a_pool_may_be_older_than_the_file(void **state)
{
	assert_int_equal(in_child(pool_outlives_file), 0);
}

/* ---- moves ---- */

static void surplus_pools(void)
{
	enum { COUNT = TRACE_POOLS_MAX * 2 + 40 };
	static struct demo_order *orders[COUNT];
	struct trace_pool_spec spec = {
		.type = TRACE_OBJECT_ORDER, .story_offset = 0, .stride = sizeof(struct demo_order), .count = 1
	};

	begin(1024);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < COUNT; i++) {
			orders[i] = trace_pool_create(&spec);
			must(orders[i]->story.trace.type == TRACE_OBJECT_ORDER);
			must(i == 0 || orders[i]->story.trace.id != orders[i - 1]->story.trace.id);
		}
		must(!is_in_file(orders[COUNT - 1]));
		must(not_in_file() >= COUNT - (TRACE_POOLS_MAX - 1));
		for (int i = 0; i < COUNT; i++)
			trace_pool_destroy(orders[i]);
		must(not_in_file() == 0);
	}
	trace_close();
}

static void pools_over_the_tables_limit_work(void **state)
{
	assert_int_equal(in_child(surplus_pools), 0);
}

static void foreign_strings(void)
{
	char text[128];
	uint32_t last_id = 0;

	begin(1024);
	for (int i = 0; i < 8000; i++) {
		snprintf(text, sizeof(text), "a name that some host gave itself, and then another one, number %d", i);
		last_id = trace_intern_foreign(text)->id;
		must(i > 0 || trace_intern_foreign(text) == trace_intern(text));
	}
	must(last_id == trace_intern("(too many names)")->id);
	/* strings of the engine still have room */
	must(trace_intern("(strings full)")->id != trace_intern("a string of the engine's own")->id);
	trace_close();
}

static void foreign_strings_leave_room_for_our_own(void **state)
{
	assert_int_equal(in_child(foreign_strings), 0);
}

static void fail_with_the_lock(void)
{
	uint16_t owner;

	if (!freopen("/dev/null", "w", stderr))
		_exit(3);
	begin(1024);
	owner = trace_owner_create(TRACE_OWNER_SESSION, 1, "one");
	trace_owner_destroy(owner, 2);
	alarm(5);
	trace_owner_destroy(owner, 3);
}

static void a_failed_must_inside_the_trace_aborts(void **state)
{
	assert_int_equal(in_child(fail_with_the_lock), 128 + SIGABRT);
}

static void illegal_move(void)
{
	struct demo_thing thing = { 0 };

	if (!freopen("/dev/null", "w", stderr))
		_exit(3);
	begin(1024);
	trace_object_init(&thing.trace, TRACE_OBJECT_THING);
	thing_state_move(2, &thing, THING_DOWN);
}

static void an_illegal_move_aborts(void **state)
{
	assert_int_equal(in_child(illegal_move), 128 + SIGABRT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_is_removed_only_if_nothing_was_recorded),
		cmocka_unit_test(without_a_trace_file_all_calls_are_safe),
		cmocka_unit_test(files_of_ended_processes_are_pruned),
		cmocka_unit_test(files_of_ended_processes_are_removed_only_if_less_than_a_quarter_fits),
		cmocka_unit_test(invalid_options_are_refused_with_a_reason),
		cmocka_unit_test(a_small_file_system_shrinks_the_rings),
		cmocka_unit_test(masks_select_groups_and_points),
		cmocka_unit_test(events_of_unregistered_threads_are_counted),
		cmocka_unit_test(strings_that_do_not_fit_share_one_id),
		cmocka_unit_test(pools_are_in_the_file_while_there_is_room),
		cmocka_unit_test(a_pool_may_be_older_than_the_file),
		cmocka_unit_test(pools_over_the_tables_limit_work),
		cmocka_unit_test(foreign_strings_leave_room_for_our_own),
		cmocka_unit_test(a_failed_must_inside_the_trace_aborts),
		cmocka_unit_test(an_illegal_move_aborts),
	};

	trace_schema_set(&fathom_schema); /* some cases query groups without a file */
	return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
