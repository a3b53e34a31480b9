/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * findings - what the doctor found, in the order of causes. findings.def lists all that there can be.
 *
 * A rule makes a finding by its function in findings.gen.h and adds evidence to it:
 *
 *     struct finding *it = find_process_stopped(list, FINDING_CERTAIN, name, pid);
 *
 *     finding_shows(it, "its state is %s", state);
 *     finding_see(it, "cat /proc/%d/status", pid);
 *
 * Thread: one. Out of memory: the program aborts.
 */
#ifndef INSPECT_DOCTOR_FINDINGS_H
#define INSPECT_DOCTOR_FINDINGS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/must.h"

enum finding_severity { FINDING_NOTE, FINDING_DEGRADED, FINDING_BROKEN };
enum finding_certainty { FINDING_POSSIBLE, FINDING_LIKELY, FINDING_CERTAIN };
enum { FINDINGS_MAX = 256 };

struct finding {
	uint32_t row; /* of the table: enum finding_row */
	enum finding_certainty sure;
	char *says, *does;
	json_t *shows, *see; /* lists of texts: evidence, and commands that show more */
	int32_t cause;	     /* the index of the finding from which this one follows; -1: none */
	int64_t ended_ms;    /* the time since its last sign, if it is of the past; -1: it is of the present */
};

struct findings {
	uint32_t count, left_out; /* left_out: beyond FINDINGS_MAX */
	struct finding rows[FINDINGS_MAX];
};

struct findings *findings_create(void);
/* Accepts NULL. */
void findings_destroy(struct findings *list);

/* Add an empty finding. NULL: the list is full; the functions below accept it. */
struct finding *finding_add(struct findings *list, uint32_t row, enum finding_certainty sure);
/* Format a text; the caller owns it. */
char *finding_text(const char *format, ...) PRINTF_LIKE(1, 2);
/* Takes `says` and `does`. Returns `finding`. */
struct finding *finding_set(struct finding *finding, char *says, char *does);
/* Add a line of evidence, or a command that shows more. */
void finding_shows(struct finding *finding, const char *format, ...) PRINTF_LIKE(2, 3);
void finding_see(struct finding *finding, const char *format, ...) PRINTF_LIKE(2, 3);

/* It is of the past: its last sign was `ago_ms` ago. It counts as a note, and explains only what is past, too. */
void finding_end(struct finding *finding, int64_t ago_ms);

/* Sort by causes, and set `cause` of each: causes first, each followed by what follows from it. */
void findings_order(struct findings *list);

int finding_code(const struct finding *finding);
const char *finding_name(const struct finding *finding);
enum finding_severity finding_severity(const struct finding *finding);
/* What it counts for: its severity, or FINDING_NOTE if it has ended. */
enum finding_severity finding_weight(const struct finding *finding);
/* "broken", "certain" */
const char *finding_severity_name(enum finding_severity severity);
const char *finding_certainty_name(enum finding_certainty sure);
/* Is the finding of this row in the list? */
bool findings_have(const struct findings *list, uint32_t row);
/* The worst severity of the present; FINDING_NOTE if there is no finding. */
enum finding_severity findings_worst(const struct findings *list);

#endif
