/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls for some or all engines of this host, by rank: starting, stopping, formatting. The answer has a row for each. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/fault/fault.h"
#include "control/server/core/core.h"
#include "control/status/status.h"

struct ranks_call;

/* One engine's part. */
struct ranks_part {
	struct ranks_call *call;
	uint32_t instance, rank;
};

struct ranks_call {
	struct grpc_call *call;
	struct server *server;
	struct arena arena;
	char who[GRPC_WHO_BYTES]; /* the caller, for the event; "": the management service raises the event */
	Ctl__RanksResp answer;
	const char *action, *state; /* of the answer: the action, and the state after its success */
	size_t left;
	struct ranks_part parts[SERVER_ENGINES_MAX];
};

static void on_part_done(void *ctx, const struct fathom_fault *why)
{
	struct ranks_part *part = ctx;
	struct ranks_call *ranks = part->call;
	Shared__RankResult *row = arena_message(&ranks->arena, shared__rank_result, Shared__RankResult);
	struct instance_info info;

	instance_get_info(ranks->server->instances[part->instance], &info);
	row->rank = part->rank == RANK_NONE ? info.rank : part->rank; /* it may have joined */
	row->place = part->instance + 1;
	row->action = (char *)ranks->action;
	row->state = (char *)(!why ? ranks->state : info.is_hung ? "unresponsive" : "errored");
	row->addr = (char *)ranks->server->places->control;
	if (why) {
		row->errored = true;
		row->msg = (char *)server_fault_text(why, &ranks->arena);
	}
	ranks->answer.results[ranks->answer.n_results++] = row;
	if (!why && ranks->who[0])
		server_tell(ranks->server, RAS_ENGINE_STOPPED, "stop-engines", ranks->who,
			    "engine %u of this host was stopped", part->instance);
	if (--ranks->left > 0)
		return;
	grpc_reply(ranks->call, &ranks->answer.base);
	arena_free(&ranks->arena);
	free(ranks);
}

/*
 * `is_meant`: selects among the engines without a rank, if the request includes those; NULL: none of them. Returns NULL if
 * the call is answered already.
 */
static struct ranks_call *begin_ranks_call(struct grpc_call *call, const Ctl__RanksReq *request, const char *action,
					   const char *state, bool (*is_meant)(const struct instance_info *info))
{
	struct server *server = server_of(call);
	struct ranks_call *ranks;
	struct rank_set set = { 0 };
	struct fathom_fault why;
	bool all = request->ranks[0] == '\0' && !request->unranked;

	if (request->ranks[0] && rank_set_parse(request->ranks, &set, &why) != 0) {
		call_fail(call, &why);
		return NULL;
	}
	ranks = calloc(1, sizeof(*ranks));
	must(ranks);
	ranks->call = call;
	ranks->server = server;
	ranks->action = action;
	ranks->state = state;
	ctl__ranks_resp__init(&ranks->answer);
	ranks->answer.results = arena_take(&ranks->arena, (server->instance_count + 1) * sizeof(Shared__RankResult *));
	for (uint32_t i = 0; i < server->instance_count; i++) {
		struct instance_info info;

		instance_learn_rank(server->instances[i]);
		instance_get_info(server->instances[i], &info);
		if (!all && info.rank != RANK_NONE && !rank_set_has(&set, info.rank))
			continue;
		if (!all && info.rank == RANK_NONE && !(request->unranked && is_meant && is_meant(&info)))
			continue;
		ranks->parts[ranks->left++] = (struct ranks_part){ .call = ranks, .instance = i, .rank = info.rank };
	}
	rank_set_deinit(&set);
	if (ranks->left > 0)
		return ranks;
	grpc_reply(call, &ranks->answer.base);
	arena_free(&ranks->arena);
	free(ranks);
	return NULL;
}

/* on_part_done() is never called from within the loop, so `ranks` is not freed in it. */
#define FOR_EACH_PART(ranks, part, count)                                                                                  \
	for (size_t count = (ranks)->left, at = 0; at < count && ((part) = &(ranks)->parts[at], true); at++)

static struct instance *instance_of(const struct ranks_part *part)
{
	return part->call->server->instances[part->instance];
}

static bool is_idle(const struct instance_info *info)
{
	return info->state == INSTANCE_ERRORED || info->state == INSTANCE_STOPPED || info->state == INSTANCE_MISSING;
}

static bool is_formatted(const struct instance_info *info)
{
	return info->state != INSTANCE_AWAIT_FORMAT && info->state != INSTANCE_MISSING;
}

void call_start_ranks(struct grpc_call *call, const ProtobufCMessage *request)
{
	struct ranks_call *ranks = begin_ranks_call(call, (const Ctl__RanksReq *)request, "start", "ready", is_idle);
	struct ranks_part *part;

	if (!ranks)
		return;
	FOR_EACH_PART(ranks, part, count)
	instance_start(instance_of(part), on_part_done, part);
}

void call_prep_shutdown_ranks(struct grpc_call *call, const ProtobufCMessage *request)
{
	struct ranks_call *ranks = begin_ranks_call(call, (const Ctl__RanksReq *)request, "prep shutdown", "stopping",
						    NULL);
	struct ranks_part *part;

	if (!ranks)
		return;
	FOR_EACH_PART(ranks, part, count)
	instance_prepare_stop(instance_of(part), on_part_done, part);
}

void call_stop_ranks(struct grpc_call *call, const ProtobufCMessage *request)
{
	bool force = ((const Ctl__RanksReq *)request)->force;
	struct ranks_call *ranks = begin_ranks_call(call, (const Ctl__RanksReq *)request, "stop", "stopped", NULL);
	struct ranks_part *part;

	if (!ranks)
		return;
	/* the management service names the ranks, and raises the events itself */
	if (((const Ctl__RanksReq *)request)->ranks[0] == '\0')
		grpc_call_who(call, ranks->who);
	FOR_EACH_PART(ranks, part, count)
	instance_stop(instance_of(part), force, on_part_done, part);
}

static void on_stopped_erase(void *ctx, const struct fathom_fault *why)
{
	struct ranks_part *part = ctx;

	if (why)
		on_part_done(part, why);
	else
		instance_erase(instance_of(part), on_part_done, part);
}

/* The management service has stopped its ranks. An engine without a rank may run; it serves no hosts, so kill it first. */
static void erase_part(struct ranks_part *part)
{
	struct instance_info info;

	instance_get_info(instance_of(part), &info);
	if (part->rank == RANK_NONE && info.pid != 0)
		instance_stop(instance_of(part), true, on_stopped_erase, part);
	else
		instance_erase(instance_of(part), on_part_done, part);
}

void call_reset_format_ranks(struct grpc_call *call, const ProtobufCMessage *request)
{
	struct ranks_call *ranks = begin_ranks_call(call, (const Ctl__RanksReq *)request, "reset format", "awaitformat",
						    is_formatted);
	struct ranks_part *part;

	if (!ranks)
		return;
	FOR_EACH_PART(ranks, part, count)
	erase_part(part);
}

/* ---- log masks ---- */

struct masks_call {
	struct grpc_call *call;
	struct arena arena;
	Ctl__SetLogMasksResp answer;
	size_t left;
	struct masks_part {
		struct masks_call *masks;
		size_t row;
	} parts[SERVER_ENGINES_MAX];
};

static void reply_masks(struct masks_call *masks)
{
	grpc_reply(masks->call, &masks->answer.base);
	arena_free(&masks->arena);
	free(masks);
}

static void on_mask_set(void *ctx, const struct fathom_fault *why)
{
	struct masks_part *part = ctx;
	struct masks_call *masks = part->masks;

	if (why)
		masks->answer.errors[part->row] = (char *)server_fault_text(why, &masks->arena);
	if (--masks->left == 0)
		reply_masks(masks);
}

static bool has_process(const struct instance *instance)
{
	struct instance_info info;

	instance_get_info(instance, &info);
	return info.pid != 0;
}

void call_set_engine_log_masks(struct grpc_call *call, const ProtobufCMessage *message)
{
	const Ctl__SetLogMasksReq *request = (const Ctl__SetLogMasksReq *)message;
	struct server *server = server_of(call);
	struct masks_call *masks;
	size_t count = 0;

	if (!server_is_addressed(server, call, request->sys))
		return;
	masks = calloc(1, sizeof(*masks));
	must(masks);
	masks->call = call;
	ctl__set_log_masks_resp__init(&masks->answer);
	masks->answer.n_errors = server->instance_count;
	masks->answer.errors = arena_take(&masks->arena, (server->instance_count + 1) * sizeof(char *));
	masks->left = 1; /* this function's own, until all engines are asked */
	for (size_t i = 0; i < server->instance_count; i++) {
		const char *mask = request->masks;

		masks->answer.errors[i] = (char *)"";
		if (!has_process(server->instances[i]))
			continue;
		if (request->reset_masks) {
			const char *configured = server_config_engine(server->config, i)->log_mask;

			mask = configured ? configured : "NOTICE";
		}
		masks->parts[count] = (struct masks_part){ .masks = masks, .row = i };
		masks->left++;
		instance_set_log_masks(server->instances[i], mask, request->streams, request->subsystems, on_mask_set,
				       &masks->parts[count++]);
	}
	if (--masks->left == 0)
		reply_masks(masks);
}

/* ---- format ---- */

struct format_call {
	struct grpc_call *call;
	struct server *server;
	struct arena arena;
	Ctl__StorageFormatResp answer;
	char who[GRPC_WHO_BYTES];
	size_t left;
	struct format_part {
		struct format_call *format;
		uint32_t instance;
	} parts[SERVER_ENGINES_MAX];
};

static Ctl__ResponseState *state_of(struct arena *arena, const struct fathom_fault *why)
{
	Ctl__ResponseState *state = arena_message(arena, ctl__response_state, Ctl__ResponseState);
	char text[FAULT_TEXT_BYTES_MAX];
	struct fault_shown shown;

	if (!why)
		return state;
	fault_show(why, &shown);
	state->status = CTL__RESPONSE_STATUS__CTL_ERR_SCM;
	state->error = arena_text(arena, fault_message(&shown, text, sizeof(text)));
	state->info = arena_text(arena, shown.resolution);
	return state;
}

static void add_format_rows(struct format_call *format, uint32_t instance, const struct fathom_fault *why)
{
	const struct server_storage *storage = server_engine_storage(
		server_config_engine(format->server->config, instance));
	Ctl__NvmeControllerResult *device = arena_message(&format->arena, ctl__nvme_controller_result,
							  Ctl__NvmeControllerResult);
	Ctl__ScmMountResult *mount = arena_message(&format->arena, ctl__scm_mount_result, Ctl__ScmMountResult);

	mount->mntpoint = arena_text(&format->arena, storage->scm_mount);
	mount->state = state_of(&format->arena, why);
	mount->instanceidx = instance;
	format->answer.mrets[format->answer.n_mrets++] = mount;
	if (why)
		return;
	device->state = state_of(&format->arena, NULL);
	if (storage->bdev_list.count > 0) {
		device->pci_addr = arena_text(&format->arena, storage->bdev_list.items[0]);
	} else {
		device->pci_addr = arena_text(&format->arena, "<nil>");
		device->state->info = arena_format(&format->arena, "instance %u keeps its data in a folder", instance);
	}
	format->answer.crets[format->answer.n_crets++] = device;
}

static void on_formatted(void *ctx, const struct fathom_fault *why)
{
	struct format_part *part = ctx;
	struct format_call *format = part->format;

	add_format_rows(format, part->instance, why);
	if (!why)
		server_tell(format->server, RAS_STORAGE_FORMATTED, "storage format", format->who,
			    "the storage of instance %u was formatted", part->instance);
	if (--format->left > 0)
		return;
	grpc_reply(format->call, &format->answer.base);
	arena_free(&format->arena);
	free(format);
}

/* An engine's storage is still being checked: soon it is known whether it awaits formatting. */
static bool is_settling(const struct server *server)
{
	for (uint32_t i = 0; i < server->instance_count; i++) {
		struct instance_info info;

		instance_get_info(server->instances[i], &info);
		if (info.state == INSTANCE_ADOPTING || info.state == INSTANCE_CHECKING ||
		    (info.state == INSTANCE_IDLE && server->starting > 0))
			return true;
	}
	return false;
}

/* A format call that waits until the engines have settled. */
struct format_wait {
	STAILQ_ENTRY(format_wait) link;
	struct grpc_call *call;
	const Ctl__StorageFormatReq *request;
};

static void begin_format(struct server *server, struct grpc_call *call, const Ctl__StorageFormatReq *request);

void server_begin_formats(struct server *server)
{
	struct format_wait *wait;
	struct fathom_fault why;
	bool is_leaving = server->state == SERVER_LEAVING;

	if (!is_leaving && is_settling(server))
		return;
	while ((wait = STAILQ_FIRST(&server->formats))) {
		STAILQ_REMOVE_HEAD(&server->formats, link);
		if (is_leaving) {
			why.error = fault_not_started(&why);
			call_fail(wait->call, &why);
		} else {
			begin_format(server, wait->call, wait->request);
		}
		free(wait);
	}
}

void call_storage_format(struct grpc_call *call, const ProtobufCMessage *message)
{
	const Ctl__StorageFormatReq *request = (const Ctl__StorageFormatReq *)message;
	struct server *server = server_of(call);
	struct format_wait *wait;
	struct fathom_fault why;

	if (server->instance_count == 0) {
		why.error = fault_no_engines(&why, server->options->config_path);
		call_fail(call, &why);
		return;
	}
	wait = malloc(sizeof(*wait));
	must(wait);
	*wait = (struct format_wait){ .call = call, .request = request };
	STAILQ_INSERT_TAIL(&server->formats, wait, link);
	server_begin_formats(server);
}

/*
 * Select the engines that the request names; without names all. But if an engine awaits formatting or is missing, skip the
 * engines that run or are stopped, unless `reformat`: they are formatted already.
 */
static bool choose_engines(struct server *server, const Ctl__StorageFormatReq *request, bool *chosen,
			   struct fathom_fault *why)
{
	struct instance_info infos[SERVER_ENGINES_MAX];
	struct rank_set set = { 0 };
	bool waits = false;

	if (request->instances[0]) {
		if (rank_set_parse(request->instances, &set, why) != 0)
			return false;
		for (uint32_t i = 0; i < server->instance_count; i++)
			chosen[i] = rank_set_has(&set, i);
		if (set.count == 0 || set.ranks[set.count - 1] >= server->instance_count)
			why->error = fault_no_such_instance(why, request->instances, server->instance_count);
		rank_set_deinit(&set);
		return why->error == 0;
	}
	for (uint32_t i = 0; i < server->instance_count; i++) {
		instance_get_info(server->instances[i], &infos[i]);
		waits |= infos[i].state == INSTANCE_AWAIT_FORMAT || infos[i].state == INSTANCE_MISSING;
	}
	for (uint32_t i = 0; i < server->instance_count; i++) {
		bool has_it = infos[i].pid != 0 || infos[i].state == INSTANCE_STOPPED;

		chosen[i] = request->reformat || !waits || !has_it;
	}
	return true;
}

static void begin_format(struct server *server, struct grpc_call *call, const Ctl__StorageFormatReq *request)
{
	const struct instance_format how = {
		.reformat = request->reformat,
		.replace = request->replace,
		.new_storage = request->new_storage,
	};
	bool chosen[SERVER_ENGINES_MAX];
	struct fathom_fault why = { 0 };
	struct format_call *format;

	if (!choose_engines(server, request, chosen, &why)) {
		call_fail(call, &why);
		return;
	}
	format = calloc(1, sizeof(*format));
	must(format);
	format->call = call;
	format->server = server;
	grpc_call_who(call, format->who);
	ctl__storage_format_resp__init(&format->answer);
	format->answer.mrets = arena_take(&format->arena, server->instance_count * sizeof(Ctl__ScmMountResult *));
	format->answer.crets = arena_take(&format->arena, server->instance_count * sizeof(Ctl__NvmeControllerResult *));
	for (uint32_t i = 0; i < server->instance_count; i++) {
		if (chosen[i])
			format->parts[format->left++] = (struct format_part){ .format = format, .instance = i };
	}
	must(format->left > 0);
	/* on_formatted() is never called from within the loop, so `format` is not freed in it */
	for (size_t count = format->left, at = 0; at < count; at++) {
		struct format_part *part = &format->parts[at];

		instance_format(server->instances[part->instance], &how, on_formatted, part);
	}
}
