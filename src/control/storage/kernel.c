/* SPDX-License-Identifier: BSD-2-Clause */
/* What the kernel knows of a device's health: files of sysfs, which need no privilege. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "control/storage/health.h"
#include "control/storage/storage.h"

enum { MILLI = 1000, ZERO_CELSIUS_MILLI_K = 273150, GIGA_IN_MEGA = 1000, LINK_WIDTH_MAX = 32 };

/* The text of a file in the device's folder; "": there is none. */
static void read_attribute(struct provider *provider, const char *folder, const char *file, char *to, size_t bytes)
{
	char path[PROVIDER_PATH_BYTES_MAX];

	must(bytes > 0);
	if (snprintf(path, sizeof(path), "%s/%s", folder, file) >= (int)sizeof(path) ||
	    provider_read_text(provider, path, to, bytes) != 0)
		to[0] = '\0';
}

/* The SCSI layer writes its counters with 0x. */
static uint64_t read_counter(struct provider *provider, const char *folder, const char *file)
{
	char text[32];

	read_attribute(provider, folder, file, text, sizeof(text));
	return strtoull(text, NULL, 0);
}

/* "8.0 GT/s PCIe" in millions; 0: unknown. */
static uint32_t read_speed(struct provider *provider, const char *folder, const char *file)
{
	char text[64];
	double speed;

	read_attribute(provider, folder, file, text, sizeof(text));
	speed = strtod(text, NULL);
	return speed > 0 && speed < MILLI ? (uint32_t)(speed * GIGA_IN_MEGA) : 0;
}

/* The kernel reports 255 lanes for a link that it does not know. */
static uint32_t read_width(struct provider *provider, const char *folder, const char *file)
{
	uint64_t width = read_counter(provider, folder, file);

	return width <= LINK_WIDTH_MAX ? (uint32_t)width : 0;
}

static int take_first(void *ctx, const char *name)
{
	return text_copy(ctx, STORAGE_NAME_BYTES_MAX, name) == 0 ? 1 : 0;
}

/* A driver of temperatures has a folder hwmonN below the device. */
static uint32_t read_temperature(struct provider *provider, const char *folder)
{
	char path[PROVIDER_PATH_BYTES_MAX], name[STORAGE_NAME_BYTES_MAX] = "";
	int64_t milli;

	if (snprintf(path, sizeof(path), "%s/hwmon", folder) >= (int)sizeof(path) ||
	    provider->calls->list(provider, path, take_first, name) < 0 || name[0] == '\0')
		return 0;
	if (snprintf(path, sizeof(path), "%s/hwmon/%s/temp1_input", folder, name) >= (int)sizeof(path) ||
	    provider_read_number(provider, path, &milli) != 0 || milli <= -ZERO_CELSIUS_MILLI_K || milli > INT32_MAX)
		return 0;
	return (uint32_t)(milli + ZERO_CELSIUS_MILLI_K) / MILLI;
}

void storage_kernel_read(struct provider *provider, const struct storage_device *device,
			 struct storage_kernel_health *health_ret)
{
	char folder[PROVIDER_PATH_BYTES_MAX];

	*health_ret = (struct storage_kernel_health){ 0 };
	must(snprintf(folder, sizeof(folder), "/sys/block/%s/device", device->name) < (int)sizeof(folder));
	if (device->class == STORAGE_CLASS_SSD || device->class == STORAGE_CLASS_HDD) {
		health_ret->io_errors = read_counter(provider, folder, "ioerr_cnt");
		health_ret->temperature_k = read_temperature(provider, folder);
	}
	if (device->pci_address[0] == '\0' || device->class != STORAGE_CLASS_NVME)
		return;
	must(snprintf(folder, sizeof(folder), "/sys/bus/pci/devices/%s", device->pci_address) < (int)sizeof(folder));
	health_ret->link_speed_mt = read_speed(provider, folder, "current_link_speed");
	health_ret->link_speed_max_mt = read_speed(provider, folder, "max_link_speed");
	health_ret->link_width = read_width(provider, folder, "current_link_width");
	health_ret->link_width_max = read_width(provider, folder, "max_link_width");
}

/* ---- the devices below ---- */

/* A walk, at one device. */
struct below {
	struct provider *provider;
	const struct storage_scan *scan;
	storage_below_fn visit;
	void *ctx;
	unsigned int depth;
};

static void visit_stack(struct below below, const struct storage_device *device);

static int visit_slave(void *ctx, const char *name)
{
	struct below below = *(const struct below *)ctx;
	const struct storage_device *device = storage_find(below.scan, name);

	below.depth++;
	if (device && below.depth < STORAGE_STACK_MAX)
		visit_stack(below, device);
	return 0;
}

static void visit_stack(struct below below, const struct storage_device *device)
{
	char path[PROVIDER_PATH_BYTES_MAX];

	must(below.depth < STORAGE_STACK_MAX);
	if (device->parent[0])
		device = storage_find(below.scan, device->parent);
	if (!device)
		return; /* it is gone */
	below.visit(below.ctx, device);
	must(snprintf(path, sizeof(path), "/sys/block/%s/slaves", device->name) < (int)sizeof(path));
	(void)below.provider->calls->list(below.provider, path, visit_slave, &below); /* most have none */
}

void storage_visit_below(struct provider *provider, const struct storage_scan *scan, const struct storage_device *device,
			 storage_below_fn visit, void *ctx)
{
	const struct below below = { .provider = provider, .scan = scan, .visit = visit, .ctx = ctx };

	visit_stack(below, device);
}
