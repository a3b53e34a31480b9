/* SPDX-License-Identifier: BSD-2-Clause */
/* options - the command line of `fathom perf`. */
#ifndef CMD_FATHOM_PERF_OPTIONS_H
#define CMD_FATHOM_PERF_OPTIONS_H

#include "cmd/fathom/perf/perf.h"

/* OPTIONS_RUN, or the exit status: help or an error message was printed. Strings are borrowed from argv. */
MUST_CHECK int perf_parse_options(int argc, char **argv, struct perf_options *options_ret);

#endif
