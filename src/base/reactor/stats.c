/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Statistics, from any pthread, also about a reactor that hangs: they read only atomics and fields that the registry's
 * mutex guards, and no holder of the mutex can hang. A thread is copied under the mutex; the callback runs without it.
 *
 * A reactor that sleeps or that has run one callback for long has not charged that time yet. The statistics add it.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "base/reactor/internal.h"

/* Buffers for one thread's pollers and channels; they grow when the walk finds a thread with more. */
struct room {
	struct poller_stats *pollers;
	struct channel_stats *channels;
	uint32_t pollers_max, channels_max;
};

static void reserve_room(struct room *room, uint32_t poller_count, uint32_t channel_count)
{
	if (poller_count > room->pollers_max) {
		free(room->pollers);
		room->pollers = malloc(poller_count * sizeof(*room->pollers));
		must(room->pollers);
		room->pollers_max = poller_count;
	}
	if (channel_count > room->channels_max) {
		free(room->channels);
		room->channels = malloc(channel_count * sizeof(*room->channels));
		must(room->channels);
		room->channels_max = channel_count;
	}
}

static uint64_t stats_tick(void)
{
	return reactors_simulated() ? reactor_tick() : clock_ticks();
}

/* Ticks since the reactor's last charge. */
static uint64_t uncharged_ticks(const struct reactor *r, uint64_t now)
{
	uint64_t charged = counter_read(&r->charged);

	return now > charged ? now - charged : 0;
}

static void copy_poller(const struct poller *poller, const struct reactor *r, struct poller_stats *to, uint64_t now)
{
	*to = (struct poller_stats){
		.id = poller->id,
		.timed = poller->timed,
		.paused = atomic_load_explicit(&poller->paused, memory_order_relaxed),
		.run_count = counter_read(&poller->run_count),
		.busy_count = counter_read(&poller->busy_count),
		.busy_ticks = counter_read(&poller->busy_ticks),
		.idle_ticks = counter_read(&poller->idle_ticks),
		.period_ticks = poller->period_ticks,
	};
	(void)text_copy(to->name, sizeof(to->name), poller->name->text); /* was cut when registered */
	to->state = to->paused ? POLLER_PAUSED : POLLER_WAITING;
	if (atomic_load_explicit(&r->running_poller, memory_order_relaxed) == poller) {
		to->state = POLLER_RUNNING;
		if (uncharged_ticks(r, now) > r->slow_ticks)
			to->busy_ticks += uncharged_ticks(r, now);
	}
}

/* Under the mutex. */
static void copy_thread(const struct fathom_thread *thread, struct room *room, struct thread_stats *to, uint64_t now)
{
	const struct reactor *r = atomic_load(&thread->reactor);
	const struct channel *channel;
	const struct poller *poller;
	uint32_t index = 0;

	*to = (struct thread_stats){
		.id = thread->id,
		.cpu = r->cpu,
		.control = r->control,
		.busy_ticks = counter_read(&thread->busy_ticks),
		.idle_ticks = counter_read(&thread->idle_ticks),
		.elapsed_ticks = now > thread->created_tick ? now - thread->created_tick : 0,
		.poller_count = thread->poller_count,
		.channel_count = thread->channel_count,
		.pollers = room->pollers,
		.channels = room->channels,
	};
	(void)text_copy(to->name, sizeof(to->name), thread->interned_name->text); /* was cut when created */
	TAILQ_FOREACH (poller, &thread->pollers, in_thread) {
		struct poller_stats *stats = &room->pollers[index++];

		copy_poller(poller, r, stats, now);
		to->paused_pollers += stats->paused;
		to->timed_pollers += !stats->paused && stats->timed;
		to->active_pollers += !stats->paused && !stats->timed;
		if (stats->state == POLLER_RUNNING && uncharged_ticks(r, now) > r->slow_ticks)
			to->busy_ticks += uncharged_ticks(r, now);
	}
	must(index == thread->poller_count);
	index = 0;
	TAILQ_FOREACH (channel, &thread->channels, in_thread) {
		struct channel_stats *stats = &room->channels[index++];

		(void)text_copy(stats->device, sizeof(stats->device), channel->device->name->text); /* a long name is cut */
		stats->ref_count = (uint32_t)counter_read(&channel->ref_count);
	}
	must(index == thread->channel_count);
}

void thread_stats_walk(thread_stats_fn fn, void *ctx)
{
	struct room room = { 0 };
	uint64_t id = 0;

	for (;;) {
		struct thread_stats stats;
		struct fathom_thread *thread;

		registry_lock();
		TAILQ_FOREACH (thread, &registry.threads, in_registry) {
			if (thread->id > id)
				break;
		}
		if (thread) {
			reserve_room(&room, thread->poller_count, thread->channel_count);
			copy_thread(thread, &room, &stats, stats_tick());
			id = thread->id;
		}
		registry_unlock();
		if (!thread)
			break;
		fn(ctx, &stats);
	}
	free(room.pollers);
	free(room.channels);
}

/* utime and stime of /proc/self/task/TID/stat, in milliseconds; 0 if it cannot be read. */
static void read_processor_time(int tid, uint64_t *usr_ms_ret, uint64_t *sys_ms_ret)
{
	unsigned long long usr = 0, sys = 0;
	char path[64], text[1024];
	const char *at;
	ssize_t bytes;
	long hz = sysconf(_SC_CLK_TCK);
	int fd;

	*usr_ms_ret = *sys_ms_ret = 0;
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	bytes = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (bytes <= 0 || hz <= 0)
		return;
	text[bytes] = '\0';
	/* The name is in parentheses and may hold anything; then state, ten numbers, utime, stime. */
	at = strrchr(text, ')');
	if (!at || sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &usr, &sys) != 2)
		return;
	*usr_ms_ret = usr * 1000 / (unsigned long long)hz;
	*sys_ms_ret = sys * 1000 / (unsigned long long)hz;
}

/* With that of the function that runs now. */
static uint64_t longest_stall(const struct reactor *r, uint64_t now)
{
	uint64_t window = now / r->stall_window_ticks, longest = 0, running = uncharged_ticks(r, now);

	for (int i = 0; i < 2; i++) {
		if (counter_read(&r->stalls[i].window) + 1 >= window)
			longest = max_u64(longest, counter_read(&r->stalls[i].longest));
	}
	if (atomic_load_explicit(&r->running, memory_order_relaxed) && !atomic_load(&r->sleeping) &&
	    running > r->slow_ticks)
		longest = max_u64(longest, running);
	return longest;
}

static void copy_reactor(struct reactor *r, struct reactor_stats *to, uint64_t now)
{
	const struct trace_istr *running = atomic_load_explicit(&r->running, memory_order_relaxed);

	*to = (struct reactor_stats){
		.index = r->index,
		.cpu = r->cpu,
		.control = r->control,
		.sleeping = atomic_load(&r->sleeping),
		.tid = atomic_load(&r->tid),
		.busy_ticks = counter_read(&r->busy_ticks),
		.idle_ticks = counter_read(&r->idle_ticks),
		.sleep_count = counter_read(&r->sleep_count),
		.running = running ? running->text : "",
		.running_since_tick = running ? counter_read(&r->now) : 0,
		.longest_stall_ticks = longest_stall(r, now),
	};
	if (to->sleeping)
		to->idle_ticks += uncharged_ticks(r, now);
	else if (running && uncharged_ticks(r, now) > r->slow_ticks)
		to->busy_ticks += uncharged_ticks(r, now);
	if (to->tid > 0)
		read_processor_time(to->tid, &to->usr_ms, &to->sys_ms);
}

void reactor_stats_walk(reactor_stats_fn fn, void *ctx)
{
	for (unsigned int i = 0; i <= reactors_count(); i++) {
		struct reactor *r = i < reactors_count() ? reactor_at(i) : reactor_control();
		struct reactor_stats stats;

		copy_reactor(r, &stats, stats_tick());
		fn(ctx, &stats);
	}
}
