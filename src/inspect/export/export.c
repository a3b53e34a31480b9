/* SPDX-License-Identifier: BSD-2-Clause */
/* export - names of the output: it has a temporary name until it is complete. */
#include "inspect/export/export.h"

#include <errno.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "inspect/export/internal.h"

static const struct export_kind *const kinds[EXPORT_FORMATS] = {
	[EXPORT_PERFETTO] = &export_perfetto,
	[EXPORT_CTF] = &export_ctf,
	[EXPORT_HTML] = &export_html,
};

/* Remove a directory of plain files. */
static void remove_directory(const char *path)
{
	DIR *directory = opendir(path);
	const struct dirent *entry;

	while (directory && (entry = readdir(directory)))
		(void)unlinkat(dirfd(directory), entry->d_name, 0); /* fails for "." and ".." */
	if (directory)
		closedir(directory);
	rmdir(path);
}

static int count_entries(const char *path)
{
	DIR *directory = opendir(path);
	int count = 0;

	while (directory && readdir(directory))
		count++;
	if (directory)
		closedir(directory);
	return count > 2 ? count - 2 : 0;
}

/* Only a directory with this file is ever replaced. */
static bool is_ctf_trace(const char *path)
{
	char metadata[PATH_MAX + 16];

	snprintf(metadata, sizeof(metadata), "%s/metadata", path);
	return access(metadata, F_OK) == 0;
}

/* Rename the directory. An empty directory of that name is replaced; with `force` also a trace. */
static int rename_directory(const struct export *export)
{
	if (export->force && is_ctf_trace(export->path))
		remove_directory(export->path);
	return rename(export->temporary, export->path) == 0 ? 0 : -errno;
}

static int open_directory(struct export *export, struct fathom_fault *why)
{
	bool is_trace = is_ctf_trace(export->path);

	if (!is_trace && count_entries(export->path) > 0)
		return fault(why, -ENOTEMPTY, "%s is not empty; name a new or an empty directory", export->path);
	if (is_trace && !export->force)
		return fault(why, -EEXIST, "%s contains a trace; --force overwrites it", export->path);
	if (mkdir(export->temporary, 0777) != 0)
		return fault(why, -errno, "cannot make the directory %s: %s", export->temporary, strerror(errno));
	return 0;
}

static int open_output_file(struct export *export, struct fathom_fault *why)
{
	struct stat stat_buffer;
	int rc = file_check_new(export->path, export->force, why);

	if (rc)
		return rc;
	if (strcmp(export->path, "-") == 0) {
		export->temporary[0] = '\0';
		export->fd = dup(STDOUT_FILENO);
	} else if (stat(export->path, &stat_buffer) == 0 && !S_ISREG(stat_buffer.st_mode)) {
		/* a pipe or a device is written in place */
		export->temporary[0] = '\0';
		export->fd = open(export->path, O_WRONLY | O_CLOEXEC);
	} else {
		export->fd = open(export->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	}
	if (export->fd < 0)
		return fault(why, -errno, "cannot write %s: %s", export->path, strerror(errno));
	export->out = malloc(sizeof(*export->out));
	if (!export->out)
		return fault(why, -ENOMEM, "out of memory");
	out_init(export->out, export->fd);
	return 0;
}

/* Resolve links, so that a link stays a link. */
static int set_names(struct export *export, const char *path, struct fathom_fault *why)
{
	char resolved[PATH_MAX];
	size_t length;

	if (strcmp(path, "-") != 0 && realpath(path, resolved))
		path = resolved;
	length = strlen(path);
	if (length == 0 || length >= sizeof(export->path))
		return fault(why, -ENAMETOOLONG, "\"%.100s\" is not a valid name of an output: it is empty or too long",
			     path);
	while (length > 1 && path[length - 1] == '/')
		length--;
	memcpy(export->path, path, length);
	snprintf(export->temporary, sizeof(export->temporary), "%s.tmp%d", export->path, (int)getpid());
	return 0;
}

int export_create(const struct reader *reader, enum export_format format, const char *path, bool force,
		  struct export **export_ret, struct fathom_fault *why)
{
	struct export *export = calloc(1, sizeof(*export));
	int rc;

	must((unsigned int)format < EXPORT_FORMATS);
	if (!export)
		return fault(why, -ENOMEM, "out of memory");
	export->reader = reader;
	export->kind = kinds[format];
	export->force = force;
	export->fd = -1;
	rc = set_names(export, path, why);
	if (rc == 0 && export->kind->is_directory && strcmp(path, "-") == 0)
		rc = fault(why, -EINVAL, "%s is a directory of files and cannot go to standard output", export->kind->name);
	if (rc == 0)
		rc = export->kind->is_directory ? open_directory(export, why) : open_output_file(export, why);
	if (rc) {
		export->temporary[0] = '\0'; /* not created by us: must not be removed */
	} else {
		rc = export->kind->create(export);
		if (rc)
			rc = fault(why, rc, "cannot write %s: %s", path, strerror(-rc));
	}
	if (rc) {
		export_destroy(export);
		return rc;
	}
	*export_ret = export;
	return 0;
}

void export_destroy(struct export *export)
{
	if (!export)
		return;
	export->kind->destroy(export);
	if (export->fd >= 0)
		close(export->fd);
	if (export->temporary[0] && export->kind->is_directory)
		remove_directory(export->temporary);
	else if (export->temporary[0])
		unlink(export->temporary);
	free(export->out);
	free(export);
}

void export_event(struct export *export, const struct reader_event *event, bool wanted)
{
	export->kind->event(export, event, wanted);
}

int export_finish(struct export *export, const struct reader_counts *counts, struct fathom_fault *why)
{
	int rc = export->kind->finish(export, counts);

	if (rc == 0 && export->out)
		rc = out_flush(export->out);
	if (export->fd >= 0 && close(export->fd) != 0 && rc == 0)
		rc = -errno;
	export->fd = -1;
	if (rc == 0 && export->temporary[0]) {
		rc = export->kind->is_directory ? rename_directory(export)
						: file_give_name(export->temporary, export->path, export->force);
		if (rc == 0)
			export->temporary[0] = '\0';
	}
	return rc ? fault(why, rc, "cannot write %s: %s", export->path, strerror(-rc)) : 0;
}
