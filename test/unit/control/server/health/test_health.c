/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rounds of the server's health: what it asks its helper, what a hanging device delays, which events it raises. The
 * devices are files of a fake operating system; time, the helper and the calls are simulated here.
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

enum { SENT_MAX = 16, EVENTS_BYTES = 4096, DEVICES = 4 };

static struct fake fake;
static struct server server;
static struct server_config config = { .health_interval = "60s" };

static uint64_t now = 1; /* ticks */
static char events[EVENTS_BYTES];
static struct worker_job *job; /* that runs */
static deadline_fn due;
static struct deadline *deadline;
static uint64_t due_ns;
static unsigned int replies;
static Fathom__HostHealthReq request = FATHOM__HOST_HEALTH_REQ__INIT;

/* Requests to the helper that have no answer yet. */
static struct {
	struct helper_request request;
	helper_done_fn done;
	void *ctx;
} sent[SENT_MAX];
static size_t sent_count;

uint64_t __wrap_reactor_now(void);
uint64_t __wrap_reactor_now(void)
{
	return now;
}

int __wrap_worker_start(struct worker_job *started);
int __wrap_worker_start(struct worker_job *started)
{
	assert_null(job);
	job = started;
	return 0;
}

void __wrap_deadline_set(struct deadlines *set, struct deadline *at, uint64_t after_ns, deadline_fn fn);
void __wrap_deadline_set(struct deadlines *set, struct deadline *at, uint64_t after_ns, deadline_fn fn)
{
	deadline = at;
	due = fn;
	due_ns = after_ns;
}

void __wrap_deadline_clear(struct deadlines *set, struct deadline *at);
void __wrap_deadline_clear(struct deadlines *set, struct deadline *at)
{
	due = NULL;
}

void __wrap_server_raise_operation(struct server *of, enum ras_id id, const char *operation, const char *who,
				   const char *what, ...) PRINTF_LIKE(5, 6);
void __wrap_server_raise_operation(struct server *of, enum ras_id id, const char *operation, const char *who,
				   const char *what, ...)
{
	size_t used = strlen(events);
	va_list args;

	used += (size_t)snprintf(events + used, EVENTS_BYTES - used, "%s: ", ras_id_name(id));
	va_start(args, what);
	used += (size_t)vsnprintf(events + used, EVENTS_BYTES - used, what, args);
	va_end(args);
	snprintf(events + used, EVENTS_BYTES - used, "\n");
}

void __wrap_helper_client_submit(struct helper_client *client, const struct helper_request *asked, helper_done_fn done,
				 void *ctx);
void __wrap_helper_client_submit(struct helper_client *client, const struct helper_request *asked, helper_done_fn done,
				 void *ctx)
{
	assert_true(sent_count < SENT_MAX);
	assert_int_equal(asked->operation, HELPER_HEALTH);
	assert_true(asked->timeout_ms > 0);
	sent[sent_count].request = *asked;
	sent[sent_count].done = done;
	sent[sent_count++].ctx = ctx;
}

void *__wrap_grpc_call_ctx(const struct grpc_call *call);
void *__wrap_grpc_call_ctx(const struct grpc_call *call)
{
	return &server;
}

bool __wrap_server_is_addressed(const struct server *of, struct grpc_call *call, const char *sys);
bool __wrap_server_is_addressed(const struct server *of, struct grpc_call *call, const char *sys)
{
	return true;
}

const char *__wrap_grpc_call_who(const struct grpc_call *call, char *text);
const char *__wrap_grpc_call_who(const struct grpc_call *call, char *text)
{
	text[0] = '\0';
	return text;
}

static struct fathom_fault failure; /* of the last call that failed */

void __wrap_call_fail(struct grpc_call *call, const struct fathom_fault *why);
void __wrap_call_fail(struct grpc_call *call, const struct fathom_fault *why)
{
	failure = *why;
}

static char states[256];

void __wrap_grpc_reply(struct grpc_call *call, const ProtobufCMessage *answer);
void __wrap_grpc_reply(struct grpc_call *call, const ProtobufCMessage *answer)
{
	const Fathom__HostHealthResp *health = (const Fathom__HostHealthResp *)answer;
	size_t used = 0;

	replies++;
	states[0] = '\0';
	for (size_t i = 0; i < health->n_devices; i++)
		used += (size_t)snprintf(states + used, sizeof(states) - used, "%s=%s ", health->devices[i]->path + 5,
					 health->devices[i]->state);
}

/* ---- helpers of the tests ---- */

static void add_device(unsigned int number, const char *serial)
{
	char name[32], place[128];

	snprintf(name, sizeof(name), "nvme%un1", number);
	snprintf(place, sizeof(place), "pci0000:00/0000:0%u:00.0/nvme/nvme%u/nvme%un1", number, number, number);
	fake_device(&fake, name, place, 259, number, 16384);
	fake_attribute(&fake, name, "device/serial", serial);
}

static void remove_link(unsigned int number)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/sys/block/nvme%un1", fake.folder, number);
	assert_int_equal(remove(path), 0);
}

static int setup(void **state)
{
	struct fathom_fault why;

	fake_begin(&fake);
	for (unsigned int i = 1; i <= DEVICES; i++)
		add_device(i, "S");
	server = (struct server){ .state = SERVER_READY, .os = &fake.provider, .config = &config };
	events[0] = states[0] = '\0';
	sent_count = replies = 0;
	job = NULL;
	due = NULL;
	now = 1;
	assert_int_equal(health_open(&server, &why), 0);
	return 0;
}

static int teardown(void **state)
{
	health_close(&server);
	assert_null(server.health);
	assert_int_equal(server.jobs, 0);
	fake_end(&fake);
	return 0;
}

static void run_job(void)
{
	struct worker_job *running = job;

	assert_non_null(running);
	job = NULL;
	running->work(running);
	running->done(running);
}

/* Take out the request at `place`, and answer it. */
static void answer(size_t place, int error, const struct storage_nvme_pages *pages)
{
	struct helper_reply reply = { .operation = HELPER_HEALTH, .error = error };
	struct fathom_fault why = { .error = error };
	helper_done_fn done = sent[place].done;
	void *ctx = sent[place].ctx;

	assert_true(place < sent_count);
	snprintf(why.text, sizeof(why.text), error ? "health of %s timed out" : "%.0s", sent[place].request.device);
	if (pages)
		reply.pages = *pages;
	memmove(&sent[place], &sent[place + 1], (sent_count - place - 1) * sizeof(sent[0]));
	sent_count--;
	done(ctx, &reply, &why);
}

/* A whole round, in which all devices answer with these pages; the device `hanging` times out. */
static unsigned int run_round(const struct storage_nvme_pages *pages, const char *hanging)
{
	unsigned int asked = 0;

	run_job();
	while (sent_count > 0) {
		bool hangs = hanging && strcmp(sent[0].request.device, hanging) == 0;

		asked++;
		answer(0, hangs ? -ETIMEDOUT : 0, pages);
	}
	assert_non_null(due);
	return asked;
}

static void next_round(uint64_t seconds)
{
	deadline_fn fn = due;

	now += clock_ticks_from_ns(seconds * NS_PER_SEC);
	assert_non_null(fn);
	due = NULL;
	fn(deadline);
}

static const struct storage_nvme_pages good = { .smart = { [3] = 100, [4] = 10 } };

static void call(void)
{
	call_host_health((struct grpc_call *)&server, &request.base);
}

/* ---- tests ---- */

static void each_device_is_read_and_few_at_a_time(void **state)
{
	unsigned int asked = 0;

	health_start(&server);
	run_job();
	for (; sent_count > 0; asked++) {
		assert_true(sent_count <= HEALTH_SENT_MAX);
		answer(0, 0, &good);
	}
	assert_int_equal(asked, DEVICES);
	assert_true(due_ns == 60 * NS_PER_SEC);
	assert_string_equal(events, ""); /* the first round finds nothing new */
	call();
	assert_int_equal(replies, 1); /* a round has just ended */
	assert_string_equal(states, "nvme1n1=ok nvme2n1=ok nvme3n1=ok nvme4n1=ok ");
}

static void a_device_that_hangs_delays_no_other_device(void **state)
{
	health_start(&server);
	run_job();
	assert_int_equal(sent_count, HEALTH_SENT_MAX);
	while (sent_count > 1) /* the first one hangs; the others are read */
		answer(1, 0, &good);
	assert_string_equal(sent[0].request.device, "/dev/nvme1n1");
	for (const struct device_health *at = NULL; (at = health_next(&server, at));)
		assert_int_equal(at->has_figures, strcmp(at->facts.name, "nvme1n1") != 0);
	call();
	assert_int_equal(replies, 0); /* it waits, at most for the time-out of one device */
	answer(0, -ETIMEDOUT, NULL);
	assert_int_equal(replies, 1);
	assert_string_equal(states, "nvme1n1=unread nvme2n1=ok nvme3n1=ok nvme4n1=ok ");
	assert_string_equal(events, "device_health_unread: health of /dev/nvme1n1 timed out\n");
}

static void a_device_that_hangs_is_asked_less_and_less_often(void **state)
{
	unsigned int asked = 0, rounds = 0;
	uint64_t first_ns;

	health_start(&server);
	assert_int_equal(run_round(&good, "/dev/nvme2n1"), DEVICES);
	first_ns = health_find(&server, "/dev/nvme2n1")->failing_ns;
	for (; rounds < 60; rounds++) { /* an hour */
		next_round(60);
		asked += run_round(&good, "/dev/nvme2n1") - (DEVICES - 1);
	}
	assert_in_range(asked, 5, 10); /* after 1, 2, 4, 8, 10, 10 ... minutes */
	assert_true(health_find(&server, "/dev/nvme2n1")->failing_ns == first_ns);
	assert_string_equal(events, "device_health_unread: health of /dev/nvme2n1 timed out\n");
	for (int i = 0; i < 11; i++) {
		next_round(60);
		(void)run_round(&good, NULL);
	}
	assert_non_null(strstr(events, "device_recovered: /dev/nvme2n1: its health can be read again\n"));
	assert_int_equal(health_find(&server, "/dev/nvme2n1")->failing_ns, 0);
}

static void a_condition_is_reported_once_and_its_end_too(void **state)
{
	struct storage_nvme_pages bad = good;
	const struct device_health *device;

	health_start(&server);
	run_round(&good, NULL);
	bad.smart[0] = 8;
	bad.smart[3] = 9;
	for (int i = 0; i < 3; i++) {
		next_round(60);
		run_round(&bad, NULL);
	}
	device = health_find(&server, "/dev/nvme3n1");
	assert_true(device->since_ns[STORAGE_READ_ONLY] > 0 && device->since_ns[STORAGE_SPARE_LOW] > 0);
	assert_true(device->since_ns[STORAGE_HOT] == 0);
	assert_non_null(strstr(events, "device_warning: /dev/nvme3n1: its medium takes no writes any more\n"));
	assert_null(strstr(strstr(events, "nvme3n1: its medium") + 1, "nvme3n1: its medium"));
	call();
	next_round(60);
	run_round(&good, NULL);
	assert_non_null(strstr(events, "device_recovered: /dev/nvme3n1: no longer read-only\n"));
	assert_non_null(strstr(events, "device_recovered: /dev/nvme3n1: no longer spare-low\n"));
	assert_true(health_find(&server, "/dev/nvme3n1")->since_ns[STORAGE_READ_ONLY] == 0);
}

static void new_media_errors_are_reported(void **state)
{
	struct storage_nvme_pages pages = good;

	health_start(&server);
	pages.smart[160] = 5;
	run_round(&pages, NULL);
	assert_string_equal(events, ""); /* old ones */
	pages.smart[160] = 7;
	next_round(60);
	run_round(&pages, NULL);
	assert_non_null(strstr(events, "device_media_error: /dev/nvme1n1: 7 media errors, 2 more than before\n"));
	events[0] = '\0';
	next_round(60);
	run_round(&pages, NULL);
	assert_string_equal(events, "");
}

static void pages_that_make_no_sense_are_a_failure(void **state)
{
	struct storage_nvme_pages pages = good;

	pages.slots[0] = 7;
	health_start(&server);
	run_round(&pages, NULL);
	assert_int_equal(health_find(&server, "/dev/nvme1n1")->why.error, -EBADMSG);
	assert_non_null(strstr(events, "device_health_unread: the controller has 1 firmware slots, and uses slot 7\n"));
}

static void devices_that_go_and_come_are_reported(void **state)
{
	health_start(&server);
	run_round(&good, NULL);
	remove_link(2);
	next_round(60);
	assert_int_equal(run_round(&good, NULL), DEVICES - 1);
	assert_string_equal(events, "device_unplugged: /dev/nvme2n1 was removed:  S\n");
	assert_null(health_find(&server, "/dev/nvme2n1"));
	events[0] = '\0';
	add_device(2, "S");
	fake_attribute(&fake, "nvme3n1", "device/serial", "OTHER"); /* another drive in this place */
	next_round(60);
	assert_int_equal(run_round(&good, NULL), DEVICES);
	assert_non_null(strstr(events, "device_plugged: /dev/nvme2n1 was added:  S\n"));
	assert_non_null(strstr(events, "device_unplugged: /dev/nvme3n1 was removed:  S\n"));
	assert_non_null(strstr(events, "device_plugged: /dev/nvme3n1 was added:  OTHER\n"));
}

static void a_link_that_changes_is_reported(void **state)
{
	fake_file(&fake, "/sys/bus/pci/devices/0000:01:00.0/current_link_speed", "8.0 GT/s PCIe\n");
	fake_file(&fake, "/sys/bus/pci/devices/0000:01:00.0/current_link_width", "4\n");
	health_start(&server);
	run_round(&good, NULL);
	fake_file(&fake, "/sys/bus/pci/devices/0000:01:00.0/current_link_speed", "2.5 GT/s PCIe\n");
	fake_file(&fake, "/sys/bus/pci/devices/0000:01:00.0/current_link_width", "1\n");
	next_round(60);
	run_round(&good, NULL);
	assert_non_null(strstr(events, "device_link_speed_changed: /dev/nvme1n1: the speed of its PCIe link is 2.5 GT/s"));
	assert_non_null(strstr(events, "device_link_width_changed: /dev/nvme1n1: the width of its PCIe link is x1"));
}

static void a_call_starts_a_round_and_leaving_answers_it(void **state)
{
	health_start(&server);
	run_round(&good, NULL);
	now += clock_ticks_from_ns(10 * NS_PER_SEC);
	call();
	call();
	assert_int_equal(replies, 0);
	run_job();
	health_leave(&server);
	assert_int_equal(replies, 2);
	while (sent_count > 0)
		answer(0, -ECANCELED, NULL); /* as the end of the helper's client does */
	call();
	assert_int_equal(replies, 3);
	assert_null(job);
	assert_string_equal(events, "");
}

static void a_request_for_an_unknown_device_is_a_fault(void **state)
{
	Fathom__FirmwareUpdateReq update = FATHOM__FIRMWARE_UPDATE_REQ__INIT;
	Fathom__DeviceLedReq led = FATHOM__DEVICE_LED_REQ__INIT;
	char name[] = "/dev/nvme9n1", file[] = "/fw/image";

	health_start(&server);
	run_round(&good, NULL);
	update.device = led.device = name;
	update.file = file;
	call_firmware_update((struct grpc_call *)&server, &update.base);
	assert_int_equal(failure.code, FAULT_NO_SUCH_DEVICE);
	failure.code = 0;
	call_device_led((struct grpc_call *)&server, &led.base);
	assert_int_equal(failure.code, FAULT_NO_SUCH_DEVICE);
	assert_int_equal(sent_count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(each_device_is_read_and_few_at_a_time, setup, teardown),
		cmocka_unit_test_setup_teardown(a_device_that_hangs_delays_no_other_device, setup, teardown),
		cmocka_unit_test_setup_teardown(a_device_that_hangs_is_asked_less_and_less_often, setup, teardown),
		cmocka_unit_test_setup_teardown(a_condition_is_reported_once_and_its_end_too, setup, teardown),
		cmocka_unit_test_setup_teardown(new_media_errors_are_reported, setup, teardown),
		cmocka_unit_test_setup_teardown(pages_that_make_no_sense_are_a_failure, setup, teardown),
		cmocka_unit_test_setup_teardown(devices_that_go_and_come_are_reported, setup, teardown),
		cmocka_unit_test_setup_teardown(a_link_that_changes_is_reported, setup, teardown),
		cmocka_unit_test_setup_teardown(a_request_for_an_unknown_device_is_a_fault, setup, teardown),
		cmocka_unit_test_setup_teardown(a_call_starts_a_round_and_leaving_answers_it, setup, teardown),
	};

	return cmocka_run_group_tests_name("server health", tests, NULL, NULL);
}
