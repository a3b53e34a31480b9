/* SPDX-License-Identifier: BSD-2-Clause */
/* Trace groups and points, switched while it runs. A group's mask is BIT(its index), as in -e 0x3. */
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "data/engine/internal.h"
#include "fathom/trace/trace.h"
#include "base/observe/trace/freeze.h"
#include "base/reactor/reactor.h"

static json_t *hex(uint64_t mask)
{
	char text[20];

	snprintf(text, sizeof(text), "0x%" PRIx64, mask);
	return json_string(text);
}

static bool group_exists(const char *name)
{
	for (unsigned int i = 0; i < trace_group_count(); i++) {
		if (strcmp(trace_group_name(i), name) == 0)
			return true;
	}
	return false;
}

static void no_such_group(struct rpc_request *request, const char *name)
{
	char list[256] = "";
	size_t used = 0;

	for (unsigned int i = 0; i < trace_group_count() && used < sizeof(list); i++)
		used += (size_t)snprintf(list + used, sizeof(list) - used, " %s", trace_group_name(i));
	rpc_error(request, RPC_CODE_INVALID_PARAMETERS, "Invalid parameters: no trace group \"%.64s\"; there are%s", name,
		  list);
}

/* ---- switching ---- */

struct trace_params {
	const char *name;
	uint64_t tpoint_mask;
};

static const struct rpc_param group_fields[] = {
	RPC_PARAM_STRING("name", trace_params, name, true),
	RPC_PARAM_END,
};

static const struct rpc_param mask_fields[] = {
	RPC_PARAM_STRING("name", trace_params, name, true),
	RPC_PARAM_U64("tpoint_mask", trace_params, tpoint_mask, true),
	RPC_PARAM_END,
};

static void switch_points(struct rpc_request *request, const json_t *params, const struct rpc_param *fields,
			  bool all_allowed, bool enable)
{
	struct trace_params p = { .tpoint_mask = UINT64_MAX };

	if (!rpc_params(request, params, fields, &p))
		return;
	if (!group_exists(p.name) && !(all_allowed && strcmp(p.name, "all") == 0))
		no_such_group(request, p.name);
	else if (trace_group_enable(p.name, p.tpoint_mask, enable) < 0)
		no_such_group(request, p.name);
	else
		rpc_reply(request, NULL);
}

static void trace_enable_tpoint_group(struct rpc_request *request, const json_t *params)
{
	switch_points(request, params, group_fields, true, true);
}

static void trace_disable_tpoint_group(struct rpc_request *request, const json_t *params)
{
	switch_points(request, params, group_fields, true, false);
}

static void trace_set_tpoint_mask(struct rpc_request *request, const json_t *params)
{
	switch_points(request, params, mask_fields, false, true);
}

static void trace_clear_tpoint_mask(struct rpc_request *request, const json_t *params)
{
	switch_points(request, params, mask_fields, false, false);
}

static void trace_clear_all(struct rpc_request *request, const json_t *params)
{
	if (!rpc_params(request, params, NULL, NULL))
		return;
	trace_clear();
	rpc_reply(request, NULL);
}

/* ---- filter and slow requests ---- */

struct slow_params {
	const char *object, *state;
	uint64_t us;
};

static const struct rpc_param slow_fields[] = {
	RPC_PARAM_STRING("object", slow_params, object, true),
	RPC_PARAM_STRING("state", slow_params, state, false),
	RPC_PARAM_U64("us", slow_params, us, false),
	RPC_PARAM_END,
};

static void trace_set_slow(struct rpc_request *request, const json_t *params)
{
	struct slow_params p = { .us = UINT64_MAX };
	struct fathom_fault why;

	if (!rpc_params(request, params, slow_fields, &p))
		return;
	if (p.us != UINT64_MAX && p.us > UINT64_MAX / NS_PER_US)
		rpc_error(request, RPC_CODE_INVALID_PARAMETERS, "Invalid parameters: us: longer than time itself");
	else if (trace_slow_set(p.object, p.state, p.us == UINT64_MAX ? p.us : p.us * NS_PER_US, &why) != 0)
		rpc_error(request, RPC_CODE_INVALID_PARAMETERS, "Invalid parameters: %s", why.text);
	else
		rpc_reply(request, NULL);
}

struct filter_params {
	const char *owner;
};

static const struct rpc_param filter_fields[] = {
	RPC_PARAM_STRING("owner", filter_params, owner, false),
	RPC_PARAM_END,
};

static void trace_set_filter(struct rpc_request *request, const json_t *params)
{
	struct filter_params p = { 0 };

	if (!rpc_params(request, params, filter_fields, &p))
		return;
	trace_filter_set(p.owner);
	rpc_reply(request, NULL);
}

/* ---- queries ---- */

/* Groups with at least one point enabled. */
static json_t *enabled_groups(void)
{
	uint64_t mask = 0;

	for (unsigned int i = 0; i < trace_group_count(); i++)
		mask |= trace_group_enabled_points(i) ? BIT(i) : 0;
	return hex(mask);
}

static void trace_get_info(struct rpc_request *request, const json_t *params)
{
	json_t *info;

	if (!rpc_params(request, params, NULL, NULL))
		return;
	info = json_made(json_object());
	json_put(info, "tpoint_shm_path", json_string(trace_path()));
	json_put(info, "tpoint_group_mask", enabled_groups());
	if (trace_filter_text()[0])
		json_put(info, "owner_filter", json_string(trace_filter_text()));
	for (unsigned int i = 0; i < trace_group_count(); i++) {
		json_t *group = json_made(json_object());

		json_put(group, "mask", hex(BIT(i)));
		json_put(group, "tpoint_mask", hex(trace_group_enabled_points(i)));
		json_put(info, trace_group_name(i), group);
	}
	rpc_reply(request, info);
}

/* Names as in the trace file, in upper case as in SPDK. */
static json_t *point_json(const struct trace_point_info *info)
{
	json_t *point = json_made(json_object());
	char name[128];
	size_t i;

	for (i = 0; info->name[i] && i < sizeof(name) - 1; i++)
		name[i] = info->name[i] >= 'a' && info->name[i] <= 'z' ? (char)(info->name[i] - 'a' + 'A') : info->name[i];
	name[i] = '\0';
	json_put(point, "name", json_string(name));
	json_put(point, "tpoint_id", json_integer(info->index_in_group));
	json_put(point, "enabled", json_boolean(info->enabled));
	return point;
}

static void trace_get_tpoint_group_mask(struct rpc_request *request, const json_t *params)
{
	struct trace_point_info info;
	json_t *result;

	if (!rpc_params(request, params, NULL, NULL))
		return;
	result = json_made(json_object());
	json_put(result, "tpoint_group_mask", enabled_groups());
	for (unsigned int i = 0; i < trace_group_count(); i++) {
		json_t *group = json_made(json_object()), *points = json_made(json_array());

		for (unsigned int n = 0; trace_group_point(i, n, &info); n++)
			json_add(points, point_json(&info));
		json_put(group, "enabled", json_boolean(trace_group_enabled_points(i) != 0));
		json_put(group, "mask", hex(BIT(i)));
		json_put(group, "tpoint_mask", hex(trace_group_enabled_points(i)));
		json_put(group, "tpoints", points);
		json_put(result, trace_group_name(i), group);
	}
	rpc_reply(request, result);
}

/* ---- a copy of the file ---- */

/* A separate pthread copies the file, so no reactor waits for the disk. */
static struct freeze {
	pthread_t pthread;
	struct rpc_request *request; /* NULL: no copy is in progress */
	char *path, *reason;	     /* NULL: not given */
	bool force, joined;
	char made[PATH_MAX];
	int rc;
	struct fathom_fault why;
} freeze;

static void freeze_done(void *unused)
{
	struct rpc_request *request = freeze.request;
	json_t *result;

	must(request);
	must(freeze.joined || pthread_join(freeze.pthread, NULL) == 0);
	freeze.request = NULL;
	freeze.joined = false;
	free(freeze.path);
	free(freeze.reason);
	if (freeze.rc) {
		rpc_error_fault(request, RPC_CODE_INTERNAL, &freeze.why);
		return;
	}
	result = json_made(json_object());
	json_put(result, "path", json_string(freeze.made));
	rpc_reply(request, result);
}

static void *freeze_main(void *unused)
{
	freeze.rc = trace_freeze(freeze.path, freeze.force, freeze.reason, freeze.made, sizeof(freeze.made), &freeze.why);
	thread_send_msg(thread_control(), freeze_done, NULL);
	return NULL;
}

void rpc_trace_finish(void)
{
	/* after the join the message to freeze_done() has been sent */
	if (freeze.request && !freeze.joined) {
		must(pthread_join(freeze.pthread, NULL) == 0);
		freeze.joined = true;
	}
}

struct freeze_params {
	const char *path, *reason;
	bool force;
};

static const struct rpc_param freeze_fields[] = {
	RPC_PARAM_STRING("path", freeze_params, path, false),
	RPC_PARAM_STRING("reason", freeze_params, reason, false),
	RPC_PARAM_BOOL("force", freeze_params, force, false),
	RPC_PARAM_END,
};

static void trace_freeze_file(struct rpc_request *request, const json_t *params)
{
	struct freeze_params p = { 0 };
	sigset_t all, before;
	int rc;

	if (!rpc_params(request, params, freeze_fields, &p))
		return;
	if (p.path && p.path[0] != '/') {
		rpc_error(request, RPC_CODE_INVALID_PARAMETERS, "Invalid parameters: path: begins with /");
		return;
	}
	if (freeze.request) {
		rpc_error(request, RPC_CODE_INTERNAL, "the trace is being frozen already; ask again when that has ended");
		return;
	}
	freeze.request = request;
	freeze.force = p.force;
	freeze.path = p.path ? strdup(p.path) : NULL;
	freeze.reason = p.reason ? strdup(p.reason) : NULL;
	must(!p.path || freeze.path);
	must(!p.reason || freeze.reason);
	/* all signals are blocked in the pthread */
	sigfillset(&all);
	must(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
	rc = pthread_create(&freeze.pthread, NULL, freeze_main, NULL);
	must(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
	if (rc) {
		freeze.request = NULL;
		free(freeze.path);
		free(freeze.reason);
		rpc_error(request, RPC_CODE_INTERNAL, "no thread can be started for it: %s", strerror(rc));
	}
}

static const struct rpc_method methods[] = {
	{ "trace_enable_tpoint_group", RPC_ALWAYS, trace_enable_tpoint_group },
	{ "trace_disable_tpoint_group", RPC_ALWAYS, trace_disable_tpoint_group },
	{ "trace_set_tpoint_mask", RPC_ALWAYS, trace_set_tpoint_mask },
	{ "trace_clear_tpoint_mask", RPC_ALWAYS, trace_clear_tpoint_mask },
	{ "trace_get_tpoint_group_mask", RPC_ALWAYS, trace_get_tpoint_group_mask },
	{ "trace_get_info", RPC_ALWAYS, trace_get_info },
	{ "trace_clear", RPC_ALWAYS, trace_clear_all },
	{ "trace_freeze", RPC_ALWAYS | RPC_CLIENTS_ONLY, trace_freeze_file },
	{ "trace_set_slow", RPC_ALWAYS, trace_set_slow },
	{ "trace_set_filter", RPC_ALWAYS, trace_set_filter },
};

void rpc_trace_register(void)
{
	rpc_register(methods, ARRAY_COUNT(methods));
}
