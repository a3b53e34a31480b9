/* SPDX-License-Identifier: BSD-2-Clause */
/* Attributes and properties of the system: names and values. */
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "control/client/internal.h"
#include "rpc/proto/mgmt.pb-c.h"

static int compare_pairs(const void *a, const void *b)
{
	return strcmp(((const struct fathom_control_pair *)a)->name, ((const struct fathom_control_pair *)b)->name);
}

/* Each map field has its own entry type with the same fields; so this takes name and value. */
static void take_pair(struct arena *arena, struct fathom_control_pair *pair, const char *name, const char *value)
{
	pair->name = arena_text(arena, name);
	pair->value = arena_text(arena, value);
}

static void set_result(struct fathom_control_pairs *result, struct fathom_control_pair *pairs, size_t count)
{
	if (count > 0)
		qsort(pairs, count, sizeof(*pairs), compare_pairs);
	result->pairs = pairs;
	result->count = count;
}

static void take_attributes(void *ctx, const ProtobufCMessage *message)
{
	const Mgmt__SystemGetAttrResp *response = (const Mgmt__SystemGetAttrResp *)message;
	struct arena *arena = result_arena(ctx);
	struct fathom_control_pair *pairs = arena_array(arena, struct fathom_control_pair, response->n_attributes);

	for (size_t i = 0; i < response->n_attributes; i++)
		take_pair(arena, &pairs[i], response->attributes[i]->key, response->attributes[i]->value);
	set_result(ctx, pairs, response->n_attributes);
}

static void take_properties(void *ctx, const ProtobufCMessage *message)
{
	const Mgmt__SystemGetPropResp *response = (const Mgmt__SystemGetPropResp *)message;
	struct arena *arena = result_arena(ctx);
	struct fathom_control_pair *pairs = arena_array(arena, struct fathom_control_pair, response->n_properties);

	for (size_t i = 0; i < response->n_properties; i++)
		take_pair(arena, &pairs[i], response->properties[i]->key, response->properties[i]->value);
	set_result(ctx, pairs, response->n_properties);
}

/* The names of `pairs`, borrowed from them. */
static char **names_of(struct arena *arena, const struct fathom_control_pair *pairs, size_t count)
{
	char **names = arena_array(arena, char *, count);

	for (size_t i = 0; i < count; i++)
		names[i] = (char *)pairs[i].name;
	return names;
}

int fathom_control_get_attributes(struct fathom_control *control, const struct fathom_control_pair *pairs, size_t count,
				  struct fathom_control_pairs **ret, struct fathom_fault *why)
{
	Mgmt__SystemGetAttrReq message = MGMT__SYSTEM_GET_ATTR_REQ__INIT;
	struct request request = {
		.path = "/mgmt.MgmtSvc/SystemGetAttr",
		.name = "system get-attr",
		.message = &message.base,
		.response = &mgmt__system_get_attr_resp__descriptor,
		.again = AGAIN_READ,
	};
	struct fathom_control_pairs *result = result_create(sizeof(*result));

	message.sys = control->system;
	message.keys = names_of(result_arena(result), pairs, count);
	message.n_keys = count;
	return service_result(control, &request, take_attributes, result, (void **)ret, why);
}

int fathom_control_get_properties(struct fathom_control *control, const struct fathom_control_pair *pairs, size_t count,
				  struct fathom_control_pairs **ret, struct fathom_fault *why)
{
	Mgmt__SystemGetPropReq message = MGMT__SYSTEM_GET_PROP_REQ__INIT;
	struct request request = {
		.path = "/mgmt.MgmtSvc/SystemGetProp",
		.name = "system get-prop",
		.message = &message.base,
		.response = &mgmt__system_get_prop_resp__descriptor,
		.again = AGAIN_READ,
	};
	struct fathom_control_pairs *result = result_create(sizeof(*result));

	message.sys = control->system;
	message.keys = names_of(result_arena(result), pairs, count);
	message.n_keys = count;
	return service_result(control, &request, take_properties, result, (void **)ret, why);
}

static void take_nothing(void *ctx, const ProtobufCMessage *message)
{
}

int fathom_control_set_attributes(struct fathom_control *control, const struct fathom_control_pair *pairs, size_t count,
				  struct fathom_fault *why)
{
	Mgmt__SystemSetAttrReq message = MGMT__SYSTEM_SET_ATTR_REQ__INIT;
	struct request request = {
		.path = "/mgmt.MgmtSvc/SystemSetAttr",
		.name = "system set-attr",
		.message = &message.base,
		.response = &mgmt__daos_resp__descriptor,
		.again = AGAIN_SAME,
	};
	struct arena *arena = arena_create();
	int error;

	message.sys = control->system;
	message.attributes = arena_array(arena, Mgmt__SystemSetAttrReq__AttributesEntry *, count);
	message.n_attributes = count;
	for (size_t i = 0; i < count; i++) {
		Mgmt__SystemSetAttrReq__AttributesEntry *entry = arena_array(arena, Mgmt__SystemSetAttrReq__AttributesEntry,
									     1);

		mgmt__system_set_attr_req__attributes_entry__init(entry);
		entry->key = (char *)pairs[i].name;
		entry->value = (char *)(pairs[i].value ? pairs[i].value : "");
		message.attributes[i] = entry;
	}
	error = service_call(control, &request, take_nothing, NULL, why);
	arena_destroy(arena);
	return error;
}

int fathom_control_set_properties(struct fathom_control *control, const struct fathom_control_pair *pairs, size_t count,
				  struct fathom_fault *why)
{
	Mgmt__SystemSetPropReq message = MGMT__SYSTEM_SET_PROP_REQ__INIT;
	struct request request = {
		.path = "/mgmt.MgmtSvc/SystemSetProp",
		.name = "system set-prop",
		.message = &message.base,
		.response = &mgmt__daos_resp__descriptor,
		.again = AGAIN_SAME,
	};
	struct arena *arena = arena_create();
	int error;

	message.sys = control->system;
	message.properties = arena_array(arena, Mgmt__SystemSetPropReq__PropertiesEntry *, count);
	message.n_properties = count;
	for (size_t i = 0; i < count; i++) {
		Mgmt__SystemSetPropReq__PropertiesEntry *entry = arena_array(arena, Mgmt__SystemSetPropReq__PropertiesEntry,
									     1);

		mgmt__system_set_prop_req__properties_entry__init(entry);
		entry->key = (char *)pairs[i].name;
		entry->value = (char *)(pairs[i].value ? pairs[i].value : "");
		message.properties[i] = entry;
	}
	error = service_call(control, &request, take_nothing, NULL, why);
	arena_destroy(arena);
	return error;
}
