/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * attach - volumes as block devices of this host: the records of what is attached, and the calls to the kernel's driver.
 *
 *     STATE/attachments/UUID.json     the persistent ones: attached again after a boot
 *     RUN/attachments/UUID.json       the temporary ones: forgotten at the next boot
 *     /dev/fathom/POOL/VOLUME         by a udev rule, which asks `fathom-agent udev-name UUID`; without udev by the agent
 *
 * One writer, the agent; udev's program reads. A record is replaced by rename: a reader sees an old or a new one. It is
 * written before the kernel connects, and removed after the volume was unpublished: what a killed agent leaves is begun
 * or ended by the next one. A record that is not valid is reported, and left. The names of files are UUIDs, because udev
 * knows nothing else of a device.
 *
 * All functions block; any thread. A connection outlives the agent: the kernel has it, and connects again for ever
 * (ctrl_loss_tmo -1), so that a volume's I/O waits for its engine and does not fail.
 */
#ifndef CONTROL_ATTACH_ATTACH_H
#define CONTROL_ATTACH_ATTACH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"
#include "base/must.h"
#include "control/provider/provider.h"

enum {
	ATTACH_NAME_BYTES = 256, /* "POOL/VOLUME", with the NUL */
	ATTACH_UUID_BYTES = 37,
	ATTACH_NQN_BYTES = 224,
	ATTACH_ADDRESS_BYTES = 64,
	ATTACH_ADDRESSES_MAX = 16,
	ATTACH_DEVICE_BYTES = 32, /* "/dev/nvme0n1" */
	ATTACH_LINK_BYTES = 320,
	ATTACH_PATH_BYTES = 4352,
	ATTACH_RECORDS_MAX = 4096,
};

#define ATTACH_LINKS "/dev/fathom"

struct attach_record {
	char name[ATTACH_NAME_BYTES];
	char uuid[ATTACH_UUID_BYTES]; /* in lower case */
	char nqn[ATTACH_NQN_BYTES];
	char addresses[ATTACH_ADDRESSES_MAX][ATTACH_ADDRESS_BYTES];
	size_t address_count;
	bool is_detaching; /* a detach has begun, and is to be ended */
};

/* ---- records ---- */

/* Whether `name` is POOL/VOLUME of characters that a file name may have. */
bool attach_name_is_valid(const char *name);
/*
 * Make `folder` if it is missing. Errors (explained): it cannot be made; another user owns it or may write there (-EPERM),
 * who could then choose what this host attaches.
 */
MUST_CHECK int attach_folder_prepare(const char *folder, struct fathom_fault *why);
/* Durable when it returns. Errors (explained): of writing. */
MUST_CHECK int attach_record_write(const char *folder, const struct attach_record *record, struct fathom_fault *why);
/* Durable when it returns. 0 also if there is none. */
MUST_CHECK int attach_record_remove(const char *folder, const char *uuid, struct fathom_fault *why);
/* Read the record of a volume. Errors (explained): -ENOENT, -EBADMSG (attachment_record_bad), others of reading. */
MUST_CHECK int attach_record_read(const char *folder, const char *uuid, struct attach_record *record_ret,
				  struct fathom_fault *why);
/*
 * Call `each` for all records, and `bad` for those that cannot be read, with the reason. Errors (explained): the folder
 * cannot be read.
 */
MUST_CHECK int attach_records_read(const char *folder, void (*each)(void *ctx, const struct attach_record *record),
				   void (*bad)(void *ctx, const struct fathom_fault *why), void *ctx,
				   struct fathom_fault *why);

/* ---- the kernel's driver ---- */

struct attach_options {
	char host_nqn[ATTACH_NQN_BYTES], host_id[ATTACH_UUID_BYTES]; /* host_id "": the driver's */
	uint32_t reconnect_delay_s, keep_alive_s;
	uint32_t io_queues; /* 0: the driver's default */
	bool header_digest, data_digest;
	uint64_t wait_ns; /* for the block device */
};

/* Connections of the driver; tests replace it. */
struct attach_host {
	struct provider *os; /* /sys and /dev */
	/* Connect one controller. Errors (explained): driver_missing, connect_failed. */
	int (*connect)(struct attach_host *host, const struct attach_record *record, const char *address,
		       const struct attach_options *options, struct fathom_fault *why);
	/* Remove the controller of this name, "nvme0". Errors: -errno. */
	int (*disconnect)(struct attach_host *host, const char *controller);
	/* Whether the block device is mounted, or held in another way. */
	bool (*is_in_use)(struct attach_host *host, const char *device);
};

/* The kernel of this host, by libnvme. A single object. */
struct attach_host *attach_host_system(void);

struct attach_device {
	char path[ATTACH_DEVICE_BYTES]; /* "/dev/nvme0n1" */
	uint64_t bytes;
};

/* The block device of a volume. Errors: -ENOENT. */
MUST_CHECK int attach_find(struct attach_host *host, const char *uuid, struct attach_device *device_ret);
/*
 * Connect the addresses of the record that are not connected; one suffices. Then wait for the block device. Errors
 * (explained): connect_failed of the last address, device_missing.
 */
MUST_CHECK int attach_connect(struct attach_host *host, const struct attach_record *record,
			      const struct attach_options *options, struct attach_device *device_ret,
			      struct fathom_fault *why);
/* Remove all controllers of the record's subsystem. Errors (explained): device_in_use, unless `force`. */
MUST_CHECK int attach_disconnect(struct attach_host *host, const struct attach_record *record, bool force,
				 struct fathom_fault *why);
/* The number of controllers of this subsystem; of those whose connection works. */
size_t attach_controllers(struct attach_host *host, const char *nqn);
size_t attach_live_controllers(struct attach_host *host, const char *nqn);

/* ---- names ---- */

/* "/dev/fathom/POOL/VOLUME" */
void attach_link_path(const char *name, char link_ret[static ATTACH_LINK_BYTES]);
/*
 * Wait until udev has made the link to `device`, and ask udev for it if it does not; without udev, make it. True: it is
 * there. `link` is its path.
 */
bool attach_link_make(const char *link, const char *device, uint64_t wait_ns);
/* Without udev, remove it. */
void attach_link_remove(const char *link);

/*
 * Read this host's NQN, and its identifier if there is one. Errors (explained): host_nqn_missing.
 */
MUST_CHECK int attach_read_host(const char *nqn_file, const char *id_file, struct attach_options *options,
				struct fathom_fault *why);

#endif
