/* SPDX-License-Identifier: BSD-2-Clause */
/* jail_rig - a jail on its own thread; the test's pthread waits for results. */
#ifndef TEST_UNIT_PROBED_JAIL_RIG_H
#define TEST_UNIT_PROBED_JAIL_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after those four */
#include <cmocka.h>

#include "inspect/probed/jail/jail.h"

/*
 * Time-outs of a request. LONG: for tests in which no child stalls; on a busy machine a child may have no CPU for seconds.
 * STALL: for tests that wait for a child to be given up; each such wait takes that long.
 */
enum { JAIL_RIG_LONG_MS = 60000, JAIL_RIG_STALL_MS = 2500 };

/* The result of parsing an object. */
struct jail_rig_result {
	volatile bool told;
	int error;
	struct dof_set set; /* the test frees it */
	struct fathom_fault why;
	uint64_t slices; /* slices that the jail had copied when it answered */
};

/* Start reactors and a jail; `program` as in jail_options. NULL: `why` has the reason. */
struct jail *jail_rig_start(const char *program, uint32_t children_max, uint32_t timeout_ms, struct fathom_fault *why);
void jail_rig_stop(void);

/* Start to parse each of `count` inputs. */
void jail_rig_parse(const struct dof_input *const *inputs, struct jail_rig_result *results, size_t count);
/* Wait for `result`; fail the test after a time-out. */
void jail_rig_wait(const struct jail_rig_result *result);
/* Parse one input and wait for its result. */
void jail_rig_parse_now(const struct dof_input *input, struct jail_rig_result *result);

void jail_rig_stats(struct jail_stats *stats);

#endif
