/* SPDX-License-Identifier: BSD-2-Clause */
/* daemon - fathom-probed, from its options to its end. */
#ifndef PROBED_REGISTER_DAEMON_H
#define PROBED_REGISTER_DAEMON_H

#include <stdbool.h>
#include <stdint.h>

#include "inspect/probed/client/protocol.h"
#include "inspect/probed/register/registry.h"

#define PROBED_NAME_DEFAULT "fathom-probed"
#define PROBED_DEVICE_DEFAULT "dtrace/helper"

enum probed_cuse { PROBED_CUSE_AUTO, PROBED_CUSE_OFF, PROBED_CUSE_ON };

struct probed_options {
	const char *socket_path;
	const char *name;	/* of the trace file */
	const char *trace_spec; /* as for -e */
	const char *version;
	const char *device_name; /* below /dev */
	enum probed_cuse cuse;
	uint32_t connections_max, connections_a_user; /* 0: the defaults */
	uint64_t silent_ns;
	struct registry_options registry;
};

/* Run until a signal ends it. Returns the exit status. Errors are logged. `options` is lent. */
int probed_run(const struct probed_options *options);

#endif
