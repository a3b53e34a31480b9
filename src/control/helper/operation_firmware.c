/* SPDX-License-Identifier: BSD-2-Clause */
/* Stores firmware on NVMe devices. A build with the meson option firmware=false does not have this file. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/fault/fault.h"
#include "control/helper/operations_internal.h"

/* Read the open image, which the caller calls free() on. */
static int read_image(struct helper_job *job, int fd, uint8_t **bytes_ret, uint32_t *count_ret)
{
	const char *path = job->request->target;
	char reason[96];
	struct stat stat;
	uint8_t *bytes;
	ssize_t got;
	int error = helper_policy_check_safe(job->provider, fd, path, &job->why);

	if (error == -EPERM)
		return fault_firmware_file_bad(&job->why, path, "other users than root can change it");
	if (!error)
		error = job->provider->calls->stat(job->provider, fd, &stat);
	if (error)
		return fault_firmware_file_bad(&job->why, path, strerror(-error));
	if (!S_ISREG(stat.st_mode))
		return fault_firmware_file_bad(&job->why, path, "it is no file");
	if (stat.st_size <= 0 || stat.st_size > STORAGE_IMAGE_BYTES_MAX || stat.st_size % 4 != 0) {
		snprintf(reason, sizeof(reason), "it has %lld bytes: an image has 4 bytes to 64 MiB, a multiple of four",
			 (long long)stat.st_size);
		return fault_firmware_file_bad(&job->why, path, reason);
	}
	bytes = malloc((size_t)stat.st_size);
	if (!bytes)
		return fault_firmware_file_bad(&job->why, path, strerror(ENOMEM));
	got = job->provider->calls->read_at(job->provider, fd, bytes, (size_t)stat.st_size, 0);
	if (got != stat.st_size) {
		free(bytes);
		return fault_firmware_file_bad(&job->why, path, got < 0 ? strerror((int)-got) : "it was cut short");
	}
	*bytes_ret = bytes;
	*count_ret = (uint32_t)stat.st_size;
	return 0;
}

static int load_image(struct helper_job *job, uint8_t **bytes_ret, uint32_t *count_ret)
{
	const char *path = job->request->target;
	int fd = job->provider->calls->open(job->provider, path, O_RDONLY | O_NONBLOCK, 0, true), error;

	if (fd < 0)
		return fault_firmware_file_bad(&job->why, path, strerror(-fd));
	error = read_image(job, fd, bytes_ret, count_ret);
	job->provider->calls->close_fd(job->provider, fd);
	return error;
}

static int send_image(struct helper_job *job, struct storage_image *image)
{
	const char *path = job->facts.path;
	enum storage_activation activation;
	struct storage_nvme_pages pages;
	struct storage_firmware firmware;
	struct storage_health health;
	int fd = helper_open_for_commands(job), error;

	if (fd < 0)
		return fd;
	error = storage_nvme_read(job->provider, fd, path, &pages, &job->why);
	if (!error)
		error = storage_health_decode(&pages, &health, &firmware, &job->why);
	if (!error)
		error = storage_firmware_check(&firmware, path, job->request->slot, &job->why);
	if (!error)
		image->piece_bytes = firmware.piece_bytes;
	if (!error)
		error = storage_nvme_update(job->provider, fd, path, image, &activation, &job->why);
	if (!error && storage_nvme_read(job->provider, fd, path, &pages, &job->why) == 0)
		memcpy(job->reply->pages.slots, pages.slots, sizeof(pages.slots)); /* else they are empty in the reply */
	if (!error)
		job->reply->activation = activation;
	helper_close_device(job, fd);
	return error;
}

int helper_update_firmware(struct helper_job *job)
{
	struct storage_image image = { .slot = job->request->slot };
	uint8_t *bytes;
	char use[128];
	int error;

	must(job->mount && job->folder); /* the image is in a folder of the list */
	if (job->facts.class != STORAGE_CLASS_NVME)
		return fault_firmware_unsupported(&job->why, job->facts.path, "it is no NVMe device");
	if (storage_use(&job->facts) <= STORAGE_USE_PARTITIONED && !(job->request->flags & HELPER_FLAG_FORCE)) {
		storage_use_text(&job->facts, use, sizeof(use));
		return fault_firmware_in_use(&job->why, job->facts.path, use);
	}
	error = load_image(job, &bytes, &image.count);
	if (error)
		return error;
	image.bytes = bytes;
	error = send_image(job, &image);
	free(bytes);
	return error;
}
