/* SPDX-License-Identifier: BSD-2-Clause */
/* Properties of pools: by DAOS's numbers and by name; renamed pools; those of engines, refused and interrupted. */
#include "properties_calls.h"

/* As dmg does: by number. `text` NULL: `value` counts. */
static struct question *set_number(const char *id, uint32_t number, uint64_t value, const char *text)
{
	Mgmt__PoolSetPropReq request = MGMT__POOL_SET_PROP_REQ__INIT;
	Mgmt__PoolProperty property = MGMT__POOL_PROPERTY__INIT, *properties[] = { &property };

	property.number = number;
	property.value_case = text ? MGMT__POOL_PROPERTY__VALUE_STRVAL : MGMT__POOL_PROPERTY__VALUE_NUMVAL;
	if (text)
		property.strval = (char *)text;
	else
		property.numval = value;
	request.id = (char *)id;
	request.properties = properties;
	request.n_properties = 1;
	return ADMIN_ASK("PoolSetProp", request, pool_set_prop);
}

static void properties_have_the_numbers_and_forms_of_daos(void **state)
{
	Mgmt__PoolGetPropReq request = MGMT__POOL_GET_PROP_REQ__INIT;
	Mgmt__PoolProperty asked[4] = { MGMT__POOL_PROPERTY__INIT, MGMT__POOL_PROPERTY__INIT, MGMT__POOL_PROPERTY__INIT,
					MGMT__POOL_PROPERTY__INIT },
			   *places[] = { &asked[0], &asked[1], &asked[2], &asked[3] };
	const uint32_t numbers[] = { 4, 17, 16, 1 };
	const Mgmt__PoolGetPropResp *answer;

	begin_with_pool(1);
	answer_of(set_number("p", 16, 0, NULL));
	answer_of(set_number("p", 17, 3600, NULL));
	for (size_t i = 0; i < 4; i++)
		asked[i].number = numbers[i];
	request.id = (char *)"p";
	request.properties = places;
	request.n_properties = 4;
	answer = answer_of(ADMIN_ASK("PoolGetProp", request, pool_get_prop));
	assert_int_equal(answer->n_properties, 3);
	assert_int_equal(answer->properties[0]->number, 1);
	assert_string_equal(answer->properties[0]->strval, "p");
	assert_int_equal(answer->properties[1]->number, 16);
	assert_int_equal(answer->properties[1]->value_case, MGMT__POOL_PROPERTY__VALUE_NUMVAL);
	assert_int_equal(answer->properties[1]->numval, 0);
	assert_string_equal(answer->properties[1]->text, "off");
	assert_int_equal(answer->properties[2]->numval, 3600);
	assert_true(storage_of(0)->pools[0].scrub_off);
	assert_int_equal(storage_of(0)->pools[0].scrub_seconds, 3600);
	answer_of(set_number("p", 16, 2, NULL));
	assert_string_equal(get_property("p", "scrub"), "timed");
}

static void a_value_or_a_property_without_a_meaning_is_refused_with_a_reason(void **state)
{
	struct question *question;

	begin_with_pool(1);
	question = set_number("p", 16, 1, NULL);
	assert_int_equal(question->why.code, FAULT_POOL_PROPERTY_BAD);
	assert_string_equal(question->why.text, "the pool property scrub cannot be \"lazy\"");
	assert_string_equal(question->why.resolution, "use off or timed");
	assert_int_equal(set_number("p", 16, 3, NULL)->why.code, FAULT_POOL_PROPERTY_BAD);
	assert_int_equal(set_number("p", 1, 3, NULL)->why.code, FAULT_POOL_PROPERTY_BAD);
	assert_int_equal(set_property("p", "scrub_freq", "0")->why.code, FAULT_POOL_PROPERTY_BAD);
	assert_int_equal(set_property("p", "thick", "yes")->why.code, FAULT_POOL_PROPERTY_BAD);
	assert_int_equal(set_property("p", "owner", "bob")->why.code, FAULT_POOL_PROPERTY_BAD);
	assert_int_equal(set_property("p", "label", ".x")->why.code, FAULT_STORAGE_NAME_BAD);
	question = set_number("p", 11, 2, NULL);
	assert_int_equal(question->why.code, FAULT_POOL_PROPERTY_ABSENT);
	assert_string_equal(question->why.text, "pools have no property rd_fac here: a volume is on one engine");
	question = set_number("p", 99, 2, NULL);
	assert_int_equal(question->why.code, FAULT_POOL_PROPERTY_UNKNOWN);
	assert_string_equal(question->why.text, "there is no pool property number 99");
	assert_int_equal(set_property("p", "colour", "red")->why.code, FAULT_POOL_PROPERTY_UNKNOWN);
	assert_int_equal(set_property("q", "thick", "true")->why.code, FAULT_NO_SUCH_POOL);
	assert_int_equal(storage_of(0)->calls[STORE__ACTION__POOL_SET], 0);
}

/* As `dmg pool create -P` does. */
static void a_new_pool_gets_the_properties_of_its_request(void **state)
{
	Mgmt__PoolProperty more = MGMT__POOL_PROPERTY__INIT, *properties[2];
	struct pool_request request;
	struct question *question;

	join_many(1);
	fill_pool(&request, "p", "");
	properties[0] = &request.label;
	properties[1] = &more;
	request.message.properties = properties;
	request.message.n_properties = 2;
	more.number = 11;
	more.value_case = MGMT__POOL_PROPERTY__VALUE_NUMVAL;
	more.numval = 2;
	question = ask_pool(&request);
	assert_int_equal(question->why.code, FAULT_POOL_PROPERTY_ABSENT);
	assert_string_equal(question->why.text, "pools have no property rd_fac here: a volume is on one engine");
	more.number = 16;
	more.numval = 0;
	answer_of(ask_pool(&request));
	assert_string_equal(get_property("p", "scrub"), "off");
	assert_string_equal(get_property("p", "label"), "p");
	assert_true(storage_of(0)->pools[0].scrub_off);
	answer_of(ask_pool(&request)); /* repeated */
	more.numval = 2;
	question = ask_pool(&request);
	assert_int_equal(question->why.code, FAULT_POOL_DIFFERS);
	assert_string_equal(question->why.text, "pool \"p\" exists, with another scrub: off, not timed");
	request.message.n_properties = 1;
	answer_of(set_property("p", "thick", "true"));
	answer_of(ask_pool(&request)); /* it names none of those that were set since */
}

static void a_repeated_creation_compares_a_size_that_is_a_property(void **state)
{
	Mgmt__PoolProperty more = MGMT__POOL_PROPERTY__INIT, *properties[2];
	struct pool_request request;

	join_many(1);
	fill_pool(&request, "p", "");
	properties[0] = &request.label;
	properties[1] = &more;
	request.message.properties = properties;
	request.message.n_properties = 2;
	more.name = (char *)"size";
	more.text = (char *)"2G";
	answer_of(ask_pool(&request));
	answer_of(ask_pool(&request));
	more.text = (char *)"4G";
	assert_string_equal(ask_pool(&request)->why.text,
			    "pool \"p\" exists, with another size in bytes: 2147483648, not 4294967296");
}

/* A request for properties that no pool has, and for none else. */
static void a_property_without_a_meaning_is_not_shown(void **state)
{
	Mgmt__PoolGetPropReq request = MGMT__POOL_GET_PROP_REQ__INIT;
	Mgmt__PoolProperty asked = MGMT__POOL_PROPERTY__INIT, *places[] = { &asked };
	const Mgmt__PoolGetPropResp *answer;

	begin_with_pool(1);
	request.id = (char *)"p";
	request.properties = places;
	request.n_properties = 1;
	asked.number = 12;
	assert_string_equal(ADMIN_ASK("PoolGetProp", request, pool_get_prop)->why.text,
			    "pools have no property ec_pda here: volumes are not erasure-coded");
	asked.number = 4; /* `dmg pool query` asks for it */
	answer = answer_of(ADMIN_ASK("PoolGetProp", request, pool_get_prop));
	assert_int_equal(answer->n_properties, 0);
}

/* The engines and the database keep the first label, so nothing is called, and a new pool may have that label. */
static void a_pool_gets_another_label_and_keeps_its_volumes(void **state)
{
	char message[512];

	begin_with_pool(2);
	volume_of(create_volume("p/a", GIB));
	answer_of(create_pool("q"));
	assert_int_equal(set_property("p", "label", "q")->why.code, FAULT_POOL_LABEL_TAKEN);
	answer_of(set_number("p", 1, 0, "new"));
	answer_of(set_number("p", 1, 0, "new")); /* repeated, by the former label */
	assert_int_equal(count_events(RAS_POOL_CHANGED, message, sizeof(message)), 1);
	assert_non_null(strstr(message, "properties of pool \"new\" were set: label by"));
	assert_int_equal(set_property("p", "thick", "true")->why.code, FAULT_NO_SUCH_POOL);
	assert_string_equal(show_volume("new/a")->name, "new/a");
	volume_of(create_volume("new/b", GIB));
	answer_of(create_pool("p"));
	volume_of(create_volume("p/a", GIB));
	reopen_mgmt();
	assert_string_equal(show_volume("new/b")->name, "new/b");
	assert_string_equal(show_volume("p/a")->name, "p/a");
	volume_of(resize_volume("p/a", 2 * GIB, false));
	answer_of(create_snapshot("new/a@s"));
	answer_of(destroy_pool("new", false, true));
	assert_int_equal(show_volume("p/a")->size_bytes, 2 * GIB);
	assert_int_equal(storage_of(0)->pool_count, 2);
}

static void new_volumes_get_the_properties_of_their_pool(void **state)
{
	Fathom__VolumeCreateReq request = FATHOM__VOLUME_CREATE_REQ__INIT;
	const Fathom__Volume *volume;

	begin_with_pool(1);
	answer_of(set_property("p", "thick", "on")); /* as of a volume */
	answer_of(set_property("p", "checksums", "true"));
	reopen_mgmt();
	assert_string_equal(get_property("p", "thick"), "true");
	volume = volume_of(create_volume("p/a", GIB));
	assert_true(volume->thick && volume->checksums);
	volume_of(create_volume("p/a", GIB));
	request.name = (char *)"p/b";
	request.size_bytes = GIB;
	request.thin = request.no_checksums = true;
	volume = volume_of(FATHOM_ASK("VolumeCreate", request, volume));
	assert_false(volume->thick || volume->checksums);
	request.name = (char *)"p/c";
	request.thin = request.no_checksums = false;
	request.block_bytes = 512;
	request.uuid = (char *)"33333333-3333-4333-8333-333333333333";
	volume = volume_of(FATHOM_ASK("VolumeCreate", request, volume));
	assert_true(volume->thick && !volume->checksums);
	answer_of(set_property("p", "thick", "false"));
	volume_of(FATHOM_ASK("VolumeCreate", request, volume)); /* a repetition, by its key */
	assert_int_equal(create_volume("p/a", GIB)->why.code, FAULT_VOLUME_DIFFERS);
}

static void the_owner_decides_who_may_attach(void **state)
{
	char message[512];

	begin_with_pool(1);
	answer_of(set_property("p", "owner", "eve@"));
	answer_of(set_property("p", "group", "staff@"));
	assert_string_equal(((const Mgmt__ACLResp *)answer_of(get_acl("p")))->acl->owner_user, "eve@");
	assert_int_equal(count_events(RAS_POOL_ACCESS_CHANGED, message, sizeof(message)), 2);
	answer_of(set_property("p", "group", "staff@"));
	assert_int_equal(count_events(RAS_POOL_ACCESS_CHANGED, message, sizeof(message)), 2);
}

static void engines_get_their_properties_and_keep_the_former_ones_if_one_refuses(void **state)
{
	char message[512];

	begin_with_pool(2);
	answer_of(set_property("p", "size", "4G"));
	assert_int_equal(storage_of(0)->pools[0].size_bytes, 2 * GIB);
	assert_int_equal(storage_of(1)->pools[0].size_bytes, 2 * GIB);
	assert_int_equal(query_pool("p")->size_bytes, 4 * GIB);
	answer_of(set_property("p", "overcommit", "true"));
	assert_true(query_pool("p")->overcommit);
	storage_of(1)->errors[STORE__ACTION__POOL_SET] = -EOPNOTSUPP;
	assert_int_equal(set_property("p", "size", "0")->why.code, FAULT_STORAGE_UNSUPPORTED);
	assert_int_equal(count_events(RAS_STORAGE_CHANGE_FAILED, message, sizeof(message)), 1);
	assert_int_equal(storage_of(0)->pools[0].size_bytes, 2 * GIB);
	assert_string_equal(get_property("p", "size"), "4294967296");
	assert_string_equal(query_pool("p")->pending, "");
	storage_of(1)->errors[STORE__ACTION__POOL_SET] = 0;
	answer_of(set_property("p", "size", "0"));
	assert_string_equal(get_property("p", "size"), "0");
	assert_int_equal(storage_of(1)->pools[0].size_bytes, 0);
}

/* It has refused the new values, so it has the former ones: the undo ends although it refuses them, too. */
static void an_engine_with_a_failed_pool_does_not_keep_the_undo_open(void **state)
{
	begin_with_pool(2);
	storage_of(1)->errors[STORE__ACTION__POOL_SET] = -EIO;
	assert_int_equal(set_property("p", "size", "4G")->why.code, FAULT_STORAGE_REFUSED);
	assert_int_equal(storage_of(0)->pools[0].size_bytes, 0);
	assert_string_equal(query_pool("p")->pending, "");
	storage_of(1)->errors[STORE__ACTION__POOL_SET] = 0;
	answer_of(set_property("p", "size", "4G"));
}

static uint32_t late_calls; /* when the wait began */

static bool was_called(void *unused)
{
	return storage_of(1)->calls[STORE__ACTION__POOL_SET] > late_calls;
}

/* Rank 1 is called and refuses at least twice from now on, so that the first answer has arrived. */
static void wait_for_late_call(void)
{
	for (int i = 0; i < 2; i++) {
		late_calls = storage_of(1)->calls[STORE__ACTION__POOL_SET];
		wait_until(was_called, NULL);
	}
}

static bool no_change_is_set(void *unused)
{
	return !catalog_find_pool(fixture.mgmt->catalog, "p")->record.change.is_set;
}

/* The service restarts at each step, and the rank gets what was set while it was down: the latest values, and once. */
static void a_rank_that_was_down_gets_the_properties_when_it_is_back(void **state)
{
	const Mgmt__PoolQueryResp__Rank *rank;
	const Fathom__Volume *volume;
	const Mgmt__PoolSetPropResp *set;
	const Mgmt__JoinResp *joined;
	char message[512];
	uint64_t since_ns;

	begin_with_pool(2);
	volume_of(create_volume_on("p/a", GIB, "1"));
	stop_rank("1");
	reopen_mgmt();
	set = answer_of(set_property("p", "scrub", "off"));
	assert_string_equal(set->late_ranks, "rank 1");
	count_events(RAS_POOL_CHANGED, message, sizeof(message));
	assert_non_null(strstr(message, "properties of pool \"p\" were set on its ranks, not yet on rank 1 by"));
	assert_true(storage_of(0)->pools[0].scrub_off);
	rank = query_rank(1);
	assert_string_equal(rank->late, "scrub");
	assert_string_equal(rank->late_reason, "rank 1 is stopped");
	since_ns = rank->late_ns;
	assert_true(since_ns > 0);
	reopen_mgmt();
	assert_string_equal(query_pool("p")->pending, "set properties on rank 1");
	assert_string_equal(query_pool("p")->reason, "rank 1 is stopped");
	volume = show_volume("p/a");
	assert_string_equal(volume->pending, "set scrub of the pool on rank 1");
	assert_string_equal(volume->reason, "rank 1 is stopped");
	assert_int_equal(volume->pending_ns, since_ns);
	answer_of(set_property("p", "scrub_freq", "60"));
	answer_of(set_property("p", "overcommit", "true"));
	answer_of(set_property("p", "overcommit", "true"));
	assert_string_equal(query_rank(1)->late, "overcommit, scrub, scrub_freq");
	assert_int_equal(query_rank(1)->late_ns, since_ns);
	assert_int_equal(storage_of(1)->calls[STORE__ACTION__POOL_SET], 0);
	reopen_mgmt();
	joined = join(1, 200); /* the engine gets them before it serves */
	assert_int_equal(joined->n_storage, 3);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(joined->storage[i]->action, STORE__ACTION__POOL_SET);
		assert_int_equal(joined->storage[i]->pool_properties, CATALOG_KEPT_OVERCOMMIT << i);
		assert_true(joined->storage[i]->scrub_off && joined->storage[i]->overcommit && joined->storage[i]->force);
		assert_int_equal(joined->storage[i]->rank, 1);
	}
	wait_current(1);
	assert_int_equal(storage_of(1)->calls[STORE__ACTION__POOL_SET], 3);
	assert_int_equal(join(1, 300)->n_storage, 0);
	assert_true(storage_of(1)->pools[0].scrub_off && storage_of(1)->pools[0].overcommit);
	assert_int_equal(storage_of(1)->pools[0].scrub_seconds, 60);
	count_events(RAS_POOL_CHANGED, message, sizeof(message));
	assert_non_null(strstr(message, "rank 1 has the properties of pool \"p\" now"));
	reopen_mgmt();
	assert_string_equal(query_pool("p")->pending, "");
	assert_string_equal(query_rank(1)->late, "");
	assert_string_equal(show_volume("p/a")->pending, "");
}

/* A smaller size and the end of overcommit need the agreement of each rank that the pool counts on. */
static void a_size_waits_for_ranks_that_are_down_but_not_for_excluded_ones(void **state)
{
	struct question *question;

	begin_with_pool(3);
	answer_of(set_property("p", "overcommit", "true"));
	stop_rank("1");
	reopen_mgmt();
	question = set_property("p", "size", "6G");
	assert_int_equal(question->why.code, FAULT_POOL_RANK_DOWN);
	assert_string_equal(question->why.text,
			    "the property size of pool \"p\" cannot be set now: rank 1 is stopped, and must agree that its"
			    " volumes still fit");
	assert_int_equal(set_property("p", "overcommit", "false")->why.code, FAULT_POOL_RANK_DOWN);
	assert_string_equal(query_pool("p")->pending, "");
	answer_of(set_property("p", "thick", "true")); /* only in the catalog */
	exclude_system_rank("1");
	answer_of(set_property("p", "size", "6G"));
	assert_int_equal(storage_of(0)->pools[0].size_bytes, 2 * GIB);
	assert_int_equal(storage_of(1)->pools[0].size_bytes, 0);
	assert_string_equal(property_of("size")->late_ranks, "rank 1");
	assert_string_equal(property_of("size")->late_reason, "rank 1 is adminexcluded");
	assert_true(property_of("size")->late_ns > 0);
	assert_string_equal(property_of("scrub")->late_ranks, "");
	stop_rank("2");
	answer_of(exclude_ranks("p", "2")); /* of the pool only */
	answer_of(set_property("p", "size", "3G"));
	assert_string_equal(property_of("size")->late_ranks, "ranks 1-2");
	assert_int_equal(set_property("p", "size", "12G")->why.code, 0); /* larger: no rank has to agree */
	include_system_rank("1");
	join(1, 200);
	wait_current(1);
	assert_int_equal(storage_of(1)->pools[0].size_bytes, 4 * GIB);
	join(2, 200);
	wait_current(2);
	assert_int_equal(storage_of(2)->pools[0].size_bytes, 4 * GIB);
	answer_of(set_property("p", "size", "6G")); /* rank 2 is still excluded, but there */
	wait_current(2);
	assert_int_equal(storage_of(2)->pools[0].size_bytes, 2 * GIB);
}

/* It refuses what it gets late: the reason is shown, and it is called again, also after a restart of the service. */
static void a_rank_that_refuses_late_properties_is_called_again(void **state)
{
	begin_with_pool(2);
	stop_rank("1");
	answer_of(set_property("p", "scrub", "off"));
	storage_of(1)->errors[STORE__ACTION__POOL_SET] = -EIO;
	join(1, 200);
	wait_for_late_call();
	assert_non_null(strstr(query_rank(1)->late_reason, "rank 1 cannot set scrub of pool \"p\""));
	answer_of(set_property("p", "scrub_freq", "60")); /* of the others */
	assert_int_equal(storage_of(0)->pools[0].scrub_seconds, 60);
	assert_int_equal(set_property("p", "size", "4G")->why.code, FAULT_STORAGE_REFUSED);
	reopen_mgmt();
	storage_of(1)->errors[STORE__ACTION__POOL_SET] = 0;
	wait_current(1);
	assert_int_equal(storage_of(1)->pools[0].scrub_seconds, 60);
	answer_of(set_property("p", "size", "4G"));
}

/* The rank goes down while it is called: it is left out from then on. */
static void a_rank_that_goes_down_during_a_change_is_left_out(void **state)
{
	reopen_with_patience(NS_PER_MS);
	begin_with_pool(2);
	storage_of(1)->errors[STORE__ACTION__POOL_SET] = -EAGAIN;
	assert_int_equal(set_property("p", "scrub", "off")->why.code, FAULT_STORAGE_WAITS);
	assert_string_equal(query_pool("p")->pending, "set properties");
	stop_rank("1");
	wait_until(is_late, (void *)(uintptr_t)1);
	assert_string_equal(get_property("p", "scrub"), "off");
	reopen_with_patience(0);
	storage_of(1)->errors[STORE__ACTION__POOL_SET] = 0;
	join(1, 200);
	wait_current(1);
	assert_true(storage_of(1)->pools[0].scrub_off);
}

/* A rank that was replaced has lost its share, and needs nothing. A destroyed pool needs nothing either. */
static void nothing_stays_pending_of_a_destroyed_pool(void **state)
{
	begin_with_pool(2);
	stop_rank("1");
	answer_of(set_property("p", "scrub", "off"));
	storage_of(1)->errors[STORE__ACTION__POOL_SET] = -EIO;
	join(1, 200);
	wait_for_late_call();
	answer_of(destroy_pool("p", false, false));
	answer_of(create_pool("p"));
	assert_string_equal(query_pool("p")->pending, "");
	reopen_mgmt();
	assert_string_equal(query_pool("p")->pending, "");
}

/* Both engines have answered the new values: the undo finds rank 0 silent. */
static void silence_the_undo(void)
{
	if (storage_of(0)->calls[STORE__ACTION__POOL_SET] > 0 && storage_of(1)->calls[STORE__ACTION__POOL_SET] > 0)
		storage_of(0)->hangs = true;
}

static bool is_undoing(void *unused)
{
	return catalog_find_pool(fixture.mgmt->catalog, "p")->record.change.undo[0] && storage_of(0)->hangs;
}

static int speak_again(void *ctx)
{
	fixture.after_storage = NULL;
	storage_of(0)->hangs = false;
	fake_release(ctx);
	return 0;
}

/* The service ends within the undo, and the pool of one engine is ERRORED: the undo ends, and the rank gets them later. */
static void a_restart_within_an_undo_does_not_keep_it_open(void **state)
{
	Mgmt__PoolSetPropReq request = MGMT__POOL_SET_PROP_REQ__INIT;
	Mgmt__PoolProperty property = MGMT__POOL_PROPERTY__INIT, *properties[] = { &property };
	struct question question = { 0 };

	begin_with_pool(2);
	storage_of(1)->errors[STORE__ACTION__POOL_SET] = -EIO;
	fixture.after_storage = silence_the_undo;
	property.name = (char *)"scrub";
	property.text = (char *)"off";
	request.id = (char *)"p";
	request.properties = properties;
	request.n_properties = 1;
	ask_begin(&question, fixture.admin, "/mgmt.MgmtSvc/PoolSetProp", &request.base,
		  &mgmt__pool_set_prop_resp__descriptor);
	wait_until(is_undoing, NULL);
	assert_true(storage_of(0)->pools[0].scrub_off);
	reopen_mgmt();
	question_wait(&question);
	question_end(&question);
	on_control(speak_again, &fixture.fakes[0]);
	wait_until(no_change_is_set, NULL);
	assert_string_equal(get_property("p", "scrub"), "timed");
	assert_false(storage_of(0)->pools[0].scrub_off);
	assert_string_equal(query_pool("p")->pending, "set properties on rank 1");
	answer_of(set_property("p", "scrub_freq", "60"));
	storage_of(1)->errors[STORE__ACTION__POOL_SET] = 0;
	wait_until(is_current, (void *)(uintptr_t)1);
	assert_int_equal(storage_of(1)->pools[0].scrub_seconds, 60);
	assert_string_equal(query_pool("p")->pending, "");
}

/* The intent is stored: an engine that hangs delays it, and the service ends meanwhile. */
static void an_interrupted_change_of_engines_goes_on(void **state)
{
	reopen_with_patience(NS_PER_MS);
	begin_with_pool(2);
	storage_of(1)->errors[STORE__ACTION__POOL_SET] = -EAGAIN;
	assert_int_equal(set_property("p", "size", "2G")->why.code, FAULT_STORAGE_WAITS);
	assert_string_equal(query_pool("p")->pending, "set properties");
	assert_string_equal(get_property("p", "size"), "0");
	assert_int_equal(set_property("p", "scrub", "off")->why.code, FAULT_STORAGE_CHANGING);
	assert_int_equal(set_property("p", "size", "0")->why.code, FAULT_STORAGE_CHANGING);
	answer_of(set_property("p", "thick", "true"));
	reopen_with_patience(0);
	assert_string_equal(query_pool("p")->pending, "set properties");
	storage_of(1)->errors[STORE__ACTION__POOL_SET] = 0;
	answer_of(set_property("p", "size", "2G"));
	assert_int_equal(storage_of(1)->pools[0].size_bytes, GIB);
	assert_string_equal(query_pool("p")->pending, "");
	assert_string_equal(get_property("p", "thick"), "true");
}

/* A destruction that is refused gives the change back. */
static void a_refused_destruction_leaves_the_change_under_way(void **state)
{
	reopen_with_patience(NS_PER_MS);
	begin_with_pool(1);
	storage_of(0)->errors[STORE__ACTION__POOL_SET] = -EAGAIN;
	storage_of(0)->errors[STORE__ACTION__POOL_DESTROY] = -EBUSY;
	assert_int_equal(set_property("p", "overcommit", "true")->why.code, FAULT_STORAGE_WAITS);
	assert_int_equal(destroy_pool("p", false, false)->why.code, FAULT_STORAGE_IN_USE);
	assert_string_equal(query_pool("p")->pending, "set properties");
	reopen_with_patience(0);
	storage_of(0)->errors[STORE__ACTION__POOL_SET] = 0;
	answer_of(set_property("p", "overcommit", "true"));
	assert_true(storage_of(0)->pools[0].overcommit);
}

static void containers_are_the_volumes_of_a_pool(void **state)
{
	Mgmt__ListContReq request = MGMT__LIST_CONT_REQ__INIT;
	const Mgmt__ListContResp *list;
	char uuid[64];

	begin_with_pool(1);
	snprintf(uuid, sizeof(uuid), "%s", volume_of(create_volume("p/a", GIB))->uuid);
	request.id = (char *)"p";
	list = answer_of(
		ask(fixture.admin, "/mgmt.MgmtSvc/ListContainers", &request.base, &mgmt__list_cont_resp__descriptor));
	assert_int_equal(list->n_containers, 1);
	assert_string_equal(list->containers[0]->label, "a");
	assert_string_equal(list->containers[0]->uuid, uuid);
	request.id = (char *)"q";
	assert_int_equal(ask(fixture.admin, "/mgmt.MgmtSvc/ListContainers", &request.base,
			     &mgmt__list_cont_resp__descriptor)
				 ->why.code,
			 FAULT_NO_SUCH_POOL);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_begin, fixture_end)
	const struct CMUnitTest tests[] = {
		TEST(properties_have_the_numbers_and_forms_of_daos),
		TEST(a_value_or_a_property_without_a_meaning_is_refused_with_a_reason),
		TEST(a_new_pool_gets_the_properties_of_its_request),
		TEST(a_repeated_creation_compares_a_size_that_is_a_property),
		TEST(a_property_without_a_meaning_is_not_shown),
		TEST(a_pool_gets_another_label_and_keeps_its_volumes),
		TEST(new_volumes_get_the_properties_of_their_pool),
		TEST(the_owner_decides_who_may_attach),
		TEST(engines_get_their_properties_and_keep_the_former_ones_if_one_refuses),
		TEST(an_engine_with_a_failed_pool_does_not_keep_the_undo_open),
		TEST(a_rank_that_was_down_gets_the_properties_when_it_is_back),
		TEST(a_size_waits_for_ranks_that_are_down_but_not_for_excluded_ones),
		TEST(a_rank_that_refuses_late_properties_is_called_again),
		TEST(a_rank_that_goes_down_during_a_change_is_left_out),
		TEST(nothing_stays_pending_of_a_destroyed_pool),
		TEST(a_restart_within_an_undo_does_not_keep_it_open),
		TEST(an_interrupted_change_of_engines_goes_on),
		TEST(a_refused_destruction_leaves_the_change_under_way),
		TEST(containers_are_the_volumes_of_a_pool),
	};

	return cmocka_run_group_tests_name("control mgmt properties", tests, NULL, NULL);
}
