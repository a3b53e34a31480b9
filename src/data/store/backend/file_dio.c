/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * file_dio - reads O_DIRECT's alignment rules from the kernel. A file of its own, because the C library's struct statx has
 * no such fields and clashes with the kernel's.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "data/store/backend/file_internal.h"

bool file_direct_rules(int fd, struct direct_rules *rules_ret)
{
#ifdef STATX_DIOALIGN
	struct statx stx;

	if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &stx) == 0 && (stx.stx_mask & STATX_DIOALIGN)) {
		rules_ret->memory = stx.stx_dio_mem_align;
		rules_ret->offset = stx.stx_dio_offset_align;
		return true;
	}
#endif
	return false;
}
