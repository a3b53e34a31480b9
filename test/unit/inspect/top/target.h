/* SPDX-License-Identifier: BSD-2-Clause */
/* target - the answers of a target, written as JSON with ' in place of ", and samples made of them. */
#ifndef TEST_INSPECT_TOP_TARGET_H
#define TEST_INSPECT_TOP_TARGET_H

#include <jansson.h>

#include "inspect/top/top.h"

#define SECOND 1000000000ull
#define NO "refused"
#define SILENT "silent"

/* The answers of a target; NULL: an empty list; NO: an error; SILENT: it waits for a core that hangs. */
struct target {
	const char *threads, *pollers, *channels, *reactors, *iostat, *subsystems, *buffers, *controllers, *qpairs,
		*summary, *version;
};

/* Fails the test if `text` is not valid. Pair: json_decref(). */
json_t *parse(const char *text);
/* What the target answers if it has nothing. */
const char *empty_answer(const char *method);
/* A sample of all tabs, whose answers arrive at `now_ns`. Pair: top_sample_release(). */
struct top_sample *make_sample(const struct target *target, uint64_t now_ns);

#endif
