/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls about the lamps of drives: by `fathom`, and by dmg in its own message. The drives are files of a fake operating
 * system; the helper, deadlines and calls are simulated here.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* after those */
#include <cmocka.h>
#include <errno.h>

#include "base/bits.h"
#include "base/clock.h"
#include "control/fault/fault.h"
#include "control/server/health/health.h"
#include "control/server/health/internal.h"
#include "fake.h"
#include "rpc/proto/fathom.pb-c.h"
#include "rpc/ras/event.h"

enum { DRIVES = 3, TEXT_BYTES = 1024, UUID_FIRST_BYTE = 0xab };

static struct fake fake;
static struct server server;
static struct server_config config = { .health_interval = "60s" };
static struct worker_job *job;
static struct deadline *deadline; /* that is set; NULL: none */
static deadline_fn due;
static uint64_t due_ns;
static bool lamps[DRIVES + 1]; /* by the number of the drive */
static bool lacks[DRIVES + 1]; /* the kernel has no lamp for it */
static unsigned int led_requests;
static struct sent {
	struct helper_request request;
	helper_done_fn done;
	void *ctx;
} sent[HEALTH_SENT_MAX]; /* requests without an answer */
static size_t sent_count;
static char events[TEXT_BYTES], said[TEXT_BYTES];
static struct fathom_fault failure;
static uint32_t refused_field;

uint64_t __wrap_reactor_now(void);
uint64_t __wrap_reactor_now(void)
{
	return 1;
}

int __wrap_worker_start(struct worker_job *started);
int __wrap_worker_start(struct worker_job *started)
{
	job = started;
	return 0;
}

void __wrap_deadline_set(struct deadlines *set, struct deadline *at, uint64_t after_ns, deadline_fn fn);
void __wrap_deadline_set(struct deadlines *set, struct deadline *at, uint64_t after_ns, deadline_fn fn)
{
	if (server.health && at == &server.health->due)
		return;
	deadline = at;
	due = fn;
	due_ns = after_ns;
}

void __wrap_deadline_clear(struct deadlines *set, struct deadline *at);
void __wrap_deadline_clear(struct deadlines *set, struct deadline *at)
{
	if (deadline == at)
		deadline = NULL;
}

void __wrap_server_raise_operation(struct server *of, enum ras_id id, const char *operation, const char *who,
				   const char *what, ...) PRINTF_LIKE(5, 6);
void __wrap_server_raise_operation(struct server *of, enum ras_id id, const char *operation, const char *who,
				   const char *what, ...)
{
	size_t used = strlen(events);
	va_list args;

	assert_int_equal(id, RAS_DEVICE_LED_SET);
	va_start(args, what);
	used += (size_t)vsnprintf(events + used, TEXT_BYTES - used, what, args);
	va_end(args);
	snprintf(events + used, TEXT_BYTES - used, "\n");
}

void __wrap_helper_client_submit(struct helper_client *client, const struct helper_request *asked, helper_done_fn done,
				 void *ctx);
void __wrap_helper_client_submit(struct helper_client *client, const struct helper_request *asked, helper_done_fn done,
				 void *ctx)
{
	assert_true(sent_count < (asked->operation == HELPER_LED ? 1 : HEALTH_SENT_MAX));
	sent[sent_count++] = (struct sent){ *asked, done, ctx };
}

void *__wrap_grpc_call_ctx(const struct grpc_call *call);
void *__wrap_grpc_call_ctx(const struct grpc_call *call)
{
	return &server;
}

const char *__wrap_grpc_call_who(const struct grpc_call *call, char *text);
const char *__wrap_grpc_call_who(const struct grpc_call *call, char *text)
{
	text[0] = '\0';
	return text;
}

bool __wrap_server_is_addressed(const struct server *of, struct grpc_call *call, const char *sys);
bool __wrap_server_is_addressed(const struct server *of, struct grpc_call *call, const char *sys)
{
	return true;
}

void __wrap_call_fail(struct grpc_call *call, const struct fathom_fault *why);
void __wrap_call_fail(struct grpc_call *call, const struct fathom_fault *why)
{
	failure = *why;
}

void __wrap_mgmt_refuse_absent(struct grpc_call *call, const char *path, uint32_t field);
void __wrap_mgmt_refuse_absent(struct grpc_call *call, const char *path, uint32_t field)
{
	assert_string_equal(path, "/ctl.CtlSvc/SmdManage");
	refused_field = field;
}

/* One engine, with rank 7, on the second drive. */
void __wrap_instance_get_info(const struct instance *instance, struct instance_info *info);
void __wrap_instance_get_info(const struct instance *instance, struct instance_info *info)
{
	*info = (struct instance_info){ .rank = 7, .has_uuid = true, .uuid = { UUID_FIRST_BYTE } };
}

void __wrap_grpc_reply(struct grpc_call *call, const ProtobufCMessage *answer);
void __wrap_grpc_reply(struct grpc_call *call, const ProtobufCMessage *answer)
{
	const Ctl__SmdManageResp *theirs = (const Ctl__SmdManageResp *)answer;
	const Fathom__DeviceLedResp *ours = (const Fathom__DeviceLedResp *)answer;
	size_t used = 0;

	said[0] = '\0';
	if (answer->descriptor == &fathom__device_led_resp__descriptor)
		snprintf(said, sizeof(said), "%s %s", ours->path, ours->state);
	for (size_t i = 0; answer->descriptor == &ctl__smd_manage_resp__descriptor && i < theirs->n_ranks; i++) {
		const Ctl__SmdDevice *device = theirs->ranks[i]->results[0]->device;

		assert_int_equal(theirs->ranks[i]->results[0]->status, 0);
		assert_int_equal(theirs->ranks[i]->rank, device->rank);
		used += (size_t)snprintf(said + used, sizeof(said) - used, "%s%d:%.2s:%s=%d", i ? " " : "",
					 (int)device->rank, device->uuid, device->ctrlr->pci_addr,
					 (int)device->ctrlr->led_state);
	}
}

/* ---- helpers of the tests ---- */

static void add_drive(unsigned int number)
{
	char name[32], place[128], serial[32];

	snprintf(name, sizeof(name), "nvme%un1", number);
	snprintf(serial, sizeof(serial), "SERIAL%u", number);
	snprintf(place, sizeof(place), "pci0000:00/0000:0%u:00.0/nvme/nvme%u/nvme%un1", number, number, number);
	fake_device(&fake, name, place, 259, number, 16384);
	fake_attribute(&fake, name, "device/serial", serial);
}

/* Answer requests until there is none; those about lamps are kept in `lamps`. */
static void answer_all(void)
{
	while (sent_count > 0) {
		struct sent one = sent[--sent_count];
		unsigned int number = (unsigned int)(one.request.device[strlen("/dev/nvme")] - '0');
		struct helper_reply reply = { .operation = one.request.operation };
		struct fathom_fault why = { 0 };

		assert_true(number <= DRIVES);
		if (reply.operation == HELPER_HEALTH) {
			reply.pages.smart[3] = 100;
		} else if (lacks[number]) {
			reply.error = fault_led_absent(&why, one.request.device);
		} else if (one.request.flags) {
			lamps[number] = one.request.flags == HELPER_FLAG_ON;
		}
		led_requests += reply.operation == HELPER_LED;
		reply.led = lamps[number];
		one.done(one.ctx, &reply, &why);
	}
}

static int setup(void **state)
{
	struct fathom_fault why;

	fake_begin(&fake);
	for (unsigned int i = 1; i <= DRIVES; i++)
		add_drive(i);
	server = (struct server){ .state = SERVER_READY, .os = &fake.provider, .config = &config };
	memset(lamps, 0, sizeof(lamps));
	memset(lacks, 0, sizeof(lacks));
	sent_count = 0;
	events[0] = said[0] = '\0';
	failure.code = refused_field = led_requests = 0;
	assert_int_equal(health_open(&server, &why), 0);
	health_start(&server);
	job->work(job);
	/* the scan found no configured engine: say that the first one is on the second drive */
	server.health->found.devices[1].instances = BIT(0);
	server.instance_count = 1;
	job->done(job);
	answer_all();
	return 0;
}

static int teardown(void **state)
{
	health_leave(&server);
	assert_null(deadline);
	health_close(&server);
	assert_int_equal(server.jobs, 0);
	fake_end(&fake);
	return 0;
}

static void ask(const char *device, uint32_t action, uint32_t minutes)
{
	Fathom__DeviceLedReq request = FATHOM__DEVICE_LED_REQ__INIT;
	char name[64];

	said[0] = '\0';
	failure.code = 0;
	snprintf(name, sizeof(name), "%s", device);
	request.device = name;
	request.action = action;
	request.minutes = minutes;
	call_device_led((struct grpc_call *)&server, &request.base);
	answer_all();
}

static void ask_as_dmg(const char *ids, Ctl__LedAction action, uint32_t minutes)
{
	Ctl__SmdManageReq request = CTL__SMD_MANAGE_REQ__INIT;
	Ctl__LedManageReq led = CTL__LED_MANAGE_REQ__INIT;
	char text[128];

	said[0] = '\0';
	failure.code = 0;
	snprintf(text, sizeof(text), "%s", ids);
	led.ids = text;
	led.led_action = action;
	led.led_state = action == CTL__LED_ACTION__SET ? CTL__LED_STATE__QUICK_BLINK : CTL__LED_STATE__NA;
	led.led_duration_mins = minutes;
	request.op_case = CTL__SMD_MANAGE_REQ__OP_LED;
	request.led = &led;
	call_smd_manage((struct grpc_call *)&server, &request.base);
	answer_all();
}

/* ---- tests ---- */

static void a_lamp_is_switched_and_reported(void **state)
{
	ask("SERIAL2", 0, 0);
	assert_string_equal(said, "/dev/nvme2n1 off");
	assert_string_equal(events, "");
	ask("0000:02:00.0", 1, 0);
	assert_string_equal(said, "/dev/nvme2n1 on");
	assert_null(deadline); /* it stays on */
	ask("/dev/nvme2n1", 2, 0);
	assert_string_equal(said, "/dev/nvme2n1 off");
	assert_string_equal(events,
			    "the lamp of /dev/nvme2n1 was switched on\nthe lamp of /dev/nvme2n1 was switched off\n");
	ask("", 0, 0);
	assert_int_equal(failure.code, FAULT_NO_SUCH_DEVICE);
}

static void a_lamp_is_switched_off_after_its_minutes(void **state)
{
	ask("SERIAL1", 1, 3);
	assert_int_equal(due_ns, 180 * NS_PER_SEC);
	assert_true(lamps[1]);
	ask("SERIAL1", 1, 5); /* from now on */
	assert_int_equal(due_ns, 300 * NS_PER_SEC);
	due(deadline);
	deadline = NULL;
	assert_int_equal(server.jobs, 1);
	answer_all();
	assert_false(lamps[1]);
	assert_non_null(strstr(events, "was switched off after its time"));
	ask("SERIAL1", 1, 3);
	ask("SERIAL1", 2, 0);
	assert_null(deadline);
}

static void dmg_gets_all_drives_or_those_that_it_names(void **state)
{
	lacks[3] = true;
	ask_as_dmg("", CTL__LED_ACTION__GET, 0);
	assert_string_equal(said, "-1::0000:01:00.0=4 7:ab:0000:02:00.0=4 -1::0000:03:00.0=0"); /* 4: OFF, 0: NA */
	ask_as_dmg("0000:01:00.0,ab000000-0000-0000-0000-000000000000,0000:01:00.0", CTL__LED_ACTION__SET, 0);
	assert_string_equal(said, "-1::0000:01:00.0=1 7:ab:0000:02:00.0=1"); /* 1: QUICK_BLINK */
	assert_int_equal(due_ns, 120 * NS_PER_SEC);
	ask_as_dmg("", CTL__LED_ACTION__RESET, 0);
	assert_string_equal(said, "-1::0000:01:00.0=4 7:ab:0000:02:00.0=4 -1::0000:03:00.0=0");
	assert_null(deadline);
	ask_as_dmg("0000:03:00.0", CTL__LED_ACTION__GET, 0);
	assert_string_equal(said, "-1::0000:03:00.0=0");
}

static void a_named_drive_without_a_lamp_or_an_unknown_one_is_a_fault(void **state)
{
	lacks[1] = true;
	ask("SERIAL1", 0, 0);
	assert_int_equal(failure.code, FAULT_LED_ABSENT);
	ask_as_dmg("0000:01:00.0,0000:02:00.0", CTL__LED_ACTION__SET, 7);
	assert_int_equal(failure.code, FAULT_LED_ABSENT);
	assert_true(lamps[2]); /* the others are done */
	led_requests = 0;
	ask_as_dmg("0000:02:00.0,0000:09:00.0", CTL__LED_ACTION__RESET, 0);
	assert_int_equal(failure.code, FAULT_NO_SUCH_DEVICE);
	assert_int_equal(led_requests, 0);
}

static void dmgs_other_requests_are_refused(void **state)
{
	Ctl__SmdManageReq request = CTL__SMD_MANAGE_REQ__INIT;

	call_smd_manage((struct grpc_call *)&server, &request.base);
	assert_int_equal(refused_field, 3);
	request.op_case = CTL__SMD_MANAGE_REQ__OP_REPLACE;
	call_smd_manage((struct grpc_call *)&server, &request.base);
	assert_int_equal(refused_field, 2);
	assert_int_equal(led_requests, 0);
}

static void a_server_that_ends_asks_for_no_more_lamps(void **state)
{
	Ctl__SmdManageReq request = CTL__SMD_MANAGE_REQ__INIT;
	Ctl__LedManageReq led = CTL__LED_MANAGE_REQ__INIT;

	request.op_case = CTL__SMD_MANAGE_REQ__OP_LED;
	request.led = &led;
	call_smd_manage((struct grpc_call *)&server, &request.base);
	health_leave(&server);
	answer_all();
	assert_int_equal(led_requests, 1);
	assert_int_equal(failure.error, -ECANCELED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_lamp_is_switched_and_reported, setup, teardown),
		cmocka_unit_test_setup_teardown(a_lamp_is_switched_off_after_its_minutes, setup, teardown),
		cmocka_unit_test_setup_teardown(dmg_gets_all_drives_or_those_that_it_names, setup, teardown),
		cmocka_unit_test_setup_teardown(a_named_drive_without_a_lamp_or_an_unknown_one_is_a_fault, setup, teardown),
		cmocka_unit_test_setup_teardown(dmgs_other_requests_are_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(a_server_that_ends_asks_for_no_more_lamps, setup, teardown),
	};

	return cmocka_run_group_tests_name("server lamps", tests, NULL, NULL);
}
