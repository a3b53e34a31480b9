/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * io - the commands of I/O queues: Read, Write, Compare, Write Zeroes, Dataset Management, Flush.
 *
 * A command is checked when it is received, so that no data are requested for a command that cannot succeed. Before it
 * executes, the namespace may be removed or replaced, so the block device checks range and length again.
 *
 *   FUA, or write cache disabled by the host: a durable write, if the device has them; else the write, then a flush.
 *   Dataset Management: one unmap after another, in a loop if they end at once. Blocks beyond the limits in Identify are
 *   not processed. That is no error: Command Size Limit Exceeded is for controllers that clear the command's bit in ONCS
 *   (NVM command set 1.0, 3.2.3.1).
 */
#include "data/target/controller/controller.h"
#include "data/target/probes.gen.h"
#include "data/target/request/internal.h"
#include "data/target/request/probes.gen.h"

/* Stages of a command that needs several I/Os. */
enum {
	STAGE_FIRST,
	STAGE_FLUSH,	   /* after the write */
	STAGE_UNMAPPING,   /* bdev_unmap() is being called by the loop */
	STAGE_UNMAP_ENDED, /* the unmap ended inside the call */
	STAGE_UNMAP_AWAY,  /* the unmap is at the device: its completion continues the loop */
};

enum nvme_status nvmf_status_from_io(enum io_status status, enum io_type type)
{
	switch (status) {
	case IO_SUCCESS:
		return NVME_SC_SUCCESS;
	case IO_INVALID:
		return NVME_SC_INVALID_FIELD;
	case IO_UNSUPPORTED:
		return NVME_SC_INVALID_OPCODE;
	case IO_MISCOMPARE:
		return NVME_SC_COMPARE_FAILURE;
	case IO_NO_SPACE:
		return NVME_SC_CAPACITY_EXCEEDED;
	case IO_READ_ONLY:
		return NVME_SC_NAMESPACE_WRITE_PROTECTED;
	case IO_MEDIA_ERROR:
		return type == IO_TYPE_READ || type == IO_TYPE_COMPARE ? NVME_SC_UNRECOVERED_READ_ERROR
								       : NVME_SC_WRITE_FAULT;
	case IO_NOT_PERMITTED:
		return NVME_SC_ACCESS_DENIED;
	case IO_GONE:
		return NVME_SC_NAMESPACE_NOT_READY;
	case IO_ABORTED:
		return NVME_SC_ABORTED_BY_REQUEST;
	case IO_FAILED:
	case IO_TIMED_OUT:
		break;
	}
	return NVME_SC_INTERNAL_ERROR;
}

/* ---- received ---- */

static inline bool in_range(const struct nvmf_group_ns *ns, uint64_t block_index, uint64_t block_count)
{
	return block_index <= ns->block_count && block_count <= ns->block_count - block_index;
}

/* Check a Read, Write or Compare. */
static inline enum nvme_status check_blocks(struct nvmf_req *req, const struct nvmf_group_ns *ns,
					    enum nvmf_transfer transfer, uint32_t capsule_bytes)
{
	uint32_t block_count = nvme_command_blocks(&req->cmd);
	uint64_t bytes = (uint64_t)block_count << ns->block_shift;

	if (unlikely(bytes > req->qpair->io_bytes_max))
		return NVME_SC_INVALID_FIELD;
	if (unlikely(!in_range(ns, nvme_command_slba(&req->cmd), block_count)))
		return NVME_SC_LBA_OUT_OF_RANGE;
	return nvmf_req_check_data(req, transfer, (uint32_t)bytes, capsule_bytes, false);
}

static enum nvme_status check_write(struct nvmf_req *req, const struct nvmf_group_ns *ns, uint32_t capsule_bytes)
{
	if (unlikely(ns->read_only))
		return NVME_SC_NAMESPACE_WRITE_PROTECTED;
	req->inline_done = ns->inline_done;
	return check_blocks(req, ns, NVMF_TRANSFER_H2C, capsule_bytes);
}

static enum nvme_status check_management(struct nvmf_req *req, const struct nvmf_group_ns *ns, uint32_t capsule_bytes)
{
	uint32_t ranges = (req->cmd.cdw10 & NVME_DSM_CDW10_NR_MASK) + 1;

	if (ns->read_only && (req->cmd.cdw11 & NVME_DSM_CDW11_AD))
		return NVME_SC_NAMESPACE_WRITE_PROTECTED;
	req->inline_done = ns->inline_done;
	return nvmf_req_check_data(req, NVMF_TRANSFER_H2C, ranges * (uint32_t)sizeof(struct nvme_dsm_range), capsule_bytes,
				   true);
}

static bool known_opcode(uint8_t opcode)
{
	switch (opcode) {
	case NVME_NVM_FLUSH:
	case NVME_NVM_WRITE:
	case NVME_NVM_READ:
	case NVME_NVM_COMPARE:
	case NVME_NVM_WRITE_ZEROES:
	case NVME_NVM_DATASET_MANAGEMENT:
		return true;
	default:
		return false;
	}
}

enum { MPSMIN_BYTES = 4096 }; /* CAP.MPSMIN is 0 */

/* Whether a Write Zeroes exceeds WZSL in Identify (in pages of CAP.MPSMIN). */
static bool exceeds_zeroes_limit(const struct nvmf_req *req, const struct nvmf_group_ns *ns)
{
	uint8_t wzsl = req->qpair->subsystem->subsystem->options.wzsl;

	/* NLB has 16 bits, so no command can exceed a limit of 2^32 pages */
	return wzsl != 0 && wzsl < 32 &&
	       (uint64_t)nvme_command_blocks(&req->cmd) << ns->block_shift > (uint64_t)MPSMIN_BYTES << wzsl;
}

enum nvme_status nvmf_io_received(struct nvmf_req *req, uint32_t capsule_bytes)
{
	const struct nvmf_group_ns *ns = nvmf_group_ns(req->qpair->subsystem, req->cmd.nsid);

	if (unlikely(!ns))
		return known_opcode(req->cmd.opc) ? NVME_SC_INVALID_NAMESPACE : NVME_SC_INVALID_OPCODE;
	switch (req->cmd.opc) {
	case NVME_NVM_READ:
		req->reads_zeroes = ns->reads_zeroes;
		return check_blocks(req, ns, NVMF_TRANSFER_C2H, capsule_bytes);
	case NVME_NVM_WRITE:
		return check_write(req, ns, capsule_bytes);
	case NVME_NVM_COMPARE:
		req->inline_done = ns->inline_done;
		return check_blocks(req, ns, NVMF_TRANSFER_H2C, capsule_bytes);
	case NVME_NVM_WRITE_ZEROES:
		if (ns->read_only)
			return NVME_SC_NAMESPACE_WRITE_PROTECTED;
		if (!in_range(ns, nvme_command_slba(&req->cmd), nvme_command_blocks(&req->cmd)))
			return NVME_SC_LBA_OUT_OF_RANGE;
		if (exceeds_zeroes_limit(req, ns))
			return NVME_SC_INVALID_FIELD;
		return NVME_SC_SUCCESS;
	case NVME_NVM_DATASET_MANAGEMENT:
		return check_management(req, ns, capsule_bytes);
	case NVME_NVM_FLUSH:
		return NVME_SC_SUCCESS;
	default:
		return NVME_SC_INVALID_OPCODE;
	}
}

/* ---- done ---- */

static COLD void note_io_error(struct nvmf_req *req, enum io_status status)
{
	if (status == IO_MEDIA_ERROR || status == IO_FAILED)
		req->qpair->subsystem->counters.media_errors++;
}

static bool is_beyond_end(const struct bdev_io *io)
{
	uint64_t block_count = bdev_block_count(bdev_channel_bdev(io->channel));

	return io->block_index > block_count || io->block_count > block_count - io->block_index;
}

static inline void end_io(struct nvmf_req *req, enum io_status status)
{
	uint64_t now = reactor_tick() | TICK_SHARED;

	req->qpair->group->completed_io++;
	if (likely(status == IO_SUCCESS)) {
		nvmf_req_complete(req, NVME_SC_SUCCESS, now);
		return;
	}
	note_io_error(req, status);
	/* the device became shorter, and this group learns it only when its subsystem runs again */
	if (status == IO_INVALID && is_beyond_end(&req->io))
		nvmf_req_complete(req, NVME_SC_LBA_OUT_OF_RANGE, now);
	else
		nvmf_req_complete(req, nvmf_status_from_io(status, req->io.type), now);
}

static void io_done(struct bdev_io *io, enum io_status status)
{
	struct nvmf_req *req = container_of(io, struct nvmf_req, io);

	if (unlikely(req->lent))
		nvmf_req_returned(req, reactor_now());
	else
		end_io(req, status);
}

/* Completion of a write that must be durable: submit one flush after the write. */
static void durable_write_done(struct bdev_io *io, enum io_status status)
{
	struct nvmf_req *req = container_of(io, struct nvmf_req, io);

	if (req->lent) {
		nvmf_req_returned(req, reactor_now());
		return;
	}
	if (status != IO_SUCCESS || req->stage == STAGE_FLUSH) {
		end_io(req, status);
		return;
	}
	must(req->stage == STAGE_FIRST);
	req->stage = STAGE_FLUSH;
	bdev_flush(io, req->channel, reactor_tick() | TICK_SHARED, durable_write_done);
}

static inline bool must_be_durable(const struct nvmf_req *req, const struct nvmf_group_ns *ns)
{
	return ns->write_cache && ((req->cmd.cdw12 & NVME_CDW12_FUA) || req->qpair->write_through);
}

/* ---- Dataset Management ---- */

static void dsm_done(struct bdev_io *io, enum io_status status);

/* How many of the `blocks` of range `index` are processed, if the ranges before it have `before` blocks. */
static uint32_t within_limits(const struct nvmf_dsm_limits *limits, uint32_t index, uint64_t before, uint32_t blocks)
{
	if (limits->ranges == 0)
		return blocks;
	if (index >= limits->ranges || before >= limits->blocks)
		return 0;
	blocks = (uint32_t)min_u64(blocks, limits->range_blocks);
	return (uint32_t)min_u64(blocks, limits->blocks - before);
}

static void dsm_go_on(struct nvmf_req *req, uint64_t now)
{
	const struct nvmf_dsm_limits limits = nvmf_subsystem_dsm_limits(req->qpair->subsystem->subsystem);
	uint32_t ranges = (req->cmd.cdw10 & NVME_DSM_CDW10_NR_MASK) + 1;
	struct nvme_dsm_range range;
	uint32_t blocks;

	must(req->counted);
	must(req->ns); /* it stays while it has commands, so limits and channel cannot change between unmaps */
	must(req->range_index <= ranges);
	while (req->range_index < ranges) {
		nvmf_req_get_data(req, req->range_index * sizeof(range), &range, sizeof(range));
		blocks = within_limits(&limits, req->range_index, req->range_blocks, range.nlb);
		req->range_index++;
		req->range_blocks += range.nlb;
		if (blocks == 0)
			continue;
		must(blocks <= range.nlb);
		req->stage = STAGE_UNMAPPING;
		bdev_unmap(&req->io, req->channel, range.slba, blocks, now, dsm_done);
		if (req->stage == STAGE_UNMAPPING) {
			req->stage = STAGE_UNMAP_AWAY;
			return;
		}
		if (req->io.status != IO_SUCCESS) {
			end_io(req, req->io.status);
			return;
		}
	}
	end_io(req, IO_SUCCESS);
}

static void dsm_done(struct bdev_io *io, enum io_status status)
{
	struct nvmf_req *req = container_of(io, struct nvmf_req, io);

	must(req->stage == STAGE_UNMAPPING || req->stage == STAGE_UNMAP_AWAY);
	if (req->stage == STAGE_UNMAPPING)
		req->stage = STAGE_UNMAP_ENDED;
	else if (req->lent)
		nvmf_req_returned(req, reactor_now());
	else if (status == IO_SUCCESS)
		dsm_go_on(req, reactor_tick() | TICK_SHARED);
	else
		end_io(req, status);
}

static void dsm_execute(struct nvmf_req *req, const struct nvmf_group_ns *ns, uint64_t now)
{
	const struct nvmf_dsm_limits limits = nvmf_subsystem_dsm_limits(req->qpair->subsystem->subsystem);
	uint32_t ranges = (req->cmd.cdw10 & NVME_DSM_CDW10_NR_MASK) + 1;
	uint64_t asked = 0, processed = 0;
	struct nvme_dsm_range range;

	must(req->data_bytes >= ranges * sizeof(range));
	for (uint32_t i = 0; i < ranges; i++) {
		nvmf_req_get_data(req, i * sizeof(range), &range, sizeof(range));
		if (!in_range(ns, range.slba, range.nlb)) {
			nvmf_req_complete(req, NVME_SC_LBA_OUT_OF_RANGE, now);
			return;
		}
		processed += within_limits(&limits, i, asked, range.nlb);
		asked += range.nlb;
	}
	/* Attributes other than deallocate are hints, which are ignored; so is deallocate if the device has no unmap. */
	if (!(req->cmd.cdw11 & NVME_DSM_CDW11_AD) || !bdev_supports(bdev_channel_bdev(ns->channel), IO_TYPE_UNMAP)) {
		end_io(req, IO_SUCCESS);
		return;
	}
	if (processed < asked)
		probe_nvmf_dsm_beyond_limits(now, req->qpair, req->cmd.cid, req->cmd.nsid, asked, processed);
	req->range_index = 0;
	req->range_blocks = 0;
	dsm_go_on(req, now);
}

/* ---- executed ---- */

static inline void execute_write(struct nvmf_req *req, struct nvmf_group_ns *ns, uint64_t now)
{
	struct nvmf_counters *counters = &req->qpair->subsystem->counters;
	bool is_durable = must_be_durable(req, ns);

	counters->write_commands++;
	counters->written_bytes += req->data_bytes;
	req->io.is_durable = is_durable && ns->durable_writes;
	bdev_write(&req->io, ns->channel, req->iov, req->iov_count, nvme_command_slba(&req->cmd),
		   nvme_command_blocks(&req->cmd), now,
		   unlikely(is_durable && !ns->durable_writes) ? durable_write_done : io_done);
}

static inline void execute_read(struct nvmf_req *req, struct nvmf_group_ns *ns, uint64_t now)
{
	struct nvmf_counters *counters = &req->qpair->subsystem->counters;

	counters->read_commands++;
	counters->read_bytes += req->data_bytes;
	bdev_read(&req->io, ns->channel, req->iov, req->iov_count, nvme_command_slba(&req->cmd),
		  nvme_command_blocks(&req->cmd), now, io_done);
}

/* Unmapped blocks read as zeroes, as Identify says. A device without unmap ignores Deallocate. */
static void execute_zeroes(struct nvmf_req *req, struct nvmf_group_ns *ns, uint64_t now)
{
	bdev_done_fn done = must_be_durable(req, ns) ? durable_write_done : io_done;
	uint64_t first = nvme_command_slba(&req->cmd);
	uint32_t blocks = nvme_command_blocks(&req->cmd);

	if ((req->cmd.cdw12 & NVME_CDW12_DEAC) && bdev_supports(bdev_channel_bdev(ns->channel), IO_TYPE_UNMAP))
		bdev_unmap(&req->io, ns->channel, first, blocks, now, done);
	else
		bdev_write_zeroes(&req->io, ns->channel, first, blocks, now, done);
}

static void execute_other(struct nvmf_req *req, struct nvmf_group_ns *ns, uint64_t now)
{
	switch (req->cmd.opc) {
	case NVME_NVM_FLUSH:
		bdev_flush(&req->io, ns->channel, now, io_done);
		return;
	case NVME_NVM_COMPARE:
		req->qpair->subsystem->counters.read_commands++;
		req->qpair->subsystem->counters.read_bytes += req->data_bytes;
		bdev_compare(&req->io, ns->channel, req->iov, req->iov_count, nvme_command_slba(&req->cmd),
			     nvme_command_blocks(&req->cmd), now, io_done);
		return;
	case NVME_NVM_WRITE_ZEROES:
		execute_zeroes(req, ns, now);
		return;
	case NVME_NVM_DATASET_MANAGEMENT:
		dsm_execute(req, ns, now);
		return;
	default:
		/* nvmf_io_received() rejects other opcodes */
		must(false);
	}
}

/* The device holds NVMF_NS_PARKED_MAX commands that were given up, so another one would most likely hang too. */
static COLD void refuse_for_device(struct nvmf_req *req, const struct nvmf_group_ns *ns, uint64_t now)
{
	probe_nvmf_ns_refuses(now, req->qpair, req->cmd.cid, req->cmd.nsid, ns->parked);
	nvmf_req_complete(req, NVME_SC_NAMESPACE_NOT_READY, now);
}

void nvmf_io_execute(struct nvmf_req *req, uint64_t now)
{
	struct nvmf_group_subsystem *part = req->qpair->subsystem;
	struct nvmf_group_ns *ns;

	if (unlikely(!part->active)) {
		nvmf_req_wait(req, now);
		return;
	}
	ns = nvmf_group_ns(part, req->cmd.nsid);
	if (unlikely(!ns)) {
		nvmf_req_complete(req, NVME_SC_INVALID_NAMESPACE, now);
		return;
	}
	/*
	 * The namespace was replaced since the command was received, and its buffer does not suit the new device: it is the
	 * shared page of zeroes, or the receive buffer. The host must retry.
	 */
	if (unlikely(req->reads_zeroes > ns->reads_zeroes || req->inline_done > ns->inline_done)) {
		nvmf_req_complete(req, NVME_SC_COMMAND_INTERRUPTED, now);
		return;
	}
	if (unlikely(ns->parked >= NVMF_NS_PARKED_MAX)) {
		refuse_for_device(req, ns, now);
		return;
	}
	nvmf_req_count(req);
	ns->outstanding++;
	req->ns = ns;
	req->channel = ns->channel;
	req->stage = STAGE_FIRST;
	req->io.parent = &req->story.trace;
	if (likely(req->cmd.opc == NVME_NVM_READ))
		execute_read(req, ns, now);
	else if (likely(req->cmd.opc == NVME_NVM_WRITE))
		execute_write(req, ns, now);
	else
		execute_other(req, ns, now);
}
