/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * absent - methods that DAOS's dmg calls and this server does not implement: src/control/operation/absent.def has a row for
 * each command of dmg. The server answers with the fault dmg_absent.
 */
#ifndef CONTROL_MGMT_ABSENT_H
#define CONTROL_MGMT_ABSENT_H

#include <stddef.h>
#include <stdint.h>

#include "rpc/grpc/grpc.h"

enum { ABSENT_METHODS_MAX = 64 };

/*
 * Fill `methods`, of at least ABSENT_METHODS_MAX, with one method per path. Returns their number. All pointers in them are
 * static. Their calls are answered immediately, and the ctx is not used.
 */
size_t mgmt_absent_methods(struct grpc_method *methods);

/*
 * Answer a call of a method that the server has, but not for requests with this field: with the fault of the row for `path`
 * and `field`, which must exist.
 */
void mgmt_refuse_absent(struct grpc_call *call, const char *path, uint32_t field);

#endif
