/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages: a queue per thread (mpsc.h), a node from malloc per message, at most MESSAGES_PER_STEP_MAX of them a turn. */
#include <stdlib.h>

#include "base/reactor/internal.h"
#include "base/reactor/probes.gen.h"

struct message {
	struct mpsc_node node;
	thread_fn fn;
	void *ctx;
};

/* SPDK's script send_msg.bt attaches to this name; in both functions the second argument is the message's function. */
void spdk_thread_send_msg(struct fathom_thread *thread, thread_fn fn, void *ctx)
	__attribute__((alias("thread_send_msg"), visibility("default"), used));

void thread_send_msg(struct fathom_thread *thread, thread_fn fn, void *ctx)
{
	struct message *message = malloc(sizeof(*message));

	must(thread);
	must(fn);
	must(message);
	message->fn = fn;
	message->ctx = ctx;
	probe_thread_send_msg(probe_tick(), thread, (const void *)fn);
	mpsc_push(&thread->messages, &message->node);
	/*
	 * The message may have run and ended `thread`. Reading it is still safe: its memory is reused, not freed
	 * (thread.c).
	 */
	thread_wake(thread);
}

bool messages_run(struct reactor *r, struct fathom_thread *thread)
{
	struct mpsc_node *node;
	int count = 0;

	publish_running(r, running_names.messages, thread, NULL);
	while (count < MESSAGES_PER_STEP_MAX && (node = mpsc_pop(&thread->messages)) != NULL) {
		struct message *message = container_of(node, struct message, node);
		thread_fn fn = message->fn;
		void *ctx = message->ctx;

		free(message);
		probe_thread_msg_executed(counter_read(&r->now) | TICK_SHARED, thread, (const void *)fn);
		fn(ctx);
		count++;
	}
	if (count == 0)
		return false;
	thread_charge(r, thread, running_names.messages);
	return true;
}
