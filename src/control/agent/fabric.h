/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fabric - chooses the network interface for a client process: one of its NUMA node, of the class that the servers
 * have, in turn; without one there, one of the other nodes, in turn.
 */
#ifndef CONTROL_AGENT_FABRIC_H
#define CONTROL_AGENT_FABRIC_H

#include <stdbool.h>
#include <stdint.h>

#include "control/agent/config/config.h"
#include "control/network/network.h"

enum { FABRIC_INTERFACES_MAX = 64, FABRIC_NAME_BYTES = 64 };

struct fabric_interface {
	char name[FABRIC_NAME_BYTES], domain[FABRIC_NAME_BYTES];
	int numa_node;		  /* -1: unknown */
	enum network_class class; /* NETWORK_CLASSES: any, because the configuration names it */
	uint32_t uses;		  /* how often it was chosen */
};

struct fabric {
	struct fabric_interface interfaces[FABRIC_INTERFACES_MAX];
	size_t count;
};

/* Take the interfaces of the configuration, or those of the scan that it allows, are up and have an address. */
void fabric_fill(struct fabric *fabric, const struct agent_config *config, const struct network_scan *scan);
/*
 * Choose for a process on `numa_node` (-1: unknown). `class`: of the servers, NETWORK_CLASSES: any. NULL: none fits. Valid
 * until the next fabric_fill().
 */
const struct fabric_interface *fabric_choose(struct fabric *fabric, int numa_node, enum network_class class);
/* The NUMA node on which the process ran last, -1: unknown. */
int fabric_node_of(struct provider *provider, int32_t pid);

#endif
