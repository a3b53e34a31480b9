/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls of one sample and their answers, and the items in them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "inspect/top/internal.h"

static const struct {
	const char *method;
	const char *list; /* the member that has the rows; NULL: the answer is the list */
} calls[] = {
	[CALL_THREADS] = { "thread_get_stats", "threads" },
	[CALL_POLLERS] = { "thread_get_pollers", "threads" },
	[CALL_CHANNELS] = { "thread_get_io_channels", "threads" },
	[CALL_REACTORS] = { "framework_get_reactors", "reactors" },
	[CALL_IOSTAT] = { "bdev_get_iostat", "bdevs" },
	[CALL_SUBSYSTEMS] = { "nvmf_get_subsystems", NULL },
	[CALL_BUFFERS] = { "nvmf_get_stats", "poll_groups" },
	[CALL_SUMMARY] = { "framework_get_summary", "alarms" },
	[CALL_VERSION] = { "spdk_get_version", NULL },
	[CALL_CONTROLLERS] = { "nvmf_subsystem_get_controllers", NULL },
	[CALL_QPAIRS] = { "nvmf_subsystem_get_qpairs", NULL },
};
static_assert(ARRAY_COUNT(calls) == CALLS, "each has its row");

enum call call_of(enum top_tab tab)
{
	static const enum call of[] = {
		[TOP_THREADS] = CALL_THREADS, [TOP_POLLERS] = CALL_POLLERS, [TOP_CORES] = CALL_REACTORS,
		[TOP_VOLUMES] = CALL_IOSTAT,  [TOP_HOSTS] = CALL_QPAIRS,    [TOP_BUFFERS] = CALL_BUFFERS,
	};

	return of[tab];
}

const char *call_method(enum call call)
{
	return calls[call].method;
}

/* The calls of each sample: the process and its clock, and the summary. */
enum { CALLS_OF_ALL = BIT(CALL_REACTORS) | BIT(CALL_BUFFERS) | BIT(CALL_SUMMARY) | BIT(CALL_VERSION) };

/* The calls that a tab and its details need beside these. */
static const uint32_t calls_of[] = {
	[TOP_THREADS] = BIT(CALL_THREADS) | BIT(CALL_POLLERS) | BIT(CALL_CHANNELS),
	[TOP_POLLERS] = BIT(CALL_POLLERS),
	[TOP_CORES] = BIT(CALL_THREADS),
	[TOP_VOLUMES] = BIT(CALL_IOSTAT),
	[TOP_HOSTS] = BIT(CALL_SUBSYSTEMS) | BIT(CALL_CONTROLLERS) | BIT(CALL_QPAIRS),
	[TOP_BUFFERS] = BIT(CALL_BUFFERS),
};
static_assert(ARRAY_COUNT(calls_of) == TOP_TABS, "each has its row");

struct top_sample *top_sample_create(uint32_t tabs)
{
	struct top_sample *sample = calloc(1, sizeof(*sample));

	must(sample);
	must(tabs != 0);
	must((tabs & ~(uint32_t)TOP_ALL_TABS) == 0);
	sample->holders = 1;
	sample->tabs = tabs;
	sample->calls = CALLS_OF_ALL;
	for (size_t tab = 0; tab < TOP_TABS; tab++)
		sample->calls |= tabs & BIT(tab) ? calls_of[tab] : 0;
	sample->nqns = json_array();
	sample->controllers = json_array();
	sample->qpairs = json_array();
	sample->cores = json_object();
	sample->threads = json_object();
	must(sample->nqns && sample->controllers && sample->qpairs);
	must(sample->cores && sample->threads);
	return sample;
}

struct top_sample *top_sample_hold(struct top_sample *sample)
{
	must(sample->holders > 0);
	sample->holders++;
	return sample;
}

uint32_t top_sample_tabs(const struct top_sample *sample)
{
	return sample->tabs;
}

void top_sample_release(struct top_sample *sample)
{
	must(!sample || sample->holders > 0);
	if (!sample || --sample->holders > 0)
		return;
	for (size_t i = 0; i < ARRAY_COUNT(sample->answers); i++)
		json_decref(sample->answers[i]);
	for (size_t i = 0; i < ARRAY_COUNT(sample->refusals); i++)
		free(sample->refusals[i]);
	for (size_t tab = 0; tab < TOP_TABS; tab++) {
		for (uint32_t i = 0; i < sample->items[tab].count; i++)
			free(sample->items[tab].items[i].key);
		free(sample->items[tab].items);
	}
	json_decref(sample->params);
	json_decref(sample->nqns);
	json_decref(sample->controllers);
	json_decref(sample->qpairs);
	json_decref(sample->cores);
	json_decref(sample->threads);
	free(sample);
}

/* ---- calls ---- */

/* The call number `index`. */
static enum call call_at(uint32_t index)
{
	if (index < CALL_CONTROLLERS)
		return (enum call)index;
	return (index - CALL_CONTROLLERS) % 2 == 0 ? CALL_CONTROLLERS : CALL_QPAIRS;
}

/* Is the call needed? After an error for one subsystem (removed meanwhile, or unknown method) it is not repeated. */
static bool is_call_needed(const struct top_sample *sample, enum call call)
{
	if (call == CALL_VERSION && !sample->refusals[CALL_SUMMARY])
		return false;
	return (sample->calls & BIT(call)) && (call < CALL_CONTROLLERS || !sample->refusals[call]);
}

static void complete_sample(struct top_sample *sample);

bool top_sample_ask(struct top_sample *sample, const char **method_ret, const json_t **params_ret)
{
	must(!sample->complete);
	for (;;) {
		enum call call = call_at(sample->calls_made);
		uint32_t subsystem = call < CALL_CONTROLLERS ? 0 : (sample->calls_made - CALL_CONTROLLERS) / 2;

		if (sample->calls_made >= TOP_CALLS_MAX ||
		    (call >= CALL_CONTROLLERS && subsystem >= json_array_size(sample->nqns))) {
			complete_sample(sample);
			return false;
		}
		if (!is_call_needed(sample, call)) {
			if (call >= CALL_CONTROLLERS)
				json_array_append_new(call == CALL_QPAIRS ? sample->qpairs : sample->controllers,
						      json_null());
			sample->calls_made++;
			continue;
		}
		json_decref(sample->params);
		sample->params = NULL;
		if (call >= CALL_CONTROLLERS) {
			sample->params = json_pack("{sO}", "nqn", json_array_get(sample->nqns, subsystem));
			must(sample->params);
		}
		*method_ret = calls[call].method;
		*params_ret = sample->params;
		return true;
	}
}

static const json_t *list_of(enum call call, const json_t *answer)
{
	return calls[call].list ? json_object_get(answer, calls[call].list) : answer;
}

/* Collect the NVM subsystems. The discovery subsystem has no controllers for I/O, and SPDK's cannot be queried. */
static void collect_subsystems(struct top_sample *sample, const json_t *list)
{
	const json_t *subsystem;
	size_t i;

	json_array_foreach (list, i, subsystem) {
		json_t *nqn = json_object_get(subsystem, "nqn"), *type = json_object_get(subsystem, "subtype");

		if (json_is_string(nqn) && (!json_is_string(type) || strcmp(json_string_value(type), "NVMe") == 0))
			json_array_append(sample->nqns, nqn);
	}
}

void top_sample_answer(struct top_sample *sample, json_t *result, uint64_t now_ns)
{
	enum call call = call_at(sample->calls_made);
	const json_t *list = list_of(call, result);

	if (call == CALL_VERSION ? !json_is_object(result) : !json_is_array(list)) {
		json_decref(result);
		top_sample_refuse(sample, "the response has an unexpected structure");
		return;
	}
	sample->calls_made++;
	sample->times_ns[call] = now_ns;
	if (call == CALL_CONTROLLERS) {
		json_array_append_new(sample->controllers, result);
	} else if (call == CALL_QPAIRS) {
		json_array_append_new(sample->qpairs, result);
	} else {
		sample->answers[call] = result;
		if (call == CALL_SUBSYSTEMS)
			collect_subsystems(sample, list);
	}
}

void top_sample_refuse(struct top_sample *sample, const char *why)
{
	enum call call = call_at(sample->calls_made);

	must(why);
	sample->calls_made++;
	if (!sample->refusals[call]) {
		sample->refusals[call] = strdup(why);
		must(sample->refusals[call]);
	}
	if (call == CALL_CONTROLLERS)
		json_array_append_new(sample->controllers, json_null());
	if (call == CALL_QPAIRS)
		json_array_append_new(sample->qpairs, json_null());
}

int64_t top_sample_pid(const struct top_sample *sample)
{
	return json_integer_value(json_object_get(sample->answers[CALL_REACTORS], "pid"));
}

/* ---- the contents of the answers ---- */

static void PRINTF_LIKE(5, 6) add_item(struct items *items, const json_t *json, const json_t *parent, const char *text,
				       const char *key_format, ...)
{
	struct item *item;
	va_list args;

	if (items->count == items->room) {
		items->room = items->room ? items->room * 2 : 32;
		items->items = reallocarray(items->items, items->room, sizeof(*item));
		must(items->items);
	}
	item = &items->items[items->count++];
	*item = (struct item){ .json = json, .parent = parent, .text = text };
	va_start(args, key_format);
	must(vasprintf(&item->key, key_format, args) >= 0);
	va_end(args);
}

static int compare_item_keys(const void *a, const void *b)
{
	return strcmp(((const struct item *)a)->key, ((const struct item *)b)->key);
}

const struct item *items_find(const struct items *items, const char *key)
{
	const struct item wanted = { .key = (char *)key };

	return items->count ? bsearch(&wanted, items->items, items->count, sizeof(wanted), compare_item_keys) : NULL;
}

static json_int_t integer_of_row(const json_t *object, const char *field)
{
	return json_integer_value(json_object_get(object, field));
}

static const json_t *rows_of(const struct top_sample *sample, enum call call)
{
	return list_of(call, sample->answers[call]);
}

static void find_threads(struct top_sample *sample)
{
	const json_t *thread, *reactor;
	char id[24];
	size_t i, n;

	json_array_foreach (rows_of(sample, CALL_THREADS), i, thread) {
		snprintf(id, sizeof(id), "%lld", (long long)integer_of_row(thread, "id"));
		json_object_set(sample->threads, id, (json_t *)thread);
		add_item(&sample->items[TOP_THREADS], thread, NULL, NULL, "%s", id);
	}
	json_array_foreach (rows_of(sample, CALL_REACTORS), i, reactor) {
		add_item(&sample->items[TOP_CORES], reactor, NULL, NULL, "%lld",
			 (long long)integer_of_row(reactor, "lcore"));
		json_array_foreach (json_object_get(reactor, "lw_threads"), n, thread) {
			snprintf(id, sizeof(id), "%lld", (long long)integer_of_row(thread, "id"));
			json_object_set(sample->cores, id, json_object_get(reactor, "lcore"));
		}
	}
}

static void find_pollers(struct top_sample *sample)
{
	static const struct {
		const char *list, *type;
	} kinds[] = { { "active_pollers", "active" }, { "timed_pollers", "timed" }, { "paused_pollers", "paused" } };
	const json_t *thread, *poller;
	size_t i, n;

	json_array_foreach (rows_of(sample, CALL_POLLERS), i, thread) {
		for (size_t kind = 0; kind < ARRAY_COUNT(kinds); kind++) {
			json_array_foreach (json_object_get(thread, kinds[kind].list), n, poller)
				add_item(&sample->items[TOP_POLLERS], poller, thread, kinds[kind].type, "%lld/%lld",
					 (long long)integer_of_row(thread, "id"), (long long)integer_of_row(poller, "id"));
		}
	}
}

static const json_t *controller_of(const json_t *controllers, json_int_t cntlid)
{
	const json_t *controller;
	size_t i;

	json_array_foreach (controllers, i, controller) {
		if (integer_of_row(controller, "cntlid") == cntlid)
			return controller;
	}
	return NULL;
}

static void find_qpairs(struct top_sample *sample)
{
	const json_t *list, *qpair;
	size_t i, n;

	json_array_foreach (sample->qpairs, i, list) {
		const char *nqn = json_string_value(json_array_get(sample->nqns, i));

		json_array_foreach (list, n, qpair) {
			const json_t *peer = json_object_get(qpair, "peer_address");
			const char *address = json_string_value(json_object_get(peer, "traddr"));
			const char *service = json_string_value(json_object_get(peer, "trsvcid"));
			json_int_t cntlid = integer_of_row(qpair, "cntlid");

			add_item(&sample->items[TOP_HOSTS], qpair,
				 controller_of(json_array_get(sample->controllers, i), cntlid), nqn,
				 "%s\1%lld\1%lld\1%s:%s", nqn, (long long)cntlid, (long long)integer_of_row(qpair, "qid"),
				 address ? address : "", service ? service : "");
		}
	}
}

static void find_buffers(struct top_sample *sample)
{
	static const char *const lists[] = { "hosts", "bdevs" }, *const names[] = { "host", "name" };
	struct items *items = &sample->items[TOP_BUFFERS];
	const json_t *group, *transport, *user;
	bool has_transport = false;
	size_t i, n, j;

	json_array_foreach (rows_of(sample, CALL_BUFFERS), i, group) {
		const char *name = json_string_value(json_object_get(group, "name"));

		json_array_foreach (json_object_get(group, "transports"), n, transport) {
			const json_t *all = json_object_get(transport, "buffers");

			has_transport = true;
			if (!json_is_object(all) || !name)
				continue;
			add_item(items, all, all, name, "%s\1%zu", name, n);
			for (size_t list = 0; list < ARRAY_COUNT(lists); list++) {
				json_array_foreach (json_object_get(all, lists[list]), j, user) {
					const char *who = json_string_value(json_object_get(user, names[list]));

					add_item(items, user, all, name, "%s\1%zu\1%s\1%s", name, n, names[list],
						 who ? who : "");
				}
			}
		}
	}
	if (has_transport && items->count == 0 && !sample->refusals[CALL_BUFFERS]) {
		sample->refusals[CALL_BUFFERS] = strdup("it has no shares of data buffers");
		must(sample->refusals[CALL_BUFFERS]);
	}
}

static void complete_sample(struct top_sample *sample)
{
	static const enum call tellers[] = { CALL_REACTORS, CALL_THREADS, CALL_IOSTAT };
	const json_t *bdev;
	size_t i;

	sample->complete = true;
	for (i = 0; i < ARRAY_COUNT(tellers) && sample->tick_rate <= 0; i++)
		sample->tick_rate = json_number_value(json_object_get(sample->answers[tellers[i]], "tick_rate"));
	find_threads(sample);
	find_pollers(sample);
	find_qpairs(sample);
	find_buffers(sample);
	json_array_foreach (rows_of(sample, CALL_IOSTAT), i, bdev) {
		const char *name = json_string_value(json_object_get(bdev, "name"));

		add_item(&sample->items[TOP_VOLUMES], bdev, NULL, NULL, "%s", name ? name : "");
	}
	for (i = 0; i < TOP_TABS; i++) {
		if (sample->items[i].count > 1)
			qsort(sample->items[i].items, sample->items[i].count, sizeof(struct item), compare_item_keys);
	}
}
