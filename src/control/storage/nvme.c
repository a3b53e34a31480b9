/* SPDX-License-Identifier: BSD-2-Clause */
/* Admin commands to NVMe devices. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "control/fault/fault.h"
#include "control/storage/health.h"
#include "data/nvme/identify.h"
#include "data/nvme/log.h"
#include "data/nvme/names.h"
#include "data/nvme/opcode.h"

enum { READ_TIMEOUT_MS = 10000, STATUS_MASK = 0x7ff /* type and code; above: retry and more */ };

static int explain_refusal(struct fathom_fault *why, const char *path, const char *what, int status)
{
	char reason[STORAGE_CONDITION_TEXT_BYTES];

	if (status < 0)
		snprintf(reason, sizeof(reason), "%s: %s", what, strerror(-status));
	else
		snprintf(reason, sizeof(reason), "%s: %s", what, nvme_status_name((uint16_t)(status & STATUS_MASK)));
	if (status == -ENOTTY)
		return fault(why, status, "%s is no NVMe device", path);
	return fault_device_unreadable(why, path, reason);
}

static int read_page(struct provider *provider, int fd, enum nvme_log_page page, void *to, uint32_t bytes)
{
	const struct provider_nvme command = {
		.opcode = NVME_ADMIN_GET_LOG_PAGE,
		.nsid = UINT32_MAX, /* the controller's own */
		.cdw10 = (uint32_t)page | (bytes / 4 - 1) << NVME_LOG_CDW10_NUMDL_SHIFT,
		.data = to,
		.bytes = bytes,
		.timeout_ms = READ_TIMEOUT_MS,
	};

	must(bytes > 0 && bytes % 4 == 0);
	return provider->calls->nvme_admin(provider, fd, &command);
}

int storage_nvme_read(struct provider *provider, int fd, const char *path, struct storage_nvme_pages *pages_ret,
		      struct fathom_fault *why)
{
	uint8_t identify[NVME_IDENTIFY_BYTES] = { 0 }, page[sizeof(struct nvme_log_smart)] = { 0 };
	const struct provider_nvme command = {
		.opcode = NVME_ADMIN_IDENTIFY,
		.cdw10 = NVME_CNS_CONTROLLER,
		.data = identify,
		.bytes = sizeof(identify),
		.timeout_ms = READ_TIMEOUT_MS,
	};
	struct storage_nvme_pages pages = { 0 };
	int status = provider->calls->nvme_admin(provider, fd, &command);

	if (status)
		return explain_refusal(why, path, "Identify", status);
	memcpy(pages.identify, identify, sizeof(pages.identify));
	status = read_page(provider, fd, NVME_LOG_SMART, page, sizeof(page));
	if (status)
		return explain_refusal(why, path, "the SMART log", status);
	memcpy(pages.smart, page, sizeof(pages.smart));
	status = read_page(provider, fd, NVME_LOG_FIRMWARE_SLOT, page, sizeof(page));
	if (status < 0)
		return explain_refusal(why, path, "the Firmware Slot log", status);
	if (status == 0) /* a controller of a network has none */
		memcpy(pages.slots, page, sizeof(pages.slots));
	*pages_ret = pages;
	return 0;
}
