/* SPDX-License-Identifier: BSD-2-Clause */
#include "inspect/replay/operation.h"

#include <stdlib.h>

#include "base/must.h"

static const struct {
	const char *name, *plural;
} kinds[] = {
	[REPLAY_READ] = { "read", "reads" },
	[REPLAY_WRITE] = { "write", "writes" },
	[REPLAY_FLUSH] = { "flush", "flushes" },
	[REPLAY_UNMAP] = { "unmap", "unmaps" },
	[REPLAY_ZEROES] = { "write_zeroes", "writes of zeroes" },
	[REPLAY_COMPARE] = { "compare", "compares" },
};
static_assert(ARRAY_COUNT(kinds) == REPLAY_KINDS, "each kind has its names");

const char *replay_kind_name(unsigned int kind)
{
	must(kind < REPLAY_KINDS);
	return kinds[kind].name;
}

const char *replay_kind_plural(unsigned int kind)
{
	must(kind < REPLAY_KINDS);
	return kinds[kind].plural;
}

bool replay_operation_is_valid(const struct replay_operation *operation, uint32_t queue_count, uint32_t device_count)
{
	if (operation->kind >= REPLAY_KINDS || operation->queue >= queue_count || operation->device >= device_count)
		return false;
	if (operation->start_ns > REPLAY_TIME_NS_MAX || operation->block > REPLAY_BLOCK_MAX)
		return false;
	if (operation->latency_ns != REPLAY_NO_LATENCY && operation->latency_ns > REPLAY_TIME_NS_MAX)
		return false;
	if (operation->device_known &&
	    (operation->latency_ns == REPLAY_NO_LATENCY || operation->device_ns > operation->latency_ns))
		return false;
	if (operation->kind == REPLAY_FLUSH)
		return operation->block == 0 && operation->blocks == 0;
	return operation->blocks >= 1 && operation->blocks <= REPLAY_BLOCKS_MAX;
}

void replay_summary_deinit(struct replay_summary *summary)
{
	free(summary->queues);
	free(summary->devices);
	summary->queues = NULL;
	summary->devices = NULL;
	summary->queue_count = summary->device_count = 0;
}
