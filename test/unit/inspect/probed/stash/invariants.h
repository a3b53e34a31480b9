/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * invariants - what has to be true of a stash's tree between two operations, whatever happened, seen from outside: with
 * nothing of the stash's own code but the reader of records.
 *
 *   every file in probes/ is a whole record, at the place that it names, and somebody's: it has a link more than there are
 *   parsed files of it; every parsed file is in probes/; every registration has a generation below next-gen, every
 *   generation a registration; objects in dof/ have a link more than there are registrations of them; no folder in
 *   probes/ is empty; nothing is left in work/
 */
#ifndef TEST_PROBED_STASH_INVARIANTS_H
#define TEST_PROBED_STASH_INVARIANTS_H

#include <stdint.h>

/* How many are broken; each is printed on stderr. `version`: that of all records; 0: any. */
uint32_t invariants_broken(const char *directory, uint32_t version);

#endif
