/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Mounts and unmounts. Folders are opened before they are used, so that no other process can replace them by a link. Only
 * mounts of devices on the list are unmounted.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/text.h"
#include "control/fault/fault.h"
#include "control/helper/operations_internal.h"

enum { MODE_MOUNTED = 0700 };

/* The device must hold an undamaged XFS with the expected label. */
static int check_mountable(struct helper_job *job)
{
	struct storage_contents contents;
	int error;

	must(job->request->operation == HELPER_MOUNT);
	error = helper_read_contents(job, &contents);
	if (error)
		return error;
	if (contents.format == STORAGE_FORMAT_DAMAGED)
		return fault_filesystem_damaged(&job->why, job->facts.path, contents.damage);
	if (contents.format != STORAGE_FORMAT_XFS)
		return fault_other_filesystem(&job->why, job->facts.path, storage_format_name(contents.format), "XFS");
	if (job->request->label[0] != '\0' && strcmp(job->request->label, contents.signature.label) != 0)
		return fault_other_filesystem(&job->why, job->facts.path, contents.signature.label, job->request->label);
	return 0;
}

/* Open the folder `path`; `device_ret`: the number of its filesystem. */
static int open_folder(struct helper_job *job, const char *path, int flags, dev_t *device_ret)
{
	int fd = job->provider->calls->open(job->provider, path, flags | O_DIRECTORY, 0, true), error;
	struct stat stat;

	if (fd == -ELOOP || fd == -ENOTDIR)
		return fault(&job->why, fd, "%s is not a folder, or its path contains a symbolic link", path);
	if (fd < 0)
		return fault(&job->why, fd, "%s cannot be opened: %s", path, strerror(-fd));
	error = job->provider->calls->stat(job->provider, fd, &stat);
	if (!error) {
		*device_ret = stat.st_dev;
		return fd;
	}
	job->provider->calls->close_fd(job->provider, fd);
	return fault(&job->why, error, "%s: %s", path, strerror(-error));
}

/* Give the mounted folder to the requesting user. */
static int give_to_user(struct helper_job *job)
{
	dev_t device;
	int fd = open_folder(job, job->request->target, O_RDONLY, &device), error;

	if (fd < 0)
		return fd;
	error = job->provider->calls->change_mode(job->provider, fd, MODE_MOUNTED);
	if (!error)
		error = job->provider->calls->change_owner(job->provider, fd, job->by->uid, job->by->gid);
	job->provider->calls->close_fd(job->provider, fd);
	return error ? fault(&job->why, error, "%s cannot be given to user %u: %s", job->request->target, job->by->uid,
			     strerror(-error))
		     : 0;
}

/* On failure it is unmounted again. */
static int give_mounted_to_user(struct helper_job *job, int mount_fd)
{
	int error = give_to_user(job);

	must(mount_fd >= 0);
	if (error) /* report this error even if unmounting fails; the next scan shows the mount */
		(void)job->provider->calls->unmount(job->provider, mount_fd, job->folder);
	return error;
}

/* Mount the device once. `already_ret`: it is mounted there: by a helper that was killed, after this job has looked. */
static int try_mount(struct helper_job *job, dev_t mount_device, bool *already_ret)
{
	const char *target = job->request->target;
	dev_t device;
	int fd = open_folder(job, target, O_PATH, &device), error;

	if (fd < 0)
		return fd;
	*already_ret = device == makedev(job->facts.major, job->facts.minor);
	error = *already_ret || device == mount_device
			? 0
			: fault(&job->why, -EBUSY,
				"another filesystem is mounted at %s: unmount it, or choose another folder", target);
	if (!error && !*already_ret) {
		error = job->provider->calls->mount(job->provider, job->facts.path, fd, "xfs",
						    MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME);
		if (error)
			error = fault(&job->why, error, "%s cannot be mounted at %s: %s; look at the kernel's log",
				      job->facts.path, target, strerror(-error));
	}
	job->provider->calls->close_fd(job->provider, fd);
	return error;
}

static int mount_at_target(struct helper_job *job, int mount_fd, dev_t mount_device)
{
	const char *target = job->request->target;
	bool is_already = false;
	int error = job->provider->calls->make_folder(job->provider, target, MODE_MOUNTED);

	if (error && error != -EEXIST)
		return fault(&job->why, error, "%s cannot be created: %s", target, strerror(-error));
	error = try_mount(job, mount_device, &is_already);
	for (int i = 0; i < CLAIM_TRIES && error == -EBUSY; i++) {
		usleep(CLAIM_PAUSE_US);
		job->why = (struct fathom_fault){ 0 };
		error = try_mount(job, mount_device, &is_already);
	}
	return error ? error : give_mounted_to_user(job, mount_fd);
}

int helper_mount_device(struct helper_job *job)
{
	const struct storage_device *facts = &job->facts;
	enum storage_use use = storage_use(facts);
	dev_t device;
	int fd, error;

	/* helper_policy_check() has found them */
	must(job->name);
	must(job->mount);
	must(job->folder);
	if (facts->mount_count == 1 && strcmp(facts->mounted_at, job->request->target) == 0) {
		job->reply->already = 1;
		return give_to_user(job); /* a helper that was killed may have mounted it and not given it */
	}
	if (use == STORAGE_USE_MOUNTED || use == STORAGE_USE_SWAP || use == STORAGE_USE_HELD ||
	    use == STORAGE_USE_PARTITIONED || use == STORAGE_USE_UNREADABLE) {
		error = storage_may_overwrite(facts, true, &job->why);
		must(error < 0); /* for each of these uses, else the reply would be a success */
		return error;
	}
	error = check_mountable(job);
	if (error)
		return error;
	fd = open_folder(job, job->mount, O_PATH, &device);
	if (fd < 0)
		return fd;
	error = mount_at_target(job, fd, device);
	job->provider->calls->close_fd(job->provider, fd);
	return error;
}

/* `found_ret`: a device is mounted at the target. An error if that device is not on the list. */
static int find_mounted(struct helper_job *job, bool *found_ret)
{
	struct storage_scan_options options = { .without_signatures = true };
	struct helper_request of_device = { .operation = HELPER_READ_LABEL };
	const char *name, *mount, *folder;
	struct storage_scan scan;
	int error = storage_scan(job->provider, &options, &scan, &job->why), unread = 0;

	if (error)
		return error;
	*found_ret = false;
	for (size_t i = 0; !error && i < scan.count; i++) {
		struct helper_policy any = *job->by->policy;

		unread = unread ? unread : scan.devices[i].use_error;
		if (strcmp(scan.devices[i].mounted_at, job->request->target) != 0)
			continue;
		*found_ret = true;
		any.operations = UINT32_MAX;
		error = text_copy(of_device.device, sizeof(of_device.device), scan.devices[i].path);
		if (!error)
			error = helper_policy_check(&any, &of_device, &name, &mount, &folder, &job->why);
	}
	storage_scan_free(&scan);
	if (!error && !*found_ret && unread) /* unknown, which must not be taken for "not mounted" */
		error = fault(&job->why, unread, "the mounts at %s cannot be read: %s", job->request->target,
			      strerror(-unread));
	return error;
}

int helper_unmount_target(struct helper_job *job)
{
	dev_t outside, inside;
	bool found = false;
	int error = find_mounted(job, &found), fd, target_fd;

	must(job->mount && job->folder);
	must(!strchr(job->folder, '/')); /* it is unmounted relative to its parent */
	if (error)
		return error;
	fd = open_folder(job, job->mount, O_PATH, &outside);
	if (fd < 0)
		return fd;
	if (found) {
		error = job->provider->calls->unmount(job->provider, fd, job->folder);
		if (error == -EBUSY)
			error = fault_mount_in_use(&job->why, job->request->target);
		else if (error)
			error = fault(&job->why, error, "%s cannot be unmounted: %s", job->request->target,
				      strerror(-error));
		job->provider->calls->close_fd(job->provider, fd);
		return error;
	}
	job->provider->calls->close_fd(job->provider, fd);
	target_fd = open_folder(job, job->request->target, O_PATH, &inside);
	if (target_fd < 0 && target_fd != -ENOENT)
		return target_fd;
	if (target_fd >= 0)
		job->provider->calls->close_fd(job->provider, target_fd);
	if (target_fd >= 0 && inside != outside)
		return fault(&job->why, -EPERM, "the device mounted at %s is not on the helper's list",
			     job->request->target);
	job->reply->already = 1;
	return 0;
}
