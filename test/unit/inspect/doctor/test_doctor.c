/* SPDX-License-Identifier: BSD-2-Clause */
/* The order of findings, rules over evidence that was written by hand, sources that hang or crash, and removed secrets. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "inspect/doctor/doctor.h"
#include "inspect/doctor/findings.gen.h"

/* ---- findings of evidence ---- */

static struct findings *judge(const char *text)
{
	json_error_t error;
	json_t *evidence = json_loads(text, 0, &error);
	struct findings *list;

	if (!evidence)
		fail_msg("%s: %s", error.text, text);
	list = doctor_judge(evidence);
	json_decref(evidence);
	return list;
}

/* The only finding of `text` is `name`; "": there is none. */
static void check_only(const char *text, const char *name)
{
	struct findings *list = judge(text);

	for (uint32_t i = 0; i < list->count; i++)
		assert_string_equal(finding_name(&list->rows[i]), i == 0 ? name : "one finding");
	if (list->count != (name[0] != '\0'))
		fail_msg("%u findings of %s", list->count, text);
	findings_destroy(list);
}

#define ALIVE "\"trace\": {\"state\": \"alive\", \"pid\": 7"

static void no_evidence_gives_no_finding(void **state)
{
	(void)state;
	check_only("{}", "");
	check_only("{" ALIVE "}}", "");
}

static void each_row_of_evidence_gives_its_finding(void **state)
{
	(void)state;
	check_only("{" ALIVE ", \"clock_steps\": [{\"by_ms\": -3600000, \"ago_ms\": 60000}]}}", "clock_stepped");
	check_only("{" ALIVE ", \"clock_steps\": [{\"by_ms\": -3600000, \"ago_ms\": 86400000}]}}", "");
	check_only("{" ALIVE ", \"clock_off_ms\": 5000}}", "clock_stepped");
	check_only("{" ALIVE ", \"silent_ms\": 6000}}", "process_silent");
	check_only("{" ALIVE "}, \"certificates\": {\"/a.crt\": {\"left_s\": -86400}}}", "certificate_expired");
	check_only("{" ALIVE "}, \"certificates\": {\"/a.crt\": {\"left_s\": 86400}}}", "certificate_expiring");
	check_only("{" ALIVE "}, \"certificates\": {\"/a.crt\": {\"left_s\": 31536000}}}", "");
	check_only("{" ALIVE "}, \"process\": {\"swapped_kib\": 500, \"resident_kib\": 1000}}", "memory_swapped");
	check_only("{" ALIVE "}, \"process\": {\"cgroups\": [{\"path\": \"/a\", \"memory\": 99, \"memory_max\": 100}]}}",
		   "memory_near_limit");
	check_only("{" ALIVE "}, \"files\": {\"systems\": {\"/a\": {\"read_only\": true}}}}", "file_system_read_only");
	check_only("{" ALIVE "}, \"files\": {\"systems\": {\"/a\": {\"inodes\": 9, \"inodes_free\": 0}}}}",
		   "inodes_exhausted");
	check_only("{" ALIVE "}, \"files\": {\"systems\": {\"/a\": {\"size\": 100000000, \"free\": 1900000}}}}",
		   "file_system_nearly_full");
	check_only("{" ALIVE "}, \"files\": {\"devices\": {\"/dev/sda\": {\"name\": \"sda\", \"errors\": 4}}}}",
		   "block_device_errors");
	check_only("{" ALIVE "}, \"answers\": {\"pools\": {\"storage\": {\"state\": \"FAILED\"}}}}", "storage_failed");
	check_only("{" ALIVE "}, \"answers\": {\"pools\": {\"pools\": [{\"name\": \"p\", \"used_percent\": 96}]}}}",
		   "pool_nearly_full");
	check_only("{" ALIVE "}, \"answers\": {\"pools\": {\"pools\": [{\"name\": \"p\", \"used_percent\": 100}]}}}",
		   "pool_full");
	check_only("{" ALIVE "}, \"answers\": {\"volumes\": [{\"name\": \"a\", \"state\": \"READ_ONLY\"}]}}", "data_lost");
	check_only("{" ALIVE "}, \"answers\": {\"control\": {\"instance\": 0, \"state\": \"READY\"}}}", "rank_not_joined");
	check_only("{" ALIVE "}, \"answers\": {\"control\": {\"state\": \"ALONE\"}}}", "");
	check_only("{" ALIVE "}, \"machine\": {\"times_before\": {\"all\": 100, \"steal\": 0}, "
		   "\"times\": {\"all\": 200, \"steal\": 20}}}",
		   "cpu_stolen");
	check_only("{" ALIVE ", \"under_way\": [{\"object\": \"nvmf_req\", \"stage\": \"EXECUTING\", \"hung\": 1}]}}",
		   "requests_waiting");
	check_only("{" ALIVE ", \"under_way\": [{\"object\": \"nvmf_req\", \"stage\": \"WAIT_EVENT\", \"resting\": true, "
		   "\"hung\": 1}]}}",
		   "");
	check_only("{" ALIVE "}, \"answers\": {\"missing\": \"no socket\"}}", "control_missing");
	check_only("{" ALIVE ", \"engine\": false}, \"answers\": {\"missing\": \"no socket\"}}", ""); /* a server */
	check_only("{" ALIVE "}, \"answers\": {\"silent\": \"no answer\"}}", "control_silent");
	check_only("{" ALIVE "}, \"answers\": {\"cores_silent\": \"no answer\"}}", "reactor_silent");
	check_only("{" ALIVE
		   "}, \"answers\": {\"cores_silent\": \"no answer\"}, \"machine\": {\"pressure\": {\"cpu\": 95}}}",
		   "cpu_contended");
	check_only("{" ALIVE "}, \"answers\": {\"control\": {\"state_file\": {\"state\": \"HELD\"}}}}",
		   "configuration_unsaved");
	check_only("{" ALIVE ", \"calls\": [{\"method\": \"m\", \"ago_ms\": 13000}]}}", "call_hangs");
	check_only("{" ALIVE ", \"calls\": [{\"method\": \"m\", \"ago_ms\": 11000}]}}", "");
	check_only("{" ALIVE ", \"messages\": [{\"thread\": \"t\", \"count\": 2, \"oldest_ms\": 2500}]}}",
		   "reactor_silent");
	check_only("{" ALIVE ", \"messages\": [{\"thread\": \"t\", \"count\": 2, \"oldest_ms\": 1500}]}}", "");
	check_only("{" ALIVE "}, \"answers\": {\"unfinished\": \"connecting to /s\"}}", "control_silent");
	check_only("{" ALIVE ", \"points_off\": 3}}", "trace_incomplete");
	check_only("{" ALIVE ", \"spdk\": true, \"points_off\": 3}}", "");
	check_only("{" ALIVE "}, \"process\": {\"core_pattern\": \"|/bin/keep\", \"limits\": {\"core\": 0}}}", "");
	check_only("{" ALIVE "}, \"process\": {\"core_pattern\": \"core\", \"limits\": {\"core\": null}}}", "");
	check_only("{" ALIVE
		   "}, \"process\": {\"core_pattern\": \"core\", \"resident_kib\": 9, \"limits\": {\"core\": 1024}}}",
		   "core_lost");
	check_only("{" ALIVE "}, \"process\": {\"core_pattern\": \"core\", \"coredump_filter\": 2}}", "core_lost");
	check_only("{" ALIVE "}, \"process\": {\"core_pattern\": \"core\", \"coredump_filter\": 51}}", "");
	check_only(
		"{" ALIVE
		"}, \"process\": {\"core_pattern\": \"/a/core\", \"core_folder\": {\"path\": \"/a\", \"missing\": true}}}",
		"core_lost");
	check_only("{" ALIVE "}, \"process\": {\"core_pattern\": \"core\", \"uid\": 7, \"core_folder\": {\"path\": \"/a\", "
		   "\"uid\": 0, \"mode\": 493}}}",
		   "core_lost");
	check_only("{" ALIVE "}, \"files\": {\"refused\": \"Permission denied\"}}", "evidence_missing");
}

/* ---- the past ---- */

#define FILE_DEVICE "\"devices\": [{\"name\": \"d\", \"product_name\": \"URING bdev\"}]"

/* A device that did `count` writes of `us` each in the last minute, and 6000 of `past_us` in the hour before. */
static void check_past(int count, int us, int past_us, const char *name)
{
	char text[1024];

	snprintf(text, sizeof(text),
		 "{" ALIVE
		 ", \"past\": {\"devices\": {\"d\": {\"writes\": {\"latest\": {\"count\": %d, \"us\": %d, \"ms\": 60000}, "
		 "\"hour\": {\"count\": 6000, \"us\": %d, \"ms\": 3600000}}}}}}, \"answers\": {" FILE_DEVICE "}}",
		 count, us, past_us);
	check_only(text, name);
}

static void a_device_is_compared_with_its_past(void **state)
{
	(void)state;
	check_past(100, 8100, 400, "latency_grew");
	check_past(100, 8100, 4000, "");	       /* twice as long */
	check_past(100, 2000, 400, "latency_changed"); /* no disk is that fast */
	check_past(100, 400, 40, "");		       /* short */
	check_past(10, 8100, 400, "");		       /* few */
	check_past(900, 8100, 400, "latency_changed"); /* it has more to do */
	check_past(100, 400, 8100, "");		       /* faster */
}

static void the_stage_that_grew_is_evidence(void **state)
{
	struct findings *list = judge(
		"{" ALIVE
		", \"past\": {\"devices\": {\"d\": {\"writes\": {\"latest\": {\"count\": 99, \"us\": 8100, \"ms\": 60000}, "
		"\"hour\": {\"count\": 6000, \"us\": 400, \"ms\": 3600000}}}}, \"stages\": {\"bdev_io DISPATCHED\": "
		"{\"latest\": "
		"{\"count\": 99, \"us\": 8000}, \"hour\": {\"count\": 6000, \"us\": 300}}, \"bdev_io SUBMITTED\": "
		"{\"latest\": "
		"{\"count\": 99, \"us\": 1}, \"hour\": {\"count\": 6000, \"us\": 1}}}}}, \"answers\": {" FILE_DEVICE "}}");

	(void)state;
	assert_int_equal(list->count, 1);
	assert_string_equal(list->rows[0].says,
			    "writes of d take longer than before: 8.1 ms in the last minute, 400 us in the "
			    "hour before");
	assert_int_equal(json_array_size(list->rows[0].shows), 2);
	assert_string_equal(json_string_value(json_array_get(list->rows[0].shows, 1)),
			    "the stage bdev_io DISPATCHED grew: 8.0 ms, before 300 us");
	findings_destroy(list);
}

/* I/Os of a device that ended while the doctor looked; it had `past` in the hour before, here in a recording. */
static void check_rate(int ended, int past, const char *name)
{
	char text[1024];

	snprintf(
		text, sizeof(text),
		"{" ALIVE
		", \"past\": {\"devices\": {\"d\": {}}}}, \"recording\": {\"past\": {\"devices\": {\"d\": {\"reads\": "
		"{\"hour\": {\"count\": %d, \"us\": 1, \"ms\": 3600000}}}}}}, \"answers\": {\"iostat_before\": {\"bdevs\": "
		"[{\"name\": \"d\", \"num_read_ops\": 7}]}, \"iostat\": {\"bdevs\": [{\"name\": \"d\", \"num_read_ops\": "
		"%d}]}}}",
		past, 7 + ended);
	check_only(text, name);
}

static void a_rate_that_drops_is_a_note(void **state)
{
	(void)state;
	check_rate(0, 360000, "rate_dropped");
	check_rate(5, 360000, "rate_dropped");
	check_rate(50, 360000, "");
	check_rate(0, 3600, ""); /* one a second: a pause */
}

/* ---- SPDK's targets ---- */

#define SPDK "\"answers\": {\"version\": {\"version\": \"SPDK v26.09\"}"

static void a_target_of_spdk_is_judged_by_what_it_offers(void **state)
{
	(void)state;
	check_only("{\"process\": {\"pid\": 7, \"interval_ms\": 1000, \"threads\": [{\"name\": \"reactor_0\", \"tid\": 7, "
		   "\"state\": "
		   "\"S\", \"ran_ms\": 0.0, \"syscall\": 230}]}, " SPDK "}}",
		   "reactor_blocked");
	check_only("{\"process\": {\"pid\": 7, \"interval_ms\": 1000, \"threads\": [{\"name\": \"reactor_0\", \"tid\": 7, "
		   "\"state\": "
		   "\"S\", \"ran_ms\": 0.0, \"syscall\": 232}]}, " SPDK "}}",
		   "");
	check_only("{\"process\": {\"pid\": 7}, " SPDK
		   ", \"threads_before\": {\"threads\": [{\"id\": 1, \"busy\": 5, \"idle\": 5}]}, "
		   "\"threads\": {\"threads\": [{\"id\": 1, \"busy\": 5, \"idle\": 5}]}}}",
		   "reactor_silent");
	check_only("{\"process\": {\"pid\": 7}, " SPDK
		   ", \"iostat_before\": {\"bdevs\": [{\"name\": \"d\"}]}, \"iostat\": {\"bdevs\": "
		   "[{\"name\": \"d\"}]}, \"poll_groups\": {\"poll_groups\": [{\"pending_bdev_io\": 3}]}}}",
		   "device_hung");
}

/* ---- cores ---- */

static void a_core_tells_how_its_process_ended(void **state)
{
	struct findings *list = judge("{\"core\": {\"path\": \"/c\", \"name\": \"fathom\", \"pid\": 7, \"crash\": "
				      "{\"kind\": \"must\", \"condition\": "
				      "\"a < b\", \"values\": \"a = 1\", \"place\": \"x.c:3\"}, \"threads\": [{\"tid\": 8, "
				      "\"name\": \"reactor_0\", \"stack\": "
				      "[\"abort()\"]}], \"requests\": [{\"stage\": \"EXECUTING\", \"device\": \"d\", "
				      "\"count\": 4, \"age_ms\": 1500, "
				      "\"oldest\": \"r3\"}]}}");

	(void)state;
	assert_int_equal(list->count, 1);
	assert_string_equal(list->rows[0].says, "fathom (pid 7) found a bug in itself and ended: must(a < b)");
	assert_string_equal(json_string_value(json_array_get(list->rows[0].shows, 0)), "at x.c:3");
	assert_string_equal(json_string_value(
				    json_array_get(list->rows[0].shows, json_array_size(list->rows[0].shows) - 1)),
			    "4 requests were in EXECUTING at d, the oldest (r3) for 1.500 s");
	findings_destroy(list);
	list = judge("{\"core\": {\"path\": \"/c\", \"name\": \"n\", \"pid\": 7, \"crash\": {\"kind\": \"signal\", "
		     "\"signal_name\": "
		     "\"SIGABRT\"}, \"threads\": [{\"stack\": [\"libc.so.6+0x8\", \"raise()\", \"abort() at a.c:1\", \"f() "
		     "at x.c:3\"]}]}}");
	assert_string_equal(list->rows[0].says, "n (pid 7) was ended by SIGABRT in f() at x.c:3");
	findings_destroy(list);
	check_only("{\"core\": {\"path\": \"/c\", \"crash\": {\"kind\": \"none\"}}}", "core_of_running");
}

/* Of the looks at a device: I/Os and ticks of both, and the I/Os under way. A tick is a microsecond. */
static void check_latency(int ios_before, int us_before, int ios, int us, int depth, const char *name)
{
	char text[1024];

	snprintf(text, sizeof(text),
		 "{" ALIVE "}, \"answers\": {\"devices\": [{\"name\": \"d\", \"product_name\": \"File\"}], "
		 "\"iostat_before\": {\"bdevs\": [{\"name\": \"d\", \"num_read_ops\": %d, "
		 "\"read_latency_ticks\": %d}]}, \"iostat\": {\"tick_rate\": 1000000, \"bdevs\": [{\"name\": \"d\", "
		 "\"num_read_ops\": %d, \"read_latency_ticks\": %d, \"queue_depth\": %d}]}}}",
		 ios_before, us_before, ios, us, depth);
	check_only(text, name);
}

static void a_device_is_slow_now_or_has_always_been(void **state)
{
	(void)state;
	check_latency(1000, 100000, 1010, 1100000, 0, "device_slow"); /* 100 ms each */
	check_latency(1000, 100000, 1010, 200000, 0, "");	      /* 10 ms each */
	check_latency(1000, 100000, 1002, 600000, 4, "");	      /* two slow ones of a fast device */
	check_latency(100, 20000000, 100, 20000000, 4, "device_slow");
	check_latency(100, 20000000, 100, 20000000, 0, ""); /* idle now */
}

/* A device takes 100 ms for an I/O, and the reactor waits `waited_ms` of a second for a CPU. */
static enum finding_certainty certainty_of_slow(int waited_ms)
{
	enum finding_certainty sure;
	struct findings *list;
	char text[1024];

	snprintf(text, sizeof(text),
		 "{" ALIVE ", \"threads\": [{\"name\": \"reactor_0\", \"tid\": 8, \"cpu\": 0}]}, "
		 "\"process\": {\"interval_ms\": 1000, \"threads\": [{\"tid\": 8, \"waited_ms\": %d}]}, "
		 "\"answers\": {\"iostat_before\": {\"bdevs\": [{\"name\": \"d\", \"num_read_ops\": 0}]}, "
		 "\"iostat\": {\"tick_rate\": 1000000, \"bdevs\": [{\"name\": \"d\", \"num_read_ops\": 10, "
		 "\"read_latency_ticks\": 1000000}]}}}",
		 waited_ms);
	list = judge(text);
	assert_string_equal(finding_name(&list->rows[0]), "device_slow");
	sure = list->rows[0].sure;
	findings_destroy(list);
	return sure;
}

static void what_a_busy_machine_explains_is_only_possible(void **state)
{
	(void)state;
	assert_int_equal(certainty_of_slow(100), FINDING_CERTAIN);
	assert_int_equal(certainty_of_slow(600), FINDING_POSSIBLE);
}

/* 100 I/Os ended while the doctor looked, `few` of them after a second each, all others at once. */
static void check_few(int few, const char *name)
{
	json_t *kept = json_array(), *evidence;
	struct findings *list;

	for (int i = 0; i < few; i++)
		json_array_append_new(kept, json_pack("{s:s, s:i, s:f}", "device", "d", "ago_ms", 500, "device_us", 1e6));
	evidence = json_pack("{s:{s:s, s:o}, s:{s:{s:[{s:s, s:i}]}, s:{s:i, s:[{s:s, s:i, s:i}]}}}", "trace", "state",
			     "alive", "kept", kept, "answers", "iostat_before", "bdevs", "name", "d", "num_read_ops", 900,
			     "iostat", "tick_rate", 1000000, "bdevs", "name", "d", "num_read_ops", 1000,
			     "read_latency_ticks", few * 1000000);
	assert_non_null(evidence);
	list = doctor_judge(evidence);
	assert_int_equal(list->count, name[0] ? 1 : 0);
	if (name[0])
		assert_string_equal(finding_name(&list->rows[0]), name);
	findings_destroy(list);
	json_decref(evidence);
}

static void a_device_with_a_few_slow_ios_is_not_slow(void **state)
{
	(void)state;
	check_few(0, "");
	check_few(12, "");
	check_few(13, "device_slow");
}

static void without_a_socket_the_trace_says_whether_ios_end(void **state)
{
#define WAITS ALIVE ", \"under_way\": [{\"object\": \"bdev_io\", \"stage\": \"DISPATCHED\", \"owner\": \"d\", \"hung\": 1}]"
	(void)state;
	check_only("{" WAITS "}}", "device_hung");
	check_only("{" WAITS ", \"ended_ios\": {\"e\": 4}}}", "device_hung");
	check_only("{" WAITS ", \"ended_ios\": {\"d\": 4}}}", "command_lost");
}

/* Records of rare events of a reactor in a second; of 100 that were read, `of_function` are of messages of one function. */
static void check_messages(int records, int of_function, const char *name)
{
	char text[1024];

	snprintf(text, sizeof(text),
		 "{" ALIVE ", \"interval_ms\": 1000, \"threads_before\": [{\"name\": \"r\", \"rare\": 50}], "
		 "\"threads\": [{\"name\": \"r\", \"rare\": %d}], "
		 "\"messages\": {\"r\": {\"records\": 100, \"of_function\": %d, \"function\": \"f\"}}}}",
		 50 + records, of_function);
	check_only(text, name);
}

static void messages_without_a_pause_are_a_storm(void **state)
{
	(void)state;
	check_messages(100000, 50, "message_storm");
	check_messages(1000, 50, "");
	check_messages(100000, 10, ""); /* of many functions: hosts connect */
}

static void commands_name_the_engine(void **state)
{
	struct findings *list = judge(
		"{" ALIVE "}, \"answers\": {\"socket\": \"/e.sock\", \"pools\": {\"storage\": {\"state\": \"FAILED\"}}}}");

	(void)state;
	assert_int_equal(list->count, 1);
	assert_string_equal(json_string_value(json_array_get(list->rows[0].see, 0)),
			    "fathom rpc -s /e.sock pool_get_pools");
	findings_destroy(list);
}

/* A thread with the state and CPU time of the kernel's view, that has run one poller for 3 s. */
static void check_thread(const char *thread, const char *kernel, const char *name)
{
	char text[1024];

	snprintf(text, sizeof(text),
		 "{" ALIVE ", \"threads\": [{\"name\": \"%s\", \"tid\": 8, \"running\": \"p\", \"running_ms\": 3000}]}, "
		 "\"process\": {\"interval_ms\": 1000, \"threads\": [{\"tid\": 8, %s}]}}",
		 thread, kernel);
	check_only(text, name);
}

static void a_thread_that_does_not_turn_waits_or_uses_the_cpu(void **state)
{
	(void)state;
	check_thread("reactor_0", "\"state\": \"R\", \"ran_ms\": 900", "reactor_runaway");
	check_thread("reactor_0", "\"state\": \"S\", \"ran_ms\": 900", "reactor_runaway");
	check_thread("reactor_0", "\"state\": \"S\", \"ran_ms\": 0, \"syscall\": 230", "reactor_blocked");
	check_thread("control", "\"state\": \"D\", \"ran_ms\": 0, \"wchan\": \"folio_wait\"", "control_blocked");
	check_thread("control", "\"state\": \"R\", \"ran_ms\": 990", "control_runaway");
	check_thread("control", "\"state\": \"R\", \"ran_ms\": 10, \"waited_ms\": 900", "cpu_contended");
}

/* Two threads of the engine, as the kernel shows them, in two looks with a second between. */
static void check_threads(const char *reactor, const char *other, const char *name)
{
	char text[1024];

	snprintf(text, sizeof(text),
		 "{" ALIVE ", \"threads\": [{\"name\": \"reactor_0\", \"tid\": 8, \"cpu\": 1}]}, \"process\": "
		 "{\"interval_ms\": 1000, \"threads\": [{\"tid\": 8, %s}, {\"tid\": 9, \"name\": \"other\", %s}]}}",
		 reactor, other);
	check_only(text, name);
}

static void threads_that_wait_for_each_others_locks_are_named(void **state)
{
	struct findings *list;

	(void)state;
	check_threads("\"lock\": \"0x10\", \"lock_owner\": 9, \"ran_ms\": 0",
		      "\"lock\": \"0x20\", \"lock_owner\": 8, \"ran_ms\": 0", "threads_deadlocked");
	/* one of them runs again; one has the lock and waits for nothing; the owner is of no thread; it waits for itself */
	check_threads("\"lock\": \"0x10\", \"lock_owner\": 9, \"ran_ms\": 1",
		      "\"lock\": \"0x20\", \"lock_owner\": 8, \"ran_ms\": 0", "");
	check_threads("\"lock\": \"0x10\", \"lock_owner\": 9, \"ran_ms\": 0", "\"ran_ms\": 0", "");
	check_threads("\"lock\": \"0x10\", \"lock_owner\": 7, \"ran_ms\": 0", "\"ran_ms\": 0", "");
	check_threads("\"lock\": \"0x10\", \"lock_owner\": 8, \"ran_ms\": 0", "\"ran_ms\": 0", "threads_deadlocked");
	list = judge("{" ALIVE "}, \"process\": {\"threads\": ["
		     "{\"tid\": 3, \"name\": \"c\", \"lock\": \"0x1\", \"lock_owner\": 1, \"ran_ms\": 0},"
		     "{\"tid\": 1, \"name\": \"a\", \"lock\": \"0x2\", \"lock_owner\": 2, \"ran_ms\": 0},"
		     "{\"tid\": 2, \"name\": \"b\", \"lock\": \"0x1\", \"lock_owner\": 1, \"ran_ms\": 0}]}}");
	assert_int_equal(list->count, 1); /* c waits, too, but is not in the circle */
	assert_non_null(strstr(list->rows[0].says, ": a (tid 1) for b, b (tid 2) for a"));
	findings_destroy(list);
}

static void a_reactor_that_the_kernel_does_not_run_is_named(void **state)
{
	struct findings *list;

	(void)state;
	check_threads("\"state\": \"D\", \"wchan\": \"__refrigerator\", \"ran_ms\": 0", "\"ran_ms\": 0", "reactor_not_run");
	check_threads("\"state\": \"R\", \"waited_ms\": 500, \"ran_ms\": 0.5", "\"ran_ms\": 0", "cpu_contended");
	check_threads("\"state\": \"S\", \"wchan\": \"ep_poll\", \"ran_ms\": 0", "\"ran_ms\": 0", ""); /* it is idle */
	list = judge("{" ALIVE
		     ", \"threads\": [{\"name\": \"reactor_0\", \"tid\": 8}]}, \"process\": {\"interval_ms\": 1000, "
		     "\"threads\": [{\"tid\": 8, \"waited_ms\": 990, \"ran_ms\": 0}]}}");
	assert_int_equal(list->count, 2);
	assert_string_equal(finding_name(&list->rows[0]), "reactor_not_run");
	assert_int_equal(list->rows[1].cause, 0);
	findings_destroy(list);
}

/* ---- hosts ---- */

#define EXPIRED                                                                                                            \
	"\"events\": {\"nvmf_ctrlr_keep_alive_expired\": {\"last\": [{\"ago_ms\": 5, \"args\": {\"hostnqn\": \"h\", "      \
	"\"address\": \"b\"}}]}}"
#define QUEUE(host, address) "{\"hostnqn\": \"" host "\", \"qid\": 0, \"listen_address\": {\"traddr\": \"" address "\"}}"

static void a_host_that_has_another_path_lost_one(void **state)
{
	struct findings *list = judge("{" ALIVE ", " EXPIRED
				      "}, \"answers\": {\"qpairs\": {\"n\": [" QUEUE("h", "a") "]}}}");

	(void)state;
	assert_int_equal(list->count, 2);
	assert_string_equal(finding_name(&list->rows[0]), "path_lost");
	assert_string_equal(finding_name(&list->rows[1]), "keep_alive_expired");
	assert_int_equal(list->rows[1].cause, 0);
	findings_destroy(list);
	check_only("{" ALIVE ", " EXPIRED "}, \"answers\": {\"qpairs\": {\"n\": []}}}", "keep_alive_expired");
	/* it has connected there again; another host has the other path */
	check_only("{" ALIVE ", " EXPIRED
		   "}, \"answers\": {\"qpairs\": {\"n\": [" QUEUE("h", "a") ", " QUEUE("h", "b") "]}}}",
		   "keep_alive_expired");
	check_only("{" ALIVE ", " EXPIRED "}, \"answers\": {\"qpairs\": {\"n\": [" QUEUE("g", "a") "]}}}",
		   "keep_alive_expired");
}

/* Two hosts on a reactor that is busy for `busy` % of the time; commands of both in two looks. */
static void check_flood(int busy, int of_first, int of_second, const char *name)
{
	char text[2048];

	snprintf(text, sizeof(text),
		 "{" ALIVE ", \"threads\": [{\"name\": \"reactor_0\", \"tid\": 8}]}, "
		 "\"process\": {\"interval_ms\": 100, \"threads\": [{\"tid\": 8, \"ran_ms\": %d}]}, "
		 "\"answers\": {\"qpairs_ms\": 1000, \"qpairs_before\": {\"n\": [{\"hostnqn\": \"a\", \"qid\": 1, "
		 "\"num_commands\": 7}]}, "
		 "\"qpairs\": {\"n\": [{\"hostnqn\": \"a\", \"qid\": 1, \"num_commands\": %d}, "
		 "{\"hostnqn\": \"b\", \"qid\": 1, \"num_commands\": %d}]}}}",
		 busy, 7 + of_first, of_second);
	check_only(text, name);
}

static void a_host_floods_if_others_are_there(void **state)
{
	(void)state;
	check_flood(95, 900, 100, "host_floods");
	check_flood(95, 700, 300, "");
	check_flood(95, 900, 0, ""); /* no other host sends */
	check_flood(40, 900, 100, "");
}

/* ---- the past ---- */

/* Of I/O errors of the device "d", the first and the last so long ago. */
static void check_ended(int count, int64_t newest_ms, int64_t oldest_ms, const char *health, int64_t ended_ms)
{
	json_t *events = json_array(), *evidence;
	struct findings *list;

	for (int i = 0; i < count; i++) {
		int64_t ago_ms = count > 1 ? newest_ms + (oldest_ms - newest_ms) * i / (count - 1) : newest_ms;

		json_array_append_new(events, json_pack("{s:I, s:{s:s, s:s}}", "ago_ms", (json_int_t)ago_ms, "args",
							"device", "d", "status", "FAILED"));
	}
	evidence = json_pack("{s:{s:s, s:{s:{s:o}}}}", "trace", "state", "alive", "events", "bdev_io_error", "last",
			     events);
	assert_non_null(evidence);
	list = doctor_judge(evidence);
	assert_int_equal(list->count, 1);
	assert_string_equal(finding_name(&list->rows[0]), "device_fails");
	assert_string_equal(doctor_health(list), health);
	assert_int_equal(list->rows[0].ended_ms, ended_ms);
	findings_destroy(list);
	json_decref(evidence);
}

static void a_fault_without_signs_is_of_the_past(void **state)
{
	(void)state;
	check_ended(20, 1000, 9000, "degraded", -1);
	check_ended(1, 29000, 29000, "degraded", -1);
	check_ended(1, 31000, 31000, "healthy", 31000);
	check_ended(20, 31000, 40000, "healthy", 31000);
	check_ended(3, 31000, 400000, "healthy", 31000);    /* too few to have an interval */
	check_ended(10, 50000, 500000, "degraded", -1);	    /* one in 50 s: the next may come */
	check_ended(10, 110000, 500000, "healthy", 110000); /* it did not */
}

/* A host's keep-alives stopped 60 s ago; the host `returned` connected 50 s ago. */
static void check_returned(const char *returned, int64_t ended_ms)
{
	struct findings *list;
	char text[512];

	snprintf(text, sizeof(text),
		 "{" ALIVE ", \"events\": {\"nvmf_ctrlr_keep_alive_expired\": {\"last\": [{\"ago_ms\": 60000, \"args\": "
		 "{\"hostnqn\": \"h\"}}]}, \"nvmf_subsystem_add_ctrlr\": {\"last\": [{\"ago_ms\": 50000, \"args\": "
		 "{\"hostnqn\": \"%s\"}}, {\"ago_ms\": 99000, \"args\": {\"hostnqn\": \"h\"}}]}}}}",
		 returned);
	list = judge(text);
	assert_int_equal(list->count, 1);
	assert_string_equal(finding_name(&list->rows[0]), "keep_alive_expired");
	assert_int_equal(list->rows[0].ended_ms, ended_ms);
	findings_destroy(list);
}

static void a_host_that_has_not_returned_is_of_the_present(void **state)
{
	(void)state;
	check_returned("h", 60000);
	check_returned("other", -1);
}

/* A device reported 5,000 s ago that data are lost. `removals`: events; `devices`: what the engine has now. */
static void check_removed(const char *removals, const char *devices, int64_t ended_ms)
{
	struct findings *list;
	char text[1024];

	snprintf(text, sizeof(text),
		 "{" ALIVE
		 ", \"events\": {\"bdev_condition\": {\"last\": [{\"ago_ms\": 5000000, \"args\": {\"device\": \"d\", "
		 "\"condition\": \"DATA_LOST\", \"value\": 5}}]}, \"bdev_unregister\": {\"last\": [%s]}}}, "
		 "\"answers\": {%s}}",
		 removals, devices);
	list = judge(text);
	assert_int_equal(list->count, 1);
	assert_int_equal(list->rows[0].ended_ms, ended_ms);
	findings_destroy(list);
}

/* Otherwise it is of the present until the engine starts again. */
static void what_a_removed_device_reported_is_of_the_past(void **state)
{
#define D "\"devices\": [{\"name\": \"d\"}]"
	(void)state;
	check_removed("", D, -1);
	check_removed("", "\"devices\": [{\"name\": \"e\"}]", 5000000);
	check_removed("", "", -1); /* no answers */
	check_removed("{\"ago_ms\": 4000000, \"args\": {\"device\": \"d\"}}", D, 5000000);
	check_removed("{\"ago_ms\": 4000000, \"args\": {\"device\": \"e\"}}", D, -1);
	check_removed("{\"ago_ms\": 6000000, \"args\": {\"device\": \"d\"}}", D, -1);
}

static void the_past_stands_below_the_present_and_above_notes(void **state)
{
	struct findings *list = findings_create();
	char *text = NULL;
	size_t bytes = 0;
	FILE *to = open_memstream(&text, &bytes);
	json_t *report;

	(void)state;
	(void)find_core_lost(list, FINDING_CERTAIN, "why");
	finding_end(find_descriptors_exhausted(list, FINDING_CERTAIN, 9, 9), 61000);
	finding_end(find_host_refused(list, FINDING_CERTAIN, "h", "s", "why", 1), 40000);
	(void)find_connections_refused(list, FINDING_CERTAIN, 1, "why", "1 s");
	(void)find_cgroup_throttled(list, FINDING_CERTAIN, "/", 50, "1 CPU");
	findings_order(list);
	assert_string_equal(finding_name(&list->rows[0]), "cgroup_throttled");
	assert_string_equal(finding_name(&list->rows[1]), "connections_refused");
	assert_int_equal(list->rows[1].cause, -1); /* its cause is of the past */
	assert_string_equal(finding_name(&list->rows[2]), "descriptors_exhausted");
	assert_string_equal(finding_name(&list->rows[3]), "host_refused");
	assert_int_equal(list->rows[3].cause, 2);
	assert_string_equal(finding_name(&list->rows[4]), "core_lost");
	assert_string_equal(doctor_health(list), "degraded");
	doctor_print(list, "e", to);
	fclose(to);
	assert_non_null(strstr(text, "past      131 descriptors_exhausted (certain)\n"));
	assert_non_null(strstr(text, "ended     its last sign was 1 min 1 s ago; it was broken\n"));
	report = doctor_json(list);
	assert_true(json_is_null(json_object_get(json_array_get(json_object_get(report, "findings"), 0), "ended_ms_ago")));
	assert_int_equal(json_integer_value(
				 json_object_get(json_array_get(json_object_get(report, "findings"), 2), "ended_ms_ago")),
			 61000);
	json_decref(report);
	free(text);
	findings_destroy(list);
}

/* ---- the end of a process ---- */

static void the_file_of_a_dead_process_says_how_it_ended(void **state)
{
	struct findings *list;

	(void)state;
	check_only("{\"trace\": {\"state\": \"dead\", \"died\": true}}", "process_killed");
	check_only("{\"trace\": {\"state\": \"dead\", \"died\": false}}", ""); /* a copy of a live engine's file */
	check_only("{\"trace\": {\"state\": \"dead\", \"died\": true, \"recording\": true}}", "trace_copy");
	check_only("{\"trace\": {\"state\": \"dead\", \"died\": true, \"pid_runs\": true}}", "trace_copy");
	check_only("{\"trace\": {\"state\": \"ended\"}}", "process_ended");
	check_only("{\"trace\": {\"state\": \"dead\", \"died\": true, \"frozen\": {\"why\": \"must\"}}}", "must_failed");
	check_only("{\"trace\": {\"state\": \"dead\", \"died\": true, \"frozen\": {\"why\": \"signal\", \"signal\": 11}}}",
		   "process_crashed");
	list = judge("{\"trace\": {\"state\": \"dead\", \"died\": true, \"frozen\": {\"why\": \"signal\", \"signal\": 11, "
		     "\"place\": "
		     "\"/bin/e\"}, \"crash\": {\"function\": \"f+0x1\", \"backtrace\": [\"f+0x1\", \"g+0x2\"]}}}");
	assert_non_null(strstr(list->rows[0].says, "was ended by SIGSEGV in f+0x1"));
	assert_string_equal(json_string_value(json_array_get(list->rows[0].shows, 1)), "called from g+0x2");
	findings_destroy(list);
	check_only("{\"trace\": {\"state\": \"dead\", \"died\": true, \"pid\": 7, \"last_sign_s\": 100}, "
		   "\"machine\": {\"kills\": [{\"pid\": 7, \"at_s\": 101}]}}",
		   "killed_out_of_memory");
	check_only("{\"trace\": {\"state\": \"dead\", \"died\": true, \"pid\": 7, \"last_sign_s\": 100}, "
		   "\"machine\": {\"kills\": [{\"pid\": 7, \"at_s\": 9000}]}}",
		   "process_killed");
}

/* ---- order ---- */

static void a_request_that_no_device_has_is_lost_by_the_engine(void **state)
{
	struct findings *list = judge("{" ALIVE
				      ", \"under_way\": [{\"object\": \"nvmf_req\", \"stage\": \"EXECUTING\", \"hung\": 2, "
				      "\"count\": 3, \"without_io\": 1, \"stage_ms\": 9000, \"oldest\": \"r3\"}]}}");

	(void)state;
	assert_int_equal(list->count, 2);
	assert_string_equal(finding_name(&list->rows[0]), "request_leaked");
	assert_string_equal(finding_name(&list->rows[1]), "requests_waiting");
	assert_int_equal(list->rows[1].cause, 0);
	findings_destroy(list);
}

static void causes_stand_above_what_follows_from_them(void **state)
{
	struct findings *list = findings_create();

	(void)state;
	(void)find_core_lost(list, FINDING_CERTAIN, "why");
	(void)find_requests_waiting(list, FINDING_CERTAIN, "EXECUTING", 1, "3 s");
	(void)find_host_refused(list, FINDING_CERTAIN, "h", "s", "why", 1);
	(void)find_device_hung(list, FINDING_CERTAIN, "d", 1, "3 s");
	(void)find_cgroup_throttled(list, FINDING_CERTAIN, "/", 50, "1 CPU");
	(void)find_file_system_hangs(list, FINDING_CERTAIN, "/a", "statvfs");
	findings_order(list);
	assert_int_equal(list->count, 6);
	assert_string_equal(finding_name(&list->rows[0]), "file_system_hangs");
	assert_string_equal(finding_name(&list->rows[1]), "device_hung");
	assert_string_equal(finding_name(&list->rows[2]), "requests_waiting");
	assert_int_equal(list->rows[1].cause, 0);
	assert_int_equal(list->rows[2].cause, 0);
	assert_string_equal(finding_name(&list->rows[3]), "cgroup_throttled");
	assert_string_equal(finding_name(&list->rows[4]), "host_refused");
	assert_string_equal(finding_name(&list->rows[5]), "core_lost");
	assert_int_equal(list->rows[3].cause, -1);
	assert_string_equal(doctor_health(list), "broken");
	findings_destroy(list);
}

static void effects_of_effects_stand_below_the_first_cause(void **state)
{
	struct findings *list = findings_create();

	(void)state;
	/* a chain of three; two causes of one effect; a cause less severe than its effect; two findings of one kind */
	(void)find_requests_waiting(list, FINDING_CERTAIN, "EXECUTING", 1, "3 s");
	(void)find_device_hung(list, FINDING_CERTAIN, "d", 1, "3 s");
	(void)find_reactor_blocked(list, FINDING_CERTAIN, "r", "p", "3 s", "w");
	(void)find_cgroup_throttled(list, FINDING_CERTAIN, "/", 50, "1 CPU");
	(void)find_device_hung(list, FINDING_CERTAIN, "e", 1, "3 s");
	findings_order(list);
	assert_string_equal(finding_name(&list->rows[0]), "reactor_blocked");
	for (uint32_t i = 1; i < 4; i++)
		assert_int_equal(list->rows[i].cause, 0);
	assert_string_equal(finding_name(&list->rows[4]), "cgroup_throttled"); /* it explains the devices, too */
	for (uint32_t i = 0; i < list->count; i++) /* no cause has a cause: the report has two levels */
		assert_true(list->rows[i].cause < 0 || list->rows[list->rows[i].cause].cause < 0);
	findings_destroy(list);
}

/* Each pair of all kinds: never does one explain the other and the other the one. */
static void no_two_kinds_explain_each_other(void **state)
{
	(void)state;
	for (uint32_t a = 0; a < FINDING_ROWS; a++) {
		for (uint32_t b = a; b < FINDING_ROWS; b++) {
			struct findings *list = findings_create();

			(void)finding_set(finding_add(list, b, FINDING_CERTAIN), finding_text("b"), finding_text("b"));
			(void)finding_set(finding_add(list, a, FINDING_CERTAIN), finding_text("a"), finding_text("a"));
			findings_order(list);
			assert_int_equal(list->count, 2);
			assert_int_equal(list->rows[0].cause, -1);
			assert_true(list->rows[1].cause <= 0);
			if (list->rows[1].cause == 0)
				assert_true(list->rows[0].row == a && a != b); /* a cause's row is above */
			findings_destroy(list);
		}
	}
}

static void a_full_list_counts_what_it_leaves_out(void **state)
{
	struct findings *list = findings_create();

	(void)state;
	for (int i = 0; i < FINDINGS_MAX + 3; i++)
		finding_shows(find_core_lost(list, FINDING_CERTAIN, "why"), "evidence");
	findings_order(list);
	assert_int_equal(list->count, FINDINGS_MAX);
	assert_int_equal(list->left_out, 3);
	findings_destroy(list);
}

/* ---- sources ---- */

static void look_and_hang(struct doctor_out *out, const void *ctx)
{
	(void)ctx;
	doctor_put(out, "seen", json_integer(1));
	doctor_step(out, "a call that %s", "hangs");
	pause();
}

static void look_and_crash(struct doctor_out *out, const void *ctx)
{
	(void)ctx;
	doctor_put(out, "seen", json_integer(2));
	signal(SIGTERM, SIG_DFL);
	raise(SIGTERM);
}

static void look_well(struct doctor_out *out, const void *ctx)
{
	doctor_step(out, "a step");
	doctor_put(out, "seen", json_integer(*(const int *)ctx));
}

static void a_source_that_hangs_or_crashes_costs_only_itself(void **state)
{
	static const int three = 3;
	const struct doctor_source sources[] = { { "a", look_and_hang, NULL },
						 { "b", look_and_crash, NULL },
						 { "c", look_well, &three } };
	json_t *evidence = doctor_look(sources, 3, 2000), *expected;

	(void)state;
	expected = json_pack("{s:{s:i, s:s}, s:{s:i, s:s}, s:{s:i}}", "a", "seen", 1, "unfinished", "a call that hangs",
			     "b", "seen", 2, "crashed", "looking at the b ended with signal 15", "c", "seen", 3);
	assert_non_null(expected);
	assert_true(json_equal(evidence, expected));
	json_decref(evidence);
	json_decref(expected);
}

static void this_process_can_be_looked_at(void **state)
{
	int32_t pid = getpid();
	const struct doctor_source sources[] = { { "process", doctor_look_process, &pid },
						 { "machine", doctor_look_machine, &pid },
						 { "files", doctor_look_files, &pid },
						 { "trace", doctor_look_trace, "/nonexistent" } };
	json_t *evidence = doctor_look(sources, 4, 60000), *process = json_object_get(evidence, "process");

	(void)state;
	assert_int_equal(json_integer_value(json_object_get(process, "pid")), pid);
	assert_non_null(json_object_get(process, "program"));
	assert_true(json_array_size(json_object_get(process, "threads")) >= 1);
	assert_non_null(json_object_get(json_object_get(evidence, "machine"), "neighbours"));
	assert_non_null(json_object_get(json_object_get(evidence, "trace"), "refused"));
	assert_null(json_object_get(process, "unfinished"));
	findings_destroy(doctor_judge(evidence));
	json_decref(evidence);
}

/* ---- the report ---- */

static void secrets_are_removed_at_every_depth(void **state)
{
	json_t *evidence = json_pack("{s:[{s:s, s:s}], s:{s:s}}", "a", "dhchap_key", "x", "name", "n", "b", "psk", "y");
	json_t *clean = doctor_without_secrets(evidence), *expected;

	(void)state;
	expected = json_pack("{s:[{s:s, s:s}], s:{s:s}}", "a", "dhchap_key", "(removed)", "name", "n", "b", "psk",
			     "(removed)");
	assert_true(json_equal(clean, expected));
	json_decref(evidence);
	json_decref(clean);
	json_decref(expected);
}

static void keys_are_erased_wherever_they_stand(void **state)
{
	char text[] = "a NVMeTLSkey-1:01:abc/+=: b \0 DHHC-1:00:xyz: c\n-----BEGIN EC PRIVATE KEY-----\nAB\nCD\n-----END "
		      "EC PRIVATE "
		      "KEY-----\nd -----BEGIN CERTIFICATE-----\nEF\n";
	static const char expected[] =
		"a NVMeTLSkey-1:********** b \0 DHHC-1:******* c\n-----BEGIN EC PRIVATE KEY-----\n**\n**\n"
		"-----END EC PRIVATE KEY-----\nd -----BEGIN CERTIFICATE-----\nEF\n";
	json_t *evidence = json_pack("{s:s, s:[s], s:{s:s}}", "log", "login with password=abc, then", "list",
				     "token: \"xyz\" x", "inner", "text", "key NVMeTLSkey-1:01:abc:");
	json_t *clean = doctor_without_secrets(evidence), *wanted;

	(void)state;
	doctor_erase_keys(text, sizeof(text) - 1);
	assert_memory_equal(text, expected, sizeof(text));
	wanted = json_pack("{s:s, s:[s], s:{s:s}}", "log", "login with password=***, then", "list", "token: \"***\" x",
			   "inner", "text", "key NVMeTLSkey-1:*******");
	assert_true(json_equal(clean, wanted));
	json_decref(evidence);
	json_decref(clean);
	json_decref(wanted);
}

static void the_report_has_each_finding_as_text_and_json(void **state)
{
	struct findings *list = findings_create();
	char *text = NULL;
	size_t bytes = 0;
	FILE *to = open_memstream(&text, &bytes);
	json_t *report, *row;

	(void)state;
	finding_see(find_process_stopped(list, FINDING_CERTAIN, "fathom", 7), "cat %s", "it");
	findings_order(list);
	doctor_print(list, "fathom (pid 7)", to);
	fclose(to);
	assert_non_null(strstr(text, "fathom (pid 7): broken, 1 finding\n"));
	assert_non_null(strstr(text, "broken    113 process_stopped (certain)\n"));
	assert_non_null(strstr(text, "see       cat it\n"));
	report = doctor_json(list);
	assert_string_equal(json_string_value(json_object_get(report, "health")), "broken");
	row = json_array_get(json_object_get(report, "findings"), 0);
	assert_int_equal(json_integer_value(json_object_get(row, "code")), 113);
	assert_true(json_is_null(json_object_get(row, "because_of")));
	json_decref(report);
	findings_destroy(list);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_evidence_gives_no_finding),
		cmocka_unit_test(each_row_of_evidence_gives_its_finding),
		cmocka_unit_test(a_device_is_slow_now_or_has_always_been),
		cmocka_unit_test(what_a_busy_machine_explains_is_only_possible),
		cmocka_unit_test(a_device_with_a_few_slow_ios_is_not_slow),
		cmocka_unit_test(without_a_socket_the_trace_says_whether_ios_end),
		cmocka_unit_test(messages_without_a_pause_are_a_storm),
		cmocka_unit_test(commands_name_the_engine),
		cmocka_unit_test(a_thread_that_does_not_turn_waits_or_uses_the_cpu),
		cmocka_unit_test(a_fault_without_signs_is_of_the_past),
		cmocka_unit_test(a_host_that_has_not_returned_is_of_the_present),
		cmocka_unit_test(what_a_removed_device_reported_is_of_the_past),
		cmocka_unit_test(the_past_stands_below_the_present_and_above_notes),
		cmocka_unit_test(threads_that_wait_for_each_others_locks_are_named),
		cmocka_unit_test(a_reactor_that_the_kernel_does_not_run_is_named),
		cmocka_unit_test(a_host_that_has_another_path_lost_one),
		cmocka_unit_test(a_host_floods_if_others_are_there),
		cmocka_unit_test(a_request_that_no_device_has_is_lost_by_the_engine),
		cmocka_unit_test(the_file_of_a_dead_process_says_how_it_ended),
		cmocka_unit_test(causes_stand_above_what_follows_from_them),
		cmocka_unit_test(a_device_is_compared_with_its_past),
		cmocka_unit_test(the_stage_that_grew_is_evidence),
		cmocka_unit_test(a_rate_that_drops_is_a_note),
		cmocka_unit_test(a_target_of_spdk_is_judged_by_what_it_offers),
		cmocka_unit_test(a_core_tells_how_its_process_ended),
		cmocka_unit_test(effects_of_effects_stand_below_the_first_cause),
		cmocka_unit_test(no_two_kinds_explain_each_other),
		cmocka_unit_test(keys_are_erased_wherever_they_stand),
		cmocka_unit_test(a_full_list_counts_what_it_leaves_out),
		cmocka_unit_test(a_source_that_hangs_or_crashes_costs_only_itself),
		cmocka_unit_test(this_process_can_be_looked_at),
		cmocka_unit_test(secrets_are_removed_at_every_depth),
		cmocka_unit_test(the_report_has_each_finding_as_text_and_json),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
