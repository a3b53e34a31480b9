/* SPDX-License-Identifier: BSD-2-Clause */
/* crash_report - writes the report of a crash, in the signal handler. */
#include "base/observe/trace/crash_report.h"

#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/observe/trace/internal.h"

enum { LINE_BYTES = 512, FRAME_JUMP_MAX = 1 << 20, FRAMES_MAX = 16384 };

/* ---- symbols of the program ---- */

static struct {
	const Elf64_Sym *rows; /* NULL: the program is stripped, or cannot be mapped */
	uint64_t count;
	const char *names;
	uint64_t name_bytes;
	uint64_t base;
} symbols;

static void find_table(const uint8_t *map, uint64_t bytes)
{
	const Elf64_Ehdr *elf = (const void *)map;
	const Elf64_Shdr *rows = (const void *)(map + elf->e_shoff);

	if (elf->e_shoff % 8 != 0 || elf->e_shentsize != sizeof(*rows) || elf->e_shoff > bytes ||
	    elf->e_shnum > (bytes - elf->e_shoff) / sizeof(*rows))
		return;
	for (uint32_t i = 0; i < elf->e_shnum; i++) {
		const Elf64_Shdr *names = rows[i].sh_link < elf->e_shnum ? &rows[rows[i].sh_link] : NULL;

		if (rows[i].sh_type != SHT_SYMTAB || !names || rows[i].sh_offset % 8 != 0 || rows[i].sh_offset > bytes ||
		    rows[i].sh_size > bytes - rows[i].sh_offset || names->sh_offset > bytes || names->sh_size == 0 ||
		    names->sh_size > bytes - names->sh_offset || map[names->sh_offset + names->sh_size - 1])
			continue;
		symbols.names = (const char *)map + names->sh_offset;
		symbols.name_bytes = names->sh_size;
		symbols.count = rows[i].sh_size / sizeof(*symbols.rows);
		symbols.rows = (const void *)(map + rows[i].sh_offset);
		return;
	}
}

void trace_crash_symbols_open(uint64_t base)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *map = MAP_FAILED;

	if (fd < 0)
		return;
	if (fstat(fd, &st) == 0 && st.st_size > (off_t)sizeof(Elf64_Ehdr))
		map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (map == MAP_FAILED)
		return;
	symbols.base = base;
	find_table(map, (uint64_t)st.st_size);
	if (!symbols.rows)
		munmap(map, (size_t)st.st_size);
}

/* The function with `address`, and the offset in it. NULL: not known. */
static const char *function_of(uint64_t address, uint64_t *offset_ret)
{
	const Elf64_Sym *best = NULL;
	uint64_t place = address - symbols.base;

	for (uint64_t i = 0; symbols.rows && i < symbols.count; i++) {
		const Elf64_Sym *row = &symbols.rows[i];

		if (ELF64_ST_TYPE(row->st_info) == STT_FUNC && row->st_value <= place &&
		    place - row->st_value < max_u64(row->st_size, 1) && row->st_name < symbols.name_bytes &&
		    (!best || row->st_value > best->st_value))
			best = row;
	}
	if (!best)
		return NULL;
	*offset_ret = place - best->st_value;
	return symbols.names + best->st_name;
}

/* ---- lines ---- */

static struct {
	char text[LINE_BYTES];
	size_t used;
	int fd; /* of the file; -1: none */
} line = { .fd = -1 };

static void put_text(const char *text)
{
	for (; *text && line.used < LINE_BYTES - 1; text++)
		line.text[line.used++] = (unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text;
}

static void put_digits(uint64_t number, unsigned int base, unsigned int width)
{
	char digits[24], *at = digits + sizeof(digits) - 1;

	*at = '\0';
	do {
		*--at = "0123456789abcdef"[number % base];
		number /= base;
	} while (number || (unsigned int)(digits + sizeof(digits) - 1 - at) < width);
	put_text(at);
}

static void put_number(int64_t number)
{
	if (number < 0)
		put_text("-");
	put_digits(number < 0 ? -(uint64_t)number : (uint64_t)number, 10, 1);
}

static void put_hex(uint64_t number)
{
	put_text("0x");
	put_digits(number, 16, 1);
}

/* Microseconds, with three digits behind the point. */
static void put_us(uint64_t ticks, uint64_t rate)
{
	uint64_t ns = rate ? (uint64_t)((unsigned __int128)ticks * NS_PER_SEC / rate) : 0;

	put_digits(ns / 1000, 10, 1);
	put_text(".");
	put_digits(ns % 1000, 10, 3);
	put_text(" us");
}

static void end_line(void)
{
	line.text[line.used] = '\0';
	log_crash_line(line.text);
	line.text[line.used++] = '\n';
	/* a failed write cannot be reported anywhere */
	if (line.fd >= 0)
		(void)!write(line.fd, line.text, line.used);
	line.used = 0;
}

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* "malloc_submit+0x1c (fathom-engine+0x4f00)" */
static void put_place(uint64_t address)
{
	struct trace_crash_module module;
	const char *name;
	uint64_t offset;

	if (!trace_crash_module_of(address, &module)) {
		put_hex(address);
		put_text(" (in no program or library)");
		return;
	}
	name = module.base == symbols.base ? function_of(address, &offset) : NULL;
	if (name) {
		put_text(name);
		put_text("+");
		put_hex(offset);
		put_text(" (");
	}
	put_text(last_part(module.path));
	put_text("+");
	put_hex(address - module.base);
	if (name)
		put_text(")");
}

/* ---- what happened ---- */

static void report_title(const struct trace_crash_cause *cause)
{
	const struct trace_process *process = trace_file.process;

	put_text("crash of process ");
	put_number(getpid());
	if (process) {
		put_text(", ");
		put_text(last_part(process->program));
		put_text(" ");
		put_text(process->version);
		put_text(", --name ");
		put_text(process->name);
	}
	end_line();
}

static void report_must(const struct trace_crash_cause *cause)
{
	const struct trace_frozen *frozen = trace_file.frozen;

	if (!frozen || frozen->why != TRACE_FROZEN_MUST || cause->signal != (int)frozen->signal)
		return;
	put_text("must(");
	put_text(frozen->text);
	put_text(") failed at ");
	put_text(frozen->place);
	end_line();
}

static void report_signal(const struct trace_crash_cause *cause)
{
	put_text(cause->signal_name);
	put_text(", code ");
	put_number(cause->code);
	if (cause->has_address) {
		put_text(", address ");
		put_hex(cause->address);
	}
	if (cause->sender) {
		put_text(", sent by process ");
		put_number(cause->sender);
	}
	put_text(", thread ");
	put_number(cause->tid);
	put_text(", in ");
	put_place(cause->instruction);
	end_line();
}

/* Copy memory that may be unreadable. */
static bool read_memory(uint64_t address, void *to, size_t bytes)
{
	struct iovec ours = { .iov_base = to, .iov_len = bytes },
		     theirs = { .iov_base = (void *)(uintptr_t)address, .iov_len = bytes };

	return process_vm_readv(getpid(), &ours, 1, &theirs, 1, 0) == (ssize_t)bytes;
}

static void put_frame(uint64_t address, uint32_t repeated)
{
	put_text("  ");
	put_place(address);
	if (repeated) {
		put_text(", called by itself ");
		put_number(repeated);
		put_text(" times or more");
	}
	end_line();
}

/* All of our code has frame pointers; a library without them ends the list. A function that calls itself is one line. */
static void report_frames(const struct trace_crash_cause *cause)
{
	uint64_t at = cause->frame_pointer, address = cause->instruction, link[2];
	uint32_t shown = 0, repeated = 0;

	put_text("backtrace:");
	end_line();
	for (int i = 0; i < FRAMES_MAX && shown < TRACE_CRASH_FRAMES; i++) {
		if (at % 8 != 0 || !read_memory(at, link, sizeof(link)) || !link[1])
			break;
		if (link[1] == address) {
			repeated++;
		} else {
			put_frame(address, repeated);
			shown++;
			repeated = 0;
			address = link[1];
		}
		if (link[0] <= at || link[0] - at > FRAME_JUMP_MAX)
			break;
		at = link[0];
	}
	put_frame(address, repeated);
}

/* ---- threads ---- */

static const char *string_of(uint32_t id)
{
	static const struct trace_section none;
	const struct trace_section *section = &none;
	const struct trace_strings *strings;

	for (uint32_t i = 0; i < trace_file.header->section_count && i < TRACE_SECTIONS_MAX; i++) {
		if (trace_file.header->sections[i].kind == TRACE_SECTION_STRINGS)
			section = &trace_file.header->sections[i];
	}
	strings = (const void *)(trace_file.memory + section->offset);
	return id >= sizeof(*strings) && id < section->bytes && id < strings->used ? (const char *)strings + id : "?";
}

static void report_threads(const struct trace_crash_cause *cause)
{
	uint64_t now = clock_ticks();
	char name[16] = "";
	bool found = false;

	put_text("threads:");
	end_line();
	for (uint32_t i = 0; i < trace_file.thread_count; i++) {
		const struct trace_thread *thread = &trace_file.threads[i];

		if (thread->state != TRACE_THREAD_LIVE)
			continue;
		put_text("  ");
		put_text(thread->name);
		put_text(", tid ");
		put_number(thread->tid);
		if (thread->running_name) {
			put_text(", runs ");
			put_text(string_of(thread->running_name));
			if (thread->running_thread) {
				put_text(" of ");
				put_text(string_of(thread->running_thread));
			}
			put_text(" for ");
			put_us(now > thread->running_since ? now - thread->running_since : 0,
			       trace_file.process->tick_rate);
		} else {
			put_text(", between two pollers, or asleep");
		}
		put_text(thread->tid == cause->tid ? " <- crashed" : "");
		found |= thread->tid == cause->tid;
		end_line();
	}
	if (found)
		return;
	/* it runs this handler */
	(void)prctl(PR_GET_NAME, name, 0, 0, 0);
	put_text("  ");
	put_text(name);
	put_text(", tid ");
	put_number(cause->tid);
	put_text(", is not in the trace <- crashed");
	end_line();
}

/* ---- records ---- */

/* The records of a ring that were not reported yet end in front of `at`. */
struct lane {
	const struct trace_ring *ring;
	uint64_t at, oldest;
};

static struct lane lanes[TRACE_THREADS_MAX * TRACE_RINGS_PER_THREAD];

static const struct trace_record *lane_record(const struct lane *lane)
{
	return &lane->ring->records[(lane->at - 1) & (lane->ring->entry_count - 1)];
}

/* Step to an event's first record. False: no more. */
static bool lane_settle(struct lane *lane)
{
	while (lane->at > lane->oldest && lane_record(lane)->point == TRACE_POINT_PART)
		lane->at--;
	return lane->at > lane->oldest;
}

static uint32_t find_lanes(void)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < trace_file.thread_count && i < TRACE_THREADS_MAX; i++) {
		for (int kind = 0; kind < TRACE_RINGS_PER_THREAD; kind++) {
			uint64_t offset = trace_file.threads[i].ring_offset[kind];
			struct lane *lane = &lanes[count];

			if (!offset)
				continue;
			lane->ring = (const void *)(trace_file.memory + offset);
			lane->at = __atomic_load_n(&lane->ring->head, __ATOMIC_ACQUIRE);
			/* other threads still write: records that they may overwrite meanwhile are left out */
			lane->oldest = lane->at > lane->ring->entry_count / 2 ? lane->at - lane->ring->entry_count / 2 : 0;
			count += lane_settle(lane);
		}
	}
	return count;
}

static void report_record(const struct lane *lane)
{
	const struct trace_schema *schema = trace_schema();
	const struct trace_record *record = lane_record(lane);
	uint64_t tick = record->tick & ~(uint64_t)TRACE_TICK_SHARED, start = trace_file.process->start_tick;
	uint32_t thread = lane->ring->thread;

	put_text("  ");
	put_us(tick > start ? tick - start : 0, trace_file.process->tick_rate);
	put_text(" ");
	put_text(thread < trace_file.thread_count ? trace_file.threads[thread].name : "?");
	put_text(" ");
	put_text(record->point && record->point <= schema->point_count ? schema->points[record->point - 1].name : "?");
	if (record->object != UINT32_MAX) {
		put_text(" object ");
		put_number(record->object);
	}
	for (int i = 0; i < TRACE_ARG_SLOTS_HEAD; i++) {
		put_text(i ? " " : " args ");
		put_hex(record->args[i]);
	}
	end_line();
}

/* The newest first. */
static void report_records(const struct trace_crash_cause *cause)
{
	uint32_t count;

	if (!trace_file.memory)
		return;
	put_text("last records, the newest first:");
	end_line();
	count = find_lanes();
	for (int i = 0; i < TRACE_CRASH_RECORDS; i++) {
		struct lane *newest = NULL;

		for (uint32_t j = 0; j < count; j++) {
			if (lanes[j].at > lanes[j].oldest &&
			    (!newest || lane_record(&lanes[j])->tick > lane_record(newest)->tick))
				newest = &lanes[j];
		}
		if (!newest)
			return;
		report_record(newest);
		newest->at--;
		(void)lane_settle(newest);
	}
}

/* ---- all ---- */

/* The file gets the name of the trace file with a suffix; one that an earlier process with this pid left is replaced. */
static void open_file(const struct trace_crash_cause *cause)
{
	char path[sizeof(trace_file.path) + sizeof(TRACE_CRASH_REPORT_SUFFIX)];
	size_t bytes = strlen(trace_file.path);

	if (!bytes || trace_file.in_memory)
		return;
	memcpy(path, trace_file.path, bytes);
	memcpy(path + bytes, TRACE_CRASH_REPORT_SUFFIX, sizeof(TRACE_CRASH_REPORT_SUFFIX));
	unlink(path);
	line.fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
}

static void report_end(const struct trace_crash_cause *cause)
{
	put_text("`fathom core FILE` reads the core file of this crash");
	if (trace_file.memory && !trace_file.in_memory) {
		put_text(", `fathom trace -f ");
		put_text(trace_file.path);
		put_text("` its trace");
	}
	end_line();
	if (line.fd >= 0)
		close(line.fd);
	line.fd = -1;
}

bool trace_crash_report_part(const struct trace_crash_cause *cause, uint32_t part)
{
	static void (*const parts[])(const struct trace_crash_cause *cause) = {
		open_file,     report_title,   report_must,    report_signal,
		report_frames, report_threads, report_records, report_end,
	};
	static volatile bool is_in_part;

	static_assert(ARRAY_COUNT(parts) <= TRACE_CRASH_PARTS_MAX, "all are written");
	if (is_in_part) {
		put_text(line.used ? " ... " : "  ");
		put_text("(the rest of this part cannot be read)");
		end_line();
	}
	is_in_part = true;
	parts[part](cause);
	is_in_part = false;
	return part + 1 < ARRAY_COUNT(parts);
}
