/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reactor - one loop per core: threads, messages, pollers, timers, channels.
 *
 * A *reactor* is a pthread pinned to one CPU of the set; it sleeps in one epoll descriptor. A *thread* is a light thread: a
 * message queue, active and timed pollers, watched descriptors and channels. It lives on one reactor at a time, and only
 * that reactor touches what it owns. The *control reactor* is not pinned, never spins and may block: JSON-RPC and
 * everything outside the data path run on its thread, so RPCs can still report about a data reactor that hangs.
 *
 *   reactors_start() -> thread_create(), thread_send_msg() ... -> reactors_stop()
 *
 * A data reactor polls while there is work. When every poller of every thread has been idle for `spin_ns`, it sleeps in
 * epoll_wait until a descriptor is ready, a message arrives or the next timer is due; descriptors are level-triggered, so
 * no event is lost before the sleep. While it spins it polls its descriptors (epoll_wait without a time-out) at least every
 * FD_POLL_US. Each thread has its own epoll descriptor, nested in its reactor's, so a thread that moves keeps its watches.
 *
 * Time and waiting are inputs: under the simulator no pthread exists, and the caller passes the time to reactor_step().
 *
 * Ownership: a thread's pollers, descriptors and channels belong to the thread. One mutex guards the registry of threads,
 * pollers and channels. It is held only for insertion, removal and the statistics walk, never across a callback; so
 * thread_stats_walk() returns even while a reactor hangs in a poller. The trace file (fathom/trace/trace.h) shows what each
 * reactor runs now, and since when.
 */
#ifndef REACTOR_REACTOR_H
#define REACTOR_REACTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/queue.h>

#include "base/cpuset.h"
#include "base/must.h"

enum {
	THREAD_NAME_BYTES_MAX = 64, /* with the NUL */
	POLLER_NAME_BYTES_MAX = 64,
	DEVICE_NAME_BYTES_MAX = 64,
	MESSAGES_PER_STEP_MAX = 32, /* so that messages cannot starve pollers */
	URING_LANE_OPS_MAX = 128,   /* operations in flight per device and thread; the rest waits */
	THREAD_MOVE_MS = 1000,	    /* see thread_move() */
	STALL_WINDOW_SEC = 60,	    /* of reactor_stats.longest_stall_ticks */
};

struct reactor;
struct fathom_thread;
struct poller;
struct channel;

/* ---- reactors ---- */

/* As `spin_ns`: never sleep. */
#define REACTOR_SPIN_FOREVER UINT64_MAX

struct reactor_options {
	struct cpuset cpus;	 /* one data reactor per CPU; empty: only the control reactor runs */
	uint64_t spin_ns;	 /* how long to poll after the last work before sleeping; 0: adaptive, 5 to 200 us */
	bool simulated;		 /* no pthreads, no epoll: driven by reactor_step() with its clock */
	uint64_t simulated_tick; /* initial value of the simulated clock */
};

/*
 * Start the control reactor and one data reactor per CPU. Call once. The calling pthread becomes the control reactor when
 * it calls reactors_run(); it is attached to the trace at once. Errors: -EINVAL (a CPU that this process may not use),
 * -ENOMEM, -EMFILE, -EAGAIN.
 */
MUST_CHECK int reactors_start(const struct reactor_options *options);

/*
 * Run the control reactor on the calling pthread until reactors_request_stop(). May be called repeatedly. Must not be
 * called under the simulator.
 */
void reactors_run(void);

/* Ask reactors_run() to return. Any thread, also from a signal handler. */
void reactors_request_stop(void);

/*
 * Wait until all threads but the control thread have ended, join the data reactors, end the control thread. The caller must
 * have arranged thread_exit() for each thread. The control reactor runs meanwhile; under the simulator, all reactors run.
 * After STOP_TIMEOUT_SEC (10 s) it logs the remaining threads and aborts. Control reactor's pthread. reactors_start() may
 * be called again afterwards.
 */
void reactors_stop(void);

unsigned int reactors_count(void);		/* data reactors */
struct reactor *reactor_at(unsigned int index); /* 0 ... reactors_count() - 1 */
struct reactor *reactor_control(void);
struct reactor *reactor_self(void); /* NULL on a foreign pthread */
unsigned int reactor_cpu(const struct reactor *);
unsigned int reactor_index(const struct reactor *); /* reactors_count() for the control reactor */

/*
 * Run one turn of `reactor` at `now`; true if it did any work. Only for the simulator, whose clock must not run backwards.
 * A simulated tick is a nanosecond, independent of clock_tick_rate(). There fd_watch_add() fails with ENOTSUP, and file I/O
 * is executed at the end of a step and completed in the next.
 */
bool reactor_step(struct reactor *reactor, uint64_t now);

/*
 * The tick at which `reactor` has work: 0 at once (a message or an arriving thread), else its next timer, UINT64_MAX none.
 * Thread: the reactor's, or between steps of the simulator.
 */
uint64_t reactor_next_tick(struct reactor *reactor);

/*
 * reactor_tick(): the tick at which the current turn of this reactor began, or which reactor_now() stored last; batch work
 * passes it to its probes. reactor_now() reads the clock (under the simulator, the simulated one), stores and returns it.
 */
uint64_t reactor_tick(void);
uint64_t reactor_now(void);

/* ---- threads ---- */

typedef void (*thread_fn)(void *ctx);

/*
 * Create a light thread on `reactor` (NULL: the next data reactor in turn, or the control reactor if it is the only one).
 * `name` is copied and may be truncated. Any pthread. Returns NULL if out of memory.
 */
struct fathom_thread *thread_create(const char *name, struct reactor *reactor);

/*
 * Let `thread` end once it has no pollers, descriptors and channels and its message queue is empty. On the thread.
 */
void thread_exit(struct fathom_thread *thread);

/* The light thread whose callback is running; NULL outside of one. */
struct fathom_thread *thread_self(void);
struct fathom_thread *thread_control(void); /* "app_thread", on the control reactor; exists from reactors_start() on */
const char *thread_name(const struct fathom_thread *thread);
uint64_t thread_id(const struct fathom_thread *thread); /* 1, 2, 3 ... in order of creation */
struct reactor *thread_reactor(const struct fathom_thread *thread);

/*
 * Move `thread` with all it owns to `reactor`, after the current turn or when its file I/O in flight is done. Operations
 * started meanwhile wait and are submitted on the new reactor. If the I/O takes longer than THREAD_MOVE_MS, the move is
 * cancelled, because one unresponsive device must not delay the operations of others. On the thread.
 */
void thread_move(struct fathom_thread *thread, struct reactor *reactor);

/*
 * Move the thread with this id to the first CPU of `cpus` that has a data reactor, unless it is already on a CPU of `cpus`.
 * Asynchronous, with the rules of thread_move(). Any pthread. Errors: -ENOENT: no such thread; -EINVAL: no data reactor on
 * those CPUs; -EPERM: it is the control thread, which cannot move.
 */
MUST_CHECK int thread_place(uint64_t id, const struct cpuset *cpus);

/*
 * Run `fn(ctx)` on `thread`, asynchronously, once; messages of one sender run in the order of sending. Any pthread. Never
 * fails: if malloc() cannot allocate the message (about 32 bytes), the process aborts. The per-I/O path must not use it.
 */
void thread_send_msg(struct fathom_thread *thread, thread_fn fn, void *ctx);

/* Run `fn` on every thread that holds a channel to `device`, one after the other, then `done` on the calling thread. */
struct channel_iter;
typedef void (*channel_visit_fn)(struct channel_iter *iter, struct channel *channel, void *ctx);
typedef void (*channel_visited_fn)(int status, void *ctx);
void for_each_channel(const void *device, channel_visit_fn visit, channel_visited_fn done, void *ctx);
/*
 * Ends a visit: call it once per visit, at once or later, on the visited thread. A non-zero status ends the walk with it.
 */
void channel_iter_next(struct channel_iter *iter, int status);

/* Abort if the caller runs on another thread, before it touches that thread's state. */
#define must_be_on(thread) must(thread_self() == (thread))

/* ---- pollers ---- */

/* What a poller did: > 0 busy (work was done), 0 idle. Busy pollers keep the reactor awake. */
typedef int (*poller_fn)(void *ctx);

/*
 * Run `fn(ctx)` every turn (`period_ns` 0), or every `period_ns` (at a steady rate; missed periods are skipped). On the
 * owning thread. Returns NULL if out of memory. `name` is copied, may be truncated, and is never freed: use one name per
 * kind of poller, not one per instance.
 *
 * Active pollers do not run while the reactor sleeps: the source they poll must also wake the reactor, by a descriptor, a
 * message or a timer. On the control reactor, which never spins, they run once per wake-up. The newest runs first.
 */
struct poller *poller_register(const char *name, poller_fn fn, void *ctx, uint64_t period_ns);
/* May be called by the poller itself. Accepts NULL. Sets *poller to NULL. On the owning thread. */
void poller_unregister(struct poller **poller);
void poller_pause(struct poller *poller);
void poller_resume(struct poller *poller);
/* Timed pollers only: the next run is `period_ns` from now. Allocates nothing. On the owning thread. */
void poller_set_period(struct poller *poller, uint64_t period_ns);

/* ---- descriptors ---- */

/* `events`: as epoll reported them. On the thread that watches. */
typedef void (*fd_fn)(void *ctx, uint32_t events);
struct fd_watch;

/*
 * Call `fn` when `fd` is ready for `events` (EPOLLIN, EPOLLOUT; level-triggered). `fd` is lent until fd_watch_remove().
 * Returns NULL and sets errno if out of memory or if epoll fails. On the owning thread.
 */
struct fd_watch *fd_watch_add(int fd, uint32_t events, fd_fn fn, void *ctx);
void fd_watch_modify(struct fd_watch *watch, uint32_t events);
/*
 * Call it before close(fd). Accepts NULL. Sets *watch to NULL. `fn` is not called afterwards, also not for events that this
 * turn has already collected.
 */
void fd_watch_remove(struct fd_watch **watch);

/* ---- channels ---- */

/*
 * A device is any address with per-thread state. When a thread gets its first channel to the device, `create` fills the
 * context there (`ctx_bytes` of zeroed, cache-aligned memory); `destroy` undoes it on the same thread when the last
 * reference is put.
 */
typedef int (*channel_create_fn)(void *device, void *channel_ctx);
typedef void (*channel_destroy_fn)(void *device, void *channel_ctx);

void device_register(void *device, channel_create_fn create, channel_destroy_fn destroy, size_t ctx_bytes,
		     const char *name);
/* Reject channel_get() from now on; call `done(device)` on the calling thread when the last channel is gone. */
void device_unregister(void *device, void (*done)(void *device));

/* The calling thread's channel to `device`, created on first use. NULL: no such device, or `create` failed (errno). */
struct channel *channel_get(void *device);
/* On the thread that got it. A message destroys the channel, so the callback that puts it may use it until it returns. */
void channel_put(struct channel *channel);
void *channel_ctx(struct channel *channel);
struct channel *channel_from_ctx(void *channel_ctx);
struct fathom_thread *channel_thread(const struct channel *channel);

/* ---- the io_uring of the calling thread ---- */

struct io_uring;
struct uring_op;

/* One user's operations that wait for a place, and the number of places that it holds: see share.h. */
struct op_share {
	/* private to share.c */
	struct uring_op *first, **first_end;
	uint32_t waiting, used;
	enum op_share_place { OP_SHARE_IDLE, OP_SHARE_READY, OP_SHARE_FULL, OP_SHARE_STARVED } place;
	TAILQ_ENTRY(op_share) link;
};

/*
 * A file or a device that operations go to, shared by all threads. A device that never answers holds a bounded part of each
 * thread's ring and of the helper pthreads; its further operations wait, and other devices' operations continue.
 */
struct uring_device {
	struct op_share share; /* of the helpers; under their mutex */
	bool is_blocking;      /* constant: io_uring would run each operation on a kernel worker, so the helpers run them */
};

/* A thread's share of its ring for one device. */
struct uring_lane {
	struct op_share share; /* of the thread's ring */
	struct uring_device *device;
};

/* Any thread; `device` is the caller's storage and lent until deinit. `is_blocking`: see above. */
void uring_device_init(struct uring_device *device, bool is_blocking);
/* No lane to the device may be left. */
void uring_device_deinit(struct uring_device *device);
/* On the thread whose operations use the lane. `device` is lent until deinit. */
void uring_lane_init(struct uring_lane *lane, struct uring_device *device);
/* True if an operation submitted now would wait until a place in the ring becomes free. */
static inline bool uring_lane_is_full(const struct uring_lane *lane)
{
	return lane->share.used + lane->share.waiting >= URING_LANE_OPS_MAX || lane->share.place == OP_SHARE_STARVED;
}
/* No operation of the lane may be in flight or waiting. */
void uring_lane_deinit(struct uring_lane *lane);

/* Result of one operation as io_uring gives it: >= 0 or negative errno. On the submitting thread. */
typedef void (*uring_done_fn)(struct uring_op *op, int32_t result);

/* Storage is the caller's and lent until `done`. */
struct uring_op {
	uring_done_fn done;
	/* the operation: filled by the caller, so that helper threads can execute it if io_uring is unavailable */
	enum { URING_READV, URING_WRITEV, URING_FDATASYNC, URING_FALLOCATE, URING_CALL } kind;
	int fd;
	union {
		const struct iovec *iov; /* READV, WRITEV: lent */
		/* CALL: a system call that io_uring does not have; it runs on a helper, so the lane's device is blocking */
		int32_t (*call)(const struct uring_op *op);
	};
	int iov_count;
	bool is_durable; /* WRITEV: it is on the device when it ends (RWF_DSYNC) */
	uint64_t offset_bytes;
	struct uring_lane *lane; /* NULL: the thread's default lane, shared by all such operations */
	uint64_t length_bytes;	 /* FALLOCATE, CALL */
	int mode;		 /* FALLOCATE */
	/* private */
	int32_t result;
	struct uring_op *next;
	struct fathom_thread *thread;
};

/*
 * Start `op` on the calling thread. All operations started in one turn are submitted together at its end. Never fails:
 * operations beyond the capacity of the ring or the share of the lane wait. If the kernel refuses io_uring, helper pthreads
 * make the system calls; the completion is delivered the same way.
 */
void uring_submit(struct uring_op *op);

/* Whether file I/O of this process goes through io_uring (false: helper threads). reactors_start() decides. */
bool uring_available(void);

/* ---- statistics; any pthread ---- */

struct poller_stats {
	char name[POLLER_NAME_BYTES_MAX];
	uint64_t id; /* unique within the thread, from 1 */
	enum { POLLER_WAITING, POLLER_RUNNING, POLLER_PAUSED } state;
	bool timed, paused;
	uint64_t run_count, busy_count;
	uint64_t busy_ticks, idle_ticks;
	uint64_t period_ticks; /* timed only */
};

struct channel_stats {
	char device[DEVICE_NAME_BYTES_MAX];
	uint32_t ref_count;
};

struct thread_stats {
	char name[THREAD_NAME_BYTES_MAX];
	uint64_t id;
	unsigned int cpu; /* of its reactor */
	bool control;
	uint64_t busy_ticks, idle_ticks, elapsed_ticks;
	uint32_t active_pollers, timed_pollers, paused_pollers;
	uint32_t poller_count, channel_count;
	const struct poller_stats *pollers; /* valid only during the callback, as `channels` */
	const struct channel_stats *channels;
};

struct reactor_stats {
	unsigned int index, cpu;
	bool control;
	bool sleeping;
	int tid;
	uint64_t busy_ticks, idle_ticks; /* idle includes sleep */
	uint64_t sleep_count;
	uint64_t sys_ms, usr_ms; /* processor time of the pthread */
	const char *running;	 /* the poller running now, or "messages", "descriptors", "file I/O"; "" if none */
	uint64_t running_since_tick;
	/* the longest time that one function held the reactor in the last STALL_WINDOW_SEC or twice that; 0: below 1 ms */
	uint64_t longest_stall_ticks;
};

typedef void (*thread_stats_fn)(void *ctx, const struct thread_stats *stats);
typedef void (*reactor_stats_fn)(void *ctx, const struct reactor_stats *stats);
void thread_stats_walk(thread_stats_fn fn, void *ctx);
void reactor_stats_walk(reactor_stats_fn fn, void *ctx);

#endif
