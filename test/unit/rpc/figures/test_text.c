/* SPDX-License-Identifier: BSD-2-Clause */
/* The text of figures: labels, numbers, histograms, exemplars, both formats, and figures of another program. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* after those */
#include <cmocka.h>

#include "base/clock.h"
#include "rpc/figures/checks.h"
#include "rpc/figures/figures.h"

static char *text_of(struct figures *figures)
{
	size_t bytes = 0;
	char *text = figures_text(figures, &bytes);

	assert_int_equal(bytes, strlen(text));
	return text;
}

static void assert_has(const struct figures *figures, const char *wanted)
{
	size_t bytes;
	char *text = figures_text(figures, &bytes);

	if (!strstr(text, wanted))
		fail_msg("no \"%s\" in:\n%s", wanted, text);
	free(text);
}

static void assert_lacks(const struct figures *figures, const char *unwanted)
{
	size_t bytes;
	char *text = figures_text(figures, &bytes);

	if (strstr(text, unwanted))
		fail_msg("\"%s\" in:\n%s", unwanted, text);
	free(text);
}

static void a_text_without_figures_is_valid(void **state)
{
	struct figures *open = figures_create(FIGURES_OPENMETRICS, ""), *old = figures_create(FIGURES_PROMETHEUS, NULL);
	char *text = text_of(open);

	assert_string_equal(text, "# EOF\n");
	free(text);
	text = text_of(old);
	assert_string_equal(text, "");
	free(text);
	figures_destroy(open);
	figures_destroy(old);
	figures_destroy(NULL);
}

static void checks_are_those_of_the_program_with_what_is_muted(void **state)
{
	struct figure_checks checks = { .counts = { [FIGURE_CHECK_POOL_FULL] = 2, [FIGURE_CHECK_DEVICE_GONE] = 1 } };
	struct figures *engine = figures_create(FIGURES_OPENMETRICS, ""), *server = figures_create(FIGURES_OPENMETRICS, "");
	enum figure_check check = FIGURE_CHECKS_MAX;

	figures_add_checks(engine, &checks, false, 1 << FIGURE_CHECK_POOL_FULL | 1 << FIGURE_CHECK_DATA_LOST);
	figures_add_checks(server, &checks, true, UINT64_C(1) << FIGURE_CHECK_DEVICE_WARNING);
	assert_has(engine, "\nfathom_health_check{code=\"pool_full\",severity=\"broken\",muted=\"yes\"} 2\n");
	assert_has(engine, "\nfathom_health_check{code=\"data_lost\",severity=\"broken\",muted=\"yes\"} 0\n");
	assert_has(engine, "\nfathom_health_check{code=\"pool_nearly_full\",severity=\"degraded\",muted=\"no\"} 0\n");
	assert_lacks(engine, "device_gone");
	assert_has(server, "\nfathom_health_check{code=\"device_gone\",severity=\"broken\",muted=\"no\"} 1\n");
	assert_has(server, "\nfathom_health_check{code=\"device_warning\",severity=\"degraded\",muted=\"yes\"} 0\n");
	assert_lacks(server, "pool_full");
	assert_true(figure_check_find("device_unread", &check));
	assert_int_equal(check, FIGURE_CHECK_DEVICE_UNREAD);
	assert_false(figure_check_find("device", &check));
	figures_destroy(engine);
	figures_destroy(server);
}

static void a_counter_has_its_suffix_where_each_format_wants_it(void **state)
{
	struct figures *open = figures_create(FIGURES_OPENMETRICS, ""), *old = figures_create(FIGURES_PROMETHEUS, "");

	figure_volume_bytes(open, "v", "read", 4096);
	figure_volume_bytes(old, "v", "read", 4096);
	assert_has(
		open,
		"# TYPE fathom_volume_bytes counter\n# UNIT fathom_volume_bytes bytes\n# HELP fathom_volume_bytes Bytes");
	assert_has(open, "\nfathom_volume_bytes_total{volume=\"v\",op=\"read\"} 4096\n");
	assert_has(old, "# TYPE fathom_volume_bytes_total counter\n# HELP fathom_volume_bytes_total Bytes");
	assert_has(old, "\nfathom_volume_bytes_total{volume=\"v\",op=\"read\"} 4096\n");
	assert_lacks(old, "UNIT");
	assert_lacks(old, "EOF");
	figures_destroy(open);
	figures_destroy(old);
}

static void an_info_is_a_gauge_in_the_older_format(void **state)
{
	struct figures *open = figures_create(FIGURES_OPENMETRICS, ""), *old = figures_create(FIGURES_PROMETHEUS, "");

	figure_engine(open, "1.2", "ab");
	figure_engine(old, "1.2", "ab");
	assert_has(open, "# TYPE fathom_engine info\n");
	assert_has(old, "# TYPE fathom_engine_info gauge\n");
	assert_has(old, "fathom_engine_info{version=\"1.2\",build_id=\"ab\"} 1\n");
	figures_destroy(open);
	figures_destroy(old);
}

static void labels_are_escaped_and_valid_utf8(void **state)
{
	struct figures *figures = figures_create(FIGURES_OPENMETRICS, "");

	figure_volume_inflight(figures, "a\"b\\c\nd", 1);
	figure_volume_inflight(figures, "\xff\x01z", 2);
	assert_has(figures, "{volume=\"a\\\"b\\\\c\\nd\"} 1\n");
	assert_has(figures, "{volume=\"?"
			    "?z\"} 2\n");
	figures_destroy(figures);
}

static void a_label_that_is_too_long_is_cut(void **state)
{
	struct figures *figures = figures_create(FIGURES_OPENMETRICS, "12");
	char name[1000];

	memset(name, '"', sizeof(name) - 1); /* each has an escape */
	name[sizeof(name) - 1] = '\0';
	figure_volume(figures, name, name, name, name);
	assert_has(figures, "\\\"\",rank=\"12\"} 1\n");
	figures_destroy(figures);
}

static void the_rank_is_the_last_label(void **state)
{
	struct figures *figures = figures_create(FIGURES_OPENMETRICS, "3");

	figure_engine_start_time_seconds(figures, 1700000000.25);
	figure_volume_inflight(figures, "v", 0);
	assert_has(figures, "fathom_engine_start_time_seconds{rank=\"3\"} 1700000000.25\n");
	assert_has(figures, "fathom_volume_inflight{volume=\"v\",rank=\"3\"} 0\n");
	figures_destroy(figures);
}

static void numbers_are_whole_as_long_as_they_are_exact(void **state)
{
	struct figures *figures = figures_create(FIGURES_OPENMETRICS, "");

	figure_volume_inflight(figures, "a", 4503599627370496);
	figure_volume_inflight(figures, "b", 0.1);
	figure_volume_inflight(figures, "c", 1e300);
	figure_volume_inflight(figures, "d", -1.0 / 0.0);
	figure_volume_inflight(figures, "e", 0.0 / 0.0);
	assert_has(figures, "\"a\"} 4503599627370496\n");
	assert_has(figures, "\"b\"} 0.1\n");
	assert_has(figures, "\"c\"} 1e+300\n");
	assert_has(figures, "\"d\"} -Inf\n");
	assert_has(figures, "\"e\"} NaN\n");
	figures_destroy(figures);
}

static void a_histogram_is_cumulative_and_has_one_exemplar(void **state)
{
	uint64_t buckets[LATENCY_BUCKETS] = { [0] = 3, [9] = 2, [LATENCY_EDGES] = 1 };
	struct figure_exemplar exemplar = { 9, 0.0009, 1700000000123456789, "r435.17" };
	const struct figure_histogram histogram = { buckets, 12.5, &exemplar };
	struct figures *open = figures_create(FIGURES_OPENMETRICS, ""), *old = figures_create(FIGURES_PROMETHEUS, "");

	figure_volume_latency_seconds(open, "v", "read", &histogram);
	figure_volume_latency_seconds(old, "v", "read", &histogram);
	assert_has(open, "_bucket{volume=\"v\",op=\"read\",le=\"1e-06\"} 3\n");
	assert_has(open, "le=\"0.0005\"} 3\n");
	assert_has(open, "le=\"0.001\"} 5 # {request=\"r435.17\"} 0.0009 1700000000.123\n");
	assert_has(open, "le=\"1.0\"} 5\n");
	assert_has(open, "le=\"+Inf\"} 6\n");
	assert_has(open, "_sum{volume=\"v\",op=\"read\"} 12.5\n");
	assert_has(open, "_count{volume=\"v\",op=\"read\"} 6\n");
	assert_has(old, "le=\"0.001\"} 5\n");
	assert_lacks(old, "r435");
	figures_destroy(open);
	figures_destroy(old);
}

static void the_edges_are_those_of_the_buckets(void **state)
{
	const uint64_t buckets[LATENCY_BUCKETS] = { 0 };
	const struct figure_histogram histogram = { buckets, 0, NULL };
	struct figures *figures = figures_create(FIGURES_OPENMETRICS, "");
	char *text, *at;

	figure_rpc_seconds(figures, "m", "0", &histogram);
	text = at = text_of(figures);
	for (int i = 0; i < LATENCY_EDGES; i++) {
		at = strstr(at, "le=\"");
		assert_non_null(at);
		at += 4;
		assert_int_equal((uint64_t)(strtod(at, NULL) * 1e9 + 0.5), latency_edges_ns[i]);
		assert_non_null(strpbrk(at, ".e")); /* OpenMetrics wants a float */
	}
	free(text);
	figures_destroy(figures);
}

static void families_stay_together_in_any_order_of_calls(void **state)
{
	struct figures *figures = figures_create(FIGURES_OPENMETRICS, "");

	figure_volume_inflight(figures, "a", 1);
	figure_trace_records(figures, 5);
	figure_volume_inflight(figures, "b", 2);
	assert_has(figures,
		   "{volume=\"a\"} 1\nfathom_volume_inflight{volume=\"b\"} 2\n# TYPE fathom_trace_records counter\n");
	figures_destroy(figures);
}

static void figures_of_another_program_join_their_families(void **state)
{
	struct figures *engine = figures_create(FIGURES_OPENMETRICS, "1"),
		       *server = figures_create(FIGURES_OPENMETRICS, "");
	size_t bytes;
	const char *lines;

	figure_volume_inflight(engine, "a", 1);
	lines = figures_lines(engine, FIGURE_VOLUME_INFLIGHT, &bytes);
	assert_non_null(lines);
	assert_null(figures_lines(server, FIGURE_VOLUME_INFLIGHT, &(size_t){ 0 }));
	assert_true(figures_merge(server, figures_name(FIGURE_VOLUME_INFLIGHT), lines, bytes));
	figure_engine_up(server, "0", "1", 1);
	assert_has(server, "fathom_volume_inflight{volume=\"a\",rank=\"1\"} 1\n");
	assert_has(server, "fathom_engine_up{engine=\"0\",rank=\"1\"} 1\n");
	figures_destroy(engine);
	figures_destroy(server);
}

static void lines_of_another_family_are_rejected(void **state)
{
	struct figures *figures = figures_create(FIGURES_OPENMETRICS, "");
	static const char *const bad[] = { "", "fathom_volume_inflight 1", "# EOF\n", "fathom_volume_inflight 1\n# EOF\n",
					   "fathom_volume_inflight 1\n\n" };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(figures_merge(figures, "fathom_volume_inflight", bad[i], strlen(bad[i])));
	assert_false(figures_merge(figures, "fathom_of_a_newer_engine", "fathom_of_a_newer_engine 1\n", 27));
	assert_false(figures_merge(figures, "fathom_volume_inflight", "fathom_volume_inflight\0 1\n", 26));
	assert_lacks(figures, "inflight");
	figures_destroy(figures);
}

static void a_text_has_a_limit(void **state)
{
	struct figures *figures = figures_create(FIGURES_OPENMETRICS, "");
	size_t bytes = 0;
	char name[251], *text;

	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	for (size_t i = 0; i < FIGURES_TEXT_BYTES_MAX / 280 + 1000; i++)
		figure_volume_inflight(figures, name, (double)i);
	assert_true(figures_is_cut(figures));
	text = figures_text(figures, &bytes);
	assert_true(bytes < FIGURES_TEXT_BYTES_MAX + 4096);
	assert_string_equal(text + bytes - 6, "# EOF\n");
	free(text);
	figures_destroy(figures);
}

static void a_client_gets_the_format_that_it_accepts(void **state)
{
	assert_int_equal(figures_accepted(NULL), FIGURES_PROMETHEUS);
	assert_int_equal(figures_accepted("*/*"), FIGURES_PROMETHEUS);
	assert_int_equal(figures_accepted("text/plain;version=0.0.4"), FIGURES_PROMETHEUS);
	assert_int_equal(figures_accepted("application/openmetrics-text;version=1.0.0,text/plain;q=0.5"),
			 FIGURES_OPENMETRICS);
	assert_non_null(strstr(figures_content_type(FIGURES_OPENMETRICS), "openmetrics-text; version=1.0.0"));
	assert_non_null(strstr(figures_content_type(FIGURES_PROMETHEUS), "version=0.0.4"));
}

static void a_latency_is_at_most_an_eighth_too_long(void **state)
{
	latency_prepare();
	for (int i = 0; i < LATENCY_EDGES; i++) {
		uint64_t edge = clock_ticks_from_ns(latency_edges_ns[i]);

		assert_true(latency_bucket(edge - edge / 8 - 1) <= (unsigned int)i);
		assert_true(latency_bucket(edge + edge / 8 + 2) > (unsigned int)i);
		assert_true(latency_bucket(edge) <= (unsigned int)i + 1);
	}
	assert_int_equal(latency_bucket(0), 0);
	assert_int_equal(latency_bucket(UINT64_MAX), LATENCY_EDGES);
	for (int bucket = 1; bucket < TRACE_BUCKETS; bucket++)
		assert_true(latency_bucket_of[bucket] >= latency_bucket_of[bucket - 1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_text_without_figures_is_valid),
		cmocka_unit_test(checks_are_those_of_the_program_with_what_is_muted),
		cmocka_unit_test(a_counter_has_its_suffix_where_each_format_wants_it),
		cmocka_unit_test(an_info_is_a_gauge_in_the_older_format),
		cmocka_unit_test(labels_are_escaped_and_valid_utf8),
		cmocka_unit_test(a_label_that_is_too_long_is_cut),
		cmocka_unit_test(the_rank_is_the_last_label),
		cmocka_unit_test(numbers_are_whole_as_long_as_they_are_exact),
		cmocka_unit_test(a_histogram_is_cumulative_and_has_one_exemplar),
		cmocka_unit_test(the_edges_are_those_of_the_buckets),
		cmocka_unit_test(families_stay_together_in_any_order_of_calls),
		cmocka_unit_test(figures_of_another_program_join_their_families),
		cmocka_unit_test(lines_of_another_family_are_rejected),
		cmocka_unit_test(a_text_has_a_limit),
		cmocka_unit_test(a_client_gets_the_format_that_it_accepts),
		cmocka_unit_test(a_latency_is_at_most_an_eighth_too_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
