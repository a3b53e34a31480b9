/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * table - answers as columns, in the form that dmg prints, so that scripts which cut its output can cut ours:
 *
 *     Rank State
 *     ---- -----
 *     0    Joined
 *
 * Each cell, the last of a row too, is padded to its column's width and has one blank behind it.
 */
#ifndef CONTROL_TEXT_TABLE_H
#define CONTROL_TEXT_TABLE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/must.h"

enum { TABLE_COLUMNS_MAX = 32, SIZE_TEXT_BYTES = 32 };

/* One thread at a time. */
struct table;

/* With `column_count` titles, which it copies. NULL: no memory. */
struct table *table_create(const char *const *titles, size_t column_count);
void table_destroy(struct table *table); /* NULL is fine */

/* A row: one cell for each column, copied. Line ends and tabs in it become blanks. Errors: -ENOMEM. */
MUST_CHECK int table_add(struct table *table, const char *const *cells);

/* Each line behind `indent` blanks. What `out` does with it ferror() says. */
void table_print(const struct table *table, unsigned int indent, FILE *out);

/*
 * Facts about one thing, the colons below each other:
 *
 *     Title
 *     -----
 *       Key    : value
 *
 * No title (NULL), no lines for it. `pairs` are keys and values in turn, `pair_count` of each; borrows them.
 */
void entity_print(const char *title, const char *const *pairs, size_t pair_count, unsigned int indent, FILE *out);

/* `text` between two lines of dashes as long as it is: the heading of what a host said. */
void heading_print(const char *text, unsigned int indent, FILE *out);

/* "0 B", "250 MB", "4.3 GB": powers of 1000, two digits at least. Returns `text`, of SIZE_TEXT_BYTES. */
const char *size_text(uint64_t bytes, char *text);

#endif
