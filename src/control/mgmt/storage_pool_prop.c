/* SPDX-License-Identifier: BSD-2-Clause */
/* Properties of pools: the label. dmg also requests others, which are left out of the answer, as in DAOS. */
#include "control/mgmt/storage.h"

enum { LABEL_PROPERTY = 1 };

void mgmt_pool_get_prop(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Mgmt__PoolGetPropReq *asked = (const Mgmt__PoolGetPropReq *)request;
	struct mgmt *mgmt = mgmt_enter(call, asked->sys, true);
	Mgmt__PoolGetPropResp response = MGMT__POOL_GET_PROP_RESP__INIT;
	Mgmt__PoolProperty label = MGMT__POOL_PROPERTY__INIT, *properties[] = { &label };
	struct fathom_fault why = { 0 };
	struct catalog_pool *pool;
	int error;

	if (!mgmt)
		return;
	error = storage_find_pool(mgmt, asked->id, &pool, &why);
	if (error) {
		mgmt_fail(call, error, &why);
		return;
	}
	label.number = LABEL_PROPERTY;
	label.value_case = MGMT__POOL_PROPERTY__VALUE_STRVAL;
	label.strval = pool->record.name;
	response.properties = properties;
	for (size_t i = 0; i < asked->n_properties; i++) {
		if (asked->properties[i]->number == LABEL_PROPERTY)
			response.n_properties = 1;
	}
	grpc_reply(call, &response.base);
}
