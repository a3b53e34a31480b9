/* SPDX-License-Identifier: BSD-2-Clause */
/* Block devices: of sysfs trees written by the test like those of kernels, and a real loop device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after those four */
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "control/storage/storage.h"
#include "failing.h"
#include "fake.h"
#include "loop.h"

static struct fake fake;
static struct fathom_fault why;

/* Make a host with one device of each kind. */
static void make_host(void)
{
	static const char nvme_place[] = "pci0000:80/0000:80:03.1/0000:81:00.0/nvme/nvme0/nvme0n1";
	static const char page80[] = "\0\x80\0\x0aSER NUMBER";

	fake_device(&fake, "nvme0n1", nvme_place, 259, 0, 7501476528);
	fake_attribute(&fake, "nvme0n1", "queue/rotational", "0\n");
	fake_attribute(&fake, "nvme0n1", "queue/logical_block_size", "4096\n");
	fake_attribute(&fake, "nvme0n1", "queue/physical_block_size", "4096\n");
	fake_attribute(&fake, "nvme0n1", "device/model", "FAST DISK 3.84TB        \n");
	fake_attribute(&fake, "nvme0n1", "device/serial", "  S4YNNE0N  \n");
	fake_attribute(&fake, "nvme0n1", "device/firmware_rev", "EDA5702Q\n");
	fake_file(&fake, "/sys/devices/pci0000:80/0000:80:03.1/0000:81:00.0/numa_node", "1\n");
	fake_file(&fake, "/sys/devices/pci0000:80/numa_node", "7\n"); /* another NUMA node than the device's own */

	fake_device(&fake, "nvme10n1", "pci0000:80/0000:82:00.0/nvme/nvme10/nvme10n1", 259, 1, 2048);
	fake_device(&fake, "nvme2n1", "pci0000:80/0000:83:00.0/nvme/nvme2/nvme2n1", 259, 2, 2048);
	fake_device(&fake, "nvme2c0n1", "pci0000:80/0000:83:00.0/nvme/nvme2/nvme2c0n1", 259, 3, 2048);
	fake_attribute(&fake, "nvme2c0n1", "hidden", "1\n");

	fake_device(&fake, "sda", "pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0/block/sda", 8, 0, 1000000);
	fake_attribute(&fake, "sda", "queue/rotational", "1\n");
	fake_attribute(&fake, "sda", "device/vendor", "ATA     \n");
	fake_attribute(&fake, "sda", "device/model", "SPINNING\n");
	fake_bytes(&fake, "/sys/block/sda/device/vpd_pg80", page80, 14);
	fake_attribute(&fake, "sda", "sda1/partition", "1\n");
	fake_attribute(&fake, "sda", "sda1/dev", "8:1\n");
	fake_attribute(&fake, "sda", "sda1/size", "500000\n");
	fake_attribute(&fake, "sda", "sda2/partition", "2\n");
	fake_attribute(&fake, "sda", "sda2/dev", "8:2\n");
	fake_attribute(&fake, "sda", "sda2/size", "400000\n");
	fake_folder(&fake, "/sys/block/sda/sda1/holders");
	fake_folder(&fake, "/sys/block/sda/sda2/holders");
	fake_file(&fake, "/dev/sda1", "");
	fake_file(&fake, "/dev/sda2", "");
	fake_device(&fake, "sdb", "pci0000:00/0000:00:17.0/ata2/host1/target1:0:0/1:0:0:0/block/sdb", 8, 16, 1000000);
	fake_attribute(&fake, "sdb", "queue/rotational", "0\n");
	fake_attribute(&fake, "sdb", "holders/md0", "");
	fake_device(&fake, "pmem0", "LNXSYSTM:00/ndbus0/region0/namespace0.0/block/pmem0", 259, 9, 5000);
	fake_device(&fake, "vda", "pci0000:00/0000:00:02.0/virtio1/block/vda", 254, 0, 5000);
	fake_attribute(&fake, "vda", "queue/rotational", "1\n");
	fake_attribute(&fake, "vda", "device/vendor", "0x1af4\n");
	fake_attribute(&fake, "vda", "serial", "disk-7\n");
	fake_device(&fake, "loop0", "virtual/block/loop0", 7, 0, 0); /* a loop device without a file */
	fake_device(&fake, "loop1", "virtual/block/loop1", 7, 1, 800);
	fake_attribute(&fake, "loop1", "loop/backing_file", "/var/tmp/a file\n");
	fake_device(&fake, "md0", "virtual/block/md0", 9, 0, 800);
	fake_device(&fake, "sr0", "pci0000:00/ata3/block/sr0", 11, 0, 800);
	fake_file(&fake, "/proc/self/mountinfo",
		  "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
		  "28 1 0:50 / /with\\040blank rw shared:7 master:3 - btrfs /dev/sda1 rw\n"
		  "29 1 0:51 / /again rw - btrfs /dev/sda1 rw\n"
		  "a line of nonsense\n");
	fake_file(&fake, "/proc/swaps", "Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n");
	fake_signature(&fake, "/dev/nvme10n1", "xfs", "filesystem", "fathom0");
	fake_signature(&fake, "/dev/nvme2n1", "linux_raid_member", "raid", "");
	fake_signature_error(&fake, "/dev/pmem0", -EIO);
	fake_signature(&fake, "/dev/loop1", "crypto_LUKS", "crypto", "");
}

static int setup(void **state)
{
	fake_begin(&fake);
	make_host();
	return 0;
}

static int teardown(void **state)
{
	fake_end(&fake);
	return 0;
}

static const struct storage_device *find(const struct storage_scan *scan, const char *name)
{
	const struct storage_device *device = storage_find(scan, name);

	if (!device)
		fail_msg("%s is not in the scan", name);
	return device;
}

static void each_kind_of_device_is_identified(void **state)
{
	static const char *const order[] = { "loop1", "md0",  "nvme0n1", "nvme2n1", "nvme10n1", "pmem0",
					     "sda",   "sda1", "sda2",	 "sdb",	    "vda" };
	const struct storage_device *device;
	struct storage_scan scan;

	assert_int_equal(storage_scan(&fake.provider, NULL, &scan, &why), 0);
	assert_int_equal(scan.count, ARRAY_COUNT(order));
	for (size_t i = 0; i < scan.count; i++)
		assert_string_equal(scan.devices[i].name, order[i]);
	device = find(&scan, "/dev/nvme0n1");
	assert_int_equal(device->class, STORAGE_CLASS_NVME);
	assert_string_equal(device->model, "FAST DISK 3.84TB");
	assert_string_equal(device->serial, "S4YNNE0N");
	assert_string_equal(device->firmware, "EDA5702Q");
	assert_string_equal(device->pci_address, "0000:81:00.0");
	assert_int_equal(device->numa_node, 1);
	assert_int_equal(device->bytes, 7501476528ull * 512);
	assert_int_equal(device->logical_block_bytes, 4096);
	assert_int_equal(device->major, 259);
	assert_false(device->rotational);
	assert_int_equal(find(&scan, "sda")->class, STORAGE_CLASS_HDD);
	assert_string_equal(find(&scan, "sda")->vendor, "ATA");
	assert_string_equal(find(&scan, "sda")->serial, "SER NUMBER");
	assert_string_equal(find(&scan, "sda1")->parent, "sda");
	assert_string_equal(find(&scan, "sda1")->model, "SPINNING");
	assert_int_equal(find(&scan, "sda1")->bytes, 500000 * 512);
	assert_int_equal(find(&scan, "sdb")->class, STORAGE_CLASS_SSD);
	assert_int_equal(find(&scan, "pmem0")->class, STORAGE_CLASS_PMEM);
	assert_int_equal(find(&scan, "vda")->class, STORAGE_CLASS_VIRTIO);
	assert_string_equal(find(&scan, "vda")->serial, "disk-7");
	assert_string_equal(find(&scan, "vda")->vendor, "");
	assert_int_equal(find(&scan, "vda")->numa_node, -1);
	assert_int_equal(find(&scan, "loop1")->class, STORAGE_CLASS_LOOP);
	assert_string_equal(find(&scan, "loop1")->backing_file, "/var/tmp/a file");
	assert_int_equal(find(&scan, "md0")->class, STORAGE_CLASS_OTHER);
	storage_scan_free(&scan);
}

static void the_use_of_a_device_is_determined(void **state)
{
	static const struct {
		const char *name, *text;
		enum storage_use use;
		int normal, forced; /* the results of storage_may_overwrite() without and with force */
	} expected[] = {
		{ "vda", "mounted at /", STORAGE_USE_MOUNTED, -EBUSY, -EBUSY },
		{ "sda", "has 2 partitions", STORAGE_USE_PARTITIONED, -EBUSY, -EBUSY },
		{ "sda1", "mounted at /with blank", STORAGE_USE_MOUNTED, -EBUSY, -EBUSY },
		{ "sda2", "used as swap", STORAGE_USE_SWAP, -EBUSY, -EBUSY },
		{ "sdb", "held by md0", STORAGE_USE_HELD, -EBUSY, -EBUSY },
		{ "nvme10n1", "holds xfs \"fathom0\"", STORAGE_USE_FILESYSTEM, -EEXIST, 0 },
		{ "nvme2n1", "holds linux_raid_member", STORAGE_USE_RAID, -EEXIST, 0 },
		{ "pmem0", "could not be read: Input/output error", STORAGE_USE_UNREADABLE, -EIO, -EIO },
		{ "loop1", "holds crypto_LUKS", STORAGE_USE_OTHER_DATA, -EEXIST, 0 },
		{ "nvme0n1", "free", STORAGE_USE_FREE, 0, 0 },
	};
	struct storage_scan scan;
	char text[128];

	assert_int_equal(storage_scan(&fake.provider, NULL, &scan, &why), 0);
	for (size_t i = 0; i < ARRAY_COUNT(expected); i++) {
		const struct storage_device *device = find(&scan, expected[i].name);

		storage_use_text(device, text, sizeof(text));
		assert_string_equal(text, expected[i].text);
		assert_int_equal(storage_use(device), expected[i].use);
		assert_int_equal(storage_may_overwrite(device, false, &why), expected[i].normal);
		if (expected[i].normal)
			assert_non_null(strstr(why.text, device->path));
		assert_int_equal(storage_may_overwrite(device, true, &why), expected[i].forced);
	}
	assert_int_equal(find(&scan, "sda1")->mount_count, 2);
	storage_scan_free(&scan);
}

static void a_device_with_unknown_users_is_not_overwritten(void **state)
{
	struct storage_scan scan;
	char path[128];

	snprintf(path, sizeof(path), "%s/proc/self/mountinfo", fake.folder);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(storage_scan(&fake.provider, NULL, &scan, &why), 0);
	assert_int_equal(storage_may_overwrite(find(&scan, "nvme0n1"), true, &why), -EIO);
	storage_scan_free(&scan);
}

static void a_read_only_device_is_not_overwritten(void **state)
{
	struct storage_scan scan;

	fake_attribute(&fake, "nvme0n1", "ro", "1\n");
	assert_int_equal(storage_scan(&fake.provider, NULL, &scan, &why), 0);
	assert_int_equal(storage_may_overwrite(find(&scan, "nvme0n1"), true, &why), -EROFS);
	storage_scan_free(&scan);
}

static void one_device_can_be_scanned_alone(void **state)
{
	struct storage_scan_options only = { .only = "sda" };
	struct storage_scan scan;

	assert_int_equal(storage_scan(&fake.provider, &only, &scan, &why), 0);
	assert_int_equal(scan.count, 3);
	assert_int_equal(find(&scan, "sda")->partition_count, 2);
	storage_scan_free(&scan);
	only.only = "sda2";
	assert_int_equal(storage_scan(&fake.provider, &only, &scan, &why), 0);
	assert_int_equal(scan.count, 1);
	assert_true(find(&scan, "sda2")->swap);
	assert_null(storage_find(&scan, "sda"));
	storage_scan_free(&scan);
	only.only = "sdz";
	assert_int_equal(storage_scan(&fake.provider, &only, &scan, &why), 0);
	assert_int_equal(scan.count, 0);
	storage_scan_free(&scan);
}

static void a_link_in_dev_is_not_read(void **state)
{
	struct storage_scan_options only = { .only = "sdc" };
	struct storage_scan scan;
	char path[128];

	fake_device(&fake, "sdc", "pci0000:00/block/sdc", 8, 32, 4096);
	snprintf(path, sizeof(path), "%s/dev/sdc", fake.folder);
	assert_int_equal(unlink(path), 0);
	fake_link(&fake, "/dev/sdc", "nvme0n1");
	assert_int_equal(storage_scan(&fake.provider, &only, &scan, &why), 0);
	assert_int_equal(find(&scan, "sdc")->signature_error, -ELOOP);
	assert_int_equal(storage_use(find(&scan, "sdc")), STORAGE_USE_UNREADABLE);
	storage_scan_free(&scan);
}

static void a_device_that_vanishes_during_the_scan_is_left_out(void **state)
{
	struct storage_scan scan;
	char path[128];

	snprintf(path, sizeof(path), "%s/dev/nvme0n1", fake.folder);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(storage_scan(&fake.provider, NULL, &scan, &why), 0);
	assert_null(storage_find(&scan, "nvme0n1"));
	assert_non_null(storage_find(&scan, "nvme2n1"));
	storage_scan_free(&scan);
}

/* With any call failing: a result, no leak, and no device in use is reported free. */
static void a_failed_call_makes_no_device_in_use_appear_free(void **state)
{
	static const int errors[] = { -EIO, -EACCES, -ENOENT, -ENOMEM, -ENXIO };
	uint32_t rounds = 0, refused = 0;

	for (size_t i = 0; i < ARRAY_COUNT(errors); i++) {
		struct failing failing;

		for (failing_begin(&failing, &fake.provider, errors[i]); failing_goes_on(&failing); rounds++) {
			struct storage_scan scan;

			if (storage_scan(&failing.provider, NULL, &scan, &why) != 0) {
				refused++;
				assert_non_null(strstr(why.text, "cannot be"));
				continue;
			}
			for (size_t d = 0; d < scan.count; d++) {
				if (strcmp(scan.devices[d].name, "nvme10n1") == 0)
					assert_int_not_equal(storage_use(&scan.devices[d]), STORAGE_USE_FREE);
				if (strcmp(scan.devices[d].name, "vda") == 0)
					assert_int_not_equal(storage_may_overwrite(&scan.devices[d], false, &why), 0);
				if (strcmp(scan.devices[d].name, "sdb") == 0)
					assert_int_not_equal(storage_may_overwrite(&scan.devices[d], true, &why), 0);
			}
			storage_scan_free(&scan);
		}
	}
	assert_true(rounds > 500);
	assert_true(refused >= ARRAY_COUNT(errors));
}

static void a_real_loop_device_is_scanned(void **state)
{
	struct storage_scan_options only;
	const struct storage_device *device;
	struct storage_scan scan;
	const char *reason;
	struct loop loop;

	if (!loop_attach(&loop, 8 << 20, &reason)) {
		print_message("# SKIP %s\n", reason);
		skip();
	}
	only = (struct storage_scan_options){ .only = loop.name };
	assert_int_equal(storage_scan(provider_system(), &only, &scan, &why), 0);
	device = find(&scan, loop.path);
	assert_int_equal(device->class, STORAGE_CLASS_LOOP);
	assert_int_equal(device->bytes, 8 << 20);
	assert_int_equal(device->major, 7);
	assert_string_equal(device->backing_file, loop.file);
	assert_int_equal(storage_use(device), STORAGE_USE_FREE);
	storage_scan_free(&scan);
	assert_int_equal(pwrite(loop.fd, "LUKS\xba\xbe\0\1", 8, 0), 8);
	assert_int_equal(storage_scan(provider_system(), &only, &scan, &why), 0);
	assert_string_equal(find(&scan, loop.path)->signature.type, "crypto_LUKS");
	assert_int_equal(storage_use(find(&scan, loop.path)), STORAGE_USE_OTHER_DATA);
	storage_scan_free(&scan);
	/* an XFS whose superblock was overwritten, which libblkid does not recognise */
	assert_int_equal(pwrite(loop.fd, "\0\0\0\0\0\0\0\0", 8, 0), 8);
	assert_int_equal(pwrite(loop.fd, "XAGF", 4, 512), 4);
	assert_int_equal(pwrite(loop.fd, "XAGI", 4, 1024), 4);
	assert_int_equal(pwrite(loop.fd, "XAFL", 4, 1536), 4);
	assert_int_equal(storage_scan(provider_system(), &only, &scan, &why), 0);
	assert_string_equal(find(&scan, loop.path)->signature.type, "damaged xfs, see xfs_repair");
	assert_int_equal(storage_use(find(&scan, loop.path)), STORAGE_USE_FILESYSTEM);
	storage_scan_free(&scan);
	loop_release(&loop);
	assert_int_equal(storage_scan(provider_system(), &only, &scan, &why), 0);
	assert_null(storage_find(&scan, only.only)); /* without its file the device is not listed */
	storage_scan_free(&scan);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(each_kind_of_device_is_identified, setup, teardown),
		cmocka_unit_test_setup_teardown(the_use_of_a_device_is_determined, setup, teardown),
		cmocka_unit_test_setup_teardown(a_device_with_unknown_users_is_not_overwritten, setup, teardown),
		cmocka_unit_test_setup_teardown(a_read_only_device_is_not_overwritten, setup, teardown),
		cmocka_unit_test_setup_teardown(one_device_can_be_scanned_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(a_link_in_dev_is_not_read, setup, teardown),
		cmocka_unit_test_setup_teardown(a_device_that_vanishes_during_the_scan_is_left_out, setup, teardown),
		cmocka_unit_test_setup_teardown(a_failed_call_makes_no_device_in_use_appear_free, setup, teardown),
		cmocka_unit_test(a_real_loop_device_is_scanned),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
