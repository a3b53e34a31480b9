/* SPDX-License-Identifier: BSD-2-Clause */
/* internal - struct export and the interface of a format, shared by the files of inspect/export. */
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
	void *state; /* private to the format */
	/* the output file; ctf instead creates files in the directory `temporary` */
	struct out *out;
	bool force; /* an existing output is replaced */
	int fd;
	char path[PATH_MAX - 32], temporary[PATH_MAX]; /* temporary "": written in place, such as standard output */
};

/* Errors are negative errnos. Errors of writes to `out` are kept in `out`; these functions need not return them. */
struct export_kind {
	const char *name;
	bool is_directory;
	MUST_CHECK int (*create)(struct export *export);
	void (*event)(struct export *export, const struct reader_event *event, bool wanted);
	MUST_CHECK int (*finish)(struct export *export, const struct reader_counts *counts);
	void (*destroy)(struct export *export); /* state may be NULL */
};

extern const struct export_kind export_perfetto, export_ctf, export_html;

#endif
