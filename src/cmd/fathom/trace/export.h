/* SPDX-License-Identifier: BSD-2-Clause */
/* export - `fathom trace export`: writes events in the formats of other tools. */
#ifndef CMD_FATHOM_TRACE_EXPORT_H
#define CMD_FATHOM_TRACE_EXPORT_H

#include "inspect/export/export.h"

/* The output of each format; NULL: none. */
struct trace_export_files {
	const char *paths[EXPORT_FORMATS];
	bool force; /* existing files are overwritten */
};

/*
 * Read all events once and write the wanted formats, without events that `is_wanted` rejects. Returns the exit status;
 * after an error, which was printed on stderr, failed outputs do not exist under their names.
 */
int trace_export(struct reader *reader, const struct trace_export_files *files,
		 bool (*is_wanted)(const void *ctx, const struct reader_event *event), const void *ctx);

#endif
