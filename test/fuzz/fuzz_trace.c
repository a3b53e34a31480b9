/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_trace - any bytes as a Fathom trace file: plain, compressed, or in a core file.
 *
 * Invariants: the file is refused with a reason, or all its content is read: events, counts, stories, lives, exemplars,
 * threads, owners and times, in text and JSON, without access outside of the file, and in finite time. Built by clang
 * -fsanitize=fuzzer it fuzzes. Built by gcc, or with -DFUZZ_REPLAY, it runs the given files, and with `--seeds DIR` it
 * writes the seeds.
 */
#include <elf.h>
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

static const char schema[] =
	"{\"schema\":1,\"groups\":[{\"name\":\"demo\",\"text\":\"\"}],\"enums\":{\"status\":{\"0\":\"OK\",\"1\":\"BAD\"}},"
	"\"objects\":[{\"id\":1,\"name\":\"order\",\"prefix\":\"r\",\"machine\":\"order_state\",\"story_args\":"
	"[{\"name\":\"length\",\"type\":\"u32\",\"slot\":0,\"unit\":\"bytes\"}]}],"
	"\"owners\":[{\"id\":1,\"name\":\"session\",\"prefix\":\"q\"}],"
	"\"machines\":[{\"name\":\"order_state\",\"object\":\"order\",\"states\":[{\"name\":\"FREE\",\"moves\":[\"BUSY\"]},"
	"{\"name\":\"BUSY\",\"moves\":[\"FREE\"]}]}],"
	"\"points\":[{\"id\":1,\"name\":\"order_state\",\"group\":\"demo\",\"ring\":\"io\",\"object\":\"order\","
	"\"machine\":\"order_state\",\"args\":[{\"name\":\"from\",\"type\":\"u8\",\"slot\":0},"
	"{\"name\":\"to\",\"type\":\"u8\",\"slot\":1}]},"
	"{\"id\":2,\"name\":\"long_one\",\"group\":\"demo\",\"ring\":\"rare\",\"args\":[{\"name\":\"a\",\"type\":\"u64\","
	"\"slot\":0},"
	"{\"name\":\"b\",\"type\":\"str\",\"slot\":2},{\"name\":\"c\",\"type\":\"i64\",\"slot\":3},"
	"{\"name\":\"d\",\"type\":\"u32\",\"slot\":5,\"enum\":\"status\"},{\"name\":\"e\",\"type\":\"ref\",\"slot\":6}]}]}";

enum { RING_ENTRIES = 16, ORDERS = 2, EXEMPLARS = 3 };

/* A small file with all kinds of content. */
struct seed {
	struct trace_header header;
	struct trace_process process;
	struct trace_clocks clocks;
	struct trace_mask_words masks;
	char schema[(sizeof(schema) + 7) / 8 * 8];
	struct trace_strings strings;
	char texts[56];
	struct trace_owner owners[2];
	struct trace_thread threads[1];
	struct {
		struct trace_ring ring;
		struct trace_record records[RING_ENTRIES];
	} rings[TRACE_RINGS_PER_THREAD];
	struct trace_pool pools[1];
	struct trace_story stories[ORDERS];
	struct trace_lives lives[1];
	struct {
		struct trace_exemplars head;
		struct trace_exemplar rows[EXEMPLARS];
	} exemplars;
};

static struct seed seed;

#define SECTION(kind_, member, stride_)                                                                                    \
	{                                                                                                                  \
		.kind = TRACE_SECTION_##kind_, .stride = (stride_), .offset = offsetof(struct seed, member),               \
		.bytes = sizeof(seed.member), .count = sizeof(seed.member) / (stride_)                                     \
	}

static void record_events(void)
{
	struct trace_record *io = seed.rings[0].records, *rare = seed.rings[1].records;

	for (uint32_t i = 0; i < RING_ENTRIES; i++)
		io[i] = (struct trace_record){ .tick = 2000 + 10 * i,
					       .seq = i,
					       .point = 1,
					       .owner = 1,
					       .object = i / 2 % ORDERS,
					       .args = { i % 2, (i + 1) % 2, 0 } };
	rare[0] = (struct trace_record){ .tick = 2500, .seq = 20, .point = 2, .object = UINT32_MAX, .args = { 1, 2, 8 } };
	rare[1] = (struct trace_record){ .tick = 2500, .seq = 20, .point = TRACE_POINT_PART, .owner = 1 };
	seed.rings[0].ring = (struct trace_ring){ .head = RING_ENTRIES, .entry_count = RING_ENTRIES };
	seed.rings[1].ring = (struct trace_ring){ .head = 2, .entry_count = RING_ENTRIES, .kind = 1 };
}

static void keep_lives(void)
{
	for (uint32_t i = 0; i < ORDERS; i++)
		seed.stories[i] = (struct trace_story){
			.trace = { i, 1, 1 }, .state = (uint8_t)i, .path = 2, .life = 5, .ticks = { 2000, 2000 }
		};
	seed.lives[0].object_type = 1;
	seed.lives[0].last.alike = 2;
	seed.lives[0].last.path = 2;
	seed.lives[0].last.end = 2200;
	seed.lives[0].stages[0].ticks = seed.lives[0].stages[1].ticks = 100;
	seed.lives[0].stages[0].buckets[20] = seed.lives[0].stages[1].buckets[20] = 1;
	seed.exemplars.head = (struct trace_exemplars){
		.epoch_ticks = 1000, .epoch_count = 1, .epoch_rows = 1, .slow_rows = 1, .failed_rows = 1, .failed_head = 1
	};
	for (uint32_t i = 0; i < EXEMPLARS; i++) {
		struct trace_exemplar *row = &seed.exemplars.rows[i];

		*row = (struct trace_exemplar){ .version = 2, .why = (uint16_t)(1 + i / 2), .total_ticks = 100 };
		row->begin_tick = 2000;
		row->end_tick = 2100;
		row->story_count = row->record_count = 1;
		row->stories[0] = seed.stories[0];
		row->records[0] = seed.rings[0].records[0];
	}
}

static void make_seed(void)
{
	const struct trace_section sections[] = {
		SECTION(PROCESS, process, sizeof(seed.process)),
		SECTION(CLOCKS, clocks, sizeof(seed.clocks)),
		SECTION(MASKS, masks, sizeof(seed.masks)),
		SECTION(SCHEMA, schema, 1),
		SECTION(STRINGS, strings, 1),
		SECTION(OWNERS, owners, sizeof(seed.owners[0])),
		SECTION(THREADS, threads, sizeof(seed.threads[0])),
		SECTION(RINGS, rings, 1),
		SECTION(POOLS, pools, sizeof(seed.pools[0])),
		SECTION(POOL_MEMORY, stories, 1),
		SECTION(LIVES, lives, 1),
		SECTION(EXEMPLARS, exemplars, 1),
	};

	memcpy(seed.header.magic, TRACE_MAGIC, sizeof(seed.header.magic));
	seed.header.version = TRACE_VERSION;
	seed.header.header_bytes = sizeof(seed.header);
	seed.header.file_bytes = sizeof(seed);
	seed.header.section_count = ARRAY_COUNT(sections);
	memcpy(seed.header.sections, sections, sizeof(sections));
	seed.header.sections[4].bytes += sizeof(seed.texts);
	seed.process = (struct trace_process){
		.name = "seed", .host = "here", .pid = 1, .start_tick = 1000, .tick_rate = NS_PER_SEC
	};
	seed.clocks.count = 2;
	seed.clocks.pairs[0] = (struct trace_clock_pair){ 1000, NS_PER_SEC, 1000 };
	seed.clocks.pairs[1] = (struct trace_clock_pair){ 3000, NS_PER_SEC + 2000, 3000 };
	memcpy(seed.schema, schema, sizeof(schema) - 1);
	memset(seed.schema + sizeof(schema) - 1, ' ', sizeof(seed.schema) - sizeof(schema) + 1);
	seed.strings.used = 8 + 6;
	memcpy(seed.texts, "hello", 6);
	seed.owners[1] = (struct trace_owner){ .tick_from = 1000, .type = 1, .version = 2, .text = "127.0.0.1 qid:1" };
	seed.threads[0] = (struct trace_thread){
		.name = "reactor_0",
		.state = 1,
		.ring_offset = { offsetof(struct seed, rings[0]), offsetof(struct seed, rings[1]) },
		.lives_offset = offsetof(struct seed, lives),
		.lives_count = 1,
		.exemplars_offset = offsetof(struct seed, exemplars),
		.running_name = 8,
		.running_since = 2000,
	};
	seed.pools[0] = (struct trace_pool){ .object_type = 1,
					     .offset = offsetof(struct seed, stories),
					     .stride = sizeof(seed.stories[0]),
					     .count = ORDERS };
	record_events();
	keep_lives();
}

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
	static struct {
		Elf64_Ehdr elf;
		Elf64_Phdr parts[1];
		struct seed seed;
	} core;
	size_t bytes;

	make_seed();
	bytes = ZSTD_compress(packed, sizeof(packed), &seed, sizeof(seed), 1);
	must(!ZSTD_isError(bytes));
	memcpy(core.elf.e_ident, ELFMAG, SELFMAG);
	core.elf.e_ident[EI_CLASS] = ELFCLASS64;
	core.elf.e_type = ET_CORE;
	core.elf.e_phoff = sizeof(core.elf);
	core.elf.e_phentsize = sizeof(core.parts[0]);
	core.elf.e_phnum = 1;
	core.parts[0].p_type = PT_LOAD;
	core.parts[0].p_offset = sizeof(core.elf) + sizeof(core.parts);
	core.parts[0].p_filesz = sizeof(seed);
	core.seed = seed;
	return write_seed(directory, "seed-plain", &seed, sizeof(seed)) +
	       write_seed(directory, "seed-text", &seed, sizeof(seed) - 1) +
	       write_seed(directory, "seed-zstd", packed, bytes) + write_seed(directory, "seed-core", &core, sizeof(core));
}

int main(int argc, char **argv)
{
	static uint8_t data[FILE_BYTES_MAX];

	return replay(argc, argv, write_seeds, data, sizeof(data));
}

#endif
