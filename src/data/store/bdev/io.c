/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * io - the states of one I/O: submitted, dispatched, done; queued while the backend cannot accept it.
 *
 * The hot path is submit_io() -> dispatch_io() -> backend -> bdev_io_complete() -> end_io(): no allocation, no lock, no
 * clock. The rare cases (splitting, reset, the queue) cost one test each here; their code is elsewhere.
 *
 * The queue is first in, first out: while it is not empty, new I/O joins its tail. The core submits it to the backend after
 * each completion and when the outermost submission returns. If the backend still returns -EAGAIN and nothing is in
 * flight, a poller retries.
 *
 * A `done` may submit, and a backend may complete inside submit, so each may nest in the other. Beyond NESTING_MAX new I/O
 * is queued, and the outermost submission drains the queue: this bounds the stack for every caller.
 */
#include <errno.h>
#include <string.h>

#include "data/store/bdev/internal.h"

static inline bool is_data(enum io_type type)
{
	return type == IO_TYPE_READ || type == IO_TYPE_WRITE || type == IO_TYPE_COMPARE;
}

void bdev_io_init(struct bdev_io *io)
{
	memset(io, 0, sizeof(*io));
	trace_object_init(&io->story.trace, TRACE_OBJECT_BDEV_IO);
}

/* ---- the end ---- */

static inline enum bdev_latency latency_of(enum io_type type)
{
	if (type == IO_TYPE_READ)
		return BDEV_LATENCY_READ;
	return type == IO_TYPE_WRITE || type == IO_TYPE_WRITE_ZEROES ? BDEV_LATENCY_WRITE : BDEV_LATENCY_OTHER;
}

static inline void count_op(struct bdev_channel *ch, const struct bdev_io *io, uint64_t now)
{
	struct type_counters *counters = &ch->counters.types[io->type];
	uint64_t from = io->submit_tick & ~TICK_SHARED, to = now & ~TICK_SHARED;
	uint64_t ticks = to > from ? to - from : 0;

	counter_add(&counters->ops, 1);
	counter_add(&counters->bytes, io->block_count * ch->block_bytes);
	counter_add(&counters->latency_ticks, ticks);
	counter_add(&ch->latency[latency_of(io->type)][latency_bucket(ticks)], 1);
	if (unlikely(ticks > counters->latency_ticks_max))
		counter_set(&counters->latency_ticks_max, ticks);
	if (unlikely(ticks < counters->latency_ticks_min))
		counter_set(&counters->latency_ticks_min, ticks);
}

static COLD void count_error(struct bdev_channel *ch, const struct bdev_io *io, enum io_status status, uint64_t now)
{
	must((unsigned int)status < BDEV_STATUSES_MAX);
	must(status != IO_SUCCESS);
	counter_add(&ch->counters.types[io->type].ops, 1);
	counter_add(&ch->counters.errors[status], 1);
	probe_bdev_io_error(now | TICK_SHARED, ch->name, status, io->block_index);
}

static inline void end_io(struct bdev_channel *ch, struct bdev_io *io, enum io_status status, uint64_t now)
{
	if (likely(status == IO_SUCCESS))
		count_op(ch, io, now);
	else
		count_error(ch, io, status, now);
	counter_set(&ch->queue_depth, ch->queue_depth - 1);
	ch->changing -= changes_data(io->type);
	if (unlikely(ch->draining))
		hold_check_drained(ch);
	if (unlikely(ch->tracking))
		track_note(ch, io);
	io->status = status;
	probe_bdev_io_done(now, io, (uint32_t)ch->queue_depth, status, ch->name);
	io->done(io, status);
}

void io_finish(struct bdev_channel *ch, struct bdev_io *io, enum io_status status, uint64_t now)
{
	must(io->split_parent == NULL);
	must(io->channel == ch);
	must(ch->queue_depth > 0);
	end_io(ch, io, status, now);
}

/* Completions of a child, of a reset, or of an I/O that the core now emulates. True: this function handled it. */
static bool complete_special_io(struct bdev_channel *ch, struct bdev_io *io, enum io_status status, uint64_t now)
{
	if (io->split_parent) {
		split_child_ended(ch, io, status, now);
		return true;
	}
	if (io->type == IO_TYPE_RESET) {
		reset_backend_done(ch, io, status, now);
		return true;
	}
	if (io->type == IO_TYPE_WRITE_ZEROES && status == IO_UNSUPPORTED && ch->may_split) {
		split_begin(ch, io, SPLIT_ZEROES, now);
		return true;
	}
	return false;
}

void bdev_io_complete(struct bdev_io *io, enum io_status status, uint64_t now)
{
	struct bdev_channel *ch = io->channel;
	bool special;

	must(io->story.state == BDEV_IO_DISPATCHED);
	must(ch->in_flight > 0);
	ch->in_flight--;
	special = io->split_parent || io->type == IO_TYPE_RESET || status != IO_SUCCESS;
	if (likely(!special) || !complete_special_io(ch, io, status, now))
		end_io(ch, io, status, now);
	if (likely(ch->nesting > 0))
		return; /* the outermost submission drains the queue and ends a reset */
	if (unlikely(ch->reset))
		reset_progress(ch, now);
	if (unlikely(!STAILQ_EMPTY(&ch->queue)))
		queue_drain(ch, now);
}

/* ---- to the backend ---- */

static COLD void queue_io(struct bdev_channel *ch, struct bdev_io *io, uint64_t now, bool at_head)
{
	must(io->channel == ch);
	must((ch->queued == 0) == STAILQ_EMPTY(&ch->queue));
	counter_add(&ch->queued, 1);
	probe_bdev_io_queue(now | TICK_SHARED, io, (uint32_t)ch->queued);
	if (at_head)
		STAILQ_INSERT_HEAD(&ch->queue, io, link);
	else
		STAILQ_INSERT_TAIL(&ch->queue, io, link);
}

/* False: the backend cannot accept it now; it is queued, at the head if it came from there, else at the tail. */
static inline bool submit_to_backend(struct bdev_channel *ch, struct bdev_io *io, uint64_t now, bool from_queue)
{
	int rc;

	ch->in_flight++;
	ch->nesting++;
	probe_bdev_io_dispatch(now | TICK_SHARED, io, ch->in_flight, io->block_index);
	rc = ch->submit(ch->backend_ctx, io);
	if (unlikely(rc != 0)) {
		must(rc < 0);
		must(io->story.state == BDEV_IO_DISPATCHED);
		if (rc != -EAGAIN) {
			bdev_io_complete(io, bdev_status_from_errno(rc), now | TICK_SHARED);
		} else {
			ch->in_flight--;
			queue_io(ch, io, now, from_queue);
		}
	}
	ch->nesting--;
	return rc != -EAGAIN;
}

/* After -EAGAIN the next completion retries; if nothing is in flight, the poller must. */
static COLD void arm_retry_if_idle(struct bdev_channel *ch)
{
	must(!STAILQ_EMPTY(&ch->queue));
	if (ch->in_flight == 0)
		channel_retry_soon(ch);
}

void queue_drain(struct bdev_channel *ch, uint64_t now)
{
	struct bdev_io *io;
	unsigned int taken = 0;

	must(ch->nesting == 0);
	while (!ch->reset && (io = STAILQ_FIRST(&ch->queue))) {
		if (taken++ == DRAIN_MAX) {
			channel_retry_soon(ch);
			return;
		}
		must(ch->queued > 0);
		must(io->story.state == BDEV_IO_QUEUED);
		STAILQ_REMOVE_HEAD(&ch->queue, link);
		counter_set(&ch->queued, ch->queued - 1);
		if (!submit_to_backend(ch, io, now, true)) {
			arm_retry_if_idle(ch);
			return;
		}
	}
	if (ch->reset)
		reset_progress(ch, now);
}

static COLD void drain_after_outermost(struct bdev_channel *ch, uint64_t now)
{
	must(ch->nesting == 0);
	if (ch->reset)
		reset_progress(ch, now);
	if (!STAILQ_EMPTY(&ch->queue))
		queue_drain(ch, now);
}

static inline void dispatch_io(struct bdev_channel *ch, struct bdev_io *io, uint64_t now)
{
	if (unlikely(!STAILQ_EMPTY(&ch->queue) || ch->nesting >= NESTING_MAX || ch->reset)) {
		queue_io(ch, io, now, false);
		return;
	}
	if (unlikely(!submit_to_backend(ch, io, now, false)))
		arm_retry_if_idle(ch);
	else if (unlikely((!STAILQ_EMPTY(&ch->queue) || ch->reset) && ch->nesting == 0))
		drain_after_outermost(ch, now);
}

void io_dispatch(struct bdev_channel *ch, struct bdev_io *io, uint64_t now)
{
	dispatch_io(ch, io, now);
}

/* ---- submission ---- */

static inline uint64_t vector_bytes(const struct iovec *iov, int iov_count)
{
	uint64_t bytes = 0;

	for (int i = 0; i < iov_count; i++)
		bytes += iov[i].iov_len;
	return bytes;
}

/* IO_SUCCESS: valid. */
static inline enum io_status validate_io(const struct bdev_channel *ch, const struct bdev_io *io)
{
	if (unlikely(!(ch->able & BIT(io->type))))
		return changes_data(io->type) && bdev_is_read_only(ch->bdev) ? IO_READ_ONLY : IO_UNSUPPORTED;
	if (io->type == IO_TYPE_FLUSH || io->type == IO_TYPE_RESET)
		return IO_SUCCESS;
	if (unlikely(io->block_count - 1 >= ch->block_count)) /* also if it is 0 */
		return IO_INVALID;
	if (unlikely(io->block_index > ch->block_count - io->block_count))
		return IO_INVALID;
	if (is_data(io->type) &&
	    unlikely(io->iov_count < 1 || vector_bytes(io->iov, io->iov_count) != io->block_count * ch->block_bytes))
		return IO_INVALID;
	return IO_SUCCESS;
}

COLD void io_start(struct bdev_channel *ch, struct bdev_io *io, uint64_t now)
{
	enum split_kind kind;

	must(ch->able & BIT(io->type));
	if (io->type == IO_TYPE_RESET) {
		reset_begin(ch, io, now);
	} else if (io->type == IO_TYPE_FLUSH && !(ch->native & BIT(IO_TYPE_FLUSH))) {
		io_finish(ch, io, IO_SUCCESS, now | TICK_SHARED);
	} else if ((kind = split_wanted(ch, io)) != SPLIT_NONE) {
		split_begin(ch, io, kind, now);
	} else {
		io_dispatch(ch, io, now);
	}
}

static COLD void submit_slow_path(struct bdev_channel *ch, struct bdev_io *io, uint64_t now)
{
	if (likely(!ch->held) || !hold_io(ch, io, now))
		io_start(ch, io, now);
}

static inline __attribute__((always_inline)) void submit_io(struct bdev_io *io, struct bdev_channel *ch, enum io_type type,
							    struct iovec *iov, int iov_count, uint64_t block_index,
							    uint64_t block_count, uint64_t now, bdev_done_fn done)
{
	enum io_status status;

	io->channel = ch;
	io->type = type;
	io->block_index = block_index;
	io->block_count = block_count;
	io->iov = iov;
	io->iov_count = iov_count;
	io->done = done;
	io->split_parent = NULL;
	counter_add(&ch->queue_depth, 1);
	ch->changing += changes_data(type);
	io_enter(ch, io, now);
	if (type == IO_TYPE_UNMAP || type == IO_TYPE_WRITE_ZEROES) /* known to the compiler: other types pay nothing */
		probe_bdev_io_range(now | TICK_SHARED, io, block_index, (uint32_t)min_u64(block_count, UINT32_MAX));
	status = validate_io(ch, io);
	if (unlikely(status != IO_SUCCESS))
		io_finish(ch, io, status, now | TICK_SHARED);
	else if (unlikely(ch->has_limits || !(ch->native & BIT(type)) || type == IO_TYPE_RESET))
		submit_slow_path(ch, io, now);
	else
		dispatch_io(ch, io, now);
}

void bdev_read(struct bdev_io *io, struct bdev_channel *channel, struct iovec *iov, int iov_count, uint64_t block_index,
	       uint64_t block_count, uint64_t now, bdev_done_fn done)
{
	submit_io(io, channel, IO_TYPE_READ, iov, iov_count, block_index, block_count, now, done);
}

void bdev_write(struct bdev_io *io, struct bdev_channel *channel, struct iovec *iov, int iov_count, uint64_t block_index,
		uint64_t block_count, uint64_t now, bdev_done_fn done)
{
	submit_io(io, channel, IO_TYPE_WRITE, iov, iov_count, block_index, block_count, now, done);
}

void bdev_compare(struct bdev_io *io, struct bdev_channel *channel, struct iovec *iov, int iov_count, uint64_t block_index,
		  uint64_t block_count, uint64_t now, bdev_done_fn done)
{
	submit_io(io, channel, IO_TYPE_COMPARE, iov, iov_count, block_index, block_count, now, done);
}

void bdev_flush(struct bdev_io *io, struct bdev_channel *channel, uint64_t now, bdev_done_fn done)
{
	submit_io(io, channel, IO_TYPE_FLUSH, NULL, 0, 0, 0, now, done);
}

void bdev_unmap(struct bdev_io *io, struct bdev_channel *channel, uint64_t block_index, uint64_t block_count, uint64_t now,
		bdev_done_fn done)
{
	submit_io(io, channel, IO_TYPE_UNMAP, NULL, 0, block_index, block_count, now, done);
}

void bdev_write_zeroes(struct bdev_io *io, struct bdev_channel *channel, uint64_t block_index, uint64_t block_count,
		       uint64_t now, bdev_done_fn done)
{
	submit_io(io, channel, IO_TYPE_WRITE_ZEROES, NULL, 0, block_index, block_count, now, done);
}

void bdev_reset(struct bdev_io *io, struct bdev_channel *channel, uint64_t now, bdev_done_fn done)
{
	submit_io(io, channel, IO_TYPE_RESET, NULL, 0, 0, 0, now, done);
}
