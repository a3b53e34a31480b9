/* SPDX-License-Identifier: BSD-2-Clause */
/* prune - searches a directory for trace files of dead processes. */
#include "base/observe/trace/prune.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/observe/trace/crash_report.h"
#include "base/text.h"
#include "fathom/trace/format.h"

#define MARK "_trace.pid"

/* ---- the writer of a file ---- */

int trace_writer_lock(int fd)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	return fcntl(fd, F_OFD_SETLK, &lock) == 0 ? 0 : -errno;
}

void trace_writer_unlock(int fd)
{
	struct flock lock = { .l_type = F_UNLCK, .l_whence = SEEK_SET };

	(void)fcntl(fd, F_OFD_SETLK, &lock); /* on failure the lock lasts until the last descriptor and mapping are gone */
}

/* The start time of process `pid` as CLOCK_REALTIME; 0: unknown. */
static uint64_t process_began_ns(int32_t pid)
{
	char path[64], line[1024];
	unsigned long long ticks = 0;
	struct timespec boot = { 0 };
	const char *at;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	/* the name is in parentheses and may contain any character; the start time is the 20th word after it */
	at = fgets(line, sizeof(line), file) ? strrchr(line, ')') : NULL;
	fclose(file);
	for (int word = 0; at && word < 20; word++)
		at = strchr(at + 1, ' ');
	if (!at || sscanf(at, " %llu", &ticks) != 1 || clock_gettime(CLOCK_BOOTTIME, &boot) != 0)
		return 0;
	return clock_realtime_ns() - ((uint64_t)boot.tv_sec * NS_PER_SEC + (uint64_t)boot.tv_nsec) +
	       ticks * (NS_PER_SEC / (uint64_t)sysconf(_SC_CLK_TCK));
}

/* For files without a lock: process `pid` exists and started before the file's last change. */
static bool process_lives(int32_t pid, const struct stat *st)
{
	enum { SLACK_SEC = 2 };
	uint64_t changed_ns = (uint64_t)(st->st_mtim.tv_sec + SLACK_SEC) * NS_PER_SEC;

	return pid <= 0 || ((kill(pid, 0) == 0 || errno != ESRCH) && process_began_ns(pid) <= changed_ns);
}

bool trace_writer_lives(int fd)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	struct trace_process process;
	struct trace_header header;
	struct stat st;

	if (pread(fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header) || fstat(fd, &st) != 0)
		return true; /* unknown: keep the file */
	if (header.flags & TRACE_FLAG_LOCKED)
		return fcntl(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
	for (uint32_t i = 0; i < min_u64(header.section_count, TRACE_SECTIONS_MAX); i++) {
		if (header.sections[i].kind == TRACE_SECTION_PROCESS &&
		    pread(fd, &process, sizeof(process), (off_t)header.sections[i].offset) == (ssize_t)sizeof(process))
			return process_lives(process.pid, &st);
	}
	return true;
}

/* ---- the search ---- */

struct found {
	char path[TRACE_FILE_PATH_BYTES];
	struct stat st;
};

/* Does `file` match "<name>_trace.pid<pid>", for crashes with a suffix? `*name_bytes_ret`: length of <name>. */
static bool is_file_name(const char *file, enum trace_file_kind kind, size_t *name_bytes_ret)
{
	static const char *const suffixes[] = { ".sigsegv", ".sigbus", ".sigill", ".sigfpe", ".sigabrt", ".must" };
	const char *mark = NULL;
	size_t digits;

	for (const char *at = strstr(file, MARK); at; at = strstr(at + 1, MARK))
		mark = at;
	if (!mark)
		return false;
	*name_bytes_ret = (size_t)(mark - file);
	mark += strlen(MARK);
	digits = strspn(mark, "0123456789");
	if (digits == 0)
		return false;
	if (kind == TRACE_FILE_LEFT)
		return mark[digits] == '\0';
	for (size_t i = 0; i < ARRAY_COUNT(suffixes); i++) {
		if (strcmp(mark + digits, suffixes[i]) == 0)
			return true;
	}
	return false;
}

/* Whether `path` is a trace file and its writer is dead. The magic is checked because SPDK uses the same names. */
static bool is_dead(const char *path)
{
	char magic[sizeof(((struct trace_header *)0)->magic)];
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	bool dead;

	if (fd < 0)
		return false;
	dead = read(fd, magic, sizeof(magic)) == sizeof(magic) && memcmp(magic, TRACE_MAGIC, sizeof(magic)) == 0 &&
	       !trace_writer_lives(fd);
	close(fd);
	return dead;
}

/* The next dead file of `kind` and `name` in `dir`. */
static bool find_next_dead(DIR *dir, const char *directory, const char *name, enum trace_file_kind kind,
			   struct found *found)
{
	struct dirent *entry;
	size_t bytes;

	while ((entry = readdir(dir))) {
		if (!is_file_name(entry->d_name, kind, &bytes) ||
		    (name && (strlen(name) != bytes || strncmp(name, entry->d_name, bytes) != 0)))
			continue;
		if (snprintf(found->path, sizeof(found->path), "%s/%s", directory, entry->d_name) >=
			    (int)sizeof(found->path) ||
		    lstat(found->path, &found->st) != 0)
			continue;
		if (S_ISREG(found->st.st_mode) && found->st.st_uid == geteuid() && is_dead(found->path))
			return true;
	}
	return false;
}

static bool is_before(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec < b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec < b->tv_nsec);
}

/* Remove the report of a crash beside the file with the crash's name. */
static void remove_report(const char *path)
{
	char report[TRACE_FILE_PATH_BYTES + sizeof(TRACE_CRASH_REPORT_SUFFIX)];
	const char *dot = strrchr(path, '.');

	(void)snprintf(report, sizeof(report), "%.*s%s", (int)(dot - path), path, TRACE_CRASH_REPORT_SUFFIX);
	(void)unlink(report); /* there may be none */
}

bool trace_prune_oldest(const char *directory, const char *name, enum trace_file_kind kind, uint32_t keep,
			char path_ret[TRACE_FILE_PATH_BYTES], uint64_t *bytes_ret)
{
	struct found found, oldest = { 0 };
	DIR *dir = opendir(directory);
	uint32_t count = 0;

	if (!dir)
		return false;
	while (find_next_dead(dir, directory, name, kind, &found)) {
		if (count++ == 0 || is_before(&found.st.st_mtim, &oldest.st.st_mtim))
			oldest = found;
	}
	closedir(dir);
	if (count <= keep || unlink(oldest.path) != 0)
		return false;
	if (kind == TRACE_FILE_CRASH)
		remove_report(oldest.path);
	(void)text_copy(path_ret, TRACE_FILE_PATH_BYTES, oldest.path);
	/* removing one of several hard links frees no space */
	*bytes_ret = oldest.st.st_nlink > 1 ? 0 : (uint64_t)oldest.st.st_blocks * 512;
	return true;
}

bool trace_prune_next_name(const char *directory, char name[TRACE_FILE_PATH_BYTES])
{
	char best[TRACE_FILE_PATH_BYTES] = "";

	for (int kind = TRACE_FILE_LEFT; kind <= TRACE_FILE_CRASH; kind++) {
		DIR *dir = opendir(directory);
		struct found found;

		while (dir && find_next_dead(dir, directory, NULL, (enum trace_file_kind)kind, &found)) {
			char *file = strrchr(found.path, '/') + 1;
			size_t bytes;

			if (!is_file_name(file, (enum trace_file_kind)kind, &bytes) || bytes == 0)
				continue;
			file[bytes] = '\0';
			if (strcmp(file, name) > 0 && (!best[0] || strcmp(file, best) < 0))
				(void)text_copy(best, sizeof(best), file);
		}
		if (dir)
			closedir(dir);
	}
	if (!best[0])
		return false;
	memcpy(name, best, sizeof(best));
	return true;
}
