/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * checks - conditions that an operator must know, for the family health_check. Names are those of the doctor's findings
 * (docs/findings.md) where there is one. A program counts the objects with each condition; an operator may mute some.
 *
 * Numbers are permanent: a server passes the set of the muted ones to its engines as bits. Pure.
 */
#ifndef RPC_FIGURES_CHECKS_H
#define RPC_FIGURES_CHECKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/must.h"

struct figures;

/* identifier, number, name, severity; first those of engines, then those of servers */
#define FIGURE_CHECKS(X)                                                                                                   \
	X(STORAGE_FAILED, 0, "storage_failed", "broken")                                                                   \
	X(VOLUME_ERRORED, 1, "volume_errored", "broken")                                                                   \
	X(DATA_LOST, 2, "data_lost", "broken")                                                                             \
	X(POOL_FULL, 3, "pool_full", "broken")                                                                             \
	X(POOL_NEARLY_FULL, 4, "pool_nearly_full", "degraded")                                                             \
	X(REQUESTS_WAITING, 5, "requests_waiting", "broken")                                                               \
	X(REACTOR_HANGS, 6, "reactor_hangs", "broken")                                                                     \
	X(BUFFERS_EXHAUSTED, 7, "buffers_exhausted", "degraded")                                                           \
	X(PROCESS_SILENT, 32, "process_silent", "broken")                                                                  \
	X(RANK_NOT_JOINED, 33, "rank_not_joined", "degraded")                                                              \
	X(MEMBER_MISSING, 34, "member_missing", "broken")                                                                  \
	X(CERTIFICATE_EXPIRED, 35, "certificate_expired", "broken")                                                        \
	X(CERTIFICATE_EXPIRING, 36, "certificate_expiring", "degraded")                                                    \
	X(DEVICE_GONE, 37, "device_gone", "broken")                                                                        \
	X(DEVICE_WARNING, 38, "device_warning", "degraded")                                                                \
	X(DEVICE_UNREAD, 39, "device_unread", "degraded")

#define FIGURE_CHECK(identifier, number, ...) FIGURE_CHECK_##identifier = (number),
enum figure_check { FIGURE_CHECKS(FIGURE_CHECK) FIGURE_CHECKS_MAX = 64, FIGURE_CHECKS_OF_SERVERS = 32 };
#undef FIGURE_CHECK

/* Objects with each condition. Zeroed: all is well. */
struct figure_checks {
	uint64_t counts[FIGURE_CHECKS_MAX];
};

/* Add the series of an engine, or of a server. `muted`: bits of enum figure_check. */
void figures_add_checks(struct figures *figures, const struct figure_checks *checks, bool is_server, uint64_t muted);
/* The condition of this name; false: there is none. */
MUST_CHECK bool figure_check_find(const char *name, enum figure_check *check_ret);

#endif
