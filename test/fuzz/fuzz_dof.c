/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_dof - any bytes as an object with probes: DOF, .note.usdt with .rodata, .note.stapsdt, a packed set, an ELF file.
 *
 * Invariants: the input is refused with a reason, or gives a set that is equal after packing and unpacking and, from DOF,
 * after encoding and parsing. In little preallocated memory it is refused or gives the same set. The first byte selects the
 * kind. Built by clang -fsanitize=fuzzer it fuzzes. Built by gcc, or with -DFUZZ_REPLAY, it runs the given files, and with
 * `--seeds DIR` it writes the seeds.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bits.h"
#include "inspect/probed/dof/dof.h"
#include "inspect/probed/elf/elf_file.h"

enum { DATA_BYTES_MAX = 1 << 20, HEAD_BYTES = 8, ROOM_BYTES = 1 << 20 };
enum { AS_DOF, AS_USDT, AS_SDT, AS_PACKED, AS_ELF, AS_COUNT };

/* The head of the input. */
struct head {
	uint8_t as, bits_32;
	uint16_t rodata_bytes; /* from the end of the input */
	uint32_t base;
};
static_assert(sizeof(struct head) == HEAD_BYTES, "");

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_packing(const struct dof_set *set)
{
	struct fathom_fault why = { 0 };
	struct dof_set again;
	size_t bytes;
	void *data;

	must(dof_pack(set, &data, &bytes) == 0);
	must(dof_unpack(data, bytes, &again, &why) == 0);
	must(dof_set_equal(set, &again));
	dof_set_free(&again);
	free(data);
}

static void check_encoding(const struct dof_set *set, const struct dof_input *input)
{
	struct dof_input other = { .kind = DOF_KIND_DOF, .helper = input->helper };
	struct fathom_fault why = { 0 };
	struct dof_set again;
	size_t bytes;
	void *data;

	must(dof_encode(set, &(struct dof_encoding){ .version = 3 }, &data, &bytes, &why) == 0);
	other.blocks[0] = (struct dof_block){ .data = data, .bytes = bytes };
	must(dof_parse(&other, NULL, &again, &why) == 0);
	must(dof_set_equal(set, &again));
	dof_set_free(&again);
	free(data);
}

/* `expected` NULL: the input was refused. */
static void check_room(const struct dof_input *input, const struct dof_set *expected)
{
	static _Alignas(16) char room[ROOM_BYTES], packed[ROOM_BYTES];
	struct dof_room part = { room, sizeof(room) };
	struct fathom_fault why = { 0 };
	struct dof_packed result = { .data = packed, .bytes_max = sizeof(packed) };
	struct dof_set set;
	int rc = dof_parse_packed(input, NULL, &part, &result, &why);

	if (rc) {
		must(why.text[0]);
		must(!expected || rc == -ENOMEM || rc == -E2BIG);
		return;
	}
	must(expected);
	must(dof_unpack(packed, result.bytes, &set, &why) == 0);
	must(dof_set_equal(&set, expected));
	dof_set_free(&set);
}

static void parse(const struct dof_input *input)
{
	struct fathom_fault why = { 0 };
	struct dof_set set;

	if (dof_parse(input, NULL, &set, &why) != 0) {
		must(why.error < 0 && why.text[0]);
		check_room(input, NULL);
		return;
	}
	check_packing(&set);
	check_room(input, &set);
	if (input->kind == DOF_KIND_DOF)
		check_encoding(&set, input);
	dof_set_free(&set);
}

static void unpack(const void *data, size_t size)
{
	struct fathom_fault why = { 0 };
	struct dof_set set;
	char *aligned = malloc(size + 1);

	must(aligned);
	memcpy(aligned, data, size);
	if (dof_unpack(aligned, size, &set, &why) == 0) {
		check_packing(&set);
		dof_set_free(&set);
	} else {
		must(why.text[0]);
	}
	free(aligned);
}

static void read_elf(const void *data, size_t size)
{
	int fd = memfd_create("fuzz_dof", MFD_CLOEXEC);
	struct fathom_fault why = { 0 };
	struct elf_file file;

	must(fd >= 0);
	must(write(fd, data, size) == (ssize_t)size);
	if (elf_read(fd, NULL, &file, &why) == 0) {
		for (uint32_t i = 0; i < file.input_count; i++) {
			memcpy(file.inputs[i].helper.module, "fuzz", sizeof("fuzz"));
			parse(&file.inputs[i]);
		}
		elf_free(&file);
	} else {
		must(why.text[0]);
	}
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const enum dof_kind kinds[] = {
		[AS_DOF] = DOF_KIND_DOF, [AS_USDT] = DOF_KIND_USDT, [AS_SDT] = DOF_KIND_SDT
	};
	struct dof_input input = { .helper = { .module = "fuzz" } };
	const uint8_t *at = data + HEAD_BYTES;
	struct head head;

	if (size < HEAD_BYTES || size > DATA_BYTES_MAX)
		return 0;
	memcpy(&head, data, sizeof(head));
	size -= HEAD_BYTES;
	switch (head.as % AS_COUNT) {
	case AS_PACKED:
		unpack(at, size);
		return 0;
	case AS_ELF:
		read_elf(at, size);
		return 0;
	default:
		break;
	}
	input.kind = kinds[head.as % AS_COUNT];
	input.helper.base = head.base;
	input.bits_32 = head.bits_32 & 1;
	input.note_base = head.base;
	if (input.kind == DOF_KIND_USDT) {
		input.blocks[1].bytes = min_u64(head.rodata_bytes, size);
		input.blocks[1].data = at + size - input.blocks[1].bytes;
		input.blocks[1].base = 0x2000;
	}
	input.blocks[0] = (struct dof_block){ .data = at, .bytes = size - input.blocks[1].bytes };
	parse(&input);
	return 0;
}

#if !defined(__clang__) || defined(FUZZ_REPLAY)

#include "replay.h"

/* The samples' folder, relative to the top of the tree, where scripts/fuzz runs. */
#define SAMPLES "test/unit/inspect/probed/samples/"

static const char sdt_notes[] = "\10\0\0\0002\0\0\0\3\0\0\0stapsdt\0\0\20\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
				"\0\0prov\0probe\0-4@%eax 8@%rdx\0\0\0";
static const char usdt_notes[] = "\5\0\0\0!\0\0\0\1\0\0\0usdt\0\0\0\0\0\20\0\0\0\0\0\0\0 \0\0\0\0\0\0prov\0go\0\1-"
				 "4@%edi\0\0\0\0\5\0\0\0.\0\0\0\1\0\0\0prov\0\0\0\0prov\0\0\0\0\0\5\5\5\0\5\5\5\0\5"
				 "\5\5\0\5\5\5\0\5\5\5\1\0\0\0go\0\1int\0\1int\0\0\0\0main";

static int write_seed(const char *directory, const char *name, const struct head *head, const void *data, size_t bytes)
{
	char path[512];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	file = fopen(path, "w");
	if (!file || fwrite(head, sizeof(*head), 1, file) != 1 || fwrite(data, 1, bytes, file) != bytes || fclose(file)) {
		perror(path);
		return 1;
	}
	return 0;
}

/* Write a sample unchanged, and packed. */
static int write_sample(const char *directory, const char *name)
{
	static char data[DATA_BYTES_MAX];
	struct dof_input input = { .helper = { .module = "fuzz" } };
	char path[512], seed[64];
	struct dof_set set;
	size_t bytes;
	void *packed;
	FILE *file;
	int rc;

	snprintf(path, sizeof(path), SAMPLES "%s.dof", name);
	file = fopen(path, "r");
	if (!file) {
		perror(path);
		return 1;
	}
	bytes = fread(data, 1, sizeof(data), file);
	fclose(file);
	input.blocks[0] = (struct dof_block){ .data = data, .bytes = bytes };
	must(dof_parse(&input, NULL, &set, NULL) == 0);
	must(dof_pack(&set, &packed, &bytes) == 0);
	snprintf(seed, sizeof(seed), "packed-%s", name);
	rc = write_seed(directory, seed, &(struct head){ .as = AS_PACKED }, packed, bytes);
	snprintf(seed, sizeof(seed), "dof-%s", name);
	if (rc == 0)
		rc = write_seed(directory, seed, &(struct head){ .as = AS_DOF, .base = 0x1000 }, data,
				input.blocks[0].bytes);
	dof_set_free(&set);
	free(packed);
	return rc;
}

static int write_seeds(const char *directory)
{
	static const char *const names[] = { "simple", "simple32", "isen", "multi", "typed" };
	int rc = write_seed(directory, "sdt", &(struct head){ .as = AS_SDT }, sdt_notes, sizeof(sdt_notes) - 1);

	if (rc == 0)
		rc = write_seed(directory, "usdt", &(struct head){ .as = AS_USDT, .rodata_bytes = 5 }, usdt_notes,
				sizeof(usdt_notes));
	for (size_t i = 0; rc == 0 && i < ARRAY_COUNT(names); i++)
		rc = write_sample(directory, names[i]);
	return rc;
}

int main(int argc, char **argv)
{
	static uint8_t data[DATA_BYTES_MAX];

	return replay(argc, argv, write_seeds, data, sizeof(data));
}

#endif
