/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Devices and their channels: one channel per (thread, device), counted.
 *
 *   channel_get()      Return the thread's channel or create it. The device counts it first, so the device stays meanwhile.
 *   channel_put()      At the last reference, send a message to this thread, so that callers on the stack may still use it.
 *   destroy_message()  If the channel has no reference: destroy and free it. If it was the last channel of a device that is
 *                      being unregistered, send finish_unregister() to the thread that unregisters.
 *
 * The lists change under the registry's mutex; callbacks run without it. The process may have 10,000 devices, and a thread
 * channels to all of them, so both are also found by address.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/reactor/internal.h"
#include "base/reactor/probes.gen.h"

enum { ADDRESS_BUCKETS = 4096 };
static LIST_HEAD(, device) by_address[ADDRESS_BUCKETS]; /* under the mutex */

static unsigned int hash_address(const void *address)
{
	return (unsigned int)((uintptr_t)address / 64 * 2654435761U >> 16);
}

/* Under the mutex. */
static struct device *device_find(const void *address)
{
	struct device *device;

	LIST_FOREACH (device, &by_address[hash_address(address) % ADDRESS_BUCKETS], in_bucket) {
		if (device->address == address)
			return device;
	}
	return NULL;
}

void device_register(void *address, channel_create_fn create, channel_destroy_fn destroy, size_t ctx_bytes,
		     const char *name)
{
	struct device *device = calloc(1, sizeof(*device));

	must(address);
	must(create);
	must(destroy);
	must(device);
	device->address = address;
	device->create = create;
	device->destroy = destroy;
	device->ctx_bytes = ctx_bytes;
	device->name = trace_intern(name);
	registry_lock();
	must(!device_find(address));
	TAILQ_INSERT_TAIL(&registry.devices, device, in_registry);
	LIST_INSERT_HEAD(&by_address[hash_address(address) % ADDRESS_BUCKETS], device, in_bucket);
	registry_unlock();
	probe_device_registered(probe_tick(), device->name);
}

static void finish_unregister(void *ctx)
{
	struct device *device = ctx;
	void *address = device->address;
	void (*done)(void *) = device->unregister_done;

	must(thread_self()->holds > 0);
	thread_self()->holds--;
	must(device->channel_count == 0);
	probe_device_unregistered(probe_tick(), device->name);
	free(device);
	if (done)
		done(address);
}

/* Under the mutex. `device` is being unregistered and has no channel left. */
static void remove_device(struct device *device)
{
	TAILQ_REMOVE(&registry.devices, device, in_registry);
	LIST_REMOVE(device, in_bucket);
	thread_send_msg(device->unregister_thread, finish_unregister, device);
}

void device_unregister(void *address, void (*done)(void *device))
{
	struct device *device;

	must(thread_self());
	thread_self()->holds++;
	registry_lock();
	device = device_find(address);
	must(device);
	must(!device->unregistered);
	device->unregistered = true;
	device->unregister_done = done;
	device->unregister_thread = thread_self();
	if (device->channel_count == 0)
		remove_device(device);
	registry_unlock();
}

const struct trace_istr *device_name(const void *address)
{
	const struct device *device;
	const struct trace_istr *name = NULL;

	registry_lock();
	device = device_find(address);
	if (device)
		name = device->name;
	registry_unlock();
	return name ? name : trace_intern("(none)");
}

struct channel *channel_find(struct fathom_thread *thread, const void *address)
{
	struct channel *channel;

	LIST_FOREACH (channel, &thread->channels_by_address[hash_address(address) % CHANNEL_BUCKETS], in_bucket) {
		if (channel->device->address == address)
			return channel;
	}
	return NULL;
}

void channel_ref(struct channel *channel)
{
	counter_add(&channel->ref_count, 1);
}

/* Find the device and count a channel that the caller will create. NULL: no such device. */
static struct device *device_count_channel(const void *address)
{
	struct device *device;

	registry_lock();
	device = device_find(address);
	if (device && device->unregistered)
		device = NULL;
	if (device)
		device->channel_count++;
	registry_unlock();
	return device;
}

/* Undo the count, and unlink `channel` (NULL: creating it failed). */
static void device_uncount_channel(struct device *device, struct channel *channel)
{
	registry_lock();
	if (channel) {
		TAILQ_REMOVE(&channel->thread->channels, channel, in_thread);
		LIST_REMOVE(channel, in_bucket);
		channel->thread->channel_count--;
	}
	must(device->channel_count > 0);
	if (--device->channel_count == 0 && device->unregistered)
		remove_device(device);
	registry_unlock();
}

static struct channel *channel_create(struct device *device, struct fathom_thread *thread, int *rc_ret)
{
	size_t bytes = round_up(sizeof(struct channel) + device->ctx_bytes, CACHE_LINE_BYTES);
	struct channel *channel = aligned_alloc(CACHE_LINE_BYTES, bytes);

	if (!channel) {
		*rc_ret = -ENOMEM;
		return NULL;
	}
	memset(channel, 0, bytes);
	channel->device = device;
	channel->thread = thread;
	*rc_ret = device->create(device->address, channel->ctx);
	if (*rc_ret == 0)
		return channel;
	free(channel);
	return NULL;
}

struct channel *channel_get(void *address)
{
	struct fathom_thread *thread = thread_self();
	struct channel *channel;

	must(thread);
	channel = channel_find(thread, address);
	if (!channel) {
		struct device *device = device_count_channel(address);
		int rc = -ENODEV;

		if (device)
			channel = channel_create(device, thread, &rc);
		if (!channel) {
			if (device)
				device_uncount_channel(device, NULL);
			errno = -rc;
			return NULL;
		}
		must(!channel_find(thread, address));
		registry_lock();
		TAILQ_INSERT_TAIL(&thread->channels, channel, in_thread);
		LIST_INSERT_HEAD(&thread->channels_by_address[hash_address(address) % CHANNEL_BUCKETS], channel, in_bucket);
		thread->channel_count++;
		registry_unlock();
	}
	channel_ref(channel);
	probe_channel_get(probe_tick(), thread, channel->device->name, (uint32_t)counter_read(&channel->ref_count));
	return channel;
}

static void destroy_message(void *ctx)
{
	struct channel *channel = ctx;
	struct device *device = channel->device;

	must(channel->destroy_messages > 0);
	/* The channel was got again; or got and put again, and then a later message destroys it. */
	if (--channel->destroy_messages > 0 || counter_read(&channel->ref_count) > 0)
		return;
	probe_channel_destroyed(probe_tick(), channel->thread, device->name);
	device->destroy(device->address, channel->ctx);
	must(counter_read(&channel->ref_count) == 0);
	device_uncount_channel(device, channel);
	free(channel);
}

void channel_put(struct channel *channel)
{
	uint64_t ref_count = counter_read(&channel->ref_count);

	must_be_on(channel->thread);
	must(ref_count > 0);
	counter_set(&channel->ref_count, --ref_count);
	probe_channel_put(probe_tick(), channel->thread, channel->device->name, (uint32_t)ref_count);
	if (ref_count == 0) {
		channel->destroy_messages++;
		thread_send_msg(channel->thread, destroy_message, channel);
	}
}

void *channel_ctx(struct channel *channel)
{
	return channel->ctx;
}

struct channel *channel_from_ctx(void *ctx)
{
	return container_of(ctx, struct channel, ctx);
}

struct fathom_thread *channel_thread(const struct channel *channel)
{
	return channel->thread;
}

void devices_free(void)
{
	struct device *device, *next;

	TAILQ_FOREACH_SAFE (device, &registry.devices, in_registry, next) {
		must(device->channel_count == 0);
		log_warning("device %s was never unregistered", device->name->text);
		free(device);
	}
	TAILQ_INIT(&registry.devices);
	memset(by_address, 0, sizeof(by_address));
}
