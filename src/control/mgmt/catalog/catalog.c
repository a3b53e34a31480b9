/* SPDX-License-Identifier: BSD-2-Clause */
#include "control/mgmt/catalog/catalog.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/reactor/reactor.h"
#include "base/text.h"
#include "control/fault/fault.h"
#include "control/mgmt/internal.h"
#include "control/mgmt/probes.gen.h"

#define POOL_PREFIX "pool/"
#define VOLUME_PREFIX "volume/"

enum { KEY_BYTES = 16 + CATALOG_FULL_BYTES, REMOVALS = DB_CHANGES_MAX / 2 };

/* ---- lookup ---- */

static uint32_t name_bucket(const char *pool_uuid, const char *volume)
{
	return text_hash_more(text_hash(pool_uuid) * 31, volume) % CATALOG_BUCKETS;
}

static uint32_t uuid_bucket(const char *uuid)
{
	return text_hash(uuid) % CATALOG_BUCKETS;
}

struct catalog_pool *catalog_find_pool(const struct catalog *catalog, const char *id)
{
	struct catalog_pool *pool;

	TAILQ_FOREACH (pool, &catalog->pools, link) {
		if (strcmp(pool->record.name, id) == 0 || strcasecmp(pool->record.uuid, id) == 0)
			return pool;
	}
	return NULL;
}

/* NULL: none. */
static struct catalog_pool *find_key(const struct catalog *catalog, const char *key)
{
	struct catalog_pool *pool;

	TAILQ_FOREACH (pool, &catalog->pools, link) {
		if (strcmp(pool->record.key, key) == 0)
			return pool;
	}
	return NULL;
}

struct catalog_volume *catalog_find_volume(const struct catalog *catalog, const struct catalog_pool *pool, const char *name)
{
	struct catalog_volume *volume;

	TAILQ_FOREACH (volume, &catalog->names[name_bucket(pool->record.uuid, name)], name_link) {
		if (volume->pool == pool && strcmp(volume->record.name, name) == 0)
			return volume;
	}
	return NULL;
}

struct catalog_volume *catalog_find_uuid(const struct catalog *catalog, const char *uuid)
{
	char lower[MEMBER_UUID_TEXT_BYTES];
	uint8_t bytes[MEMBER_UUID_BYTES];
	struct catalog_volume *volume;

	if (member_uuid_parse(uuid, bytes) < 0)
		return NULL;
	member_uuid_format(bytes, lower);
	TAILQ_FOREACH (volume, &catalog->uuids[uuid_bucket(lower)], uuid_link) {
		if (strcmp(volume->record.uuid, lower) == 0)
			return volume;
	}
	return NULL;
}

const struct catalog_place *catalog_pool_place(const struct catalog_pool *pool, uint32_t rank)
{
	for (uint32_t i = 0; i < pool->record.place_count; i++) {
		if (pool->record.places[i].rank == rank)
			return &pool->record.places[i];
	}
	return NULL;
}

const struct catalog_host *catalog_find_host(const struct catalog_volume_record *record, const char *host)
{
	for (uint32_t i = 0; i < record->host_count; i++) {
		if (strcmp(record->hosts[i].nqn, host) == 0)
			return &record->hosts[i];
	}
	return NULL;
}

bool catalog_has_host(const struct catalog_volume_record *record, const char *host)
{
	return catalog_find_host(record, host);
}

/* ---- memory ---- */

static void move_pool(struct catalog_pool *pool)
{
	if (pool->state != pool->record.state)
		mgmt_pool_state_move(reactor_tick(), pool, pool->record.state);
}

static void move_volume(struct catalog_volume *volume)
{
	if (volume->state != volume->record.state)
		mgmt_volume_state_move(reactor_tick(), volume, volume->record.state);
}

static void insert_sorted(struct catalog *catalog, struct catalog_pool *pool)
{
	struct catalog_pool *behind;

	TAILQ_FOREACH (behind, &catalog->pools, link) {
		if (strcmp(behind->record.name, pool->record.name) > 0)
			break;
	}
	if (behind)
		TAILQ_INSERT_BEFORE(behind, pool, link);
	else
		TAILQ_INSERT_TAIL(&catalog->pools, pool, link);
}

static struct catalog_pool *insert_pool(struct catalog *catalog, const struct catalog_pool_record *record, uint64_t version)
{
	struct catalog_pool *pool = calloc(1, sizeof(*pool));
	struct catalog_share *shares;

	if (!pool)
		return NULL;
	trace_object_init(&pool->trace, TRACE_OBJECT_CATALOG_POOL);
	TAILQ_INIT(&pool->volumes);
	pool->record = *record;
	pool->version = version;
	shares = catalog_make_shares(pool, record);
	if (!shares) {
		free(pool);
		return NULL;
	}
	catalog_take_shares(pool, shares, 0);
	move_pool(pool);
	insert_sorted(catalog, pool);
	catalog->pool_count++;
	return pool;
}

static struct catalog_volume *insert_volume(struct catalog *catalog, struct catalog_pool *pool,
					    const struct catalog_volume_record *record, uint64_t version)
{
	struct catalog_volume *volume = calloc(1, sizeof(*volume));

	if (!volume)
		return NULL;
	trace_object_init(&volume->trace, TRACE_OBJECT_CATALOG_VOLUME);
	volume->record = *record;
	volume->version = version;
	volume->pool = pool;
	move_volume(volume);
	TAILQ_INSERT_TAIL(&pool->volumes, volume, link);
	TAILQ_INSERT_TAIL(&catalog->names[name_bucket(pool->record.uuid, record->name)], volume, name_link);
	TAILQ_INSERT_TAIL(&catalog->uuids[uuid_bucket(record->uuid)], volume, uuid_link);
	pool->volume_count++;
	catalog->volume_count++;
	return volume;
}

static void drop_volume(struct catalog *catalog, struct catalog_volume *volume)
{
	must(volume->pool->volume_count > 0 && catalog->volume_count > 0);
	TAILQ_REMOVE(&volume->pool->volumes, volume, link);
	TAILQ_REMOVE(&catalog->names[name_bucket(volume->pool->record.uuid, volume->record.name)], volume, name_link);
	TAILQ_REMOVE(&catalog->uuids[uuid_bucket(volume->record.uuid)], volume, uuid_link);
	volume->pool->volume_count--;
	catalog->volume_count--;
	free(volume->record.hosts);
	free(volume->stay);
	free(volume);
}

static void drop_pool(struct catalog *catalog, struct catalog_pool *pool)
{
	must(pool->volume_count == 0);
	TAILQ_REMOVE(&catalog->pools, pool, link);
	catalog->pool_count--;
	free(pool->record.places);
	free(pool->record.uses);
	free(pool->record.acl);
	free(pool->shares);
	free(pool);
}

/* ---- loading ---- */

struct loading {
	struct catalog *catalog;
	char bad_key[DB_KEY_BYTES_MAX];
};

/* `key` is the first label, or the UUID if another pool had that label as its key. */
static int load_pool(struct catalog *catalog, const char *key, const void *value, size_t bytes, uint64_t version)
{
	struct catalog_pool_record record;
	int error = catalog_decode_pool(value, bytes, &record);

	if (error)
		return error;
	if ((catalog_check_name("pool", key, NULL) < 0 && strcmp(key, record.uuid) != 0) ||
	    text_copy(record.key, sizeof(record.key), key) < 0)
		error = -EBADMSG;
	else if (!record.name[0]) /* the label was never changed */
		memcpy(record.name, record.key, sizeof(record.name));
	if (!error && (catalog_check_name("pool", record.name, NULL) < 0 || catalog_find_pool(catalog, record.name)))
		error = -EBADMSG;
	if (!error)
		error = insert_pool(catalog, &record, version) ? 0 : -ENOMEM;
	if (error) {
		free(record.places);
		free(record.uses);
		free(record.acl);
	}
	return error;
}

/* `full_name`: the key of the pool, and the name. */
static int load_volume(struct catalog *catalog, const char *full_name, const void *value, size_t bytes, uint64_t version)
{
	const char *slash = strchr(full_name, '/'), *name = slash ? slash + 1 : "";
	struct catalog_volume_record record;
	struct catalog_pool *pool = NULL;
	char key[CATALOG_NAME_BYTES];
	int error = catalog_decode_volume(value, bytes, &record);

	if (error)
		return error;
	if (slash && (size_t)snprintf(key, sizeof(key), "%.*s", (int)(slash - full_name), full_name) < sizeof(key))
		pool = find_key(catalog, key);
	if (!pool || catalog_check_name("volume", name, NULL) < 0 || catalog_find_uuid(catalog, record.uuid))
		error = -EBADMSG;
	if (!error)
		must(text_copy(record.name, sizeof(record.name), name) == 0);
	if (!error)
		error = insert_volume(catalog, pool, &record, version) ? 0 : -ENOMEM;
	if (error)
		free(record.hosts);
	return error;
}

static int load_row(void *ctx, const char *key, const void *value, size_t bytes, uint64_t version)
{
	struct loading *loading = ctx;
	int error;

	if (strncmp(key, POOL_PREFIX, strlen(POOL_PREFIX)) == 0)
		error = load_pool(loading->catalog, key + strlen(POOL_PREFIX), value, bytes, version);
	else
		error = load_volume(loading->catalog, key + strlen(VOLUME_PREFIX), value, bytes, version);
	if (error == -EBADMSG)
		(void)text_copy(loading->bad_key, sizeof(loading->bad_key), key);
	return error;
}

int catalog_open(struct db *db, struct catalog **catalog_ret, struct fathom_fault *why)
{
	struct catalog *catalog = calloc(1, sizeof(*catalog));
	struct loading loading = { .catalog = catalog };
	int error;

	if (!catalog)
		return -ENOMEM;
	catalog->db = db;
	TAILQ_INIT(&catalog->pools);
	TAILQ_INIT(&catalog->old_copies);
	for (size_t i = 0; i < CATALOG_BUCKETS; i++) {
		TAILQ_INIT(&catalog->names[i]);
		TAILQ_INIT(&catalog->uuids[i]);
	}
	error = db_scan(db, POOL_PREFIX, load_row, &loading, why);
	if (!error)
		error = db_scan(db, VOLUME_PREFIX, load_row, &loading, why);
	if (!error)
		error = catalog_load_old_copies(catalog, why);
	if (error == -EBADMSG && loading.bad_key[0])
		error = fault_db_value_bad(why, loading.bad_key, "it contradicts the others, or is of another form");
	if (error)
		catalog_close(catalog);
	else
		*catalog_ret = catalog;
	return error;
}

void catalog_close(struct catalog *catalog)
{
	struct catalog_pool *pool;

	if (!catalog)
		return;
	while ((pool = TAILQ_FIRST(&catalog->pools))) {
		while (!TAILQ_EMPTY(&pool->volumes))
			drop_volume(catalog, TAILQ_FIRST(&pool->volumes));
		drop_pool(catalog, pool);
	}
	must(catalog->pool_count == 0 && catalog->volume_count == 0);
	catalog_drop_old_copies(catalog);
	free(catalog);
}

/* ---- changes ---- */

static void pool_key(const struct catalog_pool_record *record, char *key)
{
	must((size_t)snprintf(key, KEY_BYTES, POOL_PREFIX "%s", record->key) < KEY_BYTES);
}

static void volume_key(const struct catalog_pool *pool, const char *name, char *key)
{
	must((size_t)snprintf(key, KEY_BYTES, VOLUME_PREFIX "%s/%s", pool->record.key, name) < KEY_BYTES);
}

/* Put `text` (taken) as the value of `key`, which has `version`. Returns the new version in `version_ret`. */
static int put_text(struct catalog *catalog, const char *key, uint64_t version, char *text, uint64_t *version_ret,
		    struct fathom_fault *why)
{
	const struct db_change change = {
		.key = key, .expected = version, .what = DB_PUT, .value = text, .bytes = strlen(text)
	};
	int error = db_commit(catalog->db, &change, 1, version_ret, why);

	free(text);
	return error;
}

int catalog_add_pool(struct catalog *catalog, const struct catalog_pool_record *asked, struct catalog_pool **pool_ret,
		     struct fathom_fault *why)
{
	struct catalog_pool_record record = *asked;
	char key[KEY_BYTES], *text;
	struct catalog_pool *pool;
	uint64_t version;
	int error;

	must(!catalog_find_pool(catalog, record.name));
	must(!find_key(catalog, record.uuid));
	must(text_copy(record.key, sizeof(record.key), find_key(catalog, record.name) ? record.uuid : record.name) == 0);
	if (catalog->pool_count >= CATALOG_POOLS_MAX)
		return fault_catalog_full(why, catalog->pool_count, "pools");
	error = catalog_encode_pool(&record, &text);
	if (error)
		return error;
	/* first into memory, which can be undone */
	pool = insert_pool(catalog, &record, DB_VERSION_NONE);
	if (!pool) {
		free(text);
		return -ENOMEM;
	}
	pool_key(&record, key);
	error = put_text(catalog, key, DB_VERSION_NONE, text, &version, why);
	if (error) {
		pool->record.places = NULL; /* still the caller's */
		pool->record.uses = NULL;
		pool->record.acl = NULL;
		drop_pool(catalog, pool);
		return error;
	}
	pool->version = version;
	*pool_ret = pool;
	return 0;
}

int catalog_add_volume(struct catalog *catalog, struct catalog_pool *pool, const struct catalog_volume_record *record,
		       struct catalog_volume **volume_ret, struct fathom_fault *why)
{
	char key[KEY_BYTES], *text;
	struct catalog_volume *volume;
	uint64_t version;
	int error;

	must(!catalog_find_volume(catalog, pool, record->name));
	must(!catalog_find_uuid(catalog, record->uuid));
	if (catalog->volume_count >= CATALOG_VOLUMES_MAX)
		return fault_catalog_full(why, catalog->volume_count, "volumes");
	error = catalog_encode_volume(record, &text);
	if (error)
		return error;
	volume = insert_volume(catalog, pool, record, DB_VERSION_NONE);
	if (!volume) {
		free(text);
		return -ENOMEM;
	}
	volume_key(pool, record->name, key);
	error = put_text(catalog, key, DB_VERSION_NONE, text, &version, why);
	if (error) {
		volume->record.hosts = NULL; /* still the caller's */
		drop_volume(catalog, volume);
		return error;
	}
	volume->version = version;
	*volume_ret = volume;
	return 0;
}

int catalog_store_pool(struct catalog *catalog, struct catalog_pool *pool, const struct catalog_pool_record *next,
		       struct fathom_fault *why)
{
	bool is_renamed = strcmp(next->name, pool->record.name) != 0;
	struct catalog_pool_record record = *next, old = pool->record;
	char key[KEY_BYTES], *text;
	struct catalog_share *shares = NULL;
	uint64_t version;
	int error;

	must(strcmp(record.key, pool->record.key) == 0);
	must(!is_renamed || !catalog_find_pool(catalog, record.name));
	if (record.state != pool->record.state)
		record.since_ns = clock_realtime_ns();
	error = catalog_encode_pool(&record, &text);
	if (error)
		return error;
	shares = catalog_make_shares(pool, &record);
	pool_key(&record, key);
	if (shares)
		error = put_text(catalog, key, pool->version, text, &version, why);
	else
		free(text);
	if (!shares || error) {
		free(shares);
		return shares ? error : -ENOMEM;
	}
	if (record.acl != old.acl)
		free(old.acl);
	if (record.places != old.places)
		free(old.places);
	if (record.uses != old.uses)
		free(old.uses);
	pool->version = version;
	pool->record = record;
	catalog_take_shares(pool, shares, old.place_count);
	if (is_renamed) {
		TAILQ_REMOVE(&catalog->pools, pool, link);
		insert_sorted(catalog, pool);
	}
	move_pool(pool);
	return 0;
}

/* What a transaction puts for a volume. */
struct volume_texts {
	const char *name, *record;
	const struct db_change *also; /* NULL: nothing */
};

/* Put the texts; of a renamed volume also delete the old key. */
static int commit_volume(struct catalog *catalog, const struct catalog_volume *volume, const struct volume_texts *texts,
			 uint64_t *version_ret, struct fathom_fault *why)
{
	bool is_renamed = strcmp(texts->name, volume->record.name) != 0;
	char old_key[KEY_BYTES], new_key[KEY_BYTES];
	struct db_change changes[3] = {
		{ .key = new_key,
		  .expected = is_renamed ? DB_VERSION_NONE : volume->version,
		  .what = DB_PUT,
		  .value = texts->record,
		  .bytes = strlen(texts->record) },
	};
	size_t count = 1;

	volume_key(volume->pool, volume->record.name, old_key);
	volume_key(volume->pool, texts->name, new_key);
	if (is_renamed)
		changes[count++] = (struct db_change){ .key = old_key, .expected = volume->version, .what = DB_DELETE };
	if (texts->also)
		changes[count++] = *texts->also;
	return db_commit(catalog->db, changes, count, version_ret, why);
}

int catalog_store_volume_and(struct catalog *catalog, struct catalog_volume *volume,
			     const struct catalog_volume_record *next, const struct db_change *also, uint64_t *version_ret,
			     struct fathom_fault *why)
{
	struct catalog_volume_record record = *next;
	struct volume_texts texts;
	struct catalog_bucket *bucket;
	uint64_t version;
	char *text;
	int error;

	must(strcmp(record.uuid, volume->record.uuid) == 0);
	must(strcmp(record.name, volume->record.name) == 0 || !catalog_find_volume(catalog, volume->pool, record.name));
	if (record.state != volume->record.state)
		record.since_ns = clock_realtime_ns();
	error = catalog_encode_volume(&record, &text);
	if (error)
		return error;
	texts = (struct volume_texts){ record.name, text, also };
	error = commit_volume(catalog, volume, &texts, &version, why);
	free(text);
	if (error)
		return error;
	bucket = &catalog->names[name_bucket(volume->pool->record.uuid, volume->record.name)];
	TAILQ_REMOVE(bucket, volume, name_link);
	if (record.hosts != volume->record.hosts)
		free(volume->record.hosts);
	volume->version = version;
	volume->record = record;
	volume->stored_ns = clock_realtime_ns();
	bucket = &catalog->names[name_bucket(volume->pool->record.uuid, record.name)];
	TAILQ_INSERT_TAIL(bucket, volume, name_link);
	move_volume(volume);
	if (version_ret)
		*version_ret = version;
	return 0;
}

int catalog_store_volume(struct catalog *catalog, struct catalog_volume *volume, const struct catalog_volume_record *next,
			 struct fathom_fault *why)
{
	return catalog_store_volume_and(catalog, volume, next, NULL, NULL, why);
}

static int delete_key(struct catalog *catalog, const char *key, uint64_t version, struct fathom_fault *why)
{
	const struct db_change change = { .key = key, .expected = version, .what = DB_DELETE };

	return db_commit(catalog->db, &change, 1, NULL, why);
}

int catalog_remove_volume(struct catalog *catalog, struct catalog_volume *volume, struct fathom_fault *why)
{
	char key[KEY_BYTES];
	int error;

	must(!volume->task);
	volume_key(volume->pool, volume->record.name, key);
	error = delete_key(catalog, key, volume->version, why);
	if (!error)
		drop_volume(catalog, volume);
	return error;
}

/* Remove up to REMOVALS volumes of the pool in one transaction. */
static int remove_some_volumes(struct catalog *catalog, struct catalog_pool *pool, struct fathom_fault *why)
{
	size_t count = min_u64(pool->volume_count, REMOVALS), at = 0;
	struct db_change *changes = calloc(count, sizeof(*changes));
	char(*keys)[KEY_BYTES] = calloc(count, sizeof(*keys));
	int error = changes && keys ? 0 : -ENOMEM;
	struct catalog_volume *volume;

	TAILQ_FOREACH (volume, &pool->volumes, link) {
		if (error || at == count)
			break;
		must(!volume->task);
		volume_key(pool, volume->record.name, keys[at]);
		changes[at] = (struct db_change){ .key = keys[at], .expected = volume->version, .what = DB_DELETE };
		at++;
	}
	if (!error)
		error = db_commit(catalog->db, changes, count, NULL, why);
	for (size_t i = 0; !error && i < count; i++)
		drop_volume(catalog, TAILQ_FIRST(&pool->volumes));
	free(changes);
	free(keys);
	return error;
}

int catalog_remove_pool(struct catalog *catalog, struct catalog_pool *pool, struct fathom_fault *why)
{
	char key[KEY_BYTES];
	int error = 0;

	must(!pool->task);
	while (!error && pool->volume_count > 0)
		error = remove_some_volumes(catalog, pool, why);
	if (error)
		return error;
	pool_key(&pool->record, key);
	error = delete_key(catalog, key, pool->version, why);
	if (!error)
		drop_pool(catalog, pool);
	return error;
}
