/* SPDX-License-Identifier: BSD-2-Clause */
/* world - the clock, the order of moves, and the end of a run. */
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host.h"
#include "ledger.h"
#include "live.h"
#include "net.h"
#include "base/observe/trace/points.gen.h"
#include "fathom/trace/trace.h"
#include "operator.h"
#include "base/reactor/reactor.h"
#include "sim.h"

enum { CPUS = 2, IO_ENTRIES = 1 << 17, POOL_BYTES = 16 << 20, END_SEC = 900 };

struct sim sim;
static uint64_t trace_hash;

void sim_fail(const char *format, ...)
{
	va_list args;

	fflush(stdout);
	fprintf(stderr, "seed %lu, step %lu, %lu us: ", (unsigned long)sim.seed, (unsigned long)sim.step,
		(unsigned long)(sim.now / NS_PER_US));
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\n");
	fflush(stderr);
	abort();
}

void sim_say(const char *format, ...)
{
	va_list args;

	if (!sim.verbose)
		return;
	printf("%10lu us  ", (unsigned long)(sim.now / NS_PER_US));
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
}

/* ---- moves ---- */

static void pass_time(void)
{
	uint64_t most = sim.calm ? 50 * NS_PER_US : 3 * NS_PER_US;

	if (sim_chance(1, 3000))
		sim.now += sim_below(300) * NS_PER_MS;
	sim.now = (sim.now + sim_below(most)) & ~TICK_SHARED;
}

static void step_reactors(void)
{
	uint64_t which = sim_below(CPUS + 2);

	if (which <= CPUS)
		(void)reactor_step(which < CPUS ? reactor_at((unsigned int)which) : reactor_control(), sim.now);
	else
		for (unsigned int i = 0; i <= CPUS; i++)
			(void)reactor_step(i < CPUS ? reactor_at(i) : reactor_control(), sim.now);
}

void world_step(void)
{
	sim.step++;
	pass_time();
	live_pace();
	net_step();
	step_reactors();
	host_step(&hosts[sim_below(host_count)]);
	if (sim.hangs)
		hang_step();
}

static void disturb(void)
{
	struct host *host = &hosts[sim_below(host_count)];
	struct queue *queue = &host->queues[sim_below(QUEUES_MAX)];

	if (sim.chops && queue->wire && sim_chance(1, 200))
		wire_stall(queue->wire, sim_below(500) * NS_PER_US);
	if (sim.slow_disks && sim_disks[0] && sim_chance(1, 1000))
		disk_hang(sim_disks[0], sim_below(1000) * NS_PER_US);
	if (sim.operates)
		operator_step();
}

void world_until(bool (*done)(void), uint64_t seconds, const char *what)
{
	uint64_t end = sim.now + seconds * NS_PER_SEC;

	for (uint64_t steps = 0; !done(); steps++) {
		world_step();
		/* long waits are for timers */
		if (steps > 3000)
			sim.now += sim_below(steps > 20000 ? 50 : 2) * NS_PER_MS;
		if (sim.now >= end)
			hosts_describe();
		sim_check(sim.now < end, "%s does not happen within %lu s", what, (unsigned long)seconds);
	}
}

static void until(bool (*done)(void), const char *what)
{
	world_until(done, END_SEC, what);
}

/* ---- the start ---- */

static void choose(void)
{
	sim.chops = sim_chance(3, 4);
	sim.slow_disks = sim_chance(3, 4);
	sim.disks_fail = sim_chance(1, 4);
	sim.evil = sim_chance(2, 3);
	sim.operates = sim_chance(1, 3);
	sim.digests = sim_chance(1, 2);
	sim.hangs = sim_chance(1, 3) || sim.always_hangs;
	ns_changes[2] = sim.operates || sim.hangs;
	host_count = (unsigned int)sim_between(1, HOSTS_USUAL);
	for (unsigned int i = 0; i < host_count; i++) {
		/* the first host is always good, so that harm to a good host is detected */
		host_init(&hosts[i], i,
			  i > 0 && sim.evil ? (enum character)sim_below(CHARACTER_EVIL_COUNT) : CHARACTER_GOOD);
		if (sim.operates && i > 1 && sim_chance(1, 2))
			hosts[i].service = "4421";
		else if (sim.operates && i > 0 && sim_chance(1, 2))
			hosts[i].victim = true;
		sim_say("host %u: character %d%s", i, (int)hosts[i].character, hosts[i].victim ? ", a victim" : "");
	}
	if (sim.hangs)
		hang_choose(host_count);
}

static void open_trace(void)
{
	struct trace_options options = { .schema = &fathom_schema,
					 .name = "sim",
					 .version = "1",
					 .thread_count = 1,
					 .io_entries = IO_ENTRIES,
					 .pool_bytes = POOL_BYTES,
					 .in_memory = true,
					 .in_memory_tick = sim.now };
	struct fathom_fault why;

	sim_check(trace_open(&options, &why) == 0, "trace: %s", why.text);
	sim_check(trace_thread_attach("sim", -1, true) == 0, "trace: no ring");
	sim_check(trace_mask_set("all", &why) == 0, "trace: %s", why.text);
	if (sim.real_time)
		live_begin();
}

static void start_reactors(void)
{
	struct reactor_options options = { .simulated = true, .simulated_tick = sim.now };

	for (unsigned int i = 0; i < CPUS; i++)
		cpuset_add(&options.cpus, i);
	sim_check(reactors_start(&options) == 0, "the reactors do not start");
}

/* ---- the end ---- */

static bool hosts_are_away(void)
{
	for (unsigned int i = 0; i < host_count; i++) {
		if (!host_is_away(&hosts[i]))
			return false;
	}
	return true;
}

static bool sockets_are_closed(void)
{
	return net_target_sockets() == 0;
}

static bool disks_are_idle(void)
{
	for (unsigned int i = 0; i < NAMESPACES; i++) {
		if (sim_disks[i] && disk_under_way(sim_disks[i]))
			return false;
	}
	return true;
}

static void end_in_order(void)
{
	if (sim.hangs) {
		sim.calm = true;
		until(operator_settle, "the operator's end");
		hang_check_progress();
		hang_wake_and_check_shares();
	}
	for (unsigned int i = 0; i < host_count; i++)
		hosts[i].ends = true;
	sim.calm = true;
	until(operator_settle, "the operator's end");
	until(hosts_are_away, "the hosts' leaving");
	until(sockets_are_closed, "the closing of all connections");
	until(operator_check_empty, "the end of all controllers and queue pairs");
	until(disks_are_idle, "the end of all I/O");
	for (unsigned int i = 0; i < NAMESPACES; i++)
		io_check_disk(i);
}

/* The target stops while all hosts work. */
static void end_at_once(void)
{
	for (unsigned int i = 0; i < host_count; i++) {
		hosts[i].ends = true;
		hosts[i].forbidden = true;
	}
	sim.woken = true;
}

static const char *trace_path_wanted;

static void write_trace(void)
{
	size_t bytes;
	const void *memory = trace_memory(&bytes);
	FILE *file = trace_path_wanted && memory ? fopen(trace_path_wanted, "w") : NULL;

	if (file && (fwrite(memory, 1, bytes, file) != bytes || fclose(file) != 0))
		fprintf(stderr, "cannot write %s\n", trace_path_wanted);
}

/* After a failed must() keep the trace. */
static void aborted(int signal_number)
{
	signal(signal_number, SIG_DFL);
	write_trace();
	raise(signal_number);
}

static void hash_trace(void)
{
	size_t bytes;
	const uint64_t *words = trace_memory(&bytes);

	trace_hash = 0xcbf29ce484222325ull;
	for (size_t i = 0; i < bytes / 8; i++)
		trace_hash = (trace_hash ^ words[i]) * 0x100000001b3ull + (trace_hash >> 29);
}

uint64_t world_trace_hash(void)
{
	return trace_hash;
}

void world_run(const char *trace_path)
{
	bool at_once;

	trace_path_wanted = trace_path;
	signal(SIGABRT, aborted);
	random_init(&sim.random, sim.seed);
	sim.now = NS_PER_SEC;
	sim.calm = true; /* during the set-up */
	clock_fix_tick_rate(NS_PER_SEC);
	open_trace();
	start_reactors();
	choose();
	at_once = sim_chance(1, 5);
	operator_set_up();
	for (unsigned int i = 0; !operator_is_ready(); i++) {
		sim.now += 1000;
		step_reactors();
		sim_check(i < 100000, "set-up does not end");
	}
	sim.calm = false;
	while (sim.step < sim.steps) {
		world_step();
		disturb();
	}
	if (at_once)
		end_at_once();
	else
		end_in_order();
	operator_take_down();
	sim.calm = true;
	until(operator_is_done, "the target's stop");
	until(hosts_are_away, "the hosts' leaving");
	sim_check(net_target_sockets() == 0, "%u sockets are left", net_target_sockets());
	for (unsigned int i = 0; i < NAMESPACES; i++) {
		if (sim_disks[i])
			disk_free(sim_disks[i]);
	}
	reactors_stop();
	check_trace();
	hash_trace();
	write_trace();
	live_end();
	trace_thread_detach();
	trace_close();
}
