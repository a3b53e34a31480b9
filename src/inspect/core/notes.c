/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * notes - the notes of a core: registers, the signal, the command line, the auxiliary vector, the mapped files.
 *
 * The kernel and gdb write the notes of the thread with the signal first. The layouts are those of <sys/procfs.h> on 64-bit
 * Linux; each field is read only if the note is long enough.
 */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "inspect/core/internal.h"

enum {
	/* struct elf_prstatus */
	PRSTATUS_CURSIG = 12,
	PRSTATUS_PID = 32,
	PRSTATUS_REGISTERS = 112,
	/* struct elf_prpsinfo */
	PRPSINFO_PID = 24,
	PRPSINFO_FNAME = 40,
	PRPSINFO_FNAME_BYTES = 16,
	PRPSINFO_ARGUMENTS = 56,
	PRPSINFO_ARGUMENTS_BYTES = 80,
	/* siginfo_t */
	SIGINFO_CODE = 8,
	SIGINFO_UNION = 16,
	SIGINFO_SYSCALL = 24, /* of SIGSYS */
};

struct note {
	uint32_t type;
	const uint8_t *data;
	uint64_t bytes;
};

static uint64_t u64_at(const struct note *note, uint64_t offset)
{
	uint64_t value = 0;

	if (offset + sizeof(value) <= note->bytes)
		memcpy(&value, note->data + offset, sizeof(value));
	return value;
}

static uint32_t u32_at(const struct note *note, uint64_t offset)
{
	uint32_t value = 0;

	if (offset + sizeof(value) <= note->bytes)
		memcpy(&value, note->data + offset, sizeof(value));
	return value;
}

static void copy_text(char *to, size_t to_bytes, const struct note *note, uint64_t offset, uint64_t bytes)
{
	size_t used = 0;

	for (; used + 1 < to_bytes && used < bytes && offset + used < note->bytes && note->data[offset + used]; used++) {
		uint8_t c = note->data[offset + used];

		to[used] = c < 0x20 || c == 0x7f ? '?' : (char)c;
	}
	while (used && to[used - 1] == ' ')
		used--;
	to[used] = '\0';
}

/* ---- threads ---- */

/* The place in struct user_regs_struct of each DWARF register. */
static const uint8_t x86_places[] = { 10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0, 16 };

static void read_registers(const struct core *core, const struct note *note, struct core_thread *thread)
{
	if (core->machine == EM_X86_64) {
		for (uint32_t i = 0; i < ARRAY_COUNT(x86_places); i++)
			thread->registers[i] = u64_at(note, PRSTATUS_REGISTERS + 8 * (uint64_t)x86_places[i]);
	} else if (core->machine == EM_AARCH64) {
		for (uint32_t i = 0; i < CORE_REGISTERS_MAX; i++)
			thread->registers[i] = u64_at(note, PRSTATUS_REGISTERS + 8 * (uint64_t)i);
	}
	thread->pc = thread->registers[core_pc_number(core)];
	thread->sp = thread->registers[core_sp_number(core)];
}

/*
 * A worker of io_uring never returns to the program. Its registers are a copy of those of the thread that started it; the
 * kernel clears the instruction and the stack pointer of the copy, so that debuggers can recognise it.
 */
static bool is_io_worker(const struct core *core, const struct note *note, const struct core_thread *thread)
{
	uint64_t count = core->machine == EM_X86_64 ? 20 : CORE_REGISTERS_MAX; /* up to the stack pointer */

	if (core->machine != EM_X86_64 && core->machine != EM_AARCH64)
		return false;
	return core->thread_count > 1 && note->bytes >= PRSTATUS_REGISTERS + 8 * count && !thread->pc && !thread->sp;
}

static void read_thread(struct core *core, const struct note *note)
{
	struct core_thread *thread;

	if (note->bytes < PRSTATUS_REGISTERS || core->thread_count == CORE_THREADS_MAX)
		return;
	if (core->thread_count == core->thread_room) {
		core->thread_room = core->thread_room ? 2 * core->thread_room : 16;
		core->threads = realloc(core->threads, core->thread_room * sizeof(*core->threads));
		must(core->threads);
	}
	thread = &core->threads[core->thread_count++];
	*thread = (struct core_thread){ .tid = (int32_t)u32_at(note, PRSTATUS_PID),
					.signal = (int)(u32_at(note, PRSTATUS_CURSIG) & 0xffff) };
	read_registers(core, note, thread);
	thread->is_io_worker = is_io_worker(core, note, thread);
}

/* It belongs to the thread in front of it; the first is that of the crash. */
static void read_signal(struct core *core, const struct note *note)
{
	if (core->has_signal || note->bytes < SIGINFO_UNION + 8 || u32_at(note, 0) == 0)
		return;
	core->has_signal = true;
	core->signal = (int)u32_at(note, 0);
	core->code = (int)u32_at(note, SIGINFO_CODE);
	core->signal_address = u64_at(note, SIGINFO_UNION);
	core->signal_call = u32_at(note, SIGINFO_SYSCALL);
}

static void read_process(struct core *core, const struct note *note)
{
	core->info.pid = (int32_t)u32_at(note, PRPSINFO_PID);
	copy_text(core->name, sizeof(core->name), note, PRPSINFO_FNAME, PRPSINFO_FNAME_BYTES);
	copy_text(core->command, sizeof(core->command), note, PRPSINFO_ARGUMENTS, PRPSINFO_ARGUMENTS_BYTES);
}

static void read_auxiliary(struct core *core, const struct note *note)
{
	for (uint64_t at = 0; at + 16 <= note->bytes; at += 16) {
		uint64_t value = u64_at(note, at + 8);

		switch (u64_at(note, at)) {
		case AT_PHDR:
			core->at_phdr = value;
			break;
		case AT_EXECFN:
			core->at_execfn = value;
			break;
		default:
			break;
		}
	}
}

/* ---- mapped files ---- */

static int compare_files(const void *left, const void *right)
{
	const struct core_file_row *a = left, *b = right;

	return a->from < b->from ? -1 : a->from > b->from;
}

/* The count, the unit of offsets, a row of three numbers for each mapping, the names in the same order. */
static void read_files(struct core *core, const struct note *note)
{
	uint64_t count = min_u64(u64_at(note, 0), CORE_FILE_ROWS_MAX), unit = u64_at(note, 8), name;
	const char *last = NULL;

	if (core->files || note->bytes < 16)
		return;
	count = min_u64(count, (note->bytes - 16) / 24);
	name = 16 + 24 * count;
	core->files = calloc(count + 1, sizeof(*core->files));
	must(core->files);
	for (uint64_t i = 0; i < count && name < note->bytes; i++) {
		const char *text = (const char *)note->data + name;
		uint64_t length = strnlen(text, note->bytes - name);
		struct core_file_row *row = &core->files[core->file_count];

		row->from = u64_at(note, 16 + 24 * i);
		row->to = u64_at(note, 24 + 24 * i);
		row->offset = u64_at(note, 32 + 24 * i) * unit;
		/* rows of one file share the text, which is compared by its address later */
		if (!last || strlen(last) != min_u64(length, CORE_PATH_BYTES) || memcmp(last, text, strlen(last)) != 0)
			last = core_keep_text(core, text, min_u64(length, CORE_PATH_BYTES));
		row->path = last;
		if (row->from < row->to)
			core->file_count++;
		name += length + 1;
	}
	if (core->file_count)
		qsort(core->files, core->file_count, sizeof(*core->files), compare_files);
}

/* ---- all ---- */

static void read_note(struct core *core, const struct note *note)
{
	switch (note->type) {
	case NT_PRSTATUS:
		read_thread(core, note);
		break;
	case NT_PRPSINFO:
		read_process(core, note);
		break;
	case NT_SIGINFO:
		read_signal(core, note);
		break;
	case NT_AUXV:
		read_auxiliary(core, note);
		break;
	case NT_FILE:
		read_files(core, note);
		break;
	default:
		break;
	}
}

void core_read_notes(struct core *core, const uint8_t *notes, uint64_t bytes)
{
	uint64_t at = 0;

	while (bytes - at >= sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr header;
		struct note note;
		uint64_t name, data;

		memcpy(&header, notes + at, sizeof(header));
		name = at + sizeof(header);
		data = name + (((uint64_t)header.n_namesz + 3) & ~(uint64_t)3);
		if (data > bytes)
			break;
		note.type = header.n_type;
		note.data = notes + data;
		note.bytes = min_u64(header.n_descsz, bytes - data);
		/* "LINUX" notes have other registers, in which type numbers repeat */
		if (header.n_namesz == 5 && memcmp(notes + name, "CORE", 5) == 0)
			read_note(core, &note);
		at = data + (((uint64_t)header.n_descsz + 3) & ~(uint64_t)3);
		if (at > bytes)
			break;
	}
}
