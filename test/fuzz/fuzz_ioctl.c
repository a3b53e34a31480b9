/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_ioctl - any order of ioctls of several threads on two open files of DTrace's helper device, with any memory.
 *
 *      bytes in pairs   the action, and its thread and file; then the data that the calls need
 *
 * Invariants: the number of stored bytes is within its limit; requested memory is within limits and follows from the data
 * received; an object consists of the supplied pieces; closing frees everything. Built by clang -fsanitize=fuzzer it
 * fuzzes. Built by gcc, or with -DFUZZ_REPLAY, it runs the given files, and with `--seeds DIR` it writes the seeds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "inspect/probed/register/helper.h"

enum { FILES = 2, THREADS = 4, OBJECT_BYTES = 300000, BYTES = 700000, BYTES_A_USER = 500000, INPUT_BYTES_MAX = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The memory requested from a thread, and the part of its object that it has supplied. */
struct caller {
	struct helper_step step;
	bool asked;
	unsigned char given[OBJECT_BYTES];
	size_t given_bytes;
	uint64_t dof;
	unsigned int pieces;
};

static struct caller callers[FILES][THREADS];

struct input {
	const uint8_t *data;
	size_t bytes, at;
};

static uint8_t take(struct input *input)
{
	return input->at < input->bytes ? input->data[input->at++] : 0;
}

/* Fill `bytes` of memory with the input, repeated, so that large pieces are not all zeroes. */
static void fill(struct input *input, unsigned char *to, size_t bytes)
{
	size_t from = input->at, have = min_u64(input->bytes - from, bytes);

	memset(to, 0x5a, bytes);
	memcpy(to, input->data + from, have);
	input->at += have;
}

/* A header that is mostly valid; random ones would never be. */
static void fill_header(struct input *input, unsigned char *to)
{
	uint8_t kind = take(input);
	uint64_t bytes = (uint64_t)take(input) << (kind & 15);

	fill(input, to, HELPER_HEADER_BYTES);
	if (kind & 0x80)
		return;
	memcpy(to, "\177DOF", 4);
	memcpy(to + 40, &bytes, sizeof(bytes));
}

static void check_step(struct helper *helper, struct caller *caller, const struct helper_step *step)
{
	must(helper_bytes(helper) <= BYTES);
	caller->asked = step->action == HELPER_RETRY;
	caller->step = *step;
	switch (step->action) {
	case HELPER_RETRY:
		must(step->bytes > 0 && step->bytes <= HELPER_CHUNK_BYTES);
		if (caller->pieces > 1)
			must(step->address == caller->dof + caller->given_bytes);
		must(caller->given_bytes + (caller->pieces > 1 ? step->bytes : 0) <= OBJECT_BYTES);
		return;
	case HELPER_ANSWER:
		must(step->error < 0);
		must(step->why);
		return;
	case HELPER_ADD:
		must(memchr(step->helper.module, '\0', sizeof(step->helper.module)));
		must(step->object ? step->bytes == caller->given_bytes : caller->pieces == 1);
		must(!step->object || memcmp(step->object, caller->given, step->bytes) == 0);
		free(step->object);
		return;
	case HELPER_REMOVE:
		must(step->generation <= UINT32_MAX);
		return;
	}
}

static void begin(struct helper *helper, struct helper_file *file, struct caller *caller, int32_t thread, uint64_t now_ns)
{
	const struct helper_call call = { HELPER_IOCTL_ADDDOF, 0x1000, thread, NULL, 0, now_ns };
	struct helper_step step;

	caller->pieces = 0;
	caller->given_bytes = 0;
	helper_step(file, &call, &step);
	must(step.action == HELPER_RETRY);
	check_step(helper, caller, &step);
}

static void supply_memory(struct helper *helper, struct helper_file *file, struct caller *caller, int32_t thread,
			  struct input *input, uint64_t now_ns, bool lie)
{
	static unsigned char memory[HELPER_CHUNK_BYTES + 1];
	struct helper_call call = { HELPER_IOCTL_ADDDOF, 0x1000, thread, memory, caller->step.bytes, now_ns };
	struct helper_step step;

	if (!caller->asked)
		return;
	if (caller->pieces == 1)
		fill_header(input, memory);
	else
		fill(input, memory, call.bytes);
	if (caller->pieces == 0)
		memcpy(&caller->dof, memory + offsetof(struct dof_helper, dof), sizeof(caller->dof));
	call.bytes += lie;
	if (caller->pieces > 0 && !lie && caller->given_bytes + call.bytes <= OBJECT_BYTES) {
		memcpy(caller->given + caller->given_bytes, memory, call.bytes);
		caller->given_bytes += call.bytes;
	}
	caller->pieces++;
	helper_step(file, &call, &step);
	must(!lie || step.action == HELPER_ANSWER);
	check_step(helper, caller, &step);
}

static void other(struct helper *helper, struct helper_file *file, struct input *input)
{
	static struct caller no_caller;
	struct helper_call call = { .thread = 1 };
	struct helper_step step;

	fill(input, (unsigned char *)&call.argument, sizeof(call.argument));
	call.command = take(input) & 1 ? HELPER_IOCTL_REMOVE : take(input);
	helper_step(file, &call, &step);
	must(step.action == HELPER_ANSWER || step.action == HELPER_REMOVE);
	check_step(helper, &no_caller, &step);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct helper_limits limits = { OBJECT_BYTES, BYTES, BYTES_A_USER };
	struct helper *helper = helper_create(&limits);
	struct helper_file *files[FILES];
	struct input input = { data, size, 0 };
	uint64_t now_ns = 0;

	must(helper);
	for (int i = 0; i < FILES * THREADS; i++)
		callers[i / THREADS][i % THREADS].asked = false;
	for (uint32_t i = 0; i < FILES; i++)
		must((files[i] = helper_file_create(helper, i)));
	while (input.at < input.bytes) {
		uint8_t what = take(&input), who = take(&input);
		unsigned int f = who % FILES, t = who / FILES % THREADS;
		struct caller *caller = &callers[f][t];

		if (what < 50)
			begin(helper, files[f], caller, (int32_t)t + 1, now_ns);
		else if (what < 220)
			supply_memory(helper, files[f], caller, (int32_t)t + 1, &input, now_ns, what == 219);
		else if (what < 240)
			other(helper, files[f], &input);
		else
			helper_expire(helper, now_ns += who * NS_PER_SEC);
	}
	for (uint32_t i = 0; i < FILES; i++)
		helper_file_destroy(files[i]);
	must(helper_bytes(helper) == 0);
	helper_destroy(helper);
	return 0;
}

#if defined(FUZZ_REPLAY) || !defined(__clang__)
#include "replay.h"

/* Write an object of several pieces, and two concurrent threads. */
static int write_seeds(const char *folder)
{
	static const char one[] = "\1\1\100\1prog", large[] = "\1\1\100\1p\100\1\7\200x\100\1yy\100\1z",
			  two[] = "\1\1\1\2\100\1a\100\2b\100\1\1\100c";
	const char *const seeds[] = { one, large, two };

	return write_texts(folder, seeds, ARRAY_COUNT(seeds));
}

int main(int argc, char **argv)
{
	static uint8_t data[INPUT_BYTES_MAX];

	return replay(argc, argv, write_seeds, data, sizeof(data));
}
#endif
