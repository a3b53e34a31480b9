/* SPDX-License-Identifier: BSD-2-Clause */
/* rpc_volume - what the methods for pools, volumes and snapshots share. */
#ifndef ENGINE_RPC_VOLUME_H
#define ENGINE_RPC_VOLUME_H

#include "data/engine/internal.h"
#include "data/store/volume/volumes.h"

/* The engine's storage. NULL: it has none, and the request has its reply. */
struct volumes *rpc_volume_storage(struct rpc_request *request);

/* Likewise, for a change that the catalog would not know: NULL also if the engine is under a server. */
struct volumes *rpc_volume_own_storage(struct rpc_request *request);

/* A volumes_done_fn whose ctx is the request: reply to it. */
void rpc_volume_done(void *ctx, const struct fathom_fault *why);

#endif
