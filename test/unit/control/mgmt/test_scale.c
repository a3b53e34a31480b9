/* SPDX-License-Identifier: BSD-2-Clause */
/* The most hosts that a request can name, and the most members that a system can have. */
#include "control/db/system_store.h"

#include "fixture.h"

/* Each absent host must not cause another sort of all hosts: four such queries then exceed the test's time limit. */
static void queries_with_the_most_hosts_end_in_time(void **state)
{
	static const char all[] = "a[0-9999],b[0-9999],c[0-9999],d[0-9999],e[0-9999],f[0-9999],g[0-5535]";
	Mgmt__SystemQueryReq request = MGMT__SYSTEM_QUERY_REQ__INIT;
	static struct question questions[4];

	memset(questions, 0, sizeof(questions));
	join_many(1);
	request.hosts = (char *)all;
	for (size_t i = 0; i < ARRAY_COUNT(questions); i++)
		ask_begin(&questions[i], fixture.admin, "/mgmt.MgmtSvc/SystemQuery", &request.base,
			  &mgmt__system_query_resp__descriptor);
	for (size_t i = 0; i < ARRAY_COUNT(questions); i++) {
		const Mgmt__SystemQueryResp *response;

		question_wait(&questions[i]);
		response = answer_of(&questions[i]);
		assert_int_equal(response->n_members, 0);
		assert_string_equal(response->absenthosts, all);
		question_end(&questions[i]);
	}
}

static void write_member(uint32_t rank, struct member *member)
{
	char uuid[MEMBER_UUID_TEXT_BYTES];

	memset(member, 0, sizeof(*member));
	write_uuid(rank, uuid);
	must(member_uuid_parse(uuid, member->uuid) == 0);
	member->rank = rank;
	member->state = MEMBER_ERRORED;
	member->incarnation = clock_realtime_ns();
	member->updated_ns = member->incarnation;
	member->fabric_count = 1;
	snprintf(member->address, sizeof(member->address), "%s", fixture.fakes[rank % FAKES].address);
	snprintf(member->domain, sizeof(member->domain), "/rack%u/node%u", rank / 32, rank);
	memset(member->info, 'x', MEMBER_INFO_BYTES - 1);
	snprintf(member->fabrics[0].uri, MEMBER_URI_BYTES, "nvme+tcp://[fd00:1234:5678:9abc:def0:1234:%x:%x]:20000",
		 rank >> 8, rank & 0xff);
}

/* Store the most members, without the first and the last rank. The service is closed. */
static void fill_system(struct db *db)
{
	static struct db_change changes[DB_CHANGES_MAX];
	static char keys[DB_CHANGES_MAX][32];
	struct member member;
	uint32_t rank = 1;

	while (rank < SYSTEM_MEMBERS_MAX - 1) {
		size_t count = 0;

		for (; rank < SYSTEM_MEMBERS_MAX - 1 && count < DB_CHANGES_MAX; rank++, count++) {
			char *text;

			write_member(rank, &member);
			must(member_encode(&member, &text) == 0);
			snprintf(keys[count], sizeof(keys[count]), "system/member/%08x", rank);
			changes[count] = (struct db_change){ .key = keys[count],
							     .expected = DB_VERSION_NONE,
							     .what = DB_PUT,
							     .value = text,
							     .bytes = strlen(text) };
		}
		must(db_commit(db, changes, count, NULL, NULL) == 0);
		for (size_t i = 0; i < count; i++)
			free((char *)(uintptr_t)changes[i].value);
	}
}

static int make_large(void *unused)
{
	struct db *db;

	close_mgmt(NULL);
	must(db_open_sqlite(fixture.path, &db, NULL) == 0);
	fill_system(db);
	db_close(db);
	return open_mgmt(NULL);
}

/* The answers and maps are larger than the usual limit of 4 MiB for messages. */
static void the_most_members_fit_answers_and_maps(void **state)
{
	Mgmt__GetAttachInfoReq attach = MGMT__GET_ATTACH_INFO_REQ__INIT;
	Mgmt__SystemQueryReq request = MGMT__SYSTEM_QUERY_REQ__INIT;
	const Mgmt__SystemQueryResp *response;
	struct joining last;

	(void)join(0, 100);
	fill_join(&last, SYSTEM_MEMBERS_MAX - 1, 100);
	last.request.rank = SYSTEM_MEMBERS_MAX - 1;
	(void)answer_of(ask_join(&last));
	assert_int_equal(on_control(make_large, NULL), 0);
	response = answer_of(ADMIN_ASK("SystemQuery", request, system_query));
	assert_int_equal(response->n_members, SYSTEM_MEMBERS_MAX);
	assert_true(mgmt__system_query_resp__get_packed_size(response) > 24 << 20);
	attach.all_ranks = true;
	assert_int_equal(((const Mgmt__GetAttachInfoResp *)answer_of(ADMIN_ASK("GetAttachInfo", attach, get_attach_info)))
				 ->n_rank_uris,
			 SYSTEM_MEMBERS_MAX);
	wait_until(all_have_the_map, NULL);
	for (size_t i = 0; i < FAKES; i++)
		assert_int_equal(fixture.fakes[i].map_engines, SYSTEM_MEMBERS_MAX);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_begin, fixture_end)
	const struct CMUnitTest tests[] = {
		TEST(queries_with_the_most_hosts_end_in_time),
		TEST(the_most_members_fit_answers_and_maps),
	};

	return cmocka_run_group_tests_name("control mgmt scale", tests, NULL, NULL);
}
