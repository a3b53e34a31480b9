/* SPDX-License-Identifier: BSD-2-Clause */
/* generate - writes a configuration for this host from scans of its devices and interfaces. Any thread; it blocks. */
#ifndef CONTROL_SERVER_CONFIG_GENERATE_H
#define CONTROL_SERVER_CONFIG_GENERATE_H

#include <stdio.h>

#include "control/server/config/configuration.h"
#include "control/storage/storage.h"

/*
 * Write a configuration for this host, which server_config_read() accepts: for each engine a free device or a folder in
 * `folder`, and an interface with an address.
 */
struct generate_options {
	const char *name;      /* of the system; NULL: fathom */
	const char *replica;   /* the management host; NULL, or localhost without a port: this host */
	const char *interface; /* NULL: the first with an address that other hosts can reach, else lo */
	const char *net_class; /* network_class_name() of the interface; NULL: any */
	const char *metadata;  /* control_metadata.path; NULL: none */
	const char *folder;    /* NULL: block devices */
	uint64_t folder_bytes; /* of data.img in each folder */
	uint64_t engines;      /* 0: one for each free device, or one */
	uint64_t port;
	const uint32_t *fabric_ports; /* one for each engine, in their order; NULL: from 4420 on */
	size_t fabric_port_count;
	bool with_loop, is_insecure;
	const struct storage_scan *devices; /* NULL: scan for them */
	const struct fathom_fault *unread;  /* why the helper could not read some devices; NULL: it was not asked */
};
/* Errors (explained): config_nothing_found, -EINVAL (more engines than `fabric_ports`), those of scans. Blocks. */
MUST_CHECK int server_config_generate(const struct generate_options *options, struct provider *os, FILE *out,
				      struct fathom_fault *why);

#endif
