/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events about block devices of an engine under a server: devices added and removed, and medium errors.
 *
 * Once a second a check compares the list of devices and their statistics, which count each error anyway. So the I/O path
 * has no code for it, and a device with a million errors raises one event a minute. A device added and removed between two
 * checks raises none.
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
	CHECK_SEC = 1,
	REPORT_SEC = 60,       /* interval between events about a device's errors */
	NAME_SHOWN_BYTES = 64, /* of a device, in an event */
};

struct device {
	uint8_t uuid[16];
	char name[NAME_SHOWN_BYTES];
	uint64_t media_errors, gone_errors; /* the statistics' values at the last check */
	uint64_t media_unreported;
	uint64_t reported_ns; /* 0: never */
	bool is_seen, is_gone;
	TAILQ_ENTRY(device) link;
	LIST_ENTRY(device) by_uuid;
};

/* Also by the last two bytes of the UUID: an engine may have 10,000 devices. */
static TAILQ_HEAD(, device) devices = TAILQ_HEAD_INITIALIZER(devices);
static LIST_HEAD(, device) devices_by_uuid[UUID_BUCKETS];
static struct poller *poller;

static struct device *device_find(const struct bdev *bdev)
{
	struct device *device;

	LIST_FOREACH (device, &devices_by_uuid[uuid_bucket(bdev->uuid)], by_uuid) {
		if (uuid_compare(device->uuid, bdev->uuid) == 0)
			return device;
	}
	return NULL;
}

static void raise_device_event(const struct device *device, enum ras_id id, const char *what, uint64_t count)
{
	char uuid[UUID_STR_LEN];

	uuid_unparse_lower(device->uuid, uuid);
	if (count)
		engine_raise_event(id, uuid, "device %s: %llu I/Os failed: %s", device->name, (unsigned long long)count,
				   what);
	else
		engine_raise_event(id, uuid, "device %s %s", device->name, what);
}

static struct device *device_add(const struct bdev *bdev, bool is_reported)
{
	struct device *device = calloc(1, sizeof(*device));

	if (!device)
		return NULL; /* the next check tries again */
	uuid_copy(device->uuid, bdev->uuid);
	(void)text_copy(device->name, sizeof(device->name), bdev->name); /* truncated if too long */
	TAILQ_INSERT_TAIL(&devices, device, link);
	LIST_INSERT_HEAD(&devices_by_uuid[uuid_bucket(device->uuid)], device, by_uuid);
	if (is_reported)
		raise_device_event(device, RAS_DEVICE_PLUGGED, "was added", 0);
	return device;
}

static void device_remove(struct device *device)
{
	TAILQ_REMOVE(&devices, device, link);
	LIST_REMOVE(device, by_uuid);
	free(device);
}

/* The increase since `*before`. A value below it means that the statistics were reset. */
static uint64_t count_increase(uint64_t now, uint64_t *before)
{
	uint64_t more = now >= *before ? now - *before : now;

	*before = now;
	return more;
}

static void check_device(struct device *device, struct bdev *bdev, uint64_t now_ns)
{
	struct bdev_stats stats;
	uint64_t gone;

	bdev_stats_get(bdev, STATS_RESET_NONE, &stats);
	device->media_unreported += count_increase(stats.errors[IO_MEDIA_ERROR], &device->media_errors);
	gone = count_increase(stats.errors[IO_GONE], &device->gone_errors);
	if (device->media_unreported &&
	    (device->reported_ns == 0 || now_ns - device->reported_ns >= REPORT_SEC * NS_PER_SEC)) {
		raise_device_event(device, RAS_DEVICE_MEDIA_ERROR, "the medium has errors", device->media_unreported);
		device->media_unreported = 0;
		device->reported_ns = now_ns;
	}
	if (gone && !device->is_gone) {
		raise_device_event(device, RAS_DEVICE_UNPLUGGED, "the device is gone", gone);
		device->is_gone = true;
	}
}

static void check_devices(bool report_new)
{
	uint64_t now_ns = clock_monotonic_ns();
	struct device *device, *next;
	struct bdev *bdev;

	TAILQ_FOREACH (device, &devices, link)
		device->is_seen = false;
	for (bdev = bdev_first(); bdev; bdev = bdev_next(bdev)) {
		device = device_find(bdev);
		if (!device)
			device = device_add(bdev, report_new);
		if (!device)
			continue;
		(void)text_copy(device->name, sizeof(device->name), bdev->name); /* a volume may have been renamed */
		device->is_seen = true;
		check_device(device, bdev, now_ns);
	}
	TAILQ_FOREACH_SAFE (device, &devices, link, next) {
		if (device->is_seen)
			continue;
		raise_device_event(device, RAS_DEVICE_UNPLUGGED, "was removed", 0);
		device_remove(device);
	}
}

static int poll_devices(void *ctx)
{
	check_devices(true);
	return 0;
}

void devices_watch(void)
{
	must(!poller);
	check_devices(false);
	poller = poller_register("engine_devices", poll_devices, NULL, CHECK_SEC * NS_PER_SEC);
	if (!poller)
		log_warning("out of memory: no events about block devices");
}

void devices_unwatch(void)
{
	struct device *device;

	if (poller)
		check_devices(true); /* raise events of the last second */
	poller_unregister(&poller);
	while ((device = TAILQ_FIRST(&devices)))
		device_remove(device);
}
