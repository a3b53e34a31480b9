/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sim - one seed, one world: the real target, connections, block device core and reactors, and around them what they stand
 * in: a network, disks, hosts and an operator, all of the simulator's and all driven by one seed.
 *
 *   world.c   the clock, who moves next, how it ends         net.c     sockets that split, stall and break
 *   disk.c    a block device that is late and fails          ledger.c  what each block may hold
 *   host.c    PDUs and queues of an NVMe/TCP host            life.c    what a host does from Connect to leaving
 *   io.c      the commands it sends and what they may say    evil.c    bad PDUs, bad commands, bad Connects
 *   operator.c  set-up, changes under way, taking all down   check.c   what the trace must say
 *   hang.c    devices and hosts that hang or crawl until `sim.woken`, and what all others must get meanwhile
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
