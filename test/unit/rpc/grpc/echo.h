/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * echo - methods for tests; requests and responses are google.rpc.Status {code, message}.
 *
 *   /test.Echo/Say     returns the request
 *   /test.Echo/Fail    an error with that code and message, with an ErrorInfo
 *   /test.Echo/Hold    answers when held calls are released
 *   /test.Echo/Big     returns a message of `code` bytes
 *   /test.Echo/Who     returns "role component version", as seen by the server
 *   /test.Echo/Admin   as Say, only for admins
 */
#ifndef TEST_UNIT_GRPC_ECHO_H
#define TEST_UNIT_GRPC_ECHO_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "rpc/grpc/grpc.h"

enum { ECHO_HELD_MAX = 4096 };

static struct grpc_call *echo_held[ECHO_HELD_MAX];
static size_t echo_held_count;

static inline void echo_answer(struct grpc_call *call, int32_t code, const char *message)
{
	Google__Rpc__Status status = GOOGLE__RPC__STATUS__INIT;

	status.code = code;
	status.message = (char *)message;
	grpc_reply(call, &status.base);
}

static inline void echo_say(struct grpc_call *call, const ProtobufCMessage *request)
{
	grpc_reply(call, request);
}

static inline void echo_fail(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Google__Rpc__Status *asked = (const Google__Rpc__Status *)request;
	Google__Rpc__ErrorInfo__MetadataEntry entry = GOOGLE__RPC__ERROR_INFO__METADATA_ENTRY__INIT,
					      *entries[] = { &entry };
	Google__Rpc__ErrorInfo info = GOOGLE__RPC__ERROR_INFO__INIT;

	entry.key = (char *)"Code";
	entry.value = (char *)"609";
	info.reason = (char *)"proto.fault.Fault";
	info.domain = (char *)"DAOS";
	info.metadata = entries;
	info.n_metadata = 1;
	grpc_fail(call, (enum grpc_code)asked->code, &info, "%s", asked->message);
}

static inline void echo_hold(struct grpc_call *call, const ProtobufCMessage *request)
{
	must(echo_held_count < ECHO_HELD_MAX);
	echo_held[echo_held_count++] = call;
}

static inline void echo_release(void)
{
	for (size_t i = 0; i < echo_held_count; i++)
		echo_answer(echo_held[i], 0, "released");
	echo_held_count = 0;
}

static inline void echo_big(struct grpc_call *call, const ProtobufCMessage *request)
{
	size_t bytes = (size_t)((const Google__Rpc__Status *)request)->code;
	char *message = malloc(bytes + 1);

	must(message);
	memset(message, 'b', bytes);
	message[bytes] = '\0';
	echo_answer(call, 0, message);
	free(message);
}

static inline void echo_who(struct grpc_call *call, const ProtobufCMessage *request)
{
	const char *component = grpc_call_header(call, GRPC_HEADER_COMPONENT);
	const char *version = grpc_call_header(call, GRPC_HEADER_VERSION);
	char text[256];

	snprintf(text, sizeof(text), "%s %s %s", grpc_role_name(grpc_call_role(call)), component ? component : "-",
		 version ? version : "-");
	echo_answer(call, grpc_call_time_left_ns(call) != GRPC_NO_DEADLINE, text);
}

#define ECHO_ROW(name, roles, fn)                                                                                          \
	{                                                                                                                  \
		"/test.Echo/" name, &google__rpc__status__descriptor, &google__rpc__status__descriptor, roles, fn          \
	}

static const struct grpc_method echo_methods[] = {
	ECHO_ROW("Say", 0, echo_say), ECHO_ROW("Fail", 0, echo_fail), ECHO_ROW("Hold", 0, echo_hold),
	ECHO_ROW("Big", 0, echo_big), ECHO_ROW("Who", 0, echo_who),   ECHO_ROW("Admin", GRPC_ROLE_ADMIN, echo_say),
};

#endif
