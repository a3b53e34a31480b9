/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * trace_seed - a small trace file with all kinds of content, also as the memory in a core file: for seeds of fuzz targets
 * and for tests. TRACE_SEED_OBJECT and TRACE_SEED_POINT name the type of its requests and one of its points.
 */
#ifndef TEST_FUZZ_TRACE_SEED_H
#define TEST_FUZZ_TRACE_SEED_H

#include <elf.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "fathom/trace/format.h"

#ifndef TRACE_SEED_OBJECT
#define TRACE_SEED_OBJECT "order"
#define TRACE_SEED_POINT "long_one"
#endif

static const char schema[] =
	"{\"schema\":1,\"groups\":[{\"name\":\"demo\",\"text\":\"\"}],\"enums\":{\"status\":{\"0\":\"OK\",\"1\":\"BAD\"}},"
	"\"objects\":[{\"id\":1,\"name\":\"" TRACE_SEED_OBJECT
	"\",\"prefix\":\"r\",\"machine\":\"order_state\",\"story_args\":"
	"[{\"name\":\"length\",\"type\":\"u32\",\"slot\":0,\"unit\":\"bytes\"}]}],"
	"\"owners\":[{\"id\":1,\"name\":\"session\",\"prefix\":\"q\"}],"
	"\"machines\":[{\"name\":\"order_state\",\"object\":\"" TRACE_SEED_OBJECT
	"\",\"states\":[{\"name\":\"FREE\",\"moves\":[\"BUSY\"]},"
	"{\"name\":\"BUSY\",\"moves\":[\"FREE\"]}]}],"
	"\"points\":[{\"id\":1,\"name\":\"order_state\",\"group\":\"demo\",\"ring\":\"io\",\"object\":\"" TRACE_SEED_OBJECT
	"\","
	"\"machine\":\"order_state\",\"args\":[{\"name\":\"from\",\"type\":\"u8\",\"slot\":0},"
	"{\"name\":\"to\",\"type\":\"u8\",\"slot\":1}]},"
	"{\"id\":2,\"name\":\"" TRACE_SEED_POINT
	"\",\"group\":\"demo\",\"ring\":\"rare\",\"args\":[{\"name\":\"a\",\"type\":\"u64\","
	"\"slot\":0},"
	"{\"name\":\"b\",\"type\":\"str\",\"slot\":2},{\"name\":\"c\",\"type\":\"i64\",\"slot\":3},"
	"{\"name\":\"d\",\"type\":\"u32\",\"slot\":5,\"enum\":\"status\"},{\"name\":\"e\",\"type\":\"ref\",\"slot\":6}]}]}";

enum { RING_ENTRIES = 16, ORDERS = 2, EXEMPLARS = 3 };

#ifdef __clang__
/* gcc has no such warning: a ring ends with its records, which follow here */
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wgnu-variable-sized-type-not-at-end"
#endif
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

#ifdef __clang__
#pragma clang diagnostic pop
#endif

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

/* The core of a process whose only mapping is the trace file. */
static struct {
	Elf64_Ehdr elf;
	Elf64_Phdr parts[1];
	struct seed seed;
} seed_core;

/* After make_seed(). */
static void make_seed_core(void)
{
	memcpy(seed_core.elf.e_ident, ELFMAG, SELFMAG);
	seed_core.elf.e_ident[EI_CLASS] = ELFCLASS64;
	seed_core.elf.e_ident[EI_DATA] = ELFDATA2LSB;
	seed_core.elf.e_type = ET_CORE;
	seed_core.elf.e_machine = EM_X86_64;
	seed_core.elf.e_phoff = sizeof(seed_core.elf);
	seed_core.elf.e_phentsize = sizeof(seed_core.parts[0]);
	seed_core.elf.e_phnum = 1;
	seed_core.parts[0] = (Elf64_Phdr){ .p_type = PT_LOAD,
					   .p_flags = PF_R | PF_W,
					   .p_vaddr = 0x10000,
					   .p_offset = sizeof(seed_core.elf) + sizeof(seed_core.parts),
					   .p_filesz = sizeof(seed),
					   .p_memsz = sizeof(seed) };
	seed_core.seed = seed;
}

#endif
