/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * threads - the threads of the process: state, what they wait for in the kernel, on which CPUs they may run, and how long
 * they ran and waited for a CPU between two looks.
 *
 * A thread that waits for a mutex is in futex(), whose first argument is the address of glibc's mutex: the word, a count,
 * and the thread that has it. One read of the process's memory tells which thread that is; it stops nothing.
 *
 * A stack, a system call and memory are readable only for root; what is refused is left out.
 */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/text.h"
#include "inspect/doctor/internal.h"

enum { THREADS_MAX = 1024, PATH_BYTES = 128, LINE_BYTES = 256, FRAMES_MAX = 12 };

/* A system call of x86-64 in which a thread waits. */
struct call {
	int64_t number;
	uint64_t args[3];
};

/* Read /proc/PID/task/TID/NAME. */
static bool read_of_thread(int32_t pid, int64_t tid, const char *name, char *to, size_t bytes)
{
	char path[PATH_BYTES];

	snprintf(path, sizeof(path), "/proc/%d/task/%" PRId64 "/%s", pid, tid, name);
	return doc_read(path, to, bytes) == 0;
}

/* The functions of a stack in the kernel, the innermost first: "[<0>] hrtimer_nanosleep+0x99/0x120". */
static json_t *stack_of(const char *text)
{
	json_t *stack = doc_list();

	for (const char *line = text; *line && json_array_size(stack) < FRAMES_MAX;) {
		size_t bytes = strcspn(line, "\n");
		const char *name = memchr(line, ']', bytes);

		if (name) {
			name += 1 + strspn(name + 1, " ");
			doc_add(stack, doc_text_of(name, strcspn(name, "+\n")));
		}
		line += bytes + (line[bytes] == '\n');
	}
	return stack;
}

/* The arguments of futex() in which pthread_mutex_lock() waits. */
static bool waits_for_lock(const struct call *call)
{
	enum { FUTEX = 202, WAIT = 0, WAIT_BITSET = 9, COMMAND_MASK = 0x7f, LOCKED_WITH_WAITERS = 2 };

	return call->number == FUTEX &&
	       ((call->args[1] & COMMAND_MASK) == WAIT || (call->args[1] & COMMAND_MASK) == WAIT_BITSET) &&
	       call->args[2] == LOCKED_WITH_WAITERS;
}

static void put_lock(int32_t pid, const struct call *call, json_t *thread)
{
	char path[PATH_BYTES], text[SHORT_TEXT_BYTES];
	int32_t mutex[3]; /* word, count, owner */
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	if (pread(fd, mutex, sizeof(mutex), (off_t)call->args[0]) == sizeof(mutex) && mutex[2] > 0) {
		snprintf(text, sizeof(text), "0x%" PRIx64, call->args[0]);
		doc_put(thread, "lock", doc_text(text));
		doc_put(thread, "lock_owner", json_integer(mutex[2]));
	}
	close(fd);
}

/* The file of the call's descriptor, which is the first argument of most calls that can wait. */
static void put_file(int32_t pid, const struct call *call, json_t *thread)
{
	static const int64_t calls[] = { 0,  1,	 5,  16, 17, 18, 19,  20,  42,	43,  44, 45,
					 46, 47, 72, 73, 74, 75, 138, 285, 288, 295, 296 };
	char path[PATH_BYTES], target[LINE_BYTES];
	ssize_t bytes;

	for (size_t i = 0; i < ARRAY_COUNT(calls); i++) {
		if (calls[i] != call->number)
			continue;
		snprintf(path, sizeof(path), "/proc/%d/fd/%" PRIu64, pid, call->args[0]);
		bytes = readlink(path, target, sizeof(target));
		doc_put(thread, "descriptor", json_integer((json_int_t)call->args[0]));
		if (bytes > 0)
			doc_put(thread, "file", doc_text_of(target, (size_t)bytes));
	}
}

/* "202 0x7f5c0e0 0x80 0x2 ...": the number in decimal, the arguments in hexadecimal. "-1 ...": in no call. */
static void put_call(int32_t pid, const char *text, json_t *thread)
{
	struct call call = { 0 };

	(void)json_object_del(thread, "lock");
	(void)json_object_del(thread, "lock_owner");
	(void)json_object_del(thread, "descriptor");
	(void)json_object_del(thread, "file");
	if (sscanf(text, "%" SCNd64 " %" SCNx64 " %" SCNx64 " %" SCNx64, &call.number, &call.args[0], &call.args[1],
		   &call.args[2]) < 1)
		return;
	doc_put(thread, "syscall", json_integer(call.number));
	if (waits_for_lock(&call))
		put_lock(pid, &call, thread);
	else
		put_file(pid, &call, thread);
}

static void put_waiting(int32_t pid, int64_t tid, json_t *thread)
{
	char text[PROC_BYTES_MAX];

	(void)json_object_del(thread, "syscall");
	if (read_of_thread(pid, tid, "wchan", text, sizeof(text)) && strcmp(text, "0") != 0)
		doc_put(thread, "wchan", doc_text(text));
	if (read_of_thread(pid, tid, "syscall", text, sizeof(text)) && strcmp(text, "running") != 0)
		put_call(pid, text, thread);
	if (read_of_thread(pid, tid, "stack", text, sizeof(text)))
		doc_put(thread, "stack", stack_of(text));
}

/* Nanoseconds on a CPU, and waiting for one. */
static bool read_schedule(int32_t pid, int64_t tid, int64_t *ran_ret, int64_t *waited_ret)
{
	char text[LINE_BYTES];

	return read_of_thread(pid, tid, "schedstat", text, sizeof(text)) &&
	       sscanf(text, "%" SCNd64 " %" SCNd64, ran_ret, waited_ret) == 2;
}

static void put_thread_status(int32_t pid, int64_t tid, json_t *thread)
{
	char text[PROC_BYTES_MAX], line[LINE_BYTES];
	int64_t tracer;

	if (!read_of_thread(pid, tid, "status", text, sizeof(text)))
		return;
	doc_put(thread, "name", doc_text(doc_line(text, "Name:", line, sizeof(line))));
	doc_line(text, "State:", line, sizeof(line));
	doc_put(thread, "state", doc_text_of(line, line[0] ? 1 : 0));
	doc_put(thread, "cpus", doc_text(doc_line(text, "Cpus_allowed_list:", line, sizeof(line))));
	tracer = strtoll(doc_line(text, "TracerPid:", line, sizeof(line)), NULL, 10);
	if (tracer > 0)
		doc_put(thread, "tracer", json_integer(tracer));
}

static json_t *look_at_thread(int32_t pid, int64_t tid)
{
	json_t *thread = doc_object();
	int64_t ran, waited;

	doc_put(thread, "tid", json_integer(tid));
	put_thread_status(pid, tid, thread);
	put_waiting(pid, tid, thread);
	if (read_schedule(pid, tid, &ran, &waited)) {
		doc_put(thread, "ran_ns", json_integer(ran));
		doc_put(thread, "waited_ns", json_integer(waited));
	}
	return thread;
}

json_t *doc_threads(int32_t pid)
{
	json_t *threads = doc_list();
	char path[PATH_BYTES];
	struct dirent *entry;
	DIR *directory;
	uint64_t tid;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	directory = opendir(path);
	while (directory && json_array_size(threads) < THREADS_MAX && (entry = readdir(directory))) {
		if (text_parse_u64(entry->d_name, 10, INT32_MAX, &tid) == 0)
			doc_add(threads, look_at_thread(pid, (int64_t)tid));
	}
	if (directory)
		closedir(directory);
	return threads;
}

void doc_threads_again(int32_t pid, json_t *threads)
{
	json_t *thread;
	size_t i;

	json_array_foreach (threads, i, thread) {
		int64_t tid = doc_number(thread, "tid", 0), ran, waited;

		if (!json_object_get(thread, "ran_ns") || !read_schedule(pid, tid, &ran, &waited))
			continue;
		doc_put(thread, "ran_ms", json_real((double)(ran - doc_number(thread, "ran_ns", ran)) / 1e6));
		doc_put(thread, "waited_ms", json_real((double)(waited - doc_number(thread, "waited_ns", waited)) / 1e6));
		put_thread_status(pid, tid, thread);
		put_waiting(pid, tid, thread);
	}
}
