/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * failing_calls - a function that the linker sends here first (--wrap in meson.build) and that fails when fails() says so,
 * which the test defines: with `error` in errno and `failed` as what it returns.
 */
#ifndef TEST_UNIT_FAILING_CALLS_H
#define TEST_UNIT_FAILING_CALLS_H

#include <errno.h>
#include <stdbool.h>

static bool fails(void);

#define WRAP(type, name, parameters, arguments, error, failed)                                                             \
	type __real_##name parameters;                                                                                     \
	type __wrap_##name parameters;                                                                                     \
	type __wrap_##name parameters                                                                                      \
	{                                                                                                                  \
		if (fails()) {                                                                                             \
			errno = error;                                                                                     \
			return failed;                                                                                     \
		}                                                                                                          \
		return __real_##name arguments;                                                                            \
	}

#endif
