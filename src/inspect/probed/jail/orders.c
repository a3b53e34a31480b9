/* SPDX-License-Identifier: BSD-2-Clause */
/* orders - assigns requests to children, and copies objects to the children's memory. */
#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "inspect/probed/jail/work.h"
#include "base/reactor/reactor.h"

uint64_t jail_input_bytes(const struct dof_input *input)
{
	return input->blocks[0].bytes + input->blocks[1].bytes;
}

bool jail_is_large(const struct dof_input *input)
{
	return jail_input_bytes(input) > JAIL_SLICE_BYTES;
}

/* ---- filling ---- */

/* The object cannot be copied: fail the request. `child` stays usable. */
static void fail_filling(struct child *child, int error)
{
	struct jail *jail = child->jail;
	struct request *request = child->request;

	must(error < 0);
	must(child->state == FILLING);
	must(jail->stats.busy > 0);
	fill_fault(&request->why, -ENOMEM, "out of memory while an object was copied to a parser: %s", strerror(-error));
	child->state = IDLE;
	child->request = NULL;
	jail->stats.busy--;
	if (jail_is_large(&request->input))
		(void)jail_end_child(child, JAIL_END_LARGE, NULL); /* it has none any more */
	jail_settle(jail, request);
}

void jail_requeue_request(struct child *child, bool has_misbehaved)
{
	struct jail *jail = child->jail;
	struct request *request = jail_end_child(child, JAIL_END_NONSENSE, NULL);

	must(request);
	must(jail->stats.busy > 0);
	jail->stats.nonsense += has_misbehaved;
	jail->stats.busy--;
	TAILQ_INSERT_HEAD(&jail->waiting, request, in_list);
	jail->stats.waiting++;
}

/* Copy the next slice; after the last one, send the order. */
static void fill_child(struct child *child)
{
	struct jail *jail = child->jail;
	const struct dof_input *input = &child->request->input;
	uint64_t slice = min_u64(JAIL_SLICE_BYTES, jail_input_bytes(input) - child->filled);
	int rc = jail_process_put(&child->process, input, child->filled, slice);

	must(child->state == FILLING);
	must(rc <= 0);
	if (rc) {
		fail_filling(child, rc);
		return;
	}
	child->filled += slice;
	must(child->filled <= jail_input_bytes(input));
	jail->stats.slices++;
	if (child->filled < jail_input_bytes(input))
		return;
	/* an unrequested answer must not be taken for the answer to this order */
	rc = jail_process_has_answer(&child->process)
		     ? -EPROTO
		     : jail_process_order(&child->process, ++child->sequence, input, &jail->options.limits);
	if (rc)
		jail_requeue_request(child, rc == -EPROTO);
	else
		child->state = BUSY;
}

int jail_fill(void *ctx)
{
	struct jail *jail = ctx;
	struct child *child;

	TAILQ_FOREACH (child, &jail->children, in_jail) {
		if (child->state != FILLING)
			continue;
		TAILQ_REMOVE(&jail->children, child, in_jail);
		TAILQ_INSERT_TAIL(&jail->children, child, in_jail);
		fill_child(child);
		break;
	}
	jail_schedule(jail);
	return 1;
}

/* ---- assignment ---- */

static void assign_request(struct child *child, struct request *request)
{
	struct jail *jail = child->jail;

	must(child->state == IDLE);
	must(!child->request);
	must(jail->stats.waiting > 0);
	TAILQ_REMOVE(&jail->waiting, request, in_list);
	jail->stats.waiting--;
	jail->stats.busy++;
	must(jail->stats.busy <= jail->stats.children);
	child->state = FILLING;
	child->request = request;
	child->filled = 0;
	child->deadline = request->deadline;
	child->given_tick = clock_ticks();
	probe_jail_parse_begun(child->given_tick, child->process.pid, jail_input_bytes(&request->input));
	fill_child(child);
}

static struct child *find_child(struct jail *jail, uint32_t *starting_ret)
{
	struct child *child;

	*starting_ret = 0;
	TAILQ_FOREACH (child, &jail->children, in_jail) {
		if (child->state == IDLE)
			return child;
		*starting_ret += child->state == STARTING;
	}
	must(*starting_ret <= jail->stats.children);
	return NULL;
}

/* The first request that may start: large ones leave one child, of two or more, to small ones. */
static struct request *find_request(const struct jail *jail)
{
	uint32_t large = 0, large_max = jail->options.children_max > 1 ? jail->options.children_max - 1 : 1;
	const struct child *child;
	struct request *request;

	TAILQ_FOREACH (child, &jail->children, in_jail)
		large += child->request && jail_is_large(&child->request->input);
	must(large <= jail->stats.busy);
	TAILQ_FOREACH (request, &jail->waiting, in_list) {
		if (large < large_max || !jail_is_large(&request->input))
			return request;
	}
	return NULL;
}

/* A child has a request exactly while it is FILLING or BUSY, and the counts are those of the lists. */
static void check_invariants(const struct jail *jail)
{
	uint32_t children = 0, busy = 0;
	const struct child *child;

	TAILQ_FOREACH (child, &jail->children, in_jail) {
		bool has_work = child->state == FILLING || child->state == BUSY;

		must((child->request != NULL) == has_work);
		children++;
		busy += has_work;
	}
	must(children == jail->stats.children);
	must(busy == jail->stats.busy);
	must(children <= jail->options.children_max);
	must(TAILQ_EMPTY(&jail->waiting) == (jail->stats.waiting == 0));
}

static void set_timers(struct jail *jail)
{
	bool filling = false, at_work = jail->ending_count > 0 || !TAILQ_EMPTY(&jail->waiting);
	const struct child *child;

	TAILQ_FOREACH (child, &jail->children, in_jail) {
		filling |= child->state == FILLING;
		at_work |= child->state != IDLE;
	}
	if (at_work)
		poller_resume(jail->beat);
	else
		poller_pause(jail->beat);
	if (filling)
		poller_resume(jail->filler);
	else
		poller_pause(jail->filler);
}

void jail_schedule(struct jail *jail)
{
	struct request *request;
	struct fathom_fault why;
	uint32_t starting;

	must(!jail->destroyed);
	check_invariants(jail);
	while ((request = find_request(jail))) {
		struct child *child = find_child(jail, &starting);

		if (child) {
			assign_request(child, request);
			continue;
		}
		if (starting >= jail->stats.waiting || jail->stats.children >= jail->options.children_max)
			break;
		if (!jail_start_child(jail, &why)) {
			if (TAILQ_EMPTY(&jail->children))
				jail_refuse_waiting(jail, &why);
			break;
		}
	}
	set_timers(jail);
}
