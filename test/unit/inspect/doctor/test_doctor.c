/* SPDX-License-Identifier: BSD-2-Clause */
/* The order of findings, present and past; sources that hang or crash; removed secrets. */
#include <limits.h>
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
#include "../core/make_core.h"
#include "inspect/doctor/internal.h"
#include "judged.h"

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

/* Is `line` in the evidence of the first finding? */
static bool is_shown(const struct findings *list, const char *line)
{
	const json_t *row;
	size_t i;

	assert_true(list->count > 0);
	json_array_foreach (list->rows[0].shows, i, row) {
		if (strcmp(json_string_value(row), line) == 0)
			return true;
	}
	return false;
}

/* What the thread that crashed ran. */
static void check_ran(const char *thread, const char *line)
{
	struct findings *list;
	char text[512];

	snprintf(text, sizeof(text),
		 "{\"trace\": {\"state\": \"dead\", \"died\": true, \"frozen\": {\"why\": \"signal\", \"signal\": 11, "
		 "\"tid\": 9}, \"threads\": [{\"tid\": 9, %s}]}}",
		 thread);
	list = judge(text);
	assert_true(is_shown(list, line));
	findings_destroy(list);
}

/* The signal's code, the sender in the report, and what the doctor shows of them. */
static void check_signal(int code, int sender, const char *shown)
{
	struct findings *list;
	char text[512], line[128];

	snprintf(text, sizeof(text),
		 "{\"trace\": {\"state\": \"dead\", \"died\": true, \"pid\": 7, \"frozen\": {\"why\": \"signal\", "
		 "\"signal\": 11, \"code\": %d, \"address\": 64, \"tid\": 9}, \"crash\": {\"sender\": %d}}}",
		 code, sender);
	snprintf(line, sizeof(line), "thread 9, at offset 0x0 of the file%s", shown);
	list = judge(text);
	assert_true(is_shown(list, line));
	findings_destroy(list);
}

static void a_signal_has_an_address_or_a_sender(void **state)
{
	(void)state;
	check_signal(SEGV_MAPERR, 0, ", address 0x40");
	check_signal(SI_KERNEL, 0, "");
	check_signal(SI_USER, 4242, ", sent by process 4242");
	check_signal(SI_TKILL, 7, ", sent by the process itself");
	check_signal(SI_USER, 0, ", sent by a process"); /* there is no report */
}

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
	check_ran("\"name\": \"reactor_0\", \"running\": \"poll\", \"of\": \"t\"", "thread reactor_0 ran poll of t");
	check_ran("\"name\": \"reactor_0\", \"running\": \"poll\"", "thread reactor_0 ran poll");
	check_ran("\"name\": \"control\", \"running\": \"\", \"of\": \"\"", "thread control ran no poller and no message");
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
	(void)find_host_not_reading(list, FINDING_CERTAIN, "h", 1, "3 s");
	(void)find_device_hung(list, FINDING_CERTAIN, "e", 1, "3 s");
	findings_order(list);
	assert_string_equal(finding_name(&list->rows[0]), "reactor_blocked");
	for (uint32_t i = 1; i < 4; i++)
		assert_int_equal(list->rows[i].cause, 0);
	assert_string_equal(finding_name(&list->rows[4]), "host_not_reading"); /* it explains the requests, too */
	for (uint32_t i = 0; i < list->count; i++) /* no cause has a cause: the report has two levels */
		assert_true(list->rows[i].cause < 0 || list->rows[list->rows[i].cause].cause < 0);
	findings_destroy(list);
}

/* A stopped process damages no disk and refuses no host: only what waits for it follows from that. */
static void what_has_its_own_cause_does_not_follow_from_the_process(void **state)
{
	struct findings *list = findings_create();

	(void)state;
	(void)find_process_stopped(list, FINDING_CERTAIN, "engine", 1);
	(void)find_control_silent(list, FINDING_CERTAIN, "/s", "time-out");
	(void)find_file_system_full(list, FINDING_CERTAIN, "/a", "0 B", "1 GiB");
	(void)find_data_lost(list, FINDING_CERTAIN, "d", "EIO");
	(void)find_checksum_mismatch(list, FINDING_CERTAIN, "d", 1);
	(void)find_host_refused(list, FINDING_CERTAIN, "h", "s", "why", 1);
	(void)find_rate_dropped(list, FINDING_POSSIBLE, "d", "0 a second", "100 a second", "hour");
	(void)find_core_lost(list, FINDING_CERTAIN, "why");
	findings_order(list);
	for (uint32_t i = 0; i < list->count; i++) {
		static const struct {
			const char *name;
			int32_t cause;
		} expected[] = { { "process_stopped", -1 },  { "control_silent", 0 }, { "rate_dropped", 0 },
				 { "file_system_full", -1 }, { "data_lost", 3 },      { "checksum_mismatch", -1 },
				 { "host_refused", -1 },     { "core_lost", -1 } };

		assert_string_equal(finding_name(&list->rows[i]), expected[i].name);
		assert_int_equal(list->rows[i].cause, expected[i].cause);
	}
	findings_destroy(list);
}

/* One stranger with a wrong name is no reason that another host ended its load. */
static void a_refused_host_does_not_explain_the_load_of_another(void **state)
{
	struct findings *list = findings_create();

	(void)state;
	(void)find_host_refused(list, FINDING_CERTAIN, "h", "s", "why", 1);
	(void)find_rate_dropped(list, FINDING_POSSIBLE, "d", "0 a second", "100 a second", "hour");
	findings_order(list);
	assert_int_equal(list->rows[0].cause, -1);
	assert_int_equal(list->rows[1].cause, -1);
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

/* ---- cores ---- */

static void put_core(const char *path, size_t bytes)
{
	static const struct made_core made = { .signal = SIGSEGV };
	static uint8_t core[MADE_BYTES_MAX];
	FILE *file = fopen(path, "we");
	size_t whole = make_core(&made, core);

	assert_non_null(file);
	assert_int_equal(fwrite(core, 1, bytes ? bytes : whole, file), bytes ? bytes : whole);
	assert_int_equal(fclose(file), 0);
}

/* With only the file `name` in the folder, "": none, is a core of `pid` found by the pattern? */
static void check_found(const char *pattern, const char *name, int32_t pid, const char *expected)
{
	char path[256] = "";

	if (name[0])
		put_core(name, 0);
	assert_int_equal(doc_find_core(pattern, pid, path, sizeof(path)), expected[0] != '\0');
	assert_string_equal(path, expected);
	if (name[0])
		assert_int_equal(unlink(name), 0);
}

static void a_core_is_found_by_the_pattern_and_is_of_the_process(void **state)
{
	char folder[] = "/tmp/doctor-core-XXXXXX", absolute[64], pattern[64], before[PATH_MAX], path[64];

	(void)state;
	assert_non_null(getcwd(before, sizeof(before)));
	assert_non_null(mkdtemp(folder));
	assert_int_equal(chdir(folder), 0);
	check_found("core", "", MADE_TID, "");
	check_found("core", "core", MADE_TID, "./core");
	check_found("core", "core.4711", MADE_TID, "./core.4711");
	check_found("core", "core.4712", MADE_TID + 1, ""); /* of another process */
	check_found("core", "core", MADE_TID + 1, "");
	check_found("%e.%%.%p", "n.%.4711", MADE_TID, "./n.%.4711");
	check_found("|/bin/keep %p", "core", MADE_TID, "./core");
	snprintf(absolute, sizeof(absolute), "%s/n.4711", folder);
	snprintf(pattern, sizeof(pattern), "%s/%%e.%%P", folder);
	check_found(pattern, absolute, MADE_TID, absolute);
	check_found(pattern, absolute, 471, ""); /* the same first digits */
	snprintf(pattern, sizeof(pattern), "%s/n", folder);
	check_found(pattern, absolute, MADE_TID, absolute); /* kernel.core_uses_pid */
	put_core("core", 100);				    /* has no notes */
	assert_false(doc_find_core("core", MADE_TID, path, sizeof(path)));
	assert_int_equal(unlink("core"), 0);
	assert_int_equal(chdir(before), 0);
	assert_int_equal(rmdir(folder), 0);
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
		cmocka_unit_test(a_fault_without_signs_is_of_the_past),
		cmocka_unit_test(a_host_that_has_not_returned_is_of_the_present),
		cmocka_unit_test(what_a_removed_device_reported_is_of_the_past),
		cmocka_unit_test(the_past_stands_below_the_present_and_above_notes),
		cmocka_unit_test(a_request_that_no_device_has_is_lost_by_the_engine),
		cmocka_unit_test(the_file_of_a_dead_process_says_how_it_ended),
		cmocka_unit_test(a_signal_has_an_address_or_a_sender),
		cmocka_unit_test(causes_stand_above_what_follows_from_them),
		cmocka_unit_test(effects_of_effects_stand_below_the_first_cause),
		cmocka_unit_test(what_has_its_own_cause_does_not_follow_from_the_process),
		cmocka_unit_test(a_refused_host_does_not_explain_the_load_of_another),
		cmocka_unit_test(no_two_kinds_explain_each_other),
		cmocka_unit_test(keys_are_erased_wherever_they_stand),
		cmocka_unit_test(a_full_list_counts_what_it_leaves_out),
		cmocka_unit_test(a_source_that_hangs_or_crashes_costs_only_itself),
		cmocka_unit_test(this_process_can_be_looked_at),
		cmocka_unit_test(a_core_is_found_by_the_pattern_and_is_of_the_process),
		cmocka_unit_test(secrets_are_removed_at_every_depth),
		cmocka_unit_test(the_report_has_each_finding_as_text_and_json),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
