/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_spdk - any bytes as a trace file of an SPDK target.
 *
 * Invariants: the file is refused with a reason, or translated into an image that can be read to its end: each event has a
 * point, events are in the order of their ticks, and their number equals the counts. Built by clang -fsanitize=fuzzer it
 * fuzzes. Built by gcc, or with -DFUZZ_REPLAY, it runs the given files, and with `--seeds DIR` it writes the seeds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../unit/inspect/spdk/write_spdk.h"
#include "base/bits.h"
#include "inspect/spdk/spdk_file.h"
#include "inspect/trace/trace_file.h"

enum { FILE_BYTES_MAX = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_events(struct reader *reader, struct reader_printer *printer)
{
	struct reader_events *events;
	struct reader_counts counts;
	struct reader_event event;
	uint64_t tick = 0, count = 0;

	if (reader_events(reader, &events) != 0)
		return;
	while (reader_event_next(events, &event)) {
		must(event.tick >= tick);
		must(event.point);
		tick = event.tick;
		count++;
		reader_print_event(printer, &event);
	}
	reader_events_counts(events, &counts);
	must(counts.events == count);
	reader_print_header(printer, &counts);
	reader_print_end(printer, &counts);
	reader_events_free(events);
}

static void read_all(const char *path)
{
	struct reader_printer *printer;
	struct reader_walk walk = { 0 };
	struct reader_story story;
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
	must(reader_printer_create(reader, null, READER_PRINT_TEXT, false, &printer) == 0);
	read_events(reader, printer);
	while (reader_story_next(reader, &walk, &story))
		reader_print_story(printer, &story, reader_now(reader), story.parent, story.parent_id);
	for (uint32_t i = 0; i < reader_info(reader)->thread_count; i++) {
		struct reader_thread thread;

		if (reader_thread(reader, i, &thread))
			reader_print_thread(printer, &thread, 0);
	}
	must(reader_printer_destroy(printer) == 0);
	reader_close(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[64];
	int fd;

	if (size < SPDK_HEADER_BYTES || size > FILE_BYTES_MAX || !spdk_recognise(data))
		return 0;
	fd = memfd_create("fuzz_spdk", MFD_CLOEXEC);
	must(fd >= 0);
	must(write(fd, data, size) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	read_all(path);
	close(fd);
	return 0;
}

#if !defined(__clang__) || defined(FUZZ_REPLAY)

#include "replay.h"

enum { REQUEST = 128, IO = 2, SEEDS = 4 };

/* Small files with all kinds of content. */
static void make_seed(struct spdk_file *file, uint32_t seed)
{
	static const struct spdk_file_arg args[] = {
		{ "ctx", 1, 8 }, { "text", 2, 30 }, { "n", 0, 4 }, { "mask", 1, 4 }, { NULL, 0, 0 }
	};

	spdk_file_init(file, NULL, 1 + seed % 2, 16, 5, 3);
	spdk_file_tpoint(file, 1, "REQ_NEW", REQUEST, true, args);
	spdk_file_tpoint(file, 2, "REQ_DONE", REQUEST, false, NULL);
	spdk_file_tpoint(file, 3, "IO_START", IO, true, args);
	spdk_file_tpoint(file, 4, "IO_DONE", IO, false, args);
	spdk_file_relation(file, 3, REQUEST, 0);
	spdk_file_relation(file, 4, REQUEST, 0);
	spdk_file_object_type(file, REQUEST, 'r');
	spdk_file_owner_type(file, 48, 't');
	spdk_file_owner(file, 1, 5, 48, "owner");
	for (uint64_t i = 0; i < 4 + 10 * seed; i++) {
		struct spdk_file_event event = {
			.tick = 10 + i / 2,
			.tpoint = (uint16_t)(1 + i % 4),
			.owner = (uint16_t)(i % 3),
			.size = (uint32_t)(seed * i),
			.object = 0x10 + i % 3,
			.values = { { 0x10 + i % 3, NULL }, { 0, "some text" }, { i, NULL }, { i, NULL } },
		};

		spdk_file_record(file, (uint32_t)(i % file->cores), &event);
	}
}

static int write_seeds(const char *directory)
{
	for (uint32_t i = 0; i < SEEDS; i++) {
		struct spdk_file seed;
		char path[512];
		FILE *file;

		make_seed(&seed, i);
		snprintf(path, sizeof(path), "%s/seed-%u", directory, i);
		file = fopen(path, "w");
		if (!file || fwrite(seed.bytes, 1, seed.size, file) != seed.size || fclose(file)) {
			perror(path);
			return 1;
		}
		spdk_file_free(&seed);
	}
	return 0;
}

int main(int argc, char **argv)
{
	static uint8_t data[FILE_BYTES_MAX];

	return replay(argc, argv, write_seeds, data, sizeof(data));
}

#endif
