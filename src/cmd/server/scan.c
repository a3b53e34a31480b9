/* SPDX-License-Identifier: BSD-2-Clause */
/* scan - `fathom-server storage scan` and `network scan`; see scan.h. */
#include "cmd/server/scan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "cmd/fathom/show/show.h"
#include "cmd/fathom/show/parts.h"
#include "cmd/server/command.h"
#include "control/fault/fault.h"
#include "control/network/network.h"
#include "control/storage/storage.h"

/* ---- printing ---- */

static int report_fault(const struct fathom_fault *why, bool json, FILE *out)
{
	if (json)
		envelope_print(NULL, (const struct fathom_fault *)why, NULL, out);
	return command_fail(why);
}

/* Print `rows` with `json`, else `table`. Takes both. */
static int print_scan_result(struct table *table, const char *name, json_t *rows, bool json, FILE *out)
{
	json_t *response;

	if (json) {
		response = json_object();
		put(response, name, rows);
		envelope_print(response, NULL, NULL, out);
		table_destroy(table);
	} else {
		json_decref(rows);
		finish_table(table, 0, out);
	}
	return EXIT_SUCCESS;
}

/* ---- storage ---- */

static void add_device_row(struct table *table, const struct fathom_control_block_device *device)
{
	char size[SIZE_TEXT_BYTES], node[SIZE_TEXT_BYTES];

	add_row(table, (const char *const[]){ device->path, device->kind, size_text(device->bytes, size), device->model,
					      device->serial, node_text(device->numa_node, node), device->use });
}

int scan_storage(struct provider *provider, bool json, FILE *out)
{
	static const char *const titles[] = { "Device", "Class", "Size", "Model", "Serial", "NUMA", "Use" };
	const struct storage_scan_options all = { 0 };
	struct storage_scan scan;
	struct fathom_fault why = { 0 };
	struct table *table;
	json_t *rows;

	if (storage_scan(provider, &all, &scan, &why) != 0)
		return report_fault(&why, json, out);
	table = titled(titles, ARRAY_COUNT(titles));
	rows = json_array();
	for (size_t i = 0; i < scan.count; i++) {
		const struct storage_device *from = &scan.devices[i];
		char use[128];
		const struct fathom_control_block_device device = {
			.path = from->path,
			.kind = storage_class_name(from->class),
			.model = from->model,
			.serial = from->serial,
			.use = use,
			.pci_address = from->pci_address,
			.bytes = from->bytes,
			.numa_node = from->numa_node,
			.free = storage_use(from) == STORAGE_USE_FREE,
		};

		storage_use_text(from, use, sizeof(use));
		if (json)
			append(rows, json_of_block_device(&device));
		else
			add_device_row(table, &device);
	}
	storage_scan_free(&scan);
	return print_scan_result(table, "devices", rows, json, out);
}

/* ---- network ---- */

static void add_interface_row(struct table *table, const struct network_interface *interface)
{
	const struct network_address *first = network_first_address(interface);
	char speed[SIZE_TEXT_BYTES], node[SIZE_TEXT_BYTES];

	add_row(table,
		(const char *const[]){ interface->name, network_class_name(interface->class),
				       network_state_name(interface->state), speed_text(interface->speed_mbps, speed),
				       node_text(interface->numa_node, node), first ? first->text : "-" });
}

static json_t *make_interface_json(const struct network_interface *from)
{
	const char *addresses[NETWORK_ADDRESSES_MAX];
	struct fathom_control_host_interface interface = {
		.name = from->name,
		.kind = network_class_name(from->class),
		.state = network_state_name(from->state),
		.addresses = addresses,
		.speed_mbps = from->speed_mbps,
		.numa_node = from->numa_node,
	};

	for (uint32_t i = 0; i < from->address_count && i < NETWORK_ADDRESSES_MAX; i++)
		addresses[interface.address_count++] = from->addresses[i].text;
	return json_of_host_interface(&interface);
}

int scan_network(struct provider *provider, bool json, FILE *out)
{
	static const char *const titles[] = { "Interface", "Class", "State", "Speed", "NUMA", "Address" };
	struct network_scan scan;
	struct fathom_fault why = { 0 };
	struct table *table;
	json_t *rows;

	if (network_scan(provider, &scan, &why) != 0)
		return report_fault(&why, json, out);
	table = titled(titles, ARRAY_COUNT(titles));
	rows = json_array();
	for (size_t i = 0; i < scan.count; i++) {
		if (json)
			append(rows, make_interface_json(&scan.interfaces[i]));
		else
			add_interface_row(table, &scan.interfaces[i]);
	}
	network_scan_free(&scan);
	return print_scan_result(table, "interfaces", rows, json, out);
}

/* ---- the commands ---- */

static const struct option_row scan_rows[] = {
	{ "json", 'j', OPTION_FLAG, NULL, "print JSON, with the rows that `fathom ... scan --all --json` has",
	  .offset = 0 },
	OPTION_HELP_ROW,
};

static const struct option_command scan_commands[] = { { "scan", NULL, "scan this host", .operands = NULL } };

static int run_scan_command(const struct option_table *table, int argc, char **argv,
			    int (*scan)(struct provider *, bool, FILE *))
{
	bool json = false;
	int at, status = options_parse(table, argc, argv, &json, &at);

	if (status != OPTIONS_RUN)
		return status;
	if (at + 1 == argc && strcmp(argv[at], "scan") == 0)
		return scan(provider_system(), json, stdout);
	options_help(table, stderr);
	return EXIT_USAGE;
}

const struct option_table storage_table = {
	.name = "fathom-server storage",
	.usage = "fathom-server storage scan [-j]",
	.about = "Show the block devices of this host, and what uses them.",
	OPTION_ROWS(scan_rows),
	OPTION_COMMANDS(scan_commands),
};

int command_storage(int argc, char **argv)
{
	return run_scan_command(&storage_table, argc, argv, scan_storage);
}

const struct option_table network_table = {
	.name = "fathom-server network",
	.usage = "fathom-server network scan [-j]",
	.about = "Show the network interfaces of this host.",
	OPTION_ROWS(scan_rows),
	OPTION_COMMANDS(scan_commands),
};

int command_network(int argc, char **argv)
{
	return run_scan_command(&network_table, argc, argv, scan_network);
}
