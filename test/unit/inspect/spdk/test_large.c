/* SPDX-License-Identifier: BSD-2-Clause */
/* Files larger than the reader's memory. */
#include "rig.h"

#include <limits.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inspect/spdk/internal.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { MEMORY_KIB_MAX = INT_MAX }; /* sanitizers use most of the memory */
#else
enum { MEMORY_KIB_MAX = 64 << 10 };
#endif
enum { CORES = 2 };

/* The peak memory of the process since exec. 0: it has ended. */
static uint64_t memory_kib(pid_t pid)
{
	unsigned long kib = 0;
	char path[64], line[256];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "r");
	while (file && fgets(line, sizeof(line), file) && sscanf(line, "VmHWM: %lu", &kib) != 1)
		;
	if (file)
		fclose(file);
	return kib;
}

/* Run `fathom trace show -f path`. Return its number of lines and its peak memory. */
static uint64_t show(const char *path, uint64_t *kib_ret)
{
	const char *fathom = getenv("FATHOM");
	uint64_t lines = 0;
	char text[1 << 16];
	int fds[2], status;
	ssize_t got;
	pid_t pid;

	*kib_ret = 0;
	assert_non_null(fathom);
	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		dup2(fds[1], STDOUT_FILENO);
		close(fds[0]);
		close(fds[1]);
		execl(fathom, fathom, "trace", "show", "-f", path, (char *)NULL);
		_exit(127);
	}
	close(fds[1]);
	/* if there is output, the process has run exec, and still runs except after the last read */
	while ((got = read(fds[0], text, sizeof(text))) > 0) {
		*kib_ret = max_u64(*kib_ret, memory_kib(pid));
		for (ssize_t i = 0; i < got; i++)
			lines += text[i] == '\n';
	}
	close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	return lines;
}

/* 64 MiB of entries, two for each event. A reader with all events in memory uses 170 MiB. */
static void a_large_file_is_shown_with_little_memory(void **state)
{
	enum { ENTRIES = 1 << 20, EVENTS = CORES * ENTRIES / 2, OBJECTS = 5000, AROUND_MAX = 20 };
	char path[] = "/var/tmp/fathom-spdk-XXXXXX";
	struct spdk_file file;
	uint64_t lines, kib;
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	rig_file(&file, CORES, ENTRIES);
	for (uint64_t i = 0; i < EVENTS; i++) {
		uint64_t round = i / CORES;

		rig_record(&file, i % CORES, 1000 + 10 * i, round % 2 ? IO_DONE : IO_START, 1 + round / 2 % OBJECTS, i);
	}
	assert_int_equal(*spdk_file_next(&file, 0), ENTRIES);
	for (size_t done = 0; done < file.size;) {
		ssize_t count = write(fd, file.bytes + done, file.size - done);

		assert_true(count > 0);
		done += (size_t)count;
	}
	close(fd);
	spdk_file_free(&file);
	lines = show(path, &kib);
	unlink(path);
	print_message("# %lu KiB\n", (unsigned long)kib);
	assert_in_range(lines, EVENTS, EVENTS + AROUND_MAX);
	assert_in_range(kib, 1, MEMORY_KIB_MAX - 1);
}

static int by_tick(const void *left, const void *right)
{
	const struct spdk_file_event *a = left, *b = right;

	if (a->tick != b->tick)
		return a->tick < b->tick ? -1 : 1;
	return a->values[0].number < b->values[0].number ? -1 : a->values[0].number > b->values[0].number;
}

/*
 * In one ring ticks are random, in the other they fall now and then, as when a tick was read before another event was
 * recorded. The order must be by tick, ring and place. `n` counts in that order.
 */
static void events_of_a_clock_that_jumps_are_sorted(void **state)
{
	enum { ENTRIES = 1 << 18, EVENTS = 200000 };
	struct spdk_file_event *expected = calloc(CORES * EVENTS, sizeof(*expected));
	struct reader_counts counts;
	struct reader_events *events;
	struct reader_event event;
	struct reader *reader;
	struct spdk_file file;
	uint64_t random = 1, at = 0;
	char path[256];

	assert_non_null(expected);
	rig_file(&file, CORES, ENTRIES);
	for (uint32_t i = 0; i < CORES * EVENTS; i++) {
		uint64_t tick;

		random = random * 6364136223846793005ull + 1442695040888963407ull;
		tick = i < EVENTS ? 1 + (random >> 40) % EVENTS : 1000 + i - EVENTS - (random >> 40) % 200;
		expected[i] = rig_event(tick, PLAIN, 0, i);
		spdk_file_record(&file, i / EVENTS, &expected[i]);
	}
	qsort(expected, CORES * EVENTS, sizeof(*expected), by_tick);
	reader = rig_open(&file, path);
	spdk_file_free(&file);
	assert_int_equal(reader_events(reader, &events), 0);
	for (; reader_event_next(events, &event); at++) {
		assert_in_range(at, 0, CORES * EVENTS - 1);
		assert_int_equal(event.tick, expected[at].tick);
		assert_int_equal(rig_arg(&event, "n"), expected[at].values[0].number);
	}
	assert_int_equal(at, CORES * EVENTS);
	reader_events_counts(events, &counts);
	assert_int_equal(counts.recorded, CORES * EVENTS);
	assert_int_equal(counts.torn + counts.missing + counts.orphans + counts.unknown, 0);
	reader_events_free(events);
	reader_close(reader);
	free(expected);
}

static void objects_over_the_limit_are_reported_and_not_confused(void **state)
{
	enum { MORE = 10, STORIES_MAX = 1 << 16 };
	struct reader_walk walk = { 0 };
	struct reader_events *events;
	struct reader_event event;
	struct reader_story story;
	struct reader *reader;
	struct spdk_file file;
	uint64_t at = 0, stories = 0;
	char path[256];

	rig_file(&file, 1, 2 * OBJECTS_MAX);
	rig_record(&file, 0, 1, REQ_NEW, 1, 0);
	rig_record(&file, 0, 2, REQ_DONE, 1, 0);
	for (uint64_t i = 1; i <= OBJECTS_MAX + MORE; i++)
		rig_record(&file, 0, 2 + i, REQ_NEW, i, 0);
	reader = rig_open(&file, path);
	spdk_file_free(&file);
	assert_non_null(reader_info(reader)->problem);
	assert_non_null(strstr(reader_info(reader)->problem, "524288 objects"));
	assert_int_equal(reader_events(reader, &events), 0);
	for (; reader_event_next(events, &event); at++) {
		if (at >= 2 + OBJECTS_MAX)
			assert_int_equal(event.object_id, UINT32_MAX);
		else if (at >= 2)
			assert_int_equal(event.object_id, at - 1);
	}
	assert_int_equal(at, 2 + OBJECTS_MAX + MORE);
	reader_events_free(events);
	while (reader_story_next(reader, &walk, &story))
		assert_int_equal(story.id, ++stories);
	assert_int_equal(stories, STORIES_MAX);
	reader_close(reader);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_large_file_is_shown_with_little_memory),
		cmocka_unit_test(events_of_a_clock_that_jumps_are_sorted),
		cmocka_unit_test(objects_over_the_limit_are_reported_and_not_confused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
