/* SPDX-License-Identifier: BSD-2-Clause */
/* print_about - prints the file's header and end, requests in progress, and threads. */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "inspect/trace/print.h"

/* A thread hangs if one poller or message has run for this long. */
#define HUNG_MIN_NS ((uint64_t)NS_PER_SEC)

/* Add a word for a value that the file does not have, such as an opcode's name. */
static void add_value_word(struct reader_printer *printer, const struct reader_story *story, const struct reader_arg *arg)
{
	struct reader_owner owner;
	const char *word;

	if (!printer->word)
		return;
	if (!reader_owner(printer->reader, story->owner, story->begin_tick, &owner))
		owner.text[0] = '\0';
	word = printer->word(story->object, arg, reader_arg_value(arg, story->args), owner.text);
	if (word && printer->json)
		add_format(printer, ",\"%s_name\":\"%s\"", arg->name, word);
	else if (word)
		add_format(printer, " (%s)", word);
}

void add_story_args(struct reader_printer *printer, const struct reader_story *story)
{
	bool first = true;

	for (uint32_t i = 0; i < story->object->story_arg_count; i++) {
		const struct reader_arg *arg = &story->object->story_args[i];

		/* text output shows the parent in parentheses in front */
		if (!printer->json && arg->type >= READER_OBJ)
			continue;
		if (printer->json)
			add_format(printer, "%s\"%s\":", first ? "" : ",", arg->name);
		else
			add_format(printer, "%s%s: ", first ? "" : " ", arg->name);
		first = false;
		add_value(printer, arg, story->args);
		add_value_word(printer, story, arg);
	}
}

static const char *const liveness_names[] = { [READER_ALIVE] = "alive", [READER_ENDED] = "ended", [READER_DEAD] = "dead" };

/* SPDK's files do not record when their target started, and this one has no event. */
static bool has_no_beginning(const struct reader_info *info)
{
	return info->spdk && info->start_tick == 0;
}

/* Of a dead process: the time from which ages count. */
static void print_last_sign(struct reader_printer *printer)
{
	uint64_t now = reader_now(printer->reader);

	if (!printer->reader->info.died || !printer->reader->header.alive_tick)
		return;
	ADD_LITERAL(printer, "# last sign of life ");
	add_duration(printer, ns_between(printer, printer->reader->info.start_tick, now));
	ADD_LITERAL(printer, " after its start");
	if (printer->reader->pair_count) {
		ADD_LITERAL(printer, ", at ");
		add_wall_of_tick(printer, now);
	}
	end_line(printer);
}

/* Count threads of a live process whose poller or message does not return. */
static void add_hung_threads(struct reader_printer *printer)
{
	const struct reader *reader = printer->reader;
	uint64_t now = reader_now(reader), longest_ns = 0;
	uint32_t count = 0;

	for (uint32_t i = 0; reader->info.liveness == READER_ALIVE && i < reader->info.thread_count; i++) {
		struct reader_thread thread;
		uint64_t ns;

		if (!reader_thread(reader, i, &thread) || thread.state != TRACE_THREAD_LIVE || !thread.running[0])
			continue;
		ns = ns_between(printer, thread.running_since, now);
		count += ns >= HUNG_MIN_NS;
		longest_ns = max_u64(longest_ns, ns);
	}
	if (count == 0)
		return;
	add_format(printer, ", but %u of its threads hang%s: for ", count, count == 1 ? "s" : "");
	add_duration(printer, longest_ns);
}

static void print_header_text(struct reader_printer *printer, const struct reader_counts *counts)
{
	const struct reader_info *info = &printer->reader->info;
	uint64_t silent_ns = reader_silent_ns(printer->reader);
	char pid[16] = "?";
	uint64_t gone;

	add_format(printer, "# %s%s%s", printer->label, printer->label[0] ? ": " : "", info->path);
	end_line(printer);
	print_frozen_text(printer);
	if (info->pid || !info->spdk)
		snprintf(pid, sizeof(pid), "%d", info->pid);
	add_format(printer, "# %s %s, pid %s on %s, %s", info->name, info->version, pid, info->host[0] ? info->host : "?",
		   info->liveness != READER_DEAD ? liveness_names[info->liveness]
		   : !info->died		 ? "alive then"
						 : "dead (killed or crashed, or not on this machine)");
	if (info->stopped)
		ADD_LITERAL(printer, ", but stopped by a signal or a debugger");
	if (silent_ns) {
		add_format(printer, "%s written nothing for ", info->stopped ? ", it has" : ", but it has");
		add_duration(printer, silent_ns);
	}
	add_hung_threads(printer);
	if (info->build_id[0])
		add_format(printer, ", build-id %s", info->build_id);
	end_line(printer);
	add_format(printer, "# TSC rate: %" PRIu64 " ticks/s; %s ", info->tick_rate,
		   info->spdk ? "oldest event" : "started");
	if (has_no_beginning(info)) {
		ADD_LITERAL(printer, "-");
	} else if (printer->reader->pair_count) {
		add_wall_of_tick(printer, info->start_tick);
		add_format(printer, ", at tick %" PRIu64, info->start_tick);
	} else {
		add_format(printer, "at tick %" PRIu64, info->start_tick);
	}
	end_line(printer);
	print_last_sign(printer);
	if (info->problem) {
		add_format(printer, "# damaged: %s", info->problem);
		end_line(printer);
	}
	if (!counts)
		return;
	gone = counts->overwritten + counts->missing;
	add_format(printer,
		   "# records: %" PRIu64 " kept, %" PRIu64 " overwritten, %" PRIu64 " missing, %" PRIu64 " unregistered",
		   counts->recorded - min_u64(gone, counts->recorded), counts->overwritten, counts->missing,
		   info->unregistered_records);
	if (info->refused_threads)
		add_format(printer, " (%" PRIu64 " threads got no slot)", info->refused_threads);
	end_line(printer);
}

static void add_header_text(struct reader_printer *printer, const char *key, const char *text)
{
	add_format(printer, ",\"%s\":\"", key);
	add_foreign(printer, text, strlen(text));
	add_char(printer, '"');
}

static void print_header_json(struct reader_printer *printer, const struct reader_counts *counts)
{
	const struct reader_info *info = &printer->reader->info;
	uint64_t silent_ns = reader_silent_ns(printer->reader);

	begin_line(printer);
	add_format(printer, "\"trace\":{\"version\":%u", printer->reader->header.version);
	add_header_text(printer, "path", info->path);
	add_header_text(printer, "program", info->name);
	add_header_text(printer, "program_version", info->version);
	add_header_text(printer, "host", info->host);
	add_format(printer,
		   ",\"pid\":%d,\"state\":\"%s\",\"build_id\":\"%s\",\"tick_rate\":%" PRIu64 ",\"start_tick\":%" PRIu64,
		   info->pid, liveness_names[info->liveness], info->build_id, info->tick_rate, info->start_tick);
	if (info->stopped)
		ADD_LITERAL(printer, ",\"stopped\":true");
	if (silent_ns)
		add_format(printer, ",\"silent_us\":%" PRIu64, (uint64_t)(silent_ns / NS_PER_US));
	if (info->died)
		add_format(printer, ",\"last_sign_tick\":%" PRIu64, reader_now(printer->reader));
	if (printer->reader->pair_count && !has_no_beginning(info)) {
		ADD_LITERAL(printer, ",\"start_time\":\"");
		add_wall_of_tick(printer, info->start_tick);
		add_char(printer, '"');
	}
	if (counts)
		add_format(printer,
			   ",\"recorded\":%" PRIu64 ",\"overwritten\":%" PRIu64 ",\"missing\":%" PRIu64
			   ",\"unregistered\":%" PRIu64,
			   counts->recorded, counts->overwritten, counts->missing, info->unregistered_records);
	if (counts && info->refused_threads)
		add_format(printer, ",\"refused_threads\":%" PRIu64, info->refused_threads);
	if (info->spdk)
		add_header_text(printer, "format", "spdk");
	if (info->problem)
		add_header_text(printer, "damaged", info->problem);
	add_frozen_json(printer);
	ADD_LITERAL(printer, "}}");
	end_line(printer);
}

void reader_print_header(struct reader_printer *printer, const struct reader_counts *counts)
{
	if (printer->json)
		print_header_json(printer, counts);
	else
		print_header_text(printer, counts);
}

void reader_print_end(struct reader_printer *printer, const struct reader_counts *counts)
{
	const struct {
		const char *name;
		uint64_t count;
		const char *text;
	} rows[] = {
		{ "torn", counts->torn, "torn records left out (this is a copy of a file that was being written)" },
		{ "missing", counts->missing, "records are missing from this file" },
		{ "orphans", counts->orphans, "parts of long events without their other parts" },
		{ "unknown", counts->unknown, "records of points that the schema does not name" },
		{ "cleared", counts->cleared, "records from before the trace was cleared" },
	};

	if (printer->json) {
		begin_line(printer);
		add_format(printer, "\"end\":{\"events\":%" PRIu64 ",\"overwritten\":%" PRIu64, counts->events,
			   counts->overwritten);
	}
	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		if (printer->json)
			add_format(printer, ",\"%s\":%" PRIu64, rows[i].name, rows[i].count);
		else if (rows[i].count)
			add_format(printer, "# %s%s%" PRIu64 " %s\n", printer->label, printer->label[0] ? ": " : "",
				   rows[i].count, rows[i].text);
	}
	if (printer->json) {
		ADD_LITERAL(printer, "}}");
		end_line(printer);
	}
}

void reader_print_remark(struct reader_printer *printer, const char *text)
{
	if (printer->json)
		return;
	add_format(printer, "# %s%s%s", printer->label, printer->label[0] ? ": " : "", text);
	end_line(printer);
}

/* ---- stories and threads ---- */

static const char *story_state_name(const struct reader_story *story, uint32_t state)
{
	const struct reader_machine *machine = story->object->machine;

	return machine && state < machine->state_count ? machine->states[state].name : "?";
}

static void print_story_text(struct reader_printer *printer, const struct reader_story *story, uint64_t now,
			     const struct reader_object *related, uint32_t related_id)
{
	begin_line(printer);
	add_text(printer, story->object->name);
	add_char(printer, ' ');
	add_object_id(printer, story->object, story->id);
	if (related) {
		ADD_LITERAL(printer, " (");
		add_object_id(printer, related, related_id);
		add_char(printer, ')');
	}
	ADD_LITERAL(printer, "  ");
	add_owner(printer, story->owner, story->begin_tick);
	add_format(printer, "%s for ", story_state_name(story, story->state));
	add_duration(printer, ns_between(printer, story->entered_tick, now));
	add_text(printer, story->partial ? ", age >" : ", age ");
	add_duration(printer, ns_between(printer, story->begin_tick, now));
	if (printer->wall) {
		ADD_LITERAL(printer, ", since ");
		add_wall_of_tick(printer, story->begin_tick);
	}
	if (story->object->story_arg_count)
		ADD_LITERAL(printer, "  ");
	add_story_args(printer, story);
	end_line(printer);
}

static void print_story_json(struct reader_printer *printer, const struct reader_story *story, uint64_t now,
			     const struct reader_object *related, uint32_t related_id)
{
	const struct reader_machine *machine = story->object->machine;
	bool first = true;

	begin_line(printer);
	add_format(printer, "\"object\":\"%s%u\",\"object_type\":\"%s\"", story->object->prefix, story->id,
		   story->object->name);
	if (related)
		add_object_json(printer, related, related_id, "related");
	add_owner(printer, story->owner, story->begin_tick);
	add_format(printer, ",\"stage\":\"%s\",\"stage_us\":", story_state_name(story, story->state));
	add_us(printer, ns_between(printer, story->entered_tick, now), false, 0, false);
	ADD_LITERAL(printer, ",\"age_us\":");
	add_us(printer, ns_between(printer, story->begin_tick, now), false, 0, false);
	add_format(printer, ",\"begin_tick\":%" PRIu64 ",\"life\":%u", story->begin_tick, story->life);
	if (story->partial)
		ADD_LITERAL(printer, ",\"partial\":true");
	if (printer->wall) {
		ADD_LITERAL(printer, ",\"begin_time\":\"");
		add_wall_of_tick(printer, story->begin_tick);
		add_char(printer, '"');
	}
	ADD_LITERAL(printer, ",\"stages\":{");
	for (uint32_t state = 1; machine && state < machine->state_count && state < TRACE_STORY_STATES_MAX; state++) {
		if (!story->ticks[state])
			continue;
		add_format(printer, "%s\"%s\":", first ? "" : ",", machine->states[state].name);
		add_us(printer, ns_between(printer, story->begin_tick, story->ticks[state]), false, 0, false);
		first = false;
	}
	ADD_LITERAL(printer, "},\"args\":{");
	add_story_args(printer, story);
	ADD_LITERAL(printer, "}}");
	end_line(printer);
}

void reader_print_story(struct reader_printer *printer, const struct reader_story *story, uint64_t now,
			const struct reader_object *related, uint32_t related_id)
{
	if (printer->json)
		print_story_json(printer, story, now, related, related_id);
	else
		print_story_text(printer, story, now, related, related_id);
}

/* A thread that did not end itself keeps its state in the file, but it does not outlive its process. */
static const char *thread_state(const struct reader_info *info, const struct reader_thread *thread)
{
	static const char *const states[] = { "free", "live", "ended" };

	if (thread->state == TRACE_THREAD_LIVE && info->died)
		return "died";
	if (thread->state == TRACE_THREAD_LIVE && info->liveness == READER_ENDED)
		return "ended";
	return (unsigned int)thread->state < ARRAY_COUNT(states) ? states[thread->state] : "?";
}

void reader_print_thread(struct reader_printer *printer, const struct reader_thread *thread, uint64_t now)
{
	const struct reader_info *info = &printer->reader->info;
	const char *state = thread_state(info, thread);
	uint64_t running_ns = ns_between(printer, thread->running_since, now);

	begin_line(printer);
	if (printer->json) {
		add_format(printer, "\"thread\":%u", thread->index);
		add_header_text(printer, "name", thread->name);
		add_header_text(printer, "state", state);
		add_format(printer, ",\"tid\":%d,\"core\":", thread->tid);
		if (thread->cpu < 0)
			ADD_LITERAL(printer, "null");
		else
			add_format(printer, "%d", thread->cpu);
		add_format(printer,
			   ",\"recorded_io\":%" PRIu64 ",\"recorded_rare\":%" PRIu64 ",\"room_io\":%" PRIu64
			   ",\"room_rare\":%" PRIu64 ",\"turns\":%" PRIu64,
			   thread->recorded[TRACE_RING_IO], thread->recorded[TRACE_RING_RARE],
			   thread->entry_count[TRACE_RING_IO], thread->entry_count[TRACE_RING_RARE], thread->turns);
		if (thread->running[0]) {
			add_header_text(printer, "running", thread->running);
			add_header_text(printer, "running_thread", thread->running_thread);
			ADD_LITERAL(printer, ",\"running_us\":");
			add_us(printer, running_ns, false, 0, false);
		}
		add_char(printer, '}');
		end_line(printer);
		return;
	}
	add_format(printer, "%-20s %-5s tid %-8d ", thread->name, state, thread->tid);
	if (thread->cpu < 0)
		ADD_LITERAL(printer, "core -  ");
	else
		add_format(printer, "core %-3d", thread->cpu);
	add_format(printer, "recorded %" PRIu64 " + %" PRIu64 " rare", thread->recorded[TRACE_RING_IO],
		   thread->recorded[TRACE_RING_RARE]);
	if (thread->running[0]) {
		add_format(printer, ", %s %s", info->died || info->liveness == READER_ENDED ? "ran" : "runs",
			   thread->running);
		if (thread->running_thread[0])
			add_format(printer, " of %s", thread->running_thread);
		ADD_LITERAL(printer, " for ");
		add_duration(printer, running_ns);
	}
	end_line(printer);
}
