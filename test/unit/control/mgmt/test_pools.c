/* SPDX-License-Identifier: BSD-2-Clause */
/* Pools of the management service: created on ranks, listed, queried, destroyed; each refusal with its fault. */
#include "storage_calls.h"

#define UUID_1 "11111111-1111-4111-8111-111111111111"
#define UUID_2 "22222222-2222-4222-8222-222222222222"

static struct fake_storage *storage_of(uint32_t rank)
{
	return &fixture.fakes[rank].storage;
}

static void a_pool_is_created_on_all_ranks_and_destroyed(void **state)
{
	const Mgmt__PoolCreateResp *created;
	const Mgmt__ListPoolsResp *list;
	struct pool_request request;
	char message[512];

	join_many(3);
	fill_pool(&request, "p1", UUID_1);
	request.message.total_bytes = 3 * GIB;
	created = answer_of(ask_pool(&request));
	assert_int_equal(created->n_tgt_ranks, 3);
	assert_int_equal(created->n_tier_bytes, 2);
	assert_int_equal(created->tier_bytes[1], GIB);
	assert_string_equal(created->uuid, UUID_1);
	for (uint32_t rank = 0; rank < 3; rank++) {
		assert_int_equal(storage_of(rank)->pool_count, 1);
		assert_string_equal(storage_of(rank)->pools[0].name, "p1");
		assert_string_equal(storage_of(rank)->pools[0].uuid, UUID_1);
		assert_int_equal(storage_of(rank)->pools[0].size_bytes, GIB);
	}
	list = list_pools();
	assert_int_equal(list->n_pools, 1);
	assert_string_equal(list->pools[0]->label, "p1");
	assert_string_equal(list->pools[0]->state, "Ready");
	assert_int_equal(count_events(RAS_POOL_CREATED, message, sizeof(message)), 1);
	assert_non_null(strstr(message, "pool \"p1\" was created on 3 ranks"));
	answer_of(destroy_pool("p1", false, false));
	assert_int_equal(list_pools()->n_pools, 0);
	for (uint32_t rank = 0; rank < 3; rank++)
		assert_int_equal(storage_of(rank)->pool_count, 0);
	assert_int_equal(count_events(RAS_POOL_DESTROYED, message, sizeof(message)), 1);
	assert_int_equal(destroy_pool("p1", false, false)->why.code, FAULT_NO_SUCH_POOL);
}

static void a_repeated_creation_succeeds_and_a_different_one_says_what_differs(void **state)
{
	struct pool_request request;
	uint32_t ranks[] = { 0, 7 };
	struct question *question;

	join_many(2);
	fill_pool(&request, "p1", UUID_1);
	answer_of(ask_pool(&request));
	assert_string_equal(((const Mgmt__PoolCreateResp *)answer_of(ask_pool(&request)))->uuid, UUID_1);
	request.message.total_bytes = 2 * GIB;
	question = ask_pool(&request);
	assert_int_equal(question->why.code, FAULT_POOL_DIFFERS);
	assert_string_equal(question->why.text, "pool \"p1\" exists, with another size in bytes: no limit, not 2147483648");
	request.message.total_bytes = 0;
	request.message.num_ranks = 1;
	assert_int_equal(ask_pool(&request)->why.code, FAULT_POOL_DIFFERS);
	request.message.num_ranks = 0;
	request.message.ranks = ranks;
	request.message.n_ranks = 2;
	assert_int_equal(ask_pool(&request)->why.code, FAULT_POOL_DIFFERS);
	request.message.n_ranks = 0;
	request.message.overcommit = true;
	assert_int_equal(ask_pool(&request)->why.code, FAULT_POOL_DIFFERS);
	fill_pool(&request, "p2", UUID_1);
	assert_int_equal(ask_pool(&request)->why.code, FAULT_POOL_DIFFERS);
	fill_pool(&request, "p1", UUID_2);
	question = ask_pool(&request);
	assert_int_equal(question->why.code, FAULT_POOL_LABEL_TAKEN);
	assert_string_equal(question->message,
			    "server: code = 609 description = \"pool label \\\"p1\\\" already exists in the system\"");
	assert_int_equal(storage_of(0)->pool_count, 1);
}

/* Two operators may choose one label. */
static void without_a_key_the_owner_and_the_list_count_too(void **state)
{
	const char *entry = "A::bob@:rw";
	struct pool_request request;
	char uuid[MEMBER_UUID_TEXT_BYTES];

	join_many(2);
	fill_pool(&request, "p1", "");
	snprintf(uuid, sizeof(uuid), "%s", ((const Mgmt__PoolCreateResp *)answer_of(ask_pool(&request)))->uuid);
	assert_string_equal(((const Mgmt__PoolCreateResp *)answer_of(ask_pool(&request)))->uuid, uuid);
	request.message.acl = (char **)&entry;
	request.message.n_acl = 1;
	assert_string_equal(ask_pool(&request)->why.text,
			    "pool \"p1\" exists, with another access control list: other entries, not these");
	request.message.user_group = (char *)"staff@";
	assert_string_equal(ask_pool(&request)->why.text, "pool \"p1\" exists, with another group: none, not staff@");
	request.message.user = (char *)"eve@";
	assert_string_equal(ask_pool(&request)->why.text, "pool \"p1\" exists, with another owner: bob@, not eve@");
	fill_pool(&request, "p2", "");
	request.message.acl = (char **)&entry;
	request.message.n_acl = 1;
	(void)answer_of(ask_pool(&request));
	(void)answer_of(ask_pool(&request));
	assert_int_equal(list_pools()->n_pools, 2);
}

static void requests_that_make_no_sense_are_refused(void **state)
{
	char long_name[80];
	struct pool_request request;
	uint32_t ranks[] = { 9 };

	join_many(2);
	memset(long_name, 'x', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = '\0';
	assert_int_equal(create_pool("")->why.code, FAULT_STORAGE_NAME_BAD);
	assert_int_equal(create_pool(".p")->why.code, FAULT_STORAGE_NAME_BAD);
	assert_int_equal(create_pool("a/b")->why.code, FAULT_STORAGE_NAME_BAD);
	assert_int_equal(create_pool(UUID_1)->why.code, FAULT_STORAGE_NAME_BAD);
	assert_int_equal(create_pool(long_name)->why.code, FAULT_STORAGE_NAME_BAD);
	fill_pool(&request, "p1", "no uuid");
	assert_int_equal(ask_pool(&request)->why.code, FAULT_STORAGE_NAME_BAD);
	fill_pool(&request, "p1", "");
	request.message.ranks = ranks;
	request.message.n_ranks = 1;
	assert_int_equal(ask_pool(&request)->why.code, FAULT_NO_SUCH_RANK);
	request.message.n_ranks = 0;
	request.message.num_ranks = 3;
	assert_int_equal(ask_pool(&request)->why.code, FAULT_RANKS_TOO_FEW);
	assert_int_equal(list_pools()->n_pools, 0);
}

static void a_rank_that_has_not_joined_gets_no_pool(void **state)
{
	Mgmt__SystemExcludeReq exclude = MGMT__SYSTEM_EXCLUDE_REQ__INIT;
	struct pool_request request;
	uint32_t ranks[] = { 1 };

	join_many(2);
	exclude.ranks = (char *)"1";
	answer_of(ADMIN_ASK("SystemExclude", exclude, system_exclude));
	fill_pool(&request, "p1", "");
	request.message.ranks = ranks;
	request.message.n_ranks = 1;
	assert_int_equal(ask_pool(&request)->why.code, FAULT_RANK_NOT_JOINED);
	assert_int_equal(((const Mgmt__PoolCreateResp *)answer_of(create_pool("p2")))->n_tgt_ranks, 1);
}

static void a_number_of_ranks_takes_those_with_the_most_free_space(void **state)
{
	const Mgmt__PoolCreateResp *created;
	struct pool_request request;

	join_many(4);
	for (uint32_t rank = 0; rank < 4; rank++)
		storage_of(rank)->total_bytes = 10 * GIB;
	storage_of(0)->free_bytes = 5 * GIB;
	storage_of(1)->free_bytes = 9 * GIB;
	storage_of(2)->free_bytes = GIB;
	storage_of(3)->free_bytes = 7 * GIB;
	fill_pool(&request, "p1", "");
	request.message.num_ranks = 2;
	created = answer_of(ask_pool(&request));
	assert_int_equal(created->n_tgt_ranks, 2);
	assert_int_equal(created->tgt_ranks[0], 1);
	assert_int_equal(created->tgt_ranks[1], 3);
}

/* Ranks 0 to 3 on hosts n0 to n3; n0 and n1 are in rack r0, the others in r1. */
static void join_racks(void)
{
	static const char *const domains[] = { "/r0/n0", "/r0/n1", "/r1/n2", "/r1/n3" };

	for (uint32_t number = 0; number < 4; number++) {
		struct joining joining;

		fill_join(&joining, number, 100);
		joining.request.srvfaultdomain = (char *)domains[number];
		answer_of(ask_join(&joining));
	}
}

static void a_pool_is_spread_over_racks(void **state)
{
	const Mgmt__PoolCreateResp *created;
	struct pool_request request;

	join_racks();
	storage_of(2)->free_bytes /= 2;
	fill_pool(&request, "p1", "");
	request.message.num_ranks = 2;
	created = answer_of(ask_pool(&request));
	assert_int_equal(created->tgt_ranks[0], 0);
	assert_int_equal(created->tgt_ranks[1], 3);
	assert_string_equal(query_pool("p1")->ranks[1]->domain, "/r1/n3");
	/* the number of volumes counts, of all pools */
	volume_of(create_volume_on("p1/a", GIB, "0"));
	storage_of(0)->free_bytes += GIB;
	fill_pool(&request, "p2", "");
	request.message.num_ranks = 1;
	created = answer_of(ask_pool(&request));
	assert_int_equal(created->tgt_ranks[0], 1);
}

static void a_rank_that_failed_or_is_nearly_full_gets_no_pool(void **state)
{
	const Mgmt__PoolCreateResp *created;
	struct pool_request request;
	struct question *question;
	uint32_t ranks[] = { 0 };

	join_many(3);
	storage_of(0)->free_bytes = storage_of(0)->total_bytes / 25;
	storage_of(1)->has_failed = true;
	created = answer_of(create_pool("p1"));
	assert_int_equal(created->n_tgt_ranks, 1);
	assert_int_equal(created->tgt_ranks[0], 2);
	fill_pool(&request, "p2", "");
	request.message.num_ranks = 2;
	question = ask_pool(&request);
	assert_int_equal(question->why.code, FAULT_RANKS_NEARLY_FULL);
	assert_string_equal(question->why.text,
			    "pool \"p2\" has no rank for this: 1 rank with room is more than 95 % full: rank 0");
	/* named, it is taken */
	request.message.num_ranks = 0;
	request.message.ranks = ranks;
	request.message.n_ranks = 1;
	answer_of(ask_pool(&request));
	storage_of(2)->has_failed = true;
	storage_of(0)->has_failed = true;
	assert_int_equal(create_pool("p3")->why.code, FAULT_RANKS_TOO_FEW);
}

static void a_refused_creation_is_undone_on_all_ranks(void **state)
{
	struct question *question;
	char message[512];

	join_many(3);
	storage_of(1)->errors[STORE__ACTION__POOL_CREATE] = -EIO;
	question = create_pool("p1");
	assert_int_equal(question->why.code, FAULT_STORAGE_REFUSED);
	assert_string_equal(question->why.text, "rank 1 cannot create pool \"p1\": the fake storage refuses");
	assert_int_equal(list_pools()->n_pools, 0);
	for (uint32_t rank = 0; rank < 3; rank++)
		assert_int_equal(storage_of(rank)->pool_count, 0);
	assert_int_equal(count_events(RAS_STORAGE_CHANGE_FAILED, message, sizeof(message)), 1);
	storage_of(1)->errors[STORE__ACTION__POOL_CREATE] = 0;
	answer_of(create_pool("p1"));
}

static void a_query_shows_space_and_ranks(void **state)
{
	const Mgmt__PoolQueryResp *pool;
	struct pool_request request;
	struct question *question;
	Mgmt__PoolQueryReq query = MGMT__POOL_QUERY_REQ__INIT;

	join_many(2);
	fill_pool(&request, "p1", UUID_1);
	request.message.total_bytes = 20 * GIB;
	answer_of(ask_pool(&request));
	volume_of(create_volume_on("p1/db", 4 * GIB, "1"));
	storage_of(0)->free_bytes = 3 * GIB;
	pool = query_pool("p1");
	assert_string_equal(pool->uuid, UUID_1);
	assert_int_equal(pool->state, MGMT__POOL_SERVICE_STATE__Ready);
	assert_int_equal(pool->total_targets, 2);
	assert_int_equal(pool->active_targets, 2);
	assert_string_equal(pool->enabled_ranks, "0-1");
	assert_int_equal(pool->query_mask, 0xffffffffffffffabull);
	assert_int_equal(pool->n_tier_stats, 2);
	assert_int_equal(pool->tier_stats[1]->total, 20 * GIB);
	assert_int_equal(pool->tier_stats[1]->free, 9 * GIB);
	assert_int_equal(pool->tier_stats[1]->min, 3 * GIB);
	assert_int_equal(pool->tier_stats[1]->max, 6 * GIB);
	assert_int_equal(pool->volume_count, 1);
	assert_int_equal(pool->ranks[1]->promised_bytes, 4 * GIB);
	assert_int_equal(pool->ranks[1]->volume_count, 1);
	assert_true(pool->ranks[1]->asked_ns > 0);
	assert_string_equal(query_pool(UUID_1)->label, "p1");
	query.id = (char *)"nosuch";
	question = ADMIN_ASK("PoolQuery", query, pool_query);
	assert_int_equal(question->why.code, FAULT_NO_SUCH_POOL);
	/* dmg compares this text */
	assert_string_equal(question->message, "unable to find pool service with label \"nosuch\"");
	assert_int_equal(question->code, GRPC_INTERNAL);
}

/* One call brings what queries of all pools would bring, and asks each engine once. */
static void a_list_brings_the_figures_of_all_pools(void **state)
{
	Mgmt__ListPoolsReq request = MGMT__LIST_POOLS_REQ__INIT;
	const Mgmt__ListPoolsResp *list;
	uint32_t lists;

	join_many(2);
	answer_of(create_pool("p"));
	answer_of(create_pool("q"));
	volume_of(create_volume("q/a", GIB));
	assert_int_equal(list_pools()->n_queried, 0);
	lists = fixture.fakes[0].storage.calls[STORE__ACTION__LIST];
	request.query = true;
	list = answer_of(ADMIN_ASK("ListPools", request, list_pools));
	assert_int_equal(fixture.fakes[0].storage.calls[STORE__ACTION__LIST], lists + 1);
	assert_int_equal(list->n_queried, 2);
	assert_string_equal(list->queried[1]->label, "q");
	assert_int_equal(list->queried[1]->volume_count, 1);
	assert_int_equal(list->queried[1]->n_ranks, 2);
	assert_int_equal(list->queried[1]->tier_stats[1]->total, 2ull << 40);
}

static void the_label_is_a_property_and_others_are_left_out(void **state)
{
	Mgmt__PoolProperty label = MGMT__POOL_PROPERTY__INIT, other = MGMT__POOL_PROPERTY__INIT;
	Mgmt__PoolProperty *asked[] = { &other, &label };
	Mgmt__PoolGetPropReq request = MGMT__POOL_GET_PROP_REQ__INIT;
	const Mgmt__PoolGetPropResp *answer;

	join_many(1);
	answer_of(create_pool("p1"));
	label.number = 1;
	other.number = 4;
	request.id = (char *)"p1";
	request.properties = asked;
	request.n_properties = 1;
	answer = answer_of(ADMIN_ASK("PoolGetProp", request, pool_get_prop));
	assert_int_equal(answer->n_properties, 0);
	request.n_properties = 2;
	answer = answer_of(ADMIN_ASK("PoolGetProp", request, pool_get_prop));
	assert_int_equal(answer->n_properties, 1);
	assert_int_equal(answer->properties[0]->number, 1);
	assert_string_equal(answer->properties[0]->strval, "p1");
	request.id = (char *)"nosuch";
	assert_int_equal(ADMIN_ASK("PoolGetProp", request, pool_get_prop)->why.code, FAULT_NO_SUCH_POOL);
}

static void a_query_does_not_wait_for_an_engine_that_hangs(void **state)
{
	const Mgmt__PoolQueryResp *pool;
	uint64_t asked_ns;

	fixture.storage_read_ns = 50 * NS_PER_MS;
	reopen_mgmt();
	begin_with_pool(2);
	asked_ns = query_pool("p")->ranks[1]->asked_ns;
	assert_true(asked_ns > 0);
	storage_of(1)->lists_hang = true;
	pool = query_pool("p");
	assert_int_equal(pool->ranks[1]->asked_ns, asked_ns); /* the older figures */
	assert_true(pool->ranks[0]->asked_ns > asked_ns);
}

static void a_pool_with_volumes_is_destroyed_only_recursively(void **state)
{
	struct question *question;

	begin_with_pool(2);
	volume_of(create_volume("p/a", GIB));
	volume_of(create_volume("p/b", GIB));
	question = destroy_pool("p", false, false);
	assert_int_equal(question->why.code, FAULT_POOL_HAS_VOLUMES);
	assert_string_equal(question->why.text, "pool \"p\" is not empty: it has the volume \"a\" (number of volumes: 2)");
	answer_of(destroy_pool("p", false, true));
	assert_int_equal(list_pools()->n_pools, 0);
	assert_int_equal(list_volumes()->n_volumes, 0);
	assert_int_equal(storage_of(0)->volume_count + storage_of(1)->volume_count, 0);
	assert_int_equal(mgmt_stats(fixture.mgmt).volumes, 0);
}

static void a_pool_with_connected_hosts_is_destroyed_only_by_force(void **state)
{
	begin_with_pool(1);
	volume_of(create_volume("p/a", GIB));
	volume_of(publish_volume("p/a", HOST));
	storage_of(0)->volumes[0].is_connected[0] = true;
	storage_of(0)->lists_hang = true; /* whether hosts are connected is unknown */
	assert_int_equal(destroy_pool("p", false, true)->why.code, FAULT_STORAGE_UNANSWERED);
	storage_of(0)->lists_hang = false;
	reopen_mgmt(); /* it asks again */
	assert_int_equal(destroy_pool("p", false, true)->why.code, FAULT_POOL_CONNECTED);
	assert_int_equal(list_volumes()->n_volumes, 1);
	answer_of(destroy_pool("p", true, true));
	assert_int_equal(list_pools()->n_pools, 0);
}

/* The engine has volumes that the catalog does not know: it refuses, and the pool stays. */
static void a_refused_destruction_leaves_the_pool_ready(void **state)
{
	begin_with_pool(1);
	storage_of(0)->errors[STORE__ACTION__POOL_DESTROY] = -ENOTEMPTY;
	assert_int_equal(destroy_pool("p", false, false)->why.code, FAULT_STORAGE_IN_USE);
	assert_string_equal(list_pools()->pools[0]->state, "Ready");
	storage_of(0)->errors[STORE__ACTION__POOL_DESTROY] = 0;
	answer_of(destroy_pool("p", false, false));
}

/* All members are erased: the catalog has nothing left to describe. */
static void erasing_the_system_removes_the_pools(void **state)
{
	Mgmt__SystemStopReq stop = MGMT__SYSTEM_STOP_REQ__INIT;
	Mgmt__SystemEraseReq erase = MGMT__SYSTEM_ERASE_REQ__INIT;

	begin_with_pool(2);
	volume_of(create_volume("p/a", GIB));
	stop.force = true;
	answer_of(ADMIN_ASK("SystemStop", stop, system_stop));
	answer_of(ADMIN_ASK("SystemErase", erase, system_erase));
	assert_int_equal(mgmt_stats(fixture.mgmt).pools, 0);
	assert_int_equal(mgmt_stats(fixture.mgmt).volumes, 0);
	reopen_mgmt();
	assert_int_equal(mgmt_stats(fixture.mgmt).pools, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_begin, fixture_end)
	const struct CMUnitTest tests[] = {
		TEST(a_pool_is_created_on_all_ranks_and_destroyed),
		TEST(a_repeated_creation_succeeds_and_a_different_one_says_what_differs),
		TEST(without_a_key_the_owner_and_the_list_count_too),
		TEST(requests_that_make_no_sense_are_refused),
		TEST(a_rank_that_has_not_joined_gets_no_pool),
		TEST(a_number_of_ranks_takes_those_with_the_most_free_space),
		TEST(a_pool_is_spread_over_racks),
		TEST(a_rank_that_failed_or_is_nearly_full_gets_no_pool),
		TEST(a_refused_creation_is_undone_on_all_ranks),
		TEST(a_query_shows_space_and_ranks),
		TEST(a_list_brings_the_figures_of_all_pools),
		TEST(the_label_is_a_property_and_others_are_left_out),
		TEST(a_query_does_not_wait_for_an_engine_that_hangs),
		TEST(a_pool_with_volumes_is_destroyed_only_recursively),
		TEST(a_pool_with_connected_hosts_is_destroyed_only_by_force),
		TEST(a_refused_destruction_leaves_the_pool_ready),
		TEST(erasing_the_system_removes_the_pools),
	};

	return cmocka_run_group_tests_name("control mgmt pools", tests, NULL, NULL);
}
