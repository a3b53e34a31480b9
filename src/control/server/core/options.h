/* SPDX-License-Identifier: BSD-2-Clause */
/* options - how this process of fathom-server was started. */
#ifndef CONTROL_SERVER_CORE_OPTIONS_H
#define CONTROL_SERVER_CORE_OPTIONS_H

#include "control/server/config/address.h"
#include "control/server/config/configuration.h"

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

#endif
