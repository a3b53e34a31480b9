/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * for_each_channel(): a walk over the threads that have a channel to a device, in the order of their ids, by messages.
 *
 *   step      who is the next, after the id we have been at?  [under the registry's mutex, and the message sent under it:
 *             a thread found with a channel is still there, and with a message queued it will not go]
 *   visit     on that thread: is the channel still there? it is held while visited, so that a put waits
 *   ...       channel_iter_next(): step again, or the end on the thread that asked
 *
 * A channel that is made meanwhile is visited if its thread's id is still ahead.
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
	struct channel *visited; /* being */
	uint64_t thread_id;	 /* where we are */
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

static void step(struct channel_iter *iter)
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
		step(iter);
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
	step(iter);
}

/* By this name SPDK's send_msg.bt attaches to it; the function for each channel is the second argument of both. */
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
	step(iter);
}
