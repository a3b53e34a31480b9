/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * identity - identifies a process by /proc only.
 *
 * A process is its pid and its start time. Its program is the file behind /proc/PID/exe. Two execs of the same program
 * differ in the addresses of stack and code, which the kernel randomises.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/text.h"
#include "inspect/probed/register/internal.h"

enum { STAT_BYTES = 2048, MAPS_BYTES = 16384, STATUS_BYTES = 4096 };
/* Indices of fields in /proc/PID/stat, from field 3 on, the first behind the name. */
enum { FIELD_START_TIME = 22 - 3, FIELD_START_CODE = 26 - 3, FIELD_START_STACK = 28 - 3, FIELDS = 30 };
static_assert(FIELD_START_STACK < FIELDS, "all that is used is read");

static int proc_error(pid_t pid, int error, struct fathom_fault *why)
{
	must(error > 0);
	if (error == ENOENT || error == ESRCH)
		return fault(why, -ESRCH, "process %d has ended", pid);
	if (error == EACCES || error == EPERM)
		return fault(why, -EACCES,
			     "this daemon may not inspect process %d: it serves only processes of its own user, unless it "
			     "runs as root",
			     pid);
	return fault(why, -error, "process %d: %s", pid, strerror(error));
}

/* Read a small file of /proc; adds a NUL. Returns its bytes, or -errno. */
static ssize_t read_proc_file(const char *path, char *text, size_t room)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got;

	must(room > 1);
	if (fd < 0)
		return -errno;
	got = read(fd, text, room - 1);
	if (got < 0)
		got = -errno;
	else
		text[got] = '\0';
	close(fd);
	return got;
}

/* ---- /proc/PID/stat ---- */

static int read_stat(pid_t pid, uint64_t fields[FIELDS])
{
	char path[32], text[STAT_BYTES], *at;
	ssize_t got;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	got = read_proc_file(path, text, sizeof(text));
	if (got < 0)
		return (int)got;
	at = strrchr(text, ')'); /* the name before it may contain any character, also ')' */
	if (!at)
		return -ESRCH;
	at++;
	for (int i = 0; i < FIELDS; i++) {
		at += strspn(at, " ");
		if (*at == '\0')
			return -ESRCH;
		fields[i] = i == 0 ? (uint64_t)*at : strtoull(at, NULL, 10);
		at += strcspn(at, " ");
	}
	return 0;
}

int identity_start_time(pid_t pid, uint64_t *start_time_ret)
{
	uint64_t fields[FIELDS];
	int error = read_stat(pid, fields);

	if (error)
		return -ESRCH;
	*start_time_ret = fields[FIELD_START_TIME];
	return 0;
}

static uint64_t hash_image(const uint64_t fields[FIELDS])
{
	/* without permission, the kernel shows 0 or 1 */
	if (fields[FIELD_START_CODE] <= 1 || fields[FIELD_START_STACK] <= 1)
		return 0;
	return fields[FIELD_START_CODE] * 31 ^ fields[FIELD_START_STACK];
}

int identity_read(pid_t pid, struct identity *identity_ret, struct fathom_fault *why)
{
	struct identity identity = { .process = { .pid = pid } };
	uint64_t fields[FIELDS];
	struct stat stat_of;
	char path[32];
	int error;

	snprintf(path, sizeof(path), "/proc/%d", pid);
	if (stat(path, &stat_of) < 0)
		return proc_error(pid, errno, why);
	identity.process.uid = stat_of.st_uid;
	error = read_stat(pid, fields);
	if (error)
		return proc_error(pid, -error, why);
	if (fields[0] == 'Z' || fields[0] == 'X')
		return proc_error(pid, ESRCH, why);
	identity.process.start_time = fields[FIELD_START_TIME];
	identity.image = hash_image(fields);
	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	if (stat(path, &stat_of) < 0)
		return proc_error(pid, errno, why);
	identity.process.exec_device = stat_of.st_dev;
	identity.process.exec_inode = stat_of.st_ino;
	*identity_ret = identity;
	return 0;
}

int identity_of_thread(pid_t tid, pid_t *pid_ret)
{
	char path[40], text[STATUS_BYTES], *at;
	uint64_t pid;

	snprintf(path, sizeof(path), "/proc/%d/status", tid);
	if (read_proc_file(path, text, sizeof(text)) < 0)
		return -ESRCH;
	at = strstr(text, "\nTgid:\t");
	if (!at)
		return -ESRCH;
	at += strlen("\nTgid:\t");
	at[strcspn(at, "\n")] = '\0';
	if (text_parse_u64(at, 10, INT32_MAX, &pid) != 0 || pid == 0)
		return -ESRCH;
	*pid_ret = (pid_t)pid;
	return 0;
}

/* ---- /proc/PID/maps ---- */

struct map {
	uint64_t start, end, offset;
	struct stash_mapping mapping; /* inode 0: anonymous memory */
	const char *path;
};

/* 55e0c8a00000-55e0c8a21000 r-xp 00002000 fd:01 1234567   /usr/bin/thing. False: not such a line. */
static bool parse_map(char *line, struct map *map)
{
	uint64_t major_number, minor_number;
	char *at = line;

	map->start = strtoull(at, &at, 16);
	if (*at++ != '-')
		return false;
	map->end = strtoull(at, &at, 16);
	at += strspn(at, " ");
	at += strcspn(at, " "); /* permissions */
	map->offset = strtoull(at, &at, 16);
	major_number = strtoull(at, &at, 16);
	if (*at++ != ':')
		return false;
	minor_number = strtoull(at, &at, 16);
	map->mapping.device = makedev(major_number, minor_number);
	map->mapping.inode = strtoull(at, &at, 10);
	map->path = at + strspn(at, " ");
	return true;
}

typedef int (*map_fn)(void *ctx, const struct map *map);

/* Parse the complete lines of `text`, and move the rest to its beginning. */
static int parse_map_lines(char *text, size_t *bytes, map_fn fn, void *ctx)
{
	char *line = text, *end;
	int result = 0;

	must(*bytes <= MAPS_BYTES);
	text[*bytes] = '\0';
	while (result == 0 && (end = strchr(line, '\n'))) {
		struct map map;

		*end = '\0';
		if (parse_map(line, &map))
			result = fn(ctx, &map);
		line = end + 1;
	}
	must((size_t)(line - text) <= *bytes);
	*bytes -= (size_t)(line - text);
	memmove(text, line, *bytes);
	return result;
}

/* Returns the result of fn() that ended the visit, 0, or -errno. */
static int visit_maps(pid_t pid, map_fn fn, void *ctx)
{
	static char text[MAPS_BYTES + 1];
	size_t bytes = 0;
	int result = 0, fd;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	while (result == 0) {
		ssize_t got = read(fd, text + bytes, MAPS_BYTES - bytes);

		if (got <= 0) {
			result = got < 0 ? -errno : 0;
			break;
		}
		bytes += (size_t)got;
		must(bytes <= MAPS_BYTES);
		result = parse_map_lines(text, &bytes, fn, ctx);
		if (bytes == MAPS_BYTES)
			bytes = 0; /* a line longer than any path that can be opened */
	}
	close(fd);
	return result;
}

static void fill_identity_file(struct identity_file *file, const struct map *map)
{
	*file = (struct identity_file){
		.mapping = map->mapping, .start = map->start, .end = map->end, .offset = map->offset
	};
	if (text_copy(file->path, sizeof(file->path), map->path) < 0)
		file->path[0] = '\0';
}

struct file_at {
	uint64_t address;
	struct identity_file *file;
	bool no_file;
};

enum { VISIT_ENDED = 1 };

static int match_address(void *ctx, const struct map *map)
{
	struct file_at *at = ctx;

	if (at->address < map->start || at->address >= map->end)
		return 0;
	at->no_file = map->mapping.inode == 0;
	fill_identity_file(at->file, map);
	return VISIT_ENDED;
}

int identity_file_at(pid_t pid, uint64_t address, struct identity_file *file_ret, struct fathom_fault *why)
{
	struct identity_file file;
	struct file_at at = { address, &file, false };
	int result = visit_maps(pid, match_address, &at);

	if (result < 0)
		return proc_error(pid, -result, why);
	if (result == 0 || at.no_file)
		return fault(why, -EINVAL, "no file is mapped at address 0x%llx of process %d", (unsigned long long)address,
			     pid);
	*file_ret = file;
	return 0;
}

/* ---- a mapped file ---- */

struct program {
	uint64_t inode;
	struct identity_file *file;
};

static int match_program(void *ctx, const struct map *map)
{
	struct program *program = ctx;

	if (map->mapping.inode != program->inode)
		return 0;
	fill_identity_file(program->file, map);
	return VISIT_ENDED;
}

int identity_program(pid_t pid, struct identity_file *file_ret, struct fathom_fault *why)
{
	struct identity_file file;
	struct stat stat_of;
	char path[32];
	int result;

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	if (stat(path, &stat_of) < 0)
		return proc_error(pid, errno, why);
	result = visit_maps(pid, match_program, &(struct program){ stat_of.st_ino, &file });
	if (result < 0)
		return proc_error(pid, -result, why);
	if (result == 0)
		return fault(why, -EINVAL, "process %d has not mapped its program", pid);
	*file_ret = file;
	return 0;
}

/* Open `path` if it is the regular file `inode`, and not on FUSE: open() or read() could block there. */
static int open_checked(const char *path, uint64_t inode)
{
	int fd = open(path, O_PATH | O_CLOEXEC), opened = -1;
	struct statfs filesystem;
	struct stat stat_of;
	char again[40];

	if (fd < 0)
		return -errno;
	if (fstat(fd, &stat_of) == 0 && stat_of.st_ino == inode && S_ISREG(stat_of.st_mode) &&
	    fstatfs(fd, &filesystem) == 0 && filesystem.f_type != FUSE_SUPER_MAGIC) {
		snprintf(again, sizeof(again), "/proc/self/fd/%d", fd);
		opened = open(again, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	} else {
		errno = ESTALE;
	}
	opened = opened < 0 ? -errno : opened;
	close(fd);
	return opened;
}

int identity_open(pid_t pid, const struct identity_file *file, int *fd_ret, struct fathom_fault *why)
{
	char path[sizeof(file->path) + 64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/map_files/%llx-%llx", pid, (unsigned long long)file->start,
		 (unsigned long long)file->end);
	fd = open_checked(path, file->mapping.inode);
	if (fd < 0) {
		snprintf(path, sizeof(path), "/proc/%d/exe", pid);
		fd = open_checked(path, file->mapping.inode);
	}
	if (fd < 0 && file->path[0] == '/') {
		snprintf(path, sizeof(path), "/proc/%d/root%s", pid, file->path);
		fd = open_checked(path, file->mapping.inode);
	}
	if (fd < 0)
		return fault(why, fd, "cannot read %s of process %d: %s", file->path, pid, strerror(-fd));
	*fd_ret = fd;
	return 0;
}

/* ---- all mapped files ---- */

struct files {
	identity_file_fn fn;
	void *ctx;
	struct stash_mapping last;
};

static int visit_mapped_file(void *ctx, const struct map *map)
{
	struct files *files = ctx;
	struct identity_file file;

	if (map->mapping.inode == 0 ||
	    (map->mapping.inode == files->last.inode && map->mapping.device == files->last.device))
		return 0;
	files->last = map->mapping;
	fill_identity_file(&file, map);
	return files->fn(files->ctx, &file);
}

int identity_files(pid_t pid, identity_file_fn fn, void *ctx, struct fathom_fault *why)
{
	struct files files = { .fn = fn, .ctx = ctx };
	int result = visit_maps(pid, visit_mapped_file, &files);

	return result < 0 ? proc_error(pid, -result, why) : result;
}
