/* SPDX-License-Identifier: BSD-2-Clause */
/* Faults through gRPC, with a real server and client: the received fault equals the sent one. */
#include <errno.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/bits.h"
#include "base/clock.h"
#include "control/fault/fault.h"
#include "control/status/status.h"

#include "../../control_thread.h"

static struct grpc_server *server;
static struct grpc_client *client;
static char address[GRPC_ADDRESS_BYTES_MAX];

/* How the method answers, and what the client received. */
static void (*answer)(struct grpc_call *call);
static struct fathom_fault sent, received;
static struct status_redirect redirect;
static int redirect_error;
static sem_t done;

static void method(struct grpc_call *call, const ProtobufCMessage *request)
{
	answer(call);
}

static const struct grpc_method methods[] = {
	{ "/test.Status/Get", &google__rpc__status__descriptor, &google__rpc__status__descriptor, 0, method },
	{ "/test.Status/Serve", &google__rpc__status__descriptor, &google__rpc__status__descriptor, GRPC_ROLE_SERVER,
	  method },
};

static int open_both(void *unused)
{
	struct grpc_server_options options = { .address = "127.0.0.1:0",
					       .methods = methods,
					       .method_count = ARRAY_COUNT(methods) };
	struct grpc_client_options of_client = { .role = GRPC_ROLE_ADMIN };
	int error = grpc_server_open(&options, &server, NULL);

	if (error)
		return error;
	snprintf(address, sizeof(address), "127.0.0.1:%u", grpc_server_port(server));
	return grpc_client_create(&of_client, &client, NULL);
}

static int close_both(void *unused)
{
	grpc_client_destroy(client);
	grpc_server_close(server);
	return 0;
}

static void ended(void *ctx, const struct grpc_result *result)
{
	fault_from_result(result, ctx, &received);
	redirect_error = status_redirect(result, &redirect);
	sem_post(&done);
}

struct question {
	const char *address, *path;
	uint64_t timeout_ns;
};

static int ask(void *ctx)
{
	Google__Rpc__Status request = GOOGLE__RPC__STATUS__INIT;
	const struct question *question = ctx;

	return grpc_client_call(client, &(struct grpc_request){
						.address = question->address,
						.path = question->path,
						.message = &request.base,
						.response = &google__rpc__status__descriptor,
						.timeout_ns = question->timeout_ns,
						.done = ended,
						.ctx = (void *)question->address,
					});
}

static void get_from(const char *from, const char *path, uint64_t timeout_ns)
{
	struct question question = { from, path, timeout_ns };

	memset(&received, 0x55, sizeof(received));
	assert_int_equal(on_control(ask, &question), 0);
	while (sem_wait(&done))
		;
}

static void get(void (*how)(struct grpc_call *call))
{
	answer = how;
	get_from(address, "/test.Status/Get", 10 * NS_PER_SEC);
}

static void answer_fault(struct grpc_call *call)
{
	call_fail(call, &sent);
}

static void assert_received_equals_sent(void)
{
	assert_int_equal(received.error, sent.error);
	assert_int_equal(received.code, sent.code);
	assert_string_equal(received.text, sent.text);
	assert_string_equal(received.resolution, sent.resolution);
}

static void a_received_fault_equals_the_sent_one(void **state)
{
	static const char name[] = "p \"1\"\n\xc3\xa4%s%n\\";

	memset(&sent, 0, sizeof(sent));
	fill_fault_pool_label_taken(&sent, name);
	get(answer_fault);
	assert_received_equals_sent();
	assert_int_equal(received.code, 609);
	fill_fault_join_incarnation_old(&sent, 7, 1, UINT64_MAX);
	get(answer_fault);
	assert_received_equals_sent();
	assert_int_equal(redirect_error, -ENOENT);
	/* an unknown code keeps the sender's text */
	sent.code = 849;
	get(answer_fault);
	assert_int_equal(received.code, 849);
	assert_int_equal(received.error, -EREMOTEIO);
	assert_string_equal(received.text, sent.text);
}

static void a_long_fault_is_received_whole(void **state)
{
	char text[FAULT_TEXT_BYTES_MAX];

	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	memset(&sent, 0, sizeof(sent));
	fault_coded(&sent, -EINVAL, 465, "%s", text);
	fault_resolve(&sent, "%.250s", text);
	get(answer_fault);
	assert_received_equals_sent();
}

static void a_fault_without_a_code_is_received_as_its_text(void **state)
{
	memset(&sent, 0, sizeof(sent));
	must(fault(&sent, -EINVAL, "100%% of %s", "nothing") < 0);
	get(answer_fault);
	assert_int_equal(received.code, 0);
	assert_string_equal(received.text, "100% of nothing");
	assert_int_equal(received.error, -EREMOTEIO);
}

static void answer_uninitialized(struct grpc_call *call)
{
	grpc_fail(call, GRPC_UNKNOWN, NULL, STATUS_UNINITIALIZED);
}

static void answer_not_found(struct grpc_call *call)
{
	grpc_fail(call, GRPC_NOT_FOUND, NULL, "%s", "");
}

static void answer_late(struct grpc_call *call)
{
	grpc_fail(call, GRPC_DEADLINE_EXCEEDED, NULL, "too late");
}

static void a_status_without_details_becomes_a_fault(void **state)
{
	get(answer_uninitialized);
	assert_int_equal(received.code, 650);
	get(answer_not_found);
	assert_int_equal(received.error, -ENOENT);
	assert_int_equal(received.code, 0);
	assert_non_null(strstr(received.text, address));
	get(answer_late);
	assert_int_equal(received.code, 508);
}

static void answer_unauthenticated(struct grpc_call *call)
{
	grpc_fail(call, GRPC_UNAUTHENTICATED, NULL, "who are you?");
}

static void must_be_fault(int code, int error, const char *words)
{
	assert_int_equal(received.code, code);
	assert_int_equal(received.error, error);
	assert_non_null(strstr(received.text, address));
	assert_non_null(strstr(received.text, words));
	assert_true(received.resolution[0] != '\0');
}

/* gRPC itself refuses these calls, without a fault in the status. */
static void refused_and_unknown_methods_become_faults_with_a_resolution(void **state)
{
	get_from(address, "/test.Status/Serve", NS_PER_SEC);
	must_be_fault(950, -EACCES, "admin may not call /test.Status/Serve");
	get_from(address, "/test.Status/None", NS_PER_SEC);
	must_be_fault(560, -ENOSYS, "no such method");
	get(answer_unauthenticated);
	must_be_fault(680, -EACCES, "who are you?");
}

static const char *const replicas[] = { "10.0.0.1:10001", "[::1]:10001" };

static void answer_not_replica(struct grpc_call *call)
{
	call_fail_not_replica(call, replicas, ARRAY_COUNT(replicas));
}

static void fail_with(struct grpc_call *call, const char *reason, const char *key, const char *value)
{
	Google__Rpc__ErrorInfo__MetadataEntry entry = GOOGLE__RPC__ERROR_INFO__METADATA_ENTRY__INIT,
					      *entries[] = { &entry };
	Google__Rpc__ErrorInfo info = GOOGLE__RPC__ERROR_INFO__INIT;

	entry.key = (char *)key;
	entry.value = (char *)value;
	info.reason = (char *)reason;
	info.metadata = entries;
	info.n_metadata = 1;
	grpc_fail(call, GRPC_INTERNAL, &info, "nonsense");
}

static void answer_leader_hint(struct grpc_call *call)
{
	fail_with(call, "proto.system.ErrNotLeader", "LeaderHint", "10.0.0.2:10001");
}

static void answer_invalid_addresses(struct grpc_call *call)
{
	fail_with(call, "proto.system.ErrNotReplica", "Replicas", "[1]");
}

static void answer_invalid_code(struct grpc_call *call)
{
	fail_with(call, "proto.fault.Fault", "Code", "-");
}

static void a_redirect_has_the_replicas_and_the_leader(void **state)
{
	memset(&redirect, 0, sizeof(redirect));
	get(answer_not_replica);
	assert_int_equal(redirect_error, 0);
	assert_int_equal(redirect.replica_count, 2);
	assert_string_equal(redirect.replicas[0], replicas[0]);
	assert_string_equal(redirect.replicas[1], replicas[1]);
	assert_string_equal(redirect.leader, "");
	assert_non_null(strstr(received.text, "10.0.0.1:10001"));
	get(answer_leader_hint);
	assert_int_equal(redirect_error, 0);
	assert_string_equal(redirect.leader, "10.0.0.2:10001");
	get(answer_invalid_addresses);
	assert_int_equal(redirect_error, -EBADMSG);
	assert_string_equal(redirect.leader, "10.0.0.2:10001");
	get(answer_invalid_code);
	assert_int_equal(redirect_error, -ENOENT);
	assert_string_equal(received.text, "nonsense");
}

/* ---- memory ---- */

static unsigned int json_calls_left, fail_at; /* `fail_at`: the allocation that fails; 0: none */
static bool has_failed;

static void *failing_malloc(size_t bytes)
{
	if (json_calls_left == 0 || --json_calls_left > 0)
		return malloc(bytes);
	has_failed = true;
	return NULL;
}

static void answer_not_replica_without_memory(struct grpc_call *call)
{
	json_calls_left = fail_at;
	answer_not_replica(call);
	json_calls_left = 0;
}

/* Each allocation of jansson in the server fails once: all addresses are sent, or none. */
static void out_of_memory_does_not_cut_the_list_of_replicas(void **state)
{
	do {
		has_failed = false;
		fail_at++;
		memset(&redirect, 0, sizeof(redirect));
		get(answer_not_replica_without_memory);
		assert_int_equal(redirect_error, 0);
		assert_int_equal(redirect.replica_count, has_failed ? 0 : 2);
	} while (has_failed);
	assert_true(fail_at > 10);
	assert_string_equal(redirect.replicas[1], replicas[1]);
}

static void answer_cancelled(struct grpc_call *call)
{
	must(grpc_call_time_left_ns(call) != GRPC_NO_DEADLINE);
	grpc_fail(call, GRPC_CANCELLED, NULL, "held");
}

static void client_side_errors_become_faults(void **state)
{
	get_from("127.0.0.1:1", "/test.Status/Get", NS_PER_SEC);
	assert_int_equal(received.code, 506);
	assert_int_equal(received.error, -ECONNREFUSED);
	get(answer_cancelled);
	assert_int_equal(received.error, -ECANCELED);
}

static void must_be_for(int error, int code)
{
	struct grpc_result result = { .code = GRPC_UNAVAILABLE, .error = error };

	fault_from_result(&result, "10.0.0.1:1", &received);
	assert_int_equal(received.code, code);
	assert_non_null(strstr(received.text, "10.0.0.1:1"));
	assert_true(received.resolution[0] != '\0');
}

/* These errors cannot be provoked with a peer on loopback. */
static void each_transport_error_has_a_fault(void **state)
{
	must_be_for(-ECONNRESET, FAULT_CLOSED);
	must_be_for(-EPIPE, FAULT_CLOSED);
	must_be_for(-EHOSTUNREACH, FAULT_NO_ROUTE);
	must_be_for(-ENETUNREACH, FAULT_NO_ROUTE);
	must_be_for(-ETIMEDOUT, FAULT_TIMED_OUT);
	must_be_for(-EACCES, FAULT_NOT_TRUSTED);
	must_be_for(-EPROTO, FAULT_CALL_FAILED);
	assert_int_equal(received.error, -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_received_fault_equals_the_sent_one),
		cmocka_unit_test(a_long_fault_is_received_whole),
		cmocka_unit_test(a_fault_without_a_code_is_received_as_its_text),
		cmocka_unit_test(a_status_without_details_becomes_a_fault),
		cmocka_unit_test(refused_and_unknown_methods_become_faults_with_a_resolution),
		cmocka_unit_test(a_redirect_has_the_replicas_and_the_leader),
		cmocka_unit_test(out_of_memory_does_not_cut_the_list_of_replicas),
		cmocka_unit_test(client_side_errors_become_faults),
		cmocka_unit_test(each_transport_error_has_a_fault),
	};
	struct reactor_options none = { .simulated = false };
	int failed;

	json_set_alloc_funcs(failing_malloc, free);
	sem_init(&done, 0, 0);
	control_start(&none);
	must(on_control(open_both, NULL) == 0);
	failed = cmocka_run_group_tests_name("control status", tests, NULL, NULL);
	on_control(close_both, NULL);
	control_stop();
	return failed;
}
