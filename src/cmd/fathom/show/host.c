/* SPDX-License-Identifier: BSD-2-Clause */
/* All block devices and interfaces of hosts: `fathom storage scan --all`, `fathom network scan --all`. */
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "cmd/fathom/show/show.h"
#include "cmd/fathom/show/parts.h"

enum { CELL_BYTES = 1024 };

static void print_hosts(const struct fathom_control_answer *answer, FILE *out)
{
	char *hosts = hosts_text(answer->hosts);

	heading_print(hosts, 0, out);
	free(hosts);
}

void show_block_devices(const struct fathom_control_answers *answers, FILE *out)
{
	static const char *const titles[] = { "Device", "Class", "Size", "NUMA", "Model", "Serial", "Use" };

	for (size_t i = 0; i < answers->count; i++) {
		const struct fathom_control_host *host = answers->answers[i].host;
		struct table *table = titled(titles, ARRAY_COUNT(titles));

		print_hosts(&answers->answers[i], out);
		for (size_t k = 0; k < host->device_count; k++) {
			const struct fathom_control_block_device *device = &host->devices[k];
			char node[SIZE_TEXT_BYTES], size[SIZE_TEXT_BYTES];

			add_row(table, (const char *[]){ device->path, device->kind, size_text(device->bytes, size),
							 node_text(device->numa_node, node), device->model, device->serial,
							 device->use });
		}
		finish_table(table, 0, out);
	}
}

static const char *addresses_text(const struct fathom_control_host_interface *interface, char *text)
{
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < interface->address_count && used + strlen(interface->addresses[i]) + 3 < CELL_BYTES; i++)
		used += (size_t)snprintf(text + used, CELL_BYTES - used, "%s%s", used ? ", " : "", interface->addresses[i]);
	return used ? text : "-";
}

void show_interfaces(const struct fathom_control_answers *answers, FILE *out)
{
	static const char *const titles[] = { "Interface", "Class", "State", "Speed", "NUMA", "Addresses" };

	for (size_t i = 0; i < answers->count; i++) {
		const struct fathom_control_host *host = answers->answers[i].host;
		struct table *table = titled(titles, ARRAY_COUNT(titles));

		print_hosts(&answers->answers[i], out);
		for (size_t k = 0; k < host->interface_count; k++) {
			const struct fathom_control_host_interface *interface = &host->interfaces[k];
			char node[SIZE_TEXT_BYTES], speed[SIZE_TEXT_BYTES], addresses[CELL_BYTES];

			add_row(table, (const char *[]){ interface->name, interface->kind, interface->state,
							 speed_text(interface->speed_mbps, speed),
							 node_text(interface->numa_node, node),
							 addresses_text(interface, addresses) });
		}
		finish_table(table, 0, out);
	}
}

static json_t *json_host(const struct fathom_control_answer *answer)
{
	const struct fathom_control_host *from = answer->host;
	json_t *host = json_object(), *devices = json_array(), *interfaces = json_array();

	for (size_t i = 0; i < from->device_count; i++)
		append(devices, json_block_device(&from->devices[i]));
	for (size_t i = 0; i < from->interface_count; i++)
		append(interfaces, json_host_interface(&from->interfaces[i]));
	put(host, "devices", devices);
	put(host, "interfaces", interfaces);
	return host;
}

json_t *json_hosts(const struct fathom_control_answers *answers)
{
	return json_answers(answers, "HostDevices", "hosts", "host", json_host);
}
