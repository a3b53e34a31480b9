/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A configuration is a list of calls:
 *
 *   {"subsystems": [{"subsystem": "bdev", "config": [{"method": "bdev_null_create", "params": {...}}, ...]}, ...]}
 *
 * as save_config writes it. The whole file is read and checked before the first call, so a misspelt method changes nothing.
 * Then the calls run through the same methods as a client's. An entry may be a call or a list of calls.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "data/engine/internal.h"

enum { PATH_TEXT_BYTES_MAX = 128 };

struct config_call {
	const char *method;
	const char *subsystem;
	json_t *entry;			 /* all of it, borrowed */
	const json_t *params;		 /* NULL: none */
	char where[PATH_TEXT_BYTES_MAX]; /* "subsystem \"bdev\", call 3" */
};

struct config {
	char *path;
	json_t *root;
	struct config_call *calls;
	size_t call_count, call_room;
	/* replaying */
	size_t next;
	bool startup;
	bool calling, call_ended;    /* next_call() loops after a call that ends at once; recursion would grow the stack */
	bool under_way;		     /* a call is in flight */
	json_t *failed;		     /* calls that failed; NULL: the first failure ends the replay */
	bool cancelled, freed;	     /* when the call in flight ends, it calls no `done` / frees this configuration */
	struct fathom_fault failure; /* error 0: none yet */
	engine_done_fn done;
	void *done_ctx;
};

static const struct rpc_method *method_of(const char *name)
{
	const struct rpc_method *method;

	for (size_t i = 0; (method = rpc_method_at(i)); i++) {
		if (strcmp(method->name, name) == 0)
			return method;
	}
	return NULL;
}

static int add_call(struct config *config, const char *subsystem, size_t index, const json_t *entry,
		    struct fathom_fault *why)
{
	const json_t *method = json_object_get(entry, "method"), *params = json_object_get(entry, "params"), *value;
	struct config_call *call;
	const char *key;

	if (!json_is_object(entry) || !json_is_string(method))
		return fault(why, -EINVAL, "%s: subsystem \"%s\", call %zu: is not an object with a \"method\"",
			     config->path, subsystem, index + 1);
	json_object_foreach ((json_t *)entry, key, value) {
		if (strcmp(key, "method") != 0 && strcmp(key, "params") != 0)
			return fault(why, -EINVAL,
				     "%s: subsystem \"%s\", call %zu (%.64s): no \"%.64s\" here, only \"params\"",
				     config->path, subsystem, index + 1, json_string_value(method), key);
	}
	if (!method_of(json_string_value(method)))
		return fault(why, -EINVAL, "%s: subsystem \"%s\", call %zu: there is no method \"%.64s\"", config->path,
			     subsystem, index + 1, json_string_value(method));
	if (method_of(json_string_value(method))->states & RPC_CLIENTS_ONLY)
		return fault(
			why, -EINVAL,
			"%s: subsystem \"%s\", call %zu: %s is not allowed in a configuration, which is replayed before the"
			" engine is ready; a client may call it",
			config->path, subsystem, index + 1, json_string_value(method));
	if (params && !json_is_object(params) && !json_is_null(params))
		return fault(why, -EINVAL, "%s: subsystem \"%s\", call %zu (%s): \"params\" is not an object", config->path,
			     subsystem, index + 1, json_string_value(method));
	if (config->call_count == config->call_room) {
		config->call_room = config->call_room ? config->call_room * 2 : 64;
		config->calls = realloc(config->calls, config->call_room * sizeof(*config->calls));
		must(config->calls);
	}
	call = &config->calls[config->call_count++];
	*call = (struct config_call){
		.method = json_string_value(method), .subsystem = subsystem, .entry = (json_t *)entry, .params = params
	};
	snprintf(call->where, sizeof(call->where), "subsystem \"%.64s\", call %zu", subsystem, index + 1);
	return 0;
}

static int add_subsystem(struct config *config, size_t position, const json_t *subsystem, struct fathom_fault *why)
{
	const json_t *name = json_object_get(subsystem, "subsystem"), *calls = json_object_get(subsystem, "config");
	json_t *entry, *inner;
	size_t index, inner_index;
	int error = 0;

	if (!json_is_string(name) || !(json_is_array(calls) || json_is_null(calls)))
		return fault(why, -EINVAL, "%s: subsystems[%zu] is not {\"subsystem\": NAME, \"config\": [CALL, ...]}",
			     config->path, position);
	if (!framework_has_subsystem(json_string_value(name)) && !ignores_subsystem(json_string_value(name)))
		log_warning("%s: there is no subsystem \"%.64s\"; framework_get_subsystems lists them", config->path,
			    json_string_value(name));
	json_array_foreach (calls, index, entry) {
		if (!json_is_array(entry))
			error = add_call(config, json_string_value(name), index, entry, why);
		else
			json_array_foreach (entry, inner_index, inner)
				if (error == 0)
					error = add_call(config, json_string_value(name), index, inner, why);
		if (error)
			return error;
	}
	return 0;
}

static int add_calls(struct config *config, struct fathom_fault *why)
{
	const json_t *subsystems = json_object_get(config->root, "subsystems");
	json_t *subsystem;
	size_t index;

	if (!json_is_array(subsystems))
		return fault(why, -EINVAL, "%s: has no list \"subsystems\" at its top", config->path);
	json_array_foreach (subsystems, index, subsystem) {
		int error = add_subsystem(config, index, subsystem, why);

		if (error)
			return error;
	}
	return 0;
}

int config_load(const char *path, struct config **config_ret, struct fathom_fault *why)
{
	struct config *config;
	json_error_t error;
	FILE *file = fopen(path, "re");
	struct stat status;
	int rc;

	if (!file)
		return fault(why, -errno, "%s: %s", path, strerror(errno));
	if (fstat(fileno(file), &status) == 0 && S_ISDIR(status.st_mode)) {
		fclose(file);
		return fault(why, -EISDIR, "%s: %s", path, strerror(EISDIR));
	}
	config = calloc(1, sizeof(*config));
	must(config);
	config->path = strdup(path);
	must(config->path);
	config->root = json_loadf(file, JSON_REJECT_DUPLICATES, &error);
	fclose(file);
	if (config->root)
		rc = add_calls(config, why);
	else
		rc = fault(why, -EINVAL, "%s: line %d, column %d: %s", path, error.line, error.column, error.text);
	if (rc) {
		config_free(config);
		return rc;
	}
	*config_ret = config;
	return 0;
}

void config_free(struct config *config)
{
	if (!config)
		return;
	if (config->under_way) {
		must(config->cancelled);
		config->freed = true;
		return;
	}
	json_decref(config->root);
	json_decref(config->failed);
	free(config->calls);
	free(config->path);
	free(config);
}

/* A namespace on a volume that is ERRORED must not keep the engine from serving everything else. */
static bool is_for_errored_volume(const struct config_call *call)
{
	const json_t *namespace = json_object_get(call->params, "namespace");
	const char *device = json_string_value(json_object_get(namespace, "bdev_name"));

	return strcmp(call->method, "nvmf_subsystem_add_ns") == 0 && device && engine_volume_is_errored(device);
}

static void next_call(struct config *config);

static void call_done(void *ctx, int code, const char *message, const json_t *result)
{
	struct config *config = ctx;
	const struct config_call *call = &config->calls[config->next];

	must(config->under_way);
	config->under_way = false;
	if (config->freed) {
		config_free(config);
		return;
	}
	if (config->cancelled)
		return;
	if (code && config->failed) {
		log_error("%s: %s (%s): %s; the call is kept for the next start", config->path, call->where, call->method,
			  message);
		json_add(config->failed, json_pack("{s:s, s:O}", "subsystem", call->subsystem, "call", call->entry));
	} else if (code && is_for_errored_volume(call))
		log_error("%s: %s (%s): %s; the volume is ERRORED, so the engine starts without this namespace",
			  config->path, call->where, call->method, message);
	else if (code)
		must(fault(&config->failure, -EINVAL, "%s: %s (%s): %s", config->path, call->where, call->method, message) <
		     0);
	config->next++;
	if (config->calling)
		config->call_ended = true;
	else
		next_call(config);
}

/* Whether the call at `next` belongs to the part in replay. */
static bool is_wanted(const struct config *config)
{
	bool startup_only = (method_of(config->calls[config->next].method)->states & RPC_ALWAYS) == RPC_STARTUP;

	return startup_only == config->startup;
}

static void next_call(struct config *config)
{
	must(!config->calling);
	must(!config->under_way);
	do {
		config->call_ended = false;
		while (config->next < config->call_count && !is_wanted(config))
			config->next++;
		if (config->failure.error || config->next == config->call_count) {
			config->done(config->done_ctx, config->failure.error ? &config->failure : NULL);
			return;
		}
		config->calling = config->under_way = true;
		rpc_call(config->calls[config->next].method, config->calls[config->next].params, call_done, config);
		config->calling = false;
	} while (config->call_ended);
}

void config_collect_failed(struct config *config)
{
	must(!config->failed);
	config->failed = json_made(json_array());
}

json_t *config_failed(const struct config *config)
{
	return config->failed;
}

void config_replay(struct config *config, bool startup, engine_done_fn done, void *ctx)
{
	config->next = 0;
	config->startup = startup;
	config->done = done;
	config->done_ctx = ctx;
	config->failure.error = 0;
	next_call(config);
}

bool config_cancel(struct config *config)
{
	must(!config->cancelled);
	must(!config->calling); /* the caller runs from the reactor's loop, never inside a replayed call */
	config->cancelled = true;
	return config->under_way;
}
