/* SPDX-License-Identifier: BSD-2-Clause */
/* Class and PCI address of a device by its name and path; names of the enums. Pure. */
#include <ctype.h>
#include <string.h>

#include "base/bits.h"
#include "control/storage/internal.h"

static const char *const class_names[] = { "nvme", "ssd", "hdd", "pmem", "virtio", "loop", "other" };
static const char *const use_names[] = { "mounted",    "swap",	     "held", "partitioned", "read-only",
					 "unreadable", "filesystem", "raid", "other-data",  "free" };
static const char *const format_names[] = { "none", "xfs", "damaged-xfs", "other", "unknown" };
static_assert(ARRAY_COUNT(class_names) == STORAGE_CLASSES, "");
static_assert(ARRAY_COUNT(use_names) == STORAGE_USES, "");
static_assert(ARRAY_COUNT(format_names) == STORAGE_FORMATS, "");

const char *storage_class_name(enum storage_class class)
{
	must(class < STORAGE_CLASSES);
	return class_names[class];
}

const char *storage_use_name(enum storage_use use)
{
	must(use < STORAGE_USES);
	return use_names[use];
}

const char *storage_format_name(enum storage_format format)
{
	must(format < STORAGE_FORMATS);
	return format_names[format];
}

static bool begins_with(const char *text, const char *beginning)
{
	return strncmp(text, beginning, strlen(beginning)) == 0;
}

enum storage_class storage_class_of(const char *name, const char *sys_path, bool rotational)
{
	if (begins_with(name, "nvme"))
		return STORAGE_CLASS_NVME;
	if (begins_with(name, "pmem"))
		return STORAGE_CLASS_PMEM;
	if (begins_with(name, "loop"))
		return STORAGE_CLASS_LOOP;
	if (begins_with(name, "vd") && strstr(sys_path, "/virtio"))
		return STORAGE_CLASS_VIRTIO; /* its `rotational` is only a default of the hypervisor */
	if (begins_with(name, "sd") || begins_with(name, "hd"))
		return rotational ? STORAGE_CLASS_HDD : STORAGE_CLASS_SSD;
	if (begins_with(name, "mmcblk"))
		return STORAGE_CLASS_SSD;
	return STORAGE_CLASS_OTHER;
}

/* "0000:81:00.0" at `text`, up to a slash or the end. */
static bool is_pci_address(const char *text)
{
	static const char pattern[] = "xxxx:xx:xx.x";
	size_t i;

	for (i = 0; pattern[i] != '\0'; i++) {
		if (pattern[i] == 'x' ? !isxdigit((unsigned char)text[i]) : text[i] != pattern[i])
			return false;
	}
	return text[i] == '/' || text[i] == '\0';
}

void storage_pci_address_of(const char *sys_path, char to[16])
{
	to[0] = '\0';
	for (const char *at = strchr(sys_path, '/'); at; at = strchr(at + 1, '/')) {
		if (is_pci_address(at + 1)) {
			memcpy(to, at + 1, 12);
			to[12] = '\0';
		}
	}
}
