/* SPDX-License-Identifier: BSD-2-Clause */
/* image - opens the core file, and reads the memory in it. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "inspect/core/internal.h"
#include "inspect/trace/trace_file.h"

/* ---- memory of the results ---- */

enum { CHUNK_BYTES = 64 * 1024 };

struct core_arena_chunk {
	struct core_arena_chunk *next;
	size_t used, room;
	uint8_t data[];
};

void *core_keep(struct core *core, size_t bytes)
{
	struct core_arena_chunk *chunk = core->arena;
	size_t padded = (bytes + 7) & ~(size_t)7;
	void *at;

	if (!chunk || chunk->room - chunk->used < padded) {
		size_t room = max_u64(CHUNK_BYTES, padded);

		chunk = calloc(1, sizeof(*chunk) + room);
		must(chunk);
		chunk->room = room;
		chunk->next = core->arena;
		core->arena = chunk;
	}
	at = chunk->data + chunk->used;
	chunk->used += padded;
	return at;
}

const char *core_keep_text(struct core *core, const char *text, size_t bytes)
{
	size_t length = strnlen(text, bytes);
	char *copy = core_keep(core, length + 1);

	for (size_t i = 0; i < length; i++)
		copy[i] = (unsigned char)text[i] < 0x20 || text[i] == 0x7f ? '?' : text[i];
	return copy;
}

void core_add_remark(struct core *core, const char *format, ...)
{
	va_list args;

	if (core->info.remark_count == CORE_REMARKS_MAX)
		return;
	va_start(args, format);
	must(vasprintf(&core->remarks[core->info.remark_count], format, args) >= 0);
	va_end(args);
	core->info.remark_count++;
}

const char *core_remark_at(const struct core *core, uint32_t index)
{
	must(index < core->info.remark_count);
	return core->remarks[index];
}

/* ---- memory of the process ---- */

const struct core_segment *core_segment_of(const struct core *core, uint64_t address)
{
	uint32_t low = 0, high = core->segment_count, latest = *core->latest_segment;

	if (latest < high && address >= core->segments[latest].from && address < core->segments[latest].to)
		return &core->segments[latest];
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (address < core->segments[middle].from) {
			high = middle;
		} else if (address >= core->segments[middle].to) {
			low = middle + 1;
		} else {
			*core->latest_segment = middle;
			return &core->segments[middle];
		}
	}
	return NULL;
}

const void *core_saved(const struct core *core, uint64_t address, size_t bytes)
{
	const struct core_segment *segment = core_segment_of(core, address);
	uint64_t at = segment ? address - segment->from : 0;

	if (!segment || at > segment->saved || bytes > segment->saved - at)
		return NULL;
	return core->map + segment->offset + at;
}

static const struct core_file_row *file_row_of(const struct core *core, uint64_t address)
{
	uint32_t low = 0, high = core->file_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (address < core->files[middle].from)
			high = middle;
		else if (address >= core->files[middle].to)
			low = middle + 1;
		else
			return &core->files[middle];
	}
	return NULL;
}

/* Read-only parts of files are not in the core. */
static const void *at_file(const struct core *core, uint64_t address, size_t bytes)
{
	const struct core_segment *segment = core_segment_of(core, address);
	const struct core_file_row *row = segment && !(segment->flags & PF_W) ? file_row_of(core, address) : NULL;
	const struct core_module *module = row ? core_module_of(core, address) : NULL;
	uint64_t offset = row ? row->offset + (address - row->from) : 0;

	if (!module || !module->map || strcmp(module->path, row->path) != 0 || bytes > row->to - address)
		return NULL;
	return offset <= module->map_bytes && bytes <= module->map_bytes - offset ? module->map + offset : NULL;
}

const void *core_at(const struct core *core, uint64_t address, size_t bytes)
{
	const void *at = core_saved(core, address, bytes);

	return at ? at : at_file(core, address, bytes);
}

bool core_read(const struct core *core, uint64_t address, void *to, size_t bytes)
{
	uint8_t *out = to;

	while (bytes) {
		const struct core_segment *segment = core_segment_of(core, address);
		uint64_t part = segment ? min_u64(bytes, segment->to - address) : 0;
		const void *at = part ? core_at(core, address, part) : NULL;

		if (!at)
			return false;
		memcpy(out, at, part);
		out += part;
		address += part;
		bytes -= part;
	}
	return true;
}

const void *core_object(struct core *core, uint64_t address, size_t bytes)
{
	const void *at = core_at(core, address, bytes);
	void *copy;

	if (at || !core_segment_of(core, address) || bytes > CHUNK_BYTES)
		return at;
	copy = core_keep(core, bytes);
	return core_read(core, address, copy, bytes) ? copy : NULL;
}

/* The memory at `address` that is in one piece: at most `most` bytes. NULL: none. */
static const char *span_at(const struct core *core, uint64_t address, size_t most, size_t *bytes_ret)
{
	const struct core_segment *segment = core_segment_of(core, address);
	uint64_t at = segment ? address - segment->from : 0;

	if (!segment)
		return NULL;
	*bytes_ret = min_u64(most, segment->to - address);
	if (at < segment->saved)
		*bytes_ret = min_u64(*bytes_ret, segment->saved - at);
	return core_at(core, address, *bytes_ret);
}

bool core_read_text(const struct core *core, uint64_t address, char *to, size_t bytes)
{
	size_t used = 0;

	must(bytes > 0);
	while (used + 1 < bytes) {
		size_t span;
		const char *from = span_at(core, address + used, bytes - 1 - used, &span);

		if (!from) {
			to[0] = '\0';
			return false;
		}
		for (size_t i = 0; i < span && from[i]; i++)
			to[used++] = (unsigned char)from[i] < 0x20 || from[i] == 0x7f ? '?' : from[i];
		if (memchr(from, '\0', span))
			break;
	}
	to[used] = '\0';
	return true;
}

/* ---- mappings ---- */

void core_mapping_at(const struct core *core, uint32_t index, struct core_mapping *mapping_ret)
{
	const struct core_segment *segment;
	const struct core_file_row *row;

	must(index < core->segment_count);
	segment = &core->segments[index];
	row = file_row_of(core, segment->from);
	*mapping_ret = (struct core_mapping){
		.from = segment->from,
		.to = segment->to,
		.saved = segment->saved,
		.is_readable = segment->flags & PF_R,
		.is_writable = segment->flags & PF_W,
		.is_executable = segment->flags & PF_X,
		.path = row ? row->path : NULL,
		.file_offset = row ? row->offset + (segment->from - row->from) : 0,
	};
}

bool core_mapping_of(const struct core *core, uint64_t address, struct core_mapping *mapping_ret)
{
	const struct core_segment *segment = core_segment_of(core, address);

	if (segment)
		core_mapping_at(core, (uint32_t)(segment - core->segments), mapping_ret);
	return segment != NULL;
}

/* ---- opening ---- */

static int compare_segments(const void *left, const void *right)
{
	const struct core_segment *a = left, *b = right;

	return a->from < b->from ? -1 : a->from > b->from;
}

/* Remove segments that overlap an earlier one: only a damaged core has them. */
static void sort_segments(struct core *core)
{
	uint32_t kept = 0, dropped = 0;

	if (core->segment_count)
		qsort(core->segments, core->segment_count, sizeof(*core->segments), compare_segments);
	for (uint32_t i = 0; i < core->segment_count; i++) {
		if (kept && core->segments[i].from < core->segments[kept - 1].to)
			dropped++;
		else
			core->segments[kept++] = core->segments[i];
	}
	core->segment_count = kept;
	if (dropped)
		core_add_remark(core, "the core is damaged: %u segments overlap others and were left out", dropped);
}

/*
 * gdb does not describe mappings that it does not save, such as code. The list of files has them; whether they are code is
 * not known.
 */
static void add_unsaved_files(struct core *core)
{
	uint32_t count = core->segment_count;

	if (!core->file_count)
		return;
	core->segments = realloc(core->segments, (count + core->file_count) * sizeof(*core->segments));
	must(core->segments);
	for (uint32_t i = 0; i < core->file_count; i++) {
		const struct core_file_row *row = &core->files[i];
		bool is_described = false;

		for (uint32_t j = 0; j < count && !is_described; j++)
			is_described = row->from < core->segments[j].to && core->segments[j].from < row->to;
		if (!is_described)
			core->segments[core->segment_count++] =
				(struct core_segment){ .from = row->from, .to = row->to, .flags = PF_R | PF_X };
	}
	sort_segments(core);
}

/* The number of program headers; more than 65,534 are counted in the first section header. */
static uint64_t header_count(const struct core *core, const Elf64_Ehdr *elf)
{
	Elf64_Shdr first;

	if (elf->e_phnum != PN_XNUM)
		return elf->e_phnum;
	if (elf->e_shoff > core->bytes || sizeof(first) > core->bytes - elf->e_shoff)
		return 0;
	memcpy(&first, core->map + elf->e_shoff, sizeof(first));
	return min_u64(first.sh_info, CORE_SEGMENTS_MAX);
}

static void add_segment(struct core *core, const Elf64_Phdr *part, uint64_t *missing)
{
	struct core_segment *segment = &core->segments[core->segment_count];
	uint64_t there = part->p_offset < core->bytes ? core->bytes - part->p_offset : 0;

	if (part->p_memsz == 0 || part->p_vaddr + part->p_memsz < part->p_vaddr)
		return;
	*segment = (struct core_segment){
		.from = part->p_vaddr,
		.to = part->p_vaddr + part->p_memsz,
		.offset = part->p_offset,
		.saved = min_u64(min_u64(part->p_filesz, part->p_memsz), there),
		.flags = part->p_flags,
	};
	*missing += min_u64(part->p_filesz, part->p_memsz) - segment->saved;
	core->segment_count++;
}

static void read_headers(struct core *core, const Elf64_Ehdr *elf)
{
	uint64_t count = header_count(core, elf), missing = 0;
	bool noted = false;

	core->segments = calloc(count + 1, sizeof(*core->segments));
	must(core->segments);
	for (uint64_t i = 0; i < count; i++) {
		uint64_t offset = elf->e_phoff + i * sizeof(Elf64_Phdr);
		Elf64_Phdr part;

		if (offset < elf->e_phoff || offset > core->bytes || sizeof(part) > core->bytes - offset) {
			core_add_remark(core, "the core is truncated: %lu of its %lu segments are not described",
					(unsigned long)(count - i), (unsigned long)count);
			core->info.truncated = true;
			break;
		}
		memcpy(&part, core->map + offset, sizeof(part));
		if (part.p_type == PT_LOAD)
			add_segment(core, &part, &missing);
		if (part.p_type != PT_NOTE || part.p_offset >= core->bytes)
			continue;
		core_read_notes(core, core->map + part.p_offset, min_u64(part.p_filesz, core->bytes - part.p_offset));
		noted = true;
	}
	sort_segments(core);
	add_unsaved_files(core);
	if (missing) {
		core_add_remark(core,
				"the core is truncated: %lu MiB of memory are missing at its end (a full disk, or a limit: "
				"`ulimit -c`, LimitCORE=)",
				(unsigned long)((missing + (1 << 20) - 1) >> 20));
		core->info.truncated = true;
	}
	if (!noted || !core->thread_count)
		core_add_remark(core, "the core has no registers of threads (no notes), so there are no backtraces");
	if (core->machine != EM_X86_64 && core->machine != EM_AARCH64)
		core_add_remark(
			core,
			"the core is of another kind of machine (ELF's number %u): its registers are not decoded, so "
			"there are no backtraces",
			core->machine);
}

/* Explain why it is not a core that this program reads. */
static int check_kind(const struct core *core, const char *path, const Elf64_Ehdr *elf, struct fathom_fault *why)
{
	static const struct {
		uint8_t magic[4], bytes;
		const char *command;
	} packers[] = {
		{ { 0x04, 0x22, 0x4d, 0x18 }, 4, "lz4 -d" },
		{ { 0xfd, '7', 'z', 'X' }, 4, "xz -d" },
		{ { 0x1f, 0x8b }, 2, "gzip -d" },
		{ { 'B', 'Z', 'h' }, 3, "bzip2 -d" },
	};

	for (size_t i = 0; i < ARRAY_COUNT(packers); i++) {
		if (core->bytes >= packers[i].bytes && memcmp(core->map, packers[i].magic, packers[i].bytes) == 0)
			return fault(
				why, -EBADMSG,
				"%s is compressed: decompress it first by `%s`, or let systemd do it: `coredumpctl dump "
				"-o FILE PID`. Of compressed files only those of zstd are read as they are",
				path, packers[i].command);
	}
	if (core->bytes >= 8 && memcmp(core->map, TRACE_MAGIC, 8) == 0)
		return fault(why, -EBADMSG, "%s is a trace file, not a core file: `fathom trace -f %s` reads it", path,
			     path);
	if (core->bytes < sizeof(*elf) || memcmp(core->map, ELFMAG, SELFMAG) != 0)
		return fault(why, -EBADMSG, "%s is not a core file: it does not begin with an ELF header", path);
	if (elf->e_ident[EI_CLASS] != ELFCLASS64 || elf->e_ident[EI_DATA] != ELFDATA2LSB)
		return fault(why, -EPROTONOSUPPORT, "%s is of a %s program; only 64-bit little-endian ones are read", path,
			     elf->e_ident[EI_CLASS] != ELFCLASS64 ? "32-bit" : "big-endian");
	if (elf->e_type != ET_CORE)
		return fault(why, -EBADMSG, "%s is %s, not a core file", path,
			     elf->e_type == ET_EXEC || elf->e_type == ET_DYN ? "a program or a library"
									     : "another kind of ELF file");
	if (elf->e_phentsize != sizeof(Elf64_Phdr) || elf->e_phoff >= core->bytes)
		return fault(why, -EBADMSG, "%s is damaged, or truncated in its first bytes: it has no program headers",
			     path);
	return 0;
}

/* Open the file; one that zstd compressed is unpacked, and then core->unpacked_fd is its copy. */
static int open_file(struct core *core, const char *path, struct fathom_fault *why)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), rc;
	struct fathom_fault reason = { 0 };

	if (fd < 0)
		return fault(why, -errno, "cannot open %s: %s", path, strerror(errno));
	rc = reader_decompress(fd, &core->unpacked_fd, &reason);
	if (rc) {
		close(fd);
		return fault(why, rc, "%s: %.400s", path, reason.text);
	}
	return fd;
}

static int map_file(struct core *core, const char *path, struct fathom_fault *why)
{
	int fd = open_file(core, path, why), rc = 0, from = core->unpacked_fd >= 0 ? core->unpacked_fd : fd;
	struct stat st;
	void *at;

	if (fd < 0)
		return fd;
	if (fstat(from, &st) != 0)
		rc = fault(why, -errno, "cannot stat %s: %s", path, strerror(errno));
	else if (!S_ISREG(st.st_mode) || st.st_size == 0)
		rc = fault(why, -EBADMSG, "%s is %s: it is not a core file", path,
			   S_ISREG(st.st_mode) ? "empty" : "not a regular file");
	if (rc == 0) {
		at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, from, 0);
		if (at == MAP_FAILED)
			rc = fault(why, -errno, "cannot map %s: %s", path, strerror(errno));
		else
			core->map = at;
		core->bytes = (uint64_t)st.st_size;
	}
	close(fd);
	return rc;
}

static void fill_info(struct core *core)
{
	struct core_info *info = &core->info;

	info->bytes = core->bytes;
	info->command = core->command;
	info->name = core->name;
	info->thread_count = core->thread_count;
	info->mapping_count = core->segment_count;
	info->module_count = core->module_count;
	info->program = core->program ? core->program->path : "";
	for (uint32_t i = 0; core->program && i < core->program->build_id_bytes; i++)
		snprintf(&info->build_id[2 * i], 3, "%02x", core->program->build_id[i]);
}

/* Map the file; read its segments and its notes. Pair: core_close(). */
static int open_headers(const char *path, struct core **core_ret, struct fathom_fault *why)
{
	struct core *core = calloc(1, sizeof(*core));
	Elf64_Ehdr elf = { 0 };
	int rc;

	must(core);
	core->unpacked_fd = -1;
	rc = map_file(core, path, why);
	if (rc == 0) {
		memcpy(&elf, core->map, min_u64(core->bytes, sizeof(elf)));
		rc = check_kind(core, path, &elf, why);
	}
	if (rc) {
		core_close(core);
		return rc;
	}
	core->machine = elf.e_machine;
	core->latest_segment = core_keep(core, sizeof(*core->latest_segment));
	core->info.path = core_keep_text(core, path, strlen(path));
	read_headers(core, &elf);
	*core_ret = core;
	return 0;
}

int32_t core_pid(const char *path)
{
	struct fathom_fault why;
	struct core *core;
	int32_t pid;

	if (open_headers(path, &core, &why) != 0)
		return 0;
	pid = core->info.pid;
	core_close(core);
	return pid;
}

int core_open(const char *path, const char *program, struct core **core_ret, struct fathom_fault *why)
{
	struct core *core;
	int rc = open_headers(path, &core, why);

	if (rc)
		return rc;
	if (program) {
		core->program_file = strdup(program);
		must(core->program_file);
	}
	core_find_modules(core);
	fill_info(core);
	core_open_trace(core);
	*core_ret = core;
	return 0;
}

void core_close(struct core *core)
{
	if (!core)
		return;
	core_close_layout(core);
	reader_close(core->trace);
	if (core->dwfl)
		dwfl_end(core->dwfl);
	for (uint32_t i = 0; i < core->module_count; i++) {
		if (core->modules[i].map)
			munmap((void *)core->modules[i].map, core->modules[i].map_bytes);
	}
	while (core->arena) {
		struct core_arena_chunk *next = core->arena->next;

		free(core->arena);
		core->arena = next;
	}
	for (uint32_t i = 0; i < core->info.remark_count; i++)
		free(core->remarks[i]);
	if (core->map)
		munmap((void *)core->map, core->bytes);
	if (core->unpacked_fd >= 0)
		close(core->unpacked_fd);
	free(core->segments);
	free(core->files);
	free(core->threads);
	free(core->modules);
	free(core->program_file);
	free(core->debug_folders);
	free(core);
}

const struct core_info *core_info(const struct core *core)
{
	return &core->info;
}

const struct core_thread *core_thread_at(const struct core *core, uint32_t index)
{
	must(index < core->thread_count);
	return &core->threads[index];
}
