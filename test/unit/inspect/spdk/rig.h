/* SPDX-License-Identifier: BSD-2-Clause */
/* rig - trace files of SPDK, written by write_spdk.h and opened by the reader of traces. */
#ifndef TEST_INSPECT_SPDK_RIG_H
#define TEST_INSPECT_SPDK_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "inspect/trace/trace_file.h"
#include "write_spdk.h"

enum {
	REQUEST = 128, /* types of objects */
	IO = 2,
	/* points; a group has 64 */
	IO_START = 3 * 64,
	IO_DONE,
	REQ_NEW = 5 * 64,
	REQ_RUN,
	REQ_DONE,
	PLAIN = 19 * 64,
	WIDE,
	TEXTS,
	ANY_TPOINTS = 1280,
	OWNER_QPAIR = 48,
};

/* Make a file with the points above and the object types `r` and `i`. Pair: spdk_file_free(). */
void rig_file(struct spdk_file *file, uint32_t cores, uint32_t entries);
void rig_points(struct spdk_file *file);
/* An event of a point with at most one argument, a number. */
struct spdk_file_event rig_event(uint64_t tick, uint16_t tpoint, uint64_t object, uint64_t number);
void rig_record(struct spdk_file *file, uint32_t core, uint64_t tick, uint16_t tpoint, uint64_t object, uint64_t number);

/* Save the first `bytes` under a new name (`path`, of 256 bytes) and open the file. */
struct reader *rig_open_bytes(const struct spdk_file *file, size_t bytes, char *path);
struct reader *rig_open(const struct spdk_file *file, char *path);

/* Read all events in order; pair: free(). `counts_ret` may be NULL. */
struct reader_event *rig_events(struct reader *reader, uint32_t *count_ret, struct reader_counts *counts_ret);
/* All events as printed by `fathom trace show`; pair: free(). */
char *rig_text(struct reader *reader, enum reader_print_style style);
/* The value of the event's argument `name`. */
uint64_t rig_arg(const struct reader_event *event, const char *name);
/* Open the file, read all of it, print it to /dev/null. Return the result of reader_open(). */
int rig_read_all(const char *path, struct reader_counts *counts_ret);

#endif
