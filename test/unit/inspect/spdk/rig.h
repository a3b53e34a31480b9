/* SPDX-License-Identifier: BSD-2-Clause */
/* rig - a file of SPDK's, written by write_spdk.h and read by the reader of traces. */
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

/* A file with the points above and types `r` and `i`. Pair: spdk_file_free(). */
void rig_file(struct spdk_file *file, uint32_t cores, uint32_t entries);
void rig_points(struct spdk_file *file);
/* An event of a point that takes at most a number. */
struct spdk_file_event rig_event(uint64_t tick, uint16_t tpoint, uint64_t object, uint64_t number);
void rig_record(struct spdk_file *file, uint32_t core, uint64_t tick, uint16_t tpoint, uint64_t object, uint64_t number);

/* Save under a new name (into `path`, of 256 bytes) and open; `bytes` of it. */
struct reader *rig_open_bytes(const struct spdk_file *file, size_t bytes, char *path);
struct reader *rig_open(const struct spdk_file *file, char *path);

/* All events, in order; pair: free(). `counts_ret` may be NULL. */
struct reader_event *rig_events(struct reader *reader, uint32_t *count_ret, struct reader_counts *counts_ret);
/* All of them as `fathom trace show` prints them; pair: free(). */
char *rig_text(struct reader *reader, enum reader_print_style style);
/* The value of the event's argument of that name. */
uint64_t rig_arg(const struct reader_event *event, const char *name);
/* Open, read and print everything there is to nowhere. The result of reader_open(). */
int rig_read_all(const char *path, struct reader_counts *counts_ret);

#endif
