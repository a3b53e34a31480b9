/* SPDX-License-Identifier: BSD-2-Clause */
/* xfs_image - an XFS with reflinks, on a loop device. Needs root. */
#ifndef TEST_UNIT_DATA_STORE_VOLUME_XFS_IMAGE_H
#define TEST_UNIT_DATA_STORE_VOLUME_XFS_IMAGE_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Mount a new image, FOLDER.img, at `folder`. False: this process may not, or there is no mkfs.xfs. */
static inline bool xfs_mount(const char *folder)
{
	char command[512];

	snprintf(command, sizeof(command),
		 "truncate -s 512M %s.img && mkfs.xfs -q -m reflink=1,rmapbt=0 %s.img && mount -o loop %s.img %s "
		 "2>/dev/null",
		 folder, folder, folder, folder);
	return geteuid() == 0 && system(command) == 0;
}

#endif
