/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * file_open - what is this file, how large, and how may it be gone at?
 *
 * O_DIRECT has rules of its own for each filesystem and device: where in the file, and where in memory, an I/O may begin.
 * statx() says so since Linux 6.1 for most of them. Where it does not, memory is taken to need a page's alignment, and a
 * trial says about the file: reading 512 bytes at 512. A block size below what the file needs means the page cache, which
 * takes anything.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/text.h"
#include "data/store/backend/file_internal.h"

enum { SECTOR_BYTES = 512, PAGE_BYTES = 4096, IOV_COUNT_MAX = 1024 };
static_assert((int)PAGE_BYTES <= (int)BDEV_BUFFER_ALIGNMENT_MAX, "what is taken to be needed is what the core can keep");
static_assert((int)SECTOR_BYTES == (int)BDEV_BLOCK_BYTES_MIN, "the least block is the least that is tried");

/*
 * ---- O_DIRECT ----
 *
 * A file that cannot be read so now, for want of memory or descriptors, is not opened otherwise: its block size and speed
 * would be others than at the next start.
 */

/* Whether an I/O may begin there. -ENOMEM. */
static int trial(int fd, off_t offset, size_t bytes, bool *may_ret)
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

static int rules_by_trial(int fd, struct direct_rules *rules_ret)
{
	bool sector, page = false;
	int rc = trial(fd, SECTOR_BYTES, SECTOR_BYTES, &sector);

	if (rc == 0 && !sector)
		rc = trial(fd, 0, PAGE_BYTES, &page);
	if (rc < 0)
		return rc;
	*rules_ret = sector ? (struct direct_rules){ PAGE_BYTES, SECTOR_BYTES }
		     : page ? (struct direct_rules){ PAGE_BYTES, PAGE_BYTES }
			    : (struct direct_rules){ 0, 0 };
	return 0;
}

/* A second descriptor with O_DIRECT; -1: not on this file. Errors: -ENOMEM, -EMFILE, -ENFILE. */
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
		rc = rules_by_trial(fd, rules_ret);
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
 * A file that cannot be read without blocking (RWF_NOWAIT) has each operation done by a worker pthread of the kernel's, and
 * so have writes through the page cache that wait for its pages. For a read through the page cache the submitter itself may
 * wait, when the queue of the device is full. All of those go to our helpers. A block device that is opened with O_DIRECT
 * needs no trial: it never waits.
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

static int geometry_of_device(struct file_bdev *self, uint32_t block_bytes, uint64_t *bytes_ret, struct fault *why)
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

static int geometry(struct file_bdev *self, const struct stat *st, uint32_t block_bytes, struct fault *why)
{
	uint64_t bytes = (uint64_t)st->st_size;
	int rc;

	must(is_power_of_two(self->offset_alignment));
	if (self->block_device) {
		rc = geometry_of_device(self, block_bytes, &bytes, why);
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

	if (got == -ENOENT) /* a partition: its disk says it */
		got = sysfs_read(sysfs, device, "../queue/write_zeroes_max_bytes", text, sizeof(text));
	return got > 0 && text_parse_u64(text, 10, UINT64_MAX, &bytes) == 0 && bytes > 0;
}

/* Beyond the end there is nothing to lose, and the filesystem says whether it knows how. */
static bool knows_holes(const struct file_bdev *self, const struct stat *st)
{
	off_t beyond = (off_t)round_up((uint64_t)st->st_size, PAGE_BYTES);

	if (self->block_device)
		return sysfs_punches_holes(SYSFS, self->device);
	return fallocate(self->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, beyond, PAGE_BYTES) == 0;
}

/*
 * ---- whose it is ----
 *
 * Who writes has the file alone, who reads shares it with readers: an advisory lock, and for a block device also O_EXCL,
 * which mounts and RAIDs heed. They hang on a descriptor of their own, through which no I/O goes: it closes with the
 * process, when the kernel may still be busy with the last I/O of one that was killed, and the next engine need not wait.
 */

static void note_identity(struct file_bdev *self, const struct stat *st)
{
	self->block_device = S_ISBLK(st->st_mode);
	self->device = self->block_device ? st->st_rdev : st->st_dev;
	self->inode = self->block_device ? 0 : st->st_ino;
}

/* A bdev of ours on the same file, unless both only read; NULL: none. */
static const struct bdev *twin_of(const struct file_bdev *self)
{
	for (const struct bdev *bdev = bdev_first(); bdev; bdev = bdev_next(bdev)) {
		const struct file_bdev *other = container_of(bdev, struct file_bdev, bdev);

		if (bdev->ops->submit != self->bdev.ops->submit || (bdev->read_only && self->bdev.read_only))
			continue;
		if (other->device == self->device && other->inode == self->inode)
			return bdev;
	}
	return NULL;
}

static int in_use(const struct file_bdev *self, struct fault *why)
{
	return fault(why, -EBUSY, "%s is in use: another process %s", self->filename,
		     self->bdev.read_only ? "writes to it" : "has it open as its own, or it is mounted");
}

static int claim(struct file_bdev *self, int flags, struct fault *why)
{
	struct flock lock = { .l_type = self->bdev.read_only ? F_RDLCK : F_WRLCK, .l_whence = SEEK_SET };
	const struct bdev *twin = twin_of(self);
	struct stat st;

	must(self->claim_fd == -1);
	if (twin)
		return fault(why, -EBUSY, "%s is in use: it is block device \"%s\"", self->filename, twin->name);
	if (self->block_device && !self->bdev.read_only)
		flags |= O_EXCL;
	self->claim_fd = open(self->filename, flags);
	if (self->claim_fd < 0 && errno == EBUSY)
		return in_use(self, why);
	if (self->claim_fd < 0 || fstat(self->claim_fd, &st) < 0)
		return fault(why, -errno, "cannot open %s: %s", self->filename, strerror(errno));
	if ((self->block_device ? st.st_rdev : st.st_dev) != self->device ||
	    (!self->block_device && st.st_ino != self->inode))
		return fault(why, -ESTALE, "%s has been replaced while it was opened", self->filename);
	if (fcntl(self->claim_fd, F_OFD_SETLK, &lock) < 0 && (errno == EAGAIN || errno == EACCES))
		return in_use(self, why);
	return 0; /* any other error: a filesystem that knows no locks */
}

/* ---- the door ---- */

static int refused(const struct file_bdev *self, const struct file_options *options, int error, struct fault *why)
{
	const char *hint = (error == EACCES || error == EROFS) && !options->read_only ? " (it may be possible read-only)"
										      : "";

	return fault(why, -error, "cannot open %s: %s%s", self->filename, strerror(error), hint);
}

int file_open(struct file_bdev *self, const struct file_options *options, struct fault *why)
{
	int flags = O_CLOEXEC | (options->read_only ? O_RDONLY : O_RDWR);
	struct direct_rules rules = { 1, 1 };
	struct stat st;
	int fd = -1, rc = 0;

	must(self->fd == -1);
	/* before open(), which would wait for the other end of a pipe */
	if (stat(self->filename, &st) < 0)
		return refused(self, options, errno, why);
	if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
		return fault(why, -ENOTBLK, "%s is neither a file nor a block device", self->filename);
	self->fd = open(self->filename, flags);
	if (self->fd < 0)
		return refused(self, options, errno, why);
	if (fstat(self->fd, &st) < 0)
		return refused(self, options, errno, why);
	note_identity(self, &st);
	rc = claim(self, flags, why);
	if (rc < 0)
		return rc;
	if (!options->no_direct)
		rc = open_direct(self, flags, &fd, &rules);
	if (rc < 0)
		return refused(self, options, -rc, why);
	self->offset_alignment = fd >= 0 ? rules.offset : 1;
	rc = geometry(self, &st, options->block_bytes, why);
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
	must(!self->direct || self->bdev.block_bytes >= rules.offset); /* each block is where O_DIRECT may begin */
	self->is_blocking = may_block(self);
	self->can_zero = !options->no_fallocate && !options->read_only;
	self->can_punch = self->can_zero && knows_holes(self, &st);
	self->bdev.buffer_alignment = self->direct ? rules.memory : 1;
	self->bdev.iov_count_max = IOV_COUNT_MAX;
	return 0;
}

void file_close(struct file_bdev *self)
{
	if (self->fd >= 0)
		(void)close(self->fd); /* what it could say was said by flush */
	if (self->claim_fd >= 0)
		(void)close(self->claim_fd); /* nothing was written through it */
	self->fd = self->claim_fd = -1;
}
