/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * export - a trace in the formats of other tools.
 *
 *   export_create() -> export_event() ... -> export_finish() -> export_destroy()
 *
 *   perfetto   TracePackets; opens in ui.perfetto.dev. A track for each thread and for each object with states.
 *   ctf        a directory: Common Trace Format 1.8, for babeltrace2 and Trace Compass. Every event with all arguments.
 *   chrome     JSON of trace events; opens in chrome://tracing, Perfetto and speedscope
 *   html       one page that needs nothing else: time line, slowest I/Os, histograms, heat map
 *
 * Events are fed once, in their order, and written as they come; html keeps a bounded number until the end. What is written
 * appears under its name when it is whole: until then it has a temporary name beside it.
 *
 * All text of the file is hostile: what is no UTF-8 or no printable character becomes '?'.
 */
#ifndef INSPECT_EXPORT_EXPORT_H
#define INSPECT_EXPORT_EXPORT_H

#include <stdbool.h>

#include "base/fault.h"
#include "inspect/trace/trace_file.h"

enum export_format { EXPORT_PERFETTO, EXPORT_CTF, EXPORT_CHROME, EXPORT_HTML, EXPORT_FORMATS };

struct export;

/*
 * Begin to write `path`; "-": standard output (not ctf). `reader` is lent until export_destroy(). Errors (explained): that
 * nothing can be written there; -EEXIST: there is such a file, or for ctf such a trace, and not `force`; -ENOTEMPTY: ctf,
 * and the directory has something else in it.
 */
MUST_CHECK int export_create(const struct reader *reader, enum export_format format, const char *path, bool force,
			     struct export **export_ret, struct fault *why);
/* Without export_finish(), what was written is removed. Accepts NULL. */
void export_destroy(struct export *export);

/* The next event. Those not `wanted` are not exported; ctf tells by them what was lost. */
void export_event(struct export *export, const struct reader_event *event, bool wanted);

/* All events were given. Errors (explained): the first write that failed, or the file could not be given its name. */
MUST_CHECK int export_finish(struct export *export, const struct reader_counts *counts, struct fault *why);

#endif
