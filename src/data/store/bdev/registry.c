/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * registry - the list of bdevs, their descriptors, and their removal. Control thread only, but for bdev_note_condition().
 *
 * Removal: bdev_unregister() removes the name and notifies every descriptor's owner. The last bdev_close() makes the
 * reactor destroy the channels. Then no reference to the bdev is left: ops->close closes its files, which may take as long
 * as a disk hangs, and ops->destroy frees it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <uuid/uuid.h>

#include "base/text.h"
#include "data/store/bdev/internal.h"

/* All of them in the order of their registration, and by name: an engine may have 10,000 volumes. */
enum { NAME_BUCKETS = 4096 };
static TAILQ_HEAD(, bdev) bdevs = TAILQ_HEAD_INITIALIZER(bdevs);
static LIST_HEAD(, bdev) bdevs_by_name[NAME_BUCKETS];
static uint32_t reserved_count; /* bdevs with a reserved name */

struct bdev *bdev_find(const char *name)
{
	struct bdev *bdev;

	must_be_on(thread_control());
	LIST_FOREACH (bdev, &bdevs_by_name[text_hash(name) % NAME_BUCKETS], by_name) {
		if (strcmp(bdev->name, name) == 0)
			return bdev;
	}
	return NULL;
}

/* ---- registering ---- */

/* Whether a bdev has this name, or will get it. */
static bool has_name(const char *name)
{
	const struct bdev *bdev;

	if (bdev_find(name))
		return true;
	if (reserved_count == 0)
		return false;
	TAILQ_FOREACH (bdev, &bdevs, link) {
		if (bdev->reserved_name && strcmp(bdev->reserved_name->text, name) == 0)
			return true;
	}
	return false;
}

static int validate_bdev(const struct bdev *bdev, struct fathom_fault *why)
{
	size_t name_bytes = strnlen(bdev->name, BDEV_NAME_BYTES_MAX);
	uint32_t physical = bdev->physical_block_bytes, alignment = bdev->buffer_alignment;

	if (name_bytes == 0 || name_bytes == BDEV_NAME_BYTES_MAX)
		return fault(why, -EINVAL, "a block device's name has 1 to %d characters", BDEV_NAME_BYTES_MAX - 1);
	if (has_name(bdev->name))
		return fault(why, -EEXIST, "a block device named \"%s\" exists already", bdev->name);
	if (!is_power_of_two(bdev->block_bytes) || bdev->block_bytes < BDEV_BLOCK_BYTES_MIN ||
	    bdev->block_bytes > BDEV_BLOCK_BYTES_MAX)
		return fault(why, -EINVAL,
			     "block device \"%s\": its block size of %u bytes is not a power of two from %d to %d",
			     bdev->name, bdev->block_bytes, BDEV_BLOCK_BYTES_MIN, BDEV_BLOCK_BYTES_MAX);
	if (physical && (!is_power_of_two(physical) || physical < bdev->block_bytes))
		return fault(why, -EINVAL,
			     "block device \"%s\": its physical block size of %u bytes is not a power of two from its"
			     " block size, %u, on",
			     bdev->name, physical, bdev->block_bytes);
	if (bdev->block_count == 0)
		return fault(why, -EINVAL, "block device \"%s\" has no blocks", bdev->name);
	if (bdev->block_count > (uint64_t)INT64_MAX / bdev->block_bytes)
		return fault(why, -EINVAL, "block device \"%s\": %" PRIu64 " blocks of %u bytes are too many", bdev->name,
			     bdev->block_count, bdev->block_bytes);
	if (alignment > BDEV_BUFFER_ALIGNMENT_MAX || (alignment && !is_power_of_two(alignment)))
		return fault(why, -EINVAL,
			     "block device \"%s\": its buffer alignment of %u bytes is not a power of two up to %d",
			     bdev->name, alignment, BDEV_BUFFER_ALIGNMENT_MAX);
	return 0;
}

int bdev_register(struct bdev *bdev, struct fathom_fault *why)
{
	int rc;

	must_be_on(thread_control());
	must(bdev->ops);
	must(bdev->ops->submit);
	must(bdev->ops->supports);
	must(bdev->ops->destroy);
	must(bdev->ops->kind);
	must(!bdev->ops->channel_create || bdev->ops->channel_ctx_bytes > 0);
	rc = validate_bdev(bdev, why);
	if (rc < 0)
		return rc;
	rc = zeroes_map();
	if (rc < 0)
		return fault(why, rc, "no address space for the zeroes that block device \"%s\" needs", bdev->name);
	if (bdev->physical_block_bytes == 0)
		bdev->physical_block_bytes = bdev->block_bytes;
	if (bdev->buffer_alignment == 0)
		bdev->buffer_alignment = 1;
	if (uuid_is_null(bdev->uuid))
		uuid_generate(bdev->uuid);
	__atomic_store_n(&bdev->name_istr, trace_intern(bdev->name), __ATOMIC_RELAXED);
	bdev->reserved_name = NULL;
	trace_object_init(&bdev->trace, TRACE_OBJECT_BDEV);
	bdev->trace.owner = trace_owner_create(TRACE_OWNER_BDEV, reactor_now(), "%s", bdev->name);
	bdev->claimed = bdev->removing = bdev->unregistered = false;
	bdev->open_count = 0;
	TAILQ_INIT(&bdev->descriptors);
	stats_bdev_init(bdev);
	device_register(bdev, channel_create, channel_destroy, channel_bytes(bdev), bdev->name);
	TAILQ_INSERT_TAIL(&bdevs, bdev, link);
	LIST_INSERT_HEAD(&bdevs_by_name[text_hash(bdev->name) % NAME_BUCKETS], bdev, by_name);
	probe_bdev_register(reactor_now(), bdev, bdev->name_istr, bdev->block_bytes, bdev->block_count);
	return 0;
}

/* ---- removal ---- */

static TAILQ_HEAD(, bdev_going) all_going = TAILQ_HEAD_INITIALIZER(all_going);
static uint32_t going_count;
static void (*all_gone_fn)(void *ctx);
static void *all_gone_ctx;

uint32_t bdev_going_count(void)
{
	must_be_on(thread_control());
	return going_count;
}

const struct bdev_going *bdev_going_next(const struct bdev_going *going)
{
	must_be_on(thread_control());
	return going ? TAILQ_NEXT(going, link) : TAILQ_FIRST(&all_going);
}

static void notify_all_gone(void)
{
	void (*done)(void *ctx) = all_gone_fn;

	if (going_count > 0 || !done)
		return;
	all_gone_fn = NULL;
	done(all_gone_ctx);
}

void bdev_wait_gone(void (*done)(void *ctx), void *ctx)
{
	must_be_on(thread_control());
	must(!all_gone_fn);
	all_gone_fn = done;
	all_gone_ctx = ctx;
	notify_all_gone();
}

static void add_going(struct bdev_going *going, const char *name)
{
	going->name = name;
	TAILQ_INSERT_TAIL(&all_going, going, link);
	going_count++;
}

static void remove_going(struct bdev_going *going)
{
	must(going_count > 0);
	going_count--;
	TAILQ_REMOVE(&all_going, going, link);
}

void bdev_going_begin(struct bdev_going *going, const char *name)
{
	must_be_on(thread_control());
	add_going(going, name);
}

void bdev_going_end(struct bdev_going *going)
{
	must_be_on(thread_control());
	remove_going(going);
	notify_all_gone();
}

void bdev_closed(struct bdev *bdev)
{
	void (*removed)(void *ctx) = bdev->removed;
	void *ctx = bdev->removed_ctx;

	must_be_on(thread_control());
	must(bdev->unregistered);
	remove_going(&bdev->going);
	probe_bdev_unregister(reactor_now(), bdev, bdev->name_istr);
	trace_owner_destroy(bdev->trace.owner, reactor_now());
	bdev->ops->destroy(bdev);
	if (removed)
		removed(ctx);
	notify_all_gone();
}

static void finish_removal(void *device)
{
	struct bdev *bdev = device;

	must_be_on(thread_control());
	must(bdev->removing);
	must(bdev->unregistered);
	must(!bdev->claimed);
	must(bdev->open_count == 0);
	must(TAILQ_EMPTY(&bdev->descriptors));
	must(TAILQ_EMPTY(&bdev->channels));
	if (bdev->ops->close)
		bdev->ops->close(bdev);
	else
		bdev_closed(bdev);
}

static void remove_if_closed(struct bdev *bdev)
{
	if (!bdev->removing || bdev->unregistered || bdev->open_count > 0)
		return;
	must(TAILQ_EMPTY(&bdev->descriptors));
	bdev->unregistered = true;
	device_unregister(bdev, finish_removal);
}

static struct bdev_desc *first_unnotified(const struct bdev *bdev)
{
	struct bdev_desc *desc;

	TAILQ_FOREACH (desc, &bdev->descriptors, in_bdev) {
		if (!desc->told)
			return desc;
	}
	return NULL;
}

int bdev_unregister(struct bdev *bdev, void (*done)(void *ctx), void *ctx)
{
	struct bdev_desc *desc;

	must_be_on(thread_control());
	if (bdev->removing)
		return -EBUSY;
	add_going(&bdev->going, bdev->name);
	bdev->removing = true;
	bdev->removed = done;
	bdev->removed_ctx = ctx;
	TAILQ_REMOVE(&bdevs, bdev, link);
	LIST_REMOVE(bdev, by_name);
	if (bdev->reserved_name)
		bdev_drop_name(bdev);
	bdev->open_count++; /* `removed` may close its descriptor; the last close must not free the bdev during this loop */
	while ((desc = first_unnotified(bdev))) {
		desc->told = true;
		if (desc->removed)
			desc->removed(desc->ctx);
	}
	must(bdev->open_count > 0);
	must(!bdev->unregistered);
	bdev->open_count--;
	remove_if_closed(bdev);
	return 0;
}

/* ---- finding ---- */

struct bdev *bdev_first(void)
{
	must_be_on(thread_control());
	return TAILQ_FIRST(&bdevs);
}

struct bdev *bdev_next(const struct bdev *bdev)
{
	must_be_on(thread_control());
	must(!bdev->removing);
	return TAILQ_NEXT(bdev, link);
}

/* ---- opening ---- */

int bdev_open(const char *name, void (*removed)(void *ctx), void *ctx, struct bdev_desc **desc_ret)
{
	struct bdev *bdev = bdev_find(name);
	struct bdev_desc *desc;

	if (!bdev)
		return -ENODEV;
	desc = calloc(1, sizeof(*desc));
	if (!desc)
		return -ENOMEM;
	desc->bdev = bdev;
	desc->removed = removed;
	desc->ctx = ctx;
	TAILQ_INSERT_TAIL(&bdev->descriptors, desc, in_bdev);
	bdev->open_count++;
	probe_bdev_open(reactor_now(), bdev, bdev->name_istr);
	*desc_ret = desc;
	return 0;
}

void bdev_close(struct bdev_desc *desc)
{
	struct bdev *bdev;

	if (!desc)
		return;
	must_be_on(thread_control());
	bdev = desc->bdev;
	must(bdev->open_count > 0);
	must(!bdev->unregistered); /* an open bdev is never unregistered */
	TAILQ_REMOVE(&bdev->descriptors, desc, in_bdev);
	bdev->open_count--;
	probe_bdev_close(reactor_now(), bdev, bdev->name_istr);
	free(desc);
	remove_if_closed(bdev);
}

struct bdev *bdev_desc_bdev(const struct bdev_desc *desc)
{
	return desc->bdev;
}

/* ---- names ---- */

int bdev_reserve_name(struct bdev *bdev, const char *name, struct fathom_fault *why)
{
	must_be_on(thread_control());
	must(!bdev->reserved_name && !bdev->removing);
	if (name[0] == '\0' || strlen(name) >= BDEV_NAME_BYTES_MAX)
		return fault(why, -EINVAL, "a block device's name has 1 to %d characters", BDEV_NAME_BYTES_MAX - 1);
	if (has_name(name))
		return fault(why, -EEXIST, "there is another block device \"%s\"", name);
	bdev->reserved_name = trace_intern(name);
	reserved_count++;
	return 0;
}

void bdev_drop_name(struct bdev *bdev)
{
	must_be_on(thread_control());
	must(bdev->reserved_name);
	must(reserved_count > 0);
	bdev->reserved_name = NULL;
	reserved_count--;
}

static void rename_channel(struct channel_iter *iter, struct channel *channel, void *ctx)
{
	const struct bdev_desc *own = ctx;
	struct bdev_channel *ch = channel_ctx(channel);

	must_be_on(ch->thread);
	ch->name = bdev_name_istr(own->bdev);
	channel_iter_next(iter, 0);
}

static void finish_rename(int status, void *ctx)
{
	must(status == 0);
	bdev_close(ctx);
}

void bdev_rename(struct bdev *bdev)
{
	const struct trace_istr *name = bdev->reserved_name, *former = bdev->name_istr;
	struct bdev_desc *own; /* keeps the bdev until its channels have the new name */

	must_be_on(thread_control());
	must(name && !bdev->removing);
	bdev_drop_name(bdev);
	LIST_REMOVE(bdev, by_name);
	must(text_copy(bdev->name, sizeof(bdev->name), name->text) == 0);
	LIST_INSERT_HEAD(&bdevs_by_name[text_hash(bdev->name) % NAME_BUCKETS], bdev, by_name);
	__atomic_store_n(&bdev->name_istr, name, __ATOMIC_RELAXED);
	trace_owner_describe(bdev->trace.owner, "%s", name->text);
	probe_bdev_rename(reactor_now(), bdev, name, former);
	must(bdev_open(bdev->name, NULL, NULL, &own) == 0);
	for_each_channel(bdev, rename_channel, finish_rename, own);
}

/* ---- claims, conditions ---- */

int bdev_claim(struct bdev *bdev)
{
	must_be_on(thread_control());
	if (bdev->claimed)
		return -EPERM;
	bdev->claimed = true;
	return 0;
}

void bdev_release(struct bdev *bdev)
{
	must_be_on(thread_control());
	must(bdev->claimed);
	bdev->claimed = false;
}

void bdev_note_condition(struct bdev *bdev, enum bdev_condition condition, uint64_t value)
{
	probe_bdev_condition(reactor_now(), bdev, bdev_name_istr(bdev), condition, value);
}
