/* SPDX-License-Identifier: BSD-2-Clause */
/* Notes and large objects: the jail's result equals that of parsing in this process. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jail_rig.h"

#include "base/bits.h"
#include "children.h"
#include "made.h"
#include "samples.h"

enum { PROBES = 4500, MEMORY_KIB_MAX = 4096 };

static const char sdt[] = "\10\0\0\0002\0\0\0\3\0\0\0stapsdt\0\0\20\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
			  "\0\0prov\0probe\0-4@%eax 8@%rdx\0\0\0";
static const char usdt[] = "\5\0\0\0!\0\0\0\1\0\0\0usdt\0\0\0\0\0\20\0\0\0\0\0\0\0 \0\0\0\0\0\0prov\0go\0\1-"
			   "4@%edi\0\0\0\0\5\0\0\0.\0\0\0\1\0\0\0prov\0\0\0\0prov\0\0\0\0\0\5\5\5\0\5\5\5\0\5"
			   "\5\5\0\5\5\5\0\5\5\5\1\0\0\0go\0\1int\0\1int\0\0\0\0";

static void start_jail(void)
{
	struct fathom_fault why = { 0 };

	if (!jail_rig_start(NULL, 1, JAIL_RIG_LONG_MS, &why))
		fail_msg("%s", why.text);
}

/* Parse in this process and in the jail, assert that both sets are equal, and return one. */
static struct dof_set parse_both(const struct dof_input *input)
{
	struct jail_rig_result result;
	struct fathom_fault why = { 0 };
	struct dof_set set;

	if (dof_parse(input, NULL, &set, &why) != 0)
		fail_msg("%s", why.text);
	jail_rig_parse_now(input, &result);
	if (result.error)
		fail_msg("%s", result.why.text);
	assert_true(dof_set_equal(&set, &result.set));
	dof_set_free(&set);
	return result.set;
}

static void notes_are_read_in_the_jail_with_their_bases(void **state)
{
	struct dof_input input = { .kind = DOF_KIND_SDT,
				   .helper = { .module = "sample", .base = 0x10000 },
				   .note_base = 0,
				   .blocks = { { .data = sdt, .bytes = sizeof(sdt) - 1 } } };
	struct dof_set set;

	start_jail();
	set = parse_both(&input);
	assert_int_equal(set.providers[0].probes[0].sites[0].address, 0x11000);
	assert_string_equal(set.providers[0].probes[0].sites[0].args, "-4@%eax 8@%rdx");
	assert_string_equal(set.providers[0].probes[0].native[1], "uint64_t");
	dof_set_free(&set);
	input.kind = DOF_KIND_USDT;
	input.blocks[0] = (struct dof_block){ .data = usdt, .bytes = sizeof(usdt) - 1 };
	input.blocks[1] = (struct dof_block){ .base = 0x1ff8, .data = "padding\0main", .bytes = 13 };
	set = parse_both(&input);
	assert_string_equal(set.providers[0].probes[0].function, "main");
	assert_int_equal(set.providers[0].probes[0].sites[0].address, 0x11000);
	dof_set_free(&set);
	jail_rig_stop();
}

/* Sanitizers use additional memory. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

#if !SANITIZED
static uint64_t status_kib(pid_t pid, const char *key)
{
	char path[64], line[256];
	unsigned long kib = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "re");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		if (strncmp(line, key, strlen(key)) == 0)
			assert_int_equal(sscanf(line + strlen(key), ": %lu", &kib), 1);
	}
	fclose(file);
	return kib;
}

/* An object like the largest sample of the existing daemon, whose parser uses 2.6 MB. */
static void parsing_half_a_megabyte_uses_less_than_4_mib(void **state)
{
	pid_t pids[CHILDREN_MAX];
	size_t bytes;
	void *data = made_object(PROBES, &bytes);
	struct dof_input input = sample_input(data, bytes, 0x555500000000);

	assert_true(bytes > 540000 && bytes < 600000);
	start_jail();
	for (int i = 0; i < 20; i++) {
		struct dof_set set = parse_both(&input);

		dof_set_free(&set);
	}
	assert_int_equal(children_of_this(pids), 1);
	assert_true(status_kib(pids[0], "VmHWM") > 0);
	if (status_kib(pids[0], "VmHWM") >= MEMORY_KIB_MAX)
		fail_msg("the child used %lu KiB", (unsigned long)status_kib(pids[0], "VmHWM"));
	jail_rig_stop();
	free(data);
}

/* Valid and invalid objects: neither the child nor this process grows. */
static void memory_does_not_grow_over_a_thousand_objects(void **state)
{
	enum { WARM = 50, OBJECTS = 1000 };
	uint64_t child = 0, ours = 0;
	pid_t pids[CHILDREN_MAX];
	size_t bytes;
	char *data = sample_read("typed", ".dof", &bytes);
	struct dof_input input = sample_input(data, bytes, 0);

	start_jail();
	assert_int_equal(children_of_this(pids), 1);
	for (int i = 0; i < WARM + OBJECTS; i++) {
		struct jail_rig_result result;

		if (i == WARM) {
			child = status_kib(pids[0], "VmRSS");
			ours = status_kib(getpid(), "VmRSS");
		}
		data[6] = i % 2 ? 1 : 9; /* version 9 is invalid */
		jail_rig_parse_now(&input, &result);
		assert_int_equal(result.error == 0, i % 2);
		if (result.error == 0)
			dof_set_free(&result.set);
	}
	assert_true(status_kib(pids[0], "VmRSS") <= child);
	assert_true(status_kib(getpid(), "VmRSS") <= ours + 256);
	jail_rig_stop();
	free(data);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(notes_are_read_in_the_jail_with_their_bases),
#if !SANITIZED
		cmocka_unit_test(parsing_half_a_megabyte_uses_less_than_4_mib),
		cmocka_unit_test(memory_does_not_grow_over_a_thousand_objects),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
