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
#include "base/signals.h"
#include "data/engine/internal.h"
#include "data/engine/methods.gen.h"
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

static void reply_no_group(struct rpc_request *request, const char *name)
{
	char list[256] = "";
	size_t used = 0;

	for (unsigned int i = 0; i < trace_group_count() && used < sizeof(list); i++)
		used += (size_t)snprintf(list + used, sizeof(list) - used, " %s", trace_group_name(i));
	rpc_error(request, RPC_CODE_INVALID_PARAMETERS, "Invalid parameters: no trace group \"%.64s\"; there are%s", name,
		  list);
}

/* ---- switching ---- */

/* `exists`: whether `group` is allowed here. */
static void switch_points(struct rpc_request *request, bool exists, const char *group, uint64_t mask, bool enable)
{
	if (!exists || trace_group_enable(group, mask, enable) < 0)
		reply_no_group(request, group);
	else
		rpc_reply(request, NULL);
}

static bool is_group_or_all(const char *name)
{
	return group_exists(name) || strcmp(name, "all") == 0;
}

void method_trace_enable_tpoint_group(struct rpc_request *request, const struct trace_enable_tpoint_group_params *p)
{
	switch_points(request, is_group_or_all(p->name), p->name, UINT64_MAX, true);
}

void method_trace_disable_tpoint_group(struct rpc_request *request, const struct trace_disable_tpoint_group_params *p)
{
	switch_points(request, is_group_or_all(p->name), p->name, UINT64_MAX, false);
}

/* Not for "all": points are numbered within a group. */
void method_trace_set_tpoint_mask(struct rpc_request *request, const struct trace_set_tpoint_mask_params *p)
{
	switch_points(request, group_exists(p->name), p->name, p->tpoint_mask, true);
}

void method_trace_clear_tpoint_mask(struct rpc_request *request, const struct trace_clear_tpoint_mask_params *p)
{
	switch_points(request, group_exists(p->name), p->name, p->tpoint_mask, false);
}

void method_trace_clear(struct rpc_request *request)
{
	trace_clear();
	rpc_reply(request, NULL);
}

/* ---- filter and slow requests ---- */

void method_trace_set_slow(struct rpc_request *request, const struct trace_set_slow_params *p)
{
	struct fathom_fault why;

	if (p->us != UINT64_MAX && p->us > UINT64_MAX / NS_PER_US)
		rpc_error(request, RPC_CODE_INVALID_PARAMETERS,
			  "Invalid parameters: \"us\" is %" PRIu64 "; it goes from 0 to %llu", p->us,
			  UINT64_MAX / NS_PER_US);
	else if (trace_slow_set(p->object, p->state, p->us == UINT64_MAX ? p->us : p->us * NS_PER_US, &why) != 0)
		rpc_error(request, RPC_CODE_INVALID_PARAMETERS, "Invalid parameters: %s", why.text);
	else
		rpc_reply(request, NULL);
}

void method_trace_set_filter(struct rpc_request *request, const struct trace_set_filter_params *p)
{
	trace_filter_set(p->owner);
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

void method_trace_get_info(struct rpc_request *request)
{
	json_t *info;

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

void method_trace_get_tpoint_group_mask(struct rpc_request *request)
{
	struct trace_point_info info;
	json_t *result;

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
	(void)pthread_setname_np(pthread_self(), "trace_freeze"); /* only informative */
	signals_give_stack();
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

void method_trace_freeze(struct rpc_request *request, const struct trace_freeze_params *p)
{
	sigset_t all, before;
	int rc;

	if (p->path && p->path[0] != '/') {
		rpc_error(request, RPC_CODE_INVALID_PARAMETERS, "Invalid parameters: \"path\" does not begin with /");
		return;
	}
	if (freeze.request) {
		rpc_error(request, RPC_CODE_INTERNAL,
			  "a copy of the trace file is in progress; try again when it is complete");
		return;
	}
	freeze.request = request;
	freeze.force = p->force;
	freeze.path = p->path ? strdup(p->path) : NULL;
	freeze.reason = p->reason ? strdup(p->reason) : NULL;
	must(!p->path || freeze.path);
	must(!p->reason || freeze.reason);
	signals_of_others(&all);
	must(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
	rc = pthread_create(&freeze.pthread, NULL, freeze_main, NULL);
	must(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
	if (rc) {
		freeze.request = NULL;
		free(freeze.path);
		free(freeze.reason);
		rpc_error(request, RPC_CODE_INTERNAL, "cannot create a thread to copy the trace file: %s", strerror(rc));
	}
}
