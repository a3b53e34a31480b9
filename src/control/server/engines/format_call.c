/* SPDX-License-Identifier: BSD-2-Clause */
/* StorageFormat: formats the storage of some or all engines of this host. The answer has rows for each. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/fault/fault.h"
#include "control/server/engines/internal.h"
#include "control/server/events/events.h"
#include "control/status/status.h"
#include "rpc/proto/ctl.pb-c.h"

struct format_call {
	struct grpc_call *call;
	struct server *server;
	struct arena arena;
	Ctl__StorageFormatResp answer;
	char who[GRPC_WHO_BYTES];
	size_t left, total; /* engines without a result, and all of the request */
	struct format_part {
		struct format_call *format;
		uint32_t instance;
	} parts[SERVER_ENGINES_MAX];
};

static void add_format_rows(struct format_call *format, uint32_t instance, const struct fathom_fault *why)
{
	const struct server_storage *storage = server_engine_storage(
		server_config_engine(format->server->config, instance));
	Ctl__NvmeControllerResult *device = arena_message(&format->arena, ctl__nvme_controller_result,
							  Ctl__NvmeControllerResult);
	Ctl__ScmMountResult *mount = arena_message(&format->arena, ctl__scm_mount_result, Ctl__ScmMountResult);
	const struct fathom_fault none = { 0 };

	mount->mntpoint = arena_text(&format->arena, storage->scm_mount);
	mount->state = server_response_state(why ? why : &none, CTL__RESPONSE_STATUS__CTL_ERR_SCM, &format->arena);
	mount->instanceidx = instance;
	format->answer.mrets[format->answer.n_mrets++] = mount;
	if (why)
		return;
	device->state = server_response_state(&none, CTL__RESPONSE_STATUS__CTL_ERR_SCM, &format->arena);
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

	must(format->left > 0);
	must(format->left + format->answer.n_mrets == format->total);
	must(part->instance < format->server->instance_count);
	must(format->answer.n_mrets < format->server->instance_count);
	must(!why || why->error < 0);
	add_format_rows(format, part->instance, why);
	if (!why)
		server_raise_operation(format->server, RAS_STORAGE_FORMATTED, "storage format", format->who,
				       "the storage of instance %u was formatted", part->instance);
	if (--format->left > 0)
		return;
	must(format->answer.n_crets <= format->answer.n_mrets);
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
		    (info.state == INSTANCE_IDLE && server->engines->starting > 0))
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

void engines_begin_formats(struct server *server)
{
	struct format_wait *wait;
	struct fathom_fault why;
	bool is_leaving = server->state == SERVER_LEAVING;

	if (!server->engines)
		return;
	if (!is_leaving && is_settling(server))
		return;
	while ((wait = STAILQ_FIRST(&server->engines->formats))) {
		STAILQ_REMOVE_HEAD(&server->engines->formats, link);
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

	must(server->engines);
	if (server->instance_count == 0) {
		why.error = fault_no_engines(&why, server->options->config_path);
		call_fail(call, &why);
		return;
	}
	wait = malloc(sizeof(*wait));
	must(wait);
	*wait = (struct format_wait){ .call = call, .request = request };
	STAILQ_INSERT_TAIL(&server->engines->formats, wait, link);
	engines_begin_formats(server);
}

/*
 * Select the engines that the request names; without names all. But if an engine awaits formatting or is missing, skip the
 * engines that run or are stopped, unless `reformat`: they are formatted already.
 */
static bool choose_format_engines(struct server *server, const Ctl__StorageFormatReq *request, bool *chosen,
				  struct fathom_fault *why)
{
	struct instance_info infos[SERVER_ENGINES_MAX];
	struct rank_set set = { 0 };
	bool waits = false;

	must(server->instance_count > 0 && server->instance_count <= SERVER_ENGINES_MAX);
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

	if (!choose_format_engines(server, request, chosen, &why)) {
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
	must(format->left <= server->instance_count);
	format->total = format->left;
	/* on_formatted() is never called from within the loop, so `format` is not freed in it */
	for (size_t count = format->left, at = 0; at < count; at++) {
		struct format_part *part = &format->parts[at];

		instance_format(server->instances[part->instance], &how, on_formatted, part);
	}
}
