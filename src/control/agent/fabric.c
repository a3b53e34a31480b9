/* SPDX-License-Identifier: BSD-2-Clause */
#include "control/agent/fabric.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/text.h"

enum { STAT_BYTES = 1024, STAT_PROCESSOR_FIELD = 39 };

static bool is_listed(const struct config_strings *names, const char *name)
{
	for (size_t i = 0; i < names->count; i++) {
		if (strcmp(names->items[i], name) == 0)
			return true;
	}
	return false;
}

static void add(struct fabric *fabric, const char *name, const char *domain, int numa_node, enum network_class class)
{
	struct fabric_interface *interface = &fabric->interfaces[fabric->count];

	if (fabric->count == FABRIC_INTERFACES_MAX)
		return; /* more than a client can use */
	if (text_copy(interface->name, sizeof(interface->name), name) != 0 ||
	    text_copy(interface->domain, sizeof(interface->domain), domain) != 0)
		return; /* no interface of Linux has such a name */
	interface->numa_node = numa_node;
	interface->class = class;
	interface->uses = 0;
	fabric->count++;
}

static void fill_configured(struct fabric *fabric, const struct config_list *nodes)
{
	const struct agent_fabric_node *node = nodes->items;

	for (size_t i = 0; i < nodes->count; i++) {
		const struct agent_fabric_device *device = node[i].devices.items;

		for (size_t k = 0; k < node[i].devices.count; k++)
			add(fabric, device[k].iface, device[k].domain ? device[k].domain : device[k].iface,
			    (int)node[i].numa_node, NETWORK_CLASSES);
	}
}

static bool is_usable(const struct agent_config *config, const struct network_interface *interface)
{
	if (interface->state == NETWORK_STATE_DOWN || interface->class == NETWORK_CLASS_OTHER ||
	    !network_first_address(interface))
		return false;
	if (config->include_fabric_ifaces.count > 0)
		return is_listed(&config->include_fabric_ifaces, interface->name);
	return !is_listed(&config->exclude_fabric_ifaces, interface->name);
}

void fabric_fill(struct fabric *fabric, const struct agent_config *config, const struct network_scan *scan)
{
	fabric->count = 0;
	if (config->fabric_ifaces.count > 0) {
		fill_configured(fabric, &config->fabric_ifaces);
		return;
	}
	for (size_t i = 0; scan && i < scan->count; i++) {
		const struct network_interface *interface = &scan->interfaces[i];

		if (is_usable(config, interface))
			add(fabric, interface->name, interface->name, interface->numa_node, interface->class);
	}
}

/* Without a wish of the servers, the loopback interface is for a host that has no other. */
static bool fits(const struct fabric_interface *interface, enum network_class class, bool with_loopback)
{
	if (interface->class == NETWORK_CLASSES)
		return true;
	if (class != NETWORK_CLASSES)
		return interface->class == class;
	return with_loopback || interface->class != NETWORK_CLASS_LOOPBACK;
}

/* The one that was chosen least often. */
static struct fabric_interface *choose(struct fabric *fabric, int numa_node, enum network_class class, bool is_elsewhere,
				       bool with_loopback)
{
	struct fabric_interface *chosen = NULL;

	for (size_t i = 0; i < fabric->count; i++) {
		struct fabric_interface *interface = &fabric->interfaces[i];

		if (fits(interface, class, with_loopback) && (is_elsewhere || interface->numa_node == numa_node) &&
		    (!chosen || interface->uses < chosen->uses))
			chosen = interface;
	}
	return chosen;
}

const struct fabric_interface *fabric_choose(struct fabric *fabric, int numa_node, enum network_class class)
{
	struct fabric_interface *chosen = NULL;

	must(class <= NETWORK_CLASSES);
	for (int with_loopback = 0; !chosen && with_loopback < 2; with_loopback++) {
		if (numa_node >= 0)
			chosen = choose(fabric, numa_node, class, false, with_loopback);
		if (!chosen)
			chosen = choose(fabric, numa_node, class, true, with_loopback);
	}
	if (chosen)
		chosen->uses++;
	return chosen;
}

/* ---- the node of a process ---- */

/* The number of the processor, of /proc/PID/stat; the name of the program may contain blanks and brackets. -1: unknown. */
static int processor_of(struct provider *provider, int32_t pid)
{
	char path[PROVIDER_PATH_BYTES_MAX], text[STAT_BYTES], *at, *end;
	int field = 2;
	long number;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if (pid <= 0 || provider_read_text(provider, path, text, sizeof(text)) < 0)
		return -1;
	at = strrchr(text, ')');
	for (; at && field < STAT_PROCESSOR_FIELD; field++)
		at = strchr(at + 1, ' ');
	if (!at)
		return -1;
	number = strtol(at, &end, 10);
	return end > at && number >= 0 && number < 1 << 16 ? (int)number : -1;
}

static int take_node(void *ctx, const char *name)
{
	uint64_t number;

	if (strncmp(name, "node", 4) == 0 && text_parse_u64(name + 4, 10, INT32_MAX, &number) == 0)
		*(int *)ctx = (int)number;
	return 0;
}

int fabric_node_of(struct provider *provider, int32_t pid)
{
	int processor = processor_of(provider, pid), node = -1;
	char path[PROVIDER_PATH_BYTES_MAX];

	if (processor < 0)
		return -1;
	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d", processor);
	if (provider->calls->list(provider, path, take_node, &node) < 0)
		return -1;
	return node;
}
