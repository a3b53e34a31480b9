/* SPDX-License-Identifier: BSD-2-Clause */
#include "contents.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "data/store/pool/sums.h"

static void add_text(struct contents *self, const char *format, ...) PRINTF_LIKE(2, 3);

static void add_text(struct contents *self, const char *format, ...)
{
	size_t used = strlen(self->text);
	va_list arguments;

	va_start(arguments, format);
	must(vsnprintf(self->text + used, sizeof(self->text) - used, format, arguments) < (int)(sizeof(self->text) - used));
	va_end(arguments);
}

static void see_pool(void *ctx, const struct pool_record *pool)
{
	struct contents *self = ctx;

	self->pool_count++;
	self->node_count += 3;
	add_text(self, "pool %s size %ld\n", pool->name, (long)pool->size_bytes);
}

static void see_volume(void *ctx, const struct pool_record *pool, const struct volume_record *volume, uint64_t allocated)
{
	struct contents *self = ctx;

	must(self->object_count < OBJECTS_MAX);
	self->node_count += 4 + (volume->checksums ? 1 : 0);
	must(text_copy(self->objects[self->object_count].pool, sizeof(self->objects[self->object_count].pool),
		       pool->name) == 0);
	must(text_copy(self->objects[self->object_count].volume, sizeof(self->objects[self->object_count].volume),
		       volume->name) == 0);
	self->objects[self->object_count].snapshot.name[0] = '\0';
	must(volume_record_copy(&self->objects[self->object_count].record, volume) == 0);
	self->object_count++;
}

static void see_snapshot(void *ctx, const struct pool_record *pool, const struct volume_record *volume,
			 const struct snapshot_record *snapshot, uint64_t allocated)
{
	struct contents *self = ctx;

	see_volume(ctx, pool, volume, allocated);
	self->node_count--; /* it has a folder and two files, the volume also a folder of snapshots */
	self->objects[self->object_count - 1].snapshot = *snapshot;
}

static void see_damaged(void *ctx, const char *path, const struct fathom_fault *why)
{
	struct contents *self = ctx;

	self->damaged_count++;
	add_text(self, "damaged %s: %s\n", path, why->text);
}

/* The first byte of each block. */
static void add_data(struct contents *self, struct memory_fs *memory, int fd)
{
	const struct pool_fs *fs = memory_fs_calls(memory);
	uint8_t data[BLOCKS_MAX * BLOCK];
	int bytes = fs->read(fs->ctx, fd, data, sizeof(data));

	must(bytes % BLOCK == 0);
	for (int i = 0; i < bytes; i += BLOCK)
		add_text(self, " %02x", data[i]);
	add_text(self, "\n");
	fs->close(fs->ctx, fd);
}

/* The first byte of each checksum. */
static void add_sums(struct contents *self, struct memory_fs *memory, int fd, uint64_t size_bytes)
{
	const struct pool_fs *fs = memory_fs_calls(memory);
	uint8_t sum[sizeof(uint32_t)];

	memory_fs_read(memory, fd, 0, sum, sizeof(sum));
	add_text(self, " marks %02x sums", sum[0]);
	for (uint64_t at = sums_offset(0); at < sums_end(size_bytes); at += sizeof(sum)) {
		memory_fs_read(memory, fd, at, sum, sizeof(sum));
		add_text(self, " %02x", sum[0]);
	}
	add_text(self, "\n");
	fs->close(fs->ctx, fd);
}

static int compare_objects(const void *a, const void *b)
{
	return memcmp(a, b, 2 * POOL_NAME_BYTES_MAX); /* the snapshots of a volume stay together */
}

static void add_object(struct contents *self, struct memory_fs *memory, uint32_t index)
{
	const struct volume_record *record = &self->objects[index].record;
	const struct snapshot_record *snapshot = &self->objects[index].snapshot;
	const char *pool = self->objects[index].pool;
	int fd;

	if (snapshot->name[0]) {
		add_text(self, "snapshot %s/%s@%s group %d size %ld", pool, record->name, snapshot->name,
			 snapshot->group[0], (long)snapshot->size_bytes);
		must(snapshot_open_data(self->tree, pool, record->name, snapshot->name, &fd, NULL) == 0);
	} else {
		add_text(self, "volume %s/%s uuid %d size %ld generation %u hosts %u origin %d upkeep %d%d%d %s", pool,
			 record->name, record->uuid[0], (long)record->size_bytes, record->generation, record->host_count,
			 record->has_origin, record->thick, record->allocating, record->shares,
			 volume_move_text(record->move));
		if (record->move == VOLUME_MOVE_INCOMING) { /* no host reads its data */
			add_text(self, "\n");
			return;
		}
		must(volume_open_data(self->tree, pool, record, O_RDONLY, &fd, NULL) == 0);
	}
	add_data(self, memory, fd);
	if (!record->checksums)
		return;
	must((snapshot->name[0] ? snapshot_open_sums(self->tree, pool, record->name, snapshot->name, &fd, NULL)
				: volume_open_sums(self->tree, pool, record, O_RDONLY, &fd, NULL)) == 0);
	add_sums(self, memory, fd, snapshot->name[0] ? snapshot->size_bytes : record->size_bytes);
}

struct contents *open_tree(struct memory_fs *memory)
{
	struct contents *self = calloc(1, sizeof(*self));
	struct pool_tree_visitor visitor = {
		.ctx = self, .pool = see_pool, .volume = see_volume, .snapshot = see_snapshot, .damaged = see_damaged
	};
	struct fathom_fault why;

	must(self);
	self->node_count = 4; /* pools, pending, commit, trash */
	if (pool_tree_open(memory_fs_calls(memory), "/storage", &visitor, &self->tree, &why) < 0) {
		add_text(self, "cannot open: %s\n", why.text);
		return self;
	}
	qsort(self->objects, self->object_count, sizeof(self->objects[0]), compare_objects);
	for (uint32_t i = 0; i < self->object_count; i++)
		add_object(self, memory, i);
	return self;
}

void close_tree(struct contents *self)
{
	for (uint32_t i = 0; i < self->object_count; i++)
		volume_record_deinit(&self->objects[i].record);
	pool_tree_close(self->tree);
	free(self);
}

const struct volume_record *find_volume(const struct contents *self, const char *name)
{
	for (uint32_t i = 0; i < self->object_count; i++)
		if (strcmp(self->objects[i].volume, name) == 0 && !self->objects[i].snapshot.name[0])
			return &self->objects[i].record;
	return NULL;
}
