/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * provider - the operating system behind a table: files of /sys, /proc and /dev, mounts, devices, processes, addresses.
 *
 * Scanning, mounting and formatting make system calls through a `struct provider`, so that tests can put the root of all
 * paths into a folder, simulate the mount table, and make any single call fail. provider_system() is the real one. A test
 * double, and a provider whose n-th call fails, are in test/unit/control/provider.
 *
 * All calls return 0 (or a count) or a negative errno, and block as long as the kernel does. Any thread, unless noted.
 * Descriptors are close-on-exec; the caller owns them and closes them with close_fd of the same provider.
 */
#ifndef CONTROL_PROVIDER_PROVIDER_H
#define CONTROL_PROVIDER_PROVIDER_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/must.h"

enum {
	PROVIDER_PATH_BYTES_MAX = 512, /* with the NUL, and with the root of a test */
	PROVIDER_NAME_BYTES_MAX = 256,
	PROVIDER_OUTPUT_BYTES_MAX = 2048, /* of a program */
};

struct provider;

/* The contents of a device, by its superblocks. All empty: no known signature. */
struct provider_signature {
	char type[32];	/* "xfs", "ext4", "linux_raid_member", "LVM2_member", "crypto_LUKS", "swap" ... */
	char usage[16]; /* "filesystem", "raid", "crypto", "other" */
	char label[64];
	char uuid[40];
	char partition_table[16]; /* "gpt", "dos" ... */
	bool several;		  /* several signatures, which contradict each other */
};

/* The result of a program: `output` is the beginning of its standard output and error, NUL-terminated. */
struct provider_run {
	int status; /* as of waitpid() */
	char output[PROVIDER_OUTPUT_BYTES_MAX];
};

/* An admin command to an NVMe controller. Its opcode tells the direction of the data. */
struct provider_nvme {
	uint8_t opcode;
	uint32_t nsid, cdw10, cdw11;
	void *data;
	uint32_t bytes, timeout_ms;
};

/* An address of a network interface. */
struct provider_address {
	const char *interface;
	int family; /* AF_INET, AF_INET6 */
	union {
		struct in_addr v4;
		struct in6_addr v6;
	};
	unsigned int prefix_bits;
};

/* Called for each name in a folder except "." and ".."; borrows `name`. A result other than 0 ends the walk with it. */
typedef int (*provider_name_fn)(void *ctx, const char *name);
typedef int (*provider_address_fn)(void *ctx, const struct provider_address *address);

struct provider_calls {
	/* The new descriptor. `plain`: no symbolic link in any part of the path (-ELOOP). */
	int (*open)(struct provider *self, const char *path, int flags, mode_t mode, bool plain);
	void (*close_fd)(struct provider *self, int fd);
	/* As pread(2) and pwrite(2), repeated after EINTR and short transfers: bytes, fewer only at the end. */
	ssize_t (*read_at)(struct provider *self, int fd, void *to, size_t bytes, uint64_t offset);
	ssize_t (*write_at)(struct provider *self, int fd, const void *from, size_t bytes, uint64_t offset);
	int (*sync)(struct provider *self, int fd);
	int (*stat)(struct provider *self, int fd, struct stat *stat_ret);
	/* Returns bytes, without a NUL; -ENAMETOOLONG: the link and a NUL do not fit. */
	ssize_t (*read_link)(struct provider *self, const char *path, char *to, size_t bytes);
	int (*list)(struct provider *self, const char *path, provider_name_fn visit, void *ctx);
	int (*make_folder)(struct provider *self, const char *path, mode_t mode);
	int (*change_owner)(struct provider *self, int fd, uid_t uid, gid_t gid);
	int (*change_mode)(struct provider *self, int fd, mode_t mode);
	/* Exclusive flock(2), until the open file of `fd` is closed. -EWOULDBLOCK: another file holds the lock. */
	int (*lock)(struct provider *self, int fd);

	/* The bytes of a block device. */
	int (*device_bytes)(struct provider *self, int fd, uint64_t *bytes_ret);
	int (*signature)(struct provider *self, int fd, struct provider_signature *signature_ret);
	/* 0; -errno, -ENOTTY: no NVMe device; or the status of the controller, which is positive. */
	int (*nvme_admin)(struct provider *self, int fd, const struct provider_nvme *command);

	/* As mount(2), on the open folder `target_fd`, even if its path leads elsewhere meanwhile. */
	int (*mount)(struct provider *self, const char *device, int target_fd, const char *type, unsigned long flags);
	/*
	 * Unmount `name` in the folder `parent_fd`. Changes the working directory: must not be called with other threads.
	 */
	int (*unmount)(struct provider *self, int parent_fd, const char *name);

	/*
	 * Run `argv` with exactly the environment `env` and wait for its end. It inherits only the three standard
	 * descriptors; standard input is empty.
	 */
	int (*run)(struct provider *self, const char *const argv[], const char *const env[], struct provider_run *run_ret);

	/* As rename(2) and unlink(2). */
	int (*rename)(struct provider *self, const char *from, const char *to);
	int (*remove)(struct provider *self, const char *path);

	/*
	 * Start `argv` with exactly the environment `env`, in its own session, so that it survives this process. It
	 * inherits no descriptors and no blocked or ignored signals; both its outputs are appended to `log_file` (NULL:
	 * discarded). Paths are not below `root`. The caller waits for the child.
	 */
	int (*start)(struct provider *self, char *const argv[], char *const env[], const char *log_file, pid_t *pid_ret);
	/* Open a pidfd of the process; send a signal to the process of a pidfd. */
	int (*open_process)(struct provider *self, pid_t pid);
	int (*signal_process)(struct provider *self, int pid_fd, int signal);

	/* IPv4 and IPv6 addresses of all interfaces. */
	int (*addresses)(struct provider *self, provider_address_fn visit, void *ctx);
};

struct provider {
	const struct provider_calls *calls;
	char root[PROVIDER_PATH_BYTES_MAX]; /* prefix of all paths; "" of provider_system() */
};

/* The operating system itself. A single object. */
struct provider *provider_system(void);

/* The operating system with all paths below the folder `root` (copied). -ENAMETOOLONG. */
MUST_CHECK int provider_init_below(struct provider *provider, const char *root);

/* ---- functions on these calls ---- */

enum { PROVIDER_HOLDER_BYTES = 24 };

/* The pid of the process that holds the lock on the open file `fd`, or "(unknown)". `to`: of PROVIDER_HOLDER_BYTES. */
void provider_lock_holder(struct provider *provider, int fd, char *to);

/* The file's text without trailing white space, NUL-terminated; -EFBIG: longer. */
MUST_CHECK int provider_read_text(struct provider *provider, const char *path, char *to, size_t bytes);

/* Read a file that contains only a number, as in sysfs; it may be negative. -EINVAL: it contains something else. */
MUST_CHECK int provider_read_number(struct provider *provider, const char *path, int64_t *number_ret);

/* Read a whole file of up to `bytes_max`, NUL-terminated; the caller calls free(). -EFBIG, -ENOMEM. */
MUST_CHECK int provider_read_file(struct provider *provider, const char *path, size_t bytes_max, char **text_ret);

/*
 * The target of the symbolic link `path`, as an absolute path without "..": the path of its folder joined with the link.
 * Links inside the result are not followed. -ENAMETOOLONG, and the errors of readlink(2).
 */
MUST_CHECK int provider_follow(struct provider *provider, const char *path, char *to, size_t bytes);

#endif
