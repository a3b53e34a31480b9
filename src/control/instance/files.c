/* SPDX-License-Identifier: BSD-2-Clause */
/* Small files and folders of an instance: created, replaced atomically, synced. Each call blocks for a short time. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"
#include "control/fault/fault.h"
#include "control/instance/internal.h"

int instance_make_folders(struct instance *instance, const char *path, struct fathom_fault *why)
{
	struct provider *os = instance->options.os;
	char part[INSTANCE_PATH_BYTES];
	size_t bytes = strlen(path);
	int error;

	must(bytes < sizeof(part));
	for (size_t i = 1; i <= bytes; i++) {
		if (path[i] != '/' && path[i] != '\0')
			continue;
		memcpy(part, path, i);
		part[i] = '\0';
		error = os->calls->make_folder(os, part, 0755);
		if (error && error != -EEXIST && path[i] == '\0')
			return fault_storage_unusable(why, instance->options.index, path, strerror(-error));
	}
	return 0;
}

int instance_sync_folder(struct instance *instance, const char *path)
{
	struct provider *os = instance->options.os;
	char folder[INSTANCE_PATH_BYTES + 16];
	int fd, error;

	must(text_copy(folder, sizeof(folder), path) == 0 && strrchr(folder, '/'));
	strrchr(folder, '/')[1] = '\0';
	fd = os->calls->open(os, folder, O_RDONLY | O_DIRECTORY, 0, false);
	if (fd < 0)
		return fd;
	error = os->calls->sync(os, fd);
	os->calls->close_fd(os, fd);
	return error;
}

int instance_replace_file(struct instance *instance, const char *path, const char *text, bool sync)
{
	struct provider *os = instance->options.os;
	char new_path[INSTANCE_PATH_BYTES + 48];
	ssize_t put;
	int fd, error;

	must((size_t)snprintf(new_path, sizeof(new_path), "%s.new", path) < sizeof(new_path));
	must(text[0] != '\0');
	fd = os->calls->open(os, new_path, O_WRONLY | O_CREAT | O_TRUNC, 0600, false);
	if (fd < 0)
		return fd;
	put = os->calls->write_at(os, fd, text, strlen(text), 0);
	error = put < 0 ? (int)put : (size_t)put < strlen(text) ? -ENOSPC : 0;
	if (!error && sync)
		error = os->calls->sync(os, fd);
	os->calls->close_fd(os, fd);
	if (!error)
		error = os->calls->rename(os, new_path, path);
	return !error && sync ? instance_sync_folder(instance, path) : error;
}

int instance_stat_file(struct instance *instance, const char *path, struct stat *stat_ret)
{
	struct provider *os = instance->options.os;
	int fd = os->calls->open(os, path, O_PATH, 0, false), error;

	if (fd < 0)
		return fd;
	error = os->calls->stat(os, fd, stat_ret);
	os->calls->close_fd(os, fd);
	return error;
}

int instance_remove_file(struct instance *instance, const char *path)
{
	int error = instance->options.os->calls->remove(instance->options.os, path);

	return error == -ENOENT ? 0 : error;
}
