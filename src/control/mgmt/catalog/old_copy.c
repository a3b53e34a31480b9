/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What moved volumes have left on ranks that were down. A record appears in the transaction that ends the move, and is
 * removed when the rank's engine has erased the copy, or when the rank's member is gone. Until then the volume does not
 * move there.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/json/json_memory.h"
#include "base/text.h"
#include "control/fault/fault.h"
#include "control/mgmt/catalog/catalog.h"

#define PREFIX "old-copy/"

enum { KEY_BYTES = 64 };

static void write_key(const char *uuid, uint32_t rank, char *key)
{
	must((size_t)snprintf(key, KEY_BYTES, PREFIX "%s/%" PRIu32, uuid, rank) < KEY_BYTES);
}

struct catalog_old_copy *catalog_find_old_copy(const struct catalog *catalog, const char *uuid, uint32_t rank)
{
	struct catalog_old_copy *copy;

	TAILQ_FOREACH (copy, &catalog->old_copies, link) {
		if (copy->place.rank == rank && strcmp(copy->uuid, uuid) == 0)
			return copy;
	}
	return NULL;
}

uint32_t catalog_count_old_copies(const struct catalog *catalog, const char *pool_uuid, uint32_t rank)
{
	const struct catalog_old_copy *copy;
	uint32_t count = 0;

	TAILQ_FOREACH (copy, &catalog->old_copies, link)
		count += copy->place.rank == rank && strcmp(copy->pool_uuid, pool_uuid) == 0;
	return count;
}

/* ---- records as text ---- */

/* The caller frees `*text_ret`. Errors: -ENOMEM. */
static int encode(const struct catalog_old_copy *copy, char **text_ret)
{
	char member[MEMBER_UUID_TEXT_BYTES], *text;
	json_t *json;

	json_memory_begin();
	json = json_pack("{s:i, s:s, s:s, s:s, s:s, s:I, s:s, s:I}", "schema", CATALOG_SCHEMA, "pool", copy->pool,
			 "pool_uuid", copy->pool_uuid, "volume", copy->volume, "uuid", copy->uuid, "rank",
			 (json_int_t)copy->place.rank, "member", member_uuid_format(copy->place.member, member), "since_ns",
			 (json_int_t)copy->since_ns);
	text = json ? json_dumps(json, JSON_COMPACT) : NULL;
	json_decref(json);
	if (json_memory_end(text) < 0) {
		free(text);
		return -ENOMEM;
	}
	*text_ret = text;
	return 0;
}

static bool unpack(json_t *json, struct catalog_old_copy *copy)
{
	const char *pool, *pool_uuid, *volume, *uuid, *member;
	uint8_t bytes[MEMBER_UUID_BYTES];
	json_int_t rank, since_ns;
	int schema;

	if (json_unpack(json, "{s:i, s:s, s:s, s:s, s:s, s:I, s:s, s:I !}", "schema", &schema, "pool", &pool, "pool_uuid",
			&pool_uuid, "volume", &volume, "uuid", &uuid, "rank", &rank, "member", &member, "since_ns",
			&since_ns) < 0)
		return false;
	if (schema != CATALOG_SCHEMA || rank < 0 || rank > RANK_MAX || member_uuid_parse(member, copy->place.member) < 0 ||
	    member_uuid_parse(uuid, bytes) < 0 || member_uuid_parse(pool_uuid, bytes) < 0 ||
	    catalog_check_name("volume", volume, NULL) < 0)
		return false;
	copy->place.rank = (uint32_t)rank;
	copy->since_ns = (uint64_t)since_ns;
	(void)text_copy(copy->pool, sizeof(copy->pool), pool); /* not relied on: see storage/old_copy.c */
	return text_copy(copy->pool_uuid, sizeof(copy->pool_uuid), pool_uuid) == 0 &&
	       text_copy(copy->volume, sizeof(copy->volume), volume) == 0 &&
	       text_copy(copy->uuid, sizeof(copy->uuid), uuid) == 0;
}

/* ---- loading ---- */

struct loading {
	struct catalog *catalog;
	char bad_key[KEY_BYTES];
};

static void insert(struct catalog *catalog, struct catalog_old_copy *copy)
{
	TAILQ_INSERT_TAIL(&catalog->old_copies, copy, link);
	catalog->old_copy_count++;
}

static int load(void *ctx, const char *key, const void *value, size_t bytes, uint64_t version)
{
	struct loading *loading = ctx;
	struct catalog_old_copy *copy = calloc(1, sizeof(*copy));
	char expected[KEY_BYTES];
	json_t *json;
	bool is_good;
	int error;

	if (!copy)
		return -ENOMEM;
	json_memory_begin();
	json = json_loadb(value, bytes, JSON_REJECT_DUPLICATES, NULL);
	is_good = json && unpack(json, copy);
	json_decref(json);
	error = json_memory_end(is_good);
	if (!error) {
		write_key(copy->uuid, copy->place.rank, expected);
		error = strcmp(expected, key) == 0 ? 0 : -EBADMSG;
	}
	if (error) {
		free(copy);
		(void)text_copy(loading->bad_key, sizeof(loading->bad_key), key); /* a key that is cut is named, too */
		return error;
	}
	copy->version = version;
	insert(loading->catalog, copy);
	return 0;
}

int catalog_load_old_copies(struct catalog *catalog, struct fathom_fault *why)
{
	struct loading loading = { .catalog = catalog };
	int error = db_scan(catalog->db, PREFIX, load, &loading, why);

	if (error == -EBADMSG && loading.bad_key[0])
		error = fault_db_value_bad(why, loading.bad_key, "it contradicts its key, or is of another form");
	return error;
}

void catalog_drop_old_copies(struct catalog *catalog)
{
	struct catalog_old_copy *copy;

	while ((copy = TAILQ_FIRST(&catalog->old_copies))) {
		TAILQ_REMOVE(&catalog->old_copies, copy, link);
		free(copy);
	}
	catalog->old_copy_count = 0;
}

/* ---- changes ---- */

int catalog_leave_copy(struct catalog *catalog, struct catalog_volume *volume, const struct catalog_volume_record *next,
		       const struct catalog_place *place, struct fathom_fault *why)
{
	struct db_change also = { .what = DB_PUT, .expected = DB_VERSION_NONE };
	struct catalog_old_copy *copy;
	char key[KEY_BYTES], *text;
	int error;

	must(!catalog_find_old_copy(catalog, volume->record.uuid, place->rank));
	if (catalog->old_copy_count >= CATALOG_OLD_COPIES_MAX)
		return fault_catalog_full(why, catalog->old_copy_count, "old copies of volumes");
	copy = calloc(1, sizeof(*copy));
	if (!copy)
		return -ENOMEM;
	memcpy(copy->pool, volume->pool->record.key, sizeof(copy->pool));
	memcpy(copy->pool_uuid, volume->pool->record.uuid, sizeof(copy->pool_uuid));
	memcpy(copy->volume, volume->record.name, sizeof(copy->volume));
	memcpy(copy->uuid, volume->record.uuid, sizeof(copy->uuid));
	copy->place = *place;
	copy->since_ns = max_u64(clock_realtime_ns(), volume->record.change.serial);
	write_key(copy->uuid, place->rank, key);
	error = encode(copy, &text);
	if (!error) {
		also.key = key;
		also.value = text;
		also.bytes = strlen(text);
		error = catalog_store_volume_and(catalog, volume, next, &also, &copy->version, why);
		free(text);
	}
	if (error)
		free(copy);
	else
		insert(catalog, copy);
	return error;
}

int catalog_remove_old_copy(struct catalog *catalog, struct catalog_old_copy *copy, struct fathom_fault *why)
{
	char key[KEY_BYTES];
	const struct db_change change = { .key = key, .expected = copy->version, .what = DB_DELETE };
	int error;

	must(!copy->is_calling);
	write_key(copy->uuid, copy->place.rank, key);
	error = db_commit(catalog->db, &change, 1, NULL, why);
	if (error)
		return error;
	must(catalog->old_copy_count > 0);
	TAILQ_REMOVE(&catalog->old_copies, copy, link);
	catalog->old_copy_count--;
	free(copy);
	return 0;
}
