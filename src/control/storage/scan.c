/* SPDX-License-Identifier: BSD-2-Clause */
/* Scans the block devices of the host: walks through sysfs, finds their users, reads their signatures. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "control/storage/internal.h"
#include "control/storage/probes.gen.h"
#include "fathom/trace/trace.h"

enum { PROC_FILE_BYTES_MAX = 16 << 20 };

struct walk {
	struct provider *provider;
	const struct storage_scan_options *options;
	struct storage_scan scan;
	size_t room;
	char whole[STORAGE_NAME_BYTES_MAX]; /* the device whose partitions are being added */
};

static struct storage_device *reserve_device(struct walk *walk)
{
	if (walk->scan.count == walk->room) {
		size_t room = walk->room ? walk->room * 2 : 16;
		struct storage_device *grown = realloc(walk->scan.devices, room * sizeof(*grown));

		if (!grown)
			return NULL;
		walk->scan.devices = grown;
		walk->room = room;
	}
	return &walk->scan.devices[walk->scan.count];
}

/* `device_ret` NULL: the device does not exist any more, and is skipped. */
static int add_device(struct walk *walk, const char *name, const char *sys_path, struct storage_device **device_ret)
{
	struct storage_device *device;

	*device_ret = NULL;
	must(walk->scan.count <= walk->room);
	if (walk->scan.count == STORAGE_DEVICES_MAX)
		return -E2BIG;
	device = reserve_device(walk);
	if (!device)
		return -ENOMEM;
	if (storage_read_device(walk->provider, name, sys_path, device) != 0)
		return 0;
	walk->scan.count++;
	*device_ret = device;
	return 0;
}

static int visit_file(void *ctx, const char *name)
{
	struct walk *walk = ctx;
	char path[PROVIDER_PATH_BYTES_MAX], file[PROVIDER_PATH_BYTES_MAX];
	struct storage_device *whole, *partition;
	size_t whole_at = walk->scan.count;
	int64_t number;
	int error;

	if (strncmp(name, walk->whole, strlen(walk->whole)) != 0)
		return 0;
	if (snprintf(path, sizeof(path), "/sys/block/%s/%s", walk->whole, name) >= (int)sizeof(path) ||
	    snprintf(file, sizeof(file), "%s/partition", path) >= (int)sizeof(file) ||
	    provider_read_number(walk->provider, file, &number) != 0)
		return 0;
	error = add_device(walk, name, path, &partition);
	if (error || !partition)
		return error;
	do { /* add_device() may have moved the array: the whole device is the last one without a parent */
		must(whole_at > 0);
		whole = &walk->scan.devices[--whole_at];
	} while (whole->parent[0] != '\0');
	must(strcmp(whole->name, walk->whole) == 0);
	whole->partition_count++;
	memcpy(partition->parent, whole->name, sizeof(partition->parent));
	partition->class = whole->class;
	partition->rotational = whole->rotational;
	partition->numa_node = whole->numa_node;
	partition->logical_block_bytes = whole->logical_block_bytes;
	partition->physical_block_bytes = whole->physical_block_bytes;
	memcpy(partition->vendor, whole->vendor, sizeof(whole->vendor));
	memcpy(partition->model, whole->model, sizeof(whole->model));
	memcpy(partition->serial, whole->serial, sizeof(whole->serial));
	memcpy(partition->firmware, whole->firmware, sizeof(whole->firmware));
	memcpy(partition->pci_address, whole->pci_address, sizeof(whole->pci_address));
	return 0;
}

/* Skips loop devices without a file and drives without a medium (no bytes), optical drives, RAM disks, multipath paths. */
static bool is_of_interest(const struct walk *walk, const struct storage_device *device, const char *sys_path)
{
	char file[PROVIDER_PATH_BYTES_MAX];
	int64_t hidden;

	if (device->bytes == 0 || strncmp(device->name, "sr", 2) == 0 || strncmp(device->name, "ram", 3) == 0)
		return false;
	return snprintf(file, sizeof(file), "%s/hidden", sys_path) >= (int)sizeof(file) ||
	       provider_read_number(walk->provider, file, &hidden) != 0 || hidden == 0;
}

static int visit_device(void *ctx, const char *name)
{
	struct walk *walk = ctx;
	const char *only = walk->options->only;
	char path[PROVIDER_PATH_BYTES_MAX];
	struct storage_device *device;
	size_t whole_at;
	int error;

	if (only && strncmp(only, name, strlen(name)) != 0) /* a partition's name begins with its device's */
		return 0;
	if (snprintf(path, sizeof(path), "/sys/block/%s", name) >= (int)sizeof(path) ||
	    text_copy(walk->whole, sizeof(walk->whole), name) != 0)
		return 0;
	error = add_device(walk, name, path, &device);
	if (error || !device)
		return error;
	if (!is_of_interest(walk, device, path)) {
		must(walk->scan.count > 0);
		walk->scan.count--;
		return 0;
	}
	whole_at = walk->scan.count - 1;
	error = walk->provider->calls->list(walk->provider, path, visit_file, walk);
	must(whole_at < walk->scan.count);
	if (error == -ENOMEM || error == -E2BIG)
		return error;
	if (error)
		walk->scan.devices[whole_at].use_error = error; /* unknown whether it has partitions */
	return 0;
}

static void read_users(struct walk *walk, const char *path, void (*note)(struct storage_scan *scan, const char *text))
{
	char *text;
	int error = provider_read_file(walk->provider, path, PROC_FILE_BYTES_MAX, &text);

	if (error == -ENOENT && note == storage_note_swaps)
		return; /* a kernel without swap */
	for (size_t i = 0; error && i < walk->scan.count; i++)
		walk->scan.devices[i].use_error = error;
	if (error)
		return;
	note(&walk->scan, text);
	free(text);
}

static void read_signature(struct provider *provider, struct storage_device *device)
{
	int fd = provider->calls->open(provider, device->path, O_RDONLY | O_NONBLOCK, 0, true);

	device->signature_error = fd;
	if (fd < 0)
		return;
	device->signature_error = storage_read_signature(provider, fd, &device->signature);
	provider->calls->close_fd(provider, fd);
}

static int compare_names(const void *a, const void *b)
{
	/* nvme2n1 before nvme10n1 */
	return strverscmp(((const struct storage_device *)a)->name, ((const struct storage_device *)b)->name);
}

/* Remove devices that vanished meanwhile and, with `only`, all except that device and its partitions. */
static void remove_unwanted(struct walk *walk)
{
	size_t kept = 0;

	for (size_t i = 0; i < walk->scan.count; i++) {
		const struct storage_device *device = &walk->scan.devices[i];
		const char *only = walk->options->only;

		if (device->signature_error == -ENOENT || device->signature_error == -ENXIO)
			continue;
		if (only && strcmp(device->name, only) != 0 && strcmp(device->parent, only) != 0)
			continue;
		if (kept != i)
			walk->scan.devices[kept] = *device;
		kept++;
	}
	must(kept <= walk->scan.count);
	walk->scan.count = kept;
}

static int scan_all(struct provider *provider, const struct storage_scan_options *options, struct storage_scan *scan_ret,
		    struct fathom_fault *why)
{
	static const struct storage_scan_options all;
	struct walk walk = { .provider = provider, .options = options ? options : &all };
	int error = provider->calls->list(provider, "/sys/block", visit_device, &walk);

	if (error) {
		storage_scan_free(&walk.scan);
		return fault(why, error,
			     "the block devices of this host cannot be listed (/sys/block: %s); is sysfs mounted?",
			     strerror(-error));
	}
	read_users(&walk, "/proc/self/mountinfo", storage_note_mounts);
	read_users(&walk, "/proc/swaps", storage_note_swaps);
	for (size_t i = 0; i < walk.scan.count && !walk.options->without_signatures; i++)
		read_signature(provider, &walk.scan.devices[i]);
	remove_unwanted(&walk);
	if (walk.scan.count > 1)
		qsort(walk.scan.devices, walk.scan.count, sizeof(*walk.scan.devices), compare_names);
	must(walk.scan.count <= STORAGE_DEVICES_MAX);
	*scan_ret = walk.scan;
	return 0;
}

int storage_scan(struct provider *provider, const struct storage_scan_options *options, struct storage_scan *scan_ret,
		 struct fathom_fault *why)
{
	const char *only = options && options->only ? options->only : "";
	uint64_t began = clock_ticks(), now;
	int error = scan_all(provider, options, scan_ret, why);

	now = clock_ticks();
	probe_storage_scanned(now, trace_intern(only), error, error ? 0 : (uint32_t)scan_ret->count, now - began);
	return error;
}

void storage_scan_free(struct storage_scan *scan)
{
	free(scan->devices);
	*scan = (struct storage_scan){ 0 };
}

const struct storage_device *storage_find(const struct storage_scan *scan, const char *name_or_path)
{
	const char *name = strncmp(name_or_path, "/dev/", 5) == 0 ? name_or_path + 5 : name_or_path;

	for (size_t i = 0; i < scan->count; i++) {
		if (strcmp(scan->devices[i].name, name) == 0)
			return &scan->devices[i];
	}
	return NULL;
}
