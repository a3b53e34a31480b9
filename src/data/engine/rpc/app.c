/* SPDX-License-Identifier: BSD-2-Clause */
/* Methods about the program itself, and helpers for all families of methods. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "data/engine/internal.h"
#include "data/engine/methods.gen.h"

json_t *json_text(const char *text)
{
	json_t *value = json_string(text);
	char plain[256];
	size_t i;

	if (value)
		return value;
	for (i = 0; text[i] && i < sizeof(plain) - 1; i++)
		plain[i] = (text[i] & 0x80) ? '?' : text[i];
	plain[i] = '\0';
	return json_made(json_string(plain));
}

void rpc_error_errno(struct rpc_request *request, int error, const char *what)
{
	must(error < 0);
	rpc_error(request, error, "%s: %s", strerror(-error), what);
}

void config_add(json_t *calls, const char *method, json_t *params)
{
	json_t *call = json_made(json_object());

	json_put(call, "method", json_string(method));
	if (params)
		json_put(call, "params", params);
	json_add(calls, call);
}

void method_rpc_get_methods(struct rpc_request *request, const struct rpc_get_methods_params *p)
{
	json_t *names = json_made(json_array());
	const struct rpc_method *method;

	for (size_t i = 0; (method = rpc_method_at(i)); i++) {
		if (!p->current || (method->states & rpc_get_state()))
			json_add(names, json_string(method->name));
	}
	rpc_reply(request, names);
}

void method_spdk_get_version(struct rpc_request *request)
{
	int major = 0, minor = 0, patch = 0;
	char text[64];
	json_t *version, *fields;

	(void)sscanf(engine_options()->version, "%d.%d.%d", &major, &minor, &patch);
	snprintf(text, sizeof(text), "Fathom v%s", engine_options()->version);
	fields = json_made(json_pack("{s:i, s:i, s:i, s:s}", "major", major, "minor", minor, "patch", patch, "suffix", ""));
	version = json_made(json_object());
	json_put(version, "version", json_string(text));
	json_put(version, "fields", fields);
	rpc_reply(request, version);
}

void method_spdk_kill_instance(struct rpc_request *request, const struct spdk_kill_instance_params *p)
{
	static const int signals[] = {
		[RPC_SIGNAL_SIGINT] = SIGINT, [RPC_SIGNAL_SIGTERM] = SIGTERM, [RPC_SIGNAL_SIGQUIT] = SIGQUIT,
		[RPC_SIGNAL_SIGHUP] = SIGHUP, [RPC_SIGNAL_SIGKILL] = SIGKILL, [RPC_SIGNAL_SIGUSR1] = SIGUSR1,
	};

	must((size_t)p->sig_name < ARRAY_COUNT(signals));
	/* reply first; the stop runs from a later message, so that the reply can be sent */
	rpc_reply(request, NULL);
	kill(getpid(), signals[p->sig_name]);
}
