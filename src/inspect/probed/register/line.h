/* SPDX-License-Identifier: BSD-2-Clause */
/* line - a probe of a process as a line of JSON, for `fathom probe registry --json`: docs/formats/probed.md. */
#ifndef PROBED_REGISTER_LINE_H
#define PROBED_REGISTER_LINE_H

#include <jansson.h>
#include <sys/types.h>

#include "inspect/probed/dof/dof.h"

/* Untrusted text: invalid UTF-8 becomes '?'. NULL: out of memory. */
json_t *line_text(const char *text);

/* `found`: how the daemon learned of the probe. The caller owns the result. NULL: out of memory. */
json_t *line_of_probe(pid_t pid, const char *found, const struct dof_provider *provider, const struct dof_probe *probe);

#endif
