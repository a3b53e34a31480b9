/* SPDX-License-Identifier: BSD-2-Clause */
/* notes - shared by .note.usdt and .note.stapsdt: converts ELF notes, one per site, to a set. */
#ifndef PROBED_DOF_NOTES_H
#define PROBED_DOF_NOTES_H

#include "inspect/probed/dof/internal.h"

/* The unread rest of a note. */
struct note_bytes {
	const char *at, *end;
};

struct note {
	uint64_t offset; /* in the section */
	uint32_t type;
	const char *name; /* name_bytes */
	uint32_t name_bytes;
	struct note_bytes desc;
};

/* A site. Strings point into the section, or are constants. */
struct note_row {
	const char *provider, *function, *name, *args;
	uint64_t address;
	bool is_enabled;
};

/* Types of a probe's arguments. */
struct note_types {
	uint32_t native_count, translated_count;
	const char *native[DOF_ARGS_MAX], *translated[DOF_ARGS_MAX];
	uint8_t map[DOF_ARGS_MAX];
};

struct note_rows {
	const struct dof_parsing *parsing;
	struct note_row *rows;
	uint32_t count, room;
	/* Argument types of the probe of site `row`. Must return the same in both passes. */
	void (*types)(const void *ctx, const struct note_row *row, struct note_types *types_ret);
	const uint32_t *(*attributes)(const void *ctx, const char *provider);
	const void *ctx;
};

/* "at 0x1f0 of .note.usdt: ...". Returns `error`. */
MUST_CHECK int dof_note_refuse(const struct dof_parsing *parsing, int error, uint64_t offset, const char *format, ...)
	PRINTF_LIKE(4, 5);

/* Call `visit` for each note of the first block; stops at its first error. */
MUST_CHECK int dof_notes_walk(const struct dof_parsing *parsing, int (*visit)(void *ctx, const struct note *note),
			      void *ctx);

/* Read the next bytes, or the next NUL-terminated string, of `bytes`; false: it does not fit. */
bool dof_note_take(struct note_bytes *bytes, void *to, size_t count);
bool dof_note_take_text(struct note_bytes *bytes, const char **text_ret);

/* Allocate `count_max` rows; -ENOMEM. */
MUST_CHECK int dof_rows_init(struct note_rows *rows, const struct dof_parsing *parsing, uint64_t count_max);
/* Check `row`'s names and append it; `offset` is that of its note. */
MUST_CHECK int dof_rows_add(struct note_rows *rows, uint64_t offset, const struct note_row *row);
/* Sort by probe and site, and remove duplicates. */
MUST_CHECK int dof_rows_sort(struct note_rows *rows);
MUST_CHECK int dof_rows_make_set(const struct note_rows *rows, struct dof_set *set_ret);

#endif
