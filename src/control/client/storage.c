/* SPDX-License-Identifier: BSD-2-Clause */
/* Storage of hosts: scan, usage, devices of engines, format. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "control/client/internal.h"
#include "control/fault/fault.h"
#include "control/hostlist/rankset.h"
#include "rpc/proto/ctl.pb-c.h"

/* ---- scan ---- */

static const char *name_of(const ProtobufCEnumDescriptor *names, int value)
{
	const ProtobufCEnumValue *found = protobuf_c_enum_descriptor_get_value(names, value);

	return found ? found->name : "UNKNOWN";
}

static void take_smd(struct arena *arena, const Ctl__SmdDevice *from, struct fathom_control_smd *smd)
{
	int32_t *targets = arena_array(arena, int32_t, from->n_tgt_ids);

	if (from->n_tgt_ids > 0)
		memcpy(targets, from->tgt_ids, from->n_tgt_ids * sizeof(*targets));
	*smd = (struct fathom_control_smd){
		.uuid = arena_text(arena, from->uuid),
		.targets = targets,
		.target_count = from->n_tgt_ids,
		.rank = from->rank,
		.roles = from->role_bits,
		.total_bytes = from->total_bytes,
		.available_bytes = from->avail_bytes,
		.usable_bytes = from->usable_bytes,
		.cluster_bytes = from->cluster_size,
		.meta_bytes = from->meta_size,
		.meta_wal_bytes = from->meta_wal_size,
		.rdb_bytes = from->rdb_size,
		.rdb_wal_bytes = from->rdb_wal_size,
	};
}

static void take_nvme(struct arena *arena, const Ctl__NvmeController *from, struct fathom_control_nvme *nvme)
{
	struct fathom_control_namespace *namespaces = arena_array(arena, struct fathom_control_namespace,
								  from->n_namespaces);
	struct fathom_control_smd *smds = arena_array(arena, struct fathom_control_smd, from->n_smd_devices);

	*nvme = (struct fathom_control_nvme){
		.address = arena_text(arena, from->pci_addr),
		.model = arena_text(arena, from->model),
		.serial = arena_text(arena, from->serial),
		.firmware = arena_text(arena, from->fw_rev),
		.vendor = arena_text(arena, from->vendor_id),
		.device_type = arena_text(arena, from->pci_dev_type),
		.numa_node = from->socket_id,
		.state = name_of(&ctl__nvme_dev_state__descriptor, (int)from->dev_state),
		.namespaces = namespaces,
		.namespace_count = from->n_namespaces,
		.smds = smds,
		.smd_count = from->n_smd_devices,
	};
	for (size_t i = 0; i < from->n_namespaces; i++) {
		namespaces[i].id = from->namespaces[i]->id;
		namespaces[i].bytes = from->namespaces[i]->size;
		nvme->bytes += from->namespaces[i]->size;
	}
	for (size_t i = 0; i < from->n_smd_devices; i++)
		take_smd(arena, from->smd_devices[i], &smds[i]);
}

static void take_module(struct arena *arena, const Ctl__ScmModule *from, struct fathom_control_module *module)
{
	*module = (struct fathom_control_module){
		.channel = from->channelid,
		.position = from->channelposition,
		.controller = from->controllerid,
		.numa_node = from->socketid,
		.physical = from->physicalid,
		.bytes = from->capacity,
		.uid = arena_text(arena, from->uid),
		.part = arena_text(arena, from->partnumber),
		.firmware = arena_text(arena, from->firmwarerevision),
		.health = arena_text(arena, from->healthstate),
	};
}

static void take_scm(struct arena *arena, const Ctl__ScmNamespace *from, struct fathom_control_scm *scm)
{
	struct fathom_control_mount *mount;

	*scm = (struct fathom_control_scm){
		.uuid = arena_text(arena, from->uuid),
		.block_device = arena_text(arena, from->blockdev),
		.device = arena_text(arena, from->dev),
		.numa_node = from->numa_node,
		.bytes = from->size,
	};
	if (!from->mount)
		return;
	mount = arena_array(arena, struct fathom_control_mount, 1);
	*mount = (struct fathom_control_mount){
		.path = arena_text(arena, from->mount->path),
		.kind = arena_text(arena, from->mount->class_),
		.devices = arena_texts(arena, from->mount->device_list, from->mount->n_device_list),
		.device_count = from->mount->n_device_list,
		.rank = from->mount->rank,
		.total_bytes = from->mount->total_bytes,
		.available_bytes = from->mount->avail_bytes,
		.usable_bytes = from->mount->usable_bytes,
	};
	scm->mount = mount;
}

static void take_memory(struct arena *arena, Ctl__SysMemInfo *from, struct fathom_control_storage *storage)
{
	struct fathom_control_memory *nodes = arena_array(arena, struct fathom_control_memory, from->n_numa_nodes);

	storage->has_memory = true;
	storage->memory = (struct fathom_control_memory){
		.hugepages_total = from->hugepages_total,
		.hugepages_free = from->hugepages_free,
		.hugepages_reserved = from->hugepages_reserved,
		.hugepages_surplus = from->hugepages_surplus,
		.hugepage_kb = from->hugepage_size_kb,
		.total_kb = from->mem_total_kb,
		.free_kb = from->mem_free_kb,
		.available_kb = from->mem_available_kb,
	};
	for (size_t i = 0; i < from->n_numa_nodes; i++) {
		Ctl__MemInfo *node = from->numa_nodes[i];

		nodes[i] = (struct fathom_control_memory){
			.numa_node = node->numa_node_index,
			.hugepages_total = node->hugepages_total,
			.hugepages_free = node->hugepages_free,
			.hugepages_surplus = node->hugepages_surplus,
			.total_kb = node->mem_total_kb,
			.free_kb = node->mem_free_kb,
			.used_kb = node->mem_used_kb,
		};
		node->mem_free_kb = node->mem_used_kb = 0; /* differ on every host: exclude them from the comparison */
	}
	from->mem_free_kb = from->mem_available_kb = 0;
	storage->nodes = nodes;
	storage->node_count = from->n_numa_nodes;
}

static const char *error_of(struct arena *arena, const Ctl__ResponseState *state)
{
	if (!state || state->status == CTL__RESPONSE_STATUS__CTL_SUCCESS)
		return "";
	return state->error[0] ? arena_text(arena, state->error)
			       : name_of(&ctl__response_status__descriptor, (int)state->status);
}

static void take_scan(struct arena *arena, ProtobufCMessage *message, struct fathom_control_answer *answer)
{
	Ctl__StorageScanResp *response = (Ctl__StorageScanResp *)message;
	struct fathom_control_storage *storage = arena_array(arena, struct fathom_control_storage, 1);
	const Ctl__ScanNvmeResp *nvme = response->nvme;
	const Ctl__ScanScmResp *scm = response->scm;
	struct fathom_control_nvme *nvmes;
	struct fathom_control_module *modules;
	struct fathom_control_scm *scms;

	storage->nvme_count = nvme ? nvme->n_ctrlrs : 0;
	storage->module_count = scm ? scm->n_modules : 0;
	storage->scm_count = scm ? scm->n_namespaces : 0;
	nvmes = arena_array(arena, struct fathom_control_nvme, storage->nvme_count);
	modules = arena_array(arena, struct fathom_control_module, storage->module_count);
	scms = arena_array(arena, struct fathom_control_scm, storage->scm_count);

	for (size_t i = 0; i < storage->nvme_count; i++)
		take_nvme(arena, nvme->ctrlrs[i], &nvmes[i]);
	for (size_t i = 0; i < storage->module_count; i++)
		take_module(arena, scm->modules[i], &modules[i]);
	for (size_t i = 0; i < storage->scm_count; i++)
		take_scm(arena, scm->namespaces[i], &scms[i]);
	storage->nvmes = nvmes;
	storage->modules = modules;
	storage->scms = scms;
	storage->nvme_error = error_of(arena, nvme ? nvme->state : NULL);
	storage->scm_error = error_of(arena, scm ? scm->state : NULL);
	if (response->sys_mem_info)
		take_memory(arena, response->sys_mem_info, storage);
	answer->storage = storage;
}

int fathom_control_storage_scan(struct fathom_control *control, bool usage, bool details,
				struct fathom_control_answers **ret, struct fathom_fault *why)
{
	Ctl__StorageScanReq message = CTL__STORAGE_SCAN_REQ__INIT;
	Ctl__ScanNvmeReq nvme = CTL__SCAN_NVME_REQ__INIT;
	Ctl__ScanScmReq scm = CTL__SCAN_SCM_REQ__INIT;
	struct fan_request request = {
		.request = { .path = "/ctl.CtlSvc/StorageScan",
			     .name = usage ? "storage query usage" : "storage scan",
			     .message = &message.base,
			     .response = &ctl__storage_scan_resp__descriptor },
		.take = take_scan,
	};

	/* like dmg: usage requires health and metadata, too */
	nvme.health = nvme.meta = scm.usage = usage;
	nvme.basic = !usage && !details;
	message.nvme = &nvme;
	message.scm = &scm;
	return fan_call(control, &request, ret, why);
}

/* ---- the engines' devices ---- */

/* Show each device as a controller of its own. */
static void take_devices(struct arena *arena, ProtobufCMessage *message, struct fathom_control_answer *answer)
{
	const Ctl__SmdQueryResp *response = (const Ctl__SmdQueryResp *)message;
	struct fathom_control_storage *storage = arena_array(arena, struct fathom_control_storage, 1);
	struct fathom_control_nvme *nvmes;
	size_t count = 0;

	for (size_t i = 0; i < response->n_ranks; i++)
		count += response->ranks[i]->n_devices;
	nvmes = arena_array(arena, struct fathom_control_nvme, count);
	for (size_t i = 0; i < response->n_ranks; i++) {
		for (size_t k = 0; k < response->ranks[i]->n_devices; k++) {
			const Ctl__SmdDevice *device = response->ranks[i]->devices[k];
			const Ctl__NvmeController none = CTL__NVME_CONTROLLER__INIT;
			struct fathom_control_nvme *nvme = &nvmes[storage->nvme_count++];
			struct fathom_control_smd *smd = arena_array(arena, struct fathom_control_smd, 1);

			take_nvme(arena, device->ctrlr ? device->ctrlr : &none, nvme);
			take_smd(arena, device, smd);
			smd->rank = response->ranks[i]->rank;
			nvme->smds = smd;
			nvme->smd_count = 1;
		}
	}
	storage->nvmes = nvmes;
	storage->nvme_error = storage->scm_error = "";
	answer->storage = storage;
}

int fathom_control_devices(struct fathom_control *control, uint32_t rank, const char *uuid,
			   struct fathom_control_answers **ret, struct fathom_fault *why)
{
	Ctl__SmdQueryReq message = CTL__SMD_QUERY_REQ__INIT;
	struct fan_request request = {
		.request = { .path = "/ctl.CtlSvc/SmdQuery",
			     .name = "storage query list-devices",
			     .message = &message.base,
			     .response = &ctl__smd_query_resp__descriptor },
		.take = take_devices,
	};

	message.omit_pools = true;
	message.rank = rank;
	message.uuid = (char *)(uuid ? uuid : "");
	return fan_call(control, &request, ret, why);
}

/* ---- format ---- */

static void take_state(struct arena *arena, const Ctl__ResponseState *state, struct fathom_control_formatted *part)
{
	part->status = state ? (int32_t)state->status : 0;
	part->status_name = name_of(&ctl__response_status__descriptor, part->status);
	part->error = arena_text(arena, state ? state->error : NULL);
	part->info = arena_text(arena, state ? state->info : NULL);
}

static void take_format(struct arena *arena, ProtobufCMessage *message, struct fathom_control_answer *answer)
{
	const Ctl__StorageFormatResp *response = (const Ctl__StorageFormatResp *)message;
	struct fathom_control_format *format = arena_array(arena, struct fathom_control_format, 1);
	struct fathom_control_formatted *parts = arena_array(arena, struct fathom_control_formatted,
							     response->n_mrets + response->n_crets);

	for (size_t i = 0; i < response->n_mrets; i++) {
		struct fathom_control_formatted *part = &parts[format->count++];

		part->what = arena_text(arena, response->mrets[i]->mntpoint);
		part->is_mount = true;
		part->instance = response->mrets[i]->instanceidx;
		take_state(arena, response->mrets[i]->state, part);
	}
	for (size_t i = 0; i < response->n_crets; i++) {
		struct fathom_control_formatted *part = &parts[format->count++];

		part->what = arena_text(arena, response->crets[i]->pci_addr);
		part->roles = response->crets[i]->role_bits;
		take_state(arena, response->crets[i]->state, part);
	}
	format->parts = parts;
	answer->format = format;
}

/* Whether the member's control address is one of `addresses`. */
static bool is_on(const struct fathom_control_member *member, const struct address *addresses, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		for (size_t kind = 0; kind < addresses[i].count; kind++) {
			if (strcmp(addresses[i].text[kind], member->address) == 0)
				return true;
		}
	}
	return false;
}

/*
 * Reject a format of storage that a running member uses. If the query of the members fails, assume that no system runs;
 * the format continues then.
 */
static int check_running(struct fathom_control *control, struct fathom_fault *why)
{
	const uint32_t running = FATHOM_CONTROL_STARTING | FATHOM_CONTROL_READY | FATHOM_CONTROL_JOINED |
				 FATHOM_CONTROL_STOPPING;
	size_t count = host_set_count(control->hosts);
	struct address *addresses = calloc(count, sizeof(*addresses));
	struct fathom_control_members *members = NULL;
	uint64_t patience_ns = control->patience_ns;
	bool is_running = false;
	struct fathom_fault ours;
	int error;

	must(addresses);
	error = resolve(control, control->hosts, addresses, clock_monotonic_ns() + control->timeout_ns, why);
	if (error == 0) {
		control->patience_ns = 0; /* do not wait: before the first format there is no management service */
		error = fathom_control_query(control, NULL, running, &members, &ours);
		control->patience_ns = patience_ns;
		if (error == -ECANCELED && why)
			*why = ours;
		error = error == -ECANCELED ? error : 0;
	}
	for (size_t i = 0; members && i < members->count; i++)
		is_running |= is_on(&members->members[i], addresses, count);
	fathom_control_free(members);
	free(addresses);
	return is_running ? fault_format_running(why) : error;
}

/* Reject an empty set: the server would format all instances, although a script's variable may just be empty. */
static int check_instances(const char *text, struct fathom_fault *why)
{
	struct rank_set set;
	int error = rank_set_parse(text, &set, why);

	if (error)
		return error;
	if (set.count == 0)
		error = fault_rank_list_bad(why, text, 1, "none is named");
	rank_set_deinit(&set);
	return error;
}

int fathom_control_storage_format(struct fathom_control *control, const char *instances, bool reformat, bool replace,
				  bool new_storage, struct fathom_control_answers **ret, struct fathom_fault *why)
{
	Ctl__StorageFormatReq message = CTL__STORAGE_FORMAT_REQ__INIT;
	Ctl__FormatNvmeReq nvme = CTL__FORMAT_NVME_REQ__INIT;
	Ctl__FormatScmReq scm = CTL__FORMAT_SCM_REQ__INIT;
	struct fan_request request = {
		.request = { .path = "/ctl.CtlSvc/StorageFormat",
			     .name = "storage format",
			     .message = &message.base,
			     .response = &ctl__storage_format_resp__descriptor },
		.take = take_format,
	};
	int error = 0;

	/* the server itself rejects named instances that run */
	if (instances)
		error = check_instances(instances, why);
	else if (reformat)
		error = check_running(control, why);
	if (error)
		return error;
	message.nvme = &nvme;
	message.scm = &scm;
	message.reformat = reformat;
	message.replace = replace;
	message.new_storage = new_storage;
	message.instances = instances ? (char *)instances : (char *)"";
	return fan_call(control, &request, ret, why);
}
