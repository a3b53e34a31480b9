/* SPDX-License-Identifier: BSD-2-Clause */
#include "write_spdk.h"

#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/must.h"

enum {
	HEADER_BYTES = 72,
	MAIN_BYTES = 512,
	HEAD_BYTES = 128,
	OWNER_BYTES = 128,
	GROUPS = 20,
	TYPES = 256,
	TPOINT_BYTES = 190,
	RING_BYTES = 48,
	ENTRY_BYTES = 32,
	PART_DATA_BYTES = 22,
};

static size_t ring_bytes(uint32_t entries, uint32_t tpoints)
{
	return RING_BYTES + tpoints * 8ul + entries * (size_t)ENTRY_BYTES;
}

/* The offsets of the sections and, after them, of the rings. */
static uint64_t lay_out(uint64_t *sections, uint32_t cores, uint32_t tpoints, uint32_t owners)
{
	const uint64_t bytes[SPDK_FILE_SECTIONS] = {
		MAIN_BYTES,
		HEAD_BYTES + owners * (uint64_t)OWNER_BYTES,
		HEAD_BYTES + GROUPS * 8,
		HEAD_BYTES + TYPES * 2,
		HEAD_BYTES + TYPES * 2,
		/* 1280 thread names are a multiple of 8 bytes */
		round_up(HEAD_BYTES + tpoints * (uint64_t)TPOINT_BYTES, 8),
		HEAD_BYTES + cores * 8ul,
	};
	uint64_t at = HEADER_BYTES;

	for (int i = 0; i < SPDK_FILE_SECTIONS; i++) {
		sections[i] = at;
		at += bytes[i];
	}
	return at;
}

size_t spdk_file_bytes(uint32_t cores, uint32_t entries, uint32_t tpoints, uint32_t owners)
{
	uint64_t sections[SPDK_FILE_SECTIONS];

	return lay_out(sections, cores, tpoints, owners) + cores * ring_bytes(entries, tpoints);
}

static void put(struct spdk_file *file, uint64_t offset, const void *data, size_t bytes)
{
	must(offset + bytes <= file->size);
	memcpy(file->bytes + offset, data, bytes);
}

static void put_u16(struct spdk_file *file, uint64_t offset, uint16_t number)
{
	put(file, offset, &number, sizeof(number));
}

static void put_u64(struct spdk_file *file, uint64_t offset, uint64_t number)
{
	put(file, offset, &number, sizeof(number));
}

uint8_t *spdk_file_ring(struct spdk_file *file, uint32_t core)
{
	return file->bytes + file->rings + core * ring_bytes(file->entries, file->tpoints);
}

uint64_t *spdk_file_next(struct spdk_file *file, uint32_t core)
{
	return (uint64_t *)(spdk_file_ring(file, core) + 40);
}

uint8_t *spdk_file_entry(struct spdk_file *file, uint32_t core, uint64_t index)
{
	return spdk_file_ring(file, core) + RING_BYTES + file->tpoints * 8ul + index % file->entries * ENTRY_BYTES;
}

void spdk_file_init(struct spdk_file *file, uint8_t *bytes, uint32_t cores, uint32_t entries, uint32_t tpoints,
		    uint32_t owners)
{
	*file = (struct spdk_file){ .cores = cores, .entries = entries, .tpoints = tpoints, .owners = owners };
	file->size = spdk_file_bytes(cores, entries, tpoints, owners);
	file->rings = lay_out(file->sections, cores, tpoints, owners);
	file->bytes = bytes ? bytes : calloc(1, file->size);
	must(file->bytes);
	put_u64(file, 0, file->size);
	put_u16(file, 8, SPDK_FILE_SECTIONS);
	put(file, 16, file->sections, sizeof(file->sections));
	put_u64(file, file->sections[0], SPDK_FILE_TICK_RATE);
	put_u16(file, file->sections[1], (uint16_t)owners);
	put_u16(file, file->sections[1] + 2, OWNER_BYTES - 9);
	put_u16(file, file->sections[2], GROUPS);
	put_u16(file, file->sections[3], TYPES);
	put_u16(file, file->sections[4], TYPES);
	put_u16(file, file->sections[5], (uint16_t)tpoints);
	put_u16(file, file->sections[6], (uint16_t)cores);
	for (uint32_t core = 0; core < cores; core++) {
		uint64_t ring = (uint64_t)(spdk_file_ring(file, core) - file->bytes);

		put_u64(file, file->sections[6] + HEAD_BYTES + core * 8ul, ring);
		put(file, ring, &core, sizeof(core));
		put_u64(file, ring + 24, entries);
		put_u64(file, ring + 32, tpoints);
	}
}

void spdk_file_free(struct spdk_file *file)
{
	free(file->bytes);
}

static uint64_t tpoint_at(const struct spdk_file *file, uint16_t id)
{
	return file->sections[5] + HEAD_BYTES + id * (uint64_t)TPOINT_BYTES;
}

void spdk_file_tpoint(struct spdk_file *file, uint16_t id, const char *name, uint8_t object, bool new_object,
		      const struct spdk_file_arg *args)
{
	uint64_t at = tpoint_at(file, id), mask;
	uint8_t count = 0;

	put(file, at, name, strlen(name));
	put_u16(file, at + 24, id);
	for (; args && args[count].name; count++) {
		put(file, at + 30 + count * 16ul, args[count].name, strlen(args[count].name));
		put(file, at + 30 + count * 16ul + 14, &args[count].type, 1);
		put(file, at + 30 + count * 16ul + 15, &args[count].bytes, 1);
	}
	put(file, at + 26, (uint8_t[]){ 0, object, new_object, count }, 4);
	memcpy(&mask, file->bytes + file->sections[2] + HEAD_BYTES + id / 64 * 8ul, sizeof(mask));
	put_u64(file, file->sections[2] + HEAD_BYTES + id / 64 * 8ul, mask | BIT(id % 64));
}

void spdk_file_relation(struct spdk_file *file, uint16_t id, uint8_t object, uint8_t arg)
{
	uint64_t at = tpoint_at(file, id) + 158;

	while (file->bytes[at])
		at += 2;
	put(file, at, (uint8_t[]){ object, arg }, 2);
}

void spdk_file_object_type(struct spdk_file *file, uint8_t type, char prefix)
{
	put(file, file->sections[4] + HEAD_BYTES + type * 2ul, (char[]){ (char)type, prefix }, 2);
}

void spdk_file_owner_type(struct spdk_file *file, uint8_t type, char prefix)
{
	put(file, file->sections[3] + HEAD_BYTES + type * 2ul, (char[]){ (char)type, prefix }, 2);
}

void spdk_file_owner(struct spdk_file *file, uint16_t id, uint64_t tick, uint8_t type, const char *text)
{
	uint64_t at = file->sections[1] + HEAD_BYTES + id * (uint64_t)OWNER_BYTES;

	memset(file->bytes + at, 0, OWNER_BYTES);
	put_u64(file, at, tick);
	put(file, at + 8, &type, 1);
	put(file, at + 9, text, strlen(text));
}

void spdk_file_thread_name(struct spdk_file *file, uint32_t core, const char *name)
{
	put(file, (uint64_t)(spdk_file_ring(file, core) - file->bytes) + 4, name, strlen(name));
}

void spdk_file_clear(struct spdk_file *file, uint64_t tick)
{
	put_u64(file, file->sections[0] + 8, tick);
}

/* Pack the arguments of an event. Return the number of bytes. */
static uint32_t pack(const struct spdk_file *file, const struct spdk_file_event *event, uint8_t *to)
{
	const uint8_t *tpoint = file->bytes + tpoint_at(file, event->tpoint);
	uint32_t at = 0;

	for (uint8_t i = 0; event->tpoint < file->tpoints && i < tpoint[29]; i++) {
		uint8_t type = tpoint[30 + i * 16 + 14], bytes = tpoint[30 + i * 16 + 15];

		memset(to + at, 0xee, bytes); /* the bytes after a text are old content */
		if (type == 2)
			memcpy(to + at, event->values[i].text, min_u64(strlen(event->values[i].text) + 1, bytes));
		else
			memcpy(to + at, &event->values[i].number, min_u64(bytes, 8));
		if (type == 2)
			to[at + bytes - 1] = '\0';
		at += bytes;
	}
	return at;
}

uint32_t spdk_file_write(struct spdk_file *file, uint32_t core, const struct spdk_file_event *event, uint32_t entries)
{
	uint8_t packed[8 * 255];
	uint32_t bytes = pack(file, event, packed), at = 0, index = 0;
	uint64_t next = *spdk_file_next(file, core);

	do {
		uint8_t entry[ENTRY_BYTES] = { 0 };
		uint16_t mark = (uint16_t)file->tpoints;
		uint32_t from = index ? 10 : 24, room = index ? PART_DATA_BYTES : 8,
			 count = (uint32_t)min_u64(room, bytes - at);

		memcpy(entry, &event->tick, 8);
		memcpy(entry + 8, index ? &mark : &event->tpoint, 2);
		if (index == 0) {
			memcpy(entry + 10, &event->owner, 2);
			memcpy(entry + 12, &event->size, 4);
			memcpy(entry + 16, &event->object, 8);
		}
		memcpy(entry + from, packed + at, count);
		at += count;
		if (index < entries)
			memcpy(spdk_file_entry(file, core, next + index), entry, sizeof(entry));
		index++;
	} while (at < bytes);
	return index;
}

uint32_t spdk_file_record(struct spdk_file *file, uint32_t core, const struct spdk_file_event *event)
{
	uint32_t count = spdk_file_write(file, core, event, UINT32_MAX);

	if (event->tpoint < file->tpoints)
		((uint64_t *)(spdk_file_ring(file, core) + RING_BYTES))[event->tpoint]++;
	__atomic_store_n(spdk_file_next(file, core), *spdk_file_next(file, core) + count, __ATOMIC_RELEASE);
	return count;
}
