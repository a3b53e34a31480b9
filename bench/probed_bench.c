/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * probed_bench - what the parsing of an object costs in the jail, beside the same parser without it, in one run.
 *
 * Both take turns; each figure is the median. The jail is on the control reactor, as the daemon has it. Prints a JSON line
 * for each number of probes; the last has the memory of the child.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../test/unit/inspect/probed/children.h"
#include "../test/unit/inspect/probed/made.h"
#include "base/bits.h"
#include "base/clock.h"
#include "inspect/probed/jail/jail.h"
#include "base/reactor/reactor.h"
#include "median.h"

enum { ROUNDS_MAX = 401, PROBES_BUDGET = 400000 };

static const uint32_t counts[] = { 2, 10, 100, 1000, 5000 };

static struct {
	struct jail *jail;
	size_t index; /* in `counts` */
	uint32_t round, rounds;
	void *data;
	size_t bytes;
	struct dof_input input;
	uint64_t began;
	double pure_us[ROUNDS_MAX], jailed_us[ROUNDS_MAX];
} bench;

/* A line of /proc/PID/status, in KiB. */
static uint64_t status_kib(pid_t pid, const char *key)
{
	char path[64], line[256];
	uint64_t kib = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		if (strncmp(line, key, strlen(key)) == 0 && sscanf(line + strlen(key), ": %" SCNu64, &kib) == 1)
			break;
	}
	if (file)
		fclose(file);
	return kib;
}

static void report_memory(void)
{
	pid_t pids[CHILDREN_MAX];

	must(children_of_this(pids) == 1);
	printf("{\"what\": \"memory\", \"probes\": %" PRIu32 ", \"object_bytes\": %zu, \"peak_kib\": %" PRIu64
	       ", \"anonymous_kib\": %" PRIu64 ", \"shared_kib\": %" PRIu64 ", \"files_kib\": %" PRIu64 "}\n",
	       counts[bench.index], bench.bytes, status_kib(pids[0], "VmHWM"), status_kib(pids[0], "RssAnon"),
	       status_kib(pids[0], "RssShmem"), status_kib(pids[0], "RssFile"));
}

static void begin_round(void);

static void begin_count(void)
{
	uint32_t count = counts[bench.index];

	bench.data = made_object(count, &bench.bytes);
	bench.input = (struct dof_input){ .helper = { .module = "sample", .base = 0x555555554000 },
					  .blocks = { { .data = bench.data, .bytes = bench.bytes } } };
	bench.rounds = (uint32_t)min_u64(ROUNDS_MAX, PROBES_BUDGET / count | 1);
	bench.round = 0;
	begin_round();
}

static void end_count(void)
{
	double pure = median(bench.pure_us, bench.rounds), jailed = median(bench.jailed_us, bench.rounds);

	printf("{\"what\": \"parse\", \"probes\": %" PRIu32
	       ", \"object_bytes\": %zu, \"pure_us\": %.2f, \"jailed_us\": %.2f, "
	       "\"ratio\": %.2f}\n",
	       counts[bench.index], bench.bytes, pure, jailed, jailed / pure);
	if (bench.index + 1 == ARRAY_COUNT(counts))
		report_memory();
	free(bench.data);
}

static void end_round(void *ctx, int error, struct dof_set *set, const struct fathom_fault *why)
{
	bench.jailed_us[bench.round++] = us_since(bench.began);
	if (error) {
		fprintf(stderr, "probed-bench: %s\n", why->text);
		exit(1);
	}
	dof_set_free(set);
	if (bench.round < bench.rounds) {
		begin_round();
		return;
	}
	end_count();
	if (++bench.index < ARRAY_COUNT(counts))
		begin_count();
	else
		reactors_request_stop();
}

static void begin_round(void)
{
	struct dof_set set;

	bench.began = clock_ticks();
	must(dof_parse(&bench.input, NULL, &set, NULL) == 0);
	bench.pure_us[bench.round] = us_since(bench.began);
	dof_set_free(&set);
	bench.began = clock_ticks();
	jail_parse(bench.jail, &bench.input, end_round, NULL);
}

static void begin(void *unused)
{
	struct fathom_fault why = { 0 };

	bench.jail = jail_create(&(struct jail_options){ .children_max = 1 }, &why);
	if (!bench.jail) {
		fprintf(stderr, "probed-bench: %s\n", why.text);
		exit(1);
	}
	begin_count();
}

int main(void)
{
	struct reactor_options options = { 0 };

	must(reactors_start(&options) == 0);
	thread_send_msg(thread_control(), begin, NULL);
	reactors_run();
	/* the child goes with its parent */
	return 0;
}
