/* SPDX-License-Identifier: BSD-2-Clause */
/* Other calls to hosts: their networks, engines, restart policies and log masks. */
#include "base/bits.h"
#include "control/client/internal.h"
#include "rpc/proto/ctl.pb-c.h"
#include "rpc/proto/fathom.pb-c.h"

static char *text_of(const char *text)
{
	return (char *)(text ? text : "");
}

/* ---- network ---- */

static void take_network(struct arena *arena, ProtobufCMessage *message, struct fathom_control_answer *answer)
{
	Ctl__NetworkScanResp *response = (Ctl__NetworkScanResp *)message;
	struct fathom_control_network *network = arena_array(arena, struct fathom_control_network, 1);
	struct fathom_control_interface *interfaces = arena_array(arena, struct fathom_control_interface,
								  response->n_interfaces);

	for (size_t i = 0; i < response->n_interfaces; i++) {
		const Ctl__FabricInterface *from = response->interfaces[i];

		interfaces[i] = (struct fathom_control_interface){
			.provider = arena_text(arena, from->provider),
			.device = arena_text(arena, from->device),
			.numa_node = from->numanode,
			.priority = from->priority,
			.device_class = from->netdevclass,
		};
	}
	network->interfaces = interfaces;
	network->count = response->n_interfaces;
	network->numa_nodes = response->numacount;
	network->cores_per_node = response->corespernuma;
	answer->network = network;
	answer->left_out = response->left_out;
	response->left_out = 0; /* so that hosts with equal networks are reported together */
}

int fathom_control_network_scan(struct fathom_control *control, const char *provider, struct fathom_control_answers **ret,
				struct fathom_fault *why)
{
	Ctl__NetworkScanReq message = CTL__NETWORK_SCAN_REQ__INIT;
	struct fan_request request = {
		.request = { .path = "/ctl.CtlSvc/NetworkScan",
			     .name = "network scan",
			     .message = &message.base,
			     .response = &ctl__network_scan_resp__descriptor },
		.take = take_network,
	};

	message.provider = text_of(provider);
	return fan_call(control, &request, ret, why);
}

/* ---- devices and interfaces ---- */

static void take_host(struct arena *arena, ProtobufCMessage *message, struct fathom_control_answer *answer)
{
	const Fathom__HostDevicesResp *response = (const Fathom__HostDevicesResp *)message;
	struct fathom_control_host *host = arena_array(arena, struct fathom_control_host, 1);
	struct fathom_control_block_device *devices = arena_array(arena, struct fathom_control_block_device,
								  response->n_devices);
	struct fathom_control_host_interface *interfaces = arena_array(arena, struct fathom_control_host_interface,
								       response->n_interfaces);

	for (size_t i = 0; i < response->n_devices; i++) {
		const Fathom__HostDevicesResp__Device *from = response->devices[i];

		devices[i] = (struct fathom_control_block_device){
			.path = arena_text(arena, from->path),
			.kind = arena_text(arena, from->kind),
			.model = arena_text(arena, from->model),
			.serial = arena_text(arena, from->serial),
			.use = arena_text(arena, from->use),
			.pci_address = arena_text(arena, from->pci_address),
			.bytes = from->bytes,
			.numa_node = from->numa_node,
			.free = from->free,
		};
	}
	for (size_t i = 0; i < response->n_interfaces; i++) {
		const Fathom__HostDevicesResp__Interface *from = response->interfaces[i];

		interfaces[i] = (struct fathom_control_host_interface){
			.name = arena_text(arena, from->name),
			.kind = arena_text(arena, from->kind),
			.state = arena_text(arena, from->state),
			.addresses = arena_texts(arena, from->addresses, from->n_addresses),
			.address_count = from->n_addresses,
			.speed_mbps = from->speed_mbps,
			.numa_node = from->numa_node,
		};
	}
	*host = (struct fathom_control_host){
		.devices = devices,
		.device_count = response->n_devices,
		.interfaces = interfaces,
		.interface_count = response->n_interfaces,
	};
	answer->host = host;
}

int fathom_control_host_devices(struct fathom_control *control, struct fathom_control_answers **ret,
				struct fathom_fault *why)
{
	Fathom__HostDevicesReq message = FATHOM__HOST_DEVICES_REQ__INIT;
	struct fan_request request = {
		.request = { .path = "/fathom.ControlSvc/HostDevices",
			     .name = "scan",
			     .message = &message.base,
			     .response = &fathom__host_devices_resp__descriptor },
		.take = take_host,
	};

	message.sys = control->system;
	return fan_call(control, &request, ret, why);
}

/* ---- engines ---- */

static void take_engines(struct arena *arena, ProtobufCMessage *message, struct fathom_control_answer *answer)
{
	const Fathom__EngineQueryResp *response = (const Fathom__EngineQueryResp *)message;
	struct fathom_control_engines *engines = arena_array(arena, struct fathom_control_engines, 1);
	struct fathom_control_engine *list = arena_array(arena, struct fathom_control_engine, response->n_engines);

	for (size_t i = 0; i < response->n_engines; i++) {
		const Fathom__EngineQueryResp__Engine *from = response->engines[i];

		list[i] = (struct fathom_control_engine){
			.index = from->index,
			.rank = from->rank,
			.state = arena_text(arena, from->state),
			.uuid = arena_text(arena, from->uuid),
			.uri = arena_text(arena, from->uri),
			.storage = arena_text(arena, from->storage),
			.info = arena_text(arena, from->info),
			.last_end = arena_text(arena, from->last_end),
			.rpc_socket = arena_text(arena, from->rpc_socket),
			.version = arena_text(arena, from->version),
			.incarnation = from->incarnation,
			.process = from->pid,
			.starts = from->starts,
			.restart_in_ms = from->restart_in_ms,
			.adopted = from->adopted,
		};
	}
	engines->engines = list;
	engines->count = response->n_engines;
	answer->engines = engines;
}

int fathom_control_engines(struct fathom_control *control, struct fathom_control_answers **ret, struct fathom_fault *why)
{
	Fathom__EngineQueryReq message = FATHOM__ENGINE_QUERY_REQ__INIT;
	struct fan_request request = {
		.request = { .path = "/fathom.ControlSvc/EngineQuery",
			     .name = "server query",
			     .message = &message.base,
			     .response = &fathom__engine_query_resp__descriptor },
		.take = take_engines,
	};

	message.sys = control->system;
	return fan_call(control, &request, ret, why);
}

/* ---- versions ---- */

static void take_version(struct arena *arena, ProtobufCMessage *message, struct fathom_control_answer *answer)
{
	Fathom__EngineQueryResp *response = (Fathom__EngineQueryResp *)message;

	answer->version = response->version[0] ? arena_text(arena, response->version) : "unknown";
	/* drop the engines: only the version is compared */
	for (size_t i = 0; i < response->n_engines; i++)
		protobuf_c_message_free_unpacked(&response->engines[i]->base, NULL);
	response->n_engines = 0;
}

int fathom_control_versions(struct fathom_control *control, struct fathom_control_answers **ret, struct fathom_fault *why)
{
	Fathom__EngineQueryReq message = FATHOM__ENGINE_QUERY_REQ__INIT;
	struct fan_request request = {
		.request = { .path = "/fathom.ControlSvc/EngineQuery",
			     .name = "server version",
			     .message = &message.base,
			     .response = &fathom__engine_query_resp__descriptor },
		.take = take_version,
	};

	message.sys = control->system;
	return fan_call(control, &request, ret, why);
}

/* ---- restart policies ---- */

static void take_policies(struct arena *arena, ProtobufCMessage *message, struct fathom_control_answer *answer)
{
	const Fathom__EngineSetRestartResp *response = (const Fathom__EngineSetRestartResp *)message;
	struct fathom_control_policies *policies = arena_array(arena, struct fathom_control_policies, 1);
	struct fathom_control_policy *list = arena_array(arena, struct fathom_control_policy, response->n_policies);

	for (size_t i = 0; i < response->n_policies; i++) {
		const Fathom__RestartPolicy *from = response->policies[i];

		list[i] = (struct fathom_control_policy){
			.cause = arena_text(arena, from->cause),
			.restart = from->restart,
			.delay_min_ms = from->delay_min_ms,
			.delay_max_ms = from->delay_max_ms,
			.limit = from->limit,
		};
	}
	policies->policies = list;
	policies->count = response->n_policies;
	answer->policies = policies;
}

int fathom_control_restart_policy(struct fathom_control *control, const struct fathom_control_policy *policies,
				  size_t count, struct fathom_control_answers **ret, struct fathom_fault *why)
{
	Fathom__EngineSetRestartReq message = FATHOM__ENGINE_SET_RESTART_REQ__INIT;
	struct fan_request request = {
		.request = { .path = "/fathom.ControlSvc/EngineSetRestart",
			     .name = "server restart-policy",
			     .message = &message.base,
			     .response = &fathom__engine_set_restart_resp__descriptor },
		.take = take_policies,
	};
	struct arena *arena = arena_create();
	int error;

	message.sys = control->system;
	message.policies = arena_array(arena, Fathom__RestartPolicy *, count);
	message.n_policies = count;
	for (size_t i = 0; i < count; i++) {
		Fathom__RestartPolicy *policy = arena_array(arena, Fathom__RestartPolicy, 1);

		fathom__restart_policy__init(policy);
		policy->cause = text_of(policies[i].cause);
		policy->restart = policies[i].restart;
		policy->delay_min_ms = policies[i].delay_min_ms;
		policy->delay_max_ms = policies[i].delay_max_ms;
		policy->limit = policies[i].limit;
		message.policies[i] = policy;
	}
	error = fan_call(control, &request, ret, why);
	arena_destroy(arena);
	return error;
}

/* ---- configurations ---- */

#define FILE_BYTES_DEFAULT (16ull << 30)

/* Remove comments before the comparison: they contain addresses and sizes, which differ between similar hosts. */
static void strip_comments(char *text)
{
	char *to = text;
	bool in_comment = false;

	for (const char *from = text; *from; from++) {
		if (*from == '\n')
			in_comment = false;
		else if (*from == '#')
			in_comment = true;
		if (!in_comment)
			*to++ = *from;
	}
	*to = '\0';
}

static void take_proposal(struct arena *arena, ProtobufCMessage *message, struct fathom_control_answer *answer)
{
	Fathom__ConfigGenerateResp *response = (Fathom__ConfigGenerateResp *)message;
	struct fathom_control_proposal *proposal = arena_array(arena, struct fathom_control_proposal, 1);

	proposal->text = arena_text(arena, response->text);
	if (response->text[0])
		strip_comments(response->text);
	answer->proposal = proposal;
}

int fathom_control_propose(struct fathom_control *control, const struct fathom_control_wish *wish,
			   struct fathom_control_answers **ret, struct fathom_fault *why)
{
	Fathom__ConfigGenerateReq message = FATHOM__CONFIG_GENERATE_REQ__INIT;
	struct fan_request request = {
		.request = { .path = "/fathom.ControlSvc/ConfigGenerate",
			     .name = "config generate",
			     .message = &message.base,
			     .response = &fathom__config_generate_resp__descriptor },
		.take = take_proposal,
	};
	struct host_address first;

	message.sys = control->system;
	/* omit the port of the current connection: the new server may listen on another one, which only the wish sets */
	host_address(host_set_at(control->hosts, 0), 0, &first);
	message.replica = wish->replica ? text_of(wish->replica) : first.host;
	message.interface = text_of(wish->interface);
	message.folder = text_of(wish->folder);
	message.folder_bytes = wish->file_bytes ? wish->file_bytes : FILE_BYTES_DEFAULT;
	message.engines = wish->engines;
	message.port = wish->port;
	message.net_class = text_of(wish->net_class);
	message.metadata = text_of(wish->metadata);
	message.fabric_ports = (uint32_t *)wish->fabric_ports;
	message.n_fabric_ports = wish->fabric_port_count;
	message.insecure = !control->tls;
	return fan_call(control, &request, ret, why);
}

/* ---- log masks ---- */

static void take_masks(struct arena *arena, ProtobufCMessage *message, struct fathom_control_answer *answer)
{
	const Ctl__SetLogMasksResp *response = (const Ctl__SetLogMasksResp *)message;
	struct fathom_control_masks *masks = arena_array(arena, struct fathom_control_masks, 1);
	const char **errors = arena_array(arena, const char *, response->n_errors);

	for (size_t i = 0; i < response->n_errors; i++) {
		if (response->errors[i][0]) /* "": the engine succeeded */
			errors[masks->error_count++] = arena_text(arena, response->errors[i]);
	}
	masks->errors = errors;
	answer->masks = masks;
}

int fathom_control_log_masks(struct fathom_control *control, const char *masks, const char *streams, const char *subsystems,
			     struct fathom_control_answers **ret, struct fathom_fault *why)
{
	Ctl__SetLogMasksReq message = CTL__SET_LOG_MASKS_REQ__INIT;
	struct fan_request request = {
		.request = { .path = "/ctl.CtlSvc/SetEngineLogMasks",
			     .name = "server set-logmasks",
			     .message = &message.base,
			     .response = &ctl__set_log_masks_resp__descriptor },
		.take = take_masks,
	};

	message.sys = control->system;
	message.masks = text_of(masks);
	message.streams = text_of(streams);
	message.subsystems = text_of(subsystems);
	message.reset_masks = !masks;
	message.reset_streams = !streams;
	message.reset_subsystems = !subsystems;
	return fan_call(control, &request, ret, why);
}
