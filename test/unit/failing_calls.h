/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * failing_calls - external calls that fail when a test says so. All tests share the table below.
 *
 *     static struct failing_calls failing;
 *     static bool fails(void) { return failing_calls_next(&failing); }
 *     FAILING_CALL(socket)
 *
 * The linker sends calls of a wrapped name here (--wrap in meson.build). If fails() is true, the call returns its row's
 * failure with the row's errno, or with FAILING_ERRNO. A test does not link if a name has no FAILING_CALL() or meson.build
 * does not wrap it. The test includes what declares the row's types. WRAP() in a test wraps a call of one library only.
 */
#ifndef TEST_UNIT_FAILING_CALLS_H
#define TEST_UNIT_FAILING_CALLS_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "descriptor_count.h"

/* Counts calls while `armed`. Call `fail_at`, from 1, fails; 0: none. `met`: it did. */
struct failing_calls {
	bool armed, met;
	uint32_t count, fail_at;
};

/* How many calls of SPARED_CALL() this thread is inside of. No call fails in them. */
static _Thread_local int failing_spared;

/* Defined by the test. Does this call fail? */
static bool fails(void);

/* Count a call; true: it is the one that fails. */
static inline bool failing_calls_next(struct failing_calls *calls)
{
	if (!calls->armed || failing_spared || ++calls->count != calls->fail_at)
		return false;
	calls->met = true;
	return true;
}

#ifndef FAILING_ERRNO
#define FAILING_ERRNO(of_row) (of_row)
#endif

#define WRAP(type, name, parameters, arguments, error, failed)                                                             \
	type __real_##name parameters;                                                                                     \
	type __wrap_##name parameters;                                                                                     \
	type __wrap_##name parameters                                                                                      \
	{                                                                                                                  \
		if (fails()) {                                                                                             \
			errno = FAILING_ERRNO(error);                                                                      \
			return failed;                                                                                     \
		}                                                                                                          \
		return __real_##name arguments;                                                                            \
	}

#define FAILING_CALL(name) CALL_##name(WRAP)

/* A call that by its contract ends the program when out of memory. Nothing inside of it may fail. */
#define SPARE(type, name, parameters, arguments)                                                                           \
	type __real_##name parameters;                                                                                     \
	type __wrap_##name parameters;                                                                                     \
	type __wrap_##name parameters                                                                                      \
	{                                                                                                                  \
		type result;                                                                                               \
                                                                                                                           \
		failing_spared++;                                                                                          \
		result = __real_##name arguments;                                                                          \
		failing_spared--;                                                                                          \
		return result;                                                                                             \
	}

#define SPARE_VOID(name, parameters, arguments)                                                                            \
	void __real_##name parameters;                                                                                     \
	void __wrap_##name parameters;                                                                                     \
	void __wrap_##name parameters                                                                                      \
	{                                                                                                                  \
		failing_spared++;                                                                                          \
		__real_##name arguments;                                                                                   \
		failing_spared--;                                                                                          \
	}

#define SPARED_CALL(name) SPARED_##name

#define SPARED_fathom_trace_intern SPARE(const struct trace_istr *, fathom_trace_intern, (const char *text), (text))
#define SPARED_fathom_trace_intern_foreign                                                                                 \
	SPARE(const struct trace_istr *, fathom_trace_intern_foreign, (const char *text), (text))
#define SPARED_thread_send_msg                                                                                             \
	SPARE_VOID(thread_send_msg, (struct fathom_thread * thread, thread_fn fn, void *ctx), (thread, fn, ctx))

/* fork(): the child runs `in_child` before it returns. */
#define FAILING_FORK(in_child)                                                                                             \
	pid_t __real_fork(void);                                                                                           \
	pid_t __wrap_fork(void);                                                                                           \
	pid_t __wrap_fork(void)                                                                                            \
	{                                                                                                                  \
		pid_t pid;                                                                                                 \
                                                                                                                           \
		if (fails()) {                                                                                             \
			errno = FAILING_ERRNO(EAGAIN);                                                                     \
			return -1;                                                                                         \
		}                                                                                                          \
		pid = __real_fork();                                                                                       \
		if (pid == 0)                                                                                              \
			in_child;                                                                                          \
		return pid;                                                                                                \
	}

/* ---- the table: wrap(type, name, parameters, arguments, errno, the value returned) ---- */

/* memory */
#define CALL_malloc(wrap) wrap(void *, malloc, (size_t bytes), (bytes), ENOMEM, NULL)
#define CALL_calloc(wrap) wrap(void *, calloc, (size_t count, size_t bytes), (count, bytes), ENOMEM, NULL)
#define CALL_realloc(wrap) wrap(void *, realloc, (void *block, size_t bytes), (block, bytes), ENOMEM, NULL)
#define CALL_aligned_alloc(wrap) wrap(void *, aligned_alloc, (size_t to, size_t bytes), (to, bytes), ENOMEM, NULL)
#define CALL_strdup(wrap) wrap(char *, strdup, (const char *text), (text), ENOMEM, NULL)

/* files */
#define CALL_access(wrap) wrap(int, access, (const char *path, int mode), (path, mode), EIO, -1)
#define CALL_fdatasync(wrap) wrap(int, fdatasync, (int fd), (fd), EIO, -1)
#define CALL_fchown(wrap) wrap(int, fchown, (int fd, uid_t uid, gid_t gid), (fd, uid, gid), EPERM, -1)
#define CALL_flock(wrap) wrap(int, flock, (int fd, int operation), (fd, operation), EIO, -1)
#define CALL_fstat64(wrap) wrap(int, fstat64, (int fd, struct stat *to), (fd, to), EIO, -1)
#define CALL_fstatat64(wrap)                                                                                               \
	wrap(int, fstatat64, (int at, const char *path, struct stat64 *status, int flags), (at, path, status, flags), EIO, \
	     -1)
#define CALL_fsync(wrap) wrap(int, fsync, (int fd), (fd), EIO, -1)
#define CALL_ftruncate64(wrap) wrap(int, ftruncate64, (int fd, off64_t bytes), (fd, bytes), EIO, -1)
#define CALL_getdents64(wrap)                                                                                              \
	wrap(ssize_t, getdents64, (int fd, void *entries, size_t bytes), (fd, entries, bytes), EIO, -1)
#define CALL_inotify_add_watch(wrap)                                                                                       \
	wrap(int, inotify_add_watch, (int fd, const char *path, uint32_t mask), (fd, path, mask), ENOSPC, -1)
#define CALL_link(wrap) wrap(int, link, (const char *from, const char *to), (from, to), EMLINK, -1)
#define CALL_linkat(wrap)                                                                                                  \
	wrap(int, linkat, (int at, const char *path, int to, const char *to_path, int flags),                              \
	     (at, path, to, to_path, flags), EIO, -1)
#define CALL_lseek64(wrap) wrap(off64_t, lseek64, (int fd, off64_t offset, int whence), (fd, offset, whence), EIO, -1)
#define CALL_mkdir(wrap) wrap(int, mkdir, (const char *path, mode_t mode), (path, mode), ENOSPC, -1)
#define CALL_mkdirat(wrap) wrap(int, mkdirat, (int at, const char *path, mode_t mode), (at, path, mode), EIO, -1)
#define CALL_mkostemp64(wrap) wrap(int, mkostemp64, (char *path, int flags), (path, flags), EMFILE, -1)
#define CALL_open64(wrap) wrap(int, open64, (const char *path, int flags, mode_t mode), (path, flags, mode), EMFILE, -1)
#define CALL_opendir(wrap) wrap(DIR *, opendir, (const char *path), (path), EMFILE, NULL)
#define CALL_pread64(wrap)                                                                                                 \
	wrap(ssize_t, pread64, (int fd, void *to, size_t bytes, off_t offset), (fd, to, bytes, offset), EIO, -1)
#define CALL_read(wrap) wrap(ssize_t, read, (int fd, void *to, size_t bytes), (fd, to, bytes), EIO, -1)
#define CALL_readdir64(wrap) wrap(struct dirent *, readdir64, (DIR * folder), (folder), EIO, NULL)
#define CALL_readlink(wrap) wrap(ssize_t, readlink, (const char *path, char *to, size_t bytes), (path, to, bytes), EIO, -1)
#define CALL_readlinkat(wrap)                                                                                              \
	wrap(ssize_t, readlinkat, (int at, const char *path, char *target, size_t bytes), (at, path, target, bytes), EIO,  \
	     -1)
#define CALL_rename(wrap) wrap(int, rename, (const char *from, const char *to), (from, to), EIO, -1)
#define CALL_renameat(wrap)                                                                                                \
	wrap(int, renameat, (int at, const char *path, int to, const char *to_path), (at, path, to, to_path), EIO, -1)
#define CALL_scandir64(wrap)                                                                                               \
	wrap(int, scandir64,                                                                                               \
	     (const char *path, struct dirent ***entries, int (*takes)(const struct dirent *),                             \
	      int (*compare)(const struct dirent **, const struct dirent **)),                                             \
	     (path, entries, takes, compare), ENOMEM, -1)
#define CALL_stat64(wrap) wrap(int, stat64, (const char *path, struct stat *to), (path, to), EIO, -1)
#define CALL_symlinkat(wrap)                                                                                               \
	wrap(int, symlinkat, (const char *target, int at, const char *path), (target, at, path), EIO, -1)
#define CALL_unlink(wrap) wrap(int, unlink, (const char *path), (path), EIO, -1)
#define CALL_unlinkat(wrap) wrap(int, unlinkat, (int at, const char *path, int flags), (at, path, flags), EIO, -1)
#define CALL_write(wrap) wrap(ssize_t, write, (int fd, const void *data, size_t bytes), (fd, data, bytes), EPIPE, -1)

/* streams */
#define CALL___getdelim(wrap)                                                                                              \
	wrap(ssize_t, __getdelim, (char **line, size_t *room, int end, FILE *from), (line, room, end, from), ENOMEM, -1)
#define CALL_fdopen(wrap) wrap(FILE *, fdopen, (int fd, const char *mode), (fd, mode), ENOMEM, NULL)
#define CALL_fwrite(wrap)                                                                                                  \
	wrap(size_t, fwrite, (const void *from, size_t size, size_t count, FILE *to), (from, size, count, to), ENOMEM,     \
	     count / 2)
#define CALL_getline(wrap) wrap(ssize_t, getline, (char **line, size_t *room, FILE *from), (line, room, from), ENOMEM, -1)
#define CALL_open_memstream(wrap) wrap(FILE *, open_memstream, (char **to, size_t *bytes), (to, bytes), ENOMEM, NULL)

/* sockets, names, events */
#define CALL_accept4(wrap)                                                                                                 \
	wrap(int, accept4, (int fd, struct sockaddr *address, socklen_t *bytes, int flags), (fd, address, bytes, flags),   \
	     EMFILE, -1)
#define CALL_bind(wrap)                                                                                                    \
	wrap(int, bind, (int fd, const struct sockaddr *address, socklen_t bytes), (fd, address, bytes), EACCES, -1)
#define CALL_connect(wrap)                                                                                                 \
	wrap(int, connect, (int fd, const struct sockaddr *address, socklen_t bytes), (fd, address, bytes), ENETUNREACH, -1)
#define CALL_epoll_create1(wrap) wrap(int, epoll_create1, (int flags), (flags), EMFILE, -1)
#define CALL_eventfd(wrap) wrap(int, eventfd, (unsigned int count, int flags), (count, flags), EMFILE, -1)
#define CALL_getaddrinfo(wrap)                                                                                             \
	wrap(int, getaddrinfo,                                                                                             \
	     (const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **found_ret),           \
	     (name, service, hints, found_ret), EIO, EAI_AGAIN)
#define CALL_gethostname(wrap) wrap(int, gethostname, (char *name, size_t bytes), (name, bytes), EPERM, -1)
#define CALL_getifaddrs(wrap) wrap(int, getifaddrs, (struct ifaddrs * *all), (all), ENOBUFS, -1)
#define CALL_getnameinfo(wrap)                                                                                             \
	wrap(int, getnameinfo,                                                                                             \
	     (const struct sockaddr *address, socklen_t bytes, char *host, socklen_t host_bytes, char *service,            \
	      socklen_t service_bytes, int flags),                                                                         \
	     (address, bytes, host, host_bytes, service, service_bytes, flags), EIO, EAI_FAIL)
#define CALL_getsockopt(wrap)                                                                                              \
	wrap(int, getsockopt, (int fd, int level, int name, void *value, socklen_t *bytes),                                \
	     (fd, level, name, value, bytes), ENOBUFS, -1)
#define CALL_inet_ntop(wrap)                                                                                               \
	wrap(const char *, inet_ntop, (int family, const void *from, char *to, socklen_t bytes),                           \
	     (family, from, to, bytes), ENOSPC, NULL)
#define CALL_listen(wrap) wrap(int, listen, (int fd, int backlog), (fd, backlog), EADDRINUSE, -1)
#define CALL_pipe2(wrap) wrap(int, pipe2, (int ends[2], int flags), (ends, flags), EMFILE, -1)
#define CALL_poll(wrap)                                                                                                    \
	wrap(int, poll, (struct pollfd * fds, nfds_t count, int timeout_ms), (fds, count, timeout_ms), ENOMEM, -1)
#define CALL_recv(wrap)                                                                                                    \
	wrap(ssize_t, recv, (int fd, void *data, size_t bytes, int flags), (fd, data, bytes, flags), EIO, -1)
#define CALL_recvmsg(wrap)                                                                                                 \
	wrap(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags), ENOMEM, -1)
#define CALL_send(wrap)                                                                                                    \
	wrap(ssize_t, send, (int fd, const void *data, size_t bytes, int flags), (fd, data, bytes, flags), EPIPE, -1)
#define CALL_sendmsg(wrap)                                                                                                 \
	wrap(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags), ENOBUFS, -1)
#define CALL_sendto(wrap)                                                                                                  \
	wrap(ssize_t, sendto,                                                                                              \
	     (int fd, const void *data, size_t bytes, int flags, const struct sockaddr *to, socklen_t to_bytes),           \
	     (fd, data, bytes, flags, to, to_bytes), ECONNREFUSED, -1)
#define CALL_setsockopt(wrap)                                                                                              \
	wrap(int, setsockopt, (int fd, int level, int name, const void *value, socklen_t bytes),                           \
	     (fd, level, name, value, bytes), ENOBUFS, -1)
#define CALL_socket(wrap) wrap(int, socket, (int domain, int type, int protocol), (domain, type, protocol), EMFILE, -1)
#define CALL_socketpair(wrap)                                                                                              \
	wrap(int, socketpair, (int domain, int type, int protocol, int pair[2]), (domain, type, protocol, pair), EMFILE, -1)

/* processes, descriptors */
#define CALL_chdir(wrap) wrap(int, chdir, (const char *path), (path), EACCES, -1)
#define CALL_clearenv(wrap) wrap(int, clearenv, (void), (), ENOMEM, -1)
#define CALL_close_range(wrap)                                                                                             \
	wrap(int, close_range, (unsigned int from, unsigned int to, int flags), (from, to, flags), ENOSYS, -1)
#define CALL_dup2(wrap) wrap(int, dup2, (int from, int to), (from, to), EBUSY, -1)
#define CALL_execve(wrap)                                                                                                  \
	wrap(int, execve, (const char *path, char *const argv[], char *const env[]), (path, argv, env), ENOMEM, -1)
#define CALL_fcntl64(wrap) wrap(int, fcntl64, (int fd, int command, long argument), (fd, command, argument), EMFILE, -1)
#define CALL_kill(wrap) wrap(int, kill, (pid_t pid, int signal), (pid, signal), EPERM, -1)
#define CALL_posix_spawn(wrap)                                                                                             \
	wrap(int, posix_spawn,                                                                                             \
	     (pid_t * pid, const char *path, const posix_spawn_file_actions_t *actions,                                    \
	      const posix_spawnattr_t *attributes, char *const argv[], char *const env[]),                                 \
	     (pid, path, actions, attributes, argv, env), 0, EAGAIN)
#define CALL_posix_spawn_file_actions_init(wrap)                                                                           \
	wrap(int, posix_spawn_file_actions_init, (posix_spawn_file_actions_t * actions), (actions), 0, ENOMEM)
#define CALL_posix_spawnattr_init(wrap)                                                                                    \
	wrap(int, posix_spawnattr_init, (posix_spawnattr_t * attributes), (attributes), 0, ENOMEM)
#define CALL_prctl(wrap)                                                                                                   \
	wrap(int, prctl, (int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d),                 \
	     (option, a, b, c, d), EPERM, -1)
#define CALL_sched_getaffinity(wrap)                                                                                       \
	wrap(int, sched_getaffinity, (pid_t pid, size_t bytes, cpu_set_t * set), (pid, bytes, set), ENOSYS, -1)
#define CALL_setpgid(wrap) wrap(int, setpgid, (pid_t pid, pid_t group), (pid, group), EPERM, -1)
#define CALL_setrlimit64(wrap)                                                                                             \
	wrap(int, setrlimit64, (int resource, const struct rlimit *limit), (resource, limit), EPERM, -1)
#define CALL_syscall(wrap)                                                                                                 \
	wrap(long, syscall, (long number, long a, long b, long c, long d, long e, long f), (number, a, b, c, d, e, f),     \
	     EPERM, -1)
#define CALL_waitpid(wrap) wrap(pid_t, waitpid, (pid_t pid, int *status, int options), (pid, status, options), ECHILD, -1)

/* ours */
#define CALL_fd_watch_add(wrap)                                                                                            \
	wrap(struct fd_watch *, fd_watch_add, (int fd, uint32_t events, fd_fn fn, void *ctx), (fd, events, fn, ctx),       \
	     ENOSPC, NULL)

#endif
