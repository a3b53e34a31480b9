/* SPDX-License-Identifier: BSD-2-Clause */
/* The programs of this build have everything that fields.def names, with its types. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <elfutils/libdw.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inspect/core/internal.h"
#include "inspect/core/layout.h"

static void check_program(const char *variable, uint8_t program)
{
	const char *path = getenv(variable);
	struct core_layout *layout = calloc(1, sizeof(*layout));
	int fd = open(path ? path : "", O_RDONLY | O_CLOEXEC), wrong = 0;
	Dwarf *dwarf;

	assert_non_null(layout);
	assert_true(fd >= 0);
	dwarf = dwarf_begin(fd, DWARF_C_READ);
	assert_non_null(dwarf);
	layout->program = program;
	core_read_layout(layout, dwarf, 0);
	wrong = core_layout_report(layout);
	assert_int_equal(wrong, 0);
	dwarf_end(dwarf);
	close(fd);
	free(layout);
}

static void the_engine_has_every_field_that_is_read(void **unused)
{
	check_program("FATHOM_ENGINE", CORE_ENGINE);
}

static void the_server_has_every_field_that_is_read(void **unused)
{
	check_program("FATHOM_SERVER", CORE_SERVER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_engine_has_every_field_that_is_read),
		cmocka_unit_test(the_server_has_every_field_that_is_read),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("layout", tests, NULL, NULL);
}
