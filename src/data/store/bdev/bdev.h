/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bdev - block devices: the layer between a request and a backend.
 *
 *   bdev_read(io, channel, ...) -> [split] -> [queue] -> backend->submit(io) -> bdev_io_complete(io) -> io->done(io)
 *
 * A *bdev* is a name, a geometry, limits and a backend's functions. A *descriptor* is one opening of it. A *channel* is one
 * thread's access to it: the backend's per-thread state, statistics, and the queue of I/O that the backend cannot accept
 * now. The caller owns the storage of each `struct bdev_io` (embedded in its request), so submission allocates nothing and
 * cannot fail for lack of it. An I/O that exceeds the device's limits is split into children, which belong to the channel;
 * it waits there if none is free.
 *
 * Bdevs are registered, opened and unregistered on the control thread. I/O runs on the channel's thread, and `done` is
 * called there exactly once, possibly before bdev_read() returns (null and malloc complete at once). `done` may submit
 * again: the core bounds the nesting.
 *
 * Time: the caller passes the tick of submission, the backend that of completion. The core reads no clock. A backend that
 * does no work worth measuring completes with bdev_io_dispatch_tick(); the latency is then correctly 0.
 *
 * Lengths and positions are in blocks of the bdev. The result is an enum io_status; the target maps it to an NVMe status.
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
#include "base/observe/trace/latency.h"
#include "fathom/trace/trace.h"
#include "data/store/bdev/states.gen.h" /* enum io_type, enum io_status, enum bdev_io_state, enum stats_reset */

enum {
	BDEV_NAME_BYTES_MAX = 256, /* with the NUL */
	BDEV_BLOCK_BYTES_MIN = 512,
	BDEV_BLOCK_BYTES_MAX = 65536,
	BDEV_BUFFER_ALIGNMENT_MAX = 4096,
	BDEV_IO_BACKEND_BYTES = 128, /* a backend's scratch in each I/O */
	BDEV_IO_CHILDREN_MAX = 8,    /* of one split I/O, in flight at a time */
	BDEV_ZEROES_BYTES = 8 << 20, /* see bdev_zeroes() */
	BDEV_STATUSES_MAX = 16,	     /* room for enum io_status in arrays */
	BDEV_TYPES_MAX = 8,	     /* likewise for enum io_type */
};

struct bdev;
struct bdev_desc;
struct bdev_channel;
struct bdev_io;
struct channel;

typedef void (*bdev_done_fn)(struct bdev_io *io, enum io_status status);

/*
 * One I/O. The caller owns the storage, initialises it once with bdev_io_init() and lends it from submission until `done`.
 * The fields above the line may be read by any code on the thread, and keep their values after done() until the next
 * submission. The caller sets only `parent` and `is_durable`, before it submits.
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
	bool is_durable; /* a write is durable when it ends; the caller's, for a device with `durable_writes` */
	uint8_t reserved[3];
	const struct trace_object *parent; /* the request that this I/O belongs to, for the trace; NULL: none */
	/* ---- */
	bdev_done_fn done;
	uint64_t submit_tick;
	STAILQ_ENTRY(bdev_io) link;
	struct bdev_io *split_parent; /* child */
	/* parent: how many blocks its children have, and where the next child's part of the vector begins */
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

/* Receives a bdev's configuration key by key, for save_config and bdev_get_bdevs. */
struct bdev_visitor {
	void *ctx;
	void (*string)(void *ctx, const char *key, const char *value);
	void (*number)(void *ctx, const char *key, uint64_t value);
	void (*boolean)(void *ctx, const char *key, bool value);
};

/* The functions of a backend. */
struct bdev_ops {
	/*
	 * Start `io`, on its channel's thread. It ends with bdev_io_complete(), from inside this call or later on this
	 * thread. -EAGAIN: the backend cannot accept it now; the core queues it and retries after the next completion on
	 * the channel (or soon, if nothing is in flight). Another negative errno: the I/O ends with that error.
	 */
	int (*submit)(void *channel_ctx, struct bdev_io *io);
	/*
	 * Whether submit() handles `type`; constant. The core emulates COMPARE (reads and compares), WRITE_ZEROES (writes
	 * zeroes; also if it ends with IO_UNSUPPORTED), FLUSH (if there is no write cache) and RESET. A backend with RESET
	 * gets it first, ends its long-running I/O with IO_ABORTED, then completes the reset.
	 */
	bool (*supports)(const struct bdev *bdev, enum io_type type);
	/* NULL: nothing to do. Errors of channel_create: negative errno; bdev_channel_get() then returns NULL. */
	int (*channel_create)(struct bdev *bdev, void *channel_ctx);
	void (*channel_destroy)(struct bdev *bdev, void *channel_ctx);
	size_t channel_ctx_bytes;
	/*
	 * The last user is gone: begin to close what may block, on another thread, and call bdev_closed() on the control
	 * thread, now or later. NULL: there is no such thing.
	 */
	void (*close)(struct bdev *bdev);
	/* It is closed: free the structure that embeds `bdev`. Control thread. */
	void (*destroy)(struct bdev *bdev);
	const char *kind;	   /* "null", "malloc", "uring", "aio", "error" */
	const char *create_method; /* the RPC that creates one, e.g. "bdev_null_create"; NULL: not in the configuration */
	/* The parameters with which create_method recreates this bdev. With create_method only. */
	void (*describe_config)(const struct bdev *bdev, const struct bdev_visitor *visitor);
	/* The contents of `driver_specific` in bdev_get_bdevs, under the key `driver`. NULL: none. */
	const char *driver;
	void (*describe_driver)(const struct bdev *bdev, const struct bdev_visitor *visitor);
};

/* Statistics of a bdev, see bdev_stats_get(). */
struct bdev_stats {
	uint64_t bytes_read, read_ops;
	uint64_t bytes_written, write_ops; /* writes of zeroes included */
	uint64_t bytes_unmapped, unmap_ops;
	uint64_t flush_ops, compare_ops, reset_ops;
	/* max and min over the ops since these two were last reset; both 0 without ops */
	uint64_t read_latency_ticks, read_latency_ticks_max, read_latency_ticks_min;
	uint64_t write_latency_ticks, write_latency_ticks_max, write_latency_ticks_min;
	uint64_t unmap_latency_ticks, unmap_latency_ticks_max, unmap_latency_ticks_min;
	uint64_t queue_depth;		    /* now: submitted and not done */
	uint64_t queued;		    /* now: waiting for the backend (each child of a split I/O counts) */
	uint64_t errors[BDEV_STATUSES_MAX]; /* by enum io_status; ops count these too, bytes and latencies do not */
};

/* Kinds of I/O that have a histogram of latencies; writes of zeroes are writes. */
enum bdev_latency { BDEV_LATENCY_READ, BDEV_LATENCY_WRITE, BDEV_LATENCY_OTHER, BDEV_LATENCIES_MAX };

/* What a bdev did since it was registered, whatever was reset. Failed I/Os have no latency and no bytes. */
struct bdev_figures {
	struct {
		uint64_t ops, bytes, latency_ticks;
	} types[BDEV_TYPES_MAX]; /* by enum io_type; ops count the failed ones, too */
	uint64_t errors[BDEV_STATUSES_MAX];
	uint64_t latency[BDEV_LATENCIES_MAX][LATENCY_BUCKETS]; /* each bucket counts its own */
	uint64_t queue_depth, queued;			       /* as in struct bdev_stats */
};

/* Something that bdev_wait_gone() waits for. */
struct bdev_going {
	const char *name; /* lent */
	TAILQ_ENTRY(bdev_going) link;
};

/* A backend embeds this in its own structure, fills the fields above the line, and registers it. */
struct bdev {
	char name[BDEV_NAME_BYTES_MAX]; /* of the control thread, which may change it; others: bdev_name() */
	const char *product;		/* "Null disk", "Malloc disk", "URING bdev" */
	uint8_t uuid[16];		/* all zero: bdev_register() generates one */
	uint32_t block_bytes;
	uint32_t physical_block_bytes; /* 0: block_bytes */
	uint64_t block_count;	       /* changes: see bdev_block_count() */
	/* the core splits I/O that exceeds these; 0: no limit */
	uint32_t io_blocks_max;	  /* of a read, write or compare */
	uint32_t iov_count_max;	  /* likewise */
	uint32_t boundary_blocks; /* no I/O on a range crosses a multiple of this */
	/*
	 * 0 or 1: no alignment needed. Else an I/O goes through bounce buffers of the core if an iovec is not aligned to
	 * this, or not a whole number of blocks long.
	 */
	uint32_t buffer_alignment;
	bool completes_inline; /* every I/O completes inside submit: buffers may be reused when it returns */
	bool reads_zeroes;     /* every read returns zeroes: a caller may read into bdev_zeroes() to save the filling */
	bool write_cache;      /* has a volatile cache: flush matters */
	bool durable_writes;   /* a write may be durable by itself: see `is_durable` of struct bdev_io */
	bool read_only;	       /* may become true: see bdev_is_read_only() */
	bool has_identity;     /* `uuid` is that of the data: another device of the same name has another one */
	const struct bdev_ops *ops;
	uint64_t share_waits; /* I/Os that waited because the device used its whole share; written by the backend, atomic */
	/* ---- */
	struct trace_object trace;
	const struct trace_istr *name_istr;	/* see bdev_name_istr() */
	const struct trace_istr *reserved_name; /* NULL: none; see bdev_reserve_name() */
	bool claimed, removing, unregistered;
	uint32_t open_count;
	TAILQ_HEAD(, bdev_desc) descriptors;
	TAILQ_ENTRY(bdev) link;
	LIST_ENTRY(bdev) by_name;
	void (*removed)(void *ctx);
	void *removed_ctx;
	struct bdev_going going; /* while it is removed */
	/* under the accounts' lock */
	TAILQ_HEAD(, bdev_channel) channels;
	struct bdev_hold *hold;		    /* NULL: none; see hold.h */
	struct bdev_track *track;	    /* NULL: none; see track.h */
	struct bdev_stats stats_closed;	    /* sum over destroyed channels */
	struct bdev_figures figures_closed; /* likewise */
};

/* ---- the registry; control thread ---- */

/*
 * Errors (explained): -EEXIST (the name is taken), -EINVAL (name, block size, no blocks, limits), -ENOMEM. `bdev` is lent
 * until ops->destroy; after an error it is the caller's as before.
 */
MUST_CHECK int bdev_register(struct bdev *bdev, struct fathom_fault *why);

/*
 * Remove `bdev`. The core calls `removed` of every descriptor; its owner must then close it, and its I/O continues until
 * then. After the last close and the end of the last channel, ops->destroy runs and then `done(ctx)` (may be NULL), on the
 * control thread, possibly before this returns. -EBUSY: removal is in progress.
 */
MUST_CHECK int bdev_unregister(struct bdev *bdev, void (*done)(void *ctx), void *ctx);

/* For a backend, after ops->close. */
void bdev_closed(struct bdev *bdev);

/*
 * The bdevs whose removal is in progress: an I/O, a channel or a descriptor is left, or a file is being closed. Also files
 * that are not of a registered bdev, between these two calls: they are being opened or closed.
 */
void bdev_going_begin(struct bdev_going *going, const char *name);
void bdev_going_end(struct bdev_going *going);
uint32_t bdev_going_count(void);
/* The one after `going` (NULL: the first), in the order in which they began; NULL: there are no more. */
const struct bdev_going *bdev_going_next(const struct bdev_going *going);
/* Call `done(ctx)` when that number is 0, possibly before this returns. One call at a time. */
void bdev_wait_gone(void (*done)(void *ctx), void *ctx);

/*
 * Change the name, also while the bdev is in use. bdev_reserve_name() keeps `name` free until bdev_rename() takes it, or
 * bdev_drop_name() gives the reservation up. Errors (explained): -EEXIST (another bdev has or will get it), -EINVAL.
 */
MUST_CHECK int bdev_reserve_name(struct bdev *bdev, const char *name, struct fathom_fault *why);
void bdev_drop_name(struct bdev *bdev);
void bdev_rename(struct bdev *bdev);

/* The present name. Never freed. Any thread. */
static inline const struct trace_istr *bdev_name_istr(const struct bdev *bdev)
{
	return __atomic_load_n(&bdev->name_istr, __ATOMIC_RELAXED);
}

static inline const char *bdev_name(const struct bdev *bdev)
{
	return bdev_name_istr(bdev)->text;
}

/* Record in the trace that `bdev` reached `condition`; `value`: see probes.def. Any thread. */
void bdev_note_condition(struct bdev *bdev, enum bdev_condition condition, uint64_t value);

struct bdev *bdev_find(const char *name); /* NULL: none, or its removal is in progress */
struct bdev *bdev_first(void);
struct bdev *bdev_next(const struct bdev *bdev);

/* Errors: -ENODEV, -ENOMEM. `removed(ctx)` (may be NULL) is called on the control thread when the bdev's removal starts. */
MUST_CHECK int bdev_open(const char *name, void (*removed)(void *ctx), void *ctx, struct bdev_desc **desc_ret);
/* The caller has put all channels that it got through `desc`. Accepts NULL. */
void bdev_close(struct bdev_desc *desc);
struct bdev *bdev_desc_bdev(const struct bdev_desc *desc);

/* The present length in blocks. Any thread. */
static inline uint64_t bdev_block_count(const struct bdev *bdev)
{
	return __atomic_load_n(&bdev->block_count, __ATOMIC_RELAXED);
}

/* Whether it rejects what would change data. Any thread. */
static inline bool bdev_is_read_only(const struct bdev *bdev)
{
	return __atomic_load_n(&bdev->read_only, __ATOMIC_RELAXED);
}

/*
 * The backend rejects what would change data, from now on and for ever: with IO_READ_ONLY. The core calls `resized(ctx)` of
 * each descriptor, so that its users report it.
 */
void bdev_make_read_only(struct bdev *bdev);

/*
 * The backend made the device longer: `block_count` blocks, not fewer than now. All channels accept the new blocks first,
 * then the core calls `resized(ctx)` of each descriptor, on the control thread; `ctx` is that of bdev_open().
 */
void bdev_grow(struct bdev *bdev, uint64_t block_count);
/*
 * The backend will make the device shorter, after `shrunk(ctx, error)`. The core calls `resized(ctx)` of each descriptor
 * first, then all channels end new I/O beyond the end with IO_INVALID, then earlier I/O is drained, and new I/O waits.
 * Errors of `shrunk`: -EBUSY (it has a hold), -ENODEV (its removal has begun), -ENOMEM, -ETIMEDOUT (earlier I/O
 * did not end within BDEV_DRAIN_SEC): the caller calls bdev_grow().
 */
enum { BDEV_DRAIN_SEC = 5 };
void bdev_shrink(struct bdev *bdev, uint64_t block_count, void (*shrunk)(void *ctx, int error), void *ctx);
void bdev_on_resized(struct bdev_desc *desc, void (*resized)(void *ctx));

/* Mark as used by one exclusive owner (a namespace), and undo that. -EPERM: claimed already. */
MUST_CHECK int bdev_claim(struct bdev *bdev);
void bdev_release(struct bdev *bdev);

/* Whether the backend, or the core for it, can execute an I/O of `type`. Any thread. */
bool bdev_supports(const struct bdev *bdev, enum io_type type);

/* ---- channels and I/O; the channel's thread ---- */

/* The calling thread's channel. NULL: out of memory, or the backend failed to create it (errno). */
struct bdev_channel *bdev_channel_get(struct bdev_desc *desc);
/* The caller must have no I/O in flight on it. */
void bdev_channel_put(struct bdev_channel *channel);
struct bdev *bdev_channel_bdev(const struct bdev_channel *channel);
uint32_t bdev_channel_queue_depth(const struct bdev_channel *channel); /* at the backend and queued */

/* Call once for each storage outside a trace pool. I/Os in a (zeroed) trace pool of type BDEV_IO need no call. */
void bdev_io_init(struct bdev_io *io);

/*
 * Submit an I/O at `now` (a tick; TICK_SHARED allowed). The iovec array and its memory are lent until `done`. The array's
 * elements may change meanwhile and are restored before `done`. The I/O ends with IO_INVALID if the range is empty or not
 * on the device or its length differs from the vector's, with IO_READ_ONLY if it would change a read-only device, with
 * IO_UNSUPPORTED if neither the backend nor the core can execute its type.
 */
void bdev_read(struct bdev_io *io, struct bdev_channel *channel, struct iovec *iov, int iov_count, uint64_t block_index,
	       uint64_t block_count, uint64_t now, bdev_done_fn done);
void bdev_write(struct bdev_io *io, struct bdev_channel *channel, struct iovec *iov, int iov_count, uint64_t block_index,
		uint64_t block_count, uint64_t now, bdev_done_fn done);
/* Ends with IO_MISCOMPARE if the device's bytes differ from the vector's. Not atomic with respect to other I/O. */
void bdev_compare(struct bdev_io *io, struct bdev_channel *channel, struct iovec *iov, int iov_count, uint64_t block_index,
		  uint64_t block_count, uint64_t now, bdev_done_fn done);
/* Success means: every write that completed before this submission is durable. */
void bdev_flush(struct bdev_io *io, struct bdev_channel *channel, uint64_t now, bdev_done_fn done);
/* The blocks read as zeroes afterwards. */
void bdev_unmap(struct bdev_io *io, struct bdev_channel *channel, uint64_t block_index, uint64_t block_count, uint64_t now,
		bdev_done_fn done);
void bdev_write_zeroes(struct bdev_io *io, struct bdev_channel *channel, uint64_t block_index, uint64_t block_count,
		       uint64_t now, bdev_done_fn done);
/*
 * Ends all I/O queued on this channel with IO_ABORTED, resets the backend if it supports that, waits for the I/O at the
 * backend, then completes. I/O submitted meanwhile is queued and runs after the reset.
 */
void bdev_reset(struct bdev_io *io, struct bdev_channel *channel, uint64_t now, bdev_done_fn done);

/* For backends: `io` ended at `now`. On the channel's thread. May call io->done at once. */
void bdev_io_complete(struct bdev_io *io, enum io_status status, uint64_t now);
/* The backend's scratch in `io`. */
static inline void *bdev_io_backend(struct bdev_io *io)
{
	return io->backend;
}
/* The tick at which the backend got `io`. For a backend that completes inside submit without work worth a clock read. */
static inline uint64_t bdev_io_dispatch_tick(const struct bdev_io *io)
{
	return io->story.ticks[BDEV_IO_DISPATCHED] | TICK_SHARED;
}

/* The status for a system call's negative errno; 0 is IO_SUCCESS. */
enum io_status bdev_status_from_errno(int error);

/*
 * BDEV_ZEROES_BYTES of zeroes in read-only memory, backed by one physical page: a source for writes, and a target for reads
 * from a bdev with reads_zeroes. The address is constant and page-aligned. Any thread. The first bdev_register() maps it;
 * an earlier call maps it too, but aborts if that fails.
 */
void *bdev_zeroes(void);

/*
 * ---- statistics; any pthread (values may be a moment old) ----
 *
 * `reset` says which values restart from 0: ALL (all but `queue_depth` and `queued`), MAXMIN (the latency extremes), ERROR
 * (`errors`; the ops that failed stay counted) or NONE. Each count appears in exactly one result, this one or a later one.
 * Only a latency extreme that occurs during the call may be lost.
 */

/* Sum over all channels, destroyed ones included. `bdev` is registered. */
void bdev_stats_get(struct bdev *bdev, enum stats_reset reset, struct bdev_stats *stats_ret);
/* The same without resets, and with histograms. */
void bdev_figures_get(struct bdev *bdev, struct bdev_figures *figures_ret);
/*
 * Call `fn` for each open channel, for per_channel. `fn` must not call these two functions: the lock is held. The sum of
 * destroyed channels is neither reported nor reset.
 */
void bdev_stats_walk(struct bdev *bdev, enum stats_reset reset,
		     void (*fn)(void *ctx, uint64_t thread_id, const struct bdev_stats *stats), void *ctx);

#endif
