/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * live - a seed that other programs can watch (--real-time): its trace is a file in /dev/shm, as an engine's, and simulated
 * time passes no faster than real time.
 *
 * The memory of the trace is replaced by a mapping of the file at the same address, after trace_open() and before the first
 * record. So the bytes are those of a run without a file, and a reader that changed one of them would change the checksum.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "fathom/trace/trace.h"
#include "live.h"
#include "sim.h"

enum { AHEAD_MS_MIN = 1 };

static struct {
	bool running;
	char path[64];
	uint64_t begin_ns, begin_tick; /* real and simulated */
} live;

static void write_whole(int fd, const void *from, size_t bytes)
{
	const char *at = from;

	while (bytes > 0) {
		ssize_t count = write(fd, at, bytes);

		sim_check(count > 0, "%s: %s", live.path, strerror(errno));
		at += count;
		bytes -= (size_t)count;
	}
}

void live_begin(void)
{
	size_t bytes;
	const void *memory = trace_memory(&bytes);
	void *mapped;
	int fd;

	must(memory);
	snprintf(live.path, sizeof(live.path), "/dev/shm/sim_trace.pid%d", getpid());
	fd = open(live.path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	sim_check(fd >= 0, "%s: %s", live.path, strerror(errno));
	write_whole(fd, memory, bytes);
	mapped = mmap((void *)(uintptr_t)memory, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
	sim_check(mapped == memory, "%s cannot be mapped: %s", live.path, strerror(errno));
	(void)close(fd); /* the mapping remains */
	live.running = true;
	live.begin_ns = clock_monotonic_ns();
	live.begin_tick = sim.now;
}

void live_pace(void)
{
	uint64_t simulated = sim.now - live.begin_tick, real;
	struct timespec pause;

	if (!live.running)
		return;
	real = clock_monotonic_ns() - live.begin_ns;
	if (simulated < real + AHEAD_MS_MIN * NS_PER_MS)
		return;
	pause = (struct timespec){ .tv_sec = (time_t)((simulated - real) / NS_PER_SEC),
				   .tv_nsec = (long)((simulated - real) % NS_PER_SEC) };
	(void)nanosleep(&pause, NULL); /* a signal makes the step earlier, which changes nothing */
}

void live_end(void)
{
	if (live.running)
		(void)unlink(live.path);
	live.running = false;
}
