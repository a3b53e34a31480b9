/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * file_open - opens a file and determines its kind, size, alignment and ownership.
 *
 * Each filesystem and device has its own O_DIRECT rules: the alignment of an I/O in the file and in memory. statx() reports
 * them since Linux 6.1 for most filesystems. If it does not, we assume page alignment in memory, and test the file: read
 * 512 bytes at offset 512. If the block size is below the required alignment, I/O uses the page cache, which has no
 * rules.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/inject/inject.h"
#include "base/text.h"
#include "data/store/backend/file_internal.h"
#include "data/store/backend/sums.h"

enum { SECTOR_BYTES = 512, PAGE_BYTES = 4096, IOV_COUNT_MAX = 1024 };
static_assert((int)PAGE_BYTES <= (int)BDEV_BUFFER_ALIGNMENT_MAX, "the core can align to the assumed alignment");
static_assert((int)SECTOR_BYTES == (int)BDEV_BLOCK_BYTES_MIN, "the test reads the smallest possible block");

/*
 * ---- O_DIRECT ----
 *
 * If the test fails for lack of memory or descriptors, opening fails too. Falling back to the page cache would give the
 * device another block size and speed than at the next start.
 */

/* Whether O_DIRECT can read `bytes` at `offset`. -ENOMEM. */
static int try_direct_read(int fd, off_t offset, size_t bytes, bool *may_ret)
{
	void *buffer = aligned_alloc(PAGE_BYTES, PAGE_BYTES);
	ssize_t got;

	must(bytes <= PAGE_BYTES);
	if (!buffer)
		return -ENOMEM;
	got = pread(fd, buffer, bytes, offset);
	free(buffer);
	*may_ret = got >= 0;
	return 0;
}

static int test_direct_rules(int fd, struct direct_rules *rules_ret)
{
	bool sector, page = false;
	int rc = try_direct_read(fd, SECTOR_BYTES, SECTOR_BYTES, &sector);

	if (rc == 0 && !sector)
		rc = try_direct_read(fd, 0, PAGE_BYTES, &page);
	if (rc < 0)
		return rc;
	*rules_ret = sector ? (struct direct_rules){ PAGE_BYTES, SECTOR_BYTES }
		     : page ? (struct direct_rules){ PAGE_BYTES, PAGE_BYTES }
			    : (struct direct_rules){ 0, 0 };
	return 0;
}

/* A second descriptor with O_DIRECT; -1: this file does not support it. Errors: -ENOMEM, -EMFILE, -ENFILE. */
static int open_direct(const struct file_bdev *self, int flags, int *fd_ret, struct direct_rules *rules_ret)
{
	int fd = open(self->filename, flags | O_DIRECT), rc = 0;

	if (fd < 0 && (errno == ENOMEM || errno == EMFILE || errno == ENFILE))
		return -errno;
	if (fd < 0) {
		*fd_ret = -1;
		return 0;
	}
	if (!file_direct_rules(fd, rules_ret))
		rc = test_direct_rules(fd, rules_ret);
	if (rc < 0 || !is_power_of_two(rules_ret->offset) || !is_power_of_two(rules_ret->memory) ||
	    rules_ret->memory > BDEV_BUFFER_ALIGNMENT_MAX) {
		must(close(fd) == 0);
		fd = -1;
	}
	if (rc == 0)
		*fd_ret = fd;
	return rc;
}

/*
 * ---- io_uring ----
 *
 * io_uring runs an operation in a kernel worker pthread if the file cannot be read without blocking (RWF_NOWAIT), or if a
 * write through the page cache waits for pages. A read through the page cache may block the submitter itself while the
 * device's queue is full. All such files use our helper pthreads. A block device with O_DIRECT needs no test: it never
 * blocks.
 */
static bool may_block(const struct file_bdev *self)
{
	uint8_t page[PAGE_BYTES] __attribute__((aligned(PAGE_BYTES)));
	struct iovec iov = { page, sizeof(page) };

	if (!self->direct)
		return true;
	if (self->block_device)
		return false;
	return preadv2(self->fd, &iov, 1, 0, RWF_NOWAIT) < 0 && errno == EOPNOTSUPP;
}

/* ---- size ---- */

static int read_device_geometry(struct file_bdev *self, uint32_t block_bytes, uint64_t *bytes_ret, struct fathom_fault *why)
{
	int logical = 0;
	unsigned int physical = 0;

	if (ioctl(self->fd, BLKGETSIZE64, bytes_ret) < 0 || ioctl(self->fd, BLKSSZGET, &logical) < 0 ||
	    ioctl(self->fd, BLKPBSZGET, &physical) < 0)
		return fault(why, -errno, "%s does not say its size: %s", self->filename, strerror(errno));
	must(self->block_device);
	must(logical >= SECTOR_BYTES);
	if (block_bytes == 0)
		block_bytes = (uint32_t)logical;
	if (block_bytes < (uint32_t)logical)
		return fault(why, -EINVAL, "%s has blocks of %d bytes: a block size of %u is too small", self->filename,
			     logical, block_bytes);
	self->bdev.block_bytes = block_bytes;
	self->bdev.physical_block_bytes = (uint32_t)max_u64(physical, block_bytes);
	return 0;
}

static int read_geometry(struct file_bdev *self, const struct stat *st, uint32_t block_bytes, struct fathom_fault *why)
{
	uint64_t bytes = (uint64_t)st->st_size;
	int rc;

	must(is_power_of_two(self->offset_alignment));
	if (self->block_device) {
		rc = read_device_geometry(self, block_bytes, &bytes, why);
		if (rc < 0)
			return rc;
	} else if (block_bytes) {
		self->bdev.block_bytes = block_bytes;
	} else {
		self->bdev.block_bytes = (uint32_t)max_u64(SECTOR_BYTES, self->offset_alignment);
	}
	self->bdev.block_count = bytes / self->bdev.block_bytes;
	if (self->bdev.block_count == 0)
		return fault(why, -EINVAL, "%s has %" PRIu64 " bytes, less than a block of %u", self->filename, bytes,
			     self->bdev.block_bytes);
	return 0;
}

/* ---- holes ---- */

bool sysfs_punches_holes(const char *sysfs, dev_t device)
{
	char text[32];
	uint64_t bytes;
	ssize_t got = sysfs_read(sysfs, device, "queue/write_zeroes_max_bytes", text, sizeof(text));

	if (got == -ENOENT) /* a partition: its disk has the attribute */
		got = sysfs_read(sysfs, device, "../queue/write_zeroes_max_bytes", text, sizeof(text));
	return got > 0 && text_parse_u64(text, 10, UINT64_MAX, &bytes) == 0 && bytes > 0;
}

/* Whether fallocate() can punch holes. The test is beyond the end of the file, so it destroys no data. */
static bool supports_holes(const struct file_bdev *self, const struct stat *st)
{
	off_t beyond = (off_t)round_up((uint64_t)st->st_size, PAGE_BYTES);

	if (self->block_device)
		return sysfs_punches_holes(SYSFS, self->device);
	return fallocate(self->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, beyond, PAGE_BYTES) == 0;
}

/*
 * ---- exclusive use ----
 *
 * A writable bdev uses the file alone; read-only bdevs share it. An advisory lock enforces this; a block device also gets
 * O_EXCL, which conflicts with mounts and RAIDs. Both belong to a separate descriptor without I/O. So it closes when the
 * process is killed, even if the kernel still holds the I/O descriptor for the last I/O, and the next engine can open the
 * file at once.
 *
 * The table of files in use names the bdev of this process that has a file. A file is in it until it is closed.
 */

static struct {
	pthread_mutex_t mutex;
	LIST_HEAD(, file_bdev) files;
} in_use = { .mutex = PTHREAD_MUTEX_INITIALIZER, .files = LIST_HEAD_INITIALIZER(in_use.files) };

static void lock_table(void)
{
	must(pthread_mutex_lock(&in_use.mutex) == 0);
}

static void unlock_table(void)
{
	must(pthread_mutex_unlock(&in_use.mutex) == 0);
}

static void record_file_identity(struct file_bdev *self, const struct stat *st)
{
	self->block_device = S_ISBLK(st->st_mode);
	self->device = self->block_device ? st->st_rdev : st->st_dev;
	self->inode = self->block_device ? 0 : st->st_ino;
}

/* A bdev of this process on the same file, unless both are read-only; NULL: none. Under the mutex. */
static const struct file_bdev *find_conflict(const struct file_bdev *self)
{
	const struct file_bdev *other;

	LIST_FOREACH (other, &in_use.files, in_use) {
		if (other->device == self->device && other->inode == self->inode &&
		    !(bdev_is_read_only(&other->bdev) && self->bdev.read_only))
			return other;
	}
	return NULL;
}

/* Add `self` to the table. A volume is of the engine that has the lock of the whole storage, so it conflicts with none. */
static int enter_table(struct file_bdev *self, bool is_volume, struct fathom_fault *why)
{
	const struct file_bdev *other;
	const struct trace_istr *name;
	int error = 0;

	must(!self->is_entered);
	lock_table();
	other = is_volume ? NULL : find_conflict(self);
	if (other) {
		name = bdev_name_istr(&other->bdev); /* NULL: it is not registered yet */
		error = fault(why, -EBUSY, "%s is in use: it is block device \"%s\"", self->filename,
			      name ? name->text : other->bdev.name);
	} else {
		LIST_INSERT_HEAD(&in_use.files, self, in_use);
		self->is_entered = true;
	}
	unlock_table();
	return error;
}

static void leave_table(struct file_bdev *self)
{
	lock_table();
	if (self->is_entered)
		LIST_REMOVE(self, in_use);
	self->is_entered = false;
	unlock_table();
}

void file_swap_identity(struct file_bdev *self, struct file_bdev *other)
{
	dev_t device = self->device;
	ino_t inode = self->inode;

	lock_table();
	self->device = other->device;
	self->inode = other->inode;
	other->device = device;
	other->inode = inode;
	unlock_table();
}

static int fault_in_use(const struct file_bdev *self, struct fathom_fault *why)
{
	return fault(why, -EBUSY, "%s is in use: another process %s", self->filename,
		     self->bdev.read_only ? "writes to it" : "has it open as its own, or it is mounted");
}

static int claim_file(struct file_bdev *self, int flags, struct fathom_fault *why)
{
	struct flock lock = { .l_type = self->bdev.read_only ? F_RDLCK : F_WRLCK, .l_whence = SEEK_SET };
	struct stat st;

	must(self->claim_fd == -1);
	if (self->block_device && !self->bdev.read_only)
		flags |= O_EXCL;
	self->claim_fd = open(self->filename, flags);
	if (self->claim_fd < 0 && errno == EBUSY)
		return fault_in_use(self, why);
	if (self->claim_fd < 0 || fstat(self->claim_fd, &st) < 0)
		return fault(why, -errno, "cannot open %s: %s", self->filename, strerror(errno));
	if ((self->block_device ? st.st_rdev : st.st_dev) != self->device ||
	    (!self->block_device && st.st_ino != self->inode))
		return fault(why, -ESTALE, "%s has been replaced while it was opened", self->filename);
	if (fcntl(self->claim_fd, F_OFD_SETLK, &lock) < 0 && (errno == EAGAIN || errno == EACCES))
		return fault_in_use(self, why);
	return 0; /* any other error: the filesystem has no locks */
}

/* ---- public functions ---- */

static int fault_cannot_open(const struct file_bdev *self, const struct file_options *options, int error,
			     struct fathom_fault *why)
{
	const char *hint = (error == EACCES || error == EROFS) && !options->read_only ? " (it may be possible read-only)"
										      : "";

	return fault(why, -error, "cannot open %s: %s%s", self->filename, strerror(error), hint);
}

int file_open(struct file_bdev *self, const struct file_options *options, struct fathom_fault *why)
{
	int flags = O_CLOEXEC | (options->read_only ? O_RDONLY : O_RDWR);
	struct direct_rules rules = { 1, 1 };
	struct stat st;
	int fd = -1, rc = inject(INJECT_VOLUME_OPEN);

	must(self->fd == -1);
	if (rc < 0)
		return fault_cannot_open(self, options, -rc, why);
	/* before open(), which would wait for the other end of a pipe */
	if (stat(self->filename, &st) < 0)
		return fault_cannot_open(self, options, errno, why);
	if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
		return fault(why, -ENOTBLK, "%s is neither a file nor a block device", self->filename);
	self->fd = open(self->filename, flags);
	if (self->fd < 0)
		return fault_cannot_open(self, options, errno, why);
	if (fstat(self->fd, &st) < 0)
		return fault_cannot_open(self, options, errno, why);
	record_file_identity(self, &st);
	rc = enter_table(self, options->kind == FILE_KIND_VOLUME, why);
	if (rc == 0 && options->kind != FILE_KIND_VOLUME)
		rc = claim_file(self, flags, why);
	if (rc < 0)
		return rc;
	if (!options->no_direct)
		rc = open_direct(self, flags, &fd, &rules);
	if (rc < 0)
		return fault_cannot_open(self, options, -rc, why);
	self->offset_alignment = fd >= 0 ? rules.offset : 1;
	rc = read_geometry(self, &st, options->block_bytes, why);
	if (fd >= 0 && (rc < 0 || self->bdev.block_bytes < rules.offset)) {
		must(close(fd) == 0);
		fd = -1;
	}
	if (fd >= 0) {
		must(close(self->fd) == 0);
		self->fd = fd;
		self->direct = true;
	}
	if (rc < 0)
		return rc;
	must(!self->direct || self->bdev.block_bytes >= rules.offset); /* each block is aligned for O_DIRECT */
	self->is_blocking = may_block(self);
	self->can_zero = !options->no_fallocate && !options->read_only;
	self->can_punch = self->can_zero && supports_holes(self, &st);
	self->bdev.buffer_alignment = self->direct ? rules.memory : 1;
	self->bdev.iov_count_max = IOV_COUNT_MAX;
	return 0;
}

void file_close(struct file_bdev *self)
{
	if (self->fd >= 0)
		(void)close(self->fd); /* flush has reported any write error */
	if (self->former_fd >= 0)
		(void)close(self->former_fd);
	sums_close(self->sums);
	self->sums = NULL;
	if (self->claim_fd >= 0)
		(void)close(self->claim_fd); /* no write error possible: it has no I/O */
	self->fd = self->former_fd = self->claim_fd = -1;
	leave_table(self);
}
