/* SPDX-License-Identifier: BSD-2-Clause */
#include "control/db/system_store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/text.h"
#include "base/json/json_memory.h"
#include "control/fault/fault.h"

#define VERSIONS_KEY "system/versions"
#define MEMBER_PREFIX "system/member/"
#define ATTRIBUTE_PREFIX "system/attribute/"
#define PROPERTY_PREFIX "system/property/"

enum { STORE_SCHEMA = 1, VERSIONS_BYTES = 160, MEMBER_KEY_BYTES = 40 };
static_assert(sizeof(MEMBER_PREFIX) + 8 <= MEMBER_KEY_BYTES, "a rank has 8 digits");
static_assert(SYSTEM_PAIRS_MAX + 1 <= DB_CHANGES_MAX, "all pairs and the versions fit into one transaction");
static_assert((int)SYSTEM_VALUE_BYTES <= (int)DB_VALUE_BYTES_MAX, "each value fits into a record");
static_assert(sizeof(ATTRIBUTE_PREFIX) + SYSTEM_NAME_BYTES <= DB_KEY_BYTES_MAX, "each name fits into a key");

struct loading {
	struct system_store *store;
	struct system *system;
	uint64_t tick;
	uint64_t version;
	uint32_t map_version;
	uint32_t next_rank;
	char bad_key[DB_KEY_BYTES_MAX]; /* the record that caused the error */
};

static int load_versions(struct loading *loading, const void *value, size_t bytes, uint64_t version)
{
	json_int_t schema, of_system, of_map, next_rank;
	json_t *json;
	int error;

	json_memory_begin();
	json = json_loadb(value, bytes, JSON_REJECT_DUPLICATES, NULL);
	error = json_memory_end(json_unpack(json, "{s:I, s:I, s:I, s:I !}", "schema", &schema, "version", &of_system,
					    "map_version", &of_map, "next_rank", &next_rank) == 0);
	json_decref(json);
	if (error)
		return error;
	if (schema != STORE_SCHEMA || of_system < 0 || of_map < 0 || of_map > UINT32_MAX || next_rank < 1 ||
	    next_rank > (json_int_t)RANK_MAX + 1)
		return -EBADMSG;
	loading->store->versions_revision = version;
	loading->version = (uint64_t)of_system;
	loading->map_version = (uint32_t)of_map;
	loading->next_rank = (uint32_t)next_rank;
	return 0;
}

static int load_member(struct loading *loading, const char *key, const void *value, size_t bytes)
{
	char expected[DB_KEY_BYTES_MAX];
	struct member member;
	int error = member_decode(value, bytes, &member);

	if (error)
		return error;
	snprintf(expected, sizeof(expected), MEMBER_PREFIX "%08x", member.rank);
	return strcmp(key, expected) == 0 ? system_load_member(loading->system, &member, loading->tick) : -EBADMSG;
}

static int load_pair(struct loading *loading, enum system_change_kind kind, const char *name, const void *value,
		     size_t bytes)
{
	struct system_pair pair = { .name = name };
	char *text;
	int error;

	if (bytes >= SYSTEM_VALUE_BYTES || memchr(value, '\0', bytes))
		return -EBADMSG;
	text = strndup(value, bytes);
	if (!text)
		return -ENOMEM;
	pair.value = text;
	error = system_load_pair(loading->system, kind, &pair);
	free(text);
	return error;
}

static int load_row(void *ctx, const char *key, const void *value, size_t bytes, uint64_t version)
{
	struct loading *loading = ctx;
	int error = -EBADMSG;

	if (strcmp(key, VERSIONS_KEY) == 0)
		error = load_versions(loading, value, bytes, version);
	else if (strncmp(key, MEMBER_PREFIX, strlen(MEMBER_PREFIX)) == 0)
		error = load_member(loading, key, value, bytes);
	else if (strncmp(key, ATTRIBUTE_PREFIX, strlen(ATTRIBUTE_PREFIX)) == 0)
		error = load_pair(loading, SYSTEM_ATTRIBUTES, key + strlen(ATTRIBUTE_PREFIX), value, bytes);
	else if (strncmp(key, PROPERTY_PREFIX, strlen(PROPERTY_PREFIX)) == 0)
		error = load_pair(loading, SYSTEM_PROPERTIES, key + strlen(PROPERTY_PREFIX), value, bytes);
	if (error)
		must(text_copy(loading->bad_key, sizeof(loading->bad_key), key) == 0);
	return error;
}

int system_store_load(struct db *db, uint64_t tick, struct system_store *store_ret, struct system **system_ret,
		      struct fathom_fault *why)
{
	struct system_store store = { .db = db };
	struct loading loading = { .store = &store, .system = system_create(), .tick = tick, .next_rank = 1 };
	int error = loading.system ? db_scan(db, "system/", load_row, &loading, why) : -ENOMEM;

	if (!error) {
		error = system_load_versions(loading.system, loading.version, loading.map_version, loading.next_rank);
		if (error)
			must(text_copy(loading.bad_key, sizeof(loading.bad_key), VERSIONS_KEY) == 0);
	}
	if ((error == -EBADMSG || error == -ERANGE) && loading.bad_key[0])
		error = fault_db_value_bad(why, loading.bad_key, "it contradicts the others, or is of another form");
	if (error) {
		system_destroy(loading.system);
		return error;
	}
	must(store.versions_revision <= db_revision(db));
	*store_ret = store;
	*system_ret = loading.system;
	return 0;
}

static void format_key(char *key, const char *prefix, const char *name)
{
	must((size_t)snprintf(key, DB_KEY_BYTES_MAX, "%s%s", prefix, name) < DB_KEY_BYTES_MAX);
}

static void make_versions_put(const struct system_store *store, const struct system_change *change, char *text,
			      struct db_change *put_ret)
{
	int bytes = snprintf(text, VERSIONS_BYTES,
			     "{\"schema\":%d,\"version\":%" PRIu64 ",\"map_version\":%" PRIu32 ",\"next_rank\":%" PRIu32
			     "}",
			     STORE_SCHEMA, change->version, change->map_version, change->next_rank);

	must(bytes < VERSIONS_BYTES);
	must(change->version > 0);
	must(change->next_rank > 0);
	*put_ret = (struct db_change){ .key = VERSIONS_KEY,
				       .expected = store->versions_revision,
				       .what = DB_PUT,
				       .value = text,
				       .bytes = (size_t)bytes };
}

/* Build the change of one member's record. `key` and `*text_ret` must live until the commit; the caller frees the text. */
static int make_member_change(const struct system_change *change, char *key, char **text_ret, struct db_change *put_ret)
{
	snprintf(key, MEMBER_KEY_BYTES, MEMBER_PREFIX "%08x", change->member.rank);
	*put_ret = (struct db_change){ .key = key, .expected = DB_VERSION_ANY, .what = DB_DELETE };
	if (change->kind == SYSTEM_MEMBER_GONE)
		return 0;
	must(change->kind == SYSTEM_MEMBER);
	if (member_encode(&change->member, text_ret) < 0)
		return -ENOMEM;
	put_ret->what = DB_PUT;
	put_ret->value = *text_ret;
	put_ret->bytes = strlen(*text_ret);
	return 0;
}

int system_store_members(struct system_store *store, const struct system_change *changes, size_t count,
			 struct fathom_fault *why)
{
	struct db_change *puts = calloc(count + 1, sizeof(*puts));
	char(*keys)[MEMBER_KEY_BYTES] = calloc(count, sizeof(*keys));
	char **texts = calloc(count, sizeof(*texts)), versions[VERSIONS_BYTES];
	int error = puts && keys && texts ? 0 : -ENOMEM;

	must(count > 0);
	must(count <= SYSTEM_STORE_MEMBERS_MAX);
	for (size_t i = 1; i < count; i++)
		must(changes[i].version == changes[i - 1].version + 1);
	if (!error)
		make_versions_put(store, &changes[count - 1], versions, &puts[0]);
	for (size_t i = 0; !error && i < count; i++)
		error = make_member_change(&changes[i], keys[i], &texts[i], &puts[i + 1]);
	if (!error)
		error = db_commit(store->db, puts, count + 1, NULL, why);
	for (size_t i = 0; texts && i < count; i++)
		free(texts[i]);
	free(texts);
	free(keys);
	free(puts);
	must(error || db_revision(store->db) > store->versions_revision);
	if (!error)
		store->versions_revision = db_revision(store->db);
	return error;
}

static int store_pairs(struct system_store *store, const struct system_change *change, struct db_change *changes,
		       struct fathom_fault *why)
{
	const char *prefix = change->kind == SYSTEM_ATTRIBUTES ? ATTRIBUTE_PREFIX : PROPERTY_PREFIX;
	char(*keys)[DB_KEY_BYTES_MAX] = calloc(max_u64(change->pair_count, 1), sizeof(*keys));
	int error;

	if (!keys)
		return -ENOMEM;
	for (size_t i = 0; i < change->pair_count; i++) {
		const struct system_pair *pair = &change->pairs[i];

		format_key(keys[i], prefix, pair->name);
		changes[i + 1] = (struct db_change){ .key = keys[i],
						     .expected = DB_VERSION_ANY,
						     .what = *pair->value ? DB_PUT : DB_DELETE,
						     .value = pair->value,
						     .bytes = strlen(pair->value) };
	}
	error = db_commit(store->db, changes, change->pair_count + 1, NULL, why);
	free(keys);
	return error;
}

int system_store_change(struct system_store *store, const struct system_change *change, struct fathom_fault *why)
{
	struct db_change *changes;
	char versions[VERSIONS_BYTES];
	int error;

	if (change->kind == SYSTEM_MEMBER || change->kind == SYSTEM_MEMBER_GONE)
		return system_store_members(store, change, 1, why);
	must(change->kind == SYSTEM_ATTRIBUTES || change->kind == SYSTEM_PROPERTIES);
	must(change->pair_count <= SYSTEM_PAIRS_MAX);
	changes = calloc(change->pair_count + 1, sizeof(*changes));
	if (!changes)
		return -ENOMEM;
	make_versions_put(store, change, versions, &changes[0]);
	error = store_pairs(store, change, changes, why);
	free(changes);
	if (!error)
		store->versions_revision = db_revision(store->db);
	return error;
}

int system_store_restored(struct db *db, struct fathom_fault *why)
{
	struct system_change change = { .kind = SYSTEM_ATTRIBUTES };
	struct system_store store;
	struct system *system;
	int error = system_store_load(db, 0, &store, &system, why);

	if (error)
		return error;
	change.version = system_version(system) + 1;
	change.map_version = (uint32_t)min_u64((uint64_t)system_map_version(system) + SYSTEM_STORE_MAP_LEAP, UINT32_MAX);
	change.next_rank = system_next_rank(system);
	/* a database without a system has no map version that an engine could have passed */
	if (system_version(system) > 0)
		error = system_store_change(&store, &change, why);
	system_destroy(system);
	return error;
}
