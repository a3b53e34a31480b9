/* SPDX-License-Identifier: BSD-2-Clause */
#include "inspect/probed/jail/child.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/text.h"
#include "inspect/probed/jail/protocol.h"

const char jail_child_name[] = JAIL_CHILD_NAME;

enum { EXIT_NOT_CONFINED = 3, EXIT_NO_ANSWER = 4 };
static_assert(sizeof(struct jail_order) <= PIPE_BUF && sizeof(struct jail_answer) <= PIPE_BUF, "written in one piece");

struct child {
	uint64_t blocks_max, answer_max;
	char *memory; /* blocks, answer */
	struct dof_room room;
};

/* ---- orders ---- */

static int find_blocks(const struct child *child, const struct jail_order *order, struct dof_input *input)
{
	must(child->memory);
	for (size_t i = 0; i < DOF_BLOCKS_MAX; i++) {
		uint64_t at = order->blocks[i].at, bytes = order->blocks[i].bytes, end = jail_answer_at(child->blocks_max);

		if (at > end || bytes > end - at)
			return -EPROTO;
		input->blocks[i] =
			(struct dof_block){ .base = order->blocks[i].base, .data = child->memory + at, .bytes = bytes };
	}
	return 0;
}

static void execute_order(const struct child *child, const struct jail_order *order, struct jail_answer *answer)
{
	struct dof_input input = {
		.kind = order->kind, .helper = order->helper, .note_base = order->note_base, .bits_32 = order->bits_32
	};
	struct dof_limits limits = { .bytes_max = order->bytes_max, .probes_max = order->probes_max };
	struct fathom_fault why = { 0 };
	struct dof_packed packed = { .data = child->memory + jail_answer_at(child->blocks_max),
				     .bytes_max = child->answer_max };
	int rc = find_blocks(child, order, &input);

	if (rc == 0)
		rc = dof_parse_packed(&input, &limits, &child->room, &packed, &why);
	must(rc <= 0);
	must(packed.bytes <= packed.bytes_max);
	answer->sequence = order->sequence;
	answer->error = rc;
	answer->bytes = rc ? 0 : packed.bytes;
	(void)text_copy(answer->text, sizeof(answer->text), why.text); /* it fits */
}

static void serve_orders(const struct child *child) __attribute__((noreturn));

static void serve_orders(const struct child *child)
{
	struct jail_answer answer = { 0 };
	struct jail_order order;

	for (;;) {
		if (write(JAIL_FD_ANSWERS, &answer, sizeof(answer)) != sizeof(answer))
			_exit(EXIT_NO_ANSWER);
		if (read(JAIL_FD_ORDERS, &order, sizeof(order)) != sizeof(order))
			_exit(EXIT_SUCCESS);
		execute_order(child, &order, &answer);
	}
}

/* ---- start ---- */

static int map_child_memory(struct child *child, struct fathom_fault *why)
{
	uint64_t bytes = jail_answer_at(child->blocks_max) + child->answer_max;

	child->memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, JAIL_FD_MEMORY, 0);
	if (child->memory == MAP_FAILED)
		return fault(why, -errno, "a parser cannot map its memory: %s", strerror(errno));
	child->room.start = mmap(NULL, child->room.bytes, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (child->room.start == MAP_FAILED)
		return fault(why, -errno, "a parser cannot allocate %zu bytes: %s", child->room.bytes, strerror(errno));
	return 0;
}

static uint64_t read_argument_number(char **words, int word)
{
	uint64_t number = 0;

	return text_parse_u64(words[word], 10, UINT64_MAX, &number) == 0 ? number : 0;
}

/*
 * Runs before main(), so any program with this file can be its own child. glibc passes main()'s arguments to constructors.
 */
__attribute__((constructor)) static void run_as_child(int argc, char **argv)
{
	struct jail_answer refusal = { 0 };
	struct child child = { 0 };
	struct fathom_fault why = { 0 };
	int rc;

	if (argc != JAIL_WORDS || strcmp(argv[JAIL_WORD_NAME], jail_child_name) != 0)
		return;
	child.blocks_max = read_argument_number(argv, JAIL_WORD_BLOCKS_MAX);
	child.answer_max = read_argument_number(argv, JAIL_WORD_ANSWER_MAX);
	child.room.bytes = read_argument_number(argv, JAIL_WORD_ROOM);
	rc = map_child_memory(&child, &why);
	if (rc == 0)
		rc = jail_confine((pid_t)read_argument_number(argv, JAIL_WORD_PARENT), &why);
	if (rc == 0)
		serve_orders(&child);
	refusal.error = rc;
	(void)text_copy(refusal.text, sizeof(refusal.text), why.text); /* it fits */
	(void)!write(JAIL_FD_ANSWERS, &refusal, sizeof(refusal));      /* fails if the parent has died */
	_exit(EXIT_NOT_CONFINED);
}
