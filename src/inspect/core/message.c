/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * message - the text with which the C library ended the process: damaged heap, a buffer overflow that it detected.
 *
 * glibc keeps it for debuggers: the variable __abort_msg points to a number of bytes and the text behind it.
 */
#include <string.h>

#include "inspect/core/internal.h"
#include "inspect/core/values.h"

/* The address of the variable in the C library; 0: not known. */
static uint64_t find_variable(const struct core *core)
{
	for (uint32_t i = 0; i < core->module_count; i++) {
		const struct core_module *module = &core->modules[i];
		int count;

		if (!module->dwfl || strncmp(core_module_name(module), "libc.so", strlen("libc.so")) != 0)
			continue;
		count = dwfl_module_getsymtab(module->dwfl);
		for (int j = 0; j < count; j++) {
			GElf_Sym symbol;
			GElf_Addr address;
			const char *name = dwfl_module_getsym_info(module->dwfl, j, &symbol, &address, NULL, NULL, NULL);

			if (name && strcmp(name, "__abort_msg") == 0)
				return address;
		}
	}
	return 0;
}

void core_find_abort_message(struct core *core, struct core_crash *crash)
{
	uint64_t variable = find_variable(core), message;

	if (!variable || !core_read(core, variable, &message, sizeof(message)) || !message ||
	    !core_read_text(core, message + sizeof(uint32_t), crash->message, sizeof(crash->message)))
		return;
	for (size_t used = strlen(crash->message);
	     used && (crash->message[used - 1] == '?' || crash->message[used - 1] == ' ');)
		crash->message[--used] = '\0'; /* the end of the line */
}
