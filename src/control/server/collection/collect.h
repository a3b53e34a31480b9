/* SPDX-License-Identifier: BSD-2-Clause */
/* Parts of a collection of logs: answers of engines, states. */
#ifndef CONTROL_SERVER_COLLECT_H
#define CONTROL_SERVER_COLLECT_H

#include <stddef.h>

#include "base/must.h"
#include "control/provider/provider.h"

enum { ENGINE_BYTES_MAX = 256 << 20 }; /* of one answer; a trace is the largest */

enum engine_word { ENGINE_CONFIG, ENGINE_IOSTAT, ENGINE_TRACE };

/*
 * Ask the engine at `socket` with the program `fathom` of the folder `programs`; `path` is a temporary file, which is
 * removed. Blocks for ten seconds at most. The caller frees `bytes_ret`. Errors: those of program_write() and of the file;
 * -EFBIG, -ENOMEM.
 */
MUST_CHECK int engine_say(struct provider *os, const char *programs, const char *socket, enum engine_word word,
			  const char *path, char **bytes_ret, size_t *count_ret);

struct server;
/* The text of engines.txt; the caller frees it. On the control thread. */
char *server_print_states(const struct server *server);

#endif
