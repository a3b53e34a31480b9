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
#define CORES_ANSWER_SEC 3.0

enum { SUBSYSTEMS_MAX = 32 };

struct asker {
	struct doctor_out *out;
	const char *path;
	struct rpc_client *client;
	json_t *refused;    /* { METHOD: why } */
	json_t *subsystems; /* the answer that lists them; NULL: none */
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

/* Make a call. 0: the target answered (`*result_ret`, which the caller owns), or rejected it (NULL). */
static int ask(struct asker *asker, const struct doctor_call *call, const json_t *params, json_t **result_ret)
{
	struct fathom_fault why;
	char text[256];
	int rc;

	*result_ret = NULL;
	rc = rpc_client_call(asker->client, call->method, params, result_ret, &why);
	if (rc == 0) {
		const char *version = json_string_value(json_object_get(*result_ret, "version"));

		must(*result_ret);
		asker->spdk |= version && strncmp(version, "SPDK", strlen("SPDK")) == 0;
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

/* The connections of each subsystem: { NQN: [ ... ] }. False: the target does not answer any more. */
static bool ask_connections(struct asker *asker, const char *key)
{
	const struct doctor_call call = { .key = key, .method = "nvmf_subsystem_get_qpairs", .cores = true };
	json_t *all = json_object(), *params, *result;
	const json_t *row;
	size_t i;

	doctor_step(asker->out, "the call %s", call.method);
	json_array_foreach (asker->subsystems, i, row) {
		const char *nqn = json_string_value(json_object_get(row, "nqn"));
		int rc;

		if (i >= SUBSYSTEMS_MAX || !nqn || !json_object_get(row, "namespaces"))
			continue; /* that of discovery has none */
		params = json_pack("{s:s}", "nqn", nqn);
		rc = ask(asker, &call, params, &result);
		json_decref(params);
		if (rc) {
			json_decref(all);
			return false;
		}
		if (result)
			(void)json_object_set_new(all, nqn, result);
	}
	doctor_put(asker->out, key, all);
	return true;
}

static void look_at_connections(struct asker *asker)
{
	uint64_t since_ms = doctor_elapsed_ms(asker->out);

	if (json_array_size(asker->subsystems) == 0 || !ask_connections(asker, "qpairs_before"))
		return;
	doctor_wait_look(asker->out, since_ms);
	if (ask_connections(asker, "qpairs"))
		doctor_put(asker->out, "qpairs_ms", json_integer((json_int_t)(doctor_elapsed_ms(asker->out) - since_ms)));
}

/* Report the answer, and keep what the calls for connections need. */
static void take(struct asker *asker, const struct doctor_call *call, json_t *result)
{
	if (result && strcmp(call->key, "subsystems") == 0)
		asker->subsystems = json_incref(result);
	doctor_put(asker->out, call->key, result);
}

void doctor_look_answers(struct doctor_out *out, const void *ctx)
{
	const struct doctor_target *target = ctx;
	struct asker asker = { .out = out, .path = target->socket, .refused = json_object() };
	struct doctor_call call;
	bool cores = false, answers = true;
	json_t *result;

	if (!target->socket[0]) {
		doctor_put(out, "missing", json_string(target->no_socket));
		return;
	}
	doctor_put(out, "socket", json_string(target->socket));
	doctor_step(out, "connecting to %s", target->socket);
	if (open_client(&asker, ANSWER_SEC) != 0)
		return;
	for (uint32_t i = 0; answers && doctor_call_at(i, &call); i++) {
		if (call.second)
			doctor_wait_look(out, asker.first_look_ms);
		if (call.cores && !cores) {
			rpc_client_close(asker.client);
			if (open_client(&asker, CORES_ANSWER_SEC) != 0)
				return;
			cores = true;
		}
		doctor_step(out, "the call %s", call.method);
		answers = ask(&asker, &call, NULL, &result) == 0;
		take(&asker, &call, result);
		if (strstr(call.key, "iostat_before"))
			asker.first_look_ms = doctor_elapsed_ms(out);
	}
	if (answers)
		look_at_connections(&asker);
	doctor_put(out, "rejected", asker.refused);
	json_decref(asker.subsystems);
	rpc_client_close(asker.client);
}
