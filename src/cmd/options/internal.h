/* SPDX-License-Identifier: BSD-2-Clause */
/* internal - shared by the files of this folder. */
#ifndef CMD_OPTIONS_INTERNAL_H
#define CMD_OPTIONS_INTERNAL_H

#include "cmd/options/options.h"

enum { OPTIONS_MAX = 64 };

static inline bool option_takes_argument(const struct option_row *row)
{
	return row->argument != NULL;
}

#endif
