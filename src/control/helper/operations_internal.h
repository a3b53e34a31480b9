/* SPDX-License-Identifier: BSD-2-Clause */
/* operations, internal: the request that a child performs. One thread. */
#ifndef CONTROL_HELPER_OPERATIONS_INTERNAL_H
#define CONTROL_HELPER_OPERATIONS_INTERNAL_H

#include "control/helper/operations.h"

/*
 * Another program claims a device for a moment, for example to probe it; a mount of a helper that was killed claims it
 * until the mount has ended. That is not use: operations try again.
 */
enum { CLAIM_TRIES = 20, CLAIM_PAUSE_US = 50000 };

/* The request that is being performed. */
struct helper_job {
	const struct helper_operator *by;
	const struct helper_request *request;
	struct helper_reply *reply;
	struct provider *provider;
	const char *name, *mount, *folder; /* of helper_policy_check() */
	struct storage_device facts;	   /* of the device */
	struct fathom_fault why;
};

/*
 * Open the device. The path must not be a link, and must be the block device that the scan found. Errors (explained in
 * `job->why`). The caller closes it.
 */
MUST_CHECK int helper_open_device(struct helper_job *job, int flags);
void helper_close_device(struct helper_job *job, int fd);

/* Open the device and determine its contents. Errors (explained in `job->why`): it cannot be opened or read. */
MUST_CHECK int helper_read_contents(struct helper_job *job, struct storage_contents *contents);

/*
 * Mount the device at the requested folder and give it to the requesting user; unmount that folder. If there is nothing to
 * do, the reply says so (`already`). Errors (explained in `job->why`).
 */
MUST_CHECK int helper_mount_device(struct helper_job *job);
MUST_CHECK int helper_unmount_target(struct helper_job *job);

/*
 * Store the image in the requested file as firmware of an NVMe device. Errors (explained in `job->why`): firmware_...; of
 * the file and the device.
 */
MUST_CHECK int helper_update_firmware(struct helper_job *job);

/* Switch or read the lamp at the device's slot. Errors (explained in `job->why`): led_absent; of the file in sysfs. */
MUST_CHECK int helper_switch_led(struct helper_job *job);

/*
 * Open the NVMe device for admin commands. After this the child keeps no other right than commands to that device. Errors
 * (explained in `job->why`). The caller closes it.
 */
MUST_CHECK int helper_open_for_commands(struct helper_job *job);

/* Read what an NVMe device says of itself. Errors (explained in `job->why`). */
MUST_CHECK int helper_read_health(struct helper_job *job);

#endif
