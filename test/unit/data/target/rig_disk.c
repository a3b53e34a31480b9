/* SPDX-License-Identifier: BSD-2-Clause */
/* The rig's devices: a disk that completes when the test orders it, and ordinary ones. */
#include "rig.h"

#include <stdlib.h>
#include <string.h>

#include "data/store/backend/backend.h"

/* ---- a disk ---- */

static struct {
	struct bdev bdev;
	bool registered, holding;
	int refused_group, unsupported;
	struct bdev_io *held[512];
	struct bdev_channel *dummy;
	unsigned int held_count, durable_count, count[16];
} disk;

static int disk_submit(void *channel_ctx, struct bdev_io *io)
{
	disk.count[io->type]++;
	disk.durable_count += io->is_durable && io->type == IO_TYPE_WRITE;
	if (!disk.holding) {
		bdev_io_complete(io, IO_SUCCESS, reactor_tick());
		return 0;
	}
	must(disk.held_count < ARRAY_COUNT(disk.held));
	*(struct fathom_thread **)bdev_io_backend(io) = thread_self();
	disk.held[disk.held_count++] = io;
	return 0;
}

static bool disk_supports(const struct bdev *bdev, enum io_type type)
{
	return type != IO_TYPE_RESET && (int)type != disk.unsupported;
}

static int disk_channel_create(struct bdev *bdev, void *channel_ctx)
{
	return disk.refused_group >= 0 && reactor_self() == reactor_at((unsigned int)disk.refused_group) ? -ENOMEM : 0;
}

static void disk_channel_destroy(struct bdev *bdev, void *channel_ctx)
{
}

static void disk_destroy(struct bdev *bdev)
{
	disk.registered = false;
}

static const struct bdev_ops disk_ops = {
	.submit = disk_submit,
	.supports = disk_supports,
	.channel_create = disk_channel_create,
	.channel_destroy = disk_channel_destroy,
	.channel_ctx_bytes = 64,
	.destroy = disk_destroy,
	.kind = "rig",
};

static void disk_register(void *ctx)
{
	struct fathom_fault why;

	must(bdev_register(&disk.bdev, &why) == 0);
}

static bool disk_durable;

void rig_disk_durable(bool durable)
{
	disk_durable = durable;
}

void rig_disk(const char *name, bool write_cache, bool read_only)
{
	must(!disk.registered);
	memset(&disk, 0, sizeof(disk));
	disk.refused_group = disk.unsupported = -1;
	disk.holding = true;
	snprintf(disk.bdev.name, sizeof(disk.bdev.name), "%s", name);
	disk.bdev.product = "Rig disk";
	disk.bdev.block_bytes = RIG_BLOCK_BYTES;
	disk.bdev.block_count = RIG_BLOCKS;
	disk.bdev.write_cache = write_cache;
	disk.bdev.durable_writes = disk_durable;
	disk.bdev.read_only = read_only;
	disk.bdev.ops = &disk_ops;
	memset(disk.bdev.uuid, 0xdd, sizeof(disk.bdev.uuid));
	disk.registered = true;
	rig_call(thread_control(), disk_register, NULL);
}

unsigned int rig_disk_held(void)
{
	return disk.held_count;
}

struct release {
	struct bdev_io *io;
	enum io_status status;
};

static void release_on_thread(void *ctx)
{
	struct release *release = ctx;

	bdev_io_complete(release->io, release->status, reactor_now());
	free(release);
}

void rig_disk_release(int status)
{
	struct bdev_io *held[ARRAY_COUNT(disk.held)];
	unsigned int count = disk.held_count;

	memcpy(held, disk.held, sizeof(held));
	disk.held_count = 0;
	for (unsigned int i = 0; i < count; i++) {
		struct release *release = malloc(sizeof(*release));

		must(release);
		release->io = held[i];
		release->status = (enum io_status)status;
		thread_send_msg(*(struct fathom_thread **)bdev_io_backend(held[i]), release_on_thread, release);
	}
	rig_run();
}

void rig_disk_hold(bool hold)
{
	disk.holding = hold;
}

unsigned int rig_disk_durable_count(void)
{
	return disk.durable_count;
}

unsigned int rig_disk_count(int type)
{
	return disk.count[type];
}

void rig_disk_lacks(int type)
{
	disk.unsupported = type;
}

void rig_disk_refuse_channel(int index)
{
	disk.refused_group = index;
}

/* ---- other devices ---- */

struct device_args {
	const char *name;
	uint64_t blocks;
	uint32_t block_bytes;
};

static void malloc_on_control(void *ctx)
{
	struct device_args *args = ctx;
	struct malloc_options options = { .name = args->name,
					  .block_count = args->blocks,
					  .block_bytes = args->block_bytes };
	struct fathom_fault why;

	memset(options.uuid, 0, sizeof(options.uuid));
	memcpy(options.uuid, args->name, min_u64(strlen(args->name), sizeof(options.uuid)));
	must(malloc_create(&options, &why) == 0);
}

static void null_on_control(void *ctx)
{
	struct device_args *args = ctx;
	struct null_options options = { .name = args->name, .block_count = args->blocks, .block_bytes = args->block_bytes };
	struct fathom_fault why;

	memcpy(options.uuid, args->name, min_u64(strlen(args->name), sizeof(options.uuid)));
	must(null_create(&options, &why) == 0);
}

void rig_malloc(const char *name, uint64_t blocks, uint32_t block_bytes)
{
	struct device_args args = { name, blocks, block_bytes };

	rig_call(thread_control(), malloc_on_control, &args);
}

void rig_null(const char *name, uint64_t blocks, uint32_t block_bytes)
{
	struct device_args args = { name, blocks, block_bytes };

	rig_call(thread_control(), null_on_control, &args);
}

static void delete_on_control(void *ctx)
{
	struct bdev *bdev = bdev_find(ctx);

	must(bdev);
	must(bdev_unregister(bdev, NULL, NULL) == 0);
}

void rig_delete_bdev(const char *name)
{
	char copy[64];

	snprintf(copy, sizeof(copy), "%s", name);
	rig_call(thread_control(), delete_on_control, copy);
}
