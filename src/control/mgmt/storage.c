/* SPDX-License-Identifier: BSD-2-Clause */
/* The methods of pools and volumes. They check the request's system; the operations are not implemented yet. */
#include <errno.h>

#include "control/mgmt/internal.h"

static void refuse(struct grpc_call *call, const char *sys)
{
	struct mgmt *mgmt = mgmt_enter(call, sys, true);
	struct fathom_fault why = { 0 };

	if (mgmt)
		mgmt_fail(call, fault(&why, -EOPNOTSUPP, "this release has no pools of several engines yet"), &why);
}

void mgmt_pool_create(struct grpc_call *call, const ProtobufCMessage *request)
{
	refuse(call, ((const Mgmt__PoolCreateReq *)request)->sys);
}

void mgmt_pool_destroy(struct grpc_call *call, const ProtobufCMessage *request)
{
	refuse(call, ((const Mgmt__PoolDestroyReq *)request)->sys);
}

void mgmt_list_pools(struct grpc_call *call, const ProtobufCMessage *request)
{
	refuse(call, ((const Mgmt__ListPoolsReq *)request)->sys);
}

void mgmt_pool_query(struct grpc_call *call, const ProtobufCMessage *request)
{
	refuse(call, ((const Mgmt__PoolQueryReq *)request)->sys);
}

void mgmt_volume_create(struct grpc_call *call, const ProtobufCMessage *request)
{
	refuse(call, ((const Fathom__VolumeCreateReq *)request)->sys);
}

void mgmt_volume_list(struct grpc_call *call, const ProtobufCMessage *request)
{
	refuse(call, ((const Fathom__VolumeListReq *)request)->sys);
}

void mgmt_volume_resize(struct grpc_call *call, const ProtobufCMessage *request)
{
	refuse(call, ((const Fathom__VolumeResizeReq *)request)->sys);
}

void mgmt_volume_rename(struct grpc_call *call, const ProtobufCMessage *request)
{
	refuse(call, ((const Fathom__VolumeRenameReq *)request)->sys);
}

void mgmt_volume_destroy(struct grpc_call *call, const ProtobufCMessage *request)
{
	refuse(call, ((const Fathom__VolumeDestroyReq *)request)->sys);
}

void mgmt_volume_publish(struct grpc_call *call, const ProtobufCMessage *request)
{
	refuse(call, ((const Fathom__VolumePublishReq *)request)->sys);
}

void mgmt_volume_unpublish(struct grpc_call *call, const ProtobufCMessage *request)
{
	refuse(call, ((const Fathom__VolumeUnpublishReq *)request)->sys);
}

void mgmt_snapshot_create(struct grpc_call *call, const ProtobufCMessage *request)
{
	refuse(call, ((const Fathom__SnapshotCreateReq *)request)->sys);
}

void mgmt_snapshot_destroy(struct grpc_call *call, const ProtobufCMessage *request)
{
	refuse(call, ((const Fathom__SnapshotDestroyReq *)request)->sys);
}

void mgmt_snapshot_restore(struct grpc_call *call, const ProtobufCMessage *request)
{
	refuse(call, ((const Fathom__SnapshotRestoreReq *)request)->sys);
}
