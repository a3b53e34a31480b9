/* SPDX-License-Identifier: BSD-2-Clause */
/* FaultInject: the rules of fault injection of this server. */
#include <string.h>

#include "base/bits.h"
#include "base/inject/inject.h"
#include "base/log.h"
#include "base/text.h"
#include "control/fault/fault.h"
#include "control/server/host/host.h"
#include "control/status/status.h"
#include "rpc/proto/fathom.pb-c.h"

enum { CLEAR_BYTES_MAX = 1024 };

/* Of points separated by blanks, or of all. `apply` false: only check the names. */
static int clear_points(const char *names, bool apply, struct fathom_fault *why)
{
	char copy[CLEAR_BYTES_MAX], *at = copy, *name;
	enum inject_point point;
	struct fathom_fault reason;

	if (text_copy(copy, sizeof(copy), names) != 0)
		return fault_injection_rule(why, "the names of points are too long");
	while ((name = strsep(&at, " "))) {
		if (!*name)
			continue;
		if (strcmp(name, "all") == 0 && apply)
			inject_clear_all();
		if (strcmp(name, "all") == 0)
			continue;
		if (inject_find(name, &point, &reason) != 0)
			return fault_injection_rule(why, reason.text);
		if (apply)
			inject_clear(point);
	}
	return 0;
}

int injection_change(const char *clear, const char *arm, struct fathom_fault *why)
{
	struct fathom_fault reason;
	int error;

	if (!inject_is_built())
		return fault_injection_absent(why);
	error = clear_points(clear, false, why);
	if (!error && inject_check_texts(arm, &reason) != 0)
		error = fault_injection_rule(why, reason.text);
	if (error)
		return error;
	must(clear_points(clear, true, why) == 0);
	must(inject_arm_texts(arm, why) == 0);
	return 0;
}

static Fathom__InjectionPoint *point_message(enum inject_point point, struct arena *arena)
{
	Fathom__InjectionPoint *message = arena_message(arena, fathom__injection_point, Fathom__InjectionPoint);
	struct inject_status status;

	inject_read(point, &status);
	message->name = (char *)status.name;
	message->at = (char *)status.text;
	message->actions = arena_take(arena, INJECT_ACTIONS * sizeof(*message->actions));
	for (unsigned int action = 0; action < INJECT_ACTIONS; action++) {
		if (status.may & BIT(action))
			message->actions[message->n_actions++] = (char *)inject_action_name((enum inject_action)action);
	}
	if (status.is_armed) {
		message->rule = arena_take(arena, INJECT_RULE_BYTES);
		(void)inject_rule_text(&status.rule, message->rule); /* returns it */
		message->armed_ns = status.armed_ns;
	}
	message->passed = status.passed;
	message->fired = status.fired;
	message->held = status.held;
	message->fired_ns = status.fired_ns;
	return message;
}

void call_fault_inject(struct grpc_call *call, const ProtobufCMessage *message)
{
	const Fathom__FaultInjectReq *request = (const Fathom__FaultInjectReq *)message;
	Fathom__FaultInjectResp answer = FATHOM__FAULT_INJECT_RESP__INIT;
	struct server *server = server_of(call);
	struct arena arena = { 0 };
	char who[GRPC_WHO_BYTES];
	struct fathom_fault why;

	if (!server_is_addressed(server, call, request->sys))
		return;
	if (injection_change(request->clear, request->arm, &why) != 0) {
		call_fail(call, &why);
		return;
	}
	if (*request->arm || *request->clear)
		log_warning("rules of fault injection were changed by %s: clear \"%s\", arm \"%s\"",
			    grpc_call_who(call, who), request->clear, request->arm);
	answer.points = arena_take(&arena, INJECT_POINTS * sizeof(*answer.points));
	for (unsigned int point = 0; point < INJECT_POINTS; point++)
		answer.points[answer.n_points++] = point_message((enum inject_point)point, &arena);
	grpc_reply(call, &answer.base);
	arena_free(&arena);
}
