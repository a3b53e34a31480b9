/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The channel: one thread's access to one bdev, with the queues in which its I/O waits.
 *
 *   submitted --+--> backend (in_flight) ---------------------------+--> done
 *               +--> queue: backend returned -EAGAIN, or nesting, reset
 *               +--> split: children from `children_free` take the pieces; a parent that finds none waits in `waiting`
 *
 * Only the channel's thread uses a channel. Exceptions: the counters, with one writer and any readers, and `in_bdev` and
 * `base`, which the statistics lock protects (stats.c).
 *
 * Lifetime: a caller must not put the channel while it has an I/O in flight. Destruction arrives as a message, so the
 * channel is still alive while a `done` puts the last reference.
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
	NESTING_MAX = 8, /* submissions from inside `done` from inside a submission; deeper ones are queued */
	DRAIN_MAX = 256, /* taken from the queue at once; the rest at the next poll, so that other work gets its turn */
	RETRY_US = 100,	 /* retry interval while nothing is in flight, so no completion would retry */
	CHILDREN_PER_CHANNEL = 32,
	CHILD_IOV_MAX = 16,
	BUFFERS_PER_CHANNEL = 16,
	BUFFER_BYTES = 128 * 1024, /* address space only until first use */
};
static_assert(IO_TYPE_RESET + 1 == IO_TYPES_MAX, "a counter for each type");
static_assert((int)IO_TYPES_MAX <= (int)BDEV_TYPES_MAX, "figures have room for each type");
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

static inline bool changes_data(enum io_type type)
{
	return type == IO_TYPE_WRITE || type == IO_TYPE_UNMAP || type == IO_TYPE_WRITE_ZEROES;
}

enum split_kind { SPLIT_NONE, SPLIT_PIECES, SPLIT_ZEROES, SPLIT_COMPARE };

/* One piece of a split I/O. `iov` is its part of the parent's vector, or its buffer. */
struct bdev_child {
	struct bdev_io io;
	void *buffer; /* NULL: the child uses the parent's memory */
	/* where in the parent's vector the piece begins */
	size_t iov_offset;
	uint32_t iov_index;
	struct iovec iov[CHILD_IOV_MAX];
} CACHE_ALIGNED;

struct bdev_channel {
	/* read by each I/O */
	int (*submit)(void *backend_ctx, struct bdev_io *io); /* constant, like all up to the line */
	void *backend_ctx;
	struct bdev *bdev;
	const struct trace_istr *name;
	uint64_t block_count;
	uint32_t block_bytes;
	uint8_t native;	 /* bit per enum io_type: the backend supports it */
	uint8_t able;	 /* bit per enum io_type: the backend or the core supports it */
	bool has_limits; /* or it takes part in a hold */
	bool draining;	 /* hold_check_drained() after each I/O */
	bool tracking;	 /* track_note() after each I/O */
	uint16_t owner;	 /* trace owner of the I/O: the device */
	/* ---- */
	uint8_t nesting;
	uint32_t in_flight;   /* at the backend */
	uint64_t queue_depth; /* submitted and not done, without children; a counter */
	struct bdev_io_queue queue;
	uint64_t changing; /* of them, those that change data and do not wait in `held` */

	CACHE_ALIGNED struct channel_counters counters;
	uint64_t latency[BDEV_LATENCIES_MAX][LATENCY_BUCKETS]; /* counters */

	/* rare */
	CACHE_ALIGNED uint64_t queued; /* length of `queue`; a counter */
	struct channel_hold *held;     /* its part in a hold (hold.c); under the lock of the list of channels; NULL: none */
	struct channel_track *tracked; /* its part in a track (track.c); as `held` */
	struct bdev_io *reset;	       /* in progress */
	bool reset_at_backend, reset_aborting;
	struct bdev_io_queue resets;  /* waiting for it to end */
	struct bdev_io_queue waiting; /* split parents that wait for a child or buffer */
	bool waking;
	struct poller *retry; /* paused unless retry_armed */
	bool retry_armed;
	bool may_split;
	struct bdev_child *children; /* trace pool; NULL: it has split no I/O yet */
	struct bdev_io_queue children_free;
	uint8_t *buffers;      /* mapped, BUFFERS_PER_CHANNEL of BUFFER_BYTES */
	uint32_t buffers_free; /* bit each */
	struct fathom_thread *thread;
	TAILQ_ENTRY(bdev_channel) in_bdev;
	struct channel_counters base; /* the counters' values at the last reset; readers subtract them */
} CACHE_ALIGNED;
static_assert(offsetof(struct bdev_channel, nesting) <= CACHE_LINE_BYTES, "each I/O reads one cache line of it");

struct bdev_desc {
	struct bdev *bdev;
	void (*removed)(void *ctx);
	void (*resized)(void *ctx); /* NULL: none */
	void *ctx;
	bool told; /* the core called `removed` */
	TAILQ_ENTRY(bdev_desc) in_bdev;
};

/* ---- channel.c ---- */

/* For device_register(). */
int channel_create(void *device, void *ctx);
void channel_destroy(void *device, void *ctx);
size_t channel_bytes(const struct bdev *bdev);
/* Map the memory of bdev_zeroes(), unless it is mapped. -ENOMEM. Any thread. */
MUST_CHECK int zeroes_map(void);
/* Make the channel's children and buffers, once. Errors: -ENOMEM. */
MUST_CHECK int channel_make_children(struct bdev_channel *ch);
/* Drain the queue in RETRY_US. */
void channel_retry_soon(struct bdev_channel *ch);

/* ---- io.c ---- */

/* Submit `io` to the backend; queue it if the queue is not empty, nesting is too deep or a reset is in progress. */
void io_dispatch(struct bdev_channel *ch, struct bdev_io *io, uint64_t now);
/* Start an I/O that is valid: split it, reset the channel, or dispatch it. */
void io_start(struct bdev_channel *ch, struct bdev_io *io, uint64_t now);
/* End a caller's I/O: record it, count it, call done. */
void io_finish(struct bdev_channel *ch, struct bdev_io *io, enum io_status status, uint64_t now);
/* Submit the queue to the backend, until it returns -EAGAIN. */
void queue_drain(struct bdev_channel *ch, uint64_t now);
/* Enter the state SUBMITTED: common to callers' I/O and children. */
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

/* Whether any I/O to `bdev` can need splitting. */
bool split_possible(const struct bdev *bdev, uint8_t native);
/* How to split `io`, which must be valid. */
enum split_kind split_wanted(const struct bdev_channel *ch, const struct bdev_io *io);
/* Split `io`: it ends with its last child. The first time, IO_FAILED if memory for children is missing. */
void split_begin(struct bdev_channel *ch, struct bdev_io *io, enum split_kind kind, uint64_t now);
/* The backend completed a child, or a reset removed it from the queue. */
void split_child_ended(struct bdev_channel *ch, struct bdev_io *child, enum io_status status, uint64_t now);
/* End the parents that wait for children; a parent with children in flight ends with the last of them. */
void split_abort_waiting(struct bdev_channel *ch, uint64_t now);

/* ---- reset.c ---- */

void reset_begin(struct bdev_channel *ch, struct bdev_io *io, uint64_t now);
/* Complete the reset if nothing is in flight any more. No reset in progress: does nothing. */
void reset_progress(struct bdev_channel *ch, uint64_t now);
/* The backend completed the reset I/O. */
void reset_backend_done(struct bdev_channel *ch, struct bdev_io *io, enum io_status status, uint64_t now);

/* ---- hold.c ---- */

/* True: `io`, which is valid, waits. `ch` takes part in a hold. */
bool hold_io(struct bdev_channel *ch, struct bdev_io *io, uint64_t now);
/* While `draining`: end the visit if nothing that was submitted before is in progress. */
void hold_check_drained(struct bdev_channel *ch);
/* End what waits with IO_ABORTED. */
void hold_abort(struct bdev_channel *ch, uint64_t now);
/* Take part in the hold of the device, if it has one. The channel is in the device's list. Errors: -ENOMEM. */
MUST_CHECK int hold_channel_created(struct bdev_channel *ch);
void hold_channel_destroyed(struct bdev_channel *ch);

/* ---- track.c ---- */

/* `io` has ended, and its submitter does not know it yet. `ch` takes part in a track. */
void track_note(struct bdev_channel *ch, const struct bdev_io *io);
/* Take part in the track of the device, if it has one. The channel is in the device's list. Errors: -ENOMEM. */
MUST_CHECK int track_channel_created(struct bdev_channel *ch);
void track_channel_destroyed(struct bdev_channel *ch);

/* ---- stats.c ---- */

/* The lock of a device's list of channels. */
void channels_lock(void);
void channels_unlock(void);

void stats_bdev_init(struct bdev *bdev);
void stats_channel_add(struct bdev_channel *ch);
/* Adds its counts to the bdev's. */
void stats_channel_remove(struct bdev_channel *ch);

#endif
