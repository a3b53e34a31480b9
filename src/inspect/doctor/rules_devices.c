/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rules_devices - which block device hangs, loses, fails or delays I/O?
 *
 * I/Os under way come from the trace, progress from two looks at the counters of the control socket. Without the socket the
 * progress is not known, and the finding is less sure.
 */
#include <string.h>

#include "base/bits.h"
#include "inspect/doctor/findings.gen.h"
#include "inspect/doctor/internal.h"

enum {
	SLOW_US = 50000,       /* on average: slower than any disk that works */
	SLOW_IOS_MIN = 3,      /* in the interval */
	CONTENDED_US = 500000, /* longer than the wait for a CPU alone takes */
	FEW_OF = 8,	       /* one of so many is slow: judge_rare() */
	RARE_US = 50000,       /* a single I/O */
	RARE_FACTOR = 100,     /* of what is usual */
	CONDITIONS_MAX = 64,
	WAITED_PERCENT = 50, /* of the time, for a CPU */
};

/* ---- counters ---- */

static const json_t *stats_of(const json_t *evidence, const char *list, const char *device)
{
	const json_t *row;
	char path[64];
	size_t i;

	snprintf(path, sizeof(path), "answers.%s.bdevs", list);
	json_array_foreach ((json_t *)doc_at(evidence, path), i, row) {
		if (strcmp(doc_text_at(row, "name"), device) == 0)
			return row;
	}
	return NULL;
}

static int64_t ios_of(const json_t *stats)
{
	return doc_number(stats, "num_read_ops", 0) + doc_number(stats, "num_write_ops", 0) +
	       doc_number(stats, "num_unmap_ops", 0);
}

static double ticks_of(const json_t *stats)
{
	return doc_real(stats, "read_latency_ticks", 0) + doc_real(stats, "write_latency_ticks", 0) +
	       doc_real(stats, "unmap_latency_ticks", 0);
}

/* I/Os that ended between the two looks or, without a socket, in the last second of the trace; -1: not known. */
static int64_t progress_of(const json_t *evidence, const char *device)
{
	const json_t *before = stats_of(evidence, "iostat_before", device), *now = stats_of(evidence, "iostat", device);

	const json_t *traced = doc_at(evidence, "trace.ended_ios");

	if (before && now)
		return ios_of(now) - ios_of(before);
	return doc_is_running(evidence) && traced ? json_integer_value(json_object_get(traced, device)) : -1;
}

/* ---- I/Os under way ---- */

/* Is it a group of I/Os that a device has? */
static bool is_at_device(const json_t *evidence, const json_t *group)
{
	const char *stage = doc_is(evidence, "trace.spdk") ? "START" : "DISPATCHED";

	return strcmp(doc_text_at(group, "object"), "bdev_io") == 0 && strcmp(doc_text_at(group, "stage"), stage) == 0;
}

/* The device that has them. The trace of an SPDK target calls the device "d" "bdev_d". */
static const char *device_of(const json_t *evidence, const json_t *group)
{
	const char *owner = doc_text_at(group, "owner"), prefix[] = "bdev_";
	bool prefixed = doc_is(evidence, "trace.spdk") && strncmp(owner, prefix, strlen(prefix)) == 0;

	return owner + (prefixed ? strlen(prefix) : 0);
}

static void judge_under_way(const json_t *evidence, const json_t *group, struct findings *list)
{
	int64_t hung = doc_number(group, "hung", 0), count = doc_number(group, "count", 0);
	const char *device = device_of(evidence, group);
	int64_t ended = progress_of(evidence, device);
	char oldest[SHORT_TEXT_BYTES], option[TRACE_OPTION_BYTES];
	struct finding *it;

	if (!is_at_device(evidence, group) || hung == 0)
		return;
	doc_duration((uint64_t)doc_number(group, "stage_ms", 0), oldest);
	if (ended > 0)
		it = find_command_lost(list, FINDING_LIKELY, device, (uint64_t)hung, oldest);
	else
		it = find_device_hung(list, ended == 0 ? FINDING_CERTAIN : FINDING_LIKELY, device, (uint64_t)count, oldest);
	finding_shows(it,
		      "%" PRId64 " I/Os are %s, %" PRId64 " of them for more than %d ms; the oldest is %s of request %s",
		      count, doc_text_at(group, "stage"), hung, HUNG_MS, doc_text_at(group, "oldest"),
		      doc_text_at(group, "oldest_of"));
	if (ended >= 0)
		finding_shows(it, "%" PRId64 " I/Os of %s ended while the doctor looked", ended, device);
	doc_show_records(group, it);
	doc_trace_option(evidence, option, sizeof(option));
	finding_see(it, "fathom trace stuck%s", option);
	finding_see(it, "fathom trace io %s%s",
		    doc_text_at(group, "oldest_of")[0] ? doc_text_at(group, "oldest_of") : doc_text_at(group, "oldest"),
		    option);
}

/* ---- slow devices ---- */

/* Of `ios` that took `us` in all while the doctor looked: the average without a few that took very long. */
static double usual_us(const json_t *evidence, const char *device, int64_t ios, double us)
{
	double few_us = 0;
	const json_t *row;
	int64_t few = 0;
	size_t i;

	json_array_foreach ((json_t *)doc_at(evidence, "trace.kept"), i, row) {
		if (strcmp(doc_text_at(row, "device"), device) == 0 && doc_number(row, "ago_ms", 0) < 2 * DOCTOR_LOOK_MS &&
		    doc_real(row, "device_us", 0) >= SLOW_US) {
			few_us += doc_real(row, "device_us", 0);
			few++;
		}
	}
	if (few * FEW_OF > ios || few_us > us)
		return us / (double)ios;
	return (us - few_us) / (double)(ios - few);
}

/* Memory: what takes long there waited for a CPU. */
bool doc_is_memory(const json_t *evidence, const char *device)
{
	const json_t *row;
	size_t i;

	json_array_foreach ((json_t *)doc_at(evidence, "answers.devices"), i, row) {
		const char *product = doc_text_at(row, "product_name");

		if (strcmp(doc_text_at(row, "name"), device) == 0)
			return strncmp(product, "Malloc", strlen("Malloc")) == 0 ||
			       strncmp(product, "Null", strlen("Null")) == 0;
	}
	return true; /* not known */
}

/* The share of the time in which the reactor that waited most was ready to run and got no CPU. */
static double reactors_waited_percent(const json_t *evidence)
{
	double interval_ms = doc_real(evidence, "process.interval_ms", 0), most = 0;
	const json_t *traced, *thread;
	size_t i, j;

	json_array_foreach ((json_t *)doc_at(evidence, "trace.threads"), i, traced) {
		json_array_foreach ((json_t *)doc_at(evidence, "process.threads"), j, thread) {
			if (doc_number(traced, "cpu", -1) >= 0 &&
			    doc_number(thread, "tid", 0) == doc_number(traced, "tid", -1) &&
			    doc_real(thread, "waited_ms", 0) > most)
				most = doc_real(thread, "waited_ms", 0);
		}
	}
	return interval_ms > 0 ? most * 100 / interval_ms : 0;
}

static void judge_latency(const json_t *evidence, const json_t *now, struct findings *list)
{
	const json_t *before = stats_of(evidence, "iostat_before", doc_text_at(now, "name"));
	double rate = doc_real(evidence, "answers.iostat.tick_rate", 0), us, past_us;
	int64_t ios = before ? ios_of(now) - ios_of(before) : 0, past = ios_of(before);
	char now_text[SHORT_TEXT_BYTES], past_text[SHORT_TEXT_BYTES], before_text[96], option[TRACE_OPTION_BYTES];
	double waited = reactors_waited_percent(evidence);
	struct finding *it;

	if (rate <= 0 || doc_is_memory(evidence, doc_text_at(now, "name")))
		return;
	past_us = past > 0 ? ticks_of(before) * 1e6 / rate / (double)past : 0;
	if (ios >= SLOW_IOS_MIN)
		us = usual_us(evidence, doc_text_at(now, "name"), ios, (ticks_of(now) - ticks_of(before)) * 1e6 / rate);
	else if (past >= SLOW_IOS_MIN && doc_number(now, "queue_depth", 0) > 0)
		us = past_us; /* so slow that too few ended to tell: as before, it seems */
	else
		return;
	if (us < SLOW_US)
		return;
	doc_latency(us, now_text);
	snprintf(before_text, sizeof(before_text), past_us * 2 < us ? "%s on average before" : "as before (%s)",
		 doc_latency(past_us, past_text));
	it = find_device_slow(list,
			      waited >= WAITED_PERCENT ? FINDING_POSSIBLE
			      : ios >= SLOW_IOS_MIN    ? FINDING_CERTAIN
						       : FINDING_LIKELY,
			      doc_text_at(now, "name"), now_text, before_text);
	if (waited >= WAITED_PERCENT)
		finding_shows(it, "a reactor waited for a CPU in %.0f %% of the time, which is a part of these figures",
			      waited);
	finding_shows(it, "%" PRId64 " I/Os ended while the doctor looked, in %s on average; %" PRId64 " before, in %s",
		      ios, now_text, past, past_text);
	if (us < CONTENDED_US)
		doc_doubt_if_contended(evidence, it);
	finding_see(it, "fathom trace slowest%s", doc_trace_option(evidence, option, sizeof(option)));
	finding_see(it, "fathom top --tab volumes");
}

/* The longest of the kept I/Os of `device`. */
static double longest_kept_us(const json_t *evidence, const char *device, uint64_t *count_ret)
{
	double longest = 0;
	const json_t *row;
	size_t i;

	*count_ret = 0;
	json_array_foreach ((json_t *)doc_at(evidence, "trace.kept"), i, row) {
		double us = doc_real(row, "device_us", 0);

		if (strcmp(doc_text_at(row, "device"), device) != 0 || doc_is(row, "failed") || us < RARE_US)
			continue;
		++*count_ret;
		longest = us > longest ? us : longest;
	}
	return longest;
}

/* A few I/Os that took a hundred times as long as others. */
static void judge_rare(const json_t *evidence, const char *device, struct findings *list)
{
	double usual = doc_real(evidence, "trace.lives.nvmf_req.stages.EXECUTING.p50_us", 0), longest;
	char longest_text[SHORT_TEXT_BYTES], usual_text[SHORT_TEXT_BYTES], option[TRACE_OPTION_BYTES];
	struct finding *it;
	uint64_t count;

	longest = longest_kept_us(evidence, device, &count);
	if (count == 0 || longest < RARE_FACTOR * usual || doc_is_memory(evidence, device))
		return;
	it = find_rare_slow_io(list, FINDING_LIKELY, device, doc_latency(longest, longest_text),
			       doc_latency(usual, usual_text));
	finding_shows(it, "%" PRIu64 " I/Os of the last minutes took %d ms or more at the device, of %" PRId64 " in all",
		      count, RARE_US / 1000, ios_of(stats_of(evidence, "iostat", device)));
	finding_see(it, "fathom trace slowest%s", doc_trace_option(evidence, option, sizeof(option)));
}

/* ---- what devices reported: conditions and errors ---- */

/* Was this device removed since? Another one may have its name now. */
static bool is_removed(const json_t *evidence, const char *device, int64_t ago_ms)
{
	const json_t *devices = doc_at(evidence, "answers.devices"), *row;
	size_t i;

	json_array_foreach ((json_t *)doc_at(evidence, "trace.events.bdev_unregister.last"), i, row) {
		if (doc_number(row, "ago_ms", INT64_MAX) <= ago_ms && strcmp(doc_text_at(row, "args.device"), device) == 0)
			return true;
	}
	json_array_foreach ((json_t *)devices, i, row) {
		if (strcmp(doc_text_at(row, "name"), device) == 0)
			return false;
	}
	return json_is_array(devices);
}

static void end_if_removed(const json_t *evidence, struct finding *it, const char *device, int64_t ago_ms)
{
	if (!it || !is_removed(evidence, device, ago_ms))
		return;
	finding_shows(it, "the device was removed since");
	finding_end(it, ago_ms);
}

/* Did this device report this condition before, in the list from the newest on? */
static bool is_newer(const json_t *events, size_t index)
{
	const json_t *event = json_array_get(events, index), *newer;

	for (size_t i = 0; i < index; i++) {
		newer = json_array_get(events, i);
		if (strcmp(doc_text_at(newer, "args.device"), doc_text_at(event, "args.device")) == 0 &&
		    strcmp(doc_text_at(newer, "args.condition"), doc_text_at(event, "args.condition")) == 0)
			return false;
	}
	return true;
}

static uint64_t count_conditions(const json_t *events, const char *device, const char *condition)
{
	const json_t *event;
	uint64_t count = 0;
	size_t i;

	json_array_foreach ((json_t *)events, i, event)
		count += strcmp(doc_text_at(event, "args.device"), device) == 0 &&
			 strcmp(doc_text_at(event, "args.condition"), condition) == 0;
	return count;
}

static void judge_condition(const json_t *evidence, const json_t *events, const json_t *event, struct findings *list)
{
	const char *device = doc_text_at(event, "args.device"), *condition = doc_text_at(event, "args.condition");
	int64_t value = doc_number(event, "args.value", 0), ago_ms = doc_number(event, "ago_ms", 0);
	char option[TRACE_OPTION_BYTES], ago[SHORT_TEXT_BYTES];
	struct finding *it = NULL;

	if (strcmp(condition, "MISMATCH") == 0) {
		it = find_checksum_mismatch(list, FINDING_CERTAIN, device, count_conditions(events, device, condition));
		finding_shows(it, "the latest is block %" PRId64, value);
	} else if (strcmp(condition, "DATA_LOST") == 0) {
		it = find_data_lost(list, FINDING_CERTAIN, device, strerror((int)value));
	} else if (strcmp(condition, "FULL") == 0 && ago_ms < RECENT_MS) {
		it = find_space_waits(list, FINDING_LIKELY, device);
		doc_end_by_signs(it, &(struct doc_signs){ 1, ago_ms, ago_ms });
	}
	end_if_removed(evidence, it, device, ago_ms);
	if (it) {
		finding_shows(it, "reported %s ago", doc_duration((uint64_t)ago_ms, ago));
		finding_see(it, "fathom trace -n bdev_condition%s", doc_trace_option(evidence, option, sizeof(option)));
	}
}

/* Errors that are those of a device, not of a host's command. */
static bool is_device_error(const char *status)
{
	static const char *const errors[] = { "FAILED", "NO_SPACE", "READ_ONLY", "MEDIA_ERROR", "GONE", "TIMED_OUT" };

	for (size_t i = 0; i < ARRAY_COUNT(errors); i++) {
		if (strcmp(status, errors[i]) == 0)
			return true;
	}
	return false;
}

/* The recent errors of a device. */
static struct doc_signs errors_of(const json_t *events, const char *device)
{
	struct doc_signs signs = { 0 };
	const json_t *event;
	size_t i;

	json_array_foreach ((json_t *)events, i, event) {
		if (doc_number(event, "ago_ms", 0) < RECENT_MS && is_device_error(doc_text_at(event, "args.status")) &&
		    strcmp(doc_text_at(event, "args.device"), device) == 0)
			doc_sign(&signs, doc_number(event, "ago_ms", 0));
	}
	return signs;
}

/* I/Os that ended well in all, and how long ago the first of the known errors was. */
static void show_history(const json_t *evidence, const json_t *events, const char *device, struct finding *it)
{
	const json_t *stats = stats_of(evidence, "iostat", device), *event, *status;
	char ago[SHORT_TEXT_BYTES], up[SHORT_TEXT_BYTES];
	int64_t failed = 0, first_ms = 0;
	const char *key;
	size_t i;

	json_array_foreach ((json_t *)events, i, event) {
		if (strcmp(doc_text_at(event, "args.device"), device) == 0 &&
		    is_device_error(doc_text_at(event, "args.status")))
			first_ms = doc_number(event, "ago_ms", 0);
	}
	json_object_foreach ((json_t *)doc_at(stats, "io_error"), key, status)
		failed += json_integer_value(status);
	if (stats)
		finding_shows(it,
			      "%" PRId64 " I/Os ended well, %" PRId64
			      " failed; the first of the last errors was %s ago, the engine "
			      "runs for %s",
			      ios_of(stats), failed, doc_duration((uint64_t)first_ms, ago),
			      doc_duration((uint64_t)doc_number(evidence, "trace.up_ms", 0), up));
}

/* One finding for each device that failed I/O in the last minutes. */
static void judge_errors(const json_t *evidence, struct findings *list)
{
	const json_t *events = doc_at(evidence, "trace.events.bdev_io_error.last"), *event;
	json_t *seen = doc_object();
	char option[TRACE_OPTION_BYTES], ago[SHORT_TEXT_BYTES];
	size_t i;

	json_array_foreach ((json_t *)events, i, event) {
		const char *device = doc_text_at(event, "args.device");
		struct doc_signs signs = errors_of(events, device);
		struct finding *it;

		if (signs.count == 0 || json_object_get(seen, device) ||
		    !is_device_error(doc_text_at(event, "args.status")))
			continue;
		it = find_device_fails(list, FINDING_CERTAIN, device, signs.count, doc_text_at(event, "args.status"));
		doc_end_by_signs(it, &signs);
		end_if_removed(evidence, it, device, signs.newest_ms);
		finding_shows(it, "the latest was at block %" PRId64 ", %s ago", doc_number(event, "args.block_index", 0),
			      doc_duration((uint64_t)doc_number(event, "ago_ms", 0), ago));
		show_history(evidence, events, device, it);
		finding_see(it, "fathom trace slowest --failed%s", doc_trace_option(evidence, option, sizeof(option)));
		doc_put(seen, device, json_true());
	}
	json_decref(seen);
}

void rules_devices(const json_t *evidence, struct findings *list)
{
	const json_t *row, *events = doc_at(evidence, "trace.events.bdev_condition.last");
	json_t *seen = doc_object();
	size_t i;

	json_array_foreach ((json_t *)doc_at(evidence, "trace.under_way"), i, row)
		judge_under_way(evidence, row, list);
	json_array_foreach ((json_t *)doc_at(evidence, "answers.iostat.bdevs"), i, row)
		judge_latency(evidence, row, list);
	json_array_foreach ((json_t *)events, i, row) {
		if (is_newer(events, i))
			judge_condition(evidence, events, row, list);
	}
	judge_errors(evidence, list);
	json_array_foreach ((json_t *)doc_at(evidence, "trace.kept"), i, row) {
		const char *device = doc_text_at(row, "device");

		if (device[0] && !json_object_get(seen, device))
			judge_rare(evidence, device, list);
		if (device[0])
			doc_put(seen, device, json_true());
	}
	json_decref(seen);
}
