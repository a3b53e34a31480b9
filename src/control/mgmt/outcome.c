/* SPDX-License-Identifier: BSD-2-Clause */
/* What has become of an operation on ranks, as events: the ranks that are where the operator wants them, and the others. */
#include "control/mgmt/internal.h"

const char *mgmt_participle(const struct mgmt_operation *operation)
{
	return operation->is_stop ? "stopped" : operation->is_erase ? "erased" : "started";
}

static void raise_failures(const struct mgmt_operation *operation)
{
	struct mgmt *mgmt = operation->mgmt;
	struct ras_event event;
	uint32_t failed = 0, first = 0;

	for (size_t i = operation->count; i-- > 0;) {
		if (operation->ranks[i].errored) {
			failed++;
			first = (uint32_t)i;
		}
	}
	mgmt->stats.rank_failures += failed;
	if (failed == 0 || operation->is_erase)
		return;
	ras_event_init(&event, operation->is_stop ? RAS_SYSTEM_STOP_FAILED : RAS_SYSTEM_START_FAILED,
		       "%u of %zu ranks could not be %s; rank %u: %.60s", failed, operation->count,
		       mgmt_participle(operation), operation->ranks[first].rank, operation->ranks[first].message);
	mgmt_raise(mgmt, &event);
}

static const struct {
	enum ras_id id;
	const char *operation;
} endings[] = {
	{ RAS_SYSTEM_STARTED, "system start" },
	{ RAS_SYSTEM_STOPPED, "system stop" },
	{ RAS_SYSTEM_ERASED, "system erase" },
};

/* Those that are where the operator wants them, and who wanted it. */
static void tell_done(const struct mgmt_operation *operation)
{
	size_t ending = operation->is_erase ? 2 : operation->is_stop ? 1 : 0;
	struct rank_set done = { 0 };
	char ranks[MGMT_RANKS_BYTES];
	int error = 0;

	for (size_t i = 0; !error && i < operation->count; i++) {
		if (!operation->ranks[i].errored)
			error = rank_set_add(&done, operation->ranks[i].rank);
	}
	if (done.count > 0)
		mgmt_tell(operation->mgmt, endings[ending].id, endings[ending].operation, operation->who, "%s %s %s",
			  mgmt_ranks_text(&done, ranks), done.count == 1 ? "was" : "were", mgmt_participle(operation));
	rank_set_deinit(&done);
}

void mgmt_tell_outcome(const struct mgmt_operation *operation)
{
	tell_done(operation);
	raise_failures(operation);
}
