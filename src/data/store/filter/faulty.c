/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * faulty - the filter itself: the rules choose an effect for each I/O; without one it goes to the base device.
 *
 *   submit --+-- pass ---------------> base I/O of the channel's pool -> complete
 *            +-- delayed list --(due)-^
 *            +-- pending list --(reset)-> aborted
 *            +-- ended at once
 *
 * The base gets an I/O of its own from a pool; the filter's I/O is its trace parent. The pool has a fixed size: while it is
 * empty, the core queues. A corrupted write is sent from a copy, because the filter must not change the caller's memory;
 * that copy is the only allocation.
 *
 * A reset ends pending and delayed I/O here, then resets the base's channel.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uuid/uuid.h>

#include "base/list.h"
#include "base/text.h"
#include "base/observe/trace/points.gen.h"
#include "base/reactor/reactor.h"
#include "data/store/filter/internal.h"
#include "data/store/filter/probes.gen.h"

enum {
	BASE_IOS = 128,
	DELAY_POLL_US = 20,
	NAME_ROOM_BYTES = BDEV_NAME_BYTES_MAX + 8, /* longer than a name may be, so text_copy() detects a name too long */
};

struct faulty {
	struct bdev bdev;
	struct bdev_desc *base_desc;
	uint64_t seed;
	struct rules rules;
	struct versions versions;
};

struct base_io {
	struct bdev_io io; /* first */
	struct bdev_io *upper;
	struct faulty_channel *channel;
	uint8_t *copy; /* of a corrupted write; else NULL */
	struct iovec copy_iov;
	bool corrupt_read;
	uint64_t corrupt_offset;
	uint8_t corrupt_value;
	STAILQ_ENTRY(base_io) free;
} CACHE_ALIGNED;
static_assert(offsetof(struct base_io, io) == 0, "a base I/O is its I/O, and the pool's stories are at 0");
static_assert(BASE_IOS >= 2, "one for reset, at least one for other I/O");

struct faulty_channel {
	struct faulty *self;
	struct bdev_channel *base;
	struct base_io *pool;
	STAILQ_HEAD(, base_io) pool_free;
	TAILQ_HEAD(held_list, faulty_io) pending, delayed;
	struct poller *delay_poller; /* paused while `delayed` is empty */
	uint64_t polls;		     /* count of its polls: the clock for delays, so the simulator repeats them exactly */
};

/* The scratch in the upper I/O. */
struct faulty_io {
	struct bdev_io *io;
	uint64_t due; /* delayed: at this poll */
	TAILQ_ENTRY(faulty_io) link;
};
static_assert(sizeof(struct faulty_io) <= BDEV_IO_BACKEND_BYTES, "fits in the I/O");

static uint64_t io_bytes(const struct faulty_channel *channel, const struct bdev_io *io)
{
	return io->block_count * channel->self->bdev.block_bytes;
}

static uint64_t io_offset(const struct faulty_channel *channel, const struct bdev_io *io)
{
	return io->block_index * channel->self->bdev.block_bytes;
}

/* ---- to the base and back ---- */

static void corrupt_byte(const struct iovec *iov, int iov_count, uint64_t offset, uint8_t value)
{
	for (int i = 0; i < iov_count; offset -= iov[i++].iov_len) {
		if (offset < iov[i].iov_len) {
			uint8_t *byte = (uint8_t *)iov[i].iov_base + offset;

			*byte = value && value != *byte ? value : (uint8_t) ~*byte;
			return;
		}
	}
	must(!"the offset is in the vector");
}

/* The pool's last entry is reserved for reset, which must not wait for other I/O. Only one reset runs at a time. */
static struct base_io *reset_io(const struct faulty_channel *channel)
{
	return &channel->pool[BASE_IOS - 1];
}

static void base_done(struct bdev_io *io, enum io_status status)
{
	struct base_io *base = (struct base_io *)io;
	struct faulty_channel *channel = base->channel;
	struct bdev_io *upper = base->upper;

	must(upper);
	must(base->io.story.state == BDEV_IO_FREE);
	if (base->corrupt_read && status == IO_SUCCESS)
		corrupt_byte(upper->iov, upper->iov_count, base->corrupt_offset, base->corrupt_value);
	free(base->copy);
	base->copy = NULL;
	base->upper = NULL;
	if (base != reset_io(channel))
		STAILQ_INSERT_HEAD(&channel->pool_free, base, free);
	bdev_io_complete(upper, status, reactor_now());
}

static struct base_io *base_init(struct faulty_channel *channel, struct base_io *base, struct bdev_io *io)
{
	must(!base->upper);
	must(!base->copy);
	must(io->story.state == BDEV_IO_DISPATCHED);
	base->upper = io;
	base->channel = channel;
	base->corrupt_read = false;
	base->io.parent = &io->story.trace;
	return base;
}

static struct base_io *base_get(struct faulty_channel *channel, struct bdev_io *io)
{
	struct base_io *base = STAILQ_FIRST(&channel->pool_free);

	if (!base)
		return NULL;
	STAILQ_REMOVE_HEAD(&channel->pool_free, free);
	return base_init(channel, base, io);
}

/* At the tick `now`: after a delay it is not that at which the filter got the I/O, because the base was not slow. */
static void base_submit(struct faulty_channel *channel, struct base_io *base, uint64_t block_index, uint64_t now)
{
	struct bdev_io *io = base->upper;
	struct iovec *iov = base->copy ? &base->copy_iov : io->iov;
	int iov_count = base->copy ? 1 : io->iov_count;

	must(base->channel == channel);
	must(block_index + io->block_count <= channel->self->bdev.block_count);
	switch (io->type) {
	case IO_TYPE_READ:
		bdev_read(&base->io, channel->base, iov, iov_count, block_index, io->block_count, now, base_done);
		break;
	case IO_TYPE_WRITE:
		bdev_write(&base->io, channel->base, iov, iov_count, block_index, io->block_count, now, base_done);
		break;
	case IO_TYPE_COMPARE:
		bdev_compare(&base->io, channel->base, iov, iov_count, block_index, io->block_count, now, base_done);
		break;
	case IO_TYPE_FLUSH:
		bdev_flush(&base->io, channel->base, now, base_done);
		break;
	case IO_TYPE_UNMAP:
		bdev_unmap(&base->io, channel->base, block_index, io->block_count, now, base_done);
		break;
	case IO_TYPE_WRITE_ZEROES:
		bdev_write_zeroes(&base->io, channel->base, block_index, io->block_count, now, base_done);
		break;
	case IO_TYPE_RESET:
		bdev_reset(&base->io, channel->base, now, base_done);
		break;
	}
}

/* ---- effects ---- */

static void end_io(struct bdev_io *io, enum io_status status)
{
	bdev_io_complete(io, status, reactor_now());
}

static void delay_io(struct faulty_channel *channel, struct bdev_io *io, uint64_t delay_ns)
{
	struct faulty_io *held = bdev_io_backend(io), *other;

	held->io = io;
	held->due = channel->polls + (delay_ns + DELAY_POLL_US * NS_PER_US - 1) / (DELAY_POLL_US * NS_PER_US);
	TAILQ_FOREACH_REVERSE(other, &channel->delayed, held_list, link)
	{
		if (other->due <= held->due)
			break;
	}
	if (other)
		TAILQ_INSERT_AFTER(&channel->delayed, other, held, link);
	else
		TAILQ_INSERT_HEAD(&channel->delayed, held, link);
	poller_resume(channel->delay_poller);
}

static int delay_poll(void *ctx)
{
	struct faulty_channel *channel = ctx;
	struct faulty_io *held;
	int count = 0;

	channel->polls++;
	while ((held = TAILQ_FIRST(&channel->delayed)) && held->due <= channel->polls) {
		struct base_io *base = base_get(channel, held->io);

		if (!base)
			break;
		TAILQ_REMOVE(&channel->delayed, held, link);
		base_submit(channel, base, held->io->block_index, reactor_tick());
		count++;
	}
	if (TAILQ_EMPTY(&channel->delayed))
		poller_pause(channel->delay_poller);
	return count;
}

static void hold_io(struct faulty_channel *channel, struct bdev_io *io)
{
	struct faulty_io *held = bdev_io_backend(io);

	held->io = io;
	TAILQ_INSERT_TAIL(&channel->pending, held, link);
}

/* Choose the byte to corrupt, and copy the data of a write. False: out of memory for the copy. */
static bool prepare_corruption(struct faulty_channel *channel, struct base_io *base, const struct filter_rule *rule)
{
	const struct bdev_io *io = base->upper;
	uint64_t bytes = io_bytes(channel, io), at = 0;

	must(bytes > 0);
	base->corrupt_offset = rule->corrupt_value ? rule->corrupt_offset % bytes
						   : rules_random(&channel->self->rules, bytes);
	base->corrupt_value = rule->corrupt_value;
	if (io->type == IO_TYPE_READ) {
		base->corrupt_read = true;
		return true;
	}
	base->copy = malloc(bytes);
	if (!base->copy)
		return false;
	for (int i = 0; i < io->iov_count; at += io->iov[i++].iov_len)
		memcpy(base->copy + at, io->iov[i].iov_base, io->iov[i].iov_len);
	must(at == bytes);
	base->copy_iov = (struct iovec){ base->copy, bytes };
	corrupt_byte(&base->copy_iov, 1, base->corrupt_offset, base->corrupt_value);
	return true;
}

/* The index of a random range of the same length at another place; the I/O's own if there is no other. */
static uint64_t pick_other_range(struct faulty_channel *channel, const struct bdev_io *io)
{
	uint64_t places = channel->self->bdev.block_count - io->block_count + 1;

	if (places < 2)
		return io->block_index;
	return (io->block_index + 1 + rules_random(&channel->self->rules, places - 1)) % places;
}

static bool changes_data(enum io_type type)
{
	return type == IO_TYPE_WRITE || type == IO_TYPE_WRITE_ZEROES || type == IO_TYPE_UNMAP;
}

static void reset_channel(struct faulty_channel *channel, struct base_io *base)
{
	struct faulty_io *held;

	while ((held = TAILQ_FIRST(&channel->pending))) {
		TAILQ_REMOVE(&channel->pending, held, link);
		end_io(held->io, IO_ABORTED);
	}
	while ((held = TAILQ_FIRST(&channel->delayed))) {
		TAILQ_REMOVE(&channel->delayed, held, link);
		end_io(held->io, IO_ABORTED);
	}
	base_submit(channel, base, 0, bdev_io_dispatch_tick(base->upper));
}

/* Submit to the base, with the effect of `rule` if it applies to the type of `io`. False: out of memory. */
static bool apply_at_base(struct faulty_channel *channel, struct bdev_io *io, struct base_io *base,
			  const struct filter_rule *rule)
{
	struct faulty *self = channel->self;
	bool data = io->type == IO_TYPE_READ || io->type == IO_TYPE_WRITE;

	if (rule->effect == FILTER_CORRUPT && data && !prepare_corruption(channel, base, rule))
		return false;
	if (changes_data(io->type))
		versions_write(&self->versions, io_offset(channel, io), io_bytes(channel, io), io->iov, io->iov_count);
	base_submit(channel, base, rule->effect == FILTER_SWAP && data ? pick_other_range(channel, io) : io->block_index,
		    bdev_io_dispatch_tick(io));
	return true;
}

/* Apply an effect that does not use the base, or not yet. False: the caller must submit to the base. */
static bool apply_without_base(struct faulty_channel *channel, struct bdev_io *io, const struct filter_rule *rule)
{
	struct faulty *self = channel->self;
	bool alone = rule->effect == FILTER_FAIL || rule->effect == FILTER_PENDING || rule->effect == FILTER_DELAY ||
		     (rule->effect == FILTER_DROP && changes_data(io->type)) ||
		     (rule->effect == FILTER_STALE && io->type == IO_TYPE_READ);

	if (!alone)
		return false;
	if (changes_data(io->type) && rule->effect != FILTER_FAIL && rule->effect != FILTER_PENDING)
		versions_write(&self->versions, io_offset(channel, io), io_bytes(channel, io), io->iov, io->iov_count);
	switch (rule->effect) {
	case FILTER_FAIL:
		end_io(io, rule->status);
		break;
	case FILTER_PENDING:
		hold_io(channel, io);
		break;
	case FILTER_DELAY:
		delay_io(channel, io, rule->delay_ns);
		break;
	case FILTER_STALE:
		versions_read_before(&self->versions, io_offset(channel, io), io->iov, io->iov_count);
		end_io(io, IO_SUCCESS);
		break;
	case FILTER_DROP:
		end_io(io, IO_SUCCESS);
		break;
	default:
		must(!"not alone");
	}
	return true;
}

static int faulty_submit(void *channel_ctx, struct bdev_io *io)
{
	struct faulty_channel *channel = channel_ctx;
	struct filter_rule rule;
	struct base_io *base;

	if (io->type == IO_TYPE_RESET) {
		reset_channel(channel, base_init(channel, reset_io(channel), io));
		return 0;
	}
	if (STAILQ_EMPTY(&channel->pool_free))
		return -EAGAIN; /* must come before rules_choose(), which counts a use of the rule */
	rule = rules_choose(&channel->self->rules, io->type);
	if (rule.effect != FILTER_NONE)
		probe_filter_fault(bdev_io_dispatch_tick(io), io, rule.effect, io->block_index);
	if (rule.effect == FILTER_REFUSE)
		return -EAGAIN;
	if (apply_without_base(channel, io, &rule))
		return 0;
	base = base_get(channel, io);
	must(base);
	if (!apply_at_base(channel, io, base, &rule))
		base_done(&base->io, IO_FAILED);
	return 0;
}

/* ---- as a backend ---- */

static bool faulty_supports(const struct bdev *bdev, enum io_type type)
{
	const struct faulty *self = container_of(bdev, struct faulty, bdev);

	return bdev_supports(bdev_desc_bdev(self->base_desc), type);
}

static int faulty_channel_create(struct bdev *bdev, void *channel_ctx)
{
	const struct trace_pool_spec spec = { .type = TRACE_OBJECT_BDEV_IO,
					      .stride = sizeof(struct base_io),
					      .count = BASE_IOS };
	struct faulty *self = container_of(bdev, struct faulty, bdev);
	struct faulty_channel *channel = channel_ctx;

	channel->self = self;
	STAILQ_INIT(&channel->pool_free);
	TAILQ_INIT(&channel->pending);
	TAILQ_INIT(&channel->delayed);
	channel->base = bdev_channel_get(self->base_desc);
	if (!channel->base)
		return -errno;
	channel->delay_poller = poller_register("filter_delay", delay_poll, channel, DELAY_POLL_US * NS_PER_US);
	if (!channel->delay_poller) {
		bdev_channel_put(channel->base);
		return -ENOMEM;
	}
	poller_pause(channel->delay_poller);
	channel->pool = trace_pool_create(&spec);
	for (int i = 0; i < BASE_IOS - 1; i++)
		STAILQ_INSERT_TAIL(&channel->pool_free, &channel->pool[i], free);
	return 0;
}

static void faulty_channel_destroy(struct bdev *bdev, void *channel_ctx)
{
	struct faulty_channel *channel = channel_ctx;

	must(TAILQ_EMPTY(&channel->pending));
	must(TAILQ_EMPTY(&channel->delayed));
	for (int i = 0; i < BASE_IOS; i++)
		must(!channel->pool[i].upper);
	poller_unregister(&channel->delay_poller);
	bdev_channel_put(channel->base);
	trace_pool_destroy(channel->pool);
}

static void faulty_destroy(struct bdev *bdev)
{
	struct faulty *self = container_of(bdev, struct faulty, bdev);

	if (self->base_desc) {
		bdev_release(bdev_desc_bdev(self->base_desc));
		bdev_close(self->base_desc);
	}
	rules_deinit(&self->rules);
	versions_deinit(&self->versions);
	free(self);
}

/* The name of a filter without a configured name. */
static void default_name(char name[NAME_ROOM_BYTES], const char *base_name)
{
	snprintf(name, NAME_ROOM_BYTES, "EE_%s", base_name);
}

/*
 * Rules are not part of the configuration: they are a test's momentary actions. Parameters unknown to SPDK are written only
 * if they were set, so that SPDK can load all other configurations.
 */
static void faulty_describe_config(const struct bdev *bdev, const struct bdev_visitor *visitor)
{
	const struct faulty *self = container_of(bdev, struct faulty, bdev);
	const char *base_name = bdev_desc_bdev(self->base_desc)->name;
	char name[NAME_ROOM_BYTES], uuid[UUID_STR_LEN];

	uuid_unparse_lower(bdev->uuid, uuid);
	default_name(name, base_name);
	visitor->string(visitor->ctx, "base_name", base_name);
	visitor->string(visitor->ctx, "uuid", uuid);
	if (strcmp(bdev->name, name) != 0)
		visitor->string(visitor->ctx, "name", bdev->name);
	if (self->seed != 0)
		visitor->number(visitor->ctx, "seed", self->seed);
	if (self->versions.latest)
		visitor->boolean(visitor->ctx, "keep_versions", true);
}

static void faulty_describe_driver(const struct bdev *bdev, const struct bdev_visitor *visitor)
{
	const struct faulty *self = container_of(bdev, struct faulty, bdev);

	visitor->string(visitor->ctx, "name", bdev->name);
	visitor->string(visitor->ctx, "base_bdev", bdev_desc_bdev(self->base_desc)->name);
}

static const struct bdev_ops faulty_ops = {
	.submit = faulty_submit,
	.supports = faulty_supports,
	.channel_create = faulty_channel_create,
	.channel_destroy = faulty_channel_destroy,
	.channel_ctx_bytes = sizeof(struct faulty_channel),
	.destroy = faulty_destroy,
	.kind = "error",
	.create_method = "bdev_error_create",
	.describe_config = faulty_describe_config,
	.driver = "error_disk",
	.describe_driver = faulty_describe_driver,
};

/* ---- public functions ---- */

static void base_removed(void *ctx)
{
	struct faulty *self = ctx;

	int rc = bdev_unregister(&self->bdev, NULL, NULL);

	must(rc == 0 || rc == -EBUSY); /* -EBUSY: its removal is in progress */
}

static int claim_base(struct faulty *self, const char *base_name, struct fathom_fault *why)
{
	struct bdev_desc *desc;
	int rc;

	must(!self->base_desc);
	rc = bdev_open(base_name, base_removed, self, &desc);
	if (rc == -ENOMEM)
		return fault(why, rc, "out of memory: cannot open \"%s\" for a filter", base_name);
	if (rc < 0)
		return fault(why, rc, "there is no block device \"%s\" to put a filter on", base_name);
	rc = bdev_claim(bdev_desc_bdev(desc));
	if (rc < 0) {
		bdev_close(desc);
		return fault(why, rc, "block device \"%s\" is in use", base_name);
	}
	self->base_desc = desc;
	return 0;
}

static void copy_geometry(struct bdev *bdev, const struct bdev *base)
{
	must(base->claimed);
	bdev->block_bytes = base->block_bytes;
	bdev->physical_block_bytes = base->physical_block_bytes;
	bdev->block_count = base->block_count;
	bdev->write_cache = base->write_cache;
	bdev->read_only = base->read_only;
}

int filter_create(const struct filter_options *options, struct fathom_fault *why)
{
	struct faulty *self = calloc(1, sizeof(*self));
	struct bdev *bdev;
	char name[NAME_ROOM_BYTES];
	int rc;

	if (!self)
		return fault(why, -ENOMEM, "out of memory for a filter");
	bdev = &self->bdev;
	self->seed = options->seed;
	rules_init(&self->rules, options->seed);
	default_name(name, options->base_name);
	rc = text_copy(bdev->name, sizeof(bdev->name), options->name ? options->name : name);
	if (rc < 0)
		rc = fault(why, -EINVAL, "the name of the filter on \"%.40s...\" is too long", options->base_name);
	bdev->product = "Error Injection Disk";
	bdev->ops = &faulty_ops;
	memcpy(bdev->uuid, options->uuid, sizeof(bdev->uuid));
	if (rc == 0)
		rc = claim_base(self, options->base_name, why);
	if (rc == 0)
		copy_geometry(bdev, bdev_desc_bdev(self->base_desc));
	if (rc == 0 && options->keep_versions) {
		rc = versions_init(&self->versions, bdev->block_count * bdev->block_bytes);
		if (rc < 0)
			rc = fault(why, rc, "no address space for the versions of \"%s\"", options->base_name);
	}
	if (rc == 0)
		rc = bdev_register(bdev, why);
	if (rc < 0)
		faulty_destroy(bdev);
	return rc;
}

static struct faulty *find_filter(const char *name)
{
	struct bdev *bdev = bdev_find(name);

	return bdev && bdev->ops == &faulty_ops ? container_of(bdev, struct faulty, bdev) : NULL;
}

int filter_delete(const char *name, void (*done)(void *ctx), void *ctx)
{
	struct faulty *self = find_filter(name);

	return self ? bdev_unregister(&self->bdev, done, ctx) : -ENODEV;
}

int filter_inject(const char *name, const struct filter_rule *rule, struct fathom_fault *why)
{
	struct faulty *self = find_filter(name);
	int rc;

	if (!self)
		return fault(why, -ENODEV, "there is no filter \"%s\"", name);
	if (rule->effect == FILTER_NONE || rule->types == 0 || (rule->effect == FILTER_FAIL && rule->status == IO_SUCCESS))
		return fault(why, -EINVAL, "a rule for \"%s\" that does nothing", name);
	if (rule->effect == FILTER_STALE && !self->versions.latest)
		return fault(why, -EINVAL, "\"%s\" keeps no versions, so it cannot read stale ones", name);
	rc = rules_add(&self->rules, rule);
	return rc < 0 ? fault(why, rc, "\"%s\" has %d rules already", name, FILTER_RULES_MAX) : 0;
}

int filter_clear(const char *name, uint32_t types)
{
	struct faulty *self = find_filter(name);

	if (!self)
		return -ENODEV;
	rules_clear(&self->rules, types);
	return 0;
}

int filter_counts(const char *name, uint64_t counts[FILTER_EFFECTS_MAX])
{
	struct faulty *self = find_filter(name);

	if (!self)
		return -ENODEV;
	rules_counts(&self->rules, counts);
	return 0;
}
