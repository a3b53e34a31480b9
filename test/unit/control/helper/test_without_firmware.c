/* SPDX-License-Identifier: BSD-2-Clause */
/* The helper of a build with the meson option firmware=false: it sends no firmware, whatever its list of folders says. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "control/fault/fault.h"
#include "control/helper/operations.h"
#include "fake.h"

static void no_request_stores_firmware(void **state)
{
	static const struct helper_policy policy = {
		.devices = { "*" }, .device_count = 1, .firmware = { "/fw" }, .firmware_count = 1, .operations = UINT32_MAX
	};
	const struct helper_request request = {
		.operation = HELPER_FIRMWARE, .device = "/dev/nvme0n1", .target = "/fw/image", .flags = HELPER_FLAG_FORCE
	};
	const struct storage_nvme_pages pages = { .identify = { [256] = 1 << 2, [260] = 3 << 1 }, .slots = { 2 } };
	static const uint8_t image[64];
	struct helper_operator by = { .policy = &policy };
	struct helper_reply reply;
	struct fake fake;

	fake_begin(&fake);
	fake_device(&fake, "nvme0n1", "pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1", 259, 0, 16384);
	fake_nvme(&fake, &pages);
	fake_bytes(&fake, "/fw/image", image, sizeof(image));
	by.provider = &fake.provider;
	helper_perform(&by, &request, &reply);
	assert_int_equal(reply.error, -EOPNOTSUPP);
	assert_int_equal(reply.code, FAULT_FIRMWARE_ABSENT);
	assert_int_equal(fake.nvme_count, 0);
	fake_end(&fake);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_request_stores_firmware),
	};

	return cmocka_run_group_tests_name("helper without firmware", tests, NULL, NULL);
}
