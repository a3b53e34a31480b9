/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * BACKUP: `fathom-server backup` asks the running server for a copy, through the dRPC socket to which only the server's
 * user and root can connect. The server writes the file, in steps between its other work.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "control/fault/fault.h"
#include "control/server/database/internal.h"
#include "rpc/drpc/drpc.h"
#include "rpc/proto/fathom.pb-c.h"

struct backup {
	struct database_copy copy;
	struct drpc_call *call;
	const char *path; /* the request's */
};

static void reply_backup(struct drpc_call *call, const struct fathom_fault *why, uint64_t revision)
{
	Fathom__BackupResp answer = FATHOM__BACKUP_RESP__INIT;

	answer.status = why->error;
	answer.revision = revision;
	answer.code = (uint32_t)why->code;
	answer.text = (char *)why->text; /* borrowed */
	answer.resolution = (char *)why->resolution;
	drpc_reply(call, &answer.base);
}

static void on_backup_ended(struct database_copy *copy)
{
	struct backup *backup = container_of(copy, struct backup, copy);

	must(backup->call);
	must((copy->error == 0) == (copy->why.error == 0));
	if (!copy->error)
		log_notice("%s has a copy of the database, up to revision %llu", backup->path,
			   (unsigned long long)copy->revision);
	reply_backup(backup->call, &copy->why, copy->revision);
	free(backup);
}

static int begin_backup(struct server *server, struct drpc_call *call, const char *path, struct fathom_fault *why)
{
	struct backup *backup;
	int error;

	if (!server->database)
		return fault(why, -ENODATA, "this server has no database; the system's is at %s", server->places->replica);
	if (path[0] != '/')
		return fault(why, -EINVAL, "\"%s\" is not an absolute path", path);
	backup = calloc(1, sizeof(*backup));
	if (!backup)
		return fault_db_no_memory(why, path);
	backup->copy.ended = on_backup_ended;
	backup->call = call;
	backup->path = path;
	error = copy_begin(server->database, &backup->copy, path);
	if (error) {
		must(backup->copy.why.error < 0);
		*why = backup->copy.why;
		free(backup);
	}
	return error;
}

void call_backup(struct drpc_call *call, const ProtobufCMessage *message)
{
	const Fathom__BackupReq *request = (const Fathom__BackupReq *)message;
	struct fathom_fault why = { 0 };

	if (begin_backup(drpc_call_ctx(call), call, request->path, &why) != 0)
		reply_backup(call, &why, 0);
}
