/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The structures behind reactor.h. A letter marks the access rule of each field:
 *
 *   R   only the pthread of the reactor that the object lives on. When a thread moves, the hand-over through the arrivals
 *       queue orders the old reactor's last access before the new one's first.
 *   *   any pthread: atomics.
 *   M   R changes it under the registry's mutex; R reads it without the mutex, all others with it.
 *   C   constant after creation.
 *
 * A counter has one writer and any number of readers: relaxed loads and stores, which compile to plain ones.
 */
#ifndef REACTOR_INTERNAL_H
#define REACTOR_INTERNAL_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/list.h"
#include "fathom/trace/trace.h"
#include "base/reactor/mpsc.h"
#include "base/reactor/reactor.h"
#include "base/reactor/share.h"
#include "base/reactor/spin.h"
#include "base/reactor/states.gen.h"

enum {
	FD_POLL_US = 16,	/* how often a polling reactor calls epoll_wait() */
	FD_EVENTS_MAX = 64,	/* per epoll_wait() */
	POLLER_SLOW_US = 1000,	/* a longer run is recorded as poller_slow */
	TURNS_PER_SAMPLE = 128, /* in one of so many turns, idle pollers are timed, too */
	SUSPECT_TURNS = 64,	/* turns with timed idle pollers after a slow turn without a slow busy poller */
	URING_ENTRIES = 256,	/* submission queue of one thread */
	URING_REAP_MAX = 64,	/* completions reaped at once */
	STOP_TIMEOUT_SEC = 10,	/* reactors_stop() waits so long for threads to end */
};

/*
 * Limits of operations in flight, see share.h. In one thread's ring, 51 devices can hold their maximum of 128 (8 reserved
 * and 120 common places each) before the common places run out; 256 devices always have their reserved places. The kernel's
 * limit of workers is raised to the number of places, so workers are never the bottleneck.
 */
enum {
	URING_OPS_MAX = 8192, /* also the length of the completion queue, so it never overflows */
	URING_COMMON_MAX = 6144,
	LANE_OPS_RESERVED = 8,
};
static_assert((URING_OPS_MAX & (URING_OPS_MAX - 1)) == 0, "the kernel makes it a power of two");
static_assert((int)URING_OPS_MAX > (int)URING_ENTRIES, "a completion queue is at least as long as its submission queue");
static_assert((URING_OPS_MAX - URING_COMMON_MAX) / LANE_OPS_RESERVED >= 256, "devices with reserved places");

/* The same for the helpers: pthreads, started on demand, for file I/O that io_uring refuses or would block on. */
enum {
	HELPERS_MAX = 1024,
	HELPERS_COMMON_MAX = 768,
	HELPERS_PER_DEVICE = 8,
	HELPERS_RESERVED = 1,
};
static_assert((HELPERS_MAX - HELPERS_COMMON_MAX) / HELPERS_RESERVED >= 256, "devices with a helper of their own");
static_assert((TURNS_PER_SAMPLE & (TURNS_PER_SAMPLE - 1)) == 0, "a mask");

typedef _Atomic(uint64_t) counter;

static inline uint64_t counter_read(const counter *c)
{
	return atomic_load_explicit(c, memory_order_relaxed);
}

static inline void counter_set(counter *c, uint64_t to)
{
	atomic_store_explicit(c, to, memory_order_relaxed);
}

static inline void counter_add(counter *c, uint64_t n)
{
	counter_set(c, counter_read(c) + n);
}

struct poller {
	poller_fn fn; /* C */
	void *ctx;    /* C */
	counter run_count;
	const struct trace_istr *name; /* C */
	TAILQ_ENTRY(poller) in_active; /* R: run every turn, not paused */
	struct fathom_thread *thread;  /* C */
	counter busy_count, busy_ticks;
	counter idle_ticks; /* estimated from the sampled turns */
	/* timed only */
	uint64_t period_ticks; /* R */
	uint64_t due, order;   /* R: among equal `due` the lower `order`, inserted first, runs first */
	uint32_t heap_index;   /* R */
	atomic_bool paused;    /* written by R */
	bool timed;	       /* C */
	uint64_t id;	       /* C */
	struct trace_object trace;
	TAILQ_ENTRY(poller) in_thread; /* M */
} CACHE_ALIGNED;
TAILQ_HEAD(poller_list, poller);

/* Timed pollers: a binary heap by (due, order), the earliest first. */
struct timer_heap {
	struct poller **pollers;
	uint32_t count, room;
	uint64_t order_last;
	uint64_t due; /* of the first; UINT64_MAX: none */
};

enum { CHANNEL_BUCKETS = 256 };

struct fathom_thread {
	/* R: used in every turn */
	TAILQ_ENTRY(fathom_thread) in_reactor;
	struct poller_list active;
	struct poller *next_poller; /* the walk's cursor: unregistering that one advances it */
	struct poller *running;	    /* poller whose callback is on the stack */
	bool running_gone;	    /* it has unregistered itself: free it on return */
	bool fd_ready;		    /* the reactor's epoll reported this thread's epoll descriptor */
	uint8_t state;		    /* enum thread_state */
	uint32_t active_count;
	uint32_t fd_count; /* watches */
	struct timer_heap timers;
	struct reactor *move_to;
	counter busy_ticks, idle_ticks;
	/* walks, unregistrations and jobs of workers that will send their end to this thread: it must not end before */
	uint32_t holds;

	/* R: file I/O */
	struct io_uring *uring;
	enum { FILE_IO_UNSETTLED, FILE_IO_URING, FILE_IO_HELPERS, FILE_IO_SIMULATED } file_io;
	struct op_pool ops;	   /* `used`: in flight */
	struct uring_lane no_lane; /* for operations without a lane */
	uint64_t leaving_ns;	   /* LEAVING: the time at which it began */

	/* R: descriptors */
	int epoll_fd; /* -1 until the first watch */
	int event_count, event_at;
	struct epoll_event *events; /* FD_EVENTS_MAX; those from event_at on are collected and not yet delivered */

	/* C */
	struct trace_object trace;
	uint64_t id;
	uint64_t created_tick;
	const struct trace_istr *interned_name;

	/* M */
	TAILQ_ENTRY(fathom_thread) in_registry;
	struct poller_list pollers;
	uint32_t poller_count, timed_count; /* paused ones included */
	uint64_t poller_id_last;
	TAILQ_HEAD(, channel) channels;
	LIST_HEAD(, channel) channels_by_address[CHANNEL_BUCKETS];
	uint32_t channel_count;

	/* * */
	CACHE_ALIGNED struct mpsc messages;
	CACHE_ALIGNED _Atomic(struct uring_op *) ops_done; /* completed by helpers, newest first */
	_Atomic(struct reactor *) reactor;
	struct mpsc_node arrival;
};
TAILQ_HEAD(thread_list, fathom_thread);

struct reactor {
	/* R */
	struct thread_list threads;
	counter now;	 /* see reactor_tick() */
	counter charged; /* all ticks before this one have been charged to a thread */
	uint64_t turn_count;
	uint32_t thread_count;
	uint32_t active_pollers; /* of all its threads */
	uint32_t suspect_turns;
	bool idle; /* the last turn did nothing */
	uint64_t last_busy, last_look;
	struct spin spin;
	counter busy_ticks, idle_ticks;
	counter sleep_count;
	/* the longest stall of a window of time; window number n = tick / stall_window_ticks is at n % 2 */
	struct {
		counter window, longest;
	} stalls[2];
	_Atomic(const struct trace_istr *) running;
	_Atomic(const struct poller *) running_poller;

	/* C */
	unsigned int index, cpu;
	bool control, simulated;
	atomic_bool *stop;
	int epoll_fd, event_fd;
	uint64_t fd_poll_ticks, slow_ticks, stall_window_ticks;
	pthread_t pthread;

	/* * */
	atomic_int tid;
	CACHE_ALIGNED struct mpsc arrivals; /* threads created for or moved to this reactor */
	CACHE_ALIGNED atomic_bool sleeping;
};

/* The mutex covers insertion, removal, and walks without callbacks. */
struct registry {
	pthread_mutex_t mutex;
	struct thread_list threads;	   /* by id */
	struct thread_list unused_threads; /* for reuse; thread.c explains why they are not freed */
	TAILQ_HEAD(, device) devices;
	uint64_t thread_id_last;
	uint32_t thread_count;
};
extern struct registry registry;

static inline void registry_lock(void)
{
	must(pthread_mutex_lock(&registry.mutex) == 0);
}

static inline void registry_unlock(void)
{
	must(pthread_mutex_unlock(&registry.mutex) == 0);
}

extern __thread struct reactor *self_reactor;
extern __thread struct fathom_thread *self_thread;

/* ---- reactor.c ---- */

bool reactors_simulated(void);
/* Like clock_ticks_from_ns() and clock_ns_from_ticks(); under the simulator a tick is a nanosecond. */
uint64_t reactor_ticks_from_ns(uint64_t ns);
uint64_t reactor_ns_from_ticks(uint64_t ticks);
/* The tick to record for an event that happens now. Any pthread, on a reactor or not. */
uint64_t probe_tick(void);
bool reactor_turn(struct reactor *reactor, uint64_t now, bool look_at_fds);
/* A function that has just ended held the reactor for `ticks`, more than slow_ticks. */
void note_stall(struct reactor *reactor, uint64_t ticks);
/* Charge the uncharged ticks up to `now` as idle time, in equal parts to the reactor's threads. */
void charge_idle_turn(struct reactor *reactor, uint64_t now);
struct reactor *reactor_in_turn(void);
bool reactors_stopping(void);
const cpu_set_t *reactors_process_cpus(void);
/* Those of them without a data reactor. May be empty. */
cpu_set_t reactors_other_cpus(void);

/* ---- accounting of time ---- */

/* Published as the running name while no poller runs. */
struct running_names {
	const struct trace_istr *messages, *descriptors, *file_io;
};
extern struct running_names running_names;

/* Publish what runs from here on. As its start the tick of the turn is exact enough. */
static inline void publish_running(struct reactor *r, const struct trace_istr *name, struct fathom_thread *thread,
				   const struct poller *poller)
{
	atomic_store_explicit(&r->running, name, memory_order_relaxed);
	atomic_store_explicit(&r->running_poller, poller, memory_order_relaxed);
	trace_running(name, thread ? thread->interned_name : NULL, counter_read(&r->now));
}

static inline uint64_t reactor_read_clock(struct reactor *r)
{
	uint64_t now = r->simulated ? counter_read(&r->now) : clock_ticks();

	counter_set(&r->now, now);
	return now;
}

/* Charge the ticks since the last charge to `thread` as busy. Reads the clock; returns the ticks charged. */
static inline uint64_t charge_busy(struct reactor *r, struct fathom_thread *thread)
{
	uint64_t now = reactor_read_clock(r);
	uint64_t ticks = now - counter_read(&r->charged);

	counter_set(&r->charged, now);
	counter_add(&r->busy_ticks, ticks);
	counter_add(&thread->busy_ticks, ticks);
	return ticks;
}

/* Like charge_busy(), as idle. */
static inline uint64_t charge_idle(struct reactor *r, struct fathom_thread *thread)
{
	uint64_t now = reactor_read_clock(r);
	uint64_t ticks = now - counter_read(&r->charged);

	counter_set(&r->charged, now);
	counter_add(&r->idle_ticks, ticks);
	counter_add(&thread->idle_ticks, ticks);
	return ticks;
}

/* ---- wait.c ---- */

MUST_CHECK int wait_open(struct reactor *reactor);
void wait_close(struct reactor *reactor);
/* Sleep until an event, a message or a timer; returns at once if anything is pending. */
void reactor_sleep(struct reactor *reactor);
/* Any pthread. The caller has published the work with a sequentially consistent operation; else the wake-up can be lost. */
void reactor_wake(struct reactor *reactor);

/* ---- thread.c ---- */

bool thread_turn(struct reactor *reactor, struct fathom_thread *thread, uint64_t now, bool look_at_fds, uint32_t sample);
/* Charge the time since the last charge to `thread` as busy. `name`: of what ran; it is recorded if it ran for long. */
void thread_charge(struct reactor *reactor, struct fathom_thread *thread, const struct trace_istr *name);
/* Add the threads that were created for or moved to `reactor`. True if there were any. */
bool threads_arrive(struct reactor *reactor);
/* True if no message and no completion by a helper is pending. Sequentially consistent. */
bool thread_is_quiet(const struct fathom_thread *thread);
void thread_wake(struct fathom_thread *thread);
void threads_free(void);

/* ---- message.c ---- */

bool messages_run(struct reactor *reactor, struct fathom_thread *thread);

/* ---- poller.c, timer.c ---- */

/* If `sample` is not 0, the clock is also read after idle pollers; their time counts for `sample` turns. */
bool pollers_run(struct reactor *reactor, struct fathom_thread *thread, uint32_t sample);
bool timers_run(struct reactor *reactor, struct fathom_thread *thread, uint64_t now);
void timer_heap_init(struct timer_heap *heap);
void timer_heap_deinit(struct timer_heap *heap);
MUST_CHECK int timer_heap_reserve(struct timer_heap *heap, uint32_t count);
void timer_heap_insert(struct timer_heap *heap, struct poller *poller, uint64_t due);
void timer_heap_remove(struct timer_heap *heap, struct poller *poller);

/* ---- fd.c ---- */

MUST_CHECK int thread_epoll_open(struct fathom_thread *thread);
bool fds_run(struct reactor *reactor, struct fathom_thread *thread);
void fds_arrive(struct reactor *reactor, struct fathom_thread *thread);
void fds_leave(struct reactor *reactor, struct fathom_thread *thread);
void fds_close(struct fathom_thread *thread);

/* ---- channel.c, walk.c ---- */

struct device {
	void *address;
	channel_create_fn create;
	channel_destroy_fn destroy;
	size_t ctx_bytes;
	const struct trace_istr *name;
	/* under the mutex */
	TAILQ_ENTRY(device) in_registry;
	LIST_ENTRY(device) in_bucket;
	uint32_t channel_count;
	bool unregistered;
	void (*unregister_done)(void *device);
	struct fathom_thread *unregister_thread;
};

struct channel {
	struct device *device;	      /* C */
	struct fathom_thread *thread; /* C */
	counter ref_count;
	uint32_t destroy_messages;	/* R: in the queue */
	TAILQ_ENTRY(channel) in_thread; /* M */
	LIST_ENTRY(channel) in_bucket;	/* M */
	CACHE_ALIGNED unsigned char ctx[];
};

void devices_free(void);
/* "(none)" if no device is registered at `address`. */
const struct trace_istr *device_name(const void *address);
/* On `thread`, or under the mutex. NULL: `thread` has no channel to the device. */
struct channel *channel_find(struct fathom_thread *thread, const void *device);
void channel_ref(struct channel *channel);

/* ---- uring.c, helpers.c ---- */

/* Find out whether io_uring is available; if not, log it once. */
void file_io_start(bool simulated);
void file_io_stop(void);
bool file_io_reap(struct reactor *reactor, struct fathom_thread *thread);
/* Hand waiting operations to the kernel or the helpers. True if the next turn must try again. */
bool file_io_flush(struct fathom_thread *thread);
/* Before a move or the end of a thread: close its ring. No operation may be in flight. */
void file_io_leave(struct fathom_thread *thread);
void helpers_submit(struct uring_op *op);
void helpers_stop(void);
/* The device of operations without a lane. */
struct uring_device *uring_no_device(void);
/* The lane of `op`, which was submitted. */
static inline struct uring_lane *uring_op_lane(const struct uring_op *op)
{
	return op->lane ? op->lane : &op->thread->no_lane;
}
/* Execute `op` with a blocking system call. Returns the result as io_uring does: >= 0 or negative errno. */
int32_t uring_op_execute(const struct uring_op *op);
/* Any pthread. Deliver `op`, whose result is set, to its thread. */
void uring_op_finished(struct uring_op *op);

#endif
