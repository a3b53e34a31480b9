/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * doctor_fold - findings of many hosts, each once with the list of its hosts. Two findings are equal if their names and
 * texts are, apart from process ids: "(pid 71)".
 *
 * Out of memory: the program aborts.
 */
#ifndef CMD_FATHOM_CONTROL_DOCTOR_FOLD_H
#define CMD_FATHOM_CONTROL_DOCTOR_FOLD_H

#include <jansson.h>
#include <stdio.h>

#include "fathom/control.h"
#include "inspect/doctor/findings.h"

struct diagnoses;

struct diagnoses *diagnoses_create(void);
/* Accepts NULL. */
void diagnoses_destroy(struct diagnoses *folded);
/* Add a finding of these hosts ("10.0.0.[1-3]:10001"), in the order of causes of each host. Borrows; copies. */
void diagnoses_add(struct diagnoses *folded, const struct fathom_control_finding *finding, const char *hosts);
/* Add the findings of this program. */
void diagnoses_add_own(struct diagnoses *folded, const struct findings *list, const char *hosts);

size_t diagnoses_count(const struct diagnoses *folded);
enum finding_severity diagnoses_worst(const struct diagnoses *folded);
/* The worst first; what follows from another finding stands below it, if that is there. Check ferror(`to`). */
void diagnoses_print(const struct diagnoses *folded, FILE *to);
/* A list, in the same order. Pair: json_decref(). */
json_t *diagnoses_json(const struct diagnoses *folded);

#endif
