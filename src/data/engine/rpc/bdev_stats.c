/* SPDX-License-Identifier: BSD-2-Clause */
/* bdev_get_iostat and bdev_reset_iostat. They read the counters of all channels directly, without messages. */
#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "data/engine/internal.h"
#include "data/engine/methods.gen.h"
#include "data/store/bdev/bdev.h"

enum { IOSTAT_NAMES_MAX = 1024 };

static_assert((int)RPC_RESET_MODE_ALL == (int)STATS_RESET_ALL, "the table has the modes in the order of enum stats_reset");
static_assert((int)RPC_RESET_MODE_MAXMIN == (int)STATS_RESET_MAXMIN, "likewise");
static_assert((int)RPC_RESET_MODE_ERROR == (int)STATS_RESET_ERROR, "likewise");
static_assert((int)RPC_RESET_MODE_NONE == (int)STATS_RESET_NONE, "likewise");

static void put_number(json_t *object, const char *key, uint64_t number)
{
	json_put(object, key, json_integer((json_int_t)number));
}

static json_t *errors_json(const struct bdev_stats *s)
{
	json_t *object = json_made(json_object());

	for (int i = 0; i < BDEV_STATUSES_MAX; i++) {
		if (s->errors[i] > 0 && i != IO_SUCCESS)
			put_number(object, io_status_name((enum io_status)i), s->errors[i]);
	}
	return object;
}

static void put_stats(json_t *object, const struct bdev_stats *s)
{
	put_number(object, "bytes_read", s->bytes_read);
	put_number(object, "num_read_ops", s->read_ops);
	put_number(object, "bytes_written", s->bytes_written);
	put_number(object, "num_write_ops", s->write_ops);
	put_number(object, "bytes_unmapped", s->bytes_unmapped);
	put_number(object, "num_unmap_ops", s->unmap_ops);
	put_number(object, "bytes_copied", 0);
	put_number(object, "num_copy_ops", 0);
	put_number(object, "read_latency_ticks", s->read_latency_ticks);
	put_number(object, "max_read_latency_ticks", s->read_latency_ticks_max);
	put_number(object, "min_read_latency_ticks", s->read_latency_ticks_min);
	put_number(object, "write_latency_ticks", s->write_latency_ticks);
	put_number(object, "max_write_latency_ticks", s->write_latency_ticks_max);
	put_number(object, "min_write_latency_ticks", s->write_latency_ticks_min);
	put_number(object, "unmap_latency_ticks", s->unmap_latency_ticks);
	put_number(object, "max_unmap_latency_ticks", s->unmap_latency_ticks_max);
	put_number(object, "min_unmap_latency_ticks", s->unmap_latency_ticks_min);
	put_number(object, "copy_latency_ticks", 0);
	put_number(object, "max_copy_latency_ticks", 0);
	put_number(object, "min_copy_latency_ticks", 0);
	put_number(object, "queue_depth", s->queue_depth);
	json_put(object, "io_error", errors_json(s));
}

static json_t *bdev_stats_json(struct bdev *bdev, enum stats_reset reset)
{
	json_t *object = json_made(json_object());
	struct bdev_stats stats;

	bdev_stats_get(bdev, reset, &stats);
	json_put(object, "name", json_text(bdev->name));
	put_stats(object, &stats);
	return object;
}

static void add_channel(void *ctx, uint64_t thread_id, const struct bdev_stats *stats)
{
	json_t *object = json_made(json_object());

	put_number(object, "thread_id", thread_id);
	put_stats(object, stats);
	json_add(ctx, object);
}

/* False: an entry is not a string, or names no device; an error reply has been sent. */
static bool check_names(struct rpc_request *request, const struct bdev_get_iostat_params *p)
{
	json_t *name;
	size_t i;

	if (p->names && !json_is_array(p->names)) {
		rpc_error(request, RPC_CODE_INVALID_PARAMETERS, "Invalid parameters: \"names\" is not a list");
		return false;
	}
	if (json_array_size(p->names) > IOSTAT_NAMES_MAX) {
		rpc_error(request, RPC_CODE_INVALID_PARAMETERS, "Invalid parameters: more than %d \"names\"",
			  IOSTAT_NAMES_MAX);
		return false;
	}
	json_array_foreach ((json_t *)p->names, i, name) {
		if (!json_is_string(name)) {
			rpc_error(request, RPC_CODE_INVALID_PARAMETERS,
				  "Invalid parameters: \"names\" has an element that is not a string");
			return false;
		}
		if (!bdev_by_name(json_string_value(name))) {
			rpc_error_errno(request, -ENODEV, json_string_value(name));
			return false;
		}
	}
	if (p->per_channel && json_array_size(p->names) != 1) {
		rpc_error(request, RPC_CODE_INVALID_PARAMETERS,
			  "Invalid parameters: \"per_channel\" needs exactly one name in \"names\"");
		return false;
	}
	return true;
}

void method_bdev_get_iostat(struct rpc_request *request, const struct bdev_get_iostat_params *p)
{
	struct bdev *bdev;
	json_t *result, *list, *name;
	size_t i;

	if (!check_names(request, p))
		return;
	result = json_made(json_object());
	list = json_made(json_array());
	put_number(result, "tick_rate", clock_tick_rate());
	put_number(result, "ticks", clock_ticks());
	if (p->per_channel) {
		bdev = bdev_by_name(json_string_value(json_array_get(p->names, 0)));
		json_put(result, "name", json_text(bdev->name));
		bdev_stats_walk(bdev, (enum stats_reset)p->reset_mode, add_channel, list);
	} else if (json_array_size(p->names) > 0) {
		json_array_foreach ((json_t *)p->names, i, name) {
			bdev = bdev_by_name(json_string_value(name));
			json_add(list, bdev_stats_json(bdev, (enum stats_reset)p->reset_mode));
		}
	} else {
		for (bdev = bdev_first(); bdev; bdev = bdev_next(bdev))
			json_add(list, bdev_stats_json(bdev, (enum stats_reset)p->reset_mode));
	}
	json_put(result, p->per_channel ? "channels" : "bdevs", list);
	rpc_reply(request, result);
}

void method_bdev_reset_iostat(struct rpc_request *request, const struct bdev_reset_iostat_params *p)
{
	struct bdev_stats stats;
	struct bdev *bdev;

	if (p->name && !bdev_by_name(p->name)) {
		rpc_error_errno(request, -ENODEV, p->name);
		return;
	}
	for (bdev = p->name ? bdev_by_name(p->name) : bdev_first(); bdev; bdev = p->name ? NULL : bdev_next(bdev))
		bdev_stats_get(bdev, (enum stats_reset)p->mode, &stats);
	rpc_reply(request, NULL);
}
