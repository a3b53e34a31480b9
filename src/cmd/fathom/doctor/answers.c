/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * answers - calls the control socket. The first call that is not answered in time ends the looks; calls that need the
 * target's cores come last, on a connection of their own.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "cmd/fathom/doctor/doctor.h"
#include "cmd/fathom/rpc/client.h"

#define ANSWER_SEC 3.0
#define CORES_ANSWER_SEC 2.0

struct asker {
	struct doctor_out *out;
	const char *path;
	struct rpc_client *client;
	json_t *refused; /* { METHOD: why } */
	uint64_t first_look_ms;
	bool spdk;
};

static int open_client(struct asker *asker, double timeout_sec)
{
	const struct rpc_client_options options = { .address = asker->path,
						    .port = RPC_PORT_DEFAULT,
						    .timeout_sec = timeout_sec };
	struct fathom_fault why;
	int rc = rpc_client_open(&options, &asker->client, &why);

	if (rc) {
		asker->client = NULL;
		doctor_put(asker->out, "missing", json_string(why.text));
	}
	return rc;
}

/* Make a call. 0: the target answered, or rejected it. */
static int ask(struct asker *asker, const struct doctor_call *call)
{
	struct fathom_fault why;
	char text[256];
	json_t *result = NULL;
	int rc = rpc_client_call(asker->client, call->method, NULL, &result, &why);

	if (rc == 0) {
		const char *version = json_string_value(json_object_get(result, "version"));

		asker->spdk |= version && strncmp(version, "SPDK", strlen("SPDK")) == 0;
		doctor_put(asker->out, call->key, result);
	} else if (rc == -EREMOTEIO) {
		(void)json_object_set_new(asker->refused, call->method,
					  json_string(rpc_client_error_message(asker->client)));
		rc = 0;
	} else {
		snprintf(text, sizeof(text),
			 rc == -ETIMEDOUT ? "%s was not answered in time" : "%s: the connection was lost", call->method);
		doctor_put(asker->out, call->cores || (call->walks && asker->spdk) ? "cores_silent" : "silent",
			   json_string(text));
	}
	return rc;
}

void doctor_look_answers(struct doctor_out *out, const void *ctx)
{
	const struct doctor_target *target = ctx;
	struct asker asker = { .out = out, .path = target->socket, .refused = json_object() };
	struct doctor_call call;
	bool cores = false;

	if (!target->socket[0]) {
		doctor_put(out, "missing", json_string(target->no_socket));
		return;
	}
	doctor_put(out, "socket", json_string(target->socket));
	doctor_step(out, "connecting to %s", target->socket);
	if (open_client(&asker, ANSWER_SEC) != 0)
		return;
	for (uint32_t i = 0; doctor_call_at(i, &call); i++) {
		if (call.second)
			doctor_wait_look(out, asker.first_look_ms);
		if (call.cores && !cores) {
			rpc_client_close(asker.client);
			if (open_client(&asker, CORES_ANSWER_SEC) != 0)
				return;
			cores = true;
		}
		doctor_step(out, "the call %s", call.method);
		if (ask(&asker, &call) != 0)
			break;
		if (strstr(call.key, "iostat_before"))
			asker.first_look_ms = doctor_elapsed_ms(out);
	}
	doctor_put(out, "rejected", asker.refused);
	rpc_client_close(asker.client);
}
