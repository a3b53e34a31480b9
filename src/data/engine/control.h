/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * control - an engine under a server. Control thread only.
 *
 *   open -> [the engine starts] -> listen -> ready -> SET_RANK -> SET_UP -> SERVING
 *
 * The engine listens at DIR/fathom_engineN.sock and calls DIR/fathom_server.sock, both by dRPC. It sends NotifyReady until
 * the server answers, and again to each new server. Hosts may connect once the server has assigned a rank (SET_RANK) and
 * called SET_UP. If the server dies the engine keeps serving, and queues its events until a server accepts them. It
 * terminates itself only if a newer group map does not contain it, because another engine may then have its rank.
 *
 *   control.c  open to close, the methods          listen.c  the address to which hosts connect
 *   uplink.c   calls to the server                 group.c   the group map
 *   event.c    events queued for the server        drain.c   draining, self-termination
 *   device_events.c  events of block devices       space_watch.c  events of full pools and storages
 *   storage/calls.c  the server's calls about pools and volumes
 */
#ifndef ENGINE_CONTROL_H
#define ENGINE_CONTROL_H

#include <jansson.h>

#include "rpc/drpc/drpc.h"
#include "data/engine/internal.h"
#include "data/engine/states.gen.h"
#include "fathom/trace/trace.h"
#include "rpc/proto/mgmt.pb-c.h"
#include "rpc/proto/srv.pb-c.h"
#include "rpc/ras/event.h"
#include "base/reactor/deadline.h"

enum {
	ENGINE_URI_BYTES_MAX = 128,
	ENGINE_PATH_BYTES_MAX = 108, /* of a socket */
	ENGINE_EVENTS_MAX = 1024,    /* queued for the server */
	ENGINE_GROUP_MAX = 1 << 16,  /* engines in a map */
	ENGINE_URI_KEPT_MAX = 1024,  /* bytes of another engine's URI */
};

#define ENGINE_RANK_NONE UINT32_MAX

/* Values of `status` in a response: 0 or one of DAOS's negative error numbers. */
enum der {
	DER_INVAL = -1003,
	DER_ALREADY = -1008, /* done before with a different value */
	DER_NOMEM = -1009,
	DER_NOSYS = -1010, /* not supported here */
	DER_TIMEDOUT = -1011,
	DER_BUSY = -1012,
	DER_UNINIT = -1015,   /* too early: a required earlier call is missing */
	DER_OVERFLOW = -1017, /* exceeds a limit */
	DER_CANCELED = -1018,
	DER_BAD_TARGET = -1035, /* addressed to another rank */
	DER_SHUTDOWN = -2017,	/* too late: the engine drains or stops */
};

struct engine_control {
	struct trace_object trace;
	enum engine_rank_state state;
	const struct engine_options *options; /* of the program */
	char socket_path[ENGINE_PATH_BYTES_MAX], uri[ENGINE_URI_BYTES_MAX];
	char traddr[64], trsvcid[8]; /* the listening address; "" before listening */
	uint64_t incarnation;
	uint32_t rank, rank_map_version; /* the group map version that SET_RANK passed */
	struct drpc_server *server;
	struct deadlines deadlines;
};
extern struct engine_control engine_control;

/* ---- control.c ---- */

/*
 * Listen for the server's calls, and start to watch for it. Without --socket-dir: does nothing. `options` are lent until
 * engine_control_close().
 * Errors (explained): of the sockets, -ENOMEM.
 */
MUST_CHECK int engine_control_open(const struct engine_options *options, struct fathom_fault *why);
/* The engine is configured and listens: notify the server. */
void engine_control_ready(void);
/* The engine stops: reject further methods, answer pending drains with DER_CANCELED. Idempotent. */
void engine_control_leave(void);
/* Close sockets, free events and the map. Without engine_control_open(): does nothing. */
void engine_control_close(void);
bool engine_control_is_on(void);
void engine_control_move(enum engine_rank_state to);
/* Fill the NotifyReady request. Its texts are borrowed from `engine_control`. */
void engine_control_fill_ready(Srv__NotifyReadyReq *ready);

/* ---- listen.c ---- */

/*
 * Serve discovery at --listen, if it was given; create the TCP transport unless it exists. Calls `done` once, now or later.
 */
void engine_control_listen(engine_done_fn done, void *ctx);

/* ---- uplink.c ---- */

MUST_CHECK int uplink_open(struct fathom_fault *why);
void uplink_close(void);
/* Send NotifyReady until the server answers. */
void uplink_notify(void);
/* Send the first queued event, unless one is in flight or waits for its retry. */
void uplink_kick(void);
/* Call `done` when the server has accepted all events, a call fails, or FLUSH_MS have passed; possibly at once. */
void uplink_flush(void (*done)(void));
void uplink_stats(json_t *object);

/* ---- event.c ---- */

/*
 * Queue an event for operators or the server. `hw_id`: the device, or NULL. Events stay queued in order until the server
 * accepts them, on disk too if the spool works. Without a server: does nothing.
 */
void engine_raise_event(enum ras_id id, const char *hw_id, const char *format, ...) PRINTF_LIKE(3, 4);

/* The same for an event about the pool of this UUID, or NULL. */
void engine_raise_pool_event(enum ras_id id, const char *pool_uuid, const char *format, ...) PRINTF_LIKE(3, 4);

struct engine_event {
	Shared__ClusterEventReq *message;
	uint32_t attempts;
	uint64_t spool_number; /* in this engine's spool; 0: not in it */
	STAILQ_ENTRY(engine_event) link;
};
/* The oldest queued event, or NULL. */
struct engine_event *event_first(void);
/* Dequeue it: the server accepted it (`taken`) or rejected it for good. */
void event_remove_first(bool taken);
void events_free(void);
void events_stats(json_t *object);

/* ---- device_events.c ---- */

/* Start to raise events of block devices. Existing devices raise no "added" event. */
void devices_watch(void);
/* Check a last time, then stop. Without devices_watch(): does nothing. */
void devices_unwatch(void);

/* ---- group.c ---- */

/*
 * Store `update` if its version is newer; `*kept_ret`: whether it was. Returns 0, DER_NOMEM, DER_INVAL (version 0, or a
 * rank twice) or DER_OVERFLOW.
 */
MUST_CHECK int32_t group_update(const Mgmt__GroupUpdateReq *update, bool *kept_ret);
uint32_t group_version(void); /* 0: none */
uint32_t group_size(void);
/* Whether the map contains `rank` with this `incarnation`. */
bool group_has(uint32_t rank, uint64_t incarnation);
void group_free(void);

/* ---- drain.c ---- */

/* Drain hosts; `done(ctx, status)` once, now or later: 0, DER_TIMEDOUT, DER_CANCELED. May be called again any time. */
typedef void (*drain_done_fn)(void *ctx, int32_t status);
void engine_drain(drain_done_fn done, void *ctx);
/* The engine stops: end all pending drains with DER_CANCELED. */
void drain_cancel(void);
/* This engine is no longer a member: drain, send the event, then stop. `reason` is a sentence. */
void engine_self_terminate(const char *reason);
/* Stop the engine if it terminates itself, has drained, and the server has all events or the time for that is over. */
void self_terminate_check(void);

/* ---- storage/health.c ---- */

/* What is wrong with the storage, with the storage of its texts. NULL: nothing. The message lives as long as `health`. */
struct engine_health {
	Shared__StorageHealth message;
	char reason[256];
};
Shared__StorageHealth *engine_storage_health(struct engine_health *health);

#endif
