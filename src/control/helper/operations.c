/* SPDX-License-Identifier: BSD-2-Clause */
/* Operations on devices: check, read, format and wipe them. Mounts and NVMe commands are in files of their own. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/text.h"
#include "control/fault/fault.h"
#include "control/helper/operations_internal.h"

enum { MODE_OWN = 0600, WIPE_BYTES = 1 << 20 };

/* Scan for the device with exactly this name. */
static int find_device(struct helper_job *job)
{
	struct storage_scan_options only = { .only = job->name };
	const struct storage_device *device;
	char target[PROVIDER_PATH_BYTES_MAX];
	struct storage_scan scan;
	int error = storage_scan(job->provider, &only, &scan, &job->why);

	if (error)
		return error;
	device = storage_find(&scan, job->name);
	if (device)
		job->facts = *device;
	storage_scan_free(&scan);
	if (device)
		return 0;
	if (job->provider->calls->read_link(job->provider, job->request->device, target, sizeof(target)) >= 0)
		return fault(&job->why, -ENODEV, "%s is a link: name the device itself", job->request->device);
	return fault_device_vanished(&job->why, job->request->device);
}

int helper_open_device(struct helper_job *job, int flags)
{
	const char *path = job->facts.path;
	struct stat stat;
	int fd, error;

	must(job->name);
	must(strcmp(path, job->request->device) == 0); /* no other device than the requested one */
	fd = job->provider->calls->open(job->provider, path, flags | O_NONBLOCK, 0, true);
	if (fd == -ELOOP)
		return fault(&job->why, -ELOOP, "%s is a symbolic link; use the device's own name", path);
	if (fd == -EBUSY)
		return fault_device_in_use(&job->why, path, "another program has opened it exclusively");
	if (fd < 0)
		return fault(&job->why, fd, "%s cannot be opened: %s", path, strerror(-fd));
	error = job->provider->calls->stat(job->provider, fd, &stat);
	if (error)
		error = fault(&job->why, error, "%s: %s", path, strerror(-error));
	else if (!S_ISBLK(stat.st_mode) || stat.st_rdev != makedev(job->facts.major, job->facts.minor))
		error = fault(&job->why, -ENODEV, "%s is not the block device of that name in sysfs", path);
	if (!error)
		return fd;
	job->provider->calls->close_fd(job->provider, fd);
	return error;
}

void helper_close_device(struct helper_job *job, int fd)
{
	job->provider->calls->close_fd(job->provider, fd);
}

static void fill_signature(struct helper_job *job, const struct provider_signature *signature)
{
	job->reply->signature = *signature;
	if (signature->several)
		(void)text_copy(job->reply->signature.type, sizeof(job->reply->signature.type), "(several)"); /* fits */
	else if (signature->type[0] == '\0') /* without a type, show the kind of the partition table */
		memcpy(job->reply->signature.type, signature->partition_table, sizeof(signature->partition_table));
	/* clear the fields that the protocol does not transfer */
	job->reply->signature.several = false;
	memset(job->reply->signature.usage, 0, sizeof(job->reply->signature.usage));
	memset(job->reply->signature.partition_table, 0, sizeof(job->reply->signature.partition_table));
}

static int read_contents(struct helper_job *job, int fd, struct storage_contents *contents)
{
	return storage_read_contents(job->provider, fd, job->facts.path, contents, &job->why);
}

int helper_read_contents(struct helper_job *job, struct storage_contents *contents)
{
	int fd = helper_open_device(job, O_RDONLY), error;

	if (fd < 0)
		return fd;
	error = read_contents(job, fd, contents);
	helper_close_device(job, fd);
	return error;
}

static int check_format(struct helper_job *job)
{
	struct storage_contents contents;
	int error = helper_read_contents(job, &contents);

	if (error)
		return error;
	job->reply->format = contents.format;
	memcpy(job->reply->damage, contents.damage, sizeof(contents.damage));
	fill_signature(job, &contents.signature);
	return 0;
}

static int read_label(struct helper_job *job)
{
	struct provider_signature signature;
	int fd = helper_open_device(job, O_RDONLY), error;

	if (fd < 0)
		return fd;
	error = storage_read_signature(job->provider, fd, &signature);
	helper_close_device(job, fd);
	if (error)
		return fault_device_unreadable(&job->why, job->facts.path, strerror(-error));
	fill_signature(job, &signature);
	return 0;
}

/*
 * Open the device for writing: locked while it is open, and not in use by the kernel. The O_EXCL claim ends here, so that
 * mkfs.xfs can make its own; in between, other programs meet the lock.
 */
static int open_for_overwriting(struct helper_job *job)
{
	int fd = helper_open_device(job, O_RDWR), claimed, error;

	must(job->request->operation == HELPER_FORMAT || job->request->operation == HELPER_PREPARE);
	if (fd < 0)
		return fd;
	error = job->provider->calls->lock(job->provider, fd);
	if (error == -EWOULDBLOCK)
		error = fault_device_in_use(&job->why, job->facts.path, "locked by another program");
	else if (error)
		error = fault(&job->why, error, "%s cannot be locked: %s", job->facts.path, strerror(-error));
	if (!error) {
		claimed = helper_open_device(job, O_RDWR | O_EXCL);
		for (int i = 0; i < CLAIM_TRIES && claimed < 0 && job->why.code == FAULT_DEVICE_IN_USE; i++) {
			usleep(CLAIM_PAUSE_US);
			job->why = (struct fathom_fault){ 0 };
			claimed = helper_open_device(job, O_RDWR | O_EXCL);
		}
		must(claimed < 0 || job->why.error == 0); /* a success leaves no fault behind */
		if (claimed >= 0)
			helper_close_device(job, claimed);
		else
			error = claimed;
	}
	if (!error)
		return fd;
	helper_close_device(job, fd);
	return error;
}

/* Reject a device with data, unless the request has HELPER_FLAG_FORCE. */
static int check_contents(struct helper_job *job, int fd)
{
	struct storage_contents contents;
	char what[STORAGE_TEXT_BYTES_MAX + 64];
	int error = read_contents(job, fd, &contents);

	if (error || contents.format == STORAGE_FORMAT_NONE || (job->request->flags & HELPER_FLAG_FORCE))
		return error;
	if (contents.format == STORAGE_FORMAT_DAMAGED)
		snprintf(what, sizeof(what), "a damaged XFS, which xfs_repair may repair: %s", contents.damage);
	else if (contents.format == STORAGE_FORMAT_UNKNOWN)
		snprintf(what, sizeof(what), "data of no known kind");
	else
		snprintf(what, sizeof(what), "%s%s%s",
			 contents.signature.type[0] ? contents.signature.type : "a partition table",
			 contents.signature.label[0] ? ", labelled " : "", contents.signature.label);
	return fault_device_holds_data(&job->why, job->facts.path, what);
}

static int run_mkfs(struct helper_job *job)
{
	static const char *const env[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "TZ=UTC0", NULL };
	const char *const argv[] = {
		"/usr/sbin/mkfs.xfs", "-q", "-f", "-K", "-m", "crc=1,reflink=1", "-L", job->request->label, "--",
		job->facts.path,      NULL
	};
	struct provider_run run;
	char said[200];
	int used;
	int error;

	must(job->request->operation == HELPER_FORMAT);
	must(job->request->label[0] != '\0');
	must(job->facts.mount_count == 0 && job->facts.holder_count == 0 && !job->facts.swap);
	error = job->provider->calls->run(job->provider, argv, env, &run);
	if (error == -ENOENT)
		return fault_missing_program(&job->why, argv[0]);
	if (error)
		return fault(&job->why, error, "%s cannot be run: %s", argv[0], strerror(-error));
	if (WIFEXITED(run.status) && WEXITSTATUS(run.status) == 0)
		return 0;
	used = snprintf(said, sizeof(said), "%s %d: ", WIFEXITED(run.status) ? "exit status" : "signal",
			WIFEXITED(run.status) ? WEXITSTATUS(run.status) : WTERMSIG(run.status));
	must(used > 0);
	said[(size_t)used +
	     text_utf8_copy(said + used, sizeof(said) - (size_t)used - 1, run.output, strcspn(run.output, "\n"))] = '\0';
	return fault_mkfs_failed(&job->why, job->facts.path, said);
}

/* Read the filesystem back: the exit status of mkfs.xfs alone is not trusted. */
static int verify_format(struct helper_job *job, int fd)
{
	struct storage_contents contents;
	int error = read_contents(job, fd, &contents);

	if (error)
		return error;
	if (contents.format != STORAGE_FORMAT_XFS || strcmp(contents.signature.label, job->request->label) != 0)
		return fault_device_unreadable(&job->why, job->facts.path,
					       "it was formatted, and does not read back as XFS");
	job->reply->format = contents.format;
	fill_signature(job, &contents.signature);
	return 0;
}

static int format_device(struct helper_job *job)
{
	int error = storage_may_overwrite(&job->facts, (job->request->flags & HELPER_FLAG_FORCE) != 0, &job->why), fd;

	if (error)
		return error;
	fd = open_for_overwriting(job);
	if (fd < 0)
		return fd;
	error = check_contents(job, fd);
	if (!error)
		error = run_mkfs(job);
	if (!error)
		error = verify_format(job, fd);
	helper_close_device(job, fd);
	return error;
}

static int write_zeroes(struct helper_job *job, int fd, const uint8_t *zeroes, uint64_t offset, uint64_t bytes)
{
	ssize_t put;

	must(bytes <= WIPE_BYTES); /* as many as there are at `zeroes` */
	put = job->provider->calls->write_at(job->provider, fd, zeroes, bytes, offset);
	if (put >= 0 && (uint64_t)put < bytes)
		put = -EIO;
	if (put < 0)
		return fault_device_unreadable(&job->why, job->facts.path, strerror(-(int)put));
	return 0;
}

/* Overwrite the first and the last MiB: superblocks, partition tables and their copies, metadata of RAID and volumes. */
static int wipe_ends(struct helper_job *job, int fd)
{
	uint8_t *zeroes = calloc(1, WIPE_BYTES);
	uint64_t bytes, part;
	int error = job->provider->calls->device_bytes(job->provider, fd, &bytes);

	must(job->request->operation == HELPER_PREPARE);
	must(job->request->flags & HELPER_FLAG_WIPE);
	if (!zeroes || error) {
		free(zeroes);
		error = error ? error : -ENOMEM;
		return fault(&job->why, error, "%s cannot be wiped: %s", job->facts.path, strerror(-error));
	}
	part = min_u64(bytes, WIPE_BYTES);
	error = write_zeroes(job, fd, zeroes, 0, part);
	if (!error)
		error = write_zeroes(job, fd, zeroes, bytes - part, part);
	free(zeroes);
	if (error)
		return error;
	error = job->provider->calls->sync(job->provider, fd);
	if (error)
		return fault_device_unreadable(&job->why, job->facts.path, strerror(-error));
	return 0;
}

static int open_and_wipe(struct helper_job *job)
{
	int fd = open_for_overwriting(job), error;

	if (fd < 0)
		return fd;
	error = check_contents(job, fd);
	if (!error)
		error = wipe_ends(job, fd);
	helper_close_device(job, fd);
	return error;
}

static int give_device_to_user(struct helper_job *job)
{
	int fd, error;

	must(job->request->flags & HELPER_FLAG_OWN);
	fd = helper_open_device(job, O_RDONLY);
	if (fd < 0)
		return fd;
	error = job->provider->calls->change_mode(job->provider, fd, MODE_OWN);
	if (!error)
		error = job->provider->calls->change_owner(job->provider, fd, job->by->uid, job->by->gid);
	helper_close_device(job, fd);
	if (error)
		return fault(&job->why, error, "%s cannot be given to user %u: %s", job->facts.path, job->by->uid,
			     strerror(-error));
	return 0;
}

static int prepare_device(struct helper_job *job)
{
	/* without a wipe the device may hold data, which the user gets with the device */
	bool wiped = (job->request->flags & HELPER_FLAG_WIPE) != 0,
	     forced = (job->request->flags & HELPER_FLAG_FORCE) || !wiped;
	int error = storage_may_overwrite(&job->facts, forced, &job->why);

	if (!error && wiped)
		error = open_and_wipe(job);
	if (!error && (job->request->flags & HELPER_FLAG_OWN))
		error = give_device_to_user(job);
	return error;
}

static int perform_operation(struct helper_job *job)
{
	int error = helper_policy_check(job->by->policy, job->request, &job->name, &job->mount, &job->folder, &job->why);

	if (!error && job->name)
		error = find_device(job);
	if (error)
		return error;
	switch (job->request->operation) {
	case HELPER_CHECK_FORMAT:
		return check_format(job);
	case HELPER_FORMAT:
		return format_device(job);
	case HELPER_MOUNT:
		return helper_mount_device(job);
	case HELPER_UNMOUNT:
		return helper_unmount_target(job);
	case HELPER_READ_LABEL:
		return read_label(job);
	case HELPER_PREPARE:
		return prepare_device(job);
	case HELPER_HEALTH:
		return helper_read_health(job);
	case HELPER_FIRMWARE:
#if FIRMWARE_UPDATES
		return helper_update_firmware(job);
#else
		return fault_firmware_absent(&job->why);
#endif
	case HELPER_LED:
		return helper_switch_led(job);
	default:
		must(false);
	}
	return -EOPNOTSUPP;
}

void helper_perform(const struct helper_operator *by, const struct helper_request *request, struct helper_reply *reply_ret)
{
	struct helper_job job = { .by = by, .request = request, .reply = reply_ret, .provider = by->provider };
	int error;

	must(request->operation != HELPER_PING);
	*reply_ret = (struct helper_reply){ .operation = request->operation, .id = request->id };
	error = perform_operation(&job);
	if (!error)
		return;
	must(error < 0);
	must(job.why.error == error);
	helper_reply_fail(reply_ret, request->operation, request->id, &job.why);
}
