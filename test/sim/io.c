/* SPDX-License-Identifier: BSD-2-Clause */
/* io - commands of correct hosts, and checks of their results. */
#include <string.h>

#include "host.h"
#include "ledger.h"
#include "data/nvme/feature.h"
#include "data/nvme/identify.h"
#include "data/nvme/log.h"
#include "sim.h"

struct disk *sim_disks[NAMESPACES];
bool ns_changes[NAMESPACES];
bool ns_swallows[NAMESPACES];

/* ---- statuses ---- */

static bool is_media_error(uint16_t status)
{
	return status == NVME_SC_UNRECOVERED_READ_ERROR || status == NVME_SC_WRITE_FAULT ||
	       status == NVME_SC_INTERNAL_ERROR;
}

/* Is this failure of a valid command excused by its surroundings? */
static bool is_excused(const struct queue *queue, const struct cmd *cmd, uint16_t status)
{
	if (!queue_is_well(queue) || cmd->ns == HUNG_NS)
		return true;
	if (cmd->may_abort && status == NVME_SC_ABORTED_BY_REQUEST)
		return true;
	if (cmd->ns < NAMESPACES && queue->qid > 0 && sim.disks_fail && is_media_error(status))
		return true;
	return cmd->ns < NAMESPACES && ns_changes[cmd->ns] &&
	       (status == NVME_SC_INVALID_NAMESPACE || status == NVME_SC_NAMESPACE_NOT_READY ||
		status == NVME_SC_COMMAND_INTERRUPTED);
}

bool io_judge(struct queue *queue, struct cmd *cmd, uint16_t status)
{
	bool right = cmd->status_count == 0 && status == NVME_SC_SUCCESS;

	for (uint32_t i = 0; i < cmd->status_count; i++)
		right |= cmd->statuses[i] == status;
	sim_check(right || is_excused(queue, cmd, status),
		  "host %u queue %u: command 0x%04x (opcode 0x%02x nsid %u, %lu+%lu) ends with 0x%03x, not 0x%03x",
		  queue->host->index, queue->qid, cmd->nvme.cid, cmd->nvme.opc, cmd->nvme.nsid, (unsigned long)cmd->first,
		  (unsigned long)cmd->count, status, cmd->status_count ? cmd->statuses[0] : 0);
	return status == NVME_SC_SUCCESS;
}

/* ---- data ---- */

static void check_block(const struct cmd *cmd, unsigned int ns, uint64_t block, const uint8_t *bytes, uint32_t block_bytes,
			uint64_t since)
{
	const uint64_t *words = (const void *)bytes;
	char text[512];
	uint64_t stamp = 0;
	bool made = ledger_read(ns, block, bytes, block_bytes, &stamp);

	if (made && ledger_allows(ns, block, stamp, since))
		return;
	/* Only on failure: for each block it would take most of the run's time. */
	ledger_describe(ns, block, text, sizeof(text));
	sim_check(made,
		  "ns %u block %lu: no write made these bytes (%016lx %016lx); it may be%s (command 0x%04x, since %lu)",
		  ns + 1, (unsigned long)block, (unsigned long)words[0], (unsigned long)words[1], text,
		  cmd ? cmd->nvme.cid : 0, (unsigned long)since);
	sim_fail("ns %u block %lu holds %lx since %lu; it may be%s", ns + 1, (unsigned long)block, (unsigned long)stamp,
		 (unsigned long)since, text);
}

static void check_read(struct queue *queue, struct cmd *cmd)
{
	uint32_t block_bytes = queue->host->block_bytes[cmd->ns];

	for (uint64_t i = 0; i < cmd->count; i++)
		check_block(cmd, cmd->ns, cmd->first + i, cmd->data + i * block_bytes, block_bytes, cmd->since);
	sim.bytes_checked += cmd->data_bytes;
}

static void check_compare(struct queue *queue, struct cmd *cmd, bool same)
{
	uint32_t block_bytes = queue->host->block_bytes[cmd->ns];
	bool surely_same = true;

	for (uint64_t i = 0; i < cmd->count; i++) {
		uint64_t stamp, sure;

		must(ledger_read(cmd->ns, cmd->first + i, cmd->data + i * block_bytes, block_bytes, &stamp));
		if (same)
			sim_check(ledger_allows(cmd->ns, cmd->first + i, stamp, cmd->since),
				  "Compare says that ns %u block %lu is %lx", cmd->ns + 1, (unsigned long)(cmd->first + i),
				  (unsigned long)stamp);
		surely_same &= ledger_is_sure(cmd->ns, cmd->first + i, cmd->since, &sure) && sure == stamp;
	}
	sim_check(same || !surely_same, "Compare says that ns %u block %lu+%lu differs", cmd->ns + 1,
		  (unsigned long)cmd->first, (unsigned long)cmd->count);
}

/* Check durability after a flush that began at `since`, or after `write` if it is not 0. */
static void check_durable(unsigned int ns, uint64_t first, uint64_t count, uint64_t since, uint64_t write)
{
	struct disk *disk = sim_disks[ns];

	for (uint64_t i = first; disk && i < first + count; i++) {
		char text[512];

		if (write ? ledger_is_as_new(ns, i, disk_durable_stamp(disk, i), write)
			  : ledger_allows(ns, i, disk_durable_stamp(disk, i), since))
			continue;
		ledger_describe(ns, i, text, sizeof(text));
		sim_fail("after %s, a power cut would leave %lx in ns %u block %lu; it may be%s since %lu",
			 write ? "a write with FUA" : "a flush", (unsigned long)disk_durable_stamp(disk, i), ns + 1,
			 (unsigned long)i, text, (unsigned long)since);
	}
}

/* ---- I/O commands ---- */

static void io_done(struct queue *queue, struct cmd *cmd, const struct nvme_completion *cpl)
{
	uint16_t status = nvme_status_from_field(cpl->status);
	bool success = io_judge(queue, cmd, status);

	/* a write to a hung device that is then removed may still be executed when the device wakes */
	if (cmd->write && (success || cmd->ns != HUNG_NS))
		ledger_write_end(cmd->ns, cmd->first, cmd->count, cmd->write, success);
	if (success && cmd->nvme.opc == NVME_NVM_READ)
		check_read(queue, cmd);
	if (cmd->nvme.opc == NVME_NVM_COMPARE && (success || status == NVME_SC_COMPARE_FAILURE))
		check_compare(queue, cmd, success);
	if (success && cmd->nvme.opc == NVME_NVM_FLUSH)
		check_durable(cmd->ns, 0, queue->host->block_count[cmd->ns], cmd->since, 0);
	if (success && cmd->fua && cmd->write)
		check_durable(cmd->ns, cmd->first, cmd->count, 0, cmd->write);
	for (uint32_t i = 0; i < cmd->range_count && (success || cmd->ns != HUNG_NS); i++)
		ledger_write_end(cmd->ns, cmd->ranges[i][0], cmd->ranges[i][1], cmd->ranges[i][2],
				 success && (!sim_disks[cmd->ns] ||
					     bdev_supports(disk_bdev(sim_disks[cmd->ns]), IO_TYPE_UNMAP)));
}

void io_lost(struct cmd *cmd)
{
	/* its candidates stay in progress for ever */
	(void)cmd;
}

static void set_range(struct queue *queue, struct cmd *cmd, uint64_t count_max)
{
	uint64_t blocks = queue->host->block_count[cmd->ns], most = min_u64(count_max, blocks);

	cmd->count = sim_chance(4, 5) ? 1 + sim_below(min_u64(most, 12)) : 1 + sim_below(most);
	/* half of the I/O in a range used by all hosts */
	cmd->first = sim_chance(1, 2) ? sim_below(min_u64(blocks - cmd->count + 1, 20))
				      : sim_below(blocks - cmd->count + 1);
	cmd->nvme.cdw10 = (uint32_t)cmd->first;
	cmd->nvme.cdw11 = (uint32_t)(cmd->first >> 32);
	cmd->nvme.cdw12 = (uint32_t)(cmd->count - 1);
}

static bool fits_capsule(uint32_t bytes)
{
	return bytes <= 4096 && sim_chance(2, 3);
}

static void fill_write(struct queue *queue, struct cmd *cmd, uint32_t block_bytes)
{
	uint64_t stamp = ledger_new_stamp();

	set_range(queue, cmd, IO_BYTES_MAX / block_bytes);
	cmd_data(cmd, CMD_TO_TARGET, (uint32_t)cmd->count * block_bytes, fits_capsule((uint32_t)cmd->count * block_bytes));
	for (uint64_t i = 0; i < cmd->count; i++)
		ledger_fill(cmd->ns, cmd->first + i, stamp, cmd->data + i * block_bytes, block_bytes);
	cmd->fua = sim_chance(1, 20);
	cmd->nvme.cdw12 |= cmd->fua ? NVME_CDW12_FUA : 0;
	if (sim.evil && queue->terms.data_digest && sim_chance(1, 40)) {
		/* the target refuses it, so it is not in the ledger: reads detect if it was written */
		cmd->bad_digest = true;
		cmd_may_end_with(cmd, NVME_SC_TRANSIENT_TRANSPORT_ERROR);
		return;
	}
	if (!ns_swallows[cmd->ns])
		cmd->write = ledger_write_begin(cmd->ns, cmd->first, cmd->count, stamp);
	cmd->fua |= queue->host->write_through;
	sim.writes++;
}

static void fill_compare(struct queue *queue, struct cmd *cmd, uint32_t block_bytes)
{
	uint64_t odd = UINT64_MAX;

	set_range(queue, cmd, IO_BYTES_MAX / block_bytes);
	cmd_data(cmd, CMD_TO_TARGET, (uint32_t)cmd->count * block_bytes, fits_capsule((uint32_t)cmd->count * block_bytes));
	if (sim_chance(1, 2))
		odd = sim_below(cmd->count);
	for (uint64_t i = 0; i < cmd->count; i++) {
		uint64_t stamp = 0;

		/* if the content is unknown, compare with zeroes */
		(void)ledger_is_sure(cmd->ns, cmd->first + i, cmd->since, &stamp);
		ledger_fill(cmd->ns, cmd->first + i, i == odd ? ledger_new_stamp() : stamp, cmd->data + i * block_bytes,
			    block_bytes);
	}
	cmd_may_end_with(cmd, NVME_SC_COMPARE_FAILURE);
	cmd_may_end_with(cmd, NVME_SC_SUCCESS);
}

static void fill_dsm(struct queue *queue, struct cmd *cmd)
{
	uint32_t count = (uint32_t)sim_between(1, ARRAY_COUNT(cmd->ranges));
	struct nvme_dsm_range *ranges;

	cmd_data(cmd, CMD_TO_TARGET, count * (uint32_t)sizeof(*ranges), sim_chance(1, 2));
	ranges = (void *)cmd->data;
	for (uint32_t i = 0; i < count; i++) {
		set_range(queue, cmd, 64);
		ranges[i] = (struct nvme_dsm_range){ .nlb = (uint32_t)cmd->count, .slba = cmd->first };
		cmd->ranges[i][0] = cmd->first;
		cmd->ranges[i][1] = cmd->count;
		cmd->ranges[i][2] = ledger_write_begin(cmd->ns, cmd->first, cmd->count, 0);
	}
	cmd->range_count = count;
	cmd->nvme.cdw10 = count - 1;
	cmd->nvme.cdw11 = NVME_DSM_CDW11_AD;
	cmd->nvme.cdw12 = 0;
}

static uint8_t some_opcode(void)
{
	static const uint8_t opcodes[] = {
		NVME_NVM_READ,	NVME_NVM_READ,	NVME_NVM_READ,	  NVME_NVM_READ,	 NVME_NVM_WRITE,
		NVME_NVM_WRITE, NVME_NVM_WRITE, NVME_NVM_COMPARE, NVME_NVM_WRITE_ZEROES, NVME_NVM_DATASET_MANAGEMENT,
		NVME_NVM_FLUSH
	};

	return opcodes[sim_below(ARRAY_COUNT(opcodes))];
}

/* Return NULL if `queue` is full or `ns` does not exist. */
static struct cmd *io_new(struct queue *queue, unsigned int ns, uint8_t opcode)
{
	struct cmd *cmd;

	if (queue->state != QUEUE_UP || queue->silent || queue->must_end || !queue->host->ns_known[ns])
		return NULL;
	cmd = cmd_new(queue, opcode, io_done);
	if (!cmd)
		return NULL;
	cmd->ns = ns;
	cmd->nvme.nsid = ns + 1;
	cmd->since = ledger_event();
	return cmd;
}

bool io_send_large(struct queue *queue, unsigned int ns, bool write)
{
	struct cmd *cmd = io_new(queue, ns, write ? NVME_NVM_WRITE : NVME_NVM_READ);
	uint32_t block_bytes = queue->host->block_bytes[ns];
	uint64_t stamp = ledger_new_stamp();

	if (!cmd)
		return false;
	cmd->count = min_u64(IO_BYTES_MAX / block_bytes, queue->host->block_count[ns]);
	cmd->nvme.cdw12 = (uint32_t)(cmd->count - 1);
	cmd_data(cmd, write ? CMD_TO_TARGET : CMD_FROM_TARGET, (uint32_t)cmd->count * block_bytes, false);
	if (write) {
		for (uint64_t i = 0; i < cmd->count; i++)
			ledger_fill(ns, i, stamp, cmd->data + i * block_bytes, block_bytes);
		if (!ns_swallows[ns])
			cmd->write = ledger_write_begin(ns, 0, cmd->count, stamp);
		cmd->fua = queue->host->write_through;
	}
	cmd_send(queue, cmd);
	return true;
}

bool io_has_hung(const struct queue *queue)
{
	for (uint32_t i = 0; i < CMDS_MAX; i++) {
		if (queue->cmds[i].used && queue->cmds[i].ns == HUNG_NS)
			return true;
	}
	return false;
}

bool io_send(struct queue *queue)
{
	unsigned int ns = (unsigned int)sim_below(sim.hangs ? NAMESPACES : HUNG_NS);
	uint8_t opcode = some_opcode();
	struct cmd *cmd;
	uint32_t block_bytes = queue->host->block_bytes[ns];

	/* one at a time, on a queue with room for others: hung commands must not block other commands */
	if (ns == HUNG_NS && (queue->entries < 8 || io_has_hung(queue)))
		ns = 0, block_bytes = queue->host->block_bytes[0];
	cmd = io_new(queue, ns, opcode);
	if (!cmd)
		return false;
	switch (opcode) {
	case NVME_NVM_READ:
		set_range(queue, cmd, IO_BYTES_MAX / block_bytes);
		cmd_data(cmd, CMD_FROM_TARGET, (uint32_t)cmd->count * block_bytes, false);
		sim.reads++;
		break;
	case NVME_NVM_WRITE:
		fill_write(queue, cmd, block_bytes);
		break;
	case NVME_NVM_COMPARE:
		fill_compare(queue, cmd, block_bytes);
		break;
	case NVME_NVM_WRITE_ZEROES:
		set_range(queue, cmd, 200);
		cmd->fua = sim_chance(1, 10);
		cmd->nvme.cdw12 |= cmd->fua ? NVME_CDW12_FUA : 0;
		cmd->write = ledger_write_begin(ns, cmd->first, cmd->count, 0);
		cmd->fua |= queue->host->write_through;
		break;
	case NVME_NVM_DATASET_MANAGEMENT:
		fill_dsm(queue, cmd);
		break;
	default:
		break;
	}
	cmd_send(queue, cmd);
	return true;
}

void io_check_disk(unsigned int ns)
{
	struct disk *disk = sim_disks[ns];
	uint64_t since = ledger_event();

	for (uint64_t i = 0; disk && i < disk_bdev(disk)->block_count; i++)
		check_block(NULL, ns, i, disk_block(disk, i), disk_bdev(disk)->block_bytes, since);
}

/* ---- admin commands ---- */

static void admin_done(struct queue *queue, struct cmd *cmd, const struct nvme_completion *cpl)
{
	/* io_judge() fails the run if the status is wrong */
	(void)io_judge(queue, cmd, nvme_status_from_field(cpl->status));
}

static void fill_abort(struct queue *queue, struct cmd *cmd)
{
	struct host *host = queue->host;
	struct queue *other = &host->queues[sim_below(host->queue_count)];
	uint32_t first = (uint32_t)sim_below(CMDS_MAX);

	cmd->nvme.cdw10 = (uint32_t)sim_below(65536) << 16 | other->qid;
	cmd_may_end_with(cmd, NVME_SC_SUCCESS);
	cmd_may_end_with(cmd, NVME_SC_ABORT_LIMIT_EXCEEDED);
	for (uint32_t i = 0; i < CMDS_MAX; i++) {
		struct cmd *victim = &other->cmds[(first + i) % CMDS_MAX];

		if (victim->used && victim->sent && victim->nvme.opc != NVME_OPCODE_FABRICS) {
			victim->may_abort = true;
			victim->aborts++;
			cmd->victim = victim;
			cmd->nvme.cdw10 = (uint32_t)victim->nvme.cid << 16 | other->qid;
			break;
		}
	}
}

static void fill_log(struct cmd *cmd)
{
	static const struct {
		uint8_t page;
		uint32_t bytes;
	} logs[] = { { NVME_LOG_SMART, 512 },
		     { NVME_LOG_ERROR, 64 },
		     { NVME_LOG_FIRMWARE_SLOT, 512 },
		     { NVME_LOG_CHANGED_NS_LIST, 4096 },
		     { NVME_LOG_COMMAND_EFFECTS, 4096 } };
	uint64_t i = sim_below(ARRAY_COUNT(logs));

	cmd_data(cmd, CMD_FROM_TARGET, logs[i].bytes, false);
	cmd->nvme.nsid = NVME_NSID_ALL;
	cmd->nvme.cdw10 = logs[i].page | (logs[i].bytes / 4 - 1) << 16;
}

bool admin_send(struct queue *queue)
{
	static const uint8_t opcodes[] = { NVME_ADMIN_IDENTIFY, NVME_ADMIN_GET_LOG_PAGE, NVME_ADMIN_GET_FEATURES,
					   NVME_ADMIN_ABORT, NVME_ADMIN_KEEP_ALIVE };
	static const uint32_t features[] = { NVME_FEATURE_NUMBER_OF_QUEUES, NVME_FEATURE_ASYNC_EVENT_CONFIG,
					     NVME_FEATURE_KEEP_ALIVE_TIMER };
	uint8_t opcode = opcodes[sim_below(ARRAY_COUNT(opcodes))];
	struct cmd *cmd;

	if (queue->state != QUEUE_UP || queue->silent || queue->must_end)
		return false;
	cmd = cmd_new(queue, opcode, admin_done);
	if (!cmd)
		return false;
	if (opcode == NVME_ADMIN_IDENTIFY) {
		cmd_data(cmd, CMD_FROM_TARGET, NVME_IDENTIFY_BYTES, false);
		cmd->nvme.cdw10 = sim_chance(1, 2) ? NVME_CNS_CONTROLLER : NVME_CNS_ACTIVE_NS_LIST;
	} else if (opcode == NVME_ADMIN_GET_LOG_PAGE) {
		fill_log(cmd);
	} else if (opcode == NVME_ADMIN_GET_FEATURES) {
		cmd->nvme.cdw10 = features[sim_below(ARRAY_COUNT(features))];
	} else if (opcode == NVME_ADMIN_ABORT) {
		fill_abort(queue, cmd);
	}
	cmd_send(queue, cmd);
	return true;
}
