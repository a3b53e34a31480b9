/* SPDX-License-Identifier: BSD-2-Clause */
/* crash - the signal, the address and the instruction of a crash, in words. */
#include <elf.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "inspect/core/internal.h"
#include "inspect/core/values.h"
#include "inspect/trace/trace_file.h"

#ifndef SYS_SECCOMP
#define SYS_SECCOMP 1
#endif

enum { NULL_BYTES_MAX = 64 * 1024, STACK_REACH_BYTES = 1 << 20, CODE_BYTES = 15 };

/* Append to a text of CORE_WORDS_BYTES; what does not fit is left out. */
static void add(char *words, const char *format, ...) PRINTF_LIKE(2, 3);
static void add(char *words, const char *format, ...)
{
	size_t used = strlen(words);
	va_list args;

	va_start(args, format);
	(void)vsnprintf(words + used, CORE_WORDS_BYTES - used, format, args);
	va_end(args);
}

static const char *cause_of(int number, int code)
{
	static const struct {
		int number, code;
		const char *text;
	} rows[] = {
		{ SIGFPE, FPE_INTDIV, "an integer division by zero, or a quotient that does not fit" },
		{ SIGFPE, FPE_INTOVF, "an integer overflow" },
		{ SIGFPE, FPE_FLTDIV, "a floating-point division by zero" },
		{ SIGFPE, FPE_FLTINV, "an invalid floating-point operation" },
		{ SIGILL, ILL_ILLOPC, "an invalid instruction" },
		{ SIGILL, ILL_ILLOPN,
		  "an invalid instruction (__builtin_trap(), or an instruction that this processor lacks)" },
		{ SIGILL, ILL_PRVOPC, "a privileged instruction" },
		{ SIGBUS, BUS_ADRALN, "an address that is not aligned" },
		{ SIGBUS, BUS_ADRERR, "memory behind the end of a mapped file, or for which the file system has no space" },
		{ SIGBUS, BUS_OBJERR, "a device's error" },
		{ SIGBUS, BUS_MCEERR_AR, "broken memory (a machine check)" },
	};

	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		if (rows[i].number == number && rows[i].code == code)
			return rows[i].text;
	}
	return NULL;
}

/* ---- where the address lies ---- */

static void describe_mapping(const struct core_mapping *mapping, uint64_t address, char *words)
{
	add(words, "0x%" PRIx64 "-0x%" PRIx64 " %c%c%c", mapping->from, mapping->to, mapping->is_readable ? 'r' : '-',
	    mapping->is_writable ? 'w' : '-', mapping->is_executable ? 'x' : '-');
	if (mapping->path)
		add(words, ", %s at offset 0x%" PRIx64, mapping->path, mapping->file_offset + (address - mapping->from));
}

/* The first mapping at or behind `address`; NULL: none. */
static const struct core_segment *segment_behind(const struct core *core, uint64_t address)
{
	for (uint32_t i = 0; i < core->segment_count; i++) {
		if (core->segments[i].to > address)
			return &core->segments[i];
	}
	return NULL;
}

static void describe_place(const struct core *core, uint64_t address, char *words)
{
	const struct core_segment *behind = segment_behind(core, address);
	struct core_mapping mapping;

	if (core_mapping_of(core, address, &mapping)) {
		add(words, "in the mapping ");
		describe_mapping(&mapping, address, words);
		return;
	}
	add(words, "nothing is mapped there");
	if (behind && behind != core->segments) {
		add(words, "; 0x%" PRIx64 " bytes behind 0x%" PRIx64 "-0x%" PRIx64, address - behind[-1].to,
		    behind[-1].from, behind[-1].to);
		if (core_mapping_of(core, behind[-1].from, &mapping) && mapping.path)
			add(words, " (%s)", mapping.path);
	}
	if (behind) {
		add(words, "; 0x%" PRIx64 " bytes in front of 0x%" PRIx64 "-0x%" PRIx64, behind->from - address,
		    behind->from, behind->to);
		if (core_mapping_of(core, behind->from, &mapping) && mapping.path)
			add(words, " (%s)", mapping.path);
	}
}

/* Is it the address below a stack that is full? */
static bool is_stack_overflow(const struct core *core, const struct core_thread *thread, uint64_t address)
{
	const struct core_segment *segment = core_segment_of(core, address);
	uint64_t apart = address > thread->sp ? address - thread->sp : thread->sp - address;

	if (apart > STACK_REACH_BYTES || (segment && (segment->flags & PF_W)))
		return false;
	/* the stack is behind the guard page, over which a large frame may reach */
	segment = segment_behind(core, segment ? segment->to : address);
	while (segment && !(segment->flags & (PF_R | PF_W)) && segment->from - address <= STACK_REACH_BYTES)
		segment = segment_behind(core, segment->to);
	return segment && (segment->flags & PF_W) && segment->from - address <= STACK_REACH_BYTES;
}

/* ---- what the instruction did ---- */

/* "a null pointer plus 16 (rax is 0)" */
static void add_pointer(const struct core *core, const struct core_thread *thread, const struct core_access *access,
			char *words)
{
	uint64_t address = access->address, base = access->has_base ? thread->registers[access->base] : 0;
	const char *name = access->has_base ? core_register_name(core, access->base) : "";
	const char *sign = access->distance < 0 ? "minus" : "plus";
	uint64_t apart = access->distance < 0 ? -(uint64_t)access->distance : (uint64_t)access->distance;

	if (access->has_base && base == 0 && access->distance > 0)
		add(words, ", a null pointer plus %" PRIu64 " (register %s is 0)", apart, name);
	else if (access->has_base && base == 0 && !apart)
		add(words, ", a null pointer (register %s)", name);
	else if (address < NULL_BYTES_MAX)
		add(words, ", near the null pointer");
	else if (access->has_base && apart)
		add(words, ", the pointer 0x%" PRIx64 " in register %s %s %" PRIu64, base, name, sign, apart);
	else if (access->has_base)
		add(words, ", the pointer in register %s", name);
}

/* An access to memory: SIGSEGV and SIGBUS. */
static void add_access(const struct core *core, const struct core_thread *thread, struct core_crash *crash)
{
	bool general = crash->signal == SIGSEGV && crash->code == SI_KERNEL; /* the processor gave no address */
	struct core_access access = { 0 };
	struct core_mapping mapping;
	uint8_t code[CODE_BYTES];
	size_t bytes = CODE_BYTES;
	char *words = crash->words;

	if (!general && crash->address == crash->instruction) {
		add(words, "a jump to address 0x%" PRIx64, crash->address);
		if (crash->address < NULL_BYTES_MAX)
			add(words, ": a call of a null pointer");
		return;
	}
	while (bytes && !core_read(core, crash->instruction, code, bytes))
		bytes--;
	if (core->machine != EM_X86_64 || !bytes ||
	    !core_decode_access(code, bytes, thread->registers, crash->address, &access) ||
	    (!general && crash->address - access.address >= 64))
		access = (struct core_access){ .address = crash->address };
	if (general) {
		crash->address = access.address;
		crash->has_address = access.reads || access.writes;
	}
	add(words, "%s",
	    access.reads && access.writes ? "read and write"
	    : access.writes		  ? "write"
	    : access.reads		  ? "read"
					  : "access");
	if (access.bytes)
		add(words, " of %u byte%s", access.bytes, access.bytes == 1 ? "" : "s");
	if (crash->has_address)
		add(words, " at address 0x%" PRIx64, crash->address);
	add_pointer(core, thread, &access, words);
	if (general)
		add(words, "; %s",
		    crash->has_address && (crash->address + ((uint64_t)1 << 47)) >> 48
			    ? "this is no address at all (not canonical), as in overwritten or freed memory"
			    : "the processor refused it without an address");
	if (!general && is_stack_overflow(core, thread, crash->address))
		add(words, ": the stack has overflowed");
	else if (!general && access.writes && core_mapping_of(core, crash->address, &mapping) && !mapping.is_writable)
		add(words, ", which is read-only");
}

/* ---- where ---- */

static void add_frame_words(const struct core_frame *frame, const char *before, char *words)
{
	if (frame->function) {
		add(words, "%s%s()", before, frame->function);
		if (frame->file)
			add(words, " at %s:%d", frame->file, frame->line);
	} else if (frame->module) {
		add(words, "%s%s at 0x%" PRIx64, before, frame->module, frame->offset);
	}
}

/* "in memcpy() at a.S:3, called by function() at file:line": the first function of the program is the one to look at. */
static void add_function(struct core *core, const struct core_thread *thread, bool is_abort, char *words)
{
	struct core_frame frames[CORE_FRAMES_MAX];
	const char *end, *program = core->program ? core_module_name(core->program) : "";
	uint32_t count = core_backtrace(core, thread, frames, &end), at = 0, own;

	/* of a call of a null pointer, the caller */
	while (at + 1 < count && !frames[at].function && !frames[at].module)
		at++;
	for (own = at; own < count && (!frames[own].module || strcmp(frames[own].module, program) != 0);)
		own++;
	if (at < count && !is_abort)
		add_frame_words(&frames[at], ", in ", words);
	while (own > 0 && own < count && !frames[own - 1].module && frames[own - 1].function && !frames[own - 1].pc)
		own--; /* inlined into it */
	if (own < count && own > at)
		add_frame_words(&frames[own], is_abort ? ", in " : ", called by ", words);
}

static bool has_address(int number, int code)
{
	return code > 0 && (number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL);
}

static void describe_signal(struct core *core, struct core_crash *crash)
{
	const struct core_thread *thread = core->thread_count ? &core->threads[0] : NULL;
	const char *name = sigabbrev_np(crash->signal), *cause = cause_of(crash->signal, crash->code);

	if (name)
		snprintf(crash->signal_name, sizeof(crash->signal_name), "SIG%s", name);
	else
		snprintf(crash->signal_name, sizeof(crash->signal_name), "signal %d", crash->signal);
	add(crash->words, "%s: ", crash->signal_name);
	if (thread && (crash->signal == SIGSEGV || crash->signal == SIGBUS) && crash->code > 0)
		add_access(core, thread, crash);
	if (crash->signal == SIGSYS && crash->code == SYS_SECCOMP)
		add(crash->words, "system call %u, which a filter (seccomp) forbids", core->signal_call);
	if (cause)
		add(crash->words, "%s%s", crash->signal == SIGBUS && crash->code > 0 ? ": " : "", cause);
	if (crash->code <= 0 && crash->signal == SIGABRT && crash->sender == core->info.pid) {
		add(crash->words, "the program called abort()");
		core_find_abort_message(core, crash);
	} else if (crash->code <= 0 && crash->sender)
		add(crash->words, "sent by %s %d", crash->sender == core->info.pid ? "the process itself," : "process",
		    crash->sender);
	if (thread)
		add_function(core, thread, crash->signal == SIGABRT, crash->words);
	if (thread && thread->name[0])
		add(crash->words, ", thread %s", thread->name);
	if (crash->has_address && crash->signal != SIGFPE)
		describe_place(core, crash->address, crash->mapping);
}

static void describe_must(struct core *core, struct core_crash *crash)
{
	char values[CORE_WORDS_BYTES] = "", function[128] = "";

	crash->kind = CORE_MUST;
	crash->words[0] = '\0';
	core_must_values(core, crash, values, function);
	add(crash->words, "must(%s) failed at %s", crash->condition, crash->place);
	if (function[0])
		add(crash->words, ", in %s()", function);
	if (core->thread_count && core->threads[0].name[0])
		add(crash->words, ", thread %s", core->threads[0].name);
	add(crash->values, "%s", values);
}

void core_crash(struct core *core, struct core_crash *crash_ret)
{
	const struct reader_frozen *frozen = core->trace ? reader_info(core->trace)->frozen : NULL;
	struct core_crash *crash = crash_ret;

	(void)core_open_dwfl(core); /* instructions are in the files of the program and its libraries */
	*crash = (struct core_crash){ .signal = core->signal, .code = core->code };
	if (!core->has_signal && core->thread_count && core->threads[0].signal) {
		crash->signal = core->threads[0].signal;
		core_add_remark(core, "the core has no details of the signal (no NT_SIGINFO)");
	}
	if (core->thread_count) {
		crash->tid = core->threads[0].tid;
		crash->instruction = core->threads[0].pc;
	}
	if (!core->has_signal && !core->thread_count) {
		crash->kind = CORE_UNKNOWN;
		add(crash->words, "it is not known how the process ended: the notes of the core are missing");
		return;
	}
	/* gdb stops a process by these to make a core of it */
	if (!crash->signal || crash->signal == SIGSTOP || crash->signal == SIGTRAP || crash->signal == SIGINT) {
		add(crash->words, "no crash: the core was made of a process that ran");
		return;
	}
	crash->kind = CORE_SIGNAL;
	crash->sender = crash->code <= 0 && core->has_signal ? (int32_t)core->signal_address : 0;
	crash->has_address = core->has_signal && has_address(crash->signal, crash->code);
	crash->address = crash->has_address ? core->signal_address : 0;
	if (frozen && frozen->why == TRACE_FROZEN_MUST) {
		const char *place = frozen->place;

		while (strncmp(place, "../", 3) == 0)
			place += 3;
		add(crash->condition, "%s", frozen->text);
		add(crash->place, "%s", place);
	} else {
		core_find_must(core, crash);
	}
	if (crash->condition[0])
		describe_must(core, crash);
	else
		describe_signal(core, crash);
}
