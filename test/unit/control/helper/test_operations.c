/* SPDX-License-Identifier: BSD-2-Clause */
/* The helper's operations on a fake operating system: results, refusals, and each call failing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after those four */
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/bits.h"
#include "control/fault/fault.h"
#include "control/helper/operations.h"
#include "failing.h"
#include "fake.h"

static struct fake fake;
static const struct helper_policy policy = {
	.mounts = { "/mnt" }, .mount_count = 1, .devices = { "nvme*" }, .device_count = 1, .operations = UINT32_MAX
};
static struct helper_reply reply;

/* Write a superblock of version 4, which has no checksum. */
static void write_xfs(struct fake *to, const char *path, const char *label)
{
	static uint8_t image[1 << 20];
	char full[256];

	memset(image, 0, sizeof(image));
	memcpy(image, "XFSB\0\0\x10\0", 8);
	memcpy(image + 100, "\xb4\xa4\x02\0", 4);
	fake_bytes(to, path, image, sizeof(image));
	snprintf(full, sizeof(full), "%s%s", to->folder, path);
	assert_int_equal(truncate(full, 8 << 20), 0);
	fake_signature(to, path, "xfs", "filesystem", label);
}

static void mkfs(struct fake *by)
{
	write_xfs(by, "/dev/nvme0n1", "fathom0");
}

static int setup(void **state)
{
	fake_begin(&fake);
	fake_device(&fake, "nvme0n1", "pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1", 259, 0, (8 << 20) / 512);
	fake_device(&fake, "nvme1n1", "pci0000:00/0000:02:00.0/nvme/nvme1/nvme1n1", 259, 1, (8 << 20) / 512);
	fake_device(&fake, "sda", "pci0000:00/ata1/block/sda", 8, 0, 4096);
	fake_folder(&fake, "/mnt");
	fake.on_run = mkfs;
	return 0;
}

static int teardown(void **state)
{
	fake_end(&fake);
	return 0;
}

static int perform_with(struct provider *provider, struct helper_request request)
{
	const struct helper_operator by = { .provider = provider, .policy = &policy, .uid = 1234, .gid = 5678 };

	request.id = 42;
	helper_perform(&by, &request, &reply);
	assert_int_equal(reply.id, 42);
	assert_int_equal(reply.operation, request.operation);
	assert_int_equal(reply.text[0] != '\0', reply.error != 0); /* each error has a text */
	return reply.error;
}

static int perform(struct helper_request request)
{
	return perform_with(&fake.provider, request);
}

static const struct helper_request check = { .operation = HELPER_CHECK_FORMAT, .device = "/dev/nvme0n1" };
static const struct helper_request format = { .operation = HELPER_FORMAT, .device = "/dev/nvme0n1", .label = "fathom0" };
static const struct helper_request forced = {
	.operation = HELPER_FORMAT, .device = "/dev/nvme0n1", .label = "fathom0", .flags = HELPER_FLAG_FORCE
};
static const struct helper_request mounting = { .operation = HELPER_MOUNT,
						.device = "/dev/nvme0n1",
						.target = "/mnt/engine0" };
static const struct helper_request unmounting = { .operation = HELPER_UNMOUNT, .target = "/mnt/engine0" };
static const struct helper_request preparing = { .operation = HELPER_PREPARE,
						 .device = "/dev/nvme0n1",
						 .flags = HELPER_FLAG_WIPE | HELPER_FLAG_OWN | HELPER_FLAG_FORCE };

static int confined_fd, confined;

static int note_confined(int fd, struct fathom_fault *why)
{
	confined_fd = fd;
	return confined ? fault(why, confined, "not confined") : 0;
}

static void health_is_read_by_a_child_that_is_confined_to_the_device(void **state)
{
	const struct helper_request request = { .operation = HELPER_HEALTH, .device = "/dev/nvme0n1" };
	const struct helper_operator by = { .provider = &fake.provider,
					    .policy = &policy,
					    .confine_to_nvme = note_confined };
	struct storage_nvme_pages pages = { .smart = { [3] = 77 } };

	fake_nvme(&fake, &pages);
	confined_fd = -1;
	helper_perform(&by, &request, &reply);
	assert_int_equal(reply.error, 0);
	assert_true(confined_fd > 2);
	assert_memory_equal(&reply.pages, &pages, sizeof(pages));
	confined = -EPERM;
	fake.nvme_count = 0;
	helper_perform(&by, &request, &reply);
	confined = 0;
	assert_int_equal(reply.error, -EPERM);
	assert_int_equal(fake.nvme_count, 0); /* no command without the confinement */
}

static void only_an_nvme_device_has_its_health_read(void **state)
{
	static const struct helper_policy all = { .devices = { "*" }, .device_count = 1, .operations = UINT32_MAX };
	const struct helper_request request = { .operation = HELPER_HEALTH, .device = "/dev/sda" };
	const struct helper_operator by = { .provider = &fake.provider, .policy = &all };

	fake_nvme(&fake, &(const struct storage_nvme_pages){ 0 });
	helper_perform(&by, &request, &reply);
	assert_int_equal(reply.error, -ENOTTY);
	assert_string_equal(reply.text, "/dev/sda is no NVMe device");
	assert_int_equal(fake.nvme_count, 0);
}

/* ---- firmware ---- */

static const struct helper_policy with_firmware = {
	.devices = { "*" }, .device_count = 1, .firmware = { "/fw" }, .firmware_count = 1, .operations = UINT32_MAX
};
static struct helper_request updating = { .operation = HELPER_FIRMWARE, .device = "/dev/nvme0n1", .target = "/fw/image" };

static int update(struct provider *provider)
{
	const struct helper_operator by = { .provider = provider, .policy = &with_firmware };

	helper_perform(&by, &updating, &reply);
	assert_int_equal(reply.text[0] != '\0', reply.error != 0);
	return reply.error;
}

/* A controller with three slots, the first read-only, which takes firmware. */
static void begin_firmware(size_t image_bytes)
{
	struct storage_nvme_pages pages = { .identify = { [256] = 1 << 2, [260] = 3 << 1 | 1 }, .slots = { 2 } };
	static uint8_t image[20000];

	if (geteuid() != 0 || !FIRMWARE_UPDATES)
		skip(); /* root must own the image; the build has the code */
	must(image_bytes <= sizeof(image));
	fake_nvme(&fake, &pages);
	fake_bytes(&fake, "/fw/image", image, image_bytes);
	updating.slot = updating.flags = 0;
	snprintf(updating.target, sizeof(updating.target), "/fw/image");
}

static void firmware_is_sent_in_pieces_and_stored(void **state)
{
	begin_firmware(20000);
	updating.slot = 3;
	assert_int_equal(update(&fake.provider), 0);
	assert_int_equal(fake.image_bytes, 20000);
	assert_int_equal(fake.commit_cdw10, 3 | 1 << 3); /* active after the next reset */
	assert_int_equal(reply.activation, STORAGE_ACTIVE_AT_RESET);
	assert_int_equal(reply.pages.slots[0], 2);
	fake.image_bytes = 0;
	fake.nvme_status[4] = 0x4110;
	assert_int_equal(update(&fake.provider), 0);
	assert_int_equal(reply.activation, STORAGE_ACTIVE_AT_SUBSYSTEM_RESET);
	fake.image_bytes = 0;
	fake.nvme_status[4] = 0x10b;
	assert_int_equal(update(&fake.provider), 0);
	assert_int_equal(reply.activation, STORAGE_ACTIVE_AT_POWER_CYCLE);
}

static void refuse(int error, const char *text)
{
	fake.image_bytes = fake.commit_cdw10 = 0;
	assert_int_equal(update(&fake.provider), error);
	assert_non_null(strstr(reply.text, text));
}

static void firmware_that_a_device_cannot_take_is_refused(void **state)
{
	begin_firmware(64);
	updating.slot = 4;
	refuse(-EOPNOTSUPP, "it has no slot 4");
	assert_int_equal(reply.code, FAULT_FIRMWARE_UNSUPPORTED);
	updating.slot = 1;
	refuse(-EOPNOTSUPP, "its slot 1 cannot be written");
	assert_int_equal(reply.code, FAULT_FIRMWARE_UNSUPPORTED);
	updating.slot = 0;
	fake.pages.identify[260] = 1 << 1 | 1;
	fake.pages.slots[0] = 1;
	refuse(-EOPNOTSUPP, "its only slot cannot be written");
	assert_int_equal(reply.code, FAULT_FIRMWARE_UNSUPPORTED);
	fake.pages.identify[256] = 0;
	refuse(-EOPNOTSUPP, "its controller has no commands for firmware");
	assert_int_equal(reply.code, FAULT_FIRMWARE_UNSUPPORTED);
	assert_int_equal(fake.image_bytes, 0);
	snprintf(updating.device, sizeof(updating.device), "/dev/sda");
	refuse(-EOPNOTSUPP, "it is no NVMe device");
	assert_int_equal(reply.code, FAULT_FIRMWARE_UNSUPPORTED);
	snprintf(updating.device, sizeof(updating.device), "/dev/nvme0n1");
}

static void an_image_that_the_controller_refuses_is_a_fault(void **state)
{
	begin_firmware(64);
	fake.nvme_status[4] = 0x4107;
	refuse(-EIO, "Firmware Commit: Invalid Firmware Image");
	assert_int_equal(reply.code, FAULT_FIRMWARE_REFUSED);
	fake.nvme_status[3] = 0x4114;
	refuse(-EIO, "Firmware Image Download: Overlapping Range");
	assert_int_equal(reply.code, FAULT_FIRMWARE_REFUSED);
	assert_int_equal(fake.commit_cdw10, 0);
}

static void a_file_that_is_no_image_is_refused(void **state)
{
	char path[128];

	begin_firmware(63);
	refuse(-EINVAL, "it has 63 bytes");
	assert_int_equal(reply.code, FAULT_FIRMWARE_FILE_BAD);
	begin_firmware(0);
	refuse(-EINVAL, "it has 0 bytes");
	assert_int_equal(reply.code, FAULT_FIRMWARE_FILE_BAD);
	begin_firmware(64);
	snprintf(path, sizeof(path), "%s/fw/image", fake.folder);
	assert_int_equal(chmod(path, 0664), 0);
	refuse(-EINVAL, "other users than root can change it");
	assert_int_equal(reply.code, FAULT_FIRMWARE_FILE_BAD);
	snprintf(updating.target, sizeof(updating.target), "/fw/none");
	refuse(-EINVAL, "No such file");
	assert_int_equal(reply.code, FAULT_FIRMWARE_FILE_BAD);
	fake_link(&fake, "/fw/link", "image");
	snprintf(updating.target, sizeof(updating.target), "/fw/link");
	refuse(-EINVAL, "symbolic link");
	assert_int_equal(reply.code, FAULT_FIRMWARE_FILE_BAD);
	snprintf(updating.target, sizeof(updating.target), "/etc/image");
	refuse(-EPERM, "is in no folder of the helper's list: choose one, or add \"firmware FOLDER\"");
	assert_int_equal(reply.code, 0);
	snprintf(updating.target, sizeof(updating.target), "/fw/../image");
	refuse(-EINVAL, "is not a plain path");
	assert_int_equal(reply.code, 0);
}

static void firmware_of_a_device_in_use_needs_force(void **state)
{
	begin_firmware(64);
	fake_file(&fake, "/sys/block/nvme0n1/holders/md0", "");
	refuse(-EBUSY, "held by md0");
	assert_int_equal(reply.code, FAULT_FIRMWARE_IN_USE);
	updating.flags = HELPER_FLAG_FORCE;
	assert_int_equal(update(&fake.provider), 0);
}

static void each_failed_call_of_an_update_is_answered(void **state)
{
	struct failing failing;
	uint32_t refused = 0;

	begin_firmware(64);
	for (failing_begin(&failing, &fake.provider, -EIO); failing_goes_on(&failing);) {
		fake.image_bytes = 0;
		refused += update(&failing.provider) != 0;
	}
	assert_true(refused > 5);
}

/* ---- lamps ---- */

static int switch_led(const char *device, uint32_t flags)
{
	const struct helper_operator by = { .provider = &fake.provider, .policy = &with_firmware };
	struct helper_request request = { .operation = HELPER_LED, .flags = flags };

	snprintf(request.device, sizeof(request.device), "%s", device);
	helper_perform(&by, &request, &reply);
	return reply.error;
}

static void the_lamp_of_a_slot_is_switched_and_read(void **state)
{
	fake_file(&fake, "/sys/bus/pci/slots/3/address", "0000:02:00\n");
	fake_file(&fake, "/sys/bus/pci/slots/3/attention", "0\n");
	fake_file(&fake, "/sys/bus/pci/slots/4/address", "0000:01:00\n");
	fake_file(&fake, "/sys/bus/pci/slots/4/attention", "0\n");
	assert_int_equal(switch_led("/dev/nvme0n1", HELPER_FLAG_ON), 0);
	assert_int_equal(reply.led, 1);
	assert_int_equal(switch_led("/dev/nvme0n1", 0), 0);
	assert_int_equal(reply.led, 1);
	assert_int_equal(switch_led("/dev/nvme1n1", 0), 0); /* another slot */
	assert_int_equal(reply.led, 0);
	assert_int_equal(switch_led("/dev/nvme0n1", HELPER_FLAG_OFF), 0);
	assert_int_equal(reply.led, 0);
	fake_attribute(&fake, "sda", "device/enclosure_device:Slot 01/locate", "0\n");
	assert_int_equal(switch_led("/dev/sda", HELPER_FLAG_ON), 0);
	assert_int_equal(reply.led, 1);
}

static void a_device_without_a_lamp_is_a_fault(void **state)
{
	assert_int_equal(switch_led("/dev/sda", HELPER_FLAG_ON), -ENODEV);
	assert_int_equal(reply.code, FAULT_LED_ABSENT);
	fake_file(&fake, "/sys/bus/pci/slots/4/address", "0000:01:00\n"); /* a slot without an indicator */
	assert_int_equal(switch_led("/dev/nvme0n1", HELPER_FLAG_ON), -ENODEV);
	assert_int_equal(reply.code, FAULT_LED_ABSENT);
}

static void mkfs_runs_with_fixed_arguments_and_environment(void **state)
{
	assert_int_equal(perform(format), 0);
	assert_string_equal(fake.command, "/usr/sbin/mkfs.xfs -q -f -K -m crc=1,reflink=1 -L fathom0 -- /dev/nvme0n1 "
					  "PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C TZ=UTC0 ");
	assert_int_equal(reply.format, STORAGE_FORMAT_XFS);
	assert_string_equal(reply.signature.label, "fathom0");
}

static void a_failure_of_mkfs_is_reported_and_its_result_is_verified(void **state)
{
	fake.run = (struct provider_run){ .status = 1 << 8, .output = "no room\nat all\n" };
	fake.on_run = NULL;
	assert_int_equal(perform(format), -EIO);
	assert_string_equal(reply.text, "mkfs.xfs failed on /dev/nvme0n1: exit status 1: no room");
	assert_int_equal(reply.code, FAULT_MKFS_FAILED);
	fake.run = (struct provider_run){ .status = 9 };
	assert_int_equal(perform(format), -EIO);
	assert_non_null(strstr(reply.text, ": signal 9"));
	fake.run = (struct provider_run){ .status = 0 }; /* reports success, but has written nothing */
	assert_int_equal(perform(format), -EIO);
	assert_non_null(strstr(reply.text, "does not read back as XFS"));
}

/* ---- a device that another mount claims for a moment ---- */

static uint32_t busy_mounts; /* so many mounts fail with EBUSY */
static const struct provider_calls *real_calls;

static int busy_mount(struct provider *self, const char *device, int target_fd, const char *type, unsigned long flags)
{
	if (busy_mounts > 0) {
		busy_mounts--;
		return -EBUSY;
	}
	return real_calls->mount(self, device, target_fd, type, flags);
}

static void a_mount_waits_for_a_claim_of_a_moment(void **state)
{
	struct provider provider = fake.provider;
	struct provider_calls calls = *fake.provider.calls;

	real_calls = fake.provider.calls;
	calls.mount = busy_mount;
	fake.provider.calls = &calls;
	assert_int_equal(perform(format), 0);
	busy_mounts = 3;
	assert_int_equal(perform(mounting), 0);
	assert_int_equal(fake.mount_count, 1);
	assert_int_equal(fake.owner_uid, 1234);
	assert_int_equal(perform(unmounting), 0);
	busy_mounts = UINT32_MAX; /* one that lasts is reported */
	assert_int_equal(perform(mounting), -EBUSY);
	assert_non_null(strstr(reply.text, "cannot be mounted at /mnt/engine0"));
	assert_int_equal(fake.mount_count, 1);
	fake.provider = provider;
}

static void a_filesystem_is_mounted_once_and_owned_by_the_user(void **state)
{
	assert_int_equal(perform(format), 0);
	assert_int_equal(perform(mounting), 0);
	assert_int_equal(reply.already, 0);
	assert_int_equal(fake.mount_flags, MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME);
	assert_int_equal(fake.owner_uid, 1234);
	assert_int_equal(fake.owner_gid, 5678);
	assert_int_equal(perform(mounting), 0);
	assert_int_equal(reply.already, 1);
	assert_int_equal(fake.mount_count, 1);
	assert_int_equal(perform(forced), -EBUSY);
	assert_int_equal(perform(preparing), -EBUSY);
	assert_int_equal(perform(unmounting), 0);
	assert_int_equal(fake.unmount_count, 1);
	assert_int_equal(perform(unmounting), 0);
	assert_int_equal(reply.already, 1);
}

static void a_link_under_a_devices_name_is_refused(void **state)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/dev/nvme0n1", fake.folder);
	assert_int_equal(unlink(path), 0);
	fake_link(&fake, "/dev/nvme0n1", "nvme1n1");
	assert_int_equal(perform(check), -ELOOP);
	assert_int_equal(perform(forced), -EIO); /* the scan cannot read a link */
	assert_int_equal(fake.run_count, 0);
}

static void another_device_under_the_name_is_refused(void **state)
{
	fake_file(&fake, "/sys/class/block/nvme0n1/dev", "259:77\n"); /* the device number of the node differs from sysfs */
	assert_int_equal(perform(forced), -ENODEV);
	assert_non_null(strstr(reply.text, "not the block device of that name in sysfs"));
	assert_int_equal(fake.run_count, 0);
}

static void a_locked_device_is_refused(void **state)
{
	struct provider *p = &fake.provider;
	int fd = p->calls->open(p, "/dev/nvme0n1", 0, 0, true);

	assert_int_equal(p->calls->lock(p, fd), 0);
	assert_int_equal(perform(format), -EBUSY);
	assert_non_null(strstr(reply.text, "locked by another program"));
	p->calls->close_fd(p, fd);
	assert_int_equal(perform(format), 0);
}

static void devices_in_use_are_refused_also_with_force(void **state)
{
	fake_file(&fake, "/sys/block/nvme0n1/holders/md0", "");
	assert_int_equal(perform(forced), -EBUSY);
	assert_int_equal(reply.code, FAULT_DEVICE_IN_USE);
	assert_int_equal(perform(preparing), -EBUSY);
	assert_int_equal(perform(mounting), -EBUSY);
	assert_int_equal(fake.run_count + fake.mount_count, 0);
}

static void another_filesystem_is_not_mounted(void **state)
{
	struct helper_request request = mounting;

	fake_signature(&fake, "/dev/nvme0n1", "ext4", "filesystem", "fathom0");
	assert_int_equal(perform(mounting), -EMEDIUMTYPE);
	assert_int_equal(reply.code, FAULT_OTHER_FILESYSTEM);
	write_xfs(&fake, "/dev/nvme0n1", "home");
	snprintf(request.label, sizeof(request.label), "fathom0");
	assert_int_equal(perform(request), -EMEDIUMTYPE);
	assert_int_equal(reply.code, FAULT_OTHER_FILESYSTEM);
	assert_non_null(strstr(reply.text, "home"));
	assert_int_equal(fake.mount_count, 0);
}

static void an_unreadable_device_is_a_fault(void **state)
{
	const struct helper_request label = { .operation = HELPER_READ_LABEL, .device = "/dev/nvme0n1" };

	fake_signature_error(&fake, "/dev/nvme0n1", -EIO);
	assert_int_equal(perform(label), -EIO);
	assert_int_equal(reply.code, FAULT_DEVICE_UNREADABLE);
	assert_int_equal(perform(check), -EIO);
	assert_int_equal(reply.code, FAULT_DEVICE_UNREADABLE);
}

static void a_damaged_filesystem_is_not_mounted(void **state)
{
	write_xfs(&fake, "/dev/nvme0n1", "fathom0");
	fake_bytes(&fake, "/dev/nvme0n1", "XFSB\0\0\x10\0", 8); /* an unknown version */
	assert_int_equal(perform(mounting), -EUCLEAN);
	assert_int_equal(reply.code, FAULT_FILESYSTEM_DAMAGED);
	assert_int_equal(fake.mount_count, 0);
}

static void a_wipe_zeroes_the_beginning_and_the_end(void **state)
{
	struct provider *p = &fake.provider;
	uint8_t bytes[3];
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/dev/nvme0n1", fake.folder);
	fd = p->calls->open(p, "/dev/nvme0n1", 2, 0, true);
	for (int i = 0; i < 3; i++)
		assert_int_equal(p->calls->write_at(p, fd, "x", 1, i == 0 ? 0 : i == 1 ? 4 << 20 : (8 << 20) - 1), 1);
	assert_int_equal(perform(preparing), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(p->calls->read_at(p, fd, &bytes[i], 1, i == 0 ? 0 : i == 1 ? 4 << 20 : (8 << 20) - 1), 1);
	assert_int_equal(bytes[0], 0);
	assert_int_equal(bytes[1], 'x');
	assert_int_equal(bytes[2], 0);
	assert_int_equal(fake.owner_uid, 1234);
	p->calls->close_fd(p, fd);
}

/*
 * Each call of each operation fails once. Errors must have a text (perform_with() checks it), no descriptor may stay open
 * (fake_end() checks it), a device in use must stay unchanged, and a failed mount must be undone.
 */
static void each_failed_call_is_answered_with_a_reason(void **state)
{
	const struct helper_request requests[] = { check,
						   format,
						   forced,
						   mounting,
						   unmounting,
						   preparing,
						   { .operation = HELPER_READ_LABEL, .device = "/dev/nvme0n1" },
						   { .operation = HELPER_HEALTH, .device = "/dev/nvme0n1" } };
	static const int errors[] = { -EIO, -EACCES, -ENOENT, -EBUSY, -ENOSPC };
	uint32_t rounds = 0, refused = 0, unreadable = 0, missing = 0;

	fake_nvme(&fake, &(const struct storage_nvme_pages){ 0 });

	for (size_t r = 0; r < ARRAY_COUNT(requests); r++) {
		for (size_t e = 0; e < ARRAY_COUNT(errors); e++) {
			struct failing failing;

			for (failing_begin(&failing, &fake.provider, errors[e]); failing_goes_on(&failing); rounds++) {
				struct helper_request request = requests[r];
				uint32_t mounted = fake.mount_count - fake.unmount_count;

				if (request.operation == HELPER_MOUNT && mounted > 0)
					assert_int_equal(perform(unmounting), 0);
				if (request.operation == HELPER_UNMOUNT && mounted == 0)
					assert_int_equal(perform(mounting), 0);
				if (request.operation == HELPER_FORMAT || request.operation == HELPER_PREPARE) {
					if (mounted > 0)
						assert_int_equal(perform(unmounting), 0);
					fake_bytes(&fake, "/dev/nvme0n1", "", 0);
					fake_signature(&fake, "/dev/nvme0n1", "", "", "");
					fake.run_count = 0;
				} else {
					write_xfs(&fake, "/dev/nvme0n1", "fathom0");
				}
				if (perform_with(&failing.provider, request) != 0)
					refused++;
				else if (request.operation == HELPER_FORMAT)
					assert_int_equal(fake.run_count, 1);
				else if (request.operation == HELPER_UNMOUNT)
					assert_int_equal(fake.mount_count, fake.unmount_count);
				unreadable += reply.code == FAULT_DEVICE_UNREADABLE;
				if (failing.what && strcmp(failing.what, "run") == 0 && errors[e] == -ENOENT) {
					assert_int_equal(reply.code, FAULT_MISSING_PROGRAM);
					missing++;
				}
				if (request.operation == HELPER_MOUNT && reply.error &&
				    strcmp(failing.what, "unmount") != 0)
					assert_int_equal(fake.mount_count, fake.unmount_count);
			}
		}
	}
	assert_true(rounds > 1000);
	assert_true(refused > 100);
	assert_true(unreadable > 0);
	assert_true(missing > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(health_is_read_by_a_child_that_is_confined_to_the_device, setup, teardown),
		cmocka_unit_test_setup_teardown(only_an_nvme_device_has_its_health_read, setup, teardown),
		cmocka_unit_test_setup_teardown(firmware_is_sent_in_pieces_and_stored, setup, teardown),
		cmocka_unit_test_setup_teardown(firmware_that_a_device_cannot_take_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(an_image_that_the_controller_refuses_is_a_fault, setup, teardown),
		cmocka_unit_test_setup_teardown(a_file_that_is_no_image_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(firmware_of_a_device_in_use_needs_force, setup, teardown),
		cmocka_unit_test_setup_teardown(each_failed_call_of_an_update_is_answered, setup, teardown),
		cmocka_unit_test_setup_teardown(the_lamp_of_a_slot_is_switched_and_read, setup, teardown),
		cmocka_unit_test_setup_teardown(a_device_without_a_lamp_is_a_fault, setup, teardown),
		cmocka_unit_test_setup_teardown(mkfs_runs_with_fixed_arguments_and_environment, setup, teardown),
		cmocka_unit_test_setup_teardown(a_failure_of_mkfs_is_reported_and_its_result_is_verified, setup, teardown),
		cmocka_unit_test_setup_teardown(a_mount_waits_for_a_claim_of_a_moment, setup, teardown),
		cmocka_unit_test_setup_teardown(a_filesystem_is_mounted_once_and_owned_by_the_user, setup, teardown),
		cmocka_unit_test_setup_teardown(a_link_under_a_devices_name_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(another_device_under_the_name_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(a_locked_device_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(devices_in_use_are_refused_also_with_force, setup, teardown),
		cmocka_unit_test_setup_teardown(another_filesystem_is_not_mounted, setup, teardown),
		cmocka_unit_test_setup_teardown(an_unreadable_device_is_a_fault, setup, teardown),
		cmocka_unit_test_setup_teardown(a_damaged_filesystem_is_not_mounted, setup, teardown),
		cmocka_unit_test_setup_teardown(a_wipe_zeroes_the_beginning_and_the_end, setup, teardown),
		cmocka_unit_test_setup_teardown(each_failed_call_is_answered_with_a_reason, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
