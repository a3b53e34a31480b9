/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dmg_calls - recorded calls of DAOS's dmg (dmg-calls.txt): reads the record and repeats a call with the same headers and
 * bytes. Include cmocka.h and control_thread.h first.
 */
#ifndef TEST_UNIT_GRPC_DMG_CALLS_H
#define TEST_UNIT_GRPC_DMG_CALLS_H

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <nghttp2/nghttp2.h>

#include "base/bits.h"
#include "rpc/grpc/frame.h"
#include "rpc/grpc/grpc.h"
#include "rpc/grpc/internal.h"

enum { MESSAGE_BYTES_MAX = 4096, TEXT_BYTES = 4096, COLUMNS = 7 };

/* The current call: as recorded, and the answer received. */
static struct {
	char *column[COLUMNS]; /* path, timeout, status, request, response, message, details */
	uint8_t request[GRPC_PREFIX_BYTES + MESSAGE_BYTES_MAX], response[MESSAGE_BYTES_MAX];
	size_t request_bytes, response_bytes, request_sent;
	struct grpc_message answer;
	char status[16], message[TEXT_BYTES], details[TEXT_BYTES], http[16];
	bool closed;
} now;

/* ---- the client, in place of dmg ---- */

static inline ssize_t read_request(nghttp2_session *session, int32_t stream, uint8_t *to, size_t room, uint32_t *flags,
				   nghttp2_data_source *source, void *ctx)
{
	size_t count = min_u64(room, now.request_bytes - now.request_sent);

	memcpy(to, now.request + now.request_sent, count);
	now.request_sent += count;
	if (now.request_sent == now.request_bytes)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)count;
}

static inline int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_bytes,
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

static inline int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *data, size_t bytes,
			  void *ctx)
{
	assert_true(grpc_message_take(&now.answer, data, bytes, MESSAGE_BYTES_MAX) <= GRPC_FRAME_WHOLE);
	return 0;
}

static inline int on_close(nghttp2_session *session, int32_t stream, uint32_t error, void *ctx)
{
	assert_int_equal(error, 0);
	now.closed = true;
	return 0;
}

static inline void talk(nghttp2_session *session, int fd)
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

/* Make the call in `now` to the server at `port`. */
static inline void dmg_ask(uint16_t port)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_port = htons(port),
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

static inline size_t from_hex(const char *text, uint8_t *to, size_t room)
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

/* Read the next call of the record. False: no more calls. */
static inline bool next(FILE *file)
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

#endif
