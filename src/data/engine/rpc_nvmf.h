/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the nvmf methods share. */
#ifndef ENGINE_RPC_NVMF_H
#define ENGINE_RPC_NVMF_H

#include "data/engine/internal.h"
#include "data/target/target.h"

#define NVMF_TARGET_NAME "nvmf_tgt"

/* "tgt_name" may be given; there is one target. False: another was named, and the request has been answered. */
MUST_CHECK bool nvmf_is_our_target(struct rpc_request *request, const char *tgt_name);
/* NULL: there is no such subsystem, and the request has been answered. */
struct nvmf_subsystem *nvmf_subsystem_named(struct rpc_request *request, const char *nqn);

/*
 * True: `wanted` is asked for by `parameter`, which does what `what` says, but not here; the request has been answered. So
 * nobody relies on what does not happen.
 */
MUST_CHECK bool nvmf_is_not_here(struct rpc_request *request, bool wanted, const char *parameter, const char *what);

/* The end of a change: true, or -32602 with what was wrong. `ctx` is the request. */
void nvmf_changed(void *ctx, int rc, const struct fault *why);

/* {"trtype", "adrfam", "traddr", "trsvcid"} */
json_t *nvmf_address_json(const char *trtype, const char *adrfam, const char *traddr, const char *trsvcid);
json_t *nvmf_uuid_json(const uint8_t uuid[16]);
/* Upper-case hexadecimal digits. */
json_t *nvmf_hex_json(const uint8_t *bytes, size_t count);
/* Parameters of nvmf_create_transport, as they are now. */
json_t *nvmf_transport_json(const struct nvmf_transport *transport);

/* listen.c: whether it is there because of --listen, and so no part of the configuration. */
bool engine_control_made_listener(const char *nqn, const struct nvmf_address *address);

#endif
