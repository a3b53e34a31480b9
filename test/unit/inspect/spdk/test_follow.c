/* SPDX-License-Identifier: BSD-2-Clause */
/* Following a live target. This process is the target, so that each step is known. */
#include "rig.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inspect/trace/lives.h"
#include "inspect/trace/slowest.h"

enum { ENTRIES = 1024 };

struct target {
	char path[256];
	struct spdk_file file;
	void *map;
	struct reader *reader;
	struct reader_events *events;
};

static void start_target(struct target *target, uint32_t cores, uint32_t entries)
{
	size_t bytes = spdk_file_bytes(cores, entries, ANY_TPOINTS, 512);
	int fd;

	*target = (struct target){ 0 };
	snprintf(target->path, sizeof(target->path), "/dev/shm/spdkfollow_trace.pid%d", getpid());
	fd = open(target->path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	target->map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(target->map != MAP_FAILED);
	close(fd);
	spdk_file_init(&target->file, target->map, cores, entries, ANY_TPOINTS, 512);
	rig_points(&target->file);
}

static void follow(struct target *target)
{
	struct fathom_fault why;

	assert_int_equal(reader_open_to_follow(target->path, &target->reader, &why), 0);
	assert_int_equal(reader_info(target->reader)->liveness, READER_ALIVE);
	assert_true(reader_is_alive(target->reader));
	assert_int_equal(reader_events_follow(target->reader, &target->events), 0);
}

static void stop_target(struct target *target)
{
	reader_events_free(target->events);
	reader_close(target->reader);
	if (target->map)
		munmap(target->map, target->file.size);
	unlink(target->path);
}

/* The next event, which must exist. */
static struct reader_event next_event(struct target *target)
{
	struct reader_event event;

	assert_true(reader_event_next(target->events, &event));
	return event;
}

static bool has_no_event(struct target *target)
{
	struct reader_event event;

	return !reader_event_next(target->events, &event);
}

static void record_life(struct spdk_file *file, uint64_t tick, uint64_t object, uint64_t number)
{
	struct spdk_file_event start_target = { .tick = tick + 1, .tpoint = IO_START, .object = object + 1, .size = 8 };

	rig_record(file, 0, tick, REQ_NEW, object, number);
	start_target.values[0].number = 1;
	start_target.values[1].number = object;
	spdk_file_record(file, 0, &start_target);
	rig_record(file, 0, tick + 5, IO_DONE, object + 1, object);
	rig_record(file, 0, tick + 10, REQ_DONE, object, 0);
}

static void new_events_are_read(void **state)
{
	struct target target;
	struct reader_event event;

	start_target(&target, 1, ENTRIES);
	record_life(&target.file, 100, 0xa0, 1);
	follow(&target);
	assert_true(has_no_event(&target));
	reader_events_more(target.events, UINT64_MAX);
	assert_true(has_no_event(&target));
	for (uint64_t i = 1; i < 4; i++) {
		record_life(&target.file, i * 1000, 0xa0, i);
		reader_events_more(target.events, UINT64_MAX);
		event = next_event(&target);
		assert_int_equal(event.tick, i * 1000);
		assert_int_equal(event.object_id, i);
		assert_int_equal(rig_arg(&event, "n"), i);
		event = next_event(&target);
		assert_string_equal(event.point->name, "BDEV_IO_START");
		assert_int_equal(event.object_id, i);
		assert_string_equal(event.related->prefix, "r");
		assert_int_equal(event.related_id, i);
		assert_int_equal(rig_arg(&event, "size"), 8);
		event = next_event(&target);
		assert_int_equal(event.total_ticks, 4);
		event = next_event(&target);
		assert_int_equal(event.total_ticks, 10);
		assert_true(has_no_event(&target));
	}
	stop_target(&target);
}

/* Without events the reader cannot know which points have sizes and which points end lives. */
static void a_target_without_events_can_be_followed(void **state)
{
	struct target target;
	struct reader_lives lives;
	struct reader_event event;

	start_target(&target, 2, ENTRIES);
	/* the name of this point shows that it ends a life */
	spdk_file_tpoint(&target.file, REQ_DONE, "TCP_REQ_COMPLETED", REQUEST, false, NULL);
	follow(&target);
	assert_int_equal(reader_lives_from_events(target.reader), 0);
	record_life(&target.file, 100, 0xa0, 1);
	reader_events_more(target.events, UINT64_MAX);
	for (int i = 0; i < 4; i++) {
		event = next_event(&target);
		reader_lives_event(target.reader, &event);
		if (i == 1)
			assert_int_equal(rig_arg(&event, "size"), 8);
	}
	assert_true(has_no_event(&target));
	assert_true(reader_lives(target.reader, reader_point_by_name(target.reader, "TCP_REQ_NEW")->object,
				 READER_ALL_THREADS, &lives));
	assert_int_equal(lives.stages[0].count, 1);
	assert_int_equal(lives.stages[0].ticks, 10);
	assert_int_equal(reader_lives_waiting(target.reader, UINT64_MAX), 0);
	rig_record(&target.file, 1, 200, REQ_NEW, 0xb0, 1);
	reader_events_more(target.events, UINT64_MAX);
	event = next_event(&target);
	reader_lives_event(target.reader, &event);
	assert_int_equal(event.thread, 1);
	assert_int_equal(reader_lives_waiting(target.reader, 200), 0);
	assert_int_equal(reader_lives_waiting(target.reader, 201), 1);
	stop_target(&target);
}

/* A request that began before the reader opened the file is in the rings. */
static void requests_begun_before_following_are_known(void **state)
{
	struct target target;
	struct reader_event event;

	start_target(&target, 1, ENTRIES);
	/* two equal lives show which point ends a life */
	record_life(&target.file, 100, 0xa0, 1);
	record_life(&target.file, 150, 0xa0, 1);
	rig_record(&target.file, 0, 200, REQ_NEW, 0xb0, 2);
	rig_record(&target.file, 0, 210, REQ_RUN, 0xb0, 0);
	follow(&target);
	assert_int_equal(reader_lives_from_rings(target.reader), 0);
	assert_int_equal(reader_lives_waiting(target.reader, 210), 0);
	assert_int_equal(reader_lives_waiting(target.reader, 211), 1);
	rig_record(&target.file, 0, 300, REQ_DONE, 0xb0, 0);
	reader_events_more(target.events, UINT64_MAX);
	event = next_event(&target);
	reader_lives_event(target.reader, &event);
	assert_true(event.total_partial);
	assert_int_equal(reader_lives_waiting(target.reader, UINT64_MAX), 0);
	stop_target(&target);
}

/* More events than fit the rings of target and reader, in portions of varying size. */
static void no_event_is_lost_while_the_rings_wrap(void **state)
{
	struct target target;
	uint64_t number = 0, events_read = 0;

	start_target(&target, 1, ENTRIES);
	follow(&target);
	for (uint32_t round = 0; round < 400; round++) {
		struct reader_event event;
		struct reader_counts counts;

		for (uint32_t i = 0; i < 97 + round % 101; i++) {
			struct spdk_file_event wide;

			number++;
			wide = rig_event(number, number % 3 ? PLAIN : WIDE, number, number);
			for (int value = 0; number % 3 == 0 && value < 8; value++)
				wide.values[value].number = number;
			spdk_file_record(&target.file, 0, &wide);
		}
		reader_events_more(target.events, UINT64_MAX);
		while (reader_event_next(target.events, &event)) {
			assert_int_equal(event.tick, ++events_read);
			if (events_read % 3 == 0)
				assert_int_equal(rig_arg(&event, "h"), events_read);
			else
				assert_int_equal(rig_arg(&event, "n"), events_read);
		}
		assert_int_equal(events_read, number);
		reader_events_counts(target.events, &counts);
		assert_int_equal(counts.overwritten + counts.orphans + counts.torn, 0);
		assert_int_equal(counts.events, number);
	}
	stop_target(&target);
}

static void overwritten_events_are_counted(void **state)
{
	struct target target;
	struct reader_counts counts;
	uint64_t events_read = 0, first = 0;
	struct reader_event event;

	start_target(&target, 1, ENTRIES);
	follow(&target);
	for (uint64_t number = 1; number <= 5000; number++)
		rig_record(&target.file, 0, number, PLAIN, 0, number);
	reader_events_more(target.events, UINT64_MAX);
	while (reader_event_next(target.events, &event)) {
		first = first ? first : event.tick;
		assert_int_equal(event.tick, first + events_read++);
	}
	assert_int_equal(first + events_read - 1, 5000);
	reader_events_counts(target.events, &counts);
	assert_int_equal(counts.recorded, 5000);
	assert_int_equal(counts.overwritten, 5000 - events_read);
	assert_true(events_read > ENTRIES - 16);
	assert_int_equal(reader_point_total(target.reader, reader_point_by_name(target.reader, "PLAIN")), 5000);
	stop_target(&target);
}

/* One thread has more events than the reader reads at a time: later events of the other thread must not come first. */
static void events_stay_in_order_when_one_thread_is_behind(void **state)
{
	enum { MANY = 150000 };
	struct target target;
	uint64_t last = 0, events_read = 0, before;
	struct reader_event event;

	start_target(&target, 2, 1 << 18);
	follow(&target);
	for (uint64_t number = 1; number <= MANY; number++) {
		rig_record(&target.file, 0, number * 10, PLAIN, 0, number);
		if (number % 1000 == 0)
			rig_record(&target.file, 1, number * 10 + 5, PLAIN, 0, number);
	}
	do {
		before = events_read;
		reader_events_more(target.events, UINT64_MAX);
		while (reader_event_next(target.events, &event)) {
			assert_true(event.tick > last);
			last = event.tick;
			events_read++;
		}
	} while (events_read != before);
	assert_int_equal(events_read, MANY + MANY / 1000);
	stop_target(&target);
}

static void new_owners_and_texts_are_known(void **state)
{
	struct target target;
	struct reader_owner owner;
	struct reader_event event;
	size_t bytes;

	start_target(&target, 1, ENTRIES);
	spdk_file_owner(&target.file, 7, 50, OWNER_QPAIR, "the first");
	follow(&target);
	for (int i = 0; i < 3; i++) {
		struct spdk_file_event texts = { .tick = 100 + 100 * (uint64_t)i, .tpoint = TEXTS, .owner = 7 };
		char text[20];

		snprintf(text, sizeof(text), "text %d", i);
		texts.values[0].text = text;
		texts.values[2].text = "the same";
		texts.values[3].text = "";
		if (i == 2)
			spdk_file_owner(&target.file, 7, 250, OWNER_QPAIR, "the next");
		spdk_file_record(&target.file, 0, &texts);
		reader_events_more(target.events, UINT64_MAX);
		event = next_event(&target);
		assert_string_equal(reader_string(target.reader, (uint32_t)rig_arg(&event, "first"), &bytes), text);
		assert_string_equal(reader_string(target.reader, (uint32_t)rig_arg(&event, "second_of_all"), &bytes),
				    "the same");
		assert_true(reader_owner(target.reader, 7, event.tick, &owner));
		assert_string_equal(owner.text, i < 2 ? "the first" : "the next");
	}
	stop_target(&target);
}

/* A text that no longer fits the reader's memory is shown as "?", not as another text. */
static void the_memory_for_texts_of_a_target_is_limited(void **state)
{
	struct target target;
	struct reader_event event;
	bool unknown = false;
	size_t bytes;

	start_target(&target, 1, ENTRIES);
	follow(&target);
	for (uint64_t i = 1; i < 10000; i++) {
		struct spdk_file_event texts = { .tick = i, .tpoint = TEXTS };
		char text[256];
		const char *events_read;

		snprintf(text, sizeof(text), "%0200d", (int)i);
		texts.values[0].text = texts.values[3].text = "";
		texts.values[2].text = text;
		spdk_file_record(&target.file, 0, &texts);
		reader_events_more(target.events, UINT64_MAX);
		event = next_event(&target);
		events_read = reader_string(target.reader, (uint32_t)rig_arg(&event, "second_of_all"), &bytes);
		unknown |= strcmp(events_read, "?") == 0;
		assert_true(unknown ? strcmp(events_read, "?") == 0 : strcmp(events_read, text) == 0);
	}
	assert_true(unknown);
	stop_target(&target);
}

static void the_last_events_of_a_killed_target_are_read(void **state)
{
	struct target target;
	struct fathom_fault why;
	int ready[2], status;
	char byte;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		start_target(&target, 1, ENTRIES);
		if (write(ready[1], "", 1) != 1)
			_exit(1);
		/* wait until the reader follows, then record events */
		while (access("/dev/shm/spdkfollow_go", F_OK) != 0)
			usleep(1000);
		record_life(&target.file, 100, 0xa0, 1);
		kill(getpid(), SIGKILL);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	target = (struct target){ 0 };
	snprintf(target.path, sizeof(target.path), "/dev/shm/spdkfollow_trace.pid%d", pid);
	follow(&target);
	close(open("/dev/shm/spdkfollow_go", O_CREAT | O_WRONLY, 0600));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	unlink("/dev/shm/spdkfollow_go");
	assert_false(reader_is_alive(target.reader));
	reader_events_more(target.events, UINT64_MAX);
	for (int i = 0; i < 4; i++)
		(void)next_event(&target);
	assert_true(has_no_event(&target));
	reader_events_free(target.events);
	reader_close(target.reader);
	/* now nothing can be followed, only the file is left */
	assert_int_equal(reader_open_to_follow(target.path, &target.reader, &why), 0);
	assert_int_equal(reader_info(target.reader)->liveness, READER_DEAD);
	assert_false(reader_is_alive(target.reader));
	reader_close(target.reader);
	unlink(target.path);
}

/* ---- lives in the rings ---- */

static void lives_in_the_rings_replace_histograms(void **state)
{
	struct spdk_file file;
	struct reader *reader;
	struct reader_lives lives;
	char path[256];

	rig_file(&file, 1, ENTRIES);
	for (uint64_t i = 0; i < 20; i++)
		record_life(&file, 1000 * (i + 1), 0xa0, i);
	reader = rig_open(&file, path);
	assert_false(reader_has_lives(reader));
	assert_int_equal(reader_lives_from_rings(reader), 0);
	assert_true(reader_has_lives(reader));
	assert_true(reader_lives(reader, reader_point_by_name(reader, "TCP_REQ_NEW")->object, READER_ALL_THREADS, &lives));
	assert_int_equal(lives.stages[0].count, 20);
	assert_int_equal(lives.stages[0].ticks, 200);
	assert_int_equal(lives.stages[0].ticks_max, 10);
	assert_true(reader_lives(reader, reader_point_by_name(reader, "BDEV_IO_DONE")->object, READER_ALL_THREADS, &lives));
	assert_int_equal(lives.stages[0].ticks, 80);
	assert_false(reader_lives(reader, reader_point_by_name(reader, "PLAIN")->object, READER_ALL_THREADS, &lives));
	reader_close(reader);
	spdk_file_free(&file);
}

static void a_slow_life_is_shown_with_its_arguments(void **state)
{
	const struct reader_slowest_want want = { .count_max = 10 };
	struct spdk_file file;
	struct reader *reader;
	struct reader_slowest *slowest;
	const struct reader_exemplar *exemplar;
	struct reader_event *events;
	uint32_t count;
	char path[256];

	rig_file(&file, 1, ENTRIES);
	for (uint64_t i = 0; i < 5; i++)
		record_life(&file, 1000 * (i + 1), 0xa0, 70 + i);
	reader = rig_open(&file, path);
	events = rig_events(reader, &count, NULL);
	assert_int_equal(reader_slowest_create(reader, &want, &slowest), 0);
	for (uint32_t i = 0; i < count; i++)
		reader_slowest_event(slowest, &events[i]);
	reader_slowest_finish(slowest);
	assert_int_equal(reader_slowest_count(slowest), 5);
	exemplar = reader_slowest_at(slowest, 0);
	assert_int_equal(exemplar->story_count, 2);
	assert_true(exemplar->args_known[0]);
	assert_true(exemplar->args_known[1]);
	for (uint32_t i = 0; i < exemplar->stories[0].object->story_arg_count; i++) {
		const struct reader_arg *arg = &exemplar->stories[0].object->story_args[i];

		if (strcmp(arg->name, "n") == 0)
			assert_int_equal(reader_arg_value(arg, exemplar->stories[0].args), 70);
	}
	reader_slowest_destroy(slowest);
	free(events);
	reader_close(reader);
	spdk_file_free(&file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(new_events_are_read),
		cmocka_unit_test(a_target_without_events_can_be_followed),
		cmocka_unit_test(requests_begun_before_following_are_known),
		cmocka_unit_test(no_event_is_lost_while_the_rings_wrap),
		cmocka_unit_test(overwritten_events_are_counted),
		cmocka_unit_test(events_stay_in_order_when_one_thread_is_behind),
		cmocka_unit_test(new_owners_and_texts_are_known),
		cmocka_unit_test(the_memory_for_texts_of_a_target_is_limited),
		cmocka_unit_test(the_last_events_of_a_killed_target_are_read),
		cmocka_unit_test(lives_in_the_rings_replace_histograms),
		cmocka_unit_test(a_slow_life_is_shown_with_its_arguments),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
