/* SPDX-License-Identifier: BSD-2-Clause */
/* nearest - a name that somebody may have meant. */
#ifndef INSPECT_SCRIPT_NEAREST_H
#define INSPECT_SCRIPT_NEAREST_H

#include "inspect/notes/notes.h"

/* The probe whose name is most like `name`, of whatever provider; NULL: none is much like it. */
const struct note_probe *nearest_probe(const struct notes *notes, const char *name);

#endif
