/* SPDX-License-Identifier: BSD-2-Clause */
/* text - the words of `fathom blame`. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "cmd/fathom/blame/blame.h"

enum { NAMES_SHOWN_MAX = 3 };

void blame_time_text(const struct reader *reader, uint64_t tick, char *text, size_t bytes)
{
	uint64_t ns, start = reader_info(reader)->start_tick;
	time_t second, now = time(NULL);
	struct tm tm, today;

	if (reader_wall_ns(reader, tick, &ns) != 0) {
		ns = reader_ns_from_ticks(reader, tick > start ? tick - start : 0);
		snprintf(text, bytes, "%.3f s after the start", (double)ns / 1e9);
		return;
	}
	second = (time_t)(ns / NS_PER_SEC);
	localtime_r(&second, &tm);
	localtime_r(&now, &today);
	strftime(text, bytes, tm.tm_yday == today.tm_yday && tm.tm_year == today.tm_year ? "%H:%M:%S" : "%Y-%m-%d %H:%M:%S",
		 &tm);
}

void blame_duration_text(const struct reader *reader, uint64_t ticks, char *text, size_t bytes)
{
	double us = (double)reader_ns_from_ticks(reader, ticks) / 1e3;

	if (us < 999.5)
		snprintf(text, bytes, "%.*f us", us < 99.95 ? 1 : 0, us);
	else if (us < 999.5e3)
		snprintf(text, bytes, "%.*f ms", us < 99.95e3 ? 1 : 0, us / 1e3);
	else
		snprintf(text, bytes, "%.2f s", us / 1e6);
}

double blame_share(const struct blame_verdict *verdict, enum blame_cause cause)
{
	return verdict->whole ? 100 * (double)verdict->rows[cause].ticks / (double)verdict->whole : 0;
}

static const struct blame_request *example_of(const struct blame_answer *answer, enum blame_cause cause)
{
	uint32_t index = answer->verdict.rows[cause].example;

	return index == UINT32_MAX ? NULL : blame_request_at(answer->blame, index);
}

/* Append names, each once, of the requests in the row: "a, b and 2 more". */
static void add_names(const struct blame_answer *answer, enum blame_cause cause, bool devices, char *text, size_t bytes)
{
	const char *names[NAMES_SHOWN_MAX];
	uint32_t count = 0;
	size_t used = strlen(text);
	bool more = false;

	for (uint32_t i = 0; i < answer->count; i++) {
		const struct blame_request *request = blame_request_at(answer->blame, i);
		const char *name = devices ? request->device : request->host;
		bool known = !name[0] || request->split.ticks[cause] < request->split.whole / 10;

		for (uint32_t j = 0; j < count && !known; j++)
			known = strcmp(names[j], name) == 0;
		if (known)
			continue;
		more = count == NAMES_SHOWN_MAX;
		if (more)
			break;
		names[count++] = name;
	}
	for (uint32_t i = 0; i < count && used < bytes; i++)
		used += (size_t)snprintf(text + used, bytes - used, "%s%s", i ? ", " : "", names[i]);
	if (more && used < bytes)
		snprintf(text + used, bytes - used, ", ...");
	if (count == 0 && used < bytes)
		snprintf(text + used, bytes - used, "unknown");
}

/* What a queue of ours is, by the state in which requests wait. */
static const char *queue_words(const char *where)
{
	static const char *const words[][2] = {
		{ "WAIT_BUFFER", "for a data buffer" },
		{ "NEED_BUFFER", "for a data buffer" },
		{ "WAIT_SUBSYSTEM", "a paused subsystem" },
		{ "QUEUED", "the device's queue" },
		{ "HELD", "a snapshot's copy" },
	};

	for (size_t i = 0; where && i < ARRAY_COUNT(words); i++) {
		if (strcmp(words[i][0], where) == 0)
			return words[i][1];
	}
	return "in the engine";
}

/* "reactor_0 ran "reactor_hold"", or "" if no slow run is recorded. */
static void hold_text(const struct blame_answer *answer, char *text, size_t bytes)
{
	const struct blame_request *example = example_of(answer, BLAME_CPU);
	const struct blame_hold *hold = example ? example->split.hold : NULL;
	struct reader_thread thread;
	size_t name_bytes;
	const char *name;

	text[0] = '\0';
	if (!hold || !reader_thread(answer->reader, hold->thread, &thread))
		return;
	name = reader_string(answer->reader, hold->name, &name_bytes);
	if (hold->name)
		snprintf(text, bytes, "%s ran \"%.*s\"", thread.name, (int)name_bytes, name);
	else
		snprintf(text, bytes, "%s was busy", thread.name);
}

void blame_cause_text(const struct blame_answer *answer, enum blame_cause cause, char *text, size_t bytes)
{
	const struct blame_request *example = example_of(answer, cause);
	char names[BLAME_NAME_BYTES] = "";

	switch (cause) {
	case BLAME_DISK:
		add_names(answer, cause, true, names, sizeof(names));
		snprintf(text, bytes, "the disk (device %s)", names);
		return;
	case BLAME_HOST:
	case BLAME_NETWORK:
		add_names(answer, cause, false, names, sizeof(names));
		snprintf(text, bytes, "%s%s)", cause == BLAME_HOST ? "the host (" : "the network (to ", names);
		return;
	case BLAME_QUEUE:
		snprintf(text, bytes, "our queue (%s)", queue_words(example ? example->split.where[cause] : NULL));
		return;
	case BLAME_CPU:
		hold_text(answer, names, sizeof(names));
		if (names[0]) /* a step that takes long also is one that the scheduler interrupts */
			snprintf(text, bytes, "our CPU: %s, or other processes had its CPU", names);
		else
			snprintf(text, bytes, "our CPU");
		return;
	case BLAME_UNKNOWN:
	case BLAME_CAUSES:
		break;
	}
	snprintf(text, bytes, "not explained by the file");
}

/* "reads", if all requests in the row are. */
static const char *operations(const struct blame_answer *answer, enum blame_cause cause)
{
	const char *operation = NULL;

	for (uint32_t i = 0; i < answer->count; i++) {
		const struct blame_request *request = blame_request_at(answer->blame, i);

		if (request->split.ticks[cause] < request->split.whole / 10 || request->split.ticks[cause] == 0)
			continue;
		if (operation && strcmp(operation, request->operation) != 0)
			return "request";
		operation = request->operation;
	}
	return operation ? operation : "request";
}

void blame_sentence(const struct blame_answer *answer, char *text, size_t bytes)
{
	const struct blame_verdict *verdict = &answer->verdict;
	const struct blame_row *row = &verdict->rows[verdict->cause];
	char cause[2 * BLAME_NAME_BYTES], wait[32], limit[32];

	if (answer->count == 0) {
		blame_duration_text(answer->reader, blame_coverage(answer->blame)->slow_ticks, limit, sizeof(limit));
		snprintf(text, bytes, "no request of %s %s took %s or longer", answer->subject, answer->since, limit);
		return;
	}
	blame_cause_text(answer, verdict->cause, cause, sizeof(cause));
	blame_duration_text(answer->reader, row->count ? row->ticks / row->count : 0, wait, sizeof(wait));
	snprintf(text, bytes, "%.0f %% of the slow time of %s %s is %s: %u %s%s waited %s on average; confidence %s: %s",
		 blame_share(verdict, verdict->cause), answer->subject, answer->since, cause, row->count,
		 operations(answer, verdict->cause), row->count == 1 ? "" : "s", wait,
		 blame_confidence_word(verdict->confidence), verdict->reason);
}

void blame_example_command(const struct blame_answer *answer, enum blame_cause cause, char *text, size_t bytes)
{
	const struct blame_request *example = example_of(answer, cause);
	const struct reader_story *story;

	text[0] = '\0';
	if (!example)
		return;
	story = &example->exemplar->stories[0];
	if (example->is_latest)
		snprintf(text, bytes, "fathom trace io %s%u %s", story->object->prefix, story->id, answer->selector);
	else /* the id has served later requests */
		snprintf(text, bytes, "fathom trace slowest 1 --all --where 'tick == %" PRIu64 "' %s", story->begin_tick,
			 answer->selector);
}

static void next_line(char lines[BLAME_NEXT_MAX][BLAME_TEXT_BYTES], uint32_t *count, const char *text)
{
	if (*count < BLAME_NEXT_MAX)
		snprintf(lines[(*count)++], BLAME_TEXT_BYTES, "%s", text);
}

uint32_t blame_next_steps(const struct blame_answer *answer, char lines[BLAME_NEXT_MAX][BLAME_TEXT_BYTES])
{
	const struct blame_request *example = example_of(answer, answer->verdict.cause);
	const char *where = example ? example->split.where[answer->verdict.cause] : NULL;
	char line[BLAME_TEXT_BYTES];
	uint32_t count = 0;

	if (answer->count == 0)
		return 0;
	switch (answer->verdict.cause) {
	case BLAME_DISK:
		snprintf(line, sizeof(line),
			 "fathom trace slowest --where 'device =~ \"%.200s\"' %s: the worst stalls of the device",
			 example ? example->device : "", answer->selector);
		next_line(lines, &count, line);
		next_line(lines, &count, "iostat -x 1, and the kernel's log: the disk below the device");
		break;
	case BLAME_HOST:
		next_line(lines, &count,
			  where && strcmp(where, "TRANSFER_IN") == 0
				  ? "on the host: is the process stopped or its CPU busy? It delays the data of writes"
				  : "on the host: is the process stopped or its CPU busy? It does not read its data");
		next_line(lines, &count, "ss -tni: rwnd_limited of the connection grows while the host does not read");
		break;
	case BLAME_NETWORK:
		next_line(lines, &count,
			  "ss -tni: rtt and retrans of the connection; ip -s link: errors and drops of the interface");
		snprintf(line, sizeof(line), "fathom trace -n tcp_info,tcp_path %s: what the kernel counted, each second",
			 answer->selector);
		if (reader_point_by_name(answer->reader, "tcp_path"))
			next_line(lines, &count, line);
		break;
	case BLAME_QUEUE:
		next_line(lines, &count,
			  where && strstr(where, "BUFFER")
				  ? "fathom top --tab buffers: the hosts and devices that hold the buffers"
			  : where && strcmp(where, "HELD") == 0
				  ? "fathom rpc volume_get_volumes: the snapshot or copy under way"
				  : "fathom top --tab volumes: the depth of each device");
		break;
	case BLAME_CPU:
		snprintf(line, sizeof(line), "fathom trace -n poller_slow,thread_slow %s: what held the reactors",
			 answer->selector);
		if (reader_point_by_name(answer->reader, "poller_slow")) /* SPDK's targets have none */
			next_line(lines, &count, line);
		next_line(lines, &count, "fathom top --tab pollers: what each reactor spends its time on");
		next_line(lines, &count, "fathom doctor: whether other processes take the CPUs of reactors");
		break;
	case BLAME_UNKNOWN:
	case BLAME_CAUSES:
		next_line(lines, &count,
			  "fathom trace record, then fathom blame -f FILE: a recording has every event of each request");
		break;
	}
	return count;
}
