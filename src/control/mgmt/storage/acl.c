/* SPDX-License-Identifier: BSD-2-Clause */
/* Access control lists of pools: read and change them. A change is stored before it is confirmed. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "control/fault/fault.h"
#include "control/mgmt/storage/storage.h"

static void reply_acl(struct grpc_call *call, const struct catalog_pool *pool)
{
	const struct acl *acl = pool->record.acl;
	Mgmt__AccessControlList list = MGMT__ACCESS_CONTROL_LIST__INIT;
	Mgmt__ACLResp response = MGMT__ACLRESP__INIT;
	char texts[ACL_ENTRIES_MAX][ACL_ENTRY_BYTES], *places[ACL_ENTRIES_MAX];

	must(acl->count <= ACL_ENTRIES_MAX);
	for (uint32_t i = 0; i < acl->count; i++)
		places[i] = (char *)acl_format_entry(&acl->entries[i], texts[i]);
	list.entries = places;
	list.n_entries = acl->count;
	list.owner_user = (char *)pool->record.owner;
	list.owner_group = (char *)pool->record.group;
	response.acl = &list;
	grpc_reply(call, &response.base);
}

/* The pool of a request that changes it. Errors: -ENOENT, -EBUSY (it is being destroyed). */
static int find_changeable(struct mgmt *mgmt, const char *id, struct catalog_pool **pool_ret, struct fathom_fault *why)
{
	int error = storage_find_pool(mgmt, id, pool_ret, why);

	if (!error && (*pool_ret)->state == MGMT_POOL_DESTROYING)
		error = storage_refuse_changing(*pool_ret, NULL, why);
	return error;
}

/* Store `acl`, which is taken, unless `error`; then answer the call. */
static void store_acl(struct mgmt *mgmt, struct grpc_call *call, struct catalog_pool *pool, struct acl *acl,
		      const char *operation)
{
	struct catalog_pool_record next = pool->record;
	char what[STORAGE_WHAT_BYTES], who[GRPC_WHO_BYTES];
	struct fathom_fault why = { 0 };
	int error;

	next.acl = acl;
	error = catalog_store_pool(mgmt->catalog, pool, &next, &why);
	if (error) {
		free(acl);
		mgmt_fail(call, error, &why);
		return;
	}
	mgmt_raise_operation(mgmt, RAS_POOL_ACCESS_CHANGED, operation, grpc_call_who(call, who),
			     "the access control list of %s was changed, it has %u entries", storage_what(pool, NULL, what),
			     acl->count);
	reply_acl(call, pool);
}

void mgmt_pool_get_acl(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Mgmt__GetACLReq *asked = (const Mgmt__GetACLReq *)request;
	struct mgmt *mgmt = mgmt_enter(call, asked->sys, true);
	struct fathom_fault why = { 0 };
	struct catalog_pool *pool;
	int error;

	if (!mgmt)
		return;
	error = storage_find_pool(mgmt, asked->id, &pool, &why);
	if (error)
		mgmt_fail(call, error, &why);
	else
		reply_acl(call, pool);
}

/* Make a list of the entries asked for: alone, or with those that the pool has (`keeps`). */
static void modify_acl(struct grpc_call *call, const Mgmt__ModifyACLReq *asked, bool keeps, const char *operation)
{
	struct mgmt *mgmt = mgmt_enter(call, asked->sys, true);
	const char *const *entries = (const char *const *)asked->entries;
	struct fathom_fault why = { 0 };
	struct catalog_pool *pool;
	struct acl *acl = NULL;
	int error;

	if (!mgmt)
		return;
	error = find_changeable(mgmt, asked->id, &pool, &why);
	if (!error && asked->n_entries == 0)
		error = fault_acl_bad(&why, "", "there is no entry");
	if (!error)
		error = keeps ? acl_update(pool->record.acl, entries, asked->n_entries, &acl, &why)
			      : acl_create(entries, asked->n_entries, &acl, &why);
	if (error)
		mgmt_fail(call, error, &why);
	else
		store_acl(mgmt, call, pool, acl, operation);
}

void mgmt_pool_overwrite_acl(struct grpc_call *call, const ProtobufCMessage *request)
{
	modify_acl(call, (const Mgmt__ModifyACLReq *)request, false, "pool overwrite-acl");
}

void mgmt_pool_update_acl(struct grpc_call *call, const ProtobufCMessage *request)
{
	modify_acl(call, (const Mgmt__ModifyACLReq *)request, true, "pool update-acl");
}

void mgmt_pool_delete_acl(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Mgmt__DeleteACLReq *asked = (const Mgmt__DeleteACLReq *)request;
	struct mgmt *mgmt = mgmt_enter(call, asked->sys, true);
	struct fathom_fault why = { 0 };
	struct catalog_pool *pool;
	struct acl *acl = NULL;
	int error;

	if (!mgmt)
		return;
	error = find_changeable(mgmt, asked->id, &pool, &why);
	if (!error)
		error = acl_remove(pool->record.acl, asked->principal, &acl, &why);
	if (error == -ENOENT && !why.error)
		error = fault_acl_no_entry(&why, pool->record.name, asked->principal);
	if (error)
		mgmt_fail(call, error, &why);
	else
		store_acl(mgmt, call, pool, acl, "pool delete-acl");
}
