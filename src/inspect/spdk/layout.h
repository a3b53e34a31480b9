/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * layout - SPDK's trace file in shared memory: little-endian C structs, offsets from the start.
 *
 *   header | main | owners | masks | owner types | object types | points | offsets of the rings | ring, ring ...
 *
 * The header has the offsets of the sections. All but `main` begin with the number of their elements, which follow after
 * 128 bytes.
 */
#ifndef INSPECT_SPDK_LAYOUT_H
#define INSPECT_SPDK_LAYOUT_H

#include <assert.h>
#include <stdint.h>

enum spdk_section {
	SPDK_SECTION_MAIN,
	SPDK_SECTION_OWNERS,
	SPDK_SECTION_MASKS,
	SPDK_SECTION_OWNER_TYPES,
	SPDK_SECTION_OBJECTS,
	SPDK_SECTION_TPOINTS,
	SPDK_SECTION_RINGS,
	SPDK_SECTIONS,
};

enum {
	SPDK_ARGS_MAX = 8,
	SPDK_RELATIONS_MAX = 16,
	SPDK_POINTS_IN_GROUP = 64,
	SPDK_TPOINTS_MAX = 65535,
	SPDK_SECTION_HEAD_BYTES = 128,
	SPDK_ARG_BYTES_MAX = 255,
	SPDK_HEAD_ARG_BYTES = 8,  /* of arguments in an entry ... */
	SPDK_PART_ARG_BYTES = 22, /* ... and in each continuation of it */
};

struct spdk_header {
	uint64_t file_bytes;
	uint16_t section_count;
	uint8_t reserved[6];
	uint64_t sections[SPDK_SECTIONS];
};
static_assert(sizeof(struct spdk_header) == 72, "as in SPDK");

struct spdk_main {
	uint64_t tick_rate;
	uint64_t clear_tick; /* older entries must be ignored */
};

struct spdk_owners_head {
	uint16_t count;
	uint16_t text_bytes;
};

/* A row of the owners; text_bytes of text follow. */
struct __attribute__((packed)) spdk_owner {
	uint64_t tick; /* since when the id belongs to this owner; 0: never used */
	uint8_t type;
};
static_assert(sizeof(struct spdk_owner) == 9, "as in SPDK");

/* A type of owners or objects. */
struct spdk_type {
	uint8_t type;
	char prefix;
};

enum spdk_arg_type { SPDK_ARG_INT, SPDK_ARG_PTR, SPDK_ARG_STR };

struct spdk_arg {
	char name[14];
	uint8_t type;
	uint8_t bytes;
};

struct spdk_relation {
	uint8_t object_type; /* 0: end of the list */
	uint8_t arg_index;
};

struct spdk_tpoint {
	char name[24];
	uint16_t id;
	uint8_t owner_type;
	uint8_t object_type; /* 0: none */
	uint8_t new_object;  /* not 0: begins a life of the object */
	uint8_t arg_count;
	struct spdk_arg args[SPDK_ARGS_MAX];
	struct spdk_relation relations[SPDK_RELATIONS_MAX];
};
static_assert(sizeof(struct spdk_tpoint) == 190, "as in SPDK");

/* Followed by u64 counts[count_count], the number of records of each point, and by the entries. */
struct spdk_ring {
	int32_t lcore;
	char thread_name[16]; /* "": of a reactor */
	uint8_t reserved[4];
	uint64_t entry_count; /* a power of two, except in a file made by SPDK's recorder */
	uint64_t count_count;
	uint64_t next; /* entries ever published */
};
static_assert(sizeof(struct spdk_ring) == 48, "as in SPDK");

struct spdk_entry {
	uint64_t tick;
	uint16_t tpoint; /* of a continuation: the capacity of the table of points */
	union {
		struct __attribute__((packed)) {
			uint16_t owner;
			uint32_t size;
			uint64_t object; /* its address */
			uint8_t args[SPDK_HEAD_ARG_BYTES];
		};
		uint8_t part[SPDK_PART_ARG_BYTES];
	};
};
static_assert(sizeof(struct spdk_entry) == 32, "as in SPDK");

#endif
