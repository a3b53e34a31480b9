/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that records the events of script.h is killed some thousand times: from before its file is made to long after
 * its rings have wrapped. Each event in its file must be complete and correct. A missing event must have been overwritten
 * and counted.
 *
 * The seed is printed. FATHOM_KILL_SEED repeats a seed, as far as the kernel's scheduling does. FATHOM_KILLS: number of
 * kills.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/random.h"
#include "script.h"

enum { KILLS = 2000, LIVE_READS = 60, LIVES_MISSING_MAX = 8 };

static char directory[64], path[320];
static bool unnamed_files; /* the directory supports unnamed files */
static struct random chance;
static struct {
	uint64_t kills, no_file, half_made, no_events, overwritten, torn_exemplars, exemplars, under_way, events;
} seen;

static int setup(void **state)
{
	const char *seed = getenv("FATHOM_KILL_SEED");
	uint64_t number = seed ? strtoull(seed, NULL, 0) : clock_realtime_ns();
	int fd;

	random_init(&chance, number);
	print_message("# FATHOM_KILL_SEED=%llu\n", (unsigned long long)number);
	(void)clock_tick_rate(); /* measured once for all children */
	snprintf(directory, sizeof(directory), "/dev/shm/fathom-killed-XXXXXX");
	if (!mkdtemp(directory))
		return -1;
	fd = open(directory, O_TMPFILE | O_RDWR, 0600);
	unnamed_files = fd >= 0;
	if (fd >= 0)
		close(fd);
	return 0;
}

static int teardown(void **state)
{
	/* left by a failed case */
	(void)unlink(path);
	return rmdir(directory);
}

/* ---- the program ---- */

static pid_t start(void)
{
	struct script_options options = { .directory = directory,
					  .thread_count = 1 + (uint32_t)random_below(&chance, 3),
					  .few_owners = random_below(&chance, 4) == 0,
					  .short_threads = random_below(&chance, 3) == 0,
					  .same_ticks = random_below(&chance, 4) == 0 };
	pid_t pid;

	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		script_run(&options);
		_exit(1);
	}
	snprintf(path, sizeof(path), "%s/script_trace.pid%d", directory, pid);
	return pid;
}

static void wait_us(uint64_t us)
{
	struct timespec span = { .tv_nsec = (long)(us * NS_PER_US) };
	uint64_t end = clock_ticks() + clock_ticks_from_ns(us * NS_PER_US);

	/* sleeping is not exact, but yields the CPU */
	if (us > 200)
		nanosleep(&span, NULL);
	while (clock_ticks() < end)
		;
}

static void end(pid_t pid)
{
	int status;

	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	/* killed, not ended by a must() */
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGKILL);
}

/* ---- reading ---- */

/* The events of one ring of a thread, in the order read. */
struct lane {
	uint64_t shown, records; /* numbers of events and of their records */
	uint32_t first, last;	 /* sequence numbers */
};

struct lanes {
	struct lane lane[SCRIPT_SLOTS][TRACE_RINGS_PER_THREAD];
	uint64_t end[SCRIPT_SLOTS]; /* one above the latest sequence number of both rings */
	uint64_t jumps;		    /* records missing between those shown */
};

/* The number of records between two events of a ring. */
static uint64_t records_between(enum trace_ring_kind ring, uint32_t before, uint32_t after)
{
	return script_recorded(ring, after) - script_recorded(ring, (uint64_t)before + 1);
}

static void take(struct lanes *lanes, const struct reader *reader, const struct reader_event *event)
{
	struct lane *lane;

	script_check_event(reader, event);
	lane = &lanes->lane[event->thread][event->ring];
	if (lane->shown == 0) {
		lane->first = event->seq;
	} else {
		assert_true(event->seq > lane->last);
		lanes->jumps += records_between(event->ring, lane->last, event->seq);
	}
	lanes->end[event->thread] = max_u64(lanes->end[event->thread], event->seq + 1ull);
	lane->last = event->seq;
	lane->shown++;
	lane->records += script_records(event->seq);
}

static uint64_t shown_records(const struct lanes *lanes)
{
	uint64_t records = 0;

	for (uint32_t i = 0; i < SCRIPT_SLOTS; i++)
		records += lanes->lane[i][0].records + lanes->lane[i][1].records;
	return records;
}

static void read_events(struct reader *reader, struct lanes *lanes, struct reader_counts *counts)
{
	struct reader_events *events;
	struct reader_event event;

	memset(lanes, 0, sizeof(*lanes));
	assert_int_equal(reader_events(reader, &events), 0);
	while (reader_event_next(events, &event)) {
		/* in the order in which the thread recorded them, across both rings */
		assert_true(event.thread < SCRIPT_SLOTS && event.seq + 1ull > lanes->end[event.thread]);
		take(lanes, reader, &event);
	}
	reader_events_counts(events, counts);
	reader_events_free(events);
	assert_int_equal(counts->torn, 0);
	assert_int_equal(counts->missing, 0);
	assert_int_equal(counts->cleared, 0);
	assert_int_equal(counts->unknown, 0);
	assert_true(counts->orphans == 0 || counts->overwritten > 0);
	/* these include each record that was made */
	assert_int_equal(shown_records(lanes) + counts->orphans + counts->overwritten, counts->recorded);
	assert_int_equal(lanes->jumps, 0);
}

/* After the program's death, the number of records, and of those that the rings still hold, is known exactly. */
static void assert_none_missing(const struct lanes *lanes, const struct reader_counts *counts, const struct reader *reader)
{
	uint64_t recorded = 0, overwritten = 0;

	for (uint32_t i = 0; i < SCRIPT_SLOTS; i++) {
		struct reader_thread thread;
		uint64_t of_thread[TRACE_RINGS_PER_THREAD];

		if (!reader_thread(reader, i, &thread)) {
			assert_int_equal(lanes->end[i], 0);
			continue;
		}
		assert_true(strcmp(thread.name, "writer") == 0);
		assert_true(!thread.running[0] || strcmp(thread.running, "script_poll") == 0);
		for (int ring = 0; ring < TRACE_RINGS_PER_THREAD; ring++) {
			of_thread[ring] = script_recorded((enum trace_ring_kind)ring, lanes->end[i]);
			assert_int_equal(thread.recorded[ring], of_thread[ring]);
			recorded += of_thread[ring];
			/* four records may have been incomplete */
			if (of_thread[ring] > thread.entry_count[ring] - 4)
				overwritten += of_thread[ring] - (thread.entry_count[ring] - 4);
		}
	}
	assert_int_equal(counts->recorded, recorded);
	assert_int_equal(counts->overwritten, overwritten);
}

/* Is event `end`, the first that was not recorded, about this object? Then the program may have died while recording it. */
static bool is_next(uint16_t type, uint32_t id, uint64_t end)
{
	return script_state(type, id, end) != script_state(type, id, end + 1);
}

/* The live requests shown, and their states, must agree with the events. */
static void check_stories(const struct reader *reader, const struct lanes *lanes)
{
	bool shown[TRACE_OBJECT_COUNT][2 * SCRIPT_SLOTS * SCRIPT_OBJECTS] = { 0 };
	struct reader_walk walk = { 0 };
	struct reader_story story;

	while (reader_story_next(reader, &walk, &story)) {
		uint16_t type = story.object->id;
		uint32_t slot = script_slot_of(type, story.id);

		assert_true(slot < SCRIPT_SLOTS);
		shown[type][story.id] = true;
		seen.under_way++;
		if (!is_next(type, story.id, lanes->end[slot])) {
			assert_int_equal(story.state, script_state(type, story.id, lanes->end[slot]));
			assert_true(story.begin_tick <= story.entered_tick);
		}
	}
	assert_int_equal(walk.skipped, 0);
	for (uint16_t type = TRACE_OBJECT_ORDER; type < TRACE_OBJECT_COUNT; type++) {
		for (uint32_t id = 0; id < ARRAY_COUNT(shown[0]); id++) {
			uint32_t slot = script_slot_of(type, id);

			if (type != TRACE_OBJECT_THING && slot < SCRIPT_SLOTS && !is_next(type, id, lanes->end[slot]))
				assert_int_equal(shown[type][id], script_state(type, id, lanes->end[slot]) != 0);
		}
	}
}

/* Up to `missing` of the lives that ended may not be counted: the program was killed while it added them. */
static void check_count(uint64_t count, uint64_t ended, uint64_t missing)
{
	assert_true(count <= ended);
	assert_true(count + missing >= ended);
}

static void check_lives(const struct reader *reader, const struct lanes *lanes)
{
	static struct reader_lives lives;
	static const uint16_t types[] = { TRACE_OBJECT_ORDER, TRACE_OBJECT_JOB, TRACE_OBJECT_ERRAND };

	for (uint32_t i = 0; i < SCRIPT_SLOTS * ARRAY_COUNT(types); i++) {
		uint32_t slot = i / ARRAY_COUNT(types), point = 0;
		uint16_t type = types[i % ARRAY_COUNT(types)];
		uint64_t ended = script_ended(type, lanes->end[slot], false);

		while (!reader_point_at(reader, point)->object || reader_point_at(reader, point)->object->id != type)
			point++;
		if (!reader_lives(reader, reader_point_at(reader, point)->object, slot, &lives)) {
			assert_true(ended <= 1);
			continue;
		}
		check_count(lives.stages[0].count, ended, LIVES_MISSING_MAX);
		check_count(lives.failed, type == TRACE_OBJECT_ERRAND ? script_ended(type, lanes->end[slot], true) : 0, 1);
		if (type != TRACE_OBJECT_JOB)
			check_count(lives.stages[ORDER_RECEIVED].count, ended, LIVES_MISSING_MAX);
	}
}

static void check_exemplars(const struct reader *reader)
{
	struct reader_exemplar_walk walk = { 0 };
	struct reader_exemplar exemplar;

	while (reader_exemplar_next(reader, &walk, &exemplar)) {
		script_check_exemplar(reader, &exemplar);
		seen.exemplars++;
	}
	/* each thread may have been writing one */
	assert_true(walk.torn <= SCRIPT_SLOTS);
	seen.torn_exemplars += walk.torn;
}

/* Is there a complete file? */
static bool is_made(void)
{
	char magic[8] = "";
	int fd = open(path, O_RDONLY);
	bool made;

	if (fd < 0) {
		assert_int_equal(errno, ENOENT);
		return false;
	}
	made = read(fd, magic, sizeof(magic)) == sizeof(magic) && memcmp(magic, TRACE_MAGIC, sizeof(magic)) == 0;
	close(fd);
	return made;
}

static void check_dead(void)
{
	static struct lanes lanes;
	struct reader_counts counts;
	struct reader *reader;
	struct fathom_fault why = { 0 };
	bool made = is_made();
	int rc = reader_open(path, &reader, &why);

	if (!made) {
		assert_true(rc == -ENOENT || rc == -EBADMSG);
		seen.no_file += rc == -ENOENT;
		seen.half_made += rc != -ENOENT;
		if (unnamed_files)
			assert_int_equal(rc, -ENOENT); /* a file gets its name when it is complete */
		assert_true(why.text[0]);
		return;
	}
	if (rc)
		fail_msg("%s", why.text);
	if (reader_info(reader)->problem)
		fail_msg("%s", reader_info(reader)->problem);
	assert_int_equal(reader_info(reader)->liveness, READER_DEAD);
	assert_int_equal(reader_info(reader)->unregistered_records, 0);
	read_events(reader, &lanes, &counts);
	assert_none_missing(&lanes, &counts, reader);
	check_stories(reader, &lanes);
	check_lives(reader, &lanes);
	check_exemplars(reader);
	seen.no_events += counts.events == 0;
	seen.overwritten += counts.overwritten > 0;
	seen.events += counts.events;
	reader_close(reader);
}

/* Some kills while the file is made, others after that, some of these much later. */
static void wait_random_time(void)
{
	bool early = random_below(&chance, 4) == 0;

	for (int try = 0; !early && try < 10000 && !is_made(); try++)
		wait_us(250);
	wait_us(random_below(&chance, early ? 4000 : random_below(&chance, 16) == 0 ? 20000 : 2000));
}

static void a_killed_program_leaves_only_complete_events(void **state)
{
	const char *text = getenv("FATHOM_KILLS");
	uint64_t kills = text ? strtoull(text, NULL, 10) : KILLS;

	for (; seen.kills < kills; seen.kills++) {
		pid_t pid = start();

		wait_random_time();
		end(pid);
		check_dead();
		assert_true(unlink(path) == 0 || errno == ENOENT);
	}
	print_message(
		"# %llu killed: %llu had no file yet, %llu a half-made one, %llu no event, %llu had overwritten some; "
		"%llu events were right, and %llu exemplars, %llu more were torn; %llu requests under way\n",
		(unsigned long long)seen.kills, (unsigned long long)seen.no_file, (unsigned long long)seen.half_made,
		(unsigned long long)seen.no_events, (unsigned long long)seen.overwritten, (unsigned long long)seen.events,
		(unsigned long long)seen.exemplars, (unsigned long long)seen.torn_exemplars,
		(unsigned long long)seen.under_way);
	assert_true(seen.events > 0 && seen.exemplars > 0 && seen.under_way > 0);
}

/* ---- reading a live file ---- */

static void wait_for_events(void)
{
	for (int try = 0; try < 10000; try++) {
		struct reader *reader;
		struct reader_thread thread;
		struct fathom_fault why;
		bool begun = false;

		if (reader_open(path, &reader, &why) == 0) {
			begun = reader_thread(reader, 0, &thread) && thread.recorded[TRACE_RING_RARE] > 0;
			reader_close(reader);
		}
		if (begun)
			return;
		wait_us(300);
	}
	fail_msg("the program does not start");
}

static void events_read_from_a_live_file_are_correct(void **state)
{
	static struct lanes lanes;
	struct reader_counts counts;
	struct reader_exemplar_walk walk;
	struct reader_exemplar exemplar;
	uint64_t overwritten = 0;

	for (int i = 0; i < LIVE_READS; i++) {
		struct fathom_fault why = { 0 };
		struct reader *reader;
		pid_t pid = start();

		wait_for_events();
		for (int again = 0; again < 3; again++) {
			wait_us(random_below(&chance, 1000));
			if (reader_open(path, &reader, &why) != 0)
				fail_msg("%s", why.text);
			assert_int_equal(reader_info(reader)->liveness, READER_ALIVE);
			read_events(reader, &lanes, &counts);
			overwritten += counts.overwritten;
			walk = (struct reader_exemplar_walk){ 0 };
			while (reader_exemplar_next(reader, &walk, &exemplar))
				script_check_exemplar(reader, &exemplar);
			reader_close(reader);
		}
		end(pid);
		check_dead();
		assert_int_equal(unlink(path), 0);
	}
	assert_true(overwritten > 0);
}

static void a_follower_gets_each_event_not_counted_as_overwritten(void **state)
{
	static struct lanes lanes;
	struct reader_counts counts;
	uint64_t shown = 0;

	for (int i = 0; i < LIVE_READS / 3; i++) {
		struct fathom_fault why = { 0 };
		struct reader_events *events;
		struct reader_event event;
		struct reader *reader;
		pid_t pid = start();

		wait_for_events();
		if (reader_open(path, &reader, &why) != 0)
			fail_msg("%s", why.text);
		memset(&lanes, 0, sizeof(lanes));
		assert_int_equal(reader_events_follow(reader, &events), 0);
		for (int more = 0; more < 20; more++) {
			wait_us(random_below(&chance, 200));
			/* unpublished records come next time, so only the events of each ring are in order */
			reader_events_more(events, clock_ticks());
			while (reader_event_next(events, &event))
				take(&lanes, reader, &event);
		}
		end(pid);
		reader_events_more(events, UINT64_MAX);
		while (reader_event_next(events, &event))
			take(&lanes, reader, &event);
		reader_events_counts(events, &counts);
		assert_true(lanes.jumps <= counts.overwritten + counts.orphans);
		assert_int_equal(shown_records(&lanes) + counts.overwritten + counts.orphans, counts.recorded);
		shown += shown_records(&lanes);
		reader_events_free(events);
		reader_close(reader);
		assert_int_equal(unlink(path), 0);
	}
	assert_true(shown > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_killed_program_leaves_only_complete_events),
		cmocka_unit_test(events_read_from_a_live_file_are_correct),
		cmocka_unit_test(a_follower_gets_each_event_not_counted_as_overwritten),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
