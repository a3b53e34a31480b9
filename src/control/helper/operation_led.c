/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lamp that helps to find a drive, where the kernel has a file for it:
 *
 *	/sys/block/sda/device/enclosure_device:SLOT/locate	SCSI and SATA: the drive's slot of an enclosure
 *	/sys/bus/pci/slots/SLOT/attention			NVMe: the hot-plug slot with the drive's PCI address
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "control/fault/fault.h"
#include "control/helper/operations_internal.h"

static const char enclosure[] = "enclosure_device:";

/* The search for the file of a lamp. */
struct led_search {
	struct provider *provider;
	const struct storage_device *device;
	char path[PROVIDER_PATH_BYTES_MAX]; /* "": not found */
};

static int note_enclosure(void *ctx, const char *name)
{
	struct led_search *search = ctx;

	if (strncmp(name, enclosure, sizeof(enclosure) - 1) != 0)
		return 0;
	return snprintf(search->path, sizeof(search->path), "/sys/block/%s/device/%s/locate", search->device->name, name) <
			       (int)sizeof(search->path)
		       ? 1
		       : -ENAMETOOLONG;
}

/* The address of a slot lacks the function: "0000:81:00". */
static int note_slot(void *ctx, const char *name)
{
	struct led_search *search = ctx;
	char path[PROVIDER_PATH_BYTES_MAX], address[32];
	size_t length;

	if (snprintf(path, sizeof(path), "/sys/bus/pci/slots/%s/address", name) >= (int)sizeof(path) ||
	    provider_read_text(search->provider, path, address, sizeof(address)) != 0)
		return 0;
	length = strlen(address);
	if (length == 0 || strncmp(search->device->pci_address, address, length) != 0 ||
	    search->device->pci_address[length] != '.')
		return 0;
	must(snprintf(search->path, sizeof(search->path), "/sys/bus/pci/slots/%s/attention", name) <
	     (int)sizeof(search->path)); /* as long as `path` */
	return 1;
}

static int find_led(struct helper_job *job, struct led_search *search)
{
	char folder[PROVIDER_PATH_BYTES_MAX];
	int found;

	must(snprintf(folder, sizeof(folder), "/sys/block/%s/device", job->facts.name) < (int)sizeof(folder));
	found = job->provider->calls->list(job->provider, folder, note_enclosure, search);
	if (found != 1 && job->facts.pci_address[0])
		found = job->provider->calls->list(job->provider, "/sys/bus/pci/slots", note_slot, search);
	return found == 1 ? 0 : fault_led_absent(&job->why, job->facts.path);
}

static int write_led(struct helper_job *job, const char *path, bool on)
{
	int fd = job->provider->calls->open(job->provider, path, O_WRONLY, 0, false);
	ssize_t put;

	if (fd < 0)
		return fd;
	put = job->provider->calls->write_at(job->provider, fd, on ? "1" : "0", 1, 0);
	job->provider->calls->close_fd(job->provider, fd);
	return put < 0 ? (int)put : 0;
}

int helper_switch_led(struct helper_job *job)
{
	struct led_search search = { .provider = job->provider, .device = &job->facts };
	uint32_t flags = job->request->flags;
	int error = find_led(job, &search);
	int64_t state;

	if (error)
		return error;
	if (flags & (HELPER_FLAG_ON | HELPER_FLAG_OFF))
		error = write_led(job, search.path, (flags & HELPER_FLAG_ON) != 0);
	if (!error)
		error = provider_read_number(job->provider, search.path, &state);
	if (error == -ENOENT || error == -EINVAL) /* a slot without a lamp; one of ACPI, which cannot switch it */
		return fault_led_absent(&job->why, job->facts.path);
	if (error)
		return fault(&job->why, error, "%s: the lamp cannot be switched: %s: %s", job->facts.path, search.path,
			     strerror(-error));
	job->reply->led = state != 0;
	return 0;
}
