/* SPDX-License-Identifier: BSD-2-Clause */
/* What `fathom top` computes from two samples: rates, reset counters, new and removed rows, missing methods. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "inspect/top/top.h"
#include "target.h"

/* The two samples, and the table made from them. */
static struct top_sample *before, *now;
static struct top_table *table;

static void make_table(const struct target *first, const struct target *second, uint64_t seconds, enum top_tab tab,
		       bool totals)
{
	before = first ? make_sample(first, 5 * SECOND) : NULL;
	now = make_sample(second, (5 + seconds) * SECOND);
	table = top_table_create(before, now, tab, totals);
}

static void free_table(void)
{
	top_table_destroy(table);
	top_sample_release(before);
	top_sample_release(now);
	table = NULL;
	before = now = NULL;
}

static const char *value(const char *name, const char *key)
{
	static char text[TOP_TEXT_BYTES_MAX];
	uint32_t count, column = 0;
	const struct top_column *columns = top_columns(table->tab, &count);

	while (column < count && strcmp(columns[column].key, key) != 0)
		column++;
	assert_true(column < count);
	for (uint32_t row = 0; row < table->row_count; row++) {
		top_value_text_full(&table->rows[row].values[0], columns[0].unit, text);
		if (strcmp(text, name) == 0)
			return top_value_text_full(&table->rows[row].values[column],
						   table->totals ? columns[column].unit_total : columns[column].unit, text);
	}
	return "no such row";
}

static void assert_value(const char *name, const char *key, const char *expected)
{
	assert_string_equal(value(name, key), expected);
}

/* ---- volumes ---- */

#define VOLUME(name, reads, read_bytes, ticks, writes, write_bytes, write_ticks)                                           \
	"{'name':'" name "','num_read_ops':" #reads ",'bytes_read':" #read_bytes ",'read_latency_ticks':" #ticks           \
	",'num_write_ops':" #writes ",'bytes_written':" #write_bytes ",'write_latency_ticks':" #write_ticks                \
	",'num_unmap_ops':0,'bytes_unmapped':0,'unmap_latency_ticks':0,'queue_depth':3,'io_error':{'FAILED':2}}"
#define IOSTAT(ticks, volumes) "{'tick_rate':1000000,'ticks':" #ticks ",'bdevs':[" volumes "]}"

static void rates_are_per_second_of_the_targets_clock(void **state)
{
	/* 2 s by the target's clock, although our answers came 1 s apart */
	const struct target first = { .iostat = IOSTAT(1000000, VOLUME("m", 100, 409600, 5000, 10, 40960, 100)) };
	const struct target second = { .iostat = IOSTAT(3000000, VOLUME("m", 300, 1228800, 405000, 10, 40960, 100)) };

	make_table(&first, &second, 1, TOP_VOLUMES, false);
	assert_value("m", "iops", "100.0");
	assert_value("m", "read_iops", "100.0");
	assert_value("m", "write_iops", "0.0");
	assert_value("m", "read_bytes_per_second", "409600");
	assert_value("m", "latency_us", "2000.0");  /* 400000 ticks of 1 us, 200 reads */
	assert_value("m", "write_latency_us", "-"); /* no writes */
	assert_value("m", "depth", "0.2");	    /* 0.4 s of 2 s */
	assert_value("m", "depth_now", "3");
	assert_value("m", "errors", "0"); /* no new errors */
	free_table();
}

static void totals_are_the_counters(void **state)
{
	const struct target only = { .iostat = IOSTAT(3000000, VOLUME("m", 300, 1228800, 405000, 10, 40960, 100)) };

	make_table(NULL, &only, 1, TOP_VOLUMES, true);
	assert_value("m", "iops", "310");
	assert_value("m", "read_bytes_per_second", "1228800");
	assert_value("m", "read_latency_us", "1350.0");
	assert_value("m", "depth", "-"); /* a total has no interval */
	assert_value("m", "errors", "2");
	free_table();
}

static void one_sample_gives_no_rates(void **state)
{
	const struct target only = { .iostat = IOSTAT(3000000, VOLUME("m", 300, 1228800, 405000, 10, 40960, 100)) };
	char note[128];

	make_table(NULL, &only, 1, TOP_VOLUMES, false);
	assert_value("m", "iops", "-");
	assert_value("m", "errors", "-");
	assert_value("m", "depth_now", "3");
	assert_false(top_table_note(table, now, note, sizeof(note))); /* the target may have these counters */
	free_table();
}

static void a_reset_counter_counts_from_zero(void **state)
{
	const struct target first = { .iostat = IOSTAT(1000000, VOLUME("m", 1000, 4096000, 9000, 10, 40960, 100)) };
	const struct target second = { .iostat = IOSTAT(2000000, VOLUME("m", 50, 204800, 500, 20, 81920, 100)) };

	make_table(&first, &second, 1, TOP_VOLUMES, false);
	assert_value("m", "read_iops", "50.0");
	assert_value("m", "write_iops", "20.0"); /* not 10: this counter was also reset */
	assert_value("m", "read_bytes_per_second", "204800");
	free_table();
}

static void new_rows_count_from_zero_and_removed_rows_vanish(void **state)
{
	const struct target first = { .iostat = IOSTAT(1000000,
						       VOLUME("a", 10, 0, 0, 0, 0, 0) "," VOLUME("b", 10, 0, 0, 0, 0, 0)) };
	const struct target second = { .iostat = IOSTAT(2000000,
							VOLUME("c", 7, 0, 0, 0, 0, 0) "," VOLUME("b", 30, 0, 0, 0, 0, 0)) };

	make_table(&first, &second, 1, TOP_VOLUMES, false);
	assert_int_equal(table->row_count, 2);
	assert_value("a", "iops", "no such row");
	assert_value("b", "iops", "20.0");
	assert_value("c", "iops", "7.0"); /* all I/O of a new volume was in this interval */
	free_table();
}

static void counters_of_another_process_give_no_rates(void **state)
{
	const struct target first = { .iostat = IOSTAT(1000000, VOLUME("m", 10, 0, 0, 0, 0, 0)) };
	const struct target second = { .iostat = IOSTAT(2000000, VOLUME("m", 1000, 0, 0, 0, 0, 0)),
				       .reactors = "{'tick_rate':1000000,'pid':8,'reactors':[]}" };

	make_table(&first, &second, 1, TOP_VOLUMES, false);
	assert_value("m", "iops", "-");
	free_table();
}

/* ---- threads, pollers, cores ---- */

#define REACTORS(busy, idle, sys, usr)                                                                                     \
	"{'tick_rate':1000000,'pid':7,'reactors':[{'lcore':4,'busy':" #busy ",'idle':" #idle ",'sys':" #sys ",'usr':" #usr \
	",'irq':0,'in_interrupt':false,'tid':9,'numa_id':0,'lw_threads':[{'name':'t','id':2,'cpumask':'10','elapsed':1}]}" \
	"]}"
#define THREADS(busy, idle)                                                                                                \
	"{'tick_rate':1000000,'threads':[{'name':'t','id':2,'cpumask':'10','busy':" #busy ",'idle':" #idle                 \
	",'active_pollers_count':1,'timed_pollers_count':2,'paused_pollers_count':3},"                                     \
	"{'name':'app','id':1,'cpumask':'ff','busy':0,'idle':0,'active_pollers_count':0,'timed_pollers_count':1,"          \
	"'paused_pollers_count':0}]}"
#define POLLERS(runs, busy)                                                                                                \
	"{'tick_rate':1000000,'threads':[{'name':'t','id':2,'active_pollers':[{'name':'p','id':1,'state':'waiting',"       \
	"'run_count':" #runs ",'busy_count':" #busy                                                                        \
	"}],'timed_pollers':[{'name':'q','id':2,'state':'running','run_count':5,"                                          \
	"'busy_count':0,'period_ticks':500}],'paused_pollers':[]}]}"
static const struct target first_target = { .threads = THREADS(100, 900),
					    .reactors = REACTORS(100, 900, 5, 5),
					    .pollers = POLLERS(10, 1) };
static const struct target second_target = { .threads = THREADS(500100, 1500900),
					     .reactors = REACTORS(1500100, 500900, 25, 155),
					     .pollers = POLLERS(1010, 1) };

static void threads_show_their_core_and_their_share_of_it(void **state)
{
	make_table(&first_target, &second_target, 2, TOP_THREADS, false);
	assert_value("t", "core", "4");
	assert_value("t", "active_pollers", "1");
	assert_value("t", "timed_pollers", "2");
	assert_value("t", "paused_pollers", "3");
	assert_value("t", "busy_us", "500000");
	assert_value("t", "idle_us", "1500000");
	assert_value("t", "cpu_percent", "25.0");
	assert_value("t", "status", "busy");
	assert_value("app", "core", "-");
	assert_value("app", "status", "idle");
	free_table();
}

static void pollers_show_their_runs_in_the_interval(void **state)
{
	make_table(&first_target, &second_target, 2, TOP_POLLERS, false);
	assert_value("p", "type", "active");
	assert_value("p", "thread", "t");
	assert_value("p", "runs", "1000");
	assert_value("p", "busy_runs", "0");
	assert_value("p", "period_us", "-");
	assert_value("p", "status", "idle");
	assert_value("q", "type", "timed");
	assert_value("q", "period_us", "500");
	assert_value("q", "status", "running");
	free_table();
}

static void cores_show_busy_and_processor_time(void **state)
{
	char note[128];

	make_table(&first_target, &second_target, 2, TOP_CORES, false);
	assert_value("4", "threads", "1");
	assert_value("4", "pollers", "6");
	assert_value("4", "busy_percent", "75.0");
	assert_value("4", "sys_percent", "10.0"); /* 20 hundredths of 2 s */
	assert_value("4", "cpu_percent", "85.0");
	assert_value("4", "interrupt", "no");
	assert_true(top_table_note(table, now, note, sizeof(note)));
	assert_string_equal(note, "the target does not offer: MHz");
	free_table();
}

/* ---- hosts ---- */

#define QPAIR(cntlid, qid, host, commands, read)                                                                           \
	"{'cntlid':" #cntlid ",'qid':" #qid ",'state':'enabled','thread':'g','hostnqn':'" host "','peer_address':"         \
	"{'traddr':'127.0.0.1','trsvcid':'1" #cntlid #qid "'},'commands_under_way':1,'num_commands':" #commands            \
	",'bytes_read':" #read ",'bytes_written':0}"
#define SUBSYSTEMS "[{'nqn':'nqn.d','subtype':'Discovery'},{'nqn':'nqn.x','subtype':'NVMe'}]"

static void hosts_show_the_sums_of_their_queue_pairs(void **state)
{
	const struct target first = { .subsystems = SUBSYSTEMS,
				      .qpairs = "[" QPAIR(1, 0, "a", 10, 0) "," QPAIR(1, 1, "a", 100, 4096) "]" };
	const struct target second = { .subsystems = SUBSYSTEMS,
				       .qpairs = "[" QPAIR(1, 0, "a", 20, 0) "," QPAIR(1, 1, "a", 300, 8192) "," QPAIR(
					       2, 0, "b", 5, 0) "," QPAIR(10, 0, "a", 5, 0) "," QPAIR(10, 1, "a", 40,
												      4096) "]" };

	make_table(&first, &second, 1, TOP_HOSTS, false);
	assert_int_equal(table->row_count, 2);
	assert_value("a", "subsystems", "1");
	assert_value("a", "controllers", "2");
	assert_value("a", "qpairs", "2");
	assert_value("a", "iops", "240.0"); /* commands of admin queues are not counted */
	assert_value("a", "read_bytes_per_second", "8192");
	assert_value("a", "depth_now", "2");
	assert_value("b", "controllers", "1");
	assert_value("b", "subsystems", "1");
	assert_value("b", "qpairs", "0");
	assert_value("b", "iops", "0.0"); /* the host has no I/O queue yet, so the rate is 0 */
	free_table();
}

#define TIMED(qid, host, reads, read_ticks, writes, write_ticks)                                                           \
	"{'cntlid':1,'qid':" #qid ",'hostnqn':'" host "','peer_address':{'traddr':'127.0.0.1','trsvcid':'1" #qid           \
	"'},'num_commands':9,'num_read_ops':" #reads ",'read_latency_ticks':" #read_ticks ",'num_write_ops':" #writes      \
	",'write_latency_ticks':" #write_ticks "}"

static void hosts_show_the_average_latency_of_all_their_queues(void **state)
{
	const struct target first = { .subsystems = SUBSYSTEMS,
				      .qpairs = "[" TIMED(1, "a", 10, 900, 0, 0) "," TIMED(2, "b", 0, 0, 0, 0) "]" };
	const struct target second = {
		.subsystems = SUBSYSTEMS,
		.qpairs = "[" TIMED(0, "a", 0, 0, 0, 0) "," TIMED(1, "a", 20, 1900, 10, 4000) "," TIMED(
			2, "b", 4, 4000, 0, 0) "," TIMED(3, "a", 30, 3000, 0, 0) "," TIMED(4, "c", 0, 0, 0, 0) "]"
	};
	char note[256];

	make_table(&first, &second, 1, TOP_HOSTS, false);
	assert_value("a", "read_latency_us", "100.0"); /* 1000 ticks of 1 us for 10 reads, and 3000 for 30 */
	assert_value("a", "write_latency_us", "400.0");
	assert_value("a", "latency_us", "160.0");
	assert_value("b", "latency_us", "1000.0");
	assert_value("b", "write_latency_us", "-");
	assert_value("c", "latency_us", "-");
	assert_value("a", "latency_bar", "16"); /* of the slowest */
	assert_value("b", "latency_bar", "100");
	assert_value("c", "latency_bar", "-");
	top_table_sort(table, 5, true);
	assert_string_equal(table->rows[0].key, "b");
	assert_false(top_table_note(table, now, note, sizeof(note)) && strstr(note, "us")); /* it is offered */
	free_table();
}

static void missing_values_and_methods_are_noted(void **state)
{
	const struct target spdk = { .subsystems = SUBSYSTEMS,
				     .controllers = "[{'cntlid':1,'hostnqn':'a','hostid':'x'}]",
				     .qpairs = "[{'cntlid':1,'qid':0},{'cntlid':1,'qid':1}]" };
	const struct target none = { .subsystems = NO };
	char note[256];

	make_table(&spdk, &spdk, 1, TOP_HOSTS, false);
	assert_value("a", "qpairs", "1"); /* assigned by the host of the controller */
	assert_value("a", "iops", "-");
	assert_value("a", "read_latency_us", "-");
	assert_true(top_table_note(table, now, note, sizeof(note)));
	assert_string_equal(note, "the target does not offer: IOPS, AVG us, READ us, WRITE us, READ B/S, WRITE B/S, NOW");
	free_table();
	make_table(&none, &none, 1, TOP_HOSTS, false);
	assert_int_equal(table->row_count, 0);
	assert_true(top_table_note(table, now, note, sizeof(note)));
	assert_string_equal(note, "the target does not report this: Method not found");
	free_table();
}

static void answers_of_an_unexpected_shape_are_ignored(void **state)
{
	static const char *const shapes[] = { "[]", "{}", "{'threads':3,'reactors':{},'bdevs':null}",
					      "{'threads':[3,null,[],{}],'reactors':[null,{}],'bdevs':[1,{'name':2}]}" };

	for (size_t i = 0; i < ARRAY_COUNT(shapes); i++) {
		const char *s = shapes[i];
		const struct target target = { s, s, s, s, s, "[1,{},{'nqn':'x'}]", s, s, s, s, s };

		for (enum top_tab tab = 0; tab < TOP_TABS; tab++) {
			struct top_summary summary;
			char text[256];

			make_table(&target, &target, 1, tab, false);
			(void)top_table_note(table, now, text, sizeof(text));
			json_decref(top_json(before, now, false));
			top_summary_get(before, now, &summary);
			json_decref(top_summary_json(&summary));
			free_table();
		}
	}
}

static void buffers_are_shown_by_host_and_device(void **state)
{
	const struct target ours = {
		.buffers = "{'poll_groups':[{'name':'group 0','transports':[{'trtype':'TCP','buffers':{'fair_bytes':4096,"
			   "'host_limit_bytes':2048,'most_bytes':32768,'lent_bytes':1536,'waiting':3,"
			   "'hosts':[{'host':'a','lent_bytes':1024,'waiting':3},{'host':'b','lent_bytes':512,'waiting':0}],"
			   "'bdevs':[{'name':'m0','lent_bytes':1536,'waiting':3}]}}]}]}"
	};
	const struct target spdk = { .buffers = "{'poll_groups':[{'name':'g','transports':[{'trtype':'TCP'}]}]}" };
	const struct target none = { .buffers = "{'poll_groups':[{'name':'g','transports':[]}]}" };
	char note[128];

	make_table(&ours, &ours, 1, TOP_BUFFERS, false);
	assert_int_equal(table->row_count, 4);
	assert_value("a", "kind", "host");
	assert_value("a", "lent_bytes", "1024");
	assert_value("a", "limit_bytes", "2048");
	assert_value("a", "lent_percent", "50.0");
	assert_value("a", "waiting", "3");
	assert_value("b", "waiting", "0");
	assert_value("m0", "kind", "device");
	assert_value("m0", "poll_group", "group 0");
	assert_value("m0", "limit_bytes", "-");
	assert_value("(all)", "kind", "all");
	assert_value("(all)", "lent_bytes", "1536");
	assert_value("(all)", "limit_bytes", "32768");
	assert_false(top_table_note(table, now, note, sizeof(note)));
	free_table();
	make_table(NULL, &spdk, 1, TOP_BUFFERS, false);
	assert_int_equal(table->row_count, 0);
	assert_true(top_table_note(table, now, note, sizeof(note)));
	assert_string_equal(note, "the target does not report this: it has no shares of data buffers");
	free_table();
	make_table(NULL, &none, 1, TOP_BUFFERS, false);
	assert_int_equal(table->row_count, 0);
	assert_false(top_table_note(table, now, note, sizeof(note)));
	free_table();
}

#define ALL "nvmf_get_stats framework_get_summary " /* for the summary */

static void only_the_methods_of_a_tab_are_called(void **state)
{
	static const char *const expected[] = {
		[TOP_THREADS] = "thread_get_stats thread_get_pollers thread_get_io_channels framework_get_reactors " ALL,
		[TOP_POLLERS] = "thread_get_pollers framework_get_reactors " ALL,
		[TOP_CORES] = "thread_get_stats framework_get_reactors " ALL,
		[TOP_VOLUMES] = "framework_get_reactors bdev_get_iostat " ALL,
		[TOP_HOSTS] = ("framework_get_reactors nvmf_get_subsystems " ALL
			       "nvmf_subsystem_get_controllers nvmf_subsystem_get_qpairs "),
		[TOP_BUFFERS] = "framework_get_reactors " ALL,
	};

	for (enum top_tab tab = 0; tab < TOP_TABS; tab++) {
		struct top_sample *sample = top_sample_create(BIT(tab));
		char *text;
		size_t bytes;
		FILE *to = open_memstream(&text, &bytes);
		const json_t *params;
		const char *method;

		assert_non_null(to);
		while (top_sample_ask(sample, &method, &params)) {
			fprintf(to, "%s ", method);
			top_sample_answer(sample,
					  parse(strcmp(method, "nvmf_get_subsystems") == 0 ? SUBSYSTEMS
											   : empty_answer(method)),
					  SECOND);
		}
		assert_int_equal(fclose(to), 0);
		assert_string_equal(text, expected[tab]);
		free(text);
		top_table_destroy(top_table_create(NULL, sample, tab, true));
		top_sample_release(top_sample_hold(sample));
		assert_int_equal(top_sample_tabs(sample), BIT(tab));
		top_sample_release(sample);
	}
}

/* ---- order, filter, text ---- */

static void rows_are_sorted_with_empty_values_last(void **state)
{
	const struct target target = { .iostat = "{'tick_rate':1000000,'ticks':1,'bdevs':[{'name':'none'},"
						 "{'name':'few','num_read_ops':1,'num_write_ops':1},"
						 "{'name':'many','num_read_ops':9,'num_write_ops':1}]}" };
	static const char *const down[] = { "many", "few", "none" }, *const up[] = { "few", "many", "none" };

	make_table(NULL, &target, 1, TOP_VOLUMES, true);
	top_table_sort(table, 1, true);
	for (uint32_t i = 0; i < 3; i++)
		assert_string_equal(table->rows[i].key, down[i]);
	top_table_sort(table, 1, false);
	for (uint32_t i = 0; i < 3; i++)
		assert_string_equal(table->rows[i].key, up[i]);
	assert_int_equal(top_table_find(table, "many"), 1);
	assert_int_equal(top_table_find(table, "nobody"), -1);
	free_table();
}

static void a_filter_matches_any_text_column(void **state)
{
	make_table(&first_target, &second_target, 2, TOP_POLLERS, false);
	top_table_filter(table, "ACT");
	assert_int_equal(table->row_count, 1);
	assert_value("p", "type", "active");
	top_table_filter(table, "");
	assert_int_equal(table->row_count, 1);
	top_table_filter(table, "nowhere");
	assert_int_equal(table->row_count, 0);
	free_table();
}

static void values_are_abbreviated_to_fit_their_columns(void **state)
{
	static const struct {
		double number;
		enum top_unit unit;
		const char *text, *full;
	} rows[] = {
		{ 0, TOP_UNIT_RATE, "0", "0.0" },
		{ 99999, TOP_UNIT_RATE, "99999", "99999.0" },
		{ 1234567, TOP_UNIT_RATE, "1235k", "1234567.0" },
		{ 123456789, TOP_UNIT_COUNT, "123.5M", "123456789" },
		{ 1023, TOP_UNIT_BYTES, "1023", "1023" },
		{ 1024, TOP_UNIT_BYTES, "1.0ki", "1024" },
		{ 1536.0 * 1024 * 1024, TOP_UNIT_BYTES, "1.5Gi", "1610612736" },
		{ 1e18, TOP_UNIT_COUNT, "1000P", "1000000000000000000" },
		{ 12.34, TOP_UNIT_PERCENT, "12.3", "12.3" },
		{ 99999.94, TOP_UNIT_LATENCY, "99999.9", "99999.9" },
		{ 1027991.5, TOP_UNIT_LATENCY, "1027992", "1027991.5" },
		{ 123456789.0, TOP_UNIT_LATENCY, "123.5M", "123456789.0" },
	};
	const struct top_value rude = { .kind = TOP_TEXT, .text = "a\033[2Jb\nc" };
	char text[TOP_TEXT_BYTES_MAX];

	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		struct top_value value = { .kind = TOP_NUMBER, .number = rows[i].number };

		assert_string_equal(top_value_text(&value, rows[i].unit, text), rows[i].text);
		assert_string_equal(top_value_text_full(&value, rows[i].unit, text), rows[i].full);
	}
	assert_string_equal(top_value_text(&rude, TOP_UNIT_TEXT, text), "a?[2Jb?c");
}

static void keep_line(void *ctx, const char *line)
{
	fprintf(ctx, "%s\n", line);
}

static void details_show_values_that_have_no_column(void **state)
{
	const struct target hosts = { .subsystems = SUBSYSTEMS,
				      .controllers = "[{'cntlid':1,'cntrltype':'io','hostid':'h-1'}]",
				      .qpairs = "[" QPAIR(1, 0, "a", 10, 0) "," QPAIR(1, 1, "a", 100, 4096) "]" };
	char *text;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	assert_non_null(to);
	make_table(&hosts, &hosts, 1, TOP_HOSTS, true);
	top_details(table, before, now, "a", keep_line, to);
	top_details(table, before, now, "b", keep_line, to);
	assert_int_equal(fclose(to), 0);
	assert_non_null(strstr(text,
			       "subsystem nqn.x\n  controller 1, io, host id h-1\n    queue 0, enabled, g, from 127.0.0.1 "
			       "port 110\n"));
	assert_non_null(strstr(text, "100 commands, read 4.0kiB, written 0B, 1 under way\n      reads take - us, writes - "
				     "us on average\nIt no longer exists.\n"));
	free(text);
	free_table();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rates_are_per_second_of_the_targets_clock),
		cmocka_unit_test(totals_are_the_counters),
		cmocka_unit_test(one_sample_gives_no_rates),
		cmocka_unit_test(a_reset_counter_counts_from_zero),
		cmocka_unit_test(new_rows_count_from_zero_and_removed_rows_vanish),
		cmocka_unit_test(counters_of_another_process_give_no_rates),
		cmocka_unit_test(threads_show_their_core_and_their_share_of_it),
		cmocka_unit_test(pollers_show_their_runs_in_the_interval),
		cmocka_unit_test(cores_show_busy_and_processor_time),
		cmocka_unit_test(hosts_show_the_sums_of_their_queue_pairs),
		cmocka_unit_test(hosts_show_the_average_latency_of_all_their_queues),
		cmocka_unit_test(missing_values_and_methods_are_noted),
		cmocka_unit_test(buffers_are_shown_by_host_and_device),
		cmocka_unit_test(only_the_methods_of_a_tab_are_called),
		cmocka_unit_test(answers_of_an_unexpected_shape_are_ignored),
		cmocka_unit_test(rows_are_sorted_with_empty_values_last),
		cmocka_unit_test(a_filter_matches_any_text_column),
		cmocka_unit_test(values_are_abbreviated_to_fit_their_columns),
		cmocka_unit_test(details_show_values_that_have_no_column),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
