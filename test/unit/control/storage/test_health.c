/* SPDX-License-Identifier: BSD-2-Clause */
/* Health of devices: decoded from bytes at the specification's offsets, judged, read by commands, and found in sysfs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after those four */
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "control/fault/fault.h"
#include "control/storage/health.h"
#include "failing.h"
#include "fake.h"

/* Offsets of Identify Controller, the SMART log and the Firmware Slot log. */
enum { FR = 64, OACS = 256, FRMW = 260, WCTEMP = 266, CCTEMP = 268, FWUG = 319 };
enum {
	WARNING = 0,
	TEMPERATURE = 1,
	SPARE = 3,
	SPARE_MINIMUM = 4,
	USED = 5,
	UNITS_READ = 32,
	UNITS_WRITTEN = 48,
	READS = 64,
	WRITES = 80
};
enum {
	BUSY = 96,
	CYCLES = 112,
	HOURS = 128,
	UNSAFE = 144,
	MEDIA = 160,
	ENTRIES = 176,
	WARNING_TIME = 192,
	CRITICAL_TIME = 196
};

static struct storage_nvme_pages pages;
static struct storage_health health;
static struct storage_firmware firmware;
static struct fathom_fault why;

static void put(uint8_t *at, size_t bytes, uint64_t number)
{
	for (size_t i = 0; i < bytes; i++)
		at[i] = (uint8_t)(number >> 8 * i);
}

static int setup_pages(void **state)
{
	pages = (struct storage_nvme_pages){ 0 };
	memcpy(pages.identify + FR, "2.1     ", 8);
	put(pages.identify + OACS, 2, 1 << 2);
	pages.identify[FRMW] = 3 << 1 | 1 | 1 << 4;
	put(pages.identify + WCTEMP, 2, 343);
	put(pages.identify + CCTEMP, 2, 353);
	put(pages.smart + TEMPERATURE, 2, 310);
	pages.smart[SPARE] = 100;
	pages.smart[SPARE_MINIMUM] = 10;
	pages.slots[0] = 2 | 3 << 4;
	memcpy(pages.slots + 8, "1.0     ", 8);
	memcpy(pages.slots + 16, "2.1     ", 8);
	memcpy(pages.slots + 24, "3\001beta  ", 8);
	return 0;
}

static void decode(void)
{
	assert_int_equal(storage_health_decode(&pages, &health, &firmware, &why), 0);
}

static void each_figure_is_decoded_from_its_offset(void **state)
{
	static const struct {
		int offset;
		size_t place;
		uint64_t unit;
	} rows[] = {
		{ UNITS_READ, offsetof(struct storage_health, read_bytes), 512000 },
		{ UNITS_WRITTEN, offsetof(struct storage_health, written_bytes), 512000 },
		{ READS, offsetof(struct storage_health, read_commands), 1 },
		{ WRITES, offsetof(struct storage_health, write_commands), 1 },
		{ BUSY, offsetof(struct storage_health, busy_minutes), 1 },
		{ CYCLES, offsetof(struct storage_health, power_cycles), 1 },
		{ HOURS, offsetof(struct storage_health, power_on_hours), 1 },
		{ UNSAFE, offsetof(struct storage_health, unsafe_shutdowns), 1 },
		{ MEDIA, offsetof(struct storage_health, media_errors), 1 },
		{ ENTRIES, offsetof(struct storage_health, error_entries), 1 },
	};

	for (size_t i = 0; i < ARRAY_COUNT(rows); i++)
		put(pages.smart + rows[i].offset, 8, 1000 + i);
	pages.smart[USED] = 7;
	put(pages.smart + WARNING_TIME, 4, 11);
	put(pages.smart + CRITICAL_TIME, 4, 12);
	decode();
	for (size_t i = 0; i < ARRAY_COUNT(rows); i++)
		assert_true(*(const uint64_t *)((const char *)&health + rows[i].place) == (1000 + i) * rows[i].unit);
	assert_int_equal(health.conditions, 0);
	assert_int_equal(health.temperature_k, 310);
	assert_int_equal(health.warning_k, 343);
	assert_int_equal(health.critical_k, 353);
	assert_int_equal(health.spare_percent, 100);
	assert_int_equal(health.spare_minimum_percent, 10);
	assert_int_equal(health.used_percent, 7);
	assert_int_equal(health.warning_minutes, 11);
	assert_int_equal(health.critical_minutes, 12);
	assert_int_equal(storage_celsius(310), 37);
}

static void a_counter_beyond_64_bits_is_the_largest_number(void **state)
{
	put(pages.smart + MEDIA + 8, 8, 1);
	put(pages.smart + UNITS_READ, 8, UINT64_MAX / 512000 + 1);
	put(pages.smart + UNITS_WRITTEN, 8, UINT64_MAX / 512000);
	decode();
	assert_true(health.media_errors == UINT64_MAX);
	assert_true(health.read_bytes == UINT64_MAX);
	assert_true(health.written_bytes == UINT64_MAX / 512000 * 512000);
}

static void firmware_slots_are_decoded(void **state)
{
	decode();
	assert_true(firmware.can_update && firmware.is_first_read_only && firmware.without_reset);
	assert_int_equal(firmware.slot_count, 3);
	assert_int_equal(firmware.active, 2);
	assert_int_equal(firmware.next, 3);
	assert_int_equal(firmware.piece_bytes, 4096);
	assert_string_equal(firmware.revisions[0], "1.0");
	assert_string_equal(firmware.revisions[1], "2.1");
	assert_string_equal(firmware.revisions[2], "3?beta");
	assert_string_equal(firmware.revisions[3], "");
	pages.identify[FWUG] = 0xff;
	decode();
	assert_int_equal(firmware.piece_bytes, 4);
	pages.identify[FWUG] = 8;
	decode();
	assert_int_equal(firmware.piece_bytes, 32768);
}

static void an_old_controller_has_one_slot_with_its_revision(void **state)
{
	memset(pages.slots, 0, sizeof(pages.slots));
	pages.identify[FRMW] = 0;
	put(pages.identify + OACS, 2, 0);
	pages.slots[0] = 1;
	decode();
	assert_int_equal(firmware.slot_count, 1);
	assert_false(firmware.can_update);
	assert_string_equal(firmware.revisions[0], "2.1");
}

static void a_slot_that_does_not_exist_is_an_error(void **state)
{
	struct storage_health before = health;

	pages.slots[0] = 4;
	assert_int_equal(storage_health_decode(&pages, &health, &firmware, &why), -EBADMSG);
	assert_string_equal(why.text, "the controller has 3 firmware slots, and uses slot 4");
	assert_memory_equal(&before, &health, sizeof(health));
	pages.slots[0] = 1 | 7 << 4;
	assert_int_equal(storage_health_decode(&pages, &health, &firmware, &why), -EBADMSG);
	assert_non_null(strstr(why.text, "uses slot 7"));
}

static void each_warning_is_a_condition_with_a_text(void **state)
{
	static const struct {
		uint8_t warning;
		enum storage_condition condition;
		const char *name, *text;
	} rows[] = {
		{ 1, STORAGE_SPARE_LOW, "spare-low", "100 % of its spare blocks are left, and its threshold is 10 %" },
		{ 2, STORAGE_HOT, "hot", "its temperature is 37 C, out of its range" },
		{ 4, STORAGE_UNRELIABLE, "unreliable", "it is unreliable after errors of its medium or inside it" },
		{ 8, STORAGE_READ_ONLY, "read-only", "its medium takes no writes any more" },
		{ 16, STORAGE_BACKUP_FAILED, "backup-failed", "the backup of its volatile memory failed" },
	};
	char text[STORAGE_CONDITION_TEXT_BYTES];

	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		pages.smart[WARNING] = rows[i].warning;
		decode();
		assert_int_equal(health.conditions, BIT(rows[i].condition));
		assert_string_equal(storage_condition_name(rows[i].condition), rows[i].name);
		assert_string_equal(storage_condition_text(&health, rows[i].condition, text, sizeof(text)), rows[i].text);
	}
}

static void thresholds_are_conditions_without_a_warning_of_the_device(void **state)
{
	char text[STORAGE_CONDITION_TEXT_BYTES];

	pages.smart[SPARE] = 9;
	pages.smart[USED] = 100;
	put(pages.smart + TEMPERATURE, 2, 343);
	decode();
	assert_int_equal(health.conditions, BIT(STORAGE_SPARE_LOW) | BIT(STORAGE_WORN) | BIT(STORAGE_HOT));
	assert_string_equal(storage_condition_text(&health, STORAGE_WORN, text, sizeof(text)),
			    "100 % of its estimated life are used");
	assert_string_equal(storage_condition_text(&health, STORAGE_HOT, text, sizeof(text)),
			    "its temperature is 70 C, and its threshold 70 C");
}

static void a_hot_device_is_hot_until_it_has_cooled_down(void **state)
{
	const uint32_t hot = (uint32_t)BIT(STORAGE_HOT);

	put(pages.smart + TEMPERATURE, 2, 342);
	decode();
	assert_int_equal(storage_health_judge(&health, 0), 0);
	assert_int_equal(storage_health_judge(&health, hot), hot);
	put(pages.smart + TEMPERATURE, 2, 340);
	decode();
	assert_int_equal(storage_health_judge(&health, hot), 0);
	put(pages.identify + WCTEMP, 2, 0); /* no threshold: only the warning of the device */
	put(pages.smart + TEMPERATURE, 2, 500);
	decode();
	assert_int_equal(storage_health_judge(&health, hot), 0);
}

/* ---- on a fake operating system ---- */

static struct fake fake;

static int setup(void **state)
{
	fake_begin(&fake);
	fake_device(&fake, "nvme0n1", "pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1", 259, 0, 16384);
	fake_device(&fake, "sda", "pci0000:00/0000:02:00.0/ata1/host0/target0:0:0/0:0:0:0/block/sda", 8, 0, 4096);
	return setup_pages(state);
}

static int teardown(void **state)
{
	fake_end(&fake);
	return 0;
}

static int read_pages(struct provider *provider, struct storage_nvme_pages *pages_ret)
{
	int fd = fake.provider.calls->open(&fake.provider, "/dev/nvme0n1", 0, 0, true), error;

	assert_true(fd >= 0);
	error = storage_nvme_read(provider, fd, "/dev/nvme0n1", pages_ret, &why);
	fake.provider.calls->close_fd(&fake.provider, fd);
	assert_true(error <= 0);
	return error;
}

static void the_pages_of_a_device_are_read_by_three_commands(void **state)
{
	struct storage_nvme_pages back;

	fake_nvme(&fake, &pages);
	assert_int_equal(read_pages(&fake.provider, &back), 0);
	assert_memory_equal(&back, &pages, sizeof(pages));
	assert_int_equal(fake.nvme_count, 3);
}

static void a_controller_without_slots_is_read(void **state)
{
	struct storage_nvme_pages back;

	memset(pages.slots, 0, sizeof(pages.slots));
	fake_nvme(&fake, &pages);
	fake.nvme_status[2] = 0x4109; /* Invalid Log Page, do not retry */
	assert_int_equal(read_pages(&fake.provider, &back), 0);
	assert_memory_equal(&back, &pages, sizeof(pages));
}

static void a_refused_command_is_a_fault_with_its_status(void **state)
{
	struct storage_nvme_pages back;

	fake_nvme(&fake, &pages);
	fake.nvme_status[1] = 0x4109;
	assert_int_equal(read_pages(&fake.provider, &back), -EIO);
	assert_int_equal(why.code, FAULT_DEVICE_UNREADABLE);
	assert_non_null(strstr(why.text, "/dev/nvme0n1 cannot be read or written: the SMART log: Invalid Log Page"));
	fake.nvme_status[0] = 0x4002;
	assert_int_equal(read_pages(&fake.provider, &back), -EIO);
	assert_non_null(strstr(why.text, "Identify: Invalid Field"));
}

static void a_device_of_another_kind_is_refused(void **state)
{
	struct storage_nvme_pages back;

	assert_int_equal(read_pages(&fake.provider, &back), -ENOTTY); /* a real ioctl, of a file */
	assert_string_equal(why.text, "/dev/nvme0n1 is no NVMe device");
}

static void each_failed_command_is_an_error(void **state)
{
	struct storage_nvme_pages back;
	struct failing failing;
	uint32_t refused = 0;

	fake_nvme(&fake, &pages);
	for (failing_begin(&failing, &fake.provider, -EIO); failing_goes_on(&failing);) {
		if (read_pages(&failing.provider, &back) != 0)
			refused++;
	}
	assert_int_equal(refused, 3);
}

static void the_kernels_figures_are_read(void **state)
{
	const struct storage_scan_options options = { .without_signatures = true };
	struct storage_kernel_health kernel;
	struct storage_scan scan;

	fake_file(&fake, "/sys/bus/pci/devices/0000:01:00.0/current_link_speed", "8.0 GT/s PCIe\n");
	fake_file(&fake, "/sys/bus/pci/devices/0000:01:00.0/max_link_speed", "Unknown\n");
	fake_file(&fake, "/sys/bus/pci/devices/0000:01:00.0/current_link_width", "4\n");
	fake_file(&fake, "/sys/bus/pci/devices/0000:01:00.0/max_link_width", "255\n");
	fake_attribute(&fake, "sda", "device/ioerr_cnt", "0x1f\n");
	fake_attribute(&fake, "sda", "device/hwmon/hwmon3/temp1_input", "41000\n");
	fake_attribute(&fake, "sda", "queue/rotational", "1\n");
	assert_int_equal(storage_scan(&fake.provider, &options, &scan, &why), 0);
	storage_kernel_read(&fake.provider, storage_find(&scan, "nvme0n1"), &kernel);
	assert_int_equal(kernel.link_speed_mt, 8000);
	assert_int_equal(kernel.link_speed_max_mt, 0);
	assert_int_equal(kernel.link_width, 4);
	assert_int_equal(kernel.link_width_max, 0);
	storage_kernel_read(&fake.provider, storage_find(&scan, "sda"), &kernel);
	assert_true(kernel.io_errors == 0x1f);
	assert_int_equal(kernel.temperature_k, 314);
	storage_scan_free(&scan);
}

/* ---- stacks of devices ---- */

static char visited[128];

static void note_device(void *ctx, const struct storage_device *device)
{
	size_t used = strlen(visited);

	snprintf(visited + used, sizeof(visited) - used, "%s ", device->name);
}

static void the_devices_below_a_device_are_visited(void **state)
{
	const struct storage_scan_options options = { .without_signatures = true };
	struct storage_scan scan;

	fake_device(&fake, "md0", "virtual/block/md0", 9, 0, 4096);
	fake_device(&fake, "dm-0", "virtual/block/dm-0", 254, 0, 4096);
	fake_file(&fake, "/sys/block/dm-0/slaves/md0", "");
	fake_file(&fake, "/sys/block/md0/slaves/nvme0n1", "");
	fake_file(&fake, "/sys/block/md0/slaves/sda", "");
	assert_int_equal(storage_scan(&fake.provider, &options, &scan, &why), 0);
	visited[0] = '\0';
	storage_visit_below(&fake.provider, &scan, storage_find(&scan, "dm-0"), note_device, NULL);
	assert_true(strncmp(visited, "dm-0 md0 ", 9) == 0);
	assert_non_null(strstr(visited, "nvme0n1 "));
	assert_non_null(strstr(visited, "sda "));
	fake_file(&fake, "/sys/block/sda/slaves/dm-0", ""); /* a loop ends */
	visited[0] = '\0';
	storage_visit_below(&fake.provider, &scan, storage_find(&scan, "sda"), note_device, NULL);
	assert_non_null(strstr(visited, "nvme0n1"));
	storage_scan_free(&scan);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(each_figure_is_decoded_from_its_offset, setup_pages),
		cmocka_unit_test_setup(a_counter_beyond_64_bits_is_the_largest_number, setup_pages),
		cmocka_unit_test_setup(firmware_slots_are_decoded, setup_pages),
		cmocka_unit_test_setup(an_old_controller_has_one_slot_with_its_revision, setup_pages),
		cmocka_unit_test_setup(a_slot_that_does_not_exist_is_an_error, setup_pages),
		cmocka_unit_test_setup(each_warning_is_a_condition_with_a_text, setup_pages),
		cmocka_unit_test_setup(thresholds_are_conditions_without_a_warning_of_the_device, setup_pages),
		cmocka_unit_test_setup(a_hot_device_is_hot_until_it_has_cooled_down, setup_pages),
		cmocka_unit_test_setup_teardown(the_pages_of_a_device_are_read_by_three_commands, setup, teardown),
		cmocka_unit_test_setup_teardown(a_controller_without_slots_is_read, setup, teardown),
		cmocka_unit_test_setup_teardown(a_refused_command_is_a_fault_with_its_status, setup, teardown),
		cmocka_unit_test_setup_teardown(a_device_of_another_kind_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(each_failed_command_is_an_error, setup, teardown),
		cmocka_unit_test_setup_teardown(the_kernels_figures_are_read, setup, teardown),
		cmocka_unit_test_setup_teardown(the_devices_below_a_device_are_visited, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
