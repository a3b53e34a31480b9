/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dmg - tables, attributes, headings and sizes in dmg's layout, so that scripts that parse dmg's output also parse ours:
 *
 *     Rank State
 *     ---- -----
 *     0    Joined
 *
 * Each cell is padded to its column's width and followed by one blank, also the last cell of a row.
 */
#ifndef CMD_FATHOM_SHOW_DMG_H
#define CMD_FATHOM_SHOW_DMG_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/must.h"
#include "base/table.h"

enum { SIZE_TEXT_BYTES = 32 };

/* Create a table with `column_count` titles, which are copied; at most TABLE_COLUMNS_MAX. NULL: out of memory. */
struct table *dmg_table_create(const char *const *titles, size_t column_count);

/*
 * Print attributes of one object, with aligned colons:
 *
 *     Title
 *     -----
 *       Key    : value
 *
 * If `title` is NULL, title and dashes are omitted. `pairs` alternates keys and values, `pair_count` of each; borrowed.
 */
void entity_print(const char *title, const char *const *pairs, size_t pair_count, unsigned int indent, FILE *out);

/* Print `text` between two lines of dashes of its width: the heading of a host's answer. */
void heading_print(const char *text, unsigned int indent, FILE *out);

/* "0 B", "250 MB", "4.3 GB": units of 1000, two or more significant digits. Returns `text`, of SIZE_TEXT_BYTES. */
const char *size_text(uint64_t bytes, char *text);

#endif
