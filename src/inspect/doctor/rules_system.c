/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rules_system - what a server reports of itself: its engines, the drives of its host, its management service and, on the
 * management host, the members, the database and the latest events of the system.
 */
#include <string.h>
#include <time.h>

#include "base/bits.h"
#include "inspect/doctor/findings.gen.h"
#include "inspect/doctor/internal.h"

enum {
	UNREACHED_MS = 5000, /* reports are repeated at least so often */
	TRIED_MS = 10000,    /* a change that failed since tells of the present */
	PASSING_MS = 60000,  /* a state such as "starting" is left within this time */
	STARTS_MANY = 3,
	HOUR_S = 3600,
};

static bool is_one_of(const char *state, const char *const *states, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (strcmp(state, states[i]) == 0)
			return true;
	}
	return false;
}

/* ---- the database and the management service ---- */

/* An idle server writes nothing: what made its last change fail may have ended since. */
static void judge_database(const json_t *database, struct findings *list)
{
	int64_t failing_ms = doc_number(database, "failing_ms", -1),
		failed_ms = doc_number(database, "failed_ms", failing_ms); /* older servers do not report it */
	bool is_recent = failed_ms < TRIED_MS;
	char text[SHORT_TEXT_BYTES];
	struct finding *it;

	if (failing_ms < 0)
		return;
	it = find_database_unwritable(list, is_recent ? FINDING_CERTAIN : FINDING_LIKELY, doc_text_at(database, "path"),
				      doc_duration((uint64_t)failed_ms, text), doc_text_at(database, "why"));
	if (!is_recent && doc_at(database, "failed_ms"))
		finding_shows(it, "no change was tried since then, so it is not known whether one can be stored now");
	finding_shows(it, "%" PRId64 " changes failed in the last %s; the last one on disk is revision %" PRId64,
		      doc_number(database, "failures", 0), doc_duration((uint64_t)failing_ms, text),
		      doc_number(database, "revision", 0));
	if (doc_number(database, "copied_revision", 0) > 0)
		finding_shows(it, "the latest daily copy has revision %" PRId64,
			      doc_number(database, "copied_revision", 0));
	finding_see(it, "findmnt -T %s", doc_text_at(database, "path"));
	finding_see(it, "fathom-server stats");
}

static void judge_management(const json_t *condition, struct findings *list)
{
	int64_t failing_ms = doc_number(condition, "management.failing_ms", 0),
		waiting = doc_number(condition, "counters.server.events_waiting", 0);
	char since[SHORT_TEXT_BYTES];

	if (failing_ms >= UNREACHED_MS)
		finding_see(find_management_unreachable(list, FINDING_CERTAIN, doc_text_at(condition, "management.address"),
							doc_duration((uint64_t)failing_ms, since),
							doc_text_at(condition, "management.why")),
			    "fathom -l %s server query", doc_text_at(condition, "management.address"));
	if (waiting > 0 && doc_number(condition, "counters.server.send_failures", 0) > 0)
		finding_see(find_events_unsent(list, FINDING_LIKELY, (uint64_t)waiting), "fathom-server stats");
}

/* ---- members ---- */

static const json_t *find_member(const json_t *condition, int64_t rank)
{
	const json_t *row;
	size_t i;

	json_array_foreach ((json_t *)doc_at(condition, "members"), i, row) {
		if (rank >= 0 && doc_number(row, "rank", -1) == rank)
			return row;
	}
	return NULL;
}

static bool is_excluded(const json_t *member)
{
	static const char *const states[] = { "excluded", "adminexcluded" };

	return is_one_of(doc_text_at(member, "state"), states, ARRAY_COUNT(states));
}

static struct finding *find_by_state(const json_t *member, struct findings *list)
{
	static const char *const down[] = { "errored", "unresponsive", "unknown" };
	const char *state = doc_text_at(member, "state"), *address = doc_text_at(member, "address"),
		   *why = doc_text_at(member, "why")[0] ? doc_text_at(member, "why") : "no reason is known";
	uint64_t rank = (uint64_t)doc_number(member, "rank", 0);
	bool is_passing = strcmp(state, "starting") == 0 || strcmp(state, "ready") == 0 || strcmp(state, "stopping") == 0;

	if (strcmp(state, "joined") == 0 || (is_passing && doc_number(member, "since_ms", 0) < PASSING_MS))
		return NULL;
	if (is_excluded(member))
		return find_member_excluded(list, FINDING_CERTAIN, rank, address, why);
	if (is_one_of(state, down, ARRAY_COUNT(down)))
		return find_member_down(list, FINDING_CERTAIN, rank, address, state, why);
	return find_member_idle(list, FINDING_CERTAIN, rank, address, state);
}

/* The engine of this host with that rank, as its server knows it; NULL: it is elsewhere. */
static const json_t *find_engine(const json_t *condition, int64_t rank)
{
	const json_t *row;
	size_t i;

	json_array_foreach ((json_t *)doc_at(condition, "instances"), i, row) {
		if (doc_number(row, "rank", -1) == rank)
			return row;
	}
	return NULL;
}

/* Did the engine fail, so that there is a finding about it? */
static bool has_failed(const json_t *engine)
{
	static const char *const states[] = { "errored", "missing", "refused" };

	return doc_is(engine, "hung") || is_one_of(doc_text_at(engine, "state"), states, ARRAY_COUNT(states));
}

/* The index of an engine of this host with a damaged superblock; -1: none. */
static int64_t damaged_superblock(const json_t *evidence)
{
	const json_t *row;
	size_t i;

	json_array_foreach ((json_t *)doc_at(evidence, "server.superblocks"), i, row) {
		if (doc_text_at(row, "why")[0])
			return doc_number(row, "index", -1);
	}
	return -1;
}

/* Is the member an engine of this host about which there is a finding? Without its superblock an engine has no rank. */
static bool is_told(const json_t *evidence, const json_t *member, const json_t *engine)
{
	const char *address = doc_text_at(evidence, "service.condition.address");

	if (strcmp(doc_text_at(member, "address"), address) != 0 || is_excluded(member))
		return false;
	return engine ? has_failed(engine) : damaged_superblock(evidence) >= 0;
}

static void judge_member(const json_t *evidence, const json_t *member, struct findings *list)
{
	const json_t *engine = find_engine(doc_at(evidence, "service.condition"), doc_number(member, "rank", -1));
	struct finding *it = is_told(evidence, member, engine) ? NULL : find_by_state(member, list);
	char since[SHORT_TEXT_BYTES];

	if (!it)
		return;
	finding_shows(it, "in this state for %s", doc_duration((uint64_t)doc_number(member, "since_ms", 0), since));
	if (engine)
		finding_shows(it, "its engine is number %" PRId64 " of this host: %s%s%s", doc_number(engine, "index", 0),
			      doc_text_at(engine, "state"), doc_text_at(engine, "why")[0] ? ": " : "",
			      doc_text_at(engine, "why"));
	finding_see(it, "fathom system query --verbose");
}

/* ---- engines of this host ---- */

static bool has_damaged_superblock(const json_t *evidence, int64_t index)
{
	const json_t *row;
	size_t i;

	json_array_foreach ((json_t *)doc_at(evidence, "server.superblocks"), i, row) {
		if (doc_number(row, "index", -1) == index && doc_text_at(row, "why")[0])
			return true;
	}
	return false;
}

static struct finding *find_by_instance(const json_t *row, bool is_member, struct findings *list)
{
	static const char *const idle[] = { "await_format", "stopped" };
	const char *state = doc_text_at(row, "state"), *why = doc_text_at(row, "why"), *end = doc_text_at(row, "last_end");
	uint64_t index = (uint64_t)doc_number(row, "index", 0);

	if (doc_is(row, "hung"))
		return find_engine_hung(list, FINDING_CERTAIN, index, doc_number(row, "pid", 0), why);
	if (strcmp(state, "errored") == 0 || strcmp(state, "missing") == 0)
		return find_engine_down(list, FINDING_CERTAIN, index, state,
					why[0]	 ? why
					: end[0] ? end
						 : "no reason is known");
	if (strcmp(state, "refused") == 0)
		return find_engine_refused(list, FINDING_CERTAIN, index, why);
	if (!is_member && is_one_of(state, idle, ARRAY_COUNT(idle)))
		return find_engine_idle(list, FINDING_CERTAIN, index, state);
	return NULL;
}

static void judge_instance(const json_t *evidence, const json_t *row, struct findings *list)
{
	const json_t *condition = doc_at(evidence, "service.condition"),
		     *member = find_member(condition, doc_number(row, "rank", -1));
	int64_t starts = doc_number(row, "starts", 0), restart_ms = doc_number(row, "restart_in_ms", 0);
	const char *end = doc_text_at(row, "last_end");
	char in[SHORT_TEXT_BYTES];
	struct finding *it;

	/* the finding about the cause has shown the engine's state */
	if (has_damaged_superblock(evidence, doc_number(row, "index", -1)) || is_excluded(member))
		return;
	it = find_by_instance(row, member != NULL, list);
	if (!it && starts >= STARTS_MANY && end[0])
		it = find_engine_restarted(list, FINDING_CERTAIN, (uint64_t)doc_number(row, "index", 0), (uint64_t)starts,
					   end);
	finding_shows(it, "its storage is %s", doc_text_at(row, "storage"));
	if (member)
		finding_shows(it, "it is rank %" PRId64 ", which is %s", doc_number(row, "rank", -1),
			      doc_text_at(member, "state"));
	if (end[0])
		finding_shows(it, "how its last process ended: %s", end);
	if (starts > 0)
		finding_shows(it, "it was started %" PRId64 " times since its server began", starts);
	if (restart_ms > 0)
		finding_shows(it, "the server starts it again in %s", doc_duration((uint64_t)restart_ms, in));
	finding_see(it, "fathom server query --verbose");
}

/* ---- drives of this host ---- */

/* "engines 0 and 1" */
static void name_engines(const json_t *engines, char *to, size_t bytes)
{
	size_t i, used = (size_t)snprintf(to, bytes, json_array_size(engines) == 1 ? "engine" : "engines");

	for (i = 0; i < json_array_size(engines) && used < bytes; i++)
		used += (size_t)snprintf(to + used, bytes - used, "%s%" JSON_INTEGER_FORMAT, i > 0 ? " and " : " ",
					 json_integer_value(json_array_get(engines, i)));
}

static void show_drive(const json_t *row, struct finding *it)
{
	char engines[128];

	finding_shows(it, "model %s, serial number %s", doc_text_at(row, "model"), doc_text_at(row, "serial"));
	if (json_array_size(doc_at(row, "engines")) > 0) {
		name_engines(doc_at(row, "engines"), engines, sizeof(engines));
		finding_shows(it, "data of %s is on it", engines);
	}
	finding_see(it, "fathom storage query device-health");
}

static void judge_drive(const json_t *row, struct findings *list)
{
	const char *path = doc_text_at(row, "path");
	char since[SHORT_TEXT_BYTES], engines[128];
	const json_t *condition;
	struct finding *it;
	size_t i;

	if (doc_number(row, "gone_ms", -1) >= 0) {
		name_engines(doc_at(row, "engines"), engines, sizeof(engines));
		show_drive(row, find_drive_gone(list, FINDING_CERTAIN, path, engines,
						doc_duration((uint64_t)doc_number(row, "gone_ms", 0), since)));
		return;
	}
	json_array_foreach ((json_t *)doc_at(row, "conditions"), i, condition) {
		it = find_drive_unhealthy(list, FINDING_CERTAIN, path, doc_text_at(condition, "text"));
		finding_shows(it, "seen for %s", doc_duration((uint64_t)doc_number(condition, "since_ms", 0), since));
		show_drive(row, it);
	}
	if (doc_number(row, "failing_ms", -1) >= 0)
		show_drive(row, find_drive_unread(list, FINDING_CERTAIN, path,
						  doc_duration((uint64_t)doc_number(row, "failing_ms", 0), since),
						  doc_text_at(row, "why")));
}

/* ---- events ---- */

/* The time of an event, in seconds since 1970: "2026-11-29T14:52:13.123456+00:00". 0: another form. */
static int64_t event_time(const char *text)
{
	struct tm parts = { 0 };

	return strptime(text, "%Y-%m-%dT%H:%M:%S", &parts) ? (int64_t)timegm(&parts) : 0;
}

static void judge_events(const json_t *evidence, struct findings *list)
{
	static const char *const severities[] = { "ERROR", "WARNING" };
	int64_t now_s = doc_number(evidence, "looked.at", 0);
	const json_t *row, *latest = NULL;
	uint64_t count = 0;
	size_t i;

	json_array_foreach ((json_t *)doc_at(evidence, "service.condition.events"), i, row) {
		if (!is_one_of(doc_text_at(row, "severity"), severities, ARRAY_COUNT(severities)) ||
		    now_s - event_time(doc_text_at(row, "time")) > HOUR_S)
			continue;
		latest = latest ? latest : row; /* the newest stands first */
		count++;
	}
	if (latest)
		finding_see(find_recent_events(list, FINDING_CERTAIN, count, doc_text_at(latest, "text")),
			    "fathom system events --count %" PRIu64, count);
}

void rules_system(const json_t *evidence, struct findings *list)
{
	const json_t *condition = doc_at(evidence, "service.condition"), *row;
	size_t i;

	if (!condition)
		return;
	judge_database(doc_at(condition, "database"), list);
	judge_management(condition, list);
	json_array_foreach ((json_t *)doc_at(condition, "members"), i, row)
		judge_member(evidence, row, list);
	json_array_foreach ((json_t *)doc_at(condition, "instances"), i, row)
		judge_instance(evidence, row, list);
	json_array_foreach ((json_t *)doc_at(condition, "devices"), i, row)
		judge_drive(row, list);
	judge_events(evidence, list);
}
