/* SPDX-License-Identifier: BSD-2-Clause */
/* FirmwareUpdate: an operator's request about one device, which the helper performs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "control/fault/fault.h"
#include "control/server/events/events.h"
#include "control/server/health/internal.h"
#include "control/status/status.h"
#include "rpc/proto/fathom.pb-c.h"

/* A call that waits for the helper. */
struct device_call {
	struct server *server;
	struct grpc_call *call;
	struct storage_device facts;
	char who[GRPC_WHO_BYTES];
};

static void reply_firmware(struct device_call *device, const struct helper_reply *reply)
{
	static const char *const whens[STORAGE_ACTIVATIONS] = {
		[STORAGE_ACTIVE_AT_RESET] = "after a restart of the host",
		[STORAGE_ACTIVE_AT_SUBSYSTEM_RESET] = "after a power cycle of the host",
		[STORAGE_ACTIVE_AT_POWER_CYCLE] = "after a power cycle of the drive",
	};
	Fathom__FirmwareUpdateResp answer = FATHOM__FIRMWARE_UPDATE_RESP__INIT;
	struct arena arena = { 0 };

	must(reply->activation < STORAGE_ACTIVATIONS);
	server_raise_operation(device->server, RAS_FIRMWARE_UPDATED, "firmware update", device->who,
			       "firmware was stored on %s, active %s", device->facts.path, whens[reply->activation]);
	answer.path = arena_text(&arena, device->facts.path);
	answer.model = arena_text(&arena, device->facts.model);
	answer.active_when = arena_text(&arena, whens[reply->activation]);
	grpc_reply(device->call, &answer.base);
	arena_free(&arena);
}

static void on_performed(void *ctx, const struct helper_reply *reply, const struct fathom_fault *why)
{
	struct device_call *device = ctx;

	must(reply->operation == HELPER_FIRMWARE);
	server_job_end(device->server);
	if (reply->error)
		call_fail(device->call, why);
	else
		reply_firmware(device, reply);
	free(device);
}

void call_firmware_update(struct grpc_call *call, const ProtobufCMessage *message)
{
	const Fathom__FirmwareUpdateReq *asked = (const Fathom__FirmwareUpdateReq *)message;
	struct server *server = server_of(call);
	struct helper_request request = {
		.operation = HELPER_FIRMWARE,
		.timeout_ms = helper_operation_limit_ms(HELPER_FIRMWARE),
		.flags = asked->force ? HELPER_FLAG_FORCE : 0,
		.slot = asked->slot,
	};
	const struct device_health *found = health_find_named(server, asked->device);
	struct device_call *device = NULL;
	struct fathom_fault why = { 0 };

	if (!server_is_addressed(server, call, asked->sys))
		return;
	if (!FIRMWARE_UPDATES)
		why.error = fault_firmware_absent(&why);
	else if (text_copy(request.target, sizeof(request.target), asked->file) != 0)
		why.error = fault_firmware_file_bad(&why, asked->file, strerror(ENAMETOOLONG));
	else if (!found)
		why.error = fault_no_such_device(&why, asked->device);
	else if (!(device = calloc(1, sizeof(*device))))
		why.error = fault(&why, -ENOMEM, "out of memory");
	if (why.error) {
		call_fail(call, &why);
		return;
	}
	*device = (struct device_call){ .server = server, .call = call, .facts = found->facts };
	grpc_call_who(call, device->who);
	must(text_copy(request.device, sizeof(request.device), found->facts.path) == 0);
	server_job_begin(server);
	helper_client_submit(server->helper, &request, on_performed, device);
}
