/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a configuration of SPDK's target contains for parts of SPDK that Fathom does not have: socket layer, buffer pools,
 * accelerators, RAID and NVMe drivers. src/rpc/methods/methods.def lists these methods with the word "ignored". Their
 * parameters are checked by name and type and then ignored. A value that requests behaviour (TLS on every socket,
 * passthrough of commands) is rejected: accepting it would promise a feature that does not exist.
 */
#include <string.h>

#include "base/bits.h"
#include "base/log.h"
#include "data/engine/internal.h"

/* SPDK's subsystems that Fathom lacks. Their part of a configuration has no calls, or only calls of ignored methods. */
static const char *const foreign_subsystems[] = { "scheduler", "sock",	    "iobuf",	  "keyring", "vmd",  "accel", "nbd",
						  "ublk",      "vhost_blk", "vhost_scsi", "iscsi",   "scsi", "fsdev" };

bool ignores_subsystem(const char *name)
{
	for (size_t i = 0; i < ARRAY_COUNT(foreign_subsystems); i++) {
		if (strcmp(foreign_subsystems[i], name) == 0)
			return true;
	}
	return false;
}

void accept_ignored_method(struct rpc_request *request, const json_t *params, const struct rpc_param *fields, bool *logged)
{
	struct fathom_fault why;

	if (rpc_params_read(params, fields, NULL, &why)) {
		rpc_error(request, RPC_CODE_INVALID_PARAMETERS, "Invalid parameters: %s", why.text);
		return;
	}
	if (!*logged)
		log_notice("%s: accepted; it has no meaning here", rpc_request_method(request));
	*logged = true;
	rpc_reply(request, NULL);
}
