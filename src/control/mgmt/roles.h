/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * roles - which roles may call which method: one row for every method of a server. The method tables take their roles from
 * here. A server does not start if a method is missing here or in the tables. docs/control-plane.md contains this table
 * (`scripts/check-docs --write`).
 */
#ifndef CONTROL_MGMT_ROLES_H
#define CONTROL_MGMT_ROLES_H

#include "rpc/grpc/grpc.h"

/* X(service, method, roles) */
#define CONTROL_METHODS(X)                                                                                                 \
	X("ctl.CtlSvc", NetworkScan, GRPC_ROLE_ADMIN)                                                                      \
	X("ctl.CtlSvc", StorageScan, GRPC_ROLE_ADMIN)                                                                      \
	X("ctl.CtlSvc", SmdQuery, GRPC_ROLE_ADMIN)                                                                         \
	X("ctl.CtlSvc", StorageFormat, GRPC_ROLE_ADMIN)                                                                    \
	X("ctl.CtlSvc", SetEngineLogMasks, GRPC_ROLE_ADMIN)                                                                \
	X("ctl.CtlSvc", StartRanks, GRPC_ROLE_ADMIN | GRPC_ROLE_SERVER)                                                    \
	X("ctl.CtlSvc", PrepShutdownRanks, GRPC_ROLE_ADMIN | GRPC_ROLE_SERVER)                                             \
	X("ctl.CtlSvc", StopRanks, GRPC_ROLE_ADMIN | GRPC_ROLE_SERVER)                                                     \
	X("ctl.CtlSvc", ResetFormatRanks, GRPC_ROLE_ADMIN | GRPC_ROLE_SERVER)                                              \
	X("fathom.ControlSvc", GroupUpdate, GRPC_ROLE_SERVER)                                                              \
	X("fathom.ControlSvc", EngineQuery, GRPC_ROLE_ADMIN)                                                               \
	X("fathom.ControlSvc", EngineSetRestart, GRPC_ROLE_ADMIN)                                                          \
	X("fathom.ControlSvc", ConfigGenerate, GRPC_ROLE_ADMIN)                                                            \
	X("fathom.ControlSvc", HostDevices, GRPC_ROLE_ADMIN)                                                               \
	X("fathom.ControlSvc", CollectLog, GRPC_ROLE_ADMIN)                                                                \
	X("fathom.ControlSvc", TakeEvents, GRPC_ROLE_SERVER)                                                               \
	X("fathom.ControlSvc", ReportEngines, GRPC_ROLE_SERVER)                                                            \
	X("fathom.ControlSvc", SystemEvents, GRPC_ROLE_ADMIN)                                                              \
	X("mgmt.MgmtSvc", Join, GRPC_ROLE_SERVER)                                                                          \
	X("mgmt.MgmtSvc", ClusterEvent, GRPC_ROLE_SERVER)                                                                  \
	X("mgmt.MgmtSvc", LeaderQuery, GRPC_ROLE_ADMIN)                                                                    \
	X("mgmt.MgmtSvc", GetAttachInfo, GRPC_ROLE_ADMIN | GRPC_ROLE_AGENT)                                                \
	X("mgmt.MgmtSvc", SystemQuery, GRPC_ROLE_ADMIN)                                                                    \
	X("mgmt.MgmtSvc", SystemStart, GRPC_ROLE_ADMIN)                                                                    \
	X("mgmt.MgmtSvc", SystemStop, GRPC_ROLE_ADMIN)                                                                     \
	X("mgmt.MgmtSvc", SystemExclude, GRPC_ROLE_ADMIN)                                                                  \
	X("mgmt.MgmtSvc", SystemErase, GRPC_ROLE_ADMIN)                                                                    \
	X("mgmt.MgmtSvc", SystemSetAttr, GRPC_ROLE_ADMIN)                                                                  \
	X("mgmt.MgmtSvc", SystemGetAttr, GRPC_ROLE_ADMIN)                                                                  \
	X("mgmt.MgmtSvc", SystemSetProp, GRPC_ROLE_ADMIN)                                                                  \
	X("mgmt.MgmtSvc", SystemGetProp, GRPC_ROLE_ADMIN | GRPC_ROLE_SERVER)

/* ROLES_Join ... */
#define CONTROL_ROLES(service, name, roles) ROLES_##name = (roles),
enum { CONTROL_METHODS(CONTROL_ROLES) };

#define CONTROL_ONE(service, name, roles) +1
enum { CONTROL_METHOD_COUNT = 0 CONTROL_METHODS(CONTROL_ONE) };

#endif
