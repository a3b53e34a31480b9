/* SPDX-License-Identifier: BSD-2-Clause */
/* lists - the lists of objects: a table of them, and how their rows are made. */
#ifndef INSPECT_CORE_LISTS_H
#define INSPECT_CORE_LISTS_H

#include "inspect/core/layout.h"

struct core_list_kind;

struct core_rows {
	struct core_layout *layout;
	const struct core_list_kind *kind;
	union core_cell *cells;
	uint32_t row_count;
	uint32_t column; /* of the next cell */
	size_t cell_count, cell_room;
	const char *problem;
};

struct core_list_kind {
	const char *name, *about;
	uint8_t program; /* CORE_ENGINE, CORE_SERVER or CORE_BOTH */
	bool by_trace;	 /* of any program with a trace; `needs` is NULL */
	const struct core_column *columns;
	uint32_t column_count;
	const enum core_structure *needs; /* up to CORE_STRUCTURES */
	void (*fill)(struct core_rows *rows);
	void (*fill_by_trace)(struct core_rows *rows); /* without the program's debug information; NULL: not possible */
};

/* Add the next cell; a row is complete after one for each column. */
void core_add_text(struct core_rows *rows, const char *text);
void core_add_number(struct core_rows *rows, uint64_t number);
/* Ticks, as nanoseconds. */
void core_add_ticks(struct core_rows *rows, uint64_t ticks);
void core_add_ns(struct core_rows *rows, uint64_t ns);
/* Ticks, from `tick` until now. */
void core_add_age(struct core_rows *rows, uint64_t tick);
/* A text made by a format. */
const char *core_format(struct core_layout *layout, const char *format, ...) PRINTF_LIKE(2, 3);
/* Note if the walk did not reach the list's end. */
void core_check_walk(struct core_rows *rows, const struct core_walk *walk);

/* ---- the kinds ---- */

extern const struct core_list_kind core_reactors, core_light_threads, core_pollers, core_io_devices; /* threads.c */
extern const struct core_list_kind core_devices, core_subsystems, core_namespaces, core_controllers, core_qpairs,
	core_io, /* engine.c */
	core_volumes;
extern const struct core_list_kind core_in_progress;					       /* progress.c */
void core_fill_io_by_trace(struct core_rows *rows);					       /* progress.c: for core_io */
extern const struct core_list_kind core_members, core_instances, core_calls, core_connections; /* server.c */

#define CORE_COLUMNS(array) .columns = (array), .column_count = ARRAY_COUNT(array)
#define CORE_NEEDS(...)                                                                                                    \
	.needs = (const enum core_structure[])                                                                             \
	{                                                                                                                  \
		__VA_ARGS__, CORE_STRUCTURES                                                                               \
	}

#endif
