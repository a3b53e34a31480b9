/* SPDX-License-Identifier: BSD-2-Clause */
/* Block devices: their list, their part of the configuration, and methods that are no-ops here. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uuid/uuid.h>

#include "base/bits.h"
#include "base/clock.h"
#include "data/engine/internal.h"
#include "data/engine/methods.gen.h"
#include "base/reactor/reactor.h"
#include "data/store/bdev/bdev.h"

/* ---- one device as JSON ---- */

static void visit_string(void *ctx, const char *key, const char *value)
{
	json_put(ctx, key, json_text(value));
}

/* Numbers above JSON's integer range become a string of digits, which RPC_U64 accepts. */
static void visit_number(void *ctx, const char *key, uint64_t value)
{
	char digits[24];

	snprintf(digits, sizeof(digits), "%" PRIu64, value);
	json_put(ctx, key, value > INT64_MAX ? json_string(digits) : json_integer((json_int_t)value));
}

static void visit_boolean(void *ctx, const char *key, bool value)
{
	json_put(ctx, key, json_boolean(value));
}

static json_t *uuid_text(const uint8_t uuid[16])
{
	char text[37];

	uuid_unparse_lower(uuid, text);
	return json_string(text);
}

static json_t *supported_io_types(const struct bdev *bdev)
{
	static const struct {
		const char *name;
		int type; /* -1: never */
	} types[] = {
		{ "read", IO_TYPE_READ },
		{ "write", IO_TYPE_WRITE },
		{ "unmap", IO_TYPE_UNMAP },
		{ "flush", IO_TYPE_FLUSH },
		{ "reset", IO_TYPE_RESET },
		{ "nvme_admin", -1 },
		{ "nvme_io", -1 },
		{ "nvme_io_md", -1 },
		{ "write_zeroes", IO_TYPE_WRITE_ZEROES },
		{ "zcopy", -1 },
		{ "get_zone_info", -1 },
		{ "zone_management", -1 },
		{ "zone_append", -1 },
		{ "compare", IO_TYPE_COMPARE },
		{ "compare_and_write", -1 },
		{ "abort", -1 },
		{ "seek_hole", -1 },
		{ "seek_data", -1 },
		{ "copy", -1 },
		{ "nvme_iov_md", -1 },
		{ "nvme_nssr", -1 },
		{ "write_uncorrectable", -1 },
	};
	json_t *object = json_made(json_object());

	for (size_t i = 0; i < ARRAY_COUNT(types); i++)
		json_put(object, types[i].name,
			 json_boolean(types[i].type >= 0 && bdev_supports(bdev, (enum io_type)types[i].type)));
	return object;
}

static json_t *driver_specific(const struct bdev *bdev)
{
	json_t *object = json_made(json_object()), *inner;

	if (bdev->ops->driver && bdev->ops->describe_driver) {
		inner = json_made(json_object());
		bdev->ops->describe_driver(bdev,
					   &(struct bdev_visitor){ inner, visit_string, visit_number, visit_boolean });
		json_put(object, bdev->ops->driver, inner);
	}
	return object;
}

static json_t *bdev_json(const struct bdev *bdev)
{
	static const char *const limits[] = { "rw_ios_per_sec", "rw_mbytes_per_sec", "r_mbytes_per_sec",
					      "w_mbytes_per_sec" };
	json_t *object = json_made(json_object()), *aliases = json_made(json_array()), *rates = json_made(json_object());

	json_add(aliases, uuid_text(bdev->uuid));
	for (size_t i = 0; i < ARRAY_COUNT(limits); i++)
		json_put(rates, limits[i], json_integer(0));
	json_put(object, "name", json_text(bdev->name));
	json_put(object, "aliases", aliases);
	json_put(object, "product_name", json_string(bdev->product));
	json_put(object, "block_size", json_integer(bdev->block_bytes));
	json_put(object, "num_blocks", json_integer((json_int_t)bdev->block_count));
	json_put(object, "preferred_write_alignment", json_integer(0));
	json_put(object, "preferred_write_granularity", json_integer(0));
	json_put(object, "optimal_write_size", json_integer(0));
	json_put(object, "preferred_unmap_alignment", json_integer(0));
	json_put(object, "preferred_unmap_granularity", json_integer(0));
	json_put(object, "uuid", uuid_text(bdev->uuid));
	json_put(object, "assigned_rate_limits", rates);
	json_put(object, "claimed", json_boolean(bdev->claimed));
	if (bdev->claimed)
		json_put(object, "claim_type", json_string("exclusive_write"));
	json_put(object, "zoned", json_false());
	json_put(object, "supported_io_types", supported_io_types(bdev));
	json_put(object, "driver_specific", driver_specific(bdev));
	return object;
}

/* By name or UUID, as in all of SPDK's methods. */
struct bdev *bdev_by_name(const char *name)
{
	struct bdev *bdev = bdev_find(name);
	uuid_t uuid;

	if (bdev || uuid_parse(name, uuid) != 0)
		return bdev;
	for (bdev = bdev_first(); bdev; bdev = bdev_next(bdev)) {
		if (memcmp(bdev->uuid, uuid, sizeof(uuid)) == 0)
			return bdev;
	}
	return NULL;
}

/* ---- bdev_get_bdevs, which may wait for one to appear ---- */

enum { WAIT_PERIOD_MS = 10 };

struct bdev_wait {
	struct rpc_request *request;
	struct poller *poller;
	uint64_t until_ns;
	char name[BDEV_NAME_BYTES_MAX];
	TAILQ_ENTRY(bdev_wait) link;
};
static TAILQ_HEAD(, bdev_wait) waits = TAILQ_HEAD_INITIALIZER(waits);

static void reply_one(struct rpc_request *request, const struct bdev *bdev)
{
	json_t *list = json_made(json_array());

	json_add(list, bdev_json(bdev));
	rpc_reply(request, list);
}

static void end_wait(struct bdev_wait *wait, const struct bdev *bdev)
{
	struct rpc_request *request = wait->request;
	char name[BDEV_NAME_BYTES_MAX];

	memcpy(name, wait->name, sizeof(name));
	poller_unregister(&wait->poller);
	TAILQ_REMOVE(&waits, wait, link);
	free(wait);
	if (bdev)
		reply_one(request, bdev);
	else
		rpc_error_errno(request, -ENODEV, name);
}

static int poll_wait(void *ctx)
{
	struct bdev_wait *wait = ctx;
	const struct bdev *bdev = bdev_by_name(wait->name);

	if (!bdev && clock_monotonic_ns() < wait->until_ns)
		return 0;
	end_wait(wait, bdev);
	return 1;
}

void bdev_waits_cancel(void)
{
	struct bdev_wait *wait;

	while ((wait = TAILQ_FIRST(&waits)))
		end_wait(wait, NULL);
}

static void start_wait(struct rpc_request *request, const char *name, uint64_t timeout_ms)
{
	struct bdev_wait *wait = calloc(1, sizeof(*wait));

	must(wait);
	wait->request = request;
	wait->until_ns = clock_monotonic_ns() + min_u64(timeout_ms, UINT32_MAX) * NS_PER_MS;
	strncpy(wait->name, name, sizeof(wait->name) - 1); /* a truncated name matches no device */
	wait->poller = poller_register("bdev_wait", poll_wait, wait, WAIT_PERIOD_MS * NS_PER_MS);
	must(wait->poller);
	TAILQ_INSERT_TAIL(&waits, wait, link);
}

void method_bdev_get_bdevs(struct rpc_request *request, const struct bdev_get_bdevs_params *p)
{
	struct bdev *bdev;
	json_t *list;

	if (p->name) {
		bdev = bdev_by_name(p->name);
		if (bdev)
			reply_one(request, bdev);
		else if (p->timeout > 0)
			start_wait(request, p->name, p->timeout);
		else
			rpc_error_errno(request, -ENODEV, p->name);
		return;
	}
	list = json_made(json_array());
	for (bdev = bdev_first(); bdev; bdev = bdev_next(bdev))
		json_add(list, bdev_json(bdev));
	rpc_reply(request, list);
}

/* ---- no-ops: devices are not examined for devices inside them, and pool sizes follow from limits ---- */

void method_bdev_examine(struct rpc_request *request, const struct bdev_examine_params *unused)
{
	rpc_reply(request, NULL);
}

void method_bdev_wait_for_examine(struct rpc_request *request)
{
	rpc_reply(request, NULL);
}

void method_bdev_set_options(struct rpc_request *request, const struct bdev_set_options_params *unused)
{
	rpc_reply(request, NULL);
}

/* ---- configuration ---- */

void bdev_config(json_t *calls)
{
	for (struct bdev *bdev = bdev_first(); bdev; bdev = bdev_next(bdev)) {
		json_t *params;

		if (!bdev->ops->create_method) /* a volume: the storage holds it */
			continue;
		params = json_made(json_object());
		must(bdev->ops->describe_config);
		bdev->ops->describe_config(bdev,
					   &(struct bdev_visitor){ params, visit_string, visit_number, visit_boolean });
		config_add(calls, bdev->ops->create_method, params);
	}
	config_add(calls, "bdev_wait_for_examine", NULL);
}
