/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * collect - finds the slow requests of a file, and what the file knows about their time.
 *
 * Two passes over the events. The first collects whole lives, slow runs of reactors and round trips; the second, for the
 * slow requests that are only in the rings, the records about their waits.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/text.h"
#include "inspect/blame/blame.h"
#include "inspect/blame/evidence.h"
#include "inspect/trace/filter.h"
#include "inspect/trace/slowest.h"

enum { OWNER_CACHE = 4096, SLOW_PER_100000 = 99000 };

/* The text of an owner, for a range of ticks. */
struct owner_text {
	uint64_t from, to; /* to 0: empty */
	char text[BLAME_NAME_BYTES];
};

struct blame {
	struct reader *reader;
	const struct reader_object *object; /* requests of hosts */
	struct reader_slowest *slowest;
	struct reader_filter *filter;
	const char *volume; /* borrowed for the call */
	uint32_t nsid;	    /* the query names a namespace; 0: it does not */
	struct evidence evidence;
	struct evidence_point waited, h2c_data;
	struct blame_coverage coverage;
	struct blame_request *requests;
	struct blame_life *lives; /* of the requests */
	uint32_t *by_id;	  /* indices of `requests`, by id and begin */
	uint32_t request_count;
	uint64_t first_event[READER_THREADS_MAX]; /* of a request, in the I/O ring; 0: none */
	struct owner_text *owners;
};

/* ---- which requests ---- */

static const char *owner_text(struct blame *blame, uint16_t owner, uint64_t tick)
{
	struct owner_text *cached = &blame->owners[owner % OWNER_CACHE];
	struct reader_owner row;

	if (owner == 0)
		return "";
	if (cached->to != 0 && tick >= cached->from && tick <= cached->to)
		return cached->text;
	if (!reader_owner(blame->reader, owner, tick, &row))
		return "";
	*cached = (struct owner_text){ .from = row.from_tick, .to = row.to_tick };
	(void)text_copy(cached->text, sizeof(cached->text), row.text); /* a longer text is cut */
	return cached->text;
}

/* Is the owner with this text another queue than an admin queue? */
static bool is_io_queue(const char *text)
{
	const char *qid = strstr(text, "qid:");

	return qid && strncmp(qid, "qid:0", 5) != 0;
}

static void note_device(struct blame *blame, const char *device)
{
	struct blame_coverage *coverage = &blame->coverage;

	for (uint32_t i = 0; i < coverage->device_count; i++) {
		if (strcmp(coverage->devices[i], device) == 0)
			return;
	}
	if (coverage->device_count < BLAME_DEVICES_MAX)
		(void)text_copy(coverage->devices[coverage->device_count++], BLAME_NAME_BYTES, device);
}

static const char *device_of(struct blame *blame, const struct reader_exemplar *exemplar)
{
	if (exemplar->story_count < 2)
		return "";
	return owner_text(blame, exemplar->stories[1].owner, exemplar->stories[1].begin_tick);
}

/* Owners of SPDK's target are named "bdev_NAME". */
static bool is_volume(const struct blame *blame, const char *device)
{
	static const char prefix[] = "bdev_";

	if (strcmp(device, blame->volume) == 0)
		return true;
	return reader_info(blame->reader)->spdk && strncmp(device, prefix, strlen(prefix)) == 0 &&
	       strcmp(device + strlen(prefix), blame->volume) == 0;
}

static bool is_of_query(const void *ctx, const struct reader_exemplar *exemplar)
{
	struct blame *blame = (struct blame *)(uintptr_t)ctx;
	const struct reader_story *story = &exemplar->stories[0];
	const char *device;

	if (story->object != blame->object ||
	    (exemplar->story_count < 2 && !is_io_queue(owner_text(blame, story->owner, story->begin_tick))))
		return false;
	device = device_of(blame, exemplar);
	if (device[0])
		note_device(blame, device);
	if (blame->volume && blame->nsid == 0 && !is_volume(blame, device))
		return false;
	return reader_filter_life(blame->filter, exemplar);
}

/* The type of requests of hosts; SPDK's has a name of its own and the same prefix. NULL: the file has none. */
static const struct reader_object *find_request_type(const struct reader *reader)
{
	for (uint32_t i = 0; i < reader_info(reader)->point_count; i++) {
		const struct reader_object *object = reader_point_at(reader, i)->object;

		if (object && object->machine && strcmp(object->prefix, "r") == 0)
			return object;
	}
	return NULL;
}

static uint64_t story_arg(const struct reader_exemplar *exemplar, const char *name, bool *known_ret)
{
	const struct reader_story *story = &exemplar->stories[0];

	for (uint32_t i = 0; exemplar->args_known[0] && i < story->object->story_arg_count; i++) {
		if (strcmp(story->object->story_args[i].name, name) == 0) {
			*known_ret = true;
			return reader_arg_value(&story->object->story_args[i], story->args);
		}
	}
	*known_ret = false;
	return 0;
}

/* ---- the first pass ---- */

static void take_event(struct blame *blame, const struct reader_event *event)
{
	reader_slowest_event(blame->slowest, event);
	evidence_event(&blame->evidence, event);
	if (event->ring == TRACE_RING_IO && event->point && event->point->object == blame->object &&
	    event->thread < READER_THREADS_MAX && blame->first_event[event->thread] == 0)
		blame->first_event[event->thread] = event->tick;
}

static int read_lives(struct blame *blame, struct fathom_fault *why)
{
	const struct reader_slowest_want want = {
		.count_max = SLOWEST_MAX, .each = true, .accepts = is_of_query, .ctx = blame
	};
	struct reader_events *events;
	struct reader_event event;

	if (reader_slowest_create(blame->reader, &want, &blame->slowest) != 0 || reader_events(blame->reader, &events) != 0)
		return fault(why, -ENOMEM, "out of memory");
	while (reader_event_next(events, &event))
		take_event(blame, &event);
	reader_events_free(events);
	reader_slowest_finish(blame->slowest);
	evidence_finish(&blame->evidence);
	return 0;
}

static uint64_t count_longer(const struct reader_dwell_sums *sums, uint64_t ticks)
{
	uint32_t low = 0, high = 100000;

	if (sums->count == 0 || reader_dwell_percentile(sums, high) < (double)ticks)
		return 0;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (reader_dwell_percentile(sums, middle) < (double)ticks)
			low = middle + 1;
		else
			high = middle;
	}
	return sums->count * (100000 - low) / 100000;
}

static uint64_t ticks_of_ns(const struct reader *reader, uint64_t ns)
{
	return (uint64_t)((unsigned __int128)ns * reader_info(reader)->tick_rate / NS_PER_SEC);
}

/* The limit from which a request is slow, and how many requests the program counted beyond it. */
static int choose_limit(struct blame *blame, const struct blame_query *query, struct fathom_fault *why)
{
	static struct reader_lives lives;
	bool counts = reader_has_lives(blame->reader);

	if (!counts && reader_lives_from_rings(blame->reader) != 0)
		return fault(why, -ENOMEM, "out of memory");
	blame->coverage.slow_ticks = ticks_of_ns(blame->reader, query->slow_ns);
	if (!reader_lives(blame->reader, blame->object, READER_ALL_THREADS, &lives))
		return 0;
	if (query->slow_ns == 0)
		blame->coverage.slow_ticks = (uint64_t)reader_dwell_percentile(&lives.stages[0], SLOW_PER_100000);
	if (counts && !query->volume && !query->host && !query->since && !query->until)
		blame->coverage.counted = count_longer(&lives.stages[0], blame->coverage.slow_ticks);
	return 0;
}

/* ---- the requests ---- */

static void add_piece(struct blame_life *life, uint64_t from, uint64_t to, enum blame_stage stage, const char *name)
{
	if (to > from && life->piece_count < BLAME_PIECES_MAX)
		life->pieces[life->piece_count++] = (struct blame_piece){ from, to, stage, name };
}

static const char *state_name(const struct reader_object *object, uint8_t state)
{
	return state < object->machine->state_count ? object->machine->states[state].name : "";
}

/* A stage in which the target runs the command: the stages of its I/O, and our own work around them. */
static void add_execution(struct blame_life *life, const struct reader_exemplar *exemplar, uint64_t from, uint64_t to)
{
	const struct reader_stays *io = &exemplar->stays[1];
	uint64_t at = from;

	if (exemplar->story_count < 2) {
		add_piece(life, from, to, BLAME_UNCLEAR, "EXECUTING");
		return;
	}
	for (uint32_t i = 0; i < io->count; i++) {
		const char *name;
		uint64_t begin = max_u64(io->begins[i], at), end = min_u64(io->begins[i] + io->ticks[i], to);

		if (end <= begin)
			continue;
		add_piece(life, at, begin, BLAME_WORK, "EXECUTING");
		name = state_name(exemplar->stories[1].object, io->states[i]);
		add_piece(life, begin, end, blame_stage_of(name, true), name);
		at = end;
	}
	add_piece(life, at, to, BLAME_WORK, "EXECUTING");
}

static void add_wait(struct blame *blame, struct blame_life *life, uint64_t tick, const uint32_t *slots)
{
	/* a kept request may have a record that the ring still has, too */
	if (life->wait_count == BLAME_WAITS_MAX ||
	    (life->wait_count > 0 && life->waits[life->wait_count - 1].tick == (tick & ~TICK_SHARED)))
		return;
	life->waits[life->wait_count++] = (struct blame_wait){
		.tick = tick & ~TICK_SHARED,
		.closed_us = (uint32_t)evidence_value(&blame->waited, 0, slots),
		.unacked_us = (uint32_t)evidence_value(&blame->waited, 1, slots),
		.lost = (uint32_t)evidence_value(&blame->waited, 2, slots),
	};
}

static void add_record(struct blame *blame, struct blame_life *life, uint16_t point, uint64_t tick, const uint32_t *slots)
{
	tick &= ~TICK_SHARED;
	if (blame->waited.point && point == blame->waited.point->id)
		add_wait(blame, life, tick, slots);
	else if (blame->h2c_data.point && point == blame->h2c_data.point->id && life->data_tick == 0)
		life->data_tick = tick;
}

/* Does the I/O ring of its thread still have all records of the request? */
static bool is_in_ring(const struct blame *blame, const struct reader_exemplar *exemplar)
{
	uint64_t first = exemplar->thread < READER_THREADS_MAX ? blame->first_event[exemplar->thread] : 0;

	return first != 0 && first <= exemplar->stories[0].begin_tick;
}

static void fill_life(struct blame *blame, const struct reader_exemplar *exemplar, struct blame_life *life)
{
	const struct reader_stays *stays = &exemplar->stays[0];
	const struct reader_object *object = exemplar->stories[0].object;

	*life = (struct blame_life){
		.waits_recorded = blame->waited.point && (!exemplar->records_cut || is_in_ring(blame, exemplar)),
		.ticks_per_sec = reader_info(blame->reader)->tick_rate,
		.rtt_us = evidence_rtt_us(&blame->evidence, exemplar->stories[0].owner, exemplar->end_ticks[0]),
	};
	for (uint32_t i = 0; i < stays->count; i++) {
		const char *name = state_name(object, stays->states[i]);
		uint64_t from = stays->begins[i], to = from + stays->ticks[i];

		if (strcmp(name, "EXECUTING") == 0)
			add_execution(life, exemplar, from, to);
		else
			add_piece(life, from, to, blame_stage_of(name, false), name);
	}
	for (uint32_t i = 0; i < exemplar->record_count; i++) {
		const struct trace_record *record = &exemplar->records[i];

		if (record->object == exemplar->stories[0].id)
			add_record(blame, life, record->point, record->tick, record->args);
	}
	life->hold_count = evidence_holds(&blame->evidence, exemplar->thread, exemplar->stories[0].begin_tick,
					  exemplar->end_ticks[0], &life->holds);
}

/*
 * "127.0.0.1:40410 nqn...:subsystem qid:1 nqn...:host": the last word, which may be cut. SPDK's texts end with the queue:
 * the first word, the address.
 */
static void copy_host(char *host, const char *text)
{
	const char *begin = strstr(text, " qid:");
	size_t bytes;

	begin = begin ? strchr(begin + 1, ' ') : NULL;
	begin = begin ? begin + 1 : text;
	bytes = min_u64(strcspn(begin, " "), BLAME_NAME_BYTES - 1);
	memcpy(host, begin, bytes);
	host[bytes] = '\0';
}

static void fill_request(struct blame *blame, const struct reader_exemplar *exemplar, struct blame_request *request)
{
	bool known;
	uint64_t opcode = story_arg(exemplar, "opcode", &known);

	*request = (struct blame_request){ .exemplar = exemplar, .whole = exemplar->story_count > 1, .is_latest = true };
	request->operation = !known ? "command" : opcode == 2 ? "read" : opcode == 1 ? "write" : "command";
	copy_host(request->host, owner_text(blame, exemplar->stories[0].owner, exemplar->stories[0].begin_tick));
	(void)text_copy(request->device, sizeof(request->device), device_of(blame, exemplar));
}

/* Is the request on one of the devices that the namespace of the query has? Requests in the rings may lack their nsid. */
static bool is_of_namespace(struct blame *blame, const struct reader_exemplar *exemplar)
{
	uint32_t count = reader_slowest_count(blame->slowest);
	bool known;
	uint64_t nsid = story_arg(exemplar, "nsid", &known);

	if (known || exemplar->story_count < 2)
		return known && nsid == blame->nsid;
	for (uint32_t i = 0; i < count; i++) {
		const struct reader_exemplar *other = reader_slowest_at(blame->slowest, i);

		if (other->story_count > 1 && other->stories[1].owner == exemplar->stories[1].owner &&
		    story_arg(other, "nsid", &known) == blame->nsid && known)
			return true;
	}
	return false;
}

static int choose_requests(struct blame *blame, const struct blame_query *query, struct fathom_fault *why)
{
	uint32_t count = reader_slowest_count(blame->slowest);

	blame->requests = calloc(count + 1, sizeof(blame->requests[0]));
	blame->lives = calloc(count + 1, sizeof(blame->lives[0]));
	blame->by_id = calloc(count + 1, sizeof(blame->by_id[0]));
	if (!blame->requests || !blame->lives || !blame->by_id)
		return fault(why, -ENOMEM, "out of memory");
	for (uint32_t i = 0; i < count; i++) {
		const struct reader_exemplar *exemplar = reader_slowest_at(blame->slowest, i);
		bool slow = exemplar->spent_ticks >= blame->coverage.slow_ticks;

		if (blame->nsid && !is_of_namespace(blame, exemplar))
			continue;
		blame->coverage.found++;
		if (!slow && (query->slow_ns || blame->request_count >= BLAME_DEFAULT_COUNT_MIN))
			continue;
		blame->coverage.slow_by_count |= !slow;
		blame->by_id[blame->request_count] = blame->request_count;
		fill_request(blame, exemplar, &blame->requests[blame->request_count]);
		fill_life(blame, exemplar, &blame->lives[blame->request_count++]);
	}
	blame->coverage.is_full = count == SLOWEST_MAX;
	return 0;
}

/* ---- the second pass ---- */

static int compare_places(const void *left, const void *right, void *ctx)
{
	const struct blame *blame = ctx;
	const struct reader_story *a = &blame->requests[*(const uint32_t *)left].exemplar->stories[0];
	const struct reader_story *b = &blame->requests[*(const uint32_t *)right].exemplar->stories[0];

	if (a->id != b->id)
		return a->id < b->id ? -1 : 1;
	return a->begin_tick < b->begin_tick ? -1 : a->begin_tick > b->begin_tick;
}

/* The request of the latest life of `id` that began at `tick` or before; UINT32_MAX: none. */
static uint32_t find_request(const struct blame *blame, uint32_t id, uint64_t tick)
{
	uint32_t low = 0, high = blame->request_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const struct reader_story *story = &blame->requests[blame->by_id[middle]].exemplar->stories[0];

		if (story->id < id || (story->id == id && story->begin_tick <= tick))
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0 || blame->requests[blame->by_id[low - 1]].exemplar->stories[0].id != id)
		return UINT32_MAX;
	return blame->by_id[low - 1];
}

/* A life of `id` begins at `tick`: earlier ones are not its latest. */
static void note_life(struct blame *blame, uint32_t id, uint64_t tick)
{
	uint32_t found = tick ? find_request(blame, id, tick - 1) : UINT32_MAX;

	if (found != UINT32_MAX && blame->requests[found].exemplar->end_ticks[0] <= tick)
		blame->requests[found].is_latest = false;
}

static void take_record(struct blame *blame, const struct reader_event *event)
{
	const struct reader_exemplar *exemplar;
	uint32_t found;

	if (!event->point || event->point->object != blame->object)
		return;
	if (event->point->machine) {
		if (event->point->begins || (event->point->moves_to < 0 && event->slots[0] == 0))
			note_life(blame, event->object_id, event->tick);
		return;
	}
	if (event->point != blame->waited.point && event->point != blame->h2c_data.point)
		return;
	found = find_request(blame, event->object_id, event->tick);
	if (found == UINT32_MAX)
		return;
	exemplar = blame->requests[found].exemplar;
	if (event->tick <= exemplar->end_ticks[0])
		add_record(blame, &blame->lives[found], event->point_id, event->tick, event->slots);
}

static int read_records(struct blame *blame, struct fathom_fault *why)
{
	struct reader_exemplar_walk walk = { 0 };
	struct reader_walk stories = { 0 };
	struct reader_exemplar exemplar;
	struct reader_events *events;
	struct reader_event event;
	struct reader_story story;

	qsort_r(blame->by_id, blame->request_count, sizeof(blame->by_id[0]), compare_places, blame);
	if (reader_events(blame->reader, &events) != 0)
		return fault(why, -ENOMEM, "out of memory");
	while (reader_event_next(events, &event))
		take_record(blame, &event);
	reader_events_free(events);
	while (reader_exemplar_next(blame->reader, &walk, &exemplar)) {
		uint64_t end = exemplar.end_ticks[0];

		if (exemplar.stories[0].object != blame->object)
			continue;
		note_life(blame, exemplar.stories[0].id, exemplar.stories[0].begin_tick);
		if (blame->coverage.kept_from == 0 || end < blame->coverage.kept_from)
			blame->coverage.kept_from = end;
	}
	blame->coverage.torn = walk.torn;
	while (reader_story_next(blame->reader, &stories, &story)) {
		if (story.object == blame->object)
			note_life(blame, story.id, story.begin_tick);
	}
	return 0;
}

/* ---- all of it ---- */

static void split_requests(struct blame *blame)
{
	for (uint32_t i = 0; i < blame->request_count; i++) {
		struct blame_request *request = &blame->requests[i];

		blame_life_split(&blame->lives[i], &request->split);
		request->cause = BLAME_DISK;
		for (enum blame_cause cause = 0; cause < BLAME_CAUSES; cause++) {
			if (request->split.ticks[cause] > request->split.ticks[request->cause])
				request->cause = cause;
		}
	}
}

static void fill_coverage(struct blame *blame)
{
	static struct reader_lives lives;
	struct blame_coverage *coverage = &blame->coverage;

	for (uint32_t thread = 0; thread < READER_THREADS_MAX; thread++) {
		if (blame->first_event[thread] == 0)
			continue;
		coverage->rings_from = max_u64(coverage->rings_from, blame->first_event[thread]);
		coverage->holds_from = max_u64(coverage->holds_from, evidence_holds_from(&blame->evidence, thread));
	}
	for (uint32_t i = 0; i < reader_info(blame->reader)->point_count; i++) {
		const struct reader_object *object = reader_point_at(blame->reader, i)->object;

		if (object && object->machine && strcmp(object->name, "tcp_send_sample") == 0 &&
		    reader_lives(blame->reader, object, READER_ALL_THREADS, &lives))
			coverage->send_queue_max = lives.stages[0].ticks_max;
	}
}

static int create_blame(struct blame *blame, const struct blame_query *query, struct fathom_fault *why)
{
	static const char *const waited_args[] = { "window_closed", "unacked", "lost" };
	const struct reader_filter_spec spec = { .owner = query->host, .since = query->since, .until = query->until };
	uint64_t nsid = 0;
	int rc;

	blame->owners = calloc(OWNER_CACHE, sizeof(blame->owners[0]));
	if (!blame->owners)
		return fault(why, -ENOMEM, "out of memory");
	evidence_init(&blame->evidence, blame->reader);
	blame->waited = evidence_point_find(blame->reader, "tcp_waited", waited_args, ARRAY_COUNT(waited_args));
	blame->h2c_data = evidence_point_find(blame->reader, "tcp_h2c_data", NULL, 0);
	blame->volume = query->volume;
	if (query->volume && text_parse_u64(query->volume, 10, UINT32_MAX, &nsid) == 0)
		blame->nsid = (uint32_t)nsid;
	blame->object = find_request_type(blame->reader);
	if (!blame->object)
		return fault(why, -ENODATA, "the file has no requests of hosts: it is not of an engine or a target");
	rc = reader_filter_create(blame->reader, &spec, &blame->filter, why);
	if (rc == 0)
		rc = choose_limit(blame, query, why);
	if (rc == 0)
		rc = read_lives(blame, why);
	if (rc == 0)
		rc = choose_requests(blame, query, why);
	if (rc == 0)
		rc = read_records(blame, why);
	if (rc)
		return rc;
	split_requests(blame);
	fill_coverage(blame);
	return 0;
}

int blame_create(struct reader *reader, const struct blame_query *query, struct blame **blame_ret, struct fathom_fault *why)
{
	struct blame *blame = calloc(1, sizeof(*blame));
	int rc;

	if (!blame)
		return fault(why, -ENOMEM, "out of memory");
	blame->reader = reader;
	rc = create_blame(blame, query, why);
	if (rc) {
		blame_destroy(blame);
		return rc;
	}
	*blame_ret = blame;
	return 0;
}

void blame_destroy(struct blame *blame)
{
	if (!blame)
		return;
	reader_slowest_destroy(blame->slowest);
	reader_filter_destroy(blame->filter);
	evidence_deinit(&blame->evidence);
	free(blame->owners);
	free(blame->requests);
	free(blame->lives);
	free(blame->by_id);
	free(blame);
}

uint32_t blame_request_count(const struct blame *blame)
{
	return blame->request_count;
}

const struct blame_request *blame_request_at(const struct blame *blame, uint32_t index)
{
	must(index < blame->request_count);
	return &blame->requests[index];
}

const struct blame_coverage *blame_coverage(const struct blame *blame)
{
	return &blame->coverage;
}
