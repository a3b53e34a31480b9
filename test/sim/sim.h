/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sim - the real target, connections, block device core and reactors on a simulated network with simulated disks, hosts
 * and an operator, all driven by one seed.
 *
 *   world.c     the clock, the scheduler and the end of a run
 *   net.c       sockets with short reads and writes, stalls and resets
 *   disk.c      a block device with delays and errors
 *   ledger.c    the data that each block may contain
 *   host.c      the PDUs and queues of an NVMe/TCP host
 *   life.c      the states of a host from Connect to disconnection
 *   io.c        the host's commands and the checks of their completions
 *   evil.c      invalid PDUs, commands and Connects
 *   operator.c  set-up, changes during I/O, and tear-down
 *   check.c     the checks of the trace
 *   live.c      a trace file in /dev/shm and real time, for programs that watch
 *   hang.c      devices and hosts that hang or slow down until `sim.woken`, and the check that no other is affected
 *
 * One pthread, no clock but `sim.now`, no randomness but `sim.random`: the same seed gives the same trace, byte for byte.
 */
#ifndef SIM_H
#define SIM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/must.h"
#include "base/random.h"

struct sim {
	uint64_t seed;
	uint64_t steps; /* of the part with disturbances */
	uint64_t now;	/* simulated ticks, which are nanoseconds */
	uint64_t step;
	struct random random;
	bool verbose;
	bool always_hangs; /* --hangs: devices or hosts hang in each seed */
	bool real_time;	   /* --real-time: other programs can watch this seed */
	bool calm;	   /* no disturbances any longer, except permanent hangs */
	bool woken;	   /* hung devices and hosts work again: the last phase, so that the world can be taken down */
	/* the disturbances of this seed */
	bool chops, slow_disks, disks_fail, evil, operates, digests, hangs;
	/* statistics, for --verbose and to judge a seed */
	uint64_t commands, reads, writes, bytes_checked, connects, term_reqs, deaths, operations, disk_errors;
};
extern struct sim sim;

/* Print the failure and how to repeat it, and end this process with status 1. */
void sim_fail(const char *format, ...) PRINTF_LIKE(1, 2) __attribute__((noreturn));
void sim_say(const char *format, ...) PRINTF_LIKE(1, 2); /* prints if --verbose */

#define sim_check(condition, ...)                                                                                          \
	do {                                                                                                               \
		if (unlikely(!(condition)))                                                                                \
			sim_fail(__VA_ARGS__);                                                                             \
	} while (0)

static inline uint64_t sim_below(uint64_t below)
{
	return random_below(&sim.random, below);
}

/* True with probability `n` / `of`. */
static inline bool sim_chance(uint64_t n, uint64_t of)
{
	return sim_below(of) < n;
}

/* In [low, high]. */
static inline uint64_t sim_between(uint64_t low, uint64_t high)
{
	return low + sim_below(high - low + 1);
}

/* Make a move of the world: time, network, reactors, one host. */
void world_step(void);
/* Step until `done`, at most for `seconds` simulated seconds. Time advances faster after many steps. */
void world_until(bool (*done)(void), uint64_t seconds, const char *what);

/* Run the seed in `sim` to its end; returns only on success. `trace_path` NULL: do not keep the trace. */
void world_run(const char *trace_path);
/* Checksum of the trace, after world_run(). */
uint64_t world_trace_hash(void);

/* Check in the trace that nothing is in progress and that each object made only legal moves. */
void check_trace(void);

#endif
