/* SPDX-License-Identifier: BSD-2-Clause */
/* disk - see disk.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "disk.h"
#include "ledger.h"
#include "base/reactor/reactor.h"
#include "sim.h"

struct disk {
	struct bdev bdev;
	unsigned int index;
	uint8_t *bytes;
	uint64_t *durable; /* the stamp of each block after a power cut */
	uint64_t delay_max, hang_until;
	uint32_t refuse_permille, fail_permille, inline_permille, hang_permille;
	bool takes_early; /* copies a write's bytes at submission */
	bool unmaps, writes_zeroes, zeroes_in_vain;
	bool gone;
	uint32_t under_way, channels, hung;
};

/* Stored in the scratch area of each I/O. */
struct disk_io {
	TAILQ_ENTRY(disk_io) link;
	struct bdev_io *io;
	uint64_t due;
	uint8_t *copy; /* the data of a write copied early */
	bool hangs;    /* until sim.woken */
};

struct disk_channel {
	struct disk *disk;
	struct poller *poller;
	TAILQ_HEAD(, disk_io) pending;
	uint32_t count;
};

static struct disk *disk_of(const struct bdev *bdev)
{
	return container_of(bdev, struct disk, bdev);
}

static void each_piece(struct bdev_io *io, void (*fn)(uint8_t *disk_at, void *memory, size_t bytes), uint8_t *disk_at)
{
	for (int i = 0; i < io->iov_count; i++) {
		fn(disk_at, io->iov[i].iov_base, io->iov[i].iov_len);
		disk_at += io->iov[i].iov_len;
	}
}

static void read_piece(uint8_t *disk_at, void *memory, size_t bytes)
{
	memcpy(memory, disk_at, bytes);
}

static void write_piece(uint8_t *disk_at, void *memory, size_t bytes)
{
	memcpy(disk_at, memory, bytes);
}

static void scribble_piece(uint8_t *disk_at, void *memory, size_t bytes)
{
	memset(memory, 0xa5, bytes);
}

static void written(struct disk *disk, uint64_t first, uint64_t count)
{
	for (uint64_t i = first; i < first + count && !disk->bdev.write_cache; i++)
		disk->durable[i] = *(uint64_t *)(void *)(disk->bytes + i * disk->bdev.block_bytes);
}

/* Writes that ended meanwhile also become durable, which real disks may do. */
static void flush(struct disk *disk)
{
	for (uint64_t i = 0; i < disk->bdev.block_count; i++)
		disk->durable[i] = *(uint64_t *)(void *)(disk->bytes + i * disk->bdev.block_bytes);
}

/* Execute `blocks` of `io`; fewer than all if it fails half-way. */
static void perform(struct disk *disk, struct disk_io *work, uint64_t blocks)
{
	struct bdev_io *io = work->io;
	uint8_t *at = disk->bytes + io->block_index * disk->bdev.block_bytes;
	size_t bytes = blocks * disk->bdev.block_bytes;

	switch (io->type) {
	case IO_TYPE_READ:
		each_piece(io, read_piece, at);
		break;
	case IO_TYPE_WRITE:
		if (work->copy)
			memcpy(at, work->copy, bytes);
		else if (blocks == io->block_count)
			each_piece(io, write_piece, at);
		written(disk, io->block_index, blocks);
		break;
	case IO_TYPE_UNMAP:
	case IO_TYPE_WRITE_ZEROES:
		memset(at, 0, bytes);
		written(disk, io->block_index, blocks);
		break;
	case IO_TYPE_FLUSH:
		flush(disk);
		break;
	default:
		must(!"a type that supports() refuses");
	}
}

static void finish(struct disk_channel *channel, struct disk_io *work)
{
	struct disk *disk = channel->disk;
	struct bdev_io *io = work->io;
	bool cannot = io->type == IO_TYPE_WRITE_ZEROES && disk->zeroes_in_vain;
	bool fails = cannot || (!sim.calm && sim_chance(disk->fail_permille, 1000));
	uint8_t *copy = work->copy;

	if (cannot) {
		/* the core emulates this type by writes */
	} else if (fails) {
		sim.disk_errors++;
		if (io->type != IO_TYPE_READ && io->type != IO_TYPE_FLUSH && sim_chance(1, 2))
			perform(disk, work, sim_below(io->block_count));
	} else {
		perform(disk, work, io->block_count);
	}
	disk->under_way--;
	disk->hung -= work->hangs;
	work->copy = NULL;
	free(copy);
	bdev_io_complete(io, cannot ? IO_UNSUPPORTED : fails ? IO_MEDIA_ERROR : IO_SUCCESS, reactor_now());
}

/* The first I/O that is due, starting at `turn`. */
static struct disk_io *find_due(struct disk_channel *channel, uint64_t turn)
{
	struct disk_io *work;

	TAILQ_FOREACH (work, &channel->pending, link) {
		if (work->hangs && !sim.woken)
			continue;
		if (turn > 0)
			turn--;
		else if (work->due <= sim.now || sim.calm)
			return work;
	}
	return NULL;
}

/* One I/O ends in a turn, in random order; all when `sim.calm`. */
static int poll(void *ctx)
{
	struct disk_channel *channel = ctx;
	struct disk_io *work;
	int busy = 0;

	if (channel->disk->hang_until > sim.now && !sim.calm)
		return 0;
	for (uint32_t i = sim.calm ? channel->count : 1; i > 0 && channel->count > 0; i--) {
		work = find_due(channel, sim_below(channel->count));
		if (!work)
			work = find_due(channel, 0);
		if (!work)
			break;
		TAILQ_REMOVE(&channel->pending, work, link);
		channel->count--;
		finish(channel, work);
		busy++;
	}
	return busy;
}

static int submit(void *channel_ctx, struct bdev_io *io)
{
	struct disk_channel *channel = channel_ctx;
	struct disk *disk = channel->disk;
	struct disk_io *work = bdev_io_backend(io);

	if (!sim.calm && sim_chance(disk->refuse_permille, 1000))
		return -EAGAIN;
	if (!sim.calm && sim_chance(disk->fail_permille, 4000)) {
		sim.disk_errors++;
		return -EIO;
	}
	*work = (struct disk_io){ .io = io, .due = sim.now + sim_below(disk->delay_max + 1) };
	must(io->block_index + io->block_count <= disk->bdev.block_count);
	disk->under_way++;
	work->hangs = !sim.woken && sim_chance(disk->hang_permille, 1000);
	disk->hung += work->hangs;
	if (io->type == IO_TYPE_READ)
		each_piece(io, scribble_piece, NULL);
	if (io->type == IO_TYPE_WRITE && disk->takes_early) {
		uint8_t *at = work->copy = malloc(io->block_count * disk->bdev.block_bytes);

		must(at);
		for (int i = 0; i < io->iov_count; at += io->iov[i++].iov_len)
			memcpy(at, io->iov[i].iov_base, io->iov[i].iov_len);
	}
	if (!work->hangs && sim_chance(disk->inline_permille, 1000)) {
		finish(channel, work);
		return 0;
	}
	TAILQ_INSERT_TAIL(&channel->pending, work, link);
	channel->count++;
	return 0;
}

static bool supports(const struct bdev *bdev, enum io_type type)
{
	const struct disk *disk = disk_of(bdev);

	return type == IO_TYPE_READ || type == IO_TYPE_WRITE || type == IO_TYPE_FLUSH ||
	       (type == IO_TYPE_UNMAP && disk->unmaps) || (type == IO_TYPE_WRITE_ZEROES && disk->writes_zeroes);
}

static int channel_create(struct bdev *bdev, void *channel_ctx)
{
	struct disk_channel *channel = channel_ctx;

	channel->disk = disk_of(bdev);
	TAILQ_INIT(&channel->pending);
	channel->poller = poller_register("sim_disk", poll, channel, 0);
	must(channel->poller);
	channel->disk->channels++;
	return 0;
}

static void channel_destroy(struct bdev *bdev, void *channel_ctx)
{
	struct disk_channel *channel = channel_ctx;

	sim_check(channel->count == 0, "disk%u: a channel goes with %u I/Os under way", channel->disk->index,
		  channel->count);
	poller_unregister(&channel->poller);
	channel->disk->channels--;
}

static void destroy(struct bdev *bdev)
{
	disk_of(bdev)->gone = true;
}

static void describe_config(const struct bdev *bdev, const struct bdev_visitor *visitor)
{
}

static const struct bdev_ops ops = {
	.submit = submit,
	.supports = supports,
	.channel_create = channel_create,
	.channel_destroy = channel_destroy,
	.channel_ctx_bytes = sizeof(struct disk_channel),
	.destroy = destroy,
	.kind = "sim",
	.create_method = "bdev_sim_create",
	.describe_config = describe_config,
};

static void set_limits(struct bdev *bdev)
{
	static const uint32_t maxima[] = { 0, 1, 3, 8, 16 };

	bdev->io_blocks_max = sim_chance(1, 2) ? maxima[sim_below(ARRAY_COUNT(maxima))] : 0;
	bdev->boundary_blocks = sim_chance(1, 3) ? (uint32_t)sim_between(4, 16) : 0;
	bdev->iov_count_max = sim_chance(1, 4) ? 1 : 0;
	bdev->buffer_alignment = sim_chance(1, 4) ? 4096 : 0;
}

static uint32_t some(bool of, uint64_t most)
{
	return of ? (uint32_t)sim_below(most) : 0;
}

struct disk *disk_create(unsigned int index)
{
	struct disk *disk = calloc(1, sizeof(*disk));
	struct bdev *bdev = &disk->bdev;
	struct fathom_fault why;

	must(disk);
	disk->index = index;
	snprintf(bdev->name, sizeof(bdev->name), "disk%u", index);
	bdev->product = "Sim disk";
	memset(bdev->uuid, (int)index + 1, sizeof(bdev->uuid));
	bdev->block_bytes = sim_chance(2, 3) ? 512 : 4096;
	bdev->block_count = sim_between(300, 700);
	bdev->write_cache = sim_chance(2, 3);
	set_limits(bdev);
	disk->unmaps = sim_chance(2, 3);
	disk->writes_zeroes = sim_chance(2, 3);
	disk->zeroes_in_vain = sim_chance(1, 5);
	disk->takes_early = sim_chance(1, 3);
	disk->delay_max = sim.slow_disks ? sim_between(1, 300) * NS_PER_US : sim_below(10) * NS_PER_US;
	disk->refuse_permille = some(sim.slow_disks, 200);
	disk->inline_permille = sim_chance(1, 2) ? 0 : some(true, 1000);
	disk->fail_permille = some(sim.disks_fail, 60);
	disk->bytes = calloc(bdev->block_count, bdev->block_bytes);
	disk->durable = calloc(bdev->block_count, sizeof(uint64_t));
	must(disk->bytes && disk->durable);
	bdev->ops = &ops;
	ledger_init(index, bdev->block_count, bdev->block_bytes);
	sim_check(bdev_register(bdev, &why) == 0, "disk%u: %s", index, why.text);
	return disk;
}

void disk_remove(struct disk *disk)
{
	int rc = bdev_unregister(&disk->bdev, NULL, NULL);

	must(rc == 0 || rc == -EBUSY); /* it is being removed already */
}

void disk_free(struct disk *disk)
{
	must(disk->gone);
	free(disk->bytes);
	free(disk->durable);
	free(disk);
}

bool disk_is_gone(const struct disk *disk)
{
	return disk->gone;
}

const struct bdev *disk_bdev(const struct disk *disk)
{
	return &disk->bdev;
}

uint32_t disk_under_way(const struct disk *disk)
{
	return disk->under_way;
}

uint32_t disk_channels(const struct disk *disk)
{
	return disk->channels;
}

uint64_t disk_durable_stamp(const struct disk *disk, uint64_t block)
{
	return disk->durable[block];
}

const uint8_t *disk_block(const struct disk *disk, uint64_t block)
{
	return disk->bytes + block * disk->bdev.block_bytes;
}

void disk_hang(struct disk *disk, uint64_t ns)
{
	disk->hang_until = sim.now + ns;
}

void disk_hang_for_ever(struct disk *disk, uint32_t permille)
{
	must(permille <= 1000);
	disk->hang_permille = permille;
}

uint32_t disk_hung(const struct disk *disk)
{
	return disk->hung;
}
