/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * health - the health of a device, decoded from what its controller answers, and what an operator must know of it.
 *
 * An NVMe controller answers three admin commands: Identify, and the log pages SMART and Firmware Slot. Their first bytes
 * are a struct storage_nvme_pages. Pure: no I/O, no clock.
 */
#ifndef CONTROL_STORAGE_HEALTH_H
#define CONTROL_STORAGE_HEALTH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/fault.h"
#include "control/provider/provider.h"
#include "control/storage/storage.h"

enum {
	STORAGE_IDENTIFY_BYTES = 320, /* of Identify Controller, up to the update granularity of its firmware */
	STORAGE_SMART_BYTES = 216,    /* of the SMART log, up to its sensors */
	STORAGE_SLOTS_BYTES = 64,     /* of the Firmware Slot log, all slots */
	STORAGE_SLOTS_MAX = 7,
	STORAGE_REVISION_BYTES = 9, /* of firmware, with the NUL */
	STORAGE_COOLER_K = 3,	    /* a device is hot until it is so much cooler than its threshold */
};

struct storage_nvme_pages {
	uint8_t identify[STORAGE_IDENTIFY_BYTES], smart[STORAGE_SMART_BYTES], slots[STORAGE_SLOTS_BYTES];
};

/* What is wrong with a device. */
enum storage_condition {
	STORAGE_SPARE_LOW,     /* the spare blocks are below the threshold */
	STORAGE_HOT,	       /* above the temperature threshold, or below the lower one */
	STORAGE_UNRELIABLE,    /* many errors of the medium or inside the device */
	STORAGE_READ_ONLY,     /* the medium takes no writes */
	STORAGE_BACKUP_FAILED, /* the backup of volatile memory failed */
	STORAGE_WORN,	       /* the estimated life is used up */
	STORAGE_CONDITIONS
};

/* The figures of a device. A counter of more than 64 bits is UINT64_MAX. */
struct storage_health {
	uint32_t conditions;			       /* a bit for each enum storage_condition */
	uint32_t temperature_k;			       /* Kelvin; 0: not reported */
	uint32_t warning_k, critical_k;		       /* thresholds of temperature; 0: not reported */
	uint32_t spare_percent, spare_minimum_percent; /* spare blocks, and their threshold */
	uint32_t used_percent;			       /* of the estimated life; may exceed 100; 255: 255 or more */
	uint64_t read_bytes, written_bytes;	       /* by hosts, to about 512 kB */
	uint64_t read_commands, write_commands;
	uint64_t busy_minutes, power_cycles, power_on_hours, unsafe_shutdowns;
	uint64_t media_errors, error_entries;
	uint32_t warning_minutes, critical_minutes; /* above these temperatures */
};

/* The firmware of a controller. */
struct storage_firmware {
	bool can_update;					   /* it has the commands for that */
	bool is_first_read_only;				   /* slot 1 */
	bool without_reset;					   /* it can activate an image at once */
	uint32_t slot_count;					   /* 1 to STORAGE_SLOTS_MAX */
	uint32_t active, next;					   /* slots, from 1; next: at the next reset, 0: the same */
	uint32_t piece_bytes;					   /* an image is sent in pieces of a multiple of this */
	char revisions[STORAGE_SLOTS_MAX][STORAGE_REVISION_BYTES]; /* "": an empty slot */
};

/* Decode the pages. Errors: -EBADMSG (explained): they contradict the specification. */
MUST_CHECK int storage_health_decode(const struct storage_nvme_pages *pages, struct storage_health *health_ret,
				     struct storage_firmware *firmware_ret, struct fathom_fault *why);

/* The conditions of a reading, given the conditions of the reading before: a hot device must cool down, see above. */
uint32_t storage_health_judge(const struct storage_health *health, uint32_t before);

/* "spare-low", "hot" ..., for programs. */
const char *storage_condition_name(enum storage_condition condition);
/* The condition with its figures: "its temperature is 75 C, above its threshold of 70 C". Returns `text`. */
const char *storage_condition_text(const struct storage_health *health, enum storage_condition condition, char *text,
				   size_t bytes);

enum { STORAGE_CONDITION_TEXT_BYTES = 96 };

/* Celsius, from Kelvin, as DAOS's tools round it. */
int32_t storage_celsius(uint32_t kelvin);

/* ---- reading: one thread, blocks ---- */

/*
 * Read the pages of the open NVMe device. Errors (explained; `path` is its name): of the ioctl; -EIO: the controller
 * refused a command; -ENOTTY: no NVMe device.
 */
MUST_CHECK int storage_nvme_read(struct provider *provider, int fd, const char *path, struct storage_nvme_pages *pages_ret,
				 struct fathom_fault *why);

/* When a stored image becomes active. */
enum storage_activation {
	STORAGE_ACTIVE_AT_RESET,	   /* of the controller, most often a restart of the host */
	STORAGE_ACTIVE_AT_SUBSYSTEM_RESET, /* of all its controllers, most often a power cycle of the host */
	STORAGE_ACTIVE_AT_POWER_CYCLE,	   /* of the drive */
	STORAGE_ACTIVATIONS
};

enum { STORAGE_IMAGE_BYTES_MAX = 64 << 20 };

struct storage_image {
	const uint8_t *bytes;
	uint32_t count;	      /* a multiple of four, up to STORAGE_IMAGE_BYTES_MAX */
	uint32_t slot;	      /* 0: the controller chooses one */
	uint32_t piece_bytes; /* of struct storage_firmware */
};

/* Whether an image may be stored in `slot`. Errors: firmware_unsupported. */
MUST_CHECK int storage_firmware_check(const struct storage_firmware *firmware, const char *path, uint32_t slot,
				      struct fathom_fault *why);
/*
 * Send an image to the open device, in pieces of its `piece_bytes`, and store it in its slot, which must have been checked.
 * It is never activated at once. Errors (explained; `path` is the device's name): firmware_refused: the active firmware is
 * as before; those of the ioctl.
 */
MUST_CHECK int storage_nvme_update(struct provider *provider, int fd, const char *path, const struct storage_image *image,
				   enum storage_activation *activation_ret, struct fathom_fault *why);

/* What the kernel knows of a device. */
struct storage_kernel_health {
	uint32_t temperature_k;			   /* of SCSI and SATA devices; 0: not known */
	uint64_t io_errors;			   /* the same: failed I/Os, since the kernel knows the device */
	uint32_t link_speed_mt, link_speed_max_mt; /* of PCIe, in millions of transfers a second; 0: not known */
	uint32_t link_width, link_width_max;
};

/* What cannot be read is 0. */
void storage_kernel_read(struct provider *provider, const struct storage_device *device,
			 struct storage_kernel_health *health_ret);

enum { STORAGE_STACK_MAX = 8 };

typedef void (*storage_below_fn)(void *ctx, const struct storage_device *device);
/*
 * Visit the whole device of `device`, and all devices below it, up to STORAGE_STACK_MAX: those of a RAID, of LVM, of
 * dm-crypt. A device may be visited several times.
 */
void storage_visit_below(struct provider *provider, const struct storage_scan *scan, const struct storage_device *device,
			 storage_below_fn visit, void *ctx);

#endif
