/* SPDX-License-Identifier: BSD-2-Clause */
/* rules_server - the server of a host: its files, its sockets, and whether it runs at all. */
#include <string.h>

#include "inspect/doctor/findings.gen.h"
#include "inspect/doctor/internal.h"

enum { THREADS_SHOWN_MAX = 8, FRAMES_SHOWN_MAX = 6 };

static void judge_configuration(const json_t *server, struct findings *list)
{
	const char *path = doc_text_at(server, "configuration"), *why = doc_text_at(server, "configuration_error");

	if (why[0])
		finding_see(find_server_configuration_bad(list, FINDING_CERTAIN, path, why),
			    "fathom-server config check %s", path);
}

static void judge_database(const json_t *server, struct findings *list)
{
	const char *path = doc_text_at(server, "database.path"), *why = doc_text_at(server, "database.problem");
	struct finding *it;

	if (!why[0])
		return;
	it = find_database_damaged(list, FINDING_CERTAIN, path, why);
	finding_shows(it, "the file has %" PRId64 " bytes", doc_number(server, "database.bytes", 0));
	finding_see(it, "ls -l %s*", path);
}

/* The instance with this index, as the server knows it; NULL: not known. */
static const json_t *find_instance(const json_t *evidence, int64_t index)
{
	const json_t *row;
	size_t i;

	json_array_foreach ((json_t *)doc_at(evidence, "service.condition.instances"), i, row) {
		if (doc_number(row, "index", -1) == index)
			return row;
	}
	return NULL;
}

static void judge_superblocks(const json_t *evidence, struct findings *list)
{
	const json_t *row, *instance;
	struct finding *it;
	size_t i;

	json_array_foreach ((json_t *)doc_at(evidence, "server.superblocks"), i, row) {
		if (!doc_text_at(row, "why")[0])
			continue;
		it = find_superblock_damaged(list, FINDING_CERTAIN, (uint64_t)doc_number(row, "index", 0),
					     doc_text_at(row, "why"));
		instance = find_instance(evidence, doc_number(row, "index", -1));
		if (doc_text_at(instance, "state")[0])
			finding_shows(it, "its server reports the state %s", doc_text_at(instance, "state"));
		finding_see(it, "cat %s", doc_text_at(row, "path"));
	}
}

/* The certificates that the server itself shows; those of users are judged as for engines. */
static void judge_own_certificates(const json_t *evidence, struct findings *list)
{
	const json_t *path;
	size_t i;

	json_array_foreach ((json_t *)doc_at(evidence, "server.own_certificates"), i, path) {
		const json_t *about = json_object_get(doc_at(evidence, "certificates"), json_string_value(path));
		int64_t left_s = doc_number(about, "left_s", INT64_MAX);
		char text[SHORT_TEXT_BYTES];
		struct finding *it;

		if (left_s > 0)
			continue;
		it = find_server_certificate_expired(list, FINDING_CERTAIN, json_string_value(path),
						     doc_duration((uint64_t)-left_s * 1000, text));
		finding_shows(it, "its subject is %s", doc_text_at(about, "subject"));
		finding_see(it, "openssl x509 -noout -subject -dates -in %s", json_string_value(path));
	}
}

/* What each thread of a server that does not answer waits for. */
static void show_threads(const json_t *evidence, struct finding *it)
{
	const json_t *thread, *frame;
	char where[CALL_TEXT_BYTES];
	size_t i, j;

	json_array_foreach ((json_t *)doc_at(evidence, "process.threads"), i, thread) {
		if (i == THREADS_SHOWN_MAX)
			return;
		finding_shows(it, "thread %s (tid %" PRId64 "): state %s, %s", doc_text_at(thread, "name"),
			      doc_number(thread, "tid", 0), doc_text_at(thread, "state"), doc_where(thread, where));
		json_array_foreach ((json_t *)doc_at(thread, "stack"), j, frame) {
			if (j < FRAMES_SHOWN_MAX)
				finding_shows(it, "    %s", json_string_value(frame));
		}
	}
}

static void judge_sockets(const json_t *evidence, struct findings *list)
{
	const char *socket = doc_text_at(evidence, "server.socket"), *silent = doc_text_at(evidence, "service.silent"),
		   *address = doc_text_at(evidence, "port.address"), *why = doc_text_at(evidence, "port.silent");
	int64_t pid = doc_engine_pid(evidence);
	char option[TRACE_OPTION_BYTES];
	struct finding *it;

	if (silent[0]) {
		it = find_server_silent(list, FINDING_CERTAIN, socket, silent);
		show_threads(evidence, it);
		finding_see(it, "grep -H . /proc/%" PRId64 "/task/*/wchan", pid);
		finding_see(it, "fathom trace threads%s", doc_trace_option(evidence, option, sizeof(option)));
	}
	if (why[0])
		finding_see(find_server_port_silent(list, FINDING_LIKELY, address, why), "ss -tlnp");
}

static void judge_agents(const json_t *evidence, struct findings *list)
{
	const json_t *row;
	size_t i;

	json_array_foreach ((json_t *)doc_at(evidence, "agents.processes"), i, row) {
		const char *state = doc_text_at(row, "state");
		int64_t pid = doc_number(row, "pid", 0);
		struct finding *it;

		if (strcmp(state, "T") != 0 && strcmp(state, "t") != 0)
			continue;
		it = find_agent_stopped(list, FINDING_CERTAIN, pid,
					strcmp(state, "T") == 0 ? "stopped by a signal" : "held by a debugger");
		finding_shows(it, "its state is %s", state);
		finding_see(it, "grep -E 'State|TracerPid' /proc/%" PRId64 "/status", pid);
	}
}

static void judge_absent(const json_t *server, struct findings *list)
{
	struct finding *it = find_server_absent(list, FINDING_CERTAIN, doc_text_at(server, "configuration"));

	if (doc_text_at(server, "last_error")[0])
		finding_shows(it, "in its log: %s", doc_text_at(server, "last_error"));
	finding_see(it, "systemctl status fathom-server");
	finding_see(it, "journalctl -u fathom-server -n 50");
}

void rules_server(const json_t *evidence, struct findings *list)
{
	const json_t *server = doc_at(evidence, "server");

	if (!server)
		return;
	judge_configuration(server, list);
	judge_own_certificates(evidence, list);
	judge_database(server, list);
	judge_superblocks(evidence, list);
	judge_agents(evidence, list);
	if (doc_is(server, "running"))
		judge_sockets(evidence, list);
	else
		judge_absent(server, list);
}
