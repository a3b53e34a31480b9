/* SPDX-License-Identifier: BSD-2-Clause */
/* traced - what the trace file has: the end of the process, what each thread runs, times of stages, clocks. */
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "inspect/doctor/internal.h"
#include "inspect/trace/lives.h"

enum { OBJECTS_MAX = 16, CLOCK_SAMPLES = 256, CLOCK_STEP_MS_MIN = 1000, BACKTRACE_MAX = 8 };

/* ---- the process ---- */

static json_t *frozen_json(const struct reader *reader, const struct reader_frozen *frozen)
{
	static const char *const why[] = { [TRACE_FROZEN_TRIGGER] = "trigger",
					   [TRACE_FROZEN_SIGNAL] = "signal",
					   [TRACE_FROZEN_MUST] = "must",
					   [TRACE_FROZEN_ASKED] = "asked",
					   [TRACE_FROZEN_ENDED] = "ended" };
	json_t *object;

	if (!frozen)
		return NULL;
	object = doc_object();
	if ((size_t)frozen->why < ARRAY_COUNT(why) && why[frozen->why])
		doc_put(object, "why", doc_text(why[frozen->why]));
	doc_put(object, "signal", json_integer(frozen->signal));
	doc_put(object, "code", json_integer(frozen->code));
	doc_put(object, "tid", json_integer(frozen->tid));
	doc_put(object, "text", doc_text(frozen->text));
	doc_put(object, "place", doc_text(frozen->place));
	doc_put(object, "offset", json_integer((json_int_t)frozen->offset));
	doc_put(object, "address", json_integer((json_int_t)frozen->address));
	(void)reader;
	return object;
}

/*
 * The report that the process wrote beside its file when it crashed: where, the sender of the signal if a process sent it,
 * and the backtrace.
 *
 *	SIGSEGV, code 1, address 0x40, thread 6173, in crash_store+0x0 (fathom-engine+0x53930)
 *	backtrace:
 *	  crash_store+0x0 (fathom-engine+0x53930)
 */
static json_t *crash_json(const char *report)
{
	static const char sent[] = ", sent by process ", title[] = "\nbacktrace:\n";
	char text[PROC_BYTES_MAX];
	json_t *crash, *backtrace;
	const char *at, *end;

	if (doc_read(report, text, sizeof(text)) != 0)
		return NULL;
	crash = doc_object();
	backtrace = doc_list();
	at = strstr(text, ", in ");
	if (at)
		doc_put(crash, "function", doc_text_of(at + strlen(", in "), strcspn(at + strlen(", in "), " \n")));
	end = strstr(text, title);
	at = strstr(text, sent);
	if (at && end && at < end)
		doc_put(crash, "sender", json_integer(strtol(at + strlen(sent), NULL, 10)));
	at = end ? end + strlen(title) : NULL;
	while (at && at[0] == ' ' && json_array_size(backtrace) < BACKTRACE_MAX) {
		at += strspn(at, " ");
		doc_add(backtrace, doc_text_of(at, strcspn(at, " \n")));
		at += strcspn(at, "\n");
		at += *at == '\n';
	}
	doc_put(crash, "backtrace", backtrace);
	return crash;
}

static uint64_t ms_between(const struct reader *reader, uint64_t from, uint64_t to)
{
	return to > from ? reader_ns_from_ticks(reader, to - from) / NS_PER_MS : 0;
}

/* Does a process with this number run on the machine of the file, which is ours? Then the file may be a copy. */
static bool is_pid_here(const struct reader_info *info)
{
	char host[HOST_NAME_MAX + 1] = "", path[64], text[PROC_BYTES_MAX], state[64];

	snprintf(path, sizeof(path), "/proc/%d/status", info->pid);
	return info->pid > 0 && gethostname(host, sizeof(host)) == 0 && strcmp(host, info->host) == 0 &&
	       doc_read(path, text, sizeof(text)) == 0 &&
	       strchr("ZX", doc_line(text, "State:", state, sizeof(state))[0]) == NULL;
}

static void put_info(struct doctor_out *out, const struct reader *reader)
{
	static const char *const states[] = { [READER_ALIVE] = "alive", [READER_ENDED] = "ended", [READER_DEAD] = "dead" };
	const struct reader_info *info = reader_info(reader);
	char report[PATH_MAX];
	uint64_t realtime_ns;

	doctor_put(out, "path", doc_text(info->path));
	doctor_put(out, "program", doc_text(info->name));
	doctor_put(out, "version", doc_text(info->version));
	doctor_put(out, "host", doc_text(info->host));
	doctor_put(out, "pid", json_integer(info->pid));
	doctor_put(out, "spdk", json_boolean(info->spdk));
	/* servers, agents and registries have trace files, too */
	doctor_put(out, "engine", json_boolean(info->spdk || reader_point_by_name(reader, "nvmf_ctrlr_create")));
	doctor_put(out, "build_id", doc_text(info->build_id));
	doctor_put(out, "state", doc_text(states[info->liveness]));
	doctor_put(out, "died", json_boolean(info->died));
	doctor_put(out, "frozen", frozen_json(reader, info->frozen));
	if (reader_crash_report(reader, report, sizeof(report))) {
		doctor_put(out, "report", doc_text(report));
		doctor_put(out, "crash", crash_json(report));
	}
	doctor_put(out, "refused_threads", json_integer((json_int_t)info->refused_threads));
	doctor_put(out, "unregistered", json_integer((json_int_t)info->unregistered_records));
	doctor_put(out, "recording", json_boolean(reader_is_recording(reader)));
	doctor_put(out, "pid_runs", json_boolean(info->liveness != READER_ALIVE && is_pid_here(info)));
	if (info->problem)
		doctor_put(out, "problem", doc_text(info->problem));
	if (!info->spdk || info->start_tick)
		doctor_put(out, "up_ms",
			   json_integer((json_int_t)ms_between(reader, info->start_tick, reader_now(reader))));
	if (reader_wall_ns(reader, reader_now(reader), &realtime_ns) == 0)
		doctor_put(out, "last_sign_s", json_integer((json_int_t)(realtime_ns / NS_PER_SEC)));
}

/* ---- threads ---- */

static json_t *threads_json(const struct reader *reader)
{
	uint64_t now = reader_now(reader);
	json_t *threads = doc_list();

	for (uint32_t i = 0; i < reader_info(reader)->thread_count; i++) {
		struct reader_thread thread;
		json_t *row;

		if (!reader_thread(reader, i, &thread) || thread.state != TRACE_THREAD_LIVE)
			continue;
		row = doc_object();
		doc_put(row, "name", doc_text(thread.name));
		doc_put(row, "tid", json_integer(thread.tid));
		doc_put(row, "cpu", json_integer(thread.cpu));
		doc_put(row, "turns", json_integer((json_int_t)thread.turns));
		doc_put(row, "rare", json_integer((json_int_t)thread.recorded[TRACE_RING_RARE]));
		if (thread.running[0]) {
			doc_put(row, "running", doc_text(thread.running));
			doc_put(row, "of", doc_text(thread.running_thread));
			doc_put(row, "running_ms", json_integer((json_int_t)ms_between(reader, thread.running_since, now)));
		}
		doc_add(threads, row);
	}
	return threads;
}

/* ---- times of stages ---- */

/* The types of requests of the file. */
static uint32_t list_objects(const struct reader *reader, const struct reader_object **objects)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < reader_info(reader)->point_count && count < OBJECTS_MAX; i++) {
		const struct reader_object *object = reader_point_at(reader, i)->object;
		bool seen = !object || !object->machine;

		for (uint32_t j = 0; j < count && !seen; j++)
			seen = objects[j] == object;
		if (!seen)
			objects[count++] = object;
	}
	return count;
}

static double us_of(const struct reader *reader, double ticks)
{
	return ticks * 1e6 / (double)reader_info(reader)->tick_rate;
}

static void put_sums(json_t *to, const char *prefix, const struct reader *reader, const struct reader_dwell_sums *sums)
{
	char key[64];

	snprintf(key, sizeof(key), "%scount", prefix);
	doc_put(to, key, json_integer((json_int_t)sums->count));
	if (sums->count == 0)
		return;
	snprintf(key, sizeof(key), "%savg_us", prefix);
	doc_put(to, key, json_real(us_of(reader, (double)sums->ticks / (double)sums->count)));
	snprintf(key, sizeof(key), "%sp50_us", prefix);
	doc_put(to, key, json_real(us_of(reader, reader_dwell_percentile(sums, 50000))));
	snprintf(key, sizeof(key), "%sp99_us", prefix);
	doc_put(to, key, json_real(us_of(reader, reader_dwell_percentile(sums, 99000))));
	snprintf(key, sizeof(key), "%smax_us", prefix);
	doc_put(to, key, json_real(us_of(reader, (double)sums->ticks_max)));
}

/* `before` NULL: there was no first look. */
static json_t *lives_json(const struct reader *reader, const struct reader_lives *now, const struct reader_lives *before)
{
	const struct reader_machine *machine = now->object->machine;
	json_t *lives = doc_object(), *stages = doc_object();

	doc_put(lives, "ended", json_integer((json_int_t)now->stages[0].count));
	doc_put(lives, "failed", json_integer((json_int_t)now->failed));
	doc_put(lives, "kept", json_integer((json_int_t)now->kept));
	if (before)
		doc_put(lives, "failed_now", json_integer((json_int_t)(now->failed - before->failed)));
	for (uint32_t state = 0; state < machine->state_count && state < TRACE_STORY_STATES_MAX; state++) {
		struct reader_dwell_sums recent;
		json_t *stage;

		if (now->stages[state].count == 0)
			continue;
		stage = doc_object();
		put_sums(stage, "", reader, &now->stages[state]);
		if (before) {
			reader_dwell_difference(&now->stages[state], &before->stages[state], &recent);
			put_sums(stage, "now_", reader, &recent);
		}
		doc_put(stages, state == 0 ? "whole life" : machine->states[state].name, stage);
	}
	doc_put(lives, "stages", stages);
	return lives;
}

/* The lives of all types: a list, in the order of list_objects(), of `count`. Pair: free(). */
static struct reader_lives *read_lives(const struct reader *reader, const struct reader_object **objects, uint32_t count,
				       bool known[OBJECTS_MAX])
{
	struct reader_lives *lives = calloc(count + 1, sizeof(*lives));

	must(lives);
	for (uint32_t i = 0; i < count; i++)
		known[i] = reader_lives(reader, objects[i], READER_ALL_THREADS, &lives[i]);
	return lives;
}

/* ---- clocks ---- */

static void put_step(json_t *steps, const struct reader *reader, int64_t step_ns, uint64_t tick)
{
	json_t *row;

	if (llabs(step_ns) / (int64_t)NS_PER_MS < CLOCK_STEP_MS_MIN)
		return;
	row = doc_object();
	doc_put(row, "by_ms", json_integer(step_ns / (int64_t)NS_PER_MS));
	doc_put(row, "ago_ms", json_integer((json_int_t)ms_between(reader, tick, reader_now(reader))));
	doc_add(steps, row);
}

/*
 * Steps of the wall clock against ticks, between samples. A step between two pairs of clocks is smeared over the time
 * between them, so samples are added while they go in one direction: together they are one step.
 */
static json_t *clock_steps(const struct reader *reader)
{
	uint64_t start = reader_info(reader)->start_tick, now = reader_now(reader), tick = start, wall;
	int64_t last = 0, step = 0, delta;
	json_t *steps = doc_list();

	for (uint32_t i = 0; i <= CLOCK_SAMPLES && now > start; i++) {
		tick = start + (now - start) / CLOCK_SAMPLES * i;
		if (reader_wall_ns(reader, tick, &wall) != 0)
			break;
		delta = (int64_t)(wall - reader_ns_from_ticks(reader, tick - start)) - last;
		last += delta;
		if (i == 0)
			continue;
		if (llabs(delta) <= (int64_t)NS_PER_MS || (delta > 0) != (step > 0)) {
			put_step(steps, reader, step, tick);
			step = 0;
		}
		step += llabs(delta) > (int64_t)NS_PER_MS ? delta : 0;
	}
	put_step(steps, reader, step, tick);
	return steps;
}

static void put_clocks(struct doctor_out *out, const struct reader *reader)
{
	uint64_t wall;

	if (reader_info(reader)->spdk)
		return;
	doctor_put(out, "clock_steps", clock_steps(reader));
	/* an engine that runs here: its clock, continued until now, against ours */
	if (reader_info(reader)->liveness == READER_ALIVE && reader_wall_ns(reader, reader_now(reader), &wall) == 0)
		doctor_put(out, "clock_off_ms",
			   json_integer(((int64_t)clock_realtime_ns() - (int64_t)wall) / (int64_t)NS_PER_MS));
}

/* ---- all of it ---- */

static void put_masks(struct doctor_out *out, const struct reader *reader)
{
	const struct reader_point *io = reader_point_by_name(reader, "BDEV_IO_START"); /* as SPDK calls it */
	uint32_t off = 0;

	for (uint32_t i = 0; i < reader_info(reader)->point_count; i++)
		off += !reader_point_enabled(reader, reader_point_at(reader, i));
	doctor_put(out, "points", json_integer(reader_info(reader)->point_count));
	doctor_put(out, "points_off", json_integer(off));
	if (reader_info(reader)->spdk)
		doctor_put(out, "records_bdev", json_boolean(io && reader_point_enabled(reader, io)));
}

/* What changes while one looks: twice, with a while between. */
static void look_twice(struct doctor_out *out, struct reader *reader)
{
	const struct reader_object *objects[OBJECTS_MAX];
	bool known[OBJECTS_MAX] = { false }, known_before[OBJECTS_MAX] = { false };
	uint32_t count = list_objects(reader, objects);
	struct reader_lives *before = read_lives(reader, objects, count, known_before), *now;
	bool alive = reader_info(reader)->liveness == READER_ALIVE && !reader_info(reader)->spdk;
	json_t *lives = doc_object(), *under_way;

	uint64_t since_ms = doctor_elapsed_ms(out);

	doctor_put(out, "threads_before", threads_json(reader));
	if (alive)
		doctor_wait_look(out, 0);
	now = read_lives(reader, objects, count, known);
	for (uint32_t i = 0; i < count; i++) {
		if (known[i])
			doc_put(lives, objects[i]->name,
				lives_json(reader, &now[i], alive && known_before[i] ? &before[i] : NULL));
	}
	doctor_put(out, "lives", lives);
	doctor_put(out, "threads", threads_json(reader));
	under_way = traced_under_way(reader);
	doctor_put(out, "ended_ios", traced_ended_ios(out, reader, under_way));
	if (alive)
		doctor_put(out, "interval_ms", json_integer((json_int_t)(doctor_elapsed_ms(out) - since_ms)));
	traced_chains(out, reader, under_way);
	doctor_put(out, "under_way", under_way);
	doctor_put(out, "silent_ms", json_integer((json_int_t)(reader_silent_ns(reader) / NS_PER_MS)));
	doctor_put(out, "stopped", json_boolean(reader_info(reader)->stopped));
	free(before);
	free(now);
}

void doctor_look_trace(struct doctor_out *out, const void *ctx)
{
	const char *path = ctx;
	struct reader *reader;
	struct fathom_fault why;

	if (!path || !path[0]) {
		doctor_put(out, "refused", doc_text("no trace file was found"));
		return;
	}
	doctor_step(out, "opening %s", path);
	if (reader_open(path, &reader, &why) != 0) {
		doctor_put(out, "refused", doc_text(why.text));
		return;
	}
	put_info(out, reader);
	put_masks(out, reader);
	put_clocks(out, reader);
	doctor_step(out, "reading the requests of %s", path);
	if (!reader_has_lives(reader) && reader_lives_from_rings(reader) != 0)
		doctor_put(out, "refused", doc_text("out of memory"));
	look_twice(out, reader);
	doctor_put(out, "kept", traced_kept(reader));
	doctor_step(out, "reading the events of %s", path);
	doctor_put(out, "events", traced_events(out, reader));
	reader_close(reader);
}
