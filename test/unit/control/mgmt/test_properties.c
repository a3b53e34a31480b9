/* SPDX-License-Identifier: BSD-2-Clause */
/* Properties of pools: by DAOS's numbers and by name; renamed pools; those of engines, refused and interrupted. */
#include "storage_calls.h"

static struct fake_storage *storage_of(uint32_t rank)
{
	return &fixture.fakes[rank].storage;
}

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
	assert_string_equal(question->why.text, "the pool property scrub cannot be \"1\"");
	assert_string_equal(question->why.resolution, "use off or timed");
	assert_int_equal(set_number("p", 16, 3, NULL)->why.code, FAULT_POOL_PROPERTY_BAD);
	assert_int_equal(set_number("p", 1, 3, NULL)->why.code, FAULT_POOL_PROPERTY_BAD);
	assert_int_equal(set_property("p", "scrub_freq", "0")->why.code, FAULT_POOL_PROPERTY_BAD);
	assert_int_equal(set_property("p", "thick", "yes")->why.code, FAULT_POOL_PROPERTY_BAD);
	assert_int_equal(set_property("p", "owner", "bob")->why.code, FAULT_POOL_PROPERTY_BAD);
	assert_int_equal(set_property("p", "label", ".x")->why.code, FAULT_STORAGE_NAME_BAD);
	question = set_number("p", 10, 2, NULL);
	assert_int_equal(question->why.code, FAULT_POOL_PROPERTY_ABSENT);
	assert_string_equal(question->why.text, "pools have no property rd_fac here: a volume is on one engine");
	question = set_number("p", 99, 2, NULL);
	assert_int_equal(question->why.code, FAULT_POOL_PROPERTY_UNKNOWN);
	assert_string_equal(question->why.text, "there is no pool property number 99");
	assert_int_equal(set_property("p", "colour", "red")->why.code, FAULT_POOL_PROPERTY_UNKNOWN);
	assert_int_equal(set_property("q", "thick", "true")->why.code, FAULT_NO_SUCH_POOL);
	assert_int_equal(storage_of(0)->calls[STORE__ACTION__POOL_SET], 0);
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
	answer_of(set_property("p", "thick", "true"));
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
	assert_string_equal(((const Mgmt__ACLResp *)answer_of(get_acl("p")))->owneruser, "eve@");
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

/* It would wait for the rank, and until then the pool could get no other values and no ranks. */
static void a_rank_that_is_not_joined_prevents_a_change_of_engines(void **state)
{
	Mgmt__SystemExcludeReq exclude = MGMT__SYSTEM_EXCLUDE_REQ__INIT;

	begin_with_pool(2);
	exclude.ranks = (char *)"1";
	answer_of(ADMIN_ASK("SystemExclude", exclude, system_exclude));
	assert_int_equal(set_property("p", "size", "4G")->why.code, FAULT_RANK_NOT_JOINED);
	assert_int_equal(storage_of(0)->calls[STORE__ACTION__POOL_SET], 0);
	assert_string_equal(query_pool("p")->pending, "");
	answer_of(set_property("p", "thick", "true")); /* only in the catalog */
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
		TEST(a_pool_gets_another_label_and_keeps_its_volumes),
		TEST(new_volumes_get_the_properties_of_their_pool),
		TEST(the_owner_decides_who_may_attach),
		TEST(engines_get_their_properties_and_keep_the_former_ones_if_one_refuses),
		TEST(an_engine_with_a_failed_pool_does_not_keep_the_undo_open),
		TEST(a_rank_that_is_not_joined_prevents_a_change_of_engines),
		TEST(an_interrupted_change_of_engines_goes_on),
		TEST(a_refused_destruction_leaves_the_change_under_way),
		TEST(containers_are_the_volumes_of_a_pool),
	};

	return cmocka_run_group_tests_name("control mgmt properties", tests, NULL, NULL);
}
