/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * channel - a thread's access to a bdev, on top of the reactor's channels: their context is our struct, followed by the
 * backend's.
 *
 * The first I/O that is split makes the channel's children (in the trace file) and buffers, which stay until its end; other
 * I/O allocates nothing. Most channels are idle, and children are most of their memory. Buffers are address space only
 * until first use.
 */
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>

#include "data/store/bdev/internal.h"

static size_t backend_offset(void)
{
	return round_up(sizeof(struct bdev_channel), CACHE_LINE_BYTES);
}

size_t channel_bytes(const struct bdev *bdev)
{
	return backend_offset() + bdev->ops->channel_ctx_bytes;
}

/* ---- supported I/O types ---- */

static uint8_t native_types(const struct bdev *bdev)
{
	uint8_t native = 0;

	for (enum io_type type = 0; type < IO_TYPES_MAX; type++)
		native |= bdev->ops->supports(bdev, type) ? (uint8_t)BIT(type) : 0;
	return native;
}

static uint8_t able_types(const struct bdev *bdev, uint8_t native)
{
	uint8_t able = native | BIT(IO_TYPE_RESET);

	if (native & BIT(IO_TYPE_READ))
		able |= BIT(IO_TYPE_COMPARE);
	if (native & BIT(IO_TYPE_WRITE))
		able |= BIT(IO_TYPE_WRITE_ZEROES);
	if (!bdev->write_cache)
		able |= BIT(IO_TYPE_FLUSH);
	if (bdev_is_read_only(bdev))
		able &= (uint8_t) ~(BIT(IO_TYPE_WRITE) | BIT(IO_TYPE_WRITE_ZEROES) | BIT(IO_TYPE_UNMAP));
	return able;
}

bool bdev_supports(const struct bdev *bdev, enum io_type type)
{
	must(type < IO_TYPES_MAX);
	return able_types(bdev, native_types(bdev)) & BIT(type);
}

/* ---- the retry poller ---- */

void channel_retry_soon(struct bdev_channel *ch)
{
	must_be_on(ch->thread);
	must(!STAILQ_EMPTY(&ch->queue));
	if (ch->retry_armed)
		return;
	ch->retry_armed = true;
	poller_resume(ch->retry);
}

static int retry_poll(void *ctx)
{
	struct bdev_channel *ch = ctx;
	uint64_t before = ch->queued;

	must(ch->retry_armed);
	must(ch->nesting == 0);
	ch->retry_armed = false;
	poller_pause(ch->retry);
	if (!STAILQ_EMPTY(&ch->queue))
		queue_drain(ch, reactor_now());
	return ch->queued < before;
}

/* ---- creation and destruction ---- */

int channel_make_children(struct bdev_channel *ch)
{
	const struct trace_pool_spec spec = {
		.type = TRACE_OBJECT_BDEV_IO,
		.story_offset = offsetof(struct bdev_child, io.story),
		.stride = sizeof(struct bdev_child),
		.count = CHILDREN_PER_CHANNEL,
	};
	void *memory = mmap(NULL, (size_t)BUFFERS_PER_CHANNEL * BUFFER_BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	must_be_on(ch->thread);
	must(!ch->children && ch->may_split);
	if (memory == MAP_FAILED)
		return -ENOMEM;
	ch->buffers = memory;
	ch->buffers_free = (uint32_t)(BIT(BUFFERS_PER_CHANNEL) - 1);
	ch->children = trace_pool_create(&spec);
	for (int i = 0; i < CHILDREN_PER_CHANNEL; i++)
		STAILQ_INSERT_TAIL(&ch->children_free, &ch->children[i].io, link);
	return 0;
}

static void children_destroy(struct bdev_channel *ch)
{
	must(ch->buffers_free == (ch->buffers ? (uint32_t)(BIT(BUFFERS_PER_CHANNEL) - 1) : 0)); /* all are returned */
	if (ch->buffers)
		must(munmap(ch->buffers, (size_t)BUFFERS_PER_CHANNEL * BUFFER_BYTES) == 0);
	trace_pool_destroy(ch->children);
}

static void channel_destroy_parts(struct bdev_channel *ch)
{
	hold_channel_destroyed(ch);
	track_channel_destroyed(ch);
	if (ch->bdev->ops->channel_destroy)
		ch->bdev->ops->channel_destroy(ch->bdev, ch->backend_ctx);
	poller_unregister(&ch->retry);
	children_destroy(ch);
	stats_channel_remove(ch);
}

int channel_create(void *device, void *ctx)
{
	struct bdev *bdev = device;
	struct bdev_channel *ch = ctx;
	int rc = 0;

	must((uintptr_t)ctx % CACHE_LINE_BYTES == 0);
	ch->bdev = bdev;
	ch->submit = bdev->ops->submit;
	ch->backend_ctx = (uint8_t *)ctx + backend_offset();
	ch->name = bdev_name_istr(bdev);
	ch->owner = bdev->trace.owner;
	ch->block_count = bdev_block_count(bdev);
	ch->block_bytes = bdev->block_bytes;
	ch->native = native_types(bdev);
	ch->able = able_types(bdev, ch->native);
	ch->has_limits = bdev_has_limits(bdev);
	ch->thread = thread_self();
	STAILQ_INIT(&ch->queue);
	STAILQ_INIT(&ch->resets);
	STAILQ_INIT(&ch->waiting);
	STAILQ_INIT(&ch->children_free);
	ch->retry = poller_register("bdev_retry", retry_poll, ch, RETRY_US * NS_PER_US);
	if (!ch->retry)
		return -ENOMEM;
	poller_pause(ch->retry);
	ch->may_split = split_possible(bdev, ch->native);
	if (bdev->ops->channel_create)
		rc = bdev->ops->channel_create(bdev, ch->backend_ctx);
	must(rc <= 0);
	if (rc < 0) {
		poller_unregister(&ch->retry);
		return rc;
	}
	stats_channel_add(ch);
	rc = hold_channel_created(ch);
	if (rc == 0)
		rc = track_channel_created(ch);
	if (rc < 0) {
		channel_destroy_parts(ch);
		return rc;
	}
	probe_bdev_channel_create(reactor_now(), bdev, ch->name);
	return 0;
}

void channel_destroy(void *device, void *ctx)
{
	struct bdev *bdev = device;
	struct bdev_channel *ch = ctx;

	must_be_on(ch->thread);
	must(ch->bdev == bdev);
	must(ch->queue_depth == 0);
	must(ch->in_flight == 0);
	must(ch->nesting == 0);
	must(!ch->reset);
	must(STAILQ_EMPTY(&ch->queue));
	must(STAILQ_EMPTY(&ch->waiting));
	must(STAILQ_EMPTY(&ch->resets));
	must(!ch->waking);
	channel_destroy_parts(ch);
	probe_bdev_channel_destroy(reactor_now(), bdev, ch->name);
}

struct bdev_channel *bdev_channel_get(struct bdev_desc *desc)
{
	struct channel *channel;

	must(desc);
	channel = channel_get(desc->bdev);
	return channel ? channel_ctx(channel) : NULL;
}

void bdev_channel_put(struct bdev_channel *channel)
{
	must_be_on(channel->thread);
	channel_put(channel_from_ctx(channel));
}

struct bdev *bdev_channel_bdev(const struct bdev_channel *channel)
{
	return channel->bdev;
}

uint32_t bdev_channel_queue_depth(const struct bdev_channel *channel)
{
	return (uint32_t)channel->queue_depth;
}

/* ---- zeroes ---- */

static void *zeroes; /* set once, under the mutex */
static pthread_mutex_t zeroes_mutex = PTHREAD_MUTEX_INITIALIZER;

/* A private anonymous mapping that is only read maps the kernel's single zero page everywhere, which stays in the cache. */
int zeroes_map(void)
{
	void *memory;
	int rc = 0;

	must(pthread_mutex_lock(&zeroes_mutex) == 0);
	if (!zeroes) {
		memory = mmap(NULL, BDEV_ZEROES_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (memory == MAP_FAILED) {
			rc = -ENOMEM;
		} else {
			/* a huge zero page would occupy 2 MiB of cache; failure only costs speed */
			(void)madvise(memory, BDEV_ZEROES_BYTES, MADV_NOHUGEPAGE);
			__atomic_store_n(&zeroes, memory, __ATOMIC_RELEASE);
		}
	}
	must(pthread_mutex_unlock(&zeroes_mutex) == 0);
	return rc;
}

void *bdev_zeroes(void)
{
	void *memory = __atomic_load_n(&zeroes, __ATOMIC_ACQUIRE);

	if (likely(memory != NULL))
		return memory;
	must(zeroes_map() == 0); /* reached only before the first bdev_register() */
	return zeroes;
}
