/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_trace - any bytes as a Fathom trace file: plain, compressed, or in a core file.
 *
 * Invariants: the file is refused with a reason, or all its content is read: events, counts, stories, lives, exemplars,
 * threads, owners and times, in text and JSON, without access outside of the file, and in finite time. Built by clang
 * -fsanitize=fuzzer it fuzzes. Built by gcc, or with -DFUZZ_REPLAY, it runs the given files, and with `--seeds DIR` it
 * writes the seeds.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zstd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "inspect/trace/filter.h"
#include "inspect/trace/slowest.h"
#include "inspect/trace/summary.h"
#include "inspect/trace/trace_file.h"

enum { FILE_BYTES_MAX = 1 << 20, UNPACKED_BYTES_MAX = 16 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_events(struct reader *reader, struct reader_printer *printer)
{
	const struct reader_slowest_want want = { .count_max = 10 };
	struct reader_slowest *slowest;
	struct reader_stages *stages;
	struct reader_events *events;
	struct reader_counts counts;
	struct reader_event event;
	uint64_t count = 0;

	if (reader_events(reader, &events) != 0)
		return;
	must(reader_slowest_create(reader, &want, &slowest) == 0);
	must(reader_stages_create(reader, &stages) == 0);
	while (reader_event_next(events, &event)) {
		must(!event.point || event.point->id == event.point_id);
		must(event.thread < reader_info(reader)->thread_count);
		count++;
		reader_print_event(printer, &event);
		reader_stages_event(stages, &event);
		reader_slowest_event(slowest, &event);
	}
	reader_events_counts(events, &counts);
	must(counts.events == count);
	reader_print_header(printer, &counts);
	reader_print_stages(printer, stages);
	reader_print_end(printer, &counts);
	reader_slowest_finish(slowest);
	for (uint32_t i = 0; i < reader_slowest_count(slowest); i++) {
		const struct reader_exemplar *const *members;
		uint32_t count = reader_slowest_group(slowest, i, &members);

		reader_print_exemplars(printer, i + 1, members, count, true);
	}
	reader_slowest_destroy(slowest);
	reader_stages_free(stages);
	reader_events_free(events);
}

static void read_rest(struct reader *reader, struct reader_printer *printer)
{
	static struct reader_point_counts counts;
	static struct reader_lives lives;
	struct reader_walk walk = { 0 };
	struct reader_story story;
	uint64_t now = reader_now(reader);

	while (reader_story_next(reader, &walk, &story))
		reader_print_story(printer, &story, now, story.parent, story.parent_id);
	for (uint32_t i = 0; i < reader_info(reader)->thread_count; i++) {
		struct reader_thread thread;

		if (reader_thread(reader, i, &thread))
			reader_print_thread(printer, &thread, now);
	}
	for (uint32_t i = 0; i < reader_info(reader)->point_count; i++) {
		const struct reader_object *object = reader_point_at(reader, i)->object;

		if (object && reader_lives(reader, object, READER_ALL_THREADS, &lives) && object->machine)
			reader_print_lives(printer, &lives, 1);
	}
	must(reader_count_points(reader, &counts) == 0);
	reader_print_point_counts(printer, &counts);
}

static void filter(struct reader *reader)
{
	static const struct reader_filter_spec specs[] = { { .since = "1ms", .until = "-1ms" },
							   { .since = "12:30:00" },
							   { .object = "r1" },
							   { .where = "latency_us > 5" } };

	for (size_t i = 0; i < ARRAY_COUNT(specs); i++) {
		struct reader_filter *made;
		struct fathom_fault why = { 0 };

		if (reader_filter_create(reader, &specs[i], &made, &why) == 0)
			reader_filter_destroy(made);
		else
			must(why.text[0]);
	}
}

static void read_all(const char *path, enum reader_print_style style)
{
	struct reader_printer *printer;
	struct reader *reader;
	struct fathom_fault why = { 0 };
	static FILE *null;

	if (!null)
		null = fopen("/dev/null", "w");
	must(null);
	if (reader_open(path, &reader, &why) != 0) {
		must(why.text[0]);
		return;
	}
	must(reader_printer_create(reader, null, style, false, &printer) == 0);
	read_events(reader, printer);
	read_rest(reader, printer);
	filter(reader);
	must(reader_printer_destroy(printer) == 0);
	reader_close(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct rlimit limit = { .rlim_cur = UNPACKED_BYTES_MAX, .rlim_max = UNPACKED_BYTES_MAX };
	static bool limited;
	char path[64];
	int fd;

	if (!limited) {
		/* a few compressed bytes may unpack to a huge file */
		signal(SIGXFSZ, SIG_IGN);
		must(setrlimit(RLIMIT_FSIZE, &limit) == 0);
		must(setenv("TMPDIR", "/dev/shm", 1) == 0);
		limited = true;
	}
	if (size > FILE_BYTES_MAX)
		return 0;
	fd = memfd_create("fuzz_trace", MFD_CLOEXEC);
	must(fd >= 0);
	must(write(fd, data, size) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	read_all(path, size % 2 ? READER_PRINT_TEXT : READER_PRINT_JSON);
	close(fd);
	return 0;
}

#if !defined(__clang__) || defined(FUZZ_REPLAY)

#include "replay.h"
#include "trace_seed.h"

static int write_seed(const char *directory, const char *name, const void *data, size_t bytes)
{
	char path[512];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	file = fopen(path, "w");
	if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file)) {
		perror(path);
		return 1;
	}
	return 0;
}

static int write_seeds(const char *directory)
{
	static uint8_t packed[sizeof(seed) + 4096];
	size_t bytes;

	make_seed();
	make_seed_core();
	bytes = ZSTD_compress(packed, sizeof(packed), &seed, sizeof(seed), 1);
	must(!ZSTD_isError(bytes));
	return write_seed(directory, "seed-plain", &seed, sizeof(seed)) +
	       write_seed(directory, "seed-text", &seed, sizeof(seed) - 1) +
	       write_seed(directory, "seed-zstd", packed, bytes) +
	       write_seed(directory, "seed-core", &seed_core, sizeof(seed_core));
}

int main(int argc, char **argv)
{
	static uint8_t data[FILE_BYTES_MAX];

	return replay(argc, argv, write_seeds, data, sizeof(data));
}

#endif
