/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * engine - the program fathom-engine: binds reactors, block devices, the target, the trace and JSON-RPC.
 *
 *   trace file -> reactors -> [control thread:] RPC socket -> target NONE ... RUNNING -> configuration -> ready
 *   SIGTERM or SIGINT -> RPC socket away -> target ... STOPPED -> block devices away -> reactors -> trace file
 *
 * With `wait_for_rpc` the way stops before the target until framework_start_init. What fails on the way up ends the program
 * the same orderly way. A second signal ends it at once.
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

#define ENGINE_PROVIDER_DEFAULT "nvme+tcp"

/* Of an engine under a server. Texts live as long as the process. */
struct engine_server_options {
	const char *socket_dir; /* where both have their sockets; NULL: there is no server, and the rest does not matter */
	uint32_t instance;	/* of this host */
	const char *uuid;	/* "" if it has none */
	const char *address;	/* of --listen: numbers, no brackets */
	uint16_t port;		/* 0: any */
	const char *storage;	/* NULL: none */
	const char *provider;	/* the scheme of the URI */
	uint64_t incarnation_above; /* that of the process before it; 0: none */
};

struct engine_options {
	struct cpuset cpus; /* a data reactor each */
	const char *socket_path;
	const char *config_path; /* NULL: none */
	const char *trace_spec;	 /* as -e takes it */
	const char *name;	 /* of the trace file */
	const char *version;
	struct engine_server_options server;
	enum log_level log_level; /* what -L said */
	uint32_t trace_entries;	  /* a power of two; 0: no trace file */
	bool wait_for_rpc;
	bool test_methods; /* those that do harm on purpose, for tests: reactor_hold */
};

/* Run until a signal ends it: the exit status, 0 or 1. Errors have been logged. Once in a process. */
int engine_run(const struct engine_options *options);

#endif
