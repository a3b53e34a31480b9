/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mgmt - the management service. Only this service decides about membership of the system. It runs in the servers that
 * `mgmt_svc_replicas` names (one, for now).
 *
 * It answers /mgmt.MgmtSvc and the system's part of /fathom.ControlSvc. It keeps control/system in the database. It numbers
 * the events of all hosts, and applies those that change states. It sends each new group map to the servers (GroupUpdate).
 * It sends starts and stops to the members' servers by gRPC. Its own server is called in the same way.
 *
 * Thread: the light thread that opened it.
 */
#ifndef CONTROL_MGMT_MGMT_H
#define CONTROL_MGMT_MGMT_H

#include "control/credential/credential.h"
#include "control/db/db.h"
#include "control/system/system.h"
#include "rpc/grpc/grpc.h"
#include "rpc/proto/mgmt.pb-c.h"

/* Size limit of a group map message, which servers must accept: per member its URI and 32 bytes for numbers and tags. */
enum { MGMT_MAP_BYTES_MAX = SYSTEM_MEMBERS_MAX * (MEMBER_URI_BYTES + 32) };

struct mgmt;

struct mgmt_options {
	const char *name;	     /* of the system */
	const char *version;	     /* of the program */
	const char *provider;	     /* of the fabric, for the first member; later members must use the same */
	const char *address;	     /* of this server, "127.0.0.1:10001" */
	const char *const *replicas; /* addresses of the management service's servers */
	size_t replica_count;
	struct db *db;		    /* lent */
	const char *database;	    /* its path, for messages; NULL: "system.db" */
	bool is_new_system;	    /* accept engines with ranks of an abandoned system as the first members */
	struct grpc_client *client; /* lent: for calls to the members' servers */
	uint32_t events_max;	    /* events kept; 0: 100,000 */
	uint64_t join_wait_ns;	    /* joins within this time become one change of the map; 0: 20 ms */
	uint64_t rank_timeout_ns; /* for a server to start or stop its ranks; 0: 180 s, more than the server's own limit */
	uint64_t heartbeat_ns;	  /* interval of servers' reports; 0: 10 s. Three missed: unresponsive */
	uint32_t net_dev_class;	  /* ARPHRD_* of the engines' interface, for clients; 0: unknown */
	uint64_t storage_timeout_ns;  /* of a call to an engine about its storage; 0: 30 s */
	uint64_t storage_read_ns;     /* wait for the figures of engines; 0: 2 s */
	uint64_t storage_patience_ns; /* a call waits this long for an engine that cannot be reached; 0: 10 s */
	uint32_t joins_max;	      /* joins that wait for their transaction, and likewise reports; 0: MGMT_JOINS_MAX */
	/*
	 * How credentials of agents are checked; the texts are lent. `folder` NULL with certificates: the agent's own is
	 * proof enough, which its connection has shown. `now_s` is not used.
	 */
	struct credential_rules credentials;
};

/* Open the service and load the system from the database. Errors: those of system_store_load() and event_store_open(). */
MUST_CHECK int mgmt_open(const struct mgmt_options *options, struct mgmt **mgmt_ret, struct fathom_fault *why);
/* Prepare for mgmt_close(): answer calls that wait for events now, and later ones immediately, so that none delays it. */
void mgmt_leave(struct mgmt *mgmt);
/* Close the service. Waiting calls are answered. The database and the client stay open. Accepts NULL. */
void mgmt_close(struct mgmt *mgmt);

/*
 * The ctx of the methods below: grpc_call_ctx() must point to a structure that begins with this. `mgmt` NULL: this server
 * does not run the management service, and the methods answer with the addresses of `replicas`.
 */
struct mgmt_of_call {
	struct mgmt *mgmt;
	const char *const *replicas;
	size_t replica_count;
};
/* Made from the table of operations (src/control/operation). */
extern const struct grpc_method mgmt_methods[];
extern const size_t mgmt_method_count;

/*
 * Check that a request for the system `sys` ("NAME", "NAME-VERSION"; "" for any) is for the system `name`. Errors: -EPERM
 * (wrong_system, with the given name without its version). Any thread; borrows both.
 */
MUST_CHECK int mgmt_check_system(const char *sys, const char *name, struct fathom_fault *why);

/* The latest events, one line each, in the format of the log; the caller frees it. NULL: read error, or out of memory. */
char *mgmt_events_text(struct mgmt *mgmt);

/* The latest `max` events, the newest first; `event` is borrowed for the call. A read error shows none. */
void mgmt_events_last(struct mgmt *mgmt, uint32_t max, void (*each)(void *ctx, const Shared__RASEvent *event), void *ctx);

const struct system *mgmt_system(const struct mgmt *mgmt);

/* Counters since mgmt_open(), and their meaning for operators: `fathom-server stats` prints them. */
#define MGMT_STATS(X)                                                                                                      \
	X(queries, "queries about members, attributes, properties and events")                                             \
	X(joins, "joins of engines that were stored")                                                                      \
	X(joins_refused, "joins that were answered with a fault")                                                          \
	X(join_batches, "transactions that stored joins")                                                                  \
	X(queue_full, "joins, reports and operations refused because too many were waiting")                               \
	X(map_updates, "versions of the group map")                                                                        \
	X(map_calls, "calls that sent the group map to a server")                                                          \
	X(map_failures, "of these, calls that failed")                                                                     \
	X(map_behind, "servers that currently lack the latest group map")                                                  \
	X(events_taken, "events that were stored")                                                                         \
	X(events_acted, "of these, events that changed a rank's state")                                                    \
	X(events_lost, "events of the management service that could not be stored")                                        \
	X(events_refused, "invalid events from servers")                                                                   \
	X(starts, "requests to start ranks")                                                                               \
	X(stops, "requests to stop ranks")                                                                                 \
	X(erases, "requests to erase the system")                                                                          \
	X(rank_calls, "calls to servers for these requests")                                                               \
	X(rank_failures, "ranks for which a request failed")                                                               \
	X(results_refused, "results of servers for ranks that they were not called for")                                   \
	X(states_refused, "states of ranks that the rules of the system refused")                                          \
	X(engines_refused, "reports with engines without a rank that could not be kept")                                   \
	X(calls_refused, "calls that were answered with a fault")                                                          \
	X(reports, "reports of servers about their engines")                                                               \
	X(ranks_seen, "states of ranks changed by a report or by missing reports")                                         \
	X(pools, "pools in the catalog")                                                                                   \
	X(volumes, "volumes in the catalog")                                                                               \
	X(storage_changes, "changes of pools and volumes that were begun")                                                 \
	X(storage_done, "of these, changes that succeeded")                                                                \
	X(storage_undone, "of these, changes that engines refused and that were undone")                                   \
	X(storage_pending, "changes that are under way or wait for an engine")                                             \
	X(storage_late, "calls that were answered before their change ended")                                              \
	X(storage_calls, "calls to engines about their storage")                                                           \
	X(storage_failures, "of these, calls that failed or got no answer")                                                \
	X(storage_lists, "of the calls, requests for what an engine holds")                                                \
	X(evicted, "publications of volumes that evictions from pools withdrew")                                           \
	X(shares_draining, "shares of pools on ranks that are being drained")                                              \
	X(old_copies, "copies of moved volumes that ranks have still to erase")                                            \
	X(access_denied, "calls of agents that an access control list or a bad credential refused")

struct mgmt_stats {
#define MGMT_STATS_FIELD(name, meaning) uint64_t name;
	MGMT_STATS(MGMT_STATS_FIELD)
#undef MGMT_STATS_FIELD
};
struct mgmt_stats mgmt_stats(const struct mgmt *mgmt);

struct mgmt_counter {
	const char *name, *meaning; /* static */
	uint64_t value;
};
#define MGMT_STATS_ONE(name, meaning) +1
enum { MGMT_COUNTERS = 0 MGMT_STATS(MGMT_STATS_ONE) };
#undef MGMT_STATS_ONE
/* The counters by name, in the order of the table. */
void mgmt_counters(const struct mgmt *mgmt, struct mgmt_counter counters_ret[static MGMT_COUNTERS]);

#endif
