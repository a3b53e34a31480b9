/* SPDX-License-Identifier: BSD-2-Clause */
/* Rules about a server and its system, over evidence that was written by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "inspect/doctor/doctor.h"
#include "inspect/doctor/findings.gen.h"
#include "judged.h"

enum { TEXT_BYTES = 4096, NAMES_BYTES = 512 };

/* The names of the findings in their order, "a b<a": b follows from a. */
static void name_findings(const char *evidence_text, char names[static NAMES_BYTES])
{
	struct findings *list = judge(evidence_text);

	names[0] = '\0';
	for (uint32_t i = 0; i < list->count; i++) {
		const struct finding *it = &list->rows[i];
		size_t used = strlen(names);

		snprintf(names + used, NAMES_BYTES - used, "%s%s%s%s", i > 0 ? " " : "", finding_name(it),
			 it->cause >= 0 ? "<" : "", it->cause >= 0 ? finding_name(&list->rows[it->cause]) : "");
	}
	findings_destroy(list);
}

static void check(const char *evidence, const char *expected)
{
	char names[NAMES_BYTES];

	name_findings(evidence, names);
	assert_string_equal(names, expected);
}

#define SERVER "\"server\": {\"configuration\": \"/s.yml\", \"socket\": \"/run/s\", \"running\": true"
#define RUNS "\"process\": {\"pid\": 7, \"name\": \"fathom-server\", \"state\": \"S\"}, " SERVER

static void check_server(const char *server, const char *expected)
{
	char text[TEXT_BYTES];

	snprintf(text, sizeof(text), "{" RUNS "%s}}", server);
	check(text, expected);
}

/* `condition`: keys of what the server answers. */
static void check_condition(const char *condition, const char *expected)
{
	char text[TEXT_BYTES];

	snprintf(text, sizeof(text), "{\"looked\": {\"at\": 1796000000}, " RUNS "}, \"service\": {\"condition\": {%s}}}",
		 condition);
	check(text, expected);
}

static void a_healthy_server_has_no_finding(void **state)
{
	(void)state;
	check_server("", "");
	check_server(", \"superblocks\": [{\"index\": 0, \"path\": \"/e0/superblock\", \"rank\": 0}], "
		     "\"database\": {\"path\": \"/system.db\", \"bytes\": 4096}",
		     "");
	check_condition("\"instances\": [{\"index\": 0, \"state\": \"joined\", \"rank\": 0, \"pid\": 9, \"starts\": 1}], "
			"\"members\": [{\"rank\": 0, \"state\": \"joined\"}], \"management\": {\"here\": true}, "
			"\"database\": {\"path\": \"/system.db\", \"revision\": 5}, "
			"\"counters\": {\"server\": {\"events_waiting\": 0}}",
			"");
}

static void files_of_a_server_that_cannot_start_are_its_cause(void **state)
{
	(void)state;
	check("{\"server\": {\"configuration\": \"/s.yml\", \"running\": false}}", "server_absent");
	check("{\"server\": {\"configuration\": \"/s.yml\", \"running\": false, \"configuration_error\": \"line 4\"}}",
	      "server_configuration_bad server_absent<server_configuration_bad");
	check("{\"server\": {\"configuration\": \"/s.yml\", \"running\": false, \"own_certificates\": [\"/a.crt\"]}, "
	      "\"certificates\": {\"/a.crt\": {\"left_s\": -10}, \"/b.crt\": {\"left_s\": -10}}}",
	      "server_certificate_expired server_absent<server_certificate_expired certificate_expired");
	check("{\"server\": {\"configuration\": \"/s.yml\", \"running\": false, \"database\": {\"path\": \"/d\", "
	      "\"problem\": \"no header\"}}}",
	      "database_damaged server_absent<database_damaged");
	check("{\"server\": {\"configuration\": \"/s.yml\", \"running\": false}, "
	      "\"folders\": {\"systems\": {\"/a\": {\"read_only\": true}}}}",
	      "file_system_read_only server_absent<file_system_read_only");
	check("{\"server\": {\"configuration\": \"/s.yml\", \"running\": false}, "
	      "\"folders\": {\"hangs\": {\"path\": \"/a\", \"what\": \"statvfs\"}, \"unfinished\": \"statvfs of /a\"}}",
	      "file_system_hangs server_absent");
}

static void a_server_that_does_not_answer_is_broken(void **state)
{
	(void)state;
	check("{" RUNS "}, \"service\": {\"silent\": \"no answer\"}}", "server_silent");
	check("{" RUNS "}, \"service\": {\"refused\": \"Permission denied\"}}", "evidence_missing");
	check("{" RUNS "}, \"port\": {\"address\": \"port 1\", \"silent\": \"it does not listen there\"}}",
	      "server_port_silent");
	check("{\"process\": {\"pid\": 7, \"state\": \"T\", \"threads\": [{\"tid\": 7, \"state\": \"T\"}]}, " SERVER
	      "}, \"service\": {\"silent\": \"no answer\"}}",
	      "process_stopped server_silent<process_stopped");
	check("{" RUNS "}, \"agents\": {\"processes\": [{\"pid\": 4, \"state\": \"T\"}, {\"pid\": 5, \"state\": \"S\"}]}}",
	      "agent_stopped");
}

static void engines_that_do_not_serve_are_named_with_the_reason(void **state)
{
	(void)state;
	check_condition("\"instances\": [{\"index\": 0, \"state\": \"errored\", \"why\": \"its port is taken\"}]",
			"engine_down");
	check_condition("\"instances\": [{\"index\": 0, \"state\": \"missing\"}]", "engine_down");
	check_condition("\"instances\": [{\"index\": 0, \"state\": \"await_format\"}]", "engine_idle");
	check_condition("\"instances\": [{\"index\": 0, \"state\": \"refused\", \"why\": \"another system\"}]",
			"engine_refused");
	check_condition("\"instances\": [{\"index\": 0, \"state\": \"joined\", \"hung\": true, \"pid\": 9}]",
			"engine_hung");
	check_condition("\"instances\": [{\"index\": 0, \"state\": \"joined\", \"starts\": 5, \"last_end\": \"killed\"}]",
			"engine_restarted");
	check_condition("\"instances\": [{\"index\": 0, \"state\": \"joined\", \"starts\": 2, \"last_end\": \"killed\"}]",
			"");
	check_condition("\"instances\": [{\"index\": 0, \"rank\": 3, \"state\": \"stopped\"}], "
			"\"members\": [{\"rank\": 3, \"state\": \"stopped\"}]",
			"member_idle");
	check("{" RUNS ", \"superblocks\": [{\"index\": 0, \"path\": \"/e0/superblock\", \"why\": \"damaged\"}]}, "
	      "\"service\": {\"condition\": {\"instances\": [{\"index\": 0, \"state\": \"errored\"}], "
	      "\"members\": [{\"rank\": 4, \"state\": \"errored\"}]}}}",
	      "superblock_damaged");
}

static void members_that_have_not_joined_are_named_with_the_reason(void **state)
{
	(void)state;
	check_condition("\"members\": [{\"rank\": 1, \"state\": \"errored\", \"why\": \"it crashed\"}]", "member_down");
	check_condition("\"members\": [{\"rank\": 1, \"state\": \"unresponsive\"}]", "member_down");
	check_condition("\"members\": [{\"rank\": 1, \"state\": \"starting\", \"since_ms\": 10}]", "");
	check_condition("\"members\": [{\"rank\": 1, \"state\": \"starting\", \"since_ms\": 100000}]", "member_idle");
	check_condition("\"members\": [{\"rank\": 1, \"state\": \"adminexcluded\"}], "
			"\"instances\": [{\"index\": 0, \"rank\": 1, \"state\": \"errored\"}]",
			"member_excluded");
	check_condition("\"members\": [{\"rank\": 1, \"state\": \"errored\"}], "
			"\"instances\": [{\"index\": 0, \"rank\": 1, \"state\": \"errored\", \"why\": \"its port\"}]",
			"engine_down");
	check_condition("\"members\": [{\"rank\": 1, \"state\": \"errored\", \"address\": \"b:1\"}], "
			"\"instances\": [{\"index\": 0, \"rank\": 0, \"state\": \"errored\"}]",
			"engine_down member_down");
}

/* A server whose changes fail for 100 s, the last one `failed_ms` ago. */
static void check_database(int failed_ms, enum finding_certainty sure, const char *says)
{
	struct findings *list;
	char text[512];

	snprintf(text, sizeof(text),
		 "{\"looked\": {\"at\": 1796000000}, " RUNS
		 "}, \"service\": {\"condition\": {\"database\": {\"path\": \"/d\", "
		 "\"failing_ms\": 100000, \"failed_ms\": %d, \"why\": \"full\"}}}}",
		 failed_ms);
	list = judge(text);
	assert_int_equal(list->count, 1);
	assert_int_equal(list->rows[0].sure, sure);
	assert_string_equal(list->rows[0].says, says);
	assert_int_equal(json_array_size(list->rows[0].shows), sure == FINDING_CERTAIN ? 1 : 2);
	findings_destroy(list);
}

static void the_database_and_the_management_service_are_judged(void **state)
{
	(void)state;
	check_condition("\"database\": {\"path\": \"/d\", \"failing_ms\": 0, \"why\": \"Read-only file system\"}, "
			"\"members\": [{\"rank\": 1, \"state\": \"errored\"}]",
			"database_unwritable member_down<database_unwritable");
	check_database(5000, FINDING_CERTAIN,
		       "the system's database /d could not store its last change, 5.000 s ago: full");
	check_database(90000, FINDING_LIKELY,
		       "the system's database /d could not store its last change, 1 min 30 s ago: full");
	check_condition("\"management\": {\"address\": \"10.0.0.1:10001\", \"failing_ms\": 9000, \"why\": \"refused\"}, "
			"\"counters\": {\"server\": {\"events_waiting\": 3, \"send_failures\": 2}}",
			"management_unreachable events_unsent<management_unreachable");
	check_condition("\"management\": {\"failing_ms\": 100}", "");
	check_condition("\"counters\": {\"server\": {\"events_waiting\": 3, \"send_failures\": 0}}", "");
}

static void drives_that_are_ill_or_gone_are_named(void **state)
{
	(void)state;
	check_condition("\"devices\": [{\"path\": \"/dev/nvme0n1\", \"engines\": [0], \"conditions\": [{\"text\": "
			"\"it is hot\", \"since_ms\": 5}]}]",
			"drive_unhealthy");
	check_condition("\"devices\": [{\"path\": \"/dev/nvme0n1\", \"failing_ms\": 9000, \"why\": \"no answer\"}]",
			"drive_unread");
	check_condition("\"devices\": [{\"path\": \"/dev/nvme0n1\", \"engines\": [0, 1], \"gone_ms\": 9000}], "
			"\"instances\": [{\"index\": 0, \"state\": \"errored\", \"why\": \"no device\"}]",
			"drive_gone engine_down<drive_gone");
}

static void recent_events_are_a_note(void **state)
{
	(void)state;
	/* 1796000000 is 2026-11-30 00:53:20 UTC */
	check_condition("\"events\": [{\"severity\": \"ERROR\", \"time\": \"2026-11-30T00:33:20.000000+00:00\", "
			"\"text\": \"an engine died\"}]",
			"recent_events");
	check_condition("\"events\": [{\"severity\": \"ERROR\", \"time\": \"2026-11-29T20:33:20.000000+00:00\", "
			"\"text\": \"an engine died\"}]",
			"");
	check_condition("\"events\": [{\"severity\": \"NOTICE\", \"time\": \"2026-11-30T00:33:20.000000+00:00\", "
			"\"text\": \"it started\"}]",
			"");
}

static void folders_are_looked_at_without_open_files(void **state)
{
	char folder[] = "/tmp/doctor-XXXXXX";
	const char *paths[] = { folder, "/nonexistent-folder" };
	const struct doctor_paths list = { paths, 2 };
	const struct doctor_source source = { "folders", doctor_look_folders, &list };
	const json_t *systems;
	json_t *evidence;

	(void)state;
	assert_non_null(mkdtemp(folder));
	evidence = doctor_look(&source, 1, 60000);
	systems = json_object_get(json_object_get(evidence, "folders"), "systems");
	assert_true(json_object_size(systems) >= 1);
	json_decref(evidence);
	assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_healthy_server_has_no_finding),
		cmocka_unit_test(files_of_a_server_that_cannot_start_are_its_cause),
		cmocka_unit_test(a_server_that_does_not_answer_is_broken),
		cmocka_unit_test(engines_that_do_not_serve_are_named_with_the_reason),
		cmocka_unit_test(members_that_have_not_joined_are_named_with_the_reason),
		cmocka_unit_test(the_database_and_the_management_service_are_judged),
		cmocka_unit_test(drives_that_are_ill_or_gone_are_named),
		cmocka_unit_test(recent_events_are_a_note),
		cmocka_unit_test(folders_are_looked_at_without_open_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
