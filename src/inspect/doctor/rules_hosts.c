/* SPDX-License-Identifier: BSD-2-Clause */
/* rules_hosts - which host is refused, lost, or does not read or send? */
#include <string.h>

#include "base/bits.h"
#include "inspect/doctor/findings.gen.h"
#include "inspect/doctor/internal.h"

enum { HOST_BYTES = 256, GROUPS_MAX = 32, BUFFER_WAITS_MIN = 10 };

#define BUFFER_WAIT_US 50000.0 /* on average: such a wait is a large part of any command's time */

/* ---- connections under way ---- */

static void judge_waiting_host(const json_t *evidence, const json_t *group, struct findings *list)
{
	uint64_t hung = (uint64_t)doc_number(group, "hung", 0);
	const char *stage = doc_text_at(group, "stage"),
		   *host = doc_text_at(group, "owner"); /* address, subsystem, queue, name */
	char oldest[SHORT_TEXT_BYTES], option[TRACE_OPTION_BYTES];
	struct finding *it;

	if (strcmp(doc_text_at(group, "object"), "nvmf_req") != 0 || hung == 0)
		return;
	doc_duration((uint64_t)doc_number(group, "stage_ms", 0), oldest);
	if (strcmp(stage, "SENDING") == 0)
		it = find_host_not_reading(list, FINDING_CERTAIN, host, hung, oldest);
	else if (strcmp(stage, "TRANSFER_IN") == 0)
		it = find_host_not_sending(list, FINDING_CERTAIN, host, hung, oldest);
	else
		return;
	finding_shows(it, "%" PRId64 " requests of this connection are in %s, %" PRIu64 " of them for more than %d ms",
		      doc_number(group, "count", 0), stage, hung, HUNG_MS);
	finding_see(it, "fathom trace stuck%s", doc_trace_option(evidence, option, sizeof(option)));
	finding_see(it, "ss -tnpi");
}

/* ---- buffers ---- */

/* The user with the most bytes of `list`, "hosts" or "bdevs", of a poll group's transport. */
static const json_t *largest_user(const json_t *buffers, const char *list)
{
	const json_t *user, *largest = NULL;
	size_t i;

	json_array_foreach ((json_t *)doc_at(buffers, list), i, user) {
		if (!largest || doc_number(user, "lent_bytes", 0) > doc_number(largest, "lent_bytes", 0))
			largest = user;
	}
	return largest;
}

static void judge_buffers(const json_t *evidence, const json_t *buffers, bool waits_long, struct findings *list)
{
	const json_t *waits = doc_at(evidence, "trace.lives.nvmf_req.stages.WAIT_BUFFER");
	const json_t *host = largest_user(buffers, "hosts"), *device = largest_user(buffers, "bdevs");
	bool is_device = doc_number(device, "lent_bytes", 0) > doc_number(host, "lent_bytes", 0);
	int64_t waiting = doc_number(buffers, "waiting", 0);
	char holder[HOST_BYTES + 32], text[SHORT_TEXT_BYTES], most[SHORT_TEXT_BYTES];
	struct finding *it;

	if (!waits_long || (!host && !device))
		return;
	if (waiting == 0) /* at this instant */
		waiting = doc_number(waits, "now_count", 0);
	snprintf(holder, sizeof(holder), "%s %s", is_device ? "the device" : "the host",
		 is_device ? doc_text_at(device, "name") : doc_text_at(host, "host"));
	it = find_buffers_exhausted(list, FINDING_LIKELY, (uint64_t)waiting, holder);
	finding_shows(it, "it holds %s", doc_bytes((uint64_t)doc_number(is_device ? device : host, "lent_bytes", 0), text));
	finding_shows(it, "%s of at most %s are lent in all",
		      doc_bytes((uint64_t)doc_number(buffers, "lent_bytes", 0), text),
		      doc_bytes((uint64_t)doc_number(buffers, "most_bytes", 0), most));
	if (doc_number(waits, "now_count", 0) > 0)
		finding_shows(it, "%" PRId64 " commands got a buffer while the doctor looked, after %s on average",
			      doc_number(waits, "now_count", 0), doc_latency(doc_real(waits, "now_avg_us", 0), text));
	finding_see(it, "fathom top --tab buffers");
}

static void judge_all_buffers(const json_t *evidence, struct findings *list)
{
	const json_t *group, *transport, *row;
	bool waits_long = false;
	size_t i, j;

	json_array_foreach ((json_t *)doc_at(evidence, "trace.under_way"), i, row)
		waits_long |= strcmp(doc_text_at(row, "stage"), "WAIT_BUFFER") == 0 && doc_number(row, "hung", 0) > 0;
	row = doc_at(evidence, "trace.lives.nvmf_req.stages.WAIT_BUFFER");
	waits_long |= doc_number(row, "now_count", 0) >= BUFFER_WAITS_MIN &&
		      doc_real(row, "now_avg_us", 0) >= BUFFER_WAIT_US;
	json_array_foreach ((json_t *)doc_at(evidence, "answers.poll_groups.poll_groups"), i, group) {
		json_array_foreach ((json_t *)doc_at(group, "transports"), j, transport)
			judge_buffers(evidence, doc_at(transport, "buffers"), waits_long, list);
	}
}

/* ---- what happened to hosts: events in groups ---- */

struct group {
	const json_t *newest;
	struct doc_signs signs;
};

/* Groups of the recent events of a point that have the same values of two arguments. `b` NULL: of one. */
static size_t group_events(const json_t *evidence, const char *point, const char *a, const char *b,
			   struct group groups[GROUPS_MAX])
{
	const json_t *event;
	char path[96], key_a[64], key_b[64];
	size_t i, count = 0, place;

	snprintf(path, sizeof(path), "trace.events.%s.last", point);
	snprintf(key_a, sizeof(key_a), "args.%s", a);
	snprintf(key_b, sizeof(key_b), "args.%s", b ? b : a);
	json_array_foreach ((json_t *)doc_at(evidence, path), i, event) {
		if (doc_number(event, "ago_ms", 0) >= RECENT_MS)
			continue;
		for (place = 0; place < count; place++) {
			if (json_equal(doc_at(groups[place].newest, key_a), doc_at(event, key_a)) &&
			    json_equal(doc_at(groups[place].newest, key_b), doc_at(event, key_b)))
				break;
		}
		if (place == GROUPS_MAX)
			continue;
		if (place == count)
			groups[count++] = (struct group){ .newest = event };
		doc_sign(&groups[place].signs, doc_number(event, "ago_ms", 0));
	}
	return count;
}

static void show_event(const json_t *evidence, struct finding *it, const struct group *group, const char *point)
{
	char option[TRACE_OPTION_BYTES], ago[SHORT_TEXT_BYTES];

	doc_end_by_signs(it, &group->signs);
	finding_shows(it, "%" PRIu64 " times in the last minutes, the latest %s ago%s%s", group->signs.count,
		      doc_duration((uint64_t)doc_number(group->newest, "ago_ms", 0), ago),
		      doc_text_at(group->newest, "owner")[0] ? ", from " : "", doc_text_at(group->newest, "owner"));
	finding_see(it, "fathom trace -n %s%s", point, doc_trace_option(evidence, option, sizeof(option)));
}

/* The statuses of a Connect command, of status code type 1. */
static const char *refusal_text(int64_t status)
{
	switch (status) {
	case 0x180:
		return "the format of its command is not known";
	case 0x181:
		return "the controller is in use";
	case 0x182:
		return "a parameter is not valid (does the subsystem exist?)";
	case 0x183:
		return "it must discover again";
	case 0x184:
		return "this host is not allowed";
	default:
		return "by its status";
	}
}

static void judge_refused(const json_t *evidence, struct findings *list)
{
	struct group groups[GROUPS_MAX];
	size_t count = group_events(evidence, "nvmf_connect_refused", "hostnqn", "subnqn", groups);

	for (size_t i = 0; i < count; i++) {
		int64_t status = doc_number(groups[i].newest, "args.status", 0);
		const char *host = doc_text_at(groups[i].newest, "args.hostnqn"),
			   *subsystem = doc_text_at(groups[i].newest, "args.subnqn");
		struct finding *it = find_host_refused(list, FINDING_CERTAIN, host[0] ? host : "without a name",
						       subsystem[0] ? subsystem : "a subsystem without a name",
						       refusal_text(status), groups[i].signs.count);

		finding_shows(it, "status 0x%" PRIx64, (uint64_t)status);
		show_event(evidence, it, &groups[i], "nvmf_connect_refused");
		finding_see(it, "fathom rpc nvmf_get_subsystems");
	}
}

/* Has the host connected since? */
static bool has_returned(const json_t *evidence, const char *host, int64_t ago_ms)
{
	const json_t *event;
	size_t i;

	json_array_foreach ((json_t *)doc_at(evidence, "trace.events.nvmf_subsystem_add_ctrlr.last"), i, event) {
		if (doc_number(event, "ago_ms", INT64_MAX) <= ago_ms &&
		    strcmp(doc_text_at(event, "args.hostnqn"), host) == 0)
			return true;
	}
	return false;
}

static void judge_keep_alive(const json_t *evidence, struct findings *list)
{
	struct group groups[GROUPS_MAX];
	size_t count = group_events(evidence, "nvmf_ctrlr_keep_alive_expired", "hostnqn", NULL, groups);
	char last[SHORT_TEXT_BYTES];

	for (size_t i = 0; i < count; i++) {
		doc_duration((uint64_t)doc_number(groups[i].newest, "ago_ms", 0), last);
		struct finding *it = find_keep_alive_expired(list, FINDING_CERTAIN,
							     doc_text_at(groups[i].newest, "args.hostnqn"),
							     groups[i].signs.count, last);

		finding_shows(it, "its keep-alive time-out is %" PRId64 " ms, at %s",
			      doc_number(groups[i].newest, "args.kato", 0), doc_text_at(groups[i].newest, "args.address"));
		show_event(evidence, it, &groups[i], "nvmf_ctrlr_keep_alive_expired");
		if (it &&
		    !has_returned(evidence, doc_text_at(groups[i].newest, "args.hostnqn"), groups[i].signs.newest_ms)) {
			finding_shows(it, "it has not connected again");
			it->ended_ms = -1;
		}
	}
}

static void judge_connections(const json_t *evidence, struct findings *list)
{
	struct group groups[GROUPS_MAX];
	size_t count = group_events(evidence, "tcp_refuse", "reason", NULL, groups);
	char last[SHORT_TEXT_BYTES];
	struct finding *it;

	for (size_t i = 0; i < count; i++) {
		doc_duration((uint64_t)doc_number(groups[i].newest, "ago_ms", 0), last);
		it = find_connections_refused(list, FINDING_CERTAIN, groups[i].signs.count,
					      doc_text_at(groups[i].newest, "args.reason"), last);
		finding_shows(it, "the latest was from %s", doc_text_at(groups[i].newest, "args.address"));
		show_event(evidence, it, &groups[i], "tcp_refuse");
	}
}

static void judge_protocol(const json_t *evidence, struct findings *list)
{
	static const char *const points[] = { "tcp_protocol_error", "tcp_data_digest_error", "tcp_host_term_req" };

	for (size_t p = 0; p < ARRAY_COUNT(points); p++) {
		struct group groups[GROUPS_MAX];
		size_t count = group_events(evidence, points[p], "fes", NULL, groups);

		for (size_t i = 0; i < count; i++) {
			const char *what = doc_text_at(groups[i].newest, "args.fes");

			show_event(evidence,
				   find_protocol_errors(list, FINDING_CERTAIN,
							doc_text_at(groups[i].newest, "owner")[0]
								? doc_text_at(groups[i].newest, "owner")
								: "a host",
							groups[i].signs.count, what[0] ? what : points[p]),
				   &groups[i], points[p]);
		}
	}
}

void rules_hosts(const json_t *evidence, struct findings *list)
{
	const json_t *group;
	size_t i;

	json_array_foreach ((json_t *)doc_at(evidence, "trace.under_way"), i, group)
		judge_waiting_host(evidence, group, list);
	judge_all_buffers(evidence, list);
	judge_refused(evidence, list);
	judge_keep_alive(evidence, list);
	judge_connections(evidence, list);
	judge_protocol(evidence, list);
}
