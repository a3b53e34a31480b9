/* SPDX-License-Identifier: BSD-2-Clause */
/* Encode and decode the records of the catalog as JSON (docs/formats/catalog.md). */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/json/json_memory.h"
#include "base/text.h"
#include "control/mgmt/catalog/catalog.h"

static const char *const pool_states[] = {
	[MGMT_POOL_CREATING] = "creating",
	[MGMT_POOL_READY] = "ready",
	[MGMT_POOL_DESTROYING] = "destroying",
};
static const char *const volume_states[] = {
	[MGMT_VOLUME_CREATING] = "creating",
	[MGMT_VOLUME_READY] = "ready",
	[MGMT_VOLUME_DESTROYING] = "destroying",
};
static const char *const changes[] = {
	[CATALOG_NO_CHANGE] = "",	 [CATALOG_RESIZE] = "resize",	    [CATALOG_RENAME] = "rename",
	[CATALOG_PUBLISH] = "publish",	 [CATALOG_UNPUBLISH] = "unpublish", [CATALOG_MOVE] = "move",
	[CATALOG_SET_PROP] = "set-prop",
};
static const char *const phases[] = {
	[MGMT_MOVE_IDLE] = "",
	[MGMT_MOVE_COPYING] = "copying",
	[MGMT_MOVE_SWITCHING] = "switching",
	[MGMT_MOVE_SETTLING] = "settling",
	[MGMT_MOVE_UNDOING] = "undoing",
};

/* The index of `name`; -1: none. */
static int find_word(const char *const *words, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++) {
		if (strcmp(words[i], name) == 0)
			return (int)i;
	}
	return -1;
}

static int finish_encoding(json_t *json, char **text_ret)
{
	char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;

	json_decref(json);
	if (json_memory_end(text) < 0) {
		free(text);
		return -ENOMEM;
	}
	*text_ret = text;
	return 0;
}

static json_t *pack_place(const struct catalog_place *place)
{
	char uuid[MEMBER_UUID_TEXT_BYTES];

	return json_pack("{s:I, s:s}", "rank", (json_int_t)place->rank, "member", member_uuid_format(place->member, uuid));
}

static bool unpack_place(json_t *json, struct catalog_place *place)
{
	const char *uuid;
	json_int_t rank;

	if (json_unpack(json, "{s:I, s:s !}", "rank", &rank, "member", &uuid) < 0 || rank < 0 || rank > RANK_MAX ||
	    member_uuid_parse(uuid, place->member) < 0)
		return false;
	place->rank = (uint32_t)rank;
	return true;
}

static json_t *pack_placement(const struct catalog_placement *placement)
{
	return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "reason", placement_reason_text(placement->reason),
			 "rank", (json_int_t)placement->rank, "possible", (json_int_t)placement->possible, "volumes",
			 (json_int_t)placement->volumes, "published", (json_int_t)placement->published, "free_bytes",
			 (json_int_t)placement->free_bytes, "operations", (json_int_t)placement->operations, "bytes",
			 (json_int_t)placement->bytes);
}

/* NULL: the record is of a release that kept no reason. */
static bool unpack_placement(json_t *json, struct catalog_placement *placement)
{
	json_int_t rank, possible, volumes, published, free_bytes, operations, bytes;
	const char *reason;

	if (!json)
		return true;
	if (json_unpack(json, "{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I !}", "reason", &reason, "rank", &rank, "possible",
			&possible, "volumes", &volumes, "published", &published, "free_bytes", &free_bytes, "operations",
			&operations, "bytes", &bytes) < 0 ||
	    rank < 0 || rank > RANK_MAX || free_bytes < 0 || operations < 0 || bytes < 0)
		return false;
	*placement = (struct catalog_placement){
		.reason = placement_reason_parse(reason),
		.rank = (uint32_t)rank,
		.possible = (uint32_t)possible,
		.volumes = (uint32_t)volumes,
		.published = (uint32_t)published,
		.free_bytes = (uint64_t)free_bytes,
		.operations = (uint64_t)operations,
		.bytes = (uint64_t)bytes,
	};
	return true;
}

/* ---- pools ---- */

/* The keys of a pool of which no property was changed are those of the releases that had no properties. */
static void pack_properties(json_t *json, const struct catalog_pool_record *record)
{
	const struct catalog_pool_change *change = &record->change;

	if (record->key[0] && strcmp(record->name, record->key) != 0)
		json_object_set_new(json, "label", json_string(record->name));
	if (record->former[0])
		json_object_set_new(json, "former", json_string(record->former));
	if (record->scrub_off)
		json_object_set_new(json, "scrub_off", json_true());
	if (record->scrub_seconds)
		json_object_set_new(json, "scrub_seconds", json_integer(record->scrub_seconds));
	if (record->thick)
		json_object_set_new(json, "thick", json_true());
	if (record->checksums)
		json_object_set_new(json, "checksums", json_true());
	if (change->is_set)
		json_object_set_new(json, "change",
				    json_pack("{s:I, s:b, s:b, s:I, s:I, s:s}", "rank_bytes",
					      (json_int_t)change->rank_bytes, "overcommit", (int)change->overcommit,
					      "scrub_off", (int)change->scrub_off, "scrub_seconds",
					      (json_int_t)change->scrub_seconds, "since_ns", (json_int_t)change->since_ns,
					      "undo", change->undo));
}

static json_t *pack_share(const struct catalog_pool_record *record, uint32_t index)
{
	json_t *json = pack_place(&record->places[index]);
	char uuid[MEMBER_UUID_TEXT_BYTES];

	if (record->uses) {
		json_object_set_new(json, "state", json_string(catalog_share_word(record->uses[index].state)));
		json_object_set_new(json, "since_ns", json_integer((json_int_t)record->uses[index].since_ns));
	}
	if (record->uses && record->uses[index].has_former)
		json_object_set_new(json, "former", json_string(member_uuid_format(record->uses[index].former, uuid)));
	if (record->uses && record->uses[index].late) {
		json_object_set_new(json, "late", json_integer(record->uses[index].late));
		json_object_set_new(json, "late_ns", json_integer((json_int_t)record->uses[index].late_ns));
	}
	return json;
}

/* Remove the keys of what is late, which are optional. */
static bool take_late(json_t *json, struct catalog_use *use)
{
	json_int_t late = 0, late_ns = 0;

	if (json_unpack(json, "{s?I, s?I}", "late", &late, "late_ns", &late_ns) < 0 || late < 0 || late > UINT32_MAX ||
	    (late == 0) != (late_ns == 0))
		return false;
	use->late = (uint32_t)late;
	use->late_ns = (uint64_t)late_ns;
	(void)json_object_del(json, "late"); /* it is there; the rest is a place */
	(void)json_object_del(json, "late_ns");
	return true;
}

/* A place without a state is of a pool whose shares have never changed, or of an older release. */
static bool unpack_share(json_t *json, struct catalog_pool_record *record, uint32_t index)
{
	struct catalog_use use = { .state = MGMT_SHARE_UP, .since_ns = record->created_ns };
	json_t *state = json_object_get(json, "state"), *since_ns = json_object_get(json, "since_ns");
	json_t *former = json_object_get(json, "former");
	int found = MGMT_SHARE_UP;

	if (state || since_ns || former) {
		found = json_is_string(state) ? catalog_share_state(json_string_value(state)) : -1;
		if (found < 0 || !json_is_integer(since_ns))
			return false;
		use.state = (enum mgmt_share_state)found;
		use.since_ns = (uint64_t)json_integer_value(since_ns);
		use.has_former = former != NULL;
		if (former && (use.state != MGMT_SHARE_EXTENDING && use.state != MGMT_SHARE_REMOVING))
			return false;
		if (former && (!json_is_string(former) || member_uuid_parse(json_string_value(former), use.former) < 0))
			return false;
		(void)json_object_del(json, "state"); /* likewise */
		(void)json_object_del(json, "since_ns");
		(void)json_object_del(json, "former");
	}
	if (!take_late(json, &use))
		return false;
	record->uses[index] = use;
	return unpack_place(json, &record->places[index]);
}

int catalog_encode_pool(const struct catalog_pool_record *record, char **text_ret)
{
	json_t *json, *places, *acl;
	char entry[ACL_ENTRY_BYTES];

	must(record->place_count > 0);
	must(record->acl);
	must(record->rank_bytes <= CATALOG_BYTES_MAX && record->change.rank_bytes <= CATALOG_BYTES_MAX);
	json_memory_begin();
	places = json_array();
	for (uint32_t i = 0; i < record->place_count; i++)
		json_array_append_new(places, pack_share(record, i));
	acl = json_array();
	for (uint32_t i = 0; i < record->acl->count; i++)
		json_array_append_new(acl, json_string(acl_format_entry(&record->acl->entries[i], entry)));
	json = json_pack("{s:i, s:s, s:s, s:I, s:I, s:s, s:s, s:I, s:b, s:b, s:s, s:o, s:o}", "schema", CATALOG_SCHEMA,
			 "uuid", record->uuid, "state", pool_states[record->state], "created_ns",
			 (json_int_t)record->created_ns, "since_ns", (json_int_t)record->since_ns, "owner", record->owner,
			 "group", record->group, "rank_bytes", (json_int_t)record->rank_bytes, "overcommit",
			 (int)record->overcommit, "force", (int)record->is_forced, "undo", record->undo, "places", places,
			 "acl", acl);
	pack_properties(json, record);
	return finish_encoding(json, text_ret);
}

/* A record without a list is of a release that had none. Then any agent could publish its volumes. */
static bool unpack_acl(json_t *json, struct catalog_pool_record *record)
{
	const char *texts[ACL_ENTRIES_MAX];
	size_t count = json_array_size(json);

	if (!json) {
		record->acl = acl_everyone();
		return record->acl;
	}
	if (!json_is_array(json) || count > ACL_ENTRIES_MAX)
		return false;
	for (size_t i = 0; i < count; i++) {
		texts[i] = json_string_value(json_array_get(json, i));
		if (!texts[i])
			return false;
	}
	return acl_create(texts, count, &record->acl, NULL) == 0;
}

/* Shares that have never changed have no states, so that the record is written again as it was. */
static void forget_first_uses(struct catalog_pool_record *record)
{
	for (uint32_t i = 0; i < record->place_count; i++) {
		if (record->uses[i].state != MGMT_SHARE_UP || record->uses[i].since_ns != record->created_ns ||
		    record->uses[i].late)
			return;
	}
	free(record->uses);
	record->uses = NULL;
}

static bool unpack_places(json_t *json, struct catalog_pool_record *record)
{
	size_t count = json_array_size(json);

	if (count == 0 || count > CATALOG_PLACES_MAX)
		return false;
	record->places = calloc(count, sizeof(*record->places));
	record->uses = calloc(count, sizeof(*record->uses));
	record->place_count = record->places && record->uses ? (uint32_t)count : 0;
	for (uint32_t i = 0; i < record->place_count; i++) {
		if (!unpack_share(json_array_get(json, i), record, i) ||
		    (i > 0 && record->places[i - 1].rank >= record->places[i].rank))
			return false;
	}
	if (record->place_count == 0)
		return false;
	forget_first_uses(record);
	return true;
}

static bool unpack_pool_change(json_t *json, struct catalog_pool_change *change)
{
	json_int_t rank_bytes, scrub_seconds, since_ns;
	int overcommit, scrub_off;
	const char *undo;

	if (!json)
		return true;
	if (json_unpack(json, "{s:I, s:b, s:b, s:I, s:I, s:s !}", "rank_bytes", &rank_bytes, "overcommit", &overcommit,
			"scrub_off", &scrub_off, "scrub_seconds", &scrub_seconds, "since_ns", &since_ns, "undo", &undo) < 0)
		return false;
	change->is_set = true;
	change->rank_bytes = (uint64_t)rank_bytes;
	change->overcommit = overcommit;
	change->scrub_off = scrub_off;
	change->scrub_seconds = (uint32_t)scrub_seconds;
	change->since_ns = (uint64_t)since_ns;
	return rank_bytes >= 0 && change->rank_bytes <= CATALOG_BYTES_MAX && scrub_seconds >= 0 &&
	       scrub_seconds <= UINT32_MAX && text_copy(change->undo, sizeof(change->undo), undo) == 0;
}

/* Remove the keys of pack_properties() from `json`. */
static bool take_properties(json_t *json, struct catalog_pool_record *record)
{
	static const char *const keys[] = {
		"label", "former", "scrub_off", "scrub_seconds", "thick", "checksums", "change"
	};
	const char *label = "", *former = "";
	int scrub_off = 0, thick = 0, checksums = 0;
	json_int_t scrub_seconds = 0;
	json_t *change = NULL;
	bool is_good;

	if (json_unpack(json, "{s?s, s?s, s?b, s?I, s?b, s?b, s?o}", "label", &label, "former", &former, "scrub_off",
			&scrub_off, "scrub_seconds", &scrub_seconds, "thick", &thick, "checksums", &checksums, "change",
			&change) < 0)
		return false;
	record->scrub_off = scrub_off;
	record->scrub_seconds = (uint32_t)scrub_seconds;
	record->thick = thick;
	record->checksums = checksums;
	is_good = scrub_seconds >= 0 && scrub_seconds <= UINT32_MAX &&
		  text_copy(record->name, sizeof(record->name), label) == 0 &&
		  text_copy(record->former, sizeof(record->former), former) == 0 &&
		  unpack_pool_change(change, &record->change);
	for (size_t i = 0; i < ARRAY_COUNT(keys); i++)
		json_object_del(json, keys[i]);
	return is_good;
}

static bool unpack_pool(json_t *json, struct catalog_pool_record *record)
{
	const char *uuid, *state, *owner, *group, *undo;
	json_int_t created_ns, since_ns, rank_bytes;
	uint8_t bytes[MEMBER_UUID_BYTES];
	int schema, overcommit, force, state_index;
	json_t *places, *acl = NULL;

	if (json_unpack(json, "{s:i, s:s, s:s, s:I, s:I, s:s, s:s, s:I, s:b, s:b, s:s, s:o, s?o !}", "schema", &schema,
			"uuid", &uuid, "state", &state, "created_ns", &created_ns, "since_ns", &since_ns, "owner", &owner,
			"group", &group, "rank_bytes", &rank_bytes, "overcommit", &overcommit, "force", &force, "undo",
			&undo, "places", &places, "acl", &acl) < 0)
		return false;
	state_index = find_word(pool_states, ARRAY_COUNT(pool_states), state);
	if (schema != CATALOG_SCHEMA || state_index < 0 || rank_bytes < 0 || (uint64_t)rank_bytes > CATALOG_BYTES_MAX ||
	    member_uuid_parse(uuid, bytes) < 0)
		return false;
	record->state = (enum mgmt_pool_state)state_index;
	record->created_ns = (uint64_t)created_ns;
	record->since_ns = (uint64_t)since_ns;
	record->rank_bytes = (uint64_t)rank_bytes;
	record->overcommit = overcommit;
	record->is_forced = force;
	return text_copy(record->uuid, sizeof(record->uuid), uuid) == 0 &&
	       text_copy(record->owner, sizeof(record->owner), owner) == 0 &&
	       text_copy(record->group, sizeof(record->group), group) == 0 &&
	       text_copy(record->undo, sizeof(record->undo), undo) == 0 && unpack_places(places, record) &&
	       unpack_acl(acl, record);
}

int catalog_decode_pool(const char *text, size_t bytes, struct catalog_pool_record *record_ret)
{
	json_t *json;
	bool is_good;
	int error;

	memset(record_ret, 0, sizeof(*record_ret));
	json_memory_begin();
	json = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL);
	is_good = json && take_properties(json, record_ret) && unpack_pool(json, record_ret);
	json_decref(json);
	error = json_memory_end(is_good);
	if (error) {
		free(record_ret->places);
		free(record_ret->uses);
		free(record_ret->acl);
		record_ret->places = NULL;
		record_ret->uses = NULL;
		record_ret->acl = NULL;
	}
	return error;
}

/* ---- volumes ---- */

/* What few moves have is written only of them. A former release cannot read the record of a move that has a serial. */
static json_t *pack_move(const struct catalog_change *change)
{
	json_t *json = json_pack("{s:s, s:I, s:s, s:I, s:b, s:s, s:o}", "kind", changes[change->kind], "size_bytes",
				 (json_int_t)change->size_bytes, "text", change->text, "since_ns",
				 (json_int_t)change->since_ns, "force", (int)change->is_forced, "phase",
				 phases[change->phase], "place", pack_place(&change->place));

	if (json && change->serial)
		json_object_set_new(json, "serial", json_integer((json_int_t)change->serial));
	if (json && change->is_drain)
		json_object_set_new(json, "drain", json_true());
	return json;
}

static json_t *pack_change(const struct catalog_change *change)
{
	if (change->kind == CATALOG_NO_CHANGE)
		return json_null();
	if (change->kind == CATALOG_PUBLISH && change->machine[0])
		return json_pack("{s:s, s:I, s:s, s:I, s:b, s:s}", "kind", changes[change->kind], "size_bytes",
				 (json_int_t)change->size_bytes, "text", change->text, "since_ns",
				 (json_int_t)change->since_ns, "force", (int)change->is_forced, "machine", change->machine);
	if (change->kind == CATALOG_MOVE)
		return pack_move(change);
	return json_pack("{s:s, s:I, s:s, s:I, s:b}", "kind", changes[change->kind], "size_bytes",
			 (json_int_t)change->size_bytes, "text", change->text, "since_ns", (json_int_t)change->since_ns,
			 "force", (int)change->is_forced);
}

/* What only a move has. */
static bool unpack_move(const char *phase, json_t *place, struct catalog_change *change)
{
	int index;

	if (change->kind != CATALOG_MOVE)
		return !phase && !place && !change->is_drain && !change->serial;
	if (!phase || !place)
		return false;
	index = find_word(phases, ARRAY_COUNT(phases), phase);
	if (index <= 0)
		return false;
	change->phase = (enum mgmt_move_state)index;
	return unpack_place(place, &change->place);
}

static bool unpack_change(json_t *json, struct catalog_change *change)
{
	json_int_t size_bytes, since_ns, serial = 0;
	const char *kind, *text, *phase = NULL, *machine = "";
	json_t *place = NULL;
	int force, index, drain = 0;

	if (json_is_null(json))
		return true;
	if (json_unpack(json, "{s:s, s:I, s:s, s:I, s:b, s?s, s?o, s?s, s?b, s?I !}", "kind", &kind, "size_bytes",
			&size_bytes, "text", &text, "since_ns", &since_ns, "force", &force, "phase", &phase, "place",
			&place, "machine", &machine, "drain", &drain, "serial", &serial) < 0)
		return false;
	index = find_word(changes, ARRAY_COUNT(changes), kind);
	if (index <= 0 || size_bytes < 0 || (uint64_t)size_bytes > CATALOG_BYTES_MAX)
		return false;
	change->kind = (enum catalog_change_kind)index;
	change->size_bytes = (uint64_t)size_bytes;
	change->since_ns = (uint64_t)since_ns;
	change->is_forced = force;
	change->is_drain = drain;
	change->serial = (uint64_t)serial;
	return text_copy(change->text, sizeof(change->text), text) == 0 &&
	       text_copy(change->machine, sizeof(change->machine), machine) == 0 && unpack_move(phase, place, change);
}

/* A text, if an administrator has published it; so are all hosts in records of older releases. */
static json_t *pack_host(const struct catalog_host *host)
{
	if (!host->machine[0])
		return json_string(host->nqn);
	return json_pack("{s:s, s:s}", "nqn", host->nqn, "machine", host->machine);
}

static bool unpack_host(json_t *json, struct catalog_host *host)
{
	const char *nqn = json_string_value(json), *machine = "";

	if (!nqn && json_unpack(json, "{s:s, s:s !}", "nqn", &nqn, "machine", &machine) < 0)
		return false;
	return text_copy(host->nqn, sizeof(host->nqn), nqn) == 0 &&
	       text_copy(host->machine, sizeof(host->machine), machine) == 0;
}

/* What few volumes have; a former release reads the records of the others. Takes `json`. */
static json_t *add_rare(json_t *json, const struct catalog_volume_record *record)
{
	if (json && record->description[0])
		json_object_set_new(json, "description", json_string(record->description));
	if (json && record->read_only)
		json_object_set_new(json, "read_only", json_true());
	return json;
}

int catalog_encode_volume(const struct catalog_volume_record *record, char **text_ret)
{
	json_t *json, *hosts;

	must(record->size_bytes <= CATALOG_BYTES_MAX);
	must(record->host_count <= CATALOG_HOSTS_MAX);
	json_memory_begin();
	hosts = json_array();
	for (uint32_t i = 0; i < record->host_count; i++)
		json_array_append_new(hosts, pack_host(&record->hosts[i]));
	json = json_pack("{s:i, s:s, s:s, s:I, s:I, s:I, s:I, s:b, s:b, s:b, s:s, s:s, s:s, s:o, s:o, s:o}", "schema",
			 CATALOG_SCHEMA, "uuid", record->uuid, "state", volume_states[record->state], "created_ns",
			 (json_int_t)record->created_ns, "since_ns", (json_int_t)record->since_ns, "size_bytes",
			 (json_int_t)record->size_bytes, "block_bytes", (json_int_t)record->block_bytes, "thick",
			 (int)record->thick, "checksums", (int)record->checksums, "force", (int)record->is_forced, "origin",
			 record->origin, "former", record->former, "undo", record->undo, "place",
			 pack_place(&record->place), "change", pack_change(&record->change), "hosts", hosts);
	if (record->placement.reason != PLACEMENT_UNKNOWN)
		json_object_set_new(json, "placement", pack_placement(&record->placement));
	return finish_encoding(add_rare(json, record), text_ret);
}

static bool unpack_hosts(json_t *json, struct catalog_volume_record *record)
{
	size_t count = json_array_size(json);

	if (!json_is_array(json) || count > CATALOG_HOSTS_MAX)
		return false;
	if (count == 0)
		return true;
	record->hosts = calloc(count, sizeof(*record->hosts));
	for (size_t i = 0; record->hosts && i < count; i++) {
		if (!unpack_host(json_array_get(json, i), &record->hosts[i]))
			return false;
		record->host_count++;
	}
	return record->hosts;
}

/* "" or "VOLUME@SNAPSHOT" */
static bool unpack_origin(const char *text, struct catalog_volume_record *record)
{
	struct catalog_full_name name;
	char full[CATALOG_FULL_BYTES + 2];

	if (!*text)
		return true;
	if (text_copy(record->origin, sizeof(record->origin), text) < 0)
		return false;
	snprintf(full, sizeof(full), "p/%s", text);
	return catalog_split_name(full, true, &name, NULL) == 0;
}

static bool unpack_volume(json_t *json, struct catalog_volume_record *record)
{
	json_int_t created_ns, since_ns, size_bytes, block_bytes;
	const char *uuid, *state, *origin, *former, *undo, *description = "";
	int schema, thick, checksums, force, state_index, read_only = 0;
	uint8_t bytes[MEMBER_UUID_BYTES];
	json_t *place, *change, *hosts;

	if (!unpack_placement(json_object_get(json, "placement"), &record->placement))
		return false;
	(void)json_object_del(json, "placement"); /* most records of older releases have none */
	if (json_unpack(json,
			"{s:i, s:s, s:s, s:I, s:I, s:I, s:I, s:b, s:b, s:b, s:s, s:s, s:s, s:o, s:o, s:o, s?s, s?b !}",
			"schema", &schema, "uuid", &uuid, "state", &state, "created_ns", &created_ns, "since_ns", &since_ns,
			"size_bytes", &size_bytes, "block_bytes", &block_bytes, "thick", &thick, "checksums", &checksums,
			"force", &force, "origin", &origin, "former", &former, "undo", &undo, "place", &place, "change",
			&change, "hosts", &hosts, "description", &description, "read_only", &read_only) < 0)
		return false;
	state_index = find_word(volume_states, ARRAY_COUNT(volume_states), state);
	if (schema != CATALOG_SCHEMA || state_index < 0 || size_bytes < 0 || (uint64_t)size_bytes > CATALOG_BYTES_MAX ||
	    block_bytes < 1 || block_bytes > UINT32_MAX || member_uuid_parse(uuid, bytes) < 0)
		return false;
	record->state = (enum mgmt_volume_state)state_index;
	record->created_ns = (uint64_t)created_ns;
	record->since_ns = (uint64_t)since_ns;
	record->size_bytes = (uint64_t)size_bytes;
	record->block_bytes = (uint32_t)block_bytes;
	record->thick = thick;
	record->checksums = checksums;
	record->read_only = read_only;
	record->is_forced = force;
	return text_copy(record->uuid, sizeof(record->uuid), uuid) == 0 && unpack_origin(origin, record) &&
	       text_copy(record->former, sizeof(record->former), former) == 0 &&
	       text_copy(record->description, sizeof(record->description), description) == 0 &&
	       text_copy(record->undo, sizeof(record->undo), undo) == 0 && unpack_place(place, &record->place) &&
	       unpack_change(change, &record->change) && unpack_hosts(hosts, record);
}

int catalog_decode_volume(const char *text, size_t bytes, struct catalog_volume_record *record_ret)
{
	json_t *json;
	bool is_good;
	int error;

	memset(record_ret, 0, sizeof(*record_ret));
	json_memory_begin();
	json = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL);
	is_good = json && unpack_volume(json, record_ret);
	json_decref(json);
	error = json_memory_end(is_good);
	if (error) {
		free(record_ret->hosts);
		record_ret->hosts = NULL;
	}
	return error;
}
