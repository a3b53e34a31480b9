/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * failing - a provider before another one, whose n-th call fails.
 *
 *	for (failing_begin(&failing, inner, -EIO); failing_goes_on(&failing);) {
 *		... what is tested, with &failing.provider
 *	}
 *
 * Each round the next call fails, until a round meets none. close_fd() cannot fail.
 */
#ifndef TEST_UNIT_CONTROL_PROVIDER_FAILING_H
#define TEST_UNIT_CONTROL_PROVIDER_FAILING_H

#include "control/provider/provider.h"

struct failing {
	struct provider provider;
	struct provider *inner;
	int error;
	uint32_t fails_at, calls; /* from 1; calls of this round */
	bool began, failed;	  /* in this round */
	const char *what;	  /* which call failed */
};

void failing_begin(struct failing *failing, struct provider *inner, int error);
bool failing_goes_on(struct failing *failing);

#endif
