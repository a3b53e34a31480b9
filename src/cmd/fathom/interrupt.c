/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/fathom/interrupt.h"

#include <poll.h>
#include <signal.h>
#include <time.h>

#include "base/clock.h"

static volatile sig_atomic_t arrived;

static void note_interrupt(int number)
{
	arrived = 1;
}

void interrupt_catch(void)
{
	const struct sigaction action = { .sa_handler = note_interrupt };

	must(sigaction(SIGINT, &action, NULL) == 0);
	must(sigaction(SIGTERM, &action, NULL) == 0);
}

bool interrupt_arrived(void)
{
	return arrived;
}

void interrupt_sleep(uint64_t until_ns)
{
	sigset_t ours, before;
	uint64_t now_ns;

	/*
	 * Both signals are blocked between the check and the sleep. Otherwise a signal that arrives there would not end the
	 * sleep, which can last an hour.
	 */
	sigemptyset(&ours);
	sigaddset(&ours, SIGINT);
	sigaddset(&ours, SIGTERM);
	must(sigprocmask(SIG_BLOCK, &ours, &before) == 0);
	while (!arrived && (now_ns = clock_monotonic_ns()) < until_ns) {
		const struct timespec left = { .tv_sec = (time_t)((until_ns - now_ns) / NS_PER_SEC),
					       .tv_nsec = (long)((until_ns - now_ns) % NS_PER_SEC) };

		(void)ppoll(NULL, 0, &left, &before); /* a timeout or a signal; the loop checks both */
	}
	must(sigprocmask(SIG_SETMASK, &before, NULL) == 0);
}
