/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * schema - what the generator made of a program's probes.def files: tables for the masks, and the JSON that goes into the
 * file. A program has one, trace_open() is given it, and everything else here knows points and types by it alone.
 */
#ifndef FATHOM_TRACE_SCHEMA_H
#define FATHOM_TRACE_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

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

/* Of generated code, these headers and the library: all of one version. */
enum { TRACE_ABI = 1 };

struct trace_schema {
	uint32_t abi;
	const struct trace_schema_point *points; /* point i of the file is points[i - 1] */
	const struct trace_schema_group *groups;
	const struct trace_schema_lives *lives; /* the types whose lives are told, at their TRACE_LIVES_* */
	const char *json;
	uint32_t point_count;
	uint32_t group_count;
	uint32_t lives_count;
	uint32_t object_count; /* types, which are numbered from 1 */
	uint32_t owner_count;
	uint32_t json_bytes;
};

#ifdef __cplusplus
}
#endif

#endif
