/* SPDX-License-Identifier: BSD-2-Clause */
/* probe_registry - where `fathom probe registry` gets lines from: a daemon, or the tree of one. */
#ifndef CMD_FATHOM_PROBE_REGISTRY_H
#define CMD_FATHOM_PROBE_REGISTRY_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/fault.h"

/* One probe of one process; `line` is borrowed. */
typedef void (*registry_line_fn)(void *ctx, json_t *line);

/*
 * What fathom-probed at `path` (NULL: the default) knows of `pid` (0: all); `notes`: of processes with SDT notes instead.
 * Errors (explained).
 */
MUST_CHECK int registry_ask(const char *path, uint64_t pid, bool notes, registry_line_fn fn, void *ctx, struct fault *why);

/* The same of the tree in `directory`, without a daemon. */
MUST_CHECK int registry_read(const char *directory, uint64_t pid, registry_line_fn fn, void *ctx, struct fault *why);

#endif
