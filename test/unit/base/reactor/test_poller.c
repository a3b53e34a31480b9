/* SPDX-License-Identifier: BSD-2-Clause */
/* Pollers and their timers in simulated time: order and times are exact. */
#include <string.h>

#include "base/bits.h"
#include "base/random.h"
#include "rig.h"

enum { POLLERS_MAX = 200, EVENTS_MAX = 4096 };

/* The pollers that ran, and their times. */
static struct {
	char letter;
	uint64_t tick;
} events[EVENTS_MAX];
static unsigned int event_count;

static struct fathom_thread *home;

static void note(char letter)
{
	assert_true(event_count < EVENTS_MAX);
	events[event_count].letter = letter;
	events[event_count].tick = reactor_tick();
	event_count++;
}

static const char *story(void)
{
	static char text[EVENTS_MAX + 1];

	for (unsigned int i = 0; i < event_count; i++)
		text[i] = events[i].letter;
	text[event_count] = '\0';
	event_count = 0;
	return text;
}

struct actor {
	char letter;
	int result;
	void (*act)(struct actor *actor);
	struct poller *poller;
	struct actor *other;
	uint64_t period_ns;
};

static int run_actor(void *ctx)
{
	struct actor *actor = ctx;

	note(actor->letter);
	if (actor->act)
		actor->act(actor);
	return actor->result;
}

static void start(struct actor *actor)
{
	char name[] = { actor->letter, '\0' };

	actor->poller = poller_register(name, run_actor, actor, actor->period_ns);
	assert_non_null(actor->poller);
}

static void start_message(void *actor)
{
	start(actor);
}

static void stop_message(void *ctx)
{
	struct actor *actor = ctx;

	poller_unregister(&actor->poller);
}

static void start_actors(struct actor *actors, size_t count)
{
	rig_start_simulated(1);
	home = thread_create("home", NULL);
	for (size_t i = 0; i < count; i++)
		thread_send_msg(home, start_message, &actors[i]);
	/* Not rig_settle(): busy pollers never become idle. */
	(void)reactor_step(reactor_at(0), 1000);
	event_count = 0;
}

static void end(struct actor *actors, size_t count)
{
	for (size_t i = 0; i < count; i++)
		thread_send_msg(home, stop_message, &actors[i]);
	rig_exit(home);
	rig_stop();
}

static void step(uint64_t now)
{
	(void)reactor_step(reactor_at(0), now);
}

static void active_pollers_run_each_turn_newest_first(void **state)
{
	struct actor actors[] = { { .letter = 'a' }, { .letter = 'b' }, { .letter = 'c' } };

	start_actors(actors, 3);
	step(1000);
	step(1000);
	assert_string_equal(story(), "cbacba");
	end(actors, 3);
}

static void only_busy_pollers_make_a_turn_busy(void **state)
{
	struct actor actors[] = { { .letter = 'a' }, { .letter = 'b', .result = 1 } };

	start_actors(actors, 2);
	assert_true(reactor_step(reactor_at(0), 1000));
	actors[1].result = 0;
	assert_false(reactor_step(reactor_at(0), 1000));
	end(actors, 2);
}

static void unregister_self(struct actor *actor)
{
	poller_unregister(&actor->poller);
	assert_null(actor->poller);
}

static void unregister_other(struct actor *actor)
{
	poller_unregister(&actor->other->poller);
}

static void unregister_both(struct actor *actor)
{
	unregister_other(actor);
	unregister_self(actor);
}

static void replace_self(struct actor *actor)
{
	poller_unregister(&actor->poller);
	start(actor);
}

static void pollers_unregister_themselves_and_others_from_callbacks(void **state)
{
	struct actor actors[] = { { .letter = 'a' }, { .letter = 'b' }, { .letter = 'c' }, { .letter = 'd' } };

	start_actors(actors, 4);
	actors[2].act = unregister_self;
	step(1000);
	step(1000);
	assert_string_equal(story(), "dcbadba");
	actors[3].act = unregister_other; /* the poller that would run next */
	actors[3].other = &actors[1];
	step(1000);
	assert_string_equal(story(), "da");
	actors[0].act = unregister_both; /* the previous poller and itself */
	actors[0].other = &actors[3];
	step(1000);
	step(1000);
	assert_string_equal(story(), "da");
	end(actors, 4);
}

static void a_poller_that_replaces_itself_runs_once_a_turn(void **state)
{
	struct actor actors[] = { { .letter = 'a' }, { .letter = 'b', .act = replace_self } };

	start_actors(actors, 2);
	step(1000);
	step(1000);
	step(1000);
	assert_string_equal(story(), "bababa");
	end(actors, 2);
}

static void pause_self(struct actor *actor)
{
	poller_pause(actor->poller);
	poller_pause(actor->poller);
}

static void resume_other(struct actor *actor)
{
	poller_resume(actor->other->poller);
	poller_resume(actor->other->poller);
}

static void paused_pollers_do_not_run_until_resumed(void **state)
{
	struct actor actors[] = { { .letter = 'a' }, { .letter = 'b', .act = pause_self } };

	start_actors(actors, 2);
	step(1000);
	step(1000);
	/* the first step ran in start_actors() */
	assert_string_equal(story(), "aa");
	actors[0].act = resume_other;
	actors[0].other = &actors[1];
	actors[1].act = NULL;
	step(1000);
	actors[0].act = NULL;
	step(1000);
	assert_string_equal(story(), "aba");
	end(actors, 2);
}

static void a_paused_poller_can_be_unregistered(void **state)
{
	struct actor actors[] = { { .letter = 'a', .act = pause_self },
				  { .letter = 't', .act = pause_self, .period_ns = 10 } };

	start_actors(actors, 2);
	step(1010);
	assert_string_equal(story(), "t");
	step(1100);
	assert_string_equal(story(), "");
	end(actors, 2);
}

static void timed_pollers_keep_their_period_and_skip_missed_runs(void **state)
{
	struct actor actors[] = { { .letter = 't', .period_ns = 100 } };

	start_actors(actors, 1);
	assert_int_equal(reactor_next_tick(reactor_at(0)), 1100);
	step(1098);
	assert_string_equal(story(), "");
	step(1100);
	assert_string_equal(story(), "t");
	assert_int_equal(reactor_next_tick(reactor_at(0)), 1200);
	step(1230); /* late */
	assert_string_equal(story(), "t");
	assert_int_equal(reactor_next_tick(reactor_at(0)), 1300);
	step(1660); /* so late that runs were missed */
	assert_string_equal(story(), "t");
	assert_int_equal(reactor_next_tick(reactor_at(0)), 1760);
	end(actors, 1);
	assert_string_equal(story(), "");
}

static void timers_due_at_the_same_time_run_in_the_order_of_arming(void **state)
{
	struct actor actors[] = { { .letter = 'a', .period_ns = 100 },
				  { .letter = 'b', .period_ns = 50 },
				  { .letter = 'c', .period_ns = 100 } };

	start_actors(actors, 3);
	step(1050);
	step(1100);
	/* b was armed again at 1050, after a and c were at 1000 */
	assert_string_equal(story(), "bacb");
	end(actors, 3);
}

static void timed_pollers_unregister_themselves_and_others(void **state)
{
	struct actor actors[] = {
		{ .letter = 'a', .period_ns = 10, .act = unregister_both, .other = &actors[1] },
		{ .letter = 'b', .period_ns = 10 },
		{ .letter = 'c', .period_ns = 10, .act = replace_self },
	};

	start_actors(actors, 3);
	step(1010);
	assert_string_equal(story(), "ac");
	step(1020);
	assert_string_equal(story(), "c");
	end(actors, 3);
}

/* Hundreds of timers, compared with a table of their due times. */
static void many_timers_never_run_early_or_out_of_order(void **state)
{
	static struct actor actors[POLLERS_MAX];
	uint64_t due[POLLERS_MAX], now = 1000;
	struct random random;

	random_init(&random, 7);
	for (size_t i = 0; i < POLLERS_MAX; i++) {
		actors[i] = (struct actor){ .letter = (char)i, .period_ns = 2 * (1 + random_below(&random, 500)) };
		due[i] = 0;
	}
	start_actors(actors, 0);
	for (size_t i = 0; i < POLLERS_MAX; i++)
		thread_send_msg(home, start_message, &actors[i]);
	while (reactor_next_tick(reactor_at(0)) == 0)
		step(now);
	for (size_t i = 0; i < POLLERS_MAX; i++)
		due[i] = now + actors[i].period_ns;
	for (int round = 0; round < 2000; round++) {
		uint64_t next = UINT64_MAX;

		for (size_t i = 0; i < POLLERS_MAX; i++)
			next = actors[i].poller ? min_u64(next, due[i]) : next;
		assert_int_equal(reactor_next_tick(reactor_at(0)), next);
		now = next;
		event_count = 0;
		step(now);
		for (unsigned int e = 0; e < event_count; e++) {
			size_t i = (unsigned char)events[e].letter;

			assert_int_equal(due[i], now);
			due[i] += actors[i].period_ns;
		}
		for (size_t i = 0; i < POLLERS_MAX; i++)
			assert_true(!actors[i].poller || due[i] > now);
		if (round % 20 == 0) {
			thread_send_msg(home, stop_message, &actors[random_below(&random, POLLERS_MAX)]);
			step(now);
		}
	}
	event_count = 0;
	for (size_t i = 0; i < POLLERS_MAX; i++)
		thread_send_msg(home, stop_message, &actors[i]);
	end(actors, 0);
}

static void register_within(struct actor *actor)
{
	actor->act = NULL;
	start(actor->other);
}

static void a_poller_registered_in_a_callback_runs_from_the_next_turn(void **state)
{
	struct actor actors[] = { { .letter = 'a' }, { .letter = 'b' } };
	struct actor late = { .letter = 'n' };

	start_actors(actors, 2);
	actors[1].act = register_within;
	actors[1].other = &late;
	step(1000);
	assert_string_equal(story(), "ba");
	step(1000);
	assert_string_equal(story(), "nba");
	thread_send_msg(home, stop_message, &late);
	end(actors, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(active_pollers_run_each_turn_newest_first),
		cmocka_unit_test(only_busy_pollers_make_a_turn_busy),
		cmocka_unit_test(pollers_unregister_themselves_and_others_from_callbacks),
		cmocka_unit_test(a_poller_that_replaces_itself_runs_once_a_turn),
		cmocka_unit_test(paused_pollers_do_not_run_until_resumed),
		cmocka_unit_test(a_paused_poller_can_be_unregistered),
		cmocka_unit_test(timed_pollers_keep_their_period_and_skip_missed_runs),
		cmocka_unit_test(timers_due_at_the_same_time_run_in_the_order_of_arming),
		cmocka_unit_test(timed_pollers_unregister_themselves_and_others),
		cmocka_unit_test(many_timers_never_run_early_or_out_of_order),
		cmocka_unit_test(a_poller_registered_in_a_callback_runs_from_the_next_turn),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
