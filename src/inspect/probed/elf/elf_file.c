/* SPDX-License-Identifier: BSD-2-Clause */
#include "inspect/probed/elf/elf_file.h"

#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"

enum { SECTIONS_MAX = 1 << 16, SEGMENTS_SEEN_MAX = 1 << 10, NAMES_BYTES_MAX = 1 << 20, PAGE_BYTES = 4096 };
enum { TABLE_BYTES_MAX = SECTIONS_MAX * sizeof(Elf64_Shdr) };
static_assert(sizeof(Elf64_Ehdr) == 64 && sizeof(Elf32_Ehdr) == 52, "as in files");
static_assert(sizeof(Elf64_Shdr) == 64 && sizeof(Elf32_Shdr) == 40, "as in files");
static_assert(sizeof(Elf64_Phdr) == 56 && sizeof(Elf32_Phdr) == 32, "as in files");
static_assert(EI_NIDENT <= sizeof(Elf32_Ehdr), "the class is read before the header");

/* State of reading one file. 32-bit headers are converted to 64 bits. */
struct source {
	int fd;
	uint64_t bytes;	     /* of the file */
	uint64_t bytes_left; /* until the limit */
	Elf64_Ehdr header;
	Elf64_Shdr *sections;
	uint32_t section_count;
	char *names;
	uint64_t name_bytes;
	struct elf_file *file;
	struct fathom_fault *why;
};

/* ---- bytes ---- */

static bool is_within_file(const struct source *source, uint64_t offset, uint64_t bytes)
{
	return offset <= source->bytes && bytes <= source->bytes - offset;
}

static int read_elf_at(const struct source *source, uint64_t offset, void *to, uint64_t bytes)
{
	uint64_t done = 0;

	if (!is_within_file(source, offset, bytes))
		return fault(source->why, -EINVAL,
			     "the file has %" PRIu64 " bytes, but 0x%" PRIx64 " bytes at 0x%" PRIx64 " are needed",
			     source->bytes, bytes, offset);
	while (done < bytes) {
		ssize_t got = pread(source->fd, (char *)to + done, bytes - done, (off_t)(offset + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return fault(source->why, -errno, "cannot be read at 0x%" PRIx64 ": %s", offset, strerror(errno));
		if (got == 0)
			return fault(source->why, -EINVAL, "it became shorter while it was read");
		must((uint64_t)got <= bytes - done);
		done += (uint64_t)got;
	}
	return 0;
}

/* Read into new memory; the caller frees it with free(). */
static int read_to_heap(const struct source *source, uint64_t offset, uint64_t bytes, void **data_ret)
{
	void *data;
	int rc;

	must(!*data_ret); /* else this would lose memory */
	if (!is_within_file(source, offset, bytes))
		return read_elf_at(source, offset, NULL, bytes);
	data = malloc(max_u64(bytes, 1));
	if (!data)
		return fault(source->why, -ENOMEM, "out of memory for %" PRIu64 " bytes", bytes);
	rc = read_elf_at(source, offset, data, bytes);
	if (rc) {
		free(data);
		return rc;
	}
	*data_ret = data;
	return 0;
}

/* ---- headers ---- */

static void widen_header(const Elf32_Ehdr *from, Elf64_Ehdr *to)
{
	memcpy(to->e_ident, from->e_ident, sizeof(to->e_ident));
	to->e_type = from->e_type;
	to->e_phoff = from->e_phoff;
	to->e_shoff = from->e_shoff;
	to->e_phentsize = from->e_phentsize;
	to->e_phnum = from->e_phnum;
	to->e_shentsize = from->e_shentsize;
	to->e_shnum = from->e_shnum;
	to->e_shstrndx = from->e_shstrndx;
}

static int read_elf_header(struct source *source)
{
	struct elf_file *file = source->file;
	unsigned char ident[EI_NIDENT];
	Elf32_Ehdr narrow;
	int rc;

	if (source->bytes < sizeof(narrow))
		return fault(source->why, -ENOEXEC, "not an ELF file");
	rc = read_elf_at(source, 0, ident, sizeof(ident));
	if (rc)
		return rc;
	if (memcmp(ident, ELFMAG, SELFMAG) != 0 || ident[EI_DATA] != ELFDATA2LSB ||
	    (ident[EI_CLASS] != ELFCLASS32 && ident[EI_CLASS] != ELFCLASS64))
		return fault(source->why, -ENOEXEC, "not an ELF file of this byte order");
	file->bits_32 = ident[EI_CLASS] == ELFCLASS32;
	rc = file->bits_32 ? read_elf_at(source, 0, &narrow, sizeof(narrow))
			   : read_elf_at(source, 0, &source->header, sizeof(source->header));
	if (rc == 0 && file->bits_32)
		widen_header(&narrow, &source->header);
	file->is_relocated = source->header.e_type == ET_DYN;
	return rc;
}

static int read_segment(const struct source *source, uint32_t index, Elf64_Phdr *segment)
{
	uint64_t at = source->header.e_phoff + (uint64_t)index * source->header.e_phentsize;
	Elf32_Phdr narrow;
	int rc;

	if (!source->file->bits_32)
		return read_elf_at(source, at, segment, sizeof(*segment));
	rc = read_elf_at(source, at, &narrow, sizeof(narrow));
	if (rc == 0)
		*segment = (Elf64_Phdr){ .p_type = narrow.p_type,
					 .p_flags = narrow.p_flags,
					 .p_offset = narrow.p_offset,
					 .p_vaddr = narrow.p_vaddr,
					 .p_filesz = narrow.p_filesz };
	return rc;
}

static int read_segments(struct source *source)
{
	struct elf_file *file = source->file;
	size_t least = file->bits_32 ? sizeof(Elf32_Phdr) : sizeof(Elf64_Phdr);
	uint32_t count = source->header.e_phnum;
	int rc = 0;

	if (count > 0 && (source->header.e_phentsize < least || source->header.e_phoff > source->bytes))
		return fault(source->why, -EINVAL, "program headers of %u bytes at 0x%" PRIx64, source->header.e_phentsize,
			     source->header.e_phoff);
	if (count > SEGMENTS_SEEN_MAX)
		return fault(source->why, -E2BIG, "%" PRIu32 " program headers", count);
	for (uint32_t i = 0; rc == 0 && i < count && file->segment_count < ELF_SEGMENTS_MAX; i++) {
		Elf64_Phdr segment;

		rc = read_segment(source, i, &segment);
		if (rc == 0 && segment.p_type == PT_LOAD)
			file->segments[file->segment_count++] = (struct elf_segment){ .offset = segment.p_offset,
										      .address = segment.p_vaddr,
										      .bytes = segment.p_filesz,
										      .is_executable = segment.p_flags &
												       PF_X };
	}
	must(file->segment_count <= ELF_SEGMENTS_MAX);
	return rc;
}

/* ---- sections ---- */

static Elf64_Shdr widen_section(const Elf32_Shdr *from)
{
	return (Elf64_Shdr){ .sh_name = from->sh_name,
			     .sh_type = from->sh_type,
			     .sh_flags = from->sh_flags,
			     .sh_addr = from->sh_addr,
			     .sh_offset = from->sh_offset,
			     .sh_size = from->sh_size,
			     .sh_link = from->sh_link };
}

static int read_elf_section(const struct source *source, uint32_t index, Elf64_Shdr *section)
{
	uint64_t at = source->header.e_shoff + (uint64_t)index * source->header.e_shentsize;
	Elf32_Shdr narrow;
	int rc;

	if (!source->file->bits_32)
		return read_elf_at(source, at, section, sizeof(*section));
	rc = read_elf_at(source, at, &narrow, sizeof(narrow));
	if (rc == 0)
		*section = widen_section(&narrow);
	return rc;
}

/* Read a whole table; its entries may be longer than the known structure. */
static int read_section_table(struct source *source)
{
	uint64_t entry = source->header.e_shentsize, bytes = entry * source->section_count;
	char *raw = NULL;
	int rc;

	if (bytes > TABLE_BYTES_MAX)
		return fault(source->why, -E2BIG, "section headers of %" PRIu64 " bytes", bytes);
	must(entry >= (source->file->bits_32 ? sizeof(Elf32_Shdr) : sizeof(Elf64_Shdr)));
	must(!source->sections);
	source->sections = calloc(source->section_count, sizeof(*source->sections));
	if (!source->sections)
		return fault(source->why, -ENOMEM, "out of memory for %" PRIu32 " sections", source->section_count);
	rc = read_to_heap(source, source->header.e_shoff, bytes, (void **)&raw);
	if (rc)
		return rc;
	for (uint32_t i = 0; i < source->section_count; i++) {
		Elf32_Shdr narrow;

		if (source->file->bits_32) {
			memcpy(&narrow, raw + i * entry, sizeof(narrow));
			source->sections[i] = widen_section(&narrow);
		} else {
			memcpy(&source->sections[i], raw + i * entry, sizeof(source->sections[i]));
		}
	}
	free(raw);
	return 0;
}

static int read_elf_sections(struct source *source)
{
	size_t least = source->file->bits_32 ? sizeof(Elf32_Shdr) : sizeof(Elf64_Shdr);
	uint64_t count = source->header.e_shnum, names = source->header.e_shstrndx;
	const Elf64_Shdr *section;
	Elf64_Shdr first;
	int rc;

	if (source->header.e_shoff == 0)
		return 0;
	if (source->header.e_shentsize < least || source->header.e_shoff > source->bytes)
		return fault(source->why, -EINVAL, "section headers of %u bytes at 0x%" PRIx64, source->header.e_shentsize,
			     source->header.e_shoff);
	/* values that do not fit in 16 bits are in the first section header */
	rc = read_elf_section(source, 0, &first);
	if (rc)
		return rc;
	count = count ? count : first.sh_size;
	names = names == SHN_XINDEX ? first.sh_link : names;
	if (count > SECTIONS_MAX)
		return fault(source->why, -E2BIG, "%" PRIu64 " sections", count);
	source->section_count = (uint32_t)count;
	rc = read_section_table(source);
	if (rc)
		return rc;
	if (names >= count)
		return fault(source->why, -EINVAL, "the names of sections are in section %" PRIu64 " of %" PRIu64, names,
			     count);
	must(names < source->section_count);
	section = &source->sections[names];
	if (section->sh_type != SHT_STRTAB || section->sh_size == 0 || section->sh_size > NAMES_BYTES_MAX)
		return fault(source->why, -EINVAL, "section %" PRIu64 " does not have the names of sections", names);
	rc = read_to_heap(source, section->sh_offset, section->sh_size, (void **)&source->names);
	if (rc)
		return rc;
	source->name_bytes = section->sh_size;
	source->names[source->name_bytes - 1] = '\0';
	return 0;
}

/* The section of that name with bytes in the file, or NULL. */
static const Elf64_Shdr *find_elf_section(const struct source *source, const char *name)
{
	for (uint32_t i = 1; i < source->section_count; i++) {
		const Elf64_Shdr *section = &source->sections[i];

		if (section->sh_name < source->name_bytes && section->sh_type != SHT_NOBITS &&
		    section->sh_type != SHT_NULL && !(section->sh_flags & SHF_COMPRESSED) &&
		    strcmp(source->names + section->sh_name, name) == 0)
			return section;
	}
	return NULL;
}

/* ---- inputs ---- */

/* Record the block's position; its data is read later. */
static int find_block(struct source *source, const Elf64_Shdr *section, uint32_t index)
{
	struct elf_file *file = source->file;

	must(file->input_count < ELF_INPUTS_MAX);
	must(index < DOF_BLOCKS_MAX);
	if (section->sh_size > source->bytes_left)
		return fault(source->why, -E2BIG, "a section of %" PRIu64 " bytes; %" PRIu64 " are left of what is allowed",
			     section->sh_size, source->bytes_left);
	if (!is_within_file(source, section->sh_offset, section->sh_size))
		return read_elf_at(source, section->sh_offset, NULL, section->sh_size);
	source->bytes_left -= section->sh_size;
	file->offsets[file->input_count][index] = section->sh_offset;
	file->inputs[file->input_count].blocks[index] = (struct dof_block){ .base = section->sh_addr,
									    .bytes = section->sh_size };
	return 0;
}

/* Add an input of `kind` from the section `name`, and from a second section if given. */
static int add_input(struct source *source, enum dof_kind kind, const char *name, const char *other)
{
	const Elf64_Shdr *section = find_elf_section(source, name),
			 *beside = other ? find_elf_section(source, other) : NULL;
	struct dof_input *input = &source->file->inputs[source->file->input_count];
	int rc;

	if (!section || section->sh_size == 0)
		return 0;
	*input = (struct dof_input){ .kind = kind, .bits_32 = source->file->bits_32 };
	rc = find_block(source, section, 0);
	if (rc == 0 && beside)
		rc = find_block(source, beside, 1);
	if (rc == 0)
		source->file->input_count++;
	return rc;
}

/* Add inputs of the kinds with bits in `kinds`. */
static int add_inputs(struct source *source, uint32_t kinds)
{
	const Elf64_Shdr *base = find_elf_section(source, ".stapsdt.base");
	struct dof_input *sdt;
	int rc = kinds & 1u << DOF_KIND_DOF ? add_input(source, DOF_KIND_DOF, ".SUNW_dof", NULL) : 0;

	if (rc == 0 && kinds & 1u << DOF_KIND_USDT)
		rc = add_input(source, DOF_KIND_USDT, ".note.usdt", ".rodata");
	if (rc == 0 && kinds & 1u << DOF_KIND_SDT)
		rc = add_input(source, DOF_KIND_SDT, ".note.stapsdt", NULL);
	sdt = elf_input(source->file, DOF_KIND_SDT);
	if (sdt && base)
		sdt->note_base = base->sh_addr;
	if (elf_input(source->file, DOF_KIND_DOF))
		elf_input(source->file, DOF_KIND_DOF)->blocks[0].base = 0;
	return rc;
}

/* ---- public functions ---- */

static int find_inputs(int fd, uint32_t kinds, const struct dof_limits *limits, struct elf_file *file_ret,
		       struct fathom_fault *why)
{
	struct elf_file file = { 0 };
	struct source source = { .fd = fd, .file = &file, .why = why };
	struct stat status;
	int rc;

	if (fstat(fd, &status) != 0)
		return fault(why, -errno, "cannot be read: %s", strerror(errno));
	if (!S_ISREG(status.st_mode))
		return fault(why, -ENOEXEC, "not a regular file");
	source.bytes = (uint64_t)status.st_size;
	source.bytes_left = limits && limits->bytes_max ? limits->bytes_max : DOF_BYTES_MAX;
	rc = read_elf_header(&source);
	if (rc == 0)
		rc = read_segments(&source);
	if (rc == 0)
		rc = read_elf_sections(&source);
	if (rc == 0)
		rc = add_inputs(&source, kinds);
	free(source.sections);
	free(source.names);
	if (rc == 0)
		*file_ret = file;
	return rc;
}

int elf_find(int fd, enum dof_kind kind, const struct dof_limits *limits, struct elf_file *file_ret,
	     struct fathom_fault *why)
{
	return find_inputs(fd, 1u << kind, limits, file_ret, why);
}

int elf_load(int fd, struct elf_file *file, struct fathom_fault *why)
{
	const struct source source = { .fd = fd, .bytes = UINT64_MAX, .file = file, .why = why };

	must(file->input_count <= ELF_INPUTS_MAX);
	for (uint32_t i = 0; i < file->input_count; i++) {
		for (uint32_t j = 0; j < DOF_BLOCKS_MAX; j++) {
			void **memory = &file->memory[i * DOF_BLOCKS_MAX + j];
			struct dof_block *block = &file->inputs[i].blocks[j];
			int rc = block->bytes ? read_to_heap(&source, file->offsets[i][j], block->bytes, memory) : 0;

			if (rc)
				return rc;
			must(!block->bytes || *memory);
			block->data = *memory;
		}
	}
	return 0;
}

int elf_read(int fd, const struct dof_limits *limits, struct elf_file *file_ret, struct fathom_fault *why)
{
	struct elf_file file;
	int rc = find_inputs(fd, UINT32_MAX, limits, &file, why);

	if (rc)
		return rc;
	rc = elf_load(fd, &file, why);
	if (rc)
		elf_free(&file);
	else
		*file_ret = file;
	return rc;
}

void elf_free(struct elf_file *file)
{
	for (size_t i = 0; i < ARRAY_COUNT(file->memory); i++)
		free(file->memory[i]);
	*file = (struct elf_file){ 0 };
}

struct dof_input *elf_input(struct elf_file *file, enum dof_kind kind)
{
	for (uint32_t i = 0; i < file->input_count; i++) {
		if (file->inputs[i].kind == kind)
			return &file->inputs[i];
	}
	return NULL;
}

const uint64_t *elf_input_offsets(const struct elf_file *file, enum dof_kind kind)
{
	for (uint32_t i = 0; i < file->input_count; i++) {
		if (file->inputs[i].kind == kind)
			return file->offsets[i];
	}
	return NULL;
}

int elf_base(const struct elf_file *file, uint64_t map_start, uint64_t map_offset, uint64_t *base_ret)
{
	const uint64_t page = PAGE_BYTES - 1;
	const struct elf_segment *found = NULL;

	/* two segments may start in one page of the file: prefer the executable one, because probes are in code */
	for (uint32_t i = 0; i < file->segment_count; i++) {
		const struct elf_segment *segment = &file->segments[i];

		if ((segment->offset & ~page) == map_offset && (!found || segment->is_executable))
			found = segment;
	}
	if (!found)
		return -ENOENT;
	*base_ret = map_start - (found->address & ~page);
	return 0;
}

int elf_offset(const struct elf_file *file, uint64_t address, uint64_t *offset_ret)
{
	for (uint32_t i = 0; i < file->segment_count; i++) {
		const struct elf_segment *segment = &file->segments[i];

		if (address >= segment->address && address - segment->address < segment->bytes) {
			*offset_ret = segment->offset + (address - segment->address);
			return 0;
		}
	}
	return -ENOENT;
}
