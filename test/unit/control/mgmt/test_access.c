/* SPDX-License-Identifier: BSD-2-Clause */
/* Access control lists of pools, as the management service keeps them and as it applies them to agents. */
#include "control/mgmt/acl.h"
#include "storage_calls.h"

/* The entries of the answer, one behind the other. */
static const char *entries_of(const struct question *question)
{
	static char all[4096];
	const Mgmt__ACLResp *answer = answer_of(question);
	size_t used = 0;

	all[0] = '\0';
	for (size_t i = 0; i < answer->n_acl; i++)
		used += (size_t)snprintf(all + used, sizeof(all) - used, "%s%s", i ? " " : "", answer->acl[i]);
	assert_true(used < sizeof(all));
	return all;
}

static struct question *update(const char *entry)
{
	return change_acl("PoolUpdateACL", "p1", &entry, 1);
}

static void a_new_pool_has_its_creators_list_or_the_default(void **state)
{
	char *entries[] = { (char *)"A::EVERYONE@:r", (char *)"A::bob@:wr" };
	struct pool_request request;
	const Mgmt__ACLResp *answer;

	join_many(1);
	fill_pool(&request, "p1", "");
	request.message.user_group = (char *)"staff@";
	answer_of(ask_pool(&request));
	assert_string_equal(entries_of(get_acl("p1")), "A::OWNER@:rw A:G:GROUP@:rw");
	answer = answer_of(get_acl("p1"));
	assert_string_equal(answer->owneruser, "bob@");
	assert_string_equal(answer->ownergroup, "staff@");
	fill_pool(&request, "p2", "");
	request.message.acl = entries;
	request.message.n_acl = 2;
	answer_of(ask_pool(&request));
	assert_string_equal(entries_of(get_acl("p2")), "A::bob@:rw A::EVERYONE@:r");
}

static void a_pool_with_a_bad_list_or_owner_is_not_created(void **state)
{
	char *entries[] = { (char *)"A::bob:rw" };
	struct pool_request request;
	struct question *question;

	join_many(1);
	fill_pool(&request, "p1", "");
	request.message.acl = entries;
	request.message.n_acl = 1;
	question = ask_pool(&request);
	assert_int_equal(question->why.code, FAULT_ACL_BAD);
	assert_string_equal(question->why.text,
			    "the access control entry \"A::bob:rw\" is not valid: the principal has no @ behind the name");
	request.message.n_acl = 0;
	request.message.user = (char *)"bob";
	assert_int_equal(ask_pool(&request)->why.code, FAULT_ACL_BAD);
	request.message.user = (char *)"bob@";
	request.message.user_group = (char *)"st aff@";
	assert_int_equal(ask_pool(&request)->why.code, FAULT_ACL_BAD);
	assert_int_equal(list_pools()->n_pools, 0);
}

static void entries_are_added_replaced_and_removed_and_survive_a_restart(void **state)
{
	const char *const list[] = { "A:G:staff@:r", "A::OWNER@:rwdtTaAo" };
	char message[512];

	join_many(1);
	answer_of(create_pool("p1"));
	assert_string_equal(entries_of(update("A::ann@:r")), "A::OWNER@:rw A::ann@:r A:G:GROUP@:rw");
	assert_string_equal(entries_of(update("A::ann@:rw")), "A::OWNER@:rw A::ann@:rw A:G:GROUP@:rw");
	assert_string_equal(entries_of(delete_acl("p1", "GROUP@")), "A::OWNER@:rw A::ann@:rw");
	reopen_mgmt();
	assert_string_equal(entries_of(get_acl("p1")), "A::OWNER@:rw A::ann@:rw");
	assert_string_equal(entries_of(change_acl("PoolOverwriteACL", "p1", list, 2)), "A::OWNER@:rwdtTaAo A:G:staff@:r");
	assert_int_equal(count_events(RAS_POOL_ACCESS_CHANGED, message, sizeof(message)), 4);
	assert_non_null(strstr(message, "the access control list of pool \"p1\" was changed, it has 2 entries"));
}

static void a_refused_change_leaves_the_list(void **state)
{
	const char *const twice[] = { "A::ann@:r", "A::ann@:w" };
	const char *many[ACL_ENTRIES_MAX];
	char texts[ACL_ENTRIES_MAX][16];

	join_many(1);
	answer_of(create_pool("p1"));
	for (size_t i = 0; i < ACL_ENTRIES_MAX; i++) {
		snprintf(texts[i], sizeof(texts[i]), "A::u%zu@:r", i);
		many[i] = texts[i];
	}
	assert_int_equal(update("A::ann@")->why.code, FAULT_ACL_BAD);
	assert_int_equal(change_acl("PoolUpdateACL", "p1", twice, 2)->why.code, FAULT_ACL_BAD);
	assert_int_equal(change_acl("PoolUpdateACL", "p1", twice, 0)->why.code, FAULT_ACL_BAD);
	assert_int_equal(change_acl("PoolOverwriteACL", "p1", twice, 0)->why.code, FAULT_ACL_BAD);
	assert_int_equal(change_acl("PoolUpdateACL", "p1", many, ACL_ENTRIES_MAX)->why.code, FAULT_ACL_FULL);
	assert_int_equal(delete_acl("p1", "ann@")->why.code, FAULT_ACL_BAD);
	assert_int_equal(delete_acl("p1", "u:ann@")->why.code, FAULT_ACL_NO_ENTRY);
	assert_int_equal(delete_acl("nosuch", "u:ann@")->why.code, FAULT_NO_SUCH_POOL);
	assert_int_equal(change_acl("PoolOverwriteACL", "nosuch", twice, 1)->why.code, FAULT_NO_SUCH_POOL);
	assert_int_equal(get_acl("nosuch")->why.code, FAULT_NO_SUCH_POOL);
	assert_string_equal(entries_of(get_acl("p1")), "A::OWNER@:rw A:G:GROUP@:rw");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_begin, fixture_end)
	const struct CMUnitTest tests[] = {
		TEST(a_new_pool_has_its_creators_list_or_the_default),
		TEST(a_pool_with_a_bad_list_or_owner_is_not_created),
		TEST(entries_are_added_replaced_and_removed_and_survive_a_restart),
		TEST(a_refused_change_leaves_the_list),
	};

	return cmocka_run_group_tests_name("control mgmt access", tests, NULL, NULL);
}
