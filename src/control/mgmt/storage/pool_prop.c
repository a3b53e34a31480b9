/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Properties of pools, by DAOS's numbers and names; from 1001 on they are Fathom's own. Some are only in the catalog, and
 * others are also kept by the pool's engines (storage/pool_set.c). Those of DAOS that have no meaning here cannot be set,
 * and are left out of answers, as DAOS leaves out what a pool does not have.
 *
 * A request that sets several stores those of the catalog first. If an engine refuses the others, these stay as they were.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/text.h"
#include "control/fault/fault.h"
#include "control/mgmt/storage/storage.h"

enum {
	SCRUB_SECONDS_DEFAULT = 7 * 24 * 3600, /* the engine's: SCRUB_REST_SEC */
	SCRUB_SECONDS_MAX = 10 * 365 * 24 * 3600,
	VALUE_BYTES = CATALOG_OWNER_BYTES,
	NAMES_BYTES = 256,
};

/* DAOS's numbers; from SIZE on Fathom's. */
enum {
	PROPERTY_LABEL = 1,
	PROPERTY_SELF_HEAL = 4,
	PROPERTY_OWNER = 6,
	PROPERTY_GROUP = 7,
	PROPERTY_SCRUB = 16,
	PROPERTY_SCRUB_SECONDS = 17,
	PROPERTY_SIZE = 1001,
	PROPERTY_OVERCOMMIT = 1002,
	PROPERTY_THICK = 1003,
	PROPERTY_CHECKSUMS = 1004,
};

/* A request to set properties. */
struct setting {
	struct mgmt *mgmt;
	const struct catalog_pool *pool;
	struct catalog_pool_record next;
	struct catalog_pool_change change; /* what engines keep */
	char names[NAMES_BYTES];	   /* of those that are set, for the event */
	bool has_size, has_overcommit, has_owner, has_kept;
};

struct property {
	uint32_t number;
	const char *name, *title;
	const char *const *words; /* of the numbers 0, 1 ...; NULL: a number, or a text */
	const char *takes;	  /* for people */
	uint32_t kept;		  /* by engines, too: CATALOG_KEPT_SIZE ...; 0: only in the catalog */
	/* One of these. */
	const char *(*text)(const struct catalog_pool_record *record);
	uint64_t (*value)(const struct catalog_pool_record *record);
};

/* ---- of the catalog ---- */

static const char *label_of(const struct catalog_pool_record *record)
{
	return record->name;
}

static int set_label(struct setting *setting, const char *text, struct fathom_fault *why)
{
	const struct catalog_pool *other = catalog_find_pool(setting->mgmt->catalog, text);
	int error = catalog_check_name("pool", text, why);

	if (error)
		return error;
	if (strcmp(setting->next.name, text) == 0)
		return 0;
	if (other && other != setting->pool)
		return fault_pool_label_taken(why, text);
	memcpy(setting->next.former, setting->next.name, sizeof(setting->next.former));
	must(text_copy(setting->next.name, sizeof(setting->next.name), text) == 0);
	return 0;
}

static const char *owner_of(const struct catalog_pool_record *record)
{
	return record->owner;
}

static int set_owner(struct setting *setting, const char *text, struct fathom_fault *why)
{
	if (acl_check_principal(text, why) < 0 || text_copy(setting->next.owner, sizeof(setting->next.owner), text) < 0)
		return fault_pool_property_bad(why, "owner", text, "a user, such as bob@");
	setting->has_owner = true;
	return 0;
}

static const char *group_of(const struct catalog_pool_record *record)
{
	return record->group;
}

static int set_group(struct setting *setting, const char *text, struct fathom_fault *why)
{
	if (acl_check_principal(text, why) < 0 || text_copy(setting->next.group, sizeof(setting->next.group), text) < 0)
		return fault_pool_property_bad(why, "group", text, "a group, such as staff@");
	setting->has_owner = true;
	return 0;
}

static uint64_t thick_of(const struct catalog_pool_record *record)
{
	return record->thick;
}

static int set_thick(struct setting *setting, uint64_t value)
{
	setting->next.thick = value;
	return 0;
}

static uint64_t checksums_of(const struct catalog_pool_record *record)
{
	return record->checksums;
}

static int set_checksums(struct setting *setting, uint64_t value)
{
	setting->next.checksums = value;
	return 0;
}

/* ---- of the engines, too ---- */

enum { SCRUB_OFF, SCRUB_LAZY, SCRUB_TIMED }; /* DAOS's numbers */
static const char *const scrub_words[] = { [SCRUB_OFF] = "off", [SCRUB_LAZY] = "lazy", [SCRUB_TIMED] = "timed", NULL };
static const char *const bool_words[] = { "false", "true", NULL };

static uint64_t scrub_of(const struct catalog_pool_record *record)
{
	return record->scrub_off ? SCRUB_OFF : SCRUB_TIMED;
}

static int set_scrub(struct setting *setting, uint64_t value)
{
	setting->change.scrub_off = value == SCRUB_OFF;
	return value == SCRUB_LAZY ? -EINVAL : 0;
}

static uint64_t scrub_seconds_of(const struct catalog_pool_record *record)
{
	return record->scrub_seconds ? record->scrub_seconds : SCRUB_SECONDS_DEFAULT;
}

static int set_scrub_seconds(struct setting *setting, uint64_t value)
{
	setting->change.scrub_seconds = (uint32_t)value;
	return value < 1 || value > SCRUB_SECONDS_MAX ? -EINVAL : 0;
}

static uint64_t overcommit_of(const struct catalog_pool_record *record)
{
	return record->overcommit;
}

static int set_overcommit(struct setting *setting, uint64_t value)
{
	setting->change.overcommit = value;
	setting->has_overcommit = setting->pool->record.overcommit != (value != 0);
	return 0;
}

static uint64_t size_of(const struct catalog_pool_record *record)
{
	return record->rank_bytes * record->place_count;
}

static int set_size(struct setting *setting, uint64_t value)
{
	uint64_t rank_bytes = value / setting->pool->record.place_count;

	if (value > CATALOG_BYTES_MAX || (value > 0 && rank_bytes == 0))
		return -EINVAL;
	setting->change.rank_bytes = rank_bytes;
	setting->has_size = setting->pool->record.rank_bytes != rank_bytes;
	return 0;
}

/* ---- the table ---- */

static const struct property properties[] = {
	{
		.number = PROPERTY_LABEL,
		.name = "label",
		.title = "Pool label",
		.takes = "a name",
		.text = label_of,
	},
	{
		.number = PROPERTY_OWNER,
		.name = "owner",
		.title = "Owner",
		.takes = "a user, such as bob@",
		.text = owner_of,
	},
	{
		.number = PROPERTY_GROUP,
		.name = "group",
		.title = "Owner's group",
		.takes = "a group, such as staff@",
		.text = group_of,
	},
	{
		.number = PROPERTY_SCRUB,
		.name = "scrub",
		.title = "Checksum scrubbing mode",
		.words = scrub_words,
		.takes = "off or timed",
		.kept = CATALOG_KEPT_SCRUB,
		.value = scrub_of,
	},
	{
		.number = PROPERTY_SCRUB_SECONDS,
		.name = "scrub_freq",
		.title = "Checksum scrubbing frequency, in seconds",
		.takes = "a number of seconds from 1 to 315360000",
		.kept = CATALOG_KEPT_SCRUB_SECONDS,
		.value = scrub_seconds_of,
	},
	{
		.number = PROPERTY_SIZE,
		.name = "size",
		.title = "Most bytes of its volumes on all ranks (0: no limit)",
		.takes = "a number of bytes, such as 100G, or 0 for no limit",
		.kept = CATALOG_KEPT_SIZE,
		.value = size_of,
	},
	{
		.number = PROPERTY_OVERCOMMIT,
		.name = "overcommit",
		.title = "Thin volumes may promise more space than there is",
		.words = bool_words,
		.takes = "true or false, or on or off",
		.kept = CATALOG_KEPT_OVERCOMMIT,
		.value = overcommit_of,
	},
	{
		.number = PROPERTY_THICK,
		.name = "thick",
		.title = "New volumes are thick",
		.words = bool_words,
		.takes = "true or false, or on or off",
		.value = thick_of,
	},
	{
		.number = PROPERTY_CHECKSUMS,
		.name = "checksums",
		.title = "New volumes have checksums",
		.words = bool_words,
		.takes = "true or false, or on or off",
		.value = checksums_of,
	},
};

/* NULL: there is none. */
static const struct property *find_property(const Mgmt__PoolProperty *asked)
{
	for (size_t i = 0; i < ARRAY_COUNT(properties); i++) {
		if (storage_is_property(asked, properties[i].number, properties[i].name))
			return &properties[i];
	}
	return NULL;
}

/* ---- get ---- */

/* A property as a message, with its storage. */
struct shown {
	Mgmt__PoolProperty message;
	char text[VALUE_BYTES], late_ranks[MGMT_RANKS_BYTES], late_reason[STORAGE_INFO_BYTES];
};

static void show_late(const struct mgmt *mgmt, const struct property *property, const struct catalog_pool *pool,
		      struct shown *shown)
{
	Mgmt__PoolProperty *message = &shown->message;
	uint32_t first;

	if (!storage_late_ranks(&pool->record, property->kept, shown->late_ranks, &first)[0])
		return;
	storage_late_explain(mgmt, pool, first, property->kept, shown->late_reason);
	message->late_ranks = shown->late_ranks;
	message->late_ns = catalog_use(&pool->record, first).late_ns;
	message->late_reason = shown->late_reason;
}

static void show_property(const struct property *property, const struct catalog_pool_record *record, struct shown *shown)
{
	Mgmt__PoolProperty *message = &shown->message;

	mgmt__pool_property__init(message);
	message->number = property->number;
	message->name = (char *)property->name;
	message->description = (char *)property->title;
	if (property->text) {
		message->value_case = MGMT__POOL_PROPERTY__VALUE_STRVAL;
		message->strval = message->text = (char *)property->text(record);
		return;
	}
	message->value_case = MGMT__POOL_PROPERTY__VALUE_NUMVAL;
	message->numval = property->value(record);
	if (property->words)
		snprintf(shown->text, sizeof(shown->text), "%s", property->words[message->numval]);
	else
		snprintf(shown->text, sizeof(shown->text), "%" PRIu64, message->numval);
	message->text = shown->text;
}

/* Whether the answer has the property: all if the request names none. */
static bool is_wanted(const Mgmt__PoolGetPropReq *asked, const struct property *property)
{
	for (size_t i = 0; i < asked->n_properties; i++) {
		if (storage_is_property(asked->properties[i], property->number, property->name))
			return true;
	}
	return asked->n_properties == 0;
}

/*
 * dmg requests properties by number: all that DAOS has, or those that a person named; `dmg pool query` requests self_heal.
 * Those that no pool has here are left out, but a request for nothing else is refused. A name is a person's.
 */
static int check_names(const Mgmt__PoolGetPropReq *asked, struct fathom_fault *why)
{
	bool has_known = asked->n_properties == 0;

	for (size_t i = 0; i < asked->n_properties; i++) {
		bool is_known = find_property(asked->properties[i]);

		if (asked->properties[i]->name[0] && !is_known)
			return storage_refuse_property(asked->properties[i], why);
		has_known |= is_known || asked->properties[i]->number == PROPERTY_SELF_HEAL;
	}
	return has_known ? 0 : storage_refuse_property(asked->properties[0], why);
}

void mgmt_pool_get_prop(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Mgmt__PoolGetPropReq *asked = (const Mgmt__PoolGetPropReq *)request;
	struct mgmt *mgmt = mgmt_enter(call, asked->sys, true);
	Mgmt__PoolGetPropResp response = MGMT__POOL_GET_PROP_RESP__INIT;
	Mgmt__PoolProperty *places[ARRAY_COUNT(properties)];
	struct shown shown[ARRAY_COUNT(properties)];
	struct fathom_fault why = { 0 };
	struct catalog_pool *pool;
	int error;

	if (!mgmt)
		return;
	error = storage_find_pool(mgmt, asked->id, &pool, &why);
	if (!error)
		error = check_names(asked, &why);
	if (error) {
		mgmt_fail(call, error, &why);
		return;
	}
	response.properties = places;
	for (size_t i = 0; i < ARRAY_COUNT(properties); i++) {
		if (!is_wanted(asked, &properties[i]))
			continue;
		show_property(&properties[i], &pool->record, &shown[response.n_properties]);
		show_late(mgmt, &properties[i], pool, &shown[response.n_properties]);
		places[response.n_properties] = &shown[response.n_properties].message;
		response.n_properties++;
	}
	grpc_reply(call, &response.base);
}

/* ---- set ---- */

/* The number that `text` is. Errors: -EINVAL. */
static int parse_value(const struct property *property, const char *text, uint64_t *value_ret)
{
	if (property->words == bool_words) {
		bool is_on;

		if (text_parse_switch(text, &is_on) < 0)
			return -EINVAL;
		*value_ret = is_on;
		return 0;
	}
	if (property->words) {
		for (uint64_t i = 0; property->words[i]; i++) {
			if (strcmp(property->words[i], text) == 0) {
				*value_ret = i;
				return 0;
			}
		}
		return -EINVAL;
	}
	return text_parse_bytes(text, value_ret) == 0 ? 0 : -EINVAL;
}

/* Whether the number is one of the words, if the property has some. */
static bool is_word(const struct property *property, uint64_t value)
{
	for (uint64_t i = 0; property->words && property->words[i]; i++) {
		if (i == value)
			return true;
	}
	return !property->words;
}

/* -EINVAL: not such a value. Others are explained. */
static int set_text(struct setting *setting, uint32_t number, const char *text, struct fathom_fault *why)
{
	switch (number) {
	case PROPERTY_LABEL:
		return set_label(setting, text, why);
	case PROPERTY_OWNER:
		return set_owner(setting, text, why);
	default:
		must(number == PROPERTY_GROUP);
		return set_group(setting, text, why);
	}
}

/* Likewise. */
static int set_value(struct setting *setting, uint32_t number, uint64_t value)
{
	switch (number) {
	case PROPERTY_SCRUB:
		return set_scrub(setting, value);
	case PROPERTY_SCRUB_SECONDS:
		return set_scrub_seconds(setting, value);
	case PROPERTY_SIZE:
		return set_size(setting, value);
	case PROPERTY_OVERCOMMIT:
		return set_overcommit(setting, value);
	case PROPERTY_THICK:
		return set_thick(setting, value);
	default:
		must(number == PROPERTY_CHECKSUMS);
		return set_checksums(setting, value);
	}
}

static int set_property(struct setting *setting, const struct property *property, const Mgmt__PoolProperty *asked,
			struct fathom_fault *why)
{
	bool is_number = asked->value_case == MGMT__POOL_PROPERTY__VALUE_NUMVAL;
	bool is_bytes = asked->value_case == MGMT__POOL_PROPERTY__VALUE_BYTEVAL;
	const char *text = asked->value_case == MGMT__POOL_PROPERTY__VALUE_STRVAL ? asked->strval : asked->text;
	uint64_t value = is_number ? asked->numval : 0;
	char given[VALUE_BYTES];
	int error = is_bytes || (property->text && is_number) ? -EINVAL : 0;

	if (is_number && property->words && is_word(property, value))
		snprintf(given, sizeof(given), "%s", property->words[value]);
	else if (is_number)
		snprintf(given, sizeof(given), "%" PRIu64, value);
	else
		storage_copy_text(given, sizeof(given), is_bytes ? "" : text);
	if (!error && property->text)
		error = set_text(setting, property->number, text, why);
	else if (!error && !is_number)
		error = parse_value(property, text, &value);
	else if (!error && !is_word(property, value))
		error = -EINVAL;
	if (!error && !property->text)
		error = set_value(setting, property->number, value);
	if (error == -EINVAL && (!why || why->error == 0))
		error = fault_pool_property_bad(why, property->name, given, property->takes);
	return error;
}

static void note_name(struct setting *setting, const char *name)
{
	size_t used = strlen(setting->names);

	snprintf(setting->names + used, sizeof(setting->names) - used, "%s%s", used ? ", " : "", name);
}

static int set_properties(struct setting *setting, const Mgmt__PoolSetPropReq *asked, struct fathom_fault *why)
{
	int error = 0;

	for (size_t i = 0; !error && i < asked->n_properties; i++) {
		const struct property *property = find_property(asked->properties[i]);

		error = property ? set_property(setting, property, asked->properties[i], why)
				 : storage_refuse_property(asked->properties[i], why);
		if (!error)
			note_name(setting, property->name);
		if (!error && property->kept)
			setting->has_kept = true;
	}
	if (!error && setting->has_size && setting->has_overcommit)
		error = fault_pool_property_bad(why, "size", "", "one request for the size and another for overcommit");
	return error;
}

int storage_new_properties(struct mgmt *mgmt, const Mgmt__PoolCreateReq *asked, struct catalog_pool_record *record,
			   struct fathom_fault *why)
{
	const struct catalog_pool pool = { .record = *record };
	Mgmt__PoolSetPropReq request = MGMT__POOL_SET_PROP_REQ__INIT;
	struct setting setting = { .mgmt = mgmt,
				   .pool = &pool,
				   .next = *record,
				   .change = { .rank_bytes = record->rank_bytes, .overcommit = record->overcommit } };
	int error;

	request.properties = asked->properties;
	request.n_properties = asked->n_properties;
	error = set_properties(&setting, &request, why);
	if (error)
		return error;
	*record = setting.next;
	record->rank_bytes = setting.change.rank_bytes;
	record->overcommit = setting.change.overcommit;
	record->scrub_off = setting.change.scrub_off;
	record->scrub_seconds = setting.change.scrub_seconds;
	return 0;
}

bool storage_property_differs(const Mgmt__PoolProperty *asked, const struct catalog_pool_record *found,
			      const struct catalog_pool_record *given, struct storage_difference *difference_ret)
{
	const struct property *property = find_property(asked);
	struct shown shown;

	must(property); /* storage_new_properties() has read the request */
	show_property(property, found, &shown);
	(void)text_copy(difference_ret->found, sizeof(difference_ret->found), shown.message.text);
	show_property(property, given, &shown);
	(void)text_copy(difference_ret->given, sizeof(difference_ret->given), shown.message.text);
	difference_ret->name = property->name;
	return strcmp(difference_ret->found, difference_ret->given) != 0;
}

/* Whether the request differs from the record in what is only in the catalog. */
static bool has_changed(const struct catalog_pool_record *record, const struct catalog_pool_record *next)
{
	return strcmp(record->name, next->name) != 0 || strcmp(record->owner, next->owner) != 0 ||
	       strcmp(record->group, next->group) != 0 || record->thick != next->thick ||
	       record->checksums != next->checksums;
}

/* Whether engines have to be called, or are being called. */
static bool concerns_engines(const struct catalog_pool_record *record, const struct setting *setting)
{
	return setting->has_kept && (record->change.is_set || storage_set_differences(record, &setting->change));
}

/* The pool; also by the label that this request has changed before. */
static int find_pool(struct mgmt *mgmt, const Mgmt__PoolSetPropReq *asked, struct catalog_pool **pool_ret,
		     struct fathom_fault *why)
{
	struct fathom_fault absent = { 0 };
	int error = storage_find_pool(mgmt, asked->id, pool_ret, &absent);
	struct catalog_pool *pool;

	TAILQ_FOREACH (pool, &mgmt->catalog->pools, link) {
		if (error && *asked->id && strcmp(pool->record.former, asked->id) == 0)
			break;
	}
	for (size_t i = 0; pool && i < asked->n_properties; i++) {
		const Mgmt__PoolProperty *label = asked->properties[i];

		if (!storage_is_property(label, PROPERTY_LABEL, "label") ||
		    strcmp(label->value_case == MGMT__POOL_PROPERTY__VALUE_STRVAL ? label->strval : label->text,
			   pool->record.name) != 0)
			continue;
		*pool_ret = pool;
		error = 0;
	}
	if (error) {
		*why = absent;
		return error;
	}
	if ((*pool_ret)->state == MGMT_POOL_READY)
		return 0;
	return storage_refuse_changing(*pool_ret, NULL, why);
}

/* Store what is only in the catalog. */
static int store_properties(struct setting *setting, struct grpc_call *call, struct catalog_pool *pool,
			    struct fathom_fault *why)
{
	char who[GRPC_WHO_BYTES];
	int error;

	if (!has_changed(&pool->record, &setting->next))
		return 0;
	error = catalog_store_pool(setting->mgmt->catalog, pool, &setting->next, why);
	if (!error)
		mgmt_raise_operation(setting->mgmt, setting->has_owner ? RAS_POOL_ACCESS_CHANGED : RAS_POOL_CHANGED,
				     "pool set-prop", grpc_call_who(call, who), "properties of pool \"%s\" were set: %s",
				     pool->record.name, setting->names);
	return error;
}

void storage_reply_set(const struct catalog_pool *pool, struct grpc_call *call)
{
	Mgmt__PoolSetPropResp response = MGMT__POOL_SET_PROP_RESP__INIT;
	char ranks[MGMT_RANKS_BYTES];
	uint32_t first;

	response.late_ranks = (char *)storage_late_ranks(&pool->record, UINT32_MAX, ranks, &first);
	grpc_reply(call, &response.base);
}

void mgmt_pool_set_prop(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Mgmt__PoolSetPropReq *asked = (const Mgmt__PoolSetPropReq *)request;
	struct mgmt *mgmt = mgmt_enter(call, asked->sys, true);
	struct setting setting = { .mgmt = mgmt };
	struct fathom_fault why = { 0 };
	struct catalog_pool *pool;
	int error;

	if (!mgmt)
		return;
	error = find_pool(mgmt, asked, &pool, &why);
	if (!error) {
		setting.pool = pool;
		setting.next = pool->record;
		setting.change = storage_set_values(&pool->record);
		error = set_properties(&setting, asked, &why);
	}
	if (!error)
		error = store_properties(&setting, call, pool, &why);
	if (error)
		mgmt_fail(call, error, &why);
	else if (concerns_engines(&pool->record, &setting))
		storage_set_begin(mgmt, call, pool, &setting.change);
	else
		storage_reply_set(pool, call);
}
