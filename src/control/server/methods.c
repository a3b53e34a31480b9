/* SPDX-License-Identifier: BSD-2-Clause */
/* The tables of methods: what a host answers over gRPC and over dRPC. */
#include <string.h>

#include "control/mgmt/absent.h"
#include "control/server/database/database.h"
#include "control/server/doctor/doctor.h"
#include "control/server/engines/engines.h"
#include "control/server/events/events.h"
#include "control/server/internal.h"
#include "rpc/proto/fathom.pb-c.h"
#include "rpc/proto/security.pb-c.h"
#include "rpc/proto/shared.pb-c.h"
#include "rpc/proto/srv.pb-c.h"

/* host_methods, mgmt_methods, and absent methods. The gRPC server borrows the table. */
static struct grpc_method grpc_methods[160];

static void check_paths_unique(size_t count)
{
	must(count <= ARRAY_COUNT(grpc_methods));
	for (size_t i = 0; i < count; i++) {
		must(grpc_methods[i].fn);
		for (size_t k = 0; k < i; k++)
			must(strcmp(grpc_methods[i].path, grpc_methods[k].path) != 0);
	}
}

const struct grpc_method *server_grpc_methods(size_t *count_ret)
{
	size_t count = 0;

	must(host_method_count + mgmt_method_count + ABSENT_METHODS_MAX <= ARRAY_COUNT(grpc_methods));
	for (size_t i = 0; i < host_method_count; i++)
		grpc_methods[count++] = host_methods[i];
	for (size_t i = 0; i < mgmt_method_count; i++)
		grpc_methods[count++] = mgmt_methods[i];
	*count_ret = count + mgmt_absent_methods(grpc_methods + count);
	check_paths_unique(*count_ret);
	return grpc_methods;
}

static const struct drpc_method drpc_methods[] = {
	{ DRPC_MODULE_SRV, DRPC_SRV_NOTIFY_READY, "NOTIFY_READY", &srv__notify_ready_req__descriptor, call_notify_ready },
	{ DRPC_MODULE_SRV, DRPC_SRV_CLUSTER_EVENT, "CLUSTER_EVENT", &shared__cluster_event_req__descriptor,
	  call_cluster_event },
	{ DRPC_MODULE_SEC, DRPC_SEC_VALIDATE_CREDS, "VALIDATE_CREDS", &auth__validate_cred_req__descriptor,
	  call_validate_credentials },
	{ DRPC_MODULE_FATHOM, DRPC_FATHOM_BACKUP, "BACKUP", &fathom__backup_req__descriptor, call_backup },
	{ DRPC_MODULE_FATHOM, DRPC_FATHOM_STATS, "STATS", &fathom__stats_req__descriptor, call_stats },
	{ DRPC_MODULE_FATHOM, DRPC_FATHOM_CONDITION, "CONDITION", &fathom__condition_req__descriptor, call_condition },
};

const struct drpc_method *server_drpc_methods(size_t *count_ret)
{
	*count_ret = ARRAY_COUNT(drpc_methods);
	return drpc_methods;
}
