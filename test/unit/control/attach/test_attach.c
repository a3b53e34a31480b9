/* SPDX-License-Identifier: BSD-2-Clause */
/* Attachments: their records on disk, and the driver as sysfs shows it, in a folder. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
/* after those */
#include <cmocka.h>

#include <errno.h>

#include "base/bits.h"
#include "base/clock.h"
#include "control/attach/attach.h"
#include "control/fault/fault.h"
#include "fake.h"

#define UUID "0af11bd2-1111-4222-8333-444455556666"
#define NQN "nqn.2026-11.io.fathom:volume:" UUID

static char folder[] = "/tmp/fathom-attach-XXXXXX";
static struct fathom_fault why;
static struct fake fake;
static const struct attach_record sample = {
	.name = "p1/db", .uuid = UUID, .nqn = NQN, .addresses = { "10.0.0.1:4420", "[fd00::1]:4421" }, .address_count = 2
};

/* ---- records ---- */

static const char *path_of(const char *name)
{
	static char path[512];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static void write_text(const char *name, const char *text)
{
	FILE *file = fopen(path_of(name), "w");

	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static int begin_folder(void **state)
{
	assert_non_null(mkdtemp(folder));
	return 0;
}

static int end_folder(void **state)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -r %s", folder);
	assert_int_equal(system(command), 0);
	memset(folder + strlen(folder) - 6, 'X', 6);
	return 0;
}

static void names_are_pool_and_volume(void **state)
{
	static const char *const bad[] = { "",	    "p1",    "/db",    "p1/",	  "p1/db/x", "../db",
					   "p1/..", "p1/.x", "p 1/db", "p1/d\nb", "p1//db" };

	assert_true(attach_name_is_valid("p1/db"));
	assert_true(attach_name_is_valid("Pool_1/a.b:c-d"));
	for (size_t i = 0; i < ARRAY_COUNT(bad); i++)
		assert_false(attach_name_is_valid(bad[i]));
}

static void a_record_is_read_as_it_was_written(void **state)
{
	struct attach_record record, changed = sample;

	assert_int_equal(attach_record_write(folder, &sample, &why), 0);
	assert_int_equal(attach_record_read(folder, UUID, &record, &why), 0);
	assert_memory_equal(&record, &sample, sizeof(record));
	changed.is_detaching = true;
	changed.address_count = 1;
	assert_int_equal(attach_record_write(folder, &changed, &why), 0);
	assert_int_equal(attach_record_read(folder, UUID, &record, &why), 0);
	assert_true(record.is_detaching);
	assert_int_equal(record.address_count, 1);
	assert_int_equal(attach_record_remove(folder, UUID, &why), 0);
	assert_int_equal(attach_record_remove(folder, UUID, &why), 0);
	assert_int_equal(attach_record_read(folder, UUID, &record, &why), -ENOENT);
}

static void a_record_that_is_not_valid_is_named(void **state)
{
	static const char *const bad[] = {
		"",
		"{",
		"[]",
		"{\"version\": 2}",
		"{\"version\": 1, \"name\": \"../x\", \"uuid\": \"" UUID "\", \"nqn\": \"n\", \"addresses\": []}",
		"{\"version\": 1, \"name\": \"p/x\", \"uuid\": \"other\", \"nqn\": \"n\", \"addresses\": []}",
		"{\"version\": 1, \"name\": \"p/x\", \"uuid\": \"" UUID "\", \"nqn\": \"\", \"addresses\": []}",
		"{\"version\": 1, \"name\": \"p/x\", \"uuid\": \"" UUID "\", \"nqn\": \"n\", \"addresses\": [1]}",
	};
	struct attach_record record;

	for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
		write_text(UUID ".json", bad[i]);
		assert_int_equal(attach_record_read(folder, UUID, &record, &why), -EBADMSG);
		assert_int_equal(why.code, FAULT_ATTACHMENT_RECORD_BAD);
		assert_non_null(strstr(why.text, UUID));
	}
}

static unsigned int good_count, bad_count;

static void count_good(void *ctx, const struct attach_record *record)
{
	good_count++;
}

static void count_bad(void *ctx, const struct fathom_fault *reason)
{
	bad_count++;
}

static void all_records_are_read_and_other_files_ignored(void **state)
{
	good_count = bad_count = 0;
	assert_int_equal(attach_record_write(folder, &sample, &why), 0);
	write_text("0af11bd2-1111-4222-8333-444455557777.json", "no JSON");
	write_text("0af11bd2-1111-4222-8333-444455558888.pending", "half");
	write_text("README", "text");
	assert_int_equal(attach_records_read(folder, count_good, count_bad, NULL, &why), 0);
	assert_int_equal(good_count, 1);
	assert_int_equal(bad_count, 1);
	assert_true(attach_records_read(path_of("none"), count_good, count_bad, NULL, &why) < 0);
}

static void a_failed_write_is_a_fault(void **state)
{
	assert_true(attach_record_write(path_of("none"), &sample, &why) < 0);
	assert_int_equal(why.code, FAULT_ATTACHMENT_UNWRITTEN);
}

static void a_folder_that_others_may_write_is_not_trusted(void **state)
{
	assert_int_equal(attach_folder_prepare(path_of("new"), &why), 0);
	assert_int_equal(chmod(path_of("new"), 0777), 0);
	assert_int_equal(attach_folder_prepare(path_of("new"), &why), -EPERM);
	assert_int_equal(symlink("/tmp", path_of("link")), 0);
	assert_int_equal(attach_folder_prepare(path_of("link"), &why), -EPERM);
}

/* ---- the driver ---- */

static struct attach_host host;
static struct attach_options options;
static unsigned int connects, disconnects;
static int connect_error;
static bool device_follows, in_use;

static void add_controller(const char *name, const char *address, const char *state)
{
	char path[128], text[128];

	snprintf(path, sizeof(path), "/sys/class/nvme/%s/subsysnqn", name);
	fake_file(&fake, path, NQN "\n");
	snprintf(path, sizeof(path), "/sys/class/nvme/%s/address", name);
	snprintf(text, sizeof(text), "%s\n", address);
	fake_file(&fake, path, text);
	snprintf(path, sizeof(path), "/sys/class/nvme/%s/state", name);
	snprintf(text, sizeof(text), "%s\n", state);
	fake_file(&fake, path, text);
}

static void add_namespace(const char *name, const char *uuid)
{
	char path[128], text[64];

	snprintf(path, sizeof(path), "/sys/block/%s/uuid", name);
	snprintf(text, sizeof(text), "%s\n", uuid);
	fake_file(&fake, path, text);
	snprintf(path, sizeof(path), "/sys/block/%s/size", name);
	fake_file(&fake, path, "2048\n");
}

static int fake_connect(struct attach_host *self, const struct attach_record *record, const char *address,
			const struct attach_options *given, struct fathom_fault *reason)
{
	char name[16];

	if (connect_error)
		return fault_connect_failed(reason, record->name, address, strerror(-connect_error));
	snprintf(name, sizeof(name), "nvme%u", connects++);
	add_controller(name,
		       strchr(address, '[') ? "traddr=fd00::1,trsvcid=4421"
					    : "traddr=10.0.0.1,trsvcid=4420,src_addr=10.0.0.9",
		       "live");
	if (device_follows)
		add_namespace("nvme0n1", UUID);
	return 0;
}

static int fake_disconnect(struct attach_host *self, const char *controller)
{
	char path[128];

	disconnects++;
	snprintf(path, sizeof(path), "/sys/class/nvme/%s/subsysnqn", controller);
	fake_file(&fake, path, "gone\n");
	return 0;
}

static bool fake_in_use(struct attach_host *self, const char *device)
{
	assert_string_equal(device, "/dev/nvme0n1");
	return in_use;
}

static int begin_host(void **state)
{
	fake_begin(&fake);
	fake_folder(&fake, "/sys/block");
	host = (struct attach_host){ &fake.provider, fake_connect, fake_disconnect, fake_in_use };
	options = (struct attach_options){ .wait_ns = 60 * NS_PER_SEC };
	connects = disconnects = 0;
	connect_error = 0;
	device_follows = true;
	in_use = false;
	return 0;
}

static int end_host(void **state)
{
	fake_end(&fake);
	return 0;
}

static void all_addresses_are_connected_once(void **state)
{
	struct attach_device device;

	assert_int_equal(attach_connect(&host, &sample, &options, &device, &why), 0);
	assert_string_equal(device.path, "/dev/nvme0n1");
	assert_int_equal(device.bytes, 2048 * 512);
	assert_int_equal(connects, 2);
	assert_int_equal(attach_controllers(&host, NQN), 2);
	assert_int_equal(attach_live_controllers(&host, NQN), 2);
	assert_int_equal(attach_connect(&host, &sample, &options, &device, &why), 0);
	assert_int_equal(connects, 2);
}

static void one_address_suffices(void **state)
{
	struct attach_device device;

	add_controller("nvme7", "traddr=10.0.0.1,trsvcid=4420", "connecting");
	add_namespace("nvme7n1", UUID);
	connect_error = -ECONNREFUSED;
	assert_int_equal(attach_connect(&host, &sample, &options, &device, &why), 0);
	assert_string_equal(device.path, "/dev/nvme7n1");
	assert_int_equal(attach_live_controllers(&host, NQN), 0);
}

static void a_longer_port_is_another_address(void **state)
{
	struct attach_device device;

	add_controller("nvme7", "traddr=10.0.0.1,trsvcid=44201", "live");
	add_controller("nvme8", "traddr=10.0.0.11,trsvcid=4420", "live");
	assert_int_equal(attach_connect(&host, &sample, &options, &device, &why), 0);
	assert_int_equal(connects, 2);
}

static void a_failed_connect_has_its_reason(void **state)
{
	struct attach_record none = sample;
	struct attach_device device;

	connect_error = -ETIMEDOUT;
	assert_int_equal(attach_connect(&host, &sample, &options, &device, &why), -EIO);
	assert_int_equal(why.code, FAULT_CONNECT_FAILED);
	none.address_count = 0;
	assert_int_equal(attach_connect(&host, &none, &options, &device, &why), -EIO);
	snprintf(none.addresses[0], ATTACH_ADDRESS_BYTES, "nonsense");
	none.address_count = 1;
	assert_int_equal(attach_connect(&host, &none, &options, &device, &why), -EIO);
	assert_non_null(strstr(why.text, "nonsense"));
}

static void a_device_that_does_not_appear_is_a_fault(void **state)
{
	struct attach_device device;

	device_follows = false;
	options.wait_ns = 1;
	add_namespace("nvme0c1n1", UUID); /* a path, which hosts do not use */
	add_namespace("nvme3n1", "0af11bd2-1111-4222-8333-444455559999");
	assert_int_equal(attach_connect(&host, &sample, &options, &device, &why), -ENODEV);
	assert_int_equal(why.code, FAULT_DEVICE_MISSING);
}

static void a_disconnect_removes_all_controllers_unless_the_device_is_in_use(void **state)
{
	struct attach_device device;

	assert_int_equal(attach_connect(&host, &sample, &options, &device, &why), 0);
	in_use = true;
	assert_int_equal(attach_disconnect(&host, &sample, false, &why), -EBUSY);
	assert_int_equal(why.code, FAULT_ATTACHMENT_IN_USE);
	assert_int_equal(disconnects, 0);
	assert_int_equal(attach_disconnect(&host, &sample, true, &why), 0);
	assert_int_equal(disconnects, 2);
	assert_int_equal(attach_controllers(&host, NQN), 0);
	assert_int_equal(attach_disconnect(&host, &sample, false, &why), -EBUSY);
	in_use = false;
	assert_int_equal(attach_disconnect(&host, &sample, false, &why), 0);
}

static void the_hosts_nqn_is_read_or_its_absence_named(void **state)
{
	struct attach_options read = { .wait_ns = 0 };
	char id[256];

	snprintf(id, sizeof(id), "%s/id", folder);
	assert_int_equal(attach_read_host(path_of("nqn"), id, &read, &why), -ENOENT);
	assert_int_equal(why.code, FAULT_HOST_NQN_MISSING);
	write_text("nqn", "nqn.2014-08.org.nvmexpress:uuid:x\n");
	assert_int_equal(attach_read_host(path_of("nqn"), id, &read, &why), 0);
	assert_string_equal(read.host_nqn, "nqn.2014-08.org.nvmexpress:uuid:x");
	assert_string_equal(read.host_id, "");
}

static void a_kernel_without_the_driver_is_a_fault(void **state)
{
	struct attach_host *system = attach_host_system();

	if (access("/dev/nvme-fabrics", F_OK) == 0)
		skip();
	assert_int_equal(system->connect(system, &sample, "127.0.0.1:1", &options, &why), -ENODEV);
	assert_int_equal(why.code, FAULT_DRIVER_MISSING);
}

#define IN_FOLDER(name) cmocka_unit_test_setup_teardown(name, begin_folder, end_folder)
#define WITH_HOST(name) cmocka_unit_test_setup_teardown(name, begin_host, end_host)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_pool_and_volume),
		IN_FOLDER(a_record_is_read_as_it_was_written),
		IN_FOLDER(a_record_that_is_not_valid_is_named),
		IN_FOLDER(all_records_are_read_and_other_files_ignored),
		IN_FOLDER(a_failed_write_is_a_fault),
		IN_FOLDER(a_folder_that_others_may_write_is_not_trusted),
		WITH_HOST(all_addresses_are_connected_once),
		WITH_HOST(one_address_suffices),
		WITH_HOST(a_longer_port_is_another_address),
		WITH_HOST(a_failed_connect_has_its_reason),
		WITH_HOST(a_device_that_does_not_appear_is_a_fault),
		WITH_HOST(a_disconnect_removes_all_controllers_unless_the_device_is_in_use),
		IN_FOLDER(the_hosts_nqn_is_read_or_its_absence_named),
		WITH_HOST(a_kernel_without_the_driver_is_a_fault),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
