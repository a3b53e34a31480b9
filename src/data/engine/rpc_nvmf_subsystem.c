/* SPDX-License-Identifier: BSD-2-Clause */
/* Changes to subsystems, their listeners, namespaces and hosts. Each replies when the target reports completion. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <uuid/uuid.h>

#include "base/bits.h"
#include "base/text.h"
#include "data/engine/rpc_nvmf.h"

/* False: `from` is too long for `to`; an error reply has been sent. */
static bool copy_text(struct rpc_request *request, const char *name, char *to, size_t to_bytes, const char *from)
{
	if (!from || text_copy(to, to_bytes, from) == 0)
		return true;
	rpc_error(request, RPC_CODE_INVALID_PARAMETERS, "Invalid parameters: \"%s\" has more than %zu characters", name,
		  to_bytes - 1);
	return false;
}

/* ---- the subsystem ---- */

struct create_params {
	const char *nqn, *tgt_name, *serial_number, *model_number;
	bool ana_reporting, passthrough;
	struct nvmf_subsystem_options options;
};

#define OPTION(TYPE, NAME) RPC_PARAM_##TYPE(#NAME, create_params, options.NAME, false)

static const struct rpc_param create_fields[] = {
	RPC_PARAM_STRING("nqn", create_params, nqn, true),
	RPC_PARAM_STRING("tgt_name", create_params, tgt_name, false),
	RPC_PARAM_STRING("serial_number", create_params, serial_number, false),
	RPC_PARAM_STRING("model_number", create_params, model_number, false),
	RPC_PARAM_MEANINGLESS(STRING, "admin_label"),
	OPTION(U32, max_namespaces),
	OPTION(BOOL, allow_any_host),
	RPC_PARAM_BOOL("ana_reporting", create_params, ana_reporting, false),
	OPTION(U16, min_cntlid),
	OPTION(U16, max_cntlid),
	OPTION(U32, max_host_controllers),
	OPTION(U32, dmrsl),
	OPTION(U8, wzsl),
	RPC_PARAM_BOOL("passthrough", create_params, passthrough, false),
	OPTION(BOOL, enable_nssr),
	RPC_PARAM_END,
};

static void subsystem_created(void *ctx, int rc, const struct fathom_fault *why)
{
	if (rc == 0)
		rpc_reply(ctx, NULL);
	else
		rpc_error(ctx, RPC_CODE_INTERNAL, "Unable to create subsystem: %s", why->text);
}

static void nvmf_create_subsystem(struct rpc_request *request, const json_t *params)
{
	struct create_params p = { 0 };

	nvmf_subsystem_options_init(&p.options);
	if (!rpc_params(request, params, create_fields, &p) || !nvmf_is_our_target(request, p.tgt_name) ||
	    nvmf_is_not_here(request, p.ana_reporting, "ana_reporting", "tell hosts which paths are to be used") ||
	    nvmf_is_not_here(request, p.passthrough, "passthrough",
			     "hand commands that it does not know through to devices") ||
	    !copy_text(request, "serial_number", p.options.serial_number, sizeof(p.options.serial_number),
		       p.serial_number) ||
	    !copy_text(request, "model_number", p.options.model_number, sizeof(p.options.model_number), p.model_number))
		return;
	if (text_copy(p.options.nqn, sizeof(p.options.nqn), p.nqn) < 0) {
		rpc_error(request, RPC_CODE_INTERNAL,
			  "Unable to create subsystem: an NQN has at most 223 bytes, this one %zu", strlen(p.nqn));
		return;
	}
	nvmf_subsystem_create(&p.options, subsystem_created, request);
}

struct nqn_params {
	const char *nqn, *tgt_name;
};

static const struct rpc_param nqn_fields[] = {
	RPC_PARAM_STRING("nqn", nqn_params, nqn, true),
	RPC_PARAM_STRING("tgt_name", nqn_params, tgt_name, false),
	RPC_PARAM_END,
};

static void nvmf_delete_subsystem(struct rpc_request *request, const json_t *params)
{
	struct nqn_params p = { 0 };

	if (rpc_params(request, params, nqn_fields, &p) && nvmf_is_our_target(request, p.tgt_name) &&
	    nvmf_subsystem_named(request, p.nqn))
		nvmf_subsystem_destroy(p.nqn, nvmf_changed, request);
}

/* ---- listeners ---- */

struct address_params {
	const char *trtype, *adrfam, *traddr, *trsvcid;
};

struct listener_params {
	const char *nqn, *tgt_name, *sock_impl;
	struct address_params address;
	bool secure_channel;
	int ana_state;
};

enum { ANA_OPTIMIZED }; /* in ana_states; also the default */

static const char *const ana_states[] = { "optimized", "non_optimized", "inaccessible", NULL };

static const struct rpc_param address_fields[] = {
	RPC_PARAM_STRING("trtype", address_params, trtype, true),
	RPC_PARAM_STRING("adrfam", address_params, adrfam, false),
	RPC_PARAM_STRING("traddr", address_params, traddr, true),
	RPC_PARAM_STRING("trsvcid", address_params, trsvcid, false),
	RPC_PARAM_END,
};

static const struct rpc_param add_listener_fields[] = {
	RPC_PARAM_STRING("nqn", listener_params, nqn, true),
	RPC_PARAM_STRING("tgt_name", listener_params, tgt_name, false),
	RPC_PARAM_OBJECT("listen_address", listener_params, address, true, address_fields),
	RPC_PARAM_BOOL("secure_channel", listener_params, secure_channel, false),
	RPC_PARAM_ENUM("ana_state", listener_params, ana_state, false, ana_states),
	RPC_PARAM_STRING("sock_impl", listener_params, sock_impl, false),
	RPC_PARAM_MEANINGLESS(I32, "numa_id"),
	RPC_PARAM_END,
};

static const struct rpc_param remove_listener_fields[] = {
	RPC_PARAM_STRING("nqn", listener_params, nqn, true),
	RPC_PARAM_STRING("tgt_name", listener_params, tgt_name, false),
	RPC_PARAM_OBJECT("listen_address", listener_params, address, true, address_fields),
	RPC_PARAM_END,
};

static bool read_address(struct rpc_request *request, const struct address_params *from, struct nvmf_address *to)
{
	memset(to, 0, sizeof(*to));
	return copy_text(request, "trtype", to->trtype, sizeof(to->trtype), from->trtype) &&
	       copy_text(request, "adrfam", to->adrfam, sizeof(to->adrfam), from->adrfam) &&
	       copy_text(request, "traddr", to->traddr, sizeof(to->traddr), from->traddr) &&
	       copy_text(request, "trsvcid", to->trsvcid, sizeof(to->trsvcid), from->trsvcid);
}

static void nvmf_subsystem_add_listener_rpc(struct rpc_request *request, const json_t *params)
{
	struct nvmf_listener_options options = { 0 };
	struct listener_params p = { 0 };
	struct nvmf_address address;

	if (!rpc_params(request, params, add_listener_fields, &p) || !nvmf_is_our_target(request, p.tgt_name) ||
	    !read_address(request, &p.address, &address) ||
	    !copy_text(request, "sock_impl", options.sock_impl, sizeof(options.sock_impl), p.sock_impl) ||
	    nvmf_is_not_here(request, p.secure_channel, "secure_channel", "encrypt connections") ||
	    nvmf_is_not_here(request, p.ana_state != ANA_OPTIMIZED, "ana_state",
			     "keep hosts from a listener: I/O through it would succeed as through any other") ||
	    !nvmf_subsystem_named(request, p.nqn))
		return;
	nvmf_subsystem_add_listener(p.nqn, &address, &options, nvmf_changed, request);
}

static void nvmf_subsystem_remove_listener_rpc(struct rpc_request *request, const json_t *params)
{
	struct listener_params p = { 0 };
	struct nvmf_address address;

	if (rpc_params(request, params, remove_listener_fields, &p) && nvmf_is_our_target(request, p.tgt_name) &&
	    read_address(request, &p.address, &address) && nvmf_subsystem_named(request, p.nqn))
		nvmf_subsystem_remove_listener(p.nqn, &address, nvmf_changed, request);
}

/* ---- namespaces ---- */

struct ns_params {
	const char *bdev_name, *ptpl_file, *nguid, *eui64, *uuid;
	uint32_t nsid, anagrpid;
	bool no_auto_visible;
};

struct add_ns_params {
	const char *nqn, *tgt_name;
	struct ns_params ns;
};

static const struct rpc_param ns_fields[] = {
	RPC_PARAM_STRING("bdev_name", ns_params, bdev_name, true),
	RPC_PARAM_U32("nsid", ns_params, nsid, false),
	RPC_PARAM_STRING("nguid", ns_params, nguid, false),
	RPC_PARAM_STRING("eui64", ns_params, eui64, false),
	RPC_PARAM_STRING("uuid", ns_params, uuid, false),
	RPC_PARAM_U32("anagrpid", ns_params, anagrpid, false),
	RPC_PARAM_BOOL("no_auto_visible", ns_params, no_auto_visible, false),
	RPC_PARAM_STRING("ptpl_file", ns_params, ptpl_file, false),
	RPC_PARAM_MEANINGLESS(BOOL, "hide_metadata"),
	RPC_PARAM_END,
};

static const struct rpc_param add_ns_fields[] = {
	RPC_PARAM_STRING("nqn", add_ns_params, nqn, true),
	RPC_PARAM_OBJECT("namespace", add_ns_params, ns, true, ns_fields),
	RPC_PARAM_STRING("tgt_name", add_ns_params, tgt_name, false),
	RPC_PARAM_END,
};

/* Exactly `count` bytes in hexadecimal. NULL: leave `bytes` unchanged. */
static bool read_hex(struct rpc_request *request, const char *name, const char *text, uint8_t *bytes, size_t count)
{
	if (!text)
		return true;
	if (strlen(text) == count * 2 && strspn(text, "0123456789abcdefABCDEF") == count * 2) {
		for (size_t i = 0; i < count; i++) {
			unsigned int byte;

			must(sscanf(text + i * 2, "%2x", &byte) == 1);
			bytes[i] = (uint8_t)byte;
		}
		return true;
	}
	rpc_error(request, RPC_CODE_INVALID_PARAMETERS,
		  "Invalid parameters: \"namespace.%s\" is \"%.64s\", not %zu hexadecimal digits", name, text, count * 2);
	return false;
}

static void ns_added(void *ctx, int rc, const struct fathom_fault *why, uint32_t nsid)
{
	if (rc == 0)
		rpc_reply(ctx, json_made(json_integer(nsid)));
	else
		nvmf_changed(ctx, rc, why);
}

static void nvmf_subsystem_add_ns_rpc(struct rpc_request *request, const json_t *params)
{
	struct nvmf_ns_options options;
	struct add_ns_params p = { 0 };

	nvmf_ns_options_init(&options);
	if (!rpc_params(request, params, add_ns_fields, &p) || !nvmf_is_our_target(request, p.tgt_name) ||
	    !read_hex(request, "nguid", p.ns.nguid, options.nguid, sizeof(options.nguid)) ||
	    !read_hex(request, "eui64", p.ns.eui64, options.eui64, sizeof(options.eui64)))
		return;
	if (p.ns.uuid && uuid_parse(p.ns.uuid, options.uuid) != 0) {
		rpc_error(request, RPC_CODE_INVALID_PARAMETERS,
			  "Invalid parameters: \"namespace.uuid\" is \"%.64s\", not a UUID", p.ns.uuid);
		return;
	}
	if (p.ns.ptpl_file) {
		rpc_error(request, RPC_CODE_INVALID_PARAMETERS,
			  "Invalid parameters: \"namespace.ptpl_file\": there are no persistent reservations here");
		return;
	}
	if (!nvmf_subsystem_named(request, p.nqn))
		return;
	options.nsid = p.ns.nsid;
	options.bdev_name = p.ns.bdev_name;
	options.anagrpid = p.ns.anagrpid;
	options.no_auto_visible = p.ns.no_auto_visible;
	nvmf_subsystem_add_ns(p.nqn, &options, ns_added, request);
}

struct remove_ns_params {
	const char *nqn, *tgt_name;
	uint32_t nsid, drain_timeout_ms;
};

static const struct rpc_param remove_ns_fields[] = {
	RPC_PARAM_STRING("nqn", remove_ns_params, nqn, true),
	RPC_PARAM_U32("nsid", remove_ns_params, nsid, true),
	RPC_PARAM_STRING("tgt_name", remove_ns_params, tgt_name, false),
	RPC_PARAM_U32("drain_timeout_ms", remove_ns_params, drain_timeout_ms, false),
	RPC_PARAM_END,
};

static void nvmf_subsystem_remove_ns_rpc(struct rpc_request *request, const json_t *params)
{
	struct remove_ns_params p = { .drain_timeout_ms = NVMF_DRAIN_MS_DEFAULT };

	if (rpc_params(request, params, remove_ns_fields, &p) && nvmf_is_our_target(request, p.tgt_name) &&
	    nvmf_subsystem_named(request, p.nqn))
		nvmf_subsystem_remove_ns(p.nqn, p.nsid, p.drain_timeout_ms, nvmf_changed, request);
}

/* ---- hosts ---- */

struct host_params {
	const char *nqn, *tgt_name, *host, *psk, *dhchap_key, *dhchap_ctrlr_key;
	uint64_t timeout_ms;
	bool allow_any_host;
};

static const struct rpc_param add_host_fields[] = {
	RPC_PARAM_STRING("nqn", host_params, nqn, true),
	RPC_PARAM_STRING("host", host_params, host, true),
	RPC_PARAM_STRING("tgt_name", host_params, tgt_name, false),
	RPC_PARAM_STRING("psk", host_params, psk, false),
	RPC_PARAM_STRING("dhchap_key", host_params, dhchap_key, false),
	RPC_PARAM_STRING("dhchap_ctrlr_key", host_params, dhchap_ctrlr_key, false),
	RPC_PARAM_END,
};

static const struct rpc_param remove_host_fields[] = {
	RPC_PARAM_STRING("nqn", host_params, nqn, true),
	RPC_PARAM_STRING("host", host_params, host, true),
	RPC_PARAM_STRING("tgt_name", host_params, tgt_name, false),
	RPC_PARAM_U64("timeout_ms", host_params, timeout_ms, false), /* ignored: connections are closed at once */
	RPC_PARAM_END,
};

static const struct rpc_param allow_any_host_fields[] = {
	RPC_PARAM_STRING("nqn", host_params, nqn, true),
	RPC_PARAM_BOOL("allow_any_host", host_params, allow_any_host, true),
	RPC_PARAM_STRING("tgt_name", host_params, tgt_name, false),
	RPC_PARAM_END,
};

static void nvmf_subsystem_add_host_rpc(struct rpc_request *request, const json_t *params)
{
	struct host_params p = { 0 };

	if (!rpc_params(request, params, add_host_fields, &p) || !nvmf_is_our_target(request, p.tgt_name))
		return;
	/* a host configured for authentication must not connect without it */
	if (nvmf_is_not_here(request, p.psk != NULL, "psk", "encrypt connections, and knows a host by its name alone") ||
	    nvmf_is_not_here(request, p.dhchap_key || p.dhchap_ctrlr_key, p.dhchap_key ? "dhchap_key" : "dhchap_ctrlr_key",
			     "have hosts prove who they are: it knows a host by its name alone"))
		return;
	if (nvmf_subsystem_named(request, p.nqn))
		nvmf_subsystem_add_host(p.nqn, p.host, nvmf_changed, request);
}

static void nvmf_subsystem_remove_host_rpc(struct rpc_request *request, const json_t *params)
{
	struct host_params p = { 0 };

	if (rpc_params(request, params, remove_host_fields, &p) && nvmf_is_our_target(request, p.tgt_name) &&
	    nvmf_subsystem_named(request, p.nqn))
		nvmf_subsystem_remove_host(p.nqn, p.host, nvmf_changed, request);
}

static void nvmf_subsystem_allow_any_host_rpc(struct rpc_request *request, const json_t *params)
{
	struct host_params p = { 0 };

	if (rpc_params(request, params, allow_any_host_fields, &p) && nvmf_is_our_target(request, p.tgt_name) &&
	    nvmf_subsystem_named(request, p.nqn))
		nvmf_subsystem_set_allow_any_host(p.nqn, p.allow_any_host, nvmf_changed, request);
}

static const struct rpc_method methods[] = {
	{ "nvmf_create_subsystem", RPC_RUNTIME, nvmf_create_subsystem },
	{ "nvmf_delete_subsystem", RPC_RUNTIME, nvmf_delete_subsystem },
	{ "nvmf_subsystem_add_listener", RPC_RUNTIME, nvmf_subsystem_add_listener_rpc },
	{ "nvmf_subsystem_remove_listener", RPC_RUNTIME, nvmf_subsystem_remove_listener_rpc },
	{ "nvmf_subsystem_add_ns", RPC_RUNTIME, nvmf_subsystem_add_ns_rpc },
	{ "nvmf_subsystem_remove_ns", RPC_RUNTIME, nvmf_subsystem_remove_ns_rpc },
	{ "nvmf_subsystem_add_host", RPC_RUNTIME, nvmf_subsystem_add_host_rpc },
	{ "nvmf_subsystem_remove_host", RPC_RUNTIME, nvmf_subsystem_remove_host_rpc },
	{ "nvmf_subsystem_allow_any_host", RPC_RUNTIME, nvmf_subsystem_allow_any_host_rpc },
};

void rpc_nvmf_subsystem_register(void)
{
	rpc_register(methods, ARRAY_COUNT(methods));
}
