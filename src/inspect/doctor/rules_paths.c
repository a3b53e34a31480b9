/* SPDX-License-Identifier: BSD-2-Clause */
/* rules_paths - hosts by their connections: which host lost one of its paths, and which one floods the engine? */
#include <string.h>

#include "inspect/doctor/findings.gen.h"
#include "inspect/doctor/internal.h"

enum {
	FLOOD_PERCENT = 80,  /* of all commands while the doctor looked */
	BUSY_PERCENT = 80,   /* of the time of a reactor: else there is room for others */
	FLOOD_HOSTS_MIN = 2, /* the only host may use all of an engine */
	OTHERS_BYTES = 128,
};

/* ---- paths ---- */

/* Count the connections of `host`, and list the addresses at which they are. At `address`: false is returned. */
static bool find_other_paths(const json_t *evidence, const char *host, const char *address, uint64_t *count_ret,
			     char others[OTHERS_BYTES])
{
	const json_t *list, *row;
	const char *nqn;
	size_t i;

	*count_ret = 0;
	others[0] = '\0';
	json_object_foreach ((json_t *)doc_at(evidence, "answers.qpairs"), nqn, list) {
		json_array_foreach ((json_t *)list, i, row) {
			const char *at = doc_text_at(row, "listen_address.traddr");
			size_t used = strlen(others);

			if (strcmp(doc_text_at(row, "hostnqn"), host) != 0)
				continue;
			if (strcmp(at, address) == 0)
				return false; /* it has connected there again */
			++*count_ret;
			if (!strstr(others, at))
				snprintf(others + used, OTHERS_BYTES - used, "%s%s", used ? ", " : "", at);
		}
	}
	return *count_ret > 0;
}

static void judge_path(const json_t *evidence, const json_t *event, struct findings *list)
{
	const char *host = doc_text_at(event, "args.hostnqn"), *address = doc_text_at(event, "args.address");
	char others[OTHERS_BYTES], ago[SHORT_TEXT_BYTES], option[TRACE_OPTION_BYTES];
	struct finding *it;
	uint64_t count;

	if (doc_number(event, "ago_ms", 0) >= RECENT_MS || !find_other_paths(evidence, host, address, &count, others))
		return;
	it = find_path_lost(list, FINDING_LIKELY, host, address, count, others);
	finding_shows(it, "its keep-alives to %s stopped for %" PRId64 " ms; the engine ended that path %s ago", address,
		      doc_number(event, "args.kato", 0), doc_duration((uint64_t)doc_number(event, "ago_ms", 0), ago));
	finding_shows(it, "%" PRIu64 " connections of the host are at %s, none at %s", count, others, address);
	finding_see(it, "fathom trace -n nvmf_ctrlr_keep_alive_expired%s",
		    doc_trace_option(evidence, option, sizeof(option)));
	finding_see(it, "fathom top --tab hosts");
}

/* One finding for each pair of host and address, from its latest event. */
static void judge_paths(const json_t *evidence, struct findings *list)
{
	const json_t *events = doc_at(evidence, "trace.events.nvmf_ctrlr_keep_alive_expired.last"), *event, *newer;
	size_t i;

	json_array_foreach ((json_t *)events, i, event) {
		bool seen = false;

		for (size_t j = 0; j < i && !seen; j++) {
			newer = json_array_get(events, j);
			seen = json_equal(doc_at(newer, "args.hostnqn"), doc_at(event, "args.hostnqn")) &&
			       json_equal(doc_at(newer, "args.address"), doc_at(event, "args.address"));
		}
		if (!seen)
			judge_path(evidence, event, list);
	}
}

/* ---- floods ---- */

/* Add the connections of one look to { HOST: { "now", "before" } }. */
static void add_connections(const json_t *evidence, const char *look, const char *key, json_t *hosts)
{
	const json_t *list, *row;
	const char *nqn;
	size_t i;

	json_object_foreach ((json_t *)doc_at(evidence, look), nqn, list) {
		json_array_foreach ((json_t *)list, i, row) {
			const char *name = doc_text_at(row, "hostnqn");
			json_t *host = json_object_get(hosts, name);

			if (doc_number(row, "qid", 0) == 0)
				continue;
			if (!host) {
				host = doc_object();
				doc_put(hosts, name, host);
			}
			doc_put(host, key, json_integer(doc_number(host, key, 0) + doc_number(row, "num_commands", 0)));
		}
	}
}

/* The reactor with most to do, and the share of the time in which it ran or waited for a CPU. */
static uint64_t busiest_percent(const json_t *evidence, const char **reactor_ret)
{
	double interval_ms = doc_real(evidence, "process.interval_ms", 0), most = 0;
	const json_t *traced, *thread;
	size_t i, j;

	*reactor_ret = "";
	json_array_foreach ((json_t *)doc_at(evidence, "trace.threads"), i, traced) {
		if (strncmp(doc_text_at(traced, "name"), "reactor", strlen("reactor")) != 0)
			continue;
		json_array_foreach ((json_t *)doc_at(evidence, "process.threads"), j, thread) {
			double wanted = doc_real(thread, "ran_ms", 0) + doc_real(thread, "waited_ms", 0);

			if (doc_number(thread, "tid", 0) != doc_number(traced, "tid", -1) || wanted <= most)
				continue;
			most = wanted;
			*reactor_ret = doc_text_at(traced, "name");
		}
	}
	return interval_ms > 0 ? (uint64_t)(most * 100 / interval_ms) : 0;
}

struct flood {
	int64_t all, active, most;
	const char *host; /* the busiest one */
};

static struct flood find_flood(json_t *hosts)
{
	struct flood flood = { .host = "" };
	const json_t *host;
	const char *name;

	json_object_foreach (hosts, name, host) {
		int64_t commands = doc_number(host, "now", 0) - doc_number(host, "before", 0);

		if (commands <= 0)
			continue;
		flood.active++;
		flood.all += commands;
		if (commands > flood.most) {
			flood.most = commands;
			flood.host = name;
		}
	}
	return flood;
}

static void judge_flood(const json_t *evidence, struct findings *list)
{
	int64_t interval_ms = doc_number(evidence, "answers.qpairs_ms", 0);
	json_t *hosts = doc_object();
	struct flood flood;
	struct finding *it;
	const char *reactor;
	uint64_t busy;

	add_connections(evidence, "answers.qpairs_before", "before", hosts);
	add_connections(evidence, "answers.qpairs", "now", hosts);
	flood = find_flood(hosts);
	busy = busiest_percent(evidence, &reactor);
	if (flood.active >= FLOOD_HOSTS_MIN && interval_ms > 0 && flood.most * 100 >= FLOOD_PERCENT * flood.all &&
	    busy >= BUSY_PERCENT) {
		it = find_host_floods(list, FINDING_CERTAIN, flood.host, (uint64_t)(flood.most * 100 / flood.all),
				      (uint64_t)(flood.most * 1000 / interval_ms), reactor, busy > 100 ? 100 : busy);
		finding_shows(it,
			      "%" PRId64 " of %" PRId64 " commands of %" PRId64 " hosts were its own, in %" PRId64 " ms",
			      flood.most, flood.all, flood.active, interval_ms);
		finding_see(it, "fathom top --tab hosts");
	}
	json_decref(hosts);
}

void rules_paths(const json_t *evidence, struct findings *list)
{
	if (!doc_is_running(evidence))
		return;
	judge_paths(evidence, list);
	judge_flood(evidence, list);
}
