/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * protocol - messages and shared memory between the parent and a child.
 *
 *   orders (a pipe)    parent -> child   struct jail_order, one per write
 *   answers (a pipe)   child -> parent   struct jail_answer, one per write; the first, sequence 0: confined, or the error
 *   memory (a memfd)   both              the blocks of the order, then from `answer_at` on the packed set of the answer
 *
 * The child maps the memory and closes it before it reads the first order. The parent never maps it, but reads and writes
 * it by system calls: so a child cannot change data that the parent is checking. End of file on a pipe means that the other
 * side is dead.
 */
#ifndef PROBED_JAIL_PROTOCOL_H
#define PROBED_JAIL_PROTOCOL_H

#include "inspect/probed/dof/dof.h"

/* A child's descriptors, and its arguments: name, parent, sizes. */
enum { JAIL_FD_ORDERS = 3, JAIL_FD_ANSWERS = 4, JAIL_FD_MEMORY = 5, JAIL_FDS = 6 };
#define JAIL_CHILD_NAME "fathom-probed-parser"
enum { JAIL_WORD_NAME, JAIL_WORD_PARENT, JAIL_WORD_BLOCKS_MAX, JAIL_WORD_ANSWER_MAX, JAIL_WORD_ROOM, JAIL_WORDS };

struct jail_order {
	uint64_t sequence; /* 1, 2, 3 ... per child */
	struct dof_helper helper;
	uint32_t kind, bits_32;
	uint64_t note_base;
	uint64_t bytes_max;
	uint32_t probes_max, pad;
	struct {
		uint64_t at, base, bytes; /* `at` in the memory */
	} blocks[DOF_BLOCKS_MAX];
};

struct jail_answer {
	uint64_t sequence;
	uint64_t bytes; /* of the packed set */
	int32_t error;	/* 0 or an error of dof_parse() */
	uint32_t pad;
	char text[FAULT_TEXT_BYTES_MAX];
};

/* Writes up to PIPE_BUF are atomic. */
static_assert(sizeof(struct jail_order) <= 4096 && sizeof(struct jail_answer) <= 4096, "");

/* The offset of the answer in the memory; parent and child compute the same. */
static inline uint64_t jail_answer_at(uint64_t blocks_max)
{
	return (blocks_max + DOF_BLOCKS_MAX * 16 + 4095) & ~4095ull;
}

#endif
