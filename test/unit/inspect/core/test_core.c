/* SPDX-License-Identifier: BSD-2-Clause */
/* A made core: what it has, the words of its crash; damaged and truncated ones; files that are no cores. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zstd.h>

#include "base/bits.h"
#include "inspect/core/core.h"
#include "make_core.h"

static uint8_t bytes_of_core[MADE_BYTES_MAX];

/* mov 0x10(%rax),%rax; mov %rcx,(%rax); push %rbx; rep stos */
static const uint8_t load[] = { 0x48, 0x8b, 0x40, 0x10 }, store[] = { 0x48, 0x89, 0x08 }, push[] = { 0x53 };

static const struct made_core null_read = { .signal = SIGSEGV,
					    .code = SEGV_MAPERR,
					    .address = 0x10,
					    .rip = MADE_CODE + 0x40,
					    .rsp = MADE_STACK + 4096,
					    .instruction = load,
					    .instruction_bytes = sizeof(load) };

static int open_bytes(const uint8_t *bytes, size_t count, struct core **core_ret, struct fathom_fault *why)
{
	int fd = memfd_create("core", MFD_CLOEXEC), rc;
	char path[64];

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, count), count);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	rc = core_open(path, NULL, core_ret, why);
	close(fd);
	return rc;
}

static struct core *open_made(const struct made_core *made)
{
	struct fathom_fault why = { 0 };
	struct core *core;

	assert_int_equal(open_bytes(bytes_of_core, make_core(made, bytes_of_core), &core, &why), 0);
	return core;
}

static void the_process_its_threads_and_its_program_are_read(void **unused)
{
	struct core *core = open_made(&null_read);
	const struct core_info *info = core_info(core);

	assert_int_equal(info->pid, MADE_TID);
	assert_string_equal(info->name, "program");
	assert_string_equal(info->command, "/made/program --fast");
	assert_string_equal(info->program, "/made/program");
	assert_string_equal(info->build_id, "deadbeef0102030405060708090a0b0c0d0e0f10");
	assert_false(info->truncated);
	assert_int_equal(info->mapping_count, 5);
	assert_int_equal(info->thread_count, 2);
	assert_int_equal(core_thread_at(core, 0)->tid, MADE_TID);
	assert_int_equal(core_thread_at(core, 0)->signal, SIGSEGV);
	assert_int_equal(core_thread_at(core, 0)->pc, MADE_CODE + 0x40);
	assert_int_equal(core_thread_at(core, 1)->tid, MADE_TID + 1);
	assert_int_equal(core_thread_at(core, 1)->signal, 0);
	assert_null(core_trace(core));
	assert_non_null(strstr(info->trace_why, "holds no trace"));
	core_close(core);
}

static void memory_is_read_within_mappings_only(void **unused)
{
	struct core *core = open_made(&null_read);
	struct core_mapping mapping;
	char text[64], byte;

	assert_true(core_read_text(core, MADE_DATA + 100, text, sizeof(text)));
	assert_string_equal(text, MADE_TEXT);
	assert_true(core_read_text(core, MADE_DATA + 100, text, 7));
	assert_string_equal(text, "a text");
	assert_true(core_read_text(core, MADE_DATA + 4092, text, sizeof(text)));
	assert_string_equal(text, "across pages");
	assert_false(core_read_text(core, 16, text, sizeof(text)));
	assert_string_equal(text, "");
	assert_true(core_read(core, MADE_DATA + 8191, &byte, 1));
	assert_false(core_read(core, MADE_DATA + 8191, text, 2));
	assert_false(core_read(core, MADE_GUARD, &byte, 1)); /* mapped, but not saved */
	assert_false(core_read(core, UINT64_MAX, text, 2));
	assert_true(core_mapping_of(core, MADE_CODE + 5, &mapping));
	assert_string_equal(mapping.path, "/made/program");
	assert_int_equal(mapping.file_offset, 0x1000);
	assert_true(mapping.is_executable && !mapping.is_writable);
	assert_false(core_mapping_of(core, 1, &mapping));
	core_close(core);
}

static void check_words(const struct made_core *made, const char *words, const char *mapping)
{
	struct core *core = open_made(made);
	struct core_crash crash;

	core_crash(core, &crash);
	assert_non_null(strstr(crash.words, words) ? crash.words
						   : (print_error("\"%s\" lacks \"%s\"\n", crash.words, words), NULL));
	assert_non_null(strstr(crash.mapping, mapping)
				? crash.mapping
				: (print_error("\"%s\" lacks \"%s\"\n", crash.mapping, mapping), NULL));
	core_close(core);
}

static void a_crash_is_told_in_words(void **unused)
{
	struct made_core made = null_read;

	check_words(&made,
		    "SIGSEGV: read of 8 bytes at address 0x10, a null pointer plus 16 (register rax is 0), in program at "
		    "0x401040",
		    "nothing is mapped there; 0x3ffff0 bytes in front of 0x400000-0x401000 (/made/program)");
	made.instruction = store;
	made.instruction_bytes = sizeof(store);
	made.rax = made.address = MADE_CODE + 8;
	made.code = SEGV_ACCERR;
	check_words(&made, "SIGSEGV: write of 8 bytes at address 0x401008, the pointer in register rax, which is read-only",
		    "in the mapping 0x401000-0x402000 r-x, /made/program at offset 0x1008");
	made.instruction = push;
	made.instruction_bytes = sizeof(push);
	made.rsp = MADE_STACK;
	made.address = MADE_STACK - 8;
	check_words(&made,
		    "write of 8 bytes at address 0x6ffff8, the pointer 0x700000 in register rsp minus 8: the stack has "
		    "overflowed",
		    "in the mapping 0x6ff000-0x700000 ---");
	made.rip = made.address = 0;
	check_words(&made, "SIGSEGV: a jump to address 0x0: a call of a null pointer", "nothing is mapped there");
	made = null_read;
	made.code = SI_KERNEL;
	made.address = 0;
	made.rax = 0x6b6b6b6b6b6b6b6b;
	check_words(&made, "read of 8 bytes at address 0x6b6b6b6b6b6b6b7b", "nothing is mapped there");
	check_words(&made, "this is no address at all (not canonical)", "");
}

static void other_signals_have_their_cause(void **unused)
{
	struct made_core made = null_read;

	made.signal = SIGFPE;
	made.code = FPE_INTDIV;
	check_words(&made, "SIGFPE: an integer division by zero", "");
	made.signal = SIGABRT;
	made.code = SI_TKILL;
	made.address = MADE_TID;
	check_words(&made, "SIGABRT: the program called abort()", "");
	made.signal = SIGSEGV;
	made.code = SI_USER;
	made.address = 77;
	check_words(&made, "SIGSEGV: sent by process 77", "");
	made.signal = SIGBUS;
	made.code = BUS_ADRERR;
	made.address = 16;
	check_words(&made, "memory behind the end of a mapped file", "");
	made.signal = 0;
	check_words(&made, "no crash: the core was made of a process that ran", "");
}

static void a_forbidden_system_call_has_its_number(void **unused)
{
	struct made_core made = null_read;
	struct fathom_fault why;
	struct core_crash crash;
	struct core *core;
	size_t bytes;

	made.signal = SIGSYS;
	made.code = 1;
	bytes = make_core(&made, bytes_of_core);
	/* behind the address of the call in the signal's note */
	for (size_t at = 0; at + 28 < bytes; at += 4) {
		const uint32_t begin[] = { SIGSYS, 0, 1 }, call = 39;

		if (memcmp(bytes_of_core + at, begin, sizeof(begin)) == 0)
			memcpy(bytes_of_core + at + 24, &call, sizeof(call));
	}
	assert_int_equal(open_bytes(bytes_of_core, bytes, &core, &why), 0);
	core_crash(core, &crash);
	assert_non_null(strstr(crash.words, "SIGSYS: system call 39, which a filter (seccomp) forbids, in program"));
	core_close(core);
}

static void the_modules_have_build_ids_and_what_is_missing(void **unused)
{
	struct core *core = open_made(&null_read);
	struct core_module_info module;

	core_load(core);
	assert_int_equal(core_info(core)->module_count, 1);
	core_module_at(core, 0, &module);
	assert_string_equal(module.path, "/made/program");
	assert_string_equal(module.build_id, "deadbeef0102030405060708090a0b0c0d0e0f10");
	assert_null(module.file);
	assert_non_null(strstr(module.file_why, "/made/program: No such file"));
	core_close(core);
}

static void a_core_of_another_machine_keeps_all_but_registers(void **unused)
{
	size_t whole = make_core(&null_read, bytes_of_core);
	struct fathom_fault why;
	struct core *core;
	char text[64];

	((Elf64_Ehdr *)bytes_of_core)->e_machine = EM_RISCV;
	assert_int_equal(open_bytes(bytes_of_core, whole, &core, &why), 0);
	assert_non_null(strstr(core_remark_at(core, 0), "another kind of machine (ELF's number 243)"));
	assert_int_equal(core_info(core)->thread_count, 2);
	assert_int_equal(core_thread_at(core, 0)->pc, 0);
	assert_true(core_read_text(core, MADE_DATA + 100, text, sizeof(text)));
	core_close(core);
}

static void a_compressed_core_is_unpacked(void **unused)
{
	static uint8_t packed[MADE_BYTES_MAX];
	size_t whole = make_core(&null_read, bytes_of_core), bytes;
	struct fathom_fault why = { 0 };
	struct core *core;
	char text[64];

	bytes = ZSTD_compress(packed, sizeof(packed), bytes_of_core, whole, 3);
	assert_false(ZSTD_isError(bytes));
	assert_int_equal(open_bytes(packed, bytes, &core, &why), 0);
	assert_int_equal(core_info(core)->bytes, whole);
	assert_false(core_info(core)->truncated);
	assert_true(core_read_text(core, MADE_DATA + 100, text, sizeof(text)));
	assert_string_equal(text, MADE_TEXT);
	core_close(core);
	/* a part of it */
	if (open_bytes(packed, bytes - bytes / 3, &core, &why) == 0) {
		assert_true(core_info(core)->truncated);
		core_close(core);
	}
}

static void without_the_program_frame_pointers_are_followed(void **unused)
{
	struct core *core = open_made(&null_read);
	struct core_frame frames[CORE_FRAMES_MAX];
	const char *end;
	uint32_t count = core_backtrace(core, core_thread_at(core, 0), frames, &end);

	assert_int_equal(count, 2);
	assert_int_equal(frames[0].pc, MADE_CODE + 0x40);
	assert_string_equal(frames[0].module, "program");
	assert_null(frames[0].function);
	assert_int_equal(frames[1].pc, MADE_CODE + 0x20);
	assert_non_null(end);
	assert_non_null(strstr(core_info(core)->program_why, "No such file"));
	core_close(core);
}

/* Use all that a core has. */
static void a_worker_of_io_uring_has_no_stack(void **unused)
{
	struct made_core made = null_read;
	struct core_frame frames[CORE_FRAMES_MAX];
	struct core *core;
	const char *end;

	(void)unused;
	made.has_io_worker = true;
	core = open_made(&made);
	assert_false(core_thread_at(core, 0)->is_io_worker);
	assert_true(core_thread_at(core, 1)->is_io_worker);
	assert_int_equal(core_backtrace(core, core_thread_at(core, 1), frames, &end), 0);
	assert_string_equal(end, "a worker of io_uring: it has no stack of its own");
	core_close(core);
	made = (struct made_core){ .signal = SIGSEGV, .code = SEGV_MAPERR }; /* a jump to a null pointer, without a stack */
	core = open_made(&made);
	assert_false(core_thread_at(core, 0)->is_io_worker);
	core_close(core);
}

static void read_all(struct core *core)
{
	struct core_frame frames[CORE_FRAMES_MAX];
	struct core_mapping mapping;
	struct core_crash crash;
	struct core_list list;
	const char *end;

	core_crash(core, &crash);
	for (uint32_t i = 0; i < core_info(core)->thread_count; i++)
		(void)core_backtrace(core, core_thread_at(core, i), frames, &end);
	for (uint32_t i = 0; i < core_info(core)->mapping_count; i++)
		core_mapping_at(core, i, &mapping);
	for (uint32_t i = 0; core_list_name(i); i++)
		(void)core_list(core, i, &list);
	core_close(core);
}

static void a_truncated_core_gives_what_is_in_front_of_the_cut(void **unused)
{
	size_t whole = make_core(&null_read, bytes_of_core);
	struct fathom_fault why;
	struct core *core;

	for (size_t bytes = 1; bytes < whole; bytes += 61) {
		why = (struct fathom_fault){ 0 };
		if (open_bytes(bytes_of_core, bytes, &core, &why) != 0) {
			assert_true(why.text[0]);
			continue;
		}
		assert_true(core_info(core)->truncated || bytes > 8192);
		read_all(core);
	}
	/* the stack is missing */
	assert_int_equal(open_bytes(bytes_of_core, whole - 8192, &core, &why), 0);
	assert_true(core_info(core)->truncated);
	assert_non_null(strstr(core_remark_at(core, 0), "the core is truncated"));
	assert_int_equal(core_info(core)->thread_count, 2);
	read_all(core);
}

static void without_notes_the_end_of_the_process_is_not_known(void **unused)
{
	struct core_crash crash;
	struct fathom_fault why;
	struct core *core;

	(void)unused;
	(void)make_core(&null_read, bytes_of_core);
	assert_int_equal(open_bytes(bytes_of_core, 100, &core, &why), 0);
	core_crash(core, &crash);
	assert_int_equal(crash.kind, CORE_UNKNOWN);
	assert_string_equal(crash.words, "it is not known how the process ended: the notes of the core are missing");
	core_close(core);
}

static void a_damaged_core_is_read_or_refused(void **unused)
{
	static const uint64_t values[] = { 0, 1, 0x7f, UINT32_MAX, INT64_MAX, UINT64_MAX, MADE_BYTES_MAX };
	size_t whole = make_core(&null_read, bytes_of_core);
	struct fathom_fault why;
	struct core *core;

	/* headers and notes */
	for (size_t at = 0; at < 2600; at += 8) {
		for (size_t i = 0; i < ARRAY_COUNT(values); i++) {
			uint64_t before;

			memcpy(&before, bytes_of_core + at, sizeof(before));
			memcpy(bytes_of_core + at, &values[i], sizeof(before));
			if (open_bytes(bytes_of_core, whole, &core, &why) == 0)
				read_all(core);
			memcpy(bytes_of_core + at, &before, sizeof(before));
		}
	}
}

static void other_files_are_refused_with_what_they_are(void **unused)
{
	static const struct {
		const char *bytes;
		size_t count;
		const char *text;
	} rows[] = {
		{ "plain text, long enough to be a header of ELF, that is 64 bytes or more", 68,
		  "does not begin with an ELF header" },
		{ "\x04\x22\x4d\x18 lz4", 8, "is compressed: decompress it first by `lz4 -d`" },
		{ "\x1f\x8b gzip", 7, "is compressed: decompress it first by `gzip -d`" },
		{ "\x28\xb5\x2f\xfd zstd", 9, "is empty: it is not a core file" },
		{ "FATHOMTR is a trace", 19, "is a trace file, not a core file" },
		{ "\x7f"
		  "ELF",
		  4, "does not begin with an ELF header" },
	};
	size_t whole = make_core(&null_read, bytes_of_core);
	struct fathom_fault why;
	struct core *core;

	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		assert_int_equal(open_bytes((const uint8_t *)rows[i].bytes, rows[i].count, &core, &why), -EBADMSG);
		assert_non_null(strstr(why.text, rows[i].text));
	}
	((Elf64_Ehdr *)bytes_of_core)->e_type = ET_DYN;
	assert_int_equal(open_bytes(bytes_of_core, whole, &core, &why), -EBADMSG);
	assert_non_null(strstr(why.text, "is a program or a library, not a core file"));
	bytes_of_core[EI_CLASS] = ELFCLASS32;
	assert_int_equal(open_bytes(bytes_of_core, whole, &core, &why), -EPROTONOSUPPORT);
	assert_non_null(strstr(why.text, "32-bit"));
	assert_int_equal(core_open("/nowhere/core", NULL, &core, &why), -ENOENT);
	assert_non_null(strstr(why.text, "cannot open /nowhere/core"));
	assert_int_equal(core_open("/dev/null", NULL, &core, &why), -EBADMSG);
	assert_non_null(strstr(why.text, "not a regular file"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_process_its_threads_and_its_program_are_read),
		cmocka_unit_test(memory_is_read_within_mappings_only),
		cmocka_unit_test(a_crash_is_told_in_words),
		cmocka_unit_test(other_signals_have_their_cause),
		cmocka_unit_test(a_forbidden_system_call_has_its_number),
		cmocka_unit_test(the_modules_have_build_ids_and_what_is_missing),
		cmocka_unit_test(a_core_of_another_machine_keeps_all_but_registers),
		cmocka_unit_test(a_compressed_core_is_unpacked),
		cmocka_unit_test(without_the_program_frame_pointers_are_followed),
		cmocka_unit_test(a_worker_of_io_uring_has_no_stack),
		cmocka_unit_test(a_truncated_core_gives_what_is_in_front_of_the_cut),
		cmocka_unit_test(without_notes_the_end_of_the_process_is_not_known),
		cmocka_unit_test(a_damaged_core_is_read_or_refused),
		cmocka_unit_test(other_files_are_refused_with_what_they_are),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("core", tests, NULL, NULL);
}
