/* SPDX-License-Identifier: BSD-2-Clause */
/* line - a probe of a process in JSON, as `fathom probe registry --json` has it: docs/formats/probed.md. */
#ifndef PROBED_REGISTER_LINE_H
#define PROBED_REGISTER_LINE_H

#include <jansson.h>
#include <sys/types.h>

#include "inspect/probed/dof/dof.h"

/* What came from elsewhere and may be no UTF-8, shown as far as it is. NULL: out of memory. */
json_t *line_text(const char *text);

/* `found`: how it came to be known. The caller's. NULL: out of memory. */
json_t *line_of_probe(pid_t pid, const char *found, const struct dof_provider *provider, const struct dof_probe *probe);

#endif
