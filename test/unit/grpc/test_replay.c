/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What DAOS's dmg asked its server (dmg-calls.txt), asked of ours with the same headers and bytes. The methods decode the
 * request and know all its fields, and answer with what DAOS's server answered, taken apart and put together again.
 */
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
/* after those */
#include <cmocka.h>

#include <nghttp2/nghttp2.h>

#include "base/bits.h"
#include "base/text.h"
#include "grpc/frame.h"
#include "grpc/grpc.h"
#include "grpc/internal.h"
#include "proto/ctl.pb-c.h"
#include "proto/mgmt.pb-c.h"

#include "../control_thread.h"

enum { MESSAGE_BYTES_MAX = 4096, TEXT_BYTES = 4096, COLUMNS = 7 };

static const char *calls_file;
static struct grpc_server *server;

/* The call under way: as recorded, and as it came back. */
static struct {
	char *column[COLUMNS]; /* path, timeout, status, request, response, message, details */
	uint8_t request[GRPC_PREFIX_BYTES + MESSAGE_BYTES_MAX], response[MESSAGE_BYTES_MAX];
	size_t request_bytes, response_bytes, request_sent;
	struct grpc_message answer;
	char status[16], message[TEXT_BYTES], details[TEXT_BYTES], http[16];
	bool closed;
} now;

/* ---- the server ---- */

/* No field that our definitions do not have: then it comes out as it went in. On the control thread: no cmocka. */
static void must_be_known(const ProtobufCMessage *message, const uint8_t *bytes, size_t count)
{
	uint8_t *packed = malloc(count + 1);

	must(packed);
	must(message->n_unknown_fields == 0);
	/* the empty value of a map's entry is written by Go, and not by protobuf-c: a tag and a length of 0 */
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

	must_be_known(request, now.request + GRPC_PREFIX_BYTES, now.request_bytes - GRPC_PREFIX_BYTES);
	if (strcmp(now.column[2], "0") != 0) {
		uint64_t code;

		must(text_parse_u64(now.column[2], 10, 16, &code) == 0);
		snprintf(text, sizeof(text), "%.1000s", now.column[5]);
		grpc_fail(call, (enum grpc_code)code, NULL, "%s", text);
		return;
	}
	response = protobuf_c_message_unpack(descriptor, NULL, now.response_bytes, now.response);
	must(response);
	must_be_known(response, now.response, now.response_bytes);
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

/* ---- dmg's side ---- */

static ssize_t read_request(nghttp2_session *session, int32_t stream, uint8_t *to, size_t room, uint32_t *flags,
			    nghttp2_data_source *source, void *ctx)
{
	size_t count = min_u64(room, now.request_bytes - now.request_sent);

	memcpy(to, now.request + now.request_sent, count);
	now.request_sent += count;
	if (now.request_sent == now.request_bytes)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)count;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_bytes,
		     const uint8_t *value, size_t value_bytes, uint8_t flags, void *ctx)
{
	if (strcmp((const char *)name, ":status") == 0)
		snprintf(now.http, sizeof(now.http), "%s", (const char *)value);
	if (strcmp((const char *)name, "grpc-status") == 0)
		snprintf(now.status, sizeof(now.status), "%s", (const char *)value);
	if (strcmp((const char *)name, "grpc-message") == 0)
		snprintf(now.message, sizeof(now.message), "%s", (const char *)value);
	return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *data, size_t bytes, void *ctx)
{
	assert_true(grpc_message_take(&now.answer, data, bytes, MESSAGE_BYTES_MAX) <= GRPC_FRAME_WHOLE);
	return 0;
}

static int on_close(nghttp2_session *session, int32_t stream, uint32_t error, void *ctx)
{
	assert_int_equal(error, 0);
	now.closed = true;
	return 0;
}

static void talk(nghttp2_session *session, int fd)
{
	uint8_t in[4096];

	while (!now.closed) {
		const uint8_t *data;
		ssize_t bytes;

		while ((bytes = nghttp2_session_mem_send(session, &data)) > 0)
			assert_int_equal(send(fd, data, (size_t)bytes, MSG_NOSIGNAL), bytes);
		bytes = recv(fd, in, sizeof(in), 0);
		assert_true(bytes > 0);
		assert_int_equal(nghttp2_session_mem_recv(session, in, (size_t)bytes), bytes);
	}
}

static void ask(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_port = htons(grpc_server_port(server)),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	nghttp2_data_provider provider = { .read_callback = read_request };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	nghttp2_session_callbacks *callbacks;
	nghttp2_session *session;
	nghttp2_nv headers[] = {
		header(":method", "POST"),
		header(":scheme", "http"),
		header(":path", now.column[0]),
		header(":authority", "127.0.0.1:10002"),
		header("content-type", "application/grpc"),
		header("user-agent", "grpc-go/1.82.1"),
		header("te", "trailers"),
		header("grpc-timeout", now.column[1]),
		header("x-daos-component", "admin"),
		header("x-daos-version", "2.9.100"),
	};

	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(nghttp2_session_callbacks_new(&callbacks), 0);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
	assert_int_equal(nghttp2_session_client_new(&session, callbacks, NULL), 0);
	nghttp2_session_callbacks_del(callbacks);
	assert_int_equal(nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, NULL, 0), 0);
	assert_true(nghttp2_submit_request(session, NULL, headers, ARRAY_COUNT(headers), &provider, NULL) > 0);
	talk(session, fd);
	nghttp2_session_del(session);
	close(fd);
}

/* ---- the record ---- */

static size_t from_hex(const char *text, uint8_t *to, size_t room)
{
	size_t count = 0;

	for (; strcmp(text, "-") != 0 && text[2 * count]; count++) {
		unsigned int byte;

		assert_true(count < room);
		assert_int_equal(sscanf(text + 2 * count, "%2x", &byte), 1);
		to[count] = (uint8_t)byte;
	}
	return count;
}

/* The next call of the record. False: there is none. */
static bool next(FILE *file)
{
	static char line[65536];
	char *rest = line;

	do {
		if (!fgets(line, sizeof(line), file))
			return false;
	} while (line[0] == '#');
	memset(&now, 0, sizeof(now));
	line[strcspn(line, "\n")] = '\0';
	for (size_t i = 0; i < COLUMNS; i++) {
		now.column[i] = strsep(&rest, "\t");
		assert_non_null(now.column[i]);
	}
	now.request_bytes = from_hex(now.column[3], now.request + GRPC_PREFIX_BYTES, MESSAGE_BYTES_MAX);
	grpc_prefix_write(now.request, (uint32_t)now.request_bytes);
	now.request_bytes += GRPC_PREFIX_BYTES;
	now.response_bytes = from_hex(now.column[4], now.response, MESSAGE_BYTES_MAX);
	return true;
}

static bool is_ours(void)
{
	for (size_t i = 0; i < ARRAY_COUNT(methods); i++) {
		if (strcmp(methods[i].path, now.column[0]) == 0)
			return true;
	}
	return false;
}

static void each_recorded_call_is_answered_as_it_was(void **state)
{
	FILE *file = fopen(calls_file, "r");
	size_t count = 0;

	assert_non_null(file);
	while (next(file)) {
		if (!is_ours())
			continue;
		ask();
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
	assert_true(count >= 15);
}

static void recorded_details_are_understood(void **state)
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
		cmocka_unit_test(each_recorded_call_is_answered_as_it_was),
		cmocka_unit_test(recorded_details_are_understood),
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
