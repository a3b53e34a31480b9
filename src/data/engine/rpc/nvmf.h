/* SPDX-License-Identifier: BSD-2-Clause */
/* Helpers shared by the files of the nvmf methods. */
#ifndef ENGINE_RPC_NVMF_H
#define ENGINE_RPC_NVMF_H

#include "data/engine/internal.h"
#include "data/target/target.h"

#define NVMF_TARGET_NAME "nvmf_tgt"

/* Check "tgt_name", NULL if absent: there is one target. False: it names another; an error reply has been sent. */
MUST_CHECK bool nvmf_is_our_target(struct rpc_request *request, const char *tgt_name);
/* NULL: there is no such subsystem; an error reply has been sent. */
struct nvmf_subsystem *nvmf_subsystem_named(struct rpc_request *request, const char *nqn);

/* Likewise, for a method that changes it. NULL also: it serves a published volume. */
struct nvmf_subsystem *nvmf_subsystem_to_change(struct rpc_request *request, const char *nqn);

/* Reply to a change: true, or error -32602 with `why`. `ctx` is the request. */
void nvmf_changed(void *ctx, int rc, const struct fathom_fault *why);

/* {"trtype", "adrfam", "traddr", "trsvcid"} */
json_t *nvmf_address_json(const char *trtype, const char *adrfam, const char *traddr, const char *trsvcid);
json_t *nvmf_uuid_json(const uint8_t uuid[16]);
/* Upper-case hexadecimal digits. */
json_t *nvmf_hex_json(const uint8_t *bytes, size_t count);
/* Current values of the parameters of nvmf_create_transport. */
json_t *nvmf_transport_json(const struct nvmf_transport *transport);

/* listen.c: whether --listen created this listener. Such a listener is not saved in the configuration. */
bool engine_control_made_listener(const char *nqn, const struct nvmf_address *address);

#endif
