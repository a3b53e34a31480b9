/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * protocol - what a parent and its children say.
 *
 *   orders (a pipe)    parent -> child   one struct jail_order, whole
 *   answers (a pipe)   child -> parent   one struct jail_answer, whole; the first, of sequence 0, says that it is confined
 *   memory (a memfd)   both              the blocks of the order, then from `answer_at` on the packed set of the answer
 *
 * The child maps the memory and closes it before it reads the first order; the parent reads and writes it by system calls,
 * so that no memory of its own is at a child's mercy, and what it reads it has for itself. Ends of pipes that are gone are
 * the end of the other side.
 */
#ifndef PROBED_JAIL_PROTOCOL_H
#define PROBED_JAIL_PROTOCOL_H

#include "inspect/probed/dof/dof.h"

/* A child's descriptors, and its words: its name, and three numbers. */
enum { JAIL_FD_ORDERS = 3, JAIL_FD_ANSWERS = 4, JAIL_FD_MEMORY = 5, JAIL_FDS = 6 };
#define JAIL_CHILD_NAME "fathom-probed-parser"
enum { JAIL_WORD_NAME, JAIL_WORD_PARENT, JAIL_WORD_BLOCKS_MAX, JAIL_WORD_ANSWER_MAX, JAIL_WORD_ROOM, JAIL_WORDS };

struct jail_order {
	uint64_t sequence; /* 1, 2, 3 ... of a child */
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
	int32_t error;	/* 0 or what dof_parse() returns */
	uint32_t pad;
	char text[FAULT_TEXT_BYTES_MAX];
};

/* Whole at once: a pipe keeps what is no longer together. */
static_assert(sizeof(struct jail_order) <= 4096 && sizeof(struct jail_answer) <= 4096, "");

/* What the memory has room for. Both ends round up in the same way. */
static inline uint64_t jail_answer_at(uint64_t blocks_max)
{
	return (blocks_max + DOF_BLOCKS_MAX * 16 + 4095) & ~4095ull;
}

#endif
