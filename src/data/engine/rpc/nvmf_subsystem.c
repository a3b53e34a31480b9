/* SPDX-License-Identifier: BSD-2-Clause */
/* Changes to subsystems, their listeners, namespaces and hosts. Each replies when the target reports completion. */
#include <string.h>

#include "base/text.h"
#include "data/engine/methods.gen.h"
#include "data/engine/rpc/nvmf.h"

/* ---- the subsystem ---- */

static void subsystem_created(void *ctx, int rc, const struct fathom_fault *why)
{
	if (rc == 0)
		rpc_reply(ctx, NULL);
	else
		rpc_error(ctx, RPC_CODE_INTERNAL, "Unable to create subsystem: %s", why->text);
}

void method_nvmf_create_subsystem(struct rpc_request *request, const struct nvmf_create_subsystem_params *p)
{
	struct nvmf_subsystem_options options = p->options;

	if (text_copy(options.nqn, sizeof(options.nqn), p->nqn) < 0) {
		rpc_error(request, RPC_CODE_INTERNAL,
			  "Unable to create subsystem: an NQN has at most 223 bytes, this one %zu", strlen(p->nqn));
		return;
	}
	nvmf_subsystem_create(&options, subsystem_created, request);
}

void method_nvmf_delete_subsystem(struct rpc_request *request, const struct nvmf_delete_subsystem_params *p)
{
	if (nvmf_subsystem_to_change(request, p->nqn))
		nvmf_subsystem_destroy(p->nqn, nvmf_changed, request);
}

/* ---- listeners ---- */

void method_nvmf_subsystem_add_listener(struct rpc_request *request, const struct nvmf_subsystem_add_listener_params *p)
{
	if (nvmf_subsystem_to_change(request, p->nqn))
		nvmf_subsystem_add_listener(p->nqn, &p->listen_address, &p->options, nvmf_changed, request);
}

void method_nvmf_subsystem_remove_listener(struct rpc_request *request,
					   const struct nvmf_subsystem_remove_listener_params *p)
{
	if (nvmf_subsystem_to_change(request, p->nqn))
		nvmf_subsystem_remove_listener(p->nqn, &p->listen_address, nvmf_changed, request);
}

/* ---- namespaces ---- */

static void ns_added(void *ctx, int rc, const struct fathom_fault *why, uint32_t nsid)
{
	if (rc == 0)
		rpc_reply(ctx, json_made(json_integer(nsid)));
	else
		nvmf_changed(ctx, rc, why);
}

void method_nvmf_subsystem_add_ns(struct rpc_request *request, const struct nvmf_subsystem_add_ns_params *p)
{
	if (nvmf_subsystem_to_change(request, p->nqn))
		nvmf_subsystem_add_ns(p->nqn, &p->namespace, ns_added, request);
}

void method_nvmf_subsystem_remove_ns(struct rpc_request *request, const struct nvmf_subsystem_remove_ns_params *p)
{
	if (nvmf_subsystem_to_change(request, p->nqn))
		nvmf_subsystem_remove_ns(p->nqn, p->nsid, p->drain_timeout_ms, nvmf_changed, request);
}

/* ---- hosts ---- */

/* The table rejects keys: a host configured for authentication must not connect without it. */
void method_nvmf_subsystem_add_host(struct rpc_request *request, const struct nvmf_subsystem_add_host_params *p)
{
	if (nvmf_subsystem_to_change(request, p->nqn))
		nvmf_subsystem_add_host(p->nqn, p->host, nvmf_changed, request);
}

void method_nvmf_subsystem_remove_host(struct rpc_request *request, const struct nvmf_subsystem_remove_host_params *p)
{
	if (nvmf_subsystem_to_change(request, p->nqn))
		nvmf_subsystem_remove_host(p->nqn, p->host, nvmf_changed, request);
}

void method_nvmf_subsystem_allow_any_host(struct rpc_request *request, const struct nvmf_subsystem_allow_any_host_params *p)
{
	if (nvmf_subsystem_to_change(request, p->nqn))
		nvmf_subsystem_set_allow_any_host(p->nqn, p->allow_any_host, nvmf_changed, request);
}
