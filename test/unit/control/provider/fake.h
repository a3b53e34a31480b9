/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fake - an operating system in a folder: what a `struct provider` shows to those that scan, mount and format.
 *
 * Files are real ones below a folder of the test's own: the test writes those of /sys, /proc and /dev. A file below /dev
 * is a block device of the number that /sys/class/block/NAME/dev says. A test sets what libblkid finds; mounting adds a
 * line to /proc/self/mountinfo there and gives the folder another st_dev, and unmounting takes both back; programs are not
 * run, but noted.
 */
#ifndef TEST_UNIT_CONTROL_PROVIDER_FAKE_H
#define TEST_UNIT_CONTROL_PROVIDER_FAKE_H

#include "control/provider/provider.h"
#include "control/storage/health.h"

enum { FAKE_NVME_COMMANDS = 5 };
enum { FAKE_SIGNATURES_MAX = 16, FAKE_ADDRESSES_MAX = 16, FAKE_COMMAND_BYTES_MAX = 1024 };

struct fake {
	struct provider provider; /* to be passed to the code under test */
	char folder[64];
	struct {
		char path[64]; /* "/dev/sda" */
		int error;
		struct provider_signature signature;
	} signatures[FAKE_SIGNATURES_MAX];
	size_t signature_count;
	struct provider_address addresses[FAKE_ADDRESSES_MAX];
	size_t address_count;

	struct provider_run run; /* the result of the next program */
	char command
		[FAKE_COMMAND_BYTES_MAX]; /* the last command line, its words separated by blanks, then its environment */
	uint32_t run_count, mount_count, unmount_count;
	unsigned long mount_flags;
	void (*on_run)(struct fake *fake); /* called in place of the program; may be NULL */
	uid_t owner_uid;		   /* set by the last change_owner */
	gid_t owner_gid;
	int open_fds; /* descriptors that are open */

	bool is_nvme; /* each device answers NVMe commands with `pages` */
	struct storage_nvme_pages pages;
	uint32_t nvme_count;		     /* commands */
	int nvme_status[FAKE_NVME_COMMANDS]; /* of Identify, the SMART log, the Firmware Slot log, download, commit */
	uint32_t image_bytes, commit_cdw10;  /* downloaded; of the last commit */
};

void fake_begin(struct fake *fake);
/* Removes the folder. Fails the test if a descriptor is still open. */
void fake_end(struct fake *fake);

/* Make a file or a link at `path` ("/sys/..."), and the folders above it. */
void fake_file(struct fake *fake, const char *path, const char *text);
void fake_bytes(struct fake *fake, const char *path, const void *data, size_t bytes);
void fake_link(struct fake *fake, const char *path, const char *to);
void fake_folder(struct fake *fake, const char *path);

/*
 * Make a block device: its folder `place` below /sys/devices, the link to it from /sys/block, and a sparse file in /dev.
 * fake_attribute() writes attributes in sysfs ("queue/rotational").
 */
void fake_device(struct fake *fake, const char *name, const char *place, unsigned int major, unsigned int minor,
		 uint64_t sectors);
void fake_attribute(struct fake *fake, const char *name, const char *file, const char *text);
/*
 * Make a network interface in /sys/devices/`place`/net, with its `type` ("1
 * ": Ethernet), `state` and `speed`; and an address of an interface (`name` is borrowed).
 */
void fake_interface(struct fake *fake, const char *name, const char *place, const char *type, const char *state,
		    const char *speed);
void fake_address(struct fake *fake, const char *name, const char *text, unsigned int prefix_bits);
/* From now on all devices are NVMe devices, which answer with these pages. */
void fake_nvme(struct fake *fake, const struct storage_nvme_pages *pages);
/* Set the signature of a device. */
void fake_signature(struct fake *fake, const char *path, const char *type, const char *usage, const char *label);
void fake_signature_error(struct fake *fake, const char *path, int error);

#endif
