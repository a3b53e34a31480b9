/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads by NVMe admin commands. */
#include <errno.h>
#include <fcntl.h>

#include "control/fault/fault.h"
#include "control/helper/operations_internal.h"

int helper_open_for_commands(struct helper_job *job)
{
	int fd, error;

	if (job->facts.class != STORAGE_CLASS_NVME)
		return fault(&job->why, -ENOTTY, "%s is no NVMe device", job->facts.path);
	fd = helper_open_device(job, O_RDONLY);
	if (fd < 0 || !job->by->confine_to_nvme)
		return fd;
	error = job->by->confine_to_nvme(fd, &job->why);
	if (!error)
		return fd;
	helper_close_device(job, fd);
	return error;
}

int helper_read_health(struct helper_job *job)
{
	int fd = helper_open_for_commands(job), error;

	if (fd < 0)
		return fd;
	error = storage_nvme_read(job->provider, fd, job->facts.path, &job->reply->pages, &job->why);
	helper_close_device(job, fd);
	return error;
}
