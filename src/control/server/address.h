/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * address - where the server listens, where others find it, where the management service is, where engines serve, and the
 * host's fault domain: what the configuration says, made of numbers.
 *
 * Asks for names and runs fault_cb: it blocks, and is called before the reactor is there.
 */
#ifndef CONTROL_SERVER_ADDRESS_H
#define CONTROL_SERVER_ADDRESS_H

#include "control/network/network.h"
#include "control/server/configuration.h"
#include "control/system/member.h"
#include "rpc/grpc/grpc.h"

enum { SERVER_CPUS_BYTES = 4096 };

struct server_place {
	char address[NETWORK_ADDRESS_BYTES_MAX]; /* numbers, without brackets */
	char cpus[SERVER_CPUS_BYTES];		 /* as fathom-engine takes them; "" its default */
};

struct server_places {
	char control[GRPC_ADDRESS_BYTES_MAX]; /* "10.0.0.1:10001": where it listens, and what it says of itself */
	char replica[GRPC_ADDRESS_BYTES_MAX]; /* where the management service is */
	bool is_replica;		      /* that is here */
	uint32_t device_class;		      /* ARPHRD_... of the interface that has the control address; 0: none has */
	char domain[MEMBER_DOMAIN_BYTES];     /* "/rack0/node0" */
	struct server_place *engines;	      /* one each of the configuration's */
};

/* `file` is named in faults. server_places_free() them. Errors (explained): config_... and others; -ENOMEM. */
MUST_CHECK int server_places_find(const struct server_config *config, const char *file, struct provider *os,
				  struct server_places *places_ret, struct fault *why);
/* Accepts a zeroed one. */
void server_places_free(struct server_places *places);

/* The kernel's number for it: ARPHRD_ETHER ... */
uint32_t server_device_class(enum network_class class);

#endif
