/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hang - devices and hosts that hang or are slow until `sim.woken`, and the oracles that no other host is affected.
 *
 * Namespace HUNG_NS is on a disk that never completes some or all of its I/O. Hosts of four characters hold resources:
 * commands on that disk, data that they read very slowly, data that they never send, connections and controllers that they
 * never use. Meanwhile two oracles must hold, with a good network and good other disks:
 *
 *   liveness   each good host gets its commands answered, joins and leaves; each change by the operator ends
 *   fairness   a good host that always requests large reads gets at least the n-th part of its rate alone, with n hosts
 *              connected; half of that is accepted, since the simulator gives turns at random
 *
 * Both count moves of the world, not time, so that no timer that ends a bad connection after seconds can help. Only a timer
 * can end a connection or controller that is never used: it must be gone after SQUAT_SEC. In half of the seeds connections
 * are scarce, in the others controllers; a host within its share of them is never refused.
 */
#include <string.h>

#include "host.h"
#include "data/nvme/fabrics.h"
#include "operator.h"
#include "sim.h"

enum {
	BAD_HOSTS_MIN = 1,
	SQUATS_MAX = 200,	/* of a host at a time; more than the target allows (operator.c) */
	SQUATS_EVER_MAX = 1000, /* limit of connections in the simulator */
	SQUAT_SEC = 40,		/* the target ends silent connections and unused controllers before this */
	PROGRESS_COMMANDS = 20,
	PROGRESS_STEPS = 20000,
	SHARE_STEPS_MIN = 1500,
	SHARE_STEPS_MAX = 12000,
	SHARE_BYTES = 16 << 20, /* by the slowest host: enough for a comparison */
	HELD_A_TURN = 16,	/* commands that a hanging host adds in a turn */
	READS_A_TURN = 6,	/* large reads of a greedy host on each queue; they are answered before its next turn */
};

static struct squat {
	struct wire *wire; /* NULL: not connected */
	uint64_t since;
} squats[HOSTS_MAX][SQUATS_MAX];
static unsigned int squat_count; /* opened so far */

bool hang_is_bad(const struct host *host)
{
	return host->character >= CHARACTER_EVIL_COUNT;
}

static bool is_good(const struct host *host)
{
	return host->character == CHARACTER_GOOD && !host->victim && !host->forbidden && strcmp(host->service, "4420") == 0;
}

void hang_choose(unsigned int first)
{
	unsigned int count = (unsigned int)sim_between(BAD_HOSTS_MIN, HOSTS_MAX - first);

	for (unsigned int i = first; i < first + count; i++) {
		enum character character = (enum character)sim_between(CHARACTER_EVIL_COUNT, CHARACTER_COUNT - 1);

		host_init(&hosts[i], i, character);
		sim_say("host %u: character %d, for ever", i, (int)character);
	}
	host_count = first + count;
}

/* ---- actions of these hosts ---- */

/* Send an ICReq and a valid Connect to an admin queue, or nothing. Responses are not read. */
static struct wire *open_squat(struct host *host)
{
	struct wire *wire = wire_connect(host->index, "10.0.0.1", host->service);
	struct pdu_terms terms = { .data_align = pdu_align(0) };
	struct nvme_connect connect = { .opc = NVME_OPCODE_FABRICS,
					.flags = NVME_CMD_PSDT_SGL,
					.fctype = NVME_FABRICS_CONNECT,
					.sqsize = 31,
					.kato = 120000 };
	struct nvme_connect_data data = { .cntlid = NVME_CNTLID_DYNAMIC };
	uint8_t bytes[PDU_PUT_BYTES_MAX];

	if (sim_chance(1, 2))
		return wire;
	wire_write(wire, bytes, pdu_put_icreq(bytes, 0, false, false, 0));
	connect.sgl.id = NVME_SGL_ID_DATA_BLOCK_OFFSET;
	connect.sgl.length = sizeof(data);
	memcpy(data.hostid, host->id, sizeof(data.hostid));
	snprintf(data.subnqn, sizeof(data.subnqn), "%s", host->subnqn);
	snprintf(data.hostnqn, sizeof(data.hostnqn), "%s", host->nqn);
	wire_write(wire, bytes,
		   pdu_put_capsule_cmd(&terms, bytes, (const struct nvme_command *)(const void *)&connect, sizeof(data)));
	wire_write(wire, &data, sizeof(data));
	return wire;
}

static void leave_squats(struct host *host)
{
	for (unsigned int i = 0; i < SQUATS_MAX; i++) {
		wire_free(squats[host->index][i].wire);
		squats[host->index][i].wire = NULL;
	}
}

void hang_step(void)
{
	struct host *host = &hosts[sim_below(host_count)];
	struct squat *squat = &squats[host->index][sim_below(SQUATS_MAX)];

	if (host->character != CHARACTER_SQUATTER)
		return;
	if (sim.woken) {
		leave_squats(host);
	} else if (squat->wire && wire_target_gone(squat->wire)) {
		wire_free(squat->wire);
		squat->wire = NULL;
	} else if (!squat->wire && squat_count < SQUATS_EVER_MAX && sim_chance(1, 8)) {
		squat_count++;
		*squat = (struct squat){ .wire = open_squat(host), .since = sim.now };
	}
}

/* Is there a connection opened before `end` that the target still has? */
static bool any_squat(uint64_t end)
{
	for (unsigned int i = 0; i < host_count; i++) {
		for (unsigned int s = 0; s < SQUATS_MAX; s++) {
			const struct squat *squat = &squats[i][s];

			if (squat->wire && squat->since < end && !wire_target_gone(squat->wire))
				return true;
		}
	}
	return false;
}

bool hang_excuses(const struct queue *queue, const struct cmd *cmd)
{
	return !sim.woken && (cmd->ns == HUNG_NS || hang_is_bad(queue->host));
}

/* Hosts that hold a share do not leave; the target may end their connections. */
static bool hold_share(struct host *host)
{
	struct queue *queue = &host->queues[sim_between(1, host->queue_count - 1)];
	unsigned int ns = host->character == CHARACTER_STUCK ? HUNG_NS : (unsigned int)sim_below(2);
	bool write = host->character == CHARACTER_WITHHOLDER || (host->character == CHARACTER_STUCK && sim_chance(1, 2));

	for (unsigned int i = 0; i < HELD_A_TURN; i++) {
		if (!io_send_large(queue, ns, write))
			break;
	}
	/* a host that reconnects leaves its hung commands */
	if (host->character == CHARACTER_STUCK && sim_chance(1, 4000))
		host_doom(host, "it reconnects");
	return true;
}

bool hang_work(struct host *host)
{
	if (hang_is_bad(host) && !sim.woken)
		return host->character == CHARACTER_SQUATTER || hold_share(host);
	if (!host->greedy)
		return false;
	for (unsigned int qid = 1; qid < host->queue_count; qid++) {
		for (unsigned int i = 0; i < READS_A_TURN; i++) {
			if (!io_send_large(&host->queues[qid], (unsigned int)sim_below(2), false))
				break;
		}
	}
	return true;
}

/* ---- liveness ---- */

static void check_answers(void)
{
	uint64_t before[HOSTS_MAX];
	unsigned int late = host_count, steps;

	for (unsigned int i = 0; i < host_count; i++)
		before[i] = hosts[i].answered;
	for (steps = 0; late < host_count || steps == 0; steps++) {
		world_step();
		for (late = 0; late < host_count; late++) {
			if (is_good(&hosts[late]) && hosts[late].answered < before[late] + PROGRESS_COMMANDS)
				break;
		}
		if (steps >= PROGRESS_STEPS)
			hosts_describe();
		sim_check(steps < PROGRESS_STEPS,
			  "liveness: host %u has %lu commands answered in %u moves while others hang", late,
			  (unsigned long)(hosts[late].answered - before[late]), steps);
	}
	sim_say("each good host has %d commands answered in %u moves", PROGRESS_COMMANDS, steps);
}

/*
 * Check that the target closes unused connections and controllers. Time advances slowly enough for the keep-alives of
 * others.
 */
static void check_squats(void)
{
	uint64_t since = sim.now;

	while (any_squat(since)) {
		world_step();
		sim.now += sim_below(16) * NS_PER_MS;
		sim_check(sim.now < since + SQUAT_SEC * NS_PER_SEC,
			  "liveness: connections that wait for a Connect, or for CC.EN, are still there after %d s",
			  SQUAT_SEC);
	}
}

void hang_check_progress(void)
{
	check_answers();
	check_squats();
	operator_exercise(check_answers);
	check_answers();
}

/* ---- fairness ---- */

static void be_greedy(bool greedy)
{
	for (unsigned int i = 0; i < host_count; i++)
		hosts[i].greedy = greedy && is_good(&hosts[i]);
}

static bool greedy_are_running(void)
{
	for (unsigned int i = 0; i < host_count; i++) {
		if (hosts[i].greedy && hosts[i].state != HOST_RUNNING)
			return false;
	}
	return true;
}

static bool bad_hosts_are_away(void)
{
	for (unsigned int i = 0; i < host_count; i++) {
		if (hang_is_bad(&hosts[i]) && !host_is_away(&hosts[i]))
			return false;
	}
	return !any_squat(UINT64_MAX);
}

static uint64_t least_bytes(const uint64_t before[HOSTS_MAX])
{
	uint64_t least = UINT64_MAX;

	for (unsigned int i = 0; i < host_count; i++) {
		if (hosts[i].greedy)
			least = min_u64(least, hosts[i].bytes_done - before[i]);
	}
	return least;
}

/* Measure for `steps` moves; 0: until each greedy host has SHARE_BYTES, up to a limit. Return the number of moves. */
static unsigned int measure_bytes(unsigned int steps, uint64_t bytes_ret[HOSTS_MAX])
{
	uint64_t before[HOSTS_MAX];
	unsigned int step = 0;

	for (unsigned int i = 0; i < host_count; i++)
		before[i] = hosts[i].bytes_done;
	while (steps ? step < steps
		     : step < SHARE_STEPS_MIN || (step < SHARE_STEPS_MAX && least_bytes(before) < SHARE_BYTES)) {
		world_step();
		step++;
	}
	for (unsigned int i = 0; i < host_count; i++)
		bytes_ret[i] = hosts[i].bytes_done - before[i];
	return step;
}

void hang_wake_and_check_shares(void)
{
	uint64_t among[HOSTS_MAX], alone[HOSTS_MAX];
	unsigned int steps;

	be_greedy(true);
	world_until(greedy_are_running, 10, "all good hosts' joining while others hang");
	steps = measure_bytes(0, among);
	sim.woken = true;
	for (unsigned int i = 0; i < host_count; i++)
		hosts[i].ends = hang_is_bad(&hosts[i]);
	world_until(bad_hosts_are_away, 900, "the leaving of those that hung");
	world_until(greedy_are_running, 10, "all good hosts' joining");
	(void)measure_bytes(steps, alone); /* the same number of moves */
	for (unsigned int i = 0; i < host_count; i++) {
		sim_say("host %u: %lu bytes among those that hang, %lu without them", i, (unsigned long)among[i],
			(unsigned long)alone[i]);
		sim_check(!hosts[i].greedy || among[i] * host_count * 2 >= alone[i],
			  "fairness: host %u of %u has %lu bytes while others hang, %lu without them", i, host_count,
			  (unsigned long)among[i], (unsigned long)alone[i]);
	}
	be_greedy(false);
}
