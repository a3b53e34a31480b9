/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/fault.h"

#include <stdarg.h>
#include <stdio.h>

PRINTF_LIKE(4, 0) static void write_fault(struct fathom_fault *why, int error, int code, const char *format, va_list args)
{
	must(error < 0);
	if (!why)
		return;
	why->error = error;
	why->code = code;
	why->resolution[0] = why->domain[0] = '\0';
	vsnprintf(why->text, sizeof(why->text), format, args);
}

void fill_fault(struct fathom_fault *why, int error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	write_fault(why, error, 0, format, args);
	va_end(args);
}

int fault(struct fathom_fault *why, int error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	write_fault(why, error, 0, format, args);
	va_end(args);
	return error;
}

void fault_coded(struct fathom_fault *why, int error, int code, const char *format, ...)
{
	va_list args;

	must(code > 0);
	va_start(args, format);
	write_fault(why, error, code, format, args);
	va_end(args);
}

void fault_resolve(struct fathom_fault *why, const char *format, ...)
{
	va_list args;

	if (!why)
		return;
	must(why->error < 0);
	va_start(args, format);
	vsnprintf(why->resolution, sizeof(why->resolution), format, args);
	va_end(args);
}
