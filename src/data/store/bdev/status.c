/* SPDX-License-Identifier: BSD-2-Clause */
/* status - maps a system call's errno to the status of an I/O. */
#include <errno.h>

#include "base/bits.h"
#include "data/store/bdev/bdev.h"

static const struct {
	int error;
	enum io_status status;
} rows[] = {
	{ ENOSPC, IO_NO_SPACE },
	{ EDQUOT, IO_NO_SPACE },
	{ EFBIG, IO_NO_SPACE },
	{ EROFS, IO_READ_ONLY },
	{ EACCES, IO_NOT_PERMITTED },
	{ EPERM, IO_NOT_PERMITTED },
	{ EINVAL, IO_INVALID },
	{ EFAULT, IO_INVALID },
	{ EOPNOTSUPP, IO_UNSUPPORTED },
	{ ENOSYS, IO_UNSUPPORTED },
	/* medium errors, including those of the kernel's block layer */
	{ EIO, IO_MEDIA_ERROR },
	{ ENODATA, IO_MEDIA_ERROR },
	{ EILSEQ, IO_MEDIA_ERROR },
	{ EBADMSG, IO_MEDIA_ERROR },
	{ EUCLEAN, IO_MEDIA_ERROR },
	{ EREMOTEIO, IO_MEDIA_ERROR },
	{ ENODEV, IO_GONE },
	{ ENXIO, IO_GONE },
	{ ENOMEDIUM, IO_GONE },
	{ ENOLINK, IO_GONE },
	{ ESHUTDOWN, IO_GONE },
	{ ESTALE, IO_GONE },
	{ ETIMEDOUT, IO_TIMED_OUT },
	{ ECANCELED, IO_ABORTED },
};

enum io_status bdev_status_from_errno(int error)
{
	must(error <= 0);
	if (error == 0)
		return IO_SUCCESS;
	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		if (rows[i].error == -error)
			return rows[i].status;
	}
	return IO_FAILED;
}
