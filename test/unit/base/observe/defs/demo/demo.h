/* SPDX-License-Identifier: BSD-2-Clause */
/* demo - objects traced by the tests. */
#ifndef DEMO_DEMO_H
#define DEMO_DEMO_H

#include "base/bits.h"
#include "demo/states.gen.h"
#include "fathom/trace/format.h"

struct demo_order {
	struct trace_story story CACHE_ALIGNED;
};

struct demo_job {
	struct trace_story story CACHE_ALIGNED;
	char data[100]; /* makes the stride differ from the story's size */
};

/* A request that contains its I/O. */
struct demo_errand {
	struct trace_story story CACHE_ALIGNED;
	struct demo_job job;
	bool lost;
};

struct demo_thing {
	struct trace_object trace;
	enum thing_state state;
};

#endif
