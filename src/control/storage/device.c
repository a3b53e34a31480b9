/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads one block device from sysfs. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/text.h"
#include "control/storage/internal.h"

enum { SECTOR_BYTES = 512 /* the unit of sysfs, for all devices */, VPD_HEADER_BYTES = 4 };

static_assert(sizeof(((struct storage_device *)0)->path) >= STORAGE_NAME_BYTES_MAX + sizeof("/dev/") - 1, "each name");

static bool join_path(char to[PROVIDER_PATH_BYTES_MAX], const char *folder, const char *file)
{
	int used = snprintf(to, PROVIDER_PATH_BYTES_MAX, "%s/%s", folder, file);

	return used > 0 && used < PROVIDER_PATH_BYTES_MAX;
}

/* The number in the file; `otherwise` if it cannot be read. */
static int64_t read_number(struct provider *provider, const char *folder, const char *file, int64_t otherwise)
{
	char path[PROVIDER_PATH_BYTES_MAX];
	int64_t number;

	if (!join_path(path, folder, file) || provider_read_number(provider, path, &number) != 0)
		return otherwise;
	return number;
}

/* The text of the first file that exists and is not empty, without leading blanks and control characters. */
static void read_first_text(struct provider *provider, const char *folder, const char *const files[], char *to,
			    size_t bytes)
{
	char path[PROVIDER_PATH_BYTES_MAX], text[STORAGE_TEXT_BYTES_MAX];

	must(bytes > 0);
	to[0] = '\0';
	for (; *files && to[0] == '\0'; files++) {
		const char *begin;

		if (!join_path(path, folder, *files) || provider_read_text(provider, path, text, sizeof(text)) != 0)
			continue;
		begin = text + strspn(text, " \t");
		to[text_utf8_copy(to, bytes - 1, begin, strlen(begin))] = '\0';
	}
}

/* Serial number from SCSI's VPD page 0x80, for disks without another source. Bytes 2 and 3 of the header are its length. */
static void read_serial_page(struct provider *provider, const char *folder, char *to, size_t bytes)
{
	char path[PROVIDER_PATH_BYTES_MAX], text[STORAGE_TEXT_BYTES_MAX];
	const uint8_t *page = (const uint8_t *)text;
	size_t said;

	memset(text, 0, sizeof(text));
	if (!join_path(path, folder, "device/vpd_pg80") || provider_read_text(provider, path, text, sizeof(text)) != 0)
		return;
	said = (size_t)page[2] << 8 | page[3];
	said = min_u64(said, sizeof(text) - 1 - VPD_HEADER_BYTES);
	must(VPD_HEADER_BYTES + said < sizeof(text));
	text[VPD_HEADER_BYTES + said] = '\0';
	said = strlen(text + VPD_HEADER_BYTES);
	while (said > 0 && text[VPD_HEADER_BYTES + said - 1] == ' ')
		said--;
	text[VPD_HEADER_BYTES + said] = '\0';
	page += VPD_HEADER_BYTES + strspn(text + VPD_HEADER_BYTES, " ");
	to[text_utf8_copy(to, bytes - 1, (const char *)page, strlen((const char *)page))] = '\0';
}

static int read_device_number(struct provider *provider, const char *folder, struct storage_device *device)
{
	char path[PROVIDER_PATH_BYTES_MAX], text[32], *colon;
	uint64_t major, minor;
	int error;

	if (!join_path(path, folder, "dev"))
		return -ENAMETOOLONG;
	error = provider_read_text(provider, path, text, sizeof(text));
	if (error)
		return error;
	colon = strchr(text, ':');
	if (!colon)
		return -EINVAL;
	*colon = '\0';
	if (text_parse_u64(text, 10, UINT32_MAX, &major) != 0 || text_parse_u64(colon + 1, 10, UINT32_MAX, &minor) != 0)
		return -EINVAL;
	device->major = (uint32_t)major;
	device->minor = (uint32_t)minor;
	return 0;
}

/* From the nearest parent folder with the file numa_node: a namespace's controller, a disk's host, their PCI function. */
static int find_numa_node(struct provider *provider, const char *sys_path)
{
	char folder[PROVIDER_PATH_BYTES_MAX], *slash;

	if (text_copy(folder, sizeof(folder), sys_path) != 0)
		return -1;
	while ((slash = strrchr(folder, '/')) && slash != folder && strcmp(folder, "/sys/devices") != 0) {
		int64_t node = read_number(provider, folder, "numa_node", INT32_MIN);

		if (node != INT32_MIN)
			return node < 0 || node > INT32_MAX ? -1 : (int)node;
		*slash = '\0';
	}
	return -1;
}

static int count_holder(void *ctx, const char *name)
{
	struct storage_device *device = ctx;

	if (device->holder_count++ == 0)
		(void)text_copy(device->holder, sizeof(device->holder), name); /* the kernel's names are shorter */
	return 0;
}

static void read_identity(struct provider *provider, const char *folder, struct storage_device *device)
{
	static const char *const vendor[] = { "device/vendor", NULL };
	static const char *const model[] = { "device/model", NULL };
	static const char *const serial[] = { "device/serial", "serial", NULL };
	static const char *const firmware[] = { "device/firmware_rev", "device/rev", NULL };
	static const char *const backing_file[] = { "loop/backing_file", NULL };
	char vendor_text[STORAGE_TEXT_BYTES_MAX];

	read_first_text(provider, folder, vendor, vendor_text, sizeof(vendor_text));
	if (strncmp(vendor_text, "0x", 2) != 0) /* a name for SCSI; for others the PCI vendor's number, which is skipped */
		memcpy(device->vendor, vendor_text, sizeof(vendor_text));
	read_first_text(provider, folder, model, device->model, sizeof(device->model));
	read_first_text(provider, folder, serial, device->serial, sizeof(device->serial));
	if (device->serial[0] == '\0')
		read_serial_page(provider, folder, device->serial, sizeof(device->serial));
	read_first_text(provider, folder, firmware, device->firmware, sizeof(device->firmware));
	read_first_text(provider, folder, backing_file, device->backing_file, sizeof(device->backing_file));
}

/* Its folder below /sys/devices: /sys/block/NAME is a link; a partition is a folder in that of its device. */
static void find_place(struct provider *provider, const char *sys_path, char place[PROVIDER_PATH_BYTES_MAX])
{
	if (provider_follow(provider, sys_path, place, PROVIDER_PATH_BYTES_MAX) != 0)
		(void)text_copy(place, PROVIDER_PATH_BYTES_MAX, sys_path); /* fits: files below it were opened */
}

int storage_read_device(struct provider *provider, const char *name, const char *sys_path, struct storage_device *device)
{
	char place[PROVIDER_PATH_BYTES_MAX], path[PROVIDER_PATH_BYTES_MAX];
	int64_t sectors;
	int error;

	*device = (struct storage_device){ .numa_node = -1 };
	error = text_copy(device->name, sizeof(device->name), name);
	if (error)
		return error;
	snprintf(device->path, sizeof(device->path), "/dev/%s", device->name);
	error = read_device_number(provider, sys_path, device);
	if (error)
		return error;
	sectors = read_number(provider, sys_path, "size", 0);
	device->bytes = sectors > 0 && sectors < INT64_MAX / SECTOR_BYTES ? (uint64_t)sectors * SECTOR_BYTES : 0;
	device->logical_block_bytes = (uint32_t)read_number(provider, sys_path, "queue/logical_block_size", SECTOR_BYTES);
	device->physical_block_bytes = (uint32_t)read_number(provider, sys_path, "queue/physical_block_size", SECTOR_BYTES);
	device->rotational = read_number(provider, sys_path, "queue/rotational", 0) != 0;
	device->removable = read_number(provider, sys_path, "removable", 0) != 0;
	device->read_only = read_number(provider, sys_path, "ro", 0) != 0;
	find_place(provider, sys_path, place);
	device->class = storage_class_of(name, place, device->rotational);
	storage_pci_address_of(place, device->pci_address);
	device->numa_node = find_numa_node(provider, place);
	read_identity(provider, sys_path, device);
	device->use_error = join_path(path, sys_path, "holders")
				    ? provider->calls->list(provider, path, count_holder, device)
				    : -ENAMETOOLONG;
	return 0;
}
