/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hostile_child - a child of the jail that violates the protocol. The environment variable HOSTILE_CHILD selects the
 * violation. The child knows the protocol, as a compromised child does.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/must.h"
#include "base/text.h"
#include "inspect/probed/jail/protocol.h"

static void write_answer(const struct jail_answer *answer, size_t bytes)
{
	must(write(JAIL_FD_ANSWERS, answer, bytes) == (ssize_t)bytes);
}

static bool is_selected(const char *what)
{
	return strcmp(getenv("HOSTILE_CHILD"), what) == 0;
}

static void falsify_answer(struct jail_answer *answer, char *packed, uint64_t answer_max)
{
	char twice[2 * sizeof(*answer)];

	if (is_selected("stall"))
		pause();
	else if (is_selected("abort"))
		abort();
	else if (is_selected("exit"))
		exit(7);
	else if (is_selected("short"))
		write_answer(answer, 9);
	else if (is_selected("sequence"))
		answer->sequence++;
	else if (is_selected("error"))
		answer->error = -EPERM;
	else if (is_selected("positive"))
		answer->error = EINVAL;
	else if (is_selected("too-much"))
		answer->bytes = answer_max + 1;
	else if (is_selected("everything"))
		answer->bytes = UINT64_MAX;
	else if (is_selected("nothing"))
		answer->bytes = 0;
	else if (is_selected("garbage"))
		answer->bytes = 4096;
	else if (is_selected("control"))
		answer->error = -EINVAL;
	memset(packed, 0x5a, 4096);
	memcpy(answer->text, "\033[2Jmischief", 13);
	if (is_selected("unended")) {
		answer->error = -EINVAL;
		memset(answer->text, 'u', sizeof(answer->text));
	}
	if (is_selected("twice")) {
		memcpy(twice, answer, sizeof(*answer));
		memcpy(twice + sizeof(*answer), answer, sizeof(*answer));
		must(write(JAIL_FD_ANSWERS, twice, sizeof(twice)) == sizeof(twice));
	} else if (!is_selected("short")) {
		write_answer(answer, sizeof(*answer));
	}
	/* an answer to the next request */
	if (is_selected("ahead")) {
		answer->sequence++;
		write_answer(answer, sizeof(*answer));
	}
}

int main(int argc, char **argv)
{
	struct jail_answer answer = { 0 };
	uint64_t blocks_max, answer_max;
	struct jail_order order;
	char *memory;

	must(argc == JAIL_WORDS);
	must(text_parse_u64(argv[JAIL_WORD_BLOCKS_MAX], 10, UINT64_MAX, &blocks_max) == 0);
	must(text_parse_u64(argv[JAIL_WORD_ANSWER_MAX], 10, UINT64_MAX, &answer_max) == 0);
	memory = mmap(NULL, jail_answer_at(blocks_max) + answer_max, PROT_READ | PROT_WRITE, MAP_SHARED, JAIL_FD_MEMORY, 0);
	must(memory != MAP_FAILED);
	if (is_selected("mute"))
		pause();
	if (is_selected("stillborn"))
		return 5;
	if (is_selected("refuse"))
		answer = (struct jail_answer){ .error = -EPERM, .text = "no seccomp here" };
	write_answer(&answer, sizeof(answer));
	if (is_selected("deaf"))
		kill(getpid(), SIGKILL);
	while (read(JAIL_FD_ORDERS, &order, sizeof(order)) == sizeof(order)) {
		answer = (struct jail_answer){ .sequence = order.sequence };
		falsify_answer(&answer, memory + jail_answer_at(blocks_max), answer_max);
	}
	return 0;
}
