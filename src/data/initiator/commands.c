/* SPDX-License-Identifier: BSD-2-Clause */
/* commands - the NVM command set's, 64 bytes each. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "data/initiator/internal.h"
#include "data/nvme/names.h"
#include "data/nvme/opcode.h"
#include "data/nvme/status.h"

enum { BLOCKS_MAX = NVME_CDW12_NLB_MASK + 1 };
static_assert(sizeof(struct fathom_dsm_range) == sizeof(struct nvme_dsm_range), "");
static_assert(offsetof(struct fathom_dsm_range, lba) == offsetof(struct nvme_dsm_range, slba), "");
static_assert((int)FATHOM_DSM_RANGES_MAX == (int)NVME_DSM_RANGES_MAX, "");

static inline bool is_block_count(uint32_t blocks)
{
	return blocks > 0 && blocks <= BLOCKS_MAX;
}

/* Valid only if is_block_count(blocks). */
static inline struct nvme_command block_command(uint8_t opcode, uint32_t nsid, uint64_t lba, uint32_t blocks)
{
	return (struct nvme_command){
		.opc = opcode,
		.nsid = nsid,
		.cdw10 = (uint32_t)lba,
		.cdw11 = (uint32_t)(lba >> 32),
		.cdw12 = blocks - 1,
	};
}

int fathom_read(struct fathom_qpair *qpair, uint32_t nsid, uint64_t lba, uint32_t blocks, const struct iovec *iov,
		int iov_count, fathom_done_fn done, void *ctx)
{
	struct nvme_command command = block_command(NVME_NVM_READ, nsid, lba, blocks);

	return is_block_count(blocks) ? qpair_submit(qpair, &command, iov, iov_count, done, ctx) : -EINVAL;
}

int fathom_write(struct fathom_qpair *qpair, uint32_t nsid, uint64_t lba, uint32_t blocks, const struct iovec *iov,
		 int iov_count, fathom_done_fn done, void *ctx)
{
	struct nvme_command command = block_command(NVME_NVM_WRITE, nsid, lba, blocks);

	return is_block_count(blocks) ? qpair_submit(qpair, &command, iov, iov_count, done, ctx) : -EINVAL;
}

int fathom_compare(struct fathom_qpair *qpair, uint32_t nsid, uint64_t lba, uint32_t blocks, const struct iovec *iov,
		   int iov_count, fathom_done_fn done, void *ctx)
{
	struct nvme_command command = block_command(NVME_NVM_COMPARE, nsid, lba, blocks);

	return is_block_count(blocks) ? qpair_submit(qpair, &command, iov, iov_count, done, ctx) : -EINVAL;
}

int fathom_write_zeroes(struct fathom_qpair *qpair, uint32_t nsid, uint64_t lba, uint32_t blocks, bool deallocate,
			fathom_done_fn done, void *ctx)
{
	struct nvme_command command = block_command(NVME_NVM_WRITE_ZEROES, nsid, lba, blocks);

	if (deallocate)
		command.cdw12 |= NVME_CDW12_DEAC;
	return is_block_count(blocks) ? qpair_submit(qpair, &command, NULL, 0, done, ctx) : -EINVAL;
}

int fathom_flush(struct fathom_qpair *qpair, uint32_t nsid, fathom_done_fn done, void *ctx)
{
	struct nvme_command command = { .opc = NVME_NVM_FLUSH, .nsid = nsid };

	return qpair_submit(qpair, &command, NULL, 0, done, ctx);
}

int fathom_deallocate(struct fathom_qpair *qpair, uint32_t nsid, const struct iovec *iov, fathom_done_fn done, void *ctx)
{
	struct nvme_command command = { .opc = NVME_NVM_DATASET_MANAGEMENT, .nsid = nsid, .cdw11 = NVME_DSM_CDW11_AD };
	size_t ranges = iov->iov_len / sizeof(struct fathom_dsm_range);

	if (ranges == 0 || ranges > FATHOM_DSM_RANGES_MAX || iov->iov_len % sizeof(struct fathom_dsm_range) != 0)
		return -EINVAL;
	command.cdw10 = (uint32_t)(ranges - 1);
	return qpair_submit(qpair, &command, iov, 1, done, ctx);
}

const char *fathom_status_name(uint16_t status)
{
	return nvme_status_name(status);
}

const char *fathom_completion_text(const struct fathom_completion *completion, char *text, size_t text_bytes)
{
	if (completion->error == -EBADMSG)
		snprintf(text, text_bytes, "the data digest was wrong");
	else if (completion->error == -ENODATA)
		snprintf(text, text_bytes, "success with no more than %u bytes of data", completion->data_bytes);
	else if (completion->error)
		snprintf(text, text_bytes, "connection lost: %s", strerror(-completion->error));
	else
		snprintf(text, text_bytes, "status 0x%03x %s", completion->status, nvme_status_name(completion->status));
	return text;
}
