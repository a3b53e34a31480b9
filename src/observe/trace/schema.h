/* SPDX-License-Identifier: BSD-2-Clause */
/* schema - what the generator made of all probes.def files: tables for the masks, and the JSON that goes into the file. */
#ifndef OBSERVE_TRACE_SCHEMA_H
#define OBSERVE_TRACE_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct trace_schema_point {
	const char *name;
	uint16_t group;
	uint16_t index_in_group;
	uint16_t object_type; /* 0: about no object */
	bool io;	      /* goes into the I/O ring */
};

struct trace_schema_group {
	const char *name;
	const char *text;
	uint16_t point_count;
};

struct trace_schema_lives {
	uint16_t object_type;
	const char *name;	   /* of the type */
	const char *const *states; /* the first is the free one; ends with NULL */
};

/* Point i of the file is trace_schema_points[i - 1]. */
extern const struct trace_schema_point trace_schema_points[];
extern const unsigned int trace_schema_point_count;
extern const struct trace_schema_group trace_schema_groups[];
extern const unsigned int trace_schema_group_count;
/* The types whose lives are told: TRACE_LIVES_COUNT of them. */
extern const struct trace_schema_lives trace_schema_lives[];
extern const char trace_schema_json[];
extern const unsigned int trace_schema_json_bytes;

#endif
