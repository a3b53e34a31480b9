/* SPDX-License-Identifier: BSD-2-Clause */
/* program - the program file and the libraries of the process: are they the files on disk, and do they have symbols? */
#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/bits.h"
#include "inspect/doctor/internal.h"

enum { PATH_BYTES = 128, LIBRARIES_MAX = 64, BUILD_ID_BYTES_MAX = 64, SECTIONS_MAX = 4096 };

/* ---- an ELF file, which is untrusted: every offset is checked ---- */

struct elf {
	const uint8_t *map;
	uint64_t bytes;
};

static const void *elf_part(const struct elf *elf, uint64_t offset, uint64_t bytes)
{
	return offset <= elf->bytes && bytes <= elf->bytes - offset ? elf->map + offset : NULL;
}

static void put_build_id(const struct elf *elf, const Elf64_Shdr *section, json_t *about)
{
	const Elf64_Nhdr *note = section->sh_offset % 4 == 0 ? elf_part(elf, section->sh_offset, sizeof(*note) + 4) : NULL;
	char text[2 * BUILD_ID_BYTES_MAX + 1] = "";
	const uint8_t *id;

	if (!note || note->n_type != NT_GNU_BUILD_ID || note->n_namesz != 4 || note->n_descsz > BUILD_ID_BYTES_MAX)
		return;
	id = elf_part(elf, section->sh_offset + sizeof(*note) + 4, note->n_descsz);
	for (uint32_t i = 0; id && i < note->n_descsz; i++)
		snprintf(&text[2 * i], 3, "%02x", id[i]);
	if (text[0])
		doc_put(about, "build_id", doc_text(text));
}

static void put_sections(const struct elf *elf, json_t *about)
{
	const Elf64_Ehdr *header = elf_part(elf, 0, sizeof(*header));
	bool symbols = false;

	if (!header || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64 ||
	    header->e_shentsize != sizeof(Elf64_Shdr) || header->e_shoff % 8 != 0)
		return;
	for (uint32_t i = 0; i < header->e_shnum && i < SECTIONS_MAX; i++) {
		const Elf64_Shdr *section = elf_part(elf, header->e_shoff + i * sizeof(*section), sizeof(*section));

		if (section && section->sh_type == SHT_SYMTAB)
			symbols = true;
		if (section && section->sh_type == SHT_NOTE)
			put_build_id(elf, section, about);
	}
	doc_put(about, "symbols", json_boolean(symbols));
}

/* { "build_id", "symbols", "device", "inode" } of a file; NULL: it cannot be read. */
static json_t *look_at_elf(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	json_t *about = NULL;
	struct stat st;
	void *map;

	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
		map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (map != MAP_FAILED) {
			struct elf elf = { map, (uint64_t)st.st_size };

			about = doc_object();
			doc_put(about, "device", json_integer((json_int_t)st.st_dev));
			doc_put(about, "inode", json_integer((json_int_t)st.st_ino));
			put_sections(&elf, about);
			munmap(map, (size_t)st.st_size);
		}
	}
	close(fd);
	return about;
}

/* Is there a file with the symbols of this build? */
static bool has_debug_file(const char *build_id)
{
	char path[PATH_MAX];

	if (strlen(build_id) < 4)
		return false;
	snprintf(path, sizeof(path), "/usr/lib/debug/.build-id/%.2s/%s.debug", build_id, build_id + 2);
	return access(path, R_OK) == 0;
}

#define DELETED " (deleted)"

json_t *doc_program(int32_t pid)
{
	char link[PATH_BYTES], path[PATH_MAX], reached[PATH_MAX + PATH_BYTES];
	json_t *program = doc_object(), *running, *on_disk;
	size_t bytes, tail = strlen(DELETED);
	ssize_t got;

	snprintf(link, sizeof(link), "/proc/%d/exe", pid);
	got = readlink(link, path, sizeof(path) - 1);
	if (got <= 0) {
		json_decref(program);
		return NULL;
	}
	bytes = (size_t)got;
	path[bytes] = '\0';
	if (bytes > tail && strcmp(path + bytes - tail, DELETED) == 0) {
		doc_put(program, "deleted", json_true());
		path[bytes - tail] = '\0';
	}
	doc_put(program, "path", doc_text(path));
	running = look_at_elf(link);
	snprintf(reached, sizeof(reached), "/proc/%d/root%s", pid, path); /* it may run in a container */
	on_disk = look_at_elf(reached);
	if (running && !doc_is(running, "symbols"))
		doc_put(running, "debug_file", json_boolean(has_debug_file(doc_text_at(running, "build_id"))));
	doc_put(program, "running", running);
	doc_put(program, "on_disk", on_disk);
	return program;
}

/*
 * A mapped file with code: deleted, or another one at its path? A file system that reports other numbers for a mapped file
 * than for the file (overlayfs, btrfs) has another device, too: there it is not known.
 */
static void look_at_library(int32_t pid, const char *path, const char *device, uint64_t inode, json_t *libraries)
{
	size_t bytes = strlen(path), tail = strlen(DELETED);
	bool deleted = bytes > tail && strcmp(path + bytes - tail, DELETED) == 0;
	char reached[PATH_MAX + PATH_BYTES];
	unsigned int major_number, minor_number;
	json_t *library;
	struct stat st;

	snprintf(reached, sizeof(reached), "/proc/%d/root%s", pid, path);
	if (!deleted &&
	    (stat(reached, &st) != 0 || st.st_ino == inode || sscanf(device, "%x:%x", &major_number, &minor_number) != 2 ||
	     st.st_dev != makedev(major_number, minor_number)))
		return;
	library = doc_object();
	doc_put(library, "path", doc_text_of(path, bytes - (deleted ? tail : 0)));
	doc_put(library, deleted ? "deleted" : "replaced", json_true());
	doc_add(libraries, library);
}

json_t *doc_libraries(int32_t pid)
{
	char file[PATH_BYTES], line[PATH_MAX + 128], permissions[8], device[16], path[PATH_MAX], last[PATH_MAX] = "";
	json_t *libraries = doc_list();
	uint64_t inode;
	FILE *maps;

	snprintf(file, sizeof(file), "/proc/%d/maps", pid);
	maps = fopen(file, "re");
	while (maps && json_array_size(libraries) < LIBRARIES_MAX && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%*s %7s %*s %15s %" SCNu64 " %4095[^\n]", permissions, device, &inode, path) != 4 ||
		    permissions[2] != 'x' || path[0] != '/' || strcmp(path, last) == 0)
			continue;
		memcpy(last, path, sizeof(last));
		look_at_library(pid, path, device, inode, libraries);
	}
	if (maps)
		fclose(maps);
	return libraries;
}
