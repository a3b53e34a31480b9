/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * answers - the calls of the control socket that give evidence. None changes anything. Those for which the target sends
 * messages to its cores stand last: they may not return.
 */
#include "base/bits.h"
#include "inspect/doctor/doctor.h"

static const struct doctor_call calls[] = {
	{ .key = "version", .method = "spdk_get_version" },
	{ .key = "reactors", .method = "framework_get_reactors", .walks = true },
	{ .key = "iostat_before", .method = "bdev_get_iostat", .walks = true },
	{ .key = "threads_before", .method = "thread_get_stats", .walks = true },
	{ .key = "control", .method = "framework_get_control" },
	{ .key = "pools", .method = "pool_get_pools" },
	{ .key = "volumes", .method = "volume_get_volumes" },
	{ .key = "devices", .method = "bdev_get_bdevs" },
	{ .key = "subsystems", .method = "nvmf_get_subsystems" },
	{ .key = "trace", .method = "trace_get_info" },
	{ .key = "iostat", .method = "bdev_get_iostat", .second = true, .walks = true },
	{ .key = "threads", .method = "thread_get_stats", .walks = true },
	{ .key = "poll_groups", .method = "nvmf_get_stats", .cores = true },
};

bool doctor_call_at(uint32_t index, struct doctor_call *call_ret)
{
	if (index >= ARRAY_COUNT(calls))
		return false;
	*call_ret = calls[index];
	return true;
}
