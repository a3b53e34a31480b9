/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * own_file - finds the probe sections of a program or library of this process. It reads the section headers from the file,
 * because they are not mapped.
 *
 * .note.usdt (DTrace 2.0.3 and later) is not loaded: the daemon reads it from the file. .SUNW_dof is loaded, and the
 * dynamic linker relocates it, so the copy in memory must be used. Neither needs a symbol, which `dtrace -G` hides.
 */
#include "inspect/probed/client/own_file.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

enum { NAME_BYTES = 16 };

struct search {
	uintptr_t place;
	struct own_file *file;
	const char *path;
	bool found;
};

static int find_segment(struct dl_phdr_info *info, size_t bytes, void *ctx)
{
	struct search *search = ctx;

	for (unsigned int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + segment->p_vaddr;

		if (segment->p_type != PT_LOAD || search->place < start || search->place - start >= segment->p_memsz)
			continue;
		search->file->base = info->dlpi_addr;
		search->path = info->dlpi_name && info->dlpi_name[0] ? info->dlpi_name : "/proc/self/exe";
		search->found = true;
		return 1;
	}
	return 0;
}

static bool read_own_at(int fd, uint64_t at, void *to, size_t bytes)
{
	return pread(fd, to, bytes, (off_t)at) == (ssize_t)bytes;
}

static void record_section(const ElfW(Shdr) * section, const char *name, struct own_file *file)
{
	if (section->sh_type == SHT_NOBITS || section->sh_size == 0)
		return;
	if (strcmp(name, ".note.usdt") == 0)
		file->has_notes = true;
	else if (strcmp(name, ".SUNW_dof") == 0 && (section->sh_flags & SHF_ALLOC))
		file->dof = (const void *)(file->base + section->sh_addr);
}

static int read_own_sections(int fd, struct own_file *file)
{
	ElfW(Ehdr) header;
	ElfW(Shdr) names, section;

	if (!read_own_at(fd, 0, &header, sizeof(header)) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
	    header.e_shentsize != sizeof(section) || header.e_shstrndx >= header.e_shnum ||
	    !read_own_at(fd, header.e_shoff + (uint64_t)header.e_shstrndx * sizeof(names), &names, sizeof(names)))
		return -EINVAL;
	for (unsigned int i = 1; i < header.e_shnum; i++) {
		char name[NAME_BYTES] = "";
		ssize_t got;

		if (!read_own_at(fd, header.e_shoff + (uint64_t)i * sizeof(section), &section, sizeof(section)))
			return -EINVAL;
		/* a short read is valid: the last name may be near the end of the file */
		got = pread(fd, name, sizeof(name) - 1, (off_t)(names.sh_offset + section.sh_name));
		if (got > 0)
			record_section(&section, name, file);
	}
	return file->has_notes || file->dof ? 0 : -ENODATA;
}

int own_file_find(const void *place, struct own_file *file_ret)
{
	struct own_file file = { 0 };
	struct search search = { .place = (uintptr_t)place, .file = &file };
	int fd, error;

	(void)dl_iterate_phdr(find_segment, &search);
	if (!search.found)
		return -EINVAL;
	fd = open(search.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	error = read_own_sections(fd, &file);
	close(fd);
	if (error == 0)
		*file_ret = file;
	return error;
}
