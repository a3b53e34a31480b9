/* SPDX-License-Identifier: BSD-2-Clause */
/* Storage of hosts: `fathom storage scan`. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/bits.h"
#include "cmd/fathom/show/show.h"
#include "cmd/fathom/show/parts.h"

enum { SUMMARY_BYTES = 128, NVME_COLUMNS = 5 /* without state and serial number */ };

/* ---- one row per host ---- */

static const char *format_devices_summary(uint64_t bytes, size_t count, const char *what, const char *error, char *cell)
{
	char size[SIZE_TEXT_BYTES];

	if (error[0])
		snprintf(cell, SUMMARY_BYTES, "error: %s", error);
	else
		snprintf(cell, SUMMARY_BYTES, "%s (%s)", size_text(bytes, size), plural(count, what));
	return cell;
}

void show_storage(const struct fathom_control_answers *answers, FILE *out)
{
	static const char *const titles[] = { "Hosts", "SCM Total", "NVMe Total" };
	struct folded *folded = folded_create(FOLDED_HOSTS, titles, ARRAY_COUNT(titles));

	for (size_t i = 0; i < answers->count; i++) {
		const struct fathom_control_storage *storage = answers->answers[i].storage;
		uint64_t modules = 0, scms = 0, nvmes = 0;
		char scm_cell[SUMMARY_BYTES], nvme_cell[SUMMARY_BYTES];

		for (size_t k = 0; k < storage->module_count; k++)
			modules += storage->modules[k].bytes;
		for (size_t k = 0; k < storage->scm_count; k++)
			scms += storage->scms[k].bytes;
		for (size_t k = 0; k < storage->nvme_count; k++)
			nvmes += storage->nvmes[k].bytes;
		format_devices_summary(storage->scm_count ? scms : modules,
				       storage->scm_count ? storage->scm_count : storage->module_count,
				       storage->scm_count ? "namespace" : "module", storage->scm_error, scm_cell);
		format_devices_summary(nvmes, storage->nvme_count, "controller", storage->nvme_error, nvme_cell);
		folded_add(folded, answers->answers[i].hosts, (const char *[]){ scm_cell, nvme_cell });
	}
	folded_finish(folded, false, 0, out);
}

/* ---- details ---- */

void show_storage_verbose(const struct fathom_control_answers *answers, FILE *out)
{
	for (size_t i = 0; i < answers->count; i++) {
		const struct fathom_control_storage *storage = answers->answers[i].storage;

		print_hosts(&answers->answers[i], out);
		if (storage->has_memory)
			fprintf(out, "HugePage Size: %" PRIu32 " KB\n\n", storage->memory.hugepage_kb);
		if (storage->scm_error[0])
			fprintf(out, "  SCM scan failed: %s\n", storage->scm_error);
		else if (storage->scm_count > 0)
			table_of_scm(storage->scms, storage->scm_count, 0, 0, out);
		else if (storage->module_count > 0)
			table_of_module(storage->modules, storage->module_count, 0, 0, out);
		else
			fprintf(out, "  No SCM modules found\n");
		fputc('\n', out);
		if (storage->nvme_error[0])
			fprintf(out, "  NVMe scan failed: %s\n", storage->nvme_error);
		else if (storage->nvme_count > 0)
			table_of_nvme(storage->nvmes, storage->nvme_count, NVME_COLUMNS, 0, out);
		else
			fprintf(out, "  No NVMe devices found\n");
		fputc('\n', out);
	}
}

/* ---- JSON ---- */

/* Each namespace repeats the address of its controller. */
json_t *json_namespaces(const struct fathom_control_nvme *nvme)
{
	json_t *namespaces = json_array();

	for (size_t i = 0; i < nvme->namespace_count; i++) {
		json_t *space = json_of_namespace(&nvme->namespaces[i]);

		put_text(space, "ctrlr_pci_addr", nvme->address);
		append(namespaces, space);
	}
	return or_null(namespaces);
}

json_t *json_memory_info(const struct fathom_control_storage *storage)
{
	json_t *memory, *nodes;

	if (!storage->has_memory)
		return json_null();
	memory = json_of_memory(&storage->memory);
	nodes = json_array();
	for (size_t i = 0; i < storage->node_count; i++)
		append(nodes, json_of_memory(&storage->nodes[i]));
	put(memory, "numa_nodes", or_null(nodes));
	return memory;
}
