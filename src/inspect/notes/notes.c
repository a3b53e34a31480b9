/* SPDX-License-Identifier: BSD-2-Clause */
/* notes - reads USDT notes with libelf, which checks the file's structure; the contents of a note are checked here. */
#include "inspect/notes/notes.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/must.h"

enum { NT_STAPSDT = 3, ADDRESSES = 3 /* location, base, semaphore */, PROBES_MAX = 1 << 16 };

/* Copy a NUL-terminated printable string at `*at`, and advance. False: it is not terminated, too long, or empty. */
static bool read_name(const char **at, const char *end, char *to)
{
	const char *nul = memchr(*at, '\0', (size_t)(end - *at));
	size_t bytes = nul ? (size_t)(nul - *at) : 0;

	if (bytes == 0 || bytes >= NOTES_NAME_BYTES)
		return false;
	for (size_t i = 0; i < bytes; i++) {
		if (!isgraph((unsigned char)(*at)[i]))
			return false;
	}
	memcpy(to, *at, bytes + 1);
	*at = nul + 1;
	return true;
}

/* "8@%rbx -4@$1 ...": number and sizes of the arguments. */
static void read_note_args(const char *at, const char *end, struct note_probe *probe)
{
	while (at < end && *at && probe->arg_count < NOTES_ARGS_MAX) {
		struct note_arg *arg = &probe->args[probe->arg_count++];
		bool is_signed = *at == '-';
		const char *digit = at + is_signed;

		*arg = (struct note_arg){ 0 };
		if (digit + 1 < end && *digit >= '1' && *digit <= '8' && digit[1] == '@')
			arg->bytes = (int8_t)(is_signed ? -(*digit - '0') : *digit - '0');
		while (at < end && *at && *at != ' ')
			at++;
		while (at < end && *at == ' ')
			at++;
	}
}

/* Needed to read the addresses of a note. */
struct addresses {
	Elf *elf;
	size_t bytes;  /* of each */
	uint64_t base; /* present address of section .stapsdt.base; 0: none */
};

static uint64_t read_note_address(const struct addresses *addresses, const char *at)
{
	uint64_t wide;
	uint32_t narrow;

	memcpy(&narrow, at, sizeof(narrow));
	if (addresses->bytes == sizeof(narrow))
		return narrow;
	memcpy(&wide, at, sizeof(wide));
	return wide;
}

/* Convert an address to a file offset. The file may have been prelinked since, which moved addresses and base alike. */
static uint64_t file_offset_of(const struct addresses *addresses, uint64_t address, uint64_t base)
{
	size_t count = 0;

	if (addresses->base && base)
		address += addresses->base - base;
	(void)elf_getphdrnum(addresses->elf, &count); /* 0 after an error */
	for (size_t i = 0; i < count; i++) {
		GElf_Phdr segment;

		if (gelf_getphdr(addresses->elf, (int)i, &segment) && segment.p_type == PT_LOAD &&
		    address >= segment.p_vaddr && address - segment.p_vaddr < segment.p_filesz)
			return address - segment.p_vaddr + segment.p_offset;
	}
	return 0;
}

static void read_note(struct notes *notes, const char *at, size_t bytes, const struct addresses *addresses)
{
	const char *end = at + bytes;
	struct note_probe probe = { .site_count = 1 };

	if (bytes < ADDRESSES * addresses->bytes || notes->probe_count >= PROBES_MAX)
		return;
	probe.site_offset = file_offset_of(addresses, read_note_address(addresses, at),
					   read_note_address(addresses, at + addresses->bytes));
	probe.semaphore = read_note_address(addresses, at + 2 * addresses->bytes) != 0;
	at += ADDRESSES * addresses->bytes;
	if (!read_name(&at, end, probe.provider) || !read_name(&at, end, probe.name))
		return;
	read_note_args(at, end, &probe);
	if (is_power_of_two(notes->probe_count + 1) || notes->probe_count == 0) {
		notes->probes = realloc(notes->probes, (notes->probe_count + 1) * 2 * sizeof(probe));
		must(notes->probes);
	}
	notes->probes[notes->probe_count++] = probe;
	notes->site_count++;
}

static void read_build_id(struct notes *notes, const uint8_t *at, size_t bytes)
{
	for (size_t i = 0; i < min_u64(bytes, (sizeof(notes->build_id) - 1) / 2); i++) {
		notes->build_id[2 * i] = "0123456789abcdef"[at[i] >> 4];
		notes->build_id[2 * i + 1] = "0123456789abcdef"[at[i] & 15];
	}
}

static void read_note_section(struct notes *notes, Elf_Scn *section, const struct addresses *addresses)
{
	Elf_Data *data = elf_getdata(section, NULL);
	size_t at = 0, next, name_at, desc_at;
	GElf_Nhdr note;

	while (data && (next = gelf_getnote(data, at, &note, &name_at, &desc_at)) > 0) {
		const char *name = (const char *)data->d_buf + name_at, *desc = (const char *)data->d_buf + desc_at;

		if (note.n_namesz == sizeof("stapsdt") && memcmp(name, "stapsdt", sizeof("stapsdt")) == 0 &&
		    note.n_type == NT_STAPSDT)
			read_note(notes, desc, note.n_descsz, addresses);
		else if (note.n_namesz == sizeof("GNU") && memcmp(name, "GNU", sizeof("GNU")) == 0 &&
			 note.n_type == NT_GNU_BUILD_ID && !notes->build_id[0])
			read_build_id(notes, (const uint8_t *)desc, note.n_descsz);
		at = next;
	}
}

static int compare_note_probes(const void *left, const void *right)
{
	const struct note_probe *a = left, *b = right;
	int provider = strcmp(a->provider, b->provider);

	return provider ? provider : strcmp(a->name, b->name);
}

/* Merge the sites of a probe into one row. */
static void join_sites(struct notes *notes)
{
	uint32_t kept = 0;

	qsort(notes->probes, notes->probe_count, sizeof(*notes->probes), compare_note_probes);
	for (uint32_t i = 0; i < notes->probe_count; i++) {
		struct note_probe *last = kept ? &notes->probes[kept - 1] : NULL;

		if (last && compare_note_probes(last, &notes->probes[i]) == 0) {
			last->site_count++;
			last->semaphore |= notes->probes[i].semaphore;
		} else {
			notes->probes[kept++] = notes->probes[i];
		}
	}
	notes->probe_count = kept;
}

static void find_base(struct addresses *addresses)
{
	Elf_Scn *section = NULL;
	size_t names;

	if (elf_getshdrstrndx(addresses->elf, &names) != 0)
		return;
	while ((section = elf_nextscn(addresses->elf, section))) {
		GElf_Shdr header;
		const char *name = gelf_getshdr(section, &header) ? elf_strptr(addresses->elf, names, header.sh_name)
								  : NULL;

		if (name && strcmp(name, ".stapsdt.base") == 0)
			addresses->base = header.sh_addr;
	}
}

int notes_read(const char *path, struct notes *notes_ret, struct fathom_fault *why)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct addresses addresses = { 0 };
	Elf_Scn *section = NULL;
	Elf *elf;

	*notes_ret = (struct notes){ 0 };
	if (fd < 0)
		return fault(why, -errno, "cannot open %s: %s", path, strerror(errno));
	must(elf_version(EV_CURRENT) != EV_NONE);
	elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	if (!elf || elf_kind(elf) != ELF_K_ELF) {
		elf_end(elf);
		close(fd);
		return fault(why, -ENOEXEC, "%s is not an ELF file", path);
	}
	addresses.elf = elf;
	addresses.bytes = gelf_getclass(elf) == ELFCLASS32 ? sizeof(uint32_t) : sizeof(uint64_t);
	find_base(&addresses);
	while ((section = elf_nextscn(elf, section))) {
		GElf_Shdr header;

		if (gelf_getshdr(section, &header) && header.sh_type == SHT_NOTE)
			read_note_section(notes_ret, section, &addresses);
	}
	elf_end(elf);
	close(fd);
	join_sites(notes_ret);
	return 0;
}

void notes_free(struct notes *notes)
{
	free(notes->probes);
	*notes = (struct notes){ 0 };
}
