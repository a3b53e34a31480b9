/* SPDX-License-Identifier: BSD-2-Clause */
/* The target as a whole: transports, statistics, settings, its part of the configuration. */
#include "data/engine/methods.gen.h"
#include "data/engine/rpc/nvmf.h"
#include "data/engine/volume_export.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <uuid/uuid.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/text.h"

/* ---- shared ---- */

bool nvmf_is_our_target(struct rpc_request *request, const char *tgt_name)
{
	if (!tgt_name || strcmp(tgt_name, NVMF_TARGET_NAME) == 0)
		return true;
	rpc_error(request, RPC_CODE_INVALID_PARAMETERS, "NVMf target '%.64s' not found; there is one, \"%s\"", tgt_name,
		  NVMF_TARGET_NAME);
	return false;
}

struct nvmf_subsystem *nvmf_subsystem_named(struct rpc_request *request, const char *nqn)
{
	struct nvmf_subsystem *subsystem = nvmf_subsystem_find(nqn);

	if (!subsystem)
		rpc_error(request, RPC_CODE_INVALID_PARAMETERS, "Subsystem with NQN '%.223s' not found", nqn);
	return subsystem;
}

struct nvmf_subsystem *nvmf_subsystem_to_change(struct rpc_request *request, const char *nqn)
{
	const struct volume *volume = export_volume_of(nqn);

	if (!volume)
		return nvmf_subsystem_named(request, nqn);
	rpc_error(request, RPC_CODE_INVALID_PARAMETERS,
		  "Subsystem '%.223s' serves volume %s to its hosts: use volume_publish and volume_unpublish, or fathom "
		  "volume",
		  nqn, volume->device);
	return NULL;
}

void nvmf_changed(void *ctx, int rc, const struct fathom_fault *why)
{
	if (rc == 0)
		rpc_reply(ctx, NULL);
	else if (rc == -ENOMEM)
		rpc_error_fault(ctx, RPC_CODE_INTERNAL, why);
	else
		rpc_error_fault(ctx, RPC_CODE_INVALID_PARAMETERS, why);
}

json_t *nvmf_address_json(const char *trtype, const char *adrfam, const char *traddr, const char *trsvcid)
{
	json_t *address = json_made(json_object());

	json_put(address, "trtype", json_text(trtype));
	json_put(address, "adrfam", json_text(adrfam));
	json_put(address, "traddr", json_text(traddr));
	json_put(address, "trsvcid", json_text(trsvcid));
	return address;
}

json_t *nvmf_uuid_json(const uint8_t uuid[16])
{
	char text[37];

	uuid_unparse_lower(uuid, text);
	return json_made(json_string(text));
}

json_t *nvmf_hex_json(const uint8_t *bytes, size_t count)
{
	char text[65];

	must(count * 2 < sizeof(text));
	for (size_t i = 0; i < count; i++)
		snprintf(text + i * 2, 3, "%02X", bytes[i]);
	return json_made(json_string(text));
}

/* ---- transports ---- */

static void transport_created(void *ctx, int rc, const struct fathom_fault *why)
{
	if (rc == 0)
		rpc_reply(ctx, NULL);
	else
		rpc_error_fault(ctx, rc == -EINVAL ? RPC_CODE_INVALID_PARAMETERS : RPC_CODE_INTERNAL, why);
}

void method_nvmf_create_transport(struct rpc_request *request, const struct nvmf_create_transport_params *p)
{
	nvmf_transport_create(p->trtype, &p->options, transport_created, request);
}

json_t *nvmf_transport_json(const struct nvmf_transport *transport)
{
	const struct nvmf_transport_options *o = nvmf_transport_get_options(transport);
	json_t *object = json_made(json_object());

	json_put(object, "trtype", json_string(nvmf_transport_name(transport)));
	json_put(object, "max_queue_depth", json_integer(o->max_queue_depth));
	json_put(object, "max_io_qpairs_per_ctrlr", json_integer(o->max_io_qpairs_per_ctrlr));
	json_put(object, "in_capsule_data_size", json_integer(o->in_capsule_data_size));
	json_put(object, "max_io_size", json_integer(o->max_io_size));
	json_put(object, "max_aq_depth", json_integer(o->max_aq_depth));
	json_put(object, "iobuf_small_cache_size", json_integer(o->iobuf_small_cache_size));
	json_put(object, "iobuf_large_cache_size", json_integer(o->iobuf_large_cache_size));
	json_put(object, "dif_insert_or_strip", json_false());
	json_put(object, "zcopy", json_false());
	json_put(object, "c2h_success", json_boolean(o->c2h_success));
	json_put(object, "sock_priority", json_integer(o->sock_priority));
	json_put(object, "abort_timeout_sec", json_integer(o->abort_timeout_sec));
	json_put(object, "ack_timeout", json_integer(o->ack_timeout));
	json_put(object, "data_wr_pool_size", json_integer(o->data_wr_pool_size));
	json_put(object, "disable_command_passthru", json_boolean(o->disable_command_passthru));
	json_put(object, "kas", json_integer(o->kas));
	json_put(object, "min_kato", json_integer(o->min_kato));
	/* omit the default: it depends on this process, and SPDK does not know the parameter */
	if (o->max_connections)
		json_put(object, "max_connections", json_integer(o->max_connections));
	if (o->max_connections_per_address)
		json_put(object, "max_connections_per_address", json_integer(o->max_connections_per_address));
	return object;
}

void method_nvmf_get_transports(struct rpc_request *request, const struct nvmf_get_transports_params *p)
{
	const struct nvmf_transport *transport;
	json_t *list;

	if (p->trtype && !nvmf_transport_find(p->trtype)) {
		rpc_error(request, -ENODEV, "%s: transport '%.64s' has not been created", strerror(ENODEV), p->trtype);
		return;
	}
	list = json_made(json_array());
	for (transport = nvmf_transport_first(); transport; transport = nvmf_transport_next(transport)) {
		if (!p->trtype || transport == nvmf_transport_find(p->trtype))
			json_add(list, nvmf_transport_json(transport));
	}
	rpc_reply(request, list);
}

/* ---- the target ---- */

void method_nvmf_get_targets(struct rpc_request *request)
{
	json_t *list;

	list = json_made(json_array());
	json_add(list, json_string(NVMF_TARGET_NAME));
	rpc_reply(request, list);
}

static json_t *buffers_json(const struct nvmf_group_buffers *buffers)
{
	const struct nvmf_buffer_stats *stats = &buffers->stats;
	json_t *object = json_made(json_object()), *hosts = json_made(json_array()), *bdevs = json_made(json_array());

	for (size_t i = 0; i < buffers->user_count; i++) {
		const struct nvmf_buffer_user *user = &buffers->users[i];
		json_t *entry = json_made(json_object());

		json_put(entry, user->host_nqn ? "host" : "name",
			 json_text(user->host_nqn ? user->host_nqn : user->bdev_name));
		json_put(entry, "lent_bytes", json_integer((json_int_t)user->lent_bytes));
		json_put(entry, "waiting", json_integer(user->waiting_count));
		json_add(user->host_nqn ? hosts : bdevs, entry);
	}
	json_put(object, "fair_bytes", json_integer((json_int_t)stats->fair_bytes));
	json_put(object, "host_limit_bytes",
		 json_integer((json_int_t)(stats->fair_bytes / (stats->host_count ? stats->host_count : 1))));
	json_put(object, "most_bytes", json_integer((json_int_t)stats->most_bytes));
	json_put(object, "lent_bytes", json_integer((json_int_t)stats->lent_bytes));
	json_put(object, "waiting", json_integer(stats->waiting_count));
	json_put(object, "hosts", hosts);
	json_put(object, "bdevs", bdevs);
	return object;
}

static json_t *group_json(const struct nvmf_group_stats *stats)
{
	json_t *group = json_made(json_object()), *transports = json_made(json_array());
	const struct nvmf_transport *transport;

	for (transport = nvmf_transport_first(); transport; transport = nvmf_transport_next(transport)) {
		json_t *entry = json_made(json_object());

		json_put(entry, "trtype", json_string(nvmf_transport_name(transport)));
		for (size_t i = 0; i < ARRAY_COUNT(stats->buffers); i++) {
			if (stats->buffers[i].transport == transport)
				json_put(entry, "buffers", buffers_json(&stats->buffers[i]));
		}
		json_add(transports, entry);
	}
	json_put(group, "name", json_text(stats->name));
	json_put(group, "admin_qpairs", json_integer((json_int_t)stats->admin_qpairs));
	json_put(group, "io_qpairs", json_integer((json_int_t)stats->io_qpairs));
	json_put(group, "current_admin_qpairs", json_integer(stats->current_admin_qpairs));
	json_put(group, "current_io_qpairs", json_integer(stats->current_io_qpairs));
	json_put(group, "current_unassociated_qpairs", json_integer(stats->current_unassociated_qpairs));
	json_put(group, "pending_bdev_io", json_integer((json_int_t)stats->pending_bdev_io));
	json_put(group, "completed_nvme_io", json_integer((json_int_t)stats->completed_nvme_io));
	/* beyond SPDK's keys: the activity of all hosts */
	json_put(group, "bytes_read", json_integer((json_int_t)stats->bytes_read));
	json_put(group, "bytes_written", json_integer((json_int_t)stats->bytes_written));
	json_put(group, "commands_under_way", json_integer(stats->io_request_count));
	json_put(group, "oldest_command_ticks", json_integer((json_int_t)stats->oldest_ticks));
	json_put(group, "transports", transports);
	return group;
}

static void reply_stats(void *ctx, const struct nvmf_group_stats *stats, size_t count)
{
	json_t *result = json_made(json_object()), *groups = json_made(json_array());

	for (size_t i = 0; i < count; i++)
		json_add(groups, group_json(&stats[i]));
	json_put(result, "tick_rate", json_integer((json_int_t)clock_tick_rate()));
	json_put(result, "poll_groups", groups);
	rpc_reply(ctx, result);
}

void method_nvmf_get_stats(struct rpc_request *request, const struct nvmf_get_stats_params *p)
{
	if (nvmf_is_our_target(request, p->tgt_name))
		nvmf_target_get_stats(reply_stats, request);
}

void method_nvmf_set_crdt(struct rpc_request *request, const struct nvmf_set_crdt_params *p)
{
	nvmf_target_set_crdt((const uint16_t[3]){ p->crdt1, p->crdt2, p->crdt3 });
	rpc_reply(request, NULL);
}

void method_nvmf_set_max_subsystems(struct rpc_request *request, const struct nvmf_set_max_subsystems_params *p)
{
	nvmf_target_set_max_subsystems(p->max_subsystems);
	rpc_reply(request, NULL);
}

/* ---- configuration ---- */

static json_t *subsystem_params(const struct nvmf_subsystem *subsystem)
{
	const struct nvmf_subsystem_options *o = nvmf_subsystem_get_options(subsystem);
	json_t *params = json_made(json_object());

	json_put(params, "nqn", json_text(o->nqn));
	json_put(params, "allow_any_host", json_boolean(o->allow_any_host));
	json_put(params, "serial_number", json_text(o->serial_number));
	json_put(params, "model_number", json_text(o->model_number));
	json_put(params, "max_namespaces", json_integer(o->max_namespaces));
	json_put(params, "min_cntlid", json_integer(o->min_cntlid));
	json_put(params, "max_cntlid", json_integer(o->max_cntlid));
	json_put(params, "ana_reporting", json_false());
	json_put(params, "dmrsl", json_integer(o->dmrsl));
	json_put(params, "wzsl", json_integer(o->wzsl));
	json_put(params, "passthrough", json_false());
	/* SPDK does not know it, so write it only if it was set */
	if (o->max_host_controllers != NVMF_HOST_CONTROLLERS_DEFAULT)
		json_put(params, "max_host_controllers", json_integer(o->max_host_controllers));
	json_put(params, "enable_nssr", json_boolean(o->enable_nssr));
	return params;
}

static json_t *ns_params(const char *nqn, const struct nvmf_ns_info *info)
{
	static const uint8_t none[8];
	json_t *params = json_made(json_object()), *ns = json_made(json_object());

	json_put(ns, "nsid", json_integer(info->nsid));
	json_put(ns, "bdev_name", json_text(info->bdev_name));
	json_put(ns, "nguid", nvmf_hex_json(info->nguid, sizeof(info->nguid)));
	if (memcmp(info->eui64, none, sizeof(none)) != 0)
		json_put(ns, "eui64", nvmf_hex_json(info->eui64, sizeof(info->eui64)));
	json_put(ns, "uuid", nvmf_uuid_json(info->uuid));
	if (info->anagrpid)
		json_put(ns, "anagrpid", json_integer(info->anagrpid));
	json_put(ns, "no_auto_visible", json_false());
	json_put(params, "nqn", json_text(nqn));
	json_put(params, "namespace", ns);
	return params;
}

static void subsystem_config(json_t *calls, const struct nvmf_subsystem *subsystem)
{
	const char *nqn = nvmf_subsystem_get_options(subsystem)->nqn, *host;
	const struct nvmf_address *address;
	struct nvmf_ns_info info = { 0 };
	json_t *params;

	if (nvmf_subsystem_get_type(subsystem) == NVMF_SUBSYSTEM_NVME)
		config_add(calls, "nvmf_create_subsystem", subsystem_params(subsystem));
	for (unsigned int i = 0; (host = nvmf_subsystem_host_at(subsystem, i)); i++) {
		params = json_made(json_object());
		json_put(params, "nqn", json_text(nqn));
		json_put(params, "host", json_text(host));
		config_add(calls, "nvmf_subsystem_add_host", params);
	}
	while (nvmf_subsystem_next_ns(subsystem, info.nsid, &info))
		config_add(calls, "nvmf_subsystem_add_ns", ns_params(nqn, &info));
	for (unsigned int i = 0; (address = nvmf_subsystem_listener_at(subsystem, i)); i++) {
		if (engine_control_made_listener(nqn, address))
			continue;
		params = json_made(json_object());
		json_put(params, "nqn", json_text(nqn));
		json_put(params, "listen_address",
			 nvmf_address_json(address->trtype, address->adrfam, address->traddr, address->trsvcid));
		json_put(params, "secure_channel", json_false());
		config_add(calls, "nvmf_subsystem_add_listener", params);
	}
}

void nvmf_config(json_t *calls)
{
	const struct nvmf_transport *transport;
	const struct nvmf_subsystem *subsystem;
	json_t *params = json_made(json_object());
	uint16_t crdt[3];

	nvmf_target_get_crdt(crdt);
	json_put(params, "crdt1", json_integer(crdt[0]));
	json_put(params, "crdt2", json_integer(crdt[1]));
	json_put(params, "crdt3", json_integer(crdt[2]));
	config_add(calls, "nvmf_set_crdt", params);
	params = json_made(json_object());
	json_put(params, "max_subsystems", json_integer(nvmf_target_max_subsystems()));
	config_add(calls, "nvmf_set_max_subsystems", params);
	for (transport = nvmf_transport_first(); transport; transport = nvmf_transport_next(transport))
		config_add(calls, "nvmf_create_transport", nvmf_transport_json(transport));
	for (subsystem = nvmf_subsystem_first(); subsystem; subsystem = nvmf_subsystem_next(subsystem)) {
		if (!export_owns_subsystem(nvmf_subsystem_get_options(subsystem)->nqn)) /* the volume's record has it */
			subsystem_config(calls, subsystem);
	}
}
