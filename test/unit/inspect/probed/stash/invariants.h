/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * invariants - checks a stash's tree between two operations. The code shares only the reader of records with the stash.
 *
 *   Every file in probes/ is an intact record, at the path that it names, and has one link more than there are parsed
 *   files of it. Every parsed file is in probes/. Every registration has a generation below next-gen, every generation a
 *   registration. Objects in dof/ have one link more than there are registrations of them. No folder in probes/ is
 *   empty. Nothing is left in work/.
 */
#ifndef TEST_PROBED_STASH_INVARIANTS_H
#define TEST_PROBED_STASH_INVARIANTS_H

#include <stdint.h>

/* Return the number of violations; each is printed on stderr. `version`: of all records; 0: any. */
uint32_t invariants_broken(const char *directory, uint32_t version);

#endif
