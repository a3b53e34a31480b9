/* SPDX-License-Identifier: BSD-2-Clause */
/* Queries about subsystems and their connections. */
#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "data/engine/methods.gen.h"
#include "data/engine/rpc/nvmf.h"

/* ---- subsystems ---- */

static json_t *hosts_json(const struct nvmf_subsystem *subsystem)
{
	json_t *hosts = json_made(json_array());
	const char *nqn;

	for (unsigned int i = 0; (nqn = nvmf_subsystem_host_at(subsystem, i)); i++) {
		json_t *host = json_made(json_object());

		json_put(host, "nqn", json_text(nqn));
		json_add(hosts, host);
	}
	return hosts;
}

static json_t *listeners_json(const struct nvmf_subsystem *subsystem, bool wrapped)
{
	json_t *list = json_made(json_array());
	const struct nvmf_address *a;

	for (unsigned int i = 0; (a = nvmf_subsystem_listener_at(subsystem, i)); i++) {
		json_t *address = nvmf_address_json(a->trtype, a->adrfam, a->traddr, a->trsvcid), *listener;

		if (!wrapped) {
			json_add(list, address);
			continue;
		}
		listener = json_made(json_object());
		json_put(listener, "address", address);
		json_add(list, listener);
	}
	return list;
}

static json_t *namespaces_json(const struct nvmf_subsystem *subsystem)
{
	static const uint8_t none[16];
	json_t *list = json_made(json_array());
	struct nvmf_ns_info info = { 0 };

	while (nvmf_subsystem_next_ns(subsystem, info.nsid, &info)) {
		json_t *ns = json_made(json_object());

		json_put(ns, "nsid", json_integer(info.nsid));
		json_put(ns, "bdev_name", json_text(info.bdev_name));
		json_put(ns, "name", json_text(info.bdev_name));
		if (memcmp(info.nguid, none, sizeof(info.nguid)) != 0)
			json_put(ns, "nguid", nvmf_hex_json(info.nguid, sizeof(info.nguid)));
		if (memcmp(info.eui64, none, sizeof(info.eui64)) != 0)
			json_put(ns, "eui64", nvmf_hex_json(info.eui64, sizeof(info.eui64)));
		if (memcmp(info.uuid, none, sizeof(info.uuid)) != 0)
			json_put(ns, "uuid", nvmf_uuid_json(info.uuid));
		json_add(list, ns);
	}
	return list;
}

static json_t *subsystem_json(const struct nvmf_subsystem *subsystem)
{
	const struct nvmf_subsystem_options *o = nvmf_subsystem_get_options(subsystem);
	bool nvme = nvmf_subsystem_get_type(subsystem) == NVMF_SUBSYSTEM_NVME;
	json_t *object = json_made(json_object());

	json_put(object, "nqn", json_text(o->nqn));
	json_put(object, "subtype", json_string(nvme ? "NVMe" : "Discovery"));
	json_put(object, "listen_addresses", listeners_json(subsystem, false));
	json_put(object, "allow_any_host", json_boolean(o->allow_any_host));
	json_put(object, "hosts", hosts_json(subsystem));
	if (!nvme)
		return object;
	json_put(object, "serial_number", json_text(o->serial_number));
	json_put(object, "model_number", json_text(o->model_number));
	json_put(object, "max_namespaces", json_integer(o->max_namespaces));
	json_put(object, "passthrough", json_false());
	json_put(object, "min_cntlid", json_integer(o->min_cntlid));
	json_put(object, "max_cntlid", json_integer(o->max_cntlid));
	json_put(object, "max_host_controllers", json_integer(o->max_host_controllers));
	json_put(object, "dmrsl", json_integer(o->dmrsl));
	json_put(object, "wzsl", json_integer(o->wzsl));
	json_put(object, "namespaces", namespaces_json(subsystem));
	return object;
}

void method_nvmf_get_subsystems(struct rpc_request *request, const struct nvmf_get_subsystems_params *p)
{
	const struct nvmf_subsystem *subsystem;
	json_t *list;

	if ((p->nqn && !nvmf_subsystem_named(request, p->nqn)))
		return;
	list = json_made(json_array());
	if (p->nqn) {
		json_add(list, subsystem_json(nvmf_subsystem_find(p->nqn)));
	} else {
		for (subsystem = nvmf_subsystem_first(); subsystem; subsystem = nvmf_subsystem_next(subsystem))
			json_add(list, subsystem_json(subsystem));
	}
	rpc_reply(request, list);
}

void method_nvmf_subsystem_get_listeners(struct rpc_request *request, const struct nvmf_subsystem_get_listeners_params *p)
{
	const struct nvmf_subsystem *subsystem;

	if (!nvmf_is_our_target(request, p->tgt_name))
		return;
	subsystem = nvmf_subsystem_named(request, p->nqn);
	if (subsystem)
		rpc_reply(request, listeners_json(subsystem, true));
}

/* ---- connections ---- */

static void reply_controllers(void *ctx, int rc, const struct fathom_fault *why, const struct nvmf_controller_info *infos,
			      size_t count)
{
	json_t *list;

	if (rc) {
		nvmf_changed(ctx, rc, why);
		return;
	}
	list = json_made(json_array());
	for (size_t i = 0; i < count; i++) {
		json_t *controller = json_made(json_object());

		json_put(controller, "cntlid", json_integer(infos[i].cntlid));
		json_put(controller, "cntrltype", json_string(infos[i].discovery ? "discovery" : "io"));
		json_put(controller, "hostnqn", json_text(infos[i].host_nqn));
		json_put(controller, "hostid", nvmf_uuid_json(infos[i].host_id));
		json_put(controller, "num_io_qpairs", json_integer(infos[i].io_qpair_count));
		json_add(list, controller);
	}
	rpc_reply(ctx, list);
}

void method_nvmf_subsystem_get_controllers(struct rpc_request *request,
					   const struct nvmf_subsystem_get_controllers_params *p)
{
	if (nvmf_subsystem_named(request, p->nqn))
		nvmf_subsystem_get_controllers(p->nqn, reply_controllers, request);
}

static json_t *qpair_json(const struct nvmf_qpair_info *info)
{
	json_t *qpair = json_made(json_object());

	json_put(qpair, "cntlid", json_integer(info->cntlid));
	json_put(qpair, "qid", json_integer(info->qid));
	json_put(qpair, "state", json_string(info->state));
	json_put(qpair, "thread", json_text(info->thread_name));
	json_put(qpair, "hostnqn", json_text(info->host_nqn));
	json_put(qpair, "listen_address",
		 nvmf_address_json(info->trtype, info->adrfam, info->local_address, info->local_service));
	json_put(qpair, "peer_address",
		 nvmf_address_json(info->trtype, info->adrfam, info->peer_address, info->peer_service));
	/* beyond SPDK's keys: the host's activity on the queue */
	json_put(qpair, "queue_entries", json_integer(info->queue_entries));
	json_put(qpair, "commands_under_way", json_integer(info->request_count));
	json_put(qpair, "num_commands", json_integer((json_int_t)info->command_count));
	json_put(qpair, "bytes_read", json_integer((json_int_t)info->bytes_read));
	json_put(qpair, "bytes_written", json_integer((json_int_t)info->bytes_written));
	json_put(qpair, "num_read_ops", json_integer((json_int_t)info->read_count));
	json_put(qpair, "read_latency_ticks", json_integer((json_int_t)info->read_ticks));
	json_put(qpair, "num_write_ops", json_integer((json_int_t)info->write_count));
	json_put(qpair, "write_latency_ticks", json_integer((json_int_t)info->write_ticks));
	return qpair;
}

static void reply_qpairs(void *ctx, int rc, const struct fathom_fault *why, const struct nvmf_qpair_info *infos,
			 size_t count)
{
	json_t *list;

	if (rc) {
		nvmf_changed(ctx, rc, why);
		return;
	}
	list = json_made(json_array());
	for (size_t i = 0; i < count; i++)
		json_add(list, qpair_json(&infos[i]));
	rpc_reply(ctx, list);
}

void method_nvmf_subsystem_get_qpairs(struct rpc_request *request, const struct nvmf_subsystem_get_qpairs_params *p)
{
	if (nvmf_subsystem_named(request, p->nqn))
		nvmf_subsystem_get_qpairs(p->nqn, reply_qpairs, request);
}
