/* SPDX-License-Identifier: BSD-2-Clause */
/* samples - objects of a real `dtrace -G` (samples/README.md), and sets that are made up. */
#ifndef TEST_UNIT_PROBED_SAMPLES_H
#define TEST_UNIT_PROBED_SAMPLES_H

#include "inspect/probed/dof/dof.h"

#define SAMPLE_NAMES                                                                                                       \
	{                                                                                                                  \
		"simple", "simple32", "isen", "multi", "typed", "hyph", "multiloc", "many10", "clau"                       \
	}

/* The file `name``extension`, for free(), with a NUL behind it that is not counted. Ends the test if it is not there. */
char *sample_read(const char *name, const char *extension, size_t *bytes_ret);

/* `data` as an input of kind DOF, of module "sample", loaded at `base`. */
struct dof_input sample_input(const void *data, size_t bytes, uint64_t base);

#endif
