/* SPDX-License-Identifier: BSD-2-Clause */
/* made - sets of any size. */
#ifndef TEST_UNIT_PROBED_MADE_H
#define TEST_UNIT_PROBED_MADE_H

#include "inspect/probed/dof/dof.h"

/*
 * A set of one provider with `probe_count` probes "p0"... in functions of ten each, each with two arguments and one site,
 * every third asked about as well if `has_enabled`. In order. made_free() it.
 */
struct dof_set made_set(uint32_t probe_count, bool has_enabled);
void made_free(struct dof_set *set);

/* The same as DOF, for free(). */
void *made_object(uint32_t probe_count, size_t *bytes_ret);

#endif
