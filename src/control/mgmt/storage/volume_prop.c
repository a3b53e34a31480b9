/* SPDX-License-Identifier: BSD-2-Clause */
/* Properties of volumes: thick, which its engine changes; the description, which only the catalog has; and fixed ones. */
#include <errno.h>
#include <string.h>

#include "base/text.h"
#include "control/fault/fault.h"
#include "control/mgmt/storage/storage.h"

#define THICK "thick="
#define CHECKSUMS "checksums="
#define DESCRIPTION "description="

/* What a request gives. */
struct properties {
	bool has_thick, thick;
	bool has_checksums, checksums;
	const char *description; /* NULL: it does not name it */
};

bool storage_change_is_thick(const struct catalog_change *change)
{
	must(change->kind == CATALOG_SET_PROP);
	return strcmp(change->text, THICK "on") == 0;
}

/* Of a pool's property, too: "on" or "true". */
static int read_switch(const char *given, const char *value, bool *value_ret, struct fathom_fault *why)
{
	if (text_parse_switch(value, value_ret) == 0)
		return 0;
	return fault_volume_prop_bad(why, given, "its value is on or off");
}

static int check_description(const char *given, const char *value, struct fathom_fault *why)
{
	bool is_good = strlen(value) < CATALOG_DESCRIPTION_BYTES;

	for (const char *at = value; *at; at++)
		is_good = is_good && (unsigned char)*at >= ' ' && *at != 127;
	return is_good ? 0 : fault_volume_prop_bad(why, given, "a description has at most 255 bytes, in one line");
}

/* The value of "KEY=VALUE", if it has the key; else NULL. */
static const char *value_of(const char *text, const char *key)
{
	return strncmp(text, key, strlen(key)) == 0 ? text + strlen(key) : NULL;
}

static int read_property(const char *given, struct properties *properties, struct fathom_fault *why)
{
	char shown[128];

	storage_copy_text(shown, sizeof(shown), given);
	if (value_of(given, THICK)) {
		properties->has_thick = true;
		return read_switch(shown, value_of(given, THICK), &properties->thick, why);
	}
	if (value_of(given, CHECKSUMS)) {
		properties->has_checksums = true;
		return read_switch(shown, value_of(given, CHECKSUMS), &properties->checksums, why);
	}
	if (value_of(given, DESCRIPTION)) {
		properties->description = value_of(given, DESCRIPTION);
		return check_description(shown, properties->description, why);
	}
	return fault_volume_prop_bad(why, shown, strchr(given, '=') ? "there is no such property" : "it is not KEY=VALUE");
}

static int read_properties(const Fathom__VolumeSetPropReq *asked, struct properties *properties, struct fathom_fault *why)
{
	int error = asked->n_properties > 0 ? 0 : fault_volume_prop_bad(why, "", "it is not KEY=VALUE");

	for (size_t i = 0; !error && i < asked->n_properties; i++)
		error = read_property(asked->properties[i], properties, why);
	return error;
}

static int check_fixed(const struct catalog_volume *volume, const struct properties *properties, struct fathom_fault *why)
{
	bool now = volume->record.checksums;
	char what[STORAGE_WHAT_BYTES];

	if (!properties->has_checksums || properties->checksums == now)
		return 0;
	return fault_volume_prop_fixed(why, storage_what(volume->pool, volume, what), "checksums", now ? "on" : "off");
}

static int store_description(struct mgmt *mgmt, struct catalog_volume *volume, const char *description,
			     struct fathom_fault *why)
{
	struct catalog_volume_record next = volume->record;

	if (!description || strcmp(next.description, description) == 0)
		return 0;
	storage_copy_text(next.description, sizeof(next.description), description);
	return catalog_store_volume(mgmt->catalog, volume, &next, why);
}

void mgmt_volume_set_prop(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Fathom__VolumeSetPropReq *asked = (const Fathom__VolumeSetPropReq *)request;
	struct catalog_change change = { .kind = CATALOG_SET_PROP };
	struct mgmt *mgmt = mgmt_enter(call, asked->sys, true);
	struct properties properties = { 0 };
	struct catalog_volume *volume;
	struct fathom_fault why = { 0 };
	bool is_changing;
	int error;

	if (!mgmt)
		return;
	error = read_properties(asked, &properties, &why);
	if (!error)
		error = storage_find_changeable(mgmt, asked->name, &volume, &why);
	if (!error)
		error = check_fixed(volume, &properties, &why);
	if (!error)
		error = store_description(mgmt, volume, properties.description, &why);
	if (error) {
		mgmt_fail(call, error, &why);
		return;
	}
	is_changing = volume->record.change.kind != CATALOG_NO_CHANGE;
	if (!properties.has_thick || (!is_changing && volume->record.thick == properties.thick)) {
		storage_reply_volume(mgmt, call, volume);
		return;
	}
	must(text_copy(change.text, sizeof(change.text), properties.thick ? THICK "on" : THICK "off") == 0);
	storage_begin_change(mgmt, call, volume, &change);
}
