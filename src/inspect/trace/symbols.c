/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * symbols - names of the functions in a program's events, from the program's own file.
 *
 * The file is searched where it was when the program ran, beside this program, and among separate debug files. It is
 * used only if its build-id equals that of the trace. A function is recorded as its offset in the program's image, so
 * the load address does not matter. Every offset in the file is checked before use: the file is untrusted.
 */
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "inspect/trace/internal.h"

enum { SYMBOLS_MAX = 1 << 20, SECTIONS_MAX = 4096 };

struct symbol {
	uint64_t place, bytes;
	const char *name; /* within the map, NUL-terminated there, printable */
};

struct symbols {
	const uint8_t *map; /* NULL: no file was found */
	uint64_t map_bytes;
	struct symbol *rows; /* by place */
	uint32_t count;
};

static const void *mapped_bytes_at(const struct symbols *symbols, uint64_t offset, uint64_t bytes)
{
	return offset <= symbols->map_bytes && bytes <= symbols->map_bytes - offset ? symbols->map + offset : NULL;
}

static const Elf64_Shdr *section_at(const struct symbols *symbols, uint32_t index)
{
	const Elf64_Ehdr *elf = mapped_bytes_at(symbols, 0, sizeof(*elf));

	if (elf->e_shoff % 8 != 0 || index >= elf->e_shnum || index >= SECTIONS_MAX ||
	    elf->e_shentsize != sizeof(Elf64_Shdr))
		return NULL;
	return elf->e_shoff > symbols->map_bytes
		       ? NULL
		       : mapped_bytes_at(symbols, elf->e_shoff + index * sizeof(Elf64_Shdr), sizeof(Elf64_Shdr));
}

/* Is it a 64-bit ELF file with this build-id? */
static bool is_of_build(const struct symbols *symbols, const char *build_id)
{
	const Elf64_Ehdr *elf = mapped_bytes_at(symbols, 0, sizeof(*elf));
	const Elf64_Shdr *section;

	if (!elf || memcmp(elf->e_ident, ELFMAG, SELFMAG) != 0 || elf->e_ident[EI_CLASS] != ELFCLASS64)
		return false;
	for (uint32_t i = 0; (section = section_at(symbols, i)); i++) {
		const Elf64_Nhdr *note = section->sh_type == SHT_NOTE && section->sh_offset % 4 == 0
						 ? mapped_bytes_at(symbols, section->sh_offset, sizeof(*note) + 4)
						 : NULL;
		char text[2 * 32 + 1] = "";

		if (!note || note->n_type != NT_GNU_BUILD_ID || note->n_namesz != 4 || note->n_descsz > 32 ||
		    memcmp(note + 1, "GNU", 4) != 0 ||
		    !mapped_bytes_at(symbols, section->sh_offset, sizeof(*note) + 4 + note->n_descsz))
			continue;
		for (uint32_t byte = 0; byte < note->n_descsz; byte++)
			snprintf(&text[2 * byte], 3, "%02x", ((const uint8_t *)(note + 1))[4 + byte]);
		if (strcmp(text, build_id) == 0)
			return true;
	}
	return false;
}

/* The address at which the image begins; offsets of functions count from there. */
static uint64_t image_begin(const struct symbols *symbols)
{
	const Elf64_Ehdr *elf = mapped_bytes_at(symbols, 0, sizeof(*elf));
	uint64_t begin = UINT64_MAX;

	for (uint32_t i = 0; i < elf->e_phnum && elf->e_phentsize == sizeof(Elf64_Phdr) && elf->e_phoff % 8 == 0 &&
			     elf->e_phoff < symbols->map_bytes;
	     i++) {
		const Elf64_Phdr *row = mapped_bytes_at(symbols, elf->e_phoff + i * sizeof(*row), sizeof(*row));

		if (row && row->p_type == PT_LOAD)
			begin = min_u64(begin, row->p_vaddr & ~(uint64_t)4095);
	}
	return begin == UINT64_MAX ? 0 : begin;
}

/* A name that needs no escape in any output; NULL: none. */
static const char *symbol_name_at(const struct symbols *symbols, const Elf64_Shdr *strings, uint32_t offset)
{
	const char *text = offset < strings->sh_size ? mapped_bytes_at(symbols, strings->sh_offset, strings->sh_size)
						     : NULL;

	if (!text || !memchr(text + offset, '\0', strings->sh_size - offset) || !text[offset])
		return NULL;
	text += offset;
	for (const char *at = text; *at; at++) {
		if (*at <= 0x20 || *at > 0x7e || *at == '"' || *at == '\\')
			return NULL;
	}
	return text;
}

static int compare_places(const void *left, const void *right)
{
	const struct symbol *a = left, *b = right;

	return a->place < b->place ? -1 : a->place > b->place;
}

/* Read the functions of one symbol table. */
static void read_symbol_table(struct symbols *symbols, const Elf64_Shdr *table)
{
	const Elf64_Shdr *strings = section_at(symbols, table->sh_link);
	uint64_t count = min_u64(table->sh_size / sizeof(Elf64_Sym), SYMBOLS_MAX), begin = image_begin(symbols);
	const Elf64_Sym *rows = table->sh_offset % 8 == 0
					? mapped_bytes_at(symbols, table->sh_offset, count * sizeof(*rows))
					: NULL;

	if (!rows || !strings || count == 0)
		return;
	symbols->rows = calloc(count, sizeof(*symbols->rows));
	must(symbols->rows);
	for (uint64_t i = 0; i < count; i++) {
		const char *name = symbol_name_at(symbols, strings, rows[i].st_name);

		if (ELF64_ST_TYPE(rows[i].st_info) == STT_FUNC && rows[i].st_value >= begin && name &&
		    rows[i].st_shndx != SHN_UNDEF)
			symbols->rows[symbols->count++] = (struct symbol){ .place = rows[i].st_value - begin,
									   .bytes = rows[i].st_size,
									   .name = name };
	}
	qsort(symbols->rows, symbols->count, sizeof(*symbols->rows), compare_places);
}

static void unmap_file(struct symbols *symbols)
{
	free(symbols->rows);
	if (symbols->map)
		munmap((void *)symbols->map, symbols->map_bytes);
	*symbols = (struct symbols){ 0 };
}

/* False: not the program's file, or without function symbols. */
static bool read_file(struct symbols *symbols, const char *path, const char *build_id)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	const Elf64_Shdr *section;
	struct stat st;
	void *map = MAP_FAILED;

	if (fd < 0)
		return false;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > (off_t)sizeof(Elf64_Ehdr))
		map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (map == MAP_FAILED)
		return false;
	symbols->map = map;
	symbols->map_bytes = (uint64_t)st.st_size;
	if (is_of_build(symbols, build_id)) {
		for (uint32_t i = 0; symbols->count == 0 && (section = section_at(symbols, i)); i++) {
			if (section->sh_type == SHT_SYMTAB)
				read_symbol_table(symbols, section);
		}
	}
	if (symbols->count > 0)
		return true;
	unmap_file(symbols);
	return false;
}

static void load_symbols(const struct reader *reader, struct symbols *symbols)
{
	const struct reader_info *info = &reader->info;
	const char *name = strrchr(info->program_path, '/');
	char path[PATH_MAX], own[PATH_MAX] = "";
	char *slash;

	if (strlen(info->build_id) < 4)
		return;
	snprintf(path, sizeof(path), "/proc/%d/exe", info->pid);
	if (info->liveness == READER_ALIVE && read_file(symbols, path, info->build_id))
		return;
	if (info->program_path[0] && read_file(symbols, info->program_path, info->build_id))
		return;
	if (name && readlink("/proc/self/exe", own, sizeof(own) - 1) > 0 && (slash = strrchr(own, '/'))) {
		*slash = '\0';
		if (snprintf(path, sizeof(path), "%s%s", own, name) < (int)sizeof(path) &&
		    read_file(symbols, path, info->build_id))
			return;
	}
	snprintf(path, sizeof(path), "/usr/lib/debug/.build-id/%.2s/%s.debug", info->build_id, info->build_id + 2);
	(void)read_file(symbols, path, info->build_id); /* if this fails, too, functions are printed as offsets */
}

const char *reader_function(struct reader *reader, uint64_t place)
{
	const struct symbols *symbols;
	uint32_t low = 0, high;

	if (!reader->symbols) {
		reader->symbols = calloc(1, sizeof(*reader->symbols));
		must(reader->symbols);
		load_symbols(reader, reader->symbols);
	}
	symbols = reader->symbols;
	/* find the first symbol behind `place`; the one in front of it is the candidate */
	for (high = symbols->count; low < high;) {
		uint32_t middle = low + (high - low) / 2;

		if (symbols->rows[middle].place <= place)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0 || symbols->rows[low - 1].place != place)
		return NULL;
	return symbols->rows[low - 1].name;
}

void symbols_destroy(struct symbols *symbols)
{
	if (!symbols)
		return;
	unmap_file(symbols);
	free(symbols);
}
