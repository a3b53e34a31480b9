/* SPDX-License-Identifier: BSD-2-Clause */
#include "model.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { GUARD_BYTES = 64, GUARD = 0xa5 };

struct slot {
	struct bdev_io io; /* must be the first member */
	struct model *model;
	bool busy, lies; /* `lies`: a compare that must fail */
	uint8_t *memory;
	uint8_t *data; /* inside the buffer */
	uint64_t bytes;
	struct iovec iov[MODEL_IOV_MAX], iov_before[MODEL_IOV_MAX];
	int iov_count;
};

struct model {
	struct model_options options;
	struct bdev_channel *channel;
	struct bdev *bdev;
	struct random random;
	uint8_t *bytes;	  /* the expected content of the bdev */
	uint8_t *unknown; /* a byte per block: content unknown after an abort */
	uint8_t *in_use;  /* a byte per block */
	struct slot slots[MODEL_DEPTH_MAX];
	uint32_t under_way, begun;
	bool driving;
	struct bdev_stats expected;
	uint32_t finished;
};

static uint64_t pick(struct model *m, uint64_t below)
{
	return random_below(&m->random, below);
}

/* ---- completion of an I/O ---- */

static void mark(struct model *m, uint8_t *map, uint64_t index, uint64_t count, uint8_t value)
{
	memset(map + index, value, count);
}

static bool is_unknown(const struct model *m, const struct bdev_io *io)
{
	return memchr(m->unknown + io->block_index, 1, io->block_count) != NULL;
}

static void check_read(struct model *m, struct slot *slot)
{
	uint64_t block_bytes = m->bdev->block_bytes;
	const uint8_t *expected = m->bytes + slot->io.block_index * block_bytes;

	for (uint64_t i = 0; i < slot->io.block_count; i++) {
		if (!m->unknown[slot->io.block_index + i])
			must(memcmp(slot->data + i * block_bytes, expected + i * block_bytes, block_bytes) == 0);
	}
}

static void check_guards(const struct slot *slot)
{
	for (int i = 0; i < GUARD_BYTES; i++) {
		must(slot->data[-1 - i] == GUARD);
		must(slot->data[slot->bytes + (uint64_t)i] == GUARD);
	}
}

static void drive(struct model *m);

static void count(struct model *m, const struct slot *slot, bool success)
{
	uint64_t bytes = success ? slot->io.block_count * m->bdev->block_bytes : 0;

	switch (slot->io.type) {
	case IO_TYPE_READ:
		m->expected.read_ops++;
		m->expected.bytes_read += bytes;
		break;
	case IO_TYPE_WRITE:
	case IO_TYPE_WRITE_ZEROES:
		m->expected.write_ops++;
		m->expected.bytes_written += bytes;
		break;
	case IO_TYPE_COMPARE:
		m->expected.compare_ops++;
		break;
	case IO_TYPE_FLUSH:
		m->expected.flush_ops++;
		break;
	case IO_TYPE_UNMAP:
		m->expected.unmap_ops++;
		m->expected.bytes_unmapped += bytes;
		break;
	case IO_TYPE_RESET:
		m->expected.reset_ops++;
		break;
	}
}

static void done(struct bdev_io *io, enum io_status status)
{
	struct slot *slot = (struct slot *)io;
	struct model *m = slot->model;
	bool ranged = io->type != IO_TYPE_FLUSH && io->type != IO_TYPE_RESET;

	must(thread_self() == rig_thread(0));
	must(slot->busy);
	must(io->status == status);
	must(io->story.state == BDEV_IO_FREE);
	slot->busy = false;
	m->under_way--;
	count(m, slot, status == IO_SUCCESS);
	m->expected.errors[status] += status != IO_SUCCESS;
	if (status == IO_ABORTED) {
		must(m->options.may_abort);
		if (io->type != IO_TYPE_READ && io->type != IO_TYPE_COMPARE && ranged)
			mark(m, m->unknown, io->block_index, io->block_count, 1);
	} else if (io->type == IO_TYPE_COMPARE) {
		if (!is_unknown(m, io))
			must(status == (slot->lies ? IO_MISCOMPARE : IO_SUCCESS));
	} else {
		must(status == IO_SUCCESS);
		if (io->type == IO_TYPE_READ)
			check_read(m, slot);
		else if (ranged)
			mark(m, m->unknown, io->block_index, io->block_count, 0);
	}
	if (slot->iov_count > 0) {
		check_guards(slot);
		must(memcmp(slot->iov, slot->iov_before, sizeof(slot->iov[0]) * (size_t)slot->iov_count) == 0);
	}
	if (ranged)
		mark(m, m->in_use, io->block_index, io->block_count, 0);
	drive(m);
}

/* ---- submission of an I/O ---- */

/* Cut the slot's buffer into up to iov_count_max pieces, some of them empty. */
static void cut(struct model *m, struct slot *slot)
{
	uint64_t cut_bytes = m->options.cut_bytes, left = slot->bytes, at = 0;
	int count_max = (int)(1 + pick(m, m->options.iov_count_max)), n = 0;

	while (left > 0) {
		uint64_t here = left;

		if (n < count_max - 1)
			here = min_u64(left, pick(m, 1 + 2 * slot->bytes / (uint64_t)count_max) / cut_bytes * cut_bytes);
		slot->iov[n++] = (struct iovec){ slot->data + at, here };
		at += here;
		left -= here;
	}
	slot->iov_count = n;
	memcpy(slot->iov_before, slot->iov, sizeof(slot->iov));
}

static void prepare_buffer(struct model *m, struct slot *slot, uint64_t blocks)
{
	uint64_t offset = pick(m, 4096) / m->options.cut_bytes * m->options.cut_bytes;

	slot->bytes = blocks * m->bdev->block_bytes;
	slot->data = slot->memory + 4096 + offset;
	memset(slot->data - GUARD_BYTES, GUARD, slot->bytes + 2 * GUARD_BYTES);
	cut(m, slot);
}

static void fill_random(struct model *m, uint8_t *data, uint64_t bytes)
{
	for (uint64_t i = 0; i < bytes; i += 8) {
		uint64_t word = random_next(&m->random);

		memcpy(data + i, &word, 8);
	}
}

static enum io_type pick_type(struct model *m)
{
	uint64_t n = pick(m, 100);

	if (m->options.may_abort && n == 99)
		return IO_TYPE_RESET;
	if (n < 35)
		return IO_TYPE_READ;
	if (n < 70)
		return IO_TYPE_WRITE;
	if (n < 80)
		return IO_TYPE_COMPARE;
	if (n < 87)
		return m->options.no_unmap ? IO_TYPE_READ : IO_TYPE_UNMAP;
	return n < 96 ? IO_TYPE_WRITE_ZEROES : IO_TYPE_FLUSH;
}

static bool pick_range(struct model *m, uint64_t *index_ret, uint64_t *count_ret)
{
	for (int i = 0; i < 20; i++) {
		uint64_t blocks = 1 + pick(m, min_u64(m->options.blocks_max, m->bdev->block_count));
		uint64_t index = pick(m, m->bdev->block_count - blocks + 1);

		if (memchr(m->in_use + index, 1, blocks))
			continue;
		mark(m, m->in_use, index, blocks, 1);
		*index_ret = index;
		*count_ret = blocks;
		return true;
	}
	return false;
}

static void begin(struct model *m, struct slot *slot, enum io_type type, uint64_t index, uint64_t blocks)
{
	uint8_t *expected = m->bytes + index * m->bdev->block_bytes;
	uint64_t now = reactor_now();

	slot->busy = true;
	slot->lies = false;
	slot->iov_count = 0;
	m->under_way++;
	m->begun++;
	if (type == IO_TYPE_READ || type == IO_TYPE_WRITE || type == IO_TYPE_COMPARE)
		prepare_buffer(m, slot, blocks);
	switch (type) {
	case IO_TYPE_READ:
		bdev_read(&slot->io, m->channel, slot->iov, slot->iov_count, index, blocks, now, done);
		break;
	case IO_TYPE_WRITE:
		fill_random(m, slot->data, slot->bytes);
		memcpy(expected, slot->data, slot->bytes);
		bdev_write(&slot->io, m->channel, slot->iov, slot->iov_count, index, blocks, now, done);
		break;
	case IO_TYPE_COMPARE:
		memcpy(slot->data, expected, slot->bytes);
		slot->lies = pick(m, 2);
		if (slot->lies)
			slot->data[pick(m, slot->bytes)] ^= (uint8_t)(1 + pick(m, 255));
		bdev_compare(&slot->io, m->channel, slot->iov, slot->iov_count, index, blocks, now, done);
		break;
	case IO_TYPE_UNMAP:
		memset(expected, 0, blocks * m->bdev->block_bytes);
		bdev_unmap(&slot->io, m->channel, index, blocks, now, done);
		break;
	case IO_TYPE_WRITE_ZEROES:
		memset(expected, 0, blocks * m->bdev->block_bytes);
		bdev_write_zeroes(&slot->io, m->channel, index, blocks, now, done);
		break;
	case IO_TYPE_FLUSH:
		bdev_flush(&slot->io, m->channel, now, done);
		break;
	case IO_TYPE_RESET:
		bdev_reset(&slot->io, m->channel, now, done);
		break;
	}
}

static struct slot *free_slot(struct model *m)
{
	for (uint32_t i = 0; i < m->options.depth; i++) {
		if (!m->slots[i].busy)
			return &m->slots[i];
	}
	return NULL;
}

/* Keep `depth` I/Os in progress until all are submitted. Half of them are submitted inside `done`, as a target may do. */
static void drive(struct model *m)
{
	struct slot *slot;

	if (m->driving && pick(m, 2))
		return;
	m->driving = true;
	while (m->begun < m->options.ops && (slot = free_slot(m))) {
		enum io_type type = pick_type(m);
		uint64_t index = 0, blocks = 0;

		if (type != IO_TYPE_FLUSH && type != IO_TYPE_RESET && !pick_range(m, &index, &blocks))
			break;
		begin(m, slot, type, index, blocks);
		m->driving = true;
	}
	m->driving = false;
	if (m->begun >= m->options.ops && m->under_way == 0)
		__atomic_store_n(&m->finished, 1, __ATOMIC_RELEASE);
}

static void start(void *ctx)
{
	drive(ctx);
}

/* ---- the whole run ---- */

static void check_stats(const struct model *m, const char *name, const struct bdev_stats *before)
{
	const struct bdev_stats after = rig_stats(name), *expected = &m->expected;

	assert_int_equal(after.read_ops - before->read_ops, expected->read_ops);
	assert_int_equal(after.write_ops - before->write_ops, expected->write_ops);
	assert_int_equal(after.unmap_ops - before->unmap_ops, expected->unmap_ops);
	assert_int_equal(after.flush_ops - before->flush_ops, expected->flush_ops);
	assert_int_equal(after.compare_ops - before->compare_ops, expected->compare_ops);
	assert_int_equal(after.reset_ops - before->reset_ops, expected->reset_ops);
	assert_int_equal(after.bytes_read - before->bytes_read, expected->bytes_read);
	assert_int_equal(after.bytes_written - before->bytes_written, expected->bytes_written);
	assert_int_equal(after.bytes_unmapped - before->bytes_unmapped, expected->bytes_unmapped);
	for (int i = 0; i < BDEV_STATUSES_MAX; i++)
		assert_int_equal(after.errors[i] - before->errors[i], expected->errors[i]);
	assert_int_equal(after.queue_depth, 0);
	assert_int_equal(after.queued, 0);
	assert_true(after.read_latency_ticks_min <= after.read_latency_ticks_max);
	assert_true(after.read_latency_ticks_max <= after.read_latency_ticks);
}

void model_run(const char *name, const struct model_options *options)
{
	struct bdev_stats before = rig_stats(name);
	struct bdev_desc *desc = rig_open(name);
	struct bdev *bdev = bdev_desc_bdev(desc);
	struct model *m = calloc(1, sizeof(*m));

	assert_non_null(m);
	m->options = *options;
	m->bdev = bdev;
	random_init(&m->random, options->seed);
	m->bytes = calloc(bdev->block_count, bdev->block_bytes);
	m->unknown = calloc(bdev->block_count, 1);
	m->in_use = calloc(bdev->block_count, 1);
	assert_true(m->bytes && m->unknown && m->in_use);
	for (uint32_t i = 0; i < options->depth; i++) {
		bdev_io_init(&m->slots[i].io);
		m->slots[i].model = m;
		m->slots[i].memory = aligned_alloc(4096,
						   round_up(options->blocks_max * bdev->block_bytes + 3 * 4096, 4096));
		assert_non_null(m->slots[i].memory);
	}
	m->channel = rig_channel_get(rig_thread(0), desc);
	assert_non_null(m->channel);
	rig_on(rig_thread(0), start, m);
	rig_wait(&m->finished, 1);
	check_stats(m, name, &before);
	rig_channel_put(rig_thread(0), m->channel);
	rig_close(desc);
	for (uint32_t i = 0; i < options->depth; i++)
		free(m->slots[i].memory);
	free(m->bytes);
	free(m->unknown);
	free(m->in_use);
	free(m);
}
