/* SPDX-License-Identifier: BSD-2-Clause */
/* core_bench CORE - times to open a core, to read the program's layout, and to walk a list. For scripts/bench. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "inspect/core/core.h"

/* CPU time, which other programs of the machine disturb less. */
static uint64_t cpu_ns(void)
{
	struct timespec now = { 0 };

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * NS_PER_SEC + (uint64_t)now.tv_nsec;
}

static double ms_since(uint64_t from_ns)
{
	return (double)(cpu_ns() - from_ns) / 1e6;
}

static uint32_t index_of(const char *name)
{
	uint32_t index = 0;

	while (strcmp(core_list_name(index), name) != 0)
		index++;
	return index;
}

int main(int argc, char **argv)
{
	double opened = 1e9, laid_out = 1e9, walked = 1e9;
	struct core_list list = { 0 };

	if (argc != 2)
		return 2;
	for (int run = 0; run < 10; run++) {
		uint64_t begin = cpu_ns();
		struct fathom_fault why;
		struct core *core;

		if (core_open(argv[1], NULL, &core, &why) != 0) {
			fprintf(stderr, "%s\n", why.text);
			return 1;
		}
		opened = ms_since(begin) < opened ? ms_since(begin) : opened;
		begin = cpu_ns();
		if (!core_list(core, index_of("reactors"), &list))
			return 1;
		laid_out = ms_since(begin) < laid_out ? ms_since(begin) : laid_out;
		begin = cpu_ns();
		if (!core_list(core, index_of("devices"), &list))
			return 1;
		walked = ms_since(begin) < walked ? ms_since(begin) : walked;
		core_close(core);
	}
	printf("inspect/core, CPU: open %.1f ms, layout %.1f ms, walk of %u devices %.2f ms\n", opened, laid_out,
	       list.row_count, walked);
	return 0;
}
