/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Recorded calls of DAOS's dmg (dmg-calls.txt), made to our server with the same headers and bytes. The methods decode the
 * request, must know all its fields, and answer with the recorded response, decoded and encoded again.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* after those */
#include <cmocka.h>

#include "base/bits.h"
#include "base/text.h"
#include "rpc/grpc/grpc.h"
#include "rpc/proto/ctl.pb-c.h"
#include "rpc/proto/mgmt.pb-c.h"

#include "../../control_thread.h"
#include "dmg_calls.h"

static const char *calls_file;
static struct grpc_server *server;

/* ---- the server ---- */

/*
 * Fail if the message has a field that our definitions lack: encoding must give the same bytes. On the control thread, so
 * without cmocka.
 */
static void must_have_known_fields_only(const ProtobufCMessage *message, const uint8_t *bytes, size_t count)
{
	uint8_t *packed = malloc(count + 1);

	must(packed);
	must(message->n_unknown_fields == 0);
	/* Go writes the empty value of a map's entry, a tag and a length of 0; protobuf-c does not */
	maybe(protobuf_c_message_get_packed_size(message) == count);
	if (protobuf_c_message_get_packed_size(message) == count) {
		must(protobuf_c_message_pack(message, packed) == count);
		must(memcmp(packed, bytes, count) == 0);
	} else {
		must(message->descriptor == &mgmt__system_set_attr_req__descriptor);
		must(protobuf_c_message_get_packed_size(message) == count - 2);
	}
	free(packed);
}

static void answer(struct grpc_call *call, const ProtobufCMessage *request)
{
	const ProtobufCMessageDescriptor *descriptor = grpc_call_method(call)->response;
	ProtobufCMessage *response;
	char text[GRPC_TEXT_BYTES_MAX];

	must_have_known_fields_only(request, now.request + GRPC_PREFIX_BYTES, now.request_bytes - GRPC_PREFIX_BYTES);
	if (strcmp(now.column[2], "0") != 0) {
		uint64_t code;

		must(text_parse_u64(now.column[2], 10, 16, &code) == 0);
		snprintf(text, sizeof(text), "%.1000s", now.column[5]);
		grpc_fail(call, (enum grpc_code)code, NULL, "%s", text);
		return;
	}
	response = protobuf_c_message_unpack(descriptor, NULL, now.response_bytes, now.response);
	must(response);
	must_have_known_fields_only(response, now.response, now.response_bytes);
	grpc_reply(call, response);
	protobuf_c_message_free_unpacked(response, NULL);
}

#define ROW(service, name, request, response)                                                                              \
	{                                                                                                                  \
		"/" service "/" name, &request##__descriptor, &response##__descriptor, GRPC_ROLE_ADMIN, answer             \
	}
#define MGMT(name, stem) ROW("mgmt.MgmtSvc", name, mgmt__##stem##_req, mgmt__##stem##_resp)
#define CTL(name, stem) ROW("ctl.CtlSvc", name, ctl__##stem##_req, ctl__##stem##_resp)

static const struct grpc_method methods[] = {
	CTL("NetworkScan", network_scan),
	CTL("StorageFormat", storage_format),
	CTL("StorageScan", storage_scan),
	MGMT("GetAttachInfo", get_attach_info),
	MGMT("LeaderQuery", leader_query),
	MGMT("ListPools", list_pools),
	MGMT("PoolCreate", pool_create),
	MGMT("PoolDestroy", pool_destroy),
	MGMT("PoolGetProp", pool_get_prop),
	MGMT("PoolQuery", pool_query),
	MGMT("SystemGetAttr", system_get_attr),
	MGMT("SystemGetProp", system_get_prop),
	MGMT("SystemQuery", system_query),
	ROW("mgmt.MgmtSvc", "SystemSetAttr", mgmt__system_set_attr_req, mgmt__daos_resp),
	MGMT("SystemStart", system_start),
	MGMT("SystemStop", system_stop),
};

static int open_server(void *unused)
{
	struct grpc_server_options options = { .address = "127.0.0.1:0",
					       .methods = methods,
					       .method_count = ARRAY_COUNT(methods) };

	return grpc_server_open(&options, &server, NULL);
}

static int close_server(void *unused)
{
	grpc_server_close(server);
	return 0;
}

/* ---- the record ---- */

static bool is_ours(void)
{
	for (size_t i = 0; i < ARRAY_COUNT(methods); i++) {
		if (strcmp(methods[i].path, now.column[0]) == 0)
			return true;
	}
	return false;
}

static void each_recorded_call_gets_the_recorded_answer(void **state)
{
	FILE *file = fopen(calls_file, "r");
	size_t count = 0;

	assert_non_null(file);
	while (next(file)) {
		if (!is_ours())
			continue;
		dmg_ask(grpc_server_port(server));
		assert_string_equal(now.http, "200");
		assert_string_equal(now.status, now.column[2]);
		if (strcmp(now.status, "0") == 0) {
			assert_true(grpc_message_is_whole(&now.answer));
			assert_int_equal(now.answer.bytes, now.response_bytes);
			if (now.response_bytes > 0)
				assert_memory_equal(now.answer.data, now.response, now.response_bytes);
		} else {
			assert_string_equal(now.message, now.column[5]);
		}
		grpc_message_clear(&now.answer);
		count++;
	}
	fclose(file);
	assert_true(count >= 30);
}

static void recorded_error_details_are_decoded(void **state)
{
	FILE *file = fopen(calls_file, "r");
	size_t count = 0;

	assert_non_null(file);
	while (next(file)) {
		Google__Rpc__ErrorInfo *info = strcmp(now.column[6], "-") != 0 ? details_decode(now.column[6]) : NULL;

		if (strcmp(now.column[6], "-") == 0)
			continue;
		assert_non_null(info);
		assert_non_null(strstr(info->reason, "proto."));
		assert_true(info->n_metadata > 0);
		google__rpc__error_info__free_unpacked(info, NULL);
		count++;
	}
	fclose(file);
	assert_true(count > 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_recorded_call_gets_the_recorded_answer),
		cmocka_unit_test(recorded_error_details_are_decoded),
	};
	struct reactor_options none = { .simulated = false };
	int failed;

	must(argc == 2);
	calls_file = argv[1];
	control_start(&none);
	must(on_control(open_server, NULL) == 0);
	failed = cmocka_run_group_tests_name("grpc replay", tests, NULL, NULL);
	on_control(close_server, NULL);
	control_stop();
	return failed;
}
