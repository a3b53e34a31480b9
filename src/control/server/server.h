/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server - fathom-server: runs the engines of a host, serves its part of the control plane and, on the management host,
 * the management service of the system.
 *
 *   configuration, places -> server_run(): trace, reactor -> sockets, database, engines -> READY -> LEAVING
 *
 * Everything runs on the control reactor's light thread; blocking work (scans, copies, collections) has worker threads. The
 * engines survive the server: after it ends, or is killed, they keep serving, and the next server adopts them.
 */
#ifndef CONTROL_SERVER_SERVER_H
#define CONTROL_SERVER_SERVER_H

#include "control/server/config/address.h"
#include "control/server/config/configuration.h"

#define SERVER_NAME_DEFAULT "fathom-server"

/* All borrowed. */
struct server_options {
	const char *config_path;
	const struct server_config *config;
	const struct server_places *places;
	const char *name;	/* of the trace file */
	const char *trace_spec; /* what to trace: "all" */
	const char *version;	/* "0.1.0" */
	const char *programs;	/* the default folder of the helper and of fathom-engine */
	uint64_t began_ns;	/* CLOCK_MONOTONIC, when the process began */
	bool is_new_system;	/* start with an empty database even if engines here have ranks */
};

/* Run until a signal ends it; returns the exit status. Call once in a process, before it has threads. Logs. */
MUST_CHECK int server_run(const struct server_options *options);

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

/*
 * Load the certificates of a configuration if they are valid now; grpc_tls_destroy() them. Errors (explained):
 * certificate_..., key_exposed.
 */
MUST_CHECK int server_certificates_open(const struct server_transport *transport, struct grpc_tls **tls_ret,
					struct fathom_fault *why);

/*
 * Ask the server of this host to stop its engines (`is_forced`: to kill them), and write the result of each to `out`. Runs
 * a reactor; call once in a process. Errors (explained): of the call; -EIO: at least one engine could not be stopped.
 */
MUST_CHECK int server_halt_engines(const struct server_config *config, const struct server_places *places,
				   const char *version, bool is_forced, FILE *out, struct fathom_fault *why);

/*
 * Ask the server of this host, which has the database open, to copy it to the absolute path `path`. Runs a reactor; call
 * once in a process. Errors (explained): no server listens, no database is here, those of db_backup().
 */
MUST_CHECK int server_backup(const struct server_config *config, const char *path, uint64_t *revision_ret,
			     struct fathom_fault *why);

#endif
