/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * DeviceLed, and DAOS's SmdManage, as far as it switches lamps. The helper gets one request at a time for a call.
 *
 * A lamp may be switched on for some minutes. The server counts them in memory: if it ends before, the lamp stays on.
 * In DAOS's answer a device without a lamp has the state NA, if it was not named, or only to be checked.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/text.h"
#include "control/fault/fault.h"
#include "control/mgmt/absent.h"
#include "control/server/events/events.h"
#include "control/server/health/internal.h"
#include "control/status/status.h"
#include "rpc/proto/fathom.pb-c.h"

enum { REPLACE_FIELD = 2, FAULTY_FIELD = 3 }; /* of SmdManageReq */
enum { DMG_MINUTES = 2, MINUTES_MAX = 10080, IDS_BYTES_MAX = 4096 };
enum lamp_action { LAMP_CHECK, LAMP_ON, LAMP_OFF, LAMP_ACTIONS }; /* as of DeviceLedReq */

static const char method_smd_manage[] = "/ctl.CtlSvc/SmdManage";

struct lamp_target {
	struct storage_device facts;
	uint64_t instances; /* as of struct device_health */
	Ctl__LedState state;
};

/* A call about the lamps of some devices, which are done one after the other. */
struct lamp_call {
	struct server *server;
	struct grpc_call *call;
	enum lamp_action action;
	uint32_t minutes; /* of ON; 0: until it is switched off */
	bool is_dmg;
	bool may_lack;		    /* a device without a lamp is no error */
	struct fathom_fault failed; /* of the first device; error 0: none */
	char who[GRPC_WHO_BYTES];
	size_t count, done;
	struct lamp_target targets[]; /* room for all watched devices */
};

/* ---- lamps that are on for some minutes ---- */

static void remove_lamp(struct lamp *lamp)
{
	TAILQ_REMOVE(&lamp->server->health->lamps, lamp, link);
	deadline_clear(&lamp->server->deadlines, &lamp->due);
	free(lamp);
}

static void forget_lamp(struct server *server, const char *path)
{
	struct lamp *lamp, *next;

	TAILQ_FOREACH_SAFE (lamp, &server->health->lamps, link, next) {
		if (strcmp(lamp->path, path) == 0)
			remove_lamp(lamp);
	}
}

void lamps_free(struct server_health *health)
{
	while (!TAILQ_EMPTY(&health->lamps))
		remove_lamp(TAILQ_FIRST(&health->lamps));
}

/* `ctx`: the lamp, which this frees. */
static void on_switched_off(void *ctx, const struct helper_reply *reply, const struct fathom_fault *why)
{
	struct lamp *lamp = ctx;

	must(reply->operation == HELPER_LED);
	server_job_end(lamp->server);
	if (reply->error)
		server_log_fault(LOG_LEVEL_WARNING, "a lamp stays on", why);
	else
		server_raise_operation(lamp->server, RAS_DEVICE_LED_SET, NULL, NULL,
				       "the lamp of %s was switched off after its time", lamp->path);
	free(lamp);
}

static void on_lamp_due(struct deadline *deadline)
{
	struct lamp *lamp = container_of(deadline, struct lamp, due);
	struct helper_request request = { .operation = HELPER_LED, .flags = HELPER_FLAG_OFF };

	TAILQ_REMOVE(&lamp->server->health->lamps, lamp, link); /* its request owns it now */
	request.timeout_ms = helper_operation_limit_ms(HELPER_LED);
	must(text_copy(request.device, sizeof(request.device), lamp->path) == 0); /* as before */
	server_job_begin(lamp->server);
	helper_client_submit(lamp->server->helper, &request, on_switched_off, lamp);
}

/* Out of memory: the lamp stays on, as without minutes. */
static void remember_lamp(struct server *server, const char *path, uint32_t minutes)
{
	struct lamp *lamp = calloc(1, sizeof(*lamp));

	if (!lamp)
		return;
	lamp->server = server;
	must(text_copy(lamp->path, sizeof(lamp->path), path) == 0);
	TAILQ_INSERT_TAIL(&server->health->lamps, lamp, link);
	deadline_set(&server->deadlines, &lamp->due, minutes * 60 * NS_PER_SEC, on_lamp_due);
}

/* ---- answers ---- */

/* UINT32_MAX: no engine uses the device. `uuid`: of that engine. */
static uint32_t find_rank(const struct server *server, uint64_t instances, char uuid[static MEMBER_UUID_TEXT_BYTES])
{
	for (uint32_t i = 0; i < server->instance_count; i++) {
		struct instance_info info;

		if (!(instances & BIT(i)))
			continue;
		instance_get_info(server->instances[i], &info);
		if (!info.has_uuid)
			continue;
		(void)member_uuid_format(info.uuid, uuid);
		return info.rank;
	}
	uuid[0] = '\0';
	return RANK_NONE;
}

static Ctl__SmdManageResp__RankResp *dmg_row(const struct lamp_call *of, const struct lamp_target *target,
					     struct arena *arena)
{
	Ctl__SmdManageResp__RankResp *rank = arena_message(arena, ctl__smd_manage_resp__rank_resp,
							   Ctl__SmdManageResp__RankResp);
	Ctl__SmdManageResp__Result *result = arena_message(arena, ctl__smd_manage_resp__result, Ctl__SmdManageResp__Result);
	Ctl__NvmeController *controller = arena_message(arena, ctl__nvme_controller, Ctl__NvmeController);
	Ctl__SmdDevice *device = arena_message(arena, ctl__smd_device, Ctl__SmdDevice);
	const struct storage_device *facts = &target->facts;
	char uuid[MEMBER_UUID_TEXT_BYTES];

	rank->rank = device->rank = find_rank(of->server, target->instances, uuid);
	rank->n_results = 1;
	rank->results = arena_take(arena, sizeof(*rank->results));
	rank->results[0] = result;
	result->device = device;
	device->uuid = arena_text(arena, uuid);
	device->ctrlr_namespace_id = 1;
	device->ctrlr = controller;
	controller->pci_addr = arena_text(arena, facts->pci_address[0] ? facts->pci_address : facts->path);
	controller->model = arena_text(arena, facts->model);
	controller->serial = arena_text(arena, facts->serial);
	controller->socket_id = facts->numa_node < 0 ? 0 : facts->numa_node;
	controller->dev_state = CTL__NVME_DEV_STATE__NORMAL;
	controller->led_state = target->state;
	return rank;
}

static const ProtobufCMessage *dmg_answer(const struct lamp_call *of, struct arena *arena)
{
	Ctl__SmdManageResp *answer = arena_message(arena, ctl__smd_manage_resp, Ctl__SmdManageResp);

	answer->ranks = arena_take(arena, (of->count + 1) * sizeof(*answer->ranks));
	for (size_t i = 0; i < of->count; i++)
		answer->ranks[answer->n_ranks++] = dmg_row(of, &of->targets[i], arena);
	return &answer->base;
}

static const ProtobufCMessage *own_answer(const struct lamp_call *of, struct arena *arena)
{
	Fathom__DeviceLedResp *answer = arena_message(arena, fathom__device_led_resp, Fathom__DeviceLedResp);

	must(of->count == 1);
	answer->path = arena_text(arena, of->targets[0].facts.path);
	answer->serial = arena_text(arena, of->targets[0].facts.serial);
	answer->state = arena_text(arena, of->targets[0].state == CTL__LED_STATE__OFF ? "off" : "on");
	return &answer->base;
}

static void end_call(struct lamp_call *of)
{
	struct arena arena = { 0 };

	must(of->done == of->count);
	server_job_end(of->server);
	if (of->failed.error)
		call_fail(of->call, &of->failed);
	else
		grpc_reply(of->call, of->is_dmg ? dmg_answer(of, &arena) : own_answer(of, &arena));
	arena_free(&arena);
	free(of);
}

/* ---- one device after the other ---- */

static void next_target(struct lamp_call *of);

static void take_switched(struct lamp_call *of, const struct lamp_target *target)
{
	const char *path = target->facts.path;

	forget_lamp(of->server, path);
	if (of->action == LAMP_ON && of->minutes)
		remember_lamp(of->server, path, of->minutes);
	server_raise_operation(of->server, RAS_DEVICE_LED_SET, "storage led", of->who, "the lamp of %s was switched %s",
			       path, target->state == CTL__LED_STATE__OFF ? "off" : "on");
}

static void on_performed(void *ctx, const struct helper_reply *reply, const struct fathom_fault *why)
{
	struct lamp_call *of = ctx;
	struct lamp_target *target = &of->targets[of->done];

	must(reply->operation == HELPER_LED);
	must(of->done < of->count);
	if (reply->error == 0) {
		target->state = reply->led ? CTL__LED_STATE__QUICK_BLINK : CTL__LED_STATE__OFF;
		if (of->action != LAMP_CHECK && !of->server->health->is_leaving)
			take_switched(of, target);
	} else if (!(of->may_lack && why->code == FAULT_LED_ABSENT) && of->failed.error == 0) {
		of->failed = *why;
	}
	of->done++;
	if (of->server->health->is_leaving && of->done < of->count) { /* the helper takes no more requests */
		if (of->failed.error == 0)
			fill_fault(&of->failed, -ECANCELED, "the server ends");
		of->done = of->count;
	}
	next_target(of);
}

static void next_target(struct lamp_call *of)
{
	static const uint32_t flags[LAMP_ACTIONS] = { [LAMP_ON] = HELPER_FLAG_ON, [LAMP_OFF] = HELPER_FLAG_OFF };
	struct helper_request request = { .operation = HELPER_LED, .flags = flags[of->action] };

	if (of->done == of->count) {
		end_call(of);
		return;
	}
	request.timeout_ms = helper_operation_limit_ms(HELPER_LED);
	must(text_copy(request.device, sizeof(request.device), of->targets[of->done].facts.path) == 0);
	helper_client_submit(of->server->helper, &request, on_performed, of);
}

/* ---- which devices ---- */

static void add_target(struct lamp_call *of, const struct device_health *device)
{
	for (size_t i = 0; i < of->count; i++) {
		if (strcmp(of->targets[i].facts.path, device->facts.path) == 0)
			return;
	}
	must(of->count < of->server->health->count);
	of->targets[of->count++] = (struct lamp_target){ .facts = device->facts, .instances = device->instances };
}

/* Present devices that are drives: all, or those of an engine. */
static void add_drives(struct lamp_call *of, uint64_t instances)
{
	const struct device_health *device = NULL;

	while ((device = health_next(of->server, device))) {
		enum storage_class class = device->facts.class;
		bool is_drive = class == STORAGE_CLASS_NVME || class == STORAGE_CLASS_SSD || class == STORAGE_CLASS_HDD;

		if (device->is_present && is_drive && !device->facts.parent[0] &&
		    (device->instances & instances) == instances)
			add_target(of, device);
	}
}

const struct device_health *health_find_named(const struct server *server, const char *name)
{
	const struct device_health *device = NULL;

	while (name[0] && (device = health_next(server, device))) {
		const struct storage_device *facts = &device->facts;

		if (device->is_present && (strcmp(facts->path, name) == 0 || strcmp(facts->serial, name) == 0 ||
					   (facts->pci_address[0] && strcasecmp(facts->pci_address, name) == 0)))
			return device;
	}
	return NULL;
}

/* The drives of the engine with this UUID. */
static void add_engine_drives(struct lamp_call *of, const char *uuid)
{
	for (uint32_t i = 0; i < of->server->instance_count; i++) {
		char text[MEMBER_UUID_TEXT_BYTES];

		(void)find_rank(of->server, BIT(i), text);
		if (text[0] && strcasecmp(text, uuid) == 0)
			add_drives(of, BIT(i));
	}
}

static int add_named(struct lamp_call *of, const char *name, struct fathom_fault *why)
{
	const struct device_health *device = health_find_named(of->server, name);
	size_t before = of->count;

	if (device) {
		add_target(of, device);
		return 0;
	}
	add_engine_drives(of, name);
	return of->count > before ? 0 : fault_no_such_device(why, name);
}

/* With commas. */
static int add_list(struct lamp_call *of, const char *ids, struct fathom_fault *why)
{
	char copy[IDS_BYTES_MAX], *at = copy, *id;
	int error = 0;

	if (text_copy(copy, sizeof(copy), ids) != 0)
		return fault_no_such_device(why, ids);
	while (!error && (id = strsep(&at, ",")))
		error = add_named(of, id, why);
	return error;
}

/* ---- calls ---- */

/* NULL: out of memory, and the call is answered. */
static struct lamp_call *begin_call(struct grpc_call *call, enum lamp_action action, uint32_t minutes)
{
	struct server *server = server_of(call);
	struct lamp_call *of = calloc(1, sizeof(*of) + server->health->count * sizeof(of->targets[0]));
	struct fathom_fault why;

	if (!of) {
		why.error = fault(&why, -ENOMEM, "out of memory");
		call_fail(call, &why);
		return NULL;
	}
	of->server = server;
	of->call = call;
	of->action = action;
	of->minutes = (uint32_t)min_u64(minutes, MINUTES_MAX);
	grpc_call_who(call, of->who);
	server_job_begin(of->server);
	return of;
}

static void perform(struct lamp_call *of, int error, const struct fathom_fault *why)
{
	if (error) {
		of->failed = *why;
		of->count = 0;
	}
	next_target(of);
}

void call_device_led(struct grpc_call *call, const ProtobufCMessage *message)
{
	const Fathom__DeviceLedReq *asked = (const Fathom__DeviceLedReq *)message;
	enum lamp_action action = asked->action < LAMP_ACTIONS ? asked->action : LAMP_CHECK;
	struct lamp_call *of;
	struct fathom_fault why;

	if (!server_is_addressed(server_of(call), call, asked->sys) || !(of = begin_call(call, action, asked->minutes)))
		return;
	perform(of, add_named(of, asked->device, &why), &why);
}

void call_smd_manage(struct grpc_call *call, const ProtobufCMessage *message)
{
	static const enum lamp_action actions[] = {
		[CTL__LED_ACTION__GET] = LAMP_CHECK, [CTL__LED_ACTION__SET] = LAMP_ON, [CTL__LED_ACTION__RESET] = LAMP_OFF
	};
	const Ctl__SmdManageReq *asked = (const Ctl__SmdManageReq *)message;
	const Ctl__LedManageReq *led = asked->led;
	struct lamp_call *of;
	struct fathom_fault why;
	int error = 0;

	if (asked->op_case != CTL__SMD_MANAGE_REQ__OP_LED) {
		mgmt_refuse_absent(call, method_smd_manage,
				   asked->op_case == CTL__SMD_MANAGE_REQ__OP_REPLACE ? REPLACE_FIELD : FAULTY_FIELD);
		return;
	}
	of = begin_call(call, (size_t)led->led_action < ARRAY_COUNT(actions) ? actions[led->led_action] : LAMP_CHECK,
			led->led_duration_mins ? led->led_duration_mins : DMG_MINUTES);
	if (!of)
		return;
	of->is_dmg = true;
	of->may_lack = led->ids[0] == '\0' || of->action == LAMP_CHECK;
	if (led->ids[0])
		error = add_list(of, led->ids, &why);
	else
		add_drives(of, 0);
	perform(of, error, &why);
}
