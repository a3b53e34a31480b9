/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reactor - one loop per core: threads, messages, pollers, timers, channels.
 *
 * A *reactor* is a pthread pinned to one CPU of the set, with one place to wait (an epoll descriptor). A *thread* is a
 * light thread: a message queue, active and timed pollers, watched descriptors and channels; it lives on one reactor at a
 * time and everything it owns is touched only there. The *control reactor* is not pinned, never spins and may block:
 * JSON-RPC and all that is not the data path lives on its thread, so that a stuck data reactor can still be asked about.
 *
 *   reactors_start() -> thread_create(), thread_send_msg() ... -> reactors_stop()
 *
 * A data reactor polls while there is work. When every poller of every thread has come back idle for `spin_ns`, it sleeps
 * in epoll_wait until a descriptor, a message or the next timer; level-triggered, so nothing is lost between the two. While
 * it spins it looks at its descriptors (epoll_wait with no time) at least every FD_POLL_NS. Each thread has an epoll
 * descriptor of its own, nested in its reactor's, so that a thread moves between reactors with all it watches.
 *
 * Time and waiting are inputs: under the simulator no pthread exists and reactor_step() is called with a time of the
 * caller's.
 *
 * Who may touch what: a thread's pollers, descriptors and channels belong to the thread. The registry of threads, pollers
 * and channels is under one mutex that is held only for insertion, removal and the statistics walk, never across a
 * callback; so thread_stats_walk() answers although a reactor hangs in a poller. What a reactor runs now, and since when,
 * is published in the trace file (fathom/trace/trace.h).
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
	URING_LANE_OPS_MAX = 128,   /* of one device under way on one thread; the rest waits */
	THREAD_MOVE_MS = 1000,	    /* see thread_move() */
};

struct reactor;
struct fathom_thread;
struct poller;
struct channel;

/* ---- reactors ---- */

/* As `spin_ns`: never sleep. */
#define REACTOR_SPIN_FOREVER UINT64_MAX

struct reactor_options {
	struct cpuset cpus;	 /* one data reactor each; empty: there is only the control reactor */
	uint64_t spin_ns;	 /* how long to poll after the last work before sleeping; 0: adaptive, 5 to 200 us */
	bool simulated;		 /* no pthreads, no epoll: driven by reactor_step() with its clock */
	uint64_t simulated_tick; /* where the simulated clock begins */
};

/*
 * Start the control reactor and one data reactor per CPU. Call once; the calling pthread becomes the control reactor when
 * it calls reactors_run(), and has its place in the trace from now on. Errors: -EINVAL (a CPU that this process may not
 * use), -ENOMEM, -EMFILE, -EAGAIN.
 */
MUST_CHECK int reactors_start(const struct reactor_options *options);

/* Run the control reactor on the calling pthread until reactors_request_stop(); may be run again. Not when simulated. */
void reactors_run(void);

/* Ask reactors_run() to return. Any thread, also from a signal handler. */
void reactors_request_stop(void);

/*
 * Wait until all threads have gone (each must have been asked to; the control reactor runs meanwhile, and so do all when
 * simulated), join the data reactors, end the control thread. Names what is left and aborts after ten seconds. Control
 * reactor's pthread. reactors_start() may be called again afterwards.
 */
void reactors_stop(void);

unsigned int reactors_count(void);		/* data reactors */
struct reactor *reactor_at(unsigned int index); /* 0 ... reactors_count() - 1 */
struct reactor *reactor_control(void);
struct reactor *reactor_self(void); /* NULL on a foreign pthread */
unsigned int reactor_cpu(const struct reactor *);
unsigned int reactor_index(const struct reactor *); /* reactors_count() for the control reactor */

/*
 * One turn of `reactor` at `now`; true if anything was done. For the simulator, which is then the only caller, with a clock
 * that never runs backwards. A simulated tick is a nanosecond, whatever clock_tick_rate() says. fd_watch_add() refuses
 * there (ENOTSUP), and file I/O is done at the end of the step and told in the next.
 */
bool reactor_step(struct reactor *reactor, uint64_t now);

/*
 * When `reactor` has something to do: 0 now (a message, an arrival), else its next timer, UINT64_MAX none. On the
 * reactor, or between steps of the simulator.
 */
uint64_t reactor_next_tick(struct reactor *reactor);

/*
 * The tick at which the current turn of this reactor began, or was last refreshed by reactor_now(): what batch work passes
 * to its probes. reactor_now() reads the clock (the simulated one when simulated), stores and returns it.
 */
uint64_t reactor_tick(void);
uint64_t reactor_now(void);

/* ---- threads ---- */

typedef void (*thread_fn)(void *ctx);

/*
 * Create a light thread on `reactor` (NULL: the next data reactor in turn, or the control reactor where it is the only
 * one). Any pthread. `name` is copied (and cut). Returns NULL when memory ends.
 */
struct fathom_thread *thread_create(const char *name, struct reactor *reactor);

/*
 * Ask `thread` to end: it goes when its pollers, descriptors and channels are gone and its queue is empty. On the thread.
 */
void thread_exit(struct fathom_thread *thread);

/* The light thread whose callback is running; NULL outside of one. */
struct fathom_thread *thread_self(void);
struct fathom_thread *thread_control(void); /* "app_thread", on the control reactor; exists from reactors_start() on */
const char *thread_name(const struct fathom_thread *thread);
uint64_t thread_id(const struct fathom_thread *thread); /* 1, 2, 3 ... in order of creation */
struct reactor *thread_reactor(const struct fathom_thread *thread);

/*
 * Move `thread` with all it owns to `reactor`; effective after the current turn, or when the file I/O it has in flight is
 * done (what it starts meanwhile waits, and is submitted where it arrives). If that takes longer than THREAD_MOVE_MS, the
 * thread stays where it is: one device that does not answer must not hold back the others. On the thread.
 */
void thread_move(struct fathom_thread *thread, struct reactor *reactor);

/*
 * Ask the thread with this id to run on the first CPU of `cpus` that has a data reactor: it goes there as by
 * thread_move(), later, unless it is on one of them. Any pthread. Errors: -ENOENT: no such thread; -EINVAL: none of
 * our reactors is on those CPUs; -EPERM: the control thread, which stays where it is.
 */
MUST_CHECK int thread_place(uint64_t id, const struct cpuset *cpus);

/*
 * Run `fn(ctx)` on `thread`, later, once, in the order of sending from any one sender. Any pthread. Never fails: a message
 * is 32 bytes from malloc, and an engine without 32 bytes has already ended. (Not for the per-I/O path, which stays on a
 * thread.)
 */
void thread_send_msg(struct fathom_thread *thread, thread_fn fn, void *ctx);

/* Run `fn` on every thread that holds a channel to `device`, one after the other, then `done` on the calling thread. */
struct channel_iter;
typedef void (*channel_visit_fn)(struct channel_iter *iter, struct channel *channel, void *ctx);
typedef void (*channel_visited_fn)(int status, void *ctx);
void for_each_channel(const void *device, channel_visit_fn visit, channel_visited_fn done, void *ctx);
/* Each visit ends with this call, at once or later, on the visited thread. A non-zero status ends the walk with it. */
void channel_iter_next(struct channel_iter *iter, int status);

/* Terminate a `must_be_on(thread)` breach at once: state is being touched from the wrong thread. */
#define must_be_on(thread) must(thread_self() == (thread))

/* ---- pollers ---- */

/* What a poller did: > 0 busy (work was done), 0 idle. Busy pollers keep the reactor awake. */
typedef int (*poller_fn)(void *ctx);

/*
 * Run `fn(ctx)` every turn (`period_ns` 0), or every `period_ns` (at a steady beat; steps that were missed are left out).
 * On the owning thread. NULL when memory ends. `name` is copied (and cut), and kept forever: name kinds, not instances.
 *
 * No active poller is run while the reactor sleeps: what it polls must also be able to wake it, by a descriptor, a message
 * or a timer. On the control reactor, which never spins, it runs once per wake-up. The newest is run first.
 */
struct poller *poller_register(const char *name, poller_fn fn, void *ctx, uint64_t period_ns);
/* Also from inside the poller itself. Accepts NULL. Sets *poller to NULL. On the owning thread. */
void poller_unregister(struct poller **poller);
void poller_pause(struct poller *poller);
void poller_resume(struct poller *poller);
/* Of a timed one: the beat begins anew, now. Asks for no memory. */
void poller_set_period(struct poller *poller, uint64_t period_ns);

/* ---- descriptors ---- */

/* `events` is what epoll said. On the thread that watches. */
typedef void (*fd_fn)(void *ctx, uint32_t events);
struct fd_watch;

/*
 * Call `fn` when `fd` is ready for `events` (EPOLLIN, EPOLLOUT; level-triggered). `fd` is borrowed. NULL: no memory or
 * epoll refused (errno says). On the owning thread.
 */
struct fd_watch *fd_watch_add(int fd, uint32_t events, fd_fn fn, void *ctx);
void fd_watch_modify(struct fd_watch *watch, uint32_t events);
/* Before close(fd). Accepts NULL. Sets *watch to NULL. No callback afterwards, also none already collected in this turn. */
void fd_watch_remove(struct fd_watch **watch);

/* ---- channels ---- */

/*
 * A device is any address with per-thread state. `create` fills the context (`ctx_bytes` of zeroed, cache-aligned memory)
 * on the thread that first gets the channel, `destroy` undoes it when the last reference on that thread is put.
 */
typedef int (*channel_create_fn)(void *device, void *channel_ctx);
typedef void (*channel_destroy_fn)(void *device, void *channel_ctx);

void device_register(void *device, channel_create_fn create, channel_destroy_fn destroy, size_t ctx_bytes,
		     const char *name);
/* `done(device)` on the calling thread when the last channel is gone. No channel_get() from now on. */
void device_unregister(void *device, void (*done)(void *device));

/* The calling thread's channel to `device`, created if it is the first. NULL: no such device, or create failed (errno). */
struct channel *channel_get(void *device);
/* On the thread that got it. Destruction happens by a message, so that a callback on the way out may still hold it. */
void channel_put(struct channel *channel);
void *channel_ctx(struct channel *channel);
struct channel *channel_from_ctx(void *channel_ctx);
struct fathom_thread *channel_thread(const struct channel *channel);

/* ---- the io_uring of the calling thread ---- */

struct io_uring;
struct uring_op;

/* Operations of one user that wait for a place, and the places that it holds: see share.h. */
struct op_share {
	/* share.c's */
	struct uring_op *first, **first_end;
	uint32_t waiting, used;
	enum op_share_place { OP_SHARE_IDLE, OP_SHARE_READY, OP_SHARE_FULL, OP_SHARE_STARVED } place;
	TAILQ_ENTRY(op_share) link;
};

/*
 * A file or a device that operations go to, for all threads. A device that never answers holds a bounded part of what there
 * is (of each thread's ring, of the helper pthreads); what it has beyond that waits, and other devices' operations go on.
 */
struct uring_device {
	struct op_share share; /* of the helpers; under their mutex */
	bool is_blocking;      /* C: the kernel would use a pthread of its own for each operation: the helpers do it */
};

/* A thread's way to a device. */
struct uring_lane {
	struct op_share share; /* of the thread's ring */
	struct uring_device *device;
};

/* Any thread; the storage is the caller's, until deinit. `is_blocking`: see above. */
void uring_device_init(struct uring_device *device, bool is_blocking);
/* No lane to it is left. */
void uring_device_deinit(struct uring_device *device);
/* On the thread whose operations use it. `device` is borrowed until deinit. */
void uring_lane_init(struct uring_lane *lane, struct uring_device *device);
/* Whether what is submitted now waits until something of the lane's ends. */
static inline bool uring_lane_is_full(const struct uring_lane *lane)
{
	return lane->share.used + lane->share.waiting >= URING_LANE_OPS_MAX || lane->share.place == OP_SHARE_STARVED;
}
/* None of its operations is under way. */
void uring_lane_deinit(struct uring_lane *lane);

/* Result of one operation as io_uring gives it: >= 0 or negative errno. On the submitting thread. */
typedef void (*uring_done_fn)(struct uring_op *op, int32_t result);

/* Storage is the caller's and lent until `done`. */
struct uring_op {
	uring_done_fn done;
	/* what to do: filled by the caller, so that helper threads can do the same where io_uring is refused */
	enum { URING_READV, URING_WRITEV, URING_FDATASYNC, URING_FALLOCATE } kind;
	int fd;
	const struct iovec *iov; /* READV, WRITEV: lent */
	int iov_count;
	uint64_t offset_bytes;
	struct uring_lane *lane; /* NULL: the thread's own, which all such operations share */
	uint64_t length_bytes;	 /* FALLOCATE */
	int mode;		 /* FALLOCATE */
	/* ours */
	int32_t result;
	struct uring_op *next;
	struct fathom_thread *thread;
};

/*
 * Start `op` on the calling thread. Submission happens once per turn for all operations started in it. Never fails: what
 * the ring cannot take, or what is beyond the lane's share of it, waits. Where the kernel refuses io_uring, helper pthreads
 * do the system calls and the completion comes back the same way.
 */
void uring_submit(struct uring_op *op);

/* Whether file I/O of this process goes through io_uring (false: helper threads). Settled by reactors_start(). */
bool uring_available(void);

/* ---- statistics; any pthread ---- */

struct poller_stats {
	char name[POLLER_NAME_BYTES_MAX];
	uint64_t id; /* of the thread's pollers, from 1 */
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
	const struct poller_stats *pollers; /* of this walk only */
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
	const char *running;	 /* poller or message being run now, "" if none */
	uint64_t running_since_tick;
};

typedef void (*thread_stats_fn)(void *ctx, const struct thread_stats *stats);
typedef void (*reactor_stats_fn)(void *ctx, const struct reactor_stats *stats);
void thread_stats_walk(thread_stats_fn fn, void *ctx);
void reactor_stats_walk(reactor_stats_fn fn, void *ctx);

#endif
