/* SPDX-License-Identifier: BSD-2-Clause */
/* Access control lists of pools, as the management service keeps them and as it applies them to agents. */
#include "control/credential/credential.h"
#include "control/mgmt/acl.h"
#include "storage_calls.h"

/* The entries of the answer, one behind the other. */
static const char *entries_of(const struct question *question)
{
	static char all[4096];
	const Mgmt__ACLResp *answer = answer_of(question);
	size_t used = 0;

	all[0] = '\0';
	for (size_t i = 0; i < answer->acl->n_entries; i++)
		used += (size_t)snprintf(all + used, sizeof(all) - used, "%s%s", i ? " " : "", answer->acl->entries[i]);
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
	assert_string_equal(answer->acl->owner_user, "bob@");
	assert_string_equal(answer->acl->owner_group, "staff@");
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

/* ---- agents ---- */

/* A credential as an agent without certificates makes it. */
static Auth__Credential *make_credential(const char *user, const char *group, const char *machine)
{
	const struct credential_identity who = { .machine = machine, .user = user, .group = group };
	Auth__Credential *credential;

	assert_int_equal(credential_make(&who, NULL, &credential, NULL), 0);
	return credential;
}

static struct question *publish_with(Auth__Credential *credential)
{
	Fathom__VolumePublishReq request = FATHOM__VOLUME_PUBLISH_REQ__INIT;

	request.name = (char *)"p1/db";
	request.host = (char *)HOST;
	request.credential = credential;
	return ask(fixture.agent, "/fathom.ControlSvc/VolumePublish", &request.base, &fathom__volume_resp__descriptor);
}

/* Publish as an agent. 0, or the code of the fault. */
static int publish_as(const char *user, const char *group, const char *machine)
{
	Auth__Credential *credential = make_credential(user, group, machine);
	struct question *question = publish_with(credential);

	auth__credential__free_unpacked(credential, NULL);
	return question->why.code;
}

static void begin_with_volume(void)
{
	struct pool_request request;

	join_many(1);
	fill_pool(&request, "p1", "");
	request.message.user_group = (char *)"staff@";
	answer_of(ask_pool(&request));
	volume_of(create_volume("p1/db", GIB));
}

static void an_agent_publishes_by_the_list(void **state)
{
	static const struct {
		const char *entry, *user, *group, *machine;
		int code;
	} rows[] = {
		{ "A::OWNER@:rw", "bob", "x", "n", 0 },
		{ "A::OWNER@:rw", "ann", "x", "n", FAULT_ACCESS_DENIED },
		{ "A:G:GROUP@:rw", "ann", "staff", "n", 0 },
		{ "A::OWNER@:r", "bob", "x", "n", FAULT_ACCESS_DENIED }, /* no volume is read-only */
		{ "A::OWNER@:w", "bob", "x", "n", FAULT_ACCESS_DENIED },
		{ "A::OWNER@:tw", "bob", "x", "n", 0 },
		{ "A::OWNER@:cdTaAo", "bob", "x", "n", FAULT_ACCESS_DENIED },
		{ "A::root@n1:rw", "root", "root", "n1", 0 },
		{ "A::root@n1:rw", "root", "root", "n2", FAULT_ACCESS_DENIED },
		{ "A:G:root@:rw", "root", "root", "n2", 0 },
		{ "A::EVERYONE@:rw", "ann", "x", "n", 0 },
	};
	uint64_t denied = 0;

	begin_with_volume();
	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		answer_of(change_acl("PoolOverwriteACL", "p1", &rows[i].entry, 1));
		assert_int_equal(publish_as(rows[i].user, rows[i].group, rows[i].machine), rows[i].code);
		denied += rows[i].code != 0;
	}
	assert_int_equal(mgmt_stats(fixture.mgmt).access_denied, denied);
}

static void a_refusal_names_the_user_and_the_permission(void **state)
{
	const char *entry = "A::OWNER@:r";
	Auth__Credential *credential = make_credential("bob", "x", "node7");
	struct question *question;

	begin_with_volume();
	answer_of(change_acl("PoolOverwriteACL", "p1", &entry, 1));
	question = publish_with(credential);
	assert_int_equal(question->why.code, FAULT_ACCESS_DENIED);
	assert_string_equal(question->why.text,
			    "user bob@ of host node7 may not attach volumes of pool \"p1\": the access control list "
			    "gives no permission to write (w), and volumes are not attached read-only");
	auth__credential__free_unpacked(credential, NULL);
	assert_int_equal(fixture.fakes[0].storage.calls[STORE__ACTION__VOLUME_PUBLISH], 0);
	/* an administrator needs no entry */
	volume_of(publish_volume("p1/db", HOST));
}

static void a_credential_must_be_there_and_verify(void **state)
{
	Auth__Credential *credential = make_credential("bob", "x", "n");

	begin_with_volume();
	assert_int_equal(publish_with(NULL)->why.code, FAULT_CREDENTIAL_BAD);
	credential->token.data[credential->token.len - 1] ^= 1;
	assert_int_equal(publish_with(credential)->why.code, FAULT_CREDENTIAL_BAD);
	/* with certificates and without a folder, the agent's connection is the proof */
	credential->token.data[credential->token.len - 1] ^= 1;
	assert_int_equal(publish_with(credential)->why.code, 0);
	fixture.has_certificates = true;
	reopen_mgmt();
	assert_int_equal(publish_with(credential)->why.code, 0);
	credential->token.data[0] = 0xff;
	assert_int_equal(publish_with(credential)->why.code, FAULT_CREDENTIAL_BAD);
	auth__credential__free_unpacked(credential, NULL);
}

/* Unpublish as root of a host. 0, or the code of the fault. */
static struct question *unpublish_from(const char *machine)
{
	Auth__Credential *credential = make_credential("root", "root", machine);
	Fathom__VolumeUnpublishReq request = FATHOM__VOLUME_UNPUBLISH_REQ__INIT;
	struct question *question;

	request.name = (char *)"p1/db";
	request.host = (char *)HOST;
	request.force = true;
	request.credential = credential;
	question = ask(fixture.agent, "/fathom.ControlSvc/VolumeUnpublish", &request.base,
		       &fathom__volume_resp__descriptor);
	auth__credential__free_unpacked(credential, NULL);
	return question;
}

static int unpublish_code(const char *machine)
{
	return unpublish_from(machine)->why.code;
}

/* Whatever the list says now, a host gives back what it has; another one needs the list's permission. */
static void an_agent_unpublishes_what_it_has_published(void **state)
{
	const char *all = "A::root@:rw", *none = "A::OWNER@:rw", *one = "A::root@n9:rw", *reader = "A::root@n9:r";
	struct question *question;

	begin_with_volume();
	answer_of(change_acl("PoolOverwriteACL", "p1", &all, 1));
	assert_int_equal(publish_as("root", "root", "n1"), 0);
	answer_of(change_acl("PoolOverwriteACL", "p1", &none, 1));
	assert_string_equal(show_volume("p1/db")->hosts[0]->machine, "n1");
	reopen_mgmt();
	question = unpublish_from("n2");
	assert_int_equal(question->why.code, FAULT_UNPUBLISH_DENIED);
	assert_string_equal(question->why.text,
			    "user root@ of host n2 may not unpublish volume \"p1/db\" from " HOST
			    ": that host's agent has not published it, and the pool's list gives no permission");
	assert_int_equal(unpublish_code(""), FAULT_UNPUBLISH_DENIED);
	assert_int_equal(mgmt_stats(fixture.mgmt).access_denied, 2);
	assert_int_equal(show_volume("p1/db")->n_hosts, 1);
	assert_int_equal(unpublish_code("n1"), 0);
	assert_int_equal(show_volume("p1/db")->n_hosts, 0);
	assert_int_equal(unpublish_code("n2"), 0); /* a repeated one changes nothing */
	/* what an administrator has published */
	volume_of(publish_volume("p1/db", HOST));
	assert_int_equal(unpublish_code("n1"), FAULT_UNPUBLISH_DENIED);
	answer_of(change_acl("PoolOverwriteACL", "p1", &reader, 1));
	assert_int_equal(unpublish_code("n9"), FAULT_UNPUBLISH_DENIED);
	answer_of(change_acl("PoolOverwriteACL", "p1", &one, 1));
	assert_int_equal(unpublish_code("n9"), 0);
	/* an administrator does not take it from the agent */
	answer_of(change_acl("PoolOverwriteACL", "p1", &all, 1));
	assert_int_equal(publish_as("root", "root", "n1"), 0);
	volume_of(publish_volume("p1/db", HOST));
	answer_of(change_acl("PoolOverwriteACL", "p1", &none, 1));
	assert_int_equal(unpublish_code("n1"), 0);
}

/* A repetition succeeds for every agent; only one that may attach the volume learns where it is. */
static void an_agent_without_permission_learns_nothing_of_the_volume(void **state)
{
	Fathom__VolumeUnpublishReq request = FATHOM__VOLUME_UNPUBLISH_REQ__INIT;
	const char *one = "A::root@n9:rw";
	const Fathom__Volume *volume;

	begin_with_volume();
	answer_of(change_acl("PoolUpdateACL", "p1", &one, 1));
	volume_of(publish_volume("p1/db", "nqn.other"));
	request.name = (char *)"p1/db";
	request.host = (char *)HOST;
	for (int i = 0; i < 2; i++) {
		volume = volume_of(i == 0 ? unpublish_from("n2")
					  : ask(fixture.agent, "/fathom.ControlSvc/VolumeUnpublish", &request.base,
						&fathom__volume_resp__descriptor));
		assert_string_equal(volume->name, "p1/db");
		assert_string_not_equal(volume->uuid, "");
		assert_string_not_equal(volume->state, "");
		assert_int_equal(volume->n_hosts + volume->n_addresses, 0);
		assert_string_equal(volume->nqn, "");
	}
	assert_int_equal(volume_of(unpublish_from("n9"))->n_hosts, 1);
}

/* The engine has not confirmed the publication yet: its agent may withdraw it later, and others may not. */
static void an_agent_may_withdraw_what_it_is_publishing(void **state)
{
	const char *all = "A::root@:rw", *none = "A::OWNER@:rw";

	begin_with_volume();
	answer_of(change_acl("PoolOverwriteACL", "p1", &all, 1));
	fixture.fakes[0].storage.errors[STORE__ACTION__VOLUME_PUBLISH] = -EAGAIN;
	fixture.storage_patience_ns = NS_PER_MS;
	reopen_mgmt();
	assert_int_equal(publish_as("root", "root", "n1"), FAULT_STORAGE_WAITS);
	answer_of(change_acl("PoolOverwriteACL", "p1", &none, 1));
	reopen_mgmt();
	assert_int_equal(unpublish_code("n2"), FAULT_UNPUBLISH_DENIED);
	assert_int_equal(unpublish_code("n1"), FAULT_STORAGE_CHANGING);
	fixture.fakes[0].storage.errors[STORE__ACTION__VOLUME_PUBLISH] = 0;
	wait_until(nothing_is_pending, NULL);
	assert_int_equal(unpublish_code("n1"), 0);
}

static void an_agent_unpublishes_from_a_host_that_it_names(void **state)
{
	Fathom__VolumeUnpublishReq request = FATHOM__VOLUME_UNPUBLISH_REQ__INIT;
	const char *all = "A::root@:rw";
	Auth__Credential *credential;
	struct question *question;

	begin_with_volume();
	answer_of(change_acl("PoolUpdateACL", "p1", &all, 1));
	volume_of(publish_volume("p1/db", HOST));
	request.name = (char *)"p1/db";
	request.force = true;
	question = ask(fixture.agent, "/fathom.ControlSvc/VolumeUnpublish", &request.base,
		       &fathom__volume_resp__descriptor);
	assert_int_equal(question->why.code, FAULT_NQN_BAD);
	assert_int_equal(show_volume("p1/db")->n_hosts, 1);
	request.host = (char *)HOST;
	/* an agent of an earlier release sends no credential; with a folder of certificates it must */
	fixture.has_certificates = true;
	fixture.certificates = "/nowhere";
	reopen_mgmt();
	question = ask(fixture.agent, "/fathom.ControlSvc/VolumeUnpublish", &request.base,
		       &fathom__volume_resp__descriptor);
	assert_int_equal(question->why.code, FAULT_CREDENTIAL_BAD);
	fixture.has_certificates = false;
	fixture.certificates = NULL;
	reopen_mgmt();
	volume_of(
		ask(fixture.agent, "/fathom.ControlSvc/VolumeUnpublish", &request.base, &fathom__volume_resp__descriptor));
	assert_int_equal(show_volume("p1/db")->n_hosts, 0);
	volume_of(publish_volume("p1/db", HOST));
	request.credential = credential = make_credential("root", "root", "n1");
	volume_of(
		ask(fixture.agent, "/fathom.ControlSvc/VolumeUnpublish", &request.base, &fathom__volume_resp__descriptor));
	auth__credential__free_unpacked(credential, NULL);
	assert_int_equal(show_volume("p1/db")->n_hosts, 0);
	volume_of(publish_volume("p1/db", HOST));
	volume_of(unpublish_volume("p1/db", "", true)); /* an administrator */
	assert_int_equal(show_volume("p1/db")->n_hosts, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_begin, fixture_end)
	const struct CMUnitTest tests[] = {
		TEST(a_new_pool_has_its_creators_list_or_the_default),
		TEST(a_pool_with_a_bad_list_or_owner_is_not_created),
		TEST(entries_are_added_replaced_and_removed_and_survive_a_restart),
		TEST(a_refused_change_leaves_the_list),
		TEST(an_agent_publishes_by_the_list),
		TEST(a_refusal_names_the_user_and_the_permission),
		TEST(a_credential_must_be_there_and_verify),
		TEST(an_agent_unpublishes_from_a_host_that_it_names),
		TEST(an_agent_unpublishes_what_it_has_published),
		TEST(an_agent_without_permission_learns_nothing_of_the_volume),
		TEST(an_agent_may_withdraw_what_it_is_publishing),
	};

	return cmocka_run_group_tests_name("control mgmt access", tests, NULL, NULL);
}
