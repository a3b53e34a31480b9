/* SPDX-License-Identifier: BSD-2-Clause */
/* Rules over evidence that was written by hand. */
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

#include "inspect/doctor/findings.gen.h"
#include "judged.h"

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

/* The first finding of `text` says `says`. */
static void check_says(const char *text, const char *says)
{
	struct findings *list = judge(text);

	assert_int_equal(list->count, 1);
	assert_string_equal(list->rows[0].says, says);
	findings_destroy(list);
}

#define REFUSED(names)                                                                                                     \
	"{" ALIVE ", \"events\": {\"nvmf_connect_refused\": {\"last\": [{\"ago_ms\": 9, \"args\": {\"status\": 386" names  \
	"}}]}}}}"

static void a_refused_host_may_have_no_name(void **state)
{
	(void)state;
	check_says(REFUSED(", \"hostnqn\": \"h\", \"subnqn\": \"s\""),
		   "the host h is refused by s: a parameter is not valid (does the subsystem exist?) (1 times)");
	check_says(REFUSED(", \"hostnqn\": \"\", \"subnqn\": \"\""),
		   "the host without a name is refused by a subsystem without a name: a parameter is not valid (does the "
		   "subsystem exist?) (1 times)");
}

static void the_figures_of_a_pool_have_an_age(void **state)
{
	struct findings *list = judge("{" ALIVE "}, \"answers\": {\"pools\": {\"pools\": [{\"name\": \"p\", "
				      "\"used_percent\": 100}]}}}");

	(void)state;
	assert_int_equal(list->count, 1);
	assert_string_equal(json_string_value(json_array_get(list->rows[0].shows, 1)),
			    "these figures can be 10 s old, or older if a reading of the space takes long");
	findings_destroy(list);
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

#define WRITES_OF_AN_HOUR                                                                                                  \
	"\"devices\": {\"d\": {\"writes\": {\"latest\": {\"count\": 99, \"us\": 8100, \"ms\": 60000}, "                    \
	"\"hour\": {\"count\": 6000, \"us\": 400, \"ms\": %d}}}}"
#define STAGE_OF_AN_HOUR                                                                                                   \
	"\"stages\": {\"bdev_io DISPATCHED\": {\"latest\": {\"count\": 99, \"us\": 8000}, "                                \
	"\"hour\": {\"count\": 6000, \"us\": 300, \"ms\": %d}}}"

/* The findings of a device and of a stage that were faster, with notes of `ms` in the hour before. */
static void check_when(int ms, const char *when)
{
	for (size_t i = 0; i < 2; i++) {
		char past[512], text[1024];
		struct findings *list;

		snprintf(past, sizeof(past), i == 0 ? WRITES_OF_AN_HOUR : STAGE_OF_AN_HOUR, ms);
		snprintf(text, sizeof(text), "{" ALIVE ", \"past\": {%s}}, \"answers\": {" FILE_DEVICE "}}", past);
		list = judge(text);
		assert_int_equal(list->count, 1);
		assert_true(strlen(list->rows[0].says) > strlen(when));
		assert_string_equal(list->rows[0].says + strlen(list->rows[0].says) - strlen(when), when);
		findings_destroy(list);
	}
}

static void the_past_is_no_longer_than_its_notes(void **state)
{
	(void)state;
	check_when(3600000, " in the hour before");
	check_when(2400000, " in the hour before");
	check_when(1500000, " in the 25 min before");
	check_when(260000, " in the 4 min before");
	check_when(30000, " in the 30 s before");
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

#define SPDK_ERRORS(before)                                                                                                \
	SPDK ", \"iostat_before\": {\"bdevs\": " before                                                                    \
	     "}, \"iostat\": {\"bdevs\": [{\"name\": \"d\", \"io_error\": {\"failed\": 3, \"aborted\": 1}}]}}"
#define SPDK_QUEUES ", \"poll_groups\": {\"poll_groups\": [{\"current_io_qpairs\": 2, \"pending_bdev_io\": 5}]}"
#define SPDK_HUNG                                                                                                          \
	"\"under_way\": [{\"object\": \"bdev_io\", \"stage\": \"START\", \"owner\": \"bdev_d\", \"hung\": 2, \"count\": "  \
	"2, \"stage_ms\": 9000}]"
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
	check_only("{\"process\": {\"pid\": 7}, " SPDK_ERRORS(
			   "[{\"name\": \"d\", \"io_error\": {\"failed\": 3, \"aborted\": 1}}]") "}",
		   "");
	check_only("{\"process\": {\"pid\": 7}, " SPDK_ERRORS(
			   "[{\"name\": \"d\", \"io_error\": {\"failed\": 2, \"aborted\": 1}}]") "}",
		   "device_fails");
	check_only("{\"process\": {\"pid\": 7}, " SPDK_ERRORS("[]") "}", ""); /* the device is new */
	check_only("{\"process\": {\"pid\": 7}, \"trace\": {\"spdk\": true, \"state\": \"alive\"}, " SPDK SPDK_QUEUES "}}",
		   "trace_incomplete");
	check_only("{\"process\": {\"pid\": 7}, \"trace\": {\"spdk\": true, \"state\": \"alive\", \"records_bdev\": "
		   "true, " SPDK_HUNG "}, " SPDK SPDK_QUEUES "}}",
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
	check_only("{\"core\": {\"path\": \"/c\", \"truncated\": true, \"crash\": {\"kind\": \"unknown\"}}}",
		   "core_incomplete");
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
		 "\"answers\": {\"devices\": [{\"name\": \"d\", \"product_name\": \"File\"}], "
		 "\"iostat_before\": {\"bdevs\": [{\"name\": \"d\", \"num_read_ops\": 0}]}, "
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
	evidence = json_pack("{s:{s:s, s:o}, s:{s:[{s:s, s:s}], s:{s:[{s:s, s:i}]}, s:{s:i, s:[{s:s, s:i, s:i}]}}}",
			     "trace", "state", "alive", "kept", kept, "answers", "devices", "name", "d", "product_name",
			     "File", "iostat_before", "bdevs", "name", "d", "num_read_ops", 900, "iostat", "tick_rate",
			     1000000, "bdevs", "name", "d", "num_read_ops", 1000, "read_latency_ticks", few * 1000000);
	assert_non_null(evidence);
	list = doctor_judge(evidence);
	assert_string_equal(list->count > 0 ? finding_name(&list->rows[0]) : "", name);
	findings_destroy(list);
	json_decref(evidence);
}

static void a_device_with_a_few_slow_ios_is_not_slow(void **state)
{
	(void)state;
	check_few(0, "");
	check_few(12, "rare_slow_io");
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
		 "\"executed\": {\"r\": {\"records\": 100, \"of_function\": %d, \"function\": \"f\"}}}}",
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
		cmocka_unit_test(threads_that_wait_for_each_others_locks_are_named),
		cmocka_unit_test(a_reactor_that_the_kernel_does_not_run_is_named),
		cmocka_unit_test(a_host_that_has_another_path_lost_one),
		cmocka_unit_test(a_host_floods_if_others_are_there),
		cmocka_unit_test(a_refused_host_may_have_no_name),
		cmocka_unit_test(the_figures_of_a_pool_have_an_age),
		cmocka_unit_test(a_device_is_compared_with_its_past),
		cmocka_unit_test(the_stage_that_grew_is_evidence),
		cmocka_unit_test(the_past_is_no_longer_than_its_notes),
		cmocka_unit_test(a_rate_that_drops_is_a_note),
		cmocka_unit_test(a_target_of_spdk_is_judged_by_what_it_offers),
		cmocka_unit_test(a_core_tells_how_its_process_ended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
