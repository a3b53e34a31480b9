/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * failing - a provider whose n-th call fails; the others go to an inner provider.
 *
 *	for (failing_begin(&failing, inner, -EIO); failing_goes_on(&failing);) {
 *		... the code under test, with &failing.provider
 *	}
 *
 * Each round the next call fails, until a round has no failure. close_fd() cannot fail.
 */
#ifndef TEST_UNIT_CONTROL_PROVIDER_FAILING_H
#define TEST_UNIT_CONTROL_PROVIDER_FAILING_H

#include "control/provider/provider.h"

struct failing {
	struct provider provider;
	struct provider *inner;
	int error;
	uint32_t fails_at, calls; /* the number of the failing call, from 1; calls in this round */
	bool began, failed;	  /* whether this round began, whether a call failed in it */
	const char *what;	  /* the name of the failed call */
};

void failing_begin(struct failing *failing, struct provider *inner, int error);
bool failing_goes_on(struct failing *failing);

#endif
