/* SPDX-License-Identifier: BSD-2-Clause */
/* Probes of each kind in the test's executable are found at the addresses of its code. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bits.h"
#include "inspect/probed/elf/elf_file.h"
#include "samples.h"
#include "subject.h"

enum { NOP = 0x90 };

static int open_self(void)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static struct elf_file read_self(void)
{
	int fd = open_self();
	struct elf_file file;
	struct fathom_fault why;

	if (elf_read(fd, NULL, &file, &why) != 0)
		fail_msg("%s", why.text);
	close(fd);
	return file;
}

/* The load address, from the mapping of this function in /proc/self/maps. */
static uint64_t base_of(const struct elf_file *file)
{
	uint64_t start, end, offset, here = (uintptr_t)base_of, base = 1;
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[4096];

	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64, &start, &end, &offset) == 3 && here >= start &&
		    here < end)
			assert_int_equal(elf_base(file, start, offset, &base), 0);
	}
	fclose(maps);
	assert_int_not_equal(base, 1);
	return base;
}

static struct dof_set parse(struct dof_input *input, uint64_t base)
{
	struct fathom_fault why = { 0 };
	struct dof_set set;

	assert_non_null(input);
	input->helper.base = base;
	memcpy(input->helper.module, "sample", sizeof("sample"));
	if (dof_parse(input, NULL, &set, &why) != 0)
		fail_msg("%s", why.text);
	return set;
}

static const struct dof_probe *find(const struct dof_set *set, const char *provider, const char *name)
{
	for (uint32_t i = 0; i < set->provider_count; i++) {
		for (uint32_t j = 0; j < set->providers[i].probe_count; j++) {
			const struct dof_probe *probe = &set->providers[i].probes[j];

			if (strcmp(set->providers[i].name, provider) == 0 && strcmp(probe->name, name) == 0)
				return probe;
		}
	}
	fail_msg("no %s:%s", provider, name);
	return NULL;
}

/* Assert that each site is a nop close behind the start of `function`. */
static void check_sites(const struct dof_probe *probe, uint32_t count, const void *function)
{
	assert_int_equal(probe->site_count, count);
	for (uint32_t i = 0; i < count; i++) {
		uint64_t address = probe->sites[i].address;

		assert_true(address >= (uintptr_t)function && address < (uintptr_t)function + 4096);
		assert_int_equal(*(const uint8_t *)(uintptr_t)address, NOP);
	}
}

static void sdt_probes_have_the_addresses_of_the_code(void **state)
{
	struct elf_file file = read_self();
	struct dof_set set = parse(elf_input(&file, DOF_KIND_SDT), base_of(&file));
	const struct dof_probe *pair = find(&set, "unit", "pair"), *none = find(&set, "unit", "none");

	assert_true(file.is_relocated);
	assert_false(file.bits_32);
	check_sites(pair, 2, (const void *)subject_sdt);
	check_sites(none, 1, (const void *)subject_sdt);
	assert_string_equal(pair->function, "-");
	assert_int_equal(pair->native_count, 2);
	assert_int_equal(pair->translated_count, 2);
	assert_string_equal(pair->native[0], "int32_t");
	assert_string_equal(pair->native[1], "uint64_t");
	assert_non_null(strstr(pair->sites[0].args, "-4@"));
	assert_int_equal(none->native_count, 0);
	dof_set_free(&set);
	elf_free(&file);
}

static void usdt_notes_are_read_with_their_functions_and_types(void **state)
{
	struct elf_file file = read_self();
	struct dof_set set = parse(elf_input(&file, DOF_KIND_USDT), base_of(&file));
	const struct dof_probe *go = find(&set, "usdtest", "go"), *hyphened = find(&set, "usdtest", "multi-_site-");

	assert_int_equal(set.provider_count, 1);
	/* a probe without a site is not listed */
	assert_int_equal(set.providers[0].probe_count, 2);
	check_sites(hyphened, 2, (const void *)subject_usdt);
	assert_true(hyphened->sites[1].is_enabled);
	assert_int_equal(set.providers[0].attributes[0], 0x05050500);
	assert_int_equal(set.providers[0].attributes[4], 0x06060400);
	check_sites(go, 2, (const void *)subject_usdt);
	assert_false(go->sites[0].is_enabled);
	assert_true(go->sites[1].is_enabled);
	assert_string_equal(go->function, "subject_usdt");
	assert_string_equal(go->sites[0].args, "-4@%edi 8@%rsi");
	assert_int_equal(go->native_count, 2);
	assert_string_equal(go->native[0], "int");
	assert_string_equal(go->native[1], "char *");
	assert_int_equal(go->translated_count, 1);
	assert_string_equal(go->translated[0], "char *");
	assert_int_equal(go->map[0], 1);
	dof_set_free(&set);
	elf_free(&file);
}

static void dof_in_a_file_is_found(void **state)
{
	struct elf_file file = read_self();
	struct dof_set set = parse(elf_input(&file, DOF_KIND_DOF), 0), sample;
	size_t bytes;
	char *data = sample_read("multi", ".dof", &bytes);
	struct dof_input input = sample_input(data, bytes, 0);

	assert_int_equal(file.input_count, 3);
	assert_int_equal(dof_parse(&input, NULL, &sample, NULL), 0);
	assert_true(dof_set_equal(&set, &sample));
	dof_set_free(&sample);
	dof_set_free(&set);
	elf_free(&file);
	free(data);
}

/* ---- invalid notes ---- */

/* Parse `data` in its own allocation, so that a sanitizer detects a read beyond it. */
static void parse_anything(const struct dof_input *input, const char *data, size_t bytes)
{
	struct dof_input copy = *input;
	struct fathom_fault why = { 0 };
	char *piece = malloc(bytes + 1);
	struct dof_set set;

	assert_non_null(piece);
	memcpy(piece, data, bytes);
	copy.blocks[0].data = piece;
	copy.blocks[0].bytes = bytes;
	if (dof_parse(&copy, NULL, &set, &why) == 0) {
		struct dof_set again;
		size_t packed_bytes;
		void *packed;

		assert_int_equal(dof_pack(&set, &packed, &packed_bytes), 0);
		assert_int_equal(dof_unpack(packed, packed_bytes, &again, &why), 0);
		assert_true(dof_set_equal(&set, &again));
		dof_set_free(&again);
		dof_set_free(&set);
		free(packed);
	} else {
		assert_true(why.text[0]);
	}
	free(piece);
}

static void changed_or_truncated_notes_are_parsed_or_refused(void **state)
{
	static const enum dof_kind kinds[] = { DOF_KIND_USDT, DOF_KIND_SDT };
	static const uint8_t patterns[] = { 0x01, 0x20, 0x80, 0xff };
	struct elf_file file = read_self();

	for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
		struct dof_input *input = elf_input(&file, kinds[i]);
		size_t bytes = input->blocks[0].bytes;
		char *data = (char *)(uintptr_t)input->blocks[0].data;

		memcpy(input->helper.module, "sample", sizeof("sample"));
		for (size_t at = 0; at < bytes; at++) {
			parse_anything(input, data, at);
			for (size_t j = 0; j < ARRAY_COUNT(patterns); j++) {
				data[at] = (char)(data[at] ^ patterns[j]);
				parse_anything(input, data, bytes);
				data[at] = (char)(data[at] ^ patterns[j]);
			}
		}
	}
	elf_free(&file);
}

static void contradicting_usdt_notes_are_refused(void **state)
{
	static const struct {
		const char *find, *put, *text;
		size_t bytes;
	} changes[] = {
		{ "usdtest\0go\0\2", "usdtest\0no\0\2", "does not have", 12 },
		{ "usdtest\0go\0\2", "usdtest\0go\0\3", "arguments", 12 },
		{ "usdtest\0go\0\2", "usd/est\0go\0\2", "provider", 12 },
		{ "usdtest\0go\0\2", "usdtest\0:o\0\2", "probe", 12 },
		{ "char *\0\1", "char *\0\2", "map", 8 },
		{ "char *\0\1", "char\n*\0\1", "types", 8 },
	};
	struct elf_file file = read_self();
	struct dof_input *input = elf_input(&file, DOF_KIND_USDT);
	char *data = (char *)(uintptr_t)input->blocks[0].data;

	memcpy(input->helper.module, "sample", sizeof("sample"));
	for (size_t i = 0; i < ARRAY_COUNT(changes); i++) {
		char *at = memmem(data, input->blocks[0].bytes, changes[i].find, changes[i].bytes);
		struct fathom_fault why = { 0 };
		struct dof_set set;

		assert_non_null(at);
		memcpy(at, changes[i].put, changes[i].bytes);
		assert_int_equal(dof_parse(input, NULL, &set, &why), -EINVAL);
		if (!strstr(why.text, changes[i].text))
			fail_msg("%zu: %s", i, why.text);
		memcpy(at, changes[i].find, changes[i].bytes);
	}
	/* a function's name outside of .rodata, or without a NUL in it */
	{
		struct fathom_fault why = { 0 };
		struct dof_set set;

		input->blocks[1].bytes = 0;
		assert_int_equal(dof_parse(input, NULL, &set, &why), -EINVAL);
		assert_non_null(strstr(why.text, ".rodata"));
	}
	elf_free(&file);
}

/* ---- invalid files ---- */

static int read_bytes(const void *data, size_t bytes)
{
	int fd = memfd_create("test_elf", MFD_CLOEXEC), rc;
	struct fathom_fault why = { 0 };
	struct elf_file file;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, bytes), bytes);
	rc = elf_read(fd, NULL, &file, &why);
	close(fd);
	if (rc == 0)
		elf_free(&file);
	else
		assert_true(why.text[0]);
	return rc;
}

/* A 32-bit file with a note of one probe. */
struct small {
	Elf32_Ehdr header;
	Elf32_Phdr segment;
	Elf32_Shdr sections[4];
	char names[64];
	struct {
		uint32_t name_bytes, desc_bytes, type;
		char name[8];
		uint32_t address, base, semaphore;
		char strings[24];
	} note;
};

static void make_small(struct small *small)
{
	static const char names[] = "\0.shstrtab\0.note.stapsdt\0.stapsdt.base", strings[] = "prov\0probe\0-4@%eax";

	memset(small, 0, sizeof(*small));
	memcpy(small->header.e_ident, "\177ELF\1\1\1", 7);
	small->header.e_type = ET_EXEC;
	small->header.e_phoff = offsetof(struct small, segment);
	small->header.e_phentsize = sizeof(Elf32_Phdr);
	small->header.e_phnum = 1;
	small->header.e_shoff = offsetof(struct small, sections);
	small->header.e_shentsize = sizeof(Elf32_Shdr);
	small->header.e_shnum = 4;
	small->header.e_shstrndx = 1;
	small->segment =
		(Elf32_Phdr){ .p_type = PT_LOAD, .p_vaddr = 0x8048000, .p_filesz = sizeof(*small), .p_flags = PF_X };
	small->sections[1] = (Elf32_Shdr){ .sh_name = 1,
					   .sh_type = SHT_STRTAB,
					   .sh_offset = offsetof(struct small, names),
					   .sh_size = sizeof(small->names) };
	small->sections[2] = (Elf32_Shdr){ .sh_name = 11,
					   .sh_type = SHT_NOTE,
					   .sh_offset = offsetof(struct small, note),
					   .sh_size = sizeof(small->note) };
	small->sections[3] = (Elf32_Shdr){ .sh_name = 25, .sh_type = SHT_PROGBITS, .sh_addr = 0x8049000 };
	memcpy(small->names, names, sizeof(names));
	small->note.name_bytes = 8;
	small->note.desc_bytes = 12 + 24;
	small->note.type = 3;
	memcpy(small->note.name, "stapsdt", 8);
	small->note.address = 0x8048100;
	small->note.base = 0x8049100; /* linked 0x100 higher */
	memcpy(small->note.strings, strings, sizeof(strings));
}

static void notes_of_a_32_bit_file_are_relocated_by_its_base(void **state)
{
	int fd = memfd_create("test_elf", MFD_CLOEXEC);
	struct small small;
	struct elf_file file;
	struct dof_set set;
	struct fathom_fault why;
	uint64_t base, offset;

	make_small(&small);
	assert_int_equal(write(fd, &small, sizeof(small)), sizeof(small));
	if (elf_read(fd, NULL, &file, &why) != 0)
		fail_msg("%s", why.text);
	close(fd);
	assert_true(file.bits_32);
	assert_false(file.is_relocated);
	set = parse(elf_input(&file, DOF_KIND_SDT), 0);
	assert_int_equal(find(&set, "prov", "probe")->sites[0].address, 0x8048000);
	assert_string_equal(find(&set, "prov", "probe")->native[0], "int32_t");
	assert_int_equal(elf_offset(&file, 0x8048100, &offset), 0);
	assert_int_equal(offset, 0x100);
	assert_int_equal(elf_offset(&file, 0x9048100, &offset), -ENOENT);
	assert_int_equal(elf_base(&file, 0x8048000, 0, &base), 0);
	assert_int_equal(base, 0);
	assert_int_equal(elf_base(&file, 0x8048000, 0x1000, &base), -ENOENT);
	dof_set_free(&set);
	elf_free(&file);
}

static void a_changed_or_truncated_file_is_read_or_refused(void **state)
{
	struct small small;
	char *bytes = (char *)&small;

	make_small(&small);
	assert_int_equal(read_bytes(bytes, sizeof(small)), 0);
	for (size_t at = 0; at < offsetof(struct small, note); at++) {
		static const uint8_t patterns[] = { 0x01, 0x80, 0xff };

		(void)read_bytes(bytes, at); /* any result is valid */
		for (size_t i = 0; i < ARRAY_COUNT(patterns); i++) {
			bytes[at] = (char)(bytes[at] ^ patterns[i]);
			(void)read_bytes(bytes, sizeof(small));
			bytes[at] = (char)(bytes[at] ^ patterns[i]);
		}
	}
}

static void a_file_that_is_not_elf_is_refused(void **state)
{
	struct elf_file file;
	struct fathom_fault why;
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	assert_int_equal(elf_read(fd, NULL, &file, &why), -ENOEXEC);
	close(fd);
	assert_int_equal(read_bytes("", 0), -ENOEXEC);
	assert_int_equal(read_bytes("#!/bin/sh\nexit 0\n# and so on, for more bytes than an ELF header\n", 64), -ENOEXEC);
}

static void a_section_over_the_limit_is_not_read(void **state)
{
	int fd = open_self();
	struct elf_file file;
	struct fathom_fault why;

	assert_int_equal(elf_read(fd, &(struct dof_limits){ .bytes_max = 100 }, &file, &why), -E2BIG);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sdt_probes_have_the_addresses_of_the_code),
		cmocka_unit_test(usdt_notes_are_read_with_their_functions_and_types),
		cmocka_unit_test(dof_in_a_file_is_found),
		cmocka_unit_test(changed_or_truncated_notes_are_parsed_or_refused),
		cmocka_unit_test(contradicting_usdt_notes_are_refused),
		cmocka_unit_test(notes_of_a_32_bit_file_are_relocated_by_its_base),
		cmocka_unit_test(a_changed_or_truncated_file_is_read_or_refused),
		cmocka_unit_test(a_file_that_is_not_elf_is_refused),
		cmocka_unit_test(a_section_over_the_limit_is_not_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
