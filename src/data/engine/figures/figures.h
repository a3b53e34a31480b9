/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * figures - the engine's figures for monitoring: collected on the control thread, served by HTTP (--metrics) and to the
 * server of the host.
 *
 * Most figures are counters that other threads write and any thread may read. Those of connections need a message to each
 * reactor: a collection waits at most FIGURES_WAIT_MS for the answers, and otherwise serves those of the last one with
 * their age. So a reactor that hangs delays a scrape by that time and no more.
 *
 *   collect.c    a collection from begin to end; what is about the engine itself
 *   volumes.c    block devices, with exemplars; pools
 *   requests.c   stages and commands under way
 *   hosts.c      connections, hosts, buffers
 *   serve.c      --metrics, and the server's call
 *
 * Control thread.
 */
#ifndef DATA_ENGINE_FIGURES_H
#define DATA_ENGINE_FIGURES_H

#include "base/clock.h"
#include "data/engine/internal.h"
#include "rpc/figures/checks.h"
#include "rpc/figures/figures.h"

enum {
	FIGURES_WAIT_MS = 250,
	FIGURES_VOLUMES_MAX = 1000, /* whose series are served, in the order of their names */
	FIGURES_HOSTS_MAX = 1000,   /* pairs of subsystem and host */
	FIGURES_PAIRS_MAX = 512,    /* pairs of volume and stage */
	FIGURES_OLD_SEC = 5,	    /* a command that is older waits for too long */
};

/* ---- collect.c ---- */

/* `figures` is borrowed; NULL: the engine stops. Called once, now or later. */
typedef void (*engine_figures_fn)(void *ctx, const struct figures *figures);

struct engine_figures_options {
	enum figures_format format;
	const char *rank; /* "": none; copied */
	uint64_t muted;	  /* bits of enum figure_check */
};
void engine_figures_collect(const struct engine_figures_options *options, engine_figures_fn done, void *ctx);
/* During a collection: so many more objects have the condition. */
void engine_figures_note(enum figure_check check, uint64_t count);

MUST_CHECK int engine_collect_open(void);
/* Ends all collections. */
void engine_collect_close(void);

/* ---- volumes.c ---- */

void engine_figures_volumes(struct figures *figures);

/* ---- requests.c ---- */

void engine_figures_requests(struct figures *figures);

/* ---- hosts.c ---- */

/* What reactors have to be asked for. */
struct target_figures;
/* Ask them; `done` is called once, later, perhaps much later. False: the target does not run. */
MUST_CHECK bool engine_figures_ask(void (*done)(void));
/* What they answered last, and when (a tick; 0: never). */
void engine_figures_hosts(struct figures *figures);
uint64_t engine_figures_asked_tick(void);
void engine_figures_forget(void);

/* ---- serve.c ---- */

/* Serve --metrics, if it was given. Errors (explained): those of figures_http_open(), -ENOMEM. */
MUST_CHECK int engine_figures_open(const struct engine_options *options, struct fathom_fault *why);
void engine_figures_close(void);

struct drpc_call;
struct ProtobufCMessage;
/* FIGURES, of the server. */
void engine_figures_call(struct drpc_call *call, const struct ProtobufCMessage *request);

static inline double figures_seconds(uint64_t ticks)
{
	return (double)ticks / (double)clock_tick_rate();
}

#endif
