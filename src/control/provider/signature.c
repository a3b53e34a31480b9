/* SPDX-License-Identifier: BSD-2-Clause */
/* What stands on a device, as libblkid sees it: superblocks of filesystems, RAID and encryption, and partition tables. */
#include <blkid/blkid.h>
#include <errno.h>
#include <string.h>

#include "base/text.h"
#include "control/provider/internal.h"

static void take(blkid_probe probe, const char *name, char *to, size_t bytes)
{
	const char *value;

	if (blkid_probe_lookup_value(probe, name, &value, NULL) == 0)
		(void)text_copy(to, bytes, value); /* a cut label is one, too */
}

int provider_blkid_signature(struct provider *self, int fd, struct provider_signature *signature_ret)
{
	struct provider_signature found = { .several = false };
	blkid_probe probe = blkid_new_probe();
	int result;

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
		take(probe, "TYPE", found.type, sizeof(found.type));
		take(probe, "USAGE", found.usage, sizeof(found.usage));
		take(probe, "LABEL", found.label, sizeof(found.label));
		take(probe, "UUID", found.uuid, sizeof(found.uuid));
		take(probe, "PTTYPE", found.partition_table, sizeof(found.partition_table));
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
