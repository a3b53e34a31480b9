/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Files that are live, copied while live, left with an incomplete event, truncated or changed. Shown events must be those
 * recorded; others must be counted.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"
#include "rig.h"

static char path[256];

/* ---- rings that are newer than their head ---- */

static void entries_beyond_the_head_of_a_copy_are_left_out(void **state)
{
	/* the head was copied first, then the writer continued by `ahead` entries */
	for (uint64_t ahead = 0; ahead < 40; ahead++) {
		struct spdk_file file;
		struct reader *reader;
		struct reader_event *events;
		struct reader_counts counts;
		uint32_t count;

		/* exactly up to the end of the ring: like a file without a newer entry, so all entries are valid */
		if ((1000 + ahead) % 256 == 0)
			continue;
		rig_file(&file, 1, 256);
		for (uint64_t i = 0; i < 1000 + ahead; i++)
			rig_record(&file, 0, 100 + i * 10, PLAIN, 0, i);
		*spdk_file_next(&file, 0) = 1000;
		reader = rig_open(&file, path);
		events = rig_events(reader, &count, &counts);
		/* and up to 20 more entries, which may belong to an event that is half old and half new */
		assert_true(count <= 256 - ahead);
		assert_true(count + 20 >= 256 - ahead);
		assert_int_equal(counts.torn, 256 - count);
		assert_int_equal(counts.overwritten, 1000 - 256);
		for (uint32_t i = 0; i < count; i++) {
			assert_int_equal(rig_arg(&events[i], "n"), 1000 - count + i);
			assert_int_equal(events[i].tick, 100 + (1000 - count + i) * 10);
		}
		free(events);
		reader_close(reader);
		spdk_file_free(&file);
	}
}

static void an_incomplete_event_is_left_out(void **state)
{
	for (uint32_t written = 0; written <= 4; written++) {
		struct spdk_file_event event = rig_event(900000, WIDE, 0xa0, 1);
		struct spdk_file file;
		struct reader *reader;
		struct reader_event *events;
		uint32_t count;

		rig_file(&file, 1, 64);
		for (uint64_t i = 0; i < 300; i++)
			rig_record(&file, 0, 100 + i * 10, PLAIN, 0, i);
		spdk_file_write(&file, 0, &event, written);
		reader = rig_open(&file, path);
		events = rig_events(reader, &count, NULL);
		assert_true(count <= 64 - written);
		assert_true(written || count == 64);
		for (uint32_t i = 0; i < count; i++)
			assert_int_equal(rig_arg(&events[i], "n"), 300 - count + i);
		free(events);
		reader_close(reader);
		spdk_file_free(&file);
	}
}

static void an_event_with_an_entry_of_another_is_left_out(void **state)
{
	struct spdk_file_event event = rig_event(100, WIDE, 0xa0, 1);
	struct spdk_file file;
	struct reader *reader;
	struct reader_event *events;
	struct reader_counts counts;
	uint64_t tick = 99;
	uint32_t count;

	rig_file(&file, 1, 64);
	for (event.tick = 100; event.tick < 103; event.tick++)
		spdk_file_record(&file, 0, &event);
	memcpy(spdk_file_entry(&file, 0, 4 + 2), &tick, sizeof(tick));
	reader = rig_open(&file, path);
	events = rig_events(reader, &count, &counts);
	assert_int_equal(count, 2);
	assert_int_equal(events[1].tick, 102);
	assert_int_equal(counts.orphans, 4);
	free(events);
	reader_close(reader);
	spdk_file_free(&file);
}

/* SPDK's recorder writes entries from the oldest on, and the `next` of the newest. */
static void a_file_of_spdks_recorder_is_read_from_its_first_entry(void **state)
{
	static const uint32_t sizes[] = { 64, 100 };

	for (size_t size = 0; size < ARRAY_COUNT(sizes); size++) {
		struct spdk_file file;
		struct reader *reader;
		struct reader_event *events;
		struct reader_counts counts;
		uint32_t count;

		rig_file(&file, 1, sizes[size]);
		for (uint64_t i = 0; i < sizes[size] / 4; i++) {
			struct spdk_file_event event = rig_event(5000 + i, WIDE, 0xa0, i);

			assert_int_equal(spdk_file_record(&file, 0, &event), 4);
		}
		*spdk_file_next(&file, 0) = 5001;
		reader = rig_open(&file, path);
		events = rig_events(reader, &count, &counts);
		assert_int_equal(count, sizes[size] / 4);
		for (uint32_t i = 0; i < count; i++)
			assert_int_equal(rig_arg(&events[i], "thirteen_char"), i);
		assert_int_equal(counts.overwritten, 5001 - sizes[size]);
		assert_int_equal(counts.torn, 0);
		free(events);
		reader_close(reader);
		spdk_file_free(&file);
	}
}

/* ---- a live target ---- */

struct target {
	pid_t pid;
	char name[64], path[256];
	struct spdk_file file;
};

/* All arguments of an event follow from the first. */
static void flood(struct spdk_file *file)
{
	for (uint64_t i = 1;; i++) {
		struct spdk_file_event event = rig_event(i * 2, i % 3 ? PLAIN : WIDE, i, i);

		for (int value = 0; i % 3 == 0 && value < 8; value++)
			event.values[value].number = i;
		event.size = (uint32_t)i;
		spdk_file_record(file, 0, &event);
	}
}

/* Start a process that writes the file /dev/shm/<name>_trace.<ending> ("": pid and its id). Return when it has started. */
static void target_start(struct target *target, const char *ending)
{
	int ready[2];
	char byte;

	snprintf(target->name, sizeof(target->name), "spdktest%d", getpid());
	assert_int_equal(pipe(ready), 0);
	target->pid = fork();
	assert_true(target->pid >= 0);
	if (target->pid == 0) {
		size_t bytes = spdk_file_bytes(1, 1024, ANY_TPOINTS, 512);
		void *map;
		int fd;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		snprintf(target->path, sizeof(target->path), *ending ? "/dev/shm/%s_trace.%s" : "/dev/shm/%s_trace.pid%s%d",
			 target->name, ending, getpid());
		fd = open(target->path, O_RDWR | O_CREAT | O_TRUNC, 0600);
		if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
			_exit(1);
		map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		spdk_file_init(&target->file, map, 1, 1024, ANY_TPOINTS, 512);
		rig_points(&target->file);
		if (write(ready[1], "", 1) != 1)
			_exit(1);
		flood(&target->file);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	snprintf(target->path, sizeof(target->path), *ending ? "/dev/shm/%s_trace.%s" : "/dev/shm/%s_trace.pid%s%d",
		 target->name, ending, target->pid);
}

static void target_kill(struct target *target)
{
	kill(target->pid, SIGKILL);
	waitpid(target->pid, NULL, 0);
}

/* Assert that the event is the one that flood() records with its tick. Return its number of entries. */
static uint64_t check_flooded(const struct reader_event *event)
{
	uint64_t number = event->tick / 2;

	assert_int_equal(rig_arg(event, "size"), (uint32_t)number);
	assert_int_equal(strcmp(event->point->name, "WIDE") == 0, number % 3 == 0);
	if (number % 3 != 0) {
		assert_int_equal(rig_arg(event, "n"), number);
		return 1;
	}
	assert_int_equal(rig_arg(event, "thirteen_char"), number);
	assert_int_equal(rig_arg(event, "c"), (uint32_t)number);
	assert_int_equal(rig_arg(event, "h"), number);
	assert_int_equal(rig_arg(event, "address"), number);
	return 4;
}

static uint64_t check_flood(const struct target *target, enum reader_liveness liveness)
{
	struct reader *reader;
	struct reader_event *events;
	struct reader_counts counts;
	struct fathom_fault why;
	uint32_t count;
	uint64_t records = 0;

	assert_int_equal(reader_open(target->path, &reader, &why), 0);
	assert_int_equal(reader_info(reader)->liveness, liveness);
	assert_string_equal(reader_info(reader)->name, target->name);
	events = rig_events(reader, &count, &counts);
	for (uint32_t i = 0; i < count; i++) {
		uint64_t number = events[i].tick / 2;

		if (i)
			assert_int_equal(number, events[i - 1].tick / 2 + 1);
		records += check_flooded(&events[i]);
	}
	assert_int_equal(counts.recorded, counts.overwritten + counts.torn + counts.orphans + records);
	free(events);
	reader_close(reader);
	return count;
}

static void no_torn_event_of_a_live_target_is_shown(void **state)
{
	struct target target;
	uint64_t seen = 0;

	target_start(&target, "");
	for (int i = 0; i < 300; i++)
		seen += check_flood(&target, READER_ALIVE);
	target_kill(&target);
	assert_true(seen > 300);
	assert_true(check_flood(&target, READER_DEAD) > 1024 / 4);
	unlink(target.path);
}

static void no_torn_event_of_a_followed_target_is_shown(void **state)
{
	struct target target;
	struct reader *reader;
	struct reader_events *events;
	struct reader_event event;
	struct reader_counts counts;
	struct fathom_fault why;
	uint64_t told = 0, entries = 0, last = 0, before;
	bool killed = false;

	target_start(&target, "");
	assert_int_equal(reader_open_to_follow(target.path, &reader, &why), 0);
	assert_int_equal(reader_events_follow(reader, &events), 0);
	do {
		before = told;
		if (told > 2000 && !killed) {
			target_kill(&target);
			killed = true;
		}
		reader_events_more(events, UINT64_MAX);
		while (reader_event_next(events, &event)) {
			assert_true(event.tick > last);
			last = event.tick;
			entries += check_flooded(&event);
			told++;
		}
	} while (!killed || told != before);
	reader_events_counts(events, &counts);
	assert_int_equal(counts.events, told);
	assert_int_equal(counts.recorded, counts.overwritten + counts.orphans + entries);
	reader_events_free(events);
	reader_close(reader);
	unlink(target.path);
}

static void files_are_found_by_name_and_process(void **state)
{
	static const char *const endings[] = { "", "7" };

	for (size_t i = 0; i < ARRAY_COUNT(endings); i++) {
		struct target target;
		struct fathom_fault why;
		struct reader *reader;

		target_start(&target, endings[i]);
		assert_int_equal(reader_find_newest(NULL, target.name, 0, path, sizeof(path), &why), 0);
		assert_string_equal(path, target.path);
		assert_int_equal(reader_find_newest(NULL, NULL, target.pid, path, sizeof(path), &why), 0);
		assert_string_equal(path, target.path);
		assert_int_equal(reader_find_newest(NULL, target.name, target.pid + 1, path, sizeof(path), &why), -ENOENT);
		assert_int_equal(reader_open(target.path, &reader, &why), 0);
		assert_int_equal(reader_info(reader)->pid, target.pid);
		assert_int_equal(reader_info(reader)->liveness, READER_ALIVE);
		reader_close(reader);
		target_kill(&target);
		assert_int_equal(reader_find_newest(NULL, target.name, 0, path, sizeof(path), &why), 0);
		assert_string_equal(path, target.path);
		unlink(target.path);
	}
}

static void a_file_of_another_user_is_refused_with_a_reason(void **state)
{
	struct target target;
	int status;
	pid_t pid;

	if (getuid() != 0)
		skip();
	target_start(&target, "");
	pid = fork();
	if (pid == 0) {
		struct reader *reader;
		struct fathom_fault why;

		if (setuid(65534) != 0)
			_exit(1);
		if (reader_open(target.path, &reader, &why) != -EACCES || !strstr(why.text, "user 0"))
			_exit(2);
		_exit(reader_find_newest(NULL, target.name, 0, path, sizeof(path), &why) == -EACCES ? 0 : 3);
	}
	waitpid(pid, &status, 0);
	target_kill(&target);
	unlink(target.path);
	assert_int_equal(status, 0);
}

/* ---- damage ---- */

static struct spdk_file whole;
static int opened, refused;

/*
 * One file for all damaged contents. Its name has the pid of a process that ended. Without a pid each open reads the
 * maps of every process to find the writer, so the time of this test grows with the number of processes on the machine.
 */
static struct {
	char folder[64], path[128];
	int fd;
} damaged;

static void damaged_create(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	snprintf(damaged.folder, sizeof(damaged.folder), "/tmp/fathom-spdk-XXXXXX");
	assert_non_null(mkdtemp(damaged.folder));
	snprintf(damaged.path, sizeof(damaged.path), "%s/damaged_trace.pid%d", damaged.folder, pid);
	damaged.fd = memfd_create("damaged", MFD_CLOEXEC);
	assert_true(damaged.fd >= 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", damaged.fd);
	assert_int_equal(symlink(path, damaged.path), 0);
}

static void damaged_destroy(void)
{
	unlink(damaged.path);
	rmdir(damaged.folder);
	close(damaged.fd);
}

static int make_undamaged(void **state)
{
	/* few points and owners, so that each byte can be tried */
	static const struct spdk_file_arg args[] = { { "text", 2, 40 }, { "ctx", 1, 8 }, { NULL, 0, 0 } };

	spdk_file_init(&whole, NULL, 2, 32, 4, 4);
	spdk_file_tpoint(&whole, 1, "REQ_NEW", REQUEST, true, args);
	spdk_file_tpoint(&whole, 2, "REQ_DONE", REQUEST, false, NULL);
	spdk_file_tpoint(&whole, 3, "IO_START", IO, true, args);
	spdk_file_relation(&whole, 3, REQUEST, 1);
	spdk_file_object_type(&whole, REQUEST, 'r');
	spdk_file_owner_type(&whole, OWNER_QPAIR, 't');
	spdk_file_owner(&whole, 2, 50, OWNER_QPAIR, "owner");
	for (uint64_t i = 0; i < 40; i++) {
		struct spdk_file_event event = {
			.tick = 100 + i * 10,
			.tpoint = (uint16_t)(1 + i % 3),
			.owner = (uint16_t)(i % 5),
			.object = 0xa0 + i % 7,
			.values = { { 0, "a text of some length" }, { 0xa0 + i % 5, NULL } },
		};

		spdk_file_record(&whole, i % 2, &event);
	}
	damaged_create();
	return 0;
}

static int free_undamaged(void **state)
{
	damaged_destroy();
	spdk_file_free(&whole);
	return 0;
}

static void read_bytes(const uint8_t *bytes, size_t size)
{
	struct reader_counts counts;

	assert_int_equal(ftruncate(damaged.fd, 0), 0);
	assert_int_equal(pwrite(damaged.fd, bytes, size, 0), size);
	if (rig_read_all(damaged.path, &counts) == 0)
		opened++;
	else
		refused++;
}

static void flip(uint64_t offset, uint8_t bits)
{
	whole.bytes[offset] ^= bits;
	read_bytes(whole.bytes, whole.size);
	whole.bytes[offset] ^= bits;
}

static void a_file_with_any_changed_byte_of_its_head_is_read_or_refused(void **state)
{
	uint64_t parts[][2] = {
		{ 0, 72 },
		{ whole.sections[0], 16 },
		{ whole.sections[1], 8 },
		{ whole.sections[2], 4 },
		{ whole.sections[3], 4 },
		{ whole.sections[4], 4 },
		{ whole.sections[5], 4 },
		{ whole.sections[5] + 128, 4 * 190 },
		{ whole.sections[6], 4 },
		{ whole.sections[6] + 128, 16 },
		{ whole.rings, 48 },
	};

	for (size_t part = 0; part < ARRAY_COUNT(parts); part++) {
		for (uint64_t i = 0; i < parts[part][1]; i++) {
			flip(parts[part][0] + i, 0xff);
			flip(parts[part][0] + i, (uint8_t)(1u << i % 8));
		}
	}
	print_message("# opened %d, refused %d\n", opened, refused);
	assert_true(opened > 100);
	assert_true(refused > 100);
}

static void invalid_numbers_do_not_cause_endless_reads(void **state)
{
	static const uint64_t values[] = { 0,	      1, 7, 8, 63, UINT16_MAX, UINT32_MAX, BIT(40), BIT(63), UINT64_MAX - 7,
					   UINT64_MAX };
	const uint64_t places[] = {
		0,
		16,
		24,
		32,
		40,
		48,
		56,
		64,
		whole.sections[0],
		whole.sections[0] + 8,
		whole.sections[6] + 128,
		/* a ring's entries, counts, next */
		whole.rings + 24,
		whole.rings + 32,
		whole.rings + 40,
	};

	for (size_t place = 0; place < ARRAY_COUNT(places); place++) {
		for (size_t i = 0; i < ARRAY_COUNT(values); i++) {
			uint64_t was;

			memcpy(&was, whole.bytes + places[place], sizeof(was));
			memcpy(whole.bytes + places[place], &values[i], sizeof(was));
			read_bytes(whole.bytes, whole.size);
			memcpy(whole.bytes + places[place], &was, sizeof(was));
		}
	}
}

static void a_file_with_changed_bytes_of_rings_is_read(void **state)
{
	struct random random;

	random_init(&random, 1);
	for (int i = 0; i < 3000; i++)
		flip(whole.rings + random_below(&random, whole.size - whole.rings),
		     (uint8_t)(1 + random_below(&random, 255)));
}

static void a_truncated_file_is_read_or_refused(void **state)
{
	struct reader *reader;
	struct reader_counts counts;
	struct reader_event *events;
	uint64_t ring = (uint64_t)(spdk_file_ring(&whole, 1) - whole.bytes);
	uint32_t count, all;

	for (size_t size = 1; size < whole.size; size += size < whole.rings ? 37 : 5)
		read_bytes(whole.bytes, size);
	reader = rig_open(&whole, path);
	events = rig_events(reader, &all, NULL);
	free(events);
	reader_close(reader);
	/* without the second ring, with the whole first ring */
	reader = rig_open_bytes(&whole, ring, path);
	assert_non_null(reader);
	assert_true(reader_info(reader)->truncated);
	assert_non_null(strstr(reader_info(reader)->problem, "truncated"));
	events = rig_events(reader, &count, &counts);
	assert_true(count > 0);
	assert_true(count < all);
	free(events);
	reader_close(reader);
	/* with half of the first ring */
	reader = rig_open_bytes(&whole, ring + 48 + 4 * 8 + 16 * 32, path);
	events = rig_events(reader, &all, &counts);
	assert_true(all > count);
	assert_true(counts.missing > 0);
	free(events);
	reader_close(reader);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(entries_beyond_the_head_of_a_copy_are_left_out),
		cmocka_unit_test(an_incomplete_event_is_left_out),
		cmocka_unit_test(an_event_with_an_entry_of_another_is_left_out),
		cmocka_unit_test(a_file_of_spdks_recorder_is_read_from_its_first_entry),
		cmocka_unit_test(no_torn_event_of_a_live_target_is_shown),
		cmocka_unit_test(no_torn_event_of_a_followed_target_is_shown),
		cmocka_unit_test(files_are_found_by_name_and_process),
		cmocka_unit_test(a_file_of_another_user_is_refused_with_a_reason),
		cmocka_unit_test(a_file_with_any_changed_byte_of_its_head_is_read_or_refused),
		cmocka_unit_test(invalid_numbers_do_not_cause_endless_reads),
		cmocka_unit_test(a_file_with_changed_bytes_of_rings_is_read),
		cmocka_unit_test(a_truncated_file_is_read_or_refused),
	};

	return cmocka_run_group_tests(tests, make_undamaged, free_undamaged);
}
