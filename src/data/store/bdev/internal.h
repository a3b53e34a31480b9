/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The channel: one thread's way to one bdev, and what its I/O waits in.
 *
 *   submitted --+--> backend (in_flight) ---------------------------+--> done
 *               +--> queue: backend said -EAGAIN, or nesting, reset -+
 *               +--> split: children of `children` take the pieces; those that find none wait in `waiting`
 *
 * Everything here belongs to the channel's thread, but for the counters, which have one writer and any readers, and
 * `in_bdev` and `base`, which are under the accounts' lock (stats.c).
 *
 * What keeps it alive: an I/O under way keeps its caller from putting the channel; destruction comes by a message, so a
 * `done` that puts the last reference is still inside a live channel.
 */
#ifndef STORE_BDEV_INTERNAL_H
#define STORE_BDEV_INTERNAL_H

#include "base/bits.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/reactor/reactor.h"
#include "data/store/bdev/bdev.h"
#include "data/store/bdev/probes.gen.h"

#define IO_TYPES_MAX 7
enum {
	NESTING_MAX = 8, /* submissions from inside `done` from inside a submission: beyond, the queue takes them */
	DRAIN_MAX = 256, /* taken from the queue at once; the rest next turn, so that a thread's others have theirs */
	RETRY_US = 100,	 /* when nothing is under way whose completion would offer the queue again */
	CHILDREN_PER_CHANNEL = 32,
	CHILD_IOV_MAX = 16,
	BUFFERS_PER_CHANNEL = 16,
	BUFFER_BYTES = 128 * 1024, /* address space; memory once it is used */
};
static_assert(IO_TYPE_RESET + 1 == IO_TYPES_MAX, "a counter for each type");
static_assert(IO_TYPES_MAX <= 8, "`native` and `able` are bytes");
static_assert((int)IO_TIMED_OUT < (int)BDEV_STATUSES_MAX, "a counter for each status");
static_assert((int)BUFFER_BYTES >= (int)BDEV_BLOCK_BYTES_MAX, "a buffer holds a block");
static_assert((int)BUFFER_BYTES % (int)BDEV_BLOCK_BYTES_MAX == 0, "a buffer holds whole blocks, of any size");
static_assert((int)BUFFER_BYTES % (int)BDEV_BUFFER_ALIGNMENT_MAX == 0, "each of the buffers is aligned for every device");
static_assert(BDEV_ZEROES_BYTES >= BDEV_BLOCK_BYTES_MAX, "zeroes for a block");
static_assert((int)BDEV_IO_CHILDREN_MAX <= (int)CHILDREN_PER_CHANNEL, "one split I/O alone never waits for another");
static_assert(BUFFERS_PER_CHANNEL <= 32, "buffers_free is a word");

/* One writer, any readers. */
static inline uint64_t counter_read(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

static inline void counter_set(uint64_t *counter, uint64_t to)
{
	__atomic_store_n(counter, to, __ATOMIC_RELAXED);
}

static inline void counter_add(uint64_t *counter, uint64_t n)
{
	counter_set(counter, *counter + n);
}

struct type_counters {
	uint64_t ops, bytes;
	uint64_t latency_ticks, latency_ticks_max, latency_ticks_min; /* min is UINT64_MAX at first */
};

struct channel_counters {
	struct type_counters types[IO_TYPES_MAX];
	uint64_t errors[BDEV_STATUSES_MAX];
};

enum split_kind { SPLIT_NONE, SPLIT_PIECES, SPLIT_ZEROES, SPLIT_COMPARE };

/* One piece of a split I/O. `iov` is its part of the parent's vector, or its buffer. */
struct bdev_child {
	struct bdev_io io;
	void *buffer; /* NULL: the parent's memory is used */
	/* where in the parent's vector the piece begins */
	size_t iov_offset;
	uint32_t iov_index;
	struct iovec iov[CHILD_IOV_MAX];
} CACHE_ALIGNED;

struct bdev_channel {
	/* what each I/O looks at */
	int (*submit)(void *backend_ctx, struct bdev_io *io); /* constant, like all up to the line */
	void *backend_ctx;
	struct bdev *bdev;
	const struct trace_istr *name;
	uint64_t block_count;
	uint32_t block_bytes;
	uint8_t native; /* bit per enum io_type: the backend does it */
	uint8_t able;	/* the core can, with its help */
	bool has_limits;
	uint16_t owner; /* on whose behalf I/O is traced: the device */
	/* ---- */
	uint8_t nesting;
	uint32_t in_flight;   /* at the backend */
	uint64_t queue_depth; /* submitted and not done, children not counted; a counter */
	struct bdev_io_queue queue;

	CACHE_ALIGNED struct channel_counters counters;

	/* rare */
	CACHE_ALIGNED uint64_t queued; /* length of `queue`; a counter */
	struct bdev_io *reset;	       /* under way */
	bool reset_at_backend, reset_aborting;
	struct bdev_io_queue resets;  /* the ones behind it */
	struct bdev_io_queue waiting; /* split parents that found no child or buffer */
	bool waking;
	struct poller *retry; /* paused unless retry_armed */
	bool retry_armed;
	struct bdev_child *children; /* trace pool; NULL: this bdev never needs one */
	struct bdev_io_queue children_free;
	uint8_t *buffers;      /* mapped, BUFFERS_PER_CHANNEL of BUFFER_BYTES */
	uint32_t buffers_free; /* bit each */
	struct fathom_thread *thread;
	TAILQ_ENTRY(bdev_channel) in_bdev;
	struct channel_counters base; /* subtracted: their values when they were last reset */
} CACHE_ALIGNED;
static_assert(offsetof(struct bdev_channel, nesting) <= CACHE_LINE_BYTES, "what each I/O looks at is one line");

struct bdev_desc {
	struct bdev *bdev;
	void (*removed)(void *ctx);
	void *ctx;
	bool told; /* `removed` has been called */
	TAILQ_ENTRY(bdev_desc) in_bdev;
};

/* ---- channel.c ---- */

/* For device_register(). */
int channel_create(void *device, void *ctx);
void channel_destroy(void *device, void *ctx);
size_t channel_bytes(const struct bdev *bdev);
/* Make what bdev_zeroes() gives, if it is not there yet. -ENOMEM. Any thread. */
MUST_CHECK int zeroes_map(void);
/* Drain the queue in RETRY_US. */
void channel_retry_soon(struct bdev_channel *ch);

/* ---- io.c ---- */

/* Give `io` to the backend, or to the queue if something is in the way. */
void io_dispatch(struct bdev_channel *ch, struct bdev_io *io, uint64_t now);
/* The end of a caller's I/O: records, counts, calls done. */
void io_finish(struct bdev_channel *ch, struct bdev_io *io, enum io_status status, uint64_t now);
/* Offer the queue to the backend. */
void queue_drain(struct bdev_channel *ch, uint64_t now);
/* Enter the state SUBMITTED: what caller's I/O and children have in common. */
static inline void io_enter(struct bdev_channel *ch, struct bdev_io *io, uint64_t now)
{
	io->submit_tick = now;
	io->story.trace.owner = ch->owner;
	io->story.args[0] = io->type;
	io->story.args[1] = (uint32_t)io->block_index;
	io->story.args[2] = (uint32_t)(io->block_index >> 32);
	io->story.args[3] = (uint32_t)min_u64(io->block_count, UINT32_MAX);
	io->story.args[4] = trace_ref(io->parent);
	probe_bdev_io_submit(now, io, io->type, ch->name, io->parent);
}

/* ---- split.c ---- */

static inline bool bdev_has_limits(const struct bdev *bdev)
{
	return bdev->io_blocks_max || bdev->iov_count_max || bdev->boundary_blocks || bdev->buffer_alignment > 1;
}

/* Whether `bdev` can ever have an I/O to split. */
bool split_possible(const struct bdev *bdev, uint8_t native);
/* How `io`, which is valid, has to be split. */
enum split_kind split_wanted(const struct bdev_channel *ch, const struct bdev_io *io);
/* Split it: it ends when its children have. */
void split_begin(struct bdev_channel *ch, struct bdev_io *io, enum split_kind kind, uint64_t now);
/* A child has left the backend or the queue. */
void split_child_ended(struct bdev_channel *ch, struct bdev_io *child, enum io_status status, uint64_t now);
/* End the parents that wait for children; those with children under way end with them. */
void split_abort_waiting(struct bdev_channel *ch, uint64_t now);

/* ---- reset.c ---- */

void reset_begin(struct bdev_channel *ch, struct bdev_io *io, uint64_t now);
/* Something has left the backend while a reset is under way. */
void reset_progress(struct bdev_channel *ch, uint64_t now);
/* The backend has ended the reset I/O. */
void reset_backend_done(struct bdev_channel *ch, struct bdev_io *io, enum io_status status, uint64_t now);

/* ---- stats.c ---- */

void stats_bdev_init(struct bdev *bdev);
void stats_channel_add(struct bdev_channel *ch);
/* What it counted stays in the bdev. */
void stats_channel_remove(struct bdev_channel *ch);

#endif
