/* SPDX-License-Identifier: BSD-2-Clause */
/* Sends firmware to NVMe devices: Firmware Image Download in pieces, then Firmware Commit. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "control/fault/fault.h"
#include "control/storage/health.h"
#include "data/nvme/names.h"
#include "data/nvme/opcode.h"
#include "data/nvme/status.h"

enum {
	DOWNLOAD_MS = 60000,
	COMMIT_MS = 300000,
	COMMIT_REPLACE = 1, /* store in the slot, and activate at the next reset */
	COMMIT_ACTION_SHIFT = 3,
	STATUS_MASK = 0x7ff,
	PIECE_BYTES = 4096,	/* if the controller has no restriction */
	PIECE_BYTES_MAX = 65536 /* no controller must take more in one command */
};

int storage_firmware_check(const struct storage_firmware *firmware, const char *path, uint32_t slot,
			   struct fathom_fault *why)
{
	char reason[64];

	must(firmware->slot_count >= 1 && firmware->slot_count <= STORAGE_SLOTS_MAX);
	if (!firmware->can_update)
		return fault_firmware_unsupported(why, path, "its controller has no commands for firmware");
	if (firmware->slot_count == 1 && firmware->is_first_read_only)
		return fault_firmware_unsupported(why, path, "its only slot cannot be written");
	if (slot == 1 && firmware->is_first_read_only)
		return fault_firmware_unsupported(why, path, "its slot 1 cannot be written");
	if (slot <= firmware->slot_count)
		return 0;
	snprintf(reason, sizeof(reason), "it has no slot %u", slot);
	return fault_firmware_unsupported(why, path, reason);
}

/* What failed, by an errno or the status of the controller. */
static int explain_refusal(struct fathom_fault *why, const char *path, const char *what, int status)
{
	char reason[STORAGE_CONDITION_TEXT_BYTES];

	must(status != 0);
	if (status < 0)
		return fault(why, status, "%s: %s failed: %s", path, what, strerror(-status));
	snprintf(reason, sizeof(reason), "%s: %s", what, nvme_status_name((uint16_t)(status & STATUS_MASK)));
	return fault_firmware_refused(why, path, reason);
}

static int send_pieces(struct provider *provider, int fd, const char *path, const struct storage_image *image,
		       struct fathom_fault *why)
{
	uint32_t piece_bytes = image->piece_bytes < PIECE_BYTES ? PIECE_BYTES : image->piece_bytes;
	uint8_t piece[PIECE_BYTES_MAX];

	if (piece_bytes > PIECE_BYTES_MAX)
		return fault_firmware_unsupported(why, path, "it wants pieces of more than 64 KiB");
	must(piece_bytes % 4 == 0);
	for (uint32_t at = 0; at < image->count; at += piece_bytes) {
		uint32_t bytes = (uint32_t)min_u64(piece_bytes, image->count - at);
		const struct provider_nvme command = {
			.opcode = NVME_ADMIN_FIRMWARE_DOWNLOAD,
			.cdw10 = bytes / 4 - 1,
			.cdw11 = at / 4,
			.data = piece,
			.bytes = bytes,
			.timeout_ms = DOWNLOAD_MS,
		};
		int status;

		memcpy(piece, image->bytes + at, bytes);
		status = provider->calls->nvme_admin(provider, fd, &command);
		if (status)
			return explain_refusal(why, path, "Firmware Image Download", status);
	}
	return 0;
}

int storage_nvme_update(struct provider *provider, int fd, const char *path, const struct storage_image *image,
			enum storage_activation *activation_ret, struct fathom_fault *why)
{
	const struct provider_nvme commit = {
		.opcode = NVME_ADMIN_FIRMWARE_COMMIT,
		.cdw10 = image->slot | COMMIT_REPLACE << COMMIT_ACTION_SHIFT,
		.timeout_ms = COMMIT_MS,
	};
	int error, status;

	must(image->count > 0 && image->count % 4 == 0 && image->count <= STORAGE_IMAGE_BYTES_MAX);
	must(image->slot <= STORAGE_SLOTS_MAX);
	error = send_pieces(provider, fd, path, image, why);
	if (error)
		return error;
	status = provider->calls->nvme_admin(provider, fd, &commit);
	switch (status < 0 ? status : status & STATUS_MASK) {
	case 0:
	case NVME_SC_FIRMWARE_NEEDS_RESET:
		*activation_ret = STORAGE_ACTIVE_AT_RESET;
		return 0;
	case NVME_SC_FIRMWARE_NEEDS_SUBSYSTEM_RESET:
		*activation_ret = STORAGE_ACTIVE_AT_SUBSYSTEM_RESET;
		return 0;
	case NVME_SC_FIRMWARE_NEEDS_CONVENTIONAL_RESET:
		*activation_ret = STORAGE_ACTIVE_AT_POWER_CYCLE;
		return 0;
	default:
		return explain_refusal(why, path, "Firmware Commit", status);
	}
}
