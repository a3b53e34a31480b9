/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * database - the system's database on the management host: opened with the management service, copied daily and on request.
 *
 * Only this server has the file open; `fathom-server backup` asks it for a copy. All functions on the control thread. They
 * accept a server whose management service is elsewhere.
 */
#ifndef CONTROL_SERVER_DATABASE_DATABASE_H
#define CONTROL_SERVER_DATABASE_DATABASE_H

#include "control/db/db.h"
#include "control/server/core/core.h"
#include "rpc/drpc/drpc.h"

/* Open the database and the management service, if this is the management host. Errors (explained). */
MUST_CHECK int database_open(struct server *server, struct fathom_fault *why);
/* End all copies with -ECANCELED, and make the last daily copy, blocking. Their worker threads must have ended. */
void database_finish_copies(struct server *server);
/* Close it. The management service must be closed. */
void database_close(struct server *server);

/* For diagnosis. */
struct database_info {
	char path[SERVER_PATH_BYTES];
	uint64_t revision, copied_revision; /* of the last change; of the last daily copy since the start, 0: none */
	struct db_health health;
};
/* False: the database is on another host. */
MUST_CHECK bool database_get_info(const struct server *server, struct database_info *info_ret);

/* The dRPC method BACKUP: copy the database to a path. */
void call_backup(struct drpc_call *call, const ProtobufCMessage *request);

#endif
