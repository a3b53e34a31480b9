/* SPDX-License-Identifier: BSD-2-Clause */
/* parts - shared by the printers: folded rows, hosts without ports, JSON that cannot fail. */
#ifndef CMD_FATHOM_SHOW_PARTS_H
#define CMD_FATHOM_SHOW_PARTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/must.h"
#include "cmd/fathom/show/dmg.h"
#include "cmd/fathom/show/show.gen.h"
#include "fathom/control.h"

#define PROGRAM "Fathom Control Server"

/* ---- tables ---- */

/* Like dmg_table_create() and table_add(), but abort if out of memory. */
struct table *titled(const char *const *titles, size_t count);
void add_row(struct table *table, const char *const *cells);
void finish_table(struct table *table, unsigned int indent, FILE *out); /* prints it, destroys it */

/*
 * Rows with a set in the first cell: of hosts (without ports if all have the same), or of ranks. Rows with equal other
 * cells are merged. Order: of arrival, or (`sorted`) by these cells.
 */
struct folded;
enum folded_kind { FOLDED_HOSTS, FOLDED_RANKS };

struct folded *folded_create(enum folded_kind kind, const char *const *titles, size_t count);
/* `member`: a host list or a rank. `cells`: the other columns. */
void folded_add(struct folded *folded, const char *member, const char *const *cells);
/* `ranks`: "7-9", which a server reports as absent; "": none. */
void folded_add_absent(struct folded *folded, const char *ranks, const char *const *cells);
/* Print them as a table and destroy it. Without rows, print nothing. */
void folded_finish(struct folded *folded, bool sorted, unsigned int indent, FILE *out);

/* Call before printing: set the hosts of the output. If one of them has several ports, all are printed with ports. */
void set_output_hosts(const char *hosts);
/* "node[1-3]" for "node[1-3]:10001": without ports, unless two hosts would become equal. The caller frees it. */
char *hosts_text(const char *hosts);

/* Print the hosts of an answer as a heading. */
void print_hosts(const struct fathom_control_answer *answer, FILE *out);

enum { CELL_BYTES = 1024 };

const char *number_text(uint64_t number, char *text); /* of SIZE_TEXT_BYTES */
const char *integer_text(int64_t number, char *text); /* the same */
/* "a, b"; "-" if there are none. At most CELL_BYTES, what does not fit is left out. */
const char *joined_text(const char *const *texts, size_t count, char *text);
/* "1" and "100 Mb/s"; "-" if negative: unknown. `text` has SIZE_TEXT_BYTES. */
const char *node_text(int64_t node, char *text);
const char *speed_text(int64_t mbps, char *text);
const char *rank_text(uint32_t rank, char *text); /* "-" for FATHOM_CONTROL_NO_RANK; of SIZE_TEXT_BYTES */
const char *pid_text(uint64_t pid, char *text);	  /* "-" for 0; the same */
/* "2026-11-28 16:50:55", in local time; "-" for 0. `text` has SIZE_TEXT_BYTES. */
const char *time_text(uint64_t realtime_ns, char *text);
/* "Joined" for "joined"; unknown states are unchanged. */
const char *state_title(const char *state);
/* `from` in small letters, cut to `bytes`. Returns `text`. */
const char *lower_text(const char *from, char *text, size_t bytes);
/* "1 device", "2 devices". */
const char *plural(size_t count, const char *one);

/* Health in dmg's layout, `indent` blanks behind the margin; NULL: that there is none. */
void print_health_stats(const struct fathom_control_health_stats *stats, unsigned int indent, FILE *out);

/* ---- pools ---- */

/* Its state as dmg shows it: "TargetsExcluded" if ranks of a pool that is ready get no volumes. */
const char *pool_state(const struct fathom_control_pool *pool);
/* How unevenly the free space of a tier is spread over the targets, in percent; computed as dmg does. */
uint32_t tier_imbalance(const struct fathom_control_pool *pool, const struct fathom_control_pool_tier *tier);

/* ---- JSON ---- */

json_t *json_text(const char *text);
void put(json_t *object, const char *key, json_t *value); /* takes */
void put_text(json_t *object, const char *key, const char *text);
void put_number(json_t *object, const char *key, uint64_t number);
void put_bool(json_t *object, const char *key, bool value);
/* A list; `null` if it is empty, as dmg, a program in Go, prints it. */
json_t *list_of_texts(const char *const *texts, size_t count);
json_t *list_of_i32s(const int32_t *numbers, size_t count); /* the same */
json_t *list_of_u32s(const uint32_t *numbers, size_t count);
json_t *list_of_u64s(const uint64_t *numbers, size_t count);
void append(json_t *list, json_t *value); /* takes */
json_t *or_null(json_t *list);		  /* takes */

/* A row of "faults": a fault and its hosts (NULL: of the whole system). */
json_t *json_fault(const struct fathom_fault *why, const char *hosts);
/*
 * Print DAOS's envelope around `response` (taken; NULL: none). `why`: NULL, or the failure. After DAOS's members,
 * "faults" has the rows of `faults` (taken; NULL: none), and `why` if it has a code; it is left out if empty.
 */
void envelope_print(json_t *response, const struct fathom_fault *why, json_t *faults, FILE *out);

#endif
