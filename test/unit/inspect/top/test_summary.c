/* SPDX-License-Identifier: BSD-2-Clause */
/* The summary of `fathom top`: figures of the whole target, alarms in words; and the levels of values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "target.h"

#define REACTORS(pid, busy, idle, busy2, idle2)                                                                            \
	"{'tick_rate':1000000,'pid':" #pid ",'reactors':[{'lcore':0,'busy':" #busy ",'idle':" #idle                        \
	",'lw_threads':[{'name':'t','id':2,'elapsed':90061000000}]},{'lcore':1,'busy':" #busy2 ",'idle':" #idle2           \
	",'lw_threads':[]}]}"
#define GROUP(io, read, written, under_way, oldest, waiting)                                                               \
	"{'name':'g','completed_nvme_io':" #io ",'bytes_read':" #read ",'bytes_written':" #written                         \
	",'commands_under_way':" #under_way ",'oldest_command_ticks':" #oldest                                             \
	",'transports':[{'trtype':'TCP','buffers':{'waiting':" #waiting "}}]}"
#define STATS(groups) "{'poll_groups':[" groups "]}"

static struct top_summary summary;

static void summarize(const struct target *first, const struct target *second)
{
	struct top_sample *before = first ? make_sample(first, 5 * SECOND) : NULL, *now = make_sample(second, 7 * SECOND);

	top_summary_get(before, now, &summary);
	top_sample_release(before);
	top_sample_release(now);
}

static void assert_line(const char *expected)
{
	struct top_part parts[TOP_PARTS_MAX];
	uint32_t count = top_summary_parts(&summary, parts);
	char line[512] = "";
	size_t used = 0;

	for (uint32_t i = 0; i < count; i++)
		used += (size_t)snprintf(line + used, sizeof(line) - used, "%s%s", i ? "  " : "", parts[i].text);
	assert_string_equal(line, expected);
}

static void assert_alarms(const char *expected)
{
	char text[1024];

	assert_string_equal(top_summary_alarms(&summary, text, sizeof(text)), expected);
}

static void figures_are_sums_of_all_groups_and_reactors(void **state)
{
	const struct target first = { .reactors = REACTORS(7, 0, 0, 0, 0),
				      .buffers = STATS(GROUP(100, 0, 0, 0, 0, 0) "," GROUP(50, 4096, 0, 0, 0, 0)) };
	const struct target second = {
		.reactors = REACTORS(7, 1900000, 100000, 1700000, 300000),
		.buffers = STATS(GROUP(300, 2097152, 0, 3, 1500, 0) "," GROUP(250, 4096, 1024, 1, 2500, 0)),
		.summary = "{'version':'0.1.0','uptime_seconds':61,'hosts':2,'alarms':[]}",
	};
	char text[TOP_TEXT_BYTES_MAX];

	summarize(&first, &second);
	assert_line("IOPS 200  busy 90.0 % !  under way 4 (2.5 ms)  hosts 2  read 1.0Mi  write 512");
	assert_alarms("no alarm");
	assert_string_equal(summary.version, "0.1.0");
	assert_string_equal(top_uptime_text(&summary.uptime_seconds, text), "00:01:01");
}

static void one_sample_or_another_process_gives_no_rates(void **state)
{
	const struct target other = { .reactors = REACTORS(8, 0, 0, 0, 0), .buffers = STATS(GROUP(9, 9, 9, 0, 0, 0)) };
	const struct target only = { .reactors = REACTORS(7, 5, 5, 5, 5),
				     .buffers = STATS(GROUP(100, 0, 0, 2, 6000000, 0)) };

	summarize(NULL, &only);
	assert_line("IOPS -  busy - %  under way 2 (6.0 s) !  hosts -  read -  write -");
	summarize(&other, &only);
	assert_line("IOPS -  busy - %  under way 2 (6.0 s) !  hosts -  read -  write -");
}

static void spdk_has_what_it_reports(void **state)
{
	const struct target first = { .reactors = REACTORS(7, 0, 0, 0, 0),
				      .summary = NO,
				      .buffers = STATS("{'completed_nvme_io':1,'pending_bdev_io':2,'transports':[]}") };
	const struct target second = { .reactors = REACTORS(7, 1, 3, 0, 0),
				       .summary = NO,
				       .buffers = STATS("{'completed_nvme_io':5,'pending_bdev_io':3,'transports':[]}") };
	char text[TOP_TEXT_BYTES_MAX];

	summarize(&first, &second);
	assert_line("IOPS 2  busy 25.0 %  under way 3  hosts -  read -  write -");
	assert_alarms("the target does not report alarms");
	assert_string_equal(summary.version, "SPDK v26.09");
	assert_string_equal(top_uptime_text(&summary.uptime_seconds, text), "1 d 01:01");
}

static void alarms_are_sentences(void **state)
{
	static const struct {
		const char *alarms, *text;
	} rows[] = {
		{ "{'alarm':'device_not_responding','count':1,'name':'m0','seconds':12}",
		  "1 device does not respond (m0, 12 s)" },
		{ "{'alarm':'device_not_responding','count':3,'name':'m0','seconds':12}",
		  "3 devices do not respond (m0, 12 s)" },
		{ "{'alarm':'device_slow','count':2,'name':''}", "2 devices are slow" },
		{ "{'alarm':'volume_errored','count':1,'name':''},{'alarm':'storage_failed','count':1,'name':''}",
		  "1 volume is not served; the storage rejects changes: restart the engine" },
		{ "{'alarm':'of_next_year','count':4,'name':'x'}", "4 of_next_year (x)" },
		{ "{'alarm':'device_slow','count':1,'name':'a\\u001b[2Jb'}", "1 device is slow (a?[2Jb)" },
		{ "{'alarm':'device_slow','count':0,'name':'m0'},{'alarm':7,'count':1},3,null", "no alarm" },
	};

	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		char answer[256];

		snprintf(answer, sizeof(answer), "{'hosts':0,'alarms':[%s]}", rows[i].alarms);
		summarize(NULL, &(struct target){ .summary = answer });
		assert_alarms(rows[i].text);
	}
}

static void alarms_also_come_from_other_answers(void **state)
{
	summarize(NULL, &(struct target){ .buffers = SILENT });
	assert_alarms("a core does not answer");
	summarize(NULL, &(struct target){ .buffers = STATS(GROUP(0, 0, 0, 0, 0, 1)) });
	assert_alarms("1 command waits for a data buffer");
	summarize(NULL, &(struct target){ .buffers = STATS(GROUP(0, 0, 0, 0, 0, 5) "," GROUP(0, 0, 0, 0, 0, 6)) });
	assert_alarms("11 commands wait for a data buffer");
	assert_int_equal(summary.alarms[0].count, 11);
}

static void more_alarms_than_fit_are_left_out(void **state)
{
#define ALARM "{'alarm':'device_slow','count':1,'name':'a-device-with-a-long-name-that-is-cut-somewhere-else'},"
#define FIVE ALARM ALARM ALARM ALARM ALARM
	const char *answer = "{'alarms':[" FIVE FIVE FIVE FIVE "{}]}";
	json_t *document;

	summarize(NULL, &(struct target){ .summary = answer });
	assert_int_equal(summary.alarm_count, TOP_ALARMS_MAX);
	document = top_summary_json(&summary);
	assert_int_equal(json_array_size(json_object_get(document, "alarms")), TOP_ALARMS_MAX);
	json_decref(document);
}

static void json_has_null_for_what_is_unknown(void **state)
{
	json_t *document, *expected;

	summarize(NULL, &(struct target){
				.summary = "{'version':'1','uptime_seconds':3,'hosts':1,'alarms':[{'alarm':'device_slow',"
					   "'count':1,'name':'m'}]}" });
	document = top_summary_json(&summary);
	expected = parse(
		"{'version':'1','uptime_seconds':3,'hosts':1,'iops':null,'read_bytes_per_second':null,"
		"'write_bytes_per_second':null,'busy_percent':null,'commands_under_way':0,'oldest_command_us':null,"
		"'alarms':[{'alarm':'device_slow','count':1,'text':'1 device is slow (m)'}]}");
	assert_true(json_equal(document, expected));
	json_decref(document);
	json_decref(expected);
}

/* ---- levels ---- */

static enum top_level level_of(enum top_tab tab, const char *key, double number, bool totals)
{
	const struct top_value value = { .kind = TOP_NUMBER, .number = number };
	uint32_t count;
	const struct top_column *columns = top_columns(tab, &count);

	for (uint32_t i = 0; i < count; i++) {
		if (strcmp(columns[i].key, key) == 0)
			return top_value_level(&columns[i], &value, totals);
	}
	fail_msg("no column %s", key);
	return TOP_LEVEL_FINE;
}

static void values_above_thresholds_have_marks(void **state)
{
	const struct top_value nothing = { .kind = TOP_NOTHING };
	uint32_t count;

	assert_int_equal(level_of(TOP_CORES, "busy_percent", 74.9, false), TOP_LEVEL_FINE);
	assert_int_equal(level_of(TOP_CORES, "busy_percent", 75, false), TOP_LEVEL_HIGH);
	assert_int_equal(level_of(TOP_CORES, "busy_percent", 90, true), TOP_LEVEL_BAD);
	assert_int_equal(level_of(TOP_CORES, "sys_percent", 99, true), TOP_LEVEL_FINE);
	assert_int_equal(level_of(TOP_HOSTS, "read_latency_us", 9999, false), TOP_LEVEL_FINE);
	assert_int_equal(level_of(TOP_HOSTS, "read_latency_us", 10000, false), TOP_LEVEL_HIGH);
	assert_int_equal(level_of(TOP_VOLUMES, "latency_us", 100000, false), TOP_LEVEL_BAD);
	assert_int_equal(level_of(TOP_VOLUMES, "errors", 1, false), TOP_LEVEL_BAD);
	assert_int_equal(level_of(TOP_VOLUMES, "errors", 0, false), TOP_LEVEL_FINE);
	assert_int_equal(level_of(TOP_VOLUMES, "errors", 1, true), TOP_LEVEL_FINE); /* totals never shrink */
	assert_int_equal(level_of(TOP_BUFFERS, "waiting", 1, false), TOP_LEVEL_HIGH);
	assert_int_equal(top_value_level(&top_columns(TOP_CORES, &count)[5], &nothing, false), TOP_LEVEL_FINE);
	assert_int_equal(top_level_mark(TOP_LEVEL_FINE), ' ');
	assert_int_equal(top_level_mark(TOP_LEVEL_HIGH), '*');
	assert_int_equal(top_level_mark(TOP_LEVEL_BAD), '!');
}

static void a_bar_stands_behind_the_column_that_it_shows(void **state)
{
	for (enum top_tab tab = 0; tab < TOP_TABS; tab++) {
		uint32_t count;
		const struct top_column *columns = top_columns(tab, &count);

		assert_false(top_unit_is_picture(columns[0].unit));
		for (uint32_t i = 1; i < count; i++) {
			if (columns[i].unit == TOP_UNIT_BAR)
				assert_true(columns[i - 1].watch == TOP_WATCH_SHARE ||
					    columns[i - 1].watch == TOP_WATCH_LATENCY);
		}
	}
}

/* ---- bars ---- */

static void bars_have_eighths_or_ascii(void **state)
{
	static const struct {
		double percent;
		uint32_t cells;
		const char *utf8, *ascii;
	} rows[] = {
		{ 0, 4, "    ", "    " },    { 100, 4, "████", "####" }, { 50, 4, "██  ", "##  " },
		{ 0.01, 4, "▏   ", "#   " }, { 12.5, 1, "▏", "#" },	 { 99, 8, "███████▉", "########" },
		{ 400, 2, "██", "##" },	     { -3, 2, "  ", "  " },
	};
	char text[TOP_BAR_BYTES_MAX];

	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		assert_string_equal(top_bar_text(rows[i].percent, rows[i].cells, true, text), rows[i].utf8);
		assert_string_equal(top_bar_text(rows[i].percent, rows[i].cells, false, text), rows[i].ascii);
	}
	assert_int_equal(strlen(top_bar_text(100, TOP_BAR_CELLS_MAX, true, text)), 3 * TOP_BAR_CELLS_MAX);
}

static void columns_of_bars_tell_zero_from_unknown(void **state)
{
	const float values[] = { -1, 0, 0.001f, 1, 2, 3, 4, 5, 6, 7, 8 };
	char text[TOP_BAR_BYTES_MAX];

	assert_string_equal(top_bars_text(values, ARRAY_COUNT(values), 8, true, text), " _▁▁▂▃▄▅▆▇█");
	assert_string_equal(top_bars_text(values, ARRAY_COUNT(values), 8, false, text), " _..:-=+*#@");
	assert_string_equal(top_bars_text(values, 2, 0, true, text), " _");
	assert_string_equal(top_bars_text(values, 0, 8, true, text), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(figures_are_sums_of_all_groups_and_reactors),
		cmocka_unit_test(one_sample_or_another_process_gives_no_rates),
		cmocka_unit_test(spdk_has_what_it_reports),
		cmocka_unit_test(alarms_are_sentences),
		cmocka_unit_test(alarms_also_come_from_other_answers),
		cmocka_unit_test(more_alarms_than_fit_are_left_out),
		cmocka_unit_test(json_has_null_for_what_is_unknown),
		cmocka_unit_test(values_above_thresholds_have_marks),
		cmocka_unit_test(a_bar_stands_behind_the_column_that_it_shows),
		cmocka_unit_test(bars_have_eighths_or_ascii),
		cmocka_unit_test(columns_of_bars_tell_zero_from_unknown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
