/* SPDX-License-Identifier: BSD-2-Clause */
/* Methods about the program itself, and helpers for all families of methods. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "data/engine/internal.h"

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

struct get_methods_params {
	bool current, include_aliases;
};

static const struct rpc_param get_methods_fields[] = {
	RPC_PARAM_BOOL("current", get_methods_params, current, false),
	RPC_PARAM_BOOL("include_aliases", get_methods_params, include_aliases, false), /* no aliases exist */
	RPC_PARAM_END,
};

static void rpc_get_methods(struct rpc_request *request, const json_t *params)
{
	struct get_methods_params p = { 0 };
	const struct rpc_method *method;
	json_t *names;

	if (!rpc_params(request, params, get_methods_fields, &p))
		return;
	names = json_made(json_array());
	for (size_t i = 0; (method = rpc_method_at(i)); i++) {
		if (!p.current || (method->states & rpc_get_state()))
			json_add(names, json_string(method->name));
	}
	rpc_reply(request, names);
}

static void spdk_get_version(struct rpc_request *request, const json_t *params)
{
	int major = 0, minor = 0, patch = 0;
	char text[64];
	json_t *version, *fields;

	if (!rpc_params(request, params, NULL, NULL))
		return;
	(void)sscanf(engine_options()->version, "%d.%d.%d", &major, &minor, &patch);
	snprintf(text, sizeof(text), "Fathom v%s", engine_options()->version);
	fields = json_made(json_pack("{s:i, s:i, s:i, s:s}", "major", major, "minor", minor, "patch", patch, "suffix", ""));
	version = json_made(json_object());
	json_put(version, "version", json_string(text));
	json_put(version, "fields", fields);
	rpc_reply(request, version);
}

struct kill_params {
	int sig;
};

static const char *const kill_names[] = { "SIGINT", "SIGTERM", "SIGQUIT", "SIGHUP", "SIGKILL", "SIGUSR1", NULL };
static const int kill_signals[] = { SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGKILL, SIGUSR1 };
static_assert(ARRAY_COUNT(kill_names) == ARRAY_COUNT(kill_signals) + 1, "a signal for each name");

static const struct rpc_param kill_fields[] = {
	RPC_PARAM_ENUM("sig_name", kill_params, sig, true, kill_names),
	RPC_PARAM_END,
};

static void spdk_kill_instance(struct rpc_request *request, const json_t *params)
{
	struct kill_params p = { 0 };

	if (!rpc_params(request, params, kill_fields, &p))
		return;
	/* reply first; the stop runs from a later message, so that the reply can be sent */
	rpc_reply(request, NULL);
	kill(getpid(), kill_signals[p.sig]);
}

static const struct rpc_method methods[] = {
	{ "rpc_get_methods", RPC_ALWAYS, rpc_get_methods },
	{ "spdk_get_version", RPC_ALWAYS, spdk_get_version },
	{ "spdk_kill_instance", RPC_ALWAYS | RPC_CLIENTS_ONLY, spdk_kill_instance },
};

void rpc_app_register(void)
{
	rpc_register(methods, ARRAY_COUNT(methods));
}
