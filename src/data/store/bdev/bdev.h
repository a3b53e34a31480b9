/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bdev - block devices: what stands between a request and a backend.
 *
 *   bdev_read(io, channel, ...) -> [split] -> [queue] -> backend->submit(io) -> bdev_io_complete(io) -> io->done(io)
 *
 * A *bdev* is a name, a geometry, limits and a backend's functions. A *descriptor* is one opening of it. A *channel* is one
 * thread's way to it: the backend's per-thread state, statistics, and the queue of what the backend cannot take now. Each
 * I/O is a `struct bdev_io` whose storage is the caller's (embedded in its request), so that submission never fails for
 * want of memory and drops nothing; its children, when it must be split at the device's limits, come from the channel and
 * wait there.
 *
 * Bdevs are registered, opened and unregistered on the control thread; I/O happens on the thread of the channel, and `done`
 * is called there, exactly once, possibly before bdev_read() returns (null and malloc complete at once). It may submit
 * again: the core bounds how deep that nests.
 *
 * Time: the caller brings the tick of submission, the backend that of completion. The core reads no clock; a backend that
 * does no work worth measuring completes with bdev_io_dispatch_tick(), and the latency is then 0, which is the truth.
 *
 * Lengths and positions are in blocks of the bdev. The result is an enum io_status; the NVMe status it becomes is the
 * target's business.
 */
#ifndef STORE_BDEV_BDEV_H
#define STORE_BDEV_BDEV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/uio.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/must.h"
#include "fathom/trace/trace.h"
#include "data/store/bdev/states.gen.h" /* enum io_type, enum io_status, enum bdev_io_state, enum stats_reset */

enum {
	BDEV_NAME_BYTES_MAX = 256, /* with the NUL */
	BDEV_BLOCK_BYTES_MIN = 512,
	BDEV_BLOCK_BYTES_MAX = 65536,
	BDEV_BUFFER_ALIGNMENT_MAX = 4096,
	BDEV_IO_BACKEND_BYTES = 128, /* a backend's scratch in each I/O */
	BDEV_IO_CHILDREN_MAX = 8,    /* of one split I/O under way at a time */
	BDEV_ZEROES_BYTES = 8 << 20, /* see bdev_zeroes() */
	BDEV_STATUSES_MAX = 16,	     /* room for enum io_status in arrays */
};

struct bdev;
struct bdev_desc;
struct bdev_channel;
struct bdev_io;
struct channel;

typedef void (*bdev_done_fn)(struct bdev_io *io, enum io_status status);

/*
 * One I/O. The caller owns the storage, initialises it once with bdev_io_init() and lends it from submission until `done`.
 * Fields up to the line are for everybody to read, and stay after done() until the next submission. The caller sets only
 * `parent`, before it submits.
 */
struct bdev_io {
	struct trace_story story; /* first: lies in the trace file with the caller's pool */
	struct bdev_channel *channel;
	enum io_type type;
	enum io_status status;
	uint64_t block_index;
	uint64_t block_count;
	struct iovec *iov; /* lent; NULL for flush, unmap, write zeroes, reset */
	int iov_count;
	uint32_t reserved;
	const struct trace_object *parent; /* the request on whose behalf, for the trace; NULL: none */
	/* ---- */
	bdev_done_fn done;
	uint64_t submit_tick;
	STAILQ_ENTRY(bdev_io) link;
	struct bdev_io *split_parent; /* child */
	/* parent: how far it has been given to children */
	uint64_t split_blocks;
	size_t split_iov_offset;
	uint32_t split_iov_index;
	uint8_t split_children;
	uint8_t split_kind;
	bool split_busy, split_waiting;
	uint8_t backend[BDEV_IO_BACKEND_BYTES] __attribute__((aligned(CACHE_LINE_BYTES)));
} CACHE_ALIGNED;
static_assert(sizeof(struct bdev_io) == 384, "six cache lines, of which a backend without scratch touches four");
static_assert(offsetof(struct bdev_io, story) == 0, "pools of them have their stories at 0");
static_assert(BDEV_IO_CHILDREN_MAX <= UINT8_MAX, "split_children counts them");
static_assert(BDEV_ZEROES_BYTES % BDEV_BLOCK_BYTES_MAX == 0, "zeroes in whole blocks, of any size");

STAILQ_HEAD(bdev_io_queue, bdev_io);

/* How a bdev says what it is made of: key by key, for save_config and bdev_get_bdevs. */
struct bdev_visitor {
	void *ctx;
	void (*string)(void *ctx, const char *key, const char *value);
	void (*number)(void *ctx, const char *key, uint64_t value);
	void (*boolean)(void *ctx, const char *key, bool value);
};

/* What a backend provides. */
struct bdev_ops {
	/*
	 * Begin `io`, on its channel's thread. It ends with bdev_io_complete(), from inside this call or later on this
	 * thread. -EAGAIN: cannot take it now; the core queues it and offers it again after the next completion on the
	 * channel (or soon, when nothing is under way). Another negative errno: it has ended with that error.
	 */
	int (*submit)(void *channel_ctx, struct bdev_io *io);
	/*
	 * What submit() can do; constant. The core makes up for COMPARE (reads and compares), WRITE_ZEROES (writes zeroes;
	 * also where it ends with IO_UNSUPPORTED after all), FLUSH (if there is no write cache) and RESET. A backend with
	 * RESET is given it first, ends with IO_ABORTED what would else be long in coming, then completes the reset.
	 */
	bool (*supports)(const struct bdev *bdev, enum io_type type);
	/* NULL: nothing to do. Errors of channel_create: negative errno; the channel is then not got. */
	int (*channel_create)(struct bdev *bdev, void *channel_ctx);
	void (*channel_destroy)(struct bdev *bdev, void *channel_ctx);
	size_t channel_ctx_bytes;
	/* The last user has gone: free what `bdev` is embedded in. Control thread. */
	void (*destroy)(struct bdev *bdev);
	const char *kind;	   /* "null", "malloc", "uring", "aio", "error" */
	const char *create_method; /* the RPC that makes one, e.g. "bdev_null_create" */
	/* The parameters that create_method needs to make this one again. */
	void (*describe_config)(const struct bdev *bdev, const struct bdev_visitor *visitor);
	/* What stands in `driver_specific` of bdev_get_bdevs under the key `driver`. NULL: nothing. */
	const char *driver;
	void (*describe_driver)(const struct bdev *bdev, const struct bdev_visitor *visitor);
};

/* What has gone through a bdev, see bdev_stats_get(). */
struct bdev_stats {
	uint64_t bytes_read, read_ops;
	uint64_t bytes_written, write_ops; /* writes of zeroes included */
	uint64_t bytes_unmapped, unmap_ops;
	uint64_t flush_ops, compare_ops, reset_ops;
	/* max and min over the ops since these two were reset; both 0 if there were none */
	uint64_t read_latency_ticks, read_latency_ticks_max, read_latency_ticks_min;
	uint64_t write_latency_ticks, write_latency_ticks_max, write_latency_ticks_min;
	uint64_t unmap_latency_ticks, unmap_latency_ticks_max, unmap_latency_ticks_min;
	uint64_t queue_depth;		    /* now: submitted and not done */
	uint64_t queued;		    /* now: waiting for the backend (pieces of split I/O each for itself) */
	uint64_t errors[BDEV_STATUSES_MAX]; /* by enum io_status; ops count these too, bytes and latencies do not */
};

/* Registered by a backend, which embeds it in its own structure and fills it down to the line. */
struct bdev {
	char name[BDEV_NAME_BYTES_MAX];
	const char *product; /* "Null disk", "Malloc disk", "URING bdev" */
	uint8_t uuid[16];    /* all zero: bdev_register() makes one */
	uint32_t block_bytes;
	uint32_t physical_block_bytes; /* 0: block_bytes */
	uint64_t block_count;
	/* I/O beyond these is split; 0: no limit */
	uint32_t io_blocks_max;	  /* of a read, write or compare */
	uint32_t iov_count_max;	  /* likewise */
	uint32_t boundary_blocks; /* no I/O on a range crosses a multiple of this */
	/*
	 * 0 or 1: buffers may lie anywhere. Else an I/O with an iovec that is not aligned to this, or not whole blocks
	 * long, goes through buffers of the core's.
	 */
	uint32_t buffer_alignment;
	bool completes_inline; /* every I/O completes inside submit: buffers may be reused when it returns */
	bool reads_zeroes;     /* every read gives zeroes: cheapest into bdev_zeroes() */
	bool write_cache;      /* has a volatile cache: flush matters */
	bool read_only;
	const struct bdev_ops *ops;
	uint64_t share_waits; /* by the backend, any thread, atomic: I/Os that waited as the device held all that it may */
	/* ---- */
	struct trace_object trace;
	const struct trace_istr *name_istr;
	bool claimed, removing, unregistered;
	uint32_t open_count;
	TAILQ_HEAD(, bdev_desc) descriptors;
	TAILQ_ENTRY(bdev) link;
	void (*removed)(void *ctx);
	void *removed_ctx;
	/* under the accounts' lock */
	TAILQ_HEAD(, bdev_channel) channels;
	struct bdev_stats stats_closed; /* of channels that have gone */
};

/* ---- the registry; control thread ---- */

/*
 * Errors (explained): -EEXIST (the name is taken), -EINVAL (name, block size, no blocks, limits), -ENOMEM. `bdev` is lent
 * until ops->destroy; after an error it is the caller's as before.
 */
MUST_CHECK int bdev_register(struct bdev *bdev, struct fault *why);

/*
 * Take `bdev` away: those who have it open are told (their `removed` is called) and must close it; until they do, their I/O
 * goes on. When the last one has, and the last channel has gone, ops->destroy runs and then `done(ctx)` (NULL: nobody to
 * tell), on the control thread, possibly before this returns. -EBUSY: being removed already.
 */
MUST_CHECK int bdev_unregister(struct bdev *bdev, void (*done)(void *ctx), void *ctx);

/* How many are being removed and are not gone: an I/O, a channel or a descriptor is left. */
uint32_t bdev_going_count(void);
/* Call `done(ctx)` when none is, perhaps before this returns. One call at a time. */
void bdev_wait_gone(void (*done)(void *ctx), void *ctx);

/* Record in the trace that `bdev` came to `condition`; `value`: see probes.def. Any thread. */
void bdev_note_condition(struct bdev *bdev, enum bdev_condition condition, uint64_t value);

struct bdev *bdev_find(const char *name); /* NULL: none, or being removed */
struct bdev *bdev_first(void);
struct bdev *bdev_next(const struct bdev *bdev);

/* Errors: -ENODEV, -ENOMEM. `removed(ctx)` (NULL: not told) is called on the control thread when the bdev goes away. */
MUST_CHECK int bdev_open(const char *name, void (*removed)(void *ctx), void *ctx, struct bdev_desc **desc_ret);
/* All channels got through `desc` have been put. Accepts NULL. */
void bdev_close(struct bdev_desc *desc);
struct bdev *bdev_desc_bdev(const struct bdev_desc *desc);

/* Mark as used by one alone (a namespace), and back. -EPERM: claimed already. */
MUST_CHECK int bdev_claim(struct bdev *bdev);
void bdev_release(struct bdev *bdev);

/* Whether an I/O of `type` can be done, by the backend or with the core's help. Any thread. */
bool bdev_supports(const struct bdev *bdev, enum io_type type);

/* ---- channels and I/O; the channel's thread ---- */

/* The calling thread's channel. NULL: no memory, or the backend refused (errno). */
struct bdev_channel *bdev_channel_get(struct bdev_desc *desc);
/* No I/O of the caller's is under way on it. */
void bdev_channel_put(struct bdev_channel *channel);
struct bdev *bdev_channel_bdev(const struct bdev_channel *channel);
uint32_t bdev_channel_queue_depth(const struct bdev_channel *channel); /* under way at the backend and queued */

/* Once for each storage that is in no trace pool; those in a (zeroed) pool of type BDEV_IO have their identity already. */
void bdev_io_init(struct bdev_io *io);

/*
 * Begin an I/O at `now` (a tick; TICK_SHARED allowed). The iovec array and the memory behind it are lent until `done`.
 * The array's elements may be changed meanwhile and are restored before `done`. A range that is empty or not on the device,
 * or a length other than the vector's, ends with IO_INVALID; what changes a read-only device with IO_READ_ONLY; a type that
 * cannot be done with IO_UNSUPPORTED.
 */
void bdev_read(struct bdev_io *io, struct bdev_channel *channel, struct iovec *iov, int iov_count, uint64_t block_index,
	       uint64_t block_count, uint64_t now, bdev_done_fn done);
void bdev_write(struct bdev_io *io, struct bdev_channel *channel, struct iovec *iov, int iov_count, uint64_t block_index,
		uint64_t block_count, uint64_t now, bdev_done_fn done);
/* Ends with IO_MISCOMPARE where the device's bytes differ from the vector's. Not atomic with other I/O. */
void bdev_compare(struct bdev_io *io, struct bdev_channel *channel, struct iovec *iov, int iov_count, uint64_t block_index,
		  uint64_t block_count, uint64_t now, bdev_done_fn done);
/* Everything whose completion was before this submission is durable when it succeeds. */
void bdev_flush(struct bdev_io *io, struct bdev_channel *channel, uint64_t now, bdev_done_fn done);
/* The blocks read as zeroes afterwards. */
void bdev_unmap(struct bdev_io *io, struct bdev_channel *channel, uint64_t block_index, uint64_t block_count, uint64_t now,
		bdev_done_fn done);
void bdev_write_zeroes(struct bdev_io *io, struct bdev_channel *channel, uint64_t block_index, uint64_t block_count,
		       uint64_t now, bdev_done_fn done);
/*
 * Ends everything queued on this channel with IO_ABORTED, has the backend end what it can, waits for what it holds, then
 * completes. What is submitted meanwhile waits and is done afterwards.
 */
void bdev_reset(struct bdev_io *io, struct bdev_channel *channel, uint64_t now, bdev_done_fn done);

/* By backends: `io` has ended at `now`. On the channel's thread. May call io->done at once. */
void bdev_io_complete(struct bdev_io *io, enum io_status status, uint64_t now);
/* The backend's scratch in `io`. */
static inline void *bdev_io_backend(struct bdev_io *io)
{
	return io->backend;
}
/* For a backend that completes inside submit without work worth a clock read: when `io` was given to it. */
static inline uint64_t bdev_io_dispatch_tick(const struct bdev_io *io)
{
	return io->story.ticks[BDEV_IO_DISPATCHED] | TICK_SHARED;
}

/* What a system call's negative errno is as a status; 0 is IO_SUCCESS. */
enum io_status bdev_status_from_errno(int error);

/*
 * BDEV_ZEROES_BYTES of zeroes that nobody can write to, all the same few physical pages: to write from, and to "read" into
 * from a bdev that says reads_zeroes. The same address always; aligned to a page. Any thread. Made by the first
 * bdev_register(); who comes earlier aborts when memory ends.
 */
void *bdev_zeroes(void);

/*
 * ---- statistics; any pthread (values may be a moment old) ----
 *
 * Who gets them says what begins at 0 again with that: ALL (all but what is now), MAXMIN (the latencies' extremes), ERROR
 * (`errors`; the ops that ended so stay counted) or NONE. What is counted meanwhile is in what was got or in what will be;
 * only an extreme that comes at that very moment may be in neither.
 */

/* Sum over all channels, those that have been closed included. `bdev` is registered. */
void bdev_stats_get(struct bdev *bdev, enum stats_reset reset, struct bdev_stats *stats_ret);
/*
 * One open channel after the other, for per_channel; `fn` must not call into this part of the door. What closed channels
 * left is neither told nor reset.
 */
void bdev_stats_walk(struct bdev *bdev, enum stats_reset reset,
		     void (*fn)(void *ctx, uint64_t thread_id, const struct bdev_stats *stats), void *ctx);

#endif
