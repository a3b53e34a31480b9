/* SPDX-License-Identifier: BSD-2-Clause */
/* storage, inside: what the parts of a scan ask of each other. Pure but where a provider is taken. */
#ifndef CONTROL_STORAGE_INTERNAL_H
#define CONTROL_STORAGE_INTERNAL_H

#include "control/storage/storage.h"

/* By the kernel's name of the whole device, the path of its folder below /sys/devices, and whether it says it rotates. */
enum storage_class storage_class_of(const char *name, const char *sys_path, bool rotational);

/* The last PCI address in a path below /sys/devices; "" if there is none. */
void storage_pci_address_of(const char *sys_path, char to[16]);

/* Fill in from the text of /proc/self/mountinfo and of /proc/swaps who is mounted and swapped to. */
void storage_note_mounts(struct storage_scan *scan, const char *mountinfo);
void storage_note_swaps(struct storage_scan *scan, const char *swaps);

/* All of one device that sysfs knows; `sys_path` is its folder. Errors: it is not, or no longer, there. */
MUST_CHECK int storage_read_device(struct provider *provider, const char *name, const char *sys_path,
				   struct storage_device *device);

/*
 * Is there an XFS superblock in the first `bytes` of the device, and is it whole? `damage` says what is not.
 */
enum xfs_super { XFS_SUPER_NONE, XFS_SUPER_WHOLE, XFS_SUPER_DAMAGED };
enum xfs_super storage_xfs_super(const uint8_t *head, size_t bytes, char *damage, size_t damage_bytes);

#endif
