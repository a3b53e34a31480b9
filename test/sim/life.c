/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * life - the states of a simulated host: it connects, does I/O, disconnects and connects again.
 *
 *   AWAY -> JOINING (Connect, enable, identify, events, I/O queues) -> RUNNING -> DRAINING -> LEAVING (shutdown) -> AWAY
 *                                                                         +-> DOOMED (something is broken) -------^
 */
#include <string.h>

#include "host.h"
#include "data/nvme/feature.h"
#include "data/nvme/identify.h"
#include "data/nvme/register.h"
#include "sim.h"

enum {
	ADMIN_ENTRIES = 32,
	AERS = 2,
	PATIENCE_SEC = 180, /* time for the keep-alive time-outs of several silent hosts, one after the other */
	AWAY_US_MAX = 100,
	REFUSALS_MAX = 10 /* each doubles the time until the next attempt */
};

#define SUBSYSTEM_0 "nqn.2024-01.io.fathom:sim0"

void host_init(struct host *host, unsigned int index, enum character character)
{
	memset(host, 0, sizeof(*host));
	host->index = index;
	host->character = character;
	host->subnqn = SUBSYSTEM_0;
	host->service = "4420";
	snprintf(host->nqn, sizeof(host->nqn), "nqn.2024-01.io.fathom:host%u", index);
	memset(host->id, (int)index + 1, sizeof(host->id));
	host->away_until = sim.now + sim_below(20) * NS_PER_US;
}

bool host_is_away(const struct host *host)
{
	return host->state == HOST_AWAY;
}

void hosts_describe(void)
{
	for (unsigned int h = 0; h < host_count; h++) {
		const struct host *host = &hosts[h];

		fprintf(stderr, "host %u: character %d state %d stage %d%s%s\n", h, (int)host->character, (int)host->state,
			host->stage, host->waiting ? " waiting" : "", host->forbidden ? " forbidden" : "");
		for (unsigned int i = 0; i <= QUEUES_MAX; i++) {
			const struct queue *queue = &host->queues[i];

			if (queue->wire)
				fprintf(stderr, "  queue %u: state %d, %u under way%s%s%s%s%s\n", i, (int)queue->state,
					queue->in_flight, queue->may_end ? " may_end" : "",
					queue->must_end ? " must_end" : "", queue->silent ? " silent" : "",
					wire_target_gone(queue->wire) ? " target gone" : "",
					wire_was_reset(queue->wire) ? " reset" : "");
		}
	}
}

static struct queue *admin_of(struct host *host)
{
	return &host->queues[0];
}

static void go(struct host *host, enum host_state state)
{
	sim_say("host %u: state %d", host->index, (int)state);
	host->state = state;
	host->stage = 0;
	host->waiting = false;
}

static void disconnect(struct host *host)
{
	for (unsigned int i = 0; i <= QUEUES_MAX; i++)
		queue_drop(&host->queues[i], sim_chance(1, 2));
	host->away_until = sim.now + sim_below((uint64_t)AWAY_US_MAX << host->refusals) * NS_PER_US;
	go(host, HOST_AWAY);
}

void host_doom(struct host *host, const char *why)
{
	if (host->state == HOST_DOOMED)
		return;
	sim_say("host %u is doomed: %s", host->index, why);
	for (unsigned int i = 0; i <= QUEUES_MAX; i++)
		host->queues[i].may_end = true;
	host->doomed_since = sim.now;
	go(host, HOST_DOOMED);
}

/* ---- joining ---- */

static void next_stage(struct queue *queue, struct cmd *cmd, const struct nvme_completion *cpl)
{
	if (!io_judge(queue, cmd, nvme_status_from_field(cpl->status))) {
		host_doom(queue->host, "a command of joining or leaving failed");
		return;
	}
	queue->host->stage++;
	queue->host->waiting = false;
}

static void admin_connected(struct queue *queue, struct cmd *cmd, const struct nvme_completion *cpl)
{
	uint16_t status = nvme_status_from_field(cpl->status);

	if (status != NVME_SC_SUCCESS) {
		sim_check(queue->host->forbidden, "host %u: Connect is refused with 0x%03x", queue->host->index, status);
		host_doom(queue->host, "it is not let in");
		return;
	}
	queue->host->cntlid = (uint16_t)cpl->cdw0;
	queue->host->refusals = 0;
	queue->state = QUEUE_UP;
	next_stage(queue, cmd, cpl);
}

static void io_connected(struct queue *queue, struct cmd *cmd, const struct nvme_completion *cpl)
{
	uint16_t status = nvme_status_from_field(cpl->status);

	sim_check(status == NVME_SC_SUCCESS || !queue_is_well(queue), "host %u queue %u: Connect is refused with 0x%03x",
		  queue->host->index, queue->qid, status);
	if (status != NVME_SC_SUCCESS) {
		host_doom(queue->host, "an I/O queue is not let in");
		return;
	}
	queue->state = QUEUE_UP;
}

static void identified(struct queue *queue, struct cmd *cmd, const struct nvme_completion *cpl)
{
	const struct nvme_identify_controller *ctrlr = (const void *)cmd->data;

	sim_check(ctrlr->cntlid == queue->host->cntlid, "Identify says controller %u", ctrlr->cntlid);
	sim_check(strcmp(ctrlr->subnqn, queue->host->subnqn) == 0, "Identify says subsystem %.223s", ctrlr->subnqn);
	next_stage(queue, cmd, cpl);
}

static void enabled(struct queue *queue, struct cmd *cmd, const struct nvme_completion *cpl)
{
	if (!io_judge(queue, cmd, nvme_status_from_field(cpl->status)))
		return host_doom(queue->host, "CSTS cannot be read");
	queue->host->waiting = false;
	if (cpl->cdw0 & NVME_CSTS_RDY)
		queue->host->stage++;
}

static void ns_identified(struct queue *queue, struct cmd *cmd, const struct nvme_completion *cpl)
{
	const struct nvme_identify_ns *ns = (const void *)cmd->data;
	struct host *host = queue->host;
	unsigned int index = cmd->nvme.nsid - 1;

	next_stage(queue, cmd, cpl);
	if (host->state != HOST_JOINING || ns->nsze == 0)
		return;
	host->ns_known[index] = true;
	host->block_count[index] = ns->nsze;
	host->block_bytes[index] = 1u << ns->lbaf[ns->flbas & NVME_FLBAS_INDEX_MASK].lbads;
	if (sim_disks[index]) {
		sim_check(host->block_bytes[index] == disk_bdev(sim_disks[index])->block_bytes,
			  "Identify says blocks of %u", host->block_bytes[index]);
		sim_check(ns->nsze == disk_bdev(sim_disks[index])->block_count, "Identify says %lu blocks",
			  (unsigned long)ns->nsze);
	}
}

static void event(struct queue *queue, struct cmd *cmd, const struct nvme_completion *cpl)
{
	uint16_t status = nvme_status_from_field(cpl->status);

	queue->host->aers--;
	sim_check(status == NVME_SC_SUCCESS || cmd->may_abort || !queue_is_well(queue),
		  "host %u: an event request ends with 0x%03x", queue->host->index, status);
}

static struct cmd *admin_new(struct queue *queue, uint8_t opcode, cmd_done_fn done)
{
	struct cmd *cmd = cmd_new(queue, opcode, done);

	must(cmd);
	queue->host->waiting = true;
	return cmd;
}

static void property_set(struct queue *queue, uint32_t property, uint64_t value)
{
	struct cmd *cmd = admin_new(queue, NVME_OPCODE_FABRICS, next_stage);
	struct nvme_property_command *set = (void *)&cmd->nvme;

	set->fctype = NVME_FABRICS_PROPERTY_SET;
	set->ofst = property;
	set->value = value;
	cmd_send(queue, cmd);
}

static void property_get(struct queue *queue, uint32_t property, uint8_t attrib, cmd_done_fn done)
{
	struct cmd *cmd = admin_new(queue, NVME_OPCODE_FABRICS, done);
	struct nvme_property_command *get = (void *)&cmd->nvme;

	get->fctype = NVME_FABRICS_PROPERTY_GET;
	get->attrib = attrib;
	get->ofst = property;
	cmd_send(queue, cmd);
}

static void identify(struct queue *queue, uint8_t cns, uint32_t nsid, cmd_done_fn done)
{
	struct cmd *cmd = admin_new(queue, NVME_ADMIN_IDENTIFY, done);

	cmd_data(cmd, CMD_FROM_TARGET, NVME_IDENTIFY_BYTES, false);
	cmd->nvme.nsid = nsid;
	cmd->nvme.cdw10 = cns;
	if (nsid)
		cmd->ns = nsid - 1;
	cmd_send(queue, cmd);
}

static void set_feature(struct queue *queue, uint32_t feature, uint32_t value)
{
	struct cmd *cmd = admin_new(queue, NVME_ADMIN_SET_FEATURES, next_stage);

	cmd->nvme.cdw10 = feature;
	cmd->nvme.cdw11 = value;
	cmd_send(queue, cmd);
}

static void send_aers(struct queue *queue)
{
	while (queue->host->aers < AERS) {
		struct cmd *cmd = cmd_new(queue, NVME_ADMIN_ASYNC_EVENT_REQUEST, event);

		if (!cmd)
			return;
		cmd->no_answer = true;
		queue->host->aers++;
		cmd_send(queue, cmd);
	}
}

static void open_io_queues(struct host *host)
{
	static const uint16_t entries[] = { 2, 3, 8, 32, 128 };

	for (uint16_t qid = 1; qid < host->queue_count; qid++) {
		bool longest = hang_is_bad(host) && sim_chance(1, 2);

		queue_open(&host->queues[qid], host, qid,
			   entries[longest ? ARRAY_COUNT(entries) - 1 : sim_below(ARRAY_COUNT(entries))]);
		host->queues[qid].connected = io_connected;
	}
}

static bool has_room(const struct queue *queue)
{
	return queue->wire && queue->in_flight < queue->entries - 1u;
}

static void join(struct host *host)
{
	struct queue *admin = admin_of(host);

	if (host->waiting || !has_room(admin))
		return;
	switch (host->stage) {
	case 0:
		property_get(admin, NVME_PROPERTY_CAP, NVME_PROPERTY_8_BYTES, next_stage);
		host->stage = 1;
		break;
	case 2:
		property_set(admin, NVME_PROPERTY_CC, NVME_CC_EN | 6 << NVME_CC_IOSQES_SHIFT | 4 << NVME_CC_IOCQES_SHIFT);
		break;
	case 3:
		property_get(admin, NVME_PROPERTY_CSTS, NVME_PROPERTY_4_BYTES, enabled);
		break;
	case 4:
		identify(admin, NVME_CNS_CONTROLLER, 0, identified);
		break;
	case 5:
		set_feature(admin, NVME_FEATURE_NUMBER_OF_QUEUES, nvme_queues_dword(QUEUES_MAX - 2, QUEUES_MAX - 2));
		break;
	case 6:
		set_feature(admin, NVME_FEATURE_ASYNC_EVENT_CONFIG, NVME_AEC_NS_ATTRIBUTE);
		break;
	case 7:
		host->write_through = sim_chance(1, 6);
		set_feature(admin, NVME_FEATURE_VOLATILE_WRITE_CACHE, !host->write_through);
		break;
	case 8:
	case 9:
	case 10:
	case 11:
		identify(admin, NVME_CNS_NS, (uint32_t)host->stage - 7, ns_identified);
		break;
	case 12:
		send_aers(admin);
		open_io_queues(host);
		host->stage++;
		break;
	case 13:
		for (unsigned int i = 1; i < host->queue_count; i++) {
			if (host->queues[i].state != QUEUE_UP)
				return;
		}
		host->to_do = (uint32_t)sim_between(50, 1500);
		go(host, HOST_RUNNING);
		break;
	default:
		must(!"a stage of joining");
	}
}

static void begin(struct host *host)
{
	static const uint32_t katos[] = { 5000, 12000, 30000 };

	if (sim.now < host->away_until || host->ends || host->barred)
		return;
	host->cntlid = 0;
	host->aers = 0;
	host->kato = katos[sim_below(ARRAY_COUNT(katos))];
	host->keep_alive_due = sim.now + host->kato * NS_PER_MS / 4;
	host->queue_count = (unsigned int)sim_between(2, QUEUES_MAX);
	memset(host->ns_known, 0, sizeof(host->ns_known));
	queue_open(admin_of(host), host, 0, ADMIN_ENTRIES);
	admin_of(host)->connected = admin_connected;
	go(host, HOST_JOINING);
	host->waiting = true;
	host->stage = -1;
}

/* ---- working ---- */

static void kept_alive(struct queue *queue, struct cmd *cmd, const struct nvme_completion *cpl)
{
	/* io_judge() fails the run if the status is wrong */
	(void)io_judge(queue, cmd, nvme_status_from_field(cpl->status));
}

static void keep_alive(struct host *host)
{
	struct queue *admin = admin_of(host);
	struct cmd *cmd;

	if (sim.now < host->keep_alive_due || admin->state != QUEUE_UP || admin->silent || admin->must_end)
		return;
	cmd = cmd_new(admin, NVME_ADMIN_KEEP_ALIVE, kept_alive);
	if (!cmd)
		return;
	cmd_send(admin, cmd);
	host->keep_alive_due = sim.now + host->kato * NS_PER_MS / 4;
}

static bool any_queue_lost(struct host *host)
{
	bool all = host->state != HOST_JOINING || host->stage >= 13;

	for (unsigned int i = 0; i < (all ? host->queue_count : 1); i++) {
		if (!host->queues[i].wire)
			return true;
	}
	return false;
}

static void misbehave(struct host *host)
{
	struct queue *queue = &host->queues[sim_below(host->queue_count)];
	bool keeps_waiting = sim_chance(1, 2); /* until the target's keep-alive time-out */

	switch (host->character) {
	case CHARACTER_LIAR:
		evil_pdu(host);
		host_doom(host, "it has lied");
		break;
	case CHARACTER_VANISHER:
		if (sim_chance(1, 3)) {
			wire_reset(queue->wire);
			queue->may_end = true;
		} else {
			queue_drop(queue, sim_chance(1, 2));
		}
		host_doom(host, "it breaks a connection");
		break;
	case CHARACTER_SILENT:
		for (unsigned int i = 0; i < host->queue_count; i++)
			host->queues[i].silent = true;
		for (unsigned int i = 0; keeps_waiting && i < host->queue_count; i++)
			host->queues[i].must_end = true;
		host_doom(host, "it falls silent");
		break;
	case CHARACTER_RESETTER:
		if (!has_room(admin_of(host)))
			break;
		property_set(admin_of(host), NVME_PROPERTY_CC, sim_chance(1, 2) ? 0 : NVME_CC_EN | 1 << NVME_CC_SHN_SHIFT);
		host_doom(host, "it resets its controller");
		break;
	case CHARACTER_STRANGER:
		evil_stranger(host);
		break;
	default:
		break;
	}
}

static void work(struct host *host)
{
	struct queue *queue = &host->queues[sim_between(1, host->queue_count - 1)];

	if (hang_work(host))
		return;
	if (host->to_do == 0 || (sim.calm && host->ends)) {
		go(host, HOST_DRAINING);
		return;
	}
	if (!sim.calm && host->character != CHARACTER_GOOD && sim_chance(1, 300)) {
		misbehave(host);
		return;
	}
	for (uint64_t burst = sim_chance(1, 20) ? sim_below(64) : 1; burst > 0 && host->to_do > 0; burst--) {
		bool sent = sim.evil && sim_chance(1, 40) ? evil_command(queue) : io_send(queue);

		if (!sent)
			break;
		host->to_do--;
	}
	if (sim_chance(1, 20))
		(void)admin_send(admin_of(host)); /* its queue may be full */
	if (sim_chance(1, 50))
		send_aers(admin_of(host));
}

/* ---- leaving ---- */

static void shut_down(struct queue *queue, struct cmd *cmd, const struct nvme_completion *cpl)
{
	if (!io_judge(queue, cmd, nvme_status_from_field(cpl->status)))
		return host_doom(queue->host, "CSTS cannot be read");
	queue->host->waiting = false;
	if ((cpl->cdw0 >> NVME_CSTS_SHST_SHIFT & NVME_CSTS_SHST_MASK) == NVME_CSTS_SHST_COMPLETE)
		queue->host->stage++;
}

static void drain(struct host *host)
{
	bool hangs = false;

	for (unsigned int i = 0; i < host->queue_count; i++) {
		struct queue *queue = &host->queues[i];

		for (int c = 0; c < CMDS_MAX; c++) {
			struct cmd *cmd = &queue->cmds[c];

			if (!cmd->used || cmd->no_answer || hang_excuses(queue, cmd))
				continue;
			sim_check(!sim.calm || sim.now - cmd->tick < PATIENCE_SEC * NS_PER_SEC,
				  "host %u queue %u: command 0x%04x (opcode 0x%02x) is not answered", host->index, i,
				  cmd->nvme.cid, cmd->nvme.opc);
			return;
		}
	}
	go(host, HOST_LEAVING);
	for (unsigned int i = 1; i < host->queue_count; i++)
		hangs |= io_has_hung(&host->queues[i]);
	/* a shutdown waits seconds for hung commands, and these moves are counted */
	if (hangs || sim_chance(1, 3)) {
		disconnect(host); /* without a shutdown, but orderly */
		return;
	}
	for (unsigned int i = 0; i < host->queue_count; i++)
		host->queues[i].may_end = i > 0;
}

static void leave(struct host *host)
{
	struct queue *admin = admin_of(host);

	if (!admin->wire || host->stage == 2)
		disconnect(host);
	else if (host->waiting)
		return;
	else if (!has_room(admin))
		return;
	else if (host->stage == 0)
		property_set(admin, NVME_PROPERTY_CC,
			     NVME_CC_EN | 6 << NVME_CC_IOSQES_SHIFT | 4 << NVME_CC_IOCQES_SHIFT |
				     NVME_CC_SHN_NORMAL << NVME_CC_SHN_SHIFT);
	else
		property_get(admin, NVME_PROPERTY_CSTS, NVME_PROPERTY_4_BYTES, shut_down);
}

/* Wait for connections that must end, and close the others. */
static void be_doomed(struct host *host)
{
	uint64_t since = sim.now - host->doomed_since;
	bool waits = false;

	for (unsigned int i = 0; i <= QUEUES_MAX; i++) {
		struct queue *queue = &host->queues[i];

		if (queue->silent && queue->wire && wire_target_gone(queue->wire))
			queue_drop(queue, true);
		waits |= queue->wire && queue->must_end;
		sim_check(!queue->wire || !queue->must_end || !sim.calm || since < PATIENCE_SEC * NS_PER_SEC,
			  "host %u queue %u: the target does not end the connection", host->index, i);
	}
	if (waits)
		return;
	/* the target disconnects a silent host after its keep-alive time-out, or the host reconnects before */
	if (since > sim_below(200) * NS_PER_US)
		disconnect(host);
}

void host_step(struct host *host)
{
	for (unsigned int i = 0; i <= QUEUES_MAX; i++)
		queue_step(&host->queues[i]);
	if (host->queues[QUEUES_MAX].state == QUEUE_REFUSED && sim_chance(1, 20))
		queue_drop(&host->queues[QUEUES_MAX], sim_chance(1, 2));
	if (host->state != HOST_AWAY && host->state != HOST_DOOMED && host->state != HOST_LEAVING && any_queue_lost(host)) {
		if (host->state == HOST_JOINING && host->stage < 0 && host->refusals < REFUSALS_MAX)
			host->refusals++;
		host_doom(host, "a connection is lost");
	}
	if (host->state != HOST_AWAY && host->state != HOST_DOOMED)
		keep_alive(host);
	switch (host->state) {
	case HOST_AWAY:
		begin(host);
		break;
	case HOST_JOINING:
		join(host);
		break;
	case HOST_RUNNING:
		work(host);
		break;
	case HOST_DRAINING:
		drain(host);
		break;
	case HOST_LEAVING:
		leave(host);
		break;
	case HOST_DOOMED:
		be_doomed(host);
		break;
	}
}
