/* SPDX-License-Identifier: BSD-2-Clause */
/* The scans of fathom-server on a fake host, compared with golden files. FATHOM_GOLDEN=write writes them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after those four */
#include <cmocka.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/server/scan.h"
#include "failing.h"
#include "fake.h"

typedef int (*scan_fn)(struct provider *provider, bool json, FILE *out);

static struct fake fake;
static const char *folder; /* folder of the golden files */

static int setup(void **state)
{
	fake_begin(&fake);
	fake_device(&fake, "nvme0n1", "pci0000:80/0000:81:00.0/nvme/nvme0/nvme0n1", 259, 0, 7501476528);
	fake_attribute(&fake, "nvme0n1", "queue/rotational", "0\n");
	fake_attribute(&fake, "nvme0n1", "device/model", "FAST \"DISK\"\n");
	fake_attribute(&fake, "nvme0n1", "device/serial", "S4YNNE0N\n");
	fake_file(&fake, "/sys/devices/pci0000:80/0000:81:00.0/numa_node", "1\n");
	fake_device(&fake, "sda", "pci0000:00/ata1/block/sda", 8, 0, 4000000);
	fake_attribute(&fake, "sda", "queue/rotational", "1\n");
	fake_signature(&fake, "/dev/sda", "xfs", "filesystem", "");
	fake_device(&fake, "vda", "pci0000:00/0000:00:02.0/virtio1/block/vda", 254, 0, 5000);
	fake_file(&fake, "/proc/self/mountinfo", "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n");
	fake_file(&fake, "/proc/swaps", "Filename Type Size Used Priority\n");
	fake_interface(&fake, "eth0", "pci0000:80/0000:82:00.0", "1\n", "up\n", "100000\n");
	fake_file(&fake, "/sys/devices/pci0000:80/0000:82:00.0/net/eth0/device/numa_node", "1\n");
	fake_address(&fake, "eth0", "fd00::2", 64);
	fake_address(&fake, "eth0", "10.0.0.7", 24);
	fake_interface(&fake, "eth1", "pci0000:00/0000:02:00.0", "1\n", "down\n", "-1\n");
	fake_interface(&fake, "lo", "virtual", "772\n", "unknown\n", "");
	fake_address(&fake, "lo", "127.0.0.1", 8);
	return 0;
}

static int teardown(void **state)
{
	fake_end(&fake);
	return 0;
}

/* Run a scan and return its output; the caller frees it. */
static char *run_scan(scan_fn scan, struct provider *provider, bool json, int status)
{
	char *said = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&said, &bytes);

	assert_non_null(out);
	assert_int_equal(scan(provider, json, out), status);
	assert_int_equal(fclose(out), 0);
	return said;
}

static void assert_golden(const char *name, const char *said)
{
	const char *wish = getenv("FATHOM_GOLDEN");
	char path[PATH_MAX], golden[8192];
	size_t bytes;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	if (wish && strcmp(wish, "write") == 0) {
		file = fopen(path, "w");
		assert_non_null(file);
		assert_true(fputs(said, file) >= 0);
		assert_int_equal(fclose(file), 0);
	}
	file = fopen(path, "r");
	if (!file)
		fail_msg("%s: %s", path, strerror(errno));
	bytes = fread(golden, 1, sizeof(golden) - 1, file);
	golden[bytes] = '\0';
	fclose(file);
	assert_string_equal(said, golden);
}

static void assert_both(const char *name, scan_fn scan)
{
	char path[64], *said;

	for (int json = 0; json < 2; json++) {
		said = run_scan(scan, &fake.provider, json, EXIT_SUCCESS);
		snprintf(path, sizeof(path), "%s.%s", name, json ? "json" : "txt");
		assert_golden(path, said);
		free(said);
	}
}

static void storage_is_printed_as_a_table_and_as_json(void **state)
{
	assert_both("storage_scan", scan_storage);
}

static void interfaces_are_printed_as_a_table_and_as_json(void **state)
{
	assert_both("network_scan", scan_network);
}

/* After any failed call the output is a JSON envelope, with rows or with the error. */
static void a_failed_scan_is_printed_as_json(void **state)
{
	static const scan_fn scans[] = { scan_storage, scan_network };
	struct failing failing;

	for (size_t i = 0; i < 2; i++) {
		uint32_t failed = 0;

		for (failing_begin(&failing, &fake.provider, -ENOMEM); failing_goes_on(&failing);) {
			char *said = NULL;
			size_t bytes = 0;
			FILE *out = open_memstream(&said, &bytes);
			int status = scans[i](&failing.provider, true, out);

			assert_int_equal(fclose(out), 0);
			failed += status != EXIT_SUCCESS;
			if (status == EXIT_SUCCESS) {
				assert_non_null(strstr(said, "\"error\": null,\n  \"status\": 0\n}\n"));
			} else {
				assert_int_equal(status, EXIT_FAILURE);
				assert_non_null(strstr(said, "{\n  \"response\": null,\n  \"error\": \""));
				assert_non_null(strstr(said, "\"status\": -1025\n}\n"));
			}
			free(said);
		}
		assert_true(failed > 0);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(storage_is_printed_as_a_table_and_as_json, setup, teardown),
		cmocka_unit_test_setup_teardown(interfaces_are_printed_as_a_table_and_as_json, setup, teardown),
		cmocka_unit_test_setup_teardown(a_failed_scan_is_printed_as_json, setup, teardown),
	};

	assert_int_equal(argc, 2);
	folder = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
