/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * network - the network interfaces of this host: class, state, speed, NUMA node, addresses.
 *
 * A value that sysfs does not have is -1 or empty, and the scan continues. An interface that vanishes meanwhile is skipped.
 */
#ifndef CONTROL_NETWORK_NETWORK_H
#define CONTROL_NETWORK_NETWORK_H

#include "base/fault.h"
#include "control/provider/provider.h"

enum {
	NETWORK_NAME_BYTES_MAX = 64,
	NETWORK_INTERFACES_MAX = 4096,
	NETWORK_ADDRESSES_MAX = 32,	/* of an interface; further addresses are only counted */
	NETWORK_ADDRESS_BYTES_MAX = 64, /* "fd00::2", with the NUL */
};

enum network_class {
	NETWORK_CLASS_ETHERNET,
	NETWORK_CLASS_INFINIBAND,
	NETWORK_CLASS_LOOPBACK,
	NETWORK_CLASS_OTHER,
	NETWORK_CLASSES
};

enum network_state {
	NETWORK_STATE_UP,
	NETWORK_STATE_DOWN,
	NETWORK_STATE_UNKNOWN, /* the driver does not report it: loopback, tunnels */
	NETWORK_STATES
};

struct network_address {
	int family; /* AF_INET, AF_INET6 */
	char text[NETWORK_ADDRESS_BYTES_MAX];
	unsigned int prefix_bits;
	bool link_local; /* valid on this link only, so it must not be published */
};

struct network_interface {
	char name[NETWORK_NAME_BYTES_MAX];
	enum network_class class;
	enum network_state state;
	bool virtual_device;	/* without hardware: bridges, tunnels, loopback */
	int64_t speed_mbps;	/* -1: not known */
	int64_t mtu_bytes;	/* -1: not known */
	int numa_node;		/* -1: not known */
	char mac[32];		/* "02:fc:00:00:00:01"; longer ones of InfiniBand are cut */
	uint32_t address_count; /* may exceed NETWORK_ADDRESSES_MAX */
	struct network_address addresses[NETWORK_ADDRESSES_MAX];
};

struct network_scan {
	struct network_interface *interfaces; /* in the order of strverscmp() of their names */
	size_t count;
};

/*
 * network_scan_free() the result. Errors (explained): -ENOENT: no sysfs; -E2BIG, -ENOMEM, -EMFILE, -EIO; of reading the
 * addresses. Any thread.
 */
MUST_CHECK int network_scan(struct provider *provider, struct network_scan *scan_ret, struct fathom_fault *why);
/* Accepts a zeroed one. */
void network_scan_free(struct network_scan *scan);

const struct network_interface *network_find(const struct network_scan *scan, const char *name);

const char *network_class_name(enum network_class class); /* "ethernet" ... */
const char *network_state_name(enum network_state state); /* "up" ... */

/* By the number in the interface's `type` file (ARPHRD_ETHER and so on). */
enum network_class network_class_of(int64_t type);

/* The first address that is not link-local, IPv4 before IPv6; NULL: none. May be a loopback address. */
const struct network_address *network_first_address(const struct network_interface *interface);

#endif
