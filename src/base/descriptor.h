/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * descriptor - how many descriptors connections of strangers may use, and how many are kept back for control.
 *
 * The kernel gives the lowest free number. So a new descriptor numbered n shows that n others are in use, and no counter is
 * needed: a connection of a host is admitted only if its descriptor is below descriptor_admitted_max(). What lies above is
 * for the control sockets and their clients, and for the files that an operator opens.
 */
#ifndef BASE_DESCRIPTOR_H
#define BASE_DESCRIPTOR_H

#include <stdint.h>

enum {
	DESCRIPTOR_RESERVE_MAX = 128,
	DESCRIPTOR_RESERVE_PART = 4, /* where the limit is small, a quarter of it */
};

/* RLIMIT_NOFILE's soft limit, at most INT32_MAX. Any thread. */
uint32_t descriptor_limit(void);

/* What is kept back under a limit of `limit`. Pure. */
uint32_t descriptor_reserve(uint32_t limit);

/* A connection whose descriptor has this number or a higher one is to be refused. Any thread. */
uint32_t descriptor_admitted_max(void);

#endif
