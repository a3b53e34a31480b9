/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * provider - the operating system behind a table: files of /sys, /proc and /dev, mounts, devices, processes, addresses.
 *
 * Who scans, mounts or formats calls through a `struct provider`, so that tests can move the root of all paths into a
 * folder of theirs, keep a mount table of their own, and have any single call fail. provider_system() is the real one. A
 * double and one whose n-th call fails are in test/unit/control/provider.
 *
 * All calls return 0 (or what they count) or a negative errno, and block as long as the kernel does. Any thread, except
 * where it says otherwise. Descriptors close at exec and are the caller's, to be given to close_fd of the same provider.
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
	PROVIDER_OUTPUT_BYTES_MAX = 2048, /* of a program that was run */
};

struct provider;

/* What stands on a device, by its superblocks. All empty: nothing that is known. */
struct provider_signature {
	char type[32];	/* "xfs", "ext4", "linux_raid_member", "LVM2_member", "crypto_LUKS", "swap" ... */
	char usage[16]; /* "filesystem", "raid", "crypto", "other" */
	char label[64];
	char uuid[40];
	char partition_table[16]; /* "gpt", "dos" ... */
	bool several;		  /* signatures that contradict each other */
};

/* A program that was run: `output` is the beginning of what it wrote, on both its outputs, NUL-terminated. */
struct provider_run {
	int status; /* as of waitpid() */
	char output[PROVIDER_OUTPUT_BYTES_MAX];
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

/* Each name in a folder but "." and ".."; `name` is borrowed. Not 0 ends the walk with it. */
typedef int (*provider_name_fn)(void *ctx, const char *name);
typedef int (*provider_address_fn)(void *ctx, const struct provider_address *address);

struct provider_calls {
	/* The new descriptor. `plain`: no symbolic link in any part of the path (-ELOOP). */
	int (*open)(struct provider *self, const char *path, int flags, mode_t mode, bool plain);
	void (*close_fd)(struct provider *self, int fd);
	/* As pread(2) and pwrite(2), begun again when interrupted: bytes, fewer only at the end. */
	ssize_t (*read_at)(struct provider *self, int fd, void *to, size_t bytes, uint64_t offset);
	ssize_t (*write_at)(struct provider *self, int fd, const void *from, size_t bytes, uint64_t offset);
	int (*sync)(struct provider *self, int fd);
	int (*stat)(struct provider *self, int fd, struct stat *stat_ret);
	/* Bytes, without a NUL; -ENAMETOOLONG: they would not fit with one. */
	ssize_t (*read_link)(struct provider *self, const char *path, char *to, size_t bytes);
	int (*list)(struct provider *self, const char *path, provider_name_fn visit, void *ctx);
	int (*make_folder)(struct provider *self, const char *path, mode_t mode);
	int (*change_owner)(struct provider *self, int fd, uid_t uid, gid_t gid);
	int (*change_mode)(struct provider *self, int fd, mode_t mode);
	/* Nobody else's while the open file of `fd` is there: flock(2). -EWOULDBLOCK: somebody else's. */
	int (*lock)(struct provider *self, int fd);

	/* The bytes of a block device. */
	int (*device_bytes)(struct provider *self, int fd, uint64_t *bytes_ret);
	int (*signature)(struct provider *self, int fd, struct provider_signature *signature_ret);

	/* As mount(2), on the folder that `target_fd` stands for, whatever is at its path meanwhile. */
	int (*mount)(struct provider *self, const char *device, int target_fd, const char *type, unsigned long flags);
	/*
	 * What is mounted on `name` in the folder `parent_fd`. Moves the working directory: not with other threads.
	 */
	int (*unmount)(struct provider *self, int parent_fd, const char *name);

	/*
	 * Run `argv` with exactly the environment `env` and wait for its end. Nothing but the three standard descriptors is
	 * handed on, standard input is empty.
	 */
	int (*run)(struct provider *self, const char *const argv[], const char *const env[], struct provider_run *run_ret);

	/* As rename(2) and unlink(2). */
	int (*rename)(struct provider *self, const char *from, const char *to);
	int (*remove)(struct provider *self, const char *path);

	/*
	 * Start `argv` with exactly the environment `env`, in a session of its own, to live on without us: none of our
	 * descriptors, no signal blocked or ignored, both outputs appended to `log_file` (NULL: they go nowhere). Paths are
	 * the real ones. The child is the caller's to wait for.
	 */
	int (*start)(struct provider *self, char *const argv[], char *const env[], const char *log_file, pid_t *pid_ret);
	/* A descriptor (pidfd) of that process; and a signal to the process of one. */
	int (*open_process)(struct provider *self, pid_t pid);
	int (*signal_process)(struct provider *self, int pid_fd, int signal);

	/* IPv4 and IPv6 addresses of all interfaces. */
	int (*addresses)(struct provider *self, provider_address_fn visit, void *ctx);
};

struct provider {
	const struct provider_calls *calls;
	char root[PROVIDER_PATH_BYTES_MAX]; /* before every path; "" for the real one */
};

/* The operating system itself. One for all. */
struct provider *provider_system(void);

/* As above, with all paths below the folder `root` (copied). -ENAMETOOLONG. */
MUST_CHECK int provider_init_below(struct provider *provider, const char *root);

/* ---- what is made of those calls ---- */

enum { PROVIDER_HOLDER_BYTES = 24 };

/* The number of the process that holds the lock on the open file `fd`, for people; or "(unknown)". */
void provider_lock_holder(struct provider *provider, int fd, char *to);

/* The file's text without trailing white space, NUL-terminated; -EFBIG: longer. */
MUST_CHECK int provider_read_text(struct provider *provider, const char *path, char *to, size_t bytes);

/* A file that holds a number alone, as sysfs has them; below 0 is possible. -EINVAL: it holds something else. */
MUST_CHECK int provider_read_number(struct provider *provider, const char *path, int64_t *number_ret);

/* A whole file, of any length up to `bytes_max`, NUL-terminated, the caller's to free(). -EFBIG, -ENOMEM. */
MUST_CHECK int provider_read_file(struct provider *provider, const char *path, size_t bytes_max, char **text_ret);

/*
 * Where the symbolic link `path` leads, as an absolute path without "..": its own folder's path and the link joined. Links
 * inside the result are not followed. -ENAMETOOLONG, and the errors of readlink(2).
 */
MUST_CHECK int provider_follow(struct provider *provider, const char *path, char *to, size_t bytes);

#endif
