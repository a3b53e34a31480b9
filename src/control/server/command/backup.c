/* SPDX-License-Identifier: BSD-2-Clause */
/* `fathom-server backup` while the server runs: the server has the database open, so it makes the copy. */
#include <stdio.h>

#include "base/clock.h"
#include "control/fault/fault.h"
#include "control/server/command/internal.h"
#include "rpc/proto/fathom.pb-c.h"

enum { BACKUP_SECONDS = 300 };

static int take_revision(void *ctx, const ProtobufCMessage *response, struct fathom_fault *why)
{
	const Fathom__BackupResp *answer = (const Fathom__BackupResp *)response;

	if (!answer->status) {
		*(uint64_t *)ctx = answer->revision;
		return 0;
	}
	fill_fault(why, answer->status < 0 ? answer->status : -EPROTO, "%s", answer->text); /* returned below */
	why->code = (int)answer->code;
	snprintf(why->resolution, sizeof(why->resolution), "%s", answer->resolution);
	return why->error;
}

int server_backup(const struct server_config *config, const char *path, uint64_t *revision_ret, struct fathom_fault *why)
{
	Fathom__BackupReq message = FATHOM__BACKUP_REQ__INIT;
	const struct drpc_request request = {
		.module = DRPC_MODULE_FATHOM,
		.method = DRPC_FATHOM_BACKUP,
		.message = &message.base,
		.response = &fathom__backup_resp__descriptor,
		.timeout_ns = BACKUP_SECONDS * NS_PER_SEC,
	};

	must(path[0] == '/'); /* the server resolves no relative path */
	message.path = (char *)path;
	return command_call(config, &request, take_revision, revision_ret, why);
}
