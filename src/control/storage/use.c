/* SPDX-License-Identifier: BSD-2-Clause */
/* The use of a device, and whether it may be overwritten: decisions on scanned facts. Pure. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/text.h"
#include "control/fault/fault.h"
#include "control/storage/internal.h"

enum { MOUNTINFO_ID = 2, MOUNTINFO_PLACE = 4, MOUNTINFO_FIELDS = 6 };

static_assert((int)MOUNTINFO_ID < MOUNTINFO_FIELDS && (int)MOUNTINFO_PLACE < MOUNTINFO_FIELDS, "both are read");

static bool names_device(const struct storage_device *device, const char *id, const char *source)
{
	char own[24];

	snprintf(own, sizeof(own), "%" PRIu32 ":%" PRIu32, device->major, device->minor);
	return strcmp(own, id) == 0 || strcmp(device->path, source) == 0;
}

/* The kernel writes blanks and backslashes in paths as three octal digits. */
static void copy_unescaped(char *to, size_t bytes, const char *from)
{
	size_t used = 0;

	must(bytes > 0);
	while (*from != '\0' && used + 1 < bytes) {
		if (from[0] == '\\' && strspn(from + 1, "01234567") >= 3) {
			to[used++] = (char)((from[1] - '0') << 6 | (from[2] - '0') << 3 | (from[3] - '0'));
			from += 4;
		} else {
			to[used++] = *from++;
		}
	}
	must(used < bytes);
	to[used] = '\0';
}

/* "36 35 98:0 /root /mnt rw,noatime master:1 - ext3 /dev/root rw": the source is the second word behind the lone hyphen. */
static void note_mount(struct storage_scan *scan, char *line)
{
	char *words[MOUNTINFO_FIELDS], *word, *rest = NULL;
	const char *source = "";
	size_t count = 0;

	for (word = strtok_r(line, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
		if (count < MOUNTINFO_FIELDS) {
			words[count++] = word;
		} else if (strcmp(word, "-") == 0) {
			word = strtok_r(NULL, " ", &rest); /* the type */
			word = word ? strtok_r(NULL, " ", &rest) : NULL;
			source = word ? word : "";
			break;
		}
	}
	if (count < MOUNTINFO_FIELDS)
		return;
	for (size_t i = 0; i < scan->count; i++) {
		struct storage_device *device = &scan->devices[i];

		if (!names_device(device, words[MOUNTINFO_ID], source))
			continue;
		if (device->mount_count++ == 0)
			copy_unescaped(device->mounted_at, sizeof(device->mounted_at), words[MOUNTINFO_PLACE]);
	}
}

static void each_line(struct storage_scan *scan, const char *text, void (*note)(struct storage_scan *scan, char *line))
{
	char line[4096];

	while (*text != '\0') {
		size_t bytes = strcspn(text, "\n");

		if (bytes < sizeof(line)) {
			memcpy(line, text, bytes);
			line[bytes] = '\0';
			note(scan, line);
		}
		text += bytes + (text[bytes] == '\n');
	}
}

void storage_note_mounts(struct storage_scan *scan, const char *mountinfo)
{
	each_line(scan, mountinfo, note_mount);
}

static void note_swap(struct storage_scan *scan, char *line)
{
	char path[PROVIDER_NAME_BYTES_MAX];

	line[strcspn(line, " \t")] = '\0';
	copy_unescaped(path, sizeof(path), line);
	for (size_t i = 0; i < scan->count; i++)
		scan->devices[i].swap |= strcmp(scan->devices[i].path, path) == 0;
}

void storage_note_swaps(struct storage_scan *scan, const char *swaps)
{
	each_line(scan, swaps, note_swap);
}

enum storage_use storage_use(const struct storage_device *device)
{
	const struct provider_signature *signature = &device->signature;

	if (device->mount_count > 0)
		return STORAGE_USE_MOUNTED;
	if (device->swap)
		return STORAGE_USE_SWAP;
	if (device->holder_count > 0)
		return STORAGE_USE_HELD;
	if (device->partition_count > 0 || signature->partition_table[0] != '\0')
		return STORAGE_USE_PARTITIONED;
	if (device->read_only)
		return STORAGE_USE_READ_ONLY;
	if (device->use_error || device->signature_error)
		return STORAGE_USE_UNREADABLE;
	if (strcmp(signature->usage, "filesystem") == 0)
		return STORAGE_USE_FILESYSTEM;
	if (strcmp(signature->usage, "raid") == 0)
		return STORAGE_USE_RAID;
	if (signature->type[0] != '\0' || signature->several)
		return STORAGE_USE_OTHER_DATA;
	return STORAGE_USE_FREE;
}

static const char *signature_type(const struct provider_signature *signature)
{
	return signature->several ? "several signatures" : signature->type;
}

void storage_use_text(const struct storage_device *device, char *to, size_t bytes)
{
	const struct provider_signature *signature = &device->signature;

	must(bytes > 0);
	switch (storage_use(device)) {
	case STORAGE_USE_MOUNTED:
		snprintf(to, bytes, "mounted at %s", device->mounted_at);
		return;
	case STORAGE_USE_SWAP:
		snprintf(to, bytes, "used as swap");
		return;
	case STORAGE_USE_HELD:
		snprintf(to, bytes, "held by %s", device->holder);
		return;
	case STORAGE_USE_PARTITIONED:
		snprintf(to, bytes, "has %" PRIu32 " partition%s", device->partition_count,
			 device->partition_count == 1 ? "" : "s");
		return;
	case STORAGE_USE_READ_ONLY:
		snprintf(to, bytes, "read-only");
		return;
	case STORAGE_USE_UNREADABLE:
		snprintf(to, bytes, "could not be read: %s",
			 strerror(device->use_error ? -device->use_error : -device->signature_error));
		return;
	case STORAGE_USE_FILESYSTEM:
	case STORAGE_USE_RAID:
	case STORAGE_USE_OTHER_DATA:
		snprintf(to, bytes, "holds %s%s%s%s", signature_type(signature), signature->label[0] ? " \"" : "",
			 signature->label, signature->label[0] ? "\"" : "");
		return;
	default:
		snprintf(to, bytes, "free");
	}
}

int storage_may_overwrite(const struct storage_device *device, bool force, struct fathom_fault *why)
{
	char use[PROVIDER_NAME_BYTES_MAX + 32];

	storage_use_text(device, use, sizeof(use));
	switch (storage_use(device)) {
	case STORAGE_USE_MOUNTED:
	case STORAGE_USE_SWAP:
	case STORAGE_USE_HELD:
	case STORAGE_USE_PARTITIONED: /* even with `force`: partitions may belong to other users */
		return fault_device_in_use(why, device->path, use);
	case STORAGE_USE_READ_ONLY:
		return fault(why, -EROFS, "%s is read-only; make it writable, or choose another device", device->path);
	case STORAGE_USE_UNREADABLE:
		return fault_device_unreadable(why, device->path,
					       strerror(device->use_error ? -device->use_error : -device->signature_error));
	case STORAGE_USE_FREE:
		break;
	default:
		must(strncmp(use, "holds ", strlen("holds ")) == 0); /* of storage_use_text() */
		if (!force)
			return fault_device_holds_data(why, device->path, use + strlen("holds "));
		break;
	}
	/* whatever the reason: a device in use is never overwritten */
	must(device->mount_count == 0);
	must(device->holder_count == 0);
	must(device->partition_count == 0);
	must(!device->swap);
	must(!device->read_only);
	must(!device->use_error);
	must(!device->signature_error);
	return 0;
}
