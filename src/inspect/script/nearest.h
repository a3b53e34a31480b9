/* SPDX-License-Identifier: BSD-2-Clause */
/* nearest - suggests a probe for a misspelt name. */
#ifndef INSPECT_SCRIPT_NEAREST_H
#define INSPECT_SCRIPT_NEAREST_H

#include "inspect/notes/notes.h"

/* The probe, of any provider, with the smallest Levenshtein distance to `name`; NULL: none is close. */
const struct note_probe *nearest_probe(const struct notes *notes, const char *name);

#endif
