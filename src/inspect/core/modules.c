/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * modules - the program and the libraries in a core, and their files on this machine.
 *
 * The kernel saves the first page of each ELF file (bit 4 of coredump_filter), which usually has the build-id. A file of
 * this machine is used only if it has the same one.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "inspect/core/internal.h"
#include "inspect/trace/trace_file.h"

#define DELETED " (deleted)"

enum { HEADERS_MAX = 256, NOTE_BYTES_MAX = 64 * 1024 };
#define MODULE_BYTES_MAX ((uint64_t)4 << 30)

/* ---- an ELF file, in the core's memory or in a file ---- */

struct elf_source {
	const struct core *core; /* NULL: `map` */
	uint64_t from;		 /* address of the ELF header */
	const uint8_t *map;
	uint64_t bytes;
};

static bool read_source(const struct elf_source *source, uint64_t offset, void *to, size_t bytes)
{
	if (source->core)
		return core_read(source->core, source->from + offset, to, bytes);
	if (offset > source->bytes || bytes > source->bytes - offset)
		return false;
	memcpy(to, source->map + offset, bytes);
	return true;
}

struct elf_shape {
	uint64_t first_vaddr; /* of the segment with the ELF header */
	uint64_t end_vaddr;
	uint8_t build_id[CORE_BUILD_ID_BYTES];
	uint32_t build_id_bytes;
};

static void find_build_id(const struct elf_source *source, uint64_t at, uint64_t bytes, struct elf_shape *shape)
{
	Elf64_Nhdr note;

	bytes = min_u64(bytes, NOTE_BYTES_MAX);
	for (uint64_t done = 0; done + sizeof(note) <= bytes && shape->build_id_bytes == 0;) {
		char name[4];
		uint64_t data;

		if (!read_source(source, at + done, &note, sizeof(note)))
			return;
		data = done + sizeof(note) + (((uint64_t)note.n_namesz + 3) & ~(uint64_t)3);
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && note.n_descsz <= CORE_BUILD_ID_BYTES &&
		    note.n_descsz > 0 && read_source(source, at + done + sizeof(note), name, 4) &&
		    memcmp(name, "GNU", 4) == 0 && read_source(source, at + data, shape->build_id, note.n_descsz))
			shape->build_id_bytes = note.n_descsz;
		done = data + (((uint64_t)note.n_descsz + 3) & ~(uint64_t)3);
	}
}

/* False: no 64-bit ELF header. */
static bool read_shape(const struct elf_source *source, struct elf_shape *shape_ret)
{
	Elf64_Phdr rows[HEADERS_MAX];
	uint32_t count = 0;
	bool found = false;
	Elf64_Ehdr elf;

	*shape_ret = (struct elf_shape){ 0 };
	if (!read_source(source, 0, &elf, sizeof(elf)) || memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0 ||
	    elf.e_ident[EI_CLASS] != ELFCLASS64 || elf.e_phentsize != sizeof(Elf64_Phdr))
		return false;
	while (count < elf.e_phnum && count < HEADERS_MAX &&
	       read_source(source, elf.e_phoff + count * sizeof(*rows), &rows[count], sizeof(*rows)))
		count++;
	for (uint32_t i = 0; i < count; i++) {
		if (rows[i].p_type != PT_LOAD)
			continue;
		if (!found)
			shape_ret->first_vaddr = rows[i].p_vaddr - rows[i].p_offset % CORE_PAGE_BYTES;
		found = true;
		shape_ret->end_vaddr = max_u64(shape_ret->end_vaddr, rows[i].p_vaddr + rows[i].p_memsz);
	}
	for (uint32_t i = 0; i < count && found; i++) {
		if (rows[i].p_type == PT_NOTE)
			find_build_id(source, source->core ? rows[i].p_vaddr - shape_ret->first_vaddr : rows[i].p_offset,
				      rows[i].p_filesz, shape_ret);
	}
	return found;
}

/* ---- modules of the core ---- */

static void add_module(struct core *core, const struct core_file_row *row)
{
	const struct elf_source source = { .core = core, .from = row->from };
	struct core_module *module = &core->modules[core->module_count];
	uint64_t end = row->to;
	struct elf_shape shape;

	*module = (struct core_module){ .from = row->from, .path = row->path, .bias = row->from };
	for (const struct core_file_row *next = row; next < core->files + core->file_count; next++) {
		if (strcmp(next->path, row->path) != 0 || next->from - row->from > MODULE_BYTES_MAX)
			break;
		end = next->to;
	}
	if (read_shape(&source, &shape)) {
		uint64_t bytes = shape.end_vaddr - shape.first_vaddr;

		module->has_header = true;
		module->bias = row->from - shape.first_vaddr;
		if (shape.end_vaddr > shape.first_vaddr && bytes < MODULE_BYTES_MAX && row->from + bytes > row->from)
			end = max_u64(end, row->from + bytes);
		memcpy(module->build_id, shape.build_id, sizeof(module->build_id));
		module->build_id_bytes = shape.build_id_bytes;
	} else {
		unsigned char magic[SELFMAG];

		/* its first page is in the core, and it is no ELF file; or it is no code */
		if (core_read(core, row->from, magic, sizeof(magic)) || !core_segment_of(core, row->from))
			return;
	}
	if (core->module_count && core->modules[core->module_count - 1].to > row->from)
		core->modules[core->module_count - 1].to = row->from;
	module->to = end;
	core->module_count++;
}

struct core_module *core_module_of(const struct core *core, uint64_t address)
{
	for (uint32_t i = 0; i < core->module_count; i++) {
		if (address >= core->modules[i].from && address < core->modules[i].to)
			return &core->modules[i];
	}
	return NULL;
}

const char *core_module_name(const struct core_module *module)
{
	const char *slash = strrchr(module->path, '/');

	return slash && slash[1] ? slash + 1 : module->path;
}

/* Is any mapping of this file executable? Others are data. */
static bool has_code(const struct core *core, const struct core_file_row *row)
{
	for (const struct core_file_row *next = row;
	     next < core->files + core->file_count && strcmp(next->path, row->path) == 0; next++) {
		const struct core_segment *segment = core_segment_of(core, next->from);

		if (segment && (segment->flags & PF_X))
			return true;
	}
	return false;
}

void core_find_modules(struct core *core)
{
	core->modules = calloc(CORE_MODULES_MAX, sizeof(*core->modules));
	must(core->modules);
	for (uint32_t i = 0; i < core->file_count && core->module_count < CORE_MODULES_MAX; i++) {
		if (core->files[i].offset == 0 && has_code(core, &core->files[i]))
			add_module(core, &core->files[i]);
	}
	core->program = core->at_phdr ? core_module_of(core, core->at_phdr) : NULL;
	if (!core->program && core->module_count)
		core_add_remark(core, "the core does not say which file is the program");
	if (!core->file_count)
		core_add_remark(core, "the core does not list the mapped files, so functions have no names");
}

/* ---- files of this machine ---- */

/* Map `path` if it has the module's build-id. `why`, of CORE_WORDS_BYTES, explains a failure. */
static bool try_file(struct core *core, struct core_module *module, const char *path, char *why)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), error = errno;
	struct elf_source source = { 0 };
	struct elf_shape shape;
	struct stat st;
	void *at = MAP_FAILED;

	if (fd < 0) {
		snprintf(why, CORE_WORDS_BYTES, "%s: %s", path, strerror(error));
		return false;
	}
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > (off_t)sizeof(Elf64_Ehdr))
		at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (at == MAP_FAILED) {
		snprintf(why, CORE_WORDS_BYTES, "%s is not an ELF file", path);
		return false;
	}
	source.map = at;
	source.bytes = (uint64_t)st.st_size;
	if (!read_shape(&source, &shape)) {
		snprintf(why, CORE_WORDS_BYTES, "%s is not an ELF file of 64 bits", path);
	} else if (module->build_id_bytes && (shape.build_id_bytes != module->build_id_bytes ||
					      memcmp(shape.build_id, module->build_id, shape.build_id_bytes) != 0)) {
		snprintf(why, CORE_WORDS_BYTES, "%s has another build-id: it was replaced since, or is of another machine",
			 path);
	} else {
		if (!module->build_id_bytes && !core->has_unverified)
			core_add_remark(core,
					"the core has no build-id of %s and perhaps of others: files of this machine are "
					"used, which may be other "
					"builds (bit 4 of coredump_filter)",
					module->path);
		core->has_unverified |= !module->build_id_bytes;
		if (!module->has_header)
			module->bias = module->from - shape.first_vaddr;
		module->map = at;
		module->map_bytes = source.bytes;
		module->file = core_keep_text(core, path, strlen(path));
		return true;
	}
	munmap(at, (size_t)st.st_size);
	return false;
}

static bool try_beside_us(struct core *core, struct core_module *module, const char *name)
{
	char path[PATH_MAX], own[PATH_MAX] = "", why[CORE_WORDS_BYTES];
	char *slash;

	if (readlink("/proc/self/exe", own, sizeof(own) - 1) <= 0 || !(slash = strrchr(own, '/')))
		return false;
	*slash = '\0';
	return module->build_id_bytes && snprintf(path, sizeof(path), "%s/%s", own, name) < (int)sizeof(path) &&
	       try_file(core, module, path, why);
}

static void load_program(struct core *core, struct core_module *module, const char *path)
{
	char why[CORE_WORDS_BYTES] = "";
	bool found = core->program_file
			     ? try_file(core, module, core->program_file, why)
			     : try_file(core, module, path, why) || try_beside_us(core, module, core_module_name(module));

	if (found)
		core->info.program_file = module->file;
	else
		core->info.program_why = module->why = core_keep_text(core, why, sizeof(why));
	if (!found)
		core_add_remark(core, "%s: functions of the program have no names, objects are not shown", why);
}

bool core_module_load(struct core *core, struct core_module *module)
{
	char path[CORE_PATH_BYTES + 1], why[CORE_WORDS_BYTES];
	size_t length = strlen(module->path), tail = strlen(DELETED);

	if (module->tried)
		return module->map != NULL;
	module->tried = true;
	snprintf(path, sizeof(path), "%s", module->path);
	if (length > tail && strcmp(path + length - tail, DELETED) == 0)
		path[length - tail] = '\0';
	if (module == core->program)
		load_program(core, module, path);
	else if (!try_file(core, module, path, why)) {
		module->why = core_keep_text(core, why, sizeof(why));
		if (module->has_header)
			core_add_remark(core, "%s: functions in it have no names", why);
	}
	return module->map != NULL;
}

static void spell_build_id(const struct core_module *module, char *to)
{
	to[0] = '\0';
	for (uint32_t i = 0; i < module->build_id_bytes; i++)
		snprintf(&to[2 * (size_t)i], 3, "%02x", module->build_id[i]);
}

void core_module_at(const struct core *core, uint32_t index, struct core_module_info *module_ret)
{
	const struct core_module *module;

	must(index < core->module_count);
	module = &core->modules[index];
	*module_ret = (struct core_module_info){
		.from = module->from, .to = module->to, .path = module->path, .file = module->file, .file_why = module->why
	};
	spell_build_id(module, module_ret->build_id);
}
