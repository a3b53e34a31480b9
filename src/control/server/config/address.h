/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * address - resolves the configuration to numeric addresses: of the server, of the management service and of the engines;
 * also the engines' CPUs and the host's fault domain.
 *
 * Resolves host names and runs fault_cb: it blocks, so it is called before the reactor starts.
 */
#ifndef CONTROL_SERVER_ADDRESS_H
#define CONTROL_SERVER_ADDRESS_H

#include "control/network/network.h"
#include "control/server/config/configuration.h"
#include "control/system/member.h"
#include "rpc/grpc/grpc.h"

enum { SERVER_CPUS_BYTES = 4096 };

struct server_place {
	char address[NETWORK_ADDRESS_BYTES_MAX]; /* numeric, without brackets */
	char cpus[SERVER_CPUS_BYTES];		 /* as fathom-engine takes them; "": its default */
};

struct server_places {
	char control[GRPC_ADDRESS_BYTES_MAX]; /* "10.0.0.1:10001": it listens there, and other servers find it there */
	char replica[GRPC_ADDRESS_BYTES_MAX]; /* the address of the management service */
	bool is_replica;		      /* the management service is this server */
	uint32_t device_class;		      /* ARPHRD_... of the interface with the control address; 0: none has it */
	char domain[MEMBER_DOMAIN_BYTES];     /* "/rack0/node0" */
	struct server_place *engines;	      /* one for each engine of the configuration */
};

/* `file` is the name in faults. server_places_free() the result. Errors (explained): config_... and others; -ENOMEM. */
MUST_CHECK int server_places_find(const struct server_config *config, const char *file, struct provider *os,
				  struct server_places *places_ret, struct fathom_fault *why);
/* Accepts a zeroed one. */
void server_places_free(struct server_places *places);

/* The kernel's number for it: ARPHRD_ETHER ... */
uint32_t server_device_class(enum network_class class);

#endif
