/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * for_each_channel(): a walk over the threads that have a channel to a device, in the order of their ids, by messages.
 *
 *   visit_next()          Find the thread with the next higher id that has a channel, and send it a message, both under
 *                         the registry's mutex: with a message in its queue a thread cannot end.
 *   visit_message()       On that thread: look the channel up again and take a reference, so that a put during the visit
 *                         does not destroy it.
 *   channel_iter_next()   Visit the next thread; after the last, send the end to the thread that started the walk.
 *
 * A channel created during the walk is visited if its thread's id is higher than the current one.
 */
#include <stdlib.h>

#include "base/reactor/internal.h"
#include "base/reactor/probes.gen.h"

struct channel_iter {
	const void *device;
	const struct trace_istr *device_name;
	channel_visit_fn visit;
	channel_visited_fn done;
	void *ctx;
	struct fathom_thread *origin;
	struct channel *visited; /* the channel being visited; NULL between visits */
	uint64_t thread_id;	 /* the thread visited last */
	uint32_t count;
	int status;
};

static void visit_message(void *ctx);

static void end_message(void *ctx)
{
	struct channel_iter *iter = ctx;

	must_be_on(iter->origin);
	must(iter->origin->holds > 0);
	iter->origin->holds--;
	probe_for_each_channel_done(probe_tick(), iter->origin, iter->device_name, iter->status, iter->count);
	if (iter->done)
		iter->done(iter->status, iter->ctx);
	free(iter);
}

static void visit_next(struct channel_iter *iter)
{
	struct fathom_thread *thread = NULL;

	registry_lock();
	if (iter->status == 0) {
		TAILQ_FOREACH (thread, &registry.threads, in_registry) {
			if (thread->id > iter->thread_id && channel_find(thread, iter->device))
				break;
		}
	}
	if (thread) {
		iter->thread_id = thread->id;
		thread_send_msg(thread, visit_message, iter);
	} else {
		thread_send_msg(iter->origin, end_message, iter);
	}
	registry_unlock();
}

static void visit_message(void *ctx)
{
	struct channel_iter *iter = ctx;
	struct channel *channel = channel_find(thread_self(), iter->device);

	if (!channel) {
		visit_next(iter);
		return;
	}
	channel_ref(channel);
	iter->visited = channel;
	iter->count++;
	iter->visit(iter, channel, iter->ctx);
}

void channel_iter_next(struct channel_iter *iter, int status)
{
	struct channel *channel = iter->visited;

	must(channel);
	must_be_on(channel->thread);
	iter->visited = NULL;
	iter->status = status;
	channel_put(channel);
	visit_next(iter);
}

/* SPDK's script send_msg.bt attaches to this name; in both functions the second argument is the function to call. */
void spdk_for_each_channel(const void *device, channel_visit_fn visit, channel_visited_fn done, void *ctx)
	__attribute__((alias("for_each_channel"), visibility("default"), used));

void for_each_channel(const void *device, channel_visit_fn visit, channel_visited_fn done, void *ctx)
{
	struct channel_iter *iter = malloc(sizeof(*iter));

	must(thread_self());
	must(visit);
	must(iter);
	*iter = (struct channel_iter){
		.device = device, .visit = visit, .done = done, .ctx = ctx, .origin = thread_self()
	};
	iter->origin->holds++;
	iter->device_name = device_name(device);
	probe_for_each_channel(probe_tick(), iter->origin, (const void *)visit, iter->device_name);
	visit_next(iter);
}
