/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * absent - methods that DAOS's dmg calls and this server does not implement, with one row per dmg command. The server
 * answers with the fault dmg_absent. docs/dmg.md has the same texts (`scripts/check-docs --write`).
 *
 * Several commands may share a method. A row with a FIELD matches requests that contain the field with that number. A row
 * without one (0) matches all other requests, and must follow the rows with a field.
 */
#ifndef CONTROL_MGMT_ABSENT_H
#define CONTROL_MGMT_ABSENT_H

#include <stddef.h>

#include "rpc/grpc/grpc.h"

#define ABSENT_POOL "this release has no pools", "look at the space of each engine with `fathom storage query usage`"
#define ABSENT_MOVE "this release has no pools whose data could be moved", "take ranks out with `fathom system exclude`"
#define ABSENT_LAMP "the kernel controls the lamps of drives", "use `ledctl` of the package ledmon on that host"
#define ABSENT_CHECK                                                                                                       \
	"there are no pools to check; superblocks, spools and the database are checked whenever they are read",            \
		"read `fathom server query -v` and `fathom system events`"

/* X(service, method, field, dmg command, reason, alternative) */
#define ABSENT_METHODS(X)                                                                                                  \
	X("ctl.CtlSvc", SmdManage, 1, "storage led", ABSENT_LAMP)                                                          \
	X("ctl.CtlSvc", SmdManage, 2, "storage replace nvme", "an engine has one device, which its configuration names",   \
	  "change `bdev_list`, restart the server, then `fathom storage format --instances N --force --replace`")          \
	X("ctl.CtlSvc", SmdManage, 0, "storage set nvme-faulty", "an engine has one device",                               \
	  "take its rank out with `fathom system exclude --ranks N`")                                                      \
	X("ctl.CtlSvc", StorageNvmeAddDevice, 0, "storage nvme-add-device", "an engine has one device",                    \
	  "add an engine with the device to the configuration, and restart the server")                                    \
	X("ctl.CtlSvc", StorageNvmeRebind, 0, "storage nvme-rebind", "the kernel's drivers keep the devices",              \
	  "name the device of the kernel as `bdev_list`")                                                                  \
	X("ctl.CtlSvc", CollectLog, 0, "support collect-log", "the servers keep no archives, they send them to who asks",  \
	  "run `fathom support collect-log`")                                                                              \
	X("mgmt.MgmtSvc", SystemCleanup, 0, "system cleanup", "this release has no pools whose handles could be freed",    \
	  "wait: connections of hosts that are gone time out")                                                             \
	X("mgmt.MgmtSvc", SystemDrain, 4, "system reintegrate", "this release has no pools whose data could be moved",     \
	  "bring a rank back with `fathom system clear-exclude`")                                                          \
	X("mgmt.MgmtSvc", SystemDrain, 0, "system drain", ABSENT_MOVE)                                                     \
	X("mgmt.MgmtSvc", SystemRebuildManage, 0, "system rebuild", ABSENT_MOVE)                                           \
	X("mgmt.MgmtSvc", SystemSelfHealEval, 0, "system self-heal eval", ABSENT_MOVE)                                     \
	X("mgmt.MgmtSvc", SystemCheckEnable, 0, "check enable", ABSENT_CHECK)                                              \
	X("mgmt.MgmtSvc", SystemCheckDisable, 0, "check disable", ABSENT_CHECK)                                            \
	X("mgmt.MgmtSvc", SystemCheckStart, 0, "check start", ABSENT_CHECK)                                                \
	X("mgmt.MgmtSvc", SystemCheckStop, 0, "check stop", ABSENT_CHECK)                                                  \
	X("mgmt.MgmtSvc", SystemCheckQuery, 0, "check query", ABSENT_CHECK)                                                \
	X("mgmt.MgmtSvc", SystemCheckSetPolicy, 0, "check set-policy", ABSENT_CHECK)                                       \
	X("mgmt.MgmtSvc", SystemCheckGetPolicy, 0, "check get-policy", ABSENT_CHECK)                                       \
	X("mgmt.MgmtSvc", SystemCheckRepair, 0, "check repair", ABSENT_CHECK)                                              \
	X("mgmt.MgmtSvc", ContSetOwner, 0, "container set-owner", "there are no containers", "nothing has to be done")     \
	X("mgmt.MgmtSvc", ListPools, 0, "pool list", ABSENT_POOL)                                                          \
	X("mgmt.MgmtSvc", PoolCreate, 0, "pool create", ABSENT_POOL)                                                       \
	X("mgmt.MgmtSvc", PoolDestroy, 0, "pool destroy", ABSENT_POOL)                                                     \
	X("mgmt.MgmtSvc", PoolEvict, 0, "pool evict", ABSENT_POOL)                                                         \
	X("mgmt.MgmtSvc", PoolExclude, 0, "pool exclude", ABSENT_MOVE)                                                     \
	X("mgmt.MgmtSvc", PoolDrain, 0, "pool drain", ABSENT_MOVE)                                                         \
	X("mgmt.MgmtSvc", PoolExtend, 0, "pool extend", ABSENT_POOL)                                                       \
	X("mgmt.MgmtSvc", PoolReintegrate, 0, "pool reintegrate", ABSENT_MOVE)                                             \
	X("mgmt.MgmtSvc", PoolQuery, 0, "pool query", ABSENT_POOL)                                                         \
	X("mgmt.MgmtSvc", PoolQueryTarget, 0, "pool query-targets", ABSENT_POOL)                                           \
	X("mgmt.MgmtSvc", PoolSetProp, 0, "pool set-prop", ABSENT_POOL)                                                    \
	X("mgmt.MgmtSvc", PoolGetProp, 0, "pool get-prop", ABSENT_POOL)                                                    \
	X("mgmt.MgmtSvc", PoolGetACL, 0, "pool get-acl", ABSENT_POOL)                                                      \
	X("mgmt.MgmtSvc", PoolOverwriteACL, 0, "pool overwrite-acl", ABSENT_POOL)                                          \
	X("mgmt.MgmtSvc", PoolUpdateACL, 0, "pool update-acl", ABSENT_POOL)                                                \
	X("mgmt.MgmtSvc", PoolDeleteACL, 0, "pool delete-acl", ABSENT_POOL)                                                \
	X("mgmt.MgmtSvc", PoolUpgrade, 0, "pool upgrade", ABSENT_POOL)                                                     \
	X("mgmt.MgmtSvc", PoolRebuildStart, 0, "pool rebuild start", ABSENT_MOVE)                                          \
	X("mgmt.MgmtSvc", PoolRebuildStop, 0, "pool rebuild stop", ABSENT_MOVE)

enum { ABSENT_METHODS_MAX = 64 };

/*
 * Fill `methods`, of at least ABSENT_METHODS_MAX, with one method per path. Returns their number. All pointers in them are
 * static. Their calls are answered immediately, and the ctx is not used.
 */
size_t mgmt_absent_methods(struct grpc_method *methods);

#endif
