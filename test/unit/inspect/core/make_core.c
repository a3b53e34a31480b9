/* SPDX-License-Identifier: BSD-2-Clause */
#include "make_core.h"

#include <elf.h>
#include <string.h>

enum {
	PAGE = 4096,
	NOTES_AT = 1024,
	SEGMENTS_AT = 2 * PAGE,
	PRSTATUS_BYTES = 336,
	SIGINFO_BYTES = 128,
	PRPSINFO_BYTES = 136
};
enum { SEGMENT_NOTE, SEGMENT_HEADER, SEGMENT_CODE, SEGMENT_DATA, SEGMENT_GUARD, SEGMENT_STACK, SEGMENTS };

static const uint8_t build_id[] = { 0xde, 0xad, 0xbe, 0xef, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 };

static void put(uint8_t *to, size_t offset, uint64_t value, size_t bytes)
{
	memcpy(to + offset, &value, bytes);
}

/* Append a note; returns its end. */
static size_t add_note(uint8_t *to, size_t at, uint32_t type, const char *name, const uint8_t *data, size_t bytes)
{
	const Elf64_Nhdr header = { .n_namesz = (uint32_t)strlen(name) + 1, .n_descsz = (uint32_t)bytes, .n_type = type };

	memcpy(to + at, &header, sizeof(header));
	at += sizeof(header);
	memcpy(to + at, name, header.n_namesz);
	at += (header.n_namesz + 3) & ~3u;
	memcpy(to + at, data, bytes);
	return at + ((bytes + 3) & ~(size_t)3);
}

static size_t add_thread(uint8_t *to, size_t at, int32_t tid, int signal, const struct made_core *made)
{
	uint8_t status[PRSTATUS_BYTES] = { 0 };

	put(status, 12, (uint64_t)signal, 2);
	put(status, 32, (uint64_t)tid, 4);
	put(status, 112 + 8 * 10, made->rax, 8);
	put(status, 112 + 8 * 16, made->rip, 8);
	put(status, 112 + 8 * 19, made->rsp, 8);
	put(status, 112 + 8 * 4, MADE_STACK_END - 16, 8); /* rbp */
	return add_note(to, at, NT_PRSTATUS, "CORE", status, sizeof(status));
}

/* /made/program: the page with its ELF header, and the page of code. */
static size_t add_files(uint8_t *to, size_t at)
{
	static const char names[] = "/made/program\0/made/program";
	uint8_t files[16 + 2 * 24 + sizeof(names)];

	put(files, 0, 2, 8);
	put(files, 8, PAGE, 8);
	put(files, 16, MADE_HEADER, 8);
	put(files, 24, MADE_HEADER + PAGE, 8);
	put(files, 32, 0, 8);
	put(files, 40, MADE_CODE, 8);
	put(files, 48, MADE_CODE + PAGE, 8);
	put(files, 56, 1, 8);
	memcpy(files + 64, names, sizeof(names));
	return add_note(to, at, NT_FILE, "CORE", files, sizeof(files));
}

static size_t add_notes(uint8_t *to, const struct made_core *made)
{
	uint8_t process[PRPSINFO_BYTES] = { 0 }, signal[SIGINFO_BYTES] = { 0 }, vector[32] = { 0 };
	size_t at = add_thread(to, NOTES_AT, MADE_TID, made->signal, made);

	put(process, 24, MADE_TID, 4);
	memcpy(process + 40, "program", 8);
	memcpy(process + 56, "/made/program --fast ", 22);
	at = add_note(to, at, NT_PRPSINFO, "CORE", process, sizeof(process));
	put(signal, 0, (uint64_t)made->signal, 4);
	put(signal, 8, (uint64_t)(uint32_t)made->code, 4);
	put(signal, 16, made->address, 8);
	at = add_note(to, at, NT_SIGINFO, "CORE", signal, sizeof(signal));
	put(vector, 0, AT_PHDR, 8);
	put(vector, 8, MADE_HEADER + sizeof(Elf64_Ehdr), 8);
	at = add_note(to, at, NT_AUXV, "CORE", vector, sizeof(vector));
	at = add_files(to, at);
	/* the other registers of a worker of io_uring are copies of those of another thread */
	return add_thread(to, at, MADE_TID + 1, 0,
			  made->has_io_worker ? &(struct made_core){ .rax = made->rax }
					      : &(struct made_core){ .rip = MADE_CODE + 64, .rsp = MADE_STACK + 4096 });
}

/* The first page of the program's file: two program headers and the build-id. */
static void put_program(uint8_t *page)
{
	const Elf64_Ehdr elf = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
				 .e_type = ET_EXEC,
				 .e_machine = EM_X86_64,
				 .e_phoff = sizeof(elf),
				 .e_phentsize = sizeof(Elf64_Phdr),
				 .e_phnum = 2 };
	const Elf64_Phdr rows[] = {
		{ .p_type = PT_LOAD, .p_flags = PF_R, .p_vaddr = MADE_HEADER, .p_filesz = 2 * PAGE, .p_memsz = 2 * PAGE },
		{ .p_type = PT_NOTE, .p_offset = 512, .p_vaddr = MADE_HEADER + 512, .p_filesz = 36, .p_memsz = 36 },
	};

	memcpy(page, &elf, sizeof(elf));
	memcpy(page + sizeof(elf), rows, sizeof(rows));
	(void)add_note(page, 512, NT_GNU_BUILD_ID, "GNU", build_id, sizeof(build_id));
}

size_t make_core(const struct made_core *made, uint8_t *to)
{
	const Elf64_Ehdr elf = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
				 .e_type = ET_CORE,
				 .e_machine = EM_X86_64,
				 .e_phoff = sizeof(elf),
				 .e_phentsize = sizeof(Elf64_Phdr),
				 .e_phnum = SEGMENTS };
	static const struct {
		uint64_t at, pages, flags;
	} places[SEGMENTS] = {
		[SEGMENT_HEADER] = { MADE_HEADER, 1, PF_R },	  [SEGMENT_CODE] = { MADE_CODE, 1, PF_R | PF_X },
		[SEGMENT_DATA] = { MADE_DATA, 2, PF_R | PF_W },	  [SEGMENT_GUARD] = { MADE_GUARD, 1, 0 },
		[SEGMENT_STACK] = { MADE_STACK, 2, PF_R | PF_W },
	};
	Elf64_Phdr rows[SEGMENTS] = { { 0 } };
	size_t at = SEGMENTS_AT;

	memset(to, 0, MADE_BYTES_MAX);
	for (int i = SEGMENT_HEADER; i < SEGMENTS; i++) {
		uint64_t saved = i == SEGMENT_GUARD ? 0 : places[i].pages * PAGE;

		rows[i] = (Elf64_Phdr){ .p_type = PT_LOAD,
					.p_flags = (uint32_t)places[i].flags,
					.p_offset = at,
					.p_vaddr = places[i].at,
					.p_filesz = saved,
					.p_memsz = places[i].pages * PAGE };
		at += saved;
	}
	rows[SEGMENT_NOTE] =
		(Elf64_Phdr){ .p_type = PT_NOTE, .p_offset = NOTES_AT, .p_filesz = add_notes(to, made) - NOTES_AT };
	memcpy(to, &elf, sizeof(elf));
	memcpy(to + sizeof(elf), rows, sizeof(rows));
	put_program(to + rows[SEGMENT_HEADER].p_offset);
	if (made->rip >= MADE_CODE && made->rip < MADE_CODE + PAGE && made->instruction)
		memcpy(to + rows[SEGMENT_CODE].p_offset + (made->rip - MADE_CODE), made->instruction,
		       made->instruction_bytes);
	memcpy(to + rows[SEGMENT_DATA].p_offset + 100, MADE_TEXT, sizeof(MADE_TEXT));
	memcpy(to + rows[SEGMENT_DATA].p_offset + PAGE - 4, "across pages", 13);
	/* one frame: the caller's frame pointer, and its address */
	put(to, rows[SEGMENT_STACK].p_offset + 2 * PAGE - 8, MADE_CODE + 0x20, 8);
	return at;
}
