/* SPDX-License-Identifier: BSD-2-Clause */
/* internal - the collector, shared by collect.c (events) and learn.c (names, queues, devices). */
#ifndef INSPECT_REPLAY_INTERNAL_H
#define INSPECT_REPLAY_INTERNAL_H

#include "inspect/replay/collect.h"

enum {
	REPLAY_WAITING_MAX = 1 << 17, /* commands that wait for their end, or for that of an earlier one */
	REPLAY_MAP_ROWS = 1 << 17,
	REPLAY_TYPES_MAX = 16, /* of bdev_io_submit */
	PLACE_POINTS = 4,
};

/* An event that says where an I/O begins. */
struct place_names {
	const struct reader_point *point;     /* NULL: the file has none */
	const struct reader_arg *block_index; /* never NULL beside a point */
	const struct reader_arg *block_count; /* NULL: it has none */
	bool at_device;			      /* from this event on, the device has the I/O */
};

/* The points and arguments of this file. */
struct event_names {
	const struct reader_point *req_state, *submit, *done;
	const struct reader_point *registered; /* NULL: none */
	const struct reader_arg *to, *length;
	const struct reader_arg *type, *device, *request;
	const struct reader_arg *status;
	const struct reader_arg *registered_device, *registered_block_bytes;
	struct place_names places[PLACE_POINTS];
	const struct reader_object *req;       /* the type of a command */
	const struct reader_point *spdk_new;   /* of an SPDK target: a command begins; req_state is NULL then */
	uint64_t received, parked, wait_event; /* states; UINT64_MAX: there is none */
	uint64_t success;
	int8_t kinds[REPLAY_TYPES_MAX]; /* by type; -1: not an operation */
};

/* A command between its first event and the moment in which it comes out. */
struct waiting {
	struct replay_operation operation; /* times are set when it comes out */
	uint64_t begin_tick, latency_ticks;
	uint64_t device_from, device_ticks; /* from: of the I/O that the device has; 0: none */
	uint32_t bytes;			    /* of its data */
	uint16_t owner;
	bool has_device, has_block, has_ended, latency_known;
	bool ends_with_io; /* a further range of an unmap */
	bool is_counted;   /* in its queue */
};

struct object_row {
	uint32_t id;
	bool used;
	uint64_t number; /* of the command */
};

struct object_map {
	struct object_row rows[REPLAY_MAP_ROWS];
};

struct queue_row {
	uint16_t owner;
	uint64_t from_tick, to_tick; /* of the owner */
	uint32_t host;		     /* index */
	uint32_t qid;		     /* 0: not known */
	uint32_t in_flight, depth;
	uint64_t operations;
};

struct host_row {
	char name[REPLAY_NAME_BYTES];
};

/* What the file says about a device. */
struct known_device {
	uint64_t tick;		    /* of SPDK: the device is this owner at this tick */
	uint32_t string;	    /* id of its name; of SPDK: of its owner */
	uint32_t nsid, block_bytes; /* 0: not known */
};

/* A device with operations. */
struct device_row {
	struct known_device *known;
	uint64_t blocks_used, operations;
};

/* A file of the recording. */
struct collector_file {
	struct reader *reader;
	struct reader_events *events;
	struct reader_filter *filter; /* NULL: all commands */
	struct event_names names;
};

struct replay_collector {
	struct collector_file files[REPLAY_FILES_MAX]; /* in the order of their events */
	uint32_t file_count, file_index;
	/* those of the present file */
	struct reader *reader;
	struct reader_events *events;
	struct reader_filter *filter;
	const struct event_names *names;
	bool at_end;
	uint64_t first, next; /* numbers of commands: those from first to next wait */
	uint64_t base_tick, last_ns;
	uint64_t operations, span_ns;
	uint64_t kinds[REPLAY_KINDS];
	struct replay_left_out left_out;
	uint32_t queue_count, host_count, device_count, known_count;
	uint16_t queue_by_owner[UINT16_MAX + 1]; /* index + 1 of the owner's latest; 0: none */
	struct queue_row queues[REPLAY_QUEUES_MAX];
	struct host_row hosts[REPLAY_QUEUES_MAX];
	struct device_row devices[REPLAY_DEVICES_MAX];
	struct known_device known[REPLAY_DEVICES_MAX];
	struct object_map requests, ios;
	struct waiting waiting[REPLAY_WAITING_MAX];
};

/* Find the points and arguments of a file. Errors (explained): -ENODATA. */
MUST_CHECK int replay_learn_names(struct reader *reader, struct event_names *names_ret, struct fathom_fault *why);
/* Go on with the events of this file. */
void replay_use_file(struct replay_collector *collector, uint32_t index);
/* An I/O of `blocks` has `bytes` of data. */
void replay_learn_block_bytes(struct known_device *device, uint64_t bytes, uint64_t blocks);
void replay_note_register(struct replay_collector *collector, const struct reader_event *event);

/* The queue of an owner, or the device with a name; made when it is new. False: the table is full. */
MUST_CHECK bool replay_find_queue(struct replay_collector *collector, uint16_t owner, uint64_t tick, uint16_t *queue_ret);
MUST_CHECK bool replay_find_device(struct replay_collector *collector, uint32_t string, uint64_t tick,
				   uint16_t *device_ret);

#endif
