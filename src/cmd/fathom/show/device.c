/* SPDX-License-Identifier: BSD-2-Clause */
/* A block device and an interface of a host, as JSON rows: used by `fathom`, and by `fathom-server` for its own host. */
#include "cmd/fathom/show/show.h"
#include "cmd/fathom/show/parts.h"

json_t *json_block_device(const struct fathom_control_block_device *device)
{
	json_t *row = json_object();

	put_text(row, "path", device->path);
	put_text(row, "class", device->kind);
	put_number(row, "bytes", device->bytes);
	put_text(row, "model", device->model);
	put_text(row, "serial", device->serial);
	put_text(row, "pci_address", device->pci_address);
	put(row, "numa_node", json_integer(device->numa_node));
	put_text(row, "use", device->use);
	put_bool(row, "free", device->free);
	return row;
}

json_t *json_host_interface(const struct fathom_control_host_interface *interface)
{
	json_t *row = json_object();

	put_text(row, "name", interface->name);
	put_text(row, "class", interface->kind);
	put_text(row, "state", interface->state);
	put(row, "speed_mbps", json_integer(interface->speed_mbps));
	put(row, "numa_node", json_integer(interface->numa_node));
	put(row, "addresses", list_of_texts(interface->addresses, interface->address_count));
	return row;
}
