/* SPDX-License-Identifier: BSD-2-Clause */
/* The server of the rig's instance: its dRPC methods, its management service, and the hooks of the instance. */
#include "instance_rig.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "control/fault/fault.h"
#include "rpc/drpc/drpc.h"

#include "../../control_thread.h"

static struct drpc_server *server;

static void notify_ready(struct drpc_call *call, const ProtobufCMessage *message)
{
	if (!rig.instance) {
		drpc_fail(call, DRPC_FAILURE);
		return;
	}
	instance_notify_ready(rig.instance, (const Srv__NotifyReadyReq *)message, drpc_call_peer(call)->pid);
	drpc_reply(call, NULL);
}

static void cluster_event(struct drpc_call *call, const ProtobufCMessage *message)
{
	if (rig.instance)
		instance_note_event(rig.instance, ((const Shared__ClusterEventReq *)message)->event);
	drpc_reply(call, NULL);
}

static const struct drpc_method methods[] = {
	{ DRPC_MODULE_SRV, DRPC_SRV_NOTIFY_READY, "NOTIFY_READY", &srv__notify_ready_req__descriptor, notify_ready },
	{ DRPC_MODULE_SRV, DRPC_SRV_CLUSTER_EVENT, "CLUSTER_EVENT", &shared__cluster_event_req__descriptor, cluster_event },
};

static void answer_join(enum rig_join how, instance_joined_fn done, void *ctx)
{
	struct instance_joined joined = { .rank = rig.rank,
					  .map_version = 7,
					  .domain = "/rack9/node0",
					  .storage = rig.early,
					  .storage_count = rig.early_count };

	if (how == RIG_REFUSE)
		fill_fault_join_incarnation_old(&joined.why, rig.rank, 1, 2);
	if (how == RIG_EXCLUDE)
		fill_fault_rank_excluded(&joined.why, rig.rank);
	if (how == RIG_NO_ANSWER)
		fill_fault_refused(&joined.why, "node1:10001");
	if (how == RIG_FULL)
		fill_fault_db_full(&joined.why, "system.db");
	joined.again = how == RIG_NO_ANSWER || (joined.is_lasting = how == RIG_FULL);
	done(ctx, &joined);
}

static void on_join(void *ctx, struct instance *instance, const struct instance_join *join, instance_joined_fn done,
		    void *done_ctx)
{
	rig.joins++;
	rig.joined_as_replacement = join->is_replacement;
	rig.joined_rank = join->rank;
	rig.joined_incarnation = join->ready->incarnation;
	must(strcmp(join->ready->uri, "nvme+tcp://127.0.0.1:4420") == 0);
	if (rig.join == RIG_HOLD) {
		must(!rig.held);
		rig.held = done;
		rig.held_ctx = done_ctx;
	} else {
		answer_join(rig.join, done, done_ctx);
	}
}

static void on_event(void *ctx, struct instance *instance, const Shared__RASEvent *event)
{
	struct fathom_fault why;

	must(ras_event_check(event, &why) == 0);
	rig.format_required += event->id == RAS_ENGINE_FORMAT_REQUIRED;
	rig.join_failed += event->id == RAS_ENGINE_JOIN_FAILED;
	if (event->id >= RAS_OWN_FIRST && event->id < RAS_OWN_END)
		rig.own_events[event->id - RAS_OWN_FIRST]++;
	if (event->id != RAS_ENGINE_DIED && event->id != RAS_ENGINE_SELF_TERMINATED)
		return;
	must((event->type == RAS_TYPE_STATE_CHANGE) == (event->id == RAS_ENGINE_DIED));
	if (event->proc_id == rig.died_pid)
		return; /* a duplicate, which the spool drops */
	rig.died++;
	must(rig.gone >= rig.died); /* its unsent events are collected before its death event */
	rig.died_pid = event->proc_id;
	rig.died_rank = event->rank;
	rig.died_incarnation = event->incarnation;
	snprintf(rig.died_text, sizeof(rig.died_text), "%s", event->msg);
	snprintf(rig.died_error, sizeof(rig.died_error), "%s", event->engine_state_info->error);
}

static void on_gone(void *ctx, struct instance *instance)
{
	struct instance_info info;

	instance_get_info(instance, &info);
	must(info.state != INSTANCE_JOINED || info.pid != 0);
	rig.gone++;
}

/* A trail without room for the whole word stays as it is. */
static void record_state(const char *name)
{
	size_t used = strlen(rig.trail);

	if (used + 1 + strlen(name) >= sizeof(rig.trail))
		return;
	if (used > 0)
		rig.trail[used++] = ' ';
	for (; *name; name++)
		rig.trail[used++] = (char)tolower((unsigned char)*name);
	rig.trail[used] = '\0';
}

static void on_changed(void *ctx, struct instance *instance, enum instance_state from, enum instance_state to)
{
	must(from != to);
	rig.stops += to == INSTANCE_STOPPING;
	record_state(instance_state_name(to));
	if (rig.changed)
		rig.changed(instance, to);
}

const struct instance_hooks rig_hooks = { .join = on_join, .event = on_event, .gone = on_gone, .changed = on_changed };

static int do_release(void *ctx)
{
	enum rig_join *how = ctx;
	instance_joined_fn held = rig.held;

	must(held);
	rig.held = NULL;
	answer_join(*how, held, rig.held_ctx);
	return 0;
}

void rig_release_join(enum rig_join how)
{
	on_control(do_release, &how);
}

int rig_open_server(void *unused)
{
	char path[96];
	struct drpc_server_options options = { .path = path, .methods = methods, .method_count = ARRAY_COUNT(methods) };
	struct fathom_fault why;

	snprintf(path, sizeof(path), "%s/fathom_server.sock", rig.folder);
	must(drpc_server_open(&options, &server, &why) == 0);
	return 0;
}

int rig_close_server(void *unused)
{
	drpc_server_close(server);
	return 0;
}
