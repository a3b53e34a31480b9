/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * find - finds the target. A process is found by its id or name. Its control socket is the UNIX stream socket on which it
 * listens: the kernel lists it in /proc for any program, Fathom's or SPDK's.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "cmd/fathom/rpc/client.h"
#include "cmd/fathom/top/top.h"

#define ENGINE "fathom-engine"

enum { SOCKETS_MAX = 4096, ACCEPTS = 0x10000, STREAM = 1, PIDS_SHOWN_MAX = 8 };

/* ---- the socket of a process ---- */

/* The inodes of all its sockets. Errors: -errno of its directory. */
static int list_socket_inodes(int32_t pid, uint64_t *inodes, uint32_t *count_ret)
{
	char path[64], to[64];
	struct dirent *entry;
	uint32_t count = 0;
	DIR *directory;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	directory = opendir(path);
	if (!directory)
		return -errno;
	while (count < SOCKETS_MAX && (entry = readdir(directory))) {
		ssize_t bytes = readlinkat(dirfd(directory), entry->d_name, to, sizeof(to) - 1);
		unsigned long long inode;

		to[bytes > 0 ? bytes : 0] = '\0';
		if (sscanf(to, "socket:[%llu]", &inode) == 1)
			inodes[count++] = inode;
	}
	closedir(directory);
	*count_ret = count;
	return 0;
}

static bool has_inode(uint64_t inode, const uint64_t *inodes, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		if (inodes[i] == inode)
			return true;
	}
	return false;
}

/* The path as we can reach it: its working directory and root may differ from ours. Errors: -ENAMETOOLONG. */
static int make_reachable_path(int32_t pid, const char *name, char path_ret[TOP_PATH_BYTES])
{
	char path[PATH_MAX];

	if (name[0] == '/' && access(name, F_OK) == 0)
		return text_copy(path_ret, TOP_PATH_BYTES, name);
	snprintf(path, sizeof(path), "/proc/%d/%s/%s", pid, name[0] == '/' ? "root" : "cwd", name);
	return text_copy(path_ret, TOP_PATH_BYTES, path);
}

/* Find the path of its listening socket. -ENOENT: none. */
static int find_listening_path(int32_t pid, const uint64_t *inodes, uint32_t count, char path_ret[TOP_PATH_BYTES])
{
	char path[64], line[512], name[256];
	unsigned int flags, type;
	unsigned long long inode;
	int rc = -ENOENT;
	FILE *from;

	snprintf(path, sizeof(path), "/proc/%d/net/unix", pid);
	from = fopen(path, "re");
	if (!from)
		return -errno;
	while (rc == -ENOENT && fgets(line, sizeof(line), from)) {
		if (sscanf(line, "%*s %*s %*s %x %x %*s %llu %255[^\n]", &flags, &type, &inode, name) == 4 &&
		    (flags & ACCEPTS) && type == STREAM && name[0] != '@' && has_inode(inode, inodes, count))
			rc = make_reachable_path(pid, name, path_ret);
	}
	fclose(from);
	return rc;
}

static int find_socket_of_process(int32_t pid, char path_ret[TOP_PATH_BYTES], struct fathom_fault *why)
{
	uint64_t *inodes = calloc(SOCKETS_MAX, sizeof(*inodes));
	uint32_t count = 0;
	int rc;

	must(inodes);
	rc = list_socket_inodes(pid, inodes, &count);
	if (rc == 0)
		rc = find_listening_path(pid, inodes, count, path_ret);
	free(inodes);
	switch (rc) {
	case 0:
		return 0;
	case -ENOENT:
		if (kill(pid, 0) != 0 && errno == ESRCH)
			return fault(why, -ENOENT, "there is no process %d", pid);
		return fault(why, rc, "process %d listens on no control socket; is it an engine?", pid);
	case -EACCES:
		return fault(why, rc,
			     "process %d belongs to another user: run this command as that user or as root, or name the "
			     "path of its socket",
			     pid);
	default:
		return fault(why, rc, "process %d: its control socket cannot be found (%s); name the socket's path instead",
			     pid, strerror(-rc));
	}
}

/* ---- names ---- */

struct found {
	int32_t pids[PIDS_SHOWN_MAX];
	uint32_t count; /* of all */
};

static void add_found_pid(struct found *found, int32_t pid)
{
	for (uint32_t i = 0; i < found->count && i < PIDS_SHOWN_MAX; i++) {
		if (found->pids[i] == pid)
			return;
	}
	if (found->count < PIDS_SHOWN_MAX)
		found->pids[found->count] = pid;
	found->count++;
}

static bool runs_program(int32_t pid, const char *program)
{
	char path[64], file[PATH_MAX];
	const char *slash;
	ssize_t bytes;

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	bytes = readlink(path, file, sizeof(file) - 1);
	if (bytes <= 0)
		return false;
	file[bytes] = '\0';
	slash = strrchr(file, '/');
	return strcmp(slash ? slash + 1 : file, program) == 0;
}

static void find_by_program(const char *program, struct found *found)
{
	DIR *directory = opendir("/proc");
	struct dirent *entry;
	uint64_t pid;

	while (directory && (entry = readdir(directory))) {
		if (text_parse_u64(entry->d_name, 10, INT32_MAX, &pid) == 0 && runs_program((int32_t)pid, program))
			add_found_pid(found, (int32_t)pid);
	}
	if (directory)
		closedir(directory);
}

/* Find live processes by the name of their trace files: <name>_trace.pid<pid>. */
static void find_by_trace_name(const char *name, struct found *found)
{
	DIR *directory = opendir("/dev/shm");
	size_t bytes = strlen(name);
	struct dirent *entry;
	uint64_t pid;

	while (directory && (entry = readdir(directory))) {
		static const char middle[] = "_trace.pid";
		const char *rest = entry->d_name + bytes;

		if (strncmp(entry->d_name, name, bytes) == 0 && strncmp(rest, middle, sizeof(middle) - 1) == 0 &&
		    text_parse_u64(rest + sizeof(middle) - 1, 10, INT32_MAX, &pid) == 0 &&
		    (kill((int32_t)pid, 0) == 0 || errno == EPERM))
			add_found_pid(found, (int32_t)pid);
	}
	if (directory)
		closedir(directory);
}

/* The socket of the process, if one was found. `what`: the search term, for messages. */
static int find_socket_of_match(const struct found *found, const char *what, char path_ret[TOP_PATH_BYTES],
				struct fathom_fault *why)
{
	char pids[PIDS_SHOWN_MAX * 12] = "";
	size_t used = 0;

	if (found->count == 1)
		return find_socket_of_process(found->pids[0], path_ret, why);
	if (found->count == 0)
		return fault(why, -ENOENT, "no %s is running; `fathom top SOCKET` takes the path of a control socket",
			     what);
	for (uint32_t i = 0; i < found->count && i < PIDS_SHOWN_MAX; i++)
		used += (size_t)snprintf(pids + used, sizeof(pids) - used, " %d", found->pids[i]);
	return fault(why, -EEXIST, "%u of %s are running; select one by its process id:%s%s", found->count, what, pids,
		     found->count > PIDS_SHOWN_MAX ? " ..." : "");
}

static bool is_socket(const char *path)
{
	struct stat about;

	return stat(path, &about) == 0 && S_ISSOCK(about.st_mode);
}

int top_find_socket(const char *target, char path_ret[TOP_PATH_BYTES], struct fathom_fault *why)
{
	struct found found = { .count = 0 };
	char what[160];
	uint64_t pid;

	if (!target && is_socket(RPC_SOCKET_DEFAULT))
		target = RPC_SOCKET_DEFAULT;
	if (!target) {
		find_by_program(ENGINE, &found);
		return find_socket_of_match(&found, ENGINE, path_ret, why);
	}
	if (text_parse_u64(target, 10, INT32_MAX, &pid) == 0 && pid > 0)
		return find_socket_of_process((int32_t)pid, path_ret, why);
	if (strchr(target, '/') || is_socket(target)) {
		if (text_copy(path_ret, TOP_PATH_BYTES, target) != 0)
			return fault(why, -ENAMETOOLONG, "%.200s: longer than a socket's path can be (%d characters)",
				     target, TOP_PATH_BYTES - 1);
		return 0;
	}
	find_by_trace_name(target, &found);
	if (found.count == 0)
		find_by_program(target, &found);
	snprintf(what, sizeof(what), "process named \"%.100s\"", target);
	return find_socket_of_match(&found, what, path_ret, why);
}
