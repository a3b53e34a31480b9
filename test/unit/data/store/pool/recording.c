/* SPDX-License-Identifier: BSD-2-Clause */
#include "recording.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/must.h"
#include "base/text.h"

enum { HANDLES_MAX = 256, ROOT_HANDLE = 0, LOADED_MAX = 2 << 20 };

/* ---- noting ---- */

void recording_begin(struct recording *self)
{
	self->count = 0;
	self->handles = ROOT_HANDLE + 1;
}

void recording_end(struct recording *self)
{
	while (self->count > 0)
		free(self->calls[--self->count].data);
}

static struct recorded *add_call(struct recording *self, int kind, int handle, const char *path)
{
	struct recorded *call = &self->calls[self->count++];

	must(self->count <= RECORDED_MAX);
	must(handle >= 0 && handle < self->handles);
	*call = (struct recorded){ .kind = (typeof(call->kind))kind, .handle = handle };
	must(text_copy(call->path, sizeof(call->path), path) == 0);
	return call;
}

int recording_note_open(struct recording *self, int folder, const char *path, int flags)
{
	int kind = flags & O_DIRECTORY ? RECORDED_OPEN_FOLDER : RECORDED_OPEN_FILE;
	struct recorded *call = add_call(self, kind, folder, path);

	call->flags = flags & (O_CREAT | O_EXCL) ? O_RDWR | O_CREAT | O_EXCL : O_RDWR;
	must(self->handles < HANDLES_MAX);
	return self->handles++;
}

void recording_note_write(struct recording *self, int file, uint64_t offset, const void *data, size_t bytes)
{
	struct recorded *call = add_call(self, RECORDED_WRITE, file, "");

	call->offset = offset;
	call->bytes = bytes;
	call->data = malloc(bytes + 1);
	must(call->data);
	memcpy(call->data, data, bytes);
}

void recording_note_rename(struct recording *self, int from, const char *path, int to, const char *path_to)
{
	struct recorded *call = add_call(self, RECORDED_RENAME, from, path);

	must(to >= 0 && to < self->handles);
	call->handle_to = to;
	must(text_copy(call->path_to, sizeof(call->path_to), path_to) == 0);
}

void recording_note(struct recording *self, int kind, int handle, const char *path, uint64_t bytes)
{
	add_call(self, kind, handle, path)->bytes = bytes;
}

/* ---- playing ---- */

struct playing {
	struct memory_fs *memory;
	const struct pool_fs *fs;
	int fds[HANDLES_MAX], count;
};

/* Open the folder of the last component of `path`, which is `*last_ret`; the caller closes it. Negative: an error. */
static int open_parent(struct playing *self, int handle, const char *path, const char **last_ret)
{
	char words[RECORDED_PATH_BYTES], *word = words, *slash;
	int folder = self->fds[handle];

	must(text_copy(words, sizeof(words), path) == 0);
	while ((slash = strchr(word, '/'))) {
		int next;

		*slash = '\0';
		next = self->fs->open_folder(self->fs->ctx, folder, word);
		if (folder != self->fds[handle])
			self->fs->close(self->fs->ctx, folder);
		if (next < 0)
			return next;
		folder = next;
		word = slash + 1;
	}
	*last_ret = path + (word - words);
	return folder;
}

static int play_open(struct playing *self, const struct recorded *call, int folder, const char *name)
{
	const struct pool_fs *fs = self->fs;
	int fd;

	must(name[0] || call->handle == ROOT_HANDLE);
	if (!name[0]) /* the same folder once more */
		fd = fs->open_folder(fs->ctx, AT_FDCWD, "/");
	else if (call->kind == RECORDED_OPEN_FOLDER)
		fd = fs->open_folder(fs->ctx, folder, name);
	else
		fd = fs->open_file(fs->ctx, folder, name, call->flags);
	if (fd >= 0)
		self->fds[self->count++] = fd;
	return fd < 0 ? fd : 0;
}

/* A call with a name. */
static int play_named(struct playing *self, const struct recorded *call)
{
	const struct pool_fs *fs = self->fs;
	const char *name, *name_to;
	int error, folder_to, folder = open_parent(self, call->handle, call->path, &name);

	if (folder < 0)
		return folder;
	if (call->kind == RECORDED_MAKE_FOLDER) {
		error = fs->make_folder(fs->ctx, folder, name);
	} else if (call->kind != RECORDED_RENAME) {
		error = play_open(self, call, folder, name);
	} else {
		folder_to = open_parent(self, call->handle_to, call->path_to, &name_to);
		error = folder_to < 0 ? folder_to : fs->rename(fs->ctx, folder, name, folder_to, name_to, true);
		if (folder_to >= 0 && folder_to != self->fds[call->handle_to])
			fs->close(fs->ctx, folder_to);
	}
	if (folder != self->fds[call->handle])
		fs->close(fs->ctx, folder);
	return error;
}

static int play_call(struct playing *self, const struct recorded *call)
{
	const struct pool_fs *fs = self->fs;
	int *fd = &self->fds[call->handle];

	must(call->handle < self->count && *fd >= 0);
	switch (call->kind) {
	case RECORDED_CLOSE:
		fs->close(fs->ctx, *fd);
		*fd = -1;
		return 0;
	case RECORDED_WRITE:
		memory_fs_write(self->memory, *fd, call->offset, call->data, call->bytes);
		return 0;
	case RECORDED_SET_SIZE:
		return fs->set_size(fs->ctx, *fd, call->bytes);
	case RECORDED_ALLOCATE:
		return fs->allocate(fs->ctx, *fd, 0, call->bytes);
	case RECORDED_SYNC:
		return fs->sync(fs->ctx, *fd);
	default:
		return play_named(self, call);
	}
}

int recording_play(const struct recording *self, struct memory_fs *memory)
{
	struct playing playing = { .memory = memory, .fs = memory_fs_calls(memory) };
	const struct pool_fs *fs = playing.fs;
	int error = 0;

	playing.fds[playing.count++] = fs->open_folder(fs->ctx, AT_FDCWD, "/");
	for (uint32_t i = 0; error == 0 && i < self->count; i++)
		error = play_call(&playing, &self->calls[i]);
	for (int i = 0; i < playing.count; i++)
		if (playing.fds[i] >= 0)
			fs->close(fs->ctx, playing.fds[i]);
	return error;
}

/* ---- loading ---- */

static void load_file(struct memory_fs *memory, int to, const char *name, int fd)
{
	const struct pool_fs *fs = memory_fs_calls(memory);
	int file = fs->open_file(fs->ctx, to, name, O_RDWR | O_CREAT | O_EXCL);
	uint8_t *data = malloc(LOADED_MAX);
	ssize_t bytes = data ? read(fd, data, LOADED_MAX) : -1, begin = 0, end = bytes;

	must(file >= 0 && bytes >= 0 && bytes < LOADED_MAX);
	must(fs->set_size(fs->ctx, file, (uint64_t)bytes) == 0);
	while (end > 0 && data[end - 1] == 0)
		end--;
	while (begin < end && data[begin] == 0)
		begin++;
	if (begin < end)
		memory_fs_write(memory, file, (size_t)begin, data + begin, (size_t)(end - begin));
	fs->close(fs->ctx, file);
	free(data);
}

static void load_folder(struct memory_fs *memory, int to, int folder)
{
	const struct pool_fs *fs = memory_fs_calls(memory);
	DIR *stream = fdopendir(folder);
	struct dirent *entry;
	struct stat stat;

	must(stream);
	while ((entry = readdir(stream))) {
		int inner, fd;

		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		fd = openat(folder, entry->d_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		must(fd >= 0 && fstat(fd, &stat) == 0);
		if (!S_ISDIR(stat.st_mode)) {
			load_file(memory, to, entry->d_name, fd);
			must(close(fd) == 0);
			continue;
		}
		must(fs->make_folder(fs->ctx, to, entry->d_name) == 0);
		inner = fs->open_folder(fs->ctx, to, entry->d_name);
		must(inner >= 0);
		load_folder(memory, inner, fd);
		fs->close(fs->ctx, inner);
	}
	must(closedir(stream) == 0);
}

void memory_fs_load(struct memory_fs *memory, const char *folder)
{
	const struct pool_fs *fs = memory_fs_calls(memory);
	int root = fs->open_folder(fs->ctx, AT_FDCWD, "/"), fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	must(root >= 0 && fd >= 0);
	load_folder(memory, root, fd);
	fs->close(fs->ctx, root);
	memory_fs_settle(memory);
}
