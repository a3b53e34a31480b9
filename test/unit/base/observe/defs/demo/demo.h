/* SPDX-License-Identifier: BSD-2-Clause */
/* demo - objects that the tests trace. */
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
	char data[100]; /* so that the stride is not the story's size */
};

/* A request with its I/O in it. */
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
