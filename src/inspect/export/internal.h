/* SPDX-License-Identifier: BSD-2-Clause */
/* internal - what the files of inspect/export share: an export, and what a format is made of. */
#ifndef INSPECT_EXPORT_INTERNAL_H
#define INSPECT_EXPORT_INTERNAL_H

#include <limits.h>

#include "base/bits.h"
#include "inspect/export/export.h"
#include "inspect/export/lives.h"
#include "inspect/export/out.h"
#include "inspect/export/value.h"

struct export
{
	const struct reader *reader;
	const struct export_kind *kind;
	void *state; /* the format's own */
	/* one file; ctf has files of its own in the directory that `temporary` names */
	struct out *out;
	bool force; /* what has the name is replaced */
	int fd;
	char path[PATH_MAX - 32], temporary[PATH_MAX]; /* temporary "": written in place, such as to standard output */
};

/* Errors are negative errnos; those of writes to `out` are kept there and need no mention. */
struct export_kind {
	const char *name;
	bool is_directory;
	MUST_CHECK int (*create)(struct export *export);
	void (*event)(struct export *export, const struct reader_event *event, bool wanted);
	MUST_CHECK int (*finish)(struct export *export, const struct reader_counts *counts);
	void (*destroy)(struct export *export); /* state may be NULL */
};

extern const struct export_kind export_perfetto, export_ctf, export_chrome, export_html;

#endif
