/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * First: the engine or the server dies in each state, as soon as the instance has entered it.
 *
 * Then a thousand random steps: requests, deaths of the engine and of the server, a management service that rejects or
 * does not answer, engines that misbehave. Invariants: at most one process (the double's lock detects a second), one event
 * engine_died for each death without a request, and a superblock that is complete or does not exist. At the end each
 * request was answered once, and no process is left.
 */
#include "instance_rig.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/text.h"
#include "base/reactor/reactor.h"
#include "control/fault/fault.h"

enum { STEPS = 1000, STEPS_MAX = 4000, KILLS_MIN = 11, ASKED = 64 };

static struct rig_asked asked[ASKED], last;
static size_t asked_count;
static uint64_t kills, server_deaths, orphans;
static struct random random_steps;

static void wait_for_answers(void)
{
	for (size_t i = 0; i < asked_count; i++)
		rig_answered(&asked[i]);
}

/*
 * Stop it. A killed process may outlive the time-out of 30 ms, since the kernel ends it only when a CPU is free. Then the
 * stop fails, and is repeated.
 */
static void stop_until_done(bool force)
{
	uint64_t until = clock_monotonic_ns() + 60 * NS_PER_SEC;

	do {
		assert_true(clock_monotonic_ns() < until);
		rig_stop_it(&last, force);
		rig_answered(&last);
	} while (last.failed && last.why.code == FAULT_ENGINE_UNKILLABLE);
	if (last.failed)
		fail_msg("%s", last.why.text);
}

/* A place for an answer. When all are used, stop the engine and wait for all answers. */
static struct rig_asked *place(void)
{
	if (asked_count == ASKED) {
		rig.join = RIG_WELCOME;
		rig_manner("");
		stop_until_done(true);
		wait_for_answers();
		asked_count = 0;
	}
	return &asked[asked_count++];
}

/* Kill its process. An event must report the death, unless a requested stop came first. */
static void kill_engine(void)
{
	static const int signals[] = { SIGKILL, SIGSEGV };
	uint64_t told = rig.died, stops = rig.stops; /* read before the state, since a stop may be pending */
	const struct instance_info *info = rig_look();
	pid_t pid = info->pid;

	bool stopping = info->state == INSTANCE_STOPPING;

	if (info->pid == 0)
		return;
	if (kill(info->pid, signals[random_below(&random_steps, 2)]) != 0)
		return;
	rig_until_gone(pid);
	if (rig.died == told + 1) {
		kills++;
		assert_int_equal(rig.died_pid, pid);
	} else {
		assert_int_equal(rig.died, told);
		assert_true(stopping || rig.stops > stops);
	}
}

static void restart_server(void)
{
	if (rig.held)
		rig_release_join(RIG_NO_ANSWER);
	rig_destroy();
	server_deaths++;
	if (random_below(&random_steps, 2))
		usleep((useconds_t)random_below(&random_steps, 2000));
	rig_create();
}

static void change_manner(void)
{
	static const char *const manners[] = { "", "", "", "no-term", "silent" };

	rig_manner(manners[random_below(&random_steps, ARRAY_COUNT(manners))]);
	rig.join = (enum rig_join)random_below(&random_steps, RIG_HOLD);
}

static void step(void)
{
	switch (random_below(&random_steps, 16)) {
	case 0:
	case 1:
	case 2:
	case 3:
		rig_start_it(place());
		break;
	case 4:
	case 5:
		rig_stop_it(place(), false);
		break;
	case 6:
		rig_stop_it(place(), true);
		break;
	case 7:
	case 8:
		kill_engine();
		break;
	case 9:
	case 10:
		restart_server();
		break;
	case 11:
		rig_format_it(place(), random_below(&random_steps, 2), random_below(&random_steps, 2));
		break;
	case 12:
		rig_erase_it(place());
		break;
	case 13:
		rig_group((uint32_t)random_below(&random_steps, 100) + 1);
		rig_ping_it(place());
		break;
	case 14:
		rig_prepare_it(place());
		break;
	default:
		change_manner();
		break;
	}
}

static void check(void)
{
	struct superblock superblock;
	struct fathom_fault why;
	char path[128];
	int error;

	assert_int_equal(rig_received("TWICE"), 0);
	snprintf(path, sizeof(path), "%s/superblock", rig.storage);
	error = superblock_read(path, "fathom", &superblock, &why);
	if (error && error != -ENOENT) /* it does not exist, or it is complete */
		fail_msg("%s", why.text);
}

static const struct instance_restart soon = { true, NS_PER_MS, 20 * NS_PER_MS, 0 };

static struct {
	enum instance_state at; /* strike when it enters this state, once */
	bool armed, server;	/* the server dies; else SIGKILL for the engine */
	pid_t pid;		/* of the engine; 0: as the instance knows it */
} strike;

/* A hook must not destroy its instance, so this is a message. Only messages that were sent earlier run before it. */
static void strike_server(void *unused)
{
	(void)rig_destroy_here(NULL);
	strike.armed = false;
}

static void maybe_strike(struct instance *instance, enum instance_state to)
{
	struct instance_info info;

	if (!strike.armed || strike.at != to)
		return;
	if (strike.server) {
		thread_send_msg(thread_control(), strike_server, NULL);
		return;
	}
	instance_get_info(instance, &info);
	must(strike.pid > 0 || info.pid > 0);
	must(kill(strike.pid ? strike.pid : info.pid, SIGKILL) == 0);
	strike.armed = false;
}

static void read_armed(void *armed)
{
	*(bool *)armed = strike.armed;
}

static void until_struck(void)
{
	uint64_t until = clock_ticks() + clock_ticks_from_ns(60 * NS_PER_SEC);
	bool armed = true;

	while (armed) {
		assert_true((int64_t)(clock_ticks() - until) < 0);
		rig_run(read_armed, &armed);
	}
}

/* From any state to JOINED; formats it if it cannot start. */
static void bring_back(void)
{
	struct rig_asked again;

	rig_start_it(&again);
	rig_answered(&again);
	if (again.failed) {
		rig_format_it(&again, true, false);
		rig_answered(&again);
	}
	rig_until(INSTANCE_JOINED);
}

/* Take the instance to state `at`, where the server or the engine dies; then all must work again. */
static void die_in(enum instance_state at, bool server)
{
	bool engine_found = at == INSTANCE_ADOPTING && !server;
	bool had_process = at == INSTANCE_STARTING || at == INSTANCE_READY || at == INSTANCE_JOINED || engine_found;
	struct rig_asked first, second, third;

	rig_begin();
	strike.pid = 0;
	for (size_t i = 0; i < INSTANCE_CAUSES; i++)
		rig.options.restart[i] = soon;
	if (engine_found) {
		rig_bring_up();
		strike.pid = rig_look()->pid;
		rig_destroy();
	}
	strike.at = at;
	strike.server = server;
	strike.armed = true;
	rig.changed = maybe_strike;
	rig_create();
	rig_start_it(&first); /* without storage: ADOPTING, CHECKING, AWAIT_FORMAT */
	if (at != INSTANCE_ADOPTING && at != INSTANCE_CHECKING && at != INSTANCE_AWAIT_FORMAT) {
		rig_answered(&first);
		rig_format_it(&second, false, false);
	}
	if (at == INSTANCE_STOPPING || at == INSTANCE_STOPPED || at == INSTANCE_ERRORED) {
		rig_until(INSTANCE_JOINED);
		if (at == INSTANCE_ERRORED)
			rig_kill(SIGKILL);
		else
			rig_stop_it(&third, false);
	}
	until_struck();
	if (server)
		rig_create();
	else if (had_process)
		rig_until_died(1);
	bring_back();
	assert_int_equal(rig.died, (server ? at == INSTANCE_ERRORED : had_process) ? 1 : 0);
	assert_int_equal(rig_received("TWICE"), 0);
	rig_stop_it(&last, false);
	rig_done(&last);
	while (waitpid(-1, NULL, WNOHANG) > 0) /* reap engines that ended without a server */
		;
	rig_end();
}

static void server_and_engine_die_in_every_state(void **state)
{
	static const enum instance_state with_process[] = { INSTANCE_ADOPTING, INSTANCE_STARTING, INSTANCE_READY,
							    INSTANCE_JOINED, INSTANCE_STOPPING };
	static const enum instance_state all[] = { INSTANCE_ADOPTING,	INSTANCE_CHECKING, INSTANCE_AWAIT_FORMAT,
						   INSTANCE_FORMATTING, INSTANCE_STARTING, INSTANCE_READY,
						   INSTANCE_JOINED,	INSTANCE_STOPPING, INSTANCE_STOPPED,
						   INSTANCE_ERRORED };

	for (size_t i = 0; i < ARRAY_COUNT(with_process); i++)
		die_in(with_process[i], false);
	for (size_t i = 0; i < ARRAY_COUNT(all); i++)
		die_in(all[i], true);
}

static void a_thousand_random_steps(void **state)
{
	const char *seed = getenv("FATHOM_SEED");
	uint64_t number = 20261122;

	if (seed)
		must(text_parse_u64(seed, 10, UINT64_MAX, &number) == 0);
	random_init(&random_steps, number);
	rig_begin();
	rig.options.ready_timeout_ns = 30 * NS_PER_SEC;
	rig.options.stop_timeout_ns = 30 * NS_PER_MS;
	for (size_t i = 0; i < INSTANCE_CAUSES; i++)
		rig.options.restart[i] = soon;
	rig_create();
	/* how many of the deaths come without a request depends on timing */
	for (int i = 0; i < STEPS || (kills < KILLS_MIN && i < STEPS_MAX); i++) {
		step();
		if (i % 10 == 0)
			check();
		if (random_below(&random_steps, 4) == 0)
			usleep((useconds_t)random_below(&random_steps, 20000));
	}
	rig_manner("");
	rig.join = RIG_WELCOME;
	stop_until_done(true);
	wait_for_answers(); /* a stop does not wait for formatting, and a format during it is rejected */
	rig_format_it(&last, true, false);
	rig_done(&last);
	rig_until(INSTANCE_JOINED);
	stop_until_done(false);
	wait_for_answers(); /* still one for each request */
	check();
	print_message("# %u engines, %llu killed, %llu reported\n", rig_received("BEGINS 0"), (unsigned long long)kills,
		      (unsigned long long)rig.died);
	assert_int_equal(rig.died, kills);
	assert_true(kills >= KILLS_MIN);
	while (waitpid(-1, NULL, WNOHANG) > 0) /* reap engines that ended without a server */
		orphans++;
	assert_true(orphans <= server_deaths);
	rig_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(server_and_engine_die_in_every_state),
		cmocka_unit_test(a_thousand_random_steps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
