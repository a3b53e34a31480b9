/* SPDX-License-Identifier: BSD-2-Clause */
/* Joins: batches, rejoins, refusals. Calls about members: selection, exclusion, attributes, properties, erasing. */
#include "fixture.h"

static void a_call_to_a_system_without_members_fails_as_uninitialized(void **state)
{
	Mgmt__SystemQueryReq query_request = MGMT__SYSTEM_QUERY_REQ__INIT;
	Mgmt__GetAttachInfoReq attach_request = MGMT__GET_ATTACH_INFO_REQ__INIT;
	Mgmt__LeaderQueryReq leader_request = MGMT__LEADER_QUERY_REQ__INIT;
	const Mgmt__LeaderQueryResp *leader;
	struct question *question;

	question = ADMIN_ASK("SystemQuery", query_request, system_query);
	assert_int_equal(question->code, GRPC_UNKNOWN);
	assert_string_equal(question->message, "system is uninitialized (storage format required?)");
	assert_int_equal(question->why.code, 650);
	assert_int_equal(ADMIN_ASK("GetAttachInfo", attach_request, get_attach_info)->code, GRPC_UNKNOWN);
	leader = answer_of(ADMIN_ASK("LeaderQuery", leader_request, leader_query));
	assert_string_equal(leader->current_leader, "");
	assert_int_equal(leader->n_replicas, 1);
	assert_string_equal(leader->replicas[0], fixture.replicas[0]);
	(void)join(0, 1);
	leader = answer_of(ADMIN_ASK("LeaderQuery", leader_request, leader_query));
	assert_string_equal(leader->current_leader, fixture.address);
}

/*
 * Engines that have a rank belong to a system whose database was lost. Their joins must not initialize an empty database.
 */
static void an_engine_with_a_rank_does_not_join_an_empty_system(void **state)
{
	char message[RAS_MESSAGE_BYTES];
	struct joining joining;

	fill_join(&joining, 1, 100);
	joining.request.rank = 5;
	for (int i = 0; i < 3; i++) {
		const struct question *question = ask_join(&joining);

		assert_int_equal(question->why.code, 691);
		assert_non_null(strstr(question->why.text, fixture.path));
		assert_non_null(strstr(question->why.text, fixture.fakes[1].address));
		assert_non_null(strstr(question->why.text, "rank 5"));
	}
	assert_int_equal(count_events(RAS_ENGINE_JOIN_FAILED, message, sizeof(message)), 1);
	fixture.is_new_system = true;
	reopen_mgmt();
	assert_int_equal(((const Mgmt__JoinResp *)answer_of(ask_join(&joining)))->rank, 5);
	fixture.is_new_system = false;
	reopen_mgmt();
	/* a rank that was given after the copy of the database was made */
	fill_join(&joining, 2, 100);
	joining.request.rank = 7;
	assert_int_equal(((const Mgmt__JoinResp *)answer_of(ask_join(&joining)))->rank, 7);
}

static void concurrent_joins_are_stored_in_fewer_batches(void **state)
{
	static struct question questions[24];
	static struct joining joinings[24];
	uint64_t seen = 0;

	memset(questions, 0, sizeof(questions));
	for (uint32_t i = 0; i < ARRAY_COUNT(questions); i++) {
		fill_join(&joinings[i], i, 100);
		ask_begin(&questions[i], fixture.member, "/mgmt.MgmtSvc/Join", &joinings[i].request.base,
			  &mgmt__join_resp__descriptor);
	}
	for (uint32_t i = 0; i < ARRAY_COUNT(questions); i++) {
		const Mgmt__JoinResp *response;

		question_wait(&questions[i]);
		response = answer_of(&questions[i]);
		assert_int_equal(response->state, MGMT__JOIN_RESP__STATE__IN);
		assert_string_equal(response->faultdomain, "/rack0/node0");
		assert_int_equal(response->daos_version, 4 << 8);
		assert_true(response->rank < ARRAY_COUNT(questions));
		assert_true(!(seen & BIT(response->rank)));
		seen |= BIT(response->rank);
		/* instance 0 of the first management host */
		if (i == 0)
			assert_int_equal(response->rank, 0);
		question_end(&questions[i]);
	}
	assert_int_equal(query()->n_members, ARRAY_COUNT(questions));
	assert_true(mgmt_stats(fixture.mgmt).join_batches < ARRAY_COUNT(questions));
	assert_int_equal(mgmt_stats(fixture.mgmt).joins, ARRAY_COUNT(questions));
}

static void a_member_is_unchanged_after_a_restart(void **state)
{
	const Mgmt__SystemQueryResp *response;
	uint64_t version;

	(void)join(0, 100);
	(void)join(1, 200);
	response = query();
	version = response->data_version;
	reopen_mgmt();
	response = query();
	assert_int_equal(response->n_members, 2);
	assert_int_equal(response->data_version, version);
	assert_int_equal(response->members[1]->rank, 1);
	assert_int_equal(response->members[1]->incarnation, 200);
	assert_string_equal(response->members[1]->uuid, "00000001-0000-4000-8000-000000000001");
	assert_string_equal(response->members[1]->addr, fixture.fakes[1].address);
	assert_string_equal(response->members[1]->state, "joined");
	assert_string_equal(response->members[1]->fabric_uri, "nvme+tcp://127.0.0.1:20001");
	assert_int_equal(response->members[1]->fabric_contexts, 3);
	assert_string_equal(response->members[1]->fault_domain, "/rack0/node0");
	/* the fraction of the seconds has no trailing zeroes */
	assert_in_range(strlen(response->members[1]->last_update), 20, 30);
	assert_int_equal(response->members[1]->last_update[strlen(response->members[1]->last_update) - 1], 'Z');
	assert_int_equal(response->n_providers, 1);
	assert_string_equal(response->providers[0], "nvme+tcp");
	assert_string_equal(response->sys_self_heal_policy, "exclude;pool_exclude;pool_rebuild");
}

static void a_rejoin_keeps_the_rank_and_an_older_incarnation_is_refused(void **state)
{
	struct joining joining;
	struct question *question;

	(void)join(0, 100);
	assert_int_equal(join(3, 100)->rank, 1);
	assert_int_equal(join(3, 200)->rank, 1);
	fill_join(&joining, 3, 150);
	question = ask_join(&joining);
	assert_int_equal(question->code, GRPC_INTERNAL);
	assert_int_equal(question->why.code, 457);
	assert_int_equal(query()->n_members, 2);
}

static uint32_t count_join_failed_events(void)
{
	char message[RAS_MESSAGE_BYTES];

	return count_events(RAS_ENGINE_JOIN_FAILED, message, sizeof(message));
}

static void a_repeatedly_refused_join_raises_one_event_for_each_reason(void **state)
{
	struct joining joining;

	(void)join(0, 100);
	fill_join(&joining, 5, 100);
	joining.request.uri = (char *)"ofi+tcp://127.0.0.1:1";
	for (int i = 0; i < 3; i++) {
		struct question *question = ask_join(&joining);

		assert_int_equal(question->why.code, 455);
	}
	assert_int_equal(count_join_failed_events(), 1);
	joining.request.srvfaultdomain = (char *)"/rack0";
	joining.request.uri = joining.uri;
	assert_int_equal(ask_join(&joining)->why.code, 401);
	assert_int_equal(count_join_failed_events(), 2);
	/* a refusal after an accepted join raises a new event */
	(void)join(5, 100);
	assert_int_equal(ask_join(&joining)->why.code, 401);
	assert_int_equal(count_join_failed_events(), 3);
	assert_int_equal(mgmt_stats(fixture.mgmt).joins_refused, 5);
}

/* The server of a serving engine ends it and raises the event itself. */
static void the_refused_join_of_a_serving_engine_raises_no_event(void **state)
{
	struct joining joining;

	(void)join(0, 100);
	fill_join(&joining, 5, 100);
	joining.request.srvfaultdomain = (char *)"/rack0";
	joining.request.serves = true;
	assert_int_equal(ask_join(&joining)->why.code, 401);
	assert_int_equal(count_join_failed_events(), 0);
	joining.request.serves = false; /* its server has ended it and started it again */
	assert_int_equal(ask_join(&joining)->why.code, 401);
	assert_int_equal(count_join_failed_events(), 1);
}

static void each_of_many_refused_engines_raises_one_event(void **state)
{
	struct joining joining;

	(void)join(0, 100);
	for (uint32_t round = 0; round < 2; round++) {
		for (uint32_t i = 1; i <= 100; i++) {
			fill_join(&joining, i, 100);
			joining.request.srvfaultdomain = (char *)"/rack0";
			assert_int_equal(ask_join(&joining)->why.code, 401);
		}
		assert_int_equal(count_join_failed_events(), 100);
	}
}

static void a_first_member_with_another_provider_is_refused(void **state)
{
	struct joining joining;

	fill_join(&joining, 0, 100);
	joining.request.uri = (char *)"ofi+tcp://127.0.0.1:1";
	assert_int_equal(ask_join(&joining)->why.code, 455);
	joining.request.uri = (char *)"";
	assert_int_equal(ask_join(&joining)->why.code, 455);
	(void)join(0, 100);
}

static void a_request_for_another_system_is_refused(void **state)
{
	static const char *const ours[] = { "", "fathom", "fathom-0.4.0", "fathom-2.9.100" };
	static const char *const others[] = { "fatho", "fathom2-1.0", "daos_server-2.9.100", "fathom-x", "-1" };
	static const char *const shown[] = { "fatho", "fathom2", "daos_server", "fathom-x", "" };
	Mgmt__SystemQueryReq request = MGMT__SYSTEM_QUERY_REQ__INIT;

	(void)join(0, 100);
	for (size_t i = 0; i < ARRAY_COUNT(ours); i++) {
		request.sys = (char *)ours[i];
		assert_int_equal(ADMIN_ASK("SystemQuery", request, system_query)->code, GRPC_OK);
	}
	for (size_t i = 0; i < ARRAY_COUNT(others); i++) {
		struct question *question;
		char text[128];

		request.sys = (char *)others[i];
		question = ADMIN_ASK("SystemQuery", request, system_query);
		assert_int_equal(question->code, GRPC_INTERNAL);
		assert_int_equal(question->why.code, 603);
		snprintf(text, sizeof(text), "the request is for the system \"%s\", but this system is \"fathom\"",
			 shown[i]);
		assert_string_equal(question->why.text, text); /* the text shows the name without its version */
	}
}

struct release {
	enum grpc_role role;
	const char *version;
	struct grpc_client *client;
};

static int open_release(void *ctx)
{
	struct release *release = ctx;

	return open_client_of(release->role, release->version, &release->client);
}

static int close_release(void *ctx)
{
	grpc_client_destroy(((struct release *)ctx)->client);
	return 0;
}

/* Join and TakeEvents from a server of this version must fail with the fault `code`; 0: they must succeed. */
static void assert_answers_to_release(const char *version, int code)
{
	struct release release = { GRPC_ROLE_SERVER, version, NULL };
	Fathom__TakeEventsReq events = FATHOM__TAKE_EVENTS_REQ__INIT;
	struct question *question;
	struct joining joining;

	must(on_control(open_release, &release) == 0);
	fill_join(&joining, 0, 100);
	question = ask(release.client, "/mgmt.MgmtSvc/Join", &joining.request.base, &mgmt__join_resp__descriptor);
	assert_int_equal(question->code, code ? GRPC_INTERNAL : GRPC_OK);
	assert_int_equal(question->why.code, code);
	if (code) {
		assert_non_null(strstr(question->why.text, version));
		assert_non_null(strstr(question->why.text, fixture.version));
	}
	events.source = (char *)"one";
	question = ask(release.client, "/fathom.ControlSvc/TakeEvents", &events.base,
		       &fathom__take_events_resp__descriptor);
	assert_true((question->why.code == 616) == (code == 616));
	on_control(close_release, &release);
}

static void servers_of_another_release_are_refused(void **state)
{
	struct release dmg = { GRPC_ROLE_ADMIN, "2.9.100", NULL };
	Mgmt__SystemQueryReq request = MGMT__SYSTEM_QUERY_REQ__INIT;

	(void)join(0, 100);
	assert_answers_to_release("9.9.0", 616);
	assert_answers_to_release("0.5.0", 616);
	assert_answers_to_release("0.41.0", 616);
	assert_answers_to_release("0.4.0", 0);
	assert_answers_to_release("0.4.17-rc1", 0);
	must(on_control(open_release, &dmg) == 0);
	assert_int_equal(
		ask(dmg.client, "/mgmt.MgmtSvc/SystemQuery", &request.base, &mgmt__system_query_resp__descriptor)->code,
		GRPC_OK);
	on_control(close_release, &dmg);
}

static void each_method_accepts_only_its_roles(void **state)
{
	for (size_t i = 0; i < mgmt_method_count; i++) {
		const struct grpc_method *method = &mgmt_methods[i];
		struct grpc_client *clients[] = { fixture.admin, fixture.agent, fixture.member };

		assert_true(method->roles != 0);
		for (size_t role = 0; role < ARRAY_COUNT(clients); role++) {
			uint8_t memory[256] = { 0 };
			ProtobufCMessage *request = (void *)memory;
			struct question *question;

			must(method->request->sizeof_message <= sizeof(memory));
			protobuf_c_message_init(method->request, request);
			question = ask(clients[role], method->path, request, method->response);
			if (method->roles & 1u << role)
				assert_true(question->code != GRPC_PERMISSION_DENIED);
			else
				assert_int_equal(question->code, GRPC_PERMISSION_DENIED);
		}
	}
}

static void a_server_without_the_service_names_the_replicas(void **state)
{
	for (size_t i = 0; i < mgmt_method_count; i++) {
		const struct grpc_method *method = &mgmt_methods[i];
		uint8_t memory[256] = { 0 };
		ProtobufCMessage *request = (void *)memory;
		struct grpc_client *client = method->roles & GRPC_ROLE_ADMIN ? fixture.admin : fixture.member;
		struct mgmt *mgmt = fixture.of_call.mgmt;
		struct question *question;

		fixture.of_call.mgmt = NULL;
		protobuf_c_message_init(method->request, request);
		question = ask(client, method->path, request, method->response);
		fixture.of_call.mgmt = mgmt;
		assert_int_equal(question->code, GRPC_INTERNAL);
		assert_int_equal(question->redirect.replica_count, 1);
		assert_string_equal(question->redirect.replicas[0], fixture.replicas[0]);
	}
}

/* ---- selections ---- */

static const Mgmt__SystemQueryResp *query_some(const char *ranks, const char *hosts, uint32_t mask)
{
	Mgmt__SystemQueryReq request = MGMT__SYSTEM_QUERY_REQ__INIT;

	request.ranks = (char *)ranks;
	request.hosts = (char *)hosts;
	request.state_mask = mask;
	return answer_of(ADMIN_ASK("SystemQuery", request, system_query));
}

static void ranks_and_hosts_are_selected(void **state)
{
	Mgmt__SystemQueryReq request = MGMT__SYSTEM_QUERY_REQ__INIT;
	const Mgmt__SystemQueryResp *response;
	char hosts[256];

	join_many(2 * FAKES);
	response = query_some("1-2,40", "", 0);
	assert_int_equal(response->n_members, 2);
	assert_int_equal(response->members[1]->rank, 2);
	assert_string_equal(response->absentranks, "40");
	assert_string_equal(response->absenthosts, "");
	snprintf(hosts, sizeof(hosts), "%s,10.9.9.[1-2]:10001", fixture.fakes[3].address);
	response = query_some("", hosts, 0);
	assert_int_equal(response->n_members, 2);
	assert_string_equal(response->members[0]->addr, fixture.fakes[3].address);
	assert_string_equal(response->absenthosts, "10.9.9.[1-2]:10001");
	response = query_some("", "127.0.0.1", 0); /* a host without a port selects all its ports */
	assert_int_equal(response->n_members, 2 * FAKES);
	assert_int_equal(query_some("", "", 8)->n_members, 2 * FAKES);
	assert_int_equal(query_some("", "", 0x20)->n_members, 0);
	request.ranks = (char *)"1";
	request.hosts = (char *)"127.0.0.1";
	assert_int_equal(ADMIN_ASK("SystemQuery", request, system_query)->why.code, 687);
	request.hosts = (char *)"";
	request.ranks = (char *)"x";
	assert_int_equal(ADMIN_ASK("SystemQuery", request, system_query)->why.code, 550);
	request.ranks = (char *)"";
	request.hosts = (char *)"[";
	assert_int_equal(ADMIN_ASK("SystemQuery", request, system_query)->why.code, 561);
}

static struct question *exclude(const char *ranks, bool is_clear)
{
	Mgmt__SystemExcludeReq request = MGMT__SYSTEM_EXCLUDE_REQ__INIT;

	request.ranks = (char *)ranks;
	request.clear = is_clear;
	return ADMIN_ASK("SystemExclude", request, system_exclude);
}

static void an_excluded_rank_joins_only_after_the_exclusion_is_cleared(void **state)
{
	const Mgmt__SystemExcludeResp *response;
	struct joining joining;
	struct question *question;

	join_many(3);
	response = answer_of(exclude("1-2", false));
	assert_int_equal(response->n_results, 2);
	assert_int_equal(response->results[0]->rank, 1);
	assert_string_equal(response->results[0]->action, "exclude");
	assert_string_equal(response->results[0]->state, "adminexcluded");
	assert_string_equal(response->results[0]->addr, fixture.fakes[1].address);
	fill_join(&joining, 1, 200);
	question = ask_join(&joining);
	assert_int_equal(question->why.code, 623);
	(void)answer_of(exclude("1", false)); /* an exclusion of an excluded rank succeeds */
	reopen_mgmt();
	assert_string_equal(state_of_rank(1), "adminexcluded");
	response = answer_of(exclude("1", true));
	assert_string_equal(response->results[0]->state, "excluded");
	assert_int_equal(join(1, 200)->rank, 1);
	assert_string_equal(state_of_rank(1), "joined");
	assert_string_equal(state_of_rank(2), "adminexcluded");
	/* all ranks of a call change, or none */
	assert_int_equal(exclude("0-2", true)->why.code, 462);
	assert_string_equal(state_of_rank(2), "adminexcluded");
	assert_int_equal(exclude("0,77", false)->why.code, 460);
	assert_string_equal(state_of_rank(0), "joined");
	assert_int_equal(exclude("", false)->why.code, 688);
}

static void attach_info_has_the_addresses_of_engines(void **state)
{
	Mgmt__GetAttachInfoReq request = MGMT__GET_ATTACH_INFO_REQ__INIT;
	const Mgmt__GetAttachInfoResp *response;
	char *secondary[] = { (char *)"nvme+rdma://127.0.0.1:1" };
	uint32_t contexts[] = { 9 };
	struct joining joining;

	fill_join(&joining, 0, 100);
	joining.request.n_secondary_uris = joining.request.n_secondary_nctxs = 1;
	joining.request.secondary_uris = secondary;
	joining.request.secondary_nctxs = contexts;
	(void)answer_of(ask_join(&joining));
	(void)join(1, 100);
	(void)join(2, 100);
	(void)answer_of(exclude("2", false));
	request.all_ranks = true;
	response = answer_of(
		ask(fixture.agent, "/mgmt.MgmtSvc/GetAttachInfo", &request.base, &mgmt__get_attach_info_resp__descriptor));
	assert_int_equal(response->n_rank_uris, 2);
	assert_int_equal(response->rank_uris[1]->rank, 1);
	assert_string_equal(response->rank_uris[1]->uri, "nvme+tcp://127.0.0.1:20001");
	assert_int_equal(response->rank_uris[1]->num_ctxs, 3);
	assert_int_equal(response->n_secondary_rank_uris, 1);
	assert_string_equal(response->secondary_rank_uris[0]->uri, secondary[0]);
	assert_int_equal(response->secondary_rank_uris[0]->num_ctxs, 9);
	assert_int_equal(response->secondary_rank_uris[0]->provider_idx, 1);
	assert_int_equal(response->n_ms_ranks, 1);
	assert_int_equal(response->ms_ranks[0], 0);
	assert_string_equal(response->client_net_hint->provider, "nvme+tcp");
	assert_int_equal(response->client_net_hint->net_dev_class, 772);
	assert_string_equal(response->sys, "fathom");
	assert_int_equal(response->build_info->minor, 4);
	assert_int_equal(response->data_version, system_version(mgmt_system(fixture.mgmt)));
	request.all_ranks = false; /* only the ranks of the management hosts */
	response = answer_of(ADMIN_ASK("GetAttachInfo", request, get_attach_info));
	assert_int_equal(response->n_rank_uris, 1);
	assert_int_equal(response->rank_uris[0]->rank, 0);
}

/* ---- attributes and properties ---- */

static struct question *set_attribute(const char *name, const char *value)
{
	Mgmt__SystemSetAttrReq__AttributesEntry entry = MGMT__SYSTEM_SET_ATTR_REQ__ATTRIBUTES_ENTRY__INIT,
						*entries[] = { &entry };
	Mgmt__SystemSetAttrReq request = MGMT__SYSTEM_SET_ATTR_REQ__INIT;

	entry.key = (char *)name;
	entry.value = (char *)value;
	request.n_attributes = 1;
	request.attributes = entries;
	return ask(fixture.admin, "/mgmt.MgmtSvc/SystemSetAttr", &request.base, &mgmt__daos_resp__descriptor);
}

static struct question *get_attribute(const char *name)
{
	Mgmt__SystemGetAttrReq request = MGMT__SYSTEM_GET_ATTR_REQ__INIT;
	char *keys[] = { (char *)name };

	request.n_keys = name ? 1 : 0;
	request.keys = keys;
	return ADMIN_ASK("SystemGetAttr", request, system_get_attr);
}

static struct question *set_property(const char *name, const char *value)
{
	Mgmt__SystemSetPropReq__PropertiesEntry entry = MGMT__SYSTEM_SET_PROP_REQ__PROPERTIES_ENTRY__INIT,
						*entries[] = { &entry };
	Mgmt__SystemSetPropReq request = MGMT__SYSTEM_SET_PROP_REQ__INIT;

	entry.key = (char *)name;
	entry.value = (char *)value;
	request.n_properties = 1;
	request.properties = entries;
	return ask(fixture.admin, "/mgmt.MgmtSvc/SystemSetProp", &request.base, &mgmt__daos_resp__descriptor);
}

static struct question *get_property(const char *name)
{
	Mgmt__SystemGetPropReq request = MGMT__SYSTEM_GET_PROP_REQ__INIT;
	char *keys[] = { (char *)name };

	request.n_keys = name ? 1 : 0;
	request.keys = keys;
	return ADMIN_ASK("SystemGetProp", request, system_get_prop);
}

static void attributes_survive_a_restart(void **state)
{
	const Mgmt__SystemGetAttrResp *response;

	(void)join(0, 100);
	(void)answer_of(set_attribute("a", "1"));
	(void)answer_of(set_attribute("b", "2"));
	(void)answer_of(set_attribute("a", "3"));
	reopen_mgmt();
	response = answer_of(get_attribute(NULL));
	assert_int_equal(response->n_attributes, 2);
	assert_string_equal(response->attributes[0]->key, "a");
	assert_string_equal(response->attributes[0]->value, "3");
	(void)answer_of(set_attribute("a", ""));
	assert_int_equal(get_attribute("a")->why.code, 466);
	assert_int_equal(set_attribute("a", "")->why.code, 466);
	assert_int_equal(set_attribute("mgmt.x", "1")->why.code, 463);
	response = answer_of(get_attribute("b"));
	assert_string_equal(response->attributes[0]->value, "2");
}

static void properties_are_checked_and_survive_a_restart(void **state)
{
	const Mgmt__SystemGetPropResp *response;

	(void)join(0, 100);
	response = answer_of(get_property(NULL));
	assert_int_equal(response->n_properties, 5);
	assert_string_equal(response->properties[0]->key, "daos_system");
	assert_string_equal(response->properties[0]->value, "fathom");
	assert_string_equal(response->properties[1]->value, "0.4.0");
	(void)answer_of(set_property("self_heal", "exclude"));
	reopen_mgmt();
	response = answer_of(get_property("self_heal"));
	assert_int_equal(response->n_properties, 1);
	assert_string_equal(response->properties[0]->value, "exclude");
	assert_string_equal(query()->sys_self_heal_policy, "exclude");
	assert_int_equal(set_property("self_heal", "nonsense")->why.code, 465);
	assert_int_equal(set_property("self_heel", "none")->why.code, 464);
	assert_int_equal(set_property("nope", "1")->why.code, FAULT_PROPERTY_ABSENT); /* no property has a similar name */
	assert_int_equal(set_property("daos_version", "1")->why.code, 465);
	assert_int_equal(get_property("self_heel")->why.code, 464);
	response = answer_of(get_property("daos_version"));
	assert_string_equal(response->properties[0]->value, "0.4.0");
}

static void only_a_stopped_system_is_erased(void **state)
{
	Mgmt__SystemEraseReq request = MGMT__SYSTEM_ERASE_REQ__INIT;
	Mgmt__SystemStopReq stop = MGMT__SYSTEM_STOP_REQ__INIT;
	Mgmt__SystemQueryReq again = MGMT__SYSTEM_QUERY_REQ__INIT;
	const Mgmt__SystemEraseResp *response;

	join_many(3);
	(void)answer_of(set_attribute("a", "1"));
	(void)answer_of(set_property("self_heal", "none"));
	assert_int_equal(ADMIN_ASK("SystemErase", request, system_erase)->why.code, 468);
	assert_int_equal(query()->n_members, 3);
	stop.force = true;
	(void)answer_of(ADMIN_ASK("SystemStop", stop, system_stop));
	/* a rank whose server refuses stays a member, and attributes stay, so the operator can repeat the call */
	fixture.fakes[1].way = FAKE_REFUSES;
	response = answer_of(ADMIN_ASK("SystemErase", request, system_erase));
	assert_int_equal(response->n_results, 3);
	assert_true(response->results[1]->errored);
	assert_string_equal(response->results[1]->state, "unresponsive");
	assert_false(response->results[2]->errored);
	assert_string_equal(response->results[2]->action, "erase");
	assert_string_equal(response->results[2]->state, "awaitformat");
	assert_int_equal(query()->n_members, 1);
	assert_string_equal(state_of_rank(1), "unresponsive");
	(void)answer_of(get_attribute("a"));
	fixture.fakes[1].way = FAKE_ANSWERS;
	response = answer_of(ADMIN_ASK("SystemErase", request, system_erase));
	assert_int_equal(response->n_results, 1);
	assert_int_equal(fixture.fakes[1].erased, 2);
	assert_int_equal(ADMIN_ASK("SystemQuery", again, system_query)->code, GRPC_UNKNOWN);
	reopen_mgmt();
	assert_int_equal(ADMIN_ASK("SystemQuery", again, system_query)->code, GRPC_UNKNOWN);
	/* nothing of the erased system is left: ranks are assigned from 0 again */
	assert_int_equal(join(1, 300)->rank, 1);
	assert_string_equal(query()->sys_self_heal_policy, "exclude;pool_exclude;pool_rebuild");
	assert_int_equal(get_attribute("a")->why.code, 466);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_begin, fixture_end)
	const struct CMUnitTest tests[] = {
		TEST(a_call_to_a_system_without_members_fails_as_uninitialized),
		TEST(an_engine_with_a_rank_does_not_join_an_empty_system),
		TEST(concurrent_joins_are_stored_in_fewer_batches),
		TEST(a_member_is_unchanged_after_a_restart),
		TEST(a_rejoin_keeps_the_rank_and_an_older_incarnation_is_refused),
		TEST(a_repeatedly_refused_join_raises_one_event_for_each_reason),
		TEST(the_refused_join_of_a_serving_engine_raises_no_event),
		TEST(each_of_many_refused_engines_raises_one_event),
		TEST(a_first_member_with_another_provider_is_refused),
		TEST(a_request_for_another_system_is_refused),
		TEST(servers_of_another_release_are_refused),
		TEST(each_method_accepts_only_its_roles),
		TEST(a_server_without_the_service_names_the_replicas),
		TEST(ranks_and_hosts_are_selected),
		TEST(an_excluded_rank_joins_only_after_the_exclusion_is_cleared),
		TEST(attach_info_has_the_addresses_of_engines),
		TEST(attributes_survive_a_restart),
		TEST(properties_are_checked_and_survive_a_restart),
		TEST(only_a_stopped_system_is_erased),
	};

	return cmocka_run_group_tests_name("control mgmt members", tests, NULL, NULL);
}
