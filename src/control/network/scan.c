/* SPDX-License-Identifier: BSD-2-Clause */
/* Scans the network interfaces of the host in sysfs, and their addresses. */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/text.h"
#include "control/network/network.h"
#include "control/network/probes.gen.h"

static const char *const class_names[] = { "ethernet", "infiniband", "loopback", "other" };
static const char *const state_names[] = { "up", "down", "unknown" };
static_assert(ARRAY_COUNT(class_names) == NETWORK_CLASSES, "");
static_assert(ARRAY_COUNT(state_names) == NETWORK_STATES, "");
static_assert(NETWORK_ADDRESS_BYTES_MAX >= INET6_ADDRSTRLEN, "inet_ntop() has room");

const char *network_class_name(enum network_class class)
{
	must(class < NETWORK_CLASSES);
	return class_names[class];
}

const char *network_state_name(enum network_state state)
{
	must(state < NETWORK_STATES);
	return state_names[state];
}

enum network_class network_class_of(int64_t type)
{
	switch (type) {
	case ARPHRD_ETHER:
		return NETWORK_CLASS_ETHERNET;
	case ARPHRD_INFINIBAND:
		return NETWORK_CLASS_INFINIBAND;
	case ARPHRD_LOOPBACK:
		return NETWORK_CLASS_LOOPBACK;
	default:
		return NETWORK_CLASS_OTHER;
	}
}

struct walk {
	struct provider *provider;
	struct network_scan scan;
	size_t room;
};

static bool format_path(char path[PROVIDER_PATH_BYTES_MAX], const char *interface, const char *file)
{
	return snprintf(path, PROVIDER_PATH_BYTES_MAX, "/sys/class/net/%s/%s", interface, file) < PROVIDER_PATH_BYTES_MAX;
}

static int64_t read_number(struct provider *provider, const char *interface, const char *file)
{
	char path[PROVIDER_PATH_BYTES_MAX];
	int64_t number;

	if (!format_path(path, interface, file) || provider_read_number(provider, path, &number) != 0 || number < 0)
		return -1;
	return number;
}

static void read_text(struct provider *provider, const char *interface, const char *file, char *to, size_t bytes)
{
	char path[PROVIDER_PATH_BYTES_MAX], text[PROVIDER_NAME_BYTES_MAX];

	must(bytes > 0);
	to[0] = '\0';
	if (format_path(path, interface, file) && provider_read_text(provider, path, text, sizeof(text)) == 0)
		to[text_utf8_copy(to, bytes - 1, text, strlen(text))] = '\0';
}

static enum network_state read_state(struct provider *provider, const char *interface)
{
	char text[32];

	read_text(provider, interface, "operstate", text, sizeof(text));
	if (strcmp(text, "up") == 0)
		return NETWORK_STATE_UP;
	return text[0] == '\0' || strcmp(text, "unknown") == 0 ? NETWORK_STATE_UNKNOWN : NETWORK_STATE_DOWN;
}

/* Interfaces without hardware are below /sys/devices/virtual. */
static bool is_virtual(struct provider *provider, const char *interface)
{
	char path[PROVIDER_PATH_BYTES_MAX], place[PROVIDER_PATH_BYTES_MAX];

	if (snprintf(path, sizeof(path), "/sys/class/net/%s", interface) >= (int)sizeof(path) ||
	    provider_follow(provider, path, place, sizeof(place)) != 0)
		return false;
	return strncmp(place, "/sys/devices/virtual/", 21) == 0;
}

/* `type_ret` below 0: not an interface (the file "bonding_masters"), or vanished. Errors: out of resources, -EIO. */
static int read_type(struct provider *provider, const char *interface, int64_t *type_ret)
{
	char path[PROVIDER_PATH_BYTES_MAX];
	int error;

	*type_ret = -1;
	if (strlen(interface) >= NETWORK_NAME_BYTES_MAX || !format_path(path, interface, "type"))
		return 0;
	error = provider_read_number(provider, path, type_ret);
	/* do not skip an interface for lack of resources: by its address a server knows that it is the management host */
	return error == -EMFILE || error == -ENFILE || error == -ENOMEM || error == -EIO ? error : 0;
}

static int visit_interface(void *ctx, const char *name)
{
	struct walk *walk = ctx;
	struct network_interface *interface;
	int64_t type, node;
	int error = read_type(walk->provider, name, &type);

	if (error || type < 0)
		return error;
	must(walk->scan.count <= walk->room);
	if (walk->scan.count == NETWORK_INTERFACES_MAX)
		return -E2BIG;
	if (walk->scan.count == walk->room) {
		size_t room = walk->room ? walk->room * 2 : 8;
		struct network_interface *grown = realloc(walk->scan.interfaces, room * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		walk->scan.interfaces = grown;
		walk->room = room;
	}
	interface = &walk->scan.interfaces[walk->scan.count++];
	*interface = (struct network_interface){ .class = network_class_of(type) };
	must(strlen(name) < sizeof(interface->name)); /* read_type() finds no type for a longer name */
	memcpy(interface->name, name, strlen(name) + 1);
	interface->state = read_state(walk->provider, name);
	interface->virtual_device = is_virtual(walk->provider, name);
	interface->speed_mbps = read_number(walk->provider, name, "speed");
	interface->mtu_bytes = read_number(walk->provider, name, "mtu");
	node = read_number(walk->provider, name, "device/numa_node");
	interface->numa_node = node > INT32_MAX ? -1 : (int)node;
	read_text(walk->provider, name, "address", interface->mac, sizeof(interface->mac));
	return 0;
}

static bool is_link_local(const struct provider_address *address)
{
	must(address->family == AF_INET || address->family == AF_INET6);
	if (address->family == AF_INET)
		return (ntohl(address->v4.s_addr) & 0xffff0000) == 0xa9fe0000;
	return IN6_IS_ADDR_LINKLOCAL(&address->v6);
}

static int visit_address(void *ctx, const struct provider_address *from)
{
	struct network_scan *scan = ctx;

	for (size_t i = 0; i < scan->count; i++) {
		struct network_interface *interface = &scan->interfaces[i];
		struct network_address *address;

		if (strcmp(interface->name, from->interface) != 0)
			continue;
		if (interface->address_count++ >= NETWORK_ADDRESSES_MAX)
			break;
		address = &interface->addresses[interface->address_count - 1];
		*address = (struct network_address){ .family = from->family, .prefix_bits = from->prefix_bits };
		address->link_local = is_link_local(from);
		must(inet_ntop(from->family, &from->v6, address->text, sizeof(address->text)));
	}
	return 0;
}

static int compare_names(const void *a, const void *b)
{
	return strverscmp(((const struct network_interface *)a)->name, ((const struct network_interface *)b)->name);
}

static int scan_all(struct provider *provider, struct network_scan *scan_ret, struct fathom_fault *why)
{
	struct walk walk = { .provider = provider };
	int error = provider->calls->list(provider, "/sys/class/net", visit_interface, &walk);

	if (error) {
		network_scan_free(&walk.scan);
		return fault(why, error,
			     "the network interfaces of this host cannot be listed (/sys/class/net: %s); is sysfs mounted?",
			     strerror(-error));
	}
	error = provider->calls->addresses(provider, visit_address, &walk.scan);
	if (error) {
		network_scan_free(&walk.scan);
		return fault(why, error, "the addresses of this host's network interfaces cannot be read: %s",
			     strerror(-error));
	}
	if (walk.scan.count > 1)
		qsort(walk.scan.interfaces, walk.scan.count, sizeof(*walk.scan.interfaces), compare_names);
	must(walk.scan.count <= NETWORK_INTERFACES_MAX);
	*scan_ret = walk.scan;
	return 0;
}

int network_scan(struct provider *provider, struct network_scan *scan_ret, struct fathom_fault *why)
{
	uint64_t began = clock_ticks(), now;
	int error = scan_all(provider, scan_ret, why);

	now = clock_ticks();
	probe_network_scanned(now, error, error ? 0 : (uint32_t)scan_ret->count, now - began);
	return error;
}

void network_scan_free(struct network_scan *scan)
{
	free(scan->interfaces);
	*scan = (struct network_scan){ 0 };
}

const struct network_interface *network_find(const struct network_scan *scan, const char *name)
{
	for (size_t i = 0; i < scan->count; i++) {
		if (strcmp(scan->interfaces[i].name, name) == 0)
			return &scan->interfaces[i];
	}
	return NULL;
}

const struct network_address *network_first_address(const struct network_interface *interface)
{
	static const int families[] = { AF_INET, AF_INET6 };
	size_t kept = min_u64(interface->address_count, NETWORK_ADDRESSES_MAX);

	for (size_t f = 0; f < ARRAY_COUNT(families); f++) {
		for (size_t i = 0; i < kept; i++) {
			if (interface->addresses[i].family == families[f] && !interface->addresses[i].link_local)
				return &interface->addresses[i];
		}
	}
	return NULL;
}
