/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What becomes of block devices while the engine is under a server: those that come and go, and those whose medium fails.
 *
 * Nobody tells; once a second the devices are looked at, and their statistics, which count each error anyway. So the way of
 * an I/O has nothing for it, and a device that fails a million times is told about once a minute. What comes and goes
 * between two looks is not told.
 */
#include <stdlib.h>
#include <uuid/uuid.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/text.h"
#include "data/engine/control.h"
#include "base/reactor/reactor.h"
#include "data/store/bdev/bdev.h"

enum {
	LOOK_SEC = 1,
	TELL_SEC = 60,	       /* from one event of a device's errors to the next */
	NAME_SHOWN_BYTES = 64, /* of a device, in an event */
};

struct device {
	uint8_t uuid[16];
	char name[NAME_SHOWN_BYTES];
	uint64_t media_errors, gone_errors; /* as the statistics had them */
	uint64_t media_untold;
	uint64_t told_ns; /* 0: never */
	bool is_seen, is_gone;
	TAILQ_ENTRY(device) link;
};

static TAILQ_HEAD(, device) devices = TAILQ_HEAD_INITIALIZER(devices);
static struct poller *poller;

static struct device *device_find(const struct bdev *bdev)
{
	struct device *device;

	TAILQ_FOREACH (device, &devices, link) {
		if (uuid_compare(device->uuid, bdev->uuid) == 0)
			return device;
	}
	return NULL;
}

static void raise(const struct device *device, enum ras_id id, const char *what, uint64_t count)
{
	char uuid[UUID_STR_LEN];

	uuid_unparse_lower(device->uuid, uuid);
	if (count)
		engine_raise_event(id, uuid, "device %s: %llu I/Os failed: %s", device->name, (unsigned long long)count,
				   what);
	else
		engine_raise_event(id, uuid, "device %s %s", device->name, what);
}

static struct device *device_add(const struct bdev *bdev, bool is_told)
{
	struct device *device = calloc(1, sizeof(*device));

	if (!device)
		return NULL; /* the next look finds it again */
	uuid_copy(device->uuid, bdev->uuid);
	(void)text_copy(device->name, sizeof(device->name), bdev->name); /* cut where it is long */
	TAILQ_INSERT_TAIL(&devices, device, link);
	if (is_told)
		raise(device, RAS_DEVICE_PLUGGED, "has come", 0);
	return device;
}

static void device_remove(struct device *device)
{
	TAILQ_REMOVE(&devices, device, link);
	free(device);
}

/* How many have come since `*before`; the statistics may have been set to 0 meanwhile. */
static uint64_t count_more(uint64_t now, uint64_t *before)
{
	uint64_t more = now >= *before ? now - *before : now;

	*before = now;
	return more;
}

static void look_at(struct device *device, struct bdev *bdev, uint64_t now_ns)
{
	struct bdev_stats stats;
	uint64_t gone;

	bdev_stats_get(bdev, STATS_RESET_NONE, &stats);
	device->media_untold += count_more(stats.errors[IO_MEDIA_ERROR], &device->media_errors);
	gone = count_more(stats.errors[IO_GONE], &device->gone_errors);
	if (device->media_untold && (device->told_ns == 0 || now_ns - device->told_ns >= TELL_SEC * NS_PER_SEC)) {
		raise(device, RAS_DEVICE_MEDIA_ERROR, "the medium has errors", device->media_untold);
		device->media_untold = 0;
		device->told_ns = now_ns;
	}
	if (gone && !device->is_gone) {
		raise(device, RAS_DEVICE_UNPLUGGED, "the device has gone", gone);
		device->is_gone = true;
	}
}

static void look(bool are_new_told)
{
	uint64_t now_ns = clock_monotonic_ns();
	struct device *device, *next;
	struct bdev *bdev;

	TAILQ_FOREACH (device, &devices, link)
		device->is_seen = false;
	for (bdev = bdev_first(); bdev; bdev = bdev_next(bdev)) {
		device = device_find(bdev);
		if (!device)
			device = device_add(bdev, are_new_told);
		if (!device)
			continue;
		device->is_seen = true;
		look_at(device, bdev, now_ns);
	}
	TAILQ_FOREACH_SAFE (device, &devices, link, next) {
		if (device->is_seen)
			continue;
		raise(device, RAS_DEVICE_UNPLUGGED, "was taken away", 0);
		device_remove(device);
	}
}

static int look_again(void *ctx)
{
	look(true);
	return 0;
}

void devices_watch(void)
{
	must(!poller);
	look(false);
	poller = poller_register("engine_devices", look_again, NULL, LOOK_SEC * NS_PER_SEC);
	if (!poller)
		log_warning("out of memory: block devices will have no events");
}

void devices_unwatch(void)
{
	struct device *device;

	if (poller)
		look(true); /* what the last second brought */
	poller_unregister(&poller);
	while ((device = TAILQ_FIRST(&devices)))
		device_remove(device);
}
