/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * storage - the block devices of this host: what they are, and what stands on them.
 *
 * storage_scan() collects facts: sysfs says what a device is, the mount table, the swaps and its holders who uses it, its
 * superblocks what it holds. All else here decides on such facts and touches nothing, so that it is tested by table.
 *
 * A fact that could not be read is empty, and the scan goes on; only where there is no list of devices at all it fails. A
 * device that vanishes meanwhile is left out. Reading signatures takes the right to read the devices: without it
 * `signature_error` says so, and such a device is never called free.
 */
#ifndef CONTROL_STORAGE_STORAGE_H
#define CONTROL_STORAGE_STORAGE_H

#include "base/fault.h"
#include "control/provider/provider.h"

enum {
	STORAGE_NAME_BYTES_MAX = 64,
	STORAGE_TEXT_BYTES_MAX = 96,
	STORAGE_DEVICES_MAX = 4096, /* of a host, with partitions */
};

enum storage_class {
	STORAGE_CLASS_NVME,
	STORAGE_CLASS_SSD,
	STORAGE_CLASS_HDD,
	STORAGE_CLASS_PMEM,
	STORAGE_CLASS_VIRTIO,
	STORAGE_CLASS_LOOP,
	STORAGE_CLASS_OTHER, /* what the kernel made of others: device mapper, md, zram, network */
	STORAGE_CLASSES
};

/* The first that is true, from the one that forbids most. */
enum storage_use {
	STORAGE_USE_MOUNTED,
	STORAGE_USE_SWAP,
	STORAGE_USE_HELD,	 /* a device of the kernel's lies on it */
	STORAGE_USE_PARTITIONED, /* has partitions, or a table of them */
	STORAGE_USE_READ_ONLY,
	STORAGE_USE_UNREADABLE, /* who uses it or what it holds could not be read */
	STORAGE_USE_FILESYSTEM,
	STORAGE_USE_RAID,
	STORAGE_USE_OTHER_DATA, /* some other signature */
	STORAGE_USE_FREE,
	STORAGE_USES
};

struct storage_device {
	char name[STORAGE_NAME_BYTES_MAX];     /* the kernel's: "nvme0n1" */
	char path[STORAGE_NAME_BYTES_MAX + 5]; /* "/dev/nvme0n1" */
	char parent[STORAGE_NAME_BYTES_MAX];   /* of a partition: the whole device; else "" */
	enum storage_class class;
	uint32_t major, minor;
	uint64_t bytes;
	uint32_t logical_block_bytes, physical_block_bytes;
	bool rotational, removable, read_only;
	int numa_node;	      /* -1: not known */
	char pci_address[16]; /* "0000:81:00.0", "" where there is none */
	char vendor[STORAGE_TEXT_BYTES_MAX];
	char model[STORAGE_TEXT_BYTES_MAX];
	char serial[STORAGE_TEXT_BYTES_MAX];
	char firmware[STORAGE_TEXT_BYTES_MAX];
	char backing_file[PROVIDER_NAME_BYTES_MAX]; /* of a loop device */

	char mounted_at[PROVIDER_NAME_BYTES_MAX]; /* the first place; "" if none */
	uint32_t mount_count, holder_count, partition_count;
	char holder[STORAGE_NAME_BYTES_MAX]; /* the first of them */
	bool swap;
	int use_error;	     /* negative errno: who uses it could not be read in full */
	int signature_error; /* negative errno: it could not be read */
	struct provider_signature signature;
};

struct storage_scan {
	struct storage_device *devices; /* by name, numbers in it by value */
	size_t count;
};

struct storage_scan_options {
	const char *only;	 /* the device of this name, and what is on it; NULL: all */
	bool without_signatures; /* what only the kernel knows, without a look at the devices */
};

/* The caller's to free. Errors (explained): -ENOENT: no sysfs; -E2BIG, -ENOMEM. Blocks while devices answer. Any thread. */
MUST_CHECK int storage_scan(struct provider *provider, const struct storage_scan_options *options,
			    struct storage_scan *scan_ret, struct fault *why);
/* Accepts a zeroed one. */
void storage_scan_free(struct storage_scan *scan);

/* By name or by path ("/dev/" and name, as it stands); NULL: not in the scan. */
const struct storage_device *storage_find(const struct storage_scan *scan, const char *name_or_path);

const char *storage_class_name(enum storage_class class); /* "nvme", "ssd" ... */
const char *storage_use_name(enum storage_use use);	  /* "mounted", "free" ... */

enum storage_use storage_use(const struct storage_device *device);
/* One line on it for a person: "mounted at /mnt", "held by md0". `to` is always NUL-terminated. */
void storage_use_text(const struct storage_device *device, char *to, size_t bytes);

/*
 * May its contents be destroyed? Never while somebody uses it; what holds data only where `force` says so.
 * Errors (explained, with what to do): -EBUSY, -EROFS, -EEXIST: it holds data; -EIO: it could not be read.
 */
MUST_CHECK int storage_may_overwrite(const struct storage_device *device, bool force, struct fault *why);

/* ---- what is on a device that a filesystem is, or shall be on ---- */

enum storage_format {
	STORAGE_FORMAT_NONE,	/* its beginning is zeroes, and there is no signature */
	STORAGE_FORMAT_XFS,	/* a whole superblock */
	STORAGE_FORMAT_DAMAGED, /* XFS, whose superblock is not whole: repair it, or format anew */
	STORAGE_FORMAT_OTHER,	/* another filesystem, RAID, partition table ... */
	STORAGE_FORMAT_UNKNOWN, /* bytes of no kind that is known */
	STORAGE_FORMATS
};

enum { STORAGE_HEAD_BYTES = 1 << 20 }; /* that decide whether a device is empty */

const char *storage_format_name(enum storage_format format); /* "none", "xfs", "damaged-xfs", "other", "unknown" */

struct storage_contents {
	enum storage_format format;
	struct provider_signature signature;
	char damage[STORAGE_TEXT_BYTES_MAX]; /* what is wrong with the superblock */
};

/*
 * Decide by its signature and its first `head_bytes` (at most STORAGE_HEAD_BYTES, fewer on a smaller device).
 */
void storage_judge_contents(const struct provider_signature *signature, const uint8_t *head, size_t head_bytes,
			    struct storage_contents *contents_ret);

/*
 * Its signature; of an XFS whose superblock is gone, which leaves none, "damaged xfs, see xfs_repair": it is not free.
 * -errno. Blocks. Any thread.
 */
MUST_CHECK int storage_read_signature(struct provider *provider, int fd, struct provider_signature *signature_ret);

/* Read and judge what is on the open device. Errors (explained): of reading; -ENOMEM. Blocks. Any thread. */
MUST_CHECK int storage_read_contents(struct provider *provider, int fd, const char *path,
				     struct storage_contents *contents_ret, struct fault *why);

#endif
