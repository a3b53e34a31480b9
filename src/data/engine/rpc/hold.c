/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Methods of --test-methods that put a fault into a thread, to test that tools find it: control_hold blocks the control
 * thread for ever, message_storm keeps a reactor busy with messages. reactor_hold and engine_crash are in thread.c.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/reactor/reactor.h"
#include "data/engine/internal.h"
#include "data/engine/methods.gen.h"

/* ---- control_hold ---- */

static struct {
	pthread_mutex_t first, second;
	pthread_barrier_t both_have_one;
} locks = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, { { 0 } } };

static void *lock_second_first(void *unused)
{
	(void)pthread_setname_np(pthread_self(), "second_lock");
	pthread_mutex_lock(&locks.second);
	pthread_barrier_wait(&locks.both_have_one);
	pthread_mutex_lock(&locks.first); /* never returns */
	return unused;
}

static void hold_by_locks(void *unused)
{
	pthread_t other;

	must(pthread_barrier_init(&locks.both_have_one, NULL, 2) == 0);
	pthread_mutex_lock(&locks.first);
	must(pthread_create(&other, NULL, lock_second_first, unused) == 0);
	pthread_barrier_wait(&locks.both_have_one);
	pthread_mutex_lock(&locks.second); /* never returns */
}

/* A read of a pipe to which nothing is written. */
static void hold_by_call(void *unused)
{
	int fds[2];
	char byte;

	(void)unused;
	must(pipe(fds) == 0);
	(void)!read(fds[0], &byte, 1); /* never returns */
}

/* Replies before the thread is blocked, for which no client would get an answer. */
void method_control_hold(struct rpc_request *request, const struct control_hold_params *p)
{
	thread_send_msg(thread_control(), p->how == RPC_HOLD_LOCKS ? hold_by_locks : hold_by_call, NULL);
	rpc_reply(request, json_true());
}

/* ---- message_storm ---- */

enum { STORM_MESSAGES = 64 }; /* always under way */

struct storm {
	uint64_t until_ns;
	uint32_t under_way;
};

static void storm_message(void *ctx)
{
	struct storm *storm = ctx;

	if (clock_monotonic_ns() < storm->until_ns) {
		thread_send_msg(thread_self(), storm_message, storm);
		return;
	}
	must(storm->under_way > 0);
	if (--storm->under_way == 0) {
		free(storm);
		thread_exit(thread_self());
	}
}

static void start_storm(void *ctx)
{
	struct storm *storm = ctx;

	for (storm->under_way = 0; storm->under_way < STORM_MESSAGES; storm->under_way++)
		thread_send_msg(thread_self(), storm_message, storm);
}

void method_message_storm(struct rpc_request *request, const struct message_storm_params *p)
{
	struct fathom_thread *thread;
	struct storm *storm;

	if (p->reactor >= reactors_count()) {
		rpc_error(request, RPC_CODE_INVALID_PARAMETERS,
			  "Invalid parameters: there is no reactor %u, only %u reactors", p->reactor, reactors_count());
		return;
	}
	storm = calloc(1, sizeof(*storm));
	thread = thread_create("message_storm", reactor_at(p->reactor));
	must(storm);
	must(thread);
	storm->until_ns = clock_monotonic_ns() + p->milliseconds * NS_PER_MS;
	thread_send_msg(thread, start_storm, storm);
	rpc_reply(request, json_true());
}
