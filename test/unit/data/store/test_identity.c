/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The identity of file-backed devices: it goes with the data, whatever the path. Block devices are a made-up /sys here.
 */
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

/* What the device on the file has for a UUID, made and taken away; and what save_config would write of it. */
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
	identity_of("b", NULL, true, again); /* who only reads finds it as well */
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

static void a_given_identity_is_taken_and_leaves_the_files_own_alone(void **state)
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

static void a_file_that_is_only_read_is_not_given_an_attribute(void **state)
{
	uint8_t one[16], two[16];

	make_file("a");
	identity_of("a", NULL, true, one);
	identity_of("a", NULL, true, two);
	assert_memory_not_equal(one, two, 16);
}

static void an_attribute_that_is_no_uuid_is_replaced(void **state)
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

/* The kernel's name and number of a disk: dev/block/N is a link to its directory. */
static void number(const char *number, const char *disk)
{
	char to[TEXT_BYTES], from[TEXT_BYTES], command[2 * TEXT_BYTES];

	snprintf(command, sizeof(command), "mkdir -p %s/dev/block", directory);
	assert_int_equal(system(command), 0);
	snprintf(to, sizeof(to), "../../devices/%s", disk);
	snprintf(from, sizeof(from), "%s/dev/block/%s", directory, number);
	(void)unlink(from);
	assert_int_equal(symlink(to, from), 0);
}

static void wwid_is(dev_t device, const char *expected)
{
	char text[TEXT_BYTES];

	assert_int_equal(sysfs_wwid(directory, device, text, sizeof(text)), 0);
	assert_string_equal(text, expected);
}

static void a_device_is_what_it_says_that_it_is(void **state)
{
	char text[TEXT_BYTES];

	put("devices/nvme0n1/wwid", "eui.0025385b11b0d2a1\n");
	put("devices/nvme0n1/device/serial", "S1      \n");
	number("259:0", "nvme0n1");
	wwid_is(makedev(259, 0), "wwid:eui.0025385b11b0d2a1");
	put("devices/sda/device/wwid", "naa.5000c500a1b2c3d4\n");
	number("8:0", "sda");
	wwid_is(makedev(8, 0), "device/wwid:naa.5000c500a1b2c3d4");
	put("devices/dm-0/dm/uuid", "LVM-abc\n");
	number("253:0", "dm-0");
	wwid_is(makedev(253, 0), "dm/uuid:LVM-abc");
	put("devices/vda/serial", "\n"); /* none: a disk of a virtual machine without one */
	number("254:0", "vda");
	assert_int_equal(sysfs_wwid(directory, makedev(254, 0), text, sizeof(text)), -ENODATA);
	assert_int_equal(sysfs_wwid(directory, makedev(7, 7), text, sizeof(text)), -ENODATA);
}

static void a_device_that_refuses_to_punch_holes_says_so(void **state)
{
	put("devices/vdb/queue/write_zeroes_max_bytes", "2147483136\n");
	number("254:16", "vdb");
	assert_true(sysfs_punches_holes(directory, makedev(254, 16)));
	put("devices/vdb/vdb1/partition", "1\n");
	number("254:17", "vdb/vdb1");
	assert_true(sysfs_punches_holes(directory, makedev(254, 17)));
	put("devices/vdb/queue/write_zeroes_max_bytes", "0\n");
	assert_false(sysfs_punches_holes(directory, makedev(254, 16)));
	assert_false(sysfs_punches_holes(directory, makedev(254, 17)));
	put("devices/vdb/queue/write_zeroes_max_bytes", "\n");
	assert_false(sysfs_punches_holes(directory, makedev(254, 16)));
	assert_false(sysfs_punches_holes(directory, makedev(7, 7)));
}

static void a_partition_is_its_disk_and_its_number(void **state)
{
	put("devices/sda/device/wwid", "naa.5000c500a1b2c3d4\n");
	put("devices/sda/sda1/partition", "1\n");
	put("devices/sda/sda2/partition", "2\n");
	number("8:0", "sda");
	number("8:1", "sda/sda1");
	number("8:2", "sda/sda2");
	wwid_is(makedev(8, 1), "device/wwid:naa.5000c500a1b2c3d4:1");
	wwid_is(makedev(8, 2), "device/wwid:naa.5000c500a1b2c3d4:2");
}

static void identify_device(dev_t device, uint8_t uuid[16])
{
	struct file_bdev *self = calloc(1, sizeof(*self) + 16);

	assert_non_null(self);
	self->block_device = true;
	self->device = device;
	memcpy(self->bdev.name, "d", 2);
	memcpy(self->filename, "/dev/sda", 9);
	file_identify(self, directory);
	memcpy(uuid, self->bdev.uuid, 16);
	free(self);
}

/* Today's sdb is tomorrow's sda: the name and the number change, the disk does not. And the other way round. */
static void a_disk_keeps_its_identity_under_another_number_and_its_successor_has_another(void **state)
{
	uint8_t before[16], after[16], successor[16];

	put("devices/one/device/wwid", "naa.5000c500a1b2c3d4\n");
	put("devices/two/device/wwid", "naa.5000c500ffffffff\n");
	number("8:0", "one");
	identify_device(makedev(8, 0), before);
	number("8:16", "one");
	number("8:0", "two");
	identify_device(makedev(8, 16), after);
	identify_device(makedev(8, 0), successor);
	assert_memory_equal(before, after, 16);
	assert_memory_not_equal(before, successor, 16);
}

/* The same text must be the same UUID in every release. */
static void the_uuid_of_a_wwid_never_changes(void **state)
{
	uint8_t uuid[16], expected[16];

	put("devices/one/device/wwid", "naa.5000c500a1b2c3d4\n");
	number("8:0", "one");
	identify_device(makedev(8, 0), uuid);
	assert_int_equal(uuid_parse("dfc2be51-0e94-53a4-8b16-e035bd86ea36", expected), 0);
	assert_memory_equal(uuid, expected, 16);
}

static void a_device_that_does_not_say_what_it_is_has_a_random_identity(void **state)
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
		CASE(a_given_identity_is_taken_and_leaves_the_files_own_alone),
		CASE(a_file_that_is_only_read_is_not_given_an_attribute),
		CASE(an_attribute_that_is_no_uuid_is_replaced),
		CASE(a_device_is_what_it_says_that_it_is),
		CASE(a_device_that_refuses_to_punch_holes_says_so),
		CASE(a_partition_is_its_disk_and_its_number),
		CASE(a_disk_keeps_its_identity_under_another_number_and_its_successor_has_another),
		CASE(the_uuid_of_a_wwid_never_changes),
		CASE(a_device_that_does_not_say_what_it_is_has_a_random_identity),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
