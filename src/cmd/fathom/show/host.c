/* SPDX-License-Identifier: BSD-2-Clause */
/* All block devices and interfaces of hosts: `fathom storage scan --all`, `fathom network scan --all`. */
#include "cmd/fathom/show/show.h"
#include "cmd/fathom/show/parts.h"

void show_block_devices(const struct fathom_control_answers *answers, FILE *out)
{
	for (size_t i = 0; i < answers->count; i++) {
		const struct fathom_control_host *host = answers->answers[i].host;

		print_hosts(&answers->answers[i], out);
		table_of_block_device(host->devices, host->device_count, 0, 0, out);
	}
}

void show_interfaces(const struct fathom_control_answers *answers, FILE *out)
{
	for (size_t i = 0; i < answers->count; i++) {
		const struct fathom_control_host *host = answers->answers[i].host;

		print_hosts(&answers->answers[i], out);
		table_of_host_interface(host->interfaces, host->interface_count, 0, 0, out);
	}
}
