/* SPDX-License-Identifier: BSD-2-Clause */
/* The identity of file-backed devices follows the data, not the path. Block devices come from a fake /sys. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <uuid/uuid.h>

#include "rig.h"
#include "data/store/backend/file_internal.h"

enum { FILE_BYTES = 1 << 20, TEXT_BYTES = 256 };

static char directory[] = "/tmp/fathom-identity-XXXXXX";

static int setup(void **state)
{
	snprintf(directory, sizeof(directory), "/tmp/fathom-identity-XXXXXX");
	assert_non_null(mkdtemp(directory));
	rig_start(false);
	return 0;
}

static int teardown(void **state)
{
	char command[128];

	rig_stop();
	snprintf(command, sizeof(command), "rm -rf %s", directory);
	assert_int_equal(system(command), 0);
	return 0;
}

/* ---- files ---- */

static const char *path_of(const char *name)
{
	static char path[TEXT_BYTES];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	return path;
}

static void make_file(const char *name)
{
	int fd = open(path_of(name), O_CREAT | O_EXCL | O_RDWR, 0600);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, FILE_BYTES), 0);
	close(fd);
}

static void need_attributes(void)
{
	make_file("try");
	if (setxattr(path_of("try"), "user.fathom.try", "x", 1, 0) < 0) {
		print_message("# %s: this filesystem has no extended attributes\n", strerror(errno));
		skip();
	}
}

/* Create a device on the file, get its UUID and the UUID that save_config writes, and delete it. */
static void identity_of(const char *name, const uint8_t *given, bool read_only, uint8_t uuid[16])
{
	struct file_options options = { .name = "d", .filename = path_of(name), .read_only = read_only };
	struct fathom_fault why = { 0 };

	if (given)
		memcpy(options.uuid, given, sizeof(options.uuid));
	if (rig_file(&options, &why) < 0)
		fail_msg("%s", why.text);
	memcpy(uuid, rig_find("d")->uuid, 16);
	assert_false(uuid_is_null(uuid));
	rig_delete("d");
}

static void a_file_keeps_its_identity_over_restarts_and_other_names(void **state)
{
	char from[TEXT_BYTES];
	uint8_t first[16], again[16];

	need_attributes();
	make_file("a");
	identity_of("a", NULL, false, first);
	identity_of("a", NULL, false, again);
	assert_memory_equal(first, again, 16);
	snprintf(from, sizeof(from), "%s", path_of("a"));
	assert_int_equal(rename(from, path_of("b")), 0);
	identity_of("b", NULL, false, again);
	assert_memory_equal(first, again, 16);
	identity_of("b", NULL, true, again); /* a read-only device finds it, too */
	assert_memory_equal(first, again, 16);
}

static void another_file_at_the_same_path_has_another_identity(void **state)
{
	uint8_t first[16], other[16];

	make_file("a");
	identity_of("a", NULL, false, first);
	assert_int_equal(unlink(path_of("a")), 0);
	make_file("a");
	identity_of("a", NULL, false, other);
	assert_memory_not_equal(first, other, 16);
}

static void a_configured_identity_does_not_change_the_files_own(void **state)
{
	uint8_t own[16], given[16], found[16];

	need_attributes();
	make_file("a");
	uuid_generate(given);
	identity_of("a", given, false, found);
	assert_memory_equal(found, given, 16);
	identity_of("a", NULL, false, own);
	assert_memory_not_equal(own, given, 16);
	identity_of("a", given, false, found);
	assert_memory_equal(found, given, 16);
	identity_of("a", NULL, false, found);
	assert_memory_equal(found, own, 16);
}

static void a_read_only_file_gets_no_attribute(void **state)
{
	uint8_t one[16], two[16];

	make_file("a");
	identity_of("a", NULL, true, one);
	identity_of("a", NULL, true, two);
	assert_memory_not_equal(one, two, 16);
}

static void an_attribute_that_is_not_a_uuid_is_replaced(void **state)
{
	uint8_t one[16], two[16];

	need_attributes();
	make_file("a");
	assert_int_equal(setxattr(path_of("a"), "user.fathom.uuid", "nonsense", 8, 0), 0);
	identity_of("a", NULL, false, one);
	identity_of("a", NULL, false, two);
	assert_memory_equal(one, two, 16);
}

/* ---- devices ---- */

static void put(const char *name, const char *text)
{
	char path[TEXT_BYTES], command[2 * TEXT_BYTES];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	snprintf(command, sizeof(command), "mkdir -p $(dirname %s)", path);
	assert_int_equal(system(command), 0);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

/* Set the name and number of a disk: dev/block/N is a link to its directory. */
static void set_number(const char *set_number, const char *disk)
{
	char to[TEXT_BYTES], from[TEXT_BYTES], command[2 * TEXT_BYTES];

	snprintf(command, sizeof(command), "mkdir -p %s/dev/block", directory);
	assert_int_equal(system(command), 0);
	snprintf(to, sizeof(to), "../../devices/%s", disk);
	snprintf(from, sizeof(from), "%s/dev/block/%s", directory, set_number);
	(void)unlink(from);
	assert_int_equal(symlink(to, from), 0);
}

static void wwid_is(dev_t device, const char *expected)
{
	char text[TEXT_BYTES];

	assert_int_equal(sysfs_wwid(directory, device, text, sizeof(text)), 0);
	assert_string_equal(text, expected);
}

static void the_identity_of_a_device_comes_from_its_wwid_or_serial(void **state)
{
	char text[TEXT_BYTES];

	put("devices/nvme0n1/wwid", "eui.0025385b11b0d2a1\n");
	put("devices/nvme0n1/device/serial", "S1      \n");
	set_number("259:0", "nvme0n1");
	wwid_is(makedev(259, 0), "wwid:eui.0025385b11b0d2a1");
	put("devices/sda/device/wwid", "naa.5000c500a1b2c3d4\n");
	set_number("8:0", "sda");
	wwid_is(makedev(8, 0), "device/wwid:naa.5000c500a1b2c3d4");
	put("devices/dm-0/dm/uuid", "LVM-abc\n");
	set_number("253:0", "dm-0");
	wwid_is(makedev(253, 0), "dm/uuid:LVM-abc");
	put("devices/vda/serial", "\n"); /* empty: a disk of a virtual machine without a serial number */
	set_number("254:0", "vda");
	assert_int_equal(sysfs_wwid(directory, makedev(254, 0), text, sizeof(text)), -ENODATA);
	assert_int_equal(sysfs_wwid(directory, makedev(7, 7), text, sizeof(text)), -ENODATA);
}

static void a_device_that_refuses_to_punch_holes_is_detected(void **state)
{
	put("devices/vdb/queue/write_zeroes_max_bytes", "2147483136\n");
	set_number("254:16", "vdb");
	assert_true(sysfs_punches_holes(directory, makedev(254, 16)));
	put("devices/vdb/vdb1/partition", "1\n");
	set_number("254:17", "vdb/vdb1");
	assert_true(sysfs_punches_holes(directory, makedev(254, 17)));
	put("devices/vdb/queue/write_zeroes_max_bytes", "0\n");
	assert_false(sysfs_punches_holes(directory, makedev(254, 16)));
	assert_false(sysfs_punches_holes(directory, makedev(254, 17)));
	put("devices/vdb/queue/write_zeroes_max_bytes", "\n");
	assert_false(sysfs_punches_holes(directory, makedev(254, 16)));
	assert_false(sysfs_punches_holes(directory, makedev(7, 7)));
}

static void the_identity_of_a_partition_is_its_disk_and_number(void **state)
{
	put("devices/sda/device/wwid", "naa.5000c500a1b2c3d4\n");
	put("devices/sda/sda1/partition", "1\n");
	put("devices/sda/sda2/partition", "2\n");
	set_number("8:0", "sda");
	set_number("8:1", "sda/sda1");
	set_number("8:2", "sda/sda2");
	wwid_is(makedev(8, 1), "device/wwid:naa.5000c500a1b2c3d4:1");
	wwid_is(makedev(8, 2), "device/wwid:naa.5000c500a1b2c3d4:2");
}

static void identify_device(dev_t device, uint8_t uuid[16])
{
	struct file_bdev *self = calloc(1, sizeof(*self));
	char filename[] = "/dev/sda";

	assert_non_null(self);
	self->block_device = true;
	self->device = device;
	memcpy(self->bdev.name, "d", 2);
	self->filename = filename;
	file_identify(self, directory);
	memcpy(uuid, self->bdev.uuid, 16);
	free(self);
}

/* After a reboot sdb can become sda: name and number change, but the disk is the same. */
static void a_disk_keeps_its_identity_when_its_name_and_number_change(void **state)
{
	uint8_t before[16], after[16], successor[16];

	put("devices/one/device/wwid", "naa.5000c500a1b2c3d4\n");
	put("devices/two/device/wwid", "naa.5000c500ffffffff\n");
	set_number("8:0", "one");
	identify_device(makedev(8, 0), before);
	set_number("8:16", "one");
	set_number("8:0", "two");
	identify_device(makedev(8, 16), after);
	identify_device(makedev(8, 0), successor);
	assert_memory_equal(before, after, 16);
	assert_memory_not_equal(before, successor, 16);
}

/* A text must give the same UUID in each release. */
static void the_uuid_of_a_wwid_is_frozen(void **state)
{
	uint8_t uuid[16], expected[16];

	put("devices/one/device/wwid", "naa.5000c500a1b2c3d4\n");
	set_number("8:0", "one");
	identify_device(makedev(8, 0), uuid);
	assert_int_equal(uuid_parse("dfc2be51-0e94-53a4-8b16-e035bd86ea36", expected), 0);
	assert_memory_equal(uuid, expected, 16);
}

static void a_device_without_wwid_and_serial_has_a_random_identity(void **state)
{
	uint8_t one[16], two[16];

	identify_device(makedev(7, 0), one);
	identify_device(makedev(7, 0), two);
	assert_memory_not_equal(one, two, 16);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(a_file_keeps_its_identity_over_restarts_and_other_names),
		CASE(another_file_at_the_same_path_has_another_identity),
		CASE(a_configured_identity_does_not_change_the_files_own),
		CASE(a_read_only_file_gets_no_attribute),
		CASE(an_attribute_that_is_not_a_uuid_is_replaced),
		CASE(the_identity_of_a_device_comes_from_its_wwid_or_serial),
		CASE(a_device_that_refuses_to_punch_holes_is_detected),
		CASE(the_identity_of_a_partition_is_its_disk_and_number),
		CASE(a_disk_keeps_its_identity_when_its_name_and_number_change),
		CASE(the_uuid_of_a_wwid_is_frozen),
		CASE(a_device_without_wwid_and_serial_has_a_random_identity),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
