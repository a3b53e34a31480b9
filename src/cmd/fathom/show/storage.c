/* SPDX-License-Identifier: BSD-2-Clause */
/* Storage of hosts: `fathom storage scan`. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/bits.h"
#include "cmd/fathom/show/show.h"
#include "cmd/fathom/show/parts.h"

enum { CELL_BYTES = 128 };

/* ---- one row per host ---- */

static const char *summary(uint64_t bytes, size_t count, const char *what, const char *error, char *cell)
{
	char size[SIZE_TEXT_BYTES];

	if (error[0])
		snprintf(cell, CELL_BYTES, "error: %s", error);
	else
		snprintf(cell, CELL_BYTES, "%s (%s)", size_text(bytes, size), plural(count, what));
	return cell;
}

void show_storage(const struct fathom_control_answers *answers, FILE *out)
{
	static const char *const titles[] = { "Hosts", "SCM Total", "NVMe Total" };
	struct folded *folded = folded_create(FOLDED_HOSTS, titles, ARRAY_COUNT(titles));

	for (size_t i = 0; i < answers->count; i++) {
		const struct fathom_control_storage *storage = answers->answers[i].storage;
		uint64_t modules = 0, scms = 0, nvmes = 0;
		char scm_cell[CELL_BYTES], nvme_cell[CELL_BYTES];

		for (size_t k = 0; k < storage->module_count; k++)
			modules += storage->modules[k].bytes;
		for (size_t k = 0; k < storage->scm_count; k++)
			scms += storage->scms[k].bytes;
		for (size_t k = 0; k < storage->nvme_count; k++)
			nvmes += storage->nvmes[k].bytes;
		summary(storage->scm_count ? scms : modules,
			storage->scm_count ? storage->scm_count : storage->module_count,
			storage->scm_count ? "namespace" : "module", storage->scm_error, scm_cell);
		summary(nvmes, storage->nvme_count, "controller", storage->nvme_error, nvme_cell);
		folded_add(folded, answers->answers[i].hosts, (const char *[]){ scm_cell, nvme_cell });
	}
	folded_finish(folded, false, 0, out);
}

/* ---- details ---- */

static void show_modules(const struct fathom_control_storage *storage, FILE *out)
{
	static const char *const titles[] = { "SCM Module", "Socket", "Memory Ctrlr", "Channel", "Slot", "Capacity" };
	struct table *table = titled(titles, ARRAY_COUNT(titles));

	for (size_t i = 0; i < storage->module_count; i++) {
		const struct fathom_control_module *module = &storage->modules[i];
		char texts[5][SIZE_TEXT_BYTES], size[SIZE_TEXT_BYTES];

		add_row(table,
			(const char *[]){ number_text(module->physical, texts[0]), number_text(module->numa_node, texts[1]),
					  number_text(module->controller, texts[2]), number_text(module->channel, texts[3]),
					  number_text(module->position, texts[4]), size_text(module->bytes, size) });
	}
	finish_table(table, 0, out);
}

static void show_scms(const struct fathom_control_storage *storage, FILE *out)
{
	static const char *const titles[] = { "SCM Namespace", "Socket", "Capacity" };
	struct table *table = titled(titles, ARRAY_COUNT(titles));

	for (size_t i = 0; i < storage->scm_count; i++) {
		char node[SIZE_TEXT_BYTES], size[SIZE_TEXT_BYTES];

		add_row(table,
			(const char *[]){ storage->scms[i].block_device, number_text(storage->scms[i].numa_node, node),
					  size_text(storage->scms[i].bytes, size) });
	}
	finish_table(table, 0, out);
}

static void show_nvmes(const struct fathom_control_storage *storage, bool health, FILE *out)
{
	static const char *const titles[] = { "NVMe PCI", "Model", "FW Revision", "Socket", "Capacity", "State", "Serial" };
	struct table *table = titled(titles, health ? 7 : 5);

	for (size_t i = 0; i < storage->nvme_count; i++) {
		const struct fathom_control_nvme *nvme = &storage->nvmes[i];
		char node[SIZE_TEXT_BYTES], size[SIZE_TEXT_BYTES];

		snprintf(node, sizeof(node), "%" PRId32, nvme->numa_node);
		add_row(table, (const char *[]){ nvme->address, nvme->model, nvme->firmware, node,
						 size_text(nvme->bytes, size), nvme->state, nvme->serial });
	}
	finish_table(table, 0, out);
}

void show_storage_verbose(const struct fathom_control_answers *answers, bool health, FILE *out)
{
	for (size_t i = 0; i < answers->count; i++) {
		const struct fathom_control_storage *storage = answers->answers[i].storage;
		char *hosts = hosts_text(answers->answers[i].hosts);

		heading_print(hosts, 0, out);
		free(hosts);
		if (storage->has_memory)
			fprintf(out, "HugePage Size: %" PRIu32 " KB\n\n", storage->memory.hugepage_kb);
		if (storage->scm_error[0])
			fprintf(out, "  SCM scan failed: %s\n", storage->scm_error);
		else if (storage->scm_count > 0)
			show_scms(storage, out);
		else if (storage->module_count > 0)
			show_modules(storage, out);
		else
			fprintf(out, "  No SCM modules found\n");
		fputc('\n', out);
		if (storage->nvme_error[0])
			fprintf(out, "  NVMe scan failed: %s\n", storage->nvme_error);
		else if (storage->nvme_count > 0)
			show_nvmes(storage, health, out);
		else
			fprintf(out, "  No NVMe devices found\n");
		fputc('\n', out);
	}
}

/* ---- JSON ---- */

static json_t *json_memory(const struct fathom_control_memory *from)
{
	json_t *memory = json_object();

	put_number(memory, "numa_node_index", from->numa_node);
	put_number(memory, "hugepages_total", from->hugepages_total);
	put_number(memory, "hugepages_free", from->hugepages_free);
	put_number(memory, "hugepages_reserved", from->hugepages_reserved);
	put_number(memory, "hugepages_surplus", from->hugepages_surplus);
	put_number(memory, "hugepage_size_kb", from->hugepage_kb);
	put_number(memory, "mem_total_kb", from->total_kb);
	put_number(memory, "mem_free_kb", from->free_kb);
	put_number(memory, "mem_available_kb", from->available_kb);
	put_number(memory, "mem_used_kb", from->used_kb);
	return memory;
}

static json_t *json_scm(const struct fathom_control_scm *from)
{
	json_t *scm = json_object(), *mount;

	put_text(scm, "uuid", from->uuid);
	put_text(scm, "blockdev", from->block_device);
	put_text(scm, "dev", from->device);
	put_number(scm, "numa_node", from->numa_node);
	put_number(scm, "size", from->bytes);
	if (!from->mount) {
		put(scm, "mount", json_null());
		return scm;
	}
	mount = json_object();
	put_text(mount, "class", from->mount->kind);
	put(mount, "device_list", list_of_texts(from->mount->devices, from->mount->device_count));
	put_text(mount, "info", "");
	put_text(mount, "path", from->mount->path);
	put_number(mount, "rank", from->mount->rank);
	put_number(mount, "total_bytes", from->mount->total_bytes);
	put_number(mount, "avail_bytes", from->mount->available_bytes);
	put_number(mount, "usable_bytes", from->mount->usable_bytes);
	put(scm, "mount", mount);
	return scm;
}

static json_t *json_module(const struct fathom_control_module *from)
{
	json_t *module = json_object();

	put_number(module, "channel_id", from->channel);
	put_number(module, "channel_position", from->position);
	put_number(module, "controller_id", from->controller);
	put_number(module, "socket_id", from->numa_node);
	put_number(module, "physical_id", from->physical);
	put_number(module, "capacity", from->bytes);
	put_text(module, "uid", from->uid);
	put_text(module, "part_number", from->part);
	put_text(module, "firmware_revision", from->firmware);
	put_text(module, "health_state", from->health);
	return module;
}

static json_t *json_smd(const struct fathom_control_smd *from)
{
	json_t *smd = json_object(), *targets = json_array();

	for (size_t i = 0; i < from->target_count; i++)
		append(targets, json_integer(from->targets[i]));
	put_text(smd, "uuid", from->uuid);
	put(smd, "tgt_ids", or_null(targets));
	put_number(smd, "rank", from->rank);
	put_number(smd, "role_bits", from->roles);
	put_number(smd, "total_bytes", from->total_bytes);
	put_number(smd, "avail_bytes", from->available_bytes);
	put_number(smd, "usable_bytes", from->usable_bytes);
	put_number(smd, "cluster_size", from->cluster_bytes);
	put_number(smd, "meta_size", from->meta_bytes);
	put_number(smd, "meta_wal_size", from->meta_wal_bytes);
	put_number(smd, "rdb_size", from->rdb_bytes);
	put_number(smd, "rdb_wal_size", from->rdb_wal_bytes);
	return smd;
}

static json_t *json_nvme(const struct fathom_control_nvme *from)
{
	json_t *nvme = json_object(), *namespaces = json_array(), *smds = json_array();

	for (size_t i = 0; i < from->namespace_count; i++) {
		json_t *space = json_object();

		put_number(space, "id", from->namespaces[i].id);
		put_number(space, "size", from->namespaces[i].bytes);
		put_text(space, "ctrlr_pci_addr", from->address);
		append(namespaces, space);
	}
	for (size_t i = 0; i < from->smd_count; i++)
		append(smds, json_smd(&from->smds[i]));
	put_text(nvme, "info", "");
	put_text(nvme, "model", from->model);
	put_text(nvme, "serial", from->serial);
	put_text(nvme, "pci_addr", from->address);
	put_text(nvme, "fw_rev", from->firmware);
	put_text(nvme, "vendor_id", from->vendor);
	put_text(nvme, "pci_type", from->device_type);
	put(nvme, "socket_id", json_integer(from->numa_node));
	put(nvme, "health_stats", json_null());
	put(nvme, "namespaces", or_null(namespaces));
	put(nvme, "smd_devices", or_null(smds));
	put_text(nvme, "dev_state", from->state);
	return nvme;
}

static json_t *json_host(const struct fathom_control_answer *answer)
{
	const struct fathom_control_storage *storage = answer->storage;
	json_t *host = json_object(), *nvmes = json_array(), *modules = json_array(), *scms = json_array();

	for (size_t i = 0; i < storage->nvme_count; i++)
		append(nvmes, json_nvme(&storage->nvmes[i]));
	for (size_t i = 0; i < storage->module_count; i++)
		append(modules, json_module(&storage->modules[i]));
	for (size_t i = 0; i < storage->scm_count; i++)
		append(scms, json_scm(&storage->scms[i]));
	put(host, "nvme_devices", or_null(nvmes));
	put(host, "scm_modules", or_null(modules));
	put(host, "scm_namespaces", or_null(scms));
	put(host, "scm_mount_points", json_null());
	put(host, "smd_info", json_null());
	put_bool(host, "reboot_required", false);
	if (storage->has_memory) {
		json_t *memory = json_memory(&storage->memory), *nodes = json_array();

		for (size_t i = 0; i < storage->node_count; i++)
			append(nodes, json_memory(&storage->nodes[i]));
		put(memory, "numa_nodes", or_null(nodes));
		put(host, "mem_info", memory);
	} else {
		put(host, "mem_info", json_null());
	}
	return host;
}

json_t *json_storage(const struct fathom_control_answers *answers)
{
	return json_answers(answers, "HostStorage", "hosts", "storage", json_host);
}
