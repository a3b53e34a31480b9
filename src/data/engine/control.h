/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * control - an engine under a server. Everything on the control thread.
 *
 *   open -> [the engine starts] -> listen -> ready -> SET_RANK -> SET_UP -> SERVING
 *
 * The engine listens at DIR/fathom_engineN.sock and calls DIR/fathom_server.sock, both by dRPC. It tells the server that it
 * is ready until it is answered, and again when another server has come; hosts are let in when the server has given it a
 * rank and set it up. A server that dies changes nothing: the engine goes on serving, and keeps its events until they are
 * taken. It ends itself only where the group map says that it is no member any more, for then another may have its place.
 *
 *   control.c  open to close, the methods          listen.c  the address where hosts find it
 *   uplink.c   what the server is told             group.c   the group map
 *   event.c    events that wait for the server     drain.c   sending hosts away, ending
 *   devices.c  events of block devices
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
	ENGINE_EVENTS_MAX = 1024,    /* that wait for the server */
	ENGINE_GROUP_MAX = 1 << 16,  /* engines in a map */
	ENGINE_URI_KEPT_MAX = 1024,  /* bytes of another's URI */
};

#define ENGINE_RANK_NONE UINT32_MAX

/* What a response says in `status`: 0 or one of DAOS's numbers for errors, negative. */
enum der {
	DER_INVAL = -1003,
	DER_ALREADY = -1008, /* it was done before, otherwise */
	DER_NOMEM = -1009,
	DER_NOSYS = -1010, /* there is nothing like that here */
	DER_TIMEDOUT = -1011,
	DER_BUSY = -1012,
	DER_UNINIT = -1015,   /* too early: what it needs has not been done */
	DER_OVERFLOW = -1017, /* more than can be kept */
	DER_CANCELED = -1018,
	DER_BAD_TARGET = -1035, /* it was meant for another rank */
	DER_SHUTDOWN = -2017,	/* too late: the engine ends, or is about to */
};

struct engine_control {
	struct trace_object trace;
	enum engine_rank_state state;
	const struct engine_options *options; /* of the program */
	char socket_path[ENGINE_PATH_BYTES_MAX], uri[ENGINE_URI_BYTES_MAX];
	char traddr[64], trsvcid[8]; /* where it listens; "" before */
	uint64_t incarnation;
	uint32_t rank, rank_map_version; /* the version that came with the rank */
	struct drpc_server *server;
	struct deadlines deadlines;
};
extern struct engine_control engine_control;

/* ---- control.c ---- */

/*
 * Listen for the server and begin to look for it. Without --socket-dir: nothing. `options` are lent until it is closed.
 * Errors (explained): of the sockets, -ENOMEM.
 */
MUST_CHECK int engine_control_open(const struct engine_options *options, struct fault *why);
/* All is set up and listens; tell the server. */
void engine_control_ready(void);
/* The engine begins to stop: methods are refused from now on, what waits is answered. */
void engine_control_leave(void);
/* The end of it. */
void engine_control_close(void);
bool engine_control_is_on(void);
void engine_control_move(enum engine_rank_state to);
/* What the server is told when the engine is ready. Borrowed; texts belong to `engine_control`. */
void engine_control_fill_ready(Srv__NotifyReadyReq *ready);

/* ---- listen.c ---- */

/* Serve discovery at --listen, on a transport that is made if there is none. `done` once, now or later. */
void engine_control_listen(engine_done_fn done, void *ctx);

/* ---- uplink.c ---- */

MUST_CHECK int uplink_open(struct fault *why);
void uplink_close(void);
/* Tell the server that we are ready, until it answers. */
void uplink_notify(void);
/* There is an event, or one more. */
void uplink_kick(void);
/* Call `done` when all events are taken, the server does not answer, or a moment has passed; perhaps at once. */
void uplink_flush(void (*done)(void));
void uplink_stats(json_t *object);

/* ---- event.c ---- */

/*
 * Something happened that operators, or the server, should know. `hw_id`: which device, or NULL. Kept until the server has
 * it, in order, on disk where that can be. Without a server: nothing.
 */
void engine_raise_event(enum ras_id id, const char *hw_id, const char *format, ...) PRINTF_LIKE(3, 4);

struct engine_event {
	Shared__ClusterEventReq *message;
	uint32_t attempts;
	uint64_t spool_number; /* in our spool; 0: it is not there */
	STAILQ_ENTRY(engine_event) link;
};
/* The oldest that waits, or NULL. */
struct engine_event *event_first(void);
/* It has been taken, or never will be. */
void event_remove_first(bool taken);
void events_free(void);
void events_stats(json_t *object);

/* ---- devices.c ---- */

/* Raise events of block devices from now on; those that are there now have not come. */
void devices_watch(void);
/* A last look, and no more. Where they are not watched: nothing. */
void devices_unwatch(void);

/* ---- group.c ---- */

/* Keep `update` if it is newer. Returns 0, DER_NOMEM, DER_INVAL (a rank twice) or DER_OVERFLOW; `kept`: it was. */
MUST_CHECK int32_t group_update(const Mgmt__GroupUpdateReq *update, bool *kept_ret);
uint32_t group_version(void); /* 0: none */
uint32_t group_size(void);
/* Whether it has our rank with our incarnation. */
bool group_has(uint32_t rank, uint64_t incarnation);
void group_free(void);

/* ---- drain.c ---- */

/* Send hosts away, in order; `done(ctx, status)` once, now or later: 0, DER_TIMEDOUT, DER_CANCELED. Any number of times. */
typedef void (*drain_done_fn)(void *ctx, int32_t status);
void engine_drain(drain_done_fn done, void *ctx);
/* The engine stops anyway: those who wait are told so. */
void drain_cancel(void);
/* We are no member: end, in order, when the server knows. `reason` is a sentence. */
void engine_self_terminate(const char *reason);
/* Everything that was said has been heard. */
void self_terminate_check(void);

#endif
