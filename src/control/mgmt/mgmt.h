/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mgmt - the management service: the one place that decides who is a member of the system. It runs in the servers that
 * `mgmt_svc_replicas` names (one, for now).
 *
 * It answers /mgmt.MgmtSvc and the system's part of /fathom.ControlSvc, keeps control/system in the database, numbers the
 * events of all hosts and acts on those that change states, tells engines of each new map (GroupUpdate), and fans starts
 * and stops out to the members' servers by gRPC: its own server as well, so that there is one way.
 *
 * Everything on the light thread that opened it.
 */
#ifndef CONTROL_MGMT_MGMT_H
#define CONTROL_MGMT_MGMT_H

#include "control/db/db.h"
#include "control/system/system.h"
#include "rpc/grpc/grpc.h"
#include "rpc/proto/mgmt.pb-c.h"

/* Of the group map, which servers have to take: a member has its URI, and 32 bytes for its numbers and their tags. */
enum { MGMT_MAP_BYTES_MAX = SYSTEM_MEMBERS_MAX * (MEMBER_URI_BYTES + 32) };

struct mgmt;

struct mgmt_options {
	const char *name;	     /* of the system */
	const char *version;	     /* of the program */
	const char *provider;	     /* of the fabric; the first member's is kept for all */
	const char *address;	     /* of this server, "127.0.0.1:10001" */
	const char *const *replicas; /* addresses of the management service's servers */
	size_t replica_count;
	struct db *db;	      /* lent */
	const char *database; /* its path, for people; NULL: "system.db" */
	bool is_new_system;   /* the first members may be engines that have ranks already: of a system that is no more */
	struct grpc_client *client; /* lent: to the members' servers */
	uint32_t events_max;	    /* kept; 0: 100,000 */
	uint64_t join_wait_ns;	    /* joins that come in this time are one change of the map; 0: 20 ms */
	uint64_t rank_timeout_ns;   /* for a server to start or stop its ranks; 0: 180 s, which is longer than it tries */
	uint64_t heartbeat_ns;	/* how often servers say how their engines are; 0: 10 s. Three are missed: unresponsive */
	uint32_t net_dev_class; /* ARPHRD_* of the engines' interface, for clients; 0: unknown */
};

/* Loads what the database has. Errors: those of system_store_load(); with `why`. */
MUST_CHECK int mgmt_open(const struct mgmt_options *options, struct mgmt **mgmt_ret, struct fault *why);
/* It will be closed: who waits for events is answered, now and from now on, so that nobody has to wait for that. */
void mgmt_leave(struct mgmt *mgmt);
/* Calls that wait are answered. The database and the client stay. Accepts NULL. */
void mgmt_close(struct mgmt *mgmt);

/*
 * The methods, for the server's table; grpc_call_ctx() of their calls begins with this. `mgmt` NULL: this server has no
 * management service, and they say who has.
 */
struct mgmt_of_call {
	struct mgmt *mgmt;
	const char *const *replicas;
	size_t replica_count;
};
extern const struct grpc_method mgmt_methods[];
extern const size_t mgmt_method_count;

/*
 * Is a request for the system `sys` ("NAME", "NAME-VERSION"; "" for any) one for the system `name`? -EPERM (wrong_system),
 * with the name that was given, without the version. Any thread; borrows both.
 */
MUST_CHECK int mgmt_check_system(const char *sys, const char *name, struct fault *why);

/* The latest events, a line each, as the log has them; the caller frees it. NULL: they cannot be read, or no memory. */
char *mgmt_events_text(struct mgmt *mgmt);

const struct system *mgmt_system(const struct mgmt *mgmt);

/* Since it was opened. */
struct mgmt_stats {
	uint64_t queries;
	uint64_t joins, joins_refused, join_batches;
	uint64_t map_updates, map_calls, map_failures;	  /* versions, calls to servers, those that failed */
	uint32_t map_behind;				  /* servers that do not have the latest map, now */
	uint64_t events_taken, events_acted, events_lost; /* lost: of its own, which the database did not take */
	uint64_t events_refused;			  /* what servers sent and was none */
	uint64_t starts, stops, rank_calls, rank_failures;
	uint64_t reports, ranks_seen; /* of servers; states that were changed by them, or by there being none */
};
struct mgmt_stats mgmt_stats(const struct mgmt *mgmt);

#endif
