/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * collect - joins the events of each command.
 *
 * `waiting` is a ring of commands in the order in which they were received; numbers count them from the beginning. The two
 * maps say which number a request or a block device I/O has now; they are direct-mapped, so that memory is bounded. An id
 * that takes the place of another ends what is known about the other.
 */
#include "inspect/replay/collect.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "inspect/replay/internal.h"

static struct waiting *waiting_at(struct replay_collector *collector, uint64_t number)
{
	return &collector->waiting[number % REPLAY_WAITING_MAX];
}

static void map_set(struct object_map *map, uint32_t id, uint64_t number)
{
	map->rows[id % REPLAY_MAP_ROWS] = (struct object_row){ .id = id, .used = true, .number = number };
}

static void map_clear(struct object_map *map, uint32_t id)
{
	map->rows[id % REPLAY_MAP_ROWS].used = false;
}

/* The command of an object; NULL: not known, or it came out already. */
static struct waiting *map_find(struct replay_collector *collector, const struct object_map *map, uint32_t id)
{
	const struct object_row *row = &map->rows[id % REPLAY_MAP_ROWS];

	if (!row->used || row->id != id || row->number < collector->first)
		return NULL;
	must(row->number < collector->next);
	return waiting_at(collector, row->number);
}

/* ---- commands begin and end ---- */

static void leave_queue(struct replay_collector *collector, struct waiting *command)
{
	if (command->is_counted)
		collector->queues[command->operation.queue].in_flight--;
	command->is_counted = false;
}

static void end_command(struct replay_collector *collector, struct waiting *command, uint64_t tick)
{
	if (command->has_ended)
		return;
	leave_queue(collector, command);
	command->has_ended = true;
	if (tick) {
		command->latency_known = true;
		command->latency_ticks = tick > command->begin_tick ? tick - command->begin_tick : 0;
	}
}

/* Add a command at the end. The caller makes room first. */
static struct waiting *add_command(struct replay_collector *collector, uint16_t owner, uint64_t tick)
{
	struct waiting *command = waiting_at(collector, collector->next);

	must(collector->next - collector->first < REPLAY_WAITING_MAX);
	collector->next++;
	*command = (struct waiting){ .begin_tick = tick, .owner = owner };
	return command;
}

static void begin_request(struct replay_collector *collector, const struct reader_event *event, uint32_t bytes)
{
	struct waiting *former = map_find(collector, &collector->requests, event->object_id);

	if (former)
		end_command(collector, former, 0); /* its end is not in the recording */
	map_clear(&collector->requests, event->object_id);
	if (collector->filter && !reader_filter_time_and_owner(collector->filter, event))
		return;
	map_set(&collector->requests, event->object_id, collector->next);
	add_command(collector, event->owner, event->tick)->bytes = bytes;
}

/* A move of nvmf_req_state. */
static void note_request(struct replay_collector *collector, const struct reader_event *event)
{
	const struct event_names *names = collector->names;
	uint64_t to = reader_arg_value(names->to, event->slots);
	struct waiting *command;

	if (to == names->received) {
		begin_request(collector, event, (uint32_t)reader_arg_value(names->length, event->slots));
		return;
	}
	command = map_find(collector, &collector->requests, event->object_id);
	if (!command)
		return;
	if (to == names->wait_event) { /* not an operation, and it may wait for hours */
		end_command(collector, command, 0);
	} else if (to == 0 || to == names->parked) {
		end_command(collector, command, event->tick);
	} else {
		return;
	}
	map_clear(&collector->requests, event->object_id);
}

/* ---- block device I/O ---- */

static void enter_queue(struct replay_collector *collector, struct waiting *command)
{
	struct queue_row *queue = &collector->queues[command->operation.queue];

	command->is_counted = true;
	if (++queue->in_flight > queue->depth)
		queue->depth = queue->in_flight;
}

/*
 * A further I/O of command `number`: the flush behind a durable write, or the next range of an unmap, which becomes an
 * operation of its own.
 */
static void note_further_io(struct replay_collector *collector, uint64_t number, const struct reader_event *event, int kind)
{
	struct waiting *command = waiting_at(collector, number);
	struct waiting *range;

	if (command->operation.kind == REPLAY_WRITE && kind == REPLAY_FLUSH) {
		command->operation.durable = true;
		map_set(&collector->ios, event->object_id, number); /* its time at the device counts, too */
	}
	if (command->operation.kind != REPLAY_UNMAP || kind != REPLAY_UNMAP)
		return;
	map_set(&collector->ios, event->object_id, collector->next);
	range = add_command(collector, command->owner, event->tick);
	range->operation.queue = command->operation.queue;
	range->operation.kind = REPLAY_UNMAP;
	range->operation.device = command->operation.device;
	range->has_device = range->ends_with_io = true;
	enter_queue(collector, range);
}

static void note_submit(struct replay_collector *collector, const struct reader_event *event)
{
	const struct event_names *names = collector->names;
	uint64_t type = reader_arg_value(names->type, event->slots);
	int kind = type < REPLAY_TYPES_MAX ? names->kinds[type] : -1;
	const struct reader_object *parent;
	struct waiting *command;
	uint32_t request, device;
	uint64_t number;

	map_clear(&collector->ios, event->object_id);
	if (!reader_arg_object(collector->reader, names->request, event->slots, &parent, &request))
		return;
	if (parent != names->req)
		return; /* a part of a split I/O */
	command = map_find(collector, &collector->requests, request);
	if (!command) {
		if (!collector->filter && kind >= 0)
			collector->left_out.partial++;
		return;
	}
	if (kind < 0)
		return;
	number = collector->requests.rows[request % REPLAY_MAP_ROWS].number;
	if (command->has_device) {
		note_further_io(collector, number, event, kind);
		return;
	}
	device = names->device ? (uint32_t)reader_arg_value(names->device, event->slots) : event->owner;
	if (!replay_find_queue(collector, command->owner, command->begin_tick, &command->operation.queue) ||
	    !replay_find_device(collector, device, event->tick, &command->operation.device)) {
		collector->left_out.tables++;
		return;
	}
	command->has_device = true;
	command->operation.kind = (uint8_t)kind;
	map_set(&collector->ios, event->object_id, number);
	enter_queue(collector, command);
}

/* An event with the first block, and perhaps the number of blocks. */
static void note_place(struct replay_collector *collector, const struct reader_event *event,
		       const struct place_names *place)
{
	struct waiting *command = map_find(collector, &collector->ios, event->object_id);

	if (!command)
		return;
	if (place->at_device && command->device_from == 0)
		command->device_from = event->tick;
	if (!command->has_block)
		command->operation.block = reader_arg_value(place->block_index, event->slots);
	command->has_block = true;
	if (place->block_count)
		command->operation.blocks = (uint32_t)reader_arg_value(place->block_count, event->slots);
}

static void note_done(struct replay_collector *collector, const struct reader_event *event)
{
	const struct event_names *names = collector->names;
	struct waiting *command = map_find(collector, &collector->ios, event->object_id);

	if (!command)
		return;
	if (names->status && reader_arg_value(names->status, event->slots) != names->success)
		command->operation.failed = true;
	if (command->device_from && event->tick >= command->device_from) {
		command->operation.device_known = true;
		command->device_ticks += event->tick - command->device_from;
	}
	command->device_from = 0;
	if (command->ends_with_io)
		end_command(collector, command, event->tick);
	map_clear(&collector->ios, event->object_id);
}

/* An event of an SPDK target: one event has all about an I/O, and the command's end is its move to state 0. */
static void note_spdk_event(struct replay_collector *collector, const struct reader_event *event)
{
	const struct event_names *names = collector->names;
	struct waiting *command;

	if (event->point == names->spdk_new) {
		begin_request(collector, event, 0);
	} else if (event->point == names->submit) {
		note_submit(collector, event);
		note_place(collector, event, &names->places[0]);
	} else if (event->point == names->done) {
		note_done(collector, event);
	} else if (event->point->object == names->req && event->point->machine && event->point->moves_to == 0) {
		command = map_find(collector, &collector->requests, event->object_id);
		if (command)
			end_command(collector, command, event->tick);
		map_clear(&collector->requests, event->object_id);
	}
}

static void note_event(struct replay_collector *collector, const struct reader_event *event)
{
	const struct event_names *names = collector->names;

	if (!event->point)
		return;
	if (names->spdk_new) {
		note_spdk_event(collector, event);
	} else if (event->point == names->req_state) {
		note_request(collector, event);
	} else if (event->point == names->submit) {
		note_submit(collector, event);
	} else if (event->point == names->done) {
		note_done(collector, event);
	} else if (event->point == names->registered) {
		replay_note_register(collector, event);
	} else {
		for (unsigned int i = 0; i < PLACE_POINTS; i++) {
			if (event->point == names->places[i].point)
				note_place(collector, event, &names->places[i]);
		}
	}
}

/* ---- operations come out ---- */

/* Fill in the number of blocks. False: it is not known. */
static bool fill_blocks(struct replay_collector *collector, struct waiting *command)
{
	struct replay_operation *operation = &command->operation;
	struct known_device *device = collector->devices[operation->device].known;

	if (operation->kind == REPLAY_FLUSH) {
		operation->block = operation->blocks = 0;
		return true;
	}
	if (!command->has_block) {
		collector->left_out.unplaced++;
		return false;
	}
	if (!replay_kind_has_data(operation->kind) || collector->names->spdk_new)
		return true;
	if (operation->blocks > 0)
		replay_learn_block_bytes(device, command->bytes, operation->blocks);
	if (device->block_bytes == 0) {
		collector->left_out.block_size++;
		return false;
	}
	operation->blocks = command->bytes / device->block_bytes;
	return true;
}

static void count_operation(struct replay_collector *collector, const struct replay_operation *operation)
{
	struct device_row *device = &collector->devices[operation->device];
	uint64_t end_ns = operation->start_ns + (operation->latency_ns == REPLAY_NO_LATENCY ? 0 : operation->latency_ns);

	collector->operations++;
	collector->kinds[operation->kind]++;
	collector->queues[operation->queue].operations++;
	device->operations++;
	device->blocks_used = max_u64(device->blocks_used, operation->block + operation->blocks);
	collector->span_ns = max_u64(collector->span_ns, end_ns);
}

/* Make an operation of the first command. False: it is not one. */
static bool take_first(struct replay_collector *collector, struct replay_operation *operation_ret)
{
	struct waiting *command = waiting_at(collector, collector->first);
	struct replay_operation *operation = &command->operation;
	uint64_t start_ns;

	if (!command->has_ended)
		leave_queue(collector, command);
	collector->first++;
	if (!command->has_device || !fill_blocks(collector, command))
		return false;
	if (collector->operations == 0)
		collector->base_tick = command->begin_tick;
	start_ns = command->begin_tick > collector->base_tick
			   ? reader_ns_from_ticks(collector->reader, command->begin_tick - collector->base_tick)
			   : 0;
	operation->start_ns = collector->last_ns = max_u64(collector->last_ns, start_ns);
	operation->latency_ns = command->latency_known ? reader_ns_from_ticks(collector->reader, command->latency_ticks)
						       : REPLAY_NO_LATENCY;
	operation->device_known = operation->device_known && command->latency_known;
	if (operation->device_known)
		operation->device_ns = min_u64(reader_ns_from_ticks(collector->reader, command->device_ticks),
					       operation->latency_ns);
	if (!replay_operation_is_valid(operation, collector->queue_count, collector->device_count)) {
		collector->left_out.unplaced++;
		return false;
	}
	count_operation(collector, operation);
	*operation_ret = *operation;
	return true;
}

bool replay_collector_next(struct replay_collector *collector, struct replay_operation *operation_ret)
{
	struct reader_event event;

	for (;;) {
		uint64_t count = collector->next - collector->first;
		bool is_ready = count > 0 && waiting_at(collector, collector->first)->has_ended;

		/* one event adds at most one command */
		if (is_ready || count == REPLAY_WAITING_MAX || (collector->at_end && count > 0)) {
			if (take_first(collector, operation_ret))
				return true;
		} else if (collector->at_end) {
			return false;
		} else if (reader_event_next(collector->events, &event)) {
			note_event(collector, &event);
		} else if (collector->file_index + 1 < collector->file_count) {
			replay_use_file(collector, collector->file_index + 1);
		} else {
			collector->at_end = true;
		}
	}
}
