/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/reactor/deadline.h"
#include "base/reactor/reactor.h"

/* Set the timer to the first deadline. If it fires early, for a deadline that was cleared, run_due() sets it again. */
static void arm_timer(struct deadlines *set)
{
	const struct deadline *first = TAILQ_FIRST(&set->list);
	uint64_t now = reactor_now();

	if (!first) {
		poller_pause(set->poller);
		return;
	}
	poller_set_period(set->poller, max_u64(1, first->due > now ? clock_ns_from_ticks(first->due - now) : 1));
	poller_resume(set->poller);
}

static int run_due(void *ctx)
{
	struct deadlines *set = ctx;
	struct deadline *first;
	bool ended = false;
	int count = 0;

	set->ended = &ended;
	while ((first = TAILQ_FIRST(&set->list)) && first->due <= reactor_now()) {
		TAILQ_REMOVE(&set->list, first, link);
		first->set = false;
		count++;
		first->fn(first);
		if (ended)
			return count;
	}
	set->ended = NULL;
	arm_timer(set);
	return count;
}

int deadlines_init(struct deadlines *set, const char *name)
{
	TAILQ_INIT(&set->list);
	set->ended = NULL;
	set->poller = poller_register(name, run_due, set, NS_PER_SEC);
	if (!set->poller)
		return -ENOMEM;
	poller_pause(set->poller);
	return 0;
}

void deadlines_deinit(struct deadlines *set)
{
	if (!set->poller)
		return;
	if (set->ended)
		*set->ended = true;
	poller_unregister(&set->poller);
}

void deadline_set(struct deadlines *set, struct deadline *deadline, uint64_t after_ns, deadline_fn fn)
{
	uint64_t now = reactor_now(), after = clock_ticks_from_ns(min_u64(after_ns, 365ull * 86400 * NS_PER_SEC));
	struct deadline *before;

	deadline_clear(set, deadline);
	deadline->due = now + after;
	deadline->fn = fn;
	deadline->set = true;
	TAILQ_FOREACH_REVERSE(before, &set->list, deadline_list, link)
	{
		if (before->due <= deadline->due)
			break;
	}
	if (before) {
		TAILQ_INSERT_AFTER(&set->list, before, deadline, link);
		return;
	}
	TAILQ_INSERT_HEAD(&set->list, deadline, link);
	if (!set->ended)
		arm_timer(set);
}

void deadline_clear(struct deadlines *set, struct deadline *deadline)
{
	if (!deadline->set)
		return;
	TAILQ_REMOVE(&set->list, deadline, link);
	deadline->set = false;
	if (TAILQ_EMPTY(&set->list) && !set->ended)
		poller_pause(set->poller);
}
