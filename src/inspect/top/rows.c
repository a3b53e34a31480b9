/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Computes the rows of THREADS, POLLERS, CORES, VOLUMES and BUFFERS from one sample, or from two and the time between
 * them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "inspect/top/internal.h"

/* ---- a row and its previous values ---- */

/* Counters that only grow. If one is smaller than before, the item is new, or was reset. */
static const char *const counters[TOP_TABS][8] = {
	[TOP_THREADS] = { "busy", "idle" },
	[TOP_POLLERS] = { "run_count", "busy_count" },
	[TOP_CORES] = { "busy", "idle" },
	[TOP_VOLUMES] = { "bytes_read", "num_read_ops", "bytes_written", "num_write_ops", "num_unmap_ops",
			  "read_latency_ticks", "write_latency_ticks", "bytes_unmapped" },
	[TOP_HOSTS] = { "num_commands", "bytes_read", "bytes_written", "read_latency_ticks", "write_latency_ticks" },
};

static double get_number(const json_t *json, const char *name)
{
	return json_number_value(json_object_get(json, name));
}

static bool is_new(enum top_tab tab, const json_t *before, const json_t *now)
{
	for (size_t i = 0; i < ARRAY_COUNT(counters[tab]) && counters[tab][i]; i++) {
		if (get_number(now, counters[tab][i]) < get_number(before, counters[tab][i]))
			return true;
	}
	return false;
}

/* By the target's own clock if the answer has it; else by our clock at the arrival of the answers. */
static double seconds_between(const struct top_sample *before, const struct top_sample *now, enum top_tab tab)
{
	enum call call = call_of(tab);

	if (tab == TOP_VOLUMES && now->tick_rate > 0) {
		double from = get_number(before->answers[call], "ticks"), to = get_number(now->answers[call], "ticks");

		if (from > 0 && to > from)
			return (to - from) / now->tick_rate;
	}
	if (now->times_ns[call] <= before->times_ns[call])
		return 0;
	return (double)(now->times_ns[call] - before->times_ns[call]) / NS_PER_SEC;
}

double top_seconds(const struct top_sample *before, const struct top_sample *now, enum top_tab tab)
{
	return before && top_sample_pid(before) == top_sample_pid(now) ? seconds_between(before, now, tab) : 0;
}

struct pair pair_make(const struct top_sample *before, const struct top_sample *now, enum top_tab tab,
		      const struct item *item, bool totals)
{
	struct pair pair = { .now = now, .item = item, .known = totals, .totals = totals, .seconds = 1 };
	const struct item *was;

	if (totals || !before || top_sample_pid(before) != top_sample_pid(now) || before->refusals[call_of(tab)])
		return pair;
	pair.seconds = seconds_between(before, now, tab);
	pair.known = pair.seconds > 0;
	pair.ticks = pair.seconds * now->tick_rate;
	was = items_find(&before->items[tab], item->key);
	if (was && !is_new(tab, was->json, item->json))
		pair.before = was->json;
	return pair;
}

struct top_value pair_gauge(const struct pair *pair, const char *name)
{
	const json_t *value = json_object_get(pair->item->json, name);

	return json_is_number(value) ? value_number(json_number_value(value)) : value_none();
}

struct top_value pair_count(const struct pair *pair, const char *name)
{
	struct top_value value = pair_gauge(pair, name);
	double was = get_number(pair->before, name);

	if (value.kind == TOP_NOTHING || !pair->known)
		return value_none();
	/* other counters may have been reset separately */
	return value_number(value.number >= was ? value.number - was : value.number);
}

struct top_value pair_rate(const struct pair *pair, const char *name)
{
	return value_divide(pair_count(pair, name), pair->seconds);
}

struct top_value value_add(struct top_value a, struct top_value b)
{
	return a.kind == TOP_NUMBER && b.kind == TOP_NUMBER ? value_number(a.number + b.number) : value_none();
}

struct top_value value_divide(struct top_value a, double by)
{
	return a.kind == TOP_NUMBER && by > 0 ? value_number(a.number / by) : value_none();
}

static struct top_value value_percent(struct top_value part, struct top_value whole)
{
	struct top_value share = value_divide(part, whole.kind == TOP_NUMBER ? whole.number : 0);

	/* limit to 100: the two are not read at the same instant */
	return share.kind == TOP_NUMBER ? value_number(share.number > 1 ? 100 : share.number * 100) : share;
}

static struct top_value get_text_value(const json_t *object, const char *name)
{
	return value_text(json_string_value(json_object_get(object, name)));
}

struct top_value pair_us(const struct pair *pair, struct top_value ticks)
{
	return value_divide(ticks, pair->now->tick_rate / 1e6);
}

static struct top_value busy_status(struct top_value busy)
{
	return busy.kind == TOP_NUMBER ? value_text(busy.number > 0 ? "busy" : "idle") : value_none();
}

/* ---- threads ---- */

static void fill_thread(const struct pair *pair, struct top_value *to)
{
	const json_t *thread = pair->item->json, *core = json_object_get(pair->now->cores, pair->item->key);
	struct top_value busy = pair_count(pair, "busy"), idle = pair_count(pair, "idle"), share;

	share = value_percent(busy, pair->totals ? value_add(busy, idle) : value_number(pair->ticks));
	*to++ = get_text_value(thread, "name");
	*to++ = pair_gauge(pair, "id");
	*to++ = core ? value_number(json_number_value(core)) : value_none();
	*to++ = pair_gauge(pair, "active_pollers_count");
	*to++ = pair_gauge(pair, "timed_pollers_count");
	*to++ = pair_gauge(pair, "paused_pollers_count");
	*to++ = pair_us(pair, idle);
	*to++ = pair_us(pair, busy);
	*to++ = share;
	*to++ = share; /* the bar */
	*to = busy_status(busy);
}

/* ---- pollers ---- */

static void fill_poller(const struct pair *pair, struct top_value *to)
{
	struct top_value busy = pair_count(pair, "busy_count"), state = get_text_value(pair->item->json, "state");

	*to++ = get_text_value(pair->item->json, "name");
	*to++ = value_text(pair->item->text);
	*to++ = get_text_value(pair->item->parent, "name");
	*to++ = pair_count(pair, "run_count");
	*to++ = busy;
	*to++ = pair_us(pair, pair_gauge(pair, "period_ticks"));
	*to = state.kind == TOP_TEXT && strcmp(state.text, "waiting") != 0 ? state : busy_status(busy);
}

/* ---- cores ---- */

/* The pollers of all threads on this core; TOP_NOTHING if the threads are not reported. */
static struct top_value count_pollers_on_core(const struct top_sample *now, const json_t *lw_threads)
{
	struct top_value sum = value_number(0);
	const json_t *lw_thread;
	size_t i;

	json_array_foreach (lw_threads, i, lw_thread) {
		const json_t *thread;
		char id[24];

		snprintf(id, sizeof(id), "%lld", (long long)json_integer_value(json_object_get(lw_thread, "id")));
		thread = json_object_get(now->threads, id);
		if (!thread)
			return value_none();
		sum.number += get_number(thread, "active_pollers_count") + get_number(thread, "timed_pollers_count") +
			      get_number(thread, "paused_pollers_count");
	}
	return sum;
}

static void fill_core(const struct pair *pair, struct top_value *to)
{
	const json_t *reactor = pair->item->json, *threads = json_object_get(reactor, "lw_threads");
	const json_t *asleep = json_object_get(reactor, "in_interrupt"), *mhz = json_object_get(reactor, "core_freq");
	struct top_value busy = pair_count(pair, "busy"), idle = pair_count(pair, "idle"), all = value_add(busy, idle);
	struct top_value sys = pair_count(pair, "sys"), irq = pair_count(pair, "irq"), usr = pair_count(pair, "usr");
	/* hundredths of a second in the interval */
	struct top_value jiffies = value_number((pair->totals ? all.number / pair->now->tick_rate : pair->seconds) * 100);

	if (all.kind == TOP_NOTHING || pair->now->tick_rate <= 0)
		jiffies = value_none();
	*to++ = pair_gauge(pair, "lcore");
	*to++ = json_is_array(threads) ? value_number((double)json_array_size(threads)) : value_none();
	*to++ = count_pollers_on_core(pair->now, threads);
	*to++ = pair_us(pair, idle);
	*to++ = pair_us(pair, busy);
	*to++ = value_percent(busy, all);
	*to++ = value_percent(busy, all); /* the bar */
	*to++ = busy.kind == TOP_NUMBER && busy.number == 0 && json_is_true(asleep) ? value_text("asleep")
										    : busy_status(busy);
	*to++ = json_is_boolean(asleep) ? value_text(json_is_true(asleep) ? "yes" : "no") : value_none();
	*to++ = value_percent(sys, jiffies);
	*to++ = value_percent(irq, jiffies);
	*to++ = value_percent(value_add(value_add(sys, usr), irq), jiffies);
	*to = json_is_number(mhz) ? value_number(json_number_value(mhz)) : value_none();
}

/* ---- volumes ---- */

static struct top_value errors_of(const struct pair *pair)
{
	const json_t *now = json_object_get(pair->item->json, "io_error"),
		     *before = json_object_get(pair->before, "io_error");
	const json_t *count;
	const char *status;
	double sum = 0;

	if (!json_is_object(now) || !pair->known)
		return value_none();
	json_object_foreach ((json_t *)now, status, count) {
		double is = json_number_value(count), was = get_number(before, status);

		sum += is >= was ? is - was : is;
	}
	return value_number(sum);
}

static double number_or_zero(struct top_value value)
{
	return value.kind == TOP_NUMBER ? value.number : 0;
}

static void fill_volume(const struct pair *pair, struct top_value *to)
{
	struct top_value reads = pair_count(pair, "num_read_ops"), writes = pair_count(pair, "num_write_ops");
	struct top_value unmaps = pair_count(pair, "num_unmap_ops"), all = value_add(reads, writes);
	struct top_value read_ticks = pair_count(pair, "read_latency_ticks"), ticks;
	struct top_value write_ticks = pair_count(pair, "write_latency_ticks");

	ticks = value_add(read_ticks, write_ticks);
	if (all.kind == TOP_NUMBER)
		all.number += number_or_zero(unmaps) + number_or_zero(pair_count(pair, "num_copy_ops"));
	if (ticks.kind == TOP_NUMBER)
		ticks.number += number_or_zero(pair_count(pair, "unmap_latency_ticks")) +
				number_or_zero(pair_count(pair, "copy_latency_ticks"));
	*to++ = get_text_value(pair->item->json, "name");
	*to++ = value_divide(all, pair->seconds);
	*to++ = value_divide(reads, pair->seconds);
	*to++ = value_divide(writes, pair->seconds);
	*to++ = pair_rate(pair, "bytes_read");
	*to++ = pair_rate(pair, "bytes_written");
	*to++ = pair_us(pair, value_divide(ticks, number_or_zero(all)));
	*to++ = value_none(); /* the bar: scale_latencies() */
	*to++ = value_none(); /* the history */
	*to++ = pair_us(pair, value_divide(read_ticks, number_or_zero(reads)));
	*to++ = pair_us(pair, value_divide(write_ticks, number_or_zero(writes)));
	*to++ = value_divide(ticks, pair->ticks);
	*to++ = pair_gauge(pair, "queue_depth");
	*to++ = value_divide(unmaps, pair->seconds);
	*to = errors_of(pair);
}

/* ---- buffers ---- */

static void fill_buffer(const struct pair *pair, struct top_value *to)
{
	const json_t *share = pair->item->json, *all = pair->item->parent, *limit = NULL;
	struct top_value host = get_text_value(share, "host"), device = get_text_value(share, "name"),
			 lent = pair_gauge(pair, "lent_bytes"), share_of_limit;
	struct top_value kind = value_text(host.kind == TOP_TEXT ? "host" : device.kind == TOP_TEXT ? "device" : "all");

	if (host.kind == TOP_TEXT)
		limit = json_object_get(all, "host_limit_bytes");
	else if (device.kind != TOP_TEXT)
		limit = json_object_get(all, "most_bytes");
	*to++ = host.kind == TOP_TEXT ? host : device.kind == TOP_TEXT ? device : value_text("(all)");
	*to++ = kind;
	*to++ = value_text(pair->item->text);
	*to++ = lent;
	*to++ = json_is_number(limit) ? value_number(json_number_value(limit)) : value_none();
	share_of_limit = json_is_number(limit) ? value_percent(lent, value_number(json_number_value(limit))) : value_none();
	*to++ = share_of_limit;
	*to++ = share_of_limit; /* the bar */
	*to = pair_gauge(pair, "waiting");
}

void rows_make(const struct top_sample *before, const struct top_sample *now, struct top_table *table)
{
	static void (*const fill[])(const struct pair *, struct top_value *) = {
		[TOP_THREADS] = fill_thread, [TOP_POLLERS] = fill_poller, [TOP_CORES] = fill_core,
		[TOP_VOLUMES] = fill_volume, [TOP_BUFFERS] = fill_buffer,
	};
	const struct items *items = &now->items[table->tab];

	must(table->tab < ARRAY_COUNT(fill));
	must(fill[table->tab]);
	table->rows = calloc(items->count ? items->count : 1, sizeof(*table->rows));
	must(table->rows);
	table->row_count = items->count;
	for (uint32_t i = 0; i < items->count; i++) {
		struct pair pair = pair_make(before, now, table->tab, &items->items[i], table->totals);

		table->rows[i].key = items->items[i].key;
		fill[table->tab](&pair, table->rows[i].values);
	}
}
