/* SPDX-License-Identifier: BSD-2-Clause */
/* learn - the names of events in a file, and what it says about queues and devices. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "inspect/replay/internal.h"
#include "inspect/trace/lives.h"

/* ---- names ---- */

static const struct reader_arg *find_arg(const struct reader_arg *args, uint32_t count, const char *name)
{
	for (uint32_t i = 0; i < count; i++) {
		if (strcmp(args[i].name, name) == 0)
			return &args[i];
	}
	return NULL;
}

static const struct reader_arg *point_arg(const struct reader_point *point, const char *name)
{
	return point ? find_arg(point->args, point->arg_count, name) : NULL;
}

/* The number of a state; UINT64_MAX: there is none. */
static uint64_t find_state(const struct reader_machine *machine, const char *name)
{
	for (uint32_t i = 0; machine && i < machine->state_count; i++) {
		if (strcmp(machine->states[i].name, name) == 0)
			return i;
	}
	return UINT64_MAX;
}

static uint64_t find_label(const struct reader_enum *labels, const char *text)
{
	for (uint32_t i = 0; labels && i < labels->label_count; i++) {
		if (strcmp(labels->labels[i].text, text) == 0)
			return (uint64_t)labels->labels[i].value;
	}
	return UINT64_MAX;
}

static void learn_kinds(struct event_names *names)
{
	static const char *const types[REPLAY_KINDS] = {
		[REPLAY_READ] = "READ",	  [REPLAY_WRITE] = "WRITE",	    [REPLAY_FLUSH] = "FLUSH",
		[REPLAY_UNMAP] = "UNMAP", [REPLAY_ZEROES] = "WRITE_ZEROES", [REPLAY_COMPARE] = "COMPARE",
	};

	memset(names->kinds, -1, sizeof(names->kinds));
	for (int kind = 0; kind < REPLAY_KINDS; kind++) {
		uint64_t type = find_label(names->type->labels, types[kind]);

		if (type < REPLAY_TYPES_MAX)
			names->kinds[type] = (int8_t)kind;
	}
}

static void learn_places(const struct reader *reader, struct event_names *names)
{
	static const struct {
		const char *name;
		bool at_device;
	} points[PLACE_POINTS] = { { "bdev_io_dispatch", true },
				   { "bdev_io_range", false },
				   { "bdev_io_split", true },
				   { "bdev_io_hold", false } };

	for (unsigned int i = 0; i < PLACE_POINTS; i++) {
		const struct reader_point *point = reader_point_by_name(reader, points[i].name);
		const struct reader_arg *block_index = point_arg(point, "block_index");

		if (block_index)
			names->places[i] = (struct place_names){ point, block_index, point_arg(point, "block_count"),
								 points[i].at_device };
	}
}

/* The points of an SPDK target. False: it is not one, or lacks them. */
static bool learn_spdk_names(const struct reader *reader, struct event_names *names)
{
	/* spdk/bdev.h, enum spdk_bdev_io_type */
	static const int8_t kinds[REPLAY_TYPES_MAX] = {
		[0] = -1,  [1] = REPLAY_READ, [2] = REPLAY_WRITE, [3] = REPLAY_UNMAP, [4] = REPLAY_FLUSH,
		[5] = -1,  [6] = -1,	      [7] = -1,		  [8] = -1,	      [9] = REPLAY_ZEROES,
		[10] = -1, [11] = -1,	      [12] = -1,	  [13] = -1,	      [14] = REPLAY_COMPARE,
		[15] = -1,
	};
	const struct reader_point *start = reader_point_by_name(reader, "BDEV_IO_START");

	names->spdk_new = reader_point_by_name(reader, "TCP_REQ_NEW");
	names->submit = start;
	names->done = reader_point_by_name(reader, "BDEV_IO_DONE");
	names->type = point_arg(start, "type");
	names->request = point_arg(start, "within");
	names->places[0] = (struct place_names){ start, point_arg(start, "offset"), point_arg(start, "size"), true };
	memcpy(names->kinds, kinds, sizeof(kinds));
	if (!names->spdk_new || !names->done || !names->type || !names->request || !names->places[0].block_index ||
	    !names->places[0].block_count)
		return false;
	names->req = names->spdk_new->object;
	return names->req != NULL;
}

static bool learn_own_names(const struct reader *reader, struct event_names *names)
{
	names->req_state = reader_point_by_name(reader, "nvmf_req_state");
	names->submit = reader_point_by_name(reader, "bdev_io_submit");
	names->done = reader_point_by_name(reader, "bdev_io_done");
	names->registered = reader_point_by_name(reader, "bdev_register");
	names->to = point_arg(names->req_state, "to");
	names->length = point_arg(names->req_state, "length");
	names->type = point_arg(names->submit, "type");
	names->device = point_arg(names->submit, "device");
	names->request = point_arg(names->submit, "request");
	names->status = point_arg(names->done, "status");
	names->registered_device = point_arg(names->registered, "device");
	names->registered_block_bytes = point_arg(names->registered, "block_bytes");
	if (!names->registered_device || !names->registered_block_bytes)
		names->registered = NULL;
	learn_places(reader, names);
	if (!names->to || !names->length || !names->type || !names->device || !names->request || !names->status ||
	    !names->places[0].point)
		return false;
	names->req = names->req_state->object;
	names->received = find_state(names->req_state->machine, "RECEIVED");
	names->parked = find_state(names->req_state->machine, "PARKED");
	names->wait_event = find_state(names->req_state->machine, "WAIT_EVENT");
	names->success = find_label(names->status->labels, "SUCCESS");
	learn_kinds(names);
	return names->req != NULL;
}

int replay_learn_names(struct reader *reader, struct event_names *names_ret, struct fathom_fault *why)
{
	bool spdk = reader_info(reader)->spdk;

	memset(names_ret, 0, sizeof(*names_ret));
	if (spdk ? learn_spdk_names(reader, names_ret) : learn_own_names(reader, names_ret))
		return 0;
	if (spdk)
		return fault(
			why, -ENODATA,
			"the file lacks events of hosts' commands: the target must record the groups nvmf_tcp and bdev");
	return fault(why, -ENODATA,
		     "the file does not contain what hosts asked for: it is not the trace of a "
		     "fathom-engine, or of one that is too old");
}

/* ---- queues ---- */

/*
 * The text of a connection is "ADDRESS:PORT SUBSYSTEM qid:N HOST", where a long host is cut; before Connect it ends behind
 * the port. The host is HOST, or ADDRESS. Returns the qid; 0: not known.
 */
static uint32_t parse_connection(const char *text, char host[REPLAY_NAME_BYTES])
{
	const char *qid = strstr(text, " qid:"), *last = qid ? strchr(qid + 1, ' ') : NULL;
	uint64_t number = 0;
	char *end, digits[8];

	if (last && last[1]) {
		text_copy_words(host, REPLAY_NAME_BYTES, last + 1);
	} else {
		text_copy_words(host, REPLAY_NAME_BYTES, text[0] ? text : "unknown");
		host[strcspn(host, " ")] = '\0';
		end = strrchr(host, ':');
		if (end)
			*end = '\0';
	}
	if (!qid)
		return 0;
	(void)text_copy(digits, sizeof(digits), qid + strlen(" qid:")); /* longer: not a number, as below */
	digits[strcspn(digits, " ")] = '\0';
	return text_parse_u64(digits, 10, UINT16_MAX, &number) == 0 ? (uint32_t)number : 0;
}

/* False: too many hosts. */
static bool find_host(struct replay_collector *collector, const char *name, uint32_t *host_ret)
{
	for (uint32_t i = 0; i < collector->host_count; i++) {
		if (strcmp(collector->hosts[i].name, name) == 0) {
			*host_ret = i;
			return true;
		}
	}
	if (collector->host_count == REPLAY_QUEUES_MAX)
		return false;
	memcpy(collector->hosts[collector->host_count].name, name, REPLAY_NAME_BYTES);
	*host_ret = collector->host_count++;
	return true;
}

bool replay_find_queue(struct replay_collector *collector, uint16_t owner, uint64_t tick, uint16_t *queue_ret)
{
	struct reader_owner row = { .to_tick = UINT64_MAX };
	uint16_t latest = collector->queue_by_owner[owner];
	struct queue_row *queue = latest ? &collector->queues[latest - 1] : NULL;
	char host[REPLAY_NAME_BYTES];

	if (queue && tick >= queue->from_tick && tick <= queue->to_tick) {
		*queue_ret = latest - 1;
		return true;
	}
	(void)reader_owner(collector->reader, owner, tick, &row); /* false: no owner, as row says */
	if (row.text[0] == '\0')
		row.from_tick = 0; /* a former owner of this id: all that is known of it is that its time is over */
	if (queue && queue->from_tick == row.from_tick) {
		queue->to_tick = max_u64(queue->to_tick, row.to_tick);
		*queue_ret = latest - 1;
		return true;
	}
	if (collector->queue_count == REPLAY_QUEUES_MAX)
		return false;
	queue = &collector->queues[collector->queue_count];
	*queue = (struct queue_row){ .owner = owner, .from_tick = row.from_tick, .to_tick = row.to_tick };
	queue->qid = parse_connection(row.text, host);
	if (!find_host(collector, host, &queue->host))
		return false;
	*queue_ret = (uint16_t)collector->queue_count++;
	collector->queue_by_owner[owner] = *queue_ret + 1;
	return true;
}

/* ---- devices ---- */

/* NULL: the table is full. */
static struct known_device *know_device(struct replay_collector *collector, uint32_t string)
{
	struct known_device *row;

	for (uint32_t i = 0; i < collector->known_count; i++) {
		if (collector->known[i].string == string)
			return &collector->known[i];
	}
	if (collector->known_count == REPLAY_DEVICES_MAX)
		return NULL;
	row = &collector->known[collector->known_count++];
	row->string = string;
	return row;
}

bool replay_find_device(struct replay_collector *collector, uint32_t string, uint64_t tick, uint16_t *device_ret)
{
	struct known_device *known;

	for (uint32_t i = 0; i < collector->device_count; i++) {
		if (collector->devices[i].known->string == string) {
			*device_ret = (uint16_t)i;
			return true;
		}
	}
	known = know_device(collector, string);
	if (!known || collector->device_count == REPLAY_DEVICES_MAX)
		return false;
	known->tick = tick;
	collector->devices[collector->device_count].known = known;
	*device_ret = (uint16_t)collector->device_count++;
	return true;
}

static bool is_block_size(uint64_t bytes)
{
	return bytes >= REPLAY_BLOCK_BYTES_MIN && bytes <= REPLAY_BLOCK_BYTES_MAX && is_power_of_two(bytes);
}

void replay_learn_block_bytes(struct known_device *device, uint64_t bytes, uint64_t blocks)
{
	if (device->block_bytes == 0 && blocks > 0 && bytes % blocks == 0 && is_block_size(bytes / blocks))
		device->block_bytes = (uint32_t)(bytes / blocks);
}

void replay_note_register(struct replay_collector *collector, const struct reader_event *event)
{
	const struct event_names *names = collector->names;
	uint64_t block_bytes = reader_arg_value(names->registered_block_bytes, event->slots);
	struct known_device *device = know_device(collector,
						  (uint32_t)reader_arg_value(names->registered_device, event->slots));

	if (device && is_block_size(block_bytes))
		device->block_bytes = (uint32_t)block_bytes;
}

static uint64_t story_value(const struct reader_story *story, const char *name)
{
	const struct reader_arg *arg = find_arg(story->object->story_args, story->object->story_arg_count, name);

	return arg ? reader_arg_value(arg, story->args) : 0;
}

/* The device of the I/O of a kept life, by its records. NULL: not known. */
static struct known_device *find_exemplar_device(struct replay_collector *collector, const struct reader_exemplar *life)
{
	struct reader_event event;

	for (uint32_t i = 0; i < life->record_count; i++) {
		if (reader_exemplar_event(collector->reader, life, i, &event) && event.point == collector->names->submit &&
		    event.object_id == life->stories[1].id)
			return know_device(collector, (uint32_t)reader_arg_value(collector->names->device, event.slots));
	}
	return NULL;
}

static void learn_device(struct replay_collector *collector, const struct reader_exemplar *life)
{
	const struct reader_story *request = &life->stories[0], *io = &life->stories[1];
	struct known_device *device = find_exemplar_device(collector, life);
	uint64_t nsid = story_value(request, "nsid"), type = story_value(io, "type");

	if (!device)
		return;
	if (nsid > 0 && nsid < UINT32_MAX)
		device->nsid = (uint32_t)nsid;
	if (type < REPLAY_TYPES_MAX && replay_kind_has_data((unsigned int)collector->names->kinds[type]))
		replay_learn_block_bytes(device, story_value(request, "length"), story_value(io, "block_count"));
}

/* Learn namespaces and block sizes from the lives that the file keeps. */
static void learn_devices(struct replay_collector *collector)
{
	const struct event_names *names = collector->names;
	struct reader_exemplar_walk walk = { 0 };
	struct reader_exemplar life;

	while (names->req_state && reader_exemplar_next(collector->reader, &walk, &life)) {
		if (life.story_count == 2 && life.args_known[0] && life.args_known[1] &&
		    life.stories[0].object == names->req_state->object && life.stories[1].object == names->submit->object)
			learn_device(collector, &life);
	}
}

/* ---- the collector as a whole ---- */

void replay_use_file(struct replay_collector *collector, uint32_t index)
{
	struct collector_file *file = &collector->files[index];

	collector->file_index = index;
	collector->reader = file->reader;
	collector->events = file->events;
	collector->filter = file->filter;
	collector->names = &file->names;
	learn_devices(collector);
}

static int compare_files(const void *left, const void *right)
{
	const struct collector_file *a = left, *b = right;
	uint64_t one = reader_latest_record(a->reader), other = reader_latest_record(b->reader);

	return one < other ? -1 : one > other;
}

/* Are both of one run of one program? */
static bool is_same_process(const struct reader_info *one, const struct reader_info *other)
{
	return one->pid == other->pid && one->start_tick == other->start_tick && one->tick_rate == other->tick_rate &&
	       one->spdk == other->spdk && strcmp(one->build_id, other->build_id) == 0;
}

/* The times of all files, for times that count from the start or from the end. */
static void find_span(const struct replay_collector *collector, struct reader_filter_spec *spec)
{
	struct reader *first = collector->files[0].reader, *last = collector->files[collector->file_count - 1].reader;
	uint64_t start_ns, end_ns;

	if (collector->file_count > 1 && reader_wall_ns(first, reader_info(first)->start_tick, &start_ns) == 0 &&
	    reader_wall_ns(last, reader_now(last), &end_ns) == 0) {
		spec->start_ns = start_ns;
		spec->end_ns = end_ns;
	}
}

static int open_file(struct collector_file *file, const struct reader_filter_spec *spec, struct fathom_fault *why)
{
	int rc = replay_learn_names(file->reader, &file->names, why);

	if (rc == 0 && (spec->owner || spec->since || spec->until))
		rc = reader_filter_create(file->reader, spec, &file->filter, why);
	if (rc)
		return rc;
	rc = reader_events(file->reader, &file->events);
	return rc ? fault(why, rc, "out of memory") : 0;
}

static int open_files(struct replay_collector *collector, const struct reader_filter_spec *spec, struct fathom_fault *why)
{
	struct reader_filter_spec wanted = { .owner = spec->owner, .since = spec->since, .until = spec->until };
	const struct reader_info *first = reader_info(collector->files[0].reader);
	int rc = 0;

	for (uint32_t i = 1; i < collector->file_count; i++) {
		const struct reader_info *info = reader_info(collector->files[i].reader);

		if (info->spdk || !is_same_process(first, info))
			return fault(why, -EINVAL, "%s and %s are not files of one recording", first->path, info->path);
	}
	qsort(collector->files, collector->file_count, sizeof(collector->files[0]), compare_files);
	find_span(collector, &wanted);
	for (uint32_t i = 0; i < collector->file_count && rc == 0; i++)
		rc = open_file(&collector->files[i], &wanted, why);
	return rc;
}

int replay_collector_create(struct reader *const *readers, uint32_t reader_count, const struct reader_filter_spec *spec,
			    struct replay_collector **collector_ret, struct fathom_fault *why)
{
	struct replay_collector *collector = calloc(1, sizeof(*collector));
	int rc = collector ? 0 : fault(why, -ENOMEM, "out of memory");

	must(reader_count >= 1 && reader_count <= REPLAY_FILES_MAX);
	if (rc)
		return rc;
	collector->file_count = reader_count;
	for (uint32_t i = 0; i < reader_count; i++)
		collector->files[i].reader = readers[i];
	rc = open_files(collector, spec, why);
	if (rc) {
		replay_collector_destroy(collector);
		return rc;
	}
	replay_use_file(collector, 0);
	*collector_ret = collector;
	return 0;
}

void replay_collector_destroy(struct replay_collector *collector)
{
	if (!collector)
		return;
	for (uint32_t i = 0; i < collector->file_count; i++) {
		reader_events_free(collector->files[i].events);
		reader_filter_destroy(collector->files[i].filter);
	}
	free(collector);
}

static void copy_device_name(const struct replay_collector *collector, const struct known_device *device,
			     char name[REPLAY_NAME_BYTES])
{
	char copy[REPLAY_NAME_BYTES];
	struct reader_owner owner;
	const char *text;
	size_t bytes;

	if (collector->names->spdk_new) {
		if (reader_owner(collector->reader, (uint16_t)device->string, device->tick, &owner))
			text_copy_words(name, REPLAY_NAME_BYTES, owner.text);
		return;
	}
	text = reader_string(collector->reader, device->string, &bytes);
	bytes = min_u64(bytes, sizeof(copy) - 1);
	memcpy(copy, text, bytes);
	copy[bytes] = '\0';
	text_copy_words(name, REPLAY_NAME_BYTES, copy);
}

static void fill_tables(const struct replay_collector *collector, bool names, struct replay_summary *summary)
{
	for (uint32_t i = 0; i < collector->queue_count; i++) {
		const struct queue_row *row = &collector->queues[i];

		summary->queues[i] = (struct replay_queue){ .host_number = row->host + 1,
							    .qid = row->qid,
							    .depth = (uint32_t)max_u64(min_u64(row->depth, UINT16_MAX), 1),
							    .operations = row->operations };
		if (names)
			memcpy(summary->queues[i].host, collector->hosts[row->host].name, REPLAY_NAME_BYTES);
	}
	for (uint32_t i = 0; i < collector->device_count; i++) {
		const struct device_row *row = &collector->devices[i];

		summary->devices[i] = (struct replay_device){
			.nsid = row->known->nsid,
			.block_bytes = row->known->block_bytes,
			.blocks_used = row->blocks_used,
			.operations = row->operations,
		};
		if (names)
			copy_device_name(collector, row->known, summary->devices[i].name);
	}
}

int replay_collector_summary(const struct replay_collector *collector, bool names, struct replay_summary *summary_ret)
{
	struct replay_summary summary = {
		.operations = collector->operations,
		.span_ns = collector->span_ns,
		.left_out = collector->left_out,
		.queue_count = collector->queue_count,
		.device_count = collector->device_count,
	};

	for (uint32_t i = 0; i < collector->file_count; i++) {
		struct reader_counts counts;

		reader_events_counts(collector->files[i].events, &counts);
		summary.records_missing += counts.missing + counts.torn;
	}
	memcpy(summary.kinds, collector->kinds, sizeof(summary.kinds));
	if (names)
		text_copy_words(summary.source, sizeof(summary.source), reader_info(collector->reader)->name);
	summary.queues = calloc(summary.queue_count + 1, sizeof(*summary.queues));
	summary.devices = calloc(summary.device_count + 1, sizeof(*summary.devices));
	if (!summary.queues || !summary.devices) {
		replay_summary_deinit(&summary);
		return -ENOMEM;
	}
	fill_tables(collector, names, &summary);
	*summary_ret = summary;
	return 0;
}
