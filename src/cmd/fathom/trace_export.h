/* SPDX-License-Identifier: BSD-2-Clause */
/* trace_export - `fathom trace export`: the same events in the formats of other tools. */
#ifndef CMD_FATHOM_TRACE_EXPORT_H
#define CMD_FATHOM_TRACE_EXPORT_H

#include "inspect/export/export.h"

/* Where to write each format; NULL: not at all. */
struct trace_export_files {
	const char *paths[EXPORT_FORMATS];
	bool force; /* what has these names is overwritten */
};

/*
 * Read all events once and write what is asked for. Those that `is_wanted` refuses are left out. Returns the exit status;
 * on an error nothing has appeared under the names whose writing failed, and why is on stderr.
 */
int trace_export(struct reader *reader, const struct trace_export_files *files,
		 bool (*is_wanted)(const void *ctx, const struct reader_event *event), const void *ctx);

#endif
