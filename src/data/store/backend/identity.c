/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * identity - the UUID of a file-backed block device: it identifies the data, not the path.
 *
 *   given      the parameter `uuid`, for example from a saved configuration
 *   a device   derived from the device's WWID, serial number, device-mapper or RAID UUID, plus the number of a partition.
 *              So it is the same under every path, and another disk at the same path gets another UUID.
 *   a file     random, and stored in the file's attribute user.fathom.uuid, so it is the same at the next start
 *   else       random, and stored only by save_config: a file without attributes, a device that reports no identity
 *
 * save_config does not write a UUID derived from a device: the next start derives it from the device at that path.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <uuid/uuid.h>

#include "base/bits.h"
#include "base/log.h"
#include "data/store/backend/file_internal.h"

enum { WWID_BYTES_MAX = 512, SYSFS_PATH_BYTES = 512 };
#define ATTRIBUTE "user.fathom.uuid"

/* UUID namespace: SHA-1 of it and of sysfs_wwid()'s text is the UUID. Changing it would change every device's UUID. */
static const uint8_t wwid_namespace[16] = { 0x5b, 0x0e, 0x2c, 0x7d, 0x91, 0x3a, 0x4f, 0x66,
					    0x8c, 0x21, 0xd4, 0x7e, 0x0a, 0x5f, 0xb3, 0x18 };

ssize_t sysfs_read(const char *sysfs, dev_t device, const char *attribute, char *text, size_t bytes)
{
	char path[SYSFS_PATH_BYTES];
	ssize_t got;
	int fd;

	must(bytes > 1);
	if (snprintf(path, sizeof(path), "%s/dev/block/%u:%u/%s", sysfs, major(device), minor(device), attribute) >=
	    (int)sizeof(path))
		return -ENAMETOOLONG;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	got = read(fd, text, bytes - 1);
	if (got < 0)
		got = -errno;
	must(close(fd) == 0);
	if (got < 0)
		return got;
	while (got > 0 && (text[got - 1] == '\n' || text[got - 1] == ' ' || text[got - 1] == '\0'))
		got--;
	text[got] = '\0';
	return got;
}

int sysfs_wwid(const char *sysfs, dev_t device, char *text, size_t bytes)
{
	/* attributes of the whole disk; a partition's directory is inside its disk's */
	static const char *const sources[] = { "wwid",	 "device/wwid",	  "dm/uuid",   "md/uuid",
					       "serial", "device/serial", "device/cid" };
	char value[WWID_BYTES_MAX], attribute[64], partition[32];
	bool is_partition = sysfs_read(sysfs, device, "partition", partition, sizeof(partition)) > 0;

	for (size_t i = 0; i < ARRAY_COUNT(sources); i++) {
		const char *source = sources[i];

		snprintf(attribute, sizeof(attribute), "%s%s", is_partition ? "../" : "", source);
		if (sysfs_read(sysfs, device, attribute, value, sizeof(value)) <= 0)
			continue;
		if (snprintf(text, bytes, "%s:%s%s%s", source, value, is_partition ? ":" : "",
			     is_partition ? partition : "") >= (int)bytes)
			return -ENAMETOOLONG;
		return 0;
	}
	return -ENODATA;
}

static void identify_regular_file(struct file_bdev *self)
{
	char text[UUID_STR_LEN] = "";
	ssize_t got = fgetxattr(self->fd, ATTRIBUTE, text, sizeof(text) - 1);

	if (got == UUID_STR_LEN - 1 && uuid_parse(text, self->bdev.uuid) == 0 && !uuid_is_null(self->bdev.uuid)) {
		self->identity = FILE_IDENTITY_KEPT;
		return;
	}
	uuid_generate_random(self->bdev.uuid);
	uuid_unparse_lower(self->bdev.uuid, text);
	self->identity = !self->bdev.read_only && fsetxattr(self->fd, ATTRIBUTE, text, sizeof(text) - 1, 0) == 0
				 ? FILE_IDENTITY_KEPT
				 : FILE_IDENTITY_MADE;
	log_notice("block device %s: %s has no UUID yet: it is %s from now on, kept %s", self->bdev.name, self->filename,
		   text,
		   self->identity == FILE_IDENTITY_KEPT ? "with the file, in " ATTRIBUTE
							: "by save_config, and by nothing else");
}

void file_identify(struct file_bdev *self, const char *sysfs)
{
	char wwid[WWID_BYTES_MAX + 64], text[UUID_STR_LEN];

	must(self->fd >= 0);
	if (!uuid_is_null(self->bdev.uuid)) {
		self->identity = FILE_IDENTITY_GIVEN;
	} else if (!self->block_device) {
		identify_regular_file(self);
	} else if (sysfs_wwid(sysfs, self->device, wwid, sizeof(wwid)) == 0) {
		uuid_generate_sha1(self->bdev.uuid, wwid_namespace, wwid, strlen(wwid));
		self->identity = FILE_IDENTITY_DEVICE;
	} else {
		uuid_generate_random(self->bdev.uuid);
		self->identity = FILE_IDENTITY_MADE;
		uuid_unparse_lower(self->bdev.uuid, text);
		log_notice("block device %s: %s does not say what it is (no WWID, no serial number): its UUID is %s from "
			   "now on,"
			   " kept by save_config, and by nothing else",
			   self->bdev.name, self->filename, text);
	}
	must(!uuid_is_null(self->bdev.uuid));
}
