/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * null, malloc and file, each compared with the model; file with io_uring, with helpers, simulated, with sectors of 512 and
 * of 4096.
 */
#include "model.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

enum { FILE_BYTES = 4 << 20 };

static char path[64];

static int setup_real(void **state)
{
	rig_start(false);
	return 0;
}

static int setup_helpers(void **state)
{
	must(setenv("FATHOM_NO_URING", "1", 1) == 0);
	rig_start(false);
	must(unsetenv("FATHOM_NO_URING") == 0);
	assert_false(uring_available());
	return 0;
}

static int teardown(void **state)
{
	rig_stop();
	if (path[0])
		unlink(path);
	path[0] = '\0';
	return 0;
}

/* Make a file of zeroes in `directory`. */
static void make_file(const char *directory, uint64_t bytes)
{
	int fd;

	snprintf(path, sizeof(path), "%s/fathom-store-XXXXXX", directory);
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	assert_int_equal(close(fd), 0);
}

static void create_file(const struct file_options *options)
{
	struct fathom_fault why = { 0 };

	if (rig_file(options, &why) < 0)
		fail_msg("%s", why.text);
}

static void refused_as_busy(const char *filename, bool read_only, const char *says)
{
	struct fathom_fault why = { 0 };

	assert_int_equal(rig_file(&(struct file_options){ .name = "second", .filename = filename, .read_only = read_only },
				  &why),
			 -EBUSY);
	if (!strstr(why.text, says))
		fail_msg("\"%s\" does not say \"%s\"", why.text, says);
	assert_null(rig_find("second"));
}

/* ---- null ---- */

static void null_reads_zeroes_and_returns_no_old_data(void **state)
{
	uint8_t buffer[2 * 4096];
	struct bdev_desc *desc;
	struct bdev_channel *ch;
	struct fathom_thread *t = rig_thread(0);
	struct rig_io io;

	rig_null("n", 1000, 4096);
	desc = rig_open("n");
	ch = rig_channel_get(t, desc);
	assert_true(bdev_desc_bdev(desc)->reads_zeroes);
	memset(buffer, 0x5e, sizeof(buffer));
	assert_int_equal(rig_io(t, ch, IO_TYPE_WRITE, buffer, 0, 2), IO_SUCCESS);
	rig_io_init(&io, t, ch);
	io.iov[0] = (struct iovec){ buffer, 1 };
	io.iov[1] = (struct iovec){ bdev_zeroes(), 4094 };
	io.iov[2] = (struct iovec){ buffer + 1, 4097 };
	io.iov_count = 3;
	rig_io_begin(&io, IO_TYPE_READ, NULL, 0, 2);
	assert_int_equal(rig_io_end(&io), IO_SUCCESS);
	for (int i = 0; i < 4098; i++)
		assert_int_equal(buffer[i], 0);
	assert_int_equal(buffer[4098], 0x5e);
	assert_int_equal(rig_io(t, ch, IO_TYPE_READ, bdev_zeroes(), 0, 1000), IO_SUCCESS);
	assert_int_equal(rig_io(t, ch, IO_TYPE_COMPARE, bdev_zeroes(), 0, 1), IO_SUCCESS);
	assert_int_equal(rig_io(t, ch, IO_TYPE_COMPARE, buffer + 4096, 0, 1), IO_MISCOMPARE);
	assert_int_equal(rig_io(t, ch, IO_TYPE_UNMAP, NULL, 0, 1000), IO_SUCCESS);
	assert_int_equal(rig_io(t, ch, IO_TYPE_WRITE_ZEROES, NULL, 0, 1000), IO_SUCCESS);
	assert_int_equal(rig_io(t, ch, IO_TYPE_FLUSH, NULL, 0, 0), IO_SUCCESS);
	assert_int_equal(rig_io(t, ch, IO_TYPE_RESET, NULL, 0, 0), IO_SUCCESS);
	rig_channel_put(t, ch);
	rig_close(desc);
	rig_delete("n");
}

/* ---- malloc ---- */

static void malloc_agrees_with_the_model(void **state)
{
	const uint32_t block_bytes[] = { 512, 4096 };

	for (uint64_t seed = 1; seed <= 4; seed++) {
		rig_malloc("m", seed % 2 ? 20000 : 3000, block_bytes[seed % 2]);
		model_run("m", &(struct model_options){ .seed = seed,
							.ops = 3000,
							.depth = 32,
							.blocks_max = 700,
							.iov_count_max = MODEL_IOV_MAX,
							.cut_bytes = 1 });
		rig_delete("m");
	}
}

/* ---- file ---- */

static void file_model(struct file_options options, uint64_t seed, uint32_t ops, uint32_t cut_bytes)
{
	struct bdev *bdev;

	options.name = "f";
	options.filename = path;
	create_file(&options);
	bdev = rig_find("f");
	assert_int_equal(bdev->block_count * bdev->block_bytes, FILE_BYTES);
	model_run("f", &(struct model_options){ .seed = seed,
						.ops = ops,
						.depth = 48,
						.blocks_max = 200 * 512 / bdev->block_bytes,
						.iov_count_max = 20,
						.cut_bytes = cut_bytes,
						.no_unmap = options.no_fallocate });
	rig_delete("f");
}

static void file_agrees_with_the_model(void **state)
{
	static const struct {
		const char *directory;
		struct file_options options;
		uint32_t cut_bytes;
	} cases[] = {
		{ "/tmp", { .block_bytes = 0 }, 1 },
		{ "/tmp", { .block_bytes = 512, .kind = FILE_KIND_AIO }, 512 },
		{ "/tmp", { .block_bytes = 4096 }, 4096 },
		{ "/tmp", { .block_bytes = 4096 }, 8 },
		{ "/tmp", { .block_bytes = 512, .no_direct = true }, 1 },
		{ "/tmp", { .block_bytes = 512, .no_fallocate = true }, 64 },
		{ "/dev/shm", { .block_bytes = 512 }, 1 }, /* without FALLOC_FL_ZERO_RANGE */
		{ "/dev/shm", { .block_bytes = 4096, .no_direct = true }, 4096 },
	};

	for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
		make_file(cases[i].directory, FILE_BYTES);
		file_model(cases[i].options, i + 1, 1500, cases[i].cut_bytes);
		assert_int_equal(unlink(path), 0);
		path[0] = '\0';
	}
}

static void written_data_is_read_after_the_file_is_opened_again(void **state)
{
	static uint8_t buffer[8 * 4096] __attribute__((aligned(4096)));
	static uint8_t other[8 * 4096] __attribute__((aligned(4096)));
	struct fathom_thread *t = rig_thread(0);

	make_file("/tmp", FILE_BYTES + 100); /* the last 100 bytes are not a whole block */
	for (int round = 0; round < 3; round++) {
		struct bdev_desc *desc;
		struct bdev_channel *ch;

		create_file(&(struct file_options){
			.name = "f", .filename = path, .block_bytes = 4096, .kind = FILE_KIND_AIO });
		assert_int_equal(rig_find("f")->block_count, FILE_BYTES / 4096);
		desc = rig_open("f");
		ch = rig_channel_get(t, desc);
		if (round > 0) {
			assert_int_equal(rig_io(t, ch, IO_TYPE_READ, other, 100, 8), IO_SUCCESS);
			assert_memory_equal(buffer, other, sizeof(buffer));
		}
		memset(buffer, 'a' + round, sizeof(buffer));
		assert_int_equal(rig_io(t, ch, IO_TYPE_WRITE, buffer, 100, 8), IO_SUCCESS);
		assert_int_equal(rig_io(t, ch, IO_TYPE_FLUSH, NULL, 0, 0), IO_SUCCESS);
		rig_channel_put(t, ch);
		rig_close(desc);
		rig_delete("f");
	}
}

static void a_file_that_cannot_be_opened_is_explained(void **state)
{
	struct fathom_fault why;
	const struct {
		struct file_options options;
		int error;
	} cases[] = {
		{ { .name = "f", .filename = "/tmp/absent/absent" }, -ENOENT },
		{ { .name = "f", .filename = "/dev/null" }, -ENOTBLK },
		{ { .name = "f", .filename = "/tmp" }, -ENOTBLK },
		{ { .name = "f" }, -EINVAL },
		{ { .filename = path }, -EINVAL },
		{ { .name = "taken", .filename = path }, -EEXIST },
		{ { .name = "f", .filename = path, .block_bytes = 131072 }, -EINVAL },
		{ { .name = "f", .filename = path, .block_bytes = 4096 }, -EINVAL }, /* 1000 bytes: less than a block */
		{ { .name = "f", .filename = path, .block_bytes = 1000 }, -EINVAL },
	};

	rig_null("taken", 1, 512);
	make_file("/tmp", 1000);
	for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
		memset(&why, 0, sizeof(why));
		assert_int_equal(rig_file(&cases[i].options, &why), cases[i].error);
		assert_int_equal(why.error, cases[i].error);
		assert_true(strlen(why.text) > 5);
		assert_null(rig_find("f"));
	}
	rig_delete("taken");
}

/* Without O_DIRECT the device would behave differently. */
static void a_failed_open_does_not_fall_back_to_the_page_cache(void **state)
{
	const struct file_options options = { .name = "f", .filename = path };
	struct rlimit limit, tight;
	struct fathom_fault why;
	int lowest, second, rc;

	make_file("/tmp", FILE_BYTES);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	lowest = dup(STDERR_FILENO);
	second = dup(STDERR_FILENO);
	assert_int_equal(close(lowest), 0);
	assert_int_equal(close(second), 0);
	tight = limit;
	tight.rlim_cur = (rlim_t)second + 1;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
	rc = rig_file(&options, &why);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(rc, -EMFILE);
	assert_int_equal(why.error, -EMFILE);
	assert_int_equal(dup(STDERR_FILENO), lowest);
	assert_int_equal(close(lowest), 0);
	create_file(&options);
	rig_delete("f");
}

static void a_file_opened_read_only_is_unchanged(void **state)
{
	static uint8_t buffer[4096] __attribute__((aligned(4096)));
	struct fathom_thread *t = rig_thread(0);
	struct bdev_desc *desc;
	struct bdev_channel *ch;

	make_file("/tmp", FILE_BYTES);
	assert_int_equal(chmod(path, 0444), 0);
	create_file(&(struct file_options){ .name = "f", .filename = path, .read_only = true });
	desc = rig_open("f");
	ch = rig_channel_get(t, desc);
	assert_int_equal(rig_io(t, ch, IO_TYPE_READ, buffer, 0, 1), IO_SUCCESS);
	assert_int_equal(rig_io(t, ch, IO_TYPE_COMPARE, buffer, 0, 1), IO_SUCCESS);
	assert_int_equal(rig_io(t, ch, IO_TYPE_FLUSH, NULL, 0, 0), IO_SUCCESS);
	assert_int_equal(rig_io(t, ch, IO_TYPE_WRITE, buffer, 0, 1), IO_READ_ONLY);
	assert_int_equal(rig_io(t, ch, IO_TYPE_WRITE_ZEROES, NULL, 0, 1), IO_READ_ONLY);
	assert_int_equal(rig_io(t, ch, IO_TYPE_UNMAP, NULL, 0, 1), IO_READ_ONLY);
	rig_channel_put(t, ch);
	rig_close(desc);
	rig_delete("f");
}

/* A write past the end extends the file again, so only reads are short. */
static void a_read_past_the_end_of_a_truncated_file_is_an_error(void **state)
{
	static uint8_t buffer[16 * 512] __attribute__((aligned(4096)));
	struct fathom_thread *t = rig_thread(0);
	struct bdev_desc *desc;
	struct bdev_channel *ch;
	struct rig_io io;

	make_file("/tmp", FILE_BYTES);
	create_file(&(struct file_options){ .name = "f", .filename = path, .block_bytes = 512, .no_direct = true });
	desc = rig_open("f");
	ch = rig_channel_get(t, desc);
	assert_int_equal(truncate(path, 10 * 512 + 100), 0);
	assert_int_equal(rig_io(t, ch, IO_TYPE_READ, buffer, 0, 10), IO_SUCCESS);
	rig_io_init(&io, t, ch);
	for (int i = 0; i < 16; i++)
		io.iov[i] = (struct iovec){ buffer + i * 512, 512 };
	io.iov_count = 16;
	rig_io_begin(&io, IO_TYPE_READ, NULL, 0, 16);
	assert_int_equal(rig_io_end(&io), IO_MEDIA_ERROR);
	for (int i = 0; i < 16; i++) { /* the vector must be unchanged */
		assert_ptr_equal(io.iov[i].iov_base, buffer + i * 512);
		assert_int_equal(io.iov[i].iov_len, 512);
	}
	rig_channel_put(t, ch);
	rig_close(desc);
	rig_delete("f");
}

/* A tmpfs that is too small, if mounting is permitted. */
static void a_write_on_a_full_filesystem_ends_with_no_space(void **state)
{
	static uint8_t buffer[64 * 4096] __attribute__((aligned(4096)));
	struct fathom_thread *t = rig_thread(0);
	char directory[] = "/tmp/fathom-store-full-XXXXXX", command[128];
	enum io_status status = IO_SUCCESS;
	struct bdev_desc *desc;
	struct bdev_channel *ch;

	assert_non_null(mkdtemp(directory));
	snprintf(command, sizeof(command), "mount -t tmpfs -o size=1m none %s 2>/dev/null", directory);
	if (system(command) != 0) {
		rmdir(directory);
		skip();
	}
	make_file(directory, FILE_BYTES);
	create_file(&(struct file_options){ .name = "f", .filename = path, .block_bytes = 4096 });
	desc = rig_open("f");
	ch = rig_channel_get(t, desc);
	for (uint64_t i = 0; i < FILE_BYTES / sizeof(buffer) && status == IO_SUCCESS; i++)
		status = rig_io(t, ch, IO_TYPE_WRITE, buffer, i * 64, 64);
	assert_int_equal(status, IO_NO_SPACE);
	assert_int_equal(rig_io(t, ch, IO_TYPE_UNMAP, NULL, 0, 128), IO_SUCCESS); /* frees space */
	assert_int_equal(rig_io(t, ch, IO_TYPE_WRITE, buffer, 0, 64), IO_SUCCESS);
	rig_channel_put(t, ch);
	rig_close(desc);
	rig_delete("f");
	snprintf(command, sizeof(command), "umount %s", directory);
	assert_int_equal(system(command), 0);
	rmdir(directory);
	path[0] = '\0';
}

/* A loop device, if available: I/O goes through the kernel's block layer. */
static void loop_device(uint32_t sector_bytes)
{
	char command[200], device[64] = "";
	struct file_options options = { .name = "f", .filename = device };
	struct fathom_fault why;
	FILE *pipe;
	int fd;

	make_file("/tmp", FILE_BYTES);
	snprintf(command, sizeof(command), "losetup --show -f -b %u %s 2>/dev/null", sector_bytes, path);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	if (!fgets(device, sizeof(device), pipe)) {
		pclose(pipe);
		skip();
	}
	pclose(pipe);
	device[strcspn(device, "\n")] = '\0';
	if (sector_bytes == 4096) {
		options.block_bytes = 512;
		assert_int_equal(rig_file(&options, &why), -EINVAL);
		options.block_bytes = 0;
	}
	fd = open(device, O_RDWR | O_EXCL | O_CLOEXEC); /* O_EXCL, as a mount does */
	assert_true(fd >= 0);
	refused_as_busy(device, false, "mounted");
	assert_int_equal(close(fd), 0);
	create_file(&options);
	assert_int_equal(open(device, O_RDWR | O_EXCL | O_CLOEXEC), -1);
	assert_int_equal(errno, EBUSY);
	refused_as_busy(device, true, "is block device \"f\"");
	assert_int_equal(rig_find("f")->block_bytes, sector_bytes);
	model_run("f", &(struct model_options){ .seed = sector_bytes,
						.ops = 1500,
						.depth = 48,
						.blocks_max = 40,
						.iov_count_max = 20,
						.cut_bytes = 16 });
	rig_delete("f");
	snprintf(command, sizeof(command), "losetup -d %s", device);
	assert_int_equal(system(command), 0);
}

static void block_devices_of_512_byte_sectors_agree_with_the_model(void **state)
{
	loop_device(512);
}

static void block_devices_of_4096_byte_sectors_agree_with_the_model(void **state)
{
	loop_device(4096);
}

/* ---- hot removal under load ---- */

static struct {
	struct bdev_desc *desc;
	struct bdev_channel *ch;
	struct bdev_io ios[32];
	struct iovec iov[32];
	uint8_t *buffer;
	bool stop;
	uint32_t under_way, stopped, closed, total;
} load;

static void load_next(struct bdev_io *io);

static void close_load(void *unused)
{
	bdev_close(load.desc);
	__atomic_store_n(&load.closed, 1, __ATOMIC_RELEASE);
}

static void load_done(struct bdev_io *io, enum io_status status)
{
	must(status == IO_SUCCESS);
	load.total++;
	if (!load.stop) {
		load_next(io);
	} else if (--load.under_way == 0) {
		bdev_channel_put(load.ch);
		thread_send_msg(thread_control(), close_load, NULL);
	}
}

static void load_next(struct bdev_io *io)
{
	bdev_read(io, load.ch, &load.iov[io - load.ios], 1, load.total % 100, 8, reactor_now(), load_done);
}

static void load_start(void *unused)
{
	load.ch = bdev_channel_get(load.desc);
	for (size_t i = 0; i < ARRAY_COUNT(load.ios); i++) {
		bdev_io_init(&load.ios[i]);
		load.under_way++;
		load_next(&load.ios[i]);
	}
}

static void load_stop(void *unused)
{
	load.stop = true;
}

static void removed(void *unused)
{
	thread_send_msg(rig_thread(0), load_stop, NULL);
}

static void load_open(void *unused)
{
	must(bdev_open("f", removed, NULL, &load.desc) == 0);
}

static void a_file_bdev_is_removed_under_load(void **state)
{
	memset(&load, 0, sizeof(load));
	make_file("/tmp", FILE_BYTES);
	create_file(&(struct file_options){ .name = "f", .filename = path, .block_bytes = 512 });
	load.buffer = aligned_alloc(4096, 4096 * ARRAY_COUNT(load.ios));
	assert_non_null(load.buffer);
	for (size_t i = 0; i < ARRAY_COUNT(load.ios); i++)
		load.iov[i] = (struct iovec){ load.buffer + i * 4096, 4096 };
	rig_on(thread_control(), load_open, NULL);
	rig_on(rig_thread(0), load_start, NULL);
	usleep(20000);
	rig_delete("f");
	assert_int_equal(load.closed, 1);
	assert_true(load.total > 32);
	free(load.buffer);
}

/* ---- saved configuration ---- */

enum { TEXT_BYTES_MAX = 2000 };

static void config_add_string(void *ctx, const char *key, const char *value)
{
	char *text = ctx;
	size_t used = strlen(text);

	snprintf(text + used, TEXT_BYTES_MAX - used, "%s=%s ", key, value);
}

static void config_add_number(void *ctx, const char *key, uint64_t value)
{
	char number[32];

	snprintf(number, sizeof(number), "%llu", (unsigned long long)value);
	config_add_string(ctx, key, number);
}

static void config_add_boolean(void *ctx, const char *key, bool value)
{
	config_add_string(ctx, key, value ? "true" : "false");
}

static void config_is(const char *name, const char *method, const char *expected)
{
	char text[TEXT_BYTES_MAX] = "";
	const struct bdev_visitor visitor = { text, config_add_string, config_add_number, config_add_boolean };
	struct bdev *bdev = rig_find(name);

	assert_string_equal(bdev->ops->create_method, method);
	bdev->ops->describe_config(bdev, &visitor);
	assert_non_null(strstr(text, "uuid="));
	if (!strstr(text, expected))
		fail_msg("\"%s\" is not in \"%s\"", expected, text);
}

static void each_device_saves_its_creation_call(void **state)
{
	char expected[200];

	rig_null("n", 7, 4096);
	rig_malloc("m", 9, 512);
	make_file("/tmp", FILE_BYTES);
	create_file(&(struct file_options){ .name = "u", .filename = path, .block_bytes = 4096 });
	config_is("n", "bdev_null_create", "name=n num_blocks=7 block_size=4096 ");
	config_is("m", "bdev_malloc_create", "name=m num_blocks=9 block_size=512 ");
	snprintf(expected, sizeof(expected), "name=u filename=%s block_size=4096 uuid=", path);
	config_is("u", "bdev_uring_create", expected);
	rig_delete("u");
	create_file(&(struct file_options){
		.name = "a", .filename = path, .block_bytes = 4096, .kind = FILE_KIND_AIO, .read_only = true });
	config_is("a", "bdev_aio_create", " readonly=true fallocate=false ");
	rig_delete("n");
	rig_delete("m");
	rig_delete("a");
}

/* ---- locks ---- */

static int lock_separately(short type)
{
	struct flock lock = { .l_type = type, .l_whence = SEEK_SET };
	int fd = open(path, O_RDWR | O_CLOEXEC);

	/* another open file description conflicts like another process */
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_OFD_SETLK, &lock), 0);
	return fd;
}

static void a_file_has_one_writer_or_any_number_of_readers(void **state)
{
	char other_name[sizeof(path) + 8];
	int fd;

	make_file("/tmp", FILE_BYTES);
	snprintf(other_name, sizeof(other_name), "%s.link", path);
	assert_int_equal(link(path, other_name), 0);
	create_file(&(struct file_options){ .name = "first", .filename = path });
	refused_as_busy(path, false, "is block device \"first\"");
	refused_as_busy(path, true, "is block device \"first\"");
	refused_as_busy(other_name, false, "is block device \"first\"");
	rig_delete("first");
	create_file(&(struct file_options){ .name = "first", .filename = path, .read_only = true });
	create_file(&(struct file_options){ .name = "reader", .filename = other_name, .read_only = true });
	refused_as_busy(path, false, "is block device");
	rig_delete("first");
	rig_delete("reader");
	assert_int_equal(unlink(other_name), 0);
	fd = lock_separately(F_RDLCK);
	refused_as_busy(path, false, "another process");
	create_file(&(struct file_options){ .name = "reader", .filename = path, .read_only = true });
	rig_delete("reader");
	close(fd);
	fd = lock_separately(F_WRLCK);
	refused_as_busy(path, false, "another process");
	refused_as_busy(path, true, "another process writes to it");
	close(fd);
	create_file(&(struct file_options){ .name = "first", .filename = path });
	rig_delete("first");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, rig_setup, teardown)
#define REAL(name)                                                                                                         \
	{ #name "_by_uring", name, setup_real, teardown, NULL },                                                           \
	{                                                                                                                  \
#name "_by_helpers", name, setup_helpers, teardown, NULL                                                   \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(null_reads_zeroes_and_returns_no_old_data),
		CASE(malloc_agrees_with_the_model),
		CASE(file_agrees_with_the_model),
		REAL(file_agrees_with_the_model),
		REAL(written_data_is_read_after_the_file_is_opened_again),
		CASE(a_file_that_cannot_be_opened_is_explained),
		CASE(a_failed_open_does_not_fall_back_to_the_page_cache),
		CASE(a_file_opened_read_only_is_unchanged),
		REAL(a_read_past_the_end_of_a_truncated_file_is_an_error),
		REAL(a_write_on_a_full_filesystem_ends_with_no_space),
		REAL(block_devices_of_512_byte_sectors_agree_with_the_model),
		REAL(block_devices_of_4096_byte_sectors_agree_with_the_model),
		REAL(a_file_bdev_is_removed_under_load),
		CASE(each_device_saves_its_creation_call),
		CASE(a_file_has_one_writer_or_any_number_of_readers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
