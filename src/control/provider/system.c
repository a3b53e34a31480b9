/* SPDX-License-Identifier: BSD-2-Clause */
/* The operating system itself: files, mounts, processes. Addresses and signatures are in files of their own. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/nvme_ioctl.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"
#include "control/provider/internal.h"

static int full_path(const struct provider *self, const char *path, char to[PROVIDER_PATH_BYTES_MAX])
{
	int used = snprintf(to, PROVIDER_PATH_BYTES_MAX, "%s%s", self->root, path);

	return used < 0 || used >= PROVIDER_PATH_BYTES_MAX ? -ENAMETOOLONG : 0;
}

static int or_errno(int result)
{
	return result < 0 ? -errno : result;
}

static int system_open(struct provider *self, const char *path, int flags, mode_t mode, bool plain)
{
	char full[PROVIDER_PATH_BYTES_MAX];
	int error = full_path(self, path, full);

	if (error)
		return error;
	if (plain) {
		struct open_how how = {
			.flags = (unsigned int)(flags | O_CLOEXEC),
			.mode = flags & O_CREAT ? mode : 0,
			.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
		};

		return or_errno((int)syscall(SYS_openat2, AT_FDCWD, full, &how, sizeof(how)));
	}
	return or_errno(open(full, flags | O_CLOEXEC, mode));
}

static void system_close(struct provider *self, int fd)
{
	must(fd >= 0);
	close(fd);
}

static ssize_t system_read_at(struct provider *self, int fd, void *to, size_t bytes, uint64_t offset)
{
	size_t done = 0;

	must(fd >= 0);
	while (done < bytes) {
		ssize_t got = pread(fd, (char *)to + done, bytes - done, (off_t)(offset + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		done += (size_t)got;
	}
	must(done <= bytes);
	return (ssize_t)done;
}

static ssize_t system_write_at(struct provider *self, int fd, const void *from, size_t bytes, uint64_t offset)
{
	size_t done = 0;

	must(fd >= 0);
	while (done < bytes) {
		ssize_t put = pwrite(fd, (const char *)from + done, bytes - done, (off_t)(offset + done));

		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0)
			return -errno;
		if (put == 0)
			break;
		done += (size_t)put;
	}
	must(done <= bytes);
	return (ssize_t)done;
}

static int system_sync(struct provider *self, int fd)
{
	must(fd >= 0);
	return or_errno(fsync(fd));
}

static int system_stat(struct provider *self, int fd, struct stat *stat_ret)
{
	must(fd >= 0);
	return or_errno(fstat(fd, stat_ret));
}

static ssize_t system_read_link(struct provider *self, const char *path, char *to, size_t bytes)
{
	char full[PROVIDER_PATH_BYTES_MAX];
	ssize_t got = full_path(self, path, full);

	if (got)
		return got;
	got = readlink(full, to, bytes);
	if (got < 0)
		return -errno;
	return (size_t)got >= bytes ? -ENAMETOOLONG : got;
}

static int system_list(struct provider *self, const char *path, provider_name_fn visit, void *ctx)
{
	char full[PROVIDER_PATH_BYTES_MAX];
	int error = full_path(self, path, full);
	struct dirent *entry;
	DIR *folder;

	must(visit);
	if (error)
		return error;
	folder = opendir(full);
	if (!folder)
		return -errno;
	errno = 0;
	while (!error && (entry = readdir(folder))) {
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			error = visit(ctx, entry->d_name);
		errno = 0;
	}
	if (!error && errno)
		error = -errno;
	closedir(folder);
	return error;
}

static int system_make_folder(struct provider *self, const char *path, mode_t mode)
{
	char full[PROVIDER_PATH_BYTES_MAX];
	int error = full_path(self, path, full);

	return error ? error : or_errno(mkdir(full, mode));
}

static int system_change_owner(struct provider *self, int fd, uid_t uid, gid_t gid)
{
	must(fd >= 0);
	return or_errno(fchown(fd, uid, gid));
}

static int system_change_mode(struct provider *self, int fd, mode_t mode)
{
	must(fd >= 0);
	return or_errno(fchmod(fd, mode));
}

static int system_lock(struct provider *self, int fd)
{
	must(fd >= 0);
	return or_errno(flock(fd, LOCK_EX | LOCK_NB));
}

static int system_device_bytes(struct provider *self, int fd, uint64_t *bytes_ret)
{
	must(fd >= 0);
	return or_errno(ioctl(fd, BLKGETSIZE64, bytes_ret));
}

static int system_nvme_admin(struct provider *self, int fd, const struct provider_nvme *command)
{
	struct nvme_passthru_cmd passed = {
		.opcode = command->opcode,
		.nsid = command->nsid,
		.addr = (uintptr_t)command->data,
		.data_len = command->bytes,
		.cdw10 = command->cdw10,
		.cdw11 = command->cdw11,
		.timeout_ms = command->timeout_ms,
	};

	must(fd >= 0);
	return or_errno(ioctl(fd, NVME_IOCTL_ADMIN_CMD, &passed));
}

static int system_mount(struct provider *self, const char *device, int target_fd, const char *type, unsigned long flags)
{
	char full[PROVIDER_PATH_BYTES_MAX], target[32];
	int error = full_path(self, device, full);

	must(target_fd >= 0);
	if (error)
		return error;
	snprintf(target, sizeof(target), "/proc/self/fd/%d", target_fd);
	return or_errno(mount(full, target, type, flags, NULL));
}

/* Relative to the parent's descriptor, so that no other path can replace it; a descriptor of the mount keeps it busy. */
static int system_unmount(struct provider *self, int parent_fd, const char *name)
{
	int error;

	must(parent_fd >= 0);
	must(!strchr(name, '/'));
	if (fchdir(parent_fd) != 0)
		return -errno;
	error = or_errno(umount2(name, UMOUNT_NOFOLLOW));
	if (chdir("/") != 0 && !error)
		error = -errno;
	return error;
}

/* Read the program's output to its end, and keep the beginning. A read error fails: half an output may be misleading. */
static int read_output(int fd, struct provider_run *run)
{
	size_t used = 0;
	char piece[512];

	for (;;) {
		ssize_t got = read(fd, piece, sizeof(piece));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		if (used < sizeof(run->output) - 1) {
			size_t room = sizeof(run->output) - 1 - used;
			size_t take = (size_t)got < room ? (size_t)got : room;

			memcpy(run->output + used, piece, take);
			used += take;
		}
	}
	must(used < sizeof(run->output));
	run->output[used] = '\0';
	return 0;
}

static int wait_for_exit(pid_t pid, int *status_ret)
{
	must(pid > 0); /* not "any child" */
	while (waitpid(pid, status_ret, 0) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	return 0;
}

/*
 * Set all user and group IDs to the effective ones, which needs no privilege. In a set-user-ID process the real user
 * differs: then exec would clear PR_SET_PDEATHSIG, and the real user could signal the program. With no_new_privs, Linux 6.1
 * would even run the program as the real user.
 */
static int take_effective_ids(void)
{
	uid_t uid = geteuid();
	gid_t gid = getegid();

	/* the C library's functions would signal threads, which a child of fork() does not have */
	if (getgid() != gid && syscall(SYS_setresgid, gid, gid, gid) != 0)
		return -1;
	return getuid() != uid && syscall(SYS_setresuid, uid, uid, uid) != 0 ? -1 : 0;
}

/*
 * In the child: only calls that are safe between fork and exec. It dies with the thread that waits for it, so that no
 * unsupervised program keeps working on a device.
 */
static void exec_child(const char *const argv[], const char *const env[], int output_fd, int told_fd, pid_t parent)
{
	int error, null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (null_fd >= 0 && take_effective_ids() == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent &&
	    dup2(null_fd, STDIN_FILENO) >= 0 && dup2(output_fd, STDOUT_FILENO) >= 0 &&
	    dup2(output_fd, STDERR_FILENO) >= 0 && dup2(told_fd, STDERR_FILENO + 1) >= 0 &&
	    fcntl(STDERR_FILENO + 1, F_SETFD, FD_CLOEXEC) == 0 && close_range(STDERR_FILENO + 2, ~0u, 0) == 0) {
		told_fd = STDERR_FILENO + 1;
		execve(argv[0], (char *const *)argv,
		       (char *const *)env); /* execve() changes neither; its prototype lacks const */
	}
	error = errno;
	(void)!write(told_fd, &error, sizeof(error)); /* there is no other way to report it */
	_exit(127);
}

/* 0 when the program runs; else the negative errno of fork or exec. */
static int start_child(const char *const argv[], const char *const env[], int output_fd, pid_t *pid_ret)
{
	pid_t parent = getpid();
	int told[2], said = 0, error = 0;
	pid_t pid;

	if (pipe2(told, O_CLOEXEC) != 0)
		return -errno;
	pid = fork();
	if (pid == 0)
		exec_child(argv, env, output_fd, told[1], parent);
	if (pid < 0)
		error = -errno;
	close(told[1]);
	if (!error && read(told[0], &said, sizeof(said)) > 0) {
		int status;

		(void)wait_for_exit(pid, &status); /* the child exits after the write */
		error = -said;
	}
	close(told[0]);
	*pid_ret = pid;
	return error;
}

static int system_run(struct provider *self, const char *const argv[], const char *const env[],
		      struct provider_run *run_ret)
{
	int ends[2], error, waited;
	pid_t pid = -1;

	if (pipe2(ends, O_CLOEXEC) != 0)
		return -errno;
	error = start_child(argv, env, ends[1], &pid);
	close(ends[1]);
	if (error) {
		close(ends[0]);
		return error;
	}
	error = read_output(ends[0], run_ret);
	close(ends[0]); /* before waiting: after a read error the program must not block on a full pipe */
	waited = wait_for_exit(pid, &run_ret->status);
	return error ? error : waited;
}

static int system_rename(struct provider *self, const char *from, const char *to)
{
	char full[PROVIDER_PATH_BYTES_MAX], full_to[PROVIDER_PATH_BYTES_MAX];
	int error = full_path(self, from, full);

	if (!error)
		error = full_path(self, to, full_to);
	return error ? error : or_errno(rename(full, full_to));
}

static int system_remove(struct provider *self, const char *path)
{
	char full[PROVIDER_PATH_BYTES_MAX];
	int error = full_path(self, path, full);

	return error ? error : or_errno(unlink(full));
}

static const struct provider_calls system_calls = {
	.open = system_open,
	.close_fd = system_close,
	.read_at = system_read_at,
	.write_at = system_write_at,
	.sync = system_sync,
	.stat = system_stat,
	.read_link = system_read_link,
	.list = system_list,
	.make_folder = system_make_folder,
	.change_owner = system_change_owner,
	.change_mode = system_change_mode,
	.lock = system_lock,
	.device_bytes = system_device_bytes,
	.signature = provider_blkid_signature,
	.nvme_admin = system_nvme_admin,
	.mount = system_mount,
	.unmount = system_unmount,
	.run = system_run,
	.rename = system_rename,
	.remove = system_remove,
	.start = provider_system_start,
	.open_process = provider_system_open_process,
	.signal_process = provider_system_signal_process,
	.addresses = provider_system_addresses,
};

struct provider *provider_system(void)
{
	static struct provider the_system = { .calls = &system_calls };

	return &the_system;
}

int provider_init_below(struct provider *provider, const char *root)
{
	provider->calls = &system_calls;
	return text_copy(provider->root, sizeof(provider->root), root);
}
