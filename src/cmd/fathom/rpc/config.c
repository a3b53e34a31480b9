/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * config - configurations: composed from the engine's configuration of each subsystem, and loaded as calls. Calls that the
 * engine does not accept yet wait for framework_start_init, which is sent after the first pass. Calls that it no longer
 * accepts are skipped.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/fathom/rpc/client.h"

static void print_config(const json_t *config, const json_t *params)
{
	const json_t *indent = json_object_get(params, "indent");
	char *text = rpc_json_text(config, indent ? (int)json_integer_value(indent) : 2);

	printf("%s\n", text);
	free(text);
}

static int get_config(struct rpc_client *client, const char *subsystem, const json_t *params, json_t **config_ret,
		      struct fathom_fault *why)
{
	json_t *query = json_object(), *calls = NULL;
	int error;

	json_object_set_new(query, "name", json_string(subsystem));
	json_object_set(query, "with_batches", json_object_get(params, "with_batches"));
	error = rpc_client_call(client, "framework_get_config", query, &calls, why);
	json_decref(query);
	if (error)
		return error;
	*config_ret = json_object();
	json_object_set_new(*config_ret, "subsystem", json_string(subsystem));
	json_object_set_new(*config_ret, "config", calls);
	return 0;
}

/* ---- selecting subsystems ---- */

static const json_t *find_subsystem_by_name(const json_t *subsystems, const char *name)
{
	json_t *subsystem;
	size_t i;

	json_array_foreach ((json_t *)subsystems, i, subsystem) {
		const char *its = json_string_value(json_object_get(subsystem, "subsystem"));

		if (its && strcmp(its, name) == 0)
			return subsystem;
	}
	return NULL;
}

/* Add `name` and its dependencies to the set `wanted`. -ENOENT: no such subsystem. */
static int add_wanted_subsystem(const json_t *subsystems, const char *name, json_t *wanted, struct fathom_fault *why)
{
	const json_t *subsystem = find_subsystem_by_name(subsystems, name);
	json_t *needed;
	size_t i;

	if (!subsystem)
		return fault(why, -ENOENT, "there is no subsystem \"%s\"; framework_get_subsystems lists them", name);
	if (json_object_get(wanted, name))
		return 0;
	json_object_set_new(wanted, name, json_true());
	json_array_foreach (json_object_get(subsystem, "depends_on"), i, needed) {
		int error = json_is_string(needed)
				    ? add_wanted_subsystem(subsystems, json_string_value(needed), wanted, why)
				    : 0;

		if (error)
			return error;
	}
	return 0;
}

static int add_listed_subsystems(const json_t *subsystems, const char *list, json_t *wanted, struct fathom_fault *why)
{
	char *copy = strdup(list), *save = NULL;
	int error = 0;

	must(copy);
	for (char *name = strtok_r(copy, ",", &save); name && error == 0; name = strtok_r(NULL, ",", &save))
		error = add_wanted_subsystem(subsystems, name, wanted, why);
	free(copy);
	return error;
}

int rpc_save_config(struct rpc_client *client, const json_t *params, struct fathom_fault *why)
{
	const char *listed = json_string_value(json_object_get(params, "subsystems"));
	json_t *subsystems = NULL, *subsystem, *wanted = json_object(), *config = json_object(), *parts = json_array();
	size_t i;
	int error = rpc_client_call(client, "framework_get_subsystems", NULL, &subsystems, why);

	if (error == 0 && listed)
		error = add_listed_subsystems(subsystems, listed, wanted, why);
	json_object_set_new(config, "subsystems", parts);
	json_array_foreach (subsystems, i, subsystem) {
		const char *name = json_string_value(json_object_get(subsystem, "subsystem"));
		json_t *part = NULL;

		if (error || !name || (listed && !json_object_get(wanted, name)))
			continue;
		error = get_config(client, name, params, &part, why);
		if (error == 0)
			json_array_append_new(parts, part);
	}
	if (error == 0 && !rpc_client_is_dry(client))
		print_config(config, params);
	json_decref(subsystems);
	json_decref(wanted);
	json_decref(config);
	return error;
}

int rpc_save_subsystem_config(struct rpc_client *client, const json_t *params, struct fathom_fault *why)
{
	json_t *config = NULL;
	int error = get_config(client, json_string_value(json_object_get(params, "name")), params, &config, why);

	if (error == 0 && !rpc_client_is_dry(client))
		print_config(config, params);
	json_decref(config);
	return error;
}

/* ---- loading ---- */

/* Read the configuration from a file, from the argument itself, or from standard input. */
static int read_config(const json_t *params, json_t **config_ret, struct fathom_fault *why)
{
	const char *source = json_string_value(json_object_get(params, "json_conf"));
	const char *name = !source ? "standard input" : access(source, F_OK) == 0 ? source : "--json-conf";
	json_error_t error;
	struct stat status;

	if (name == source && stat(source, &status) == 0 && S_ISDIR(status.st_mode))
		return fault(why, -EISDIR, "%s: %s", source, strerror(EISDIR));
	/* a configuration begins with "{", so this argument is the path of a missing file */
	if (source && name != source && source[strspn(source, " \t\r\n")] != '{')
		return fault(why, -ENOENT, "%.200s: %s", source, strerror(ENOENT));
	if (!source)
		*config_ret = json_loadf(stdin, JSON_REJECT_DUPLICATES, &error);
	else if (name == source)
		*config_ret = json_load_file(source, JSON_REJECT_DUPLICATES, &error);
	else
		*config_ret = json_loads(source, JSON_REJECT_DUPLICATES, &error);
	if (!*config_ret)
		return fault(why, -EINVAL, "%s: line %d, column %d: %s", name, error.line, error.column, error.text);
	return 0;
}

static int get_methods(struct rpc_client *client, bool current, const json_t *params, json_t **methods_ret,
		       struct fathom_fault *why)
{
	json_t *query = json_object();
	int error;

	json_object_set_new(query, "current", json_boolean(current));
	json_object_set_new(query, "include_aliases",
			    json_boolean(json_is_true(json_object_get(params, "include_aliases"))));
	error = rpc_client_call(client, "rpc_get_methods", query, methods_ret, why);
	json_decref(query);
	return error;
}

static bool is_listed_method(const json_t *methods, const char *name)
{
	json_t *method;
	size_t i;

	json_array_foreach ((json_t *)methods, i, method) {
		if (json_is_string(method) && strcmp(json_string_value(method), name) == 0)
			return true;
	}
	return false;
}

/* Check that every element of the list is {"method": a method of the engine, ...}. */
static int check_config_calls(const json_t *calls, const json_t *methods, const char *subsystem, struct fathom_fault *why)
{
	json_t *call;
	size_t i;

	json_array_foreach ((json_t *)calls, i, call) {
		const char *method = json_string_value(json_object_get(call, "method"));
		int error = json_is_array(call) ? check_config_calls(call, methods, subsystem, why) : 0;

		if (error)
			return error;
		if (!json_is_array(call) && !method)
			return fault(why, -EINVAL, "subsystem \"%s\", call %zu has no \"method\"", subsystem, i + 1);
		if (!json_is_array(call) && !is_listed_method(methods, method))
			return fault(why, -EINVAL, "subsystem \"%s\", call %zu: the engine has no method \"%s\"", subsystem,
				     i + 1, method);
	}
	return 0;
}

static const char *subsystem_name(const json_t *subsystem)
{
	const char *name = json_string_value(json_object_get(subsystem, "subsystem"));

	return name ? name : "(unnamed)";
}

/* Can all of the call's methods be called now? */
static bool is_call_allowed(const json_t *call, const json_t *current)
{
	json_t *inner;
	size_t i;

	if (!json_is_array(call))
		return is_listed_method(current, json_string_value(json_object_get(call, "method")));
	json_array_foreach ((json_t *)call, i, inner) {
		if (!is_call_allowed(inner, current))
			return false;
	}
	return true;
}

static int make_config_call(struct rpc_client *client, const json_t *call, struct fathom_fault *why)
{
	json_t *inner, *result = NULL;
	size_t i;
	int error = 0;

	if (!json_is_array(call)) {
		error = rpc_client_call(client, json_string_value(json_object_get(call, "method")),
					json_object_get(call, "params"), &result, why);
		json_decref(result);
		return error;
	}
	json_array_foreach ((json_t *)call, i, inner) {
		if (error == 0)
			error = make_config_call(client, inner, why);
	}
	return error;
}

/* Make the calls that are possible now, and remove them from the list. */
static int make_allowed_calls(struct rpc_client *client, json_t *calls, const json_t *current, bool *any_ret,
			      struct fathom_fault *why)
{
	for (size_t i = 0; i < json_array_size(calls);) {
		const json_t *call = json_array_get(calls, i);
		int error;

		if (!is_call_allowed(call, current)) {
			i++;
			continue;
		}
		error = make_config_call(client, call, why);
		if (error)
			return error;
		*any_ret = true;
		json_array_remove(calls, i);
	}
	return 0;
}

/* One pass over all subsystems. `*any_ret`: a call was possible. `*left_ret`: number of remaining calls. */
static int load_once(struct rpc_client *client, json_t *subsystems, const json_t *params, bool *any_ret, size_t *left_ret,
		     struct fathom_fault *why)
{
	json_t *current = NULL, *subsystem, *result = NULL;
	size_t i;
	int error = get_methods(client, true, params, &current, why);

	*any_ret = false;
	*left_ret = 0;
	json_array_foreach (subsystems, i, subsystem) {
		json_t *calls = json_object_get(subsystem, "config");

		if (error == 0)
			error = make_allowed_calls(client, calls, current, any_ret, why);
		*left_ret += json_array_size(calls);
	}
	if (error == 0 && is_listed_method(current, "framework_start_init")) {
		error = rpc_client_call(client, "framework_start_init", NULL, &result, why);
		json_decref(result);
		*any_ret = true;
	}
	json_decref(current);
	return error;
}

static int load_subsystems(struct rpc_client *client, json_t *subsystems, const json_t *params, struct fathom_fault *why)
{
	json_t *methods = NULL, *subsystem;
	size_t i, left = 0;
	bool any = true;
	int error = get_methods(client, false, params, &methods, why);

	json_array_foreach (subsystems, i, subsystem) {
		if (error == 0)
			error = check_config_calls(json_object_get(subsystem, "config"), methods, subsystem_name(subsystem),
						   why);
	}
	json_decref(methods);
	do {
		if (error == 0)
			error = load_once(client, subsystems, params, &any, &left, why);
	} while (error == 0 && any && left > 0);
	if (error == 0 && left > 0)
		printf("Some configs were skipped because the RPC state that can call them passed over.\n");
	return error;
}

int rpc_load_config(struct rpc_client *client, const json_t *params, struct fathom_fault *why)
{
	json_t *config, *subsystems;
	int error = read_config(params, &config, why);

	if (error)
		return error;
	subsystems = json_object_get(config, "subsystems");
	if (json_is_array(subsystems))
		error = load_subsystems(client, subsystems, params, why);
	else
		error = fault(why, -EINVAL, "the configuration has no list \"subsystems\" at its top");
	json_decref(config);
	return error;
}

int rpc_load_subsystem_config(struct rpc_client *client, const json_t *params, struct fathom_fault *why)
{
	json_t *config, *current = NULL, *methods = NULL, *calls;
	bool any;
	int error = read_config(params, &config, why);

	if (error)
		return error;
	calls = json_object_get(config, "config");
	error = get_methods(client, false, params, &methods, why);
	if (error == 0)
		error = check_config_calls(calls, methods, subsystem_name(config), why);
	if (error == 0)
		error = get_methods(client, true, params, &current, why);
	if (error == 0)
		error = make_allowed_calls(client, calls, current, &any, why);
	if (error == 0 && json_array_size(calls) > 0)
		printf("Some configs were skipped because they cannot be called in the current RPC state.\n");
	json_decref(methods);
	json_decref(current);
	json_decref(config);
	return error;
}
