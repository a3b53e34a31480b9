/* SPDX-License-Identifier: BSD-2-Clause */
/* Controllers and block devices, as sysfs lists them; connecting and disconnecting by the calls of the host. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/text.h"
#include "control/attach/attach.h"
#include "control/fault/fault.h"

enum { SECTOR_BYTES = 512, LOOK_MS = 50, ATTRIBUTE_BYTES = 256, ASK_AFTER_PART = 5 /* of the wait for udev */ };

#define UDEV_CONTROL "/run/udev/control"

static void sleep_ms(unsigned int ms)
{
	(void)usleep(ms * 1000); /* an early return only makes the next look earlier */
}

/* ---- sysfs ---- */

static bool read_attribute(struct attach_host *host, const char *class, const char *name, const char *attribute,
			   char text[static ATTRIBUTE_BYTES])
{
	char path[PROVIDER_PATH_BYTES_MAX];

	if (snprintf(path, sizeof(path), "/sys/%s/%s/%s", class, name, attribute) >= (int)sizeof(path))
		return false;
	return provider_read_text(host->os, path, text, ATTRIBUTE_BYTES) >= 0;
}

/* "nvme0n1": of a namespace that hosts use, not of one of its paths ("nvme0c1n1"). */
static bool is_namespace_name(const char *name)
{
	const char *at = name + 4;

	if (strncmp(name, "nvme", 4) != 0 || !isdigit((unsigned char)*at))
		return false;
	at += strspn(at, "0123456789");
	if (*at != 'n' || !isdigit((unsigned char)at[1]))
		return false;
	at++;
	return at[strspn(at, "0123456789")] == '\0';
}

struct device_search {
	struct attach_host *host;
	const char *uuid;
	struct attach_device *device;
};

static int look_at_device(void *ctx, const char *name)
{
	struct device_search *search = ctx;
	char text[ATTRIBUTE_BYTES];
	uint64_t sectors;

	if (!is_namespace_name(name) || strlen(name) + sizeof("/dev/") > ATTACH_DEVICE_BYTES)
		return 0;
	if (!read_attribute(search->host, "block", name, "uuid", text) || strcasecmp(text, search->uuid) != 0)
		return 0;
	if (!read_attribute(search->host, "block", name, "size", text) ||
	    text_parse_u64(text, 10, UINT64_MAX / 512, &sectors) != 0)
		return 0;
	snprintf(search->device->path, ATTACH_DEVICE_BYTES, "/dev/%.20s", name);
	search->device->bytes = sectors * SECTOR_BYTES;
	return 1;
}

int attach_find(struct attach_host *host, const char *uuid, struct attach_device *device_ret)
{
	struct device_search search = { host, uuid, device_ret };

	return host->os->calls->list(host->os, "/sys/block", look_at_device, &search) == 1 ? 0 : -ENOENT;
}

/* Controllers of a subsystem; with `address`, only those that are connected to it. */
struct controller_walk {
	struct attach_host *host;
	const char *nqn, *address;
	bool only_live, remove;
	int error; /* the first */
	size_t count;
};

/* The driver has "traddr=10.0.2.2,trsvcid=4420,src_addr=..."; `address` is "10.0.2.2:4420" or "[fd00::1]:4420". */
static bool has_address(const char *text, const char *address)
{
	char wanted[ATTRIBUTE_BYTES];
	const char *colon = strrchr(address, ':');
	bool is_v6 = address[0] == '[';
	size_t bytes;

	must(colon);
	bytes = (size_t)(colon - address) - (is_v6 ? 2 : 0);
	snprintf(wanted, sizeof(wanted), "traddr=%.*s,trsvcid=%s", (int)bytes, address + (is_v6 ? 1 : 0), colon + 1);
	bytes = strlen(wanted);
	return strncmp(text, wanted, bytes) == 0 && (text[bytes] == '\0' || text[bytes] == ',');
}

static int look_at_controller(void *ctx, const char *name)
{
	struct controller_walk *walk = ctx;
	char text[ATTRIBUTE_BYTES];
	int error;

	if (!read_attribute(walk->host, "class/nvme", name, "subsysnqn", text) || strcmp(text, walk->nqn) != 0)
		return 0;
	if (walk->address &&
	    (!read_attribute(walk->host, "class/nvme", name, "address", text) || !has_address(text, walk->address)))
		return 0;
	if (walk->only_live &&
	    (!read_attribute(walk->host, "class/nvme", name, "state", text) || strcmp(text, "live") != 0))
		return 0;
	walk->count++;
	if (!walk->remove)
		return 0;
	error = walk->host->disconnect(walk->host, name);
	walk->error = walk->error ? walk->error : error;
	return 0;
}

static void walk_controllers(struct controller_walk *walk)
{
	int result = walk->host->os->calls->list(walk->host->os, "/sys/class/nvme", look_at_controller, walk);

	maybe(result < 0); /* without the driver there is no such folder, and no controller */
}

size_t attach_controllers(struct attach_host *host, const char *nqn)
{
	struct controller_walk walk = { .host = host, .nqn = nqn };

	walk_controllers(&walk);
	return walk.count;
}

size_t attach_live_controllers(struct attach_host *host, const char *nqn)
{
	struct controller_walk walk = { .host = host, .nqn = nqn, .only_live = true };

	walk_controllers(&walk);
	return walk.count;
}

/* ---- connecting ---- */

static bool is_connected(struct attach_host *host, const char *nqn, const char *address)
{
	struct controller_walk walk = { .host = host, .nqn = nqn, .address = address };

	walk_controllers(&walk);
	return walk.count > 0;
}

static bool is_address(const char *address)
{
	const char *colon = strrchr(address, ':');

	return colon && colon > address && colon[1] && (address[0] != '[' || (colon > address + 2 && colon[-1] == ']'));
}

/* 0: at least one address is connected. */
static int connect_addresses(struct attach_host *host, const struct attach_record *record,
			     const struct attach_options *options, struct fathom_fault *why)
{
	size_t connected = 0;
	int error = -ENOENT;

	if (record->address_count == 0)
		return fault_connect_failed(why, record->name, "no address", "its engine has none");
	for (size_t i = 0; i < record->address_count; i++) {
		const char *address = record->addresses[i];

		if (!is_address(address))
			error = fault_connect_failed(why, record->name, address, "it is not ADDRESS:PORT");
		else if (is_connected(host, record->nqn, address) ||
			 (error = host->connect(host, record, address, options, why)) == 0)
			connected++;
	}
	return connected > 0 ? 0 : error;
}

int attach_connect(struct attach_host *host, const struct attach_record *record, const struct attach_options *options,
		   struct attach_device *device_ret, struct fathom_fault *why)
{
	uint64_t end_ns = clock_monotonic_ns() + options->wait_ns;
	int error = connect_addresses(host, record, options, why);

	if (error)
		return error;
	while (attach_find(host, record->uuid, device_ret) != 0) {
		if (clock_monotonic_ns() >= end_ns)
			return fault_device_missing(why, record->name, record->uuid);
		sleep_ms(LOOK_MS);
	}
	return 0;
}

int attach_disconnect(struct attach_host *host, const struct attach_record *record, bool force, struct fathom_fault *why)
{
	struct controller_walk walk = { .host = host, .nqn = record->nqn, .remove = true };
	struct attach_device device;

	if (!force && attach_find(host, record->uuid, &device) == 0 && host->is_in_use(host, device.path))
		return fault_attachment_in_use(why, record->name, device.path);
	walk_controllers(&walk);
	return walk.error ? fault(why, walk.error, "a connection of %s cannot be removed: %s", record->name,
				  strerror(-walk.error))
			  : 0;
}

/* ---- names ---- */

void attach_link_path(const char *name, char link_ret[static ATTACH_LINK_BYTES])
{
	must(attach_name_is_valid(name));
	must(snprintf(link_ret, ATTACH_LINK_BYTES, ATTACH_LINKS "/%s", name) < ATTACH_LINK_BYTES);
}

static bool leads_to(const char *link, const char *device)
{
	struct stat of_link, of_device;

	return stat(link, &of_link) == 0 && stat(device, &of_device) == 0 && S_ISBLK(of_link.st_mode) &&
	       of_link.st_rdev == of_device.st_rdev;
}

/* Make the folders of the link, and the link. */
static bool make_link(const char *link, const char *device)
{
	char folder[ATTACH_LINK_BYTES], *slash;

	(void)text_copy(folder, sizeof(folder), link); /* the same size */
	slash = strrchr(folder, '/');
	must(slash);
	*slash = '\0';
	if (mkdir(ATTACH_LINKS, 0755) != 0 && errno != EEXIST)
		return false;
	if (mkdir(folder, 0755) != 0 && errno != EEXIST)
		return false;
	if (unlink(link) != 0 && errno != ENOENT)
		return false;
	return symlink(device, link) == 0;
}

/* Let the kernel report the device to udev again. */
static void ask_udev(const char *device)
{
	char path[PROVIDER_PATH_BYTES_MAX];
	ssize_t bytes;
	int fd;

	must(snprintf(path, sizeof(path), "/sys/block/%s/uevent", device + strlen("/dev/")) < (int)sizeof(path));
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return; /* the device has gone; attach_link_make() reports that there is no link */
	bytes = write(fd, "change", strlen("change"));
	maybe(bytes < 0);
	close(fd);
}

bool attach_link_make(const char *link, const char *device, uint64_t wait_ns)
{
	uint64_t start_ns = clock_monotonic_ns();
	bool has_asked = false;

	if (access(UDEV_CONTROL, F_OK) != 0 && !leads_to(link, device))
		return make_link(link, device) && leads_to(link, device);
	while (!leads_to(link, device)) {
		uint64_t waited_ns = clock_monotonic_ns() - start_ns;

		if (waited_ns >= wait_ns)
			return false;
		/* a device that was connected before its record was written, as by `nvme connect`, got no name then */
		if (!has_asked && waited_ns >= wait_ns / ASK_AFTER_PART)
			ask_udev(device);
		has_asked = waited_ns >= wait_ns / ASK_AFTER_PART;
		sleep_ms(LOOK_MS);
	}
	return true;
}

void attach_link_remove(const char *link)
{
	struct stat status;

	if (access(UDEV_CONTROL, F_OK) != 0 && lstat(link, &status) == 0 && S_ISLNK(status.st_mode))
		(void)unlink(link); /* a link that stays leads nowhere, and is replaced by the next attach */
}
