/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * statistics - counters of the server since its start, with their meaning for operators: `fathom-server stats` and the file
 * statistics.txt of a collection show them, beside those of the management service. Included by core.h.
 */
#ifndef CONTROL_SERVER_CORE_STATISTICS_H
#define CONTROL_SERVER_CORE_STATISTICS_H

#include <stdint.h>

#include "control/mgmt/mgmt.h"

#define SERVER_STATS(X)                                                                                                    \
	X(events_added, "events added to the spool of this host")                                                          \
	X(events_repeated, "events that the spool had already")                                                            \
	X(events_rejected, "events that the spool did not take: invalid, no room, out of memory")                          \
	X(events_foreign, "events of another instance in the spool of a dead engine, which were skipped")                  \
	X(events_left, "new events from the spools of dead engines")                                                       \
	X(events_error, "events added of the severity ERROR")                                                              \
	X(events_warning, "events added of the severity WARNING")                                                          \
	X(events_notice, "events added of the severity NOTICE")                                                            \
	X(events_waiting, "events on disk that the management service has not taken")                                      \
	X(flush_failures, "writes of the spool that failed")                                                               \
	X(send_failures, "calls with events that the management service did not answer well")                              \
	X(report_failures, "reports of the engines that the management service did not answer well")                       \
	X(storage_calls, "requests about the storage of engines here")                                                     \
	X(storage_failures, "those that no engine answered")                                                               \
	X(health_readings, "requests to the helper for the health of a device")                                            \
	X(health_failures, "those that failed")                                                                            \
	X(doctor_looks, "looks of the doctor at this host, for other hosts or the status page")                            \
	X(doctor_failures, "those that gave no report")                                                                    \
	X(metrics_connections, "connections to telemetry_port by TLS")                                                     \
	X(metrics_refused, "those refused: no valid certificate, or one of a role that may not read")

struct server_stats {
#define SERVER_STATS_FIELD(name, meaning) uint64_t name;
	SERVER_STATS(SERVER_STATS_FIELD)
#undef SERVER_STATS_FIELD
};

#define SERVER_STATS_ONE(name, meaning) +1
enum { SERVER_COUNTERS_MAX = MGMT_COUNTERS SERVER_STATS(SERVER_STATS_ONE) };
#undef SERVER_STATS_ONE

struct server_counter {
	const char *group, *name, *meaning; /* static */
	uint64_t value;
};

struct server;
/*
 * Fill the counters of this server (group "server"), and, on the management host, of the management service ("mgmt").
 * Returns their number.
 */
size_t server_counters(const struct server *server, struct server_counter counters_ret[static SERVER_COUNTERS_MAX]);
/* The same as text, one line each; the caller frees it. NULL: out of memory. */
char *server_counters_text(const struct server *server);

#endif
