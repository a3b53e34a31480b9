/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * engine - the program fathom-engine: binds reactors, block devices, the target, the trace and JSON-RPC.
 *
 *   trace file -> reactors -> [control thread:] RPC socket -> target NONE ... RUNNING -> configuration -> ready
 *   SIGTERM or SIGINT -> close RPC socket -> target ... STOPPED -> remove block devices -> reactors -> trace file
 *
 * With `wait_for_rpc` startup waits before the target for framework_start_init. A failure during startup stops the program
 * in the same order. A second signal exits at once.
 */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cpuset.h"
#include "base/fault.h"
#include "base/log.h"

#define ENGINE_SOCKET_DEFAULT "/var/tmp/fathom.sock"
#define ENGINE_NAME_DEFAULT "fathom"
#define ENGINE_HISTORY_SECONDS_DEFAULT 60

#define ENGINE_PROVIDER_DEFAULT "nvme+tcp"

/* Of an engine under a server. Strings live as long as the process. */
struct engine_server_options {
	const char *socket_dir;	    /* folder of both sockets; NULL: no server, the other fields are ignored */
	uint32_t instance;	    /* of this host */
	const char *uuid;	    /* "": none */
	const char *address;	    /* of --listen: numbers, no brackets */
	uint16_t port;		    /* 0: any */
	const char *provider;	    /* the scheme of the URI */
	uint64_t incarnation_above; /* the previous process's incarnation; 0: none */
};

/* Of --metrics. */
struct engine_metrics_options {
	const char *address; /* in numbers, no brackets; NULL: no metrics by HTTP */
	uint16_t port;	     /* 0: any */
};

struct engine_options {
	struct cpuset cpus; /* a data reactor each */
	const char *socket_path;
	const char *config_path; /* NULL: none */
	const char *state_path;	 /* of --state, which the engine writes; NULL: none */
	const char *storage;	 /* folder of pools and volumes; NULL: none */
	const char *trace_spec;	 /* in the syntax of -e */
	const char *name;	 /* of the trace file */
	const char *version;
	struct engine_server_options server;
	struct engine_metrics_options metrics;
	enum log_level log_level; /* of -L */
	uint32_t trace_entries;	  /* a power of two; 0: no trace file */
	uint32_t history_seconds; /* between two notes of history.c; 0: none */
	uint32_t paranoid_blocks; /* whose checksums are kept for each file; 0: none */
	bool wait_for_rpc;
	bool test_methods; /* allow methods that hang or crash the engine, for tests: reactor_hold, engine_crash */
};

/* Run until a signal. Returns the exit status, 0 or 1; errors are logged. At most once per process. */
int engine_run(const struct engine_options *options);

#endif
