/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * export - writes a trace in the formats of other tools.
 *
 *   export_create() -> export_event() ... -> export_finish() -> export_destroy()
 *
 *   perfetto   TracePackets; opens in ui.perfetto.dev. A track for each thread and for each object with states.
 *   ctf        a directory: Common Trace Format 1.8, for babeltrace2 and Trace Compass. Every event with all arguments.
 *   html       one page that needs nothing else: time line, slowest I/Os, histograms, heat map
 *
 * Events are passed once, in their order, and written immediately; html keeps a bounded number until the end. The output
 * has a temporary name beside its final one until it is complete.
 *
 * All text from the file is untrusted: invalid UTF-8 and unprintable characters become '?'.
 */
#ifndef INSPECT_EXPORT_EXPORT_H
#define INSPECT_EXPORT_EXPORT_H

#include <stdbool.h>

#include "base/fault.h"
#include "inspect/trace/trace_file.h"

enum export_format { EXPORT_PERFETTO, EXPORT_CTF, EXPORT_HTML, EXPORT_FORMATS };

struct export;

/*
 * Start to write `path`; "-": standard output (not for ctf). `reader` is lent until export_destroy(). Errors
 * (explained): the path is not writable; -EEXIST: the file, or for ctf a trace, exists and not `force`; -ENOTEMPTY: ctf,
 * and the directory contains something else.
 */
MUST_CHECK int export_create(const struct reader *reader, enum export_format format, const char *path, bool force,
			     struct export **export_ret, struct fathom_fault *why);
/* Without a successful export_finish(), removes what was written. Accepts NULL. */
void export_destroy(struct export *export);

/* Pass the next event. Events that are not `wanted` are not exported; ctf uses them to count lost events. */
void export_event(struct export *export, const struct reader_event *event, bool wanted);

/* No more events follow. Errors (explained): the first write that failed, or the rename. */
MUST_CHECK int export_finish(struct export *export, const struct reader_counts *counts, struct fathom_fault *why);

#endif
