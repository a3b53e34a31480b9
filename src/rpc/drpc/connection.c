/* SPDX-License-Identifier: BSD-2-Clause */
/* connection - the parts that client.c and server.c share: states, watching, closing. */
#include "base/clock.h"
#include "rpc/drpc/internal.h"
#include "rpc/drpc/probes.gen.h"

void drpc_connection_move(struct drpc_connection *c, enum drpc_connection_state to)
{
	if (c->state != to)
		drpc_connection_state_move(clock_ticks(), c, to);
}

void drpc_connection_watch(struct drpc_connection *c, uint32_t events)
{
	if (c->watched_events != events)
		fd_watch_modify(c->watch, events);
	c->watched_events = events;
}
