/* SPDX-License-Identifier: BSD-2-Clause */
/* find - finds trace files, the process of each, and whether that process still runs. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/text.h"
#include "inspect/trace/internal.h"

#define NAME_MARK "_trace."

/* ---- the process that maps a file ---- */

/* Does process `pid` map the file `st`, writable if `writing`? -EACCES: its maps are not readable for us. */
static int has_mapped(int32_t pid, const struct stat *st, bool writing)
{
	char path[64], line[PATH_MAX + 128];
	bool mapped = false;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = fopen(path, "re");
	if (!maps)
		return -errno;
	while (!mapped && fgets(line, sizeof(line), maps)) {
		unsigned int device_major, device_minor;
		unsigned long inode;
		char permissions[8];

		if (sscanf(line, "%*s %7s %*s %x:%x %lu", permissions, &device_major, &device_minor, &inode) == 4)
			mapped = inode == st->st_ino && makedev(device_major, device_minor) == st->st_dev &&
				 (!writing || strchr(permissions, 'w'));
	}
	fclose(maps);
	return mapped;
}

bool file_is_mapped(int fd, const char *path, int32_t pid)
{
	struct stat st;
	int mapped;

	if (pid <= 0 || fstat(fd, &st) != 0 || (kill(pid, 0) != 0 && errno != EPERM))
		return false;
	mapped = has_mapped(pid, &st, false);
	return mapped == -EACCES ? strncmp(path, "/dev/shm/", 9) == 0 : mapped > 0;
}

bool process_is_stopped(int32_t pid)
{
	char path[64], line[512] = "";
	const char *state;
	FILE *stat;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	stat = fopen(path, "re");
	if (!stat)
		return false;
	/* "PID (NAME) STATE ...": the name may contain any character, so search for the last ')' */
	state = fgets(line, sizeof(line), stat) ? strrchr(line, ')') : NULL;
	fclose(stat);
	return state && state[1] == ' ' && (state[2] == 'T' || state[2] == 't');
}

bool file_find_writer(int fd, const char *path, int32_t *pid)
{
	DIR *dir;
	struct dirent *entry;
	struct stat st;
	bool found = false;

	if (*pid > 0)
		return file_is_mapped(fd, path, *pid);
	dir = opendir("/proc");
	if (!dir || fstat(fd, &st) != 0)
		return false;
	while (!found && (entry = readdir(dir))) {
		uint64_t number;

		if (!isdigit((unsigned char)entry->d_name[0]) ||
		    text_parse_u64(entry->d_name, 10, INT32_MAX, &number) != 0 || (pid_t)number == getpid())
			continue;
		found = has_mapped((int32_t)number, &st, true) > 0;
		if (found)
			*pid = (int32_t)number;
	}
	closedir(dir);
	return found;
}

/* ---- names ---- */

/* Parse the number at `text`; the end or a suffix that a crash added may follow. */
static int parse_pid(const char *text, int32_t *pid_ret)
{
	static const char *const suffixes[] = { "", ".sigsegv", ".sigbus", ".sigill", ".sigfpe", ".sigabrt", ".must" };
	size_t digits = strspn(text, "0123456789");
	char number[16];
	uint64_t pid;

	for (size_t i = 0; digits < sizeof(number) && i < ARRAY_COUNT(suffixes); i++) {
		if (strcmp(text + digits, suffixes[i]) != 0)
			continue;
		memcpy(number, text, digits);
		number[digits] = '\0';
		if (text_parse_u64(number, 10, INT32_MAX, &pid) != 0)
			return -EINVAL;
		*pid_ret = (int32_t)pid;
		return 0;
	}
	return -EINVAL;
}

/* Find the last mark in a file name that is followed by "pid<number>" or "<number>". NULL: none. */
static const char *find_mark(const char *file, int32_t *pid_ret)
{
	const char *mark = NULL, *at;
	uint64_t number;

	*pid_ret = 0;
	for (at = strstr(file, NAME_MARK); at; at = strstr(at + 1, NAME_MARK))
		mark = at;
	if (!mark)
		return NULL;
	at = mark + strlen(NAME_MARK);
	if (strncmp(at, "pid", 3) == 0)
		return parse_pid(at + 3, pid_ret) == 0 ? mark : NULL;
	return text_parse_u64(at, 10, INT32_MAX, &number) == 0 ? mark : NULL;
}

void file_name_parse(const char *path, char *name, size_t name_bytes, int32_t *pid_ret)
{
	const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path, *mark = find_mark(file, pid_ret);

	(void)text_copy(name, name_bytes, file);
	if (mark && (size_t)(mark - file) < name_bytes)
		name[mark - file] = '\0';
}

/*
 * Is the file of `name` (NULL: any) and `pid` (0: any)? `*asks_ret`: the name has an instance number, so check that
 * `pid` maps it.
 */
static bool is_named_file(const char *file, const char *name, int32_t pid, bool *asks_ret)
{
	int32_t number;
	const char *mark = find_mark(file, &number);

	if (!mark || (name && (strlen(name) != (size_t)(mark - file) || strncmp(file, name, strlen(name)) != 0)))
		return false;
	*asks_ret = pid != 0 && number == 0;
	return pid == 0 || number == 0 || number == pid;
}

/*
 * Check that a file starts like a Fathom or SPDK trace file and, if `writer` is not 0, that `writer` maps it. 0 or an
 * error.
 */
static int check_trace_file(const char *path, int32_t writer)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char begin[SPDK_HEADER_BYTES] = "";
	ssize_t bytes;
	int rc = 0;

	if (fd < 0)
		return -errno;
	bytes = read(fd, begin, sizeof(begin));
	if (bytes != sizeof(begin) || (memcmp(begin, TRACE_MAGIC, strlen(TRACE_MAGIC)) != 0 && !spdk_recognise(begin)))
		rc = -EBADMSG;
	else if (writer && !file_is_mapped(fd, path, writer))
		rc = -ENOENT;
	close(fd);
	return rc;
}

static bool is_later(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec > b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec > b->tv_nsec);
}

int reader_find_newest(const char *directory, const char *name, int32_t pid, char *path_ret, size_t path_bytes,
		       struct fathom_fault *why)
{
	const char *where = directory ? directory : "/dev/shm";
	DIR *dir = opendir(where);
	struct timespec newest = { 0 };
	struct dirent *entry;
	bool found = false, refused = false, asks;
	char path[512];

	if (!dir)
		return fault(why, -errno, "cannot read the directory %s: %s", where, strerror(errno));
	while ((entry = readdir(dir))) {
		struct stat st;
		int rc;

		if (!is_named_file(entry->d_name, name, pid, &asks) ||
		    snprintf(path, sizeof(path), "%s/%s", where, entry->d_name) >= (int)min_u64(sizeof(path), path_bytes))
			continue;
		rc = check_trace_file(path, asks ? pid : 0);
		refused |= rc == -EACCES;
		if (rc != 0 || stat(path, &st) != 0)
			continue;
		/* if one file has two names, prefer the shorter, original one */
		if (!found || is_later(&st.st_mtim, &newest) ||
		    (!is_later(&newest, &st.st_mtim) && strlen(path) < strlen(path_ret))) {
			newest = st.st_mtim;
			memcpy(path_ret, path, strlen(path) + 1);
			found = true;
		}
	}
	closedir(dir);
	if (found)
		return 0;
	if (refused)
		return fault(why, -EACCES, "the trace files in %s belong to another user", where);
	return fault(why, -ENOENT, "no trace file%s%s%s in %s", name ? " of \"" : "", name ? name : "", name ? "\"" : "",
		     where);
}

static int order_newest_first(const void *left, const void *right)
{
	const struct reader_found *a = left, *b = right;

	return is_later(&b->changed, &a->changed) - is_later(&a->changed, &b->changed);
}

uint32_t reader_find_all(const char *directory, struct reader_found *found_ret, uint32_t count_max)
{
	const char *where = directory ? directory : "/dev/shm";
	DIR *dir = opendir(where);
	struct dirent *entry;
	uint32_t count = 0;
	bool asks;

	while (dir && count < count_max && (entry = readdir(dir))) {
		struct reader_found *found = &found_ret[count];
		struct stat st;

		if (!is_named_file(entry->d_name, NULL, 0, &asks) ||
		    snprintf(found->path, sizeof(found->path), "%s/%s", where, entry->d_name) >= (int)sizeof(found->path) ||
		    check_trace_file(found->path, 0) != 0 || stat(found->path, &st) != 0)
			continue;
		found->changed = st.st_mtim;
		count++;
	}
	if (dir)
		closedir(dir);
	qsort(found_ret, count, sizeof(*found_ret), order_newest_first);
	return count;
}

bool reader_crash_report(const struct reader *reader, char *path_ret, size_t path_bytes)
{
	const struct reader_info *info = &reader->info;
	const char *pid = strrchr(info->path, '/');
	int length;

	if (!info->frozen || (info->frozen->why != TRACE_FROZEN_SIGNAL && info->frozen->why != TRACE_FROZEN_MUST))
		return false;
	pid = strstr(pid ? pid : info->path, NAME_MARK "pid");
	if (!pid)
		return false; /* a copy with a name of its own, or a core */
	pid += strlen(NAME_MARK "pid");
	pid += strspn(pid, "0123456789");
	length = snprintf(path_ret, path_bytes, "%.*s.crash", (int)(pid - info->path), info->path);
	return length > 0 && (size_t)length < path_bytes && access(path_ret, R_OK) == 0;
}
