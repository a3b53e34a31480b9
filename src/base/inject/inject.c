/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/inject/inject.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/log.h"

struct point_row {
	const char *name, *folder, *text, *error_name;
	int error;
	uint32_t may;
};

static const struct point_row rows[] = {
#include "base/inject/points_table.gen.inc"
};
static_assert(ARRAY_COUNT(rows) == INJECT_POINTS, "the table and the enum are made together");

static struct {
	pthread_mutex_t mutex;
	pthread_cond_t cleared;
	struct point {
		bool is_armed;
		struct inject_rule rule;
		uint64_t passed, fired, armed_ns, fired_ns;
		uint64_t clears; /* a thread that waits goes on when this changes */
		uint32_t held;
	} points[INJECT_POINTS];
	inject_hook_fn hook;
} faults = { .mutex = PTHREAD_MUTEX_INITIALIZER, .cleared = PTHREAD_COND_INITIALIZER };

static void lock_points(void)
{
	must(pthread_mutex_lock(&faults.mutex) == 0);
}

static void unlock_points(void)
{
	must(pthread_mutex_unlock(&faults.mutex) == 0);
}

/* ---- effects ---- */

static void read_point(enum inject_point point, struct inject_status *status)
{
	const struct point *p = &faults.points[point];
	const struct point_row *row = &rows[point];

	*status = (struct inject_status){
		.name = row->name,
		.folder = row->folder,
		.text = row->text,
		.error_name = row->error_name,
		.may = row->may,
		.passed = p->passed,
		.fired = p->fired,
		.is_armed = p->is_armed,
		.rule = p->rule,
		.armed_ns = p->armed_ns,
		.fired_ns = p->fired_ns,
		.held = p->held,
	};
}

/* Count a pass. Whether the rule of the point has an effect on it; then `rule` is that rule. */
static bool take_effect(struct point *p, struct inject_rule *rule)
{
	p->passed++;
	if (!p->is_armed)
		return false;
	if (p->rule.skip > 0) {
		p->rule.skip--;
		return false;
	}
	*rule = p->rule;
	p->fired++;
	p->fired_ns = clock_realtime_ns();
	if (p->rule.count > 0 && --p->rule.count == 0)
		p->is_armed = false;
	return true;
}

/* Until the rule is cleared, or until `end`, if that is given. */
static void wait_cleared(struct point *p, uint64_t clears, const struct timespec *end)
{
	int error = 0;

	p->held++;
	while (p->clears == clears && error == 0)
		error = end ? pthread_cond_clockwait(&faults.cleared, &faults.mutex, CLOCK_MONOTONIC, end)
			    : pthread_cond_wait(&faults.cleared, &faults.mutex);
	must(error == 0 || error == ETIMEDOUT);
	must(p->held > 0);
	p->held--;
}

static void hold(enum inject_point point, const struct inject_rule *rule, uint64_t clears)
{
	uint64_t end_ns = clock_monotonic_ns() + rule->delay_ms * NS_PER_MS;
	struct timespec end = { (time_t)(end_ns / NS_PER_SEC), (long)(end_ns % NS_PER_SEC) };

	lock_points();
	wait_cleared(&faults.points[point], clears, rule->action == INJECT_HANG ? NULL : &end);
	unlock_points();
}

static int do_effect(enum inject_point point, const struct inject_rule *rule, uint64_t clears)
{
	switch (rule->action) {
	case INJECT_FAIL:
		return rule->error;
	case INJECT_DELAY:
	case INJECT_HANG:
		hold(point, rule, clears);
		return 0;
	case INJECT_CRASH:
		abort();
	}
	must(!"an action");
	return 0;
}

int inject_pass(enum inject_point point)
{
	struct inject_status status;
	struct inject_rule rule;
	char text[INJECT_RULE_BYTES];
	uint64_t clears;
	bool fires;

	must((unsigned int)point < INJECT_POINTS);
	lock_points();
	fires = take_effect(&faults.points[point], &rule);
	clears = faults.points[point].clears;
	read_point(point, &status);
	unlock_points();
	if (!fires)
		return 0;
	rule.skip = rule.count = 0;
	log_warning("injected fault %s: %s", status.name, inject_rule_text(&rule, text));
	if (faults.hook)
		faults.hook(&status, &rule);
	return do_effect(point, &rule, clears);
}

/* ---- rules ---- */

bool inject_is_built(void)
{
	return FAULT_INJECTION;
}

int inject_check(enum inject_point point, const struct inject_rule *rule, struct fathom_fault *why)
{
	const struct point_row *row = &rows[point];

	must((unsigned int)point < INJECT_POINTS);
	if (!(row->may & BIT(rule->action)))
		return fault(why, -EINVAL, "the point %s cannot %s", row->name, inject_action_name(rule->action));
	if (rule->action == INJECT_DELAY && (rule->delay_ms == 0 || rule->delay_ms > INJECT_DELAY_MS_MAX))
		return fault(why, -EINVAL, "%s: a delay is from 1 ms to %d s", row->name, INJECT_DELAY_MS_MAX / 1000);
	if (rule->action == INJECT_FAIL && (rule->error > 0 || rule->error < -4095))
		return fault(why, -EINVAL, "%s: %d is not a negative errno", row->name, rule->error);
	return 0;
}

static void clear_point(struct point *p)
{
	p->is_armed = false;
	p->clears++;
}

int inject_arm(enum inject_point point, const struct inject_rule *rule, struct fathom_fault *why)
{
	struct point *p = &faults.points[point];
	int error;

	must((unsigned int)point < INJECT_POINTS);
	if (!inject_is_built())
		return fault(why, -ENOTSUP,
			     "this program was built without fault injection (meson option fault_injection)");
	error = inject_check(point, rule, why);
	if (error)
		return error;
	lock_points();
	clear_point(p);
	p->is_armed = true;
	p->armed_ns = clock_realtime_ns();
	p->rule = *rule;
	if (rule->action == INJECT_FAIL && rule->error == 0)
		p->rule.error = -rows[point].error;
	unlock_points();
	must(pthread_cond_broadcast(&faults.cleared) == 0);
	return 0;
}

void inject_clear(enum inject_point point)
{
	must((unsigned int)point < INJECT_POINTS);
	lock_points();
	clear_point(&faults.points[point]);
	unlock_points();
	must(pthread_cond_broadcast(&faults.cleared) == 0);
}

void inject_clear_all(void)
{
	for (unsigned int point = 0; point < INJECT_POINTS; point++)
		inject_clear((enum inject_point)point);
}

int inject_find(const char *name, enum inject_point *point_ret, struct fathom_fault *why)
{
	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		if (strcmp(rows[i].name, name) == 0) {
			*point_ret = (enum inject_point)i;
			return 0;
		}
	}
	return fault(why, -ENOENT, "there is no point \"%.64s\" at which a fault can be injected", name);
}

void inject_read(enum inject_point point, struct inject_status *status_ret)
{
	must((unsigned int)point < INJECT_POINTS);
	lock_points();
	read_point(point, status_ret);
	unlock_points();
}

void inject_set_hook(inject_hook_fn fired)
{
	faults.hook = fired;
}
