/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cpus - keeps `fathom perf` off the CPUs of reactors on this machine.
 *
 * A reactor of Fathom or SPDK is a thread named reactor_N that is bound to one CPU and spins there while it has work. A
 * host on the same CPU gets half of it, and the target waits while the host runs.
 */
#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cmd/fathom/perf/perf.h"

static bool is_reactor(uint64_t pid, uint64_t tid)
{
	char path[64], name[32];
	FILE *file;
	bool yes;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", (int)pid, (int)tid);
	file = fopen(path, "re");
	if (!file)
		return false; /* the thread has ended */
	yes = fgets(name, sizeof(name), file) && strncmp(name, "reactor_", strlen("reactor_")) == 0;
	fclose(file);
	return yes;
}

/* Add the CPUs on which threads of `pid` spin. */
static void add_reactor_cpus(uint64_t pid, cpu_set_t *spun)
{
	char path[64];
	struct dirent *entry;
	DIR *threads;
	uint64_t tid;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	threads = opendir(path);
	while (threads && (entry = readdir(threads))) {
		cpu_set_t cpus;

		if (text_parse_u64(entry->d_name, 10, INT32_MAX, &tid) == 0 && is_reactor(pid, tid) &&
		    sched_getaffinity((pid_t)tid, sizeof(cpus), &cpus) == 0 && CPU_COUNT(&cpus) == 1)
			CPU_OR(spun, spun, &cpus);
	}
	if (threads)
		closedir(threads);
}

static void find_reactors(cpu_set_t *spun)
{
	DIR *processes = opendir("/proc");
	struct dirent *entry;
	uint64_t pid;

	CPU_ZERO(spun);
	while (processes && (entry = readdir(processes))) {
		if (text_parse_u64(entry->d_name, 10, INT32_MAX, &pid) == 0)
			add_reactor_cpus(pid, spun);
	}
	if (processes)
		closedir(processes);
}

uint32_t perf_avoid_reactors(uint32_t queues, bool quiet)
{
	cpu_set_t spun, allowed, left;
	uint32_t count;

	if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
		return queues; /* more than 1024 CPUs: assume that enough are free */
	find_reactors(&spun);
	CPU_AND(&left, &allowed, &spun);
	CPU_XOR(&left, &allowed, &left);
	count = (uint32_t)CPU_COUNT(&left);
	if (count > 0 && sched_setaffinity(0, sizeof(left), &left) != 0)
		return (uint32_t)CPU_COUNT(&allowed);
	if (quiet)
		return count;
	if (count == 0)
		fprintf(stderr, "fathom perf: each CPU that this process may use has a reactor bound to it, so the results "
				"are too low\n");
	else if (count < queues && count < (uint32_t)CPU_COUNT(&allowed))
		fprintf(stderr, "fathom perf: %u queues share %u CPU%s, because reactors are bound to the others\n", queues,
			count, count == 1 ? "" : "s");
	return count;
}
