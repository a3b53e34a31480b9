/* SPDX-License-Identifier: BSD-2-Clause */
/* Evictions: hosts lose the volumes of a pool; what is refused, what waits, and what an agent may do. */
#include "control/mgmt/storage/storage.h"
#include "storage_calls.h"

#define MIB (1ull << 20)

static struct fake_storage *storage_of(uint32_t rank)
{
	return &fixture.fakes[rank].storage;
}

static int32_t count_of(const struct question *question)
{
	return ((const Mgmt__PoolEvictResp *)answer_of(question))->count;
}

static void begin_with_hosts(void)
{
	begin_with_pool(2);
	volume_of(create_volume_on("p/a", GIB, "0"));
	volume_of(create_volume_on("p/b", GIB, "1"));
	volume_of(create_volume_on("p/c", GIB, "1"));
	volume_of(publish_volume("p/a", HOST));
	volume_of(publish_volume("p/a", "nqn.other"));
	volume_of(publish_volume("p/b", HOST));
	storage_of(0)->volumes[0].is_connected[0] = true;
}

static void hosts_lose_the_volumes_of_the_pool(void **state)
{
	char message[512];

	begin_with_hosts();
	assert_int_equal(count_of(evict("p", HOST)), 2);
	assert_int_equal(show_volume("p/a")->n_hosts, 1);
	assert_int_equal(storage_of(0)->volumes[0].host_count, 1);
	assert_int_equal(storage_of(1)->volumes[0].host_count, 0);
	assert_int_equal(count_of(evict("p", HOST)), 0);
	volume_of(publish_volume("p/b", HOST)); /* it comes back only if it is published again */
	assert_int_equal(count_of(evict("p", "")), 2);
	assert_int_equal(show_volume("p/a")->n_hosts + show_volume("p/b")->n_hosts, 0);
	assert_int_equal(count_events(RAS_POOL_EVICTED, message, sizeof(message)), 2);
	assert_non_null(strstr(message, "evicted from pool \"p\": 2 publications of 2 volumes are withdrawn"));
	assert_int_equal(mgmt_stats(fixture.mgmt).evicted, 4);
}

static void what_is_no_eviction_is_refused(void **state)
{
	Mgmt__PoolEvictReq request = MGMT__POOL_EVICT_REQ__INIT;
	char *handles[] = { (char *)"33333333-3333-4333-8333-333333333333",
			    (char *)"44444444-3333-4333-8333-333333333333" };
	struct question *question;

	begin_with_hosts();
	assert_int_equal(evict("q", "")->why.code, FAULT_NO_SUCH_POOL);
	assert_int_equal(evict("p", "a host")->why.code, FAULT_NQN_BAD);
	request.id = (char *)"p";
	request.destroy = true;
	question = ADMIN_ASK("PoolEvict", request, pool_evict);
	assert_int_equal(question->why.code, FAULT_EVICT_REFUSED);
	assert_string_equal(question->why.resolution, "use `fathom pool destroy --recursive --force`");
	request.destroy = false;
	request.handles = handles;
	request.n_handles = 2;
	assert_int_equal(ADMIN_ASK("PoolEvict", request, pool_evict)->why.code, FAULT_EVICT_REFUSED);
	/* of an agent: nothing of them is here */
	assert_int_equal(count_of(ask(fixture.agent, "/mgmt.MgmtSvc/PoolEvict", &request.base,
				      &mgmt__pool_evict_resp__descriptor)),
			 2);
	request.n_handles = 0;
	assert_int_equal(
		ask(fixture.agent, "/mgmt.MgmtSvc/PoolEvict", &request.base, &mgmt__pool_evict_resp__descriptor)->why.code,
		FAULT_EVICT_REFUSED);
	assert_int_equal(show_volume("p/a")->n_hosts, 2);
}

/* Nothing is evicted while a change of one of the volumes is pending. */
static void a_pending_change_of_a_volume_is_named(void **state)
{
	reopen_with_patience(NS_PER_MS);
	begin_with_hosts();
	storage_of(1)->errors[STORE__ACTION__VOLUME_RESIZE] = -EAGAIN;
	assert_int_equal(resize_volume("p/b", 2 * GIB, false)->why.code, FAULT_STORAGE_WAITS);
	assert_int_equal(evict("p", "")->why.code, FAULT_STORAGE_CHANGING);
	assert_int_equal(show_volume("p/a")->n_hosts, 2);
	assert_int_equal(count_of(evict("p", "nqn.other")), 1); /* which p/b is not published to */
	storage_of(1)->errors[STORE__ACTION__VOLUME_RESIZE] = 0;
	wait_until(nothing_is_pending, NULL);
	assert_int_equal(count_of(evict("p", "")), 2);
}

/* The intents are stored: they go on after a restart, and a repeated eviction waits for them. */
static void an_interrupted_eviction_goes_on(void **state)
{
	reopen_with_patience(NS_PER_MS);
	begin_with_hosts();
	storage_of(1)->errors[STORE__ACTION__VOLUME_UNPUBLISH] = -EAGAIN;
	assert_int_equal(evict("p", "")->why.code, FAULT_STORAGE_WAITS);
	assert_int_equal(show_volume("p/a")->n_hosts, 0);
	assert_string_equal(show_volume("p/b")->pending, "unpublish from all hosts");
	reopen_with_patience(0);
	storage_of(1)->errors[STORE__ACTION__VOLUME_UNPUBLISH] = 0;
	(void)count_of(evict("p", "")); /* or it is done already */
	assert_int_equal(show_volume("p/b")->n_hosts, 0);
	assert_int_equal(storage_of(1)->volumes[0].host_count, 0);
}

static void a_refusal_of_an_engine_is_the_answer(void **state)
{
	begin_with_hosts();
	storage_of(1)->errors[STORE__ACTION__VOLUME_UNPUBLISH] = -EIO;
	assert_int_equal(evict("p", "")->why.code, FAULT_STORAGE_REFUSED);
	assert_int_equal(show_volume("p/a")->n_hosts, 0); /* the others are evicted */
	assert_int_equal(show_volume("p/b")->n_hosts, 1);
}

static bool all_are_evicted(void *unused)
{
	const struct fake_storage *storage = storage_of(0);

	for (uint32_t i = 0; i < storage->volume_count; i++) {
		if (storage->volumes[i].host_count > 0)
			return false;
	}
	return nothing_is_pending(NULL);
}

/* As many unpublications as a rank may have begin at once, also after a restart; the others when these end. */
static void a_large_eviction_leaves_room_for_requests(void **state)
{
	char name[32];

	reopen_with_patience(NS_PER_MS);
	begin_with_pool(1);
	for (int i = 0; i < STORAGE_RANK_TASKS_MAX + 3; i++) {
		snprintf(name, sizeof(name), "p/%d", i);
		volume_of(create_volume(name, MIB));
		volume_of(publish_volume(name, HOST));
	}
	storage_of(0)->errors[STORE__ACTION__VOLUME_UNPUBLISH] = -EAGAIN;
	assert_int_equal(evict("p", "")->why.code, FAULT_STORAGE_WAITS);
	assert_int_equal(mgmt_stats(fixture.mgmt).storage_pending, STORAGE_RANK_TASKS_MAX);
	reopen_with_patience(0);
	assert_int_equal(mgmt_stats(fixture.mgmt).storage_pending, STORAGE_RANK_TASKS_MAX);
	storage_of(0)->errors[STORE__ACTION__VOLUME_UNPUBLISH] = 0;
	wait_until(all_are_evicted, NULL);
	assert_int_equal(count_of(evict("p", "")), 0);
}

/* An agent renews a publication only while it is there. */
static void a_host_does_not_renew_what_was_taken_from_it(void **state)
{
	Fathom__VolumePublishReq request = FATHOM__VOLUME_PUBLISH_REQ__INIT;
	struct question *question;

	begin_with_hosts();
	request.name = (char *)"p/b";
	request.host = (char *)HOST;
	request.renew = true;
	volume_of(FATHOM_ASK("VolumePublish", request, volume));
	assert_int_equal(count_of(evict("p", HOST)), 2);
	question = FATHOM_ASK("VolumePublish", request, volume);
	assert_int_equal(question->why.code, FAULT_HOST_EVICTED);
	assert_string_equal(question->why.text, "volume \"p/b\" was taken from host " HOST
						", by `fathom pool evict` or `fathom volume unpublish`");
	request.renew = false;
	volume_of(FATHOM_ASK("VolumePublish", request, volume));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_begin, fixture_end)
	const struct CMUnitTest tests[] = {
		TEST(hosts_lose_the_volumes_of_the_pool),
		TEST(what_is_no_eviction_is_refused),
		TEST(a_large_eviction_leaves_room_for_requests),
		TEST(a_pending_change_of_a_volume_is_named),
		TEST(an_interrupted_eviction_goes_on),
		TEST(a_refusal_of_an_engine_is_the_answer),
		TEST(a_host_does_not_renew_what_was_taken_from_it),
	};

	return cmocka_run_group_tests_name("control mgmt evictions", tests, NULL, NULL);
}
