/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * schema - the generator's output for a program's probes.def files: tables for the masks, and the JSON for the file. A
 * program has one and passes it to trace_open().
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
	uint16_t object_type; /* 0: no object */
	bool io;	      /* recorded in the I/O ring */
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

/* Generated code, these headers and the library must have the same. */
enum { TRACE_ABI = 1 };

struct trace_schema {
	uint32_t abi;
	const struct trace_schema_point *points; /* point i of the file is points[i - 1] */
	const struct trace_schema_group *groups;
	const struct trace_schema_lives *lives; /* types whose lives are summed up, indexed by TRACE_LIVES_* */
	const char *json;
	uint32_t point_count;
	uint32_t group_count;
	uint32_t lives_count;
	uint32_t object_count; /* number of types; numbered from 1 */
	uint32_t owner_count;
	uint32_t json_bytes;
};

#ifdef __cplusplus
}
#endif

#endif
