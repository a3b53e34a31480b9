/* SPDX-License-Identifier: BSD-2-Clause */
/* registry - sources of the lines of `fathom probe registry`: a daemon, or the tree of one. */
#ifndef CMD_FATHOM_PROBE_REGISTRY_H
#define CMD_FATHOM_PROBE_REGISTRY_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/fault.h"

/* One probe of one process; `line` is borrowed. */
typedef void (*registry_line_fn)(void *ctx, json_t *line);

/*
 * Query fathom-probed at `path` (NULL: the default) about `pid` (0: all); `notes`: processes with SDT notes instead.
 * Errors (explained).
 */
MUST_CHECK int registry_ask(const char *path, uint64_t pid, bool notes, registry_line_fn fn, void *ctx,
			    struct fathom_fault *why);

/* The same from the tree in `directory`, without a daemon. */
MUST_CHECK int registry_read(const char *directory, uint64_t pid, registry_line_fn fn, void *ctx, struct fathom_fault *why);

#endif
