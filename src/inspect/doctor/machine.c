/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * machine - what else runs on the machine: CPU time that the hypervisor took, pressure, and the threads of other processes
 * that use CPU time and are bound to one CPU. A thread that may run elsewhere is no neighbour: the scheduler moves it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "inspect/doctor/internal.h"

enum {
	PATH_BYTES = 64,
	LINE_BYTES = 512,
	PROCESSES_MAX = 16384,
	NEIGHBOURS_MAX = 32,
	BUSY_PERCENT_MIN = 5, /* of a CPU; less delays no reactor */
	KERNEL_THREAD = 0x00200000,
};

struct usage {
	int32_t pid, tid; /* tid 0: of the whole process */
	uint64_t ticks;
};

struct usages {
	struct usage *rows;
	uint32_t count;
};

/* CPU time in clock ticks, by a file `stat`. False: it ended, or is a thread of the kernel. */
static bool read_usage(const char *path, uint64_t *ticks_ret)
{
	char text[LINE_BYTES];
	uint64_t flags, user, system;
	const char *rest;

	if (doc_read(path, text, sizeof(text)) != 0)
		return false;
	/* "PID (NAME) STATE ...": the name may contain any character */
	rest = strrchr(text, ')');
	if (!rest ||
	    sscanf(rest + 1, " %*c %*s %*s %*s %*s %*s %" SCNu64 " %*s %*s %*s %*s %" SCNu64 " %" SCNu64, &flags, &user,
		   &system) != 3 ||
	    (flags & KERNEL_THREAD))
		return false;
	*ticks_ret = user + system;
	return true;
}

/* The usage of each process, or of each thread of process `pid`. */
static struct usages read_usages(int32_t pid)
{
	struct usages usages = { .rows = calloc(PROCESSES_MAX, sizeof(*usages.rows)) };
	char folder[PATH_BYTES] = "/proc", path[2 * PATH_BYTES];
	struct dirent *entry;
	uint64_t number;
	DIR *directory;

	must(usages.rows);
	if (pid)
		snprintf(folder, sizeof(folder), "/proc/%d/task", pid);
	directory = opendir(folder);
	while (directory && usages.count < PROCESSES_MAX && (entry = readdir(directory))) {
		struct usage *row = &usages.rows[usages.count];

		if (text_parse_u64(entry->d_name, 10, INT32_MAX, &number) != 0)
			continue;
		*row = (struct usage){ .pid = pid ? pid : (int32_t)number, .tid = pid ? (int32_t)number : 0 };
		snprintf(path, sizeof(path), "%s/%" PRIu64 "/stat", folder, number);
		usages.count += read_usage(path, &row->ticks);
	}
	if (directory)
		closedir(directory);
	return usages;
}

static bool find_usage(const struct usages *usages, int32_t pid, int32_t tid, uint64_t *ticks_ret)
{
	for (uint32_t i = 0; i < usages->count; i++) {
		if (usages->rows[i].pid == pid && usages->rows[i].tid == tid) {
			*ticks_ret = usages->rows[i].ticks;
			return true;
		}
	}
	return false;
}

/* Add a busy thread, if it is bound to one CPU. */
static void add_neighbour(json_t *neighbours, int32_t pid, int32_t tid, double percent)
{
	char path[PATH_BYTES], text[PROC_BYTES_MAX], line[LINE_BYTES], *end;
	json_t *neighbour;
	long cpu;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", pid, tid);
	if (json_array_size(neighbours) >= NEIGHBOURS_MAX || doc_read(path, text, sizeof(text)) != 0)
		return;
	doc_line(text, "Cpus_allowed_list:", line, sizeof(line));
	cpu = strtol(line, &end, 10);
	if (end == line || *end)
		return;
	neighbour = doc_object();
	doc_put(neighbour, "pid", json_integer(pid));
	doc_put(neighbour, "tid", json_integer(tid));
	doc_put(neighbour, "cpu", json_integer(cpu));
	doc_put(neighbour, "name", doc_text(doc_line(text, "Name:", line, sizeof(line))));
	doc_put(neighbour, "percent", json_real(percent));
	doc_add(neighbours, neighbour);
}

static double percent_of(uint64_t before, uint64_t now, uint64_t interval_ms)
{
	double seconds = (double)(now > before ? now - before : 0) / (double)sysconf(_SC_CLK_TCK);

	return interval_ms ? seconds * 1e5 / (double)interval_ms : 0;
}

/* Another process was busy: find its busy threads by one more pair of looks. */
static void look_into(struct doctor_out *out, int32_t pid, json_t *neighbours)
{
	struct usages before = read_usages(pid), now;
	uint64_t since_ms = doctor_elapsed_ms(out), ticks, interval_ms;

	usleep(200000);
	now = read_usages(pid);
	interval_ms = doctor_elapsed_ms(out) - since_ms;
	for (uint32_t i = 0; i < now.count; i++) {
		const struct usage *row = &now.rows[i];
		double percent = find_usage(&before, pid, row->tid, &ticks) ? percent_of(ticks, row->ticks, interval_ms)
									    : 0;

		if (percent >= BUSY_PERCENT_MIN)
			add_neighbour(neighbours, pid, row->tid, percent);
	}
	free(before.rows);
	free(now.rows);
}

/* Is one of its threads bound to a CPU? Saves the second pair of looks at most processes. */
static bool may_be_bound(int32_t pid)
{
	char path[PATH_BYTES], text[PROC_BYTES_MAX], line[LINE_BYTES], *end;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	if (doc_read(path, text, sizeof(text)) != 0)
		return false;
	(void)strtol(doc_line(text, "Cpus_allowed_list:", line, sizeof(line)), &end, 10);
	if (end != line && !*end)
		return true;
	return strtol(doc_line(text, "Threads:", line, sizeof(line)), NULL, 10) > 1;
}

static void put_cpu_times(json_t *to)
{
	char text[LINE_BYTES];
	uint64_t times[8];

	/* user nice system idle iowait irq softirq steal */
	if (doc_read("/proc/stat", text, sizeof(text)) != 0 ||
	    sscanf(text, "cpu %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64,
		   &times[0], &times[1], &times[2], &times[3], &times[4], &times[5], &times[6], &times[7]) != 8)
		return;
	doc_put(to, "idle", json_integer((json_int_t)(times[3] + times[4])));
	doc_put(to, "steal", json_integer((json_int_t)times[7]));
	doc_put(to, "all",
		json_integer((json_int_t)(times[0] + times[1] + times[2] + times[3] + times[4] + times[5] + times[6] +
					  times[7])));
}

static void put_pressure(struct doctor_out *out)
{
	static const char *const kinds[] = { "cpu", "memory", "io" };
	json_t *pressure = doc_object();
	char path[PATH_BYTES], text[LINE_BYTES];
	double share;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		snprintf(path, sizeof(path), "/proc/pressure/%s", kinds[i]);
		if (doc_read(path, text, sizeof(text)) == 0 && sscanf(text, "some avg10=%lf", &share) == 1)
			doc_put(pressure, kinds[i], json_real(share));
	}
	doctor_put(out, "pressure", pressure);
}

/*
 * Processes that the kernel killed for memory, from its log: "6,339,5140900,-;... Killed process 71 (fathom-engine) ...". A
 * record is read by one read(); times are in microseconds since the machine started.
 */
static json_t *kills_for_memory(void)
{
	int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	uint64_t start_ns = clock_realtime_ns() - clock_monotonic_ns();
	json_t *kills = doc_list();
	char text[8192];
	ssize_t got;

	while (fd >= 0 && ((got = read(fd, text, sizeof(text) - 1)) > 0 || (got < 0 && errno == EPIPE))) {
		const char *killed;
		uint64_t us;
		char name[32];
		int32_t pid;
		json_t *row;

		text[got > 0 ? got : 0] = '\0';
		killed = strstr(text, "Killed process ");
		if (!killed || sscanf(text, "%*u,%*u,%" SCNu64, &us) != 1 ||
		    sscanf(killed, "Killed process %" SCNd32 " (%31[^)])", &pid, name) != 2)
			continue;
		row = doc_object();
		doc_put(row, "pid", json_integer(pid));
		doc_put(row, "name", doc_text(name));
		doc_put(row, "at_s", json_integer((json_int_t)((start_ns + us * NS_PER_US) / NS_PER_SEC)));
		doc_put(row, "line", doc_text(killed));
		doc_add(kills, row);
	}
	if (fd >= 0)
		close(fd);
	return kills;
}

void doctor_look_machine(struct doctor_out *out, const void *ctx)
{
	int32_t pid = *(const int32_t *)ctx;
	json_t *neighbours = doc_list(), *before_times = doc_object(), *times = doc_object();
	struct usages before = read_usages(0), now;
	uint64_t since_ms = doctor_elapsed_ms(out), interval_ms, ticks;

	doctor_put(out, "cpus", json_integer(sysconf(_SC_NPROCESSORS_ONLN)));
	put_cpu_times(before_times);
	put_pressure(out);
	doctor_put(out, "kills", kills_for_memory());
	doctor_wait_look(out, since_ms);
	now = read_usages(0);
	put_cpu_times(times);
	interval_ms = doctor_elapsed_ms(out) - since_ms;
	doctor_put(out, "times_before", before_times);
	doctor_put(out, "times", times);
	for (uint32_t i = 0; i < now.count && json_array_size(neighbours) < NEIGHBOURS_MAX; i++) {
		const struct usage *row = &now.rows[i];

		if (row->pid != pid && row->pid != getpid() && find_usage(&before, row->pid, 0, &ticks) &&
		    percent_of(ticks, row->ticks, interval_ms) >= BUSY_PERCENT_MIN && may_be_bound(row->pid) &&
		    doctor_elapsed_ms(out) < DOCTOR_LIMIT_MS / 2)
			look_into(out, row->pid, neighbours);
	}
	doctor_put(out, "neighbours", neighbours);
	free(before.rows);
	free(now.rows);
}
