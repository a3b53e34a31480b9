/* SPDX-License-Identifier: BSD-2-Clause */
#include "failing.h"

#include "base/bits.h"

static bool fails(struct provider *self, const char *what, struct provider **inner_ret, int *error_ret)
{
	struct failing *failing = container_of(self, struct failing, provider);

	*inner_ret = failing->inner;
	*error_ret = failing->error;
	if (++failing->calls != failing->fails_at)
		return false;
	failing->failed = true;
	failing->what = what;
	return true;
}

/* Define one of `calls`, which passes its arguments to the inner provider. */
#define PASS(type, call, parameters, ...)                                                                                  \
	static type failing_##call parameters                                                                              \
	{                                                                                                                  \
		struct provider *inner;                                                                                    \
		int error;                                                                                                 \
                                                                                                                           \
		if (fails(self, #call, &inner, &error))                                                                    \
			return error;                                                                                      \
		return inner->calls->call(inner, __VA_ARGS__);                                                             \
	}

#define SELF struct provider *self
PASS(int, open, (SELF, const char *path, int flags, mode_t mode, bool plain), path, flags, mode, plain)
PASS(ssize_t, read_at, (SELF, int fd, void *to, size_t bytes, uint64_t offset), fd, to, bytes, offset)
PASS(ssize_t, write_at, (SELF, int fd, const void *from, size_t bytes, uint64_t offset), fd, from, bytes, offset)
PASS(int, sync, (SELF, int fd), fd)
PASS(int, stat, (SELF, int fd, struct stat *stat_ret), fd, stat_ret)
PASS(ssize_t, read_link, (SELF, const char *path, char *to, size_t bytes), path, to, bytes)
PASS(int, list, (SELF, const char *path, provider_name_fn visit, void *ctx), path, visit, ctx)
PASS(int, make_folder, (SELF, const char *path, mode_t mode), path, mode)
PASS(int, change_owner, (SELF, int fd, uid_t uid, gid_t gid), fd, uid, gid)
PASS(int, change_mode, (SELF, int fd, mode_t mode), fd, mode)
PASS(int, lock, (SELF, int fd), fd)
PASS(int, device_bytes, (SELF, int fd, uint64_t *bytes_ret), fd, bytes_ret)
PASS(int, signature, (SELF, int fd, struct provider_signature *signature_ret), fd, signature_ret)
PASS(int, nvme_admin, (SELF, int fd, const struct provider_nvme *command), fd, command)
PASS(int, mount, (SELF, const char *device, int target_fd, const char *type, unsigned long flags), device, target_fd, type,
     flags)
PASS(int, unmount, (SELF, int parent_fd, const char *name), parent_fd, name)
PASS(int, run, (SELF, const char *const argv[], const char *const env[], struct provider_run *run_ret), argv, env, run_ret)
PASS(int, rename, (SELF, const char *from, const char *to), from, to)
PASS(int, remove, (SELF, const char *path), path)
PASS(int, start, (SELF, char *const argv[], char *const env[], const char *log_file, pid_t *pid_ret), argv, env, log_file,
     pid_ret)
PASS(int, open_process, (SELF, pid_t pid), pid)
PASS(int, signal_process, (SELF, int pid_fd, int signal), pid_fd, signal)
PASS(int, addresses, (SELF, provider_address_fn visit, void *ctx), visit, ctx)

static void failing_close(struct provider *self, int fd)
{
	struct provider *inner = container_of(self, struct failing, provider)->inner;

	inner->calls->close_fd(inner, fd);
}

static const struct provider_calls failing_calls = {
	.open = failing_open,
	.close_fd = failing_close,
	.read_at = failing_read_at,
	.write_at = failing_write_at,
	.sync = failing_sync,
	.stat = failing_stat,
	.read_link = failing_read_link,
	.list = failing_list,
	.make_folder = failing_make_folder,
	.change_owner = failing_change_owner,
	.change_mode = failing_change_mode,
	.lock = failing_lock,
	.device_bytes = failing_device_bytes,
	.signature = failing_signature,
	.nvme_admin = failing_nvme_admin,
	.mount = failing_mount,
	.unmount = failing_unmount,
	.run = failing_run,
	.rename = failing_rename,
	.remove = failing_remove,
	.start = failing_start,
	.open_process = failing_open_process,
	.signal_process = failing_signal_process,
	.addresses = failing_addresses,
};

void failing_begin(struct failing *failing, struct provider *inner, int error)
{
	must(error < 0);
	*failing = (struct failing){ .provider.calls = &failing_calls, .inner = inner, .error = error };
}

bool failing_goes_on(struct failing *failing)
{
	if (failing->began && !failing->failed)
		return false;
	failing->began = true;
	failing->failed = false;
	failing->calls = 0;
	failing->fails_at++;
	return true;
}
