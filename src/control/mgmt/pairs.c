/* SPDX-License-Identifier: BSD-2-Clause */
/* Attributes and properties of the system. Map entries of the protocol differ only in their C types. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "control/fault/fault.h"
#include "control/mgmt/internal.h"

/* Read-only properties that identify the answering system. */
#define NAME_PROPERTY "daos_system"
#define VERSION_PROPERTY "daos_version"

/* Raise an event "set rack=3, owner=, ...". An empty value deletes. The text is cut to the length of an event. */
static void raise_pairs_event(struct mgmt *mgmt, const struct grpc_call *call, const struct system_pair *pairs,
			      size_t count, enum system_change_kind kind)
{
	bool is_attributes = kind == SYSTEM_ATTRIBUTES;
	char text[RAS_MESSAGE_BYTES] = "", who[GRPC_WHO_BYTES];
	size_t used = 0;

	for (size_t i = 0; i < count && used < sizeof(text) - 1; i++) {
		int bytes = snprintf(text + used, sizeof(text) - used, "%s%s=%s", i ? ", " : "", pairs[i].name,
				     pairs[i].value);

		used = min_u64(used + (size_t)bytes, sizeof(text) - 1);
	}
	must(used < sizeof(text));
	mgmt_raise_operation(mgmt, is_attributes ? RAS_ATTRIBUTES_CHANGED : RAS_PROPERTIES_CHANGED,
			     is_attributes ? "system set-attr" : "system set-prop", grpc_call_who(call, who), "set %s",
			     text);
}

static void set_pairs(struct grpc_call *call, struct mgmt *mgmt, const struct system_pair *pairs, size_t count,
		      enum system_change_kind kind)
{
	Mgmt__DaosResp response = MGMT__DAOS_RESP__INIT;
	struct fathom_fault why = { 0 };
	struct system_change change;
	int error = 0;

	must(kind == SYSTEM_ATTRIBUTES || kind == SYSTEM_PROPERTIES);
	must(count <= SYSTEM_PAIRS_MAX);
	if (count > 0 && kind == SYSTEM_ATTRIBUTES)
		error = system_set_attributes(mgmt->system, pairs, count, &change, &why);
	else if (count > 0)
		error = system_set_properties(mgmt->system, pairs, count, &change, &why);
	if (count > 0 && !error)
		error = mgmt_change_pairs(mgmt, &change, &why);
	if (count > 0 && !error)
		raise_pairs_event(mgmt, call, pairs, count, kind);
	if (error)
		mgmt_fail(call, error, &why);
	else
		grpc_reply(call, &response.base);
}

void mgmt_set_attributes(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Mgmt__SystemSetAttrReq *asked = (const Mgmt__SystemSetAttrReq *)request;
	struct mgmt *mgmt = mgmt_enter(call, asked->sys, true);
	struct system_pair pairs[SYSTEM_PAIRS_MAX];
	struct fathom_fault why = { 0 };

	if (!mgmt)
		return;
	if (asked->n_attributes > ARRAY_COUNT(pairs)) {
		mgmt_fail(call, fault_attribute_bad(&why, asked->attributes[0]->key, "a system has at most 1024"), &why);
		return;
	}
	for (size_t i = 0; i < asked->n_attributes; i++)
		pairs[i] = (struct system_pair){ asked->attributes[i]->key, asked->attributes[i]->value };
	set_pairs(call, mgmt, pairs, asked->n_attributes, SYSTEM_ATTRIBUTES);
}

void mgmt_set_properties(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Mgmt__SystemSetPropReq *asked = (const Mgmt__SystemSetPropReq *)request;
	struct mgmt *mgmt = mgmt_enter(call, asked->sys, true);
	struct system_pair pairs[SYSTEM_PAIRS_MAX];
	struct fathom_fault why = { 0 };
	size_t count = 0;

	if (!mgmt)
		return;
	for (; count < asked->n_properties && count < ARRAY_COUNT(pairs); count++) {
		const Mgmt__SystemSetPropReq__PropertiesEntry *entry = asked->properties[count];

		if (strcmp(entry->key, NAME_PROPERTY) == 0 || strcmp(entry->key, VERSION_PROPERTY) == 0) {
			mgmt_fail(call,
				  fault_property_bad(&why, entry->key, entry->value,
						     "another one; this one is only to be read"),
				  &why);
			return;
		}
		pairs[count] = (struct system_pair){ entry->key, entry->value };
	}
	set_pairs(call, mgmt, pairs, count, SYSTEM_PROPERTIES);
}

/* Set all values to "", which removes attributes and resets properties. */
static int forget_pairs(struct mgmt *mgmt, enum system_change_kind kind, struct fathom_fault *why)
{
	bool is_attributes = kind == SYSTEM_ATTRIBUTES;
	size_t count = is_attributes ? system_attribute_count(mgmt->system) : system_property_count(mgmt->system);
	struct system_pair *pairs = calloc(count + 1, sizeof(*pairs));
	struct system_change change;
	int error = 0;

	if (!pairs)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		struct system_pair pair = is_attributes ? system_attribute_at(mgmt->system, i)
							: system_property_at(mgmt->system, i);

		pairs[i].value = "";
		pairs[i].name = strdup(pair.name); /* applying the change frees the attribute and its name */
		if (!pairs[i].name)
			error = -ENOMEM;
	}
	if (!error && count > 0) {
		error = is_attributes ? system_set_attributes(mgmt->system, pairs, count, &change, why)
				      : system_set_properties(mgmt->system, pairs, count, &change, why);
		if (!error)
			error = mgmt_change_pairs(mgmt, &change, why);
	}
	must(error || (is_attributes ? system_attribute_count(mgmt->system) : system_property_count(mgmt->system)) == 0);
	for (size_t i = 0; i < count; i++)
		free((char *)(uintptr_t)pairs[i].name);
	free(pairs);
	return error;
}

int mgmt_forget_pairs(struct mgmt *mgmt, struct fathom_fault *why)
{
	int error = forget_pairs(mgmt, SYSTEM_ATTRIBUTES, why);

	return error ? error : forget_pairs(mgmt, SYSTEM_PROPERTIES, why);
}

/* ---- queries ---- */

struct got_attributes {
	Mgmt__SystemGetAttrResp__AttributesEntry entries[SYSTEM_PAIRS_MAX], *places[SYSTEM_PAIRS_MAX];
	size_t count;
};

static void add_attribute(struct got_attributes *got, const char *name, const char *value)
{
	Mgmt__SystemGetAttrResp__AttributesEntry *entry = &got->entries[got->count];

	must(got->count < ARRAY_COUNT(got->entries));
	mgmt__system_get_attr_resp__attributes_entry__init(entry);
	entry->key = (char *)name;
	entry->value = (char *)value;
	got->places[got->count++] = entry;
}

static int get_attributes(const struct mgmt *mgmt, const Mgmt__SystemGetAttrReq *asked, struct got_attributes *got,
			  struct fathom_fault *why)
{
	for (size_t i = 0; asked->n_keys == 0 && i < system_attribute_count(mgmt->system); i++) {
		struct system_pair pair = system_attribute_at(mgmt->system, i);

		add_attribute(got, pair.name, pair.value);
	}
	for (size_t i = 0; i < asked->n_keys && i < SYSTEM_PAIRS_MAX; i++) {
		const char *value = system_attribute(mgmt->system, asked->keys[i]);

		if (!value)
			return fault_no_such_attribute(why, asked->keys[i]);
		add_attribute(got, asked->keys[i], value);
	}
	return 0;
}

void mgmt_get_attributes(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Mgmt__SystemGetAttrReq *asked = (const Mgmt__SystemGetAttrReq *)request;
	Mgmt__SystemGetAttrResp response = MGMT__SYSTEM_GET_ATTR_RESP__INIT;
	struct mgmt *mgmt = mgmt_enter(call, asked->sys, true);
	struct got_attributes *got;
	struct fathom_fault why = { 0 };
	int error;

	if (!mgmt)
		return;
	mgmt->stats.queries++;
	got = calloc(1, sizeof(*got));
	error = got ? get_attributes(mgmt, asked, got, &why) : -ENOMEM;
	if (error) {
		mgmt_fail(call, error, &why);
	} else {
		response.n_attributes = got->count;
		response.attributes = got->places;
		grpc_reply(call, &response.base);
	}
	free(got);
}

struct got_properties {
	Mgmt__SystemGetPropResp__PropertiesEntry entries[64], *places[64];
	size_t count;
};

/* Add a property if the request names it or names none. */
static void add_property(struct got_properties *got, const Mgmt__SystemGetPropReq *asked, const char *name,
			 const char *value)
{
	Mgmt__SystemGetPropResp__PropertiesEntry *entry = &got->entries[got->count];
	bool is_wanted = asked->n_keys == 0;

	for (size_t i = 0; i < asked->n_keys && !is_wanted; i++)
		is_wanted = strcmp(asked->keys[i], name) == 0;
	if (!is_wanted)
		return;
	must(got->count < ARRAY_COUNT(got->entries));
	mgmt__system_get_prop_resp__properties_entry__init(entry);
	entry->key = (char *)name;
	entry->value = (char *)value;
	got->places[got->count++] = entry;
}

/* Reject unknown names with the same faults as a request to set them. */
static int check_names(const struct mgmt *mgmt, const Mgmt__SystemGetPropReq *asked, struct fathom_fault *why)
{
	for (size_t i = 0; i < asked->n_keys; i++) {
		struct system_pair pair = { asked->keys[i], "" };
		struct system_change change;
		int error;

		if (strcmp(pair.name, NAME_PROPERTY) == 0 || strcmp(pair.name, VERSION_PROPERTY) == 0)
			continue;
		error = system_set_properties(mgmt->system, &pair, 1, &change, why);
		if (error)
			return error;
	}
	return 0;
}

void mgmt_get_properties(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Mgmt__SystemGetPropReq *asked = (const Mgmt__SystemGetPropReq *)request;
	Mgmt__SystemGetPropResp response = MGMT__SYSTEM_GET_PROP_RESP__INIT;
	struct mgmt *mgmt = mgmt_enter(call, asked->sys, true);
	struct got_properties got = { .count = 0 };
	struct fathom_fault why = { 0 };
	int error;

	if (!mgmt)
		return;
	mgmt->stats.queries++;
	error = check_names(mgmt, asked, &why);
	if (error) {
		mgmt_fail(call, error, &why);
		return;
	}
	add_property(&got, asked, NAME_PROPERTY, mgmt->name);
	add_property(&got, asked, VERSION_PROPERTY, mgmt->version);
	for (const struct system_property *property = system_properties; property->name; property++)
		add_property(&got, asked, property->name, system_property(mgmt->system, property->name));
	response.n_properties = got.count;
	response.properties = got.places;
	grpc_reply(call, &response.base);
}
