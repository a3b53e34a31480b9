/* SPDX-License-Identifier: BSD-2-Clause */
/* made - generates probe sets of any size. */
#ifndef TEST_UNIT_PROBED_MADE_H
#define TEST_UNIT_PROBED_MADE_H

#include "inspect/probed/dof/dof.h"

/*
 * A set of one provider with `probe_count` probes "p0"... in functions of ten each, each with two arguments and one site,
 * every third also with an is-enabled site if `has_enabled`. Sorted. made_free() it.
 */
struct dof_set made_set(uint32_t probe_count, bool has_enabled);
void made_free(struct dof_set *set);

/* The same set encoded as DOF; the caller calls free(). */
void *made_object(uint32_t probe_count, size_t *bytes_ret);

#endif
