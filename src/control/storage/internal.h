/* SPDX-License-Identifier: BSD-2-Clause */
/* storage, internal: functions that the files share. Pure, except those that take a provider. */
#ifndef CONTROL_STORAGE_INTERNAL_H
#define CONTROL_STORAGE_INTERNAL_H

#include "control/storage/storage.h"

/* By the kernel's name of the whole device, the path of its folder below /sys/devices, and its queue/rotational. */
enum storage_class storage_class_of(const char *name, const char *sys_path, bool rotational);

/* The last PCI address in a path below /sys/devices; "" if there is none. */
void storage_pci_address_of(const char *sys_path, char to[16]);

/* Fill in mounts from the text of /proc/self/mountinfo, and swaps from that of /proc/swaps. */
void storage_note_mounts(struct storage_scan *scan, const char *mountinfo);
void storage_note_swaps(struct storage_scan *scan, const char *swaps);

/* Fill in one device from sysfs; `sys_path` is its folder. Errors: the device does not exist, or not any more. */
MUST_CHECK int storage_read_device(struct provider *provider, const char *name, const char *sys_path,
				   struct storage_device *device);

/*
 * Look for an XFS superblock in the first `bytes` of the device. WHOLE: undamaged. `damage`: the kind of damage, or "".
 */
enum xfs_super { XFS_SUPER_NONE, XFS_SUPER_WHOLE, XFS_SUPER_DAMAGED };
enum xfs_super storage_xfs_super(const uint8_t *head, size_t bytes, char *damage, size_t damage_bytes);

#endif
