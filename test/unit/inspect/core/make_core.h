/* SPDX-License-Identifier: BSD-2-Clause */
/* make_core - a small core file of a program that never was, for tests. */
#ifndef TEST_UNIT_INSPECT_CORE_MAKE_CORE_H
#define TEST_UNIT_INSPECT_CORE_MAKE_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	MADE_CODE = 0x401000, /* a page of code, of /made/program at offset 0x1000, in the core */
	MADE_HEADER = 0x400000,
	MADE_DATA = 0x600000, /* two pages */
	MADE_STACK = 0x700000,
	MADE_STACK_END = 0x702000,
	MADE_GUARD = 0x6ff000, /* a page without access in front of the stack */
	MADE_TID = 4711,
	MADE_BYTES_MAX = 64 * 1024,
};

struct made_core {
	int signal, code; /* of the first thread */
	uint64_t address;
	uint64_t rax, rsp, rip;
	const uint8_t *instruction; /* at rip, if that is in the page of code */
	size_t instruction_bytes;
	bool has_io_worker; /* the second thread is one of io_uring */
};

#define MADE_TEXT "a text in the data"

/* Returns the size of the core in `to`, which has MADE_BYTES_MAX bytes. */
size_t make_core(const struct made_core *made, uint8_t *to);

#endif
