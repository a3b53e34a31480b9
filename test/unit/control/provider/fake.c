/* SPDX-License-Identifier: BSD-2-Clause */
#include "fake.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/file.h"

static struct fake *fake_of(struct provider *provider)
{
	return container_of(provider, struct fake, provider);
}

static struct provider_calls fake_calls;
static const struct provider_calls *real;

static void full_path(const struct fake *fake, const char *path, char to[PATH_MAX])
{
	must(snprintf(to, PATH_MAX, "%s%s", fake->folder, path) < PATH_MAX);
}

static void make_parents(const char *full)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s", full);
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		must(mkdir(path, 0755) == 0 || errno == EEXIST);
		*slash = '/';
	}
}

void fake_bytes(struct fake *fake, const char *path, const void *data, size_t bytes)
{
	char full[PATH_MAX];
	int fd;

	full_path(fake, path, full);
	make_parents(full);
	fd = open(full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	must(fd >= 0);
	must(file_write(fd, data, bytes) == 0);
	close(fd);
}

void fake_file(struct fake *fake, const char *path, const char *text)
{
	fake_bytes(fake, path, text, strlen(text));
}

void fake_link(struct fake *fake, const char *path, const char *to)
{
	char full[PATH_MAX];

	full_path(fake, path, full);
	make_parents(full);
	must(symlink(to, full) == 0);
}

void fake_folder(struct fake *fake, const char *path)
{
	char full[PATH_MAX];

	full_path(fake, path, full);
	make_parents(full);
	must(mkdir(full, 0755) == 0 || errno == EEXIST);
}

void fake_device(struct fake *fake, const char *name, const char *place, unsigned int major, unsigned int minor,
		 uint64_t sectors)
{
	char path[PATH_MAX], target[PATH_MAX], number[32];

	must(snprintf(target, sizeof(target), "../devices/%s", place) < (int)sizeof(target));
	snprintf(path, sizeof(path), "/sys/block/%s", name);
	snprintf(number, sizeof(number), "%u:%u\n", major, minor);
	must(snprintf(path, sizeof(path), "/sys/devices/%s/dev", place) < (int)sizeof(path));
	fake_file(fake, path, number);
	snprintf(path, sizeof(path), "/sys/block/%s", name);
	fake_link(fake, path, target);
	snprintf(path, sizeof(path), "/sys/block/%s/holders", name);
	fake_folder(fake, path);
	snprintf(path, sizeof(path), "/sys/class/block/%s/dev", name);
	fake_file(fake, path, number);
	snprintf(number, sizeof(number), "%" PRIu64 "\n", sectors);
	fake_attribute(fake, name, "size", number);
	snprintf(path, sizeof(path), "/dev/%s", name);
	fake_file(fake, path, "");
	full_path(fake, path, target);
	must(truncate(target, (off_t)(sectors * 512)) == 0);
}

void fake_attribute(struct fake *fake, const char *name, const char *file, const char *text)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "/sys/block/%s/%s", name, file);
	fake_file(fake, path, text);
}

static void interface_file(struct fake *fake, const char *name, const char *place, const char *file, const char *text)
{
	char path[PATH_MAX];

	must(snprintf(path, sizeof(path), "/sys/devices/%s/net/%s/%s", place, name, file) < (int)sizeof(path));
	fake_file(fake, path, text);
}

void fake_interface(struct fake *fake, const char *name, const char *place, const char *type, const char *state,
		    const char *speed)
{
	char path[PATH_MAX], target[PATH_MAX];

	interface_file(fake, name, place, "type", type);
	interface_file(fake, name, place, "operstate", state);
	interface_file(fake, name, place, "speed", speed);
	snprintf(path, sizeof(path), "/sys/class/net/%s", name);
	must(snprintf(target, sizeof(target), "../../devices/%s/net/%s", place, name) < (int)sizeof(target));
	fake_link(fake, path, target);
}

void fake_address(struct fake *fake, const char *name, const char *text, unsigned int prefix_bits)
{
	struct provider_address *address = &fake->addresses[fake->address_count];

	must(fake->address_count++ < FAKE_ADDRESSES_MAX);
	*address = (struct provider_address){ .interface = name,
					      .family = strchr(text, ':') ? AF_INET6 : AF_INET,
					      .prefix_bits = prefix_bits };
	must(inet_pton(address->family, text, &address->v6) == 1);
}

static struct provider_signature *signature_of(struct fake *fake, const char *path, int error)
{
	size_t i;

	for (i = 0; i < fake->signature_count && strcmp(fake->signatures[i].path, path) != 0; i++)
		;
	must(i < FAKE_SIGNATURES_MAX);
	if (i == fake->signature_count)
		fake->signature_count++;
	memset(&fake->signatures[i], 0, sizeof(fake->signatures[i]));
	snprintf(fake->signatures[i].path, sizeof(fake->signatures[i].path), "%s", path);
	fake->signatures[i].error = error;
	return &fake->signatures[i].signature;
}

void fake_signature(struct fake *fake, const char *path, const char *type, const char *usage, const char *label)
{
	struct provider_signature *signature = signature_of(fake, path, 0);

	snprintf(signature->type, sizeof(signature->type), "%s", type);
	snprintf(signature->usage, sizeof(signature->usage), "%s", usage);
	snprintf(signature->label, sizeof(signature->label), "%s", label);
}

void fake_signature_error(struct fake *fake, const char *path, int error)
{
	signature_of(fake, path, error);
}

/* The path by which the descriptor was opened, without the test's folder. */
static const char *path_of(const struct fake *fake, int fd, char to[PATH_MAX])
{
	char link[64];
	ssize_t got;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	got = readlink(link, to, PATH_MAX - 1);
	must(got > 0);
	to[got] = '\0';
	must(strncmp(to, fake->folder, strlen(fake->folder)) == 0);
	return to + strlen(fake->folder);
}

static int fake_open(struct provider *self, const char *path, int flags, mode_t mode, bool plain)
{
	int fd = real->open(self, path, flags & ~O_EXCL, mode, plain); /* O_EXCL has another meaning for devices */

	fake_of(self)->open_fds += fd >= 0;
	return fd;
}

static void fake_close(struct provider *self, int fd)
{
	fake_of(self)->open_fds--;
	real->close_fd(self, fd);
}

static void write_mounts(struct fake *fake, const char *text)
{
	fake_file(fake, "/proc/self/mountinfo", text);
}

static char *read_mounts(struct fake *fake)
{
	char *text = NULL;

	if (provider_read_file(&fake->provider, "/proc/self/mountinfo", 1 << 20, &text) != 0)
		text = strdup("");
	must(text);
	return text;
}

/* Is something mounted there? */
static bool is_target(struct fake *fake, const char *path)
{
	char wanted[PATH_MAX], *text = read_mounts(fake);
	bool is;

	must(snprintf(wanted, sizeof(wanted), " / %s ", path) < (int)sizeof(wanted));
	is = strstr(text, wanted) != NULL;
	free(text);
	return is;
}

static int fake_stat(struct provider *self, int fd, struct stat *stat_ret)
{
	struct fake *fake = fake_of(self);
	char link[PATH_MAX], number[PATH_MAX], text[32];
	const char *path = path_of(fake, fd, link);
	unsigned int major, minor;
	int error = real->stat(self, fd, stat_ret);

	if (!error && S_ISDIR(stat_ret->st_mode) && is_target(fake, path))
		stat_ret->st_dev++; /* another filesystem */
	if (!error && strncmp(path, "/dev/", 5) == 0 && S_ISREG(stat_ret->st_mode)) {
		must(snprintf(number, sizeof(number), "/sys/class/block/%s/dev", path + 5) < (int)sizeof(number));
		if (provider_read_text(self, number, text, sizeof(text)) == 0 &&
		    sscanf(text, "%u:%u", &major, &minor) == 2) {
			stat_ret->st_mode = (stat_ret->st_mode & 07777) | S_IFBLK;
			stat_ret->st_rdev = makedev(major, minor);
		}
	}
	return error;
}

static int fake_device_bytes(struct provider *self, int fd, uint64_t *bytes_ret)
{
	struct stat stat;
	int error = real->stat(self, fd, &stat);

	if (!error)
		*bytes_ret = (uint64_t)stat.st_size;
	return error;
}

static int fake_signature_call(struct provider *self, int fd, struct provider_signature *signature_ret)
{
	struct fake *fake = fake_of(self);
	char link[PATH_MAX];
	const char *path = path_of(fake, fd, link);

	memset(signature_ret, 0, sizeof(*signature_ret));
	for (size_t i = 0; i < fake->signature_count; i++) {
		if (strcmp(fake->signatures[i].path, path) != 0)
			continue;
		*signature_ret = fake->signatures[i].signature;
		return fake->signatures[i].error;
	}
	return 0;
}

static int fake_mount(struct provider *self, const char *device, int target_fd, const char *type, unsigned long flags)
{
	struct fake *fake = fake_of(self);
	char link[PATH_MAX], number[PATH_MAX], numbers[32], *before = read_mounts(fake), *after;

	snprintf(number, sizeof(number), "/sys/class/block/%s/dev", device + 5);
	must(provider_read_text(self, number, numbers, sizeof(numbers)) == 0);
	must(asprintf(&after, "%s40 1 %s / %s rw - %s %s rw\n", before, numbers, path_of(fake, target_fd, link), type,
		      device) > 0);
	write_mounts(fake, after);
	free(before);
	free(after);
	fake->mount_count++;
	fake->mount_flags = flags;
	return 0;
}

static int fake_unmount(struct provider *self, int parent_fd, const char *name)
{
	struct fake *fake = fake_of(self);
	char link[PATH_MAX], wanted[PATH_MAX], *text = read_mounts(fake), *rest = NULL,
					       *after = calloc(1, strlen(text) + 1);
	bool found = false;

	must(after);
	must(snprintf(wanted, sizeof(wanted), " %s/%s ", path_of(fake, parent_fd, link), name) < (int)sizeof(wanted));
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		if (strstr(line, wanted)) {
			found = true;
			continue;
		}
		memcpy(after + strlen(after), line, strlen(line));
		memcpy(after + strlen(after), "\n", 1);
	}
	write_mounts(fake, after);
	free(text);
	free(after);
	fake->unmount_count += found;
	return found ? 0 : -EINVAL;
}

static int fake_run(struct provider *self, const char *const argv[], const char *const env[], struct provider_run *run_ret)
{
	struct fake *fake = fake_of(self);
	size_t used = 0;

	for (; *argv; argv++)
		used += (size_t)snprintf(fake->command + used, sizeof(fake->command) - used, "%s ", *argv);
	for (; *env; env++)
		used += (size_t)snprintf(fake->command + used, sizeof(fake->command) - used, "%s ", *env);
	must(used < sizeof(fake->command));
	fake->run_count++;
	if (fake->on_run)
		fake->on_run(fake);
	*run_ret = fake->run;
	return 0;
}

void fake_nvme(struct fake *fake, const struct storage_nvme_pages *pages)
{
	fake->is_nvme = true;
	fake->pages = *pages;
}

static int fake_nvme_admin(struct provider *self, int fd, const struct provider_nvme *command)
{
	struct fake *fake = fake_of(self);
	uint32_t page = command->cdw10 & 0xff;

	if (!fake->is_nvme)
		return real->nvme_admin(self, fd, command);
	fake->nvme_count++;
	if (command->opcode == 6 && command->cdw10 == 1) {
		must(command->bytes == 4096);
		memcpy(command->data, fake->pages.identify, sizeof(fake->pages.identify));
		return fake->nvme_status[0];
	}
	if (command->opcode == 0x11) { /* download, in order */
		must(command->cdw10 == command->bytes / 4 - 1 && command->cdw11 == fake->image_bytes / 4);
		fake->image_bytes += command->bytes;
		return fake->nvme_status[3];
	}
	if (command->opcode == 0x10) {
		fake->commit_cdw10 = command->cdw10;
		return fake->nvme_status[4];
	}
	must(command->opcode == 2 && (page == 2 || page == 3) && command->nsid == UINT32_MAX);
	must(command->bytes == 512 && command->cdw10 >> 16 == 127);
	memcpy(command->data, page == 2 ? fake->pages.smart : fake->pages.slots,
	       page == 2 ? sizeof(fake->pages.smart) : sizeof(fake->pages.slots));
	return fake->nvme_status[page - 1];
}

static int fake_owner(struct provider *self, int fd, uid_t uid, gid_t gid)
{
	fake_of(self)->owner_uid = uid;
	fake_of(self)->owner_gid = gid;
	return 0;
}

static int fake_addresses(struct provider *self, provider_address_fn visit, void *ctx)
{
	struct fake *fake = fake_of(self);
	int error = 0;

	for (size_t i = 0; i < fake->address_count && !error; i++)
		error = visit(ctx, &fake->addresses[i]);
	return error;
}

void fake_begin(struct fake *fake)
{
	*fake = (struct fake){ .provider.calls = &fake_calls };
	real = provider_system()->calls;
	fake_calls = *real;
	fake_calls.open = fake_open;
	fake_calls.close_fd = fake_close;
	fake_calls.stat = fake_stat;
	fake_calls.device_bytes = fake_device_bytes;
	fake_calls.signature = fake_signature_call;
	fake_calls.mount = fake_mount;
	fake_calls.unmount = fake_unmount;
	fake_calls.run = fake_run;
	fake_calls.change_owner = fake_owner;
	fake_calls.addresses = fake_addresses;
	fake_calls.nvme_admin = fake_nvme_admin;
	snprintf(fake->folder, sizeof(fake->folder), "/tmp/fathom-fake-XXXXXX");
	must(mkdtemp(fake->folder));
	must(provider_init_below(&fake->provider, fake->folder) == 0);
	fake->provider.calls = &fake_calls;
	fake_folder(fake, "/sys/block");
	fake_file(fake, "/proc/self/mountinfo", "");
	fake_file(fake, "/proc/swaps", "");
	fake_folder(fake, "/sys/class/net");
}

static int remove_one(const char *path, const struct stat *stat, int kind, struct FTW *where)
{
	return remove(path);
}

void fake_end(struct fake *fake)
{
	must(fake->open_fds == 0);
	must(nftw(fake->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0);
}
