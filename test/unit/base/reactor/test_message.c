/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages: delivery and order, to polling and to sleeping reactors, from reactors and from foreign pthreads. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "rig.h"

enum { SENDERS = 4, MESSAGES = 100000 };

struct sender {
	struct fathom_thread *to;
	uint64_t sent;
	uint64_t expected; /* used only by `to` */
	pthread_t pthread;
};

struct numbered {
	struct sender *sender;
	uint64_t number;
};

static _Atomic(uint64_t) received, disordered;
static struct fathom_thread *home;

static void receive(void *ctx)
{
	struct numbered *numbered = ctx;

	if (thread_self() != home || numbered->number != numbered->sender->expected)
		disordered++;
	numbered->sender->expected = numbered->number + 1;
	received++;
}

static void *send_all(void *ctx)
{
	struct sender *sender = ctx;
	struct numbered *numbered = calloc(MESSAGES, sizeof(*numbered));

	assert_non_null(numbered);
	for (uint64_t i = 0; i < MESSAGES; i++) {
		numbered[i] = (struct numbered){ .sender = sender, .number = i };
		thread_send_msg(sender->to, receive, &numbered[i]);
	}
	return numbered;
}

static void messages_of_each_sender_arrive_once_and_in_order(void **state)
{
	struct sender senders[SENDERS] = { 0 };

	received = disordered = 0;
	rig_start(2);
	home = thread_create("receiver", rig_reactor(0));
	for (int i = 0; i < SENDERS; i++) {
		senders[i].to = home;
		assert_int_equal(pthread_create(&senders[i].pthread, NULL, send_all, &senders[i]), 0);
	}
	rig_wait_u64(&received, SENDERS * MESSAGES);
	for (int i = 0; i < SENDERS; i++) {
		void *numbered;

		assert_int_equal(pthread_join(senders[i].pthread, &numbered), 0);
		free(numbered);
	}
	assert_int_equal(disordered, 0);
	assert_int_equal(received, SENDERS * MESSAGES);
	rig_exit(home);
	rig_stop();
}

/* Two threads on two reactors send a message back and forth; each may sleep in between. */
struct ball {
	struct fathom_thread *player[2];
	uint64_t left;
	_Atomic(uint64_t) fallen;
};

static void catch_ball(void *ctx)
{
	struct ball *ball = ctx;

	if (ball->left == 0) {
		ball->fallen = 1;
		return;
	}
	ball->left--;
	thread_send_msg(ball->player[thread_self() == ball->player[0]], catch_ball, ball);
}

static void play(uint64_t spin_ns, uint64_t throws)
{
	struct ball ball = { .left = throws };

	rig_start_spinning(2, spin_ns);
	ball.player[0] = thread_create("one", rig_reactor(0));
	ball.player[1] = thread_create("other", rig_reactor(1));
	thread_send_msg(ball.player[0], catch_ball, &ball);
	rig_wait_u64(&ball.fallen, 1);
	rig_exit(ball.player[0]);
	rig_exit(ball.player[1]);
	rig_stop();
}

static void no_message_is_lost_between_sleeping_reactors(void **state)
{
	play(1, 20000);
}

static void no_message_is_lost_between_spinning_reactors(void **state)
{
	play(0, 20000);
}

static void note(void *ctx)
{
	(void)ctx;
	received++;
}

/* Each thread is created, gets one message and ends while its senders still use it: no freed memory may be used. */
static void a_thread_may_end_in_the_message_being_sent(void **state)
{
	received = 0;
	rig_start(2);
	for (int i = 0; i < 2000; i++) {
		struct fathom_thread *thread = thread_create("short", NULL);

		thread_send_msg(thread, note, NULL);
		rig_exit(thread);
	}
	rig_stop();
	assert_int_equal(received, 2000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_of_each_sender_arrive_once_and_in_order),
		cmocka_unit_test(no_message_is_lost_between_sleeping_reactors),
		cmocka_unit_test(no_message_is_lost_between_spinning_reactors),
		cmocka_unit_test(a_thread_may_end_in_the_message_being_sent),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
