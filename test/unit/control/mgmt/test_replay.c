/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests of DAOS's dmg, recorded with headers and bytes, sent to our management service in their order. Each answer must
 * have the same fields set, and the same values where they do not depend on the host, so that dmg prints the same table.
 */
#include "base/text.h"
#include "storage_calls.h"

#include "../../rpc/grpc/dmg_calls.h"

static const char *calls_file;
static char path[256];

enum { OWN_FIELDS = 100 }; /* numbers from here on are Fathom's */

/* Fields whose values depend on the run or on the host. */
static bool depends_on_run(const ProtobufCFieldDescriptor *field)
{
	static const char *const names[] = { "addr", "current_leader", "replicas",     "last_update", "uuid",
					     "uri",  "fabric_uri",     "data_version", "incarnation", "label" };

	for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
		if (strcmp(field->name, names[i]) == 0)
			return true;
	}
	return false;
}

/*
 * Not compared: a property of DAOS's fabric, which NVMe/TCP does not have; the space of pools, which was in memory there,
 * the targets of the recorded engine, and properties of its pools, of which it had none; what only our answers have.
 */
static bool is_left_out(const ProtobufCFieldDescriptor *field)
{
	static const char *const names[] = { "srv_srx_set",  "total",	      "free",
					     "min",	     "max",	      "mean",
					     "tier_bytes",   "total_targets", "active_targets",
					     "rebuild_state" };

	for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
		if (strcmp(field->name, names[i]) == 0)
			return true;
	}
	return field->id >= OWN_FIELDS || strcmp(path, "/mgmt.MgmtSvc/PoolGetProp") == 0;
}

static void assert_messages_equal(const ProtobufCMessage *ours, const ProtobufCMessage *recorded);

static void assert_values_equal(const ProtobufCFieldDescriptor *field, const void *ours, const void *recorded)
{
	const char *text, *recorded_text;

	switch (field->type) {
	case PROTOBUF_C_TYPE_MESSAGE:
		assert_true(!*(const ProtobufCMessage *const *)ours == !*(const ProtobufCMessage *const *)recorded);
		if (*(const ProtobufCMessage *const *)ours)
			assert_messages_equal(*(const ProtobufCMessage *const *)ours,
					      *(const ProtobufCMessage *const *)recorded);
		break;
	case PROTOBUF_C_TYPE_STRING:
		text = *(const char *const *)ours;
		recorded_text = *(const char *const *)recorded;
		if (!depends_on_run(field))
			assert_string_equal(text, recorded_text);
		assert_true(!*text == !*recorded_text);
		break;
	case PROTOBUF_C_TYPE_UINT64:
		assert_true(!*(const uint64_t *)ours == !*(const uint64_t *)recorded);
		assert_true(depends_on_run(field) || *(const uint64_t *)ours == *(const uint64_t *)recorded);
		break;
	case PROTOBUF_C_TYPE_UINT32:
	case PROTOBUF_C_TYPE_INT32:
	case PROTOBUF_C_TYPE_BOOL:
	case PROTOBUF_C_TYPE_ENUM:
		if (*(const uint32_t *)ours != *(const uint32_t *)recorded)
			fail_msg("%s: %s is %u, recorded was %u", path, field->name, *(const uint32_t *)ours,
				 *(const uint32_t *)recorded);
		break;
	default:
		fail_msg("%s: %s has a type that this test does not compare", path, field->name);
	}
}

static size_t value_bytes(const ProtobufCFieldDescriptor *field)
{
	return field->type == PROTOBUF_C_TYPE_MESSAGE || field->type == PROTOBUF_C_TYPE_STRING ? sizeof(void *)
	       : field->type == PROTOBUF_C_TYPE_UINT64					       ? sizeof(uint64_t)
											       : sizeof(uint32_t);
}

static void assert_messages_equal(const ProtobufCMessage *ours, const ProtobufCMessage *recorded)
{
	for (unsigned int i = 0; i < ours->descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &ours->descriptor->fields[i];
		const char *at = (const char *)ours + field->offset, *recorded_at = (const char *)recorded + field->offset;
		size_t count;

		if (is_left_out(field))
			continue;
		if (field->label != PROTOBUF_C_LABEL_REPEATED) {
			assert_values_equal(field, at, recorded_at);
			continue;
		}
		count = *(const size_t *)((const char *)ours + field->quantifier_offset);
		if (count != *(const size_t *)((const char *)recorded + field->quantifier_offset))
			fail_msg("%s: the number of %s differs", path, field->name);
		for (size_t item = 0; item < count; item++)
			assert_values_equal(field, *(const char *const *)at + item * value_bytes(field),
					    *(const char *const *)recorded_at + item * value_bytes(field));
	}
}

static const struct grpc_method *method_of(const char *name)
{
	for (size_t i = 0; i < mgmt_method_count; i++) {
		if (strcmp(mgmt_methods[i].path, name) == 0)
			return &mgmt_methods[i];
	}
	return NULL;
}

/* The recorded engine joined after formatting and after each start. */
static void join_engine(uint64_t incarnation)
{
	struct joining joining;

	fill_join(&joining, 0, incarnation);
	joining.request.sys = (char *)"daos_server-2.9.100";
	joining.request.nctxs = 5;
	(void)answer_of(ask_join(&joining));
}

static void replay(const struct grpc_method *method)
{
	ProtobufCMessage *ours, *recorded;

	snprintf(path, sizeof(path), "%s", now.column[0]);
	dmg_ask(grpc_server_port(fixture.server));
	assert_string_equal(now.http, "200");
	assert_string_equal(now.status, now.column[2]);
	if (strcmp(now.status, "0") != 0) {
		assert_string_equal(now.message, now.column[5]);
		return;
	}
	assert_true(grpc_message_is_whole(&now.answer));
	ours = protobuf_c_message_unpack(method->response, NULL, now.answer.bytes, now.answer.data);
	recorded = protobuf_c_message_unpack(method->response, NULL, now.response_bytes, now.response);
	assert_non_null(ours);
	assert_non_null(recorded);
	assert_messages_equal(ours, recorded);
	protobuf_c_message_free_unpacked(ours, NULL);
	protobuf_c_message_free_unpacked(recorded, NULL);
}

static void each_recorded_call_gets_an_equal_answer(void **state)
{
	FILE *file = fopen(calls_file, "r");
	uint64_t incarnation = 100;
	size_t count = 0;

	assert_non_null(file);
	while (next(file)) {
		const struct grpc_method *method = method_of(now.column[0]);

		if (strcmp(now.column[0], "/ctl.CtlSvc/StorageFormat") == 0)
			join_engine(incarnation);
		/* DAOS's replicas were still electing a leader; our service has one at once */
		if (!method || strncmp(now.column[5], "raft service", 12) == 0)
			continue;
		replay(method);
		grpc_message_clear(&now.answer);
		if (strcmp(now.column[0], "/mgmt.MgmtSvc/SystemStart") == 0)
			join_engine(++incarnation);
		count++;
	}
	fclose(file);
	print_message("# %zu calls\n", count);
	assert_true(count >= 23);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(each_recorded_call_gets_an_equal_answer, fixture_begin, fixture_end),
	};

	must(argc == 2);
	calls_file = argv[1];
	fixture.name = "daos_server";
	fixture.provider = "ofi+tcp";
	fixture.version = "2.9.100";
	return cmocka_run_group_tests_name("control mgmt replay", tests, NULL, NULL);
}
