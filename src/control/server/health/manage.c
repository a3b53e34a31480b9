/* SPDX-License-Identifier: BSD-2-Clause */
/* FirmwareUpdate and DeviceLed: requests of operators about one device, which the helper performs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "control/fault/fault.h"
#include "control/server/events/events.h"
#include "control/server/health/internal.h"
#include "control/status/status.h"
#include "rpc/proto/fathom.pb-c.h"

enum { LED_ON = 1, LED_OFF = 2 }; /* of DeviceLedReq */

/* A call that waits for the helper. */
struct device_call {
	struct server *server;
	struct grpc_call *call;
	struct storage_device facts;
	enum helper_operation operation;
	uint32_t flags;
	char who[GRPC_WHO_BYTES];
};

static const struct storage_device *find_device(const struct server *server, const char *name)
{
	const struct device_health *device = NULL;

	while ((device = health_next(server, device))) {
		const struct storage_device *facts = &device->facts;

		if (device->is_present && (strcmp(facts->path, name) == 0 || strcmp(facts->serial, name) == 0 ||
					   (facts->pci_address[0] && strcasecmp(facts->pci_address, name) == 0)))
			return facts;
	}
	return NULL;
}

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

static void reply_led(struct device_call *device, const struct helper_reply *reply)
{
	Fathom__DeviceLedResp answer = FATHOM__DEVICE_LED_RESP__INIT;
	struct arena arena = { 0 };

	if (device->flags)
		server_raise_operation(device->server, RAS_DEVICE_LED_SET, "storage led", device->who,
				       "the lamp of %s was switched %s", device->facts.path, reply->led ? "on" : "off");
	answer.path = arena_text(&arena, device->facts.path);
	answer.serial = arena_text(&arena, device->facts.serial);
	answer.state = arena_text(&arena, reply->led ? "on" : "off");
	grpc_reply(device->call, &answer.base);
	arena_free(&arena);
}

static void on_performed(void *ctx, const struct helper_reply *reply, const struct fathom_fault *why)
{
	struct device_call *device = ctx;

	must(reply->operation == device->operation);
	server_job_end(device->server);
	if (reply->error)
		call_fail(device->call, why);
	else if (device->operation == HELPER_FIRMWARE)
		reply_firmware(device, reply);
	else
		reply_led(device, reply);
	free(device);
}

/* Send `request`, without the device's path, to the helper for the device of that name, and answer the call later. */
static void perform(struct grpc_call *call, const char *name, struct helper_request *request)
{
	struct server *server = server_of(call);
	const struct storage_device *facts = find_device(server, name);
	struct device_call *device = facts ? calloc(1, sizeof(*device)) : NULL;
	struct fathom_fault why;

	if (!device) {
		why.error = facts ? fault(&why, -ENOMEM, "out of memory") : fault_no_such_device(&why, name);
		call_fail(call, &why);
		return;
	}
	*device = (struct device_call){
		.server = server, .call = call, .facts = *facts, .operation = request->operation, .flags = request->flags
	};
	grpc_call_who(call, device->who);
	must(text_copy(request->device, sizeof(request->device), facts->path) == 0);
	server_job_begin(server);
	helper_client_submit(server->helper, request, on_performed, device);
}

void call_firmware_update(struct grpc_call *call, const ProtobufCMessage *message)
{
	const Fathom__FirmwareUpdateReq *asked = (const Fathom__FirmwareUpdateReq *)message;
	struct helper_request request = {
		.operation = HELPER_FIRMWARE,
		.timeout_ms = helper_operation_limit_ms(HELPER_FIRMWARE),
		.flags = asked->force ? HELPER_FLAG_FORCE : 0,
		.slot = asked->slot,
	};
	struct fathom_fault why;

	if (!server_is_addressed(server_of(call), call, asked->sys))
		return;
	if (text_copy(request.target, sizeof(request.target), asked->file) != 0) {
		why.error = fault_firmware_file_bad(&why, asked->file, strerror(ENAMETOOLONG));
		call_fail(call, &why);
		return;
	}
	perform(call, asked->device, &request);
}

void call_device_led(struct grpc_call *call, const ProtobufCMessage *message)
{
	const Fathom__DeviceLedReq *asked = (const Fathom__DeviceLedReq *)message;
	struct helper_request request = {
		.operation = HELPER_LED,
		.timeout_ms = helper_operation_limit_ms(HELPER_LED),
	};

	if (!server_is_addressed(server_of(call), call, asked->sys))
		return;
	if (asked->action == LED_ON)
		request.flags = HELPER_FLAG_ON;
	else if (asked->action == LED_OFF)
		request.flags = HELPER_FLAG_OFF;
	perform(call, asked->device, &request);
}
