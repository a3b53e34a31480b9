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
#include "data/store/bdev/bdev.h"
#include "data/store/filter/filter.h"

static void gone(void *request)
{
	rpc_reply(request, NULL);
}

struct error_create_params {
	const char *base_name, *name, *uuid;
	uint64_t seed;
	bool keep_versions;
};

static const struct rpc_param create_fields[] = {
	RPC_PARAM_STRING("base_name", error_create_params, base_name, true),
	RPC_PARAM_STRING("uuid", error_create_params, uuid, false),
	RPC_PARAM_STRING("name", error_create_params, name, false),
	RPC_PARAM_U64("seed", error_create_params, seed, false),
	RPC_PARAM_BOOL("keep_versions", error_create_params, keep_versions, false),
	RPC_PARAM_END,
};

static void bdev_error_create(struct rpc_request *request, const json_t *params)
{
	struct error_create_params p = { 0 };
	struct filter_options options = { 0 };
	char name[BDEV_NAME_BYTES_MAX + 8]; /* longer than a name may be, so a name too long is rejected, not truncated */
	struct fathom_fault why;
	int rc;

	if (!rpc_params(request, params, create_fields, &p))
		return;
	if (p.uuid && uuid_parse(p.uuid, options.uuid) != 0) {
		rpc_error(request, RPC_CODE_INVALID_PARAMETERS, "Invalid parameters: \"uuid\" is \"%.64s\", not a UUID",
			  p.uuid);
		return;
	}
	snprintf(name, sizeof(name), "EE_%s", p.base_name);
	options.name = p.name ? p.name : name;
	options.base_name = p.base_name;
	options.seed = p.seed;
	options.keep_versions = p.keep_versions;
	rc = filter_create(&options, &why);
	if (rc)
		rpc_error_errno(request, rc, why.text);
	else
		rpc_reply(request, json_text(options.name));
}

struct error_name_params {
	const char *name;
};

static const struct rpc_param delete_fields[] = {
	RPC_PARAM_STRING("name", error_name_params, name, true),
	RPC_PARAM_END,
};

static void bdev_error_delete(struct rpc_request *request, const json_t *params)
{
	struct error_name_params p = { 0 };
	int rc;

	if (!rpc_params(request, params, delete_fields, &p))
		return;
	rc = filter_delete(p.name, gone, request);
	if (rc)
		rpc_error_errno(request, rc, p.name);
}

static const char *const io_types[] = { "clear", "read", "write", "unmap", "flush", "all", NULL };
enum { IO_CLEAR, IO_READ, IO_WRITE, IO_UNMAP, IO_FLUSH, IO_ALL };
static const uint32_t type_bits[] = {
	[IO_CLEAR] = UINT32_MAX,
	[IO_READ] = BIT(IO_TYPE_READ),
	[IO_WRITE] = BIT(IO_TYPE_WRITE) | BIT(IO_TYPE_WRITE_ZEROES),
	[IO_UNMAP] = BIT(IO_TYPE_UNMAP),
	[IO_FLUSH] = BIT(IO_TYPE_FLUSH),
	[IO_ALL] = UINT32_MAX & ~(uint32_t)BIT(IO_TYPE_RESET),
};

static const char *const error_types[] = {
	"failure", "nvme_failure", "pending", "corrupt_data", "nomem", "drop", "swap", "stale", "delay", NULL,
};
enum { ERROR_FAILURE, ERROR_NVME_FAILURE };
static const enum filter_effect effects[] = {
	FILTER_FAIL, FILTER_FAIL, FILTER_PENDING, FILTER_CORRUPT, FILTER_REFUSE,
	FILTER_DROP, FILTER_SWAP, FILTER_STALE,	  FILTER_DELAY,
};
static_assert(ARRAY_COUNT(effects) == ARRAY_COUNT(error_types) - 1, "an effect for each name");

struct inject_params {
	const char *name;
	int io_type, error_type;
	uint32_t nvme_sct, nvme_sc, num, one_in;
	uint64_t queue_depth, corrupt_offset, skip, delay_us;
	uint8_t corrupt_value;
};

static const struct rpc_param inject_fields[] = {
	RPC_PARAM_STRING("name", inject_params, name, true),
	RPC_PARAM_ENUM("io_type", inject_params, io_type, true, io_types),
	RPC_PARAM_ENUM("error_type", inject_params, error_type, true, error_types),
	RPC_PARAM_U32("nvme_sct", inject_params, nvme_sct, false),
	RPC_PARAM_U32("nvme_sc", inject_params, nvme_sc, false),
	RPC_PARAM_U32("num", inject_params, num, false),
	RPC_PARAM_U64("queue_depth", inject_params, queue_depth, false),
	RPC_PARAM_U64("corrupt_offset", inject_params, corrupt_offset, false),
	RPC_PARAM_U8("corrupt_value", inject_params, corrupt_value, false),
	RPC_PARAM_U32("one_in", inject_params, one_in, false),
	RPC_PARAM_U64("skip", inject_params, skip, false),
	RPC_PARAM_U64("delay_us", inject_params, delay_us, false),
	RPC_PARAM_END,
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

static void bdev_error_inject_error(struct rpc_request *request, const json_t *params)
{
	struct inject_params p = { .num = 1, .one_in = 1 };
	struct filter_rule rule = { 0 };
	struct fathom_fault why;
	int rc;

	if (!rpc_params(request, params, inject_fields, &p))
		return;
	if (p.queue_depth) {
		rpc_error(request, RPC_CODE_INVALID_PARAMETERS, "Invalid parameters: \"queue_depth\" can only be 0 here");
		return;
	}
	if (p.io_type == IO_CLEAR) {
		rc = filter_clear(p.name, type_bits[IO_CLEAR]);
		if (rc)
			rpc_error_errno(request, rc, p.name);
		else
			rpc_reply(request, NULL);
		return;
	}
	rule.types = type_bits[p.io_type];
	rule.effect = effects[p.error_type];
	rule.one_in = p.one_in;
	rule.skip = p.skip;
	rule.count = p.num;
	rule.status = p.error_type == ERROR_NVME_FAILURE ? status_of(p.nvme_sct, p.nvme_sc) : IO_FAILED;
	rule.delay_ns = p.delay_us * NS_PER_US;
	rule.corrupt_offset = p.corrupt_offset;
	rule.corrupt_value = p.corrupt_value;
	rc = filter_inject(p.name, &rule, &why);
	if (rc)
		rpc_error_errno(request, rc, why.text);
	else
		rpc_reply(request, NULL);
}

static const struct rpc_method methods[] = {
	{ "bdev_error_create", RPC_RUNTIME, bdev_error_create },
	{ "bdev_error_delete", RPC_RUNTIME, bdev_error_delete },
	{ "bdev_error_inject_error", RPC_RUNTIME, bdev_error_inject_error },
};

void rpc_bdev_error_register(void)
{
	rpc_register(methods, ARRAY_COUNT(methods));
}
