/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds the devices to watch, on a worker thread: sysfs may block. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/bits.h"
#include "control/server/health/internal.h"

/* Of the host: real devices, not volumes of a network, and nothing that comes and goes all day. */
static bool is_of_host(const struct storage_device *device)
{
	if (device->parent[0] || device->removable)
		return false;
	if (device->class == STORAGE_CLASS_NVME)
		return device->pci_address[0] != '\0';
	return device->class == STORAGE_CLASS_SSD || device->class == STORAGE_CLASS_HDD;
}

/* An engine's storage, while the devices below it are found. */
struct engine_walk {
	const struct storage_scan *scan;
	uint64_t *instances; /* of each device of the scan */
	uint64_t bit;
};

static void note_instance(void *ctx, const struct storage_device *device)
{
	const struct engine_walk *walk = ctx;
	size_t index = (size_t)(device - walk->scan->devices);

	must(index < walk->scan->count);
	walk->instances[index] |= walk->bit;
}

/* The device of the engine's configuration, or the one of its folder; NULL: not known. */
static const struct storage_device *find_storage(const struct storage_scan *scan, const struct server_storage *storage)
{
	struct stat stat_of;

	if (storage->class != SERVER_STORAGE_FILE)
		return storage->bdev_list.count ? storage_find(scan, storage->bdev_list.items[0]) : NULL;
	if (stat(storage->scm_mount, &stat_of) != 0)
		return NULL;
	for (size_t i = 0; i < scan->count; i++) {
		if (scan->devices[i].major == major(stat_of.st_dev) && scan->devices[i].minor == minor(stat_of.st_dev))
			return &scan->devices[i];
	}
	return NULL;
}

static void find_instances(struct provider *os, const struct server_config *config, const struct storage_scan *scan,
			   uint64_t *instances)
{
	static_assert(SERVER_ENGINES_MAX <= 64, "a bit for each engine");
	for (size_t i = 0; i < config->engines.count; i++) {
		const struct server_storage *storage = server_engine_storage(server_config_engine(config, i));
		const struct storage_device *device = find_storage(scan, storage);
		struct engine_walk walk = { .scan = scan, .instances = instances, .bit = BIT(i) };

		if (device)
			storage_visit_below(os, scan, device, note_instance, &walk);
	}
}

void found_devices_collect(struct provider *os, const struct server_config *config, struct found_devices *found_ret)
{
	const struct storage_scan_options options = { .without_signatures = true };
	struct storage_scan scan;
	uint64_t *instances;

	*found_ret = (struct found_devices){ 0 };
	if (storage_scan(os, &options, &scan, &found_ret->why) != 0)
		return;
	instances = calloc(scan.count + 1, sizeof(*instances));
	found_ret->devices = calloc(scan.count + 1, sizeof(*found_ret->devices));
	if (instances && found_ret->devices) {
		find_instances(os, config, &scan, instances);
	} else {
		found_ret->why.error = fault(&found_ret->why, -ENOMEM, "out of memory");
		scan.count = 0;
	}
	for (size_t i = 0; i < scan.count && found_ret->count < HEALTH_DEVICES_MAX; i++) {
		struct found_device *found = &found_ret->devices[found_ret->count];

		if (instances[i] == 0 && !is_of_host(&scan.devices[i]))
			continue;
		found->facts = scan.devices[i];
		found->instances = instances[i];
		storage_kernel_read(os, &found->facts, &found->kernel);
		found_ret->count++;
	}
	free(instances);
	storage_scan_free(&scan);
}

void found_devices_free(struct found_devices *found)
{
	free(found->devices);
	*found = (struct found_devices){ 0 };
}
