/* SPDX-License-Identifier: BSD-2-Clause */
/* What instructions access: bytes as compilers emit them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "inspect/core/internal.h"

enum { RAX, RDX, RCX, RBX, RSI, RDI, RBP, RSP, R8, R12 = 12 };
enum { R = 1, W = 2, RW = 3 };

static const uint64_t registers[CORE_REGISTERS_MAX] = {
	[RAX] = 0x1000, [RDX] = 3,	[RCX] = 0x20,	[RBX] = 0x2000, [RSI] = 0x3000,
	[RDI] = 0x4000, [RBP] = 0x5000, [RSP] = 0x6000, [R8] = 0x8000,	[R12] = 0xc000
};

static const struct {
	const char *text;
	uint8_t code[12];
	uint8_t count;
	int effect; /* 0: no access */
	uint32_t bytes;
	uint64_t address;
} rows[] = {
	{ "mov (%rax),%rcx", { 0x48, 0x8b, 0x08 }, 3, R, 8, 0x1000 },
	{ "mov 0x10(%rax),%ecx", { 0x8b, 0x48, 0x10 }, 3, R, 4, 0x1010 },
	{ "mov -8(%rbp),%rax", { 0x48, 0x8b, 0x45, 0xf8 }, 4, R, 8, 0x4ff8 },
	{ "mov %rcx,(%rbx)", { 0x48, 0x89, 0x0b }, 3, W, 8, 0x2000 },
	{ "mov %cl,(%rbx)", { 0x88, 0x0b }, 2, W, 1, 0x2000 },
	{ "mov %cx,(%rbx)", { 0x66, 0x89, 0x0b }, 3, W, 2, 0x2000 },
	{ "movl $1,(%rdi)", { 0xc7, 0x07, 1, 0, 0, 0 }, 6, W, 4, 0x4000 },
	{ "movb $1,0x100(%rdi)", { 0xc6, 0x87, 0, 1, 0, 0, 1 }, 7, W, 1, 0x4100 },
	{ "mov (%rax,%rdx,8),%rcx", { 0x48, 0x8b, 0x0c, 0xd0 }, 4, R, 8, 0x1018 },
	{ "mov (%r12),%rax", { 0x49, 0x8b, 0x04, 0x24 }, 4, R, 8, 0xc000 },
	{ "mov 8(%r8),%r8", { 0x4d, 0x8b, 0x40, 0x08 }, 4, R, 8, 0x8008 },
	{ "movzbl (%rsi),%eax", { 0x0f, 0xb6, 0x06 }, 3, R, 1, 0x3000 },
	{ "movzwl (%rsi),%eax", { 0x0f, 0xb7, 0x06 }, 3, R, 2, 0x3000 },
	{ "movslq (%rsi),%rax", { 0x48, 0x63, 0x06 }, 3, R, 4, 0x3000 },
	{ "add %rcx,(%rax)", { 0x48, 0x01, 0x08 }, 3, RW, 8, 0x1000 },
	{ "cmp %rcx,(%rax)", { 0x48, 0x39, 0x08 }, 3, R, 8, 0x1000 },
	{ "cmpb $0,(%rax)", { 0x80, 0x38, 0 }, 3, R, 1, 0x1000 },
	{ "addl $1,(%rax)", { 0x83, 0x00, 1 }, 3, RW, 4, 0x1000 },
	{ "test %rax,(%rbx)", { 0x48, 0x85, 0x03 }, 3, R, 8, 0x2000 },
	{ "lock xadd %rax,(%rbx)", { 0xf0, 0x48, 0x0f, 0xc1, 0x03 }, 5, RW, 8, 0x2000 },
	{ "xchg %eax,(%rbx)", { 0x87, 0x03 }, 2, RW, 4, 0x2000 },
	{ "incl (%rbx)", { 0xff, 0x03 }, 2, RW, 4, 0x2000 },
	{ "call *0x18(%rax)", { 0xff, 0x50, 0x18 }, 3, R, 8, 0x1018 },
	{ "jmp *(%rax)", { 0xff, 0x20 }, 2, R, 8, 0x1000 },
	{ "push %rbx", { 0x53 }, 1, W, 8, 0x5ff8 },
	{ "pop %rbx", { 0x5b }, 1, R, 8, 0x6000 },
	{ "ret", { 0xc3 }, 1, R, 8, 0x6000 },
	{ "call 0", { 0xe8, 0, 0, 0, 0 }, 5, W, 8, 0x5ff8 },
	{ "leave", { 0xc9 }, 1, R, 8, 0x5000 },
	{ "rep stos %al,(%rdi)", { 0xf3, 0xaa }, 2, W, 1, 0x4000 },
	{ "rep movsq", { 0xf3, 0x48, 0xa5 }, 3, W, 8, 0x4000 },
	{ "movabs 0x1122334455667788,%rax",
	  { 0x48, 0xa1, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11 },
	  10,
	  R,
	  8,
	  0x1122334455667788 },
	{ "movups (%rsi),%xmm0", { 0x0f, 0x10, 0x06 }, 3, R, 16, 0x3000 },
	{ "movups %xmm0,(%rdi)", { 0x0f, 0x11, 0x07 }, 3, W, 16, 0x4000 },
	{ "movdqa %xmm0,(%rdi)", { 0x66, 0x0f, 0x7f, 0x07 }, 4, W, 16, 0x4000 },
	{ "movsd (%rsi),%xmm0", { 0xf2, 0x0f, 0x10, 0x06 }, 4, R, 8, 0x3000 },
	{ "vmovdqu (%rsi),%ymm0", { 0xc5, 0xfe, 0x6f, 0x06 }, 4, R, 32, 0x3000 },
	{ "vmovdqu %ymm0,0x20(%rdi)", { 0xc5, 0xfe, 0x7f, 0x47, 0x20 }, 5, W, 32, 0x4020 },
	{ "vmovdqu64 %zmm16,0x40(%rdi)", { 0x62, 0xe1, 0xfe, 0x48, 0x7f, 0x47, 0x01 }, 7, W, 64, 0x4040 },
	{ "lea 8(%rax),%rcx", { 0x48, 0x8d, 0x48, 0x08 }, 4, 0, 0, 0 },
	{ "mov %rax,%rcx", { 0x48, 0x89, 0xc1 }, 3, 0, 0, 0 },
	{ "nop", { 0x90 }, 1, 0, 0, 0 },
	{ "nopl (%rax)", { 0x0f, 0x1f, 0x00 }, 3, 0, 0, 0 },
	{ "a prefix alone", { 0x48 }, 1, 0, 0, 0 },
};

static void accesses_are_decoded(void **unused)
{
	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		struct core_access access;
		bool found = core_decode_access(rows[i].code, rows[i].count, registers, rows[i].address, &access);

		if (found != (rows[i].effect != 0) ||
		    (found && (access.reads + 2 * access.writes != rows[i].effect || access.bytes != rows[i].bytes ||
			       access.address != rows[i].address)))
			fail_msg("%s: found %d, reads %d, writes %d, %u bytes at 0x%lx", rows[i].text, found, access.reads,
				 access.writes, access.bytes, (unsigned long)access.address);
	}
}

static void a_copy_that_fails_at_its_source_is_a_read(void **unused)
{
	static const uint8_t copy[] = { 0xf3, 0x48, 0xa5 };
	struct core_access access;

	assert_true(core_decode_access(copy, sizeof(copy), registers, 0x3000, &access));
	assert_true(access.reads && !access.writes);
	assert_int_equal(access.base, RSI);
}

static void any_bytes_are_decoded_without_reading_behind_them(void **unused)
{
	struct core_access access;

	srandom(1);
	for (int i = 0; i < 200000; i++) {
		size_t count = (size_t)random() % 15 + 1;
		uint8_t *code = malloc(count); /* a sanitizer sees an access behind it */

		assert_non_null(code);
		for (size_t at = 0; at < count; at++)
			code[at] = (uint8_t)random();
		if (core_decode_access(code, count, registers, 0x1000, &access))
			assert_true(access.reads || access.writes);
		free(code);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(accesses_are_decoded),
		cmocka_unit_test(a_copy_that_fails_at_its_source_is_a_read),
		cmocka_unit_test(any_bytes_are_decoded_without_reading_behind_them),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("instruction", tests, NULL, NULL);
}
