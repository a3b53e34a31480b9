/* SPDX-License-Identifier: BSD-2-Clause */
/* show_parts - what the printers have in common: rows that fold, hosts without ports, JSON that cannot fail. */
#ifndef CMD_FATHOM_SHOW_PARTS_H
#define CMD_FATHOM_SHOW_PARTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/must.h"
#include "control/text/table.h"
#include "fathom/control.h"

#define PROGRAM "Fathom Control Server"

/* ---- tables ---- */

/* As table_create() and table_add(), where memory does not end. */
struct table *titled(const char *const *titles, size_t count);
void add_row(struct table *table, const char *const *cells);
void finish_table(struct table *table, unsigned int indent, FILE *out); /* prints it, destroys it */

/*
 * Rows whose first cell is a set that grows: of hosts (ports are left out where all of them have the same), or of ranks.
 * Rows with equal other cells become one. In the order in which they first came, or (`sorted`) of these cells.
 */
struct folded;
enum folded_kind { FOLDED_HOSTS, FOLDED_RANKS };

struct folded *folded_create(enum folded_kind kind, const char *const *titles, size_t count);
/* `member`: a host list or a rank. `cells`: those of the other columns. */
void folded_add(struct folded *folded, const char *member, const char *const *cells);
/* `ranks`: "7-9", which a server says are not there; "": none. */
void folded_add_absent(struct folded *folded, const char *ranks, const char *const *cells);
/* Prints them as a table, destroys it. Nothing of no rows. */
void folded_finish(struct folded *folded, bool sorted, unsigned int indent, FILE *out);

/* Before anything is shown: which hosts there are. Where one of them has several ports, ports are shown of all. */
void hosts_are(const char *hosts);
/*
 * "node[1-3]" of "node[1-3]:10001": without ports, if that makes no two of them one. The caller frees it.
 */
char *hosts_text(const char *hosts);

const char *number_text(uint64_t number, char *text); /* of SIZE_TEXT_BYTES */
/* "1" and "100 Mb/s", and "-" of what is below 0: not known. `text` is of SIZE_TEXT_BYTES. */
const char *node_text(int64_t node, char *text);
const char *speed_text(int64_t mbps, char *text);
/* "1 device", "2 devices". */
const char *plural(size_t count, const char *one);

/* ---- JSON ---- */

json_t *json_text(const char *text);
void put(json_t *object, const char *key, json_t *value); /* takes */
void put_text(json_t *object, const char *key, const char *text);
void put_number(json_t *object, const char *key, uint64_t number);
void put_bool(json_t *object, const char *key, bool value);
/* A list; `null` where there is none, as Go's programs say it. */
json_t *list_of_texts(const char *const *texts, size_t count);
void append(json_t *list, json_t *value); /* takes */
json_t *or_null(json_t *list);		  /* takes */

/* A fault, and whose it is (NULL: nobody's of the system): a row of "faults". */
json_t *json_fault(const struct fathom_fault *why, const char *hosts);
/*
 * DAOS's envelope around `response` (taken; NULL: there is none). `why`: NULL, or why it failed. Behind what DAOS has in it
 * stand "faults", if there are some: those of `faults` (taken; NULL: none), and `why` if it has a code.
 */
void envelope_print(json_t *response, const struct fathom_fault *why, json_t *faults, FILE *out);

#endif
