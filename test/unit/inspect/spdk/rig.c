/* SPDX-License-Identifier: BSD-2-Clause */
#include <fcntl.h>
#include <unistd.h>

#include "rig.h"

static const struct spdk_file_arg start_args[] = {
	{ "type", 0, 8 }, { "ctx", 1, 8 }, { "offset", 0, 8 }, { "qd", 0, 4 }, { NULL, 0, 0 }
};
static const struct spdk_file_arg done_args[] = { { "ctx", 1, 8 }, { "qd", 0, 4 }, { NULL, 0, 0 } };
static const struct spdk_file_arg number_args[] = { { "n", 0, 8 }, { NULL, 0, 0 } };
static const struct spdk_file_arg wide_args[] = {
	{ "thirteen_char", 0, 8 },
	{ "b", 1, 8 },
	{ "c", 0, 4 },
	{ "d", 1, 4 },
	{ "e", 0, 8 },
	{ "f", 0, 8 },
	{ "g", 0, 8 },
	{ "h", 0, 8 },
	{ NULL, 0, 0 },
};
static const struct spdk_file_arg text_args[] = { { "first", 2, 20 }, { "n", 0, 4 }, { "second_of_all", 2, 255 },
						  { "", 2, 1 },	      { "n", 0, 8 }, { NULL, 0, 0 } };

void rig_points(struct spdk_file *file)
{
	spdk_file_tpoint(file, IO_START, "BDEV_IO_START", IO, true, start_args);
	spdk_file_tpoint(file, IO_DONE, "BDEV_IO_DONE", IO, false, done_args);
	spdk_file_relation(file, IO_START, 176, 1);
	spdk_file_relation(file, IO_START, REQUEST, 1);
	spdk_file_relation(file, IO_DONE, REQUEST, 0);
	spdk_file_tpoint(file, REQ_NEW, "TCP_REQ_NEW", REQUEST, true, number_args);
	spdk_file_tpoint(file, REQ_RUN, "TCP_REQ_RUN", REQUEST, false, NULL);
	spdk_file_tpoint(file, REQ_DONE, "TCP_REQ_OVER", REQUEST, false, NULL);
	spdk_file_tpoint(file, PLAIN, "PLAIN", 0, false, number_args);
	spdk_file_tpoint(file, WIDE, "WIDE", REQUEST, true, wide_args);
	spdk_file_tpoint(file, TEXTS, "TEXTS", 0, false, text_args);
	spdk_file_object_type(file, REQUEST, 'r');
	spdk_file_object_type(file, IO, 'i');
	spdk_file_owner_type(file, OWNER_QPAIR, 't');
}

void rig_file(struct spdk_file *file, uint32_t cores, uint32_t entries)
{
	spdk_file_init(file, NULL, cores, entries, ANY_TPOINTS, 512);
	rig_points(file);
}

struct spdk_file_event rig_event(uint64_t tick, uint16_t tpoint, uint64_t object, uint64_t number)
{
	return (struct spdk_file_event){
		.tick = tick, .tpoint = tpoint, .object = object, .values = { { .number = number } }
	};
}

void rig_record(struct spdk_file *file, uint32_t core, uint64_t tick, uint16_t tpoint, uint64_t object, uint64_t number)
{
	struct spdk_file_event event = rig_event(tick, tpoint, object, number);

	spdk_file_record(file, core, &event);
}

struct reader *rig_open_bytes(const struct spdk_file *file, size_t bytes, char *path)
{
	struct reader *reader;
	struct fathom_fault why;
	int fd;

	memcpy(path, "/tmp/fathom-spdk-XXXXXX", sizeof("/tmp/fathom-spdk-XXXXXX"));
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, file->bytes, bytes), bytes);
	close(fd);
	if (reader_open(path, &reader, &why) != 0) {
		print_message("# %s\n", why.text);
		reader = NULL;
	}
	unlink(path);
	return reader;
}

struct reader *rig_open(const struct spdk_file *file, char *path)
{
	struct reader *reader = rig_open_bytes(file, file->size, path);

	assert_non_null(reader);
	return reader;
}

struct reader_event *rig_events(struct reader *reader, uint32_t *count_ret, struct reader_counts *counts_ret)
{
	struct reader_event *all = NULL;
	struct reader_events *events;
	uint32_t count = 0, room = 0;

	assert_int_equal(reader_events(reader, &events), 0);
	do {
		if (count == room) {
			room = room ? room * 2 : 64;
			all = realloc(all, room * sizeof(*all));
			assert_non_null(all);
		}
	} while (reader_event_next(events, &all[count]) && ++count);
	if (counts_ret)
		reader_events_counts(events, counts_ret);
	reader_events_free(events);
	*count_ret = count;
	return all;
}

char *rig_text(struct reader *reader, enum reader_print_style style)
{
	struct reader_printer *printer;
	struct reader_event *all;
	uint32_t count;
	char *text = NULL;
	size_t bytes;
	FILE *file = open_memstream(&text, &bytes);

	assert_int_equal(reader_printer_create(reader, file, style, false, &printer), 0);
	all = rig_events(reader, &count, NULL);
	for (uint32_t i = 0; i < count; i++)
		reader_print_event(printer, &all[i]);
	assert_int_equal(reader_printer_destroy(printer), 0);
	fclose(file);
	free(all);
	return text;
}

uint64_t rig_arg(const struct reader_event *event, const char *name)
{
	assert_non_null(event->point);
	for (uint32_t i = 0; i < event->point->arg_count; i++) {
		if (strcmp(event->point->args[i].name, name) == 0)
			return reader_arg_value(&event->point->args[i], event->slots);
	}
	fail_msg("%s has no argument %s", event->point->name, name);
	return 0;
}

static void read_stories(struct reader *reader, struct reader_printer *printer)
{
	struct reader_walk walk = { 0 };
	struct reader_story story;
	uint64_t now = reader_now(reader);

	while (reader_story_next(reader, &walk, &story))
		reader_print_story(printer, &story, now, story.parent, story.parent_id);
	for (uint32_t i = 0; i < reader_info(reader)->thread_count; i++) {
		struct reader_thread thread;

		if (reader_thread(reader, i, &thread))
			reader_print_thread(printer, &thread, now);
	}
}

int rig_read_all(const char *path, struct reader_counts *counts_ret)
{
	struct reader_printer *printer;
	struct reader_stages *stages;
	struct reader_events *events;
	struct reader_event event;
	struct reader *reader;
	struct fathom_fault why;
	FILE *null;
	int rc = reader_open(path, &reader, &why);

	if (rc)
		return rc;
	null = fopen("/dev/null", "w");
	assert_int_equal(reader_printer_create(reader, null, READER_PRINT_JSON, false, &printer), 0);
	assert_int_equal(reader_stages_create(reader, &stages), 0);
	assert_int_equal(reader_events(reader, &events), 0);
	while (reader_event_next(events, &event)) {
		reader_print_event(printer, &event);
		reader_stages_event(stages, &event);
	}
	reader_events_counts(events, counts_ret);
	reader_print_header(printer, counts_ret);
	reader_print_end(printer, counts_ret);
	reader_print_stages(printer, stages);
	read_stories(reader, printer);
	reader_stages_free(stages);
	reader_events_free(events);
	assert_int_equal(reader_printer_destroy(printer), 0);
	fclose(null);
	reader_close(reader);
	return 0;
}
