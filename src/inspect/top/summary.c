/* SPDX-License-Identifier: BSD-2-Clause */
/* The target as a whole: figures that no tab has, and alarms. */
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/text.h"
#include "inspect/top/internal.h"

#define OLDEST_HIGH_US 1e6
#define OLDEST_BAD_US 5e6 /* the engine then calls a device slow */

/* ---- figures ---- */

static const json_t *groups_of(const struct top_sample *sample)
{
	return json_object_get(sample->answers[CALL_BUFFERS], "poll_groups");
}

/* The sum of a field of all poll groups; TOP_NOTHING if one of them lacks it. */
static struct top_value sum_of_groups(const struct top_sample *sample, const char *field)
{
	const json_t *group;
	double sum = 0;
	size_t i;

	if (!sample || !json_is_array(groups_of(sample)))
		return value_none();
	json_array_foreach (groups_of(sample), i, group) {
		const json_t *value = json_object_get(group, field);

		if (!json_is_number(value))
			return value_none();
		sum += json_number_value(value);
	}
	return value_number(sum);
}

/* The increase per second. A counter that shrank tells nothing. */
static struct top_value rate_of_groups(const struct top_sample *before, const struct top_sample *now, const char *field)
{
	struct top_value was = sum_of_groups(before, field), is = sum_of_groups(now, field);
	uint64_t from, to;

	if (was.kind == TOP_NOTHING || is.kind == TOP_NOTHING || is.number < was.number)
		return value_none();
	if (top_sample_pid(before) != top_sample_pid(now))
		return value_none();
	from = before->times_ns[CALL_BUFFERS];
	to = now->times_ns[CALL_BUFFERS];
	return to > from ? value_divide(value_number(is.number - was.number), (double)(to - from) / NS_PER_SEC)
			 : value_none();
}

/* The share of busy time of all reactors together. */
static struct top_value busy_share(const struct top_sample *before, const struct top_sample *now)
{
	const struct items *cores = &now->items[TOP_CORES];
	double busy = 0, all = 0;

	for (uint32_t i = 0; i < cores->count; i++) {
		struct pair pair = pair_make(before, now, TOP_CORES, &cores->items[i], false);
		struct top_value part = pair_count(&pair, "busy"), idle = pair_count(&pair, "idle");

		if (part.kind == TOP_NOTHING || idle.kind == TOP_NOTHING)
			return value_none();
		busy += part.number;
		all += part.number + idle.number;
	}
	return value_divide(value_number(100 * busy), all);
}

/* A target without a summary: the age of its oldest thread. */
static struct top_value age_of_threads(const struct top_sample *now)
{
	const struct items *cores = &now->items[TOP_CORES];
	const json_t *thread;
	double ticks = 0;
	size_t n;

	for (uint32_t i = 0; i < cores->count; i++) {
		json_array_foreach (json_object_get(cores->items[i].json, "lw_threads"), n, thread) {
			double elapsed = json_number_value(json_object_get(thread, "elapsed"));

			ticks = elapsed > ticks ? elapsed : ticks;
		}
	}
	return ticks > 0 ? value_divide(value_number(ticks), now->tick_rate) : value_none();
}

static void read_commands(const struct top_sample *now, struct top_summary *summary)
{
	const json_t *group;
	double oldest = -1;
	size_t i;

	summary->under_way = sum_of_groups(now, "commands_under_way");
	if (summary->under_way.kind == TOP_NOTHING)
		summary->under_way = sum_of_groups(now, "pending_bdev_io"); /* SPDK */
	json_array_foreach (groups_of(now), i, group) {
		const json_t *ticks = json_object_get(group, "oldest_command_ticks");

		if (json_is_number(ticks) && json_number_value(ticks) > oldest)
			oldest = json_number_value(ticks);
	}
	if (oldest >= 0 && summary->under_way.number > 0)
		summary->oldest_us = value_divide(value_number(oldest * 1e6), now->tick_rate);
}

/* ---- alarms ---- */

static const struct {
	const char *alarm, *one, *many; /* with their number before them, if it is not in the text */
} alarm_texts[] = {
	{ "device_not_responding", "1 device does not respond", "devices do not respond" },
	{ "device_slow", "1 device is slow", "devices are slow" },
	{ "storage_failed", "the storage rejects changes: restart the engine", NULL },
	{ "pool_errored", "1 pool cannot be used", "pools cannot be used" },
	{ "volume_errored", "1 volume is not served", "volumes are not served" },
	{ "volume_read_only", "1 volume takes no writes", "volumes take no writes" },
	{ "pool_space_low", "1 pool is nearly full", "pools are nearly full" },
	{ "storage_space_low", "the storage is nearly full", NULL },
	{ "core_silent", "a core does not answer", NULL },
	{ "waiting_for_buffers", "1 command waits for a data buffer", "commands wait for a data buffer" },
};

/* Replace what a terminal would interpret, and a character that was cut. */
static void clean_text(char *text, size_t bytes)
{
	char copy[TOP_ALARM_BYTES_MAX];
	size_t used = text_utf8_copy(copy, sizeof(copy) - 1, text, strlen(text));

	copy[used] = '\0';
	for (char *at = copy; *at; at++)
		*at = *at == '\t' || *at == '\n' ? '?' : *at;
	(void)text_copy(text, bytes, copy); /* not longer than before */
}

static void add_alarm(struct top_summary *summary, const char *key, uint64_t count, const char *name, double seconds)
{
	struct top_alarm *alarm = &summary->alarms[summary->alarm_count];
	const char *one = key, *many = key;
	char about[80] = "", age[24] = "";

	if (count == 0 || summary->alarm_count == TOP_ALARMS_MAX)
		return;
	summary->alarm_count++;
	for (size_t i = 0; i < ARRAY_COUNT(alarm_texts); i++) {
		if (strcmp(alarm_texts[i].alarm, key) == 0) {
			one = alarm_texts[i].one;
			many = alarm_texts[i].many;
		}
	}
	if (seconds > 0)
		snprintf(age, sizeof(age), "%s%.0f s", name[0] ? ", " : "", seconds);
	if (name[0] || age[0])
		snprintf(about, sizeof(about), " (%.48s%s)", name, age);
	(void)text_copy(alarm->alarm, sizeof(alarm->alarm), key); /* a longer one, of a newer target, is cut */
	alarm->count = count;
	if (count == 1 || !many)
		snprintf(alarm->text, sizeof(alarm->text), "%.64s%s", one, about);
	else
		snprintf(alarm->text, sizeof(alarm->text), "%llu %.64s%s", (unsigned long long)count, many, about);
	clean_text(alarm->alarm, sizeof(alarm->alarm));
	clean_text(alarm->text, sizeof(alarm->text));
}

static uint64_t commands_without_buffer(const struct top_sample *now)
{
	const json_t *group, *transport;
	double sum = 0;
	size_t i, n;

	json_array_foreach (groups_of(now), i, group) {
		json_array_foreach (json_object_get(group, "transports"), n, transport)
			sum += json_number_value(json_object_get(json_object_get(transport, "buffers"), "waiting"));
	}
	return (uint64_t)sum;
}

static void read_alarms(const struct top_sample *now, struct top_summary *summary)
{
	const json_t *alarm;
	size_t i;

	json_array_foreach (json_object_get(now->answers[CALL_SUMMARY], "alarms"), i, alarm) {
		const char *key = json_string_value(json_object_get(alarm, "alarm"));
		const char *name = json_string_value(json_object_get(alarm, "name"));
		json_int_t count = json_integer_value(json_object_get(alarm, "count"));

		if (key && count > 0)
			add_alarm(summary, key, (uint64_t)count, name ? name : "",
				  json_number_value(json_object_get(alarm, "seconds")));
	}
	if (now->refusals[CALL_BUFFERS] && strcmp(now->refusals[CALL_BUFFERS], TOP_CORE_SILENT) == 0)
		add_alarm(summary, "core_silent", 1, "", 0);
	add_alarm(summary, "waiting_for_buffers", commands_without_buffer(now), "", 0);
}

void top_summary_get(const struct top_sample *before, const struct top_sample *now, struct top_summary *summary_ret)
{
	const json_t *answer = now->answers[CALL_SUMMARY];
	const json_t *version = json_object_get(answer ? answer : now->answers[CALL_VERSION], "version");
	const json_t *uptime = json_object_get(answer, "uptime_seconds"), *hosts = json_object_get(answer, "hosts");

	must(now->complete);
	*summary_ret = (struct top_summary){ .alarm_count = 0 };
	if (json_is_string(version))
		(void)text_copy(summary_ret->version, sizeof(summary_ret->version), json_string_value(version)); /* cut */
	clean_text(summary_ret->version, sizeof(summary_ret->version));
	summary_ret->has_alarms = answer != NULL;
	summary_ret->uptime_seconds = json_is_number(uptime) ? value_number(json_number_value(uptime))
							     : age_of_threads(now);
	summary_ret->hosts = json_is_number(hosts) ? value_number(json_number_value(hosts)) : value_none();
	summary_ret->iops = rate_of_groups(before, now, "completed_nvme_io");
	summary_ret->read_bytes = rate_of_groups(before, now, "bytes_read");
	summary_ret->write_bytes = rate_of_groups(before, now, "bytes_written");
	summary_ret->busy_percent = busy_share(before, now);
	read_commands(now, summary_ret);
	read_alarms(now, summary_ret);
}

/* ---- texts ---- */

const char *top_uptime_text(const struct top_value *seconds, char text_ret[TOP_TEXT_BYTES_MAX])
{
	unsigned long long sec = seconds->kind == TOP_NUMBER && seconds->number > 0 ? (unsigned long long)seconds->number
										    : 0;
	unsigned int minutes = (unsigned int)(sec / 60 % 60), hours = (unsigned int)(sec / 3600 % 24);

	if (seconds->kind != TOP_NUMBER)
		(void)text_copy(text_ret, TOP_TEXT_BYTES_MAX, "-"); /* fits */
	else if (sec >= 86400)
		snprintf(text_ret, TOP_TEXT_BYTES_MAX, "%llu d %02u:%02u", sec / 86400, hours, minutes);
	else
		snprintf(text_ret, TOP_TEXT_BYTES_MAX, "%02u:%02u:%02u", hours, minutes, (unsigned int)(sec % 60));
	return text_ret;
}

/* "250 us", "12.3 ms", "4.5 s" */
static void write_age(double us, char *text, size_t bytes)
{
	if (us < 1e3)
		snprintf(text, bytes, "%.0f us", us);
	else if (us < 1e6)
		snprintf(text, bytes, "%.1f ms", us / 1e3);
	else
		snprintf(text, bytes, "%.1f s", us / 1e6);
}

static void PRINTF_LIKE(3, 4) set_part(struct top_part *part, enum top_level level, const char *format, ...)
{
	va_list args;
	int used;

	part->level = level;
	va_start(args, format);
	used = vsnprintf(part->text, sizeof(part->text), format, args);
	va_end(args);
	must(used >= 0);
	if (level != TOP_LEVEL_FINE && (size_t)used + 2 < sizeof(part->text))
		snprintf(part->text + used, sizeof(part->text) - (size_t)used, " %c", top_level_mark(level));
}

static void set_commands_part(struct top_part *part, const struct top_summary *summary)
{
	char count[TOP_TEXT_BYTES_MAX], age[24];
	double us = summary->oldest_us.number;

	top_value_text(&summary->under_way, TOP_UNIT_COUNT, count);
	if (summary->oldest_us.kind != TOP_NUMBER) {
		set_part(part, TOP_LEVEL_FINE, "under way %.12s", count);
		return;
	}
	write_age(us, age, sizeof(age));
	set_part(part,
		 us >= OLDEST_BAD_US	? TOP_LEVEL_BAD
		 : us >= OLDEST_HIGH_US ? TOP_LEVEL_HIGH
					: TOP_LEVEL_FINE,
		 "under way %.12s (%.12s)", count, age);
}

uint32_t top_summary_parts(const struct top_summary *summary, struct top_part parts_ret[TOP_PARTS_MAX])
{
	char text[TOP_TEXT_BYTES_MAX];
	uint32_t count = 0;

	set_part(&parts_ret[count++], TOP_LEVEL_FINE, "IOPS %.12s", top_value_text(&summary->iops, TOP_UNIT_RATE, text));
	set_part(&parts_ret[count++],
		 summary->busy_percent.kind == TOP_NUMBER ? level_of_share(summary->busy_percent.number) : TOP_LEVEL_FINE,
		 "busy %.12s %%", top_value_text(&summary->busy_percent, TOP_UNIT_PERCENT, text));
	set_commands_part(&parts_ret[count++], summary);
	set_part(&parts_ret[count++], TOP_LEVEL_FINE, "hosts %.12s", top_value_text(&summary->hosts, TOP_UNIT_COUNT, text));
	set_part(&parts_ret[count++], TOP_LEVEL_FINE, "read %.12s",
		 top_value_text(&summary->read_bytes, TOP_UNIT_BYTES, text));
	set_part(&parts_ret[count++], TOP_LEVEL_FINE, "write %.12s",
		 top_value_text(&summary->write_bytes, TOP_UNIT_BYTES, text));
	must(count <= TOP_PARTS_MAX);
	return count;
}

const char *top_summary_alarms(const struct top_summary *summary, char *text_ret, size_t bytes)
{
	size_t used = 0;

	must(bytes > 0);
	snprintf(text_ret, bytes, "%s", summary->has_alarms ? "no alarm" : "the target does not report alarms");
	for (uint32_t i = 0; i < summary->alarm_count && used < bytes; i++)
		used += (size_t)snprintf(text_ret + used, bytes - used, "%s%s", i ? "; " : "", summary->alarms[i].text);
	return text_ret;
}

/* ---- JSON ---- */

static json_t *number_json(const struct top_value *value, bool whole)
{
	if (value->kind != TOP_NUMBER)
		return json_null();
	return whole ? json_integer((json_int_t)(value->number + 0.5)) : json_real(value->number);
}

json_t *top_summary_json(const struct top_summary *summary)
{
	json_t *object = json_object(), *alarms = json_array();

	must(object);
	must(alarms);
	json_object_set_new(object, "version", summary->version[0] ? json_string(summary->version) : json_null());
	json_object_set_new(object, "uptime_seconds", number_json(&summary->uptime_seconds, true));
	json_object_set_new(object, "hosts", number_json(&summary->hosts, true));
	json_object_set_new(object, "iops", number_json(&summary->iops, false));
	json_object_set_new(object, "read_bytes_per_second", number_json(&summary->read_bytes, true));
	json_object_set_new(object, "write_bytes_per_second", number_json(&summary->write_bytes, true));
	json_object_set_new(object, "busy_percent", number_json(&summary->busy_percent, false));
	json_object_set_new(object, "commands_under_way", number_json(&summary->under_way, true));
	json_object_set_new(object, "oldest_command_us", number_json(&summary->oldest_us, false));
	for (uint32_t i = 0; i < summary->alarm_count; i++) {
		const struct top_alarm *alarm = &summary->alarms[i];

		json_array_append_new(alarms, json_pack("{ss, sI, ss}", "alarm", alarm->alarm, "count",
							(json_int_t)alarm->count, "text", alarm->text));
	}
	json_object_set_new(object, "alarms", alarms);
	return object;
}
