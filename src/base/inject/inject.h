/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * inject - faults on purpose: named points at which a test or an operator makes this process fail, wait, crash or hang.
 *
 *	error = inject(INJECT_DB_WRITE);
 *	if (!error)
 *		error = commit();
 *
 * points.def lists the points. A build without the option `fault_injection` has none: inject() is 0 and costs nothing. In a
 * build with it, a point does nothing until it gets a rule: from the environment variable FATHOM_INJECT at the start of a
 * daemon, from the server's configuration (`inject`), from the RPC fault_inject, or from `fathom server faults`. Rules are
 * in memory only: the next process has none.
 *
 * One lock for all points, taken at each pass: a point belongs where a system call costs more, never on the path of an I/O.
 */
#ifndef BASE_INJECT_INJECT_H
#define BASE_INJECT_INJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"
#include "base/inject/points.gen.h"

/* For the version that a program prints. */
#if FAULT_INJECTION
#define INJECT_NOTE " (fault injection)"
#else
#define INJECT_NOTE ""
#endif

enum inject_action { INJECT_FAIL, INJECT_DELAY, INJECT_CRASH, INJECT_HANG };
enum { INJECT_ACTIONS = INJECT_HANG + 1 };

enum {
	INJECT_DELAY_MS_MAX = 60000,
	INJECT_RULE_BYTES = 128, /* of a rule as text */
};

struct inject_rule {
	enum inject_action action;
	int error;	   /* FAIL: a negative errno; 0: that of the point's row */
	uint32_t delay_ms; /* DELAY: 1 to INJECT_DELAY_MS_MAX */
	uint64_t skip;	   /* passes that it lets through first */
	uint64_t count;	   /* effects, after which it is removed; 0: until it is cleared */
};

/* What a point has done since the process began. */
struct inject_status {
	const char *name, *folder, *text; /* of its row */
	const char *error_name;		  /* of its row: "EIO"; NULL: it cannot fail */
	uint32_t may;			  /* bits of enum inject_action */
	uint64_t passed, fired;
	bool is_armed;
	struct inject_rule rule; /* if armed; skip and count are what is left of them */
	uint64_t armed_ns;	 /* CLOCK_REALTIME at which it got its rule */
	uint64_t fired_ns;	 /* of its last effect; 0: never */
	uint32_t held;		 /* threads that it delays or hangs now */
};

/*
 * Pass the point: returns 0, or the negative errno of its rule. Waits as long as a rule says; inject_clear() ends that.
 * Any thread.
 */
MUST_CHECK int inject_pass(enum inject_point point);

MUST_CHECK static inline int inject(enum inject_point point)
{
#if FAULT_INJECTION
	return inject_pass(point);
#else
	return 0;
#endif
}

/* At a point that cannot fail. */
static inline void inject_wait(enum inject_point point)
{
#if FAULT_INJECTION
	(void)!inject_pass(point); /* its row does not have `fail` */
#endif
}

/* Whether this build has the points. */
bool inject_is_built(void);

/*
 * Give a point a rule, which replaces one that it has. Any thread. Errors (explained): -EINVAL: the point may not do that,
 * or a number is out of its range; -ENOTSUP: this build has no points.
 */
MUST_CHECK int inject_arm(enum inject_point point, const struct inject_rule *rule, struct fathom_fault *why);

/*
 * inject_arm() by a text: "POINT=ACTION[:VALUE][,skip=N][,count=N]" with ACTION fail[:ERRNO], delay:TIME, crash or hang,
 * such as "db_write=fail:ENOSPC,count=1". inject_arm_texts(): rules separated by blanks or semicolons; those before a wrong
 * one are armed. Errors: -EINVAL (explained), and those of inject_arm().
 */
MUST_CHECK int inject_arm_text(const char *text, struct fathom_fault *why);
MUST_CHECK int inject_arm_texts(const char *texts, struct fathom_fault *why);

/* Check a rule, or texts, without effect. Errors: those of inject_arm() and inject_arm_text() but -ENOTSUP. */
MUST_CHECK int inject_check(enum inject_point point, const struct inject_rule *rule, struct fathom_fault *why);
MUST_CHECK int inject_check_text(const char *text, struct fathom_fault *why);
MUST_CHECK int inject_check_texts(const char *texts, struct fathom_fault *why);

/* Remove the rule of a point, or of all, and end the waits that they cause. Any thread. */
void inject_clear(enum inject_point point);
void inject_clear_all(void);

/* Find a point by its name. Errors: -ENOENT (explained). */
MUST_CHECK int inject_find(const char *name, enum inject_point *point_ret, struct fathom_fault *why);

/* Any thread. */
void inject_read(enum inject_point point, struct inject_status *status_ret);

/* "ENOSPC", or "28": the negative errno. Errors: -EINVAL (explained). */
MUST_CHECK int inject_parse_errno(const char *text, int *error_ret, struct fathom_fault *why);

/* "fail", "delay", "crash", "hang". */
const char *inject_action_name(enum inject_action action);
/* The rule as inject_arm_text() takes it, without the point: "fail:EIO,count=1". Returns `to`. */
const char *inject_rule_text(const struct inject_rule *rule, char to[static INJECT_RULE_BYTES]);

/*
 * `fired` is called for each effect, before it, on its thread and without a lock. NULL: none.
 * Thread: call it before the process starts threads.
 */
typedef void (*inject_hook_fn)(const struct inject_status *point, const struct inject_rule *rule);
void inject_set_hook(inject_hook_fn fired);

#endif
