/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * write_spdk - writes trace files in the layout of SPDK's targets (26.05 and later), byte by byte from its description. It
 * shares no code with the reader, so a common error would show.
 */
#ifndef TEST_INSPECT_SPDK_WRITE_SPDK_H
#define TEST_INSPECT_SPDK_WRITE_SPDK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SPDK_FILE_TICK_RATE = 1000000000, SPDK_FILE_SECTIONS = 7 };

struct spdk_file {
	uint8_t *bytes;
	size_t size;
	uint32_t cores, entries, tpoints, owners;
	uint64_t sections[SPDK_FILE_SECTIONS];
	uint64_t rings; /* offset of the first ring */
};

struct spdk_file_arg {
	const char *name;
	uint8_t type; /* 0: number, 1: address, 2: text */
	uint8_t bytes;
};

struct spdk_file_value {
	uint64_t number;
	const char *text;
};

struct spdk_file_event {
	uint64_t tick, object;
	uint16_t tpoint, owner;
	uint32_t size;
	struct spdk_file_value values[8];
};

/* The size of a file in bytes. `entries` of each ring: a power of two, as in targets. */
size_t spdk_file_bytes(uint32_t cores, uint32_t entries, uint32_t tpoints, uint32_t owners);
/* Write to `bytes` (of that size; lent), or to allocated memory if NULL. Pair: spdk_file_free(), if allocated. */
void spdk_file_init(struct spdk_file *file, uint8_t *bytes, uint32_t cores, uint32_t entries, uint32_t tpoints,
		    uint32_t owners);
void spdk_file_free(struct spdk_file *file);

/* `args` end with a name NULL. */
void spdk_file_tpoint(struct spdk_file *file, uint16_t id, const char *name, uint8_t object, bool new_object,
		      const struct spdk_file_arg *args);
/* Add a relation: argument `arg` of the point is the address of an object of type `object`. */
void spdk_file_relation(struct spdk_file *file, uint16_t id, uint8_t object, uint8_t arg);
void spdk_file_object_type(struct spdk_file *file, uint8_t type, char prefix);
void spdk_file_owner_type(struct spdk_file *file, uint8_t type, char prefix);
void spdk_file_owner(struct spdk_file *file, uint16_t id, uint64_t tick, uint8_t type, const char *text);

/* Record as a target does: first the entries, then the count that publishes them. Return the number of entries. */
uint32_t spdk_file_record(struct spdk_file *file, uint32_t core, const struct spdk_file_event *event);
/* Write only the first `entries` entries, without publishing them. */
uint32_t spdk_file_write(struct spdk_file *file, uint32_t core, const struct spdk_file_event *event, uint32_t entries);

/* Pointers into the file. */
uint64_t *spdk_file_next(struct spdk_file *file, uint32_t core);
uint8_t *spdk_file_ring(struct spdk_file *file, uint32_t core);
uint8_t *spdk_file_entry(struct spdk_file *file, uint32_t core, uint64_t index);
void spdk_file_thread_name(struct spdk_file *file, uint32_t core, const char *name);
void spdk_file_clear(struct spdk_file *file, uint64_t tick);

#endif
