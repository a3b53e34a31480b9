/* SPDX-License-Identifier: BSD-2-Clause */
/* storage_calls - requests about pools and volumes, for tests with fixture.h. */
#ifndef TEST_UNIT_CONTROL_MGMT_STORAGE_CALLS_H
#define TEST_UNIT_CONTROL_MGMT_STORAGE_CALLS_H

#include "fixture.h"

#define GIB (1ull << 30)
#define HOST "nqn.2014-08.org.nvmexpress:uuid:host-1"
#define NO_UUID "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-000000000000"

#define FATHOM_ASK(method, request, stem)                                                                                  \
	ask(fixture.admin, "/fathom.ControlSvc/" method, &(request).base, &fathom__##stem##_resp__descriptor)

/* A request to create a pool, with its texts. */
struct pool_request {
	Mgmt__PoolCreateReq message;
	Mgmt__PoolProperty label, *properties[1];
	uint64_t tiers[1];
};

static inline void fill_pool(struct pool_request *request, const char *label, const char *uuid)
{
	mgmt__pool_create_req__init(&request->message);
	mgmt__pool_property__init(&request->label);
	request->label.number = 1;
	request->label.value_case = MGMT__POOL_PROPERTY__VALUE_STRVAL;
	request->label.strval = (char *)label;
	request->properties[0] = &request->label;
	request->message.properties = request->properties;
	request->message.n_properties = 1;
	request->message.uuid = (char *)uuid;
	request->message.user = (char *)"bob@";
}

static inline struct question *ask_pool(struct pool_request *request)
{
	return ADMIN_ASK("PoolCreate", request->message, pool_create);
}

/* A pool on all ranks. */
static inline struct question *create_pool(const char *label)
{
	struct pool_request request;

	fill_pool(&request, label, "");
	return ask_pool(&request);
}

static inline struct question *destroy_pool(const char *id, bool is_forced, bool is_recursive)
{
	Mgmt__PoolDestroyReq request = MGMT__POOL_DESTROY_REQ__INIT;

	request.id = (char *)id;
	request.force = is_forced;
	request.recursive = is_recursive;
	return ADMIN_ASK("PoolDestroy", request, pool_destroy);
}

static inline const Mgmt__PoolQueryResp *query_pool(const char *id)
{
	Mgmt__PoolQueryReq request = MGMT__POOL_QUERY_REQ__INIT;

	request.id = (char *)id;
	return answer_of(ADMIN_ASK("PoolQuery", request, pool_query));
}

/* `ranks` "1,3" */
static inline struct question *extend_pool(const char *id, const char *ranks)
{
	Mgmt__PoolExtendReq request = MGMT__POOL_EXTEND_REQ__INIT;

	request.id = (char *)id;
	request.rank_set = (char *)ranks;
	return ADMIN_ASK("PoolExtend", request, pool_extend);
}

static inline struct question *exclude_ranks(const char *id, const char *ranks)
{
	Mgmt__PoolExcludeReq request = MGMT__POOL_EXCLUDE_REQ__INIT;

	request.id = (char *)id;
	request.rank_set = (char *)ranks;
	return ADMIN_ASK("PoolExclude", request, pool_exclude);
}

static inline struct question *drain_ranks(const char *id, const char *ranks)
{
	Mgmt__PoolDrainReq request = MGMT__POOL_DRAIN_REQ__INIT;

	request.id = (char *)id;
	request.rank_set = (char *)ranks;
	return ADMIN_ASK("PoolDrain", request, pool_drain);
}

static inline struct question *reintegrate_ranks(const char *id, const char *ranks)
{
	Mgmt__PoolReintReq request = MGMT__POOL_REINT_REQ__INIT;

	request.id = (char *)id;
	request.rank_set = (char *)ranks;
	return ADMIN_ASK("PoolReintegrate", request, pool_reint);
}

static inline struct question *get_acl(const char *id)
{
	Mgmt__GetACLReq request = MGMT__GET_ACLREQ__INIT;

	request.id = (char *)id;
	return ask(fixture.admin, "/mgmt.MgmtSvc/PoolGetACL", &request.base, &mgmt__aclresp__descriptor);
}

/* `method` "PoolUpdateACL" or "PoolOverwriteACL". */
static inline struct question *change_acl(const char *method, const char *id, const char *const *entries, size_t count)
{
	Mgmt__ModifyACLReq request = MGMT__MODIFY_ACLREQ__INIT;
	char path[64];

	snprintf(path, sizeof(path), "/mgmt.MgmtSvc/%s", method);
	request.id = (char *)id;
	request.entries = (char **)entries;
	request.n_entries = count;
	return ask(fixture.admin, path, &request.base, &mgmt__aclresp__descriptor);
}

static inline struct question *delete_acl(const char *id, const char *principal)
{
	Mgmt__DeleteACLReq request = MGMT__DELETE_ACLREQ__INIT;

	request.id = (char *)id;
	request.principal = (char *)principal;
	return ask(fixture.admin, "/mgmt.MgmtSvc/PoolDeleteACL", &request.base, &mgmt__aclresp__descriptor);
}

/* Restart the service. Its calls wait this long for an engine that gives no answer; 0: as usual. */
static inline void reopen_with_patience(uint64_t patience_ns)
{
	fixture.storage_patience_ns = patience_ns;
	reopen_mgmt();
}

/* `name` and `text` as the command line has them. */
static inline struct question *set_property(const char *id, const char *name, const char *text)
{
	Mgmt__PoolSetPropReq request = MGMT__POOL_SET_PROP_REQ__INIT;
	Mgmt__PoolProperty property = MGMT__POOL_PROPERTY__INIT, *properties[] = { &property };

	property.name = (char *)name;
	property.text = (char *)text;
	request.id = (char *)id;
	request.properties = properties;
	request.n_properties = 1;
	return ADMIN_ASK("PoolSetProp", request, pool_set_prop);
}

/* Its value as a text. */
static inline const char *get_property(const char *id, const char *name)
{
	Mgmt__PoolGetPropReq request = MGMT__POOL_GET_PROP_REQ__INIT;
	Mgmt__PoolProperty property = MGMT__POOL_PROPERTY__INIT, *properties[] = { &property };
	const Mgmt__PoolGetPropResp *answer;

	property.name = (char *)name;
	request.id = (char *)id;
	request.properties = properties;
	request.n_properties = 1;
	answer = answer_of(ADMIN_ASK("PoolGetProp", request, pool_get_prop));
	assert_int_equal(answer->n_properties, 1);
	assert_string_equal(answer->properties[0]->name, name);
	return answer->properties[0]->text;
}

/* `host` "": all. */
static inline struct question *evict(const char *id, const char *host)
{
	Mgmt__PoolEvictReq request = MGMT__POOL_EVICT_REQ__INIT;

	request.id = (char *)id;
	request.machine = (char *)host;
	return ADMIN_ASK("PoolEvict", request, pool_evict);
}

static inline const Mgmt__ListPoolsResp *list_pools(void)
{
	Mgmt__ListPoolsReq request = MGMT__LIST_POOLS_REQ__INIT;

	return answer_of(ADMIN_ASK("ListPools", request, list_pools));
}

static inline struct question *create_volume(const char *name, uint64_t size_bytes)
{
	Fathom__VolumeCreateReq request = FATHOM__VOLUME_CREATE_REQ__INIT;

	request.name = (char *)name;
	request.size_bytes = size_bytes;
	return FATHOM_ASK("VolumeCreate", request, volume);
}

static inline struct question *create_volume_on(const char *name, uint64_t size_bytes, const char *ranks)
{
	Fathom__VolumeCreateReq request = FATHOM__VOLUME_CREATE_REQ__INIT;

	request.name = (char *)name;
	request.size_bytes = size_bytes;
	request.ranks = (char *)ranks;
	return FATHOM_ASK("VolumeCreate", request, volume);
}

static inline struct question *clone_volume(const char *from, const char *name)
{
	Fathom__VolumeCreateReq request = FATHOM__VOLUME_CREATE_REQ__INIT;

	request.name = (char *)name;
	request.from = (char *)from;
	return FATHOM_ASK("VolumeCreate", request, volume);
}

static inline struct question *resize_volume(const char *name, uint64_t size_bytes, bool is_forced)
{
	Fathom__VolumeResizeReq request = FATHOM__VOLUME_RESIZE_REQ__INIT;

	request.name = (char *)name;
	request.size_bytes = size_bytes;
	request.force = is_forced;
	return FATHOM_ASK("VolumeResize", request, volume);
}

/* `other`: NULL: none. */
static inline struct question *set_prop(const char *name, const char *property, const char *other)
{
	Fathom__VolumeSetPropReq request = FATHOM__VOLUME_SET_PROP_REQ__INIT;
	char *properties[] = { (char *)property, (char *)other };

	request.name = (char *)name;
	request.properties = properties;
	request.n_properties = other ? 2 : 1;
	return FATHOM_ASK("VolumeSetProp", request, volume);
}

static inline struct question *rename_volume(const char *name, const char *new_name)
{
	Fathom__VolumeRenameReq request = FATHOM__VOLUME_RENAME_REQ__INIT;

	request.name = (char *)name;
	request.new_name = (char *)new_name;
	return FATHOM_ASK("VolumeRename", request, volume);
}

static inline struct question *move_volume(const char *name, uint32_t rank)
{
	Fathom__VolumeMoveReq request = FATHOM__VOLUME_MOVE_REQ__INIT;

	request.name = (char *)name;
	request.rank = rank;
	return FATHOM_ASK("VolumeMove", request, volume);
}

static inline struct question *cancel_move(const char *name)
{
	Fathom__VolumeMoveReq request = FATHOM__VOLUME_MOVE_REQ__INIT;

	request.name = (char *)name;
	request.cancel = true;
	return FATHOM_ASK("VolumeMove", request, volume);
}

static inline struct question *publish_volume(const char *name, const char *host)
{
	Fathom__VolumePublishReq request = FATHOM__VOLUME_PUBLISH_REQ__INIT;

	request.name = (char *)name;
	request.host = (char *)host;
	return FATHOM_ASK("VolumePublish", request, volume);
}

static inline struct question *unpublish_volume(const char *name, const char *host, bool is_forced)
{
	Fathom__VolumeUnpublishReq request = FATHOM__VOLUME_UNPUBLISH_REQ__INIT;

	request.name = (char *)name;
	request.host = (char *)host;
	request.force = is_forced;
	return FATHOM_ASK("VolumeUnpublish", request, volume);
}

static inline struct question *destroy_volume(const char *name, bool is_forced)
{
	Fathom__VolumeDestroyReq request = FATHOM__VOLUME_DESTROY_REQ__INIT;

	request.name = (char *)name;
	request.force = is_forced;
	return FATHOM_ASK("VolumeDestroy", request, volume);
}

static inline struct question *create_snapshots(const char *const *names, size_t count)
{
	Fathom__SnapshotCreateReq request = FATHOM__SNAPSHOT_CREATE_REQ__INIT;

	request.names = (char **)names;
	request.n_names = count;
	return FATHOM_ASK("SnapshotCreate", request, snapshot);
}

static inline struct question *create_snapshot(const char *name)
{
	return create_snapshots(&name, 1);
}

static inline struct question *destroy_snapshot(const char *name)
{
	Fathom__SnapshotDestroyReq request = FATHOM__SNAPSHOT_DESTROY_REQ__INIT;

	request.name = (char *)name;
	return FATHOM_ASK("SnapshotDestroy", request, snapshot);
}

static inline struct question *restore_snapshot(const char *name)
{
	Fathom__SnapshotRestoreReq request = FATHOM__SNAPSHOT_RESTORE_REQ__INIT;

	request.name = (char *)name;
	return FATHOM_ASK("SnapshotRestore", request, snapshot);
}

static inline struct question *read_changes(const char *name, const char *from, uint64_t offset)
{
	Fathom__SnapshotChangesReq request = FATHOM__SNAPSHOT_CHANGES_REQ__INIT;

	request.name = (char *)name;
	request.from = (char *)from;
	request.offset = offset;
	return FATHOM_ASK("SnapshotChanges", request, snapshot_changes);
}

static inline const Fathom__Volume *volume_of(const struct question *question)
{
	const Fathom__VolumeResp *response = answer_of(question);

	assert_non_null(response->volume);
	return response->volume;
}

static inline const Fathom__VolumeListResp *list_volumes(void)
{
	Fathom__VolumeListReq request = FATHOM__VOLUME_LIST_REQ__INIT;

	return answer_of(FATHOM_ASK("VolumeList", request, volume_list));
}

static inline struct question *ask_volume(const char *name)
{
	Fathom__VolumeListReq request = FATHOM__VOLUME_LIST_REQ__INIT;

	request.name = (char *)name;
	return FATHOM_ASK("VolumeList", request, volume_list);
}

static inline const Fathom__Volume *show_volume(const char *name)
{
	const Fathom__VolumeListResp *response = answer_of(ask_volume(name));

	assert_int_equal(response->n_volumes, 1);
	return response->volumes[0];
}

/* One pool "p" on ranks 0 to `ranks` - 1. */
static inline void begin_with_pool(uint32_t ranks)
{
	join_many(ranks);
	answer_of(create_pool("p"));
}

static inline bool nothing_is_pending(void *unused)
{
	return mgmt_stats(fixture.mgmt).storage_pending == 0;
}

/* Another member takes the rank, without the data. */
static inline int format_storage(void *fake)
{
	struct fake_storage *storage = &((struct fake *)fake)->storage;

	storage->pool_count = storage->volume_count = 0;
	return 0;
}

static inline void replace_rank(const char *rank)
{
	uint32_t number = (uint32_t)strtoul(rank, NULL, 10);
	Mgmt__SystemExcludeReq exclude = MGMT__SYSTEM_EXCLUDE_REQ__INIT;
	char uuid[MEMBER_UUID_TEXT_BYTES];
	struct joining joining;

	exclude.ranks = (char *)rank;
	answer_of(ADMIN_ASK("SystemExclude", exclude, system_exclude));
	exclude.clear = true;
	answer_of(ADMIN_ASK("SystemExclude", exclude, system_exclude));
	on_control(format_storage, &fixture.fakes[number]);
	fill_join(&joining, number, 200);
	write_uuid(77, uuid);
	joining.request.uuid = uuid;
	joining.request.replace = true;
	answer_of(ask_join(&joining));
}

#endif
