/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Block devices with fault injection. Beyond SPDK's error types there are drop, swap, stale and delay, for tests of data
 * verification. An error may be random ("one_in") and start after some I/O ("skip").
 *
 * A configuration saves the create call, not the injected errors, as in SPDK. So a restarted engine injects none.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <uuid/uuid.h>

#include "base/bits.h"
#include "base/clock.h"
#include "data/engine/internal.h"
#include "data/engine/methods.gen.h"
#include "data/store/bdev/bdev.h"
#include "data/store/filter/filter.h"

static void reply_deleted(void *request)
{
	rpc_reply(request, NULL);
}

void method_bdev_error_create(struct rpc_request *request, const struct bdev_error_create_params *p)
{
	struct filter_options options = {
		.base_name = p->base_name,
		.seed = p->seed,
		.keep_versions = p->keep_versions,
	};
	char name[BDEV_NAME_BYTES_MAX + 8]; /* longer than a name may be, so a name too long is rejected, not truncated */
	struct fathom_fault why;
	int rc;

	snprintf(name, sizeof(name), "EE_%s", p->base_name);
	options.name = p->name ? p->name : name;
	uuid_copy(options.uuid, p->uuid);
	rc = filter_create(&options, &why);
	if (rc)
		rpc_error_errno(request, rc, why.text);
	else
		rpc_reply(request, json_text(options.name));
}

void method_bdev_error_delete(struct rpc_request *request, const struct bdev_error_delete_params *p)
{
	int rc = filter_delete(p->name, reply_deleted, request);

	if (rc)
		rpc_error_errno(request, rc, p->name);
}

static const uint32_t type_bits[] = {
	[RPC_IO_TYPE_CLEAR] = UINT32_MAX,
	[RPC_IO_TYPE_READ] = BIT(IO_TYPE_READ),
	[RPC_IO_TYPE_WRITE] = BIT(IO_TYPE_WRITE) | BIT(IO_TYPE_WRITE_ZEROES),
	[RPC_IO_TYPE_UNMAP] = BIT(IO_TYPE_UNMAP),
	[RPC_IO_TYPE_FLUSH] = BIT(IO_TYPE_FLUSH),
	[RPC_IO_TYPE_ALL] = UINT32_MAX & ~(uint32_t)BIT(IO_TYPE_RESET),
};

static const enum filter_effect effects[] = {
	[RPC_ERROR_TYPE_FAILURE] = FILTER_FAIL,	   [RPC_ERROR_TYPE_NVME_FAILURE] = FILTER_FAIL,
	[RPC_ERROR_TYPE_PENDING] = FILTER_PENDING, [RPC_ERROR_TYPE_CORRUPT_DATA] = FILTER_CORRUPT,
	[RPC_ERROR_TYPE_NOMEM] = FILTER_REFUSE,	   [RPC_ERROR_TYPE_DROP] = FILTER_DROP,
	[RPC_ERROR_TYPE_SWAP] = FILTER_SWAP,	   [RPC_ERROR_TYPE_STALE] = FILTER_STALE,
	[RPC_ERROR_TYPE_DELAY] = FILTER_DELAY,
};

/* The I/O status that the target maps to this NVMe status; IO_FAILED if there is none. */
static enum io_status status_of(uint32_t sct, uint32_t sc)
{
	static const struct {
		uint8_t sct, sc;
		enum io_status status;
	} rows[] = {
		{ 0, 0x01, IO_UNSUPPORTED }, { 0, 0x02, IO_INVALID },	 { 0, 0x07, IO_ABORTED },
		{ 0, 0x81, IO_NO_SPACE },    { 0, 0x20, IO_READ_ONLY },	 { 2, 0x81, IO_MEDIA_ERROR },
		{ 2, 0x80, IO_MEDIA_ERROR }, { 2, 0x85, IO_MISCOMPARE }, { 2, 0x86, IO_NOT_PERMITTED },
	};

	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		if (rows[i].sct == sct && rows[i].sc == sc)
			return rows[i].status;
	}
	return IO_FAILED;
}

static struct filter_rule make_rule(const struct bdev_error_inject_error_params *p)
{
	must((size_t)p->io_type < ARRAY_COUNT(type_bits));
	must((size_t)p->error_type < ARRAY_COUNT(effects));
	return (struct filter_rule){
		.types = type_bits[p->io_type],
		.effect = effects[p->error_type],
		.one_in = p->one_in,
		.skip = p->skip,
		.count = p->num,
		.status = p->error_type == RPC_ERROR_TYPE_NVME_FAILURE ? status_of(p->nvme_sct, p->nvme_sc) : IO_FAILED,
		.delay_ns = p->delay_us * NS_PER_US,
		.corrupt_offset = p->corrupt_offset,
		.corrupt_value = p->corrupt_value,
	};
}

void method_bdev_error_inject_error(struct rpc_request *request, const struct bdev_error_inject_error_params *p)
{
	struct filter_rule rule;
	struct fathom_fault why;
	int rc;

	if (p->io_type == RPC_IO_TYPE_CLEAR) {
		rc = filter_clear(p->name, type_bits[RPC_IO_TYPE_CLEAR]);
		if (rc)
			rpc_error_errno(request, rc, p->name);
		else
			rpc_reply(request, NULL);
		return;
	}
	rule = make_rule(p);
	rc = filter_inject(p->name, &rule, &why);
	if (rc)
		rpc_error_errno(request, rc, why.text);
	else
		rpc_reply(request, NULL);
}
