/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/fault.h"

#include <stdarg.h>
#include <stdio.h>

int fault(struct fault *why, int error, const char *format, ...)
{
	must(error < 0);
	if (why) {
		va_list args;

		why->error = error;
		va_start(args, format);
		vsnprintf(why->text, sizeof(why->text), format, args);
		va_end(args);
	}
	return error;
}
