/* SPDX-License-Identifier: BSD-2-Clause */
/* The catalog: records through the database and back, damaged records, and its limits. */
#include "fixture.h"

#include "control/mgmt/catalog/catalog.h"

#define UUID_1 "11111111-1111-4111-8111-111111111111"
#define UUID_2 "22222222-2222-4222-8222-222222222222"

static struct catalog_pool_record make_pool(const char *name)
{
	struct catalog_pool_record record = { .state = MGMT_POOL_READY, .created_ns = 5, .since_ns = 6, .rank_bytes = 7 };

	snprintf(record.name, sizeof(record.name), "%s", name);
	snprintf(record.uuid, sizeof(record.uuid), "%s", UUID_1);
	snprintf(record.owner, sizeof(record.owner), "bob@");
	record.overcommit = true;
	record.place_count = 2;
	record.places = calloc(2, sizeof(*record.places));
	must(record.places);
	record.acl = acl_default();
	must(record.acl);
	record.places[0].rank = 3;
	record.places[1].rank = 9;
	memset(record.places[1].member, 0xab, sizeof(record.places[1].member));
	return record;
}

static struct catalog_volume_record make_volume(void)
{
	struct catalog_volume_record record = {
		.state = MGMT_VOLUME_DESTROYING,
		.size_bytes = 1 << 20,
		.block_bytes = 512,
		.thick = true,
		.checksums = true,
		.read_only = true,
		.description = "for \"the\" database",
		.is_forced = true,
		.place = { .rank = 9 },
		.change = { .kind = CATALOG_RENAME, .text = "other", .since_ns = 11 },
		.host_count = 2,
	};

	snprintf(record.name, sizeof(record.name), "v");
	snprintf(record.uuid, sizeof(record.uuid), "%s", UUID_2);
	snprintf(record.origin, sizeof(record.origin), "w@s");
	snprintf(record.undo, sizeof(record.undo), "no space");
	snprintf(record.former, sizeof(record.former), "u");
	record.hosts = calloc(2, sizeof(*record.hosts));
	must(record.hosts);
	snprintf(record.hosts[0].nqn, sizeof(record.hosts[0].nqn), "nqn.a");
	snprintf(record.hosts[1].nqn, sizeof(record.hosts[1].nqn), "nqn.b");
	snprintf(record.hosts[1].machine, sizeof(record.hosts[1].machine), "node7");
	return record;
}

static int store_and_load(void *unused)
{
	struct catalog_pool_record pool_record = make_pool("p");
	struct catalog_volume_record record = make_volume();
	const struct catalog_volume *loaded;
	struct catalog_volume *volume;
	struct catalog *catalog;
	struct catalog_pool *pool;

	must(catalog_open(fixture.db, &catalog, NULL) == 0);
	must(catalog_add_pool(catalog, &pool_record, &pool, NULL) == 0);
	must(catalog_add_volume(catalog, pool, &record, &volume, NULL) == 0);
	catalog_close(catalog);
	must(catalog_open(fixture.db, &catalog, NULL) == 0);
	pool = catalog_find_pool(catalog, UUID_1);
	must(pool && pool == catalog_find_pool(catalog, "p"));
	must(pool->state == MGMT_POOL_READY && pool->record.rank_bytes == 7 && pool->record.overcommit);
	must(strcmp(pool->record.owner, "bob@") == 0);
	must(pool->record.acl->count == 2 && pool->record.acl->entries[1].kind == ACL_OWNER_GROUP);
	must(catalog_pool_place(pool, 9)->member[4] == 0xab && !catalog_pool_place(pool, 4));
	loaded = catalog_find_uuid(catalog, UUID_2);
	must(loaded && loaded == catalog_find_volume(catalog, pool, "v"));
	must(loaded->state == MGMT_VOLUME_DESTROYING && loaded->record.thick && loaded->record.is_forced);
	must(loaded->record.change.kind == CATALOG_RENAME && strcmp(loaded->record.change.text, "other") == 0);
	must(catalog_has_host(&loaded->record, "nqn.b") && !catalog_has_host(&loaded->record, "nqn.c"));
	must(strcmp(loaded->record.origin, "w@s") == 0 && strcmp(loaded->record.undo, "no space") == 0);
	must(strcmp(loaded->record.former, "u") == 0);
	must(loaded->record.read_only && strcmp(loaded->record.description, "for \"the\" database") == 0);
	must(catalog_remove_pool(catalog, pool, NULL) == 0);
	must(catalog->pool_count == 0 && catalog->volume_count == 0);
	catalog_close(catalog);
	must(catalog_open(fixture.db, &catalog, NULL) == 0);
	must(catalog->pool_count == 0);
	catalog_close(catalog);
	return 0;
}

static void records_come_back_as_they_were_stored(void **state)
{
	on_control(store_and_load, NULL);
}

static int rename_and_replace(void *unused)
{
	struct catalog_pool_record pool_record = make_pool("p");
	struct catalog_volume_record record = make_volume(), next;
	struct catalog_volume *volume;
	struct catalog *catalog;
	struct catalog_pool *pool;

	must(catalog_open(fixture.db, &catalog, NULL) == 0);
	must(catalog_add_pool(catalog, &pool_record, &pool, NULL) == 0);
	must(catalog_add_volume(catalog, pool, &record, &volume, NULL) == 0);
	next = volume->record;
	snprintf(next.name, sizeof(next.name), "n");
	next.state = MGMT_VOLUME_READY;
	next.hosts = NULL;
	next.host_count = 0;
	must(catalog_store_volume(catalog, volume, &next, NULL) == 0);
	must(volume->state == MGMT_VOLUME_READY && volume->record.since_ns > 0);
	must(catalog_find_volume(catalog, pool, "n") == volume && !catalog_find_volume(catalog, pool, "v"));
	catalog_close(catalog);
	must(catalog_open(fixture.db, &catalog, NULL) == 0);
	must(catalog->volume_count == 1);
	must(catalog_find_volume(catalog, catalog_find_pool(catalog, "p"), "n"));
	catalog_close(catalog);
	return 0;
}

static void a_volume_gets_another_name_in_one_transaction(void **state)
{
	on_control(rename_and_replace, NULL);
}

static int open_with(const char *key, const char *value, struct fathom_fault *why)
{
	const struct db_change put = {
		.key = key, .expected = DB_VERSION_ANY, .what = DB_PUT, .value = value, .bytes = strlen(value)
	};
	const struct db_change delete = { .key = key, .expected = DB_VERSION_ANY, .what = DB_DELETE };
	struct catalog *catalog;
	int error;

	must(db_commit(fixture.db, &put, 1, NULL, NULL) == 0);
	error = catalog_open(fixture.db, &catalog, why);
	if (!error)
		catalog_close(catalog);
	must(db_commit(fixture.db, &delete, 1, NULL, NULL) == 0);
	return error;
}

/* A pool whose shares have never changed is written as it was read. */
static void check_untouched_pool(void)
{
	struct catalog_pool_record record = make_pool("p"), decoded;
	char *text, *again;

	must(catalog_encode_pool(&record, &text) == 0);
	must(catalog_decode_pool(text, strlen(text), &decoded) == 0);
	must(catalog_encode_pool(&decoded, &again) == 0);
	must(strcmp(text, again) == 0);
	free(text);
	free(again);
	free(decoded.places);
	free(decoded.uses);
	free(decoded.acl);
	free(record.places);
	free(record.uses);
	free(record.acl);
}

/* An origin of another form than "VOLUME@SNAPSHOT" is refused: it would become a request to an engine. */
static void check_origins(void)
{
	static const char *const origins[] = { "w", "w@", "@s", "w@s@t", "w/x@s", "" };
	struct catalog_volume_record record = make_volume(), decoded;
	char *text;

	for (size_t i = 0; i < ARRAY_COUNT(origins); i++) {
		snprintf(record.origin, sizeof(record.origin), "%s", origins[i]);
		must(catalog_encode_volume(&record, &text) == 0);
		must(catalog_decode_volume(text, strlen(text), &decoded) == (*origins[i] ? -EBADMSG : 0));
		free(text);
	}
	free(decoded.hosts);
	free(record.hosts);
}

/* Properties that a rank has not got stay with its share, also when its state changes, until they are removed. */
static int store_late(void *unused)
{
	static const uint32_t lates[] = { CATALOG_KEPT_SIZE | CATALOG_KEPT_SCRUB, 0 };
	struct catalog_pool_record record = make_pool("p"), next;
	struct catalog_layout layout;
	struct catalog *catalog;
	struct catalog_pool *pool;

	must(catalog_open(fixture.db, &catalog, NULL) == 0);
	must(catalog_add_pool(catalog, &record, &pool, NULL) == 0);
	for (size_t i = 0; i < ARRAY_COUNT(lates); i++) {
		uint32_t late = lates[i];

		next = pool->record;
		next.uses = catalog_copy_uses(&pool->record);
		must(next.uses && next.uses[1].since_ns == 5);
		next.uses[1].late = late;
		next.uses[1].late_ns = late ? 77 : 0;
		must(catalog_store_pool(catalog, pool, &next, NULL) == 0);
		must(catalog_layout(pool, 0, &layout) == 0);
		catalog_layout_move(&layout, 0, MGMT_SHARE_DRAINING);
		must(catalog_set_layout(catalog, pool, &layout, NULL) == 0);
		catalog_close(catalog);
		must(catalog_open(fixture.db, &catalog, NULL) == 0);
		pool = catalog_find_pool(catalog, "p");
		must(catalog_use(&pool->record, 1).late == late &&
		     catalog_use(&pool->record, 1).late_ns == (late ? 77 : 0));
		must(catalog_use(&pool->record, 0).late == 0 && pool->shares[1].state == MGMT_SHARE_UP);
	}
	catalog_close(catalog);
	return 0;
}

/* A record without states of shares: all are up. */
static int store_shares(void *unused)
{
	struct catalog_pool_record record = make_pool("p");
	struct catalog_layout layout;
	struct catalog_place place = { .rank = 5 };
	struct catalog *catalog;
	struct catalog_pool *pool;

	must(catalog_open(fixture.db, &catalog, NULL) == 0);
	must(catalog_add_pool(catalog, &record, &pool, NULL) == 0);
	must(catalog_share_is_up(pool, 3) && catalog_share_is_up(pool, 9) && !catalog_share_is_up(pool, 5));
	must(catalog_changing_shares(pool) == 0 && catalog_use(&pool->record, 1).since_ns == 5);
	must(catalog_layout(pool, 1, &layout) == 0);
	catalog_layout_add(&layout, &place, MGMT_SHARE_EXTENDING);
	catalog_layout_move(&layout, 2, MGMT_SHARE_DRAINING);
	must(catalog_set_layout(catalog, pool, &layout, NULL) == 0);
	must(!layout.places && pool->shares[1].rank == 5 && pool->shares[1].state == MGMT_SHARE_EXTENDING);
	catalog_close(catalog);
	must(catalog_open(fixture.db, &catalog, NULL) == 0);
	pool = catalog_find_pool(catalog, "p");
	must(pool->record.place_count == 3 && catalog_share_index(pool, 9) == 2);
	must(catalog_share_changes(pool, 1) && catalog_changing_state(pool) == MGMT_SHARE_EXTENDING);
	must(pool->shares[2].state == MGMT_SHARE_DRAINING && catalog_share_is_up(pool, 3));
	must(catalog_layout(pool, 0, &layout) == 0);
	catalog_layout_move(&layout, 1, MGMT_SHARE_REMOVING);
	must(catalog_set_layout(catalog, pool, &layout, NULL) == 0);
	must(catalog_layout(pool, 0, &layout) == 0);
	catalog_layout_move(&layout, 1, MGMT_SHARE_ABSENT);
	must(catalog_set_layout(catalog, pool, &layout, NULL) == 0 && pool->record.place_count == 2);
	must(catalog_share_index(pool, 9) == 1 && pool->shares[1].state == MGMT_SHARE_DRAINING);
	must(catalog_remove_pool(catalog, pool, NULL) == 0);
	catalog_close(catalog);
	return 0;
}

/* A lost share is replaced, and is the lost one again if that is undone. */
static int replace_share(void *unused)
{
	struct catalog_pool_record record = make_pool("p");
	struct catalog_place place = { .rank = 9, .member = { 7 } };
	struct catalog_layout layout;
	struct fathom_fault why;
	struct catalog *catalog;
	struct catalog_pool *pool;

	must(catalog_open(fixture.db, &catalog, NULL) == 0);
	must(catalog_add_pool(catalog, &record, &pool, NULL) == 0);
	must(catalog_layout(pool, 0, &layout) == 0);
	catalog_layout_replace(&layout, &place);
	must(catalog_set_layout(catalog, pool, &layout, NULL) == 0);
	catalog_close(catalog);
	must(catalog_open(fixture.db, &catalog, NULL) == 0);
	pool = catalog_find_pool(catalog, "p");
	must(pool->record.uses[1].has_former && pool->record.uses[1].former[0] == 0xab);
	must(pool->record.places[1].member[0] == 7 && pool->shares[1].state == MGMT_SHARE_EXTENDING);
	must(catalog_layout(pool, 0, &layout) == 0);
	catalog_layout_move(&layout, 1, MGMT_SHARE_REMOVING);
	must(layout.uses[1].has_former);
	catalog_layout_move(&layout, 1, MGMT_SHARE_ABSENT);
	must(layout.count == 2 && !layout.uses[1].has_former && layout.uses[1].state == MGMT_SHARE_EXCLUDED);
	must(layout.places[1].member[0] == 0xab);
	catalog_layout_free(&layout);
	must(catalog_layout(pool, 0, &layout) == 0);
	catalog_layout_move(&layout, 1, MGMT_SHARE_UP);
	must(!layout.uses[1].has_former && layout.places[1].member[0] == 7);
	catalog_layout_free(&layout);
	must(catalog_remove_pool(catalog, pool, NULL) == 0);
	catalog_close(catalog);
	/* the former member of a share that is up */
	must(open_with("pool/p",
		       "{\"schema\":1,\"uuid\":\"" UUID_1
		       "\",\"state\":\"ready\",\"created_ns\":1,\"since_ns\":1,\"owner\":\"\",\"group\":\"\","
		       "\"rank_bytes\":0,\"overcommit\":false,\"force\":false,\"undo\":\"\","
		       "\"places\":[{\"rank\":1,\"member\":\"" UUID_1
		       "\",\"state\":\"up\",\"since_ns\":1,\"former\":\"" UUID_2 "\"}]}",
		       &why) == -EBADMSG);
	return 0;
}

static void late_properties_stay_with_their_share(void **state)
{
	on_control(store_late, NULL);
}

static void shares_keep_their_states(void **state)
{
	on_control(store_shares, NULL);
	on_control(replace_share, NULL);
}

static int leave_copy(void *unused)
{
	struct catalog_pool_record pool_record = make_pool("p");
	struct catalog_volume_record record = make_volume(), next;
	const struct catalog_place place = { .rank = 3 };
	struct catalog_volume *volume;
	struct catalog_old_copy *copy;
	struct fathom_fault why = { 0 };
	struct catalog *catalog;
	struct catalog_pool *pool;

	must(catalog_open(fixture.db, &catalog, NULL) == 0);
	must(catalog_add_pool(catalog, &pool_record, &pool, NULL) == 0);
	must(catalog_add_volume(catalog, pool, &record, &volume, NULL) == 0);
	next = volume->record;
	next.change = (struct catalog_change){ 0 };
	must(catalog_leave_copy(catalog, volume, &next, &place, NULL) == 0);
	must(volume->record.change.kind == CATALOG_NO_CHANGE);
	must(catalog_remove_pool(catalog, pool, NULL) == 0); /* the copy is independent */
	catalog_close(catalog);
	must(catalog_open(fixture.db, &catalog, NULL) == 0);
	copy = catalog_find_old_copy(catalog, UUID_2, 3);
	must(copy && strcmp(copy->pool, "p") == 0 && strcmp(copy->volume, "v") == 0 && copy->since_ns > 0);
	must(!catalog_find_old_copy(catalog, UUID_2, 9) && catalog_count_old_copies(catalog, UUID_1, 3) == 1);
	must(catalog_remove_old_copy(catalog, copy, NULL) == 0 && catalog->old_copy_count == 0);
	catalog_close(catalog);
	/* the name of the pool is for people */
	must(open_with("old-copy/" UUID_2 "/3",
		       "{\"schema\":1,\"pool\":\".a label\",\"pool_uuid\":\"" UUID_1
		       "\",\"volume\":\"v\",\"uuid\":\"" UUID_2 "\",\"rank\":3,\"member\":\"" UUID_1 "\",\"since_ns\":1}",
		       &why) == 0);
	must(open_with("old-copy/" UUID_2 "/3", "{}", &why) == -EBADMSG && why.code == FAULT_DB_VALUE_BAD);
	must(open_with("old-copy/" UUID_2 "/3", "no JSON", &why) == -EBADMSG);
	must(open_with("old-copy/" UUID_2 "/4",
		       "{\"schema\":1,\"pool\":\"p\",\"pool_uuid\":\"" UUID_1 "\",\"volume\":\"v\",\"uuid\":\"" UUID_2
		       "\",\"rank\":3,\"member\":\"" UUID_1 "\",\"since_ns\":1}",
		       &why) == -EBADMSG);
	return 0;
}

static void an_old_copy_is_kept_without_its_volume(void **state)
{
	on_control(leave_copy, NULL);
}

static int open_damaged(void *unused)
{
	static const char *const keys[] = { "pool/p", "pool/.p", "volume/p/v", "volume/v", "volume/p/v/w" };
	struct catalog_pool_record record = make_pool("p");
	struct fathom_fault why = { 0 };
	char *text;

	for (size_t i = 0; i < ARRAY_COUNT(keys); i++) {
		must(open_with(keys[i], "{}", &why) == -EBADMSG);
		must(why.code == FAULT_DB_VALUE_BAD);
		must(open_with(keys[i], "no JSON", &why) == -EBADMSG);
	}
	must(catalog_encode_pool(&record, &text) == 0);
	must(open_with("pool/p", text, &why) == 0);
	must(open_with("pool/-p", text, &why) == -EBADMSG);
	check_origins();
	check_untouched_pool();
	for (char *c = text; *c; c++) {
		char kept = *c;

		/* each change of a byte is refused, or gives another valid value */
		*c = '}';
		if (open_with("pool/p", text, &why) != 0)
			must(why.code == FAULT_DB_VALUE_BAD);
		*c = kept;
	}
	free(text);
	free(record.places);
	free(record.acl);
	return 0;
}

/* A pool of a release without lists: anyone may attach its volumes, as before. */
static int open_without_acl(void *unused)
{
	struct catalog_pool_record record = make_pool("p"), loaded;
	char *text, *acl;

	must(catalog_encode_pool(&record, &text) == 0);
	acl = strstr(text, ",\"acl\":[\"A::OWNER@:rw\",\"A:G:GROUP@:rw\"]");
	must(acl);
	snprintf(acl, strlen(acl) + 1, "}");
	must(catalog_decode_pool(text, strlen(text), &loaded) == 0);
	must(loaded.acl->count == 1 && loaded.acl->entries[0].kind == ACL_EVERYONE);
	must(loaded.acl->entries[0].permissions == (ACL_READ | ACL_WRITE));
	free(text);
	free(record.places);
	free(record.acl);
	free(loaded.places);
	free(loaded.uses);
	free(loaded.acl);
	return 0;
}

static void a_record_without_a_list_is_open_to_everyone(void **state)
{
	on_control(open_without_acl, NULL);
}

static void a_damaged_record_is_refused_by_its_key(void **state)
{
	on_control(open_damaged, NULL);
}

static int exceed_limits(void *unused)
{
	struct catalog_pool_record pool_record = make_pool("p"), second = make_pool("q");
	struct catalog_volume_record record = make_volume();
	struct catalog_volume *volume;
	struct fathom_fault why = { 0 };
	struct catalog *catalog;
	struct catalog_pool *pool;
	int code;

	must(catalog_open(fixture.db, &catalog, NULL) == 0);
	must(catalog_add_pool(catalog, &pool_record, &pool, NULL) == 0);
	catalog->volume_count = CATALOG_VOLUMES_MAX;
	must(catalog_add_volume(catalog, pool, &record, &volume, &why) == -ENOSPC);
	catalog->volume_count = 0;
	catalog->pool_count = CATALOG_POOLS_MAX;
	must(catalog_add_pool(catalog, &second, &pool, &why) == -ENOSPC);
	code = why.code;
	catalog->pool_count = 1;
	catalog_close(catalog);
	free(second.places);
	free(second.acl);
	free(record.hosts);
	return code;
}

static void a_full_catalog_refuses_more(void **state)
{
	int code = on_control(exceed_limits, NULL);

	assert_int_equal(code, FAULT_CATALOG_FULL);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_begin, fixture_end)
	const struct CMUnitTest tests[] = {
		TEST(shares_keep_their_states),
		TEST(late_properties_stay_with_their_share),
		TEST(an_old_copy_is_kept_without_its_volume),
		TEST(records_come_back_as_they_were_stored),
		TEST(a_volume_gets_another_name_in_one_transaction),
		TEST(a_record_without_a_list_is_open_to_everyone),
		TEST(a_damaged_record_is_refused_by_its_key),
		TEST(a_full_catalog_refuses_more),
	};

	return cmocka_run_group_tests_name("control mgmt catalog", tests, NULL, NULL);
}
