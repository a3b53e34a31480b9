/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * storage - the block devices of this host: their properties, their use and their contents.
 *
 * storage_scan() collects facts: properties from sysfs, the use from the mount table, the swaps and the holders, the
 * contents from superblocks. The other functions decide on these facts and are pure, except those that take a provider.
 *
 * A fact that could not be read is empty, and the scan continues; it fails only without a list of devices. A device that
 * vanishes meanwhile is skipped. Reading signatures needs the right to read the devices: without it `signature_error` is
 * set, and the device never counts as free.
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
	STORAGE_CLASS_OTHER, /* device mapper, md, zram, network devices */
	STORAGE_CLASSES
};

/* The first one that applies; ordered from the strictest. */
enum storage_use {
	STORAGE_USE_MOUNTED,
	STORAGE_USE_SWAP,
	STORAGE_USE_HELD,	 /* part of another kernel device: md, device mapper */
	STORAGE_USE_PARTITIONED, /* has partitions, or a table of them */
	STORAGE_USE_READ_ONLY,
	STORAGE_USE_UNREADABLE, /* its use or its contents could not be read */
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
	char pci_address[16]; /* "0000:81:00.0"; "": none */
	char vendor[STORAGE_TEXT_BYTES_MAX];
	char model[STORAGE_TEXT_BYTES_MAX];
	char serial[STORAGE_TEXT_BYTES_MAX];
	char firmware[STORAGE_TEXT_BYTES_MAX];
	char backing_file[PROVIDER_NAME_BYTES_MAX]; /* of a loop device */

	char mounted_at[PROVIDER_NAME_BYTES_MAX]; /* the first place; "" if none */
	uint32_t mount_count, holder_count, partition_count;
	char holder[STORAGE_NAME_BYTES_MAX]; /* the first of them */
	bool swap;
	int use_error;	     /* negative errno: its users could not be read completely */
	int signature_error; /* negative errno: the signature could not be read */
	struct provider_signature signature;
};

struct storage_scan {
	struct storage_device *devices; /* in the order of strverscmp(): nvme2n1 before nvme10n1 */
	size_t count;
};

struct storage_scan_options {
	const char *only;	 /* the device of this name, and its partitions; NULL: all */
	bool without_signatures; /* do not read the devices */
};

/* storage_scan_free() the result. Errors (explained): -ENOENT: no sysfs; -E2BIG, -ENOMEM. Blocks on devices. Any thread. */
MUST_CHECK int storage_scan(struct provider *provider, const struct storage_scan_options *options,
			    struct storage_scan *scan_ret, struct fathom_fault *why);
/* Accepts a zeroed one. */
void storage_scan_free(struct storage_scan *scan);

/* By name or by path ("/dev/" and the name; links are not followed); NULL: not in the scan. */
const struct storage_device *storage_find(const struct storage_scan *scan, const char *name_or_path);

const char *storage_class_name(enum storage_class class); /* "nvme", "ssd" ... */
const char *storage_use_name(enum storage_use use);	  /* "mounted", "free" ... */

enum storage_use storage_use(const struct storage_device *device);
/* The use in words: "mounted at /mnt", "held by md0". `to` is always NUL-terminated. */
void storage_use_text(const struct storage_device *device, char *to, size_t bytes);

/*
 * Check that its contents may be overwritten. Never while it is in use; with data only if `force`. Errors (explained, with
 * the remedy): -EBUSY: in use; -EROFS; -EEXIST: it holds data; -EIO: it could not be read.
 */
MUST_CHECK int storage_may_overwrite(const struct storage_device *device, bool force, struct fathom_fault *why);

/* ---- contents of a device with or for a filesystem ---- */

enum storage_format {
	STORAGE_FORMAT_NONE,	/* it starts with zeroes, and has no signature */
	STORAGE_FORMAT_XFS,	/* an undamaged superblock */
	STORAGE_FORMAT_DAMAGED, /* XFS with a damaged superblock: repair it, or format it again */
	STORAGE_FORMAT_OTHER,	/* another filesystem, RAID, partition table ... */
	STORAGE_FORMAT_UNKNOWN, /* data of an unknown kind */
	STORAGE_FORMATS
};

enum { STORAGE_HEAD_BYTES = 1 << 20 }; /* the first bytes of a device, which decide whether it is empty */

const char *storage_format_name(enum storage_format format); /* "none", "xfs", "damaged-xfs", "other", "unknown" */

struct storage_contents {
	enum storage_format format;
	struct provider_signature signature;
	char damage[STORAGE_TEXT_BYTES_MAX]; /* of DAMAGED: the kind of damage, or "" */
};

/*
 * Determine the format by the signature and the first `head_bytes` (at most STORAGE_HEAD_BYTES, fewer on a smaller device).
 */
void storage_judge_contents(const struct provider_signature *signature, const uint8_t *head, size_t head_bytes,
			    struct storage_contents *contents_ret);

/*
 * Read the signature. An XFS without its superblock has no signature; its type is "damaged xfs, see xfs_repair" here, so
 * that it does not count as free. -errno. Blocks. Any thread.
 */
MUST_CHECK int storage_read_signature(struct provider *provider, int fd, struct provider_signature *signature_ret);

/* Read the contents of the open device. Errors (explained): of reading; -ENOMEM. Blocks. Any thread. */
MUST_CHECK int storage_read_contents(struct provider *provider, int fd, const char *path,
				     struct storage_contents *contents_ret, struct fathom_fault *why);

#endif
