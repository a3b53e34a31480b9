/* SPDX-License-Identifier: BSD-2-Clause */
/* A core with a trace and without a program: what was in progress, in the columns of the lists; what is missing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "inspect/core/core.h"

#define TRACE_SEED_OBJECT "nvmf_req"
#define TRACE_SEED_POINT "nvmf_ctrlr_create" /* by which a trace is one of an engine */
#include "../../../fuzz/trace_seed.h"

static struct core *open_seed(void)
{
	int fd = memfd_create("core", MFD_CLOEXEC);
	struct fathom_fault why = { 0 };
	struct core *core;
	char path[64];

	make_seed();
	make_seed_core();
	assert_true(fd >= 0);
	assert_int_equal(write(fd, &seed_core, sizeof(seed_core)), sizeof(seed_core));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	assert_int_equal(core_open(path, NULL, &core, &why), 0);
	close(fd);
	return core;
}

/* The list; false: the program has none. */
static bool find_list(struct core *core, const char *name, struct core_list *list_ret)
{
	for (uint32_t i = 0; core_list_name(i); i++) {
		if (strcmp(core_list_name(i), name) == 0)
			return core_list(core, i, list_ret);
	}
	fail_msg("no list %s", name);
	return false;
}

/* The cell of row 0 in the column `key`. */
static const union core_cell *cell_of(const struct core_list *list, const char *key)
{
	for (uint32_t i = 0; i < list->column_count; i++) {
		if (strcmp(list->columns[i].key, key) == 0)
			return &list->cells[i];
	}
	fail_msg("no column %s", key);
	return NULL;
}

static void requests_come_from_the_trace(void **unused)
{
	struct core *core = open_seed();
	struct core_list list;

	assert_true(find_list(core, "io", &list));
	assert_true(list.by_trace);
	assert_null(list.problem);
	assert_int_equal(list.row_count, 1);
	assert_string_equal(cell_of(&list, "id")->text, "r1");
	assert_string_equal(cell_of(&list, "stage")->text, "BUSY");
	assert_string_equal(cell_of(&list, "peer")->text, "127.0.0.1");
	assert_int_equal(cell_of(&list, "qid")->number, 1);
	assert_null(cell_of(&list, "device")->text);
	assert_int_equal(cell_of(&list, "address")->number, 0);
	assert_true(cell_of(&list, "age_ns")->number > 0);
	core_close(core);
}

static void all_that_is_in_progress_is_listed(void **unused)
{
	struct core *core = open_seed();
	struct core_list list;

	assert_true(find_list(core, "in-progress", &list));
	assert_true(list.by_trace);
	assert_int_equal(list.row_count, 1);
	assert_string_equal(cell_of(&list, "object")->text, "nvmf_req");
	assert_string_equal(cell_of(&list, "owner")->text, "127.0.0.1 qid:1");
	assert_string_equal(cell_of(&list, "args")->text, "length 0");
	assert_null(cell_of(&list, "parent")->text);
	core_close(core);
}

static void lists_of_the_memory_say_what_is_missing(void **unused)
{
	struct core *core = open_seed();
	struct core_list list;

	assert_true(find_list(core, "reactors", &list));
	assert_int_equal(list.row_count, 0);
	assert_non_null(strstr(list.problem, "not known: the program's file is missing"));
	assert_false(find_list(core, "members", &list)); /* a server's */
	core_close(core);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_come_from_the_trace),
		cmocka_unit_test(all_that_is_in_progress_is_listed),
		cmocka_unit_test(lists_of_the_memory_say_what_is_missing),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("progress", tests, NULL, NULL);
}
