/* SPDX-License-Identifier: BSD-2-Clause */
/* filter_internal - struct reader_filter, shared by filter.c and filter_bind.c. */
#ifndef INSPECT_TRACE_FILTER_INTERNAL_H
#define INSPECT_TRACE_FILTER_INTERNAL_H

#include "inspect/trace/filter.h"
#include "inspect/trace/internal.h"

enum { FAMILY_MAX = 256, ARG_NONE = -1 };

enum pseudo {
	PSEUDO_NONE,
	PSEUDO_LATENCY,
	PSEUDO_DWELL,
	PSEUDO_TICK,
	PSEUDO_CORE,
	PSEUDO_THREAD,
	PSEUDO_OWNER,
	PSEUDO_OBJECT,
	PSEUDO_NAME,
	PSEUDO_GROUP,
	PSEUDO_STATE
};

/* Whether the filter selects an owner, for ticks within [from, to]. */
struct owner_verdict {
	uint64_t from, to;
	bool wanted;
};

struct member {
	uint16_t type;
	uint32_t id;
};

struct reader_filter {
	const struct reader *reader;
	uint64_t since, until; /* ticks */
	char *owner;	       /* NULL: any */
	struct owner_verdict owners[TRACE_OWNERS_MAX];
	/* the object and what belongs to it now */
	const struct reader_object *object; /* NULL: any */
	struct member family[FAMILY_MAX];
	uint32_t family_count;
	const struct reader_point *point; /* NULL: any */
	struct expression *where;	  /* NULL: any */
	enum pseudo pseudo[EXPRESSION_NAMES_MAX];
	long double in_ns[EXPRESSION_NAMES_MAX]; /* nanoseconds per unit of the name's suffix; 0: no suffix */
	int8_t *args; /* index of the point's argument, for point i and name n at i * names + n; or ARG_NONE */
	/* the event or life under evaluation */
	const struct reader_event *event;
	const struct reader_exemplar *exemplar;
	char scratch[512];
};

/* Does `wanted` name the argument? `*ns_ret`: nanoseconds per unit of its suffix; 0: no suffix. */
bool filter_arg_is_called(const struct reader_arg *arg, const char *wanted, long double *ns_ret);
/* Look up the event and the names of `where` in the schema. Errors (explained): -EINVAL, -ENOMEM. */
MUST_CHECK int filter_bind(struct reader_filter *filter, const char *where, struct fathom_fault *why);

#endif
