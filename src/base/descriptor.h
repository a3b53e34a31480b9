/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * descriptor - limits the file descriptors that host connections may use, and reserves the rest for control.
 *
 * The kernel assigns the lowest free number. So a new descriptor numbered n shows that n others are in use, and no counter
 * is needed: a host's connection is admitted only if its descriptor is below descriptor_admitted_max(). Higher numbers are
 * reserved for the control sockets, their clients, and files that an operator opens.
 */
#ifndef BASE_DESCRIPTOR_H
#define BASE_DESCRIPTOR_H

#include <stdint.h>

enum {
	DESCRIPTOR_RESERVE_MAX = 128,
	DESCRIPTOR_RESERVE_PART = 4, /* under a small limit, reserve a quarter of it */
};

/* RLIMIT_NOFILE's soft limit, at most INT32_MAX. Any thread. */
uint32_t descriptor_limit(void);

/* The number of descriptors to reserve when RLIMIT_NOFILE is `limit`. Pure. */
uint32_t descriptor_reserve(uint32_t limit);

/* Reject a connection whose descriptor has this number or a higher one. Any thread. */
uint32_t descriptor_admitted_max(void);

#endif
