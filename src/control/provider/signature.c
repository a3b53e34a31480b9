/* SPDX-License-Identifier: BSD-2-Clause */
/* Signatures of a device by libblkid: superblocks of filesystems, RAID and encryption, and partition tables. */
#include <blkid/blkid.h>
#include <errno.h>
#include <string.h>

#include "base/text.h"
#include "control/provider/internal.h"

static void copy_value(blkid_probe probe, const char *name, char *to, size_t bytes)
{
	const char *value;

	if (blkid_probe_lookup_value(probe, name, &value, NULL) == 0)
		(void)text_copy(to, bytes, value); /* too long a label is cut */
}

int provider_blkid_signature(struct provider *self, int fd, struct provider_signature *signature_ret)
{
	struct provider_signature found = { .several = false };
	blkid_probe probe = blkid_new_probe();
	int result;

	must(fd >= 0);
	if (!probe)
		return -ENOMEM;
	errno = 0;
	if (blkid_probe_set_device(probe, fd, 0, 0) != 0) {
		result = errno ? -errno : -EIO;
		blkid_free_probe(probe);
		return result;
	}
	blkid_probe_enable_superblocks(probe, 1);
	blkid_probe_set_superblocks_flags(probe,
					  BLKID_SUBLKS_LABEL | BLKID_SUBLKS_UUID | BLKID_SUBLKS_TYPE | BLKID_SUBLKS_USAGE);
	blkid_probe_enable_partitions(probe, 1);
	errno = 0;
	result = blkid_do_safeprobe(probe);
	if (result == 0) {
		copy_value(probe, "TYPE", found.type, sizeof(found.type));
		copy_value(probe, "USAGE", found.usage, sizeof(found.usage));
		copy_value(probe, "LABEL", found.label, sizeof(found.label));
		copy_value(probe, "UUID", found.uuid, sizeof(found.uuid));
		copy_value(probe, "PTTYPE", found.partition_table, sizeof(found.partition_table));
	} else if (result == -2) {
		found.several = true;
	} else if (result < 0) {
		result = errno ? -errno : -EIO;
		blkid_free_probe(probe);
		return result;
	}
	blkid_free_probe(probe);
	*signature_ret = found;
	return 0;
}
