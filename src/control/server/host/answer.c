/* SPDX-License-Identifier: BSD-2-Clause */
/* Answers of StorageScan, SmdQuery, NetworkScan and HostDevices from facts, with the fields that DAOS's tools read. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "control/fault/fault.h"
#include "control/server/config/address.h"
#include "control/server/core/core.h"
#include "control/server/host/facts.h"

static Ctl__MemInfo *node_answer(const struct facts_memory *node, uint32_t index, struct arena *arena)
{
	Ctl__MemInfo *info = arena_message(arena, ctl__mem_info, Ctl__MemInfo);

	info->numa_node_index = index;
	info->hugepages_total = node->hugepages_total;
	info->hugepages_free = node->hugepages_free;
	info->hugepages_surplus = node->hugepages_surplus;
	info->mem_total_kb = node->total_kib;
	info->mem_free_kb = node->free_kib;
	info->mem_used_kb = node->used_kib;
	return info;
}

static Ctl__SysMemInfo *memory_answer(const struct storage_facts *facts, struct arena *arena)
{
	Ctl__SysMemInfo *info = arena_message(arena, ctl__sys_mem_info, Ctl__SysMemInfo);

	must(facts->node_count <= FACTS_NODES_MAX);
	info->hugepages_total = facts->memory.hugepages_total;
	info->hugepages_free = facts->memory.hugepages_free;
	info->hugepages_reserved = facts->memory.hugepages_reserved;
	info->hugepages_surplus = facts->memory.hugepages_surplus;
	info->hugepage_size_kb = (uint32_t)facts->memory.hugepage_kib;
	info->mem_total_kb = facts->memory.total_kib;
	info->mem_free_kb = facts->memory.free_kib;
	info->mem_available_kb = facts->memory.available_kib;
	info->n_numa_nodes = facts->node_count;
	info->numa_nodes = arena_take(arena, facts->node_count * sizeof(Ctl__MemInfo *));
	for (size_t i = 0; i < facts->node_count; i++)
		info->numa_nodes[i] = node_answer(&facts->nodes[i], (uint32_t)i, arena);
	return info;
}

/* The engine with this device in the configuration; engines.count: none. */
static size_t owner_of(const struct server_config *config, const struct storage_device *device)
{
	size_t i;

	for (i = 0; i < config->engines.count; i++) {
		const struct config_strings *list = &server_engine_storage(server_config_engine(config, i))->bdev_list;

		if (list->count && strcmp(list->items[0], device->path) == 0)
			break;
	}
	return i;
}

/* Add the engine's usage, as the SMD device of its rank. */
static void add_engine(Ctl__NvmeController *controller, const struct facts_usage *usage, const struct facts_engine *engine,
		       struct arena *arena)
{
	Ctl__SmdDevice *device = arena_message(arena, ctl__smd_device, Ctl__SmdDevice);

	device->rank = engine->rank;
	device->total_bytes = usage->total_bytes;
	device->avail_bytes = usage->avail_bytes;
	device->usable_bytes = usage->avail_bytes;
	device->ctrlr_namespace_id = 1;
	controller->n_smd_devices = 1;
	controller->smd_devices = arena_take(arena, sizeof(Ctl__SmdDevice *));
	controller->smd_devices[0] = device;
}

static Ctl__NvmeController *controller_answer(const struct storage_device *device, bool basic, struct arena *arena)
{
	Ctl__NvmeController *controller = arena_message(arena, ctl__nvme_controller, Ctl__NvmeController);
	Ctl__NvmeController__Namespace *namespace = arena_message(arena, ctl__nvme_controller__namespace,
								  Ctl__NvmeController__Namespace);
	/* a device without a PCI address has its path instead */
	const char *place = device->pci_address[0] ? device->pci_address : device->path;

	controller->model = arena_text(arena, device->model);
	controller->pci_addr = arena_text(arena, place);
	controller->fw_rev = arena_text(arena, device->firmware);
	controller->socket_id = device->numa_node < 0 ? 0 : device->numa_node;
	controller->dev_state = CTL__NVME_DEV_STATE__NORMAL;
	controller->pci_dev_type = arena_text(arena, storage_class_name(device->class));
	if (!basic) {
		controller->serial = arena_text(arena, device->serial);
		controller->vendor_id = arena_text(arena, device->vendor);
	}
	namespace->id = 1;
	namespace->size = device->bytes;
	namespace->ctrlr_pci_addr = controller->pci_addr;
	controller->n_namespaces = 1;
	controller->namespaces = arena_take(arena, sizeof(Ctl__NvmeController__Namespace *));
	controller->namespaces[0] = namespace;
	return controller;
}

/* NVMe devices of the host, and devices of configured engines. */
static Ctl__ScanNvmeResp *nvme_answer(const struct storage_facts *facts, const struct server_config *config,
				      const struct facts_engine *engines, const Ctl__ScanNvmeReq *request,
				      struct arena *arena)
{
	Ctl__ScanNvmeResp *answer = arena_message(arena, ctl__scan_nvme_resp, Ctl__ScanNvmeResp);
	bool basic = request && request->basic, meta = request && request->meta;

	answer->state = server_response_state(&facts->why, CTL__RESPONSE_STATUS__CTL_ERR_NVME, arena);
	answer->ctrlrs = arena_take(arena, (facts->scan.count + 1) * sizeof(Ctl__NvmeController *));
	for (size_t i = 0; i < facts->scan.count; i++) {
		const struct storage_device *device = &facts->scan.devices[i];
		size_t owner = owner_of(config, device);
		Ctl__NvmeController *controller;

		if (owner == config->engines.count && (device->class != STORAGE_CLASS_NVME || device->parent[0]))
			continue;
		controller = controller_answer(device, basic, arena);
		if (meta && owner < config->engines.count && engines[owner].has_rank && facts->usage[owner].error == 0)
			add_engine(controller, &facts->usage[owner], &engines[owner], arena);
		answer->ctrlrs[answer->n_ctrlrs++] = controller;
	}
	must(answer->n_ctrlrs <= facts->scan.count);
	return answer;
}

/* The mount point of an engine's formatted storage. */
static Ctl__ScmNamespace *namespace_answer(const struct server_storage *storage, const struct facts_usage *usage,
					   const struct facts_engine *engine, struct arena *arena)
{
	Ctl__ScmNamespace *namespace = arena_message(arena, ctl__scm_namespace, Ctl__ScmNamespace);
	Ctl__ScmNamespace__Mount *mount = arena_message(arena, ctl__scm_namespace__mount, Ctl__ScmNamespace__Mount);
	static const char *const classes[] = { "kdev", "nvme", "file" };

	must(storage->class < ARRAY_COUNT(classes));
	must(engine->is_formatted && usage->error == 0);
	must(storage->bdev_list.count == 0 || storage->bdev_list.items[0][0] == '/');
	mount->path = arena_text(arena, storage->scm_mount);
	mount->total_bytes = usage->total_bytes;
	mount->avail_bytes = usage->avail_bytes;
	mount->usable_bytes = usage->avail_bytes;
	mount->class_ = arena_text(arena, classes[storage->class]);
	mount->rank = engine->has_rank ? engine->rank : 0;
	mount->n_device_list = storage->bdev_list.count;
	mount->device_list = storage->bdev_list.items;
	namespace->blockdev = storage->bdev_list.count ? arena_text(arena, strrchr(storage->bdev_list.items[0], '/') + 1)
						       : arena_text(arena, "file");
	namespace->size = usage->total_bytes;
	namespace->mount = mount;
	return namespace;
}

static Ctl__ScanScmResp *scm_answer(const struct storage_facts *facts, const struct server_config *config,
				    const struct facts_engine *engines, const Ctl__ScanScmReq *request, struct arena *arena)
{
	Ctl__ScanScmResp *answer = arena_message(arena, ctl__scan_scm_resp, Ctl__ScanScmResp);

	answer->state = arena_message(arena, ctl__response_state, Ctl__ResponseState);
	if (!request || !request->usage)
		return answer;
	answer->namespaces = arena_take(arena, (config->engines.count + 1) * sizeof(Ctl__ScmNamespace *));
	for (size_t i = 0; i < config->engines.count; i++) {
		if (engines[i].is_formatted && facts->usage[i].error == 0)
			answer->namespaces[answer->n_namespaces++] =
				namespace_answer(server_engine_storage(server_config_engine(config, i)), &facts->usage[i],
						 &engines[i], arena);
	}
	return answer;
}

const Ctl__StorageScanResp *storage_scan_answer(const struct storage_facts *facts, const struct server_config *config,
						const struct facts_engine *engines, const Ctl__StorageScanReq *request,
						struct arena *arena)
{
	Ctl__StorageScanResp *answer = arena_message(arena, ctl__storage_scan_resp, Ctl__StorageScanResp);

	answer->nvme = nvme_answer(facts, config, engines, request->nvme, arena);
	answer->scm = scm_answer(facts, config, engines, request->scm, arena);
	answer->sys_mem_info = memory_answer(facts, arena);
	return answer;
}

/* ---- the engines' devices ---- */

/* data.img of an engine's folder, as a device. */
static Ctl__NvmeController *image_answer(const struct server_storage *storage, const struct facts_usage *usage,
					 struct arena *arena)
{
	Ctl__NvmeController *controller = arena_message(arena, ctl__nvme_controller, Ctl__NvmeController);
	Ctl__NvmeController__Namespace *namespace = arena_message(arena, ctl__nvme_controller__namespace,
								  Ctl__NvmeController__Namespace);

	controller->model = arena_text(arena, "file");
	controller->pci_addr = arena_format(arena, "%s/data.img", storage->scm_mount);
	controller->pci_dev_type = arena_text(arena, "file");
	controller->dev_state = usage->has_image ? CTL__NVME_DEV_STATE__NORMAL : CTL__NVME_DEV_STATE__UNPLUGGED;
	namespace->id = 1;
	namespace->size = usage->has_image ? usage->total_bytes : 0;
	namespace->ctrlr_pci_addr = controller->pci_addr;
	controller->n_namespaces = 1;
	controller->namespaces = arena_take(arena, sizeof(Ctl__NvmeController__Namespace *));
	controller->namespaces[0] = namespace;
	return controller;
}

/* A block device; one that does not exist any more has only its path. */
static Ctl__NvmeController *device_answer(const struct storage_facts *facts, const char *path, struct arena *arena)
{
	Ctl__NvmeController *controller;

	for (size_t i = 0; i < facts->scan.count; i++) {
		if (strcmp(facts->scan.devices[i].path, path) == 0)
			return controller_answer(&facts->scan.devices[i], false, arena);
	}
	controller = arena_message(arena, ctl__nvme_controller, Ctl__NvmeController);
	controller->pci_addr = arena_text(arena, path);
	controller->dev_state = CTL__NVME_DEV_STATE__UNPLUGGED;
	return controller;
}

static Ctl__SmdDevice *smd_answer(const struct storage_facts *facts, const struct server_config *config, size_t index,
				  const struct facts_engine *engine, struct arena *arena)
{
	const struct server_storage *storage = server_engine_storage(server_config_engine(config, index));
	const struct facts_usage *usage = &facts->usage[index];
	Ctl__SmdDevice *device = arena_message(arena, ctl__smd_device, Ctl__SmdDevice);

	must(engine->has_rank);
	device->uuid = arena_text(arena, engine->uuid);
	device->rank = engine->rank;
	device->ctrlr_namespace_id = 1;
	if (storage->class == SERVER_STORAGE_FILE)
		device->ctrlr = image_answer(storage, usage, arena);
	else
		device->ctrlr = device_answer(facts, storage->bdev_list.count ? storage->bdev_list.items[0] : "", arena);
	if (usage->error == 0 && device->ctrlr->dev_state == CTL__NVME_DEV_STATE__NORMAL) {
		device->total_bytes = usage->total_bytes;
		device->avail_bytes = device->usable_bytes = usage->avail_bytes;
	}
	return device;
}

const Ctl__SmdQueryResp *smd_query_answer(const struct storage_facts *facts, const struct server_config *config,
					  const struct facts_engine *engines, const Ctl__SmdQueryReq *request,
					  struct arena *arena)
{
	Ctl__SmdQueryResp *answer = arena_message(arena, ctl__smd_query_resp, Ctl__SmdQueryResp);

	answer->ranks = arena_take(arena, (config->engines.count + 1) * sizeof(Ctl__SmdQueryResp__RankResp *));
	for (size_t i = 0; i < config->engines.count && !request->omit_devices; i++) {
		Ctl__SmdQueryResp__RankResp *rank;

		if (!engines[i].has_rank || (request->rank != UINT32_MAX && request->rank != engines[i].rank) ||
		    (request->uuid[0] && strcasecmp(request->uuid, engines[i].uuid) != 0))
			continue;
		rank = arena_message(arena, ctl__smd_query_resp__rank_resp, Ctl__SmdQueryResp__RankResp);
		rank->rank = engines[i].rank;
		rank->n_devices = 1;
		rank->devices = arena_take(arena, sizeof(Ctl__SmdDevice *));
		rank->devices[0] = smd_answer(facts, config, i, &engines[i], arena);
		answer->ranks[answer->n_ranks++] = rank;
	}
	must(answer->n_ranks <= config->engines.count);
	return answer;
}

/* ---- all of it ---- */

static Fathom__HostDevicesResp__Device *block_answer(const struct storage_device *device, struct arena *arena)
{
	Fathom__HostDevicesResp__Device *row = arena_message(arena, fathom__host_devices_resp__device,
							     Fathom__HostDevicesResp__Device);
	char use[128];

	storage_use_text(device, use, sizeof(use));
	row->path = arena_text(arena, device->path);
	row->kind = arena_text(arena, storage_class_name(device->class));
	row->bytes = device->bytes;
	row->model = arena_text(arena, device->model);
	row->serial = arena_text(arena, device->serial);
	row->numa_node = device->numa_node;
	row->use = arena_text(arena, use);
	row->free = storage_use(device) == STORAGE_USE_FREE;
	row->pci_address = arena_text(arena, device->pci_address);
	return row;
}

static Fathom__HostDevicesResp__Interface *interface_answer(const struct network_interface *interface, struct arena *arena)
{
	Fathom__HostDevicesResp__Interface *row = arena_message(arena, fathom__host_devices_resp__interface,
								Fathom__HostDevicesResp__Interface);

	row->name = arena_text(arena, interface->name);
	row->kind = arena_text(arena, network_class_name(interface->class));
	row->state = arena_text(arena, network_state_name(interface->state));
	row->speed_mbps = interface->speed_mbps;
	row->numa_node = interface->numa_node;
	row->addresses = arena_take(arena, NETWORK_ADDRESSES_MAX * sizeof(char *));
	for (uint32_t i = 0; i < interface->address_count && i < NETWORK_ADDRESSES_MAX; i++)
		row->addresses[row->n_addresses++] = arena_text(arena, interface->addresses[i].text);
	return row;
}

const Fathom__HostDevicesResp *host_devices_answer(const struct host_facts *facts, struct arena *arena)
{
	Fathom__HostDevicesResp *answer = arena_message(arena, fathom__host_devices_resp, Fathom__HostDevicesResp);

	answer->devices = arena_take(arena, (facts->devices.count + 1) * sizeof(*answer->devices));
	for (size_t i = 0; i < facts->devices.count; i++)
		answer->devices[answer->n_devices++] = block_answer(&facts->devices.devices[i], arena);
	answer->interfaces = arena_take(arena, (facts->interfaces.count + 1) * sizeof(*answer->interfaces));
	for (size_t i = 0; i < facts->interfaces.count; i++)
		answer->interfaces[answer->n_interfaces++] = interface_answer(&facts->interfaces.interfaces[i], arena);
	must(answer->n_devices == facts->devices.count && answer->n_interfaces == facts->interfaces.count);
	return answer;
}

/* ---- network ---- */

/* The interface is down, or has no address. */
static bool is_out_of_use(const struct network_interface *interface)
{
	return interface->state == NETWORK_STATE_DOWN || !network_first_address(interface);
}

/* `list`: names separated by commas. */
static bool is_listed(const char *list, const char *name)
{
	size_t bytes = strlen(name);

	for (const char *at = list; *at; at += strcspn(at, ",")) {
		at += strspn(at, ", ");
		if (strncmp(at, name, bytes) == 0 && (at[bytes] == ',' || at[bytes] == '\0'))
			return true;
	}
	return false;
}

const Ctl__NetworkScanResp *network_scan_answer(const struct network_facts *facts, const struct server_config *config,
						const Ctl__NetworkScanReq *request, struct arena *arena)
{
	Ctl__NetworkScanResp *answer = arena_message(arena, ctl__network_scan_resp, Ctl__NetworkScanResp);
	bool every = strcmp(request->provider, "all") == 0;
	bool is_asked = every || request->provider[0] == '\0' || strcmp(request->provider, config->provider) == 0;

	answer->numacount = (int32_t)facts->node_count;
	answer->corespernuma = (int32_t)facts->cores_per_node;
	answer->interfaces = arena_take(arena, (facts->scan.count + 1) * sizeof(Ctl__FabricInterface *));
	for (size_t i = 0; is_asked && i < facts->scan.count; i++) {
		const struct network_interface *interface = &facts->scan.interfaces[i];
		Ctl__FabricInterface *row;

		if (interface->class == NETWORK_CLASS_LOOPBACK || is_listed(request->excludeinterfaces, interface->name))
			continue;
		if (is_out_of_use(interface) && !every) {
			answer->left_out++;
			continue;
		}
		row = arena_message(arena, ctl__fabric_interface, Ctl__FabricInterface);
		row->provider = arena_text(arena, config->provider);
		row->device = arena_text(arena, interface->name);
		row->numanode = interface->numa_node < 0 ? 0 : (uint32_t)interface->numa_node;
		row->netdevclass = server_device_class(interface->class);
		answer->interfaces[answer->n_interfaces++] = row;
	}
	must(answer->n_interfaces + answer->left_out <= facts->scan.count);
	return answer;
}
